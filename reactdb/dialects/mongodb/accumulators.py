"""Accumulators: one value from the documents of a group, for `$group` and similar stages.

An accumulator has two parts. `of_document` returns a document's value; `begin` makes the running total for such values. Neither
knows about groups, so `$bucket` and `$bucketAuto` use them as they are.

Rule of this file: totals of numbers are in `totals`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.bson_order import MISSING, TextKey, sort_key, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import Evaluate, Scope
from reactdb.dialects.mongodb.expressions.compile import compile_value, constant, constant_of
from reactdb.dialects.mongodb.numeric import is_number, whole
from reactdb.dialects.mongodb.sort import Order
from reactdb.dialects.mongodb.totals import TOTALS, RunningTotal, quantiles

__all__ = ["ACCUMULATORS", "OF_ONE_VALUE", "Begin", "GroupAccumulator", "compile_accumulator"]


class GroupAccumulator(NamedTuple):
    """One compiled accumulator.

    Attributes:
        of_document: The value of a document.
        begin: Makes an empty total for a group, from the group's `_id`.
    """

    of_document: Evaluate
    begin: Callable[[Any], RunningTotal]


Compiler = Callable[[Any, Scope], GroupAccumulator]
ACCUMULATORS: Final[dict[str, Compiler]] = {}
"""The compiler of an accumulator's argument, by its name."""

Begin = Callable[[TextKey | None], RunningTotal]
OF_ONE_VALUE: Final[dict[str, Begin]] = {}
"""The accumulators of one expression: a function from the collation to an empty total."""


def compile_accumulator(spec: Any, scope: Scope, *, path: str = "a field") -> GroupAccumulator:
    """The accumulator of `{$sum: "$a"}`.

    Raises:
        MongoError: It is no object (40234), has more than one operator (40238), or an unknown one (15952).
    """
    if not isinstance(spec, Mapping) or not spec:
        raise MongoError(40234, f"{path} must be an accumulator object")
    if len(spec) != 1:
        raise MongoError(40238, f"{path} must specify one accumulator")
    ((name, argument),) = spec.items()
    compiler = ACCUMULATORS.get(name)
    if compiler is None:
        if not name.startswith("$"):
            raise MongoError(40234, f"{path} must be an accumulator object")
        raise MongoError(15952, f"unknown group operator '{name}'")
    return compiler(argument, scope)


def _one_argument(name: str, spec: Any, scope: Scope) -> Evaluate:
    if isinstance(spec, list | tuple):
        raise MongoError(40237, f"The {name} accumulator is a unary operator")
    return compile_value(spec, scope)


def _simple(name: str, begin: Begin) -> None:
    OF_ONE_VALUE[name] = begin

    def compiler(spec: Any, scope: Scope) -> GroupAccumulator:
        text = scope.text
        return GroupAccumulator(_one_argument(name, spec, scope), lambda _key: begin(text))

    ACCUMULATORS[name] = compiler


for _name, _begin in TOTALS.items():
    _simple(_name, _begin)


class _First:
    __slots__ = ("_is_there", "_value")

    def __init__(self, _text: TextKey | None) -> None:
        self._is_there = False
        self._value: Any = None

    def add(self, value: Any) -> None:
        if not self._is_there:
            self._is_there, self._value = True, None if value is MISSING else value

    def result(self) -> Any:
        return self._value


class _Last:
    __slots__ = ("_value",)

    def __init__(self, _text: TextKey | None) -> None:
        self._value: Any = None

    def add(self, value: Any) -> None:
        self._value = None if value is MISSING else value

    def result(self) -> Any:
        return self._value


class _Push:
    __slots__ = ("_values",)

    def __init__(self, _text: TextKey | None) -> None:
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        if value is not MISSING:
            self._values.append(value)

    def result(self) -> Any:
        spend_value(self._values)
        return list(self._values)


class _Distinct:
    __slots__ = ("_text", "_values")

    def __init__(self, text: TextKey | None) -> None:
        self._text = text
        self._values: dict[Any, Any] = {}

    def add(self, value: Any) -> None:
        if value is not MISSING:
            self._values.setdefault(sort_key(value, self._text), value)

    def result(self) -> Any:
        spend_value(self._values)
        return list(self._values.values())


