"""Law 4: a squashed feed delivers what folding the unsquashed one gives: the net difference, and nothing if there is none.

Two cursors or subscribers watch one query, one without squashing. In virtual time the first change after a pause is delivered at
once, then there is at most one batch in each squash interval, and nothing waits longer than that.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.testing import TestScheduler

import reactdb
from reactdb import row
from tests.support.feed_kinds import ROWS, Kind, act, do, kinds, little_room, prepare, some_writes
from tests.support.feeds import heard
from tests.support.replica import Event, Replica, exactly, says_nothing
from tests.support.scaling import examples

COMMITS = some_writes(4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), COMMITS), st.tuples(st.just("write"), COMMITS), st.just(("read", None))
    ),
    min_size=6,
    max_size=20,
)
GRID_S = 0.25
PAUSES = st.sampled_from([0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.25, 4.5])

# Kinds of which each event is about the one document that has its id (or about one value): what squashing folds by.
BY_ID = [
    Kind("games", lambda db: db.table("games")),
    Kind("filter(a == 1)", lambda db: db.table("games").filter(row["a"] == 1)),
    Kind("filter(a > 1)", lambda db: db.table("games").filter(row["a"] > 1)),
    Kind("between(index=a)", lambda db: db.table("games").between(1, 3, index="a")),
    Kind("pluck(id, a)", lambda db: db.table("games").pluck("id", "a")),
    Kind("without(a)", lambda db: db.table("games").without("a")),
    Kind("get(1)", lambda db: db.table("games").get(1), shape="one"),
    Kind("count", lambda db: db.table("games").count(), shape="one"),
    Kind("sum", lambda db: db.table("games").sum("v"), shape="one"),
    Kind("group.count", lambda db: db.table("games").group("v").count(), shape="groups"),
    Kind("db", lambda db: db, shape="tables"),
]


def name_of(kind: Kind, event: Event) -> Hashable:
    """What the event is about."""
    if kind.shape == "one":
        return None
    if kind.shape == "groups":
        return kind.name_of(event["group"])
    value = event["new_val"] if event["old_val"] is None else event["old_val"]
    return (event.get("table"), exactly(value["id"]))


class Folding:
    """What a squashing queue holds: for each name the first old value and the last new one, in order of the first change.

    What came back to where it was is gone. Beyond `size` names, the first go and are counted.
    """

    def __init__(self, kind: Kind, size: int = 100_000) -> None:
        self.kind = kind
        self.size = size
        self.pending: dict[Hashable, Event] = {}
        self.skipped = 0

    def add(self, events: list[Event]) -> None:
        for event in events:
            name = name_of(self.kind, event)
            before = self.pending.get(name)
            folded = event if before is None else {**event, "old_val": before["old_val"]}
            if says_nothing(folded):
                del self.pending[name]
                continue
            self.pending[name] = folded
            while len(self.pending) > self.size:
                del self.pending[next(iter(self.pending))]
                self.skipped += 1

    def take(self) -> list[Event]:
        found = list(self.pending.values())
        self.pending = {}
        if self.skipped:
            error = f"Changefeed cache over array size limit, skipped {self.skipped} elements."
            found.insert(0, {"error": error})
            self.skipped = 0
        return found


def alike(events: list[Event]) -> list[Hashable]:
    return [exactly(event) for event in events]


@settings(max_examples=examples(60))
@given(kind=st.sampled_from(BY_ID), size=st.sampled_from([1, 2, 3, 100_000]), rows=ROWS, steps=STEPS)
def test_squashing_is_folding(kind: Kind, size: int, rows: list[Any], steps: list[Any]) -> None:
    """Each document's first old value and last new one, in order of first changes; a queue that is full drops the first."""
    if kind.shape == "groups":
        # One change may be told of two groups, and room is made after both.
        size = 100_000
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        feed = kind.ask(db)
        with (
            feed.changes(include_types=True).cursor() as steps_of_it,
            feed.changes(include_types=True, squash=True, changefeed_queue_size=size).cursor() as squashed,
        ):
            model = Folding(kind, size)
            for verb, writes in [*steps, ("read", None)]:
                if verb == "write":
                    act(db, writes)
                    model.add(heard(steps_of_it))
                else:
                    expected = model.take()
                    for event in expected:
                        if "old_val" in event:
                            event["type"] = kind_of_step(event)
                    assert alike(expected) == alike(heard(squashed))


