"""Primary keys without a type in RethinkDB, over a socket: each key has its own text, and the text finds its document."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import rethinkdb
from rethinkdb.errors import ReqlQueryLogicError

from reactdb.testing import rethinkdb_server

r = rethinkdb.RethinkDB()
MOMENT = datetime(2026, 1, 31, tzinfo=UTC)
DATE = '={"$reactdb_type$":"date","value":"2026-01-31"}'
# Some of these would be shown alike.
KEYS: dict[str, Any] = {
    "zero": 0,
    "no time": timedelta(),
    "date": date(2026, 1, 31),
    "text of the date": "2026-01-31",
    "spelling of the date": DATE,
    "spelling of the spelling": f"={DATE}",
    "moment": MOMENT,
    "microsecond": MOMENT + timedelta(microseconds=1),
    "UUID": UUID(int=5),
    "text of the UUID": str(UUID(int=5)),
    "great": 2**53,
    "greater": 2**53 + 1,
    "decimal": Decimal("0.10"),
    "double": 0.1,
    "array": ["a", date(2026, 1, 31)],
    "array of texts": ["a", "2026-01-31"],
}
SHOWN = {
    "zero": 0,
    "no time": '={"$reactdb_type$":"duration","value":"0"}',
    "date": DATE,
    "text of the date": "2026-01-31",
    "spelling of the date": f"={DATE}",
    "spelling of the spelling": f"=={DATE}",
    "moment": MOMENT,
    "microsecond": '={"$reql_type$":"TIME","epoch_time":1769817600.000001,"timezone":"+00:00"}',
    "UUID": f'={{"$reactdb_type$":"uuid","value":"{UUID(int=5)}"}}',
    "text of the UUID": str(UUID(int=5)),
    "great": 2**53,
    "greater": f"={2**53 + 1}",
    # As the bytes of a key give it back.
    "decimal": f'={{"$reactdb_type$":"decimal","value":"0.1{"0" * 54}"}}',
    "double": 0.1,
    "array": '=["a",{"$reactdb_type$":"date","value":"2026-01-31"}]',
    "array of texts": ["a", "2026-01-31"],
}
things = r.table("things")


@pytest.fixture(scope="module")
def db() -> Iterator[Any]:
    import reactdb

    with reactdb.connect(":memory:") as db:
        yield db


@pytest.fixture
def table(db: Any) -> Iterator[Any]:
    table = db.table_create("things")
    table.insert([{"id": key, "name": name} for name, key in KEYS.items()])
    yield table
    db.table_drop("things")


@pytest.fixture
def connection(db: Any, served: Any, table: Any) -> Iterator[Any]:
    with r.connect(*served) as connection:
        yield connection


@pytest.fixture(scope="module")
def served(db: Any) -> Iterator[Any]:
    with rethinkdb_server(db) as address:
        yield address


def names(found: Any) -> list[str]:
    return [one["name"] for one in found]


def test_each_key_is_shown_as_a_value_of_its_own(connection: Any) -> None:
    assert {one["name"]: one["id"] for one in things.run(connection)} == SHOWN


@pytest.mark.parametrize(
    "query",
    [
        things["id"],
        things.get_field("id"),
        things.map(lambda one: one["id"]),
        things.pluck("id").map(lambda one: one["id"]).coerce_to("array"),
        things.without("name").coerce_to("array")["id"],
        things.order_by(index="id").limit(100)["id"],
        things.distinct(index="id"),
    ],
)
def test_a_query_for_keys_alone_gives_them_as_they_are_shown(connection: Any, query: Any) -> None:
    # Of the arrays within each other a driver makes lists, which are equal and have no hash.
    assert sorted(map(repr, map(plain, query.run(connection)))) == sorted(
        map(repr, map(plain, SHOWN.values()))
    )


def plain(value: Any) -> Any:
    """Each time that the driver makes has a zone of its own."""
    return value.isoformat() if isinstance(value, datetime) else value


@pytest.mark.parametrize(
    "query",
    [
        lambda key: [things.get(key)],
        lambda key: things.get_all(key),
        lambda key: things.between(key, key, right_bound="closed"),
        lambda key: things.between(key, key, index="id", right_bound="closed"),
        lambda key: things.filter({"id": key}),
        lambda key: things.filter(r.row["id"] == key),
        lambda key: things.filter(lambda one: (key == one["id"]) & one.has_fields("name")),
        lambda key: r.expr([{"other": key}]).eq_join("other", things).zip(),
        lambda key: [things.get_all(key).nth(0)],
    ],
)
def test_a_shown_key_finds_its_document_alone(connection: Any, query: Any) -> None:
    found = {name: names(r.expr(query(key)).run(connection)) for name, key in SHOWN.items()}
    assert found == {name: [name] for name in SHOWN}


@pytest.mark.parametrize(
    "write",
    [
        lambda name, key: things.get(key).update({"new": name}),
        lambda name, key: things.get(key).update(lambda old: {"new": old["name"]}),
        lambda name, key: things.get(key).replace({"id": key, "name": name, "new": name}),
        lambda name, key: things.get(key).replace(lambda old: old.merge({"new": name})),
        lambda name, key: things.get_all(key).update({"new": name}),
        lambda name, key: things.filter({"id": key}).update({"new": name}),
        lambda name, key: things.order_by("name").filter({"name": name}).update({"new": name}),
        lambda name, key: things.get_all(key).nth(0).update({"new": name}),
        lambda name, key: things.insert({"id": key, "new": name}, conflict="update"),
        lambda name, key: things.insert([{"id": key, "name": name, "new": name}], conflict="replace"),
        lambda name, key: things.insert(
            {"id": key, "new": name}, conflict=lambda _, old, new: old.merge(new.without("id"))
        ),
    ],
)
def test_a_write_under_a_shown_key_changes_its_document_alone(
    table: Any, connection: Any, write: Any
) -> None:
    for name, key in SHOWN.items():
        answer = write(name, key).run(connection)
        assert (name, answer["errors"], answer["replaced"]) == (name, 0, 1), answer
    found = {one["name"]: one for one in table.run()}
    # With their types: 0.1 is no Decimal.
    wanted = {name: {"id": KEYS[name], "name": name, "new": name} for name in KEYS}
    assert {name: repr(sorted(one.items())) for name, one in found.items()} == {
        name: repr(sorted(one.items())) for name, one in wanted.items()
    }


@pytest.mark.parametrize("name", KEYS)
def test_a_delete_under_a_shown_key_deletes_its_document_alone(
    table: Any, connection: Any, name: str
) -> None:
    assert things.get(SHOWN[name]).delete().run(connection)["deleted"] == 1
    assert sorted(names(table.run())) == sorted(KEYS.keys() - {name})


@pytest.mark.parametrize("name", KEYS)
def test_an_insert_under_a_key_that_is_taken_is_refused(table: Any, connection: Any, name: str) -> None:
    answer = things.insert({"id": SHOWN[name]}).run(connection)
    assert (answer["errors"], answer["inserted"]) == (1, 0)
    assert "Duplicate primary key" in answer["first_error"]


def test_a_document_that_is_inserted_under_a_spelling_has_the_key(table: Any, connection: Any) -> None:
    table.delete()
    for name, key in SHOWN.items():
        assert things.insert({"id": key, "name": name}).run(connection)["inserted"] == 1
    assert {one["name"]: one["id"] for one in table.run()} == KEYS


def test_a_patch_cannot_change_a_key_into_another_one(table: Any, connection: Any) -> None:
    answer = things.get("2026-01-31").update({"id": DATE}).run(connection)
    assert answer["errors"] == 1
    assert "cannot be changed" in answer["first_error"]


def test_events_and_changes_of_a_write_have_the_key_as_it_is_shown(connection: Any, served: Any) -> None:
    with r.connect(*served) as other:
        feeds = [
            query.changes().run(other)
            for query in (
                things,
                things.get(DATE),
                things.pluck("id", "n"),
                things.order_by(index="id").limit(50),
            )
        ]
        done = things.get(DATE).update({"n": 1}, return_changes=True).run(connection)
        events = [feed.next(wait=30) for feed in feeds]
    for event in [*done["changes"], *events]:
        assert (event["old_val"]["id"], event["new_val"]["id"]) == (DATE, DATE)


def test_a_key_that_is_shown_as_a_text_finds_nothing_by_its_old_text(table: Any, connection: Any) -> None:
    table.get("2026-01-31").delete()
    assert things.get("2026-01-31").run(connection) is None
    assert things.get("2026-01-31").update({"new": 1}).run(connection)["skipped"] == 1


def test_a_spelling_is_a_key_only_where_a_key_stands(table: Any, connection: Any) -> None:
    things.insert({"id": "a", "other": DATE}).run(connection)
    assert table.get("a").run() == {"id": "a", "other": DATE}
    assert things.get("a")["other"].run(connection) == DATE


def test_a_key_of_more_bytes_than_rethinkdb_has_is_refused_by_its_own_sentence(connection: Any) -> None:
    with pytest.raises(ReqlQueryLogicError, match="Primary key too long"):
        things.get("=" * 200).run(connection)
