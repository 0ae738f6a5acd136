"""Malformed values for every term of the register: the reply is ReQL's sentence, in no case Python's words."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import rethinkdb
from rethinkdb.errors import ReqlQueryLogicError

from reactdb.dialects.rethinkdb.session import RUN_OPTIONS
from reactdb.dialects.rethinkdb.terms import TERM_TYPES, TermType
from reactdb.testing import rethinkdb_server
from tests.support.rethinkdb_terms import (
    DATABASE,
    FIRST,
    PAIR,
    TABLE,
    TIME,
    VALID,
    array,
    function,
    games_database,
    outcome,
)
from tests.support.scaling import part_of

r = rethinkdb.RethinkDB()

# What Python's own exceptions say, and how Python writes its types and values.
PYTHON = re.compile(
    r"Python|[A-Z]\w+(?<!Reql)(Error|Exception|Warning)\b|Traceback|<class|<function|object at 0x|NoneType|\bNone\b|\bdict\b|"
    r"isoformat|must be in \d|out of range for|date value|year -?\d+ is out|literal for|could not convert|cannot convert|"
    r"has no attribute|has no len|'\w+' object|unsupported operand|not supported between|codec|base64-encoded|padding|"
    r"line 1 column|\(char \d|recursion|math domain|timedelta|datetime|positional|keyword argument|unexpected|int string|"
    r"integer string|bytes-like|not subscriptable|not iterable|not hashable|unhashable|can't decode|surrogates not|"
    r"Expecting |Extra data|Unterminated|Invalid control|list index|string index|tuple|not enough values|too many values"
)

BINARY: Any = {"$reql_type$": "BINARY", "data": "/w=="}
STRINGS = [
    "", " ", "\0", "é", "a\u0000b", "-", "+", "Z", "-00:00", "+1", "+25:00", "+00:61", "+00:00:00", "nan", "inf", "-inf",
    "1e999", "0x",
    "0x1p99999", "1_000", "\u0661", "9" * 5_000, "(", "[", "a{2,1}", "*", "(?P<", "\\", "(?P<n>a)(?P=n)", "\\8", "{",
    "{'a': 1}", '{"a"', '{"a":', '{"a":1', '{"a":1,', "[1", "[1,", "[1,]", '"', '"\\x"', '"\\u12"', '"\\ud800"', '"\n"',
    "1 2", "NaN", "[" * 3_000, '{"$reql_type$":"TIME","epoch_time":1e300}', '{"$reql_type$":"BINARY","data":"x"}',
    '{"$reql_type$":"TIME","epoch_time":1,"timezone":"x"}', '{"a":1,"a":2}',
    "2013", "2013-1", "2013-13", "201301", "2013-02-30", "2013-366", "2013-W54", "2013-W01-8", "2013-01-01T", "2013-01-01T1",
    "2013-01-01T25", "2013-01-01T10:61Z", "2013-01-01T10:00:61Z", "2013-01-01T10:00:00.aZ", "2013-01-01T10:00:00+24:00",
    "2013-01-01T10:00:00+25:00", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+23:00", "1399-12-31T00:00:00Z",
    "9999-12-31T23:59:59-23:00", "2013-01-01 10:00:00Z", "2013-01-01T10:00:00Z ", "\u0661\u0669\u0669\u0669-01-01T00:00:00Z",
    "number", "string", "object", "array", "binary", "bool", "time", "hard", "x" * 200,
]  # fmt: skip
NUMBERS = [
    0, -1, 1.5, 1023, 1399, 10_000, 13, 32, 61, 2**31, -(2**31), 2**53, 2**63, -(2**63), 10**30, 1e300, -1e300, 5e-324,
]  # fmt: skip
OTHERS: list[Any] = [
    None, True, {}, {"a": None}, array(), array(None), array(array(1, 2, 3)), PAIR, BINARY, TIME, TABLE, DATABASE, FIRST,
    function(1), function([10, [1]], 1, 2), [180], [181], [137, []], [73, ["a"]], [144, [TABLE, "room"]], [152, [TABLE]],
    [173, [3]], [159, [1, 2]], [24, [TIME, 1e300]], [101, [0]], [155, ["x"]], [12, ["a message"]], [12, []], [81, [TABLE, 2]],
]  # fmt: skip
BAD: list[Any] = [*STRINGS, *NUMBERS, *OTHERS]


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with games_database() as db:
        yield db


def arguments_of(kind: TermType) -> Iterator[list[Any]]:
    """Valid arguments with each in turn replaced by a malformed one; and only malformed ones."""
    for valid in VALID.get(kind.name, []):
        for place in range(len(valid)):
            for bad in BAD:
                yield [*valid[:place], bad, *valid[place + 1 :]]
    most = kind.at_least + 1 if kind.at_most is None else kind.at_most
    if kind.at_least == 0:
        yield []
    for count in range(max(kind.at_least, 1), most + 1):
        for bad in BAD:
            yield [bad] * count


SOME_BAD: list[Any] = ["", "hard", "nan", *NUMBERS[::4], *OTHERS]


def options_of(kind: TermType) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    for name in sorted(kind.options - {"*"}):
        arguments = VALID.get(kind.name, [[TABLE, 1, 2, 3][: kind.at_least]])[0]
        for bad in SOME_BAD:
            yield arguments, {name: bad}


def replies(database: Any, kind: TermType) -> Iterator[tuple[Any, Any]]:
    """Queries with their replies."""
    for arguments in part_of(arguments_of(kind)):
        term = [kind.number, arguments]
        yield term, outcome(database, term)
    for arguments, options in part_of(options_of(kind)):
        term = [kind.number, arguments, options]
        yield term, outcome(database, term)


def faults(queries: Iterator[tuple[Any, Any]]) -> set[tuple[str, str]]:
    """The queries that are answered with an internal error, or with Python's words."""
    found = set()
    for query, reply in queries:
        if reply["t"] not in (16, 17, 18):
            continue
        message = reply["r"][0]
        # A message may quote what was given.
        said = re.sub(r"(`[^`]*`|\"[^\"]*\"|:\n.*)", "", message, flags=re.DOTALL)
        if reply.get("e") == 1_000_000 or PYTHON.search(said):
            found.add((json.dumps(query)[:160], message[:200]))
    return found


