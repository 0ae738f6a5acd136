"""examples: how many examples a law is tried with, in one place for all laws.

A law names the number that it is tried with by `python -m tests.laws`. The ordinary run tries a part of them, because it
has to be short; `REACTDB_EXAMPLES` sets that part (0.15 by default, 10 for ten times as many).
"""

from __future__ import annotations

import os

PART = float(os.environ.get("REACTDB_EXAMPLES", "0.15"))
FEWEST = 10


def examples(count: int) -> int:
    """How many of `count` examples to try now: never fewer than ten, unless there are no more.

    A test that is not Hypothesis's own and calls this is marked `examples`, so that `python -m tests.laws` finds it.
    """
    return max(round(count * PART), min(count, FEWEST))
