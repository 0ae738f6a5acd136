"""Reads: the result of a query, from one snapshot.

`access_path` chooses how documents leave the file and returns the remaining steps. `steps` defines their effect on the
decoded documents. This file combines the two, with the steps over more than one sequence: unions, groups and
aggregates.

Rule of this file: it gets documents from an access path, and knows neither SQL nor feeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reactdb.budget import spend_per_element
from reactdb.change import TableReference
from reactdb.documents.access_path import access, find_table, is_in_order, with_indexed_values
from reactdb.documents.aggregates import aggregate
from reactdb.documents.counts import count_at_end
from reactdb.documents.index_values import find_index_values
from reactdb.documents.steps import element_at, group_of, operator_of
from reactdb.errors import QueryError, TableNotFound
from reactdb.expression import Constant, Expression
from reactdb.expression.tree import walk
from reactdb.query import (
    SINGLE,
    Aggregate,
    Between,
    ConcatMap,
    Filter,
    Get,
    Group,
    HasFields,
    Map,
    Nth,
    Query,
    Step,
    Union,
)
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec, collation
from reactdb.values.canonical import plainest


def run(query: Query, snapshot: Snapshot) -> Any:
    """The query's answer: a document or None for a point query, a value for an aggregate, a list for a sequence.

    Raises:
        TableNotFound, IndexNotFound, QueryError: The query cannot be executed.
    """
    result = evaluate(query, snapshot)
    return list(result) if isinstance(result, Iterator) else result


class FollowedQuery:
    """A query that is run on one snapshot after another. It stays with the tables that it has found first: they may be
    renamed, and other tables may get their names. Calls come one after the other."""

    __slots__ = ("_query", "_tables")

    def __init__(self, query: Query) -> None:
        self._query = query
        # The number of each table, by its name in the query.
        self._tables: dict[TableReference, int] = {}

    def __call__(self, snapshot: Snapshot) -> Any:
        """As `run`."""
        result = self.evaluate(snapshot)
        return list(result) if isinstance(result, Iterator) else result

    def evaluate(self, snapshot: Snapshot) -> Any:
        """As `evaluate`."""
        return evaluate(self._with_present_names(self._query, snapshot), snapshot)

    def _with_present_names(self, query: Query, snapshot: Snapshot) -> Query:
        number = self._tables.get(query.table)
        if number is None:
            number = self._tables[query.table] = find_table(query.table, snapshot).id
        table = snapshot.catalogue.by_id.get(number)
        if table is None or table.dropped is not None:
            raise TableNotFound(str(query.table))
        steps = tuple(
            Union(tuple(self._with_present_names(other, snapshot) for other in step.others))
            if isinstance(step, Union)
            else step
            for step in query.steps
        )
        return Query(table.reference, steps)


def evaluate(query: Query, snapshot: Snapshot) -> Any:
    """As `run`, but the elements of a sequence come as an iterator, which reads the snapshot as it goes.

    Raises, for a sequence also while it is iterated:
        TableNotFound, IndexNotFound, QueryError: The query cannot be executed.
    """
    table = find_table(query.table, snapshot)
    query = with_indexed_values(query, table)
    tail = query.steps_on_groups if len(query.steps) > 2 else ()
    if tail:
        return apply_to_groups(query, tail, snapshot)
    path = access(query, table)
    if path.is_point:
        get = query.steps[0]
        assert isinstance(get, Get)
        body = snapshot.get(table, get.key_bytes)
        result = apply_to_one(None if body is None else codec.decode(body), query.steps[1:])
        return codec.thaw(result) if returns_constants(query) else result
    count = count_at_end(path)
    if count is not None:
        return count.read(snapshot)
    values = find_index_values(path)
    if values is None:
        path = path.with_offset()
    rest = path.rest if values is None else values.rest
    documents: Any
    documents = path.documents(snapshot) if values is None else values.read(snapshot)
    if not isinstance(documents, dict):
        documents = spend_per_element(documents)
    for number, step in enumerate(rest):
        if isinstance(step, Nth):
            result = pick(step, documents, rest[number + 1 :], path.before_nth)
            return codec.thaw(result) if returns_constants(query) else result
        documents = apply(step, documents, snapshot)
    if path.aggregate is not None:
        return aggregate(path.aggregate, documents)
    if isinstance(documents, dict):
        result = list_groups(documents)
        return codec.thaw(result) if returns_constants(query) else result
    return map(codec.thaw, documents) if returns_constants(query) else iter(documents)


def encoded_documents(query: Query, snapshot: Snapshot) -> Iterator[Sequence[bytes]] | None:
    """The documents of the query as they are stored, in pages; None where the result has other documents, or values, or has to
    be sorted.

    Raises:
        TableNotFound, IndexNotFound, QueryError: The query cannot be executed.
    """
    table = find_table(query.table, snapshot)
    if query.steps_on_groups:
        return None
    path = access(with_indexed_values(query, table), table).with_offset()
    if path.is_point or path.aggregate is not None or not all(map(is_in_order, path.rest)):
        return None
    return path.encoded(snapshot)


def returns_constants(query: Query) -> bool:
    """Whether lists or dicts that are written in the query may be in the answer. They are frozen; an answer may be changed."""
    return any(
        isinstance(node, Constant) and isinstance(node.value, (dict, list))
        for step in query.steps
        if isinstance(step, (Map, ConcatMap)) and isinstance(step.function, Expression)
        for node in walk(step.function.node)
    )


def apply_to_groups(query: Query, steps: tuple[Step, ...], snapshot: Snapshot) -> Any:
    """The steps after an aggregate of groups, on the list of groups."""
    groups: Any = evaluate(query.without_steps_on_groups, snapshot)
    for number, step in enumerate(steps):
        if isinstance(step, Nth):
            return pick(step, groups, steps[number + 1 :])
        groups = aggregate(step, groups) if isinstance(step, Aggregate) else apply(step, groups, snapshot)
    if isinstance(steps[-1], Aggregate):
        return groups
    return map(codec.thaw, groups) if returns_constants(query) else iter(groups)


def apply(step: Step, documents: Iterable[Any], snapshot: Snapshot) -> Any:
    """The result of a step on the documents. `documents` may be a dict of groups, and then the result is one too."""
    if isinstance(documents, dict):
        return {
            key: (group, list(apply(step, members, snapshot))) for key, (group, members) in documents.items()
        }
    if isinstance(step, Union):
        return chain_queries(documents, step, snapshot)
    if isinstance(step, Group):
        return group(documents, step)
    if isinstance(step, Between):
        raise QueryError("Expected type TABLE_SLICE but found SEQUENCE.")
    return documents if is_in_order(step) else operator_of(step).over(documents)


def pick(step: Nth, documents: Any, following: tuple[Step, ...], start: int = 0) -> Any:
    """One element, with the steps after it; of groups, a list of `{"group", "reduction"}` with one element of each.

    Args:
        start: The place of the first of the documents.

    Raises:
        MissingValue: There is no element at that place.
    """
    if isinstance(documents, dict):
        return [
            {"group": value, "reduction": pick(step, members, following)}
            for value, members in documents.values()
        ]
    return apply_to_one(element_at(step.place, documents, start), following)


def apply_to_one(document: Any, steps: tuple[Step, ...]) -> Any:
    """The steps after `get(key)` or `nth`: a filter turns a document into None, a map gives its value; None stays None."""
    for step in steps:
        if document is None:
            return None
        if not isinstance(step, (Filter, HasFields, Map)):
            raise QueryError(SINGLE)
        document = next(operator_of(step).over((document,)), None)
    return document


def chain_queries(documents: Iterable[Any], step: Union, snapshot: Snapshot) -> Iterator[Any]:
    yield from documents
    for other in step.others:
        yield from evaluate(other, snapshot)


def group(documents: Iterable[Any], step: Group) -> dict[bytes, tuple[Any, list[Any]]]:
    """Key bytes of the group -> (the group, its documents), in the collation's order."""
    value_of = group_of(step)
    groups: dict[bytes, tuple[Any, list[Any]]] = {}
    for document in documents:
        value = value_of(document)
        key = collation.key_bytes(value)
        if key not in groups:
            groups[key] = (value, [])
        kept, members = groups[key]
        if kept is not value:
            groups[key] = (plainest(kept, value), members)
        members.append(document)
    return {key: groups[key] for key in sorted(groups)}


def list_groups(groups: dict[bytes, tuple[Any, Any]]) -> list[dict[str, Any]]:
    return [{"group": value, "reduction": reduction} for value, reduction in groups.values()]
