"""Texts of documents that become headers: of an answer over HTTP, or of a part of a multipart body.

Such texts are the content type and name of an attachment, and the hash of a revision, which is an ETag. A line's end in one would
let a writer add headers; a server that notices this cannot send the answer at all, so that nobody can read the document.

    check_text(text, what)    refuses such a text before a write
    header_text(text)         makes a header of a stored text: files of earlier versions, and native writers, have any text

Rule of this file: texts in, texts out.
"""

from __future__ import annotations

import re
from typing import Final

from reactdb.dialects.couchdb.errors import CouchError

__all__ = ["NO_CONTROLS", "check_text", "header_text", "is_header_text"]

MOST_HEADER_CHARACTERS: Final = 16 * 1024
"""Most clients and servers read no longer header. The longest URL of a document has 12 kB."""

NO_CONTROLS: Final = "has control characters, which are not allowed in a header"
"""The end of an error sentence."""

# Unicode's control characters, with the line's end, and halves of surrogate pairs, which are no text.
_FORBIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def is_header_text(text: str) -> bool:
    """Whether a header may have all characters of the text."""
    return _FORBIDDEN.search(text) is None


def check_text(text: str, what: str) -> None:
    """Check a text that headers will have, before it is stored.

    Args:
        what: The subject of the error sentence.

    Raises:
        CouchError: 400, it has control characters.
    """
    if not is_header_text(text):
        raise CouchError(400, "bad_request", f"{what} {NO_CONTROLS}")


def header_text(text: str) -> str:
    """The text as a header has it: a space in place of each forbidden character, none at the ends, and not too long."""
    return _FORBIDDEN.sub(" ", text[:MOST_HEADER_CHARACTERS]).strip(" ")
