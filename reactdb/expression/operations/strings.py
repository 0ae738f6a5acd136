"""Operations: strings.

`startswith` and `endswith` are Python's, and not ReQL's. They fail for no value, so that an index may serve them.

`upcase` and `downcase` change the letters A to Z only, and `split` without a separator splits at Unicode's white space,
as ReQL does.

Source: RethinkDB 2.4, terms/string.cc, case.cc.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any, Final

from reactdb.budget import spend
from reactdb.errors import QueryError
from reactdb.expression.checks import array_limit, check_array, integer, string
from reactdb.expression.pattern import Pattern, read_pattern
from reactdb.expression.registry import operation

_UPPER: Final = {code: code - 32 for code in range(97, 123)}
_LOWER: Final = {code: code + 32 for code in range(65, 91)}

# Unicode's White_Space. Python's `split` also takes the ASCII separators 1C to 1F.
_SPACE: Final = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_SPACES: Final = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


@operation("upcase", 1)
def upcase(text: Any) -> str:
    return string(text).translate(_UPPER)


@operation("downcase", 1)
def downcase(text: Any) -> str:
    return string(text).translate(_LOWER)


def _prepare_startswith(prefix: Any) -> Callable[[Any], Any]:
    return lambda text: startswith(text, prefix)


@operation("startswith", 2, never_fails=True, prepare=_prepare_startswith)
def startswith(text: Any, prefix: Any) -> bool:
    """Whether both are texts, and the first begins with the second."""
    return isinstance(text, str) and isinstance(prefix, str) and text.startswith(prefix)


def _prepare_endswith(suffix: Any) -> Callable[[Any], Any]:
    return lambda text: endswith(text, suffix)


@operation("endswith", 2, never_fails=True, prepare=_prepare_endswith)
def endswith(text: Any, suffix: Any) -> bool:
    """Whether both are texts, and the first ends with the second."""
    return isinstance(text, str) and isinstance(suffix, str) and text.endswith(suffix)


def _prepare_match(pattern: Any) -> Callable[[Any], Any]:
    ready = read_pattern(string(pattern))
    return lambda text: _match(ready, string(text))


@operation("match", 2, prepare=_prepare_match)
def match(text: Any, pattern: Any) -> dict[str, Any] | None:
    """The first match: its text, its place and its groups, or null. See `pattern` for the syntax."""
    string(text)
    return _match(read_pattern(string(pattern)), text)


def _match(pattern: Pattern, text: str) -> dict[str, Any] | None:
    spans = pattern.search(text)
    if spans is None:
        return None
    match_, *groups = [_describe_match(text, start, end) for start, end in spans]
    assert match_ is not None
    return {**match_, "groups": groups}


def _describe_match(text: str, start: int, end: int) -> dict[str, Any] | None:
    return None if start < 0 else {"str": text[start:end], "start": start, "end": end}


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
    spend(len(parts))
    return check_array(parts)


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
