"""The system's reports of writes: real ones on Linux, and made-up ones for what the system rarely does."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.session import session_of
from reactdb.store import follow
from reactdb.store.file import file_events
from reactdb.store.file.file_events import EVENT, IN_ATTRIB, IN_IGNORED, IN_MODIFY, IN_Q_OVERFLOW, FileEvents
from tests.support import processes as support
from tests.support.processes import ROOT
from tests.support.threads import PATIENCE_S, started, wait_until

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no inotify")


class FakeInotify:
    """The system's functions, with reports and errors as a test wants them."""

    instances: list[FakeInotify]
    error: int

    def __init__(self) -> None:
        self.descriptor, self.other_end = os.pipe()
        self.paths: list[str] = []
        self.removed: list[int] = []
        self.reports: list[tuple[int, int]] = []
        self.is_closed = False
        self.instances.append(self)

    def add(self, path: str, mask: int) -> int:
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        if path not in self.paths:
            self.paths.append(path)
        return self.paths.index(path)

    def remove(self, watch: int) -> None:
        self.removed.append(watch)

    def read(self) -> bytes:
        reports, self.reports = self.reports, []
        return b"".join(EVENT.pack(watch, mask, 0, 0) for watch, mask in reports)

    def close(self) -> None:
        self.is_closed = True
        os.close(self.descriptor)
        os.close(self.other_end)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> list[FakeInotify]:
    if not hasattr(os, "eventfd"):
        pytest.skip("other systems have no eventfd")
    monkeypatch.setattr(FakeInotify, "instances", [], raising=False)
    monkeypatch.setattr(FakeInotify, "error", 0, raising=False)
    monkeypatch.setattr(file_events, "Inotify", FakeInotify)
    return FakeInotify.instances


@pytest.fixture
def events() -> Iterator[FileEvents]:
    events = FileEvents()
    yield events
    events.close()


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "a.db")
    for name in (path, f"{path}-wal"):
        Path(name).write_bytes(b"")
    return path


def read_now(events: FileEvents) -> dict[int, bool]:
    return events.wait(0, listens=True)


# ---------------------------------------------------------------------------------------------------------------
# The real one


@LINUX
class TestInotify:
    def test_a_write_to_the_log_is_reported_and_a_write_to_the_file_is_not(self, events, path):
        assert events.watch(7, path)
        assert {} == read_now(events)
        Path(path).write_bytes(b"a checkpoint")
        assert {} == read_now(events)
        Path(f"{path}-wal").write_bytes(b"a commit")

        assert {7: False} == events.wait(PATIENCE_S, listens=True)

    def test_a_watch_ends_with_its_first_report(self, events, path):
        assert events.watch(7, path)
        Path(f"{path}-wal").write_bytes(b"a commit")
        assert {7: False} == read_now(events)
        assert not events.is_watched(7)
        Path(f"{path}-wal").write_bytes(b"another")

        assert {} == read_now(events)
        assert events.watch(7, path)
        assert events.is_watched(7)

    @pytest.mark.parametrize("act", [lambda log: os.rename(log, f"{log}.away"), os.unlink, os.utime])
    def test_a_log_that_was_moved_removed_or_touched_is_reported_as_such(self, events, path, act):
        # An open file has its inode until it is closed.
        with open(f"{path}-wal", "rb"):
            assert events.watch(7, path)
            act(f"{path}-wal")

            assert {7: True} == read_now(events)

    def test_a_watch_ends_with_its_file(self, events, path):
        assert events.watch(7, path)
        os.unlink(f"{path}-wal")

        assert {7: True} == read_now(events)
        assert not events.is_watched(7)
        assert not events.watch(7, path)
        Path(f"{path}-wal").write_bytes(b"")
        assert events.watch(7, path)

    def test_two_databases_on_one_file_have_their_own_reports(self, events, path):
        assert events.watch(7, path)
        assert events.watch(8, path)
        events.unwatch(7)
        Path(f"{path}-wal").write_bytes(b"a commit")

        assert {8: False} == read_now(events)

    def test_without_a_log_there_is_nothing_to_watch(self, events, tmp_path):
        assert not events.watch(7, str(tmp_path / "none.db"))
        assert not events.is_watched(7)

    def test_a_wait_that_does_not_listen_leaves_the_reports_for_its_end(self, events, path):
        assert events.watch(7, path)
        Path(f"{path}-wal").write_bytes(b"a commit")

        assert {7: False} == events.wait(0, listens=False)

    def test_its_descriptors_are_closed_and_not_inherited(self, path):
        before = len(os.listdir("/proc/self/fd"))
        events = FileEvents()
        assert events.watch(7, path)
        descriptors = [events._inotify.descriptor, events._bell]
        assert [False, False] == [os.get_inheritable(one) for one in descriptors]
        events.close()
        events.close()

        assert before == len(os.listdir("/proc/self/fd"))
        assert events.watch(7, path)
        events.close()


