"""Feeds of ranges of keys come and go: a change is told to those that have it now, and to no others."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import desc
from tests.support.scaling import examples

# Few, so that a key is often where a range begins or ends.
keys = st.lists(st.integers(0, 3), max_size=2).map(bytes)
# Few are looked at one by one, and many are sorted.
ranges_of_keys = st.integers(0, 60).flatmap(
    lambda least: st.lists(st.tuples(keys, keys, st.booleans()), min_size=least, max_size=80)
)
# Such that one is the beginning of another.
names = st.text(alphabet="\0aé\U0001f600", max_size=3)


@settings(max_examples=examples(100))
@given(
    ranges_of_keys,
    st.lists(keys, min_size=1, max_size=5, unique=True),
    st.integers(0, 40),
)
def test_a_change_is_told_to_exactly_the_ranges_that_hold_it(
    ranges: list[tuple[bytes, bytes, bool]], values: list[bytes], late: int
) -> None:
    """Opened, closed and opened again, before and after a first change: the answer is that of looking at every range."""
    with reactdb.connect(":memory:") as db:
        table = db.table_create("games")
        held: dict[int, tuple[bytes, bytes]] = {}
        told: list[tuple[int, Any]] = []
        first = b"\xff\xff\xff"
        for number, (start, stop, is_closed) in enumerate(ranges):
            feed = table.between(start, stop).changes()
            subscription = feed.subscribe(
                lambda event, number=number: told.append((number, event["new_val"]["id"]))
            )
            held[number] = (start, stop)
            if number == late:
                table.insert({"id": first})
            if is_closed:
                subscription.dispose()
                del held[number]

        table.insert([{"id": value} for value in values])

        expected = [
            (number, value)
            for value in values
            for number, (start, stop) in held.items()
            if start <= value < stop
        ]
        assert sorted(expected) == sorted(told)


@settings(max_examples=examples(100))
@given(st.lists(names, max_size=12), st.integers(1, 5))
def test_the_last_by_an_index_are_the_first_the_other_way_round(written: list[str], limit: int) -> None:
    """Also where one value is the beginning of another."""
    with reactdb.connect(":memory:") as db:
        table = db.table_create("games")
        table.index_create("name")
        live = reactdb.LiveList(table.order_by(index=desc("name")).limit(limit))
        for number, name in enumerate(written):
            table.insert({"id": number, "name": name})

            expected = sorted(written[: number + 1], reverse=True)[:limit]
            assert expected == [document["name"] for document in live]
