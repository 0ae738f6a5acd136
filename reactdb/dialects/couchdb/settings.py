"""Settings of databases: a row each, in a hidden table.

Rule of this file: a database without a row has the defaults.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from reactdb.change import HiddenTable
from reactdb.dialects.couchdb.revisions import OWNER
from reactdb.dialects.couchdb.states import HeadSource
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec, collation

SETTINGS: Final = HiddenTable(OWNER, "databases")
REVS_LIMIT: Final = 1000


class DatabaseSettings(NamedTuple):
    """
    Attributes:
        created: The time at which it was first served, in seconds since 1970, as text.
        revs_limit: How many revisions of a path are kept.
        served: The log's position at that time.
        older: The number of its newest change up to there: see `number`.
    """

    created: str = "0"
    revs_limit: int = REVS_LIMIT
    served: int = 0
    older: int = 0

    def number(self, table: TableInfo, seq: int) -> int:
        """The number of a position for clients: roughly the count of the database's changes up to there. It begins with 1 and
        grows with the position; but other writes to the file, and rows in hidden tables, are counted, too."""
        if seq > self.served:
            return seq - self.served + self.older
        return max(0, min(self.older, seq - table.created))


def read(heads: HeadSource, catalogue: Catalogue, table_id: int) -> DatabaseSettings:
    table = catalogue.live.get(SETTINGS)
    head = None if table is None else heads.head(table, collation.key_bytes(table_id))
    if head is None:
        return DatabaseSettings()
    row = codec.decode(head[1])
    return DatabaseSettings(row["created"], row["revs_limit"], row.get("served", 0), row.get("older", 0))


def change(transaction: WriteTransaction, *, table_id: int, **settings: Any) -> None:
    """Set some, and leave the others as they are."""
    table = transaction.catalogue.live[SETTINGS]
    changed = read(transaction, transaction.catalogue, table_id)._replace(**settings)
    transaction.put(table, collation.key_bytes(table_id), codec.encode({"id": table_id, **changed._asdict()}))
