"""Field names with a NUL, which BSON cannot contain: their form in BSON, and back.

    natively                                      in BSON
    --------------------------------------------  ---------------------------------
    `k` signs ␀ and a NUL                         2k + 1 signs ␀, and a 0
    `k` signs ␀ and a 0, with k > 0               2k signs ␀, and a 0
    everything else                               itself

So `a` NUL `b` is shown as `a␀0b`. (The sign is U+2400, Unicode's picture of a NUL.) The conversion is exact in both directions. A
dotted path is converted as a whole, since a dot ends each count.

Rule of this file: names in, names out.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["NUL", "SIGN", "format_name", "parse_name"]

NUL: Final = "\0"
SIGN: Final = "\N{SYMBOL FOR NULL}"
# A run is taken whole: the pattern begins at no other sign of it.
_NATIVE: Final = re.compile(f"(?<!{SIGN})({SIGN}*)({NUL}|(?<={SIGN})0)")
_SHOWN: Final = re.compile(f"(?<!{SIGN})({SIGN}+)0")


def format_name(name: str) -> str:
    """How the name of a stored field is shown."""
    return _NATIVE.sub(_show, name) if NUL in name or SIGN in name else name


def _show(match: re.Match[str]) -> str:
    return SIGN * (2 * len(match[1]) + (match[2] == NUL)) + "0"


def parse_name(name: str) -> str:
    """The stored name of a field, from its shown name."""
    return _SHOWN.sub(_store, name) if SIGN in name else name


def _store(match: re.Match[str]) -> str:
    signs, has_nul = divmod(len(match[1]), 2)
    return SIGN * signs + (NUL if has_nul else "0")
