"""The cost of the Spark data source, compared with plain pyarrow, row tuples and pandas.

    python -m benchmarks.spark_source [--changes 1000000] [--repeat 3] [--only source pyarrow ...] [--markdown]

A log of changes of about 200 bytes goes to Parquet, at `local[2]`, in a warm session. Each way writes the same columns:
seq, table, key, op, ts, commit and the document after the change. Processor time is counted separately for the JVM, which writes
the Parquet files, and for the Python workers, which read the log; without Spark, for the single process. The peak of memory is
that of the largest worker during this way alone. Documents are read in other ways too: with values that do not fit the schema,
one in 2,000 or in 20; and with keys of their own, which are no fields.

Processor time comes from /proc, so this runs on Linux.

Rule of this file: every way reads the same file in the same run, and they take turns.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import reactdb
from benchmarks.documents import documents
from benchmarks.machine import describe, line, version_of
from reactdb.spark import session

BATCH = 10_000
TICKS_S = os.sysconf("SC_CLK_TCK")
COLUMNS = ("seq", "table", "key", "op", "ts", "commit", "new")
WITHOUT_DOCUMENTS = COLUMNS[:-1]


# ---------------------------------------------------------------------------------------------------------------
# The log


def make_log(path: Path, changes: int, first: int = 0) -> None:
    """Three quarters are inserts, the others replace every third document."""
    inserts = changes * 3 // 4
    found = documents(inserts + first)[first:]
    with reactdb.connect(path, durability="soft") as db:
        table = db.table_create("players")
        for start in range(0, inserts, BATCH):
            table.insert(found[start : start + BATCH])
        again = [{**document, "rating": document["rating"] + 1.0} for document in found[: changes - inserts]]
        for start in range(0, len(again), BATCH):
            table.insert(again[start : start + BATCH], conflict="replace")


# ---------------------------------------------------------------------------------------------------------------
# Without Spark


def bare_pyarrow(path: Path, target: Path) -> None:
    """As a careful programmer writes it for just this file: nothing is verified, and the schema is known."""
    import msgpack
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [
        ("id", pa.string()),
        ("name", pa.string()),
        ("score", pa.int64()),
        ("rating", pa.float64()),
        ("active", pa.bool_()),
        ("country", pa.string()),
        ("city", pa.string()),
        ("words", pa.string()),
    ]
    struct = pa.struct(fields)
    stamp = pa.timestamp("us", "UTC")
    schema = pa.schema(
        [
            ("seq", pa.int64()),
            ("table", pa.string()),
            ("key", pa.string()),
            ("op", pa.string()),
            ("ts", stamp),
            ("commit", pa.int64()),
            ("new", struct),
        ]
    )
    ops = ("insert", "update", "replace", "delete")
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    tables = dict(connection.execute("SELECT id, name FROM tables"))
    cursor = connection.execute(
        "SELECT seq, table_id, key, kind, time, step, body FROM log WHERE table_id > 0 ORDER BY seq"
    )
    with pq.ParquetWriter(target, schema) as writer:
        held: list[Any] = []
        while rows := cursor.fetchmany(1_000):
            seqs, table_ids, keys, kinds, times, steps, bodies = zip(*rows, strict=True)
            held.append(
                pa.RecordBatch.from_arrays(
                    [
                        pa.array(seqs),
                        pa.array([tables[number] for number in table_ids]),
                        pa.array([key[1:-2].decode() for key in keys]),
                        pa.array([ops[kind] for kind in kinds]),
                        pa.array([time_ms * 1000 for time_ms in times], stamp),
                        pa.array([seq - step for seq, step in zip(seqs, steps, strict=True)]),
                        pa.array([msgpack.unpackb(body) for body in bodies], struct),
                    ],
                    schema=schema,
                )
            )
            if len(held) == 100:
                writer.write_table(pa.Table.from_batches(held))
                held.clear()
        if held:
            writer.write_table(pa.Table.from_batches(held))
    connection.close()


# ---------------------------------------------------------------------------------------------------------------
# With Spark


@dataclass
class Measured:
    wall_s: float
    python_s: float
    jvm_s: float = 0.0
    peak_mb: float = 0.0

    @property
    def cpu_s(self) -> float:
        return self.python_s + self.jvm_s


def processes() -> Iterator[tuple[int, int, str, float]]:
    """(pid, parent, name, processor seconds with those of children that have ended) of every process."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            name, _, rest = text.partition("(")[2].rpartition(")")
            fields = rest.split()
            yield int(entry), int(fields[1]), name, sum(map(int, fields[11:15])) / TICKS_S


