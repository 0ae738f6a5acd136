"""A stored value comes back equal, or is refused before it is stored, with its path."""

from __future__ import annotations

import copy
import enum
import json
import math
import pickle
import struct
import threading
from collections import OrderedDict, namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Context, Decimal, FloatOperation, Inexact, Rounded, localcontext
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.errors import CorruptDatabase, InvalidDocument
from reactdb.values.codec import (
    MAX_DECIMAL_DIGITS,
    MAX_DECIMAL_EXPONENT,
    MAX_DEPTH,
    MAX_DOCUMENT_BYTES,
    MAX_INT_BITS,
    FrozenDict,
    FrozenList,
    decode,
    decode_frozen,
    decode_value,
    encode,
    encode_value,
    freeze,
    pretty,
    same,
    same_bytes,
    thaw,
)
from tests.support.ids import stable_id
from tests.support.scaling import examples

# ------------------------------------------------------------------------------------------------------------
# Every value that a document may hold

offsets = st.one_of(st.just(UTC), st.integers(-86_399, 86_399).map(lambda s: timezone(timedelta(seconds=s))))
# A day from either end, so that the moment is within the years 1 to 9999 in UTC too.
datetimes = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=offsets)
decimals = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False),
    st.builds(
        lambda sign, digits, exponent: Decimal((sign, tuple(digits), exponent)),
        st.integers(0, 1),
        st.lists(st.integers(0, 9), min_size=1, max_size=40),
        st.integers(-MAX_DECIMAL_EXPONENT, MAX_DECIMAL_EXPONENT),
    ),
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**MAX_INT_BITS) + 1, 2**MAX_INT_BITS - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    decimals,
    st.uuids(),
    st.dates(),
    st.times(),
    st.timedeltas(),
    datetimes,
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(st.text(), values, max_size=8)


def types(value: Any) -> Any:
    """The value's shape in types: `==` alone takes 0, 0.0 and False for one."""
    if isinstance(value, dict):
        return {key: types(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [types(inner) for inner in value]
    return type(value)


@given(documents)
@settings(max_examples=examples(300), deadline=None)
def test_a_document_comes_back_equal(document):
    """decode(encode(document)) == document, type by type, and encodes to the same bytes."""
    data = encode(document)
    back = decode(data)

    assert document == back
    assert types(document) == types(back)
    assert data == encode(back)


@given(documents)
@settings(max_examples=examples(150), deadline=None)
def test_a_frozen_document_equals_the_plain_one(document):
    data = encode(document)
    frozen = decode_frozen(data)

    assert document == frozen
    assert data == encode(frozen)
    assert types(document) == types(thaw(frozen))


@given(values)
@settings(max_examples=examples(150), deadline=None)
def test_a_value_comes_back_equal(value):
    data = encode_value(value)

    assert value == decode_value(data)
    assert types(value) == types(decode_value(data))
    assert data == encode_value(decode_value(data))


@pytest.mark.parametrize(
    "value",
    [
        *(
            sign * 2**power + step
            for sign in (1, -1)
            for power in (7, 15, 31, 53, 63, 64)
            for step in (-1, 0, 1)
        ),
        2**MAX_INT_BITS - 1,
        -(2**MAX_INT_BITS) + 1,
        Decimal("1.10"),
        Decimal("-0"),
        Decimal("0E-30"),
        Decimal("1E+2000000"),
        Decimal("1E-2000000"),
        Decimal("9" * MAX_DECIMAL_DIGITS),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(-timedelta(hours=3, seconds=1))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=23))),
        datetime.min.replace(tzinfo=timezone(-timedelta(hours=23))),
        timedelta.min,
        timedelta.max,
        timedelta(microseconds=-1),
        date.min,
        date.max,
        time.min,
        time.max,
        "a\x00b",
        b"\x00\xff\xc4\xc5\xc6",
        "Ŝtrąće \N{GRINNING FACE}",
        -1,
        "",
        {"": {"": []}},
    ],
    ids=stable_id,
)
def test_the_edges_come_back_too(value):
    back = decode({"a": value} and encode({"a": value}))["a"]

    assert value == back
    assert type(value) is type(back)
    assert str(value) == str(back)


@pytest.mark.parametrize(
    "bits", [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000000, 0xFFF0000000000000]
)
def test_nan_and_the_infinities_are_kept_bit_for_bit(bits):
    (value,) = struct.unpack(">d", struct.pack(">Q", bits))

    assert struct.pack(">Q", bits) == struct.pack(">d", decode(encode({"x": value}))["x"])


