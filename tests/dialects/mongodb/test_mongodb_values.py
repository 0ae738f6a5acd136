"""BSON documents and native ones: exact inverses, also through the bytes that are stored."""

from __future__ import annotations

import struct
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("bson", reason="PyMongo is not installed")

import bson
from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64

import reactdb
from reactdb.dialects.mongodb import natives
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.values import decode, encode, normalise, to_bson, to_native
from reactdb.values import codec
from reactdb.values.collation import compare
from reactdb.values.extension_types import UnknownValue
from tests.dialects.mongodb.documents import bson_documents
from tests.support.scaling import examples


def stored(document: dict[str, Any]) -> dict[str, Any]:
    return codec.decode(codec.encode(to_native(document)))


@settings(max_examples=examples(300), deadline=None)
@given(bson_documents())
def test_what_is_stored_comes_back_with_the_same_bytes(document: dict[str, Any]) -> None:
    data = encode(document)
    assert encode(to_bson(stored(decode(data)))) == data


def test_small_int64s_decimals_bits_and_binary_subtypes_are_kept() -> None:
    document = {
        "n": Int64(5),
        "big": Int64(2**40),
        "d": Decimal128("1.10"),
        "nan": Decimal128("NaN"),
        "u": Binary(bytes(16), 4),
        "x": Binary(b"abc", 2),
        "short": Binary(b"abc", 4),
        "raw": b"\0",
    }
    native = stored(document)
    assert native["n"] == natives.Int64(5)
    assert native["big"] == 2**40
    assert native["d"] == Decimal("1.10")
    assert native["u"] == UUID(int=0)
    assert native["raw"] == b"\0"
    back = to_bson(native)
    assert back == document
    assert [type(value) for value in back.values()] == [type(value) for value in document.values()]


def test_the_bits_of_doubles_are_kept() -> None:
    odd = struct.unpack("<d", bytes.fromhex("0102000000 00f8ff".replace(" ", "")))[0]
    data = bson.encode({"nan": odd, "minus": -0.0, "inf": float("-inf")})
    assert encode(to_bson(stored(decode(data)))) == data


def test_a_reference_is_the_document_that_it_is_in_the_order_of_its_fields() -> None:
    data = bson.encode({"a": {"$ref": "x", "z": 1, "$id": 2}, "b": [{"$id": 1, "$ref": "y"}]})
    document = decode(data)
    assert document == {"a": {"$ref": "x", "z": 1, "$id": 2}, "b": [{"$id": 1, "$ref": "y"}]}
    assert encode(to_bson(stored(document))) == data


def test_what_bson_cannot_say_is_shown_as_the_nearest_value() -> None:
    native = {
        "huge": 10**30,
        "precise": Decimal("1." + "1" * 50),
        "far": Decimal("1E+9000"),
        "zoned": datetime(2026, 1, 1, 12, 0, 0, 1500, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "hour": time(1, 2),
        "length": timedelta(seconds=1.5),
        "unknown": UnknownValue(100, b"abc"),
    }
    assert to_bson(native) == {
        "huge": Decimal128("1" + "0" * 30),
        "precise": Decimal128("1." + "1" * 33),
        "far": Decimal128("Infinity"),
        "zoned": datetime(2026, 1, 1, 12, 0, 0, 1000),
        "day": "2026-01-02",
        "hour": "01:02:00",
        "length": 1.5,
        "unknown": Binary(b"abc", 128),
    }
    encode(to_bson(native))


def test_a_flat_document_of_plain_values_is_stored_as_it_is() -> None:
    document = {"a": 1, "b": "x", "c": None, "d": True, "e": 1.5}
    assert to_native(document) is document


def test_bytes_that_are_no_document_are_refused() -> None:
    with pytest.raises(MongoError) as caught:
        decode(b"\x05\0\0\0")
    assert caught.value.code == 22
    with pytest.raises(MongoError) as caught:
        encode({"a": {1, 2}})
    assert caught.value.code == 2


def test_the_callers_own_types_become_what_a_client_would_send() -> None:
    moment = datetime(2026, 1, 1, 12, 0, 0, 1999, tzinfo=UTC)
    given_document = {"t": (1, 2**40), "m": moment}
    assert normalise(given_document) == {"t": [1, Int64(2**40)], "m": datetime(2026, 1, 1, 12, 0, 0, 1000)}


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**40), 2**40))
def test_a_small_int64_is_its_number_in_the_order(small: int, other: int) -> None:
    assert compare(natives.Int64(small), other) == (small > other) - (small < other)


def test_a_decimal128_that_is_no_decimal_is_its_number_in_the_order() -> None:
    infinity = to_native({"x": Decimal128("-Infinity")})["x"]
    assert compare(infinity, float("-inf")) == 0
    assert compare(infinity, -(10**300)) == -1
    odd = Decimal128.from_bid(bytes.fromhex("0000000000000000000000000000 0070".replace(" ", "")))
    assert to_native({"x": odd})["x"].number() == 0


def test_native_values_are_the_same_after_json() -> None:
    document = {
        "values": [
            natives.ObjectId("61" * 12),
            natives.Int64(5),
            natives.Decimal128(bytes([0x7C]) + bytes(15)),
            natives.Timestamp(1, 2),
            natives.Regex("a/b", "im"),
            natives.Binary(b"x", 5),
            natives.MinKey(),
            natives.MaxKey(),
            natives.Code("x"),
            natives.Code("y", {"a": natives.ObjectId(b"b" * 12)}),
            natives.DateMs(2**60),
        ]
    }
    assert reactdb.json.loads(reactdb.json.dumps(document)) == document


def test_native_values_need_no_pymongo() -> None:
    script = "import sys, reactdb.dialects.mongodb.natives; sys.exit('bson' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
