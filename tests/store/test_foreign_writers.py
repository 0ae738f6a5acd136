"""Programs that write to the file with their own SQL: the doctor finds their changes, and a process that reads them raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.store.file import sqlite
from tests.support.inspection import problems

PATIENCE_S = 20


@pytest.fixture
def db(path: Path) -> Iterator[Any]:
    """A table and an index; ten documents, two of them changed, one deleted: twelve changes and a deletion."""
    with reactdb.connect(path, durability="soft") as database:
        games = database.table_create("games")
        games.index_create("n")
        games.insert([{"id": n, "n": n} for n in range(10)])
        games.get(1).update({"n": 100})
        games.get(2).update({"n": 200})
        games.get(3).delete()
        yield database


@contextmanager
def bare(path: Path) -> Iterator[Any]:
    connection = sqlite.connect(str(path), mode="rw", busy_timeout_s=5)
    try:
        yield connection
    finally:
        connection.close()


def meddle(path: Path, statement: str, *parameters: Any) -> None:
    with bare(path) as connection:
        assert connection.execute(statement, parameters).rowcount != 0


# What another program might do: a name, the statement, and words of what the doctor says of it.
DEEDS: list[tuple[str, str, str]] = [
    (
        "an entry appended without a head",
        "INSERT INTO log (seq, table_id, kind, step, time, key, body)"
        " SELECT 16, table_id, 0, 0, time, x'f07700', body FROM log WHERE seq = 15 - 3",
        "the list of documents does not have it",
    ),
    ("an entry taken out of the middle", "DELETE FROM log WHERE seq = 7", "log entries 7 to 7 are missing"),
    ("the newest entry taken away", "DELETE FROM log WHERE seq = 15", "which is missing"),
    (
        "entries far beyond the end",
        "INSERT INTO log (seq, table_id, kind, step, time, key, body)"
        " SELECT 100, table_id, 0, 0, time, key, body FROM log WHERE seq = 3",
        "log entries 16 to 99 are missing",
    ),
    ("a head that points into the past", "UPDATE heads SET seq = 4 WHERE seq = 13", "which was superseded"),
    (
        "a document without its head",
        "DELETE FROM heads WHERE seq = 10",
        "the list of documents does not have it",
    ),
    ("a document moved to another key", "UPDATE log SET key = x'f0' WHERE seq = 10", "than its key"),
    ("a document replaced by nonsense", "UPDATE log SET body = x'c1' WHERE seq = 10", "cannot be read"),
    ("a document taken out of its entry", "UPDATE log SET body = NULL WHERE seq = 10", "without a document"),
    (
        "the kind of a past change",
        "UPDATE log SET kind = 1 WHERE seq = 10",
        "that it superseded is missing",
    ),
    ("what a past change superseded", "UPDATE log SET prev = 6 WHERE seq = 13", "supersedes"),
    ("a time set back", "UPDATE log SET time = 5 WHERE seq = 10", "before its predecessor"),
    (
        "an index entry",
        "UPDATE entries SET value = x'00' WHERE key = (SELECT min(key) FROM entries)",
        "index 'n'",
    ),
    ("the low-water mark", "UPDATE facts SET value = -1 WHERE name = 'low_water'", "begins past seq -1"),
    ("a table dropped from the list", "DELETE FROM tables", "not listed"),
    ("a table of its own", "CREATE TABLE mine (a)", "does not belong here"),
    (
        "a trigger",
        "CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM log; END",
        "does not belong here",
    ),
]


@pytest.mark.parametrize(
    ("statement", "words"), [deed[1:] for deed in DEEDS], ids=[deed[0] for deed in DEEDS]
)
def test_the_doctor_finds_what_another_program_has_done(db, path, statement, words):
    assert [] == problems(path)
    with bare(path) as connection:
        connection.execute(statement)

    found = problems(path)
    assert any(words in message for message in found), found


def appended(seq: int, what: str = "key, body") -> str:
    return (
        "INSERT INTO log (seq, table_id, kind, step, time, key, body)"
        f" SELECT {seq}, table_id, 0, 0, time, {what} FROM log WHERE seq = 12"
    )


# Everything that leaves an end of the log that cannot be.
IMPOSSIBLE: list[tuple[str, str]] = [
    ("an entry without a head", appended(16, "x'f0', body")),
    ("an entry beyond a hole", appended(50)),
]


@pytest.mark.parametrize("is_reader", [False, True])
@pytest.mark.parametrize("statement", [one[1] for one in IMPOSSIBLE], ids=[one[0] for one in IMPOSSIBLE])
def test_a_live_feed_ends_where_another_program_has_appended(db, path, statement, is_reader):
    """Rather than tell of a change that is none."""
    with (
        reactdb.connect(path, read_only=is_reader) as follower,
        follower.table("games").changes().cursor() as cursor,
        follower.changes().cursor() as every,
    ):
        meddle(path, statement)

        for feed in (cursor, every):
            with pytest.raises(reactdb.CorruptDatabase, match="reactdb doctor"):
                feed.next(timeout=PATIENCE_S)


@pytest.mark.parametrize("statement", [one[1] for one in IMPOSSIBLE], ids=[one[0] for one in IMPOSSIBLE])
def test_nothing_is_written_behind_what_another_program_has_appended(db, path, statement):
    before = db.seq
    meddle(path, statement)

    with pytest.raises(reactdb.CorruptDatabase, match="reactdb doctor"):
        db.table("games").insert({"id": "new"})
    with pytest.raises(reactdb.CorruptDatabase, match="reactdb doctor"), db.transaction():
        pass
    meddle(path, "DELETE FROM log WHERE seq > ?", before)
    db.table("games").insert({"id": "new"})
    assert before + 1 == db.seq


def test_a_hole_in_the_log_is_said_to_whoever_reads_over_it(db, path):
    meddle(path, "DELETE FROM log WHERE seq = 7")

    def resumed(since: int) -> Any:
        with db.changes(since=since).cursor() as cursor:
            return cursor.next(timeout=PATIENCE_S)

    for read in (lambda: list(db.log()), lambda: resumed(4), lambda: db.at(6).table("games").run()):
        with pytest.raises(reactdb.CorruptDatabase, match="log entry 7 is missing"):
            read()
    assert [8, 9] == [entry.seq for entry in db.log(since=7, until=9)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET body = NULL WHERE seq = 10",
        "UPDATE log SET kind = 1 WHERE seq = 10",
        "UPDATE log SET kind = 3 WHERE seq = 10",
        "UPDATE log SET prev = NULL WHERE seq = 13",
    ],
)
def test_an_entry_that_another_program_has_changed_is_not_told(db, path, statement):
    meddle(path, statement)

    for log in (lambda: list(db.log()), lambda: list(db.log(table="games"))):
        with pytest.raises(reactdb.CorruptDatabase, match=r"log entry (10|13) does not match its checksum"):
            log()


def test_a_backup_restored_over_an_open_database_is_noticed(db, path, tmp_path):
    """With SQLite's own backup, through which the file stays the same and its history does not."""
    games = db.table("games")
    backup = sqlite.connect(str(tmp_path / "backup.db"), mode="rwc", busy_timeout_s=5)
    with bare(path) as connection:
        connection.backup(backup)
    games.insert({"id": "lost"})
    with bare(path) as connection:
        backup.backup(connection)
    backup.close()

    with pytest.raises(reactdb.errors.StorageMoved, match="another history"):
        games.insert({"id": "new"})
    with pytest.raises(reactdb.errors.StorageMoved):
        games.run()


