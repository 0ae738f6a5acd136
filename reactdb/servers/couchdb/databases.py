"""Requests for a whole database: make, describe and delete it, and requests for many documents.

Each function answers one method of one path; `routes` has the list.

Rule of this file: it parses requests and renders answers. Their meaning is in the dialect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reactdb.dialects.couchdb import validate_doc_update
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.names import AFTER_DESIGNS, DESIGN
from reactdb.servers.couchdb import attachments
from reactdb.servers.http.request_parts import Asking
from reactdb.servers.http.responses import JSON, Answer, encode_json, ok, rows_of

NOT_A_DOCUMENT: Final = "Document must be a JSON object"
# Parameters for a single revision mean nothing for many.
NOT_IN_BULK_GET: Final = ("rev", "open_revs", "atts_since", "w", "new_edits")
KEYS_AND_BOUNDS: Final = "`keys` is incompatible with `key`, `start_key` and `end_key`"
DELETE_WITH_REV: Final = (
    "You tried to DELETE a database with a ?=rev parameter. Did you mean to DELETE a document instead?"
)


def create(couch: Couch, name: str, asking: Asking) -> Answer:
    couch.create(name)
    return ok({"ok": True}, 201, location=asking.url(name))


def drop(couch: Couch, name: str, asking: Asking) -> Answer:
    if asking.has("rev"):
        raise CouchError(400, "bad_request", DELETE_WITH_REV)
    couch.drop(name)
    return ok({"ok": True})


def info(database: CouchDatabase, asking: Asking) -> Answer:
    return ok(database.info())


def post(database: CouchDatabase, asking: Asking) -> Answer:
    """A document with an optional id: the server may choose it."""
    asking.must_be_json()
    document = asking.json()
    if not isinstance(document, dict):
        raise CouchError(400, "bad_request", NOT_A_DOCUMENT)
    validate_doc_update.check(database, document, asking.user)
    done = database.put(document)
    return ok(done, 201, location=asking.url(database.name, done["id"]))


# ---------------------------------------------------------------------------------------------------------------
# Many documents


def bulk_docs(database: CouchDatabase, asking: Asking) -> Answer:
    asking.must_be_json()
    body = asking.json_object()
    docs, new_edits = body.get("docs"), body.get("new_edits", True)
    if "docs" not in body:
        raise CouchError(400, "bad_request", "POST body must include `docs` parameter.")
    if not isinstance(docs, list):
        raise CouchError(400, "bad_request", "`docs` parameter must be an array.")
    if not isinstance(new_edits, bool):
        raise CouchError(400, "bad_request", "`new_edits` parameter must be a boolean.")
    if not all(isinstance(document, dict) for document in docs):
        raise CouchError(400, "bad_request", NOT_A_DOCUMENT)
    refused = validate_doc_update.refusals(database, docs, asking.user)
    if not any(refused):
        return ok(database.bulk_docs(docs, new_edits=new_edits), 201)
    allowed = [document for document, error in zip(docs, refused, strict=True) if error is None]
    rows = database.bulk_docs(allowed, new_edits=new_edits)
    failures = [
        {"id": document.get("_id"), "rev": document.get("_rev"), "error": error.error, "reason": error.reason}
        for document, error in zip(docs, refused, strict=True)
        if error is not None
    ]
    if not new_edits:
        return ok([*rows, *failures], 201)
    sources = {True: iter(rows), False: iter(failures)}
    return ok([next(sources[error is None]) for error in refused], 201)


def bulk_get(database: CouchDatabase, asking: Asking) -> Answer:
    asking.must_be_json()
    refused = next((name for name in NOT_IN_BULK_GET if asking.has(name)), None)
    if refused is not None:
        raise CouchError(400, "bad_request", f'"{refused}" query parameter is not acceptable')
    docs = asking.json_object().get("docs")
    if not isinstance(docs, list):
        raise CouchError(400, "bad_request", "Missing JSON list of 'docs'.")
    as_parts = asking.accepts("multipart/mixed") and not asking.accepts(JSON)
    results = database.bulk_get(
        docs,
        revs=asking.boolean("revs") or as_parts,
        latest=asking.boolean("latest"),
        attachments=asking.boolean("attachments") and not as_parts,
    )
    if as_parts:
        return attachments.bulk_parts(database, results, asking.boolean("revs"))
    return ok({"results": results})


def revs_diff(database: CouchDatabase, asking: Asking) -> Answer:
    asking.must_be_json()
    return ok(database.revs_diff(asking.json_object()))


def missing_revs(database: CouchDatabase, asking: Asking) -> Answer:
    asking.must_be_json()
    differences = database.revs_diff(asking.json_object())
    return ok({"missing_revs": {id: entry["missing"] for id, entry in differences.items()}})


def purge(database: CouchDatabase, asking: Asking) -> Answer:
    asking.must_be_json()
    return ok(database.purge(asking.json_object()), 201)


# ---------------------------------------------------------------------------------------------------------------
# Lists


def all_docs(database: CouchDatabase, asking: Asking) -> Answer:
    return _list(database, asking)


def all_docs_queries(database: CouchDatabase, asking: Asking) -> Answer:
    return _lists(database, asking.must_have_queries())


def design_docs(database: CouchDatabase, asking: Asking) -> Answer:
    return _list(database, asking, startkey=DESIGN, endkey=AFTER_DESIGNS)


def design_docs_queries(database: CouchDatabase, asking: Asking) -> Answer:
    return _lists(database, asking.must_have_queries(), startkey=DESIGN, endkey=AFTER_DESIGNS)


def _list(database: CouchDatabase, asking: Asking, **bounds: str) -> Answer:
    queries = asking.queries()
    if queries is not None:
        return _lists(database, queries, **bounds)
    return render_listing(_list_documents(database, asking.with_members(), **bounds))


def _lists(database: CouchDatabase, queries: Sequence[Asking], **bounds: str) -> Answer:
    """The answers to several queries."""
    return results([_list_documents(database, query, **bounds) for query in queries])


def _list_documents(database: CouchDatabase, asking: Asking, **bounds: str) -> dict[str, Any]:
    options = list_options(asking)
    options.update({name: _bound(options[name]) for name in ("startkey", "endkey") if name in options})
    if "keys" not in options:
        lower, upper = ("endkey", "startkey") if options["descending"] else ("startkey", "endkey")
        for name, bound in zip((lower, upper), bounds.values(), strict=False):
            options.setdefault(name, bound)
    return database.all_docs(**options)


def render_listing(result: dict[str, Any]) -> Answer:
    members = {name: value for name, value in result.items() if name != "rows"}
    head = encode_json(members).decode()[:-1] + "," if members else "{"
    return rows_of(head + '"rows":[', result["rows"])


def results(rows: Sequence[Mapping[str, Any]]) -> Answer:
    """The answers to several queries, in CouchDB's common form."""
    return rows_of('{"results":[', rows)


