"""OldVersions: which version each document of one table had at an earlier seq, from the numbers in the log alone.

For each key that changed after the seq, its first change after it names the version before. So one pass over the entries, in SQL
and without documents, gives the difference to the present, whose size is that of the changed keys, not of the changes.

It has the interface of `undo.Undo`, so a `PastSnapshot` can read through it.

Rule of this file: numbers of versions; a document is read when it is needed.
"""

from __future__ import annotations

from reactdb.change import INSERT
from reactdb.errors import HistoryLost
from reactdb.store.catalogue import TableInfo
from reactdb.store.log import read_low_water
from reactdb.store.snapshot import Snapshot

FIRST_CHANGES = (
    f"SELECT key, CASE WHEN kind = {INSERT} THEN NULL ELSE prev END FROM log"
    " WHERE seq > ?1 AND seq <= ?2 AND table_id = ?3 AND (prev IS NULL OR prev <= ?4) ORDER BY seq"
)
PICKED = 100
PICK = f"SELECT key, body, seal FROM log WHERE seq IN ({', '.join('?' * PICKED)})"


class OldVersions:
    """See the head of this file.

    Attributes:
        table: The table.
        seq: The moment.

    Thread safety: one thread at a time.
    """

    def __init__(self, table: TableInfo, seq: int) -> None:
        self.table = table
        self.seq = seq
        self._until = seq
        # For each changed key, the seq of its version then; None: it had none.
        self._versions: dict[bytes, int | None] = {}
        self._now: Snapshot | None = None

    def begin_from(self, later: OldVersions, now: Snapshot) -> None:
        """Take over what is known of the same table at a later seq, or at the same one: then only the changes between the two
        are read. Before the first `follow`."""
        rows = now.connection.execute(FIRST_CHANGES, (self.seq, later.seq, self.table.id, self.seq))
        for key, version in rows:
            self._versions.setdefault(key, version)
        # A key that did not change between has the same version at both.
        for key, version in later._versions.items():
            self._versions.setdefault(key, version)
        self._until = later._until

    def follow(self, now: Snapshot) -> None:
        """Take in the changes up to this snapshot, and read documents through it from here on.

        Raises:
            HistoryLost: Retention has removed changes since.
        """
        low = read_low_water(now.connection)
        if self.seq < low:
            raise HistoryLost(self.seq, low + 1)
        head = now.seq
        rows = now.connection.execute(FIRST_CHANGES, (self._until, head, self.table.id, self.seq))
        for key, version in rows:
            self._versions.setdefault(key, version)
        self._until = max(self._until, head)
        self._now = now

    def keys(self) -> list[bytes]:
        """The keys of the documents then, sorted."""
        assert self._now is not None
        versions = self._versions
        then = [key for key in self._now.keys(self.table) if key not in versions]
        then += [key for key, version in versions.items() if version is not None]
        then.sort()
        return then

    def read(self, key: bytes) -> bytes | None:
        """The encoded document then; None where there was none."""
        assert self._now is not None
        if key not in self._versions:
            return self._now.get(self.table, key)
        return self.one(self.table.id, key, self.seq)[1]

    # -----------------------------------------------------------------------------------------------------------
    # As an Undo

    def names(self, seq: int) -> dict[int, str]:
        """The tables have the names of today."""
        return {}

    def old(self, table_id: int, seq: int) -> dict[bytes, bytes | None]:
        """For each key that changed since, its document then."""
        assert self._now is not None
        if table_id != self.table.id:
            return {}
        documents: dict[bytes, bytes | None] = dict.fromkeys(self._versions)
        seqs = [version for version in self._versions.values() if version is not None]
        for place in range(0, len(seqs), PICKED):
            some = seqs[place : place + PICKED]
            some += [0] * (PICKED - len(some))
            rows = self._now.connection.execute(PICK, some).fetchall()
            keys, bodies = self._now.whole(self.table, rows)
            documents.update(zip(keys, bodies, strict=True))
        return documents

    def one(self, table_id: int, key: bytes, seq: int) -> tuple[bool, bytes | None]:
        """(whether the key changed since, its document then)."""
        assert self._now is not None
        if table_id != self.table.id or key not in self._versions:
            return False, None
        version = self._versions[key]
        entry = None if version is None else self._now.entry(version)
        return True, None if entry is None else entry.new_bytes
