"""Report: outcomes as aligned text, as a Markdown table, and as JSON.

The least median of a row is marked with a star or in bold, also if it is not reactdb's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from inspect import getdoc
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    BASE,
    BASES,
    BESIDE,
    LOGGED,
    OURS,
    Bench,
    Figures,
    Outcome,
    Summary,
    Workload,
    take_in,
)
from benchmarks.machine import Machine, line
from benchmarks.marks import Verdict
from benchmarks.workloads import WORKLOADS

METRICS = ("cpu", "wall", "added", "p50", "p99", "after", "bare", "subscribe", "first", "size")


def text(
    machine: Machine, options: dict[str, Any], outcomes: Sequence[Outcome], found: Sequence[Verdict]
) -> str:
    """The table for a terminal."""
    lines = [line(machine), options_line(options), ""]
    for outcome in outcomes:
        lines += [f"{outcome.workload.name}  {outcome.workload.title} ({outcome.workload.unit})"]
        lines += [f"    {row}" for row in aligned(list(text_rows(outcome)))]
        lines += [f"    left out: {name}: {reason}" for name, reason in outcome.left_out.items()]
        lines += [""]
    if found:
        lines += ["marks (reactdb); the last columns: cost in times of the same figure by hand"]
        rows = [["", "measured", "wanted", "", *BASES], *(verdict_row(verdict) for verdict in found)]
        lines += [f"    {row}" for row in aligned(rows)]
    return "\n".join(lines).rstrip()


def options_line(options: dict[str, Any]) -> str:
    how = f"median of {options['repeat']}, interleaved" if options["repeat"] > 1 else "one run: an impression"
    scale = (
        ""
        if options["scale"] == 1.0
        else f"; a quick look at {options['scale']:g} of the size, not a measurement"
    )
    return (
        f"{how}; CPU is user + system; ± is (greatest - least) / median; x raw is speed beside bare statements, x log beside "
        f"those with a log: 2 is twice as fast; * is the winner{scale}"
    )


def text_rows(outcome: Outcome) -> Iterator[list[str]]:
    metrics = metrics_of(outcome)
    bases = {"x raw": BASE, "x log": LOGGED}
    bases |= {f"x {name.removeprefix(BESIDE)}": name for name in outcome.peers if name.startswith(BESIDE)}
    yield ["", *(head for metric in metrics for head in (metric, "±", *bases))]
    for name, summary in outcome.peers.items():
        cells = [name]
        for metric in metrics:
            star = "*" if outcome.winner(metric) == name else ""
            cells += [
                f"{star}{number(summary.middle(metric))}",
                f"{summary.spread(metric):.0%}",
                *(times(summary.ratio(metric, base)) for base in bases.values()),
            ]
        yield cells


def verdict_row(verdict: Verdict) -> list[str]:
    figure = f"{verdict.figure:.2f}" if verdict.mark.is_ratio else number(verdict.figure)
    return [
        f"{verdict.mark.workload} {verdict.mark.metric}",
        figure,
        verdict.wanted,
        "pass" if verdict.is_pass else "MISS",
        *(times(verdict.costs.get(base)) for base in BASES),
    ]


def times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width: the first to the left, the others to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def markdown(outcomes: Sequence[Outcome], found: Sequence[Verdict]) -> str:
    """The tables of the README: everything beside the bare statements, the other databases, and the marks."""
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.peers))
    ours = [name for name in names if name in (*BASES, OURS)]
    lines = [
        f"| workload | unit | figure | {' | '.join(ours)} | x raw | x raw+log |",
        f"| --- | --- | --- |{' ---: |' * (len(ours) + 2)}",
    ]
    for outcome in outcomes:
        for metric in metrics_of(outcome):
            cells = [markdown_cell(outcome, name, metric) for name in ours]
            summary = outcome.peers.get(OURS, Summary())
            ratios = [times(summary.ratio(metric, base)) for base in (BASE, LOGGED)]
            what = [outcome.workload.name, outcome.workload.unit, metric]
            lines.append(f"| {' | '.join([*what, *cells, *ratios])} |")
    lines += others(outcomes, [OURS, *(name for name in names if name not in ours)])
    if found:
        lines += ["", f"| mark | measured | wanted | | {' | '.join(BASES)} |"]
        lines += ["| --- | ---: | --- | --- | ---: | ---: | ---: |"]
        lines += [f"| {' | '.join(verdict_row(verdict))} |" for verdict in found]
    return "\n".join(lines)


def others(outcomes: Sequence[Outcome], names: Sequence[str]) -> list[str]:
    """The table of the other databases, by CPU (or bytes), with reactdb and without the bare statements."""
    if len(names) == 1:
        return []
    lines = ["", f"| workload | unit | {' | '.join(names)} |", f"| --- | --- |{' ---: |' * len(names)}"]
    for outcome in outcomes:
        metric = metrics_of(outcome)[0]
        if any(name in outcome.peers for name in names[1:]):
            cells = [markdown_cell(outcome, name, metric) for name in names]
            lines.append(f"| {outcome.workload.name} | {outcome.workload.unit} | {' | '.join(cells)} |")
    return lines


def markdown_cell(outcome: Outcome, name: str, metric: str) -> str:
    summary = outcome.peers.get(name)
    if summary is None or metric not in summary.samples:
        return ""
    figure = number(summary.middle(metric))
    winner = f"**{figure}**" if outcome.winner(metric) == name else figure
    return f"{winner} ±{summary.spread(metric):.0%}"


def metrics_of(outcome: Outcome) -> list[str]:
    return [
        metric for metric in METRICS if any(metric in summary.samples for summary in outcome.peers.values())
    ]


def number(value: float) -> str:
    """Three figures that count, and no more."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def data(
    machine: Machine, options: dict[str, Any], outcomes: Sequence[Outcome], found: Sequence[Verdict]
) -> dict[str, Any]:
    """Everything, as JSON can carry it."""
    return {
        "machine": machine,
        "options": options,
        "workloads": [
            {
                "name": outcome.workload.name,
                "title": outcome.workload.title,
                "about": getdoc(outcome.workload.run),
                "unit": outcome.workload.unit,
                "winner": {metric: outcome.winner(metric) for metric in metrics_of(outcome)},
                "left_out": outcome.left_out,
                "peers": {name: summary_data(summary) for name, summary in outcome.peers.items()},
            }
            for outcome in outcomes
        ],
        "marks": [
            {
                "workload": verdict.mark.workload,
                "metric": verdict.mark.metric,
                "wanted": verdict.wanted,
                "measured": verdict.figure,
                "pass": verdict.is_pass,
                "cost": dict(verdict.costs),
            }
            for verdict in found
        ],
    }


