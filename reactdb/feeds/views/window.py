"""WindowView: an ordered result, with or without a skip and a limit: its documents, and their offsets.

It holds the documents up to the end of the window, and as many again: when a document leaves, the next one is known,
and the file is read only after many have left. Every result with a sort key up to `bound` is held; the results beyond
are not known and need not be. A change with both sort keys beyond `bound` costs two comparisons.

One change moves one element. In the window, that is at most one delete and one insert, at offsets that are exact if
they are applied in turn. An element that moves before or behind the window moves another one over the window's edge.

Rule of this file: a refill reads the documents as of the change by which the view advances, never later ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice, zip_longest
from operator import itemgetter
from typing import Any

from reactdb.budget import sort_with_budget
from reactdb.change import Change
from reactdb.feeds.edits import compute_edits
from reactdb.feeds.failures import Failures
from reactdb.feeds.pipeline import Pipeline, Ranked, same_value
from reactdb.feeds.views.base import AnyDelta, Delta, Initial, OneKey, OneValue, Route, StateReader
from reactdb.feeds.views.source import Source, SourceView
from reactdb.query import OrderBy
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec

# Documents held beyond the window: at least this number where an index gives them in order, and where the table has to be
# read and sorted for more. 0.25 kB each.
SPARE = 32
SPARE_WITHOUT_INDEX = 512
MAX_SPARE = 1 << 20
# Documents that are decoded together: more do not stay in the processor's cache.
DECODED = 256


class WindowItem:
    """One element of the order. Its document is decoded at the first use of its value.

    Attributes:
        identity: The key of its document, and which of the document's sort keys it has.
        body: The document's bytes; None if the value is not the document itself.
        shown: The value, after its first use.
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


# A sort key and the element that has it.
Ranking = tuple[bytes, WindowItem]


