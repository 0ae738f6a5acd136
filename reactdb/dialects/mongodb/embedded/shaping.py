"""Shaping: arguments of PyMongo's methods as documents, and documents as PyMongo gives them.

Rule of this file: a document that a caller gave is not kept, and is changed by nobody but the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import bson
from bson.objectid import ObjectId

from reactdb.dialects.mongodb.values import CODEC, decode_given

__all__ = ["driver_document", "fields_document", "given_document", "order_document"]

Document = dict[str, Any]


def given_document(document: Any) -> Document:
    """A document that a caller gave, as BSON has it.

    Raises:
        TypeError, bson.errors.InvalidDocument: As PyMongo.
    """
    if type(document) is dict:
        found = copied(document)
        if found is not None:
            # BSON has the `_id` of a document first.
            return found if "_id" not in found else {"_id": found["_id"], **found}
    elif not isinstance(document, Mapping) and not hasattr(document, "raw"):
        raise TypeError(
            "document must be an instance of dict, bson.son.SON, bson.raw_bson.RawBSONDocument, or a type that inherits from "
            f"collections.MutableMapping, not {type(document)}"
        )
    return decode_given(bson.encode(document))


_THEMSELVES: Final = frozenset({float, bool, type(None), bytes, ObjectId})


def copied(document: Document) -> Document | None:
    """A copy that BSON's bytes would give, too; None where that cannot be said in less time than they take."""
    try:
        found = document.copy()
        names = "".join(found)
        if not names.isascii():
            names.encode()
        return found if "\0" not in names and _are_copied(found, found.items()) else None
    except (TypeError, UnicodeEncodeError, RecursionError):
        return None


def _are_copied(found: Any, items: Iterable[tuple[Any, Any]]) -> bool:
    """Put copies in the place of the containers in a dict or a list. False: something is not what BSON would give."""
    for place, value in items:
        kind = type(value)
        if kind is str:
            if not value.isascii():
                value.encode()
        elif kind is int:
            if not -0x80000000 <= value <= 0x7FFFFFFF:
                return False
        elif kind is dict:
            found[place] = inner = copied(value)
            if inner is None:
                return False
        elif kind is list:
            found[place] = inner = value.copy()
            if not _are_copied(inner, enumerate(inner)):
                return False
        elif kind not in _THEMSELVES:
            return False
    return True


def driver_document(document: Document) -> Document:
    """A document as PyMongo gives it: with DBRefs."""
    for inner in document.values():
        if type(inner) is dict or type(inner) is list:
            return _with_references(document) if _has_reference(document) else document
    return document


def _has_reference(value: Any) -> bool:
    if type(value) is dict:
        return "$ref" in value or any(
            _has_reference(inner) for inner in value.values() if type(inner) is dict or type(inner) is list
        )
    return type(value) is list and any(map(_has_reference, value))


def _with_references(document: Document) -> Document:
    return bson.decode(bson.encode(document), CODEC)


def order_document(given: Any, direction: int | None) -> Document:
    """A sort, a hint or an index's key, in any form that PyMongo takes: `("a", -1)`, `"a"`, `[("a", 1), "b"]`, `{"a": 1}`.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(given, str):
        return {given: 1 if direction is None else direction}
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, Sequence):
        raise TypeError("if no direction is specified, key_or_list must be an instance of list")
    found: Document = {}
    for one in given:
        if isinstance(one, str):
            found[one] = 1
        else:
            name, value = one
            found[name] = value
    return found


def fields_document(given: Mapping[str, Any] | Sequence[str]) -> Document:
    """A projection, as a mapping or a list of names."""
    return dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, 1)