@pytest.mark.parametrize("listens", [False, True])
@pytest.mark.parametrize("is_watched", [False, pytest.param(True, marks=LINUX)])
def test_a_wait_is_ended_from_any_thread(events, path, listens, is_watched):
    assert is_watched is (is_watched and events.watch(7, path))
    thread, outcome = started(lambda: events.wait(PATIENCE_S * 10, listens=listens))
    events.wake()
    events.wake()
    thread.join(PATIENCE_S)

    assert [{}] == outcome


# ---------------------------------------------------------------------------------------------------------------
# What the system rarely does


def test_when_reports_were_dropped_every_database_may_have_changed(fakes, events):
    assert events.watch(7, "a.db")
    assert events.watch(8, "b.db")
    fakes[0].reports = [(0, IN_MODIFY), (-1, IN_Q_OVERFLOW)]

    assert {7: True, 8: True} == events.wait(0, listens=False)
    # The end of a watch may be among the dropped ones.
    assert [False, False] == [events.is_watched(name) for name in (7, 8)]
    assert events.watch(7, "a.db")
    fakes[0].reports = [(0, IN_MODIFY), (0, IN_IGNORED)]
    assert {7: False} == events.wait(0, listens=False)


def test_a_file_system_that_is_gone_ends_the_watches(fakes, events):
    assert events.watch(7, "a.db")
    assert events.watch(8, "b.db")
    fakes[0].reports = [(0, IN_ATTRIB), (0, IN_IGNORED), (2, IN_IGNORED)]

    assert {7: True} == events.wait(0, listens=False)
    assert [False, True] == [events.is_watched(name) for name in (7, 8)]
    events.unwatch(8)
    assert [1] == fakes[0].removed


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.ENOENT, errno.EACCES])
def test_a_file_that_cannot_be_watched_leaves_nothing_behind(fakes, events, monkeypatch, error):
    monkeypatch.setattr(FakeInotify, "error", error)

    assert not events.watch(7, "a.db")
    assert not events.is_watched(7)
    assert {} == events.wait(0, listens=False)


def test_without_another_descriptor_there_are_no_reports(fakes, events, monkeypatch):
    def refuse(*given: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "eventfd", refuse)
        assert not events.watch(7, "a.db")
        assert fakes[0].is_closed
    with monkeypatch.context() as patch:
        patch.setattr(file_events, "Inotify", refuse)
        assert not events.watch(7, "a.db")

    assert events.watch(7, "a.db")


def test_a_system_without_inotify_has_plain_waits(events, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")

    assert not events.watch(7, "a.db")
    assert {} == events.wait(0, listens=True)


# ---------------------------------------------------------------------------------------------------------------
# Feeds


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Any]:
    with reactdb.connect(tmp_path / "a.db", durability="soft") as database:
        database.table_create("games")
        yield database


def is_reported(db: Any) -> bool:
    return follow.follower._events.is_watched(id(session_of(db).engine))


WRITER = """
import sys, reactdb
db = reactdb.connect(sys.argv[1])
print("open", flush=True)
for line in sys.stdin:
    db.table("games").insert({"id": int(line)})
"""


