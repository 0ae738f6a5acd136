"""Names of test cases: the value without its memory address, so that every run has the same names."""

from __future__ import annotations

import re


def stable_id(value: object) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:40]
