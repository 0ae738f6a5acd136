"""Ancestor sweep: find chunks of ancestors that no path reaches any more, and remove them.

A chunk is written once and shared by the leaves above it. It is not needed any more when the paths of all leaves end before it,
because they keep `revs_limit` revisions; when its leaf was purged; and when another chunk has its place.

Rule of this file: each found chunk is checked again in the transaction that removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from reactdb.dialects.couchdb import settings
from reactdb.dialects.couchdb.revisions import HOOK, join_path
from reactdb.dialects.couchdb.states import HeadSource, SnapshotHeads, Tables, load, tables_of
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.newest import read_newest_by_key
from reactdb.store.snapshot import Snapshot
from reactdb.store.sweeps import Sweep, register_sweep
from reactdb.store.transaction import WriteTransaction
from reactdb.values import collation

PAGE: Final = 500


def find(snapshot: Snapshot, table: TableInfo, start: bytes) -> tuple[list[bytes], bytes | None]:
    """(keys of a page of unneeded chunks, the start of the next page), for `sweeps.Sweep`."""
    tables = tables_of(snapshot.catalogue, table.id)
    if tables is None or tables.ancestors is None:
        return [], None
    rows = read_newest_by_key(snapshot, tables.ancestors, start, limit=PAGE)
    chunks = [change.key_bytes for change in rows]
    return _find_unneeded(SnapshotHeads(snapshot), snapshot.catalogue, tables, chunks), (
        None if len(rows) < PAGE else chunks[-1] + b"\x00"
    )


def remove(table: TableInfo, keys: Sequence[bytes], transaction: WriteTransaction) -> None:
    """Remove the chunks that are still not needed."""
    tables = tables_of(transaction.catalogue, table.id)
    if tables is None or tables.ancestors is None:
        return
    for chunk in _find_unneeded(transaction, transaction.catalogue, tables, keys):
        transaction.put(tables.ancestors, chunk, None)


def _find_unneeded(
    heads: HeadSource, catalogue: Catalogue, tables: Tables, chunks: Iterable[bytes]
) -> list[bytes]:
    most = settings.read(heads, catalogue, tables.main.id).revs_limit
    unneeded = []
    known: tuple[Any, set[bytes]] | None = None
    for chunk in chunks:
        key = collation.key_value(chunk)[0]
        if known is None or known[0] != key:
            # The chunks of one document follow each other.
            known = key, _find_reachable(heads, tables, key, most)
        if chunk not in known[1]:
            unneeded.append(chunk)
    return unneeded


def _find_reachable(heads: HeadSource, tables: Tables, key: Any, most: int) -> set[bytes]:
    """The keys of the chunks on the paths of a document's leaves."""
    reached: set[bytes] = set()
    state = load(heads, tables, collation.key_bytes(key))
    assert tables.ancestors is not None
    ancestors = tables.ancestors

    def chunk_at(place: bytes) -> bytes | None:
        reached.add(place)
        head = heads.head(ancestors, place)
        return None if head is None else head[1]

    if state is not None:
        for lineage in [state.lineage, *(leaf.lineage for leaf in state.others)]:
            join_path(lineage, key, chunk_at, most)
    return reached


register_sweep(HOOK, Sweep(find, remove))
