"""Replay: writes the steps of a day to a database, minute by minute, while boards and counters listen.

All steps of one minute are one transaction, and the feeds deliver its events before the commit call returns. The figures measure
that: the time from the start of the commit call until a subscriber has the event.

Once every simulated hour, and at the end, all flights are read afresh and every board and counter is compared
with them. The comparisons are not part of the times.

Rule of this file: no terminal and no sleeping. `observe` is called after each commit, `wait` sets the pace.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from reactdb.demo.board import Board, Document, Event, last_departures, next_departures
from reactdb.demo.flights import AIRPORTS, FlightStep

if TYPE_CHECKING:
    from reactdb import Database, Table

TABLE = "flights"
NEXT_LIMIT = 10
LAST_LIMIT = 3
# More than the tallest window shows.
NEWEST_EVENTS = 200
CHECK_EVERY = timedelta(hours=1)


@dataclass(slots=True)
class Result:
    """The result of a replay, with the speed of its feeds.

    Attributes:
        flights: Documents in the table at the end. changes: Steps written, of `changes_planned`; each is one
        entry of the change log. commits: Transactions; one a simulated minute in which something happened.
        feeds, events: Live subscriptions, and the events delivered to all of them. lag_p50_us,
        lag_p99_us, lag_max_us: Times of all events from the start of the commit call to the subscriber. busy_s:
        Seconds spent in transactions, with the delivery to the subscribers. duration_s: Seconds from the first
        step to the last, with waiting and checking. seq: The database's position at the end. states:
        Flights by state, as the counting feed has them. checks: How often boards and counters were compared
        with a fresh read. mistakes: The differences found; empty after a good run. was_stopped: `wait`
        asked to stop before the last step. until: Simulated time of the last step written, None if there was
        none. file_bytes: Size of the file after it was closed; set by the caller.
    """

    changes_planned: int
    flights: int = 0
    changes: int = 0
    commits: int = 0
    feeds: int = 0
    events: int = 0
    lag_p50_us: float = 0.0
    lag_p99_us: float = 0.0
    lag_max_us: float = 0.0
    busy_s: float = 0.0
    duration_s: float = 0.0
    seq: int = 0
    states: dict[str, int] = field(default_factory=dict)
    checks: int = 0
    mistakes: list[str] = field(default_factory=list)
    was_stopped: bool = False
    until: datetime | None = None
    file_bytes: int = 0

    @property
    def is_right(self) -> bool:
        return self.checks > 0 and not self.mistakes

    @property
    def changes_per_s(self) -> float:
        return self.changes / self.busy_s if self.busy_s else 0.0


@dataclass(slots=True, frozen=True)
class BoardEvent:
    """An event of a board's feed: the simulated time of its commit, and the airport."""

    at: datetime
    origin: str
    event: Event


@dataclass(slots=True, frozen=True)
class Scene:
    """The state of the replay at one moment; the boards are live. `events` are the newest ones of the boards, oldest first."""

    now: datetime
    next_boards: Sequence[Board]
    last_boards: Sequence[Board]
    states: Counter[str]
    result: Result
    lag_us: float
    events: Sequence[BoardEvent] = ()


class _Listeners:
    """The live feeds of one replay: boards, the counting feed, and the stopwatch at their end.

    `commit_began_ns` and `now` are set just before each commit; every event until the next one belongs to it.
    """

    def __init__(self, flights: Table, next_limit: int, last_limit: int) -> None:
        self.next_boards = [next_departures(flights, origin, next_limit) for origin in AIRPORTS]
        self.last_boards = [last_departures(flights, origin, last_limit) for origin in AIRPORTS]
        self.newest: deque[BoardEvent] = deque(maxlen=NEWEST_EVENTS)
        self.now = datetime.min
        self.states: Counter[str] = Counter()
        self.lags_ns: list[int] = []
        self.mistakes: list[str] = []
        self.commit_began_ns = 0
        self._flights = flights
        for board in self.boards:
            board.shown.subscribe(partial(self._note_edits, board.origin))
        counting = flights.changes(include_initial=True, on_overflow="spill")
        self._counting = counting.subscribe(self._count, on_error=self._fail)

    @property
    def boards(self) -> list[Board]:
        return [*self.next_boards, *self.last_boards]

    def __len__(self) -> int:
        return len(self.boards) + 1

    def _stop_watch(self, events: int) -> None:
        self.lags_ns += [time.perf_counter_ns() - self.commit_began_ns] * events

    def _note_edits(self, origin: str, edits: Sequence[Event]) -> None:
        # First the time, so that the rest is not a part of it.
        self._stop_watch(len(edits))
        self.newest.extend(BoardEvent(self.now, origin, event) for event in edits)

    def _fail(self, error: Exception) -> None:
        self.mistakes.append(f"the count by state: the feed ended: {error}")

    def _count(self, event: Event) -> None:
        self._stop_watch(1)
        if (old := event.get("old_val")) is not None:
            self.states[old["state"]] -= 1
        if (new := event.get("new_val")) is not None:
            self.states[new["state"]] += 1

    def check(self) -> None:
        """Compare the results of all feeds with a fresh read of the table."""
        everything: list[Document] = list(self._flights.run())
        for board in self.boards:
            if board.shown.error is not None:
                self.mistakes.append(f"{board.name}: the feed ended: {board.shown.error}")
            if (difference := board.difference(everything)) is not None:
                self.mistakes.append(difference)
        counted, expected = +self.states, Counter(flight["state"] for flight in everything)
        if counted != expected:
            self.mistakes.append(f"the count by state is {dict(counted)} instead of {dict(expected)}")

    def close(self) -> None:
        for board in self.boards:
            board.shown.close()
        self._counting.dispose()


