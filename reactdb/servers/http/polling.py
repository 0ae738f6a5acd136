"""LongPoll: an answer that is waited for, and holds no thread meanwhile.

Rule of this file: when it looks again. What it looks at is the `Deferred`'s.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from reactdb.servers.http.responses import Answer
from reactdb.servers.http.speaking import Deferred, Run
from reactdb.servers.http.waking import LoopWaiter

__all__ = ["LongPoll"]


class LongPoll(LoopWaiter):
    """See the head of this file. `answer` is awaited once; `end` lets it end as if its time were over."""

    def __init__(self, deferred: Deferred, run: Run) -> None:
        super().__init__()
        self._deferred = deferred
        self._run = run

    async def answer(self) -> Answer:
        """What there is as soon as something is."""
        deferred = self._deferred
        watched = await self._run(deferred.watch, self._wake)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(deferred.seconds):
                    while True:
                        self._changed.clear()
                        if self._is_ending:
                            break
                        # It looks after it has begun to watch: what came in between is found.
                        found: Answer | None = await self._run(deferred.again)
                        if found is not None:
                            return found
                        await self._changed.wait()
            return deferred.late
        finally:
            # Not in a thread: a task that is cancelled cannot wait for one.
            watched.close()
