"""The doorbell: a write to the log wakes whoever waits, where the system can tell; another process's commit is heard by it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.database import Database
from reactdb.session import Session
from reactdb.store import doorbell, follow
from reactdb.store.doorbell import Doorbell
from reactdb.store.engine import Engine
from reactdb.store.readers import connect_reader
from tests.support.threads import PATIENCE_S

WRITER = """
import sys, reactdb
db = reactdb.connect(sys.argv[1], durability="soft")
print("open", flush=True)
for line in sys.stdin:
    db.table("games").insert({"id": int(line)})
"""

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")


@pytest.fixture
def bell() -> Any:
    bell = Doorbell()
    yield bell
    bell.close()


@linux_only
class TestTheBell:
    def test_it_rings_when_the_file_is_written_to(self, bell, tmp_path):
        file = tmp_path / "log"
        file.write_bytes(b"1")
        assert bell.listen(str(file))
        assert not bell.wait(0)
        file.write_bytes(b"2")

        assert bell.wait(PATIENCE_S)

    def test_it_does_not_ring_for_what_it_was_told_to_ignore(self, bell, tmp_path):
        one, other = tmp_path / "one", tmp_path / "other"
        for file in (one, other):
            file.write_bytes(b"1")
            bell.listen(str(file))
        bell.listen_only({str(other)})
        bell.wait(0)
        one.write_bytes(b"2")
        assert not bell.wait(0)
        other.write_bytes(b"2")

        assert bell.wait(PATIENCE_S)

    def test_a_file_that_is_not_there_cannot_be_listened_to(self, bell, tmp_path):
        assert not bell.listen(str(tmp_path / "nothing"))
        assert not bell.is_listening

    def test_whoever_waits_can_be_woken(self, bell):
        woken = threading.Thread(target=bell.wait, args=(PATIENCE_S,))
        woken.start()
        bell.wake()
        woken.join(PATIENCE_S / 2)

        assert not woken.is_alive()

    def test_it_gives_its_file_descriptors_back(self):
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            Doorbell().close()

        assert before == len(os.listdir("/proc/self/fd"))


def test_where_the_system_has_none_there_is_none(monkeypatch):
    monkeypatch.setattr(doorbell.sys, "platform", "darwin")

    assert doorbell.doorbell() is None


class Other:
    """Another process, which writes when it is told to."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert "open\n" == self.process.stdout.readline()

    def write(self, number: int) -> None:
        assert self.process.stdin is not None
        print(number, file=self.process.stdin, flush=True)

    def end(self) -> None:
        self.process.communicate(timeout=60)


class TestAnotherProcess:
    @pytest.fixture
    def games(self, tmp_path, monkeypatch) -> Any:
        # Polls as rare as this say nothing within the patience of a test: what is heard was rung.
        monkeypatch.setattr(follow, "SLOW_S", 3600.0)
        monkeypatch.setattr(follow, "STEP", 1e9)
        with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
            yield db.table_create("games")

    @staticmethod
    def hears(feed: Any, number: int, at_most_s: float = PATIENCE_S) -> bool:
        try:
            return bool(feed.next(timeout=at_most_s)["new_val"]["id"] == number)
        except reactdb.ReactDBError:
            return False

    @linux_only
    def test_its_commits_are_heard_without_a_poll(self, games, tmp_path):
        other = Other(tmp_path / "a.db")
        try:
            with games.changes().cursor() as feed:
                self.wait_until_it_listens()
                for number in range(20):
                    other.write(number)
                    assert self.hears(feed, number)
        finally:
            other.end()

    @linux_only
    def test_and_after_the_log_was_emptied(self, games, tmp_path):
        other = Other(tmp_path / "a.db")
        try:
            with games.changes().cursor() as feed:
                self.wait_until_it_listens()
                games._session.engine.writer.in_turn(games._session.engine.writer.checkpoints.run)
                other.write(1)
                assert self.hears(feed, 1)
        finally:
            other.end()

    def test_a_process_alone_listens_to_nothing(self, games):
        with games.changes().cursor() as feed:
            for number in range(50):
                games.insert({"id": number})
                assert self.hears(feed, number)

            assert follow.tailer._bell is None or not follow.tailer._bell.is_listening

    @linux_only
    def test_the_last_feed_takes_bell_and_thread_with_it_at_once(self, games, tmp_path):
        other = Other(tmp_path / "a.db")
        try:
            with games.changes().cursor():
                self.wait_until_it_listens()
                thread = follow.tailer._thread
            assert thread is not None
            thread.join(PATIENCE_S)

            assert not thread.is_alive()
            assert follow.tailer._bell is None
        finally:
            other.end()

    @staticmethod
    def wait_until_it_listens() -> None:
        end = time.monotonic() + PATIENCE_S
        while follow.tailer._bell is None or not follow.tailer._bell.is_listening:
            assert time.monotonic() < end
            time.sleep(0.001)


def test_without_a_bell_polls_are_enough(tmp_path, monkeypatch):
    monkeypatch.setattr(follow, "doorbell", lambda: None)
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        games = db.table_create("games")
        other = Other(tmp_path / "a.db")
        try:
            with games.changes().cursor() as feed:
                for number in range(5):
                    other.write(number)
                    assert number == feed.next(timeout=PATIENCE_S)["new_val"]["id"]
        finally:
            other.end()


class TestWhatIsWatched:
    @pytest.fixture
    def path(self, tmp_path):
        return str(tmp_path / "a.db")

    def test_what_a_snapshot_has_seen_is_no_news_and_what_comes_later_is(self, path):
        with (
            reactdb.connect(path, durability="soft") as db,
            Database(Session(Engine(path, read_only=False, busy_timeout_s=5.0), "soft")) as other,
        ):
            db.table_create("games")
            watched = follow.Watched(db.session.engine, connect_reader(db.session.engine))
            try:
                assert watched.has_news()
                other.table("games").insert({"id": 1})
                with watched.snapshot(db.session.engine) as snapshot:
                    # Not what the snapshot shows.
                    other.table("games").insert({"id": 2})
                    assert 1 == snapshot.seq
                assert watched.has_news()
                other.table("games").insert({"id": 3})
                with watched.snapshot(db.session.engine) as snapshot:
                    assert 3 == snapshot.seq
                assert not watched.has_news()
            finally:
                watched.close()

    def test_what_was_closed_cannot_be_read_any_more(self, path):
        with reactdb.connect(path, durability="soft") as db:
            watched = follow.Watched(db.session.engine, connect_reader(db.session.engine))
            watched.close()

            assert not watched.has_news()
            with pytest.raises(reactdb.DatabaseClosed), watched.snapshot(db.session.engine):
                pass
