"""Decode: from the bytes that `codec` wrote back to documents.

    decode           fresh dicts and lists, the caller's to change
    decode_frozen    shared ones, which refuse changes
    decode_many, decode_many_frozen    the same of many, in less time
    decode_value     any value

Rule of this file: bytes that were not written by `encode` raise `CorruptDatabase`, never something stranger.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgpack

from reactdb.errors import CorruptDatabase, describe_type
from reactdb.values.extension_types import read_extension
from reactdb.values.frozen import FrozenDict, FrozenList


def decode(data: bytes) -> dict[str, Any]:
    """The document of these bytes: fresh dicts and lists, the caller's to change.

    Raises:
        CorruptDatabase: Not a document's bytes.
    """
    try:
        document = _unpack(data, ext_hook=read_extension)
    except _UNPACK_ERRORS as error:
        raise _corruption_error(error) from error
    # The unpacker accepts keys of bytes and MessagePack's own timestamps, and a document has neither. Both contain
    # one of these bytes; other data may contain them too, so the full check runs only where one is present.
    if 0xFF in data or 0xC4 in data or 0xC5 in data or 0xC6 in data:
        _check_unpacked(document)
    if type(document) is not dict:
        raise CorruptDatabase(f"a document was expected, not a value {describe_type(document)}")
    return document


def decode_frozen(data: bytes) -> FrozenDict:
    """The document of these bytes, to be shared: it refuses to be changed.

    Raises:
        CorruptDatabase: Not a document's bytes.
    """
    try:
        document = _unpack(data, object_hook=FrozenDict, list_hook=FrozenList, ext_hook=read_extension)
    except _UNPACK_ERRORS as error:
        raise _corruption_error(error) from error
    if 0xFF in data or 0xC4 in data or 0xC5 in data or 0xC6 in data:
        _check_unpacked(document)
    if type(document) is not FrozenDict:
        raise CorruptDatabase(f"a document was expected, not a value {describe_type(document)}")
    return document


# A random number stands between documents that are decoded with one call, so that a document with damaged bytes
# cannot swallow bytes of the next one unnoticed.
_FENCE = b"\xcf\xff" + os.urandom(7)
_FENCE_NUMBER = int.from_bytes(_FENCE[1:], "big")
# These options refuse byte strings and extension types, even empty ones. All other values need no check after unpacking.
_PLAIN = {"max_bin_len": -2, "max_ext_len": -2}
_FROZEN = {"object_hook": FrozenDict, "list_hook": FrozenList, **_PLAIN}


def decode_many(bodies: Sequence[bytes]) -> list[dict[str, Any]]:
    """Equal to `decode` of each. Where all documents are plain, one call decodes all of them in three quarters of the time.

    Raises:
        CorruptDatabase: The bytes are not all documents.
    """
    documents = _decode_together(bodies, dict, _PLAIN)
    return list(map(decode, bodies)) if documents is None else documents


def decode_many_frozen(bodies: Sequence[bytes]) -> list[FrozenDict]:
    """Equal to `decode_frozen` of each."""
    documents = _decode_together(bodies, FrozenDict, _FROZEN)
    return list(map(decode_frozen, bodies)) if documents is None else documents


def _decode_together(bodies: Sequence[bytes], kind: type, how: dict[str, Any]) -> list[Any] | None:
    """The documents, decoded as one list; None where one of them is not a plain document."""
    count = 2 * len(bodies) - 1
    if count < 3:
        return None
    try:
        unpacked = _unpack(b"\xdd%b%b" % (count.to_bytes(4, "big"), _FENCE.join(bodies)), **how)
    except _UNPACK_ERRORS:
        return None
    if unpacked[1::2].count(_FENCE_NUMBER) != len(bodies) - 1:
        return None
    documents: list[Any] = unpacked[::2]
    return documents if set(map(type, documents)) == {kind} else None


def decode_value(data: bytes) -> Any:
    """The value of these bytes, as `encode_value` wrote it.

    Raises:
        CorruptDatabase: Not a value's bytes.
    """
    try:
        value = _unpack(data, ext_hook=read_extension)
    except _UNPACK_ERRORS as error:
        raise _corruption_error(error) from error
    if 0xFF in data or 0xC4 in data or 0xC5 in data or 0xC6 in data:
        _check_unpacked(value)
    return value


_unpack = msgpack.unpackb
# TypeError: a map whose key is a map. OverflowError, ArithmeticError: numbers inside an extension type.
_UNPACK_ERRORS = (ValueError, TypeError, ArithmeticError, msgpack.UnpackException, RecursionError)


def _corruption_error(error: Exception) -> CorruptDatabase:
    if isinstance(error, msgpack.ExtraData):
        return CorruptDatabase("there are bytes behind the end of the value")
    return CorruptDatabase(
        f"these bytes are not a value: {error!s:.200}" if str(error) else "these bytes are not a value"
    )


# Values that contain no others.
_TEXT = frozenset({str})
_PLAIN_TYPES = frozenset({str, int, float, bool, type(None), bytes})
_is_plain = _PLAIN_TYPES.issuperset


def _check_unpacked(value: Any) -> None:
    if isinstance(value, dict):
        if set(map(type, value)) <= _TEXT and _is_plain(map(type, value.values())):
            return
        for key, inner in value.items():
            if type(key) is not str:
                raise CorruptDatabase(f"a key is {describe_type(key)} instead of str")
            if type(inner) not in _PLAIN_TYPES:
                _check_unpacked(inner)
    elif isinstance(value, list):
        for inner in value:
            if type(inner) not in _PLAIN_TYPES:
                _check_unpacked(inner)
    elif type(value) is msgpack.Timestamp:
        raise CorruptDatabase("these bytes are not a value: unknown extension type -1")
