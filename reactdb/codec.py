"""Documents and their bytes: the one place where a value is checked, packed, unpacked, frozen and printed.

A document is a dict with str keys. Its values are None, bool, int, float, str, bytes, lists and dicts of
those, and what the table below adds. The bytes are MessagePack, written and read with one fixed set of
options, and these extension types, whose numbers and layouts are part of the file format and never change
(all big-endian):

    ext  value                 layout
    ---  --------------------  ----------------------------------------------------------------------------
    1    int beyond 64 bits    two's complement, as few bytes as hold the sign; at most 1,024
    2    Decimal               its text in ASCII: sign, digits and exponent as given, trailing zeros included
    3    UUID                  16 bytes
    4    date                  u32, days; 0001-01-01 is 1
    5    time                  u64, microseconds since midnight; without a time zone
    6    timedelta             i32 days, u32 seconds, u32 microseconds, normalised as Python does
    7    datetime              i64, microseconds since 1970-01-01 UTC; then, unless it is zero, the offset
                               from UTC as i32 seconds. Comes back with a fixed offset

What comes back equals what was given, and encodes to the same bytes. Some spellings become the common one
on the way in: a tuple is a list; a subclass of a type above is that type; bytearray and memoryview are
bytes; a named time zone is its offset at that moment. NaN, the infinities and -0.0 are kept bit for bit.
What could not come back equal is refused by `InvalidDocument`, which says where: keys that are not str,
text with lone surrogates, datetimes without a time zone, times with one, sets, other objects, and
everything beyond the limits below.

Rule of this file: bytes that were not written by `encode` raise `CorruptDatabase`, never something stranger.
"""

from __future__ import annotations

import json
import struct
import threading
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from typing import Any, Final, Never, cast
from uuid import UUID
from zlib import adler32

import msgpack

from reactdb.errors import CorruptDatabase, InvalidDocument

__all__ = [
    "MAX_DECIMAL_DIGITS",
    "MAX_DECIMAL_EXPONENT",
    "MAX_DEPTH",
    "MAX_DOCUMENT_BYTES",
    "MAX_INT_BITS",
    "FrozenDict",
    "FrozenList",
    "decode",
    "decode_frozen",
    "decode_value",
    "encode",
    "encode_value",
    "freeze",
    "pretty",
    "same",
    "same_bytes",
    "thaw",
]

MAX_DEPTH: Final = 100
"""Containers inside one another, the document itself being the first. The packer's own bound is 511."""

MAX_DOCUMENT_BYTES: Final = 16 * 1024 * 1024
"""Of the encoded document. Under SQLite's bound for a blob, and what one change may cost a feed's reader."""

MAX_INT_BITS: Final = 8_191
"""1,024 bytes with the sign. That is 2,466 digits; Python prints up to 4,300."""

MAX_DECIMAL_DIGITS: Final = 4_096
MAX_DECIMAL_EXPONENT: Final = 2_000_000
"""Twice what Python's default context can compute with: any result of decimal arithmetic may be stored."""

_INT, _DECIMAL, _UUID, _DATE, _TIME, _TIMEDELTA, _DATETIME = range(1, 8)


# -----------------------------------------------------------------------------------------------------------
# Encoding
#
# Most documents are plain: exact base types all the way down. Those are checked by a loop that knows no
# paths, and packed by a reused packer. Documents that also have extension types are packed by a new packer,
# which calls back. Whatever is left is walked once more by `_normalise`, which either finds a plain form or
# knows the path to complain about.

_PLAIN = frozenset({str, int, float, bool, type(None), bytes, bytearray})
_all_plain = _PLAIN.issuperset

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


def encode(document: dict[str, Any]) -> bytes:
    """The bytes of a document.

    The document is not kept and not changed: what the caller does to it later reaches nobody.

    Raises:
        InvalidDocument: It could not come back equal, or is beyond a limit; `path` says where.
    """
    if type(document) is dict and _all_plain(map(type, document.values())):
        try:
            "".join(document)  # the quickest way to ask whether all keys are str
            data = _own.pack(document)
        except _PACK_ERRORS:
            return _encode_carefully(document)
        return data if len(data) < _KEPT_BUFFER_BYTES else _within_size(data)
    if not isinstance(document, dict):
        raise InvalidDocument(f"a document is a dict, not a value {_type_in_words(document)}")
    return encode_value(document)


