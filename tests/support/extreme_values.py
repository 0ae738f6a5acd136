"""Extreme values: of each type that a document can hold, those that are most likely to be told wrongly.

    of_every_type()     values, each with a name: of the core's types, and of every type that is registered
    of_every_object()   objects whose fields mean something to somebody: to BSON, to ReQL, to JSON, to a path
    keys()              primary keys

A registered type is not named here: its values are made from bytes that it accepts. So a new one is tried when it is registered.

Rule of this file: it knows no dialect.
"""

from __future__ import annotations

import math
import pkgutil
import struct
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from importlib import import_module
from typing import Any
from uuid import UUID

from reactdb import dialects
from reactdb.errors import ReactDBError
from reactdb.values import collation
from reactdb.values.blob import Blob
from reactdb.values.codec import FrozenDict, FrozenList, UnknownValue, encode_value
from reactdb.values.collation import maxval, minval
from reactdb.values.key_format import ENCODERS
from reactdb.values.value_types import BY_KIND, NAMED

HOUR = timedelta(hours=1)
ODD_NAN = struct.unpack(">d", bytes.fromhex("7ff8000000000001"))[0]


def zoned(moment: datetime, offset: timedelta) -> datetime:
    return moment.replace(tzinfo=timezone(offset))


def nested(levels: int, inner: Any, name: str | None) -> Any:
    """A value inside so many lists, or dicts with this field."""
    for _ in range(levels):
        inner = [inner] if name is None else {name: inner}
    return inner


OF_TYPE: dict[type, list[Any]] = {
    type(None): [None],
    bool: [False, True],
    int: [0, -1, 2**31, 2**53 + 1, -(2**63), 2**63 - 1, 2**63, 2**64 - 1, 10**400, -(2**8000)],
    float: [
        0.0,
        -0.0,
        2.0,
        5e-324,
        1.7976931348623157e308,
        1e16,
        1e20,
        math.inf,
        -math.inf,
        math.nan,
        ODD_NAN,
    ],
    Decimal: [
        *map(Decimal, ("0", "-0.00", "1.10", "1e2000000", "-9e-2000000", "0e9999", "9.999e6144")),
        Decimal("1." + "9" * 40),
        Decimal("3" * 4096),
    ],
    str: [
        "",
        "\0",
        "a\0b",
        "\U0001f600\uffff\ufeff",
        "\u2028\x7f\x01",
        "␀0",
        "=",
        "=5",
        "2020-01-01",
        "x" * 5000,
    ],
    bytes: [b"", b"\0\xff", b"\xff" * 3000],
    list: [[], [[]], [None, -0.0, date.max, b""], list(range(300)), nested(90, 1, None)],
    dict: [{}, {"a": {}}, nested(90, date.min, "d"), {"k" * 5000: 1}],
    datetime: [
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        zoned(datetime.max, 14 * HOUR),
        zoned(datetime.min, -12 * HOUR),
        zoned(datetime(9999, 12, 31, 23, 59, 59, 999_999), timedelta(minutes=1, seconds=59)),
        zoned(datetime.min, -timedelta(seconds=59)),
        zoned(datetime(2020, 1, 1, 0, 0, 0, 999_999), timedelta(hours=23, minutes=59, seconds=59)),
        zoned(datetime(1969, 12, 31, 23, 59, 59, 999_999), -timedelta(hours=5)),
        datetime(1399, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    ],
    date: [date.min, date.max],
    time: [time.min, time.max],
    timedelta: [timedelta.min, timedelta.max, timedelta(microseconds=1), timedelta()],
    UUID: [UUID(int=0), UUID(int=2**128 - 1)],
    UnknownValue: [UnknownValue(127, b""), UnknownValue(100, b"\0x")],
}
"""By type of the core. A type that has no line here fails `of_every_type`."""

NO_VALUES = frozenset(
    {type(minval), type(maxval), FrozenDict, FrozenList, tuple, bytearray, memoryview, Blob}
)
"""Bounds, which no document holds; other spellings of lists, dicts and bytes; the name of a large value, which a file gives."""

BYTES = [
    *(bytes([byte]) * count for byte in (0, 1, 0x7F, 0xFF) for count in (0, 1, 2, 3, 4, 8, 12, 16, 17)),
    *(text.encode() for text in ("a", "1.10", "nan", "Infinity", "-0E+5", "a\0", "(((\0ilmsux")),
    *map(encode_value, (["a\0", None], ["a", {"x\0": 1, "$ref": 2}], None, {"a\0": [1]}, 5, -(2**62))),
]


def dialect_modules() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(dialects.__path__, f"{dialects.__name__}.")]


