"""Executing a command: find it, check the common fields, call it, and make its reply.

    1  a fail point may end it here
    2  the table has it, and the client has the right to run it
    3  its fields are known, if it is strict
    4  its session, its transaction
    5  the function of the command
    6  `ok`, or the error; and the moment of the log
    7  the profiler notes it, if it is on

Rule of this file: the common part of all commands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from bson import Int64

from reactdb.dialects.mongodb.bson_order import is_text
from reactdb.dialects.mongodb.commands.concerns import (
    check_cluster_time,
    check_read_concern,
    check_supported_level,
    check_time_reached,
    check_write_concern,
)
from reactdb.dialects.mongodb.commands.deployment import Client, Deployment
from reactdb.dialects.mongodb.commands.error_replies import as_mongo_error
from reactdb.dialects.mongodb.commands.requests import (
    AwaitedReply,
    CommandRequest,
    DelayedCommand,
    HangUp,
    limit_duration,
)
from reactdb.dialects.mongodb.commands.sessions import run_in_session
from reactdb.dialects.mongodb.commands.stable_api import API_FIELDS, check_api
from reactdb.dialects.mongodb.commands.table import Command, find_command
from reactdb.dialects.mongodb.errors import MongoError, code_name
from reactdb.dialects.mongodb.expressions.logic import is_true
from reactdb.dialects.mongodb.numeric import is_number, truncate
from reactdb.dialects.mongodb.transactions import TRANSIENT, Transaction
from reactdb.errors import ReactDBError
from reactdb.session import session_of

__all__ = ["execute_command", "is_quick", "poll"]

P = ParamSpec("P")
T = TypeVar("T")
RETRYABLE: Final = frozenset((6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436))
"""The codes after which a driver may repeat a write, from the drivers' specification."""
RETRYABLE_WRITE: Final = "RetryableWriteError"
TRANSIENT_CODES: Final = frozenset((24, 112, 246, 251, 267))
"""The codes after which a whole transaction may be tried again."""
UNSIGNED: Final = {"hash": bytes(20), "keyId": Int64(0)}
"""The signature of a moment without authentication."""
WRITE_CONCERNED: Final = frozenset(("aggregate", "abortTransaction", "commitTransaction"))
"""Commands with a write concern, beside all writes."""


def is_quick(body: dict[str, Any], deployment: Deployment, others_run: bool) -> bool:
    """Whether the command takes less than a millisecond and never waits, as far as its fields show.

    Args:
        others_run: Threads execute commands now. A write among them may hold the write lock; in memory, readers wait for that,
            too; and a command of a transaction blocks the others of its session.
    """
    command = find_command(body)
    if deployment.profiler.is_on:
        # The profiler may write an entry.
        return False
    if command is None:
        return True
    may_wait = command.is_write or deployment.is_memory or "txnNumber" in body
    if others_run and may_wait and not command.is_open:
        return False
    if command.is_write and (not deployment.writes_quickly or wants_disk(body)):
        return False
    return command.quick(body, deployment)


def execute_command(
    body: dict[str, Any], client: Client, transaction: Transaction | None = None
) -> dict[str, Any] | AwaitedReply:
    """The reply to a command; or an object that returns it later.

    Args:
        transaction: The transaction of the statement, if it is not in the command's fields; None for none.

    Raises:
        HangUp: The connection must be closed.
    """
    command = find_command(body)
    name = next(iter(body), "") if command is None else command.name
    request = CommandRequest(name, body, client, client.deployment, transaction=transaction)
    work = start_command if request.deployment.fail_points.are_set else call_command
    # `$$NOW` and `$currentDate` are of the database's clock.
    work = session_of(client.deployment.database).timed(work)
    profiler = request.deployment.profiler
    # Before authentication, nothing is written.
    is_stranger = client.deployment.exchange is not None and not client.user
    if not profiler.is_on or is_stranger:
        return make_reply(request, work, request, command)
    begun = time.perf_counter()
    reply = make_reply(request, work, request, command)
    # A waiting command is noted at the beginning of its wait: later, no thread may wait for a write.
    known = reply if isinstance(reply, dict) else {}
    profiler.note(name, body, known, client, time.perf_counter() - begun)
    return reply


def make_reply(
    request: CommandRequest, work: Callable[P, T], *arguments: P.args, **options: P.kwargs
) -> dict[str, Any] | T:
    """The result of the work, as a reply."""
    reply: Any
    try:
        reply = work(*arguments, **options)
    except HangUp:
        raise
    except Exception as error:
        reply = as_mongo_error(error).reply()
    if isinstance(reply, AwaitedReply):
        reply.request = request
    if not isinstance(reply, dict):
        later: T = reply
        return later
    reply.setdefault("ok", 1.0)
    if request.labels:
        reply["errorLabels"] = [*reply.get("errorLabels", ()), *request.labels]
    if request.write_concern_error is not None:
        reply["writeConcernError"] = request.write_concern_error
    try:
        moment = request.deployment.operation_time()
    except ReactDBError:
        # The file is closed, or gone: the reply has that error, and no moment of the log.
        return reply
    reply["$clusterTime"] = {"clusterTime": moment, "signature": UNSIGNED}
    reply["operationTime"] = moment
    return reply


