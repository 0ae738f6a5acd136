"""Plots: the curves of `growth` as pictures, for pages that are read on white and on black.

The background is transparent, and text and lines have a medium brightness, which contrasts with both. Every line is labelled at
its end, so that no legend is needed, and nothing depends on distinguishing colours.

Rule of this file: it changes no figure. Needs matplotlib.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.growth import Curve, Point

mpl.use("agg")

GREY = "#7b8490"
HUES = ("#3d8bfd", "#e0701f", "#2f9e62", "#b35fc9", "#c99a0c", "#d64f72")
OTHERS = {"tanstack-db": "#c99a0c", "rxdb": "#d64f72", "raw": GREY, "raw+log": GREY}
INCHES = (7.6, 4.3)
DOTS_PER_INCH = 120
LEAST_GAP = 0.062
"""Of the height, between the names of two lines."""

NOT_DRAWN = ("open a ", "open one ", "end a ", "end one ")
"""What is in the table only, or the picture would show nothing for lines."""

SMALL_SIZES = 32
"""Up to here sizes are counted, 1, 2, 4, 8, and not measured in powers of ten."""


def draw(curves: Sequence[Curve], folder: Path) -> list[Path]:
    """A picture for each curve, named after it."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for curve in curves:
        file = folder / f"{curve.name}.png"
        picture(curve).savefig(file, dpi=DOTS_PER_INCH, transparent=True)
        files.append(file)
    return files


def picture(curve: Curve) -> Figure:
    shown = {name: points for name, points in curve.series.items() if is_drawn(name) and points}
    figure = Figure(figsize=INCHES, layout="constrained")
    axes = figure.add_subplot()
    most = max(size for points in shown.values() for size, _ in points)
    axes.set_xscale("log", base=2 if most <= SMALL_SIZES else 10)
    axes.set_yscale("log")
    hues = hues_of(list(shown))
    for name, points in shown.items():
        is_ours = name.startswith("reactdb")
        axes.plot(
            [size for size, _ in points],
            [cost for _, cost in points],
            color=hues[name],
            linewidth=2.4 if is_ours else 1.5,
            linestyle="-" if is_ours else (0, (4, 2)),
            marker="o",
            markersize=5 if is_ours else 3.5,
            zorder=3 if is_ours else 2,
        )
    set_axes(axes, curve, shown)
    name_lines(axes, shown, hues)
    return figure


def is_drawn(series: str) -> bool:
    return not series.partition(": ")[2].startswith(NOT_DRAWN)


def hues_of(names: Sequence[str]) -> Mapping[str, str]:
    """One hue for one thing, whoever does it; where everybody does the same, one for each of them."""
    things = list(dict.fromkeys(thing_of(name) for name in names if name.startswith("reactdb")))
    if len(things) <= 1:
        return {name: OTHERS.get(peer_of(name), HUES[0]) for name in names}
    hue_of = dict(zip(things, HUES, strict=False))
    return {
        name: hue_of.get(thing_of(name), GREY)
        if peer_of(name) in ("reactdb", "raw", "raw+log")
        else OTHERS.get(peer_of(name), GREY)
        for name in names
    }


def peer_of(series: str) -> str:
    return series.partition(": ")[0]


def thing_of(series: str) -> str:
    return series.partition(": ")[2]


def set_axes(axes: Any, curve: Curve, shown: Mapping[str, Sequence[Point]]) -> None:
    costs = [cost for points in shown.values() for _, cost in points]
    # At least a decade and a half: what is flat has to look flat.
    low, high = min(costs), max(costs)
    if high / low < 30:
        middle = (high * low) ** 0.5
        low, high = middle / 5.5, middle * 5.5
    axes.set_ylim(low / 2, high * 1.5)
    axes.set_title(curve.title, loc="left", fontsize=12.5, fontweight="bold", color=GREY)
    axes.set_xlabel(curve.along, fontsize=10.5, color=GREY)
    axes.set_ylabel(curve.unit, fontsize=10.5, color=GREY)
    axes.tick_params(which="both", colors=GREY, labelsize=10)
    if high / low < 100:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    plain = FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(plain)
        axis.set_minor_formatter(NullFormatter())
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GREY)
        spine.set_alpha(0.6)
    axes.grid(True, which="major", color=GREY, alpha=0.22, linewidth=0.7)


def name_lines(axes: Any, shown: Mapping[str, Sequence[Point]], hues: Mapping[str, str]) -> None:
    """The name of each line at its right end, moved up or down where two would touch."""
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = {name: to_axes.transform(points[-1]) for name, points in shown.items()}
    right = max(place for place, _ in ends.values())
    heights = spread({name: height for name, (_, height) in ends.items()})
    for name, (place, height) in ends.items():
        axes.annotate(
            ", ".join(name.split(": ")),
            xy=(place, height),
            xytext=(right + 0.035, heights[name]),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=hues[name],
            fontsize=10,
            fontweight="bold" if name.startswith("reactdb") else "normal",
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": hues[name], "alpha": 0.5, "linewidth": 0.8, "shrinkB": 4},
        )


def spread(heights: Mapping[str, float]) -> dict[str, float]:
    """The same, with at least `LEAST_GAP` between neighbours: pairs are pushed apart until none touch."""
    found = dict(heights)
    names = sorted(found, key=lambda name: found[name])
    for _ in range(200):
        for lower, upper in itertools.pairwise(names):
            missing = LEAST_GAP - (found[upper] - found[lower])
            if missing > 1e-9:
                found[lower] -= missing / 2
                found[upper] += missing / 2
    return found
