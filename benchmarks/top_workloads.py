"""The workloads about a limit: what a live top ten, hundred or thousand adds to a write, and what querying again costs.

Every change is committed together with 500 others, alternately with and without the feed; see `feed_workloads` for "added".
A uniform change gives any document any score, so that most changes are far from the window. A hot change affects only documents
that are in the window or next to it, and keeps them there, so that every change concerns the window.

Rule of this file: as in `workloads`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from benchmarks.documents import SCORES, SEED, Document
from benchmarks.feed_workloads import INDEXED, ignore, new_scores, with_and_without
from benchmarks.harness import Bench, Figures, Stopwatch, Workload, expect
from benchmarks.peers import Key, Layout
from benchmarks.workloads import TABLE, WORKLOADS, made, million, table_of, workload

Scores = Sequence[tuple[Key, int]]

LIVE: Sequence[tuple[str, int, int, bool]] = (
    # name, window, documents, hot
    ("W7-top-10", 10, TABLE, False),
    ("W7-top-100", 100, TABLE, False),
    ("W7-top-100-hot", 100, TABLE, True),
    ("W7-top-1000", 1_000, TABLE, False),
    ("W7-top-1000-hot", 1_000, TABLE, True),
    ("W7-top-100-of-10000", 100, 10_000, False),
    ("W7-top-100-of-1000000", 100, 1_000_000, False),
)


def live_top(bench: Bench, window: int, documents: int, is_hot: bool) -> Figures:
    """Write {kind} scores in transactions of 500, while the top {window} of {documents} documents are kept by an index.

    Answers: what does a leaderboard cost that is always right? Look at "added"; beside it, W7-ask is what asking again costs.
    Expect {expectation}.
    """
    with bench.empty(layout=INDEXED) as store:
        # Who cannot do it says so before a table is filled.
        store.hear_top(1, ignore)
        store.hush()
    # The window of a quick look is smaller too: the table has to be larger than what is looked at.
    size = bench.count(documents)
    window = min(window, size // 8)

    def scores_of(count: int, turn: int) -> Scores:
        if is_hot:
            return hot_scores(made(size), 2 * window, count, turn)
        return new_scores(count, size, turn)

    if documents > TABLE:
        # Made once and kept: it takes a minute. A copy, because it is written to.
        folder = bench.folder_of(bench.kept("million-indexed", million(size), INDEXED))
        with bench.opened(folder, INDEXED) as store:
            return with_and_without(bench, store, scores_of, lambda hear: store.hear_top(window, hear))
    with bench.filled("indexed", table_of(size), layout=INDEXED) as store:
        return with_and_without(bench, store, scores_of, lambda hear: store.hear_top(window, hear))


def hot_scores(documents: Sequence[Document], contenders: int, count: int, turn: int) -> Scores:
    """`count` documents among the `contenders` with the greatest scores, and for each a score that such a one may have."""
    best = sorted(documents, key=lambda document: document["score"], reverse=True)[:contenders]
    least = best[-1]["score"]
    rng = random.Random(SEED + 20 + turn)
    return [(rng.choice(best)["id"], rng.randrange(least, SCORES)) for _ in range(count)]


@workload("W7-ask", "µs per question")
def ask_by_index(bench: Bench) -> Figures:
    """Ask for the top 10 of 100,000 by the index, 1,000 times.

    Answers: what does asking after every write cost, for who has an index? Expect ten small reads and the way to them.
    """
    return ask(bench, INDEXED, 10, bench.count(1_000))


@workload("W7-ask-100", "µs per question")
def ask_for_more_by_index(bench: Bench) -> Figures:
    """The same for the top 100, 200 times.

    Answers: the same for a longer list. Expect ten times as much, but for the way there.
    """
    return ask(bench, INDEXED, 100, bench.count(200))


@workload("W7-ask-scan", "µs per question")
def ask_by_scan(bench: Bench) -> Figures:
    """Ask for the top 10 without an index, 3 times.

    Answers: and for who has none? Expect a whole scan.
    """
    return ask(bench, Layout(), 10, 3)


def ask(bench: Bench, layout: Layout, window: int, times: int) -> Figures:
    size = bench.count(TABLE)
    expected = sorted((document["score"] for document in made(size)), reverse=True)[:window]
    watch = Stopwatch()
    name = "indexed" if layout.indexed else "table"
    with bench.filled(name, table_of(size), layout=layout) as store:
        expect(expected, store.top(window))
        with watch:
            for _ in range(times):
                store.top(window)
    return watch.per(times)


def register() -> None:
    """Add those that come in several sizes. Once."""
    for name, window, documents, is_hot in LIVE:
        if not any(one.name == name for one in WORKLOADS):
            WORKLOADS.append(Workload(name, "µs per update", of_size(window, documents, is_hot)))


def of_size(window: int, documents: int, is_hot: bool) -> Callable[[Bench], Figures]:
    def run(bench: Bench) -> Figures:
        return live_top(bench, window, documents, is_hot)

    run.__doc__ = (live_top.__doc__ or "").format(
        kind="hot" if is_hot else "random",
        window=f"{window:,}",
        documents=f"{documents:,}",
        expectation="the window moved by every second change, and told"
        if is_hot
        else "a microsecond or two, whatever the number of documents: a change beyond the window is one comparison",
    )
    return run
