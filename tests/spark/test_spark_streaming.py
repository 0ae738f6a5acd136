"""Streams through a session: triggers, restarts, fleets, errors, and a writer that goes on. The pieces alone are in
test_stream_pieces."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reactdb

pytestmark = pytest.mark.slow

SCHEMA = "seq long, key long, op string, new struct<id:long,n:long>"
DEADLINE_S = 90


def reading(spark: Any, path: Path, **options: Any) -> Any:
    reader = spark.readStream.format("reactdb").option("read", "changes").schema(SCHEMA)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(path))


def all_now(frame: Any, tmp_path: Path) -> Any:
    """Everything that there is now, appended to a folder of Parquet files."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "parquet"))
    )
    query.awaitTermination()
    return query


def seqs(spark: Any, tmp_path: Path) -> list[int]:
    return sorted(row.seq for row in spark.read.parquet(str(tmp_path / "parquet")).collect())


def make(path: Path, count: int, first: int = 0) -> None:
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games", exist_ok=True)
        for number in range(first, first + count):
            games.insert({"id": number, "n": number})


def test_available_now_keeps_to_the_limit_and_a_restart_goes_on(spark: Any, tmp_path: Path):
    path = tmp_path / "a.db"
    make(path, 10)
    first = all_now(reading(spark, path, maxChangesPerTrigger=4), tmp_path)
    make(path, 5, first=10)
    second = all_now(reading(spark, path, maxChangesPerTrigger=4), tmp_path)

    # The table's own entry counts, and is no row.
    assert [3, 4, 3] == [progress["numInputRows"] for progress in first.recentProgress]
    assert [4, 1] == [progress["numInputRows"] for progress in second.recentProgress]
    assert [*range(2, 17)] == seqs(spark, tmp_path)


def test_new_files_of_a_fleet_are_read(spark: Any, tmp_path: Path):
    (tmp_path / "fleet").mkdir()
    make(tmp_path / "fleet" / "a.db", 3)
    all_now(reading(spark, tmp_path / "fleet"), tmp_path)
    make(tmp_path / "fleet" / "b.db", 2)
    all_now(reading(spark, tmp_path / "fleet"), tmp_path)

    assert [2, 2, 3, 3, 4] == seqs(spark, tmp_path)


def test_a_database_that_was_replaced_fails_with_both_sides(spark: Any, tmp_path: Path):
    path = tmp_path / "a.db"
    make(path, 5)
    all_now(reading(spark, path), tmp_path)
    reactdb.delete_database(path)
    make(path, 3)

    with pytest.raises(
        Exception, match=r"HistoryDiverged.*the stream has read database [0-9a-f]+ up to seq 6"
    ):
        all_now(reading(spark, path), tmp_path)


def test_a_log_that_was_cut_off_fails_unless_data_may_be_lost(spark: Any, tmp_path: Path):
    path = tmp_path / "a.db"
    make(path, 5)
    all_now(reading(spark, path), tmp_path)
    with reactdb.connect(path) as db:
        for number in range(5):
            db.table("games").get(number).update({"n": -number - 1})
        db.compact(keep=2)

    with pytest.raises(Exception, match="changes since seq 6 are gone; the log starts at seq 10"):
        all_now(reading(spark, path), tmp_path)
    all_now(reading(spark, path, failOnDataLoss="false"), tmp_path)
    assert [2, 3, 4, 5, 6, 10, 11] == seqs(spark, tmp_path)


def test_a_stream_of_documents_says_what_to_do(spark: Any, tmp_path: Path):
    make(tmp_path / "a.db", 1)
    frame = (
        spark.readStream.format("reactdb")
        .option("table", "games")
        .schema("id long")
        .load(str(tmp_path / "a.db"))
    )

    with pytest.raises(Exception, match="a stream reads changes: add"):
        all_now(frame, tmp_path)


def test_while_a_writer_goes_on_streams_and_snapshots_agree_with_the_log(spark: Any, tmp_path: Path):
    """Law 2: every snapshot is the state at its seq; and the stream has each change once, within its limit."""
    path = tmp_path / "a.db"
    make(path, 100)
    with reactdb.connect(path, durability="soft") as db, going_on(db):
        heard: dict[int, tuple[str, Any]] = {}
        sizes: list[int] = []

        def take(batch: Any, number: int) -> None:
            rows = batch.collect()
            sizes.append(len(rows))
            for row in rows:
                assert row.seq not in heard
                heard[row.seq] = (row.op, None if row.new is None else row.new.asDict())

        query = reading(spark, path, maxChangesPerTrigger=60).writeStream.foreachBatch(take).start()
        try:
            chance = random.Random(5)
            for _ in range(3):
                seq = chance.randrange(100, db.seq + 1)
                frame = (
                    spark.read.format("reactdb")
                    .option("table", "games")
                    .option("asOf", seq)
                    .schema("id long, n long")
                    .load(str(path))
                )
                found = sorted((row.id, row.n) for row in frame.collect())
                assert [(game["id"], game["n"]) for game in db.at(seq).table("games")] == found
            until = db.seq
            deadline = time.monotonic() + DEADLINE_S
            while max(heard, default=0) < until:
                assert query.exception() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            query.stop()
        expected = {
            change.seq: (change.kind, change.new_val)
            for change in db.log(until=max(heard))
            if change.catalogue is None
        }

    assert expected == heard
    assert max(sizes) <= 60


class going_on:
    """Somebody who goes on writing inside of `with`."""

    def __init__(self, db: Any) -> None:
        self.games = db.table("games")
        self.stop = threading.Event()
        self.failed: list[BaseException] = []
        self.thread = threading.Thread(target=self.work)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *rest: object) -> None:
        self.stop.set()
        self.thread.join()
        assert not self.failed

    def work(self) -> None:
        chance = random.Random(6)
        number = 1_000
        write: list[Callable[[], Any]] = [
            lambda: self.games.get(number % 100).update({"n": number}),
            lambda: self.games.insert({"id": number, "n": number}),
            lambda: self.games.get(chance.randrange(100)).update({"n": -number}),
            lambda: self.games.get(number - 50).delete(),
        ]
        try:
            while not self.stop.wait(0.02):
                number += 1
                chance.choice(write)()
        except BaseException as error:
            self.failed.append(error)
