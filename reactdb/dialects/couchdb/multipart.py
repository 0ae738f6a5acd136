"""Multipart bodies: the parts of a body in a file, and the pieces of a body to send.

A document with its attachments comes as `multipart/related`: first the document, as JSON, in which some attachments have
`follows`, and then their bytes. Several revisions are sent as `multipart/mixed`, and each part may be `multipart/related`.

Rule of this file: RFC 2046, and of documents only how attachments follow them. No part is ever held in memory as a whole.
"""

from __future__ import annotations

import io
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, Any, Final, NamedTuple
from urllib.parse import quote

from reactdb.budget import CALL_STEPS, spend, spend_bytes
from reactdb.dialects.couchdb.attachments import DEFAULT_TYPE
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.headers import header_text

__all__ = [
    "BodyPart",
    "BodyPartReader",
    "Following",
    "RelatedBody",
    "boundary_of",
    "end_of",
    "new_boundary",
    "parameters_of_header",
    "part_head",
    "parts_in",
]

JSON: Final = "application/json"

BLOCK: Final = 256 * 1024
MOST_HEAD_BYTES: Final = 64 * 1024
MOST_PARTS: Final = 10_000
MOST_BOUNDARY_CHARACTERS: Final = 200
"""RFC 2046 allows 70."""


@dataclass(frozen=True, slots=True)
class BodyPart:
    """One part of a body in a file: its headers, in lower case, and the place of its content."""

    headers: Mapping[str, str]
    begin: int
    end: int

    def open(self, file: IO[bytes]) -> IO[bytes]:
        """A reader of the part's raw content. Several readers of one file are read one after the other."""
        return io.BufferedReader(BodyPartReader(file, self.begin, self.end), 64 * 1024)


class BodyPartReader(io.RawIOBase):
    """A stretch of a file, as a file of its own."""

    def __init__(self, file: IO[bytes], begin: int, end: int) -> None:
        self._file = file
        self._at = begin
        self._end = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._end - self._at)
        if count <= 0:
            return 0
        self._file.seek(self._at)
        data = self._file.read(count)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def boundary_of(content_type: str) -> bytes:
    """
    Raises:
        CouchError: 400, the header names no boundary.
    """
    boundary = parameters_of_header(content_type).get("boundary", "")
    if not boundary or not boundary.isascii() or len(boundary) > MOST_BOUNDARY_CHARACTERS:
        raise CouchError(400, "bad_request", "The content type names no boundary.")
    return boundary.encode("ascii")


def parameters_of_header(value: str) -> dict[str, str]:
    """The parameters of a header such as `multipart/related; boundary="x y"`, by name in lower case; the first of a name counts.

    Python's `email` and a regular expression take the square of the number of semicolons or quotes; this goes through once.
    """
    parameters: dict[str, str] = {}
    at = value.find(";")
    while at >= 0:
        equals = value.find("=", at)
        if equals < 0:
            break
        # A parameter without a value may stand before it.
        name = value[at + 1 : equals].rpartition(";")[2].strip().lower()
        start = equals + 1
        while value[start : start + 1] in (" ", "\t"):
            start += 1
        if value[start : start + 1] == '"':
            text, after = _read_quoted(value, start + 1)
            at = value.find(";", after)
        else:
            at = value.find(";", start)
            text = value[start : at if at >= 0 else len(value)].strip()
        parameters.setdefault(name, text)
    return parameters


def _read_quoted(value: str, start: int) -> tuple[str, int]:
    """(the text up to the next quotation mark, the place behind it). A backslash escapes the next character."""
    pieces: list[str] = []
    at = start
    while at < len(value) and value[at] != '"':
        at += value[at] == "\\"
        pieces.append(value[at : at + 1])
        at += 1
    return "".join(pieces), at + 1


def parts_in(file: IO[bytes], boundary: bytes) -> list[BodyPart]:
    """The parts of the body in a file.

    Raises:
        CouchError: 400, the body has no parts with this boundary, or is cut off.
    """
    marks = list(_marks(file, b"--" + boundary))
    if not marks or not marks[-1][2]:
        raise CouchError(400, "bad_request", "The multipart body is cut off.")
    parts = []
    for (_, begin, _), (end, _, _) in pairwise(marks):
        parts.append(_part(file, begin, end))
    return parts


