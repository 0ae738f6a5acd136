"""FeedStream: the bytes of one request for `_changes`, over time.

A feed that waits holds no thread: it has an `asyncio.Event`, which the commit sets, and a time at which it gives a sign of life
or ends. What there is to tell is read in a thread, some 16 KiB at a time, and the next only when the client has taken that: a
client that stops reading costs what is under way, and goes on from the log later.

The time of `timeout` and `heartbeat` begins anew with every change that the feed is woken by. That is every change of the
database, but for a filter of which the change's key or fields alone say that it does not pass.

A page that is asked for, and never waits, is made at once: `whole`.

Rule of this file: when something is said. What is said is in `formats`, and which changes there are in the dialect.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from reactdb.errors import ReactDBError
from reactdb.servers.http.formats import FORMATS
from reactdb.servers.http.request_parts import RequestRefused
from reactdb.servers.http.speaking import Run
from reactdb.servers.http.waking import LoopWaiter

__all__ = ["CountingRows", "FeedStream", "ToldRows", "Waiting", "whole"]

T = TypeVar("T")
MOST_ROWS: Final = 500
CHUNK_BYTES: Final = 16 * 1024
"""About as much is read, and sent, at a time: what a client that stops reading costs."""
FIRST_DOCUMENTS: Final = 1
"""Rows with documents that are read at first, when it is not known how large they are: a client that reads none costs one."""


class ToldRows(Protocol):
    """What a feed of the dialect has. `pending` None: it counts nothing."""

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
    """Those that say how many are pending."""

    @property
    def pending(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """How a request for changes waits.

    Attributes:
        feed: One of `FORMATS`.
        limit: Rows after which it ends, or None.
        descending: It never waits.
        heartbeat_s: Seconds between two signs of life, or None; then it ends after `timeout_s`.
        timeout_s: Seconds without a change after which it ends.
        has_documents: Its rows may be large.
        tells_seqs: A heartbeat tells the position, where that has moved since, and the format has a way to.
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
        """Whether the answer is some kilobytes that are there now."""
        is_small = self.limit is not None and self.limit <= MOST_ROWS and not self.has_documents
        return self.feed == "normal" and is_small


def whole(rows: ToldRows, waiting: Waiting) -> bytes:
    """The bytes of an answer that `is_short`."""
    shape = FORMATS[waiting.feed]()
    pieces = [shape.head]
    left = waiting.limit or 0
    while left > 0 and (found := rows.rows(left)):
        left -= len(found)
        pieces += map(shape.row, found)
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
            # The database was deleted, or its history is gone: what was told stays told, and the client asks again.
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
            found: list[dict[str, Any]] = []
            async for found_or_none in self._found():
                if found_or_none is None:
                    yield self._beat()
                else:
                    found = found_or_none
            if found:
                self._told_seq = found[-1]["seq"]
                yield prefix + self._packed(found)
                prefix, self._is_beat_due = b"", False
                continue
            if self._is_beat_due:
                yield self._beat()
            elif prefix:
                # The filter rejected what has woken it.
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
                    # A client sees that it is heard.
                    yield self._format.waiting
                self._rows.on_ready(self._wake)
            async for beat in self._beats():
                yield beat
            # Its time is over: it looks once more, because changes that cannot pass its filter have not woken it.
            is_last = self._is_ending or not self._changed.is_set()
            if is_last:
                continue
            prefix = b"" if waiting.feed == "eventsource" else self._format.waiting
        yield self._format.tail(self._rows.last_seq, await self._run(self._pending))

    def _packed(self, found: list[dict[str, Any]]) -> bytes:
        """The bytes of rows, which the list gives up: what a client does not take is held once."""
        self._sent += len(found)
        chunk = b"".join(map(self._format.row, found))
        self._batch = min(MOST_ROWS, max(1, CHUNK_BYTES * len(found) // len(chunk)))
        found.clear()
        return chunk

    def _is_over(self) -> bool:
        limit = self._waiting.limit
        if limit is None or self._sent < limit:
            return False
        # As in CouchDB, a long poll that may tell nothing waits nevertheless.
        return not (self._waiting.feed == "longpoll" and limit == 0 and not self._waiting.descending)

    async def _found(self) -> AsyncIterator[list[dict[str, Any]] | None]:
        """The next rows; before them None for each heartbeat that is due while they are searched for."""
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
        """Wait until something has changed or the time is over; a heartbeat each time that one is due."""
        waiting = self._waiting
        while not self._changed.is_set():
            try:
                async with asyncio.timeout(waiting.heartbeat_s or waiting.timeout_s):
                    await self._changed.wait()
            except TimeoutError:
                if waiting.heartbeat_s is None:
                    return
                if waiting.tells_seqs:
                    # What the filter's hash has kept from waking it is read first, because the position is past that.
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
