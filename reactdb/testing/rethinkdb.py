"""RethinkDB's driver with a reactdb database in one process: over a real port, or without any socket.

    with reactdb.testing.rethinkdb_server(db) as (host, port):
        connection = r.connect(host, port)

    with reactdb.testing.rethinkdb_connection(db) as connection:
        r.table("games").changes().run(connection)

Rule of this file: the driver is imported where it is used, because reactdb does not need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reactdb.database import Database
from reactdb.dialects.rethinkdb.embedded import SessionWire, open_connection


@contextmanager
def rethinkdb_server(
    db: Database, *, host: str = "127.0.0.1", port: int = 0, user: str = "admin", password: str = ""
) -> Iterator[tuple[str, int]]:
    """Run a RethinkDB server for the database during the block; gives (host, port). Any free port by default."""
    from reactdb.servers.rethinkdb import Credentials, serve_in_thread

    with serve_in_thread(db, host=host, port=port, credentials=Credentials(user, password)) as server:
        yield server.host, server.port


def rethinkdb_connection(
    db: Database, database: str = "test", *, wire: type[SessionWire] | None = None
) -> Any:
    """A connection of the `rethinkdb` driver without a server, the same as of `reactdb.rethinkdb(db)`. A context manager.

    Args:
        database: The database of tables without `r.db(...)`.
        wire: A subclass of SessionWire, to see or change the messages.

    Raises:
        MissingExtra: The driver is not installed: `pip install rethinkdb`.
    """
    return open_connection(db, database, wire or SessionWire)
