"""What an application needs of the language that it speaks: which function answers a request, and how a refusal is told.

    Route        a function with what it needs of the body, whether it writes, and whether strangers may call it
    Speaker      finds the route, calls it, and makes an answer of an error
    Opened       an answer that is streamed while time passes
    Deferred     an answer that there may be only later

CouchDB's are in `routing`, Aidbox's in `resourcing`.

Rule of this file: shapes, no bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

from reactdb.servers.http.request_parts import Asking
from reactdb.servers.http.responses import Answer
from reactdb.servers.http.sessions import Authenticator

__all__ = ["ADMIT", "Bodies", "Closable", "Deferred", "Opened", "Route", "Run", "Speaker", "Stream"]

Run = Callable[..., Awaitable[Any]]
"""Calls a function in a thread."""


ADMIT: Final = "reactdb.admit"
"""The name, in a request's state, of what is called when its client may ask what it asks. Our own server has it."""


class Bodies(Enum):
    """What happens to a request's body before the function is called."""

    NONE = "not read"
    WHOLE = "read into memory"
    SPOOLED = "put into a temporary file"


@dataclass(frozen=True, slots=True)
class Route:
    """See the head of this file.

    Attributes:
        answer: Called in a thread, with the service and the request; gives an Answer, an Opened or a Deferred.
        bodies: What it needs of the body.
        writes: Refused where the server only reads.
        is_public: Also for whom has not said who they are.
    """

    answer: Callable[[Any, Asking], Any]
    bodies: Bodies = Bodies.NONE
    writes: bool = False
    is_public: bool = False


class Stream(Protocol):
    """Bytes that come while time passes."""

    @property
    def content_type(self) -> str: ...

    def chunks(self) -> AsyncIterator[bytes]: ...

    def end(self) -> None:
        """Let it end early, with its last bytes. Called on the loop."""
        ...


class Opened(Protocol):
    """An answer that is streamed: made in a thread, streamed on the loop, closed when it is over."""

    @property
    def headers(self) -> dict[str, str]: ...

    def stream(self, run: Run) -> Stream: ...

    def close(self) -> None: ...


class Closable(Protocol):
    def close(self) -> object: ...


@dataclass(slots=True)
class Deferred:
    """An answer that there may be only later: a long poll.

    Attributes:
        again: Called in a thread whenever something may have changed. None: there is no answer yet.
        late: The answer when the time is over.
        watch: Given what to call when something has changed; gives what is closed in the end.
        seconds: How long it may take.
    """

    again: Callable[[], Answer | None]
    late: Answer
    watch: Callable[[Callable[[], None]], Closable]
    seconds: float


class Speaker(Protocol):
    """See the head of this file."""

    authenticator: Authenticator

    def route(self, method: str, parts: list[str], headers: Mapping[str, str]) -> Route:
        """Raises: what `error_of` knows."""
        ...

    def call(self, route: Route, asking: Asking) -> Answer | Opened | Deferred:
        """Called in a thread, within a budget."""
        ...

    def error_of(self, error: BaseException) -> Answer: ...
