"""Regular expressions in the syntax of PCRE, as far as Python's `re` says the same, with MongoDB's option letters.

    i   letters in either case      m   ^ and $ at each line      s   . is also a line's end      x   spaces do not count

Rule of this file: a pattern is compiled once for as long as it is in use.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["UnreadablePattern", "compiled_pattern", "option_letters"]

_FLAGS: Final = {
    "i": re.IGNORECASE,
    "m": re.MULTILINE,
    "s": re.DOTALL,
    "x": re.VERBOSE,
    "u": re.UNICODE,
    "l": re.NOFLAG,
}
_LETTERS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
# PCRE's names for what `re` writes differently: the very end of a text, the end before a last line's end, named groups.
_SPELLED: Final = re.compile(r"\\(.)|\(\?<(?![=!])|(?<!\\)\$(?=\Z|\))", re.DOTALL)
_ESCAPES: Final = {"z": r"\Z", "Z": r"(?=\n?\Z)", "h": r"[ \t]", "R": r"(?:\r\n|\n|\r)", "Q": ""}


class UnreadablePattern(ValueError):
    """A pattern or an option letter that cannot be read."""


def option_letters(flags: int) -> str:
    """The letters of a `bson` Regex's flags."""
    return "".join(letter for letter, flag in _LETTERS.items() if flags & flag)


@lru_cache(maxsize=512)
def compiled_pattern(pattern: str, options: str = "") -> re.Pattern[str]:
    """The pattern, ready to search with.

    Raises:
        UnreadablePattern: `re` cannot read it, or there is no such option.
    """
    flags = re.NOFLAG
    for letter in options:
        if letter not in _FLAGS:
            raise UnreadablePattern(f"there is no option '{letter}'")
        flags |= _FLAGS[letter]
    # PCRE's classes, such as \w, know ASCII only, unless the option u says otherwise; letters in either case know all.
    try:
        return re.compile(_SPELLED.sub(_respelled, pattern), flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnreadablePattern(str(error)) from None


def _respelled(found: re.Match[str]) -> str:
    if found[1] is not None:
        return _ESCAPES.get(found[1], found[0])
    return "$" if found[0] == "$" else "(?P<"
