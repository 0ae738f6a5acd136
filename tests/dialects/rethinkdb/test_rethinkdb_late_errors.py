"""An error in one row of a stream: the rows before it are delivered in earlier batches, and then the error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rethinkdb
from rethinkdb.errors import ReqlError, ReqlNonExistenceError, ReqlQueryLogicError

from reactdb.testing import rethinkdb_connection, rethinkdb_server

r = rethinkdb.RethinkDB()
games = r.table("games")
others = r.table("others")

BAD = 45
LAST = 60
MANY = 8_000


@pytest.fixture
def memory(memory: Any) -> Any:
    """The tables `games`, where one document lacks the field `a`, and `others`."""
    memory.table("games").insert([{"id": n} if n == BAD else {"id": n, "a": n} for n in range(LAST)])
    memory.table("games").index_create("place", lambda game: game["id"])
    memory.table_create("others").insert([{"id": n} for n in range(LAST)])
    return memory


@pytest.fixture(params=["socket", "session"])
def connection(request: pytest.FixtureRequest, memory: Any) -> Iterator[Any]:
    if request.param == "session":
        with rethinkdb_connection(memory) as connection:
            yield connection
        return
    with rethinkdb_server(memory) as (host, port), r.connect(host, port) as connection:
        yield connection


def read(cursor: Any) -> tuple[list[Any], ReqlError | None]:
    """The rows of a cursor until its end or an error, and the error."""
    rows: list[Any] = []
    try:
        while True:
            try:
                rows.append(next(cursor))
            except StopIteration:
                return rows, None
    except ReqlError as error:
        return rows, error


def a_of(game: Any) -> Any:
    return game["a"] + 0


def sometimes_a_number(game: Any) -> Any:
    """The document, but for one a number, of which the terms on objects make an error."""
    return r.branch(game["id"] == BAD, 5, game)


STREAMS: dict[str, tuple[int, Callable[[], Any]]] = {
    "map": (45, lambda: games.map(a_of)),
    "a map that is not deterministic": (45, lambda: games.map(lambda game: game["a"] + others.get(1)["id"])),
    "map of two": (45, lambda: r.map(games, others, lambda game, _: game["a"])),
    "merge": (45, lambda: games.merge(lambda game: {"b": game["a"]})),
    "concat_map": (45, lambda: games.concat_map(lambda game: [game["a"]])),
    "filter": (45, lambda: games.filter(lambda game: game["a"] >= 0, default=r.error())),
    "pluck": (45, lambda: games.map(sometimes_a_number).pluck("id")),
    "without": (45, lambda: games.map(sometimes_a_number).without("a")),
    "with_fields": (45, lambda: games.map(sometimes_a_number).with_fields("id")),
    "has_fields": (45, lambda: games.map(sometimes_a_number).has_fields("id")),
    "a field": (45, lambda: games.map(sometimes_a_number)["id"]),
    "eq_join": (45, lambda: games.map(a_of).eq_join(lambda a: a, others)),
    "eq_join by what fails": (
        45, lambda: games.eq_join(lambda game: r.branch(game["id"] == BAD, r.error("x"), game["id"]), others)
    ),
    "inner_join": (45, lambda: games.inner_join([1], lambda game, _: game["a"] >= 0)),
    "outer_join": (45, lambda: games.outer_join([1], lambda game, _: game["a"] >= 0)),
    "zip": (45, lambda: games.map(lambda game: {"left": {"a": game["a"]}, "right": {}}).zip()),
    "union": (105, lambda: others.union(games.map(a_of))),
    "union with an array": (46, lambda: r.expr([1]).union(games.map(a_of))),
    "union in turn": (105, lambda: others.union(games.map(a_of), interleave=False)),
    "order_by an index": (45, lambda: games.order_by(index="place").map(a_of)),
    "order_by an index downwards": (14, lambda: games.order_by(index=r.desc("place")).map(a_of)),
    "between": (35, lambda: games.between(10, 55).map(a_of)),
    "between of an index": (35, lambda: games.between(10, 55, index="place").map(a_of)),
    "get_all": (45, lambda: games.get_all(*range(LAST), index="place").map(a_of)),
    "offsets_of": (45, lambda: games.offsets_of(lambda game: r.branch(game["id"] == BAD, r.error("x"), True))),
    "fold": (45, lambda: games.fold(0, lambda total, _: total, emit=lambda _, game, __: [game["a"]])),
    "difference": (44, lambda: games.map(a_of).difference([3])),
    "limit": (45, lambda: games.map(a_of).limit(50)),
    "skip": (42, lambda: games.map(a_of).skip(3)),
    "slice": (42, lambda: games.map(a_of)[3:50]),
    "default": (45, lambda: games.map(a_of).default([])),
    "branch": (45, lambda: r.branch(True, games.map(a_of), 1)),
    "range": (45, lambda: r.range(LAST).map(lambda n: r.branch(n == BAD, r.error("x"), n))),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_the_rows_before_an_error_are_delivered(connection: Any, name: str) -> None:
    count, query = STREAMS[name]

    rows, error = read(query().run(connection, max_batch_rows=10))

    assert count == len(rows)
    assert error is not None


def test_the_rows_are_delivered_in_batches_of_the_usual_size_too(memory: Any) -> None:
    memory.table_create("many").insert(
        [{"id": n} if n == MANY else {"id": n, "a": n} for n in range(MANY + 9)]
    )
    with rethinkdb_server(memory) as (host, port), r.connect(host, port) as connection:
        for options in ({}, {"max_batch_rows": 10}):
            rows, error = read(r.table("many").map(a_of).run(connection, **options))

            assert list(range(MANY)) == rows
            assert isinstance(error, ReqlNonExistenceError)
            assert "No attribute `a` in object" in error.message
            # The connection is as good as before.
            assert MANY + 9 == r.table("many").count().run(connection)


def test_an_error_in_the_first_batch_is_raised_by_run(connection: Any) -> None:
    """As on a real server, where a batch with an error in it is an error."""
    with pytest.raises(ReqlNonExistenceError, match="No attribute `a`"):
        games.map(a_of).run(connection)


def test_rows_that_are_not_asked_for_raise_nothing(connection: Any) -> None:
    assert list(range(BAD)) == list(games.map(a_of).limit(BAD).run(connection))
    assert 0 == games.map(a_of).nth(0).run(connection)
    assert games.map(a_of).contains(3).run(connection)


def test_an_array_is_all_or_nothing(connection: Any) -> None:
    for query in (
        games.order_by("id").map(a_of),
        games.map(a_of).coerce_to("array"),
        games.map(a_of).distinct(),
    ):
        with pytest.raises(ReqlNonExistenceError, match="No attribute `a`"):
            query.run(connection, max_batch_rows=10)


def test_a_write_of_a_stream_with_an_error_writes_nothing(connection: Any) -> None:
    with pytest.raises(ReqlQueryLogicError, match="Cannot perform pluck"):
        others.insert(games.map(sometimes_a_number).pluck("id").map(lambda one: {"id": one["id"] + 100})).run(
            connection
        )

    assert LAST == others.count().run(connection)
