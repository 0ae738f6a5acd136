"""The events of a subscriber that lagged by more than its queue holds, at every size of the queue.

    drop     the earliest go, the newest stay; before the next event, one error document says how many went
    error    what is queued, then FeedOverflow
    spill    everything, once

Two cursors watch one query: one is read after every commit and gives all events, the other lags.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import row
from tests.support.feed_kinds import (
    ROWS,
    Kind,
    act,
    alike,
    do,
    kinds,
    little_room,
    one_statement,
    one_write,
    prepare,
)
from tests.support.feeds import heard
from tests.support.replica import Event, Grammar, Replica
from tests.support.scaling import examples

READS = st.tuples(st.just("read"), st.integers(0, 4))
WRITES = st.tuples(st.just("write"), st.lists(one_write(), min_size=1, max_size=3))
STEPS = st.lists(
    st.one_of(
        WRITES, WRITES, WRITES, st.tuples(st.just("write"), st.lists(one_statement(), max_size=1)), READS
    ),
    min_size=8,
    max_size=25,
)
SIZES = st.integers(1, 6)
FLAGS = ("include_initial", "include_states", "include_types", "include_seq", "include_offsets")


@st.composite
def options(draw: st.DrawFn, kind: Kind) -> dict[str, Any]:
    flags = {flag: True for flag in FLAGS if draw(st.booleans())}
    if not kind.has_offsets:
        flags.pop("include_offsets", None)
    if kind.fails_on_seed:
        flags.pop("include_initial", None)
    return flags


def changes_only(events: list[Event]) -> list[Event]:
    return [event for event in events if "old_val" in event]


class DroppingModel:
    """What a queue of that size must make of events that nobody took."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.queue: list[Event] = []
        self.skipped = 0

    def add(self, events: list[Event]) -> None:
        self.queue += events
        while len(self.queue) > self.size:
            del self.queue[0]
            self.skipped += 1

    def take(self, count: int | None) -> list[Event]:
        found: list[Event] = []
        while count is None or len(found) < count:
            if self.skipped:
                found.append(
                    {"error": f"Changefeed cache over array size limit, skipped {self.skipped} elements."}
                )
                self.skipped = 0
            elif self.queue:
                found.append(self.queue.pop(0))
            else:
                break
        return found


def check_drop(data: st.DataObject, kind: Kind, size: int, rows: list[Any], steps: list[Any]) -> None:
    asked = data.draw(options(kind), "options")
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        feed = kind.ask(db)
        with (
            feed.changes(**asked).cursor() as all_of_it,
            feed.changes(**asked, changefeed_queue_size=size, on_overflow="drop").cursor() as lagging,
        ):
            opening = heard(all_of_it)
            model = DroppingModel(size)

            for verb, value in [*steps, ("read", None)]:
                if verb == "write":
                    act(db, value)
                    model.add(heard(all_of_it))
                else:
                    first, opening = opening[:value], opening[len(opening) if value is None else value :]
                    more = None if value is None else value - len(first)
                    expected = first + model.take(more)
                    assert alike(kind, expected) == alike(kind, heard(lagging, value))


@settings(max_examples=examples(100))
@given(data=st.data(), kind=kinds(), size=SIZES, rows=ROWS, steps=STEPS)
def test_the_earliest_are_dropped_and_counted(
    data: st.DataObject, kind: Kind, size: int, rows: list[Any], steps: list[Any]
) -> None:
    """Also while the initial values wait to be read: they come whole, and ready, before the count."""
    check_drop(data, kind, size, rows, steps)


def check_error(data: st.DataObject, kind: Kind, size: int, rows: list[Any], steps: list[Any]) -> None:
    asked = data.draw(options(kind), "options")
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        feed = kind.ask(db)
        with (
            feed.changes(**asked).cursor() as all_of_it,
            feed.changes(**asked, changefeed_queue_size=size, on_overflow="error").cursor() as lagging,
        ):
            told = heard(all_of_it)
            lost: list[Event] = []
            # Of what is to be told, that many wait outside of the queue.
            opening = len(told)

            for verb, value in steps:
                if verb == "write":
                    for write in value:
                        do(db, write)
                        new = heard(all_of_it)
                        assert len(new) <= 1
                        if lost or len(told) - opening + len(new) > size:
                            lost += new
                        else:
                            told += new
                elif not lost:
                    found = heard(lagging, value)
                    assert alike(kind, told[: len(found)]) == alike(kind, found)
                    del told[: len(found)]
                    opening = max(0, opening - len(found))

            assert alike(kind, told) == alike(kind, heard(lagging, len(told)))
            if lost:
                with pytest.raises(reactdb.FeedOverflow) as caught:
                    lagging.next(timeout=0)
                assert len(lost) == caught.value.skipped
            with pytest.raises((TimeoutError, StopIteration)):
                lagging.next(timeout=0)