def of_registered_types() -> dict[str, Any]:
    # A dialect registers its types when it is imported.
    for module in dialect_modules():
        import_module(module)
    found = {}
    for name, one in NAMED.items():
        if one.kind in NO_VALUES:
            continue
        for data in BYTES:
            try:
                found[f"{name} {data.hex()[:40]}"] = one.read(data)
            except ValueError:
                continue
        assert any(key.startswith(f"{name} ") for key in found), f"no bytes here are a {name}: add some"
    return found


def of_every_type() -> dict[str, Any]:
    core = {kind for kind in ENCODERS if kind not in BY_KIND} - NO_VALUES
    assert core <= OF_TYPE.keys(), f"add values of {core - OF_TYPE.keys()}"
    found = {
        f"{kind.__name__} {number}": value
        for kind, values in OF_TYPE.items()
        for number, value in enumerate(values)
    }
    return {**found, **of_registered_types()}


ALIKE = datetime(2020, 1, 1, tzinfo=UTC)
DATE_SPELLED = '={"$reactdb_type$":"date","value":"0001-01-01"}'

NAMES = [
    "", "\0", "a\0b", "␀0", "␀␀0", "␀\0", "0", "a.b", ".", "$", "$set", "$gt", "$ref", "$id", "$db", "_x", "_rev", "_deleted",
    "_attachments", "=_x", "==_rev", "id", "=id", "resourceType", "meta", "\ufeff", "__proto__", "k" * 2000, "$reql_type$",
    "=$reql_type$", "==$reql_type$", "$reactdb_type$", "=$reactdb_type$", "$binary", "$oid", "$date", "$numberDecimal",
]  # fmt: skip

SAID: list[dict[str, Any]] = [
    *(
        {name: value}
        for name in ("meta", "resourceType", "id", "=meta")
        for value in ({}, {"versionId": "1", "a": 1}, None, "")
    ),
    *(
        {"$reql_type$": kind}
        for kind in ("TIME", "BINARY", "GEOMETRY", "GROUPED_DATA", "FOO", "", 5, None, {}, [])
    ),
    {"$reql_type$": "TIME", "epoch_time": 1.5, "timezone": "+00:00"},
    {"$reql_type$": "TIME", "epoch_time": 1e300, "timezone": "x"},
    {"$reql_type$": "BINARY", "data": "QQ=="},
    {"$reql_type$": "BINARY", "data": "!"},
    {"$reql_type$": "GROUPED_DATA", "data": [[1, 2]]},
    {"$reql_type$": "GEOMETRY", "=$reql_type$": 1, "coordinates": [1, 2], "type": "Point"},
    *({"$reactdb_type$": kind} for kind in ("decimal", "object", "foo", 5, None)),
    {"$reactdb_type$": "decimal", "value": "1.1"},
    {"$reactdb_type$": "object", "value": {"$reql_type$": "TIME"}},
    {"$reactdb_type$": "deleted", "value": 1},
    {"$binary": {"base64": "QQ==", "subType": "00"}},
    {"$oid": "0" * 24},
    {"$date": "x"},
    {"$ref": "t", "$id": 1},
    {"$ref": 1, "$id": 1},
    {"$ref": "t", "$id": 1, "$db": 5, "z": 1},
    nested(40, {"$reql_type$": "TIME"}, "$reql_type$"),
]


def of_every_object() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {f"name {name[:20]!r}": {name: 1} for name in NAMES}
    found["all names"] = dict.fromkeys(NAMES, date.min)
    return {**found, **{f"object {number}": value for number, value in enumerate(SAID)}}


def keys() -> dict[str, Any]:
    """Those of all values that a primary key can be; of keys that are equal, one."""
    candidates = {
        **of_every_type(),
        "array": [1, [True, "x"], b"", date.min],
        "design": "_design/x",
        "underscore": "_x",
        "local": "_local/x",
        "path": "a/b?c#d%2F e+",
        "dots": "..",
        "long": "k" * 1000,
        "number as text": "5",
        "json as text": "[1]",
        "null as text": "null",
        # What a dialect may show one of these keys as is another one.
        "number": 5,
        "date as text": date.min.isoformat(),
        "time as text": time.max.isoformat(),
        "UUID as text": str(UUID(int=0)),
        "moment": ALIKE,
        "moment of the same millisecond": ALIKE + timedelta(microseconds=1),
        "next whole number as a double": float(2**53),
        "decimal beside a double": Decimal("0.1"),
        "the double": 0.1,
        "spelling as text": DATE_SPELLED,
        "spelling of the spelling": f"={DATE_SPELLED}",
        "spelling with a space": DATE_SPELLED.replace(":", ": "),
        "spelling of a number": "=9007199254740993",
        "array that cannot be said": [1, date.min],
        "array of what it would be shown as": [1, date.min.isoformat()],
    }
    found: dict[bytes, tuple[str, Any]] = {}
    for name, value in candidates.items():
        try:
            found.setdefault(collation.primary_key_bytes(value), (name, value))
        except ReactDBError:
            continue
    return dict(found.values())
