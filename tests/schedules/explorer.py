"""Explorer: runs a scenario under all schedules with up to so many preemptions, and says which of them break a law.

A schedule is a list of decisions: at this step, that thread goes on. What is not decided goes the simplest way: a thread runs
until it waits or ends, and then the next one that can. So the first run needs no decisions; each run says where it could have
gone another way after its last decision, and these ways are the schedules to be run next. Those with the fewest preemptions
come first, so that what is found is simple to read.

Rule of this file: always the same schedules in the same order. It uses neither chance nor a time limit.
"""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.schedules.control import Run

# The turn of the samples that are taken where there are more schedules than are wanted.
SEED = 12
# Broken laws after which a scenario is given up.
MOST_FAILURES = 5
# Runs between two collections of garbage, which must not happen inside of one: finalizers run code.
RUNS_BETWEEN_COLLECTIONS = 50

Threads = Sequence[Callable[[], None]]
Body = Callable[[], Generator[Threads, None, None]]


@dataclass(slots=True)
class Scenario:
    """Threads, and what must be true when they have ended.

    Attributes:
        body: Makes what is needed, yields what each thread does, and is gone on with when all have ended. It may yield more
            threads then, whose schedule is not explored: to see that all is still alive. At last it checks the laws.
        modules: Whose lines are preempted. A package stands for all in it.
        may_pass_s: Seconds that may pass because nobody can go on otherwise. More: somebody slept through what it waited for.
        is_fine: It is preempted within lines, too.
        short_runs: How many schedules are run with the other tests of the project; None: all.
    """

    name: str
    body: Body
    modules: tuple[str, ...]
    may_pass_s: float = 0.0
    short_runs: int | None = 40
    is_fine: bool = False


@cache
def files_of(modules: tuple[str, ...]) -> frozenset[str]:
    """The source files of the modules.

    Raises:
        ImportError: One is not there any more: name what has taken its place.
    """
    found: set[str] = set()
    for name in modules:
        path = import_module(name).__file__
        assert path is not None
        if path.endswith("__init__.py"):
            found.update(str(one) for one in Path(path).parent.rglob("*.py"))
        else:
            found.add(path)
    return frozenset(found)


@dataclass(slots=True, frozen=True, order=True)
class Decision:
    """At this step, that thread goes on. `place` is where the thread stands that would go on otherwise."""

    step: int
    thread: int
    place: tuple[str, int]

    def __str__(self) -> str:
        return f"{self.step}:{self.thread}"


Schedule = tuple[Decision, ...]


@dataclass(slots=True)
class Outcome:
    """What one run came to. `broken` is empty where all laws hold."""

    run: Run
    broken: str


@dataclass(slots=True)
class Report:
    """What the runs of one scenario came to.

    Attributes:
        runs: How many there were.
        left: Schedules that were not run, as far as known.
        diverged: Runs that did not come to where their schedule said: the scenario does not do the same each time.
        failures: (schedule, broken law).
    """

    runs: int = 0
    left: int = 0
    diverged: int = 0
    failures: list[tuple[Schedule, str]] = field(default_factory=list)


class Complaints(logging.Handler):
    """Errors that were logged: a feed or a listener has failed and nobody was told."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.found.append(f"logged: {record.getMessage()}{f' ({error!r})' if error else ''}")


def run_once(scenario: Scenario, schedule: Iterable[Decision] = (), *, is_told: bool = False) -> Outcome:
    """Run it under one schedule, and check its laws."""
    # Not in the middle of it: finalizers run code.
    gc.disable()
    decisions = {one.step: (one.thread, one.place) for one in schedule}
    run = Run(decisions, files_of(scenario.modules), is_told=is_told, is_fine=scenario.is_fine)
    complaints = Complaints()
    logger = logging.getLogger("reactdb")
    logger.addHandler(complaints)
    propagates, logger.propagate = logger.propagate, False
    try:
        return Outcome(run, _broken_law(scenario, run) or "\n".join(complaints.found))
    finally:
        logger.removeHandler(complaints)
        logger.propagate = propagates


# Scenarios that were left where they hang: their ends would wait for ever.
_left: list[Any] = []


def _broken_law(scenario: Scenario, run: Run) -> str:
    body = scenario.body()
    is_exploring = True
    while True:
        try:
            threads = next(body, None)
        except AssertionError as error:
            return "; ".join([*_errors(run), f"law broken: {error}"])
        for work in threads or ():
            run.add(work, f"thread {len(run.threads)}", is_main=True)
        # At the end, too: whoever was told to go does.
        run.go(is_exploring=is_exploring)
        is_exploring = False
        if run.is_endless or run.hanging:
            _left.append((body, run))
            return "; ".join(_errors(run))
        if threads is None:
            break
    errors = _errors(run)
    if run.passed_s > scenario.may_pass_s:
        errors.append(f"somebody slept for {run.passed_s:g} s when there was nothing to wait for")
    return "; ".join(errors)


def _errors(run: Run) -> list[str]:
    errors = [f"{one.name} raised {one.error!r}" for one in run.threads if one.error is not None]
    if run.is_endless:
        return [*errors, "it does not end"]
    return errors + [f"{one.name} waits for ever" for one in run.hanging]


def next_schedules(schedule: Schedule, cost: int, run: Run, most: int) -> Iterable[tuple[int, Schedule]]:
    """(preemptions, schedule): what differs from this one in one decision more."""
    for option in run.options:
        if cost + option.cost <= most:
            for other in option.others:
                yield cost + option.cost, (*schedule, Decision(option.step, other, option.place))


def explore(scenario: Scenario, *, preemptions: int = 2, most_runs: int | None = None) -> Report:
    """Run it under all schedules with so many preemptions. `most_runs`: no more than that, a sample of each number of them."""
    report = Report()
    # Not for what it finds: what is made when it is first used should not look like another way to go.
    for _ in range(2):
        run_once(scenario)
    waiting: list[list[Schedule]] = [[] for _ in range(preemptions + 1)]
    waiting[0].append(())
    chance = random.Random(SEED)
    gc.collect()
    for cost in range(preemptions + 1):
        level = waiting[cost]
        chance.shuffle(level)
        end = None
        if most_runs is not None:
            # What one level leaves is for the next ones.
            end = report.runs + (most_runs - report.runs) // (preemptions + 1 - cost)
        while level and report.runs != end and len(report.failures) < MOST_FAILURES:
            schedule = level.pop()
            outcome = run_once(scenario, schedule)
            _note(report, schedule, outcome)
            for more, following in next_schedules(schedule, cost, outcome.run, preemptions):
                waiting[more].append(following)
    report.left = sum(map(len, waiting))
    return report


def _note(report: Report, schedule: Schedule, outcome: Outcome) -> None:
    report.runs += 1
    report.diverged += outcome.run.is_diverged
    if outcome.broken:
        report.failures.append((schedule, outcome.broken))
    if report.runs % RUNS_BETWEEN_COLLECTIONS == 0:
        gc.collect()
