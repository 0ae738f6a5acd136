"""Documents as text: JSON and CSV bring back exactly what was written, and refuse what could mean something else."""

from __future__ import annotations

import csv
import io
import json
import math
import struct
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import json as jsonform
from reactdb.cli import csvform
from reactdb.errors import InvalidDocument
from reactdb.values import codec
from tests.support.scaling import examples

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
awkward_text = st.sampled_from(
    ["", "null", "true", "42", "-0", "007", "1.5", "1e3", "NaN", ",", '"', '"42"', '"a', '"\\"42\\""', "[]", "{}", "[1,2]",
     "a\rb", "a\nb", "\x00", "\x85", "\ufeff", "\u2028", jsonform.REQL, jsonform.OURS]
)  # fmt: skip
offsets = st.one_of(
    st.just(UTC),
    st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
    st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds))),
)
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=offsets)
nans = st.integers(1, 2**51 - 1).map(
    lambda payload: struct.unpack(">d", struct.pack(">Q", 0x7FF8_0000_0000_0000 | payload))[0]
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**80), 2**80),
    st.floats(),
    nans,
    text,
    awkward_text,
    st.binary(max_size=12),
    moments,
    st.decimals(allow_nan=False, allow_infinity=False),
    st.uuids(),
    st.dates(),
    st.times(),
    st.timedeltas(),
)
names = st.one_of(text, awkward_text)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(names, values, min_size=1, max_size=5)


# ---------------------------------------------------------------------------------------------------------------
# JSON


@settings(max_examples=examples(150))
@given(documents)
def test_json_brings_back_every_document(document):
    """Law: reading what was written gives the same encoding, down to the order of keys and the bits of a NaN."""
    line = jsonform.dumps(document)

    assert codec.encode(document) == codec.encode(jsonform.loads(line))
    assert "\n" not in line


@settings(max_examples=examples(300))
@given(documents)
def test_the_text_is_the_same_with_and_without_msgspec(document):
    pytest.importorskip("msgspec", reason="msgspec is not installed")

    assert jsonform.encode(jsonform.to_json(document)) == jsonform.dumps(document)


@pytest.mark.parametrize("number", [1e16, 1e-5, 0.00012, 1e22, -1e-7, 123456789012345680.0, 1e15, math.nan])
def test_numbers_have_one_text(number):
    assert jsonform.encode(jsonform.to_json([number])) == jsonform.dumps([number])


def test_json_is_public():
    event = {"old_val": None, "new_val": {"id": 1, "at": datetime(2026, 1, 2, tzinfo=UTC)}}

    assert event == reactdb.json.loads(reactdb.json.dumps(event))
    assert [1, [2, 3]] == reactdb.json.loads(reactdb.json.dumps((1, (2, 3))))


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({"a": [1, {2, 3}]}, ("a", 1), "a value of type set cannot be written"),
        ({"a": {1: 2}}, ("a",), "a key of type int cannot be written, only strings"),
        (object(), (), "a value of type object cannot be written"),
        ({"a": "\ud800"}, ("a",), "a value of type str cannot be written"),
        ({"a": datetime(2026, 1, 2)}, ("a",), "a value of type datetime.datetime cannot be written"),
    ],
)
def test_what_no_document_holds_is_refused_with_its_place(value, path, reason):
    with pytest.raises(InvalidDocument, match=reason) as raised:
        reactdb.json.dumps(value)

    assert path == raised.value.path


def test_what_is_nested_too_deeply_is_refused():
    value: list[object] = []
    for _ in range(5_000):
        value = [value]

    with pytest.raises(InvalidDocument, match="nested deeper than 100 levels"):
        reactdb.json.dumps(value)


@settings(max_examples=examples(100))
@given(documents)
def test_a_line_is_json_for_everybody(document):
    """Strict JSON: no NaN, no Infinity, nothing that another parser would refuse."""

    def refuse(word):
        raise AssertionError(word)

    assert isinstance(json.loads(jsonform.dumps(document), parse_constant=refuse), dict)


