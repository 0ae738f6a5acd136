"""`match` means what it does in RE2: with RE2 itself if installed, otherwise with `re` for patterns that cannot take long."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reactdb import budget
from reactdb.budget import Budget, Stopped
from reactdb.errors import QueryError, ResourceLimit
from reactdb.expression import evaluate, expr
from reactdb.expression.pattern import PythonPattern, Re2Pattern, read_pattern
from tests.support.scaling import examples

ENGINES = ["python", "re2"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Every test runs with RE2, and as if it were not installed."""
    if request.param == "re2":
        pytest.importorskip("re2", reason="google-re2 is not installed")
    else:
        monkeypatch.setitem(sys.modules, "re2", None)
    read_pattern.cache_clear()
    yield request.param
    read_pattern.cache_clear()


every_engine = pytest.mark.usefixtures("engine")


def match(text: str, pattern: str) -> Any:
    return evaluate(expr(text).match(pattern), None)


@every_engine
def test_a_match_tells_its_text_its_place_and_its_groups() -> None:
    expected = {"str": "bcde", "start": 1, "end": 5, "groups": [None, {"str": "cde", "start": 2, "end": 5}]}

    assert expected == match("abcdefg", "a(b.e)|b(c.e)")
    assert expected == match("abcdefg", "(?i)a(b.e)|B(c.e)")
    assert match("abcdefg", "a(b.e)|B(c.e)") is None


@every_engine
def test_places_count_characters_and_fit_slice() -> None:
    assert (1, 2) == (match("äbc", "b")["start"], match("äbc", "b")["end"])


@every_engine
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
        ("a{b", "a{", "a{"),
        ("a.b", r"\Q.\E", "."),
        ("a-b", "[a-]+", "a-"),
        ("]", "[]]", "]"),
        ("x1", "[[:digit:]]", "1"),
        ("x1", "[[:^digit:]]", "x"),
        ("ab\n", r"b\z", None),
        ("A", r"\x41", "A"),
        ("A", r"\x{41}", "A"),
        ("A", r"\101", "A"),
        ("aBc", "a(?i:b)c", "aBc"),
        ("abC", "a(?i)b|c", "ab"),
        ("xC", "a(?i)b|c", "C"),
        ("xK", "[^k]", "x"),
        ("K", "(?i)[^k]", None),
        ("a\nb", "a.b", None),
        ("a\nb", "(?s)a.b", "a\nb"),
        ("xyxy", "(?P<two>xy){2}", "xyxy"),
    ],
)
def test_classes_and_anchors_mean_what_they_mean_to_re2(text: str, pattern: str, found: str | None) -> None:
    result = match(text, pattern)

    assert found == (result and result["str"])


@every_engine
@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("ab\\9", "Error in regexp `ab\\9` (portion `\\9`): invalid escape sequence: \\9"),
        ("(", "Error in regexp `(` (portion `(`): missing ): ("),
        ("a)", "Error in regexp `a)` (portion `a)`): unexpected ): a)"),
        (r"(a)\1", r"Error in regexp `(a)\1` (portion `\1`): invalid escape sequence: \1"),
        ("(?=a)b", "Error in regexp `(?=a)b` (portion `(?=`): invalid perl operator: (?="),
        ("a++", "Error in regexp `a++` (portion `++`): bad repetition operator: ++"),
        ("a**", "Error in regexp `a**` (portion `**`): bad repetition operator: **"),
        ("*a", "Error in regexp `*a` (portion `*`): no argument for repetition operator: *"),
        ("[b-a]", "Error in regexp `[b-a]` (portion `b-a`): invalid character class range: b-a"),
        ("[ab", "Error in regexp `[ab` (portion `[ab`): missing ]: [ab"),
        ("a\\", "Error in regexp `a\\` (portion ``): trailing \\"),
    ],
)
def test_what_re2_does_not_have_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(QueryError) as raised:
        match("abc", pattern)

    assert message == str(raised.value)


@every_engine
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


NESTED = "a{0,1000}" * 20 + "$"


@every_engine
def test_a_pattern_with_very_many_repetitions_is_refused_before_it_is_compiled() -> None:
    """RE2 takes 0.7 s to compile this one, and minutes for a text; it lets no other thread run meanwhile."""
    started = time.thread_time()
    with pytest.raises(ResourceLimit):
        match("a" * 400_000 + "b", NESTED)

    assert time.thread_time() - started < 0.5


@every_engine
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(?:a{0,1000}){1}a{0,1000}a{0,1000}$", "a" * 400_000 + "b"),
        ("[ab]*a[ab]{200}c$", "ab" * 400_000),
        ("(a|A|aa)" * 12 + "b", "a" * 400_000),
        ("(?i)" + "(a|A)" * 40 + "b", "a" * 60),
        ("[ab]{900}c", "a" * 800_000),
    ],
)
def test_a_pattern_times_a_text_is_bounded(pattern: str, text: str) -> None:
    started = time.thread_time()
    try:
        match(text, pattern)
    except ResourceLimit:
        pass

    assert time.thread_time() - started < 3


