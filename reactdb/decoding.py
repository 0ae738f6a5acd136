"""Decoding: bytes that `codec` wrote, as documents again.

    decode           fresh dicts and lists, the caller's to change
    decode_frozen    one that is shared, and refuses to be changed
    decode_value     any value

Rule of this file: bytes that were not written by `encode` raise `CorruptDatabase`, never something stranger.
"""

from __future__ import annotations

from typing import Any

import msgpack

from reactdb.errors import CorruptDatabase, type_in_words
from reactdb.extension_types import read_extension
from reactdb.frozen import FrozenDict, FrozenList


def decode(data: bytes) -> dict[str, Any]:
    """The document of these bytes: fresh dicts and lists, the caller's to change.

    Raises:
        CorruptDatabase: Not a document's bytes.
    """
    try:
        document = _unpack(data, ext_hook=read_extension)
    except _UNPACK_ERRORS as error:
        raise _corrupt(error) from error
    # What the unpacker lets pass and we do not: keys of bytes and MessagePack's own timestamps. Both show
    # as one of these bytes, which other data has too, so the second look comes only after the quick one.
    if 0xFF in data or 0xC4 in data or 0xC5 in data or 0xC6 in data:
        _check_unpacked(document)
    if type(document) is not dict:
        raise CorruptDatabase(f"a document was expected, not a value {type_in_words(document)}")
    return document


def decode_frozen(data: bytes) -> FrozenDict:
    """The document of these bytes, to be shared: it refuses to be changed.

    Raises:
        CorruptDatabase: Not a document's bytes.
    """
    try:
        document = _unpack(data, object_hook=FrozenDict, list_hook=FrozenList, ext_hook=read_extension)
    except _UNPACK_ERRORS as error:
        raise _corrupt(error) from error
    if 0xFF in data or 0xC4 in data or 0xC5 in data or 0xC6 in data:
        _check_unpacked(document)
    if type(document) is not FrozenDict:
        raise CorruptDatabase(f"a document was expected, not a value {type_in_words(document)}")
    return document


def decode_value(data: bytes) -> Any:
    """The value of these bytes, as `encode_value` wrote it.

    Raises:
        CorruptDatabase: Not a value's bytes.
    """
    try:
        value = _unpack(data, ext_hook=read_extension)
    except _UNPACK_ERRORS as error:
        raise _corrupt(error) from error
    if 0xFF in data or 0xC4 in data or 0xC5 in data or 0xC6 in data:
        _check_unpacked(value)
    return value


_unpack = msgpack.unpackb
# TypeError: a map whose key is a map. OverflowError, ArithmeticError: numbers inside an extension type.
_UNPACK_ERRORS = (ValueError, TypeError, ArithmeticError, msgpack.UnpackException, RecursionError)


def _corrupt(error: Exception) -> CorruptDatabase:
    if isinstance(error, msgpack.ExtraData):
        return CorruptDatabase("there are bytes behind the end of the value")
    return CorruptDatabase(
        f"these bytes are not a value: {error!s:.200}" if str(error) else "these bytes are not a value"
    )


# Values that hold nothing more to look at.
_TEXT = frozenset({str})
_is_plain = frozenset({str, int, float, bool, type(None), bytes}).issuperset


def _check_unpacked(value: Any) -> None:
    if isinstance(value, dict):
        if set(map(type, value)) <= _TEXT and _is_plain(map(type, value.values())):
            return
        for key, inner in value.items():
            if type(key) is not str:
                raise CorruptDatabase(f"a key is {type_in_words(key)} instead of str")
            _check_unpacked(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_unpacked(inner)
    elif type(value) is msgpack.Timestamp:
        raise CorruptDatabase("these bytes are not a value: unknown extension type -1")
