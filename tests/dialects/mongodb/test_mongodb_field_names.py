"""Names of fields with a NUL: shown without it, and stored as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactdb.dialects.mongodb.field_names import NUL, SIGN, format_name, parse_name

NAMES = st.text(st.sampled_from([NUL, SIGN, "0", "a", "."]))


@given(NAMES)
def test_a_name_is_shown_without_a_nul_and_comes_back(name: str) -> None:
    assert NUL not in format_name(name)
    assert parse_name(format_name(name)) == name


@given(NAMES.filter(lambda name: NUL not in name))
def test_a_name_that_a_driver_sends_is_shown_to_it_as_it_was(name: str) -> None:
    assert format_name(parse_name(name)) == name


@given(NAMES, NAMES)
def test_a_dotted_path_is_the_names_that_it_has(first: str, second: str) -> None:
    assert parse_name(f"{first}.{second}") == f"{parse_name(first)}.{parse_name(second)}"


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a\0b", "a␀0b"), ("\0", "␀0"), ("␀0", "␀␀0"), ("␀\0", "␀␀␀0"), ("␀", "␀"), ("a0", "a0")],
)
def test_only_what_would_be_confused_is_shown_otherwise(name: str, shown: str) -> None:
    assert format_name(name) == shown
