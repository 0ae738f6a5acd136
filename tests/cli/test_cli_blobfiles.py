"""`export --blobs` and `import --blobs`: the folder of blobs beside the documents."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import reactdb
from tests.support.command import done, error_of, run

LARGE = bytes(range(256)) * 3_000


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """The folder of an export: `letters.jsonl`, which names a large blob twice and a small one, and `scans`, which has them."""
    with reactdb.connect(tmp_path / "old.db") as db:
        letters = db.table_create("letters")
        large, small = db.blobs.put(LARGE), db.blobs.put(b"small")
        db.blobs.put(b"of no document")
        letters.insert([{"id": 1, "scans": [large, small]}, {"id": 2, "scan": large}, {"id": 3}])
    export(tmp_path)
    return tmp_path


def export(folder: Path, *options: object) -> str:
    names = (folder / "old.db", "letters", folder / "letters.jsonl", "--blobs", folder / "scans")
    return str(done(run("export", *names, *options)).stderr)


def imported(folder: Path, *options: object):
    names = (folder / "new.db", "letters", folder / "letters.jsonl", "--create")
    return run("import", *names, *options)


def test_an_import_has_the_documents_and_their_blobs(exported: Path):
    done(imported(exported, "--blobs", exported / "scans"))

    with reactdb.connect(exported / "new.db") as new, reactdb.connect(exported / "old.db") as old:
        documents = new.table("letters").run()
        assert old.table("letters").run() == documents
        assert [LARGE, b"small", LARGE] == [
            new.blobs.read(blob) for blob in [*documents[0]["scans"], documents[1]["scan"]]
        ]
        assert 2 == len(list(new.blobs))


def test_each_blob_of_the_documents_is_a_file_named_by_its_digest(exported: Path):
    with reactdb.connect(exported / "old.db") as db:
        found = db.table("letters").get(1).run()["scans"]

    assert {blob.digest for blob in found} == set(os.listdir(exported / "scans"))


def test_a_file_that_is_there_is_not_written_again(exported: Path):
    (name, other) = sorted(os.listdir(exported / "scans"))
    (exported / "scans" / other).unlink()
    before = (exported / "scans" / name).stat()

    assert "; 1 new blob in " in export(exported)
    after = (exported / "scans" / name).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_file_that_is_not_what_its_name_says_is_refused(exported: Path):
    for name in os.listdir(exported / "scans"):
        path = exported / "scans" / name
        path.write_bytes(path.read_bytes()[:-1])

    assert "does not match the digest in its name: it was changed, or cut off" in error_of(
        imported(exported, "--blobs", exported / "scans")
    )
    with reactdb.connect(exported / "new.db") as db:
        assert [] == db.table("letters").run()


def test_a_document_whose_blob_has_no_file_is_a_wrong_line(exported: Path):
    for name in os.listdir(exported / "scans"):
        (exported / "scans" / name).unlink()

    for options in ([], ["--blobs", exported / "scans"]):
        message = error_of(imported(exported, *options))
        assert "line 1: Blob `sha256:" in message
        assert "put its content with db.blobs.put, first; nothing was stored" in message


@pytest.mark.parametrize("options", [["--changes"], ["--format", "csv"], ["--salvage"]])
def test_blobs_go_with_documents_as_json_lines(exported: Path, options: list[str]):
    names = (exported / "old.db", "letters", exported / "out", "--blobs", exported / "other")

    assert 2 == run("export", *names, *options).exit_code
    assert not (exported / "other").exists()
