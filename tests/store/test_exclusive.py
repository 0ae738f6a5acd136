"""exclusive=True: one process alone has the file. What others are told, that reads and feeds are as ever, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import desc, row
from reactdb.errors import (
    DatabaseBusy,
    DatabaseClosed,
    ForkedDatabase,
    InvalidOption,
    StorageMoved,
    UsageError,
)
from reactdb.store.engine import Engine
from reactdb.store.exclusive import ExclusiveEngine
from reactdb.store.file import sqlite
from tests.support.hearing import PATIENCE_S

TRY = """
import sys, reactdb
try:
    reactdb.connect(sys.argv[1], busy_timeout=float(sys.argv[2]), **eval(sys.argv[3])).close()
except reactdb.ReactDBError as error:
    print(type(error).__name__, error)
else:
    print("opened")
"""
HOLD = """
import sys, reactdb
db = reactdb.connect(sys.argv[1], exclusive=True, durability=sys.argv[2])
games = db.table_create("games", exist_ok=True)
for n in range(200):
    games.insert({"id": n})
print("written", flush=True)
sys.stdin.readline()
db.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def db(path: Path) -> Any:
    with reactdb.connect(path, exclusive=True, durability="soft") as db:
        yield db


@pytest.fixture
def games(db: Any) -> Any:
    return db.table_create("games")


