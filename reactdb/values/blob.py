"""Blob: the name of a large value, as documents hold it. The bytes are in the file once, in pieces: see `reactdb/blobs.py`.

It is a registered type (`reactdb.blob`, extension type 64), known to every process that opens a file. Its bytes in a
document are the digest and the size, and so in every document begin with the same three: `may_have_blobs` looks for
these, so that a document without blobs pays 20 ns.

Rule of this file: a Blob says nothing about any file, and can be made without one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from reactdb.errors import InvalidOption, format_value
from reactdb.values.decode import decode
from reactdb.values.value import Value
from reactdb.values.value_types import ValueType, register_type

__all__ = [
    "HEADER",
    "Blob",
    "blobs_in",
    "blobs_of",
    "digest_bytes",
    "filter_blob_candidates",
    "may_have_blobs",
]

CODE: Final = 64
DIGEST_BYTES: Final = 32
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_TEXT: Final = re.compile(r"sha256:([0-9a-f]{64}):(0|[1-9][0-9]{0,17})", re.ASCII)


class Blob(Value):
    """A large value, named by a digest of its content: two equal Blobs have the same bytes.

    It is stored in documents like any other value, also in lists, in indexes and as a key; the stored value is the
    name. `db.blobs.put` writes the bytes and `db.blobs.open` reads them.

    Attributes:
        digest: The SHA-256 of the bytes, as 64 lower-case hexadecimal digits.
        size: How many bytes there are.
    """

    __slots__ = ("digest", "size")

    def __init__(self, digest: str, size: int) -> None:
        """
        Raises:
            InvalidOption: The digest or the size is none.
        """
        digest_bytes(digest)
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 2**63:
            raise InvalidOption(f"the size of a blob is a number of bytes, not {format_value(size)}")
        self.digest = digest
        self.size = size

    def __str__(self) -> str:
        """`sha256:DIGEST:SIZE`: its text in JSON, for people, and in columns of strings."""
        return f"sha256:{self.digest}:{self.size}"


def digest_bytes(digest: object) -> bytes:
    """The 32 bytes of a digest that is written in hexadecimal digits.

    Raises:
        InvalidOption: It is not written so.
    """
    if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
        raise InvalidOption(
            f"a digest is the SHA-256 in 64 lower-case hexadecimal digits, not {format_value(digest, 80)}"
        )
    return bytes.fromhex(digest)


def _encode(blob: Blob) -> bytes:
    return bytes.fromhex(blob.digest) + blob.size.to_bytes(8, "big")


def _decode(data: bytes) -> Blob:
    return Blob(data[:DIGEST_BYTES].hex(), int.from_bytes(data[DIGEST_BYTES:], "big"))


def _parse(text: str) -> Blob:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError("a blob is written sha256:DIGEST:SIZE")
    return Blob(match[1], int(match[2]))


register_type(ValueType("reactdb.blob", CODE, Blob, _encode, _decode, text=str, parse=_parse))

# MessagePack's first bytes of an extension type of this length. One byte alone is found in a tenth of the time.
HEADER: Final = bytes((0xC7, DIGEST_BYTES + 8, CODE))


def may_have_blobs(body: bytes) -> bool:
    """Whether an encoded document may hold a Blob: a document with False has none."""
    return 0xC7 in body and HEADER in body


def filter_blob_candidates(bodies: Sequence[bytes]) -> list[int]:
    """The numbers, in the list, of the documents for which `may_have_blobs` is true."""
    candidates = [number for number, body in enumerate(bodies) if 0xC7 in body]
    return [number for number in candidates if HEADER in bodies[number]]


def blobs_in(body: bytes) -> list[Blob]:
    """The blobs of an encoded document, each once.

    Raises:
        CorruptDatabase: These are no document's bytes.
    """
    return blobs_of(decode(body)) if may_have_blobs(body) else []


def blobs_of(document: dict[str, Any]) -> list[Blob]:
    """The blobs of a document, each once."""
    blobs: dict[Blob, None] = {}
    left: list[Any] = [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif type(value) is Blob:
            blobs[value] = None
    return list(blobs)
