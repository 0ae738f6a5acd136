"""examples: how many examples a law is tried with, in one place for all laws.

A law names the number that it is tried with by `python -m tests.laws`. The ordinary run tries a part of them, because it
has to be short; `REACTDB_EXAMPLES` sets that part (0.1 by default, 10 for ten times as many). A test that tries a list of cases
tries a part of the list in the same way.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import TypeVar

PART = float(os.environ.get("REACTDB_EXAMPLES", "0.1"))
FEWEST = 6

Case = TypeVar("Case")


def examples(count: int) -> int:
    """How many of `count` examples to try now: never fewer than six, unless there are no more.

    A test that is not Hypothesis's own and calls this is marked `examples`, so that `python -m tests.laws` finds it.
    """
    return max(round(count * PART), min(count, FEWEST))


def part_of(cases: Iterable[Case]) -> list[Case]:
    """Every n-th of the cases, so that as many are tried as `examples` says; all of them by `python -m tests.laws`.

    Every run begins at another case, but in CI always at the first. A test that calls this is marked `examples`.
    """
    every = list(cases)
    step = max(1, len(every) // max(1, examples(len(every))))
    first = 0 if os.environ.get("CI") else random.randrange(step)
    return every[first::step]
