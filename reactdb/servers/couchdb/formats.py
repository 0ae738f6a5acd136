r"""The four formats of `_changes`: bytes of rows, of waiting, and of the end.

    format       head            row                              waiting  heartbeat            end
    -----------  --------------  -------------------------------  -------  -------------------  ---------------------------
    normal       {"results":[\n  the row, `,\r\n` between two     -        -                    \n],\n"last_seq":...}\n\n
    longpoll     the same        the same                         \n       \n                   the same
    continuous   -               the row, \n                      \n       \n                   {"last_seq":...}\n\n
    eventsource  -               data: the row\nid: its seq\n\n   \n       event: heartbeat...  \n

The rows of all formats are CouchDB's: `{"seq":...,"id":...,"changes":[...]}`. A position without a document is a row with the id
null in the last two formats; the other formats can send it only at the end.

Rule of this file: bytes. `feed_stream` decides the time.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.servers.http.responses import JSON, encode_json

__all__ = ["FORMATS", "ContinuousFormat", "EventFormat", "ResultsFormat"]


class ResultsFormat:
    """One JSON object, for `normal` and `longpoll`."""

    content_type: Final = JSON
    head: Final = b'{"results":[\n'
    waiting: Final = b"\n"
    heartbeat: Final = b"\n"

    def __init__(self) -> None:
        self._separator = b""

    def row(self, row: dict[str, Any]) -> bytes:
        line = self._separator + encode_json(row)
        self._separator = b",\r\n"
        return line

    def position(self, seq: Any) -> bytes:
        return self.heartbeat

    def tail(self, last_seq: Any, pending: int | None) -> bytes:
        return b"\n],\n" + end_of(last_seq, pending)[1:] + b"\n\n"


class ContinuousFormat:
    """A JSON object per line. A line may be empty, and the last line has no id."""

    content_type: Final = JSON
    head: Final = b""
    waiting: Final = b"\n"
    heartbeat: Final = b"\n"

    def row(self, row: dict[str, Any]) -> bytes:
        return encode_json(row) + b"\n"

    def position(self, seq: Any) -> bytes:
        return self.row(no_document(seq))

    def tail(self, last_seq: Any, pending: int | None) -> bytes:
        return end_of(last_seq, pending) + b"\n\n"


class EventFormat:
    """Server-sent events. A heartbeat has no id, so it does not move where a browser would go on."""

    content_type: Final = "text/event-stream"
    head: Final = b""
    waiting: Final = b"\n"
    heartbeat: Final = b"event: heartbeat\ndata: \n\n"

    def row(self, row: dict[str, Any]) -> bytes:
        return b"data: " + encode_json(row) + b"\nid: " + encode_json(row["seq"]) + b"\n\n"

    def position(self, seq: Any) -> bytes:
        return self.row(no_document(seq))

    def tail(self, last_seq: Any, pending: int | None) -> bytes:
        return b"\n"


def end_of(last_seq: Any, pending: int | None) -> bytes:
    """The end of a feed. Without a count, `pending` is left out."""
    end = {"last_seq": last_seq}
    return encode_json(end if pending is None else {**end, "pending": pending})


def no_document(seq: Any) -> dict[str, Any]:
    """A row with a position, and nothing else."""
    return {"seq": seq, "id": None, "changes": []}


FORMATS: Final[dict[str, type[ResultsFormat] | type[ContinuousFormat] | type[EventFormat]]] = {
    "normal": ResultsFormat,
    "longpoll": ResultsFormat,
    "continuous": ContinuousFormat,
    "live": ContinuousFormat,
    "eventsource": EventFormat,
}
