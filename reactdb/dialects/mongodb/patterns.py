"""Regular expressions in the syntax of PCRE, as far as Python's `re` has the same, with MongoDB's option letters.

    i   letters in either case      m   ^ and $ at each line      s   . is also a line's end      x   spaces do not count

The longest time of a search is known beforehand (`pattern_bounds`). A pattern that may take `re` more than `MAX_STEPS` is matched
at one place of the text after the other, and each place spends the budget; if even one place may take more, the pattern is
refused.

Rule of this file: a pattern is compiled once for as long as it is in use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from reactdb.budget import CALL_STEPS, STEPS, spend
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.pattern_bounds import SearchBound, search_bound
from reactdb.dialects.mongodb.unicode_classes import CLASS, members, read_class
from reactdb.expression.pattern import MAX_STEPS, safe_length
from reactdb.expression.pattern_steps import Subject

__all__ = ["BoundedPattern", "UnreadablePattern", "compile_pattern", "option_letters"]

_FLAGS: Final = {
    "i": re.IGNORECASE,
    "m": re.MULTILINE,
    "s": re.DOTALL,
    "x": re.VERBOSE,
    "u": re.UNICODE,
    "l": re.NOFLAG,
}
_LETTERS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
# PCRE's different notations, or its ASCII meaning: the classes of letters, digits and spaces, and word boundaries.
_OUTSIDE: Final = {
    "z": r"\Z",
    "Z": r"(?=\n?\Z)",
    "h": r"[ \t]",
    "R": r"(?:\r\n|\n|\r)",
    **{letter: rf"(?a:\{letter})" for letter in "dDsSwWbB"},
}
_INSIDE: Final = {"h": r" \t", "d": "0-9", "s": r" \t\n\r\f\v", "w": "A-Za-z0-9_"}
_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_MOST_LETTERS: Final = 32_764
# As `re` writes it. It reads a million letters in a second, and a class of Unicode's takes up to 20,000.
_MOST_SPELLED: Final = 500_000
# The number of `re` steps with the duration of one step of the budget.
_STEPS_OF_RE: Final = 1_000
_TOKENS: Final = re.compile(rf"\[:(\^?)(\w*):\]|{CLASS}|\\(.)|\(\?<(?![=!])|\[\^?\]?|\]", re.DOTALL)
# All text is UTF-8 here, so a pattern may declare it.
_UTF: Final = re.compile(r"(?:\(\*UTF8?\))+")
_OF_ONE_CASE: Final = frozenset(("Lu", "Ll", "Lt"))


class UnreadablePattern(ValueError):
    """A pattern or an option letter is not readable."""


def option_letters(flags: int) -> str:
    """The letters of a `bson` Regex's flags."""
    return "".join(letter for letter, flag in _LETTERS.items() if flags & flag)