class _MergeObjects:
    __slots__ = ("_value",)

    def __init__(self, _text: TextKey | None) -> None:
        self._value: dict[str, Any] = {}

    def add(self, value: Any) -> None:
        if value is None or value is MISSING:
            return
        if not isinstance(value, dict):
            raise MongoError(
                5911200, f"$mergeObjects requires object inputs, but input is of type {type_name(value)}"
            )
        spend_value(value)
        self._value.update(value)

    def result(self) -> Any:
        spend_value(self._value)
        return dict(self._value)


class _ConcatArrays:
    __slots__ = ("_values",)

    def __init__(self, _text: TextKey | None) -> None:
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        if value is MISSING:
            return
        if not isinstance(value, list):
            raise MongoError(
                14, f"$concatArrays requires array inputs, but input is of type {type_name(value)}"
            )
        spend_value(value)
        self._values += value

    def result(self) -> Any:
        spend_value(self._values)
        return list(self._values)


class _SetUnion(_Distinct):
    __slots__ = ()

    def add(self, value: Any) -> None:
        if value is MISSING:
            return
        if not isinstance(value, list):
            raise MongoError(14, f"$setUnion requires array inputs, but input is of type {type_name(value)}")
        spend_value(value)
        for element in value:
            self._values.setdefault(sort_key(element, self._text), element)


_simple("$first", _First)
_simple("$last", _Last)
_simple("$push", _Push)
_simple("$addToSet", _Distinct)
_simple("$mergeObjects", _MergeObjects)
_simple("$concatArrays", _ConcatArrays)
_simple("$setUnion", _SetUnion)


def _count(spec: Any, scope: Scope) -> GroupAccumulator:
    if spec != {}:
        raise MongoError(14, "$count takes no arguments: write {$count: {}}")
    return ACCUMULATORS["$sum"](1, scope)


ACCUMULATORS["$count"] = _count


# --- The first n, the last n, and the n at an end of an order ---


class _Several:
    """Holds n of the values: the first or last, or the least or greatest in an order of keys."""

    __slots__ = ("_entries", "_from_end", "_is_alone", "_most", "_number", "_sorts")

    def __init__(self, most: int, *, sorts: bool, from_end: bool, is_alone: bool = False) -> None:
        self._most = most
        self._sorts = sorts
        self._from_end = from_end
        self._is_alone = is_alone
        self._number = 0
        self._entries: list[tuple[Any, int, Any]] = []

    def add(self, entry: Any) -> None:
        if entry is MISSING:
            return
        key, value = entry
        self._number += 1
        entries = self._entries
        if not self._sorts:
            if not self._from_end and len(entries) == self._most:
                return
            entries.append((None, self._number, value))
            if len(entries) > self._most:
                del entries[0]
            return
        entries.append((key, self._number, value))
        if len(entries) > 4 * self._most + 64:
            self._cut()

    def _cut(self) -> None:
        spend_value(self._entries)
        # Sorting is stable, so among equal values the earlier ones stay in front.
        self._entries.sort(key=lambda entry: entry[0])
        if self._from_end:
            del self._entries[: -self._most]
        else:
            del self._entries[self._most :]

    def result(self) -> Any:
        if self._sorts:
            self._cut()
        spend_value(self._entries)
        values = [value for _, _, value in self._entries]
        if self._is_alone:
            return values[0] if values else None
        return values


def _number_of_values(name: str, evaluate: Evaluate, key: Any) -> int:
    value = evaluate(key if isinstance(key, dict) else {}, {})
    number = whole(value)
    if number is None:
        raise MongoError(7548606, f"{name} takes a whole number as n, not {type_name(value)}")
    if number <= 0:
        raise MongoError(7548606, f"{name} takes an n above 0")
    return number


