"""The pytest plugin: its fixtures, used as its users would."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest
import rethinkdb
from reactivex import operators as ops

import reactdb
from reactdb.testing import Recorder, VirtualClock
from reactdb.testing.plugin import (  # noqa: F401  fixtures, also where the package is not installed
    reactdb_clock,
    reactdb_file,
    reactdb_memory,
    reactdb_mongodb,
    reactdb_recorder,
    reactdb_rethinkdb,
)

r = rethinkdb.RethinkDB()


def test_a_recorder_keeps_what_a_feed_tells(reactdb_memory: Any, reactdb_recorder: Any) -> None:  # noqa: F811
    games = reactdb_memory.table_create("games")
    heard = reactdb_recorder(games.changes())

    games.insert({"id": 1})

    assert [{"old_val": None, "new_val": {"id": 1}}] == heard.wait(1)
    heard.assert_quiet()


def test_what_was_not_taken_is_no_silence(reactdb_file: Any, reactdb_recorder: Any) -> None:  # noqa: F811
    games = reactdb_file.table_create("games")
    heard = reactdb_recorder(games.changes())
    games.insert({"id": 1})

    with pytest.raises(AssertionError, match="expected silence"):
        heard.assert_quiet()
    assert 1 == len(heard.take())


def test_waiting_for_what_does_not_come_fails(reactdb_memory: Any, reactdb_recorder: Any) -> None:  # noqa: F811
    heard = reactdb_recorder(reactdb_memory.table_create("games").changes())

    with pytest.raises(AssertionError, match="expected 1 events"):
        heard.wait(1, timeout_s=0.01)
    reactdb_memory.table_drop("games")
    with pytest.raises(AssertionError, match="the feed ended"):
        heard.wait(1)


def test_time_passes_when_the_test_says_so(
    reactdb_memory: Any,  # noqa: F811
    reactdb_recorder: Any,  # noqa: F811
    reactdb_clock: Any,  # noqa: F811
) -> None:
    games = reactdb_memory.table_create("games")
    heard = reactdb_recorder(games.changes(squash=1.0), scheduler=reactdb_clock)
    games.insert({"id": 1, "n": 0})
    games.get(1).update({"n": 1})

    reactdb_clock.advance_by(2.0)

    assert [{"old_val": None, "new_val": {"id": 1, "n": 1}}] == heard.take()
    assert 2.0 == reactdb_clock.now_s


def test_rethinkdbs_driver_runs_without_a_server(reactdb_rethinkdb: Any) -> None:  # noqa: F811
    r.table_create("games").run(reactdb_rethinkdb)
    feed = r.table("games").changes().run(reactdb_rethinkdb)
    r.table("games").insert({"id": 1}).run(reactdb_rethinkdb)

    assert {"old_val": None, "new_val": {"id": 1}} == feed.next(wait=1)


@pytest.mark.parametrize("left_open", ["cursor", "change stream", "nothing"])
def test_a_test_may_close_its_client_while_something_is_open(reactdb_mongodb: Any, left_open: str) -> None:  # noqa: F811
    """What is asserted is that nothing is raised when the fixture ends."""
    games = reactdb_mongodb["arcade"]["games"]
    games.insert_many([{"_id": number} for number in range(300)])
    opened = {"cursor": games.find, "change stream": games.watch, "nothing": list}[left_open]()
    if left_open == "cursor":
        next(opened)

    reactdb_mongodb.close()


def test_a_recorder_is_a_context_manager() -> None:
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        with Recorder(games.changes()) as heard:
            pass
        games.insert({"id": 1})

        assert [] == heard.events
        assert 0.0 == VirtualClock().now_s


def test_a_recorder_is_an_observer_of_anything(reactdb_memory: Any) -> None:  # noqa: F811
    games = reactdb_memory.table_create("games")
    heard = Recorder()
    games.changes().pipe(ops.map(lambda event: event["new_val"]["id"]), ops.take(2)).subscribe(heard)

    for number in range(3):
        games.insert({"id": number})

    assert ([0, 1], [], 1) == (heard.events, heard.errors, heard.completions)
    assert {threading.current_thread().name} == set(heard.threads)
    assert heard.is_completed
    assert heard.wait_for_end() is None
    heard.close()


def test_the_end_of_a_feed_is_waited_for(reactdb_memory: Any, reactdb_recorder: Any) -> None:  # noqa: F811
    heard = reactdb_recorder(reactdb_memory.table_create("games").changes())

    with pytest.raises(AssertionError, match="expected the end, heard"):
        heard.wait_for_end(timeout_s=0.01)
    threading.Thread(target=reactdb_memory.table_drop, args=["games"]).start()

    assert "Changefeed aborted (table unavailable)" == str(heard.wait_for_end())
    assert heard.error is heard.errors[0]


def test_the_plugin_is_light_to_import() -> None:
    """pytest imports it in everybody's runs: neither reactdb's engine nor a driver may come along."""
    code = (
        "import sys; import pytest; import reactdb.testing.plugin;"
        "print([name for name in ('rethinkdb', 'asyncio.events', 'reactdb.servers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "rethinkdb" not in done.stdout
    assert "reactdb.servers" not in done.stdout
