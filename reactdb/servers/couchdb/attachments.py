"""Attachments: one by one, and together with their document as the parts of one body. Bytes go through in pieces.

Rule of this file: it reads requests and writes answers; where the bytes lie is the dialect's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Any, Final

from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.documents import path_of_revisions
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.multipart import (
    BodyPart,
    Following,
    RelatedBody,
    boundary_of,
    end_of,
    new_boundary,
    parameters_of_header,
    part_head,
    parts_in,
)
from reactdb.dialects.couchdb.trees import Rev, parse_rev
from reactdb.servers.http.encodings import too_large
from reactdb.servers.http.request_parts import Asking, read_json
from reactdb.servers.http.responses import JSON, Answer, encode_json, not_modified, ok

PIECE: Final = 64 * 1024
RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


# ---------------------------------------------------------------------------------------------------------------
# One attachment


def read(database: CouchDatabase, id: str, name: str, asking: Asking) -> Answer:
    stub, open_reader = database.attachment(id, name, rev=asking.text("rev"))
    etag = f'"{stub["digest"].partition("-")[2]}"'
    if asking.knows(etag):
        return not_modified(etag)
    length = stub["length"]
    begin, end = _range(asking, length)
    headers = {
        "etag": etag,
        "accept-ranges": "bytes",
        "content-length": str(end - begin),
        # A stored page must not run with the rights of this server's own page.
        "content-security-policy": "sandbox",
    }
    is_part = (begin, end) != (0, length)
    if is_part:
        headers["content-range"] = f"bytes {begin}-{end - 1}/{length}"
    body = iter(()) if asking.method == "HEAD" else pieces(open_reader(), begin, end)
    return Answer(206 if is_part else 200, body, stub["content_type"], headers)


def _range(asking: Asking, length: int) -> tuple[int, int]:
    """The range of the header `Range`; everything if it is missing or not understood.

    Raises:
        CouchError: 416, it lies behind the end.
    """
    match = RANGE.fullmatch(asking.headers.get("range", "").strip())
    if match is None or not any(match.groups()):
        return 0, length
    first, last = match.groups()
    if not first:
        begin, end = max(0, length - int(last)), length
    else:
        begin, end = int(first), min(int(last) + 1 if last else length, length)
    if begin >= end:
        raise CouchError(416, "requested_range_not_satisfiable", "Requested range not satisfiable")
    return begin, end


def pieces(reader: IO[bytes], begin: int, end: int) -> Iterator[bytes]:
    """A stretch of a stream, piece by piece."""
    with reader:
        reader.seek(begin)
        left = end - begin
        while left > 0:
            piece = reader.read(min(PIECE, left))
            if not piece:
                raise EOFError("an attachment is shorter than its length")
            left -= len(piece)
            yield piece


def write(database: CouchDatabase, id: str, name: str, asking: Asking, rev: str | None) -> Answer:
    assert asking.spool is not None
    content_type = asking.headers.get("content-type")
    asking.spool.seek(0)
    done = database.put_attachment(id, name, asking.spool, content_type, rev)
    return ok(done, 201, location=asking.url(database.name, id, *name.split("/")))


def delete(database: CouchDatabase, id: str, name: str, rev: str | None) -> Answer:
    return ok(database.delete_attachment(id, name, rev))


# ---------------------------------------------------------------------------------------------------------------
# Receiving a document with its attachments


def read_related(asking: Asking) -> tuple[Any, dict[str, IO[bytes]]]:
    """The document of a `multipart/related` body, and the bytes of its attachments with `follows`.

    Raises:
        CouchError: 400, the parts do not match the document's attachments.
        RequestRefused: 413, the document itself is larger than the limit of JSON.
    """
    assert asking.spool is not None
    parts = parts_in(asking.spool, boundary_of(asking.headers["content-type"]))
    if not parts:
        raise CouchError(400, "bad_request", "The multipart body has no document.")
    most = asking.most_json_bytes
    if most is not None and parts[0].end - parts[0].begin > most:
        raise too_large(most)
    with parts[0].open(asking.spool) as reader:
        document = read_json(reader.read())
    attachments = document.get("_attachments") if isinstance(document, dict) else None
    attachments = attachments if isinstance(attachments, dict) else {}
    following = [name for name, stub in attachments.items() if isinstance(stub, dict) and stub.get("follows")]
    if len(following) != len(parts) - 1:
        sentence = f"{len(following)} attachments follow the document, and the body has {len(parts) - 1} parts for them."
        raise CouchError(400, "bad_request", sentence)
    by_name = {_file_name(part): part for part in parts[1:]}
    # Parts have names, but an old client sends them in the order of the document instead.
    has_names = by_name.keys() == set(following)
    streams = {}
    for name, part in zip(following, parts[1:], strict=True):
        part = by_name[name] if has_names else part
        streams[name] = part.open(asking.spool)
        if "content-encoding" in part.headers:
            attachments[name]["encoding"] = part.headers["content-encoding"].lower()
    return document, streams


def _file_name(part: BodyPart) -> str | None:
    return parameters_of_header(part.headers.get("content-disposition", "")).get("filename")


# ---------------------------------------------------------------------------------------------------------------
# Sending documents with their attachments


def document_parts(
    database: CouchDatabase,
    document: dict[str, Any],
    since: list[str] | None,
    with_revisions: bool,
    etag: str | None,
) -> Answer:
    """One document, as `multipart/related` with its attachments newer than `since`; as JSON if there are none."""
    following = _newer_attachments(document, list(map(parse_rev, since or ())))
    if not with_revisions:
        del document["_revisions"]
    if not following:
        return ok(document, etag=etag)
    headers = {} if etag is None else {"etag": etag}
    body = _related_body(database, document, following)
    return Answer(200, body, body.content_type, headers)


def revision_parts(
    database: CouchDatabase, entries: list[dict[str, Any]], since: list[str] | None, with_revisions: bool
) -> Answer:
    """Several revisions of a document as `multipart/mixed`; with the attachments newer than `since`."""
    return _mixed_answer(
        _revision_bodies(database, entries, list(map(parse_rev, since or ())), with_revisions)
    )


def bulk_parts(database: CouchDatabase, results: list[dict[str, Any]], with_revisions: bool) -> Answer:
    """The results of `_bulk_get`, flat."""
    entries = [entry for result in results for entry in result["docs"]]
    return _mixed_answer(_revision_bodies(database, entries, [], with_revisions))


Body = tuple[dict[str, str], Iterator[bytes]]


def _mixed_answer(bodies: Iterator[Body]) -> Answer:
    boundary = new_boundary()

    def chunks() -> Iterator[bytes]:
        for headers, body in bodies:
            yield part_head(boundary, headers)
            yield from body
            yield b"\r\n"
        yield end_of(boundary)

    return Answer(200, chunks(), f'multipart/mixed; boundary="{boundary}"')


def _revision_bodies(
    database: CouchDatabase, entries: list[dict[str, Any]], since: list[Rev], with_revisions: bool
) -> Iterator[Body]:
    for entry in entries:
        document = entry.get("ok")
        if document is None:
            error = entry.get("error", entry)
            yield {"Content-Type": f'{JSON}; error="true"'}, iter((encode_json(error),))
            continue
        following = _newer_attachments(document, since)
        if not with_revisions:
            document.pop("_revisions", None)
        if not following:
            yield {"Content-Type": JSON}, iter((encode_json(document),))
            continue
        related = _related_body(database, document, following)
        yield {"Content-Type": related.content_type}, iter(related)


def _newer_attachments(document: dict[str, Any], since: list[Rev]) -> list[str]:
    """The names of the attachments newer than every ancestor of the document in `since`."""
    known = path_of_revisions(document["_revisions"]).newest_of(since) or 0
    return [name for name, stub in document.get("_attachments", {}).items() if stub["revpos"] > known]


def _related_body(database: CouchDatabase, document: dict[str, Any], names: list[str]) -> RelatedBody:
    """The document, and the bytes of these attachments."""

    def following(name: str) -> Following:
        stub, open_reader = database.attachment(document["_id"], name, rev=document["_rev"])
        return Following(stub["length"], lambda: pieces(open_reader(), 0, stub["length"]))

    return RelatedBody(document, {name: following(name) for name in names}, encode_json)
