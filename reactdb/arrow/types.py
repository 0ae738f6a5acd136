"""Types: the type that inference chooses for each Python type, the column of a type, and a type's values.

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
    time                      time64[us]             time64
    timedelta                 duration[us]           duration
    dict                      struct                 struct, map with keys of text
    list                      list                   list
    anything                  string, as text        string, large_string; VARIANT

`values_of` is the way back: from an array to a document's values.

Rule of this file: it chooses by types. `arrays` and `rows` do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.arrow.arrays import (
    Array,
    Coarse,
    Column,
    DecimalColumn,
    Empty,
    Float,
    MapColumn,
    Scalar,
    Struct,
    Text,
    Void,
)
from reactdb.arrow.inference import ANYTHING, CONFLICT, OTHER_MARK, make_field
from reactdb.arrow.rows import (
    Values,
    check_names,
    lists_of,
    maps_of,
    plain,
    structs_of,
    times,
    timestamps_of,
)
from reactdb.arrow.variant import Variant, is_variant
from reactdb.errors import InvalidDocument, InvalidOption

MARK, CONFLICT_MARK = ANYTHING.encode(), CONFLICT.encode()
OTHERS_MARK = OTHER_MARK.encode()


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """What columns do beyond their types.

    Attributes:
        is_complete: The types were inferred, so fields that they lack do not fit, and neither do values that are no texts in a
            column of text.
        takes_guesses: A text that was chosen for a field without values (its metadata has the mark ANYTHING) takes anything
            later. False: only null, {} and [] fit, because the caller infers again with other values.
        keeps_rest: See `arrays.Column.fit`.
        texts: Types that a column of text takes, too, where it takes texts alone.
        name_of: The name of a type in messages.
    """

    is_complete: bool = False
    takes_guesses: bool = False
    keeps_rest: bool = False
    texts: frozenset[type] = frozenset()
    name_of: Callable[[Any], str] = str


USER = ColumnRules()
INFERRED = ColumnRules(is_complete=True)


def column_of(type_: Any, rules: ColumnRules = USER, *, nullable: bool = True) -> Column:
    """The column of an Arrow type.

    Raises:
        InvalidOption: No value of a document has this type.
    """
    name = rules.name_of(type_)
    if is_variant(type_):
        return Variant(type_, name, nullable=nullable)
    if kinds.is_struct(type_):
        return struct_of(list(type_), rules, type_, nullable=nullable)
    if kinds.is_list(type_):
        inner = type_.value_field
        element = column_of(inner.type, rules, nullable=inner.nullable)
        return Array(type_, element, name, nullable=nullable, keeps_rest=rules.keeps_rest)
    if kinds.is_map(type_):
        if not kinds.is_string(type_.key_type):
            raise InvalidOption(f"the keys of a map are strings, not {rules.name_of(type_.key_type)}")
        inner = type_.item_field
        value = column_of(inner.type, rules, nullable=inner.nullable)
        return MapColumn(type_, value, name, nullable=nullable, keeps_rest=rules.keeps_rest)
    if kinds.is_string(type_) or kinds.is_large_string(type_):
        return Text(type_, name, nullable=nullable, is_strict=rules.is_complete, also=rules.texts)
    if kinds.is_decimal(type_):
        return DecimalColumn(type_, (Decimal, int), name, nullable=nullable)
    if kinds.is_null(type_):
        return Void(type_, name)
    if kinds.is_float32(type_):
        return Float(type_, (float, int), name, nullable=nullable)
    taken = _taken_by(type_)
    if taken is None:
        raise InvalidOption(f"no value of a document is of type {name}")
    if getattr(type_, "unit", None) in ("s", "ms") and not kinds.is_date(type_):
        exact = pa.duration("us") if kinds.is_duration(type_) else pa.timestamp("us", type_.tz)
        return Coarse(type_, taken, exact, name, nullable=nullable)
    return Scalar(type_, taken, name, nullable=nullable)


def struct_of(
    fields: Sequence[Any], rules: ColumnRules = USER, type_: Any = None, *, nullable: bool = True
) -> Struct:
    """The column of a struct with these fields, or of whole documents."""
    others = [field.name for field in fields if OTHERS_MARK in (field.metadata or {})]
    children = [(field.name, _column_of_field(field, rules)) for field in fields]
    arrow = pa.struct(fields) if type_ is None else type_
    return Struct(
        arrow,
        children,
        rules.name_of(arrow),
        nullable=nullable,
        is_complete=rules.is_complete,
        keeps_rest=rules.keeps_rest,
        other=others[0] if others else None,
    )


def _column_of_field(field: Any, rules: ColumnRules) -> Column:
    marks = field.metadata or {}
    is_marked = rules.is_complete and MARK in marks
    column = column_of(
        field.type, replace(rules, is_complete=False) if is_marked else rules, nullable=field.nullable
    )
    is_guess = is_marked and CONFLICT_MARK not in marks and not rules.takes_guesses
    return Empty(column) if is_guess else column


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
    if kinds.is_time64(type_):
        return (time,)
    return (timedelta,) if kinds.is_duration(type_) else None


def unseen_field(name: str) -> Any:
    """The field that inference gives for a name without any value."""
    return make_field(name, pa.string(), {ANYTHING: True})


# ---------------------------------------------------------------------------------------------------------------
# From arrays to values


def values_of(type_: Any, place: str) -> Values:
    """The function that turns an array of this type into a list of a document's values. A null field of a struct is left out.

    Args:
        place: The column, for errors.

    Raises:
        InvalidOption: Documents have no values of this type.
    """
    if kinds.is_struct(type_):
        fields = list(type_)
        names = check_names([field.name for field in fields], f"the structs of column {place}")
        makers = [values_of(field.type, f"{place}.{field.name}") for field in fields]
        return structs_of(names, makers, keeps_nulls=False)
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        return lists_of(values_of(type_.value_type, f"{place}[]"))
    if kinds.is_fixed_size_list(type_):
        inner = values_of(pa.list_(type_.value_type), place)
        return lambda column: inner(column.cast(pa.list_(type_.value_type)))
    if kinds.is_map(type_):
        if not (kinds.is_string(type_.key_type) or kinds.is_large_string(type_.key_type)):
            raise InvalidOption(
                f"column {place} is a map with keys of type {type_.key_type}; a document has keys of text: cast them"
            )
        return maps_of(values_of(type_.item_type, f"{place}{{}}"))
    if kinds.is_dictionary(type_):
        decoded = values_of(type_.value_type, place)
        return lambda column: decoded(column.dictionary_decode())
    if kinds.is_timestamp(type_):
        if type_.tz is None:
            raise InvalidOption(
                f"column {place} has times without a time zone, which name no moment: give it one, in pandas with "
                f'frame["{place}"].dt.tz_localize("UTC"), in polars with dt.replace_time_zone("UTC")'
            )
        return exactly(place, timestamps_of(place))
    if kinds.is_time(type_):
        return exactly(place, times)
    if kinds.is_duration(type_):
        return exactly(place, lambda column: list(column.cast(pa.duration("us")).to_pylist()))
    if kinds.is_float16(type_):
        return lambda column: list(column.cast(pa.float64()).to_pylist())
    if _is_plain(type_):
        return plain
    raise InvalidOption(f"column {place} is of type {type_}: documents have no such values: cast it")


def exactly(place: str, make: Values) -> Values:
    """The same function. Arrow refuses to cut off nanoseconds, and its error is told in our words."""

    def values(column: Any) -> list[Any]:
        try:
            return make(column)
        except pa.ArrowInvalid:
            raise InvalidDocument(
                f"column {place} has times with nanoseconds, and a document holds microseconds: round them, in pandas "
                'and in polars with dt.round("1us")'
            ) from None

    return values


def _is_plain(type_: Any) -> bool:
    return any(
        is_kind(type_)
        for is_kind in (
            kinds.is_null,
            kinds.is_boolean,
            kinds.is_integer,
            kinds.is_floating,
            kinds.is_decimal,
            kinds.is_string,
            kinds.is_large_string,
            kinds.is_string_view,
            kinds.is_binary,
            kinds.is_large_binary,
            kinds.is_binary_view,
            kinds.is_fixed_size_binary,
            kinds.is_date,
        )
    ) or str(type_).startswith("extension<arrow.uuid")


__all__ = ["INFERRED", "USER", "ColumnRules", "column_of", "struct_of", "unseen_field", "values_of"]
