"""Collation: CouchDB's order of JSON values, in selectors and in views.

    null < false < true < numbers < text < arrays < objects

1 equals 1.0. Arrays and objects are compared member by member. Objects are compared by their members in written order, each by
its name and then by its value.

Text has the order of Unicode's root collation: letters first (`a` next to `A` and `ä`), then accents, then case with small
letters first. With the extra `couchdb-icu`, ICU itself computes this, as in CouchDB. Without it, the tables of Python's
`unicodedata` give the same order to ASCII, and to accented Latin, Greek and Cyrillic letters; other characters come in the order
white space, punctuation, symbols, currencies, digits, letters by code point.

Two texts with different code points may be equal in this order (`é` as one code point and as two). They are then ordered by code
points. So two texts are equal only if they are the same text, as hashing needs; CouchDB takes them for equal.

Rule of this file: an order is a key, made once for each value; keys are compared by Python.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Final

__all__ = ["collation_key", "identity", "key_without_icu", "raw_key", "text_key"]

NUMBER: Final = 3
TEXT: Final = 4
ARRAY: Final = 5
OBJECT: Final = 6
_NULL: Final = (0,)
_FALSE: Final = (1,)
_TRUE: Final = (2,)


def collation_key(value: Any) -> tuple[Any, ...]:
    """A tuple with the order of JSON values."""
    if isinstance(value, str):
        return (TEXT, text_key(value))
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, dict):
        members = ((text_key(name), collation_key(member)) for name, member in value.items())
        return (OBJECT, tuple(members))
    if isinstance(value, list):
        return (ARRAY, tuple(map(collation_key, value)))
    return (NUMBER, value)


def raw_key(value: Any) -> tuple[Any, ...]:
    """The same for values of `_id`, in Erlang's order: text by its bytes, and after all else."""
    if isinstance(value, str):
        return (5, value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bool) or value is None:
        return (1, "null" if value is None else str(value).lower())
    if isinstance(value, dict):
        return (2, collation_key(value))
    if isinstance(value, list):
        return (3, tuple(map(raw_key, value)))
    return (0, value)


def identity(value: Any) -> Hashable:
    """A value that is equal for two values if and only if they are equal in this order."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, dict):
        return (OBJECT, tuple((name, identity(member)) for name, member in value.items()))
    if isinstance(value, list):
        return (ARRAY, tuple(map(identity, value)))
    # None and numbers: 1 and 1.0 are equal and have the same hash.
    return value  # type: ignore[no-any-return]


# ---------------------------------------------------------------------------------------------------------------
# Text

# The order of ASCII's punctuation and symbols in the root collation; digits and letters follow.
_MARKS: Final = "\t\n\x0b\x0c\r\x85 _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"
_MARK_PLACES: Final = {mark: place for place, mark in enumerate(_MARKS)}

# The groups of characters in the root collation.
_SPACE, _PUNCTUATION, _SYMBOL, _CURRENCY, _DIGIT, _LETTER = range(6)

# Letters with a stroke have no decomposition in Unicode, but the place of the letter without it; ligatures are two letters.
_SPELLED: Final = str.maketrans(
    {"ø": "o\u0338", "Ø": "O\u0338", "ł": "l\u0335", "Ł": "L\u0335", "đ": "d\u0335", "Đ": "D\u0335"}
    | {"ħ": "h\u0335", "Ħ": "H\u0335", "ŧ": "t\u0335", "Ŧ": "T\u0335", "ð": "d\u0336", "Ð": "D\u0336"}
    | {"æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ß": "ss", "ẞ": "SS", "\u0131": "i"}
)


def _place(character: str) -> tuple[int, int, int]:
    """The group of a character that is no letter, and its places in it: the known characters of ASCII come first."""
    category = unicodedata.category(character)
    if category == "Sc":
        group = _CURRENCY
    elif category.startswith("N"):
        return (_DIGIT, int(unicodedata.numeric(character, 0)), 0)
    elif category.startswith("Z") or character in "\t\n\x0b\x0c\r\x85":
        group = _SPACE
    elif category.startswith("P"):
        group = _PUNCTUATION
    else:
        group = _SYMBOL
    known = _MARK_PLACES.get(character)
    # ASCII's marks have the order of the table above, in any category.
    if known is not None and known >= _MARK_PLACES["_"]:
        group = {"$": _CURRENCY}.get(character, _PUNCTUATION if known <= _MARK_PLACES["%"] else _SYMBOL)
    return (group, 0, known) if known is not None else (group, 1, ord(character))


@lru_cache(maxsize=4_096)
def _weights(character: str) -> tuple[tuple[int, int, int] | None, int, int]:
    """The weights of a decomposed character: its place or None, as an accent, by its case."""
    category = unicodedata.category(character)
    if category.startswith("M"):
        return (None, ord(character), 0)
    if category.startswith("C") and character not in "\t\n\x0b\x0c\r\x85":
        # Control characters have no weight at all. Unassigned and private characters come after the letters.
        return (None, 0, 0) if category in ("Cc", "Cf") else ((_LETTER + 1, 0, ord(character)), 0, 0)
    if not category.startswith("L"):
        return (_place(character), 0, 0)
    small = character.lower()
    return ((_LETTER, 0, ord(small[0])), 0, int(small != character))


# ASCII's places, by code point: a text of nothing else has no accents, and needs no decomposition.
_ASCII_PLACES: Final = [_weights(chr(code))[0] for code in range(128)]


def _ascii_key(text: str) -> tuple[Hashable, ...]:
    places = [place for place in map(_ASCII_PLACES.__getitem__, text.encode()) if place is not None]
    if text == text.lower():
        return (tuple(places), (), (), text)
    weighed = [letter for letter in text if _ASCII_PLACES[ord(letter)] is not None]
    cases = [(-number, 1) for number, letter in enumerate(weighed, start=1) if "A" <= letter <= "Z"]
    return (tuple(places), (), tuple(cases), text)


def key_without_icu(text: str) -> tuple[Hashable, ...]:
    """The result of `text_key` without PyICU."""
    return _ascii_key(text) if text.isascii() else _decompose_key(text)


def _decompose_key(text: str) -> tuple[Hashable, ...]:
    places: list[tuple[int, int, int]] = []
    accents: list[tuple[int, int]] = []
    cases: list[tuple[int, int]] = []
    for character in unicodedata.normalize("NFKD", text.translate(_SPELLED)):
        place, accent, case = _weights(character)
        if place is not None:
            places.append(place)
        # The place of accents and capitals counts, so each goes with the number of letters before it. A text that ends has no
        # more of them, and comes first.
        if accent:
            accents.append((-len(places), accent))
        if case:
            cases.append((-len(places), case))
    return (tuple(places), tuple(accents), tuple(cases), text)


def _with_icu() -> Callable[[str], tuple[Hashable, ...]] | None:
    """The key that ICU makes, or None if PyICU is not installed."""
    try:
        from icu import Collator, Locale
    except ImportError:
        return None
    sort_key = Collator.createInstance(Locale.getRoot()).getSortKey

    def key(text: str) -> tuple[Hashable, ...]:
        return (sort_key(text), text)

    return key


# Keys of short texts are kept: a selector or a view meets the same names and words again and again.
_MOST_KEPT_CHARACTERS: Final = 64
_key: Final = _with_icu() or key_without_icu
_kept_key: Final = lru_cache(maxsize=8_192)(_key)


def text_key(text: str) -> tuple[Hashable, ...]:
    """A tuple with the order of texts."""
    return _kept_key(text) if len(text) <= _MOST_KEPT_CHARACTERS else _key(text)