def _marks(file: IO[bytes], mark: bytes) -> Iterator[tuple[int, int, bool]]:
    """Each boundary: the end of the part before it, the begin of the part after it, and whether it is the last boundary."""
    # A boundary begins a line. So a line's end is put in front, for the first boundary.
    needle = b"\r\n" + mark
    file.seek(0)
    held, held_at, count = b"\r\n", -2, 0
    while True:
        block = file.read(BLOCK)
        spend_bytes(len(block))
        held += block
        place = held.find(needle)
        while place >= 0:
            spend(CALL_STEPS)
            after = place + len(needle)
            line_end = held.find(b"\n", after)
            if line_end < 0 and block and len(held) - after < MOST_HEAD_BYTES:
                break
            rest = held[after : after + 2]
            is_last = rest == b"--"
            if is_last or rest.strip() == b"":
                count += 1
                if count > MOST_PARTS:
                    raise CouchError(400, "bad_request", "The multipart body has too many parts.")
                yield held_at + place, held_at + line_end + 1, is_last
                if is_last:
                    return
            place = held.find(needle, after)
        if not block:
            return
        # The rest may be the beginning of a boundary.
        keep = len(held) - place if place >= 0 else min(len(held), len(needle) - 1)
        held_at += len(held) - keep
        held = held[len(held) - keep :]


def _part(file: IO[bytes], begin: int, end: int) -> BodyPart:
    file.seek(begin)
    head = file.read(min(MOST_HEAD_BYTES, end - begin))
    headers: dict[str, str] = {}
    at = 0
    while True:
        line_end = head.find(b"\r\n", at)
        if line_end < 0:
            # No empty line: the part has headers only, or its content is not separated from them.
            if at == 0 and head:
                raise CouchError(
                    400, "bad_request", "A part of the multipart body has no end of its headers."
                )
            return BodyPart(headers, end, end)
        line, at = head[at:line_end], line_end + 2
        if not line:
            return BodyPart(headers, begin + at, end)
        name, _, value = line.decode("utf-8", "replace").partition(":")
        headers[name.strip().lower()] = value.strip()


# ---------------------------------------------------------------------------------------------------------------
# Sending


class Following(NamedTuple):
    """An attachment whose bytes follow its document: its length, and a function that reads it piece by piece."""

    length: int
    read: Callable[[], Iterator[bytes]]


class RelatedBody:
    """A document and the attachments after it, as `multipart/related`: iterated once.

    Attributes:
        content_type, length: For the headers; the length in bytes.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        following: Mapping[str, Following],
        encode: Callable[[Any], bytes],
    ) -> None:
        """
        Args:
            document: With stubs of all its attachments.
            following: By name. CouchDB relies on the order of the parts, which is the document's order; others use names.
            encode: Writes the JSON.
        """
        boundary = new_boundary()
        attachments = dict(document["_attachments"])
        for name in following:
            stub = {member: value for member, value in attachments[name].items() if member != "stub"}
            attachments[name] = {**stub, "follows": True, "length": following[name].length}
        head = encode({**document, "_attachments": attachments})
        self._head = part_head(boundary, {"Content-Type": JSON}) + head + b"\r\n"
        self._parts = [
            (part_head(boundary, _headers(name, attachments[name])), following[name])
            for name in attachments
            if name in following
        ]
        self._tail = end_of(boundary)
        self.content_type = f'multipart/related; boundary="{boundary}"'
        between = sum(len(head) + part.length + 2 for head, part in self._parts)
        self.length = len(self._head) + between + len(self._tail)

    def __iter__(self) -> Iterator[bytes]:
        yield self._head
        for head, part in self._parts:
            yield head
            yield from part.read()
            yield b"\r\n"
        yield self._tail


def _headers(name: str, stub: Mapping[str, Any]) -> dict[str, str]:
    safe = re.sub(r'(["\\])', r"\\\1", name) if name.isprintable() else quote(name, errors="replace")
    return {
        "Content-Disposition": f'attachment; filename="{safe}"',
        "Content-Type": str(stub.get("content_type", DEFAULT_TYPE)),
        "Content-Length": str(stub["length"]),
    }


def new_boundary() -> str:
    return secrets.token_hex(16)


def part_head(boundary: str, headers: Mapping[str, str]) -> bytes:
    """The bytes before a part's content: the boundary and the headers."""
    lines = [f"--{boundary}", *(f"{name}: {header_text(value)}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("utf-8", "replace")


def end_of(boundary: str) -> bytes:
    """The bytes after the last part."""
    return f"--{boundary}--".encode()
