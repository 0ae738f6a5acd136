"""Stages that add missing data: `$fill` (values of fields) and `$densify` (documents in between)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reactdb.budget import spend
from reactdb.dialects.mongodb.bson_order import MISSING, compare, is_text, sort_key, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import Evaluate
from reactdb.dialects.mongodb.expressions.dates import is_unit, move_date
from reactdb.dialects.mongodb.numeric import add_numbers, as_float, is_number, rank, whole
from reactdb.dialects.mongodb.paths import split, value_at
from reactdb.dialects.mongodb.shapes import field_path
from reactdb.dialects.mongodb.sort import Order
from reactdb.dialects.mongodb.stages.select_sort import with_value
from reactdb.dialects.mongodb.stages.set_window_fields import partition_key, split_partitions
from reactdb.dialects.mongodb.stages.stage import (
    DOCUMENT_STEPS,
    Document,
    MemoryBound,
    Setting,
    Stage,
    each,
    stage,
)
from reactdb.dialects.mongodb.times import is_date
from reactdb.dialects.mongodb.window_functions import carry_forward, interpolate
from reactdb.dialects.mongodb.windows import Partition

__all__: list[str] = []

_FILL: Final = ("sortBy", "partitionBy", "partitionByFields", "output")
Path = tuple[str, ...]


def _partition(spec: Mapping[str, Any], setting: Setting) -> Callable[[Document], Any] | None:
    """The partition key of a document; None for a single partition."""
    if "partitionBy" in spec and "partitionByFields" in spec:
        raise MongoError(6050204, "partitions are made by an expression, or by fields, not by both")
    if "partitionByFields" in spec:
        names = spec["partitionByFields"]
        if not isinstance(names, list | tuple):
            raise MongoError(14, "partitionByFields is an array of names")
        return _key_of_fields([field_path(name) for name in names], setting)
    by = spec.get("partitionBy")
    if by is not None and not (is_text(by) or isinstance(by, Mapping)):
        raise MongoError(14, f"partitionBy is a path or an object, not {type_name(by)}")
    if is_text(by) and not by.startswith("$"):
        raise MongoError(6050200, "partitionBy is a path that begins with '$', or an object")
    return partition_key(by, setting)


def _key_of_fields(paths: list[Path], setting: Setting) -> Callable[[Document], Any]:
    text = setting.text
    return lambda document: tuple([sort_key(value_at(document, path), text) for path in paths])


@stage("$fill")
def _fill(spec: Any, setting: Setting) -> Stage:
    if not isinstance(spec, Mapping):
        raise MongoError(40201, f"the $fill specification is an object, not {type_name(spec)}")
    for name in spec:
        if name not in _FILL:
            raise MongoError(40415, f"$fill has no option '{name}'")
    output = spec.get("output")
    if not isinstance(output, Mapping):
        raise MongoError(40414 if output is None else 14, "$fill needs the option 'output', an object")
    if not output:
        raise MongoError(6050203, "$fill needs at least one field in 'output'")
    values, methods = _fillings(output, setting)
    order = Order(spec["sortBy"], setting.text) if "sortBy" in spec else None
    if "linear" in methods.values() and (order is None or len(order.fields) != 1):
        raise MongoError(605001, "$fill needs a sortBy of one field for the method 'linear'")
    key_of = _partition(spec, setting)

    def of_one(document: Document) -> Document:
        made = document
        for path, evaluate in values.items():
            if value_at(document, path) in (None, MISSING):
                value = evaluate(document, setting.variables)
                made = made if value is MISSING else with_value(made, path, value)
        return made

    if not methods and order is None:
        return each("$fill", of_one)

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        held = map(of_one, MemoryBound("$fill", setting).counting(documents))
        if not methods and order is not None:
            # Values alone know nothing of partitions.
            yield from order.sorted(held)
            return
        for part in split_partitions(held, key_of, order):
            for path, method in methods.items():
                part = _fill_partition(Partition(part, order, {}), path, method)
            yield from part

    return Stage("$fill", run)


def _fillings(output: Mapping[str, Any], setting: Setting) -> tuple[dict[Path, Evaluate], dict[Path, str]]:
    """The source of each field: an expression, or a method."""
    values, methods = {}, {}
    for path, how in output.items():
        field_path(path)
        if not isinstance(how, Mapping) or len(how) != 1 or next(iter(how)) not in {"value", "method"}:
            raise MongoError(6050200, f"$fill takes a value or a method for '{path}'")
        if "value" in how:
            values[split(path)] = setting.expression(how["value"])
            continue
        if not is_text(how["method"]):
            raise MongoError(14, f"$fill takes a text as the method for '{path}'")
        if how["method"] not in {"locf", "linear"}:
            raise MongoError(6050202, "$fill knows the methods 'linear' and 'locf'")
        methods[split(path)] = how["method"]
    return values, methods


def _fill_partition(partition: Partition, path: Path, method: str) -> list[Document]:
    old = [value_at(document, path) for document in partition.documents]
    new = carry_forward(old) if method == "locf" else interpolate(old, partition.places())
    return [
        with_value(document, path, value) if before in (None, MISSING) else document
        for document, before, value in zip(partition.documents, old, new, strict=True)
    ]


# --- $densify ---

Next = Callable[[Any], Any]
_MOST: Final = 500_000


@dataclass(slots=True, frozen=True)
class _Range:
    """The range of `$densify`: from `low`, step by step, up to `high`, which is exclusive.

    `bounds` is `full`, `partition`, or `between`, for which both ends are given.
    """

    bounds: str
    low: Any
    high: Any
    further: Next


@stage("$densify")
def _densify(spec: Any, setting: Setting) -> Stage:
    if not isinstance(spec, Mapping):
        raise MongoError(9, f"the $densify specification is an object, not {type_name(spec)}")
    for name in spec:
        if name not in {"field", "partitionByFields", "range"}:
            raise MongoError(40415, f"$densify has no option '{name}'")
    for name, kinds in (("field", str), ("range", Mapping)):
        if name not in spec:
            raise MongoError(40414, f"$densify needs the option '{name}'")
        if not isinstance(spec[name], kinds):
            raise MongoError(14, f"$densify cannot take {type_name(spec[name])} as '{name}'")
    path = field_path(spec["field"])
    names = spec.get("partitionByFields", [])
    if not isinstance(names, list | tuple):
        raise MongoError(14, "$densify takes an array of names as partitionByFields")
    fields = [field_path(name) for name in names]
    if path in fields:
        raise MongoError(8993000, "$densify cannot fill a field that its partitions are made by")
    reach = _range(spec["range"])
    if reach.bounds == "partition" and not fields:
        raise MongoError(5733408, "the bounds 'partition' need partitionByFields; 'full' does not")
    key_of = _key_of_fields(fields, setting)

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        parts: dict[Any, list[Document]] = {}
        others: list[Document] = []
        for document in MemoryBound("$densify", setting).counting(documents):
            if value_at(document, path) in (None, MISSING):
                others.append(document)
            else:
                parts.setdefault(key_of(document), []).append(document)
        yield from others
        every = [value_at(document, path) for part in parts.values() for document in part]
        full = (min(every, key=sort_key), max(every, key=sort_key)) if every else None
        for key in sorted(parts):
            yield from _dense(parts[key], path, fields, reach, full)

    return Stage("$densify", run)


def _range(spec: Mapping[str, Any]) -> _Range:
    """The option `range`, checked."""
    for name in spec:
        if name not in {"step", "unit", "bounds"}:
            raise MongoError(40415, f"$densify has no option 'range.{name}'")
    if "bounds" not in spec:
        raise MongoError(40414, "$densify needs 'range.bounds'")
    bounds, unit = spec["bounds"], spec.get("unit")
    if is_text(bounds):
        if bounds not in ("full", "partition"):
            raise MongoError(5946802, "the bounds of $densify are 'full', 'partition', or an array of two")
    elif not isinstance(bounds, list | tuple):
        raise MongoError(5733402, "the bounds of $densify are 'full', 'partition', or an array of two")
    elif len(bounds) != 2:
        raise MongoError(5733403, "an array of bounds has two elements")
    if "step" not in spec:
        raise MongoError(40414, "$densify needs 'range.step'")
    step = spec["step"]
    if not is_number(step):
        raise MongoError(14, f"the step of $densify is a number, not {type_name(step)}")
    if not as_float(step) > 0:
        raise MongoError(5733401, "the step of $densify is above 0")
    if "unit" in spec and not is_text(unit):
        raise MongoError(14, f"the unit of $densify is a text, not {type_name(unit)}")
    if "unit" in spec and not is_unit(unit):
        raise MongoError(9, f"$densify knows no unit '{unit}'")
    amount = whole(step) if unit is not None else None
    if unit is not None and amount is None:
        raise MongoError(6586400, "the step of $densify is a whole number where it has a unit")
    further = _numbers(step) if amount is None else _dates(amount, str(unit))
    if is_text(bounds):
        return _Range(bounds, None, None, further)
    low, high = bounds
    _check_bounds(low, high, step, unit)
    return _Range("between", low, high, further)


def _check_bounds(low: Any, high: Any, step: Any, unit: Any) -> None:
    are_numbers = is_number(low) and is_number(high)
    if not are_numbers and not (is_date(low) and is_date(high)):
        is_mixed = (is_number(low) or is_date(low)) and (is_number(high) or is_date(high))
        raise MongoError(5733406 if is_mixed else 5733402, "bounds are two numbers, or two dates")
    if compare(low, high) > 0:
        raise MongoError(5733402, "bounds go up")
    if are_numbers and unit is not None:
        raise MongoError(5733409, "bounds of numbers have no unit")
    if are_numbers and len({rank(low), rank(high), rank(step)}) > 1:
        raise MongoError(5876900, "both bounds and the step are numbers of one type")


def _numbers(step: Any) -> Next:
    def further(value: Any) -> Any:
        if not is_number(value):
            code = 6053600 if is_date(value) else 5733201
            raise MongoError(code, f"$densify without a unit takes numbers, not {type_name(value)}")
        return add_numbers(value, step)

    return further


def _dates(amount: int, unit: str) -> Next:
    def further(value: Any) -> Any:
        if not is_date(value):
            code = 6053600 if is_number(value) else 5733201
            raise MongoError(code, f"$densify with a unit takes dates, not {type_name(value)}")
        return move_date("$densify", value, unit, amount)

    return further


def _dense(
    part: list[Document], path: Path, fields: list[Path], reach: _Range, full: tuple[Any, Any] | None
) -> Iterator[Document]:
    """A partition, with documents in between."""
    part.sort(key=lambda document: sort_key(value_at(document, path)))
    for document in part:
        reach.further(value_at(document, path))
    low, high, includes_high = value_at(part[0], path), value_at(part[-1], path), True
    if reach.bounds == "full" and full is not None:
        low, high = full
    elif reach.bounds == "between":
        low, high, includes_high = reach.low, reach.high, False
    place, following, made = low, 0, 0
    while True:
        spend(DOCUMENT_STEPS)
        while following < len(part) and compare(value_at(part[following], path), place) < 0:
            yield part[following]
            following += 1
        order = compare(place, high)
        if order > 0 or (order == 0 and not includes_high):
            break
        if following == len(part) or compare(value_at(part[following], path), place) != 0:
            made += 1
            if made > _MOST:
                raise MongoError(5897900, f"$densify would make more than {_MOST:,} documents")
            # The partition's fields come from the next document: under a collation, equal texts may differ.
            yield with_value(_partition_document(part[min(following, len(part) - 1)], fields), path, place)
        place = reach.further(place)
    yield from part[following:]


def _partition_document(document: Document, fields: list[Path]) -> Document:
    made: Document = {}
    for field in fields:
        value = value_at(document, field)
        if value is not MISSING:
            made = with_value(made, field, value)
    return made
