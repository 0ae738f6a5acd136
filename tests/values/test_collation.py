"""One total order: the bytes sort as the values do, and the values come back from the bytes."""

from __future__ import annotations

import copy
import enum
import itertools
import math
import pickle
import struct
import sys
import time as clock
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Context, Decimal, FloatOperation, Inexact, Rounded, localcontext
from fractions import Fraction
from functools import cmp_to_key
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reactdb.errors import CorruptDatabase, InvalidDocument, InvalidKey
from reactdb.values.codec import (
    MAX_DECIMAL_DIGITS,
    MAX_DECIMAL_EXPONENT,
    MAX_DEPTH,
    MAX_INT_BITS,
    decode_frozen,
    encode,
    freeze,
)
from reactdb.values.collation import (
    MAX_KEY_BYTES,
    compare,
    index_key_bytes,
    key_bytes,
    key_value,
    maxval,
    minval,
    primary_key_bytes,
    type_name,
)
from reactdb.values.extension_types import UnknownValue, read_extension
from tests.support.ids import stable_id
from tests.support.scaling import examples

# ------------------------------------------------------------------------------------------------------------
# The order, said a second time and without bytes

TYPE_ORDER = [
    "MINVAL",
    "ARRAY",
    "BOOL",
    "NULL",
    "NUMBER",
    "OBJECT",
    "PTYPE<BINARY>",
    "PTYPE<DATE>",
    "PTYPE<DURATION>",
    "PTYPE<LOCALTIME>",
    "PTYPE<TIME>",
    "PTYPE<UUID>",
    "STRING",
    "MAXVAL",
]


def sign(left: Any, right: Any) -> int:
    return (left > right) - (left < right)


def number_rank(value: int | float | Decimal) -> tuple[int, Fraction]:
    if isinstance(value, (float, Decimal)) and math.isnan(value):
        return 2, Fraction(0)
    if isinstance(value, float) and math.isinf(value):
        return (1 if value > 0 else -1), Fraction(0)
    return 0, Fraction(value)


def reference(left: Any, right: Any) -> int:
    """-1, 0 or 1 by the words of the specification."""
    name = type_name(left)
    if name != type_name(right):
        return sign(TYPE_ORDER.index(name), TYPE_ORDER.index(type_name(right)))
    if name in ("MINVAL", "MAXVAL", "NULL"):
        return 0
    if name == "NUMBER":
        return sign(number_rank(left), number_rank(right))
    if name == "STRING":
        return sign(left.encode(), right.encode())
    if name == "ARRAY":
        pairs = (reference(*pair) for pair in zip(left, right, strict=False))
        return next(filter(None, pairs), 0) or sign(len(left), len(right))
    if name == "OBJECT":
        flat = [list(itertools.chain(*sorted(value.items()))) for value in (left, right)]
        return reference(*flat)
    if name == "PTYPE<UUID>":
        return sign(left.bytes, right.bytes)
    return sign(left, right)


# Numbers near each other, so that many pairs differ only in what no double can hold.
landmarks = [
    0,
    1,
    2**53,
    2**63,
    2**64,
    2**1023,
    2**1024,
    2**1024 - 2**970,  # where rounding to a double begins to overflow
    10**400,
    math.inf,
    Decimal("0.1"),
    Decimal("1E-320"),  # denormal
    Decimal("1E-400"),
    Decimal("4.94065645841246544E-324"),
]
near_landmarks = st.builds(
    lambda mark, step, sign, shape: shape(sign * (mark + step)) if mark != math.inf else sign * mark,
    st.sampled_from(landmarks),
    st.integers(-3, 3),
    st.sampled_from([1, -1]),
    st.sampled_from([lambda number: number, lambda number: Decimal(number) / 2]),
)
doubles_as_decimals = st.builds(
    lambda number, more: Decimal(number) + Decimal(more),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["0", "1E-30", "-1E-30", "1E-1100", "-1E-1100"]),
)
numbers = st.one_of(
    st.integers(),
    st.integers(-5, 5),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False),
    near_landmarks,
    doubles_as_decimals,
)
texts = st.text(st.sampled_from("\x00\x01ab\xff\u0100\uffff\U0001f600"), max_size=4) | st.text()
offsets = st.one_of(st.just(UTC), st.integers(-86_399, 86_399).map(lambda s: timezone(timedelta(seconds=s))))
leaves = st.one_of(
    st.none(),
    st.booleans(),
    numbers,
    numbers,
    texts,
    st.binary(max_size=3),
    st.uuids(),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=offsets),
    st.sampled_from([minval, maxval]),
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def order(left: bytes, right: bytes) -> int:
    return (left > right) - (left < right)


