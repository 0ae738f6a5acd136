"""Law 1 with several writing threads: at the end the replica equals the query, and every change was delivered once, in order.

Subscribers are called by the writing threads or by the threads of a scheduler, or they pull; some join while others write.

Python switches between the threads as often as it can. That finds races only by chance; `tests.schedules` runs all schedules.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from reactivex.scheduler import EventLoopScheduler, NewThreadScheduler, ThreadPoolScheduler

import reactdb
from reactdb import desc, row
from reactdb.session import session_of
from tests.support.feed_kinds import Kind, prepare
from tests.support.replica import Event, Replica

THREADS = 4
WRITES = 60
PATIENCE_S = 30.0
# Seconds after which a thread that runs lets another one run, where 0.005 is usual.
SWITCH_S = 1e-6

KINDS = [
    Kind("games", lambda db: db.table("games")),
    Kind("filter", lambda db: db.table("games").filter(row["a"] >= 1)),
    Kind("equality", lambda db: db.table("games").filter(row["a"] == 1)),
    Kind("between", lambda db: db.table("games").between(1, 9, index="a")),
    Kind("get_all twice", lambda db: db.table("games").get_all(1, 1, index="a")),
    Kind("map", lambda db: db.table("games").map([row["a"], row["v"]])),
    Kind("limit", lambda db: db.table("games").order_by(index=desc("a")).limit(3), has_offsets=True),
    Kind("window", lambda db: db.table("games").order_by("v").skip(1).limit(4), has_offsets=True),
    Kind("order", lambda db: db.table("games").order_by(desc("v")), has_offsets=True),
    Kind(
        "union",
        lambda db: db.table("games").order_by("v").limit(2).union(db.table("games").filter(row["a"] == 1)),
    ),
    Kind("sum", lambda db: db.table("games").sum("v"), shape="one"),
    Kind("group", lambda db: db.table("games").group("a").count(), shape="groups"),
    Kind("distinct", lambda db: db.table("games").distinct("v")),
    Kind("db", lambda db: db, shape="tables"),
]


@pytest.fixture(autouse=True)
def restless() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    yield
    sys.setswitchinterval(usual)


def write_much(db: reactdb.Database, number: int, start: threading.Barrier) -> None:
    """Many writes of few documents: sorted by the same keys, inserted and deleted by all threads."""
    games = db.table("games")
    start.wait()
    for step in range(WRITES):
        key = (step * 7 + number) % 11
        choice = (step + number) % 5
        if choice == 0:
            games.get(key).delete()
        elif choice == 1:
            games.get(key).update({"v": step % 4})
        elif choice == 2:
            with db.transaction():
                games.get(key).replace({"id": key, "a": step % 3, "v": number})
                games.get((key + 1) % 11).delete()
                games.get(key).update({"v": row["v"] + 1})
        else:
            games.insert({"id": key, "a": step % 3, "v": step % 5}, conflict="replace")


def in_threads(db: reactdb.Database, meanwhile: Callable[[], None] | None = None) -> None:
    """Let threads write, and do something meanwhile."""
    start = threading.Barrier(THREADS + 1)
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            write_much(db, number, start)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    start.wait()
    if meanwhile is not None:
        meanwhile()
    for thread in threads:
        thread.join()
    assert [] == failures


class Listener:
    """A subscriber: a replica, the seqs that it heard, and whether it has heard of a state."""

    def __init__(self, db: reactdb.Database, kind: Kind, scheduler: Any = None, **options: Any) -> None:
        self.kind = kind
        self.events: list[Event] = []
        self.errors: list[Exception] = []
        self.seq = 0
        self.news = threading.Condition()
        options = {"include_initial": True, "include_seq": True, **options}
        if kind.has_offsets:
            options["include_offsets"] = True
        self.options = options
        self.feed = kind.ask(db).changes(**options)
        self.subscription = self.feed.subscribe(self.hear, self.errors.append, scheduler=scheduler)

    def hear(self, event: Event) -> None:
        with self.news:
            self.events.append(event)
            self.news.notify_all()

    def check(self, db: reactdb.Database) -> None:
        assert [] == self.errors
        replica = Replica(
            by_offset=self.kind.has_offsets, name_of=self.kind.name_of, value_of=self.kind.value_of
        )
        for event in list(self.events):
            replica.apply(event)
        replica.assert_equals(self.kind.answer(db), self.kind)
        seqs = [event["seq"] for event in self.events if "old_val" in event]
        assert sorted(seqs) == seqs or self.options.get("squash")
        if self.kind.name in ("games", "db", "map"):
            assert len(set(seqs)) == len(seqs)


@pytest.fixture
def prepared(db: Any) -> Any:
    fill(db)
    return db


def fill(db: reactdb.Database) -> None:
    prepare(db)
    db.table("games").insert([{"id": key, "a": key % 3, "v": key % 4} for key in range(8)])


@pytest.mark.parametrize("squash", [False, True])
def test_feeds_told_by_the_writing_threads_equal_their_queries(prepared: Any, squash: bool) -> None:
    listeners = [Listener(prepared, kind, squash=squash) for kind in KINDS]

    in_threads(prepared)

    for listener in listeners:
        listener.check(prepared)


SCHEDULERS: list[Callable[[], Any]] = [
    EventLoopScheduler,
    lambda: ThreadPoolScheduler(3),
    NewThreadScheduler,
]


@pytest.mark.slow
@pytest.mark.parametrize("squash", [False, True, 0.01])
@pytest.mark.parametrize("make", SCHEDULERS, ids=["event loop", "thread pool", "new thread"])
def test_feeds_told_by_a_scheduler_equal_their_queries(
    prepared: Any, make: Callable[[], Any], squash: bool | float
) -> None:
    scheduler = make()
    try:
        listeners = [Listener(prepared, kind, scheduler, squash=squash) for kind in KINDS]

        in_threads(prepared)

        for listener in listeners:
            check_when_told(listener, prepared)
    finally:
        for listener in listeners:
            listener.subscription.dispose()
        if hasattr(scheduler, "dispose"):
            scheduler.dispose()
        if hasattr(scheduler, "executor"):
            scheduler.executor.shutdown()


def check_when_told(listener: Listener, db: reactdb.Database) -> None:
    """Events come on other threads. The last thing told may be nothing, of which nobody hears: so look again now and then.

    What is just being told counts as told in the figures, because in the subscriber it is. So it may come a moment later.
    """
    deadline = time.monotonic() + PATIENCE_S
    with listener.news:
        while listener.feed.stats()["queued"] or listener.feed.stats()["lag_seq"]:
            assert time.monotonic() < deadline, (listener.kind, listener.feed.stats())
            listener.news.wait(0.02)
        while True:
            try:
                listener.check(db)
                return
            except AssertionError:
                if not listener.news.wait(deadline - time.monotonic()):
                    raise


def test_subscribing_while_others_write_tells_each_value_once(prepared: Any) -> None:
    """No write in the moment of subscribing is lost, and none comes twice."""
    listeners: list[Listener] = []

    def subscribe() -> None:
        for _ in range(3):
            listeners.extend(Listener(prepared, kind) for kind in KINDS)

    in_threads(prepared, subscribe)

    for listener in listeners:
        listener.check(prepared)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_commit_that_is_not_published_yet_is_told_once(kind: Kind) -> None:
    """Subscribing between a commit and its being told, beside a feed that has the same view."""
    with reactdb.connect(":memory:") as db:
        fill(db)
        first = Listener(db, kind)
        thread = threading.Thread(target=db.table("games").insert, args=({"id": 20, "a": 1, "v": 0},))

        with session_of(db).engine.publisher.lock:
            before = db.seq
            thread.start()
            while db.seq == before:
                pass
            second = Listener(db, kind)
        thread.join()

        first.check(db)
        second.check(db)


def test_resuming_while_others_write_goes_on_without_a_gap(prepared: Any) -> None:
    """Feeds that read the log and go live under way hear what the uninterrupted one hears."""
    whole = Listener(prepared, KINDS[0])
    start = prepared.seq
    resumed: list[Listener] = []

    def resume() -> None:
        resumed.extend(Listener(prepared, KINDS[0], include_initial=False, since=start) for _ in range(20))

    in_threads(prepared, resume)

    expected = [event for event in whole.events if "old_val" in event]
    for listener in resumed:
        assert expected == listener.events


def test_a_spilling_reader_among_writing_threads_loses_nothing(prepared: Any) -> None:
    whole = Listener(prepared, KINDS[0], include_initial=False)
    feed = prepared.table("games").changes(include_seq=True, changefeed_queue_size=3, on_overflow="spill")
    told: list[Event] = []
    with feed.cursor() as cursor:

        def read() -> None:
            told.extend(cursor.next(timeout=PATIENCE_S) for _ in range(100))

        in_threads(prepared, read)
        while len(told) < len(whole.events):
            told.append(cursor.next(timeout=PATIENCE_S))

        assert whole.events == told
        with pytest.raises(TimeoutError):
            cursor.next(timeout=0)
