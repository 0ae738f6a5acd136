"""Option checks: the values of single options in `create` and `collMod`.

    check_document("create.storageEngine", {...})      14 for a value that is no object
    checked_clustered({"key": {"_id": 1}, "unique": True})

Rule of this file: one option at a time. `options` checks their combinations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.bson_order import equal, is_text, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import INT32_MAX, as_float, is_number, truncate

__all__ = [
    "STEP_BYTES",
    "capped_size",
    "check_clustered",
    "check_document",
    "check_id_index",
    "check_images",
    "check_number",
    "choice",
    "flag",
    "most_documents",
]

STEP_BYTES: Final = 256
"""The size of a capped collection is rounded up to a multiple of it."""
_MOST_BYTES: Final = 1 << 50
_ID_KEY: Final = {"_id": 1}


def _wrong(field: str, value: Any, wanted: str) -> MongoError:
    return MongoError(
        14, f"BSON field '{field}' is the wrong type '{type_name(value)}', expected type '{wanted}'"
    )


def _missing(field: str) -> MongoError:
    return MongoError(40414, f"BSON field '{field}' is missing but a required field")


def check_document(field: str, value: Any) -> None:
    """Raises: MongoError: 14, it is no object."""
    if not isinstance(value, Mapping):
        raise _wrong(field, value, "object")


def check_number(field: str, value: Any) -> None:
    """Raises: MongoError: 14, it is no number."""
    if not is_number(value):
        raise _wrong(field, value, "long")


def flag(field: str, value: Any) -> bool:
    """A boolean, or a number in its place; null is false.

    Raises:
        MongoError: 14.
    """
    if value is None or isinstance(value, bool):
        return bool(value)
    if not is_number(value):
        raise _wrong(field, value, "bool")
    return bool(as_float(value))


def choice(field: str, value: Any, known: tuple[str, ...]) -> str:
    """A text out of several choices.

    Raises:
        MongoError: 14, it is no text; 2, it is no choice.
    """
    if not is_text(value):
        raise _wrong(field, value, "string")
    if value not in known:
        raise MongoError(2, f"Enumeration value '{value}' for field '{field}' is not a valid value: {known}")
    return value


def check_images(field: str, images: Any) -> None:
    """Raises: MongoError: 14, 40414 or 40415, it is not `{enabled: true}` or `{enabled: false}`."""
    check_document(field, images)
    for name in images:
        if name != "enabled":
            raise MongoError(40415, f"BSON field '{field}.{name}' is an unknown field.")
    enabled = images.get("enabled")
    if enabled is None:
        raise _missing(f"{field}.enabled")
    if not isinstance(enabled, bool):
        raise _wrong(f"{field}.enabled", enabled, "bool")


def capped_size(field: str, value: Any) -> int:
    """The size of a capped collection in bytes, rounded up.

    Raises:
        MongoError: 14, it is no number; 2, it is below 1 or too large.
    """
    check_number(field, value)
    size = truncate(value)
    if not 0 < size <= _MOST_BYTES:
        raise MongoError(2, f"BSON field '{field}' value must be within 1 and {_MOST_BYTES}, actual {value}")
    return -(-size // STEP_BYTES) * STEP_BYTES


def most_documents(field: str, value: Any) -> int | None:
    """The greatest number of documents in a capped collection; None if it is unlimited.

    Raises:
        MongoError: 14, it is no number; 2, it is too large.
    """
    if value is None:
        return None
    check_number(field, value)
    most = truncate(value)
    if most > INT32_MAX:
        raise MongoError(2, f"BSON field '{field}' value must be below {INT32_MAX + 1}, actual {value}")
    return most if most > 0 else None


def check_clustered(index: Any) -> dict[str, Any]:
    """`clusteredIndex` with all of its fields. Documents are stored by their `_id` in any case.

    Raises:
        MongoError: 14, 40414, 40415, 197 or others, it is no unique index on `_id`.
    """
    field = "create.clusteredIndex"
    if isinstance(index, bool) or is_number(index):
        raise MongoError(5979703, "a 'clusteredIndex' that is no object is for collections of time series")
    check_document(field, index)
    for name in index:
        if name not in ("v", "key", "name", "unique"):
            raise MongoError(40415, f"BSON field '{field}.{name}' is an unknown field.")
    for name in ("key", "unique"):
        if index.get(name) is None:
            raise _missing(f"{field}.{name}")
    check_document(f"{field}.key", index["key"])
    is_unique = flag(f"{field}.unique", index["unique"])
    if index.get("v") is not None:
        check_number(f"{field}.v", index["v"])
        if truncate(index["v"]) != 2:
            raise MongoError(5979704, "The version of a clustered index is 2")
    if index.get("name") is not None and not is_text(index["name"]):
        raise _wrong(f"{field}.name", index["name"], "string")
    if not equal(dict(index["key"]), _ID_KEY):
        raise MongoError(197, "The key of a clustered index is {_id: 1}")
    if not is_unique:
        raise MongoError(5979700, "A clustered index has to have the 'unique: true' option")
    return {"v": 2, "key": dict(index["key"]), "name": index.get("name") or "_id_", "unique": True}


def check_id_index(index: Any) -> None:
    """Check `idIndex`, which can only be the usual `_id` index.

    Raises:
        MongoError: 14, 9, 197, 2 or 67.
    """
    check_document("create.idIndex", index)
    for name in index:
        if name not in ("key", "name", "v", "ns", "collation"):
            raise MongoError(197, f"The field '{name}' is not valid for an _id index specification.")
    for name in ("key", "name"):
        if name not in index:
            raise MongoError(9, f"The '{name}' field is a required property of the idIndex option")
    check_document("create.idIndex.key", index["key"])
    name = index["name"]
    if not is_text(name):
        raise _wrong("create.idIndex.name", name, "string")
    if not name:
        raise MongoError(67, "The index name cannot be empty")
    if "v" in index:
        _check_version(index["v"])
    if not equal(dict(index["key"]), _ID_KEY):
        raise MongoError(2, "The field 'key' for an _id index must be {_id: 1}")


def _check_version(version: Any) -> None:
    check_number("create.idIndex.v", version)
    if as_float(version) != truncate(version):
        raise MongoError(2, f"Index version must be representable as a 32-bit integer, but found {version}")
    if truncate(version) not in (1, 2):
        raise MongoError(67, f"Invalid index specification: cannot create an index with v={version}")
