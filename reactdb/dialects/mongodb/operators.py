"""Operators of updates: the change of the value at an operator's path.

    modifier = OPERATORS["$inc"]("a.b", 5, context)     MongoError: no document can take this operand
    modifier.work(1, moment)            6; KEPT for no change, MISSING for a removed value

The value of a missing field is MISSING. Operators that do not create fields (`$unset`, `$pull` ...) are then not called.

Rule of this file: it sees one value, and knows neither the document nor the path. `$rename` concerns two paths and is in
`updates`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.regex import Regex
from bson.timestamp import Timestamp

from reactdb.budget import spend, spend_value
from reactdb.clock import now as read_clock
from reactdb.dialects.mongodb.bson_order import (
    MISSING,
    TextKey,
    compare,
    equal,
    identical,
    sort_key,
    type_name,
)
from reactdb.dialects.mongodb.conditions import equals, matches_pattern
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter, is_operators
from reactdb.dialects.mongodb.numeric import (
    INT64_MAX,
    INT64_MIN,
    add_numbers,
    is_number,
    multiply_numbers,
    whole,
)
from reactdb.dialects.mongodb.paths import is_place, split
from reactdb.dialects.mongodb.values import date_of_ms, is_document, ms_of_date

__all__ = ["KEPT", "OPERATORS", "Context", "Modifier", "Moment"]


class _Kept:
    __slots__ = ()

    def __repr__(self) -> str:
        return "KEPT"


KEPT: Final = _Kept()
"""The result of a modifier without a change."""


class Context(NamedTuple):
    """The shared context of an update's operators.

    Attributes:
        text: The collation, if there is one.
        variables: The command's variables.
        tick: Returns cluster times, each only once; None without a clock.
    """

    text: TextKey | None = None
    variables: Mapping[str, Any] = {}
    tick: Callable[[], Timestamp] | None = None


class Moment:
    """The time of an update: read at most once, so that all its dates are equal. Its timestamps all differ."""

    def __init__(self, now: datetime | None = None, tick: Callable[[], Timestamp] | None = None) -> None:
        """`tick`: returns cluster times; without it, timestamps have the time of the date."""
        self._now = now
        self._tick = tick
        self._ticks = 0

    def date(self) -> Any:
        if self._now is None:
            self._now = read_clock()
        return date_of_ms(ms_of_date(self._now))

    def timestamp(self) -> Timestamp:
        if self._tick is not None:
            return self._tick()
        self._ticks += 1
        return Timestamp(ms_of_date(self.date()) // 1_000, self._ticks)


Work = Callable[[Any, Moment], Any]


class Modifier(NamedTuple):
    """One operator with its operand.

    Attributes:
        work: A function from the old value to the new one, KEPT or MISSING.
        creates: It makes a missing path.
        only_inserts: It applies only to the insert of an upsert.
        appends: Whether it only appends to a given array.
        needs_viable_path: A scalar within the path is an error, though nothing would be made.
    """

    work: Work
    creates: bool = True
    only_inserts: bool = False
    appends: Callable[[list[Any]], bool] | None = None
    needs_viable_path: bool = False


def _keep_if_same(old: Any, new: Any) -> Any:
    return KEPT if old is not MISSING and identical(old, new) else new


# -----------------------------------------------------------------------------------------------------------
# Values


def _set(path: str, operand: Any, context: Context) -> Modifier:
    return Modifier(lambda value, moment: _keep_if_same(value, operand))


def _set_on_insert(path: str, operand: Any, context: Context) -> Modifier:
    return Modifier(lambda value, moment: _keep_if_same(value, operand), only_inserts=True)


def _unset(path: str, operand: Any, context: Context) -> Modifier:
    return Modifier(lambda value, moment: MISSING, creates=False)


def _keep_number_if_same(old: Any, new: Any) -> Any:
    """The result of arithmetic: KEPT if the number is equal and of the same type, with either sign of zero."""
    return KEPT if type(old) is type(new) and equal(old, new) else _keep_if_same(old, new)


def _inc(path: str, operand: Any, context: Context) -> Modifier:
    if not is_number(operand):
        raise MongoError(14, f"Cannot increment with non-numeric argument: {{{path}: {operand!r:.60}}}")

    def work(value: Any, moment: Moment) -> Any:
        if value is MISSING:
            return operand
        _check_number("$inc", path, value)
        return _keep_number_if_same(value, _in_range("$inc", add_numbers(value, operand), value, operand))

    return Modifier(work)


_ZEROS: Final[dict[type, Any]] = {int: 0, Int64: Int64(0), float: 0.0, Decimal128: Decimal128("0")}


def _mul(path: str, operand: Any, context: Context) -> Modifier:
    if not is_number(operand):
        raise MongoError(14, f"Cannot multiply with non-numeric argument: {{{path}: {operand!r:.60}}}")

    def work(value: Any, moment: Moment) -> Any:
        if value is MISSING:
            return multiply_numbers(_ZEROS[type(operand)], operand)
        _check_number("$mul", path, value)
        return _keep_number_if_same(
            value, _in_range("$mul", multiply_numbers(value, operand), value, operand)
        )

    return Modifier(work)


def _check_number(name: str, path: str, value: Any) -> None:
    if not is_number(value):
        raise MongoError(
            14,
            f"Cannot apply {name} to a value of non-numeric type. The field '{path}' has the type {type_name(value)}",
        )


def _in_range(name: str, result: Any, value: Any, operand: Any) -> Any:
    if type(result) is float and isinstance(value, int) and isinstance(operand, int):
        raise MongoError(2, f"Failed to apply {name} operations to current value ({value}): beyond 64 bits")
    return result


def _extreme(sign: int) -> Callable[[str, Any, Context], Modifier]:
    def make(path: str, operand: Any, context: Context) -> Modifier:
        def work(value: Any, moment: Moment) -> Any:
            if value is MISSING or compare(operand, value, context.text) == sign:
                return operand
            return KEPT

        return Modifier(work)

    return make


def _current_date(path: str, operand: Any, context: Context) -> Modifier:
    wanted: Any = "date"
    if is_document(operand):
        unknown = [name for name in operand if name != "$type"]
        if unknown:
            raise MongoError(2, f"Unrecognized $currentDate option: {unknown[0]}")
        wanted = operand.get("$type")
        if wanted not in ("date", "timestamp"):
            raise MongoError(
                2, "The '$type' string field is required to be 'date' or 'timestamp' in $currentDate"
            )
    elif type(operand) is not bool:
        raise MongoError(
            2,
            f"{type_name(operand)} is not valid type for $currentDate. Please use a boolean ('true') or "
            "a $type expression ({$type: 'timestamp/date'}).",
        )
    if wanted == "date":
        return Modifier(lambda value, moment: _keep_if_same(value, moment.date()))
    return Modifier(lambda value, moment: _keep_if_same(value, moment.timestamp()))


_BITWISE: Final[dict[str, Callable[[int, int], int]]] = {
    "and": int.__and__,
    "or": int.__or__,
    "xor": int.__xor__,
}


def _bit(path: str, operand: Any, context: Context) -> Modifier:
    if not is_document(operand):
        raise MongoError(
            2,
            f"The $bit modifier is not compatible with a {type_name(operand)}. "
            "You must pass in an embedded document: {$bit: {field: {and/or/xor: #}}",
        )
    if not operand:
        raise MongoError(2, f"You must pass in at least one bitwise operation for the field '{path}'")
    for name, number in operand.items():
        if name not in _BITWISE:
            raise MongoError(2, f"The $bit modifier only supports 'and', 'or', and 'xor', not '{name}'")
        if type(number) not in (int, Int64):
            raise MongoError(
                2, f"The $bit modifier field must be an Integer(32/64 bit); a '{type_name(number)}' is not"
            )

    def work(value: Any, moment: Moment) -> Any:
        result = 0 if value is MISSING else value
        if type(result) not in (int, Int64):
            raise MongoError(
                2,
                f"Cannot apply $bit to a value of non-integral type. "
                f"The field '{path}' has the type {type_name(result)}",
            )
        is_long = type(result) is Int64
        for name, number in operand.items():
            is_long = is_long or type(number) is Int64
            result = _BITWISE[name](int(result), int(number))
        return _keep_if_same(value, Int64(result) if is_long or not -(2**31) <= result < 2**31 else result)

    return Modifier(work)


# -----------------------------------------------------------------------------------------------------------
# Arrays


def _push(path: str, operand: Any, context: Context) -> Modifier:
    if not (is_document(operand) and "$each" in operand):
        return _push_modifier(path, [operand], None, None, None)
    unknown = [name for name in operand if name not in ("$each", "$position", "$sort", "$slice")]
    if unknown:
        raise MongoError(2, f"Unrecognized clause in $push: {unknown[0]}")
    each = operand["$each"]
    if type(each) is not list:
        raise MongoError(
            2, f"The argument to $each in $push must be an array but it was of type: {type_name(each)}"
        )
    order = None
    if "$sort" in operand:
        order = _element_order(operand["$sort"], context.text)
    return _push_modifier(path, each, _integer("$position", operand), order, _integer("$slice", operand))


def _integer(name: str, operand: Mapping[str, Any]) -> int | None:
    if name not in operand:
        return None
    number = whole(operand[name])
    if number is None:
        raise MongoError(
            2, f"The value for {name} must be an integer value but was given type: {type_name(operand[name])}"
        )
    return max(INT64_MIN, min(number, INT64_MAX))


def _push_modifier(
    path: str,
    each: list[Any],
    position: int | None,
    order: Callable[[list[Any]], list[Any]] | None,
    most: int | None,
) -> Modifier:
    def work(value: Any, moment: Moment) -> Any:
        if value is not MISSING and type(value) is not list:
            raise MongoError(
                2, f"The field '{path}' must be an array but is of type {type_name(value)} in the document"
            )
        old = list(value) if type(value) is list else []
        spend(len(old) + len(each))
        place = len(old) if position is None else position
        made = [*old[:place], *each, *old[place:]]
        if order is not None:
            made = order(made)
        if most is not None:
            made = made[:most] if most >= 0 else made[most:]
        return _keep_if_same(value, made)

    def appends(old: list[Any]) -> bool:
        trims = most is not None and len(old) + len(each) > abs(most)
        is_last = position is None or position > len(old)
        return bool(old) and order is None and is_last and not trims

    return Modifier(work, appends=appends)


def _element_order(spec: Any, text: TextKey | None) -> Callable[[list[Any]], list[Any]]:
    if not is_document(spec):
        way = whole(spec)
        if way not in (1, -1):
            raise MongoError(
                2,
                "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields",
            )
        return lambda values: sorted(values, key=lambda value: sort_key(value, text), reverse=way == -1)
    if not spec:
        raise MongoError(2, "The $sort pattern is empty when it should be a set of fields.")
    fields: list[tuple[tuple[str, ...], bool]] = []
    for path, direction in spec.items():
        if whole(direction) not in (1, -1):
            raise MongoError(2, "The $sort element value must be either 1 or -1")
        if not all(split(path)):
            raise MongoError(2, f"The $sort field is a dotted field but has an empty part: {path}")
        fields.append((split(path), whole(direction) == -1))

    def ordered(values: list[Any]) -> list[Any]:
        made = list(values)
        for parts, goes_down in reversed(fields):
            spend_value(made)
            made.sort(key=lambda value: sort_key(_inner(value, parts), text), reverse=goes_down)
        return made

    return ordered


def _inner(value: Any, parts: tuple[str, ...]) -> Any:
    for part in parts:
        if type(value) is dict:
            value = value.get(part)
        elif type(value) is list and is_place(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _add_to_set(path: str, operand: Any, context: Context) -> Modifier:
    each = [operand]
    if is_document(operand) and next(iter(operand), "") == "$each":
        each = operand["$each"]
        if type(each) is not list:
            raise MongoError(
                14,
                f"The argument to $each in $addToSet must be an array but it was of type {type_name(each)}",
            )
        if len(operand) > 1:
            raise MongoError(2, f"Found unexpected fields after $each in $addToSet: {list(operand)[1]}")

    def work(value: Any, moment: Moment) -> Any:
        if value is not MISSING and type(value) is not list:
            raise MongoError(
                2,
                f"Cannot apply $addToSet to non-array field. "
                f"Field named '{path}' has non-array type {type_name(value)}",
            )
        old = list(value) if type(value) is list else []
        spend(len(old) + len(each))
        made = list(old)
        known = {sort_key(one, context.text) for one in made}
        for one in each:
            key = sort_key(one, context.text)
            if key not in known:
                known.add(key)
                made.append(one)
        return KEPT if value is not MISSING and len(made) == len(old) else made

    return Modifier(work)


# These are conditions on a document, not on a value.
_OF_DOCUMENTS: Final = frozenset({"$and", "$or", "$nor"})


def _pull(path: str, operand: Any, context: Context) -> Modifier:
    return _pull_modifier(path, _pull_test(operand, context), "$pull")


def _pull_test(operand: Any, context: Context) -> Callable[[Any], bool]:
    if type(operand) is Regex:
        return matches_pattern(operand)
    if is_operators(operand) and next(iter(operand)) not in _OF_DOCUMENTS:
        # An element that is an array is searched, like a field.
        holds = Filter({"element": operand}, variables=context.variables, collation=context.text).matches
        return lambda value: holds({"element": value})
    if is_document(operand):
        matches = Filter(operand, variables=context.variables, collation=context.text).matches
        return lambda value: type(value) is dict and matches(value)
    return equals(operand, context.text)


def _pull_all(path: str, operand: Any, context: Context) -> Modifier:
    if type(operand) is not list:
        raise MongoError(2, f"$pullAll requires an array argument but was given a {type_name(operand)}")
    keys = {sort_key(one, context.text) for one in operand}
    return _pull_modifier(path, lambda value: sort_key(value, context.text) in keys, "$pullAll")


def _pull_modifier(path: str, is_pulled: Callable[[Any], bool], name: str) -> Modifier:
    def work(value: Any, moment: Moment) -> Any:
        if type(value) is not list:
            raise MongoError(2, f"Cannot apply {name} to a non-array value at '{path}'")
        spend_value(value)
        made = [one for one in value if not is_pulled(one)]
        return KEPT if len(made) == len(value) else made

    return Modifier(work, creates=False)


def _pop(path: str, operand: Any, context: Context) -> Modifier:
    if not is_number(operand):
        raise MongoError(9, f"Expected a number in: {path}: {operand!r:.60}")
    end = whole(operand)
    if end not in (1, -1):
        raise MongoError(9, f"$pop expects 1 or -1, found: {operand}")

    def work(value: Any, moment: Moment) -> Any:
        if type(value) is not list:
            raise MongoError(14, f"Path '{path}' contains an element of non-array type '{type_name(value)}'")
        spend_value(value)
        return KEPT if not value else value[:-1] if end == 1 else value[1:]

    return Modifier(work, creates=False, needs_viable_path=True)


OPERATORS: Final[dict[str, Callable[[str, Any, Context], Modifier]]] = {
    "$set": _set,
    "$setOnInsert": _set_on_insert,
    "$unset": _unset,
    "$inc": _inc,
    "$mul": _mul,
    "$min": _extreme(-1),
    "$max": _extreme(1),
    "$currentDate": _current_date,
    "$bit": _bit,
    "$push": _push,
    "$addToSet": _add_to_set,
    "$pull": _pull,
    "$pullAll": _pull_all,
    "$pop": _pop,
}
"""The maker of an operator's modifier, from its path, its operand and the context."""
