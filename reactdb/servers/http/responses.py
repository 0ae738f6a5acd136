"""Responses: the results of the functions that answer requests; `application` sends them.

    ok({"ok": True}, 201)          JSON in one line
    not_modified(etag)             304, if the client has it already
    rows_of(head, rows, tail)      JSON that is written while it is made
    error_of(error)                CouchDB's answer for an exception

Rule of this file: bytes and headers, no socket and no database.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from reactdb import errors
from reactdb.budget import STEP_BYTES, spend
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.json import quick_encode
from reactdb.servers.http.request_parts import RequestRefused

__all__ = [
    "JSON",
    "Answer",
    "encode_in_pieces",
    "encode_json",
    "error_of",
    "etag_of",
    "not_modified",
    "ok",
    "rows_of",
    "state_etag",
]

JSON: Final = "application/json"
SHORT: Final = 100
"""Elements of a list or an object that is encoded at once."""
logger = logging.getLogger(__name__)

_encode: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


@dataclass(slots=True)
class Answer:
    """A status, headers and a body: bytes, or pieces that a thread makes one after the other."""

    status: int = 200
    body: bytes | Iterable[bytes] = b""
    content_type: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


def encode_json(value: Any) -> bytes:
    """JSON. Half of a surrogate pair, which UTF-8 cannot encode, becomes an escape. So do characters that some clients take for a
    line's end: a feed's row has to be one line.
    """
    data = _json_bytes(value)
    if data.isascii():
        return data
    for character, escape in _LINE_ENDS:
        if character in data:
            data = data.replace(character, escape)
    return data


_LINE_ENDS: Final = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
"""The UTF-8 of Unicode's line ends that JSON leaves unchanged, and their escapes."""


def _json_bytes(value: Any) -> bytes:
    if quick_encode is not None:
        try:
            return quick_encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError):
            # For any other value `json` decides.
            pass
    text = _encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def encode_in_pieces(value: Any) -> bytes:
    """The same bytes, for a value that may be long: elements on the first two levels are encoded one after the other, and each
    spends the budget, because the encoder gives no other thread a turn."""
    return encode_json(value) if _is_short(value) else b"".join(_pieces_of(value))


def _is_short(value: Any) -> bool:
    if not isinstance(value, (dict, list)):
        return True
    if len(value) > SHORT:
        return False
    members = value.values() if isinstance(value, dict) else value
    return not any(isinstance(one, (dict, list)) and len(one) > SHORT for one in members)


def _pieces_of(value: Any) -> Iterator[bytes]:
    separator = b""
    if isinstance(value, dict):
        yield b"{"
        for name, member in value.items():
            yield separator + encode_json(name) + b":"
            yield from _element(member)
            separator = b","
        yield b"}"
    else:
        yield b"["
        for element in value:
            yield separator
            yield from _element(element)
            separator = b","
        yield b"]"


def _element(value: Any) -> Iterator[bytes]:
    if isinstance(value, (dict, list)) and len(value) > SHORT:
        yield from _pieces_of(value)
        return
    piece = encode_json(value)
    spend(1 + len(piece) // STEP_BYTES)
    yield piece


def ok(value: Any, status: int = 200, *, etag: str | None = None, **headers: str) -> Answer:
    """JSON and a line's end, as CouchDB has it."""
    lines = {name.replace("_", "-"): text for name, text in headers.items()}
    if etag is not None:
        lines["etag"] = etag
    return Answer(status, encode_in_pieces(value) + b"\n", JSON, lines)


def not_modified(etag: str) -> Answer:
    return Answer(304, b"", None, {"etag": etag})


def etag_of(rev: str) -> str:
    return f'"{rev}"'


def state_etag(*parts: object) -> str:
    """An ETag for the state that these values identify."""
    return f'"{hashlib.sha256(repr(parts).encode()).hexdigest()[:25].upper()}"'


def rows_of(head: str, rows: Iterable[Any], tail: str = "\r\n]}\n") -> Answer:
    """JSON with a list of rows, one a line. It is sent in pieces as they are made."""
    return Answer(200, _lines(head, rows, tail), JSON)


def _lines(head: str, rows: Iterable[Any], tail: str) -> Iterator[bytes]:
    pieces, size = [head.encode()], 0
    separator = b"\r\n"
    for row in rows:
        line = encode_json(row)
        spend(1 + len(line) // STEP_BYTES)
        pieces += (separator, line)
        separator, size = b",\r\n", size + len(line)
        if size >= 64 * 1024:
            yield b"".join(pieces)
            pieces, size = [], 0
    pieces.append(tail.encode())
    yield b"".join(pieces)


# The first matching class decides the answer.
STATUSES: Final[tuple[tuple[type[BaseException], int, str], ...]] = (
    (errors.ReadOnlyDatabase, 403, "forbidden"),
    (errors.TableNotFound, 404, "not_found"),
    (errors.InvalidName, 400, "illegal_database_name"),
    (errors.ResourceLimit, 413, "too_large"),
    (errors.UsageError, 400, "bad_request"),
    (errors.HistoryDiverged, 400, "bad_request"),
    (errors.HistoryLost, 400, "bad_request"),
    (errors.DatabaseBusy, 503, "service_unavailable"),
    (errors.DiskFull, 507, "insufficient_storage"),
    (errors.ReactDBError, 500, "internal_server_error"),
)


def error_of(error: BaseException) -> Answer:
    """The answer to a failed request. An unforeseen error is logged, and sent without its details."""
    if isinstance(error, CouchError):
        return ok({"error": error.error, "reason": error.reason}, error.status)
    if isinstance(error, RequestRefused):
        return ok({"error": error.word, "reason": error.sentence}, error.status)
    for kind, status, word in STATUSES:
        if isinstance(error, kind):
            return ok({"error": word, "reason": str(error)}, status)
    logger.error("a request failed", exc_info=error)
    return ok({"error": "unknown_error", "reason": type(error).__name__}, 500)
