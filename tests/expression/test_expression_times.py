"""Times: the forms of an ISO 8601 text, the years that ReQL has, and the sentences about others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from reactdb import r, row
from reactdb.errors import QueryError
from reactdb.expression import evaluate, expr

WEST = timezone(timedelta(hours=-5))
YEAR = "Error in time logic: Year is out of valid range: 1400..10000."
CENTURY = 100 * 365 * 86_400
OLD = datetime(1066, 10, 14, tzinfo=UTC)

DATES = ["2013", "2013-01", "2013-01-01", "20130101", "2013-001", "2013001", "2013-W01-2", "2013W012"]
TIMES = ["13", "13:00", "1300", "13:00:00", "130000", "13:00:00.", "13:00:00.000000", "130000.0000000001"]
ZONES = ["Z", "+00", "+0000", "+00:00"]


def value(expression: Any) -> Any:
    return evaluate(expr(expression), {"id": 1, "old": OLD})


def error(expression: Any) -> str:
    with pytest.raises(QueryError) as caught:
        value(expression)
    return str(caught.value)


@pytest.mark.parametrize("date", DATES)
def test_every_form_of_an_iso_8601_text_is_read(date: str) -> None:
    found = {value(r.iso8601(f"{date}T{time}{zone}")) for time in TIMES for zone in ZONES}

    assert {datetime(2013, 1, 1, 13, tzinfo=UTC)} == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013", datetime(2013, 1, 1, tzinfo=WEST)),
        ("2013-12-31T23:59:59.1234567", datetime(2013, 12, 31, 23, 59, 59, 123_456, tzinfo=WEST)),
        ("2012-366T00:00:00.5", datetime(2012, 12, 31, 0, 0, 0, 500_000, tzinfo=WEST)),
        ("2012-02-29T01-0330", datetime(2012, 2, 29, 1, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))),
        ("1400-01-01", datetime(1400, 1, 1, tzinfo=WEST)),
        ("9999-12-31T23:59:59", datetime(9999, 12, 31, 23, 59, 59, tzinfo=WEST)),
    ],
)
def test_an_iso_8601_text_gives_its_time(text: str, expected: datetime) -> None:
    found = value(r.iso8601(text, default_timezone="-05:00"))

    assert (expected, expected.utcoffset()) == (found, found.utcoffset())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "Truncated date string ``."),
        ("2013-1", "Truncated date string `2013-1`."),
        ("201301", "Truncated date string `201301`."),
        ("2a13-01-01T00Z", "Invalid date string `2a13-01-01` (got `a` but expected a digit)."),
        ("today", "Invalid date string `today` (got `t` but expected a digit)."),
        ("2013-0101T00Z", "Date string `2013-0101` must have 0 or 2 hyphens."),
        ("2013-01-01.1T00Z", "Garbage characters `.1` at end of date string `2013-01-01.1`."),
        ("2013-01-01 00:00Z", "Garbage characters ` 00:00Z` at end of date string `2013-01-01 00:00Z`."),
        ("2013-01-01Ta3Z", "Invalid date string `a3` (got `a` but expected a digit)."),
        ("2013-01-01T13:0000Z", "Time string `13:0000` must have 0 or 2 colons."),
        ("2013-01-01T13:00.00Z", "Time string `13:00.00` must have 0 or 2 colons."),
        ("2013-01-01T130000,5Z", "Garbage characters `,5` at end of time string `130000,5`."),
        (
            "2013-01-01T130000.00000000aZ",
            "Invalid date string `130000.00000000a` (got `a` but expected a digit).",
        ),
        ("2013-01-01T24:00:00Z", "Error in time logic: Hour value is out of range 0..23."),
        ("2013-01-01T00:60:00Z", "Error in time logic: Minute value is out of range 0..59."),
        ("2013-01-01T00:00:60Z", "Error in time logic: Second value is out of range 0..59."),
        ("2013-13-01T00Z", "Error in time logic: Month number is out of range 1..12."),
        ("2013-01-32T00Z", "Error in time logic: Day of month value is out of range 1..31."),
        ("2013-02-29T00Z", "Error in time logic: Day of month is not valid for year."),
        ("2013-366T00Z", "Error in time logic: Day of year value is out of range 1..366."),
        ("2013-W54-1T00Z", "Error in time logic: Week or day of week is out of range."),
        ("2013-01-01T00-00:00", "`-00:00` is not a valid time offset."),
        ("2013-01-01T00+25", "Hours out of range in `+25`."),
        ("1399-12-31T00Z", YEAR),
        ("0000-01-01T00Z", YEAR),
    ],
)
def test_a_bad_iso_8601_text_is_refused_in_reqls_words(text: str, sentence: str) -> None:
    assert sentence == error(r.iso8601(text))


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ((1023, 1, 1, "Z"), YEAR),
        ((1399, 12, 31, 23, 59, 59, "Z"), YEAR),
        ((10_000, 1, 1, "Z"), YEAR),
        ((-1, 1, 1, "Z"), YEAR),
        ((9999, 12, 31, 23, 59, 60, "Z"), YEAR),
        ((1400, 1, 1, 0, 0, -1, "Z"), YEAR),
        ((2013, 1, 1, 0, 0, 1e300, "Z"), YEAR),
        ((2013, 0, 1, "Z"), "Error in time logic: Month number is out of range 1..12."),
        ((2013, 1, 0, "Z"), "Error in time logic: Day of month value is out of range 1..31."),
        ((2013, 2, 29, "Z"), "Error in time logic: Day of month is not valid for year."),
    ],
)
def test_a_time_that_reql_does_not_have_is_refused(parts: tuple[Any, ...], sentence: str) -> None:
    assert sentence == error(r.time(*parts))


@pytest.mark.parametrize(
    ("expected", "parts"),
    [
        (datetime(1400, 1, 1, tzinfo=UTC), (1400, 1, 1, "Z")),
        (datetime(9999, 12, 31, tzinfo=UTC), (9999, 12, 31, "Z")),
        (datetime(2013, 1, 2, 2, 1, 1, 500_000, tzinfo=UTC), (2013, 1, 1, 25, 61, 1.5, "Z")),
    ],
)
def test_a_time_is_made_of_its_parts(expected: datetime, parts: tuple[Any, ...]) -> None:
    assert expected == value(r.time(*parts))


@pytest.mark.parametrize(
    "expression",
    [
        r.epoch_time(-17_990_000_000),
        r.epoch_time(253_440_000_000),
        r.epoch_time(1e300),
        r.time(1400, 1, 1, "Z") - 1,
        r.time(1400, 1, 1, "Z").in_timezone("-05:00"),
        r.time(9999, 12, 31, "Z") + 86_400,
        r.time(9999, 12, 31, 23, 0, 0, "Z").in_timezone("+05:00"),
        r.time(2013, 1, 1, "Z") + 1e300,
        expr(timedelta(days=400_000)) + r.time(1400, 1, 1, "-05:00") - timedelta(days=500_000),
    ],
)
def test_a_computed_time_of_a_year_that_reql_does_not_have_is_refused(expression: Any) -> None:
    assert YEAR == error(expression)


def test_a_stored_time_may_be_older_and_is_computed_with() -> None:
    later = datetime(1166, 9, 20, tzinfo=UTC)

    assert 1066 == value(row["old"].year())
    assert later == value(row["old"] + CENTURY)
    assert WEST.utcoffset(None) == value(row["old"].in_timezone("-05:00")).utcoffset()
    assert OLD == value(r.json(row["old"].to_json_string()))
    assert YEAR == error(row["old"] - 20 * CENTURY)


def test_a_duration_that_is_too_long_is_refused() -> None:
    assert "Error in time logic: Duration is out of valid range." == error(expr(timedelta.max) + 1)
    assert timedelta.max == value(expr(timedelta.max - timedelta(seconds=1)) + 1)
