"""Sweeps: functions that shrink the rows that a write hook keeps in hidden tables, before history is removed.

    register_sweep(hook, sweep)   at the import of its module; for our own dialects at its first use
    sweep_of(hook)                the sweep of a hook

Compaction removes superseded entries, and never the newest version of a row, also of a hidden table. Only the dialect
knows which of those rows are no longer needed.

Rule of this file: a sweep finds in a snapshot and removes in transactions. The session calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.store.transaction import WriteTransaction

__all__ = ["Sweep", "register_sweep", "sweep_of"]


class Sweep(NamedTuple):
    """See the head of this file.

    Attributes:
        find: Returns, for a table, a page of rows that may be unneeded, and the start of the next page: None after
            the last. The first page begins at `b""`.
        remove: Called with some of those rows, in a transaction: checks again, and removes the unneeded ones.
    """

    find: Callable[[Snapshot, TableInfo, bytes], tuple[list[bytes], bytes | None]]
    remove: Callable[[TableInfo, Sequence[bytes], WriteTransaction], None]


_SWEEPS: Final[dict[str, Sweep]] = {}
# Where our own dialects register theirs.
_OF_DIALECTS: Final = {"couchdb.revisions": "reactdb.dialects.couchdb.ancestor_sweep"}


def register_sweep(hook: str, sweep: Sweep) -> None:
    """Make the sweep of a hook known to this process."""
    _SWEEPS[hook] = sweep


def sweep_of(hook: str) -> Sweep | None:
    """None where the hook has none, or this process does not know it: then all stays."""
    if hook in _OF_DIALECTS and hook not in _SWEEPS:
        import_module(_OF_DIALECTS[hook])
    return _SWEEPS.get(hook)
