"""Values of documents as Arrow arrays: no value is changed silently, for any type, in any place. Without Spark."""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql import types as t
from pyspark.sql.variant_utils import VariantUtils

from reactdb.arrow.arrays import Misfit
from reactdb.arrow.decoding import decode_many
from reactdb.arrow.documents import Rows
from reactdb.arrow.keys import key_values, texts
from reactdb.arrow.variant import variant_of
from reactdb.errors import InvalidOption, SchemaMismatch
from reactdb.json import dumps_plain, plain_text
from reactdb.spark.types import (
    arrow_schema,
    arrow_type,
    column_for,
    document_column,
    infer_documents,
    spark_field,
    spark_type,
)
from reactdb.values.codec import UnknownValue, encode
from reactdb.values.collation import key_bytes, key_value
from reactdb.values.value_types import is_registered
from tests.support.registered_types import Exact, Mark, Release

WHEN = datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
ID = UUID("0193d3a1-7c3e-7000-9d0c-4c1f7f8d1b2a")


# A value of a type that nobody has registered has no place in the order of keys.
NO_KEYS = (type(None), UnknownValue)


def ddl(text: str) -> Any:
    """A Spark type from its words, without a session."""
    simple = {
        "boolean": t.BooleanType(),
        "tinyint": t.ByteType(),
        "int": t.IntegerType(),
        "bigint": t.LongType(),
        "float": t.FloatType(),
        "double": t.DoubleType(),
        "decimal(5,2)": t.DecimalType(5, 2),
        "decimal(38,0)": t.DecimalType(38, 0),
        "string": t.StringType(),
        "binary": t.BinaryType(),
        "date": t.DateType(),
        "timestamp": t.TimestampType(),
        "interval": t.DayTimeIntervalType(),
        "time": t.TimeType(),
        "void": t.NullType(),
        "variant": t.VariantType(),
    }
    return simple[text]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("boolean", True),
        ("tinyint", -128),
        ("int", 2**31 - 1),
        ("bigint", -(2**63)),
        ("float", 0.5),
        ("float", 3),
        ("double", 0.1),
        ("double", 2**53),
        ("decimal(5,2)", Decimal("-1.20")),
        ("decimal(5,2)", 7),
        ("decimal(38,0)", 10**37),
        ("string", "é\0"),
        ("binary", b"\xff\0"),
        ("date", date(1, 1, 1)),
        ("timestamp", WHEN),
        ("timestamp", datetime(1, 1, 1, tzinfo=UTC)),
        ("timestamp", datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("interval", timedelta(days=-3, microseconds=1)),
        ("time", time(23, 59, 59, 999_999)),
    ],
)
def test_a_value_that_its_type_holds_comes_back_equal(type_, value):
    array = column_for(ddl(type_)).convert([None, value, None])

    assert [None, value, None] == array.to_pylist()


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("boolean", 1),
        ("tinyint", 128),
        ("int", 2**31),
        ("bigint", 1.5),
        ("bigint", 1.0),
        ("bigint", True),
        ("bigint", 2**63),
        ("bigint", Decimal(1)),
        ("float", 0.1),
        ("float", 2**25 + 1),
        ("double", True),
        ("double", 2**53 + 1),
        ("double", Decimal("0.5")),
        ("decimal(5,2)", Decimal("1.234")),
        ("decimal(5,2)", Decimal(1000)),
        ("decimal(5,2)", 1000),
        ("decimal(5,2)", 1.5),
        ("binary", "text"),
        ("date", datetime(2026, 1, 1, tzinfo=UTC)),
        ("timestamp", date(2026, 1, 1)),
        ("interval", 5),
        ("interval", timedelta.max),
        ("time", "12:00"),
        ("void", 0),
    ],
)
def test_a_value_that_its_type_does_not_hold_is_a_misfit(type_, value):
    column = column_for(ddl(type_))

    with pytest.raises(Misfit) as caught:
        column.convert([None, value])
    array, misfits = column.fit([None, value])

    assert [None, None] == array.to_pylist()
    assert {1: str(caught.value)} == {place: str(misfit) for place, misfit in misfits.items()}
    assert value is misfits[1].rest


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (1, "1"),
        (True, "true"),
        (1.5, "1.5"),
        (math.inf, "Infinity"),
        (Decimal("1.50"), "1.50"),
        (ID, str(ID)),
        (date(2026, 1, 31), "2026-01-31"),
        (WHEN, "2026-01-31T12:00:00.000005+02:00"),
        (b"\xff", "/w=="),
        (Release(1, 10), "1.10"),
        (UnknownValue(50, b"x"), "extension 50: 78"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
    ],
)
def test_a_column_of_strings_takes_anything_as_the_text_that_says_it(value, text):
    assert [text, None] == column_for(t.StringType()).convert([value, None]).to_pylist()


