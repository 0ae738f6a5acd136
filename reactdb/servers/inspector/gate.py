"""Gate: the checks of each request before it is routed: the name of the server, the page that sends it, and the token.

A browser lets every page send requests to the loopback. So a request passes only if all of these hold:

    Host              is a name of the loopback, or named with `hosts`: DNS rebinding reaches this server under another name
    Origin            is missing, or the server's own, or named with `origins`; `null` never is
    Sec-Fetch-Site    is missing, `same-origin` or `none`: browsers set it, and no page can change it
    the token         is in the cookie, or in `Authorization: Bearer`, where there is a token
    X-Reactdb-Inspector: 1    comes with every write, and without a token with every request for data: a page of another origin
                      cannot send it without permission, and no answer here gives permission

A token is given once in the URL, `./?token=T`. The answer is a cookie and a redirect to `./`, so the token leaves the address
bar. The cookie has a value made of the token, not the token itself: browsers send cookies to all ports of a host.

Rule of this file: headers in, a refusal or nothing out. It does not know the paths, but for the page's own.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Final

from reactdb.errors import InvalidOption, format_value
from reactdb.servers.http.origins import Origins, name_in
from reactdb.servers.sockets import is_loopback

__all__ = ["HEADERS", "Gate", "Refusal"]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""The headers of every answer."""

OWN_HEADER: Final = "x-reactdb-inspector"
LEAST_TOKEN: Final = 16
"""Characters of a token. A shorter one could be guessed."""
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.~-]+")
_NOT_OF_A_NAME: Final = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that does not pass: the HTTP status and a sentence."""

    status: int
    sentence: str


class Gate:
    """See the head of this file."""

    def __init__(self, token: str | None, hosts: Iterable[str], origins: Iterable[str]) -> None:
        """
        Raises:
            InvalidOption: The token is no text of at least 16 letters, digits and `_ . ~ -`, or an origin or a host is wrong.
        """
        if token is not None and not (
            isinstance(token, str) and len(token) >= LEAST_TOKEN and _TOKEN.fullmatch(token)
        ):
            # The token itself is not in the message, which may be logged.
            raise InvalidOption(
                f"token is a text of at least {LEAST_TOKEN} letters, digits and _ . ~ -, as secrets.token_urlsafe() gives"
            )
        # It checks the names.
        hosts, origins = list_of("hosts", hosts), list_of("origins", origins)
        Origins(origins, hosts)
        if "*" in hosts or "*" in origins:
            raise InvalidOption("hosts and origins of the inspector are named one by one, not with *")
        self._hosts = frozenset(map(name_in, hosts))
        self._origins = frozenset(origins)
        self._token = None if token is None else token.encode()
        self._one_time: set[str] = set()
        self._ticket = "" if token is None else sha256(b"reactdb inspector: " + token.encode()).hexdigest()

    @property
    def has_token(self) -> bool:
        return self._token is not None

    def check_page(self, scheme: str, headers: Mapping[str, list[str]]) -> Refusal | None:
        """Whether the request comes under a name of this server, and from no page of another origin.

        Args:
            headers: The values by their names in lower case.
        """
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not hosts[0]:
            return Refusal(400, "A request to the inspector has one header Host.")
        if not self._is_ours(hosts[0]):
            return Refusal(
                403,
                f"{format_value(hosts[0])} is no name of this server; name it with inspector(hosts=[...]).",
            )
        for origin in headers.get("origin", []):
            if origin not in self._origins and origin.lower() != f"{scheme}://{hosts[0]}".lower():
                return Refusal(403, f"Pages of the origin {format_value(origin)} may not use the inspector.")
        for relation in headers.get("sec-fetch-site", []):
            if relation not in ("same-origin", "none"):
                return Refusal(
                    403,
                    "Pages of other origins may not use or link to the inspector: open its address yourself.",
                )
        return None

    def check_user(
        self, headers: Mapping[str, list[str]], cookie: str, *, is_data: bool, is_write: bool
    ) -> Refusal | None:
        """Whether the user may send it.

        Args:
            cookie: The name of the cookie.
        """
        if self._token is not None and not self._is_known(headers, cookie):
            return Refusal(
                401, "The inspector needs its token: open the address that `reactdb open` has printed."
            )
        if (is_write or (is_data and self._token is None)) and headers.get(OWN_HEADER) != ["1"]:
            return Refusal(403, "The inspector's data needs the request header X-Reactdb-Inspector: 1.")
        return None

    def is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(errors="replace"), self._token)

    def make_one_time_token(self) -> str:
        """Another token, for one login in a browser. Called before the server is used, or on its loop."""
        token = secrets.token_urlsafe(24)
        self._one_time.add(token)
        return token

    def use_token(self, given: str) -> bool:
        """Whether this is a token of a login; one for a single login is used up."""
        if given in self._one_time:
            self._one_time.discard(given)
            return True
        return self.is_token(given)

    def cookie_name(self, host: str, mounted_at: str) -> str:
        """A name for each port and path: browsers send the cookies of a host to all of its ports."""
        port = host.rpartition(":")[2] if not host.endswith("]") and ":" in host else ""
        return _NOT_OF_A_NAME.sub("-", f"reactdb-{port}{mounted_at}").strip("-")

    def cookie(self, name: str, mounted_at: str, is_secure: bool) -> str:
        """The header Set-Cookie for a browser that has given the token. The cookie ends with the browser."""
        secure = "; Secure" if is_secure else ""
        return f"{name}={self._ticket}; Path={mounted_at}/; HttpOnly; SameSite=Strict{secure}"

    def _is_ours(self, host: str) -> bool:
        name = name_in(host)
        return is_loopback(name) or name in self._hosts

    def _is_known(self, headers: Mapping[str, list[str]], cookie: str) -> bool:
        given = headers.get("authorization", [])
        if len(given) == 1 and given[0][:7].lower() == "bearer " and self.is_token(given[0][7:].strip()):
            return True
        for text in headers.get("cookie", []):
            try:
                found = SimpleCookie(text).get(cookie)
            except CookieError:
                continue
            if found is not None and hmac.compare_digest(found.value.encode(), self._ticket.encode()):
                return True
        return False


def list_of(name: str, given: Iterable[str]) -> list[str]:
    """
    Raises:
        InvalidOption: It is no list.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidOption(f"{name} are a list of texts, not {format_value(given)}")
    return list(given)
