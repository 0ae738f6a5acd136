"""Generated primary keys: UUID version 7 as strings, which sort by the time they were made.

Keys in order go to the end of the tree; random ones go everywhere in it and cost 2.5 times as much to insert. Source:
RFC 9562, section 5.7, with method 1 of 6.2 (a counter in the 12 bits after the milliseconds).
"""

from __future__ import annotations

import os
import threading
from weakref import WeakKeyDictionary

from reactdb.clock import SYSTEM, Clock, clock_in_force

_lock = threading.Lock()
_last = 0
# The newest number of each virtual clock: it has no order in common with the system's.
_last_of: WeakKeyDictionary[Clock, int] = WeakKeyDictionary()


def new_key() -> str:
    """A key like `0193d3a1-7c3e-7000-9d0c-4c1f7f8d1b2a`: later calls return greater ones. Its time is
    of the clock in force."""
    global _last
    clock = clock_in_force()
    # 48 bits of milliseconds and 12 of a counter as one number: a full counter borrows from the next millisecond.
    now = (clock.time_ns() // 1_000_000) << 12
    with _lock:
        if clock is SYSTEM:
            _last = now = max(now, _last + 1)
        else:
            _last_of[clock] = now = max(now, _last_of.get(clock, 0) + 1)
    tail = int.from_bytes(os.urandom(8), "big") & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
    text = f"{now >> 12:012x}7{now & 0xFFF:03x}{tail:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
