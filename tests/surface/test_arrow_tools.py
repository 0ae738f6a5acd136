"""The snippets of `docs/how-to/arrow-tools.md`, each run as it is on the page, and what the tool has then.

Rule of this file: a snippet has at most 15 lines of code, and the tool's own tables are the witness.
"""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path
from typing import Any

import pytest

import reactdb

pytest.importorskip("pyarrow")

from tests.house.test_docs import blocks_of

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "arrow-tools.md"
SNIPPETS = {block.file: block.text for block in blocks_of(PAGE) if block.file}


@pytest.fixture(autouse=True)
def arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's file in an empty folder, and a dlt that sends nothing to its makers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    for name, text in SNIPPETS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    run("make.py")


def run(name: str) -> dict[str, Any]:
    """What a snippet has left in its variables."""
    with warnings.catch_warnings():
        # Of the tools themselves.
        warnings.simplefilter("ignore")
        return runpy.run_path(name)


def rows(file: str, statement: str) -> list[tuple[Any, ...]]:
    import duckdb

    with duckdb.connect(file) as lake:
        found: list[tuple[Any, ...]] = lake.execute(statement).fetchall()
        return found


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_is_short(name):
    assert len([line for line in SNIPPETS[name].splitlines() if line.strip()]) <= 15


def test_duckdb_queries_documents_a_moment_and_changes():
    pytest.importorskip("duckdb")

    found = run("duckdb_query.py")

    assert [("Ann", 30), ("Dia", 12), ("Cem", 9)] == found["best"]
    assert [("delete", 1), ("insert", 4), ("update", 1)] == found["counts"]
    assert [(1, 27)] == found["gained"].fetchall()


def test_duckdb_loads_each_change_once():
    pytest.importorskip("duckdb")
    run("duckdb_load.py")
    run("duckdb_load.py")
    with reactdb.connect("arena.db") as db:
        db.table("games").insert({"id": 9, "player": "Eve", "score": 1})
        db.table_create("others").insert({"id": "text"})
    run("duckdb_load.py")

    assert [
        (2, 1, "insert", 3), (3, 2, "insert", 6), (4, 3, "insert", 9), (5, 4, "insert", 12),
        (6, 1, "update", 30), (7, 2, "delete", None), (8, 9, "insert", 1),
    ] == rows("lake.duckdb", "SELECT * FROM scores ORDER BY seq")  # fmt: skip


def test_polars_compares_two_moments_and_writes_back():
    pytest.importorskip("polars")

    found = run("polars_frame.py")

    assert [{"id": 1, "player": "Ann", "score": 30, "player_before": "Ann", "score_before": 3}] == found[
        "gained"
    ].to_dicts()
    with reactdb.connect("arena.db", read_only=True) as db:
        assert [{"id": 1, "rank": 1}, {"id": 3, "rank": 3}, {"id": 4, "rank": 2}] == db.table("ranks").run()


def test_pandas_reads_a_moment_and_writes_back():
    pytest.importorskip("pandas")

    run("pandas_frame.py")

    with reactdb.connect("arena.db", read_only=True) as db:
        assert [{"id": "score", "min": 9.0, "max": 30.0, "mean": 17.0}] == db.table("summary").run()


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("dlt_load.py", "SELECT id, player, score FROM arena_dataset.games ORDER BY id"),
        ("dlt_arrow.py", "SELECT id, player FROM arena_dataset.players ORDER BY id"),
    ],
)
def test_dlt_merges_what_changed_since_its_last_run(name, statement):
    pytest.importorskip("duckdb")
    pytest.importorskip("dlt")
    run(name)
    first = rows("arena.duckdb", statement)
    with reactdb.connect("arena.db") as db:
        db.table("games").get(3).delete()
        db.table("games").get(4).update({"player": "Deb"})
        db.table("games").insert(
            [{"id": 9, "player": "Eve", "score": 1}, {"id": 10, "player": "Fay", "score": 2}]
        )
        db.table("games").get(10).delete()
    run(name)
    run(name)

    names = {1: "Ann", 3: "Cem", 4: "Dia", 9: "Eve"}
    assert [(key, names[key]) for key in (1, 3, 4)] == [row[:2] for row in first]
    assert [(1, "Ann"), (4, "Deb"), (9, "Eve")] == [row[:2] for row in rows("arena.duckdb", statement)]
    if name == "dlt_load.py":
        assert [30, 12, 1] == [row[2] for row in rows("arena.duckdb", statement)]
