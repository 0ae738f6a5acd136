"""Respelling: dialects show some values in another form than the stored one. A document that comes back in the shown
form keeps its stored values.

A dialect shows a value that it lacks as the nearest value that it has: a date as text, a moment without its
microseconds. A client that reads a document, changes one field and writes it back sends all other fields in the shown
form. A field that still equals the shown form of the stored value keeps the stored value, and does not become the
text.

Rule of this file: values in, values out. The dialect defines the shown forms.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

from reactdb.errors import InvalidDocument, ReactDBError
from reactdb.values.codec import encode_value

__all__ = ["Respelling", "restore"]


class Respelling(NamedTuple):
    """How a dialect shows stored values.

    Attributes:
        is_exact: Whether a stored value, with all that is in it, is shown as it is.
        shown: The stored form of a value that comes back in its shown form.
        sent: The same for a value from a client, where two of them are equal to the dialect.
    """

    is_exact: Callable[[Any], bool]
    shown: Callable[[Any], Any]
    sent: Callable[[Any], Any] = lambda value: value


def restore(new: Any, old: Any, respelling: Respelling) -> Any:
    """The new value, with the stored value wherever it has the shown form of it: in the same field, or in an element
    of the same array. The object itself where nothing was replaced; neither argument is changed.

    Args:
        old: The stored value that it replaces.
    """
    if respelling.is_exact(old):
        return new
    if isinstance(old, dict) and isinstance(new, dict):
        changed = {}
        for name, inner in old.items():
            if name in new:
                kept = restore(new[name], inner, respelling)
                if kept is not new[name]:
                    changed[name] = kept
        return {**new, **changed} if changed else new
    if isinstance(old, list) and isinstance(new, list):
        return _restore_list(new, old, respelling)
    shown = _shown_bytes(old, respelling)
    return old if shown is not None and shown == _bytes(respelling.sent(new)) else new


def _restore_list(new: list[Any], old: list[Any], respelling: Respelling) -> list[Any]:
    # Elements before an added or removed one have moved, so equal elements are found by their bytes.
    by_bytes: dict[bytes | None, deque[Any]] = defaultdict(deque)
    for inner in old:
        if not respelling.is_exact(inner):
            by_bytes[_shown_bytes(inner, respelling)].append(inner)
    by_bytes.pop(None, None)
    result = []
    for place, inner in enumerate(new):
        same = by_bytes.get(_bytes(respelling.sent(inner)))
        if same:
            result.append(same.popleft())
        else:
            result.append(restore(inner, old[place], respelling) if place < len(old) else inner)
    return result if any(one is not other for one, other in zip(result, new, strict=True)) else new


def _shown_bytes(value: Any, respelling: Respelling) -> bytes | None:
    """None where the dialect takes nothing that is shown so, as a number that is too large for it."""
    try:
        return _bytes(respelling.shown(value))
    except ReactDBError:
        return None


def _bytes(value: Any) -> bytes | None:
    """None where nothing of the sort can be stored."""
    try:
        return encode_value(value)
    except InvalidDocument:
        return None
