"""Sessions in the process, with PyMongo's interface: transactions, and reads of one moment.

    with client.start_session() as session, session.start_transaction():
        orders.insert_one({...}, session=session)
        stock.update_one({...}, {...}, session=session)
    with client.start_session().bind():
        orders.find_one({...})              # as if it named the session

Rule of this file: a transaction without a commit leaves nothing. `statements` connects operations with sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

from bson.binary import UUID_SUBTYPE, Binary
from bson.timestamp import Timestamp

from reactdb.clock import monotonic
from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.embedded.errors import call
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.transactions import TRANSIENT, Transaction

if TYPE_CHECKING:
    from pymongo.client_session import SessionOptions  # type: ignore[attr-defined]

__all__ = ["BOUND", "EmbeddedSession"]

T = TypeVar("T")

RETRIED_S: Final = 120.0
"""For how long `with_transaction` tries again."""


BOUND: Final[ContextVar[EmbeddedSession | None]] = ContextVar("BOUND", default=None)
"""The default session of operations in this thread or task."""


class EmbeddedSession:
    """The counterpart of PyMongo's `ClientSession`. One thread at a time.

    Attributes:
        client: Its `EmbeddedClient`.
        options: PyMongo's `SessionOptions` from its start.
        transaction: The open transaction, or None.
        session_id: Its id, as in the events of its transactions.
        cluster_time: The newest known moment of the log, in the form of a server's reply; None before the first operation.
        operation_time: The moment of the log at its newest operation; None before that.
    """

    def __init__(self, client: Any, options: SessionOptions) -> None:
        self.client = client
        self.options = options
        self.transaction: Transaction | None = None
        self.session_id: dict[str, Any] = {"id": Binary(uuid4().bytes, UUID_SUBTYPE)}
        self.cluster_time: Mapping[str, Any] | None = None
        self.operation_time: Timestamp | None = None
        self._number = 0
        self._has_ended = False
        # The newest transaction, as long as nothing else was done since it has ended.
        self._ended: Transaction | None = None
        self._was_committed = False
        # The level of the transaction's read concern.
        self._level: str | None = None
        # The moment of a snapshot session.
        self._moment: Timestamp | None = None
        self._snapshot: Namespaces | None = None

    @property
    def has_ended(self) -> bool:
        return self._has_ended

    @property
    def in_transaction(self) -> bool:
        """A transaction was started, and neither committed nor aborted."""
        return self.transaction is not None

    # -----------------------------------------------------------------------------------------------------------
    # Transactions

    def start_transaction(
        self,
        read_concern: Any = None,
        write_concern: Any = None,
        read_preference: Any = None,
        max_commit_time_ms: int | None = None,
    ) -> _Started:
        """Start a transaction; as a context manager, the end of the block commits it, and an exception aborts it.

        Args:
            read_concern, write_concern, read_preference, max_commit_time_ms: Are checked, and change nothing. A read concern that
                transactions do not support fails in the first statement (72), as in MongoDB.

        Raises:
            InvalidOperation: A transaction is open, the session has ended, or it is a snapshot session.
            ConfigurationError, TypeError: The arguments are not valid in PyMongo.
        """
        self.check()
        if self.options.snapshot:
            raise driver.InvalidOperation("Transactions are not supported in snapshot sessions")
        if self.transaction is not None:
            raise driver.InvalidOperation("Transaction already in progress")
        driver.TransactionOptions(read_concern, write_concern, read_preference, max_commit_time_ms)
        self._level = None if read_concern is None else read_concern.level
        self._number += 1
        self._ended = None
        self.transaction = self.client.transactions.begin((bytes(self.session_id["id"]), self._number))
        return _Started(self)

    def commit_transaction(self) -> None:
        """Commit the open transaction. A second commit does nothing.

        Raises:
            InvalidOperation: None is open, or it was aborted. OperationFailure: It is in conflict with another write, and was
                aborted.
        """
        self.check()
        transaction = self.transaction or self._ended
        if transaction is None:
            raise driver.InvalidOperation("No transaction started")
        if self.transaction is None and not self._was_committed:
            raise driver.InvalidOperation("Cannot call commitTransaction after calling abortTransaction")
        self._end(transaction, was_committed=True)
        try:
            call(transaction.commit)
        finally:
            self.advance()

    def abort_transaction(self) -> None:
        """Raises: InvalidOperation: None is open."""
        self.check()
        if self.transaction is None:
            if self._ended is None:
                raise driver.InvalidOperation("No transaction started")
            if self._was_committed:
                raise driver.InvalidOperation("Cannot call abortTransaction after calling commitTransaction")
            raise driver.InvalidOperation("Cannot call abortTransaction twice")
        transaction = self.transaction
        self._end(transaction, was_committed=False)
        transaction.abort()

    def _end(self, transaction: Transaction, *, was_committed: bool) -> None:
        self.transaction = None
        self._ended = transaction
        self._was_committed = was_committed

    def with_transaction(
        self, callback: Callable[[EmbeddedSession], T], *options: Any, **more_options: Any
    ) -> T:
        """Call a function within a transaction, and again after a write conflict, for two minutes at most.

        Args:
            options, more_options: The options of `start_transaction`.
        """
        begun = monotonic()
        while True:
            self.start_transaction(*options, **more_options)
            try:
                result = callback(self)
                if self.transaction is not None:
                    self.commit_transaction()
            except BaseException as error:
                if self.transaction is not None:
                    self.abort_transaction()
                if (
                    isinstance(error, driver.PyMongoError)
                    and error.has_error_label(TRANSIENT)
                    and monotonic() - begun < RETRIED_S
                ):
                    continue
                raise
            return result

    # -----------------------------------------------------------------------------------------------------------
    # Moments of the log

    def advance(self) -> None:
        """Take the newest moment of the log, after an operation."""
        # Imported here because few programs have sessions, and the commands bring the rest of the dialect.
        from reactdb.dialects.mongodb.commands.dispatch import UNSIGNED

        self.operation_time = moment = self.client.deployment.operation_time()
        self.cluster_time = {"clusterTime": moment, "signature": UNSIGNED}

    def advance_cluster_time(self, cluster_time: Mapping[str, Any]) -> None:
        """Take another session's `cluster_time`, if it is newer. Reads see every commit in any case.

        Raises:
            TypeError: It is no cluster time.
        """
        if not isinstance(cluster_time, Mapping):
            raise TypeError(
                f"cluster_time must be a subclass of collections.Mapping, not {type(cluster_time)}"
            )
        if not isinstance(cluster_time.get("clusterTime"), Timestamp):
            raise TypeError("Invalid cluster_time")
        if self.cluster_time is None or self.cluster_time["clusterTime"] < cluster_time["clusterTime"]:
            self.cluster_time = cluster_time

    def advance_operation_time(self, operation_time: Timestamp) -> None:
        """Take another session's `operation_time`, likewise.

        Raises:
            TypeError: It is none.
        """
        if not isinstance(operation_time, Timestamp):
            raise TypeError(
                f"operation_time must be an instance of bson.timestamp.Timestamp, not {type(operation_time)}"
            )
        if self.operation_time is None or self.operation_time < operation_time:
            self.operation_time = operation_time

    def read_concern(self) -> dict[str, Any]:
        """The read concern of a snapshot session: the moment of the session's first read.

        Raises:
            OperationFailure: That moment is too long ago (239).
        """
        self.snapshot()
        return {"level": "snapshot", "atClusterTime": self._moment}

    def snapshot(self) -> Namespaces:
        """The databases and collections as a snapshot session reads them. Errors as for `read_concern`."""
        if self._snapshot is None:
            deployment = self.client.deployment
            # Before the first read, so that no read is newer.
            self._moment = deployment.operation_time()
            self._snapshot = call(deployment.namespaces_at, self._moment)
        return self._snapshot

    # -----------------------------------------------------------------------------------------------------------
    # Its end

    def used(self) -> Transaction | None:
        """Note the use by an operation. Returns: the operation's transaction, or None.

        Raises:
            InvalidOperation: The session has ended. OperationFailure: 72, transactions do not support the read concern.
        """
        self.check()
        transaction = self.transaction
        if transaction is None:
            self._ended = None
        elif self._level is not None and transaction.state == "open":
            from reactdb.dialects.mongodb.commands.concerns import check_level_of_transaction

            try:
                call(check_level_of_transaction, self._level)
            except driver.OperationFailure:
                transaction.abort()
                raise
        return transaction

    def bind(self, end_session: bool = True) -> _BoundSession:
        """As a context manager: the default session of operations in the block.

        Args:
            end_session: Whether the end of the block ends the session, too.
        """
        return _BoundSession(self, end_session)

    def end_session(self) -> None:
        """End it; an open transaction is aborted. A second call does nothing."""
        if not self._has_ended:
            if self.transaction is not None:
                self.abort_transaction()
            self._has_ended = True

    def check(self) -> None:
        """Raises: InvalidOperation: It has ended."""
        if self._has_ended:
            raise driver.InvalidOperation("Cannot use ended session")

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


class _BoundSession:
    """The block with this default session."""

    def __init__(self, session: EmbeddedSession, end_session: bool) -> None:
        self._session = session
        self._end_session = end_session
        self._before: Token[EmbeddedSession | None] | None = None

    def __enter__(self) -> EmbeddedSession:
        self._before = BOUND.set(self._session)
        return self._session

    def __exit__(self, *_error: object) -> None:
        if self._before is not None:
            BOUND.reset(self._before)
            self._before = None
        if self._end_session:
            self._session.end_session()
