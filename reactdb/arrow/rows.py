"""Rows: Arrow columns as Python values, and several of them as documents.

Other systems do not distinguish a missing field from null. A document does, so one of the two is chosen: by default a null field
of a row or of a struct is left out. In a list a null keeps its place, in a map it keeps its key.

Rule of this file: no value changes on the way. A value that no document can hold is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from reactdb.errors import InvalidDocument, InvalidOption
from reactdb.values.scalars import EPOCH

if TYPE_CHECKING:
    import pyarrow as pa

Values = Callable[["pa.Array"], list[Any]]

# Rows that become dicts at a time: no more, because with ten times as many the garbage collector adds 40% to the time.
ROWS_AT_ONCE = 1_000


def check_names(names: list[str], place: str) -> list[str]:
    """The names of the fields, which must differ."""
    for name in names:
        if names.count(name) > 1:
            raise InvalidOption(
                f"{place} have two fields called {name!r}, of which a document keeps one: rename one"
            )
    return names


def dicts(names: list[str], columns: list[list[Any]], count: int, keeps_nulls: bool) -> list[dict[str, Any]]:
    """Columns turned into dicts, one a row."""
    if not names:
        return [{} for _ in range(count)]
    rows = zip(*columns, strict=True)
    if keeps_nulls:
        return [dict(zip(names, row, strict=True)) for row in rows]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None} for row in rows
    ]


def plain(column: pa.Array) -> list[Any]:
    return list(column.to_pylist())


def timestamps_of(place: str) -> Values:
    import pyarrow as pa

    def timestamps(column: pa.Array) -> list[Any]:
        """Aware datetimes in UTC, made from the numbers, because a named zone would compute its offset for each of them."""
        numbers = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
        try:
            return [None if n is None else EPOCH + timedelta(microseconds=n) for n in numbers]
        except OverflowError:
            raise InvalidDocument(
                f"column {place} has a timestamp outside the years 1 to 9999, which a document cannot hold"
            ) from None

    return timestamps


def times(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    # The cast is safe, so that a time with nanoseconds is refused and not truncated.
    return list(column.cast(pa.time64("us")).to_pylist())


def structs_of(names: list[str], makers: Sequence[Values], keeps_nulls: bool) -> Values:
    """`makers`: of the fields with these names."""

    def structs(column: pa.Array) -> list[Any]:
        fields = [make(field) for make, field in zip(makers, column.flatten(), strict=True)]
        objects: list[Any] = list(dicts(names, fields, len(column), keeps_nulls))
        return without_nulls(column, objects)

    return structs


def lists_of(make: Values) -> Values:
    import pyarrow.compute as pc

    def lists(column: pa.Array) -> list[Any]:
        inner = make(column.flatten())
        values: list[Any] = []
        start = 0
        for length in pc.list_value_length(column).to_pylist():
            if length is None:
                values.append(None)
            else:
                values.append(inner[start : start + length])
                start += length
        return values

    return lists


def maps_of(make: Values) -> Values:
    def maps(column: pa.Array) -> list[Any]:
        # A slice has the keys and items of the whole array, so its offsets select its own.
        offsets = column.offsets.to_pylist()
        first, count = offsets[0], offsets[-1] - offsets[0]
        keys = column.keys.slice(first, count).to_pylist()
        items = make(column.items.slice(first, count))
        objects: list[Any] = [
            dict(zip(keys[start - first : stop - first], items[start - first : stop - first], strict=True))
            for start, stop in pairwise(offsets)
        ]
        return without_nulls(column, objects)

    return maps


def without_nulls(column: pa.Array, values: list[Any]) -> list[Any]:
    """The values, with None where the column is null."""
    if column.null_count:
        return [
            None if is_null else value
            for is_null, value in zip(column.is_null().to_pylist(), values, strict=True)
        ]
    return values
