"""Documents and their bytes: the one place where a value is checked and packed. `decode` reads the bytes.

A document is a dict with str keys. Its values are None, bool, int, float, str, bytes, lists and dicts of those, and
Decimals, UUIDs, dates, times, timedeltas and datetimes. The bytes are MessagePack, written and read with one fixed
set of options; values that MessagePack lacks are written as the extension types of `extension_types`.

A decoded document equals the original, and encodes to the same bytes. Some spellings become the common one on the way
in: a tuple is a list; a subclass of a type above is that type; bytearray and memoryview are bytes; a named time zone
is its offset at that moment. NaN, the infinities and -0.0 are kept bit for bit. A value that could not come back
equal is refused with `InvalidDocument`, which names the place: keys that are not str, text with lone surrogates,
datetimes without a time zone, times with one, sets, other objects, and everything beyond the limits, here and in
`scalars`.

Rule of this file: `encode` returns the bytes of its argument as of one single moment, and `decode` reads them back.
An impossible argument raises `InvalidDocument`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timezone, tzinfo
from functools import partial
from operator import eq
from typing import Any, Final
from zlib import adler32

import msgpack

from reactdb.errors import CorruptDatabase, InvalidDocument, describe_type, format_value
from reactdb.values.decode import decode, decode_frozen, decode_many, decode_many_frozen, decode_value
from reactdb.values.extension_types import EXTENSION_WRITERS, UnknownValue, find_for_base
from reactdb.values.frozen import FrozenDict, FrozenList, freeze, thaw
from reactdb.values.refusals import explain_refusal
from reactdb.values.reql_text import pretty
from reactdb.values.scalars import MAX_DECIMAL_DIGITS, MAX_DECIMAL_EXPONENT, MAX_INT_BITS, Refused

# Names of the modules below are exported from here too, so that the library imports everything about documents from one module.
__all__ = [
    "MAX_DECIMAL_DIGITS",
    "MAX_DECIMAL_EXPONENT",
    "MAX_DEPTH",
    "MAX_DOCUMENT_BYTES",
    "MAX_INT_BITS",
    "FrozenDict",
    "FrozenList",
    "UnknownValue",
    "check_extent",
    "decode",
    "decode_frozen",
    "decode_many",
    "decode_many_frozen",
    "decode_value",
    "encode",
    "encode_again",
    "encode_foreign",
    "encode_many",
    "encode_value",
    "freeze",
    "is_flat",
    "plain_name",
    "pretty",
    "same",
    "same_bytes",
    "same_in_order",
    "thaw",
    "with_sorted_keys",
]

MAX_DEPTH: Final = 100
"""How deep containers may be nested; the document itself is level one. The packer's own limit is 511."""

MAX_DOCUMENT_BYTES: Final = 16 * 1024 * 1024
"""The size limit of an encoded document. It is below SQLite's limit for a blob, and it bounds a reader's cost of one
change."""


# -----------------------------------------------------------------------------------------------------------
# Encoding
#
# Most documents are plain: exact base types all the way down. A loop without paths checks them, and a reused packer
# packs them. Documents that also have extension types are packed by a new packer, which calls back. All others are
# walked once more by `_normalise`, which either finds a plain form or the path for the error.

_PLAIN = frozenset({str, int, float, bool, type(None), bytes})
_all_plain = _PLAIN.issuperset
_TEXT = frozenset({str})

# Kept per thread while small: a packer never gives back the buffer it has grown.
_KEPT_BUFFER_BYTES: Final = 1024 * 1024


class _ThreadsPacker(threading.local):
    """One reused packer a thread (a packer is not thread-safe): 0.1 µs less per document than a new one."""

    pack: Callable[[object], bytes]

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        # No `default=`: called back from inside `pack`, it could pack something else into the same buffer.
        self.pack = msgpack.Packer(use_bin_type=True).pack


_own = _ThreadsPacker()

