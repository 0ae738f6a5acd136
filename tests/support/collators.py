"""collators: a stand-in for ICU, so that collations are tried where PyICU is not installed.

It has one locale, `tst`, whose strengths 1 and 2 do not tell letters from capitals.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

__all__ = ["CASELESS", "let_collations_be"]

CASELESS = {"locale": "tst", "strength": 2}


class Collator:
    @staticmethod
    def getAvailableLocales() -> dict[str, Any]:
        return {"tst": None}

    @staticmethod
    def createInstance(_locale: Any) -> Collator:
        return Collator()

    def setStrength(self, strength: int) -> None:
        self.strength = strength

    def getSortKey(self, text: str) -> bytes:
        return (text.casefold() if self.strength < 2 else text).encode()


class Names:
    def __getattr__(self, name: str) -> str:
        return name


def let_collations_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the stand-in in the place of PyICU for one test."""
    icu: Any = ModuleType("icu")
    icu.Collator, icu.Locale = Collator, str
    icu.UCollAttribute = icu.UCollAttributeValue = Names()
    monkeypatch.setitem(sys.modules, "icu", icu)
