"""Change rows for the pipelines: the rows of the data source, with columns for comparisons between runs and files.

They add three things to a plain read: the column `database`, the id of the database, which stays when its file moves; the column
`key_bytes`, which distinguishes the key 1 from the key "1"; and, for a compacted log, rows with the `op` `read`. These are the
documents as of the log's beginning, because later changes alone do not give the current state.

The same rows can also come from a folder that `append_changes` wrote.

Rule of this file: it makes plans. Nothing is read until the DataFrame is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as spark

from reactdb.errors import InvalidOption, UsageError, format_value
from reactdb.lake.parts import DatabasePosition, Extent, Manifest, PartFolder
from reactdb.lake.reach import Reach, read_reaches, unread
from reactdb.spark import register
from reactdb.spark.options import FORMS, parse
from reactdb.spark.schema import FORMS as TYPES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

EXPORT = "changes"
FIXED = (
    "seq long, table string, key string, key_bytes binary, op string, ts timestamp, commit long, origin string,"
    " _source string"
)
ORDER = (
    "database",
    "seq",
    "table",
    "key",
    "key_bytes",
    "op",
    "ts",
    "commit",
    "origin",
    "old",
    "new",
    "_source",
)
READ = "read"
# Spark is slow to make a plan with more literals.
MOST_LITERALS = 32


@dataclass(frozen=True, slots=True)
class Documents:
    """The form of the documents to read.

    Attributes:
        form: `json` (text), `variant`, `binary` (not decoded), or `struct`.
        schema: The fields of a struct, as "id string, score long"; other fields are left out. None: inferred, and then a misfit
            document is an error.
    """

    form: str = "json"
    schema: str | None = None

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise InvalidOption(f"document is one of {', '.join(FORMS)}, not {format_value(self.form)}")
        if self.schema is not None and self.form != "struct":
            raise InvalidOption(f"a schema is for documents as struct, not as {self.form}")


@dataclass(frozen=True, slots=True)
class PipelineSource:
    """The source of a pipeline: database files, or a folder of changes from such files.

    Attributes:
        options: The options of the data source, with the paths.
        table: The only table to read; None: all.
        reaches: The present files; empty for a folder.
        export: The newest manifest of the folder.
        folder: The path of the folder.
    """

    options: dict[str, str]
    table: str | None
    reaches: list[Reach]
    export: Manifest | None = None
    folder: str = ""

    @property
    def positions(self) -> dict[str, DatabasePosition]:
        """How far each database can be read now."""
        if self.export is not None:
            return self.export.positions
        return {reach.database: reach.position for reach in self.reaches}


def source_of(
    source: str | Sequence[str], table: str | None = None, options: Mapping[str, str] | None = None
) -> PipelineSource:
    """Inspect files, or a folder of `append_changes`.

    Raises:
        UsageError: The folder has another table's changes. Also the errors of `reach.read_reaches`.
    """
    if isinstance(source, str) and os.path.isdir(source):
        folder = PartFolder(source, EXPORT)
        if folder.numbers():
            manifest = folder.newest()
            assert manifest is not None
            held = manifest.settings["table"]
            if held not in (None, table):
                raise UsageError(f"{source} holds the changes of table `{held}` alone: name it")
            return PipelineSource({}, table, [], manifest, folder.path)
    parsed_options = options_of(source, options)
    return PipelineSource(parsed_options, table, read_reaches(parse(parsed_options).files, table))


def options_of(source: str | Sequence[str], options: Mapping[str, str] | None = None) -> dict[str, str]:
    """The data source's options for these paths: files, folders, globs, or a list of them."""
    paths = [source] if isinstance(source, str) else list(source)
    return {**(options or {}), "paths": json.dumps(paths)}


def ranges(extents: Iterable[Extent]) -> str:
    """Extents as the data source's option `ranges`."""
    return json.dumps({extent.path: [extent.since, extent.until] for extent in extents})


