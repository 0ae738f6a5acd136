"""The cost of `reactdb.lake.export`, compared with a few lines by hand and with plain pyarrow.

    python -m benchmarks.lake [--documents 100000] [--files 200] [--repeat 3] [--only parquet delta ...] [--markdown]

Documents of about 200 bytes go to Parquet, Delta and Iceberg, in four stages: the first export, a merge after one document in a
hundred has changed, a merge after all have, and a run with nothing new. Then other sources, to Parquet: all changes; values that
do not fit; keys of their own; the same documents in a fleet of files. Each run is in a process of its own that has imported
everything and has exported a small file before the clock starts. A table is compared with the documents after the last stage.

Processor time and peak memory come from /proc and getrusage, so this runs on Linux.

Rule of this file: every way reads the same file in the same run, and they take turns.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import reactdb
from benchmarks import lake_by_hand
from benchmarks.documents import documents
from benchmarks.machine import describe, line, version_of

FORMATS = ("parquet", "delta", "iceberg")
STAGES = ("first export", "merge of 1 %", "merge of all", "nothing new")
BATCH = 10_000


@dataclass(slots=True)
class Measured:
    wall_s: float
    cpu_s: float
    peak_mb: float
    rows: int


# ---------------------------------------------------------------------------------------------------------------
# In the process of one run


def export(format_: str, mode: str, source: str, folder: str) -> int:
    import reactdb.lake

    kwargs: dict[str, Any] = {format_: folder}
    return reactdb.lake.export(source, "players", mode=mode, **kwargs).rows


def by_hand(format_: str, mode: str, source: str, folder: str) -> int:
    getattr(lake_by_hand, format_)(source, folder)
    return 0


def bare(format_: str, mode: str, source: str, folder: str) -> int:
    """All changes by plain pyarrow, which verifies nothing and knows the schema."""
    from benchmarks.spark_source import bare_pyarrow

    Path(folder).mkdir(exist_ok=True)
    bare_pyarrow(Path(source), Path(folder, "changes.parquet"))
    return 0


WAYS: dict[str, Callable[[str, str, str, str], int]] = {"export": export, "by hand": by_hand, "bare": bare}


def run_here(way: str, format_: str, mode: str, source: str, folder: str) -> None:
    """Measure one run after a small one, and print it."""
    with tempfile.TemporaryDirectory() as small:
        make(Path(small, "small.db"), documents(10))
        WAYS[way](format_, mode, f"{small}/small.db", f"{small}/out")
    gc.collect()
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    rows = WAYS[way](format_, mode, source, folder)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print(json.dumps([wall, cpu, after.ru_maxrss / 1024, rows]))


# ---------------------------------------------------------------------------------------------------------------
# In the process that starts them


def measure(way: str, format_: str, mode: str, source: Path, folder: Path) -> Measured:
    code = "import sys; from benchmarks.lake import run_here; run_here(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, way, format_, mode, str(source), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{way}, {format_}, {mode}, {source.name}: {done.stderr[-2_000:]}")
    return Measured(*json.loads(done.stdout.splitlines()[-1]))


def make(path: Path, found: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with reactdb.connect(path, durability="soft") as db:
        table = db.table_create("players")
        for start in range(0, len(found), BATCH):
            table.insert(found[start : start + BATCH])


def change_some(path: Path, found: list[dict[str, Any]], each: int) -> None:
    """Another rating for every `each`-th document, in place."""
    for document in found[::each]:
        document["rating"] += 1.0
    changed = found[::each]
    with reactdb.connect(path, durability="soft") as db:
        for start in range(0, len(changed), BATCH):
            db.table("players").insert(changed[start : start + BATCH], conflict="replace")


def rows_of(way: str, format_: str, folder: Path) -> list[dict[str, Any]]:
    """What a reader of the format finds, in the order of keys."""
    if format_ == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(folder).to_pyarrow_table()
    elif format_ == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog

        name = "reactdb" if way == "export" else "by_hand"
        catalog = SqlCatalog(name, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        table = catalog.load_table(f"{name}.players").scan().to_arrow()
    else:
        import pyarrow.parquet as pq

        table = pq.read_table(folder)
    found: list[dict[str, Any]] = table.sort_by("id").to_pylist()
    return [
        {name: value for name, value in row.items() if name not in ("increment", "part")} for row in found
    ]


@dataclass
class Bench:
    """The samples by (what was read, way)."""

    count: int
    files: int
    formats: list[str]
    samples: dict[tuple[str, str], list[Measured]] = field(default_factory=dict)

    def add(self, what: str, way: str, found: Measured) -> None:
        self.samples.setdefault((what, way), []).append(found)

    def stages(self, folder: Path, turn: int) -> None:
        """The four stages of every format, by the exporter and by hand."""
        path = folder / "one.db"
        found = documents(self.count)
        make(path, found)
        runs = [(format_, way) for format_ in self.formats for way in ("export", "by hand")]
        runs = runs[turn % len(runs) :] + runs[: turn % len(runs)]
        for stage, each in zip(STAGES, (0, 100, 1, 0), strict=True):
            if each:
                change_some(path, found, each)
            for format_, way in runs:
                target = folder / f"{format_}-{way.replace(' ', '-')}"
                measured = measure(way, format_, "current", path, target)
                if stage == "nothing new" and measured.rows:
                    raise SystemExit(f"{way}, {format_}: {measured.rows} rows where nothing is new")
                self.add(f"{format_}, {stage}", way, measured)
        for format_, way in runs:
            if rows_of(way, format_, folder / f"{format_}-{way.replace(' ', '-')}") != found:
                raise SystemExit(f"{way}, {format_}: the table does not equal the documents")

    def sources(self, folder: Path, turn: int) -> None:
        """Other sources, to Parquet."""
        plain = documents(self.count)
        sources: dict[str, tuple[Path, str, str]] = {}
        make(folder / "plain.db", plain)
        sources["documents"] = (folder / "plain.db", "export", "current")
        sources["changes"] = (folder / "plain.db", "export", "changes")
        sources["changes, bare pyarrow"] = (folder / "plain.db", "bare", "changes")
        sources["versions"] = (folder / "plain.db", "export", "scd2")
        for each in (2_000, 20):
            odd = [
                {**document, "score": "none"} if number % each == each - 1 else document
                for number, document in enumerate(plain)
            ]
            make(folder / f"odd{each}.db", odd)
            sources[f"1 misfit in {each:,}"] = (folder / f"odd{each}.db", "export", "current")
        for count in sorted({min(count, self.count) for count in (2_000, 20_000)}):
            keyed = [{"id": f"k{n:06}", "by_user": {f"u{n}": 1}} for n in range(count)]
            make(folder / f"keyed{count}.db", keyed)
            sources[f"{count:,} documents with a key of their own"] = (
                folder / f"keyed{count}.db", "export", "current",
            )  # fmt: skip
        for number in range(self.files):
            part = plain[self.count * number // self.files : self.count * (number + 1) // self.files]
            make(folder / "fleet" / f"{number}.db", part)
        sources[f"{self.files} files"] = (folder / "fleet", "export", "current")
        names = list(sources)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            path, way, mode = sources[name]
            self.add(name, way, measure(way, "parquet", mode, path, folder / f"out {name}"))
        again = f"{self.files} files, nothing new"
        path, way, mode = sources[f"{self.files} files"]
        self.add(again, way, measure(way, "parquet", mode, path, folder / f"out {self.files} files"))


def middle(found: list[Measured], name: str) -> float:
    return statistics.median(getattr(each, name) for each in found)


def ratio(above: list[Measured] | None, below: list[Measured] | None, name: str) -> str:
    """The median of the ratios of each turn."""
    if above is None or below is None or above is below:
        return ""
    pairs = zip(above, below, strict=True)
    return f"{statistics.median(getattr(a, name) / max(getattr(b, name), 1e-3) for a, b in pairs):.2f}"


def report(bench: Bench, *, markdown: bool) -> None:
    stage_rows, source_rows = [], []
    for (what, way), found in bench.samples.items():
        figures = [
            f"{middle(found, 'cpu_s'):.2f}",
            f"{middle(found, 'wall_s'):.2f}",
            f"{middle(found, 'peak_mb'):.0f}",
        ]
        if what.split(",")[0] in FORMATS:
            other = bench.samples[what, "by hand"] if way == "export" else None
            stage_rows.append(
                [what, way, *figures, *(ratio(found, other, name) for name in ("cpu_s", "wall_s", "peak_mb"))]
            )
        else:
            other = bench.samples["documents", "export"]
            source_rows.append([what, *figures, ratio(found, other, "cpu_s"), ratio(found, other, "wall_s")])
    columns = ["CPU s", "wall s", "peak MB"]
    show(
        ["", "way", *columns, "CPU, x by hand", "wall, x by hand", "peak, x by hand"],
        stage_rows,
        markdown=markdown,
    )
    show(["to Parquet", *columns, "CPU, x documents", "wall, x documents"], source_rows, markdown=markdown)


def show(head: list[str], rows: list[list[str]], *, markdown: bool) -> None:
    if not rows:
        return
    if markdown:
        print("| " + " | ".join(head) + " |\n| --- |" + " ---: |" * (len(head) - 1))
        for row in rows:
            print("| " + " | ".join(row) + " |")
    else:
        widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
        for row in (head, *rows):
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)))
    print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[*FORMATS, "sources"], default=[*FORMATS, "sources"])
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    bench = Bench(options.documents, options.files, [name for name in FORMATS if name in options.only])
    for turn in range(options.repeat):
        folder = Path(tempfile.mkdtemp())
        try:
            if bench.formats:
                bench.stages(folder, turn)
            if "sources" in options.only:
                bench.sources(folder, turn)
        finally:
            shutil.rmtree(folder)
    packages = ", ".join(f"{name} {version_of(name)}" for name in ("pyarrow", "deltalake", "pyiceberg"))
    print(f"{line(describe())}, {packages}")
    print(f"{options.documents:,} documents; medians of {options.repeat}\n")
    report(bench, markdown=options.markdown)


if __name__ == "__main__":
    main()
