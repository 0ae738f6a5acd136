"""Resume tokens: a position of a change stream, as a document `{"_data": hexadecimal digits}`, sorted in the order of the stream.

    82          the first byte
    u32, u32    the cluster time: the seconds of the commit, and the seq of its first change modulo 2**32
    00          a high-water mark: everything before this cluster time was seen
    80          an event, and then
        u32     the place of the log entry in its commit
        u8      the place of the event among the events of its entry, and 128 more if an invalidate event may follow
        u8      1 for the invalidate event after that event
        u16     the fragment, from 1; 0 for an event that is not split
        u8      1, and the 16 bytes of the collection's UUID; or 0
    14 bytes    the file's identity, and the epoch of its history
    04          the end

All numbers are big-endian, so tokens of one file sort like the events, and an event has the same token at every read.

Rule of this file: it writes and parses tokens. `points` finds the seq of a token.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Final, NamedTuple

from bson.binary import Binary
from bson.timestamp import Timestamp

from reactdb.dialects.mongodb.errors import MongoError

_FIRST: Final = 0x82
_MARK: Final = 0x00
_EVENT: Final = 0x80
_END: Final = 0x04
_HEAD: Final = struct.Struct(">BIIB")
_PLACE: Final = struct.Struct(">IBBHB")
_UUID_BYTES: Final = 16
_ORIGIN_BYTES: Final = 14
_DIGITS: Final = re.compile(r"(?:[0-9a-fA-F]{2})+", re.ASCII)
INCREMENTS: Final = 1 << 32
"""Cluster times have seqs modulo this."""
ENDING: Final = 128
"""Added to the place of an event that ends streams of its collection or database."""


class TokenOrigin(NamedTuple):
    """The history of a position.

    Attributes:
        database_id: The file's identity, 16 hexadecimal digits.
        epoch: The stretch of its history, 12 hexadecimal digits.
    """

    database_id: str
    epoch: str


class Token(NamedTuple):
    """A place in the order of a stream; the head of this file describes its parts.

    Attributes:
        uuid: The UUID of the event's collection; None without a collection, and for a high-water mark.
    """

    seconds: int
    increment: int
    is_event: bool
    step: int
    part: int
    is_invalidate: bool
    fragment: int
    uuid: bytes | None
    origin: TokenOrigin

    @property
    def time(self) -> Timestamp:
        """The cluster time."""
        return Timestamp(self.seconds, self.increment)

    @property
    def place(self) -> tuple[int, int, bool, int, int, bool]:
        """The order of tokens, without the fragment."""
        return self[:6]

    @property
    def may_end(self) -> bool:
        """An invalidate event follows it in streams of its collection, or its database."""
        return self.part >= ENDING and not self.is_invalidate

    def document(self) -> dict[str, str]:
        """As clients have it."""
        kind = _EVENT if self.is_event else _MARK
        data = _HEAD.pack(_FIRST, self.seconds, self.increment, kind)
        if self.is_event:
            has_uuid = self.uuid is not None
            data += _PLACE.pack(self.step, self.part, self.is_invalidate, self.fragment, has_uuid)
            data += self.uuid or b""
        # The origin is hexadecimal digits already.
        return {"_data": f"{data.hex()}{self.origin.database_id}{self.origin.epoch}{_END:02X}".upper()}


def mark(seconds: int, increment: int, origin: TokenOrigin) -> Token:
    """The high-water mark of a cluster time."""
    return Token(seconds, increment % INCREMENTS, False, 0, 0, False, 0, None, origin)


def parse(document: Any) -> Token:
    """A client's token.

    Raises:
        MongoError: 40647, 40648, 40649, 9, 50811 or 15, depending on the mistake.
    """
    data = document.get("_data")
    if type(data) is not str:
        raise MongoError(40647, "resume token must have a `_data` field that is a string")
    if "_typeBits" in document and not isinstance(document["_typeBits"], (bytes, Binary)):
        raise MongoError(40648, "the `_typeBits` of a resume token are binary data")
    if not data:
        raise MongoError(40649, "the `_data` of a resume token is empty")
    if not _DIGITS.fullmatch(data):
        raise MongoError(9, f"the `_data` of a resume token is no string of hexadecimal digits: {data!r:.80}")
    return _read(bytes.fromhex(data))


def _read(data: bytes) -> Token:
    if data[0] != _FIRST:
        raise _not_a_token()
    try:
        _, seconds, increment, kind = _HEAD.unpack_from(data)
        at = _HEAD.size
        step = part = fragment = 0
        is_invalidate, uuid = 0, None
        if kind == _EVENT:
            step, part, is_invalidate, fragment, has_uuid = _PLACE.unpack_from(data, at)
            at += _PLACE.size
            if has_uuid:
                uuid = data[at : at + _UUID_BYTES]
                at += _UUID_BYTES
        elif kind != _MARK:
            raise _not_a_token()
    except struct.error:
        raise _too_short() from None
    origin = data[at : at + _ORIGIN_BYTES].hex()
    # The meaningless last byte may be missing; and drivers' tests append other bytes.
    rest = data[at + _ORIGIN_BYTES :].strip(b"\x00\xff")
    if len(origin) < 2 * _ORIGIN_BYTES:
        raise _too_short()
    if rest not in (b"", bytes((_END,))):
        raise _not_a_token()
    token_origin = TokenOrigin(origin[:16], origin[16:])
    return Token(
        seconds, increment, kind == _EVENT, step, part, bool(is_invalidate), fragment, uuid, token_origin
    )


def _not_a_token() -> MongoError:
    return MongoError(50811, "the `_data` of the resume token is not from a change stream")


def _too_short() -> MongoError:
    return MongoError(15, "the `_data` of the resume token is cut short")
