"""ThreadCall: one function call in a thread, awaited by a task of asyncio.

A cancelled task must know what its call has done. So a call that has not begun is taken back, and is never made. A call that
has begun is awaited to its end, and then the task gets its CancelledError. It gets one, however often it was cancelled
meanwhile, and asyncio's own count of cancellations is left alone: `asyncio.timeout` and `TaskGroup` need it.

Rule of this file: it knows nothing of databases.
"""

from __future__ import annotations

import sys
from asyncio import AbstractEventLoop, CancelledError, Future, get_running_loop
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import get_ident
from typing import Any, Generic, Protocol, TypeVar

from reactdb.call_stack import called_from, find_calling_line
from reactdb.errors import UsageError

T = TypeVar("T")


class Callers(Protocol):
    """The interface of `Threads`, and of objects that are used in their place."""

    def run(self, work: Callable[[], object]) -> bool: ...

    def withdraw(self, work: Callable[[], object]) -> bool: ...


class ThreadsStopped(Exception):
    """A call was given to threads that have ended."""


class ThreadCall(Generic[T]):
    """See the head of this file. It is made, and awaited once, by the running task; `threads` calls it."""

    __slots__ = (
        "_error",
        "_function",
        "_is_done",
        "_line",
        "_loop",
        "_result",
        "_thread",
        "_threads",
        "_waiting",
    )

    def __init__(self, function: Callable[[], T], threads: Callers) -> None:
        self._loop: AbstractEventLoop = find_loop()
        self._line = find_calling_line()
        self._function: Callable[[], T] | None = function
        self._threads = threads
        self._thread = get_ident()
        self._waiting: Future[None] | None = None
        self._is_done = False
        self._result: Any = None
        self._error: BaseException | None = None

    def __call__(self) -> None:
        """Make the call. In a thread."""
        function, self._function = self._function, None
        assert function is not None
        try:
            with called_from(self._line):
                self._result = function()
        except BaseException as error:
            # Whatever it is, it belongs to the task.
            self._error = error
        # The function may refer to large arguments.
        del function
        self._is_done = True
        if self._waiting is None and get_ident() == self._thread:
            # It was made at once.
            return
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            # The loop was closed, and no task awaits this.
            pass

    def _wake(self) -> None:
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def outcome(self, *, is_left_alone: bool = False, is_certain: bool = False) -> T:
        """Have it called, and wait for the result.

        Args:
            is_left_alone: A cancelled task does not wait for the end of a call that has begun. The caller cleans up.
            is_certain: The call is made even if the task is cancelled before it has begun.

        Raises:
            CancelledError: The task was cancelled; the call was never made, or is done.
            ThreadsStopped: The threads make no calls any more.
            BaseException: The error of the call.
        """
        if not self._threads.run(self):
            raise ThreadsStopped
        try:
            await self._wait()
        except BaseException as error:
            # GeneratorExit: the coroutine is dropped, and must not wait.
            if not is_certain and self._threads.withdraw(self):
                raise
            if is_left_alone or not isinstance(error, CancelledError):
                raise
            await self._wait_cancelled()
            raise
        failure, self._error = self._error, None
        if failure is None:
            return self._result  # type: ignore[no-any-return]
        try:
            raise failure
        finally:
            # The error keeps this frame.
            del failure, self

    async def _wait(self) -> None:
        while not self._is_done:
            self._waiting = self._loop.create_future()
            if not self._is_done:
                await self._waiting

    async def _wait_cancelled(self) -> None:
        """Wait to the end of the call. A further cancellation changes nothing: the task ends with the first."""
        with shield():
            while not self._is_done:
                try:
                    await self._wait()
                except CancelledError:
                    continue


def find_loop() -> AbstractEventLoop:
    """The running loop of asyncio.

    Raises:
        UsageError: There is none.
    """
    try:
        return get_running_loop()
    except RuntimeError:
        raise UsageError(
            "an AsyncDatabase needs an event loop of asyncio, and Trio has another kind of loop: elsewhere use reactdb.connect"
        ) from None


def shield() -> AbstractContextManager[object]:
    """A block in which anyio does not cancel: a cancelled scope of anyio cancels its tasks again and again, until they end."""
    scope = getattr(sys.modules.get("anyio"), "CancelScope", None)
    return nullcontext() if scope is None else scope(shield=True)
