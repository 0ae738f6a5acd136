"""Subscribers of one view share a queue of events, and this must not be observable."""

from __future__ import annotations

import gc
import logging
import threading
import time
import weakref
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reactdb
from reactdb.change import Change
from reactdb.errors import FeedAborted
from reactdb.feeds.consumers import PullConsumer
from reactdb.feeds.hub import hub_of
from tests.support.feeds import listen


def first(feed: Any) -> None:
    feed.subscribe(lambda event: None, lambda error: None)


def ids(heard: list[Any]) -> list[Any]:
    return [event["new_val"]["id"] if "new_val" in event else event for event in heard]


def changes_held() -> int:
    """How many changes are in memory."""
    gc.collect()
    return sum(type(one) is Change for one in gc.get_objects())


# ---------------------------------------------------------------------------------------------------------------
# Called together


def test_each_gets_an_event_of_its_own(games):
    first(games.changes())
    spoilt: list[Any] = []

    def spoil(event: Any) -> None:
        event["new_val"] = "spoilt"
        spoilt.append(event)

    games.changes().subscribe(spoil)
    heard = listen(games.changes())
    games.insert({"id": 1})

    assert heard == [{"old_val": None, "new_val": {"id": 1}}]
    assert spoilt[0]["new_val"] == "spoilt"


def test_who_raises_is_taken_out_and_the_others_are_told(games, caplog):
    first(games.changes())
    told: list[tuple[int, Any]] = []
    errors: list[Any] = []

    def subscribe(number: int) -> None:
        def on_next(event: Any) -> None:
            told.append((number, event["new_val"]["id"]))
            if number in (0, 2, 3, 5):
                raise StopIteration if number == 2 else RuntimeError(number)

        games.changes().subscribe(on_next, lambda error: errors.append((number, type(error))))

    for number in range(6):
        subscribe(number)
    with caplog.at_level(logging.CRITICAL, "reactdb"):
        games.insert([{"id": 1}, {"id": 2}])

    assert told == [*((number, 1) for number in range(6)), (1, 2), (4, 2)]
    assert errors == [(0, RuntimeError), (2, StopIteration), (3, RuntimeError), (5, RuntimeError)]


def test_who_is_disposed_while_others_are_told_hears_nothing_more(games):
    first(games.changes())
    told: list[int] = []
    handles: list[Any] = []

    def subscribe(number: int) -> None:
        def on_next(event: Any) -> None:
            told.append(number)
            if number == 1:
                for other in (0, 1, 3):
                    handles[other].dispose()

        handles.append(games.changes().subscribe(on_next))

    for number in range(5):
        subscribe(number)
    games.insert([{"id": 1}, {"id": 2}])

    assert told == [0, 1, 2, 4, 2, 4]


def test_who_subscribes_while_others_are_told_hears_what_comes_next(games):
    first(games.changes())
    late: list[list[Any]] = []
    games.changes().subscribe(lambda _: late.append(listen(games.changes())) if not late else None)
    listen(games.changes())

    games.insert([{"id": 1}, {"id": 2}])
    games.insert({"id": 3})

    assert [[3]] == [ids(heard) for heard in late]


def test_what_one_of_them_writes_is_told_to_all_after_what_is_being_told(games):
    first(games.changes())
    told: list[tuple[str, int]] = []

    def write(event: Any) -> None:
        number = event["new_val"]["id"]
        told.append(("writer", number))
        if number < 3:
            games.insert({"id": number + 1})

    games.changes().subscribe(write)
    games.changes().subscribe(lambda event: told.append(("other", event["new_val"]["id"])))
    games.insert({"id": 1})

    assert told == [(who, number) for number in (1, 2, 3) for who in ("writer", "other")]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_interrupt_ends_the_feed_that_it_struck_and_the_others_are_told_later(place):
    # In memory: on a file, the thread that follows other processes may be the one that tells.
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        first(games.changes())
        heard: list[list[Any]] = [[], [], []]
        errors: list[Any] = [[], [], []]
        is_armed = [True]

        def subscribe(number: int) -> None:
            def on_next(event: Any) -> None:
                if number == place and is_armed.pop():
                    raise KeyboardInterrupt
                heard[number].append(event)

            games.changes().subscribe(on_next, errors[number].append)

        for number in range(3):
            subscribe(number)
        with pytest.raises(KeyboardInterrupt):
            games.insert({"id": 1})
        games.insert({"id": 2})

        assert [[] if number == place else [1, 2] for number in range(3)] == [ids(one) for one in heard]
        assert isinstance(errors[place][0], FeedAborted)
        assert 1 == sum(map(len, errors))


