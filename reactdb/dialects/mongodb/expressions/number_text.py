"""Numbers as texts, for `$toString` and for operators that accept numbers as texts."""

from __future__ import annotations

import math
from typing import Any

from bson.decimal128 import Decimal128

__all__ = ["number_text"]


def number_text(value: Any) -> str:
    """A number as a text: doubles with the fewest exact digits, without `.0`."""
    if isinstance(value, Decimal128):
        return str(value)
    if not isinstance(value, float):
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return _short(value)


def _short(value: float) -> str:
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if mantissa.endswith(".0"):
        mantissa = mantissa[:-2]
    return f"{mantissa}e{exponent}" if exponent else mantissa
