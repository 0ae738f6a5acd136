"""Single documents: read, write and delete them, also `_design/` and `_local/` documents.

Rule of this file: it parses requests and renders answers. Their meaning is in the dialect.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.dialects.couchdb import validate_doc_update
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.servers.couchdb import attachments
from reactdb.servers.couchdb.databases import NOT_A_DOCUMENT
from reactdb.servers.http.request_parts import Asking, read_json
from reactdb.servers.http.responses import Answer, etag_of, not_modified, ok, state_etag

# With these in it a document is more than its revision, and has no ETag.
BEYOND_THE_REVISION: Final = ("_revs_info", "_conflicts", "_deleted_conflicts", "_local_seq")
TWO_REVS: Final = "Document rev from request body and query string have different values"
REV_AND_ETAG: Final = "Document rev and etag have different values"


def read(database: CouchDatabase, id: str, asking: Asking) -> Answer:
    if asking.has("open_revs"):
        return _open_revs(database, id, asking)
    since = _revisions(asking.json_parameter("atts_since"))
    with_attachments = asking.boolean("attachments") or since is not None
    has_parts = asking.accepts("multipart/related") and with_attachments
    document = database.get(
        id,
        rev=asking.text("rev"),
        revs=asking.boolean("revs") or has_parts,
        revs_info=asking.boolean("revs_info") or asking.boolean("meta"),
        conflicts=asking.boolean("conflicts") or asking.boolean("meta"),
        deleted_conflicts=asking.boolean("deleted_conflicts") or asking.boolean("meta"),
        local_seq=asking.boolean("local_seq"),
        attachments=asking.boolean("attachments") and not has_parts,
        atts_since=None if has_parts else since,
        latest=asking.boolean("latest"),
    )
    etag = None
    if not any(name in document for name in BEYOND_THE_REVISION):
        etag = etag_of(document["_rev"])
        if asking.knows(etag):
            return not_modified(etag)
    if has_parts:
        return attachments.document_parts(database, document, since, asking.boolean("revs"), etag)
    return ok(document, etag=etag)


def _open_revs(database: CouchDatabase, id: str, asking: Asking) -> Answer:
    wanted: Any = asking.text("open_revs")
    if wanted != "all":
        wanted = _revisions(asking.json_parameter("open_revs"))
    as_parts = asking.accepts("multipart/mixed")
    since = _revisions(asking.json_parameter("atts_since"))
    revisions = database.open_revs(
        id,
        wanted,
        revs=asking.boolean("revs") or as_parts,
        latest=asking.boolean("latest"),
        attachments=asking.boolean("attachments") and not as_parts,
        atts_since=None if as_parts else since,
    )
    if as_parts:
        return attachments.revision_parts(database, revisions, since, asking.boolean("revs"))
    return ok(revisions)


def _revisions(value: Any) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(rev, str) for rev in value):
        raise CouchError(400, "bad_request", "Invalid rev format")
    return value


def write(database: CouchDatabase, id: str, asking: Asking) -> Answer:
    is_new = asking.text("new_edits") != "false"
    if asking.headers.get("content-type", "").lower().startswith("multipart/related"):
        document, parts = attachments.read_related(asking)
    else:
        document, parts = read_json(asking.body), {}
    if not isinstance(document, dict):
        raise CouchError(400, "bad_request", NOT_A_DOCUMENT)
    document["_id"] = id
    rev = base_revision(asking, document.get("_rev")) if is_new else None
    validate_doc_update.check(database, document, asking.user)
    done = database.put(document, rev=rev, new_edits=is_new, parts=parts)
    status = 200 if document.get("_deleted") is True else 201
    return ok(
        done, status, etag=etag_of(done["rev"]), location=asking.url(database.name, *_parts(done["id"]))
    )


def _parts(id: str) -> list[str]:
    """The parts of a document's path: the slash in `_design/x` separates two parts."""
    prefix, slash, name = id.partition("/")
    return [prefix, name] if slash and prefix == "_design" else [id]


def base_revision(asking: Asking, in_body: Any = None) -> str | None:
    """The base revision of a write, from the URL or the header `If-Match`.

    Raises:
        CouchError: 400, two different revisions.
    """
    in_url, header = asking.text("rev"), asking.headers.get("if-match")
    in_header = None if header is None else header.strip().removeprefix("W/").strip('"')
    if in_url is not None and in_body is not None and in_url != in_body:
        raise CouchError(400, "bad_request", TWO_REVS)
    based_on = in_body if in_url is None else in_url
    if in_header is not None and based_on is not None and in_header != based_on:
        raise CouchError(400, "bad_request", REV_AND_ETAG)
    return in_url if in_header is None else in_header


def delete(database: CouchDatabase, id: str, asking: Asking) -> Answer:
    rev = base_revision(asking)
    validate_doc_update.check(database, {"_id": id, "_rev": rev, "_deleted": True}, asking.user)
    done = database.delete(id, rev)
    return ok(done, etag=etag_of(done["rev"]))


def copy(database: CouchDatabase, id: str, asking: Asking) -> Answer:
    """COPY, to the id and perhaps the revision in the header `Destination`."""
    destination = asking.headers.get("destination")
    if destination is None:
        raise CouchError(400, "bad_request", "Destination header is mandatory for COPY.")
    target, _, query = destination.partition("?")
    document = database.get(id, rev=asking.text("rev"), attachments=True)
    del document["_rev"]
    document["_id"] = target
    rev = query.removeprefix("rev=") if query.startswith("rev=") else None
    validate_doc_update.check(database, document, asking.user)
    done = database.put(document, rev=rev)
    return ok(done, 201, etag=etag_of(done["rev"]), location=asking.url(database.name, *_parts(done["id"])))


# ---------------------------------------------------------------------------------------------------------------
# Local documents


def read_local(database: CouchDatabase, id: str, asking: Asking) -> Answer:
    document = database.get_local(id)
    etag = state_etag(sorted(document.items(), key=lambda member: member[0]))
    return not_modified(etag) if asking.knows(etag) else ok(document, etag=etag)


def write_local(database: CouchDatabase, id: str, asking: Asking) -> Answer:
    document = read_json(asking.body)
    if not isinstance(document, dict):
        raise CouchError(400, "bad_request", NOT_A_DOCUMENT)
    document["_id"] = id
    rev = base_revision(asking, document.get("_rev"))
    if rev is not None:
        document["_rev"] = rev
    done = database.put_local(document)
    return ok(done, 201, etag=state_etag(id, done["rev"]), location=asking.url(database.name, id))


def delete_local(database: CouchDatabase, id: str, asking: Asking) -> Answer:
    done = database.delete_local(id, base_revision(asking))
    return ok(done, etag=state_etag(id, done["rev"]))
