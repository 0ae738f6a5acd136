"""Starts the queries, kills them, starts them again, and checks the sinks."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import reactdb
from tests.spark_kills.child import BEGINS_AGAIN, start

ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE_S = 240
ATTEMPTS = 5
ALL = "parquet,log,replica"
# Spark gives a worker ten seconds to start. On a machine that is busy with other things that may not do.
TOO_BUSY = "worker failed to connect back"


class Failed(AssertionError):
    """A process did not do what it should."""


@dataclass
class Outcome:
    """What was seen.

    Attributes:
        changes: In the log of the source.
        hashes: Of the content, by the name of who has it: the source, and each sink.
        batches: Of each query, in the end.
        orphans, empty_orphans: Parquet files that no committed batch has; those of them that have no bytes.
        staged: Files that were left where writes stage.
        moments: Which queries were killed, how many seconds after a batch had begun or they had started, and whether the
            workers were, too.
    """

    changes: int = 0
    hashes: dict[str, str] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    orphans: int = 0
    empty_orphans: int = 0
    stage: list[str] = field(default_factory=list)
    moments: list[tuple[str, float, bool]] = field(default_factory=list)


def run(
    folder: Path, kills: int, *, seed: int, changes: int = 25, say: Any = None, session: Any = None
) -> Outcome:
    """The whole of it, in an empty folder; or one that was interrupted, which is gone on with.

    Args:
        session: What the queries read the rest in, in the end; None: in a process of their own.

    Raises:
        Failed: A query failed, or a process did not do what it should in time.
    """
    chance = random.Random(seed)
    source = folder / "source.db"
    outcome = Outcome()
    with reactdb.connect(source, durability="soft") as db:
        games = db.table_create("games", exist_ok=True)
        if not db.seq:
            games.insert([{"id": number, "n": 0, "text": "begin"} for number in range(100)])
        with writing(db, seed):
            for number in range(kills):
                # One of them on its own, or those that write one file together.
                names = ("parquet", "log,replica")[number % 2]
                with started(folder, source, changes, names, waits=chance.random() < 0.75) as process:
                    delay_s = chance.uniform(0.0, 3.0)
                    time.sleep(delay_s)
                    with_workers = chance.random() < 0.5
                    kill(process, with_workers=with_workers)
                outcome.moments.append((names, round(delay_s, 2), with_workers))
                if say is not None:
                    say(
                        f"kill {number + 1} of {kills}: {names}, after {delay_s:.2f} s; batches {batches(folder)}"
                    )
        if session is None:
            finish(folder, source)
        else:
            with configured(session, BEGINS_AGAIN):
                for query in start(session, str(source), folder, 1_000_000, ALL, until_now=True):
                    query.awaitTermination()
        outcome.changes = db.seq
        outcome.hashes = {
            "source": content(log_rows(db)),
            "parquet": content(parquet_rows(folder / "parquet")),
            "log": content(sink_rows(folder / "sink.db")),
            "source, documents": content(games),
            "replica": content(documents(folder / "sink.db", "replica")),
        }
    outcome.batches = batches(folder)
    known = set(committed_files(folder / "parquet"))
    orphans = [file for file in (folder / "parquet").glob("*.parquet") if file not in known]
    outcome.orphans = len(orphans)
    outcome.empty_orphans = sum(not file.stat().st_size for file in orphans)
    outcome.stage = [str(file) for file in folder.rglob("*.part")]
    return outcome


@contextmanager
def configured(session: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """A session of Spark with these settings. They are taken back afterwards."""
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            session.conf.unset(name)


@contextmanager
def writing(db: Any, seed: int) -> Iterator[None]:
    """Somebody who goes on changing the source meanwhile: inserts, updates and deletes, one to twenty a commit."""
    chance = random.Random(seed + 1)
    stop = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        games = db.table("games")
        number = 0
        try:
            while not stop.wait(0.05):
                with db.transaction():
                    for _ in range(chance.choice((1, 1, 2, 20))):
                        number += 1
                        key = chance.randrange(200)
                        if chance.random() < 0.2:
                            games.get(key).delete()
                        else:
                            games.insert(
                                {"id": key, "n": number, "text": f"new {number}"}, conflict="replace"
                            )
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failed, failed


# ---------------------------------------------------------------------------------------------------------------
# Processes


@contextmanager
def child(folder: Path, source: Path, changes: int, *more: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark_kills.child", str(source), str(folder), str(changes), *more],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            kill(process, with_workers=True)
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def started(
    folder: Path, source: Path, changes: int, names: str, *, waits: bool
) -> Iterator[subprocess.Popen[str]]:
    """A process whose queries run.

    Args:
        waits: Also until one of them has begun another batch. Otherwise it may be killed before it has done anything: what is
            left to do first takes longest.
    """
    for attempt in range(ATTEMPTS):
        with child(folder, source, changes, names) as process:
            try:
                wait_for_start(process)
                if waits:
                    wait_for_a_batch(folder, process)
            except Failed as failed:
                if attempt + 1 == ATTEMPTS or TOO_BUSY not in str(failed):
                    raise
                continue
            yield process
            return


def finish(folder: Path, source: Path) -> None:
    """Let all queries read what there is."""
    for attempt in range(ATTEMPTS):
        with child(folder, source, 1_000_000, ALL, "now") as process:
            text, _ = process.communicate(timeout=DEADLINE_S)
            if not process.returncode:
                return
            if attempt + 1 == ATTEMPTS or TOO_BUSY not in text:
                raise Failed(failure(text))


def wait_for_start(process: subprocess.Popen[str]) -> None:
    """Until its queries run."""
    assert process.stdout is not None
    told = []
    timer = threading.Timer(DEADLINE_S, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            if line.strip() == "started":
                return
            told.append(line)
    finally:
        timer.cancel()
    raise Failed(f"the queries did not start:\n{failure(''.join(told))}")


def wait_for_a_batch(folder: Path, process: subprocess.Popen[str]) -> None:
    """Until one of the queries has begun another batch."""
    begun = {str(file) for file in folder.glob("*.checkpoint/offsets/*")}
    deadline = time.monotonic() + DEADLINE_S
    while begun >= {str(file) for file in folder.glob("*.checkpoint/offsets/*")}:
        if process.poll() is not None:
            assert process.stdout is not None
            raise Failed(f"it ended before it was killed:\n{failure(process.stdout.read())}")
        if time.monotonic() > deadline:
            raise Failed("no query has begun a batch")
        time.sleep(0.02)


def failure(text: str) -> str:
    """What a process said of why it ended, without Java's own account of it."""
    lines = [line for line in text.splitlines() if not line.startswith(("\tat ", "\t..."))]
    return "\n".join(lines)[-5_000:]


