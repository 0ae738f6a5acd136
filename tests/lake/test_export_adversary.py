"""Exports of documents, fleets and folders that are made to go wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

import reactdb
from reactdb.errors import (
    CannotOpen,
    HistoryDiverged,
    InvalidOption,
    SchemaMismatch,
    StorageError,
    UsageError,
)
from reactdb.lake import export, run, staging
from reactdb.lake.data_files import storage_errors
from tests.lake import answers
from tests.lake.answers import read
from tests.lake.small_chunks import small_chunks

TABLE = "a..b-."
FORMATS = ["delta", "iceberg"]
ALL = ["parquet", *FORMATS]
MODES = ["current", "scd2", "changes"]


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Two databases with the same keys, of two types, and with fields that have the names of the export's own columns."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    for name in ("a", "b"):
        with reactdb.connect(folder / f"{name}.db") as db:
            own = {"_key": 5, "_conflicts": "mine", "_database": "x", "_source": [1]}
            db.table_create(TABLE).insert([{"id": 1, "v": name}, {"id": "1", "v": name}, {"id": 2, **own}])
    return folder


@pytest.mark.parametrize("kind", FORMATS)
def test_databases_with_the_same_keys_and_odd_fields_stay_apart(
    fleet: Path, tmp_path: Path, kind: str
) -> None:
    out = str(tmp_path / "out")
    assert 6 == export(str(fleet), TABLE, **{kind: out}).rows
    with reactdb.connect(fleet / "a.db") as db:
        db.table(TABLE).get("1").delete()
        db.table(TABLE).get(1).update({"v": "new", "w": 1})
    assert 2 == export(str(fleet), TABLE, **{kind: out}).rows

    rows = read(out, kind, TABLE)
    found = sorted((Path(row["_source"]).stem, row["_key"], row["v"]) for row in rows if row["v"])
    assert [("a", "1", "new"), ("b", '"1"', "b"), ("b", "1", "b")] == found
    own = '{"_conflicts":"mine","_database":"x","_key":5,"_source":[1]}'
    kept = [reactdb.json.loads(row["_conflicts"]) for row in rows if row["_key"] == "2"]
    assert [reactdb.json.loads(own)] * 2 == kept
    assert {"fleet", "out"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ALL)
def test_fields_that_differ_in_case_only_are_kept_beside_their_rows(
    kind: str, mode: str, tmp_path: Path
) -> None:
    """Delta takes both names for one column, Spark refuses both, and DuckDB answers for one with the other."""
    out = str(tmp_path / "out")
    with reactdb.connect(tmp_path / "a.db") as db:
        games = db.table_create("games")
        # The primary key has its column, also if another spelling comes before it.
        games.insert({"ID": "one", "id": 1, "a": 1, "A": "x", "_KEY": 4, "p": {"q": 1, "Q": 2}})
        first = export(db, "games", mode=mode, **{kind: out})
        games.insert([{"id": 2, "A": 2, "É": 1, "é": 2, "l": [{"z": 1}, {"Z": 2}]}, {"id": 3, "P": {"q": 1}}])
        second = export(db, "games", mode=mode, **{kind: out})

        found = [name.lower() for name in names_of(read(first.path, kind))]
        assert len(set(found)) == len(found)
        assert {"A", "p.Q"} <= set(first.conflicts)
        assert {"A", "é", "l[].Z", "P", *(() if mode == "current" else ["id"])} == set(second.conflicts)
        assert ["É", "l"] == second.new_fields
        rows = read(second.path, kind)
        if mode == "current":
            assert [1, 2, 3] == sorted(row["id"] for row in rows)
            assert answers.wanted_current(db) == answers.current(rows)
        elif mode == "changes":
            assert answers.wanted_changes(db) == answers.changes(rows)
        else:
            assert answers.wanted_versions(db) == answers.versions(rows)


def names_of(rows: list[dict[str, Any]]) -> list[str]:
    """The names of columns and of the fields of dicts in them, as paths."""
    row = rows[0]
    inner = [(name, value) for name, value in row.items() if isinstance(value, dict)]
    return [*row, *(f"{name}.{below}" for name, value in inner for below in names_of([value]))]


@pytest.mark.parametrize("kind", ALL)
def test_a_field_that_differs_in_case_only_is_refused_by_freeze_and_left_out_by_discard(
    kind: str, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    with reactdb.connect(tmp_path / "a.db") as db:
        games = db.table_create("games")
        games.insert({"id": 1, "a": 1, "A": "x", "p": {"q": 1, "Q": 2}})

        with pytest.raises(SchemaMismatch, match="A: 'x'"):
            export(db, "games", contract="freeze", **{kind: out})
        assert not os.path.exists(out)
        done = export(db, "games", contract="discard", **{kind: out})
        assert {"A": 1, "p.Q": 1} == done.discarded
        assert [{"id": 1, "a": 1, "p": {"q": 1}}] == read(done.path, kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_folder_of_another_format_is_refused(tmp_path: Path, kind: str) -> None:
    out = str(tmp_path / "out")
    with reactdb.connect(tmp_path / "a.db") as db:
        db.table_create("t").insert({"id": 1})
        export(db, "t", **{kind: out})
        for other in {"delta", "iceberg", "parquet"} - {kind}:
            with pytest.raises(UsageError, match="another folder"):
                export(db, "t", **{other: out})
        assert 0 == export(db, "t", **{kind: out}).rows


@pytest.mark.skipif(not hasattr(os, "fork"), reason="another user needs a fork")
def make(file: Path, *documents: dict[str, Any], table: str = "games") -> Path:
    with reactdb.connect(file) as db:
        db.table_create(table, exist_ok=True).insert(list(documents), conflict="replace")
    return file


@pytest.mark.parametrize("kind", ALL)
def test_another_database_under_the_same_name_is_refused(kind: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    file = make(tmp_path / "a.db", {"id": 1, "v": "a"})
    rows = read(export(file, **{kind: out}).path, kind)
    shutil.copy(make(tmp_path / "b.db", {"id": 1, "v": "b"}), file)

    with pytest.raises(HistoryDiverged, match="another database"):
        export(file, **{kind: out})

    done = export(file, overwrite=True, **{kind: out})
    assert [{"id": 1, "v": "a"}] == rows
    assert [{"id": 1, "v": "b"}] == read(done.path, kind)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ALL)
def test_a_file_of_a_fleet_that_was_restored_is_refused_also_if_another_has_news(
    kind: str, mode: str, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    files = [make(tmp_path / f"{name}.db", {"id": 1, "v": name}) for name in "ab"]
    with reactdb.connect(files[1]) as db:
        db.backup(tmp_path / "backup")
    make(files[1], {"id": 2, "v": "lost"})
    rows = read(export(files, mode=mode, **{kind: out}).path, kind)
    shutil.copy(tmp_path / "backup", files[1])
    make(files[0], {"id": 2})
    make(files[1], {"id": 3}, {"id": 4})

    with pytest.raises(HistoryDiverged, match=r"b\.db"):
        export(files, mode=mode, **{kind: out})

    assert len(rows) == len(read(export(files, mode=mode, overwrite=True, **{kind: out}).path, kind)) - 2


@pytest.mark.parametrize("kind", ALL)
def test_a_file_that_comes_back_goes_on_also_after_others_were_written_anew(
    kind: str, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    for name in ("a", "b"):
        make(fleet / f"{name}.db", {"id": 1, "v": name})
    export(str(fleet), **{kind: out})
    shutil.move(fleet / "b.db", tmp_path / "b.db")
    for _ in range(2):
        with reactdb.connect(fleet / "a.db") as db:
            db.table_drop("games")
        make(fleet / "a.db", {"id": 2, "v": "a"})
        assert export(str(fleet), **{kind: out}).was_rewritten
    shutil.move(tmp_path / "b.db", fleet / "b.db")
    make(fleet / "b.db", {"id": 2, "v": "b"})

    done = export(str(fleet), **{kind: out})

    assert (1, False) == (done.rows, done.was_rewritten)
    found = sorted((row["v"], row["id"]) for row in read(done.path, kind))
    assert [("a", 2), ("b", 1), ("b", 2)] == found


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("mode", MODES)
def test_a_table_that_got_its_name_since_comes_with_its_older_documents(
    mode: str, kind: str, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    make(fleet / "a.db", {"id": 1, "v": "a"})
    make(fleet / "b.db", {"id": 1, "v": "b"}, table="other")
    export(str(fleet), "games", mode=mode, **{kind: out})
    with reactdb.connect(fleet / "b.db") as db:
        db.table_rename("other", "games")
    make(fleet / "b.db", {"id": 2, "v": "b"})

    if mode == "changes":
        with pytest.raises(HistoryDiverged, match="renamed"):
            export(str(fleet), "games", mode=mode, **{kind: out})
    done = export(str(fleet), "games", mode=mode, overwrite=mode == "changes", **{kind: out})

    assert 3 == len(read(done.path, kind))
    assert 0 == export(str(fleet), "games", mode=mode, **{kind: out}).rows


@pytest.mark.parametrize("mode", MODES)
def test_a_renamed_table_and_a_new_one_of_its_name_are_two(mode: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    file = make(tmp_path / "a.db", {"id": 1})
    export(file, "games", mode=mode, parquet=out)
    with reactdb.connect(make(file, {"id": 2})) as db:
        db.table_rename("games", "other")
    make(file, {"id": 3})

    if mode == "changes":
        # The change of document 2 belongs to a table of another name now.
        with pytest.raises(HistoryDiverged, match="renamed"):
            export(file, "games", mode=mode, parquet=out)
    done = export(file, "games", mode=mode, overwrite=mode == "changes", parquet=out)

    name = {"current": None, "scd2": "document", "changes": "new"}[mode]
    rows = read(done.path)
    assert [3] == [row["id"] if name is None else row[name]["id"] for row in rows]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("contract", ["evolve", "freeze", "discard"])
def test_a_table_written_anew_without_rows_takes_the_types_of_its_first_documents(
    contract: str, mode: str, kind: str, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    export(make(tmp_path / "a.db", {"id": "x", "v": 1}), mode=mode, **{kind: out})
    file = make(tmp_path / "b.db")

    done = export(file, mode=mode, overwrite=True, **{kind: out})
    assert [] == read(done.path, kind)
    assert 0 == export(file, mode=mode, **{kind: out}).rows
    make(file, {"id": 5, "v": 0.5})

    row = read(export(file, mode=mode, contract=contract, **{kind: out}).path, kind)[0]
    assert {"id": 5, "v": 0.5} == (row if mode == "current" else row.get("new") or row["document"])


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("is_fleet", [False, True])
def test_a_table_made_again_may_have_other_keys(is_fleet: bool, kind: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    make(tmp_path / "fleet.db", {"id": 7, "v": 7})
    file = make(tmp_path / "a.db", {"id": 1, "v": 1})
    source = [file, tmp_path / "fleet.db"] if is_fleet else file
    export(source, **{kind: out})
    with reactdb.connect(file) as db:
        db.table_drop("games")
        db.table_create("games", primary_key="code").insert([{"code": "k", "v": 2}, {"code": 5, "v": 3}])

    done = export(source, **{kind: out})

    found = [(row["_key"], row["v"]) for row in read(done.path, kind)]
    assert done.was_rewritten
    assert sorted([('"k"', 2), ("5", 3), *([("7", 7)] if is_fleet else [])]) == sorted(found)
    with reactdb.connect(file) as db:
        db.table("games").get("k").update({"v": 9})
    assert 1 == export(source, **{kind: out}).rows


@pytest.mark.parametrize("kind", ALL)
def test_the_rows_of_a_file_that_left_stay_also_without_columns_for_its_documents(
    kind: str, tmp_path: Path
) -> None:
    """The primary key `_key` gets no column of its own."""
    out = str(tmp_path / "out")
    files = [tmp_path / f"{name}.db" for name in "abc"]
    for number, file in enumerate(files):
        with reactdb.connect(file) as db:
            db.table_create("games", primary_key="_key").insert({"_key": number})
    export(files, **{kind: out})
    with reactdb.connect(files[0]) as db:
        db.table("games").insert({"_key": 3})

    done = export(files[:2], **{kind: out})

    assert ["0", "1", "2", "3"] == sorted(row["_key"] for row in read(done.path, kind))


def failing(real: Callable[..., Any], number: int, error: BaseException) -> Callable[..., Any]:
    """The function, whose n-th call fails."""
    left = [number]

    def call(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise error
        return real(*arguments, **options)

    return call


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_disk_that_does_not_flush_is_an_error_of_reactdb_and_the_next_run_goes_on(
    number: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make(tmp_path / "a.db", {"id": 1})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(os.fsync, number, OSError("no more")))
        with pytest.raises(StorageError, match="no more"):
            export(file, **{kind: tmp_path / "out"})

    assert [{"id": 1}] == read(export(file, **{kind: tmp_path / "out"}).path, kind)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_increments_that_were_widened_in_part_get_one_schema_in_the_next_run(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with reactdb.connect(tmp_path / "a.db") as db:
        games = db.table_create("games")
        for id_ in range(3):
            games.insert({"id": id_})
            export(db, mode="changes", parquet=out)
        games.insert({"id": 3, "x": 1})
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", failing(os.replace, number, OSError("no more")))
            with pytest.raises(StorageError, match="no more"):
                export(db, mode="changes", parquet=out)
        # Most values of the page are texts now.
        games.insert([{"id": id_, "x": "text"} for id_ in range(4, 8)])

        export(db, mode="changes", parquet=out)

        assert answers.wanted_changes(db) == answers.changes(read(str(out)))
    names = sorted(path.name for path in out.rglob("*") if path.is_file())
    assert ["_lock", *["_reactdb.json"] * 4, *["part-00000.parquet"] * 4] == names


@pytest.mark.parametrize("number", range(1, 7))
def test_increments_that_were_removed_in_part_are_a_whole_beginning(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with reactdb.connect(tmp_path / "a.db") as db:
        games = db.table_create("games")
        for id_ in range(3):
            games.insert({"id": id_})
            export(db, mode="changes", parquet=out)
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", failing(os.unlink, number, KeyboardInterrupt()))
            with pytest.raises(KeyboardInterrupt):
                export(db, mode="changes", overwrite=True, parquet=out)

        export(db, mode="changes", parquet=out)

        assert answers.wanted_changes(db) == answers.changes(read(str(out)))
        assert not [path for path in out.iterdir() if path.name.startswith("_staging")]


@pytest.mark.parametrize("kind", ALL)
def test_a_file_that_comes_to_a_fleet_may_have_other_keys(kind: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    file = make(tmp_path / "a.db", {"id": 1, "v": 1})
    export([file, make(tmp_path / "b.db", {"id": 2, "v": 2})], **{kind: out})
    files = [file, tmp_path / "b.db", make(tmp_path / "c.db", {"id": "x", "v": 3})]

    done = export(files, **{kind: out})

    assert [("1", 1), ("2", 2), ('"x"', 3)] == sorted(
        ((row["_key"], row["v"]) for row in read(done.path, kind)), key=lambda one: one[1]
    )


@pytest.mark.parametrize("kind", ALL)
def test_a_table_that_comes_to_a_file_of_a_fleet_may_have_another_primary_key(
    kind: str, tmp_path: Path
) -> None:
    """Two of its documents have the same value in the field that is the key of the other file."""
    out = str(tmp_path / "out")
    files = [
        make(tmp_path / "a.db", {"id": 1, "v": 1}),
        make(tmp_path / "b.db", {"id": 1}, table="other"),
    ]
    export(files, "games", **{kind: out})
    with reactdb.connect(files[1]) as db:
        games = db.table_create("games", primary_key="code")
        games.insert([{"code": "k", "id": 7}, {"code": "l", "id": 7}])
        export(files, "games", **{kind: out})
        games.get("k").update({"v": 2})

        done = export(files, "games", **{kind: out})

    found = sorted((row["_key"], row["id"], row["v"]) for row in read(done.path, kind))
    assert [('"k"', 7, 2), ('"l"', 7, None), ("1", 1, 1)] == found


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("first", "second"), [({"v": 1}, {"v": "x"}), ({"v": 2**53 + 1}, {"v": 0.5})], ids=["text", "inexact"]
)
def test_freeze_writes_no_chunk_of_the_first_changes_if_a_later_one_does_not_fit(
    first: dict[str, Any], second: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    options = {"mode": "changes", "contract": "freeze", kind: str(tmp_path / "out")}
    file = make(tmp_path / "a.db", {"id": 1, **first})
    kept = make(tmp_path / "b.db", {"id": 1}, {"id": 2})
    make(file, {"id": 2, **second})

    with small_chunks(), pytest.raises(SchemaMismatch, match="a document"):
        export(file, **options)
    assert not (tmp_path / "out").exists()

    done = export(kept, **options)
    with small_chunks(), pytest.raises(SchemaMismatch, match="a document"):
        export(file, overwrite=True, **options)
    assert [1, 2] == sorted(row["new"]["id"] for row in read(done.path, kind))


@pytest.mark.parametrize("kind", ALL)
def test_freeze_takes_first_changes_whose_columns_widen_from_chunk_to_chunk(
    kind: str, tmp_path: Path
) -> None:
    file = make(tmp_path / "a.db", {"id": 1, "v": 1})
    make(file, {"id": 2, "v": 0.5, "late": True})
    with small_chunks():
        done = export(file, mode="changes", contract="freeze", **{kind: tmp_path / "out"})

    with reactdb.connect(file) as db:
        assert answers.wanted_changes(db) == answers.changes(read(done.path, kind))


def test_an_int_that_no_double_holds_may_be_the_value_before(tmp_path: Path) -> None:
    with reactdb.connect(tmp_path / "a.db") as db:
        games = db.table_create("games")
        games.insert({"id": 1, "x": 2**53 + 1})
        for value in (0.5, 2**53 + 1, 0.25):
            games.get(1).update({"x": value})

        rows = read(export(db, mode="changes", parquet=tmp_path / "out").path)

        assert answers.wanted_changes(db) == answers.changes(rows)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("mode", MODES)
def test_a_field_may_come_and_become_wider_in_any_chunk(mode: str, kind: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    file = make(tmp_path / "a.db", {"id": 1, "v": 1})
    export(file, mode=mode, **{kind: out})
    with reactdb.connect(file) as db:
        games = db.table("games")
        games.insert({"id": 2, "v": 2, "late": {"x": 1}})
        games.get(1).update({"v": 0.5})
        games.get(2).update({"late": {"y": "z"}})

        with small_chunks():
            done = export(db, mode=mode, **{kind: out})

        rows = read(done.path, kind)
        wanted, found = {
            "current": (answers.wanted_current, answers.current),
            "changes": (answers.wanted_changes, answers.changes),
            "scd2": (answers.wanted_versions, answers.versions),
        }[mode]
        assert wanted(db) == found(rows)
        assert (["late", "late.y"], ["v"]) == (done.new_fields, done.widened_fields)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("mode", MODES)
def test_documents_whose_fields_get_no_column_may_come_first(mode: str, kind: str, tmp_path: Path) -> None:
    """An empty list has no type yet."""
    wanted, found = {
        "current": (answers.wanted_current, answers.current),
        "changes": (answers.wanted_changes, answers.changes),
        "scd2": (answers.wanted_versions, answers.versions),
    }[mode]
    with reactdb.connect(tmp_path / "a.db") as db:
        games = db.table_create("games", primary_key="x")
        for document in ({"x": []}, {"x": [2], "n": 5}):
            games.insert(document)

            rows = read(export(db, mode=mode, **{kind: str(tmp_path / "out")}).path, kind)

            assert wanted(db) == found(rows)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("contract", ["freeze", "discard"])
def test_a_first_run_that_was_killed_after_a_chunk_goes_on_as_the_first(
    contract: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run gives the table its columns, whatever the contract, and later runs do not."""
    out = str(tmp_path / "out")
    with reactdb.connect(tmp_path / "a.db") as db:
        games = db.table_create("games")
        games.insert({"id": 1, "v": 1})
        games.insert({"id": 2, "v": 2, "late": "x"})
        commit = run.ExportRun._commit

        def interrupt(*given: Any) -> None:
            commit(*given)
            raise KeyboardInterrupt

        with small_chunks():
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(run.ExportRun, "_commit", interrupt)
                export(db, mode="changes", contract=contract, **{kind: out})
            done = export(db, mode="changes", contract=contract, **{kind: out})

        assert ({}, 1) == (done.discarded, done.rows)
        assert answers.wanted_changes(db) == answers.changes(read(done.path, kind))
        games.insert({"id": 3, "later": 1})
        if contract == "discard":
            assert {"later": 1} == export(db, mode="changes", contract=contract, **{kind: out}).discarded
        else:
            with pytest.raises(SchemaMismatch):
                export(db, mode="changes", contract=contract, **{kind: out})


