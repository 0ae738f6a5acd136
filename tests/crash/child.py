"""The process that is killed: lanes, upkeep and consumers on one file, and its reports to the parent.

Run as a program it is a nursery: a fresh interpreter that has imported everything and opened nothing. For each line of JSON on
its standard input it forks a child, or becomes the child itself if the line says so; fork() saves a third of a
second of imports for each kill. The nursery reaps its children only on request, so that their process ids are not reused.

A child reports through a FIFO, one message on each line. The parent gets everything that was written, even if the child dies.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import reactdb
from reactdb.database import Database
from reactdb.feeds import feed as _feed  # noqa: F401 (imported here, so that children need not)
from reactdb.feeds import hub as _hub  # noqa: F401
from reactdb.session import session_of

from . import broken
from .consumer import FEEDS, follow
from .lanes import ACCOUNT_COUNT, ACCOUNTS, EUROS, Holding, Lane, Say, Surprise, found
from .raw import look
from .settings import set_in_store

# A child that nobody kills gives up, so that nothing is left behind by a parent that died.
LONGEST_LIFE_S = 300.0
# What history may take under `retention="auto"`: less than any file has, so that there is always something to remove.
AUTO_BYTES = 10_000


class Teller:
    """Writes lines to the parent, whole and one after the other, from any thread."""

    def __init__(self, fifo: str) -> None:
        self._file = os.open(fifo, os.O_WRONLY)
        self._lock = threading.Lock()

    def __call__(self, message: dict[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            while line:
                line = line[os.write(self._file, line) :]


def live(config: dict[str, Any]) -> None:
    """One life. Returns only where something is wrong."""
    say = Teller(config["fifo"])
    say({"hello": True})
    try:
        broken.apply(config.get("mutant"))
        set_in_store("CHECKPOINT_BYTES", config["checkpoint_bytes"])
        if config["retention"] == "auto":
            set_in_store("LEAST_BYTES", AUTO_BYTES)
            set_in_store("RETAIN_EVERY", 10)
            set_in_store("CHUNK_CHANGES", 20)
        say = broken.teller(config.get("mutant"), say)
        say({"opening": True})
        (_open_and_close if config["revolving"] else _work)(config, say)
    except BrokenPipeError:
        pass
    except BaseException:
        say({"error": traceback.format_exc()})


def _connect(config: dict[str, Any]) -> Database:
    return reactdb.connect(config["path"], busy_timeout=60, retention=config["retention"])


def _lanes(config: dict[str, Any], db: Database, say: Say) -> list[Lane]:
    return [
        Lane(
            name,
            db,
            Holding.of_data(data),
            Random(f"{config['seed']}-{name}"),
            say,
            config["life"],
            is_sweeping=config["sweeping"],
        )
        for name, data in config["lanes"].items()
    ]


def _work(config: dict[str, Any], say: Say) -> None:
    db = _connect(config)
    say({"opened": db.seq})
    if config["found"]:
        found(db, say, config["life"])

    def forever(work: Callable[[], Any]) -> threading.Thread:
        def run() -> None:
            try:
                while True:
                    work()
            except BrokenPipeError:
                os._exit(0)
            except BaseException:
                say({"error": traceback.format_exc()})

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    for lane in _lanes(config, db, say):
        forever(lane.step)
    if config["consumers"]:
        for name in FEEDS:
            forever(lambda name=name: follow(db, name, Path(config["consumers"])))
    if config["upkeep"]:
        keeper = Keeper(db, Random(f"{config['seed']}-upkeep"), say, config["life"])
        forever(keeper.step)
    time.sleep(LONGEST_LIFE_S)
    say({"error": "nobody killed this process"})


def _open_and_close(config: dict[str, Any], say: Say) -> None:
    """Open, write a little, close: SQLite's checkpoint at the last close, and its recovery at the first."""
    random = Random(f"{config['seed']}-doors")
    end = time.monotonic() + LONGEST_LIFE_S
    lanes: list[Lane] = []
    while time.monotonic() < end:
        with _connect(config) as db:
            say({"opened": db.seq})
            lanes = lanes or _lanes(config, db, say)
            for _ in range(random.randrange(4)):
                lane = random.choice(lanes)
                lane.db = db
                lane.step()
            say({"kind": "close", "op": "close"})
        say({"done": "close", "seq": None})


class Keeper:
    """What is not a write: compaction, checkpoints, vacuum; and a reader who counts everybody's money."""

    def __init__(self, db: Database, random: Random, say: Say, life: str) -> None:
        self._db = db
        self._random = random
        self._say = say
        self._life = life
        self._count = 0
        self._pause = threading.Event()

    def step(self) -> None:
        self._count += 1
        op = f"upkeep-{self._life}.{self._count}"
        kind = self._random.choice(["compact"] * 6 + ["checkpoint"] * 3 + ["count"] * 4 + ["vacuum"])
        message: dict[str, Any] = {"op": op, "kind": kind}
        if kind == "compact":
            message["keep"] = self._random.choice([20, 100, 200, 400, 1_000])
        elif kind == "vacuum":
            message["keep"] = 1_000
        self._say(message)
        oldest = None
        if "keep" in message:
            oldest = self._db.compact(message["keep"], vacuum=kind == "vacuum")["oldest"]
        elif kind == "checkpoint":
            writer = session_of(self._db).engine.writable()
            writer.run_in_turn(writer.checkpoints.run)
        else:
            euros = [account["euros"] for account in self._db.table(ACCOUNTS).run()]
            if euros and sum(euros) != ACCOUNT_COUNT * EUROS:
                raise Surprise(f"a reader saw half of a transfer: {euros}")
        self._say({"done": op, "seq": None, "oldest": oldest})
        # Not all the time: writers have to get a turn.
        self._pause.wait(self._random.random() * 0.02)


def nursery() -> None:
    """See the head of this file."""
    # What is there now is never collected by a child: nothing that the children share is written to.
    gc.freeze()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        config = json.loads(line)
        answer: dict[str, Any] = {}
        if config["do"] == "reap":
            os.waitpid(config["pid"], 0)
        elif config["do"] == "become":
            live(config)
            return
        else:
            pid = os.fork()
            if pid == 0:
                answers.close()
                status = 1
                try:
                    (look if config["do"] == "look" else live)(config)
                    status = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(status)
            answer["pid"] = pid
            if config["do"] == "look":
                answer["status"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    nursery()
