"""The views of objects in a notebook: a title, some facts, and at most 20 rows of 10 columns, as HTML and as text.

The HTML has no colours of its own. It inherits the notebook's text colour, and lines and shades are a transparent grey. So it
is readable in light and dark. Its style sheet is scoped by one class.

Rule of this file: it renders what it is given. It reads no database, and it never raises for what a document has in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final
from unicodedata import combining, east_asian_width

from reactdb.cell_text import cell_text, escape_controls, names_of_columns, texts_of

__all__ = ["MOST_COLUMNS", "MOST_ROWS", "Preview", "preview_of_documents", "to_html", "to_text"]

MOST_ROWS: Final = 20
MOST_COLUMNS: Final = 10

STYLE: Final = (
    ".reactdb-view{color:inherit;font-size:.92em;line-height:1.4;overflow-x:auto}"
    ".reactdb-view .reactdb-title{margin:.2em 0}"
    ".reactdb-view .reactdb-note{margin:.2em 0;opacity:.7}"
    ".reactdb-view table{border-collapse:collapse;margin:.3em 0;color:inherit;background:none}"
    ".reactdb-view th,.reactdb-view td{padding:.15em .7em;text-align:left;max-width:24em;overflow:hidden;"
    "text-overflow:ellipsis;white-space:nowrap;border:none;border-bottom:1px solid rgba(128,128,128,.3);"
    "color:inherit;background:none}"
    ".reactdb-view th{font-weight:600}"
    ".reactdb-view tbody tr:nth-child(even){background:rgba(128,128,128,.09)}"
    ".reactdb-view td.reactdb-number{text-align:right;font-variant-numeric:tabular-nums}"
)
NUMBER: Final = '<td class="reactdb-number">'


@dataclass(slots=True)
class Preview:
    """What is shown of an object.

    Attributes:
        kind: The kind of object, such as "Table".
        name: Its name; "" for none.
        facts: Short sentences after the name, such as "20 of 1,234 documents".
        columns: The names of the columns.
        rows: For each row, a text for each column.
        numbers: The columns that are aligned to the right.
        note: A sentence below the rows; "" for none.
    """

    kind: str
    name: str = ""
    facts: Sequence[str] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    numbers: frozenset[int] = frozenset()
    note: str = ""


def preview_of_documents(
    kind: str,
    name: str,
    documents: Sequence[Any],
    primary_key: str,
    facts: Sequence[str],
    note: str = "",
) -> Preview:
    """The view of at most 20 documents, one a row."""
    documents = documents[:MOST_ROWS]
    columns, left_out = names_of_columns(documents, primary_key, MOST_COLUMNS)
    notes = [note] if note else []
    if left_out:
        notes.append(f"{left_out:,} more {'field' if left_out == 1 else 'fields'}")
    numbers = frozenset(
        place
        for place, column in enumerate(columns)
        if any(isinstance(document, dict) for document in documents)
        and all(
            type(document.get(column, 0)) in (int, float)
            for document in documents
            if isinstance(document, dict)
        )
    )
    rows = [texts_of(document, columns) for document in documents]
    return Preview(kind, name, facts, columns, rows, numbers, "; ".join(notes))


def preview_of_fields(kind: str, name: str, document: Any, facts: Sequence[str], note: str = "") -> Preview:
    """The view of one document: one field a row."""
    names = list(document)
    rows = [[cell_text(field), cell_text(document[field], 200)] for field in names[:MOST_ROWS]]
    left_out = len(names) - len(rows)
    if left_out > 0 and not note:
        note = f"{left_out:,} more {'field' if left_out == 1 else 'fields'}"
    return Preview(kind, name, facts, ("field", "value"), rows, note=note)


def preview_of_value(kind: str, value: Any, state: str, error: Exception | None) -> Preview:
    """The view of a live value: a document or another value, and whether it is live."""
    note = "" if error is None else str(error)
    if isinstance(value, dict):
        return preview_of_fields(kind, "", value, (state,), note)
    return Preview(kind, "", (state, cell_text(value, 200)), note=note)


def to_html(preview: Preview) -> str:
    """The view as HTML, all texts escaped."""
    title = escape(preview.kind)
    if preview.name:
        title += f" <b>{_html(preview.name)}</b>"
    title = " · ".join([title, *map(_html, preview.facts)])
    parts = [f'<div class="reactdb-view"><style>{STYLE}</style><div class="reactdb-title">{title}</div>']
    if preview.rows:
        header = "".join(f"<th>{_html(column)}</th>" for column in preview.columns)
        lines = [
            "".join(
                f"{NUMBER if place in preview.numbers else '<td>'}{_html(text)}</td>"
                for place, text in enumerate(row)
            )
            for row in preview.rows
        ]
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        parts.append(f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>")
    if preview.note:
        parts.append(f'<div class="reactdb-note">{_html(preview.note)}</div>')
    return "".join([*parts, "</div>"])


def _html(text: str) -> str:
    return escape(escape_controls(text))


def to_text(preview: Preview) -> str:
    """The view as lines of text."""
    title = f"{preview.kind} {escape_controls(preview.name)}" if preview.name else preview.kind
    lines = [" · ".join([title, *map(escape_controls, preview.facts)])]
    if preview.rows:
        table = [[escape_controls(column) for column in preview.columns], *preview.rows]
        cells = [[_shorten(text, 30) for text in row] for row in table]
        widths = [max(_width(row[place]) for row in cells) for place in range(len(preview.columns))]
        for row in cells:
            padded = [
                " " * (width - _width(text)) + text
                if place in preview.numbers
                else text + " " * (width - _width(text))
                for place, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(["", *padded]).rstrip())
    if preview.note:
        lines.append(escape_controls(preview.note))
    return "\n".join(lines)


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _width(text: str) -> int:
    """Columns of a terminal, about."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)
