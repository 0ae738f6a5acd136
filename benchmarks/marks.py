"""Marks: targets for reactdb, and whether a run reached them.

A mark on a ratio is a limit of cost: 1.1 is a tenth more than statements written by hand took in the same run, for the same work
with a log in the same transaction. For work without a log, `raw` and `raw+log` are the same, and so is the mark.

A miss is printed and does not change the exit code: on a shared machine one run proves nothing, and a mark that is
missed repeatedly calls for a profile (`python -m benchmarks.profile`), not for a failed run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.harness import BASE, LOGGED, OURS, PLAIN_LOG, Outcome


@dataclass(frozen=True, slots=True)
class Mark:
    """One figure to reach.

    Attributes:
        workload, metric: Which figure.
        most_cost: At most so many times what `against` took in the same run.
        against: The peer that it is measured against.
        most: At most so much, in `unit`.
        unit: Where it is not the workload's.
        beside: Another figure of ours, (workload, metric), for those that follow:
        most_times: At most so many times that figure.
        most_more: At most so much more than that figure.
        share: The difference is divided by so many before it is judged: what one of them costs.
    """

    workload: str
    metric: str
    most_cost: float | None = None
    against: str = LOGGED
    most: float | None = None
    unit: str | None = None
    beside: tuple[str, str] | None = None
    most_times: float | None = None
    most_more: float | None = None
    share: int = 1

    @property
    def is_ratio(self) -> bool:
        return self.most_cost is not None or self.most_times is not None

    def reached(self, by_name: Mapping[str, Outcome]) -> tuple[float, bool] | None:
        """(the figure, whether it passes), or None where it was not measured."""
        figure = middle(by_name, self.workload, self.metric)
        if figure is None:
            return None
        if self.beside is not None:
            other = middle(by_name, *self.beside)
            return None if not other else self.judged_beside(figure, other)
        if self.most_cost is not None:
            cost = cost_of(by_name[self.workload], self.metric, self.against)
            return None if cost is None else (cost, cost <= self.most_cost)
        assert self.most is not None
        return figure, figure <= self.most

    def judged_beside(self, figure: float, other: float) -> tuple[float, bool]:
        if self.most_times is not None:
            return figure / other, figure / other <= self.most_times
        assert self.most_more is not None
        more = (figure - other) / self.share
        return more, more <= self.most_more


def middle(by_name: Mapping[str, Outcome], workload: str, metric: str) -> float | None:
    """Our median."""
    outcome = by_name.get(workload)
    summary = None if outcome is None else outcome.peers.get(OURS)
    return None if summary is None or metric not in summary.samples else summary.middle(metric)


def cost_of(outcome: Outcome, metric: str, base: str) -> float | None:
    """Ours in times of the base's, by the median of the repeats; None where one of them has no such figure."""
    summary = outcome.peers.get(OURS)
    speed = None if summary is None else summary.ratio(metric, base)
    return None if not speed else 1 / speed


MARKS = (
    Mark("W1", "cpu", most_cost=0.95, against=PLAIN_LOG),
    Mark("W1-shuffled", "cpu", most_cost=0.6, against=PLAIN_LOG),
    Mark("W2-soft-feed", "cpu", most_cost=1.1),
    Mark("W2-hard", "cpu", most_cost=1.05),
    Mark("W2-threads", "wall", most_cost=0.3),
    Mark("W3-each", "cpu", most_cost=1.05),
    Mark("W3-batch", "cpu", most_cost=0.8),
    Mark("W4", "p50", most_cost=1.2),
    Mark("W4-thread", "p50", most=20.0),
    Mark("W4-asyncio", "p50", most=20.0),
    Mark("W4-scheduler", "p50", most=20.0),
    Mark("W5-10000", "cpu", beside=("W5-1", "cpu"), most_more=0.2, share=9_999, unit="µs per delivery"),
    Mark("W5-functions-10000", "added", most=0.1, unit="µs per delivery"),
    Mark("W5-observers-10000", "added", most=0.2, unit="µs per delivery"),
    Mark("W5-sleepers-10000", "added", most=1.0, unit="µs for all of them"),
    Mark("W6-points-100000", "cpu", beside=("W6-points-100", "cpu"), most_times=1.1),
    Mark("W6-points-100000", "cpu", most=40.0),
    Mark("W6-equals-100000", "cpu", beside=("W6-equals-100", "cpu"), most_times=1.1),
    Mark("W6-equals-100000", "cpu", most=40.0),
    Mark("W7-top-100", "added", most=2.0, unit="µs added"),
    Mark("W7-top-100-hot", "added", most=6.0, unit="µs added"),
    Mark("W7-top-1000-hot", "added", most=12.0, unit="µs added"),
    Mark("W7-top-100-of-1000000", "added", beside=("W7-top-100-of-10000", "added"), most_times=1.2),
    Mark("W8", "cpu", most_cost=0.8),
    Mark("W9", "cpu", most=1.25),
    Mark("W9-decoded", "cpu", most_cost=1.3),
    Mark("W10-get", "cpu", most_cost=1.0),
    Mark("W10-range", "cpu", most_cost=1.0, against=BASE),
    Mark("W10-skip", "cpu", most=10_000.0),
    Mark("W10-past", "cpu", most=400.0),
    Mark("W11-point", "size", most=1_500.0),
    Mark("W11-table", "size", most=600.0),
    Mark("W11-observer", "size", most=1_500.0),
    Mark("W11-change", "size", most=320.0),
    # A pointer is 8 bytes; a list that grows holds a few too many of them.
    Mark("W11-change-further", "size", most=8.5),
    Mark("W12-import-all", "cpu", most=60_000.0),
    Mark("W12-open-million", "cpu", most=1_000.0),
    Mark("W12-bytes-million", "size", most=330.0),
    Mark("W13", "cpu", most_cost=1.15),
    Mark("W13", "first", most=5_000.0, unit="µs until the first"),
    Mark("W4-process", "after", most=150.0, unit="µs after the commit"),
    Mark("W14", "cpu", beside=("W14", "bare"), most_times=1.25),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A mark, and what was measured.

    Attributes:
        figure: In the mark's own measure.
        costs: The plain ratios of the same figure: the base to ours divided by the base's.
    """

    mark: Mark
    unit: str
    figure: float
    is_pass: bool
    costs: Mapping[str, float]

    @property
    def wanted(self) -> str:
        mark = self.mark
        if mark.beside is not None:
            other = " ".join(mark.beside)
            if mark.most_times is not None:
                return f"at most {mark.most_times:g} times {other}"
            return f"at most {mark.most_more:g} {self.unit} more than {other}"
        if mark.most_cost is not None:
            return f"at most {mark.most_cost:g} times {mark.against}"
        return f"at most {mark.most:,g} {self.unit}"


def verdicts(outcomes: Sequence[Outcome], marks: Sequence[Mark] = MARKS) -> list[Verdict]:
    """The marks of what was measured. What was not has none."""
    by_name = {outcome.workload.name: outcome for outcome in outcomes}
    found = []
    for mark in marks:
        outcome = by_name.get(mark.workload)
        reached = mark.reached(by_name)
        if outcome is not None and reached is not None:
            costs = {base: cost_of(outcome, mark.metric, base) for base in (BASE, LOGGED, PLAIN_LOG)}
            known = {base: cost for base, cost in costs.items() if cost is not None}
            found.append(Verdict(mark, mark.unit or outcome.workload.unit, *reached, known))
    return found
