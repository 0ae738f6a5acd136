"""Views: the emitted rows of a design document's map function, in the order of their keys.

A view has no index. Each request maps every document of one moment, so an answer takes longer the larger the database is, and is
always up to date. Design documents are not mapped, and nothing is reduced.

Rows have the order of `collation` by their keys, then the order of the bytes of their documents' ids.

Rule of this file: the JSON types of arguments were checked before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from reactdb.budget import sort_with_budget, spend_per_element
from reactdb.dialects.couchdb.all_docs import iterate_all
from reactdb.dialects.couchdb.collation import collation_key
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.designs import view_function
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.javascript import MapFunction
from reactdb.dialects.couchdb.names import DESIGN
from reactdb.dialects.couchdb.reader import OpenReading, add_losers

__all__ = ["NO_BOUND", "ViewQuery", "view", "view_answers"]

NO_BOUND: Final[Any] = object()
"""The absence of a key, because null is a key."""


@dataclass(frozen=True, slots=True)
class ViewQuery:
    """A selection of a view's rows, with CouchDB's names; from `startkey` to `endkey`, in this order also if it is descending.
    `is_sorted` False: no `total_rows` and `offset`."""

    startkey: Any = NO_BOUND
    endkey: Any = NO_BOUND
    startkey_docid: str | None = None
    endkey_docid: str | None = None
    keys: list[Any] | None = None
    inclusive_end: bool = True
    descending: bool = False
    limit: int | None = None
    skip: int = 0
    include_docs: bool = False
    conflicts: bool = False
    attachments: bool = False
    update_seq: bool = False
    reduce: bool | None = None
    is_sorted: bool = True


class _Row(NamedTuple):
    place: tuple[tuple[Any, ...], bytes]
    id: str
    key: Any
    value: Any


def view(database: CouchDatabase, design: str, name: str, query: ViewQuery) -> dict[str, Any]:
    """The answer of `_design/{design}/_view/{name}`: `{"total_rows", "offset", "rows": [{"id", "key", "value"[, "doc"]}]}`.

    Raises:
        CouchError: 400, no row can be in the range; 404, there is no such view; 500, its function took too long or too much
            memory; 501, its rows would have to be reduced, or JavaScript is not installed.
    """
    return view_answers(database, design, name, [query])[0]


def view_answers(
    database: CouchDatabase, design: str, name: str, queries: Sequence[ViewQuery]
) -> list[dict[str, Any]]:
    """The answers to several queries of one view, at one moment: documents are mapped once for all of them.

    Raises:
        CouchError: As `view`; if one query is refused, all are.
    """
    # Without queries, too, a missing view is an error.
    function = view_function(database, design, name, reduce=False)
    for query in queries:
        function = view_function(database, design, name, query.reduce)
        _check(query)
    if not queries:
        return []
    with database.reading() as reading:
        # The function runs inside the snapshot, so that all documents are of one moment, and only some of them in memory. It
        # cannot reach the database, and a request that takes too long is ended.
        rows = sort_with_budget(_map_documents(database, reading, function), key=lambda row: row.place)
        seq = reading.seq_text(reading.newest)
    return [_render_rows(database, rows, seq, query) for query in queries]


def _render_rows(database: CouchDatabase, rows: list[_Row], seq: str, query: ViewQuery) -> dict[str, Any]:
    before, selected = _select_rows(rows, query)
    selected = selected[query.skip :][: len(selected) if query.limit is None else query.limit]
    answer: dict[str, Any] = {}
    if query.is_sorted:
        answer = {"total_rows": len(rows), "offset": min(len(rows), before + query.skip)}
    if query.update_seq:
        answer["update_seq"] = seq
    return answer | {"rows": [_render_row(database, row, query) for row in spend_per_element(selected)]}


def _check(query: ViewQuery) -> None:
    if query.startkey is NO_BOUND or query.endkey is NO_BOUND:
        return
    start, end = collation_key(query.startkey), collation_key(query.endkey)
    if start < end if query.descending else start > end:
        other = "false" if query.descending else "true"
        raise CouchError(
            400,
            "query_parse_error",
            f"No rows can match your key range, reverse your start_key and end_key or set descending={other}",
        )


def _map_documents(database: CouchDatabase, reading: OpenReading, function: MapFunction) -> Iterator[_Row]:
    ids: list[str] = []

    def documents() -> Iterator[dict[str, Any]]:
        for state in iterate_all(reading.snapshot, reading.tables, reading.heads):
            document = database.render(state.winner, state)
            if not document["_id"].startswith(DESIGN):
                ids.append(document["_id"])
                # A map function sees them, so that a view can list the documents in conflict.
                add_losers(document, state)
                add_losers(document, state, is_deleted=True)
                yield document

    # Documents are taken by the batch, and are ahead of their rows.
    for number, emitted in enumerate(function.rows(documents())):
        id = ids[number]
        for key, value in spend_per_element(emitted):
            yield _Row((collation_key(key), id.encode("utf-8", "surrogatepass")), id, key, value)


def _select_rows(rows: list[_Row], query: ViewQuery) -> tuple[int, list[_Row]]:
    """(how many rows come before, the rows), in the requested order."""
    if query.keys is None:
        return _between(rows, query, query.startkey, query.endkey)
    keys = query.keys[::-1] if query.descending else query.keys
    parts = [_between(rows, query, key, key) for key in spend_per_element(keys)]
    return parts[0][0] if parts else 0, [row for _, part in parts for row in spend_per_element(part)]


def _between(rows: list[_Row], query: ViewQuery, startkey: Any, endkey: Any) -> tuple[int, list[_Row]]:
    is_descending = query.descending
    begin, end = (len(rows), 0) if is_descending else (0, len(rows))
    if startkey is not NO_BOUND:
        begin = _edge(rows, startkey, query.startkey_docid, is_after=is_descending)
    if endkey is not NO_BOUND:
        end = _edge(rows, endkey, query.endkey_docid, is_after=query.inclusive_end is not is_descending)
    if is_descending:
        return len(rows) - begin, rows[end:begin][::-1]
    return begin, rows[begin:end]


def _edge(rows: list[_Row], key: Any, docid: str | None, *, is_after: bool) -> int:
    """How many rows are below a key, or below one document's row with it; `is_after`: also count equal rows."""
    bisect = bisect_right if is_after else bisect_left
    place = collation_key(key)
    if docid is None:
        return bisect(rows, place, key=lambda row: row.place[0])
    return bisect(rows, (place, docid.encode("utf-8", "surrogatepass")), key=lambda row: row.place)


def _render_row(database: CouchDatabase, row: _Row, query: ViewQuery) -> dict[str, Any]:
    shown = {"id": row.id, "key": row.key, "value": row.value}
    return shown | {"doc": _document(database, row, query)} if query.include_docs else shown


def _document(database: CouchDatabase, row: _Row, query: ViewQuery) -> dict[str, Any] | None:
    """The present document of a row, or the document that the row's value names."""
    id, rev = row.id, None
    if isinstance(row.value, dict) and "_id" in row.value:
        id, rev = row.value["_id"], row.value.get("_rev")
    if not isinstance(id, str):
        return None
    try:
        return database.get(
            id,
            rev=rev if isinstance(rev, str) else None,
            conflicts=query.conflicts,
            attachments=query.attachments,
        )
    except CouchError as error:
        # A function may have made up an id or a revision.
        if error.status in (400, 404):
            return None
        raise
