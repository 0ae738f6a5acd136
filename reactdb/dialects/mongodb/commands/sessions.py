"""Sessions and transactions: their commands, and the effect of a session on every other command.

A driver makes the ids itself, so a session begins with its first command. A command is a statement of a transaction if it has
`autocommit: false`, and a retryable write if it has only a number.

Rule of this file: fields of commands. Transactions are in `transactions`, beside this package.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from bson.binary import UUID_SUBTYPE, Binary

from reactdb.dialects.mongodb.bson_order import INTEGERS, is_text, type_name
from reactdb.dialects.mongodb.commands.concerns import check_level_of_transaction
from reactdb.dialects.mongodb.commands.requests import AwaitedReply, CommandRequest, HangUp
from reactdb.dialects.mongodb.commands.session_states import SessionState
from reactdb.dialects.mongodb.commands.table import Work, always, command
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.retries import SESSION_MINUTES, RetryableWrite
from reactdb.dialects.mongodb.transactions import TRANSIENT, Transaction

__all__ = ["run_in_session", "session_key"]

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
RETRYABLE = frozenset(("insert", "update", "delete", "findAndModify", "bulkWrite"))
"""Commands with an optional number outside of transactions."""
SESSION_FIELDS = frozenset(("id", "uid", "txnNumber", "txnUUID"))
UUID_BYTES = 16


def run_in_session(request: CommandRequest, work: Work) -> dict[str, Any] | AwaitedReply:
    """Execute a command in its session.

    Raises:
        MongoError: 263, the command cannot be in a transaction; 72 and 50768, the fields do not fit; 225 and 251.
    """
    body = request.body
    if "txnNumber" not in body:
        if "autocommit" in body or "startTransaction" in body:
            check_flags(request, has_number=False)
        if request.transaction is None:
            return work(request)
        check_transactional(request)
        return run_in_transaction(request, request.transaction, work)
    number = read_transaction_number(request)
    if number is None or body.get("autocommit") is not None or "startTransaction" in body:
        check_flags(request, has_number=number is not None)
    if number is None:
        return work(request)
    key = session_key(request)
    if key is None:
        raise MongoError(72, "Transaction number requires a session ID to also be specified")
    if body.get("autocommit") is None and request.name not in RETRYABLE:
        raise MongoError(
            50768,
            "txnNumber may only be provided for multi-document transactions and retryable write commands. autocommit:false "
            f"was not provided, and {request.name} is not a retryable write command.",
        )
    deployment = request.deployment
    state = deployment.sessions.find(key)
    if body.get("autocommit") is None:
        if deployment.retries.are_kept:
            request.retry = RetryableWrite(deployment.retries, key, number)
        with state.lock:
            return retryable(request, state, number, work)
    is_first = body.get("startTransaction") is True
    check_transactional(request, is_first=is_first)
    with state.lock:
        if is_first:
            request.transaction = state.begin(number, deployment.sessions.transactions)
            request.transaction.retry = RetryableWrite(deployment.retries, key, number)
        else:
            request.transaction = state.continue_transaction(number)
            if request.transaction.state != "open" and request.name not in ENDS:
                raise MongoError(
                    251,
                    f"Transaction with number {number} has been {request.transaction.state}",
                    labels=(TRANSIENT,),
                )
        return run_in_transaction(request, request.transaction, work)


def retryable(
    request: CommandRequest, state: SessionState, number: int, work: Work
) -> dict[str, Any] | AwaitedReply:
    """Execute a retryable write, or repeat its reply; or fail by a fail point, which counts only executed writes.

    Raises:
        HangUp: By a fail point.
    """
    ordered = None if state.has_result(number) else failing_write(request)
    if ordered is not None and "failBeforeCommitExceptionCode" in ordered:
        raise HangUp
    answer = state.run_once(number, work, request)
    if ordered is not None:
        # It is written, and the client gets no reply.
        raise HangUp
    return answer


def failing_write(request: CommandRequest) -> dict[str, Any] | None:
    """A fail point's order for a statement of a write, or None."""
    body, points = request.body, request.deployment.fail_points
    if not points.are_set:
        return None
    given = next((body[name] for name in ("documents", "updates", "deletes", "ops") if name in body), None)
    for _ in given if isinstance(given, list) else (body,):
        ordered = points.find_order("onPrimaryTransactionalWrite", None, request.client.app_name)
        if ordered is not None:
            return ordered
    return None


def read_transaction_number(request: CommandRequest) -> int | None:
    """`txnNumber`; None if it is null.

    Raises:
        MongoError: 14, it is no int64; 72, it is negative.
    """
    number = request.body["txnNumber"]
    if number is None:
        return None
    if type_name(number) not in INTEGERS:
        raise MongoError(
            14, f"BSON field 'txnNumber' is the wrong type '{type_name(number)}', expected type 'long'"
        )
    if number < 0:
        raise MongoError(72, "Transaction number cannot be negative")
    return int(number)


