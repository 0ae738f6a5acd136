"""The story: random commits to one table, and what every reader has to be told of them.

A step is a list of (key, n): the document of that key has this n afterwards, and None deletes it. A step of several is one
commit. What is told of a commit is in the order in which it was written; a document that stays as it was is not told.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

KEYS = [f"k{n}" for n in range(6)]
TABLE = "story"

Step = list[tuple[str, int | None]]


class Told(NamedTuple):
    """One change, as every dialect can say it."""

    kind: str
    key: str
    n: int | None


class Model:
    """What there is after the steps so far, and what was told.

    Attributes:
        commits: How many changes each commit has made that made any.
    """

    def __init__(self) -> None:
        self.documents: dict[str, int] = {}
        self.told: list[Told] = []
        self.commits: list[int] = []

    def apply(self, step: Step) -> None:
        before = len(self.told)
        for key, n in step:
            old = self.documents.get(key)
            if n == old:
                continue
            if n is None:
                del self.documents[key]
                self.told.append(Told("delete", key, None))
            else:
                self.documents[key] = n
                self.told.append(Told("insert" if old is None else "update", key, n))
        if len(self.told) > before:
            self.commits.append(len(self.told) - before)

    def clear(self) -> None:
        """The table was dropped, and made again."""
        self.documents.clear()
        self.told.clear()
        self.commits.clear()


def collapsed(told: Iterable[Told]) -> list[tuple[str, int | None]]:
    """The newest change of each document, in the order of these: what CouchDB tells of history."""
    newest: dict[str, int | None] = {}
    for one in told:
        newest.pop(one.key, None)
        newest[one.key] = one.n
    return list(newest.items())


def steps(chance: random.Random, count: int, *, is_grouped: bool = True) -> list[Step]:
    """Random steps."""
    found: list[Step] = []
    for _ in range(count):
        size = chance.choice([1, 1, 1, 2, 3]) if is_grouped else 1
        keys = chance.sample(KEYS, size)
        found.append([(key, None if chance.random() < 0.25 else chance.randrange(4)) for key in keys])
    return found
