"""The test's side of the faults: builds the library that is preloaded, and sets and clears faults.

A process with faults is started with `environment(...)`; inside it, `Faults()` controls them.

Rule of this file: it knows calls, files and errors of the system, and nothing of databases.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("failing.c")

CALLS = {
    "open": 1,
    "read": 2,
    "write": 4,
    "short write": 8,
    "sync": 16,
    "truncate": 32,
    "lock": 64,
    "mmap": 128,
    "unlink": 256,
}
FILES = {"file": 1, "log": 2, "shm": 4, "journal": 8}
ALL_FILES = sum(FILES.values())


def why_not() -> str:
    """Why faults cannot be injected here; empty where they can."""
    if not sys.platform.startswith("linux"):
        return "faults are injected by LD_PRELOAD, which is Linux's"
    if shutil.which("cc") is None:
        return "there is no C compiler (cc) to build the library that fails"
    return ""


def build(folder: Path) -> Path:
    """Compile the library."""
    library = folder / "failing.so"
    subprocess.run(
        ["cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True
    )
    return library


class Control(ctypes.Structure):
    """Laid out as `struct control` in failing.c."""

    _fields_ = [
        ("armed", ctypes.c_int),
        ("calls", ctypes.c_int),
        ("files", ctypes.c_int),
        ("error", ctypes.c_int),
        ("sticky", ctypes.c_int),
        ("torn_fd", ctypes.c_int),
        ("nth", ctypes.c_long),
        ("thread", ctypes.c_long),
        ("seen", ctypes.c_long),
        ("fired", ctypes.c_long),
        ("sync_us", ctypes.c_long),
        ("clock_s", ctypes.c_long),
        ("folder", ctypes.c_char * 1024),
    ]


def environment(library: Path, control: Path) -> dict[str, str]:
    """For a child that is to suffer faults."""
    control.write_bytes(bytes(ctypes.sizeof(Control)))
    return {**os.environ, "LD_PRELOAD": str(library), "FAILING_CONTROL": str(control)}


@dataclass(frozen=True)
class Fault:
    """What is to fail: the `nth` call of a kind on the files named, once or from then on."""

    call: str
    error: int
    nth: int = 1
    is_sticky: bool = False
    files: tuple[str, ...] = tuple(FILES)

    def __str__(self) -> str:
        where = "" if len(self.files) == len(FILES) else " of " + "/".join(self.files)
        lasting = " and all that follow" if self.is_sticky else ""
        return f"{self.call} {self.nth}{where}{lasting}: {errno.errorcode[self.error]}"


class Faults:
    """The switchboard of this process, which was started with `environment`; or, where `control` is given, of all processes that
    were started with that file."""

    def __init__(self, folder: Path, control: Path | None = None) -> None:
        with open(control or os.environ["FAILING_CONTROL"], "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), ctypes.sizeof(Control))
        self.control = Control.from_buffer(self._memory)
        self.control.folder = os.fsencode(folder.resolve())

    def arm(self, fault: Fault, *, threads: str = "this") -> None:
        """From now on; in this thread, so that the count is the same every time, in "all", or in all "but this"."""
        control = self.control
        control.armed = 0
        control.calls = CALLS[fault.call]
        control.files = sum(FILES[name] for name in fault.files)
        control.error = fault.error
        control.sticky = fault.is_sticky
        control.nth = fault.nth
        control.thread = {"this": 1, "all": 0, "but this": -1}[threads] * threading.get_native_id()
        control.seen = control.fired = control.torn_fd = 0
        control.armed = 1

    def lift(self) -> int:
        """No more faults. How many calls failed."""
        self.control.armed = self.control.torn_fd = 0
        return int(self.control.fired)

    def slow_flushes(self, seconds: float) -> None:
        """From now on each flush takes so much longer; 0: no longer."""
        self.control.sync_us = round(seconds * 1e6)

    def set_clock(self, seconds: int) -> None:
        """The wall clock is so many seconds ahead of the machine's; below 0: behind it."""
        self.control.clock_s = seconds

    @contextmanager
    def during(self, fault: Fault, *, threads: str = "this") -> Iterator[None]:
        self.arm(fault, threads=threads)
        try:
            yield
        finally:
            self.lift()
