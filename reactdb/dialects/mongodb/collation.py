"""Collations: the equality and order of texts for a command or a collection.

Without a collation, and with the locale `simple`, texts are compared by their code points. ICU computes all others, through PyICU
(the extra `mongodb-icu`); without PyICU, such a collation is refused with a clear error.

Rule of this file: a collation is only a key of texts. `bson_order` compares with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any, Final

from bson.code import Code

from reactdb.dialects.mongodb.bson_order import TextKey, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import is_number, truncate
from reactdb.errors import how_to_install

__all__ = ["SIMPLE", "check_collation", "expand_collation", "simple", "text_key"]

_SPECS: Final[dict[str, tuple[type, tuple[Any, ...]]]] = {
    "locale": (str, ()),
    "strength": (int, (1, 2, 3, 4, 5)),
    "caseLevel": (bool, ()),
    "caseFirst": (str, ("upper", "lower", "off")),
    "numericOrdering": (bool, ()),
    "alternate": (str, ("non-ignorable", "shifted")),
    "maxVariable": (str, ("punct", "space")),
    "normalization": (bool, ()),
    "backwards": (bool, ()),
    "version": (str, ()),
}
SIMPLE: Final = {"locale": "simple"}
"""By code points, also in a collection with another collation."""
_WITHOUT_ICU: Final = (
    "this collation needs ICU; use the locale 'simple', which compares by code points, or install ICU:"
    f" {how_to_install('mongodb-icu')}"
)


def text_key(spec: Mapping[str, Any] | None) -> TextKey | None:
    """The text key of a collation, or None for code points.

    Args:
        spec: A command's `collation`: `locale`, and any of the other fields.

    Raises:
        MongoError: A field is unknown (40415), of another type (14), has no such value (2) or is missing (40414); no such
            locale (2); or ICU is needed and not installed (238).
    """
    if not spec:
        return None
    checked = check_collation(spec)
    if checked["locale"] == "simple":
        return None
    return _icu_key(tuple(sorted(checked.items())))


def check_collation(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A collation with known fields and valid values."""
    if not isinstance(spec, Mapping):
        raise MongoError(14, f"a collation is an object, not {type_name(spec)}")
    checked: dict[str, Any] = {}
    for name, value in spec.items():
        if name not in _SPECS:
            raise MongoError(40415, f"BSON field 'collation.{name}' is an unknown field.")
        if value is None and name != "locale":
            continue
        kind, choices = _SPECS[name]
        if kind is int and is_number(value):
            value = truncate(value)
        if not isinstance(value, kind) or type(value) is Code or (kind is int and type(value) is bool):
            raise MongoError(14, f"the collation's field '{name}' has another type")
        if choices and value not in choices:
            raise MongoError(2, f"the collation's field '{name}' has no value '{value}'")
        checked[name] = value
    if "locale" not in checked:
        raise MongoError(40414, "BSON field 'collation.locale' is missing but a required field")
    return checked


def expand_collation(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A collation with all its fields, as MongoDB lists it."""
    return {**_USUAL, **spec}


_USUAL: Final = {
    "locale": "simple",
    "caseLevel": False,
    "caseFirst": "off",
    "strength": 3,
    "numericOrdering": False,
    "alternate": "non-ignorable",
    "maxVariable": "punct",
    "normalization": False,
    "backwards": False,
    "version": "57.1",
}
"""The defaults. The version is the version of ICU in MongoDB, because drivers' tools compare collations by it."""


def simple(collation: Any) -> Any:
    """The collation of a command; None for the simple collation."""
    if not collation or (isinstance(collation, Mapping) and collation.get("locale") == "simple"):
        return None
    return collation


@lru_cache(maxsize=64)
def _icu_key(fields: tuple[tuple[str, Any], ...]) -> TextKey:
    try:
        import icu
    except ImportError:
        raise MongoError(238, _WITHOUT_ICU) from None
    options = dict(fields)
    locale = options["locale"]
    known = icu.Collator.getAvailableLocales()
    if locale not in known and locale.partition("@")[0] not in known and locale != "root":
        raise MongoError(2, f"there is no locale '{locale}'")
    collator = icu.Collator.createInstance(icu.Locale(locale))
    collator.setStrength(_STRENGTHS[options.get("strength", 3)])
    on, off = icu.UCollAttributeValue.ON, icu.UCollAttributeValue.OFF
    for name, attribute in (
        ("caseLevel", icu.UCollAttribute.CASE_LEVEL),
        ("numericOrdering", icu.UCollAttribute.NUMERIC_COLLATION),
        ("normalization", icu.UCollAttribute.NORMALIZATION_MODE),
        ("backwards", icu.UCollAttribute.FRENCH_COLLATION),
    ):
        if name in options:
            collator.setAttribute(attribute, on if options[name] else off)
    if options.get("caseFirst", "off") != "off":
        first = (
            icu.UCollAttributeValue.UPPER_FIRST
            if options["caseFirst"] == "upper"
            else icu.UCollAttributeValue.LOWER_FIRST
        )
        collator.setAttribute(icu.UCollAttribute.CASE_FIRST, first)
    if options.get("alternate") == "shifted":
        collator.setAttribute(icu.UCollAttribute.ALTERNATE_HANDLING, icu.UCollAttributeValue.SHIFTED)

    @lru_cache(maxsize=8_192)
    def key(text: str) -> Hashable:
        return bytes(collator.getSortKey(text))

    return key


# ICU's numbers of the strengths: primary, secondary, tertiary, quaternary, identical.
_STRENGTHS: Final = {1: 0, 2: 1, 3: 2, 4: 3, 5: 15}
