"""Columns: Python values of documents as Arrow arrays of Spark's types, strictly.

Arrow itself turns 1.5 into 1, True into 1.0 and bytes into text without a warning. So this file lists the exact Python types for
each Spark type, and anything else is a `Misfit` with the place. The check is cheap, because it is made for a whole column at
once: `set(map(type, values))` costs 20 ns a value.

    Spark type          takes
    ------------------  ----------------------------------------------------------------------------------------------
    BOOLEAN             bool
    BIGINT and smaller  int within the type's range
    DOUBLE              float, and int if that is exact (up to 2^53 and some beyond)
    FLOAT               float and int that are exact in 32 bits
    DECIMAL(p, s)       Decimal and int that are exact in p digits, s of them after the point
    STRING              str unchanged; UUID and all others as `reactdb.json.plain_text` writes them
    BINARY              bytes
    DATE                date
    TIMESTAMP           datetime; the moment is kept and the offset from UTC is not
    INTERVAL            timedelta, to the microsecond; INTERVAL DAY TO SECOND
    TIME                time
    STRUCT              dict; a missing field becomes null
    MAP<STRING, ...>    dict
    ARRAY               list
    VARIANT             everything, see `variant`

Rule of this file: one column at a time, in chunks of some thousand values. `documents` decides about rows that do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from reactdb.errors import InvalidOption, format_value
from reactdb.json import plain_text
from reactdb.spark.variant import variant_of
from reactdb.values.value_types import is_registered

NONE = type(None)
MILLISECONDS, MICROSECONDS = pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")


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

    def __init__(self, type_: spark.DataType, *, nullable: bool = True) -> None:
        self.type = type_
        self.name = type_.simpleString()
        self.arrow: Any = to_arrow_type(type_, timezone="UTC")
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

    def __init__(self, type_: spark.DataType, taken: tuple[type, ...], *, nullable: bool = True) -> None:
        super().__init__(type_, nullable=nullable)
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


class DecimalColumn(Scalar):
    """Exact decimals. Ints become Decimals first, because Arrow takes the precision from the first value."""

    def convert(self, values: Sequence[Any]) -> Any:
        kinds = set(map(type, values))
        if int in kinds:
            values = [Decimal(value) if type(value) is int else value for value in values]
        return super().convert(values)


class Text(Column):
    """STRING: strings unchanged, anything else as text.

    Args:
        is_strict: It was inferred from strings, UUIDs, times of day and registered types, so any other value is a misfit.
    """

    def __init__(self, type_: spark.DataType, *, nullable: bool = True, is_strict: bool = False) -> None:
        super().__init__(type_, nullable=nullable)
        self.is_strict = is_strict

    def convert(self, values: Sequence[Any]) -> Any:
        kinds = self.kinds_of(values)
        if not kinds <= _TEXTS:
            if self.is_strict and not all(map(_is_written_as_text, kinds)):
                raise self.misfit_of(values, lambda value: _is_written_as_text(type(value)))
            values = [value if value is None or type(value) is str else plain_text(value) for value in values]
        return pa.array(values, self.arrow)


class Variant(Column):
    """VARIANT: anything; its bytes carry the type of each value."""

    def convert(self, values: Sequence[Any]) -> Any:
        self.kinds_of(values)
        try:
            made = [None if value is None else variant_of(value) for value in values]
        except ValueError as error:
            raise Misfit(str(error)) from None
        value_field, metadata_field = self.arrow
        nothing = (b"\0", b"\1\0\0")
        pairs = [nothing if pair is None else pair for pair in made]
        return pa.StructArray.from_arrays(
            [
                pa.array([pair[0] for pair in pairs], value_field.type),
                pa.array([pair[1] for pair in pairs], metadata_field.type),
            ],
            fields=[value_field, metadata_field],
            mask=nulls_of(values),
        )


class Struct(Column):
    """STRUCT, made from dicts.

    Args:
        is_complete: A field that is missing in the type is a misfit. False if the user has chosen the fields.
    """

    def __init__(self, type_: spark.StructType, *, nullable: bool = True, is_complete: bool = False) -> None:
        super().__init__(type_, nullable=nullable)
        self.is_complete = is_complete
        self.names = tuple(type_.fieldNames())
        if len(set(self.names)) != len(self.names):
            raise InvalidOption(f"the schema names a field twice: {', '.join(self.names)}")
        self.children = tuple(
            column_for(
                field.dataType,
                nullable=field.nullable,
                is_complete=is_complete and not (field.metadata or {}).get(ANYTHING, False),
            )
            for field in type_.fields
        )
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
    """ARRAY, made from lists."""

    def __init__(self, type_: spark.ArrayType, *, nullable: bool = True, is_complete: bool = False) -> None:
        super().__init__(type_, nullable=nullable)
        self.element = column_for(type_.elementType, nullable=type_.containsNull, is_complete=is_complete)

    def convert(self, values: Sequence[Any]) -> Any:
        self.kinds_of(values, _ARRAYS)
        flat = list(chain.from_iterable([value for value in values if value]))
        try:
            elements = self.element.convert(flat)
        except Misfit as misfit:
            raise misfit.within(0) from None
        return pa.ListArray.from_arrays(offsets_of(values), elements, type=self.arrow, mask=nulls_of(values))


class MapColumn(Column):
    """MAP with keys of STRING, made from dicts."""

    def __init__(self, type_: spark.MapType, *, nullable: bool = True, is_complete: bool = False) -> None:
        super().__init__(type_, nullable=nullable)
        if not isinstance(type_.keyType, spark.StringType):
            raise InvalidOption(f"the keys of a map are strings, not {type_.keyType.simpleString()}")
        self.value = column_for(type_.valueType, nullable=type_.valueContainsNull, is_complete=is_complete)

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


_STRUCTS: frozenset[type] = frozenset((dict, NONE))
_ARRAYS: frozenset[type] = frozenset((list, NONE))
_TEXTS = frozenset((str, NONE))
_SAID_AS_TEXT = frozenset((str, UUID, time, NONE))


def _is_written_as_text(kind: type) -> bool:
    return kind in _SAID_AS_TEXT or is_registered(kind)


# Marks, in a field's metadata, a STRING that inference chose because no other type fits its values, or because it saw none.
ANYTHING = "reactdb.anything"
DOUBLE = Scalar(spark.DoubleType(), (float, int))

# Spark type -> its Python types. With exactly these types, Arrow converts without loss.
SCALARS: tuple[tuple[type[spark.DataType], tuple[type, ...]], ...] = (
    (spark.BooleanType, (bool,)),
    (spark.ByteType, (int,)),
    (spark.ShortType, (int,)),
    (spark.IntegerType, (int,)),
    (spark.LongType, (int,)),
    (spark.DoubleType, (float, int)),
    (spark.BinaryType, (bytes,)),
    (spark.DateType, (date,)),
    (spark.TimestampType, (datetime,)),
    (spark.DayTimeIntervalType, (timedelta,)),
    (spark.TimeType, (time,)),
)


def column_for(type_: spark.DataType, *, nullable: bool = True, is_complete: bool = False) -> Column:
    """The column of a Spark type.

    Args:
        is_complete: The type was inferred, so fields that it lacks do not fit.

    Raises:
        InvalidOption: No value of a document has this type.
    """
    if isinstance(type_, spark.StructType):
        return Struct(type_, nullable=nullable, is_complete=is_complete)
    if isinstance(type_, spark.ArrayType):
        return Array(type_, nullable=nullable, is_complete=is_complete)
    if isinstance(type_, spark.MapType):
        return MapColumn(type_, nullable=nullable, is_complete=is_complete)
    if isinstance(type_, spark.StringType):
        return Text(type_, nullable=nullable, is_strict=is_complete)
    if isinstance(type_, spark.VariantType):
        return Variant(type_, nullable=nullable)
    if isinstance(type_, spark.DecimalType):
        return DecimalColumn(type_, (Decimal, int), nullable=nullable)
    if isinstance(type_, spark.FloatType):
        return Float(type_, (float, int), nullable=nullable)
    if isinstance(type_, spark.NullType):
        return Void(type_)
    for kind, taken in SCALARS:
        if isinstance(type_, kind):
            return Scalar(type_, taken, nullable=nullable)
    raise InvalidOption(f"no value of a document is of Spark's type {type_.simpleString()}")


def arrow_schema(schema: spark.StructType) -> Any:
    """The exact Arrow schema that Spark expects of batches with this schema."""
    return to_arrow_schema(schema, timezone="UTC")


def texts_by_index(numbers: Sequence[int], names: Sequence[str]) -> Any:
    """An array of texts, given as indexes into `names`."""
    if numbers and numbers.count(numbers[0]) == len(numbers):
        return pa.repeat(names[numbers[0]], len(numbers))
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), pa.array(names, pa.string())).cast(
        pa.string()
    )


def moments(times_ms: Sequence[int]) -> Any:
    """Milliseconds since 1970 as timestamps."""
    return pa.array(times_ms, pa.int64()).view(MILLISECONDS).cast(MICROSECONDS)


def check_type(field: spark.StructField, kind: type[spark.DataType]) -> None:
    if not isinstance(field.dataType, kind):
        raise InvalidOption(
            f"column {field.name} is {kind().simpleString()}, not {field.dataType.simpleString()}"
        )


__all__ = [
    "ANYTHING",
    "Column",
    "Misfit",
    "Struct",
    "arrow_schema",
    "check_type",
    "column_for",
    "insert_nulls",
    "moments",
    "texts_by_index",
]