def test_a_follower_is_told_that_a_backup_was_restored(db, path, tmp_path):
    backup = sqlite.connect(str(tmp_path / "backup.db"), mode="rwc", busy_timeout_s=5)
    with bare(path) as connection:
        connection.backup(backup)
    db.table("games").insert({"id": "lost"})
    with (
        reactdb.connect(path, read_only=True) as follower,
        follower.table("games").changes().cursor() as cursor,
    ):
        with bare(path) as connection:
            backup.backup(connection)

        with pytest.raises(reactdb.errors.StorageMoved, match="another history"):
            cursor.next(timeout=PATIENCE_S)
    backup.close()


@pytest.mark.parametrize("statement", ["VACUUM", "ANALYZE", "REINDEX", "PRAGMA wal_checkpoint(TRUNCATE)"])
def test_what_does_not_change_the_contents_disturbs_nobody(db, path, statement):
    games = db.table("games")
    with games.changes().cursor() as cursor:
        with bare(path) as connection:
            connection.execute(statement).fetchall()
        games.insert({"id": "after"})

        assert {"id": "after"} == cursor.next(timeout=PATIENCE_S)["new_val"]
    assert [] == problems(path)


CALLS: list[Callable[[Any], Any]] = [lambda games: games.run(), lambda games: games.get(5).run()]


@pytest.mark.parametrize("call", CALLS)
def test_a_document_of_nonsense_is_corrupt_and_no_answer(db, path, call):
    meddle(path, "UPDATE log SET body = x'c1' WHERE seq = 8")

    with pytest.raises(reactdb.CorruptDatabase):
        call(db.table("games"))
    db.table("games").insert({"id": "still"})
