"""Holders: the names of objects that hold something in a file for as long as they live, and whether one of them is
gone.

    host-1f2e3d4c/4711/5        the fifth holder of process 4711 on this machine, since it was started

A holder of this process is gone when it was closed or unreferenced. One of another process is gone when that process
no longer exists on this machine; of other machines, and where processes cannot be listed, nothing is known here.

Rule of this file: "gone" is said only of a holder that surely is. A number that another process uses by now counts as
living.
"""

from __future__ import annotations

import os
import socket
import sys
import weakref
from functools import cache
from itertools import count
from typing import Protocol
from zlib import crc32


class Holder(Protocol):
    """The object behind a name: the worker of a durable consumer, for example."""

    @property
    def is_alive(self) -> bool: ...


_numbers = count(1)
# Weakly: an unreferenced holder is gone.
_known: weakref.WeakValueDictionary[str, Holder] = weakref.WeakValueDictionary()


def name_holder(holder: Holder) -> str:
    """A new, unique name for a holder of this process."""
    name = f"{_machine()}/{os.getpid()}/{next(_numbers)}"
    _known[name] = holder
    return name


def is_gone(name: str) -> bool:
    """Whether the holder of this name is surely gone."""
    machine, _, rest = name.rpartition("/")[0].rpartition("/")
    if machine != _machine() or not rest.isdecimal():
        return False
    process = int(rest)
    if process == os.getpid():
        holder = _known.get(name)
        return holder is None or not holder.is_alive
    return not _is_running(process)


@cache
def _machine() -> str:
    """A name for this machine, this start of it, and this process's namespace of process ids. Each container has a
    namespace of its own."""
    parts = []
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            parts.append(file.read().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:
        # Not Linux: its name has to do. Two machines of one name that share a file take leases from each other, and
        # the fencing keeps the positions right.
        pass
    return f"{socket.gethostname()}-{crc32(' '.join(parts).encode()):08x}"


def _is_running(process: int) -> bool:
    if sys.platform == "win32":
        # `kill` would end it there.
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        # Another user's process.
        return True
    return True
