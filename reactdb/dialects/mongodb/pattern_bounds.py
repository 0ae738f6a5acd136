"""Regular expressions that may never end: they are refused before anything is matched.

`re` tries one way to match after the other while the whole process waits: `(a+)+$` on forty letters takes hours.
`reactdb.expression.pattern_reader` bounds the number of ways in which a pattern may match. It reads RE2's syntax only, so what
PCRE has beside is replaced before: a lookahead or lookbehind is bounded by itself and left out of the pattern, a back-reference
becomes any one character, and an atomic group or a possessive repetition becomes an ordinary one.

Only what has no bound is refused. What takes a power of the text's length is not, nor is a pattern that the reader cannot read.

Rule of this file: it matches nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from reactdb.dialects.mongodb.unicode_classes import CLASS, ascii_and_others, read_class
from reactdb.expression.pattern_reader import TooLarge, UnreadablePattern, read

__all__ = ["is_bounded"]

_ESCAPED: Final = {"Z": r"\z", "h": r"[ \t]", "H": r"[^ \t]", "R": r"\n", "G": "", "e": r"\x1b"}
_CLASSES: Final = re.compile(CLASS)
_LOOKS: Final = ("(?=", "(?!", "(?<=", "(?<!")
_TOKENS: Final = re.compile(
    r"\\[pP](?:\{\^?[\w&]+\}|\w)|\\[0-9]|\\k[<{'][^>}']*[>}']|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\(\?<?[=!]|\(\?>|\(\?#[^)]*\)"
    r"|\(\?P?<\w+>|\(\?P=\w+\)|\(\?[a-zA-Z-]*[:)]|[*+?}]\+|#[^\n]*|\s|.",
    re.DOTALL,
)


@lru_cache(maxsize=512)
def is_bounded(pattern: str, options: str = "") -> bool:
    """Whether a search for the pattern takes at most a power of the text's length, as far as can be told."""
    # Letters in either case would hide from the reader where one repetition ends and the next begins.
    flags = "".join(letter for letter in "ms" if letter in options)
    prefix = f"(?{flags})" if flags else ""
    return all(_has_bound(prefix + part) for part in _parts(pattern, is_verbose="x" in options))


def _has_bound(part: str) -> bool:
    try:
        return read(part)[1] is not None
    except (TooLarge, UnreadablePattern):
        return True


def _parts(pattern: str, *, is_verbose: bool) -> list[str]:
    """The pattern and each of its looks, in RE2's syntax."""
    done: list[str] = []
    # What has been read of each open group, innermost last; and whether it is a look.
    open_groups: list[tuple[list[str], bool]] = [([], False)]
    for found in _TOKENS.finditer(pattern):
        token = found[0]
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
            into.append(_respelled(token))
    # What is still open is a mistake, which the reader tells.
    return [*done, "".join(piece for pieces, _ in open_groups for piece in pieces)]


def _superset(found: re.Match[str]) -> str:
    """At least what a class of Unicode's has."""
    return ascii_and_others(read_class(found[3] or found[4], is_negated=(found[1] == "P") != bool(found[2])))


def _respelled(token: str) -> str:
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
