"""Checking: what is refused of arguments before anything is looked up: by PyMongo itself, or for a name that no command has.

Rule of this file: PyMongo's errors. What is wrong with a document that is sent, MongoDB says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo.collation import validate_collation_or_none
from pymongo.common import validate_non_negative_integer_or_none
from pymongo.errors import OperationFailure

from reactdb.dialects.mongodb.collation import text_key
from reactdb.dialects.mongodb.commands.requests import boolean_of, flag_of, most_ms_of
from reactdb.dialects.mongodb.embedded.raising import call

__all__ = [
    "AGGREGATING",
    "batch_size_of",
    "check_count",
    "check_flag",
    "check_mapping",
    "check_options",
    "check_replacement",
    "check_update",
    "collation_document",
    "identified",
]


AGGREGATING: Final = frozenset(
    {"allowDiskUse", "batchSize", "bypassDocumentValidation", "collation", "cursor", "hint", "maxTimeMS"}
)
"""The options of a pipeline beside those that PyMongo's methods name."""


def identified(document: Any) -> Any:
    """The `_id` of a document that is inserted; it is given one where it has none.

    Raises:
        TypeError: It is none.
    """
    if type(document) is not dict:
        if isinstance(document, RawBSONDocument):
            return document.get("_id")
        if not isinstance(document, Mapping):
            raise TypeError(
                "document must be an instance of dict, bson.son.SON, bson.raw_bson.RawBSONDocument, or a type that inherits from "
                f"collections.MutableMapping, not {type(document)}"
            )
    if "_id" not in document:
        document["_id"] = ObjectId()
    return document["_id"]


def check_update(update: Any) -> None:
    """
    Raises:
        TypeError, ValueError: It is no update: neither operators nor a pipeline.
    """
    if not isinstance(update, (Mapping, list)):
        raise TypeError(f"update must be a mapping type or a list, not {type(update)}")
    if not update:
        raise ValueError("update cannot be empty")
    if isinstance(update, Mapping) and not str(next(iter(update))).startswith("$"):
        raise ValueError("update only works with $ operators")


def check_replacement(replacement: Any) -> None:
    """
    Raises:
        TypeError, ValueError: It is no document, or has operators.
    """
    if not isinstance(replacement, Mapping):
        raise TypeError(f"replacement must be a mapping type, not {type(replacement)}")
    if replacement and not hasattr(replacement, "raw") and str(next(iter(replacement))).startswith("$"):
        raise ValueError("replacement can not include $ operators")


def check_options(command: str, options: Mapping[str, Any], known: frozenset[str]) -> None:
    """
    Args:
        options: What PyMongo would send with a command without knowing it.

    Raises:
        OperationFailure: 40415, MongoDB knows one of them as little; 14 and others, one has a value that it cannot have.
    """
    if not options:
        return
    for name in options:
        if name not in known:
            message = f"BSON field '{command}.{name}' is an unknown field."
            raise OperationFailure(message, 40415, {"ok": 0.0, "errmsg": message, "code": 40415})
    call(most_ms_of, options.get("maxTimeMS"))
    call(flag_of, command, "bypassDocumentValidation", options.get("bypassDocumentValidation"))
    call(boolean_of, command, "allowDiskUse", options.get("allowDiskUse", False))


def batch_size_of(options: Mapping[str, Any]) -> int | None:
    """How many documents of a pipeline PyMongo asks for at once, or None where it is not said.

    Raises:
        TypeError, ValueError: It is no number, or below 0.
    """
    most: int | None = validate_non_negative_integer_or_none("batchSize", options.get("batchSize"))
    return most


def check_flag(name: str, value: Any) -> None:
    """
    Raises:
        TypeError: It is neither True nor False.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, was: {name}={value}")


def check_count(name: str, value: Any, *, least: int | None = None) -> None:
    """
    Raises:
        TypeError: It is no number. ValueError: It is below `least`.
    """
    if not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {type(value)}")
    if least is not None and value < least:
        raise ValueError(f"{name} must be >= {least}")


def check_mapping(name: str, value: Any) -> None:
    """
    Raises:
        TypeError: It is no mapping.
    """
    if not isinstance(value, Mapping):
        raise TypeError(
            f"{name} must be an instance of dict, bson.son.SON, or any other type that inherits from collections.Mapping"
        )


def collation_document(given: Any) -> Any:
    """A collation as commands have it, or None.

    Raises:
        TypeError: It is neither a `Collation` nor a mapping. OperationFailure: It is no collation of MongoDB's.
    """
    if given is None:
        return None
    document = validate_collation_or_none(given)
    call(text_key, document)
    return document
