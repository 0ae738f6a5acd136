"""Terms: the configuration of tables and its changes: `config`, `status`, `reconfigure`, `rebalance`, `wait`, `sync`.

There is one server with one shard of each table. A script that requests exactly that gets the answer of a real server, and
nothing is done. A request for a second server is an error.

Rule of this file: handlers, and the writes to `table_config`. `system` makes the documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from reactdb.database import Database as NativeDatabase
from reactdb.dialects.rethinkdb import system, tables
from reactdb.dialects.rethinkdb.errors import OperationFailed, with_path
from reactdb.dialects.rethinkdb.evaluator import TermCall, handles
from reactdb.dialects.rethinkdb.values import Database, Sequence, Single, TableName, expected
from reactdb.dialects.rethinkdb.write_checks import check_object
from reactdb.documents.write import COUNTERS
from reactdb.errors import QueryError
from reactdb.query import Get, Query
from reactdb.session import live_table, session_of
from reactdb.store.transaction import WriteTransaction
from reactdb.values.collation import type_name

NOT_SUPPORTED: Final = "reactdb runs in one process and has no cluster: the term `{}` is not supported."
CHANGEABLE: Final = ("durability", "name", "write_acks")
ONE_SHARD: Final = "reactdb runs in one process: a table has one shard, and cannot have {}."
TABLE_CONFIG: Final = TableName(tables.SYSTEM, "table_config")


# ---------------------------------------------------------------------------------------------------------------
# Looking


@handles("config")
def config(call: TermCall) -> Any:
    native, value = call.evaluator.native, call.values[0]
    if isinstance(value, Database):
        document = system.database_config(native, value.name)
        return select_computed(call, TableName(tables.SYSTEM, "db_config"), document)
    return select_computed(call, TABLE_CONFIG, system.table_config(native, call.table_name()))


@handles("status")
def status(call: TermCall) -> Any:
    document = system.table_status(call.evaluator.native, call.table_name())
    return select_computed(call, TableName(tables.SYSTEM, "table_status"), document)


def select_computed(call: TermCall, where: TableName, document: dict[str, Any]) -> Single:
    """A document of a computed table as a selection from it."""
    query = Query(where.file_name, (Get(document["id"], b""),))
    return Single(where, call.path, query, lambda: document)


@handles("wait")
def wait(call: TermCall) -> Any:
    """The number of tables; they are ready as soon as they exist."""
    return {
        "ready": len(tables_to_configure(call)) if call.values and isinstance(call.values[0], Database) else 1
    }


@handles("sync")
def sync(call: TermCall) -> Any:
    call.table_name()
    # A commit with hard durability makes all earlier soft commits durable too.
    with call.evaluator.native.transaction(durability="hard"):
        pass
    return {"synced": 1}


@handles("grant")
def grant(call: TermCall) -> Any:
    raise QueryError(NOT_SUPPORTED.format("grant"))


# ---------------------------------------------------------------------------------------------------------------
# Terms for clusters


def tables_to_configure(call: TermCall) -> list[TableName]:
    """The table, or all tables of the database."""
    if not call.values:
        raise QueryError(f"`{call.term.name}` can only be called on a table or database.")
    value = call.values[0]
    if isinstance(value, Database):
        native = call.evaluator.native
        tables.check_database(native, value.name)
        if value.name == tables.SYSTEM:
            raise OperationFailed(
                f"Database `{tables.SYSTEM}` is special; you can't configure the tables in it."
            )
        return [TableName(value.name, name) for name in tables.tables(native, value.name)]
    if isinstance(value, Sequence):
        return [call.table_name()]
    raise with_path(expected("TABLE", value), call.paths[0])


@handles("reconfigure")
def reconfigure(call: TermCall) -> Any:
    native, names = call.evaluator.native, tables_to_configure(call)
    dry_run = call.flag("dry_run")
    if call.option("emergency_repair") is not None:
        raise QueryError("reactdb runs in one process: there are no other replicas to repair a table from.")
    check_shards(call)
    answers = []
    for name in names:
        configured, ready = system.table_config(native, name), system.table_status(native, name)
        answer: dict[str, Any] = {
            "config_changes": [{"new_val": configured, "old_val": configured}],
            "reconfigured": 0 if dry_run else 1,
        }
        if not dry_run:
            answer["status_changes"] = [{"new_val": ready, "old_val": ready}]
        answers.append(answer)
    return total_counters(answers)


def check_shards(call: TermCall) -> None:
    """Check that the call requests one shard with one replica, because there is no more."""
    for name in ("shards", "replicas"):
        if not call.has_option(name):
            raise QueryError(f"Missing required argument `{name}`.")
    shards, replicas = call.option("shards"), call.option("replicas")
    if isinstance(replicas, dict):
        if not call.has_option("primary_replica_tag"):
            raise with_path(
                QueryError("`primary_replica_tag` must be specified when `replicas` is an OBJECT."),
                call.option_path("replicas"),
            )
        replicas = sum(count for count in replicas.values() if isinstance(count, int))
    for name, count in (("shards", shards), ("replicas", replicas)):
        if isinstance(count, bool) or not isinstance(count, int):
            kind = type_name(count)
            raise with_path(QueryError(f"Expected type NUMBER but found {kind}."), call.option_path(name))
    if shards < 1:
        raise with_path(QueryError("Every table must have at least one shard."), call.option_path("shards"))
    if shards > 1:
        raise OperationFailed(ONE_SHARD.format(f"{shards} shards"))
    if replicas > 1:
        raise OperationFailed(
            f"Can't put {replicas} replicas on servers with the tag `default` because there are only 1 servers with the tag "
            "`default`. It's impossible to have more replicas of the data than there are servers."
        )


@handles("rebalance")
def rebalance(call: TermCall) -> Any:
    native, answers = call.evaluator.native, []
    for name in tables_to_configure(call):
        ready = system.table_status(native, name)
        with session_of(native).read() as snapshot:
            is_empty = not snapshot.count(tables.table_info(native, name))
        answers.append(
            # A real server cannot rebalance a table without documents, and answers so.
            {"rebalanced": 0 if is_empty else 1, "status_changes": [{"new_val": ready, "old_val": ready}]}
        )
    return total_counters(answers)


def total_counters(answers: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The answers for the tables of a database in one: numbers are added, lists are concatenated."""
    total: dict[str, Any] = {}
    for answer in answers:
        for name, value in answer.items():
            total[name] = total[name] + value if name in total else value
    return total


