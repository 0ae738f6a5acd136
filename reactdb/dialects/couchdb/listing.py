"""Listing: the documents of a range of ids, in the order of the ids' bytes.

Ids that are shown as they are have the order of keys. Those that are spelled (see `spelling`) have another, and where a table
has such a key, all of its keys are looked at.

Rule of this file: it finds documents, and shows none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from reactdb.change import Change
from reactdb.dialects.couchdb.spelling import id_of
from reactdb.dialects.couchdb.states import HeadSource, State, Tables, state_of_entry
from reactdb.store.newest import count_range, newest_by_key
from reactdb.store.snapshot import GREATEST, LEAST, Snapshot
from reactdb.values import collation

PAGE: Final = 500

_TEXTS: Final = (collation.key_bytes("")[:1], bytes((collation.key_bytes("")[0] + 1,)))


def _below(text: str) -> bytes:
    """A bound below the keys that begin with a text."""
    return collation.key_bytes(text)[: 1 + len(text.encode())]


# Where keys lie that are spelled, and not shown as they are.
_SPELLED: Final = (
    (LEAST, _TEXTS[0]),
    (_TEXTS[1], GREATEST),
    (collation.key_bytes(""), collation.key_bytes("") + b"\x00"),
    (_below("="), _below(">")),
    (_below("_"), _below("_design/")),
    (_below("_design0"), _below("`")),
)


class IdRange(NamedTuple):
    """What is asked for: ids from `startkey` to `endkey`, in this order also where it is descending; None: no bound."""

    startkey: Any
    endkey: Any
    inclusive_end: bool
    descending: bool
    limit: int | None
    skip: int


def listed(snapshot: Snapshot, tables: Tables, heads: HeadSource, wanted: IdRange) -> tuple[int, list[State]]:
    """(how many documents come before, the documents)."""
    first, last = wanted.startkey, wanted.endkey
    least, most = (last, first) if wanted.descending else (first, last)
    # Between all ids and one that is no text lies nothing: texts are above numbers and below lists.
    if (least is not None and _side(least) > 0) or (most is not None and _side(most) < 0):
        return 0, []
    least = least if isinstance(least, str) else None
    most = most if isinstance(most, str) else None
    has_least = wanted.inclusive_end or not wanted.descending
    has_most = wanted.inclusive_end or wanted.descending
    if any(newest_by_key(snapshot, tables.main, *part, limit=1) for part in _SPELLED):
        return _among_all(snapshot, tables, heads, wanted, (least, has_least), (most, has_most))
    start = LEAST if least is None else _bound(least, is_after=not has_least)
    stop = GREATEST if most is None else _bound(most, is_after=has_most)
    count = -1 if wanted.limit is None else wanted.limit + wanted.skip
    if start >= stop:
        return 0, []
    changes = newest_by_key(snapshot, tables.main, start, stop, reverse=wanted.descending, limit=count)
    before = (stop, GREATEST) if wanted.descending else (LEAST, start)
    offset = count_range(snapshot, tables.main, *before) + min(wanted.skip, len(changes))
    return offset, _states(heads, tables, changes[wanted.skip :])


def every(snapshot: Snapshot, tables: Tables, heads: HeadSource) -> Iterator[State]:
    """All documents, in the order of keys, of which a page at a time is held."""
    start = LEAST
    while True:
        changes = newest_by_key(snapshot, tables.main, start, limit=PAGE)
        yield from _states(heads, tables, changes)
        if len(changes) < PAGE:
            return
        start = collation.key_bytes(changes[-1].key) + b"\x00"


def _side(bound: Any) -> int:
    """Where a bound is: 0 for a text, below or above all texts for others."""
    if isinstance(bound, str):
        return 0
    return 1 if isinstance(bound, (list, dict)) else -1


def _bound(id: str, *, is_after: bool) -> bytes:
    key = collation.key_bytes(id)
    return key + b"\x00" if is_after else key


def _among_all(
    snapshot: Snapshot,
    tables: Tables,
    heads: HeadSource,
    wanted: IdRange,
    least: tuple[str | None, bool],
    most: tuple[str | None, bool],
) -> tuple[int, list[State]]:
    changes = newest_by_key(snapshot, tables.main)
    ordered = sorted((id_of(change.key).encode(), place) for place, change in enumerate(changes))
    if wanted.descending:
        ordered.reverse()

    def is_within(id: bytes) -> bool:
        lower, upper = least[0], most[0]
        if lower is not None and (id < lower.encode() or (id == lower.encode() and not least[1])):
            return False
        return upper is None or id < upper.encode() or (id == upper.encode() and most[1])

    inside = [number for number, (id, _) in enumerate(ordered) if is_within(id)]
    found = inside[wanted.skip :][: len(inside) if wanted.limit is None else wanted.limit]
    offset = found[0] if found else 0
    return offset, _states(heads, tables, (changes[ordered[number][1]] for number in found))


def _states(heads: HeadSource, tables: Tables, changes: Iterable[Change]) -> list[State]:
    states = (state_of_entry(heads, tables, change) for change in changes)
    return [state for state in states if state is not None]