def read(files: Sequence[Path]) -> tuple[Machine, dict[str, Any], list[Outcome]]:
    """What `data` wrote: machine and options of the last file, the outcomes of all. What a later file has of a peer in a
    workload replaces what an earlier one has of it."""
    kept = [json.loads(file.read_text()) for file in files]
    by_name: dict[str, dict[str, Any]] = {}
    for found in kept:
        for one in found["workloads"]:
            before = by_name.get(one["name"], one)
            by_name[one["name"]] = one | {
                field: before[field] | one[field] for field in ("peers", "left_out")
            }
    known = [workload.name for workload in WORKLOADS if workload.name in by_name]
    return kept[-1]["machine"], kept[-1]["options"], [outcome(by_name[name]) for name in known]


def outcome(found: Mapping[str, Any]) -> Outcome:
    def run(bench: Bench) -> Figures:
        raise AssertionError("this has been run elsewhere")

    run.__doc__ = found["about"]
    peers = found["peers"]
    summaries = {name: Summary() for name in peers}
    repeats = max((len(metric["samples"]) for one in peers.values() for metric in one.values()), default=0)
    for repeat in range(repeats):
        figures = {
            name: {metric: one["samples"][repeat] for metric, one in metrics.items()}
            for name, metrics in peers.items()
            if all(repeat < len(one["samples"]) for one in metrics.values())
        }
        take_in(figures, summaries)
    return Outcome(Workload(found["name"], found["unit"], run), summaries, found["left_out"])


def summary_data(summary: Summary) -> dict[str, Any]:
    return {
        metric: {
            "median": summary.middle(metric),
            "spread": summary.spread(metric),
            "speed_of_raw": summary.ratio(metric),
            "speed_of_raw_log": summary.ratio(metric, LOGGED),
            "samples": summary.samples[metric],
        }
        for metric in summary.samples
    }
