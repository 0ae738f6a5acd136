"""Targets that read bytes of reactdb's own formats: documents, keys, tokens of feeds and of change streams.

What is read is written again and read once more: it has to be the same.

Rule of this file: what the bytes of a value are is said by the library alone; here they are only damaged.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import reactdb
from reactdb.dialects.couchdb.changes import ChangesRequest
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.mongodb.tokens import parse
from reactdb.values.codec import encode, encode_value, same
from reactdb.values.decode import decode, decode_frozen, decode_many, decode_value
from reactdb.values.key_format import key_bytes, key_value
from tests.fuzz import generating
from tests.fuzz.target import Failure, Target

VALUES: tuple[Any, ...] = (
    datetime(2013, 1, 31, 12, 30, tzinfo=UTC), date(2013, 1, 31), time(12, 30, 0, 5), timedelta(seconds=90.5), Decimal("1.10"),
    Decimal("1e-400"), UUID(int=5), b"\0\xff", float("inf"), float("nan"), 2**80, -(2**80), 1.5, 10**300,
)  # fmt: skip


def _value(random: Random, depth: int = 3) -> Any:
    """A value that a document may have."""
    kind = random.randrange(8)
    if kind < 3 or depth == 0:
        return random.choice(VALUES)
    if kind < 6:
        found = generating.scalar(random)
        return "\\ud800" if found == "\ud800" else 1 if found == 10**400 else found
    if kind == 6:
        return [_value(random, depth - 1) for _ in range(random.randrange(4))]
    return {f"a{number}": _value(random, depth - 1) for number in range(random.randrange(4))}


# ---------------------------------------------------------------------------------------------------------------
# Documents


def _read_document(data: bytes) -> None:
    reads: tuple[Any, ...] = (decode, decode_frozen, decode_value, lambda data: decode_many([data, data]))
    for read in reads:
        try:
            found = read(data)
        except reactdb.ReactDBError:
            continue
        if read is decode and not same(found, decode(encode(found))):
            raise Failure("a document that was read and written is another one")


def _make_document(random: Random) -> bytes:
    found = {f"a{number}": _value(random) for number in range(random.randrange(4))}
    return _damaged(encode(found), random)


def _damaged(data: bytes, random: Random) -> bytes:
    return data if random.random() < 0.1 else generating.mutated(data, random, CODEC.words)


CODEC = Target(
    "codec",
    _read_document,
    _make_document,
    (
        b"\x81",
        b"\x91",
        b"\xdf\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xc7\xff",
        b"\xd4",
        b"\xd8",
        b"\xc1",
        b"\x91" * 600,
    ),
)


# ---------------------------------------------------------------------------------------------------------------
# Keys


def _read_key(data: bytes) -> None:
    found = key_value(data)
    key_bytes(found)
    encode_value(found)


def _make_key(random: Random) -> bytes:
    while True:
        try:
            return _damaged(key_bytes(_value(random)), random)
        except reactdb.ReactDBError:
            continue


KEY_FORMAT = Target("key_format", _read_key, _make_key, (b"\0", b"\0\xff", b"\xff" * 9, b"\x01" * 600))


# ---------------------------------------------------------------------------------------------------------------
# Tokens


def _read_token(data: bytes) -> None:
    """The first byte says which kind of token the rest is."""
    text = data[1:].decode("utf-8", "surrogateescape")
    if data[:1] == b"m":
        parse({"_data": text})
        return
    with reactdb.connect(":memory:") as db:
        if data[:1] == b"c":
            db.table_create("t")
            database = Couch(db).create("c") or Couch(db).open("c")
            with_rows = database.changes(ChangesRequest(since=text))
            with_rows.rows(10)
            with_rows.close()
            return
        games = db.table_create("games")
        games.insert([{"id": number} for number in range(3)])
        db_id = db.token.partition(".")[0]
        since = text.replace("<id>", db_id)
        with games.changes(since=since).cursor() as cursor:
            cursor.close()


def _make_token(random: Random) -> bytes:
    with reactdb.connect(":memory:") as db:
        token = db.token
    known = random.choice(
        (
            "f" + token,
            "f" + token.replace(token.partition(".")[0], "<id>"),
            "f" + token + ".0123abcd-8001",
            "f" + token + ".0123abcd-8001-8001-7",
            "c0", "cnow", "c2013-01-31T12:30:00.000Z", "c0001-01-01T00:00:00+23:00", "c9999-12-31T23:59:59.999-23:00",
            "c" + token,
            "c1-" + token,
            "m82" + "00000001" * 2 + "2B" + "04" * 40,
            "m82" + "00000001" * 2 + "2B" + "0" * 64 + "04",
        )
    ).encode()  # fmt: skip
    return known if random.random() < 0.1 else known[:1] + generating.mutated(known[1:], random, TOKENS.words)


TOKENS = Target(
    "tokens",
    _read_token,
    _make_token,
    (b".", b"-", b"0", b"9" * 20, b"9" * 5_000, b"\xd9\xa1", b"T", b"Z", b"<id>"),
)
