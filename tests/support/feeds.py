"""Helpers of the tests of feeds: KINDS, every kind of feed, for promises that hold for all of them; and a few short forms.

`reactdb.testing.Recorder` is a subscriber that keeps its events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import reactdb
from reactdb import desc, row
from reactdb.feeds.hub import FeedHub, hub_of
from reactdb.session import session_of
from reactdb.testing import Recorder
from tests.support.threads import wait_until

# The feeds of a table with an index `score`.
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


def listen(feed: Any, **options: Any) -> list[Any]:
    """A list of all events that a feed delivers from now on, unchanged, with its error if one ends it."""
    heard: list[Any] = []
    feed.subscribe(heard.append, heard.append, **options)
    return heard


def heard(cursor: reactdb.Cursor, count: int | None = None) -> list[dict[str, Any]]:
    """The next `count` events of a cursor, or all that are available now."""
    found: list[dict[str, Any]] = []
    while count is None or len(found) < count:
        try:
            found.append(cursor.next(timeout=0))
        except (TimeoutError, StopIteration):
            break
    return found


def new_ids(heard: Recorder) -> list[Any]:
    """The id of each event's new document; None if it has none."""
    return [event["new_val"] and event["new_val"]["id"] for event in heard.events]


def changed(old_val: Any, new_val: Any) -> dict[str, Any]:
    """A change event without optional fields."""
    return {"old_val": old_val, "new_val": new_val}


def insert_numbers(table: Any, *numbers: int) -> None:
    """Insert documents with these keys, one commit each."""
    for number in numbers:
        table.insert({"id": number})


def hub(of: Any) -> FeedHub:
    """The hub at which the feeds of a database, or of one of its tables, are registered."""
    return hub_of(session_of(of).engine)


def is_clean(of: Any) -> bool:
    """Whether no feed is registered any more. Waits for that, because a thread that holds the publish lock while a feed is closed
    is the one that removes it, a moment later."""
    wait_until(lambda: hub(of).is_clean)
    return True


def tick(clock: Any) -> None:
    """Run what is due now, in virtual time. The clock must advance a little, or it would run nothing."""
    clock.advance_by(0.000_1)
