"""Terms: creating and dropping databases, tables and indexes.

An index's function is stored as an expression of reactdb, because the file has no code. `index_status` returns a binary, from
which `index_create` creates the same index again, as in RethinkDB. Binaries of a RethinkDB server are accepted too.

Rule of this file: handlers. `tables` maps the names of databases and tables.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.database import Database as NativeDatabase
from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.errors import OperationFailed, with_path
from reactdb.dialects.rethinkdb.evaluator import TermCall, handles
from reactdb.dialects.rethinkdb.functions import Function
from reactdb.dialects.rethinkdb.parse import parse
from reactdb.dialects.rethinkdb.serialized_functions import INDEX_PREFIX, is_servers_index, read_index
from reactdb.dialects.rethinkdb.system import table_config
from reactdb.dialects.rethinkdb.values import Database, TableName, expected
from reactdb.errors import CorruptDatabase, IncompatibleFormat, IndexNotFound, QueryError
from reactdb.expression import Call, Constant, Expression, Row, check_known, compile_value, from_data, to_data
from reactdb.expression.show import format_node
from reactdb.session import live_table, session_of
from reactdb.store.catalogue import IndexInfo
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec

NO_GEOMETRY: Final = "reactdb has no geospatial indexes."


# ---------------------------------------------------------------------------------------------------------------
# Databases and tables


@handles("db_list")
def db_list(call: TermCall) -> Any:
    return tables.databases(call.evaluator.native)


@handles("db_create")
def db_create(call: TermCall) -> Any:
    return tables.create_database(call.evaluator.native, call.string(0))


@handles("db_drop")
def db_drop(call: TermCall) -> Any:
    native, name = call.evaluator.native, call.string(0)
    dropped = tables.tables(native, name)
    answer = tables.drop_database(native, name)
    for table in dropped:
        forget(native, TableName(name, table))
    return answer


def forget(native: NativeDatabase, table: TableName) -> None:
    """Remove the settings and the hook of a dropped table, so that a new table of its name does not get them."""
    tables.HOOKS.forget(native, table)
    tables.SETTINGS.forget(native, table)


def database_and_rest(call: TermCall, rest: int) -> tuple[str, list[int]]:
    """The call's explicit or implied database, and the places of the `rest` arguments after it."""
    if len(call) > rest:
        value = call.values[0]
        if not isinstance(value, Database):
            raise with_path(expected("DATABASE", value), call.paths[0])
        return value.name, list(range(1, len(call)))
    return call.evaluator.options.database, list(range(len(call)))


@handles("table_list")
def table_list(call: TermCall) -> Any:
    database, _ = database_and_rest(call, 0)
    tables.check_database(call.evaluator.native, database)
    return tables.tables(call.evaluator.native, database)


@handles("table_create")
def table_create(call: TermCall) -> Any:
    database, places = database_and_rest(call, 1)
    primary_key = call.string_option("primary_key") or "id"
    name = TableName(database, call.string(places[0]))
    native, durability = call.evaluator.native, call.durability()
    tables.create_table(native, name, primary_key)
    if durability is not None and durability != session_of(native).durability:
        tables.SETTINGS.put(native, name, {"durability": durability})
    return {
        "config_changes": [{"new_val": table_config(native, name), "old_val": None}],
        "tables_created": 1,
    }


@handles("table_drop")
def table_drop(call: TermCall) -> Any:
    database, places = database_and_rest(call, 1)
    name = TableName(database, call.string(places[0]))
    native = call.evaluator.native
    if database == tables.SYSTEM:
        raise OperationFailed("Database `rethinkdb` is special; you can't drop tables in it.")
    config = table_config(native, name)
    native.table_drop(name.file_name)
    forget(native, name)
    return {"config_changes": [{"new_val": None, "old_val": config}], "tables_dropped": 1}


# ---------------------------------------------------------------------------------------------------------------
# Indexes


@handles("index_create")
def index_create(call: TermCall) -> Any:
    name, table = call.string(1), call.table_name()
    native = call.evaluator.native
    if call.flag("geo"):
        raise QueryError(NO_GEOMETRY)
    info = tables.table_info(native, table)
    multi = unique = False
    if name == info.primary_key:
        raise QueryError(f"Index name conflict: `{name}` is the name of the primary key.")
    tables.check_index_name(name)
    expression: Expression | None
    if len(call) < 3:
        expression = Expression(Call("bracket", (Row(), Constant(name))))
    elif isinstance(call.values[2], (bytes, bytearray)):
        expression, multi, unique = from_binary(call, bytes(call.values[2]))
    else:
        expression = index_expression(call.function(2))
    if call.has_option("multi"):
        multi = call.flag("multi")
    data = codec.encode_value(to_data(expression))

    def one(transaction: WriteTransaction) -> None:
        known = live_table(transaction, table.file_name)
        if name in known.indexes:
            raise OperationFailed(f"Index `{name}` already exists on table `{table}`.")
        transaction.create_index(known, name, data, multi, unique)

    session_of(native).transact(one)
    return {"created": 1}


