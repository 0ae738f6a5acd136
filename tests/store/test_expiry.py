"""Documents that are deleted at their end. Time is moved by hand; only the tests of the thread wait for it."""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
import reactdb.servers.http
from reactdb import row
from reactdb.cli import main
from reactdb.errors import IndexExists, InvalidOption, ReadOnlyDatabase, TableExists, UsageError
from reactdb.session import session_of
from reactdb.store import expiry
from reactdb.store.expirer import expirer
from reactdb.testing import VirtualClock
from tests.store.test_processes import running
from tests.support.scaling import examples
from tests.support.threads import wait_until

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


class Time:
    """The present moment of a test."""

    def __init__(self) -> None:
        self.now = START

    def read(self, engine: object) -> datetime:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    moment = Time()
    monkeypatch.setattr(expiry, "read_time", moment.read)
    return moment


def delete_expired(db: Any) -> int:
    """Unlike the thread, it is done when it returns."""
    return expiry.delete_expired(session_of(db).engine)


def keys_of(table: Any) -> list[Any]:
    return sorted(document[table.primary_key] for document in table)


# ---------------------------------------------------------------------------------------------------------------
# The deletions, and their events


def test_a_document_is_deleted_at_its_end_and_not_before(db: Any, time: Time) -> None:
    table = db.table_create("sessions", expire_after=HOUR, field="at")
    table.insert([{"id": 1, "at": START}, {"id": 2, "at": START + MINUTE}])

    time.now = START + HOUR - timedelta(microseconds=1)
    delete_expired(db)
    assert [1, 2] == keys_of(table)

    time.now = START + HOUR
    delete_expired(db)
    assert [2] == keys_of(table)


def test_a_document_without_a_time_in_the_field_never_ends(db: Any, time: Time) -> None:
    table = db.table_create("sessions", expire_after=timedelta(0), field="at")
    table.insert([{"id": 1}, {"id": 2, "at": None}, {"id": 3, "at": "2020-01-01"}, {"id": 4, "at": 0}])

    time.now = START + 1000 * HOUR
    delete_expired(db)

    assert [1, 2, 3, 4] == keys_of(table)


def test_a_document_whose_time_is_moved_lives_on(db: Any, time: Time) -> None:
    table = db.table_create("sessions", expire_after=HOUR, field="at")
    table.insert({"id": 1, "at": START})
    table.get(1).update({"at": START + MINUTE})

    time.now = START + HOUR
    delete_expired(db)

    assert [1] == keys_of(table)


def test_a_deletion_is_told_to_feeds_and_in_the_log_with_its_reason(db: Any, time: Time) -> None:
    table = db.table_create("sessions", expire_after=HOUR, field="at")
    events: list[Any] = []
    table.changes(include_origin=True).subscribe(events.append)
    table.insert({"id": 1, "at": START})

    time.now = START + HOUR
    delete_expired(db)
    wait_until(lambda: len(events) == 2)

    assert {"old_val": {"id": 1, "at": START}, "new_val": None, "origin": "expiry"} == events[1]
    assert "expiry" == list(db.log(table="sessions"))[-1].origin


def test_reads_counts_and_feeds_agree_until_the_deletion(db: Any, time: Time, monkeypatch: Any) -> None:
    monkeypatch.setattr(expirer, "watch", lambda engine: None)
    table = db.table_create("sessions", expire_after=HOUR, field="at")
    counts: list[Any] = []
    table.count().changes(include_initial=True).subscribe(counts.append)
    table.insert({"id": 1, "at": START})

    time.now = START + 2 * HOUR

    assert (1, 1) == (table.count().run(), counts[-1]["new_val"])
    delete_expired(db)
    assert (0, 0) == (table.count().run(), counts[-1]["new_val"])


def test_many_ended_documents_are_deleted_in_small_commits(db: Any, time: Time, monkeypatch: Any) -> None:
    monkeypatch.setattr(expirer, "watch", lambda engine: None)
    table = db.table_create("sessions", expire_after=HOUR, field="at")
    table.insert([{"id": number, "at": START} for number in range(3 * expiry.MOST_DELETIONS)])
    time.now = START + HOUR

    counts = list(expiry.steps(session_of(db).engine))

    assert max(counts) <= expiry.MOST_DELETIONS
    assert 3 * expiry.MOST_DELETIONS == sum(counts)
    assert len(counts) == len({change.commit for change in db.log() if change.origin == "expiry"})


