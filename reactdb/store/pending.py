"""Pending: updates that a transaction has not given to SQLite yet.

Who updates many documents in a transaction, one after the other, gives them to SQLite together: a fifth less than one by one.
A document that is updated again is read from here, and its head is moved once; an update that fails has nothing to take back.

Rule of this file: what is pending comes after all else that the transaction has done. So whoever does anything else with its
connection, or ends it, calls `settle` first. Only a get looks here by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactdb.change import UPDATE, Change
from reactdb.store.bulk import append_many
from reactdb.store.catalogue import TableInfo
from reactdb.store.schema import BLOCK_BITS
from reactdb.store.seals import seals_of_updates
from reactdb.store.transaction import ADD_MARK, MOVE_HEAD, WriteTransaction

if TYPE_CHECKING:
    from reactdb.store.savepoints import Keeper

# Updates that may be pending, and the greatest document among them: 16 MiB at most.
MOST = 1_024
LARGE_BYTES = 16_384


class Pending:
    """See the head of this file.

    Attributes:
        step: Of the first of them.
        rows: Table, seq of the entry before, key and document of each, in order. They are counted in the transaction.
        latest: (table, key) -> seq and document of the last of them to that key.
        is_torn: Ctrl-C has struck while they were being written.
    """

    __slots__ = ("is_torn", "latest", "rows", "step")

    def __init__(self, step: int) -> None:
        self.step = step
        self.rows: list[tuple[int, int, bytes, bytes]] = []
        self.latest: dict[tuple[int, bytes], tuple[int, bytes]] = {}
        self.is_torn = False

    def take_back(self, transaction: WriteTransaction, count: int) -> None:
        """Forget what came after so many changes of the transaction, of which any number of steps may have been done."""
        transaction.count = count
        if transaction.changes is not None:
            del transaction.changes[count:]
        kept = count - self.step
        if len(self.rows) > kept:
            del self.rows[kept:]
            first = transaction.first + self.step
            self.latest = {
                (table_id, key): (first + place, body)
                for place, (table_id, _, key, body) in enumerate(self.rows)
            }

    def write(self, transaction: WriteTransaction) -> None:
        """Give all of them to SQLite."""
        step, time, origin = self.step, transaction.time, transaction.origin
        first, count = transaction.first + step, len(self.rows)
        connection = transaction.connection
        if self.is_torn:
            transaction.execute("DELETE FROM log WHERE seq >= ?", (first,))
        self.is_torn = True
        table_ids, prevs, keys, bodies = zip(*self.rows, strict=True)
        seals = seals_of_updates(first, step, time, table_ids, prevs, keys, bodies, origin)
        columns = (table_ids, prevs, keys, bodies, seals)
        append_many(connection, UPDATE, count, first, step, time, origin, columns)
        connection.executemany(
            MOVE_HEAD, [(seq, table_id, key) for (table_id, key), (seq, _) in self.latest.items()]
        )
        marked = transaction.memory.marked
        seqs = range(first, first + count)
        marks = {(table_id, seq >> BLOCK_BITS) for table_id, seq in zip(table_ids, seqs, strict=True)}
        connection.executemany(ADD_MARK, [mark for mark in marks if marked.get(mark[0]) != mark[1]])
        # In order, so that it ends with the newest block of each.
        marked.update(sorted(marks))


def pend(
    transaction: WriteTransaction,
    pending: Pending,
    table: TableInfo,
    key: bytes,
    old: tuple[int, bytes],
    body: bytes,
) -> None:
    """Note the update of a document from `old`, as `head` gave it, to `body`. Whoever calls takes it back should it fail."""
    prev, old_body = old
    count = transaction.count
    seq = transaction.first + count
    pending.rows.append((table.id, prev, key, body))
    pending.latest[table.id, key] = seq, body
    if transaction.changes is not None:
        transaction.changes.append(
            Change(
                seq,
                table.name,
                table.id,
                key,
                UPDATE,
                prev,
                old_body,
                body,
                transaction.first,
                transaction.time,
                transaction.origin,
            )
        )
    transaction.count = count + 1


def settle(transaction: WriteTransaction, keeper: Keeper, operation: str = "update") -> None:
    """Give SQLite what is pending.

    Raises:
        DiskFull, StorageError: From the file. Part of it may be written: the transaction can only be taken back as a whole.
        What has ruined the transaction before.
    """
    if transaction.ruin is not None:
        raise transaction.ruin
    pending = transaction.pending
    if pending is None or keeper.is_abandoned:
        return
    if pending.rows:
        try:
            pending.write(transaction)
        except BaseException as error:
            translated = keeper.note_failure(error, operation)
            if translated is error:
                # Ctrl-C: they are written again, the next time.
                raise
            transaction.ruin = translated
            raise translated from error
    transaction.pending = None