@every_engine
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"joe@\w+\.com", "joe@mail.com"),
        (r"(\w+)@(\w+)\.com", "joe@mail.com"),
        ("(?i)JOE@", "joe@"),
        (r"\d{4}-\d{2}-\d{2}", None),
        ("joe.{0,10}com", "joe@mail.com"),
        ("no such words in it, " * 20, None),
    ],
)
def test_a_simple_pattern_is_found_in_a_megabyte(pattern: str, found: str | None) -> None:
    result = match("some words of a text " * 50_000 + "joe@mail.com", pattern)

    assert found == (result and result["str"])


@pytest.mark.parametrize("engine", ["python"], indirect=True)
def test_without_re2_what_a_text_has_decides_whether_it_is_too_long(engine: str) -> None:
    """Behind `.*` only the places go on at which what follows stands."""
    assert match("a text " * 500 + "foo", "a.*foo.*bar") is None
    with pytest.raises(ResourceLimit):
        match("a foo bar" * 500, "a.*foo.*foo.*foo.*bar!")


@every_engine
def test_common_patterns_with_repeated_groups_work() -> None:
    address = r"^[\w.+-]+@[\w-]+(\.[\w-]+)+$"

    assert match("joe.doe@mail.example.com", address)["groups"][0]["str"] == ".com"
    assert match("1,22,333", r"^\d+(,\d+)*$")["str"] == "1,22,333"
    assert match("no address", address) is None


@every_engine
def test_patterns_have_limits() -> None:
    with pytest.raises(ResourceLimit, match="too large"):
        match("a", "a" * 2_000)
    with pytest.raises(ResourceLimit, match="too large"):
        match("a" * 100, "((a{1,50}){1,50}){1,50}")


@pytest.mark.parametrize("engine", ["python"], indirect=True)
@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "(x+x+)+y", r"^(\w+\s?)*$", "([a-z]+,?)*", "(a?){60}a{60}"]
)
def test_without_re2_what_can_take_very_long_is_refused_with_the_remedy(engine: str, pattern: str) -> None:
    with pytest.raises(ResourceLimit, match=r"can take too long: .* Install google-re2, .*'reactdb\[re2\]'"):
        match("a", pattern)


@pytest.mark.parametrize("engine", ["python"], indirect=True)
def test_without_re2_a_string_may_be_too_long_for_a_pattern(engine: str) -> None:
    assert match("z" * 4_000 + "foo", ".*foo") is not None
    with pytest.raises(ResourceLimit, match="can take too long for a string of 100000 characters"):
        match("z" * 100_000, ".*foo")


@pytest.mark.parametrize("engine", ["re2"], indirect=True)
def test_re2_matches_what_would_take_re_for_ever(engine: str) -> None:
    assert match("a" * 100_000 + "b", "(a+)+$") is None
    assert match("ä" * 100_000 + "b", "(ä+)+b")["end"] == 100_001


def test_another_module_of_the_name_re2_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", ModuleType("re2"))
    read_pattern.cache_clear()

    assert match("abc", "b")["str"] == "b"
    read_pattern.cache_clear()


@every_engine
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


@settings(max_examples=examples(500))
@given(patterns(), texts)
def test_re_and_re2_find_the_same_match(pattern: str, text: str) -> None:
    """What `re` is given means to it what the pattern means to RE2, wherever it is given anything."""
    re2 = pytest.importorskip("re2", reason="google-re2 is not installed")
    try:
        found = PythonPattern(pattern)
    except ResourceLimit:
        return

    assert Re2Pattern(pattern, re2).search(text) == found.search(text)


@settings(max_examples=examples(500))
@given(st.text(alphabet="ab1[](){}|*+?\\^$.-,:dwsbzAQE<>P=!ixm", max_size=10))
def test_re_and_re2_refuse_the_same_patterns(pattern: str) -> None:
    """Beside what needs RE2, and says so."""
    re2 = pytest.importorskip("re2", reason="google-re2 is not installed")
    here, there = verdict(lambda: PythonPattern(pattern)), verdict(lambda: Re2Pattern(pattern, re2))
    assume("google-re2" not in here)

    assert here == there


def verdict(read: Any) -> str:
    """Whether a pattern is taken; if not, because of its syntax or its size, and what is said where RE2 is needed."""
    try:
        read()
    except QueryError as error:
        return str(error) if "google-re2" in str(error) else "refused"
    except ResourceLimit as error:
        return str(error) if "google-re2" in str(error) else "too large"
    return "taken"


def test_work_on_a_long_text_spends_the_budget() -> None:
    clock = iter(range(10**6))
    outer = budget.current.set(Budget(50, clock=lambda: next(clock)))
    try:
        with pytest.raises(Stopped):
            for _ in range(1_000):
                evaluate(expr("a" * 100_000).upcase(), None)
    finally:
        budget.current.reset(outer)
