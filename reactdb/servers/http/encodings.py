"""Encodings: compressed bodies of requests, with `Content-Encoding: gzip`.

    is_packed(headers)         whether the body has to be unpacked
    most_packed(most)          how many bytes a compressed body may have if it unpacks to `most`
    unpack(asking, most)       replaces the body by the unpacked body

A body is unpacked and counted in the thread that executes the request. If a few kilobytes would become gigabytes, the body is
refused as soon as it is too large, and only as many bodies are unpacked at a time as requests are executed.

Rule of this file: bytes in, bytes out, for every dialect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, Final

from reactdb.dialects.couchdb.attachments import unzip
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.servers.http.request_parts import Asking, RequestRefused

__all__ = ["is_compressed", "most_compressed_bytes", "too_large", "unpack"]

GZIP: Final = ("gzip", "x-gzip")
PLAIN: Final = ("", "identity")
READ_BYTES: Final = 64 * 1024


def is_compressed(headers: Mapping[str, str]) -> bool:
    """
    Raises:
        RequestRefused: 415, the body has another encoding than gzip, or was compressed twice.
    """
    header = headers.get("content-encoding", "")
    codings = [coding for part in header.split(",") if (coding := part.strip().lower()) not in PLAIN]
    if len(codings) > 1 or any(coding not in GZIP for coding in codings):
        raise RequestRefused(415, "bad_content_type", f"{header} is not a supported content encoding.")
    return bool(codings)


def most_compressed_bytes(most: int) -> int:
    """Incompressible data grows by a few bytes in each block, and has gzip's head and its end."""
    return most + most // 1_024 + 1_024


def unpack(asking: Asking, most: int) -> None:
    """Replace a compressed body by the unpacked body. An empty body stays empty.

    Raises:
        RequestRefused: 400, it is not gzip, or cut off; 413, it has more than `most` bytes.
    """
    packed = asking.packed
    if packed is None:
        return
    has_bytes = packed.tell() > 0
    packed.seek(0)
    pieces = _limit_pieces(packed, most) if has_bytes else iter(())
    if asking.spool is None:
        asking.body = b"".join(pieces)
    else:
        for piece in pieces:
            asking.spool.write(piece)


def _limit_pieces(packed: IO[bytes], most: int) -> Iterator[bytes]:
    size = 0
    try:
        for piece in unzip(iter(lambda: packed.read(READ_BYTES), b"")):
            size += len(piece)
            if size > most:
                raise too_large(most)
            yield piece
    except CouchError:
        raise RequestRefused(400, "bad_request", "Request body is not properly gzipped.") from None


def too_large(most: int) -> RequestRefused:
    return RequestRefused(413, "too_large", f"the request entity is too large: at most {most} bytes")
