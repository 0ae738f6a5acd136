"""Spark: reactdb's files as a data source of PySpark.

    import reactdb.spark

    with reactdb.spark.session("report") as spark:
        games = spark.read.format("reactdb").option("table", "games").load("arena.db")

Spark's calls and the options:

    source                             the data source; it hands each call to one of the modules below
    environment, shipping              Spark's requirements; the package for its workers
    options                            the options of a read and of a write as values

Reading:

    plan                               the ranges of files to read, the state of a DataFrame
    types, schema                      Spark's types and Arrow's; the columns of a read
    batches                            ranges of files as Arrow batches
    positions, stream                  the position of a stream; streaming

Writing:

    row_documents                      from rows to documents
    staging, write                     the tasks' documents until the commit; the commit

From the log to Parquet:

    queries, pipelines                 queries of change rows; the pipelines

Rule of this package: it reads files through the store, and imports no feeds. `import reactdb.spark` does not import pyspark, so
that `check` can say what is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactdb.spark.environment import check, session, set_interpreter, use_interpreter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check", "register", "session", "set_interpreter"]


def register(spark: SparkSession) -> None:
    """Make the format `reactdb` known to a session. Doing it twice does nothing.

    A session finds the format by itself if it can import the package `pyspark_reactdb`, a part of reactdb.

    Raises:
        SparkUnavailable: pyspark or pyarrow is missing or too old.
    """
    check(with_java=False)
    from reactdb.spark.source import ReactdbSource

    use_interpreter(spark)
    spark.dataSource.register(ReactdbSource)