def check_flags(request: CommandRequest, *, has_number: bool) -> None:
    """
    Raises:
        MongoError: 14, `autocommit` or `startTransaction` is no boolean; 72, it has no number, or the wrong value.
    """
    for name, wanted in (("autocommit", False), ("startTransaction", True)):
        value = request.body.get(name)
        if value is None:
            continue
        if not isinstance(value, bool):
            raise MongoError(
                14, f"BSON field '{name}' is the wrong type '{type_name(value)}', expected type 'bool'"
            )
        if not has_number:
            raise MongoError(72, f"'{name}' field requires a transaction number to also be specified")
        if value is not wanted:
            raise MongoError(72, f"Specifying {name}={value} is not allowed.")
        if request.body.get("autocommit") is None:
            raise MongoError(72, "'startTransaction' field requires 'autocommit' field to also be specified")


def check_transactional(request: CommandRequest, *, is_first: bool = False) -> None:
    """
    Raises:
        MongoError: 263, transactions have no such statement; 72, it has its own write concern, or a read concern other than the
            transaction's.
    """
    name = request.name
    if name not in IN_TRANSACTIONS:
        raise MongoError(263, f"Cannot run '{name}' in a multi-document transaction.")
    if is_first and name == "killCursors":
        raise MongoError(
            263, "Cannot run killCursors as the first operation in a multi-document transaction."
        )
    if name in ENDS:
        return
    if request.database in ("config", "local") and name in RETRYABLE:
        raise MongoError(263, f"Cannot write to database {request.database} in a multi-document transaction.")
    if request.body.get("writeConcern") is not None:
        raise MongoError(72, "writeConcern is not allowed within a multi-statement transaction")
    concern = request.body.get("readConcern")
    if concern is not None and not is_first:
        raise MongoError(72, "Only the first command in a transaction may specify a readConcern")
    if concern is not None:
        check_level_of_transaction(concern.get("level"))


def run_in_transaction(
    request: CommandRequest, transaction: Transaction, work: Work
) -> dict[str, Any] | AwaitedReply:
    try:
        return work(request)
    except MongoError:
        # An error ends the transaction, except an error about a cursor.
        if request.name not in ("getMore", "killCursors", *ENDS):
            transaction.abort()
        raise


def session_key(request: CommandRequest) -> bytes | None:
    """The id of a command's session; None without one.

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
    unknown = next((name for name in given if name not in SESSION_FIELDS), None)
    if unknown is not None:
        raise MongoError(40415, f"BSON field 'lsid.{unknown}' is an unknown field.")
    number = given.get("id")
    if number is None:
        raise MongoError(40414, "BSON field 'lsid.id' is missing but a required field")
    if not isinstance(number, Binary) or number.subtype != UUID_SUBTYPE:
        raise MongoError(14, "BSON field 'lsid.id' is the wrong type, expected a binary of the subtype UUID")
    if len(number) != UUID_BYTES:
        raise MongoError(207, "The id of a session is a UUID of 16 bytes.")
    return bytes(number)


def array_of(request: CommandRequest) -> list[Any]:
    """The array in the field with the command's name."""
    given = request.value
    if given is None:
        raise MongoError(40414, f"BSON field '{request.name}' is missing but a required field")
    if not isinstance(given, list):
        raise MongoError(
            14,
            f"BSON field '{request.name}' is the wrong type '{type_name(given)}', expected type 'array'",
        )
    return given


def keys_of(request: CommandRequest) -> list[bytes]:
    return [key_of(one) for one in array_of(request) if one is not None]


def require_transaction(request: CommandRequest) -> Transaction:
    if request.database != "admin":
        raise MongoError(13, f"{request.name} may only be run against the admin database.")
    if request.transaction is None:
        raise MongoError(125, f"{request.name} must be run within a transaction")
    return request.transaction


@command("commitTransaction", fields="recoveryToken", is_write=True)
def commit_transaction(request: CommandRequest) -> dict[str, Any]:
    require_transaction(request).commit()
    return {}


@command("abortTransaction", fields="recoveryToken")
def abort_transaction(request: CommandRequest) -> dict[str, Any]:
    transaction = require_transaction(request)
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


@command("killAllSessions")
def kill_all_sessions(request: CommandRequest) -> dict[str, Any]:
    named = [read_user(one) for one in array_of(request) if one is not None]
    # Sessions do not know their users. Without authentication, no user has a session.
    if not named or request.client.user in named:
        request.deployment.end_all_sessions()
    return {}


def read_user(given: Any) -> str:
    """The user in an entry of `killAllSessions`.

    Raises:
        MongoError: 14, 40414 or 40415, the entry has no user.
    """
    where = "killAllSessions.users"
    if not isinstance(given, dict):
        raise MongoError(
            14, f"BSON field '{where}' is the wrong type '{type_name(given)}', expected type 'object'"
        )
    for name in given:
        if name not in ("user", "db"):
            raise MongoError(40415, f"BSON field '{where}.{name}' is an unknown field.")
    for name in ("user", "db"):
        value = given.get(name)
        if value is None:
            raise MongoError(40414, f"BSON field '{where}.{name}' is missing but a required field")
        if not is_text(value):
            raise MongoError(
                14,
                f"BSON field '{where}.{name}' is the wrong type '{type_name(value)}', expected type 'string'",
            )
    return str(given["user"])


@command("killAllSessionsByPattern")
def kill_sessions_by_pattern(request: CommandRequest) -> dict[str, Any]:
    request.deployment.end_all_sessions()
    return {}
