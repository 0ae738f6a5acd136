"""RequestClient: the client of one request. When it disconnects, the work for it ends.

    client = RequestClient(receive, budget)
    client.watch()                       from here on a disconnect is noticed; it cancels the budget
    await client.until_gone(work)        the result of `work`, unless the client disconnects first
    client.close()

Rule of this file: it is called on the loop, and does not know the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from reactdb.budget import Budget

__all__ = ["RequestClient"]

T = TypeVar("T")


class RequestClient:
    """See the head of this file.

    Attributes:
        budget: The limits of the request. All threads that work for it spend this.
        is_gone: The client has disconnected.
    """

    def __init__(self, receive: Receive, budget: Budget) -> None:
        self.budget = budget
        self.is_gone = False
        self._receive = receive
        self._leaving: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Call it when the body has been read, because both are received from the same place."""
        if self._leaving is None:
            self._leaving = asyncio.ensure_future(self._leave())

    async def _leave(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_gone = True
        self.budget.cancel()

    def leave(self) -> None:
        """Give it up: from here on it counts as gone. After `watch`."""
        self.is_gone = True
        self.budget.cancel()
        if self._leaving is not None:
            self._leaving.cancel()

    async def until_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """
        Raises:
            ClientDisconnect: The client has gone before. `work` was cancelled.
        """
        assert self._leaving is not None
        working = asyncio.ensure_future(work)
        try:
            await asyncio.wait((working, self._leaving), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise ClientDisconnect
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError, TimeoutError, OSError):
                await asyncio.wait((working,))

    def close(self) -> None:
        """The request is over. A thread that still works for it ends soon."""
        self.budget.cancel()
        if self._leaving is not None:
            self._leaving.cancel()
