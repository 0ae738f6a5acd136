"""Terms: tables and what is selected of them: by key, by index, by condition, by order, by place.

As long as a selection is of one table (or a union of such) it is one native query, so that it is read by the access path that
is best, and can be watched.

Rule of this file: handlers, and what they share. A step that `changes` cannot follow leaves its reason in `refusal`.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from reactdb import collation
from reactdb.codec import pretty
from reactdb.collation import maxval, minval
from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.errors import OperationFailed, located
from reactdb.dialects.rethinkdb.evaluator import Call, Evaluator, handles
from reactdb.dialects.rethinkdb.functions import Function, LocatedExpression, predicate
from reactdb.dialects.rethinkdb.streams import Filtered, Mapped, Sliced
from reactdb.dialects.rethinkdb.terms import Path
from reactdb.dialects.rethinkdb.values import (
    ARRAY_SELECTION,
    EAGER,
    SELECTION,
    STREAM,
    TABLE,
    TABLE_SLICE,
    Database,
    Sequence,
    Single,
    TableName,
    expected,
    expected_kind,
    stream,
)
from reactdb.errors import InvalidKey, MissingValue, QueryError, ReactDBError
from reactdb.expression import OPERATIONS, Call as Node_, Constant, Expression, OrderKey, Predicate, Row
from reactdb.expression.checks import integer
from reactdb.expression.operations_object import bracket as bracket_of
from reactdb.expression.operations_object import filter_match
from reactdb.expression.tree import constant
from reactdb.query import Between, Filter, Get, GetAll, Limit, Map, OrderBy, Query, Skip

AFTER_LIMIT: Final = (
    "Changefeeds are not supported on queries that have a transformation following a `limit` term.  Transformations "
    "include terms such as `filter`, `map`, `pluck`, etc.  Consider moving the transformation before the `limit` term."
)
NOT_DETERMINISTIC: Final = "Cannot call `changes` after a non-deterministic function."
UNORDERED_LIMIT: Final = "Cannot get changes on the first elements of an unordered stream."
SLICE_OF_UNION: Final = "Cannot call `changes` on a slice of a union."
MISPLACED_ORDER: Final = (
    "Indexed order_by can only be performed on a TABLE or TABLE_SLICE. Make sure order_by comes before any "
    "transformations (such as map) or filters."
)
# RethinkDB's bound, below that of the file.
MAX_KEY_BYTES: Final = 127
READ_MODES: Final = ("single", "majority", "outdated", "_debug_direct")


class MissingIndex(OperationFailed):
    """RethinkDB looks for an index when it is used; `changes` is then who is to blame."""


# ---------------------------------------------------------------------------------------------------------------
# Keys


def primary_key(value: Any) -> bytes:
    """The bytes of a primary key.

    Raises:
        MissingValue: It is null; InvalidKey: it cannot be one. Both with ReQL's sentence.
    """
    if isinstance(value, dict) and value.get("$reql_type$") == "GEOMETRY":
        raise QueryError(
            "Cannot use a geometry value as a key value in a primary or non-geospatial secondary index."
        )
    if has_null_byte(value):
        raise QueryError("Primary keys cannot contain `\\u0000`.")
    if isinstance(value, str) and len(value.encode()) > MAX_KEY_BYTES:
        raise QueryError(f"Primary key too long (max {MAX_KEY_BYTES} characters): {pretty(value)}")
    try:
        return collation.primary_key_bytes(value)
    except InvalidKey as error:
        sentence = str(error)
        if value is None:
            raise MissingValue(
                "Primary keys must be either a number, string, bool, pseudotype or array (got type NULL):\nnull"
            ) from None
        if sentence.startswith("Primary key too long"):
            raise QueryError(f"Primary key too long (max 127 characters): {pretty(value)}") from None
        raise QueryError(sentence) from None


def has_null_byte(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(has_null_byte, value))
    return isinstance(value, str) and "\0" in value


def index_key(value: Any) -> bytes:
    """The bytes by which an index is asked."""
    if is_bound(value):
        # In no index, but a value to ask for.
        return collation.key_bytes(value)
    found = collation.index_key_bytes(value)
    if found is None:
        raise QueryError(
            "Secondary keys must be a number, string, bool, pseudotype, or array "
            f"(got type {collation.type_name(value)}):\n{pretty(value)}"
        )
    return found


def index_option(call: Call, sequence: Sequence) -> str | None:
    """The option `index`; None for the primary key."""
    name = call.string_option("index")
    return checked_index(call.evaluator, sequence, name)


def checked_index(evaluator: Evaluator, sequence: Sequence, name: str | None) -> str | None:
    """The name of an index that is there; None for the primary key."""
    if name is None:
        return None
    assert sequence.table is not None
    info = tables.table_info(evaluator.native, sequence.table)
    if name == info.primary_key:
        return None
    if name not in info.indexes:
        raise MissingIndex(f"Index `{name}` was not found on table `{sequence.table}`.")
    return name


# ---------------------------------------------------------------------------------------------------------------
# Databases and tables


@handles("db")
def db(call: Call) -> Any:
    return Database(tables.check_name("Database", call.string(0)))


@handles("table")
def table(call: Call) -> Any:
    evaluator = call.evaluator
    if len(call) == 2:
        database = call.values[0]
        if not isinstance(database, Database):
            raise located(expected("DATABASE", database), call.paths[0])
        tables_checked(call, database)
        name = TableName(database.name, call.string(1))
    else:
        name = TableName(evaluator.options.database, call.string(0))
    tables.check_name("Table", name.name)
    mode = call.string_option("read_mode") or evaluator.options.read_mode
    if mode is not None and mode not in READ_MODES:
        raise QueryError(
            f"Read mode `{mode}` unrecognized (options are \"majority\", \"single\", and \"outdated\")."
        )
    if name.database == tables.SYSTEM and name.name in tables.COMPUTED:
        documents = tables.computed(evaluator.native, name.name)
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


def tables_checked(call: Call, database: Database) -> None:
    try:
        tables.check_database(call.evaluator.native, database.name)
    except ReactDBError as error:
        raise located(error, call.paths[0]) from None


def single(
    evaluator: Evaluator, table: TableName, path: Path, query: Query, key: bytes | None, *, is_first: bool = False
) -> Single:
    def read() -> Any:
        found = list(evaluator.read(Sequence(SELECTION, path, table, query))) if key is None else None
        if found is not None:
            return found[0] if found else None
        return document_of(evaluator, table, key)

    return Single(table, path, query, read, key, is_first)


def document_of(evaluator: Evaluator, table: TableName, key: bytes | None) -> Any:
    assert key is not None
    info = tables.table_info(evaluator.native, table)
    from reactdb.codec import decode

    body = evaluator.native._open_engine().get(info, key)
    return None if body is None else decode(body)


@handles("get")
def get(call: Call) -> Any:
    table = call.table()
    value = call.datum(1)
    assert table.table is not None
    if table.query is None:
        return computed_document(call, table, value)
    try:
        key = primary_key(value)
    except ReactDBError as error:
        # RethinkDB looks at the key when it is used.
        return Single(table.table, call.path, table.query, lambda: None, None, error=error)
    return single(call.evaluator, table.table, call.path, table.query.then(Get(value, key)), key)


def computed_document(call: Call, table: Sequence, key: Any) -> Single:
    found = [document for document in call.evaluator.read(table) if document.get("id") == key]
    assert table.table is not None
    return Single(table.table, call.path, Query(table.table.file_name), lambda: found[0] if found else None)


@handles("get_all")
def get_all(call: Call) -> Any:
    table = call.table()
    values = call.datums(1)
    for value in values:
        if value is None:
            raise MissingValue("Keys cannot be NULL.")
        if isinstance(value, dict) and value.get("$reql_type$") == "GEOMETRY":
            raise QueryError("Cannot use a geospatial index with `get_all`. Use `get_intersecting` instead.")
    index = index_option(call, table)
    encode = primary_key if index is None else index_key
    keys = tuple(encode(value) for value in values)
    if table.query is None:
        wanted = set(map(repr, values))
        return stream(lambda: (one for one in call.evaluator.read(table) if repr(one.get("id")) in wanted), call.path)
    return table.then(GetAll(tuple(values), keys, index), SELECTION, path=call.path)


@handles("between")
def between(call: Call) -> Any:
    sequence = call.values[0]
    if not isinstance(sequence, Sequence) or sequence.kind not in (TABLE, TABLE_SLICE):
        raise located(expected("TABLE_SLICE", sequence), call.paths[0])
    bounds = {name: closed_option(call, name, default) for name, default in (("left", True), ("right", False))}
    lower, upper = call.datum(1), call.datum(2)
    for place, bound in ((1, lower), (2, upper)):
        if bound is None:
            error = QueryError(
                "Cannot use `null` in BETWEEN, use `r.minval` or `r.maxval` to denote unboundedness."
            )
            raise located(error, call.paths[place])
    index = index_option(call, sequence)
    assert sequence.query is not None
    steps = sequence.query.steps
    if any(isinstance(step, Between) for step in steps):
        raise located(QueryError("Cannot perform multiple BETWEENs on the same table."), sequence.origin)
    order = next((step for step in steps if isinstance(step, OrderBy)), None)
    if order is not None and not call.has_option("index"):
        index = order.index
    if order is not None and order.index != index:
        raise QueryError(
            f"Cannot call BETWEEN on index `{shown_index(call, sequence, index)}` after ordering by index "
            f"`{shown_index(call, sequence, order.index)}`."
        )
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
    # The order comes after the range in a native query, wherever it stood.
    query = replace(sequence.query, steps=(step, *steps))
    return replace(sequence, query=query, kind=TABLE_SLICE, path=call.path)


@handles("between_deprecated")
def between_deprecated(call: Call) -> Any:
    return between(call)


def bound_bytes(value: Any) -> bytes:
    try:
        return collation.key_bytes(value)
    except InvalidKey as error:
        raise QueryError(str(error)) from None


def closed_option(call: Call, side: str, default: bool) -> bool:
    name = f"{side}_bound"
    if not call.has_option(name):
        return default
    value = call.option(name)
    if value not in ("open", "closed"):
        raise QueryError(f"Expected `open` or `closed` for optarg `{name}` (got `{pretty(value)}`).")
    return bool(value == "closed")


def shown_index(call: Call, sequence: Sequence, index: str | None) -> str:
    if index is not None:
        return index
    assert sequence.table is not None
    return tables.table_info(call.evaluator.native, sequence.table).primary_key


# ---------------------------------------------------------------------------------------------------------------
# By condition


@handles("filter")
def filter_(call: Call) -> Any:
    source, wanted = call.values[0], call.values[1]
    default = call.term.options.get("default")
    test = condition(call, wanted, default)
    if not isinstance(source, Sequence):
        return list(filter(test.test, call.array(0)))
    kind = STREAM if source.kind == STREAM else SELECTION
    if source.query is None:
        return source.through(lambda: Filtered(test.test), lambda: call.evaluator.read(source))
    found = source.then(Filter(test), kind)
    if isinstance(wanted, Function) and not wanted.is_deterministic:
        found = found.refused(NOT_DETERMINISTIC, wanted.body.path)
    return found.refused(AFTER_LIMIT, call.path) if source.is_limited else found


def condition(call: Call, wanted: Any, default: Any) -> Predicate:
    """What `filter` was given, as a predicate."""
    if isinstance(wanted, Function):
        return predicate(wanted, default)
    pattern = call.datum(1)

    def walk(document: Any) -> bool:
        from reactdb.dialects.rethinkdb.functions import forgiven

        try:
            return filter_match(document, pattern)
        except MissingValue as missing:
            return forgiven(call.evaluator, call.scope, default, missing)

    try:
        expression = Expression(Node_("filter_match", (Row(), constant(pattern))))
    except ReactDBError:
        return Predicate(None, walk)
    if default is None:
        return Predicate(expression)
    if default.is_constant:
        return Predicate(expression, default=default.value is not None and default.value is not False)
    return Predicate(None, walk)


# ---------------------------------------------------------------------------------------------------------------
# By order


@handles("asc")
def asc(call: Call) -> Any:
    return Direction(call.values[0], False, call.paths[0])


@handles("desc")
def desc(call: Call) -> Any:
    return Direction(call.values[0], True, call.paths[0])


class Direction:
    """A key of an order with its direction. It stands only inside `order_by`."""

    __slots__ = ("descending", "path", "value")

    def __init__(self, value: Any, descending: bool, path: Path) -> None:
        self.value = value
        self.descending = descending
        self.path = path

    def __call__(self) -> None:
        """To other terms it is what it is in RethinkDB: no datum."""


@handles("order_by")
def order_by(call: Call) -> Any:
    source = call.values[0]
    keys = [order_key(call, place) for place in range(1, len(call))]
    index_term = call.term.options.get("index")
    if index_term is None:
        if not keys:
            raise QueryError("Must specify something to order by.")
        return sorted_by_keys(call, source, keys)
    named = call.evaluator.run(index_term, call.scope)
    descending = isinstance(named, Direction) and named.descending
    name = named.value if isinstance(named, Direction) else named
    if not isinstance(name, str):
        raise located(expected_kind("STRING", call.evaluator.as_datum(name, index_term.path)), index_term.path)
    if not isinstance(source, Sequence) or source.kind not in (TABLE, TABLE_SLICE) or source.query is None:
        raise QueryError(MISPLACED_ORDER)
    index = checked_index(call.evaluator, source, name)
    steps = source.query.steps
    if any(isinstance(step, OrderBy) for step in steps):
        raise located(QueryError("Cannot perform multiple indexed ORDER_BYs on the same table."), source.origin)
    ranged = next((step for step in steps if isinstance(step, Between)), None)
    if ranged is not None and ranged.index != index:
        error = QueryError(
            f"Cannot order by index `{name}` after calling BETWEEN on index "
            f"`{shown_index(call, source, ranged.index)}`."
        )
        raise located(error, source.origin)
    found = replace(source.then(OrderBy((), index, descending), TABLE_SLICE), is_ordered=True, path=call.path)
    if not keys:
        return found
    tied = source.then(OrderBy(tuple(keys), index, descending), ARRAY_SELECTION, path=call.path, is_array=True)
    return tied.refused(EAGER, call.path)


def order_key(call: Call, place: int) -> OrderKey:
    value = call.values[place]
    descending = isinstance(value, Direction) and value.descending
    inner = value.value if isinstance(value, Direction) else value
    if isinstance(inner, Function):
        return OrderKey(as_expression(inner), descending)
    datum = call.evaluator.as_datum(inner, call.paths[place])
    if not isinstance(datum, str):
        raise located(expected_kind("STRING", datum), call.paths[place])
    return OrderKey(Expression(Node_("bracket", (Row(), Constant(datum)))), descending)


def as_expression(function: Function) -> Expression:
    """A function as something that can be called like an expression, also where it is none."""
    expression = function.expression
    return expression if expression is not None else WalkedExpression(function)


class WalkedExpression(Expression):
    """A function that has no tree, in the place of an expression. It equals only itself."""

    __slots__ = ("_walk",)

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__(Node_("make_array", (Constant("walked"), Constant(id(function)))))
        self._walk = function

    def __call__(self, document: Any) -> Any:
        return self._walk(document)


def sorted_by_keys(call: Call, source: Any, keys: list[OrderKey]) -> Any:
    if isinstance(source, Sequence) and source.query is not None and source.kind != STREAM:
        found = source.then(OrderBy(tuple(keys), None), ARRAY_SELECTION, path=call.path, is_array=True)
        return replace(found, refusal=(EAGER, call.path))
    values = call.array(0)
    for key in reversed(keys):
        values.sort(key=key.place, reverse=key.descending)
    return values


# ---------------------------------------------------------------------------------------------------------------
# By place


@handles("limit")
def limit(call: Call) -> Any:
    source = call.values[0]
    count = call.integer(1)
    if count < 0:
        raise located(QueryError(f"LIMIT takes a non-negative argument (got {count})"), call.paths[1])
    if not isinstance(source, Sequence):
        return list(islice(call.elements(0), count))
    return sliced(call, source, 0, count)


@handles("skip")
def skip(call: Call) -> Any:
    source = call.values[0]
    count = call.integer(1)
    if count < 0:
        if not isinstance(source, Sequence):
            return OPERATIONS["slice"].function(call.array(0), count, -1, right_bound="closed")
        raise located(QueryError("Cannot use a negative left index on a stream."), call.path)
    if not isinstance(source, Sequence):
        return list(islice(call.elements(0), count, None))
    return sliced(call, source, count, None)


@handles("slice")
def slice_(call: Call) -> Any:
    source = call.values[0]
    if not isinstance(source, Sequence):
        options = {name: call.option(name) for name in call.term.options}
        return OPERATIONS["slice"].function(call.datum(0), *call.datums(1), **options)
    left_closed, right_closed = closed_option(call, "left", True), closed_option(call, "right", False)
    left = call.integer(1) if len(call) > 1 else 0
    right: int | None = call.integer(2) if len(call) > 2 else None
    if left < 0:
        raise QueryError("Cannot use a negative left index on a stream.")
    start = left if left_closed else left + 1
    if right is None or (right == -1 and right_closed):
        return sliced(call, source, start, None)
    if right == -1:
        raise QueryError("Cannot slice to an open right index of -1 on a stream.")
    if right < 0:
        raise QueryError("Cannot use a right index < -1 on a stream.")
    return sliced(call, source, start, max(right + 1 if right_closed else right, start))


def sliced(call: Call, source: Sequence, start: int, stop: int | None) -> Sequence:
    """The elements from one place to another; with start 0 it is a limit."""
    if source.query is None or source.kind == TABLE and source.table is None:
        found = source.through(lambda: Sliced(start, stop), lambda: call.evaluator.read(source))
        return replace(found, is_endless=found.is_endless and stop is None)
    kind = SELECTION if source.kind in (TABLE, TABLE_SLICE) else source.kind
    found = source
    if start or stop is None:
        found = found.then(Skip(start), kind).refused(EAGER, source.path)
    if stop is not None:
        found = found.then(Limit(max(0, stop - start)), kind)
        if source.members:
            found = found.refused(SLICE_OF_UNION, source.path)
        elif source.is_limited:
            found = found.refused(EAGER, source.path)
        elif not source.is_ordered:
            found = found.refused(UNORDERED_LIMIT)
    return replace(found, is_limited=True)


@handles("nth")
def nth(call: Call) -> Any:
    return element_at(call, call.values[0], call.integer(1))


def element_at(call: Call, source: Any, place: int) -> Any:
    """One element. Of a table's documents it is a selection of that one document."""
    if not isinstance(source, Sequence):
        return OPERATIONS["nth"].function(call.datum(0), place)
    elements = call.elements(0)
    if place < -1:
        raise QueryError(f"Cannot use an index < -1 ({place}) on a stream.")
    found: Any = call
    if place == -1:
        for found in elements:
            pass
    else:
        found = next(islice(elements, place, None), call)
    if found is call:
        raise MissingValue(f"Index out of bounds: {place}")
    if source.table is None or source.query is None or source.kind == STREAM:
        return found
    info = tables.table_info(call.evaluator.native, source.table)
    value = found[info.primary_key]
    key = primary_key(value)
    return single(
        call.evaluator, source.table, call.path, Query(source.table.file_name, (Get(value, key),)), key
    )


