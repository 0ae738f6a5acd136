"""VARIANT: a value as the two byte strings of Spark's VARIANT, with the types of everything in it.

It is made directly from Python's values: JSON text in between would lose the types of Decimals, dates and bytes, and take three
times as long. UUIDs, times of day and durations (in seconds), for which VARIANT has no type, become strings. Numbers of more than
38 digits and values of 16 MiB and more are refused.

Rule of this file: a value becomes its two byte strings, or an error says why it cannot.

Source: Parquet's Variant Binary Encoding, version 1; pyspark's `variant_utils` for what Spark reads of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.arrow.arrays import Column, Misfit, nulls_of
from reactdb.json import plain_text
from reactdb.values.scalars import EPOCH, microseconds_of

# As PySpark and Parquet have it: the mark tells it from a user's struct with two fields of these names.
VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
MOST_BYTES = (1 << 24) - 1
MOST_DIGITS = 38
SHORT = 0x3F
NULL, TRUE, FALSE = b"\x00", b"\x04", b"\x08"
INT1, INT2, INT4, INT8 = (bytes([number << 2]) for number in (3, 4, 5, 6))
DOUBLE, DATE, TIMESTAMP, BINARY, LONG_TEXT = (bytes([number << 2]) for number in (7, 11, 12, 15, 16))
# A null of VARIANT, which is under the mask of a null row.
_NULL = (b"\x00", b"\x01\x00\x00")
DECIMALS = ((9, 4, 8 << 2), (18, 8, 9 << 2), (38, 16, 10 << 2))
FIRST_DAY = date(1970, 1, 1).toordinal()

Pack = Callable[[bytes, Any], bytes]
_int2: Pack = struct.Struct("<ch").pack
_int4: Pack = struct.Struct("<ci").pack
_int8: Pack = struct.Struct("<cq").pack
_double: Pack = struct.Struct("<cd").pack
_sized: Pack = struct.Struct("<cI").pack


def is_variant(type_: Any) -> bool:
    """Whether this Arrow type is VARIANT's."""
    return bool(kinds.is_struct(type_) and type_.equals(VARIANT, check_metadata=True))


class Variant(Column):
    """VARIANT: anything; its bytes carry the type of each value."""

    def convert(self, values: Sequence[Any]) -> Any:
        self.kinds_of(values)
        try:
            made = [_NULL if value is None else variant_of(value) for value in values]
        except ValueError as error:
            raise Misfit(str(error)) from None
        value_field, metadata_field = self.arrow
        return pa.StructArray.from_arrays(
            [
                pa.array([pair[0] for pair in made], value_field.type),
                pa.array([pair[1] for pair in made], metadata_field.type),
            ],
            fields=[value_field, metadata_field],
            mask=nulls_of(values),
        )


def variant_of(value: Any) -> tuple[bytes, bytes]:
    """(value, metadata) of a document or any value in one.

    Raises:
        ValueError: VARIANT cannot hold it.
    """
    kind = type(value)
    if kind is not dict and kind is not list:
        return _encode(value, {}), _metadata(())
    names: set[str] = set()
    _collect(value, names)
    ordered = tuple(sorted(names, key=_order))
    return _encode(value, {name: place for place, name in enumerate(ordered)}), _metadata(ordered)


def _collect(value: Any, names: set[str]) -> None:
    if type(value) is dict:
        names.update(value)
        for inner in value.values():
            if type(inner) is dict or type(inner) is list:
                _collect(inner, names)
    elif type(value) is list:
        for inner in value:
            if type(inner) is dict or type(inner) is list:
                _collect(inner, names)


def _order(name: str) -> bytes | str:
    # Java looks names up by binary search and compares them by UTF-16.
    return name.encode("utf-16-be")


@lru_cache(maxsize=256)
def _metadata(names: tuple[str, ...]) -> bytes:
    texts = [name.encode() for name in names]
    size = sum(map(len, texts))
    width = _width(max(size, len(texts)))
    parts = [bytes([1 | (width - 1) << 6]), len(texts).to_bytes(width, "little")]
    end = 0
    for text in texts:
        parts.append(end.to_bytes(width, "little"))
        end += len(text)
    return b"".join((*parts, end.to_bytes(width, "little"), *texts))


