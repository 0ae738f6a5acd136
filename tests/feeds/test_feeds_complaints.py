"""Complaints of users of other live-query systems, each with a test that it does not apply here."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from typing import Any

import pytest
from reactivex import operators as ops
from reactivex.scheduler import EventLoopScheduler, VirtualTimeScheduler

import reactdb
from reactdb import asc, desc, row
from reactdb.testing import Recorder
from reactdb.values.codec import same
from tests.support.feeds import KINDS, changed, hub, is_clean, new_ids
from tests.support.threads import PATIENCE_S


@pytest.fixture
def rooms(db: Any) -> Any:
    table = db.table_create("rooms")
    table.index_create("score")
    return table


def replayed(events: list[Any]) -> dict[Any, Any]:
    """The documents that the events add up to. Each is checked to follow from those before it."""
    documents: dict[Any, Any] = {}
    for event in events:
        old_val, new_val = event.get("old_val"), event.get("new_val")
        key = (new_val or old_val)["id"]
        assert same(documents.get(key), old_val), f"{event} does not follow from {documents.get(key)}"
        if new_val is None:
            del documents[key]
        else:
            documents[key] = new_val
    return documents


def content(table: Any) -> dict[Any, Any]:
    return {document["id"]: document for document in table.run()}


# ---------------------------------------------------------------------------------------------------------------
# "I get events though nothing has changed"


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.get(1).update({"score": 5}),
        lambda t: t.get(1).update({}),
        lambda t: t.get(1).update(lambda document: document),
        lambda t: t.get(1).update({"score": row["score"] + 0}),
        lambda t: t.get(1).replace({"id": 1, "score": 5, "tags": ["a", {"b": None}]}),
        lambda t: t.get(1).replace({"tags": ("a", {"b": None}), "score": 5, "id": 1}),
        lambda t: t.insert({"id": 1, "score": 5}, conflict="update"),
        lambda t: t.insert({"id": 1, "score": 5, "tags": ["a", {"b": None}]}, conflict="replace"),
        lambda t: t.insert({"id": 1}, conflict=lambda key, old, new: old),
        lambda t: t.update({"score": 5}),
        lambda t: t.get(2).update({"score": 5}),
        lambda t: t.get(2).delete(),
        lambda t: t.get(2).replace(None),
        lambda t: t.filter({"score": 6}).delete(),
    ],
)
def test_a_write_that_changes_nothing_is_told_to_nobody(rooms, write):
    """It is not even logged."""
    rooms.insert({"id": 1, "score": 5, "tags": ["a", {"b": None}]})
    ears = {name: Recorder(select(rooms).changes()) for name, select in KINDS.items() if name != "callable"}
    seq = reactdb.Database(rooms._session).seq

    write(rooms)

    assert {} == {name: ear.events for name, ear in ears.items() if ear.events}
    assert seq == reactdb.Database(rooms._session).seq


@pytest.mark.parametrize(
    ("before", "after"), [(0, False), (1, True), (1, 1.0), (0.0, -0.0), ("", b""), ([], {}), (None, False)]
)
def test_values_that_python_calls_equal_are_a_change_where_they_are_not_the_same(games, before, after):
    """0, 0.0 and False are three values; who is told of none of it has the wrong document."""
    games.insert({"id": 1, "value": before})
    heard = Recorder(games.changes())

    games.get(1).update({"value": after})

    assert [(repr(before), repr(after))] == [
        (repr(event["old_val"]["value"]), repr(event["new_val"]["value"])) for event in heard.events
    ]


def test_what_is_outside_of_the_result_is_not_told(games):
    """A field that was not plucked, a document that does not match before and after, one beyond the limit."""
    games.index_create("score")
    games.insert([{"id": n, "room": 5, "score": n} for n in range(5)])
    ears = [
        Recorder(games.pluck("id", "score").changes()),
        Recorder(games.filter({"room": 6}).changes()),
        Recorder(games.order_by(index="score").limit(2).changes()),
        Recorder(games.get_all(0, 1).changes()),
        Recorder(games.count().changes()),
        Recorder(games.filter({"room": 5})["score"].changes()),
    ]

    games.get(4).update({"seen": True})

    assert [[]] * len(ears) == [ear.events for ear in ears]


def test_there_and_back_again_is_silence_for_a_squashed_feed(games):
    clock = VirtualTimeScheduler()
    games.insert({"id": 1, "score": 5})
    heard = Recorder(games.changes(squash=1.0), scheduler=clock)

    games.get(1).update({"score": 6})
    games.get(1).update({"score": 5})
    games.insert({"id": 2})
    games.get(2).delete()
    clock.advance_by(10.0)

    assert [] == heard.events


def test_a_transaction_that_is_taken_back_is_silence(db, games):
    heard = Recorder(games.changes())

    for _ in range(3):
        with pytest.raises(reactdb.DuplicateKey):
            games.insert([{"id": 1}, {"id": 1}])

    assert [] == heard.events


# ---------------------------------------------------------------------------------------------------------------
# "The initial value comes twice, or not at all", "writes in the moment of subscribing are lost"


class Writers:
    """Threads that write to a table for as long as the block lasts: inserts, updates and deletes of a few keys."""

    def __init__(self, table: Any, count: int) -> None:
        self._table = table
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(name,)) for name in range(count)]
        self.errors: list[BaseException] = []

    def _write(self, name: int) -> None:
        try:
            number = 0
            while not self._is_over.is_set():
                number += 1
                key = f"{name}-{number % 7}"
                self._table.insert({"id": key, "n": number, "room": number % 2}, conflict="replace")
                if number % 5 == 0:
                    self._table.get(f"{name}-{(number - 2) % 7}").delete()
        except BaseException as error:
            self.errors.append(error)

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        assert [] == self.errors
        assert not any(thread.is_alive() for thread in self._threads)


def test_who_subscribes_among_writers_hears_each_document_once_and_each_change_after_it(games):
    """Initial values and changes add up to the table, and each old value is the new value before: nothing lost, nothing twice."""
    games.insert([{"id": n} for n in range(50)])

    with Writers(games, 3):
        ears = [Recorder(games.changes(include_initial=True, include_states=True)) for _ in range(40)]

    for ear in ears:
        ready = ear.events.index({"state": "ready"})
        assert {"state": "initializing"} == ear.events[0]
        initial = [event["new_val"]["id"] for event in ear.events[1:ready]]
        assert len(initial) == len(set(initial)) >= 50
        assert not any("old_val" in event for event in ear.events[1:ready])
        assert all("old_val" in event for event in ear.events[ready + 1 :])
        assert content(games) == replayed([event for event in ear.events if "state" not in event])


@pytest.mark.parametrize("kind", ["filter", "limit", "cursor", "scheduler", "squash", "asyncio"])
def test_every_way_of_subscribing_among_writers_is_exact(games, kind):
    """Whatever the feed and whoever listens: in the end it has what asking again gives."""
    games.index_create("n")
    selection = {"filter": games.filter({"room": 1}), "limit": games.order_by(index=desc("n")).limit(5)}.get(
        kind, games
    )
    feed = selection.changes(
        include_initial=True, include_offsets=kind == "limit", squash=kind == "squash", on_overflow="error"
    )

    def wanted(events: list[Any]) -> bool:
        if kind == "limit":
            return list(selection.run()) == with_offsets(events)
        return content(selection) == replayed(events)

    if kind == "asyncio":
        asyncio.run(read_among_writers(games, feed, wanted))
        return
    scheduler = EventLoopScheduler() if kind == "scheduler" else None
    ears, cursors = [], []
    with Writers(games, 2):
        for _ in range(10):
            if kind == "cursor":
                cursors.append(feed.cursor())
            else:
                ears.append(Recorder(feed, scheduler=scheduler))
    for cursor in cursors:
        ear = Recorder()
        with pytest.raises(TimeoutError):
            while True:
                ear.on_next(cursor.next(timeout=0))
        ears.append(ear)
    if scheduler is not None:
        # Its thread works in order: when this is done, so is all that was to be told.
        is_done = threading.Event()
        scheduler.schedule(lambda *_: is_done.set())
        assert is_done.wait(PATIENCE_S)
        scheduler.dispose()

    assert all(wanted(ear.events) for ear in ears)


def with_offsets(events: list[Any]) -> list[Any]:
    found: list[Any] = []
    for event in events:
        if event.get("old_offset") is not None:
            del found[event["old_offset"]]
        if event.get("new_offset") is not None:
            found.insert(event["new_offset"], event["new_val"])
    return found


async def read_among_writers(games: Any, feed: Any, wanted: Any) -> None:
    cursor = aiter(feed)
    with Writers(games, 2):
        events = [await asyncio.wait_for(anext(cursor), PATIENCE_S) for _ in range(200)]
    with pytest.raises(asyncio.TimeoutError):
        while True:
            events.append(await asyncio.wait_for(anext(cursor), 0.05))
    assert wanted(events)


def test_a_write_from_within_the_initial_values_is_told_after_them(games):
    """The subscriber itself writes in the moment of subscribing."""
    games.insert([{"id": 1}, {"id": 2}])
    heard = Recorder()

    def on_next(event: Any) -> None:
        heard.on_next(event)
        if event == {"new_val": {"id": 1}}:
            games.insert({"id": 3})
            games.get(2).update({"seen": True})

    games.changes(include_initial=True, include_states=True).subscribe(on_next)

    assert [
        {"state": "initializing"},
        {"new_val": {"id": 1}},
        {"new_val": {"id": 2}},
        {"state": "ready"},
        changed(None, {"id": 3}),
        changed({"id": 2}, {"id": 2, "seen": True}),
    ] == heard.events


def test_a_reader_that_dawdles_over_its_initial_values_has_one_state_of_the_table(games):
    """What is written meanwhile comes after them, as changes."""
    games.insert([{"id": n, "n": 0} for n in range(5)])
    with games.changes(include_initial=True, include_states=True).cursor() as cursor:
        first = [cursor.next(timeout=PATIENCE_S) for _ in range(2)]
        games.update({"n": 1})
        games.get(4).delete()
        rest = [cursor.next(timeout=PATIENCE_S) for _ in range(5 + 6)]

    assert {"state": "initializing"} == first[0]
    assert [0] * 5 == [event["new_val"]["n"] for event in (first + rest)[1:6]]
    assert {"state": "ready"} == rest[4]
    assert changed({"id": 4, "n": 1}, None) == rest[-1]


# ---------------------------------------------------------------------------------------------------------------
# "My page spins for ever, because an empty result never reports that it has loaded"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["push", "cursor", "scheduler"])
def test_a_feed_on_an_empty_result_says_initializing_and_ready(rooms, kind, way):
    """With nothing between them but the nothing of `get`, and the value of an aggregate of nothing."""
    feed = KINDS[kind](rooms).changes(include_initial=True, include_states=True)
    expected: list[Any] = {
        "get": [{"new_val": None}],
        "count": [{"new_val": 0}],
        "sum": [{"new_val": 0}],
    }.get(kind, [])
    expected = [{"state": "initializing"}, *expected, {"state": "ready"}]

    if way == "cursor":
        with feed.cursor() as cursor:
            assert expected == [cursor.next(timeout=PATIENCE_S) for _ in expected]
        return
    clock = VirtualTimeScheduler()
    heard = Recorder(feed, scheduler=clock if way == "scheduler" else None)
    clock.advance_by(0.001)

    assert expected == heard.events


def test_a_feed_on_no_keys_at_all_says_ready(games):
    for selection in (games.get_all(), games.between(2, 1), games.order_by("id").limit(0)):
        heard = Recorder(selection.changes(include_initial=True, include_states=True))
        games.insert({"x": 1})

        assert [{"state": "initializing"}, {"state": "ready"}] == heard.events


# ---------------------------------------------------------------------------------------------------------------
# "One bad listener breaks all the others"


def fail(*_: object) -> Any:
    raise ValueError("no good")


@pytest.mark.parametrize(
    "break_it",
    [
        lambda games: games.changes().subscribe(fail, lambda error: None),
        lambda games: games.changes().subscribe(fail),
        lambda games: games.changes().subscribe(fail, fail, fail),
        lambda games: games.changes(include_initial=True, squash=True).subscribe(fail),
        lambda games: games.changes().pipe(ops.map(fail)).subscribe(lambda event: None, lambda error: None),
        lambda games: games.changes().map(fail).subscribe(lambda event: None),
        lambda games: games.changes().filter(fail).subscribe(lambda event: None),
        lambda games: games.changes().map(row["new_val"]["absent"]).subscribe(lambda event: None),
        lambda games: games.filter(fail).changes().subscribe(lambda event: None),
        lambda games: games.map(fail).changes().subscribe(lambda event: None),
        lambda games: games.order_by(row["id"] / 0).limit(2).changes().subscribe(lambda event: None),
    ],
)
def test_a_listener_that_throws_starves_nobody(games, break_it):
    """Neither those before it nor those after it, nor the writer; nor those that come later."""
    before = Recorder(games.changes())
    break_it(games)
    after, cursor = Recorder(games.changes()), games.changes().cursor()

    for number in range(3):
        assert 1 == games.insert({"id": number})["inserted"]

    later = Recorder(games.changes())
    games.insert({"id": 3})
    assert [0, 1, 2, 3] == new_ids(before) == new_ids(after)
    assert [0, 1, 2, 3] == [cursor.next(timeout=PATIENCE_S)["new_val"]["id"] for _ in range(4)]
    assert [3] == new_ids(later)


def test_a_slow_listener_holds_up_no_other_that_has_a_thread_of_its_own(games):
    slow, quick = EventLoopScheduler(), EventLoopScheduler()
    may_go_on = threading.Event()
    try:
        games.changes().subscribe(lambda event: may_go_on.wait(PATIENCE_S), scheduler=slow)
        heard = Recorder(games.changes(), scheduler=quick)
        for number in range(20):
            games.insert({"id": number})

        heard.wait(20, PATIENCE_S)
        assert not may_go_on.is_set()
    finally:
        may_go_on.set()
        slow.dispose()
        quick.dispose()


def test_a_listener_that_never_reads_costs_no_more_than_its_queue(games):
    cursor = games.changes(changefeed_queue_size=10).cursor()
    for number in range(200):
        games.insert({"id": number})

    assert "skipped 190 elements" in cursor.next(timeout=0)["error"]
    assert list(range(190, 200)) == [cursor.next(timeout=0)["new_val"]["id"] for _ in range(10)]


# ---------------------------------------------------------------------------------------------------------------
# "Listeners leak"


def test_cancelled_feeds_leave_no_listener(db, games, caplog):
    """Cancelled in every way there is, a thousand times over: the next write finds nobody."""
    # What is logged keeps the subscriber that raised.
    caplog.set_level(logging.CRITICAL, logger="reactdb")
    gc.collect()
    objects = len(gc.get_objects())

    async def cancelled_tasks() -> None:
        async def read() -> None:
            async for _ in games.changes():
                pass

        tasks = [asyncio.ensure_future(read()) for _ in range(100)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    for _ in range(100):
        games.changes().subscribe().dispose()
        games.changes().cursor().close()
        games.changes(include_initial=True, include_states=True).pipe(ops.take(1)).subscribe()
        games.changes(include_states=True).limit(1).subscribe()
        games.changes(include_states=True, squash=True).subscribe(fail)
        for _ in games.changes(include_states=True):
            break
        with games.changes().cursor(), games.order_by("id").limit(3).changes().cursor():
            pass
    asyncio.run(cancelled_tasks())
    gc.collect()

    assert is_clean(db)
    assert len(gc.get_objects()) - objects < 1_000
    games.insert({"id": 1})


def test_subscribing_again_and_again_does_not_make_a_write_dearer(db, games):
    """A write visits those who listen now, not those who ever did."""
    for number in range(500):
        games.filter({"n": number}).changes().subscribe().dispose()

    assert ([], {}) == (hub(db).subscriptions(), hub(db).open_views)


# ---------------------------------------------------------------------------------------------------------------
# "A document changes its rank and I am not told"


@pytest.mark.parametrize("direction", [asc, desc])
def test_a_move_within_the_order_is_told_by_its_offsets(games, direction):
    games.index_create("score")
    games.insert([{"id": n, "score": n * 10} for n in range(4)])
    selection = games.order_by(index=direction("score")).limit(3)
    heard = Recorder(selection.changes(include_initial=True, include_offsets=True))
    first = 0 if direction is asc else 3

    games.get(first).update({"score": 15})

    assert 4 == len(heard.events)
    moved = heard.events[-1]
    assert (first, first) == (moved["old_val"]["id"], moved["new_val"]["id"])
    assert (0, 1) == (moved["old_offset"], moved["new_offset"])
    assert list(selection.run()) == with_offsets(heard.events)


def test_an_order_only_move_is_told_though_the_value_shown_is_the_same(games):
    """The plucked documents do not change; only where they stand does."""
    games.index_create("score")
    games.insert([{"id": n, "score": n} for n in range(3)])
    selection = games.order_by(index="score").pluck("id").limit(3)
    with_places = Recorder(selection.changes(include_offsets=True))
    without = Recorder(selection.changes())

    games.get(0).update({"score": 10})

    assert [
        {"old_val": {"id": 0}, "new_val": {"id": 0}, "old_offset": 0, "new_offset": 2}
    ] == with_places.events
    assert [] == without.events


def test_moves_of_several_documents_in_one_commit_add_up(games):
    """All ranks turn round at once."""
    games.insert([{"id": n, "score": n} for n in range(6)])
    selection = games.order_by(desc("score")).limit(4)
    heard = Recorder(selection.changes(include_initial=True, include_offsets=True))

    games.update({"score": row["score"] * -1})

    assert [0, 1, 2, 3] == [document["id"] for document in selection.run()]
    assert list(selection.run()) == with_offsets(heard.events)


# ---------------------------------------------------------------------------------------------------------------
# "The last one of the page was deleted, and the page is one short"


def test_the_next_document_comes_in_when_the_one_at_the_boundary_goes(games):
    games.index_create("score")
    games.insert([{"id": n, "score": n} for n in range(5)])
    selection = games.order_by(index="score").limit(3)
    heard = Recorder(selection.changes(include_offsets=True))

    games.get(2).delete()

    assert [
        {
            "old_val": {"id": 2, "score": 2},
            "new_val": {"id": 3, "score": 3},
            "old_offset": 2,
            "new_offset": 2,
        }
    ] == heard.events


@pytest.mark.parametrize("direction", [asc, desc])
def test_ties_at_the_boundary_go_by_key_and_stay_in_step_with_the_query(games, direction):
    """Whatever leaves or enters among equals, the list is the answer: also for documents that were never told of."""
    games.index_create("score")
    games.insert([{"id": n, "score": 7} for n in range(8)])
    selection = games.order_by(index=direction("score")).limit(3)
    heard = Recorder(selection.changes(include_initial=True, include_offsets=True))
    writes = [
        lambda: games.get(0 if direction is asc else 7).delete(),
        lambda: games.insert({"id": -1, "score": 7}),
        lambda: games.insert({"id": 99, "score": 7}),
        lambda: games.get(3).update({"score": 6}),
        lambda: games.get(4).update({"score": 8}),
        lambda: games.get(3).update({"score": 7}),
        lambda: games.filter(row["id"] > 2).delete(),
        lambda: games.delete(),
    ]

    for write in writes:
        write()
        assert list(selection.run()) == with_offsets(heard.events)


def test_a_page_is_filled_up_after_a_mass_deletion(games):
    """More go at once than the page holds."""
    games.index_create("score")
    games.insert([{"id": n, "score": n} for n in range(100)])
    selection = games.order_by(index="score").skip(5).limit(10)
    heard = Recorder(selection.changes(include_initial=True, include_offsets=True))

    games.between(0, 60).delete()

    assert list(range(65, 75)) == [document["id"] for document in with_offsets(heard.events)]


# ---------------------------------------------------------------------------------------------------------------
# "Closing blocks until the next event comes"


@pytest.mark.parametrize("way", ["cursor", "database", "table"])
def test_a_waiting_iterator_returns_at_once(tmp_path, way):
    """Without any event: when its cursor is closed, its database is, or its table goes."""
    db = reactdb.connect(tmp_path / "a.db")
    cursor = db.table_create("games").changes().cursor()
    ends: list[Any] = []

    def read() -> None:
        try:
            ends.append(next(cursor))
        except BaseException as error:
            ends.append(type(error))

    reader = threading.Thread(target=read)
    reader.start()
    # The condition is made by who waits first.
    while not (cursor._consumer._condition and cursor._consumer._condition._waiters):
        assert reader.is_alive()
    began = time.monotonic()
    {"cursor": cursor.close, "database": db.close, "table": lambda: db.table_drop("games")}[way]()
    reader.join(PATIENCE_S)

    assert [reactdb.errors.FeedAborted if way == "table" else StopIteration] == ends
    assert time.monotonic() - began < 5
    db.close()


# ---------------------------------------------------------------------------------------------------------------
# "The old value is missing"


@pytest.mark.parametrize("durability", ["hard", "soft"])
def test_the_old_value_is_there_for_every_write(games, durability):
    """Whole, for every way of writing, also for a delete: each is what the change before it made."""
    heard = Recorder(games.changes())
    whole = {"id": 1, "name": "Bob", "deep": {"list": [1, {"a": None}], "bytes": b"\x00"}}
    for write in (
        lambda: games.insert(whole, durability=durability),
        lambda: games.get(1).update({"score": 1}, durability=durability),
        lambda: games.get(1).update({"deep": {"list": []}}, durability=durability),
        lambda: games.get(1).replace({"id": 1}, durability=durability),
        lambda: games.insert(whole, conflict="replace", durability=durability),
        lambda: games.insert({"id": 1, "x": 1}, conflict="update", durability=durability),
        lambda: games.update({"x": 2}, durability=durability),
        lambda: games.filter({"x": 2}).delete(durability=durability),
        lambda: games.insert(whole, durability=durability),
        lambda: games.get(1).replace(None, durability=durability),
    ):
        write()

    assert 10 == len(heard.events)
    assert {} == replayed(heard.events)
    assert whole == heard.events[-1]["old_val"]


def test_the_old_value_is_there_in_another_life_of_the_process(tmp_path):
    with reactdb.connect(tmp_path / "a.db") as db:
        db.table_create("games").insert({"id": 1, "name": "Bob"})
    with reactdb.connect(tmp_path / "a.db") as db:
        heard = Recorder(db.table("games").changes())
        db.table("games").get(1).delete()

    assert [changed({"id": 1, "name": "Bob"}, None)] == heard.events


def test_the_old_value_is_there_after_history_was_removed(db, games):
    """Of the first change after the gap, live and resumed."""
    games.insert({"id": 1, "n": 1})
    games.get(1).update({"n": 2})
    db.compact(keep=0)
    seq = db.seq
    heard = Recorder(games.changes())

    games.get(1).update({"n": 3})
    games.get(1).delete()

    expected = [changed({"id": 1, "n": 2}, {"id": 1, "n": 3}), changed({"id": 1, "n": 3}, None)]
    assert expected == heard.events
    assert expected == Recorder(games.changes(since=seq)).events


def test_the_old_value_is_there_when_a_document_leaves_a_filter(games):
    heard = Recorder(games.filter(row["score"] > 10).changes())
    games.insert({"id": 1, "score": 15, "name": "Bob"})

    games.get(1).update({"score": 5})

    assert changed({"id": 1, "score": 15, "name": "Bob"}, None) == heard.events[-1]


def test_the_old_value_of_a_squashed_feed_is_what_was_last_told(games):
    cursor = games.changes(squash=True).cursor()
    games.insert({"id": 1, "n": 0})
    assert changed(None, {"id": 1, "n": 0}) == cursor.next(timeout=0)

    for n in range(1, 5):
        games.get(1).update({"n": n})

    assert changed({"id": 1, "n": 0}, {"id": 1, "n": 4}) == cursor.next(timeout=0)


# ---------------------------------------------------------------------------------------------------------------
# "Events come out of order, or disagree between listeners"


def test_listeners_agree_on_the_order_among_writers(games):
    """And it is the log's."""
    ears = [Recorder(games.changes(include_seq=True)) for _ in range(3)]
    with Writers(games, 4):
        ears[0].wait(100, PATIENCE_S)

    told = [event["seq"] for event in ears[0].events]
    assert sorted(told) == told
    assert [entry.seq for entry in reactdb.Database(games._session).log(table="games")] == told
    assert [ear.events for ear in ears] == [ears[0].events] * 3


def test_what_a_listener_reads_is_never_older_than_what_it_was_told(games):
    """No replica lags behind: the told value, or a newer one, is what a read finds."""
    stale: list[Any] = []

    def on_next(event: Any) -> None:
        found = games.get("counter").run()
        if found["n"] < event["new_val"]["n"]:
            stale.append((found, event))

    games.insert({"id": "counter", "n": 0})
    games.changes().subscribe(on_next)
    threads = [
        threading.Thread(target=lambda: [games.get("counter").update({"n": row["n"] + 1}) for _ in range(30)])
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert [] == stale
    assert 90 == games.get("counter").run()["n"]


def test_a_document_that_leaves_one_filter_and_enters_another_is_told_to_both(games):
    """Else it would be in two lists of a page, or in none."""
    five, six = Recorder(games.filter({"room": 5}).changes()), Recorder(games.filter({"room": 6}).changes())
    games.insert({"id": 1, "room": 5})

    games.get(1).update({"room": 6})

    assert changed({"id": 1, "room": 5}, None) == five.events[-1]
    assert [changed(None, {"id": 1, "room": 6})] == six.events