class BoundedPattern:
    """A pattern with a bound for its matches.

    Raises:
        MongoError: By `search` and `find_all`: a text is too long for the pattern (51156).
    """

    __slots__ = ("_bound", "_compiled", "_max_letters")

    def __init__(self, compiled: re.Pattern[str], bound: SearchBound) -> None:
        self._compiled = compiled
        self._bound = bound
        self._max_letters = safe_length(bound.in_text, MAX_STEPS)

    def search(self, text: str) -> re.Match[str] | None:
        """The first match."""
        if self._is_quick(text):
            return self._compiled.search(text)
        return next(self._from_each_place(text), None)

    def find_all(self, text: str) -> Iterator[re.Match[str]]:
        """All matches, one after the other."""
        return self._compiled.finditer(text) if self._is_quick(text) else self._from_each_place(text)

    def _is_quick(self, text: str) -> bool:
        spend(CALL_STEPS + len(text))
        return len(text) <= self._max_letters or self._bound.in_text(Subject(len(text), text)) <= MAX_STEPS

    def _from_each_place(self, text: str) -> Iterator[re.Match[str]]:
        steps = self._bound.from_one_place(Subject(len(text), text))
        if steps > MAX_STEPS:
            raise MongoError(
                51156, f"the regular expression can take too long for a text of {len(text)} characters"
            )
        cost = min(int(steps) // _STEPS_OF_RE + 1, STEPS)
        match, place = self._compiled.match, 0
        while place <= len(text):
            spend(cost)
            result = match(text, place)
            if result is not None:
                yield result
            if result is not None:
                place = max(result.end(), place + 1)
            elif self._bound.is_by_lines:
                place = text.find("\n", place) + 1 or len(text) + 1
            else:
                place += 1


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, options: str = "") -> BoundedPattern:
    """The pattern, ready to search with.

    Raises:
        UnreadablePattern: `re` cannot read it, a search might never end, or there is no such option.
    """
    spend(CALL_STEPS + len(pattern))
    flags = re.NOFLAG
    for letter in options:
        if letter not in _FLAGS:
            raise UnreadablePattern(f"there is no option '{letter}'")
        flags |= _FLAGS[letter]
    if len(pattern) > _MOST_LETTERS:
        raise UnreadablePattern(f"it has more than {_MOST_LETTERS} letters")
    prefix = _UTF.match(pattern)
    pattern = pattern if prefix is None else pattern[prefix.end() :]
    try:
        compiled = re.compile(_respell(pattern, ignores_case="i" in options), flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnreadablePattern(str(error)) from None
    bound = search_bound(pattern, options)
    if bound is None:
        raise UnreadablePattern("parts of it can match in so many ways that a search might never end")
    return BoundedPattern(compiled, bound)


def _respell(pattern: str, *, ignores_case: bool) -> str:
    """The pattern as `re` writes it."""
    is_inside = False
    letters = 0

    def spelled(match: re.Match[str]) -> str:
        nonlocal is_inside, letters
        token = match[0]
        if match[2] is not None:
            if not is_inside:
                raise UnreadablePattern("POSIX named classes are supported only within a class")
            return _posix(match[2], is_negated=bool(match[1]))
        if match[3] is not None:
            members = _unicode(match, is_inside=is_inside, ignores_case=ignores_case)
            letters += len(members)
            if letters > _MOST_SPELLED:
                raise UnreadablePattern("it has too many classes of Unicode's characters")
            return members
        if match[7] is not None:
            return (_INSIDE if is_inside else _OUTSIDE).get(match[7], token)
        if token.startswith("["):
            if is_inside:
                return "\\" + token
            is_inside = True
            return token
        if token == "]":
            is_inside = False
            return token
        return token if is_inside else "(?P<"

    return _TOKENS.sub(spelled, pattern)


def _unicode(match: re.Match[str], *, is_inside: bool, ignores_case: bool) -> str:
    """A class of Unicode's categories. The option for letters in either case is not about it."""
    name = match[5] or match[6]
    categories = read_class(name, is_negated=(match[3] == "P") != bool(match[4]))
    if not categories and name != "Any":
        raise UnreadablePattern(f"unknown property '{name}' after \\P or \\p")
    if not is_inside:
        return f"(?-i:[{members(categories)}])" if categories else "(?!)"
    if ignores_case and 0 < len(categories & _OF_ONE_CASE) < len(_OF_ONE_CASE):
        raise UnreadablePattern(f"\\p{{{name}}} within a class does not go together with the option i")
    return members(categories)


def _posix(name: str, *, is_negated: bool) -> str:
    """The characters of a POSIX class, for use in brackets: ASCII only, or the complement."""
    if name not in _POSIX:
        raise UnreadablePattern(f"unknown POSIX class name '{name}'")
    if not is_negated:
        return _POSIX[name]
    others = re.compile(f"[^{_POSIX[name]}]")
    return "".join(f"\\x{code:02x}" for code in range(128) if others.match(chr(code))) + "\x80-\U0010ffff"
