"""Terms: databases, tables, and selections from a table by key, by range and by condition.

A selection from one table (or a union of such) stays one native query, so that it is read by the best access path, and can be
watched.

Rule of this file: handlers, and their helpers. A step that `changes` cannot follow leaves the reason in `refusal`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from reactdb.budget import STEP_BYTES, spend_bytes
from reactdb.dialects.rethinkdb import system, tables
from reactdb.dialects.rethinkdb.errors import with_path
from reactdb.dialects.rethinkdb.evaluator import Evaluator, TermCall, handles
from reactdb.dialects.rethinkdb.functions import Function, is_default_true, predicate
from reactdb.dialects.rethinkdb.keys import is_spelled, shown_document, stored_key
from reactdb.dialects.rethinkdb.terms import Path
from reactdb.dialects.rethinkdb.values import (
    EAGER,
    SELECTION,
    TABLE,
    TABLE_SLICE,
    Database,
    Sequence,
    Single,
    TableName,
    expected,
    stream,
)
from reactdb.dialects.rethinkdb.write_checks import index_key, index_option, lookup_key, primary_key
from reactdb.documents.steps import Keep
from reactdb.errors import InvalidKey, MissingValue, QueryError, ReactDBError
from reactdb.expression import Call, Expression, Predicate, Row
from reactdb.expression.operations.objects import filter_match
from reactdb.expression.tree import constant
from reactdb.query import Between, Filter, Get, GetAll, OrderBy, Query
from reactdb.session import session_of
from reactdb.values import collation
from reactdb.values.codec import decode, pretty

AFTER_LIMIT: Final = (
    "Changefeeds are not supported on queries that have a transformation following a `limit` term.  Transformations "
    "include terms such as `filter`, `map`, `pluck`, etc.  Consider moving the transformation before the `limit` term."
)
NOT_DETERMINISTIC: Final = "Cannot call `changes` after a non-deterministic function."
READ_MODES: Final = ("single", "majority", "outdated", "_debug_direct")


# ---------------------------------------------------------------------------------------------------------------
# Databases and tables


@handles("db")
def db(call: TermCall) -> Any:
    return Database(tables.check_name("Database", call.string(0)))


@handles("table")
def table(call: TermCall) -> Any:
    evaluator = call.evaluator
    if len(call) == 2:
        database = call.values[0]
        if not isinstance(database, Database):
            raise with_path(expected("DATABASE", database), call.paths[0])
        check_tables_of(call, database)
        name = TableName(database.name, call.string(1))
    else:
        name = TableName(evaluator.options.database, call.string(0))
    if not tables.is_made_natively(evaluator.native, name):
        tables.check_name("Table", name.name)
    mode = call.string_option("read_mode") or evaluator.options.read_mode
    if mode is not None and mode not in READ_MODES:
        raise QueryError(
            f'Read mode `{mode}` unrecognized (options are "majority", "single", and "outdated").'
        )
    if tables.is_computed(name):
        documents = system.documents(evaluator.native, name.name)
        made = stream(lambda: iter(documents), call.path, (EAGER, call.path))
        return replace(made, kind=TABLE, table=name)
    tables.table_info(evaluator.native, name)
    refusal = None
    if mode == "_debug_direct":
        refusal = (
            "DEBUG_DIRECT is not a legal read mode for this operation (an up-to-date read mode is required).",
            None,
        )
    return Sequence(TABLE, call.path, name, Query(name.file_name), refusal=refusal, origin=call.path)


def check_tables_of(call: TermCall, database: Database) -> None:
    try:
        tables.check_database(call.evaluator.native, database.name)
    except ReactDBError as error:
        raise with_path(error, call.paths[0]) from None


def single(
    evaluator: Evaluator,
    table: TableName,
    path: Path,
    query: Query,
    key: bytes | None,
    *,
    is_first: bool = False,
) -> Single:
    def read() -> Any:
        documents = list(evaluator.read(Sequence(SELECTION, path, table, query))) if key is None else None
        if documents is not None:
            return documents[0] if documents else None
        return document_of(evaluator, table, key)

    return Single(table, path, query, read, key, is_first)


def document_of(evaluator: Evaluator, table: TableName, key: bytes | None) -> Any:
    assert key is not None
    info = tables.table_info(evaluator.native, table)
    body = session_of(evaluator.native).get(info.name, key)
    if body is None:
        return None
    if len(body) >= STEP_BYTES:
        spend_bytes(len(body))
    return shown_document(decode(body), info.primary_key)


@handles("get")
def get(call: TermCall) -> Any:
    table = call.table()
    value = call.datum(1)
    assert table.table is not None
    if table.query is None:
        return find_computed(call, table, value)
    try:
        key = lookup_key(value)
    except ReactDBError as error:
        # RethinkDB checks the key only when it is used.
        return Single(table.table, call.path, table.query, lambda: None, None, error=error)
    return single(call.evaluator, table.table, call.path, table.query.then(Get(stored_key(value), key)), key)


def find_computed(call: TermCall, table: Sequence, key: Any) -> Single:
    documents = [document for document in call.evaluator.read(table) if document.get("id") == key]
    assert table.table is not None
    return Single(
        table.table, call.path, Query(table.table.file_name), lambda: documents[0] if documents else None
    )


@handles("get_all")
def get_all(call: TermCall) -> Any:
    table = call.table()
    values = call.datums(1)
    for place, value in enumerate(values, 1):
        if value is None:
            raise with_path(MissingValue("Keys cannot be NULL."), call.paths[place])
        if isinstance(value, dict) and value.get("$reql_type$") == "GEOMETRY":
            raise QueryError("Cannot use a geospatial index with `get_all`. Use `get_intersecting` instead.")
    index = index_option(call, table)
    encode = primary_key if index is None else index_key
    keys = tuple(encode(value) for value in values)
    if table.query is None:
        wanted = set(map(repr, values))
        return stream(
            lambda: (one for one in call.evaluator.read(table) if repr(one.get("id")) in wanted), call.path
        )
    if index is None:
        values = list(map(stored_key, values))
    return table.then(GetAll(tuple(values), keys, index), SELECTION, path=call.path)


@handles("between_deprecated")
@handles("between")
def between(call: TermCall) -> Any:
    sequence = call.values[0]
    if not isinstance(sequence, Sequence) or sequence.kind not in (TABLE, TABLE_SLICE):
        raise with_path(expected("TABLE_SLICE", sequence), call.paths[0])
    bounds = {
        name: is_closed_bound(call, name, default) for name, default in (("left", True), ("right", False))
    }
    lower, upper = call.datum(1), call.datum(2)
    for place, bound in ((1, lower), (2, upper)):
        if bound is None:
            error = QueryError(
                "Cannot use `null` in BETWEEN, use `r.minval` or `r.maxval` to denote unboundedness."
            )
            raise with_path(error, call.paths[place])
    index = index_option(call, sequence)
    assert sequence.query is not None
    steps = sequence.query.steps
    if any(isinstance(step, Between) for step in steps):
        raise with_path(QueryError("Cannot perform multiple BETWEENs on the same table."), sequence.origin)
    order = next((step for step in steps if isinstance(step, OrderBy)), None)
    if order is not None and not call.has_option("index"):
        index = order.index
    if order is not None and order.index != index:
        raise QueryError(
            f"Cannot call BETWEEN on index `{index_name(call, sequence, index)}` after ordering by index "
            f"`{index_name(call, sequence, order.index)}`."
        )
    if index is None:
        lower, upper = stored_key(lower), stored_key(upper)
    start = bound_bytes(lower) + (b"" if bounds["left"] else b"\x00")
    stop = bound_bytes(upper) + (b"\x00" if bounds["right"] else b"")
    step = Between(
        lower,
        upper,
        index,
        "closed" if bounds["left"] else "open",
        "closed" if bounds["right"] else "open",
        start,
        stop,
    )
    # In a native query the order always follows the range.
    query = sequence.query.copy_with(steps=(step, *steps))
    return replace(sequence, query=query, kind=TABLE_SLICE, path=call.path)


def bound_bytes(value: Any) -> bytes:
    try:
        return collation.key_bytes(value)
    except InvalidKey as error:
        raise QueryError(str(error)) from None


def is_closed_bound(call: TermCall, side: str, default: bool) -> bool:
    name = f"{side}_bound"
    if not call.has_option(name):
        return default
    value = call.option(name)
    if value not in ("open", "closed"):
        raise QueryError(f"Expected `open` or `closed` for optarg `{name}` (got `{pretty(value)}`).")
    return bool(value == "closed")


def index_name(call: TermCall, sequence: Sequence, index: str | None) -> str:
    if index is not None:
        return index
    assert sequence.table is not None
    return tables.table_info(call.evaluator.native, sequence.table).primary_key


# ---------------------------------------------------------------------------------------------------------------
# By condition


@handles("filter")
def filter_(call: TermCall) -> Any:
    source, wanted = call.values[0], call.values[1]
    default = call.term.options.get("default")
    test = condition(call, wanted, default, key_name(call, source))
    if not isinstance(source, Sequence):
        return list(filter(test.test, call.array(0)))
    if source.query is None:
        return source.select(lambda: Keep(test.test), lambda: call.evaluator.read(source))
    filtered = source.then(Filter(test), source.selection_kind)
    if isinstance(wanted, Function) and not wanted.is_deterministic:
        filtered = filtered.refuse_changes(NOT_DETERMINISTIC, wanted.body.path)
    return filtered.refuse_changes(AFTER_LIMIT, call.path) if source.is_limited else filtered


def key_name(call: TermCall, source: Any) -> str | None:
    """The name of the primary key where a condition sees the documents of a table as they are stored; else None."""
    if not isinstance(source, Sequence) or source.query is None or source.table is None:
        return None
    return tables.table_info(call.evaluator.native, source.table).primary_key


def condition(call: TermCall, wanted: Any, default: Any, primary_key: str | None) -> Predicate:
    """The argument of `filter` as a predicate.

    Args:
        primary_key: The name of the field in which the documents have a key that may be shown otherwise.
    """
    if isinstance(wanted, Function):
        return predicate(wanted, default, primary_key)
    pattern = call.datum(1)
    if primary_key is not None and isinstance(pattern, dict) and is_spelled(pattern.get(primary_key)):
        pattern = {**pattern, primary_key: stored_key(pattern[primary_key])}

    def walk(document: Any) -> bool:
        try:
            return bool(filter_match(document, pattern))
        except MissingValue as missing:
            return is_default_true(call.evaluator, call.scope, default, missing)

    try:
        expression = Expression(Call("filter_match", (Row(), constant(pattern))))
    except ReactDBError:
        return Predicate(None, walk)
    if default is None:
        return Predicate(expression)
    if default.is_constant:
        return Predicate(expression, default=default.value is not None and default.value is not False)
    return Predicate(None, walk)
