"""`python -m benchmarks.growth`: how costs grow with documents, log, feeds, subscribers, windows, threads and processes.

python -m benchmarks.growth                              every curve, to a million; about half an hour
python -m benchmarks.growth --curve documents questions counts room --most 5000000    large tables (10 GB of disk)
python -m benchmarks.growth --json FILE --plot FOLDER    keep the points, and draw them (needs matplotlib)
python -m benchmarks.growth --from FILE --plot FOLDER    draw what was kept

If an index serves the work, its cost must not grow faster than the logarithm of the size. Each curve has the exponent of its last
two decades: 0 is flat, 1 is proportional to the size, and the cost of a tree lies below 0.15.

Rule of this file: it measures. `plots` draws.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import feed_workloads, machine, peers
from benchmarks.documents import SCORES, Document, document, key_of, keys_at_random, score_ranges
from benchmarks.feed_workloads import INDEXED, Counter, new_scores
from benchmarks.harness import BASES, OURS, ROOT, Bench, Figures, Stopwatch, expect
from benchmarks.peers import PLAIN, Layout, NotOffered, Peer, Store
from benchmarks.report import aligned, number
from benchmarks.top_workloads import live_top
from benchmarks.workloads import made, million

MILLION = 1_000_000
STEEP = 0.15
"""The exponent from which a curve is pointed out: a tree that costs twice as much for a thousand times as many has 0.1."""

ROUNDS = 3
LAST = 1_000
"""Changes that a reader who comes back has missed."""

LEAST = 10_000
"""Documents in the smallest of the large tables."""

BULK = "bulk.json"
"""In the folder of a kept database: what a document cost that was inserted in bulk."""

Point = tuple[int, float]


@dataclass(slots=True)
class Curve:
    """A cost against a size.

    Attributes:
        name: documents, log, ...
        title: What is drawn, in a few words.
        along: What the size is of.
        unit: Of the costs.
        series: Name, as "peer: what", to its points in the order of their sizes.
        is_served: An index, or a hash, serves what is measured: it must not grow faster than the logarithm.
        remarks: What has to be known, one sentence each.
    """

    name: str
    title: str
    along: str
    unit: str
    is_served: bool = False
    series: dict[str, list[Point]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add(self, series: str, size: int, cost: float) -> None:
        self.series.setdefault(series, []).append((size, cost))

    def is_steep(self, series: str) -> bool:
        slope = exponent(self.series[series])
        return self.is_served and series.startswith("reactdb") and slope is not None and slope > STEEP


def exponent(points: Sequence[Point]) -> float | None:
    """How the last two decades grow: the slope of the straight line through them where both axes are logarithms."""
    last = max(size for size, _ in points)
    held = [
        (math.log(size), math.log(cost)) for size, cost in points if size * 101 >= last and size and cost > 0
    ]
    if len(held) < 2:
        return None
    middle_x = sum(x for x, _ in held) / len(held)
    middle_y = sum(y for _, y in held) / len(held)
    width = sum((x - middle_x) ** 2 for x, _ in held)
    return sum((x - middle_x) * (y - middle_y) for x, y in held) / width if width else None


def sizes(most: int, least: int = 1_000) -> list[int]:
    """Powers of ten, and `most`."""
    powers = [10**power for power in range(20) if least <= 10**power < most]
    return [*powers, most] if most >= least else powers


Make = Callable[[Peer], Bench]
Measure = Callable[[Make, dict[str, Peer], int], Curve]
CURVES: dict[str, Measure] = {}


def curve(run: Measure) -> Measure:
    CURVES[run.__name__] = run
    return run


def cpu_of(work: Callable[[], object], operations: int, rounds: int = ROUNDS) -> float:
    """µs of CPU for each operation, the median of the rounds."""
    found = []
    for _ in range(rounds):
        watch = Stopwatch()
        with watch:
            work()
        found.append(watch.per(operations)["cpu"])
    return median(found)


# ---------------------------------------------------------------------------------------------------------------
# What lies on the disk


@curve
def documents(make: Make, known: dict[str, Peer], most: int) -> Curve:
    """Open, get, insert, update, the first 20 by an index, and come back after 1,000 changes, against the number of documents."""
    found = Curve(
        "documents", "One operation in a table of many documents", "documents", "µs CPU", is_served=True
    )
    for size in sizes(most, LEAST):
        for name in ("raw+log", "reactdb"):
            bench = make(known[name])
            keys = keys_at_random(2_000, size)
            folder = bench.folder_of(large_table(bench, size))
            found.add(
                f"{name}: open and get", size, cpu_of(partial(open_and_get, bench, folder, INDEXED), 1, 9)
            )
            with bench.opened(folder, INDEXED) as store:
                # What is asked is the path: as far as the caches go, they are warm.
                store.get_each(keys)
                found.add(f"{name}: get", size, cpu_of(partial(store.get_each, keys), len(keys)))
                found.add(f"{name}: first 20", size, cpu_of(partial(times, 200, store.skip, 0, 20), 200))
                found.add(f"{name}: insert", size, cpu_of(inserting(store, 500, size), 500))
                found.add(f"{name}: update", size, cpu_of(rating(store, 500, size), 500))
                found.add(f"{name}: update of the index", size, cpu_of(writing(store, 500, size), 500))
                if name == "reactdb":
                    found.add("reactdb: come back", size, cpu_of(partial(come_back, store), 1, 9))
    found.remarks.append(f"Who comes back is told of {LAST:,} changes.")
    return found


@curve
def questions(make: Make, known: dict[str, Peer], most: int) -> Curve:
    """Count a range of 1,000, skip 10,000 by an index, and get the past of a key, against the number of documents."""
    found = Curve(
        "questions",
        "Questions that an index or a chain of versions answers",
        "documents",
        "µs CPU",
        is_served=True,
    )
    for size in sizes(most, LEAST):
        for name in ("raw+log", "reactdb"):
            bench = make(known[name])
            with bench.opened_kept(large_table(bench, size), INDEXED) as store:
                few = score_ranges(20, 1_000 / size)
                found.add(f"{name}: count 1,000", size, cpu_of(partial(store.count_ranges, few), len(few)))
                if size > LEAST:
                    found.add(
                        f"{name}: skip 10,000", size, cpu_of(partial(times, 5, store.skip, 10_000, 20), 5)
                    )
                if name == "reactdb":
                    keys = keys_at_random(5, size)
                    found.add(
                        f"{name}: the past of a key", size, cpu_of(partial(store.get_past, keys), len(keys))
                    )
    found.remarks.append("The past is that of half the log ago. By hand it would need an index of the log.")
    return found


@curve
def counts(make: Make, known: dict[str, Peer], most: int) -> Curve:
    """Count all documents and a tenth of them, once and by a feed, against the number of documents."""
    found = Curve("counts", "Counting documents", "documents", "µs CPU")
    for size in sizes(most, LEAST):
        for name in ("raw+log", "reactdb"):
            bench = make(known[name])
            with bench.opened_kept(large_table(bench, size), INDEXED) as store:
                # The first one reads the file into caches.
                expect(size, store.count_all())
                found.add(f"{name}: all", size, cpu_of(store.count_all, 1))
                tenth = score_ranges(1, 0.1)
                found.add(f"{name}: a tenth", size, cpu_of(partial(store.count_ranges, tenth), 1))
                if name == "reactdb":
                    found.add("reactdb: start of a feed", size, cpu_of(partial(begin_count, store), 1))
    return found


def begin_count(store: Store) -> None:
    heard = Counter()
    store.hear_count(heard)
    store.hush()
    expect(1, heard.heard)


@curve
def room(make: Make, known: dict[str, Peer], most: int) -> Curve:
    """The file and the insertion in bulk, for each document, against the number of documents. There is one index."""
    found = Curve("room", "A document of many", "documents", "bytes, or µs CPU to insert in bulk")
    for size in sizes(most, LEAST):
        for name in ("raw+log", "reactdb"):
            bench = make(known[name])
            folder = large_table(bench, size)
            weight = sum(file.stat().st_size for file in folder.iterdir() if file.name != BULK)
            found.add(f"{name}: bytes", size, weight / size)
            found.add(f"{name}: insert in bulk", size, json.loads((folder / BULK).read_text()))
    return found


def large_table(bench: Bench, size: int) -> Path:
    """The kept folder of a database with so many documents, and an index on their scores. Not to be written to."""
    watch = Stopwatch()
    insert = million(size)

    def fill(store: Store) -> None:
        # Documents are made meanwhile: the same for everybody, and little beside their insertion.
        with watch:
            insert(store)

    folder = bench.kept(f"documents-{size}", fill, INDEXED)
    if not (folder / BULK).exists():
        (folder / BULK).write_text(json.dumps(watch.per(size)["cpu"]))
    return folder


def times(count: int, work: Callable[..., object], *arguments: object) -> None:
    for _ in range(count):
        work(*arguments)


def writing(store: Store, count: int, among: int) -> Callable[[], None]:
    """Writes `count` scores at each call, always others: what changes nothing is not written."""
    turns = iter([new_scores(count, among, turn) for turn in range(ROUNDS)])
    return lambda: store.score_each(next(turns))


def inserting(store: Store, count: int, size: int) -> Callable[[], None]:
    """Inserts `count` documents at each call, after all that are there."""
    kind = made(count)
    turns = iter(
        [
            [{**each, "id": key_of(size + turn * count + number)} for number, each in enumerate(kind)]
            for turn in range(ROUNDS)
        ]
    )
    return lambda: store.insert_each(next(turns))


def rating(store: Store, count: int, among: int) -> Callable[[], None]:
    """Writes `count` ratings at each call, always others, by which there is no index."""
    turns = iter([new_scores(count, among, turn) for turn in range(ROUNDS)])
    return lambda: store.rate_each([(key, 1e6 + score) for key, score in next(turns)])


@curve
def log(make: Make, known: dict[str, Peer], most: int) -> Curve:
    """Open, come back after 1,000 changes, and compact, against the number of changes in the log, of 1,000 documents."""
    found = Curve(
        "log", "A log of many changes to 1,000 documents", "changes in the log", "µs CPU", is_served=True
    )
    bench = make(known["reactdb"])
    for size in sizes(most):
        folder = bench.folder_of(bench.kept(f"log-{size}", changes(size), PLAIN))
        found.add("reactdb: open and get", size, cpu_of(partial(open_and_get, bench, folder), 1, 9))
        with bench.opened(folder) as store:
            found.add("reactdb: come back", size, cpu_of(partial(come_back, store), 1, 9))
            found.add("reactdb: write", size, cpu_of(writing(store, 500, 1_000), 500))
            database: Any = store.database  # type: ignore[attr-defined]
            watch = Stopwatch()
            with watch:
                removed = database.compact(keep=1_000)["entries"]
            expect(True, removed >= size - 2_000 or size <= 2_000)
            if removed:
                found.add("reactdb: compact, a removed entry", size, watch.per(removed)["cpu"])
    found.remarks.append("Compacting is counted for each entry that it removes: it has to touch every one.")
    return found


def changes(size: int) -> Callable[[Any], None]:
    """Fill with 1,000 documents, written again and again until the log has `size` changes."""

    def fill(store: Any) -> None:
        rng, at_once = random.Random(1), 1_000
        given = [document(rng, number, False, False) for number in range(at_once)]
        for start in range(0, size, at_once):
            store.players.insert(
                [{**one, "score": (one["score"] + start) % SCORES} for one in given], conflict="replace"
            )

    return fill


def come_back(store: Any) -> None:
    """Subscribe to the table where the log was 1,000 changes ago, be told of them, and leave."""
    heard = Counter()
    feed = store.players.changes(since=store.database.seq - LAST).subscribe(heard)
    feed.dispose()
    expect(LAST, heard.heard)


def open_and_get(bench: Bench, folder: Path, layout: Layout = PLAIN) -> None:
    store = bench.peer.open(folder, layout, "soft")
    store.get_each([key_of(500)])
    store.close()


# ---------------------------------------------------------------------------------------------------------------
# Who listens


@curve
def feeds(make: Make, known: dict[str, Peer], most: int) -> Curve:
    """A write beside many feeds that it does not concern, and one that it does; and what opening and ending one costs."""
    found = Curve(
        "feeds", "A write beside feeds that it does not concern", "open feeds", "µs CPU", is_served=True
    )
    listens: dict[str, tuple[int, Callable[[Any, int], Any]]] = {
        "one key": (10**5, lambda players, number: players.get(key_of(number))),
        "one value": (10**5, lambda players, number: players.filter({"rating": 1e6 + number})),
        "a range": (10**4, lambda players, number: players.filter(score_from(SCORES + 10 * number))),
        "a top 10": (10**3, top_of),
    }
    for what, (at_most, selected) in listens.items():
        for size in [1, *sizes(min(most, at_most), 10)]:
            write, opening, ending = silent_feeds(make(known["reactdb"]), size, selected)
            found.add(f"reactdb: {what}", size, write)
            found.add(f"reactdb: open {what}", size, opening)
            found.add(f"reactdb: end {what}", size, ending)
    for name in ("tanstack-db", "rxdb"):
        for size in (100, 1_000, 10_000):
            if name in known and size <= most:
                try:
                    figures = known[name].figures(f"W6-equals-{size}", 1.0) or {}
                    found.add(f"{name}: one value", size, figures["cpu"])
                except NotOffered as reason:
                    found.remarks.append(f"{name}, {size:,} feeds: {reason}")
    return found


def score_from(score: int) -> Any:
    from reactdb import row

    return row["score"] >= score


def top_of(players: Any, number: int) -> Any:
    """Nobody's top 10: of those with a score that none has."""
    from reactdb import desc, maxval

    return players.between(SCORES + number, maxval, index="score").order_by(index=desc("score")).limit(10)