@given(st.lists(values, min_size=2, max_size=8))
@settings(max_examples=examples(300), deadline=None)
def test_bytes_sort_as_values_do(several):
    expected = sorted(several, key=cmp_to_key(reference))

    assert [key_bytes(value) for value in expected] == sorted(map(key_bytes, several))


@given(numbers, numbers)
@settings(max_examples=examples(800), deadline=None)
def test_numbers_of_all_types_are_one_order(left, right):
    assert reference(left, right) == order(key_bytes(left), key_bytes(right))
    assert reference(left, right) == compare(left, right)


@given(values, values)
@settings(max_examples=examples(300), deadline=None)
def test_compare_agrees_with_the_order(left, right):
    assert reference(left, right) == compare(left, right)
    assert compare(left, left) == 0


@given(values, values)
@settings(max_examples=examples(300), deadline=None)
def test_no_key_begins_another(left, right):
    left_bytes, right_bytes = key_bytes(left), key_bytes(right)

    assert left_bytes == right_bytes or not right_bytes.startswith(left_bytes)


@given(texts, texts, values, values)
@settings(max_examples=examples(150), deadline=None)
def test_keys_written_one_after_the_other_sort_as_pairs(a, b, c, d):
    expected = reference([a, c], [b, d])

    assert expected == order(key_bytes(a) + key_bytes(c), key_bytes(b) + key_bytes(d))


@given(values)
@settings(max_examples=examples(300), deadline=None)
def test_the_value_comes_back_from_the_bytes(value):
    back = key_value(key_bytes(value))

    assert reference(value, back) == 0
    assert key_bytes(value) == key_bytes(back)


@given(
    st.lists(
        st.builds(
            lambda sign, digits, exponent: Decimal((sign, digits, exponent)),
            st.integers(0, 1),
            st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple),
            st.integers(-MAX_DECIMAL_EXPONENT, MAX_DECIMAL_EXPONENT)
            | st.integers(-420, 420)
            | st.sampled_from([-MAX_DECIMAL_EXPONENT, MAX_DECIMAL_EXPONENT]),
        ),
        min_size=2,
        max_size=8,
    )
)
@settings(max_examples=examples(200), deadline=None)
def test_decimals_of_any_exponent_are_in_order_and_come_back(decimals):
    assert sorted(decimals) == [key_value(data) for data in sorted(map(key_bytes, decimals))]


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("10E+2000000", "10E+2000000"),
        ("1200E+2000000", "1200E+2000000"),
        ("1200E+1999999", "120E+2000000"),
        ("1" + "0" * 4_095 + "E+2000000", "1" + "0" * 4_095 + "E+2000000"),
        ("9" * 4_095 + "0E+2000000", "9" * 4_095 + "0E+2000000"),
        ("10E-2000000", "1E-1999999"),
        ("1" + "0" * 4_095 + "E-2000000", "1E-1995905"),
        ("9" * 4_096 + "E-2000000", "9" * 4_096 + "E-2000000"),
    ],
    ids=stable_id,
)
def test_a_decimal_of_the_largest_exponents_is_read_as_a_document_holds_it(sign, given, read):
    """Its bytes have no zeros at the end. Without these zeros `10E+2000000` would have an exponent beyond the limit."""
    value, expected = Decimal(sign + given), Decimal(sign + read)

    for wrapped, back in (
        (value, expected),
        ([[value], 1], [[expected], 1]),
        ({"a": value}, {"a": expected}),
    ):
        assert repr(back) == repr(key_value(key_bytes(wrapped)))
        assert back == decode_frozen(encode({"a": back}))["a"]


