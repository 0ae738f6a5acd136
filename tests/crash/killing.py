"""Killing processes at random moments: what every such test does, whatever the processes do.

    class Workers(Killing): ...     killed processes are followed by others, while the parent writes to the file, too
    rounds(work, ...)               processes that say what they have done, all of which are killed before the file is looked at

Rule of this file: nothing depends on how long something takes but the time that a run takes. A seed gives the same choices, not
the same moments.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import reactdb

# Nothing that is waited for takes longer, even on a busy machine.
PATIENCE_S = 60.0

Broken = Callable[[], None]


def context_of(module: str) -> Any:
    """Where processes come from: forked from one that has imported everything and opened nothing."""
    context = get_context("forkserver")
    context.set_forkserver_preload([module, "reactdb.durable.consumer", "reactdb.feeds.hub"])
    return context


def connect(path: Path | str) -> reactdb.Database:
    return reactdb.connect(path, durability="soft", busy_timeout=PATIENCE_S)


# ---------------------------------------------------------------------------------------------------------------
# One after the other


@dataclass
class Outcome:
    """What one file came to."""

    seed: int
    kills: int = 0
    changes: int = 0
    seconds: float = 0.0
    losses: list[str] = field(default_factory=list)


class Killing(ABC):
    """One file and the processes that work on it. A subclass says what they do, and what must be true of the file."""

    # What a process does until it is killed; how it can be broken; how many kills a file stands in the long run.
    work: ClassVar[Callable[..., None]]
    mutants: ClassVar[dict[str, Broken]]
    kills_of_one: ClassVar[int]
    # With which a mutant is noticed soon.
    for_mutants: ClassVar[dict[str, Any]] = {}

    def __init__(self, outcome: Any, folder: Path, *arguments: Any, processes: int, mutant: str) -> None:
        """`arguments`: for `work`, after the database and the folder."""
        self.random = Random(outcome.seed)
        self.outcome = outcome
        self.folder = folder
        self.path = folder / "killed.db"
        self.arguments = (str(self.path), str(folder), mutant, *arguments)
        self.context = context_of(type(self).__module__)
        self.db = connect(self.path)
        self.wanted = processes
        self.processes: list[Any] = []

    @abstractmethod
    def step(self) -> None:
        """Something of what is done until there were enough kills."""

    def settle(self) -> None:
        """Wait for what is still under way."""
        return

    @abstractmethod
    def check(self) -> None:
        """Add to the losses what is wrong in the end."""

    def run(self, kills: int) -> Any:
        begun = time.monotonic()
        try:
            for _ in range(self.wanted):
                self.start()
            while self.outcome.kills < kills and not self.errors() and not self.outcome.losses:
                self.step()
            self.settle()
        finally:
            for process in self.processes:
                process.kill()
                process.join()
        self.outcome.losses += [
            f"a process failed: {path.read_text().splitlines()[-1]}" for path in self.errors()
        ]
        self.check()
        self.db.close()
        self.outcome.seconds = time.monotonic() - begun
        return self.outcome

    def start(self) -> None:
        process = self.context.Process(target=live, args=(type(self), *self.arguments), daemon=True)
        process.start()
        self.processes.append(process)

    def kill_one(self) -> None:
        process = self.victim()
        process.kill()
        process.join()
        self.processes.remove(process)
        self.outcome.kills += 1
        self.start()

    def victim(self) -> Any:
        return self.random.choice(self.processes)

    def errors(self) -> list[Path]:
        """Each whole: one that is still being written has another name."""
        return sorted(self.folder.glob("error-*"))

    @classmethod
    def options_of(cls, seed: int) -> dict[str, Any]:
        """Of the file with this seed in the long run."""
        return {}

    @classmethod
    def once(cls, seed: int, kills: int, **options: Any) -> Any:
        """One file. The folder is kept where something was lost."""
        folder = Path(tempfile.mkdtemp(prefix="reactdb-killed-"))
        outcome = cls(seed, folder, **options).run(kills)  # type: ignore[misc, arg-type]
        if outcome.losses and not options.get("mutant"):
            outcome.losses.append(f"the file is kept in {folder}")
        else:
            shutil.rmtree(folder)
        return outcome

    @classmethod
    def noticed(cls, mutant: str, seed: int, files: int = 12) -> Any:
        """Kill processes that are broken until it is noticed."""
        for number in range(files):
            outcome = cls.once(seed + number, 20, mutant=mutant, **cls.for_mutants)
            if outcome.losses:
                break
        return outcome

    @classmethod
    def prove(cls, *, seed: int) -> int:
        """Every mutant must be noticed: a line each. 1 where one is not, else 0."""
        missed = 0
        for mutant in cls.mutants:
            outcome = cls.noticed(mutant, seed)
            missed += not outcome.losses
            print(f"{mutant}: {outcome.losses[0] if outcome.losses else 'NOT NOTICED'}", flush=True)
        return 1 if missed else 0

    @classmethod
    def long_run(cls, kills: int, *, seed: int) -> int:
        """A line a file. 1 where anything was lost, else 0."""
        done, losses = 0, 0
        while done < kills:
            outcome = cls.once(seed, min(cls.kills_of_one, kills - done), **cls.options_of(seed))
            print(outcome, flush=True)
            for loss in outcome.losses[:10]:
                print(f"  {loss}", flush=True)
            done += outcome.kills
            losses += len(outcome.losses)
            seed += 1
            if not outcome.kills:
                break
        print(f"{done:,} kills of {cls.__name__.lower()}: {losses} losses")
        return 1 if losses else 0


def live(kind: type[Killing], path: str, folder: str, mutant: str, *arguments: Any) -> None:
    """One process's life, until it is killed. What ends it otherwise is written into the folder."""
    try:
        if mutant:
            kind.mutants[mutant]()
        kind.work(connect(path), folder, *arguments)
    except BaseException:
        unfinished = Path(folder, f"unfinished-{os.getpid()}")
        unfinished.write_text(traceback.format_exc())
        unfinished.rename(Path(folder, f"error-{os.getpid()}"))
        raise