SINGLE_WRITES = st.lists(
    st.one_of(WRITES, WRITES, WRITES, READS),
    min_size=8,
    max_size=25,
)
# Kinds of which one change makes one event at most.
SINGLE_KINDS = st.sampled_from(
    [
        Kind("games", lambda db: db.table("games")),
        Kind("filter(a == 1)", lambda db: db.table("games").filter(row["a"] == 1)),
        Kind("pluck(id, v)", lambda db: db.table("games").pluck("id", "v")),
        Kind("count", lambda db: db.table("games").count(), shape="one"),
        Kind("limit", lambda db: db.table("games").order_by(index="a").limit(2), has_offsets=True),
        Kind(
            "mapped",
            lambda db: db.table("games").order_by("a").map(row["v"].default(0)).limit(3),
            has_offsets=True,
        ),
    ]
)


@settings(max_examples=examples(40))
@given(data=st.data(), kind=SINGLE_KINDS, size=SIZES, rows=ROWS, steps=SINGLE_WRITES)
def test_an_overflow_ends_the_feed_behind_what_was_queued(
    data: st.DataObject, kind: Kind, size: int, rows: list[Any], steps: list[Any]
) -> None:
    """The error says how many changes were not told."""
    check_error(data, kind, size, rows, steps)


def check_spill(data: st.DataObject, kind: Kind, size: int, rows: list[Any], steps: list[Any]) -> None:
    asked = data.draw(options(kind), "options")
    squash = data.draw(st.booleans(), "squash")
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        feed = kind.ask(db)
        spilling = {**asked, "changefeed_queue_size": size, "on_overflow": "spill", "squash": squash}
        with (
            feed.changes(**asked).cursor() as all_of_it,
            feed.changes(**spilling).cursor() as lagging,
        ):
            told = heard(all_of_it)
            replica = Replica(
                [] if asked.get("include_initial") else kind.answer(db),
                by_offset=asked.get("include_offsets", False),
                name_of=kind.name_of,
                value_of=kind.value_of,
            )
            grammar = Grammar({**asked, "squash": squash}, kind.extra_fields)
            states: list[str] = []

            for verb, value in [*steps, ("read", None)]:
                if verb == "write":
                    act(db, value)
                    told += heard(all_of_it)
                    continue
                for event in heard(lagging, value):
                    grammar.check(event)
                    replica.apply(event)
                    if "state" in event:
                        states.append(event["state"])
                    elif not squash:
                        while told and "state" in told[0]:
                            del told[0]
                        assert alike(kind, [told.pop(0)]) == alike(kind, [event])
            assert squash or [] == [event for event in told if "state" not in event]
            replica.assert_equals(kind.answer(db), kind)
            if asked.get("include_states"):
                caught_up = [name for name in states if name != "initializing"]
                assert "ready" == caught_up[-1]
                assert all(one != other for one, other in pairwise(caught_up))


@settings(max_examples=examples(100))
@given(data=st.data(), kind=kinds(), size=SIZES, rows=ROWS, steps=STEPS)
def test_a_spilling_feed_loses_nothing_and_tells_nothing_twice(
    data: st.DataObject, kind: Kind, size: int, rows: list[Any], steps: list[Any]
) -> None:
    """And after it has caught up it says so, once."""
    check_spill(data, kind, size, rows, steps)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("check", [check_drop, check_spill])
def test_overflow_for_longer(check: Any) -> None:
    """The same with many more examples."""
    settings(max_examples=examples(2000))(given(st.data(), kinds(), SIZES, ROWS, STEPS)(check))()