def kill(process: subprocess.Popen[str], *, with_workers: bool) -> None:
    """Kill Python and the Java that it has started; the workers too, or leave them to find out."""
    family = descendants(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    if with_workers:
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    process.wait(timeout=60)


def descendants(pid: int) -> list[int]:
    """Everything that a process has started, and that has started."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found = []
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


# ---------------------------------------------------------------------------------------------------------------
# What they have


def content(rows: Iterable[Any]) -> str:
    """A hash of the rows, whatever their order; one that is there twice counts twice."""
    lines = sorted(json.dumps(row, sort_keys=True) for row in rows)
    return f"{len(lines)} {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"


def log_rows(db: Any) -> Iterator[list[Any]]:
    for change in db.log():
        if change.catalogue is not None:
            continue
        yield [change.seq, change.table, change.key, change.kind, change.old_val, change.new_val]


def parquet_rows(folder: Path) -> Iterator[list[Any]]:
    for file in committed_files(folder):
        for row in pq.read_table(file, partitioning=None).to_pylist():
            yield [row[name] for name in ("seq", "table", "key", "op", "old", "new")]


def committed_files(folder: Path) -> list[Path]:
    """The files of the batches that Spark has committed, as its manifest lists them. Others are what a kill has left."""
    logs = {}
    for log in (folder / "_spark_metadata").iterdir():
        number, _, kind = log.name.partition(".")
        if number.isdecimal() and kind in ("", "compact"):
            logs[int(number), kind == "compact"] = log
    start = max((number for number, is_compact in logs if is_compact), default=-1)
    chosen = [
        log
        for (number, is_compact), log in sorted(logs.items())
        if number > start or (number == start and is_compact)
    ]
    return [
        folder / Path(json.loads(line)["path"]).name
        for log in chosen
        for line in log.read_text().splitlines()[1:]
        if json.loads(line)["action"] == "add"
    ]


def documents(path: Path, table: str) -> list[dict[str, Any]]:
    with reactdb.connect(path, read_only=True) as db:
        return list(db.table(table).run())


def sink_rows(path: Path) -> Iterator[list[Any]]:
    for row in documents(path, "log"):
        # A null of a row is left out of the document.
        yield [row.get(name) for name in ("seq", "table", "key", "op", "old", "new")]


def batches(folder: Path) -> dict[str, int]:
    """How many batches each query has committed. (Spark forgets the oldest, but counts on.)"""
    return {
        name: max(
            (
                int(file.name) + 1
                for file in (folder / f"{name}.checkpoint" / "commits").glob("*")
                if file.name.isdecimal()
            ),
            default=0,
        )
        for name in ("parquet", "log", "replica")
    }
