"""The program of the cluster test, in a process of its own: `python -m tests.spark.on_cluster MASTER FILE OUT`.

It prints one JSON object: where executors ran and found the package, and the results of the reads and the pipelines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from reactdb.cli.sparkrun import run_session
from reactdb.lake import export
from reactdb.spark import pipelines


def where(_: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """The executor's folder, and where it has reactdb from."""
    import os

    import reactdb

    yield os.getcwd(), str(reactdb.__file__)


def main(master: str, file: str, out: str) -> None:
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    # Ships the package, as the commands do.
    with run_session(master, settings, f"{out}/driver.log") as spark:
        places = spark.sparkContext.range(0, 200, numSlices=16).mapPartitions(where).collect()
        reader = spark.read.format("reactdb").option("partitionBytes", "256k")
        found = {
            "folders": sorted({folder for folder, _ in places}),
            "packages": sorted({package for _, package in places}),
            "documents": reader.option("table", "flights").load(file).count(),
            "snapshot": export(file, "flights", parquet=f"{out}/snapshot", at="now").rows,
            "changes": export(file, parquet=f"{out}/changes", mode="changes").rows,
            "history": pipelines.write_history(spark, f"{out}/changes", f"{out}/history").rows,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