def encode_value(value: Any) -> bytes:
    """The bytes of any value that a document may hold; the rules are those of `encode`."""
    scan = _Scan(_FEW_VALUES)
    try:
        scan.look_at((value,), MAX_DEPTH + 1)
        if scan.left < 0:
            _measure(value, [], {})
            scan = _Scan(MAX_DOCUMENT_BYTES)
            scan.look_at((value,), MAX_DEPTH + 1)
        if scan.unusual:
            return _encode_carefully(value)
        data = msgpack.packb(value, default=_to_ext) if scan.extended else _own.pack(value)
    except InvalidDocument:
        raise
    except _PACK_ERRORS:
        return _encode_carefully(value)
    return data if len(data) < _KEPT_BUFFER_BYTES else _within_size(data)


_PACK_ERRORS = (TypeError, ValueError, OverflowError)


def _encode_carefully(value: Any) -> bytes:
    _measure(value, [], {})
    path: _Path = []
    try:
        normalised = _normalise(value, path)
    except Refused as refused:
        raise InvalidDocument(str(refused), tuple(path)) from None
    return _within_size(_own.pack(normalised))


def _within_size(data: bytes) -> bytes:
    if len(data) >= _KEPT_BUFFER_BYTES:
        _own.renew()
        if len(data) > MAX_DOCUMENT_BYTES:
            raise InvalidDocument(f"{len(data):,} bytes when encoded; the limit is {MAX_DOCUMENT_BYTES:,}")
    return data


# More values than that are counted first, so that an endless walk is never begun.
_FEW_VALUES: Final = 100_000


class _Scan:
    """What a quick look at a value finds: extension types, or something for which `_normalise` is needed.

    `left` is how many more values may be looked at; below zero, the look was broken off.
    """

    __slots__ = ("extended", "left", "unusual")

    def __init__(self, left: int) -> None:
        self.extended = False
        self.unusual = False
        self.left = left

    def look_at(self, values: Collection[Any], depth: int) -> None:
        """Look at these values, the contents of one container; `TypeError` where a key is not str."""
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
            elif kind in _TO_EXT:
                self.extended = True
            else:
                self.unusual = True
            if self.unusual:
                return


_Path = list[str | int]


