"""Limits: how much a client may use of a server, before and after it is let in.

Rule of this file: numbers with their reasons. `connection` enforces them, and the budget of a query what is said of queries.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from reactdb.errors import InvalidOption, shown

__all__ = ["Limits"]

MAY_BE_ZERO: Final = frozenset(("query_s", "query_bytes", "stop_s"))


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server allows.

    Attributes:
        message_bytes: The size of one request, and of what a client may have sent ahead while a request is carried out. RethinkDB
            has the same limit. Decoded, JSON takes up to twenty times as much.
        connections: How many at a time. A further client gets an error and is disconnected; where there is TLS, it is only
            disconnected.
        strangers: How many of them may be strangers: connections whose client has not been let in yet. For one more, the stranger
            is disconnected that has sent nothing for the longest time.
        handshake_s: Seconds from connecting until the client is let in, however slowly its bytes come. A client of MongoDB's
            protocol that has to prove who it is, and has not, has this time again after each answer.
        message_s: Seconds from the first byte of a request to its last. A connection without any may stay silent for ever: a feed
            does.
        write_s: Seconds that a client may read nothing while data waits to be sent to it.
        query_s: Seconds that one request may be evaluated: a query, or a further batch of a stream. 0 for no limit. A feed that
            waits evaluates nothing, so it may wait for ever.
        query_bytes: Memory that one request may fill while it is evaluated. 0 for no limit. It is measured on Linux only.
        queries: Requests that are evaluated at a time, each in a thread; others are queued. Python runs one thread at a time, so
            more threads make nothing quicker, but they let short queries pass long ones.
        streams: Open cursors and feeds of one connection. A feed takes about 10 kB and the contents of its queue.
        stop_s: Seconds that a server which is stopped waits for requests that it has received, and for clients to read their
            answers. 0 to wait for nothing.

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
                raise InvalidOption(f"the limit {field.name} is a number {least}, not {shown(value)}")
