"""Documents in CouchDB's form: parse a client's document, and render a leaf.

Rule of this file: it checks and converts. `database` reads and writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.names import REPLICATION_FIELDS, check_id, to_couchdb_fields, to_stored_fields
from reactdb.dialects.couchdb.revisions import ATTACHMENTS
from reactdb.dialects.couchdb.trees import Path, Rev, is_hash, normal_hash, parse_rev

# Members with a special meaning, which are not stored as fields.
SAID: Final = frozenset({"_id", "_rev", "_deleted", "_attachments", "_revisions"})
PASSED_OVER: Final = frozenset({"_revs_info", "_local_seq", "_conflicts", "_deleted_conflicts"})


class GivenDocument(NamedTuple):
    """A document to write.

    Attributes:
        id: None if it has none.
        rev: Its `_rev`, or None.
        path: The revision with its ancestors, of `_revisions` or else of `_rev`; None if it has neither.
        fields: In stored form, without attachments and primary key.
        attachments: `_attachments` from the client; None if there is none.
    """

    id: str | None
    rev: Rev | None
    path: Path | None
    is_deleted: bool
    fields: dict[str, Any]
    attachments: object


def parse_document(document: object, primary_key: str) -> GivenDocument:
    """
    Raises:
        CouchError: 400, CouchDB has no such document.
    """
    if not isinstance(document, dict):
        raise CouchError(400, "bad_request", "Document must be a JSON object")
    id = document.get("_id")
    if "_id" in document:
        check_id(id)
    fields = {}
    for name, value in document.items():
        if not name.startswith("_") or name in REPLICATION_FIELDS:
            fields[name] = value
        elif name not in SAID and name not in PASSED_OVER:
            raise CouchError(400, "doc_validation", f"Bad special document member: {name}")
    is_deleted = document.get("_deleted", False)
    if not isinstance(is_deleted, bool):
        raise CouchError(400, "doc_validation", "Bad special document member: _deleted")
    rev = document.get("_rev")
    rev = None if rev is None or rev == "" else parse_rev(rev)
    path = None if rev is None else Path(rev.generation, (rev.hash,))
    if "_revisions" in document:
        path = _parse_path(document["_revisions"])
    stored = to_stored_fields(fields)
    if primary_key in stored:
        # The table has its key there.
        if stored[primary_key] != id:
            raise CouchError(
                400,
                "doc_validation",
                f"`{primary_key}` is the primary key of this table, and shown as `_id`: it cannot be another field",
            )
        del stored[primary_key]
    return GivenDocument(id, rev, path, is_deleted, stored, document.get(ATTACHMENTS))


def render_path(path: Path) -> dict[str, Any]:
    """A path as `_revisions`."""
    return {"start": path.start, "ids": list(path.ids)}


def path_of_revisions(revisions: Mapping[str, Any]) -> Path:
    """The path of a result of `render_path`."""
    return Path(revisions["start"], tuple(revisions["ids"]))


def _parse_path(revisions: object) -> Path:
    """
    Raises:
        CouchError: 400, it is no path.
    """
    if isinstance(revisions, dict):
        start, ids = revisions.get("start"), revisions.get("ids")
        if (
            isinstance(start, int)
            and not isinstance(start, bool)
            and isinstance(ids, list)
            and 0 < len(ids) <= start
            and all(map(is_hash, ids))
        ):
            return Path(start, tuple(map(normal_hash, ids)))
    raise CouchError(
        400, "doc_validation", "`_revisions` has a `start`, and `ids` that are revisions, newest first"
    )


def render_document(
    id: str, rev: Rev, fields: dict[str, Any], primary_key: str, *, is_deleted: bool, has_stubs: bool
) -> dict[str, Any]:
    """A revision in CouchDB's form, without optional members and without attachments.

    Args:
        has_stubs: Its `_attachments` are stubs.
    """
    document: dict[str, Any] = {"_id": id, "_rev": str(rev)}
    if is_deleted:
        document["_deleted"] = True
    return document | to_couchdb_fields(fields, (primary_key, ATTACHMENTS) if has_stubs else (primary_key,))
