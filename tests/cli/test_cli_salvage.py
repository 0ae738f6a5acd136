"""`export --salvage` writes everything that can be read from a damaged file and nothing else, lists what is lost,
and does not change the file."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils.utils import sqlite3

import reactdb
from reactdb import row
from reactdb.json import loads
from reactdb.store.file import pages
from reactdb.values import codec
from tests import fuzzed_files
from tests.support import kept_files
from tests.support.command import error_of, run
from tests.support.scaling import examples

PAGE = 4096


def salvage(*arguments: object) -> Any:
    result = run("export", "--salvage", *arguments)
    assert isinstance(result.exception, (SystemExit, type(None))), result.exception
    return result


def salvaged(path: Path) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """The lines of each table's file, and the summary."""
    folder = Path(f"{path}.salvaged")
    shutil.rmtree(folder, ignore_errors=True)
    result = salvage(path, "--json")
    summary = json.loads(result.stderr.splitlines()[-1])
    assert (1 - summary["is_complete"]) == result.exit_code
    return {
        file.stem: file.read_text(encoding="utf-8").splitlines() for file in sorted(folder.glob("*.jsonl"))
    }, summary


def bytes_of(path: Path) -> dict[str, bytes]:
    found = {file.name: file.read_bytes() for file in path.parent.glob(path.name + "*") if file.is_file()}
    return {name: data for name, data in found.items() if data and not name.endswith("-shm")}