@pytest.mark.parametrize("name", ["[]", "{}", "b"])
def test_an_int_that_no_double_holds_may_be_in_a_field_of_any_name(name: str, tmp_path: Path) -> None:
    with reactdb.connect(tmp_path / "a.db") as db:
        games = db.table_create("games")
        games.insert({"id": 1, "a": {name: 2**53 + 1}, name: 2**53 + 1})
        export(db, parquet=tmp_path / "out")
        games.insert({"id": 2, "a": {name: 0.5}, name: 0.5})

        rows = read(export(db, parquet=tmp_path / "out").path)

        assert answers.wanted_current(db) == answers.current(rows)


@pytest.mark.parametrize("kind", ALL)
def test_a_run_that_was_overtaken_after_it_looked_at_the_file_goes_on(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "out")
    file = make(tmp_path / "a.db", {"id": 1})
    export(file, **{kind: out})
    real = run.read_file_states

    def overtaken(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(run, "read_file_states", real)
        reaches = real(*arguments, **options)
        make(file, {"id": 2})
        export(file, **{kind: out})
        make(file, {"id": 3})
        return reaches

    monkeypatch.setattr(run, "read_file_states", overtaken)
    done = export(file, **{kind: out})

    assert [1, 2, 3] == sorted(row["id"] for row in read(done.path, kind))


def test_rows_that_are_only_tried_wait_beside_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    real = staging.tempfile.mkdtemp
    monkeypatch.setattr(staging, "MOST_BYTES_IN_MEMORY", 1)
    monkeypatch.setattr(
        staging.tempfile, "mkdtemp", lambda **options: made.append(options["dir"]) or real(**options)
    )
    file = make(tmp_path / "a.db", {"id": 1})
    export(file, mode="changes", parquet=tmp_path / "out")
    make(file, {"id": 2})

    assert 1 == export(file, mode="changes", contract="freeze", parquet=tmp_path / "out").rows

    assert [str(tmp_path)] * 3 == made


def test_a_database_in_memory_is_refused_by_name(tmp_path: Path) -> None:
    with reactdb.connect(":memory:") as db:
        db.table_create("games").insert({"id": 1})
        with pytest.raises(UsageError, match="in memory"):
            export(db, parquet=tmp_path / "out")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_path_that_the_library_reads_as_another_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot have"):
        export(make(tmp_path / "a.db", {"id": 1}), **{kind: tmp_path / "a%20b"})
    assert not (tmp_path / "a%20b").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="another user needs a fork")
