"""Primary keys as a dialect shows them that cannot say each of them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from reactdb.errors import QueryError
from reactdb.key_spelling import KeySpelling
from reactdb.values.collation import primary_key_bytes
from tests.support.extreme_values import keys

KEYS = list(keys().values())


def of_whole_seconds(key: Any) -> Any:
    """A dialect that has texts, whole numbers and what it rounds to them."""
    if isinstance(key, str):
        return key
    if isinstance(key, (int, float, Decimal)) and -1_000 < key < 1_000:
        return int(key)
    raise QueryError("there is no such value")


SPELLING = KeySpelling(of_whole_seconds)


def test_keys_that_differ_are_shown_as_values_that_differ() -> None:
    shown = [SPELLING.shown(key) for key in KEYS]
    assert len(set(map(repr, shown))) == len(KEYS)


@pytest.mark.parametrize("key", KEYS)
def test_a_shown_key_stands_for_the_key(key: Any) -> None:
    assert primary_key_bytes(SPELLING.stored(SPELLING.shown(key))) == primary_key_bytes(key)


@pytest.mark.parametrize(
    "key", ["a", "", "=", "==", "=a", "=5", '="a"', "=null", "={}", "=[1", 5, 2.0, Decimal("2.0")]
)
def test_a_key_that_the_dialect_can_say_is_shown_as_it_is(key: Any) -> None:
    assert SPELLING.shown(key) is key


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (date(2026, 1, 31), '={"$reactdb_type$":"date","value":"2026-01-31"}'),
        (
            '={"$reactdb_type$":"date","value":"2026-01-31"}',
            '=={"$reactdb_type$":"date","value":"2026-01-31"}',
        ),
        (
            '=={"$reactdb_type$":"date","value":"2026-01-31"}',
            '==={"$reactdb_type$":"date","value":"2026-01-31"}',
        ),
        ([date(2026, 1, 31), 1], '=[{"$reactdb_type$":"date","value":"2026-01-31"},1]'),
        (5_000, "=5000"),
        ("=5000", "==5000"),
    ],
)
def test_a_key_that_it_cannot_say_is_shown_as_a_text(key: Any, shown: str) -> None:
    assert SPELLING.shown(key) == shown


def test_keys_that_are_equal_have_one_spelling() -> None:
    assert SPELLING.shown(5_000) == SPELLING.shown(5_000.0) == SPELLING.shown(Decimal("5000.0"))


@pytest.mark.parametrize(
    "text",
    [
        '={"$reactdb_type$": "date","value":"2026-01-31"}',
        "=5000.0",
        "=5e3",
        " =5000",
        "=5000 ",
        "=" + "9" * 5_000,
    ],
)
def test_a_text_that_is_no_spelling_is_itself(text: str) -> None:
    assert SPELLING.stored(text) is text