def test_a_view_of_the_past_still_shows_a_deleted_document(db: Any, time: Time) -> None:
    table = db.table_create("sessions", expire_after=HOUR, field="at")
    table.insert({"id": 1, "at": START})
    before = db.seq

    time.now = START + HOUR
    delete_expired(db)

    assert [1] == keys_of(db.at(before).table("sessions"))


# ---------------------------------------------------------------------------------------------------------------
# Setting it


def test_expiry_is_set_changed_and_ended_later(db: Any, time: Time) -> None:
    table = db.table_create("sessions")
    table.insert([{"id": 1, "at": START}, {"id": 2, "seen": START}])
    time.now = START + HOUR

    table.set_expiry(2 * HOUR, "at")
    delete_expired(db)
    assert [1, 2] == keys_of(table)
    table.set_expiry(HOUR, "seen")
    delete_expired(db)
    assert [1] == keys_of(table)
    table.set_expiry(None)
    time.now = START + 9 * HOUR
    delete_expired(db)

    assert [1] == keys_of(table)
    assert {} == db.stats()["expiry"]
    assert [] == table.index_list()


def test_stats_show_the_expiry(db: Any, time: Time) -> None:
    table = db.table_create("sessions", expire_after=HOUR, field="at")
    table.insert([{"id": 1, "at": START}, {"id": 2, "at": START + MINUTE}, {"id": 3}])

    assert {
        "sessions": {"field": "at", "expire_after": HOUR, "next": START + HOUR, "never": 1}
    } == db.stats()["expiry"]


def test_to_set_the_same_expiry_again_logs_nothing(db: Any) -> None:
    table = db.table_create("sessions", expire_after=timedelta(seconds=0.1), field="at")
    seq = db.seq

    table.set_expiry(timedelta(seconds=0.1), "at")

    assert seq == db.seq


def test_a_table_that_exists_with_another_expiry_is_refused(db: Any) -> None:
    db.table_create("sessions", expire_after=HOUR, field="at")

    db.table_create("sessions", exist_ok=True)
    db.table_create("sessions", exist_ok=True, expire_after=HOUR, field="at")
    with pytest.raises(TableExists):
        db.table_create("sessions", exist_ok=True, expire_after=2 * HOUR, field="at")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"expire_after": 60, "field": "at"}, "expire_after is a timedelta from 0"),
        ({"expire_after": -HOUR, "field": "at"}, "expire_after is a timedelta from 0"),
        ({"expire_after": HOUR}, "field is the name of the field"),
        ({"expire_after": HOUR, "field": ""}, "field is the name of the field"),
        ({"expire_after": HOUR, "field": row["at"]}, "field is the name of the field"),
        ({"field": "at"}, "field needs expire_after"),
    ],
)
def test_wrong_arguments_are_named(db: Any, arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidOption, match=sentence):
        db.table_create("sessions", **arguments)
    assert [] == db.table_list()


def test_an_index_of_that_name_is_not_replaced(db: Any) -> None:
    table = db.table_create("sessions")
    table.index_create("expiry")

    with pytest.raises(IndexExists):
        table.set_expiry(HOUR, "at")

    assert ["expiry"] == table.index_list()


def test_a_table_that_is_kept_equal_to_a_selection_has_no_expiry(db: Any) -> None:
    source = db.table_create("source")
    with (
        db.materialize(source.filter(row["a"] == 1), into="copy"),
        pytest.raises(UsageError, match="materialize"),
    ):
        db.table("copy").set_expiry(HOUR, "at")


def test_the_expiry_is_rolled_back_with_its_transaction(db: Any) -> None:
    table = db.table_create("sessions")
    with pytest.raises(ZeroDivisionError), db.transaction():
        table.set_expiry(HOUR, "at")
        1 / 0  # noqa: B018

    assert {} == db.stats()["expiry"]


