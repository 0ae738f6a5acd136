"""ScriptProcess: the process that runs JavaScript for this process; see `script_runner`. There is one for all functions.

A script may end it, or take too long. Then the other functions are only made again: each knows the process that it was made in.

Rule of this file: it knows messages, and nothing of design documents.
"""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, Final

import msgpack

from reactdb.budget import check
from reactdb.clock import monotonic

__all__ = [
    "Life",
    "ScriptFailed",
    "ScriptProcess",
    "ScriptsEnded",
    "ScriptsGone",
    "forget",
    "hold_within_budget",
    "new_number",
    "script_process",
]

Life = tuple[int, int]
"""One start of the process: the id of the parent process, and the number of its starts before."""

RUNNER: Final = Path(__file__).with_name("script_runner.py")

START_S: Final = 60.0
"""How long the process may take to start, on a busy machine."""

LOOK_S: Final = 0.1
"""How often a waiting thread checks its budget."""


class ScriptFailed(Exception):
    """QuickJS refused or ended a script; its words."""


class ScriptsEnded(Exception):
    """The process has ended, or was ended because no answer came in time; `is_late` then."""

    def __init__(self, *, is_late: bool) -> None:
        super().__init__(
            "no answer came in time" if is_late else "the process that runs JavaScript has ended"
        )
        self.is_late = is_late


class ScriptsGone(Exception):
    """The function was made in an earlier process."""


class ScriptProcess:
    """See the head of this file.

    Thread safety: any thread; one request at a time, others wait.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._dropped: deque[int] = deque()
        self._life: Life = (os.getpid(), 0)
        atexit.register(self.close)

    def drop(self, number: int) -> None:
        """Forget a function, with the next request. It takes no lock."""
        self._dropped.append(number)

    def request(self, within_s: float, *message: Any, life: Life | None = None) -> tuple[str, Life]:
        """Send a message, and wait `within_s` seconds for its answer. Returns: its text, and the life of the process.

        Args:
            life: The life of the process in which the function was made.

        Raises:
            ScriptFailed: QuickJS has refused it.
            ScriptsGone: That life is over; nothing was sent.
            ScriptsEnded: The process has ended during the request. The next request starts another process.
        """
        with hold_within_budget(self._lock):
            is_there = self._process is not None and self._process.poll() is None
            if life is not None and not (is_there and life == self._life):
                raise ScriptsGone
            if not is_there:
                self._start()
            try:
                dropped = [self._dropped.popleft() for _ in range(len(self._dropped))]
                if dropped:
                    self._send(["drop", dropped])
                self._send(list(message))
                is_done, text = self._receive(within_s)
            except BaseException:
                # Also after Ctrl-C: the next answer would belong to this request.
                self._end()
                raise
            now = self._life
        if not is_done:
            raise ScriptFailed(text)
        return text, now

    def close(self) -> None:
        """End the process. The next request starts another process."""
        process = self._process
        if process is None or self._life[0] != os.getpid():
            return
        # The thread that waits for an answer then gets an error.
        process.kill()
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._end()
        self._life = self._life[0], self._life[1] + 1
        # -P: the files beside the program are modules of this package, and not the program's own.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(RUNNER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._receive(START_S)
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:
                # Unread input is lost, as it should be.
                pass

    def _send(self, message: list[Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        packed = msgpack.packb(message, unicode_errors="surrogatepass")
        try:
            self._process.stdin.write(len(packed).to_bytes(4, "big") + packed)
            self._process.stdin.flush()
        except OSError:
            raise ScriptsEnded(is_late=False) from None

    def _receive(self, within_s: float) -> tuple[bool, str]:
        end = monotonic() + within_s
        length = int.from_bytes(self._read(4, end), "big")
        is_done, text = msgpack.unpackb(self._read(length, end), unicode_errors="surrogatepass")
        return is_done, text

    def _read(self, count: int, end: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        data = bytearray()
        while len(data) < count:
            # A cancelled request ends the process: nothing else ends the function.
            while not _is_readable(source, min(LOOK_S, end - monotonic())):
                if monotonic() >= end:
                    raise ScriptsEnded(is_late=True)
                check(may_sleep=False)
            piece = os.read(source, count - len(data))
            if not piece:
                raise ScriptsEnded(is_late=False)
            data += piece
        return bytes(data)


def _is_readable(source: int, within_s: float) -> bool:
    if not hasattr(select, "poll"):
        # Windows: a pipe can only be awaited by reading it, and QuickJS alone ends long calls.
        return True
    waiting = select.poll()
    waiting.register(source, select.POLLIN)
    return bool(waiting.poll(max(0.0, within_s) * 1_000))


@contextmanager
def hold_within_budget(lock: Lock) -> Iterator[None]:
    """The lock, held.

    Raises:
        Stopped: The budget is spent while another thread has it.
    """
    while not lock.acquire(timeout=LOOK_S):
        check()
    try:
        yield
    finally:
        lock.release()


_processes: dict[int, ScriptProcess] = {}
_numbers: Final = count(1)


def script_process() -> ScriptProcess:
    """This process's own: after a fork each side has its own."""
    return _processes.get(os.getpid()) or _processes.setdefault(os.getpid(), ScriptProcess())


def new_number() -> int:
    """A number that no function has had, also none from before a fork."""
    return next(_numbers)


def forget(number: int) -> None:
    """Drop a function without references. The garbage collector calls this: it takes no lock."""
    process = _processes.get(os.getpid())
    if process is not None:
        process.drop(number)
