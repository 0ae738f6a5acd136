"""Tailable cursors in the process: `find(cursor_type=CursorType.TAILABLE)` of a capped collection, with PyMongo's interface.

The iteration ends at the present end of the collection, and continues when there is more: the cursor is alive in between. A
cursor that awaits data (`TAILABLE_AWAIT`) waits for it first, a second by default, or `max_await_time_ms`.

Rule of this file: an insert during the wait ends the wait at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, Any, Final
from weakref import finalize

from reactdb.dialects.mongodb.embedded.errors import call
from reactdb.dialects.mongodb.tailable import Tail

if TYPE_CHECKING:
    from reactdb.dialects.mongodb.stream_waiters import StreamWakers

__all__ = ["AWAIT_S", "TailedDocuments"]

AWAIT_S: Final = 1.0
BATCH: Final = 100


class TailedDocuments:
    """The documents of a tail, as an iterator that continues after its end.

    Attributes:
        is_over: It cannot continue.
    """

    def __init__(self, tail: Tail | None, wakers: StreamWakers, wait_s: float) -> None:
        """`wait_s`: the longest wait if there is nothing; 0 for no wait."""
        self._tail = tail
        self._wait_s = wait_s
        self._read: deque[dict[str, Any]] = deque()
        self._moved = Event()
        self._end: Callable[[], object] | None = None
        if tail is not None and wait_s:
            listening = wakers.listen([tail.table_id], self._moved.set)
            # The garbage collector ends the wait of an abandoned cursor.
            self._end = finalize(self, listening.forget)
        self.is_over = tail is None

    def __iter__(self) -> TailedDocuments:
        return self

    def __next__(self) -> dict[str, Any]:
        if not self._fill() and self._wait_s and not self.is_over:
            self._moved.wait(self._wait_s)
            self._fill()
        if not self._read:
            raise StopIteration
        return self._read.popleft()

    def _fill(self) -> bool:
        if not self._read and self._tail is not None and not self.is_over:
            # Cleared before the read, so that no later insert is missed.
            self._moved.clear()
            self._read.extend(call(self._tail.batch, BATCH))
            # PyMongo sends no getMore for a cursor at its limit.
            self.is_over = self._tail.is_over or self._tail.is_at_limit
        return bool(self._read)

    def close(self) -> None:
        """Wait no more. A second call does nothing."""
        if self._end is not None:
            self._end()
