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

from collections.abc import Callable, Iterator, Sequence
from datetime import time
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.errors import InvalidOption, format_value
from reactdb.json import plain_text
from reactdb.values.value_types import is_registered

NONE = type(None)
_STRUCTS: frozenset[type] = frozenset((dict, NONE))
_ARRAYS: frozenset[type] = frozenset((list, NONE))
# The number of parts into which values are cut if some do not fit. With eight, one misfit in 2,000 is found in three steps, which
# read all values, an eighth of them and a 64th of them in vain; with two parts, twice as much would be read in vain.
PARTS = 8
# So few values are tried one by one, because a call for them together costs as much.
FEW = 4


class Misfit(Exception):
    """A value that does not fit the column's type.

    Attributes:
        path: Leads to it from the column.
        rest: From `Column.fit`: the part of the value that is not in the array.
    """

    def __init__(self, reason: str, path: tuple[str | int, ...] = (), rest: Any = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.rest = rest

    def within(self, step: str | int) -> Misfit:
        return Misfit(self.reason, (step, *self.path), self.rest)

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

    def fit(self, values: Sequence[Any]) -> tuple[Any, dict[int, Misfit]]:
        """The array of these values, with null in place of each value that does not fit, and the misfits by their places.

        Of a struct, the fields stay that fit. A list and a map are null as a whole, but if `keeps_rest` holds, which is for
        callers that store `Misfit.rest`, their other elements stay. The rest of a struct or a map is then a dict by names, and
        that of a list a dict by numbers, as text.

        Raises:
            Misfit: A value does not fit in a column without nulls.
        """
        try:
            return self.convert(values), {}
        except Misfit:
            kept = list(values)
            misfits = self.take_out_odd(kept)
            return self._fit_others(kept, misfits), misfits

    def _fit_others(self, values: list[Any], misfits: dict[int, Misfit]) -> Any:
        """The array of values that have no odd types. `misfits` gets the values that do not fit all the same."""
        try:
            return self.convert(values)
        except Misfit:
            misfits.update((place, self.take_out(values, place)) for place in self._find_misfits(values))
        return self.convert(values)

    def is_odd(self, kind: type) -> bool:
        """Whether no value of this Python type fits."""
        return False

    def take_out_odd(self, values: list[Any]) -> dict[int, Misfit]:
        """Put None in place of all values of odd types."""
        odd = {kind for kind in set(map(type, values)) if self.is_odd(kind)}
        if not odd:
            return {}
        return {
            place: self.take_out(values, place) for place, value in enumerate(values) if type(value) in odd
        }

    def take_out(self, values: list[Any], place: int) -> Misfit:
        """Put None in place of a value that does not fit."""
        value, values[place] = values[place], None
        try:
            self.convert([value])
        except Misfit as misfit:
            return Misfit(misfit.reason, misfit.path, value)
        raise AssertionError(f"{value!r} fits {self.name}")

    def _find_misfits(self, values: Sequence[Any], first: int = 0) -> Iterator[int]:
        """The places of values that do not fit. Most of many values fit, so they are tried in smaller and smaller parts."""
        try:
            self.convert(values)
            return
        except Misfit:
            if len(values) == 1:
                yield first
                return
        size = 1 if len(values) <= FEW else -(-len(values) // PARTS)
        for start in range(0, len(values), size):
            yield from self._find_misfits(values[start : start + size], first + start)

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
        found = set(map(type, values))
        if taken is not None and not found <= taken:
            raise self.misfit_of(values, lambda value: type(value) in taken)
        if NONE in found and not self.nullable:
            raise Misfit(f"null, and {self.name} may not be null here")
        return found


class Scalar(Column):
    """A type of single values. Arrow converts them from the Python types in `taken`."""

    def __init__(self, arrow: Any, taken: tuple[type, ...], name: str = "", *, nullable: bool = True) -> None:
        super().__init__(arrow, name, nullable=nullable)
        self.taken = frozenset((*taken, NONE))
        # The bounds of an integer's type; None for other types.
        self._bounds = bounds_of(arrow) if kinds.is_integer(arrow) else None

    def is_odd(self, kind: type) -> bool:
        return kind not in self.taken

    def convert(self, values: Sequence[Any]) -> Any:
        self.kinds_of(values, self.taken)
        try:
            return pa.array(values, self.arrow)
        except (pa.ArrowException, OverflowError, ValueError):
            raise self.misfit_of(values, self._fits) from None

    def _find_misfits(self, values: Sequence[Any], first: int = 0) -> Iterator[int]:
        # A value by itself costs less than a part that fails, whose error has to find the value again.
        return (place for place, value in enumerate(values, first) if not self._fits(value))

    def _fits(self, value: Any) -> bool:
        if self._bounds is not None:
            return value is None or self._bounds[0] <= value <= self._bounds[1]
        try:
            pa.array([value], self.arrow)
        except (pa.ArrowException, OverflowError, ValueError):
            return False
        return True


class Float(Scalar):
    """A float of 32 bits. Inexact values are refused, because Arrow would round them."""

    _find_misfits = Column._find_misfits

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

    def is_odd(self, kind: type) -> bool:
        return kind not in self._taken

    def convert(self, values: Sequence[Any]) -> Any:
        self.kinds_of(values, self._taken)
        if any(values):
            raise self.misfit_of(values, lambda value: not value)
        return self._guess.convert(values)


class DecimalColumn(Scalar):
    """Exact decimals. Ints become Decimals first, because Arrow takes the precision from the first value."""

    def convert(self, values: Sequence[Any]) -> Any:
        if int in set(map(type, values)):
            values = [Decimal(value) if type(value) is int else value for value in values]
        return super().convert(values)

    def _fits(self, value: Any) -> bool:
        return super()._fits(Decimal(value) if type(value) is int else value)


class Text(Column):
    """Text: strings unchanged, anything else as text.

    Args:
        is_strict: It was inferred from strings, UUIDs, times of day and registered types, so any other value is a misfit.
        also: Further types that a strict text takes.
    """

    def __init__(
        self,
        arrow: Any,
        name: str = "",
        *,
        nullable: bool = True,
        is_strict: bool = False,
        also: frozenset[type] = frozenset(),
    ) -> None:
        super().__init__(arrow, name, nullable=nullable)
        self.is_strict = is_strict
        self._taken = _SAID_AS_TEXT | also

    def is_odd(self, kind: type) -> bool:
        return self.is_strict and kind not in self._taken and not is_registered(kind)

    def convert(self, values: Sequence[Any]) -> Any:
        types = self.kinds_of(values)
        if not types <= _TEXTS:
            if any(map(self.is_odd, types)):
                raise self.misfit_of(values, lambda value: not self.is_odd(type(value)))
            values = [value if value is None or type(value) is str else plain_text(value) for value in values]
        return pa.array(values, self.arrow)


class Struct(Column):
    """A struct, made from dicts.

    Args:
        children: The columns of the fields, by their names.
        is_complete: A field that is missing in the type is a misfit. False if the user has chosen the fields.
        keeps_rest: See `Column.fit`. A null field that is missing in the type is no misfit then.
        other: The name of the field that has all fields which are missing in the type, as a dict.
    """

    def __init__(
        self,
        arrow: Any,
        children: Sequence[tuple[str, Column]],
        name: str = "",
        *,
        nullable: bool = True,
        is_complete: bool = False,
        keeps_rest: bool = False,
        other: str | None = None,
    ) -> None:
        super().__init__(arrow, name, nullable=nullable)
        self.other = other
        self.is_complete = is_complete and other is None
        self.keeps_rest = keeps_rest
        self.names = tuple(name for name, _ in children)
        if len(set(self.names)) != len(self.names):
            raise InvalidOption(f"the schema names a field twice: {', '.join(self.names)}")
        self.children = tuple(child for _, child in children)
        self._known = frozenset(name for name in self.names if name != other)

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
            for document in documents:
                misfit = self._unknown(document)
                if misfit is not None:
                    raise misfit
        return self.arrays_of(self._columns(documents))

    def arrays_of(self, columns: Sequence[Sequence[Any]]) -> list[Any]:
        """The arrays of fields whose values are given as columns."""
        made = []
        for name, child, column in zip(self.names, self.children, columns, strict=True):
            try:
                made.append(child.convert(column))
            except Misfit as misfit:
                raise misfit.within(name) from None
        return made

    def is_odd(self, kind: type) -> bool:
        return kind not in _STRUCTS

    def _fit_others(self, values: list[Any], misfits: dict[int, Misfit]) -> Any:
        self.kinds_of(values)
        places = [place for place, value in enumerate(values) if value is not None]
        columns, found = self.columns_of([values[place] for place in places])
        arrays = self.fit_columns(columns, found)
        misfits.update((places[number], misfit) for number, misfit in found.items())
        return insert_nulls(pa.StructArray.from_arrays(arrays, fields=list(self.arrow)), values)

    def columns_of(
        self, documents: Sequence[dict[str, Any]]
    ) -> tuple[list[Sequence[Any]], dict[int, Misfit]]:
        """The values of the fields of these dicts as columns, and the misfits for dicts with other fields by their places."""
        misfits: dict[int, Misfit] = {}
        known = self._known
        if self.is_complete and not known.issuperset(set().union(*documents)):
            for place, document in enumerate(documents):
                misfit = None if document.keys() <= known else self._unknown(document)
                if misfit is not None:
                    misfits[place] = misfit
        return self._columns(documents), misfits

    def _columns(self, documents: Sequence[dict[str, Any]]) -> list[Sequence[Any]]:
        return [
            [self._others(document) for document in documents]
            if name == self.other
            else [document.get(name) for document in documents]
            for name in self.names
        ]

    def _others(self, document: dict[str, Any]) -> dict[str, Any] | None:
        """The fields of a dict that the type lacks; None if there are none."""
        known = self._known
        return {name: value for name, value in document.items() if name not in known} or None

    def fit_columns(self, columns: Sequence[Sequence[Any]], misfits: dict[int, Misfit]) -> list[Any]:
        """The arrays of fields as `fit` makes them of columns of values. `misfits` gets the misfits by their places."""
        made = []
        for name, child, column in zip(self.names, self.children, columns, strict=True):
            try:
                array, found = child.fit(column)
            except Misfit as misfit:
                raise misfit.within(name) from None
            made.append(array)
            for place, one in found.items():
                rest = one.rest if name == self.other and self.keeps_rest else {name: one.rest}
                before = misfits.get(place)
                if before is None:
                    misfits[place] = Misfit(one.reason, (name, *one.path), rest)
                else:
                    before.rest.update(rest)
        return made

    def _unknown(self, document: dict[str, Any]) -> Misfit | None:
        """The misfit for a dict with fields that the type lacks."""
        rest = {name: value for name, value in document.items() if name not in self._known}
        if self.keeps_rest:
            rest = {name: value for name, value in rest.items() if value is not None}
        if not rest:
            return None
        return Misfit(f"a field {format_value(next(iter(rest)))} that is not in the schema", rest=rest)


class Repeated(Column):
    """A column whose values have any number of inner ones. `keeps_rest`: see `Column.fit`."""

    _kinds: frozenset[type]

    def __init__(
        self, arrow: Any, inner: Column, name: str = "", *, nullable: bool = True, keeps_rest: bool = False
    ) -> None:
        super().__init__(arrow, name, nullable=nullable)
        self.inner = inner
        self.keeps_rest = keeps_rest

    def is_odd(self, kind: type) -> bool:
        return kind not in self._kinds

    def _fit_others(self, values: list[Any], misfits: dict[int, Misfit]) -> Any:
        rows = [row for row, value in enumerate(values) if value for _ in value]
        made, found = self.inner.fit(self._flat(values))
        if not self.keeps_rest:
            misfits.update(
                (row, self.take_out(values, row)) for row in sorted({rows[place] for place in found})
            )
            return self.convert(values)
        names = self._names(values)
        for place in sorted(found):
            row, one = rows[place], found[place]
            if row not in misfits:
                misfits[row] = Misfit(one.reason, (0, *one.path), {})
            misfits[row].rest[names[place]] = one.rest
        return self._make(values, made)

    def convert(self, values: Sequence[Any]) -> Any:
        self.kinds_of(values, self._kinds)
        try:
            made = self.inner.convert(self._flat(values))
        except Misfit as misfit:
            raise misfit.within(0) from None
        return self._make(values, made)

    def _flat(self, values: Sequence[Any]) -> list[Any]:
        """The inner values of all values."""
        raise NotImplementedError

    def _names(self, values: Sequence[Any]) -> list[str]:
        """The name of each of them in its value."""
        raise NotImplementedError

    def _make(self, values: Sequence[Any], made: Any) -> Any:
        """The array of values whose inner ones, in one array, are `made`."""
        raise NotImplementedError


class Array(Repeated):
    """A list, made from lists."""

    _kinds = _ARRAYS

    def _flat(self, values: Sequence[Any]) -> list[Any]:
        return list(chain.from_iterable([value for value in values if value]))

    def _names(self, values: Sequence[Any]) -> list[str]:
        return [str(number) for value in values if value for number in range(len(value))]

    def _make(self, values: Sequence[Any], made: Any) -> Any:
        return pa.ListArray.from_arrays(offsets_of(values), made, type=self.arrow, mask=nulls_of(values))


class MapColumn(Repeated):
    """A map with keys of text, made from dicts."""

    _kinds = _STRUCTS

    def _flat(self, values: Sequence[Any]) -> list[Any]:
        return list(chain.from_iterable([value.values() for value in values if value]))

    def _names(self, values: Sequence[Any]) -> list[str]:
        return list(chain.from_iterable([value for value in values if value]))

    def _make(self, values: Sequence[Any], made: Any) -> Any:
        # MapArray.from_arrays takes no mask, and it cannot mark nulls in foreign offsets.
        entries = pa.StructArray.from_arrays(
            [pa.array(self._names(values), pa.string()), made],
            fields=[self.arrow.key_field, self.arrow.item_field],
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


def bounds_of(arrow: Any) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    bits = arrow.bit_width
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kinds.is_signed_integer(arrow) else (0, (1 << bits) - 1)


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
    return pa.array(names, pa.string()).take(pa.array(numbers, pa.int32()))


def moments(times_ms: Sequence[int | None]) -> Any:
    """Milliseconds since 1970 as timestamps in microseconds."""
    return pa.array(times_ms, pa.int64()).view(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))


_TEXTS = frozenset((str, NONE))
_SAID_AS_TEXT = frozenset((str, UUID, time, NONE))


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