def test_a_table_without_any_end_is_named_once_in_the_log(
    db: Any, time: Time, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    monkeypatch.setattr(expirer, "watch", lambda engine: None)
    engine = session_of(db).engine
    with caplog.at_level(logging.WARNING, "reactdb"):
        db.table_create("sessions", expire_after=HOUR, field="at").insert({"id": 1, "when": START})
        for _ in range(2):
            expirer._look(engine)

    assert ["no document of table `sessions` has a time in `at`: none of them expires"] == caplog.messages
    expirer._named.clear()


# ---------------------------------------------------------------------------------------------------------------
# All ways in

WAYS = ("native", "mongodb", "import")


def insert_by(way: str, db: Any, key: int, at: datetime, folder: Path) -> None:
    if way == "native":
        db.table("shop.s").insert({"_id": key, "at": at}, conflict="replace")
    elif way == "mongodb":
        documents = reactdb.mongodb(db)["shop"]["s"]
        documents.replace_one({"_id": key}, {"_id": key, "at": at}, upsert=True)
    else:
        lines = folder / "lines.jsonl"
        lines.write_text(reactdb.json.dumps({"_id": key, "at": at}) + "\n", encoding="utf-8")
        done = CliRunner().invoke(main, ["import", db.path, "shop.s", str(lines), "--conflict", "replace"])
        assert 0 == done.exit_code, done.output


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(WAYS), st.integers(0, 5), st.integers(-90, 90)),
        st.tuples(st.just("advance"), st.just(0), st.integers(0, 60)),
        st.tuples(st.just("delete"), st.integers(0, 5), st.just(0)),
    ),
    max_size=12,
)


@settings(max_examples=examples(15))
@given(STEPS)
def test_after_any_writes_a_table_has_what_has_not_ended(steps: list[Any]) -> None:
    moment = Time()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(expiry, "read_time", moment.read)
        with reactdb.connect(Path(folder) / "a.db", durability="soft") as db:
            table = db.table_create("shop.s", "_id", expire_after=HOUR, field="at")
            ends: dict[int, datetime] = {}
            for what, key, minutes in steps:
                if what == "advance":
                    moment.now += minutes * MINUTE
                elif what == "delete":
                    table.get(key).delete()
                    ends.pop(key, None)
                else:
                    at = moment.now + minutes * MINUTE
                    insert_by(what, db, key, at, Path(folder))
                    ends[key] = at + HOUR
                delete_expired(db)
                ends = {key: end for key, end in ends.items() if end > moment.now}
                assert sorted(ends) == keys_of(table)


# ---------------------------------------------------------------------------------------------------------------
# The thread, and other processes


def expiry_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "reactdb-expiry"]


def test_documents_end_by_themselves_and_the_closed_file_leaves_no_thread(path: Path) -> None:
    with reactdb.connect(path) as db:
        table = db.table_create("sessions", expire_after=timedelta(0), field="at")
        table.insert({"id": 1, "at": datetime.now(UTC)})
        wait_until(lambda: table.count().run() == 0)
        assert ["reactdb-expiry"] == expiry_threads()

    wait_until(lambda: not expiry_threads())


def test_what_has_ended_while_no_process_had_the_file_is_deleted_after_it_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(expiry, "read_time", Time().read)
        with reactdb.connect(path) as db:
            db.table_create("sessions", expire_after=HOUR, field="at").insert({"id": 1, "at": START})
            assert 0 == delete_expired(db)

    with reactdb.connect(path) as db:
        wait_until(lambda: db.table("sessions").count().run() == 0)


def test_a_file_without_expiry_has_no_thread(path: Path) -> None:
    # That of an earlier test.
    wait_until(lambda: not expiry_threads())
    with reactdb.connect(path) as db:
        db.table_create("plain").insert({"id": 1, "at": START})

        assert [] == expiry_threads()


def test_a_table_whose_expiry_is_ended_needs_no_thread_any_more(path: Path) -> None:
    with reactdb.connect(path) as db:
        table = db.table_create("sessions", expire_after=HOUR, field="at")
        table.set_expiry(None)

        wait_until(lambda: not expiry_threads())


