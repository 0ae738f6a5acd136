"""Authenticator: the users of the server. Basic authentication, and `_session`, which sets a temporary cookie.

A cookie is the name, its end in time, and a keyed hash of both. The key is made when the server starts, so
cookies end with it.

Rule of this file: names and passwords. It knows no database.
"""

from __future__ import annotations

import binascii
import hmac
import re
import secrets
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl

from reactdb.clock import monotonic
from reactdb.servers.http.request_parts import Asking, RequestRefused, read_json
from reactdb.servers.http.responses import Answer, ok
from reactdb.servers.users import Credentials, hmac_sha256

__all__ = ["Authenticator"]

COOKIE: Final = "AuthSession"
SESSION_S: Final = 600
WRONG: Final = "Name or password is incorrect."
STRANGER: Final = "You are not authorized to access this db."
MOST_CHARACTERS: Final = 1_024
HALVES: Final = re.compile("[\ud800-\udfff]")
"""Halves of surrogate pairs."""
"""Of a name or a password."""
MOST_COOKIE_CHARACTERS: Final = 8 * 1_024
"""The characters of a session's cookie: the longest possible name takes 5,600."""


class Authenticator:
    """The users with access. Without credentials everybody who reaches the server has access, as an administrator.

    Thread safety: any thread.
    """

    def __init__(self, credentials: Credentials | None, clock: Callable[[], float] = monotonic) -> None:
        self._credentials = credentials
        # Not the wall clock, which may be set back: the key lives no longer than this process, so no cookie does.
        self._clock = clock
        self._key = secrets.token_bytes(32)

    @property
    def is_open(self) -> bool:
        return self._credentials is None

    def who(self, asking: Asking) -> tuple[str | None, str | None]:
        """(the name, how it was proved): `default` for a password, `cookie` for a session; Nones for a stranger.

        Raises:
            RequestRefused: 401, a wrong password.
        """
        header = asking.headers.get("authorization", "")
        kind, _, value = header.partition(" ")
        if kind.lower() == "basic":
            name, password = _basic(value)
            self._check(name, password)
            return name, "default"
        user = self._of_cookie(asking.headers.get("cookie", ""))
        return user, None if user is None else "cookie"

    def must_be_known(self, asking: Asking) -> None:
        """
        Raises:
            RequestRefused: 401.
        """
        if self.is_open:
            return
        name, _ = self.who(asking)
        if name is None:
            raise RequestRefused(401, "unauthorized", STRANGER)
        asking.user = name

    def is_guess(self, asking: Asking) -> bool:
        """Whether the request has a new password, so that its check takes 30 ms."""
        kind, _, value = asking.headers.get("authorization", "").partition(" ")
        if self._credentials is None or kind.lower() != "basic":
            return False
        try:
            return not self._credentials.was_right(*_basic(value))
        except RequestRefused:
            return False

    def _check(self, name: str, password: str) -> None:
        if self._credentials is None:
            return
        is_short = max(len(name), len(password)) <= MOST_CHARACTERS
        if not (is_short and self._credentials.is_right(name, password)):
            raise RequestRefused(401, "unauthorized", WRONG)

    # -----------------------------------------------------------------------------------------------------------
    # _session

    def session(self, asking: Asking) -> Answer:
        name, how = self.who(asking)
        info: dict[str, Any] = {"authentication_handlers": ["cookie", "default"]}
        roles = ["_admin"] if self.is_open or name is not None else []
        if how is not None:
            info["authenticated"] = how
        return ok({"ok": True, "userCtx": {"name": name, "roles": roles}, "info": info})

    def log_in(self, asking: Asking) -> Answer:
        given = _read_members(asking)
        name, password = given.get("name", given.get("username", "")), given.get("password", "")
        if not isinstance(name, str) or not isinstance(password, str):
            raise RequestRefused(400, "bad_request", "name and password are texts.")
        if HALVES.search(name) is not None:
            # UTF-8 cannot encode it, so no user has such a name.
            raise RequestRefused(401, "unauthorized", WRONG)
        self._check(name, password)
        cookie = f"{COOKIE}={self._cookie(name)}; {_attributes(asking)}; Max-Age={SESSION_S}"
        return ok({"ok": True, "name": name, "roles": ["_admin"]}, set_cookie=cookie)

    def log_out(self, asking: Asking) -> Answer:
        return ok({"ok": True}, set_cookie=f"{COOKIE}=; {_attributes(asking)}; Max-Age=0")

    def _cookie(self, name: str) -> str:
        text = f"{int(self._clock()) + SESSION_S:x}:{name}".encode()
        return urlsafe_b64encode(hmac_sha256(self._key, text) + text).decode().rstrip("=")

    def _of_cookie(self, header: str) -> str | None:
        value = cookie_of(header)
        if len(value) > MOST_COOKIE_CHARACTERS:
            return None
        try:
            data = urlsafe_b64decode(value + "=" * (-len(value) % 4))
        except (binascii.Error, ValueError):
            return None
        proof, text = data[:32], data[32:]
        if not text or not hmac.compare_digest(proof, hmac_sha256(self._key, text)):
            return None
        until, _, name = text.decode("utf-8", "replace").partition(":")
        return name if int(until, 16) > self._clock() else None


def _attributes(asking: Asking) -> str:
    """The cookie's attributes. A browser sends the cookie from another site only with a followed link, and if it was set over
    TLS, only over TLS."""
    secure = "; Secure" if asking.base.startswith("https:") else ""
    return f"Version=1; Path=/; HttpOnly; SameSite=Lax{secure}"


def cookie_of(header: str) -> str:
    """The value of the session's cookie in a header `Cookie`, the last of its name; "" if there is none.

    Python's `http.cookies` also reads escapes, which our cookies never have, and its time grows with the square of their number.
    """
    cookie = ""
    for part in header.split(";"):
        name, _, value = part.partition("=")
        if name.strip() == COOKIE:
            cookie = value.strip().strip('"')
    return cookie


def _basic(value: str) -> tuple[str, str]:
    try:
        name, colon, password = b64decode(value, validate=True).decode().partition(":")
    except (ValueError, binascii.Error):
        name, colon, password = "", "", ""
    if not colon:
        raise RequestRefused(400, "bad_request", "Authorization header has invalid base64 value")
    return name, password


def _read_members(asking: Asking) -> dict[str, Any]:
    kind = asking.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        members = read_json(asking.body)
        return members if isinstance(members, dict) else {}
    return dict(parse_qsl(asking.body.decode("utf-8", "replace"), keep_blank_values=True))
