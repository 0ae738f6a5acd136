"""Spark looks for packages named `pyspark_*` and takes their `DefaultSource`: so the format `reactdb` is known without registering."""

from reactdb.spark.source import ReactdbSource as DefaultSource

__all__ = ["DefaultSource"]
