"""Following: a poll finds the commits of other processes, and without feeds there are no polls."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.session import session_of
from reactdb.store import follow, publisher
from reactdb.store.engine import Engine
from tests.support import processes as support
from tests.support.threads import PATIENCE_S, started

WRITER = """
import sys, reactdb
db = reactdb.connect(sys.argv[1], durability="soft")
print("open", flush=True)
for line in sys.stdin:
    db.table("games").insert({"id": int(line)})
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def db(path: Path) -> Iterator[Any]:
    with reactdb.connect(path, durability="soft") as database:
        database.table_create("games")
        yield database


@contextmanager
def another_process(path: Path) -> Iterator[Any]:
    """A function that lets another process write a number."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert "open\n" == process.stdout.readline()
    try:
        yield lambda number: print(number, file=process.stdin, flush=True)
    finally:
        process.communicate(timeout=60)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_a_subscriber_raises_in_the_thread_that_follows_does_not_end_it(db, path, error):
    """No writer of this process is there to get it, and other subscribers of all files need the thread."""

    def fail(event: Any) -> None:
        raise error

    db.table("games").changes().subscribe(fail, lambda ended: None)
    with another_process(path) as write, db.table("games").changes().cursor() as cursor:
        found = []
        for number in range(2):
            write(number)
            found.append(cursor.next(timeout=PATIENCE_S)["new_val"]["id"])

    assert [0, 1] == found


def test_each_commit_of_another_process_is_told_once_and_in_order(db, path):
    with another_process(path) as write, db.table("games").changes().cursor() as cursor:
        for number in range(20):
            write(number)
            assert number == cursor.next(timeout=PATIENCE_S)["new_val"]["id"]


def test_commits_are_told_after_the_log_was_emptied(db, path):
    with another_process(path) as write, db.table("games").changes().cursor() as cursor:
        db.compact(keep=0, vacuum=True)
        write(1)

        assert 1 == cursor.next(timeout=PATIENCE_S)["new_val"]["id"]


def test_the_last_feed_takes_the_thread_with_it_at_once(db, monkeypatch):
    monkeypatch.setattr(follow, "QUICK_S", 3600.0)
    monkeypatch.setattr(follow, "SLOW_S", 3600.0)
    # One of its own, because another test may have left something to follow.
    follower = follow.Follower()
    monkeypatch.setattr(follow, "watch", follower.watch)
    monkeypatch.setattr(follow, "unwatch", follower.unwatch)
    with db.table("games").changes().cursor():
        thread = follower._thread
        assert thread is not None
        assert thread.is_alive()
    thread.join(PATIENCE_S)

    assert not thread.is_alive()


def test_a_poll_that_failed_is_made_up_for_by_the_next(db, path, monkeypatch):
    """Even where the file says nothing new any more."""
    failures = iter([True])
    catch_up = Engine.catch_up

    def fail_once(engine: Engine) -> bool:
        if next(failures, False):
            raise reactdb.DatabaseBusy("once")
        return catch_up(engine)

    with another_process(path) as write, db.table("games").changes().cursor() as cursor:
        write(1)
        assert 1 == cursor.next(timeout=PATIENCE_S)["new_val"]["id"]
        monkeypatch.setattr(Engine, "catch_up", fail_once)
        write(2)

        assert 2 == cursor.next(timeout=PATIENCE_S)["new_val"]["id"]
        assert next(failures, None) is None


class TestNews:
    """`Engine.has_news`: any reader may be asked, and none hides anything."""

    @pytest.fixture
    def other(self, path: Path, db: Any) -> Iterator[Any]:
        with support.another_process(path) as other:
            yield other

    def test_a_commit_is_news_once(self, db, other):
        engine = session_of(db).engine
        engine.has_news()
        assert not engine.has_news()
        other.table("games").insert({"id": 1})

        assert [True, False] == [engine.has_news(), engine.has_news()]

    def test_it_is_news_for_each_reader(self, db, other):
        engine = session_of(db).engine
        with engine.snapshot():
            engine.has_news()
            with engine.snapshot():
                engine.has_news()
                other.table("games").insert({"id": 1})
                assert engine.has_news()
            assert engine.has_news()

        assert engine.has_news()

    def test_a_database_that_was_closed_cannot_be_asked(self, db):
        engine = session_of(db).engine
        db.close()

        with pytest.raises(reactdb.errors.DatabaseClosed):
            engine.has_news()


class Noticed:
    """A lock that tells when a thread is about to wait for it."""

    def __init__(self, lock: Any, thread: threading.Thread, is_wanted: threading.Event) -> None:
        self._lock = lock
        self._thread = thread
        self._is_wanted = is_wanted

    def __enter__(self) -> None:
        if threading.current_thread() is self._thread:
            self._is_wanted.set()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("poll", ["has_news", "catch_up"])
def test_a_database_that_is_closed_waits_for_a_poll_that_has_a_reader(path, monkeypatch, poll):
    """Otherwise a connection is open after `close`, and a file that is put there is read with what is left of this one."""
    monkeypatch.setattr(follow, "watch", lambda engine: None)
    db = reactdb.connect(path, durability="soft")
    db.table_create("games").changes().subscribe(lambda event: None)
    engine = session_of(db).engine
    # As if the feed had come just after those that were there had been ended.
    monkeypatch.setattr(engine.publisher.listener, "close", lambda: None)
    give_back, has_reader, may_go_on = engine._give_back, threading.Event(), threading.Event()
    monkeypatch.setattr(engine, "_polling", Noticed(engine._polling, threading.current_thread(), may_go_on))
    order = []

    def give_back_late(reader):
        has_reader.set()
        assert may_go_on.wait(PATIENCE_S)
        order.append("given back")
        give_back(reader)

    monkeypatch.setattr(engine, "_give_back", give_back_late)
    polling = threading.Thread(target=getattr(engine, poll))
    polling.start()
    assert has_reader.wait(PATIENCE_S)
    db.close()
    order.append("closed")
    may_go_on.set()
    polling.join()

    assert ["given back", "closed"] == order
    assert 0 == len(engine.readers)


class TestAWriteAfterALongTransactionElsewhere:
    @pytest.fixture(autouse=True)
    def many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(publisher, "MOST_CHANGES", 10)

    @pytest.fixture
    def may_follow(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
        """The thread that follows the file waits for it, once it has news."""
        event = threading.Event()
        event.set()
        catch_up = Engine.catch_up

        def catch_up_later(self: Engine) -> bool:
            assert event.wait(PATIENCE_S)
            return catch_up(self)

        monkeypatch.setattr(Engine, "catch_up", catch_up_later)
        yield event
        event.set()

    def test_it_waits_no_longer_than_busy_timeout_until_the_feeds_have_heard_that(self, db, path, may_follow):
        hasty = reactdb.connect(path, durability="soft", busy_timeout=0.05)
        with hasty, support.another_process(path) as other, db.table("games").changes().cursor() as cursor:
            may_follow.clear()
            other.table("games").insert([{"id": number} for number in range(20)])
            with pytest.raises(
                reactdb.DatabaseBusy,
                match=r"^insert: another process has committed 20 changes, .*nothing was written",
            ):
                hasty.table("games").insert({"id": "late"})
            with pytest.raises(reactdb.DatabaseBusy, match=r"^transaction: "), hasty.transaction():
                pass
            # Not even the write lock is held.
            other.table("games").insert({"id": 20})
            writing, outcome = started(lambda: db.table("games").insert({"id": "late"}))
            may_follow.set()
            writing.join(PATIENCE_S)

            assert 1 == outcome[0]["inserted"]
            told = [cursor.next(timeout=PATIENCE_S)["new_val"]["id"] for _ in range(22)]
        assert [*range(21), "late"] == told

    def test_a_subscriber_that_writes_while_it_is_told_of_that_does_not_wait_for_itself(self, path):
        with (
            reactdb.connect(path, durability="soft", busy_timeout=0) as db,
            support.another_process(path) as other,
        ):
            games, copies = db.table_create("games"), db.table_create("copies")
            is_done = threading.Event()

            def copy(event: dict[str, Any]) -> None:
                if event["new_val"]["id"] == 0:
                    # Before this one writes, there is more that nobody has published.
                    other.table("games").insert([{"id": number} for number in range(20, 40)])
                copies.insert(event["new_val"])
                if event["new_val"]["id"] == 39:
                    is_done.set()

            subscription = games.changes().subscribe(copy)
            other.table("games").insert([{"id": number} for number in range(20)])

            assert is_done.wait(PATIENCE_S)
            subscription.dispose()
            assert 40 == copies.count().run()

    def test_where_nobody_listens_it_does_not_wait(self, path):
        with (
            reactdb.connect(path, durability="soft", busy_timeout=0) as db,
            support.another_process(path) as other,
        ):
            games = db.table_create("games")
            other.table("games").insert([{"id": number} for number in range(20)])

            assert 1 == games.insert({"id": "late"})["inserted"]


def test_explain_says_how_long_a_write_waits(db, path):
    with reactdb.connect(path, busy_timeout=0.5) as hasty, reactdb.connect(path, read_only=True) as viewer:
        waits = [one.table("games").explain()["write_wait_s"] for one in (db, hasty, viewer, db.at(db.seq))]

    assert [5.0, 0.5, None, None] == waits
