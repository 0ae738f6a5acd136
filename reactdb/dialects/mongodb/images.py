"""Images: the whole documents in events of updates and deletions.

    fullDocument                `updateLookup`: the document at the time of the read; `whenAvailable`, `required`: after the
                                change
    fullDocumentBeforeChange    the document before the change

The log has the documents before and after each change. But a collection shows them only if its option
`changeStreamPreAndPostImages` was enabled at that change, as in MongoDB; a native table shows them always.

Rule of this file: a missing image is null, or code 47 if it is required.
"""

from __future__ import annotations

from typing import Any

from reactdb.dialects.mongodb.entries import document_of, is_too_large
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.events import StreamEvent
from reactdb.dialects.mongodb.namespaces import COLLECTIONS, record_of, row_key
from reactdb.dialects.mongodb.stream_options import POST_IMAGE, PRE_IMAGE, StreamOptions
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot


def with_image(event: StreamEvent, image: str, options: StreamOptions, snapshot: Snapshot) -> StreamEvent:
    """An event with one of its images, if the options ask for it and its kind has it.

    Raises:
        MongoError: 47, it is required and missing.
    """
    change = event.change
    if change is None:
        return event
    table = snapshot.catalogue.by_id[change.table_id]
    operation = event.operation
    document: dict[str, Any] | None
    if image == PRE_IMAGE:
        if operation == "insert":
            return event
        document = _image(event, table, snapshot, options.before_change, "pre", change.old_bytes)
        return event._replace(last={**event.last, PRE_IMAGE: document})
    if operation != "update":
        return event
    if options.full_document == "updateLookup":
        document = _current_document(table, change.key_bytes, snapshot)
    else:
        document = _image(event, table, snapshot, options.full_document, "post", change.new_bytes)
    return event._replace(first={**event.first, POST_IMAGE: document})


def _current_document(table: TableInfo, key: bytes, snapshot: Snapshot) -> dict[str, Any] | None:
    if table.dropped is not None:
        return None
    body = snapshot.get(table, key)
    return None if body is None else _read_document(table, body)


def _read_document(table: TableInfo, body: bytes) -> dict[str, Any] | None:
    """The document; None if it is too large for drivers."""
    document = document_of(table, body)
    return None if is_too_large(document, body) else document


def _image(
    event: StreamEvent, table: TableInfo, snapshot: Snapshot, mode: str, which: str, body: bytes | None
) -> dict[str, Any] | None:
    change = event.change
    if change is not None and body is not None and _has_images(table, change.seq, snapshot):
        document = _read_document(table, body)
        if document is not None:
            return document
    if mode == "required":
        raise MongoError(
            47,
            f"Change stream was configured to require a {which}-image for all update, delete and replace events, but the "
            f"{which}-image was not found for event: {event.first['_id']}",
        )
    return None


def _has_images(table: TableInfo, seq: int, snapshot: Snapshot) -> bool:
    """Whether the collection had its option at this seq."""
    rows = snapshot.table(COLLECTIONS)
    if rows is None:
        return True
    oldest = None
    for version in snapshot.history(rows, row_key(table.id)):
        if version.seq <= seq:
            return version.new_bytes is None or record_of(version.new_bytes).has_images
        oldest = version
    # Before the first: it was a native table then.
    return oldest is None or oldest.old_bytes is None or record_of(oldest.old_bytes).has_images
