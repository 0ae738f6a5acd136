"""Budget: how long the evaluation of a query may take, how much memory it may fill, and whether it was cancelled.

A server evaluates queries of clients it does not know. Evaluation consists of loops over elements and calls of functions; each
spends steps, and after every `STEPS` steps the clock is read. So an endless query ends by itself, in the thread that evaluates it
and at a place where evaluation may end: never inside a commit. An exception thrown in from another thread could strike there.

At the same places the memory of the process is measured. Its growth since any query's last measurement counts for the
query that measures now. For a single query this is exact; of several, the growing query measures most often after its
growth, so its share is by far the greatest. Only held memory counts, not all that was ever made: a stream may be
endless.

Code without a budget pays for reading one context variable for each array, and nothing for each element.

Thread safety: any thread may call `cancel`; the evaluating thread makes all other calls. A budget is in force in the
context in which `current` was set: a thread that does the work of another thread sets that thread's budget.
"""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from threading import Lock
from typing import Any, Final, TypeVar

from reactdb.clock import monotonic

__all__ = [
    "CALL_STEPS",
    "STEPS",
    "STEP_BYTES",
    "Budget",
    "Crowd",
    "MemoryFull",
    "Stopped",
    "WorkStopped",
    "WritesTooLong",
    "bind_budget",
    "check",
    "current",
    "in_turn",
    "process_bytes",
    "sort_with_budget",
    "spend",
    "spend_bytes",
    "spend_per_element",
    "spend_value",
    "steps_of",
]

T = TypeVar("T")
R = TypeVar("R")

STEPS: Final = 4_096
"""Steps between two readings of the clock. A step takes from 20 ns (an element of a range) to some microseconds (a document)."""

CALL_STEPS: Final = 64
"""The steps of one call of a function, where the function is evaluated term by term."""

STEP_BYTES: Final = 256
"""Bytes of documents and strings that count as a step, so that the memory is measured after each MiB of them."""

SORTED_AT_ONCE: Final = 8_192
"""Elements that are sorted between two checks of the budget: it takes some milliseconds."""

SLOW_S: Final = 0.05
"""A query that has taken this long takes turns with the other slow ones."""

TURN_S: Final = 0.002
MOST_WRITING_S: Final = 2.0
"""How long a query of a server may hold the turn to write in one piece. Other writers wait for 5 s and then fail."""
MOST_SLEEP_S: Final = 0.5
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4_096


class Stopped(BaseException):
    """The budget is spent. It is no `Exception`, because code that forgives a query's errors must not catch it."""


class MemoryFull(Stopped):
    """The query fills more memory than it may."""


class WorkStopped(Exception):
    """The work of a write was stopped. To the store it is a failed write like any other, so the other writes of its
    commit continue."""

    def __init__(self, stopped: Stopped) -> None:
        super().__init__()
        self.stopped = stopped


class WritesTooLong(Stopped):
    """The query holds the turn to write for longer than it may. Nothing of this commit is written."""


def process_bytes() -> int | None:
    """The memory of this process; None where the system has no quick way to read it (only Linux has, in a few
    microseconds)."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(64).split()[1]) * PAGE_BYTES
    except OSError:
        return None


class Crowd:
    """Slow queries that run in threads of one process and take turns.

    Python runs one thread at a time and gives each runnable thread its turn. A thread with ten turns for a short
    answer therefore waits ten times for all computing threads. So slow queries sleep between their turns for as long
    as the other slow ones compute: together they make the same progress, and a short request mostly waits for a
    single slow query.

    No query sleeps with a lock, because a sleeping query may hold the write queue's turn, for which another thread
    waits.
    """

    def __init__(
        self,
        sleep: Callable[[float], None] = time.sleep,
        measure: Callable[[], int | None] = process_bytes,
    ) -> None:
        self._sleep = sleep
        self._measure = measure
        self._bytes: int | None = None
        self._measuring = Lock()
        self._slow: set[Budget] = set()

    def __len__(self) -> int:
        return len(self._slow)

    def join(self, budget: Budget) -> None:
        self._slow.add(budget)

    def leave(self, budget: Budget) -> None:
        self._slow.discard(budget)

    def growth_bytes(self) -> int:
        """The growth of the process's memory since the last call; negative if it has shrunk."""
        with self._measuring:
            before, now = self._bytes, self._measure()
            if now is None:
                return 0
            self._bytes = now
            return 0 if before is None else now - before

    def make_way(self, computed_s: float) -> None:
        """Sleep for as long as the other slow queries need to compute as long as this one has."""
        others = len(self._slow) - 1
        if others > 0:
            self._sleep(min(computed_s * others, MOST_SLEEP_S))