ExtensionWriter = Callable[[Any], Any]
"""The form of a value for the packer: an extension type, or a plain int."""


def is_flat(value: Any) -> bool:
    """Whether this is a plain dict with plain keys and without containers among its values: such values come back as
    they are.
    """
    if type(value) is not dict:
        return False
    # As a loop, because `all` of a generator takes twice as long.
    for name, one in value.items():  # noqa: SIM110
        if type(name) is not str or type(one) not in _PLAIN:
            return False
    return True


def encode(document: dict[str, Any]) -> bytes:
    """The bytes of a document.

    The document is neither kept nor changed: a later mutation by the caller has no effect.

    Raises:
        InvalidDocument: It could not come back equal, or is beyond a limit; `path` says where.
    """
    if type(document) is dict:
        try:
            "".join(document)  # the quickest check that all keys are str
            if _left_of(MOST_PLAIN, document.values(), None, 8) >= 0:
                data = _own.pack(document)
                return data if len(data) < _KEPT_BUFFER_BYTES else _check_size(data)
        except _PACK_ERRORS:
            return _encode_carefully(document)
    elif not isinstance(document, dict):
        raise InvalidDocument(f"a document is a dict, not a value {describe_type(document)}")
    return _encode_scanned(document)


def encode_foreign(
    document: dict[str, Any], writers: Mapping[type, ExtensionWriter], no: str
) -> bytes | None:
    """The bytes of a document of base types, and of another library's types for our extension types. None where it
    has another value, is large, nested deep or cannot be encoded, or has one of the characters `no` in a key.

    Args:
        writers: For each of those types the function that makes an extension type of its values. It raises TypeError
            or ValueError for a value that needs another treatment.
    """
    foreign = _Foreign(writers)
    try:
        foreign.names.append("".join(document))
        if _left_of(MOST_PLAIN, document.values(), foreign, 8) < 0:
            return None
        names = "".join(foreign.names)
        # As a loop, because `any` of a generator takes three times as long.
        for one in no:
            if one in names:
                return None
        values = foreign.values
        data = _pack_with_extensions(document, values, writers) if values else _own.pack(document)
    except _PACK_ERRORS:
        return None
    return data if len(data) < _KEPT_BUFFER_BYTES else None


class _Foreign:
    """Further arguments of a walk by `_left_of`.

    Attributes:
        writers: The types that are no reason to end the walk.
        values: The values of such types, in order.
        names: The keys of each dict, as one text.
    """

    __slots__ = ("names", "values", "writers")

    def __init__(self, writers: Mapping[type, ExtensionWriter]) -> None:
        self.writers = writers
        self.values: list[Any] = []
        self.names: list[str] = []


# Documents with more values are looked through in another way, which cannot be made to take long.
MOST_PLAIN: Final = 10_000


def _left_of(left: int, values: Collection[Any], foreign: _Foreign | None, levels: int) -> int:
    """Count plain values in nested containers: `left` minus their number. The result is below zero where there are
    too many, they are nested too deep, or one is not plain. `TypeError` where a key is not str.

    Most documents pass this check; `_Scan`, which knows all other cases, takes twice the time.
    """
    left -= len(values)
    for value in values:
        kind = type(value)
        if kind in _PLAIN:
            continue
        if kind is dict:
            keys = "".join(value)
            if foreign is not None:
                foreign.names.append(keys)
            value = value.values()
        elif kind is not list:
            if foreign is None or kind not in foreign.writers:
                return -1
            foreign.values.append(value)
            continue
        if left < len(value):
            return -1
        if _all_plain(map(type, value)):
            left -= len(value)
        elif levels:
            left = _left_of(left, value, foreign, levels - 1)
        else:
            return -1
    return left


def encode_again(document: dict[str, Any]) -> bytes:
    """The bytes of a document that came from `decode`, is not shared, and had plain values replaced by plain values only."""
    try:
        data = _own.pack(document)
    except _PACK_ERRORS:
        return encode(document)
    return data if len(data) < _KEPT_BUFFER_BYTES else _check_size(data)