class WindowView(SourceView):
    """See the head of this file.

    Invariant: `sort_keys` is sorted and `held` runs beside it; every result with a sort key <= `bound` is there, and no other;
    `bound` None: every result. There are at least `stop` of them unless there are no more.
    """

    source: Source
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
        super().__init__(source, pipeline, failures)
        self.start = start
        self.stop = stop if stop is None else max(start, stop)
        self.kind = "order" if stop is None else "limit"
        self.is_sorted_here = any(isinstance(step, (OrderBy, Ranked)) for step in pipeline.steps)
        self._has_copies = source.keys is not None or (source.index is not None and source.index.multi)
        self.sort_keys: list[bytes] = []
        self.held: list[WindowItem] = []
        self.bound: bytes | None = None
        self._spare = self._least_spare
        self._refilled_in = -1
        # Only if the source gives the order can a change be found by the value that it sorts by.
        self._moving_range = None if self.is_sorted_here or self.stop is None else source.moving_range()

    # -----------------------------------------------------------------------------------------------------------
    # Description

    def routes(self) -> Sequence[Route]:
        # Nothing ever enters a window without room.
        if self.stop == self.start:
            return ()
        source_routes = super().routes()
        if (
            self._moving_range is None
            or not source_routes
            or isinstance(source_routes[0], (OneKey, OneValue))
        ):
            return source_routes
        return (self._moving_range,)

    @property
    def documents_held(self) -> int:
        return len(self.held)

    def describe(self) -> dict[str, Any]:
        return {
            **super().describe(),
            "skip": self.start,
            "limit": None if self.stop is None else self.stop - self.start,
        }

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def seed(self, snapshot: Snapshot) -> None:
        self._spare = self._least_spare
        if self.stop is None and self.pipeline.only_values:
            self._fill_with_all(snapshot)
        elif self.stop != self.start:
            self._fill(snapshot, is_seed=True)

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        # The list is fixed now; its documents are decoded at their use.
        items = self._window()
        return (Initial(item.value, offset, item.identity) for offset, item in enumerate(items))

    def items(self) -> list[Initial]:
        return [Initial(item.value, offset, item.identity) for offset, item in enumerate(self._window())]

    @property
    def size(self) -> int:
        """The length of the list."""
        held = len(self.held) if self.stop is None else min(len(self.held), self.stop)
        return max(0, held - self.start)

    def _window(self) -> list[WindowItem]:
        return self.held[self.start : self.stop]

    @property
    def _least_spare(self) -> int:
        return max(self.stop or 0, SPARE_WITHOUT_INDEX if self.is_sorted_here else SPARE)

    def _fill(self, snapshot: Snapshot, *, is_seed: bool = False) -> None:
        """Read the first documents of the order again."""
        capacity = None if self.stop is None else self.stop + self._spare
        items = self._read_ranked(snapshot, capacity, is_seed)
        if capacity is None:
            first = sort_with_budget(items, key=itemgetter(0))
        elif self.is_sorted_here:
            first = nsmallest(capacity + 1, items, key=itemgetter(0))
        else:
            first = list(islice(items, capacity + 1))
        self.bound = None
        if capacity is not None and len(first) > capacity:
            del first[capacity:]
            self.bound = first[-1][0]
        self.sort_keys = [sort_key for sort_key, _ in first]
        self.held = [item for _, item in first]
        self._look_until_bound()

    def _look_until_bound(self) -> None:
        """Route only changes up to `bound` here: a leaderboard needs nothing of the rest of the table."""
        moving_range, source = self._moving_range, self.source
        if moving_range is None:
            return
        if self.bound is None:
            moving_range.move(source.start, source.stop)
        else:
            key, _ = self.held[-1].identity
            moving_range.move(*source.values_until(self.bound, key))

    def _read_ranked(self, snapshot: Snapshot, capacity: int | None, is_seed: bool) -> Iterator[Ranking]:
        """(sort key, item) of every document that passes; in order where the source is."""
        wanted = None if capacity is None or self.is_sorted_here else capacity + 1
        pipeline = self.pipeline
        copies: dict[bytes, int] = {}
        for sort_key, key, body in self.source.read(snapshot, wanted):
            shown: bytes | None = body
            if pipeline.is_identity:
                value: Any = None
            else:
                document = codec.decode_frozen(body)
                # A later write notes its failure then; a further read must not note it again.
                result = pipeline.attempt(document, sort_key, self.failures if is_seed else None, key, key)
                if result is None:
                    continue
                value, sort_key = result
                if pipeline.only_values:
                    # The document is decoded again at its use; most never are.
                    value = None
                shown = body if pipeline.only_values else None
            copy = 0
            if self._has_copies:
                copy = copies.get(key, 0)
                copies[key] = copy + 1
            yield sort_key, WindowItem((key, copy), value, shown)

    def _fill_with_all(self, snapshot: Snapshot) -> None:
        """Read all documents, where they are the values. All of them will be used, so they are decoded once, in batches. The
        sort keys and the items are in two lists from the beginning: a tuple for each pair would cost as much again, because
        the garbage collector looks at it."""
        pipeline, failures, has_copies = self.pipeline, self.failures, self._has_copies
        copies: dict[bytes, int] = {}
        sort_keys: list[bytes] = []
        items: list[WindowItem] = []
        rows = self.source.read(snapshot)
        while batch := list(islice(rows, DECODED)):
            documents = codec.decode_many_frozen([body for _, _, body in batch])
            for (sort_key, key, body), document in zip(batch, documents, strict=True):
                if not pipeline.is_identity:
                    result = pipeline.attempt(document, sort_key, failures, key, key)
                    if result is None:
                        continue
                    sort_key = result[1]
                copy = 0
                if has_copies:
                    copy = copies.get(key, 0)
                    copies[key] = copy + 1
                sort_keys.append(sort_key)
                items.append(WindowItem((key, copy), document, body))
        ranks = sorted(range(len(sort_keys)), key=sort_keys.__getitem__)
        self.bound = None
        self.sort_keys = [sort_keys[rank] for rank in ranks]
        self.held = [items[rank] for rank in ranks]

    # -----------------------------------------------------------------------------------------------------------
    # Advancing

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        if change.table_id != self.source.table.id or self.stop == self.start:
            return ()
        old: Sequence[bytes]
        new: Sequence[Ranking]
        known = self.source.known_sort_keys(change) if self.pipeline.is_identity else None
        if known is None:
            old = [sort_key for sort_key, _ in self._rankings(change, is_new=False)]
            new = self._rankings(change, is_new=True)
        else:
            old_key, new_key = known
            old = () if old_key is None else (old_key,)
            item = WindowItem((change.key_bytes, 0), None, change.new_bytes)
            new = () if new_key is None else ((new_key, item),)
        bound = self.bound
        if bound is None:
            is_outside = not old and not new
        else:
            is_outside = all(key > bound for key in old) and all(key > bound for key, _ in new)
        if is_outside:
            return ()
        if len(old) > 1 or len(new) > 1:
            return self._advance_copies(change, old, new, reader)
        delta = self._move(change, old[0] if old else None, new[0] if new else None, reader)
        return () if delta is None else (delta,)

    def _rankings(self, change: Change, *, is_new: bool) -> list[Ranking]:
        """(sort key, item) of each result that the document has before or after the change."""
        body = change.new_bytes if is_new else change.old_bytes
        if body is None:
            return []
        key = change.key_bytes
        if self.pipeline.is_identity and not self.source.needs_document:
            sort_keys = self.source.sort_keys(key, None)
            return [
                (sort_key, WindowItem((key, copy), None, body)) for copy, sort_key in enumerate(sort_keys)
            ]
        # The result of a map may be null, and then null is the value, and not the document.
        shown = body if self.pipeline.only_values else None
        results = self.results(change, is_new=is_new)
        return [
            (sort_key, WindowItem((key, copy), value, shown))
            for copy, (value, sort_key) in enumerate(results)
        ]

    def _move(
        self, change: Change, old_key: bytes | None, new: Ranking | None, reader: StateReader
    ) -> Delta | None:
        """Remove one element and insert another, or only one of both, and report the change of the window."""
        old_rank = None if old_key is None else self._rank(old_key)
        old_offset = self._clamp(old_rank)
        leaving = self._at(old_offset)
        if old_rank is not None:
            self._remove(old_rank)
        if new is not None:
            self._insert(new)
        self._keep_enough(change, reader)
        new_offset = self._clamp(None if new is None else self._rank(new[0]))
        entering = self._at(new_offset)
        if leaving is entering and old_offset == new_offset:
            return None
        if new is not None and entering is new[1] and entering.shown is None and entering.body is not None:
            # The change decodes its document once for all views.
            entering.shown = change.new_val
        return self._delta(change, old_offset, new_offset, leaving, entering)

    def _rank(self, sort_key: bytes) -> int | None:
        rank = bisect_left(self.sort_keys, sort_key)
        return rank if rank < len(self.sort_keys) and self.sort_keys[rank] == sort_key else None

    def _clamp(self, rank: int | None) -> int | None:
        """The rank in the window that changes by a removal or an insertion at that rank: before the window, it is the
        first rank; behind it, or without a removal or an insertion, the last."""
        if self.stop is None:
            return None if rank is None else max(rank, self.start)
        last = self.stop - 1
        return last if rank is None or rank > last else rank if rank > self.start else self.start

    def _at(self, rank: int | None) -> WindowItem | None:
        return self.held[rank] if rank is not None and rank < len(self.held) else None

    def _remove(self, rank: int) -> None:
        del self.sort_keys[rank], self.held[rank]

    def _insert(self, new: Ranking) -> None:
        sort_key, item = new
        if self.bound is not None and sort_key > self.bound:
            return
        rank = bisect_left(self.sort_keys, sort_key)
        self.sort_keys.insert(rank, sort_key)
        self.held.insert(rank, item)

    def _keep_enough(self, change: Change, reader: StateReader) -> None:
        stop = self.stop
        if stop is None:
            return
        if len(self.held) < stop and self.bound is not None:
            # A commit with many removals would cause a read after each few of them, and so would a log of the far
            # past: therefore the second read fetches more.
            is_again = reader.is_behind or change.commit == self._refilled_in
            self._spare = min(self._spare * 4, MAX_SPARE) if is_again else self._least_spare
            self._refilled_in = change.commit
            self._fill(reader.at(change.seq))
        elif len(self.held) > 2 * (stop + self._spare):
            self._cut(stop)

    def _cut(self, stop: int) -> None:
        del self.sort_keys[stop + self._spare :], self.held[stop + self._spare :]
        self.bound = self.sort_keys[-1]
        self._look_until_bound()

    def release_spare(self) -> None:
        """Drop the documents that were held because reading was slow: it is not any more."""
        self._spare = self._least_spare
        if self.stop is not None and len(self.held) > 2 * (self.stop + self._spare):
            self._cut(self.stop)

    def _delta(
        self,
        change: Change,
        old_rank: int | None,
        new_rank: int | None,
        leaving: WindowItem | None,
        entering: WindowItem | None,
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
        # Two documents, or two states of a document, are never the same. Values made of them may be, and copies of
        # one document are.
        may_be_same = self._has_copies or not self.pipeline.only_values
        is_move = may_be_same and same_value(leaving.value, entering.value)
        if is_move and old_offset == new_offset:
            return None
        return Delta(
            change, leaving.value, entering.value, old_offset, new_offset, entering.identity, is_move=is_move
        )

    # -----------------------------------------------------------------------------------------------------------
    # Documents with several sort keys

    def _advance_copies(
        self, change: Change, old: Sequence[bytes], new: Sequence[Ranking], reader: StateReader
    ) -> list[Delta]:
        if self.stop is None:
            return self._advance_in_turn(change, old, new, reader)
        # All at once, because a refill in between would read documents whose sort keys have all moved already. And
        # the deltas must not depend on whether there was a refill: a feed that resumes may hold fewer documents.
        before = self._window()
        for sort_key in old:
            rank = self._rank(sort_key)
            if rank is not None:
                self._remove(rank)
        for ranking in new:
            self._insert(ranking)
        self._keep_enough(change, reader)
        deltas = []
        for edit in compute_edits(before, self._window(), same_value):
            old_rank = None if edit.old_offset is None else edit.old_offset + self.start
            new_rank = None if edit.new_offset is None else edit.new_offset + self.start
            delta = self._delta(change, old_rank, new_rank, edit.leaving, edit.entering)  # type: ignore[arg-type]
            if delta is not None:
                deltas.append(delta)
        return deltas

    def _advance_in_turn(
        self, change: Change, old: Sequence[bytes], new: Sequence[Ranking], reader: StateReader
    ) -> list[Delta]:
        """Pair by pair: first sort keys whose item is only exchanged, then the others in order."""
        after = {sort_key for sort_key, _ in new}
        kept = [ranking for ranking in new if ranking[0] in old]
        gone = [sort_key for sort_key in old if sort_key not in after]
        come = [ranking for ranking in new if ranking[0] not in old]
        pairs = [(ranking[0], ranking) for ranking in kept] + list(zip_longest(gone, come))
        deltas = [self._move(change, old_key, ranking, reader) for old_key, ranking in pairs]
        return [delta for delta in deltas if delta is not None]
