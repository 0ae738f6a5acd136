"""A handle that the program has lost gives back what it has opened; one that something still uses stays open."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reactdb
import reactdb.servers.http
import reactdb.testing
from reactdb.session import session_of
from reactdb.store import registry
from tests.support.feeds import heard
from tests.support.threads import in_thread, wait_until

on_linux = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")


@pytest.fixture
def warned() -> Iterator[list[str]]:
    """What Python was warned of, instead of failing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        messages: list[str] = []
        yield messages
        messages += [str(one.message) for one in caught]


def opened(path: Path) -> Any:
    db = reactdb.connect(path, durability="soft")
    db.table_create("games", exist_ok=True).insert({"id": 1}, conflict="replace")
    return db


def descriptors(path: Path) -> list[str]:
    """What this process has open of a file: the file itself, its log, and the log's index."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if target.startswith(str(path)):
            found.append(target)
    return found


def is_open(path: Path) -> bool:
    """Whether this process has the file open. `remove` refuses that."""
    return any(engine.path == str(path) for engine, _ in registry.opened.values())


@on_linux
def test_a_lost_handle_is_closed_at_once(path, warned):
    db = opened(path)
    assert descriptors(path)

    del db
    assert [] == descriptors(path)
    assert not is_open(path)
    # As after `close()`: the log was emptied into the file.
    assert not path.with_name(path.name + "-wal").exists()


def test_the_warning_names_the_file_and_the_line_that_opened_it(path):
    db = reactdb.connect(path)
    line = sys._getframe().f_lineno - 1

    with pytest.warns(ResourceWarning) as caught:
        del db
    assert [f"{path} was not closed, opened at {__file__}:{line}: close it, or use it in a `with` block"] == [
        str(one.message) for one in caught
    ]
    # Where it was lost.
    assert __file__ == caught[0].filename


def test_a_handle_that_was_closed_is_lost_without_a_word(path):
    with opened(path) as db:
        pass
    del db
    closed = opened(path)
    closed.close()
    del closed


def test_a_database_in_memory_is_lost_without_a_word_and_gives_its_memory_back():
    """Newcomers and tests drop them all the time, and they hold no file."""
    db = reactdb.connect(":memory:")
    db.table_create("games").insert({"id": 1})
    engine = session_of(db).engine

    del db
    assert engine.is_closed
    assert 0 == len(engine.readers)


@pytest.mark.slow
@on_linux
def test_a_program_that_loses_handles_never_runs_out_of_descriptors(tmp_path):
    program = """
import resource, sys
import reactdb

resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
for number in range(24):
    reactdb.connect(f"{sys.argv[1]}/{number}.db", durability="soft").table_create("games").insert({"id": number})
for number in range(24):
    # Only the garbage collector finds it.
    cycle = [reactdb.connect(f"{sys.argv[1]}/{number}.db")]
    cycle.append(cycle)
    del cycle
    if number % 3 == 0:
        __import__("gc").collect()
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60
    )

    assert ("done\n", "") == (done.stdout, done.stderr)


KEEPERS: dict[str, Callable[[Any], Any]] = {
    "a table": lambda db: db.table("games"),
    "a selection": lambda db: db.table("games").filter(lambda game: True),
    "a feed": lambda db: db.table("games").changes(),
    "a feed with terms": lambda db: db.changes().filter(lambda event: True),
    "a union of feeds": lambda db: db.table("games").changes().union(db.changes()),
    "a cursor": lambda db: db.table("games").changes().cursor(),
    "a reader": lambda db: db.table("games").changes().reader(),
    "a subscription": lambda db: db.table("games").changes().subscribe(print),
    "a list": lambda db: reactdb.LiveList(db.table("games").order_by("id").limit(3)),
    "the log": lambda db: db.log(),
    "the past": lambda db: db.at(1),
    "a table of the past": lambda db: db.at(1).table("games"),
    "the blobs": lambda db: db.blobs,
    "an open blob": lambda db: db.blobs.open(db.blobs.put(b"x")),
    "a consumer": lambda db: db.consumer("c"),
    "a worker": lambda db: db.consumer("c").batches(),
    "a transaction": lambda db: db.transaction(),
    "another handle": lambda db: opened(Path(db.path)),
    "a session": lambda db: session_of(db),
    "a materialized view": lambda db: db.materialize(
        db.table("games").filter(lambda game: True), into="view"
    ),
    "a client of MongoDB": lambda db: reactdb.mongodb(db),
    "a collection of MongoDB": lambda db: reactdb.mongodb(db)["a"]["b"],
    "Aidbox": lambda db: reactdb.aidbox(db),
    "an application of CouchDB": lambda db: reactdb.servers.http.couchdb(db),
    "a connection of RethinkDB's driver": lambda db: reactdb.testing.rethinkdb_connection(db),
}


def is_collected(path: Path) -> bool:
    """Whether the file is closed, after another look for objects that refer to each other only: the thread that follows the
    file may have used one of them during the look before."""
    gc.collect()
    return not is_open(path)