def list_options(asking: Asking) -> dict[str, Any]:
    """The arguments of a list of rows; `startkey`, `endkey` and `keys` only if the request has them."""
    options: dict[str, Any] = {
        "inclusive_end": asking.strict_boolean("inclusive_end", True),
        "descending": asking.strict_boolean("descending"),
        "include_docs": asking.strict_boolean("include_docs"),
        "conflicts": asking.strict_boolean("conflicts"),
        "attachments": asking.strict_boolean("attachments"),
        "update_seq": asking.strict_boolean("update_seq"),
        "limit": asking.count("limit"),
        "skip": asking.count("skip") or 0,
    }
    for names in (("startkey", "start_key"), ("endkey", "end_key")):
        for name in names:
            if asking.has(name):
                options[names[0]] = asking.json_parameter(name)
    if asking.has("key"):
        options["startkey"] = options["endkey"] = asking.json_parameter("key")
    keys = asking.json_parameter("keys")
    if keys is not None:
        if not isinstance(keys, list):
            raise CouchError(400, "bad_request", "`keys` body member must be an array.")
        if "startkey" in options or "endkey" in options:
            raise CouchError(400, "query_parse_error", KEYS_AND_BOUNDS)
        options["keys"] = keys
    return options


def _bound(value: Any) -> Any:
    """A bound of a range of ids. None means no bound; null is below every id, as false is."""
    return False if value is None else value


def local_docs(database: CouchDatabase, asking: Asking) -> Answer:
    return render_listing(database.local_docs(include_docs=asking.strict_boolean("include_docs")))


# ---------------------------------------------------------------------------------------------------------------
# Settings and upkeep


def security(database: CouchDatabase, asking: Asking) -> Answer:
    return ok({})


def revs_limit(database: CouchDatabase, asking: Asking) -> Answer:
    return ok(database.revs_limit)


def set_revs_limit(database: CouchDatabase, asking: Asking) -> Answer:
    database.revs_limit = asking.json()
    return ok({"ok": True})


def compact(database: CouchDatabase, asking: Asking) -> Answer:
    asking.must_be_json()
    database.compact()
    return ok({"ok": True}, 202)


def view_cleanup(database: CouchDatabase, asking: Asking) -> Answer:
    asking.must_be_json()
    return ok({"ok": True}, 202)


def ensure_full_commit(database: CouchDatabase, asking: Asking) -> Answer:
    """Every write is on the disk when it is answered, or as `--durability` says."""
    asking.must_be_json()
    return ok({"ok": True, "instance_start_time": database.instance_start_time}, 201)
