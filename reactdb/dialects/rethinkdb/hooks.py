"""Write hooks: a function of a table that every write of a driver goes through.

A hook is kept as its terms, in the table `rethinkdb.table_hooks`. Native writes do not pass it: a hook belongs to the dialect.

Rule of this file: handlers of the two terms, and the hook as a function for `writing`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from reactdb import collation
from reactdb.database import Database
from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.errors import located
from reactdb.dialects.rethinkdb.evaluator import Call, Evaluator, handles
from reactdb.dialects.rethinkdb.functions import Function, is_deterministic
from reactdb.dialects.rethinkdb.parse import parse
from reactdb.dialects.rethinkdb.terms import FUNC, VAR, Term
from reactdb.dialects.rethinkdb.values import TableName, expected_kind
from reactdb.dialects.rethinkdb.wire import rendered
from reactdb.errors import QueryError

Hook = Callable[[bytes, Any, Any], Any]


@handles("set_write_hook")
def set_write_hook(call: Call) -> Any:
    table, native = named_table(call), call.evaluator.native
    tables.table_info(native, table)
    value = call.values[1]
    had_one = stored_hook(call.evaluator, table) is not None
    if value is None:
        forget_hook(native, table)
        return {"deleted": 1}
    if not isinstance(value, Function):
        raise located(expected_kind("FUNCTION", call.datum(1)), call.paths[1])
    term = call.term.arguments[1]
    if not is_deterministic(term):
        raise QueryError("Write hook functions must be deterministic.")
    native.table_create(tables.HOOKS, primary_key="table", exist_ok=True)
    native.table(tables.HOOKS).insert(
        {"table": table.file_name, "function": json.dumps(unparsed(term))}, conflict="replace"
    )
    return {"replaced": 1} if had_one else {"created": 1}


@handles("get_write_hook")
def get_write_hook(call: Call) -> Any:
    table = named_table(call)
    function = stored_hook(call.evaluator, table)
    if function is None:
        return None
    return {"function": b"", "query": "setWriteHook(function(context, old, new) { ... })"}


def stored_hook(evaluator: Evaluator, table: TableName) -> Function | None:
    native = evaluator.native
    engine = native._open_engine()
    if tables.HOOKS not in engine.catalogue.live:
        return None
    document = native.table(tables.HOOKS).get(table.file_name).run()
    if document is None:
        return None
    return Function(evaluator, parse(json.loads(document["function"])), {})


def forget_hook(native: Database, table: TableName) -> None:
    if tables.HOOKS in native.table_list():
        native.table(tables.HOOKS).get(table.file_name).delete()


def move_hook(native: Database, old: TableName, new: TableName) -> None:
    """A table that is renamed takes its hook along."""
    if tables.HOOKS not in native.table_list():
        return
    hooks = native.table(tables.HOOKS)
    document = hooks.get(old.file_name).run()
    if document is not None:
        with native.transaction():
            hooks.get(old.file_name).delete()
            hooks.insert({**document, "table": new.file_name}, conflict="replace")


def unparsed(term: Term) -> Any:
    """A term as the driver would send it."""
    if term.is_constant:
        return _unparsed_value(rendered(term.value))
    if term.type is VAR:
        return [VAR.number, [term.parameters[0]]]
    if term.type is FUNC:
        return [FUNC.number, [[2, list(term.parameters)], unparsed(term.arguments[0])]]
    if term.type.name == "make_obj":
        return {name: unparsed(value) for name, value in term.options.items()}
    return [
        term.type.number,
        [unparsed(argument) for argument in term.arguments],
        {name: unparsed(value) for name, value in term.options.items()},
    ]


def _unparsed_value(value: Any) -> Any:
    if isinstance(value, list):
        return [2, [_unparsed_value(inner) for inner in value]]
    if isinstance(value, dict):
        return {name: _unparsed_value(inner) for name, inner in value.items()}
    return value


def named_table(call: Call) -> TableName:
    found = call.table().table
    assert found is not None
    return found


def hook_of(evaluator: Evaluator, table: TableName) -> Hook | None:
    """The table's write hook as a function of (key, old, new); None for most tables, which have none."""
    function = stored_hook(evaluator, table)
    if function is None:
        return None

    def hook(key: bytes, old: Any, new: Any) -> Any:
        context = {"primary_key": collation.key_value(key), "timestamp": evaluator.now}
        found = function(context, old, new)
        if new is None and found is not None:
            raise QueryError("A write hook function must not turn a deletion into a replacement/insertion.")
        if new is not None and found is None:
            raise QueryError("A write hook function must not turn a replacement/insertion into a deletion.")
        return found

    return hook
