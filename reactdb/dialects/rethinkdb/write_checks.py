"""Write checks: checks of keys, of index names and of documents before a write, with ReQL's error messages.

Rule of this file: helpers of the terms, and no handlers. It writes nothing.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.errors import OperationFailed
from reactdb.dialects.rethinkdb.evaluator import Evaluator, TermCall
from reactdb.dialects.rethinkdb.keys import stored_key
from reactdb.dialects.rethinkdb.values import Sequence, cut, stray_literal
from reactdb.errors import InvalidDocument, InvalidKey, MissingValue, QueryError, ReactDBError
from reactdb.expression.markers import Literal
from reactdb.values import codec, collation
from reactdb.values.codec import pretty
from reactdb.values.collation import maxval, minval

# RethinkDB's limit, which is lower than the file's.
MAX_KEY_BYTES: Final = 127
BOUNDS_ON_DISK: Final = "`r.minval` and `r.maxval` cannot be written to disk."
MAX_ARRAY_ON_DISK: Final = 100_000


class MissingIndex(OperationFailed):
    """The index does not exist. RethinkDB looks for it only when it is used, and may then blame `changes`."""


def primary_key(value: Any) -> bytes:
    """The bytes of a primary key, as a driver sends it.

    Raises:
        MissingValue: It is null; InvalidKey: it cannot be a key. Both have ReQL's message.
    """
    value = stored_key(value)
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


def lookup_key(value: Any) -> bytes:
    """The bytes of the key for `get`, which also accepts `minval` and `maxval`, although no document can have these keys.

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
    key = collation.index_key_bytes(value)
    if key is None:
        raise QueryError(
            "Secondary keys must be a number, string, bool, pseudotype, or array "
            f"(got type {collation.type_name(value)}):\n{pretty(value)}"
        )
    return key


def index_option(call: TermCall, sequence: Sequence) -> str | None:
    """The option `index`; None for the primary key."""
    name = call.string_option("index")
    return find_index(call.evaluator, sequence, name)


def find_index(evaluator: Evaluator, sequence: Sequence, name: str | None) -> str | None:
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


# ---------------------------------------------------------------------------------------------------------------
# Documents


def message_of(error: ReactDBError) -> str:
    return error.reason if isinstance(error, InvalidDocument) else str(error)


def body_of(document: Any) -> bytes:
    """The document encoded.

    Raises:
        QueryError: It cannot be stored; with ReQL's message if there is one.
    """
    try:
        return codec.encode(document)
    except InvalidDocument as error:
        check_storable(document)
        raise QueryError(error.reason) from None


def check_storable(value: Any) -> None:
    """Raise ReQL's error for a value that no document can have."""
    if isinstance(value, Literal):
        raise stray_literal()
    if is_bound(value):
        raise QueryError(BOUNDS_ON_DISK)
    if isinstance(value, dict):
        for inner in value.values():
            check_storable(inner)
    elif isinstance(value, list):
        for inner in value:
            check_storable(inner)


def check_arrays(value: Any) -> None:
    """Check the length of arrays. It is bounded in stored documents, for any `array_limit`."""
    if isinstance(value, list):
        if len(value) > MAX_ARRAY_ON_DISK:
            raise QueryError("Array too large for disk writes (limit 100,000 elements).")
        for inner in value:
            check_arrays(inner)
    elif isinstance(value, dict):
        for inner in value.values():
            check_arrays(inner)


def check_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        check_storable(value)
        raise QueryError(
            f"Inserted value must be an OBJECT (got {collation.type_name(value)}):\n{cut(pretty(value))}"
        )
    return value