def test_a_string_that_was_inferred_takes_strings_alone():
    with pytest.raises(Misfit, match=r"s: 17 is not string"):
        column_for(t.StructType([t.StructField("s", t.StringType())]), is_complete=True).convert([{"s": 17}])


NESTED = t.StructType(
    [
        t.StructField("id", t.LongType()),
        t.StructField("tags", t.ArrayType(t.StringType())),
        t.StructField(
            "at", t.StructType([t.StructField("x", t.DoubleType()), t.StructField("y", t.LongType())])
        ),
        t.StructField("counts", t.MapType(t.StringType(), t.ArrayType(t.LongType()))),
    ]
)


def test_nested_documents_come_back_equal():
    documents = [
        {"id": 1, "tags": ["a", None], "at": {"x": 0.5, "y": 1}, "counts": {"k": [1, 2], "l": []}},
        None,
        {"id": 2, "tags": [], "at": None, "counts": {}},
        {"id": 3, "tags": None, "at": {"x": None, "y": 2}, "counts": None},
    ]

    array = column_for(NESTED).convert(documents)
    array.validate(full=True)

    assert documents == [
        document and {**document, "counts": None if document["counts"] is None else dict(document["counts"])}
        for document in array.to_pylist()
    ]


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"id": "1"}, "id: '1' is not bigint"),
        ({"at": {"y": 1.5}}, "at.y: 1.5 is not bigint"),
        ({"at": [1]}, "at: [1] is not struct<x:double,y:bigint>"),
        ({"tags": "a"}, "tags: 'a' is not array<string>"),
        ({"counts": {"k": [True]}}, "counts[0][0]: True is not bigint"),
        ([], "[] is not struct<"),
    ],
)
def test_a_misfit_names_the_place(document, place):
    with pytest.raises(Misfit) as caught:
        column_for(NESTED).convert([{"id": 1}, document])

    assert place in str(caught.value)


def test_a_field_that_is_not_wanted_is_passed_over_and_one_that_inference_has_not_seen_is_told():
    type_ = t.StructType([t.StructField("id", t.LongType()), t.StructField("n", t.LongType())])

    assert [{"id": 1, "n": 2}] == column_for(type_).convert([{"id": 1, "n": 2, "more": 3}]).to_pylist()
    for document in ({"id": 1, "n": 2, "more": 3}, {"id": 1, "more": 3}):
        with pytest.raises(Misfit, match="a field 'more' that is not in the schema"):
            column_for(type_, is_complete=True).convert([document])


def test_a_null_where_there_may_be_none_is_a_misfit():
    type_ = t.StructType([t.StructField("id", t.LongType(), nullable=False)])

    with pytest.raises(Misfit, match="may not be null"):
        column_for(type_).convert([{"id": 1}, {}])


def test_a_schema_with_a_type_that_no_document_has_is_refused():
    with pytest.raises(InvalidOption, match="timestamp_ntz"):
        column_for(t.TimestampNTZType())


@pytest.mark.parametrize(
    "type_", [NESTED, t.MapType(t.StringType(), t.ArrayType(t.VariantType(), False), False)]
)
def test_types_of_arrow_are_those_of_spark_and_lead_back(type_):
    assert arrow_schema(t.StructType([t.StructField("x", type_)])).field("x").type == arrow_type(type_)
    assert type_ == spark_type(arrow_type(type_))


