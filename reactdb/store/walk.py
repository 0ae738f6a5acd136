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
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, NamedTuple

from reactdb.errors import FeedAborted
from reactdb.store.catalogue import IndexInfo, TableInfo
from reactdb.store.file.sqlite import SQLiteError
from reactdb.store.snapshot import ENTRIES, ROWS, PastSnapshot, Snapshot

if TYPE_CHECKING:
    from reactdb.store.engine import Engine

# Documents in the first page, which somebody is waiting for, and in the others.
FIRST_PAGE = 64
PAGE = 512

# Where a document stands: its key, or in an index (value, key, number of the entry).
Place = bytes | tuple[bytes, bytes, int]


class Page(NamedTuple):
    """Encoded documents, in order, and where they stand."""

    places: Sequence[Place]
    bodies: Sequence[bytes]


def pages(
    snapshot: Snapshot,
    table: TableInfo,
    index: IndexInfo | None,
    start: bytes,
    stop: bytes,
    *,
    reverse: bool,
    after: Place | None = None,
) -> Iterator[Page]:
    """The documents with start <= key < stop, or <= value of the index <, in order: one statement, fetched as it is asked for.

    Args:
        after: Only those that come after this place, in the order in which they come.

    Raises:
        CorruptDatabase: One is not what was written.
    """
    if after is not None:
        edge = after if isinstance(after, bytes) else after[0]
        if reverse:
            stop = min(stop, edge + b"\x00")
        else:
            start = max(start, edge)
    if isinstance(snapshot, PastSnapshot):
        found = _past_pages(snapshot, table, index, start, stop, reverse)
    else:
        found = _pages(snapshot, table, index, start, stop, reverse)
    return found if after is None else _past(after, found, reverse)


def _pages(
    snapshot: Snapshot, table: TableInfo, index: IndexInfo | None, start: bytes, stop: bytes, reverse: bool
) -> Iterator[Page]:
    order = "DESC" if reverse else "ASC"
    if index is None:
        cursor = snapshot.connection.execute(ROWS.format(order), (table.id, start, stop, -1))
    else:
        cursor = snapshot.connection.execute(ENTRIES.format(order), (table.id, index.id, start, stop, -1))
    size = FIRST_PAGE
    try:
        while rows := cursor.fetchmany(size):
            places: Sequence[Place] | None = None
            if index is not None:
                places = [row[:3] for row in rows]
                rows = [(key, body, checksum) for _, key, _, body, checksum in rows]
            keys, bodies = snapshot.whole(table, rows)
            yield Page(keys if places is None else places, bodies)
            size = PAGE
    finally:
        # A statement that is not at its end would keep the snapshot.
        cursor.close()


def _past_pages(
    past: PastSnapshot, table: TableInfo, index: IndexInfo | None, start: bytes, stop: bytes, reverse: bool
) -> Iterator[Page]:
    """The same of the past, by key in pages that are worth the looking through what is to be taken back; by index at once."""
    if index is not None:
        entries = past.entries(index, start, stop, reverse=reverse)
        yield Page(
            [(entry.value, entry.key, entry.tag) for entry in entries], [entry.body for entry in entries]
        )
        return
    size = max(PAGE, past.taken_back(table))
    while True:
        rows = past.rows(table, start, stop, reverse=reverse, limit=size)
        if rows:
            yield Page([row.key for row in rows], [row.body for row in rows])
        if len(rows) < size:
            return
        if reverse:
            stop = rows[-1].key
        else:
            start = rows[-1].key + b"\x00"


def _past(place: Place, found: Iterator[Page], reverse: bool) -> Iterator[Page]:
    """Without what comes up to that place."""
    # The inner statement must be at its end when this is closed.
    with closing(found):  # type: ignore[type-var]
        for page in found:
            skipped = 0
            for one in page.places:
                # Of one kind, both.
                if one < place if reverse else one > place:  # type: ignore[operator]
                    break
                skipped += 1
            if skipped:
                page = Page(page.places[skipped:], page.bodies[skipped:])
            if page.bodies:
                yield page


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
