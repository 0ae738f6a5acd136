"""What tests of feeds share: KINDS, every kind of feed, for promises that hold for all of them; and a few short forms.

A subscriber that keeps what it hears is `reactdb.testing.Recorder`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import reactdb
from reactdb import Database, desc, row
from reactdb.feeds.hub import FeedHub, hub_of
from reactdb.testing import Recorder
from tests.support.threads import wait_until

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


def listen(feed: Any, **options: Any) -> list[Any]:
    """Everything that a feed tells from now on, as it is; an error as itself."""
    heard: list[Any] = []
    feed.subscribe(heard.append, heard.append, **options)
    return heard


def heard(cursor: reactdb.Cursor, count: int | None = None) -> list[dict[str, Any]]:
    """So many events of a cursor, or all that are there now."""
    found: list[dict[str, Any]] = []
    while count is None or len(found) < count:
        try:
            found.append(cursor.next(timeout=0))
        except (TimeoutError, StopIteration):
            break
    return found


def new_ids(heard: Recorder) -> list[Any]:
    """The id of each event's new document; None where there is none."""
    return [event["new_val"] and event["new_val"]["id"] for event in heard.events]


def changed(old_val: Any, new_val: Any) -> dict[str, Any]:
    """A change event with nothing extra."""
    return {"old_val": old_val, "new_val": new_val}


def insert_numbers(table: Any, *numbers: int) -> None:
    """Documents with these keys, one commit each."""
    for number in numbers:
        table.insert({"id": number})


def hub(of: Any) -> FeedHub:
    """Where the feeds of a database, or of a table of it, are registered."""
    session = of.session if isinstance(of, Database) else of._session
    return hub_of(session.engine)


def is_clean(of: Any) -> bool:
    """Whether no feed is registered any more. Waits for that, because a thread that holds the publish lock while a feed is closed
    is the one that removes it, a moment later."""
    wait_until(lambda: hub(of).is_clean)
    return True


def tick(clock: Any) -> None:
    """Do what is due now, in virtual time. Without any time at all the clock would do nothing."""
    clock.advance_by(0.000_1)
