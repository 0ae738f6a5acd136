"""The RethinkDB server: the driver's protocol over TCP, in front of one database.

handshake   who is it
server      connections and frames
"""

from __future__ import annotations

from reactdb.servers.rethinkdb.handshake import Credentials
from reactdb.servers.rethinkdb.server import RethinkDBServer, serve_in_thread

__all__ = ["Credentials", "RethinkDBServer", "serve_in_thread"]