# ---------------------------------------------------------------------------------------------------------------
# Laws

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=5)
    | st.binary(max_size=5)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**12), max_value=10**12)
    | st.dates()
    | st.datetimes(timezones=st.just(UTC))
    | st.timedeltas(min_value=timedelta(days=-10_000), max_value=timedelta(days=10_000))
    | st.uuids()
    | st.sampled_from([Mark(b"abcd"), Release(1, 10), Exact("01"), UnknownValue(50, b"x")])
)
names = st.sampled_from(["a", "b", "c", "A", "x y", "é"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(names, values, min_size=1, max_size=4)


def plain(value: Any) -> Any:
    """A value without what Spark has no difference for: a field that is null, and one that is not there; 1 and 1.0."""
    if isinstance(value, dict):
        return {
            name: plain(inner) for name, inner in value.items() if inner is not None and plain(inner) != {}
        }
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return plain_text(value) if isinstance(value, UUID) or is_registered(type(value)) else value


def read_back(value: Any, type_: t.DataType, *, is_anything: bool = False) -> Any:
    """What an array holds, with VARIANT read as Spark reads it."""
    if value is None:
        return None
    if isinstance(type_, t.VariantType):
        return VariantUtils.to_python(value["value"], value["metadata"])
    if isinstance(type_, t.StructType):
        return {field.name: read_back(value[field.name], field.dataType) for field in type_.fields}
    if isinstance(type_, t.ArrayType):
        return [read_back(inner, type_.elementType) for inner in value]
    return value


def as_shown(value: Any, type_: t.DataType) -> Any:
    """What Spark is to show of a value of a document in a column of a type."""
    if value is None:
        return None
    if isinstance(type_, t.StringType):
        return plain_text(value)
    if isinstance(type_, t.StructType):
        return {field.name: as_shown(value.get(field.name), field.dataType) for field in type_.fields}
    if isinstance(type_, t.ArrayType):
        return [as_shown(inner, type_.elementType) for inner in value]
    if isinstance(type_, t.VariantType):
        return in_variant(value)
    return value


def in_variant(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: in_variant(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [in_variant(inner) for inner in value]
    is_text = isinstance(value, (UUID, timedelta, time)) or is_registered(type(value))
    return plain_text(value) if is_text else value


@given(st.lists(documents, min_size=1, max_size=5))
def test_what_inference_has_seen_is_read_without_a_change_or_is_told(sample):
    """No document of the sample is altered: each place holds the value that was stored, or the row says what does not fit."""
    inference = infer_documents()
    inference.add(sample)
    type_ = t.StructType(list(map(spark_field, inference.fields())))
    bodies = [encode(document) for document in sample]
    rows = Rows(len(bodies))

    array = document_column("new", type_, "PERMISSIVE", is_complete=True).array(bodies, rows, str)

    array.validate(full=True)
    for row, (found, document) in enumerate(zip(array.to_pylist(), sample, strict=True)):
        if row in rows.reasons:
            assert "new" in json.loads(rows.reasons[row])
        else:
            assert as_shown(document, type_) == read_back(found, type_)


@given(values)
def test_a_variant_is_read_by_spark_as_what_was_stored(value):
    try:
        made = variant_of(value)
    except ValueError:
        return

    assert in_variant(value) == VariantUtils.to_python(*made)


@given(values)
def test_json_text_can_be_parsed(value):
    json.loads(dumps_plain(value))


@given(st.lists(scalars.filter(lambda value: not isinstance(value, NO_KEYS)), min_size=1, max_size=5))
def test_keys_read_together_are_the_keys_read_one_by_one(keys):
    encoded = [key_bytes(key) for key in keys]

    assert repr([key_value(key) for key in encoded]) == repr(key_values(encoded))


@pytest.mark.parametrize(
    "keys",
    [
        [1, 2, 3],
        [0, 1],
        [-1, 1],
        [1.5, 2],
        [2**53, 2**53 + 1],
        ["a", "b"],
        ["a\0", "b"],
        ["", "\x01é", "", "𐀀"],
    ],
)
def test_keys_of_one_kind_are_read_right(keys):
    assert keys == key_values([key_bytes(key) for key in keys])


def test_large_variants_have_wider_offsets():
    value = {"list": list(range(1000)), **{f"k{number}": "x" * 300 for number in range(300)}}

    assert value == VariantUtils.to_python(*variant_of(value))
    with pytest.raises(ValueError, match="16 MiB"):
        variant_of(["x" * (1 << 24)])
    with pytest.raises(ValueError, match="38 digits"):
        variant_of({"n": 10**38})


# ---------------------------------------------------------------------------------------------------------------
# Documents that do not fit

POINT = t.StructType([t.StructField("x", t.LongType()), t.StructField("y", t.LongType())])


def point_array(mode: str, rows: Rows) -> Any:
    bodies = [encode({"x": 1, "y": 2}), None, encode({"x": 1.5, "y": 2})]
    return document_column("new", POINT, mode).array(bodies, rows, lambda row: f"row {row}")


def test_permissive_keeps_the_fields_that_fit_and_says_what_was_there():
    rows = Rows(3)

    array = point_array("PERMISSIVE", rows)

    assert [{"x": 1, "y": 2}, None, {"x": None, "y": 2}] == array.to_pylist()
    assert {2: {"reason": "new: x: 1.5 is not bigint", "new": {"x": 1.5, "y": 2}}} == {
        row: json.loads(reason) for row, reason in rows.reasons.items()
    }


def test_failfast_says_which_document_and_where():
    with pytest.raises(SchemaMismatch, match=r"row 2 does not fit the schema: new: x: 1\.5 is not bigint"):
        point_array("FAILFAST", Rows(3))


def test_documents_are_decoded_together_as_one_by_one():
    found = [{"id": number, "when": WHEN, "b": b"\xff"} for number in range(3)]

    assert found == decode_many([encode(document) for document in found])


# ---------------------------------------------------------------------------------------------------------------
# Straight from bytes to columns


NAMES = ["id", "n", "", "a b", "é", "f0", "class"]


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from([*NAMES, "other"]), st.integers(-5, 5) | st.none() | st.text(max_size=2)
        ),
        min_size=1,
        max_size=5,
    ),
    st.booleans(),
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
)
def test_columns_straight_from_bytes_are_those_by_way_of_documents(documents, is_complete, names):
    """Also where some do not fit: the same arrays, and the same reasons."""
    pytest.importorskip("msgspec")
    schema = t.StructType([t.StructField(name, t.LongType()) for name in names])
    bodies = [encode(document) for document in documents]
    found = []
    for is_quick in (True, False):
        column = document_column("", schema, "PERMISSIVE", is_complete=is_complete)
        if not is_quick:
            column._columns = None
        rows = Rows(len(bodies))
        arrays = column.arrays(bodies, rows, str)
        whole = document_column("new", schema, "PERMISSIVE", is_complete=is_complete)
        if not is_quick:
            whole._columns = None
        with_nulls = [None, *bodies]
        found.append((arrays, rows.reasons, whole.array(with_nulls, Rows(len(with_nulls)), str)))

    assert found[0] == found[1]


def test_without_msgspec_columns_are_made_of_documents(monkeypatch):
    monkeypatch.setitem(sys.modules, "msgspec", None)
    column = document_column("", t.StructType([t.StructField("n", t.LongType())]), "FAILFAST")

    (found,) = column.arrays([encode({"n": 1})], Rows(1), str)

    assert column._columns is None
    assert [1] == found.to_pylist()


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_keys_that_are_strings_are_read_together(values):
    found = texts([key_bytes(value) for value in values])

    assert found is None if any("\0" in value for value in values) else values == found.to_pylist()


def test_keys_of_several_types_are_not_read_as_strings():
    assert texts([key_bytes("a"), key_bytes(1)]) is None