def test_the_decimal_context_of_the_thread_has_no_part_in_the_bytes():
    value = Decimal("123456789.10E+50")
    data = encode({"v": value})
    with localcontext(Context(prec=2, capitals=0, traps=[FloatOperation, Inexact, Rounded])):
        assert data == encode({"v": value})
        assert str(value) == str(decode(data)["v"])
        assert pretty(value) == "1.2345678910E+58"


def test_negative_zero_keeps_its_sign():
    assert math.copysign(1, decode(encode({"x": -0.0}))["x"]) == -1


def test_a_named_time_zone_becomes_its_offset_at_that_moment():
    summer = datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    back = decode(encode({"at": summer}))["at"]

    assert summer == back
    assert timedelta(hours=2) == back.utcoffset()


@pytest.mark.parametrize("fold", [0, 1])
def test_both_passes_of_the_hour_at_the_end_of_summer_time_are_kept(fold):
    at = datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=ZoneInfo("Europe/Berlin"))

    assert at.astimezone(UTC) == decode(encode({"at": at}))["at"].astimezone(UTC)


def test_utc_comes_back_as_utc_itself():
    at = datetime(2024, 7, 1, tzinfo=ZoneInfo("UTC"))

    assert decode(encode({"at": at}))["at"].tzinfo is UTC


# ------------------------------------------------------------------------------------------------------------
# Spellings that become the common one


class Color(enum.IntEnum):
    RED = 1


class Size(enum.StrEnum):
    LARGE = "L"


class Meters(float):
    pass


class Blob(bytes):
    pass


class Day(date):
    pass


class Money(Decimal):
    pass


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        ((1, (2,)), [1, [2]]),
        (Point(1, 2), [1, 2]),
        (Color.RED, 1),
        (Size.LARGE, "L"),
        (Meters(1.5), 1.5),
        (Blob(b"x"), b"x"),
        (bytearray(b"x"), b"x"),
        (memoryview(b"abcdef")[::2], b"ace"),
        (Day(2024, 1, 2), date(2024, 1, 2)),
        (Money("1.50"), Decimal("1.50")),
        (OrderedDict(b=1, a=(Size.LARGE,)), {"b": 1, "a": ["L"]}),
        ({Size.LARGE: 1}, {"L": 1}),
        (freeze({"a": [{"b": 1}]}), {"a": [{"b": 1}]}),
    ],
    ids=stable_id,
)
def test_a_subclass_comes_back_as_its_base(given_value, expected):
    back = decode(encode({"v": given_value}))["v"]

    assert expected == back
    assert types(expected) == types(back)
    assert expected == decode(encode({"v": given_value, "at": datetime.now(UTC)}))["v"]


def test_the_caller_may_change_the_document_afterwards():
    document = {"tags": ["a"]}
    data = encode(document)
    document["tags"].append("b")

    assert decode(data) == {"tags": ["a"]}


def test_the_order_of_keys_is_kept():
    assert list(decode(encode({"b": 1, "a": 2}))) == ["b", "a"]


# ------------------------------------------------------------------------------------------------------------
# What is refused, and where


class BrokenZone(tzinfo):
    def utcoffset(self, moment: datetime | None) -> timedelta:
        raise ZeroDivisionError("no clock")


NAIVE = datetime(2024, 1, 1)
TOO_EARLY = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))
TOO_LATE = datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))
SPLIT_SECOND = datetime(2024, 1, 1, tzinfo=timezone(timedelta(microseconds=1)))

