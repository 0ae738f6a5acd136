"""Mango queries: `_find`, `_explain` and `_index`.

`_find` reads candidates: if the selector has an equality, a range of numbers or a prefix of a text, and the table has an index of
that field, also a native index, from this index; else the documents in the order of ids, all or between the selector's bounds on
`_id`. The matches are sorted by the planned index, and cut.

Rule of this file: one snapshot of the database answers a request.
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from reactdb.budget import sort_with_budget, spend, spend_per_element
from reactdb.dialects.couchdb.all_docs import IdRange, iterate_range
from reactdb.dialects.couchdb.collation import collation_key
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.indexes import (
    bulk_delete_indexes,
    create_index,
    delete_index,
    indexes,
    indexes_of,
)
from reactdb.dialects.couchdb.mango import Selector, field_path, project, read_field
from reactdb.dialects.couchdb.mango_plan import MAX, MIN, FieldRange, FindPlan, covers, key_of_bound, plan
from reactdb.dialects.couchdb.names import DESIGN
from reactdb.dialects.couchdb.options import check_find
from reactdb.dialects.couchdb.reader import OpenReading, add_losers
from reactdb.dialects.couchdb.states import State
from reactdb.documents.access_path import access
from reactdb.expression.predicate import as_predicate
from reactdb.json import read_plain
from reactdb.query import Filter, Query
from reactdb.store.snapshot import Row as DocumentRow

__all__ = ["bulk_delete_indexes", "create_index", "delete_index", "explain", "find", "indexes"]

SCANNED_MUCH: Final = 10
"""There is a warning from so many examined documents per match on: CouchDB's own number."""

_Key = tuple[Any, ...]
_Place = tuple[_Key, bytes]
_MISSING: Final = object()
_NONE: Final = "nil"


@dataclass(slots=True)
class _Found:
    """A document in the order of an index: its place there, and whether the selector selects it."""

    place: _Place
    values: list[Any]
    state: State
    passes: bool


def find(database: CouchDatabase, body: dict[str, Any]) -> dict[str, Any]:
    """The answer of `_find`: `docs`, `bookmark`, and if there are any `execution_stats` and a `warning`.

    Raises:
        CouchError: The request is no query, or nothing serves it (400).
    """
    begun = time.perf_counter()
    options = check_find(body)
    chosen = plan(indexes_of(database), options)
    assert chosen.index is not None
    paths = [field_path(field) for field in options["fields"]]
    after = None if options["bookmark"] == _NONE else _place_of(options["bookmark"])
    with database.reading() as reading:
        rows, examined = _page(_rows(database, reading, chosen, options, after), options)
        documents = [_render_document(database, row.state, options["conflicts"]) for row in rows]
    answer: dict[str, Any] = {
        "docs": [project(document, paths) for document in spend_per_element(documents)],
        "bookmark": _bookmark(rows[-1]) if rows else options["bookmark"],
    }
    is_covered = covers(chosen.index, options)
    if options["execution_stats"]:
        answer["execution_stats"] = {
            "total_keys_examined": examined,
            "total_docs_examined": 0 if is_covered else examined,
            "total_quorum_docs_examined": 0,
            "results_returned": len(rows),
            "execution_time_ms": round((time.perf_counter() - begun) * 1_000, 3),
        }
    warnings = list(chosen.warnings)
    if not is_covered and examined > SCANNED_MUCH * max(1, len(rows)):
        warnings.append(
            "The number of documents examined is high in proportion to the number of results returned."
            " Consider adding a more specific index to improve this."
        )
    if warnings:
        answer["warning"] = "\n".join(warnings)
    return answer


def _page(rows: Iterator[_Found], options: dict[str, Any]) -> tuple[list[_Found], int]:
    """(the returned rows, how many were examined for them)."""
    page: list[_Found] = []
    skip, limit, examined = options["skip"], options["limit"], 0
    if not limit:
        return page, 0
    for row in rows:
        examined += 1
        if not row.passes:
            continue
        if skip:
            skip -= 1
            continue
        page.append(row)
        if len(page) == limit:
            break
    return page, examined


def _render_document(database: CouchDatabase, state: State, with_conflicts: bool) -> dict[str, Any]:
    document = database.render(state.winner, state)
    if with_conflicts:
        add_losers(document, state)
    return document


def _rows(
    database: CouchDatabase,
    reading: OpenReading,
    chosen: FindPlan,
    options: dict[str, Any],
    after: _Place | None,
) -> Iterator[_Found]:
    """The candidates of the planned index, in its order, past the bookmark. By id they are read lazily; with another index all at
    once, because its order has to be made."""
    index, ranges = chosen.index, chosen.ranges
    if index is None or ranges is None:
        return
    selector: Selector = options["selector"]
    is_descending = "desc" in options["sort"].values()
    columns = [field_path(column) for column in index.columns]
    limits = [_limits(unsorted) for unsorted in ranges]
    partial = Selector(index.partial)
    keys = _keys_by_index(reading, selector)
    is_in_order = index.is_special and keys is None
    unsorted = []
    if keys is not None:
        states = _read_states(reading, keys)
    else:
        states = _scan_by_id(reading, selector, is_descending, after if index.is_special else None)
    for state in states:
        spend(selector.size)
        document = database.render(state.winner, state)
        if document["_id"].startswith(DESIGN) or not partial.passes(document):
            continue
        values = [read_field(document, path, _MISSING) for path in columns]
        if _MISSING in values:
            continue
        order = () if index.is_special else tuple(map(collation_key, values))
        place = (order, document["_id"].encode("utf-8", "surrogatepass"))
        if after is not None and (place >= after if is_descending else place <= after):
            continue
        row = _Found(place, values, state, selector.passes(document))
        # A document outside the index's range is not counted.
        if not row.passes and not all(
            low <= key <= high for key, (low, high) in zip(order, limits, strict=False)
        ):
            continue
        if is_in_order:
            yield row
        else:
            unsorted.append(row)
    yield from sort_with_budget(unsorted, key=lambda row: row.place, is_descending=is_descending)


