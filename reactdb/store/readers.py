"""Readers: the connections of one engine that read, lent to whoever reads, one reader at a time.

They are kept open between reads. More are made when more threads read at once, and closed again.

Thread safety: `idle` is a deque, of which any thread may take. Opening, and closing one that is not idle, is under `_gate`,
which a fork keeps shut (see `forking`).
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
from reactdb.store.log import PagesInUse

if TYPE_CHECKING:
    from reactdb.store.engine import Engine
    from reactdb.store.walk import Walk

# Reader connections that are kept open.
IDLE_READERS = 8


class Reader:
    """A connection that only reads, with the catalogue that it last saw."""

    __slots__ = ("catalogue", "connection", "execute", "version")

    def __init__(self, connection: Connection, catalogue: Catalogue) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.catalogue = catalogue
        # `PRAGMA data_version` when the catalogue was last compared with the file's.
        self.version: int | None = None


class Shut(deque[Reader]):
    """Takes back what is given back, and gives nothing."""

    def pop(self) -> Reader:  # type: ignore[override]
        raise IndexError


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
        self.pages = PagesInUse()
        self._open: set[Reader] = set()
        self._gate = Lock()
        self._shut = Shut()
        self._resting: list[Reader] = []

    def __len__(self) -> int:
        return len(self._open)

    def open(self, make: Callable[[], Reader]) -> Reader:
        """Another one, in use."""
        with self._gate:
            # The gate may have been shut for a while. What came back at the very end of it is still there.
            for waiting in (self._shut, self.idle):
                try:
                    return waiting.popleft()
                except IndexError:
                    pass
            reader = make()
            self._open.add(reader)
            return reader

    def lend(self, reader: Reader) -> None:
        """Take another one, for whoever reads first."""
        self.idle.append(self.open(lambda: reader))

    def close(self, reader: Reader) -> None:
        """Close one that is not idle."""
        with self._gate:
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

    # -----------------------------------------------------------------------------------------------------------
    # fork()

    def pause(self, end: float) -> bool:
        """Let nobody read, until `resume`. Whether it came to that before `end`, by the monotonic clock."""
        if not self._gate.acquire(timeout=max(0.0, end - time.monotonic())):
            return False
        before, self.idle = self.idle, self._shut
        # Who wants one finds none idle, and the gate shut; those in use come back one by one.
        while True:
            try:
                while True:
                    self._resting.append(before.popleft())
            except IndexError:
                pass
            if len(self._resting) + len(self.idle) >= len(self._open):
                return True
            if time.monotonic() >= end:
                return False
            time.sleep(0.0002)

    def resume(self) -> None:
        """In the parent: after `pause`, whatever it came to."""
        if self.idle is self._shut:
            self.idle, self._resting = deque(self._resting), []
            while self._shut:
                self.idle.append(self._shut.popleft())
            self._gate.release()

    def leave(self) -> list[Connection]:
        """In the child: all connections that were inherited; none is left here. Locks may be held by threads that are gone."""
        inherited = [reader.connection for reader in self._open]
        self.idle, self._open, self._resting = deque(), set(), []
        self._gate, self._shut = Lock(), Shut()
        return inherited


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
