"""External writers: checks for the traces of another program in the file. They run each time another process has
written.

reactdb's own processes only append to the log, and file every entry under its key. A program that writes with SQL of
its own, or restores a backup over an open file, leaves an end of the log that does not fit. Only the end is checked
here, for a few µs; `reactdb doctor` examines the whole file.

Rule of this file: it reads, and returns the trouble. The caller holds a transaction.
"""

from __future__ import annotations

import sys

from reactdb.errors import CorruptDatabase, how_to_install
from reactdb.store.damage import unfiled_entry_error
from reactdb.store.epochs import Epoch, has_epoch, was_removed
from reactdb.store.file import sqlite
from reactdb.store.file.sqlite import Connection
from reactdb.store.snapshot import UNFILED_NEWEST

UNFILED = f"SELECT (SELECT name FROM tables WHERE id = l.table_id), l.table_id, l.key, l.seq {UNFILED_NEWEST}"


def describe_other_history(
    connection: Connection, head: int, known_seq: int, epoch: Epoch | None = None
) -> str:
    """Compare histories. Returns a message if the file, whose log ends at `head`, has another history than the known
    one, which reached `known_seq` and has this epoch. Empty where the history is the same."""
    is_known = epoch is None or has_epoch(connection, epoch.name) or was_removed(connection, epoch)
    if head >= known_seq and is_known:
        return ""
    return "another history is in the file now, as if a backup had been restored over it"


def unfiled_end_error(connection: Connection) -> CorruptDatabase | None:
    """The error for a newest log entry that is not filed as the newest of its key; else None."""
    row = connection.execute(UNFILED).fetchone()
    if row is None:
        return None
    name, table_id, key, seq = row
    return unfiled_entry_error(f"#{table_id}" if name is None else name, key, seq)


class WalResetNotice:
    """Warns once in a process that its SQLite has the WAL-reset bug, and only when another process writes to a file too.

    reactdb checkpoints around the bug (see `sqlite`), so processes with reactdb are safe. Another program on the same
    file, with SQLite's own automatic checkpoints, is not, and reactdb cannot know which program has written.
    """

    def __init__(self) -> None:
        self.is_given = False

    def note_other_writer(self, path: str) -> None:
        # A message for a log, and not for the screen of a program without a log.
        if self.is_given or "logging" not in sys.modules or not sqlite.has_wal_reset_bug():
            return
        self.is_given = True
        import logging

        quiet_logger = logging.getLogger("reactdb.sqlite")
        quiet_logger.addHandler(logging.NullHandler())
        quiet_logger.warning(
            "%s is written by another process too, and SQLite %s has the WAL-reset bug (mended in 3.51.3): reactdb's own "
            "checkpoints avoid it, those of another program that opens the file with such an SQLite can damage it; "
            "a newer SQLite: %s",
            path,
            ".".join(map(str, sqlite.VERSION)),
            how_to_install("sqlite"),
        )


# One for the process: the SQLite is the same for all files.
wal_reset = WalResetNotice()