def test_a_document_that_cannot_be_decoded_ends_those_who_were_to_hear_it(games, monkeypatch, caplog):
    first(games.get(2).changes())
    heard = [listen(games.get(2).changes()) for _ in range(2)]
    others = [listen(games.changes()) for _ in range(2)]

    def broken(delta: Any) -> Any:
        raise reactdb.CorruptDatabase("broken")

    nodes = hub_of(games._session.engine).live.nodes.values()
    (node,) = [node for node in nodes if node.view.kind == "point"]
    monkeypatch.setattr(node.broadcasts[0], "kind", (100_000, broken))
    games.insert({"id": 2})

    assert [["broken"], ["broken"]] == [[str(error) for error in one] for one in heard]
    assert [[2], [2]] == [ids(one) for one in others]


def test_terms_after_changes_apply_to_each(games):
    first(games.changes())
    plain = listen(games.changes())
    numbers = listen(games.changes()["new_val"]["id"].filter(lambda number: number != 2))
    ends: list[Any] = []
    games.changes().limit(2).subscribe(ends.append, None, lambda: ends.append("completed"))

    games.insert([{"id": 1}, {"id": 2}, {"id": 3}])

    assert (ids(plain), numbers) == ([1, 2, 3], [1, 3])
    assert ids(ends[:2]) + ends[2:] == [1, 2, "completed"]


def test_those_that_begin_with_the_present_come_to_share(db, games):
    games.insert({"id": 1})
    first(games.changes())
    heard = [listen(games.changes(include_initial=True, include_states=True)) for _ in range(3)]
    cursor = games.changes(include_initial=True).cursor()
    assert cursor.next(timeout=1)["new_val"] == {"id": 1}

    games.insert({"id": 2})
    games.insert({"id": 3})

    assert [[{"state": "initializing"}, 1, {"state": "ready"}, 2, 3]] * 3 == [ids(one) for one in heard]
    assert [2, 3] == ids([cursor.next(timeout=1), cursor.next(timeout=1)])
    games.insert({"id": 4})
    assert [4] == ids([cursor.next(timeout=1)])


def test_a_token_says_what_this_one_has_been_told(db, games):
    feeds = [games.changes(include_seq=True) for _ in range(4)]
    seen: list[list[tuple[int, int]]] = []

    def seq_of(feed: Any) -> int:
        return int(feed.token.rsplit(".", 1)[1])

    def tell(event: Any) -> None:
        seen.append([(event["seq"], seq_of(feed)) for feed in feeds[1:]])

    handles = [feed.subscribe(tell) for feed in feeds]
    with db.transaction():
        games.insert({"id": 1})
        games.insert({"id": 2})
    begun = seen[0][0][0]

    assert len(handles) == 4
    # All of them are told the one before any hears of the other.
    assert [[seq for _, seq in one] for one in seen] == [
        [begun - 1] * 3,
        [begun, begun - 1, begun - 1],
        [begun, begun, begun - 1],
        [begun, begun, begun],
        [begun, begun, begun],
        [begun + 1, begun, begun],
        [begun + 1, begun + 1, begun],
        [begun + 1] * 3,
    ]


def test_figures_are_those_of_each(games):
    first(games.changes())
    early, late = games.changes(changefeed_queue_size=3), games.changes(changefeed_queue_size=3)
    early.subscribe(lambda event: None)
    games.insert([{"id": number} for number in range(2)])
    late.subscribe(lambda event: None)
    games.insert([{"id": number} for number in range(2, 10)])

    figures = [
        {name: feed.stats()[name] for name in ("delivered", "dropped", "queued")} for feed in (early, late)
    ]
    assert figures == [
        {"delivered": 2 + 1 + 3, "dropped": 5, "queued": 0},
        {"delivered": 1 + 3, "dropped": 5, "queued": 0},
    ]


def test_all_are_told_everything_before_they_end(db, games):
    first(games.changes())
    heard = [listen(games.changes()) for _ in range(3)]
    # More than one turn's worth.
    numbers = list(range(2_500))

    def write_and_drop() -> None:
        games.insert([{"id": number} for number in numbers])
        db.table_drop("games")

    # As one line to be told: within a subscriber, nothing else is told.
    other = db.table_create("other")
    other.changes().subscribe(lambda event: write_and_drop())
    other.insert({"id": 1})

    for one in heard:
        assert ids(one[:-1]) == numbers
        assert isinstance(one[-1], FeedAborted)


def test_closing_completes_those_who_share(tmp_path):
    db = reactdb.connect(tmp_path / "a.db", durability="soft")
    games = db.table_create("games")
    first(games.changes())
    ends: list[str] = []
    for _ in range(3):
        games.changes().subscribe(None, None, lambda: ends.append("completed"))
    cursors = [games.changes().cursor() for _ in range(3)]
    games.insert({"id": 1})

    db.close()

    assert ends == ["completed"] * 3
    assert [[1]] * 3 == [ids(list(cursor)) for cursor in cursors]


def test_nothing_is_kept_of_who_is_disposed_of(db, games):
    class Heard:
        def __call__(self, event: Any) -> None:
            pass

    first(games.changes())
    heard = [Heard() for _ in range(3)]
    handles = [games.changes().subscribe(one) for one in heard]
    games.insert({"id": 1})
    kept = [weakref.ref(one) for one in heard]
    heard.clear()

    handles[1].dispose()
    handles[2].dispose()
    del handles[1:]
    gc.collect()
    assert [True, False, False] == [one() is not None for one in kept]


def test_threads_write_and_dispose_while_others_are_told(tmp_path):
    """Who has been disposed of on the telling thread hears nothing more; everybody else hears everything in order."""
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        games = db.table_create("games")
        first(games.changes())
        lasting = [listen(games.changes(include_seq=True)) for _ in range(5)]
        is_over = threading.Event()

        def come_and_go() -> None:
            while not is_over.is_set():
                handles = [games.changes().subscribe(lambda event: None) for _ in range(3)]
                for handle in handles:
                    handle.dispose()

        def write(start: int) -> None:
            for number in range(100):
                games.insert({"id": start + number})

        visitors = threading.Thread(target=come_and_go)
        visitors.start()
        writers = [threading.Thread(target=write, args=(1_000 * number,)) for number in range(3)]
        for one in writers:
            one.start()
        for one in writers:
            one.join()
        is_over.set()
        visitors.join()
        done = threading.Event()
        games.filter({"id": "last"}).changes().subscribe(lambda event: done.set())
        games.insert({"id": "last"})
        assert done.wait(10)

        for heard in lasting:
            seqs = [event["seq"] for event in heard]
            assert len(seqs) == 301
            assert seqs == list(range(seqs[0], seqs[0] + 301))


# ---------------------------------------------------------------------------------------------------------------
# Reading one queue


def test_a_write_touches_no_reader_that_does_not_sleep(games, monkeypatch):
    cursors = [games.changes().cursor() for _ in range(20)]
    woken: list[Any] = []
    monkeypatch.setattr(PullConsumer, "wake", lambda self, subscription=None: woken.append(self))

    games.insert({"id": 1})
    games.insert({"id": 2})

    assert len(woken) <= 1
    assert [[1, 2]] * 20 == [ids([next(cursor), next(cursor)]) for cursor in cursors]


def test_readers_who_sleep_are_woken_by_one_change(games):
    cursors = [games.changes().cursor() for _ in range(5)]
    found: list[Any] = []
    threads = [threading.Thread(target=lambda one=one: found.append(one.next(timeout=30))) for one in cursors]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 10
    while any(cursor._consumer._condition is None for cursor in cursors):
        assert time.monotonic() < deadline
        threading.Event().wait(0.002)
    games.insert({"id": 1})
    for thread in threads:
        thread.join(10)
        # One that was not woken would look again when its time is over.
        assert not thread.is_alive()

    assert ids(found) == [1] * 5


def test_what_all_have_read_is_not_kept(games):
    before = changes_held()
    cursors = [games.changes().cursor() for _ in range(3)]
    games.insert([{"id": number} for number in range(100)])
    assert changes_held() == before + 100

    for cursor in cursors:
        for _ in range(100):
            next(cursor)

    assert changes_held() <= before + 2


