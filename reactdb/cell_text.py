"""The text of a document's fields in a cell of a table: for a notebook, a terminal, a window.

    field                       text in the cell
    --------------------------  -------------------------------------------------------------------
    a text                      itself: buy milk
    a missing field             nothing
    any other value             its plain JSON (`reactdb/plain_json.py`): null, 2.5, ["a", "b"], 2026-01-31
    a control character in it   its escape: \\n, \\x1b

A cell has one line. A long value is cut before it is written as text, so that a value of 10 MB costs no more than a short one.

Rule of this file: values in, text out. It knows no toolkit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from reactdb.errors import InvalidOption, format_value
from reactdb.plain_json import to_plain
from reactdb.values.codec import FrozenDict, FrozenList

__all__ = [
    "ELEMENT",
    "cell_text",
    "check_columns",
    "escape_controls",
    "fields_of",
    "key_of_document",
    "names_of_columns",
    "texts_of",
]

ELEMENT: Final = "value"
"""The name of the only column of elements that are no documents, such as numbers."""

MISSING: Final = object()

# Control characters, halves of surrogate pairs, line and paragraph separators, and characters that change the direction of text:
# one of them could hide or reorder what follows. U+200C and U+200D stay, because emoji and some scripts need them.
_CONTROLS: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_controls(text: str) -> str:
    """The text with visible escapes in the place of control characters."""
    return text if text.isprintable() else _CONTROLS.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def cell_text(value: Any, most: int = 80) -> str:
    """The text of a value, on one line and of at most `most` characters (more where characters are escaped). A longer
    text ends with an ellipsis."""
    if value is MISSING:
        return ""
    kind = type(value)
    if kind is int or kind is str:
        text = value if kind is str else repr(value) if -(2**53) < value < 2**53 else _json_text(value, most)
    else:
        text = _json_text(value, most)
    if len(text) > most:
        text = f"{text[: most - 1]}…"
    return escape_controls(text)


def _json_text(value: Any, most: int) -> str:
    try:
        plain = to_plain(_cut(value, [most]))
    except Exception:
        # No value of a document, such as an object of a program.
        return str(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _cut(value: Any, left: list[int]) -> Any:
    """The beginning of a value. `left`: how many characters may follow."""
    if isinstance(value, (str, bytes)):
        part = value[: max(1, left[0] + 1)]
        left[0] -= len(part) + 2
        return part
    if type(value) is dict or type(value) is FrozenDict:
        fields: dict[str, Any] = {}
        for name, inner in value.items():
            if left[0] < 0:
                break
            left[0] -= len(name) + 4
            fields[name[: most_of(left)]] = _cut(inner, left)
        return fields
    if type(value) in (list, FrozenList, tuple):
        elements = []
        for inner in value:
            if left[0] < 0:
                break
            elements.append(_cut(inner, left))
        return elements
    left[0] -= 2
    return value


def most_of(left: list[int]) -> int:
    """At least one character, so that no name is empty."""
    return max(1, left[0] + 8)


def fields_of(element: Any) -> Mapping[str, Any]:
    """The fields of a document, or of an object of a typed table. Any other element has the only field `value`."""
    if isinstance(element, dict):
        return element
    kind = type(element)
    # Of msgspec, dataclasses and pydantic; then of attrs.
    for attribute in ("__struct_fields__", "__dataclass_fields__", "model_fields"):
        names = getattr(kind, attribute, None)
        if names is not None:
            return {name: getattr(element, name, MISSING) for name in names}
    attributes = getattr(kind, "__attrs_attrs__", None)
    if attributes is not None:
        return {one.name: getattr(element, one.name, MISSING) for one in attributes}
    return {ELEMENT: element}


def key_of_document(element: Any, primary_key: str) -> Any:
    """The key of a document; None where the element has none, such as after a `pluck` without it."""
    return element.get(primary_key) if isinstance(element, dict) else fields_of(element).get(primary_key)


def names_of_columns(elements: Sequence[Any], primary_key: str, most: int) -> tuple[list[str], int]:
    """The first fields of some documents as columns, the key before the others; and the number of fields that have no
    column."""
    names = dict.fromkeys(name for element in elements for name in fields_of(element))
    ordered = ([primary_key] if primary_key in names else []) + [
        name for name in names if name != primary_key
    ]
    return ordered[:most], max(0, len(ordered) - most)


def check_columns(columns: Any) -> dict[str, str] | None:
    """The option `columns` of a table: fields and their titles; None where the documents decide.

    Raises: InvalidOption.
    """
    if columns is None:
        return None
    titles = dict(columns) if isinstance(columns, Mapping) else None
    if titles is None and isinstance(columns, (list, tuple)):
        titles = {name: name for name in columns if isinstance(name, str)}
        titles = titles if len(titles) == len(columns) else None
    if not titles or not all(isinstance(text, str) for pair in titles.items() for text in pair):
        raise InvalidOption(
            f"columns is a list of different fields, or a dict of fields and titles, not {format_value(columns)}"
        )
    return titles


def texts_of(element: Any, names: Iterable[str], most: int = 80) -> list[str]:
    """The cells of a row."""
    fields = fields_of(element)
    return [cell_text(fields.get(name, MISSING), most) for name in islice(names, 1_000)]
