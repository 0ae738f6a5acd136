"""Teller: what is ready to be told, told by one at a time, in the order in which it became ready.

    is_ready     under the publish lock, or anywhere: to the end of the line
    drain        after every commit, without any lock: until the line is empty

What a subscriber writes while it is told gets in line behind what is being told.

Rule of this file: whoever comes second leaves again, and what was interrupted is still first in line.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol


class Told(Protocol):
    """Somebody who has something to tell, outside of any lock."""

    def run(self) -> None: ...


class Teller:
    """See the head of this file. Thread safety: any thread; a deque needs no lock.

    Attributes:
        ready: The line.
    """

    __slots__ = ("_held", "_mutex", "is_ready", "ready")

    def __init__(self) -> None:
        self.ready: deque[Told] = deque()
        self._mutex = threading.Lock()
        # Held as long as somebody tells: see `claim`.
        self._held = threading.Lock()
        # It has something to tell, at the next drain.
        self.is_ready = self.ready.append

    def drain(self) -> None:
        """Tell all that is ready. Returns at once where somebody is telling already, this thread or another: it will be told
        there."""
        ready = self.ready
        while ready:
            mine = threading.Lock()
            with mine:
                # As `Claim.take`.
                with self._mutex:
                    if self._held.locked():
                        return
                    self._held = mine
                # Nobody else takes any away. It is taken away last: interrupted, what it had to tell is still to be told.
                while ready:
                    ready[0].run()
                    if ready:
                        # Not in a forked child, which has none.
                        del ready[0]

    def abandon(self) -> None:
        """In a forked child: nobody is told."""
        self._mutex = threading.Lock()
        self._held = threading.Lock()
        self.ready.clear()
