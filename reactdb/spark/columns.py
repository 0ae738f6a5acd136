"""Columns: Spark's types as columns that make Arrow arrays.

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

Rule of this file: it knows Spark's types. `reactdb.arrow.arrays` makes the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from reactdb.arrow.arrays import (
    Array,
    Column,
    DecimalColumn,
    Float,
    MapColumn,
    Misfit,
    Scalar,
    Struct,
    Text,
    Void,
    insert_nulls,
    nulls_of,
)
from reactdb.arrow.inference import ANYTHING
from reactdb.errors import InvalidOption
from reactdb.spark.variant import variant_of

MILLISECONDS, MICROSECONDS = pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")


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
    name, arrow = type_.simpleString(), to_arrow_type(type_, timezone="UTC")
    if isinstance(type_, spark.StructType):
        children = [
            (
                field.name,
                column_for(
                    field.dataType,
                    nullable=field.nullable,
                    is_complete=is_complete and not (field.metadata or {}).get(ANYTHING, False),
                ),
            )
            for field in type_.fields
        ]
        return Struct(arrow, children, name, nullable=nullable, is_complete=is_complete)
    if isinstance(type_, spark.ArrayType):
        element = column_for(type_.elementType, nullable=type_.containsNull, is_complete=is_complete)
        return Array(arrow, element, name, nullable=nullable)
    if isinstance(type_, spark.MapType):
        if not isinstance(type_.keyType, spark.StringType):
            raise InvalidOption(f"the keys of a map are strings, not {type_.keyType.simpleString()}")
        value = column_for(type_.valueType, nullable=type_.valueContainsNull, is_complete=is_complete)
        return MapColumn(arrow, value, name, nullable=nullable)
    if isinstance(type_, spark.StringType):
        return Text(arrow, name, nullable=nullable, is_strict=is_complete)
    if isinstance(type_, spark.VariantType):
        return Variant(arrow, name, nullable=nullable)
    if isinstance(type_, spark.DecimalType):
        return DecimalColumn(arrow, (Decimal, int), name, nullable=nullable)
    if isinstance(type_, spark.FloatType):
        return Float(arrow, (float, int), name, nullable=nullable)
    if isinstance(type_, spark.NullType):
        return Void(arrow, name)
    for kind, taken in SCALARS:
        if isinstance(type_, kind):
            return Scalar(arrow, taken, name, nullable=nullable)
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