def silent_feeds(bench: Bench, size: int, selected: Callable[[Any, int], Any]) -> tuple[float, float, float]:
    """(µs of a write, of opening a feed, of ending one) with so many feeds, none of which hears the writes."""
    opening, ending = Stopwatch(), Stopwatch()
    with bench.filled("indexed-small", million(1_000), layout=INDEXED) as store:
        players: Any = store.players  # type: ignore[attr-defined]
        # What the first one imports is not what a feed costs.
        selected(players, 0).changes().subscribe(print).dispose()
        with opening:
            held = [selected(players, 1_000 + number).changes().subscribe(print) for number in range(size)]
        # What the openings left behind is not the writer's to clear away.
        gc.collect()
        store.score_each(new_scores(100, 1_000, ROUNDS))
        write = cpu_of(writing(store, 1_000, 1_000), 1_000)
        with ending:
            for feed in held:
                feed.dispose()
    return write, opening.per(size)["cpu"], ending.per(size)["cpu"]


@curve
def subscribers(make: Make, known: dict[str, Peer], most: int) -> Curve:
    """A write that everybody hears, against how many do; for each who hears it."""
    found = Curve(
        "subscribers", "A write that all subscribers hear, for each", "subscribers", "µs CPU a delivery"
    )
    for size in [1, *sizes(min(most, 10_000), 10)]:
        for name in ("raw+log", "reactdb", "tanstack-db", "rxdb"):
            if name not in known:
                continue
            bench = make(known[name])
            try:
                cost = bench.peer.figures(f"W5-{size}", 1.0) or fan_out(bench, size)
            except NotOffered:
                continue
            found.add(name, size, cost["cpu"] / size)
    return found


