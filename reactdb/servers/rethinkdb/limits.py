"""Limits: how much a client may use of the server, before and after it is authenticated.

Rule of this file: numbers with their reasons. `server` enforces them; the dialect bounds the memory of one query.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from reactdb.errors import InvalidOption, shown

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server allows.

    Attributes:
        message_bytes: The size of one request, and of all queued requests of a connection. RethinkDB has the same limit.
            Decoded, JSON takes up to twenty times as much.
        connections: How many at a time. A further client gets an error and is disconnected.
        handshake_s: Seconds from connecting to the end of the handshake, however slowly its bytes come.
        message_s: Seconds from the first byte of a request to its last. A connection without any may stay silent for ever: a feed
            does.
        write_s: Seconds that a client may read nothing while data waits to be sent to it.
        query_s: Seconds that one request may be evaluated: a query, or a further batch of a stream. 0 for no limit. A feed that
            waits evaluates nothing, so it may wait for ever.
        queries: Requests that are evaluated at a time, each in a thread; others are queued. Python runs one thread at a time, so
            more threads make nothing quicker, but they let short queries pass long ones.
        streams: Open cursors and feeds of one connection. A feed takes about 10 kB and the contents of its queue.

    Raises:
        InvalidOption: A limit is no number above zero; `query_s` may be zero.
    """

    message_bytes: int = 64 * 1024 * 1024
    connections: int = 1_024
    handshake_s: float = 20.0
    message_s: float = 60.0
    write_s: float = 300.0
    query_s: float = 30.0
    queries: int = 64
    streams: int = 10_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            allowed = (int, float) if field.name.endswith("_s") else int
            is_number = isinstance(value, allowed) and not isinstance(value, bool) and 0 <= value < 2**62
            if not is_number or (value == 0 and field.name != "query_s"):
                least = "0 or more" if field.name == "query_s" else "above 0"
                raise InvalidOption(f"the limit {field.name} is a number {least}, not {shown(value)}")
