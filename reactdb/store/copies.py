"""Copies: a new database in memory with the content of an open one.

SQLite copies the pages. So the copy has the same documents, log, seqs, indexes and large values, and is made in a small part of
the time of writing them. It has an id of its own: a token of one is no position in the other.

Rule of this file: the copy is of one commit, and shares nothing with the original.
"""

from __future__ import annotations

from functools import partial

from reactdb.clock import Clock
from reactdb.errors import UsageError
from reactdb.store.engine import Engine
from reactdb.store.file import sqlite
from reactdb.store.file.sqlite import Connection, SQLiteError
from reactdb.store.leases import Lease, free_leases, read_held_leases


def copy_to_memory(engine: Engine, clock: Clock) -> Engine:
    """An engine of a new database in memory with the committed content of an open one.

    Args:
        clock: Its clock.

    Raises:
        UsageError: This thread is in a transaction.
        DatabaseClosed; StorageError: The original cannot be read.
    """
    if engine.has_transaction_here():
        raise UsageError("copy() cannot be part of a transaction: call it before or after the block")
    if engine.is_memory:
        # There a read waits while another thread writes, with pauses that grow. In its turn it need not wait.
        copied, held = engine.writable().run_in_turn(partial(_copy, engine, clock))
    else:
        copied, held = _copy(engine, clock)
    if held:
        copied.writable().write(
            lambda transaction: free_leases(transaction, held), durability="soft", operation="copy"
        )
    return copied


def _copy(engine: Engine, clock: Clock) -> tuple[Engine, list[Lease]]:
    """The copy, and the leases with a holder."""
    with engine.snapshot() as snapshot:
        held = read_held_leases(snapshot.connection)
        # The read above has fixed the state.
        copied = Engine(
            ":memory:",
            read_only=False,
            busy_timeout_s=engine.busy_timeout_s,
            clock=clock,
            fill=partial(_fill, snapshot.connection, is_wal=not engine.is_memory),
        )
    return copied, held


def _fill(source: Connection, target: Connection, *, is_wal: bool) -> None:
    try:
        sqlite.copy_content(source, target, is_wal=is_wal)
    except SQLiteError as error:
        target.close()
        raise sqlite.translate(error, "copy", ":memory:") from error
