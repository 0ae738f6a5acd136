"""Ear: a subscriber that keeps what it hears. For tests that want to know what was told, in what order and on which thread. And
KINDS: every kind of feed, for promises that hold for all of them.

Rule of this file: waiting is for an event and has a bound; nobody sleeps.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from reactdb import Database, desc, row
from reactdb.feeds.hub import FeedHub, hub_of

ROOT = Path(__file__).resolve().parent.parent.parent
# Longer than anything here takes on a machine that is busy with other things.
PATIENCE_S = 20.0
MAIN = threading.main_thread().name

# Of a table with an index `score`.
KINDS: dict[str, Callable[[Any], Any]] = {
    "table": lambda t: t,
    "get": lambda t: t.get(1),
    "get_all": lambda t: t.get_all(1, 2),
    "between": lambda t: t.between(0, 5),
    "filter": lambda t: t.filter({"room": 5}),
    "range filter": lambda t: t.filter(row["score"] > 1),
    "callable": lambda t: t.filter(lambda document: document["room"] == 5),
    "map": lambda t: t.map(row["id"]),
    "pluck": lambda t: t.pluck("id"),
    "index range": lambda t: t.between(0, 5, index="score"),
    "index values": lambda t: t.get_all(1, index="score"),
    "limit": lambda t: t.order_by(index=desc("score")).limit(3),
    "order": lambda t: t.order_by("score").limit(3),
    "min": lambda t: t.min(index="score"),
    "count": lambda t: t.count(),
    "sum": lambda t: t.sum("score"),
    "distinct": lambda t: t.distinct("room"),
    "group": lambda t: t.group("room").count(),
    "union": lambda t: t.filter({"room": 5}).union(t.filter({"room": 6})),
}
NEEDS_INDEX = ["index range", "index values", "limit", "min"]


class Ear:
    """An observer. Pass it to `subscribe` as it is.

    Attributes:
        events, errors: What was heard.
        completions: How many times it was told that nothing more will come.
        threads: The name of the thread that told each event.
    """

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.errors: list[Exception] = []
        self.completions = 0
        self.threads: list[str] = []
        self._condition = threading.Condition()

    def on_next(self, event: Any) -> None:
        with self._condition:
            self.events.append(event)
            self.threads.append(threading.current_thread().name)
            self._condition.notify_all()

    def on_error(self, error: Exception) -> None:
        with self._condition:
            self.errors.append(error)
            self._condition.notify_all()

    def on_completed(self) -> None:
        with self._condition:
            self.completions += 1
            self._condition.notify_all()

    def wait_for(self, count: int) -> list[Any]:
        """The first `count` events, as soon as they are there."""
        with self._condition:
            assert self._condition.wait_for(lambda: len(self.events) >= count, PATIENCE_S), self.events
            return self.events[:count]

    def wait_for_end(self) -> None:
        """Until it has been told an error or the end."""
        with self._condition:
            assert self._condition.wait_for(lambda: self.errors or self.completions, PATIENCE_S), self.events

    @property
    def new_ids(self) -> list[Any]:
        """The id of each event's new document; None where there is none."""
        return [event["new_val"] and event["new_val"]["id"] for event in self.events]


def listen(feed: Any, **options: Any) -> Ear:
    """Subscribe to an Observable, and get what keeps what it hears."""
    ear = Ear()
    feed.subscribe(ear, **options)
    return ear


def tick(clock: Any) -> None:
    """Do what is due now, in virtual time. Without any time at all the clock would do nothing."""
    clock.advance_by(0.000_1)


def hub(of: Any) -> FeedHub:
    """Where the feeds of a database, or of a table of it, are registered."""
    session = of.session if isinstance(of, Database) else of._session
    return hub_of(session.engine)


def insert_numbers(table: Any, *numbers: int) -> None:
    """Documents with these keys, one commit each."""
    for number in numbers:
        table.insert({"id": number})


def from_threads(count: int, work: Callable[[int], Any]) -> None:
    """Do the work in so many threads at once, and wait for all."""
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work, number) for number in range(count)]:
            done.result(PATIENCE_S)


def run_python(program: str, *arguments: object, timeout_s: float = 60) -> str:
    """What a program prints, run in a process of its own. It must succeed, and complain of nothing."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


def changed(old_val: Any, new_val: Any) -> dict[str, Any]:
    """A change event with nothing extra."""
    return {"old_val": old_val, "new_val": new_val}
