"""The memory of a process that reads changes, at its highest: bounded, whatever the file holds. No Spark session is started."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import reactdb

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells the highest memory"),
]

MOST_KB = 300_000
# The reader as Spark's Python worker has it. The last batch stays in memory while the next one is read.
READ = """
import sys, json
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType
from reactdb.spark.source import ReactdbSource

options, columns = json.loads(sys.argv[1])
source = ReactdbSource(CaseInsensitiveDict(options))
schema = source.schema()
if columns is not None:
    schema = StructType([schema[name] for name in columns])
reader = source.reader(schema)
rows = 0
for part in reader.partitions():
    for batch in reader.read(part):
        rows += batch.num_rows
most = open("/proc/self/status").read().split("VmHWM:")[1].split()[0]
print(json.dumps([rows, int(most)]))
"""


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Small documents, then 100 of 4 MB."""
    path = str(tmp_path_factory.mktemp("growing") / "a.db")
    with reactdb.connect(path, durability="soft") as db:
        table = db.table_create("t")
        for start in range(0, 20_000, 2_000):
            table.insert([{"id": number, "x": "a" * 1_000} for number in range(start, start + 2_000)])
        for number in range(20_000, 20_100):
            table.insert({"id": number, "x": "b" * 4_000_000})
    return path


@pytest.fixture(scope="module")
def largest(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three documents of nearly the largest size, written ten times, so that most changes have two of them."""
    path = str(tmp_path_factory.mktemp("largest") / "a.db")
    with reactdb.connect(path, durability="soft") as db:
        table = db.table_create("t")
        for number in range(10):
            table.insert({"id": number % 3, "n": number, "x": "c" * 15_900_000}, conflict="replace")
    return path


def read(path: str, columns: list[str] | None, **options: str) -> tuple[int, int]:
    """(rows, the highest memory in kB) of a process that reads all changes."""
    arguments = json.dumps([{"path": path, "read": "changes", **options}, columns])
    done = subprocess.run(
        [sys.executable, "-c", READ, arguments], capture_output=True, text=True, timeout=120, check=True
    )
    rows, most_kb = json.loads(done.stdout)
    return rows, most_kb


@pytest.mark.parametrize("form", ["struct", "json", "binary"])
@pytest.mark.parametrize("table", [{"table": "t"}, {}], ids=["table", "all"])
@pytest.mark.parametrize(("file", "changes"), [("growing", 20_100), ("largest", 10)])
def test_changes_with_both_documents(request, file, changes, table, form):
    rows, most_kb = read(request.getfixturevalue(file), None, document=form, **table)

    assert changes == rows
    assert most_kb < MOST_KB


@pytest.mark.parametrize("table", [{"table": "t"}, {}], ids=["table", "all"])
@pytest.mark.parametrize(("file", "changes"), [("growing", 20_100), ("largest", 10)])
def test_columns_without_documents_take_no_memory_for_documents(request, file, changes, table):
    """A process that has imported everything has some 90 MB, and the cache of SQLite takes 16 MB."""
    rows, most_kb = read(request.getfixturevalue(file), ["seq", "key", "op", "ts"], **table)

    assert changes == rows
    assert most_kb < 160_000
