"""`r.args`: for every term of the register, spreading `[a, b]` is the same as giving a and b."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import rethinkdb
from rethinkdb.errors import ReqlNonExistenceError, ReqlQueryLogicError, ReqlUserError

from reactdb.dialects.rethinkdb.terms import TERM_TYPES, TermType
from tests.support.rethinkdb_terms import (
    DATABASE,
    DOCUMENT,
    PAIR,
    TABLE,
    TIME,
    VALID,
    array,
    games_database,
    outcome,
)
from tests.support.scaling import part_of

r = rethinkdb.RethinkDB()

# Arguments of every term, as many as it takes. For most terms some of them are wrong, and then the error is the same too.
GENERAL: list[Any] = [1, "a", True, None, PAIR, DOCUMENT, TIME]
# They give another value each time, so only the kind of the response is compared.
CHANGING = {"now", "uuid", "random", "sample"}
SPREAD_NOT_AT_ALL = {"datum", "make_obj", "func", "var", "implicit_var"}


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with games_database() as db:
        yield db


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


@pytest.mark.examples
@pytest.mark.parametrize(
    "kind", [kind for kind in TERM_TYPES.values() if kind.name not in SPREAD_NOT_AT_ALL], ids=lambda kind: kind.name
)  # fmt: skip
def test_spreading_arguments_is_the_same_as_giving_them(database: Any, kind: TermType) -> None:
    for arguments in part_of(arguments_of(kind)):
        given = outcome(database, [kind.number, arguments])
        for spread_arguments in spread(arguments):
            found = outcome(database, [kind.number, spread_arguments])
            if kind.name in CHANGING and given["t"] != 18:
                given, found = {"t": given["t"]}, {"t": found["t"]}
            for one in (given, found):
                # A wrong number of arguments is found at run time if some are spread, and then has a kind.
                one.pop("e", None)
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
        (ReqlQueryLogicError, "Expected type DATUM but found GROUPED_DATA",
            r.and_(r.args(r.expr([{"a": 1}]).group("a")))),
        # All that is spread is evaluated first, also what a lazy term would not need.
        (ReqlUserError, "evaluated", r.branch(True, 1, r.args([r.error("evaluated")]))),
        (ReqlQueryLogicError, "Expected BOOL or NUMBER but found ARRAY",
            r.table("games").changes(squash=r.args([True]))),
    ],
)  # fmt: skip
def test_args_that_cannot_be_spread_are_refused(run: Any, error: Any, message: str, query: Any) -> None:
    with pytest.raises(error, match=message):
        run(query)