def run(
    db: Database,
    steps: Sequence[FlightStep],
    *,
    speed: float = 0.0,
    observe: Callable[[Scene], None] | None = None,
    wait: Callable[[float], bool] | None = None,
    next_limit: int = NEXT_LIMIT,
    last_limit: int = LAST_LIMIT,
) -> Result:
    """Replay the steps into a new table of `db`.

    Args:
        speed: Simulated minutes per second; 0 is as fast as possible. observe: Called after each commit, on
        the calling thread. wait: Called with the seconds until the next commit is due, before each one (0.0
        when it is due already).
            Returns True to stop there. Without it nothing waits, at any speed. next_limit, last_limit: The number of flights
            on each board.

    Returns:
        The figures. Look at `is_right` before believing them.

    Raises:
        TableExists: The database already has a table of flights.
    """
    flights = db.table_create(TABLE)
    flights.index_create("scheduled")
    flights.index_create("closed")
    result = Result(changes_planned=len(steps))
    listeners = _Listeners(flights, next_limit, last_limit)
    result.feeds = len(listeners)
    try:
        _replay(db, flights, listeners, steps, result, speed=speed, observe=observe, wait=wait)
        _check(listeners, result)
        result.flights = sum(listeners.states.values())
        result.states = dict(+listeners.states)
        result.seq = db.seq
    finally:
        listeners.close()
    lags_us = sorted(lag / 1_000 for lag in listeners.lags_ns)
    result.events = len(lags_us)
    if lags_us:
        result.lag_p50_us, result.lag_p99_us, result.lag_max_us = (
            quantile(lags_us, 0.5),
            quantile(lags_us, 0.99),
            lags_us[-1],
        )
    return result


def _replay(
    db: Database,
    flights: Table,
    listeners: _Listeners,
    steps: Sequence[FlightStep],
    result: Result,
    *,
    speed: float,
    observe: Callable[[Scene], None] | None,
    wait: Callable[[float], bool] | None,
) -> None:
    began = time.perf_counter()
    next_check: datetime | None = None
    for minute, group in groupby(steps, key=attrgetter("at")):
        if wait is not None:
            # The time is counted from the beginning, so slow drawing makes the replay jerk, but not drift.
            due = (minute - steps[0].at) / timedelta(minutes=1) / speed if speed else 0.0
            if wait(max(0.0, began + due - time.perf_counter()) if speed else 0.0):
                result.was_stopped = True
                break
        next_check = next_check or minute + CHECK_EVERY
        if minute >= next_check:
            _check(listeners, result)
            next_check = minute + CHECK_EVERY
        heard_before = len(listeners.lags_ns)
        listeners.now = minute
        changes, busy_s = _commit(db, flights, list(group), listeners)
        result.changes += changes
        result.busy_s += busy_s
        result.commits += 1
        result.until = minute
        if observe is not None:
            lags = sorted(listeners.lags_ns[heard_before:])
            lag_us = quantile(lags, 0.5) / 1_000 if lags else 0.0
            scene = Scene(
                minute,
                listeners.next_boards,
                listeners.last_boards,
                listeners.states,
                result,
                lag_us,
                listeners.newest,
            )
            observe(scene)
    result.duration_s = time.perf_counter() - began


def _commit(
    db: Database, flights: Table, steps: list[FlightStep], listeners: _Listeners
) -> tuple[int, float]:
    """Write one minute as one transaction. Returns the number of changes, and its seconds."""
    began_ns = time.perf_counter_ns()
    with db.transaction():
        announced = [dict(step.fields) for step in steps if step.kind == "scheduled"]
        if announced:
            flights.insert(announced)
        for step in steps:
            if step.kind != "scheduled":
                flights.get(step.id).update(step.fields)
        listeners.commit_began_ns = time.perf_counter_ns()
    return len(steps), (time.perf_counter_ns() - began_ns) / 1e9


def _check(listeners: _Listeners, result: Result) -> None:
    listeners.check()
    result.checks += 1
    result.mistakes = listeners.mistakes


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]
