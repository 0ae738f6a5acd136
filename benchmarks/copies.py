"""`python -m benchmarks.copies`: `db.copy()` against filling a database anew, as a fixture of each test would.

    fill            a database in memory: tables with an index each, and their documents
    copy            a copy of that database
    copy of a file  a copy of the same data in a file

The three run by turns, as often as --repeat says; a ratio is formed within a turn, and the medians are printed. Each includes
closing the database.

Rule of this file: CPU of this thread, because other programs share the machine.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import thread_time

import reactdb

PEERS = ("fill", "copy", "copy of a file")


def fill(db: reactdb.Database, tables: int, documents: int) -> None:
    """Make the tables, with an index each, and share the documents out among them."""
    each = documents // tables
    for number in range(tables):
        table = db.table_create(f"table_{number}")
        table.index_create("team")
        table.insert([{"id": place, "team": place % 7, "text": "x" * 100} for place in range(each)])


def run_fill(tables: int, documents: int) -> None:
    with reactdb.connect(":memory:") as db:
        fill(db, tables, documents)


def measure(work: Callable[[], object]) -> float:
    """CPU milliseconds of the work."""
    began = thread_time()
    work()
    return (thread_time() - began) * 1_000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(
        prog="python -m benchmarks.copies",
        description=__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--documents", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args(arguments)
    print(f"{'documents':>10} {'peer':<15} {'CPU ms':>10} {'of fill':>8}")
    for documents in given.documents:
        for peer, ms, share in compare(given.tables, documents, given.repeat):
            print(f"{documents:>10,} {peer:<15} {ms:>10.2f} {share:>8.1%}")
    return 0


def compare(tables: int, documents: int, repeat: int) -> list[tuple[str, float, float]]:
    """For each peer: its name, CPU milliseconds, and their share of filling."""
    with (
        TemporaryDirectory() as folder,
        reactdb.connect(":memory:") as memory,
        reactdb.connect(Path(folder) / "template.db", durability="soft") as file,
    ):
        fill(memory, tables, documents)
        fill(file, tables, documents)
        works: dict[str, Callable[[], object]] = {
            "fill": lambda: run_fill(tables, documents),
            "copy": lambda: memory.copy().close(),
            "copy of a file": lambda: file.copy().close(),
        }
        for work in works.values():
            # The first run imports.
            work()
        turns = [{peer: measure(work) for peer, work in works.items()} for _ in range(repeat)]
    return [
        (peer, median(turn[peer] for turn in turns), median(turn[peer] / turn["fill"] for turn in turns))
        for peer in PEERS
    ]


if __name__ == "__main__":
    sys.exit(main())
