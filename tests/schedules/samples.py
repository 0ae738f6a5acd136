"""Samples: small programs with known mistakes. The explorer must find them, or finding nothing elsewhere proves nothing.

Each has a scenario that is right and one that is wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Generator

from tests.schedules.explorer import Scenario, Threads

HERE = ("tests.schedules.samples",)


class Account:
    """A number that threads add to, with or without a lock."""

    def __init__(self, *, is_locked: bool) -> None:
        self.balance = 0
        self._lock = threading.Lock() if is_locked else None

    def add(self) -> None:
        if self._lock is not None:
            with self._lock:
                self._add()
        else:
            self._add()

    def _add(self) -> None:
        before = self.balance
        self.balance = before + 1


class Mailbox:
    """Something to hear of, and somebody who sleeps until it is there. It may look before it says that it sleeps, or after."""

    def __init__(self, *, looks_after: bool) -> None:
        self._looks_after = looks_after
        self._is_sleeping = False
        self._bell = threading.Event()
        self._letters: list[str] = []

    def put(self) -> None:
        self._letters.append("letter")
        if self._is_sleeping:
            self._bell.set()

    def take(self) -> None:
        if not self._looks_after and self._letters:
            return
        self._is_sleeping = True
        if self._looks_after and self._letters:
            return
        self._bell.wait()


def adding(is_locked: bool) -> Generator[Threads, None, None]:
    account = Account(is_locked=is_locked)
    yield [account.add, account.add]

    assert account.balance == 2, f"2 were added, {account.balance} are there"


def writing(looks_after: bool) -> Generator[Threads, None, None]:
    mailbox = Mailbox(looks_after=looks_after)
    yield [mailbox.put, mailbox.take]


def locking(is_ordered: bool) -> Generator[Threads, None, None]:
    locks = [threading.Lock(), threading.Lock()]

    def take(first: threading.Lock, second: threading.Lock) -> None:
        with first:
            is_both = second.acquire()
            assert is_both
            second.release()

    yield [
        lambda: take(locks[0], locks[1]),
        lambda: take(*(locks if is_ordered else reversed(locks))),
    ]


def waking(has_timeout: bool) -> Generator[Threads, None, None]:
    """A lost wake-up that a timeout hides: nobody hangs, but somebody sleeps for a while."""
    lock = threading.Lock()
    is_ready: list[bool] = []
    bell = threading.Event()

    def tell() -> None:
        with lock:
            is_ready.append(True)
        bell.set()

    def hear() -> None:
        while True:
            with lock:
                if is_ready:
                    return
            if has_timeout:
                bell.clear()
            bell.wait(0.5 if has_timeout else None)

    yield [tell, hear]


RIGHT = [
    Scenario("adding with a lock", lambda: adding(True), HERE),
    Scenario("sleeping after another look", lambda: writing(True), HERE),
    Scenario("two locks in one order", lambda: locking(True), HERE),
    Scenario("waking for good", lambda: waking(False), HERE),
]
WRONG = [
    Scenario("adding without a lock", lambda: adding(False), HERE),
    Scenario("sleeping after the only look", lambda: writing(False), HERE),
    Scenario("two locks in two orders", lambda: locking(False), HERE),
    Scenario("waking that is taken back", lambda: waking(True), HERE),
]