REFUSED = [
    ({1, 2}, "a set has no order"),
    (frozenset(), "a set has no order"),
    (1j, "type complex cannot be stored"),
    (object(), "type object cannot be stored"),
    (print, "cannot be stored"),
    (msgpack.ExtType(2, b"1"), "ExtType cannot be stored"),
    (msgpack.Timestamp(1, 2), "Timestamp cannot be stored"),
    (range(3), "type range cannot be stored"),
    ("a\ud800", "lone surrogate at character 1"),
    (NAIVE, "without a time zone"),
    (datetime(2024, 1, 1, tzinfo=BrokenZone()), "no clock"),
    (TOO_EARLY, "outside the years 1 to 9999"),
    (TOO_LATE, "outside the years 1 to 9999"),
    (SPLIT_SECOND, "whole seconds"),
    (time(1, 2, tzinfo=UTC), "a time of day has no time zone"),
    (Decimal("NaN"), "a Decimal is a finite number"),
    (Decimal("sNaN"), "a Decimal is a finite number"),
    (Decimal("-Infinity"), "a Decimal is a finite number"),
    (Decimal("1E+2000001"), "exponent 2,000,001"),
    (Decimal("9" * (MAX_DECIMAL_DIGITS + 1)), "digits; the limit is 4,096"),
    (2**MAX_INT_BITS, "8,192 bits; the limit is 8,191"),
    (-(2**MAX_INT_BITS), "8,192 bits; the limit is 8,191"),
]


@pytest.mark.parametrize(("value", "reason"), REFUSED, ids=stable_id)
def test_what_cannot_come_back_equal_is_refused_with_its_path(value, reason):
    for document, path in [
        ({"v": value}, ("v",)),
        ({"a": 1, "l": [0, {"v": value}]}, ("l", 1, "v")),
        ({"a": Decimal(1), "l": [(0, value)]}, ("l", 0, 1)),
    ]:
        with pytest.raises(InvalidDocument, match=reason) as refusal:
            encode(document)

        assert path == refusal.value.path


@pytest.mark.parametrize("key", [1, None, b"k", True, 1.5, ("a",), date.min], ids=stable_id)
def test_keys_that_are_not_str_are_refused_with_their_path(key):
    for document, path in [({key: 1}, ()), ({"a": [{key: 1}]}, ("a", 0)), ({"a": 1, key: {2}}, ())]:
        with pytest.raises(InvalidDocument, match="keys are str") as refusal:
            encode(document)

        assert path == refusal.value.path


def test_a_lone_surrogate_in_a_key_is_refused():
    with pytest.raises(InvalidDocument, match="in a key, the text has a lone surrogate") as refusal:
        encode({"a": {"\udc80": 1}})

    assert refusal.value.path == ("a",)


@pytest.mark.parametrize("document", [None, [], 1, "x", [("a", 1)]], ids=stable_id)
def test_only_a_dict_is_a_document(document):
    with pytest.raises(InvalidDocument, match="a document is a dict"):
        encode(document)


def nested(levels: int, container: str) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if container == "list" else {"a": value}
    return value


@pytest.mark.parametrize("container", ["list", "dict"])
def test_the_deepest_document_is_accepted(container):
    document = {"a": nested(MAX_DEPTH - 1, container)}

    assert document == decode(encode(document))
    assert document == decode_frozen(encode(document))


@pytest.mark.parametrize("container", ["list", "dict"])
@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1, 600, 100_000])
def test_one_level_more_is_refused(container, levels):
    with pytest.raises(InvalidDocument, match="nested more than 100 levels deep") as refusal:
        encode({"a": nested(levels, container)})

    assert MAX_DEPTH == len(refusal.value.path)


@pytest.mark.parametrize("value", [1, datetime.max.replace(tzinfo=UTC), Color.RED], ids=stable_id)
def test_a_document_inside_itself_is_refused(value):
    document: dict[str, Any] = {"v": value}
    document["self"] = [document]

    with pytest.raises(InvalidDocument, match="inside itself"):
        encode(document)


@pytest.mark.parametrize("leaf", [0, Color.RED, datetime(2024, 1, 1, tzinfo=UTC)], ids=stable_id)
def test_lists_that_share_lists_are_refused_soon(leaf):
    """2**60 leaves in sixty small lists."""
    value: Any = [leaf]
    for _ in range(60):
        value = [value, value]

    with pytest.raises(InvalidDocument, match="16,777,216 bytes"):
        encode({"a": value})


def test_a_container_may_be_held_in_many_places():
    shared = [Color.RED]
    value: Any = {"deep": nested(90, "list"), "a": [shared] * 1_000, "b": {"c": shared}}

    assert value == decode(encode(value))


@pytest.mark.parametrize("leaf", [0, Color.RED], ids=stable_id)
def test_a_shared_container_counts_at_its_deepest_place(leaf):
    shared = [[leaf]]
    deep: Any = shared
    for _ in range(98):
        deep = [deep]

    with pytest.raises(InvalidDocument, match="nested more than 100 levels deep"):
        encode({"a": shared, "b": deep})


