"""The parts that feeds are made of, each by its own law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reactdb.feeds.edits import edits, longest_rise
from reactdb.feeds.intervals import Intervals
from reactdb.feeds.pipeline import inverted
from reactdb.values.totals import Total

# ---------------------------------------------------------------------------------------------------------------
# Intervals

keys = st.binary(max_size=2)


@given(
    st.lists(st.tuples(keys, keys, st.booleans()), max_size=120),
    st.lists(keys, min_size=1, max_size=5),
    st.integers(0, 60),
)
def test_intervals_find_exactly_the_ranges_that_hold_a_value(ranges, values, late):
    """Added, removed and added again: the answer is that of looking at every range."""
    index: Intervals[int] = Intervals()
    held: dict[int, tuple[bytes, bytes]] = {}
    tokens = {}
    for number, (start, stop, is_removed) in enumerate(ranges):
        tokens[number] = index.add(start, stop, number)
        held[number] = (start, stop)
        if number == late:
            index.holding(b"")
        if is_removed:
            index.remove(tokens[number])
            del held[number]

    for value in values:
        expected = [number for number, (start, stop) in held.items() if start <= value < stop]
        assert sorted(index.holding(value)) == expected
    assert len(index) == len(held)


@given(st.lists(st.binary(max_size=3), unique=True))
def test_inverted_bytes_sort_the_other_way_round_among_prefix_free_places(places):
    """Key bytes are prefix-free; here a terminator makes them so."""
    ended = [bytes(byte % 200 + 1 for byte in place) + b"\x00" for place in places]

    assert sorted(set(ended), reverse=True) == sorted(set(ended), key=inverted)


# ---------------------------------------------------------------------------------------------------------------
# Edits


@dataclass(frozen=True)
class Place:
    identity: int
    value: int


lists = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 2)), unique_by=lambda pair: pair[0], max_size=12
)


def applied(before: Sequence[Place], after: Sequence[Place]) -> tuple[list[Any], int, int]:
    """The list that the edits lead to, how many they are, and the longest that it was."""
    found = list(before)
    longest = len(found)
    steps = edits(before, after, lambda old, new: old == new)
    for edit in steps:
        if edit.old_offset is not None:
            assert found.pop(edit.old_offset) == edit.leaving
        if edit.new_offset is not None:
            found.insert(edit.new_offset, edit.entering)
        longest = max(longest, len(found))
    return found, len(steps), longest


@given(lists, lists)
def test_edits_lead_from_one_list_to_the_other(old, new):
    """Law 4, for results with offsets; and the list never gets longer than the longer of the two."""
    before, after = [Place(*pair) for pair in old], [Place(*pair) for pair in new]

    found, _, longest = applied(before, after)

    assert found == after
    assert longest <= max(len(before), len(after))


@given(lists, lists)
def test_edits_are_as_few_as_can_be(old, new):
    """Arrivals and departures in pairs, and one for each that changed or must move: none moves for one that changed."""
    before, after = [Place(*pair) for pair in old], [Place(*pair) for pair in new]
    was, now = dict(old), dict(new)
    common = was.keys() & now.keys()
    order = [identity for identity, _ in new]
    stay = longest_rise([order.index(pair[0]) for pair in old if pair in new])
    least = max(len(was) - len(common), len(now) - len(common)) + len(common) - len(stay)

    assert applied(before, after)[1] == least


# ---------------------------------------------------------------------------------------------------------------
# Totals

numbers = st.one_of(
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=5, min_value=-(10**6), max_value=10**6),
)


@given(st.lists(numbers), st.lists(numbers))
def test_what_was_taken_away_leaves_no_trace(kept, gone):
    total, anew = Total(), Total()
    for number in (*gone, *kept):
        total.add(number)
    for number in gone:
        total.remove(number)
    for number in reversed(kept):
        anew.add(number)

    assert (repr(total.sum), repr(total.mean), total.count) == (repr(anew.sum), repr(anew.mean), len(kept))


def test_the_decimal_context_of_the_thread_has_no_part_in_a_mean():
    total = Total()
    for number in (Decimal("1.0000001"), Decimal("1.0000003")):
        total.add(number)

    with localcontext(Context(prec=2)):
        assert Decimal("1.0000002") == total.mean


@given(st.lists(st.integers(), min_size=1))
def test_a_sum_of_ints_is_an_int(values):
    total = Total()
    for value in values:
        total.add(value)

    assert total.sum == sum(values)
    assert type(total.sum) is int
    assert total.mean == sum(values) / len(values)


@given(
    st.lists(
        st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9), min_size=1
    )
)
def test_a_sum_of_decimals_is_exact(values):
    total = Total()
    for value in values:
        total.add(value)

    assert Fraction(total.sum) == sum(map(Fraction, values))
    assert type(total.sum) is Decimal


def test_infinities_come_and_go():
    total = Total()
    for number in (1.5, float("inf"), float("-inf")):
        total.add(number)
    assert repr(total.sum) == "nan"

    total.remove(float("-inf"))
    assert total.sum == float("inf")

    total.remove(float("inf"))
    assert total.sum == 1.5
