"""HTTP: CouchDB's and Aidbox's interfaces, as ASGI applications and on a port of their own. It needs the extra `server`.

application   couchdb(db), aidbox(db): the applications, to mount into a program's own; a request from its first byte to the
              answer's last
serving       HTTPServer: applications on a port, by uvicorn
client        the client of a request, who may disconnect early
connections   one connection of uvicorn's, within limits
speaking      the interface between an application and its dialect
routing       CouchDB's routes
databases, documents, attaching, changing, selecting, viewing    those functions
request_parts, responses     a request and an answer, as those functions see them
encodings     compressed bodies
json_bodies   JSON of requests, decoded in pieces
streaming, wrapped_rows, formats    `_changes` over time, pending changes, and the bytes
resourcing    Aidbox's routes
polling, event_streams, rendering    long polls, server-sent events, JSON and YAML
waking        waiting for changes without a thread
sessions, origins, limits    users, pages and limits
page          a page to see the data

Rule of this folder: HTTP. The meaning of a request is in `reactdb.dialects`.
"""

from __future__ import annotations

from reactdb.errors import MissingExtra

try:
    from reactdb.servers.http.application import aidbox, couchdb
    from reactdb.servers.http.limits import HTTPLimits
    from reactdb.servers.http.serving import HTTPServer, serve_in_thread
except ImportError as error:
    if error.name is None or error.name.partition(".")[0] not in ("starlette", "uvicorn", "yaml"):
        raise
    missing = error.name.partition(".")[0]
    raise MissingExtra("serving HTTP", "pyyaml" if missing == "yaml" else missing, "server") from None

__all__ = ["HTTPLimits", "HTTPServer", "aidbox", "couchdb", "serve_in_thread"]
