"""The log backwards, documents with their history, figures of the file, and the activity."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

import reactdb
from reactdb.servers.inspector import log_pages
from reactdb.servers.inspector.routes import ROUTES
from reactdb.session import session_of
from reactdb.store.snapshot import Snapshot
from tests.servers.inspector.service import Inspector


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        games = database.table_create("games")
        games.index_create("score")
        games.insert({"id": 1, "score": 5})
        with database.transaction(origin="ui"):
            games.get(1).update({"score": 6})
            database.table_create("notes").insert({"id": "a"})
        games.get(1).delete()
        yield database


@pytest.fixture
def page(db: Any) -> Iterator[Inspector]:
    inspector = Inspector(db)
    yield inspector
    inspector.application.close()


def kinds(answer: dict[str, Any]) -> list[str]:
    return [change["kind"] for change in answer["changes"]]


def test_the_log_is_read_from_its_end(db: Any, page: Inspector) -> None:
    answer = page.ask("log")
    assert [change["seq"] for change in answer["changes"]] == list(range(db.seq, 0, -1))
    assert kinds(answer) == [
        "delete",
        "insert",
        "table_create",
        "update",
        "insert",
        "index_create",
        "table_create",
    ]
    assert not answer["more"]


def test_a_change_has_both_documents_and_its_writer(page: Inspector) -> None:
    (change,) = page.ask("log", kind="update")["changes"]
    assert (change["table"], change["key"], change["origin"]) == ("games", "=1", "ui")
    assert (change["old"], change["new"]) == ({"id": 1, "score": 5}, {"id": 1, "score": 6})
    assert datetime.fromisoformat(change["time"]).tzinfo == UTC


def test_the_log_is_filtered_by_table_origin_and_kind(page: Inspector) -> None:
    assert kinds(page.ask("log", table="games")) == ["delete", "update", "insert"]
    assert kinds(page.ask("log", origin="ui")) == ["insert", "table_create", "update"]
    assert kinds(page.ask("log", origin="", kind="insert")) == ["insert"]
    assert kinds(page.ask("log", origin="ui", table="notes", kind="insert")) == ["insert"]
    assert kinds(page.ask("log", kind="index_create")) == ["index_create"]


def test_pages_of_the_log_follow_each_other(db: Any, page: Inspector) -> None:
    seqs: list[int] = []
    before = None
    while True:
        answer = page.ask("log", before=before, limit=2)
        seqs += [change["seq"] for change in answer["changes"]]
        if not answer["more"]:
            break
        before = answer["next_before"]
    assert seqs == list(range(db.seq, 0, -1))


def test_a_filter_that_matches_nothing_says_where_to_go_on(
    db: Any, page: Inspector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pages, "MOST_EXAMINED", 3)
    before, pages = None, 0
    while True:
        answer = page.ask("log", before=before, origin="nobody")
        pages += 1
        assert answer["changes"] == []
        if not answer["more"]:
            break
        before = answer["next_before"]
    assert pages == 3


def test_wrong_filters_are_refused(page: Inspector) -> None:
    assert "kind is one of insert" in page.ask("log", 400, kind="upsert")["error"]
    assert "`nothing`" in page.ask("log", 404, table="nothing")["error"]


def test_a_removed_history_ends_the_log(db: Any, page: Inspector) -> None:
    db.compact(keep=2)
    answer = page.ask("log")
    assert (len(answer["changes"]), answer["more"]) == (2, False)


def test_a_document_has_its_exact_json_and_its_history(db: Any, page: Inspector) -> None:
    document = {"id": "d", "price": Decimal("1.10"), "day": date(2026, 1, 2), "data": b"\x01"}
    db.table("notes").insert(document)
    answer = page.ask("document", table="notes", key="d")
    assert reactdb.json.loads(answer["json"]) == document
    assert answer["doc"] == {"id": "d", "price": "1.10", "day": "2026-01-02", "data": "AQ=="}
    assert [change["kind"] for change in answer["history"]] == ["insert"]
    assert not answer["deleted"]


def test_a_deleted_document_is_shown_as_of_every_moment(db: Any, page: Inspector) -> None:
    now = page.ask("document", table="games", key="=1")
    assert (now["doc"], now["json"], now["deleted"]) == (None, None, True)
    assert [change["kind"] for change in now["history"]] == ["delete", "update", "insert"]
    assert page.ask("document", table="games", key="=1", at=4)["doc"] == {"id": 1, "score": 6}
    assert page.ask("document", table="games", key="=1", at=3)["doc"] == {"id": 1, "score": 5}
    assert page.ask("document", table="games", key="=1", at=2)["deleted"]


def test_a_long_history_is_read_in_parts(db: Any, page: Inspector) -> None:
    for number in range(20):
        db.table("notes").get("a").update({"n": number})
    first = page.ask("document", table="notes", key="a", limit=15)
    assert (len(first["history"]), first["more"]) == (15, True)
    rest = page.ask("document", table="notes", key="a", limit=15, before=first["history"][-1]["seq"])
    assert (len(rest["history"]), rest["more"]) == (6, False)
    assert rest["doc"] == first["doc"]


def test_a_document_that_never_was_has_no_history(page: Inspector) -> None:
    answer = page.ask("document", table="notes", key="nobody")
    assert (answer["deleted"], answer["history"]) == (True, [])


def test_the_overview_has_tables_counts_and_indexes(db: Any, page: Inspector) -> None:
    answer = page.ask("overview")
    assert (answer["file"], answer["write"], answer["seq"], answer["oldest"]) == (
        ":memory:",
        False,
        db.seq,
        0,
    )
    games, notes = answer["tables"]
    assert (games["name"], games["count"], games["primary_key"], games["last_seq"]) == (
        "games",
        0,
        "id",
        db.seq,
    )
    assert [(one["name"], one["ready"], one["unique"], one["multi"]) for one in games["indexes"]] == [
        ("score", True, False, False)
    ]
    assert (notes["count"], "undo" in answer) == (1, False)
    assert datetime.fromisoformat(answer["oldest_time"]) <= datetime.fromisoformat(answer["newest_time"])


def test_counts_are_those_of_every_moment(db: Any, page: Inspector) -> None:
    games = db.table("games")
    for number in range(60):
        games.insert({"id": number % 45, "n": number}, conflict="replace")
        if number % 7 == 0:
            games.get(number % 5).delete()
    db.table_drop("notes")
    for seq in range(db.seq + 1):
        past = db.at(seq)
        expected = {name: past.table(name).count().run() for name in past.table_list()}
        assert {one["name"]: one["count"] for one in page.ask("overview", at=seq)["tables"]} == expected


def test_a_moment_has_the_time_of_its_newest_change(db: Any, page: Inspector) -> None:
    for change in db.log():
        at_time = page.ask("overview", at=change.seq)["at_time"]
        assert datetime.fromisoformat(at_time).timestamp() * 1000 == pytest.approx(change.time, abs=0.5)


def test_the_seq_of_a_time_is_found(db: Any, page: Inspector) -> None:
    assert page.ask("seq_at", time="2000-01-01T00:00:00Z")["seq"] == 0
    assert page.ask("seq_at", time="2200-01-01T00:00:00+02:00")["seq"] == db.seq
    assert "time zone" in page.ask("seq_at", 400, time="2026-01-01T00:00:00")["error"]
    assert "is a time" in page.ask("seq_at", 400, time="yesterday")["error"]


def test_the_activity_has_feeds_consumers_and_readers(db: Any, page: Inspector) -> None:
    consumer = db.consumer("mail", db.table("notes"), since=0)
    with db.table("notes").filter(reactdb.row["id"] == "a").changes().subscribe(lambda event: None):
        answer = page.ask("activity")
    (feed,) = answer["processes"][0]["feeds"]
    assert (feed["table"], feed["lag"], feed["queued"]) == ("notes", 0, 0)
    assert feed["routing"]
    assert [one["name"] for one in answer["consumers"]] == ["mail"]
    assert answer["consumers"][0]["lag"] > 0
    assert answer["holds"]
    del consumer


def test_a_closed_database_is_said_so(db: Any, page: Inspector, caplog: pytest.LogCaptureFixture) -> None:
    asked: dict[str, dict[str, Any]] = {
        "overview": {},
        "rows": {"table": "games"},
        "document": {"table": "games", "key": "=1"},
        "log": {},
        "stream": {},
        "activity": {},
        "seq_at": {"time": "2026-01-01T00:00:00Z"},
    }
    assert ROUTES.keys() == asked.keys()
    # A list of rows that is followed.
    page.ask("rows", table="notes", order="id")
    db.close()
    for name, parameters in {**asked, "rows": {"table": "notes", "order": "id"}}.items():
        assert "closed" in page.ask(name, 503, **parameters)["error"]
    assert [] == caplog.records


def test_the_newest_changes_are_read_no_further_than_their_bytes(
    db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in range(100):
        db.table("notes").insert({"id": key, "text": "x" * 100})
    read: list[int] = []
    size_of, read_changes = log_pages.size_of_change, Snapshot.changes

    def count_changes(*arguments: Any, **options: Any) -> Any:
        found = read_changes(*arguments, **options)
        read.extend(change.seq for change in found)
        return found

    monkeypatch.setattr(log_pages, "MOST_BYTES", 2 * size_of(next(db.log(db.seq - 1))) + 1)
    monkeypatch.setattr(Snapshot, "changes", count_changes)
    with session_of(db).engine.fresh_snapshot() as snapshot:
        changes = log_pages.read_newest(snapshot, 0, 200)

    assert [db.seq - 2, db.seq - 1, db.seq] == [change["seq"] for change in changes]
    assert log_pages.PART == len(read)


def test_the_newest_changes_are_all_changes_past_a_seq(db: Any) -> None:
    for key in range(50):
        db.table("notes").insert({"id": key})
    with session_of(db).engine.fresh_snapshot() as snapshot:
        for since, most in ((0, 200), (0, 30), (db.seq - 1, 200), (db.seq - 21, 200), (db.seq, 200)):
            changes = log_pages.read_newest(snapshot, since, most)
            assert list(range(max(since, db.seq - most) + 1, db.seq + 1)) == [
                change["seq"] for change in changes
            ]
