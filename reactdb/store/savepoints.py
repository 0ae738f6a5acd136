"""Savepoints: all or nothing of one write inside a transaction that goes on.

Rule of this file: what SQLite has taken back is taken back here too, and the other way round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reactdb.errors import CorruptDatabase
from reactdb.store.sqlite import Connection, SQLiteError
from reactdb.store.transaction import WriteTransaction

logger = logging.getLogger("reactdb")


@contextmanager
def savepoint(
    transaction: WriteTransaction,
    translate: Callable[[BaseException], BaseException],
    is_ours: Callable[[], bool],
) -> Iterator[None]:
    """All or nothing of what is done inside.

    Args:
        translate: SQLite's error as one of ours; others as they are.
        is_ours: Whether the transaction is this process's: a child of fork() must not take back what its parent does.
    """
    connection = transaction.connection
    if transaction.ruin is not None:
        raise transaction.ruin
    kept = (transaction.count, transaction.catalogue, transaction.is_catalogue_changed)
    # One name for each depth: what is taken back must not be the savepoint around this one.
    depth = transaction.depth = transaction.depth + 1
    try:
        connection.execute(f"SAVEPOINT write{depth}")
        yield
        if transaction.ruin is not None:
            raise transaction.ruin
        connection.execute(f"RELEASE write{depth}")
    except BaseException as error:
        translated = translate(error)
        if isinstance(translated, CorruptDatabase):
            # Also where the caller catches it: nothing that goes on from here is worth keeping.
            transaction.ruin = transaction.ruin or translated
        if is_ours():
            transaction.memory.forget()
            transaction.count, transaction.catalogue, transaction.is_catalogue_changed = kept
            if transaction.changes is not None:
                del transaction.changes[transaction.count :]
            if not _take_back(connection, depth):
                # SQLite has taken back all of it (a full disk can do that). What follows must not become a transaction of
                # its own, with half of what belongs together.
                transaction.ruin = transaction.ruin or translated
        if translated is not error:
            raise translated from error
        raise
    finally:
        transaction.depth = depth - 1


def _take_back(connection: Connection, depth: int) -> bool:
    """Back to the savepoint, if it was made. False where there is no transaction any more."""
    try:
        if not connection.in_transaction:
            return False
        connection.execute(f"ROLLBACK TO write{depth}")
        connection.execute(f"RELEASE write{depth}")
    except SQLiteError:
        logger.debug("there is no savepoint to go back to", exc_info=True)
    return True
