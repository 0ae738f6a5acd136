"""Design documents: where their functions are, and which requests for them are refused.

A design document is an ordinary document with an id that begins with `_design/`. Its `filters` are functions of a document and a
request, the `map` of each of its `views` is a function of a document that emits rows. A map function serves as a filter of
changes, and makes the rows of its view (see `views`).

Rule of this file: it finds functions, and runs none.
"""

from __future__ import annotations

from typing import Any, Protocol

from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.javascript import DocumentFunction, MapFunction

__all__ = ["DesignDocuments", "filter_function", "map_function", "view_function"]


class DesignDocuments(Protocol):
    """The methods of a database that this file needs."""

    def get(self, id: str) -> dict[str, Any]:
        """A document in CouchDB's form; a CouchError (404) if it does not exist."""


def filter_function(
    database: DesignDocuments, design: str, name: str, request: dict[str, Any]
) -> DocumentFunction:
    """The filter `name` of `_design/design`, with this request as its second argument.

    Raises:
        CouchError: It does not exist (404), it is no function (500), or JavaScript is not installed (501).
    """
    document = database.get(f"_design/{design}")
    source = _member(document, "filters", name)
    return DocumentFunction(f"The filter {design}/{name}", source, document, request)


def map_function(database: DesignDocuments, design: str, name: str) -> DocumentFunction:
    """The map function of the view `name` of `_design/design`. The same errors."""
    document = database.get(f"_design/{design}")
    view = _member(document, "views", name)
    source = view.get("map") if isinstance(view, dict) else None
    return (
        DocumentFunction(f"The view {design}/{name}", source, document)
        if isinstance(source, str)
        else _no_text(name)
    )


def view_function(
    database: DesignDocuments, design: str, name: str, reduce: bool | None = None
) -> MapFunction:
    """The map function of the view `name` of `_design/design`, with its rows.

    Args:
        reduce: From the request: only with False a view that has a `reduce` returns its rows.

    Raises:
        CouchError: It is missing (404), its result needs a `reduce` or JavaScript is not installed (501), it is no function
            (500), or `reduce` is true for a view without one (400).
    """
    document = database.get(f"_design/{design}")
    try:
        view = _member(document, "views", name)
    except CouchError as error:
        raise _no_view() if error.status == 404 else error from None
    if not (isinstance(view, dict) and isinstance(view.get("map"), str)):
        raise _no_view()
    if view.get("reduce") is None:
        if reduce:
            raise CouchError(400, "query_parse_error", "Reduce is invalid for map-only views.")
    elif reduce is not False:
        raise CouchError(
            501, "not_implemented", "Nothing is reduced here: request the view's rows, with reduce=false."
        )
    return MapFunction(f"The view {design}/{name}", view["map"], document)


def _member(document: dict[str, Any], section: str, name: str) -> Any:
    members = document.get(section)
    if not isinstance(members, dict):
        raise CouchError(404, "not_found", f"missing json key: {section}")
    if name not in members:
        raise CouchError(404, "not_found", f"missing json key: {name}")
    language = document.get("language", "javascript")
    if language != "javascript":
        raise CouchError(
            501,
            "unknown_query_language",
            f"Functions in {language} cannot run here; only javascript can.",
        )
    source = members[name]
    return source if section == "views" or isinstance(source, str) else _no_text(name)


def _no_view() -> CouchError:
    return CouchError(404, "not_found", "missing_named_view")


def _no_text(name: str) -> Any:
    raise CouchError(500, "compilation_error", f"Expression does not eval to a function. ({name} is no text)")
