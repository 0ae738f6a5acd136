"""Marks: what reactdb was meant to reach, and whether a run did.

A miss is printed as a miss and changes no exit code: on a shared machine one run proves nothing, and the answer to a mark
that is missed again and again is a profile, not a red light.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.harness import Outcome

OURS = "reactdb"


@dataclass(frozen=True, slots=True)
class Mark:
    """One figure to reach.

    Attributes:
        workload, metric: Which figure.
        least_speed: At least so many times the speed of raw in the same run.
        most: At most so much, in the workload's unit.
        beside: Another figure of ours, (workload, metric). What is measured is this one divided by that one.
        most_times, least_times: Where there is such a figure: its bounds.
    """

    workload: str
    metric: str
    least_speed: float | None = None
    most: float | None = None
    beside: tuple[str, str] | None = None
    most_times: float | None = None
    least_times: float | None = None

    @property
    def is_ratio(self) -> bool:
        return self.least_speed is not None or self.beside is not None

    def reached(self, by_name: Mapping[str, Outcome]) -> tuple[float, bool] | None:
        """(the figure, whether it passes), or None where it was not measured."""
        figure = middle(by_name, self.workload, self.metric)
        if figure is None:
            return None
        if self.beside is not None:
            other = middle(by_name, *self.beside)
            return None if not other else self.judged(figure / other)
        if self.least_speed is None:
            return figure, self.most is None or figure <= self.most
        ratio = by_name[self.workload].peers[OURS].ratio(self.metric)
        return None if ratio is None else (ratio, ratio >= self.least_speed)

    def judged(self, times: float) -> tuple[float, bool]:
        is_low = self.most_times is None or times <= self.most_times
        return times, is_low and (self.least_times is None or times >= self.least_times)


def middle(by_name: Mapping[str, Outcome], workload: str, metric: str) -> float | None:
    """Our median."""
    outcome = by_name.get(workload)
    summary = None if outcome is None else outcome.peers.get(OURS)
    return None if summary is None or metric not in summary.samples else summary.middle(metric)


MARKS = (
    Mark("W1", "cpu", least_speed=0.5),
    Mark("W1-integers", "cpu", least_speed=0.5),
    Mark("W10-get", "cpu", least_speed=0.3),
    Mark("W12-import", "wall", most=300_000.0),
    Mark("W12-import", "cpu", most=300_000.0),
    Mark("W12-import-all", "wall", most=300_000.0),
    Mark("W6-points-100000", "cpu", beside=("W6-points-100", "cpu"), most_times=1.5),
    Mark("W6-equals-100000", "cpu", beside=("W6-equals-100", "cpu"), most_times=1.5),
    Mark("W7-ask", "cpu", beside=("W7-live", "added"), least_times=100.0),
    Mark("W7-ask-scan", "cpu", beside=("W7-live", "added"), least_times=100.0),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    mark: Mark
    unit: str
    figure: float
    is_pass: bool

    @property
    def wanted(self) -> str:
        mark = self.mark
        if mark.beside is not None:
            other = " ".join(mark.beside)
            if mark.least_times is not None:
                return f"at least {mark.least_times:g} times {other}"
            return f"at most {mark.most_times:g} times {other}"
        if mark.least_speed is not None:
            return f"at least {mark.least_speed:g} of raw's speed"
        return f"at most {mark.most:,.0f} {self.unit}"


def verdicts(outcomes: Sequence[Outcome], marks: Sequence[Mark] = MARKS) -> list[Verdict]:
    """The marks of what was measured. What was not has none."""
    by_name = {outcome.workload.name: outcome for outcome in outcomes}
    found = []
    for mark in marks:
        outcome = by_name.get(mark.workload)
        reached = mark.reached(by_name)
        if outcome is not None and reached is not None:
            found.append(Verdict(mark, outcome.workload.unit, *reached))
    return found
