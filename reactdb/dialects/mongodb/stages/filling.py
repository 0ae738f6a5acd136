"""Stages that supply what is not there: `$fill` (values of fields) and `$densify` (documents in between)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import compile_expression
from reactdb.dialects.mongodb.numeric import added, as_float, divided, is_number, multiplied, subtracted
from reactdb.dialects.mongodb.ordering import MISSING, compare, sort_key, type_name
from reactdb.dialects.mongodb.paths import split, value_at
from reactdb.dialects.mongodb.shapes import field_path
from reactdb.dialects.mongodb.sorting import Order
from reactdb.dialects.mongodb.stages.selecting import with_value
from reactdb.dialects.mongodb.stages.stage import Document, MemoryBound, Setting, Stage, each, stage
from reactdb.dialects.mongodb.times import is_date
from reactdb.dialects.mongodb.values import ms_of_date

__all__: list[str] = []

_FILL: Final = ("sortBy", "partitionBy", "partitionByFields", "output")


def _partition(spec: Mapping[str, Any], setting: Setting) -> Callable[[Document], Any]:
    """The key of the partition that a document belongs to."""
    if "partitionBy" in spec and "partitionByFields" in spec:
        raise MongoError(6050204, "partitions are made by an expression, or by fields, not by both")
    if "partitionByFields" in spec:
        names = spec["partitionByFields"]
        if not isinstance(names, list | tuple):
            raise MongoError(14, "partitionByFields is an array of names")
        paths = [field_path(name) for name in names]
        return lambda document: tuple([sort_key(value_at(document, path)) for path in paths])
    if "partitionBy" in spec:
        by = spec["partitionBy"]
        if isinstance(by, str) and not by.startswith("$"):
            raise MongoError(6050200, "partitionBy is a path that begins with '$', or an object")
        evaluate = setting.expression(by)
        return lambda document: sort_key(evaluate(document, setting.variables), setting.text)
    return lambda _document: None


@stage("$fill")
def _fill(spec: Any, setting: Setting) -> Stage:
    if not isinstance(spec, Mapping):
        raise MongoError(9, f"the $fill specification must be an object, but found {type_name(spec)}")
    for name in spec:
        if name not in _FILL:
            raise MongoError(40415, f"$fill has no option '{name}'")
    output = spec.get("output")
    if not isinstance(output, Mapping):
        raise MongoError(40414, "$fill needs the option 'output', an object")
    if not output:
        raise MongoError(6050203, "$fill needs at least one field in 'output'")
    values, methods = {}, {}
    for path, how in output.items():
        field_path(path)
        if not isinstance(how, Mapping) or len(how) != 1 or next(iter(how)) not in {"value", "method"}:
            raise MongoError(6050200, f"$fill takes a value or a method for '{path}'")
        if "value" in how:
            values[split(path)] = setting.expression(how["value"])
        elif how["method"] in {"locf", "linear"}:
            methods[split(path)] = how["method"]
        else:
            raise MongoError(6050202, "$fill knows the methods 'linear' and 'locf'")
    if methods and "sortBy" not in spec and "linear" in methods.values():
        raise MongoError(605001, "$fill needs the option 'sortBy' for the method 'linear'")
    partition = _partition(spec, setting)

    def of_one(document: Document) -> Document:
        made = document
        for path, evaluate in values.items():
            if value_at(document, path) in (None, MISSING):
                value = evaluate(document, setting.variables)
                made = made if value is MISSING else with_value(made, path, value)
        return made

    if not methods and "sortBy" not in spec:
        return each("$fill", of_one)
    order = Order(spec["sortBy"], setting.text) if "sortBy" in spec else None

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        held = [of_one(document) for document in MemoryBound("$fill", setting).counting(documents)]
        if order is not None:
            held = order.sorted(held)
        members: dict[Any, list[int]] = {}
        for number, document in enumerate(held):
            members.setdefault(partition(document), []).append(number)
        # Partitions follow each other, as their keys are ordered.
        for key in sorted(members, key=lambda key: (key is not None, key)):
            part = [held[number] for number in members[key]]
            for path, method in methods.items():
                part = _carried(part, path) if method == "locf" else _interpolated(part, path, order)
            yield from part

    return Stage("$fill", run)


def _carried(documents: list[Document], path: tuple[str, ...]) -> list[Document]:
    """The last value that was there is carried on."""
    last: Any = None
    made = []
    for document in documents:
        value = value_at(document, path)
        if value in (None, MISSING):
            made.append(with_value(document, path, last))
        else:
            last = value
            made.append(document)
    return made


def _interpolated(documents: list[Document], path: tuple[str, ...], order: Order | None) -> list[Document]:
    """What lies between two values is on the line from one to the other, as the field of the order says how far."""
    assert order is not None
    along = split(order.fields[0][0])
    made = list(documents)
    before: int | None = None
    for number, document in enumerate(documents):
        value = value_at(document, path)
        if value in (None, MISSING):
            made[number] = with_value(document, path, None)
            continue
        if before is not None and number - before > 1:
            start, end = _place(documents[before], along), _place(document, along)
            first = value_at(documents[before], path)
            for between in range(before + 1, number):
                share = divided(subtracted(_place(documents[between], along), start), subtracted(end, start))
                filled = added(first, multiplied(subtracted(value, first), share))
                made[between] = with_value(documents[between], path, filled)
        before = number
    return made


def _place(document: Document, path: tuple[str, ...]) -> Any:
    value = value_at(document, path)
    if is_date(value):
        return float(ms_of_date(value))
    if not is_number(value):
        raise MongoError(605001, f"$fill interpolates along numbers and dates, not {type_name(value)}")
    return value


# --- $densify ---


@stage("$densify")
def _densify(spec: Any, setting: Setting) -> Stage:
    if not isinstance(spec, Mapping):
        raise MongoError(5733401, "the $densify specification must be an object")
    for name in spec:
        if name not in {"field", "partitionByFields", "range"}:
            raise MongoError(40415, f"$densify has no option '{name}'")
    if not isinstance(spec.get("field"), str):
        raise MongoError(40414 if "field" not in spec else 14, "$densify needs the option 'field', a path")
    path = field_path(spec["field"])
    steps = _steps(spec.get("range"))
    names = spec.get("partitionByFields", [])
    if not isinstance(names, list | tuple):
        raise MongoError(14, "$densify takes an array of names as partitionByFields")
    fields = [field_path(name) for name in names]
    bounds = spec["range"]["bounds"]

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        parts: dict[Any, list[Document]] = {}
        others: list[Document] = []
        for document in MemoryBound("$densify", setting).counting(documents):
            if value_at(document, path) in (None, MISSING):
                others.append(document)
            else:
                key = tuple([sort_key(value_at(document, field)) for field in fields])
                parts.setdefault(key, []).append(document)
        yield from others
        every = [value_at(document, path) for part in parts.values() for document in part]
        full = (min(every, key=sort_key), max(every, key=sort_key)) if every else None
        for part in parts.values():
            yield from _dense(part, path, fields, bounds, full, steps)

    return Stage("$densify", run)


Next = Callable[[Any], Any]


def _steps(spec: Any) -> Next:
    """What goes one step further."""
    if not isinstance(spec, Mapping) or "step" not in spec or "bounds" not in spec:
        raise MongoError(40414, "$densify needs the option 'range', with 'step' and 'bounds'")
    step, unit, bounds = spec["step"], spec.get("unit"), spec["bounds"]
    if not is_number(step) or as_float(step) <= 0:
        raise MongoError(5733401, "$densify takes a step above 0")
    if bounds not in ("full", "partition") and not (isinstance(bounds, list | tuple) and len(bounds) == 2):
        raise MongoError(5733402, "$densify takes 'full', 'partition' or an array of two as bounds")
    if unit is None:

        def further(value: Any) -> Any:
            if not is_number(value):
                raise MongoError(6053600, f"$densify without a unit takes numbers, not {type_name(value)}")
            return added(value, step)

        return further
    move = compile_expression(
        {"$dateAdd": {"startDate": "$start", "unit": {"$literal": unit}, "amount": {"$literal": step}}}
    )

    def later(value: Any) -> Any:
        if not is_date(value):
            raise MongoError(6053600, f"$densify with a unit takes dates, not {type_name(value)}")
        return move({"start": value}, {})

    return later


def _dense(
    part: list[Document],
    path: tuple[str, ...],
    fields: list[tuple[str, ...]],
    bounds: Any,
    full: tuple[Any, Any] | None,
    further: Next,
) -> Iterator[Document]:
    part.sort(key=lambda document: sort_key(value_at(document, path)))
    first, last = value_at(part[0], path), value_at(part[-1], path)
    low, high, includes_high = first, last, True
    if bounds == "full" and full is not None:
        low, high = full
    elif bounds != "partition":
        (low, high), includes_high = bounds, False
    base: Document = {}
    for field in fields:
        value = value_at(part[0], field)
        if value is not MISSING:
            base = with_value(base, field, value)
    place, following, made = low, 0, 0
    while True:
        while following < len(part) and compare(value_at(part[following], path), place) < 0:
            yield part[following]
            following += 1
        order = compare(place, high)
        if order > 0 or (order == 0 and not includes_high):
            break
        if following == len(part) or compare(value_at(part[following], path), place) != 0:
            made += 1
            if made > 500_000:
                raise MongoError(5897900, "$densify would make more than 500,000 documents")
            yield with_value(base, path, place)
        place = further(place)
    yield from part[following:]
