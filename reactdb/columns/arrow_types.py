"""Arrow's types: the type that inference chooses for each Python type, and the column of a type.

    value                     inferred type          columns of a given schema take it for
    ------------------------  ---------------------  ----------------------------------------------------------------
    bool                      bool                   bool
    int                       int64                  integers in whose range it is, decimals, float32 and double if exact
    int beyond 64 bits        decimal128(38, 0)      decimals
    float                     double                 double; float32 if exact
    Decimal                   decimal128(38, 18)     decimals with enough digits
    str, UUID, other types    string                 string, large_string
    bytes                     binary                 binary, large_binary
    date                      date32                 date32, date64
    datetime                  timestamp[us, UTC]     timestamps with a time zone: the moment is kept, the offset is not
    time                      time64[us]             time64[us]
    timedelta                 duration[us]           duration
    dict                      struct                 struct, map with keys of text
    list                      list                   list, large_list
    anything                  string, as text        string, large_string

Rule of this file: it has types and no values.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.columns.arrays import Array, Column, DecimalColumn, Float, MapColumn, Scalar, Struct, Text, Void
from reactdb.columns.inference import ANYTHING, Inference, TypeFamily, simple_types
from reactdb.errors import InvalidOption

MARK = ANYTHING.encode()


def _make_field(name: str, type_: Any, metadata: dict[str, Any]) -> Any:
    return pa.field(name, type_, metadata={key: str(value) for key, value in metadata.items()} or None)


TYPES = TypeFamily(
    simple_types(
        boolean=pa.bool_(),
        double=pa.float64(),
        text=pa.string(),
        binary=pa.binary(),
        day=pa.date32(),
        moment=pa.timestamp("us", "UTC"),
        interval=pa.duration("us"),
        clock=pa.time64("us"),
    ),
    pa.string(),
    pa.int64(),
    pa.float64(),
    pa.decimal128,
    pa.list_,
    pa.struct,
    _make_field,
)


def make_inference() -> Inference:
    """Inference of Arrow's types. A field whose values have no common type becomes text."""
    return Inference(TYPES, pa.string())


def column_of(type_: Any, *, nullable: bool = True, is_complete: bool = False) -> Column:
    """The column of an Arrow type.

    Args:
        is_complete: The type was inferred, so fields that it lacks do not fit, and neither do values that are no texts in a
            column of text.

    Raises:
        InvalidOption: No value of a document has this type.
    """
    options: dict[str, Any] = {"nullable": nullable}
    if kinds.is_struct(type_):
        return struct_of(list(type_), type_, nullable=nullable, is_complete=is_complete)
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        field = type_.value_field
        element = column_of(field.type, nullable=field.nullable, is_complete=is_complete)
        return Array(type_, element, **options)
    if kinds.is_map(type_):
        if not kinds.is_string(type_.key_type):
            raise InvalidOption(f"the keys of a map are strings, not {type_.key_type}")
        field = type_.item_field
        value = column_of(field.type, nullable=field.nullable, is_complete=is_complete)
        return MapColumn(type_, value, **options)
    if kinds.is_string(type_) or kinds.is_large_string(type_):
        return Text(type_, is_strict=is_complete, **options)
    if kinds.is_decimal(type_):
        return DecimalColumn(type_, (Decimal, int), **options)
    if kinds.is_null(type_):
        return Void(type_)
    if kinds.is_float32(type_):
        return Float(type_, (float, int), **options)
    taken = _taken_by(type_)
    if taken is None:
        raise InvalidOption(f"no value of a document is of Arrow's type {type_}")
    return Scalar(type_, taken, **options)


def struct_of(
    fields: Sequence[Any], type_: Any = None, *, nullable: bool = True, is_complete: bool = False
) -> Struct:
    """The column of a struct with these fields, or of whole documents."""
    children = [
        (
            field.name,
            column_of(
                field.type,
                nullable=field.nullable,
                is_complete=is_complete and MARK not in (field.metadata or {}),
            ),
        )
        for field in fields
    ]
    return Struct(
        pa.struct(fields) if type_ is None else type_, children, nullable=nullable, is_complete=is_complete
    )


def _taken_by(type_: Any) -> tuple[type, ...] | None:
    """The Python types that Arrow converts to this type without loss."""
    if kinds.is_boolean(type_):
        return (bool,)
    if kinds.is_integer(type_):
        return (int,)
    if kinds.is_float64(type_):
        return (float, int)
    if kinds.is_binary(type_) or kinds.is_large_binary(type_):
        return (bytes,)
    if kinds.is_date(type_):
        return (date,)
    if kinds.is_timestamp(type_) and type_.tz is not None:
        return (datetime,)
    if type_ == pa.time64("us"):
        return (time,)
    return (timedelta,) if kinds.is_duration(type_) else None


__all__ = ["TYPES", "column_of", "make_inference", "struct_of"]
