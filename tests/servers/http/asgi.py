"""An application that is asked without a socket, and a loop whose time passes at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


class JumpingSelector(selectors.DefaultSelector):
    """Where nothing but time would come, it passes at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found and timeout is not None:
            self.now += max(timeout, 1e-6)
        elif not found:
            found = super().select(None)
        return found


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.jumping = JumpingSelector()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now


def in_no_time(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop whose time passes at once. Nothing in it may wait for a thread."""
    loop = JumpingLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


@dataclass
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes = b""
    pieces: list[bytes] = field(default_factory=list)


async def asked(
    app: Any,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    root_path: str = "",
) -> Answered:
    """One request, whose client stays until the answer is whole."""
    raw_path, _, query = path.partition("?")
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    stays = asyncio.Event()
    sent: list[Any] = []

    async def receive() -> Any:
        if messages:
            return messages.pop(0)
        await stays.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "method": method,
        "scheme": "http",
        "path": raw_path,
        "raw_path": raw_path.encode(),
        "root_path": root_path,
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
        "server": ("testserver", 80),
        "client": ("testclient", 1),
    }
    await app(scope, receive, send)
    start, *rest = sent
    pieces = [message["body"] for message in rest]
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answered(start["status"], found, b"".join(pieces), pieces)
