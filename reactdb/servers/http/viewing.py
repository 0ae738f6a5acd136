"""Views over HTTP: `_design/{design}/_view/{name}`.

Rule of this file: it reads requests and writes answers. What a view is is in the dialect.
"""

from __future__ import annotations

from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.views import ViewQuery, view
from reactdb.servers.http.databases import list_options, listed
from reactdb.servers.http.request_parts import Asking
from reactdb.servers.http.responses import Answer, not_modified, state_etag


def rows(database: CouchDatabase, asking: Asking) -> Answer:
    # The same question about the same documents, which a client that has the answer need not wait for.
    etag = state_etag(database.update_seq, asking.parts, sorted(asking.query), asking.body)
    if asking.knows(etag):
        return not_modified(etag)
    design, name = asking.parts[-3].removeprefix("_design/"), asking.parts[-1]
    asking = asking.with_members()
    is_grouped = asking.strict_boolean("group") or bool(asking.count("group_level"))
    query = ViewQuery(
        **list_options(asking),
        startkey_docid=asking.last_of("startkey_docid", "start_key_doc_id"),
        endkey_docid=asking.last_of("endkey_docid", "end_key_doc_id"),
        # What is reduced is grouped.
        reduce=asking.strict_boolean("reduce") if asking.has("reduce") else (is_grouped or None),
        is_sorted=asking.strict_boolean("sorted", True),
    )
    answer = listed(view(database, design, name, query))
    answer.headers["etag"] = etag
    return answer
