"""The RethinkDB server: the driver's protocol over TCP, in front of one database.

handshake      authentication of a client
conversation   bytes, frames, and the quick requests
server         the port
"""

from __future__ import annotations

from reactdb.servers.limits import Limits
from reactdb.servers.rethinkdb.server import RethinkDBServer, serve_in_thread
from reactdb.servers.users import Credentials

__all__ = ["Credentials", "Limits", "RethinkDBServer", "serve_in_thread"]
