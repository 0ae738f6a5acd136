"""HTTP: CouchDB's and Aidbox's interfaces, as ASGI applications and on a port of their own. It needs the extra `server`.

application   couchdb(db), aidbox(db): the applications, to mount into a program's own; a request from its first byte to the
              answer's last
server        HTTPServer: applications on a port, by uvicorn
client        the client of a request, who may disconnect early
connections   one connection of uvicorn's, within limits
protocol      the interface between an application and its dialect
request_parts, responses     a request and an answer, as those functions see them
encodings     compressed bodies
json_bodies   JSON of requests, decoded in pieces
long_poll                            long polls, server-sent events, JSON and YAML
loop_waiter   waiting for changes without a thread
sessions, origins, limits    users, pages and limits
page          a page to see the data

Rule of this folder: HTTP. The meaning of a request is in `reactdb.dialects`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reactdb.errors import MissingExtra

try:
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
    import yaml  # noqa: F401
except ImportError as error:
    missing = (error.name or "").partition(".")[0]
    if missing not in ("starlette", "uvicorn", "yaml"):
        raise
    raise MissingExtra("serving HTTP", "pyyaml" if missing == "yaml" else missing, "server") from None

if TYPE_CHECKING:
    from reactdb.servers.aidbox.application import aidbox
    from reactdb.servers.couchdb.application import couchdb
    from reactdb.servers.http.limits import HTTPLimits
    from reactdb.servers.http.server import HTTPServer, serve_in_thread

# They are imported when they are first used: the applications of the dialects stand on this package.
_HOMES = {
    "HTTPLimits": "reactdb.servers.http.limits",
    "HTTPServer": "reactdb.servers.http.server",
    "aidbox": "reactdb.servers.aidbox.application",
    "couchdb": "reactdb.servers.couchdb.application",
    "serve_in_thread": "reactdb.servers.http.server",
}

__all__ = ["HTTPLimits", "HTTPServer", "aidbox", "couchdb", "serve_in_thread"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
