"""Unique indexes: at the end of each transaction, a value of a unique index belongs to at most one document.

    Claims.add      an index entry that a transaction adds to a unique index claims its value
    Claims.check    at the end of the transaction: each claimed value is looked up once, and must have one owner

The state at the end counts, and not each step: two documents can swap their values inside a transaction. SQLite lets
one transaction write at a time, so the look-up also sees the commits of other processes. A value that nothing has
claimed cannot have become a duplicate, so nothing else is looked up.

Hidden entries (see `catalogue`) claim nothing: a missing field, null and other values that an index leaves out can be in any
number of documents. A document that has a value twice, in a multi index, has it once here.

Rule of this file: it reads index entries and writes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from reactdb.errors import DuplicateIndexKey, InvalidKey
from reactdb.expression.tree import Call, Constant
from reactdb.store.catalogue import Catalogue, IndexInfo
from reactdb.store.file.sqlite import Connection
from reactdb.store.mongodb_indexes import MARK, OPERATION, TWICE
from reactdb.store.snapshot import read_document
from reactdb.values import codec, collation

OWNERS: Final = "SELECT DISTINCT key FROM entries WHERE index_id = ? AND value = ? LIMIT ?"
MOST_SHOWN: Final = 10
"""Duplicates in an error, and documents of one duplicate."""
# At this many claims, about 2 MB, or at this many bytes of values, those that are no duplicates now are forgotten.
MOST_CLAIMS: Final = 10_000
MOST_BYTES: Final = 4_000_000

Claim = tuple[int, bytes]
"""The number of an index, and the bytes of a value."""


def shared_value(index: IndexInfo) -> bytes | None:
    """The value of a unique index that several documents may have; None for most indexes, which have no such value."""
    node = index.expression.node
    return MARK if isinstance(node, Call) and node.operation == OPERATION else None


class Claims:
    """The values that one transaction has added to unique indexes."""

    __slots__ = ("_bytes", "_firsts", "_kept", "_kept_bytes", "_newest")

    def __init__(self) -> None:
        # How many changes the transaction had at the first claim of a value; and the key of the newest.
        self._firsts: dict[Claim, int] = {}
        self._newest: dict[Claim, bytes] = {}
        self._bytes = 0
        # As many had to stay when claims were forgotten last.
        self._kept = self._kept_bytes = 0

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._firsts)

    def add(
        self, entries: Iterable[tuple[int, bytes, bytes, int]], unique: Mapping[int, IndexInfo], count: int
    ) -> None:
        """Note new index entries. Entries of other indexes are skipped.

        Args:
            unique: The unique indexes, by number.
            count: How many changes the transaction has before this one.
        """
        for index_id, value, key, _ in entries:
            index = unique.get(index_id)
            if index is not None and value != shared_value(index):
                claim = index_id, value
                if claim not in self._firsts:
                    self._firsts[claim] = count
                    self._bytes += len(value)
                self._newest[claim] = key

    def is_long(self) -> bool:
        # Twice as many as have stayed: each look at all of them then pays for itself.
        return (
            len(self._firsts) > MOST_CLAIMS + 2 * self._kept
            or self._bytes > MOST_BYTES + 2 * self._kept_bytes
        )

    def shorten(self, connection: Connection, start: int) -> None:
        """Forget the values that are no duplicates now: only a new claim can make them duplicates.

        Args:
            start: How many changes the transaction had when the innermost savepoint with changes began. A rollback may
                bring back a duplicate from before, so earlier claims stay.
        """
        for claim, first in list(self._firsts.items()):
            if first >= start and len(find_owners(connection, *claim)) < 2:
                del self._firsts[claim], self._newest[claim]
                self._bytes -= len(claim[1])
        self._kept, self._kept_bytes = len(self._firsts), self._bytes

    def check(self, connection: Connection, catalogue: Catalogue) -> None:
        """Raises: DuplicateIndexKey, if two documents have a claimed value."""
        found: dict[int, list[tuple[Any, list[Any]]]] = {}
        for claim in self._firsts:
            owners = find_owners(connection, *claim)
            if len(owners) < 2 or claim[0] not in catalogue.unique:
                continue
            # The document that was written last comes last.
            owners.sort(key=self._newest[claim].__eq__)
            duplicates = found.setdefault(claim[0], [])
            duplicates.append(
                (
                    show_value(connection, catalogue, claim, owners[-1]),
                    list(map(collation.key_value, owners)),
                )
            )
            if len(duplicates) == MOST_SHOWN:
                break
        for index_id, duplicates in found.items():
            raise duplicates_error(catalogue, catalogue.unique[index_id], duplicates)


def find_owners(connection: Connection, index_id: int, value: bytes, most: int = 2) -> list[bytes]:
    """The keys of the documents that have a value in an index, at most so many of them."""
    return [key for (key,) in connection.execute(OWNERS, (index_id, value, most)).fetchall()]


def find_duplicates(
    connection: Connection, catalogue: Catalogue, index: IndexInfo
) -> list[tuple[Any, list[Any]]]:
    """The first values of an index that belong to several documents, each with the keys of these documents."""
    duplicates = []
    for (value,) in connection.execute(TWICE, (index.id, shared_value(index), MOST_SHOWN)).fetchall():
        owners = find_owners(connection, index.id, value, MOST_SHOWN)
        shown = show_value(connection, catalogue, (index.id, value), owners[-1])
        duplicates.append((shown, list(map(collation.key_value, owners))))
    return duplicates


def check_new_index(
    connection: Connection,
    catalogue: Catalogue,
    index: IndexInfo,
    entries: Sequence[tuple[int, bytes, bytes, int]],
) -> None:
    """
    Args:
        entries: All entries of a new unique index, sorted.

    Raises:
        DuplicateIndexKey: Documents have the same value. It lists up to 10 values.
    """
    duplicates: list[tuple[Any, list[Any]]] = []
    shared = shared_value(index)
    visible = (entry for entry in entries if entry[0] > 0 and entry[1] != shared)
    for value, group in groupby(visible, lambda entry: entry[1]):
        keys = list(dict.fromkeys(entry[2] for entry in group))
        if len(keys) > 1:
            shown = _show(connection, catalogue, index, value, keys[-1])
            duplicates.append((shown, list(map(collation.key_value, keys[:MOST_SHOWN]))))
            if len(duplicates) == MOST_SHOWN:
                break
    if duplicates:
        raise duplicates_error(catalogue, index, duplicates)


def duplicates_error(
    catalogue: Catalogue, index: IndexInfo, duplicates: list[tuple[Any, list[Any]]]
) -> DuplicateIndexKey:
    return DuplicateIndexKey(catalogue.by_id[index.table_id].name, index.name, duplicates)


def show_value(connection: Connection, catalogue: Catalogue, claim: Claim, key: bytes) -> Any:
    """A value of a unique index, for a message. `key`: of a document that has it."""
    index_id, value = claim
    return _show(connection, catalogue, catalogue.unique[index_id], value, key)


def _show(connection: Connection, catalogue: Catalogue, index: IndexInfo, value: bytes, key: bytes) -> Any:
    node = index.expression.node
    if isinstance(node, Call) and node.operation == OPERATION and isinstance(node.arguments[1], Constant):
        # The index of MongoDB's dialect has values of its own format. The message shows the values of the document.
        found = read_document(connection, catalogue.by_id[index.table_id], key)
        if found is not None:
            document = codec.decode(found[1])
            values = [_value_at(document, path) for path in node.arguments[1].value["paths"]]
            return values[0] if len(values) == 1 else values
    try:
        return collation.key_value(value)
    except InvalidKey:
        # A type that this process does not know.
        return value


def _value_at(document: Any, path: Sequence[str]) -> Any:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def iterate_violations(connection: Connection, catalogue: Catalogue) -> Iterator[str]:
    """The duplicates in the unique indexes of a file, in sentences."""
    for index in catalogue.unique.values():
        duplicates = find_duplicates(connection, catalogue, index)
        if duplicates:
            yield str(duplicates_error(catalogue, index, duplicates))
