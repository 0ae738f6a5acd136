"""What other programs may have done to the file: looked at whenever somebody else has written, before it is believed.

reactdb's own processes only ever append to the log, and file every entry under its key. Whoever writes with SQL of their own,
or restores a backup over an open file, leaves an end of the log that does not fit. `reactdb doctor` examines all of it; here
only the end is looked at, which costs a few µs for each time that somebody else has written.

Rule of this file: it reads, and says what is wrong. The caller holds a transaction.
"""

from __future__ import annotations

from reactdb.errors import CorruptDatabase
from reactdb.store.damage import unfiled_entry
from reactdb.store.epochs import Epoch, has_epoch, was_removed
from reactdb.store.file.sqlite import Connection
from reactdb.store.snapshot import UNFILED_NEWEST

UNFILED = f"SELECT (SELECT name FROM tables WHERE id = l.table_id), l.table_id, l.key, l.seq {UNFILED_NEWEST}"


def other_history(connection: Connection, head: int, known_seq: int, epoch: Epoch | None = None) -> str:
    """That the file, whose log ends at `head`, has another history than the one that reached `known_seq` and has this epoch;
    empty where it has not."""
    is_known = epoch is None or has_epoch(connection, epoch.name) or was_removed(connection, epoch)
    if head >= known_seq and is_known:
        return ""
    return "another history is in the file now, as if a backup had been restored over it"


def unfiled_end(connection: Connection) -> CorruptDatabase | None:
    """The error that says that the newest log entry is not the newest of its key; None where it is."""
    row = connection.execute(UNFILED).fetchone()
    if row is None:
        return None
    name, table_id, key, seq = row
    return unfiled_entry(f"#{table_id}" if name is None else name, key, seq)
