"""Regular expressions for `match`, with a bound on their cost.

ReQL has RE2, which is linear whatever the pattern. Python's `re` tries one way after the other: `(a+)+$` on forty
letters takes longer than anybody waits, and a feed runs its condition for every change. So a pattern is read before it
is used, and its cost is bounded by the ways that its parts may match from one place, n being the length of the text:

    one character, a set, an anchor             1
    a, then b                                   the ways of a, times those of b
    a|b                                         the sum of both; the larger if their first characters differ
    a up to k times, where a has 1 way          k; n if there is no limit
    a several times, where a has several ways   not bounded

With c * n**k ways at each of n places, `re` is used while c * n**(k + 1) is at most `MAX_TRIES`, which is well below a
second. What is above that, or not bounded, is matched by an automaton: linear as RE2, slower than `re` usually is, and
with a bound of its own. `ResourceLimit` is only raised beyond that one.

What RE2 does not have is refused: references to groups, looking ahead and behind, possessive repetition. As in RE2,
`\\d`, `\\w` and `\\s` are ASCII, and `$` is the end of the text only. Unlike ReQL's, positions count characters and not
bytes of UTF-8: so they fit `slice`, as a reader would expect.

Rule of this file: nothing is matched before its cost is known.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, Final

from reactdb.budget import CALL_STEPS, spend
from reactdb.errors import QueryError, ResourceLimit
from reactdb.expression.automaton import Automaton, Spans

# The parser and the compiler of `re` have no public names; this is where they have been since Python 3.11.
_parser: Any = import_module("re._parser")
_compiler: Any = import_module("re._compiler")
_names: Any = import_module("re._constants")

MAX_PATTERN_CHARACTERS: Final = 1_000
MAX_POWER: Final = 6
MAX_TRIES: Final = 20_000_000

_ASCII_SETS: Final[dict[str, list[tuple[int, int]]]] = {
    "CATEGORY_DIGIT": [(48, 57)],
    "CATEGORY_WORD": [(48, 57), (65, 90), (95, 95), (97, 122)],
    "CATEGORY_SPACE": [(9, 10), (12, 13), (32, 32)],
}


class Pattern:
    """A pattern, and the way to match it within bounds."""

    def __init__(self, text: str, tree: Any) -> None:
        self._text = text
        self._tree = tree
        self._compiled: re.Pattern[str] = _compiler.compile(tree, tree.state.flags)
        ways = _ways_of_sequence(tree)
        self._max_characters = (
            -1 if ways is None else int((MAX_TRIES / ways.factor) ** (1 / (ways.power + 1)))
        )

    @cached_property
    def _automaton(self) -> Automaton:
        return Automaton(self._text, self._tree)

    def search(self, subject: str) -> Spans | None:
        """Where the first match and its groups begin and end, (-1, -1) for a group without part in it; or None.

        Raises:
            ResourceLimit: The pattern is too large, or the string is too long for it.
        """
        spend(CALL_STEPS + len(subject))
        if len(subject) > self._max_characters:
            return self._automaton.search(subject)
        found = self._compiled.search(subject)
        return None if found is None else list(found.regs)


@lru_cache(maxsize=256)
def read_pattern(text: str) -> Pattern:
    """The pattern, compiled.

    Raises:
        QueryError: It is not one, in RE2's syntax as far as Python's `re` shares it.
        ResourceLimit: It is too large.
    """
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise ResourceLimit(f"The regexp is too large: more than {MAX_PATTERN_CHARACTERS} characters.")
    try:
        with warnings.catch_warnings():
            # What Python might mean by `[[` one day is no concern of RE2's syntax.
            warnings.simplefilter("ignore", FutureWarning)
            tree = _parser.parse(text)
        _as_re2(text, tree, bool(tree.state.flags & re.MULTILINE))
        return Pattern(text, tree)
    except (re.error, OverflowError) as error:
        raise _syntax_error(text, error) from None
    except RecursionError:
        raise ResourceLimit("The regexp is too large: nested too deeply.") from None


def _syntax_error(text: str, error: Exception) -> QueryError:
    position = getattr(error, "pos", None)
    portion = text if position is None else text[max(0, position - 1) :]
    reason = str(getattr(error, "msg", error))
    if reason.startswith("invalid group reference"):
        portion = portion if portion.startswith("\\") else "\\" + portion
        reason = f"invalid escape sequence: {portion[:2]}"
    return QueryError(f"Error in regexp `{text}` (portion `{portion}`): {reason}")


# ---------------------------------------------------------------------------------------------------------------
# RE2's meaning of what `re` reads differently


def _as_re2(text: str, tree: Any, multiline: bool) -> None:
    """Exchange the items of the tree that mean something else in RE2, and refuse what it does not have."""
    for position, (code, argument) in enumerate(tree):
        name = str(code)
        if name == "AT" and argument == _names.AT_END and not multiline:
            tree[position] = (code, _names.AT_END_STRING)
        elif name == "IN":
            # A new list: the parser shares its own among all patterns, also those of `re`.
            tree[position] = (code, [part for item in argument for part in _ascii(item)])
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
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            _as_re2(text, argument[2], multiline)
        elif name in ("POSSESSIVE_REPEAT", "ATOMIC_GROUP"):
            raise QueryError(f"Error in regexp `{text}` (portion `+`): bad repetition operator")


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


def _ways_of_sequence(tree: Any) -> _Ways | None:
    """How many ways there are for a sequence to match; None if no bound is known."""
    total = _ONE
    for code, argument in tree:
        ways = _ways_of(str(code), argument)
        if ways is None:
            return None
        total = total.then(ways)
        if total.power > MAX_POWER:
            return None
    return total


def _ways_of(name: str, argument: Any) -> _Ways | None:
    if name == "SUBPATTERN":
        return _ways_of_sequence(argument[3])
    if name == "BRANCH":
        return _ways_of_branch(argument[1])
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        return _ways_of_repeat(*argument)
    return _ONE


def _ways_of_branch(alternatives: list[Any]) -> _Ways | None:
    total: _Ways | None = None
    largest = _ONE
    for alternative in alternatives:
        ways = _ways_of_sequence(alternative)
        if ways is None:
            return None
        total = ways if total is None else total.or_else(ways)
        largest = max(largest, ways, key=lambda one: (one.power, one.factor))
    firsts = [_first_characters(alternative) for alternative in alternatives]
    known = [characters for characters in firsts if characters is not None]
    if len(known) == len(firsts) and len(frozenset().union(*known)) == sum(map(len, known)):
        # No two alternatives begin alike, so at most one of them gets beyond its first character.
        return largest
    return total


def _ways_of_repeat(low: int, high: Any, inner: Any) -> _Ways | None:
    ways = _ways_of_sequence(inner)
    if ways is None or (ways != _ONE and high != 1) or (inner.getwidth()[0] == 0 and high != 1):
        # Of what matches nothing, or in several ways, even a few repetitions are a great many ways.
        return None
    if high == 1:
        # Once, or also not at all.
        return ways if low == 1 else ways.or_else(_ONE)
    return _Ways(1, 1) if high is _names.MAXREPEAT else _Ways(high - low + 1, 0)


def _first_characters(tree: Any) -> frozenset[str] | None:
    """What a match of the sequence can begin with, in lower case; None if that is not easily said."""
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
