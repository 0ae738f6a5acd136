"""Ctrl-C at every place of some work, one after the other: without a timer, so each place is struck.

Rule of this file: it strikes this thread. What must hold afterwards is the caller's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def struck_at(place: int, work: Callable[[], Any]) -> bool:
    """Raise KeyboardInterrupt at the `place`th point of the work where Python calls handlers of signals.

    The points are the beginning of each function in Python, and the return of each function in C.

    Returns: False if the work has fewer; then it was done.
    """
    left = place

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        if event in ("call", "c_return"):
            left -= 1
            if not left:
                sys.setprofile(None)
                raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    except (KeyboardInterrupt, RuntimeError):
        # An event of Python's own may raise RuntimeError instead, because it releases a lock that it does not have.
        if left:
            raise
        return True
    finally:
        sys.setprofile(before)
    return False
