"""Dead letters: the changes that a durable consumer could not process, in a table of the file.

A change comes here after its last attempt, at once where the selection cannot be computed for it, or because it is
skipped by hand. The consumer's position moves past it in the same transaction, so that it is either in the table or
still to come.

Rule of this file: no content of a document may keep the consumer from continuing. A change that fits into no document
stays in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from reactdb.change import Change
from reactdb.errors import BlobNotFound, InvalidDocument
from reactdb.feeds.events import Event
from reactdb.query import Query
from reactdb.session import Session
from reactdb.store.leases import Lease, write_lease
from reactdb.store.transaction import WriteTransaction
from reactdb.table import Table

DEAD_LETTERS = "consumers.dead_letters"
"""The table of dead letters: an ordinary table, made with the first of them."""


# In the `id` of a change: between the seq and the document, where a table was dropped or renamed.
OF_TABLE = "/"


def is_of_table(change: Event) -> bool:
    """Whether a document goes, or comes, because its table was dropped or renamed."""
    return OF_TABLE in change.get("id", "")


def event_of_log(change: Change) -> Event:
    """A change as an event with its documents as they are, whatever a selection makes of them."""
    old, new = change.old_val, change.new_val
    return {
        "table": change.table,
        "key": change.key,
        "type": "add" if old is None else "remove" if new is None else "change",
        "old_val": old,
        "new_val": new,
        "seq": change.seq,
    }


def store_dead_letters(
    session: Session,
    transaction: WriteTransaction,
    lease: Lease,
    changes: Sequence[Event],
    until: int,
    error: str,
    attempts: int,
) -> Lease:
    """Put changes into the table DEAD_LETTERS, and move the lease past them, to `until`, in this transaction. Returns: the lease.

    Several changes have one seq, such as the documents of a dropped table.

    A change of that table itself is there already: a further document about it would fail next, and so on for ever.
    """
    for change in changes:
        if change["table"] != DEAD_LETTERS:
            _put(session, transaction, lease, change, error, attempts)
    after = lease.advance(until).copy_with(set_aside=lease.set_aside + len(changes))
    write_lease(transaction, after)
    return after


def _id_of(lease: Lease, change: Event) -> list[Any]:
    name = [lease.name, change["seq"]]
    # The documents of a table that was dropped or renamed share a seq.
    return [*name, change["table"], change["key"]] if is_of_table(change) else name


def _put(
    session: Session, transaction: WriteTransaction, lease: Lease, change: Event, error: str, attempts: int
) -> None:
    if DEAD_LETTERS not in transaction.catalogue.live:
        transaction.create_table(DEAD_LETTERS, "id")
    document = {
        "id": _id_of(lease, change),
        "consumer": lease.name,
        "partition": lease.partition,
        "table": change["table"],
        "key": change["key"],
        "seq": change["seq"],
        "type": change["type"],
        "old_val": change["old_val"],
        "new_val": change["new_val"],
        "error": error,
        "attempts": attempts,
        "time": datetime.fromtimestamp(transaction.time / 1_000, UTC),
    }
    table = Table(session, Query(DEAD_LETTERS))
    try:
        table.insert(document, conflict="replace")
    except (BlobNotFound, InvalidDocument):
        # Both documents together are too large for one, or a mapping made a value that no document can hold, such as
        # a blob that is not in the file. They are in the log.
        table.insert(document | {"old_val": None, "new_val": None}, conflict="replace")
