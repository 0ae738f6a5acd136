"""Inference with Spark's types: see `reactdb.arrow.inference` for the rules.

    seen                              type
    --------------------------------  -----------------------------------------------------------------------------------
    int                               BIGINT; beyond 64 bits DECIMAL(38, 0)
    time                              STRING, as Spark before 4.1 has no TIME
    timedelta                         INTERVAL DAY TO SECOND
    a conflict                        VARIANT, or STRING with option conflicts=string

Rule of this file: it names types, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import types as spark

from reactdb.arrow.inference import TypeFamily, TypeInference, simple_types

TEXT, DOUBLE = spark.StringType(), spark.DoubleType()
TYPES = TypeFamily(
    simple_types(
        boolean=spark.BooleanType(),
        double=DOUBLE,
        text=TEXT,
        binary=spark.BinaryType(),
        day=spark.DateType(),
        moment=spark.TimestampType(),
        interval=spark.DayTimeIntervalType(),
        clock=TEXT,
    ),
    TEXT,
    spark.LongType(),
    DOUBLE,
    spark.DecimalType,
    spark.ArrayType,
    spark.StructType,
    lambda name, type_, metadata: spark.StructField(name, type_, True, metadata),
)


class Inference(TypeInference):
    """Collects the documents of a sample and infers their Spark schema. `conflict_type`: None for VARIANT."""

    def __init__(self, conflict_type: spark.DataType | None = None) -> None:
        super().__init__(TYPES, spark.VariantType() if conflict_type is None else conflict_type)


def scalar_type(values: Iterable[Any]) -> spark.DataType:
    """The type for these values, keys for example; STRING if they have no common type."""
    inference = Inference(TEXT)
    inference.add({"value": value} for value in values)
    fields = inference.fields()
    type_: spark.DataType = fields[0].dataType if fields else TEXT
    return type_
