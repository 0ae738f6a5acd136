"""The greatest number of steps of a regular expression; a pattern without a bound is refused before any match.

`re` tries one way to match after the other while the whole process waits: `(a+)+$` on forty letters takes hours.
`reactdb.expression.pattern_reader` bounds the steps. It reads only RE2's syntax, so PCRE's additions are replaced before: a
lookahead or lookbehind has its own bound and is removed from the pattern, a back-reference becomes any character, and an atomic
group or a possessive repetition becomes an ordinary one. A pattern that is still unreadable has no bound, unless nothing in it
has a choice.

Rule of this file: it matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from reactdb.dialects.mongodb.unicode_classes import CLASS, ascii_and_others, read_class
from reactdb.expression.pattern_reader import (
    Subpattern,
    TooLarge,
    UnreadablePattern,
    begins_with_anything,
    read,
    search_steps,
)
from reactdb.expression.pattern_steps import Subject

__all__ = ["SearchBound", "search_bound"]

MAX_REPEATS: Final = 65_535
"""PCRE's own."""

_ESCAPED: Final = {"Z": r"\z", "h": r"[ \t]", "H": r"[^ \t]", "R": r"\n", "G": "", "e": r"\x1b"}
_CLASSES: Final = re.compile(CLASS)
_VERBOSE: Final = re.compile(r"\(\?[a-zA-Z]*x")
_FLAG_X: Final = re.compile("[xua]")
_REFERENCE: Final = re.compile(r"\\[1-9]|\\k|\(\?P=")
_LOOKS: Final = ("(?=", "(?!", "(?<=", "(?<!")
_TOKENS: Final = re.compile(
    r"\\[pP](?:\{\^?[\w&]+\}|\w)|\\[0-9]|\\k[<{'][^>}']*[>}']|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\(\?<?[=!]|\(\?>|\(\?#[^)]*\)"
    r"|\(\?P?<\w+>|\(\?P=\w+\)|\(\?[a-zA-Z-]*[:)]|[*+?}]\+|#[^\n]*|\s|.",
    re.DOTALL,
)


@dataclass(slots=True, frozen=True)
class SearchBound:
    """The greatest number of steps of a search.

    Attributes:
        in_text: In a whole text.
        from_one_place: From a single place of it.
        is_by_lines: It is enough to try a match at the beginning of each line, as for `.*a`: elsewhere in the line there is none
            either.
    """

    in_text: Callable[[Subject], float]
    from_one_place: Callable[[Subject], float]
    is_by_lines: bool


@lru_cache(maxsize=512)
def search_bound(pattern: str, options: str = "") -> SearchBound | None:
    """The bound of a search for the pattern; None if no bound is known."""
    flags = "".join(letter for letter in "ims" if letter in options)
    prefix = f"(?{flags})" if flags else ""
    *looks, whole = _parts(pattern, is_verbose="x" in options or _sets_verbose(pattern))
    subpatterns = [_read(prefix + part) for part in (*looks, whole)]
    if not all(part.is_bounded for part in subpatterns):
        return None
    refers_back = _REFERENCE.search(pattern) is not None

    def times(subject: Subject) -> float:
        """The cost of each step: the look-arounds at its place, and the text compared with a back-reference."""
        steps = 1.0 + sum(look.measure(subject)[0] for look in subpatterns[:-1])
        return steps * (subject.length + 1) if refers_back else steps

    main = subpatterns[-1]
    in_text = search_steps(main)
    return SearchBound(
        lambda subject: in_text(subject) * times(subject),
        lambda subject: main.measure(subject)[0] * times(subject),
        begins_with_anything(main) and not refers_back,
    )


def _read(part: str) -> Subpattern:
    try:
        return read(part, max_repeats=MAX_REPEATS)
    except (TooLarge, UnreadablePattern):
        # Without a choice there is one way, with at most one step per character.
        steps = float(len(part) + 1)
        return Subpattern(
            "", is_bounded=not any(sign in part for sign in "*+?{|"), measure=lambda subject: (steps, 1.0)
        )


def _sets_verbose(pattern: str) -> bool:
    return _VERBOSE.search(pattern) is not None


def _parts(pattern: str, *, is_verbose: bool) -> list[str]:
    """The pattern and each of its looks, in RE2's syntax."""
    done: list[str] = []
    # The parsed part of each open group, innermost last; and whether it is a look-around.
    open_groups: list[tuple[list[str], bool]] = [([], False)]
    for match in _TOKENS.finditer(pattern):
        token = match[0]
        into = open_groups[-1][0]
        if token.startswith("(?#") or (is_verbose and (token.isspace() or token[0] == "#")):
            continue
        if token in _LOOKS or token == "(?>" or (token[0] == "(" and not token.endswith(")")):
            open_groups.append(([], token in _LOOKS))
            if token not in _LOOKS:
                open_groups[-1][0].append("(?:" if token == "(?>" else token)
        elif token == ")" and len(open_groups) > 1:
            read_so_far, is_look = open_groups.pop()
            text = "".join(read_so_far)
            if is_look:
                done.append(text)
                open_groups[-1][0].append("(?:)")
            else:
                open_groups[-1][0].append(text + ")")
        else:
            into.append(_respell(token))
    # An open group is an error, which the reader reports.
    return [*done, "".join(piece for pieces, _ in open_groups for piece in pieces)]


def _superset(match: re.Match[str]) -> str:
    """A class with at least the characters of a Unicode class."""
    return ascii_and_others(read_class(match[3] or match[4], is_negated=(match[1] == "P") != bool(match[2])))


def _respell(token: str) -> str:
    if token.startswith("(?") and token[-1] in ":)" and not token.startswith("(?P="):
        # With the flag x, spaces and comments are removed already.
        token = _FLAG_X.sub("", token)
        return "" if token in ("(?)", "(?-)") else token
    if token[0] == "[":
        return _CLASSES.sub(_superset, token)
    if token[:2] in ("\\p", "\\P"):
        return _CLASSES.sub(lambda found: f"[{_superset(found)}]", token)
    if token[0] == "\\":
        if token[1:].isdigit() and token != "\\0":
            return "[^\\x00]"
        return "[^\\x00]" if token[1:2] == "k" else _ESCAPED.get(token[1:], token)
    if token.startswith("(?P="):
        return "[^\\x00]"
    return token[0] if len(token) == 2 and token[1] == "+" and token[0] in "*+?}" else token
