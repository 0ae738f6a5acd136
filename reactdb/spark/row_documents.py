"""From rows to documents: the columns of an Arrow batch, or its column of whole documents, as dicts to store.

Spark does not distinguish a missing field from null. A document does, so one of the two is chosen: a null field of a row or of a
struct is left out. In an array a null keeps its place, in a map it keeps its key, and in a whole document all nulls stay.

A whole document is JSON text, a VARIANT or the bytes of a stored document. Bytes are decoded and encoded again, so that
everything is checked before it is stored; the bytes of reactdb's own documents do not change.

Rule of this file: no value changes on the way. A type that documents lack is refused when the plan is made; a value that is no
document, or does not fit into one (a year past 9999), is refused in its row.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from json import JSONDecoder
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark_types

from reactdb.arrow.rows import (
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
from reactdb.json import finite_float, refuse_constant
from reactdb.spark.types import WHOLE_TYPES
from reactdb.values import codec

if TYPE_CHECKING:
    import pyarrow as pa


PLAIN_TYPES = (
    spark_types.NullType,
    spark_types.BooleanType,
    spark_types.NumericType,
    spark_types.StringType,
    spark_types.BinaryType,
    spark_types.DateType,
    spark_types.DayTimeIntervalType,
)

ADVICE = {
    spark_types.TimestampNTZType: "it names no moment: cast it to TIMESTAMP, or to STRING",
    spark_types.YearMonthIntervalType: "it has no fixed length: cast it to INT, or to STRING",
    spark_types.CalendarIntervalType: "it has no fixed length: cast it to STRING",
}

# The usual name of the column of whole documents, and the columns beside it that a write does not need.
USUAL = "document"
BESIDE = frozenset({USUAL, "key", "key_bytes", "_source"})


class RowDocuments:
    """Makes documents of rows, with their columns as fields. Each task creates one.

    Raises:
        InvalidOption: A column has a type that documents lack, or two have the same name.
    """

    def __init__(self, schema: spark_types.StructType) -> None:
        self._names = check_names(list(schema.names), "the rows")
        self._values = [values_of(field.dataType, field.name) for field in schema.fields]

    def documents(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        """The rows of a batch of at most `ROWS_AT_ONCE`."""
        columns = [values(column) for values, column in zip(self._values, batch.columns, strict=True)]
        return dicts(self._names, columns, batch.num_rows, False)


def values_of(data_type: spark_types.DataType, place: str) -> Values:
    """The function that turns an Arrow column of this type into a list of Python values. `place` is for the error.

    Raises:
        InvalidOption: Documents have no values of this type.
    """
    if isinstance(data_type, spark_types.StructType):
        names = check_names(list(data_type.names), f"the structs of column {place}")
        makers = [values_of(field.dataType, f"{place}.{field.name}") for field in data_type.fields]
        return structs_of(names, makers, False)
    if isinstance(data_type, spark_types.ArrayType):
        return lists_of(values_of(data_type.elementType, f"{place}[]"))
    if isinstance(data_type, spark_types.MapType):
        if not isinstance(data_type.keyType, spark_types.StringType):
            raise InvalidOption(
                f"column {place} is a map with keys of type {data_type.keyType.simpleString()}; a document has keys of text: "
                "cast them to STRING, or make it an array of structs"
            )
        return maps_of(values_of(data_type.valueType, f"{place}{{}}"))
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


def variants(column: pa.Array) -> list[Any]:
    return [None if parts is None else variant_value(parts) for parts in column.to_pylist()]


def variant_value(parts: Any) -> Any:
    """The value of a VARIANT, which arrives as its two parts."""
    return aware(spark_types.VariantVal(parts["value"], parts["metadata"]).toPython())


def aware(value: Any) -> Any:
    """The value with all datetimes in UTC."""
    if isinstance(value, dict):
        return {name: aware(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [aware(inner) for inner in value]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value


# ---------------------------------------------------------------------------------------------------------------
# Whole documents


class WholeDocuments:
    """Makes documents of a column of whole documents. Each task creates one.

    Args:
        form: One of `WHOLE_TYPES`.
        delete_field: A further boolean column. It becomes a field of each document, which the caller removes again.

    Raises:
        InvalidOption: There is no column of documents, there are several, or it has another type.
    """

    def __init__(self, schema: spark_types.StructType, form: str, delete_field: str | None = None) -> None:
        self.column = find_column(schema, form, delete_field)
        self._form = form
        self._delete_field = delete_field

    def documents(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        """The rows of a batch of at most `ROWS_AT_ONCE`. Raises: InvalidDocument: One of them is not a document."""
        documents = [self._read(given) for given in batch.column(self.column).to_pylist()]
        if self._delete_field is not None:
            for document, is_deleted in zip(
                documents, batch.column(self._delete_field).to_pylist(), strict=True
            ):
                if self._delete_field in document:
                    raise InvalidDocument(
                        f"column {self.column}: a document has a field {self._delete_field!r} of its own, which is also the "
                        "name of the column that deletes: give that another one"
                    )
                document[self._delete_field] = is_deleted
        return documents

    def _read(self, given: Any) -> dict[str, Any]:
        if given is None:
            raise InvalidDocument(f"column {self.column}: a row has null where a document should be")
        read, what = READERS[self._form]
        try:
            value = read(given)
        except Exception as error:
            # PySpark's reader of VARIANT raises errors of many kinds.
            why = "nested too deep" if isinstance(error, RecursionError) else str(error)
            raise InvalidDocument(
                f"column {self.column}: {format_value(given, 80)} is not {what}: {why:.200}"
            ) from None
        if type(value) is not dict:
            shown = value if self._form == "variant" else given
            raise InvalidDocument(
                f"column {self.column}: a document is an object, not {format_value(shown, 80)}"
            )
        return value


def find_column(schema: spark_types.StructType, form: str, delete_field: str | None) -> str:
    """The name of the column of documents: `document`, or else the only column.

    Raises:
        InvalidOption: There is no such column, there are others, or it is of another type.
    """
    names = [name for name in schema.names if name != delete_field]
    if names.count(USUAL) == 1 and BESIDE.issuperset(names):
        column = USUAL
    elif len(names) == 1:
        (column,) = names
    else:
        raise InvalidOption(
            f"with option document={form} the rows have one column of whole documents, called {USUAL!r} where others that "
            f"reading gives are beside it; these have {', '.join(schema.names)}"
        )
    wanted, found = WHOLE_TYPES[form], schema[column].dataType
    if not isinstance(found, type(wanted)):
        raise InvalidOption(
            f"with option document={form} column {column} is {wanted.simpleString()}, not {found.simpleString()}"
        )
    return column


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {max(names, key=names.count)!r} occurs twice")
    return members


# JSON by RFC 8259, strictly.
json_value = JSONDecoder(
    object_pairs_hook=_object, parse_float=finite_float, parse_constant=refuse_constant
).decode
# The form -> its reader, and its name in errors.
READERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "json": (json_value, "JSON"),
    "variant": (variant_value, "a VARIANT that can be read"),
    "binary": (codec.decode, "the bytes of a document"),
}