@pytest.mark.examples
@pytest.mark.parametrize(
    "kind",
    [kind for kind in TERM_TYPES.values() if kind.name not in {"var", "func", "implicit_var"}],
    ids=lambda kind: kind.name,
)
def test_a_malformed_value_gives_a_sentence_of_reql(database: Any, kind: TermType) -> None:
    assert set() == faults(replies(database, kind))


def test_a_malformed_option_of_run_gives_a_sentence_of_reql(database: Any) -> None:
    def queries() -> Iterator[tuple[Any, Any]]:
        for name in sorted(RUN_OPTIONS - {"noreply"}):
            for bad in BAD:
                yield {name: bad}, outcome(database, 1, {name: bad})

    assert set() == faults(queries())


def test_a_malformed_pseudotype_gives_a_sentence_of_reql(database: Any) -> None:
    def queries() -> Iterator[tuple[Any, Any]]:
        for kind in ("TIME", "BINARY", "GEOMETRY", "GROUPED_DATA", "what"):
            for bad in [*BAD, 1]:
                for fields in (
                    {"epoch_time": bad, "timezone": "Z"},
                    {"epoch_time": 0, "timezone": bad},
                    {"data": bad},
                ):
                    value = {"$reql_type$": kind, **fields}
                    yield value, outcome(database, value)

    assert set() == faults(queries())


def test_the_words_of_python_are_recognised() -> None:
    """Otherwise the tests above could not fail."""
    number: Any = 1
    for wrong in (
        lambda: int("x"), lambda: float("x"), lambda: datetime.fromisoformat("x"), lambda: datetime(2013, 13, 1),
        lambda: json.loads("{"), lambda: json.loads("[1"), lambda: timedelta(seconds=1e300), lambda: b64decode("x"),
        lambda: number.x, lambda: number + "", lambda: number < "", lambda: number(), lambda: b"\xff".decode(),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError, AttributeError, OverflowError)) as caught:
            wrong()
        assert PYTHON.search(str(caught.value)), caught.value


@pytest.mark.parametrize(
    ("message", "query"),
    [
        ("Error in time logic: Year is out of valid range: 1400..10000.", r.time(1023, 1, 1, "Z")),
        ("Error in time logic: Year is out of valid range: 1400..10000.", r.iso8601("1399-12-31T23:59:59Z")),
        ("Error in time logic: Year is out of valid range: 1400..10000.", r.epoch_time(253_440_000_000)),
        ("Error in time logic: Year is out of valid range: 1400..10000.", r.time(1400, 1, 1, "Z") - 1),
        ("Error in time logic: Month number is out of range 1..12.", r.time(2013, 13, 1, "Z")),
        ("Invalid date string `yesterday` (got `y` but expected a digit).", r.iso8601("yesterday")),
        ("Truncated date string `2013-1`.", r.iso8601("2013-1")),
        ('Failed to parse "{" as JSON: Missing a name for object member.', r.json("{")),
        ("Expected type FUNCTION but found DATUM:\n5", r.expr([1]).fold(0, lambda one, other: one, emit=5)),
    ],
)  # fmt: skip
def test_the_driver_raises_the_sentence(database: Any, message: str, query: Any) -> None:
    with (
        rethinkdb_server(database) as (host, port),
        r.connect(host, port) as connection,
        pytest.raises(ReqlQueryLogicError) as caught,
    ):
        query.run(connection)

    assert message == caught.value.message
