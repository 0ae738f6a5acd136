"""AidboxApplication: the ASGI application that answers Aidbox's clients: `aidbox(db)`.

    app.mount("/fhir", reactdb.servers.http.aidbox(db))       inside a Starlette or FastAPI program

Rule of this file: it connects the dialect with HTTP. How a request is read and answered is in `servers.http.application`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.applications import Starlette

from reactdb.database import Database
from reactdb.dialects.aidbox.aidbox import Aidbox
from reactdb.servers.aidbox.routes import AidboxSpeaker
from reactdb.servers.http.application import (
    HTTPApplication,
    application_options,
    mountable,
)
from reactdb.servers.http.limits import HTTPLimits
from reactdb.servers.http.sessions import Authenticator
from reactdb.servers.users import Credentials

__all__ = ["AidboxApplication", "aidbox"]


def aidbox(
    db: Database,
    *,
    credentials: Credentials | None = None,
    origins: Iterable[str] | None = None,
    hosts: Iterable[str] | None = None,
    read_only: bool = False,
    limits: HTTPLimits | None = None,
) -> Starlette:
    """Aidbox's HTTP interface to a database, `$changes` above all, as an ASGI application. Arguments and errors: as `couchdb`."""
    return mountable(
        AidboxApplication(db, **application_options(credentials, origins, hosts, read_only, limits))
    )


class AidboxApplication(HTTPApplication):
    """The application for Aidbox's clients."""

    def __init__(self, db: Database, *, credentials: Credentials | None = None, **options: Any) -> None:
        """`options`: as of HTTPApplication."""
        super().__init__(AidboxSpeaker(Aidbox(db), Authenticator(credentials)), **options)
