"""`_changes` and `_db_updates`: the parameters of a request, and the feed that answers it.

Rule of this file: parameters and their refusals. Filters are in the dialect's `filters`; how rows are sent is in `feed_stream`.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

from reactdb.dialects.couchdb.changes import ChangesRequest
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.filters import DesignFilter, DocumentFilter, IdFilter, SelectorFilter, filter_of
from reactdb.dialects.couchdb.sequences import malformed
from reactdb.servers.couchdb.feed_stream import (
    FIRST_DOCUMENTS,
    CountingRows,
    FeedStream,
    ToldRows,
    Waiting,
    whole,
)
from reactdb.servers.couchdb.formats import FORMATS
from reactdb.servers.couchdb.wrapped_rows import Begun, Counted, Counts, Paged
from reactdb.servers.http.protocol import Run
from reactdb.servers.http.request_parts import Asking
from reactdb.servers.http.responses import JSON, Answer, not_modified, state_etag

__all__ = ["Counts", "OpenedFeed", "changes", "updates"]

MOST_MS: Final = 60_000
IN_FILTERS: Final = ("filter", "doc_ids", "view")
HEARTBEAT_BELOW: Final = "The heartbeat value should be a positive integer (in milliseconds)."
HEARTBEAT_INVALID: Final = "Invalid heartbeat value. Expecting a positive integer value (in milliseconds)."
FEEDS: Final = "Supported `feed` types: normal, continuous, live, longpoll, eventsource"
INTEGER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)


@dataclass(slots=True)
class OpenedFeed:
    """A streamed answer: the rows, and the rules of waiting for them."""

    rows: ToldRows
    waiting: Waiting
    headers: dict[str, str]

    def stream(self, run: Run) -> FeedStream:
        return FeedStream(self.rows, self.waiting, run)

    def close(self) -> None:
        self.rows.close()


def changes(database: CouchDatabase, asking: Asking, counts: Counts) -> Answer | OpenedFeed:
    """`counts`: earlier counts for all databases of the file.

    Raises:
        CouchError: As CouchDB refuses the parameters.
    """
    body = _body(asking)
    waiting = _parse_waiting(asking)
    chosen = _filter(database, asking, body)
    request = _request(asking, chosen)
    headers = {"cache-control": "must-revalidate"}
    newest = database.update_seq
    if waiting.feed == "normal":
        etag = state_etag(newest, database.name)
        if asking.knows(etag):
            return not_modified(etag)
        headers["etag"] = etag
    elif waiting.feed == "eventsource":
        headers["cache-control"] = "no-cache"
    if asking.method == "HEAD":
        return Answer(200, b"", JSON, headers)
    rows: CountingRows = database.changes(request)
    if isinstance(chosen, (DesignFilter, IdFilter)):
        rows = Counted(rows)
    elif chosen is None and not (request.descending or request.until or request.deletions_after):
        rows = Paged(rows, database, request.since, newest, counts)
    elif not isinstance(chosen, (SelectorFilter, type(None))):
        # An error of a function becomes a status, if it comes before the first row.
        rows = Begun(rows, FIRST_DOCUMENTS)
    if chosen is None and waiting.is_short:
        with closing(rows):
            return Answer(200, whole(rows, waiting), JSON, headers)
    return OpenedFeed(rows, waiting, headers)


def updates(couch: Couch, asking: Asking) -> Answer | OpenedFeed:
    """`_db_updates`, with the parameters of `_changes` that are not about documents.

    Raises:
        CouchError: As CouchDB refuses the parameters.
    """
    # Unlike in `_changes`, a heartbeat may be said to be none.
    query = [(name, text) for name, text in asking.query if (name.lower(), text) != ("heartbeat", "false")]
    asking = replace(asking, query=query)
    waiting = _parse_waiting(asking)
    rows = couch.updates(_since(asking), descending=waiting.descending)
    headers = {"cache-control": "no-cache" if waiting.feed == "eventsource" else "must-revalidate"}
    if asking.method == "HEAD":
        rows.close()
        return Answer(200, b"", JSON, headers)
    return OpenedFeed(rows, waiting, headers)


def _body(asking: Asking) -> dict[str, Any]:
    if asking.method != "POST":
        return {}
    asking.must_be_json()
    return asking.json_object() if asking.body else {}


def _parse_waiting(asking: Asking) -> Waiting:
    feed = asking.text("feed")
    feed = "normal" if feed is None else feed
    if feed not in FORMATS:
        raise CouchError(400, "bad_request", FEEDS)
    limit = _limit(asking)
    if asking.text("style") not in (None, "main_only", "all_docs"):
        raise CouchError(400, "bad_request", "The style parameter should be main_only or all_docs")
    timeout = _number(asking, "timeout")
    if timeout is not None and timeout < 0:
        raise CouchError(400, "bad_request", "The timeout value should be a non-negative integer")
    heartbeat_s, tells_seqs = _heartbeats(asking)
    return Waiting(
        feed=feed,
        limit=limit,
        descending=asking.boolean("descending"),
        heartbeat_s=heartbeat_s,
        tells_seqs=tells_seqs,
        timeout_s=min(MOST_MS if timeout is None else timeout, MOST_MS) / 1_000,
        has_documents=asking.boolean("include_docs"),
    )


def _number(asking: Asking, name: str) -> int | None:
    value = asking.text(name)
    if value is None:
        return None
    if not INTEGER.fullmatch(value):
        raise CouchError(400, "bad_request", f"The {name} parameter should be a non-negative integer")
    return int(value)


def _limit(asking: Asking) -> int | None:
    limit = _number(asking, "limit")
    return None if limit is None or limit < 0 else limit


def _heartbeats(asking: Asking) -> tuple[float | None, bool]:
    """Seconds between two heartbeats, and whether these contain the position."""
    heartbeat_s = _heartbeat(asking, "heartbeat")
    option = asking.text("heartbeat_seq")
    if option in (None, "false"):
        return heartbeat_s, False
    if option == "true":
        return heartbeat_s or MOST_MS / 1_000, True
    return _heartbeat(asking, "heartbeat_seq"), True


def _heartbeat(asking: Asking, name: str) -> float | None:
    value = asking.text(name)
    if value is None:
        return None
    if value == "true":
        return MOST_MS / 1_000
    if not INTEGER.fullmatch(value):
        raise CouchError(400, "bad_request", HEARTBEAT_INVALID)
    if int(value) <= 0:
        raise CouchError(400, "bad_request", HEARTBEAT_BELOW)
    return min(int(value), MOST_MS) / 1_000


def _filter(database: CouchDatabase, asking: Asking, body: dict[str, Any]) -> DocumentFilter | None:
    # A function sees the names unchanged; for the parameters of this server upper and lower case are equal.
    query = dict(asking.query)
    query.update({name: value for name in IN_FILTERS if (value := asking.text(name)) is not None})
    return filter_of(database, query, body if asking.method == "POST" else None)


def _request(asking: Asking, chosen: DocumentFilter | None) -> ChangesRequest:
    interval = asking.text("seq_interval")
    if interval is not None and (not INTEGER.fullmatch(interval) or int(interval) <= 0):
        raise CouchError(400, "bad_request", "invalid_seq_interval")
    with_documents = asking.boolean("include_docs")
    return ChangesRequest(
        since=_since(asking),
        limit=_limit(asking),
        descending=asking.boolean("descending"),
        style="all_docs" if asking.text("style") == "all_docs" else "main_only",
        include_docs=with_documents,
        conflicts=with_documents and asking.boolean("conflicts"),
        attachments=with_documents and asking.boolean("attachments"),
        filter=chosen,
        seq_interval=None if interval is None else int(interval),
        until=_position(asking, "until"),
        deletions_after=_position(asking, "deletions_after"),
        removals=asking.boolean("removals"),
        include_log=asking.boolean("include_log"),
    )


def _position(asking: Asking, name: str) -> str | None:
    text = asking.text(name)
    return None if text is None else unquote(text)


def unquote(seq: str) -> str:
    """A seq as it is, or in quotation marks."""
    return seq[1:-1] if len(seq) > 2 and seq[0] == seq[-1] == '"' else seq


def _since(asking: Asking) -> str:
    """Where the feed begins: `0`, `now` or a seq. Whichever of the parameters and the header counts is a matter of the feed."""
    text = asking.last_of("since", "last-event-id")
    if asking.text("feed") == "eventsource":
        text = asking.headers.get("last-event-id", text)
    if text is None:
        return "0"
    if text == '"now"':
        raise malformed()
    return unquote(text)