@pytest.mark.parametrize("leaf", [0, Color.RED], ids=stable_id)
def test_a_document_of_many_values_is_accepted(leaf):
    document = {"a": [[leaf] * 1_000] * 200}

    assert document == decode(encode(document))


def test_the_largest_document_is_accepted_and_a_byte_more_is_not():
    room = MAX_DOCUMENT_BYTES - len(encode({"a": "x" * 70_000})) + 70_000
    largest = {"a": "x" * room}

    assert len(encode(largest)) == MAX_DOCUMENT_BYTES
    with pytest.raises(InvalidDocument, match="16,777,217 bytes when encoded; the limit is 16,777,216"):
        encode({"a": "x" * (room + 1)})


def test_a_refused_document_leaves_nothing_behind_for_the_next():
    with pytest.raises(InvalidDocument):
        encode({"a": 1, "b": "\ud800"})

    assert decode(encode({"a": 1})) == {"a": 1}


def test_threads_do_not_disturb_each_other():
    document = {"id": 1, "text": "x" * 300, "at": datetime(2024, 1, 1, tzinfo=UTC), "tags": ["a"] * 20}
    expected = encode(document)
    heard: list[set[bytes]] = []

    def work() -> None:
        heard.append({encode(document) for _ in range(2_000)})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [{expected}] * 4 == heard


def test_a_time_zone_may_itself_encode():
    """User code that runs in the middle of `encode` gets its own buffer."""

    class Meddling(tzinfo):
        def utcoffset(self, moment: datetime | None) -> timedelta:
            encode({"in": "between"})
            return timedelta(hours=1)

    at = datetime(2024, 1, 1, tzinfo=Meddling())

    assert {"a": 1, "at": at, "b": 2} == decode(encode({"a": 1, "at": at, "b": 2}))


# ------------------------------------------------------------------------------------------------------------
# Bytes that are not ours


def ext(code: int, data: bytes) -> bytes:
    return msgpack.packb({"a": msgpack.ExtType(code, data)})


ALIEN = {
    "nothing": b"",
    "cut short": encode({"a": "hello"})[:-1],
    "bytes behind": encode({"a": 1}) + b"\xc0",
    "reserved byte": b"\x81\xa1a\xc1",
    "not UTF-8": b"\x81\xa1a\xa1\xff",
    "int key": msgpack.packb({1: 2}),
    "null key": msgpack.packb({None: 2}),
    "bytes key": msgpack.packb({b"k": 2}),
    "bytes key inside": msgpack.packb({"a": [{b"k": 2}]}),
    "map key": b"\x81\x80\x01",
    "list": msgpack.packb([1]),
    "number": msgpack.packb(1),
    "timestamp": msgpack.packb({"a": msgpack.Timestamp(1, 0)}),
    "long timestamp": msgpack.packb({"a": [msgpack.Timestamp(2**40, 7)]}),
    "unknown extension": ext(8, b""),
    "unknown negative extension": b"\x81\xa1a\xc7\x01\x80x",
    "small big int": ext(1, (5).to_bytes(9, "big")),
    "long big int": ext(1, (2**70).to_bytes(20, "big")),
    "huge big int": ext(1, b"\x01" * 1_025),
    "decimal NaN": ext(2, b"NaN"),
    "decimal prose": ext(2, b"one"),
    "decimal other spelling": ext(2, b"+1"),
    "decimal not ASCII": ext(2, "\N{ARABIC-INDIC DIGIT ONE}".encode()),
    "short UUID": ext(3, b"123"),
    "day 0": ext(4, bytes(4)),
    "day beyond": ext(4, b"\xff" * 4),
    "time beyond": ext(5, b"\xff" * 8),
    "timedelta unnormalised": ext(6, struct.pack(">iII", 0, 86_400, 0)),
    "timedelta beyond": ext(6, struct.pack(">iII", 2**31 - 1, 0, 0)),
    "datetime beyond": ext(7, struct.pack(">q", 2**62)),
    "datetime with zero offset": ext(7, struct.pack(">qi", 0, 0)),
    "datetime with absurd offset": ext(7, struct.pack(">qi", 0, 86_400)),
    "datetime of five bytes": ext(7, b"12345"),
    "deep": b"\x91" * 5_000 + b"\xc0",
    "array that promises much": b"\x81\xa1a\xdd\xff\xff\xff\xff",
}


