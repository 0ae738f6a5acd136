"""Indexes: `_index` makes them, as design documents of the language `query`, so that other servers can read them, too.

An index gives `_find` an order of documents, and leaves out documents without one of its fields. It is no copy of anything; the
order is made for each request. A request is fast because of an index of the table itself. It is made together with an index, for
its first field, and `_find` uses it also under another choice. An index that arrived by replication, without a request here, has
none.

Rule of this file: definitions. `mango_plan` chooses the index for a request.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import reduce
from hashlib import sha1
from typing import Any, Final

from reactdb.budget import CALL_STEPS, spend
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.mango import Selector, native_path
from reactdb.dialects.couchdb.names import DESIGN
from reactdb.dialects.couchdb.options import check_bulk_delete, check_index
from reactdb.expression.build import row
from reactdb.expression.serialize import to_data
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec

__all__ = [
    "ALL_DOCS",
    "Index",
    "bulk_delete_indexes",
    "create_index",
    "delete_index",
    "indexes",
    "indexes_of",
]

_LONGEST_NAME: Final = 128


@dataclass(frozen=True, slots=True)
class Index:
    """An index that `_find` may choose.

    Attributes:
        design: The id of its design document, None for the documents in the order of ids.
        columns: Its fields, in their order.
        definition: As it is shown.
    """

    design: str | None
    name: str
    columns: tuple[str, ...]
    definition: dict[str, Any]

    @property
    def is_special(self) -> bool:
        return self.design is None

    @property
    def partial(self) -> dict[str, Any]:
        """The selector of the documents in it, `{}` for all documents."""
        return self.definition.get("partial_filter_selector") or {}

    def as_json(self) -> dict[str, Any]:
        """As `_index` and `_explain` show it."""
        if self.design is None:
            return {"ddoc": None, "name": self.name, "type": "special", "def": self.definition}
        return {
            "ddoc": self.design,
            "name": self.name,
            "type": "json",
            "partitioned": False,
            "def": self.definition,
        }


ALL_DOCS: Final = Index(None, "_all_docs", ("_id",), {"fields": [{"_id": "asc"}]})


def indexes_of(database: CouchDatabase) -> list[Index]:
    """All indexes: first the documents in the order of ids, then by design document and name."""
    indexes = [ALL_DOCS]
    for document in database.design_documents():
        views = document.get("views")
        if document.get("language") == "query" and isinstance(views, dict):
            made = (_from_view(document["_id"], name, views[name]) for name in sorted(views))
            indexes += [index for index in made if index is not None]
    return indexes


def _from_view(design: str, name: str, view: Any) -> Index | None:
    """The index that a view of a design document defines; None if it defines none."""
    definition = view.get("map") if isinstance(view, dict) else None
    fields = definition.get("fields") if isinstance(definition, dict) else None
    if not isinstance(definition, dict) or not isinstance(fields, dict):
        return None
    shown: dict[str, Any] = {"fields": [{field: direction} for field, direction in fields.items()]}
    partial = definition.get("partial_filter_selector")
    if partial:
        try:
            Selector(partial)
        except (CouchError, AttributeError, TypeError):
            return None
        shown["partial_filter_selector"] = partial
    return Index(design, name, tuple(fields), shown)


def indexes(database: CouchDatabase, limit: int | None = None, skip: int = 0) -> dict[str, Any]:
    """The answer of `GET /{db}/_index`."""
    if skip < 0 or (limit is not None and limit < 1):
        raise CouchError(500, "invalid_list_index_params", "Index parameter ranges: limit > 1, skip > 0")
    listed = [index.as_json() for index in indexes_of(database)]
    stop = None if limit is None else skip + limit
    return {"total_rows": len(listed), "indexes": listed[skip:stop]}


def create_index(database: CouchDatabase, body: dict[str, Any]) -> dict[str, Any]:
    """The answer of `POST /{db}/_index`: `{"result": "created" or "exists", "id", "name"}`.

    Raises:
        CouchError: It is no index (400), or its type is not supported here (503).
    """
    options, definition = check_index(body)
    partial = definition["partial_filter_selector"]
    made = {"fields": definition["fields"], "partial_filter_selector": partial.normal}
    # The same fields under another name are another index, in a design document of its own.
    identity = json.dumps([made, options["name"]])
    automatic = sha1(identity.encode(), usedforsecurity=False).hexdigest()
    name = options["name"] or automatic
    id = DESIGN + (options["ddoc"] or automatic).removeprefix(DESIGN)
    document = _design_document(database, id)
    given = document.get("views")
    views: dict[str, Any] = given if isinstance(given, dict) else {}
    view = {"map": made, "reduce": "_count", "options": {"def": options["index"]}}
    result = "exists"
    # Compared as text, because the order of the fields counts.
    if json.dumps(views.get(name)) != json.dumps(view):
        database.put({**document, "views": {**views, name: view}})
        result = "created"
    _make_native(database, next(iter(definition["fields"]), None))
    return {"result": result, "id": id, "name": name}


def _design_document(database: CouchDatabase, id: str) -> dict[str, Any]:
    try:
        document = database.get(id)
    except CouchError as error:
        if error.status != 404:
            raise
        return {"_id": id, "language": "query"}
    if document.get("language") != "query":
        shown = f'{{<<"language">>,<<"{document["language"]}">>}}' if "language" in document else "false"
        raise CouchError(400, "invalid_ddoc_lang", f"Existing design doc has an invalid language: {shown}")
    return document


def delete_index(database: CouchDatabase, design: str, name: str) -> dict[str, Any]:
    """The answer of `DELETE /{db}/_index/{design}/json/{name}`.

    Raises:
        CouchError: It does not exist (404).
    """
    id = DESIGN + design.removeprefix(DESIGN)
    matches = [index for index in indexes_of(database) if (index.design, index.name) == (id, name)]
    if not matches:
        raise CouchError(404, "not_found", "missing")
    document = database.get(id)
    views = {other: view for other, view in document["views"].items() if other != name}
    rest = {**document, "views": views}
    if views:
        database.put(rest)
    else:
        del rest["views"]
        # A design document with nothing else in it was made for the index, and goes with it.
        if set(rest) <= {"_id", "_rev", "language"}:
            database.delete(id, document["_rev"])
        else:
            database.put(rest)
    _drop_native(database, matches[0].columns[:1])
    return {"ok": True}


def bulk_delete_indexes(database: CouchDatabase, body: dict[str, Any]) -> dict[str, Any]:
    """The answer of `POST /{db}/_index/_bulk_delete`: design documents with a deleted index, and design documents without."""
    success, fail = [], []
    for given in check_bulk_delete(body):
        spend(CALL_STEPS)
        id = DESIGN + given.removeprefix(DESIGN)
        matches = [index for index in indexes_of(database) if index.design == id]
        if len(matches) == 1:
            delete_index(database, id, matches[0].name)
            success.append({"id": id, "ok": True})
        else:
            fail.append({"id": id, "error": "not_found"})
    return {"success": success, "fail": fail}


# ---------------------------------------------------------------------------------------------------------------
# Indexes of the table itself


def _native_name(field: str) -> str | None:
    """The name of the table's index of a field; None if the field can have no index."""
    name = "mango." + re.sub(r"[^A-Za-z0-9_.]", lambda match: f"-{ord(match[0]):x}-", field)
    return name if native_path(field) is not None and len(name) <= _LONGEST_NAME else None


def _make_native(database: CouchDatabase, field: str | None) -> None:
    name = None if field is None else _native_name(field)
    if field is None or name is None:
        return
    tree = reduce(lambda expression, step: expression[step], native_path(field) or (), row)
    data = codec.encode_value(to_data(tree))

    def work(transaction: WriteTransaction) -> None:
        table = database.tables(transaction.catalogue).main
        if name not in table.indexes:
            # It is made in one commit, for any number of documents.
            transaction.create_index(table, name, data, False)

    database.session.transact(work, operation="index_create")


def _drop_native(database: CouchDatabase, fields: tuple[str, ...]) -> None:
    """Remove the table's index of fields with which no index begins any more."""
    used = {index.columns[:1] for index in indexes_of(database) if not index.is_special}
    name = _native_name(fields[0]) if fields and fields not in used else None
    if name is None:
        return

    def work(transaction: WriteTransaction) -> None:
        table = database.tables(transaction.catalogue).main
        if name in table.indexes:
            transaction.drop_index(table, name)

    database.session.transact(work, operation="index_drop")
