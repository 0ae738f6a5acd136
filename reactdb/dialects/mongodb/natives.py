"""Values of MongoDB without a Python type, as reactdb's documents hold them.

Other values have Python's types: a BSON date is a `datetime` in UTC, a UUID (binary subtype 4) a `UUID`, a Decimal128 a
`Decimal`, an int32 and an int64 beyond 32 bits an `int`. The rest has a small class here, and a registered type:

    ext  value                    bytes, all big-endian
    ---  -----------------------  ------------------------------------------------------------------------------
    32   ObjectId                 its 12
    33   Int64                    i64, for ints that would otherwise be an int32; equals the int in the order
    34   Decimal128               16, for values without a Decimal: NaN, infinities, other representations of a
                                  number; equals that number in the order
    35   Timestamp                u32 seconds, u32 increment
    36   Regex                    the pattern in UTF-8, a zero byte, and its options, a letter each
    37   Binary                   u8 subtype, and the bytes; for all subtypes except bytes and UUIDs
    38   MinKey                   none
    39   MaxKey                   none
    40   Code                     the text and the scope (null without one) as a document's list
    41   DateMs                   i64, milliseconds since 1970-01-01 UTC, for dates outside the years 1 to 9999

The layouts never change. Rule of this file: it needs no `bson`, so programs can read and make these values without PyMongo.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, cast

from reactdb.errors import InvalidOption
from reactdb.values.codec import FrozenDict, decode_value, encode_value, freeze
from reactdb.values.value import Value
from reactdb.values.value_types import ValueType, register_type

__all__ = [
    "Binary",
    "Code",
    "DateMs",
    "Decimal128",
    "Int64",
    "MaxKey",
    "MinKey",
    "ObjectId",
    "Regex",
    "Timestamp",
]

REGEX_OPTIONS: Final = "ilmsux"
"""The letters of a regular expression's options, in BSON's order."""


class ObjectId(Value):
    """The twelve bytes of a document id, as MongoDB's drivers make it.

    Attributes:
        data: The bytes. The first four are its creation time in seconds since 1970.
    """

    __slots__ = ("data",)

    def __init__(self, data: bytes | str) -> None:
        """
        Args:
            data: Twelve bytes, or 24 hexadecimal digits.

        Raises:
            InvalidOption: It is neither.
        """
        try:
            made = bytes.fromhex(data) if isinstance(data, str) else bytes(data)
        except ValueError:
            made = b""
        if len(made) != 12:
            raise InvalidOption(f"an ObjectId is 12 bytes or 24 hexadecimal digits, not {data!r:.60}")
        self.data = made

    def __str__(self) -> str:
        return self.data.hex()


class Int64(Value):
    """An int64 within 32 bits: BSON has another type for it than for the int; in the order it is the same number.

    Attributes:
        value: The number, from -2,147,483,648 to 2,147,483,647.
    """

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        """
        Raises:
            InvalidOption: The number has more than 32 bits, and is a plain `int` in documents.
        """
        if not -(2**31) <= value < 2**31:
            raise InvalidOption(f"an int64 of more than 32 bits is a plain int in documents: {value}")
        self.value = value

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __str__(self) -> str:
        return str(self.value)


class Decimal128(Value):
    """A Decimal128 without a `Decimal`: it is not finite, or has unusual bits for its number.

    Attributes:
        bits: Its 16 bytes, the highest first.
    """

    __slots__ = ("bits",)

    def __init__(self, bits: bytes) -> None:
        """
        Raises:
            InvalidOption: These are not 16 bytes.
        """
        if len(bits) != 16:
            raise InvalidOption(f"a Decimal128 is 16 bytes, not {len(bits)}")
        self.bits = bytes(bits)

    def number(self) -> Decimal | float:
        """The number: NaN and the infinities as floats, because documents have no such Decimals."""
        whole = int.from_bytes(self.bits, "big")
        sign = "-" if whole >> 127 else ""
        kind = whole >> 122 & 0b11111
        if kind == 0b11111:
            return float("nan")
        if kind == 0b11110:
            return float(sign + "inf")
        if kind >> 3 == 0b11:
            # A coefficient with a bit more is beyond 34 digits, always; the standard reads it as zero.
            return Decimal(f"{sign}0E{(whole >> 111 & 0x3FFF) - 6176}")
        digits = whole & (1 << 113) - 1
        return Decimal(f"{sign}{digits if digits < 10**34 else 0}E{(whole >> 113 & 0x3FFF) - 6176}")


class Timestamp(Value):
    """BSON's timestamp for MongoDB's own use: seconds, and a counter within the second.

    Attributes:
        time: Seconds since 1970, from 0 to 4,294,967,295.
        inc: From 0 to 4,294,967,295.
    """

    __slots__ = ("inc", "time")

    def __init__(self, time: int, inc: int) -> None:
        """
        Raises:
            InvalidOption: A number is out of bounds.
        """
        if not (0 <= time < 2**32 and 0 <= inc < 2**32):
            raise InvalidOption(f"a Timestamp's two numbers are from 0 to 4294967295, not {time} and {inc}")
        self.time = time
        self.inc = inc

    def __str__(self) -> str:
        return f"{self.time}:{self.inc}"


class Regex(Value):
    """A regular expression as a value.

    Attributes:
        pattern: Its text, without zero bytes.
        options: Letters of `ilmsux`, in this order, each at most once.
    """

    __slots__ = ("options", "pattern")

    def __init__(self, pattern: str, options: str = "") -> None:
        """
        Raises:
            InvalidOption: The pattern has a zero byte, or the options are none.
        """
        if "\0" in pattern:
            raise InvalidOption("a regular expression has no zero byte")
        if options != "".join(letter for letter in REGEX_OPTIONS if letter in options):
            raise InvalidOption(f"a Regex has options of {REGEX_OPTIONS}, in this order, not {options!r}")
        self.pattern = pattern
        self.options = options

    def __str__(self) -> str:
        return f"/{self.pattern}/{self.options}"


class Binary(Value):
    """Bytes of a subtype. Documents hold subtype 0 as plain `bytes`, and 16 bytes of subtype 4 as a `UUID`.

    Attributes:
        subtype: From 0 to 255.
        data: The bytes.
    """

    __slots__ = ("data", "subtype")

    def __init__(self, data: bytes, subtype: int) -> None:
        """
        Raises:
            InvalidOption: The subtype is none, or documents have another type for such bytes.
        """
        if not 0 < subtype < 256 or (subtype == 4 and len(data) == 16):
            raise InvalidOption(f"{len(data)} bytes of subtype {subtype} are bytes or a UUID in documents")
        self.data = bytes(data)
        self.subtype = subtype


class MinKey(Value):
    """BSON's value below all others. (As a value of documents it has a place of its own: see `bson_order`.)"""

    __slots__ = ()


