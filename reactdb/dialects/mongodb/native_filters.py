"""Native filters: conditions of a query as reactdb expressions, so that native indexes and the primary key serve it.

    {"user": 5}                    row["user"] == 5, as a range of an index on it; and all values below False, ...
    {"at": {"$gte": moment}}       the moments from there on; and ...

The ranges contain each document that the query matches; the query itself is tested afterwards. So a condition allows more than
MongoDB's: beside the wanted values it has

    arrays                         below False: an element may match
    values without a BSON type     dates, times of day, durations, types of programs, IdValues: shown as texts, numbers and others
    a little around a number       of more than 34 digits, rounded when it is shown; a millisecond's microseconds

Comparisons of MongoDB are within one type; the native ones have the bounds of that type. There is no native condition for a path
of several names, which leads through arrays; for null, which equals missing fields; for types without a native order or
equality; and for negations.

Rule of this file: a condition that is not certain is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from functools import reduce
from operator import and_, or_
from typing import Any, Final, NamedTuple
from uuid import UUID

from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId

from reactdb.dialects.mongodb import natives
from reactdb.dialects.mongodb.bson_order import is_nan, is_text, number_of
from reactdb.dialects.mongodb.entries import exchange_name
from reactdb.dialects.mongodb.field_names import parse_name
from reactdb.dialects.mongodb.values import native_value
from reactdb.expression import Expression, expr, find_index_ranges, row
from reactdb.key_spelling import SIGN
from reactdb.values.collation import key_bytes

__all__ = ["NativeCondition", "merge_ranges", "native_conditions"]

MOST_VALUES: Final = 200

Conditions = Mapping[str, Iterable[tuple[str, Any]]]


class NativeCondition(NamedTuple):
    """All conditions on one field together.

    Attributes:
        field: Its native name.
        wanted: The possible values.
        rank: 0, the field equals a value of a list; 1, it is between two values; 2, it has only a lower or an upper bound.
    """

    field: str
    wanted: Expression
    rank: int

    def ranges(self, *, is_first: bool = False) -> list[tuple[bytes, bytes]]:
        """The ranges of these documents in an index on the field, or in the primary key: start <= key bytes < stop, in order and
        disjoint.

        Args:
            is_first: The index is on several fields, and this is the first.
        """
        own = find_index_ranges(self.wanted, row[self.field])
        assert own is not None
        if not is_first:
            return merge_ranges([*((one.start, one.stop) for one in own), *_BESIDE])
        # The values of the other fields come after the bytes of this one.
        ends = [(one.start, key_bytes(one.upper) + b"\xff" if one.upper_closed else one.stop) for one in own]
        return merge_ranges([(_ARRAY + start, _ARRAY + stop) for start, stop in (*ends, *_BESIDE)])


def merge_ranges(ranges: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The same bytes in ordered, disjoint ranges."""
    disjoint: list[tuple[bytes, bytes]] = []
    for start, stop in sorted(ranges):
        if start >= stop:
            continue
        if disjoint and start <= disjoint[-1][1]:
            disjoint[-1] = disjoint[-1][0], max(stop, disjoint[-1][1])
        else:
            disjoint.append((start, stop))
    return disjoint


def native_conditions(
    conditions: Conditions,
    primary_key: str = "_id",
    *,
    has_collation: bool = False,
    is_of_elements: bool = False,
) -> list[NativeCondition]:
    """The native condition of each field.

    Args:
        conditions: By path, operators and their arguments; all of them must hold.
        primary_key: The table's primary key, whose name changes places with `_id`.
        has_collation: Text is not compared by its bytes.
        is_of_elements: Each element of an array is looked up by itself. So only one condition is used, because different elements
            may meet different conditions.
    """
    translated = []
    for path, own in conditions.items():
        if "." in path:
            continue
        name = exchange_name(parse_name(path), primary_key)
        parts: dict[str, Expression] = {}
        for operator, value in own:
            part = _part(row[name], operator, value, has_collation, is_key=name == primary_key)
            if part is not None:
                parts[operator] = parts[operator] & part if operator in parts else part
        if is_of_elements and parts:
            only = next((one for one in ("$eq", "$in") if one in parts), next(iter(parts)))
            parts = {only: parts[only]}
        if parts:
            rank = 0 if "$eq" in parts or "$in" in parts else 2 - (len({one[:3] for one in parts}) > 1)
            translated.append(NativeCondition(name, reduce(and_, parts.values()), rank))
    return translated


def _part(
    field: Expression, operator: str, value: Any, has_collation: bool, *, is_key: bool
) -> Expression | None:
    if operator == "$eq":
        values = [value]
    elif operator == "$in" and isinstance(value, (list, tuple)) and 0 < len(value) <= MOST_VALUES:
        values = list(value)
    elif operator in _COMPARED:
        values = [value]
    else:
        return None
    if has_collation and any(is_text(one) for one in values):
        return None
    say = _said_of_key if is_key else _compare
    expressions = [say(field, "$eq" if operator == "$in" else operator, one) for one in values]
    known = [one for one in expressions if one is not None]
    return reduce(or_, known) if len(known) == len(expressions) else None