def elsewhere(path: Path, wait_s: float = 0.05, **options: Any) -> str:
    """What another process is told that opens the file."""
    done = subprocess.run(
        [sys.executable, "-c", TRY, str(path), str(wait_s), repr(options)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def in_thread(work: Callable[[], Any]) -> list[Any]:
    """What it gave, or raised, in another thread."""
    came: list[Any] = []

    def run() -> None:
        try:
            came.append(work())
        except BaseException as error:
            came.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    return came


class TestOthers:
    @pytest.mark.parametrize("options", [{}, {"read_only": True}, {"exclusive": True}], ids=str)
    def test_another_process_is_told_who_has_the_file_and_what_to_do(self, db, path, options):
        told = elsewhere(path, **options)

        assert told.startswith(
            f"DatabaseBusy open: {path} is locked by another process, {os.getpid()}, which has it open with"
        )
        assert told.endswith("close it there, or open it there without exclusive=True")

    def test_another_process_can_open_it_when_it_was_closed(self, path):
        reactdb.connect(path, exclusive=True).close()

        assert "opened" == elsewhere(path)

    def test_another_process_waits_for_it_to_be_closed(self, path):
        db = reactdb.connect(path, exclusive=True)
        other = subprocess.Popen(
            [sys.executable, "-c", TRY, str(path), "60", "{}"], stdout=subprocess.PIPE, text=True
        )
        db.close()

        assert "opened\n" == other.communicate(timeout=60)[0]

    def test_what_is_open_elsewhere_is_waited_for_and_then_refused(self, path):
        with reactdb.connect(path):
            told = elsewhere(path, exclusive=True)

        assert (
            f"DatabaseBusy open: {path} is open in process {os.getpid()} too, and exclusive=True needs it alone"
            in told
        )
        assert "opened" == elsewhere(path, exclusive=True)

    def test_a_file_that_another_process_has_open_without_is_refused_here(self, path):
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD.replace("exclusive=True, ", ""), str(path), "soft"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert holder.stdout is not None
        assert "written\n" == holder.stdout.readline()
        with pytest.raises(DatabaseBusy, match=f"is open in process {holder.pid} too"):
            reactdb.connect(path, exclusive=True, busy_timeout=0.05)
        holder.communicate("\n", timeout=60)
        with reactdb.connect(path, exclusive=True) as db:
            assert 200 == db.table("games").count().run()

    def test_a_second_handle_is_on_the_same_engine(self, db, games, path):
        with reactdb.connect(path, exclusive=True) as second:
            games.insert({"id": 1})

            assert {"id": 1} == second.table("games").get(1).run()
            assert second.session.engine is db.session.engine

    @pytest.mark.parametrize("options", [{}, {"read_only": True}], ids=str)
    def test_another_setting_in_this_process_is_an_error(self, db, path, options):
        with pytest.raises(
            UsageError, match="is open in this process with exclusive=True: connect with it here too"
        ):
            reactdb.connect(path, **options)

    @pytest.mark.parametrize("options", [{}, {"read_only": True}], ids=str)
    def test_nor_can_it_be_had_alone_where_this_process_has_it_open_without(self, path, options):
        reactdb.connect(path).close()
        with (
            reactdb.connect(path, **options),
            pytest.raises(UsageError, match="is open in this process without exclusive=True"),
        ):
            reactdb.connect(path, exclusive=True)

    def test_who_only_reads_cannot_have_it_alone(self, path):
        with pytest.raises(InvalidOption, match="exclusive=True is for who writes"):
            reactdb.connect(path, exclusive=True, read_only=True)

    def test_the_option_is_true_or_false(self, path):
        with pytest.raises(InvalidOption, match="exclusive is True or False, not 1"):
            reactdb.connect(path, exclusive=1)  # type: ignore[arg-type]

    def test_in_memory_it_changes_nothing(self):
        with (
            reactdb.connect(":memory:", exclusive=True) as one,
            reactdb.connect(":memory:", exclusive=True) as other,
        ):
            one.table_create("games")

            assert [] == other.table_list()

    def test_a_database_that_is_open_so_is_not_removed(self, db, path):
        with pytest.raises(DatabaseBusy, match="is open in this process"):
            reactdb.remove(path)

    def test_there_is_no_shared_memory_and_nothing_but_the_file_is_left(self, db, games, path):
        games.insert({"id": 1})
        assert not path.with_name("a.db-shm").exists()
        db.close()

        assert ["a.db"] == os.listdir(path.parent)

    def test_who_does_not_ask_for_it_gets_the_ordinary_engine(self, path):
        with reactdb.connect(path) as db:
            assert type(db.session.engine) is Engine
        with reactdb.connect(path, exclusive=True) as db:
            assert type(db.session.engine) is ExclusiveEngine


class TestReading:
    def test_what_is_read_is_what_was_written(self, db, games):
        games.index_create("score")
        games.insert([{"id": n, "score": n % 7} for n in range(100)])
        games.get(3).delete()
        before = db.seq
        games.get(4).update({"score": row["score"] + 1})

        assert 99 == games.count().run()
        assert games.get(3).run() is None
        assert [6, 6] == [one["score"] for one in games.order_by(index=desc("score")).limit(2)]
        assert 4 == db.at(before).table("games").get(4).run()["score"]
        assert [4, 5] == [change.new_val["score"] for change in games.get(4).history() if change.new_val]
        assert db.stats()["tables"] == {"games": 99}

    def test_a_transaction_reads_its_own_writes_and_a_token_is_of_before(self, db, games):
        games.insert({"id": 1})
        before = db.token
        with db.transaction():
            games.insert({"id": 2})

            assert 2 == games.count().run()
            assert {"id": 2} == games.get(2).run()
            assert before == db.token

    def test_other_threads_read_when_the_transaction_is_done(self, db, games):
        began, reading = threading.Event(), threading.Event()

        def write() -> None:
            with db.transaction():
                games.insert({"id": 1})
                began.set()
                assert reading.wait(PATIENCE_S)
                games.insert({"id": 2})

        writer = threading.Thread(target=write)
        writer.start()
        assert began.wait(PATIENCE_S)
        reading.set()

        assert [2] == in_thread(lambda: games.count().run())
        writer.join(PATIENCE_S)

    def test_a_read_that_waits_too_long_says_what_for(self, path):
        with reactdb.connect(path, exclusive=True, busy_timeout=0.05) as db:
            games = db.table_create("games")
            with db.transaction():
                games.insert({"id": 1})
                found = in_thread(lambda: games.get(1).run()) + in_thread(lambda: games.count().run())

        assert 2 == len(found)
        for error in found:
            assert isinstance(error, DatabaseBusy)
            assert "has one for all, and reads wait for the transaction that is going on" in str(error)

    def test_threads_that_read_and_write_at_once_lose_nothing(self, db, games):
        games.insert({"id": "visits", "count": 0})

        def visit() -> None:
            for _ in range(50):
                games.get("visits").update({"count": row["count"] + 1})
                assert games.get("visits").run()["count"] >= 1
                assert 1 == games.count().run()

        threads = [threading.Thread(target=visit) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)

        assert {"id": "visits", "count": 200} == games.get("visits").run()

    def test_a_callable_may_read_inside_of_a_read(self, db, games):
        games.insert([{"id": 1, "other": 2}, {"id": 2, "other": 1}])

        assert 2 == len(games.filter(lambda one: games.get(one["other"]).run()["other"] == one["id"]).run())
        assert 2 == len(games.filter(lambda one: games.count().run() == 2).run())

    def test_a_callable_that_writes_inside_of_a_read_is_refused_at_once(self, db, games):
        games.insert({"id": 1})

        with pytest.raises(DatabaseBusy, match="this thread is inside of a read"):
            games.filter(lambda one: games.insert({"id": 2})).run()
        games.insert({"id": 3})
        assert 2 == games.count().run()

    def test_after_closing_it_is_closed_for_every_thread(self, db, games):
        games.insert({"id": 1})
        db.close()

        for read in (lambda: games.get(1).run(), lambda: games.run(), lambda: db.seq):
            assert isinstance(in_thread(read)[0], DatabaseClosed)


class TestFeeds:
    def test_feeds_tell_what_every_thread_writes(self, db, games):
        told: list[Any] = []
        games.insert({"id": 0})
        games.filter(row["id"] < 3).changes(include_initial=True).subscribe(told.append)
        in_thread(lambda: games.insert({"id": 1}))
        games.insert([{"id": 2}, {"id": 3}])

        assert [0, 1, 2] == [one["new_val"]["id"] for one in told]

    def test_a_window_that_must_be_refilled_reads_while_it_is_told(self, db, games):
        games.index_create("score")
        games.insert([{"id": n, "score": n} for n in range(200)])
        told: list[Any] = []
        games.order_by(index=desc("score")).limit(2).changes().subscribe(told.append)
        for n in range(199, 99, -1):
            games.get(n).delete()

        assert 98 == told[-1]["new_val"]["id"]

    def test_a_subscriber_may_write_and_read(self, db, games):
        other = db.table_create("other")
        games.changes().subscribe(lambda one: other.insert({"id": games.count().run()}))
        games.insert({"id": 1})
        games.insert({"id": 2})

        assert [1, 2] == sorted(one["id"] for one in other.run())

    def test_subscribing_while_others_write_leaves_no_gap(self, db, games):
        stop = threading.Event()

        def write() -> None:
            n = 0
            while not stop.is_set():
                games.insert({"id": n})
                n += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(20):
                told: list[Any] = []
                subscription = games.changes(include_initial=True).subscribe(told.append)
                with db.transaction():
                    count = games.count().run()
                subscription.dispose()
                ids = [one["new_val"]["id"] for one in told]
                assert len(set(ids)) == len(ids)
                assert set(range(count - 1)) <= set(ids)
        finally:
            stop.set()
            writer.join(PATIENCE_S)

    def test_a_feed_resumes_from_its_token(self, db, games, path):
        games.insert({"id": 1})
        token = db.token
        games.insert({"id": 2})
        db.close()
        with reactdb.connect(path, exclusive=True) as again:
            told: list[Any] = []
            again.table("games").changes(since=token).subscribe(told.append)

            assert [2] == [one["new_val"]["id"] for one in told]

    def test_nothing_is_read_for_others_because_nobody_else_can_write(self, db, games):
        """The file is followed only to see whether it is still there."""
        # Those of other tests may be collected in between, so it is asked which are new.
        connections = list(sqlite.tracked)
        with games.changes().cursor():
            assert [] == [one for one in list(sqlite.tracked) if one not in connections]


class TestTheFile:
    def test_a_checkpoint_empties_the_log(self, path, monkeypatch):
        monkeypatch.setattr("reactdb.store.checkpoints.CHECKPOINT_BYTES", 100_000)
        with reactdb.connect(path, exclusive=True, durability="soft") as db:
            games = db.table_create("games")
            for n in range(300):
                games.insert({"id": n, "text": "x" * 1000})

            assert path.with_name("a.db-wal").stat().st_size < 300_000
            assert path.stat().st_size > 200_000
            assert db.stats()["checkpoint"]["is_healthy"]

    def test_history_is_compacted_and_the_file_vacuumed(self, db, games):
        for n in range(50):
            games.insert({"id": 1, "n": n}, conflict="replace")

        assert 49 == db.compact(keep=0, vacuum=True)["entries"]
        assert {"id": 1, "n": 49} == games.get(1).run()

    def test_a_log_that_was_taken_away_is_noticed_before_anything_is_acknowledged(self, db, games, path):
        games.insert({"id": 1})
        path.with_name("a.db-wal").unlink()

        with pytest.raises(StorageMoved):
            games.insert({"id": 2})

    @pytest.mark.parametrize("durability", ["soft", "hard"])
    @pytest.mark.parametrize("exclusive", [False, True])
    def test_a_process_that_was_killed_leaves_everything_it_acknowledged(self, path, durability, exclusive):
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path), durability],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert holder.stdout is not None
        assert "written\n" == holder.stdout.readline()
        holder.send_signal(signal.SIGKILL)
        holder.communicate(timeout=60)

        with reactdb.connect(path, exclusive=exclusive) as db:
            assert 200 == db.table("games").count().run()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    def test_a_child_of_fork_is_told_and_the_parent_goes_on(self, db, games, path):
        games.insert({"id": 1})
        came, told = os.pipe()
        child = os.fork()
        if not child:
            words = []
            for use in (
                lambda: games.get(1).run(),
                lambda: games.insert({"id": 9}),
                lambda: reactdb.connect(path),
            ):
                try:
                    use()
                    words.append("worked")
                except ForkedDatabase:
                    words.append("forked")
            os.write(told, " ".join(words).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(told)
        assert b"forked forked forked" == os.read(came, 1000)
        os.close(came)
        games.insert({"id": 2})

        assert 2 == games.count().run()
        assert elsewhere(path).startswith("DatabaseBusy")
        db.close()
        with reactdb.connect(path) as again:
            assert 2 == again.table("games").count().run()

    def test_an_older_format_is_brought_to_todays(self, tmp_path):
        from tests.support.kept_files import contents, expected, kept, unpack

        for name in kept():
            kept_path = unpack(name, tmp_path)
            reactdb.connect(kept_path, exclusive=True).close()
            assert contents(kept_path) == expected(name)
