"""Texts of documents that go into headers: of an answer over HTTP, or of a part of a multipart body.

The content type and the name of an attachment are such texts, and the hash of a revision, which is an ETag. With a line's end in
one, whoever wrote it would write headers of their own; a server that notices cannot send the answer at all, and whoever wants
the document never gets it.

    check_text(text, what)    refuses one that is to be written
    header_text(text)         what a stored one becomes: files of earlier versions, and native writers, have others

Rule of this file: texts in, texts out.
"""

from __future__ import annotations

import re
from typing import Final

from reactdb.dialects.couchdb.errors import CouchError

__all__ = ["NO_CONTROLS", "check_text", "header_text", "is_header_text"]

MOST_HEADER_CHARACTERS: Final = 16 * 1024
"""Most clients and servers read no longer header. The longest URL of a document has 12 kB."""

NO_CONTROLS: Final = "has control characters, which no header may have"
"""The end of a sentence about one that is refused."""

# The control characters of Unicode, of which a line's end is one, and halves of surrogate pairs, which are no text.
_FORBIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def is_header_text(text: str) -> bool:
    """Whether a text has only characters that a header may have."""
    return _FORBIDDEN.search(text) is None


def check_text(text: str, what: str) -> None:
    """Check that a text may be stored that headers will have.

    Args:
        what: What it is, as the subject of a sentence.

    Raises:
        CouchError: 400, it has control characters.
    """
    if not is_header_text(text):
        raise CouchError(400, "bad_request", f"{what} {NO_CONTROLS}")


def header_text(text: str) -> str:
    """The text as a header has it: a space in place of each forbidden character, none at the ends, and not too long."""
    return _FORBIDDEN.sub(" ", text[:MOST_HEADER_CHARACTERS]).strip(" ")
