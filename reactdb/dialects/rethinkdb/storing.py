"""Storing: what a document must be to be written, in ReQL's words, and how a write statement counts.

Rule of this file: it looks at documents and writes none.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.dialects.rethinkdb.values import cut, stray_literal
from reactdb.errors import InvalidDocument, QueryError, ReactDBError
from reactdb.expression.markers import Literal
from reactdb.values import codec, collation
from reactdb.values.codec import pretty

COUNTERS: Final = ("deleted", "errors", "inserted", "replaced", "skipped", "unchanged")
BOUNDS_ON_DISK: Final = "`r.minval` and `r.maxval` cannot be written to disk."
MAX_ARRAY_ON_DISK: Final = 100_000


class Summary:
    """What a write statement answers: its counters, and its changes where they are asked for."""

    def __init__(self, return_changes: bool | str) -> None:
        self.counts = dict.fromkeys(COUNTERS, 0)
        self.first_error: str | None = None
        self.generated_keys: list[str] = []
        self.changes: list[dict[str, Any]] | None = [] if return_changes else None
        self.keeps_all = return_changes == "always"

    def add(self, counter: str, old: bytes | None, new: bytes | None, error: str | None = None) -> None:
        self.counts[counter] += 1
        if error is not None and self.first_error is None:
            self.first_error = error
        if self.changes is None or not (self.keeps_all or counter in ("deleted", "inserted", "replaced")):
            return
        change: dict[str, Any] = {
            "new_val": None if new is None else codec.decode(new),
            "old_val": None if old is None else codec.decode(old),
        }
        if error is not None:
            change["error"] = error
        self.changes.append(change)

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = dict(self.counts)
        if self.first_error is not None:
            found["first_error"] = self.first_error
        if self.generated_keys:
            found["generated_keys"] = self.generated_keys
        if self.changes is not None:
            found["changes"] = self.changes
        return found


def message_of(error: ReactDBError) -> str:
    return error.reason if isinstance(error, InvalidDocument) else str(error)


def body_of(document: Any) -> bytes:
    """The document encoded.

    Raises:
        QueryError: It cannot be stored; with ReQL's sentence where there is one.
    """
    try:
        return codec.encode(document)
    except InvalidDocument as error:
        check_storable(document)
        raise QueryError(error.reason) from None


def check_storable(value: Any) -> None:
    """Raise ReQL's sentence about what no document can hold."""
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
    """Arrays on disk are bounded, whatever `array_limit` says."""
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