def encode_many(documents: list[Any], name: str) -> tuple[list[bytes], list[Any]] | None:
    """The bytes of each of many documents, and each one's value of the field `name`. Equal to `encode` one by one,
    but without a call for each plain document. None where a document is no plain dict, lacks the field, or was
    changed during the call.

    Raises:
        InvalidDocument: For the first document that cannot be encoded.
    """
    bodies: list[bytes] = []
    values: list[Any] = []
    add, note, join, pack, most = bodies.append, values.append, "".join, _own.pack, _KEPT_BUFFER_BYTES
    # All work on one document is done before the next, while it is in the processor's cache: that saves more than
    # half.
    for document in documents:
        if type(document) is not dict or name not in document:
            return None
        value = document[name]
        if _all_plain(map(type, document.values())):
            try:
                join(document)
                data = pack(document)
            except _PACK_ERRORS:
                data = encode(document)
                pack = _own.pack
            if len(data) >= most:
                data = _check_size(data)
                pack = _own.pack
        else:
            data = encode(document)
        if document.get(name) is not value:
            return None
        add(data)
        note(value)
    return bodies, values


def encode_value(value: Any) -> bytes:
    """The bytes of any value of a document; the rules are those of `encode`."""
    try:
        if type(value) in _PLAIN or _left_of(MOST_PLAIN, (value,), None, 8) >= 0:
            data = _own.pack(value)
            return data if len(data) < _KEPT_BUFFER_BYTES else _check_size(data)
    except _PACK_ERRORS:
        return _encode_carefully(value)
    return _encode_scanned(value)


def _encode_scanned(value: Any) -> bytes:
    """The same for a value that is not plain."""
    scan = _Scan(_FEW_VALUES)
    try:
        scan.look_at((value,), MAX_DEPTH + 1)
        if scan.left < 0:
            _measure(value, [], {})
            scan = _Scan(MAX_DOCUMENT_BYTES)
            scan.look_at((value,), MAX_DEPTH + 1)
        if scan.unusual:
            return _encode_carefully(value)
        data = _pack_with_extensions(value, scan.extensions) if scan.extensions else _own.pack(value)
    except InvalidDocument:
        raise
    except _PACK_ERRORS:
        return _encode_carefully(value)
    return data if len(data) < _KEPT_BUFFER_BYTES else _check_size(data)


# RuntimeError: a dict that changes its size while it is looked at.
_PACK_ERRORS = (TypeError, ValueError, OverflowError, RuntimeError)


def _pack_with_extensions(
    value: Any, values: list[Any], writers: Mapping[type, ExtensionWriter] = EXTENSION_WRITERS
) -> bytes:
    """Pack a value in which these parts need an extension type, in the order in which the packer meets them.

    They are converted beforehand and handed over by `next`, which is C, so that no other Python code runs while the
    packer works: it writes how long a list is before it writes the list, and another thread might change it in
    between.
    """
    converted = iter([writers[type(one)](one) for one in values])
    # `next(converted, one)`: after the last of them, the packer gets back its own argument, and raises. Its usual
    # buffer is so large that the system clears the memory for each.
    data: bytes = msgpack.Packer(default=partial(next, converted), buf_size=4_096).pack(value)
    if next(converted, None) is not None:
        raise ValueError("it was changed meanwhile")
    return data


def _encode_carefully(value: Any) -> bytes:
    """Encode a private copy, which neither another thread nor a method of the caller's class can change any more."""
    path: _Path = []
    try:
        _measure(value, [], {})
        normalised = _normalise(value, path)
    except Refused as refused:
        raise InvalidDocument(str(refused), tuple(path)) from None
    except RuntimeError as error:
        if isinstance(error, RecursionError):
            raise
        raise InvalidDocument("it was changed while it was being read", tuple(path)) from None
    data = _check_size(_own.pack(normalised))
    try:
        decode_value(data)
    except CorruptDatabase as error:
        # For example a subclass of UUID that lies about its bytes. It is rare, so reading back here is cheap enough.
        raise InvalidDocument(f"it could not be read back ({error})") from None
    return data


