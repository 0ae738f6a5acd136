"""WindowView: an order with a skip and a limit, or without: which documents are first, and where each of them stands.

It holds the documents up to the end of the window, and as many again: when one leaves, the next is there, and the file is asked
only after many have left. Every result with a place up to `bound` is held; what lies beyond is not known and need not be.
A change with both places beyond `bound` costs two comparisons.

One change moves one element: seen through the window that is at most one delete and one insert, at offsets that are exact for
whoever applies them in turn. An element before the window, or behind it, moves what is at its edge.

Rule of this file: a refill reads the documents as of the change being advanced, never later ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import Any

from reactdb.change import Change
from reactdb.feeds.edits import edits
from reactdb.feeds.failures import Failures
from reactdb.feeds.pipeline import Pipeline, Ranked, same_value
from reactdb.feeds.views.base import AnyDelta, Delta, Initial, OneKey, OneValue, Route, StateReader
from reactdb.feeds.views.source import Source
from reactdb.query import OrderBy
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec

# Documents held beyond the window: at least so many where an index gives them in order, and where the table has to be
# read and sorted for more. 0.25 kB each.
SPARE = 32
SPARE_WITHOUT_INDEX = 512
MAX_SPARE = 1 << 20


class Slot:
    """One element of the order. The document is decoded when somebody looks.

    Attributes:
        identity: The key of its document, and which of the document's places it is.
        body: The document's bytes; None where the value is what was made of it.
        shown: The value, once it was looked at.
    """

    __slots__ = ("body", "identity", "shown")

    def __init__(self, identity: tuple[bytes, int], value: Any, body: bytes | None = None) -> None:
        self.identity = identity
        self.shown = value
        self.body = body

    @property
    def value(self) -> Any:
        if self.shown is None and self.body is not None:
            self.shown = codec.decode_frozen(self.body)
        return self.shown


class WindowView:
    """See the head of this file.

    Invariant: `places` is sorted and `slots` runs beside it; every result with a place <= `bound` is there, and no other;
    `bound` None: every result. There are at least `stop` of them unless there are no more.
    """

    is_stateful = True

    def __init__(
        self,
        source: Source,
        pipeline: Pipeline,
        failures: Failures,
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        """The elements with start <= rank < stop, of the order that the pipeline's order_by, or else the source, gives."""
        self.failures = failures
        self.source = source
        self.pipeline = pipeline
        self.start = start
        self.stop = stop if stop is None else max(start, stop)
        self.kind = "order" if stop is None else "limit"
        self.is_sorted_here = any(isinstance(step, (OrderBy, Ranked)) for step in pipeline.steps)
        self._has_copies = source.keys is not None or (source.index is not None and source.index.multi)
        self.places: list[bytes] = []
        self.slots: list[Slot] = []
        self.bound: bytes | None = None
        self._spare = self._least_spare
        self._refilled_in = -1
        # Only an order that the source gives is one of values that a change can be found by.
        self._horizon = None if self.is_sorted_here or self.stop is None else source.horizon()

    # -----------------------------------------------------------------------------------------------------------
    # What it is

    def tables(self) -> Sequence[TableInfo]:
        return (self.source.table,)

    def indexes(self) -> Sequence[tuple[int, str]]:
        index = self.source.index
        return () if index is None else ((self.source.table.id, index.name),)

    def routes(self) -> Sequence[Route]:
        # Nothing ever enters a window without room.
        if self.stop == self.start:
            return ()
        found = self.source.routes(self.pipeline.steps, is_strict=self.failures.raises)
        if self._horizon is None or not found or isinstance(found[0], (OneKey, OneValue)):
            return found
        return (self._horizon,)

    @property
    def documents_held(self) -> int:
        return len(self.slots)

    def describe(self) -> dict[str, Any]:
        index = self.source.index
        return {
            "access": self.source.describe(),
            "index": None if index is None else index.name,
            "skip": self.start,
            "limit": None if self.stop is None else self.stop - self.start,
        }

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def seed(self, snapshot: Snapshot) -> None:
        self._spare = self._least_spare
        if self.stop != self.start:
            self._fill(snapshot, is_seed=True)

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        # The list as it is now; documents are decoded when somebody looks.
        slots = self._window()
        return (Initial(slot.value, offset, slot.identity) for offset, slot in enumerate(slots))

    def items(self) -> list[Initial]:
        return [Initial(slot.value, offset, slot.identity) for offset, slot in enumerate(self._window())]

    @property
    def size(self) -> int:
        """How long the list is."""
        held = len(self.slots) if self.stop is None else min(len(self.slots), self.stop)
        return max(0, held - self.start)

    def _window(self) -> list[Slot]:
        return self.slots[self.start : self.stop]

    @property
    def _least_spare(self) -> int:
        return max(self.stop or 0, SPARE_WITHOUT_INDEX if self.is_sorted_here else SPARE)

    def _fill(self, snapshot: Snapshot, *, is_seed: bool = False) -> None:
        """Read the first documents of the order anew."""
        capacity = None if self.stop is None else self.stop + self._spare
        found = self._found(snapshot, capacity, is_seed)
        if capacity is None:
            held = sorted(found, key=_place_of)
        elif self.is_sorted_here:
            held = nsmallest(capacity + 1, found, key=_place_of)
        else:
            held = []
            for place in found:
                held.append(place)
                if len(held) > capacity:
                    break
        self.bound = None
        if capacity is not None and len(held) > capacity:
            del held[capacity:]
            self.bound = held[-1][0]
        self.places = [place for place, _ in held]
        self.slots = [slot for _, slot in held]
        self._look_until_bound()

    def _look_until_bound(self) -> None:
        """Hear only of changes before `bound`: a leaderboard is not asked about the rest of the table."""
        horizon, source = self._horizon, self.source
        if horizon is None:
            return
        if self.bound is None:
            horizon.move(source.start, source.stop)
        else:
            key, _ = self.slots[-1].identity
            horizon.move(*source.values_until(self.bound, key))

    def _found(self, snapshot: Snapshot, capacity: int | None, is_seed: bool) -> Iterator[tuple[bytes, Slot]]:
        """(place, element) of every document that passes; in order where the source is."""
        wanted = None if capacity is None or self.is_sorted_here else capacity + 1
        pipeline = self.pipeline
        copies: dict[bytes, int] = {}
        for place, key, body in self.source.read(snapshot, wanted):
            shown: bytes | None = body
            if pipeline.is_identity:
                value: Any = None
            else:
                document = codec.decode_frozen(body)
                # What fails later is noted when it is written, and not each time that more is read.
                result = (
                    pipeline.noting(document, place, self.failures, key, key)
                    if is_seed
                    else pipeline.quietly(document, place)
                )
                if result is None:
                    continue
                value, place = result
                if pipeline.only_values:
                    # The document itself is decoded again where it shows; most never do.
                    value = None
                shown = body if pipeline.only_values else None
            copy = 0
            if self._has_copies:
                copy = copies.get(key, 0)
                copies[key] = copy + 1
            yield place, Slot((key, copy), value, shown)

    # -----------------------------------------------------------------------------------------------------------
    # Advancing

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        if change.table_id != self.source.table.id:
            return ()
        bound = self.bound
        known = self.source.known_places(change) if self.pipeline.is_identity else None
        if known is not None:
            place, new_place = known
            if bound is not None and (place is None or place > bound):
                if new_place is None or new_place > bound:
                    return ()
            elif place is None and new_place is None:
                return ()
            slot = Slot((change.key_bytes, 0), None, change.new_bytes)
            delta = self._move(change, place, new_place, slot, reader)
            return () if delta is None else (delta,)
        old = self._elements(change, is_new=False)
        new = self._elements(change, is_new=True)
        if not old and not new:
            return ()
        if (
            bound is not None
            and all(place > bound for place, _ in old)
            and all(place > bound for place, _ in new)
        ):
            return ()
        if len(old) > 1 or len(new) > 1:
            return self._advance_copies(change, old, new, reader)
        delta = self._move_elements(change, old[0] if old else None, new[0] if new else None, reader)
        return () if delta is None else (delta,)

    def _elements(self, change: Change, *, is_new: bool) -> list[tuple[bytes, Slot]]:
        """(place, element) of each place that the document has in the order, before or after the change."""
        body = change.new_bytes if is_new else change.old_bytes
        if body is None:
            return []
        pipeline = self.pipeline
        if pipeline.is_identity and not self.source.needs_document:
            places = self.source.places(change.key_bytes, None)
            return [(place, Slot((change.key_bytes, copy), None, body)) for copy, place in enumerate(places)]
        document = change.new_val if is_new else change.old_val
        found: list[tuple[bytes, Slot]] = []
        for place in self.source.places(change.key_bytes, document):
            result = (
                pipeline.noting(document, place, self.failures, change.key_bytes, change.seq)
                if is_new
                else pipeline.quietly(document, place)
            )
            if result is not None:
                # What was made of the document may be null, and then that is what shows, and not the document.
                value, shown = (document, body) if pipeline.only_values else (result[0], None)
                found.append((result[1], Slot((change.key_bytes, len(found)), value, shown)))
        return found

    def _move_elements(
        self,
        change: Change,
        old: tuple[bytes, Slot] | None,
        new: tuple[bytes, Slot] | None,
        reader: StateReader,
    ) -> Delta | None:
        place = None if old is None else old[0]
        new_place, slot = (None, None) if new is None else new
        return self._move(change, place, new_place, slot, reader)

    def _move(
        self,
        change: Change,
        place: bytes | None,
        new_place: bytes | None,
        slot: Slot | None,
        reader: StateReader,
    ) -> Delta | None:
        """One element goes from one place to another (or comes, or goes): what that is, seen through the window."""
        start, stop = self.start, self.stop
        if stop is not None and stop > start:
            return self._move_in_limit(change, place, new_place, slot, reader, start, stop)
        old_rank = None if place is None else self._rank(place)
        old_offset = self._clamped(old_rank)
        leaving = self._at(old_offset)
        if old_rank is not None:
            self._remove(old_rank)
        if new_place is not None:
            assert slot is not None
            self._insert(new_place, slot)
        self._keep_enough(change, reader)
        new_offset = self._clamped(None if new_place is None else self._rank(new_place))
        entering = self._at(new_offset)
        if leaving is entering and old_offset == new_offset:
            return None
        return self._delta(change, old_offset, new_offset, leaving, entering)

    def _move_in_limit(
        self,
        change: Change,
        place: bytes | None,
        new_place: bytes | None,
        slot: Slot | None,
        reader: StateReader,
        start: int,
        stop: int,
    ) -> Delta | None:
        """The same for a window with an end, written out: half of what a change of a ranking costs was calls."""
        places, slots, bound, last = self.places, self.slots, self.bound, stop - 1
        old_rank = -1
        if place is not None:
            old_rank = bisect_left(places, place)
            if old_rank == len(places) or places[old_rank] != place:
                old_rank = -1
        old_offset = last if old_rank < 0 or old_rank > last else old_rank if old_rank > start else start
        leaving = slots[old_offset] if old_offset < len(slots) else None
        if old_rank >= 0:
            del places[old_rank], slots[old_rank]
        new_rank: int | None = None
        if new_place is not None and (bound is None or new_place <= bound):
            assert slot is not None
            new_rank = bisect_left(places, new_place)
            places.insert(new_rank, new_place)
            slots.insert(new_rank, slot)
        held = len(slots)
        if (held < stop and bound is not None) or held > 2 * (stop + self._spare):
            self._keep_enough(change, reader)
            places, slots = self.places, self.slots
            held = len(slots)
            new_rank = None if new_place is None else self._rank(new_place)
        new_offset = last if new_rank is None or new_rank > last else new_rank if new_rank > start else start
        entering = slots[new_offset] if new_offset < held else None
        if leaving is entering and old_offset == new_offset:
            return None
        if leaving is None or entering is None or self._has_copies or not self.pipeline.only_values:
            return self._delta(change, old_offset, new_offset, leaving, entering)
        old_val, new_val = leaving.shown, entering.shown
        if old_val is None:
            old_val = leaving.value
        if new_val is None:
            if entering is slot and change.new is not None:
                # Somebody has looked at it before.
                slot.shown = change.new
            new_val = entering.value
        return Delta(change, old_val, new_val, old_offset - start, new_offset - start, entering.identity)

    def _rank(self, place: bytes) -> int | None:
        rank = bisect_left(self.places, place)
        return rank if rank < len(self.places) and self.places[rank] == place else None

    def _clamped(self, rank: int | None) -> int | None:
        """Where the window feels a removal or an insertion at that rank: before it, its first element moves out or in;
        behind it, or nowhere, its last one."""
        if self.stop is None:
            return None if rank is None else max(rank, self.start)
        if self.stop == self.start:
            return None
        last = self.stop - 1
        return last if rank is None or rank > last else rank if rank > self.start else self.start

    def _at(self, rank: int | None) -> Slot | None:
        return self.slots[rank] if rank is not None and rank < len(self.slots) else None

    def _remove(self, rank: int) -> None:
        del self.places[rank], self.slots[rank]

    def _insert(self, place: bytes, slot: Slot) -> None:
        if self.bound is not None and place > self.bound:
            return
        rank = bisect_left(self.places, place)
        self.places.insert(rank, place)
        self.slots.insert(rank, slot)

    def _keep_enough(self, change: Change, reader: StateReader) -> None:
        stop = self.stop
        if stop is None:
            return
        if len(self.slots) < stop and self.bound is not None:
            # A commit that removes many would be read after each few of them: the second time, more is fetched. And so
            # would all that followed, where that is long past.
            is_again = reader.is_behind or change.commit == self._refilled_in
            self._spare = min(self._spare * 4, MAX_SPARE) if is_again else self._least_spare
            self._refilled_in = change.commit
            self._fill(reader.at(change.seq))
        elif len(self.slots) > 2 * (stop + self._spare):
            self._cut(stop)

    def _cut(self, stop: int) -> None:
        del self.places[stop + self._spare :], self.slots[stop + self._spare :]
        self.bound = self.places[-1]
        self._look_until_bound()

    def let_go(self) -> None:
        """Hold no more than is worth it where reading more is cheap."""
        self._spare = self._least_spare
        if self.stop is not None and len(self.slots) > 2 * (self.stop + self._spare):
            self._cut(self.stop)

    def _delta(
        self,
        change: Change,
        old_rank: int | None,
        new_rank: int | None,
        leaving: Slot | None,
        entering: Slot | None,
    ) -> Delta | None:
        old_offset = None if leaving is None or old_rank is None else old_rank - self.start
        new_offset = None if entering is None or new_rank is None else new_rank - self.start
        if leaving is None:
            if entering is None:
                return None
            value = entering.value
            return Delta(change, None, value, None, new_offset, entering.identity, is_move=value is None)
        if entering is None:
            value = leaving.value
            return Delta(change, value, None, old_offset, None, leaving.identity, is_move=value is None)
        # Two documents, or two states of one, are never the same; what was made of them may be, and copies are.
        may_be_same = self._has_copies or not self.pipeline.only_values
        is_move = may_be_same and same_value(leaving.value, entering.value)
        if is_move and old_offset == new_offset:
            return None
        return Delta(
            change, leaving.value, entering.value, old_offset, new_offset, entering.identity, is_move=is_move
        )

    # -----------------------------------------------------------------------------------------------------------
    # Documents with several places

    def _advance_copies(
        self,
        change: Change,
        old: list[tuple[bytes, Slot]],
        new: list[tuple[bytes, Slot]],
        reader: StateReader,
    ) -> list[Delta]:
        if self.stop is None:
            return self._advance_in_turn(change, old, new, reader)
        # All at once: a refill in between would see all of the places moved already. And what is told must not depend on
        # whether there was one, because who resumes may hold fewer documents.
        before = self._window()
        for place, _ in old:
            rank = self._rank(place)
            if rank is not None:
                self._remove(rank)
        for place, slot in new:
            self._insert(place, slot)
        self._keep_enough(change, reader)
        found = []
        for edit in edits(before, self._window(), same_value):
            old_rank = None if edit.old_offset is None else edit.old_offset + self.start
            new_rank = None if edit.new_offset is None else edit.new_offset + self.start
            delta = self._delta(change, old_rank, new_rank, edit.leaving, edit.entering)  # type: ignore[arg-type]
            if delta is not None:
                found.append(delta)
        return found

    def _advance_in_turn(
        self,
        change: Change,
        old: list[tuple[bytes, Slot]],
        new: list[tuple[bytes, Slot]],
        reader: StateReader,
    ) -> list[Delta]:
        """Pair by pair: a place that is only filled anew, then the others in order."""
        before, after = dict(old), dict(new)
        kept = [place for place in after if place in before]
        gone = [entry for entry in old if entry[0] not in after]
        come = [entry for entry in new if entry[0] not in before]
        deltas = [self._move(change, place, place, after[place], reader) for place in kept]
        for number in range(max(len(gone), len(come))):
            leaving = gone[number] if number < len(gone) else None
            entering = come[number] if number < len(come) else None
            deltas.append(self._move_elements(change, leaving, entering, reader))
        return [delta for delta in deltas if delta is not None]


def _place_of(entry: tuple[bytes, Slot]) -> bytes:
    return entry[0]
