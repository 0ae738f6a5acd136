"""LoopWaiter: what waits on the loop for changes, without a thread: woken by the thread that commits, or told to end.

Rule of this file: an event and a flag. Who waits for how long is `streaming`'s, `polling`'s and `event_streams`'s.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["LoopWaiter"]


class LoopWaiter:
    """See the head of this file. Made on the loop that it waits on."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Set when something has changed, or when it has to end.
        self._changed = asyncio.Event()
        self._is_ending = False

    def end(self) -> None:
        """Called on the loop: a server that stops lets it end as if its time were over."""
        self._is_ending = True
        self._changed.set()

    def _wake(self) -> None:
        """Called by the thread that has committed."""
        with suppress(RuntimeError):
            # The loop may be gone already.
            self._loop.call_soon_threadsafe(self._changed.set)
