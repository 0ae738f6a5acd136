"""PastTables: tables as of an earlier seq, filtered and ordered: the list of their keys, computed once and kept.

A page of such a result reads the documents of its keys alone. The kept lists are limited in number and in keys.

Rule of this file: each moment is read from a present snapshot and the log; nothing copies the documents.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from reactdb.change import TableReference
from reactdb.documents.read import run
from reactdb.errors import HistoryLost, TableNotFound
from reactdb.query import Query
from reactdb.session import Session
from reactdb.store.catalogue import TableInfo
from reactdb.store.log import read_low_water
from reactdb.store.old_versions import OldVersions
from reactdb.store.snapshot import Snapshot, ViewOfPast
from reactdb.values.collation import primary_key_bytes

__all__ = ["PastTables", "find_table_at"]

MOST_LISTS: Final = 8
MOST_KEYS: Final = 2_000_000
"""Keys of all kept lists together: some 100 MB."""


def find_table_at(snapshot: Snapshot, name: TableReference, seq: int) -> TableInfo:
    """The table that was there at this seq, by its name of today.

    Raises:
        TableNotFound.
    """
    info = snapshot.catalogue.at(name, seq)
    if info is None:
        raise TableNotFound(str(name))
    return info


@dataclass(slots=True)
class PastTable:
    """One result at one moment.

    Attributes:
        later: A result of the same table at a later moment, or the same one, until its versions are taken over.
        keys: None until they are read.
    """

    versions: OldVersions
    later: PastTable | None
    keys: list[bytes] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class PastTables:
    """See the head of this file.

    Thread safety: any thread.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], PastTable] = OrderedDict()

    def page(
        self,
        table: str,
        seq: int,
        query: Query | None,
        name: tuple[Any, ...],
        offset: int,
        limit: int,
        anchor: tuple[bytes, int] | None,
    ) -> tuple[int, int, int | None, list[tuple[bytes, bytes | None]]]:
        """A page of a table as of `seq`.

        Args:
            query: Its documents, filtered or ordered; None: all, in the order of their keys.
            name: Names the query among all.
            anchor: (a key, how many rows before it the page begins).

        Returns:
            (the number of rows, the offset, the place of the anchor or None, the keys and encoded documents of the page).
        """
        snapshots = self._session.engine.fresh_snapshot
        with snapshots() as now:
            low = read_low_water(now.connection)
            if seq < low:
                raise HistoryLost(seq, low + 1)
            info = find_table_at(now, table, seq)
        kept = self._find((info.id, seq, *name), info, seq)
        with kept.lock:
            later, kept.later = kept.later, None
            if later is not None:
                # No two threads wait for each other: `later` was there before.
                with later.lock:
                    kept.versions.begin_from(later.versions, snapshots)
            kept.versions.catch_up(snapshots)
            if kept.keys is None:
                kept.keys = (
                    kept.versions.keys(snapshots) if query is None else self._run(kept.versions, query)
                )
                self._limit()
            keys = kept.keys
            place = None
            if anchor is not None:
                try:
                    place = keys.index(anchor[0])
                    offset = max(0, place - anchor[1])
                except ValueError:
                    pass
            with snapshots() as now:
                kept.versions.follow(now)
                rows = [(key, kept.versions.read(key)) for key in keys[offset : offset + limit]]
        return len(keys), offset, place, rows

    def _find(self, name: tuple[Any, ...], info: TableInfo, seq: int) -> PastTable:
        with self._lock:
            kept = self._kept.get(name)
            if kept is None:
                others = [
                    one
                    for one in self._kept.values()
                    if one.versions.table.id == info.id and one.versions.seq >= seq and one.keys is not None
                ]
                later = min(others, key=lambda one: one.versions.seq, default=None)
                kept = self._kept[name] = PastTable(OldVersions(info, seq), later)
            self._kept.move_to_end(name)
            # Here too, because a result that fails gets no keys.
            while len(self._kept) > MOST_LISTS:
                self._kept.popitem(last=False)
            return kept

    def _limit(self) -> None:
        """Forget the results that were used longest ago."""
        with self._lock:
            while len(self._kept) > 1 and sum(len(one.keys or ()) for one in self._kept.values()) > MOST_KEYS:
                self._kept.popitem(last=False)

    def _run(self, versions: OldVersions, query: Query) -> list[bytes]:
        with self._session.engine.fresh_snapshot() as now:
            versions.follow(now)
            view = ViewOfPast(now, versions.seq, versions)
            primary_key = versions.table.primary_key
            return [primary_key_bytes(document[primary_key]) for document in run(query, view)]
