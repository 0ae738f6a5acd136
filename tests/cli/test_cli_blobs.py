"""Blobs by the command line: what is inspected, exported, imported and salvaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlite_utils.utils import sqlite3

import reactdb
from reactdb import Blob
from tests.support.command import run

LARGE = bytes(range(256)) * 3_000


@pytest.fixture
def file(path: Path) -> Path:
    with reactdb.connect(path) as db:
        large, small = db.blobs.put(LARGE), db.blobs.put(b"small")
        db.table_create("notes").insert(
            [{"id": 1, "scan": large}, {"id": 2, "scans": [small, large]}, {"id": 3}]
        )
    return path


def blobs_of(file: Path) -> dict[Blob, bytes]:
    with reactdb.connect(file, read_only=True) as db:
        return {blob: db.blobs.read(blob) for blob in db.blobs}


def test_inspect_shows_how_many_there_are(file: Path):
    assert "2 blobs, 768.0 kB" in run("inspect", file).output
    figures = json.loads(run("inspect", file, "--json").output)
    assert (2, 768_005) == (figures["blobs"], figures["blob_bytes"])


def test_an_export_with_blobs_comes_back_whole(file: Path, tmp_path: Path):
    out, folder, other = tmp_path / "notes.jsonl", tmp_path / "scans", tmp_path / "other.db"
    done = run("export", file, "notes", out, "--blobs", folder)
    assert f"; 2 new blobs in {folder}" in done.stderr
    assert "; 0 new blobs" in run("export", file, "notes", out, "--blobs", folder).stderr
    assert {LARGE, b"small"} == {one.read_bytes() for one in folder.iterdir()}
    summary = run("export", file, "notes", out, "--blobs", tmp_path / "again", "--json").stderr
    assert (3, 2) == (json.loads(summary)["documents"], json.loads(summary)["blobs"])

    assert 0 == run("import", other, "notes", out, "--create", "--blobs", folder).exit_code
    assert blobs_of(file) == blobs_of(other)
    with reactdb.connect(file) as db, reactdb.connect(other) as copy:
        assert db.table("notes").order_by().run() == copy.table("notes").order_by().run()


def test_an_import_without_the_blobs_says_which_line_misses_one(file: Path, tmp_path: Path):
    out, other = tmp_path / "notes.jsonl", tmp_path / "other.db"
    run("export", file, "notes", out)

    done = run("import", other, "notes", out, "--create")
    assert 1 == done.exit_code
    assert "notes.jsonl, line 1: Blob `sha256:" in done.output
    assert "is not in this database" in done.output


def test_a_file_that_is_not_what_its_name_says_is_not_taken(file: Path, tmp_path: Path):
    out, folder, other = tmp_path / "notes.jsonl", tmp_path / "scans", tmp_path / "other.db"
    run("export", file, "notes", out, "--blobs", folder)
    for one in folder.iterdir():
        one.write_bytes(one.read_bytes()[:-1])

    done = run("import", other, "notes", out, "--create", "--blobs", folder)
    assert 1 == done.exit_code
    assert "does not match the digest in its name" in done.output


@pytest.mark.parametrize("options", [["--changes"], ["--format", "csv"], ["--salvage"]])
def test_blobs_go_with_documents_as_json_lines(file: Path, tmp_path: Path, options: list[str]):
    assert 2 == run("export", file, "notes", *options, "--blobs", tmp_path / "scans").exit_code


def test_salvage_writes_the_blobs_that_are_whole(file: Path):
    done = run("export", "--salvage", file)
    assert 0 == done.exit_code
    folder = Path(f"{file}.salvaged/blobs")
    assert {LARGE, b"small"} == {one.read_bytes() for one in folder.iterdir()}
    assert f"saved 2 blobs to {folder}" in done.output


def test_salvage_lists_the_blobs_that_are_lost(file: Path):
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE pieces SET bytes = zeroblob(length(bytes)) WHERE id = (1 << 24) + 1")
    connection.close()

    done = run("export", "--salvage", file, "--json")
    assert 1 == done.exit_code
    summary = json.loads(done.stderr)
    assert (False, 1, 1) == (summary["is_complete"], summary["blobs"]["saved"], len(summary["blobs"]["lost"]))
    assert [b"small"] == [one.read_bytes() for one in Path(f"{file}.salvaged/blobs").iterdir()]
