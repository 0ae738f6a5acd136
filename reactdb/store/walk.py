"""Walk: the documents of one range, read page by page from a snapshot that stays fixed while others write.

A feed that delivers all documents of a table delivers the first before the last is read. But an open read keeps the write-ahead
log from being emptied, and the file from being closed. So whatever must not wait for the read settles the walk: the rest is read
into memory, and the snapshot is released.

Thread safety: any thread may close or settle a walk while another reads pages. No user code runs while the lock is
held.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from typing import NamedTuple

from reactdb.errors import FeedAborted
from reactdb.store.catalogue import IndexInfo, TableInfo
from reactdb.store.file.sqlite import SQLiteError
from reactdb.store.open_file import OpenFile
from reactdb.store.snapshot import ENTRIES, GREATEST, LEAST, ROWS, PastSnapshot, Snapshot
from reactdb.store.sums import Tally

# Documents in the first page, for which the caller is waiting, and in the others.
FIRST_PAGE = 64
PAGE = 512

# A document's place in the order of a walk: its primary key, or in an index (value, key, number of the entry).
Place = bytes | tuple[bytes, bytes, int]


class Page(NamedTuple):
    """Encoded documents in order, with their places."""

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
    """The documents with start <= key < stop, or <= value of the index <, in order: one statement, fetched as pages
    are read.

    Args:
        after: Only documents after this sort key, in the order of the walk.

    Raises:
        CorruptDatabase: A document does not match its checksum.
    """
    if after is not None:
        edge = after if isinstance(after, bytes) else after[0]
        if reverse:
            stop = min(stop, edge + b"\x00")
        else:
            start = max(start, edge)
    if isinstance(snapshot, PastSnapshot):
        page_iterator = _read_past_pages(snapshot, table, index, start, stop, reverse)
    else:
        page_iterator = _pages(snapshot, table, index, start, stop, reverse)
    return page_iterator if after is None else _skip_until(after, page_iterator, reverse)


def _pages(
    snapshot: Snapshot, table: TableInfo, index: IndexInfo | None, start: bytes, stop: bytes, reverse: bool
) -> Iterator[Page]:
    order = "DESC" if reverse else "ASC"
    if index is None:
        cursor = snapshot.connection.execute(ROWS.format(order), (table.id, start, stop, -1))
    else:
        snapshot.compare(index)
        cursor = snapshot.connection.execute(ENTRIES.format(order), (table.id, index.id, start, stop, -1))
    size = FIRST_PAGE
    tally = Tally()
    try:
        while rows := cursor.fetchmany(size):
            places: Sequence[Place] | None = None
            if index is not None:
                places = [row[:3] for row in rows]
                rows = [(key, body, checksum) for _, key, _, body, checksum in rows]
            keys, bodies = snapshot.whole(table, rows, tally)
            yield Page(keys if places is None else places, bodies)
            size = PAGE
        if start == LEAST and stop >= GREATEST:
            snapshot.check(table, index, tally.count, tally.total if index is None else None)
    finally:
        # An unfinished statement would keep the snapshot.
        cursor.close()


def _read_past_pages(
    past: PastSnapshot, table: TableInfo, index: IndexInfo | None, start: bytes, stop: bytes, reverse: bool
) -> Iterator[Page]:
    """The same for the past. By key, the pages are as large as the number of documents to revert for each page; by
    index, there is one page."""
    if index is not None:
        entries = past.entries(index, start, stop, reverse=reverse)
        yield Page(
            [(entry.value, entry.key, entry.tag) for entry in entries], [entry.body for entry in entries]
        )
        return
    size = max(PAGE, past.count_changed_since(table))
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


def _skip_until(place: Place, page_iterator: Iterator[Page], reverse: bool) -> Iterator[Page]:
    """Skip all before that sort key, and the document at it."""
    # The inner statement must be at its end when this is closed.
    with closing(page_iterator):  # type: ignore[type-var]
        for page in page_iterator:
            skipped = 0
            for one in page.places:
                # Both have the same kind.
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

    def __init__(
        self, engine: OpenFile, page_iterator: Iterator[Page], held: AbstractContextManager[Snapshot]
    ) -> None:
        """`held` is the snapshot, already entered, in which `page_iterator` reads. It is exited when nothing is left to read."""
        self._engine = engine
        self._lock = threading.Lock()
        self._pages: Iterator[Page] | None = page_iterator
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
            CorruptDatabase: A document does not match its checksum.
        """
        with self._lock:
            if self._is_closed:
                self._close()
                raise StopIteration
            if self._rest:
                return self._rest.popleft()
            page = self._read()
        if self._is_closed:
            # Closed while the page was being read, by a thread that did not wait.
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
            self._error = (
                self._engine.translate_error(error, "read") if isinstance(error, SQLiteError) else error
            )
        except BaseException:
            # Ctrl-C: the rest cannot be read any more, and must not look like an end.
            self._error = FeedAborted("Changefeed aborted (interrupted while initial values were read)")
            self._close()
            raise
        if page is None:
            self._close()
        return page

    def settle(self) -> None:
        """Read the rest into memory and release the snapshot. Raises nothing: reading a page raises its errors."""
        with self._lock:
            while not self._is_closed and (page := self._read()) is not None:
                self._rest.append(page)
            self._close()

    def close(self) -> None:
        """Read no more. It never waits, so that a finalizer can call it."""
        self._is_closed = True
        # The thread that has the lock is reading, and looks at `_is_closed` when it has read.
        while self._held is not None and self._lock.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._lock.release()

    def _close(self) -> None:
        page_iterator, self._pages = self._pages, None
        held, self._held = self._held, None
        self._engine.readers.walks.discard(self)
        if page_iterator is not None:
            page_iterator.close()  # type: ignore[attr-defined]
        if held is not None:
            held.__exit__(None, None, None)