def test_frozen_documents_are_written_like_plain_ones():
    document = {"a": [1, {"b": b"x"}], "$reql_type$": "no type"}

    assert jsonform.dumps(document) == jsonform.dumps(codec.decode_frozen(codec.encode(document)))


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (
            datetime(2013, 8, 13, 23, 27, 3, 923_000, tzinfo=UTC),
            '{"$reql_type$":"TIME","epoch_time":1376436423.923,"timezone":"+00:00"}',
        ),
        (
            datetime(2013, 8, 13, 20, 0, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
            '{"$reql_type$":"TIME","epoch_time":1376436600,"timezone":"-03:30"}',
        ),
        (
            datetime(9998, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            '{"$reactdb_type$":"datetime","value":"9998-12-31T23:59:59.999999+00:00"}',
        ),
        (b"\x00\xff", '{"$reql_type$":"BINARY","data":"AP8="}'),
        (Decimal("1.10"), '{"$reactdb_type$":"decimal","value":"1.10"}'),
        (UUID(int=1), '{"$reactdb_type$":"uuid","value":"00000000-0000-0000-0000-000000000001"}'),
        (date(2013, 1, 31), '{"$reactdb_type$":"date","value":"2013-01-31"}'),
        (time(12, 30), '{"$reactdb_type$":"time","value":"12:30:00"}'),
        (timedelta(seconds=90, milliseconds=500), '{"$reactdb_type$":"duration","value":"90.5"}'),
        (timedelta(seconds=-1, milliseconds=-500), '{"$reactdb_type$":"duration","value":"-1.5"}'),
        (timedelta(milliseconds=-500), '{"$reactdb_type$":"duration","value":"-0.5"}'),
        (timedelta(days=1), '{"$reactdb_type$":"duration","value":"86400"}'),
        (timedelta(), '{"$reactdb_type$":"duration","value":"0"}'),
        (math.nan, '{"$reactdb_type$":"float","value":"nan"}'),
        (-math.inf, '{"$reactdb_type$":"float","value":"-inf"}'),
        (2**70, "1180591620717411303424"),
        (1.0, "1.0"),
        ({"$reql_type$": 1}, '{"$reactdb_type$":"object","value":{"$reql_type$":1}}'),
        ("ü", '"ü"'),
    ],
)
def test_the_json_of_each_type_is_as_documented(value, line):
    assert line == jsonform.dumps(value)
    assert codec.same(value, jsonform.loads(line))


def test_rethinkdbs_own_zone_for_utc_is_understood():
    read = jsonform.loads('{"$reql_type$": "TIME", "epoch_time": 1.5, "timezone": "Z"}')

    assert datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC) == read


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": 1, "a": 2}', 'the key "a" comes twice'),
        ('{"a": 1e999}', "beyond the range of a float"),
        ('{"a": 1', "not JSON"),
        ("{'a': 1}", "not JSON"),
        ('{"a": 1} {"b": 2}', "not JSON: Extra data"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5_000, "not a number"),
        ('{"$reql_type$": "GEOMETRY"}', 'unknown $reql_type$ "GEOMETRY"'),
        ('{"$reactdb_type$": "code", "value": "1"}', 'unknown $reactdb_type$ "code"'),
        ('{"$reactdb_type$": ["decimal"], "value": "1"}', "unknown $reactdb_type$"),
        ('{"$reactdb_type$": "decimal"}', "has the fields value and no others"),
        ('{"$reactdb_type$": "decimal", "value": "1", "x": 1}', "has the fields value and no others"),
        ('{"$reactdb_type$": "decimal", "value": 1.5}', "not a decimal"),
        ('{"$reactdb_type$": "decimal", "value": "one"}', "not a decimal"),
        ('{"$reactdb_type$": "uuid", "value": "1"}', "not a uuid"),
        ('{"$reactdb_type$": "float", "value": "nan:0000000000000000"}', "not a float"),
        ('{"$reactdb_type$": "duration", "value": "99999999999999"}', "not a duration"),
        ('{"$reactdb_type$": "datetime", "value": "2013-01-01T00:00:00"}', "no time zone"),
        ('{"$reactdb_type$": "object", "value": 1}', "the value of an object is an object"),
        ('{"$reql_type$": "BINARY", "data": "?"}', "not a BINARY"),
        ('{"$reql_type$": "BINARY", "data": 1}', "not a BINARY"),
        ('{"$reql_type$": "TIME", "epoch_time": 1e300, "timezone": "Z"}', "not a TIME"),
        ('{"$reql_type$": "TIME", "epoch_time": true, "timezone": "Z"}', "not a TIME"),
        ('{"$reql_type$": "TIME", "epoch_time": 0, "timezone": "Mars"}', "not a TIME"),
    ],
)
def test_what_could_be_misread_is_refused(line, reason):
    with pytest.raises(InvalidDocument) as caught:
        jsonform.loads(line)

    assert reason in str(caught.value)


