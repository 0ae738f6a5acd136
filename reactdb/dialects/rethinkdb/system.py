"""The computed tables of db("rethinkdb"), with data for tools and scripts about the server and its tables.

    db_config, table_config, table_status      databases and tables
    server_config, server_status               the only server
    jobs, stats, logs                          its activity; see `jobs`
    current_issues                             always empty, because problems are raised as errors

They leave out everything that is not measured. They have everything that RethinkDB's own tools read: `rethinkdb-dump` begins with
the version in `server_status`.

`durability` and `write_acks` of a table's configuration can be set. They are kept in a hidden table, with the table's name in the
file as the key, as for write hooks.

Rule of this file: it makes the documents and keeps the settings. `terms_config` decides about changes.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Any, Final

import reactdb
from reactdb.database import Database as NativeDatabase
from reactdb.dialects.rethinkdb.hooks import hook_document
from reactdb.dialects.rethinkdb.jobs import jobs_of
from reactdb.dialects.rethinkdb.tables import (
    COMPUTED,
    SETTINGS,
    SYSTEM,
    check_database,
    database_id,
    databases,
    table_id,
    table_info,
    tables,
)
from reactdb.dialects.rethinkdb.values import TableName
from reactdb.session import session_of

SERVER_NAME: Final = "reactdb"
# RethinkDB's version. Its tools check this before anything else.
SPOKEN_VERSION: Final = "2.4.4"


def documents(native: NativeDatabase, name: str) -> list[dict[str, Any]]:
    """The documents of a computed table."""
    assert name in COMPUTED, name
    if name == "db_config":
        return [database_config(native, database) for database in addressable(native)]
    if name in ("table_config", "table_status"):
        make = table_config if name == "table_config" else table_status
        return [
            make(native, TableName(database, table))
            for database in addressable(native)
            for table in tables(native, database)
        ]
    if name == "server_config":
        return [
            {
                "cache_size_mb": "auto",
                "id": session_of(native).database_id,
                "name": SERVER_NAME,
                "tags": ["default"],
            }
        ]
    if name == "server_status":
        return [server_status(native)]
    if name == "jobs":
        return [job.document(SERVER_NAME) for job in jobs_of(native).list_running()]
    if name == "stats":
        return stats(native)
    return [log_entry(native)] if name == "logs" else []


def addressable(native: NativeDatabase) -> list[str]:
    """The databases whose tables can be configured: all but `rethinkdb`."""
    return [database for database in databases(native) if database != SYSTEM]


# ---------------------------------------------------------------------------------------------------------------
# Databases and tables


def database_config(native: NativeDatabase, name: str) -> dict[str, Any]:
    check_database(native, name)
    return {"id": database_id(native, name), "name": name}


def table_config(native: NativeDatabase, table: TableName) -> dict[str, Any]:
    """The document of `config()`, without the parts for a cluster."""
    info = table_info(native, table)
    settings = SETTINGS.get(native, table) or {}
    return {
        "db": table.database,
        "durability": settings.get("durability", session_of(native).durability),
        "id": table_id(native, info),
        "indexes": sorted(info.indexes),
        "name": table.name,
        "primary_key": info.primary_key,
        "shards": one_shard(),
        "write_acks": settings.get("write_acks", "majority"),
        "write_hook": hook_document(native, table),
    }


def one_shard() -> list[dict[str, Any]]:
    return [{"nonvoting_replicas": [], "primary_replica": SERVER_NAME, "replicas": [SERVER_NAME]}]


def table_status(native: NativeDatabase, table: TableName) -> dict[str, Any]:
    info = table_info(native, table)
    return {
        "db": table.database,
        "id": table_id(native, info),
        "name": table.name,
        "raft_leader": SERVER_NAME,
        "shards": [
            {"primary_replicas": [SERVER_NAME], "replicas": [{"server": SERVER_NAME, "state": "ready"}]}
        ],
        "status": {
            "all_replicas_ready": True,
            "ready_for_outdated_reads": True,
            "ready_for_reads": True,
            "ready_for_writes": True,
        },
    }


# ---------------------------------------------------------------------------------------------------------------
# The server


def server_status(native: NativeDatabase) -> dict[str, Any]:
    jobs = jobs_of(native)
    return {
        "id": session_of(native).database_id,
        "name": SERVER_NAME,
        "network": {
            "canonical_addresses": [],
            "connected_to": {},
            "hostname": platform.node(),
            "http_admin_port": "<no http admin>",
            "reql_port": jobs.port,
            "time_connected": jobs.started,
        },
        "process": {
            "argv": list(sys.argv),
            "pid": os.getpid(),
            "time_started": jobs.started,
            "version": f"rethinkdb {SPOKEN_VERSION} (reactdb {reactdb.__version__})",
        },
    }


def stats(native: NativeDatabase) -> list[dict[str, Any]]:
    """The counters of the server. There are none for single tables: neither reads nor bytes are counted."""
    jobs = jobs_of(native)
    engine = {
        "client_connections": jobs.connections,
        "clients_active": len({job.session for job in jobs.list_running()}),
        "queries_total": jobs.queries,
    }
    identity = session_of(native).database_id
    return [
        {"id": ["cluster"], "query_engine": engine},
        {"id": ["server", identity], "query_engine": engine, "server": SERVER_NAME},
    ]


def log_entry(native: NativeDatabase) -> dict[str, Any]:
    """The only entry of the table `logs`. Errors are in the log of the process."""
    moment = jobs_of(native).started
    return {
        "id": [moment.isoformat(), session_of(native).database_id],
        "level": "notice",
        "message": f"reactdb {reactdb.__version__} serves {native.path}. Messages are in the log of its process.",
        "server": SERVER_NAME,
        "timestamp": moment,
        "uptime": 0,
    }