def all_rows(
    spark_: SparkSession, source: PipelineSource, documents: Documents | None, *, with_base: bool = True
) -> DataFrame:
    """All change rows of the tables that still exist.

    Args:
        documents: None leaves out `old` and `new`, which saves most of the work. The documents of a folder keep their form.
        with_base: Include the rows with the `op` `read`.
    """
    if source.export is not None:
        rows = read_export(spark_, source)
        if documents is None:
            rows = rows.drop("old", "new")
    else:
        rows = rows_of(
            spark_, source, [unread(reach, None) for reach in source.reaches], documents,
            source.reaches if with_base else [],
        )  # fmt: skip
    return of_live_tables(spark_, rows, source.positions)


def rows_of(
    spark_: SparkSession,
    source: PipelineSource,
    extents: Iterable[Extent],
    documents: Documents | None,
    base: Iterable[Reach],
    type_: spark.DataType | None = None,
) -> DataFrame:
    """The change rows of these ranges, and the first documents of the logs of `base`.

    Args:
        type_: The type of a document, if it is already known.
    """
    filled = [extent for extent in extents if extent.since < extent.until]
    if documents is not None and type_ is None:
        type_ = type_of(spark_, source, documents)
    databases = {(reach.path,): reach.database for reach in source.reaches}
    parts = []
    if filled:
        read = reader(spark_, source, documents).option("read", "changes").option("ranges", ranges(filled))
        if source.table is not None:
            read = read.option("table", source.table)
        parts.append(read.schema(change_schema(type_)).load())
    for table, oldest in bases(base, source.table).items():
        parts.append(_base_rows(spark_, source, table, oldest, type_))
    if not parts:
        schema = change_schema(type_).add("database", "string")
        return spark_.createDataFrame(
            [], spark.StructType([schema[name] for name in ORDER if name in schema.names])
        )
    rows = reduce(lambda one, other: one.unionByName(other), parts)
    rows = with_value(spark_, rows, ["_source"], databases, "database", "string")
    return rows.select(*[name for name in ORDER if name in rows.columns])


def reader(spark_: SparkSession, source: PipelineSource, documents: Documents | None) -> DataFrameReader:
    """A read of the data source with the user's options."""
    register(spark_)
    own = {name: value for name, value in source.options.items() if name != "paths"}
    strict = documents is not None and documents.form == "struct" and documents.schema is None
    return (
        spark_.read.format("reactdb")
        .options(**own)
        .option("strictFields", str(strict).lower())
        .option("mode", "FAILFAST")
    )


def type_of(spark_: SparkSession, source: PipelineSource, documents: Documents) -> spark.DataType:
    """The type of a document in this form, inferred from a sample if no schema was given."""
    if documents.form != "struct":
        return TYPES[documents.form]
    if documents.schema is not None:
        return struct_of(documents.schema)
    register(spark_)
    read = spark_.read.format("reactdb").options(**source.options).option("read", "changes")
    if source.table is not None:
        read = read.option("table", source.table)
    return read.load().schema["new"].dataType


def struct_of(text: str) -> spark.StructType:
    """A schema such as "id string, score long".

    Raises:
        InvalidOption.
    """
    from pyspark.errors import PySparkException

    try:
        return parse_schema(text)
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidOption(f"not a schema such as 'id string, score long': {first}") from None


def parse_schema(text: str) -> spark.StructType:
    """A schema in Spark's notation. Raises: PySparkException."""
    schema = spark.StructType.fromDDL(text)
    assert isinstance(schema, spark.StructType)
    return schema


def change_schema(type_: spark.DataType | None) -> spark.StructType:
    """The schema of a read of changes, without documents if `type_` is None."""
    schema = parse_schema(FIXED)
    return schema if type_ is None else schema.add("old", type_).add("new", type_)