def test_a_refusal_names_the_place():
    with pytest.raises(InvalidDocument) as caught:
        jsonform.loads('{"a": [1, {"b": {"$reactdb_type$": "uuid", "value": "x"}}]}')

    assert ("a", 1, "b") == caught.value.path


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(2013, 1, 1, 5, 15, tzinfo=UTC), "2013-01-01 05:15:00+00:00"),
        (Decimal("1.10"), "1.10"),
        (b"\x00\xff", "0x00ff"),
        (timedelta(days=1), "1 day, 0:00:00"),
        (math.nan, "nan"),
        ("a", '"a"'),
        ({"at": date(2013, 1, 1), "n": [1, None]}, '{"at":"2013-01-01","n":[1,null]}'),
    ],
)
def test_people_read_plain_text_where_json_has_no_word(value, shown):
    assert shown == jsonform.readable(value)


# ---------------------------------------------------------------------------------------------------------------
# CSV


@settings(max_examples=examples(150))
@given(values)
def test_a_cell_brings_back_every_value(value):
    assert codec.encode_value(value) == codec.encode_value(csvform.read_cell(csvform.write_cell(value)))


@settings(max_examples=examples(150))
@given(st.one_of(text, awkward_text, leaves.map(jsonform.dumps)))
def test_a_cell_is_a_value_only_where_that_value_is_written_as_this_cell(cell):
    """Law: whatever text a foreign file has, nothing of it is lost by reading."""
    read = csvform.read_cell(cell)

    if cell and not csvform._CONTROL.search(cell):
        assert cell == csvform.write_cell(read)


@settings(max_examples=examples(100))
@given(documents)
def test_a_row_through_pythons_csv_brings_back_the_document(document):
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([csvform.write_name(name) for name in document])
    writer.writerow([csvform.write_cell(value) for value in document.values()])
    lines = out.getvalue().split("\n")
    header, cells = csv.reader((line + "\n" for line in lines[:-1]), strict=True)

    names = csvform.read_header(header)
    read = csvform.read_row(names, [csvform.read_cell] * len(names), cells)

    assert codec.encode(document) == codec.encode(read)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("42", 42),
        ("-7", -7),
        ("1.5", 1.5),
        ("-0.0", -0.0),
        ("true", True),
        ("null", None),
        ("007", "007"),
        ("+1", "+1"),
        ("1.50", "1.50"),
        ("1e3", "1e3"),
        ("-0", "-0"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("True", "True"),
        ("1_000", "1_000"),
        ("٣", "٣"),
        ('"42"', "42"),
        ('"Bob"', '"Bob"'),
        ('""', ""),
        ("[1,2]", [1, 2]),
        ("[1, 2]", "[1, 2]"),
        ("{not json}", "{not json}"),
        (" 1", " 1"),
    ],
)
def test_a_cell_is_what_it_looks_like_and_otherwise_text(cell, value):
    read = csvform.read_cell(cell)

    assert codec.same(value, read)


def test_an_empty_cell_is_a_missing_field():
    assert {"a": 1} == csvform.read_row(["a", "b"], [csvform.read_cell] * 2, ["1", ""])


@pytest.mark.parametrize(
    ("kind", "cell", "value"),
    [
        ("string", "42", "42"),
        ("int", "007", 7),
        ("float", "1.50", 1.5),
        ("decimal", "1.50", Decimal("1.50")),
        ("bool", "TRUE", True),
        ("date", "2013-01-31", date(2013, 1, 31)),
        ("time", "12:30", time(12, 30)),
        ("datetime", "2013-01-31T12:30:00Z", datetime(2013, 1, 31, 12, 30, tzinfo=UTC)),
        ("uuid", "00000000-0000-0000-0000-000000000001", UUID(int=1)),
        ("json", "[1, 2]", [1, 2]),
    ],
)
def test_a_declared_column_holds_its_type(kind, cell, value):
    assert codec.same({"a": value}, csvform.read_row(["a"], [csvform.TYPES[kind]], [cell]))


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("int", "x"),
        ("decimal", "x"),
        ("bool", "yes"),
        ("datetime", "2013-01-31T12:30:00"),
        ("json", "[1"),
        ("uuid", "1"),
    ],
)
def test_a_cell_that_is_not_of_its_columns_type_is_refused_by_name(kind, cell):
    with pytest.raises(InvalidDocument) as caught:
        csvform.read_row(["price"], [csvform.TYPES[kind]], [cell])

    assert ("price",) == caught.value.path


@pytest.mark.parametrize(
    ("cells", "reason"), [(["a", ""], "column 2 has no name"), (["a", "a"], 'the name "a"')]
)
def test_a_header_names_each_column_once(cells, reason):
    with pytest.raises(InvalidDocument, match=reason):
        csvform.read_header(cells)