@handles("bracket")
def bracket(call: Call) -> Any:
    """`x[place]`: a field by its name, also of each element of a sequence; an element by its number."""
    source, place = call.values[0], call.datum(1)
    if isinstance(source, Sequence):
        if isinstance(place, str):
            return field_of_each(call, source, place)
        if isinstance(place, bool) or not isinstance(place, (int, float)):
            error = (MissingValue if place is None else QueryError)(
                f"Expected NUMBER or STRING as second argument to `bracket` but found {collation.type_name(place)}."
            )
            raise error
        return element_at(call, source, integer(place))
    return of_value(call, bracket_of, place)


def of_value(call: Call, function: Callable[..., Any], *rest: Any) -> Any:
    """An operation on an object: where the first argument is none, that argument is to blame, not the term."""
    value = call.datum(0)
    try:
        return function(value, *rest)
    except ReactDBError as error:
        if not isinstance(value, dict) and getattr(error, "reql_path", None) is None:
            raise located(error, call.paths[0]) from None
        raise


@handles("get_field")
def get_field(call: Call) -> Any:
    source = call.values[0]
    if isinstance(source, Sequence):
        return field_of_each(call, source, call.string(1))
    return of_value(call, OPERATIONS["get_field"].function, call.string(1))


def field_of_each(call: Call, source: Sequence, name: str) -> Sequence:
    """The field of each element that has it."""
    name_node = Constant(name)
    value = Node_("bracket", (Row(), name_node))
    if source.query is not None:
        # Whether the field is there, be it null: comparing it with itself fails where it is not.
        there = Predicate(Expression(Node_("eq", (value, value))))
        found = source.then(Filter(there)).then(
            Map(LocatedExpression(value, lambda document: bracket_of(document, name)), "bracket"), STREAM, table=None
        )
        return found.refused(AFTER_LIMIT, call.path) if source.is_limited else found

    def fields(element: Any) -> Iterator[Any]:
        try:
            yield bracket_of(element, name)
        except MissingValue:
            return
        except ReactDBError as error:
            raise located(error, call.path) from None

    from reactdb.dialects.rethinkdb.streams import Flattened

    return source.through(lambda: Flattened(fields), lambda: call.evaluator.read(source))