def bases(reaches: Iterable[Reach], table: str | None) -> dict[str, list[Reach]]:
    """Table -> the files whose log begins after the creation of the table."""
    late: dict[str, list[Reach]] = {}
    for reach in reaches:
        for name, created in reach.position.tables.items():
            if reach.oldest and created <= reach.oldest and table in (None, name):
                late.setdefault(name, []).append(reach)
    return late


def _base_rows(
    spark_: SparkSession,
    source: PipelineSource,
    table: str,
    reaches: Sequence[Reach],
    type_: spark.DataType | None,
) -> DataFrame:
    at = ranges(Extent(each.database, each.path, "", each.oldest, each.oldest) for each in reaches)
    schema = parse_schema("key string, key_bytes binary, _source string")
    if type_ is not None:
        schema = schema.add("document", type_)
    # The document is one column: `document` gives its form, the schema its type.
    read = reader(spark_, source, None).option(
        "strictFields", str(isinstance(type_, spark.StructType)).lower()
    )
    rows = read.option("ranges", at).option("table", table).option("document", "json").schema(schema).load()
    oldest = {(each.path,): each.oldest for each in reaches}
    rows = with_value(spark_, rows, ["_source"], oldest, "seq", "long").select(
        "*",
        F.lit(table).alias("table"),
        F.lit(READ).alias("op"),
        F.lit(None).cast("timestamp").alias("ts"),
        F.col("seq").alias("commit"),
        F.lit(None).cast("string").alias("origin"),
    )
    if type_ is None:
        return rows
    return rows.withColumn("old", F.lit(None).cast(type_)).withColumnRenamed("document", "new")


def read_export(spark_: SparkSession, source: PipelineSource) -> DataFrame:
    """The rows of a folder of `append_changes`."""
    assert source.export is not None
    # The newest manifest's schema has every field; for older files, new fields are null.
    schema = spark.StructType.fromJson(source.export.schema)
    folder = PartFolder(source.folder, EXPORT)
    # The parts are listed by name, because a part that is committed meanwhile belongs to the next run.
    paths = [folder.folder_of(number) for number in folder.numbers() if number <= source.export.number]
    rows = spark_.read.schema(schema).parquet(*paths)
    return rows if source.table is None else rows.where(F.col("table") == source.table)


def of_live_tables(spark_: SparkSession, rows: DataFrame, at: Mapping[str, DatabasePosition]) -> DataFrame:
    """The rows without those of dropped tables, also if a new table has the same name."""
    made = {(database, table): seq for database, each in at.items() for table, seq in each.tables.items()}
    known = with_value(spark_, rows, ["database", "table"], made, "created", "long")
    return known.where(f"seq > created OR (op = '{READ}' AND created IS NOT NULL)").drop("created")


def since(spark_: SparkSession, rows: DataFrame, at: Mapping[str, DatabasePosition]) -> DataFrame:
    """The rows past these positions; all rows of a database without a position."""
    seqs = {(database,): each.seq for database, each in at.items()}
    known = with_value(spark_, rows, ["database"], seqs, "since", "long")
    return known.where("since IS NULL OR seq > since").drop("since")


def with_value(
    spark_: SparkSession,
    rows: DataFrame,
    keys: Sequence[str],
    values: Mapping[Any, str] | Mapping[Any, int],
    name: str,
    type_: str,
) -> DataFrame:
    """The rows with a further column: from `values`, by the tuple of each row's keys, or null.

    A few values become literals of the plan, which Spark can optimise; many values are joined.
    """
    if len(values) <= MOST_LITERALS:
        literal = F.lit(None)
        for key, value in values.items():
            same = [F.col(column) == part for column, part in zip(keys, key, strict=True)]
            literal = F.when(reduce(lambda one, other: one & other, same), F.lit(value)).otherwise(literal)
        return rows.withColumn(name, literal.cast(type_))
    columns = ", ".join(f"{key} string" for key in keys) + f", {name} {type_}"
    table = spark_.createDataFrame([(*key, value) for key, value in values.items()], columns)
    return rows.join(F.broadcast(table), list(keys), "left").select(*rows.columns, name)
