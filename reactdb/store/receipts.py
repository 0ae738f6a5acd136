"""Receipts: which delivery of a sender the file has taken in last, so that one which comes again is known.

A sender that may die between a commit and hearing of it sends again what it is not sure of. The receipt is kept in the same
transaction as the documents, so there is no moment at which the one is there and the other is not.

They are facts, which every format has: a file with receipts is opened by versions that know nothing of them. One row a sender.

Rule of this file: it is called inside a transaction of the caller's.
"""

from __future__ import annotations

from reactdb.errors import CorruptDatabase
from reactdb.store.file.sqlite import ADVICE, Connection
from reactdb.store.schema import fact, set_fact, write_catalogue_checksum
from reactdb.store.transaction import WriteTransaction

PREFIX = "receipt "


def last_receipt(connection: Connection, sender: str) -> int | None:
    """The number of the last delivery that was taken in from this sender; None where there was none.

    Raises:
        CorruptDatabase: It is not a number.
    """
    found = fact(connection, PREFIX + sender)
    if found is None or isinstance(found, int):
        return found
    raise CorruptDatabase(f"the receipt of {sender} is {found!r}. {ADVICE}")


def give_receipt(transaction: WriteTransaction, sender: str, number: int) -> None:
    """Note that the delivery is taken in by this transaction, also where it changes no document."""
    transaction.secure()
    set_fact(transaction.connection, PREFIX + sender, number)
    write_catalogue_checksum(transaction.connection)
    # The lists of tables are what they were, but there is something to commit. Their version stays: nobody needs to look.
    transaction.is_catalogue_changed = True
