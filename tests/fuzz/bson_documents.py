"""Target: BSON documents: bytes in, what is stored of them, and back. And the makers of BSON that the messages use, too.

Rule of this file: what can be read can be stored, or is refused; and what was stored is told with the same bytes.
"""

from __future__ import annotations

import struct
from datetime import datetime
from random import Random
from typing import Any

import bson
from bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from bson.raw_bson import RawBSONDocument

import reactdb
from reactdb.dialects.mongodb.commands.error_replies import as_mongo_error
from reactdb.dialects.mongodb.values import decode, encode, normalise, to_bson, to_native
from tests.fuzz import generating
from tests.fuzz.target import Target

VALUES: tuple[Any, ...] = (
    ObjectId("0" * 24), Int64(1), Int64(2**63 - 1), Decimal128("1.10"), Decimal128("NaN"), Decimal128("1E+6000"),
    Decimal128("-0"),
    Timestamp(1, 2), Timestamp(2**32 - 1, 0), datetime(2013, 1, 31), DatetimeMS(2**62), DatetimeMS(-(2**62)), Regex("a+", "ix"),
    Regex("(", 0), Code("x"), Code("x", {"a": 1}), MinKey(), MaxKey(), Binary(b"\0\xff"), Binary(b"\0" * 16, 4), Binary(b"x",
    128),
    float("nan"), float("inf"), DBRef("c", 1), Binary(b"", 9), b"x",
)  # fmt: skip


def deep_bson(levels: int, *, is_array: bool = False) -> bytes:
    """A document with as many inside of each other."""
    data = b"\x05\0\0\0\0"
    kind = b"\x04" if is_array else b"\x03"
    name = b"0\0" if is_array else b"a\0"
    for _ in range(levels):
        content = kind + name + data + b"\0"
        data = struct.pack("<i", len(content) + 4) + content
    return data


def value(random: Random, texts: Any = generating.TEXTS, names: Any = generating.TEXTS) -> Any:
    """A value that BSON has."""
    kind = random.randrange(4)
    return random.choice(VALUES) if kind == 0 else fit(generating.value(random, texts, names))


def fit(found: Any) -> Any:
    """The same, of what BSON can say."""
    if isinstance(found, generating.Deep):
        return RawBSONDocument(deep_bson(found.levels, is_array=not found.is_object))
    if isinstance(found, str):
        return found.encode("utf-8", "replace").decode()
    if isinstance(found, int) and not isinstance(found, (bool, Int64)) and not -(2**63) <= found < 2**63:
        return Decimal128("1E+30")
    if isinstance(found, dict):
        return {fit(name).replace("\0", ""): fit(inner) for name, inner in found.items()}
    if isinstance(found, list):
        return [fit(inner) for inner in found]
    return found


def _read(data: bytes) -> None:
    try:
        _store(data)
    except Exception as error:
        # As a command does: what nobody foresaw is logged.
        as_mongo_error(error)


def _store(data: bytes) -> None:
    found = decode(data)
    written = encode(found)
    native = to_native(normalise(found))
    with reactdb.connect(":memory:") as db:
        table = db.table_create("t")
        table.insert({"id": 1, "document": native})
        again = table.get(1).run()["document"]
    if encode(to_bson(again)) != encode(normalise(found)) and len(written) == len(data):
        raise AssertionError("what was stored is told with other bytes")


def _make(random: Random) -> bytes:
    found = {f"a{number}": value(random) for number in range(random.randrange(4))}
    data = bson.encode(found)
    return data if random.random() < 0.3 else generating.mutated(data, random, BSON.words)


BSON = Target(
    "bson",
    _read,
    _make,
    (
        *(bytes((kind,)) + b"a\0" for kind in (*range(1, 0x14), 0x7F, 0xFF)),
        b"\0",
        b"\x05\0\0\0\0",
        b"\xff\xff\xff\x7f",
        deep_bson(300),
    ),
)
