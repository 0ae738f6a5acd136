"""The MongoDB server: the drivers' protocol over TCP or a Unix socket, in front of one database. It needs the extra `mongodb`.

messages       bytes of requests and replies
conversation   one socket, and the choice of quick commands
server         the port
"""

from __future__ import annotations

from reactdb.errors import MissingExtra
from reactdb.servers.limits import Limits
from reactdb.servers.users import Credentials

try:
    from reactdb.servers.mongodb.server import MongoDBServer, serve_in_thread
except ImportError as error:
    if error.name is None or error.name.partition(".")[0] not in ("bson", "pymongo"):
        raise
    raise MissingExtra("serving MongoDB's drivers", "pymongo", "mongodb") from None

__all__ = ["Credentials", "Limits", "MongoDBServer", "serve_in_thread"]
