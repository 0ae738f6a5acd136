"""Stages that read other collections or run nested pipelines: `$lookup`, `$graphLookup`, `$unionWith`, `$facet`.

A join by two fields reads the other collection once, into a table by the values of its field. A join with a pipeline runs the
pipeline for each document, with the values of its variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from reactdb.budget import spend, spend_per_element, spend_value, steps_of
from reactdb.dialects.mongodb.bson_order import MISSING, is_text, sort_key, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import Evaluate
from reactdb.dialects.mongodb.expressions.compile import variable_name
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.numeric import whole
from reactdb.dialects.mongodb.paths import candidates, ends, split
from reactdb.dialects.mongodb.shapes import field_path
from reactdb.dialects.mongodb.stages.select_sort import with_value
from reactdb.dialects.mongodb.stages.stage import Document, MemoryBound, Setting, Stage, run_stages, stage

__all__ = ["MAX_NESTED_PIPELINES"]

MAX_NESTED_PIPELINES: Final = 20
_NOT_WITHIN: Final = frozenset({"$out", "$merge", "$changeStream", "$changeStreamSplitLargeEvent"})
_NOT_IN_FACETS: Final = _NOT_WITHIN | {
    "$facet",
    "$geoNear",
    "$collStats",
    "$indexStats",
    "$documents",
    "$planCacheStats",
}


def _namespace(name: str, value: Any, setting: Setting, code: int = 9) -> str:
    """The other collection of a stage, which is noted in the setting."""
    if isinstance(value, Mapping) and is_text(value.get("coll")):
        namespace = f"{value.get('db', setting.database)}.{value['coll']}"
    elif is_text(value) and value:
        namespace = f"{setting.database}.{value}"
    else:
        raise MongoError(code, f"{name} takes the name of a collection, not {type_name(value)}")
    setting.reads.add(namespace)
    return namespace


def _compile_stages(
    name: str, stages: Any, setting: Setting, refused: frozenset[str], code: int
) -> list[Stage]:
    if not isinstance(stages, list | tuple):
        raise MongoError(14, f"{name} takes an array of stages as pipeline, not {type_name(stages)}")
    if setting.depth > MAX_NESTED_PIPELINES:
        raise MongoError(232, f"pipelines are nested at most {MAX_NESTED_PIPELINES} deep")
    for spec in stages:
        if isinstance(spec, Mapping) and len(spec) == 1 and next(iter(spec)) in refused:
            raise MongoError(code, f"{next(iter(spec))} is not allowed within a {name}")
    return setting.nested(stages, setting)


# --- $lookup ---

_LOOKUP: Final = ("from", "as", "localField", "foreignField", "pipeline", "let")


@stage("$lookup")
def _lookup(spec: Any, setting: Setting) -> Stage:
    if not isinstance(spec, Mapping):
        raise MongoError(9, f"the $lookup specification must be an object, but found {type_name(spec)}")
    # A field with null or an empty value counts as missing.
    spec = {
        name: value
        for name, value in spec.items()
        if name not in {"localField", "foreignField"} or value not in (None, "")
    }
    for name in spec:
        if name not in _LOOKUP:
            raise MongoError(9, f"$lookup has no option '{name}'")
    for name in ("as", "localField", "foreignField"):
        if name in spec and not is_text(spec[name]):
            raise MongoError(14, f"$lookup takes a text as {name}, not {type_name(spec[name])}")
    if "as" not in spec:
        raise MongoError(9, "must specify 'as' field for a $lookup")
    target = field_path(spec["as"], what="$lookup's as")
    by_fields = "localField" in spec
    if by_fields != ("foreignField" in spec) or (not by_fields and "pipeline" not in spec):
        raise MongoError(9, "$lookup takes both localField and foreignField, or a pipeline, or all of them")
    if "from" not in spec and "pipeline" not in spec:
        raise MongoError(9, "$lookup needs the option 'from'")
    if by_fields:
        field_path(spec["localField"]), field_path(spec["foreignField"])
    let = _let(spec.get("let") or {}, setting)
    # Without a collection the pipeline begins with $documents.
    namespace = _namespace("$lookup", spec["from"], setting) if "from" in spec else setting.namespace
    inner = setting.within(let, namespace)
    stages = _compile_stages("$lookup", spec.get("pipeline", []), inner, _NOT_WITHIN, 51047)
    join = _Join(namespace, spec.get("localField"), spec.get("foreignField"), setting)
    has_source = "from" in spec

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        find = join.finder() if by_fields else lambda _document: setting.collections.documents(namespace)
        for document in documents:
            # The surrounding pipeline may have changed its variables since the last document.
            inner.variables.update(setting.variables)
            if let:
                inner.variables.update(
                    {name: value(document, setting.variables) for name, value in let.items()}
                )
            matches: Iterable[Document] = find(document) if has_source else ()
            following = stages
            if by_fields and not has_source:
                # The pipeline's own first documents are joined by the fields, too.
                matches, following = join.of(document, run_stages(stages[:1], iter(()))), stages[1:]
            yield with_value(
                document, target, list(run_stages(following, iter(matches)) if following else matches)
            )

    return Stage("$lookup", run)


def _let(spec: Any, setting: Setting) -> dict[str, Evaluate]:
    if not isinstance(spec, Mapping):
        raise MongoError(14, f"$lookup takes an object as let, not {type_name(spec)}")
    return {variable_name(name): setting.expression(value) for name, value in spec.items()}


class _Join:
    """A join by equal values of two fields."""

    def __init__(self, namespace: str, local: str | None, foreign: str | None, setting: Setting) -> None:
        self._namespace = namespace
        self._local = split(local or "")
        self._foreign = split(foreign or "")
        self._setting = setting

    def finder(self) -> Callable[[Document], list[Document]]:
        """A function from a document to its matches. The first call reads the other collection."""
        table: dict[Any, list[tuple[int, Document]]] | None = None

        def find(document: Document) -> list[Document]:
            nonlocal table
            if table is None:
                table = self._table()
            matches = {
                number: other for key in self._wanted(document) for number, other in table.get(key, ())
            }
            spend_value(matches)
            return [matches[number] for number in sorted(matches)]

        return find

    def _key(self, value: Any) -> Any:
        return sort_key(None if value is MISSING else value, self._setting.text)

    def of(self, document: Document, others: Iterable[Document]) -> list[Document]:
        """The matches of a document among some documents."""
        wanted = self._wanted(document)
        return [
            other
            for other in spend_per_element(others)
            if not wanted.isdisjoint({self._key(value) for value in candidates(other, self._foreign)})
        ]

    def _wanted(self, document: Document) -> set[Any]:
        wanted = set()
        values = ends(document, self._local)
        for value in values if values else [None]:
            # An array matches by each of its elements; an empty array matches null.
            elements = (value or [None]) if isinstance(value, list) else [value]
            spend_value(elements)
            wanted |= {self._key(element) for element in elements}
        return wanted

    def _table(self) -> dict[Any, list[tuple[int, Document]]]:
        table: dict[Any, list[tuple[int, Document]]] = {}
        documents = MemoryBound("$lookup", self._setting).counting(
            self._setting.collections.documents(self._namespace)
        )
        for number, document in enumerate(documents):
            values = candidates(document, self._foreign)
            for key in {self._key(value) for value in values}:
                table.setdefault(key, []).append((number, document))
        return table


# --- $graphLookup ---

_GRAPH: Final = (
    "from",
    "startWith",
    "connectFromField",
    "connectToField",
    "as",
    "maxDepth",
    "depthField",
    "restrictSearchWithMatch",
)


@stage("$graphLookup")
def _graph_lookup(spec: Any, setting: Setting) -> Stage:
    if not isinstance(spec, Mapping):
        raise MongoError(9, "the $graphLookup specification must be an object")
    for name in spec:
        if name not in _GRAPH:
            raise MongoError(40104, f"$graphLookup has no option '{name}'")
    for name in _GRAPH[:5]:
        if name not in spec:
            raise MongoError(40105, f"$graphLookup needs the option '{name}'")
    for name in ("connectFromField", "connectToField", "as", "depthField"):
        if name in spec and not is_text(spec[name]):
            raise MongoError(40103, f"$graphLookup takes a text as {name}, not {type_name(spec[name])}")
    most = whole(spec.get("maxDepth"))
    if "maxDepth" in spec and (most is None or most < 0):
        raise MongoError(
            40100 if most is None else 40101, "$graphLookup takes a whole number of at least 0 as maxDepth"
        )
    restriction = spec.get("restrictSearchWithMatch", {})
    if not isinstance(restriction, Mapping):
        raise MongoError(40185, "$graphLookup takes a filter as restrictSearchWithMatch")
    matches = Filter(restriction, variables=setting.variables, collation=setting.text).matches
    namespace = _namespace("$graphLookup", spec["from"], setting)
    start = setting.expression(spec["startWith"])
    target = field_path(spec["as"])
    follow = split(spec["connectFromField"])
    depth_path = field_path(spec["depthField"]) if "depthField" in spec else None

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        held = MemoryBound("$graphLookup", setting).counting(setting.collections.documents(namespace))
        table: dict[Any, list[tuple[int, Document]]] = {}
        for number, other in enumerate(filter(matches, held)):
            for value in candidates(other, split(spec["connectToField"])):
                table.setdefault(sort_key(value, setting.text), []).append((number, other))
        for document in documents:
            value = start(document, setting.variables)
            reached = _search(table, _keys([value], setting), follow, most, setting)
            made = [
                other if depth_path is None else with_value(other, depth_path, _int64(depth))
                for depth, other in reached
            ]
            yield with_value(document, target, made)

    return Stage("$graphLookup", run)


def _int64(value: int) -> Any:
    from bson.int64 import Int64

    return Int64(value)


def _keys(values: Iterable[Any], setting: Setting) -> set[Any]:
    values = list(values)
    spend(len(values) + sum(steps_of(value) for value in values))
    each = chain.from_iterable(value if isinstance(value, list) else [value] for value in values)
    return {sort_key(value, setting.text) for value in each if value is not MISSING}


def _search(
    table: Mapping[Any, list[tuple[int, Document]]],
    wanted: set[Any],
    follow: tuple[str, ...],
    most: int | None,
    setting: Setting,
) -> list[tuple[int, Document]]:
    reached: dict[int, tuple[int, Document]] = {}
    visited: set[Any] = set()
    depth = 0
    while wanted and (most is None or depth <= most):
        visited |= wanted
        fresh = []
        spend(len(wanted))
        for key in wanted:
            there = table.get(key, ())
            spend(len(there))
            for number, other in there:
                if number not in reached:
                    reached[number] = depth, other
                    fresh.append(other)
        wanted = _keys(chain.from_iterable(ends(other, follow) for other in fresh), setting) - visited
        depth += 1
    return list(reached.values())


# --- $unionWith and $facet ---


@stage("$unionWith")
def _union_with(spec: Any, setting: Setting) -> Stage:
    options = {"coll": spec} if is_text(spec) else spec
    if not isinstance(options, Mapping):
        raise MongoError(
            9, f"the $unionWith specification must be an object or string, but found {type_name(spec)}"
        )
    for name in options:
        if name not in {"coll", "pipeline"}:
            raise MongoError(40415, f"$unionWith has no option '{name}'")
    if "coll" not in options and not options.get("pipeline"):
        raise MongoError(9, "$unionWith needs a collection, or a pipeline that begins with $documents")
    has_source = "coll" in options
    if has_source and not is_text(options["coll"]):
        raise MongoError(14, f"$unionWith takes the name of a collection, not {type_name(options['coll'])}")
    namespace = _namespace("$unionWith", options["coll"], setting, 14) if has_source else setting.namespace
    inner = setting.within((), namespace)
    stages = _compile_stages("$unionWith", options.get("pipeline", []), inner, _NOT_WITHIN, 31441)

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        yield from documents
        inner.variables.update(setting.variables)
        yield from run_stages(stages, iter(setting.collections.documents(namespace) if has_source else ()))

    return Stage("$unionWith", run)


@stage("$facet")
def _facet(spec: Any, setting: Setting) -> Stage:
    if not isinstance(spec, Mapping) or not spec:
        raise MongoError(40169, "the $facet specification must be a non-empty object")
    facets, inner = {}, setting.within()
    for name, stages in spec.items():
        if not name:
            raise MongoError(15998, "a facet has a name")
        field_path(name)
        if "." in name:
            raise MongoError(16412, f"a facet has no dot in its name: '{name}'")
        if not isinstance(stages, list | tuple):
            raise MongoError(40170, f"arguments to $facet must be arrays, {name} is {type_name(stages)}")
        if any(not isinstance(one, Mapping) for one in stages):
            raise MongoError(40171, f"elements of arrays in $facet spec must be objects, in {name}")
        facets[name] = _compile_stages("$facet", stages, inner, _NOT_IN_FACETS, 40600)

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        inner.variables.update(setting.variables)
        held = list(MemoryBound("$facet", setting).counting(documents))
        spend(len(held) * len(facets))
        yield {name: list(run_stages(stages, iter(held))) for name, stages in facets.items()}

    return Stage("$facet", run)
