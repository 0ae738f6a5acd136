"""JSON: what is written is read back as it was. (Export, import and the forms of the commands are tested in `tests/cli/`.)"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, FloatOperation, Inexact, Rounded, localcontext

from reactdb import json


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