def _check_size(data: bytes) -> bytes:
    if len(data) >= _KEPT_BUFFER_BYTES:
        _own.renew()
        if len(data) > MAX_DOCUMENT_BYTES:
            raise InvalidDocument(f"{len(data):,} bytes when encoded; the limit is {MAX_DOCUMENT_BYTES:,}")
    return data


# Containers with more values than this are counted before they are walked, so that no endless walk begins.
_FEW_VALUES: Final = 100_000


class _Scan:
    """The result of a quick walk through a value: its extension types, or whether `_normalise` is needed.

    `left` is how many more values may be walked; below zero the walk was stopped.
    """

    __slots__ = ("extensions", "left", "unusual")

    def __init__(self, left: int) -> None:
        self.extensions: list[Any] = []
        self.unusual = False
        self.left = left

    def look_at(self, values: Collection[Any], depth: int) -> None:
        """Check these values, the contents of one container; `TypeError` where a key is not str."""
        self.left -= len(values)
        if depth == 0 or self.left < 0:
            self.unusual = True
            return
        for value in values:
            kind = type(value)
            if kind in _PLAIN:
                continue
            if kind is list or kind is tuple or kind is FrozenList:
                self.look_at(value, depth - 1)
            elif kind is dict or kind is FrozenDict:
                "".join(value)
                self.look_at(value.values(), depth - 1)
            elif kind in EXTENSION_WRITERS and not (kind is datetime and _is_foreign(value.tzinfo)):
                self.extensions.append(value)
            else:
                self.unusual = True
            if self.unusual:
                return


def _is_foreign(zone: tzinfo | None) -> bool:
    """Whether asking this time zone for its offset runs the caller's code, which might change the document during the walk."""
    kind = type(zone)
    return not (zone is None or kind is timezone or kind.__module__ == "zoneinfo")


_Path = list[str | int]


def _contents(value: Any) -> Collection[tuple[Any, Any]] | None:
    """The keys or indexes of a container with their values, copied now; None if it is no container.

    Subclasses are read by the methods of their base class, since an overridden iteration may give something else each time.
    """
    if isinstance(value, dict):
        return list((OrderedDict if isinstance(value, OrderedDict) else dict).items(value))
    if isinstance(value, list):
        return list(enumerate(list.__getitem__(value, slice(None))))
    if isinstance(value, tuple) and type(value) is not msgpack.ExtType:
        return list(enumerate(tuple.__getitem__(value, slice(None))))
    return None


def check_extent(value: Any) -> None:
    """Raise InvalidDocument where a value is nested too deep, contains itself, or has too many values, before it is walked."""
    if isinstance(value, (dict, list, tuple)):
        _measure(value, [], {})


