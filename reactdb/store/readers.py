"""Readers: the connections of one engine that read. Each is lent to one thread at a time.

They are kept open between reads. More are opened when more threads read at once, and closed again.

Thread safety: everything here may be called from any thread. `idle` is a deque, from which a reader is taken, and to which it is
given back, without a lock. A fork (see `file.fork`) sets `is_resting`: then a thread that wants a reader waits at the gate.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Protocol

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
        # The format that the file has, as far as this connection knows; an older one is shown to it as today's.
        self.shown = shown
        self.execute = connection.execute
        self.catalogue = catalogue
        # `PRAGMA data_version` when the catalogue was last compared with the file's.
        self.version: int | None = None
        # What the file must have in that state, as far as it was looked up (see `sums`).
        self.known: Known = {}
        # `PRAGMA data_version` when it was last polled for news (see `Engine.has_news`).
        self.polled_version: int | None = None


class LongRead(Protocol):
    """A read that keeps its connection for as long as somebody takes: see `walk`."""

    def settle(self) -> None:
        """Keep it no longer."""


class Readers:
    """See the head of this file.

    Attributes:
        idle: Those that no thread uses.
        reading: Those that are inside of a read, and since when (monotonic).
        walks: What reads for as long as somebody takes.
        is_resting: Nobody may take a reader from `idle`.
    """

    def __init__(self) -> None:
        self.idle: deque[Reader] = deque()
        self.reading: dict[Reader, float] = {}
        self.walks: set[LongRead] = set()
        self.is_resting = False
        # Every reader that is open, and a placeholder for each that is being opened.
        self._open: set[object] = set()
        self._gate = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def take(self, make: Callable[[], Reader]) -> Reader:
        """An idle one, or another one that `make` opens. The caller appends it to `idle` again, or closes it."""
        place = object()
        with self._gate:
            try:
                return self.idle.pop()
            except IndexError:
                self._open.add(place)
        try:
            # Not under the gate: others can read meanwhile.
            reader = make()
            self._open.add(reader)
            return reader
        finally:
            self._open.discard(place)

    def lend(self, reader: Reader) -> None:
        """Add one that is open, for the next thread that reads."""
        self._open.add(reader)
        self.idle.append(reader)

    def close(self, reader: Reader) -> None:
        """Close one that is not idle."""
        try:
            reader.connection.close()
        finally:
            self._open.discard(reader)

    def settle(self) -> None:
        """Let no walk keep a reader any longer."""
        for walk in list(self.walks):
            walk.settle()

    def close_idle(self) -> None:
        """Close those that no thread uses. The others are closed when they are given back."""
        while True:
            try:
                reader = self.idle.pop()
            except IndexError:
                return
            self.close(reader)

    def rest(self, end: float) -> bool:
        """Let nobody begin to read until `go_on`, settle the walks, and wait for the reads that are going on, until `end` at most
        (monotonic). Whether all readers are idle. Where that is False, reading goes on."""
        if not self._gate.acquire(timeout=max(0.0, end - time.monotonic())):
            return False
        self.is_resting = True
        is_idle = False
        try:
            while not (is_idle := self.is_idle) and time.monotonic() < end:
                # One may have begun just before.
                self.settle()
                time.sleep(0.0002)
        finally:
            if not is_idle:
                self.go_on()
        return is_idle

    def go_on(self) -> None:
        """After a `rest` that was True."""
        self.is_resting = False
        self._gate.release()

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses a reader, or opens one."""
        return len(self.idle) >= len(self._open)
