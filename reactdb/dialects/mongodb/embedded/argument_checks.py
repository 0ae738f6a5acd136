"""Argument checks before any look-up: PyMongo's own checks, and the check for unknown options.

Rule of this file: PyMongo's errors. MongoDB checks the sent documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from reactdb.dialects.mongodb.command_fields import boolean_of, check_ms, flag_of
from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.embedded.codecs import PLAIN, Codec
from reactdb.dialects.mongodb.embedded.errors import call
from reactdb.dialects.mongodb.values import is_document

__all__ = [
    "check_bypass",
    "check_count",
    "check_flag",
    "check_list",
    "check_mapping",
    "check_options",
    "check_ordered",
    "check_replacement",
    "check_update",
    "collation_document",
    "ensure_id",
]


def ensure_id(document: Any) -> Any:
    """The `_id` of a document before its insert; a missing `_id` is made.

    Raises:
        TypeError: It is no document.
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
    is_operators = is_document(update)
    if not is_operators and not isinstance(update, list):
        raise TypeError(f"update must be a mapping type or a list, not {type(update)}")
    if not update:
        raise ValueError("update cannot be empty")
    if is_operators and not str(next(iter(update))).startswith("$"):
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


def check_options(
    command: str, options: Mapping[str, Any], known: frozenset[str], codec: Codec, comment: Any = None
) -> None:
    """
    Args:
        options: Options that PyMongo would send with a command without knowing them.
        codec: The conversion to BSON.

    Raises:
        OperationFailure: 40415, an option is unknown to MongoDB; 14, 9 and 2, its value is invalid.
        bson.errors.InvalidDocument: It has no BSON form.
    """
    if comment is not None:
        options = {**options, "comment": comment}
    if not options:
        return
    # PyMongo looks at it before anything is sent.
    collation_document(options.get("collation"))
    sent = codec.given(options)
    for name in sent:
        if name not in known and name != "comment":
            message = f"BSON field '{command}.{name}' is an unknown field."
            raise driver.OperationFailure(message, 40415, {"ok": 0.0, "errmsg": message, "code": 40415})
    call(check_ms, sent.get("maxTimeMS"))
    if "allowDiskUse" in sent:
        call(boolean_of, command, "allowDiskUse", sent["allowDiskUse"])


def check_ordered(command: str, ordered: Any) -> None:
    """
    Raises:
        OperationFailure: 14, it is neither True, False nor None.
    """
    if not isinstance(ordered, bool | None):
        call(boolean_of, command, "ordered", PLAIN.given({"ordered": ordered})["ordered"])


def check_bypass(command: str, bypasses: Any, codec: Codec) -> bool:
    """Whether validators are passed by.

    Raises:
        OperationFailure: 14, it is no flag.
    """
    if bypasses is None or bypasses is False or bypasses is True:
        return bool(bypasses)
    name = "bypassDocumentValidation"
    return call(flag_of, command, name, codec.given({name: bypasses})[name])


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


def check_list(name: str, value: Any) -> None:
    """
    Raises:
        TypeError: It is no list.
    """
    if not isinstance(value, list):
        driver.validate_list(name, value)


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
        TypeError: It is neither a `Collation` nor a mapping.
    """
    return None if given is None else driver.validate_collation_or_none(given)