_COMPARED: Final = frozenset(("$gt", "$gte", "$lt", "$lte"))
_FIRST_MOMENT: Final = datetime.min.replace(tzinfo=UTC)
# Above it are IdValues, and the types of programs; texts are above them.
_LAST_OF_MONGODB: Final = natives.DateMs(2**63 - 1)


# The first bytes of an array, the value of an index on several fields.
_ARRAY: Final = key_bytes([])[:1]
_FIELD: Final = row["a"]
_BESIDE: Final = [
    (one.start, one.stop)
    for part in (
        _FIELD < False,
        (_FIELD >= date.min) & (_FIELD < _FIRST_MOMENT),
        (_FIELD > _LAST_OF_MONGODB) & (_FIELD < ""),
    )
    for one in find_index_ranges(part, _FIELD) or ()
]
"""Values that may be shown as any value, or have any value as an element. They are always read besides the wanted values."""


def _compare(field: Expression, operator: str, value: Any) -> Expression | None:
    work = _BY_TYPE.get(type(value))
    return None if work is None else work(field, operator, value)


def _said_of_key(field: Expression, operator: str, value: Any) -> Expression | None:
    """The same of the primary key, of which texts that begin with `=` may be another key (see `entries.KEYS`)."""
    if type(value) is not str:
        return _compare(field, operator, value)
    is_above = operator in ("$gt", "$gte")
    if value[:1] == SIGN:
        if operator == "$eq":
            return None
        # A text that looks like a spelling is shown as a longer one.
        value = SIGN if is_above else _AFTER_SIGN
    said = _text(field, operator, value)
    if operator == "$eq" or (value >= _AFTER_SIGN if is_above else value <= SIGN):
        return said
    # Of these types, some keys are shown as such texts. Others are in `_BESIDE`.
    return said | ((field > None) & (field < {})) | ((field >= _FIRST_MOMENT) & (field < ""))


def _compare_bounds(
    field: Expression, operator: str, low: Any, high: Any, first: Expression, last: Expression
) -> Expression:
    """A comparison with a value between `low` and `high`. `first` and `last` are the bounds of its type."""
    if operator == "$eq" and low is high:
        expression: Any = field == low
    elif operator == "$eq":
        expression = (field >= low) & (field <= high)
    else:
        expression = (field >= low) & last if operator in ("$gt", "$gte") else first & (field <= high)
    return expr(expression)


def _bool(field: Expression, operator: str, value: bool) -> Expression:
    return _compare_bounds(field, operator, value, value, field >= False, field <= True)


def _text(field: Expression, operator: str, value: str) -> Expression:
    # Nothing is above texts.
    return _compare_bounds(field, operator, value, value, field >= "", field >= "")


_AFTER_SIGN: Final = chr(ord(SIGN) + 1)
_EXACT: Final = Context(prec=120, Emin=-999_999, Emax=999_999, traps=[])
_LEAST: Final = Decimal("1E-6176")
_GREATEST: Final = Decimal("9E+6144")


def _number(field: Expression, operator: str, value: Any) -> Expression | None:
    if is_nan(value):
        return None
    number = Decimal(number_of(value))  # type: ignore[arg-type]
    if number.is_infinite():
        low, high = (_GREATEST, float("inf")) if number > 0 else (float("-inf"), -_GREATEST)
    else:
        beside = _EXACT.add(_EXACT.multiply(abs(number), Decimal("1E-33")), _LEAST)
        low, high = _EXACT.subtract(number, beside), _EXACT.add(number, beside)
    return _compare_bounds(field, operator, low, high, field > None, field < {})


def _object_id(field: Expression, operator: str, value: ObjectId) -> Expression:
    native = natives.ObjectId(value.binary)
    least, greatest = natives.ObjectId(bytes(12)), natives.ObjectId(b"\xff" * 12)
    return _compare_bounds(field, operator, native, native, field >= least, field <= greatest)


def _date(field: Expression, operator: str, value: datetime) -> Expression | None:
    moment = native_value(value)
    moment = moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)
    try:
        last = moment + timedelta(microseconds=999)
    except OverflowError:
        return None
    expression = _compare_bounds(field, operator, moment, last, field > time.max, field < UUID(int=0))
    if operator == "$eq":
        return expression
    # Dates before the year 1 and after the year 9999.
    return expression | (field >= natives.DateMs(-(2**63))) & (field <= _LAST_OF_MONGODB)


def _binary(field: Expression, operator: str, value: Any) -> Expression | None:
    native = native_value(value)
    # BSON compares them by their length first.
    return field == native if operator == "$eq" and type(native) in (bytes, UUID) else None


_BY_TYPE: Final[dict[type, Callable[[Expression, str, Any], Expression | None]]] = {
    bool: _bool,
    str: _text,
    int: _number,
    Int64: _number,
    float: _number,
    Decimal128: _number,
    ObjectId: _object_id,
    datetime: _date,
    bytes: _binary,
    Binary: _binary,
    UUID: _binary,
}
