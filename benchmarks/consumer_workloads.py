"""The workloads of durable consumers: what it costs to be given a log in batches that are acknowledged, and to ask in vain.

Beside each figure of W14 stands "bare": the CPU time of reading the same changes with `db.log(table=...)`, with key and both
documents, and having as many in hand at a time.

Rule of this file: as in `workloads`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.documents import key_of
from benchmarks.harness import Bench, Figures, Stopwatch, expect
from benchmarks.peers import NotOffered, Store
from benchmarks.workloads import TABLE, made, table_of, workload

BATCH = 500
"""Changes in a batch."""


@workload("W14", "µs per change")
def consume(bench: Bench) -> Figures:
    """Give a worker a log of 50,000 inserts and 50,000 updates in batches of 500, which it looks at and acknowledges, soft.

    Answers: what does a position cost that is never lost? Expect reading the log (`bare`) to be four fifths of it.
    """
    return given(bench)


@workload("W14-partitions", "µs per change")
def consume_partitions(bench: Bench) -> Figures:
    """The same, where one worker has all four partitions.

    Answers: what does it cost to split by key before there is a second worker? Expect as much as W14, and to keep more in memory.
    """
    return given(bench, partitions=4)


@workload("W14-transaction", "µs per change")
def consume_into_a_table(bench: Bench) -> Figures:
    """The same, where each change is also written to another table, in the transaction that acknowledges its batch.

    Answers: what does a pipeline inside the file cost that does everything exactly once? Expect the writes (W1) to be most of it.
    """
    return given(bench, is_written=True)


@workload("W15", "µs per poll")
def idle_polls(bench: Bench) -> Figures:
    """Ask 1,000,000 times whether a table of 100,000 documents has changed, by its newest seq; it has not.

    Answers: what does an answer "304 Not Modified" cost? Expect one look-up in a transaction that only reads. Beside it stands
    "bare": the CPU time of reading the log of the table from there on, where there is nothing.
    """
    if bench.peer.name != "reactdb":
        raise NotOffered
    polls, watch, log = bench.count(1_000_000), Stopwatch(), Stopwatch()
    with bench.filled("table", table_of(TABLE)) as store:
        database: Any = store.database  # type: ignore[attr-defined]
        # Imported here because an earlier version, which another workload may be run with, lacks it.
        from reactdb.session import session_of

        session, seen, asked = session_of(database), database.seq, 0
        with watch:
            for _ in range(polls):
                asked += session.newest_seq("players") == seen
        expect(polls, asked)
        few = max(1, polls // 100)
        with log:
            for _ in range(few):
                expect([], list(database.log(since=seen, table="players")))
    return watch.per(polls) | {"bare": log.per(few)["cpu"]}


def given(bench: Bench, *, is_written: bool = False, partitions: int = 1) -> Figures:
    if bench.peer.name != "reactdb":
        raise NotOffered
    size = min(bench.count(50_000), TABLE)

    def fill(store: Store) -> None:
        store.insert_all(made(size))
        for start in range(0, size, 1_000):
            scores = [(key_of(number), -number - 1) for number in range(start, min(start + 1_000, size))]
            with store.score_all(scores):
                pass

    watch, bare, found = Stopwatch(), Stopwatch(), 0
    with bench.filled("history", fill) as store:
        database: Any = store.database  # type: ignore[attr-defined]
        with bare:
            expect(2 * size, sum(map(len, pages(database))))
        consumer = database.consumer("worker", database.table("players"), since=0, partitions=partitions)
        copies = database.table_create("copies") if is_written else None
        with consumer.batches(BATCH, max_wait_s=0) as batches, watch:
            while (batch := batches.poll()) is not None:
                if copies is None:
                    with batch:
                        found += len(list(batch))
                    continue
                with batch, database.transaction():
                    copies.insert([{"id": change["seq"], "new": change["new_val"]} for change in batch])
                    batch.acknowledge()
                found += len(batch)
    expect(2 * size, found)
    return watch.per(found) | {"bare": bare.per(found)["cpu"]}


def pages(database: Any) -> Iterator[list[Any]]:
    """The log of the table, as many changes at a time."""
    page: list[Any] = []
    for change in database.log(table="players"):
        page.append((change.seq, change.key, change.old_val, change.new_val))
        if len(page) == BATCH:
            yield page
            page = []
    yield page
