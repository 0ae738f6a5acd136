"""Walk: the documents of one range, read page by page from a snapshot that stands still while others write.

Who is told all documents of a table should hear of the first before the last is read. But an open read keeps the write-ahead log
from being emptied, and a fork, or closing the file, from being done cleanly. So whoever is kept by it settles the walk: what is
left is read into memory, and the snapshot let go.

Thread safety: any thread may close or settle, while another asks for pages. No code of a user's runs while the lock is held.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from reactdb.errors import FeedAborted
from reactdb.store.catalogue import IndexInfo, TableInfo
from reactdb.store.snapshot import ENTRIES, ROWS, Snapshot
from reactdb.store.sqlite import SQLiteError

if TYPE_CHECKING:
    from reactdb.store.engine import Engine

# Documents in the first page, which somebody is waiting for, and in the others.
FIRST_PAGE = 64
PAGE = 512

# Encoded documents, in order.
Page = Sequence[bytes]


def pages(
    snapshot: Snapshot, table: TableInfo, index: IndexInfo | None, start: bytes, stop: bytes, *, reverse: bool
) -> Iterator[Page]:
    """The documents with start <= key < stop, or <= value of the index <, in order: one statement, fetched as it is asked for.

    Raises:
        CorruptDatabase: One is not what was written.
    """
    order = "DESC" if reverse else "ASC"
    if index is None:
        cursor = snapshot.connection.execute(ROWS.format(order), (table.id, start, stop, -1))
    else:
        cursor = snapshot.connection.execute(ENTRIES.format(order), (table.id, index.id, start, stop, -1))
    size = FIRST_PAGE
    try:
        while rows := cursor.fetchmany(size):
            if index is not None:
                rows = [(key, body, seal) for _, key, _, body, seal in rows]
            yield snapshot.whole(table, rows)[1]
            size = PAGE
    finally:
        # A statement that is not at its end would keep the snapshot.
        cursor.close()


class Walk:
    """See the head of this file. An iterator of pages."""

    __slots__ = ("_engine", "_error", "_held", "_is_closed", "_lock", "_pages", "_rest")

    def __init__(self, engine: Engine, found: Iterator[Page], held: AbstractContextManager[Snapshot]) -> None:
        """`held` is the snapshot that `found` reads in, entered; it is exited when nothing is left to read."""
        self._engine = engine
        self._lock = threading.Lock()
        self._pages: Iterator[Page] | None = found
        self._held: AbstractContextManager[Snapshot] | None = held
        self._rest: deque[Page] = deque()
        self._error: Exception | None = None
        self._is_closed = False
        engine.readers.walks.add(self)

    def __iter__(self) -> Iterator[Page]:
        return self

    def __next__(self) -> Page:
        """
        Raises:
            CorruptDatabase: A document is not what was written.
        """
        with self._lock:
            if self._is_closed:
                self._let_go()
                raise StopIteration
            if self._rest:
                return self._rest.popleft()
            page = self._read()
        if self._is_closed:
            # Closed while it was being read: who closed it did not wait.
            self.close()
        if page is None:
            if self._error is not None:
                raise self._error
            raise StopIteration
        return page

    def _read(self) -> Page | None:
        """The next page; None where there is none, or it cannot be read. With the lock held."""
        if self._pages is None:
            return None
        try:
            page = next(self._pages, None)
        except Exception as error:
            page = None
            self._error = self._engine.translated(error, "read") if isinstance(error, SQLiteError) else error
        except BaseException:
            # Ctrl-C: what is left cannot be read any more, and must not look as if it were not there.
            self._error = FeedAborted("Changefeed aborted (interrupted while initial values were read)")
            self._let_go()
            raise
        if page is None:
            self._let_go()
        return page

    def settle(self) -> None:
        """Read what is left into memory and let go of the snapshot. Raises nothing: who asks for pages is told."""
        with self._lock:
            while not self._is_closed and (page := self._read()) is not None:
                self._rest.append(page)
            self._let_go()

    def close(self) -> None:
        """Read no more. Also from a finalizer: it never waits."""
        self._is_closed = True
        # Held: by who reads, and looks again when it has read.
        while self._held is not None and self._lock.acquire(blocking=False):
            try:
                self._let_go()
            finally:
                self._lock.release()

    def _let_go(self) -> None:
        found, self._pages = self._pages, None
        held, self._held = self._held, None
        self._engine.readers.walks.discard(self)
        if found is not None:
            found.close()  # type: ignore[attr-defined]
        if held is not None:
            held.__exit__(None, None, None)
