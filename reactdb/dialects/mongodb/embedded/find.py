"""Find commands: the arguments of PyMongo's `find` as a server's command.

    find_command(codec, {"n": {"$gt": 1}}, ["n"], sort="n", limit=3)

Rule of this file: it makes PyMongo's own checks. MongoDB's checks come with the execution of the command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.embedded.argument_checks import (
    check_count,
    check_flag,
    check_mapping,
    check_options,
    collation_document,
)
from reactdb.dialects.mongodb.embedded.codecs import Codec
from reactdb.dialects.mongodb.embedded.documents import fields_document, hint_document, order_document

__all__ = ["AWAITS", "EXHAUST", "TAILABLE", "check_find", "find_command"]

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
    """The find command of these arguments. Except for the filter, it has only the given ones.

    Raises:
        TypeError, ValueError: An argument has the wrong type, or is below 0.
    """
    check_mapping("filter", filter or {})
    for name, number in (("skip", skip), ("limit", limit), ("batch_size", batch_size)):
        check_count(name, number, least=0 if name == "batch_size" else None)
    check_flag("no_cursor_timeout", no_cursor_timeout)
    if cursor_type not in (0, TAILABLE, TAILABLE | AWAITS, EXHAUST):
        raise ValueError("not a valid value for cursor_type")
    if cursor_type == EXHAUST and limit:
        raise driver.InvalidOperation("Can't use limit and exhaust together.")
    check_flag("allow_partial_results", allow_partial_results)
    check_flag("oplog_replay", oplog_replay)
    if allow_disk_use is not None:
        check_flag("allow_disk_use", allow_disk_use)
    if let is not None:
        check_mapping("let", let)
    command: dict[str, Any] = {"filter": codec.given(filter) if filter else {}}
    fields = None if projection is None else fields_document(projection)
    options: dict[str, Any] = {
        "projection": fields and codec.given(fields),
        "skip": skip,
        "limit": abs(limit),
        "sort": sort and order_document(sort),
        "tailable": bool(cursor_type & TAILABLE),
        "awaitData": bool(cursor_type & AWAITS),
        "batchSize": batch_size,
        "hint": hint_document(hint),
        "max": max and codec.given_value(_bound(max)),
        "min": min and codec.given_value(_bound(min)),
        "let": let and codec.given(let),
        "maxScan": max_scan,
    }
    command |= {name: value for name, value in options.items() if value}
    options = {
        "collation": collation_document(collation),
        "maxTimeMS": max_time_ms,
        "returnKey": return_key,
        "showRecordId": show_record_id,
        "snapshot": snapshot,
        "comment": comment,
        "allowDiskUse": allow_disk_use,
    }
    return command | {name: value for name, value in options.items() if value is not None}


def _bound(given: Any) -> Any:
    """A bound of an index. PyMongo documents a list of pairs, but sends it unchanged, and MongoDB refuses it."""
    is_list = isinstance(given, (list, tuple)) and all(
        isinstance(one, tuple) and len(one) == 2 for one in given
    )
    return dict(given) if is_list else given


def check_find(command: Mapping[str, Any], codec: Codec) -> None:
    """Make a server's checks before the first read.

    Raises:
        InvalidOperation: A bound without an index.
        OperationFailure: 40415, 14, 9 and 2: an option is unknown, or its value is invalid.
    """
    if ("min" in command or "max" in command) and not command.get("hint"):
        raise driver.InvalidOperation(
            'Passing a "hint" is required when using the min/max query option to ensure the query utilizes the correct index'
        )
    options = {name: command[name] for name in _CHECKED & command.keys()}
    if options:
        check_options("find", options, _KNOWN, codec)


_KNOWN: Final = frozenset({"allowDiskUse", "comment", "maxTimeMS", "returnKey"})
_CHECKED: Final = _KNOWN | {"maxScan", "snapshot"}
"""Options that PyMongo sends unchanged. MongoDB no longer has the last two."""