class MaxKey(Value):
    """BSON's value above all others."""

    __slots__ = ()


class Code(Value):
    """JavaScript text.

    Attributes:
        text: The text.
        scope: Its variables, a read-only document, or None.
    """

    __slots__ = ("scope", "text")

    def __init__(self, text: str, scope: dict[str, Any] | None = None) -> None:
        self.text = text
        self.scope: FrozenDict | None = None if scope is None else freeze(scope)

    def __str__(self) -> str:
        return self.text


class DateMs(Value):
    """A date before the year 1 or after the year 9999, outside the range of `datetime`.

    Attributes:
        ms: Milliseconds since 1970-01-01 UTC.
    """

    __slots__ = ("ms",)

    def __init__(self, ms: int) -> None:
        """
        Raises:
            InvalidOption: It has more than 64 bits, or is a `datetime` in documents.
        """
        if not -(2**63) <= ms < 2**63 or MIN_DATE_MS <= ms <= MAX_DATE_MS:
            raise InvalidOption(f"a DateMs is outside the years 1 to 9999 and has 64 bits, not {ms}")
        self.ms = ms


MIN_DATE_MS: Final = -62_135_596_800_000
MAX_DATE_MS: Final = 253_402_300_799_999
"""The milliseconds of the years 1 to 9999."""


# -----------------------------------------------------------------------------------------------------------
# How they are stored


def _encode_signed(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def _signed_order(value: int) -> bytes:
    return (value + 2**63).to_bytes(8, "big")


def _read_signed(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _read_timestamp(data: bytes) -> Timestamp:
    return Timestamp(int.from_bytes(data[:4], "big"), int.from_bytes(data[4:], "big"))


def _parse_timestamp(text: str) -> Timestamp:
    time, inc = text.split(":")
    return Timestamp(int(time), int(inc))


def _read_regex(data: bytes) -> Regex:
    pattern, options = data.split(b"\0")
    return Regex(pattern.decode(), options.decode("ascii"))


def _parse_regex(text: str) -> Regex:
    pattern, _slash, options = text[1:].rpartition("/")
    return Regex(pattern, options)


def _code_bytes(code: Code) -> bytes:
    return encode_value([code.text, code.scope])


def _read_code(data: bytes) -> Code:
    text, scope = decode_value(data)
    return Code(text, scope)


def _register(name: str, code: int, kind: type, encode: Any, decode: Any, **more: Any) -> None:
    register_type(ValueType(f"mongodb.{name}", code, kind, encode, decode, **more))


_register("objectid", 32, ObjectId, lambda v: v.data, ObjectId, text=str, parse=ObjectId)
_register(
    "int64",
    33,
    Int64,
    lambda v: _encode_signed(v.value),
    lambda data: Int64(_read_signed(data)),
    equals=lambda v: v.value,
    text=str,
    parse=lambda text: Int64(int(text)),
)
_register("decimal128", 34, Decimal128, lambda v: v.bits, Decimal128, equals=Decimal128.number)
_register(
    "timestamp",
    35,
    Timestamp,
    lambda v: v.time.to_bytes(4, "big") + v.inc.to_bytes(4, "big"),
    _read_timestamp,
    text=str,
    parse=_parse_timestamp,
)
_register(
    "regex",
    36,
    Regex,
    lambda v: cast("bytes", v.pattern.encode() + b"\0" + v.options.encode()),
    _read_regex,
    text=str,
    parse=_parse_regex,
)
_register(
    "binary",
    37,
    Binary,
    lambda v: bytes((v.subtype,)) + v.data,
    lambda data: Binary(data[1:], data[0]),
)
_register("minkey", 38, MinKey, lambda v: b"", lambda data: MinKey())
_register("maxkey", 39, MaxKey, lambda v: b"", lambda data: MaxKey())
_register("code", 40, Code, _code_bytes, _read_code)
_register(
    "date",
    41,
    DateMs,
    lambda v: _encode_signed(v.ms),
    lambda data: DateMs(_read_signed(data)),
    order=lambda v: _signed_order(v.ms),
)