@pytest.fixture(scope="module")
def truths(tmp_path_factory: pytest.TempPathFactory) -> list[fuzzed_files.Truth]:
    folder = tmp_path_factory.mktemp("salvage")
    return [fuzzed_files.make(folder, in_wal=in_wal) for in_wal in (False, True)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A table of 400 documents, some of them with an earlier version; some deleted."""
    path = tmp_path / "arena.db"
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        games.index_create("score")
        games.insert([{"id": n, "player": f"player {n:04}", "score": 0} for n in range(400)])
        games.filter(row["id"] < 100).update({"score": 7})
        games.between(300, 310).delete()
        db.table_create("rooms", primary_key="name").insert([{"name": f"room {n}"} for n in range(30)])
    return path


def root_of(path: Path, name: str) -> int:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return int(
            connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
        )
    finally:
        connection.close()


def destroy(path: Path, *numbers: int, by: bytes = b"\0") -> None:
    data = bytearray(path.read_bytes())
    for number in numbers:
        data[(number - 1) * PAGE : number * PAGE] = by * PAGE
    path.write_bytes(data)


def current(path: Path) -> dict[str, list[str]]:
    found = {}
    for name in ("games", "rooms"):
        found[name] = run("export", path, name).stdout.splitlines()
    return found


# ---------------------------------------------------------------------------------------------------------------
# Laws


@pytest.mark.parametrize("name", list(kept_files.kept()))
def test_of_a_sound_file_of_any_format_everything_is_saved(name: str, tmp_path: Path):
    path = kept_files.unpack(name, tmp_path)
    before = bytes_of(path)

    found, summary = salvaged(path)

    assert kept_files.expected(name)["tables"] == found
    assert (True, [], 0) == (summary["is_complete"], summary["troubles"], summary["unread_log_entries"])
    assert before == bytes_of(path)


@pytest.mark.examples
def test_of_a_fuzzed_file_only_true_documents_are_saved_and_what_is_not_is_told(
    truths: list[fuzzed_files.Truth], tmp_path: Path
):
    """Also: whatever can be read in the ordinary way is among what is saved."""
    wrong = []
    rescued = 0
    count = examples(150)
    for seed in range(5000, 5000 + count):
        truth = truths[seed % 2]
        path, words = fuzzed_files.damaged(truth, truths[1], tmp_path, seed)
        is_foreign = "another" in words
        before = bytes_of(path)
        result = salvage(path, "--json")
        if before != bytes_of(path):
            wrong.append(f"seed {seed}, {words}: the file was written to")
        if result.exit_code and not result.stderr.startswith("{"):
            # Nothing in it looks like a database: only where next to nothing was left of it.
            if not any(word in words for word in ("cut to", "removed")):
                wrong.append(f"seed {seed}, {words}: {result.stderr}")
            continue
        summary = json.loads(result.stderr)
        for table in summary["tables"]:
            name = table["table"]
            if name not in truth.documents:
                if not summary["troubles"]:
                    wrong.append(f"seed {seed}, {words}: table {name}")
                continue
            lines = Path(table["target"]).read_text(encoding="utf-8").splitlines()
            for line in lines:
                document = loads(line)
                key = repr(document["name" if name == "other" else "id"])
                encoded = codec.encode(document)
                is_current = encoded == truth.documents[name].get(key)
                if encoded not in truth.versions[name].get(key, ()) and not is_foreign:
                    wrong.append(f"seed {seed}, {words}: {name} {key} is {line[:200]}")
                if truth is truths[0] and not is_current and summary["is_complete"]:
                    wrong.append(f"seed {seed}, {words}: {name} {key} is old and not told of")
            rescued += len(lines)
            if truth is truths[0] and len(lines) < len(truth.documents[name]) and summary["is_complete"]:
                wrong.append(f"seed {seed}, {words}: {len(lines)} of {name}, and nothing told of")
        shutil.rmtree(f"{path}.salvaged", ignore_errors=True)
        fuzzed_files.remove(path)

    assert [] == wrong
    assert rescued > 50 * count


# ---------------------------------------------------------------------------------------------------------------
# Cases


@pytest.mark.parametrize("by", [b"\0", b"\xee"])
@pytest.mark.parametrize(
    "tree", ["heads", "graves", "entries", "marks", "facts", "tables", "indexes", "epochs"]
)
def test_no_page_but_the_logs_is_needed_for_the_documents(file: Path, tree: str, by: bytes):
    expected = current(file)
    destroy(file, root_of(file, tree), by=by)

    found, summary = salvaged(file)

    games, rooms = ("table-1", "table-2") if tree == "tables" else ("games", "rooms")
    assert expected["games"] == found[games]
    assert expected["rooms"] == found[rooms]
    assert (tree in ("entries", "marks", "indexes", "epochs")) is summary["is_complete"] or tree in (
        "indexes",
    )


@pytest.mark.parametrize("size", [0, 16, 100, PAGE])
def test_a_destroyed_header_loses_no_document(file: Path, size: int):
    expected = current(file)
    data = bytearray(file.read_bytes())
    data[:size] = bytes(size)
    file.write_bytes(data)

    found, summary = salvaged(file)

    if size == PAGE:
        # With the first page, the list of trees is gone, and not the list of tables.
        assert summary["troubles"]
    assert expected == found


def test_the_root_of_the_log_is_not_needed(file: Path):
    expected = current(file)
    destroy(file, root_of(file, "log"))

    found, summary = salvaged(file)

    assert expected == found
    assert not summary["is_complete"]


def test_a_lost_page_of_the_log_costs_what_was_in_it_and_it_is_told(file: Path):
    expected = current(file)
    data = file.read_bytes()
    # The page with the first version of most of the first hundred.
    place = data.index(b"player 0020") // PAGE + 1
    destroy(file, place)

    found, summary = salvaged(file)
    (games,) = [table for table in summary["tables"] if table["table"] == "games"]

    assert len(expected["games"]) == games["saved"] + len(games["lost"])
    assert set(found["games"]) <= set(expected["games"])
    assert expected["rooms"] == found["rooms"]
    assert summary["unread_log_entries"] > 20
    assert not summary["is_complete"]


def test_a_changed_byte_costs_one_version_of_one_document(file: Path):
    data = file.read_bytes()
    newest, only = data.rindex(b"player 0050"), data.index(b"player 0350")
    changed = bytearray(data)
    places = [place for place in (data.find(b"player 0050"), newest) if place >= 0]
    assert 2 == len(set(places))
    changed[only] ^= 1
    # Of the two versions, the one with the score 7.
    changed[next(place for place in places if data[place + 11 : place + 18] == b"\xa5score\x07")] ^= 1
    file.write_bytes(changed)

    result = salvage(file)
    found, summary = salvaged(file)

    assert 1 == result.exit_code
    assert "in an earlier version: games, key 50" in result.stderr
    assert "lost: games, key 350" in result.stderr
    assert '{"id":50,"player":"player 0050","score":0}' in found["games"]
    assert 2 == summary["unread_log_entries"]


def test_a_file_that_was_cut_off_gives_what_was_before(file: Path):
    data = file.read_bytes()
    file.write_bytes(data[: len(data) * 4 // 5])

    found, summary = salvaged(file)

    # Deleted ones among them, where what was cut off was their deletion.
    assert 100 < len(found["games"]) <= 400
    assert not summary["is_complete"]


def test_what_compaction_removed_does_not_come_back(file: Path):
    with reactdb.connect(file) as db:
        db.table("games").between(0, 50).delete()
        db.compact(keep=0)
    expected = current(file)
    data = file.read_bytes()
    file.write_bytes(data.replace(b"player 0120", b"player 9120"))

    found, summary = salvaged(file)

    assert 390 - 50 - 1 == len(found["games"])
    assert set(found["games"]) < set(expected["games"])
    assert not summary["is_complete"]


def test_the_log_of_another_database_is_left_out(truths: list[fuzzed_files.Truth], file: Path):
    expected = current(file)
    shutil.copy(f"{truths[1].path}-wal", f"{file}-wal")

    found, summary = salvaged(file)

    assert expected == found
    assert "is of database" in summary["troubles"][0]


def test_commits_behind_damage_in_the_write_ahead_log_are_saved(
    truths: list[fuzzed_files.Truth], tmp_path: Path
):
    """SQLite takes a log up to the first frame whose checksum is wrong, and what comes after for never written."""
    truth = truths[1]
    path = tmp_path / "wal.db"
    shutil.copy(truth.path, path)
    data = bytearray(Path(f"{truth.path}-wal").read_bytes())
    # In the part of the fifth frame's page that is nobody's.
    data[32 + 4 * (24 + PAGE) + 24 + 200] ^= 1
    Path(f"{path}-wal").write_bytes(data)

    found, summary = salvaged(path)

    assert {name: len(documents) for name, documents in truth.documents.items()} == {
        name: len(lines) for name, lines in found.items()
    }
    assert ["the write-ahead log is damaged: SQLite sees only the commits before that"] == summary[
        "troubles"
    ][:1]


def test_one_table_goes_to_standard_output_and_back_in(file: Path, tmp_path: Path):
    expected = current(file)["rooms"]
    destroy(file, root_of(file, "heads"))

    result = salvage(file, "rooms")
    (tmp_path / "rooms.jsonl").write_text(result.stdout, encoding="utf-8")
    back = run(
        "import", tmp_path / "new.db", "rooms", tmp_path / "rooms.jsonl", "--create", "--primary-key", "name"
    )

    assert (1, expected) == (result.exit_code, result.stdout.splitlines())
    assert 0 == back.exit_code, back.output
    assert expected == run("export", tmp_path / "new.db", "rooms").stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["missing.db"], 1, "does not exist"),
        (["arena.db", "nobody"], 1, "Table `nobody` does not exist"),
        (["arena.db", "games", "arena.db"], 2, "belongs to the database"),
        (["arena.db", "--at", "3"], 2, "--salvage"),
        (["empty.db"], 1, "not a reactdb database"),
        (["text.db"], 1, "not a reactdb database"),
    ],
)
def test_mistakes_are_one_line(
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    exit_code: int,
    words: str,
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.db").write_text("no database at all\n" * 1000, encoding="utf-8")

    result = salvage(*arguments)

    assert exit_code == result.exit_code
    assert words in result.stderr
    assert 1 == len(result.stderr.splitlines())


def test_export_without_salvage_needs_a_table(file: Path):
    assert 2 == run("export", file).exit_code


def test_integers_and_records_are_read_as_sqlite_writes_them(tmp_path: Path):
    """Every size of an integer and of a row, those that go on in other pages among them."""
    path = tmp_path / "plain.db"
    chance = random.Random(3)
    values: list[Any] = [None, 0, 1, -1, 2.5, "text", b"", b"x" * 20_000, "ü" * 5000]
    values += [sign * 2**bits + more for bits in range(0, 63, 3) for sign in (1, -1) for more in (-1, 0, 1)]
    values += [chance.randbytes(size) for size in range(3900, 4200, 7)]
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a, b)")
    connection.execute("CREATE TABLE i (a INTEGER, b BLOB, c, PRIMARY KEY (a, b)) WITHOUT ROWID")
    connection.executemany("INSERT INTO t VALUES (?, 7)", [(value,) for value in values])
    connection.executemany(
        "INSERT INTO i VALUES (?, ?, 8)", [(n, chance.randbytes(n * 11)) for n in range(800)]
    )
    connection.commit()
    rows = [list(row) for row in connection.execute("SELECT rowid, a, b FROM t ORDER BY rowid")]
    entries = [list(row) for row in connection.execute("SELECT a, b, c FROM i ORDER BY a")]
    connection.close()

    with pages.Pages(str(path)) as found:
        everything = list(found.rows())

    assert entries == sorted(values for is_table, values in everything if not is_table)
    real = [values for is_table, values in everything if is_table and len(values) == 3]
    for expected, actual in zip(rows, real, strict=True):
        if isinstance(expected[1], float):
            # Kept as its bytes: no column of ours holds one.
            assert 8 == len(actual[1])
        else:
            assert expected == actual


def test_a_file_that_never_was_a_database_is_refused_in_one_sentence(tmp_path: Path):
    """Without the advice to do what is just being done."""
    text = tmp_path / "notes.txt"
    text.write_text("no database")

    refused = f"{text} is not a reactdb database: SQLite cannot read the file: it is not an SQLite file"
    assert refused == error_of(run("export", text, "--salvage"))
