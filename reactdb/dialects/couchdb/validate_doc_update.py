"""Validation: the functions `validate_doc_update` of design documents. They may refuse a document before its write.

Each such function is called with the new document, the stored document, and the user; an exception is a refusal: `{forbidden:
"..."}` or `{unauthorized: "..."}`. Design documents and `_local/` documents are not checked.

Rule of this file: it checks before the write, and writes nothing. Without JavaScript such a database cannot be written over HTTP,
because an unchecked document is worse than a refused one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from reactdb.budget import CALL_STEPS, spend
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.javascript import DocumentFunction
from reactdb.dialects.couchdb.names import DESIGN, LOCAL
from reactdb.json import read_plain

__all__ = ["check", "refusals"]

MEMBER: Final = "validate_doc_update"
# A function of two documents, as a function of one object with both. It passes unless it throws.
CALL: Final = "function (pair, asked) {{ ({source}\n)(pair.new, pair.old, asked.userCtx, asked.security); return true; }}"
STATUSES: Final = {"forbidden": 403, "unauthorized": 401}


def refusals(
    database: CouchDatabase, documents: Sequence[dict[str, Any]], user: str | None = None
) -> list[CouchError | None]:
    """The error of each document before its write, or None."""
    errors: list[CouchError | None] = [None] * len(documents)
    functions = _functions(database, user)
    if not functions:
        return errors
    for place, document in enumerate(documents):
        spend(CALL_STEPS)
        try:
            _call_functions(database, functions, document)
        except CouchError as error:
            errors[place] = error
    return errors


def check(database: CouchDatabase, document: dict[str, Any], user: str | None = None) -> None:
    """
    Raises:
        CouchError: 403 or 401, a function refuses the document; 501, JavaScript is not installed.
    """
    for error in refusals(database, [document], user):
        if error is not None:
            raise error


def _functions(database: CouchDatabase, user: str | None) -> list[DocumentFunction]:
    request = {"userCtx": {"db": database.name, "name": user, "roles": ["_admin"]}, "security": {}}
    return [
        DocumentFunction(
            f"{MEMBER} of {document['_id']}",
            CALL.format(source=document[MEMBER].strip().rstrip(";")),
            document,
            request,
        )
        for document in database.design_documents()
        if isinstance(document.get(MEMBER), str)
    ]


def _call_functions(
    database: CouchDatabase, functions: list[DocumentFunction], document: dict[str, Any]
) -> None:
    id = document.get("_id")
    if isinstance(id, str) and id.startswith((DESIGN, LOCAL)):
        return
    old = None
    if isinstance(id, str):
        try:
            old = database.get(id)
        except CouchError as error:
            if error.status != 404:
                raise
    for function in functions:
        try:
            function.passes({"new": document, "old": old})
        except CouchError as error:
            raise _parse_refusal(error) from None


def _parse_refusal(error: CouchError) -> CouchError:
    """The refusal that a function has thrown; the error itself if the function failed otherwise."""
    try:
        thrown = read_plain(error.reason.partition(" failed: ")[2])
    except ValueError:
        return error
    for word, status in STATUSES.items():
        if isinstance(thrown, dict) and word in thrown:
            return CouchError(status, word, str(thrown[word]))
    return error