def _limits(bounds: FieldRange) -> tuple[_Key, _Key]:
    """The keys between which a range is read, both included: documents at an excluded end are examined, too."""
    return key_of_bound(bounds.low), key_of_bound(bounds.high)


def _keys_by_index(reading: OpenReading, selector: Selector) -> list[bytes] | None:
    """The keys of candidates, from an index of the table; None if no index helps."""
    condition = selector.condition()
    if condition is None or not reading.tables.main.indexes:
        return None
    table = reading.tables.main
    chosen = access(Query(table.name, (Filter(as_predicate(condition, False)),)), table)
    if not chosen.is_detour:
        return None
    return [row.key for row in chosen.places(reading.snapshot) if isinstance(row, DocumentRow)]


def _read_states(reading: OpenReading, keys: list[bytes]) -> Iterator[State]:
    for key in keys:
        state = reading.state_of(key)
        if state is not None and not state.is_deleted:
            yield state


def _scan_by_id(
    reading: OpenReading, selector: Selector, is_descending: bool, after: _Place | None
) -> Iterator[State]:
    """The documents in the order of their ids, between the selector's bounds, perhaps from a bookmark on."""
    lowest, highest = _ids(selector)
    first, last = (highest, lowest) if is_descending else (lowest, highest)
    if after is not None:
        first = after[1].decode("utf-8", "surrogatepass")
    wanted = IdRange(first, last, descending=is_descending)
    return iterate_range(reading.snapshot, reading.tables, reading.heads, wanted)


def _ids(selector: Selector) -> tuple[str | None, str | None]:
    """The ids between which all selected documents lie."""
    lowest: str | None = None
    highest: str | None = None
    for operator, argument in selector.conditions_on("_id"):
        if not isinstance(argument, str):
            continue
        if operator in ("$eq", "$gt", "$gte", "$beginsWith"):
            lowest = argument if lowest is None else max(lowest, argument)
        if operator in ("$eq", "$lt", "$lte"):
            highest = argument if highest is None else min(highest, argument)
    return lowest, highest


# ---------------------------------------------------------------------------------------------------------------
# Bookmarks: the values and the id of the last document of a page


def _bookmark(row: _Found) -> str:
    text = json.dumps([row.values, row.place[1].decode("utf-8", "surrogatepass"), not row.place[0]])
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _place_of(bookmark: str) -> _Place:
    try:
        values, id, is_by_id = read_plain(urlsafe_b64decode(bookmark + "=" * (-len(bookmark) % 4)))
        return () if is_by_id else tuple(map(collation_key, values)), id.encode("utf-8", "surrogatepass")
    except (ValueError, TypeError, AttributeError):
        raise CouchError(
            400, "invalid_bookmark", f"Invalid bookmark value: {json.dumps(bookmark, ensure_ascii=False)}"
        ) from None


# ---------------------------------------------------------------------------------------------------------------
# Explaining


def explain(database: CouchDatabase, body: dict[str, Any]) -> dict[str, Any]:
    """The answer of `_explain`: the index that `_find` would use, and the reasons against the others.

    Raises:
        CouchError: The request is no query (400).
    """
    options = check_find(body)
    selector: Selector = options["selector"]
    chosen = plan(indexes_of(database), options, must_serve=False)
    indexable = selector.indexable_fields()
    answer = {
        "dbname": database.name,
        "index": None if chosen.index is None else chosen.index.as_json(),
        "partitioned": False,
        "selector": selector.normal,
        "opts": {name: value for name, value in options.items() if name != "selector"},
        "limit": options["limit"],
        "skip": options["skip"],
        "fields": options["fields"],
        "index_candidates": chosen.candidates,
        "selector_hints": [
            {
                "type": "json",
                "indexable_fields": indexable,
                "unindexable_fields": sorted({*selector.fields()} - {*indexable}),
            }
        ],
    }
    if chosen.index is None:
        return answer
    is_covered = covers(chosen.index, options)
    first, last = _keys(chosen)
    is_descending = "desc" in options["sort"].values()
    return answer | {
        "mrargs": {
            "include_docs": not is_covered and options["r"] == 1,
            "view_type": "map",
            "reduce": False,
            "partition": None,
            "start_key": last if is_descending else first,
            "end_key": first if is_descending else last,
            "direction": "rev" if is_descending else "fwd",
            "stable": options["stable"] or options["stale"] == "ok",
            "update": options["update"] and options["stale"] != "ok",
            "conflicts": options["conflicts"] or None,
        },
        "covering": is_covered,
    }


def _keys(chosen: FindPlan) -> tuple[Any, Any]:
    """From where to where the index is read, as CouchDB shows it."""
    if chosen.ranges is None or chosen.index is None:
        return None, None
    if chosen.index.is_special:
        bounds = chosen.ranges[0]
        return "" if bounds.low is MIN else bounds.low, "<MAX>" if bounds.high is MAX else bounds.high
    first = [bounds.low for bounds in takewhile(lambda bounds: bounds.low is not MIN, chosen.ranges)]
    last = [bounds.high for bounds in takewhile(lambda bounds: bounds.high is not MAX, chosen.ranges)]
    return first, last if len(last) == len(chosen.ranges) and last else [*last, "<MAX>"]
