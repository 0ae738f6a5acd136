"""Sampling: which machine code was running, and which Python function had called it.

Linux counts the CPU time of this process and, for every 500 µs of it, records the address of the instruction that is
being executed (`perf_event_open` with the software clock, which needs no special processor). The address shows whose machine code
it is: the kernel's, SQLite's, msgpack's, the interpreter's, the C library's. Each record also sends a signal. Python's handler
runs before the interpreter does anything else, and adds the function that it interrupts. So function calls cost nothing
extra, as they do in a tracing profiler, and time within C is seen.

Its limits: the handler runs when a call into C has returned, or at the next call or loop iteration. So the work of a
function after its last call is attributed to its caller, and its work before a call to the called function. Libraries are
exact; neighbouring functions are off by some per cent. The C library works for all of them and does not show for which.

Rule of this file: nothing about databases or benchmarks.
"""

from __future__ import annotations

import bisect
import ctypes
import fcntl
import mmap
import os
import signal
import struct
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

PERIOD_NS = 500_000

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
SOFTWARE, TASK_CLOCK = 1, 1
SAMPLE_IP, SAMPLE_TID = 1, 2
ATTRIBUTE = struct.Struct("<IIQQQQQI")
ATTRIBUTE_BYTES = 112
DISABLED, INHERIT, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
ENABLE, DISABLE = 0x2400, 0x2401
F_SETSIG, F_SETOWN_EX, F_OWNER_TID = 10, 15, 0
HEAD, TAIL = 1024, 1032
HEADER = struct.Struct("<IHH")
SAMPLE = struct.Struct("<QII")
IS_SAMPLE, IS_KERNEL, MODE = 9, 1, 7

SYSTEM = "system"
"""The library of what the kernel does."""

NO_CODE = None
"""The function of what other threads than the main one do, whose frames no handler sees."""


class CannotSample(Exception):
    """The system does not let this process look at itself."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What was found.

    Attributes:
        counts: (file of the machine code, code object of the Python function) to samples.
        with_system: Whether the kernel was seen too; otherwise only what runs outside of it.
    """

    counts: Counter[tuple[str, CodeType | None]]
    with_system: bool