def kind_of_step(event: Event) -> str:
    return "add" if event["old_val"] is None else "remove" if event["new_val"] is None else "change"


@settings(max_examples=examples(30))
@given(
    kind=st.sampled_from([kind for kind in BY_ID if kind.shape != "groups"]),
    size=st.integers(1, 3),
    rows=ROWS,
    steps=STEPS,
)
def test_a_squashing_feed_overflows_when_there_are_too_many_documents(
    kind: Kind, size: int, rows: list[Any], steps: list[Any]
) -> None:
    """Not when one of them changes again and again."""
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        feed = kind.ask(db)
        options: dict[str, Any] = {"squash": True, "changefeed_queue_size": size, "on_overflow": "error"}
        with feed.changes().cursor() as steps_of_it, feed.changes(**options).cursor() as squashed:
            model = Folding(kind)
            is_over = False
            for verb, writes in [*steps, ("read", None)]:
                if verb == "write" and not is_over:
                    act(db, writes)
                    for event in heard(steps_of_it):
                        before = dict(model.pending)
                        model.add([event])
                        if len(model.pending) > size:
                            is_over = True
                            model.pending = before
                            break
                elif verb == "read" and not is_over:
                    assert alike(model.take()) == alike(heard(squashed))
            if is_over:
                assert alike(model.take()) == [exactly(squashed.next(timeout=0)) for _ in before]
                with pytest.raises(reactdb.FeedOverflow):
                    squashed.next(timeout=0)


def check_net(data: st.DataObject, kind: Kind, rows: list[Any], steps: list[Any]) -> None:
    asked = {"include_offsets": True} if kind.has_offsets and data.draw(st.booleans(), "offsets") else {}
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        feed = kind.ask(db)
        known = kind.answer(db)
        replicas = [
            Replica(known, by_offset=bool(asked), name_of=kind.name_of, value_of=kind.value_of)
            for _ in range(2)
        ]
        with (
            feed.changes(**asked).cursor() as steps_of_it,
            feed.changes(**asked, squash=True).cursor() as squashed,
        ):
            for verb, writes in [*steps, ("read", None)]:
                if verb == "write":
                    act(db, writes)
                    continue
                every, net = heard(steps_of_it), heard(squashed)
                for replica, events in zip(replicas, (every, net), strict=True):
                    for event in events:
                        replica.apply(event)
                    replica.assert_equals(kind.answer(db), kind)
                assert len(net) <= len(every)
                if kind.shape == "grouped":
                    gone, come = (
                        {(kind.name_of(event["group"]), exactly(event[side])) for event in net}
                        for side in ("old_val", "new_val")
                    )
                    # Every event counts one of a value more, or one less.
                    assert {one for one in gone & come if one[1] != exactly(None)} == set()
                if asked and known == kind.answer(db):
                    assert net == []
                known = kind.answer(db)


@settings(max_examples=examples(150))
@given(data=st.data(), kind=kinds(), rows=ROWS, steps=STEPS)
def test_a_squashed_feed_tells_the_same_in_no_more_events(
    data: st.DataObject, kind: Kind, rows: list[Any], steps: list[Any]
) -> None:
    """Of every kind. A list that is what it was is not told of at all."""
    check_net(data, kind, rows, steps)


@pytest.mark.parametrize("times", [1, 5])
def test_a_value_that_goes_at_one_place_and_comes_at_another_is_not_told(times: int) -> None:
    """A document pushes another with the same value out of the list, and one without a value comes before both."""
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", [(1, {}), (3, {}), (4, {}), (5, {"a": 0})]))
        ask = db.table("games").order_by(index="id").map(row["a"].default(None)).limit(5)
        with ask.changes().cursor() as steps_of_it, ask.changes(squash=True).cursor() as squashed:
            for _ in range(times):
                act(db, [("put", "games", 0, {})])
            act(db, [("put", "games", 2, {"a": 0})])

            assert [] == heard(steps_of_it)
            assert [] == heard(squashed)


