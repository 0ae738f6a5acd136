"""CouchApplication: the ASGI application that answers CouchDB's clients: `couchdb(db)`.

    app.mount("/db", reactdb.servers.http.couchdb(db))        inside a Starlette or FastAPI program
    uvicorn.run(reactdb.servers.http.couchdb(db))             by itself

Rule of this file: it connects the dialect with HTTP. How a request is read and answered is in `servers.http.application`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.applications import Starlette

from reactdb.database import Database
from reactdb.dialects.couchdb.couch import Couch
from reactdb.servers.couchdb.changes import Counts
from reactdb.servers.couchdb.routes import CouchSpeaker, Service
from reactdb.servers.http.application import (
    HTTPApplication,
    application_options,
    mountable,
)
from reactdb.servers.http.limits import HTTPLimits
from reactdb.servers.http.sessions import Authenticator
from reactdb.servers.users import Credentials

__all__ = ["CouchApplication", "couchdb"]


def couchdb(
    db: Database,
    *,
    credentials: Credentials | None = None,
    origins: Iterable[str] | None = None,
    hosts: Iterable[str] | None = None,
    read_only: bool = False,
    limits: HTTPLimits | None = None,
) -> Starlette:
    """CouchDB's HTTP interface to a database, as an ASGI application.

    Args:
        db: Its tables are CouchDB's databases. The application does not close it.
        credentials: The users with access. By default everybody who reaches the server has access.
        origins: The origins whose pages may read and write, such as `https://app.example.org`; `*` for all, which is the default
            without `credentials`. With them, by default only pages of the server's own origin may.
        hosts: The accepted names in the header `Host`, beside the loopback's names; `*` for all, which is the default. Give names
            if a browser reaches the server without `credentials`.
        read_only: Refuse writes, with 403.
        limits: How much a client may use.

    Raises:
        InvalidOption: An origin, a host or a limit is wrong.
    """
    return mountable(
        CouchApplication(db, **application_options(credentials, origins, hosts, read_only, limits))
    )


class CouchApplication(HTTPApplication):
    """The application for CouchDB's clients."""

    def __init__(self, db: Database, *, credentials: Credentials | None = None, **options: Any) -> None:
        """`options`: as of HTTPApplication."""
        limits = options.get("limits") or HTTPLimits()
        couch = Couch(db, most_attachment_bytes=limits.attachment_bytes)
        super().__init__(CouchSpeaker(Service(couch, Authenticator(credentials), Counts())), **options)
