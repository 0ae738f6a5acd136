"""The workloads with open feeds: what listeners cost a writer, how soon they get events, how much memory they need.

If the cost of a feed is small beside that of a write, the figure "added" shows it: the commits of transactions are timed
alternately with and without the feed, and the difference of the medians is divided by the number of changes. A commit contains
all that a feed costs a writer, also the change objects, which are not created without listeners.

Rule of this file: as in `workloads`. Listeners count their events, and do nothing else.
"""

from __future__ import annotations

import gc
import os
import random
import time
import tracemalloc
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks import process_workloads
from benchmarks.documents import SCORES, SEED, key_of
from benchmarks.harness import Bench, Figures, Stopwatch, Workload, expect
from benchmarks.peers import Hear, Key, Layout, NotOffered, Store
from benchmarks.workloads import TABLE, WORKLOADS, made, table_of, workload

SMALL = 1_000
"""Documents in the table of those workloads that are about listeners."""

INDEXED = Layout(indexed=True)


class Counter:
    """A listener."""

    def __init__(self) -> None:
        self.heard = 0

    def __call__(self, event: Any) -> None:
        self.heard += 1


def new_scores(count: int, among: int, seed: int = 0) -> list[tuple[str, int]]:
    """`count` documents among the first `among`, and a score for each: no two alike, or a write could change nothing."""
    rng = random.Random(SEED + 10 + seed)
    scores = rng.sample(range(SCORES), count) if count <= SCORES else rng.choices(range(SCORES), k=count)
    return [(key_of(rng.randrange(among)), score) for score in scores]


# ---------------------------------------------------------------------------------------------------------------
# W4: how soon


@workload("W4", "µs from write to listener")
def latency(bench: Bench) -> Figures:
    """Write a score 3,000 times, a commit each, with one listener; from before the write until it is called.

    Answers: how old is a change when it is heard of, in the thread that wrote it? Expect the write itself to be nearly all of it.
    """
    scores = new_scores(bench.count(3_000), SMALL)
    heard: list[float] = []
    began: list[float] = []
    with bench.filled("small", table_of(SMALL)) as store:
        store.hear_table(lambda event: heard.append(time.perf_counter()))
        for one in scores:
            began.append(time.perf_counter())
            store.score_each((one,))
        store.hush()
    expect(len(scores), len(heard))
    waited = sorted((end - begin) * 1e6 for begin, end in zip(began, heard, strict=True))
    cuts = quantiles(waited, n=100)
    return {"p50": cuts[49], "p99": cuts[98]}


# ---------------------------------------------------------------------------------------------------------------
# W5: many who hear everything


