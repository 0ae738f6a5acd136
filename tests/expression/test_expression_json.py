"""`r.json`: the sentences about a text that is not JSON."""

from __future__ import annotations

import pytest

from reactdb import r
from reactdb.errors import QueryError
from reactdb.expression import evaluate


def error(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        evaluate(r.json(text), None)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "The document is empty."),
        ("nan", "Invalid value."),
        ("NaN", "Invalid value."),
        ("{", "Missing a name for object member."),
        ('{"a"', "Missing a colon after a name of object member."),
        ('{"a":1', "Missing a comma or } after an object member."),
        ('[{"[":1}', "Missing a comma or ] after an array element."),
        ('{"a":[1,[]]', "Missing a comma or } after an object member."),
        ("[1 2]", "Missing a comma or ] after an array element."),
        ("1 2", "The document root must not be followed by other values."),
        ('"a', "Missing a closing quotation mark in string."),
        ('"\n"', "Invalid encoding in string."),
        (r'"\x"', "Invalid escape character in string."),
        (r'"\u12"', "Incorrect hex digit after \\u escape in string."),
        (r'"\ud800"', "The surrogate pair in string is invalid."),
        ("1e999", "Number too big to be stored in double."),
        ('{"a":1,"a":2}', 'Duplicate key "a" in JSON.'),
    ],
)
def test_a_text_that_is_not_json_is_refused_in_reqls_words(text: str, reason: str) -> None:
    assert f'Failed to parse "{text}" as JSON: {reason}' == error(text)


def test_a_long_text_that_is_not_json_is_shown_cut() -> None:
    assert f'Failed to parse "{"9" * 37}..." as JSON: Number too big to be stored in double.' == error(
        "9" * 5_000
    )
    assert f'Failed to parse "{"[" * 37}..." as JSON: Nesting depth limit exceeded.' == error("[" * 100_000)


def test_a_surrogate_pair_in_a_json_text_is_one_character() -> None:
    assert "\U0001f600" == evaluate(r.json(r'"\ud83d\ude00"'), None)
