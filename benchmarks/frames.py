"""Data frames: a table as a frame of Arrow, pandas and polars, beside the frame that pandas makes of `run()`.

    python -m benchmarks.frames [COUNT]

One process measures the CPU time of all ways in turns, on one file, so compare the ratios and not the seconds. The documents
have eight fields: numbers, texts, a time, a list and a dict.

Question: is it worth having, beside `pandas.DataFrame(table.run())`? Expect a fraction of the time, because no dict is made for a
document, and the columns are made from the bytes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pandas

import reactdb

COUNT = 300_000
ROUNDS = 3
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def make_documents(count: int) -> list[dict[str, Any]]:
    random = Random(1)
    return [
        {
            "id": number,
            "name": f"player {random.randrange(10_000)}",
            "score": random.randrange(1_000),
            "share": random.random(),
            "is_open": random.random() < 0.5,
            "at": BEGIN + timedelta(seconds=number),
            "tags": ["a", "b"][: random.randrange(3)],
            "place": {"x": random.randrange(100), "y": random.randrange(100)},
        }
        for number in range(count)
    ]


def measure(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The least CPU seconds of each way, in turns."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, way in ways.items():
            begin = time.process_time()
            frame = way()
            best[name] = min(best[name], time.process_time() - begin)
            del frame
    return best


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder, reactdb.connect(Path(folder) / "a.db") as db:
        table = db.table_create("games")
        documents = make_documents(count)
        for start in range(0, count, 10_000):
            table.insert(documents[start : start + 10_000])
        del documents
        frame = table.to_pandas()
        ways: dict[str, Callable[[], Any]] = {
            "pandas.DataFrame(table.run())": lambda: pandas.DataFrame(table.run()),
            "to_arrow()": table.to_arrow,
            "to_arrow(fields= of two)": lambda: table.to_arrow(fields=["id", "score"]),
            "to_pandas()": table.to_pandas,
            "to_polars()": table.to_polars,
        }
        best = measure(ways)
        base = best["pandas.DataFrame(table.run())"]
        print(f"{count:,} documents")
        for name, seconds in best.items():
            print(f"{name:32} {seconds:6.2f} s  {seconds / base:5.2f} of run()")
        for name, what in {"insert(frame)": frame, "insert(table.run())": table.run()}.items():
            begin = time.process_time()
            db.table_create(name.partition("(")[2].strip("().").replace(".", "_")).insert(what)
            print(f"{name:32} {time.process_time() - begin:6.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT)
