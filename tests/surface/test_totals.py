"""Sums and means: exact, and of a feed the same as of a query, whatever was added and taken away before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from tests.support.scaling import examples

numbers = st.one_of(
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=5, min_value=-(10**6), max_value=10**6),
)


@contextmanager
def table_of(values: list[Any]) -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        table = db.table_create("games")
        table.insert([{"id": number, "n": value} for number, value in enumerate(values)])
        yield table


def follow(selection: Any) -> list[Any]:
    """The present value, always the last."""
    found: list[Any] = []
    selection.changes(include_initial=True).subscribe(lambda event: found.append(event["new_val"]))
    return found


@settings(max_examples=examples(100))
@given(st.lists(numbers, min_size=1), st.lists(numbers))
def test_what_was_taken_away_leaves_no_trace(kept: list[Any], gone: list[Any]) -> None:
    with table_of([*gone, *kept]) as table, table_of(list(reversed(kept))) as anew:
        total, mean = follow(table.sum("n")), follow(table.avg("n"))
        for number in range(len(gone)):
            table.get(number).delete()

        assert repr(anew.sum("n").run()) == repr(total[-1]) == repr(table.sum("n").run())
        assert repr(anew.avg("n").run()) == repr(mean[-1]) == repr(table.avg("n").run())


def test_the_decimal_context_of_the_thread_has_no_part_in_a_mean() -> None:
    with (
        table_of([Decimal("1.0000001"), Decimal("1.0000003")]) as table,
        localcontext(Context(prec=2)),
    ):
        assert Decimal("1.0000002") == table.avg("n").run()


@settings(max_examples=examples(100))
@given(st.lists(st.integers(-(10**30), 10**30), min_size=1))
def test_a_sum_of_ints_is_an_int(values: list[int]) -> None:
    with table_of(values) as table:
        total = table.sum("n").run()

        assert (sum(values), int) == (total, type(total))
        assert sum(values) / len(values) == table.avg("n").run()


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9), min_size=1
    )
)
def test_a_sum_of_decimals_is_exact(values: list[Decimal]) -> None:
    with table_of(values) as table:
        total = table.sum("n").run()

        assert (sum(map(Fraction, values)), Decimal) == (Fraction(total), type(total))


def test_infinities_come_and_go() -> None:
    with table_of([1.5, float("inf"), float("-inf")]) as table:
        total = follow(table.sum("n"))
        assert repr(total[-1]) == "nan"

        table.get(2).delete()
        assert float("inf") == total[-1]

        table.get(1).delete()
        assert total[-1] == 1.5
