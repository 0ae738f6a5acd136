"""freezegun and time-machine set the wall time of reactdb, and no wait of reactdb hangs while they do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

import reactdb
from reactdb import r

MOMENT = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)


@pytest.fixture(params=["freezegun", "time_machine"])
def frozen(request: pytest.FixtureRequest) -> Any:
    """A function that freezes the time: `with frozen(moment):`. Each test runs with freezegun and with time-machine."""
    library = pytest.importorskip(request.param, reason="`pip install freezegun time-machine` for this test")
    if request.param == "freezegun":
        return lambda: library.freeze_time(MOMENT.replace(tzinfo=None))
    return lambda: library.travel(MOMENT, tick=False)


@pytest.fixture(params=["memory", "file"])
def db(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"reactdb_{request.param}")


@pytest.fixture
def notes(db: Any) -> Any:
    return db.table_create("notes")


def test_a_squashed_feed_delivers(notes, reactdb_recorder, frozen):
    with frozen():
        heard = reactdb_recorder(notes.changes(squash=0.01))
        notes.insert({"id": 1})

        assert [{"old_val": None, "new_val": {"id": 1}}] == heard.wait(1)


def test_a_cursor_of_a_squashed_feed_gets_its_event(notes, frozen):
    with frozen(), notes.changes(squash=0.01).cursor() as cursor:
        notes.insert({"id": 1})

        assert {"id": 1} == cursor.next()["new_val"]


def test_a_coroutine_gets_the_event_of_a_squashed_feed(notes, frozen):
    with frozen():

        async def main() -> Any:
            events = aiter(notes.changes(squash=0.01))
            notes.insert({"id": 1})
            event = await anext(events)
            events.close()
            return event

        assert {"id": 1} == asyncio.run(main())["new_val"]


def test_a_timeout_ends(notes, frozen):
    with frozen(), notes.changes().cursor() as cursor, pytest.raises(TimeoutError):
        cursor.next(timeout=0.01)


def test_a_worker_gets_its_partial_batch(db, notes, frozen):
    with frozen():
        notes.insert({"id": 1})
        with db.consumer("mail", notes, since=0).batches(max_wait_s=0.01) as batches:
            assert 1 == len(next(batches))


def test_a_coroutine_gets_the_partial_batch_of_a_worker(db, notes, frozen):
    async def main() -> int:
        with db.consumer("mail", notes, since=0).batches(max_wait_s=0.01) as batches:
            return len(await anext(batches))

    with frozen():
        notes.insert({"id": 1})
        assert 1 == asyncio.run(main())


def test_a_writer_that_waits_for_a_lock_gives_up(tmp_path, frozen):
    with frozen():
        path = tmp_path / "a.db"
        with reactdb.connect(path, durability="soft") as db:
            db.table_create("notes")
            code = (
                "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN IMMEDIATE');"
                " print('held', flush=True); sys.stdin.read()"
            )
            with subprocess.Popen(
                [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as other:
                assert other.stdout is not None
                assert b"held" in other.stdout.readline()
                with (
                    reactdb.connect(path, busy_timeout=0.05) as waiting,
                    pytest.raises(reactdb.DatabaseBusy),
                ):
                    waiting.table("notes").insert({"id": 1})
                other.communicate()


def test_the_wall_time_is_the_frozen_one(db, notes, frozen):
    with frozen():
        notes.insert({"id": 1})
        notes.get(1).update({"at": r.now()})

        assert MOMENT == notes.get(1).run()["at"]
        assert {round(MOMENT.timestamp() * 1000)} == {change.time for change in db.log(table="notes")}


def test_reactdb_may_be_imported_while_the_time_is_frozen():
    pytest.importorskip("freezegun", reason="`pip install freezegun` for this test")
    code = """
import freezegun
with freezegun.freeze_time("2031-05-06"):
    import reactdb
    db = reactdb.connect(":memory:")
    notes = db.table_create("notes")
    with notes.changes(squash=0.01).cursor() as cursor:
        notes.insert({"id": 1})
        print(cursor.next()["new_val"])
    db.close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert "{'id': 1}\n" == done.stdout, done.stderr
