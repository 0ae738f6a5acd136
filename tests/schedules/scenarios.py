"""Scenarios: the work of the threads on a database, and what must be true afterwards.

    an acknowledged write has happened, once; one that raised is not there
    each feed was told of every change once, in order; a squashed one has been told what holds now
    no thread raises what is not one of reactdb's errors, none waits for ever, and none sleeps through what it waited for

What is chosen to be preempted is where threads meet: the whole package, or the modules that hand over between threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import reactdb
from reactdb import row
from reactdb.session import session_of
from reactdb.store import follow
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec
from reactdb.values.collation import key_bytes
from tests.schedules.explorer import Scenario, Threads
from tests.schedules.workers import Workers

QUEUE = ("reactdb.store.write_queue",)
DELIVERY = ("reactdb.feeds.consumers", "reactdb.feeds.dispatch", "reactdb.feeds.broadcast")
CURSORS = ("reactdb.feeds.consumers",)
DISPATCH = (
    "reactdb.feeds.dispatch",
    "reactdb.feeds.subscription",
    "reactdb.feeds.broadcast",
    "reactdb.feeds.queues",
)
# In memory, SQLite lets a commit wait for reads, and does so in C, where no schedule can see it.
ROOM = "/dev/shm" if os.path.isdir("/dev/shm") else None


class Counter:
    """One document that threads add 1 to, and a feed that is told each step.

    Attributes:
        acknowledged: How often that returned.
        told: What the feed was told, in order.
    """

    def __init__(self, db: reactdb.Database) -> None:
        self.db = db
        self.table = db.table_create("counters")
        self.table.insert({"id": 0, "n": 0})
        self.acknowledged = 0
        self.told: list[int] = []
        self.table.changes().subscribe(lambda event: self.told.append(event["new_val"]["n"]))

    def add(self, durability: str) -> None:
        counts = self.table.get(0).update({"n": row["n"] + 1}, durability=durability)
        assert counts["replaced"] == 1, counts
        self.acknowledged += 1

    def add_twice(self) -> None:
        """As one commit."""
        with self.db.transaction():
            self.table.get(0).update({"n": row["n"] + 1})
            self.table.get(0).update({"n": row["n"] + 1})
        self.acknowledged += 2

    def check(self, count: int) -> None:
        there = self.table.get(0).run()["n"]
        assert self.acknowledged == count, f"{self.acknowledged} of {count} additions were acknowledged"
        assert there == count, f"{count} were added and acknowledged, {there} are there"
        steps = list(range(1, count + 1))
        assert self.told == steps, f"the feed was told {self.told}, not {steps}"


@contextmanager
def memory() -> Generator[reactdb.Database, None, None]:
    with reactdb.connect(":memory:") as db:
        yield db


@contextmanager
def file() -> Generator[reactdb.Database, None, None]:
    """Each thread reads with a connection of its own. No other process writes, so none is followed: polling would be most of what
    is scheduled."""
    with (
        TemporaryDirectory(dir=ROOM) as folder,
        patch.multiple(follow, watch=lambda engine: None, unwatch=lambda engine: None),
        reactdb.connect(f"{folder}/one.db") as db,
    ):
        yield db


def adding(*durabilities: str) -> Generator[Threads, None, None]:
    """Each thread adds 1."""
    with memory() as db:
        counter = Counter(db)
        yield [partial(counter.add, durability) for durability in durabilities]
        yield [partial(counter.add, "soft")]

        counter.check(len(durabilities) + 1)


def adding_beside_a_transaction() -> Generator[Threads, None, None]:
    """Two small writes, which may share a commit, and a transaction, which may not."""
    with memory() as db:
        counter = Counter(db)
        yield [partial(counter.add, "hard"), counter.add_twice, partial(counter.add, "hard")]
        yield [partial(counter.add, "soft")]

        counter.check(5)


def making_tables() -> Generator[Threads, None, None]:
    """Writes that may share a commit, of which each makes the table that it writes to where that is missing; two write to one."""
    with memory() as db:
        acknowledged: list[tuple[str, int]] = []

        def insert(name: str, number: int) -> None:
            def work(transaction: WriteTransaction) -> None:
                if name not in transaction.catalogue.live:
                    transaction.create_table(name, "id")
                key, body = key_bytes(number), codec.encode({"id": number})
                transaction.insert(transaction.catalogue.live[name], key, body)

            session_of(db).transact(work, durability="hard", is_shareable=True)
            acknowledged.append((name, number))

        yield [partial(insert, "one", 1), partial(insert, "one", 2), partial(insert, "two", 3)]
        yield [partial(insert, "two", 4)]

        there = [(name, document["id"]) for name in db.table_list() for document in db.table(name)]
        assert there == sorted(acknowledged), f"{there} are there, {acknowledged} were acknowledged"
        assert len(there) == 4, acknowledged


class Listener:
    """A feed, and what it was told."""

    def __init__(self, feed: reactdb.Feed, scheduler: Any = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.errors: list[Exception] = []
        self.is_telling = False
        self.subscription = feed.subscribe(self._hear, self.errors.append, scheduler=scheduler)

    def _hear(self, event: dict[str, Any]) -> None:
        assert not self.is_telling, "told in two threads at once"
        self.is_telling = True
        self.events.append(event)
        self.is_telling = False

    @property
    def values(self) -> list[Any]:
        return [event["new_val"]["v"] for event in self.events]

    def last(self) -> dict[Any, Any]:
        """The newest value of each document."""
        return {event["new_val"]["id"]: event["new_val"]["v"] for event in self.events}

    def check_steps(self, *writers: list[Any]) -> None:
        """It was told what each writer wrote, once and in its order."""
        self._check_errors()
        for written in writers:
            heard = [value for value in self.values if value in written]
            assert heard == written, f"told {self.values}; one writer wrote {written}"
        count = sum(map(len, writers))
        assert len(self.events) == count, f"told {self.values}, which are not {count}"

    def check_last(self, expected: dict[Any, Any]) -> None:
        self._check_errors()
        assert self.last() == expected, f"last told {self.last()}, where the documents are {expected}"

    def _check_errors(self) -> None:
        assert not self.errors, f"the feed ended: {self.errors}"


def write(table: reactdb.Table, key: int, values: list[Any]) -> Callable[[], None]:
    """A thread that gives a document these values, one after the other."""

    def write_all() -> None:
        for value in values:
            table.get(key).update({"v": value})

    return write_all


def two_documents(db: reactdb.Database) -> reactdb.Table:
    table = db.table_create("games")
    table.insert([{"id": key, "v": None} for key in range(2)])
    return table


def telling(*, listeners: int) -> Generator[Threads, None, None]:
    """Two writers, whose threads tell the subscribers."""
    with memory() as db:
        table = two_documents(db)
        heard = [Listener(table.changes()) for _ in range(listeners)]
        yield [write(table, 0, ["a", "b"]), write(table, 1, ["c", "d"])]
        yield [write(table, 0, ["e"])]

        for listener in heard:
            listener.check_steps(["a", "b", "e"], ["c", "d"])


def telling_of_the_last_commits() -> Generator[Threads, None, None]:
    """No later commit delivers what one of two writers has left to the other."""
    with memory() as db:
        table = two_documents(db)
        listener = Listener(table.changes())
        yield [write(table, 0, ["a"]), write(table, 1, ["b"])]

        listener.check_steps(["a"], ["b"])


def telling_a_squashed_feed() -> Generator[Threads, None, None]:
    with memory() as db:
        table = two_documents(db)
        listener = Listener(table.changes(squash=0.5))
        yield [write(table, 0, ["a", "b"]), write(table, 1, ["c"])]
        yield [write(table, 0, ["e"])]

        listener.check_last({0: "e", 1: "c"})


def telling_by_a_scheduler(*, squash: bool | float) -> Generator[Threads, None, None]:
    """A writer, and two threads of a scheduler that tell."""
    with memory() as db, closing(Workers(2)) as workers:
        table = two_documents(db)
        listener = Listener(table.changes(squash=squash), workers)
        yield [write(table, 0, ["a", "b"])]
        yield [write(table, 0, ["e"])]

        if squash is False:
            listener.check_steps(["a", "b", "e"])
        listener.check_last({0: "e"})


def telling_a_union(*, terms: bool) -> Generator[Threads, None, None]:
    """Feeds of two databases as one: each writer's thread tells what its database has."""
    with memory() as one, memory() as other:
        left, right = two_documents(one), two_documents(other)
        feed = left.changes().union(right.changes())
        listener = Listener(feed.filter(row["new_val"]["v"] != "z") if terms else feed)
        yield [write(left, 0, ["a", "b"]), write(right, 1, ["c", "d"])]
        yield [write(left, 0, ["e"]), write(right, 1, ["f"])]

        listener.check_steps(["a", "b", "e"], ["c", "d", "f"])


