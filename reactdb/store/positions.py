"""Positions: named places in a log or a stream of deliveries, kept in the file.

A receipt is a position: the last delivery of a sender that the file has applied. The place of a consumer in the log,
with its holder, is another. Each is a row of the table `positions`, with its own checksum. A sender or a consumer may
die between a commit and its acknowledgement. So it writes its position in the same transaction as the documents, and
the two always agree.

Rule of this file: rows in and out, inside a transaction of the caller's. The caller knows the meaning of a position.
"""

from __future__ import annotations

from typing import NamedTuple

from reactdb.errors import CorruptDatabase
from reactdb.store.checksums import values_checksum
from reactdb.store.file.sqlite import ADVICE, Connection
from reactdb.store.transaction import WriteTransaction

COLUMNS = "kind, name, part, position, epoch, fence, holder, leased, attempts, value, seal"
GET = f"SELECT {COLUMNS} FROM positions WHERE kind = ? AND name = ? AND part = ?"
PARTS = f"SELECT {COLUMNS} FROM positions WHERE kind = ? AND name = ? ORDER BY part"
ALL = f"SELECT {COLUMNS} FROM positions WHERE kind = ? ORDER BY name, part"
SET = f"INSERT OR REPLACE INTO positions ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
REMOVE = "DELETE FROM positions WHERE kind = ? AND name = ?"
EXPIRED = "DELETE FROM positions WHERE kind = ? AND leased < ?"
OLDEST = (
    "DELETE FROM positions WHERE kind = ? AND (name, part) IN (SELECT name, part FROM positions WHERE kind = ?"
    " ORDER BY leased LIMIT max(0, (SELECT count(*) FROM positions WHERE kind = ?) - ?))"
)

RECEIPT = "receipt"
"""A position of this kind is the number of the last applied delivery of the sender of that name."""


class NamedPosition(NamedTuple):
    """One row. Fields that a kind of position does not need keep their defaults.

    Attributes:
        kind: The purpose; names are apart for each kind.
        name: The owner.
        part: Number of the part, from 0, for an owner with several parts at different places.
        position: A seq, or the number of a delivery.
        epoch: The epoch in which the seq was given out; None where it is no seq.
        fence: Grows by one with each new holder, so that a stale holder is recognized.
        holder: The worker that works from here at present; None: free.
        leased: Until when the holder may, or the row is needed, in milliseconds since 1970; None without either.
        attempts: How often the next step has failed.
        value: Anything else, in msgpack.
    """

    kind: str
    name: str
    part: int = 0
    position: int | None = None
    epoch: str | None = None
    fence: int = 0
    holder: str | None = None
    leased: int | None = None
    attempts: int = 0
    value: bytes | None = None


def find_position(connection: Connection, kind: str, name: str, part: int = 0) -> NamedPosition | None:
    """The position of this name, or None where there is none.

    Raises:
        CorruptDatabase: The row does not match its checksum. All reads below raise it, too.
    """
    row = connection.execute(GET, (kind, name, part)).fetchone()
    return None if row is None else _verify_position(row)


def read_parts(connection: Connection, kind: str, name: str) -> list[NamedPosition]:
    """All parts of the position of this name, in order."""
    return [_verify_position(row) for row in connection.execute(PARTS, (kind, name)).fetchall()]


def read_positions(connection: Connection, kind: str) -> list[NamedPosition]:
    """All positions of a kind, by name and part."""
    return [_verify_position(row) for row in connection.execute(ALL, (kind,)).fetchall()]


def write_position(transaction: WriteTransaction, position: NamedPosition) -> None:
    """Write a position in place of the stored one with its name, also where the transaction changes no document."""
    transaction.secure()
    transaction.execute(SET, (*position, values_checksum(*position)))
    transaction.has_other_rows = True


def remove_position(transaction: WriteTransaction, kind: str, name: str) -> int:
    """Remove all parts of a position. Returns: how many there were."""
    transaction.secure()
    removed = transaction.execute(REMOVE, (kind, name)).rowcount
    transaction.has_other_rows = transaction.has_other_rows or removed > 0
    return int(removed)


def remove_expired(transaction: WriteTransaction, kind: str, now_ms: int, most: int) -> None:
    """Remove the expired positions of a kind, and the oldest of more than `most`."""
    transaction.secure()
    removed = transaction.execute(EXPIRED, (kind, now_ms)).rowcount
    removed += transaction.execute(OLDEST, (kind, kind, kind, most)).rowcount
    transaction.has_other_rows = transaction.has_other_rows or removed > 0


def read_last_receipt(connection: Connection, sender: str) -> int | None:
    """The number of the last delivery that was taken in from this sender; None where there was none."""
    receipt = find_position(connection, RECEIPT, sender)
    return None if receipt is None else receipt.position


def give_receipt(transaction: WriteTransaction, sender: str, number: int) -> None:
    """Note that the delivery is taken in by this transaction."""
    write_position(transaction, NamedPosition(RECEIPT, sender, position=number))


def _verify_position(row: tuple[object, ...]) -> NamedPosition:
    *values, checksum = row
    if values_checksum(*values) != checksum:
        raise CorruptDatabase(
            f"the position of {values[0]} {values[1]} does not match its checksum: it is not what was written. {ADVICE}"
        )
    return NamedPosition(*values)  # type: ignore[arg-type]
