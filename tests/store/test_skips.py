"""Skipped documents are not read: their damage is not met, and that of the page is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

import reactdb
from reactdb import desc, row
from reactdb.errors import CorruptDatabase


@pytest.fixture
def path(tmp_path: Any) -> str:
    """Ten documents with the seqs 3 to 12; the third, of seq 5, is damaged."""
    where = str(tmp_path / "skips.db")
    with reactdb.connect(where) as db:
        table = db.table_create("t")
        table.index_create("n")
        table.insert([{"id": number, "n": number} for number in range(10)])
    with sqlite3.connect(where) as other:
        other.execute("UPDATE log SET body = x'80' WHERE seq = 5")
    other.close()
    return where


@pytest.mark.parametrize(
    ("ask", "found"),
    [
        (lambda table: table.skip(3), range(3, 10)),
        (lambda table: table.order_by(index="n").skip(3), range(3, 10)),
        (lambda table: table.order_by(index=desc("n")).skip(8), [1, 0]),
        (lambda table: table.order_by(index="id").skip(1).skip(2).limit(2), [3, 4]),
        (lambda table: table.between(1, 9, index="n").skip(2), range(3, 9)),
        (lambda table: table.order_by(index="n")[3:5], [3, 4]),
        (lambda table: table.order_by(index="n").skip(3).filter(row["n"] > 5).limit(2), [6, 7]),
        (lambda table: table.skip(100), []),
    ],
)
def test_the_damage_of_a_skipped_document_is_not_met(
    path: str, ask: Callable[[Any], Any], found: Any
) -> None:
    with reactdb.connect(path) as db:
        assert [one["n"] for one in ask(db.table("t")).run()] == list(found)
        # Nor where nothing has changed since.
        assert [one["n"] for one in ask(db.at(db.seq).table("t")).run()] == list(found)
        assert db.table("t").order_by(index="n").nth(3).run() == {"id": 3, "n": 3}


@pytest.mark.parametrize(
    "ask",
    [
        lambda table: table.skip(2),
        lambda table: table.order_by(index="n").skip(1).limit(2),
        lambda table: table.order_by(index=desc("n")).skip(7).limit(1),
        lambda table: table.order_by(index="n").nth(2),
        # A filter, or an order, before the skip reads all.
        lambda table: table.filter(row["id"] != 100).skip(5),
        lambda table: table.order_by("n").skip(5),
    ],
)
def test_the_damage_of_a_document_that_is_read_is_met(path: str, ask: Callable[[Any], Any]) -> None:
    with reactdb.connect(path) as db, pytest.raises(CorruptDatabase):
        ask(db.table("t")).run()


def test_explain_shows_how_a_skip_and_a_get_of_the_past_are_answered() -> None:
    with reactdb.connect(":memory:") as db:
        table = db.table_create("t")
        table.index_create("n")
        table.insert([{"id": number, "n": number} for number in range(10)])
        past = db.at(4).table("t")

        def access(selection: Any) -> str:
            return str(selection.explain()["access"])

        assert access(table.order_by(index="n").skip(1_000)) == (
            "every document, in order of index `n`, skips 1,000 entries of index `n` without reading their documents"
        )
        assert access(table.skip(2)[5]) == "every document, skips 7 keys without reading their documents"
        assert "skips" not in access(table.filter(row["n"] > 3).skip(5))
        assert "skips" not in access(table.order_by("n").skip(5))
        assert access(past.get(1)) == "get: one key, reads the later changes of its key alone"
        assert access(past.get_all(1, 2)).endswith("reads the later changes of its keys alone")
        assert "changes" not in access(past.get_all(1, 2, index="n"))
        assert "changes" not in access(table.get(1))
        assert table.order_by(index="n").skip(5).limit(1).explain()["steps"] == ["limit"]
