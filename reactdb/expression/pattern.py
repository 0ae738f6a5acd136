"""Regular expressions for `match`, with a bound on their cost.

ReQL has RE2, which is linear whatever the pattern. Python's `re` tries one way after the other: `(a+)+$` on forty
letters takes longer than anybody waits, and a feed runs its condition for every change. So a pattern is read before it
is used, and its cost is bounded by what its parts may try:

    one character, a set, an anchor         1 way
    a, then b                               the ways of a, times those of b
    a|b                                     the ways of a, plus those of b; the larger ones if the first character decides
    a repeated up to k times, a has 1 way   k ways; n, the length of the text, if there is no limit
    a repeated, a has several ways          as many as all those choices make together: refused beyond `MAX_CHOICES`

That makes c * n**k tries at each of n places, where k counts the unlimited repetitions that may follow one another.
The text may be so long that c * n**(k + 1) stays below `MAX_TRIES`, about a second; a longer one is refused.

What RE2 does not have is refused with its sentence: references to groups, looking ahead and behind. As in RE2, `\\d`,
`\\w` and `\\s` are ASCII, and `$` is the end of the text only. Unlike ReQL's, positions count characters, not
UTF-8 bytes: they fit `slice`, as a reader would expect.

Rule of this file: nothing is matched before its cost is known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from reactdb.errors import QueryError, ResourceLimit

# The parser and the compiler of `re` have no public names; this is where they have been since Python 3.11.
_parser: Any = import_module("re._parser")
_compiler: Any = import_module("re._compiler")
_names: Any = import_module("re._constants")

MAX_PATTERN_CHARACTERS: Final = 1_000
MAX_CHOICES: Final = 10_000
MAX_TRIES: Final = 100_000_000

_ASCII_SETS: Final[dict[str, list[tuple[int, int]]]] = {
    "CATEGORY_DIGIT": [(48, 57)],
    "CATEGORY_WORD": [(48, 57), (65, 90), (95, 95), (97, 122)],
    "CATEGORY_SPACE": [(9, 10), (12, 13), (32, 32)],
}


@dataclass(slots=True, frozen=True)
class Pattern:
    """A pattern that may be used, on texts of up to `max_characters`."""

    text: str
    compiled: re.Pattern[str]
    max_characters: int

    def search(self, subject: str) -> re.Match[str] | None:
        if len(subject) > self.max_characters:
            raise ResourceLimit(
                f"The regexp `{self.text}` is too costly for a string of {len(subject)} characters "
                f"(more than {self.max_characters})."
            )
        return self.compiled.search(subject)


@lru_cache(maxsize=256)
def read_pattern(text: str) -> Pattern:
    """The pattern, compiled.

    Raises:
        QueryError: It is not one, in RE2's syntax as far as Python's `re` shares it.
        ResourceLimit: It could cost more than `match` may.
    """
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise ResourceLimit(
            f"Error in regexp: pattern too large (more than {MAX_PATTERN_CHARACTERS} characters)."
        )
    try:
        tree = _parser.parse(text)
        _as_re2(text, tree, bool(tree.state.flags & re.MULTILINE))
        ways = _ways_of_sequence(text, tree)
        compiled: re.Pattern[str] = _compiler.compile(tree, tree.state.flags)
    except (re.error, OverflowError) as error:
        raise _syntax_error(text, error) from None
    except RecursionError:
        raise ResourceLimit("Error in regexp: nested too deeply.") from None
    return Pattern(text, compiled, _max_characters(ways))


def _syntax_error(text: str, error: Exception) -> QueryError:
    position = getattr(error, "pos", None)
    portion = text if position is None else text[max(0, position - 1) :]
    reason = str(getattr(error, "msg", error))
    if reason.startswith("invalid group reference"):
        portion = portion if portion.startswith("\\") else "\\" + portion
        reason = f"invalid escape sequence: {portion[:2]}"
    return QueryError(f"Error in regexp `{text}` (portion `{portion}`): {reason}")


def _max_characters(ways: _Ways) -> int:
    room = MAX_TRIES / ways.factor
    return int(room ** (1 / (ways.power + 1)))


# ---------------------------------------------------------------------------------------------------------------
# RE2's meaning of what `re` reads differently


def _as_re2(text: str, tree: Any, multiline: bool) -> None:
    """Exchange, in place, what means something else in RE2, and refuse what it does not have."""
    for position, (code, argument) in enumerate(tree):
        name = str(code)
        if name == "AT" and argument == _names.AT_END and not multiline:
            tree[position] = (code, _names.AT_END_STRING)
        elif name == "IN":
            argument[:] = [part for item in argument for part in _ascii(item)]
        elif name in ("GROUPREF", "GROUPREF_EXISTS"):
            raise QueryError(
                f"Error in regexp `{text}` (portion `\\{_number(argument)}`): invalid escape sequence"
            )
        elif name in ("ASSERT", "ASSERT_NOT"):
            raise QueryError(f"Error in regexp `{text}` (portion `(?`): invalid perl operator: (?")
        elif name == "SUBPATTERN":
            _, added, removed, inner = argument
            _as_re2(text, inner, bool((multiline or added & re.MULTILINE) and not removed & re.MULTILINE))
        elif name == "BRANCH":
            for alternative in argument[1]:
                _as_re2(text, alternative, multiline)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            _as_re2(text, argument[2], multiline)
        elif name == "ATOMIC_GROUP":
            _as_re2(text, argument, multiline)


def _number(argument: Any) -> Any:
    return argument[0] if isinstance(argument, tuple) else argument


def _ascii(item: Any) -> list[Any]:
    code, argument = item
    if str(code) != "CATEGORY":
        return [item]
    name = str(argument)
    inside = _ASCII_SETS.get(name.replace("_NOT_", "_"))
    if inside is None:
        return [item]
    ranges = _outside(inside) if "_NOT_" in name else inside
    return [(_names.RANGE, bounds) for bounds in ranges]


def _outside(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    gaps = []
    start = 0
    for low, high in ranges:
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    return [*gaps, (start, 0x10FFFF)]


# ---------------------------------------------------------------------------------------------------------------
# How many ways there are


@dataclass(slots=True, frozen=True)
class _Ways:
    """At most factor * n**power ways for a part to match from one place in a text of n characters."""

    factor: float
    power: int

    def then(self, other: _Ways) -> _Ways:
        return _Ways(self.factor * other.factor, self.power + other.power)

    def or_else(self, other: _Ways) -> _Ways:
        if self.power == other.power:
            return _Ways(self.factor + other.factor, self.power)
        return self if self.power > other.power else other


_ONE: Final = _Ways(1, 0)


def _ways_of_sequence(text: str, tree: Any) -> _Ways:
    ways = _ONE
    for code, argument in tree:
        ways = ways.then(_ways_of(text, str(code), argument))
    if ways.factor > MAX_CHOICES or ways.power > 8:
        _refuse(text)
    return ways


def _ways_of(text: str, name: str, argument: Any) -> _Ways:
    if name == "SUBPATTERN":
        return _ways_of_sequence(text, argument[3])
    if name == "ATOMIC_GROUP":
        return _ways_of_sequence(text, argument)
    if name == "BRANCH":
        return _ways_of_branch(text, argument[1])
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _ways_of_repeat(text, *argument)
    return _ONE


def _ways_of_branch(text: str, alternatives: list[Any]) -> _Ways:
    ways = [_ways_of_sequence(text, alternative) for alternative in alternatives]
    firsts = [_first_characters(alternative) for alternative in alternatives]
    known = [characters for characters in firsts if characters is not None]
    if len(known) == len(firsts) and len(frozenset().union(*known)) == sum(map(len, known)):
        # No two alternatives begin alike, so at most one of them gets beyond its first character.
        return max(ways, key=lambda one: (one.power, one.factor))
    total = ways[0]
    for other in ways[1:]:
        total = total.or_else(other)
    return total


def _ways_of_repeat(text: str, low: int, high: int, inner: Any) -> _Ways:
    unlimited = high is _names.MAXREPEAT or high >= 1_000
    ways = _ways_of_sequence(text, inner)
    if ways == _ONE:
        if inner.getwidth()[0] == 0 and unlimited:
            # What may match nothing could be repeated without getting anywhere.
            _refuse(text)
        return _Ways(1, 1) if unlimited else _Ways(high - low + 1, 0)
    if high <= 1:
        # One time, or one way more: not at all.
        return ways if low == high else ways.or_else(_Ways(1, ways.power))
    if unlimited or ways.power * high > 8:
        _refuse(text)
    return _Ways(sum(ways.factor**times for times in range(low, high + 1)), ways.power * high)


def _first_characters(tree: Any) -> frozenset[str] | None:
    """The characters that a match of the sequence can begin with, in lower case; None if that is not easily said."""
    if not len(tree):
        return None
    code, argument = tree[0]
    name = str(code)
    if name == "LITERAL":
        return frozenset((chr(argument).lower(), chr(argument).upper().lower()))
    if name == "SUBPATTERN":
        return _first_characters(argument[3])
    if name in ("MAX_REPEAT", "MIN_REPEAT") and argument[0] > 0:
        return _first_characters(argument[2])
    return None


def _refuse(text: str) -> None:
    raise ResourceLimit(
        f"The regexp `{text}` is too costly: a repetition of what can match in several ways. "
        "Write each repeated part so that it matches in one way only."
    )
