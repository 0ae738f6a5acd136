"""LaterChanges: the changes after a seq, for the view of the past of one handle. It reads as much of the log as an answer needs.

    the document of a key      the entries of that key alone, back from its newest (`log.read_document_then`)
    the names of tables        the entries about tables alone
    anything else              every change since, once; later answers use them too

Rule of this file: it decides how much is read. `log` reads, and `undo` reverts.
"""

from __future__ import annotations

import threading

from reactdb.errors import HistoryLost
from reactdb.store.log import PastNames, read_document_then, read_low_water
from reactdb.store.snapshot import Snapshot, read_all_changes
from reactdb.store.undo import Undo


class LaterChanges:
    """See the head of this file.

    Attributes:
        seq: The seq of the view.

    Thread safety: any thread, each with a snapshot of its own.
    """

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self._undo = Undo(seq, ())
        self._names = PastNames()
        self._lock = threading.Lock()

    @property
    def is_read(self) -> bool:
        """Whether all later changes were read, for an answer that needed them."""
        return self._undo.until > self.seq

    def read(self, now: Snapshot) -> Undo:
        """All changes up to this snapshot.

        Raises:
            HistoryLost: Retention has removed some of them.
            CorruptDatabase: Entries are missing or damaged.
        """
        with self._lock:
            for change in read_all_changes(now, self._undo.until):
                self._undo.add(change)
        return self._undo

    def names(self, now: Snapshot) -> dict[int, str]:
        """For each table that was renamed since, its name at the seq, by its number. Raises as `read`."""
        with self._lock:
            return self._names.at(now, self.seq, now.seq)


class LazyReversal:
    """The `Reversal` of the later changes up to one snapshot. Each method reads what it needs, and raises as
    `LaterChanges.read`."""

    def __init__(self, later: LaterChanges, now: Snapshot) -> None:
        self._later = later
        self._now = now

    def names(self, seq: int) -> dict[int, str]:
        return self._later.names(self._now)

    def old(self, table_id: int, seq: int) -> dict[bytes, bytes | None]:
        return self._later.read(self._now).old(table_id, seq)

    def one(self, table_id: int, key: bytes, seq: int) -> tuple[bool, bytes | None]:
        if self._later.is_read:
            return self._later.read(self._now).one(table_id, key, seq)
        now = self._now
        low = read_low_water(now.connection)
        if seq < low:
            raise HistoryLost(seq, low + 1)
        return read_document_then(now.connection, now.catalogue, table_id, key, seq)
