"""Keys: checks of primary keys and of index names, with ReQL's error messages.

Rule of this file: helpers of the terms, and no handlers.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.errors import OperationFailed
from reactdb.dialects.rethinkdb.evaluator import Evaluator, TermCall
from reactdb.dialects.rethinkdb.values import Sequence
from reactdb.errors import InvalidKey, MissingValue, QueryError
from reactdb.values import collation
from reactdb.values.codec import pretty
from reactdb.values.collation import maxval, minval

# RethinkDB's limit, which is lower than the file's.
MAX_KEY_BYTES: Final = 127


class MissingIndex(OperationFailed):
    """The index does not exist. RethinkDB looks for it only when it is used, and may then blame `changes`."""


def primary_key(value: Any) -> bytes:
    """The bytes of a primary key.

    Raises:
        MissingValue: It is null; InvalidKey: it cannot be a key. Both have ReQL's message.
    """
    if isinstance(value, dict) and value.get("$reql_type$") == "GEOMETRY":
        raise QueryError(
            "Cannot use a geometry value as a key value in a primary or non-geospatial secondary index."
        )
    if has_null_byte(value):
        raise QueryError("Primary keys cannot contain `\\u0000`.")
    if isinstance(value, str) and len(value.encode()) > MAX_KEY_BYTES:
        raise QueryError(f"Primary key too long (max {MAX_KEY_BYTES} characters): {pretty(value)}")
    try:
        return collation.primary_key_bytes(value)
    except InvalidKey as error:
        sentence = str(error)
        if value is None:
            raise MissingValue(
                "Primary keys must be either a number, string, bool, pseudotype or array (got type NULL):\nnull"
            ) from None
        if sentence.startswith("Primary key too long"):
            raise QueryError(f"Primary key too long (max 127 characters): {pretty(value)}") from None
        raise QueryError(sentence) from None


def looked_up(value: Any) -> bytes:
    """The bytes of the key for `get`, which also accepts `minval` and `maxval`, although no document has them as a key.

    Raises:
        As `primary_key`.
    """
    return collation.key_bytes(value) if has_bound(value) else primary_key(value)


def has_bound(value: Any) -> bool:
    return any(map(has_bound, value)) if isinstance(value, list) else is_bound(value)


def has_null_byte(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(has_null_byte, value))
    return isinstance(value, str) and "\0" in value


def index_key(value: Any) -> bytes:
    """The bytes of a key to look up in an index."""
    if is_bound(value):
        # No index contains this value, but a query may look it up.
        return collation.key_bytes(value)
    found = collation.index_key_bytes(value)
    if found is None:
        raise QueryError(
            "Secondary keys must be a number, string, bool, pseudotype, or array "
            f"(got type {collation.type_name(value)}):\n{pretty(value)}"
        )
    return found


def index_option(call: TermCall, sequence: Sequence) -> str | None:
    """The option `index`; None for the primary key."""
    name = call.string_option("index")
    return checked_index(call.evaluator, sequence, name)


def checked_index(evaluator: Evaluator, sequence: Sequence, name: str | None) -> str | None:
    """The name of an index, after checking that it exists; None for the primary key."""
    if name is None:
        return None
    assert sequence.table is not None
    info = tables.table_info(evaluator.native, sequence.table)
    if name == info.primary_key:
        return None
    if name not in info.indexes:
        raise MissingIndex(f"Index `{name}` was not found on table `{sequence.table}`.")
    return name


def is_bound(value: Any) -> bool:
    return value is minval or value is maxval
