"""The recipes of `docs/how-to/spark-lake.md`, word for word: from Spark's stream of changes to tables of Delta and Iceberg.

Rule of this file: a recipe imports what it uses, and nothing of reactdb, because it is to be copied into a job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DOCUMENT = (
    "state string, carrier string, flight long, origin string, dest string, distance_miles long, scheduled timestamp, "
    "tailnum string, closed timestamp, delay_min long, arrived timestamp, arrival_delay_min long"
)


def changes(spark: Any, path: str, most: int = 20_000) -> Any:
    """A stream of the changes of the table `flights`, in batches of at most so many."""
    stream = spark.readStream.format("reactdb").option("read", "changes").option("table", "flights")
    schema = f"seq long, key string, op string, new struct<{DOCUMENT}>"
    return stream.option("maxChangesPerTrigger", most).schema(schema).load(path)


def newest(batch: Any) -> Any:
    """The last change of each key of a batch: the document's fields, `_seq` and `_op`."""
    from pyspark.sql import functions as f

    last = batch.groupBy("key").agg(f.max_by(f.struct("seq", "op", "new"), "seq").alias("last"))
    return last.selectExpr("key AS id", "last.seq AS _seq", "last.op AS _op", "last.new.*")


MERGE = """
MERGE INTO {target} AS t USING newest AS s ON t.id = s.id
WHEN MATCHED AND s._seq > t._seq AND s._op = 'delete' THEN DELETE
WHEN MATCHED AND s._seq > t._seq THEN UPDATE SET *
WHEN NOT MATCHED AND s._op <> 'delete' THEN INSERT *
"""


def merge_into_delta(batch: Any, number: int) -> None:
    """One batch, in one commit of a Delta table. Delta skips a number that the table has already."""
    spark = batch.sparkSession
    spark.conf.set("spark.databricks.delta.write.txnAppId", "flights of reactdb")
    spark.conf.set("spark.databricks.delta.write.txnVersion", number)
    spark.conf.set("spark.databricks.delta.write.txnVersion.autoReset.enabled", True)
    newest(batch).createOrReplaceTempView("newest")
    spark.sql(MERGE.format(target="flights"))


def merge_into_iceberg(batch: Any, number: int) -> None:
    """One batch, in one commit of an Iceberg table. A repeated batch changes no row, because of `_seq`."""
    newest(batch).createOrReplaceTempView("newest")
    batch.sparkSession.sql(MERGE.format(target="lake.demo.flights"))


def merge_with_delta_rs(path: str) -> Callable[[Any, int], None]:
    """For foreachBatch: one batch, in one commit of the Delta table in this folder, by the driver and without a jar."""
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    def merge(batch: Any, number: int) -> None:
        rows = newest(batch).toArrow()
        receipt = CommitProperties(app_transactions=[Transaction("flights of reactdb", number)])
        if not DeltaTable.is_deltatable(path):
            write_deltalake(path, rows.drop_columns(["_op"]).slice(0, 0))
        table = DeltaTable(path)
        done = table.transaction_version("flights of reactdb")
        if done is None or done < number:
            step = table.merge(rows, "t.id = s.id", "s", "t", commit_properties=receipt)
            step = step.when_matched_delete("s._op = 'delete'").when_matched_update_all(except_cols=["_op"])
            step.when_not_matched_insert_all("s._op <> 'delete'", except_cols=["_op"]).execute()

    return merge


def merge_with_pyiceberg(folder: str) -> Callable[[Any, int], None]:
    """For foreachBatch: one batch, in one commit of an Iceberg table in this folder, by the driver and without a jar."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.expressions import In

    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")

    def merge(batch: Any, number: int) -> None:
        rows = newest(batch).toArrow()
        kept = rows.filter([op != "delete" for op in rows["_op"].to_pylist()]).drop_columns(["_op"])
        catalog.create_namespace_if_not_exists("demo")
        table = catalog.create_table_if_not_exists("demo.flights", kept.schema)
        if int(table.properties.get("reactdb.batch", -1)) < number:
            with table.transaction() as change:
                change.delete(In("id", rows["id"].to_pylist()))
                change.append(kept)
                change.set_properties({"reactdb.batch": str(number)})

    return merge
