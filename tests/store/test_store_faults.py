"""Failures at the worst moment: threads, forks, other processes and full queues. The data stays right."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import reactdb
from reactdb import desc, row
from reactdb.database import Database
from reactdb.errors import DiskFull
from reactdb.feeds.position import resolve_since
from reactdb.session import session_of
from reactdb.store import retention, schema
from reactdb.store.file import sqlite
from reactdb.store.write_queue import Waiter, WriteQueue
from tests.support.processes import another_process
from tests.support.threads import wait_until


class Listener:
    """A CommitListener that keeps what it is told."""

    open_views = ("one",)

    def __init__(self) -> None:
        self.commits: list[reactdb.Commit] = []

    def route(self, commit: reactdb.Commit) -> None:
        self.commits.append(commit)

    def abort(self, error: reactdb.errors.FeedError) -> None:
        raise AssertionError(error)

    def lowest_needed(self, oldest: int) -> int | None:
        return None

    def tidy(self) -> None:
        pass

    def drain(self, *, is_outside: bool = False) -> None:
        pass

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass


class TestInserts:
    def test_the_duplicate_is_named_also_where_keys_were_deleted_before(self, games):
        games.insert({"id": 0})
        games.get(0).delete()
        games.insert({"id": "taken", "old": True})

        with pytest.raises(reactdb.DuplicateKey) as caught:
            games.insert([{"id": 1}, {"id": 0}, {"id": "taken", "new": True}])
        assert "old" in str(caught.value)
        assert "new" in str(caught.value)

    @pytest.mark.parametrize("has_graves", [False, True])
    @pytest.mark.parametrize("is_nested", [False, True])
    def test_a_key_that_comes_twice_is_named(self, db, games, has_graves, is_nested):
        if has_graves:
            games.insert({"id": 0})
            games.get(0).delete()

        def insert() -> None:
            with pytest.raises(reactdb.DuplicateKey) as caught:
                games.insert([{"id": 1}, {"id": 2, "n": "first"}, {"id": 2, "n": "second"}])
            assert "first" in str(caught.value)
            assert "second" in str(caught.value)

        if is_nested:
            with db.transaction():
                games.insert({"id": 5})
                insert()
            assert [{"id": 5}] == games.run()
        else:
            insert()
            assert [] == games.run()

    def test_a_function_given_to_a_write_must_not_write(self, db, games):
        """What it was called for may not be what it was any more."""
        games.insert([{"id": 1, "n": 1}, {"id": 2, "n": 2}])

        def meddle(document: Any) -> Any:
            games.get(1).update({"n": 100})
            return {"n": 5}

        for write in (
            lambda: games.update(meddle),
            lambda: games.replace(meddle),
            lambda: games.filter(meddle).delete(),
            lambda: games.insert({"id": 1, "n": 3}, conflict=lambda key, old, new: meddle(old)),
            lambda: games.get(1).update(lambda document: games.index_create("n")),
        ):
            with pytest.raises(reactdb.UsageError, match="must not write itself"):
                write()
        assert [{"id": 1, "n": 1}, {"id": 2, "n": 2}] == games.run()
        assert [] == games.index_list()
        assert 3 == db.seq


class TestPages:
    @pytest.fixture
    def many(self, games, monkeypatch):
        """1,000 documents of three index values, read in pages that are much smaller."""
        monkeypatch.setattr("reactdb.documents.access_path.PAGE_PLACES", 2)
        games.index_create("a")
        games.index_create("tags", multi=True)
        games.insert([{"id": n, "a": n // 400, "tags": ["x", "x", str(n % 2)]} for n in range(1000)])
        return games

    @pytest.mark.parametrize("index", ["a", "tags", "id"])
    @pytest.mark.parametrize("turn", [lambda index: index, desc])
    def test_more_equal_values_than_a_page_holds(self, many, index, turn):
        """A filter that lets nothing pass makes the walk go on to the end, once, and not for ever."""
        every = many.order_by(index=turn(index)).run()

        assert [] == many.order_by(index=turn(index)).filter(row["id"] < 0).limit(3).run()
        assert every[:7] == many.order_by(index=turn(index)).limit(7).run()
        assert every[5:12] == many.order_by(index=turn(index)).skip(5).limit(7).run()
        wanted = [document for document in every if document["id"] % 97 == 5]
        assert wanted[:14] == many.order_by(index=turn(index)).filter(row["id"] % 97 == 5).limit(14).run()


class TestOrders:
    @pytest.fixture
    def filled(self, games):
        games.index_create("a")
        games.insert(
            [
                {"id": 1, "a": 2, "b": 1},
                {"id": 2, "a": 1, "b": 2},
                {"id": 3, "a": 1, "b": 1},
                {"id": 4, "b": 0},
            ]
        )
        return games

    def test_keys_break_the_ties_of_an_index(self, filled):
        assert [3, 2, 1] == [document["id"] for document in filled.order_by("b", index="a")]
        assert [1, 2, 3] == [document["id"] for document in filled.order_by(desc("b"), index=desc("a"))]
        assert [3, 2] == [document["id"] for document in filled.order_by("b", index="a").limit(2)]
        assert [3, 2] == [
            document["id"] for document in filled.between(0, 1.5, index="a").order_by("b", index="a")
        ]

    def test_without_arguments_it_is_the_order_of_the_primary_key(self, filled):
        assert [1, 3] == [document["id"] for document in filled.get_all(3, 1).order_by()]
        assert [1, 2, 3] == [document["id"] for document in filled.between(0, 9, index="a").order_by()]
        assert [1, 2, 3, 4] == [document["id"] for document in filled.order_by()]
        assert [1, 2, 3] == [document["id"] for document in filled.order_by("b").limit(4).order_by().limit(3)]


class TestPast:
    def test_a_view_of_the_past_takes_no_notice_of_what_is_not_committed(self, db, games):
        games.insert({"id": 1})
        then = db.at(db.seq).table("games")
        with pytest.raises(ZeroDivisionError), db.transaction():
            games.insert({"id": 2})
            assert [{"id": 1}] == then.run()
            raise ZeroDivisionError
        games.insert({"id": 3})

        assert [{"id": 1}] == then.run()
        assert [{"id": 1}, {"id": 3}] == db.at(db.seq).table("games").run()

    def test_a_view_of_the_past_can_be_read_while_others_write(self, db, games):
        games.insert([{"id": n} for n in range(200)])
        then = db.at(db.seq).table("games")
        done = threading.Event()

        def write() -> None:
            for n in range(400):
                games.insert({"id": 1000 + n})
            done.set()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            while not done.is_set():
                assert 200 == len(then.run())
        finally:
            thread.join(60)

    def test_inside_a_transaction_others_see_what_is_committed(self, db, games):
        games.insert({"id": 1})
        with db.transaction():
            games.insert({"id": 2})
            with session_of(db).engine.fresh_snapshot() as snapshot:
                assert 2 == snapshot.seq
                assert 1 == len(snapshot.rows(snapshot.table("games")))

    def test_a_view_of_the_past_has_its_own_token(self, db, games):
        for n in range(4):
            games.insert({"id": n})

        assert db.token.rsplit(".", 1)[0] + ".2" == db.at(2).token


class TestTokens:
    @staticmethod
    def is_good(db: Database, token: str) -> bool:
        with session_of(db).engine.fresh_snapshot() as snapshot:
            return resolve_since(token, session_of(db).engine, snapshot) == int(token.split(".")[2])

    def test_a_write_that_came_to_nothing_spoils_no_token(self, path):
        """The first write of a process begins an epoch, which goes with the write if that is taken back."""
        with reactdb.connect(path) as db:
            db.table_create("games").insert({"id": 1})
        with reactdb.connect(path) as db:
            db.table("games").get(5).update({"n": 1})
            with pytest.raises(reactdb.DuplicateKey):
                db.table("games").insert({"id": 1})
            token = db.token
        with reactdb.connect(path) as db:
            db.table("games").insert({"id": 2})
            assert self.is_good(db, token)

    def test_a_token_taken_inside_a_transaction_is_of_before_it(self, db, games):
        games.insert({"id": 1})
        before = db.token
        with db.transaction():
            games.insert({"id": 2})

            assert before == db.token

    def test_a_reader_names_the_epoch_that_another_process_has_begun(self, path):
        with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
            games = db.table_create("games")
            other.table("games").insert([{"id": n} for n in range(5)])
            token = db.token
            assert self.is_good(db, token)
            games.insert({"id": 9})
            assert self.is_good(db, token)
            assert self.is_good(other, db.token)


class TestOtherProcesses:
    def test_a_table_made_again_by_another_process(self, path):
        with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
            games = db.table_create("games")
            games.insert({"id": 1, "name": "old"})
            other.table_drop("games")
            other.table_create("games", primary_key="name").insert({"id": 1, "name": "new"})

            assert {"id": 1, "name": "new"} == games.get("new").run()
            games.insert({"id": 1, "name": "third"})
            assert "name" == games.primary_key
            assert ["new", "third"] == [document["name"] for document in games]

    def test_a_table_made_again_with_another_key_between_check_and_write(self, path, monkeypatch):
        with reactdb.connect(path, durability="soft") as db:
            games = db.table_create("games", primary_key="name")
            monkeypatch.setattr(session_of(db), "info", lambda table: SimpleNamespace(primary_key="id"))
            result = games.insert([{"name": "a"}, {"name": "b", "id": 5}])

            assert [{"name": "a"}, {"name": "b", "id": 5}] == games.run()
            assert "generated_keys" not in result

    def test_a_drop_is_told_also_where_somebody_has_read_before(self, path):
        """Any read may learn of it first; the feeds must hear of it all the same."""
        with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
            games = db.table_create("games")
            games.index_create("a")
            more = db.table_create("more")
            games.insert({"id": 1})
            engine = session_of(db).engine
            listener = engine.publisher.listener = Listener()
            with engine.publisher.lock:
                engine.publisher.begin_listening(db.seq)
            ids = [info.id for info in engine.catalogue.by_id.values()]

            other.table_drop("more")
            other.table("games").index_drop("a")
            assert ["games"] == db.table_list()
            assert engine.catch_up()
            assert not engine.catch_up()
            assert [ids[1]] == [table for commit in listener.commits for table in commit.dropped_tables]
            assert [(ids[0], "a")] == [
                index for commit in listener.commits for index in commit.dropped_indexes
            ]
            with pytest.raises(reactdb.TableNotFound):
                more.run()

    def test_own_and_others_commits_are_told_once_and_in_order(self, path):
        with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
            games = db.table_create("games")
            listener = session_of(db).engine.publisher.listener = Listener()
            with session_of(db).engine.publisher.lock:
                session_of(db).engine.publisher.begin_listening(db.seq)
            for n in range(5):
                other.table("games").insert({"id": f"other-{n}"})
                games.insert({"id": f"own-{n}"})
                other.table("games").insert({"id": f"again-{n}"})
                if n % 2:
                    session_of(db).engine.catch_up()
            games.insert({"id": "last"})
            db.table_drop("games")

            assert list(range(2, 19)) == [change.seq for commit in listener.commits for change in commit]
            assert [1] == [len(commit.dropped_tables) for commit in listener.commits if commit.dropped_tables]

    def test_an_index_made_by_another_process_is_kept_up_to_date_here(self, path):
        with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
            games = db.table_create("games")
            games.insert({"id": 1, "a": 1})
            other.table("games").index_create("a")
            games.insert({"id": 2, "a": 0})
            games.get(1).update({"a": -1})

            assert [1, 2] == [document["id"] for document in other.table("games").order_by(index="a")]


class TestUpkeep:
    def test_retention_keeps_up_with_big_commits(self, path, monkeypatch):
        monkeypatch.setattr(retention, "CHUNK_CHANGES", 50)
        monkeypatch.setattr(retention, "RETAIN_EVERY", 20)
        with reactdb.connect(path, durability="soft", retention=100) as db:
            games = db.table_create("games")
            games.insert([{"id": n, "n": 0} for n in range(500)])
            for n in range(12):
                games.update({"n": n})

            assert db.stats()["oldest"] >= db.seq - 1100
            assert 11 * 500 == sum(document["n"] for document in games)

    def test_compaction_needs_no_reader_to_say_what_it_did(self, path, monkeypatch):
        """A reader may be impossible to open, when everything is done already."""
        with reactdb.connect(path) as db:
            db.table_create("games").insert([{"id": 1}, {"id": 1}], conflict="replace")
            db.table("games").get(1).update({"n": 1})

            def no_reader() -> None:
                raise reactdb.errors.CannotOpen(str(path), "too many open files")

            monkeypatch.setattr(session_of(db).engine, "_take_reader", no_reader)
            compacted = db.compact(keep=0)
            monkeypatch.undo()

            assert compacted["oldest"] == db.seq == db.stats()["oldest"]
            assert compacted == {**db.compact(keep=0), "entries": compacted["entries"]}

    def test_a_write_of_nothing_that_fails_keeps_the_write_lock_from_nobody(self, path, monkeypatch):
        """Nothing was changed, but it must be flushed, and the transaction for that cannot write."""
        with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
            games = db.table_create("games")
            games.insert({"id": 1})

            def fail(connection: Any) -> None:
                raise sqlite.sqlite3.OperationalError("disk I/O error")

            monkeypatch.setattr(schema, "touch", fail)
            with pytest.raises(reactdb.errors.StorageError, match=r"^update: "):
                games.get(1).update({"id": 1}, durability="hard")
            monkeypatch.undo()
            other.table("games").insert({"id": 2})

            assert 2 == games.count().run()

    def test_a_write_is_not_blamed_for_what_goes_wrong_after_it(self, path, monkeypatch, caplog):
        def fail(*arguments: Any) -> Any:
            raise DiskFull("no room left")

        with reactdb.connect(path, durability="soft", retention=1) as db:
            games = db.table_create("games")
            with monkeypatch.context() as patch:
                patch.setattr(retention.Compaction, "_step", fail)
                patch.setattr(session_of(db).engine.publisher, "publish", fail)
                games.insert([{"id": n} for n in range(1000)])

            assert 1000 == games.count().run()
        assert "removing old history" in caplog.text
        assert "telling of commit" in caplog.text

    def test_a_commit_that_could_not_be_told_is_told_with_the_next(self, db, games, monkeypatch):
        listener = session_of(db).engine.publisher.listener = Listener()
        with session_of(db).engine.publisher.lock:
            session_of(db).engine.publisher.begin_listening(db.seq)

        def fail(commit: Any) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr(listener, "route", fail)
            games.insert({"id": 1})
        games.insert({"id": 2})

        assert [2, 3] == [change.seq for commit in listener.commits for change in commit]


class TestClosing:
    def test_close_does_not_wait_for_ever_for_a_transaction(self, path):
        """The transaction is finished, and closes the file behind it."""
        db = reactdb.connect(path, durability="soft", busy_timeout=0.05)
        games = db.table_create("games")
        entered, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with db.transaction():
                games.insert({"id": 1})
                entered.set()
                leave.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        entered.wait(30)
        db.close()
        leave.set()
        thread.join(30)

        assert not path.with_name("a.db-wal").exists()
        with reactdb.connect(path) as db:
            assert [{"id": 1}] == db.table("games").run()

    @pytest.mark.parametrize("attempt", range(10))
    def test_who_reads_or_writes_while_the_database_is_closed_is_told_so(self, db, games, attempt):
        games.insert({"id": 0})
        errors: list[BaseException] = []
        started = threading.Barrier(5)

        def use(act: Callable[[], Any]) -> None:
            started.wait(30)
            try:
                while True:
                    act()
            except BaseException as error:
                errors.append(error)

        acts = [games.run, games.get(0).run, lambda: games.insert({"n": 1}), lambda: list(db.log())]
        threads = [threading.Thread(target=use, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        started.wait(30)
        db.close()
        for thread in threads:
            thread.join(30)

        assert [reactdb.errors.DatabaseClosed] * 4 == [type(error) for error in errors], errors

    def test_an_engine_closes_all_its_connections(self, path):
        """The last one removes the write-ahead log."""
        for _ in range(20):
            with reactdb.connect(path, durability="soft") as db:
                games = db.table_create("games", exist_ok=True)
                threads = [threading.Thread(target=games.run) for _ in range(10)]
                for thread in threads:
                    thread.start()
                games.insert({"n": 1})
                for thread in threads:
                    thread.join(30)
            assert not path.with_name("a.db-wal").exists()


class TestWriteQueue:
    """Ctrl-C may strike a thread in the queue in any line: a waiter that its thread has abandoned is dropped."""

    def test_a_waiter_that_nobody_holds_is_dropped(self):
        queue, first, second = WriteQueue(), Waiter(None), Waiter(None)
        with first.held:
            assert queue.acquire(first, 1)

        with second.held:
            assert queue.acquire(second, 1)

    def test_a_waiter_finds_out_that_the_first_was_abandoned(self, monkeypatch):
        monkeypatch.setattr("reactdb.store.write_queue.LOOK_S", 0.01)
        queue, first, second = WriteQueue(), Waiter(None), Waiter(None)
        with first.held:
            queue.acquire(first, 1)
            entered = threading.Event()

            def wait() -> bool:
                with second.held:
                    entered.set()
                    return queue.acquire(second, 30)

            found: list[bool] = []
            thread = threading.Thread(target=lambda: found.append(wait()))
            thread.start()
            entered.wait(30)
            wait_until(lambda: len(queue) == 2)
        thread.join(30)

        assert [True] == found

    def test_an_abandoned_waiter_is_in_no_group(self):
        queue, first, second = WriteQueue(), Waiter(None), Waiter(lambda transaction: None)
        with first.held:
            queue.acquire(first, 1)
            with second.held, pytest.raises(reactdb.DatabaseBusy):
                queue.acquire(second, 0)
            with second.held:
                second.prepare_to_sleep()
                queue._queue.append(second)

            assert [] == queue.take_group()
            queue.release(first)
            assert 0 == len(queue)

    def test_one_whose_work_is_given_back_when_its_time_is_over_waits_for_its_turn(self):
        """It gives up waiting, is taken into a group, and is given back just then: the first one still has its turn."""

        class Late(Waiter):
            """Its time is over at once. When it waits once more, the first one's turn ends."""

            def sleep(self, timeout_s: float) -> bool:
                if not given_back:
                    return False
                queue.release(first)
                return super().sleep(timeout_s)

        class Giving:
            """The mutex of the queue. It is let go after queueing, after its time is over, and where it gives up: then what was
            taken is given back."""

            def __enter__(self) -> None:
                mutex.acquire()

            def __exit__(self, *_: object) -> None:
                mutex.release()
                if len(looks) == 2 and not given_back:
                    given_back.append(True)
                    queue.give_back([second])
                looks.append(True)

        queue, first, second = WriteQueue(), Waiter(None), Late(lambda transaction: None)
        given_back: list[bool] = []
        looks: list[bool] = []
        with first.held, second.held:
            queue.acquire(first, 1)
            mutex = queue._mutex
            second.is_taken = True
            queue._mutex = Giving()

            assert queue.acquire(second, 0)
            assert not queue.is_first(first)
            assert queue.is_first(second)

    def test_interrupting_the_thread_that_carries_others_is_for_that_thread_alone(self, path):
        """The others' writes are taken back with it, and done by themselves."""
        with reactdb.connect(path) as db:
            games = db.table_create("games")
            engine = session_of(db).engine
            table = engine.catalogue.live["games"]
            queue = engine.writer.queue
            done_by: list[str] = []

            def companion(transaction: Any) -> None:
                name = threading.current_thread().name
                done_by.append(name)
                transaction.insert(table, b"\xf0companion\x00\x01", b"\x81\xa2id\xa9companion")
                if name == "leader":
                    raise KeyboardInterrupt

            def leader(transaction: Any) -> None:
                transaction.insert(table, b"\xf0leader\x00\x01", b"\x81\xa2id\xa6leader")

            ended: dict[str, BaseException | None] = {}

            def run(work: Any) -> None:
                name = threading.current_thread().name
                try:
                    engine.writable().write(work, durability="hard", is_shareable=True)
                    ended[name] = None
                except BaseException as error:
                    ended[name] = error

            threads = []
            with db.transaction():
                for name, work in (("leader", leader), ("companion", companion)):
                    threads.append(threading.Thread(target=run, args=(work,), name=name))
                    threads[-1].start()
                    wait_until(lambda: len(queue) == len(threads) + 1)
            for thread in threads:
                thread.join(30)

            assert isinstance(ended["leader"], KeyboardInterrupt)
            assert ended["companion"] is None
            assert ["leader", "companion"] == done_by
            assert [{"id": "companion"}] == games.run()
            assert [2] == [change.seq for change in db.log(table="games")]

    @pytest.mark.parametrize("where", ["in a checkpoint", "while the others are told"])
    def test_ctrl_c_after_commit_does_not_make_others_write_twice(self, path, monkeypatch, where):
        """What another thread had queued went into the same commit, so it is done, whoever hears of Ctrl-C."""
        with reactdb.connect(path, durability="hard") as db:
            games = db.table_create("games")
            games.insert({"id": 1, "n": 0})
            writer = session_of(db).engine.writer
            told = []
            other = threading.Thread(target=lambda: told.append(games.get(1).update({"n": row["n"] + 1})))

            def first(transaction):
                other.start()
                while len(writer.queue) < 2:
                    time.sleep(0)

            def strike(*_):
                if where == "in a checkpoint":
                    writer.connection.execute("BEGIN IMMEDIATE")
                monkeypatch.undo()
                raise KeyboardInterrupt

            if where == "in a checkpoint":
                monkeypatch.setattr(writer.checkpoints, "after_commit", strike)
            else:
                monkeypatch.setattr(session_of(db).engine.publisher, "publish", strike)
            with pytest.raises(KeyboardInterrupt):
                writer.write(first, durability="hard", is_shareable=True)
            other.join(30)

            assert [1] == [answer["replaced"] for answer in told]
            assert {"id": 1, "n": 1} == games.get(1).run()

    @pytest.mark.parametrize("where", ["give back", "roll back", "roll back a block"])
    def test_ctrl_c_while_a_failed_write_is_rolled_back_leaves_no_transaction_open(
        self, path, monkeypatch, where
    ):
        with reactdb.connect(path) as db:
            games = db.table_create("games")
            games.insert({"id": 1})
            writer = session_of(db).engine.writer

            def strike(*_: object) -> None:
                monkeypatch.undo()
                raise KeyboardInterrupt

            if where == "give back":
                monkeypatch.setattr(writer.queue, "give_back", strike)
            else:
                monkeypatch.setattr(writer, "roll_back", strike)
            with pytest.raises(KeyboardInterrupt):
                if where == "roll back a block":
                    with db.transaction():
                        games.insert({"id": 2})
                        games.insert({"id": 1})
                else:
                    games.insert({"id": 1})

            assert not writer.connection.in_transaction
            assert [{"id": 1}] == games.run()

    @pytest.mark.slow
    @pytest.mark.parametrize("is_on_file", [True, False])
    def test_ctrl_c_at_any_moment_leaves_a_database_that_works(self, tmp_path, is_on_file):
        """A timer strikes anywhere in writes and transactions; other threads write all the time and must not notice."""
        place = str(tmp_path / "a.db") if is_on_file else ":memory:"
        command = [sys.executable, "-c", SWEEP, place]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)

        assert 0 == done.returncode, done.stderr[-3000:]
        assert int(done.stdout) > 50


