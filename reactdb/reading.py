"""Reading: what a query gives, from one snapshot.

A query is read in two parts: `access` chooses how documents leave the file and says which steps are left; those are ordinary
list work on decoded documents, and are here.

Rule of this file: one function a step, from documents to documents. It knows neither the file nor feeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from reactdb.access import access, find_table, is_in_order
from reactdb.budget import paced
from reactdb.errors import MissingValue, QueryError, UsageError
from reactdb.expression import Constant, Expression, as_function, sort_documents
from reactdb.expression.tree import walk
from reactdb.query import (
    Aggregate,
    Between,
    ConcatMap,
    Distinct,
    Filter,
    Get,
    Group,
    HasFields,
    Limit,
    Map,
    OrderBy,
    Query,
    Skip,
    Step,
    Union,
)
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec, collation
from reactdb.values.canonical import plainest


def run(query: Query, snapshot: Snapshot) -> Any:
    """The query's answer: a document or None for a point query, a value for an aggregate, a list for a sequence.

    Raises:
        TableNotFound, IndexNotFound, QueryError: As the query deserves.
    """
    table = find_table(query.table, snapshot)
    path = access(query, table)
    if path.is_point:
        get = query.steps[0]
        assert isinstance(get, Get)
        body = snapshot.get(table, get.key_bytes)
        found = apply_to_one(None if body is None else codec.decode(body), query.steps[1:])
        return codec.thaw(found) if shows_constants(query) else found
    if (
        not path.rest
        and path.is_whole_table
        and isinstance(path.aggregate, Aggregate)
        and path.aggregate.kind == "count"
    ):
        return snapshot.count(table)
    documents: Any = paced(path.documents(snapshot))
    for step in path.rest:
        documents = apply(step, documents, snapshot)
    if path.aggregate is not None:
        return aggregate(path.aggregate, documents)
    found = grouped(documents) if isinstance(documents, dict) else list(documents)
    return codec.thaw(found) if shows_constants(query) else found


def shows_constants(query: Query) -> bool:
    """Whether lists or dicts of the query's own may be in the answer. They are frozen; an answer is its reader's to change."""
    return any(
        isinstance(node, Constant) and isinstance(node.value, (dict, list))
        for step in query.steps
        if isinstance(step, (Map, ConcatMap)) and isinstance(step.function, Expression)
        for node in walk(step.function.node)
    )


# ---------------------------------------------------------------------------------------------------------------
# The other steps


def apply(step: Step, documents: Iterable[Any], snapshot: Snapshot) -> Any:
    """One step of list work. `documents` may be a dict of groups, and then so is what comes out."""
    if isinstance(documents, dict):
        return {key: (group, list(apply(step, found, snapshot))) for key, (group, found) in documents.items()}
    if isinstance(step, (Filter, HasFields)):
        return filter(step.predicate.test, documents)
    if isinstance(step, Map):
        return map(as_function(step.function), documents)
    if isinstance(step, Limit):
        return islice(documents, step.count)
    if isinstance(step, Skip):
        return islice(documents, step.count, None)
    if isinstance(step, OrderBy):
        return documents if is_in_order(step) else sort_documents(documents, step.keys)
    if isinstance(step, ConcatMap):
        function = as_function(step.function)
        return (element for document in documents for element in elements(function(document)))
    if isinstance(step, Union):
        return chain_queries(documents, step, snapshot)
    if isinstance(step, Distinct):
        return distinct(documents, step)
    if isinstance(step, Group):
        return group(documents, step)
    if isinstance(step, Between):
        raise QueryError("Expected type TABLE_SLICE but found SEQUENCE.")
    raise UsageError(f"`{type(step).__name__.lower()}` cannot stand here in a query")


def apply_to_one(document: Any, steps: tuple[Step, ...]) -> Any:
    """The steps after `get(key)`: a filter turns a document into None, a map maps it; None stays None."""
    for step in steps:
        if document is None:
            return None
        if isinstance(step, (Filter, HasFields)):
            document = document if step.predicate.test(document) else None
        elif isinstance(step, Map):
            document = as_function(step.function)(document)
        else:
            raise QueryError("Expected type SEQUENCE but found SINGLE_SELECTION.")
    return document


def elements(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise QueryError(f"Cannot convert {collation.type_name(value)} to SEQUENCE")
    return value


def chain_queries(documents: Iterable[Any], step: Union, snapshot: Snapshot) -> Iterator[Any]:
    yield from documents
    for other in step.others:
        yield from run(other, snapshot)


def distinct(documents: Iterable[Any], step: Distinct) -> list[Any]:
    function = None if step.expression is None else as_function(step.expression)
    found: dict[bytes, Any] = {}
    for document in documents:
        try:
            value = document if function is None else function(document)
        except MissingValue:
            continue
        place = collation.key_bytes(value)
        found[place] = plainest(found[place], value) if place in found else value
    return [found[key] for key in sorted(found)]


def group(documents: Iterable[Any], step: Group) -> dict[bytes, tuple[Any, list[Any]]]:
    """Key bytes of the group -> (the group, its documents), in the collation's order. A missing value groups as None."""
    function = as_function(step.expression)
    found: dict[bytes, tuple[Any, list[Any]]] = {}
    for document in documents:
        try:
            value = function(document)
        except MissingValue:
            value = None
        place = collation.key_bytes(value)
        if place not in found:
            found[place] = (value, [])
        kept, documents_of_it = found[place]
        if kept is not value:
            found[place] = (plainest(kept, value), documents_of_it)
        documents_of_it.append(document)
    return {key: found[key] for key in sorted(found)}


def grouped(groups: dict[bytes, tuple[Any, Any]]) -> list[dict[str, Any]]:
    return [{"group": value, "reduction": reduction} for value, reduction in groups.values()]


def aggregate(step: Aggregate, documents: Any) -> Any:
    """One value from all; from groups, a list of `{"group", "reduction"}`.

    sum of nothing is 0; avg, min and max of nothing give None (ReQL raises; a live view needs a value for an empty table).
    A document where the field is missing, or null for sum and avg, does not take part.
    """
    if isinstance(documents, dict):
        return [{"group": value, "reduction": aggregate(step, found)} for value, found in documents.values()]
    if step.kind == "count":
        return sum(1 for _ in documents)
    if step.kind in ("min", "max"):
        return extreme(step, documents)
    function = (lambda value: value) if step.expression is None else as_function(step.expression)
    # Imported here because only sums need fractions.
    from reactdb.values.totals import Total

    total = Total()
    for document in documents:
        try:
            value = function(document)
        except MissingValue:
            continue
        if value is None:
            continue
        if collation.type_name(value) != "NUMBER":
            raise QueryError(f"Expected type NUMBER but found {collation.type_name(value)}.")
        total.add(value)
    return total.sum if step.kind == "sum" else total.mean


def extreme(step: Aggregate, documents: Iterable[Any]) -> Any:
    best: Any = None
    best_place: bytes | None = None
    function = (lambda value: value) if step.expression is None else as_function(step.expression)
    for document in documents:
        try:
            place = collation.key_bytes(function(document))
        except MissingValue:
            continue
        if best_place is None or (place < best_place if step.kind == "min" else place > best_place):
            best, best_place = document, place
    return best
