"""`retention="auto"`: history takes as much room as the rest of the file, or a fixed number of bytes, which is small here."""

from __future__ import annotations

import threading
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from benchmarks.history import has_stopped_growing, written
from reactdb.session import session_of
from reactdb.store import retention, room, schema
from reactdb.store.retention import AUTO, Retention
from reactdb.store.room import Room
from tests.support.inspection import problems
from tests.support.processes import another_process, run_python
from tests.support.scaling import examples

LEAST = 300_000
SPILL: dict[str, Any] = {"on_overflow": "spill", "changefeed_queue_size": 10, "include_seq": True}


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """History may take 300 kB, or as much as all else."""
    monkeypatch.setattr(room, "LEAST_BYTES", LEAST)


def update(games: Any, numbers: range, size: int = 1_000, documents: int = 10) -> None:
    """One commit each, so that retention has its turns."""
    for n in numbers:
        games.insert({"id": n % documents, "n": n, "text": "x" * size}, conflict="replace")


def history(db: Any) -> dict[str, Any]:
    return db.stats()["history"]


class TestHowMuch:
    def test_a_small_file_keeps_all(self, db, games):
        update(games, range(3_000))

        assert 0 == db.stats()["oldest"]
        assert list(range(3_000)) == [change.new_val["n"] for change in db.log(table="games")]
        assert ("auto", 256_000_000) == (history(db)["retention"], history(db)["limit_bytes"])

    def test_history_stops_at_its_limit_and_so_does_the_file(self, db, games, little):
        sizes = []
        for start in range(0, 4_000, 1_000):
            update(games, range(start, start + 1_000))
            found = history(db)
            # Between two looks there may be 500 changes more.
            assert LEAST - 20_000 <= found["bytes"] <= LEAST + 550 * 1_060
            sizes.append(room.measure_used_bytes(session_of(db).engine.writer.connection))
        assert sizes[-1] <= 1.2 * sizes[0]
        assert [3_990 + n for n in range(10)] == sorted(document["n"] for document in games)
        with pytest.raises(reactdb.HistoryLost):
            db.log(0)

    def test_it_may_take_as_much_as_live_documents(self, db, games, little):
        games.insert([{"id": n, "text": "x" * 1_000} for n in range(2_000)])
        update(games, range(1_900), documents=2_000)
        assert 0 == db.stats()["oldest"]

        update(games, range(1_900, 6_000), documents=2_000)

        assert 0 < db.stats()["oldest"]
        assert 1_900_000 <= history(db)["bytes"] <= 1.3 * history(db)["limit_bytes"]

    def test_documents_that_grew_smaller_are_noticed(self, db, games, little):
        """The file does not grow, but what was a document is history."""
        games.insert([{"id": n, "text": "x" * 4_000} for n in range(1_000)])
        for _ in range(3):
            games.update({"text": ""})

        assert (
            history(db)["bytes"]
            < 2_000_000
            < 4_000_000
            < room.measure_used_bytes(session_of(db).engine.writer.connection) + 4_000_000
        )
        assert 0 < db.stats()["oldest"]

    def test_none_keeps_all(self, path, little):
        with reactdb.connect(path, durability="soft", retention=None) as db:
            update(db.table_create("games"), range(2_000))

            assert 0 == db.stats()["oldest"]
            assert (None, None) == (history(db)["retention"], history(db)["limit_bytes"])

    @pytest.mark.slow
    def test_a_file_that_is_written_to_for_long_stops_growing(self, path, monkeypatch):
        """The short form of `python -m benchmarks.history`."""
        monkeypatch.setattr(room, "LEAST_BYTES", 5_000_000)
        moments = list(written(path, 100_000))

        assert has_stopped_growing(moments, 5_000_000)


