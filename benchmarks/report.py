"""Report: outcomes as aligned text, as a Markdown table, and as JSON.

The least median of a row wins and is marked: with a star, or in bold. Also where it is not ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import getdoc
from typing import Any

from benchmarks.harness import Outcome, Summary
from benchmarks.machine import Machine, line
from benchmarks.marks import Verdict

METRICS = ("cpu", "wall", "added", "p50", "p99", "subscribe", "first", "size")


def text(
    machine: Machine, options: dict[str, Any], outcomes: Sequence[Outcome], found: Sequence[Verdict]
) -> str:
    """The table for a terminal."""
    lines = [line(machine), options_line(options), ""]
    for outcome in outcomes:
        lines += [f"{outcome.workload.name}  {outcome.workload.title} ({outcome.workload.unit})"]
        lines += [f"    {row}" for row in aligned(list(text_rows(outcome)))]
        lines += [""]
    if found:
        lines += ["marks (reactdb)"]
        lines += [f"    {row}" for row in aligned([verdict_row(verdict) for verdict in found])]
    return "\n".join(lines).rstrip()


def options_line(options: dict[str, Any]) -> str:
    how = f"median of {options['repeat']}, interleaved" if options["repeat"] > 1 else "one run: an impression"
    scale = (
        ""
        if options["scale"] == 1.0
        else f"; a quick look at {options['scale']:g} of the size, not a measurement"
    )
    return (
        f"{how}; CPU is user + system; ± is (greatest - least) / median; x raw is speed, 2 is twice as fast; "
        f"* is the winner{scale}"
    )


def text_rows(outcome: Outcome) -> Iterator[list[str]]:
    metrics = metrics_of(outcome)
    yield ["", *(head for metric in metrics for head in (metric, "±", "x raw"))]
    for name, summary in outcome.peers.items():
        cells = [name]
        for metric in metrics:
            star = "*" if outcome.winner(metric) == name else ""
            ratio = summary.ratio(metric)
            cells += [
                f"{star}{number(summary.middle(metric))}",
                f"{summary.spread(metric):.0%}",
                "" if ratio is None else f"{ratio:.2f}",
            ]
        yield cells


def verdict_row(verdict: Verdict) -> list[str]:
    figure = f"{verdict.figure:.2f}" if verdict.mark.is_ratio else number(verdict.figure)
    return [
        f"{verdict.mark.workload} {verdict.mark.metric}",
        figure,
        verdict.wanted,
        "pass" if verdict.is_pass else "MISS",
    ]


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
    """The table of the README: a row a figure, a column a peer."""
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.peers))
    lines = [
        f"| workload | unit | figure | {' | '.join(names)} | reactdb, x raw |",
        f"| --- | --- | --- |{' ---: |' * (len(names) + 1)}",
    ]
    for outcome in outcomes:
        for metric in metrics_of(outcome):
            cells = [markdown_cell(outcome, name, metric) for name in names]
            ours = outcome.peers.get("reactdb", Summary()).ratio(metric)
            lines.append(
                f"| {outcome.workload.name} | {outcome.workload.unit} | {metric} | {' | '.join(cells)} "
                f"| {'' if ours is None else f'{ours:.2f}'} |"
            )
    if found:
        lines += ["", "| mark | wanted | measured | |", "| --- | --- | ---: | --- |"]
        for verdict in found:
            what, figure, wanted, word = verdict_row(verdict)
            lines.append(f"| {what} | {wanted} | {figure} | {word} |")
    return "\n".join(lines)


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
            }
            for verdict in found
        ],
    }


def summary_data(summary: Summary) -> dict[str, Any]:
    return {
        metric: {
            "median": summary.middle(metric),
            "spread": summary.spread(metric),
            "speed_of_raw": summary.ratio(metric),
            "samples": summary.samples[metric],
        }
        for metric in summary.samples
    }
