"""Filters of `_changes`: they select the revisions of a feed.

A filter gets a revision in CouchDB's form. A tombstone has `_deleted` and its remaining fields. With `style=all_docs` the filter
is called with each leaf; otherwise with the winner.

Rule of this file: a filter is refused before the feed begins.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import unquote

from reactdb.dialects.couchdb.designs import DesignDocuments, filter_function, map_function
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.mango import Selector, field_path, project
from reactdb.json import read_plain

__all__ = ["DesignFilter", "DocumentFilter", "IdFilter", "SelectorFilter", "filter_of"]


class DocumentFilter(Protocol):
    """The interface of a filter of changes."""

    def passes(self, document: dict[str, Any]) -> bool:
        """Whether the feed has this revision."""

    def passes_many(self, documents: Sequence[dict[str, Any]]) -> list[bool]:
        """The same for many at once, which is faster for JavaScript."""
        return list(map(self.passes, documents))


class IdFilter(DocumentFilter):
    """`_doc_ids`: these documents. `ids` lets a feed look them up, and be found by the hash of a key."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = frozenset(ids)

    def passes(self, document: dict[str, Any]) -> bool:
        return document["_id"] in self.ids


class DesignFilter(DocumentFilter):
    """`_design`: design documents."""

    def passes(self, document: dict[str, Any]) -> bool:
        return bool(document["_id"].startswith("_design"))


class SelectorFilter(DocumentFilter):
    """`_selector`: the revisions that a selector selects. With `selector.equalities()` a feed is found by the hash of a value."""

    def __init__(self, selector: Selector, fields: list[str] | None = None) -> None:
        self.selector = selector
        self._paths = [field_path(field) for field in fields or ()]

    def passes(self, document: dict[str, Any]) -> bool:
        return self.selector.passes(document)

    def render(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document for `include_docs`: the requested `fields`, or all."""
        return project(document, self._paths)


def filter_of(
    database: DesignDocuments,
    query: dict[str, str],
    body: dict[str, Any] | None = None,
    request: dict[str, Any] | None = None,
) -> DocumentFilter | None:
    """The filter of a request, None for all changes.

    Args:
        query: The parameters of the URL: `filter`, `doc_ids`, `view`, and all parameters as `req.query` for functions.
        body: The body of a POST, `{}` for an empty one; None for a GET.
        request: Further members of a function's second argument: `method`, `headers`, `userCtx`, ...

    Raises:
        CouchError: It cannot be used (400), is not there (404), is no function (500), or JavaScript is not installed (501).
    """
    name = query.get("filter", "")
    if name == "_doc_ids":
        return IdFilter(_ids(query, body))
    if name == "_selector":
        return _selector(body)
    if name == "_design":
        return DesignFilter()
    if name == "_view":
        return map_function(database, *_view(query.get("view", "")))
    if name.startswith("_"):
        raise CouchError(400, "bad_request", "unknown builtin filter name")
    parts = _parts(name)
    if not parts:
        return None
    if len(parts) != 2:
        raise CouchError(400, "bad_request", "`filter` must be of the form `designname/filtername`")
    return filter_function(
        database, parts[0], parts[1], _request_object(body) | (request or {}) | {"query": query}
    )


def _request_object(body: dict[str, Any] | None) -> dict[str, Any]:
    """The part of a request that every function can read."""
    nobody: dict[str, Any] = {"db": None, "name": None, "roles": []}
    return {"method": "GET" if body is None else "POST", "headers": {}, "body": body, "userCtx": nobody}


def _parts(path: str) -> list[str]:
    return [unquote(part) for part in path.split("/") if part]


def _view(path: str) -> list[str]:
    if not path:
        raise CouchError(400, "bad_request", "`view` filter parameter is not provided.")
    parts = _parts(path)
    if len(parts) != 2:
        raise CouchError(400, "bad_request", "`view` must be of the form `designname/viewname`")
    return parts


def _ids(query: dict[str, str], body: dict[str, Any] | None) -> list[str]:
    try:
        # With a POST, only the body counts.
        ids = read_plain(query.get("doc_ids", "null")) if body is None else body.get("doc_ids")
    except ValueError:
        raise CouchError(400, "bad_request", "invalid UTF-8 JSON") from None
    if not (isinstance(ids, list) and all(isinstance(id, str) for id in ids)):
        raise CouchError(400, "bad_request", "`doc_ids` filter parameter is not a list of doc ids.")
    return ids


def _selector(body: dict[str, Any] | None) -> SelectorFilter:
    if body is None:
        raise CouchError(400, "bad_request", "Selector must be specified in POST payload")
    source, fields = body.get("selector"), body.get("fields")
    if not isinstance(source, dict):
        raise CouchError(400, "bad_request", "Selector error: expected a JSON object")
    if "fields" in body and not isinstance(fields, list):
        raise CouchError(400, "bad_request", "Selector error: fields must be JSON array")
    try:
        selector = Selector(source)
        for field in fields or ():
            if not isinstance(field, str):
                raise CouchError(400, "bad_request", f"Invalid JSON for field spec: {json.dumps(field)}")
        return SelectorFilter(selector, fields)
    except CouchError as error:
        # `_find` has several names for mistakes; here there is one.
        raise CouchError(400, "bad_request", error.reason) from None