def writing_in_a_callback() -> Generator[Threads, None, None]:
    """A subscriber writes what it is told of to another table, whose feed is told of that."""
    with memory() as db:
        table = two_documents(db)
        copies = db.table_create("copies")
        copied = Listener(copies.changes())
        table.changes().subscribe(lambda event: copies.insert({"v": event["new_val"]["v"]}))
        yield [write(table, 0, ["a"]), write(table, 1, ["b"])]
        yield [write(table, 0, ["e"])]

        assert sorted(copied.values) == ["a", "b", "e"], f"told of copies {copied.values}"


def leaving() -> Generator[Threads, None, None]:
    """One unsubscribes while others are told; another one stays."""
    with memory() as db:
        table = two_documents(db)
        leaver, stayer = Listener(table.changes()), Listener(table.changes())
        yield [write(table, 0, ["a", "b"]), leaver.subscription.dispose]
        yield [write(table, 0, ["e"])]

        stayer.check_steps(["a", "b", "e"])
        assert leaver.values == ["a", "b"][: len(leaver.values)], leaver.values


def joining() -> Generator[Threads, None, None]:
    """One subscribes while another writes: it begins with what is there then, and is told what comes after that."""
    with file() as db:
        table = two_documents(db)
        listeners: list[Listener] = []

        def join() -> None:
            listeners.append(Listener(table.changes(include_initial=True, include_seq=True)))

        yield [write(table, 0, ["a", "b"]), join]
        yield [write(table, 0, ["e"])]

        (listener,) = listeners
        listener.check_last({0: "e", 1: None})
        told = [event["new_val"]["v"] for event in listener.events if event["new_val"]["id"] == 0]
        assert told == [None, "a", "b", "e"][-len(told) :], f"told {told}"


