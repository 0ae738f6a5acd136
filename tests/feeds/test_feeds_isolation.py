"""An error during the delivery of a commit ends the feed that it occurs in, and every other feed gets the commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import reactdb
from reactdb import desc, row
from reactdb.errors import FeedAborted
from reactdb.feeds.broadcast import Broadcast
from reactdb.feeds.hub import FeedHub, hub_of
from reactdb.feeds.queues import FeedQueue
from reactdb.feeds.router import Router
from reactdb.feeds.views.axes import FieldAxis
from reactdb.session import session_of
from reactdb.testing import Recorder

EVENT = {"old_val": None, "new_val": {"id": 1, "a": 5}}


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.ERROR, "reactdb"):
        yield caplog


@pytest.fixture
def others(games: Any) -> list[Recorder]:
    return feeds_of(games)


def feeds_of(games: Any) -> list[Recorder]:
    """Feeds that nothing ails: around the one that fails, whichever comes first."""
    games.index_create("a")
    return [
        Recorder(games.changes()),
        Recorder(games.get(1).changes()),
        Recorder(games.filter(row["a"] == 5).changes()),
        Recorder(games.order_by(index=desc("a")).limit(2).changes()),
        Recorder(games.between(0, 9, index="a").changes()),
    ]


def raising(error: BaseException) -> Callable[[Any], Any]:
    def fail(document: Any) -> Any:
        raise error

    return fail


FAILING: dict[str, Callable[[Any], Any]] = {
    "filter": lambda t: t.filter(raising(MemoryError("no room"))),
    "map": lambda t: t.map(raising(MemoryError("no room"))),
    "window": lambda t: t.order_by("a").filter(raising(MemoryError("no room"))).limit(1),
    "aggregate": lambda t: t.filter(raising(MemoryError("no room"))).count(),
    "union": lambda t: t.union(t.filter(raising(MemoryError("no room")))),
}


@pytest.mark.parametrize("make", FAILING.values(), ids=FAILING)
def test_a_view_that_fails_ends_its_own_feed(
    games: Any, others: list[Recorder], make: Callable[[Any], Any], log: pytest.LogCaptureFixture
) -> None:
    failed = Recorder(make(games).changes())
    last = Recorder(games.has_fields("a").changes())

    games.insert({"id": 1, "a": 5})

    assert ["no room"] == [str(error) for error in failed.errors]
    assert "a feed ends, because its view failed" in log.text
    for other in (*others, last):
        assert ([EVENT], []) == (other.events, other.errors)


@pytest.mark.parametrize("make", [lambda t: t.filter(raising(ValueError())), lambda t: t.map(row["a"] + "x")])
def test_a_document_that_cannot_be_computed_ends_nothing(
    games: Any, others: list[Recorder], make: Callable[[Any], Any]
) -> None:
    unaware = Recorder(make(games).changes())

    games.insert({"id": 1, "a": 5})

    assert ([], []) == (unaware.events, unaware.errors)
    assert all(other.events == [EVENT] for other in others)


def test_where_routing_by_a_field_fails_everybody_on_that_field_looks(
    games: Any, others: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(axis: FieldAxis, document: Any) -> Any:
        raise MemoryError

    ranged = Recorder(games.filter((row["a"] > 1) & (row["a"] < 6)).changes())
    elsewhere = Recorder(games.filter(row["a"] == 6).changes())
    monkeypatch.setattr(FieldAxis, "values", fail)

    games.insert({"id": 1, "a": 5})

    assert ([], []) == (elsewhere.events, elsewhere.errors)
    for other in (*others, ranged):
        assert ([EVENT], []) == (other.events, other.errors)


def test_a_queue_that_fails_ends_one_subscription_of_a_shared_view(
    games: Any, others: list[Recorder], monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    add = FeedQueue.add
    queues: list[FeedQueue] = []

    def fail_the_second(queue: FeedQueue, deltas: Any) -> None:
        if queue not in queues:
            queues.append(queue)
        if queues.index(queue) == 1:
            raise RuntimeError("broken")
        add(queue, deltas)

    # Those that may lose nothing have a queue each.
    shared = [Recorder(games.pluck("id", "a").changes(on_overflow="spill")) for _ in range(3)]
    for other in others:
        other.close()
    monkeypatch.setattr(FeedQueue, "add", fail_the_second)

    games.insert({"id": 1, "a": 5})
    games.insert({"id": 2, "a": 5})

    assert ["broken"] == [str(error) for one in shared for error in one.errors]
    assert [2, 0, 2] == [len(one.events) for one in shared]
    assert "its queue failed" in log.text


def test_a_queue_that_fails_ends_those_who_share_it(
    games: Any, others: list[Recorder], monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    publish = Broadcast.publish
    failed: list[Any] = []

    def fail_once(queue: Any, deltas: Any) -> None:
        if not failed:
            failed.append(queue)
            raise MemoryError("broken")
        publish(queue, deltas)

    called = [Recorder(games.changes()) for _ in range(3)]
    cursors = [games.changes().cursor() for _ in range(3)]
    typed = Recorder(games.changes(include_types=True))
    monkeypatch.setattr(Broadcast, "publish", fail_once)

    games.insert({"id": 1, "a": 5})
    games.insert({"id": 2, "a": 5})

    assert "its queue failed" in log.text
    assert [["broken"]] * 3 == [[str(error) for error in one.errors] for one in called]
    for cursor in cursors:
        with pytest.raises(MemoryError):
            cursor.next(timeout=0)
    # The first of all shares what they share; those that are told otherwise, or by another view, do not.
    assert [0, 2, 2] == [len(others[0].events), len(typed.events), len(others[2].events)]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit()])
def test_an_interrupt_in_a_predicate_ends_its_feed_and_reaches_the_writer(
    interrupt: BaseException,
) -> None:
    """The commit was made: everybody else is told of it, with the next one at the latest.

    In memory: on a file, the thread that follows other processes may be the one that tells.
    """
    games = reactdb.connect(":memory:").table_create("games")
    others = feeds_of(games)
    is_armed = [True]

    def test(document: Any) -> bool:
        if is_armed:
            is_armed.clear()
            raise interrupt
        return True

    interrupted = Recorder(games.filter(test).changes())
    last = Recorder(games.has_fields("a").changes())
    with pytest.raises(type(interrupt)):
        games.insert({"id": 1, "a": 5})

    games.insert({"id": 2, "a": 4})

    assert [{"id": 1, "a": 5}, {"id": 2, "a": 4}] == games.run()
    assert [FeedAborted] == [type(error) for error in interrupted.errors]
    assert [1, 2] == [event["new_val"]["id"] for event in last.events]
    for other in (*others, last):
        assert ([EVENT], []) == (other.events[:1], other.errors)


def test_a_router_that_fails_ends_all_feeds_and_not_the_writer(
    db: Any,
    games: Any,
    others: list[Recorder],
    monkeypatch: pytest.MonkeyPatch,
    log: pytest.LogCaptureFixture,
) -> None:
    """Whom the commit would have concerned nobody knows, and none must go on as if it had been told."""

    def fail(router: Any, change: Any) -> Any:
        raise RuntimeError("lost")

    hub: FeedHub = hub_of(session_of(db).engine)
    with monkeypatch.context() as patch:
        patch.setattr(Router, "find", fail)
        games.insert({"id": 1, "a": 5})

    assert all([FeedAborted] == [type(error) for error in other.errors] for other in others)
    assert "all of them end" in log.text
    assert hub.is_clean
