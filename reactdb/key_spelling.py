"""KeySpelling: the form in which a dialect shows primary keys that it lacks, as other values, and the way back.

    key                                       shown as
    ----------------------------------------  -----------------------------------------------------------------------
    one that comes back as the same key       itself, as other values are shown
    any other: a date, a UUID, a microsecond  the text `=` and its JSON: `={"$reactdb_type$":"date","value":"2026-01-31"}`
    a text that looks like such a spelling    one `=` more before it

    key_text(1)               "=1": every key as a text, for views that have texts only, such as rows on a screen and URLs
    key_of("=1")              1

The dialect decides which keys come back unchanged. Equal keys, such as 1 and 1.0, are one key, and have one spelling.

Rule of this file: keys in, keys out. It knows no document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from reactdb.errors import InvalidKey, ReactDBError
from reactdb.values.collation import key_bytes, key_value, primary_key_bytes

__all__ = ["SIGN", "KeySpelling", "key_of", "key_text"]

SIGN: Final = "="
"""The beginning of a spelling. A text without it is a key in its own form."""


class KeySpelling:
    """See the head of this file."""

    def __init__(self, read_back: Callable[[Any], Any]) -> None:
        """
        Args:
            read_back: The stored form of a value that comes back in its shown form. It may raise a ReactDBError.
        """
        self._read_back = read_back

    def shown(self, key: Any) -> Any:
        """The text that a key is shown as, or the key itself where it is shown as other values are."""
        if isinstance(key, str):
            return SIGN + key if key[:1] == SIGN and self._is_like_spelling(key) else key
        return key if self._comes_back(key) else _spelling(key)

    def stored(self, shown: Any) -> Any:
        """The key behind the shown value: the value itself if it is no spelling. Of equal keys, any."""
        if not isinstance(shown, str) or shown[:1] != SIGN:
            return shown
        if shown[1:2] == SIGN:
            return shown[1:] if self._is_like_spelling(shown) else shown
        return self._spelled(shown, shown)

    def _is_like_spelling(self, text: str) -> bool:
        """Whether a text is a spelling with any number of `=` before it."""
        return self._spelled(SIGN + text.lstrip(SIGN), None) is not None

    def _spelled(self, text: str, otherwise: Any) -> Any:
        """The key that has this spelling."""
        # Imported here because few programs have such keys, and JSON brings the types of documents.
        from reactdb import json

        try:
            key = json.loads(text[1:])
            # A longer text of the same key would be shown as the spelling, and so come back as another text.
            if not isinstance(key, str) and not self._comes_back(key) and _spelling(key) == text:
                primary_key_bytes(key)
                return key
        except (ReactDBError, ValueError):
            pass
        return otherwise

    def _comes_back(self, key: Any) -> bool:
        try:
            return key_bytes(self._read_back(key)) == key_bytes(key)
        except ReactDBError:
            return False


def _spelling(key: Any) -> str:
    from reactdb import json

    # Of equal keys, the bytes decide.
    return SIGN + json.dumps(key_value(key_bytes(key)))


def _refuse(shown: Any) -> Any:
    raise InvalidKey("only a text is shown as itself")


_AS_TEXT: Final = KeySpelling(_refuse)


def key_text(key: Any) -> str:
    """The one text of a primary key: a text is itself, and any other key is `=` and its JSON, such as `=1`.

    Different keys have different texts, and equal keys, such as 1 and 1.0, have the same. A text that looks like such a
    spelling gets one more `=` before it. `key_of` gives the key back.
    """
    return str(_AS_TEXT.shown(key))


def key_of(text: str) -> Any:
    """The primary key of a text that `key_text` has made. Every text is that of some key."""
    return _AS_TEXT.stored(text)