def test_what_nobody_has_room_for_is_not_kept(games):
    before = changes_held()
    cursors = [games.changes(changefeed_queue_size=50).cursor() for _ in range(3)]
    for start in range(0, 2_000, 100):
        games.insert([{"id": start + number} for number in range(100)])

    # What was dropped is looked for now and then.
    assert changes_held() <= before + 50 + 200
    assert next(cursors[2]) == {"error": "Changefeed cache over array size limit, skipped 1950 elements."}
    assert ids([next(cursors[2]) for _ in range(50)]) == list(range(1950, 2_000))


@pytest.mark.slow
def test_a_long_queue_can_be_let_go_of(games):
    cursors = [games.changes().cursor() for _ in range(2)]
    before = changes_held()
    games.insert([{"id": number} for number in range(100_000)])
    assert changes_held() == before + 100_000
    cursors.clear()
    gc.collect()

    assert changes_held() <= before
    assert hub_of(games._session.engine).is_clean


# ---------------------------------------------------------------------------------------------------------------
# As if each had a queue of its own

Step = tuple[Any, ...]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.integers(1, 6)),
        st.tuples(st.just("ask"), st.integers(1, 6)),
        st.tuples(st.just("write"), st.integers(1, 9)),
        st.tuples(st.just("read"), st.integers(0, 9), st.integers(1, 5)),
        st.tuples(st.just("end"), st.integers(0, 9)),
    ),
    max_size=40,
)


class Model:
    """A subscriber with a queue of its own."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.queue: deque[Any] = deque()
        self.skipped = 0
        self.dropped = 0

    def add(self, number: int) -> None:
        self.queue.append(number)
        while len(self.queue) > self.room:
            self.queue.popleft()
            self.skipped += 1
            self.dropped += 1

    def take(self) -> Any:
        if self.skipped:
            skipped, self.skipped = self.skipped, 0
            return {"error": f"Changefeed cache over array size limit, skipped {skipped} elements."}
        return self.queue.popleft() if self.queue else None


@given(steps)
def test_subscribers_hear_what_they_would_with_queues_of_their_own(taken: list[Step]) -> None:
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        first(games.changes())
        called: list[tuple[Model, list[Any], list[Any], Any, Any]] = []
        asked: list[tuple[Model, Any, Any]] = []
        number = 0
        for name, *arguments in taken:
            if name == "call":
                feed, heard = games.changes(changefeed_queue_size=arguments[0]), list[Any]()
                called.append((Model(arguments[0]), [], heard, feed.subscribe(heard.append), feed))
            elif name == "ask":
                feed = games.changes(changefeed_queue_size=arguments[0])
                asked.append((Model(arguments[0]), feed.cursor(), feed))
            elif name == "write":
                games.insert([{"id": number + step} for step in range(arguments[0])])
                for step in range(arguments[0]):
                    for model in [one[0] for one in (*called, *asked)]:
                        model.add(number + step)
                number += arguments[0]
                for model, expected, *_ in called:
                    while (event := model.take()) is not None:
                        expected.append(event)
            elif name == "read" and asked:
                model, cursor, _ = asked[arguments[0] % len(asked)]
                for _ in range(arguments[1]):
                    if (event := model.take()) is None:
                        with pytest.raises(TimeoutError):
                            cursor.next(timeout=0)
                    else:
                        assert [event] == ids([cursor.next(timeout=0)])
            elif name == "end" and called and arguments[0] % 2:
                model, expected, heard, handle, _ = called.pop(arguments[0] % len(called))
                handle.dispose()
                assert expected == ids(heard)
            elif name == "end" and asked and not arguments[0] % 2:
                asked.pop(arguments[0] % len(asked))[1].close()
            for model, expected, heard, _, feed in called:
                assert expected == ids(heard)
                assert (model.dropped, 0) == (feed.stats()["dropped"], feed.stats()["queued"])
                assert len(heard) == feed.stats()["delivered"]
            for model, cursor, feed in asked:
                assert (model.dropped, len(model.queue)) == (feed.stats()["dropped"], feed.stats()["queued"])
                seq = int(cursor.token.rsplit(".", 1)[1])
                # The first seq is of the table.
                assert seq == 1 + (model.queue[0] if model.queue else number)