@pytest.mark.parametrize(("digits", "adjusted"), [("1", 2_004_096), ("1", 2**31 - 1), ("12", 2_010_000)])
def test_a_key_with_more_zeros_than_a_decimal_may_have_is_damage(digits, adjusted):
    pairs = bytes(byte + 1 for byte in bytes.fromhex(digits + "0" * (len(digits) % 2)))
    rest = b"\xc0" + struct.pack(">I", adjusted + 2**31) + pairs + b"\x00"

    with pytest.raises(CorruptDatabase, match="the limit is"):
        key_value(key_bytes(sys.float_info.max)[:-1] + rest)


@pytest.mark.parametrize(
    "text", ["10E+2000000", "-10E+2000000", "10E-2000000", "-1" + "0" * 4_095 + "E+2000000"]
)
def test_documents_have_the_most_extreme_decimals_as_keys_and_in_indexes(db, text):
    value = Decimal(text)
    table = db.table_create("numbers")
    table.index_create("size")
    table.index_create("sizes", multi=True)
    for key in (value, [[value]]):
        table.insert({"id": key, "size": [key], "sizes": [value, 0]})

        assert key == table.get(key).run()["id"]
        assert [key] == [one["id"] for one in table.get_all([key], index="size").run()]
    assert [[[value]], value] == [one["id"] for one in table.order_by(index="size").run()]
    assert 2 == table.get_all(value, index="sizes").count().run()
    assert sorted([0, value]) == sorted(table.distinct(index="sizes").run())


LADDER = [
    minval,
    [],
    [minval],
    [[]],
    [False],
    [1],
    [1, minval],
    [1, 2],
    [1, maxval],
    [2],
    [maxval],
    False,
    True,
    None,
    -math.inf,
    Decimal("-1E+2000000"),
    -(10**400),
    -(2**1024),
    -(2**1024 - 2**970),
    -sys.float_info.max,
    -(2**64) - 1,
    -(2**64),
    -(2**53) - 1,
    float(-(2**53)),
    -(2**53) + 1,
    -1.5,
    -1,
    Decimal("-0.1000000000000000055511151231257827021181583404541015626"),
    -0.1,
    Decimal("-0.1"),
    -sys.float_info.min,
    -5e-324,
    Decimal("-1E-400"),
    Decimal("-1E-2000000"),
    0,
    Decimal("1E-2000000"),
    Decimal("1E-400"),
    5e-324,
    sys.float_info.min,
    Decimal("0.1"),
    0.1,
    1,
    Decimal("1.0000000000000000000001"),
    2**53 - 1,
    2.0**53,
    2**53 + 1,
    2**53 + 2,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    sys.float_info.max,
    2**1024 - 2**970 - 1,
    2**1024 - 2**970,
    2**1024 - 1,
    2**1024,
    10**400,
    10**400 + 1,
    Decimal("1E+1999999"),
    Decimal("1E+2000000"),
    math.inf,
    math.nan,
    {},
    {"a": 1},
    {"a": 1, "b": 1},
    {"a": 2},
    {"a\x00": 0},
    {"b": 0},
    b"",
    b"\x00",
    b"\x00\x00",
    b"\x00\x01",
    b"\x01",
    b"\xff",
    date.min,
    date.max,
    timedelta.min,
    timedelta(microseconds=-1),
    timedelta(0),
    timedelta.max,
    time.min,
    time.max,
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    UUID(int=0),
    UUID(int=2**128 - 1),
    "",
    "\x00",
    "\x00\x00",
    "\x00\x01",
    "\x00a",
    "\x01",
    "a",
    "a\x00",
    "a\x00b",
    "a\x01",
    "aa",
    "ab",
    "b",
    "\x7f",
    "\xff",
    "\ud7ff",
    "\uffff",
    "\U00010000",
    maxval,
]


def test_the_ladder_stands_in_order():
    """Each boundary, lowest first: every value is below all that follow."""
    keys = [key_bytes(value) for value in LADDER]

    assert keys == sorted(set(keys))
    for (i, left), (j, right) in itertools.product(enumerate(LADDER), repeat=2):
        assert sign(i, j) == compare(left, right), (left, right)


