"""Retries: the answer to the newest retryable write of each driver's session, kept in the file in the commit of the write.

A driver numbers the retryable writes and the transactions of a session, and sends one again whose answer it has not heard. A
server that was killed between the commit and the answer, and started again, finds here that it is done, and what the answer was.
A database in memory ends with its server: there the answers that the server itself knows (`commands/session_states`) are all.

A row is a position (`reactdb.store.positions`), and no document: it takes no place in the log. It is needed as long as a driver
may ask, half an hour; then a later write removes it.

Rule of this file: what was written has its row, and nothing else has.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.values import decode, encode
from reactdb.session import Session
from reactdb.store.positions import NamedPosition, find_position, remove_expired, write_position
from reactdb.store.transaction import WriteTransaction

__all__ = ["SESSION_MINUTES", "Remembered", "Retries", "RetryableWrite", "recall"]

KIND: Final = "mongodb.retry"
SESSION_MINUTES: Final = 30
"""A session that was not used for so long is forgotten, here and by its driver: `hello` says it."""
KEPT_MS: Final = SESSION_MINUTES * 60_000
MOST_KEPT: Final = 10_000
MOST_BYTES: Final = 64 * 1024
"""Of an answer. Of a larger one it is known that it was given."""
SWEEP_MS: Final = 60_000


class Remembered(NamedTuple):
    """What a session has done last.

    Attributes:
        number: The number of the write, or of the transaction.
        answer: To the write; None where it was a transaction that was committed.
        is_lost: The answer was too large to be kept.
    """

    number: int
    answer: dict[str, Any] | None
    is_lost: bool = False

    def check(self) -> None:
        """
        Raises:
            MongoError: 217, the answer was too large to be kept.
        """
        if self.is_lost:
            raise MongoError(
                217,
                f"The write {self.number} was carried out, and its answer was too large to be kept: do not send it again",
            )


class Retries:
    """Those of one server. Any thread: it is called under the write lock.

    Attributes:
        are_kept: Answers are kept in the file.
    """

    def __init__(self, *, are_kept: bool) -> None:
        self.are_kept = are_kept
        self._swept_at = 0

    def sweep(self, transaction: WriteTransaction) -> None:
        """Remove what nobody will ask for any more, now and then."""
        if transaction.time - self._swept_at >= SWEEP_MS:
            self._swept_at = transaction.time
            remove_expired(transaction, KIND, transaction.time, MOST_KEPT)


class RetryableWrite(NamedTuple):
    """A write, or a transaction, that a driver may send again.

    Attributes:
        owner: The server's.
        session: The id of the driver's session.
        number: The number of the write in it.
    """

    owner: Retries
    session: bytes
    number: int

    def remember(self, transaction: WriteTransaction, answer: Mapping[str, Any] | None) -> None:
        """Keep the answer in the commit that the write is a part of. None: it is a transaction."""
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


def recall(session: Session, key: bytes) -> Remembered | None:
    """What a driver's session has done last, by its id; None where that is not known, or is too long ago."""
    with session.read() as snapshot:
        row = find_position(snapshot.connection, KIND, key.hex())
    if row is None or row.position is None or row.leased is None or row.leased < time.time() * 1_000:
        return None
    answer = decode(row.value) if row.value else None
    return Remembered(row.position, answer, is_lost=row.attempts > 0)