# ---------------------------------------------------------------------------------------------------------------
# Changing


def is_configuration(selected: Any) -> bool:
    """Whether this selects documents through which `update` changes the configuration of tables."""
    return isinstance(selected, (Single, Sequence)) and selected.table == TABLE_CONFIG


def configure(
    call: TermCall, documents: Iterable[Any], patch: Callable[[Any], Any], return_changes: bool | str
) -> dict[str, Any]:
    """`update` of documents of `table_config`.

    Raises:
        OperationFailed: A name is taken; QueryError: the update changes a setting that is fixed.
    """
    native, counts = call.evaluator.native, COUNTERS.copy()
    changes: list[dict[str, Any]] = []
    for before in documents:
        if before is None:
            counts["skipped"] += 1
            continue
        table = change_table(native, before, check_object(patch(before)))
        after = system.table_config(native, table)
        counts["unchanged" if after == before else "replaced"] += 1
        if after != before or return_changes == "always":
            changes.append({"new_val": after, "old_val": before})
    return {**counts, "changes": changes} if return_changes else dict(counts)


def change_table(native: NativeDatabase, config: dict[str, Any], patch: dict[str, Any]) -> TableName:
    """Apply all of a patch or nothing. Returns the table with its new name."""
    changed = {name: value for name, value in patch.items() if config.get(name) != value}
    if changed.get("shards") is not None and is_one_shard(changed["shards"]):
        del changed["shards"]
    unknown = sorted(set(changed).difference(CHANGEABLE))
    if unknown:
        shown = ", ".join(f"`{name}`" for name in CHANGEABLE)
        raise QueryError(
            f"reactdb runs in one process: of a table's configuration only {shown} can change, not: {', '.join(unknown)}."
        )
    old = TableName(config["db"], config["name"])
    settings = {name: check_setting(name, value) for name, value in changed.items() if name != "name"}
    table = old
    if "name" in changed:
        table = rename(native, old, changed["name"])
    if settings:
        tables.SETTINGS.put(native, table, settings)
    return table


def is_one_shard(shards: Any) -> bool:
    """Whether `shards` describes the single shard; empty parts may be missing."""
    if not isinstance(shards, list) or len(shards) != 1 or not isinstance(shards[0], dict):
        return False
    return {**system.one_shard()[0], **shards[0]} == system.one_shard()[0]


def check_setting(name: str, value: Any) -> str:
    options = ("hard", "soft") if name == "durability" else ("majority", "single")
    if value not in options:
        title = "Durability" if name == "durability" else "Write acks"
        raise QueryError(
            f'{title} option `{value}` unrecognized (options are "{options[0]}" and "{options[1]}").'
        )
    return str(value)


def rename(native: NativeDatabase, old: TableName, name: Any) -> TableName:
    if not isinstance(name, str):
        raise QueryError(f"Expected type STRING but found {type_name(name)}.")
    new = TableName(old.database, name)
    tables.check_name("Table", new.name)

    def one(transaction: WriteTransaction) -> None:
        known = live_table(transaction, old.file_name)
        if new.file_name in transaction.catalogue.live:
            raise OperationFailed(f"Table `{new}` already exists.")
        transaction.rename_table(known, new.file_name)

    session_of(native).transact(one)
    tables.HOOKS.move(native, old, new)
    tables.SETTINGS.move(native, old, new)
    return new
