"""Pieces of SVG: a card that is readable on light and dark pages, texts, boxes, arrows.

Rule of this file: no fonts but the reader's own, and nothing that is fetched.
"""

from __future__ import annotations

from typing import Final
from xml.sax.saxutils import escape

SANS: Final = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONO: Final = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
INK, SOFT, LINE, CARD, TEAL, AMBER, GREY = (
    "#1f2933",
    "#5f6c7b",
    "#c3ccd5",
    "#ffffff",
    "#00857a",
    "#c05a00",
    "#eef1f4",
)


def picture(width: int, height: int, title: str, *content: str) -> str:
    """The card with its content. The title is read aloud in place of the picture."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-label="{escape(title)}" font-family="{SANS}" font-size="14">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0L8 4L0 8z" fill="{SOFT}"/></marker></defs>',
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="{CARD}" stroke="{LINE}"/>',
            *content,
            "</svg>\n",
        ]
    )


def text(
    x: float,
    y: float,
    words: str,
    *,
    colour: str = INK,
    size: int = 14,
    anchor: str = "start",
    more: str = "",
) -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-size="{size}" text-anchor="{anchor}" {more}>{escape(words)}</text>'


def code(x: float, y: float, words: str, *, colour: str = INK, size: int = 13, anchor: str = "start") -> str:
    return text(
        x,
        y,
        words,
        colour=colour,
        size=size,
        anchor=anchor,
        more=f'font-family="{MONO}" xml:space="preserve"',
    )


def box(x: float, y: float, width: float, height: float, *, fill: str = GREY, stroke: str = LINE) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}" stroke="{stroke}"/>'


def arrow(*points: tuple[float, float], colour: str = SOFT, dashed: bool = False) -> str:
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    dash = ' stroke-dasharray="4 4"' if dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6" marker-end="url(#tip)"{dash}/>'


def line(points: list[tuple[float, float]], colour: str, width: float = 2.5) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>'