class TestTheEstimate:
    def sizes(self, db: Any, games: Any, random: Random, count: int) -> None:
        for n in range(count):
            key = random.randrange(50)
            if random.random() < 0.1:
                games.get(key).delete()
            else:
                size = random.choice((10, 100, 100, 1_000))
                games.insert({"id": key, "n": n, "text": "x" * size}, conflict="replace")

    def kept(self, connection: Any) -> int:
        """What the history takes, by a look at every entry."""
        (size,) = connection.execute(
            "SELECT total(40 + length(key) + ifnull(length(body), 0)) FROM log WHERE seq NOT IN (SELECT seq FROM heads)"
        ).fetchone()
        return int(size)

    def test_it_is_exact_where_there_are_few_changes(self, db, games):
        self.sizes(db, games, Random(1), 250)

        connection = session_of(db).engine.writer.connection
        assert self.kept(connection) == Room().history(connection).bytes

    @pytest.mark.parametrize("seed", range(5))
    def test_it_is_near_where_there_are_many(self, db, games, seed):
        with db.transaction():
            self.sizes(db, games, Random(seed), 5_000)

        connection = session_of(db).engine.writer.connection
        assert self.kept(connection) == pytest.approx(Room().history(connection).bytes, rel=0.2)

    def test_it_costs_the_same_however_long_the_log_is(self):
        """Steps of SQLite's machine."""

        def steps(changes: int) -> int:
            with reactdb.connect(":memory:") as db:
                games = db.table_create("games")
                for start in range(0, changes, 1_000):
                    games.insert([{"id": n % 100, "n": start + n} for n in range(1_000)], conflict="replace")
                connection, count = session_of(db).engine.writer.connection, [0]

                def tick() -> int:
                    count[0] += 1
                    return 0

                connection.set_progress_handler(tick, 10)
                Room().history(connection)
                connection.set_progress_handler(None, 10)
                return count[0]

        assert steps(20_000) <= 1.1 * steps(2_000)

    def test_it_is_the_same_for_every_process_and_whoever_only_reads(self, path, little):
        with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
            update(db.table_create("games"), range(2_000))
            with reactdb.connect(path, read_only=True) as reader:
                assert history(db) == history(other) == history(reader)
        with reactdb.connect(path) as again:
            before = history(again)
            assert before["bytes"] > 0
            update(again.table("games"), range(500))
            assert again.stats()["oldest"] > 1_000

    def test_the_lowest_mark_without_so_many_bytes(self):
        found = room.History(low=100, head=1_100, change_bytes=10.0, dropped=[(100, 50), (600, 2_000)])

        assert 12_050 == found.bytes
        assert [100, 100, 101, 600, 600, 601, 1_100, 1_100] == [
            found.mark_without(excess) for excess in (0, 50, 51, 5_050, 7_050, 7_060, 12_050, 99_999)
        ]


class TestDroppedTables:
    def test_they_are_history_and_go_in_small_steps(self, path, little, monkeypatch):
        monkeypatch.setattr(retention, "CHUNK_CHANGES", 300)
        monkeypatch.setattr(retention, "RETAIN_EVERY", 50)
        with reactdb.connect(path, durability="soft") as db:
            big, games = db.table_create("big"), db.table_create("games")
            big.index_create("n")
            big.insert([{"id": n, "n": n, "text": "x" * 1_000} for n in range(2_000)])
            db.table_drop("big")
            entries = []
            for start in range(0, 4_000, 50):
                update(games, range(start, start + 50), size=10)
                entries.append(
                    session_of(db)
                    .engine.writer.connection.execute("SELECT count(*) FROM heads")
                    .fetchone()[0]
                )
                if start in (300, 800, 1_200):
                    assert [] == problems(path)

            assert 10 == entries[-1]
            gone = [before - after for before, after in pairwise(entries)]
            assert 0 < max(gone) <= 300
            # Nothing else needed to go.
            assert db.stats()["oldest"] < 3_000
            assert [] == problems(path)

    def test_compact_removes_them_in_steps_too(self, path, monkeypatch):
        monkeypatch.setattr(retention, "CHUNK_CHANGES", 70)
        with reactdb.connect(path) as db:
            for name in ("a", "b"):
                table = db.table_create(name)
                table.index_create("tags", multi=True)
                table.insert([{"id": n, "tags": [n, n + 1]} for n in range(200)])
                db.table_drop(name)
            removed = db.compact(keep=0)

            assert (2, db.seq) == (removed["tables"], removed["oldest"])
            assert 2 * 200 * 4 <= removed["entries"]
        assert [] == problems(path)


