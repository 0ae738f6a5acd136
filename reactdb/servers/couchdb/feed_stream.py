"""FeedStream: the bytes of one request for `_changes`, over time.

A waiting feed holds no thread: it has an `asyncio.Event`, which the commit sets, and a time for a heartbeat or its end. Rows are
read in a thread, some 16 KiB at a time, and the next only when the client has taken them: a client that stops reading costs only
the rows on their way, and continues from the log later.

The time of `timeout` and `heartbeat` starts again with every change that wakes the feed. That is every change of the database,
except for a filter that can reject a change by its key or fields alone.

A page that never waits is made at once: `whole`.

Rule of this file: the time of each piece. `formats` makes the bytes, and the dialect has the changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from reactdb.errors import ReactDBError
from reactdb.servers.couchdb.formats import FORMATS
from reactdb.servers.http.loop_waiter import LoopWaiter
from reactdb.servers.http.protocol import Run
from reactdb.servers.http.request_parts import RequestRefused

__all__ = ["CountingRows", "FeedStream", "ToldRows", "Waiting", "whole"]

T = TypeVar("T")
MOST_ROWS: Final = 500
CHUNK_BYTES: Final = 16 * 1024
"""About so many bytes are read and sent at a time: the cost of a client that stops reading."""
FIRST_DOCUMENTS: Final = 1
"""Rows with documents to read at first, while their size is unknown: a client that reads nothing costs one row."""


class ToldRows(Protocol):
    """The rows of a feed of the dialect. `pending` None: it does not count."""

    @property
    def last_seq(self) -> str: ...

    @property
    def passed_seq(self) -> str: ...

    @property
    def pending(self) -> int | None: ...

    @property
    def is_finished(self) -> bool: ...

    def rows(self, most: int) -> list[dict[str, Any]]: ...

    def on_ready(self, callback: Callable[[], object]) -> None: ...

    def close(self) -> None: ...


class CountingRows(ToldRows, Protocol):
    """Rows with a count of pending changes."""

    @property
    def pending(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """How a request for changes waits.

    Attributes:
        feed: One of `FORMATS`.
        limit: The feed ends after so many rows, or None.
        descending: It never waits.
        heartbeat_s: Seconds between two heartbeats, or None; then it ends after `timeout_s`.
        timeout_s: The feed ends after so many seconds without a change.
        has_documents: Its rows may be large.
        tells_seqs: A heartbeat contains the position, if it has moved since, and if the format allows it.
    """

    feed: str
    limit: int | None = None
    descending: bool = False
    heartbeat_s: float | None = None
    timeout_s: float = 60.0
    has_documents: bool = False
    tells_seqs: bool = False

    @property
    def never_waits(self) -> bool:
        return self.feed == "normal" or self.descending

    @property
    def is_short(self) -> bool:
        """Whether the answer is only some kilobytes that exist already."""
        is_small = self.limit is not None and self.limit <= MOST_ROWS and not self.has_documents
        return self.feed == "normal" and is_small


def whole(rows: ToldRows, waiting: Waiting) -> bytes:
    """The bytes of an answer that `is_short`."""
    shape = FORMATS[waiting.feed]()
    pieces = [shape.head]
    left = waiting.limit or 0
    while left > 0 and (page := rows.rows(left)):
        left -= len(page)
        pieces += map(shape.row, page)
    pieces.append(shape.tail(rows.last_seq, rows.pending))
    return b"".join(pieces)


class FeedStream(LoopWaiter):
    """See the head of this file. `chunks` is iterated once; `end` lets it end early, with its last line."""

    def __init__(self, rows: ToldRows, waiting: Waiting, run: Run) -> None:
        super().__init__()
        self._rows = rows
        self._waiting = waiting
        self._run = run
        self._format = FORMATS[waiting.feed]()
        self._sent = 0
        self._batch = FIRST_DOCUMENTS if waiting.has_documents else MOST_ROWS
        self._is_beat_due = False
        # The newest position that the client knows.
        self._told_seq: str | None = None
        self.content_type = self._format.content_type

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks():
                if chunk:
                    # In no variable here while the client takes its time.
                    kept, chunk = [chunk], b""
                    yield kept.pop()
        except RequestRefused:
            # It was stopped. The answer has no end, and the connection is closed.
            raise
        except ReactDBError:
            # The database was deleted, or its history is gone: the rows so far are complete, and the client sends a new request.
            yield self._format.tail(self._rows.last_seq, await self._run(self._pending))
        finally:
            self._rows.close()

    async def _chunks(self) -> AsyncIterator[bytes]:
        waiting = self._waiting
        yield self._format.head
        prefix = b""
        has_waited = is_last = False
        while not self._is_over():
            self._changed.clear()
            rows: list[dict[str, Any]] = []
            async for found_or_none in self._search():
                if found_or_none is None:
                    yield self._beat()
                else:
                    rows = found_or_none
            if rows:
                self._told_seq = rows[-1]["seq"]
                yield prefix + self._encode_rows(rows)
                prefix, self._is_beat_due = b"", False
                continue
            if self._is_beat_due:
                yield self._beat()
            elif prefix:
                # The filter rejected the changes that woke the feed.
                yield prefix
            prefix = b""
            self._is_beat_due = False
            is_last = is_last or self._is_ending
            if waiting.never_waits or (waiting.feed == "longpoll" and self._sent) or is_last:
                break
            if self._rows.is_finished and waiting.limit != 0:
                # The database was deleted.
                break
            if not has_waited:
                has_waited = True
                if not self._sent:
                    # The client sees that the server works.
                    yield self._format.waiting
                self._rows.on_ready(self._wake)
            async for beat in self._beats():
                yield beat
            # Its time is over: it reads once more, because changes that cannot pass its filter have not woken it.
            is_last = self._is_ending or not self._changed.is_set()
            if is_last:
                continue
            prefix = b"" if waiting.feed == "eventsource" else self._format.waiting
        yield self._format.tail(self._rows.last_seq, await self._run(self._pending))

    def _encode_rows(self, rows: list[dict[str, Any]]) -> bytes:
        """The bytes of rows. The list is cleared, so that rows on their way are held once."""
        self._sent += len(rows)
        chunk = b"".join(map(self._format.row, rows))
        self._batch = min(MOST_ROWS, max(1, CHUNK_BYTES * len(rows) // len(chunk)))
        rows.clear()
        return chunk

    def _is_over(self) -> bool:
        limit = self._waiting.limit
        if limit is None or self._sent < limit:
            return False
        # As in CouchDB, a long poll with limit 0 waits nevertheless.
        return not (self._waiting.feed == "longpoll" and limit == 0 and not self._waiting.descending)

    async def _search(self) -> AsyncIterator[list[dict[str, Any]] | None]:
        """The next rows; before them None for each heartbeat that is due during the search."""
        waiting = self._waiting
        most = self._batch if waiting.limit is None else min(self._batch, waiting.limit - self._sent)
        if most <= 0:
            yield []
            return
        searching = asyncio.ensure_future(self._run(self._rows.rows, most))
        try:
            while True:
                done, _ = await asyncio.wait((searching,), timeout=waiting.heartbeat_s)
                if done:
                    break
                yield None
        finally:
            if not searching.done():
                searching.cancel()
        yield searching.result()

    async def _beats(self) -> AsyncIterator[bytes]:
        """Wait until something has changed or the time is over; yield a heartbeat when it is due."""
        waiting = self._waiting
        while not self._changed.is_set():
            try:
                async with asyncio.timeout(waiting.heartbeat_s or waiting.timeout_s):
                    await self._changed.wait()
            except TimeoutError:
                if waiting.heartbeat_s is None:
                    return
                if waiting.tells_seqs:
                    # Rejected changes that did not wake the feed are read first, because the position is past them.
                    self._is_beat_due = True
                    self._changed.set()
                    return
                yield self._format.heartbeat

    def _beat(self) -> bytes:
        """A heartbeat, or the position instead."""
        seq = self._rows.passed_seq
        if not self._waiting.tells_seqs or seq == self._told_seq:
            return self._format.heartbeat
        self._told_seq = seq
        return self._format.position(seq)

    def _pending(self) -> int | None:
        try:
            return self._rows.pending
        except ReactDBError:
            return 0
