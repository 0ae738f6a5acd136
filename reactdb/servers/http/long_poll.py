"""LongPoll: an answer that may come later, without a thread in the meantime.

Rule of this file: the time of each new try. The `Deferred` does the work.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from reactdb.servers.http.loop_waiter import LoopWaiter
from reactdb.servers.http.protocol import Deferred, Run
from reactdb.servers.http.responses import Answer

__all__ = ["LongPoll"]


class LongPoll(LoopWaiter):
    """See the head of this file. `answer` is awaited once; `end` lets it end as if its time were over."""

    def __init__(self, deferred: Deferred, run: Run) -> None:
        super().__init__()
        self._deferred = deferred
        self._run = run

    async def answer(self) -> Answer:
        """The answer, as soon as there is one."""
        deferred = self._deferred
        watched = await self._run(deferred.watch, self._wake)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(deferred.seconds):
                    while True:
                        self._changed.clear()
                        if self._is_ending:
                            break
                        # The first try comes after the subscription, so that it finds changes in between.
                        answer: Answer | None = await self._run(deferred.again)
                        if answer is not None:
                            return answer
                        await self._changed.wait()
            return deferred.late
        finally:
            # Not in a thread: a cancelled task cannot wait for a thread.
            watched.close()
