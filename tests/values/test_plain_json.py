"""`reactdb.json.dumps(value, plain=True)`: text for browsers."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reactdb
from reactdb import InvalidDocument
from reactdb.json import dumps
from reactdb.values.blob import Blob

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.datetimes(timezones=st.just(UTC))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.uuids()
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
DOCUMENTS = st.dictionaries(
    NAMES, st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner), max_leaves=8)
)


def refuse(word: str) -> Any:
    raise AssertionError(f"JSON.parse does not read {word}")


def parse(text: str) -> Any:
    """As strictly as JSON.parse."""
    return json.loads(text, parse_constant=refuse)


EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 250_000, tzinfo=EAST), "2026-01-02T03:04:05.250000+02:00"),
        (datetime(2026, 1, 2, tzinfo=timezone(timedelta(seconds=30))), "2026-01-01T23:59:30Z"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4, 5), "03:04:05"),
        (timedelta(seconds=90.5), 90.5),
        (Decimal("1.10"), "1.10"),
        (UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (b"\x01\x02\x03", "AQID"),
        (math.nan, None),
        (-math.inf, None),
        (2**53 - 1, 9007199254740991),
        (2**53, "9007199254740992"),
        (-(2**70), str(-(2**70))),
        (Blob("0" * 64, 5), f"sha256:{'0' * 64}:5"),
        ({"$reql_type$": "TIME"}, {"$reql_type$": "TIME"}),
        ((1, [None, True, 1.5, "x"]), [1, [None, True, 1.5, "x"]]),
        ("1234567890123456789", "1234567890123456789"),
    ],
    ids=repr,
)
def test_each_value_has_the_form_that_the_page_says(value, plain):
    assert parse(dumps(value, plain=True)) == plain
    assert parse(dumps({"id": 1, "x": [value]}, plain=True)) == {"id": 1, "x": [plain]}


def test_an_event_of_a_feed_is_written_with_its_documents():
    """Finding 11 of the third trial: a browser got dates as objects."""
    with reactdb.connect(":memory:") as db:
        table = db.table_create("t")
        with table.changes(include_initial=True, include_types=True).cursor() as cursor:
            table.insert({"id": 1, "at": datetime(2026, 1, 2, tzinfo=UTC)})
            event = cursor.next(timeout=5)

    assert parse(dumps(event, plain=True)) == {
        "old_val": None,
        "new_val": {"id": 1, "at": "2026-01-02T00:00:00Z"},
        "type": "add",
    }


@pytest.mark.parametrize(
    "value",
    [object(), {1}, datetime(2026, 1, 2), {"x": 1j}, {1: 2}],
    ids=["object", "set", "naive", "complex", "key"],
)
def test_a_value_that_no_document_has_is_refused(value):
    with pytest.raises(InvalidDocument, match="cannot be written"):
        dumps({"a": [value]}, plain=True)


def test_a_list_inside_itself_is_refused():
    endless: list[Any] = [object()]
    endless.append(endless)

    with pytest.raises(InvalidDocument):
        dumps(endless, plain=True)


@given(DOCUMENTS)
def test_every_document_is_text_that_json_parse_reads(document):
    assert parse(dumps(document, plain=True)).keys() == document.keys()


@given(st.integers(-(2**80), 2**80), st.floats())
def test_a_number_is_read_as_the_same_number_by_javascript(whole, real):
    number = parse(dumps({"a": whole, "b": real}, plain=True))

    assert number["a"] == (whole if abs(whole) < 2**53 else str(whole))
    assert number["b"] == (real if math.isfinite(real) else None)
