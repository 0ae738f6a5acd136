"""Stages that choose among documents and put them in order.

`$match`, `$sort`, `$limit`, `$skip`, `$sample`, `$redact`, `$unwind`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from bson.int64 import Int64

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.bson_order import MISSING, is_text, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.numeric import INT64_MAX, INT64_MIN, is_number, truncate, whole
from reactdb.dialects.mongodb.shapes import field_path
from reactdb.dialects.mongodb.sort import Order
from reactdb.dialects.mongodb.stages.stage import Document, MemoryBound, Setting, Stage, each, stage

__all__ = ["sort_of", "with_value"]


@stage("$match")
def _match(spec: Any, setting: Setting) -> Stage:
    if not isinstance(spec, Mapping):
        raise MongoError(15959, "the match filter must be an expression in an object")
    matches = Filter(spec, variables=setting.variables, collation=setting.text).matches
    return each("$match", lambda document: document if matches(document) else None)


# --- Order and number ---


@stage("$sort")
def _sort(spec: Any, setting: Setting) -> Stage:
    if isinstance(spec, Mapping) and not spec:
        raise MongoError(15976, "$sort stage must have at least one sort key")
    return sort_of(Order(spec, setting.text), setting)


def sort_of(order: Order, setting: Setting, most: int | None = None) -> Stage:
    """A `$sort`; `most` is the number of documents needed from it."""

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        if most is not None and most * 4_096 < setting.max_memory_bytes:
            return iter(order.first(documents, most))
        return iter(order.sorted(MemoryBound("$sort", setting).counting(documents)))

    return Stage("$sort", run)


def _count_of(name: str, value: Any, code: int, least: int, code_least: int) -> int:
    count = whole(value)
    if count is None or not INT64_MIN <= count <= INT64_MAX:
        raise MongoError(code, f"{name} takes a whole number, not {type_name(value)}")
    if count < least:
        raise MongoError(code_least, f"{name} takes a number of at least {least}")
    return count


@stage("$limit")
def _limit(spec: Any, _setting: Setting) -> Stage:
    most = _count_of("$limit", spec, 5107201, -(2**63), 5107201)
    if most < 0:
        raise MongoError(5107201, "$limit takes a number above 0")
    if most == 0:
        raise MongoError(15958, "the limit must be positive")
    return Stage("$limit", lambda documents: islice(documents, most))


@stage("$skip")
def _skip(spec: Any, _setting: Setting) -> Stage:
    first = _count_of("$skip", spec, 5107200, 0, 5107200)
    return Stage("$skip", lambda documents: islice(documents, first, None))


@stage("$sample")
def _sample(spec: Any, setting: Setting) -> Stage:
    if not isinstance(spec, Mapping):
        raise MongoError(28745, "the $sample stage specification must be an object")
    for name in spec:
        if name != "size":
            raise MongoError(28748, f"$sample has no option '{name}'")
    if "size" not in spec:
        raise MongoError(28749, "$sample stage must specify a size")
    if not is_number(spec["size"]):
        raise MongoError(28746, "$sample's size must be a number")
    size = truncate(spec["size"])
    if size <= 0:
        raise MongoError(28747, "$sample's size must be above 0")

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        held = MemoryBound("$sample", setting)
        chosen: list[Document] = []
        for number, document in enumerate(documents):
            # A reservoir: each document stays with the same chance, however many there are.
            if number < size:
                held.add(document)
                chosen.append(document)
            else:
                place = random.randrange(number + 1)
                if place < size:
                    chosen[place] = document
        random.shuffle(chosen)
        return iter(chosen)

    return Stage("$sample", run)


# --- $redact ---


@stage("$redact")
def _redact(spec: Any, setting: Setting) -> Stage:
    evaluate = setting.expression(spec)
    variables = setting.variables

    def redacted(document: Document, root: Document) -> Any:
        decision = evaluate(document, {**variables, "ROOT": root})
        if decision == "keep":
            return document
        if decision == "prune":
            return MISSING
        if decision != "descend":
            raise MongoError(17053, "$redact's expression gives $$DESCEND, $$PRUNE or $$KEEP")
        spend_value(document)
        result = {}
        for name, value in document.items():
            part = within(value, root)
            if part is not MISSING:
                result[name] = part
        return result

    def within(value: Any, root: Document) -> Any:
        if isinstance(value, dict):
            return redacted(value, root)
        if isinstance(value, list):
            spend_value(value)
            parts = (within(element, root) for element in value)
            return [part for part in parts if part is not MISSING]
        return value

    def of_one(document: Document) -> Document | None:
        made = redacted(document, document)
        return None if made is MISSING else made

    return each("$redact", of_one)


# --- $unwind ---


@stage("$unwind")
def _unwind(spec: Any, _setting: Setting) -> Stage:
    options = _unwind_options(spec)
    path, index_name, keeps_empty = options
    index_path = field_path(index_name) if index_name is not None else None

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        for document in documents:
            value = _value_inside(document, path)
            if isinstance(value, list) and value:
                for number, element in enumerate(value):
                    made = with_value(document, path, element)
                    yield made if index_path is None else with_value(made, index_path, Int64(number))
            elif isinstance(value, list) or value is None or value is MISSING:
                if keeps_empty:
                    made = _remove_path(document, path) if isinstance(value, list) else document
                    yield made if index_path is None else with_value(made, index_path, None)
            else:
                yield document if index_path is None else with_value(document, index_path, None)

    return Stage("$unwind", run)


def _unwind_options(spec: Any) -> tuple[tuple[str, ...], str | None, bool]:
    index_name: str | None = None
    keeps_empty = False
    path = spec
    if isinstance(spec, Mapping):
        path = None
        for name, value in spec.items():
            if name == "path":
                if not is_text(value):
                    raise MongoError(
                        28808, f"expected a string as the path for $unwind stage, got {type_name(value)}"
                    )
                path = value
            elif name == "preserveNullAndEmptyArrays":
                if not isinstance(value, bool):
                    raise MongoError(28809, f"$unwind takes a bool as {name}, not {type_name(value)}")
                keeps_empty = value
            elif name == "includeArrayIndex":
                if not is_text(value) or not value:
                    raise MongoError(28810, f"$unwind takes a text that is not empty as {name}")
                if value.startswith("$"):
                    raise MongoError(28822, f"$unwind takes a {name} that does not begin with '$'")
                index_name = value
            else:
                raise MongoError(28811, f"$unwind has no option '{name}'")
        if path is None:
            raise MongoError(28812, "no path specified to $unwind stage")
    if not is_text(path):
        raise MongoError(15981, f"$unwind takes a text or an object, not {type_name(path)}")
    if not path:
        raise MongoError(28812, "no path specified to $unwind stage")
    if not path.startswith("$"):
        raise MongoError(28818, f"path option to $unwind stage should be prefixed with a '$': {path}")
    return field_path(path[1:]), index_name, keeps_empty


def _value_inside(document: Document, path: tuple[str, ...]) -> Any:
    """The value at a path of nested documents: arrays on the way are not expanded."""
    value: Any = document
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return MISSING
        value = value[name]
    return value


def with_value(document: Any, path: tuple[str, ...], value: Any) -> Document:
    """A document with another value at a path of nested documents; other values on the way become documents."""
    result = dict(document) if isinstance(document, dict) else {}
    name, *rest = path
    result[name] = with_value(result.get(name), tuple(rest), value) if rest else value
    return result


def _remove_path(document: Document, path: tuple[str, ...]) -> Document:
    name, *rest = path
    if rest:
        return {**document, name: _remove_path(document[name], tuple(rest))}
    return {key: value for key, value in document.items() if key != name}
