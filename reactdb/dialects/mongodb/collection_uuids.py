"""The UUID that a command says its collection has: `collectionUUID`.

A program that knows a collection by its UUID says so, and a command that would read or write another one, which has the name
meanwhile, is refused with the code 361 and the name that the collection has now.

Rule of this file: where the error belongs, to the command or to a statement, is the caller's to say.
"""

from __future__ import annotations

from typing import Any, Final, TypeGuard

from bson.binary import UUID_SUBTYPE, Binary

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.ordering import type_name

__all__ = ["check_uuid", "checked_uuid", "is_uuid", "mismatch"]

_UUID_BYTES: Final = 16


def check_uuid(spaces: Namespaces, named: MongoNamespace, told: MongoNamespace, wanted: Any) -> None:
    """
    Args:
        named: The collection that has to have the UUID.
        told: The collection that an error is about.
        wanted: What a command says; None where it says nothing.

    Raises:
        MongoError: 14 or 207, it is no UUID; 361, the collection has another one.
    """
    error = mismatch(spaces, named, told, checked_uuid(wanted))
    if error is not None:
        raise error


def checked_uuid(wanted: Any) -> Binary | None:
    """The UUID that a command says. Raises: MongoError: 14 or 207, it is none."""
    if wanted is None:
        return None
    if not is_uuid(wanted):
        raise MongoError(14, f"a collection's UUID is binary data of the subtype 4, not {type_name(wanted)}")
    if len(wanted) != _UUID_BYTES:
        raise MongoError(207, "a collection's UUID has 16 bytes")
    return wanted


def is_uuid(value: Any) -> TypeGuard[Binary]:
    """Whether a value has the type of UUIDs, whatever its length."""
    return isinstance(value, Binary) and value.subtype == UUID_SUBTYPE


def mismatch(
    spaces: Namespaces, named: MongoNamespace, told: MongoNamespace, wanted: Binary | None
) -> MongoError | None:
    """The error of a collection that has not this UUID; None where it has, or where none is wanted. See `check_uuid`."""
    if wanted is None:
        return None
    found = spaces.find(named)
    if found is not None and bytes(found.uuid) == bytes(wanted):
        return None
    actual = next((one for one in spaces.collections(named.db) if bytes(one.uuid) == bytes(wanted)), None)
    return MongoError(
        361,
        "Collection UUID does not match that specified",
        db=named.db,
        collectionUUID=wanted,
        expectedCollection=told.coll,
        actualCollection=None if actual is None else actual.namespace.coll,
    )
