"""A feed of a database with a virtual clock delivers at the times, and the events, of a feed on that clock as a scheduler."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import reactdb
from reactdb.testing import VirtualClock

KEYS = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 3)),
        st.tuples(st.just("delete"), KEYS, st.none()),
        st.tuples(st.just("advance"), st.sampled_from([0, 0.25, 1, 3, 60]), st.none()),
    ),
    max_size=25,
)
INTERVALS = (0.25, 1.0, 2.5)


@given(STEPS)
def test_callbacks_cursors_and_schedulers_have_the_same_times_and_events(steps: list[tuple[str, Any, Any]]):
    clock = VirtualClock()
    with reactdb.connect(":memory:", clock=clock) as db:
        table = db.table_create("t")
        called: dict[float, list[Any]] = {interval: [] for interval in INTERVALS}
        scheduled: dict[float, list[Any]] = {interval: [] for interval in INTERVALS}
        polled: dict[float, list[Any]] = {interval: [] for interval in INTERVALS}
        cursors = {}
        for interval in INTERVALS:
            feed = table.changes(squash=interval)

            def note(event: Any, out: list[Any]) -> None:
                out.append((clock.now_s, reactdb.thaw(event)))

            feed.subscribe(lambda event, out=called[interval]: note(event, out))
            feed.subscribe(lambda event, out=scheduled[interval]: note(event, out), scheduler=clock)
            cursors[interval] = feed.cursor()
        # Each feed on the scheduler takes its turn, and has begun.
        clock.run_due()

        for step, first, second in [*steps, ("advance", 60, None)]:
            if step == "put":
                table.insert({"id": first, "n": second}, conflict="replace")
            elif step == "delete":
                table.get(first).delete()
            else:
                clock.advance_by(first)
            clock.run_due()
            for interval, cursor in cursors.items():
                polled[interval] += rest_of(cursor)

        assert called == scheduled
        for interval in INTERVALS:
            now = {document["id"]: document for document in table.run()}
            assert now == apply(event for _, event in called[interval])
            assert now == apply(polled[interval])


def rest_of(cursor: Any) -> list[Any]:
    """The events that are there now."""
    events = []
    while True:
        try:
            events.append(reactdb.thaw(cursor.next(timeout=0)))
        except TimeoutError:
            return events


def apply(events: Any) -> dict[int, Any]:
    """The documents after the events. An old value that is not there is a mistake."""
    documents: dict[int, Any] = {}
    for event in events:
        old, new = event["old_val"], event["new_val"]
        key = (old or new)["id"]
        assert documents.get(key) == old
        documents.pop(key, None)
        if new is not None:
            documents[key] = new
    return documents
