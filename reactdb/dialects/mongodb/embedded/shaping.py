"""Shaping: arguments of PyMongo's methods as documents, and documents as PyMongo gives them.

Rule of this file: a document that a caller gave is not kept, and is changed by nobody but the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import bson

from reactdb.dialects.mongodb.values import CODEC, decode_given

__all__ = ["driver_document", "fields_document", "given_document", "order_document"]

Document = dict[str, Any]


def given_document(document: Any) -> Document:
    """A document that a caller gave, as BSON has it.

    Raises:
        TypeError, bson.errors.InvalidDocument: As PyMongo.
    """
    if type(document) is not dict and not isinstance(document, Mapping) and not hasattr(document, "raw"):
        raise TypeError(
            "document must be an instance of dict, bson.son.SON, bson.raw_bson.RawBSONDocument, or a type that inherits from "
            f"collections.MutableMapping, not {type(document)}"
        )
    return decode_given(bson.encode(document))


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
