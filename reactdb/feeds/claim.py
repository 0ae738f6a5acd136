"""Claim: who may tell, where nobody waits: whoever comes second leaves again.

A lock that is asked for without waiting cannot be taken by `with`, and Ctrl-C may strike after it was taken and before the
`try` that would give it back: then nobody would ever tell again. So each who asks brings a lock that it holds by `with`, which
is let go of whatever happens; a claim whose lock is free is over.
"""

from __future__ import annotations

import threading


class Claim:
    """Thread safety: any thread."""

    __slots__ = ("_held", "_mutex")

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held = threading.Lock()

    def take(self, mine: threading.Lock) -> bool:
        """Whether it is free, and the caller's from now on until it lets go of `mine`, which it holds."""
        with self._mutex:
            if self._held.locked():
                return False
            self._held = mine
            return True