@pytest.mark.parametrize("mode", [0o555, 0o000])
@pytest.mark.parametrize("options", [{}, {"mode": "changes"}, {"at": "now"}])
def test_a_folder_of_parquet_without_permission_is_an_error_of_reactdb(
    options: dict[str, str], mode: int, tmp_path: Path
) -> None:
    file = make(tmp_path / "a.db", {"id": 1})
    closed = tmp_path / "closed"
    closed.mkdir()
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(parent.stat().st_mode | 0o055)
    out = closed / "out" if options.get("at") else closed
    closed.chmod(mode)

    error = as_another_user(lambda: export(file, parquet=out, **options))

    assert error in ("CannotOpen", "StorageError", "UsageError")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_delta_in_a_fork_of_a_process_that_used_it_is_an_error_of_reactdb(tmp_path: Path) -> None:
    file = make(tmp_path / "a.db", {"id": 1})
    export(file, delta=tmp_path / "out")
    assert StorageError.__name__ == as_another_user(
        lambda: export(file, delta=tmp_path / "out"), os.geteuid()
    )


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_folder_without_permission_is_an_error_of_reactdb(tmp_path: Path, kind: str, mode: int) -> None:
    from reactdb.lake.delta import DeltaTarget
    from reactdb.lake.iceberg import IcebergTarget

    folder = tmp_path / "closed"
    folder.mkdir()
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(parent.stat().st_mode | 0o055)
    folder.chmod(mode)
    target = DeltaTarget(str(folder)) if kind == "delta" else IcebergTarget(str(folder), "t")

    def lock() -> None:
        with target.lock():
            pass

    assert as_another_user(lock) in ("CannotOpen", "StorageError")
    assert issubclass(CannotOpen, reactdb.ReactDBError)


