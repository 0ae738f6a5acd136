"""Indexes of MongoDB's dialect in the store: their operation, and a value that several documents may have.

    OPERATION, MARK             the operation of their expressions; the value of a mark (see `index_keys` of the dialect)
    set_older_unique_indexes    makes them unique for all writers: in format 3 they were unique for the dialect alone

Rule of this file: it repeats names of the dialect, because the store imports nothing above itself.
"""

from __future__ import annotations

from typing import Final

from reactdb.expression import from_data
from reactdb.expression.tree import Call, Constant
from reactdb.logs import logger
from reactdb.store.file.sqlite import Connection
from reactdb.values import codec, collation

OPERATION: Final = "mongodb.index_keys"
MARK: Final = collation.index_key_bytes(b"\x00")
"""Any number of documents have it: those whose entries do not give their place in the order."""

TWICE: Final = (
    "SELECT value FROM entries WHERE index_id = ? AND value IS NOT ?"
    " GROUP BY value HAVING min(key) != max(key) ORDER BY value LIMIT ?"
)
"""The values of an index, apart from one, that belong to several documents."""


def set_older_unique_indexes(connection: Connection) -> None:
    """Format 4: an index that the dialect made unique becomes unique for all writers, if it has no duplicates. (With a
    collation, equal texts have different values, and only the dialect checks them.)"""
    for index_id, data in connection.execute("SELECT id, expression FROM indexes ORDER BY id").fetchall():
        if not _is_unique(data):
            continue
        if connection.execute(TWICE, (index_id, MARK, 1)).fetchone() is None:
            connection.execute("UPDATE indexes SET is_unique = 1 WHERE id = ?", (index_id,))
        else:
            logger.warning(
                "unique index %d of MongoDB's dialect has duplicates: only that dialect checks it, until it is made again",
                index_id,
            )


def _is_unique(data: bytes) -> bool:
    node = from_data(codec.decode_value(data)).node
    if not isinstance(node, Call) or node.operation != OPERATION:
        return False
    spec = node.arguments[1]
    return isinstance(spec, Constant) and bool(spec.value["unique"]) and "collation" not in spec.value