class Ring:
    """The notes of one processor, in a buffer that the kernel writes into."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        page = mmap.PAGESIZE
        # 16 MiB hold half a million notes; who may not lock so much memory gets what is allowed.
        for pages in (4096, 256, 64, 8):
            try:
                self.memory = mmap.mmap(handle, (1 + pages) * page, mmap.MAP_SHARED)
            except OSError:
                continue
            self.size = pages * page
            self.start = page
            return
        raise CannotSample("there is no memory for samples")

    def take(self) -> list[tuple[bool, int, int]]:
        """(in the kernel, address, thread) of the notes since the last time."""
        (head,) = struct.unpack_from("<Q", self.memory, HEAD)
        (tail,) = struct.unpack_from("<Q", self.memory, TAIL)
        found = []
        while tail < head:
            kind, misc, size = HEADER.unpack(self.read(tail, HEADER.size))
            if kind == IS_SAMPLE:
                address, _, thread = SAMPLE.unpack(self.read(tail + HEADER.size, SAMPLE.size))
                found.append((misc & MODE == IS_KERNEL, address, thread))
            tail += size
        struct.pack_into("<Q", self.memory, TAIL, head)
        return found

    def read(self, position: int, count: int) -> bytes:
        place = position % self.size
        found = self.memory[self.start + place : self.start + min(place + count, self.size)]
        return found + self.memory[self.start : self.start + count - len(found)]

    def close(self) -> None:
        self.memory.close()
        os.close(self.handle)


class Sampler:
    """Counts samples between `start` and `stop`, which may come many times. The main thread's; threads that are begun later
    are counted, without their functions.

    Args:
        is_passed_over: Functions that are counted to who has called them, by way of C: those that C calls for no reason but to
            let Python hear signals.
    """

    def __init__(self, is_passed_over: Callable[[CodeType], bool] = lambda code: False) -> None:
        self.is_passed_over = is_passed_over
        self.counts: Counter[tuple[bool, int, CodeType | None]] = Counter()
        self.with_system = True
        self.is_busy = False
        self.main = threading.get_native_id()
        self.rings: list[Ring] = []
        for cpu in range(os.cpu_count() or 1):
            self.rings.append(Ring(self.open(cpu)))
        self.before: object = signal.signal(signal.SIGIO, self.on_signal)
        signal.siginterrupt(signal.SIGIO, False)

    def open(self, cpu: int) -> int:
        number = PERF_EVENT_OPEN.get(os.uname().machine)
        if os.uname().sysname != "Linux" or number is None:
            raise CannotSample("samples are taken by Linux, on x86_64 or aarch64")
        syscall = ctypes.CDLL(None, use_errno=True).syscall
        while True:
            attribute = ctypes.create_string_buffer(ATTRIBUTE_BYTES)
            flags = DISABLED | INHERIT | EXCLUDE_HYPERVISOR | (0 if self.with_system else EXCLUDE_KERNEL)
            ATTRIBUTE.pack_into(
                attribute,
                0,
                SOFTWARE,
                ATTRIBUTE_BYTES,
                TASK_CLOCK,
                PERIOD_NS,
                SAMPLE_IP | SAMPLE_TID,
                0,
                flags,
                1,
            )
            handle: int = syscall(number, attribute, 0, cpu, -1, 0)
            if handle >= 0:
                break
            if not self.with_system:
                reason = os.strerror(ctypes.get_errno())
                raise CannotSample(f"perf_event_open: {reason}; see /proc/sys/kernel/perf_event_paranoid")
            self.with_system = False
        fcntl.fcntl(handle, F_SETSIG, signal.SIGIO)
        fcntl.fcntl(handle, F_SETOWN_EX, struct.pack("ii", F_OWNER_TID, self.main))
        fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
        return handle

    def start(self) -> None:
        self.count(ENABLE)

    def stop(self) -> None:
        self.count(DISABLE)
        self.take(NO_CODE)

    def count(self, command: int) -> None:
        for ring in self.rings:
            fcntl.ioctl(ring.handle, command, 0)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.is_busy:
            return
        self.is_busy = True
        self.take(self.function(frame))
        # What has been noted in the meantime is what this function did, which is not what is looked at.
        for ring in self.rings:
            ring.take()
        self.is_busy = False

    def function(self, frame: FrameType | None) -> CodeType | None:
        """What is being executed; its caller where it is nobody's source (dataclasses make such) or is passed over."""
        while frame is not None and (frame.f_code.co_filename[0] == "<" or self.is_passed_over(frame.f_code)):
            frame = frame.f_back
        return None if frame is None else frame.f_code

    def take(self, code: CodeType | None) -> None:
        """What has been noted since the last time happened in this function, or in what it called in C."""
        for ring in self.rings:
            for is_kernel, address, thread in ring.take():
                self.counts[is_kernel, address, code if thread == self.main else NO_CODE] += 1

    def close(self) -> Sampled:
        """What was found. Nothing can be started after it."""
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        for ring in self.rings:
            ring.close()
        library_of = libraries()
        found: Counter[tuple[str, CodeType | None]] = Counter()
        for (is_kernel, address, code), count in self.counts.items():
            if code is not None and code.co_filename == __file__:
                continue
            found[SYSTEM if is_kernel else library_of(address), code] += count
        return Sampled(found, self.with_system)


def libraries() -> Callable[[int], str]:
    """Which file the machine code at an address comes from, by its name without the folder."""
    spans = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _permissions, _offset, _device, _inode, *name = line.split(maxsplit=5)
        first, _, last = span.partition("-")
        spans.append((int(first, 16), int(last, 16), Path(name[0]).name if name else "?"))
    spans.sort()
    starts = [first for first, _, _ in spans]

    def library_of(address: int) -> str:
        place = bisect.bisect_right(starts, address) - 1
        if place < 0 or address >= spans[place][1]:
            return "?"
        return spans[place][2]

    return library_of
