"""Conditions from a command line: what they mean, and where they are wrong."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import row
from reactdb.condition_text import MAX_LEVELS, parse_condition, parse_field
from reactdb.errors import QueryError
from tests.support.scaling import examples

DOCUMENTS = [
    {"id": 1, "player": "Bob", "score": 5, "room": 5},
    {"id": 2, "player": "Eve", "score": 12, "room": 5, "address": {"city": "New York", "zip": "007"}},
    {"id": 3, "player": "true", "vip": True, "address": 7},
    {"id": 4, "player": "O'Brien", "score": 2.5, "zip code": None, "address": [{"city": "New York"}]},
]


@pytest.fixture(scope="module")
def table():
    with reactdb.connect(":memory:") as db:
        table = db.table_create("games")
        table.insert(DOCUMENTS)
        yield table


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("score>10", [2]),
        ("score >= 5", [1, 2]),
        ("score<5", [4]),
        ("score<=5", [1, 4]),
        ("score==5.0", [1]),
        ("score=25e-1", [4]),
        ("score=-5", []),
        ("player=Bob", [1]),
        ('player="Bob"', [1]),
        (r'player="B\u006fb"', [1]),
        ("player='Bob'", [1]),
        ('player="O\'Brien"', [4]),
        ("player!=Bob", [2, 3, 4]),
        ("vip=true", [3]),
        ('player="true"', [3]),
        ("'zip code'=null", [4]),
        ("room=5 and score>=6", [2]),
        ("room=5 or vip=true", [1, 2, 3]),
        ("vip=true or room=5 and score>=6", [2, 3]),
        ("(vip=true or room=5) and player!=Bob", [2, 3]),
        ("not room=5", [3, 4]),
        ("not (room=5 or vip=true)", [4]),
        ("not not room=5", [1, 2]),
        ("address.city='New York'", [2]),
        ("address.zip=007", [2]),
        ("address.zip=7", []),
        ("address.city='New York' or room=5", [1, 2]),
        ("  (  room = 5 )  ", [1, 2]),
    ],
)
def test_a_condition_selects(table, text, ids):
    assert ids == [document["id"] for document in table.order_by("id").filter(parse_condition(text)).run()]


def test_a_condition_is_the_expression_that_is_meant():
    assert ((row["room"] == 5) & (row["score"] >= 3)).key == parse_condition("room=5 and score>=3").key


def test_an_equality_is_routed_by_hash(table):
    feed = table.filter(parse_condition("room=5 and score>3")).changes()

    assert "hashed by the value of room (1)" == feed.explain()["routing"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "position 1: expected a field but found the end"),
        ("score", "position 6: expected one of = != < <= > >= but found the end"),
        ("score=>3", "position 6: expected one of = != < <= > >= but found `=>`"),
        ("score>", "position 7: expected a value but found the end"),
        ("score> and room=5", "position 8: expected a value but found `and`"),
        ("score>1 room=5", "position 9: expected `and`, `or` or the end but found `room`"),
        ("score>1)", "position 8: expected `and`, `or` or the end but found `)`"),
        ("(score>1", "position 9: expected `and`, `or` or `)` but found the end"),
        ("or=1", "position 1: expected a field but found `or`"),
        ("a.=1", "position 3: expected a field but found `=`"),
        ("a='x", "position 3: the quote is not closed"),
        ('a="x', "position 3: in quotes: unterminated string starting"),
        ("a=1e999", "position 3: `1e999` is beyond the range of a float"),
        ("a=" + "9" * 5000, "position 3: a number of 5,000 digits"),
        ("a=\udc80", "position 1: document: the text has a lone surrogate at character 0; UTF-8 has none"),
        ("(" * 99, f"position {MAX_LEVELS + 1}: more than {MAX_LEVELS} levels of parentheses and `not`"),
        (".".join("a" * 99), "position 102: more than 50 names"),
    ],
)
def test_a_mistake_is_told_with_its_position(text, message):
    with pytest.raises(QueryError) as caught:
        parse_condition(text)

    assert message == str(caught.value)


def test_the_deepest_condition_that_is_read_can_be_used():
    levels = MAX_LEVELS - 1
    text = "not (" * (levels // 2) + ".".join("a" * 50) + "=1 or b=2" + ")" * (levels // 2)

    assert parse_condition(text)({"b": 2}) is (levels // 2 % 2 == 0)


def test_a_field_may_be_a_path():
    assert row["address"]["zip code"].key == parse_field("address.'zip code'").key


@given(st.text(string.printable, max_size=30))
@settings(max_examples=examples(300), deadline=None)
def test_any_text_is_a_condition_or_a_mistake(text):
    """Nothing else comes out, whatever is typed."""
    result = outcome(text)

    assert result.startswith("position ") or result in ("True", "False")


def outcome(text):
    try:
        condition = parse_condition(text)
    except QueryError as error:
        return str(error)
    return str(condition.default(False)({"a": 1}))


@pytest.mark.slow
@given(
    st.sampled_from(["a", "b c", 'd"e', "f'g", "and"]), st.text(max_size=20) | st.integers() | st.booleans()
)
@settings(max_examples=examples(200), deadline=None)
def test_what_is_quoted_as_json_comes_back(name, value):
    text = f"{json.dumps(name)}={json.dumps(value)}"

    assert (row[name] == value).key == parse_condition(text).key
