"""The RethinkDB server: the driver's protocol over TCP, in front of one database.

handshake   authentication of a client
limits      how much a client may ask
server      connections and frames
"""

from __future__ import annotations

from reactdb.servers.rethinkdb.handshake import Credentials
from reactdb.servers.rethinkdb.limits import Limits
from reactdb.servers.rethinkdb.server import RethinkDBServer, serve_in_thread

__all__ = ["Credentials", "Limits", "RethinkDBServer", "serve_in_thread"]