@handles("sample")
def sample(call: Call) -> Any:
    source, size = call.values[0], call.integer(1)
    if size < 0:
        raise located(QueryError(f"Number of items to sample must be non-negative, got `{size}`."), call.paths[1])
    elements = list(call.elements(0))
    chosen = chance.sample(elements, min(size, len(elements)))
    if isinstance(source, Sequence) and source.table is not None:
        return Sequence(
            ARRAY_SELECTION,
            call.path,
            source.table,
            source=lambda: iter(chosen),
            refusal=(EAGER, call.path),
            is_array=True,
        )
    return chosen


def mapped(
    call: Call,
    source: Sequence,
    walk: Callable[[Any], Any],
    expression: Expression | None,
    name: str,
    changing: Path | None = None,
) -> Sequence:
    """Each element through a function. `changing`: whom to blame for what is not deterministic in it."""
    if source.query is None:
        return source.through(lambda: Mapped(walk), lambda: call.evaluator.read(source))
    found = source.then(Map(walk if expression is None else expression, name), STREAM, table=None)
    if changing is not None:
        found = found.refused(NOT_DETERMINISTIC, changing)
    return found.refused(AFTER_LIMIT, call.path) if source.is_limited else found


def is_bound(value: Any) -> bool:
    return value is minval or value is maxval


__all__ = ["TABLE_SLICE", "InvalidKey", "mapped"]
