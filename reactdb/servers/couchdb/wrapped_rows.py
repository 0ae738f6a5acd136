"""Wrapped rows: the rows of a feed that was read before, or that counts pending changes as CouchDB does.

    Paged(rows, ...)       all documents: pending changes are counted once for a client that reads page after page
    Counted(rows)          a filter by ids only: rejected changes count as pending
    Begun(rows, most)      a filter that may fail: an early failure comes before the first byte is sent

Rule of this file: the rows of the feed, in its order, each once.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.servers.couchdb.feed_stream import CountingRows

__all__ = ["Begun", "Counted", "Counts", "Paged"]


class Wrapped:
    """The rows of a feed, with changes in subclasses."""

    def __init__(self, rows: CountingRows) -> None:
        self.inner = rows
        self.on_ready = rows.on_ready
        self.close = rows.close

    @property
    def last_seq(self) -> str:
        return self.inner.last_seq

    @property
    def passed_seq(self) -> str:
        return self.inner.passed_seq

    @property
    def pending(self) -> int:
        return self.inner.pending

    @property
    def is_finished(self) -> bool:
        return self.inner.is_finished

    def rows(self, most: int) -> list[dict[str, Any]]:
        return self.inner.rows(most)


class Begun(Wrapped):
    """Rows whose first ones were read already."""

    def __init__(self, rows: CountingRows, most: int) -> None:
        super().__init__(rows)
        self._first = rows.rows(most)

    @property
    def is_finished(self) -> bool:
        return self.inner.is_finished and not self._first

    def rows(self, most: int) -> list[dict[str, Any]]:
        first, self._first = self._first, []
        return first or self.inner.rows(most)


class Counts:
    """How many documents have changed since a position, as far as it was found out: the last some thousand of these numbers.

    Thread safety: any thread.
    """

    def __init__(self, most: int = 4_096) -> None:
        self._most = most
        self._lock = Lock()
        self._found: dict[tuple[int, str, str], int] = {}

    def get(self, database: CouchDatabase, newest: str, since: str) -> int | None:
        with self._lock:
            return self._found.get((database.table_id, newest, since))

    def keep(self, database: CouchDatabase, newest: str, since: str, count: int) -> None:
        with self._lock:
            self._found[database.table_id, newest, since] = count
            if len(self._found) > self._most:
                del self._found[next(iter(self._found))]


class Paged(Wrapped):
    """Rows of all documents. For a client that reads page after page, pending changes are counted once, and then subtracted:
    otherwise each page would count all later changes.

    Args:
        newest: The database's `update_seq` before the feed was opened.
    """

    def __init__(
        self, rows: CountingRows, database: CouchDatabase, since: str, newest: str, counts: Counts
    ) -> None:
        super().__init__(rows)
        self._counts = counts
        self._database = database
        self._since = since
        self._newest = newest
        self._told = 0

    def rows(self, most: int) -> list[dict[str, Any]]:
        rows = self.inner.rows(most)
        self._told += len(rows)
        return rows

    @property
    def pending(self) -> int:
        if self._newest != self._database.update_seq:
            # A document may have had several rows, or may be newer than the count.
            return self.inner.pending
        before = self._counts.get(self._database, self._newest, self._since)
        count = self.inner.pending if before is None else before - self._told
        if self._newest == self._database.update_seq:
            self._counts.keep(self._database, self._newest, self.last_seq, count)
        return count


class Counted(Wrapped):
    """Rows of a filter by ids only. CouchDB counts rejected changes as pending."""

    def __init__(self, rows: CountingRows) -> None:
        super().__init__(rows)
        self._left = rows.pending

    @property
    def pending(self) -> int:
        return max(self._left, self.inner.pending)

    def rows(self, most: int) -> list[dict[str, Any]]:
        rows = self.inner.rows(most)
        self._left -= len(rows)
        return rows
