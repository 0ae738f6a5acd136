"""OldVersions: which version each document of one table had at an earlier seq, from the numbers in the log alone.

For each key that changed after the seq, its first change after it names the version before. So one pass over the entries, in SQL
and without documents, gives the difference to the present, whose size is that of the changed keys, not of the changes.

Entries and keys are read in parts, each in a snapshot of its own: a long read would keep the write-ahead log from being emptied,
and a writer waits for that, also a writer of another process. The log does not change below its end, so the parts fit together.

It has the interface of `undo.Undo`, so a `PastSnapshot` can read through it.

Rule of this file: numbers of versions; a document is read when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from reactdb.change import DELETE, INSERT
from reactdb.errors import HistoryLost
from reactdb.store.catalogue import TableInfo
from reactdb.store.log import read_low_water
from reactdb.store.snapshot import Snapshot

PART_ENTRIES: Final = 5_000
PART_KEYS: Final = 10_000
"""They take some milliseconds to read."""

# Newest first, so that in a dict the first change of a key remains. All deletions, because of the keys that come and go.
FIRST_CHANGES = (
    f"SELECT key, CASE WHEN kind = {INSERT} THEN NULL ELSE prev END, kind IN ({INSERT}, {DELETE}) FROM log"
    f" WHERE seq > ?1 AND seq <= ?2 AND table_id = ?3 AND (prev IS NULL OR prev <= ?4 OR kind = {DELETE}) ORDER BY seq DESC"
)
KEYS_AFTER = "SELECT key FROM heads WHERE table_id = ? AND key > ? ORDER BY key LIMIT ?"
PICKED = 100
PICK = f"SELECT key, body, seal FROM log WHERE seq IN ({', '.join('?' * PICKED)})"

Snapshots = Callable[[], AbstractContextManager[Snapshot]]
"""Makes a snapshot of the present."""


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
        self._keys: list[bytes] | None = None
        self._now: Snapshot | None = None

    def begin_from(self, later: OldVersions, snapshots: Snapshots) -> None:
        """Take over what is known of the same table at a later seq, or at the same one: then only the changes between the two
        are read. Before the first `follow`."""
        between: dict[bytes, int | None] = {}
        moved: set[bytes] = set()
        self._read(snapshots, self.seq, later.seq, between, moved)
        # A key that did not change between has the same version at both.
        self._versions = {**later._versions, **between}
        self._until = later._until
        if later._keys is not None:
            self._keys = later._keys
            if moved:
                self._keys = [key for key in later._keys if key not in moved]
                self._keys += [key for key in moved if between[key] is not None]
                self._keys.sort()

    def catch_up(self, snapshots: Snapshots) -> None:
        """Take in the changes up to about now, so that the next `follow` has few to read.

        Raises:
            HistoryLost: Retention has removed changes since.
        """
        with snapshots() as now:
            head = now.seq
        found: dict[bytes, int | None] = {}
        self._read(snapshots, self._until, head, found, set())
        self._add(found, head)

    def follow(self, now: Snapshot) -> None:
        """Take in the changes up to this snapshot, and read documents through it from here on.

        Raises:
            HistoryLost: Retention has removed changes since.
        """
        head = now.seq
        found: dict[bytes, int | None] = {}
        self._read_part(now, self._until, head, found, set())
        self._add(found, head)
        self._now = now

    def _add(self, found: dict[bytes, int | None], head: int) -> None:
        for key, version in found.items():
            self._versions.setdefault(key, version)
        self._until = max(self._until, head)

    def _read(
        self,
        snapshots: Snapshots,
        since: int,
        until: int,
        versions: dict[bytes, int | None],
        moved: set[bytes],
    ) -> None:
        """Add the versions of the keys whose first change past `self.seq` is in since < seq <= until, and the keys that came or
        went there."""
        for top in range(until, since, -PART_ENTRIES):
            with snapshots() as now:
                self._read_part(now, max(since, top - PART_ENTRIES), top, versions, moved)

    def _read_part(
        self, now: Snapshot, since: int, until: int, versions: dict[bytes, int | None], moved: set[bytes]
    ) -> None:
        low = read_low_water(now.connection)
        if self.seq < low:
            raise HistoryLost(self.seq, low + 1)
        rows = now.connection.execute(FIRST_CHANGES, (since, until, self.table.id, self.seq)).fetchall()
        versions.update({key: version for key, version, _ in rows})
        moved.update(key for key, _, is_moved in rows if is_moved)

    def keys(self, snapshots: Snapshots) -> list[bytes]:
        """The keys of the documents then, sorted. They are not to be changed."""
        if self._keys is None:
            # A key that changes after it was read is among the versions then.
            present = [key for key in self._read_keys(snapshots) if key not in self._versions]
            present += [key for key, version in self._versions.items() if version is not None]
            present.sort()
            self._keys = present
        return self._keys

    def _read_keys(self, snapshots: Snapshots) -> list[bytes]:
        """The keys of now, and those that were removed while they were read."""
        found: list[bytes] = []
        rows: list[tuple[bytes]] = [(b"",)]
        while rows:
            with snapshots() as now:
                self.follow(now)
                rows = now.connection.execute(KEYS_AFTER, (self.table.id, rows[-1][0], PART_KEYS)).fetchall()
            found += [key for (key,) in rows]
        return found

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