def fan_out(bench: Bench, size: int) -> Figures:
    return {"cpu": median(feed_workloads.fan_out(bench, size)["cpu"] for _ in range(ROUNDS))}


@curve
def window(make: Make, known: dict[str, Peer], most: int) -> Curve:
    """What a live top N of 100,000 documents adds to a write, against N; beside it, what asking for it again costs."""
    found = Curve(
        "window", "What a live top N of 100,000 documents adds", "documents in the window", "µs CPU a write"
    )
    bench = make(known["reactdb"])
    for size in sizes(min(most, 10_000), 10):
        found.add("reactdb: any document", size, live_top(bench, size, 100_000, False)["added"])
        found.add("reactdb: only those in it", size, live_top(bench, size, 100_000, True)["added"])
    for name in ("raw", "reactdb"):
        bench = make(known[name])
        with bench.filled("indexed", lambda store: store.insert_all(made(100_000)), layout=INDEXED) as store:
            for size in sizes(min(most, 10_000), 10):
                often = max(3, 1_000 // size)
                asking = cpu_of(partial(times, often, store.top, size), often)
                found.add(f"{name}: asking again", size, asking)
    return found


# ---------------------------------------------------------------------------------------------------------------
# Who writes


@curve
def threads(make: Make, known: dict[str, Peer], most: int) -> Curve:
    """A flushed commit, against the number of threads that write."""
    found = Curve("threads", "A commit on the disk, from several threads", "threads", "µs wall a commit")
    each = 64
    for count in (1, 2, 4, 8, 16):
        batches = [made(count * each)[start::count] for start in range(count)]
        for name in ("raw+log", "reactdb"):
            bench, walls = make(known[name]), []
            for _ in range(ROUNDS):
                watch = Stopwatch()
                with bench.empty("hard") as store, watch:
                    store.insert_from_threads(batches)
                walls.append(watch.per(count * each)["wall"])
            found.add(f"{name}: hard", count, median(walls))
    return found


@curve
def processes(make: Make, known: dict[str, Peer], most: int) -> Curve:
    """A commit, soft, against the number of processes that write to one file."""
    found = Curve("processes", "A commit, from several processes", "processes", "µs a commit")
    each = 2_000
    for count in (1, 2, 3, 4):
        for name in ("raw+log", "reactdb"):
            bench, walls, cpus = make(known[name]), [], []
            for _ in range(ROUNDS):
                with bench.empty("soft") as store:
                    store.insert_all([])
                    wall_s, cpu_s = in_processes(bench, name, count, each)
                    expect(sum(one["score"] for one in numbered(0, count * each)), store.scan())
                walls.append(wall_s * 1e6 / (count * each))
                cpus.append(cpu_s * 1e6 / (count * each))
            found.add(f"{name}: wall", count, median(walls))
            found.add(f"{name}: CPU", count, median(cpus))
    found.remarks.append("By hand each commit waits for the others inside of SQLite, up to its busy timeout.")
    return found


def numbered(start: int, count: int) -> list[Document]:
    kind = made(1_000)
    return [{**kind[number % 1_000], "id": key_of(number)} for number in range(start, start + count)]


def in_processes(bench: Bench, name: str, count: int, each: int) -> tuple[float, float]:
    """(seconds of wall from the first commit to the last, of CPU in all processes)."""
    folder = str(bench.latest)
    program = "from benchmarks.growth import write_alone; write_alone()"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, name, folder, str(number * each), str(each)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    # All are ready before the first one begins.
    for one in running:
        assert one.stdout is not None
        expect("ready\n", one.stdout.readline())
    for one in running:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    ended = [json.loads(one.communicate(timeout=300)[0]) for one in running]
    return max(end for _, end, _ in ended) - min(start for start, _, _ in ended), sum(
        cpu for *_, cpu in ended
    )


def write_alone() -> None:
    """One of several processes that write: peer, folder, first document and how many are its arguments."""
    name, folder, start, count = sys.argv[1:]
    peer = {peer.name: peer for peer in peers.load()[0]}[name]
    given = numbered(int(start), int(count))
    store = peer.open(Path(folder), PLAIN, "soft")
    print("ready", flush=True)
    sys.stdin.readline()
    # The clock of the machine, which all processes share.
    began, cpu = time.clock_gettime(time.CLOCK_MONOTONIC), time.process_time()
    store.insert_each(given)
    ended, cpu = time.clock_gettime(time.CLOCK_MONOTONIC), time.process_time() - cpu
    store.close()
    print(json.dumps([began, ended, cpu]))


# ---------------------------------------------------------------------------------------------------------------


def measured(names: Sequence[str], most: int, others: Sequence[str] | None) -> Iterator[Curve]:
    known = {
        peer.name: peer for peer in peers.load()[0] if others is None or peer.name in (*BASES, OURS, *others)
    }
    for name in names:
        print(f"{name}: {(CURVES[name].__doc__ or '').strip()}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="reactdb-growth-") as folder:
            yield CURVES[name](lambda peer: Bench(peer, 1.0, Path(folder) / peer.name), known, most)


def text(found: Curve) -> str:
    every = sorted({size for points in found.series.values() for size, _ in points})
    rows = [[f"{found.along}", *(f"{size:,}" for size in every), "exponent", ""]]
    for name, points in found.series.items():
        by_size, slope = dict(points), exponent(points)
        rows.append(
            [
                name,
                *(number(by_size[size]) if size in by_size else "" for size in every),
                "" if slope is None else f"{slope:.2f}",
                "STEEP" if found.is_steep(name) else "",
            ]
        )
    lines = [f"{found.name}: {found.title} ({found.unit})", *(f"    {row}" for row in aligned(rows))]
    return "\n".join([*lines, *(f"    {remark}" for remark in found.remarks)])


def markdown(found: Curve) -> str:
    every = sorted({size for points in found.series.values() for size, _ in points})
    lines = [
        f"| {found.along} ({found.unit}) | {' | '.join(f'{size:,}' for size in every)} | exponent |",
        f"| --- |{' ---: |' * (len(every) + 1)}",
    ]
    for name, points in found.series.items():
        by_size, slope = dict(points), exponent(points)
        cells = [number(by_size[size]) if size in by_size else "" for size in every]
        lines.append(f"| {name} | {' | '.join(cells)} | {'' if slope is None else f'{slope:.2f}'} |")
    return "\n".join(lines)


def data(found: Sequence[Curve]) -> dict[str, Any]:
    return {
        "machine": machine.describe(),
        "curves": [
            {
                "name": one.name,
                "title": one.title,
                "along": one.along,
                "unit": one.unit,
                "is_served": one.is_served,
                "series": one.series,
                "remarks": one.remarks,
            }
            for one in found
        ],
    }


def read(file: Path) -> list[Curve]:
    return [
        Curve(
            one["name"],
            one["title"],
            one["along"],
            one["unit"],
            one["is_served"],
            {name: [(size, cost) for size, cost in points] for name, points in one["series"].items()},
            one["remarks"],
        )
        for one in json.loads(file.read_text())["curves"]
    ]


def merged(kept: Sequence[Curve], new: Sequence[Curve]) -> list[Curve]:
    """The new ones instead of those kept under the same names, in the order of CURVES."""
    by_name = {one.name: one for one in [*kept, *new]}
    return [by_name[name] for name in CURVES if name in by_name]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--curve", nargs="+", default=list(CURVES), choices=CURVES, help="default: all")
    parser.add_argument("--most", type=int, default=MILLION, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--peer",
        nargs="*",
        metavar="NAME",
        help="beside the bare statements; default: all that are installed",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the points here; others that are there stay"
    )
    parser.add_argument(
        "--from", type=Path, metavar="FILE", dest="source", help="measure nothing, take these"
    )
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw them there, as PNG")
    parser.add_argument("--markdown", action="store_true", help="print them as the README has them")
    given = parser.parse_args(arguments)

    found: list[Curve] = []
    if given.source is not None:
        found = [one for one in read(given.source) if one.name in given.curve]
    else:
        for one in measured(given.curve, given.most, given.peer):
            found.append(one)
            print(text(one), end="\n\n", flush=True)
            if given.json is not None:
                kept = read(given.json) if given.json.exists() else []
                given.json.write_text(json.dumps(data(merged(kept, found))) + "\n")
    if given.markdown:
        print("\n\n".join(markdown(one) for one in found))
    if given.plot is not None:
        try:
            from benchmarks import plots
        except ModuleNotFoundError as error:
            parser.error(f"plots need matplotlib: {error}")
        for file in plots.draw(found, given.plot):
            print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
