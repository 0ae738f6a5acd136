"""Index values: the different values of an index, with the number of documents of each, for `distinct` and `group` with `count`.

Equal values have one key, but may be stored in several forms: 1, 1.0 and Decimal(1). `canonical` chooses the form of the
result, here 1. Equal texts have only one form, so their key is enough. For a whole number, the first document is read; if it
has the chosen form, no other document is read. In all other cases the documents of the value are read.

Rule of this file: the result equals the result of a read of all documents. As in counts, a damaged document may not be noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from functools import reduce
from typing import Any, Final
from uuid import UUID

from reactdb.budget import spend
from reactdb.documents.access_path import Access, IndexedValues
from reactdb.expression import Expression
from reactdb.query import ConcatMap, Distinct, Group, Step
from reactdb.store.catalogue import IndexInfo
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec
from reactdb.values.canonical import plainest
from reactdb.values.collation import EQUALS, index_key_bytes, key_value

# Types whose equal values are stored in one form.
_ONE_SPELLING: Final = frozenset({str, bool, bytes, date, timedelta, UUID})
# A whole number in this range takes at most 5 bytes in a document; a float that equals it takes 9, a Decimal 6.
_SHORT_NUMBERS: Final = range(-(2**31), 2**32)


class IndexValues:
    """The first steps after an access path, if they need only the values of its index.

    Attributes:
        rest: The remaining steps.
        is_grouped: The first step is a `group`, and a count follows.
    """

    __slots__ = ("_index", "_path", "is_grouped", "rest")

    def __init__(self, path: Access, index: IndexInfo, rest: tuple[Step, ...], is_grouped: bool) -> None:
        self._path = path
        self._index = index
        self.rest = rest
        self.is_grouped = is_grouped

    def read(self, snapshot: Snapshot) -> Any:
        """The result of the steps: the different values in order; or the groups by key bytes, each with its value and, in
        place of its documents, a `range` of the same length.

        Raises:
            CorruptDatabase: Entries are missing, or a document that has to be read is damaged.
        """
        if self.is_grouped:
            return {key: (value, range(count)) for key, value, count in self._read(snapshot)}
        return (value for _, value, _ in self._read(snapshot))

    def describe(self) -> str:
        """The method in words, for `explain()`."""
        return "its values are in the entries, documents are read only where a value may have several forms"

    def _read(self, snapshot: Snapshot) -> Iterator[tuple[bytes, Any, int]]:
        """(key bytes, value in its chosen form, number of documents) of each value in the range of the path, in order."""
        path, index = self._path, self._index
        counts = snapshot.value_counts(index, path.range.start, path.range.stop)
        spend(len(counts))
        values = {one.value: key_value(one.value) for one in counts}
        unsure = [one for one in counts if not has_one_spelling(values[one.value])]
        firsts = dict(snapshot.pick(path.table, sorted({one.key for one in unsure}), index=index))
        for one in unsure:
            shown = _value_with_key(index, one.value, firsts[one.key])
            if one.entries > 1 and not is_plainest(shown):
                for entry in snapshot.entries(index, one.value, one.value + b"\x00"):
                    spend(1)
                    shown = plainest(shown, _value_with_key(index, one.value, entry.body))
            values[one.value] = shown
        return ((one.value, values[one.value], one.entries) for one in counts)


def find_index_values(path: Access) -> IndexValues | None:
    """The first steps of a path, if the entries of its index answer them; None if documents have to be read."""
    steps, index = path.rest, path.index
    if index is None or not steps or path.keys is not None or path.is_detour or path.ties:
        return None
    if EQUALS:
        # A value of a type of a program may equal one of any other type.
        return None
    first = steps[0]
    if isinstance(first, ConcatMap):
        # `with_indexed_values` has put this step and its `distinct` there, for a multi index.
        # After a range, a document of the range has all of its elements in the result, also elements outside of the range.
        is_of_index = isinstance(first.function, IndexedValues) and path.range.is_everything
        return IndexValues(path, index, steps[2:], False) if is_of_index else None
    if not isinstance(first, (Distinct, Group)) or index.multi:
        return None
    if not isinstance(first.expression, Expression) or first.expression.key != index.expression.key:
        return None
    if isinstance(first, Distinct):
        return IndexValues(path, index, steps[1:], False)
    is_counted = path.aggregate is not None and path.aggregate.kind == "count" and len(steps) == 1
    return IndexValues(path, index, (), True) if is_counted else None


def read_spelled_counts(
    index: IndexInfo, start: bytes, stop: bytes, snapshot: Snapshot
) -> list[tuple[bytes, Any, int]] | None:
    """(key bytes, value, number of documents) of each value with start <= key bytes < stop, in order; None if equal values may be
    stored in several forms, because views count each form."""
    if EQUALS or index.multi:
        return None
    counts = [
        (one.value, key_value(one.value), one.entries) for one in snapshot.value_counts(index, start, stop)
    ]
    return counts if all(has_one_spelling(value) for _, value, _ in counts) else None


def _value_with_key(index: IndexInfo, key: bytes, body: bytes) -> Any:
    """The indexed value of a document, in a multi index the element with this key. Of several such elements, the chosen form."""
    value = index.value_of(codec.decode(body))
    if not index.multi or not isinstance(value, list):
        return value
    return reduce(plainest, (one for one in value if index_key_bytes(one) == key))


def has_one_spelling(value: Any) -> bool:
    """Whether all values that equal this value are stored in the same form."""
    if isinstance(value, list):
        return all(map(has_one_spelling, value))
    return type(value) in _ONE_SPELLING


def is_plainest(value: Any) -> bool:
    """Whether the form of this value is chosen among all equal values."""
    if isinstance(value, list):
        return all(map(is_plainest, value))
    return type(value) in _ONE_SPELLING or (type(value) is int and value in _SHORT_NUMBERS)