def test_a_folder_of_files_that_may_not_be_read_is_named_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user without rights sees it: no file in it."""
    fleet = tmp_path / "fleet"
    fleet.mkdir(mode=0o000)
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(fleet) and real(path, mode))

    with pytest.raises(CannotOpen, match="the folder may not be read"):
        export(fleet, "games", parquet=tmp_path / "out")


def as_another_user(work: Callable[[], Any], user: int = 65_534) -> str:
    """The name of the error that `work` raises in a fork, for a user without rights."""
    ends = os.pipe()
    pid = os.fork()
    if not pid:
        name = ""
        try:
            if os.geteuid() == 0:
                os.setuid(user)
            work()
        except BaseException as error:
            name = type(error).__name__
        os.write(ends[1], name.encode())
        os._exit(0)
    os.close(ends[1])
    with os.fdopen(ends[0]) as file:
        name = file.read()
    os.waitpid(pid, 0)
    return name


# ---------------------------------------------------------------------------------------------------------------
# Mistakes in a call


@pytest.fixture
def games(tmp_path: Path) -> Path:
    return make(tmp_path / "a.db", {"id": 1, "a": 1})


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("folder", ["", "out\0", "out\udcff", b"out", 5, True, ["out"]], ids=repr)
def test_a_target_that_is_no_path_is_refused(
    kind: str, folder: Any, games: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidOption, match=f"{kind} is the path of a folder to write to, in UTF-8, not"):
        export(games, "games", **{kind: folder})
    assert {"a.db"} == {path.name[:4] for path in tmp_path.iterdir()}


@pytest.mark.parametrize("source", ["", "a\0.db", "a\udcff.db", b"a.db", 5, None, [None], [""]], ids=repr)
def test_a_source_that_is_no_path_is_refused(
    source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidOption, match="source is an open database, a file, a folder"):
        export(source, "games", parquet=tmp_path / "out")
    assert [] == list(tmp_path.iterdir())


def test_a_table_as_the_source_is_refused(games: Path, tmp_path: Path) -> None:
    with (
        reactdb.connect(games) as db,
        pytest.raises(InvalidOption, match=r"source is an open database, a file, .* not <Table 'games'>"),
    ):
        export(db["games"], parquet=tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"table": 5}, "table is the name of a table, not 5"),
        ({"table": b"games"}, "table is the name of a table"),
        ({"table": ""}, "table is the name of a table, not ''"),
        ({"path_glob": ""}, "path_glob is a pattern"),
        ({"path_glob": ["*.db"]}, "path_glob is a pattern"),
        ({"overwrite": "yes"}, "overwrite is True or False, not 'yes'"),
        ({"recursive": 1}, "recursive is True or False, not 1"),
        ({"ignore_corrupt_files": "no"}, "ignore_corrupt_files is True or False"),
        ({"ignore_missing_files": None}, "ignore_missing_files is True or False"),
        ({"progress": 5}, "progress is a function of two numbers, not 5"),
    ],
)
def test_an_argument_of_another_type_is_refused_before_anything_is_read(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOption, match=words):
        export(tmp_path / "nowhere.db", parquet=tmp_path / "out", **options)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("kind", ALL)
def test_a_file_of_a_folder_whose_name_is_not_utf_8_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    make(fleet / "a\udcff.db", {"id": 1})
    with pytest.raises(CannotOpen, match="its path is not UTF-8"):
        export(fleet, "games", **{kind: str(tmp_path / "out")})
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("kind", ["parquet", "iceberg"])
def test_a_folder_may_have_a_line_break_in_its_name(kind: str, games: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "a\nb")
    assert 1 == export(games, "games", **{kind: out}).rows
    done = export(games, "games", **{kind: out})
    assert (0, [{"id": 1, "a": 1}]) == (done.rows, read(done.path, kind))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("name", ["a\nb", "a\x7f", "a\\b", "a%20b"])
def test_a_folder_that_delta_would_not_find_again_is_refused(name: str, games: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a path of a Delta table cannot have"):
        export(games, "games", delta=str(tmp_path / name))
    assert {"a.db"} == {path.name[:4] for path in tmp_path.iterdir()}


@pytest.mark.parametrize("kind", ALL)
def test_a_name_with_a_null_character_keeps_its_value(kind: str, tmp_path: Path) -> None:
    """Delta would cut the name there, and read null in its column."""
    out = str(tmp_path / "out")
    with reactdb.connect(tmp_path / "a.db") as db:
        db.table_create("games").insert({"id": 1, "x\0y": 1, "\0": 2, "s": {"z\0": 3, "z": 4}})
        done = export(db, "games", **{kind: out})

        assert {"x\0y": 1, "\0": 1, "s.z\0": 1} == done.conflicts
        assert answers.wanted_current(db) == answers.current(read(done.path, kind))


@pytest.mark.parametrize("shape", [lambda inner: {"x": inner}, lambda inner: [inner]], ids=["dicts", "lists"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ALL)
def test_a_value_that_is_nested_deeper_than_a_reader_takes_keeps_its_value(
    kind: str, mode: str, shape: Callable[[Any], Any], tmp_path: Path
) -> None:
    shallow = deep = 1
    for _ in range(25):
        shallow = shape(shallow)
    for _ in range(80):
        deep = shape(deep)
    with reactdb.connect(tmp_path / "a.db") as db:
        db.table_create("games").insert(
            {"id": 1, "shallow": shallow, "deep": deep, "beside": {"a": 1, "d": deep}}
        )
        done = export(db, "games", mode=mode, **{kind: str(tmp_path / "out")})

        assert {"deep": 1, "beside.d": 1} == done.conflicts
        rows = read(done.path, kind)
        if mode == "current":
            assert answers.wanted_current(db) == answers.current(rows)
        elif mode == "changes":
            assert answers.wanted_changes(db) == answers.changes(rows)
        else:
            assert answers.wanted_versions(db) == answers.versions(rows)


def test_an_error_of_delta_has_no_calls_of_its_own() -> None:
    """With RUST_BACKTRACE in the environment, delta-rs adds them to the message."""
    with pytest.raises(StorageError) as raised, storage_errors("out", "written", ValueError):
        raise ValueError("Kernel error: too deep\n   0: <unknown>\n   1: PyObject_Vectorcall")
    assert "out cannot be written: Kernel error: too deep" == str(raised.value)
