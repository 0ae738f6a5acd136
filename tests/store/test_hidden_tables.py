"""Hidden tables: they belong to the engine or a dialect, are written with what they describe, and nobody else sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.change import HiddenTable
from reactdb.query import Query
from reactdb.session import session_of
from reactdb.store import exports
from reactdb.table import Table
from reactdb.values import codec, collation
from tests.support.command import run
from tests.support.hooks import JOURNALLED, journal_of, make_journal
from tests.support.inspection import problems
from tests.support.processes import another_process

NOTES = HiddenTable("tests", "notes")


def notes_of(db: Any, name: HiddenTable = NOTES) -> Table:
    session_of(db).make_hidden(name)
    return Table(session_of(db), Query(name))


def test_it_is_read_and_written_by_its_owner_and_name(db: Any):
    notes = notes_of(db)
    notes.insert([{"id": 1, "n": 2}, {"id": 2, "n": 1}])
    notes.index_create("n")
    notes.get(1).update({"n": 3})

    assert [{"id": 2, "n": 1}, {"id": 1, "n": 3}] == notes.order_by(index="n").run()
    assert codec.decode(session_of(db).get(NOTES, collation.key_bytes(1))) == {"id": 1, "n": 3}
    assert session_of(db).info(NOTES).owner == "tests"
    assert 2 == notes.count().run()


def test_it_is_made_once(db: Any):
    notes_of(db).insert({"id": 1})

    assert 1 == notes_of(db).count().run()


def test_names_of_users_tables_and_of_other_owners_are_apart(db: Any):
    ours, theirs = notes_of(db), notes_of(db, HiddenTable("others", "notes"))
    public = db.table_create("notes")
    for number, table in enumerate((ours, theirs, public)):
        table.insert({"id": number})

    assert [[{"id": 0}], [{"id": 1}], [{"id": 2}]] == [table.run() for table in (ours, theirs, public)]
    db.table_drop("notes")
    assert [[{"id": 0}], [{"id": 1}]] == [table.run() for table in (ours, theirs)]
    with pytest.raises(reactdb.TableNotFound):
        db.table("notes").run()


def test_a_user_cannot_name_it(db: Any):
    notes_of(db).insert({"id": 1})

    for name in ("notes", "notes of tests", "tests.notes", NOTES):
        with pytest.raises((reactdb.TableNotFound, reactdb.errors.InvalidName)):
            db.table(name).run()
        with pytest.raises((reactdb.TableNotFound, reactdb.errors.InvalidName)):
            db.table_drop(name)


def test_it_is_taken_back_with_what_it_describes(db: Any):
    games, notes = db.table_create("games"), notes_of(db)
    with db.transaction():
        games.insert({"id": 1})
        notes.insert({"id": 1})
    with pytest.raises(ZeroDivisionError), db.transaction():
        games.insert({"id": 2})
        notes.insert({"id": 2})
        raise ZeroDivisionError

    assert [{"id": 1}] == games.run() == notes.run()
    changes = {change.seq: change for change in db.log()}
    assert ["table_create", "insert"] == [change.kind for change in changes.values()]


def test_it_is_in_no_list_log_feed_count_or_past(db: Any):
    told: list[dict[str, Any]] = []
    db.changes(include_catalogue=True, include_seq=True).subscribe(told.append)
    ordinary: list[dict[str, Any]] = []
    db.changes().subscribe(ordinary.append)
    notes = notes_of(db)
    notes.insert({"id": "hidden"})
    games = db.table_create("games")
    games.insert({"id": 1})
    notes.index_create("n")
    notes.delete()

    assert ["games"] == db.table_list() == db.at(db.seq).table_list()
    assert {"games": 1} == db.stats()["tables"]
    assert ["table_create", "insert"] == [change.kind for change in db.log()]
    assert ["games", "games"] == [event["table"] for event in told]
    assert [{"table": "games", "old_val": None, "new_val": {"id": 1}}] == ordinary
    with db.changes(since=0, include_catalogue=True, include_seq=True).cursor() as cursor:
        assert told == [cursor.next(timeout=5) for _ in range(2)]
    with db.changes(include_initial=True).cursor() as cursor:
        assert [{"id": 1}] == [cursor.next(timeout=5)["new_val"]]
        with pytest.raises(TimeoutError):
            cursor.next(timeout=0)
    assert 6 == db.seq


def test_old_documents_that_are_asked_for_late_hide_it_too(db: Any):
    games, notes = db.table_create("games"), notes_of(db)
    for number in range(3):
        games.insert({"id": 1, "n": number}, conflict="replace")
        notes.insert({"id": 1, "n": number}, conflict="replace")

    assert [None, None, {"id": 1, "n": 0}, {"id": 1, "n": 1}] == [change.old_val for change in db.log()]


def test_no_command_shows_it(path: Path):
    with reactdb.connect(path) as db:
        notes_of(db).insert({"id": "secret"})
        db.table_create("games").insert({"id": 1})

    for command in (
        ["tail"],
        ["tail", "--json"],
        ["inspect"],
        ["inspect", "--json"],
        ["top", "--count", "1"],
        ["doctor"],
    ):
        result = run(command[0], path, *command[1:])
        assert (0, False, False) == (result.exit_code, "secret" in result.output, "notes" in result.output)
    assert 0 != run("export", path, "notes").exit_code
    assert ["games"] == [one["name"] for one in json.loads(run("inspect", path, "--json").stdout)["tables"]]


def test_what_a_write_hook_writes_there_is_seen_by_nobody(path: Path):
    """The last revision of each document, in the transaction that writes the document."""
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        make_journal(db)
        session_of(db).set_hook("games", JOURNALLED)
        whole: list[Any] = []
        db.changes(batches=True, include_catalogue=True).subscribe(whole.append)
        games.insert([{"id": 1}, {"id": 2}])
        games.get(1).update({"n": 1})
        games.get(2).delete()

        assert [2, 1, 1] == [len(commit) for commit in whole]
        with db.changes(since=0).cursor() as cursor:
            told = [cursor.next(timeout=5) for _ in range(4)]
            with pytest.raises(TimeoutError):
                cursor.next(timeout=0)
        assert {"games"} == {event["table"] for event in told}
        assert [1, 2, 1, 2] == [change.key for change in db.log() if change.catalogue is None]
        assert ["games"] == db.table_list() == db.at(db.seq).table_list()
        assert {"games": 1} == db.stats()["tables"]
        assert [{"id": 1, "n": 1}] == db.at(db.seq).table("games").run()
        assert [(1, b"2-2", False), (2, b"2-0", True)] == [
            (one["id"], one["revision"], one["is_deleted"]) for one in journal_of(db).order_by("id").run()
        ]
        head = db.seq
    with exports.open_to_read(str(path)) as engine, engine.snapshot() as snapshot:
        page, position = exports.changes(snapshot, 0, head, with_old=True)
        assert () == exports.find_table_ids(snapshot, "journal")
    assert page is not None
    assert ([4, 6, 8, 10], head) == (list(page.seqs), position)
    for command in (["tail", "--json"], ["inspect"], ["export", "games"], ["top", "--count", "1"]):
        result = run(command[0], path, *command[1:])
        assert (0, False) == (result.exit_code, "is_deleted" in result.output), result.output
    assert 0 != run("export", path, "journal").exit_code
    assert [] == problems(path)


def test_pages_for_bulk_readers_leave_it_out(path: Path):
    with reactdb.connect(path) as db:
        games, notes = db.table_create("games"), notes_of(db)
        for number in range(5):
            games.insert({"id": number})
            notes.insert({"id": number})
        head = db.seq
    with exports.open_to_read(str(path)) as engine, engine.snapshot() as snapshot:
        page, position = exports.changes(snapshot, 0, head, with_old=True)
        nothing, _ = exports.changes(snapshot, 0, 2, with_old=False)
        assert () == exports.find_table_ids(snapshot, "notes")

    assert page is not None
    assert ([3, 5, 7, 9, 11], head) == (list(page.seqs), position)
    assert nothing is None


def test_another_process_has_it_too(path: Path):
    with reactdb.connect(path) as db, another_process(path) as other:
        notes = notes_of(db)
        with Table(session_of(other), Query(NOTES)).changes().cursor() as cursor:
            notes.insert({"id": 1})

            assert {"id": 1} == cursor.next(timeout=10)["new_val"]
        assert [] == other.table_list()
    assert [] == problems(path)


def test_salvage_leaves_it_to_its_owner(path: Path):
    with reactdb.connect(path) as db:
        notes_of(db).insert({"id": "secret"})
        db.table_create("games").insert({"id": 1})

    result = run("export", "--salvage", path)

    assert 0 == result.exit_code, result.output
    saved = {file.name: file.read_text() for file in Path(f"{path}.salvaged").glob("*")}
    assert ["games.jsonl"] == [name for name in saved if name.endswith(".jsonl")]
    assert "secret" not in "".join(saved.values())


def test_compaction_removes_one_that_was_dropped(path: Path):
    with reactdb.connect(path) as db:
        notes_of(db).insert({"id": 1})
        session_of(db).transact(lambda transaction: transaction.drop_table(transaction.catalogue.live[NOTES]))
        assert session_of(db).find(NOTES) is None
        assert 1 == db.compact(keep=0)["tables"]
    assert [] == problems(path)
