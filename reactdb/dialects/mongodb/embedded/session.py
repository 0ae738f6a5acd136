"""Sessions: transactions in the process, with PyMongo's manners.

    with client.start_session() as session, session.start_transaction():
        orders.insert_one({...}, session=session)
        stock.update_one({...}, {...}, session=session)

Rule of this file: a transaction that is not committed leaves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Any, Final, TypeVar
from uuid import uuid4

from bson.binary import UUID_SUBTYPE, Binary
from pymongo.errors import InvalidOperation, PyMongoError

from reactdb.dialects.mongodb.embedded.raising import call
from reactdb.dialects.mongodb.transactions import TRANSIENT, Transaction, Transactions

__all__ = ["EmbeddedSession", "transaction_of"]

T = TypeVar("T")

RETRIED_S: Final = 120.0
"""For how long `with_transaction` tries again."""


class EmbeddedSession:
    """What PyMongo's `ClientSession` is for a server. One thread at a time.

    Attributes:
        client: The `EmbeddedClient` whose it is.
        transaction: The one that is open, or None.
        session_id: Its id, as the events of its transactions say it.
    """

    def __init__(self, client: Any, transactions: Transactions) -> None:
        self.client = client
        self._transactions = transactions
        self.transaction: Transaction | None = None
        self.session_id: dict[str, Any] = {"id": Binary(uuid4().bytes, UUID_SUBTYPE)}
        self._number = 0
        self._has_ended = False

    @property
    def has_ended(self) -> bool:
        return self._has_ended

    @property
    def in_transaction(self) -> bool:
        """A transaction was started, and neither committed nor aborted."""
        return self.transaction is not None

    def start_transaction(self, *_options: Any, **_more: Any) -> _Started:
        """Start a transaction; as a context manager, the end of the block commits it, and an exception aborts it.

        Raises:
            InvalidOperation: One is open, or the session has ended.
        """
        self._check()
        if self.transaction is not None:
            raise InvalidOperation("Transaction already in progress")
        self._number += 1
        self.transaction = self._transactions.begin((bytes(self.session_id["id"]), self._number))
        return _Started(self)

    def commit_transaction(self) -> None:
        """
        Raises:
            InvalidOperation: None is open. OperationFailure: It is in conflict with another write, and was aborted.
        """
        found = self._open()
        self.transaction = None
        call(found.commit)

    def abort_transaction(self) -> None:
        """Raises: InvalidOperation: None is open."""
        found = self._open()
        self.transaction = None
        found.abort()

    def with_transaction(self, callback: Callable[[EmbeddedSession], T], *_options: Any, **_more: Any) -> T:
        """Call a function within a transaction, and again where another write was in the way, for two minutes at most."""
        begun = monotonic()
        while True:
            self.start_transaction()
            try:
                result = callback(self)
                if self.transaction is not None:
                    self.commit_transaction()
            except BaseException as error:
                if self.transaction is not None:
                    self.abort_transaction()
                if (
                    isinstance(error, PyMongoError)
                    and error.has_error_label(TRANSIENT)
                    and monotonic() - begun < RETRIED_S
                ):
                    continue
                raise
            return result

    def end_session(self) -> None:
        """End it; an open transaction is aborted. A second call does nothing."""
        if not self._has_ended:
            if self.transaction is not None:
                self.abort_transaction()
            self._has_ended = True

    def _open(self) -> Transaction:
        self._check()
        if self.transaction is None:
            raise InvalidOperation("No transaction started")
        return self.transaction

    def _check(self) -> None:
        if self._has_ended:
            raise InvalidOperation("Cannot use ended session")

    def __enter__(self) -> EmbeddedSession:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end_session()


class _Started:
    """The block of a transaction."""

    def __init__(self, session: EmbeddedSession) -> None:
        self._session = session

    def __enter__(self) -> _Started:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session.in_transaction:
            if kind is None:
                self._session.commit_transaction()
            else:
                self._session.abort_transaction()


def transaction_of(session: EmbeddedSession | None) -> Transaction | None:
    """The transaction that an operation is a part of.

    Raises:
        InvalidOperation: The session has ended, or is another package's.
    """
    if session is None:
        return None
    if not isinstance(session, EmbeddedSession):
        raise InvalidOperation("session is one of this client's start_session()")
    if session.has_ended:
        raise InvalidOperation("Cannot use ended session")
    return session.transaction
