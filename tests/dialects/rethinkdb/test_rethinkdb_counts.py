"""`distinct` and `count` by an index, in RethinkDB's dialect: from the entries, and the same as from the documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import rethinkdb

import reactdb
from reactdb.store import snapshot as snapshot_module

r = rethinkdb.RethinkDB()
games = r.table("games")


@pytest.fixture
def connection() -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        table = db.table_create("games")
        table.index_create("score")
        table.index_create("tags", multi=True)
        scores = [7, 7.0, 12, None, "x", 1.5, [1, 2.0]]
        table.insert([{"id": n, "score": one, "tags": [n % 2, "a"]} for n, one in enumerate(scores)])
        table.insert({"id": "last"})
        with reactdb.rethinkdb(db) as opened:
            yield opened


@pytest.mark.parametrize("index", ["score", "tags"])
def test_the_values_of_an_index_are_those_of_the_documents(connection: Any, index: str) -> None:
    # Of a range, documents are read.
    expected = games.between(r.minval, r.maxval, index=index).distinct(index=index).run(connection)

    assert expected == games.distinct(index=index).run(connection)


def test_no_document_is_read(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module.Snapshot, "whole", None)
    monkeypatch.setattr(snapshot_module, "are_whole", None)

    assert [[1, 2], 1.5, 7, 12, "x"] == games.distinct(index="score").run(connection)
    assert 2 == games.between(5, 8, index="score").count().run(connection)
    # Also the null and the array, which are below all numbers.
    assert 5 == games.filter(r.row["score"] < 10).count().run(connection)