# ---------------------------------------------------------------------------------------------------------------
# In rounds

Say = Callable[..., None]
Work = Callable[[reactdb.Database, Say, str, Random], None]


def rounds(
    work: Work, path: Path, random: Random, *, kills: int, workers: int = 3
) -> Iterator[tuple[list[list[Any]], list[str]]]:
    """Start processes, and kill all of them, until there were so many kills.

    Gives after each round what its processes have said, and a sentence for each that had ended by itself.
    """
    context = context_of(work.__module__)
    killed = 0
    while killed < kills:
        said = [path.parent / f"said-{killed + number}" for number in range(workers)]
        children = [
            context.Process(target=talk, args=(work, str(path), str(one), random.randrange(2**32)))
            for one in said
        ]
        for child in children:
            child.start()
        end = time.monotonic() + PATIENCE_S
        while not all(has_begun(*pair) for pair in zip(children, said, strict=True)):
            assert time.monotonic() < end, "a process has said next to nothing"
            time.sleep(0.002)
        for child in children:
            # Each at a moment of its own, while the others go on.
            time.sleep(random.random() * 0.02)
            child.kill()
            child.join()
            killed += 1
        failed = [
            f"a process ended by itself: {child.exitcode}"
            for child in children
            if child.exitcode != -signal.SIGKILL
        ]
        yield [json.loads(line) for one in said for line in lines_of(one)], failed


def has_begun(child: Any, said: Path) -> bool:
    return not child.is_alive() or (said.exists() and said.stat().st_size > 300)


def lines_of(said: Path) -> list[str]:
    return said.read_text(encoding="utf-8").splitlines() if said.exists() else []


def talk(work: Work, path: str, said: str, seed: int) -> None:
    """One process's life, until it is killed. What it says is in the file `said`, a line each, when `say` returns."""
    with open(said, "a", encoding="utf-8") as out:

        def say(*words: Any) -> None:
            out.write(json.dumps(words) + "\n")
            out.flush()

        work(connect(path), say, os.path.basename(said), Random(seed))


def told(run: Callable[..., Iterator[str]], kills: int, seed: int, good: str) -> int:
    """Print what was wrong. Returns: the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        losses = list(run(Path(folder), seed=seed, kills=kills))
    print("\n".join(losses) or f"{kills} kills of {good}")
    return 1 if losses else 0