def test_a_read_only_handle_deletes_nothing(path: Path, time: Time) -> None:
    with reactdb.connect(path) as db:
        db.table_create("sessions", expire_after=1000 * 24 * HOUR, field="at").insert({"id": 1, "at": START})
    time.now = START + 2000 * 24 * HOUR
    # That of the handle above ends a little after it.
    wait_until(lambda: not expiry_threads())
    with reactdb.connect(path, read_only=True) as db:
        assert [] == expiry_threads()
        with pytest.raises(ReadOnlyDatabase):
            delete_expired(db)


OPENED = """
import sys, reactdb
with reactdb.connect(sys.argv[1]) as db:
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_of_two_processes_each_document_is_deleted_by_one(path: Path) -> None:
    with reactdb.connect(path, durability="soft") as db:
        table = db.table_create("sessions", expire_after=timedelta(0), field="at")
        with running(OPENED, path):
            table.insert([{"id": number, "at": START} for number in range(500)])
            wait_until(lambda: table.count().run() == 0)

        deleted = [change.key for change in db.log(table="sessions") if change.origin == "expiry"]
        assert 500 == len(deleted) == len(set(deleted))


def test_another_process_deletes_what_this_one_has_written(path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(expirer, "watch", lambda engine: None)
    with reactdb.connect(path) as db:
        table = db.table_create("sessions", expire_after=timedelta(0), field="at")
        events: list[Any] = []
        table.changes(include_origin=True).subscribe(events.append)
        with running(OPENED, path):
            table.insert({"id": 1, "at": START})
            wait_until(lambda: len(events) == 2)

        assert (None, "expiry") == (events[1]["new_val"], events[1]["origin"])


def test_the_export_of_an_expiring_table_has_its_documents(path: Path) -> None:
    with reactdb.connect(path) as db:
        db.table_create("sessions", expire_after=1000 * 365 * 24 * HOUR, field="at").insert(
            {"id": 1, "at": START}
        )
    done = CliRunner().invoke(main, ["export", str(path), "sessions"])

    assert 1 == json.loads(done.output.splitlines()[0])["id"]


def test_the_end_of_a_document_of_couchdb_is_a_tombstone(db: Any, time: Time) -> None:
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("starlette")
    application = reactdb.servers.http.couchdb(db)

    async def change() -> tuple[int, Any]:
        transport = httpx.ASGITransport(app=application)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await client.put("/s")
            table = db.table("s")
            table.set_expiry(HOUR, "at")
            table.insert({"_id": "a", "at": START})
            time.now = START + HOUR
            delete_expired(db)
            changes = (await client.get("/s/_changes")).json()["results"]
            return (await client.get("/s/a")).status_code, changes[-1]

    status, last = asyncio.run(change())

    assert (404, "a", True) == (status, last["id"], last["deleted"])
    assert last["changes"][0]["rev"].startswith("2-")


def test_a_process_that_idles_looks_once_a_second(path: Path, time: Time, monkeypatch: Any) -> None:
    waits: list[float] = []
    wait = expirer._condition.wait
    monkeypatch.setattr(expirer._condition, "wait", lambda seconds: waits.append(seconds) or wait(0.001))
    with reactdb.connect(path) as db:
        db.table_create("sessions", expire_after=HOUR, field="at").insert({"id": 1, "at": START})
        wait_until(lambda: len(waits) > 3)

    assert {1.0} == set(waits)


def test_a_virtual_clock_that_is_advanced_deletes_what_has_ended(path: Path) -> None:
    clock = VirtualClock()
    for place in (path, ":memory:"):
        with reactdb.connect(place, clock=clock) as db:
            table = db.table_create("sessions", expire_after=HOUR, field="at")
            table.insert({"id": 1, "at": clock.wall})
            clock.advance_by(3_599)
            assert [1] == keys_of(table)
            with db.transaction():
                clock.advance_by(1)
                assert [1] == keys_of(table)
            clock.advance_by(0)
            assert [] == keys_of(table)
    assert [] == clock._watchers
