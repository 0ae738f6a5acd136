"""Spark's types, and Arrow's for them: `reactdb.arrow` infers types and makes arrays, and here is the difference.

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
    TIME                time; inferred as STRING, because Spark before 4.1 has no TIME
    STRUCT              dict; a missing field becomes null
    MAP<STRING, ...>    dict
    ARRAY               list
    VARIANT             everything, see `reactdb.arrow.variant`; inferred for a conflict

Rule of this file: type to type. It sees no value.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from reactdb.arrow.arrays import Column
from reactdb.arrow.documents import DocumentColumn
from reactdb.arrow.inference import ANYTHING, CONFLICT, OTHER_MARK, TypeInference, make_field
from reactdb.arrow.types import ColumnRules, column_of
from reactdb.arrow.variant import VARIANT, is_variant
from reactdb.errors import InvalidOption
from reactdb.spark.options import Options

# The form of documents in one piece -> the type of their column.
WHOLE_TYPES: dict[str, spark.DataType] = {
    "json": spark.StringType(),
    "variant": spark.VariantType(),
    "binary": spark.BinaryType(),
}
# Arrow type -> Spark type, where neither has parts.
SIMPLE: dict[Any, spark.DataType] = {
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
    pa.timestamp("us", "UTC"): spark.TimestampType(),
    pa.timestamp("us"): spark.TimestampNTZType(),
    pa.duration("us"): spark.DayTimeIntervalType(),
    pa.time64("us"): spark.StringType(),
    pa.time64("ns"): spark.TimeType(),
    pa.null(): spark.NullType(),
}


def arrow_type(type_: spark.DataType) -> Any:
    """The Arrow type of a Spark type, with the marks of inference in its fields.

    Raises:
        InvalidOption: Arrow has none.
    """
    if isinstance(type_, spark.StructType):
        return pa.struct(
            [
                make_field(field.name, arrow_type(field.dataType), marks_of(field)).with_nullable(
                    field.nullable
                )
                for field in type_.fields
            ]
        )
    if isinstance(type_, spark.ArrayType):
        return pa.list_(pa.field("element", arrow_type(type_.elementType), type_.containsNull))
    if isinstance(type_, spark.MapType):
        value = pa.field("value", arrow_type(type_.valueType), type_.valueContainsNull)
        return pa.map_(arrow_type(type_.keyType), value)
    if isinstance(type_, spark.VariantType):
        return VARIANT
    try:
        return to_arrow_type(type_, timezone="UTC")
    except TypeError:
        raise InvalidOption(f"no value of a document is of type {type_.simpleString()}") from None


def marks_of(field: spark.StructField) -> dict[str, Any]:
    """The marks that inference has left in the metadata of a field."""
    return {
        mark: value
        for mark, value in (field.metadata or {}).items()
        if mark in (ANYTHING, CONFLICT, OTHER_MARK)
    }


def spark_type(type_: Any) -> spark.DataType:
    """The Spark type of an Arrow type that was inferred, or came from `arrow_type`."""
    if is_variant(type_):
        return spark.VariantType()
    if kinds.is_struct(type_):
        return spark.StructType(list(map(spark_field, type_)))
    if kinds.is_list(type_):
        return spark.ArrayType(spark_type(type_.value_type), type_.value_field.nullable)
    if kinds.is_map(type_):
        value = spark_type(type_.item_type)
        return spark.MapType(spark_type(type_.key_type), value, type_.item_field.nullable)
    if kinds.is_decimal(type_):
        return spark.DecimalType(type_.precision, type_.scale)
    return SIMPLE[type_]


def spark_field(field: Any) -> spark.StructField:
    """The field of a struct. Its mark ANYTHING is True in Spark's metadata."""
    marks = {mark.decode(): text.decode() for mark, text in (field.metadata or {}).items()}
    metadata: dict[str, Any] = marks | ({ANYTHING: True} if ANYTHING in marks else {})
    return spark.StructField(field.name, spark_type(field.type), field.nullable, metadata)


def column_for(type_: spark.DataType, *, nullable: bool = True, is_complete: bool = False) -> Column:
    """The column of a Spark type.

    Args:
        is_complete: The type was inferred, so fields that it lacks do not fit.

    Raises:
        InvalidOption: No value of a document has this type.
    """
    # Only a sample was looked at, so a field without values in it takes anything.
    rules = ColumnRules(
        is_complete=is_complete, takes_guesses=True, name_of=lambda arrow: spark_type(arrow).simpleString()
    )
    return column_of(arrow_type(type_), rules, nullable=nullable)


def document_column(
    name: str, type_: spark.DataType, mode: str, *, is_complete: bool = False
) -> DocumentColumn:
    """A column of documents: see `DocumentColumn` and `column_for`."""
    return DocumentColumn(name, column_for(type_, is_complete=is_complete), mode)


def document_columns(
    schema: spark.StructType, options: Options, mode: str, others: AbstractSet[str], *, is_complete: bool
) -> DocumentColumn:
    """All columns of a read that come from its documents: a column per field, or the single column `document`.

    Args:
        others: The names of columns with another source.

    Raises:
        InvalidOption: Documents are read in one piece, and the schema has another column.
    """
    fields = [field for field in schema.fields if field.name not in others]
    type_: spark.DataType = spark.StructType(fields)
    if options.form != "struct":
        unknown = [field.name for field in fields if field.name != "document"]
        if unknown:
            raise InvalidOption(
                f"with option document={options.form} there is no column {unknown[0]}: there are key and document"
            )
        type_ = fields[0].dataType if fields else type_
    return document_column("", type_, mode, is_complete=is_complete)


def infer_documents() -> TypeInference:
    """Inference that reads fields in conflict as VARIANT."""
    return TypeInference(VARIANT)


def scalar_type(values: Iterable[Any]) -> spark.DataType:
    """The type for these values, keys for example; STRING if they have no common type."""
    inference = TypeInference()
    inference.add({"value": value} for value in values)
    fields = inference.fields()
    return spark_type(fields[0].type) if fields else spark.StringType()


def arrow_schema(schema: spark.StructType) -> Any:
    """The exact Arrow schema that Spark expects of batches with this schema."""
    return to_arrow_schema(schema, timezone="UTC")


def check_type(field: spark.StructField, kind: type[spark.DataType]) -> None:
    if not isinstance(field.dataType, kind):
        raise InvalidOption(
            f"column {field.name} is {kind().simpleString()}, not {field.dataType.simpleString()}"
        )
