"""The page at `/_reactdb`: tables, the newest changes while they happen, a document's revisions.

It is one file without external parts, and sends only requests that every client may send.

Rule of this file: it sends the file `page.html`.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from reactdb.servers.http.responses import Answer

__all__ = ["page"]

# Nothing of the page comes from elsewhere, and no text of a document becomes a part of it.
POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


@cache
def text() -> bytes:
    return files(__package__).joinpath("page.html").read_bytes()


def page() -> Answer:
    return Answer(200, text(), "text/html; charset=utf-8", {"content-security-policy": POLICY})