def resuming() -> Generator[Threads, None, None]:
    """One subscribes from a position in the log on, beside another one of the same query, while a third writes."""
    with file() as db:
        table = two_documents(db)
        first = Listener(table.changes())
        start = db.seq
        write(table, 1, ["c"])()
        resumed: list[Listener] = []

        def resume() -> None:
            resumed.append(Listener(table.changes(since=start)))

        yield [write(table, 0, ["a", "b"]), resume]
        yield [write(table, 0, ["e"])]

        for listener in (first, *resumed):
            listener.check_steps(["c"], ["a", "b", "e"])


def joining_a_union() -> Generator[Threads, None, None]:
    """One subscribes to a union while another thread writes to what it is made of."""
    with file() as db:
        table = two_documents(db)
        listeners: list[Listener] = []

        def join() -> None:
            listeners.append(Listener(table.get(0).changes().union(table.get(1).changes())))

        yield [write(table, 0, ["a"]), join]
        yield [write(table, 0, ["e"]), write(table, 1, ["f"])]

        (listener,) = listeners
        assert listener.values[-2:] == ["e", "f"], f"told {listener.values}"


def spilling(scheduled: bool) -> Generator[Threads, None, None]:
    """A feed whose queue is full reads on from the log, and goes live again, while another writes."""
    with file() as db, closing(Workers(1 if scheduled else 0)) as workers:
        table = two_documents(db)
        feed = table.changes(changefeed_queue_size=1, on_overflow="spill")
        listener = Listener(feed, workers if scheduled else None)

        def write_together() -> None:
            with db.transaction():
                write(table, 0, ["a", "b"])()

        yield [write_together, write(table, 1, ["c"])]
        yield [write(table, 0, ["e"])]

        listener.check_steps(["a", "b", "e"], ["c"])