def _measure(value: Any, path: _Path, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """The number of values in this one, and of its levels; `InvalidDocument` beyond the limits.

    A container that is held in many places is counted everywhere and walked once (`known`, by identity), so this ends
    soon also for sixty lists that hold each other twice, which are 2**60 values.
    """
    items = _contents(value)
    if items is None:
        return 1, 0
    if id(value) in known:
        count, levels = known[id(value)]
    else:
        # While it is being walked, it counts as too deep: to meet it again is to be inside itself.
        known[id(value)] = 0, MAX_DEPTH + 1
        count, levels = 1, 1
        if len(path) < MAX_DEPTH:
            for key, inner in items:
                path.append(key)
                inner_count, inner_levels = _measure(inner, path, known)
                path.pop()
                count += inner_count
                levels = max(levels, inner_levels + 1)
        known[id(value)] = count, levels
    if len(path) + levels > MAX_DEPTH:
        raise InvalidDocument(f"nested more than {MAX_DEPTH} levels deep, or inside itself", tuple(path))
    if count > MAX_DOCUMENT_BYTES:
        # Every value takes a byte at least.
        raise InvalidDocument(f"more than {MAX_DOCUMENT_BYTES:,} bytes when encoded, which is the limit")
    return count, levels


def _normalise(value: Any, path: _Path) -> Any:
    """The value in exact base types and extension types; or `Refused`, and `path` is where."""
    kind = type(value)
    if value is None or kind is bool or kind is float or kind is bytes:
        return value
    contents = _contents(value)
    if contents is not None and len(path) >= MAX_DEPTH:
        # Not so when it was measured.
        raise Refused(f"nested more than {MAX_DEPTH} levels deep, or inside itself")
    if isinstance(value, dict):
        normalised = {}
        for key, inner in contents or ():
            if not isinstance(key, str):
                raise Refused(f"keys are str; {format_value(key)} is {describe_type(key)}")
            try:
                name = _text(key)
            except Refused as refused:
                raise Refused(f"in a key, {refused}") from None
            path.append(name)
            normalised[name] = _normalise(inner, path)
            path.pop()
        return normalised
    if contents is not None:
        elements = []
        for index, inner in contents:
            path.append(index)
            elements.append(_normalise(inner, path))
            path.pop()
        return elements
    convert = find_for_base(EXTENSION_WRITERS, kind) or find_for_base(_CONVERSIONS, kind)
    if convert is None:
        raise Refused(explain_refusal(value))
    try:
        return convert(value)
    except Refused:
        raise
    except Exception as error:  # a method of the caller's class
        raise Refused(f"a value {describe_type(value)} failed: {type(error).__name__}") from None


def plain_name(name: Any) -> Any:
    """A key as an exact str. A key of another type is returned as it is, so that it is refused with its path."""
    return str.__str__(name) if isinstance(name, str) else name


def _text(value: str) -> str:
    plain = str.__str__(value)
    try:
        plain.encode()
    except UnicodeEncodeError as error:
        raise Refused(f"the text has a lone surrogate at character {error.start}; UTF-8 has none") from None
    return plain


# Of types that need no extension type. (bool cannot be subclassed and is done before.)
_CONVERSIONS: dict[type, Callable[[Any], Any]] = {
    str: _text,
    float: float.__float__,
    bytes: lambda value: bytes(memoryview(value)),
    bytearray: lambda value: bytes(memoryview(value)),
    memoryview: memoryview.tobytes,
}


# -----------------------------------------------------------------------------------------------------------
# Equality


def same(left: Any, right: Any, *, sees_order: bool = False) -> bool:
    """Whether two values are stored alike: 0, 0.0 and False differ.

    Args:
        sees_order: Also the order of a dict's keys matters, which it does not otherwise.

    Raises:
        InvalidDocument: One of them could not be stored.
    """
    is_same = same_in_order if sees_order else same_bytes
    return left is right or is_same(encode_value(left), encode_value(right))


same_in_order: Callable[[bytes, bytes], bool] = eq
"""Whether two encoded values are the same, the keys of dicts in the same order: whether their bytes are equal."""


def same_bytes(left: bytes, right: bytes) -> bool:
    """Whether two encoded values are the same, whatever the order of keys; equal bytes are the quick case."""
    if left == right:
        return True
    # Another order of keys has the same bytes in other places: as many of them, and the same sum. Most changes differ
    # there already. (The low half of an Adler-32 checksum is the sum, modulo a prime: RFC 1950, section 8.)
    if len(left) != len(right) or (adler32(left) ^ adler32(right)) & 0xFFFF:
        return False
    return encode_value(with_sorted_keys(decode_value(left))) == encode_value(
        with_sorted_keys(decode_value(right))
    )


def with_sorted_keys(value: Any) -> Any:
    """The value with the keys of every dict in order."""
    if isinstance(value, dict):
        return {key: with_sorted_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [with_sorted_keys(inner) for inner in value]
    return value
