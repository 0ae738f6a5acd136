"""Readers: the connections of one engine that read, lent to whoever reads, one reader at a time.

They are kept open between reads. More are made when more threads read at once, and closed again.

Thread safety: everything here may be called from any thread. To take a reader is under `_gate`, which a fork keeps shut (see
`file.fork`). To give one back is not: `idle` is a deque, and whoever waits at the gate waits for that.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

from reactdb.store import schema
from reactdb.store.catalogue import Catalogue
from reactdb.store.file import sqlite
from reactdb.store.file.sqlite import Connection, SQLiteError
from reactdb.store.log_pages import KnownPages

if TYPE_CHECKING:
    from reactdb.store.engine import Engine
    from reactdb.store.walk import Walk

# No row: the table was dropped. Nothing in the row: no such key. A head without its entry has a seal that fits nothing.
GET_LIVE = (
    "SELECT l.body, ifnull(l.seal, -h.seq) FROM tables t LEFT JOIN heads h ON h.table_id = t.id AND h.key = ?"
    " LEFT JOIN log l ON l.seq = h.seq WHERE t.id = ? AND t.dropped IS NULL"
)
# Reader connections that are kept open.
IDLE_READERS = 8


class Reader:
    """A connection that only reads, with the catalogue that it last saw."""

    __slots__ = ("catalogue", "connection", "execute", "polled_version", "version")

    def __init__(self, connection: Connection, catalogue: Catalogue) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.catalogue = catalogue
        # `PRAGMA data_version` when the catalogue was last compared with the file's.
        self.version: int | None = None
        # The same, when it was last polled for news (see `Engine.has_news`).
        self.polled_version: int | None = None


class Readers:
    """See the head of this file.

    Attributes:
        idle: Those that nobody uses just now.
        reading: Those that are inside of a read, and since when (monotonic).
        pages: Pages of the log that may have to read in it again.
        walks: What reads for as long as somebody takes.
    """

    def __init__(self) -> None:
        self.idle: deque[Reader] = deque()
        self.reading: dict[Reader, float] = {}
        self.walks: set[Walk] = set()
        self.pages = KnownPages()
        # Every reader that is open, and a placeholder for each that is being opened.
        self._open: set[object] = set()
        self._gate = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def take(self, make: Callable[[], Reader]) -> Reader:
        """An idle one, or another one that `make` opens. The caller appends it to `idle` again, or closes it."""
        with self._gate:
            if self.idle:
                return self.idle.pop()
            place = object()
            self._open.add(place)
        try:
            # Not under the gate: others can read meanwhile.
            reader = make()
            self._open.add(reader)
            return reader
        finally:
            self._open.discard(place)

    def lend(self, reader: Reader) -> None:
        """Take another one, for whoever reads first."""
        self._open.add(reader)
        self.idle.append(reader)

    def close(self, reader: Reader) -> None:
        """Close one that is not idle."""
        self._open.discard(reader)
        reader.connection.close()

    def settle(self) -> None:
        """Let no walk keep a reader any longer."""
        for walk in list(self.walks):
            walk.settle()

    def close_idle(self) -> None:
        """Those that nobody uses just now. The others are closed when they are given back."""
        while True:
            try:
                reader = self.idle.pop()
            except IndexError:
                return
            self.close(reader)

    def rest(self, end: float) -> bool:
        """Let nobody begin to read until `go_on`, and wait for the reads that are going on, until `end` at most (monotonic).
        Whether all readers are idle. Where that is False, reading goes on."""
        if not self._gate.acquire(timeout=max(0.0, end - time.monotonic())):
            return False
        while len(self.idle) < len(self._open):
            if time.monotonic() >= end:
                self._gate.release()
                return False
            time.sleep(0.0002)
        return True

    def go_on(self) -> None:
        """After a `rest` that was True."""
        self._gate.release()

    def connections(self) -> list[Connection]:
        """Of the idle ones."""
        return [reader.connection for reader in self.idle]


def connect_reader(engine: Engine) -> Reader:
    """A new one, of nobody's: the caller closes its connection."""
    connection = engine.connect(engine.read_mode)
    try:
        # The last that was given back is lent again: who reads alone always has the first, which holds more pages.
        sqlite.configure(connection, reader=True, cache_kib=0 if len(engine.readers) else sqlite.CACHE_KIB)
        if engine.read_only:
            schema.show_as_today(connection, schema.identify(connection, engine.path))
        # Closed in between: in memory, this connection would be the first one to a new and empty database.
        engine.check_usable()
        trouble = "" if engine.guard is None else engine.guard.examine()
        if trouble:
            # It would read another file.
            raise engine.moved(trouble)
    except SQLiteError as error:
        connection.close()
        raise engine.translated(error, "read") from error
    except BaseException:
        connection.close()
        raise
    return Reader(connection, engine.catalogue)
