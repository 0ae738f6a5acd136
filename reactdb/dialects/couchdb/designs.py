"""Design documents: where their functions are, and what is refused of them.

A design document is an ordinary document whose id begins with `_design/`. Its `filters` are functions of a document and a
request, the `map` of each of its `views` is a function of a document that emits. Views are not kept up to date here, and have no
result of their own: a map function serves as a filter of changes.

Rule of this file: it finds functions, and runs none.
"""

from __future__ import annotations

from typing import Any, Protocol

from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.javascript import DocumentFunction

__all__ = ["DesignDocuments", "filter_function", "map_function", "view_refused"]


class DesignDocuments(Protocol):
    """What is asked of a database."""

    def get(self, id: str) -> dict[str, Any]:
        """A document as CouchDB shows it; a CouchError (404) if there is none."""


def filter_function(
    database: DesignDocuments, design: str, name: str, request: dict[str, Any]
) -> DocumentFunction:
    """The filter `name` of `_design/design`, which gets this request as its second argument.

    Raises:
        CouchError: There is none (404), it is no function (500), or JavaScript is not installed (501).
    """
    document, source = _member(database, design, "filters", name)
    return DocumentFunction(f"The filter {design}/{name}", source, document, request)


def map_function(database: DesignDocuments, design: str, name: str) -> DocumentFunction:
    """The map function of the view `name` of `_design/design`. The same errors."""
    document, view = _member(database, design, "views", name)
    source = view.get("map") if isinstance(view, dict) else None
    return (
        DocumentFunction(f"The view {design}/{name}", source, document)
        if isinstance(source, str)
        else _no_text(name)
    )


def view_refused() -> CouchError:
    """What is said to whoever asks for the rows of a view."""
    return CouchError(
        501,
        "not_implemented",
        "Views have no rows here; ask with _find, or take the map function as filter=_view of _changes.",
    )


def _member(database: DesignDocuments, design: str, section: str, name: str) -> tuple[dict[str, Any], Any]:
    document = database.get(f"_design/{design}")
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
            f"Functions in {language} are not run here, those in javascript are.",
        )
    source = members[name]
    return document, source if section == "views" or isinstance(source, str) else _no_text(name)


def _no_text(name: str) -> Any:
    raise CouchError(500, "compilation_error", f"Expression does not eval to a function. ({name} is no text)")
