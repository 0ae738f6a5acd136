"""RecentChanges: the newest changes of a file in memory, so that streams woken by a commit need not read the log.

    recent.add(changes)                     the next in the order of the log
    recent.between(position, head)          the changes after a position up to a head; None if some may be missing

LateSnapshot: a state of the file with its seq known beforehand. Its read begins at the first look-up.

Rule of this file: the changes have no gap. A reader that has skipped changes calls `clear`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Final

from reactdb.change import Change
from reactdb.store.catalogue import Catalogue
from reactdb.store.engine import Engine
from reactdb.store.file.sqlite import Connection
from reactdb.store.snapshot import Snapshot

__all__ = ["LateSnapshot", "RecentChanges", "size_of"]

MOST: Final = 64
"""The number of changes. A stream further behind reads the log, with a low cost per change."""
MOST_BYTES: Final = 1 << 18


class RecentChanges:
    """See the head of this file.

    Thread safety: one thread at a time adds and clears; any thread reads.
    """

    __slots__ = ("_bytes", "_held", "_last", "_since")

    def __init__(self) -> None:
        self._held: deque[Change] = deque()
        self._bytes = 0
        # The position after which nothing is missing; None if unknown.
        self._since: int | None = None
        # The last addition, because most reads ask for it: the position before it, and the changes.
        self._last: tuple[int, Sequence[Change]] | None = None

    def clear(self) -> None:
        """Some changes were skipped."""
        self._since = self._last = None
        self._held.clear()
        self._bytes = 0

    def add(self, changes: Sequence[Change]) -> None:
        """Add the next changes of all visible tables; the oldest changes are removed."""
        if len(changes) > MOST:
            self.clear()
            changes = changes[-MOST:]
        if self._since is None:
            self._since = changes[0].seq - 1
        held = self._held
        before = held[-1].seq if held else self._since
        for change in changes:
            held.append(change)
            self._bytes += size_of(change)
        while len(held) > MOST or self._bytes > MOST_BYTES:
            # Before the removal, so that a concurrent reader misses nothing.
            self._since = held[0].seq
            self._bytes -= size_of(held.popleft())
        self._last = (before, changes) if before >= self._since else None

    def between(self, position: int, head: int) -> Sequence[Change] | None:
        """The changes after a position up to a head that is not before it; None if some may be missing."""
        last = self._last
        if last is not None and last[0] == position and last[1][-1].seq == head:
            return last[1]
        held = list(self._held)
        # Checked after the copy: changes removed meanwhile count as missing.
        since = self._since
        if since is None or since > position or not held or held[-1].seq < head:
            return None
        changes: list[Change] = []
        for change in reversed(held):
            if change.seq <= position:
                break
            if change.seq <= head:
                changes.append(change)
        changes.reverse()
        return changes


def size_of(change: Change) -> int:
    return len(change.new_bytes or b"") + len(change.old_bytes or b"")


class LateSnapshot(Snapshot):
    """A context manager. Its look-ups may be newer than its `seq`, never older.

    Attributes:
        recent: The changes up to its seq, from the position of its stream.
    """

    def __init__(self, engine: Engine, seq: int, catalogue: Catalogue, recent: Sequence[Change]) -> None:
        self.catalogue = catalogue
        self.recent = recent
        self._known = {}
        self._engine = engine
        self._seq = seq
        self._begun: Snapshot | None = None
        # Most often nothing is looked up.
        self._reads: ExitStack | None = None

    @property
    def seq(self) -> int:
        return self._seq

    @property
    def connection(self) -> Connection:
        if self._begun is None:
            self._reads = ExitStack()
            self._begun = self._reads.enter_context(self._engine.snapshot())
        return self._begun.connection

    def __enter__(self) -> LateSnapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reads is not None:
            self._reads.__exit__(kind, error, trace)
