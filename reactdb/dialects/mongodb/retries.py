"""Retries: the reply to the newest retryable write of each driver's session, stored in the commit of the write.

A driver numbers the retryable writes and the transactions of a session, and repeats a write whose reply is lost. If a server was
killed between the commit and the reply, the restarted server finds here that the write is done, and its reply. A database in
memory ends with its server: there the replies in the server's own memory (`commands/session_states`) are enough.

A row is a position (`reactdb.store.positions`), and no document: it takes no place in the log. A driver may need it for half an
hour; then a later write removes it.

Rule of this file: every retryable write has its row, and nothing else has a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.values import decode, encode
from reactdb.session import Session
from reactdb.store.positions import NamedPosition, find_position, remove_expired, write_position
from reactdb.store.transaction import WriteTransaction

__all__ = ["SESSION_MINUTES", "Retries", "RetryRecord", "RetryableWrite", "recall"]

KIND: Final = "mongodb.retry"
SESSION_MINUTES: Final = 30
"""The longest time without use before a session is discarded, here and by its driver: `hello` announces it."""
KEPT_MS: Final = SESSION_MINUTES * 60_000
MOST_KEPT: Final = 10_000
MOST_BYTES: Final = 64 * 1024
"""The size limit of a reply. Of a larger reply only its existence is stored."""
SWEEP_MS: Final = 60_000


class RetryRecord(NamedTuple):
    """The last write of a session.

    Attributes:
        number: The number of the write, or of the transaction.
        answer: The reply to the write; None for a committed transaction.
        is_lost: The reply was too large to store.
    """

    number: int
    answer: dict[str, Any] | None
    is_lost: bool = False

    def check(self) -> None:
        """
        Raises:
            MongoError: 217, the reply was too large to keep.
        """
        if self.is_lost:
            raise MongoError(
                217,
                f"The write {self.number} was executed, but its reply was too large to keep: do not send it again",
            )


class Retries:
    """The retries of one server. Any thread: it is called under the write lock.

    Attributes:
        are_kept: Replies are stored in the file.
    """

    def __init__(self, *, are_kept: bool) -> None:
        self.are_kept = are_kept
        self._swept_at = 0

    def sweep(self, transaction: WriteTransaction) -> None:
        """Remove expired rows, now and then."""
        if transaction.time - self._swept_at >= SWEEP_MS:
            self._swept_at = transaction.time
            remove_expired(transaction, KIND, transaction.time, MOST_KEPT)


class RetryableWrite(NamedTuple):
    """A retryable write, or a transaction.

    Attributes:
        owner: The server's `Retries`.
        session: The id of the driver's session.
        number: The number of the write in the session.
    """

    owner: Retries
    session: bytes
    number: int

    def remember(self, transaction: WriteTransaction, answer: Mapping[str, Any] | None) -> None:
        """Store the reply in the write's own commit. None: it is a transaction."""
        if not self.owner.are_kept:
            return
        value = b"" if answer is None else encode(answer)
        is_lost = len(value) > MOST_BYTES
        row = NamedPosition(
            KIND,
            self.session.hex(),
            position=self.number,
            leased=transaction.time + KEPT_MS,
            attempts=int(is_lost),
            value=None if is_lost else value,
        )
        write_position(transaction, row)
        self.owner.sweep(transaction)


def recall(session: Session, key: bytes) -> RetryRecord | None:
    """The last write of a driver's session, by its id; None if it is unknown, or too long ago."""
    with session.read() as snapshot:
        row = find_position(snapshot.connection, KIND, key.hex())
    if (
        row is None
        or row.position is None
        or row.leased is None
        or row.leased < session.clock.time_ns() // 1_000_000
    ):
        return None
    answer = decode(row.value) if row.value else None
    return RetryRecord(row.position, answer, is_lost=row.attempts > 0)
