"""Write hooks: a table's function for every write of a driver.

A hook is stored as its terms, in the hidden table `tables.HOOKS`. It does not apply to native writes.

Rule of this file: handlers of the two terms, and the hook as a function for `terms_write`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from reactdb.database import Database
from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.errors import CompileError, with_path
from reactdb.dialects.rethinkdb.evaluator import Evaluator, TermCall, handles
from reactdb.dialects.rethinkdb.functions import Function, is_deterministic
from reactdb.dialects.rethinkdb.parse import parse
from reactdb.dialects.rethinkdb.query_text import print_term
from reactdb.dialects.rethinkdb.serialized_functions import HOOK_PREFIX, read_hook, sendable_value
from reactdb.dialects.rethinkdb.terms import FUNC, VAR, Term
from reactdb.dialects.rethinkdb.values import TableName, expected_kind
from reactdb.dialects.rethinkdb.wire import render
from reactdb.errors import QueryError
from reactdb.values import collation

Hook = Callable[[bytes, Any, Any], Any]


@handles("set_write_hook")
def set_write_hook(call: TermCall) -> Any:
    table, native = call.table_name(), call.evaluator.native
    tables.table_info(native, table)
    value = call.values[1]
    had_one = tables.HOOKS.get(native, table) is not None
    if value is None:
        tables.HOOKS.forget(native, table)
        return {"deleted": 1}
    if isinstance(value, (bytes, bytearray)):
        term = from_binary(bytes(value))
    elif isinstance(value, Function):
        term = call.term.arguments[1]
    else:
        raise with_path(expected_kind("FUNCTION", call.datum(1)), call.paths[1])
    if not is_deterministic(term):
        raise QueryError("Write hook functions must be deterministic.")
    if term.type is not FUNC or len(term.parameters) != 3:
        raise QueryError("Write hook functions must expect 3 arguments.")
    tables.HOOKS.put(native, table, {"function": json.dumps(unparse(term))})
    return {"replaced": 1} if had_one else {"created": 1}


@handles("get_write_hook")
def get_write_hook(call: TermCall) -> Any:
    return hook_document(call.evaluator.native, call.table_name())


def hook_document(native: Database, table: TableName) -> dict[str, Any] | None:
    """The hook in `get_write_hook` and `config`: a binary for `set_write_hook`, and its text."""
    text = hook_text(native, table)
    if text is None:
        return None
    query = f"setWriteHook({print_term(parse(json.loads(text)))})"
    return {"function": HOOK_PREFIX + text.encode(), "query": query}


def from_binary(data: bytes) -> Term:
    """The function of a hook, from a binary of `get_write_hook`: of reactdb, or of a RethinkDB server.

    Raises:
        QueryError: It is something else, or damaged.
    """
    if not data.startswith(HOOK_PREFIX):
        raise QueryError(
            "Cannot create a write hook except from a reql_write_hook_function returned from `get_write_hook`."
        )
    text = data[len(HOOK_PREFIX) :]
    if not text.startswith(b"["):
        return parse(read_hook(data))
    try:
        return parse(json.loads(text))
    except (ValueError, CompileError, QueryError):
        raise QueryError("The write hook cannot be read: it is damaged.") from None


def hook_text(native: Database, table: TableName) -> str | None:
    """The terms of a table's hook as JSON."""
    note = tables.HOOKS.get(native, table)
    return None if note is None else str(note["function"])


def unparse(term: Term) -> Any:
    """A term in the drivers' form."""
    if term.is_constant:
        return sendable_value(render(term.value))
    if term.type is VAR:
        return [VAR.number, [term.parameters[0]]]
    if term.type is FUNC:
        return [FUNC.number, [[2, list(term.parameters)], unparse(term.arguments[0])]]
    if term.type.name == "make_obj":
        return {name: unparse(value) for name, value in term.options.items()}
    return [
        term.type.number,
        [unparse(argument) for argument in term.arguments],
        {name: unparse(value) for name, value in term.options.items()},
    ]


def hook_of(evaluator: Evaluator, table: TableName) -> Hook | None:
    """The table's write hook as a function of (key, old, new); None if the table has none, as most."""
    text = hook_text(evaluator.native, table)
    if text is None:
        return None
    function = Function(evaluator, parse(json.loads(text)), {})

    def hook(key: bytes, old: Any, new: Any) -> Any:
        context = {"primary_key": collation.key_value(key), "timestamp": evaluator.now}
        result = function(context, old, new)
        if new is None and result is not None:
            raise QueryError("A write hook function must not turn a deletion into a replacement/insertion.")
        if new is not None and result is None:
            raise QueryError("A write hook function must not turn a replacement/insertion into a deletion.")
        return result

    return hook