def poll(waiting: AwaitedReply) -> dict[str, Any] | None:
    """The reply of a waiting command, or None."""
    return make_reply(waiting.request, waiting.ready)


def start_command(request: CommandRequest, command: Command | None) -> dict[str, Any] | AwaitedReply:
    # A fail point may select this program by the name in its first `hello`.
    request.client.set_driver_description(request.body.get("client"))
    failed = request.deployment.fail_points.find_order("failCommand", request.name, request.client.app_name)
    if failed is None:
        return call_command(request, command)
    if failed.get("blockConnection"):
        return DelayedCommand(
            failed.get("blockTimeMS", 0) / 1000,
            lambda: apply_fail_point(request, command, failed),
        )
    return apply_fail_point(request, command, failed)


def apply_fail_point(
    request: CommandRequest, command: Command | None, ordered: dict[str, Any]
) -> dict[str, Any] | AwaitedReply:
    """Execute the order of a fail point."""
    if ordered.get("closeConnection"):
        raise HangUp
    labels = ordered.get("errorLabels", ())
    if "errorCode" in ordered:
        code = int(ordered["errorCode"])
        if "errorLabels" not in ordered:
            labels = labels_of_error(request, code)
        raise MongoError(
            code,
            f"Failing command via 'failCommand' failpoint: {request.name}",
            labels=labels,
        )
    if "writeConcernError" in ordered:
        request.write_concern_error = ordered["writeConcernError"]
        is_alone = request.body.get("autocommit") is not False or request.name.endswith("Transaction")
        is_retryable = "txnNumber" in request.body and is_alone
        is_retryable &= request.write_concern_error.get("code") in RETRYABLE
        request.labels.extend(labels or ([RETRYABLE_WRITE] if is_retryable else ()))
    return call_command(request, command)


def labels_of_error(request: CommandRequest, code: int) -> Sequence[str]:
    """The labels of a server's error, unless the fail point has its own labels."""
    if request.body.get("autocommit") is False:
        if code in TRANSIENT_CODES:
            return (TRANSIENT,)
        if not request.name.endswith("Transaction"):
            # A statement is not sent again by itself, a commit and an abort are.
            return (TRANSIENT,) if code in RETRYABLE else ()
    return (RETRYABLE_WRITE,) if "txnNumber" in request.body and code in RETRYABLE else ()


def call_command(request: CommandRequest, command: Command | None) -> dict[str, Any] | AwaitedReply:
    body, deployment = request.body, request.deployment
    if command is None:
        raise MongoError(59, f"no such command: '{request.name}'")
    deployment.count(command.name)
    if deployment.exchange is not None and not request.client.user and not command.is_open:
        raise MongoError(13, f"Command {command.name} requires authentication")
    if not is_text(body.get("$db")):
        raise MongoError(40414, "OP_MSG requests require a $db argument")
    if not API_FIELDS.isdisjoint(body):
        check_api(command.name, body)
    if command.fields is not None and not command.fields.issuperset(body):
        unknown = next(name for name in body if name not in command.fields)
        raise MongoError(40415, f"BSON field '{command.name}.{unknown}' is an unknown field.")
    if "$clusterTime" in body:
        check_cluster_time(body["$clusterTime"])
    if body.get("readConcern") is not None:
        check_read_concern(body["readConcern"])
        if "afterClusterTime" in body["readConcern"]:
            check_time_reached(body["readConcern"], body.get("$clusterTime"), deployment.operation_time())
        if body.get("autocommit") is not False:
            check_supported_level(command.name, body["readConcern"])
    if body.get("writeConcern") is not None:
        check_write_concern(body["writeConcern"])
        if not command.is_write and command.name not in WRITE_CONCERNED:
            raise MongoError(72, f"Command {command.name} does not support writeConcern")
    if "maxTimeMS" in body:
        limit_time(request)
    try:
        reply = run_in_session(request, command.work)
        if wants_disk(body):
            deployment.flush()
    finally:
        # Also for an error: the write concern covers everything written before.
        if "writeConcern" in body and request.write_concern_error is None:
            report_unmet_concern(request)
    return reply


def wants_disk(body: dict[str, Any]) -> bool:
    """Whether the writes of a command must be on the disk before its reply: `{j: true}`."""
    concern = body.get("writeConcern")
    return isinstance(concern, dict) and is_true(concern.get("j"))


def report_unmet_concern(request: CommandRequest) -> None:
    """Report that a write was done but its write concern is not met: there is only one member."""
    wanted = request.get("writeConcern", dict, {}).get("w", 1)
    if is_number(wanted) and truncate(wanted) > 1:
        code, message = 100, "Not enough data-bearing nodes"
    elif is_text(wanted) and wanted != "majority":
        code, message = 79, f"No write concern mode named '{wanted}' found in replica set configuration"
    else:
        return
    request.write_concern_error = {"code": code, "codeName": code_name(code), "errmsg": message}


def limit_time(request: CommandRequest) -> None:
    """Limit the command to `maxTimeMS`. For a getMore that is the time to wait, and not the time to work."""
    most = request.most_ms()
    if most and request.name != "getMore":
        limit_duration(request, most / 1_000)
