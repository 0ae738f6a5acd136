"""Document forms: arguments of PyMongo's methods as documents, and documents in PyMongo's form.

Rule of this file: a caller's document is neither kept nor changed.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Mapping, Sequence, Set
from typing import Any, Final

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions
from bson.datetime_ms import DatetimeMS
from bson.objectid import ObjectId

from reactdb.dialects.mongodb.values import CODEC, decode_given

__all__ = [
    "driver_document",
    "fields_document",
    "hint_document",
    "index_document",
    "index_pairs",
    "order_document",
    "to_bson_document",
]

Document = dict[str, Any]


def to_bson_document(document: Any, options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS) -> Document:
    """A caller's document as BSON. No options change the base types.

    Raises:
        TypeError, bson.errors.InvalidDocument: As PyMongo.
    """
    if type(document) is dict:
        copy = copy_document(document)
        if copy is not None:
            # BSON has the `_id` of a document first.
            return copy if "_id" not in copy else {"_id": copy["_id"], **copy}
    elif not isinstance(document, Mapping) and not hasattr(document, "raw"):
        raise TypeError(
            "document must be an instance of dict, bson.son.SON, bson.raw_bson.RawBSONDocument, or a type that inherits from "
            f"collections.MutableMapping, not {type(document)}"
        )
    return decode_given(bson.encode(document, codec_options=options))


_THEMSELVES: Final = frozenset({float, bool, type(None), bytes, ObjectId})


def copy_document(document: Document) -> Document | None:
    """A copy equal to the decoded BSON; None if that cannot be decided faster than by encoding."""
    try:
        copy = document.copy()
        names = "".join(copy)
        if not names.isascii():
            names.encode()
        return copy if "\0" not in names and _copy_containers(copy, copy.items()) else None
    except (TypeError, UnicodeEncodeError, RecursionError):
        return None


def _copy_containers(container: Any, items: Iterable[tuple[Any, Any]]) -> bool:
    """Replace the containers in a dict or a list with copies. False: a value would change in BSON."""
    for place, value in items:
        kind = type(value)
        if kind is str:
            if not value.isascii():
                value.encode()
        elif kind is int:
            if not -0x80000000 <= value <= 0x7FFFFFFF:
                return False
        elif kind is dict:
            container[place] = inner = copy_document(value)
            if inner is None:
                return False
        elif kind is list:
            container[place] = inner = value.copy()
            if not _copy_containers(inner, enumerate(inner)):
                return False
        elif kind not in _THEMSELVES:
            return False
    return True


def driver_document(document: Document) -> Document:
    """A document in PyMongo's default form: with DBRefs.

    Raises:
        bson.errors.InvalidBSON: It has a date beyond Python's years.
    """
    for inner in document.values():
        if type(inner) in _LOOKED_INTO:
            is_itself = not any(map(_is_decoded, document.values()))
            return document if is_itself else bson.decode(bson.encode(document, codec_options=CODEC))
    return document


_LOOKED_INTO: Final = frozenset({dict, list, DatetimeMS})


def _is_decoded(value: Any) -> bool:
    """Whether a driver decodes a value to another value, or a value inside it."""
    kind = type(value)
    if kind is dict:
        return "$ref" in value or any(map(_is_decoded, value.values()))
    return kind is DatetimeMS or (kind is list and any(map(_is_decoded, value)))


def order_document(given: Any) -> Document:
    """A sort or an index's key, in any of PyMongo's forms: `[("a", 1), "b"]`, `["a"]`, `{"a": 1}`.

    Raises:
        TypeError: It has another form. ValueError: It is empty.
    """
    if not isinstance(given, (list, tuple, Mapping)):
        raise TypeError(f"must use a dictionary or a list of (key, direction) pairs, not: {given!r}")
    if not given:
        raise ValueError("key_or_list must not be empty")
    order: Document = {}
    for one in given.items() if isinstance(given, Mapping) else given:
        name, value = (one, 1) if isinstance(one, str) else one
        if not isinstance(name, str):
            raise TypeError(f"first item in each key pair must be an instance of str, not {type(name)}")
        if not isinstance(value, (str, int, Mapping)):
            raise TypeError(
                "second item in each key pair must be 1, -1, '2d', or another valid MongoDB index specifier., "
                f"not {type(value)}"
            )
        order[name] = value
    return order


def index_document(given: Any, direction: int | str | None = None) -> Document:
    """As `order_document`; a single field may be given with its direction, or alone.

    Raises:
        TypeError, ValueError.
    """
    return order_document(index_pairs(given, direction))


def index_pairs(given: Any, direction: int | str | None = None) -> list[Any]:
    """The fields and directions in a list, from any of these forms.

    Raises:
        TypeError: It has another form.
    """
    if direction is not None:
        if not isinstance(given, str):
            raise TypeError(f"Expected a string and a direction, not {type(given)}")
        return [(given, direction)]
    if isinstance(given, str):
        return [(given, 1)]
    if isinstance(given, Mapping):
        return list(given.items())
    if not isinstance(given, (list, tuple, ItemsView)):
        raise TypeError(
            f"if no direction is specified, key_or_list must be an instance of list, not {type(given)}"
        )
    return [(one, 1) if isinstance(one, str) else one for one in given]


def hint_document(given: Any) -> Any:
    """A hint: the name of an index, or its keys; None for none.

    Raises:
        TypeError, ValueError.
    """
    return given if given is None or isinstance(given, str) else order_document(given)


def fields_document(given: Any) -> Document:
    """A projection, as a mapping or a list of names.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, (Sequence, Set)):
        raise TypeError("projection must be a mapping or list of key names")
    if not all(isinstance(one, str) for one in given):
        raise TypeError("projection must be a list of key names, each an instance of str")
    return dict.fromkeys(given, 1)