@lru_cache(maxsize=256)
def _layout(names: tuple[str, ...]) -> tuple[str, ...]:
    """The fields of an object in the order in which they are encoded."""
    return tuple(sorted(names, key=_order))


def _encode(value: Any, ids: dict[str, int]) -> bytes:
    kind = type(value)
    if kind is str:
        data: bytes = value.encode()
        return (
            bytes([len(data) << 2 | 1]) + data if len(data) <= SHORT else _sized(LONG_TEXT, len(data)) + data
        )
    if value is None:
        return NULL
    if kind is bool:
        return TRUE if value else FALSE
    if kind is int:
        return _int(value)
    if kind is float:
        return _double(DOUBLE, value)
    if kind is dict:
        return _object(value, ids)
    if kind is list:
        return _array([_encode(inner, ids) for inner in value])
    if kind is datetime:
        return _int8(TIMESTAMP, microseconds_of(value - EPOCH))
    if kind is date:
        return _int4(DATE, value.toordinal() - FIRST_DAY)
    if kind is Decimal:
        return _decimal(value)
    if isinstance(value, bytes):
        return _sized(BINARY, len(value)) + value
    return _encode(plain_text(value), ids)


def _int(value: int) -> bytes:
    if -0x80 <= value <= 0x7F:
        return INT1 + value.to_bytes(1, "little", signed=True)
    if -0x8000 <= value <= 0x7FFF:
        return _int2(INT2, value)
    if -0x8000_0000 <= value <= 0x7FFF_FFFF:
        return _int4(INT4, value)
    if -(2**63) <= value < 2**63:
        return _int8(INT8, value)
    return _decimal(Decimal(value)) if abs(value) < 10**MOST_DIGITS else _too_long(value)


def _too_long(value: object) -> bytes:
    raise ValueError(f"VARIANT holds numbers of at most {MOST_DIGITS} digits, which this one does not fit")


def _decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    if scale > MOST_DIGITS or len(digits) + max(0, exponent) > MOST_DIGITS:
        return _too_long(value)
    unscaled: int = int("".join(map(str, digits))) * 10 ** int(max(0, exponent))
    size = max(scale, len(str(unscaled)))
    for most, width, header in DECIMALS:
        if size <= most:
            number = -unscaled if sign else unscaled
            return bytes([header, scale]) + number.to_bytes(width, "little", signed=True)
    return _too_long(value)


def _object(value: dict[str, Any], ids: dict[str, int]) -> bytes:
    names = _layout(tuple(value))
    parts = [_encode(value[name], ids) for name in names]
    size = sum(map(len, parts))
    id_width, width = _width(len(ids)), _width(size)
    is_large = len(names) > 0xFF
    head = [
        bytes([2 | (width - 1) << 2 | (id_width - 1) << 4 | is_large << 6]),
        len(names).to_bytes(4 if is_large else 1, "little"),
        b"".join([ids[name].to_bytes(id_width, "little") for name in names]),
    ]
    return b"".join((*head, _offsets(parts, width), *parts))


def _array(parts: list[bytes]) -> bytes:
    width = _width(sum(map(len, parts)))
    is_large = len(parts) > 0xFF
    head = bytes([3 | (width - 1) << 2 | is_large << 4]) + len(parts).to_bytes(4 if is_large else 1, "little")
    return b"".join((head, _offsets(parts, width), *parts))


def _offsets(parts: list[bytes], width: int) -> bytes:
    ends = [0]
    end = 0
    for part in parts:
        end += len(part)
        ends.append(end)
    if width == 1:
        return bytes(ends)
    return b"".join([place.to_bytes(width, "little") for place in ends])


def _width(most: int) -> int:
    if most <= 0xFF:
        return 1
    if most <= 0xFFFF:
        return 2
    if most <= MOST_BYTES:
        return 3
    raise ValueError("VARIANT holds values of less than 16 MiB")
