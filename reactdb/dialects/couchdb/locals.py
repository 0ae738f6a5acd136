"""`_local/` documents: kept apart, in a hidden table. They have no history, no conflicts and no place in `_changes`.

Rule of this file: the last write wins, with any revision.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, Final

from reactdb.dialects.couchdb.all_docs import entry_pages
from reactdb.dialects.couchdb.documents import PASSED_OVER, SAID
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.names import LOCAL, to_couchdb_fields, to_stored_fields
from reactdb.dialects.couchdb.states import HeadSource, Tables, encode_document
from reactdb.store.snapshot import Snapshot
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec, collation

_REV: Final = re.compile(r"0-([0-9]{1,18})", re.ASCII)


def full_id(id: str) -> str:
    """With `_local/`, which the caller may leave out."""
    return id if id.startswith(LOCAL) else LOCAL + id


def get_local(heads: HeadSource, tables: Tables, id: str) -> dict[str, Any]:
    head = None if tables.local is None else heads.head(tables.local, _key(id))
    if head is None:
        raise CouchError(404, "not_found", "missing")
    return _decode_local(head[1])


def put_local(transaction: WriteTransaction, tables: Tables, document: dict[str, Any]) -> dict[str, Any]:
    """
    Raises:
        CouchError: 400, it cannot be a document.
    """
    id = full_id(document["_id"])
    if document.get("_deleted") is True:
        return delete_local(transaction, tables, id)
    for name in document:
        if name.startswith("_") and name not in SAID and name not in PASSED_OVER:
            raise CouchError(400, "doc_validation", f"Bad special document member: {name}")
    number = 1
    if document.get("_rev"):
        match = _REV.fullmatch(document["_rev"]) if isinstance(document["_rev"], str) else None
        if match is None:
            raise CouchError(400, "bad_request", "Invalid rev format")
        number = int(match[1]) + 1
    fields = to_stored_fields({name: value for name, value in document.items() if not name.startswith("_")})
    assert tables.local is not None
    transaction.put(tables.local, _key(id), encode_document({"id": id, "number": number, "fields": fields}))
    return {"ok": True, "id": id, "rev": f"0-{number}"}


def delete_local(transaction: WriteTransaction, tables: Tables, id: str) -> dict[str, Any]:
    assert tables.local is not None
    if not transaction.put(tables.local, _key(id), None):
        raise CouchError(404, "not_found", "missing")
    return {"ok": True, "id": full_id(id), "rev": "0-0"}


def local_docs(snapshot: Snapshot, tables: Tables, *, include_docs: bool) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    pages = iter(()) if tables.local is None else entry_pages(snapshot, tables.local)
    for change in chain.from_iterable(pages):
        assert change.new_bytes is not None
        document = _decode_local(change.new_bytes)
        row = {"id": document["_id"], "key": document["_id"], "value": {"rev": document["_rev"]}}
        rows.append(row | {"doc": document} if include_docs else row)
    return {"total_rows": None, "offset": None, "rows": rows}


def _key(id: str) -> bytes:
    return collation.key_bytes(full_id(id))


def _decode_local(body: bytes) -> dict[str, Any]:
    row = codec.decode(body)
    return {"_id": row["id"], "_rev": f"0-{row['number']}", **to_couchdb_fields(row["fields"], ())}
