"""Partitions of one worker: the log is read once for all of them, and what fails or waits in one holds no other."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from reactdb import row
from reactdb.durable import partitions
from reactdb.durable.partitions import partition_of
from reactdb.durable.worker import Batch, Batches
from reactdb.feeds.log_reader import LogReader
from reactdb.testing import VirtualClock
from reactdb.values.collation import key_bytes

PARTITIONS = 4


@pytest.fixture
def orders(db: Any) -> Any:
    return db.table_create("orders")


def worker_of(db: Any, clock: VirtualClock, max_changes: int = 500, **options: Any) -> Batches:
    selection = options.pop("selection", db.table("orders"))
    options = {"since": 0, "partitions": PARTITIONS, "scheduler": clock} | options
    return db.consumer("uploader", selection, **options).batches(max_changes, max_wait_s=0)


def home_of(key: Any) -> int:
    return partition_of(key_bytes(key), PARTITIONS)


def keys_of(partition: int, number: int, first: int = 0) -> list[int]:
    """So many keys of one partition."""
    return [key for key in range(first, first + 100 * number) if home_of(key) == partition][:number]


def given(worker: Batches) -> Iterator[Batch]:
    while (batch := worker.poll()) is not None:
        with batch:
            yield batch


@pytest.mark.parametrize("max_changes", [100, 500])
def test_a_worker_reads_the_log_once_for_all_its_partitions(
    db: Any, orders: Any, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, max_changes: int
):
    # By chance, because of numbers in a row each partition has as many.
    orders.insert([{"id": number} for number in Random(1).sample(range(1_000_000), 4_000)])
    pages: list[tuple[int, int]] = []
    read = LogReader.read

    def counted(self: LogReader, *arguments: Any, **options: Any) -> Any:
        start = self.position
        found = read(self, *arguments, **options)
        pages.append((start, self.position))
        return found

    monkeypatch.setattr(LogReader, "read", counted)
    found = [change["seq"] for batch in given(worker_of(db, clock, max_changes)) for change in batch]

    assert list(range(2, 4_002)) == sorted(found)
    # Each page begins where the one before has ended, up to the last, after which there is nothing.
    read_once = [page for page in pages if page[0] < page[1]]
    assert [0, *(end for _, end in read_once)] == [*(start for start, _ in read_once), db.seq]


def test_partitions_that_stand_apart_are_each_given_what_they_miss(db: Any, orders: Any, clock: VirtualClock):
    orders.insert([{"id": number} for number in range(600)])
    first = worker_of(db, clock, 50)
    done: list[tuple[int, int]] = []
    for _ in range(3):
        batch = first.poll()
        assert batch is not None
        with batch:
            done += [(batch.partition, change["seq"]) for change in batch]
    first.close()

    for batch in given(worker_of(db, clock, 70)):
        assert len(batch) <= 70
        done += [(batch.partition, change["seq"]) for change in batch]

    assert list(range(2, 602)) == sorted(seq for _, seq in done)
    for partition in range(PARTITIONS):
        seqs = [seq for number, seq in done if number == partition]
        assert sorted(seqs) == seqs


def test_what_one_partition_cannot_get_rid_of_does_not_keep_the_others_from_going_on(
    db: Any, orders: Any, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(partitions, "MOST_HELD", 20)
    stuck = keys_of(2, 40)
    orders.insert([{"id": key} for key in stuck])
    worker = worker_of(db, clock, 40)
    batch = worker.poll()
    assert batch is not None
    assert 2 == batch.partition
    with batch:
        raise ValueError("no")
    orders.insert([{"id": key} for key in range(10_000, 10_200)])

    # It comes again after a while only, and holds more than all of them may hold together.
    found = [change["key"] for batch in given(worker) for change in batch]

    assert sorted(key for key in range(10_000, 10_200) if home_of(key) != 2) == sorted(found)


def test_no_more_is_held_than_all_partitions_may_hold_together(
    db: Any, orders: Any, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(partitions, "MOST_HELD", 100)
    orders.insert([{"id": number} for number in range(3_000)])
    worker = worker_of(db, clock, 1_000)

    lengths = [len(batch) for batch in given(worker)]

    # A page can be read above it.
    assert (3_000, True) == (sum(lengths), max(lengths) <= 100 + partitions.PAGE_CHANGES)


def test_a_change_that_the_selection_fails_for_holds_its_own_partition_alone(
    db: Any, orders: Any, clock: VirtualClock
):
    bad, good = keys_of(1, 3), keys_of(3, 3)
    worker = worker_of(db, clock, selection=orders.map(row["n"] + 1))
    orders.insert([{"id": key, "n": 1} for key in (bad[0], good[0])])
    orders.insert({"id": bad[1], "n": "one"})
    orders.insert([{"id": key, "n": 1} for key in (good[1], bad[2], good[2])])

    found = [(batch.partition, change["key"]) for batch in given(worker) for change in batch]

    assert sorted([(1, bad[0]), (1, bad[2]), *((3, key) for key in good)]) == sorted(found)
    (aside,) = db.table("consumers.dead_letters").run()
    assert (bad[1], 1) == (aside["key"], aside["partition"])


def test_what_somebody_has_skipped_is_not_given_from_memory(db: Any, orders: Any, clock: VirtualClock):
    first, second = keys_of(0, 2)
    orders.insert([{"id": first}, {"id": second}])
    worker = worker_of(db, clock, 1, backoff_s=1.0)
    batch = worker.poll()
    assert batch is not None
    with batch:
        raise ValueError("no")
    assert worker.poll() is None

    db.consumer("uploader", orders).skip()
    clock.advance_by(1.0)

    assert [[second]] == [[change["key"] for change in batch] for batch in given(worker)]