def _measure(value: Any, path: _Path, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many values there are in this one, and how many levels; `InvalidDocument` beyond the limits.

    A container that is held in many places is counted everywhere and walked once (`known`, by identity), so
    this ends soon also for sixty lists that hold each other twice, which are 2**60 values.
    """
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
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
    if isinstance(value, dict):
        normalised = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                raise Refused(f"keys are str; {_shortly(key)} is {_type_in_words(key)}")
            try:
                name = _text(key)
            except Refused as refused:
                raise Refused(f"in a key, {refused}") from None
            path.append(name)
            normalised[name] = _normalise(inner, path)
            path.pop()
        return normalised
    if isinstance(value, (list, tuple)) and kind is not msgpack.ExtType:
        elements = []
        for index, inner in enumerate(value):
            path.append(index)
            elements.append(_normalise(inner, path))
            path.pop()
        return elements
    for base, convert in _CONVERSIONS:
        if isinstance(value, base):
            return convert(value)
    raise Refused(_why_not(value))


class Refused(ValueError):
    """Why a value, wherever it stands, is not one of ours; whoever knows where makes it a public error."""


def _text(value: str) -> str:
    plain = str.__str__(value)
    try:
        plain.encode()
    except UnicodeEncodeError as error:
        raise Refused(f"the text has a lone surrogate at character {error.start}; UTF-8 has none") from None
    return plain


def _int(value: int) -> Any:
    plain = int.__int__(value)
    if -(2**63) <= plain < 2**64:
        return plain
    check_int(plain)
    return msgpack.ExtType(_INT, _int_bytes(plain))


def check_int(value: int) -> None:
    if value.bit_length() > MAX_INT_BITS:
        raise Refused(f"an int of {value.bit_length():,} bits; the limit is {MAX_INT_BITS:,}")


def _int_bytes(value: int) -> bytes:
    # One bit for the sign; ~value because -2**63 needs no more bits than 2**63 - 1.
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) // 8, "big", signed=True)


def _decimal(value: Decimal) -> Any:
    plain = Decimal(value)
    check_decimal(plain)
    return msgpack.ExtType(_DECIMAL, _decimal_text(plain).encode())


# Not str(): whether that writes E or e is up to the context of the thread.
_decimal_text = Context(capitals=1).to_sci_string


def check_decimal(value: Decimal) -> None:
    _sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise Refused(f"a Decimal is a finite number; {value!s:.20} is not")
    if len(digits) > MAX_DECIMAL_DIGITS:
        raise Refused(f"a Decimal of {len(digits):,} digits; the limit is {MAX_DECIMAL_DIGITS:,}")
    if abs(exponent) > MAX_DECIMAL_EXPONENT:
        raise Refused(f"a Decimal with exponent {exponent:,}; the limit is ±{MAX_DECIMAL_EXPONENT:,}")


def _datetime(value: datetime) -> Any:
    instant, offset_seconds = instant_and_offset(value)
    data = _PACK_ZONED(instant, offset_seconds) if offset_seconds else _PACK_INSTANT(instant)
    return msgpack.ExtType(_DATETIME, data)


def instant_and_offset(value: datetime) -> tuple[int, int]:
    """Microseconds since 1970-01-01 UTC, and the offset in seconds; `Refused` if there is no such thing."""
    if value.tzinfo is UTC and type(value) is datetime:  # what most are, and all are after decoding
        return microseconds_of(value - _EPOCH), 0
    if getattr(value, "nanosecond", 0):
        raise Refused("a datetime is exact to the microsecond; this one has nanoseconds")
    try:
        offset = value.utcoffset()
    except Exception as error:  # the caller's own tzinfo
        raise Refused(f"the datetime's time zone failed: {error!r}") from None
    if not isinstance(offset, timedelta):
        raise Refused("a datetime without a time zone names no moment; set tzinfo, e.g. timezone.utc")
    if offset.microseconds:
        raise Refused("a datetime's offset from UTC is whole seconds")
    # Not `value - _EPOCH`: that asks the time zone a second time, which costs as much as all the rest.
    instant = microseconds_of(value.replace(tzinfo=None) - _NAIVE_EPOCH - offset)
    if not _MIN_INSTANT <= instant <= _MAX_INSTANT:
        raise Refused("the datetime is outside the years 1 to 9999 in UTC")
    return instant, offset.days * 86_400 + offset.seconds


def _time(value: time) -> Any:
    return msgpack.ExtType(_TIME, _PACK_TIME(microseconds_since_midnight(value)))


def microseconds_since_midnight(value: time) -> int:
    if value.tzinfo is not None:
        raise Refused("a time of day has no time zone here, since its offset may depend on the date")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _timedelta(value: timedelta) -> Any:
    if getattr(value, "nanoseconds", 0):
        raise Refused("a timedelta is exact to the microsecond; this one has nanoseconds")
    return msgpack.ExtType(_TIMEDELTA, _PACK_TIMEDELTA(value.days, value.seconds, value.microseconds))


def microseconds_of(duration: timedelta) -> int:
    return (duration.days * 86_400 + duration.seconds) * 1_000_000 + duration.microseconds


_NAIVE_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_INSTANT: Final = microseconds_of(datetime.min - _NAIVE_EPOCH)
_MAX_INSTANT: Final = microseconds_of(datetime.max - _NAIVE_EPOCH)

_PACK_INSTANT = struct.Struct(">q").pack
_PACK_ZONED = struct.Struct(">qi").pack
_PACK_TIME = struct.Struct(">Q").pack
_PACK_DATE = struct.Struct(">I").pack
_PACK_TIMEDELTA = struct.Struct(">iII").pack

# In this order: a datetime is also a date. (bool cannot be subclassed and is done before.)
_CONVERSIONS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (int, _int),
    (str, _text),
    (float, float.__float__),
    (datetime, _datetime),
    (Decimal, _decimal),
    (UUID, lambda value: msgpack.ExtType(_UUID, value.bytes)),
    (date, lambda value: msgpack.ExtType(_DATE, _PACK_DATE(value.toordinal()))),
    (time, _time),
    (timedelta, _timedelta),
    ((bytes, bytearray), lambda value: bytes(memoryview(value))),
    (memoryview, memoryview.tobytes),
)


_TO_EXT: dict[type, Callable[[Any], Any]] = {
    base: convert
    for base, convert in _CONVERSIONS
    if base in (int, datetime, Decimal, UUID, date, time, timedelta) and isinstance(base, type)
}


def _to_ext(value: Any) -> Any:
    # An int comes here only when it is beyond what the packer can write.
    convert = _TO_EXT.get(type(value))
    if convert is None:
        raise Refused(_why_not(value))
    return convert(value)


def _type_in_words(value: object) -> str:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"of type {name}"


def _shortly(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _why_not(value: object) -> str:
    # A class may bring its own sentence: the bounds of `collation` do.
    reason = getattr(type(value), "refused_as_value", None)
    if isinstance(reason, str):
        return reason
    if isinstance(value, (set, frozenset)):
        return "a set has no order that could be kept; make it a list"
    return f"a value {_type_in_words(value)} cannot be stored"


# -----------------------------------------------------------------------------------------------------------
# Decoding


def decode(data: bytes) -> dict[str, Any]:
    """The document of these bytes: fresh dicts and lists, the caller's to change.

    Raises:
        CorruptDatabase: Not a document's bytes.
    """
    try:
        document = _unpack(data, ext_hook=_from_ext)
    except _UNPACK_ERRORS as error:
        raise _corrupt(error) from error
    # What the unpacker lets pass and we do not: keys of bytes and MessagePack's own timestamps. Both show
    # as one of these bytes, which other data has too, so the second look comes only after the quick one.
    if 0xFF in data or 0xC4 in data or 0xC5 in data or 0xC6 in data:
        _check_unpacked(document)
    if type(document) is not dict:
        raise CorruptDatabase(f"a document was expected, not a value {_type_in_words(document)}")
    return document


def decode_frozen(data: bytes) -> FrozenDict:
    """The document of these bytes, to be shared: it refuses to be changed.

    Raises:
        CorruptDatabase: Not a document's bytes.
    """
    try:
        document = _unpack(data, object_hook=FrozenDict, list_hook=FrozenList, ext_hook=_from_ext)
    except _UNPACK_ERRORS as error:
        raise _corrupt(error) from error
    if 0xFF in data or 0xC4 in data or 0xC5 in data or 0xC6 in data:
        _check_unpacked(document)
    if type(document) is not FrozenDict:
        raise CorruptDatabase(f"a document was expected, not a value {_type_in_words(document)}")
    return document


def decode_value(data: bytes) -> Any:
    """The value of these bytes, as `encode_value` wrote it.

    Raises:
        CorruptDatabase: Not a value's bytes.
    """
    try:
        value = _unpack(data, ext_hook=_from_ext)
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


def _check_unpacked(value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if type(key) is not str:
                raise CorruptDatabase(f"a key is {_type_in_words(key)} instead of str")
            _check_unpacked(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_unpacked(inner)
    elif type(value) is msgpack.Timestamp:
        raise CorruptDatabase("these bytes are not a value: unknown extension type -1")


def _from_ext(code: int, data: bytes) -> Any:
    try:
        read = _READERS[code]
    except KeyError:
        raise ValueError(f"unknown extension type {code}") from None
    try:
        return read(data)
    except (struct.error, UnicodeDecodeError, ArithmeticError, ValueError) as error:
        raise ValueError(f"extension type {code} with {bytes(data[:40])!r}: {error}") from None


def _read_int(data: bytes) -> int:
    value = int.from_bytes(data, "big", signed=True)
    if -(2**63) <= value < 2**64 or value.bit_length() > MAX_INT_BITS or _int_bytes(value) != data:
        raise ValueError("not the shortest form of a big int")
    return value


def _read_decimal(data: bytes) -> Decimal:
    text = data.decode("ascii")
    value = Decimal(text)
    if not value.is_finite() or _decimal_text(value) != text:
        raise ValueError("not a Decimal's own text")
    return value


def _read_uuid(data: bytes) -> UUID:
    return UUID(bytes=data)


def _read_date(data: bytes) -> date:
    (days,) = struct.unpack(">I", data)
    return date.fromordinal(days)


def _read_time(data: bytes) -> time:
    (microseconds,) = struct.unpack(">Q", data)
    return time_of_day(microseconds)


def time_of_day(microseconds: int) -> time:
    """The time so many microseconds after midnight; ValueError beyond the day."""
    seconds, microsecond = divmod(microseconds, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return time(hour, minute, second, microsecond)


def _read_timedelta(data: bytes) -> timedelta:
    days, seconds, microseconds = struct.unpack(">iII", data)
    if seconds >= 86_400 or microseconds >= 1_000_000:
        raise ValueError("not normalised")
    return timedelta(days, seconds, microseconds)


def _read_datetime(data: bytes) -> datetime:
    if len(data) == 8:
        (instant,) = struct.unpack(">q", data)
        return _EPOCH + timedelta(microseconds=instant)
    instant, seconds = struct.unpack(">qi", data)
    if not seconds:
        raise ValueError("an offset of zero is not written")
    if not _MIN_INSTANT <= instant <= _MAX_INSTANT:
        raise ValueError("outside the years 1 to 9999 in UTC")
    offset = timedelta(seconds=seconds)
    wall = _NAIVE_EPOCH + (timedelta(microseconds=instant) + offset)
    return wall.replace(tzinfo=timezone(offset))


_READERS: dict[int, Callable[[bytes], Any]] = {
    _INT: _read_int,
    _DECIMAL: _read_decimal,
    _UUID: _read_uuid,
    _DATE: _read_date,
    _TIME: _read_time,
    _TIMEDELTA: _read_timedelta,
    _DATETIME: _read_datetime,
}


# -----------------------------------------------------------------------------------------------------------
# Documents that many readers share

_SHARED: Final = "this document is shared by all readers of the feed; change a copy: reactdb.thaw(document)"


def _refuse(*_args: object, **_options: object) -> Never:
    raise TypeError(_SHARED)


class FrozenDict(dict[str, Any]):
    """A dict that can only be read. It equals a plain dict, and copying, in any way, makes a plain one.

    `copy()` copies one level; `reactdb.thaw`, `copy.deepcopy` and `pickle` all levels.
    """

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def copy(self) -> dict[str, Any]:
        return dict(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return cast(dict[str, Any], thaw(self))

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return dict, (dict(self),)

    @classmethod
    def fromkeys(cls, keys: Iterable[str], value: Any = None) -> dict[str, Any]:  # type: ignore[override]
        return dict.fromkeys(keys, value)


class FrozenList(list[Any]):
    """A list that can only be read. It equals a plain list, and copying, in any way, makes a plain one."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def copy(self) -> list[Any]:
        return list(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return cast(list[Any], thaw(self))

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return list, (list(self),)


def thaw(value: Any) -> Any:
    """A copy of the value, or of a document, in plain dicts and lists that may be changed."""
    if isinstance(value, dict):
        return {key: thaw(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [thaw(inner) for inner in value]
    return value


def freeze(value: Any) -> Any:
    """A read-only copy of a value whose leaves are already as a document holds them."""
    if type(value) is FrozenDict or type(value) is FrozenList:
        return value
    if isinstance(value, dict):
        return FrozenDict({key: freeze(inner) for key, inner in value.items()})
    if isinstance(value, (list, tuple)):
        return FrozenList([freeze(inner) for inner in value])
    return value


# -----------------------------------------------------------------------------------------------------------
# Equality


def same(left: Any, right: Any) -> bool:
    """Whether two values are stored alike: 0, 0.0 and False differ, the order of a dict's keys is nothing.

    Raises:
        InvalidDocument: One of them could not be stored.
    """
    return left is right or same_bytes(encode_value(left), encode_value(right))


def same_bytes(left: bytes, right: bytes) -> bool:
    """Whether two encoded values are the same value; equal bytes are the quick case."""
    if left == right:
        return True
    # Another order of keys has the same bytes in other places: as many of them, and the same sum. Most changes differ
    # there already. (The low half of an Adler-32 checksum is the sum, modulo a prime: RFC 1950, section 8.)
    if len(left) != len(right) or (adler32(left) ^ adler32(right)) & 0xFFFF:
        return False
    return encode_value(_with_sorted_keys(decode_value(left))) == encode_value(
        _with_sorted_keys(decode_value(right))
    )


def _with_sorted_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_sorted_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_with_sorted_keys(inner) for inner in value]
    return value


# -----------------------------------------------------------------------------------------------------------
# Printing


def pretty(value: Any) -> str:
    """The value as ReQL prints it in messages: JSON with tabs and sorted keys, `{\\n\\t"id":\\t1\\n}`.

    ReQL has one type of number: 1.0 is printed as `1`. What JSON cannot say is a pseudotype, as on ReQL's
    wire.
    """
    return _pretty(value, "\n")


def _pretty(value: Any, newline: str) -> str:
    if isinstance(value, dict):
        if not value:
            return "{}"
        inward = newline + "\t"
        items = [f"{_json(str(key))}:\t{_pretty(value[key], inward)}" for key in sorted(value)]
        return "{" + inward + ("," + inward).join(items) + newline + "}"
    if isinstance(value, (list, tuple)):
        if not value:
            return "[]"
        inward = newline + "\t"
        return "[" + inward + ("," + inward).join([_pretty(inner, inward) for inner in value]) + newline + "]"
    if value is None or isinstance(value, (bool, str)):
        return _json(value)
    if isinstance(value, float):
        # An exact integer is printed as one, as far as all of its digits mean something.
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(float(value))
    if isinstance(value, (int, Decimal)):
        return _number_text(value)
    return _pretty_pseudotype(value, newline)


_json = json.JSONEncoder(ensure_ascii=False).encode


def _number_text(value: int | Decimal) -> str:
    if isinstance(value, int):
        return int.__repr__(value) if value.bit_length() <= MAX_INT_BITS else hex(value)
    return _decimal_text(value)


def _seconds_of(duration: timedelta) -> Decimal | int:
    seconds, fraction = divmod(microseconds_of(duration), 1_000_000)
    if not fraction:
        return seconds
    return Decimal(f"{Decimal(f'{microseconds_of(duration)}E-6'):f}".rstrip("0"))


def _pretty_pseudotype(value: Any, newline: str) -> str:
    if isinstance(value, datetime):
        offset = value.utcoffset() or timedelta(0)
        # Rounded to a millisecond, as ReQL keeps its times.
        seconds = round(microseconds_of(value.replace(tzinfo=None) - _NAIVE_EPOCH - offset) / 1_000_000, 3)
        zone = value.strftime("%z") or "+0000"
        shown: dict[str, Any] = {"TIME": None, "epoch_time": seconds, "timezone": f"{zone[:3]}:{zone[3:5]}"}
    elif isinstance(value, (bytes, bytearray, memoryview)):
        shown = {"BINARY": None, "data": b64encode(value).decode()}
    elif isinstance(value, UUID):
        shown = {"UUID": None, "uuid": str(value)}
    elif isinstance(value, date):
        shown = {"DATE": None, "date": value.isoformat()}
    elif isinstance(value, time):
        shown = {"LOCALTIME": None, "time": value.isoformat()}
    elif isinstance(value, timedelta):
        shown = {"DURATION": None, "seconds": _seconds_of(value)}
    else:
        return repr(value)
    name = next(iter(shown))
    del shown[name]
    return _pretty({"$reql_type$": name, **shown}, newline)