class Budget:
    """The limits of one query after the other: each runs between `begin` and `end`."""

    __slots__ = (
        "_began_at",
        "_clock",
        "_crowd",
        "_ends_at",
        "_held_bytes",
        "_left",
        "_resumed_at",
        "_turn_ends_at",
        "is_cancelled",
        "is_in_turn",
        "most_bytes",
        "seconds",
    )

    def __init__(
        self,
        seconds: float | None = None,
        clock: Callable[[], float] = monotonic,
        crowd: Crowd | None = None,
        most_bytes: int | None = None,
    ) -> None:
        """`seconds`, `most_bytes`: None for no limit; such a budget can still be cancelled. `crowd`: the queries with
        which it takes turns and shares the memory; without it, memory has no limit."""
        self.seconds = seconds
        self.most_bytes = most_bytes
        self._clock = clock
        self._crowd = crowd
        self._left = STEPS
        self.is_in_turn = False
        self._turn_ends_at = float("inf")
        self.is_cancelled = False
        self.begin()

    def begin(self) -> None:
        self._began_at = self._resumed_at = self._clock()
        self._ends_at = float("inf") if self.seconds is None else self._began_at + self.seconds
        self._held_bytes: int | None = None

    def end(self) -> None:
        if self._crowd is not None:
            self._crowd.leave(self)

    def limit(self, seconds: float) -> None:
        """End the query that has begun `seconds` after its beginning, unless it ends earlier."""
        self._ends_at = min(self._ends_at, self._began_at + seconds)

    def cancel(self) -> None:
        """From now on `spend` raises for this budget."""
        self.is_cancelled = True

    def spend(self, steps: int) -> None:
        """
        Raises:
            Stopped: The time is over, the memory is full, or the budget was cancelled.
        """
        self._left -= steps
        if self._left < 0:
            self._left = STEPS
            self.check()

    def check(self, *, may_sleep: bool = True) -> None:
        """Look at the clock and the memory now.

        Args:
            may_sleep: It may make way for other queries.

        Raises:
            Stopped: As `spend`.
        """
        now = self._clock()
        if self.is_cancelled or now >= self._ends_at:
            raise Stopped
        if now >= self._turn_ends_at:
            raise WritesTooLong
        crowd, computed_s = self._crowd, now - self._resumed_at
        if crowd is not None and self.most_bytes is not None:
            self._count_memory(crowd, self.most_bytes)
        if crowd is None or self.is_in_turn or not may_sleep:
            return
        if computed_s >= TURN_S and now - self._began_at >= SLOW_S:
            crowd.join(self)
            crowd.make_way(computed_s)
            self._resumed_at = self._clock()

    @contextmanager
    def in_turn(self, most_s: float | None = None) -> Iterator[None]:
        """See the function of this name."""
        most_s = MOST_WRITING_S if most_s is None else most_s
        outer = self.is_in_turn, self._turn_ends_at
        self._turn_ends_at = min(self._turn_ends_at, self._clock() + most_s)
        self.is_in_turn = True
        try:
            yield
        finally:
            self.is_in_turn, self._turn_ends_at = outer

    def _count_memory(self, crowd: Crowd, most_bytes: int) -> None:
        grown = crowd.growth_bytes()
        # The growth before the first look of a query is mostly not its own. The sum never goes below 0: otherwise a
        # query could fill memory that another one has released, beyond its limit.
        self._held_bytes = 0 if self._held_bytes is None else max(0, self._held_bytes + grown)
        if self._held_bytes > most_bytes:
            raise MemoryFull


