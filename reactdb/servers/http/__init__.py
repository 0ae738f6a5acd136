"""HTTP: CouchDB's interface, as an ASGI application and on a port of its own. It needs the extra `server`.

couchdb       couchdb(db): the application, to mount into a program's own
serving       HTTPServer: the application on a port, by uvicorn
application   a request from its first byte to the answer's last
routing       which function answers what
databases, documents, attaching, changing, selecting, viewing    those functions
asking, answering     a request and an answer, as those functions see them
streaming, formats    `_changes` while time passes, and its bytes
multipart     bodies of several parts
sessions, origins, limits    who may ask, from where, how much
page          a page to look at it with

Rule of this folder: HTTP. What a request means is in `reactdb.dialects.couchdb`.
"""

from __future__ import annotations

from reactdb.errors import MissingExtra

try:
    from reactdb.servers.http.application import couchdb
    from reactdb.servers.http.limits import HTTPLimits
    from reactdb.servers.http.serving import HTTPServer, serve_in_thread
except ImportError as error:
    if error.name is None or error.name.partition(".")[0] not in ("starlette", "uvicorn"):
        raise
    raise MissingExtra("serving HTTP", error.name.partition(".")[0], "server") from None

__all__ = ["HTTPLimits", "HTTPServer", "couchdb", "serve_in_thread"]
