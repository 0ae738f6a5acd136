"""Exports of documents, fleets and folders that are made to go wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

import reactdb
from reactdb.errors import CannotOpen, SchemaMismatch, UsageError
from reactdb.lake import export
from tests.lake.answers import read

TABLE = "a..b-."
FORMATS = ["delta", "iceberg"]


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


def test_a_field_that_differs_in_case_is_refused_by_delta_and_can_be_left_out(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with reactdb.connect(tmp_path / "a.db") as db:
        table = db.table_create("t")
        table.insert({"id": 1, "a": 1})
        export(db, "t", delta=out)
        table.insert({"id": 2, "A": 1})

        with pytest.raises(SchemaMismatch, match="ignores case"):
            export(db, "t", delta=out)
        assert [{"id": 1, "a": 1}] == read(out, "delta")
        assert {"A": 1} == export(db, "t", delta=out, contract="discard").discarded
        assert 2 == len(read(out, "delta"))


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


def as_another_user(work: Callable[[], Any]) -> str:
    """The name of the error that `work` raises for a user without rights."""
    ends = os.pipe()
    pid = os.fork()
    if not pid:
        name = ""
        try:
            if os.geteuid() == 0:
                os.setuid(65_534)
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
