"""The file format: kept files of each format give what they gave on the day they were made; an older one is migrated
whole or not at all, a newer one is refused and not touched."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlite_utils.utils import sqlite3

import reactdb
from reactdb.cli import main
from reactdb.session import session_of
from reactdb.store import migrations, schema
from reactdb.store.file import sqlite
from reactdb.store.tools import doctor
from tests.support.inspection import problems
from tests.support.kept_files import contents, expected, kept, unpack
from tests.support.processes import another_process

every_kept_file = pytest.mark.parametrize("name", list(kept()))
every_older_file = pytest.mark.parametrize(
    "name", [name for name in kept() if f"format-{schema.FORMAT_VERSION}" not in name]
)
every_file_of_format_1 = pytest.mark.parametrize("name", [name for name in kept() if "format-1" in name])


def bytes_of(path: Path) -> dict[str, bytes]:
    """The file and its write-ahead log, where there is anything in it. (-shm, the index of the log, is SQLite's own.)"""
    found = {file.name: file.read_bytes() for file in path.parent.glob(path.name + "*")}
    return {name: data for name, data in found.items() if data and not name.endswith("-shm")}


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


def test_there_are_kept_files_of_every_format():
    assert {f"format-{number}" for number in range(1, schema.FORMAT_VERSION + 1)} == {
        name.rpartition("-")[0] for name in kept()
    }


def test_a_new_file_is_as_the_migrations_from_nothing_would_make_it():
    made, migrated = (sqlite3.connect(":memory:", isolation_level=None) for _ in range(2))
    schema.make(made)
    migrations.apply(migrated, schema.STEPS)

    def shape(connection: Any) -> list[Any]:
        return [
            connection.execute(statement).fetchall()
            for statement in (
                "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid",
                "SELECT id, migration_set, name, length(applied_at) FROM _sqlite_migrations",
                "SELECT name, typeof(value), length(value) FROM facts WHERE name != 'seal' ORDER BY name",
                "SELECT since, position, length(epoch) FROM epochs",
            )
        ]

    assert shape(migrated) == shape(made)
    made.close()
    migrated.close()


def test_a_new_file_has_nothing_left_to_migrate():
    made = sqlite3.connect(":memory:", isolation_level=None)
    schema.make(made)
    before = list(made.iterdump())
    migrations.apply(made, schema.STEPS)

    assert before == list(made.iterdump())
    made.close()


class TestOlderFormats:
    @every_kept_file
    def test_a_kept_file_gives_what_it_gave(self, name: str, tmp_path: Path):
        path = unpack(name, tmp_path)

        assert contents(path, read_only=False) == expected(name)
        assert (schema.FORMAT_VERSION, []) == (version_of(path), problems(path))

    @every_kept_file
    def test_read_only_it_gives_the_same_and_is_not_touched(self, name: str, tmp_path: Path):
        path = unpack(name, tmp_path)
        before = bytes_of(path)

        assert contents(path, read_only=True) == expected(name)
        assert before == bytes_of(path)

    @every_kept_file
    def test_after_the_migration_everything_goes_on(self, name: str, tmp_path: Path):
        path = unpack(name, tmp_path)
        with reactdb.connect(path) as db:
            seq = db.seq
            db.table("people").insert({"id": "new", "name": "N", "age": 1})
            db.table("people").get(8).update({"age": 100})
            db.compact(keep=5)

            assert seq + 2 == db.seq
            assert 100 == db.table("people").get(8).run()["age"]
        assert [] == problems(path)

    @every_older_file
    @pytest.mark.parametrize(
        "command", [["doctor"], ["inspect"], ["rows", "people"], ["tail", "people"], ["export", "people"]]
    )
    def test_commands_that_read_take_it_as_it_is(self, name: str, tmp_path: Path, command: list[str]):
        path = unpack(name, tmp_path)
        before = bytes_of(path)

        result = CliRunner().invoke(main, [command[0], str(path), *command[1:]])

        assert (0, before) == (result.exit_code, bytes_of(path)), result.output

    @every_file_of_format_1
    def test_the_doctor_says_that_there_are_no_checksums(self, name: str, tmp_path: Path):
        found = dict(doctor.examine(str(unpack(name, tmp_path))))

        assert ["warning"] == [finding.level for finding in found["checksums"]]

    def test_a_document_that_changed_before_the_migration_is_taken_as_it_is(self, tmp_path: Path):
        """Format 1 cannot tell; so this is what is promised, and no more."""
        path = unpack("format-1-closed", tmp_path)
        data = path.read_bytes()
        path.write_bytes(data.replace(b"\xa2P1\xa3", b"\xa2Q1\xa3"))

        with reactdb.connect(path) as db:
            assert "Q1" == db.table("people").get(1).run()["name"]

    @every_file_of_format_1
    def test_what_is_visibly_damaged_is_not_migrated(self, name: str, tmp_path: Path):
        path = unpack(name, tmp_path)
        with reactdb.connect(path, read_only=True):
            pass
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries'").fetchone()
        connection.close()
        data = bytearray(path.read_bytes())
        data[(root - 1) * 4096 : root * 4096] = b"\xee" * 4096
        path.write_bytes(data)

        with pytest.raises(reactdb.CorruptDatabase, match="is damaged"):
            reactdb.connect(path)

        assert 1 == version_of(path)
        with reactdb.connect(path, read_only=True) as db:
            assert expected(name)["seq"] == db.seq


class Failing(sqlite3.Connection):  # type: ignore[misc]
    """A connection whose statement number `fail_at` fails, once."""

    fail_at = 0
    count = 0

    def execute(self, *arguments: Any) -> Any:
        self.count += 1
        if self.count == self.fail_at:
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(*arguments)


@pytest.mark.slow
@every_older_file
def test_a_migration_that_fails_anywhere_leaves_the_old_format_whole(name: str, tmp_path: Path):
    path = unpack(name, tmp_path)
    (tmp_path / "before").mkdir()
    before = everything(unpack(name, tmp_path / "before"))
    version = version_of(tmp_path / "before" / path.name)
    failures = 0
    for fail_at in range(1, 1_000):
        copy = tmp_path / f"copy{fail_at}.db"
        for file in tmp_path.glob(f"{name}.db*"):
            shutil.copy(file, str(copy) + file.name.removeprefix(f"{name}.db"))
        connection = sqlite3.connect(copy, factory=Failing, isolation_level=None)
        connection.fail_at = fail_at
        try:
            schema.migrate(connection, str(copy))
        except sqlite3.OperationalError:
            failures += 1
        else:
            break
        finally:
            connection.close()
        assert before == everything(copy)
        assert version == version_of(copy)
        assert contents(copy) == expected(name)
        copy.unlink()

    assert failures > 8
    assert path.exists()
    assert contents(copy) == expected(name)
    assert schema.FORMAT_VERSION == version_of(copy)


def everything(path: Path) -> list[str]:
    """A file's tables, their rows, and the list of migrations that were made: as statements that make them."""
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


class TestNewerFormats:
    @pytest.fixture
    def newer(self, tmp_path: Path) -> Path:
        path = unpack(f"format-{schema.FORMAT_VERSION}-closed", tmp_path)
        data = bytearray(path.read_bytes())
        data[60:64] = (schema.FORMAT_VERSION + 1).to_bytes(4, "big")
        path.write_bytes(data)
        return path

    @pytest.mark.parametrize("read_only", [True, False])
    def test_it_is_refused_and_not_touched(self, newer: Path, read_only: bool):
        before = bytes_of(newer)

        with pytest.raises(
            reactdb.errors.IncompatibleFormat, match=f"has format {schema.FORMAT_VERSION + 1}"
        ):
            reactdb.connect(newer, read_only=read_only)

        assert before == bytes_of(newer)

    @pytest.mark.parametrize("command", ["doctor", "inspect"])
    def test_commands_refuse_it_in_one_line(self, newer: Path, command: str):
        before = bytes_of(newer)

        result = CliRunner().invoke(main, [command, str(newer)])

        assert (1, before) == (result.exit_code, bytes_of(newer))
        assert 1 == len(result.stderr.splitlines())
        assert "newer" in result.stderr


def test_an_sqlite_that_is_too_old_is_refused_before_the_file_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = unpack(f"format-{schema.FORMAT_VERSION}-wal", tmp_path)
    before = bytes_of(path)
    monkeypatch.setattr(sqlite, "VERSION", (3, 36, 0))

    for read_only in (True, False):
        with pytest.raises(
            reactdb.errors.IncompatibleFormat, match=r"reactdb needs SQLite 3\.37\.0 or newer"
        ):
            reactdb.connect(path, read_only=read_only)

    assert before == bytes_of(path)


@pytest.mark.parametrize("table", ["log", "heads", "facts", "tables", "entries"])
def test_a_file_of_ours_whose_schema_is_foreign_is_damaged(tmp_path: Path, table: str):
    path = unpack(f"format-{schema.FORMAT_VERSION}-closed", tmp_path)
    connection = sqlite3.connect(path)
    connection.execute(f"DROP TABLE {table}")
    connection.close()

    with pytest.raises(reactdb.CorruptDatabase, match="no such table"), reactdb.connect(path) as db:
        db.table("people").get(1).run()
        db.table("people").order_by(index="age").run()

    assert any(f"table {table} is missing" in message for message in problems(path))


def test_another_programs_file_is_refused_and_not_touched(tmp_path: Path):
    path = tmp_path / "foreign.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE log (seq INTEGER PRIMARY KEY, body)")
    connection.execute("INSERT INTO log VALUES (1, 'theirs')")
    connection.commit()
    connection.close()
    before = bytes_of(path)

    for read_only in (True, False):
        with pytest.raises(reactdb.errors.NotADatabase, match="of another program"):
            reactdb.connect(path, read_only=read_only)

    assert before == bytes_of(path)


