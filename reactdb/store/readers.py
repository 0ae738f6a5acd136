"""Readers: the read connections of one engine. Each is lent to one thread at a time.

They are kept open between reads. More are opened when more threads read at once, and closed again.

Thread safety: any thread may call everything here. `idle` is a deque: a reader is taken from it and returned to it
without a lock. A fork (see `file.fork`) sets `is_resting`: then a thread that needs a reader waits at the gate.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Protocol

from reactdb.clock import monotonic
from reactdb.store.catalogue import Catalogue
from reactdb.store.file.sqlite import Connection
from reactdb.store.schema import FORMAT_VERSION
from reactdb.store.sums import Known

# Reader connections that are kept open.
IDLE_READERS = 8


class Reader:
    """A connection that only reads, with the catalogue that it last saw."""

    __slots__ = ("catalogue", "connection", "execute", "known", "polled_version", "shown", "version")

    def __init__(self, connection: Connection, catalogue: Catalogue, shown: int = FORMAT_VERSION) -> None:
        self.connection = connection
        # The file's format, as far as this connection knows; an older format is shown to it as today's.
        self.shown = shown
        self.execute = connection.execute
        self.catalogue = catalogue
        # `PRAGMA data_version` when the catalogue was last compared with the file's.
        self.version: int | None = None
        # The expected data of the file in that state, as far as it was looked up (see `sums`).
        self.known: Known = {}
        # `PRAGMA data_version` when it was last polled for news (see `Engine.has_news`).
        self.polled_version: int | None = None


class LongRead(Protocol):
    """A read that keeps its connection until its user ends it: see `walk`."""

    def settle(self) -> None:
        """Keep it no longer."""


class Readers:
    """See the head of this file.

    Attributes:
        idle: The readers that no thread uses.
        reading: The readers inside a read, and the start of the read (monotonic).
        walks: The reads that last until their users end them.
        is_resting: No thread may take a reader from `idle`.
    """

    def __init__(self) -> None:
        self.idle: deque[Reader] = deque()
        self.reading: dict[Reader, float] = {}
        self.walks: set[LongRead] = set()
        self.is_resting = False
        # Every open reader, and a placeholder for each opening one.
        self._open: set[object] = set()
        self._gate = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def take(self, make: Callable[[], Reader]) -> Reader:
        """Take an idle reader, or open one with `make`. The caller appends it to `idle` again, or closes it."""
        place = object()
        with self._gate:
            try:
                return self.idle.pop()
            except IndexError:
                self._open.add(place)
        try:
            # Not under the gate: others can read at the same time.
            reader = make()
            self._open.add(reader)
            return reader
        finally:
            self._open.discard(place)

    def lend(self, reader: Reader) -> None:
        """Add an open reader, for the next thread that reads."""
        self._open.add(reader)
        self.idle.append(reader)

    def close(self, reader: Reader) -> None:
        """Close a reader in use."""
        try:
            reader.connection.close()
        finally:
            self._open.discard(reader)

    def settle(self) -> None:
        """Let no walk keep a reader any longer."""
        for walk in list(self.walks):
            walk.settle()

    def close_idle(self) -> None:
        """Close the readers that no thread uses. The others are closed when they are returned."""
        while True:
            try:
                reader = self.idle.pop()
            except IndexError:
                return
            self.close(reader)

    def pause(self, end: float) -> bool:
        """Stop new reads until `resume`, settle the walks, and wait for running reads, until `end` at most
        (monotonic). Returns whether all readers are idle. On False, reads continue."""
        if not self._gate.acquire(timeout=max(0.0, end - monotonic())):
            return False
        self.is_resting = True
        is_idle = False
        try:
            while not (is_idle := self.is_idle) and monotonic() < end:
                # A read may have begun just before.
                self.settle()
                time.sleep(0.0002)
        finally:
            if not is_idle:
                self.resume()
        return is_idle

    def resume(self) -> None:
        """After a `pause` that was True."""
        self.is_resting = False
        self._gate.release()

    @property
    def is_idle(self) -> bool:
        """Whether no thread uses a reader, or opens one."""
        return len(self.idle) >= len(self._open)
