"""Work in several threads at once, and waiting for what another thread does.

Rule of this file: every wait has a bound.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# Nothing in the tests takes longer, even on a busy machine.
PATIENCE_S = 20.0
MAIN = threading.main_thread().name


def from_threads(count: int, work: Callable[[int], Any]) -> None:
    """Do the work in `count` threads at once, and wait for all of them."""
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work, number) for number in range(count)]:
            done.result(PATIENCE_S)


def wait_until(is_true: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    """Poll for something that another thread does without a signal; fails after the timeout."""
    end = time.monotonic() + timeout_s
    passed = threading.Event()
    while not is_true():
        assert time.monotonic() < end
        passed.wait(0.002)


def started(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Start a thread that does the work. Returns it with a list that will contain the result or the exception."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def in_thread(work: Callable[[], Any], timeout_s: float = 60) -> Any:
    """Do the work in a new thread, and return its result or raise its exception."""
    thread, outcome = started(work)
    thread.join(timeout_s)
    assert not thread.is_alive()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
