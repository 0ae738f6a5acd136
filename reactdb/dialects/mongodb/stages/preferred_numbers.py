"""The series of preferred numbers for the boundaries of `$bucketAuto`: Renard's, the E series, 1-2-5, powers of two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from reactdb.dialects.mongodb.numeric import as_float

__all__ = ["SERIES", "Rounding"]


class Rounding(NamedTuple):
    """A series: its members from 1 up to less than 10; none for powers of two."""

    members: tuple[float, ...]

    def up(self, value: Any) -> float:
        """The next member above a number."""
        number = as_float(value)
        if number == 0:
            return 0.0
        if not self.members:
            return 2.0 ** (math.floor(math.log2(number)) + 1)
        return next(member for member in self._around(number) if member > number * (1 + 1e-12))

    def down(self, value: Any) -> float:
        """The next member below a number."""
        number = as_float(value)
        if number == 0:
            return 0.0
        if not self.members:
            return 2.0 ** (math.ceil(math.log2(number)) - 1)
        return [member for member in self._around(number) if member < number * (1 - 1e-12)][-1]

    def _around(self, number: float) -> list[float]:
        decade = math.floor(math.log10(number))
        return [member * 10.0**power for power in (decade - 1, decade, decade + 1) for member in self.members]


def _renard(count: int, digits: int) -> Rounding:
    return Rounding(tuple(round(10 ** (place / count), digits) for place in range(count)))


_E12: Final = (1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2)
_E24: Final = tuple(sorted((*_E12, 1.1, 1.3, 1.6, 2.0, 2.4, 3.0, 3.6, 4.3, 5.1, 6.2, 7.5, 9.1)))
_R5: Final = (1.0, 1.6, 2.5, 4.0, 6.3)
_R10: Final = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
_R20: Final = tuple(sorted((*_R10, 1.12, 1.4, 1.8, 2.24, 2.8, 3.55, 4.5, 5.6, 7.1, 9.0)))

SERIES: Final[Mapping[str, Rounding]] = {
    "R5": Rounding(_R5),
    "R10": Rounding(_R10),
    "R20": Rounding(_R20),
    "R40": _renard(40, 2),
    "R80": _renard(80, 2),
    "1-2-5": Rounding((1.0, 2.0, 5.0)),
    "E6": Rounding(_E24[::4]),
    "E12": Rounding(_E12),
    "E24": Rounding(_E24),
    "E48": _renard(48, 2),
    "E96": _renard(96, 2),
    "E192": _renard(192, 2),
    "POWERSOF2": Rounding(()),
}