@pytest.mark.parametrize("read", [decode, decode_frozen])
@pytest.mark.parametrize("data", ALIEN.values(), ids=ALIEN.keys())
def test_bytes_that_are_no_document_are_corruption(data, read):
    with pytest.raises(CorruptDatabase):
        read(data)


@given(documents, st.data())
@settings(max_examples=examples(300), deadline=None)
def test_damaged_bytes_are_corruption_or_another_value(document, data):
    """Never another error, and what is decoded can be encoded."""
    damaged = bytearray(encode(document))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))

    for read in (decode, decode_frozen):
        try:
            back = read(bytes(damaged))
        except CorruptDatabase:
            continue
        encode(back)


# ------------------------------------------------------------------------------------------------------------
# Shared documents

DICT_CHANGES = {
    "d[k] = v": lambda d: d.__setitem__("a", 1),
    "del d[k]": lambda d: d.__delitem__("a"),
    "clear": lambda d: d.clear(),
    "pop": lambda d: d.pop("a"),
    "popitem": lambda d: d.popitem(),
    "setdefault": lambda d: d.setdefault("a", 1),
    "update": lambda d: d.update(a=1),
    "|=": lambda d: d.__ior__({"a": 1}),
}
LIST_CHANGES = {
    "l[i] = v": lambda li: li.__setitem__(0, 1),
    "l[:] = v": lambda li: li.__setitem__(slice(None), []),
    "del l[i]": lambda li: li.__delitem__(0),
    "+=": lambda li: li.__iadd__([1]),
    "*=": lambda li: li.__imul__(2),
    "append": lambda li: li.append(1),
    "clear": lambda li: li.clear(),
    "extend": lambda li: li.extend([1]),
    "insert": lambda li: li.insert(0, 1),
    "pop": lambda li: li.pop(),
    "remove": lambda li: li.remove(1),
    "reverse": lambda li: li.reverse(),
    "sort": lambda li: li.sort(),
}


@pytest.mark.parametrize("change", DICT_CHANGES.values(), ids=DICT_CHANGES.keys())
def test_a_frozen_dict_refuses_to_be_changed(change):
    frozen = freeze({"a": 0})
    with pytest.raises(TypeError, match=r"shared by all readers of the feed; change a copy: reactdb\.thaw"):
        change(frozen)

    assert frozen == {"a": 0}


@pytest.mark.parametrize("change", LIST_CHANGES.values(), ids=LIST_CHANGES.keys())
def test_a_frozen_list_refuses_to_be_changed(change):
    frozen = freeze([1, 0])
    with pytest.raises(TypeError, match=r"shared by all readers of the feed; change a copy: reactdb\.thaw"):
        change(frozen)

    assert frozen == [1, 0]


@pytest.mark.parametrize(("frozen", "plain"), [(FrozenDict, dict), (FrozenList, list)])
def test_every_method_that_changes_is_refused(frozen, plain):
    """What mutates is known by its absence from the immutable sibling, or from object."""
    harmless = {"copy", "fromkeys", "get", "items", "keys", "values", "count", "index"}
    harmless |= {"__init__", "__reversed__", "__class_getitem__", "__or__", "__ror__", "__add__", "__mul__"}
    harmless |= {"__rmul__", "__contains__", "__getitem__", "__iter__", "__len__"}
    mutators = {name for name in dir(plain) if name not in dir(object) and name not in harmless}

    assert {"pop", "__delitem__", "__setitem__"} < mutators
    assert all(getattr(frozen, name) is not getattr(plain, name) for name in mutators)


def frozen_example() -> tuple[dict[str, Any], FrozenDict]:
    plain = {"a": [1, {"b": [2]}], "c": {"d": "e"}}
    return plain, decode_frozen(encode(plain))


def test_frozen_goes_all_the_way_down():
    _, frozen = frozen_example()

    assert (FrozenList, FrozenDict) == (type(frozen["a"]), type(frozen["a"][1]))
    assert (FrozenList, FrozenDict) == (type(frozen["a"][1]["b"]), type(frozen["c"]))