def descendants() -> list[tuple[int, str, float]]:
    """(pid, name, processor seconds) of everything that this process has started."""
    all_ = list(processes())
    ours = {os.getpid()}
    while True:
        more = {pid for pid, parent, _, _ in all_ if parent in ours} - ours
        if not more:
            return [(pid, name, cpu) for pid, _, name, cpu in all_ if pid in ours and pid != os.getpid()]
        ours |= more


def spark_seconds() -> tuple[float, float]:
    """Processor seconds so far of (the Python workers, the JVM)."""
    found = descendants()
    return (
        sum(cpu for _, name, cpu in found if name.startswith("python")),
        sum(cpu for _, name, cpu in found if name == "java"),
    )


def forget_peaks() -> None:
    """Let the peak of each worker begin at what it holds now."""
    for pid, name, _ in descendants():
        if name.startswith("python"):
            # A worker may end at any time.
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")


def worker_peak_mb() -> float:
    """Of the largest Python worker."""
    peak = 0.0
    for pid, name, _ in descendants():
        if name.startswith("python"):
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            found = [text for text in status.splitlines() if text.startswith("VmHWM:")]
            if found:
                peak = max(peak, int(found[0].split()[1]) / 1024)
    return peak


class Bench:
    """One session and one folder of logs."""

    def __init__(self, spark: Any, folder: Path, changes: int) -> None:
        self.spark = spark
        self.folder = folder
        self.changes = changes
        self.one = folder / "one.db"
        self.fleets: dict[int, Path] = {}
        make_log(self.one, changes)
        with reactdb.connect(self.one, read_only=True) as db:
            self.newest_seq = db.seq
        self.schema = self.read().load(str(self.one)).schema

    def read(self, **options: Any) -> Any:
        return self.spark.read.format("reactdb").options(read="changes", **options)

    def schema_of(self, names: tuple[str, ...]) -> Any:
        from pyspark.sql.types import StructType

        return StructType([self.schema[name] for name in names])

    def export(self, frame: Any) -> Measured:
        target = self.folder / "out"
        shutil.rmtree(target, ignore_errors=True)
        forget_peaks()
        python, jvm = spark_seconds()
        began = time.perf_counter()
        frame.write.parquet(str(target))
        wall = time.perf_counter() - began
        python_after, jvm_after = spark_seconds()
        return Measured(wall, python_after - python, jvm_after - jvm, worker_peak_mb())

    # -----------------------------------------------------------------------------------------------------------

    def source(self) -> Measured:
        return self.export(self.read().schema(self.schema_of(COLUMNS)).load(str(self.one)))

    def both_images(self) -> Measured:
        return self.export(self.read().schema(self.schema_of((*COLUMNS, "old"))).load(str(self.one)))

    def without_documents(self) -> Measured:
        return self.export(self.read().schema(self.schema_of(WITHOUT_DOCUMENTS)).load(str(self.one)))

    def last_hundredth(self) -> Measured:
        start = self.changes - self.changes // 100 + 1
        return self.export(self.read(start=start).schema(self.schema_of(COLUMNS)).load(str(self.one)))

    def nothing_new(self) -> Measured:
        """Past the last change, as a job finds it that runs each minute."""
        schema = self.schema_of(COLUMNS)
        return self.export(self.read(start=self.newest_seq + 1).schema(schema).load(str(self.one)))

    def documents(self, each: int = 0) -> Measured:
        """The documents of a table, in which the score of each `each`-th is text; with the schema of the others."""
        path = self.folder / f"documents{each}.db"
        if not path.exists():
            found = documents(self.changes)
            for document in found[each - 1 :: each] if each else ():
                document["score"] = "none"
            with reactdb.connect(path, durability="soft") as db:
                table = db.table_create("players")
                for start in range(0, len(found), BATCH):
                    table.insert(found[start : start + BATCH])
        fields = self.schema["new"].dataType.fields
        schema = type(self.schema)(fields[:]).add("_corrupt", "string")
        reader = self.spark.read.format("reactdb").option("table", "players")
        return self.export(reader.schema(schema).load(str(path)))

    def own_keys(self, count: int) -> Measured:
        """Documents in which a dict has a key of its own; the schema is inferred, and that is measured too."""
        path = self.folder / f"keys{count}.db"
        if not path.exists():
            with reactdb.connect(path, durability="soft") as db:
                found = [{"id": number, "by_user": {f"u{number}": 1}} for number in range(count)]
                db.table_create("players").insert(found)
        python, began = spark_seconds()[0], time.perf_counter()
        frame = self.spark.read.format("reactdb").option("table", "players").load(str(path)).drop("_corrupt")
        planned, inferred = time.perf_counter() - began, spark_seconds()[0] - python
        measured = self.export(frame)
        return Measured(
            measured.wall_s + planned, measured.python_s + inferred, measured.jvm_s, measured.peak_mb
        )

    def as_of(self) -> Measured:
        """The documents as of seven eighths of the log, from the source: the others replace what is there by then."""
        schema = self.schema["new"].dataType
        reader = self.spark.read.format("reactdb").options(table="players", asOf=self.middle)
        return self.export(reader.schema(schema).load(str(self.one)))

    def as_of_by_max_by(self) -> Measured:
        """The same from the change rows, in Spark."""
        from pyspark.sql.functions import max_by

        rows = self.read(end=self.middle).schema(self.schema_of(("seq", "key", "new"))).load(str(self.one))
        newest = rows.groupBy("key").agg(max_by("new", "seq").alias("new"))
        return self.export(newest.where("new IS NOT NULL").select("new.*"))

    @property
    def middle(self) -> int:
        return self.changes * 7 // 8

    def check_as_of(self) -> None:
        """Both ways to the state as of a seq give the same documents."""
        found = []
        for way in (self.as_of, self.as_of_by_max_by):
            way()
            found.append(
                self.spark.read.parquet(str(self.folder / "out"))
                .selectExpr("bit_xor(xxhash64(*))", "count(*)")
                .first()
            )
        if found[0] != found[1]:
            raise SystemExit(f"as of {self.middle}: {found[0]} from the source, {found[1]} from max_by")

    def form(self, document: str) -> Measured:
        frame = self.read(document=document).load(str(self.one)).select(*COLUMNS)
        return self.export(frame)

    def as_schema(self, type_: str) -> Measured:
        ddl = f"seq bigint, `table` string, key string, op string, ts timestamp, commit bigint, new {type_}"
        return self.export(self.read().schema(ddl).load(str(self.one)))

    def json(self) -> Measured:
        return self.as_schema("string")

    def variant(self) -> Measured:
        return self.as_schema("variant")

    def binary(self) -> Measured:
        return self.as_schema("binary")

    def tuples(self) -> Measured:
        return self.export(
            self.spark.read.format("tuples")
            .schema(self.schema_of(COLUMNS))
            .option("path", str(self.one))
            .load()
        )

    def pandas(self) -> Measured:
        """Read and decoded in this process, handed over by createDataFrame."""
        began, before = time.perf_counter(), time.process_time()
        import pandas

        rows = list(tuples_of(str(self.one), 0, self.changes))
        frame = self.spark.createDataFrame(
            pandas.DataFrame(rows, columns=list(COLUMNS)), self.schema_of(COLUMNS)
        )
        made, ours = time.perf_counter() - began, time.process_time() - before
        found = self.export(frame)
        return Measured(made + found.wall_s, ours + found.python_s, found.jvm_s, found.peak_mb)

    def fleet(self, files: int) -> Measured:
        if files not in self.fleets:
            folder = self.folder / f"fleet{files}"
            folder.mkdir()
            for number in range(files):
                make_log(folder / f"{number}.db", self.changes // files, number * self.changes // files)
            self.fleets[files] = folder
        return self.export(self.read().schema(self.schema_of(COLUMNS)).load(str(self.fleets[files])))

    def pyarrow(self) -> Measured:
        """In a process of its own, which has imported everything before the clock starts."""
        code = (
            "import resource, sys, time, pyarrow.parquet, msgpack\n"
            "from pathlib import Path\n"
            "from benchmarks.spark_source import bare_pyarrow\n"
            "began, before = time.perf_counter(), time.process_time()\n"
            "bare_pyarrow(Path(sys.argv[1]), Path(sys.argv[2]))\n"
            "wall, cpu = time.perf_counter() - began, time.process_time() - before\n"
            "print(wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(self.one), str(self.folder / "bare.parquet")],
            capture_output=True,
            text=True,
            check=True,
        )
        wall, cpu, peak = map(float, done.stdout.split())
        return Measured(wall, cpu, peak_mb=peak)


def tuples_of(path: str, since: int, until: int) -> Iterator[tuple[Any, ...]]:
    """The changes as tuples, as a data source without Arrow would yield them."""
    from datetime import UTC, datetime

    with reactdb.connect(path, read_only=True) as db:
        for change in db.log(since=since, until=until):
            document = change.new_val
            yield (
                change.seq,
                change.table,
                change.key,
                change.kind,
                datetime.fromtimestamp(change.time / 1000, UTC),
                change.commit,
                None if document is None else tuple(document.values()),
            )


def register_tuples(spark: Any, changes: int) -> None:
    from pyspark import cloudpickle
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    # By value, because the workers need not find this package.
    cloudpickle.register_pickle_by_value(sys.modules[tuples_of.__module__])

    class Reader(DataSourceReader):
        def __init__(self, path: str) -> None:
            self.path = path

        def partitions(self) -> list[InputPartition]:
            return [InputPartition((changes * n // 8, changes * (n + 1) // 8)) for n in range(8)]

        def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
            return tuples_of(self.path, *partition.value)

    class Tuples(DataSource):
        @classmethod
        def name(cls) -> str:
            return "tuples"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(self.options["path"])

    spark.dataSource.register(Tuples)


def worker_memory(bench: Bench, sizes: tuple[int, ...]) -> list[tuple[int, float]]:
    """Peak memory of the largest worker after a log of each size, the smallest first."""
    found = []
    for size in sizes:
        path = bench.folder / f"size{size}.db"
        make_log(path, size)
        bench.export(bench.read().schema(bench.schema_of(COLUMNS)).load(str(path)))
        found.append((size, worker_peak_mb()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="+", metavar="WAY")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    root = str(Path(__file__).resolve().parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    with (
        tempfile.TemporaryDirectory() as folder,
        session("benchmark", master="local[2]", config={"spark.driver.memory": "1g"}) as spark,
    ):
        bench = Bench(spark, Path(folder), options.changes)
        register_tuples(spark, options.changes)
        ways: dict[str, Callable[[], Measured]] = {
            "pyarrow": bench.pyarrow,
            "source": bench.source,
            "both images": bench.both_images,
            "without documents": bench.without_documents,
            "last hundredth": bench.last_hundredth,
            "nothing new": bench.nothing_new,
            "documents": bench.documents,
            "1 misfit in 2,000": lambda: bench.documents(2_000),
            "1 misfit in 20": lambda: bench.documents(20),
            "2,000 keys of their own": lambda: bench.own_keys(2_000),
            "20,000 keys of their own": lambda: bench.own_keys(20_000),
            "as of": bench.as_of,
            "as of by max_by": bench.as_of_by_max_by,
            "tuples": bench.tuples,
            "pandas": bench.pandas,
            "json": bench.json,
            "variant": bench.variant,
            "binary": bench.binary,
            "1 file": lambda: bench.fleet(1),
            "10 files": lambda: bench.fleet(10),
            "200 files": lambda: bench.fleet(200),
        }
        if find_spec("pandas") is None:
            del ways["pandas"]
        if options.only:
            ways = {name: way for name, way in ways.items() if name in options.only}
        # Once for nothing: the JVM compiles what it meets, and Python workers import.
        bench.source()
        if "as of" in ways and "as of by max_by" in ways:
            bench.check_as_of()
        samples: dict[str, list[Measured]] = {name: [] for name in ways}
        for turn in range(options.repeat):
            names = list(ways)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                samples[name].append(ways[name]())
        print(f"{line(describe())}, pyspark {version_of('pyspark')}, pyarrow {version_of('pyarrow')}")
        size = bench.one.stat().st_size / options.changes
        print(f"{options.changes:,} changes, {size:.0f} bytes of file each; medians of {options.repeat}\n")
        report(samples, markdown=options.markdown)
        if not options.only:
            sizes = tuple(options.changes * part // 10 for part in (1, 3, 10))
            for size, peak in worker_memory(bench, sizes):
                print(f"peak memory of a worker after {size:,} changes: {peak:.0f} MB")


def report(samples: dict[str, list[Measured]], *, markdown: bool) -> None:
    """One line a way; ratios are formed within a turn, against plain pyarrow and against the source."""
    head = (
        "way",
        "wall s",
        "CPU s: JVM",
        "CPU s: Python",
        "peak MB",
        "speed, x pyarrow",
        "Python CPU, x pyarrow",
        "CPU, x source",
    )
    rows = []
    for name, found in samples.items():
        rows.append(
            (
                name,
                *(f"{middle(found, get):.2f}" for get in ("wall_s", "jvm_s", "python_s")),
                f"{middle(found, 'peak_mb'):.0f}",
                ratio(samples.get("pyarrow"), found, "wall_s"),
                ratio(found, samples.get("pyarrow"), "python_s"),
                ratio(found, samples.get("source"), "cpu_s"),
            )
        )
    if markdown:
        print("| " + " | ".join(head) + " |\n| --- |" + " ---: |" * (len(head) - 1))
        for row in rows:
            print("| " + " | ".join(row) + " |")
        return
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)))


def middle(found: list[Measured], name: str) -> float:
    return statistics.median(getattr(each, name) for each in found)


def ratio(above: list[Measured] | None, below: list[Measured] | None, name: str) -> str:
    if above is None or below is None:
        return ""
    pairs = zip(above, below, strict=True)
    return (
        f"{statistics.median(getattr(one, name) / max(getattr(two, name), 1e-9) for one, two in pairs):.2f}"
    )


if __name__ == "__main__":
    main()
