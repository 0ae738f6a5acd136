"""Arrays: Python values of documents as Arrow arrays, strictly.

Arrow itself turns 1.5 into 1, True into 1.0 and bytes into text without a warning. So each column lists the exact Python types
that it takes, and anything else is a `Misfit` with the place. The check is cheap, because it is made for a whole column at
once: `set(map(type, values))` costs 20 ns a value.

    column          takes
    --------------  --------------------------------------------------------------------------------------------------
    Scalar          the Python types that it was given, such as int for an integer
    Float           float and int that are exact in 32 bits
    DecimalColumn   Decimal and int that are exact in its digits
    Text            str unchanged; UUID and all others as `reactdb.json.plain_text` writes them
    Struct          dict; a missing field becomes null
    MapColumn       dict
    Array           list
    Coarse          datetime or timedelta, in whole seconds or milliseconds
    Empty           null, {} or []
    Void            nothing but null

Rule of this file: one column at a time, in chunks of some thousand values. The caller decides about rows that do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import time
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

import pyarrow as pa

from reactdb.errors import InvalidOption, format_value
from reactdb.json import plain_text
from reactdb.values.value_types import is_registered

NONE = type(None)


class Misfit(Exception):
    """A value that does not fit the column's type. `path` leads to it from the column."""

    def __init__(self, reason: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def within(self, step: str | int) -> Misfit:
        return Misfit(self.reason, (step, *self.path))

    def __str__(self) -> str:
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return f"{place.lstrip('.')}: {self.reason}" if place else self.reason


class Column:
    """Makes arrays of one type from lists of values, in which None is null."""

    def __init__(self, arrow: Any, name: str = "", *, nullable: bool = True) -> None:
        """`arrow`: the type of the arrays. `name`: the type's name in messages; empty: Arrow's."""
        self.arrow = arrow
        self.name = name or str(arrow)
        self.nullable = nullable

    def convert(self, values: Sequence[Any]) -> Any:
        """The array of these values.

        Raises:
            Misfit: A value does not fit.
        """
        raise NotImplementedError

    def without_misfits(self, value: Any) -> Any:
        """The value, with null in place of everything in it that does not fit."""
        try:
            self.convert([value])
        except Misfit:
            return None
        return value

    def misfit_of(self, values: Sequence[Any], is_taken: Callable[[Any], bool]) -> Misfit:
        """The misfit for the first value that is not taken."""
        for value in values:
            if not is_taken(value):
                return Misfit(f"{format_value(value, 80)} is not {self.name}")
        return Misfit(f"a value is not {self.name}")

    def kinds_of(self, values: Sequence[Any], taken: frozenset[type] | None = None) -> set[type]:
        """The types of the values.

        Raises:
            Misfit: A value's type is not in `taken` (None: all are taken), or a value is null in a column without nulls.
        """
        kinds = set(map(type, values))
        if taken is not None and not kinds <= taken:
            raise self.misfit_of(values, lambda value: type(value) in taken)
        if NONE in kinds and not self.nullable:
            raise Misfit(f"null, and {self.name} may not be null here")
        return kinds


class Scalar(Column):
    """A type of single values. Arrow converts them from the Python types in `taken`."""

    def __init__(self, arrow: Any, taken: tuple[type, ...], name: str = "", *, nullable: bool = True) -> None:
        super().__init__(arrow, name, nullable=nullable)
        self.taken = frozenset((*taken, NONE))

    def convert(self, values: Sequence[Any]) -> Any:
        self.kinds_of(values, self.taken)
        try:
            return pa.array(values, self.arrow)
        except (pa.ArrowException, OverflowError, ValueError):
            raise self.misfit_of(values, self._fits) from None

    def _fits(self, value: Any) -> bool:
        try:
            pa.array([value], self.arrow)
        except (pa.ArrowException, OverflowError, ValueError):
            return False
        return True


class Float(Scalar):
    """A float of 32 bits. Inexact values are refused, because Arrow would round them."""

    def convert(self, values: Sequence[Any]) -> Any:
        exact = Scalar.convert(DOUBLE, values)
        made = exact.cast(self.arrow, safe=False)
        back = made.cast(pa.float64())
        # Nulls and NaNs become 0 for the comparison, because a NaN is not equal to itself.
        if not back.fill_null(0).equals(exact.fill_null(0)):
            for value, kept in zip(values, back.to_pylist(), strict=True):
                if value is not None and value == value and float(value) != kept:
                    raise Misfit(f"{format_value(value)} is not exactly a {self.name}")
        self.kinds_of(values)
        return made


class Coarse(Scalar):
    """Moments or durations in seconds or milliseconds. Arrow would cut off the rest.

    Args:
        exact: The same type in microseconds.
    """

    def __init__(
        self, arrow: Any, taken: tuple[type, ...], exact: Any, name: str = "", *, nullable: bool = True
    ) -> None:
        super().__init__(arrow, taken, name, nullable=nullable)
        self._exact = exact

    def convert(self, values: Sequence[Any]) -> Any:
        self.kinds_of(values, self.taken)
        try:
            return pa.array(values, self._exact).cast(self.arrow)
        except (pa.ArrowException, OverflowError, ValueError):
            raise self.misfit_of(values, self._fits) from None

    def _fits(self, value: Any) -> bool:
        try:
            pa.array([value], self._exact).cast(self.arrow)
        except (pa.ArrowException, OverflowError, ValueError):
            return False
        return True


class Empty(Column):
    """A column in whose values nothing was seen but null, {} or [], so its type is a guess: any other value is a misfit.

    Args:
        guess: The column of the guessed type: of text, or of a list.
    """

    def __init__(self, guess: Column) -> None:
        super().__init__(guess.arrow, guess.name)
        self._guess = guess
        self._taken = _ARRAYS if isinstance(guess, Array) else _STRUCTS

    def convert(self, values: Sequence[Any]) -> Any:
        self.kinds_of(values, self._taken)
        if any(values):
            raise self.misfit_of(values, lambda value: not value)
        return self._guess.convert(values)


class DecimalColumn(Scalar):
    """Exact decimals. Ints become Decimals first, because Arrow takes the precision from the first value."""

    def convert(self, values: Sequence[Any]) -> Any:
        kinds = set(map(type, values))
        if int in kinds:
            values = [Decimal(value) if type(value) is int else value for value in values]
        return super().convert(values)


class Text(Column):
    """Text: strings unchanged, anything else as text.

    Args:
        is_strict: It was inferred from strings, UUIDs, times of day and registered types, so any other value is a misfit.
    """

    def __init__(self, arrow: Any, name: str = "", *, nullable: bool = True, is_strict: bool = False) -> None:
        super().__init__(arrow, name, nullable=nullable)
        self.is_strict = is_strict

    def convert(self, values: Sequence[Any]) -> Any:
        kinds = self.kinds_of(values)
        if not kinds <= _TEXTS:
            if self.is_strict and not all(map(_is_written_as_text, kinds)):
                raise self.misfit_of(values, lambda value: _is_written_as_text(type(value)))
            values = [value if value is None or type(value) is str else plain_text(value) for value in values]
        return pa.array(values, self.arrow)


class Struct(Column):
    """A struct, made from dicts.

    Args:
        children: The columns of the fields, by their names.
        is_complete: A field that is missing in the type is a misfit. False if the user has chosen the fields.
    """

    def __init__(
        self,
        arrow: Any,
        children: Sequence[tuple[str, Column]],
        name: str = "",
        *,
        nullable: bool = True,
        is_complete: bool = False,
    ) -> None:
        super().__init__(arrow, name, nullable=nullable)
        self.is_complete = is_complete
        self.names = tuple(name for name, _ in children)
        if len(set(self.names)) != len(self.names):
            raise InvalidOption(f"the schema names a field twice: {', '.join(self.names)}")
        self.children = tuple(child for _, child in children)
        self._known = frozenset(self.names)

    def convert(self, values: Sequence[Any]) -> Any:
        if NONE not in self.kinds_of(values, _STRUCTS):
            return pa.StructArray.from_arrays(self.arrays(values), fields=list(self.arrow))
        present = [value for value in values if value is not None]
        return insert_nulls(
            pa.StructArray.from_arrays(self.arrays(present), fields=list(self.arrow))
            if present
            else pa.array([], self.arrow),
            values,
        )

    def arrays(self, documents: Sequence[dict[str, Any]]) -> list[Any]:
        """An array for each field of these dicts, without None among the dicts."""
        if self.is_complete and not self._known.issuperset(set().union(*documents)):
            raise self._unknown(documents)
        columns = [[document.get(name) for document in documents] for name in self.names]
        return self.arrays_of(columns)

    def arrays_of(self, columns: Sequence[Sequence[Any]]) -> list[Any]:
        """The arrays of fields whose values are given as columns."""
        made = []
        for name, child, column in zip(self.names, self.children, columns, strict=True):
            try:
                made.append(child.convert(column))
            except Misfit as misfit:
                raise misfit.within(name) from None
        return made

    def _unknown(self, documents: Sequence[dict[str, Any]]) -> Misfit:
        for document in documents:
            for name in document:
                if name not in self._known:
                    return Misfit(f"a field {format_value(name)} that is not in the schema")
        return Misfit("a field that is not in the schema")

    def without_misfits(self, value: Any) -> Any:
        if type(value) is not dict:
            return None
        return {
            name: child.without_misfits(value.get(name))
            for name, child in zip(self.names, self.children, strict=True)
        }


class Array(Column):
    """A list, made from lists."""

    def __init__(self, arrow: Any, element: Column, name: str = "", *, nullable: bool = True) -> None:
        super().__init__(arrow, name, nullable=nullable)
        self.element = element

    def convert(self, values: Sequence[Any]) -> Any:
        self.kinds_of(values, _ARRAYS)
        flat = list(chain.from_iterable([value for value in values if value]))
        try:
            elements = self.element.convert(flat)
        except Misfit as misfit:
            raise misfit.within(0) from None
        return pa.ListArray.from_arrays(offsets_of(values), elements, type=self.arrow, mask=nulls_of(values))


class MapColumn(Column):
    """A map with keys of text, made from dicts."""

    def __init__(self, arrow: Any, value: Column, name: str = "", *, nullable: bool = True) -> None:
        super().__init__(arrow, name, nullable=nullable)
        self.value = value

    def convert(self, values: Sequence[Any]) -> Any:
        self.kinds_of(values, _STRUCTS)
        present = [value for value in values if value]
        keys = pa.array(list(chain.from_iterable(present)), pa.string())
        flat = list(chain.from_iterable([value.values() for value in present]))
        try:
            items = self.value.convert(flat)
        except Misfit as misfit:
            raise misfit.within(0) from None
        # MapArray.from_arrays takes no mask, and it cannot mark nulls in foreign offsets.
        entries = pa.StructArray.from_arrays(
            [keys, items], fields=[self.arrow.key_field, self.arrow.item_field]
        )
        lists = pa.ListArray.from_arrays(offsets_of(values), entries, mask=nulls_of(values))
        return pa.Array.from_buffers(
            self.arrow, len(values), lists.buffers()[:2], lists.null_count, 0, [entries]
        )


class Void(Column):
    """A column of nothing but nulls."""

    def convert(self, values: Sequence[Any]) -> Any:
        if any(value is not None for value in values):
            raise self.misfit_of(values, lambda value: value is None)
        return pa.nulls(len(values), self.arrow)


def offsets_of(values: Sequence[Any]) -> Any:
    """The begin of each list or dict in a flattened column, and the end of the last."""
    offsets = [0]
    end = 0
    for value in values:
        if value:
            end += len(value)
        offsets.append(end)
    return pa.array(offsets, pa.int32())


def nulls_of(values: Sequence[Any]) -> Any:
    """The mask of null values; None if no value is null."""
    if NONE not in set(map(type, values)):
        return None
    return pa.array([value is None for value in values], pa.bool_())


def insert_nulls(array: Any, values: Sequence[Any]) -> Any:
    """An array of all values, with nulls in place of None; `array` has the others."""
    if len(array) == len(values):
        return array
    if not len(array):
        return pa.nulls(len(values), array.type)
    places: list[int | None] = []
    count = 0
    for value in values:
        if value is None:
            places.append(None)
        else:
            places.append(count)
            count += 1
    return array.take(pa.array(places, pa.int32()))


def texts_by_index(numbers: Sequence[int], names: Sequence[str]) -> Any:
    """An array of texts, given as indexes into `names`."""
    if numbers and numbers.count(numbers[0]) == len(numbers):
        return pa.repeat(names[numbers[0]], len(numbers))
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), pa.array(names, pa.string())).cast(
        pa.string()
    )


def moments(times_ms: Sequence[int]) -> Any:
    """Milliseconds since 1970 as timestamps in microseconds."""
    return pa.array(times_ms, pa.int64()).view(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))


_STRUCTS: frozenset[type] = frozenset((dict, NONE))
_ARRAYS: frozenset[type] = frozenset((list, NONE))
_TEXTS = frozenset((str, NONE))
_SAID_AS_TEXT = frozenset((str, UUID, time, NONE))


def _is_written_as_text(kind: type) -> bool:
    return kind in _SAID_AS_TEXT or is_registered(kind)


DOUBLE = Scalar(pa.float64(), (float, int), "double")


__all__ = [
    "DOUBLE",
    "Array",
    "Coarse",
    "Column",
    "DecimalColumn",
    "Empty",
    "Float",
    "MapColumn",
    "Misfit",
    "Scalar",
    "Struct",
    "Text",
    "Void",
    "insert_nulls",
    "moments",
    "nulls_of",
    "texts_by_index",
]
