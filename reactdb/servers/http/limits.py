"""HTTPLimits: how much one client may use of an HTTP server.

Rule of this file: numbers with their reasons. `connections` enforces the limits of a head, and `application` the others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from reactdb.errors import InvalidOption, format_value

__all__ = ["HTTPLimits"]

MAY_BE_ZERO: Final = frozenset(("memory_bytes",))


@dataclass(frozen=True, slots=True)
class HTTPLimits:
    """The limits of one application. A compressed request counts with its unpacked size.

    Attributes:
        head_bytes: The size of a request's line and headers together.
        head_s: Seconds from connecting to the end of the first request's head, with the handshake of TLS, at any speed; and from
            the first byte of a later request to the end of its head.
        idle_s: Seconds that a connection may be silent between two requests.
        body_bytes: The size of a JSON request. Decoded it takes up to twenty times as much. PouchDB sends attachments inside of
            it, as base64.
        attachment_bytes: The size of an attachment's request, or of a document together with its attachments. It goes to a
            temporary file, so it takes no memory.
        body_s: Seconds for the whole body of a request to arrive.
        request_s: Seconds of computing for one request. A waiting feed computes nothing.
        memory_bytes: Memory that one request may fill while it is executed. 0 for no limit. It is measured on Linux only.
        write_s: Seconds that a client may read nothing while data waits to be sent to it.
        requests: Requests that are executed at a time, each in a thread; others are queued.
        feeds: Open feeds of `_changes`, of all clients together. One takes about 30 kB.

    Raises:
        InvalidOption: A limit is no number above zero; `memory_bytes` may be zero.
    """

    head_bytes: int = 16 * 1024
    head_s: float = 20.0
    idle_s: float = 5.0
    body_bytes: int = 64 * 1024 * 1024
    attachment_bytes: int = 1024 * 1024 * 1024
    body_s: float = 300.0
    request_s: float = 30.0
    memory_bytes: int = 2 * 1024 * 1024 * 1024
    write_s: float = 300.0
    requests: int = 16
    feeds: int = 20_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            allowed = (int, float) if field.name.endswith("_s") else int
            is_number = isinstance(value, allowed) and not isinstance(value, bool) and 0 <= value < 2**62
            if not is_number or (value == 0 and field.name not in MAY_BE_ZERO):
                least = "0 or more" if field.name in MAY_BE_ZERO else "above 0"
                raise InvalidOption(f"the limit {field.name} is a number {least}, not {format_value(value)}")
