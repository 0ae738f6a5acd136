"""Terms of the register as they are on the wire, with arguments with which they give a value."""

from __future__ import annotations

import json
import re
from typing import Any

import reactdb
from reactdb.dialects.rethinkdb.session import Session

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

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


class Undo(Exception):
    pass


def outcome(db: Any, term: Any, options: dict[str, Any] | None = None) -> Any:
    """The response to a query, without the path to the fault. What the query wrote is undone."""
    try:
        with db.transaction():
            session = Session(db)
            try:
                frames = session.receive(1, json.dumps([1, term, options or {}]).encode())
            finally:
                session.close()
            raise Undo
    except Undo:
        pass
    found = json.loads(UUID.sub("<uuid>", frames[0].body.decode()))
    # A wrong number of arguments is found when the query is parsed, unless some of them are spread.
    if found["t"] in (17, 18):
        found["t"] = 18
    return {name: found[name] for name in ("t", "r", "n", "e") if name in found}


def games_database() -> Any:
    """A database in memory with the table `games`, which the terms of this file use."""
    db = reactdb.connect(":memory:")
    games = db.table_create("games")
    games.insert([{"id": number, "room": "ab"[number % 2]} for number in range(1, 5)])
    games.index_create("room")
    return db
