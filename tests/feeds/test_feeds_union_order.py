"""Unions of feeds: the events of their members come in the order of the log, for every kind of consumer."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex.scheduler import EventLoopScheduler, VirtualTimeScheduler

import reactdb
from reactdb import row
from reactdb.feeds.subscription import Subscription
from reactdb.store.engine import Engine
from tests.support.threads import PATIENCE_S

Feeds = list[Any]


def rest(cursor: Any) -> list[Any]:
    """What the cursor has to tell now."""
    found = []
    try:
        while True:
            found.append(cursor.next(timeout=0))
    except (TimeoutError, StopIteration):
        return found


def ids(events: list[Any]) -> list[Any]:
    return [(event["new_val"] or event["old_val"])["id"] for event in events if "new_val" in event]


@pytest.fixture
def tables(db):
    return [db.table_create("a"), db.table_create("b")]


def write(db: Any, tables: list[Any]) -> None:
    """One commit, which goes to and fro between the tables."""
    a, b = tables
    with db.transaction():
        b.insert({"id": "b1"})
        a.insert({"id": "a2"})
        b.insert({"id": "b3"})
        a.insert({"id": "a4"})


ONE_COMMIT = ["b1", "a2", "b3", "a4"]


class Listener:
    """One way to listen: `begin` subscribes, `heard` is what was told up to now."""

    def __init__(self, how: str) -> None:
        self._how = how
        self._heard: list[Any] = []
        self._clock = VirtualTimeScheduler()

    def begin(self, feed: Any) -> None:
        if self._how == "cursor":
            self._cursor = feed.cursor()
        elif self._how == "asyncio":
            self._cursor = aiter(feed)
        else:
            scheduler = self._clock if self._how == "scheduler" else None
            feed.subscribe(self._heard.append, scheduler=scheduler)

    def heard(self, count: int) -> list[Any]:
        if self._how == "cursor":
            self._heard += rest(self._cursor)
        elif self._how == "asyncio":
            self._heard += asyncio.run(self._some(count))
        elif self._how == "scheduler":
            self._clock.advance_by(1)
        return self._heard

    async def _some(self, count: int) -> list[Any]:
        return [await asyncio.wait_for(anext(self._cursor), PATIENCE_S) for _ in range(count)]


WAYS = ["callback", "cursor", "asyncio", "scheduler"]
KINDS: dict[str, Callable[[Any], Any]] = {
    "table": lambda t: t,
    "filter": lambda t: t.filter(lambda document: True),
    "map": lambda t: t.pluck("id"),
    "limit": lambda t: t.order_by("id").limit(9),
}


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(
    "options", [{}, {"squash": True}, {"on_overflow": "spill", "changefeed_queue_size": 1}], ids=str
)
@pytest.mark.parametrize("ask", KINDS.values(), ids=KINDS)
def test_one_commit_is_told_in_the_order_in_which_it_was_written(db, tables, how, options, ask):
    feeds = [ask(table).changes(**options) for table in tables]
    listener = Listener(how)
    listener.begin(feeds[0].union(feeds[1]))

    write(db, tables)

    # The net difference of a list is one step, the way to the list after its last change.
    is_one_step = options.get("squash") and ask is KINDS["limit"]
    assert (["b1", "b3", "a2", "a4"] if is_one_step else ONE_COMMIT) == ids(listener.heard(4))


@pytest.mark.parametrize("how", WAYS)
def test_several_commits_are_told_one_after_the_other(db, tables, how):
    a, b = tables
    listener = Listener(how)
    listener.begin(
        b.changes().union(
            a.changes().filter(row["new_val"]["id"] != 1), db.changes().pluck("new_val", "old_val")
        )
    )
    for number in range(3):
        a.insert({"id": number})
        b.insert({"id": number + 10})

    # A change that several members tell comes once from each, and no other in between.
    assert [0, 0, 10, 10, 1, 11, 11, 2, 2, 12, 12] == ids(listener.heard(11))


@pytest.mark.parametrize("how", WAYS)
def test_a_commit_of_many_changes_to_one_table_is_told_change_by_change(db, tables, how):
    """Members of one table and of all tables are offered the same commit."""
    listener = Listener(how)
    listener.begin(db.changes().pluck("new_val", "old_val").union(tables[0].changes()))
    tables[0].insert([{"id": number} for number in range(4)])

    assert [0, 0, 1, 1, 2, 2, 3, 3] == ids(listener.heard(8))


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("squash", [False, True])
def test_what_was_missed_is_told_in_the_order_of_the_log(db, tables, how, squash):
    a, b = tables
    # More than a page of the log.
    for number in range(300):
        with db.transaction():
            b.insert({"id": number})
            a.insert([{"id": number + 0.2}, {"id": number + 0.4}])
    listener = Listener(how)
    listener.begin(a.changes(since=0, squash=squash).union(b.changes(since=0, squash=squash)))
    write(db, tables)

    expected = [one for number in range(300) for one in (number, number + 0.2, number + 0.4)]
    assert [*expected, *ONE_COMMIT] == ids(listener.heard(904))


def test_members_that_squash_at_one_interval_are_told_together(db, tables, clock):
    """As one feed of both would be: the first change at once, then the net differences of the interval."""
    heard: list[Any] = []
    feeds = [table.changes(squash=1) for table in tables]
    feeds[0].union(feeds[1]).subscribe(heard.append, scheduler=clock)
    clock.advance_by(5)
    a, b = tables
    a.insert({"id": "first"})
    clock.advance_by(0.3)
    write(db, tables)
    b.get("b1").delete()
    clock.advance_by(0.3)
    assert ["first"] == ids(heard)
    clock.advance_by(0.5)

    assert ["first", "a2", "b3", "a4"] == ids(heard)


def test_a_squashed_selection_of_two_tables_is_told_in_the_order_of_the_log(db, tables):
    """Also where the union comes before `changes`."""
    with tables[0].union(tables[1]).changes(squash=True).cursor() as cursor:
        write(db, tables)

        assert ONE_COMMIT == ids(rest(cursor))


@pytest.mark.parametrize("how", WAYS)
def test_initial_values_come_first_one_member_after_the_other(db, tables, how):
    write(db, tables)
    feeds = [table.changes(include_initial=True, include_states=True) for table in tables]
    listener = Listener(how)
    listener.begin(feeds[0].union(feeds[1]))
    with db.transaction():
        tables[1].insert({"id": "b5"})
        tables[0].insert({"id": "a6"})

    assert ["a2", "a4", "b1", "b3", "b5", "a6"] == ids(listener.heard(10))


def test_the_end_of_a_member_comes_after_what_the_others_were_told_before_it(db, tables):
    """The table is dropped after the commit; the union ends with it, having told the commit."""
    a, b = tables
    with b.changes().union(a.changes()).cursor() as cursor:
        write(db, tables)
        db.table_drop("b")

        assert ONE_COMMIT == [cursor.next(timeout=0)["new_val"]["id"] for _ in range(4)]
        with pytest.raises(reactdb.errors.FeedAborted):
            cursor.next(timeout=0)


def test_a_limit_of_a_union_counts_in_the_order_of_the_log(db, tables):
    a, b = tables
    heard: list[Any] = []
    done: list[Any] = []
    a.changes().union(b.changes()).limit(3).subscribe(heard.append, on_completed=lambda: done.append(1))
    write(db, tables)

    assert (["b1", "a2", "b3"], [1]) == (ids(heard), done)


def test_the_token_of_a_union_is_past_what_was_told_and_before_the_rest(db, tables):
    feeds = [table.changes() for table in tables]
    write(db, tables)
    write_again = [("a", 5), ("b", 6), ("b", 7), ("a", 8)]
    with feeds[0].union(feeds[1]).cursor() as cursor:
        for name, number in write_again:
            db.table(name).insert({"id": number})
        for told in range(5):
            token = cursor.token
            resumed = [table.changes(since=token) for table in tables]
            with resumed[0].union(resumed[1]).cursor() as other:
                assert [5, 6, 7, 8][told:] == ids(rest(other))
            if told < 4:
                cursor.next(timeout=0)


# ---------------------------------------------------------------------------------------------------------------
# Looking in the middle of a commit


def test_a_commit_that_comes_while_the_members_are_looked_through_is_told_from_its_beginning(
    db, tables, monkeypatch
):
    """The first member had nothing when it was looked at, and has the earliest change by the time the second one is."""
    look = Subscription.look
    written: list[bool] = []

    def look_and_write(member: Subscription) -> int | None:
        found = look(member)
        if not written:
            written.append(True)
            write(db, tables)
        return found

    a, b = tables
    with b.changes().union(a.changes()).cursor() as cursor:
        monkeypatch.setattr(Subscription, "look", look_and_write)

        assert ONE_COMMIT == ids(rest(cursor))


def test_a_member_that_reads_the_log_waits_for_those_that_have_not_been_offered_the_commit(
    db, tables, monkeypatch
):
    """What is committed can be read before it is offered to the last feed."""
    a, b = tables
    is_in_the_middle, goes_on = threading.Event(), threading.Event()

    def wait(document: Any) -> bool:
        is_in_the_middle.set()
        return not goes_on.wait(PATIENCE_S)

    catch_up = Engine.catch_up

    def note_and_catch_up(engine: Engine, *arguments: Any) -> bool:
        # Not where the thread does it that follows other processes.
        if threading.current_thread() is threading.main_thread():
            goes_on.set()
        return catch_up(engine, *arguments)

    found: list[Any] = []
    spilling = a.changes(changefeed_queue_size=1, on_overflow="spill")
    waiting = b.filter(wait).changes().subscribe(found.append)
    with spilling.union(b.changes()).cursor() as cursor:
        for number in range(3):
            a.insert({"id": number})
        told = [cursor.next(timeout=0)]
        monkeypatch.setattr(Engine, "catch_up", note_and_catch_up)
        writer = threading.Thread(target=write, args=(db, tables))
        writer.start()
        assert is_in_the_middle.wait(PATIENCE_S)
        told += [cursor.next(timeout=PATIENCE_S) for _ in range(3)]
        goes_on.set()
        writer.join(PATIENCE_S)
        told += rest(cursor)
    waiting.dispose()

    assert ([0, 1, 2, *ONE_COMMIT], []) == (ids(told), found)


# ---------------------------------------------------------------------------------------------------------------
# Two databases


@pytest.mark.parametrize("how", WAYS)
def test_of_two_databases_each_is_told_in_the_order_of_its_own_log(how):
    """There is no order between them."""
    with reactdb.connect(":memory:") as one, reactdb.connect(":memory:") as other:
        tables = {db: [db.table_create("a"), db.table_create("b")] for db in (one, other)}
        feeds = [
            table.changes().merge({"of": number}) for number, db in enumerate(tables) for table in tables[db]
        ]
        listener = Listener(how)
        listener.begin(feeds[0].union(feeds[2], feeds[1], feeds[3]))
        write(other, tables[other])
        write(one, tables[one])
        told = listener.heard(8)

        for number in (0, 1):
            assert ONE_COMMIT == ids([event for event in told if event["of"] == number])


# ---------------------------------------------------------------------------------------------------------------
# Laws

WRITES = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.booleans()), min_size=1, max_size=5),
    max_size=6,
)


@settings(max_examples=60)
@given(
    data=st.data(),
    before=WRITES,
    after=WRITES,
    size=st.sampled_from([1, 2, 100_000]),
    on_overflow=st.sampled_from(["drop", "spill"]),
    how=st.sampled_from(WAYS),
)
def test_a_union_tells_what_the_feed_of_all_tables_tells_and_in_its_order(
    data: st.DataObject, before: Any, after: Any, size: int, on_overflow: str, how: str
) -> None:
    """Read in parts, resumed anywhere, spilled or not."""
    if on_overflow == "drop":
        size = 100_000
    with reactdb.connect(":memory:") as db:
        tables = [db.table_create("a"), db.table_create("b")]

        def carry_out(commits: Any) -> None:
            for commit in commits:
                with db.transaction():
                    for table, key, is_there in commit:
                        if is_there:
                            tables[table].insert({"id": key, "seq": db.seq}, conflict="replace")
                        else:
                            tables[table].get(key).delete()

        carry_out(before)
        since = data.draw(st.one_of(st.none(), st.integers(0, db.seq)), "since")
        options = {
            "since": since,
            "include_seq": True,
            "changefeed_queue_size": size,
            "on_overflow": on_overflow,
        }
        with db.changes(since=db.seq if since is None else since, include_seq=True).cursor() as whole:
            listener = Listener(how)
            listener.begin(tables[1].changes(**options).union(tables[0].changes(**options)))
            for commit in after:
                carry_out([commit])
                if how == "cursor" and data.draw(st.booleans(), "read"):
                    listener.heard(0)
            expected = [event["seq"] for event in rest(whole)]

            assert expected == [event["seq"] for event in listener.heard(len(expected))]


@pytest.mark.parametrize("is_scheduled", [False, True])
@pytest.mark.parametrize("since", [None, 0])
def test_a_union_that_is_told_while_others_write_keeps_the_order(
    is_scheduled: bool, since: int | None
) -> None:
    """Writers in two threads, and a reader in a third, which looks in the middle of their commits."""
    commits = 60
    with tempfile.TemporaryDirectory() as folder, reactdb.connect(f"{folder}/x.db", durability="soft") as db:
        tables = [db.table_create("a"), db.table_create("b")]
        heard: list[int] = []
        is_full = threading.Event()
        options = {"include_seq": True, "since": since, "changefeed_queue_size": 7, "on_overflow": "spill"}
        feed = (
            tables[0]
            .changes(**options)
            .union(
                tables[1].changes(**options), tables[1].changes(**{**options, "changefeed_queue_size": 1000})
            )
        )

        def hear(event: Any) -> None:
            heard.append(event["seq"])
            # Of each commit two changes are told by one member, and two by two.
            if len(heard) == 2 * commits * 6:
                is_full.set()

        def work(number: int) -> None:
            for count in range(commits):
                with db.transaction():
                    for step in range(3):
                        tables[step % 2].insert({"id": [number, count, step]})
                    tables[1].insert({"id": [number, count, 3]})

        scheduler = EventLoopScheduler() if is_scheduled else None
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
            cursor = None if is_scheduled else feed.cursor()
            if is_scheduled:
                feed.subscribe(hear, scheduler=scheduler)
            for thread in threads:
                thread.start()
            while cursor is not None and not is_full.is_set():
                hear(cursor.next(timeout=PATIENCE_S))
            assert is_full.wait(PATIENCE_S)
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
            if scheduler is not None:
                scheduler.dispose()

        assert sorted(heard) == heard
