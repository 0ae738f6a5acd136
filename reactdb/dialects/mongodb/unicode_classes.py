r"""Unicode's general categories as classes of a regular expression: `\p{L}`, `\PN`, `\p{^Lu}`, which Python's `re` does not have.

    members(read_class("Lu", is_negated=False))     the capital letters, for use in brackets

Rule of this file: every character has one category, so the complement of a class is the union of the other categories.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby
from sys import maxunicode
from typing import Final
from unicodedata import category

__all__ = ["CLASS", "Categories", "ascii_and_others", "members", "read_class"]

CLASS: Final = r"\\([pP])(?:\{(\^?)([A-Z][a-z&]?|Any)\}|([A-Z]))"
"""A class in a pattern: the letter p, or P for the negation, a sign for another negation, and the name with or without braces."""

Categories = frozenset[str]
_MINOR: Final = {"L": "ultmo", "M": "nce", "N": "dlo", "P": "cdseifo", "S": "mcko", "Z": "slp", "C": "cfson"}
_ALL: Final = frozenset(major + minor for major, minors in _MINOR.items() for minor in minors)


def read_class(name: str, *, is_negated: bool) -> Categories:
    """The categories of a class by its name, such as `L`, `Lu`, `L&` or `Any`. Empty for an unknown class."""
    if name == "Any":
        categories = _ALL
    elif name == "L&":
        categories = frozenset(("Lu", "Ll", "Lt"))
    else:
        categories = frozenset(one for one in _ALL if one.startswith(name))
    return _ALL - categories if is_negated and categories else categories


@lru_cache(maxsize=64)
def members(categories: Categories) -> str:
    """The characters of some categories, for use in brackets."""
    return "".join(
        f"\\U{first:08x}-\\U{last:08x}"
        for one, runs in sorted(_runs().items())
        if one in categories
        for first, last in runs
    )


def ascii_and_others(categories: Categories) -> str:
    """The same in RE2's syntax, plus all characters beyond ASCII: a superset of the class."""
    own = "".join(f"\\x{code:02x}" for code in range(128) if category(chr(code)) in categories)
    return own + r"\x{80}-\x{10ffff}"


@lru_cache(maxsize=1)
def _runs() -> dict[str, list[tuple[int, int]]]:
    """The first and the last character of each run of characters of one category."""
    runs: dict[str, list[tuple[int, int]]] = {}
    first = 0
    for name, run in groupby(map(category, map(chr, range(maxunicode + 1)))):
        count = _length(run)
        runs.setdefault(name, []).append((first, first + count - 1))
        first += count
    return runs


def _length(run: Iterable[str]) -> int:
    return sum(1 for _ in run)
