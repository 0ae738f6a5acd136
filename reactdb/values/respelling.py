"""Respelling: what a dialect shows otherwise than it is stored, and how a document that comes back as it was shown keeps it.

A dialect shows a value that it cannot say as the nearest one that it has: a date as text, a moment without its microseconds. A
client that reads a document, changes one field and writes it back has sent all others as they were shown. Each of them that
is still what the stored value is shown as is that value, and not the text.

Rule of this file: values in, values out. What is shown how is the dialect's to say.
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
        shown: What would be stored of a value that comes back as it is shown.
        sent: The same of a value that a client has sent, where two of them are one to the dialect.
    """

    is_exact: Callable[[Any], bool]
    shown: Callable[[Any], Any]
    sent: Callable[[Any], Any] = lambda value: value


def restore(new: Any, old: Any, respelling: Respelling) -> Any:
    """The new value, with what is stored wherever it has what that is shown as: in the same field, or in an element of the same
    array. The object itself where there is nothing of that; neither argument is changed.

    Args:
        old: The stored value in whose place it comes.
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
        return _restored_list(new, old, respelling)
    shown = _shown_bytes(old, respelling)
    return old if shown is not None and shown == _bytes(respelling.sent(new)) else new


def _restored_list(new: list[Any], old: list[Any], respelling: Respelling) -> list[Any]:
    # Elements before one that was added or taken away have moved, so those that are equal as a whole are found by what they are.
    by_bytes: dict[bytes | None, deque[Any]] = defaultdict(deque)
    for inner in old:
        if not respelling.is_exact(inner):
            by_bytes[_shown_bytes(inner, respelling)].append(inner)
    by_bytes.pop(None, None)
    found = []
    for place, inner in enumerate(new):
        same = by_bytes.get(_bytes(respelling.sent(inner)))
        if same:
            found.append(same.popleft())
        else:
            found.append(restore(inner, old[place], respelling) if place < len(old) else inner)
    return found if any(one is not other for one, other in zip(found, new, strict=True)) else new


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
