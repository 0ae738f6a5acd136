"""The files of a fleet: bad ones that are passed over, and one database under several paths. No Spark session is started."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reactdb
import reactdb.lake
from reactdb.errors import (
    CannotOpen,
    CorruptDatabase,
    IncompatibleFormat,
    NotADatabase,
    StorageError,
    UsageError,
)
from reactdb.lake.file_states import read_file_states
from reactdb.lake.fleet import FileOptions
from reactdb.store.file.sqlite import connect

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql import types as t
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from reactdb.spark.source import ReactdbSource

SCHEMA = t.StructType([t.StructField("key", t.LongType()), t.StructField("_source", t.StringType())])


def make(path: Path, *keys: int) -> str:
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("t").insert([{"id": key} for key in keys])
    return str(path)


def write_junk(path: Path) -> None:
    path.write_bytes(b"This is no database, and is as long as a page of one. " * 100)


def write_nothing(path: Path) -> None:
    path.write_bytes(b"")


def write_a_header_alone(path: Path) -> None:
    """As a process leaves it that was killed before it made the tables."""
    connection = connect(str(path), mode="rwc", busy_timeout_s=1)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()


def damage_the_schema(path: Path) -> None:
    make(path, 7)
    content = bytearray(path.read_bytes())
    # The type of the page with the tables' declarations.
    content[100] = 0xAA
    path.write_bytes(content)


def damage_the_lists(path: Path) -> None:
    make(path, 7)
    connection = connect(str(path), mode="rw", busy_timeout_s=1)
    connection.execute("UPDATE tables SET name = 'u' WHERE name = 't'")
    connection.close()


BAD: list[Callable[[Path], None]] = [
    write_junk,
    write_nothing,
    write_a_header_alone,
    damage_the_schema,
    damage_the_lists,
]


def source(*paths: str, **options: str) -> ReactdbSource:
    given = {"paths": str(list(paths)).replace("'", '"'), "table": "t", "read": "changes", **options}
    return ReactdbSource(CaseInsensitiveDict(given))


def read_batch(*paths: str, **options: str) -> list[tuple[int, str]]:
    """(key, file) of all changes, read as Spark does."""
    reader = source(*paths, **options).reader(SCHEMA)
    return rows_of(reader, reader.partitions())


def read_stream(*paths: str, **options: str) -> list[tuple[int, str]]:
    reader = source(*paths, **options).streamReader(SCHEMA)
    start = reader.initialOffset()
    return rows_of(reader, reader.partitions(start, reader.latestOffset(start, ReadAllAvailable())))


def read_pipeline(*paths: str, **options: str) -> list[tuple[int, str]]:
    """(1, file) of each file that a pipeline reads."""
    files = source(*paths, **options).parsed.files
    return [(1, file.path) for file in read_file_states(files)]


def rows_of(reader: Any, partitions: Any) -> list[tuple[int, str]]:
    rows = [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]
    return [(row["key"], row["_source"]) for row in rows]


EVERY_READ = pytest.mark.parametrize("read", [read_batch, read_stream, read_pipeline])


@EVERY_READ
@pytest.mark.parametrize("spoil", BAD)
def test_a_corrupt_file_is_passed_over_if_the_option_says_so(tmp_path, caplog, read, spoil):
    good = make(tmp_path / "a.db", 1)
    bad = tmp_path / "b.db"
    spoil(bad)

    with pytest.raises((NotADatabase, CannotOpen, CorruptDatabase), match=str(bad)):
        read(str(tmp_path))
    with pytest.raises((NotADatabase, CannotOpen, CorruptDatabase), match=str(bad)):
        read(str(tmp_path), ignoreMissingFiles="true")
    with caplog.at_level(logging.WARNING, "reactdb"):
        assert [(1, good)] == read(str(tmp_path), ignoreCorruptFiles="true")

    (line,) = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert "1 of the files" in line
    assert str(bad) in line


@EVERY_READ
@pytest.mark.parametrize("name", ["gone.db", "gone/b.db", "gone*.db", "link.db"])
def test_a_missing_path_is_passed_over_if_the_option_says_so(tmp_path, read, name):
    good = make(tmp_path / "a.db", 1)
    (tmp_path / "link.db").symlink_to(tmp_path / "nowhere.db")
    paths = (str(tmp_path / name), good)

    for options in ({}, {"ignoreCorruptFiles": "true"}):
        with pytest.raises(CannotOpen):
            read(*paths, **options)
    assert [(1, good)] == read(*paths, ignoreMissingFiles="true")


def test_a_file_that_vanishes_after_it_was_listed_is_passed_over(tmp_path, monkeypatch):
    good, gone = make(tmp_path / "a.db", 1), make(tmp_path / "b.db", 2)
    listed = FileOptions((str(tmp_path),), ignore_missing_files=True)
    real = os.walk

    def walk_and_remove(path: str) -> Any:
        found = list(real(path))
        reactdb.delete_database(gone)
        return iter(found)

    monkeypatch.setattr(os, "walk", walk_and_remove)
    ignored: dict[str, str] = {}

    assert [good] == [file.path for file in read_file_states(listed, ignored=ignored)]
    assert [gone] == list(ignored)
    assert gone in ignored[gone]


@EVERY_READ
def test_files_that_are_neither_corrupt_nor_missing_are_not_passed_over(tmp_path, read):
    make(tmp_path / "a.db", 1)
    newer = make(tmp_path / "b.db", 2)
    connection = connect(newer, mode="rw", busy_timeout_s=1)
    connection.execute("PRAGMA user_version=99")
    connection.close()

    with pytest.raises(IncompatibleFormat, match="written by a newer reactdb"):
        read(str(tmp_path), ignoreCorruptFiles="true", ignoreMissingFiles="true")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
@EVERY_READ
def test_a_file_without_permission_is_not_passed_over(tmp_path, read):
    make(tmp_path / "a.db", 1)
    Path(make(tmp_path / "b.db", 2)).chmod(0)

    with pytest.raises(StorageError, match="permission denied"):
        read(str(tmp_path), ignoreCorruptFiles="true", ignoreMissingFiles="true")


@pytest.mark.parametrize("read", [read_batch, read_pipeline])
def test_if_all_files_are_passed_over_the_first_reason_is_raised(tmp_path, read):
    write_junk(tmp_path / "a.db")
    write_nothing(tmp_path / "b.db")

    with pytest.raises(NotADatabase, match=r"a\.db"):
        read(str(tmp_path), ignoreCorruptFiles="true")


def test_damage_that_is_met_inside_a_file_is_an_error(tmp_path):
    path = make(tmp_path / "a.db", *range(100))
    connection = connect(path, mode="rw", busy_timeout_s=1)
    connection.execute("UPDATE log SET time = time + 1 WHERE seq = 50")
    connection.close()

    with pytest.raises(CorruptDatabase, match="log entry 50"):
        read_batch(path, ignoreCorruptFiles="true", ignoreMissingFiles="true")


def test_a_stream_looks_at_a_corrupt_file_again_at_each_trigger(tmp_path, caplog):
    """Its changes come when it is mended, and its position stays while it is broken."""
    first, second = make(tmp_path / "a.db", 1), tmp_path / "b.db"
    kept = tmp_path / "kept"
    reader = source(str(tmp_path), ignoreCorruptFiles="true").streamReader(SCHEMA)
    write_junk(second)
    start = reader.initialOffset()
    heard = []
    with caplog.at_level(logging.WARNING, "reactdb"):
        for step in ("junk", "junk", "mended", "more", "junk again", "mended again"):
            if step == "mended":
                second.unlink()
                make(second, 2)
            elif step == "more":
                with reactdb.connect(first, durability="soft") as db:
                    db.table("t").insert({"id": 3})
            elif step == "junk again":
                with reactdb.connect(second, durability="soft") as db:
                    db.table("t").insert({"id": 4})
                shutil.copy(second, kept)
                write_junk(second)
            elif step == "mended again":
                shutil.copy(kept, second)
            end = reader.latestOffset(start, ReadAllAvailable())
            heard.append([key for key, _ in rows_of(reader, reader.partitions(start, end))])
            start = end

    assert [[1], [], [2], [3], [], [4]] == heard
    assert 2 == len([record for record in caplog.records if "left out" in record.getMessage()])


def test_an_export_names_the_files_that_it_passed_over_and_reads_them_later(tmp_path):
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    make(fleet / "a.db", 1)
    bad = fleet / "b.db"
    write_nothing(bad)
    outcomes = []
    for _ in range(2):
        outcomes.append(
            reactdb.lake.export(str(fleet), parquet=str(tmp_path / "lake"), ignore_corrupt_files=True)
        )
        bad.unlink(missing_ok=True)
        make(bad, 2, 3)

    assert [(1, [str(bad)]), (2, [])] == [(outcome.rows, list(outcome.ignored)) for outcome in outcomes]


# ---------------------------------------------------------------------------------------------------------------
# One database is read once


@EVERY_READ
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_symbolic_link_is_read_once(tmp_path, read, is_first, is_folder):
    path = make(tmp_path / "b.db", 1)
    link = tmp_path / ("a.db" if is_first else "c.db")
    link.symlink_to(path)
    paths = (str(tmp_path),) if is_folder else (str(link), path) if is_first else (path, str(link))

    assert [(1, path)] == read(*paths)


@EVERY_READ
def test_a_hard_link_is_refused(tmp_path, read):
    """By every way to open it, because each name would have a write-ahead log of its own."""
    path = make(tmp_path / "a.db", 1)
    os.link(path, tmp_path / "b.db")

    with pytest.raises(CannotOpen, match="it has 2 names"):
        read(str(tmp_path), ignoreCorruptFiles="true", ignoreMissingFiles="true")


@EVERY_READ
def test_a_copy_is_refused(tmp_path, read):
    path = make(tmp_path / "a.db", 1)
    shutil.copy(path, tmp_path / "b.db")

    with pytest.raises(UsageError, match=r"a\.db and .*b\.db are the same database: leave the copy out"):
        read(str(tmp_path))


@EVERY_READ
def test_a_path_that_is_given_in_several_spellings_is_read_once(tmp_path, monkeypatch, read):
    path = make(tmp_path / "a.db", 1)
    monkeypatch.chdir(tmp_path)

    assert [(1, path)] == read(path, "a.db", "./a.db", f"file:{path}", "*.db", ".")


def test_a_copy_that_comes_to_a_stream_later_is_refused(tmp_path):
    path = make(tmp_path / "a.db", 1)
    reader = source(str(tmp_path)).streamReader(SCHEMA)
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    shutil.copy(path, tmp_path / "b.db")

    with pytest.raises(UsageError, match="are the same database"):
        reader.latestOffset(start, ReadAllAvailable())


def test_a_stream_goes_on_by_the_name_that_it_began_with(tmp_path):
    """A link to a file that it has read brings nothing new."""
    path = make(tmp_path / "b.db", 1)
    reader = source(str(tmp_path)).streamReader(SCHEMA)
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    (tmp_path / "a.db").symlink_to(path)

    assert start == reader.latestOffset(start, ReadAllAvailable())
