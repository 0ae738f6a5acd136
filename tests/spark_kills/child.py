"""The process that is killed: `python -m tests.spark_kills.child SOURCE FOLDER CHANGES [now]`.

Prints `started` when its queries run. With `now` it ends when everything that was there has been read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from reactdb.spark import environment

DOCUMENT = "struct<id:long,n:long,text:string>"
SCHEMA = f"seq long, table string, key long, op string, old {DOCUMENT}, new {DOCUMENT}"

# Compiled quickly rather than well: the process does not live for long.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss2m"


def queries(spark: Any, source: str, folder: Path, changes: int, *, is_bounded: bool) -> list[Any]:
    """The three of them, running."""

    def reading() -> Any:
        return (
            spark.readStream.format("reactdb")
            .option("read", "changes")
            .option("maxChangesPerTrigger", changes)
            .schema(SCHEMA)
            .load(source)
        )

    def writing(rows: Any, name: str, format_: str) -> Any:
        writer = rows.writeStream.format(format_).option(
            "checkpointLocation", str(folder / f"{name}.checkpoint")
        )
        return writer.trigger(availableNow=True) if is_bounded else writer

    sink = str(folder / "sink.db")
    replica = reading().selectExpr("key AS id", "new.n AS n", "new.text AS text", "op = 'delete' AS gone")
    return [
        writing(reading(), "parquet", "parquet").start(str(folder / "parquet")),
        writing(reading(), "log", "reactdb")
        .option("table", "log")
        .option("primaryKey", "seq")
        .option("nulls", "keep")
        # Small enough to stage files.
        .option("inlineBytes", 500)
        .option("busyTimeout", 60)
        .start(sink),
        writing(replica, "replica", "reactdb")
        .option("table", "replica")
        .option("conflict", "replace")
        .option("deleteField", "gone")
        .option("busyTimeout", 60)
        .start(sink),
    ]


def main(source: str, folder: str, changes: str, *more: str) -> None:
    config = {
        "spark.driver.extraJavaOptions": JAVA,
        "spark.driver.memory": "600m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.minBatchesToRetain": "5",
    }
    with environment.session("killed", master="local[2]", config=config) as spark:
        running = queries(spark, source, Path(folder), int(changes), is_bounded="now" in more)
        print("started", flush=True)
        for query in running:
            query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
