"""A process that merges a stream of flights into two tables, and is killed.

    python -m tests.spark.killed_recipe FILE FOLDER MOMENT

`MOMENT` is `between` (the second batch is in the Delta table, and not yet in the Iceberg table), `after` (it is in both, and
Spark does not know it yet), or `never`.

Rule of this file: it kills itself, so that the moment is the same each time.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.spark import lake_recipes as recipes


def run(spark: Any, file: str, folder: Path, moment: str) -> None:
    """All changes in batches of 8,000, until the file's end or the kill."""
    delta = recipes.merge_with_delta_rs(str(folder / "delta"))
    iceberg = recipes.merge_with_pyiceberg(str(folder))

    def die(at: str, number: int) -> None:
        if number == 1 and moment == at:
            # The JVM is in this group: both end at once.
            os.killpg(os.getpgid(0), signal.SIGKILL)

    def merge(batch: Any, number: int) -> None:
        batch.persist()
        delta(batch, number)
        die("between", number)
        iceberg(batch, number)
        die("after", number)
        batch.unpersist()

    rows = recipes.changes(spark, file, 8_000)
    query = rows.writeStream.foreachBatch(merge).option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()


def main(file: str, folder: str, moment: str) -> None:
    from reactdb.spark import environment
    from tests.spark_kills.child import QUICK

    config = {**QUICK, "spark.driver.memory": "600m", "spark.driver.bindAddress": "127.0.0.1"}
    config |= {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
    with environment.session("killed recipe", master="local[2]", config=config) as spark:
        run(spark, file, Path(folder), moment)


if __name__ == "__main__":
    main(*sys.argv[1:])
