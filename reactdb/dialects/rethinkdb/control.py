"""Terms: control, and questions about values: `do`, `branch`, `default`, `type_of`, `coerce_to`, `info`.

Rule of this file: handlers only.
"""

from __future__ import annotations

from typing import Any

from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.errors import with_path
from reactdb.dialects.rethinkdb.evaluator import TERMINAL, TermCall, handles
from reactdb.dialects.rethinkdb.functions import Function
from reactdb.dialects.rethinkdb.values import (
    TABLE,
    Database,
    Sequence,
    Single,
    expected,
    expected_kind,
    type_of,
)
from reactdb.errors import MissingValue, QueryError
from reactdb.expression import OPERATIONS
from reactdb.expression.checks import truth
from reactdb.expression.markers import Grouped
from reactdb.expression.operations.logic import EmptyError
from reactdb.expression.operations.types import TYPES
from reactdb.session import session_of
from reactdb.values.collation import maxval as greatest
from reactdb.values.collation import minval as least
from reactdb.values.collation import type_name


@handles("now")
def now(call: TermCall) -> Any:
    return call.evaluator.now


@handles("minval")
def minval(call: TermCall) -> Any:
    return least


@handles("maxval")
def maxval(call: TermCall) -> Any:
    return greatest


@handles("args", takes_groups=True)
def args(call: TermCall) -> Any:
    """The array. If `args` is an argument of another term, the evaluator spreads it there."""
    value = call.datum(0)
    if not isinstance(value, list):
        raise with_path(expected_kind("ARRAY", value), call.paths[0])
    return value


@handles("javascript")
def javascript(call: TermCall) -> Any:
    raise QueryError("reactdb has no JavaScript engine: the term `javascript` cannot be run.")


@handles("http")
def http(call: TermCall) -> Any:
    raise QueryError("reactdb fetches nothing from elsewhere: the term `http` cannot be run.")


@handles("point")
def point(call: TermCall) -> Any:
    """A point. It can be stored and read but not computed with."""
    longitude, latitude = call.datum(0), call.datum(1)
    for place, (value, bound, name) in enumerate(((longitude, 180, "Longitude"), (latitude, 90, "Latitude"))):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise with_path(expected_kind("NUMBER", value), call.paths[place])
        if not -bound <= value <= bound:
            raise QueryError(f"{name} must be between -{bound} and {bound}.  Got {value}.")
    return {"$reql_type$": "GEOMETRY", "coordinates": [longitude, latitude], "type": "Point"}


@handles("funcall", lazy=True)
def funcall(call: TermCall) -> Any:
    """`do`, whose arguments follow the function."""
    pairs = call.evaluator.arguments(call.term, call.scope)
    function, path = pairs[0]
    values = [call.evaluator.as_datum(value, place) for value, place in pairs[1:]]
    if isinstance(function, Function):
        return function.value(*values)
    return call.evaluator.as_datum(function, path)


@handles("branch", lazy=True)
def branch(call: TermCall) -> Any:
    terms = call.term.arguments
    if len(terms) % 2 == 0:
        raise QueryError("Cannot call `branch` term with an even number of arguments.")
    for test, value in zip(terms[0:-1:2], terms[1:-1:2], strict=True):
        if truth(call.evaluator.datum(test, call.scope)):
            return call.evaluator.run(value, call.scope)
    return call.evaluator.run(terms[-1], call.scope)


@handles("default", lazy=True)
def default(call: TermCall) -> Any:
    """The second argument if the first is null or missing; a function gets the error's message, or null."""
    evaluator = call.evaluator
    wanted, otherwise = call.term.arguments
    error: MissingValue | None = None
    reason: Any = None
    try:
        value = evaluator.run(wanted, call.scope)
        if (value.document() if isinstance(value, Single) else value) is not None:
            return value
    except MissingValue as missing:
        error, reason = missing, str(missing)
    try:
        other = evaluator.run(otherwise, call.scope)
        return other.value(reason) if isinstance(other, Function) else other
    except EmptyError:
        if error is None:
            return None
    raise error


@handles("type_of", takes_groups=True)
def type_of_(call: TermCall) -> Any:
    return type_of(call.values[0])


@handles("is_empty")
def is_empty(call: TermCall) -> Any:
    value = call.values[0]
    if isinstance(value, Sequence) and value.feed is not None:
        # RethinkDB answers at once, because nothing can have happened yet.
        return False
    return next(call.elements(0), call) is call


@handles("coerce_to")
def coerce_to(call: TermCall) -> Any:
    value, wanted = call.values[0], call.string(1).upper()
    if not isinstance(value, Sequence):
        return OPERATIONS["coerce_to"].function(call.datum(0), call.string(1))
    if wanted not in TYPES:
        raise QueryError(f"Unknown Type: {wanted}")
    name = type_of(value)
    if wanted in (name, "STREAM"):
        return value
    if wanted == "SELECTION<STREAM>" and value.kind == TABLE:
        return value
    if wanted == "ARRAY":
        return call.array(0)
    if wanted == "OBJECT":
        return OPERATIONS["coerce_to"].function(call.array(0), "object")
    if wanted == "BOOL":
        return True
    if value.feed is not None and wanted not in ("STRING", "NUMBER", "BINARY"):
        raise with_path(QueryError(TERMINAL), value.path)
    raise with_path(QueryError(f"Cannot coerce {name} to {wanted}."), call.paths[0])


@handles("info", takes_groups=True)
def info(call: TermCall) -> Any:
    return _info(call, call.values[0])


def _info(call: TermCall, value: Any) -> dict[str, Any]:
    native = call.evaluator.native
    if isinstance(value, Database):
        tables.check_database(native, value.name)
        return {"id": tables.database_id(native, value.name), "name": value.name, "type": "DB"}
    if isinstance(value, Sequence):
        info: dict[str, Any] = {"type": type_of(value)}
        if value.table is None:
            return info
        if value.kind == TABLE:
            known = tables.table_info(native, value.table)
            with session_of(native).read() as snapshot:
                count = snapshot.count(known)
            return {
                **info,
                "db": _info(call, Database(value.table.database)),
                "doc_count_estimates": [count],
                "id": tables.table_id(native, known),
                "indexes": sorted(known.indexes),
                "name": value.table.name,
                "primary_key": known.primary_key,
            }
        return {**info, "table": _info(call, table_of(value))}
    if isinstance(value, Single):
        return {"type": "SELECTION<OBJECT>", "table": _info(call, Sequence(TABLE, value.path, value.table))}
    if isinstance(value, Function):
        return {"type": "FUNCTION", "source_code": "function"}
    if isinstance(value, Grouped):
        return {"type": "GROUPED_DATA"}
    name = type_name(value)
    if name in ("MINVAL", "MAXVAL"):
        return {"type": name}
    if isinstance(value, bytes):
        return {"type": name, "count": len(value), "value": value}
    return {"type": name, "value": OPERATIONS["to_json_string"].function(value)}


def table_of(value: Sequence) -> Sequence:
    return Sequence(TABLE, value.path, value.table)


@handles("ungroup", takes_groups=True)
def ungroup(call: TermCall) -> Any:
    value = call.values[0]
    if not isinstance(value, Grouped):
        raise with_path(expected("GROUPED_DATA", value), call.paths[0])
    return [{"group": group, "reduction": reduction} for group, reduction in value.groups]
