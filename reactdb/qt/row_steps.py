"""Row steps: what Qt must be told so that one list of documents becomes the next.

    RowsInserted, RowsRemoved, RowMoved, RowChanged    single rows, or rows beside each other
    Rearrangement       a large difference, as at most three steps of Qt, whatever its size: new rows come in at the end,
                        then all rows change places, then the rows that leave, which are now at the end, go

Qt's views need some 50 µs for a step, so thousands of single steps would stop a window. Each step of a Rearrangement is legal for
every view and proxy, and Qt knows the new place of each row, so what the user has selected stays selected.

Rule of this file: documents in, steps out. It knows neither Qt nor feeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from reactdb.feeds.difference import compute_difference, identify
from reactdb.feeds.edits import find_longest_rise
from reactdb.feeds.pipeline import same_value

MOST_STEPS: Final = 200
"""The most rows that come, go or move one by one in one commit: 200 take a window with a table about 10 ms."""

MOST_RANGES: Final = 50
"""The most ranges of changed rows in a Rearrangement; beyond it, one range spans them all."""

Event = dict[str, Any]


class RowsInserted(NamedTuple):
    """These documents come in; the first is then at `row`."""

    row: int
    documents: list[Any]


class RowsRemoved(NamedTuple):
    """A number of rows go, from `row` on."""

    row: int
    number: int


class RowMoved(NamedTuple):
    """A row moves. `new_row` is its place afterwards."""

    old_row: int
    new_row: int


class RowChanged(NamedTuple):
    """The document at `row` is another version."""

    row: int
    document: Any


class Rearrangement(NamedTuple):
    """See the head of this file.

    Attributes:
        documents: The list afterwards.
        arriving: The documents that come in.
        leaving: The rows that go, in the list before; ascending.
        places: For each row of the list before, and then for each of `arriving`: its row afterwards. None: a row that goes.
        is_permuted: Whether rows change places, once the new ones are at the end and before the others go.
        changed: Ranges (first, last) of rows, afterwards, with another version.
    """

    documents: list[Any]
    arriving: list[Any]
    leaving: list[int]
    places: list[int | None]
    is_permuted: bool
    changed: list[tuple[int, int]]


RowStep = RowsInserted | RowsRemoved | RowMoved | RowChanged | Rearrangement


def steps_of(events: Sequence[Event], rows: list[Any], primary_key: str) -> list[RowStep]:
    """The steps of a commit. `rows`, the list before, is changed by them."""
    if sum(event["old_offset"] != event["new_offset"] for event in events) > MOST_STEPS:
        return [_folded(events, rows, primary_key)]
    steps: list[RowStep] = []
    for event in events:
        old_row, new_row, document = event["old_offset"], event["new_offset"], event["new_val"]
        if old_row is not None and new_row is not None and _is_same_element(event, primary_key):
            if old_row != new_row:
                steps.append(RowMoved(old_row, new_row))
            if not same_value(event["old_val"], document):
                steps.append(RowChanged(new_row, document))
        else:
            if old_row is not None:
                _add_removal(steps, old_row)
            if new_row is not None:
                _add_insertion(steps, new_row, document)
        _apply(event, rows)
    return steps


def steps_between(old: list[Any], new: list[Any], old_key: str, new_key: str) -> list[RowStep]:
    """The steps from one list to another one, as few as possible.

    Args:
        old_key, new_key: The primary keys of the two, by which elements are matched.
    """
    old_identities, new_identities = identify(old, old_key), identify(new, new_key)
    places = {identity: row for row, identity in enumerate(old_identities)}
    old_rows = [places.get(identity, -1) for identity in new_identities]
    common = [row for row in old_rows if row >= 0]
    # Rows that move, rows that are inserted and rows that are removed.
    count = len(old) + len(new) - len(common) - len(find_longest_rise(common))
    if count > MOST_STEPS:
        is_altered = [row >= 0 and not same_value(old[row], new[at]) for at, row in enumerate(old_rows)]
        return [_rearrange(len(old), new, old_rows, is_altered)]
    return steps_of(compute_difference(old, new, old_identities, new_identities), list(old), new_key)


def _is_same_element(event: Event, primary_key: str) -> bool:
    """Whether the element that goes and the one that comes are one document. Elements without a key: those with one place."""
    old_val, new_val = event["old_val"], event["new_val"]
    (old, new), key = (identify([value], primary_key) for value in (old_val, new_val)), primary_key
    if old == new:
        return True
    return event["old_offset"] == event["new_offset"] and not (
        _has_key(old_val, key) and _has_key(new_val, key)
    )


def _has_key(value: Any, primary_key: str) -> bool:
    return primary_key in value if isinstance(value, dict) else hasattr(value, primary_key)


def _add_removal(steps: list[RowStep], row: int) -> None:
    last = steps[-1] if steps else None
    if isinstance(last, RowsRemoved) and last.row - 1 <= row <= last.row:
        steps[-1] = RowsRemoved(row, last.number + 1)
    else:
        steps.append(RowsRemoved(row, 1))


def _add_insertion(steps: list[RowStep], row: int, document: Any) -> None:
    last = steps[-1] if steps else None
    if isinstance(last, RowsInserted) and row == last.row + len(last.documents):
        last.documents.append(document)
    else:
        steps.append(RowsInserted(row, [document]))


def _apply(event: Event, rows: list[Any]) -> None:
    old_row, new_row = event["old_offset"], event["new_offset"]
    if old_row is not None and old_row == new_row:
        rows[old_row] = event["new_val"]
        return
    if old_row is not None:
        del rows[old_row]
    if new_row is not None:
        rows.insert(new_row, event["new_val"])


def _folded(events: Sequence[Event], rows: list[Any], primary_key: str) -> Rearrangement:
    """All events as one step."""
    count = len(rows)
    old_rows = list(range(count))
    altered: set[int] = set()
    for event in events:
        old_row, new_row = event["old_offset"], event["new_offset"]
        origin = -1
        if old_row is not None and new_row is not None and _is_same_element(event, primary_key):
            origin = old_rows[old_row]
            altered.add(origin)
        if old_row is not None:
            del old_rows[old_row]
        if new_row is not None:
            old_rows.insert(new_row, origin)
        _apply(event, rows)
    return _rearrange(count, list(rows), old_rows, [row >= 0 and row in altered for row in old_rows])


def _rearrange(count: int, new: list[Any], old_rows: list[int], is_altered: list[bool]) -> Rearrangement:
    """`count`: rows before. `old_rows`: for each row afterwards its row before, or -1."""
    places: list[int | None] = [None] * count
    arriving, arriving_places = [], []
    for row, old_row in enumerate(old_rows):
        if old_row >= 0:
            places[old_row] = row
        else:
            arriving.append(new[row])
            arriving_places.append(row)
    leaving = [row for row, place in enumerate(places) if place is None]
    changed = ranges_of([row for row, is_one in enumerate(is_altered) if is_one])
    if len(changed) > MOST_RANGES:
        changed = [(changed[0][0], changed[-1][1])]
    places += arriving_places
    is_permuted = any(place != row for row, place in enumerate(places) if place is not None) or (
        bool(leaving) and leaving[0] < len(new)
    )
    return Rearrangement(new, arriving, leaving, places, is_permuted, changed)


def ranges_of(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending rows as ranges (first, last)."""
    ranges: list[tuple[int, int]] = []
    for row in rows:
        if ranges and row == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], row
        else:
            ranges.append((row, row))
    return ranges