@pytest.mark.parametrize("value", LADDER, ids=stable_id)
def test_each_step_of_the_ladder_comes_back(value):
    back = key_value(key_bytes(value))

    assert compare(value, back) == 0
    assert key_bytes(value) == key_bytes(back)


@pytest.mark.parametrize(
    "equal",
    [
        (0, 0.0, -0.0, Decimal(0), Decimal("-0"), Decimal("0E+5")),
        (1, 1.0, Decimal("1.00")),
        (2**70, 2.0**70, Decimal(2**70)),
        (2**70 + 1, Decimal(2**70 + 1)),
        (0.1, Decimal(0.1)),  # noqa: RUF032 - the double's own digits are meant
        (10**400, Decimal("1E+400")),
        (math.nan, -math.nan),
        ([1, (2,)], (1, [2.0])),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (b"x", bytearray(b"x"), memoryview(b"x")),
        (
            datetime(2024, 1, 1, 12, tzinfo=UTC),
            datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))),
        ),
    ],
    ids=stable_id,
)
def test_equal_values_have_one_key(equal):
    assert {key_bytes(equal[0])} == {key_bytes(value) for value in equal}
    assert all(compare(left, right) == 0 for left, right in itertools.product(equal, repeat=2))


def test_the_decimal_context_of_the_thread_has_no_part_in_the_order():
    values = [value for value in LADDER if type_name(value) == "NUMBER"]
    keys = [key_bytes(value) for value in values]
    with localcontext(Context(prec=2, capitals=0, traps=[FloatOperation, Inexact, Rounded])):
        assert keys == [key_bytes(value) for value in values]
        assert keys == [key_bytes(key_value(key)) for key in keys]


def test_a_bool_is_no_number():
    assert compare(True, 0) == -1
    assert compare(1, True) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, 1),
        (Decimal("2.0"), 2),
        (2**70 + 1, 2**70 + 1),
        (Decimal(2**70 + 1), 2**70 + 1),
        (10**400, 10**400),
        (0.5, 0.5),
        (Decimal("0.5"), 0.5),
        (Decimal("0.10"), Decimal("0.1")),
        (Decimal("1E+2000000"), Decimal("1E+2000000")),
        ((1, "a"), [1, "a"]),
    ],
    ids=stable_id,
)
def test_a_number_comes_back_in_its_plainest_exact_type(value, expected):
    back = key_value(key_bytes(value))

    assert expected == back
    assert type(expected) is type(back)


class Rank(enum.IntEnum):
    HIGH = 3


class Name(enum.StrEnum):
    ADA = "ada"


@pytest.mark.parametrize(("value", "expected"), [(Rank.HIGH, 3), (Name.ADA, "ada"), (freeze([{}]), [{}])])
def test_a_subclass_sorts_as_its_base(value, expected):
    assert key_bytes(expected) == key_bytes(value)
    assert type_name(expected) == type_name(value)


def test_a_decoded_document_is_a_value():
    document = {"a": [1, {"b": None}]}

    assert key_bytes(document) == key_bytes(decode_frozen(encode(document)))


# ------------------------------------------------------------------------------------------------------------
# What is no value

SELF: list[Any] = []
SELF.append(SELF)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({1}, "type builtins.set has no place"),
        (object(), "type builtins.object has no place"),
        (1j, "no place"),
        ({1: 2}, "names are str"),
        ({1: 2, "a": 3}, "names are str"),
        ("\ud800", "lone surrogate"),
        ({"\ud800": 1}, "lone surrogate"),
        (datetime(2024, 1, 1), "without a time zone"),
        (time(1, tzinfo=UTC), "no time zone"),
        (Decimal("NaN"), "finite"),
        (Decimal("Infinity"), "finite"),
        (Decimal("1E+2000001"), "exponent"),
        (Decimal("1" * (MAX_DECIMAL_DIGITS + 1)), "digits"),
        (2**MAX_INT_BITS, "the limit is 8,191"),
        (SELF, "inside itself"),
    ],
    ids=stable_id,
)
def test_what_is_no_value_has_no_key(value, reason):
    for wrapped in (value, [value], {"a": [value]}):
        with pytest.raises(InvalidKey, match=reason):
            key_bytes(wrapped)
        with pytest.raises(InvalidKey, match=reason):
            compare(wrapped, None)


