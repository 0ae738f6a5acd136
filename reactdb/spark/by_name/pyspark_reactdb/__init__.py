"""Spark takes the `DefaultSource` of packages named `pyspark_*`, so the format `reactdb` is known without registering."""

from reactdb.spark.source import ReactdbSource as DefaultSource

__all__ = ["DefaultSource"]
