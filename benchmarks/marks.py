"""Marks: what reactdb was meant to reach, and whether a run did.

A miss is printed as a miss and changes no exit code: on a shared machine one run proves nothing, and the answer to a mark
that is missed again and again is a profile, not a red light.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """

    workload: str
    metric: str
    least_speed: float | None = None
    most: float | None = None

    def reached(self, outcome: Outcome) -> tuple[float, bool] | None:
        """(the figure, whether it passes), or None where it was not measured."""
        summary = outcome.peers.get(OURS)
        if summary is None or self.metric not in summary.samples:
            return None
        if self.least_speed is None:
            figure = summary.middle(self.metric)
            return figure, self.most is None or figure <= self.most
        ratio = summary.ratio(self.metric)
        return None if ratio is None else (ratio, ratio >= self.least_speed)


MARKS = (
    Mark("W1", "cpu", least_speed=0.5),
    Mark("W1-integers", "cpu", least_speed=0.5),
    Mark("W10-get", "cpu", least_speed=0.3),
    Mark("W12-import", "wall", most=300_000.0),
    Mark("W12-import", "cpu", most=300_000.0),
    Mark("W12-import-all", "wall", most=300_000.0),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    mark: Mark
    unit: str
    figure: float
    is_pass: bool

    @property
    def wanted(self) -> str:
        if self.mark.least_speed is not None:
            return f"at least {self.mark.least_speed:g} of raw's speed"
        return f"at most {self.mark.most:,.0f} {self.unit}"


def verdicts(outcomes: Sequence[Outcome], marks: Sequence[Mark] = MARKS) -> list[Verdict]:
    """The marks of what was measured. What was not has none."""
    by_name = {outcome.workload.name: outcome for outcome in outcomes}
    found = []
    for mark in marks:
        outcome = by_name.get(mark.workload)
        reached = None if outcome is None else mark.reached(outcome)
        if outcome is not None and reached is not None:
            found.append(Verdict(mark, outcome.workload.unit, *reached))
    return found
