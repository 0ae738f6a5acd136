"""A stray write-ahead log: one that lies beside a file and belongs to another.

SQLite cannot tell: a log says which pages it changed, and not of which file. Opened to write, the file would become a mixture
of both. But each database has an id, and it is in the file itself, beneath what the log lays over it.

Rule of this file: it looks, on a connection of its own that sees the file without its log, and says what it saw.
"""

from __future__ import annotations

from reactdb.errors import CorruptDatabase
from reactdb.store import schema, sqlite
from reactdb.store.sqlite import Connection


def check_log_belongs(connection: Connection, path: str, wal_bytes: int) -> None:
    """Called with a connection that sees the file as its log makes it, before anything is written.

    Raises:
        CorruptDatabase: The log is another database's.
    """
    if not wal_bytes:
        return
    own = _id_beneath(path)
    laid_over = schema.fact(connection, "database_id")
    if own is not None and laid_over != own:
        raise CorruptDatabase(
            f"{path} is database {own}, but the write-ahead log beside it is of database {laid_over}: one of the two was "
            "replaced without the other. Nothing was changed; put back what belongs together, or move the -wal away to have "
            "the file as it was last emptied into"
        )


def _id_beneath(path: str) -> str | None:
    """The database id in the file without its log; None where it has none yet, or cannot be read so."""
    # Immutable: the log is not looked at. What another process is writing there meanwhile may be seen in part, so whatever
    # does not come back as an id counts as none; an id itself never changes.
    file = sqlite.connect(path, mode="ro&immutable=1", busy_timeout_s=0)
    try:
        found = schema.fact(file, "database_id")
        return found if isinstance(found, str) and found else None
    except sqlite.READ_ERRORS:
        return None
    finally:
        file.close()
