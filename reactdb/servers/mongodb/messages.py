"""Messages of MongoDB's wire protocol: OP_MSG in both directions, and the first message of drivers in the older protocol.

    header      length, request id, id of the request for a reply, opcode: four int32
    OP_MSG      flags, then sections: one body (kind 0) and sequences of documents (kind 1), perhaps a CRC-32C at the end
    OP_QUERY    flags, collection, numbers to skip and to return, a document; only for `hello`, with OP_REPLY as the reply

Rule of this file: bytes in, documents out, and back. Invalid bytes raise BrokenMessage, because there can be no reply to them.
A message with only an unreadable document has a `refusal`, which becomes its reply.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.values import decode, encode

__all__ = ["HEADER", "MOST_BYTES", "BrokenMessage", "Message", "length_of", "read_message"]

HEADER: Final = struct.Struct("<iiii")
FLAGS: Final = struct.Struct("<I")
QUERY_NUMBERS: Final = struct.Struct("<ii")
REPLY_HEAD: Final = struct.Struct("<iqii")
LENGTH: Final = struct.Struct("<i")
SECTION: Final = struct.Struct("<Bi")
"""Of a section, its kind and its length without the kind."""
ANSWER_HEAD: Final = struct.Struct("<iiiiIB")
"""Header and flags of an OP_MSG, and the kind of its only section."""

OP_REPLY: Final = 1
OP_QUERY: Final = 2004
OP_MSG: Final = 2013

HAS_CHECKSUM: Final = 1
MORE_TO_COME: Final = 2
REQUIRED_FLAGS: Final = 0xFFFF
AWAIT_CAPABLE: Final = 8

MOST_BYTES: Final = 48_000_000
"""The size limit of a message, as `hello` announces it."""
OVERHEAD_BYTES: Final = 16 * 1024
"""A driver's additional bytes around its counted documents."""


class BrokenMessage(Exception):
    """The bytes are no message of this protocol; the text has the reason. The connection can only be closed."""


@dataclass(slots=True)
class Message:
    """A request as it came.

    Attributes:
        body: The command; sequences of documents are in it as lists.
        is_silent: The client waits for no reply.
        is_old: It came as OP_QUERY, so the reply is an OP_REPLY.
        refusal: Why its documents cannot be read. Its body is empty then.
    """

    request_id: int
    body: dict[str, Any]
    is_silent: bool = False
    is_old: bool = False
    refusal: MongoError | None = None

    def answer(self, document: dict[str, Any], own_id: int) -> bytes:
        """The bytes of the reply. `own_id`: a number for it."""
        data = encode(document)
        if self.is_old:
            head = REPLY_HEAD.pack(AWAIT_CAPABLE, 0, 0, 1)
            length = HEADER.size + len(head) + len(data)
            return b"".join((HEADER.pack(length, own_id, self.request_id, OP_REPLY), head, data))
        length = ANSWER_HEAD.size + len(data)
        return ANSWER_HEAD.pack(length, own_id, self.request_id, OP_MSG, 0, 0) + data


def length_of(buffer: bytes | bytearray, most: int = MOST_BYTES) -> int | None:
    """The length of the message at the beginning of the buffer; None if it is not complete enough.

    Args:
        most: The size limit in bytes.

    Raises:
        BrokenMessage.
    """
    if len(buffer) < HEADER.size:
        return None
    length: int
    length, _, _, opcode = HEADER.unpack_from(buffer)
    if opcode not in (OP_MSG, OP_QUERY):
        raise BrokenMessage(f"opcode {opcode} is not supported")
    if not HEADER.size + FLAGS.size < length <= most + OVERHEAD_BYTES:
        raise BrokenMessage(f"a message of {length} bytes")
    return length


def read_message(data: bytes) -> Message:
    """The message in these bytes.

    Raises:
        BrokenMessage.
    """
    _, request_id, _, opcode = HEADER.unpack_from(data)
    try:
        if opcode == OP_QUERY:
            return read_query(data, request_id)
        return read_sections(data, request_id)
    except MongoError as error:
        # The message itself has its length, so the next one can be read. Only for an OP_MSG: an older driver sends a hello.
        if opcode == OP_QUERY:
            raise BrokenMessage(str(error)) from error
        (flags,) = FLAGS.unpack_from(data, HEADER.size)
        return Message(request_id, {}, is_silent=bool(flags & MORE_TO_COME), refusal=error)
    except (struct.error, ValueError, IndexError) as error:
        raise BrokenMessage(str(error)) from error


def read_sections(data: bytes, request_id: int) -> Message:
    (flags,) = FLAGS.unpack_from(data, HEADER.size)
    if flags & REQUIRED_FLAGS & ~(HAS_CHECKSUM | MORE_TO_COME):
        raise BrokenMessage(f"unknown flags {flags:#x}")
    end = len(data)
    if flags & HAS_CHECKSUM:
        end -= FLAGS.size
        if crc32c(data[:end]) != FLAGS.unpack_from(data, end)[0]:
            raise BrokenMessage("the checksum does not match")
    body: dict[str, Any] | None = None
    sequences: dict[str, list[dict[str, Any]]] = {}
    at = HEADER.size + FLAGS.size
    while at < end:
        kind, length = SECTION.unpack_from(data, at)
        start = at + 1
        at = start + length
        if length < 5 or at > end:
            raise BrokenMessage("a section ends behind its message")
        if kind == 0:
            if body is not None:
                raise BrokenMessage("two bodies")
            body = decode(data[start:at])
        elif kind == 1:
            start += LENGTH.size
            end_of_name = data.find(b"\0", start, at)
            # A name without an end fills the rest.
            end_of_name = at if end_of_name < 0 else end_of_name
            name = data[start:end_of_name].decode()
            if name in sequences:
                raise BrokenMessage("two sequences of one name")
            sequences[name] = decode_all(data, end_of_name + 1, at)
        else:
            raise BrokenMessage(f"a section of kind {kind}")
    if body is None:
        raise BrokenMessage("no body")
    if sequences:
        if not body.keys().isdisjoint(sequences):
            raise BrokenMessage("a sequence has the name of a field")
        body.update(sequences)
    return Message(request_id, body, is_silent=bool(flags & MORE_TO_COME))


def decode_all(data: bytes, at: int, end: int) -> list[dict[str, Any]]:
    """The consecutive documents between two places."""
    documents = []
    while at < end:
        (length,) = LENGTH.unpack_from(data, at)
        if length < 5 or at + length > end:
            raise BrokenMessage("a document ends behind its sequence")
        documents.append(decode(data[at : at + length]))
        at += length
    return documents


def read_query(data: bytes, request_id: int) -> Message:
    end_of_name = data.index(b"\0", HEADER.size + FLAGS.size)
    collection = data[HEADER.size + FLAGS.size : end_of_name].decode()
    at = end_of_name + 1 + QUERY_NUMBERS.size
    (length,) = LENGTH.unpack_from(data, at)
    body = decode(data[at : at + length])
    # An older driver may wrap the command together with its read preference.
    inner = body.get("$query", body.get("query"))
    if isinstance(inner, dict):
        body = inner
    database, _, name = collection.partition(".")
    if name != "$cmd":
        raise BrokenMessage("OP_QUERY is only spoken for commands")
    body.setdefault("$db", database)
    return Message(request_id, body, is_old=True)


# ---------------------------------------------------------------------------------------------------------------
# CRC-32C, which no known driver asks for


def crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE: Final = crc_table()


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = CRC_TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF
