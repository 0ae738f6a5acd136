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
long_poll     long polls
loop_waiter   waiting for changes without a thread
served_stream     a feed or long poll, until the server of the program stops
sessions, origins, limits    users, pages and limits
page          a page to see the data
(`inspector(db)` is in `reactdb.servers.inspector`)

Rule of this folder: HTTP. The meaning of a request is in `reactdb.dialects`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from reactdb.errors import MissingExtra

for _module, _package in (("starlette", "starlette"), ("uvicorn", "uvicorn"), ("yaml", "pyyaml")):
    if find_spec(_module) is None:
        raise MissingExtra("serving HTTP", _package, "server")

if TYPE_CHECKING:
    from reactdb.servers.aidbox.application import aidbox
    from reactdb.servers.couchdb.application import couchdb
    from reactdb.servers.http.limits import HTTPLimits
    from reactdb.servers.http.server import HTTPServer, serve_in_thread
    from reactdb.servers.inspector.application import inspector

# They are imported when they are first used: the applications of the dialects stand on this package.
_HOMES = {
    "HTTPLimits": "reactdb.servers.http.limits",
    "HTTPServer": "reactdb.servers.http.server",
    "aidbox": "reactdb.servers.aidbox.application",
    "couchdb": "reactdb.servers.couchdb.application",
    "inspector": "reactdb.servers.inspector.application",
    "serve_in_thread": "reactdb.servers.http.server",
}

__all__ = ["HTTPLimits", "HTTPServer", "aidbox", "couchdb", "inspector", "serve_in_thread"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