current: Final[ContextVar[Budget | None]] = ContextVar("budget", default=None)
"""The budget of the running evaluation; None for no limit, as for everything but queries of a server."""


def spend(steps: int) -> None:
    """Spend steps of the current budget, if there is one.

    Raises:
        Stopped: The time is over, or the budget was cancelled.
    """
    budget = current.get()
    if budget is not None:
        budget.spend(steps)


def spend_bytes(count: int) -> None:
    """Spend the steps that `count` bytes of documents or strings count as, if there is a budget.

    Raises:
        Stopped: As `spend`.
    """
    budget = current.get()
    if budget is not None:
        budget.spend(count // STEP_BYTES)


def spend_value(value: Any) -> None:
    """Spend the cost of a pass over a value, without its contents: a step for each element or field, and the bytes of
    a text.

    Raises:
        Stopped: As `spend`.
    """
    budget = current.get()
    if budget is not None:
        budget.spend(steps_of(value))


def bind_budget(work: Callable[[T], R]) -> Callable[[T], R]:
    """The work of a write, with the budget that is in force now: another thread may execute it in its own commit.

    Raises:
        WorkStopped: By the work: its budget is spent.
    """
    budget = current.get()

    def limited(given: T) -> R:
        outer = current.set(budget)
        try:
            return work(given)
        except Stopped as stopped:
            raise WorkStopped(stopped) from None
        finally:
            current.reset(outer)

    return limited


def steps_of(value: Any) -> int:
    """The steps that going through a value counts as."""
    kind = type(value)
    if kind is list or kind is dict:
        return len(value)
    return len(value) // STEP_BYTES if kind is str or kind is bytes else 0


def check(*, may_sleep: bool = True) -> None:
    """Check now whether the current budget is spent, if there is one: before a step that takes long.

    Args:
        may_sleep: As of `Budget.check`.

    Raises:
        Stopped: As `spend`.
    """
    budget = current.get()
    if budget is not None:
        budget.check(may_sleep=may_sleep)


@contextmanager
def in_turn(most_s: float | None = None) -> Iterator[None]:
    """Hold the turn to write: inside, the current budget does not sleep for other queries, and ends the turn after
    some time.

    Args:
        most_s: How many seconds; None: MOST_WRITING_S.

    Raises:
        WritesTooLong, and as `spend`.
    """
    budget = current.get()
    if budget is None:
        yield
        return
    with budget.in_turn(most_s):
        yield


def spend_per_element(elements: Iterable[Any]) -> Iterable[Any]:
    """The elements; where there is a budget, each of them spends one step. The step belongs to the budget in force at
    the use of the element: a cursor may be opened by one client, and read by another after the first has left.
    """
    return elements if current.get() is None else _spend_per_block(elements)


def sort_with_budget(
    elements: Iterable[T], key: Callable[[T], Any], *, is_descending: bool = False
) -> list[T]:
    """The elements in order, as `sorted` gives them. Where there is a budget, only some thousand are compared at a time without a
    look at it: Python's own sort gives no other thread a turn.
    """
    if current.get() is None:
        return sorted(elements, key=key, reverse=is_descending)
    remaining = iter(elements)
    runs: list[list[T]] = []
    while run := list(islice(remaining, SORTED_AT_ONCE)):
        run.sort(key=key, reverse=is_descending)
        spend(STEPS)
        runs.append(run)
    if len(runs) < 2:
        return runs[0] if runs else []
    return list(spend_per_element(heapq.merge(*runs, key=key, reverse=is_descending)))


def _spend_per_block(elements: Iterable[Any]) -> Iterator[Any]:
    remaining = iter(elements)
    is_more = True
    while is_more:
        is_more = False
        # `islice` counts in C; counting here would cost more than most elements do.
        for element in islice(remaining, STEPS):
            is_more = True
            yield element
        spend(STEPS)
