"""Cells: the values of documents as Qt shows and edits them.

    in the document                shown                        in the editor
    -----------------------------  ---------------------------  ------------------------------------------------------
    text, bool, None               itself                       itself
    int                            itself; from 2**53 on, text  itself; beyond 32 bits a text, as Qt's editor is a spin box
    float                          itself                       a text: Qt's editor would round it to two digits
    date, bytes and so on          its text in plain JSON       the same
    dict, list                     itself, in these values      none

The text of an editor becomes a value of the type that the field has.

Rule of this file: values in, values out. It knows no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple
from uuid import UUID

from reactdb import json
from reactdb.errors import InvalidOption, ReactDBError, UsageError, format_value
from reactdb.logs import logger
from reactdb.plain_json import to_plain

MISSING: Final = object()
"""The value of a field that the document does not have."""

_OWN: Final = frozenset({str, bool, float, type(None)})
_PLAIN_EDITORS: Final = frozenset({str, bool, type(None)})


class Cell(NamedTuple):
    """What a column or a role shows of a document.

    Attributes:
        title: The heading of the column, or the name of the role.
        field: The name of the field; None if `function` makes the value.
    """

    title: str
    field: str | None
    function: Callable[[Any], Any] | None

    def read(self, document: Any) -> Any:
        """The value for Qt. A function that raises is logged, and its cell is empty."""
        if self.field is not None:
            return to_qt(read_field(document, self.field))
        assert self.function is not None
        try:
            return to_qt(self.function(document))
        except Exception:
            # PyQt ends the process at an exception that leaves a method that Qt calls.
            logger.exception("the function of %r raised", self.title)
            return None

    def is_changed(self, old: Any, new: Any) -> bool:
        """Whether two versions of a document may look different here."""
        if self.field is None:
            return True
        before, after = read_field(old, self.field), read_field(new, self.field)
        return before is not after and (type(before) is not type(after) or bool(before != after))


def make_cells(given: Any, option: str, what: str) -> list[Cell]:
    """The cells of an option, which is a list.

    Raises: InvalidOption.
    """
    # A text is a list of letters to Python, and would make a cell of each.
    if isinstance(given, (str, dict)) or not isinstance(given, Iterable):
        raise InvalidOption(f'{option} is a list, such as ["title", "done"], not {format_value(given)}')
    return [make_cell(one, what) for one in given]


def make_cell(given: Any, what: str) -> Cell:
    """A cell of a field's name, or of (title, name or function).

    Raises: InvalidOption.
    """
    if isinstance(given, str):
        return Cell(given, given, None)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        title, source = given
        if isinstance(source, str):
            return Cell(title, source, None)
        if callable(source):
            return Cell(title, None, source)
    raise InvalidOption(
        f"{what} is the name of a field, or (title, name or function of the document), not {format_value(given)}"
    )


def read_field(document: Any, field: str) -> Any:
    """The value of a field of a document, or of an attribute of an object; MISSING where it has none."""
    if isinstance(document, dict):
        return document.get(field, MISSING)
    return getattr(document, field, MISSING)


def to_qt(value: Any) -> Any:
    """The value as Qt shows it; None for a missing one."""
    if type(value) in _OWN:
        return value
    if value is MISSING:
        return None
    try:
        return to_plain(value)
    except (KeyError, TypeError):
        return _plain_text(value)


def to_editor(value: Any) -> Any:
    """The value as an editor gets it."""
    if type(value) in _PLAIN_EDITORS:
        return value
    if type(value) is int and -(2**31) <= value < 2**31:
        return value
    if isinstance(value, int | float):
        return repr(value)
    return to_qt(value)


def _plain_text(value: Any) -> str:
    try:
        return json.dumps(value, plain=True)
    except ReactDBError:
        return str(value)


def from_editor(given: Any, old: Any) -> Any:
    """The value to store, of what an editor or QML has given, where the field has the value `old`.

    Raises: UsageError: The text is no value of that type.
    """
    for convert in ("toVariant", "toPython", "toPyDateTime", "toPyDate", "toPyTime"):
        # A value of QML, or a date of Qt's.
        if hasattr(given, convert):
            given = getattr(given, convert)()
            break
    if isinstance(given, float) and type(old) is int and given.is_integer():
        # JavaScript has no integers.
        return int(given)
    if not isinstance(given, str) or isinstance(old, str):
        return given
    read = _READERS.get(type(old))
    if read is None:
        return given
    kind, function = read
    try:
        return function(given.strip())
    except (ValueError, InvalidOperation):
        raise UsageError(f"{format_value(given)} is not {kind}") from None


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_READERS: Final[dict[type, tuple[str, Callable[[str], Any]]]] = {
    int: ("an integer", int),
    float: ("a number", float),
    bool: ("true or false", _read_bool),
    Decimal: ("a number", Decimal),
    UUID: ("a UUID", UUID),
    datetime: ("a date with time, such as 2026-01-31T12:30:00Z", datetime.fromisoformat),
    date: ("a date, such as 2026-01-31", date.fromisoformat),
    time: ("a time, such as 12:30", time.fromisoformat),
}
