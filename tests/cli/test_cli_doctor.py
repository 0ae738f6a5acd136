"""The doctor: a sound file is healthy whatever was done to it, and no damage of the kinds below goes unnoticed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from sqlite_utils.utils import sqlite3

import reactdb
from reactdb import row
from reactdb.store.tools import doctor, figures
from tests.support.command import run


def use(db: reactdb.Database) -> None:
    """A bit of everything: updates, deletions, keys that come back, indexes of all kinds, a dropped table."""
    people = db.table_create("people")
    people.index_create("age")
    people.index_create("tags", multi=True)
    people.index_create("both", [row["name"], row["age"]])
    people.insert([{"id": n, "name": f"p{n}", "age": n % 7, "tags": ["a", n]} for n in range(60)])
    people.filter(row["age"] == 3).update({"age": row["age"] + 10})
    people.get(5).delete()
    people.get(6).delete()
    people.insert({"id": 5, "name": "back"})
    people.get(7).replace({"id": 7, "name": "other"})
    gone = db.table_create("gone")
    gone.insert([{"id": n} for n in range(5)])
    db.table_drop("gone")
    with db.transaction(origin="both"):
        db.table_create("other", primary_key="name").insert([{"name": "x"}, {"name": "y"}])
        people.get(8).update({"age": 99})
    large, small = db.blobs.put(bytes(600_000)), db.blobs.put(b"small")
    db.table_create("notes").insert(
        [{"id": 1, "scan": large}, {"id": 2, "scan": [small]}, {"id": 3, "at": large}]
    )


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("doctor") / "sound.db"
    with reactdb.connect(path) as db:
        use(db)
    return path


@pytest.fixture
def file(sound: Path, tmp_path: Path) -> Path:
    """A copy to do harm to."""
    path = tmp_path / "patient.db"
    shutil.copy(sound, path)
    return path


def harm(file: Path, *statements: str) -> None:
    connection = sqlite3.connect(file)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def problems(file: Path) -> dict[str, list[str]]:
    """What the doctor finds, by check; warnings left out."""
    found = {}
    for check, findings in doctor.examine(str(file)):
        messages = [finding.message for finding in findings if finding.level == "problem"]
        if messages:
            found[check] = messages
    return found


def test_a_sound_file_is_healthy(sound):
    result = run("doctor", sound)

    assert (0, {}) == (result.exit_code, problems(sound))
    assert result.output.splitlines()[-1].startswith("healthy")


@pytest.mark.parametrize("keep", [0, 1, 5, 30, 40, 1000])
def test_a_compacted_file_is_healthy_and_stays_so(file, keep):
    """Also right behind the low-water mark, where a predecessor may be gone."""
    with reactdb.connect(file) as db:
        db.compact(keep)
        assert {} == problems(file)
        people = db.table("people")
        people.get(6).replace({"id": 6, "name": "back"})
        people.get(5).delete()
        people.get(9).update({"age": 1})
        assert {} == problems(file)
        db.compact(2)

        assert {} == problems(file)


def test_a_new_file_is_healthy(tmp_path):
    reactdb.connect(tmp_path / "new.db").close()

    assert {} == problems(tmp_path / "new.db")


def test_a_file_that_is_being_written_is_examined_as_of_one_moment(file):
    with reactdb.connect(file) as db:
        checks = doctor.examine(str(file))
        next(checks)
        db.table("people").delete()
        found = [finding for _, findings in checks for finding in findings if finding.level == "problem"]

    assert [] == found


# What is done to the file -> the check that must notice, and what it says.
DAMAGE = {
    "a piece that is missing": (["DELETE FROM pieces WHERE id = 16777218"], "blobs", "piece 2 is missing"),
    "a piece that changed": (
        ["UPDATE pieces SET bytes = zeroblob(262143) || x'01' WHERE id = 16777217"],
        "blobs",
        "piece 1 does not match its checksum",
    ),
    "pieces in the wrong order": (
        [
            "UPDATE pieces SET id = 5 WHERE id = 16777216",
            "UPDATE pieces SET id = 16777216 WHERE id = 16777217",
            "UPDATE pieces SET id = 16777217 WHERE id = 5",
        ],
        "blobs",
        "piece 0 does not match its checksum",
    ),
    "a blob that changed": (["UPDATE blobs SET used = 0"], "blobs", "does not match its checksum"),
    "a blob that is missing": (["DELETE FROM blobs WHERE id = 2"], "blobs", "does not refer to the blobs"),
    "pieces of no blob": (["DELETE FROM blobs WHERE id = 2"], "blobs", "1 pieces belong to blob 2"),
    "a reference that is missing": (["DELETE FROM blob_refs WHERE blob = 2"], "blobs", "marked as used"),
    "a reference of another document": (
        ["UPDATE blob_refs SET seq = 1 WHERE blob = 2"],
        "blobs",
        "referred to by log entry 1",
    ),
    "a head points nowhere": (
        ["UPDATE heads SET seq = 9999 WHERE key = (SELECT key FROM log WHERE seq = 5)"],
        "current_documents",
        "missing",
    ),
    "a head points to another key": (
        ["UPDATE heads SET seq = 6 WHERE key = (SELECT key FROM log WHERE seq = 5)"],
        "current_documents",
        "which is of table 1, key 1",
    ),
    "a head points to a superseded version": (
        ["UPDATE heads SET seq = 8 WHERE table_id = 1 AND key = (SELECT key FROM log WHERE seq = 8)"],
        "current_documents",
        "was superseded",
    ),
    "a head is lost": (
        ["DELETE FROM heads WHERE key = (SELECT key FROM log WHERE seq = 5)"],
        "current_documents",
        "the list of documents does not have it",
    ),
    "a deleted key has a head": (
        ["INSERT INTO heads SELECT table_id, key, seq FROM graves", "DELETE FROM graves"],
        "current_documents",
        "which deleted it",
    ),
    "a grave is lost": (
        ["DELETE FROM graves"],
        "deleted_documents",
        "the list of deleted documents does not have it",
    ),
    "a grave is a document": (
        ["UPDATE graves SET seq = 11 WHERE 1"],
        "deleted_documents",
        "which is a document",
    ),
    "a key has head and grave": (
        ["INSERT INTO heads SELECT table_id, key, seq FROM graves"],
        "deleted_documents",
        "listed as a document and as a deleted document",
    ),
    "a document is damaged": (["UPDATE log SET body = x'c1' WHERE seq = 7"], "documents", "cannot be read"),
    "a value in a document is another": (
        [
            "UPDATE log SET body = CAST(replace(body, CAST('p9' AS BLOB), CAST('p8' AS BLOB)) AS BLOB) WHERE seq = 14"
        ],
        "checksums",
        "log entry 14 (table 1, key 9) does not match its checksum",
    ),
    "a time is another": (
        ["UPDATE log SET time = time + 256 WHERE seq >= 64"],
        "checksums",
        "does not match",
    ),
    "a document is filed under another key": (
        ["UPDATE log SET body = (SELECT body FROM log WHERE seq = 6) WHERE seq = 7"],
        "documents",
        "than its key 2",
    ),
    "a document has no primary key": (
        ["UPDATE tables SET primary_key = 'nr' WHERE id = 1"],
        "documents",
        "another 'nr'",
    ),
    "an update has no document": (
        ["UPDATE log SET body = NULL WHERE seq = 66"],
        "documents",
        "without a document",
    ),
    "a kind is unknown": (["UPDATE log SET kind = 9 WHERE seq = 7"], "documents", "kind 9"),
    "a chain leads to another key": (["UPDATE log SET prev = 6 WHERE seq = 65"], "history", "supersedes 6"),
    "a chain leads forward": (["UPDATE log SET prev = 74 WHERE seq = 65"], "history", "not before it"),
    "a chain is cut": (["UPDATE log SET prev = NULL WHERE seq = 65"], "history", "is missing"),
    "an old value is lost": (["DELETE FROM log WHERE seq = 8"], "history", "supersedes 8, which is missing"),
    "an insert over a document": (["UPDATE log SET kind = 0 WHERE seq = 65"], "history", "is an insert"),
    "two successors": (
        ["UPDATE log SET prev = (SELECT prev FROM log WHERE seq = 65) WHERE seq = 66"],
        "history",
        "superseded 2 times",
    ),
    "an entry in the middle is gone": (
        ["DELETE FROM log WHERE seq = 44"],
        "sequence",
        "44 to 44 are missing",
    ),
    "the newest entries are gone": (
        ["DELETE FROM log WHERE seq > (SELECT max(seq) - 2 FROM log)"],
        "current_documents",
        "which is missing",
    ),
    "a mark is lost": (["DELETE FROM marks WHERE block = 1"], "block_index", "lacks block 1"),
    "an index entry is lost": (
        ["DELETE FROM entries WHERE key = (SELECT key FROM log WHERE seq = 6)"],
        "indexes",
        "does not have",
    ),
    "an index entry is too many": (
        ["INSERT INTO entries SELECT index_id, value, key, 77 FROM entries LIMIT 1"],
        "indexes",
        "which is wrong",
    ),
    "an index expression is damaged": (
        ["UPDATE indexes SET expression = x'c1' WHERE id = 1"],
        "catalogue",
        "understood",
    ),
    "an index of no table": (
        ["UPDATE indexes SET table_id = 77 WHERE id = 1"],
        "catalogue",
        "table 77, which is not listed",
    ),
    "entries of no index": (
        ["DELETE FROM indexes WHERE id = 1"],
        "catalogue",
        "index 1, which is not listed",
    ),
    "a table is lost": (["DELETE FROM tables WHERE id = 1"], "catalogue", "table 1, which is not listed"),
    "a table's name is no name": (["UPDATE tables SET name = 'a b' WHERE id = 1"], "catalogue", "name 'a b'"),
    "a table is younger than its changes": (
        ["UPDATE tables SET created = 30 WHERE id = 1"],
        "catalogue",
        "created at 30",
    ),
    "a table was dropped in the future": (
        ["UPDATE tables SET dropped = 999 WHERE id = 2"],
        "catalogue",
        "lives from",
    ),
    "a commit is torn": (["UPDATE log SET step = 0 WHERE seq = 34"], "commits", "follows number 0"),
    "a commit has two times": (
        ["UPDATE log SET time = time + 1 WHERE seq = 64"],
        "commits",
        "another time or origin",
    ),
    "a commit has two origins": (
        ["UPDATE log SET origin = 'x' WHERE seq = 34"],
        "commits",
        "another time or origin",
    ),
    "a commit begins before the log": (["UPDATE log SET step = 99 WHERE seq = 24"], "commits", "number 99"),
    "time goes back": (["UPDATE log SET time = 1 WHERE seq > 64"], "commits", "before its predecessor"),
    "the low-water mark is before the log": (
        ["UPDATE facts SET value = -9 WHERE name = 'low_water'"],
        "settings",
        "-9",
    ),
    "the low-water mark is gone": (["DELETE FROM facts WHERE name = 'low_water'"], "settings", "None"),
    "the database id is gone": (["DELETE FROM facts WHERE name = 'database_id'"], "settings", "database id"),
    "the catalogue has no version": (
        ["UPDATE facts SET value = 'x' WHERE name = 'catalogue'"],
        "settings",
        "'x'",
    ),
    "there is no epoch": (["DELETE FROM epochs"], "settings", "no epoch"),
    "an epoch is missing": (
        ["INSERT INTO epochs (epoch, since, position) SELECT 'e', max(since), max(position) + 2 FROM epochs"],
        "settings",
        "others from number 1 on",
    ),
    "a position was changed": (
        ["INSERT INTO positions VALUES ('receipt', 'job', 0, 1, NULL, 0, NULL, NULL, 0, NULL, 1)"],
        "positions",
        "checksum",
    ),
    "a document is hidden": (
        ["DELETE FROM heads WHERE key = (SELECT max(key) FROM heads)"],
        "table_checksums",
        "its checksum is of",
    ),
    "an epoch begins in the future": (["UPDATE epochs SET since = 999"], "settings", "begins at seq 999"),
    "an entry of the catalogue is about another table": (
        ["UPDATE tables SET created = 2 WHERE id = 1"],
        "documents",
        "made table 1, which is listed as created at 2",
    ),
    "a table is said to have ended": (
        ["UPDATE marks SET newest = 40 WHERE table_id = 1 AND block = 1"],
        "block_index",
        "seq 40 of table 1 was removed",
    ),
    "a time is text": (["UPDATE log SET time = 'noon' WHERE seq = 7"], "values", "log.time has 1 values"),
    "a key is text": (
        ["UPDATE heads SET key = 'k' WHERE key = (SELECT key FROM log WHERE seq = 5)"],
        "values",
        "heads.key",
    ),
    "a trigger was added": (
        ["CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM marks; END"],
        "schema",
        "trigger t does not belong here",
    ),
    "an index is missing": (["DROP INDEX tables_by_name"], "schema", "index tables_by_name is missing"),
    "a column was added": (["ALTER TABLE log ADD COLUMN note"], "schema", "table log is not as format"),
    "the journal mode was switched": (["PRAGMA journal_mode=DELETE"], "sqlite", "journal mode is delete"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found(file, damage):
    statements, check, words = DAMAGE[damage]
    harm(file, *statements)

    found = problems(file)

    assert check in found, found
    assert any(words in message for message in found[check]), found[check]


def test_every_check_can_fail(file):
    """No check is decoration: the table above has damage for each, but for what SQLite itself examines."""
    assert doctor.CHECKS.keys() - {"integrity"} == {check for _, check, _ in DAMAGE.values()}


def test_a_moved_index_entry_is_both_missing_and_too_many(file):
    harm(file, "UPDATE entries SET tag = 55 WHERE key = (SELECT key FROM log WHERE seq = 6)")

    assert any("does not have" in message for message in problems(file)["indexes"])


def test_a_destroyed_page_is_found_and_ends_in_no_traceback(file):
    data = bytearray(file.read_bytes())
    for page in range(3, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xee" * 64
    file.write_bytes(data)

    result = run("doctor", file)

    assert 1 == result.exit_code
    assert "problem  integrity" in result.output
    assert isinstance(result.exception, SystemExit)


def test_many_findings_of_one_kind_are_counted(file):
    harm(file, "DELETE FROM heads")

    found = problems(file)["current_documents"]

    assert doctor.MOST_FINDINGS + 1 == len(found)
    assert "and 49 more" == found[-1]


def test_findings_are_one_line_each_and_the_exit_code_is_1(file):
    harm(file, "DELETE FROM graves")

    result = run("doctor", file)

    assert 1 == result.exit_code
    (line,) = [line for line in result.output.splitlines() if line.startswith("problem")]
    assert line.startswith("problem  deleted_documents: log entry ")
    assert result.output.splitlines()[-1].startswith("1 problem")


def test_json_says_the_same(file):
    harm(file, "DELETE FROM graves")

    result = run("doctor", file, "--json")
    report = json.loads(result.stdout)

    assert (1, False, list(doctor.CHECKS)) == (result.exit_code, report["is_healthy"], report["checks"])
    assert ["deleted_documents"] == [
        found["check"] for found in report["findings"] if found["level"] == "problem"
    ]


@pytest.mark.parametrize("has_bug", [True, False])
def test_an_affected_sqlite_is_a_warning_and_no_problem(sound, monkeypatch, has_bug):
    monkeypatch.setattr(doctor.sqlite, "has_wal_reset_bug", lambda: has_bug)

    checks = dict(doctor.examine(str(sound)))

    assert (["warning"] if has_bug else []) == [finding.level for finding in checks["sqlite"]]


def test_the_doctor_writes_nothing(file):
    before = file.read_bytes()
    run("doctor", file)

    assert before == file.read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "does not exist"), (b"", "it is empty"), (b"hello" * 1000, "not a reactdb database")],
)
def test_what_is_no_database_is_one_line(tmp_path, content, message):
    path = tmp_path / "x.db"
    if content is not None:
        path.write_bytes(content)

    result = run("doctor", path)

    assert (1, "") == (result.exit_code, result.stdout)
    assert message in result.stderr
    assert 1 == len(result.stderr.splitlines())


def test_measure_counts_documents_log_and_indexes(sound):
    found = figures.measure(str(sound))
    people = next(table for table in found.tables if table.name == "people")

    assert ["notes", "other", "people"] == [table.name for table in found.tables]
    assert (59, "id") == (people.documents, people.primary_key)
    assert people.log_entries > people.documents
    assert people.log_bytes > people.document_bytes > 0
    assert ["age", "both", "tags"] == [index.name for index in people.indexes]
    assert found.seq == found.log_entries