SWEEP = """
import random, signal, sys, threading
import reactdb
from reactdb import row

ROUNDS = 600
random.seed(5)
db = reactdb.connect(sys.argv[1], durability="hard", busy_timeout=20)
games = db.table_create("games")
games.index_create("n")
games.insert({"id": "counter", "n": 0})
own = [threading.local() for _ in range(1)]
errors, counts, stop = [], [0, 0], threading.Event()

def work(name):
    try:
        while not stop.is_set():
            games.insert({"id": f"{name}-{counts[name]}"})
            games.get("counter").update({"n": row["n"] + 1})
            counts[name] += 1
    except BaseException as error:
        errors.append(error)

def strike(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, strike)
threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in range(2)]
for thread in threads:
    thread.start()

struck = 0
for n in range(ROUNDS):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00001, 0.004))
        if n % 3 == 0:
            games.insert({"id": f"one-{n}", "n": n})
        elif n % 3 == 1:
            with db.transaction():
                games.insert({"id": f"pair-{n}-a", "n": n})
                games.get(f"pair-{n}-a").update({"n": n + 1})
                games.insert({"id": f"pair-{n}-b"})
        else:
            games.filter(row["n"] == n).run()
            games.insert([{"id": f"many-{n}-{m}", "n": m} for m in range(5)])
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        struck += 1
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        struck += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert db._session.engine.current_transaction() is None
    games.insert({"id": f"after-{n}"})

stop.set()
for thread in threads:
    thread.join(60)
    assert not thread.is_alive()
assert not errors, errors
found = {document["id"]: document for document in games}
assert sum(counts) == found["counter"]["n"], (counts, found["counter"])
for name in range(2):
    assert counts[name] == sum(key.startswith(f"{name}-") for key in found)
for n in range(ROUNDS):
    assert f"after-{n}" in found
    assert (f"pair-{n}-a" in found) == (f"pair-{n}-b" in found)
    assert sum(f"many-{n}-{m}" in found for m in range(5)) in (0, 5)
entries = list(db.log())
assert list(range(1, len(entries) + 1)) == [entry.seq for entry in entries]
replayed = {}
for entry in entries[2:]:
    assert replayed.get(entry.key) == entry.old_val
    replayed[entry.key] = entry.new_val
assert {key: document for key, document in replayed.items() if document is not None} == found
assert sorted(d["id"] for d in found.values() if "n" in d) == sorted(d["id"] for d in games.order_by(index="n"))
db.close()
print(struck)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
class TestFork:
    @pytest.mark.slow
    @pytest.mark.parametrize("how", ["leave", "raise", "write", "exit"])
    def test_a_fork_inside_a_transaction_leaves_it_to_the_parent(self, path, how):
        """The child must neither commit it nor take it back, whichever way it leaves the block."""
        done = subprocess.run(
            [sys.executable, "-c", FORK, str(path), how], capture_output=True, text=True, timeout=60
        )

        assert 0 == done.returncode, done.stderr
        assert "parent [1, 2]" in done.stdout
        if how != "exit":
            assert f"child {'ZeroDivisionError' if how == 'raise' else 'ForkedDatabase'}" in done.stdout


FORK = """
import os, sys
import reactdb
path, how = sys.argv[1:]
db = reactdb.connect(path)
games = db.table_create("games")
child = None
try:
    with db.transaction():
        games.insert({"id": 1})
        child = os.fork()
        if child == 0:
            if how == "raise":
                raise ZeroDivisionError
            if how == "write":
                games.insert({"id": 3})
            if how == "exit":
                sys.exit(0)
        else:
            assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            games.insert({"id": 2})
except (reactdb.errors.ForkedDatabase, ZeroDivisionError) as error:
    assert child == 0
    print("child", type(error).__name__, flush=True)
    db.close()
    sys.exit(0)
assert child != 0
print("parent", [document["id"] for document in games])
db.close()
with reactdb.connect(path) as db:
    assert [1, 2] == [document["id"] for document in db.table("games")]
    assert [2, 3] == [entry.seq for entry in db.log(table="games")]
"""
