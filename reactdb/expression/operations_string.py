"""Operations: strings.

`upcase` and `downcase` change the letters A to Z only, and `split` without a separator splits at Unicode's white space,
as ReQL does.

Source: RethinkDB 2.4, terms/string.cc, case.cc.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any, Final

from reactdb.errors import QueryError

from .checks import array_limit, checked_array, integer, string
from .pattern import Pattern, read_pattern
from .registry import operation

_UPPER: Final = {code: code - 32 for code in range(97, 123)}
_LOWER: Final = {code: code + 32 for code in range(65, 91)}

# What Unicode calls White_Space. Python's `split` also takes the ASCII separators 1C to 1F.
_SPACE: Final = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_SPACES: Final = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


@operation("upcase", 1)
def upcase(text: Any) -> str:
    return string(text).translate(_UPPER)


@operation("downcase", 1)
def downcase(text: Any) -> str:
    return string(text).translate(_LOWER)


def _prepare_match(pattern: Any) -> Callable[[Any], Any]:
    ready = read_pattern(string(pattern))
    return lambda text: _match(ready, string(text))


@operation("match", 2, prepare=_prepare_match)
def match(text: Any, pattern: Any) -> dict[str, Any] | None:
    """The first match: its text, its place and its groups, or null. See `pattern` for what a pattern may be."""
    string(text)
    return _match(read_pattern(string(pattern)), text)


def _match(pattern: Pattern, text: str) -> dict[str, Any] | None:
    found = pattern.search(text)
    if found is None:
        return None
    groups = [_group(found, number) for number in range(1, pattern.compiled.groups + 1)]
    return {"str": found[0], "start": found.start(), "end": found.end(), "groups": groups}


def _group(found: re.Match[str], number: int) -> dict[str, Any] | None:
    if found[number] is None:
        return None
    return {"str": found[number], "start": found.start(number), "end": found.end(number)}


@operation("split", 1, 3)
def split(text: Any, separator: Any = None, limit: Any = -1) -> list[str]:
    """The parts between separators, at most `limit` cuts. Without a separator: at spaces, leaving out empty parts."""
    string(text)
    if separator is not None:
        string(separator)
    most = array_limit.get() - 1
    cuts = integer(limit)
    if not -1 <= cuts <= most:
        raise QueryError(f"Error: `split` size argument must be in range [-1, {most}].")
    if separator is None:
        parts = _split_at_spaces(text, cuts)
    elif separator == "":
        parts = _split_everywhere(text, cuts)
    else:
        parts = text.split(separator, cuts)
    return checked_array(parts)


def _split_at_spaces(text: str, cuts: int) -> list[str]:
    parts: list[str] = []
    at = 0
    while len(parts) != cuts:
        space = _SPACE.search(text, at)
        if space is None:
            break
        if space.start() > at:
            parts.append(text[at : space.start()])
        at = space.end()
    rest = text[at:].lstrip(_SPACES)
    return [*parts, rest] if rest else parts


def _split_everywhere(text: str, cuts: int) -> list[str]:
    """Its characters, each with the combining characters that follow it."""
    parts: list[str] = []
    at = 0
    while at < len(text):
        if len(parts) == cuts:
            return [*parts, text[at:]]
        end = at + 1
        while end < len(text) and unicodedata.category(text[end]).startswith("M"):
            end += 1
        parts.append(text[at:end])
        at = end
    return parts
