"""Extent: how many documents a query can concern, known before it is run.

Rule of this file: it counts no further than the limit, so the answer costs some microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from reactdb.change import TableReference
from reactdb.query import ALL_TABLES, Query, Union
from reactdb.store.snapshot import Snapshot

__all__ = ["concerns_few"]


def concerns_few(query: Query, snapshot: Snapshot, most: int) -> bool:
    """Whether the tables of a query have at most `most` documents together. A table that is not there has none."""
    tables = snapshot.catalogue.live
    for name in dict.fromkeys(_find_tables(query)):
        infos = list(tables.values()) if name == ALL_TABLES else [tables[name]] if name in tables else []
        for info in infos:
            most -= snapshot.count_at_most(info, most + 1)
            if most < 0:
                return False
    return True


def _find_tables(query: Query) -> Iterator[TableReference]:
    yield query.table
    for step in query.steps:
        if isinstance(step, Union):
            for other in step.others:
                yield from _find_tables(other)
