"""The MongoDB server: the drivers' protocol over TCP or a Unix socket, in front of one database.

messages       bytes of requests and answers
conversation   one socket, and which commands are quick
server         the port
"""

from __future__ import annotations

from reactdb.servers.limits import Limits
from reactdb.servers.mongodb.server import MongoDBServer, serve_in_thread
from reactdb.servers.users import Credentials

__all__ = ["Credentials", "Limits", "MongoDBServer", "serve_in_thread"]
