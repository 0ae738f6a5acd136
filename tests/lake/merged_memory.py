"""How much memory a merge takes: `python -m tests.lake.merged_memory delta FOLDER`.

It makes a table of 200,000 rows with texts of 1,000 characters, merges changes of 2,000 rows from all parts of the table, and
looks some up. It prints the peak of the memory before and after, in MB.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pyarrow as pa

from tests.lake.killed_runs import make
from tests.lake.target_suite import note

ROWS, EACH = 200_000, 2_000
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def batches() -> Iterator[pa.RecordBatch]:
    for at in range(0, ROWS, EACH):
        texts = [os.urandom(500).hex() for _ in range(EACH)]
        yield pa.record_batch([pa.array(range(at, at + EACH)), pa.array(texts)], schema=SCHEMA)


def peak_mb() -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return int(file.read().split("VmHWM:")[1].split()[0]) // 1024


def main(kind: str, folder: str) -> None:
    target = make(kind, folder)
    small = pa.table({"id": [0], "text": ["x"]}, schema=SCHEMA)
    warm = make(kind, f"{folder}-warm")
    with warm.lock():
        warm.create(SCHEMA, iter(small.to_batches()), note(1))
        warm.merge(small, small.select(["id"]).slice(1), ["id"], note(2))
    print(peak_mb())
    with target.lock():
        target.create(SCHEMA, batches(), note(1))
        ids = list(range(0, ROWS, ROWS // EACH))
        changed = pa.table({"id": ids, "text": ["new"] * len(ids)}, schema=SCHEMA)
        target.merge(changed, pa.table({"id": [1, 2, 3]}), ["id"], note(2))
        found = target.lookup(pa.table({"id": [0, 1, ROWS // 2, ROWS - 1]}), False)
        assert [0, ROWS // 2, ROWS - 1] == sorted(found.column("id").to_pylist())
        assert ROWS - 3 == sum(batch.num_rows for batch in target.scan())
    print(peak_mb())


if __name__ == "__main__":
    main(*sys.argv[1:])
