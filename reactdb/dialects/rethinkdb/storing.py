"""Storing: checks whether a document can be written, with ReQL's error messages.

Rule of this file: it checks documents and writes none.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.dialects.rethinkdb.values import cut, stray_literal
from reactdb.errors import InvalidDocument, QueryError, ReactDBError
from reactdb.expression.markers import Literal
from reactdb.values import codec, collation
from reactdb.values.codec import pretty

BOUNDS_ON_DISK: Final = "`r.minval` and `r.maxval` cannot be written to disk."
MAX_ARRAY_ON_DISK: Final = 100_000


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
    if value is collation.minval or value is collation.maxval:
        raise QueryError(BOUNDS_ON_DISK)
    if isinstance(value, dict):
        for inner in value.values():
            check_storable(inner)
    elif isinstance(value, list):
        for inner in value:
            check_storable(inner)


def check_arrays(value: Any) -> None:
    """Check the length of arrays, which is bounded in stored documents whatever `array_limit` is."""
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
