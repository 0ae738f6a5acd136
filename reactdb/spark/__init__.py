"""Spark: reactdb's files as a data source of PySpark.

    import reactdb.spark

    with reactdb.spark.session("report") as spark:
        games = spark.read.format("reactdb").option("table", "games").load("arena.db")

Rule of this package: it stands on the store's read side and never on feeds; importing it imports nothing of pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactdb.spark.environment import check, session, set_interpreter, use_interpreter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check", "register", "session", "set_interpreter"]


def register(spark: SparkSession) -> None:
    """Make the format `reactdb` known to a session. Doing it twice does nothing.

    A session finds the format by itself if it can import the package `pyspark_reactdb`, which comes with reactdb.

    Raises:
        SparkUnavailable: pyspark or pyarrow is missing or too old.
    """
    check(with_java=False)
    from reactdb.spark.source import ReactdbSource

    use_interpreter(spark)
    spark.dataSource.register(ReactdbSource)
