"""Documents as CSV and back. A cell is text, so one rule decides what it means:

A cell is read as a value only if that value would be written as exactly this cell; any other text is a string.

So `42` is an int, `1.5` a float, `true` and `false` are themselves and `null` is None; `007`, `1.50` and `+1` stay strings,
and no zip code or version number is harmed. Lists, dicts and the other types are compact JSON as in `reactdb.json`. A string
that would be mistaken for a value is written as a JSON string: the string 42 is the cell `"42"`, quotes included.
An empty cell means that the document does not have the field (RethinkDB's import reads it so too); the empty string is `""`.

CSV does not keep the order of fields inside a document: it becomes the order of the columns.

Rule of this file: cells and headers. `import_` and `export` know files, lines and tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from reactdb.errors import InvalidDocument
from reactdb.json import dumps, loads, read_datetime
from reactdb.values.codec import MAX_INT_BITS

ABSENT: Final = object()
"""The value of an empty cell."""

_WORDS: Final = {"null": None, "true": True, "false": False}
_INT: Final = re.compile(r"-?(0|[1-9][0-9]{0,2465})", re.ASCII)
# Python's csv reads a bare carriage return as the end of a row, and other programs fail on the other characters.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def write_cell(value: Any) -> str:
    """The cell of a value; the empty cell for ABSENT."""
    if value is ABSENT:
        return ""
    if type(value) is str:
        # The empty string is written as JSON too, because an empty cell is read as ABSENT.
        return value if read_cell(value) is value and not _CONTROL.search(value) else dumps(value)
    return dumps(value)


def read_cell(text: str) -> Any:
    """The value of a cell by the rule above; for a plain string, `text` itself, the same object."""
    if not text:
        return ABSENT
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first in '"[{':
        try:
            value = loads(text)
        except InvalidDocument:
            return text
        return value if write_cell(value) == text else text
    if first in "-0123456789":
        if _INT.fullmatch(text):
            number = int(text)
            return number if text != "-0" and number.bit_length() <= MAX_INT_BITS else text
        try:
            real = float(text)
        except ValueError:
            return text
        return real if math.isfinite(real) and repr(real) == text else text
    return text


def write_text(value: Any) -> str:
    """The cell of a value for other programs: strings unchanged, so numbers and text can no longer be distinguished."""
    return value if type(value) is str else write_cell(value)


def write_name(name: str) -> str:
    """The header cell of a field name: the name, or a JSON string if the name could be misread."""
    return dumps(name) if not name or name[0] == '"' or _CONTROL.search(name) else name


def read_header(cells: Sequence[str]) -> list[str]:
    """The field names of a header.

    Raises:
        InvalidDocument: A column has no name, or two have the same.
    """
    names: list[str] = []
    for place, cell in enumerate(cells, 1):
        name = cell
        if cell.startswith('"'):
            try:
                name = loads(cell)
            except InvalidDocument:
                name = cell
        if not cell:
            raise InvalidDocument(f"column {place} has no name")
        if name in names:
            raise InvalidDocument(f"two columns have the name {dumps(name)}")
        names.append(name)
    return names


def _bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


TYPES: Final[dict[str, Callable[[str], Any]]] = {
    "auto": read_cell,
    "bool": _bool,
    "date": date.fromisoformat,
    "datetime": read_datetime,
    "decimal": Decimal,
    "float": float,
    "int": int,
    "json": loads,
    "string": str,
    "time": time.fromisoformat,
    "uuid": UUID,
}
"""The types that a column can be declared as. An empty cell is ABSENT in all of them."""


def read_row(
    names: Sequence[str], readers: Sequence[Callable[[str], Any]], cells: Sequence[str]
) -> dict[str, Any]:
    """The document of a row.

    Raises:
        InvalidDocument: More or fewer cells than columns, or a cell is not of its column's type.
    """
    if len(cells) != len(names):
        raise InvalidDocument(f"{len(cells)} cells, but the header has {len(names)}")
    document = {}
    for name, read, cell in zip(names, readers, cells, strict=True):
        if not cell:
            continue
        try:
            document[name] = read(cell)
        except InvalidDocument as error:
            raise InvalidDocument(error.reason, (name, *error.path)) from None
        except (ValueError, ArithmeticError) as error:
            raise InvalidDocument(f"{dumps(cell[:80])}: {error}", (name,)) from None
    return document
