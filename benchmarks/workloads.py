"""The workloads: their operations, the number of documents, and the timed part. Each says which question it answers, and what
to expect.

Rule of this file: a workload does the same with every peer, times only the work (documents are made before), and
checks afterwards that the work was done. Figures are for one operation, in `unit`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.documents import (
    Document,
    documents,
    key_of,
    keys_at_random,
    score_ranges,
    shuffled,
)
from benchmarks.harness import ROOT, Bench, Figures, Stopwatch, Workload, expect, scores
from benchmarks.peers import PLAIN, Durability, Layout, NotOffered, Store

TABLE = 100_000
"""Documents in the table that reads and read-modify-writes are done to."""

MILLION = 1_000_000
"""Documents in the file that is opened, and weighed."""

THREADS = 16
WORKLOADS: list[Workload] = []

made = lru_cache(maxsize=4)(documents)


def workload(name: str, unit: str) -> Callable[[Callable[[Bench], Figures]], Callable[[Bench], Figures]]:
    def add(run: Callable[[Bench], Figures]) -> Callable[[Bench], Figures]:
        WORKLOADS.append(Workload(name, unit, run))
        return run

    return add


def table_of(count: int) -> Callable[[Store], None]:
    return lambda store: store.insert_all(made(count))


# ---------------------------------------------------------------------------------------------------------------
# W1: many documents in one commit


@workload("W1", "µs per document")
def bulk_insert(bench: Bench) -> Figures:
    """Insert 100,000 documents in one transaction, keys in order.

    Answers: what does the log cost when documents come by the thousand? Expect reactdb between raw, which has no log, and
    raw+log, because a body is stored once: in the log. Marked against raw all the same.
    """
    return insert_all(bench, made(bench.count(100_000)))


@workload("W1-shuffled", "µs per document")
def bulk_insert_shuffled(bench: Bench) -> Figures:
    """The same with keys in no order.

    Answers: what do random places in a tree cost? Expect reactdb to gain on raw: it moves small heads, in key order, where
    raw moves whole documents as they come.
    """
    return insert_all(bench, shuffled(made(bench.count(100_000))))


@workload("W1-integers", "µs per document")
def bulk_insert_integers(bench: Bench) -> Figures:
    """The same in order, with integer keys.

    Answers: what does a key that may be of any type cost? Expect raw at its best: an INTEGER PRIMARY KEY is SQLite's own row
    number and needs no second tree, which reactdb cannot use.
    """
    given = made(bench.count(100_000), integer_keys=True)
    return insert_all(bench, given, Layout(integer_keys=True))


@workload("W1-nested", "µs per document")
def bulk_insert_nested(bench: Bench) -> Figures:
    """The same in order, with a list and a dict inside.

    Answers: what does looking into nested documents before they are stored cost? Expect the whole difference to W1 in Python.
    """
    return insert_all(bench, made(bench.count(100_000), nested=True))


def insert_all(bench: Bench, given: Sequence[Document], layout: Layout = PLAIN) -> Figures:
    watch = Stopwatch()
    with bench.empty("soft", layout) as store:
        with watch:
            store.insert_all(given)
        expect(scores(given), store.scan())
    return watch.per(len(given))


# ---------------------------------------------------------------------------------------------------------------
# W2: one document a commit


@workload("W2-soft", "µs per commit")
def insert_a_commit_each_soft(bench: Bench) -> Figures:
    """Insert 10,000 documents in a commit each, durability soft.

    Answers: what does one commit cost without the disk? Expect most of it in the system calls of SQLite's commit; what
    reactdb adds is its own Python, two looks at the file's identity and a log entry.
    """
    return insert_each(bench, "soft", 10_000)


@workload("W2-hard", "µs per commit")
def insert_a_commit_each_hard(bench: Bench) -> Figures:
    """Insert 500 documents in a commit each, durability hard.

    Answers: the same with a flush to the disk for each. Expect wall times to be the disk's, and equal.
    """
    return insert_each(bench, "hard", 500)


@workload("W2-soft-feed", "µs per commit")
def insert_a_commit_each_heard(bench: Bench) -> Figures:
    """The same with durability soft and one listener to the table.

    Answers: and when somebody listens? Expect a few microseconds more: the change as an object, a queue, an event and a call.
    """
    return insert_each(bench, "soft", 10_000, is_heard=True)


def insert_each(bench: Bench, durability: Durability, count: int, *, is_heard: bool = False) -> Figures:
    given = made(bench.count(count))
    heard: list[None] = []
    watch = Stopwatch()
    with bench.empty(durability) as store:
        if is_heard:
            store.hear_table(lambda event: heard.append(None))
        # The first commit of a file also writes its header and opens its log.
        store.insert_each(given[:1])
        with watch:
            store.insert_each(given[1:])
        if is_heard:
            store.hush()
            expect(len(given), len(heard))
        expect(scores(given), store.scan())
    return watch.per(len(given) - 1)


@workload("W2-threads", "µs per commit")
def insert_from_threads(bench: Bench) -> Figures:
    """16 threads insert 64 documents each in a commit each, durability hard.

    Answers: do writers that wait for the disk share the wait? Look at wall. Expect reactdb, which commits for all who queue,
    well ahead of raw, where each takes its own flush; and CPU per commit to fall with the number of flushes.
    """
    each, threads = bench.count(64, least=4), THREADS
    given = made(threads * each)
    batches = [given[start::threads] for start in range(threads)]
    watch = Stopwatch()
    with bench.empty("hard") as store:
        with watch:
            store.insert_from_threads(batches)
        expect(scores(given), store.scan())
    return watch.per(len(given))


# ---------------------------------------------------------------------------------------------------------------
# W3: read, modify, write


@workload("W3-each", "µs per update")
def update_a_commit_each(bench: Bench) -> Figures:
    """Add 1 to the score of 5,000 random documents of 100,000, in a commit each, durability soft.

    Answers: what does the commonest write cost? Expect the commit to weigh most, then the way there and back through msgpack.
    """
    keys = keys_at_random(bench.count(5_000), bench.count(TABLE))
    return update(bench, keys, is_one_commit=False)


@workload("W3-batch", "µs per update")
def update_in_transactions(bench: Bench) -> Figures:
    """The same to 20,000 in transactions of 1,000.

    Answers: what is left when the commit costs nothing? Expect reactdb's Python to show most here.
    """
    keys = keys_at_random(bench.count(20_000), bench.count(TABLE))
    return update(bench, keys, is_one_commit=True)


def update(bench: Bench, keys: Sequence[str], *, is_one_commit: bool) -> Figures:
    size = bench.count(TABLE)
    watch = Stopwatch()
    with bench.filled("table", table_of(size)) as store:
        before = store.scan()
        with watch:
            if is_one_commit:
                for start in range(0, len(keys), 1_000):
                    store.add_to_all(keys[start : start + 1_000])
            else:
                store.add_to_each(keys)
        expect(before + len(keys), store.scan())
    return watch.per(len(keys))


# ---------------------------------------------------------------------------------------------------------------
# W9: the log


@workload("W9", "µs per change")
def replay(bench: Bench) -> Figures:
    """Read a log of 50,000 inserts and 50,000 updates from its beginning, old and new documents as bytes.

    Answers: how fast is a late reader's way to the present, where most documents are not looked at? Expect raw+log to be the
    floor: it stores old documents a second time; reactdb looks each up where it was written.
    """
    return replay_log(bench, decode=False)


@workload("W9-decoded", "µs per change")
def replay_decoded(bench: Bench) -> Figures:
    """The same, with both documents decoded.

    Answers: the same, where every document is looked at. Expect msgpack to be most of it.
    """
    return replay_log(bench, decode=True)


def replay_log(bench: Bench, *, decode: bool) -> Figures:
    count = bench.count(50_000)

    def fill(store: Store) -> None:
        store.insert_all(made(count))
        store.add_to_all(keys_at_random(count, count))

    watch = Stopwatch()
    with bench.filled("log", fill) as store:
        with watch:
            found = store.replay(decode=decode)
        expect(2 * count, found)
    return watch.per(found)


# ---------------------------------------------------------------------------------------------------------------
# W10: reads


@workload("W10-get", "µs per get")
def point_get(bench: Bench) -> Figures:
    """Get 20,000 random documents of 100,000 by key, one at a time.

    Answers: what does one read cost? Expect SQLite's statement to be most of raw; reactdb goes by way of a head to the log,
    which is a second tree, and checks more.
    """
    size = bench.count(TABLE)
    keys = keys_at_random(bench.count(20_000), size)
    given = made(size)
    by_key = {document["id"]: document["score"] for document in given}
    watch = Stopwatch()
    with bench.filled("table", table_of(size)) as store:
        # Both caches warm: what is asked is the path, not the disk.
        store.scan()
        with watch:
            found = store.get_each(keys)
        expect(sum(by_key[key] for key in keys), found)
    return watch.per(len(keys))


@workload("W10-range", "µs per document")
def range_by_index(bench: Bench) -> Figures:
    """Get 200 ranges of about 100 documents of 100,000 by an index, in its order.

    Answers: what does a document of a range cost, with the start of the range shared among a hundred? Expect three trees in
    reactdb (entry, head, log) against two in raw.
    """
    size = bench.count(TABLE)
    ranges = score_ranges(bench.count(200), 100 / size)
    held = sorted(document["score"] for document in made(size))
    expected = sum(sum(low <= score < high for score in held) for low, high in ranges[:10])
    watch = Stopwatch()
    with bench.filled("indexed", table_of(size), layout=Layout(indexed=True)) as store:
        store.scan()
        expect(expected, store.get_ranges(ranges[:10]))
        with watch:
            found = store.get_ranges(ranges)
    return watch.per(found)


@workload("W10-skip", "µs per page")
def page_by_index(bench: Bench) -> Figures:
    """Read 20 documents after the first 100,000 of 200,000 by an index, in its order, 10 times.

    Answers: what does a far page cost? Expect SQLite's walk over 100,000 index entries and no look at their documents. Raw's one
    statement looks each of them up in the table.
    """
    size, times = bench.count(2 * TABLE), bench.count(10, least=2)
    skip = size // 2
    expected = sorted(document["score"] for document in made(size))[skip : skip + 20]
    watch = Stopwatch()
    with bench.filled("indexed-twice", table_of(size), layout=Layout(indexed=True)) as store:
        expect(expected, store.page(skip, 20))
        with watch:
            for _ in range(times):
                store.page(skip, 20)
    return watch.per(times)


@workload("W10-past", "µs per get")
def get_of_the_past(bench: Bench) -> Figures:
    """Get 200 random documents as they were 100,000 changes ago, each through a new view of the past.

    Answers: what does one old version cost? Expect it not to depend on the number of changes since, but on those of the key.
    """
    count = bench.count(TABLE)
    keys = keys_at_random(bench.count(200), count)

    def fill(store: Store) -> None:
        store.insert_all(made(count))
        # One each, so that the middle of the log is where they are all inserted.
        store.add_to_all([key_of(number) for number in range(count)])

    by_key = {document["id"]: document["score"] for document in made(count)}
    watch = Stopwatch()
    with bench.filled("past", fill) as store:
        store.get_each_then(keys[:1])
        with watch:
            found = store.get_each_then(keys)
        # The table itself is the first change of the log, so the middle is the last insert.
        expect(sum(by_key[key] for key in keys), found)
    return watch.per(len(keys))


@workload("scan", "µs per document")
def scan(bench: Bench) -> Figures:
    """Read all of 100,000 documents in key order.

    Answers: what does indirection cost a whole scan? The documents lie in the log in the order in which they were written;
    here that is key order, the best case. Expect decoding to be half of it.
    """
    given = made(bench.count(TABLE))
    watch = Stopwatch()
    with bench.filled("table", table_of(len(given))) as store:
        store.get_each([key_of(0)])
        with watch:
            found = store.scan()
        expect(scores(given), found)
    return watch.per(len(given))


# ---------------------------------------------------------------------------------------------------------------
# W12: beginning, and room


@workload("W12-import", "µs per import")
def import_alone(bench: Bench) -> Figures:
    """Import the package, in a new process.

    Answers: what does a program pay that may not even open a database? Expect next to nothing: names are imported on first use.
    """
    return timed_import(bench.peer.imports)


@workload("W12-import-all", "µs per import")
def import_to_open(bench: Bench) -> Figures:
    """Import the package and all that opening a database needs, in a new process.

    Answers: the same for a program that does open one. Expect other people's packages to be most of it.
    """
    return timed_import(bench.peer.imports_to_open)


def timed_import(statement: str | None) -> Figures:
    """Microseconds, as the new process itself measures them: starting Python is not in it."""
    if statement is None:
        raise NotOffered
    program = (
        "import time; wall, cpu = time.perf_counter(), time.process_time(); "
        f"{statement}; print(time.process_time() - cpu, time.perf_counter() - wall)"
    )

    def once(environment: dict[str, str]) -> tuple[float, float]:
        ended = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        cpu_s, wall_s = map(float, ended.stdout.split())
        return cpu_s, wall_s

    with TemporaryDirectory() as folder:
        # Where it may be written even if the one who runs this keeps Python from it elsewhere.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        # The first one compiles to bytecode, once in the life of an installation.
        once(environment)
        cpu_s, wall_s = once(environment)
    return {"cpu": cpu_s * 1e6, "wall": wall_s * 1e6}


@workload("W12-open", "µs per opening")
def open_and_get(bench: Bench) -> Figures:
    """Open a file of 100,000 documents and get one, 20 times. Closing is not in it.

    Answers: how long until the first document of a program that has just started? Expect it not to grow with the file.
    """
    size = bench.count(TABLE)
    times = bench.count(20, least=2)
    folder = bench.copy("table", table_of(size))
    watch = Stopwatch()
    for key in keys_at_random(times, size):
        with watch:
            store = bench.peer.open(folder, PLAIN, "soft")
            store.get_each([key])
        store.close()
    return watch.per(times)


@workload("W12-open-million", "µs per opening")
def open_a_million(bench: Bench) -> Figures:
    """The same with a file of 1,000,000 documents, written in order.

    Answers: does it grow with the file? Expect a page or two more on the way to the document. The file is made once, and kept.
    """
    size, times = bench.count(MILLION), bench.count(20, least=2)
    folder = of_a_million(bench, size)
    watch = Stopwatch()
    for key in keys_at_random(times, size):
        with watch:
            store = bench.peer.open(folder, PLAIN, "soft")
            store.get_each([key])
        store.close()
    return watch.per(times)


@workload("W12-bytes-million", "bytes per document")
def bytes_of_a_million(bench: Bench) -> Figures:
    """The same file, closed: 1,000,000 documents that were written once, with their log.

    Answers: what does a document weigh whose history is that it was written? Expect little more than its bytes, once, its key,
    and where it is.
    """
    size = bench.count(MILLION)
    folder = of_a_million(bench, size)
    return {"size": bytes_in(folder) / size}


def bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def of_a_million(bench: Bench, size: int) -> Path:
    if size > bench.peer.most_documents:
        raise NotOffered
    return bench.kept("million", million(size))


def million(size: int) -> Callable[[Store], None]:
    """Fill with `size` documents, 100,000 in a transaction: all different, by their keys and scores at least."""

    def fill(store: Store) -> None:
        kind = made(min(size, TABLE))
        for start in range(0, size, TABLE):
            count = min(TABLE, size - start)
            store.insert_all(
                [{**document, "id": key_of(start + number)} for number, document in enumerate(kind[:count])]
            )

    return fill


@workload("W12-bytes", "bytes per document")
def bytes_on_disk(bench: Bench) -> Figures:
    """The file after 100,000 documents were inserted and 50,000 updates made, closed.

    Answers: what does history cost in room? Expect raw to keep none, raw+log to keep a body three times (document, log, old),
    reactdb every version once.
    """
    size = bench.count(TABLE)

    def fill(store: Store) -> None:
        store.insert_all(made(size))
        store.add_to_all(keys_at_random(size // 2, size))

    folder = bench.copy("updated", fill)
    return {"size": bytes_in(folder) / size}


def chosen(names: Sequence[str]) -> list[Workload]:
    """The workloads of these names in any capitalisation; W2 also stands for every W2-something. All, where none is named.

    Raises:
        KeyError: There is no such workload.
    """
    if not names:
        return list(WORKLOADS)
    for name in names:
        if not any(is_called(workload, name) for workload in WORKLOADS):
            raise KeyError(name)
    return [workload for workload in WORKLOADS if any(is_called(workload, name) for name in names)]


def is_called(workload: Workload, name: str) -> bool:
    known, name = workload.name.lower(), name.lower()
    return known == name or known.startswith(f"{name}-")
