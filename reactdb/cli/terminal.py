"""What a person sees: one-line errors, safe text, sizes, columns and progress.

Text out of documents is never sent to a terminal as it is: an escape sequence in it could repaint the screen.

Rule of this file: it knows text, widths and streams, and nothing of databases.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

import click

# A sentence that names a document of megabytes is still a sentence.
LONGEST_MESSAGE: Final = 600
# About as often as an eye follows.
REDRAW_EVERY_S: Final = 0.1


def one_line(message: str, longest: int = LONGEST_MESSAGE) -> str:
    """The message without line breaks and control characters, cut where it gets long."""
    return cut(safe(" ".join(message.split())), longest)


def safe(text: str) -> str:
    """The text with everything escaped that a terminal would act on instead of showing it."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def cut(text: str, longest: int) -> str:
    """The text in at most so many columns of a terminal, with `…` where something is missing."""
    if width(text) <= longest:
        return text
    kept, used = [], 0
    for character in text:
        used += width(character)
        if used > longest - 1:
            break
        kept.append(character)
    return "".join(kept) + "…"


def width(text: str) -> int:
    """Columns that a terminal needs: two for East Asian wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """Filled with spaces to so many columns; in front of the text where `right`."""
    space = " " * (columns - width(text))
    return space + text if right else text + space


def size(count: int) -> str:
    """A number of bytes as `12.3 MB`."""
    if count < 1000:
        return f"{count} B"
    units = ["kB", "MB", "GB", "TB"]
    amount = count / 1000
    while amount >= 999.95 and len(units) > 1:
        amount /= 1000
        del units[0]
    return f"{amount:.1f} {units[0]}"


def plural(count: int, word: str) -> str:
    """As `1 change`, `2,000 changes`."""
    ending = "" if count == 1 else "es" if word.endswith(("x", "s")) else "s"
    return f"{count:,} {word.removesuffix('y') + 'ies' if ending == 's' and word.endswith('y') else word + ending}"


def screen_width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[bool] = ()) -> list[str]:
    """Lines of a table with two spaces between the columns; columns of `numbers` end at their right."""
    right = [*numbers, *[False] * (len(header) - len(numbers))]
    widths = [max(width(row[place]) for row in (header, *rows)) for place in range(len(header))]
    return [
        "  ".join(padded(cell, widths[place], right=right[place]) for place, cell in enumerate(row)).rstrip()
        for row in (header, *rows)
    ]


class Progress:
    """One line on standard error that says how far something is, only on a terminal, and gone at the end.

    `total` is what `position` ends at, in whatever unit; None where nobody knows it.
    """

    def __init__(self, word: str, total: int | None = None) -> None:
        self._word = word
        self._total = total
        self._is_shown = is_terminal(sys.stderr)
        self._next = time.monotonic() + REDRAW_EVERY_S

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)

    def tell(self, count: int, position: int | None = None) -> None:
        """`count` things are done; `position` of `total` (default: the count itself)."""
        if not self._is_shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + REDRAW_EVERY_S
        click.echo(
            "\r\x1b[K" + self._line(count, count if position is None else position), nl=False, err=True
        )

    def say(self, text: str) -> None:
        """Show this instead, at once."""
        if self._is_shown:
            self._next = time.monotonic() + REDRAW_EVERY_S
            click.echo("\r\x1b[K" + text, nl=False, err=True)

    def expect(self, total: int) -> None:
        """What `position` ends at, where it is learned on the way."""
        self._total = total

    def _line(self, count: int, position: int) -> str:
        text = f"{count:,} {self._word}"
        if not self._total:
            return text
        share = min(1.0, position / self._total)
        filled = round(share * 30)
        return f"[{'#' * filled}{' ' * (30 - filled)}] {share:4.0%}  {text}"


def is_terminal(stream: object) -> bool:
    """Whether the stream ends at a screen whose lines can be drawn again."""
    asks = getattr(stream, "isatty", None)
    return bool(asks is not None and asks()) and os.environ.get("TERM") != "dumb"


def write_line(value: Any, *, err: bool = False) -> None:
    """Print plain JSON values as one line, in UTF-8 whatever the terminal's encoding, and send it off at once."""
    from reactdb.json import encode

    click.echo(encode(value).encode(), err=err)
