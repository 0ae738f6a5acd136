"""Limits: how much a client may ask of the server, before it is known who it is and after.

Rule of this file: numbers with their reasons. Where they are kept is `server`; what one query may hold is bounded in the dialect.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from reactdb.errors import InvalidOption, shown

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server allows.

    Attributes:
        message_bytes: Of one request, and of all requests of a connection that wait for their turn. RethinkDB's own bound.
            Decoded, JSON takes up to twenty times as much.
        connections: How many at a time. A further client gets an error and is disconnected.
        handshake_s: Seconds from connecting to the end of the handshake, however slowly its bytes come.
        message_s: Seconds from the first byte of a request to its last. A connection without any may stay silent for ever: a feed
            does.
        write_s: Seconds that a client may read nothing while something waits to be sent to it.
        query_s: Seconds that one request may be evaluated: a query, or a further batch of a stream. 0 for as long as it likes. A
            feed that waits evaluates nothing, and may wait for ever.
        queries: Requests that are evaluated at a time, each in a thread; more wait for their turn. Python runs one of the threads
            at a time: more of them make nothing quicker, they let what is short pass what is long.
        streams: Open cursors and feeds of one connection. A feed costs about 10 kB, and what its queue holds.

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
