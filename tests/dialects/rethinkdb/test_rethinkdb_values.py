"""Values that RethinkDB cannot say, over a socket: shown otherwise, kept when they come back, and never the end of a feed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from math import inf
from typing import Any
from uuid import UUID

import pytest
import rethinkdb

from reactdb.testing import rethinkdb_server

r = rethinkdb.RethinkDB()
LAST = datetime.max.replace(tzinfo=UTC)


@pytest.fixture
def table(db: Any) -> Any:
    return db.table_create("things")


@pytest.fixture
def connection(db: Any, table: Any) -> Iterator[Any]:
    with rethinkdb_server(db) as address, r.connect(*address) as connection:
        yield connection


things = r.table("things")


@pytest.mark.parametrize(
    "moment",
    [
        LAST,
        datetime.max.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(timedelta(minutes=1, seconds=59))),
        datetime.min.replace(tzinfo=timezone(-timedelta(hours=12, seconds=1))),
        datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=23, minutes=59, seconds=59))),
    ],
)
def test_any_moment_is_in_a_year_that_a_driver_has(table: Any, connection: Any, moment: datetime) -> None:
    feed = things.changes().run(connection)
    table.insert([{"id": 1, "at": moment}, {"id": 2}])
    assert [feed.next(wait=10)["new_val"]["id"] for _ in range(2)] == [1, 2]
    shown = things.get(1)["at"].run(connection)
    assert abs(shown - moment) < timedelta(milliseconds=2)


@pytest.mark.parametrize("said", ["TIME", "BINARY", "GROUPED_DATA", "FOO", 5, None, {"a": 1}])
def test_an_object_that_only_looks_like_a_value_of_reql_is_an_object(
    table: Any, connection: Any, said: Any
) -> None:
    feed = things.changes().run(connection)
    table.insert([{"id": 1, "v": {"$reql_type$": said}}, {"id": 2, "$reql_type$": said}])
    wanted = [{"id": 1, "v": {"=$reql_type$": said}}, {"id": 2, "=$reql_type$": said}]
    assert list(things.order_by(index="id").run(connection)) == wanted
    assert [feed.next(wait=10)["new_val"] for _ in range(2)] == wanted


def test_such_an_object_is_written_as_it_is_shown(table: Any, connection: Any) -> None:
    shown = {"id": 1, "v": [{"=$reql_type$": 1, "==$reql_type$": 2, "=other": 3}]}
    things.insert(shown).run(connection)
    assert table.get(1).run() == {"id": 1, "v": [{"$reql_type$": 1, "=$reql_type$": 2, "=other": 3}]}
    assert things.get(1).run(connection) == shown
    things.insert({"id": 2, "=$reql_type$": r.expr(1).add(1)}).run(connection)
    assert table.get(2).run() == {"id": 2, "$reql_type$": 2}


def test_grouped_data_and_geometry_are_what_they_were(table: Any, connection: Any) -> None:
    point = {"$reql_type$": "GEOMETRY", "type": "Point", "coordinates": [1, 2]}
    table.insert([{"id": 1, "k": {"$reql_type$": "x"}, "p": point}, {"id": 2, "k": 5}])
    assert things.get(1)["p"].run(connection) == point
    grouped = things.group("k").count().run(connection)
    assert len(grouped) == 2
    assert grouped[5] == 1


UNSAYABLE = {
    "id": 1,
    "day": date(2020, 1, 1),
    "uuid": UUID(int=5),
    "exact": Decimal("1.10"),
    "large": 2**70,
    "whole": 2.0,
    "zero": -0.0,
    "endless": inf,
    "wait": timedelta(seconds=1),
    "at": LAST,
    "many": [date.max, {"at": datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC)}],
}


@pytest.mark.parametrize("way", ["insert", "insert and merge", "update", "replace"])
def test_who_writes_a_document_back_with_one_more_field_changes_nothing_else(
    table: Any, connection: Any, way: str
) -> None:
    table.insert(UNSAYABLE)
    shown = {**things.get(1).run(connection), "n": 1}
    query = {
        "insert": lambda: things.insert(shown, conflict="replace"),
        "insert and merge": lambda: things.insert(shown, conflict="update"),
        "update": lambda: things.get(1).update(shown),
        "replace": lambda: things.get(1).replace(shown),
    }[way]()
    assert query.run(connection)["replaced"] == 1
    assert table.get(1).run() == {**UNSAYABLE, "n": 1}
    assert repr(table.get(1)["zero"].run()) == "-0.0"


def test_what_a_query_computes_of_such_a_value_is_what_it_computed(table: Any, connection: Any) -> None:
    table.insert(UNSAYABLE)
    things.get(1).update({"uuid": r.row["uuid"].coerce_to("string").split('"')[1]}).run(connection)
    things.get(1).update(lambda one: {"exact": one["exact"].add(1)}).run(connection)
    found = table.get(1).run()
    assert (found["uuid"], found["exact"]) == (str(UUID(int=5)), Decimal("2.10"))
