"""LoopWaiter: waits on the loop for changes, without a thread; the committing thread wakes it, or the server ends it.

Rule of this file: an event and a flag. `servers.couchdb.feed_stream`, `long_poll` and `servers.aidbox.event_streams` decide the
time of waiting.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["LoopWaiter"]


class LoopWaiter:
    """See the head of this file. Made on its own loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Set when something has changed, or when it has to end.
        self._changed = asyncio.Event()
        self._is_ending = False

    def end(self) -> None:
        """Called on the loop: a server that stops ends it as if its time were over."""
        self._is_ending = True
        self._changed.set()

    def _wake(self) -> None:
        """Called by the committing thread."""
        with suppress(RuntimeError):
            # The loop may be gone already.
            self._loop.call_soon_threadsafe(self._changed.set)
