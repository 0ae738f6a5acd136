"""Counts: how many documents a query has, from the entries of an index or from the keys of a table.

    between(a, b, index="score"), get_all(...), order_by(index=...)     the entries in the ranges
    a filter that a range of an index answers exactly                   the entries, with the hidden ones
    filters on the primary key, the whole table                         the keys
    ... with skip and limit behind                                      the same number, cut

A count reads no document. So it does not notice a damaged document, or an index entry without a document. Reads of the
documents notice both, and so does the doctor. A missing document or entry is noticed, as in other reads: the running sums
have the number of documents of a table and of entries of an index, and a small index is compared with its sums before its
first use.

Rule of this file: a count here equals the number of documents in the query's result. If this is not certain, there is no
count, and the documents are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from reactdb.documents.access_path import Access, Range, find_index, format_index
from reactdb.expression import Predicate, row
from reactdb.query import Filter, HasFields, Limit, Skip, Step
from reactdb.store.catalogue import HIDDEN_VALUE_BYTES, IndexInfo, TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.values.value import Value


class EntryCount(Value):
    """A count of documents by their entries in an index, or by their keys.

    Attributes:
        table: The table of the documents.
        index: The index of the entries; None for keys.
        ranges: Ranges of the index, or of keys. A range that is listed twice counts twice.
        with_hidden: Also the entries of values that operations with the index never see, such as null.
        cuts: The skips and limits of the query, in order.
    """

    __slots__ = ("cuts", "index", "ranges", "table", "with_hidden")

    def __init__(
        self,
        table: TableInfo,
        index: IndexInfo | None,
        ranges: tuple[Range, ...],
        with_hidden: bool,
        cuts: tuple[Skip | Limit, ...] = (),
    ) -> None:
        self.table = table
        self.index = index
        self.ranges = ranges
        self.with_hidden = with_hidden
        self.cuts = cuts

    def read(self, snapshot: Snapshot) -> int:
        """The number of documents in this snapshot.

        Raises:
            CorruptDatabase: Documents or entries are missing.
        """
        count = sum(self._count(snapshot, one) for one in self.ranges)
        for step in self.cuts:
            count = min(count, step.count) if isinstance(step, Limit) else max(0, count - step.count)
        return count

    def _count(self, snapshot: Snapshot, one: Range) -> int:
        if self.index is None:
            return snapshot.count_keys(self.table, one.start, one.stop)
        return snapshot.count_entries(self.index, one.start, one.stop, with_hidden=self.with_hidden)

    def describe(self, is_past: bool = False) -> str:
        """The count in words, for `explain()`. A view of the past corrects the number by what has changed since."""
        counted = "keys" if self.index is None else f"entries of {format_index(self.index)}"
        return f"counts the {counted}, reads no document" + (
            " but those that have changed since" if is_past else ""
        )


def count_at_end(path: Access) -> EntryCount | None:
    """The count at the end of a query; None if the query ends otherwise, or if the count needs the documents.

    Raises:
        IncompatibleFormat: The index has an operation that this process does not know.
    """
    return (
        find_count(path, path.rest) if path.aggregate is not None and path.aggregate.kind == "count" else None
    )


def find_count(path: Access, steps: Sequence[Step]) -> EntryCount | None:
    """The count of the documents of an access path after these steps; None if they have to be read.

    Raises:
        IncompatibleFormat: The index has an operation that this process does not know.
    """
    if path.is_point or path.ties:
        return None
    tested = 0
    while tested < len(steps) and isinstance(steps[tested], (Filter, HasFields)):
        tested += 1
    cuts = tuple(step for step in steps[tested:] if isinstance(step, (Skip, Limit)))
    if len(cuts) < len(steps) - tested:
        return None
    if tested:
        conditions = [step.predicate for step in steps[:tested] if isinstance(step, (Filter, HasFields))]
        return _find_filtered(path, conditions, cuts)
    # There is no detour here: every detour comes from a filter.
    ranges = (path.range,) if path.keys is None else tuple(Range(key, key + b"\x00") for key in path.keys)
    return EntryCount(path.table, path.index, ranges, False, cuts)


def _find_filtered(
    path: Access, conditions: Sequence[Predicate], cuts: tuple[Skip | Limit, ...]
) -> EntryCount | None:
    """The count of the documents of an access path that pass filters; None if they have to be read."""
    # Imported here because few programs count what a filter finds.
    from reactdb.expression import find_exact_values, ranges_of_index

    exact = None if path.keys is not None else find_exact_values(conditions)
    if exact is None:
        return None
    table, is_free = path.table, path.is_detour or path.is_whole_table
    if is_free or path.index is None:
        # The range of keys comes from the query, or is implied by the filter.
        found = ranges_of_index(exact, row[table.primary_key])
        if found is not None:
            return EntryCount(table, None, _cut(found, path.range), False, cuts)
    for index in table.indexes.values() if is_free else (path.index,):
        # Of a multi index, one document may have several entries in the ranges.
        if index is None or index.multi:
            continue
        found = ranges_of_index(exact, index.expression)
        if found is None or (is_free and any(len(end) > HIDDEN_VALUE_BYTES for one in found for end in one)):
            continue
        return EntryCount(table, find_index(index.name, table), _cut(found, path.range), is_free, cuts)
    return None


def _cut(ranges: Sequence[tuple[bytes, bytes]], span: Range) -> tuple[Range, ...]:
    """The intersections of ranges with a span, without empty ones."""
    cut = (Range(max(start, span.start), min(stop, span.stop)) for start, stop in ranges)
    return tuple(one for one in cut if one.start < one.stop)
