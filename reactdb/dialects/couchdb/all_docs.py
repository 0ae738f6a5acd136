"""The rows of `_all_docs`: the documents of a range of ids, in the order of the ids' bytes.

Unchanged ids have the order of keys. Escaped ids (see `names`) have another order, and if a table has such a key, all of its
keys are read.

Rule of this file: it finds documents, and shows none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from reactdb.budget import spend_per_element
from reactdb.change import Change
from reactdb.dialects.couchdb.names import AFTER_DESIGNS, DESIGN, id_of
from reactdb.dialects.couchdb.states import SnapshotHeads, State, Tables, states_of
from reactdb.store.catalogue import TableInfo
from reactdb.store.key_pages import find_key_at
from reactdb.store.newest import read_newest_by_key
from reactdb.store.snapshot import GREATEST, LEAST, Snapshot
from reactdb.values import collation

PAGE: Final = 500

_TEXTS: Final = (collation.key_bytes("")[:1], bytes((collation.key_bytes("")[0] + 1,)))


def _below(text: str) -> bytes:
    """A bound below the keys with this prefix."""
    return collation.key_bytes(text)[: 1 + len(text.encode())]


# The ranges of keys with escaped ids.
_SPELLED: Final = (
    (LEAST, _TEXTS[0]),
    (_TEXTS[1], GREATEST),
    (collation.key_bytes(""), collation.key_bytes("") + b"\x00"),
    (_below("="), _below(">")),
    (_below("_"), _below(DESIGN)),
    (_below(AFTER_DESIGNS), _below("`")),
)


class IdRange(NamedTuple):
    """A range of ids from `startkey` to `endkey`, in this order also if it is descending; None: no bound."""

    startkey: Any
    endkey: Any
    inclusive_end: bool = True
    descending: bool = False
    limit: int | None = None
    skip: int = 0


def list_range(
    snapshot: Snapshot, tables: Tables, heads: SnapshotHeads, wanted: IdRange
) -> tuple[int, list[State]]:
    """(how many documents come before, the documents). To count takes as long as to read the keys before them."""
    bounds = _bounds(wanted)
    if bounds is None:
        return 0, []
    if _has_escaped_keys(snapshot, tables):
        return _among_all(snapshot, tables, heads, wanted, bounds)
    start, stop = _key_range(bounds)
    if start >= stop:
        return 0, []
    if wanted.skip:
        first = find_key_at(snapshot, tables.main, wanted.skip, wanted.descending, start, stop)
        # If the skip leaves none, all of the range come before.
        if wanted.descending:
            stop = start if first is None else first + b"\x00"
        else:
            start = stop if first is None else first
    pages = _pages(snapshot, tables, heads, start, stop, is_descending=wanted.descending)
    states = list(islice(pages, wanted.limit))
    before = (stop, GREATEST) if wanted.descending else (LEAST, start)
    return snapshot.count_keys(tables.main, *before), states


def iterate_range(
    snapshot: Snapshot, tables: Tables, heads: SnapshotHeads, wanted: IdRange
) -> Iterator[State]:
    """The same documents, with a page at a time in memory, and without a count."""
    bounds = _bounds(wanted)
    if bounds is None:
        return
    if _has_escaped_keys(snapshot, tables):
        yield from _among_all(snapshot, tables, heads, wanted, bounds)[1]
        return
    pages = _pages(snapshot, tables, heads, *_key_range(bounds), is_descending=wanted.descending)
    stop = None if wanted.limit is None else wanted.skip + wanted.limit
    yield from islice(pages, wanted.skip, stop)


def iterate_all(snapshot: Snapshot, tables: Tables, heads: SnapshotHeads) -> Iterator[State]:
    """All documents, in the order of keys, with a page at a time in memory."""
    return _pages(snapshot, tables, heads, LEAST, GREATEST)


def designs(snapshot: Snapshot, tables: Tables, heads: SnapshotHeads) -> Iterator[State]:
    """The design documents, in the order of ids. None of these is spelled."""
    start, stop = map(collation.key_bytes, (DESIGN, AFTER_DESIGNS))
    return _pages(snapshot, tables, heads, start, stop)


def _pages(
    snapshot: Snapshot,
    tables: Tables,
    heads: SnapshotHeads,
    start: bytes,
    stop: bytes,
    *,
    is_descending: bool = False,
) -> Iterator[State]:
    for changes in entry_pages(snapshot, tables.main, start, stop, is_descending=is_descending):
        yield from states_of(heads, tables, changes)


def entry_pages(
    snapshot: Snapshot,
    table: TableInfo,
    start: bytes = LEAST,
    stop: bytes = GREATEST,
    *,
    is_descending: bool = False,
) -> Iterator[list[Change]]:
    """The newest entries of the documents with start <= key < stop, in the order of keys, a page at a time."""
    while start < stop:
        changes = read_newest_by_key(snapshot, table, start, stop, reverse=is_descending, limit=PAGE)
        if changes:
            yield changes
        if len(changes) < PAGE:
            return
        if is_descending:
            stop = changes[-1].key_bytes
        else:
            start = changes[-1].key_bytes + b"\x00"


Bounds = tuple[tuple[str | None, bool], tuple[str | None, bool]]
"""The least and the greatest id, each with whether it is included; None: no bound."""


def _bounds(wanted: IdRange) -> Bounds | None:
    """The ids at both ends of the range; None if the range can have no text."""
    first, last = wanted.startkey, wanted.endkey
    least, most = (last, first) if wanted.descending else (first, last)
    # A range between all ids and a value that is no text is empty: texts are above numbers and below lists.
    if (least is not None and _side(least) > 0) or (most is not None and _side(most) < 0):
        return None
    has_least = wanted.inclusive_end or not wanted.descending
    has_most = wanted.inclusive_end or wanted.descending
    least, most = (one if isinstance(one, str) else None for one in (least, most))
    return (least, has_least), (most, has_most)


def _key_range(bounds: Bounds) -> tuple[bytes, bytes]:
    """The first key of the range, and the first key after it, if no id is escaped."""
    (least, has_least), (most, has_most) = bounds
    start = LEAST if least is None else _bound(least, is_after=not has_least)
    return start, GREATEST if most is None else _bound(most, is_after=has_most)


def _has_escaped_keys(snapshot: Snapshot, tables: Tables) -> bool:
    return any(read_newest_by_key(snapshot, tables.main, *part, limit=1) for part in _SPELLED)


def _side(bound: Any) -> int:
    """Where a bound is: 0 for a text, below or above all texts for others."""
    if isinstance(bound, str):
        return 0
    return 1 if isinstance(bound, (list, dict)) else -1


def _bound(id: str, *, is_after: bool) -> bytes:
    key = collation.key_bytes(id)
    return key + b"\x00" if is_after else key


def _among_all(
    snapshot: Snapshot, tables: Tables, heads: SnapshotHeads, wanted: IdRange, bounds: Bounds
) -> tuple[int, list[State]]:
    changes = [change for page in entry_pages(snapshot, tables.main) for change in page]
    ordered = sorted((id_of(change.key).encode(), place) for place, change in enumerate(changes))
    if wanted.descending:
        ordered.reverse()
    least, most = bounds

    def is_within(id: bytes) -> bool:
        lower, upper = least[0], most[0]
        if lower is not None and (id < lower.encode() or (id == lower.encode() and not least[1])):
            return False
        return upper is None or id < upper.encode() or (id == upper.encode() and most[1])

    inside = [number for number, (id, _) in enumerate(spend_per_element(ordered)) if is_within(id)]
    selected = inside[wanted.skip :][: len(inside) if wanted.limit is None else wanted.limit]
    offset = selected[0] if selected else 0
    states = []
    for place in range(0, len(selected), PAGE):
        some = [changes[ordered[number][1]] for number in selected[place : place + PAGE]]
        states += states_of(heads, tables, some)
    return offset, states