class TestBlobs:
    def test_those_that_only_history_names_are_history(self, db, games):
        for n in range(10):
            games.insert({"id": 1, "file": db.blobs.put(bytes([n]) * 50_000)}, conflict="replace")
        for n in range(3):
            games.get(1).update({"n": n})
        connection = session_of(db).engine.writer.connection

        # The newest is live, and each version with it names it.
        assert 9 * 50_000 < Room().history(connection).bytes < 9 * 50_000 + 5_000
        db.table_drop("games")
        assert 10 * 50_000 < Room().history(connection).bytes < 10 * 50_000 + 5_000


class TestSteps:
    @pytest.fixture
    def steps(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
        """(how many changes the mark was moved by, entries removed), of each step."""
        made = []
        step = retention.compact_step

        def noted(connection: Any, target: int, most: int) -> Any:
            low = retention.read_low_water(connection)
            more, removed = step(connection, target, most)
            made.append((removed.oldest - low, removed.entries))
            return more, removed

        monkeypatch.setattr(retention, "compact_step", noted)
        return made

    def test_no_step_removes_more_than_its_share(self, db, games, little, steps):
        games.insert([{"id": n, "text": "x" * 100} for n in range(1_000)])
        for n in range(20):
            games.update({"n": n})

        assert len(steps) > 5
        assert max(moved for moved, _ in steps) <= retention.CHUNK_CHANGES
        # An entry for each change, and for a deletion itself.
        assert max(removed for _, removed in steps) <= 2 * retention.CHUNK_CHANGES
        assert 0 < history(db)["bytes"] < 3 * LEAST

    def test_large_documents_make_small_steps(self, db, games, little, steps, monkeypatch):
        monkeypatch.setattr(retention, "CHUNK_BYTES", 50_000)
        update(games, range(2_000))

        assert max(removed for _, removed in steps) <= 51
        games.insert({"id": 1, "text": "x" * 200_000}, conflict="replace")
        games.insert({"id": 1, "text": ""}, conflict="replace")
        assert db.seq == db.compact(keep=0)["oldest"]

    @pytest.mark.slow
    def test_a_step_costs_the_same_however_much_there_is_that_stays(self):
        """Tombstones past the mark, and index entries of a dropped table that it does not come to; steps of SQLite's machine."""

        def steps(documents: int) -> tuple[int, int]:
            with reactdb.connect(":memory:", retention=None) as db:
                games = db.table_create("games")
                for index in ("a", "b"):
                    games.index_create(index)
                for start in range(0, documents, 1_000):
                    games.insert([{"id": start + n, "a": n, "b": n} for n in range(1_000)])
                games.delete()
                deletions = steps_of(db, documents + 500)
                games.insert([{"id": n, "a": n, "b": n} for n in range(documents)])
                db.table_drop("games")
                return deletions, steps_of(db, db.seq)

        def steps_of(db: Any, target: int) -> int:
            connection, count = session_of(db).engine.writer.connection, 0

            def tick() -> int:
                nonlocal count
                count += 1
                return 0

            connection.execute("BEGIN IMMEDIATE")
            while retention.compact_step(connection, target - 300)[0]:
                pass
            connection.set_progress_handler(tick, 100)
            try:
                retention.compact_step(connection, target, 300)
            finally:
                connection.set_progress_handler(None, 100)
                connection.execute("ROLLBACK")
            return count

        few, many = steps(2_000), steps(20_000)
        assert many[0] <= 1.2 * few[0]
        assert many[1] <= 1.2 * few[1]

    def test_a_commit_stays_one_where_there_is_no_memory_to_look_what_is_not_kept(self, path, monkeypatch):
        """SQLite has none for a statement after COMMIT: whoever wrote is not told that the write failed, because it did not."""

        def out_of_memory(*_: object) -> bool:
            raise MemoryError

        with reactdb.connect(path, durability="soft") as db:
            games = db.table_create("games")
            monkeypatch.setattr(retention, "has_dropped", out_of_memory)
            monkeypatch.setattr(session_of(db).engine.writer.compaction, "look_at", 0)
            games.insert({"id": 1})
            games.insert({"id": 2})

            assert [1, 2] == [document["id"] for document in games]

    def test_a_checkpoint_that_is_due_is_left_to_the_next_commit(self, path, little, monkeypatch):
        """Else a commit would wait for both."""
        with reactdb.connect(path, durability="soft") as db:
            games = db.table_create("games")
            checkpoints, looked = session_of(db).engine.writer.checkpoints, []
            after_commit = checkpoints.after_commit

            def noted(wal_bytes: int) -> None:
                looked.append(wal_bytes)
                after_commit(wal_bytes)

            monkeypatch.setattr(checkpoints, "after_commit", noted)
            update(games, range(1_000))
            assert 0 < db.stats()["oldest"]
            assert 1_000 == len(looked)

            # What was asked for, or is owed, waits for nobody's commit.
            db.compact(keep=0)
            assert 1_000 < len(looked)

    def test_a_small_commit_makes_one_step_at_most(self, db, games, little, steps, monkeypatch):
        update(games, range(450))
        games.insert([{"id": 1_000 + n, "text": "x" * 100} for n in range(10_000)], conflict="replace")
        games.update({"n": 1})
        db.set_retention(10)
        monkeypatch.setattr(retention, "CHUNK_CHANGES", 100)
        steps.clear()
        counts = []
        for n in range(1_200):
            games.get(1_000 + n).update({"n": n})
            counts.append(len(steps))
            steps.clear()

        assert {0, 1} == set(counts)

    def test_others_write_between_the_steps_that_a_large_commit_owes(self, path, monkeypatch):
        monkeypatch.setattr(retention, "CHUNK_CHANGES", 100)
        with reactdb.connect(path, durability="soft", retention=100) as db:
            games = db.table_create("games")
            games.insert([{"id": n} for n in range(2_000)])
            step, turns = retention.compact_step, []

            def noted(connection: Any, target: int, most: int) -> Any:
                if len(turns) == 2:
                    # Somebody else comes while a step is made; it is served before the next one.
                    writer = threading.Thread(target=lambda: games.insert({"id": -1}))
                    turns.append(writer)
                    writer.start()
                    while not len(session_of(db).engine.write_queue) > 1:
                        pass
                    return step(connection, target, most)
                turns.append(games.get(-1).run() is not None)
                return step(connection, target, most)

            monkeypatch.setattr(retention, "compact_step", noted)
            games.update({"n": 1})
            turns[2].join()

        assert [False, False] == turns[:2]
        assert turns[3:]
        assert all(turns[3:])

    def test_a_step_that_fails_in_the_middle_leaves_everything_as_it_was(
        self, path, little, monkeypatch, caplog
    ):
        with reactdb.connect(path, durability="soft") as db:
            games = db.table_create("games")
            update(games, range(900))
            oldest = db.stats()["oldest"]

            def fail(*arguments: Any) -> None:
                raise reactdb.errors.DiskFull("no room left")

            with monkeypatch.context() as patch:
                patch.setattr(retention, "set_fact", fail)
                update(games, range(900, 1_500))
                assert oldest == db.stats()["oldest"]
                assert [899, 900] == [
                    change.new_val["n"] for change in db.log(oldest) if change.new_val["n"] in (899, 900)
                ]
            assert "removing old history" in caplog.text
            assert [] == problems(path)
            update(games, range(1_500, 2_600))

            assert oldest < db.stats()["oldest"]

    def test_a_program_that_dies_in_the_middle_of_a_step_leaves_the_file_whole(self, path):
        program = """
import os, sys
import reactdb
from reactdb.store import retention, room

room.LEAST_BYTES = 100_000
step = retention.compact_step
steps = 0

def die(*arguments):
    global steps
    steps += 1
    made = step(*arguments)
    if steps == 3:
        print(oldest, flush=True)
        os._exit(0)
    return made

retention.compact_step = die
db = reactdb.connect(sys.argv[1], durability="soft")
games = db.table_create("games")
for n in range(100_000):
    if n % 500 == 499:
        oldest = db.stats()["oldest"]
    games.insert({"id": n % 10, "n": n, "text": "x" * 500}, conflict="replace")
"""
        oldest = int(run_python(program, path))

        with reactdb.connect(path, durability="soft") as db:
            assert oldest <= db.stats()["oldest"]
            log = list(db.log(db.stats()["oldest"]))
            numbers = [change.new_val["n"] for change in log]
            assert list(range(numbers[0], numbers[0] + len(log))) == numbers
            update(db.table("games"), range(600))
        assert [] == problems(path)


class TestTheFileSays:
    def test_what_was_said_holds_for_whoever_opens_the_file(self, path):
        with reactdb.connect(path, retention=100):
            pass
        with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
            assert 100 == history(db)["retention"] == history(other)["retention"]
            update(other.table_create("games"), range(2_000), size=1)
            assert db.stats()["oldest"] > 1_000
            db.set_retention(timedelta(days=7))
            assert timedelta(days=7) == history(other)["retention"]
            db.set_retention(None)
            assert history(other)["retention"] is None
            other.set_retention("auto")
            assert "auto" == history(db)["retention"]

    def test_who_says_nothing_removes_nothing_of_who_keeps_all(self, path, little):
        with reactdb.connect(path, retention=None):
            pass
        with reactdb.connect(path, durability="soft") as db:
            update(db.table_create("games"), range(1_500))
            assert 0 == db.stats()["oldest"]

    def test_who_says_the_same_again_writes_nothing(self, path):
        with reactdb.connect(path, retention=7) as db, another_process(path) as other:
            with other.transaction():
                # The write lock is held.
                reactdb.connect(path, retention=7, busy_timeout=0.0).close()
                with pytest.raises(reactdb.DatabaseBusy):
                    reactdb.connect(path, retention=8, busy_timeout=0.0)
            assert 7 == history(db)["retention"]

    def test_a_reader_cannot_say_it(self, path):
        reactdb.connect(path).close()
        with reactdb.connect(path, read_only=True) as reader:
            assert "auto" == history(reader)["retention"]
            with pytest.raises(reactdb.errors.ReadOnlyDatabase):
                reader.set_retention(5)
        with pytest.raises(reactdb.InvalidOption, match="read_only"):
            reactdb.connect(path, read_only=True, retention=5)

    def test_what_a_later_version_says_removes_nothing(self, path, little):
        with reactdb.connect(path, durability="soft") as db:
            session_of(db).transact(
                lambda transaction: (
                    schema.set_fact(transaction.connection, "retention", "moons 3")
                    or setattr(transaction, "has_other_rows", True)
                )
            )
            update(db.table_create("games"), range(1_500))

            assert 0 == db.stats()["oldest"]
            assert history(db)["retention"] is None

    @pytest.mark.parametrize("given", [-1, "all", "AUTO", 1.5, True, timedelta(-1)])
    def test_a_mistake_is_said(self, db, given):
        with pytest.raises(reactdb.InvalidOption, match="retention"):
            db.set_retention(given)
        with pytest.raises(reactdb.InvalidOption, match="keep"):
            db.compact(keep=given)

    def test_compact_is_not_told_auto(self, db):
        with pytest.raises(
            reactdb.InvalidOption, match="keep is a number of changes or a timedelta, not 'auto'"
        ):
            db.compact(keep="auto")

    def test_as_it_is_taken_so_it_is_given(self):
        for value in ("auto", 0, 5, timedelta(), timedelta(hours=3)):
            found = Retention.setting(value)
            assert found is not None
            assert value == found.value
        assert AUTO == Retention.setting("auto")


class TestWhoIsBehind:
    def test_a_feed_and_a_consumer_hold_what_they_have_still_to_read(self, path, little):
        with reactdb.connect(path, durability="soft") as db:
            games = db.table_create("games")
            consumer, start = db.consumer("uploader", games), db.seq
            update(games, range(100))
            with games.changes(**SPILL, since=start).cursor() as cursor:
                update(games, range(100, 2_000))
                assert start >= db.stats()["oldest"]
                feed, uploader = (
                    {"by": by, "from": start} for by in ("a feed of this process", "consumer 'uploader'")
                )
                assert [feed, uploader] == history(db)["holds"]
                assert list(range(start + 1, start + 2_001)) == [
                    cursor.next(timeout=10)["seq"] for _ in range(2_000)
                ]
                assert [uploader] == history(db)["holds"]
                update(games, range(2_000, 3_000))
                assert start >= db.stats()["oldest"]
                with consumer.batches(max_changes=3_000, max_wait_s=0) as batches, next(batches) as batch:
                    assert 3_000 == len(batch)
            assert [] == history(db)["holds"]
            update(games, range(3_000, 4_000))

            assert db.stats()["oldest"] > 2_000

    def test_past_the_limit_that_the_file_names_it_is_lost(self, path, little):
        with reactdb.connect(path, durability="soft") as db:
            games = db.table_create("games")
            db.hold(500)
            consumer = db.consumer("uploader", games)
            update(games, range(3_000))

            assert db.stats()["oldest"] > 1_000
            assert db.consumers()[0]["is_lost"]
            with pytest.raises(reactdb.HistoryLost), consumer.batches(max_wait_s=0) as batches:
                next(batches)


OPERATIONS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 60)),
    st.tuples(st.just("bulk"), st.integers(1, 200)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("drop"), st.integers(1, 40)),
    st.tuples(st.just("read"), st.integers(1, 80)),
    st.tuples(st.just("consume"), st.integers(1, 80)),
    st.tuples(st.just("compact"), st.integers(0, 30)),
)


