"""Budget: how long the evaluation of a query may go on, and whether anybody still wants its answer.

A server evaluates what strangers send it. Evaluation is loops over elements and calls of functions; each of them spends steps,
and every `STEPS` steps the clock is looked at. So a query that would run for ever ends by itself, in the thread that evaluates it
and at a place where evaluation may end: never inside a commit. An exception that another thread throws into this one could strike
there.

Who has no budget pays for one look into a context variable for each array, and nothing for each element.

Thread safety: `cancel` from any thread; everything else by the thread that evaluates. A budget is in force in the context in
which `current` was set: who carries out work of another thread sets that one's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from itertools import islice
from typing import Any, Final

__all__ = ["CALL_STEPS", "STEPS", "Budget", "Crowd", "Stopped", "current", "paced", "spend"]

STEPS: Final = 4_096
"""Between two looks at the clock. A step takes from 20 ns (an element of a range) to some microseconds (a document)."""

CALL_STEPS: Final = 64
"""What a call of a function counts as that is walked term by term: how much one does, depends on its body."""

SLOW_S: Final = 0.05
"""A query that has taken so long makes way for others."""

TURN_S: Final = 0.002
MOST_SLEEP_S: Final = 0.5


class Stopped(BaseException):
    """The budget is spent. No error of the query's: nothing that forgives errors may catch it, and so it is no `Exception`."""


class Crowd:
    """Slow queries that are evaluated in threads of one process, and take turns.

    Python runs one thread at a time, and gives each that wants to run its turn. So a thread that has an answer to send in ten
    steps waits ten times for all that compute. Those that have been at it for long therefore sleep between their turns as long
    as the others compute: together they get as much done as before, and mostly one of them is all that others wait for.

    No lock is involved: who sleeps may hold the writer's turn, for which another one waits.
    """

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._slow: set[Budget] = set()

    def __len__(self) -> int:
        return len(self._slow)

    def join(self, budget: Budget) -> None:
        self._slow.add(budget)

    def leave(self, budget: Budget) -> None:
        self._slow.discard(budget)

    def make_way(self, computed_s: float) -> None:
        """Let the others compute as long as this one has."""
        others = len(self._slow) - 1
        if others > 0:
            self._sleep(min(computed_s * others, MOST_SLEEP_S))


class Budget:
    """The time of one query, or of one query after the other: each is between `begin` and `end`."""

    __slots__ = (
        "_began_at",
        "_clock",
        "_crowd",
        "_ends_at",
        "_left",
        "_resumed_at",
        "is_cancelled",
        "seconds",
    )

    def __init__(
        self,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        crowd: Crowd | None = None,
    ) -> None:
        """`seconds`: None for no end; such a budget can still be cancelled. `crowd`: whom it takes turns with."""
        self.seconds = seconds
        self._clock = clock
        self._crowd = crowd
        self._left = STEPS
        self.is_cancelled = False
        self.begin()

    def begin(self) -> None:
        self._began_at = self._resumed_at = self._clock()
        self._ends_at = float("inf") if self.seconds is None else self._began_at + self.seconds

    def end(self) -> None:
        if self._crowd is not None:
            self._crowd.leave(self)

    def cancel(self) -> None:
        """From now on `spend` raises for this budget."""
        self.is_cancelled = True

    def spend(self, steps: int) -> None:
        """
        Raises:
            Stopped: The time is over, or the budget was cancelled.
        """
        self._left -= steps
        if self._left < 0:
            self._left = STEPS
            self._look()

    def _look(self) -> None:
        now = self._clock()
        if self.is_cancelled or now >= self._ends_at:
            raise Stopped
        crowd, computed_s = self._crowd, now - self._resumed_at
        if crowd is not None and computed_s >= TURN_S and now - self._began_at >= SLOW_S:
            crowd.join(self)
            crowd.make_way(computed_s)
            self._resumed_at = self._clock()

    def paced(self, elements: Iterable[Any]) -> Iterator[Any]:
        """The elements, one by one as they are asked for; each of them is one step."""
        remaining = iter(elements)
        is_more = True
        while is_more:
            is_more = False
            # `islice` counts them in C: to do it here would cost more than most elements do.
            for element in islice(remaining, STEPS):
                is_more = True
                yield element
            self.spend(STEPS)


current: Final[ContextVar[Budget | None]] = ContextVar("budget", default=None)
"""The budget of what is being evaluated; None for no bound, which is everything but the queries of a server."""


def spend(steps: int) -> None:
    """Spend of the budget that is in force.

    Raises:
        Stopped.
    """
    budget = current.get()
    if budget is not None:
        budget.spend(steps)


def paced(elements: Iterable[Any]) -> Iterable[Any]:
    """The elements; where a budget is in force, each of them is a step."""
    budget = current.get()
    return elements if budget is None else budget.paced(elements)
