"""Statements: the link between an operation and its session.

    session_of(session, client)                 its session, given or bound
    transaction_of(session, client)             its transaction
    spaces_of(session, client, "find")          its namespaces: now, or at the moment of a snapshot session
    carried_out(session, function, ...)         its result; an error ends the transaction
    with alone(session, client, "drop"): ...    it runs outside of both

For drivers the server does this. Rule of this file: an operation behaves as over a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, ParamSpec, TypeVar

from reactdb.dialects.mongodb.command_fields import FIRST_BATCH
from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.embedded.errors import call
from reactdb.dialects.mongodb.embedded.session import BOUND, EmbeddedSession
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.transactions import Transaction

__all__ = [
    "Session",
    "outside_transaction",
    "results",
    "run_statement",
    "session_of",
    "spaces_of",
    "transaction_of",
]

P = ParamSpec("P")
T = TypeVar("T")

Session = EmbeddedSession | None


def session_of(session: Session, client: Any) -> Session:
    """The session of an operation: its argument, or else the bound session.

    Raises:
        ValueError: The argument is no session.
        InvalidOperation: The session belongs to another file, and its writes would go there.
    """
    if session is None:
        session = BOUND.get()
        if session is not None and session.client != client:
            raise driver.InvalidOperation(
                "Only the client that created the bound session can perform operations within its context block"
            )
    elif not isinstance(session, EmbeddedSession):
        raise ValueError(f"'session' argument must be a ClientSession or None, not {type(session)}")
    elif session.client != client:
        raise driver.InvalidOperation("Can only use session with the MongoClient that started it")
    return session


def transaction_of(session: Session) -> Transaction | None:
    """The transaction of an operation in this session.

    Raises:
        InvalidOperation: The session has ended.
    """
    return None if session is None else session.used()


def spaces_of(session: Session, client: Any, command: str) -> Namespaces:
    """The databases and collections for an operation's reads; over a socket it would be `command`.

    Raises:
        OperationFailure: 72, a snapshot session has no such operations; 239, its moment is too long ago.
    """
    if session is None or not session.options.snapshot:
        spaces: Namespaces = client.spaces
        return spaces
    # Imported here because few programs read in sessions, and the commands bring the rest of the dialect.
    from reactdb.dialects.mongodb.commands.concerns import check_supported_level

    call(check_supported_level, command, {"level": "snapshot"})
    return session.snapshot()


def run_statement(session: Session, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """The function's result. As in MongoDB, any error of a statement ends its transaction.

    Raises:
        OperationFailure: For its MongoError.
    """
    if session is None:
        return call(function, *arguments, **options)
    try:
        return call(function, *arguments, **options)
    except driver.OperationFailure:
        _end(session)
        raise
    finally:
        session.advance()


def results(session: Session, documents: Iterator[T], most: int | None = None) -> Iterator[T]:
    """The same documents; an error ends the transaction, too. Documents beyond a server's first batch can be read only while the
    transaction is open. `most`: the size of that batch; None: unlimited.
    """
    if session is None:
        return documents
    return _check_transaction_goes_on(session, documents, most or FIRST_BATCH)


def _check_transaction_goes_on(session: EmbeddedSession, documents: Iterator[T], most: int) -> Iterator[T]:
    from reactdb.dialects.mongodb.commands.cursors import check_transaction

    transaction = session.transaction
    for place in count():
        if place >= most:
            call(check_transaction, 0, transaction, session.transaction)
        try:
            document = next(documents)
        except StopIteration:
            return
        except Exception:
            _end(session)
            raise
        yield document


def _end(session: EmbeddedSession) -> None:
    if session.transaction is not None:
        session.transaction.abort()


@contextmanager
def outside_transaction(session: Session, client: Any, command: str) -> Iterator[None]:
    """A block outside of sessions; over a socket it would be `command`.

    Raises:
        OperationFailure: 263, it is in a transaction; 72, it is in a snapshot session.
    """
    session = session_of(session, client)
    if transaction_of(session) is not None:
        message = f"Cannot run '{command}' in a multi-document transaction."
        raise driver.OperationFailure(message, 263, {"ok": 0.0, "errmsg": message, "code": 263})
    spaces_of(session, client, command)
    try:
        yield
    finally:
        if session is not None:
            session.advance()
