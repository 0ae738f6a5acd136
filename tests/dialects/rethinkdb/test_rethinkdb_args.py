"""`r.args`: for every term of the register, spreading `[a, b]` is the same as giving a and b."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import rethinkdb
from rethinkdb.errors import ReqlNonExistenceError, ReqlQueryLogicError, ReqlUserError

import reactdb
from reactdb.dialects.rethinkdb.session import Session
from reactdb.dialects.rethinkdb.terms import TERM_TYPES, TermType

r = rethinkdb.RethinkDB()

# Terms as they are on the wire.
TABLE: Any = [15, ["games"]]
DATABASE: Any = [14, ["test"]]
TIME: Any = [99, ["2026-11-28T10:00:00Z"]]
DOCUMENT = {"id": 1, "room": "a", "tags": [2, ["x", "y"]]}
PAIR: Any = [2, [1, 2]]


def array(*elements: Any) -> list[Any]:
    return [2, list(elements)]


def function(body: Any, *parameters: int) -> list[Any]:
    return [69, [[2, list(parameters)], body]]


FIRST = function([10, [1]], 1)
ADDED = function([24, [[10, [1]], [10, [2]]]], 1, 2)

# Arguments with which a term gives a value. Terms that have none here get only the arguments that all terms get.
VALID: dict[str, list[list[Any]]] = {
    "object": [["a", 1]],
    "literal": [[]],
    "binary": [["x"]],
    "error": [["an error"]],
    "db": [["test"]],
    "db_create": [["other"]],
    "table": [["games"], [DATABASE, "games"]],
    "table_create": [["new"], [DATABASE, "new"]],
    "table_drop": [["games"]],
    "index_create": [[TABLE, "score"], [TABLE, "score", FIRST]],
    "index_drop": [[TABLE, "room"]],
    "index_status": [[TABLE, "room"]],
    "index_wait": [[TABLE, "room"]],
    "index_rename": [[TABLE, "room", "place"]],
    "get": [[TABLE, 1]],
    "get_all": [[TABLE, 1, 2]],
    "between": [[TABLE, 1, 3]],
    "filter": [[TABLE, {"room": "a"}], [TABLE, FIRST]],
    "order_by": [[TABLE, "room", "id"]],
    "asc": [["room"]],
    "desc": [["room"]],
    "map": [[PAIR, FIRST], [PAIR, PAIR, ADDED]],
    "pluck": [[DOCUMENT, "id", "room"], [TABLE, "id"]],
    "without": [[DOCUMENT, "id"], [TABLE, "id"]],
    "merge": [[DOCUMENT, {"a": 1}, {"a": 2}], [TABLE, {"a": 1}]],
    "has_fields": [[DOCUMENT, "id", "a"], [TABLE, "room"]],
    "with_fields": [[TABLE, "id", "room"]],
    "eq_join": [[PAIR, FIRST, TABLE], [array(DOCUMENT), "id", TABLE]],
    "zip": [[array({"left": {"a": 1}, "right": {"b": 2}})]],
    "fold": [[PAIR, 0, ADDED]],
    "reduce": [[PAIR, ADDED]],
    "group": [[TABLE, "room", "id"]],
    "insert": [[TABLE, {"id": 9}]],
    "update": [[TABLE, {"a": 1}]],
    "replace": [[[16, [TABLE, 1]], {"id": 1}]],
    "for_each": [[PAIR, function([56, [TABLE, {"id": [10, [1]]}]], 1)]],
    "funcall": [[ADDED, 1, 2], [5]],
    "branch": [[False, 1, 2], [False, 1, False, 2, 3]],
    "default": [[None, 5]],
    "coerce_to": [[5, "string"]],
    "nth": [[PAIR, 0]],
    "bracket": [[DOCUMENT, "id"]],
    "get_field": [[DOCUMENT, "id"]],
    "mod": [[5, 3]],
    "insert_at": [[PAIR, 0, 5]],
    "splice_at": [[PAIR, 0, PAIR]],
    "match": [["abc", "b"]],
    "split": [["a,b", ",", 1]],
    "json": [["[1]"]],
    "time": [[2026, 11, 28, "Z"], [2026, 11, 28, 10, 0, 0, "Z"]],
    "iso8601": [["2026-11-28T10:00:00Z"]],
    "in_timezone": [[TIME, "+01:00"]],
    "during": [[TIME, TIME, TIME]],
    "range": [[1, 3]],
    "contains": [[PAIR, 1, 2]],
    "distinct": [[PAIR]],
}
# Arguments of every term, as many as it takes. For most terms some of them are wrong, and then the error is the same too.
GENERAL: list[Any] = [1, "a", True, None, PAIR, DOCUMENT, TIME]
# They give another value each time, so only the kind of the response is compared.
CHANGING = {"now", "uuid", "random", "sample"}
SPREAD_NOT_AT_ALL = {"datum", "make_obj", "func", "var", "implicit_var"}
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.insert([{"id": number, "room": "ab"[number % 2]} for number in range(1, 5)])
        games.index_create("room")
        yield db


class Undo(Exception):
    pass


def outcome(db: Any, term: Any) -> Any:
    """The response to a query, without the path to the fault. What the query wrote is undone."""
    try:
        with db.transaction():
            session = Session(db)
            try:
                frames = session.receive(1, json.dumps([1, term, {}]).encode())
            finally:
                session.close()
            raise Undo
    except Undo:
        pass
    found = json.loads(UUID.sub("<uuid>", frames[0].body.decode()))
    # A wrong number of arguments is found when the query is parsed, unless some of them are spread.
    if found["t"] in (17, 18):
        found.update(t=18, e=None)
    return {name: found[name] for name in ("t", "r", "n") if name in found}


def is_datum(argument: Any) -> bool:
    return argument not in (TABLE, DATABASE) and not (
        isinstance(argument, list) and argument[0] in (16, 56, 69)
    )


def spread(arguments: list[Any]) -> Iterator[list[Any]]:
    """The arguments with some neighbours in one `args`, in several ways."""
    for start in range(len(arguments) + 1):
        for stop in {start, start + 1, len(arguments)}:
            inner = arguments[start:stop]
            if stop >= start and all(map(is_datum, inner)):
                yield [*arguments[:start], [154, [array(*inner)]], *arguments[stop:]]


def arguments_of(kind: TermType) -> Iterator[list[Any]]:
    yield from VALID.get(kind.name, [])
    most = kind.at_least + 2 if kind.at_most is None else kind.at_most
    for count in range(kind.at_least, most + 1):
        for value in GENERAL:
            yield [value] * count
    if kind.at_most is not None:
        yield [1] * (kind.at_most + 1)


@pytest.mark.parametrize(
    "kind", [kind for kind in TERM_TYPES.values() if kind.name not in SPREAD_NOT_AT_ALL], ids=lambda kind: kind.name
)  # fmt: skip
def test_spreading_arguments_is_the_same_as_giving_them(database: Any, kind: TermType) -> None:
    for arguments in arguments_of(kind):
        given = outcome(database, [kind.number, arguments])
        for spread_arguments in spread(arguments):
            found = outcome(database, [kind.number, spread_arguments])
            if kind.name in CHANGING and given["t"] != 18:
                given, found = {"t": given["t"]}, {"t": found["t"]}
            assert given == found, (arguments, spread_arguments)


@pytest.mark.parametrize("name", sorted(VALID))
def test_the_valid_arguments_of_a_term_are_valid(database: Any, name: str) -> None:
    """Otherwise the law above would only compare errors."""
    kind = next(kind for kind in TERM_TYPES.values() if kind.name == name)

    found = [outcome(database, [kind.number, arguments]) for arguments in VALID[name]]

    wanted = {
        "error": ["an error"],
        "literal": ["Stray literal keyword found: literal is only legal inside of the object passed to merge "
                    "or update and cannot nest inside other literals."],
    }  # fmt: skip
    if name in wanted:
        assert wanted[name] == found[0]["r"]
    elif name in ("db", "asc", "desc"):
        assert ["Query result must be of type DATUM, GROUPED_DATA, or STREAM"] == [found[0]["r"][0][:59]]
    else:
        assert {1, 2, 3} >= {one["t"] for one in found}, found


@pytest.mark.parametrize(
    ("expected", "query"),
    [
        (False, r.and_(r.args([True, False]))),
        (1, r.or_(r.args([False, 1]))),
        (True, r.and_(r.args([]))),
        ([{"a": 2}], r.expr([{"a": 1}, {"a": 2}]).filter(lambda x: r.and_(r.args([x["a"] > 0, x["a"] > 1])))),
        ([1, 5], r.expr([{"a": 1}, {}]).map(lambda x: r.branch(r.args([x.has_fields("a"), 1, 5])))),
        (2, r.branch(r.args([False, 1, 2]))),
        (5, r.expr(None).default(r.args([5]))),
        ([1, 2, 3], r.args([r.args([1, 2]), 3])),
        (3, r.add(r.args(r.args([[1, 2]])))),
        ([1, 2, 3], r.expr([r.args([1, 2]), 3])),
        # In an option, or as the whole query, it is the array.
        ([1, 2], r.args([1, 2])),
        ({"a": [1, 2]}, r.expr({"a": r.args([1, 2])})),
    ],
)  # fmt: skip
def test_args_of_a_term_that_evaluates_its_arguments_as_it_needs_them(
    run: Any, expected: Any, query: Any
) -> None:
    assert expected == run(query)


@pytest.mark.parametrize(
    ("error", "message", "query"),
    [
        (ReqlQueryLogicError, "Expected 3 or more arguments but found 2", r.branch(r.args([False, 1]))),
        (ReqlQueryLogicError, "even number of arguments", r.branch(r.args([False, 1, False, 2]))),
        (ReqlQueryLogicError, "Expected 2 arguments but found 1", r.expr(1).default(r.args([]))),
        (ReqlQueryLogicError, "Expected type ARRAY but found NUMBER", r.and_(r.args(5))),
        (ReqlNonExistenceError, "Expected type ARRAY but found NULL", r.or_(r.args(None))),
        (ReqlQueryLogicError, "Expected type DATUM but found TABLE", r.and_(r.args(r.table("games")))),
        # All that is spread is evaluated first, also what a lazy term would not need.
        (ReqlUserError, "evaluated", r.branch(True, 1, r.args([r.error("evaluated")]))),
        (ReqlQueryLogicError, "Expected BOOL or NUMBER but found ARRAY",
            r.table("games").changes(squash=r.args([True]))),
    ],
)  # fmt: skip
def test_args_that_cannot_be_spread_are_refused(run: Any, error: Any, message: str, query: Any) -> None:
    with pytest.raises(error, match=message):
        run(query)
