"""Origins: which pages' scripts may ask, and what a browser is told about it (CORS).

PouchDB sends a content type with every request, so a browser asks before each kind of request whether it may.

Rule of this file: headers in, headers out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from reactdb.errors import InvalidOption, shown

__all__ = ["Origins"]

EXPOSED: Final = (
    "content-type, cache-control, accept-ranges, etag, server, x-couch-request-id, "
    "x-couch-update-newrev, x-couchdb-body-time"
)
METHODS: Final = "GET, PUT, POST, HEAD, DELETE"
HEADERS: Final = (
    "accept, authorization, content-type, origin, referer, if-match, if-none-match, last-event-id"
)
MAX_AGE_S: Final = 600


class Origins:
    """The origins whose pages may ask, such as `https://app.example.org`; `*` for all."""

    def __init__(self, allowed: Iterable[str] = ("*",)) -> None:
        """
        Raises:
            InvalidOption: It is no origin.
        """
        if isinstance(allowed, str):
            raise InvalidOption(f"origins are a list of texts, not {shown(allowed)}")
        self._allowed = frozenset(allowed)
        for origin in self._allowed:
            if origin != "*" and (not isinstance(origin, str) or "://" not in origin or origin.endswith("/")):
                raise InvalidOption(
                    f"an origin is like https://app.example.org, without a path, not {shown(origin)}"
                )

    def headers(self, request: Mapping[str, str]) -> dict[str, str]:
        """What every answer to this request says. The origin is told as it is: with cookies, browsers refuse `*`."""
        origin = request.get("origin")
        if origin is None or not ("*" in self._allowed or origin in self._allowed):
            return {}
        return {
            "access-control-allow-origin": origin,
            "access-control-allow-credentials": "true",
            "access-control-expose-headers": EXPOSED,
            "vary": "Origin",
        }

    def preflight(self, request: Mapping[str, str]) -> dict[str, str] | None:
        """The headers of the answer to a browser's question whether it may ask; None where it may not, or asks nothing."""
        allowed = self.headers(request)
        if not allowed or "access-control-request-method" not in request:
            return None
        del allowed["access-control-expose-headers"]
        return {
            **allowed,
            "access-control-allow-headers": request.get("access-control-request-headers", HEADERS),
            "access-control-allow-methods": METHODS,
            "access-control-max-age": str(MAX_AGE_S),
        }
