"""Sessions and transactions: the commands about them, and what a session means for every other command.

A driver makes the ids itself, so a session begins with the first command that names it. A command is a statement of a transaction
if it has `autocommit: false`, and a retryable write if it has only a number.

Rule of this file: fields of commands. What a transaction does is in `transactions`, beside this package.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from bson import Binary

from reactdb.dialects.mongodb.commands.requests import AwaitedReply, CommandRequest, HangUp
from reactdb.dialects.mongodb.commands.session_states import SessionState
from reactdb.dialects.mongodb.commands.table import Work, always, command
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.ordering import type_name
from reactdb.dialects.mongodb.retries import SESSION_MINUTES, RetryableWrite
from reactdb.dialects.mongodb.transactions import TRANSIENT, Transaction

__all__ = ["in_session", "session_key"]

IN_TRANSACTIONS = frozenset(
    (
        "find",
        "getMore",
        "killCursors",
        "aggregate",
        "distinct",
        "insert",
        "update",
        "delete",
        "findAndModify",
        "bulkWrite",
        "create",
        "createIndexes",
        "commitTransaction",
        "abortTransaction",
    )
)
ENDS = frozenset(("commitTransaction", "abortTransaction"))


def in_session(request: CommandRequest, is_write: bool, work: Work) -> dict[str, Any] | AwaitedReply:
    """Carry out a command as its session says.

    Raises:
        MongoError: 263, the command cannot be in a transaction; 20, the fields do not fit; 225 and 251.
    """
    body = request.body
    number = body.get("txnNumber")
    if number is None:
        if "autocommit" in body or "startTransaction" in body:
            raise MongoError(72, "autocommit and startTransaction need a txnNumber")
        if request.transaction is None:
            return work(request)
        check_transactional(request)
        return in_transaction(request, request.transaction, work)
    key = session_key(request)
    if key is None:
        raise MongoError(72, "Transaction number requires a session ID to also be specified")
    if isinstance(number, bool) or not isinstance(number, int):
        raise MongoError(14, "BSON field 'txnNumber' is the wrong type, expected type 'long'")
    deployment = request.deployment
    state = deployment.sessions.find(key)
    if body.get("autocommit") is not False:
        if not is_write:
            return work(request)
        if deployment.retries.are_kept:
            request.retry = RetryableWrite(deployment.retries, key, int(number))
        with state.lock:
            return retryable(request, state, number, work)
    check_transactional(request)
    with state.lock:
        if body.get("startTransaction") is True:
            request.transaction = state.begin(number, deployment.sessions.transactions)
            request.transaction.retry = RetryableWrite(deployment.retries, key, int(number))
        else:
            request.transaction = state.continued(number)
            if request.transaction.state != "open" and request.name not in ENDS:
                raise MongoError(
                    251,
                    f"Transaction with number {number} has been {request.transaction.state}",
                    labels=(TRANSIENT,),
                )
        return in_transaction(request, request.transaction, work)


def retryable(
    request: CommandRequest, state: SessionState, number: int, work: Work
) -> dict[str, Any] | AwaitedReply:
    """Carry out a retryable write, or answer it again; or fail as a fail point says, which counts what is really carried out.

    Raises:
        HangUp: A fail point says so.
    """
    ordered = None if state.has_answered(number) else failing_write(request)
    if ordered is not None and "failBeforeCommitExceptionCode" in ordered:
        raise HangUp
    answer = state.once(number, work, request)
    if ordered is not None:
        # It is written, and the client does not hear of it.
        raise HangUp
    return answer


def failing_write(request: CommandRequest) -> dict[str, Any] | None:
    """What a fail point orders for one of the statements of a write, or None."""
    body, points = request.body, request.deployment.fail_points
    if not points.are_set:
        return None
    given = next((body[name] for name in ("documents", "updates", "deletes", "ops") if name in body), None)
    for _ in given if isinstance(given, list) else (body,):
        ordered = points.struck("onPrimaryTransactionalWrite", None, request.client.app_name)
        if ordered is not None:
            return ordered
    return None


def check_transactional(request: CommandRequest) -> None:
    if request.name not in IN_TRANSACTIONS:
        raise MongoError(263, f"Cannot run '{request.name}' in a multi-document transaction.")


def in_transaction(
    request: CommandRequest, transaction: Transaction, work: Work
) -> dict[str, Any] | AwaitedReply:
    try:
        return work(request)
    except MongoError:
        # An error ends the transaction; one about a cursor does not.
        if request.name not in ("getMore", "killCursors", *ENDS):
            transaction.abort()
        raise


def session_key(request: CommandRequest) -> bytes | None:
    """The id of the session that a command belongs to; None for none.

    Raises:
        MongoError.
    """
    given = request.body.get("lsid")
    return None if given is None else key_of(given)


def key_of(given: Any) -> bytes:
    if not isinstance(given, dict):
        raise MongoError(
            14, f"BSON field 'lsid' is the wrong type '{type_name(given)}', expected type 'object'"
        )
    number = given.get("id")
    if not isinstance(number, bytes) or len(number) != 16:
        raise MongoError(207, "The id of a session is a UUID.")
    return bytes(number)


def keys_of(request: CommandRequest) -> list[bytes]:
    given = request.value
    if not isinstance(given, list):
        raise MongoError(14, f"BSON field '{request.name}' is the wrong type, expected type 'array'")
    return [key_of(one) for one in given]


def own_transaction(request: CommandRequest) -> Transaction:
    if request.database != "admin":
        raise MongoError(13, f"{request.name} may only be run against the admin database.")
    if request.transaction is None:
        raise MongoError(125, f"{request.name} must be run within a transaction")
    return request.transaction


@command("commitTransaction", fields="recoveryToken", is_write=True)
def commit_transaction(request: CommandRequest) -> dict[str, Any]:
    own_transaction(request).commit()
    return {}


@command("abortTransaction", fields="recoveryToken")
def abort_transaction(request: CommandRequest) -> dict[str, Any]:
    transaction = own_transaction(request)
    if transaction.state == "committed":
        raise MongoError(256, "Transaction has been committed")
    if transaction.state == "aborted":
        raise MongoError(251, "Transaction has been aborted", labels=(TRANSIENT,))
    transaction.abort()
    return {}


@command("startSession", quick=always)
def start_session(request: CommandRequest) -> dict[str, Any]:
    return {"id": {"id": Binary(uuid4().bytes, 4)}, "timeoutMinutes": SESSION_MINUTES}


@command("refreshSessions", quick=always)
def refresh_sessions(request: CommandRequest) -> dict[str, Any]:
    keys_of(request)
    return {}


@command("endSessions")
def end_sessions(request: CommandRequest) -> dict[str, Any]:
    for key in keys_of(request):
        request.deployment.end_session(key)
    return {}


@command("killSessions")
def kill_sessions(request: CommandRequest) -> dict[str, Any]:
    keys = keys_of(request)
    for key in keys:
        request.deployment.end_session(key)
    if not keys:
        request.deployment.end_all_sessions()
    return {}


@command("killAllSessions", "killAllSessionsByPattern")
def kill_all_sessions(request: CommandRequest) -> dict[str, Any]:
    request.deployment.end_all_sessions()
    return {}
