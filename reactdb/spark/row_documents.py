"""From rows to documents: the columns of an Arrow batch as dicts to store.

Spark does not distinguish a missing field from null. A document does, so one of the two is chosen: by default a null field of a
row or of a struct is left out. In an array a null keeps its place, in a map it keeps its key.

Rule of this file: no value changes on the way. A type that documents lack is refused when the plan is made; the few misfit values
of other types (a year past 9999) are refused in their row.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyspark.sql import types as spark_types

from reactdb.arrow.rows import (
    ROWS_AT_ONCE,
    Values,
    check_names,
    dicts,
    lists_of,
    maps_of,
    plain,
    structs_of,
    times,
    timestamps_of,
)
from reactdb.errors import InvalidDocument, InvalidOption, format_value

if TYPE_CHECKING:
    import pyarrow as pa


PLAIN_TYPES = (
    spark_types.NullType,
    spark_types.BooleanType,
    spark_types.ByteType,
    spark_types.ShortType,
    spark_types.IntegerType,
    spark_types.LongType,
    spark_types.FloatType,
    spark_types.DoubleType,
    spark_types.DecimalType,
    spark_types.StringType,
    spark_types.CharType,
    spark_types.VarcharType,
    spark_types.BinaryType,
    spark_types.DateType,
    spark_types.DayTimeIntervalType,
)

ADVICE = {
    spark_types.TimestampNTZType: "it names no moment: cast it to TIMESTAMP, or to STRING",
    spark_types.YearMonthIntervalType: "it has no fixed length: cast it to INT, or to STRING",
    spark_types.CalendarIntervalType: "it has no fixed length: cast it to STRING",
}


class DocumentMaker:
    """Makes documents of the batches of one schema. Each task creates one.

    Args:
        schema: The schema of the rows.
        keeps_nulls: A null field stays in the document as None; otherwise it is left out.
        uuid_fields: Columns of text to store as UUIDs.

    Raises:
        InvalidOption: A column has a type that documents lack, or two have the same name.
    """

    def __init__(
        self, schema: spark_types.StructType, *, keeps_nulls: bool = False, uuid_fields: tuple[str, ...] = ()
    ) -> None:
        self._names = check_names(list(schema.names), "the rows")
        self._keeps_nulls = keeps_nulls
        self._values = [maker_of(field.dataType, field.name, keeps_nulls) for field in schema.fields]
        for name in uuid_fields:
            if name not in self._names or not isinstance(schema[name].dataType, spark_types.StringType):
                raise InvalidOption(f"uuidFields names {name!r}, which is not a text column")
            self._values[self._names.index(name)] = uuids_of(name)

    def documents(self, batch: pa.RecordBatch) -> Iterator[list[dict[str, Any]]]:
        """The rows of a batch as documents, in lists of at most `ROWS_AT_ONCE`."""
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            part = batch.slice(start, ROWS_AT_ONCE)
            columns = [values(column) for values, column in zip(self._values, part.columns, strict=True)]
            yield dicts(self._names, columns, part.num_rows, self._keeps_nulls)


def maker_of(data_type: spark_types.DataType, place: str, keeps_nulls: bool) -> Values:
    """The function that turns an Arrow column of this type into a list of Python values. `place` is for the error.

    Raises:
        InvalidOption: Documents have no values of this type.
    """
    if isinstance(data_type, spark_types.StructType):
        names = check_names(list(data_type.names), f"the structs of column {place}")
        fields = data_type.fields
        return structs_of(
            names,
            [maker_of(field.dataType, f"{place}.{field.name}", keeps_nulls) for field in fields],
            keeps_nulls,
        )
    if isinstance(data_type, spark_types.ArrayType):
        return lists_of(maker_of(data_type.elementType, f"{place}[]", keeps_nulls))
    if isinstance(data_type, spark_types.MapType):
        if not isinstance(data_type.keyType, spark_types.StringType):
            raise InvalidOption(
                f"column {place} is a map with keys of type {data_type.keyType.simpleString()}; a document has keys of text: "
                "cast them to STRING, or make it an array of structs"
            )
        return maps_of(maker_of(data_type.valueType, f"{place}{{}}", keeps_nulls))
    if isinstance(data_type, spark_types.TimestampType):
        return timestamps_of(place)
    if isinstance(data_type, spark_types.TimeType):
        return times
    if isinstance(data_type, spark_types.VariantType):
        return variants
    if isinstance(data_type, PLAIN_TYPES):
        return plain
    advice = ADVICE.get(type(data_type), "documents have no such values: cast it")
    raise InvalidOption(f"column {place} is of type {data_type.simpleString()}: {advice}")


# ---------------------------------------------------------------------------------------------------------------
# Columns by type


def variants(column: pa.Array) -> list[Any]:
    """The values of VARIANTs. Each arrives as its two parts."""
    values = [
        None
        if one is None
        else spark_types.VariantVal(bytes(one["value"]), bytes(one["metadata"])).toPython()
        for one in column.to_pylist()
    ]
    return [aware(value) for value in values]


def aware(value: Any) -> Any:
    """The value with all datetimes in UTC."""
    if isinstance(value, dict):
        return {name: aware(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [aware(inner) for inner in value]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value


def uuids_of(name: str) -> Values:
    def uuids(column: pa.Array) -> list[Any]:
        values: list[Any] = column.to_pylist()
        for place, text in enumerate(values):
            if text is not None:
                try:
                    values[place] = UUID(text)
                except ValueError:
                    raise InvalidDocument(f"column {name}: {format_value(text)} is not a UUID") from None
        return values

    return uuids
