"""The workloads about questions that need few documents of a table of a million: a document's past, counts, and pages.

An index, or the chain of a document's versions, has the answer; so the cost must not grow with what is not in it. The file is
made once, and kept.

Rule of this file: as in `workloads`.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from pathlib import Path

from benchmarks.documents import SCORES, SEED, keys_at_random, score_ranges
from benchmarks.feed_workloads import INDEXED, Counter
from benchmarks.harness import Bench, Figures, Stopwatch, expect
from benchmarks.peers import Layout, NotOffered
from benchmarks.workloads import MILLION, TABLE, made, million, workload

PAST = Layout(past=True)
PAGE = 20


@workload("W16-past", "µs per document")
def get_past(bench: Bench) -> Figures:
    """Get 1,000 random documents of 1,000,000 as they were when the log had half of its length, by key, one at a time.

    Answers: what does the past of one key cost? Expect a read of the document and one of its newest version until then; half of
    them were not yet there.
    """
    size = bench.count(MILLION)
    keys = keys_at_random(bench.count(1_000), size)
    # The document of each number is one of the same kind, over and over.
    kind = made(min(size, TABLE))
    held = sum(kind[int(key[1:]) % len(kind)]["score"] for key in keys if int(key[1:]) < size // 2 - 1)
    watch = Stopwatch()
    with bench.opened_kept(of_a_million(bench, "past", PAST, size), PAST) as store:
        store.get_each(keys[:10])
        with watch:
            found = store.get_past(keys)
        expect(True, abs(found - held) <= 2 * SCORES)
    return watch.per(len(keys))


@workload("W16-count-range", "µs per count")
def count_ranges(bench: Bench) -> Figures:
    """Count 100 ranges of about 1,000 documents of 1,000,000 by an index.

    Answers: what does a number of documents cost that nobody reads? Expect the entries of the index.
    """
    return counted(bench, 1_000, bench.count(100))


@workload("W16-count-tenth", "µs per count")
def count_large_ranges(bench: Bench) -> Figures:
    """The same for 5 ranges of about a tenth of the documents.

    Answers: and where it is large? Expect it to grow with the range, at the pace of SQLite.
    """
    return counted(bench, MILLION // 10, 5)


def counted(bench: Bench, each: int, count: int) -> Figures:
    size = bench.count(MILLION)
    ranges = score_ranges(count, each / MILLION)
    held = sorted_scores(size)
    with bench.opened_kept(indexed(bench, size), INDEXED) as store:
        store.count_ranges(ranges[:1])
        watch = Stopwatch()
        with watch:
            found = store.count_ranges(ranges)
        expect(sum(bisect_left(held, high) - bisect_left(held, low) for low, high in ranges), found)
    return watch.per(count)


@workload("W16-count-feed", "µs per subscription")
def count_feed(bench: Bench) -> Figures:
    """Subscribe to the number of documents of a table of 1,000,000, and be told it, 5 times.

    Answers: how long until a live count shows its first value? Expect what asking for the count costs.
    """
    size = bench.count(MILLION)
    count, watch = Counter(), Stopwatch()
    with bench.opened_kept(indexed(bench, size), INDEXED) as store:
        for _ in range(5):
            with watch:
                store.hear_count(count)
            store.hush()
    expect(5, count.heard)
    return watch.per(5)


@workload("W16-skip-10000", "µs per page")
def skip_some(bench: Bench) -> Figures:
    """Read 20 pages of 20 documents by an index, after the first 10,000 or so of 1,000,000.

    Answers: what does a page cost that is not the first? Expect the entries before it to be passed over inside of SQLite.
    """
    return skipped(bench, 10_000, 20)


@workload("W16-skip-100000", "µs per page")
def skip_many(bench: Bench) -> Figures:
    """The same with 5 pages after the first 100,000.

    Answers: and further back? Expect it to grow with the distance.
    """
    return skipped(bench, 100_000, 5)


def skipped(bench: Bench, offset: int, count: int) -> Figures:
    size, offset = bench.count(MILLION), bench.count(offset)
    held = sorted_scores(size)
    rng = random.Random(SEED + 40)
    offsets = [offset + rng.randrange(100) for _ in range(count)]
    watch = Stopwatch()
    with bench.opened_kept(indexed(bench, size), INDEXED) as store:
        expect(held[offset : offset + PAGE], store.skip(offset, PAGE))
        with watch:
            for each in offsets:
                store.skip(each, PAGE)
    return watch.per(count)


def sorted_scores(size: int) -> list[int]:
    """The scores in the file, in order."""
    scores = [document["score"] for document in made(min(size, TABLE))]
    found = scores * (size // len(scores)) + scores[: size % len(scores)]
    found.sort()
    return found


def indexed(bench: Bench, size: int) -> Path:
    """The file that W7-top-100-of-1000000 has a copy of as well."""
    return of_a_million(bench, "million-indexed", INDEXED, size)


def of_a_million(bench: Bench, name: str, layout: Layout, size: int) -> Path:
    if size > bench.peer.most_documents:
        raise NotOffered
    with bench.empty(layout=layout) as store:
        # Who cannot do it says so before a file is made.
        store.insert_all(made(16))
        if layout.past:
            store.get_past([])
        else:
            store.count_ranges([])
            store.skip(0, 1)
    return bench.kept(name, million(size), layout)
