"""`match`: RE2's meaning with Python's `re` where that is cheap, with an automaton where it might not be."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reactdb.errors import QueryError, ResourceLimit
from reactdb.expression import evaluate, expr
from reactdb.expression.automaton import Automaton
from reactdb.expression.pattern import read_pattern


def match(text: str, pattern: str) -> Any:
    return evaluate(expr(text).match(pattern), None)


def test_a_match_tells_its_text_its_place_and_its_groups() -> None:
    expected = {"str": "bcde", "start": 1, "end": 5, "groups": [None, {"str": "cde", "start": 2, "end": 5}]}

    assert expected == match("abcdefg", "a(b.e)|b(c.e)")
    assert expected == match("abcdefg", "(?i)a(b.e)|B(c.e)")
    assert match("abcdefg", "a(b.e)|B(c.e)") is None


def test_places_count_characters_and_fit_slice() -> None:
    assert (1, 2) == (match("äbc", "b")["start"], match("äbc", "b")["end"])


@pytest.mark.parametrize(
    ("text", "pattern", "found"),
    [
        ("ab\n", "b$", None),
        ("ab\n", "(?m)b$", "b"),
        ("a٣", r"\d", None),
        ("é1", r"\w", "1"),
        ("a\xa0b", r"\s", None),
        ("5x", r"\D", "x"),
        ("a_ ", r"\W", " "),
        ("x.y", r"[^\w]", "."),
        ("ÄB", "(?i)äb", "ÄB"),
        ("", "", ""),
    ],
)
def test_classes_and_anchors_mean_what_they_mean_to_re2(text: str, pattern: str, found: str | None) -> None:
    result = match(text, pattern)

    assert found == (result and result["str"])


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("ab\\9", "Error in regexp `ab\\9` (portion `\\9`): invalid escape sequence: \\9"),
        ("(", "Error in regexp `(` (portion `(`): missing ), unterminated subpattern"),
        (r"(a)\1", r"Error in regexp `(a)\1` (portion `\1`): invalid escape sequence"),
        ("(?=a)b", "Error in regexp `(?=a)b` (portion `(?`): invalid perl operator: (?"),
        ("a++", "Error in regexp `a++` (portion `+`): bad repetition operator"),
    ],
)
def test_what_re2_does_not_have_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(QueryError) as raised:
        match("abc", pattern)

    assert message == str(raised.value)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 5_000 + "b"),
        ("(a|aa)+$", "a" * 5_000 + "b"),
        ("(x+x+)+y", "x" * 5_000),
        ("(.*)*=(.*)*;", "x" * 5_000),
        (r"^(\w+\s?)*$", "word " * 1_000 + "!"),
        ("a*a*a*a*a*a*a*b", "a" * 5_000),
        (".*foo", "z" * 100_000),
        ("(a?){60}a{60}", "a" * 60),
    ],
)
def test_no_pattern_takes_long(pattern: str, text: str) -> None:
    """A second would be short for `re`, which takes years for most of these, and long for us."""
    started = time.perf_counter()
    try:
        match(text, pattern)
    except ResourceLimit:
        pass

    assert time.perf_counter() - started < 10


def test_common_patterns_with_repeated_groups_work() -> None:
    address = r"^[\w.+-]+@[\w-]+(\.[\w-]+)+$"

    assert match("joe.doe@mail.example.com", address)["groups"][0]["str"] == ".com"
    assert match("1,22,333", r"^\d+(,\d+)*$")["str"] == "1,22,333"
    assert match("no address", address) is None


def test_patterns_and_texts_have_limits() -> None:
    with pytest.raises(ResourceLimit, match="too large"):
        match("a", "a" * 2_000)
    with pytest.raises(ResourceLimit, match="too large"):
        match("a" * 100, "((a{1,50}){1,50}){1,50}")
    with pytest.raises(ResourceLimit, match="too costly"):
        match("a" * 3_000_000, "(a+)+$")


def test_a_pattern_may_be_computed() -> None:
    assert [True, False] == evaluate(
        expr(["a", "b"]).map(lambda it: expr("xax").match(it).coerce_to("bool")), None
    )


atoms = st.sampled_from(
    ["a", "b", "c", ".", "[ab]", "[^a]", r"\w", r"\b", "^", "$", "(?i:A)", "ab", r"\d", "é"]
)


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3) -> str:
    kind = draw(
        st.sampled_from(["atom", "atom", "then", "or", "group", "repeat", "repeat"] if depth else ["atom"])
    )
    if kind == "atom":
        return draw(atoms)
    if kind == "then":
        return draw(patterns(depth - 1)) + draw(patterns(depth - 1))
    if kind == "or":
        return f"(?:{draw(patterns(depth - 1))}|{draw(patterns(depth - 1))})"
    if kind == "group":
        return f"({draw(patterns(depth - 1))})"
    how = draw(st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "*?", "+?", "??"]))
    return f"(?:{draw(patterns(depth - 1))}){how}"


texts = st.text(alphabet="abcA1é \n", max_size=8)


def repeats_nothing(tree: Any) -> bool:
    """Whether something is repeated that can match nothing: there the engines of this world disagree."""
    for code, argument in tree:
        inner = argument if str(code) == "BRANCH" else ()
        parts = (
            [argument[-1]]
            if str(code) in ("SUBPATTERN", "MAX_REPEAT", "MIN_REPEAT")
            else (inner and inner[1])
        )
        if "REPEAT" in str(code) and argument[-1].getwidth()[0] == 0:
            return True
        if any(repeats_nothing(part) for part in parts):
            return True
    return False


@settings(max_examples=500)
@given(patterns(), texts)
def test_the_automaton_and_re_find_the_same_match(pattern: str, text: str) -> None:
    found = read_pattern(pattern)
    assume(not repeats_nothing(found._tree))

    spans = Automaton(pattern, found._tree).search(text)
    expected = found._compiled.search(text)

    assert (expected and list(expected.regs)) == spans


def test_reading_a_pattern_leaves_re_alone() -> None:
    """`re`'s parser shares its lists; whoever changes one changes every pattern of the process."""
    read_pattern(r"\w\d\s[^\w]")
    re.purge()

    assert re.fullmatch(r"\w\d\s[^\w]", "é٣\xa0-") is not None