def index_expression(function: Function) -> Expression:
    if not function.is_deterministic:
        raise QueryError("Could not prove function deterministic.  Index functions must be deterministic.")
    if len(function.parameters) > 1:
        raise QueryError("Expected a function of one argument.")
    expression = function.expression
    if expression is None:
        raise QueryError(
            "reactdb cannot index this function: one of its terms does not only compute with the document."
        )
    compile_value(expression)
    return Expression(expression.node)


def binary_of(index: IndexInfo) -> bytes:
    """The `function` in `index_status`: everything for creating the index again."""
    unique = [True] if index.is_unique else []
    data = codec.encode_value([1, index.multi, to_data(index.expression), *unique])
    return INDEX_PREFIX + data


def from_binary(call: TermCall, data: bytes) -> tuple[Expression, bool, bool]:
    """The expression of an index, and whether it is a multi index, and unique, from a binary of `index_status`: of reactdb, or of
    RethinkDB.

    Raises:
        QueryError: The binary is wrong; with ReQL's message.
    """
    try:
        if not data.startswith(INDEX_PREFIX):
            raise QueryError(
                "Cannot create an sindex except from a reql_index_function returned from `index_status` in the field "
                "`function`."
            )
        if is_servers_index(data):
            function, multi, geo = read_index(data)
            if geo:
                raise QueryError(NO_GEOMETRY)
            return index_expression(Function(call.evaluator, parse(function), {})), multi, False
        return own_index(data)
    except QueryError as error:
        raise with_path(error, call.paths[2]) from None


def own_index(data: bytes) -> tuple[Expression, bool, bool]:
    try:
        version, multi, tree, *unique = codec.decode_value(data[len(INDEX_PREFIX) :])
        if version != 1:
            raise IncompatibleFormat("a newer version made it")
        expression = from_data(tree)
        check_known(expression)
        return expression, bool(multi), unique == [True]
    except (CorruptDatabase, IncompatibleFormat, ValueError, TypeError, QueryError):
        raise QueryError(
            "The index function cannot be read: it was made by another version or is damaged."
        ) from None


@handles("index_drop")
def index_drop(call: TermCall) -> Any:
    name, table = call.string(1), call.table_name()
    try:
        call.evaluator.native.table(table.file_name).index_drop(name)
    except IndexNotFound:
        raise OperationFailed(f"Index `{name}` does not exist on table `{table}`.") from None
    return {"dropped": 1}


@handles("index_rename")
def index_rename(call: TermCall) -> Any:
    old, new, table = call.string(1), call.string(2), call.table_name()
    overwrite = call.flag("overwrite")
    info = tables.table_info(call.evaluator.native, table)
    for name in (old, new):
        if name == info.primary_key:
            raise QueryError(f"Index name conflict: `{name}` is the name of the primary key.")
    tables.check_index_name(new)

    def one(transaction: WriteTransaction) -> bool:
        known = live_table(transaction, table.file_name)
        is_taken = new in known.indexes and new != old
        if old not in known.indexes or (is_taken and not overwrite):
            raise OperationFailed(
                f"Index `{old}` does not exist or index `{new}` already exists on table `{table}`."
            )
        if old == new:
            return False
        if is_taken:
            transaction.drop_index(known, new)
        transaction.rename_index(live_table(transaction, table.file_name), old, new)
        return True

    return {"renamed": int(session_of(call.evaluator.native).transact(one))}


@handles("index_list")
def index_list(call: TermCall) -> Any:
    return sorted(tables.table_info(call.evaluator.native, call.table_name()).indexes)


@handles("index_status")
def index_status(call: TermCall) -> Any:
    return statuses(call)


@handles("index_wait")
def index_wait(call: TermCall) -> Any:
    """The status of indexes, without waiting, because an index is filled when it is created."""
    return statuses(call)


def statuses(call: TermCall) -> list[dict[str, Any]]:
    table = call.table_name()
    info = tables.table_info(call.evaluator.native, table)
    names = [call.string(place) for place in range(1, len(call))] or sorted(info.indexes)
    for name in names:
        if name not in info.indexes:
            raise OperationFailed(f"Index `{name}` was not found on table `{table}`.")
    return [
        {
            "function": binary_of(info.indexes[name]),
            "geo": False,
            "index": name,
            "multi": info.indexes[name].multi,
            "outdated": False,
            "query": index_query(info.indexes[name]),
            "ready": True,
        }
        for name in sorted(names)
    ]


def index_query(index: IndexInfo) -> str:
    """The index as JavaScript, as RethinkDB shows it."""
    options = ", {multi: true}" if index.multi else ""
    return f"indexCreate('{index.name}', function(row) {{ return {format_node(index.expression.node)}; }}{options})"