@pytest.mark.parametrize("name", KEEPERS)
def test_whatever_can_still_use_the_file_keeps_it_open(name, path, warned):
    kept = KEEPERS[name](opened(path))
    gc.collect()
    assert is_open(path)

    with opened(path) as db:
        assert {"id": 1} == db.table("games").get(1).run()
    assert is_open(path)
    # What lives on without being referred to is ended; MongoDB's clients have every attribute.
    for name_of_end in ("dispose", "close"):
        end = getattr(type(kept), name_of_end, None)
        if end is not None:
            end(kept)
    end = None
    del kept
    wait_until(lambda: is_collected(path))


def test_a_feed_of_a_lost_handle_goes_on(path, warned):
    cursor = opened(path).table("games").changes().cursor()
    with opened(path) as db:
        db.table("games").insert({"id": 2})

    assert [{"old_val": None, "new_val": {"id": 2}}] == heard(cursor, 1)
    cursor.close()


def test_a_subscription_that_nobody_refers_to_keeps_the_file_open(path, warned):
    """It lives as long as the database: what other processes write is still delivered."""
    events: list[Any] = []

    def subscribe() -> None:
        opened(path).table("games").changes().subscribe(events.append)

    subscribe()
    gc.collect()
    with opened(path) as db:
        db.table("games").insert({"id": 2})
        assert [{"id": 2}] == [event["new_val"] for event in events]
        # What ends it: nobody else can, because its handle is gone.
        (subscription,) = session_of(db).engine.publisher.listener.subscriptions()
        subscription.consumer.close() if hasattr(subscription, "consumer") else subscription.close()
        del subscription
        db.table("games").insert({"id": 3})
    wait_until(lambda: is_collected(path))


def test_a_subscriber_of_a_lost_database_in_memory_is_not_called():
    called: list[object] = []
    db = reactdb.connect(":memory:")
    engine = session_of(db).engine
    db.table_create("games").changes().subscribe(called.append, called.append, lambda: called.append(None))
    readers = engine.readers

    del db, engine
    gc.collect()
    assert 0 == len(readers)
    assert [] == called


class TestInTheMiddleOfSomethingElse:
    """Python may find that a handle is lost in any line and in any thread, also where a lock of reactdb is held."""

    def lose(self, path: Path) -> None:
        handle = opened(path)
        del handle

    def test_while_another_database_publishes(self, tmp_path, warned):
        with opened(tmp_path / "other.db") as other:
            games = other.table("games")
            games.filter(lambda game: self.lose(tmp_path / "a.db") or True).changes().subscribe(print)
            games.insert({"id": 2})

            wait_until(lambda: not is_open(tmp_path / "a.db"))

    def test_while_the_registry_is_locked(self, path, warned, monkeypatch):
        """As the collector may do it within `connect`."""
        lost = opened(path)
        identity_of = registry.read_identity

        def collect(of: str) -> Any:
            nonlocal lost
            lost = None
            return identity_of(of)

        monkeypatch.setattr(registry, "read_identity", collect)
        with in_thread(lambda: opened(path.with_name("b.db"))):
            wait_until(lambda: not is_open(path))

    def test_within_a_write_of_the_same_file(self, path, warned):
        with opened(path) as db:
            handles = [opened(path), opened(path)]
            db.table("games").get(1).update(lambda game: {"n": len([handles.pop(), handles.pop()])})
            wait_until(lambda: registry.opened[registry.read_identity(str(path)), False][1] == 1)

            assert {"id": 1, "n": 2} == db.table("games").get(1).run()

    def test_in_another_thread(self, path, warned):
        handles = [opened(path)]
        in_thread(handles.clear)

        assert not is_open(path)

    def test_no_thread_stays_behind(self, tmp_path, warned):
        before = threading.active_count()
        with opened(tmp_path / "other.db") as other:
            for _ in range(5):
                other.table("games").get(1).update(lambda _: self.lose(tmp_path / "a.db") or {"n": 1})
            wait_until(lambda: not is_open(tmp_path / "a.db"))

        assert before == threading.active_count()


@pytest.mark.parametrize(
    "lines",
    [
        "db = opened()",
        "db = opened(); feed = db.changes().cursor()",
        "db = opened(); db.changes().subscribe(print)",
        "db = opened(); import builtins; builtins.kept = [db]; builtins.kept.append(builtins.kept)",
        "db = opened(); import threading, time; threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
    ],
)
def test_a_program_that_ends_with_handles_open_says_nothing(path, lines):
    program = f"""
import sys
import reactdb

def opened():
    db = reactdb.connect(sys.argv[1])
    db.table_create("games", exist_ok=True)
    return db

{lines}
"""
    command = [sys.executable, "-W", "always", "-X", "dev", "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_fork_loses_the_handles_of_its_parent_without_a_word(path):
    program = """
import os, sys
import reactdb

db = reactdb.connect(sys.argv[1])
db.table_create("games")
child = os.fork()
if child == 0:
    del db
    sys.stderr.flush()
    os._exit(0)
os.waitpid(child, 0)
db.table("games").insert({"id": 1})
db.close()
"""
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert (0, "") == (done.returncode, done.stderr)
