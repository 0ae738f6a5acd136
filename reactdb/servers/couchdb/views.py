"""Views over HTTP: `_design/{design}/_view/{name}`, and several queries of one view at once.

Rule of this file: it parses requests and renders answers. The dialect has the views.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.views import ViewQuery, view, view_answers
from reactdb.servers.couchdb.databases import list_options, render_listing, results
from reactdb.servers.http.request_parts import Asking
from reactdb.servers.http.responses import Answer, not_modified, state_etag


def rows(database: CouchDatabase, asking: Asking) -> Answer:
    # The same query of the same documents: a client with the answer need not wait for it.
    etag = state_etag(database.update_seq, asking.parts, sorted(asking.query), sha256(asking.body).digest())
    if asking.knows(etag):
        return not_modified(etag)
    several = asking.queries()
    if several is not None:
        return _answers(database, asking.parts, several)
    design, name = _names(asking.parts)
    answer = render_listing(view(database, design, name, _query(asking.with_members())))
    answer.headers["etag"] = etag
    return answer


def queries(database: CouchDatabase, asking: Asking) -> Answer:
    return _answers(database, asking.parts[:-1], asking.must_have_queries())


def _answers(database: CouchDatabase, parts: Sequence[str], several: Sequence[Asking]) -> Answer:
    return results(view_answers(database, *_names(parts), list(map(_query, several))))


def _names(parts: Sequence[str]) -> tuple[str, str]:
    """Of the design document and the view at the end of a path."""
    return parts[-3].removeprefix("_design/"), parts[-1]


def _query(asking: Asking) -> ViewQuery:
    is_grouped = asking.strict_boolean("group") or bool(asking.count("group_level"))
    return ViewQuery(
        **list_options(asking),
        startkey_docid=asking.last_of("startkey_docid", "start_key_doc_id"),
        endkey_docid=asking.last_of("endkey_docid", "end_key_doc_id"),
        # A reduced result is grouped.
        reduce=asking.strict_boolean("reduce") if asking.has("reduce") else (is_grouped or None),
        is_sorted=asking.strict_boolean("sorted", True),
    )