@settings(max_examples=examples(30))
@given(operations=st.lists(OPERATIONS, min_size=5, max_size=30), chunk=st.integers(1, 60))
def test_nothing_goes_that_somebody_has_still_to_read(operations: list[tuple[str, int]], chunk: int):
    """Law: whatever auto removes, documents stay, the rest of the log is whole, and who reads on is told every change."""
    with pytest.MonkeyPatch.context() as patch, reactdb.connect(":memory:") as db:
        for module, name, value in (
            (room, "LEAST_BYTES", 2_000),
            (retention, "RETAIN_EVERY", 5),
            (retention, "CHUNK_CHANGES", chunk),
        ):
            patch.setattr(module, name, value)
        games = db.table_create("games")
        consumer = db.consumer("c", games)
        expected: dict[int, int] = {}
        seqs: list[int] = []
        told: list[int] = []
        handled: list[int] = []
        count = 0
        with games.changes(**SPILL).cursor() as cursor, consumer.batches(max_wait_s=0) as batches:

            def read(most: int) -> None:
                try:
                    told.extend(cursor.next(timeout=0)["seq"] for _ in range(most))
                except TimeoutError:
                    pass

            def consume(most: int) -> None:
                while most > 0 and (batch := batches.poll()) is not None:
                    with batch:
                        handled.extend(change["seq"] for change in batch)
                        most -= len(batch)

            for what, number in operations:
                before = db.seq
                if what == "write":
                    for _ in range(number):
                        count += 1
                        games.insert({"id": count % 10, "n": count}, conflict="replace")
                        expected[count % 10] = count
                elif what == "bulk":
                    games.insert([{"id": n % 10, "n": count + n} for n in range(number)], conflict="replace")
                    expected |= {n % 10: count + n for n in range(number)}
                    count += number
                elif what == "delete":
                    games.get(number).delete()
                    expected.pop(number, None)
                elif what == "drop":
                    db.table_create("other").insert([{"id": n} for n in range(number)])
                    db.table_drop("other")
                elif what == "read":
                    read(number)
                elif what == "consume":
                    consume(number)
                else:
                    db.compact(keep=number)
                if what in ("write", "bulk", "delete"):
                    seqs.extend(range(before + 1, db.seq + 1))
                oldest = db.stats()["oldest"]
                assert list(range(oldest + 1, db.seq + 1)) == [change.seq for change in db.log(oldest)]
                assert expected == {document["id"]: document["n"] for document in games}
            read(db.seq)
            consume(db.seq)
        assert seqs == told == handled
