"""The program's own version of its data, which migrations count: a fact of the file.

Rule of this file: the number belongs to the program, and the store gives it no meaning.
"""

from __future__ import annotations

from typing import Final

from reactdb.store.file.sqlite import Connection
from reactdb.store.schema import read_fact, set_fact
from reactdb.store.transaction import WriteTransaction

USER_VERSION: Final = "user_version"
"""The name of the fact."""


def read_user_version(connection: Connection) -> int:
    """The version; 0 where none was set."""
    return int(read_fact(connection, USER_VERSION) or 0)


def set_user_version(transaction: WriteTransaction, version: int) -> None:
    """Write the version into the file, in the transaction."""
    transaction.secure()
    set_fact(transaction.connection, USER_VERSION, version)
    transaction.has_other_rows = True
