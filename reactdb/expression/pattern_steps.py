"""How many steps Python's `re` may take for a pattern on one text: an upper bound, from the parts of the pattern.

`re` tries one way to match after the other. Each part has two numbers: the steps that it takes from one place to go
through all its ways, and the number of those ways. The next part is tried once for each way:

    one character, a set, an anchor             1 step, 1 way
    a, then b                                   the steps of a, and for each way of a the steps of b
    a|b                                         the steps of both; the ways of both, or the more if their first characters differ
    one character up to k times                 as many as occur in a row in the text, at most k
    a group up to k times                       as many as the text is long

After `.*`, a literal text such as `foo` fails at once where it does not occur. So of the ways of `.*` only as many
continue as there are `foo` in the text. A text that a program has stored has few of them, and an attack's has many.

Rule of this file: it matches nothing but sets of characters, in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from reactdb.budget import spend, spend_bytes

__all__ = [
    "ONE_STEP",
    "Measure",
    "Subject",
    "steps_of_alternatives",
    "steps_of_optional",
    "steps_of_repeated",
    "steps_of_run",
    "steps_of_search",
    "steps_of_sequence",
]

MOST: Final = 1e300


class Subject:
    """The properties of a text that decide the steps. Without the text, only its length is known: all may be as bad
    as it can be."""

    __slots__ = ("_counts", "_folded", "_runs", "_text", "length")

    def __init__(self, length: int, text: str | None = None) -> None:
        self.length = length
        self._text = text
        self._folded: str | None = None
        self._counts: dict[str, int] = {}
        self._runs: dict[str, int] = {}

    def count(self, part: str) -> int:
        """At how many places a part of the pattern may begin, at most. Letters count in either case, as the pattern may say."""
        if self._text is None or not part.isascii():
            return self.length
        if part not in self._counts:
            self._counts[part] = self._count(self._text, part.lower())
        return self._counts[part]

    def _count(self, text: str, part: str) -> int:
        spend_bytes(self.length)
        if self._folded is None:
            # Two letters that `re` takes for lower case in either case, but `lower` leaves as they are.
            self._folded = text.lower().replace("\u017f", "s").replace("\u0131", "i")
        if any(part.startswith(part[place:]) for place in range(1, len(part))):
            # It may overlap with itself, and `count` would pass over that.
            part = part[0]
        return self._folded.count(part)

    def longest_run(self, source: str) -> int:
        """The longest row of characters of a set; `source` is the set as `re` writes it."""
        if self._text is None:
            return self.length
        if source not in self._runs:
            spend(self.length)
            matches = re.compile(f"(?:{source})+").finditer(self._text)
            self._runs[source] = max((run.end() - run.start() for run in matches), default=0)
        return self._runs[source]


Measure = Callable[[Subject], tuple[float, float]]
"""The steps of a part from one place, and its ways there."""


def ONE_STEP(_subject: Subject) -> tuple[float, float]:
    """The measure of one character, a set or an anchor."""
    return 1.0, 1.0


def steps_of_sequence(parts: list[tuple[Measure, str, bool]]) -> Measure:
    """For one part after the other: the measure of each, its literal character, and whether it is a run that may end
    anywhere."""
    # The literal characters after a run are seen as one text.
    pieces: list[tuple[Measure | None, str, bool]] = []
    for measure, literal, is_loose in parts:
        if literal and pieces and pieces[-1][1]:
            pieces[-1] = (None, pieces[-1][1] + literal, False)
        else:
            pieces.append((None if literal else measure, literal, is_loose))

    def measure_all(subject: Subject) -> tuple[float, float]:
        steps, ways = 1.0, 1.0
        # Where a search begins is a choice among the places of the text, too.
        before, is_after_run, unbounded = 1.0, False, 1
        for measure, literal, is_loose in pieces:
            if measure is None:
                steps += ways
                if is_after_run:
                    ways = min(ways, before * subject.count(literal))
                steps += ways * len(literal)
                is_after_run = False
                continue
            own_steps, own_ways = measure(subject)
            before, is_after_run = ways, is_loose
            if is_loose and own_ways >= subject.length:
                # Several runs share the text, so they have fewer ways together than each of them alone would have.
                unbounded += 1
                steps += ways * (own_steps + unbounded) / unbounded
                ways *= (own_ways + unbounded) / unbounded
            else:
                steps += ways * own_steps
                ways *= own_ways
        return min(steps, MOST), min(ways, MOST)

    return measure_all


def steps_of_search(measure: Measure, prefix: str, *, is_anchored: bool) -> Callable[[Subject], float]:
    """The steps of a search, which begins at each occurrence of the literal `prefix` in the text; or only at the
    first place."""

    def steps(subject: Subject) -> float:
        from_one_place = measure(subject)[0]
        if is_anchored:
            return from_one_place
        places = subject.count(prefix) if prefix else subject.length + 1
        return subject.length + places * from_one_place

    return steps


def steps_of_alternatives(measures: list[Measure], *, is_certain: bool) -> Measure:
    """For one of several parts. `is_certain`: their first characters differ."""

    def measure_all(subject: Subject) -> tuple[float, float]:
        measured = [measure(subject) for measure in measures]
        if is_certain:
            return len(measured) + max(steps for steps, _ in measured), max(ways for _, ways in measured)
        return sum(steps for steps, _ in measured), sum(ways for _, ways in measured)

    return measure_all


def steps_of_optional(measure: Measure) -> Measure:
    """Of a part once, or not at all."""

    def measure_one(subject: Subject) -> tuple[float, float]:
        steps, ways = measure(subject)
        return steps + 1, ways + 1

    return measure_one


def steps_of_run(source: str, low: int, high: int | None) -> Measure:
    """For a repeated character."""

    def measure(subject: Subject) -> tuple[float, float]:
        most = subject.longest_run(source)
        most = most if high is None else min(most, high)
        return most + 1.0, max(most - low + 1.0, 1.0)

    return measure


def steps_of_repeated(atoms: int, low: int, high: int | None) -> Measure:
    """For a repeated group of so many characters and sets. The place where one turn ends and the next begins is
    certain, so all turns together pass over the text once, and each of them tries no more than the contents of the
    group."""

    def measure(subject: Subject) -> tuple[float, float]:
        most = subject.length if high is None else min(subject.length, high)
        return most * (atoms + 1.0) + subject.length + 1.0, max(most - low + 1.0, 1.0)

    return measure
