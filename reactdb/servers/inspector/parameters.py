"""Parameters: the parameters of a request, and the bodies of writes, checked.

Rule of this file: values of a request in, Python values out; every refusal is a sentence for the user.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from reactdb import json
from reactdb.errors import InvalidDocument
from reactdb.key_spelling import key_of
from reactdb.servers.http.request_parts import Asking, RequestRefused

__all__ = ["bad", "flag", "instant", "members", "number", "primary_key", "table_name", "text"]

MOST_DIGITS: Final = 18


def bad(sentence: str, status: int = 400) -> RequestRefused:
    return RequestRefused(status, "bad_request", sentence)


def text(asking: Asking, name: str) -> str | None:
    """The parameter; None where it is missing or empty."""
    return asking.text(name) or None


def table_name(asking: Asking) -> str:
    name = asking.text("table")
    if not name:
        raise bad("Name the table with the parameter `table`.")
    return name


def primary_key(asking: Asking) -> Any:
    spelled = asking.text("key")
    if spelled is None:
        raise bad("Name the document with the parameter `key`: a text is itself, the number 1 is =1.")
    return key_of(spelled)


def number(asking: Asking, name: str, default: int | None, most: int | None = None) -> Any:
    """A whole number from 0 on; one beyond `most` counts as `most`."""
    given = text(asking, name)
    if given is None:
        return default
    if not (given.isascii() and given.isdecimal() and len(given) <= MOST_DIGITS):
        raise bad(f"{name} is a whole number from 0 on, not {given[:40]!r}.")
    return int(given) if most is None else min(int(given), most)


def flag(asking: Asking, name: str) -> bool:
    return asking.text(name) in ("1", "true")


def instant(asking: Asking, name: str) -> datetime:
    given = asking.text(name) or ""
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise bad(f"{name} is a time such as 2026-01-31T12:30:00Z, not {given[:60]!r}.") from None
    if moment.utcoffset() is None:
        raise bad(f"{name} needs its time zone: {given[:60]}Z is UTC.")
    return moment


def members(asking: Asking, *names: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """The body of a write: a JSON object with exactly these members, with reactdb's types.

    Raises:
        RequestRefused: 415 and 400.
    """
    if asking.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise bad("A write is sent as application/json.", 415)
    try:
        value = json.loads(asking.body.decode("utf-8"))
    except UnicodeDecodeError:
        raise bad("The body is not UTF-8.") from None
    except InvalidDocument as error:
        raise bad(f"The JSON cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise bad("The body is a JSON object.")
    missing = [name for name in names if name not in value]
    unknown = [name for name in value if name not in (*names, *optional)]
    if missing or unknown:
        wrong = f"lacks `{missing[0]}`" if missing else f"has an unknown member `{unknown[0]}`"
        raise bad(f"The body {wrong}; it has {', '.join((*names, *optional)) or 'no members'}.")
    return value