def test_what_is_no_value_has_no_type():
    with pytest.raises(InvalidKey):
        type_name({1})


def test_the_deepest_value_has_a_key():
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]

    assert value == key_value(key_bytes(value))
    with pytest.raises(InvalidKey, match="100 levels"):
        key_bytes([value])


def test_the_longest_numbers_have_keys():
    for value in (2**MAX_INT_BITS - 1, -(2**MAX_INT_BITS) + 1, Decimal("0." + "7" * MAX_DECIMAL_DIGITS)):
        assert value == key_value(key_bytes(value))


# ------------------------------------------------------------------------------------------------------------
# Keys of documents and entries of indexes


@given(values)
@settings(max_examples=examples(200), deadline=None)
@example(["a", [1, None]])
@example([math.nan])
def test_what_can_be_a_primary_key_can_be_indexed_and_the_other_way_round(value):
    try:
        data = primary_key_bytes(value)
    except InvalidKey:
        data = None

    assert index_key_bytes(value) == data
    assert data is None or data == key_bytes(value)


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (
            None,
            "Primary keys must be either a number, string, bool, pseudotype or array (got type NULL):\nnull",
        ),
        (
            {},
            "Primary keys must be either a number, string, bool, pseudotype or array (got type OBJECT):\n{}",
        ),
        (
            {"x": 1},
            "Primary keys must be either a number, string, bool, pseudotype or array (got type OBJECT):\n"
            '{\n\t"x":\t1\n}',
        ),
        (
            [1, [None]],
            "Array keys can only contain numbers, strings, bools,  pseudotypes, or arrays "
            "(got null of type NULL).",
        ),
        (
            [{"x": 1}],
            "Array keys can only contain numbers, strings, bools,  pseudotypes, or arrays "
            '(got {\n\t"x":\t1\n} of type OBJECT).',
        ),
        (math.nan, "Non-finite number: nan"),
        ([-math.inf], "Non-finite number: -inf"),
        (minval, "`r.minval` and `r.maxval` cannot be written to disk."),
        ([1, maxval], "`r.minval` and `r.maxval` cannot be written to disk."),
    ],
    ids=stable_id,
)
def test_what_cannot_be_a_key_is_refused_in_reqls_words(key, sentence):
    with pytest.raises(InvalidKey) as refusal:
        primary_key_bytes(key)

    assert sentence == str(refusal.value)
    assert index_key_bytes(key) is None


def test_the_longest_key_is_accepted_and_a_byte_more_is_not():
    longest = "x" * (MAX_KEY_BYTES - 3)

    assert MAX_KEY_BYTES == len(primary_key_bytes(longest))
    with pytest.raises(InvalidKey) as refusal:
        primary_key_bytes(longest + "x")
    assert f'Primary key too long (max 1024 bytes): "{"x" * 99}...' == str(refusal.value)


def test_a_much_too_long_key_is_not_repeated_in_full():
    with pytest.raises(InvalidKey) as refusal:
        primary_key_bytes("x" * 1_000_000)

    assert len(str(refusal.value)) < 200


def test_an_index_entry_may_be_long():
    assert key_bytes("x" * 5_000) == index_key_bytes("x" * 5_000)


# ------------------------------------------------------------------------------------------------------------
# The bounds


@pytest.mark.parametrize(("bound", "name"), [(minval, "minval"), (maxval, "maxval")])
def test_a_bound_is_the_only_one_of_its_name(bound, name):
    assert name == repr(bound)
    assert copy.deepcopy(bound) is bound
    assert pickle.loads(pickle.dumps(bound)) is bound


def test_a_bound_cannot_be_stored():
    with pytest.raises(InvalidDocument, match=r"`r.minval` and `r.maxval` cannot be written to disk\."):
        encode({"a": [minval]})


