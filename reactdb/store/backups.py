"""Backups: a file with the content of an open database, made while others write.

SQLite copies the pages of one state: that of a read that begins before the first page and ends after the last. The copy is
made beside its place under another name, gets an epoch of its own, is flushed, and is then renamed. So there is a whole
backup under the name, or none.

The copy has the id of the original, because it can take its place. Its new epoch ends the history at the copied state, so
the copy refuses a token from a later state of the original.

Rule of this file: it opens the original only to read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from reactdb.clock import Clock
from reactdb.errors import CannotOpen, UsageError
from reactdb.store.engine import Engine
from reactdb.store.file import sqlite
from reactdb.store.file.copying import announce_copy
from reactdb.store.file.identity import read_identity
from reactdb.store.file.sqlite import SQLiteError
from reactdb.store.leases import Lease, free_leases, read_held_leases
from reactdb.store.schema import touch
from reactdb.store.snapshot import Snapshot
from reactdb.store.transaction import WriteTransaction

# Pages of 4 KiB between two calls of `progress`: some milliseconds.
STEP_PAGES = 1_024

Progress = Callable[[int, int], object]
"""Called with the copied bytes and all bytes."""


def back_up(engine: Engine, path: str, progress: Progress | None, *, overwrite: bool) -> dict[str, Any]:
    """Write the committed content of an open database to a new file.

    Args:
        path: The absolute path of the file.
        overwrite: Replace an existing file.

    Returns:
        `path`, `seq` of the newest change in it, and its size in `bytes`.

    Raises:
        CannotOpen: The path is the database's own, exists, has a write-ahead log beside it, or its folder is missing.
        UsageError: The database is in memory, and this thread is in a transaction.
        DiskFull, StorageError.
    """
    check_target(engine, path, overwrite=overwrite)
    part = f"{path}.{os.urandom(4).hex()}.part"
    try:
        if not engine.is_memory:
            with announce_copy(engine.path), engine.fresh_snapshot() as snapshot:
                seq, held = copy_pages(snapshot, part, progress)
        elif engine.has_transaction_here():
            raise UsageError(
                "backup() of a database in memory cannot be part of a transaction: call it before or after"
            )
        else:
            # There a read waits while another thread writes. In its turn it need not wait.
            seq, held = engine.writable().run_in_turn(partial(copy_memory, engine, part, progress))
        begin_history(part, held, engine.clock)
        flush(part)
        size = os.stat(part).st_size
        os.replace(part, path)
        flush(os.path.dirname(path))
    except OSError as error:
        raise CannotOpen(path, f"the backup cannot be written: {error.strerror}") from error
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            if os.path.exists(part + suffix):
                os.remove(part + suffix)
    return {"path": path, "seq": seq, "bytes": size}


def check_target(engine: Engine, path: str, *, overwrite: bool) -> None:
    """Raises: CannotOpen."""
    if not os.path.isdir(os.path.dirname(path)):
        raise CannotOpen(path, "the folder of the backup does not exist")
    if not os.path.lexists(path):
        identity = None
    elif os.path.isdir(path):
        raise CannotOpen(path, "it is a folder, and a backup is a file")
    else:
        identity = read_identity(path)
    if identity is not None and not engine.is_memory and identity == read_identity(engine.path):
        raise CannotOpen(path, "it is the database itself, which cannot be its own backup")
    if identity is not None and not overwrite:
        raise CannotOpen(path, "it exists: name another file for the backup, or say overwrite=True")
    if os.path.exists(path + "-wal"):
        # SQLite would take that log for the backup's.
        raise CannotOpen(
            path,
            f"{path}-wal is there: it would become a part of the backup; a program has the file open, or died",
        )


def copy_memory(engine: Engine, part: str, progress: Progress | None) -> tuple[int, list[Lease]]:
    with engine.snapshot() as snapshot:
        return copy_pages(snapshot, part, progress)


def copy_pages(snapshot: Snapshot, part: str, progress: Progress | None) -> tuple[int, list[Lease]]:
    """Copy what the snapshot sees. Returns the seq of its newest change, and the leases with a holder."""
    # This read fixes the state.
    seq = snapshot.seq
    held = read_held_leases(snapshot.connection)
    target = sqlite.connect(part, mode="rwc", busy_timeout_s=0.0)
    try:
        sqlite.copy_pages(snapshot.connection, target, STEP_PAGES if progress else -1, progress)
    except SQLiteError as error:
        raise sqlite.translate(error, "backup", part) from error
    finally:
        target.close()
    return seq, held


def begin_history(part: str, held: list[Lease], clock: Clock) -> None:
    """Begin a new epoch in the copy, in which no lease has a holder: the holders work on the original."""
    copied = Engine(part, read_only=False, busy_timeout_s=0.0, allow_network=True, clock=clock)

    def work(transaction: WriteTransaction) -> None:
        # The first commit of a process begins an epoch.
        transaction.secure()
        touch(transaction.connection)
        transaction.has_other_rows = True
        free_leases(transaction, held)

    try:
        copied.writable().write(work, durability="hard", operation="backup")
    finally:
        copied.close()


def flush(path: str) -> None:
    """Write a file, or the names of a folder, to the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        # A folder, on Windows.
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
