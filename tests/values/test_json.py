"""JSON: what is written is read back as it was. (Export, import and the forms of the commands are tested in `tests/cli/`.)"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, FloatOperation, Inexact, Rounded, localcontext

import pytest

from reactdb import json
from reactdb.errors import InvalidDocument


def test_the_decimal_context_of_the_thread_has_no_part_in_json():
    """Neither in what is written nor in what is read: a context may round to two digits."""
    values = [
        Decimal("123456789.10E+50"),
        timedelta(days=12_345, seconds=7, microseconds=123_456),
        timedelta(days=999_999_999, microseconds=-1),
        timedelta(seconds=-1.5),
        datetime(2026, 1, 31, 12, 30, 59, 123_456, tzinfo=UTC),
    ]
    texts, plain = list(map(json.dumps, values)), list(map(json.dumps_plain, values))
    assert '{"$reactdb_type$":"duration","value":"-1.5"}' == texts[3]
    assert values == list(map(json.loads, texts))
    with localcontext(Context(prec=2, capitals=0, traps=[FloatOperation, Inexact, Rounded])):
        assert texts == list(map(json.dumps, values))
        assert plain == list(map(json.dumps_plain, values))
        assert values == list(map(json.loads, texts))


@pytest.mark.parametrize("levels", [500, 990, 5_000])
def test_objects_that_are_nested_too_deeply_are_refused(levels: int):
    with pytest.raises(InvalidDocument, match="nested"):
        json.loads('{"a":' * levels + "1" + "}" * levels)


@pytest.mark.parametrize("levels", [151, 500, 990, 5_000])
def test_plain_json_has_a_bound_of_levels(levels: int):
    with pytest.raises(InvalidDocument, match="nested more than 150 levels deep"):
        json.read_plain("[" * levels + "]" * levels)


def test_plain_json_of_150_levels_is_read():
    assert not json.is_deeper(json.read_plain("[" * 150 + "]" * 150), 150)


@pytest.mark.parametrize("text", ["", "{", "NaN", "1e999", "[1", b"\xff", '"\\x"'])
def test_what_is_no_plain_json_is_a_value_error(text: str | bytes):
    with pytest.raises(ValueError):  # noqa: PT011 - the sentence is the decoder's
        json.read_plain(text)