def test_what_left_a_place_of_a_group_and_what_took_another_are_told_together_where_the_step_did() -> None:
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", [(0, {})]))
        ask = db.table("games").order_by("v").pluck("a", "v").limit(1).group("a")
        with ask.changes().cursor() as steps_of_it, ask.changes(squash=True).cursor() as squashed:
            act(db, [("set v", "games", 0, 1)])

            change = {"group": None, "old_val": {}, "new_val": {"v": 1}}
            assert [change] == heard(steps_of_it)
            assert [change] == heard(squashed)


def check_times(
    kind: Kind,
    seconds: float,
    rows: list[Any],
    script: list[tuple[float, list[Any]]],
    clock: VirtualTimeScheduler,
) -> None:
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        feed = kind.ask(db)
        told: list[tuple[float, Event]] = []

        def hear(event: Event) -> None:
            told.append((on_the_grid(clock.to_seconds(clock.now)), event))

        feed.changes(squash=seconds).subscribe(hear, scheduler=clock)
        with feed.changes().cursor() as steps_of_it:
            expected: list[tuple[float, Event]] = []
            model = Folding(kind)
            now, due = 0.0, seconds

            def tell_until(time: float) -> None:
                """The batch that is due before `time`, if there is one."""
                nonlocal due
                if model.pending and due <= time:
                    expected.extend((due, event) for event in model.take())
                    due += seconds

            for pause, writes in [*script, (2 * seconds, [])]:
                now += pause
                tell_until(now)
                clock.advance_to(now + 0.01)
                act(db, writes)
                model.add(heard(steps_of_it))
                if model.pending and due <= now:
                    expected.extend((now, event) for event in model.take())
                    due = now + seconds
                now += GRID_S
                clock.advance_to(now - 0.01)

            assert [(time, exactly(event)) for time, event in expected] == [
                (time, exactly(event)) for time, event in told
            ]


def on_the_grid(time: float) -> float:
    """What happens a moment after a time happens at that time."""
    return round(time / GRID_S) * GRID_S


SCRIPTS = st.lists(st.tuples(PAUSES, COMMITS), min_size=3, max_size=10)


@settings(max_examples=examples(60))
@given(
    kind=st.sampled_from(BY_ID),
    seconds=st.sampled_from([1, 2]),
    rows=ROWS,
    script=SCRIPTS,
    scheduler=st.sampled_from([VirtualTimeScheduler, TestScheduler]),
)
def test_the_first_change_is_told_at_once_and_then_one_batch_in_so_many_seconds(
    kind: Kind, seconds: float, rows: list[Any], script: list[Any], scheduler: type
) -> None:
    """Each batch is the net difference since the one before."""
    clock = scheduler(0.0) if scheduler is VirtualTimeScheduler else scheduler()
    check_times(kind, seconds, rows, script, clock)


@settings(max_examples=examples(30))
@given(kind=kinds(), seconds=st.sampled_from([1, 2]), rows=ROWS, script=SCRIPTS)
def test_a_feed_of_any_kind_is_up_to_date_when_its_interval_is_over(
    kind: Kind, seconds: float, rows: list[Any], script: list[Any]
) -> None:
    """And what it tells at one time is at least an interval after what it told before."""
    clock = VirtualTimeScheduler(0.0)
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        replica = Replica(kind.answer(db), name_of=kind.name_of, value_of=kind.value_of)
        times: list[float] = []

        def hear(event: Event) -> None:
            times.append(round(clock.to_seconds(clock.now), 2))
            replica.apply(event)

        kind.ask(db).changes(squash=seconds).subscribe(hear, scheduler=clock)
        for pause, writes in script:
            clock.advance_by(pause + 0.01)
            act(db, writes)
        clock.advance_by(seconds + 0.01)

        replica.assert_equals(kind.answer(db), kind)
        batches = sorted(set(times))
        assert all(later - time >= seconds - 0.02 for time, later in pairwise(batches))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_net_difference_for_longer() -> None:
    """The same with many more examples."""
    settings(max_examples=examples(3000))(given(st.data(), kinds(), ROWS, STEPS)(check_net))()