def _of_values(name: str, *, sorts: bool, from_end: bool) -> None:
    """Registers $firstN, $lastN, $minN, $maxN."""

    def compiler(spec: Any, scope: Scope) -> GroupAccumulator:
        if not isinstance(spec, Mapping):
            raise MongoError(5787801, f"{name} takes an object with 'n' and 'input'")
        for given in spec:
            if given not in {"n", "input"}:
                raise MongoError(5787901, f"{name} has no argument '{given}'")
        for needed, code in (("n", 5787906), ("input", 5787907)):
            if needed not in spec:
                raise MongoError(code, f"{name} needs the argument '{needed}'")
        source, count = compile_value(spec["input"], scope), compile_value(spec["n"], scope)
        text = scope.text

        def of_document(document: Any, variables: dict[str, Any]) -> Any:
            value = source(document, variables)
            if sorts:
                return (
                    MISSING if value is None or value is MISSING else (_turned(sort_key(value, text)), value)
                )
            return None, None if value is MISSING else value

        def _turned(key: Any) -> Any:
            return _ReversedKey(key) if from_end else key

        def begin(key: Any) -> RunningTotal:
            return _Several(_number_of_values(name, count, key), sorts=sorts, from_end=from_end and not sorts)

        return GroupAccumulator(of_document, begin)

    ACCUMULATORS[name] = compiler


class _ReversedKey:
    """A key with the reverse order."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: _ReversedKey) -> bool:
        return bool(other.key < self.key)


_of_values("$firstN", sorts=False, from_end=False)
_of_values("$lastN", sorts=False, from_end=True)
_of_values("$minN", sorts=True, from_end=False)
_of_values("$maxN", sorts=True, from_end=True)


def _of_order(name: str, *, from_end: bool, is_alone: bool) -> None:
    """Registers $top, $bottom, $topN, $bottomN."""

    def compiler(spec: Any, scope: Scope) -> GroupAccumulator:
        if not isinstance(spec, Mapping):
            raise MongoError(5788001, f"{name} takes an object of named arguments")
        needed = {"output": 5788004, "sortBy": 5788005} | ({} if is_alone else {"n": 5788003})
        for given in spec:
            if given not in needed:
                raise MongoError(5788002, f"{name} has no argument '{given}'")
        for argument, code in needed.items():
            if argument not in spec:
                raise MongoError(code, f"{name} needs the argument '{argument}'")
        order = Order(spec["sortBy"], scope.text)
        output = compile_value(spec["output"], scope)
        count = constant(1) if is_alone else compile_value(spec["n"], scope)

        def of_document(document: Any, variables: dict[str, Any]) -> Any:
            value = output(document, variables)
            return order.key(document), None if value is MISSING else value

        def begin(key: Any) -> RunningTotal:
            most = _number_of_values(name, count, key)
            return _Several(most, sorts=True, from_end=from_end, is_alone=is_alone)

        return GroupAccumulator(of_document, begin)

    ACCUMULATORS[name] = compiler


_of_order("$top", from_end=False, is_alone=True)
_of_order("$bottom", from_end=True, is_alone=True)
_of_order("$topN", from_end=False, is_alone=False)
_of_order("$bottomN", from_end=True, is_alone=False)


# --- Quantiles ---


class _Quantiles:
    __slots__ = ("_compute", "_is_alone", "_values")

    def __init__(self, compute: Callable[[list[Any]], list[Any]], *, is_alone: bool) -> None:
        self._compute = compute
        self._is_alone = is_alone
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        if is_number(value):
            self._values.append(value)

    def result(self) -> Any:
        results = self._compute(self._values)
        return results[0] if self._is_alone else results


def _quantile(name: str, *, is_alone: bool) -> None:
    def compiler(spec: Any, scope: Scope) -> GroupAccumulator:
        needed = {"input", "method"} | (set() if is_alone else {"p"})
        if not isinstance(spec, Mapping):
            raise MongoError(7429703, f"{name} takes an object of named arguments")
        for given in spec:
            if given not in needed:
                raise MongoError(40415, f"{name} has no argument '{given}'")
        for argument in needed:
            if argument not in spec:
                raise MongoError(40414, f"{name} needs the argument '{argument}'")
        wanted = [0.5] if is_alone else constant_of(compile_value(spec["p"], scope))
        compute = quantiles(wanted, spec["method"])
        source = compile_value(spec["input"], scope)
        return GroupAccumulator(source, lambda _key: _Quantiles(compute, is_alone=is_alone))

    ACCUMULATORS[name] = compiler


_quantile("$median", is_alone=True)
_quantile("$percentile", is_alone=False)