def looking_at_figures() -> Generator[Threads, None, None]:
    """Where the figures of a feed say that nothing waits, it has been told all but what it is being told at that moment."""
    with memory() as db, closing(Workers(1)) as workers:
        table = two_documents(db)
        feed = table.changes(squash=0.5)
        listener = Listener(feed, workers)

        def look() -> None:
            figures = feed.stats()
            if not figures["queued"] and not figures["lag_seq"]:
                assert listener.events, f"nothing of 2 changes was told, where the figures are {figures}"

        with db.transaction():
            write(table, 0, ["a"])()
            write(table, 1, ["b"])()
        yield [look]

        listener.check_last({0: "a", 1: "b"})


def looking_at_figures_of_one_that_leaves() -> Generator[Threads, None, None]:
    with memory() as db:
        table = two_documents(db)
        feed, other = table.changes(squash=True), table.changes()
        listener, stayer = Listener(feed), Listener(other)

        yield [
            lambda: repr((feed.stats(), other.stats(), db.subscriptions())),
            write(table, 0, ["a"]),
            listener.subscription.dispose,
        ]

        stayer.check_steps(["a"])


def reading_apart() -> Generator[Threads, None, None]:
    """Two cursors of equal feeds, which share what is queued, each with a thread of its own."""
    with memory() as db:
        table = two_documents(db)
        read: dict[int, list[Any]] = {0: [], 1: []}
        cursors = [table.changes().cursor() for _ in read]

        def read_on(number: int, count: int) -> None:
            read[number] += [cursors[number].next()["new_val"]["v"] for _ in range(count)]

        yield [write(table, 0, ["a", "b"]), partial(read_on, 0, 2), partial(read_on, 1, 2)]
        yield [write(table, 0, ["e"]), partial(read_on, 0, 1), partial(read_on, 1, 1)]

        for cursor in cursors:
            cursor.close()
        assert read == {0: ["a", "b", "e"], 1: ["a", "b", "e"]}, f"read {read}"