@LINUX
def test_commits_of_another_process_come_by_reports_alone(db, monkeypatch):
    """The look that comes anyway would take an hour."""
    monkeypatch.setattr(follow, "REPORTED_S", 3600.0)
    with (
        db.table("games").changes().cursor() as cursor,
        subprocess.Popen(
            [sys.executable, "-c", WRITER, db.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        assert "open\n" == process.stdout.readline()
        wait_until(lambda: is_reported(db))
        for number in range(30):
            print(number, file=process.stdin, flush=True)
            assert number == cursor.next(timeout=PATIENCE_S)["new_val"]["id"]
        process.stdin.close()
        process.wait(60)


@LINUX
def test_a_file_that_was_moved_ends_the_feeds_by_a_report(db, monkeypatch):
    monkeypatch.setattr(follow, "REPORTED_S", 3600.0)
    with db.table("games").changes().cursor() as cursor:
        wait_until(lambda: is_reported(db))
        for suffix in ("", "-wal"):
            os.rename(f"{db.path}{suffix}", f"{db.path}.away{suffix}")

        with pytest.raises(reactdb.errors.StorageMoved):
            cursor.next(timeout=PATIENCE_S)


@LINUX
def test_a_commit_without_any_report_is_delivered(db, monkeypatch):
    read = FileEvents._read

    def lose(events: FileEvents) -> dict[int, bool]:
        read(events)
        return {}

    monkeypatch.setattr(FileEvents, "_read", lose)
    with support.another_process(Path(db.path)) as other, db.table("games").changes().cursor() as cursor:
        wait_until(lambda: is_reported(db))
        other.table("games").insert({"id": 1})

        assert 1 == cursor.next(timeout=PATIENCE_S)["new_val"]["id"]


def test_a_handle_that_only_reads_hears_of_commits_of_this_process_at_once(db, monkeypatch):
    """Whatever the system reports: the pause has grown to an hour."""
    monkeypatch.setattr(follow, "REPORTED_S", 3600.0)
    monkeypatch.setattr(follow, "SLOW_S", 3600.0)
    monkeypatch.setattr(follow, "SHARE", 1e6)
    monkeypatch.setattr(FileEvents, "watch", lambda events, name, path: False)
    with (
        reactdb.connect(db.path, read_only=True) as viewer,
        viewer.table("games").changes().cursor() as cursor,
    ):
        engine = session_of(viewer).engine
        wait_until(lambda: follow.follower._is_listening)
        assert follow.follower._watched[id(engine)].due > 1000
        db.table("games").insert({"id": 1})

        assert 1 == cursor.next(timeout=PATIENCE_S)["new_val"]["id"]


FORKING = """
import os, sys, time, reactdb
from reactdb.session import session_of
from reactdb.store import follow

def count():
    return sum(os.readlink(f"/proc/self/fd/{name}") in ("anon_inode:inotify", "anon_inode:[eventfd]")
        for name in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{name}"))

with reactdb.connect(sys.argv[1], durability="soft") as db:
    cursor = db.table("games").changes().cursor()
    end = time.monotonic() + 20
    while not follow.follower._events.is_watched(id(session_of(db).engine)) and time.monotonic() < end:
        time.sleep(0.01)
    assert count() == 2, count()
    child = os.fork()
    if child == 0:
        found = [count(), len(follow.follower._watched)]
        with reactdb.connect(sys.argv[1], durability="soft") as inner:
            with inner.table("games").changes().cursor() as own:
                inner.table("games").insert({"id": "of the child"})
                found.append(own.next(timeout=20)["new_val"]["id"])
        os.write(1, f"{found}\\n".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.write(1, f"{cursor.next(timeout=20)['new_val']['id']}, {count()}\\n".encode())
    cursor.close()
"""


@LINUX
@pytest.mark.filterwarnings("ignore")
def test_a_child_of_fork_has_reports_of_its_own_and_the_parent_keeps_its(db):
    db.close()
    gc.collect()
    done = subprocess.run(
        [sys.executable, "-c", FORKING, db.path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert ("[0, 0, 'of the child']\nof the child, 2\n", 0) == (done.stdout, done.returncode), done.stderr


@LINUX
def test_the_last_feed_closes_the_descriptors(db):
    with db.table("games").changes().cursor():
        wait_until(lambda: is_reported(db))
        events, thread = follow.follower._events, follow.follower._thread
        bell = os.readlink(f"/proc/self/fd/{events._bell}")
    assert thread is not None
    thread.join(PATIENCE_S)

    assert "eventfd" in bell
    assert (None, -1) == (events._inotify, events._bell)
