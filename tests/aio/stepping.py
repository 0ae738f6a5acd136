"""Cancellation at every place: a coroutine is run again and again, and cancelled where it is suspended for the n-th time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any

MOST_STEPS = 200


class CancelledAtStep:
    """Awaits a coroutine, and cancels the running task at its n-th suspension, counted from 1."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], step: int) -> None:
        self._coroutine = coroutine
        self._step = step

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._coroutine.__await__()
        steps = 0
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            try:
                waiting_for = inner.send(sent) if thrown is None else inner.throw(thrown)
            except StopIteration as end:
                return end.value
            steps += 1
            if steps == self._step:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                sent, thrown = (yield waiting_for), None
            except BaseException as error:
                thrown = error


async def is_cancelled_at(step: int, program: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
    """Run the program in a task of its own. False: it ended without being suspended so often."""

    async def main() -> None:
        await CancelledAtStep(program(), step)

    task = asyncio.create_task(main())
    try:
        await task
    except asyncio.CancelledError:
        assert task.cancelled()
        return True
    return False
