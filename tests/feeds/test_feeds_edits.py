"""What a commit does to an ordered list, as net differences with offsets: they lead there, and are as few as can be."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.testing import Recorder, VirtualClock
from tests.support.scaling import examples

LIMIT = 12

lists = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 2)), unique_by=lambda pair: pair[0], max_size=LIMIT
)


def told(old: list[tuple[int, int]], new: list[tuple[int, int]]) -> list[Any]:
    """The events of the commit that makes `new` of `old`: lists of id and value."""
    clock = VirtualClock()
    with reactdb.connect(":memory:") as db:
        table = db.table_create("games")
        table.insert(documents(old))
        # The rank is not in what is told: whoever keeps its place among the others has not changed.
        feed = table.order_by("rank").pluck("id", "value").limit(LIMIT)
        heard = Recorder(feed.changes(squash=1.0, include_offsets=True), scheduler=clock)
        with db.transaction():
            for key in {key for key, _ in old} - {key for key, _ in new}:
                table.get(key).delete()
            table.insert(documents(new), conflict="replace")
        clock.advance_by(5.0)
        return heard.take()


def documents(pairs: list[tuple[int, int]]) -> list[dict[str, Any]]:
    return [{"id": key, "value": value, "rank": rank} for rank, (key, value) in enumerate(pairs)]


def shown(pairs: list[tuple[int, int]]) -> list[dict[str, Any]]:
    return [{"id": key, "value": value} for key, value in pairs]


def longest_rise(ranks: list[int]) -> int:
    """Of the longest part of a list that rises, found by looking at each that ends with each."""
    ends: list[int] = []
    for place, rank in enumerate(ranks):
        ends.append(
            1
            + max((end for end, before in zip(ends, ranks[:place], strict=True) if before < rank), default=0)
        )
    return max(ends, default=0)


@settings(max_examples=examples(100))
@given(lists, lists)
def test_edits_lead_from_one_list_to_the_other(
    old: list[tuple[int, int]], new: list[tuple[int, int]]
) -> None:
    """And the list never gets longer than the longer of the two."""
    found = shown(old)
    longest = len(found)
    for event in told(old, new):
        if event["old_offset"] is not None:
            assert found.pop(event["old_offset"]) == event["old_val"]
        if event["new_offset"] is not None:
            found.insert(event["new_offset"], event["new_val"])
        longest = max(longest, len(found))

    assert shown(new) == found
    assert longest <= max(len(old), len(new))


@settings(max_examples=examples(100))
@given(lists, lists)
def test_edits_are_as_few_as_can_be(old: list[tuple[int, int]], new: list[tuple[int, int]]) -> None:
    """Arrivals and departures in pairs, and one for each that changed or must move: none moves for one that changed."""
    was, now = dict(old), dict(new)
    common = was.keys() & now.keys()
    order = [key for key, _ in new]
    stay = longest_rise([order.index(pair[0]) for pair in old if pair in new])
    least = max(len(was) - len(common), len(now) - len(common)) + len(common) - stay

    assert least == len(told(old, new))


@settings(max_examples=examples(100))
@given(lists, st.permutations(range(13)))
def test_net_differences_of_one_commit_come_in_the_order_in_which_it_wrote(
    old: list[tuple[int, int]], order: list[int]
) -> None:
    """Whatever their places in the list are; and so do the same changes where they are not squashed."""
    present = {key for key, _ in old}
    written = [key for key in order if key in present]
    clock = VirtualClock()
    with reactdb.connect(":memory:") as db:
        table = db.table_create("games")
        table.insert(documents(old))
        feed = table.order_by("rank").limit(LIMIT)
        squashed = Recorder(feed.changes(squash=1.0, include_offsets=True), scheduler=clock)
        stepwise = Recorder(feed.changes(include_offsets=True))
        with db.transaction():
            for number, key in enumerate(written):
                if number % 2:
                    table.get(key).delete()
                else:
                    table.get(key).update({"value": 9})
        clock.advance_by(5.0)
        found = squashed.take()

        assert stepwise.take() == found
    assert written == [event["old_val"]["id"] for event in found]