def reading(*, readers: int) -> Generator[Threads, None, None]:
    """A cursor, and threads that ask it, while two write."""
    with memory() as db:
        table = two_documents(db)
        read: list[Any] = []
        cursor = table.changes().cursor()

        def read_on(count: int) -> None:
            read.extend(cursor.next()["new_val"]["v"] for _ in range(count))

        yield [
            write(table, 0, ["a"]),
            write(table, 1, ["b"]),
            *[partial(read_on, 2 // readers) for _ in range(readers)],
        ]
        yield [partial(read_on, 1), write(table, 0, ["e"])]

        cursor.close()
        assert sorted(read) == ["a", "b", "e"], f"read {read}"


def closing_a_cursor() -> Generator[Threads, None, None]:
    """A loop over a cursor ends when another thread closes it."""
    with memory() as db:
        table = two_documents(db)
        read: list[Any] = []
        cursor = table.changes().cursor()

        def read_all() -> None:
            read.extend(event["new_val"]["v"] for event in cursor)

        yield [write(table, 0, ["a", "b"]), read_all, cursor.close]

        assert read == ["a", "b"][: len(read)], f"read {read}"


def reading_whole_commits(*, is_union: bool) -> Generator[Threads, None, None]:
    """A reader that is polled while two write both of two tables: each list is one commit, and no call for news is lost."""
    with memory() as db:
        tables = [db.table_create(name) for name in ("games", "rooms")]
        feed = db.changes(batches=True)
        if is_union:
            feed = tables[0].changes(batches=True).union(tables[1].changes(batches=True))
        told: list[list[Any]] = []
        calls: list[int] = []
        reader = feed.reader(on_ready=lambda: calls.append(len(told)))

        def put(*values: str) -> Callable[[], None]:
            def put_all() -> None:
                for value in values:
                    with db.transaction():
                        for table in tables:
                            table.insert({"id": value})

            return put_all

        def poll() -> None:
            told.extend([event["new_val"]["id"] for event in batch] for batch in reader.poll())

        yield [put("a", "b"), put("c"), poll]

        assert len(told) == 3 or calls, "nobody was called for what is left"
        poll()
        assert sorted(told) == [["a", "a"], ["b", "b"], ["c", "c"]], f"told {told}"
        assert reader.position == db.token
        reader.close()


SCENARIOS = [
    Scenario("queue: two hard writers", lambda: adding("hard", "hard"), QUEUE, short_runs=None),
    Scenario("queue: two soft writers", lambda: adding("soft", "soft"), QUEUE),
    Scenario("queue: three writers", lambda: adding("hard", "soft", "hard"), QUEUE),
    Scenario("queue: three hard writers", lambda: adding("hard", "hard", "hard"), QUEUE),
    Scenario("queue: a transaction among them", adding_beside_a_transaction, QUEUE),
    Scenario("queue: tables are made", making_tables, QUEUE, short_runs=200),
    Scenario("delivery: one subscriber", lambda: telling(listeners=1), DELIVERY),
    Scenario(
        "delivery: two subscribers",
        lambda: telling(listeners=2),
        DELIVERY,
    ),
    Scenario("delivery: the last commits", telling_of_the_last_commits, DELIVERY),
    Scenario("delivery: squashed", telling_a_squashed_feed, DELIVERY, may_pass_s=2.0),
    Scenario("delivery: a scheduler", lambda: telling_by_a_scheduler(squash=False), DELIVERY),
    Scenario(
        "delivery: a scheduler, net differences",
        lambda: telling_by_a_scheduler(squash=True),
        DELIVERY,
        short_runs=300,
    ),
    Scenario(
        "delivery: a scheduler, squashed",
        lambda: telling_by_a_scheduler(squash=0.5),
        DELIVERY,
        may_pass_s=2.0,
    ),
    Scenario("delivery: a union of two databases", lambda: telling_a_union(terms=False), DELIVERY),
    Scenario("delivery: a union with terms", lambda: telling_a_union(terms=True), DELIVERY),
    Scenario("delivery: a subscriber writes", writing_in_a_callback, DELIVERY),
    Scenario("delivery: one leaves", leaving, DELIVERY),
    Scenario("dispatch: one subscriber", lambda: telling(listeners=1), DISPATCH),
    Scenario("dispatch: two subscribers", lambda: telling(listeners=2), DISPATCH),
    Scenario("dispatch: a scheduler", lambda: telling_by_a_scheduler(squash=False), DISPATCH),
    Scenario(
        "dispatch: a scheduler, squashed",
        lambda: telling_by_a_scheduler(squash=0.5),
        DISPATCH,
        may_pass_s=2.0,
    ),
    Scenario("dispatch: one joins", joining, ("reactdb.feeds.hub", *DISPATCH)),
    Scenario("dispatch: one resumes", resuming, ("reactdb.feeds.hub", *DISPATCH)),
    Scenario("dispatch: one joins a union", joining_a_union, (*DELIVERY, "reactdb.feeds.hub")),
    Scenario("dispatch: one spills", lambda: spilling(False), ("reactdb.feeds.hub", *DISPATCH)),
    Scenario("dispatch: one spills, a scheduler", lambda: spilling(True), ("reactdb.feeds.hub", *DISPATCH)),
    Scenario(
        "dispatch: figures",
        looking_at_figures,
        DISPATCH,
        may_pass_s=2.0,
        short_runs=200,
    ),
    Scenario(
        "dispatch: figures of one that leaves",
        looking_at_figures_of_one_that_leaves,
        ("reactdb.feeds.inspect", *DISPATCH),
    ),
    Scenario("cursors: one reader", lambda: reading(readers=1), CURSORS),
    Scenario("cursors: two readers", lambda: reading(readers=2), CURSORS),
    Scenario("cursors: two cursors", reading_apart, (*CURSORS, "reactdb.feeds.broadcast")),
    Scenario("cursors: closing", closing_a_cursor, CURSORS),
    Scenario(
        "readers: whole commits", lambda: reading_whole_commits(is_union=False), DISPATCH, short_runs=300
    ),
    Scenario(
        "readers: whole commits of a union",
        lambda: reading_whole_commits(is_union=True),
        DISPATCH,
        short_runs=300,
    ),
]
