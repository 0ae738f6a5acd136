"""ReQL terms that a small application needs, asked with the official driver; and what the wire makes of values."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import rethinkdb
from rethinkdb.errors import (
    ReqlNonExistenceError,
    ReqlOpFailedError,
    ReqlQueryLogicError,
    ReqlResourceLimitError,
    ReqlServerCompileError,
)

import reactdb
from reactdb.testing import rethinkdb_connection

r = rethinkdb.RethinkDB()
games = r.table("games")


@pytest.fixture
def memory() -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        db.table_create("games")
        yield db


@pytest.fixture
def run(memory: Any) -> Iterator[Any]:
    with rethinkdb_connection(memory) as connection:

        def run(query: Any, **options: Any) -> Any:
            found = query.run(connection, **options)
            return list(found) if hasattr(found, "next") else found

        run(games.insert([{"id": 1, "room": "a", "score": 5}, {"id": 2, "room": "b", "score": 7}]))
        run(games.insert({"id": 3, "room": "a", "score": 9, "tags": ["x", "y"]}))
        yield run


@pytest.mark.parametrize(
    ("expected", "query"),
    [
        (21, games.sum("score")),
        (7, games.avg("score")),
        (3, games.count()),
        (2, games.count(r.row["room"] == "a")),
        (9, games.max("score")["score"]),
        (5, games.min("score")["score"]),
        (21, games["score"].reduce(lambda one, other: one + other)),
        ({"a": 2, "b": 1}, games.group("room").count()),
        ([{"group": "a", "reduction": 14}, {"group": "b", "reduction": 7}], games.group("room").sum("score").ungroup()),
        (["a", "b"], games["room"].distinct()),
        ([1, 2, 3], games.order_by("score")["id"]),
        ([3, 2], games.order_by(r.desc("score")).limit(2)["id"]),
        ([3], games.filter(r.row["tags"].contains("x"))["id"]),
        ([{"id": 1}], games.filter({"score": 5}).pluck("id")),
        ([6, 8, 10], games.order_by("id").map(r.row["score"] + 1)),
        (["x", "y"], games.concat_map(lambda game: game["tags"].default([]))),
        ([[0, 5], [5, 12], [12, 21]], games.order_by("id").fold(
            0, lambda total, game: total + game["score"], emit=lambda before, game, after: [[before, after]]
        )),
        ({"id": 1, "room": "a", "score": 5, "best": True}, games.get(1).merge({"best": True})),
        ("high", games.get(3).do(lambda game: r.branch(game["score"] > 8, "high", "low"))),
        (None, games.get(99)),
        (0, games.get(99)["score"].default(0)),
        ([3, 4], r.range(3, 5)),
        ([[1, "a"], [2, "b"]], r.map([1, 2], ["a", "b"], lambda one, other: [one, other])),
        (["b", "c"], r.expr(["a", "b", "c"])[1:]),
        ("hello", r.expr("HELLO").downcase()),
        (["a", "b"], r.expr("a,b").split(",")),
        (True, r.expr("reactdb").match("^re").ne(None)),
        (2.5, r.expr(5) / 2),
        ({"a": {"b": 1, "c": 2}}, r.expr({"a": {"b": 1}}).merge({"a": {"c": 2}})),
        ([1, 2, 3], r.args([1, 2, 3])),
        ("PTYPE<TIME>", r.now().type_of()),
        (2026, r.iso8601("2026-11-21T10:00:00+00:00").year()),
        (0, r.epoch_time(0).to_epoch_time()),
        ("TABLE", games.type_of()),
        ("games", games.info()["name"]),
        (False, games.is_empty()),
        ([{"left": {"id": 1, "k": 3}, "right": {"id": 3}}], r.expr([{"id": 1, "k": 3}]).eq_join("k", games)
            .map(lambda pair: pair.merge({"right": r.literal(pair["right"].pluck("id"))}))),
        (1, r.monday),
    ],
)  # fmt: skip
def test_a_term_gives_what_rethinkdb_gives(run: Any, expected: Any, query: Any) -> None:
    assert expected == run(query)


def test_times_binaries_and_uuids_survive_the_wire(run: Any) -> None:
    moment = datetime.datetime(2026, 11, 21, 10, 0, 0, 123000, tzinfo=r.make_timezone("+01:00"))
    run(games.insert({"id": 10, "at": moment, "data": r.binary(b"\x00\xff")}))

    found = run(games.get(10))

    assert moment == found["at"]
    assert b"\x00\xff" == found["data"]
    assert uuid.UUID(run(r.uuid()))
    assert run(r.uuid("games")) == run(r.uuid("games"))


def test_a_native_document_of_other_types_can_be_read(memory: Any, run: Any) -> None:
    """What RethinkDB has no type for is shown as what comes nearest."""
    from decimal import Decimal

    name = uuid.uuid4()
    memory.table("games").insert(
        {"id": 20, "price": Decimal("1.5"), "name": name, "day": datetime.date(2026, 1, 2)}
    )

    assert {"id": 20, "price": 1.5, "name": str(name), "day": "2026-01-02"} == run(games.get(20))


def test_an_index_serves_drivers_and_native_code(memory: Any, run: Any) -> None:
    run(games.index_create("score"))
    run(games.index_create("both", [r.row["room"], r.row["score"]]))
    run(games.index_wait())

    assert [2, 3] == run(games.between(6, 20, index="score").order_by(index="score")["id"])
    assert [1] == run(games.get_all(["a", 5], index="both")["id"])
    assert ["both", "score"] == memory.table("games").index_list()
    assert 3 == memory.table("games").order_by(index="score").run()[-1]["id"]


def test_an_index_is_made_again_from_its_binary(run: Any) -> None:
    run(games.index_create("double", lambda game: game["score"] * 2))
    function = run(games.index_status("double"))[0]["function"]
    run(games.index_drop("double"))

    run(games.index_create("double", r.binary(function)))

    assert [2] == run(games.get_all(14, index="double")["id"])


def test_an_index_can_be_renamed(run: Any) -> None:
    run(games.index_create("score"))
    run(games.index_rename("score", "points"))

    assert ["points"] == run(games.index_list())
    assert [2] == run(games.get_all(7, index="points")["id"])


def test_a_write_counts_what_fails_and_writes_the_rest(run: Any) -> None:
    result = run(games.insert([{"id": 1}, {"id": 50}, {"id": None}]))

    assert (1, 2) == (result["inserted"], result["errors"])
    assert {"id": 50} == run(games.get(50))


def test_a_statement_is_one_commit(memory: Any, run: Any) -> None:
    before = memory.seq
    run(games.update({"round": 1}))

    changes = list(memory.log(since=before))
    assert 3 == len(changes)
    assert 1 == len({change.commit for change in changes})


@pytest.mark.parametrize(
    ("error", "message", "query"),
    [
        (ReqlNonExistenceError, "No attribute `nope`", games.get(1)["nope"]),
        (ReqlOpFailedError, "Table `test.nope` does not exist", r.table("nope")),
        (ReqlQueryLogicError, "Cannot divide by zero", r.expr(1) / 0),
        (ReqlQueryLogicError, "JavaScript", r.js("1")),
        (ReqlServerCompileError, "`circle`", r.circle([1, 1], 5)),
        (ReqlQueryLogicError, "infinite stream", r.range().count()),
        (ReqlQueryLogicError, "must be of type DATUM", r.db("test")),
    ],
)
def test_an_error_has_rethinkdbs_kind_and_says_what_is_wrong(
    run: Any, error: type[Exception], message: str, query: Any
) -> None:
    with pytest.raises(error, match=message):
        run(query)


def test_an_error_points_at_the_term(run: Any) -> None:
    with pytest.raises(ReqlQueryLogicError) as caught:
        run(r.expr([1, "a"]).map(lambda one: one + 1))

    assert [1, 1] == list(caught.value.frames)


def test_array_limit_bounds_arrays(run: Any) -> None:
    with pytest.raises(ReqlResourceLimitError, match="Array over size limit `2`"):
        run(games.coerce_to("array"), array_limit=2)


def test_a_write_hook_sees_every_write_of_a_driver(run: Any) -> None:
    run(games.set_write_hook(lambda context, old, new: new.merge({"checked": True})))

    run(games.insert({"id": 30}))

    assert {"id": 30, "checked": True} == run(games.get(30))


def test_a_renamed_table_keeps_its_documents_its_feeds_and_its_hook(memory: Any, run: Any) -> None:
    run(games.set_write_hook(lambda context, old, new: new.merge({"checked": True})))
    heard: list[Any] = []
    memory.table("games").changes().subscribe(heard.append)

    run(games.config().update({"name": "matches"}))
    run(r.table("matches").insert({"id": 40}))

    assert ["matches"] == run(r.table_list())
    assert 4 == memory.table("matches").count().run()
    assert [{"id": 40, "checked": True}] == [event["new_val"] for event in heard]
    with pytest.raises(ReqlQueryLogicError, match="can change, not: primary_key"):
        run(r.table("matches").config().update({"primary_key": "x"}))
