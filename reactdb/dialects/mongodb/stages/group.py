"""Stages that make groups: `$group`, `$sortByCount`, `$count`, `$bucket`, `$bucketAuto`.

Groups come in the order of their first documents.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from reactdb.budget import spend
from reactdb.dialects.mongodb.accumulators import GroupAccumulator, compile_accumulator
from reactdb.dialects.mongodb.bson_order import MISSING, bracket, is_text, sort_key, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import Evaluate
from reactdb.dialects.mongodb.expressions.compile import constant_of
from reactdb.dialects.mongodb.numeric import integer, is_number, whole
from reactdb.dialects.mongodb.stages.preferred_numbers import SERIES, Rounding
from reactdb.dialects.mongodb.stages.stage import Document, MemoryBound, Setting, Stage, stage

__all__: list[str] = []


def _output_name(name: str) -> str:
    if "." in name:
        raise MongoError(40235, f"The field name '{name}' cannot contain '.'")
    if name.startswith("$"):
        raise MongoError(40236, f"The field name '{name}' cannot begin with '$'")
    return name


class _Group:
    """The running totals of one group."""

    __slots__ = ("_adders", "_totals", "id")

    def __init__(self, group_id: Any, fields: list[tuple[str, GroupAccumulator]]) -> None:
        self.id = group_id
        self._totals = [(name, accumulator.begin(group_id)) for name, accumulator in fields]
        self._adders = [
            (total.add, accumulator.of_document)
            for (_, total), (_, accumulator) in zip(self._totals, fields, strict=True)
        ]

    def add(self, document: Document, variables: dict[str, Any]) -> None:
        spend(1 + len(self._adders))
        for add, of_document in self._adders:
            add(of_document(document, variables))

    def document(self) -> Document:
        spend(1 + len(self._totals))
        return {"_id": self.id} | {name: total.result() for name, total in self._totals}


KEEPING: Final = frozenset({"$push", "$addToSet", "$concatArrays", "$setUnion", "$mergeObjects"})
"""Accumulators that store something for each document. Others store something for each group."""


@stage("$group")
def _group(spec: Any, setting: Setting) -> Stage:
    if not isinstance(spec, Mapping):
        raise MongoError(15947, "a group's fields must be specified in an object")
    if "_id" not in spec:
        raise MongoError(15955, "a group specification must include an _id")
    scope = setting.scope()
    group_id = setting.expression(spec["_id"])
    _check_group_id(spec["_id"])
    fields = [
        (_output_name(name), compile_accumulator(value, scope, path=f"The field '{name}'"))
        for name, value in spec.items()
        if name != "_id"
    ]
    keeps = any(KEEPING.intersection(value) for name, value in spec.items() if name != "_id")
    return Stage(
        "$group", lambda documents: _group_documents(documents, group_id, fields, setting, keeps=keeps)
    )


def _check_group_id(spec: Any) -> None:
    if isinstance(spec, Mapping) and not next(iter(spec), "$").startswith("$"):
        for name, value in spec.items():
            if isinstance(value, bool) or is_number(value):
                raise MongoError(
                    17390,
                    f"the _id of $group has expressions; for a constant write {{$literal: ...}} as '{name}'",
                )


def _group_documents(
    documents: Iterable[Document],
    group_id: Evaluate,
    fields: list[tuple[str, GroupAccumulator]],
    setting: Setting,
    *,
    keeps: bool = False,
) -> Iterator[Document]:
    groups: dict[Any, _Group] = {}
    variables, text = setting.variables, setting.text
    held = MemoryBound("$group", setting)
    for document in documents:
        value = group_id(document, variables)
        # A text is its own key, and so is an int: no other key equals it. Any other value has its sort key.
        kind = type(value)
        key = value if (kind is str and text is None) else sort_key(None if value is MISSING else value, text)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(None if value is MISSING else value, fields)
            held.add({"": None if value is MISSING else value})
        group.add(document, variables)
        if keeps:
            held.add(document)
    for group in groups.values():
        yield group.document()


@stage("$sortByCount")
def _sort_by_count(spec: Any, setting: Setting) -> Stage:
    is_expression = isinstance(spec, Mapping) and any(name.startswith("$") for name in spec)
    if not is_expression and not (is_text(spec) and spec.startswith("$")):
        code = 40148 if is_text(spec) else 40147 if isinstance(spec, Mapping) else 40149
        raise MongoError(code, "$sortByCount takes an expression, or a path that begins with '$'")
    group_id = setting.expression(spec)
    fields = [("count", compile_accumulator({"$sum": 1}, setting.scope()))]

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        return iter(
            sorted(_group_documents(documents, group_id, fields, setting), key=lambda made: -made["count"])
        )

    return Stage("$sortByCount", run)


@stage("$count")
def _count(spec: Any, _setting: Setting) -> Stage:
    if not is_text(spec):
        raise MongoError(40156, f"the count field must be a non-empty string, not {type_name(spec)}")
    if not spec:
        raise MongoError(40157, "the count field must be a non-empty string")
    if spec.startswith("$"):
        raise MongoError(40158, "the count field cannot be a $-prefixed path")
    if "\0" in spec:
        raise MongoError(40159, "the count field cannot contain a null character")
    if "." in spec:
        raise MongoError(40160, "the count field cannot contain '.'")
    if spec == "_id":
        raise MongoError(9039800, "the count field cannot be '_id'")

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        count = sum(1 for _ in documents)
        if count:
            yield {spec: integer(count)}

    return Stage("$count", run)


# --- Buckets ---


def _buckets_output(
    spec: Mapping[str, Any], setting: Setting, code_object: int
) -> list[tuple[str, GroupAccumulator]]:
    output = spec.get("output", {"count": {"$sum": 1}})
    if not isinstance(output, Mapping):
        raise MongoError(code_object, "the output of buckets is an object of accumulators")
    for name in output:
        if name == "_id":
            raise MongoError(15948, "the output of buckets has an '_id' of its own")
    scope = setting.scope()
    return [
        (_output_name(name), compile_accumulator(value, scope, path=f"The field '{name}'"))
        for name, value in output.items()
    ]


def _check_options(
    name: str, spec: Any, codes: tuple[int, int, int], needed: tuple[str, ...], more: tuple[str, ...]
) -> None:
    code_object, code_unknown, code_missing = codes
    if not isinstance(spec, Mapping):
        raise MongoError(code_object, f"{name} takes an object, not {type_name(spec)}")
    for given in spec:
        if given not in needed and given not in more:
            raise MongoError(code_unknown, f"{name} has no option '{given}'")
    if any(option not in spec for option in needed):
        raise MongoError(code_missing, f"{name} needs the options {', '.join(needed)}")


def _group_by(name: str, spec: Any, setting: Setting, code: int) -> Evaluate:
    is_expression = isinstance(spec, Mapping) and len(spec) == 1 and next(iter(spec)).startswith("$")
    if not is_expression and not (is_text(spec) and spec.startswith("$")):
        raise MongoError(code, f"{name} takes a path that begins with '$', or an expression, as groupBy")
    return setting.expression(spec)


@stage("$bucket")
def _bucket(spec: Any, setting: Setting) -> Stage:
    _check_options("$bucket", spec, (40201, 40197, 40198), ("groupBy", "boundaries"), ("default", "output"))
    group_by = _group_by("$bucket", spec["groupBy"], setting, 40202)
    boundaries = _boundaries(spec["boundaries"], setting)
    keys = [sort_key(boundary, setting.text) for boundary in boundaries]
    default: Any = MISSING
    if "default" in spec:
        default = constant_of(setting.expression(spec["default"]))
        if default is MISSING:
            raise MongoError(40195, "$bucket takes a constant as default")
        if keys[0] <= sort_key(default, setting.text) < keys[-1]:
            raise MongoError(
                40199, "$bucket takes a default below its first boundary, or from its last one on"
            )
    fields = _buckets_output(spec, setting, 40196)

    def place(document: Any, variables: dict[str, Any]) -> Any:
        value = group_by(document, variables)
        key = sort_key(None if value is MISSING else value, setting.text)
        if keys[0] <= key < keys[-1]:
            return boundaries[bisect_right(keys, key) - 1]
        if default is MISSING:
            raise MongoError(7158303, "a document belongs to no bucket, and $bucket has no default")
        return default

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        made = _group_documents(documents, place, fields, setting)
        return iter(sorted(made, key=lambda group: sort_key(group["_id"], setting.text)))

    return Stage("$bucket", run)


def _boundaries(spec: Any, setting: Setting) -> list[Any]:
    if not isinstance(spec, list | tuple):
        raise MongoError(40200, "$bucket takes an array of boundaries")
    boundaries = [constant_of(setting.expression(boundary)) for boundary in spec]
    if any(boundary is MISSING for boundary in boundaries):
        raise MongoError(40191, "$bucket takes constants as boundaries")
    if len(boundaries) < 2:
        raise MongoError(40192, "$bucket takes at least two boundaries")
    for left, right in pairwise(boundaries):
        if bracket(left) != bracket(right):
            raise MongoError(40193, "$bucket takes boundaries of one type")
        if sort_key(left, setting.text) >= sort_key(right, setting.text):
            raise MongoError(40194, "$bucket takes boundaries that go up")
    return boundaries


@stage("$bucketAuto")
def _bucket_auto(spec: Any, setting: Setting) -> Stage:
    _check_options(
        "$bucketAuto", spec, (40240, 40245, 40246), ("groupBy", "buckets"), ("output", "granularity")
    )
    group_by = _group_by("$bucketAuto", spec["groupBy"], setting, 40239)
    if not is_number(spec["buckets"]):
        raise MongoError(40241, "$bucketAuto takes a number of buckets")
    count = whole(spec["buckets"])
    if count is None or count > 2**31 - 1:
        raise MongoError(40242, "$bucketAuto takes a whole number of buckets")
    if count <= 0:
        raise MongoError(40243, "$bucketAuto takes a number of buckets above 0")
    series = spec.get("granularity")
    if "granularity" in spec and not is_text(series):
        raise MongoError(40261, "$bucketAuto takes a text as granularity")
    if series is not None and series not in SERIES:
        raise MongoError(40257, f"$bucketAuto knows no granularity '{series}'")
    rounding = SERIES[series] if series is not None else None
    fields = _buckets_output(spec, setting, 40244)
    return Stage(
        "$bucketAuto", lambda documents: _auto(documents, group_by, count, rounding, fields, setting)
    )


def _auto(
    documents: Iterator[Document],
    group_by: Evaluate,
    count: int,
    rounding: Rounding | None,
    fields: list[tuple[str, GroupAccumulator]],
    setting: Setting,
) -> Iterator[Document]:
    variables = setting.variables
    key: Callable[[Any], Any] = lambda value: sort_key(value, setting.text)  # noqa: E731
    entries: list[tuple[Any, Document]] = []
    for document in MemoryBound("$bucketAuto", setting).counting(documents):
        value = group_by(document, variables)
        if rounding is not None:
            _check_number(value)
        entries.append((None if value is MISSING else value, document))
    entries.sort(key=lambda entry: key(entry[0]))
    start, total = 0, len(entries)
    least: Any = entries[0][0] if entries else None
    if rounding is not None and entries:
        least = rounding.down(least)
    for number in range(count):
        spend(1)
        if start >= total:
            return
        # The remaining documents are shared evenly among the remaining buckets; equal values are never separated.
        size = max(1, int(total / count + 0.5)) if number < count - 1 else total - start
        end = min(start + size, total)
        while end < total and key(entries[end][0]) == key(entries[end - 1][0]):
            end += 1
        if number == count - 1:
            end = total
        most: Any = entries[end][0] if end < total else entries[-1][0]
        if rounding is not None:
            most = rounding.up(entries[end - 1][0])
            while end < total and key(entries[end][0]) < key(most):
                end += 1
        group = _Group({"min": least, "max": most}, fields)
        for _, document in entries[start:end]:
            group.add(document, variables)
        yield group.document()
        start, least = end, most


def _check_number(value: Any) -> None:
    if not is_number(value):
        raise MongoError(40258, f"$bucketAuto with a granularity takes numbers, not {type_name(value)}")
    if value != value:
        raise MongoError(40259, "$bucketAuto with a granularity takes no NaN")
    if sort_key(value) < sort_key(0):
        raise MongoError(40260, "$bucketAuto with a granularity takes numbers of at least 0")
