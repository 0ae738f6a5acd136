"""Documents as lines: columns and records for people, JSON lines, CSV and TSV for programs.

Rule of this file: documents in, text out. Text for people has no control characters.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import click

from reactdb.cli import csvform
from reactdb.cli.terminal import columns, cut, plural, safe, text_width
from reactdb.json import dumps, readable

# So many documents together decide the columns and their width.
LAID_OUT_TOGETHER: Final = 100
WIDEST_CELL: Final = 40
# A column cut to fewer characters shows nothing of its value.
NARROWEST_CELL: Final = 6
# Before a column gets narrower than this, the last columns are left out, unless the caller has named the columns.
READABLE_CELL: Final = 11
GAP: Final = 2

Document = Mapping[str, Any]


def as_json(documents: Iterable[Document]) -> Iterator[str]:
    for document in documents:
        yield dumps(document)


def as_columns(
    documents: Iterable[Document],
    primary_key: str | None,
    screen: int,
    names: Sequence[str] = (),
    hint: str = "",
) -> Iterator[str]:
    """Lines of a table, cut to the screen's width, with a header for every hundred documents.

    If the screen has no room for all fields, the last ones are named in a line below the table.

    Args:
        primary_key: The field of the first column; None: the documents have no key, such as those of a `pluck`.
        names: The columns, all of which are shown; empty: the fields for which the screen has room.
        hint: How to see the other fields, such as `--long`.
    """
    pending = iter(documents)
    while page := list(islice(pending, LAID_OUT_TOGETHER)):
        first = [] if primary_key is None or not any(primary_key in one for one in page) else [primary_key]
        fields = list(names) or list(dict.fromkeys([*first, *(name for one in page for name in one)]))
        cells = [[cell(one[name]) if name in one else "" for name in fields] for one in page]
        numbers = [all(is_number(one.get(name, 0)) for one in page) for name in fields]
        header = [cut(safe(name), WIDEST_CELL) for name in fields]
        # A key that is cut cannot be given to `get`.
        whole = 1 if first and not names else 0
        fit(header, cells, screen, whole, NARROWEST_CELL if names else READABLE_CELL)
        title, *body = columns(header, cells, numbers)
        yield click.style(cut(title, screen), bold=True)
        yield from (cut(line, screen) for line in body)
        if rest := fields[len(header) :]:
            words = (
                f"and {plural(len(rest), 'field')} more{hint and f' ({hint})'}: {', '.join(map(safe, rest))}"
            )
            yield click.style(cut(words, screen), dim=True)


def fit(header: list[str], cells: list[list[str]], screen: int, whole: int, least: int) -> None:
    """Cut the widest columns, and leave out the last ones, so that every column left has its place on the screen.

    Args:
        whole: So many first columns are cut only at half the screen.
        least: A column that is wider keeps so many characters.
    """
    widths = [max(text_width(row[place]) for row in (header, *cells)) for place in range(len(header))]
    floors = [min(one, screen // 2 if place < whole else least) for place, one in enumerate(widths)]
    if least > NARROWEST_CELL:
        while len(floors) > 1 and sum(floors) + GAP * (len(floors) - 1) > screen:
            floors.pop()
    del widths[len(floors) :]
    room = screen - GAP * (len(floors) - 1)
    longest = max(widths, default=0)
    while longest > least and sum(map(max, floors, (min(one, longest) for one in widths))) > room:
        longest -= 1
    for row in (header, *cells):
        row[:] = [cut(text, max(floor, longest)) for text, floor in zip(row, floors, strict=False)]


def as_records(documents: Iterable[Document], names: Sequence[str] = ()) -> Iterator[str]:
    """A line for each field, the name and the whole value; an empty line between two documents."""
    for number, document in enumerate(documents):
        if number:
            yield ""
        fields = list(names) or list(document)
        longest = max((text_width(safe(name)) for name in fields), default=0)
        for name in fields:
            if name in document:
                title = safe(name) + " " * (longest - text_width(safe(name)))
                yield f"{click.style(title, bold=True)}  {text_of(document[name])}"
        if not document:
            yield click.style("(no fields)", dim=True)


def as_csv(documents: Iterable[Document], names: Sequence[str], delimiter: str) -> Iterator[str]:
    """The header, and a line for each document, in the form of `csvform`: `import` gives back the same values."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="", delimiter=delimiter)

    def line(cells: list[str]) -> str:
        text.seek(0)
        text.truncate()
        writer.writerow(cells)
        return text.getvalue()

    yield line([csvform.write_name(name) for name in names])
    for document in documents:
        yield line([csvform.write_cell(document.get(name, csvform.ABSENT)) for name in names])


def cell(value: Any) -> str:
    """The text of a value in a column, shortened if it is long."""
    return cut(text_of(value), WIDEST_CELL)


def text_of(value: Any) -> str:
    """The text of a value for people: strings unchanged, others as `readable` writes them."""
    return safe(value if isinstance(value, str) else readable(value))


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def take(path: str) -> Callable[[Document], Any]:
    """The function that takes a field out of a document: the field of this name, else along the dots of `address.city`."""
    parts = path.split(".")

    def value(document: Document) -> Any:
        if path in document:
            return document[path]
        inner: Any = document
        for part in parts:
            if not isinstance(inner, Mapping) or part not in inner:
                return csvform.ABSENT
            inner = inner[part]
        return inner

    return value


def only(documents: Iterable[Document], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The documents with these fields only, in this order."""
    takers = [(name, take(name)) for name in names]
    for document in documents:
        found = ((name, value(document)) for name, value in takers)
        yield {name: value for name, value in found if value is not csvform.ABSENT}
