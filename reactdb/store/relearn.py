"""Relearning: a writer asks the file for all that it remembers, because another process has written since, or nobody knows.

Rule of this file: called in turn and inside a transaction that has written nothing yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactdb.store import schema
from reactdb.store.catalogue import load
from reactdb.store.epochs import has_epoch
from reactdb.store.file.external_writers import other_history, unfiled_end
from reactdb.store.snapshot import head_seq

if TYPE_CHECKING:
    from reactdb.store.writer import Writer


def relearn(writer: Writer, operation: str) -> None:
    """Ask for the newest seq and time, and for tables and indexes; look at the end of the log.

    Raises:
        StorageMoved: It is the log of another history.
        CorruptDatabase: Its newest entry belongs to nothing.
        StorageError: An earlier flush has failed, and its repair fails too.
    """
    connection = writer.connection
    writer.memory.forget()
    if writer.flushes.is_doubtful and writer.guard is not None:
        trouble = writer.guard.examine()
        if trouble:
            # Whatever is at the path now, it is not ours to write to.
            raise writer.moved(trouble)
    writer.flushes.make_sure(operation)
    head = head_seq(connection)
    own = writer.epoch if writer.has_own_epoch else None
    trouble = other_history(connection, head, writer.last_seq, own)
    if trouble:
        raise writer.moved(f"{writer.path}: {trouble}")
    # One that compaction has removed tells nothing any more: another one is begun.
    writer.has_own_epoch = writer.has_own_epoch and (own is None or has_epoch(connection, own.name))
    damage = unfiled_end(connection)
    if damage is not None:
        raise writer.distrust.excused(damage)
    writer.last_seq = head
    row = connection.execute(
        "SELECT max(time) FROM (SELECT time FROM log ORDER BY seq DESC LIMIT 1)"
    ).fetchone()
    writer.last_time = max(writer.last_time, row[0] or 0)
    if int(schema.fact(connection, "catalogue")) != writer.catalogue.version:
        writer.adopt(load(connection))
