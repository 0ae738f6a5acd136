"""Kills: processes write to a file and are killed with SIGKILL at a random moment, and then the file is checked; repeatedly.

A scenario is one file and the seed of its random choices. A round is one to four processes, each killed once, and one
check of the file when all of them are dead; the next round continues with the file. Usually a copy is checked, so that the
next process finds what the kill has left: a write-ahead log that is not empty, and perhaps half written.

    alone       one process with several writing threads; killed after a while, or while it does something rare
    early       the same, killed within the first milliseconds, while it opens the file or recovers it
    doors       one that opens, writes a little and closes, again and again
    three       three processes; one is killed while the others go on, another takes its place, then all are killed

Rule of this file: only the reports of a process matter, and not when it died. A seed gives the same choices, not the same times.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from .broken import MUTANTS
from .check import check
from .lanes import Holding
from .records import Life, Memory

FOLDER = Path(__file__).resolve().parent
ROUNDS = {"alone": 10, "early": 4, "doors": 2, "three": 3}
# Kills after which a scenario ends: its file has a few thousand log entries then.
KILLS_OF_A_SCENARIO = 20
# What is waited for with a kill, in a third of the rounds.
TARGETS = (
    "compact",
    "vacuum",
    "checkpoint",
    "catalogue",
    "catalogue_transaction",
    "transfer",
    "bulk_write",
    "rollback",
)
LONGEST_WAIT_S = 30.0


class Nursery:
    """A fresh interpreter that makes the processes to be killed. See `child.py`."""

    def __init__(self) -> None:
        self._process = start_child()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        stop(self._process)


def start_child() -> subprocess.Popen[bytes]:
    """A process that reads what to do from its standard input."""
    paths = [str(FOLDER.parent.parent), str(FOLDER.parent), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.child"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A process with threads that is forked or killed may have something to say about it; what matters comes by other ways.
        bufsize=0,
    )


def stop(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()


class Victim:
    """One process to be killed, and the ear for what it tells."""

    def __init__(self, nursery: Nursery, config: dict[str, Any], fifo: Path, *, is_fresh: bool) -> None:
        os.mkfifo(fifo)
        self._nursery = nursery
        self._fifo = fifo
        # Before the child opens its end, so that nobody waits for anybody.
        self._ear = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self._heard = b""
        self.life = Life(config["retention"])
        config = {**config, "fifo": str(fifo)}
        self._own: subprocess.Popen[bytes] | None = None
        if is_fresh:
            self._own = start_child()
            assert self._own.stdin is not None
            self._own.stdin.write(json.dumps({**config, "do": "become"}).encode() + b"\n")
            self._own.stdin.flush()
            self._pid = self._own.pid
        else:
            self._pid = nursery.ask({**config, "do": "fork"})["pid"]
        self.listen(lambda: self.life.is_opening)

    def listen(self, is_enough: Callable[[], bool], seconds: float = LONGEST_WAIT_S) -> bool:
        """Take in what is told until something is so, or for so long. Whether it is so."""
        end = time.monotonic() + seconds
        while not is_enough():
            left = end - time.monotonic()
            if left <= 0 or self.life.errors:
                return False
            if select.select([self._ear], [], [], left)[0] and not self._hear():
                # Nobody is at the other end: not yet, or the process ended by itself.
                if self.life.is_speaking:
                    self.life.errors.append("a process ended before it was killed")
                    return False
                time.sleep(0.0005)
        return True

    def _hear(self) -> bool:
        """Take in one piece. False at the end."""
        try:
            piece = os.read(self._ear, 1 << 20)
        except BlockingIOError:
            return True
        *lines, self._heard = (self._heard + piece).split(b"\n")
        for line in lines:
            self.life.take(json.loads(line))
        return bool(piece)

    def kill(self) -> Life:
        """SIGKILL, and everything that it had told. It is dead afterwards, and its locks are gone."""
        # It was not waited for, so that its number is still its own, also if it has ended by itself.
        os.kill(self._pid, signal.SIGKILL)
        while self._hear():
            select.select([self._ear], [], [], LONGEST_WAIT_S)
        os.close(self._ear)
        self._fifo.unlink()
        if self._own is not None:
            stop(self._own)
        else:
            self._nursery.ask({"do": "reap", "pid": self._pid})
        return self.life


@dataclass
class Outcome:
    """What a scenario came to. `moments` counts what the processes were doing when they died; `removed`, the looks before which
    retention had removed history, and not somebody who asked for it."""

    seed: int
    kills: int = 0
    acknowledged: int = 0
    changes: int = 0
    moments: Counter[str] = field(default_factory=Counter)
    removed: int = 0
    losses: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Scenario:
    """See the head of this file.

    Args:
        span_s: How long a process lives at most.
        mutant: What is broken in the processes, by its name.
        is_auto: All of them say `retention="auto"`, with little room.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        nursery: Nursery,
        *,
        span_s: float,
        mutant: str | None = None,
        is_auto: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.folder = folder
        self.nursery = nursery
        self.span_s = span_s
        self.mutant = mutant
        self.is_auto = is_auto
        self.path = folder / "kills.db"
        self.memory = Memory()
        self.outcome = Outcome(seed)
        self._lives = 0
        self._lanes = 0

    def run(self, kills: int) -> Outcome:
        begun = time.monotonic()
        while self.outcome.kills < kills and not self.outcome.losses:
            self.round()
        self.outcome.seconds = time.monotonic() - begun
        return self.outcome

    def round(self) -> None:
        kind = self.random.choices(list(ROUNDS), list(ROUNDS.values()))[0]
        if not self.memory.is_founded:
            # There is no file yet, or one that was left while it was made.
            kind = self.random.choice(["early", "early", "alone"])
        lives = {"alone": self._alone, "early": self._early, "doors": self._doors, "three": self._three}[
            kind
        ]()
        for life in lives:
            self.outcome.kills += 1
            self.outcome.moments[life.moment] += 1
            self.outcome.acknowledged += sum(op.state == "done" for op in life.ops.values())
        before, low = self.memory.head, self.memory.low
        self.look(lives)
        self.outcome.changes += self.memory.head - before
        asked = [op.oldest for life in lives for op in life.ops.values() if op.oldest is not None]
        self.outcome.removed += self.memory.low > max([low, *asked])

    # The rounds

    def _alone(self) -> list[Life]:
        victim = self._victim(self._some_lanes(self.random.choice([2, 3, 4])), upkeep=True, consumers=True)
        self._wait(victim)
        return [victim.kill()]

    def _early(self) -> list[Life]:
        victim = self._victim(self._some_lanes(2), upkeep=True, consumers=True)
        time.sleep(self.random.random() * self.random.choice([0.001, 0.004, 0.012, 0.04]))
        return [victim.kill()]

    def _doors(self) -> list[Life]:
        victim = self._victim(self._some_lanes(2), revolving=True)
        self._wait(victim, "close")
        return [victim.kill()]

    def _three(self) -> list[Life]:
        """1 of 3, and then all 3."""
        lanes = self._some_lanes(6)
        first = self._victim(lanes[:2], upkeep=True, consumers=True)
        others = [self._victim(lanes[2:4], upkeep=True), self._victim(lanes[4:])]
        lives = []
        self._wait(first)
        lives.append(first.kill())
        if self.random.random() < 0.5:
            # It takes the place of the first while the others write: the consumers go on.
            others.append(self._victim(self._some_lanes(2, without=lanes), consumers=True))
        self._wait(others[-1])
        self.random.shuffle(others)
        return lives + [other.kill() for other in others]

    def _wait(self, victim: Victim, target: str | None = None) -> None:
        """Until its hour has come: at a random time, or just after it began something rare."""
        # Most lives are short: what is found then was written a moment ago.
        span = self.span_s * self.random.choice([0.1, 0.3, 1.0])
        victim.listen(lambda: False, self.random.random() * span)
        if target is None and self.random.random() < 0.35:
            target = self.random.choice(TARGETS)
        if target is not None:
            seen = len(victim.life.ops)
            victim.listen(
                lambda: any(op.kind == target for op in list(victim.life.ops.values())[seen:]), self.span_s
            )
            time.sleep(self.random.random() * 0.002)

    def _some_lanes(self, count: int, without: list[str] = []) -> list[str]:  # noqa: B006
        """Lanes that write on in what they have, and now and then a new one."""
        known = [lane for lane in self.memory.lanes if lane.startswith("L") and lane not in without]
        self.random.shuffle(known)
        chosen = known[: count - (self.random.random() < 0.1)]
        while len(chosen) < count:
            self._lanes += 1
            chosen.append(f"L{self._lanes}")
        return chosen

    def _victim(
        self, lanes: list[str], *, upkeep: bool = False, consumers: bool = False, revolving: bool = False
    ) -> Victim:
        self._lives += 1
        random = self.random
        config = {
            "path": str(self.path),
            "lanes": {lane: self.memory.lanes.get(lane, Holding()).to_data() for lane in lanes},
            "life": str(self._lives),
            "seed": random.randrange(1 << 32),
            "found": not self.memory.is_founded,
            "upkeep": upkeep,
            "consumers": str(self.folder) if consumers else None,
            "revolving": revolving,
            "sweeping": random.random() < 0.15,
            "retention": "auto" if self.is_auto else random.choice([None, None, None, 300]),
            # Small, so that checkpoints come often; or so large that none comes.
            "checkpoint_bytes": random.choice([1 << 16, 1 << 18, 1 << 24]),
            "mutant": self.mutant,
        }
        return Victim(
            self.nursery, config, self.folder / f"{self._lives}.fifo", is_fresh=random.random() < 0.03
        )

    # The look at the file

    def look(self, lives: list[Life]) -> None:
        """Compare the file with what was told."""
        copy = self.folder / "copy"
        raw = self._look_at_rows(copy)
        # A few times the file itself, which is then closed in order; the next process finds no write-ahead log.
        path = self.path if self.random.random() < 0.15 and raw is not None else self._copy(copy)
        self.outcome.losses += check(path, raw, self.memory, lives, self.folder)

    def _look_at_rows(self, copy: Path) -> dict[str, Any] | None:
        to = self.folder / "rows.json"
        answer = self.nursery.ask({"do": "look", "path": str(self._copy(copy)), "to": str(to)})
        if answer["status"]:
            self.outcome.losses.append("the rows of the file cannot be read")
            return None
        found: dict[str, Any] | None = json.loads(to.read_bytes())
        return found

    def _copy(self, folder: Path) -> Path:
        """The file and its write-ahead log; the shared memory beside them is nothing that survives."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for suffix in ("", "-wal"):
            source = Path(f"{self.path}{suffix}")
            if source.exists():
                shutil.copy(source, folder)
        return folder / self.path.name


# ---------------------------------------------------------------------------------------------------------------
# Many scenarios


def run_scenario(
    seed: int,
    kills: int,
    *,
    span_s: float = 0.4,
    mutant: str | None = None,
    is_auto: bool = False,
    nursery: Nursery | None = None,
) -> Outcome:
    """One file, killed so many times; fewer where something was lost. (A round may kill a few more.)"""
    own = nursery or Nursery()
    folder = Path(tempfile.mkdtemp(prefix="reactdb-kills-"))
    try:
        outcome = Scenario(seed, folder, own, span_s=span_s, mutant=mutant, is_auto=is_auto).run(kills)
    finally:
        if nursery is None:
            own.close()
    if outcome.losses and mutant is None:
        outcome.losses.append(f"the file, and a copy from before it was looked at, are kept in {folder}")
    else:
        shutil.rmtree(folder)
    return outcome


def scenarios(kills: int, seed: int, jobs: int, is_auto: bool) -> Iterator[Outcome]:
    """Scenarios until so many processes were killed."""
    done = 0
    if jobs <= 1:
        nursery = Nursery()
        try:
            while done < kills:
                some = min(KILLS_OF_A_SCENARIO, kills - done)
                outcome = run_scenario(seed, some, is_auto=is_auto, nursery=nursery)
                yield outcome
                done += outcome.kills
                seed += 1
        finally:
            nursery.close()
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        planned = range(0, kills, KILLS_OF_A_SCENARIO)
        work = [
            pool.submit(run_scenario, seed + number, min(KILLS_OF_A_SCENARIO, kills - start), is_auto=is_auto)
            for number, start in enumerate(planned)
        ]
        for future in as_completed(work):
            yield future.result()


def run(kills: int, *, seed: int, jobs: int, is_auto: bool = False) -> int:
    """The long run: a line a scenario and a summary. 1 where anything was lost, else 0."""
    begun = time.monotonic()
    total = Outcome(seed)
    for outcome in scenarios(kills, seed, jobs, is_auto):
        print(
            f"seed {outcome.seed}: {outcome.kills} kills, {outcome.acknowledged:,} acknowledged, {outcome.changes:,} changes,"
            + (f" history removed before {outcome.removed} looks," if is_auto else "")
            + f" {outcome.seconds:.1f} s: {'LOSS' if outcome.losses else 'nothing lost'}",
            flush=True,
        )
        for loss in outcome.losses[:10]:
            print(f"  {loss}", flush=True)
        total.kills += outcome.kills
        total.acknowledged += outcome.acknowledged
        total.changes += outcome.changes
        total.moments += outcome.moments
        total.losses += outcome.losses
    moments = ", ".join(f"{moment} {count}" for moment, count in total.moments.most_common())
    print(f"killed while: {moments}")
    print(
        f"{total.kills:,} kills, {total.acknowledged:,} acknowledged, {total.changes:,} changes,"
        f" {time.monotonic() - begun:.0f} s: {len(total.losses)} losses"
    )
    return 1 if total.losses else 0


def prove(*, seed: int, kills: int = 100) -> int:
    """Every mutant must be noticed within so many kills: a line each. 1 where one is not, else 0."""
    missed = 0
    nursery = Nursery()
    try:
        for mutant in MUTANTS:
            outcome = noticed(mutant, seed, kills, nursery)
            if outcome.losses:
                print(
                    f"{mutant}: noticed after {outcome.kills} kills: {outcome.losses[0].splitlines()[-1]}",
                    flush=True,
                )
            else:
                missed += 1
                print(f"{mutant}: NOT NOTICED in {outcome.kills} kills", flush=True)
    finally:
        nursery.close()
    print(f"{len(MUTANTS) - missed} of {len(MUTANTS)} mutants noticed")
    return 1 if missed else 0


def noticed(mutant: str, seed: int, kills: int, nursery: Nursery | None = None) -> Outcome:
    """Kill processes with a broken store until it is noticed, on one file after the other.

    Raises:
        AssertionError: The mutant does not fit the store any more, and broke itself.
    """
    total = Outcome(seed)
    while total.kills < kills and not total.losses:
        outcome = run_scenario(
            seed, min(KILLS_OF_A_SCENARIO, kills - total.kills), span_s=0.2, mutant=mutant, nursery=nursery
        )
        total.kills += outcome.kills
        total.losses += outcome.losses
        blunders = [
            loss
            for loss in outcome.losses
            if ("TypeError" in loss or "AttributeError" in loss)
            and ("<locals>" in loss or "broken.py" in loss)
        ]
        assert not blunders, f"{mutant} does not fit the store: {blunders[0]}"
        seed += 1
    return total
