"""Target: queries of RethinkDB's wire protocol: one line of JSON a request, as frames carry them.

    [1,[16,[[15,["games"]],1]],{}]

Rule of this file: a session is given queries without a socket. `test_fuzz.py` gives them also over one.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from reactdb.dialects.rethinkdb.errors import INTERNAL
from reactdb.dialects.rethinkdb.session import RUN_OPTIONS, Session
from reactdb.dialects.rethinkdb.terms import TERM_TYPES
from tests.fuzz import generating
from tests.fuzz.in_place import QUERY_S
from tests.fuzz.target import Failure, Target
from tests.support.rethinkdb_terms import DOCUMENT, FIRST, PAIR, TABLE, TIME, VALID, games_database

TEXTS = (*generating.TEXTS, "games", "room", "test", "error", "hard", "number", "string", "+01:00")


def _numbers() -> dict[str, int]:
    return {found.name: number for number, found in TERM_TYPES.items()}


def _value(random: Random) -> Any:
    if random.random() < 0.3:
        return random.choice(
            (TABLE, PAIR, TIME, DOCUMENT, FIRST, [10, [1]], [13, []], [152, [TABLE]], [2, [[2, [1]]]])
        )
    if random.random() < 0.3:
        return _term(random)
    return generating.value(random, TEXTS, (*TEXTS, "$reql_type$", "data", "epoch_time", "timezone"))


def _term(random: Random, depth: int = 2) -> Any:
    numbers = _numbers()
    name = random.choice(sorted(numbers))
    operands = random.choice(VALID.get(name, [[TABLE], [PAIR], [1, 2], ["a"], [TIME]]))
    if depth and random.random() < 0.3:
        operands = [_term(random, depth - 1), *operands[1:]]
    options = {
        random.choice(
            ("index", "return_changes", "default", "conflict", "squash", "left_bound", "base", "multi")
        ): random.choice(TEXTS)
    }
    return [numbers[name], operands, *([options] if random.random() < 0.2 else [])]


def _make(random: Random) -> bytes:
    lines = []
    for _ in range(random.choice((1, 1, 2))):
        query: list[Any] = [1, _term(random), {}]
        if random.random() < 0.1:
            query[2] = {random.choice(sorted(RUN_OPTIONS)): generating.value(random, TEXTS)}
        found = generating.much_changed(query, random, _value)
        lines.append(generating.json_text(found).encode("utf-8", "surrogatepass"))
        if random.random() < 0.2:
            lines.append(random.choice((b"[2]", b"[3]", b"[4]", b"[5]", b"[true]", b"[6]")))
    data = b"\n".join(lines)
    return data if random.random() < 0.8 else generating.mutated(data, random, RETHINKDB.words)


def _ask(data: bytes) -> None:
    with games_database() as db:
        session = Session(db, query_timeout_s=QUERY_S)
        try:
            for body in data.split(b"\n")[:8]:
                for frame in session.receive(1, body):
                    check(frame.body)
            session.poll()
        finally:
            session.close()


def check(body: bytes) -> None:
    """
    Raises:
        Failure: The answer is no JSON, or says that nobody foresaw it.
    """
    answer = json.loads(body)
    if answer.get("e") == INTERNAL:
        raise Failure(
            f"an error that nobody foresaw: {answer['r']}\n  the path to the term at fault: {answer['b']}"
        )


RETHINKDB = Target(
    "rethinkdb",
    _ask,
    _make,
    (
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b"null",
        b"NaN",
        b"1e999",
        b'"games"',
        b'[15,["games"]]',
        b"[" * 600,
        b"[2,[" * 400,
        b"\\ud800",
        b"\n",
    ),
)
