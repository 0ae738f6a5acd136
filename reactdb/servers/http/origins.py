"""Origins: the pages of a browser that may read and write, and the names of the server.

A browser lets a page of any origin send requests to any server, also to this one. It hides an answer from the page if the answer
does not name the page's origin (CORS). But by then the request is done: so a request that may write is refused here before it is
executed. PouchDB sends a content type with every request, so a browser first requests permission for each kind of request; a
form, or a script with `text/plain`, is sent without that.

A page can also reach this server under a name of its own, after it has changed the name's address to this machine's (DNS
rebinding). The browser then takes both for one origin. The name is in the header `Host`, which no page can change.

Rule of this file: headers in, headers out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from reactdb.errors import InvalidOption, format_value
from reactdb.servers.http.request_parts import RequestRefused
from reactdb.servers.sockets import is_loopback

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
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing, for any path."""


class Origins:
    """The origins whose pages may read and write, such as `https://app.example.org`, and the names of the server; `*` for all.

    A page of the server's own origin always may, and the names of the loopback always are the server's.
    """

    def __init__(self, allowed: Iterable[str] = ("*",), hosts: Iterable[str] = ("*",)) -> None:
        """
        Raises:
            InvalidOption: It is no origin, or no name of a host.
        """
        self._allowed = _texts("origins", allowed)
        for origin in self._allowed:
            if origin != "*" and ("://" not in origin or origin.endswith("/")):
                raise InvalidOption(
                    f"an origin is like https://app.example.org, without a path, not {format_value(origin)}"
                )
        names = _texts("hosts", hosts)
        for host in names:
            if not host or any(sign in host for sign in "/@ ") or name_in(host) != host.lower().strip("[]"):
                raise InvalidOption(
                    f"a host is a name like db.example.org, or an address, without a port, not {format_value(host)}"
                )
        self._hosts = frozenset(map(name_in, names))

    def check(self, method: str, scheme: str, request: Mapping[str, str]) -> None:
        """Check that this request comes from no page without permission.

        Args:
            scheme: The request's `http` or `https`.
            request: Its headers; names are in lower case.

        Raises:
            RequestRefused: 403, the header `Host` names another server, or a page of a foreign origin tries to write.
        """
        host = request.get("host")
        if host is not None and not self._is_ours(host):
            raise RequestRefused(
                403,
                "forbidden",
                f"{format_value(host)} is no name of this server; name it with --host-name or hosts=.",
            )
        origin = request.get("origin")
        if method in READING or self._is_allowed(origin):
            return
        # Since 2020 (Safari since 2023) browsers send the relation of the page and the server, and no page can change it. Behind
        # a proxy with TLS, no other header shows that a page is the server's own. Older browsers send the header `Origin` only.
        relation = request.get("sec-fetch-site", "none" if origin is None else "")
        if relation in ("same-origin", "none") or origin == f"{scheme}://{host}":
            return
        whose = "another origin" if origin is None else format_value(origin)
        raise RequestRefused(
            403,
            "forbidden",
            f"Pages of {whose} may not write here; allow their origin with --cors-origin or origins=.",
        )

    def _is_ours(self, host: str) -> bool:
        name = name_in(host)
        return "*" in self._hosts or is_loopback(name) or name in self._hosts

    def _is_allowed(self, origin: str | None) -> bool:
        return "*" in self._allowed or origin in self._allowed

    def headers(self, request: Mapping[str, str]) -> dict[str, str]:
        """The CORS headers of every answer to this request. They name the exact origin: with cookies, browsers refuse `*`."""
        origin = request.get("origin")
        if origin is None or not self._is_allowed(origin):
            return {}
        return {
            "access-control-allow-origin": origin,
            "access-control-allow-credentials": "true",
            "access-control-expose-headers": EXPOSED,
            "vary": "Origin",
        }

    def preflight(self, request: Mapping[str, str]) -> dict[str, str] | None:
        """The headers of the answer to a CORS preflight request; None for another request or a forbidden origin."""
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


def _texts(name: str, given: Iterable[str]) -> frozenset[str]:
    """
    Raises:
        InvalidOption: It is no list of texts.
    """
    texts = None if isinstance(given, str) else list(given)
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise InvalidOption(f"{name} are a list of texts, not {format_value(given)}")
    return frozenset(texts)


def name_in(host: str) -> str:
    """The name or address in a header `Host`, in lower case, without port, brackets and the dot at its end."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    # More than one colon: an IPv6 address without brackets, and without a port.
    name = host.partition(":")[0] if host.count(":") == 1 else host
    return name.removesuffix(".")
