"""Finding: the arguments of PyMongo's `find` as the command that a server would be sent.

    find_command(codec, {"n": {"$gt": 1}}, ["n"], sort="n", limit=3)

Rule of this file: what PyMongo refuses by itself is refused here. What MongoDB refuses is refused when the command is
carried out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pymongo.collation import validate_collation_or_none
from pymongo.errors import InvalidOperation

from reactdb.dialects.mongodb.embedded.checking import check_count, check_flag, check_mapping
from reactdb.dialects.mongodb.embedded.codecs import Codec
from reactdb.dialects.mongodb.embedded.shaping import fields_document, hint_document, order_document

__all__ = ["AWAITS", "TAILABLE", "bound_document", "find_command"]

TAILABLE: Final = 2
AWAITS: Final = 32
EXHAUST: Final = 64
"""The flags of PyMongo's `CursorType`."""


def find_command(
    codec: Codec,
    filter: Mapping[str, Any] | None = None,
    projection: Mapping[str, Any] | Sequence[str] | None = None,
    skip: int = 0,
    limit: int = 0,
    no_cursor_timeout: bool = False,
    cursor_type: int = 0,
    sort: Any = None,
    allow_partial_results: bool = False,
    oplog_replay: bool = False,
    batch_size: int = 0,
    collation: Any = None,
    hint: Any = None,
    max_scan: int | None = None,
    max_time_ms: int | None = None,
    max: Any = None,
    min: Any = None,
    return_key: bool | None = None,
    show_record_id: bool | None = None,
    snapshot: bool | None = None,
    comment: Any = None,
    allow_disk_use: bool | None = None,
    let: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The find command of these arguments. What is not said is not in it, but for the filter.

    Raises:
        TypeError, ValueError: One of them is of another type, or below 0.
    """
    check_mapping("filter", filter or {})
    for name, number in (("skip", skip), ("limit", limit), ("batch_size", batch_size)):
        check_count(name, number, least=0 if name == "batch_size" else None)
    check_flag("no_cursor_timeout", no_cursor_timeout)
    if cursor_type not in (0, TAILABLE, TAILABLE | AWAITS, EXHAUST):
        raise ValueError("not a valid value for cursor_type")
    if cursor_type == EXHAUST and limit:
        raise InvalidOperation("Can't use limit and exhaust together.")
    check_flag("allow_partial_results", allow_partial_results)
    check_flag("oplog_replay", oplog_replay)
    if allow_disk_use is not None:
        check_flag("allow_disk_use", allow_disk_use)
    if let is not None:
        check_mapping("let", let)
    command: dict[str, Any] = {"filter": codec.given(filter) if filter else {}}
    fields = None if projection is None else fields_document(projection)
    said: dict[str, Any] = {
        "projection": fields and codec.given(fields),
        "skip": skip,
        "limit": abs(limit),
        "sort": sort and order_document(sort),
        "tailable": bool(cursor_type & TAILABLE),
        "awaitData": bool(cursor_type & AWAITS),
        "batchSize": batch_size,
        "hint": hint_document(hint),
        "max": max and bound_document(codec, max),
        "min": min and bound_document(codec, min),
        "let": let and codec.given(let),
        "maxScan": max_scan,
    }
    command |= {name: value for name, value in said.items() if value}
    said = {
        "collation": validate_collation_or_none(collation),
        "maxTimeMS": max_time_ms,
        "returnKey": return_key,
        "showRecordId": show_record_id,
        "snapshot": snapshot,
        "comment": comment,
        "allowDiskUse": allow_disk_use,
    }
    return command | {name: value for name, value in said.items() if value is not None}


def bound_document(codec: Codec, spec: Any) -> dict[str, Any]:
    """A bound of an index, as `min` and `max` take it: `[("a", 3)]`."""
    return codec.given(dict(spec))
