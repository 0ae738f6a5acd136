"""The interface between an application and its dialect: the function for a request, and the form of an error.

    Route        a function, its kind of body, whether it writes, and whether strangers may call it
    Speaker      finds the route, calls it, and makes an answer of an error
    Opened       an answer that is streamed over time
    Deferred     an answer that may come later

CouchDB's are in `servers.couchdb.routes`, Aidbox's in `servers.aidbox.routes`.

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
"""The name, in a request's state, of the hook for an authenticated client. Our own server has it."""


class Bodies(Enum):
    """The treatment of a request's body before the function is called."""

    NONE = "not read"
    WHOLE = "read into memory"
    SPOOLED = "put into a temporary file"


@dataclass(frozen=True, slots=True)
class Route:
    """See the head of this file.

    Attributes:
        answer: Called in a thread, with the service and the request; returns an Answer, an Opened or a Deferred.
        bodies: The kind of body that it needs.
        writes: Refused if the server only reads.
        is_public: Also for clients without authentication.
    """

    answer: Callable[[Any, Asking], Any]
    bodies: Bodies = Bodies.NONE
    writes: bool = False
    is_public: bool = False


class Stream(Protocol):
    """Bytes over time."""

    @property
    def content_type(self) -> str: ...

    def chunks(self) -> AsyncIterator[bytes]: ...

    def end(self) -> None:
        """Let it end early, with its last bytes. Called on the loop."""
        ...


class Opened(Protocol):
    """An answer that is streamed: made in a thread, streamed on the loop, closed at its end."""

    @property
    def headers(self) -> dict[str, str]: ...

    def stream(self, run: Run) -> Stream: ...

    def close(self) -> None: ...


class Closable(Protocol):
    def close(self) -> object: ...


@dataclass(slots=True)
class Deferred:
    """An answer that may come later: a long poll.

    Attributes:
        again: Called in a thread whenever something may have changed. None: there is no answer yet.
        late: The answer at the end of the time.
        watch: Takes a callback for changes; returns an object to close at the end.
        seconds: The longest wait.
    """

    again: Callable[[], Answer | None]
    late: Answer
    watch: Callable[[Callable[[], None]], Closable]
    seconds: float


class Speaker(Protocol):
    """See the head of this file."""

    authenticator: Authenticator

    def route(self, method: str, parts: list[str], headers: Mapping[str, str]) -> Route:
        """Raises: errors for `error_of`."""
        ...

    def call(self, route: Route, asking: Asking) -> Answer | Opened | Deferred:
        """Called in a thread, within a budget."""
        ...

    def error_of(self, error: BaseException) -> Answer: ...
