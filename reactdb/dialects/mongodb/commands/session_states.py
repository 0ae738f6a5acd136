"""SessionStates: the state of each driver's session: its transaction, and the reply to its newest retryable write.

A driver numbers the transactions and the retryable writes of a session upwards. If a write comes twice with the same number, its
reply was lost: the reply is sent again, and nothing is written. State from before the start of this server is in the file
(`retries`).

Rule of this file: it assigns commands to transactions, and repeats replies.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, RLock
from typing import Any, Final, ParamSpec, TypeVar

from reactdb.clock import monotonic
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.retries import SESSION_MINUTES, RetryRecord, recall
from reactdb.dialects.mongodb.transactions import TRANSIENT, Transaction, Transactions

__all__ = ["SessionState", "SessionStates"]

P = ParamSpec("P")
T = TypeVar("T")

IDLE_S: Final = SESSION_MINUTES * 60.0
"""The longest time without use before a session is discarded."""

TRANSACTION_S: Final = 60.0
"""The longest time of a transaction before it is aborted, so that its writes block no others."""

MOST_SESSIONS: Final = 100_000

SWEEP_S: Final = 10.0


class SessionState:
    """One session. One command at a time: it holds `lock`.

    Attributes:
        number: The number of the newest transaction or retryable write.
        transaction: The newest transaction, if the number belongs to a transaction.
    """

    def __init__(self, before: RetryRecord | None = None, transaction: Transaction | None = None) -> None:
        """
        Args:
            before: The session's last write from before the start of this server.
            transaction: The transaction, if that write was one.
        """
        self.lock = RLock()
        self.used_at = monotonic()
        self.began_at = 0.0
        self.number = -1 if before is None else before.number
        self.transaction = transaction
        self._before = before
        self._answer: dict[str, Any] | None = None if before is None else before.answer

    def begin(self, number: int, transactions: Transactions) -> Transaction:
        """Begin a transaction; an open one is aborted.

        Raises:
            MongoError: 225, it is older than the newest; 117, a statement of this number was executed.
        """
        self._check_age(number)
        if number == self.number:
            raise MongoError(
                117, f"Cannot start transaction {number}: a statement of this number was carried out"
            )
        self.end()
        self.number = number
        self.began_at = monotonic()
        self.transaction = transactions.begin()
        return self.transaction

    def continue_transaction(self, number: int) -> Transaction:
        """The transaction of a further statement.

        Raises:
            MongoError: 225; 251, there is no transaction of this number.
        """
        self._check_age(number)
        if number != self.number or self.transaction is None:
            raise MongoError(
                251,
                f"Given transaction number {number} does not match any in-progress transactions. The active transaction number "
                f"is {self.number}",
                labels=(TRANSIENT,),
            )
        return self.transaction

    def has_result(self, number: int) -> bool:
        """Whether a retryable write of this number has a reply."""
        return number == self.number and self._answer is not None

    def run_once(
        self, number: int, work: Callable[P, T], *arguments: P.args, **options: P.kwargs
    ) -> dict[str, Any] | T:
        """The reply to a retryable write: executed once, and repeated for the same number.

        Raises:
            MongoError: 225; 217, its reply was too large to keep; the errors of the work, after which the write may be tried
                again.
        """
        self._check_age(number)
        if self._before is not None and number == self._before.number:
            self._before.check()
        if number == self.number and self._answer is not None:
            return dict(self._answer)
        if number > self.number:
            self.end()
            self.number = number
        answer = work(*arguments, **options)
        # A write never has a later reply.
        assert isinstance(answer, dict)
        self._answer = dict(answer)
        return answer

    def end(self) -> None:
        """Abort the open transaction, and discard the state."""
        if self.transaction is not None:
            self.transaction.abort()
        self.transaction = self._answer = None

    def _check_age(self, number: int) -> None:
        if number < self.number:
            raise MongoError(
                225,
                f"Cannot start transaction {number} because a newer transaction {self.number} has already started",
            )


class SessionStates:
    """The sessions by their ids. Any thread."""

    def __init__(self, transactions: Transactions) -> None:
        self.transactions = transactions
        self._lock = Lock()
        self._states: dict[bytes, SessionState] = {}
        self._swept_at = monotonic()

    def __len__(self) -> int:
        return len(self._states)

    def find(self, key: bytes) -> SessionState:
        """The session of this id. Its first command creates it."""
        now = monotonic()
        if now - self._swept_at > SWEEP_S:
            self._swept_at = now
            self._sweep(now)
        state = self._states.get(key)
        if state is None:
            made = self._recall(key)
            with self._lock:
                if len(self._states) >= MOST_SESSIONS:
                    raise MongoError(
                        261,
                        "Unable to add session into the cache because the number of active sessions is too high",
                    )
                state = self._states.setdefault(key, made)
        state.used_at = now
        return state

    def _recall(self, key: bytes) -> SessionState:
        """A new session, with its last write from the file."""
        before = recall(self.transactions.spaces.session, key)
        is_transaction = before is not None and before.answer is None and not before.is_lost
        return SessionState(before, self.transactions.committed() if is_transaction else None)

    def end(self, key: bytes) -> None:
        """End a session."""
        with self._lock:
            state = self._states.pop(key, None)
        if state is not None:
            with state.lock:
                state.end()

    def end_all(self) -> None:
        for key in list(self._states):
            self.end(key)

    def _sweep(self, now: float) -> None:
        for key, state in list(self._states.items()):
            if now - state.used_at > IDLE_S:
                self.end(key)
            elif (
                state.transaction is not None
                and now - state.began_at > TRANSACTION_S
                # Not during one of its commands; the next sweep tries again.
                and state.lock.acquire(blocking=False)
            ):
                try:
                    state.transaction.abort()
                finally:
                    state.lock.release()
