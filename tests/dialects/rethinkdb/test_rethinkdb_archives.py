"""Index functions and write hooks as RethinkDB's own servers store them, in the archives that `rethinkdb-dump` makes of them.

The bytes are built here as in its published sources.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
import rethinkdb
from rethinkdb.ast import ReQLEncoder, func_wrap
from rethinkdb.errors import ReqlQueryLogicError

from reactdb.expression import to_data
from reactdb.session import session_of

r = rethinkdb.RethinkDB()
games = r.table("games")

EMPTY_SCOPE = b"\0" + struct.pack("<I", 0)


def stored_term(term: Any) -> list[Any]:
    """A term of the driver's as a server keeps it: each with a place for backtraces, here 7."""
    if isinstance(term, dict):
        return [3, {name: stored_term(value) for name, value in term.items()}, 7]
    if not isinstance(term, list):
        return [1, term, 7]
    parts = [
        list(map(stored_term, part))
        if isinstance(part, list)
        else {name: stored_term(value) for name, value in part.items()}
        for part in term[1:]
    ]
    return [term[0], *parts, 7]


def varint(number: int) -> bytes:
    found = b""
    while number >= 128:
        found += bytes((number % 128 + 128,))
        number //= 128
    return found + bytes((number,))


def stored_function(parameters: list[int], body: list[Any], scope: bytes = EMPTY_SCOPE) -> bytes:
    text = json.dumps(body).encode() + b"\0"
    names = b"".join(struct.pack("<q", parameter) for parameter in parameters)
    return (
        b"\0"
        + scope
        + varint(len(parameters))
        + names
        + struct.pack("<i", len(text))
        + text
        + struct.pack("<I", 7)
    )


def of_driver(function: Any) -> bytes:
    """A function of the driver's, stored."""
    _, (parameters, body) = json.loads(ReQLEncoder().encode(func_wrap(r.expr(function))))
    return stored_function(parameters[1], stored_term(body))


def stored_index(function: bytes, *, multi: int = 0, geo: int = 0, version: int = 9) -> Any:
    return r.binary(b"$reql_index_function$" + bytes((version, 7, 7, 7)) + function + bytes((multi, geo)))


def index_of(db: Any, name: str) -> tuple[Any, bool]:
    index = session_of(db).engine.catalogue.live["games"].indexes[name]
    return to_data(index.expression), index.multi


@pytest.mark.parametrize(
    "function",
    [
        lambda game: game["score"],
        lambda game: [game["room"], game["score"] * 2 + 1],
        lambda game: r.branch(
            game["score"] > 5, "high", {"low": game["name"].default("?").downcase()}["low"]
        ),
        lambda game: game["tags"].map(lambda tag: tag.upcase()),
        r.row["room"]["name"],
        lambda game: (
            game["at"].during(r.epoch_time(0), r.now().date(), left_bound="open").default(False)
            if False
            else game["at"].year()
        ),
    ],
)
@pytest.mark.parametrize("version", [7, 8, 9])
def test_an_index_of_a_servers_archive_is_the_index_that_its_function_makes(
    memory: Any, run: Any, function: Any, version: int
) -> None:
    run(games.index_create("made", function))
    run(games.index_create("restored", stored_index(of_driver(function), version=version)))

    assert index_of(memory, "made") == index_of(memory, "restored")


def test_the_index_of_a_field_is_restored(memory: Any, run: Any) -> None:
    """Without a function RethinkDB makes one itself, with a variable of its own."""
    body = [170, [[10, [[1, -9, 0]], 0], [1, "score", 0]], 0]
    run(games.index_create("score"))
    run(games.index_create("restored", stored_index(stored_function([-9], body))))

    assert index_of(memory, "score") == index_of(memory, "restored")


def test_a_multi_index_is_one_again_unless_the_option_says_otherwise(memory: Any, run: Any) -> None:
    function = of_driver(r.row["tags"])
    run(games.index_create("tags", stored_index(function, multi=1)))
    run(games.index_create("one", stored_index(function, multi=1), multi=False))

    assert (True, False) == (index_of(memory, "tags")[1], index_of(memory, "one")[1])


def test_a_write_hook_of_a_servers_archive_is_set(run: Any) -> None:
    hook = of_driver(lambda context, old, new: new.merge({"by": context["primary_key"], "tags": ["a", [1]]}))

    run(games.set_write_hook(r.binary(b"$reql_write_hook_function$" + hook)))
    run(games.insert({"id": 5}))

    assert {"id": 5, "by": 5, "tags": ["a", [1]]} == run(games.get(5))


GOOD = stored_function([1], stored_term([170, [[10, [1]], "a"]]))


@pytest.mark.parametrize(
    ("words", "function"),
    [
        ("before 2.2", stored_index(GOOD, version=6)),
        ("newer than 2.4", stored_index(GOOD, version=10)),
        ("geospatial", stored_index(GOOD, geo=1)),
        ("JavaScript", stored_index(b"\1" + GOOD[1:])),
        ("variables from outside", stored_index(stored_function([1], [13, 0], b"\1" + EMPTY_SCOPE[1:]))),
        ("ends too early", stored_index(GOOD[:-30])),
        ("could not be interpreted", stored_index(GOOD.replace(b"[170", b"[[[["))),
        ("could not be interpreted", stored_index(stored_function([1], [170]))),  # type: ignore[list-item]
        ("Cannot create an sindex except from", r.binary(b"$reql_index$")),
        ("cannot be read", r.binary(b"$reql_index_function$")),
        ("cannot be read", r.binary(b"$reql_index_function$\xff\xff")),
    ],
)
def test_what_cannot_be_restored_says_why(run: Any, words: str, function: Any) -> None:
    with pytest.raises(ReqlQueryLogicError, match=words) as caught:
        run(games.index_create("restored", function))

    assert [2] == list(caught.value.frames)


@pytest.mark.parametrize(
    "hook", [b"", b"$reql_write_hook_function$", b"$reql_write_hook_function$[1", b"$reql_index_function$"]
)
def test_a_damaged_write_hook_is_refused(run: Any, hook: bytes) -> None:
    with pytest.raises(ReqlQueryLogicError, match="write hook"):
        run(games.set_write_hook(r.binary(hook)))