def fan_out(bench: Bench, listeners: int) -> Figures:
    """Write a score, a commit each, with {listeners} listeners to the table.

    Answers: what does telling one more cost? Expect a straight line: raw's is a bare call, ours a queue and a turn for each.
    """
    writes = max(10, bench.count(40_000) // (listeners + 20))
    scores = new_scores(writes + 1, SMALL)
    count, watch, opening = Counter(), Stopwatch(), Stopwatch()
    with bench.filled("small", table_of(SMALL)) as store:
        with opening:
            for _ in range(listeners):
                store.hear_table(count)
        store.score_each(scores[:1])
        with watch:
            store.score_each(scores[1:])
        store.hush()
    expect(listeners * (writes + 1), count.heard)
    return {**watch.per(writes), "subscribe": opening.per(listeners)["cpu"]}


# ---------------------------------------------------------------------------------------------------------------
# W6: many who hear something else


def silent_points(bench: Bench, listeners: int) -> Figures:
    """Write a score, a commit each, with {listeners} listeners to one key each, one of which hears it.

    Answers: what do feeds cost that a write does not concern? Expect nothing: a change is looked up by its key.
    """
    return silent(bench, listeners, lambda store, number, count: store.hear_key(key_of(number), count))


def silent_equals(bench: Bench, listeners: int) -> Figures:
    """The same with {listeners} listeners to documents of one rating each, one of which hears it.

    Answers: the same for filters. Expect nothing again, but for looking up a value in both documents, which have to be decoded.
    """
    ratings = [document["rating"] for document in made(SMALL)]

    def hear(store: Store, number: int, count: Hear) -> None:
        # Those past the table are ratings that no document has.
        store.hear_rating(ratings[number] if number < SMALL else 1e6 + number, count)

    return silent(bench, listeners, hear)


def silent(bench: Bench, listeners: int, hear: Callable[[Store, int, Hear], None]) -> Figures:
    """Always the same writes, to the documents that the first hundred listen to."""
    scores = new_scores(bench.count(2_000), min(100, listeners or 100))
    count, watch, opening = Counter(), Stopwatch(), Stopwatch()
    with bench.filled("small", table_of(SMALL)) as store:
        with opening:
            for number in range(listeners):
                hear(store, number, count)
        # What 100,000 openings left behind is not the writer's to clear away.
        gc.collect()
        with watch:
            store.score_each(scores)
        store.hush()
    expect(len(scores) if listeners else 0, count.heard)
    figures = watch.per(len(scores))
    if listeners:
        figures["subscribe"] = opening.per(listeners)["cpu"]
    return figures


LIMIT = 3
"""Documents in the window of each of the listeners to a limit."""


def silent_limits(bench: Bench, listeners: int) -> Figures:
    """Write a rating, a commit each, with {listeners} listeners to the 3 least scores of a range each, none of which overlap.

    Answers: what do limits cost that a write does not concern? Expect nothing, but for finding the range that has the score, and
    one view that may have the document.
    """
    width = SCORES // listeners
    return limits(bench, [(number * width, (number + 1) * width) for number in range(listeners)])


def overlapping_limits(bench: Bench, fold: int) -> Figures:
    """The same with 10,000 listeners, where each score lies in the ranges of {listeners} of them.

    Answers: and where many views have to look at the change, most of which have nothing to tell? Expect a few microseconds
    for each.
    """
    listeners = bench.count(10_000)
    step = SCORES // listeners
    return limits(bench, [(number * step, (number + fold) * step) for number in range(listeners)])


def limits(bench: Bench, ranges: Sequence[tuple[int, int]]) -> Figures:
    """No score is written, by which ranges and windows go. So each write to a document in a window is heard, and no other."""
    rng = random.Random(SEED + 30)
    written = [(key_of(rng.randrange(SMALL)), 1e6 + number) for number in range(bench.count(2_000))]
    told: dict[str, int] = {}
    ordered = sorted((document["score"], document["id"]) for document in made(SMALL))
    for low, high in ranges:
        place = bisect_left(ordered, (low,))
        for score, key in ordered[place : place + LIMIT]:
            told[key] = told.get(key, 0) + (score < high)
    count, watch, opening = Counter(), Stopwatch(), Stopwatch()
    with bench.filled("indexed-small", table_of(SMALL), layout=INDEXED) as store:
        with opening:
            for low, high in ranges:
                store.hear_lowest(LIMIT, low, high, count)
        gc.collect()
        with watch:
            store.rate_each(written)
        store.hush()
    expect(sum(told.get(key, 0) for key, _ in written), count.heard)
    return {**watch.per(len(written)), "subscribe": opening.per(len(ranges))["cpu"]}


# ---------------------------------------------------------------------------------------------------------------
# W8: squash


@workload("W8", "µs per update")
def squash(bench: Bench) -> Figures:
    """Write random scores in transactions of 1,000 into 1,000 documents, with a listener that is told once an hour.

    Answers: what does a change cost that nobody is going to see? Look at "added". Expect about a microsecond: nothing is decoded.
    """
    with bench.filled("small", table_of(SMALL)) as store:
        return with_and_without(
            bench, store, lambda count, turn: new_scores(count, SMALL, turn), store.hear_net, each=1_000
        )


def with_and_without(
    bench: Bench,
    store: Store,
    scores_of: Callable[[int, int], Sequence[tuple[Key, int]]],
    hear: Callable[[Hear], None],
    *,
    each: int = 500,
) -> Figures:
    """Updates in transactions of `each`, every other one with the feed open: their cost with it, and what it adds to a commit.

    Args:
        scores_of: The updates of a transaction: how many, and its number.
    """
    each, turns = bench.count(each), 24
    watch = Stopwatch()
    commits: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(2 * turns):
        scores = scores_of(each, turn)
        is_open = turn % 2 == 1
        if is_open:
            hear(Counter())
        transaction, commit = Stopwatch(), Stopwatch()
        with transaction:
            block = store.score_all(scores)
            block.__enter__()
            with commit:
                block.__exit__(None, None, None)
        commits[is_open].append(commit.cpu_s)
        if is_open:
            watch.cpu_s += transaction.cpu_s
            watch.wall_s += transaction.wall_s
            store.hush()
    added_s = median(commits[True]) - median(commits[False])
    return {**watch.per(turns * each), "added": max(0.001, added_s * 1e6 / each)}


# ---------------------------------------------------------------------------------------------------------------
# W9 and W13: who comes late


@workload("W9-feed", "µs per change")
def replay_to_listener(bench: Bench) -> Figures:
    """Subscribe from the beginning of a log of 50,000 inserts and 50,000 updates, and be told all of it.

    Answers: what does catching up cost beyond reading the log (W9-decoded)? Expect an event and a call for each change.
    """
    size = bench.count(50_000)

    def fill(store: Store) -> None:
        store.insert_all(made(size))
        for start in range(0, size, 1_000):
            with store.score_all(
                [(key_of(number), -number - 1) for number in range(start, min(start + 1_000, size))]
            ):
                pass

    count, watch = Counter(), Stopwatch()
    with bench.filled("history", fill) as store:
        with watch:
            store.hear_all(count)
        expect(2 * size, count.heard)
        store.hush()
    return watch.per(count.heard)


@workload("W13", "µs per document")
def initial_values(bench: Bench) -> Figures:
    """Subscribe to a table of 100,000 documents, and be told all of them first.

    Answers: what does beginning with the present cost, and how long until something is there? Expect a scan, and an event each.
    """
    size = bench.count(TABLE)
    count, watch = Counter(), Stopwatch()
    first: list[float] = []

    def hear(event: Any) -> None:
        if not first:
            first.append(time.perf_counter())
        count(event)

    with bench.filled("table", table_of(size)) as store:
        began = time.perf_counter()
        with watch:
            store.hear_present(hear)
        expect(size, count.heard)
        store.hush()
    return {**watch.per(size), "first": (first[0] - began) * 1e6}


# ---------------------------------------------------------------------------------------------------------------
# W11: room in memory


@workload("W11-point", "bytes per feed")
def room_of_points(bench: Bench) -> Figures:
    """Memory of 2,000 idle subscriptions to one key each.

    Answers: what does a listener weigh that has a view of its own? Expect a kilobyte or two: query, view,
    route, queue, observer.
    """
    return room(bench, lambda store, number: store.players.get(key_of(number)).changes().subscribe(ignore))


@workload("W11-equal", "bytes per feed")
def room_of_equals(bench: Bench) -> Figures:
    """Memory of 2,000 idle subscriptions to one rating each.

    Answers: the same with a filter. Expect more: the expression, and the function that it was compiled to.
    """
    return room(
        bench,
        lambda store, number: store.players.filter({"rating": 1e6 + number}).changes().subscribe(ignore),
    )


@workload("W11-equal-100000", "bytes per feed")
def resident_room_of_equals(bench: Bench) -> Figures:
    """Resident memory of 100,000 idle subscriptions to one rating each.

    Answers: what does a feed of W11-equal take where there are very many? Expect a tenth more: the memory that Python and its
    tables keep free.
    """
    count = bench.count(100_000, least=1_000)
    with players(bench) as store:

        def listen(number: int) -> Any:
            return store.players.filter({"rating": 1e6 + number}).changes().subscribe(ignore)

        kept = [listen(number) for number in range(10)]
        before = resident_bytes()
        kept += [listen(number) for number in range(10, count + 10)]
        taken = resident_bytes() - before
        for one in kept:
            end(one)
    return {"size": taken / count}


@workload("W11-table", "bytes per feed")
def room_of_tables(bench: Bench) -> Figures:
    """Memory of 2,000 idle subscriptions to one table.

    Answers: the same where all share a view. Expect the least.
    """
    return room(bench, lambda store, number: store.players.changes().subscribe(ignore))


@workload("W11-cursor", "bytes per feed")
def room_of_cursors(bench: Bench) -> Figures:
    """Memory of 2,000 idle cursors of one table.

    Answers: the same for who asks. Expect little more: what it waits with is made when it waits.
    """
    return room(bench, lambda store, number: store.players.changes().cursor())


@workload("W11-change", "bytes per change")
def room_of_changes(bench: Bench) -> Figures:
    """Memory of 2,000 changes that one cursor has not taken.

    Answers: what does a reader that sleeps cost? Expect the change with both encoded documents.
    """
    return {"size": room_of_queues(bench, 1)}


@workload("W11-change-further", "bytes per change")
def room_of_changes_of_more(bench: Bench) -> Figures:
    """The same for each of 20 more cursors of the table.

    Answers: and when many sleep? Expect a pointer for each: the change is shared.
    """
    return {"size": (room_of_queues(bench, 21) - room_of_queues(bench, 1)) / 20}


def ignore(event: Any) -> None:
    pass


def end(listening: Any) -> None:
    """A subscription, or a cursor."""
    (listening.dispose if hasattr(listening, "dispose") else listening.close)()


def room(bench: Bench, listen: Callable[[Any, int], Any]) -> Figures:
    count = bench.count(2_000, least=100)
    with players(bench) as store:
        # What the first ones make once for all is none of theirs.
        kept = [listen(store, number) for number in range(10)]
        kept += [None] * count
        with memory() as taken:
            for number in range(10, count + 10):
                kept[number] = listen(store, number)
        for one in kept:
            end(one)
        kept.clear()
    return {"size": taken[0] / count}


def room_of_queues(bench: Bench, cursors: int) -> float:
    """Bytes per change in all queues."""
    count = bench.count(2_000, least=100)
    with players(bench) as store:
        kept = [store.players.changes().cursor() for _ in range(cursors)]
        store.score_each(new_scores(100, SMALL, 1))
        with memory() as taken:
            store.score_each(new_scores(count, SMALL))
        for cursor in kept:
            cursor.close()
    return taken[0] / count


@contextmanager
def players(bench: Bench) -> Iterator[Any]:
    """The small table, of a peer that has feeds to be weighed."""
    if bench.peer.name != "reactdb":
        raise NotOffered
    with bench.filled("small", table_of(SMALL)) as store:
        yield store


def resident_bytes() -> int:
    """What this process has in memory.

    Raises:
        NotOffered: This system does not say.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        raise NotOffered("the system does not say how much memory a process has") from None
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def memory() -> Iterator[list[int]]:
    """Bytes that Python has more at the end of the block than at its beginning."""
    taken = [0]
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield taken
        gc.collect()
        taken[0] = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------------------------------------------------------


def register() -> None:
    """Add those that come in several sizes, and put all in the order of their numbers. Once."""
    # Not above: it is built on this module.
    import benchmarks.consumer_workloads
    import benchmarks.question_workloads  # noqa: F401 - they add their own
    from benchmarks import delivery_workloads, top_workloads

    top_workloads.register()
    delivery_workloads.register()
    for name, unit, run, sizes in SIZED:
        for size in sizes:
            if not any(one.name == f"{name}-{size}" for one in WORKLOADS):
                WORKLOADS.append(Workload(f"{name}-{size}", unit, sized(run, size)))
    process_workloads.register()
    WORKLOADS.sort(key=lambda one: number_of(one.name))


def sized(run: Callable[[Bench, int], Figures], size: int) -> Callable[[Bench], Figures]:
    def of_size(bench: Bench) -> Figures:
        # A quick look is a look at fewer listeners too.
        return run(bench, min(size, max(bench.count(size), 10)))

    of_size.__doc__ = (run.__doc__ or "").format(listeners=f"{size:,}").replace(" 1 listeners", " 1 listener")
    return of_size


def number_of(name: str) -> float:
    """W5-100 -> 5; what has no number goes last."""
    digits = name.partition("-")[0].removeprefix("W")
    return float(digits) if digits.isdecimal() else float("inf")


SIZED: Sequence[tuple[str, str, Callable[[Bench, int], Figures], Sequence[int]]] = (
    ("W5", "µs per write", fan_out, (1, 100, 1_000, 10_000)),
    ("W6-points", "µs per write", silent_points, (0, 100, 1_000, 10_000, 100_000)),
    ("W6-equals", "µs per write", silent_equals, (100, 1_000, 10_000, 100_000)),
    ("W6-limits", "µs per write", silent_limits, (10, 1_000, 10_000, 100_000)),
    ("W6-overlaps", "µs per write", overlapping_limits, (5, 50, 500)),
)
