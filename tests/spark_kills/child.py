"""The process that is killed: `python -m tests.spark_kills.child SOURCE FOLDER CHANGES QUERIES [now]`.

Prints `started` when its queries run. With `now` it ends when everything that was there has been read.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from reactdb.spark import environment

# A kill while the first offset is written leaves a file beside it, for which Spark refuses to begin again. No batch has begun
# then, so there is nothing that could come twice.
BEGINS_AGAIN = {"spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false"}
DOCUMENT = "struct<id:long,n:long,text:string>"
SCHEMA = f"seq long, table string, key long, op string, old {DOCUMENT}, new {DOCUMENT}"

# For small queries in a process that does not live for long: code is compiled quickly rather than well, and plans are interpreted
# rather than made into classes. What they answer is the same.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss2m",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def reading(spark: Any, source: str, changes: int) -> Any:
    return (
        spark.readStream.format("reactdb")
        .option("read", "changes")
        .option("maxChangesPerTrigger", changes)
        .schema(SCHEMA)
        .load(source)
    )


def writer(name: str, rows: Any, folder: Path) -> tuple[Any, Path]:
    """What writes, and where to."""
    if name == "parquet":
        return rows.writeStream.format("parquet"), folder / "parquet"
    if name == "log":
        made = rows.writeStream.format("reactdb").option("primaryKey", "seq")
    else:
        documents = rows.selectExpr("key AS id", "new.n AS n", "new.text AS text", "op = 'delete' AS gone")
        made = (
            documents.writeStream.format("reactdb")
            .option("conflict", "replace")
            .option("deleteField", "gone")
        )
    return made.option("table", name).option("busyTimeout", 60), folder / "sink.db"


def start(
    spark: Any, source: str, folder: Path, changes: int, names: str, *, until_now: bool = False
) -> list[Any]:
    """The queries of these names, as they run; until they have read what is there now, or for ever."""
    running = []
    for name in names.split(","):
        made, sink = writer(name, reading(spark, source, changes), folder)
        made = made.option("checkpointLocation", str(folder / f"{name}.checkpoint"))
        if until_now:
            made = made.trigger(availableNow=True)
        running.append(made.start(str(sink)))
    return running


def main(source: str, folder: str, changes: str, names: str, *more: str) -> None:
    config = {
        **QUICK,
        **BEGINS_AGAIN,
        "spark.driver.memory": "600m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.minBatchesToRetain": "5",
    }
    with environment.session("killed", master="local[2]", config=config) as spark:
        running = start(spark, source, Path(folder), int(changes), names, until_now="now" in more)
        print("started", flush=True)
        for query in running:
            try:
                query.awaitTermination()
            except Exception as error:
                print(f"failed: {str(error)[:3_000]}", flush=True)
                os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
