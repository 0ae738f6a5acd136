"""What a write moves in the indexes: they always have what the documents say, however alike the old and the new value look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import Database, row
from reactdb.expression import expr
from reactdb.session import session_of
from reactdb.store.catalogue import IndexInfo
from reactdb.table import Table
from reactdb.values import codec
from tests.support.scaling import examples

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
# Some of these are equal for Python, and are not the same.
ALIKE = [
    *(0, 0.0, -0.0, False, None, 1, 1.0, True, Decimal(1), Decimal("1.0"), "1", b"1", "", b"", float("nan")),
    *([1], [True], [1.0], [], {}, {"x": 1}, {"x": True}, 2**53, float(2**53), 2**53 + 1),
    *(MOMENT, MOMENT.astimezone(timezone(timedelta(hours=1)))),
]
INDEXES = {
    "value": row["value"],
    "text": row["value"].coerce_to("string"),
    "kind": row["value"].type_of(),
    "both": expr([row["value"], row["other"]]),
    "names": row.keys(),
}
fields = st.fixed_dictionaries({}, optional=dict.fromkeys(("value", "other"), st.sampled_from(ALIKE)))


def indexed(db: Database) -> Table:
    games = db.table_create("games")
    for name, expression in INDEXES.items():
        games.index_create(name, expression)
    games.index_create("each", row["value"], multi=True)
    return games


def entries(db: Database) -> tuple[list[Any], list[Any]]:
    """What the indexes have, and what the documents say that they have."""
    with session_of(db).read() as snapshot:
        table = snapshot.catalogue.live["games"]
        found = snapshot.connection.execute("SELECT index_id, value, key, tag FROM entries").fetchall()
        said = [
            (number, value, key, tag)
            for key, body in snapshot.rows(table)
            for index in table.indexes.values()
            for number, value, tag in index.stored_entries(codec.decode(body))
        ]
    return sorted(found), sorted(said)


@pytest.mark.parametrize("is_heard", [False, True])
@given(st.lists(fields, min_size=2, max_size=6))
@settings(max_examples=examples(60), deadline=None)
def test_the_indexes_have_what_the_documents_say(is_heard: bool, versions: list[dict[str, Any]]) -> None:
    with reactdb.connect(":memory:") as db:
        games = indexed(db)
        watched = games.changes().subscribe() if is_heard else None
        for version in versions:
            games.insert({"id": 1, **version}, conflict="replace")
            found, said = entries(db)
            assert found == said
        if watched is not None:
            watched.dispose()


def test_an_update_of_other_fields_computes_no_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    compute = IndexInfo.stored_entries

    def noted(index: IndexInfo, document: dict[str, Any]) -> Any:
        computed.append(index.name)
        return compute(index, document)

    monkeypatch.setattr(IndexInfo, "stored_entries", noted)
    with reactdb.connect(":memory:") as db:
        games = indexed(db)
        games.insert({"id": 1, "value": "a", "other": 1, "third": 1})
        computed.clear()
        games.get(1).update({"third": 2})
        assert set(computed) == {"names"}
        computed.clear()
        games.get(1).update({"other": True})
        assert set(computed) == {"names", "both"}
