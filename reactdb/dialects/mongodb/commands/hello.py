"""Commands for a driver's first contact: a description of the server, and signs of life.

Rule of this file: nothing here reads or writes a document.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from typing import Any, Final

from bson import Int64

from reactdb.clock import now as read_clock
from reactdb.clock import time_ns
from reactdb.dialects.mongodb.bson_order import is_text, type_name
from reactdb.dialects.mongodb.commands.authentication import speculative
from reactdb.dialects.mongodb.commands.deployment import SET_NAME, VERSION, VERSION_TEXT, WIRE_VERSION
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.stable_api import STABLE_COMMANDS
from reactdb.dialects.mongodb.commands.table import COMMANDS, always, command
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.logic import is_true
from reactdb.dialects.mongodb.retries import SESSION_MINUTES


def greeting(request: CommandRequest) -> dict[str, Any]:
    body, client, deployment = request.body, request.client, request.deployment
    client.set_driver_description(body.get("client"))
    now = read_clock()
    moment = deployment.operation_time()
    reply: dict[str, Any] = {
        "helloOk": True,
        "maxBsonObjectSize": 16 * 1024 * 1024,
        "maxMessageSizeBytes": deployment.message_bytes,
        "maxWriteBatchSize": 100_000,
        "localTime": now,
        "logicalSessionTimeoutMinutes": SESSION_MINUTES,
        "connectionId": client.number,
        "minWireVersion": 0,
        "maxWireVersion": WIRE_VERSION,
        "readOnly": False,
        # Without `topologyVersion` a driver polls every ten seconds, and needs no stream of replies.
        "setName": SET_NAME,
        "hosts": [client.server_address],
        "setVersion": 1,
        "secondary": False,
        "primary": client.server_address,
        "me": client.server_address,
        "electionId": deployment.election_id,
        "lastWrite": {"opTime": {"ts": moment, "t": Int64(1)}, "lastWriteDate": now},
    }
    if deployment.exchange is not None:
        sasl_user = body.get("saslSupportedMechs")
        if is_text(sasl_user):
            reply["saslSupportedMechs"] = ["SCRAM-SHA-256"]
        begun = speculative(request)
        if begun is not None:
            reply["speculativeAuthenticate"] = begun
    return reply


@command("hello", is_open=True, quick=always)
def hello(request: CommandRequest) -> dict[str, Any]:
    return {"isWritablePrimary": True, **greeting(request)}


@command("isMaster", is_open=True, quick=always)
def is_master(request: CommandRequest) -> dict[str, Any]:
    return {"ismaster": True, **greeting(request)}


@command("ping", is_open=True, quick=always)
def ping(request: CommandRequest) -> dict[str, Any]:
    return {}


@command("buildInfo", is_open=True, quick=always)
def build_info(request: CommandRequest) -> dict[str, Any]:
    return {
        "version": VERSION_TEXT,
        "versionArray": list(VERSION),
        "gitVersion": "reactdb",
        "modules": ["reactdb"],
        "javascriptEngine": "none",
        "bits": 64,
        "debug": False,
        "maxBsonObjectSize": 16 * 1024 * 1024,
        "storageEngines": ["reactdb"],
    }


PARAMETERS: dict[str, Any] = {
    "featureCompatibilityVersion": {"version": ".".join(map(str, VERSION[:2]))},
    "enableTestCommands": False,
    "requireApiVersion": False,
    "authenticationMechanisms": ["SCRAM-SHA-256"],
    "transactionLifetimeLimitSeconds": 60,
    "logicalSessionTimeoutMinutes": SESSION_MINUTES,
}


@command("getParameter", quick=always)
def get_parameter(request: CommandRequest) -> dict[str, Any]:
    known = {**PARAMETERS, "enableTestCommands": request.deployment.for_testing}
    if request.value == "*" or (isinstance(request.value, dict) and request.value.get("allParameters")):
        return known
    values = {name: known[name] for name in request.body if name in known}
    if not values:
        raise MongoError(72, "no option found to get")
    return values


@command("setParameter", quick=always)
def set_parameter(request: CommandRequest) -> dict[str, Any]:
    raise MongoError(72, "no parameter of this server can be set")


@command("serverStatus", quick=always)
def server_status(request: CommandRequest) -> dict[str, Any]:
    deployment = request.deployment
    up_s = time_ns() / 1e9 - deployment.started_at
    counts = sorted(deployment.counts.items())
    status = {
        "host": deployment.address,
        "version": VERSION_TEXT,
        "process": "reactdb",
        "pid": Int64(os.getpid()),
        "uptime": up_s,
        "uptimeMillis": Int64(up_s * 1000),
        "localTime": read_clock(),
        "connections": {
            "current": len(deployment.clients),
            "active": len(deployment.clients),
            "totalCreated": deployment.opened,
        },
        "metrics": {
            "cursor": {"open": {"total": Int64(len(deployment.cursors))}},
            "commands": {name: {"total": Int64(number)} for name, number in counts},
        },
        "opcounters": operations(counts),
        "repl": {
            "setName": SET_NAME,
            "isWritablePrimary": True,
            "hosts": [deployment.address],
            "me": deployment.address,
        },
        "storageEngine": {"name": "reactdb", "persistent": not deployment.is_memory},
        "mem": {"bits": 64},
    }
    # A section is left out if the command has a false value for it.
    return {
        name: section
        for name, section in status.items()
        if not isinstance(section, dict) or is_true(request.body.get(name, True))
    }


OPERATIONS: Final = {
    "insert": "insert",
    "find": "query",
    "update": "update",
    "delete": "delete",
    "getMore": "getmore",
}
"""The names of commands in the counters of operations. All others are `command`."""


def operations(counts: Iterable[tuple[str, int]]) -> dict[str, Int64]:
    """The counters of operations, from the numbers of each command."""
    totals = dict.fromkeys((*OPERATIONS.values(), "command"), 0)
    for name, number in counts:
        totals[OPERATIONS.get(name, "command")] += number
    return {name: Int64(number) for name, number in totals.items()}


@command("connectionStatus", fields="showPrivileges", is_open=True, quick=always)
def connection_status(request: CommandRequest) -> dict[str, Any]:
    shown: dict[str, Any] = {"authenticatedUserPrivileges": []} if request.flag("showPrivileges") else {}
    user = request.client.user
    users = [{"user": user, "db": "admin"}] if user else []
    roles = [{"role": "root", "db": "admin"}] if user else []
    return {"authInfo": {"authenticatedUsers": users, "authenticatedUserRoles": roles, **shown}}


@command("whatsmyuri", is_open=True, quick=always)
def whats_my_uri(request: CommandRequest) -> dict[str, Any]:
    host, port = request.client.address
    return {"you": f"{host}:{port}"}


@command("replSetGetStatus", quick=always)
def set_status(request: CommandRequest) -> dict[str, Any]:
    deployment = request.deployment
    moment = deployment.operation_time()
    member = {
        "_id": 0,
        "name": deployment.address,
        "health": 1.0,
        "state": 1,
        "stateStr": "PRIMARY",
        "uptime": int(time_ns() / 1e9 - deployment.started_at),
        "optime": {"ts": moment, "t": Int64(1)},
        "self": True,
    }
    return {
        "set": SET_NAME,
        "date": read_clock(),
        "myState": 1,
        "term": Int64(1),
        "optimes": {"lastCommittedOpTime": {"ts": moment, "t": Int64(1)}},
        "members": [member],
    }


@command("replSetGetConfig", quick=always)
def set_config(request: CommandRequest) -> dict[str, Any]:
    member = {"_id": 0, "host": request.deployment.address, "votes": 1, "priority": 1.0}
    return {"config": {"_id": SET_NAME, "version": 1, "term": Int64(1), "members": [member], "settings": {}}}


@command("getCmdLineOpts", quick=always)
def command_line(request: CommandRequest) -> dict[str, Any]:
    parameters = {"enableTestCommands": 1} if request.deployment.for_testing else {}
    return {
        "argv": ["reactdb", "serve", "--mongodb"],
        "parsed": {"setParameter": parameters, "replication": {"replSet": SET_NAME}},
    }


@command("hostInfo", quick=always)
def host_info(request: CommandRequest) -> dict[str, Any]:
    machine = platform.uname()
    system: dict[str, Any] = {
        "currentTime": read_clock(),
        "hostname": request.deployment.address,
        "cpuAddrSize": 64,
        "numCores": os.cpu_count() or 1,
        "cpuArch": platform.machine(),
    }
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        bytes_ = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        system["memSizeMB"] = Int64(bytes_ // 2**20)
    return {
        "system": system,
        "os": {"type": machine.system, "name": machine.system, "version": machine.release},
        "extra": {},
    }


@command("listCommands", quick=always)
def list_commands(request: CommandRequest) -> dict[str, Any]:
    names = sorted({entry.name for entry in COMMANDS.values()})
    versions = {name: ["1"] if name in STABLE_COMMANDS else [] for name in names}
    return {
        "commands": {
            name: {"help": "", "apiVersions": versions[name], "deprecatedApiVersions": []} for name in names
        }
    }


LOGS: Final = ("global", "startupWarnings")


@command("getLog", fields="", quick=always)
def get_log(request: CommandRequest) -> dict[str, Any]:
    if request.database != "admin":
        raise MongoError(13, "getLog may only be run against the admin database.")
    name = request.value
    if not is_text(name):
        raise MongoError(
            14,
            f"BSON field 'getLog.getLog' is the wrong type '{type_name(name)}', expected type 'string'",
        )
    if name == "*":
        return {"names": list(LOGS)}
    if name not in LOGS:
        raise MongoError(96, f"No log named '{name}'")
    # The server's messages go to Python's `logging`, and are not kept.
    return {"totalLinesWritten": 0, "log": []}


@command("configureFailPoint", quick=always)
def configure_fail_point(request: CommandRequest) -> dict[str, Any]:
    if not request.deployment.for_testing:
        raise MongoError(59, "no such command: 'configureFailPoint'")
    name = request.get("configureFailPoint", str)
    entered = request.deployment.fail_points.set(
        name, request.body.get("mode"), request.get("data", dict, {})
    )
    return {"count": entered}
