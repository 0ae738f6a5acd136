"""Limits: how much a client may use of a server, before and after its authentication.

Rule of this file: numbers with their reasons. `connection` enforces them, and the budget of a query the limits of queries.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from reactdb.errors import InvalidOption, format_value

__all__ = ["Limits"]

MAY_BE_ZERO: Final = frozenset(("query_s", "query_bytes", "stop_s"))


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one server.

    Attributes:
        message_bytes: The size of one request, and of the bytes that a client may send ahead while a request is executed.
            RethinkDB has the same limit. Decoded, JSON takes up to twenty times as much.
        connections: How many at a time. A further client gets an error and is disconnected; with TLS it is only disconnected.
        strangers: How many connections may be strangers: their clients are not authenticated yet. For a further stranger, the
            longest silent stranger is disconnected.
        handshake_s: Seconds from connecting until the client is authenticated, at any speed. A MongoDB client without the needed
            authentication has this time again after each answer.
        message_s: Seconds from the first byte of a request to its last. Between requests a connection may stay silent for ever,
            as a feed does.
        write_s: Seconds that a client may read nothing while data waits to be sent to it.
        query_s: Seconds of computing for one request: a query, or a further batch of a stream. 0 for no limit. A waiting feed
            computes nothing, so it may wait for ever.
        query_bytes: Memory that one request may fill while it is computed. 0 for no limit. It is measured on Linux only.
        queries: Requests that are computed at a time, each in a thread; others are queued. Python runs one thread at a time, so
            more threads make nothing faster, but short queries can pass long ones.
        streams: Open cursors and feeds of one connection. A feed takes about 10 kB and the contents of its queue.
        stop_s: Seconds that a stopping server waits for received requests, and for clients to read their answers. 0 to wait for
            nothing.

    Raises:
        InvalidOption: A limit is no number above zero; `query_s`, `query_bytes` and `stop_s` may be zero.
    """

    message_bytes: int = 64 * 1024 * 1024
    connections: int = 1_024
    strangers: int = 512
    handshake_s: float = 20.0
    message_s: float = 60.0
    write_s: float = 300.0
    query_s: float = 30.0
    query_bytes: int = 2 * 1024 * 1024 * 1024
    queries: int = 64
    streams: int = 10_000
    stop_s: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            allowed = (int, float) if field.name.endswith("_s") else int
            is_number = isinstance(value, allowed) and not isinstance(value, bool) and 0 <= value < 2**62
            if not is_number or (value == 0 and field.name not in MAY_BE_ZERO):
                least = "0 or more" if field.name in MAY_BE_ZERO else "above 0"
                raise InvalidOption(f"the limit {field.name} is a number {least}, not {format_value(value)}")