# ------------------------------------------------------------------------------------------------------------
# Bytes that are no key


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x02",
        b"\xff",
        key_bytes(1) + b"\x00",
        key_bytes("abc")[:-1],
        key_bytes([1])[:-1],
        key_bytes({"a": 1})[:-1],
        b"\x40\x28\x28\x00",
        key_bytes(1)[:-1] + b"\x7f",
        key_bytes(2**70 + 1)[:-1],
        key_bytes(0.5)[:5],
        key_bytes(date.max)[:-1],
        b"\x58" + bytes(4),
        b"\x68" + b"\xff" * 8,
        b"\x70" + b"\xff" * 8,
        key_bytes(UUID(int=5))[:-1],
        b"\xf0\xff\x00\x01",
        b"\x10" * 100_000,
    ],
    ids=lambda data: data.hex()[:30] or "nothing",
)
def test_bytes_that_are_no_key_are_corruption(data):
    with pytest.raises(CorruptDatabase):
        key_value(data)


@given(values, st.data())
@settings(max_examples=examples(300), deadline=None)
def test_damaged_keys_are_corruption_or_another_value(value, data):
    damaged = bytearray(key_bytes(value))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))

    try:
        back = key_value(bytes(damaged))
    except CorruptDatabase:
        return
    # Among others a value of a type that nobody has registered.
    assert isinstance(back, UnknownValue) or type_name(back) in TYPE_ORDER


# ------------------------------------------------------------------------------------------------------------
# Damaged bytes

_NUMBERS = st.builds(
    lambda sign_and_bits, marker, exponent, digits, end: (
        b"\x30" + struct.pack(">Q", sign_and_bits) + marker + struct.pack(">I", exponent) + digits + end
    ),
    st.integers(0, 2**64 - 1)
    | st.floats(allow_nan=False).map(lambda number: int.from_bytes(struct.pack(">d", number))),
    st.sampled_from([b"\x40", b"\xc0"]),
    st.integers(0, 2**32 - 1) | st.sampled_from([0, 1, 2**31 - 2_000_000, 2**31, 2**32 - 1]),
    st.binary(min_size=1, max_size=24),
    st.sampled_from([b"", b"\x00", b"\xff"]),
)


def read_or_refuse(read: Any, *arguments: Any) -> float:
    """The seconds of computing that it took."""
    began = clock.thread_time()
    try:
        read(*arguments)
    except (CorruptDatabase, ValueError):
        pass
    return clock.thread_time() - began


@settings(max_examples=examples(300), deadline=None)
@given(_NUMBERS | st.binary(max_size=40) | st.binary(max_size=20).map(lambda data: b"\x10" + data))
@example(b"\x30" + struct.pack(">d", -1.0) + b"\xc0" + bytes(4) + b"\x02\x13\x13\x00")
@example(b"\x30" + struct.pack(">d", -1e300) + b"\xc0" + struct.pack(">I", 2**31 - 10**8) + b"\x02\x13\x00")
def test_damaged_bytes_of_a_key_are_read_or_refused_at_once(data: bytes) -> None:
    """The rest of a number may say that it lies a billion digits away from it; adding the two took seconds."""
    assert read_or_refuse(key_value, data) < 0.3


@pytest.mark.parametrize(
    ("part", "before", "behind"),
    [
        (b"\x80\x00\x01", b"\x10", b"\x00"),
        (b"\x28", b"\x10", b"\x00"),
        (b"\x13", b"\x30" + struct.pack(">d", -1.0) + b"\xc0\x80\x00\x00\x00", b"\x00"),
        (b"\x10", b"", b""),
    ],
)
def test_bytes_of_a_key_are_read_in_time_linear_in_their_number(
    part: bytes, before: bytes, behind: bytes
) -> None:
    assert read_or_refuse(key_value, before + part * 200_000 + behind) < 2


@pytest.mark.parametrize("text", ["1E+999999999", "1E-999999999", "1" * 4_097, "1E+2000001"])
def test_a_decimal_that_no_document_may_hold_is_damage_where_it_is_read(text: str) -> None:
    with pytest.raises(ValueError, match="the limit is"):
        read_extension(2, text.encode())


def test_the_rest_of_a_number_may_have_as_many_digits_as_a_decimal() -> None:
    for number in (
        Decimal("1." + "1" * 4_095),
        Decimal("5E-324") + Decimal(10) ** -390,
        Decimal("-1." + "0" * 4_000 + "7"),
    ):
        assert number == key_value(key_bytes(number))
