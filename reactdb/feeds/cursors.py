"""Consumers that are asked: PullConsumer by a thread that waits, AsyncConsumer by a coroutine.

Both take one event at a time from the subscriptions' queues, so what is bounded there is bounded here; and both are woken once
for a burst, not once for an event.

Rule of this file: a wake-up may come in vain. Whoever wakes looks again, and whoever goes to sleep has looked after saying so.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reactdb.errors import ForkedDatabase, UsageError
from reactdb.feeds.bookmark import Bookmark, first_of
from reactdb.feeds.consumer import BaseConsumer
from reactdb.feeds.hearing import ENDED, NOTHING, Way
from reactdb.feeds.subscription import Subscription

if TYPE_CHECKING:
    import asyncio

# Events that a coroutine may take without giving others a chance to run.
EVENTS_WITHOUT_PAUSE = 64


class AskedConsumer(BaseConsumer):
    """What both share: the next event, if there is one."""

    __slots__ = ("_floor", "_out", "_turn")

    def __init__(self) -> None:
        super().__init__()
        self._out: deque[Any] | None = None
        # Where it stood before what is in `_out` was taken.
        self._floor = Bookmark(0)
        self._turn = threading.Lock()

    @property
    def way(self) -> Way:
        return "looking"

    @property
    def bookmark(self) -> Bookmark:
        # In this order: what is in `_out` by now was not told when this looked.
        found, floor = super().bookmark, self._floor
        if not self._out:
            return found
        return floor if len(self.members) < 2 else first_of((floor, found))

    def take(self) -> Any:
        """The next event; NOTHING where there is none now; ENDED after the last.

        Raises:
            ForkedDatabase: It was opened by the parent of this process. What it holds is the parent's to tell, and a thread
                that did not come along may hold its locks.
            Exception: What ended the feed, once.
        """
        if self.is_inherited:
            raise ForkedDatabase(
                "this cursor was opened before fork(), and what it has still to tell is for the parent; open it again in the "
                "child, from a database that reactdb.connect has opened there"
            )
        event = NOTHING
        try:
            with self._turn:
                event = self._take()
            return event  # noqa: RET504 - kept, to put it back
        except BaseException:
            if event is not NOTHING and event is not ENDED and self._out is not None:
                # Ctrl-C struck on the way out.
                self._out.appendleft(event)
            raise

    def _take(self) -> Any:
        while True:
            if self._out:
                # Not `popleft`: after a call, Ctrl-C may strike, and the event would be nowhere.
                event = self._out[0]
                del self._out[0]
                return event
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            if self.is_closed or not self.members:
                self.close()
                return ENDED
            try:
                if not self._look():
                    return NOTHING
            except Exception:
                raise
            except BaseException:
                self._interrupt()
                raise

    def _look(self) -> bool:
        """Take the next event through its terms to `_out`. False: there is none."""
        for member in self.members:
            if member.is_woken:
                member.rest()
        return any(map(self._look_along, self.lines))

    def _look_along(self, line: Sequence[Subscription]) -> bool:
        """The same among the members of one database."""
        is_in_line = len(line) > 1
        while (member := self.whose_turn(line) if is_in_line else line[0]) is not None:
            floor = member.bookmark if member.path else self._floor
            event = member.poll(is_in_line=is_in_line)
            if event is NOTHING:
                if is_in_line:
                    # How it begins is over, or what it had was nothing.
                    continue
                return False
            if event is ENDED:
                self._member_ended(member)
                return True
            self._floor = floor
            try:
                events = self._through_terms(member, event) if member.path else (event,)
            except Exception as error:
                self.error = error
                self.close()
                return True
            if self._out is None:
                self._out = deque(maxlen=None)
            self._out.extend(events)
            return True
        return False


class PullConsumer(AskedConsumer):
    """For `for change in feed` and cursors."""

    __slots__ = ("_condition", "_signal")

    def __init__(self) -> None:
        super().__init__()
        # Made by who waits first: it takes more room than all the rest.
        self._condition: threading.Condition | None = None
        # Another one at each wake-up. A flag would be taken down by one of several threads that wait, for all of them.
        self._signal = object()

    def wake(self, subscription: Subscription | None = None) -> None:
        # In this order: who makes the condition after it was looked for here looks for the signal after making it.
        self._signal = object()
        condition = self._condition
        if condition is not None:
            with condition:
                condition.notify_all()

    def close(self) -> None:
        super().close()
        # In a forked child nobody waits, and a thread that did not come along may hold the condition's lock.
        if not self.is_inherited:
            self.wake()

    def next(self, timeout_s: float | None) -> Any:
        """Wait for the next event.

        Raises:
            TimeoutError: None came within `timeout_s` seconds.
            StopIteration: The feed was closed or has completed.
            Exception: What ended the feed, once.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            signal = self._signal
            event = self.take()
            if event is ENDED:
                raise StopIteration
            if event is not NOTHING:
                return event
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                raise TimeoutError(f"the feed told nothing for {timeout_s:g} s")
            self._wait(signal, left_s)

    def _wait(self, signal: object, left_s: float | None) -> None:
        """Wait for a wake-up later than `signal`."""
        due_s = self.wait_s
        condition = self._condition
        if condition is None:
            with self._turn:
                # Re-entrant, because a finalizer may close the cursor while this very thread wakes it.
                condition = self._condition = self._condition or threading.Condition()
        with condition:
            if self._signal is signal:
                waits = [wait_s for wait_s in (left_s, due_s) if wait_s is not None]
                condition.wait(min(waits, default=None))


class AsyncConsumer(AskedConsumer):
    """For `async for`. Those who wait for it at one time, tasks that share a cursor, belong to one event loop."""

    __slots__ = ("_loop", "_taken", "_waiting")

    def __init__(self) -> None:
        super().__init__()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._taken = 0

    def wake(self, subscription: Subscription | None = None) -> None:
        loop = self._loop
        if loop is None or not self._waiting:
            # Nobody waits: it will look before it does.
            return
        try:
            loop.call_soon_threadsafe(self._wake_up)
        except RuntimeError:
            # The loop was closed under us.
            super().close()

    def _wake_up(self) -> None:
        # All of them: one is woken for a burst, and how many events are in it shows when they look.
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        super().close()
        self.wake()

    async def next(self) -> Any:
        """Wait for the next event.

        Raises:
            StopAsyncIteration: The feed was closed or has completed.
            Exception: What ended the feed, once.
        """
        self._taken += 1
        if self._taken % EVENTS_WITHOUT_PAUSE == 0:
            from asyncio import sleep

            await sleep(0)
        event = self.take()
        if event is NOTHING:
            event = await self._wait()
        if event is ENDED:
            raise StopAsyncIteration
        return event

    async def _wait(self) -> Any:
        from asyncio import get_running_loop

        loop = get_running_loop()
        if self._waiting and loop is not self._loop:
            raise UsageError("somebody waits for this cursor in another event loop; take one for each loop")
        self._loop = loop
        while True:
            future: asyncio.Future[None] = loop.create_future()
            self._waiting[future] = None
            timer: asyncio.TimerHandle | None = None
            try:
                # After saying that somebody waits, look once more.
                event = self.take()
                if event is not NOTHING:
                    return event
                due_s = self.wait_s
                if due_s is not None:
                    timer = loop.call_later(due_s, self._wake_up)
                await future
            finally:
                del self._waiting[future]
                if timer is not None:
                    timer.cancel()
