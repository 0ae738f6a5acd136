"""Mango over HTTP: `_find`, `_explain` and `_index`.

Rule of this file: it parses requests and renders answers. The dialect has the selectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reactdb.dialects.couchdb import find as couchdb_find
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.servers.http.request_parts import Asking
from reactdb.servers.http.responses import Answer, encode_json, ok, rows_of


def find(database: CouchDatabase, asking: Asking) -> Answer:
    asking.must_be_json()
    result = couchdb_find.find(database, asking.json_object())
    head, rest = '{"docs":[', {name: value for name, value in result.items() if name != "docs"}
    tail = "".join(f",\r\n{line}" for line in _members(rest))
    return rows_of(head, result["docs"], f"\r\n]{tail}}}\r\n")


def _members(members: dict[str, Any]) -> Iterator[str]:
    for name, value in members.items():
        yield f"{encode_json(name).decode()}: {encode_json(value).decode()}"


def explain(database: CouchDatabase, asking: Asking) -> Answer:
    asking.must_be_json()
    return ok(couchdb_find.explain(database, asking.json_object()))


def indexes(database: CouchDatabase, asking: Asking) -> Answer:
    return ok(couchdb_find.indexes(database, asking.count("limit"), asking.count("skip") or 0))


def create_index(database: CouchDatabase, asking: Asking) -> Answer:
    asking.must_be_json()
    return ok(couchdb_find.create_index(database, asking.json_object()))


def below_index(database: CouchDatabase, asking: Asking) -> Answer:
    """`DELETE _index/{design document}/json/{name}` and `POST _index/_bulk_delete`.

    The design document may be named with `_design/` or without.
    """
    parts = asking.parts[2:]
    if asking.method == "POST":
        if parts != ["_bulk_delete"]:
            raise CouchError(404, "not_found", "missing")
        asking.must_be_json()
        return ok(couchdb_find.bulk_delete_indexes(database, asking.json_object()))
    if parts[0] == "_design":
        del parts[0]
    if len(parts) != 3 or parts[1] != "json":
        raise CouchError(404, "not_found", "missing")
    return ok(couchdb_find.delete_index(database, parts[0].removeprefix("_design/"), parts[2]))