def spoil(path: Path, statement: str) -> None:
    """Change a file as no version of reactdb would."""
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("name", [name for name in kept() if "format-2" in name])
def test_lists_of_format_2_that_are_damaged_are_not_migrated(name: str, tmp_path: Path):
    path = unpack(name, tmp_path)
    with reactdb.connect(path, read_only=True):
        pass
    spoil(path, "UPDATE facts SET value = value + 1 WHERE name = 'low_water'")

    with pytest.raises(reactdb.CorruptDatabase, match="do not match their checksum"):
        reactdb.connect(path)

    assert 2 == version_of(path)


@every_older_file
def test_a_reader_of_an_older_format_goes_on_when_another_process_migrates_the_file(
    name: str, tmp_path: Path
):
    path = unpack(name, tmp_path)
    with reactdb.connect(path, read_only=True) as db:
        before = db.table("people").count().run()
        with another_process(path) as other:
            other.table("people").insert({"id": "after the migration"})
            other.table_create("new").insert({"id": 1})

            assert before + 1 == db.table("people").count().run()
            assert [{"id": 1}] == db.table("new").run()
            assert other.token == db.token
            # What only the new format has, and by the same connection again: its views of the old one are gone for good.
            blob = other.blobs.put(b"after the migration")
            assert [b"after the migration"] * 3 == [db.blobs.read(blob) for _ in range(3)]
    assert [] == problems(path)