@pytest.mark.parametrize(
    "copied",
    [
        thaw,
        copy.deepcopy,
        lambda frozen: pickle.loads(pickle.dumps(frozen)),
        lambda frozen: pickle.loads(pickle.dumps(frozen, protocol=0)),
        lambda frozen: json.loads(json.dumps(frozen)),
    ],
    ids=["thaw", "deepcopy", "pickle", "old pickle", "json"],
)
def test_a_deep_copy_is_plain(copied):
    plain, frozen = frozen_example()

    assert plain == copied(frozen)
    assert types(plain) == types(copied(frozen))


@pytest.mark.parametrize("copied", [copy.copy, lambda frozen: frozen.copy(), lambda frozen: frozen | {}])
def test_a_shallow_copy_of_a_frozen_dict_is_a_dict(copied):
    _, frozen = frozen_example()

    assert dict is type(copied(frozen))
    assert frozen == copied(frozen)


@pytest.mark.parametrize("copied", [copy.copy, lambda frozen: frozen.copy(), lambda frozen: frozen[:]])
def test_a_shallow_copy_of_a_frozen_list_is_a_list(copied):
    frozen = freeze([1, [2]])

    assert list is type(copied(frozen))
    assert frozen == copied(frozen)


# ------------------------------------------------------------------------------------------------------------
# Equality


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (0, 0.0),
        (0, False),
        (1, True),
        (0.0, -0.0),
        (1, Decimal(1)),
        (Decimal("1.0"), Decimal("1.00")),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        (
            datetime(2024, 1, 1, tzinfo=UTC),
            datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        ),
    ],
)
def test_what_is_stored_differently_is_not_the_same(left, right):
    assert not same(left, right)
    assert not same({"v": [left]}, {"v": [right]})


def test_nan_is_the_same_as_itself():
    assert same({"x": math.nan}, {"x": float("nan")})


def test_a_tuple_is_the_same_as_its_list():
    assert same({"x": (1, 2)}, freeze({"x": [1, 2]}))


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(inner) for inner in value] if isinstance(value, list) else value


@given(documents)
@settings(max_examples=examples(150), deadline=None)
def test_the_order_of_keys_does_not_matter_to_same(document):
    other = reversed_keys(document)

    assert same(document, other)
    assert same_bytes(encode(document), encode(other))


@given(documents, documents)
@settings(max_examples=examples(100), deadline=None)
def test_same_is_no_wider_than_equality(left, right):
    assert not same(left, right) or left == right


# ------------------------------------------------------------------------------------------------------------
# Printing


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"id": 1}, '{\n\t"id":\t1\n}'),
        ({"x": 1, "id": 7}, '{\n\t"id":\t7,\n\t"x":\t1\n}'),
        (
            {"tags": ["p", "q"], "id": 1, "a": 1, "b": "x"},
            '{\n\t"a":\t1,\n\t"b":\t"x",\n\t"id":\t1,\n\t"tags":\t[\n\t\t"p",\n\t\t"q"\n\t]\n}',
        ),
        ({}, "{}"),
        ([], "[]"),
        ({"tags": []}, '{\n\t"tags":\t[]\n}'),
        (None, "null"),
        (True, "true"),
        (1.0, "1"),
        (-0.5, "-0.5"),
        (1e300, "1e+300"),
        (10**30, "1" + "0" * 30),
        (Decimal("1.50"), "1.50"),
        ('say "ü"\n', '"say \\"ü\\"\\n"'),
        (b"abc", '{\n\t"$reql_type$":\t"BINARY",\n\t"data":\t"YWJj"\n}'),
        (
            datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
            '{\n\t"$reql_type$":\t"TIME",\n\t"epoch_time":\t1.5,\n\t"timezone":\t"+00:00"\n}',
        ),
        (UUID(int=1), '{\n\t"$reql_type$":\t"UUID",\n\t"uuid":\t"00000000-0000-0000-0000-000000000001"\n}'),
        (timedelta(seconds=1.5), '{\n\t"$reql_type$":\t"DURATION",\n\t"seconds":\t1.5\n}'),
        (date(2024, 1, 2), '{\n\t"$reql_type$":\t"DATE",\n\t"date":\t"2024-01-02"\n}'),
        (time(1, 2), '{\n\t"$reql_type$":\t"LOCALTIME",\n\t"time":\t"01:02:00"\n}'),
    ],
    ids=stable_id,
)
def test_values_are_printed_as_reql_prints_them(value, text):
    assert text == pretty(value)


@given(documents)
@settings(max_examples=examples(100), deadline=None)
def test_every_document_can_be_printed(document):
    assert pretty(document).startswith("{")
