"""InspectorServer: the inspector on a port of its own, by the HTTP server of `servers.http`.

Rule of this file: it chooses the application of the server.
"""

from __future__ import annotations

from typing import Final

from reactdb.database import Database
from reactdb.errors import InvalidOption
from reactdb.servers.http.server import HTTPServer
from reactdb.servers.inspector.application import LIMITS, InspectorApplication
from reactdb.servers.places import Places
from reactdb.servers.sockets import is_loopback

__all__ = ["InspectorServer"]

CONNECTIONS: Final = 256
STRANGERS: Final = 128
"""Connections without an accepted request."""


class InspectorServer(HTTPServer):
    """`async with InspectorServer(db, token=token) as server: ...`

    Attributes:
        host, port: The address, after the start.
    """

    def __init__(
        self,
        database: Database,
        *,
        token: str | None,
        write: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        """`port` 0 takes any free port; `host` is an address of the loopback; the others: see `inspector`.

        Raises:
            InvalidOption: An option is wrong, or `host` gives other machines access.
        """
        if not is_loopback(host):
            raise InvalidOption(
                f"the inspector listens on this machine alone, such as on 127.0.0.1, not on {host}: to show it to others, mount "
                "inspector(db) in a program that asks for a login"
            )
        self._application = InspectorApplication(database, write=write, token=token)
        self.set_up({"inspector": self._application}, LIMITS, host, port, Places(CONNECTIONS, STRANGERS))

    def make_one_time_token(self) -> str:
        """A token for one login: `./?token=T` gives the cookie once. Called on the loop."""
        return self._application.make_one_time_token()

    @property
    def url(self) -> str:
        """The address of the page, without the token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"