def test_compaction_keeps_the_newest_mark_of_each_table(tmp_path: Path):
    path = tmp_path / "a.db"
    with reactdb.connect(path) as db:
        for name in ("first", "second"):
            db.table_create(name).insert([{"id": number} for number in range(100)])
        db.compact(keep=0)

        with session_of(db).read() as snapshot:
            newest = "SELECT table_id, block FROM marks ORDER BY table_id"
            # 0 is for the entries of tables, of which the second is the newest; each table is made before its documents.
            assert [(0, 102 >> 5), (1, 101 >> 5), (2, 202 >> 5)] == snapshot.connection.execute(
                newest
            ).fetchall()


@pytest.mark.parametrize("fact", ["low_water", "catalogue", "database_id", "seal"])
def test_a_fact_that_changed_on_the_disk_is_damage(fact: str, tmp_path: Path):
    path = unpack(f"format-{schema.FORMAT_VERSION}-closed", tmp_path)
    spoil(path, f"UPDATE facts SET value = value || '1' WHERE name = '{fact}'")

    with pytest.raises(reactdb.CorruptDatabase, match=f"the setting '{fact}' does not match its checksum"):
        reactdb.connect(path)

    assert any(f"the setting '{fact}' does not match" in message for message in problems(path))


@pytest.mark.parametrize(
    ("column", "value"), [("owner", "'somebody'"), ("hook", "'a hook'"), ("name", "'other'")]
)
def test_the_checksum_of_the_tables_covers_their_owners_and_hooks(column: str, value: str, tmp_path: Path):
    path = unpack(f"format-{schema.FORMAT_VERSION}-closed", tmp_path)
    spoil(path, f"UPDATE tables SET {column} = {value} WHERE name = 'people'")

    with pytest.raises(reactdb.CorruptDatabase, match="lists of tables"):
        reactdb.connect(path)
