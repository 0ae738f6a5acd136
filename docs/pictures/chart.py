"""Axes of a chart, and machine names for its caption."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Callable

from docs.pictures.svg import LINE, SOFT, text

LEFT, TOP, RIGHT, BOTTOM = 76, 64, 24, 70


def machine() -> str:
    return (
        f"{platform.system()}, {os.cpu_count()} shared cores, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}"
    )


def scale(least: float, most: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + (value - least) / (most - least) * (end - start)


def axes(
    x: Callable[[float], float],
    y: Callable[[float], float],
    x_marks: dict[float, str],
    y_marks: dict[float, str],
    x_title: str,
    width: int,
    height: int,
) -> list[str]:
    parts = []
    for value, words in y_marks.items():
        parts += [
            f'<line x1="{LEFT}" y1="{y(value):.1f}" x2="{width - RIGHT}" y2="{y(value):.1f}" stroke="{LINE}" stroke-width="1"/>'
        ]
        parts += [text(LEFT - 8, y(value) + 4, words, colour=SOFT, size=12, anchor="end")]
    for value, words in x_marks.items():
        parts += [text(x(value), height - BOTTOM + 18, words, colour=SOFT, size=12, anchor="middle")]
    parts += [
        text((LEFT + width - RIGHT) / 2, height - BOTTOM + 38, x_title, colour=SOFT, size=12, anchor="middle")
    ]
    return parts
