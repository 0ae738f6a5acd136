"""DistinctView: the different values of another view's result, and deltas for each that is added or removed.

Rule of this file: values are the same if the collation says so; `canonical` says which of 1 and 1.0 is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from reactdb.change import Change
from reactdb.documents.steps import value_or
from reactdb.expression.markers import absent
from reactdb.feeds.failures import Failures
from reactdb.feeds.pipeline import Boxed, same_value, value_function
from reactdb.feeds.views.aggregate import DerivedView, boxes
from reactdb.feeds.views.base import AnyDelta, Delta, Initial, StateReader, View
from reactdb.query import Distinct
from reactdb.store.snapshot import Snapshot
from reactdb.values import collation
from reactdb.values.canonical import Spellings


class DistinctView(DerivedView):
    """Each value once. It holds the values and how many documents have each."""

    kind = "distinct"

    def __init__(self, below: View, step: Distinct, failures: Failures, *, boxed: bool = False) -> None:
        super().__init__(below, step, failures)
        self._value_of = value_or(absent, step.expression, value_function)
        self._expression = step.expression
        self._is_whole = step.expression is None
        self._boxed = boxed
        # Key bytes -> the value and how many have it.
        self._values: dict[bytes, Spellings] = {}

    @property
    def documents_held(self) -> int:
        return self.below.documents_held + (len(self._values) if self._is_whole else 0)

    def seed(self, snapshot: Snapshot) -> None:
        self._values = {}
        counts = self._read_values(snapshot, self._expression)
        if counts is None:
            self._take(snapshot, self._add)
        for key, value, count in counts or ():
            self._count(key, value, count)

    def _add(self, box: Any) -> None:
        entry = self._read_entry(box)
        if entry is not None:
            self._count(*entry, 1)

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        rows = [(key, self._reported_value(key)) for key in self._values]
        return (Initial(value, identity=key) for key, value in sorted(rows, key=itemgetter(0)))

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        deltas = self.below.advance(change, reader)
        if not deltas:
            return ()
        before: dict[bytes, Any] = {}
        for delta in deltas:
            for box, step in zip(boxes(delta), (-1, 1), strict=True):
                entry = self._read_entry_or_note(box, None if step < 0 else change)
                if entry is not None:
                    if entry[0] not in before:
                        before[entry[0]] = self._reported_value(entry[0])
                    self._count(*entry, step)
        reported = []
        for key, old_val in before.items():
            new_val = self._reported_value(key)
            if not same_value(old_val, new_val):
                reported.append(Delta(change, old_val, new_val, identity=("value", key)))
        return reported

    def _reported_value(self, key: bytes) -> Any:
        """The reported value of that key; None if there is none."""
        spellings = self._values.get(key)
        if spellings is None:
            return None
        return Boxed(spellings.value, key) if self._boxed else spellings.value

    def _read_entry(self, box: Boxed) -> tuple[bytes, Any] | None:
        """(key bytes, value), or None for an element that has none."""
        value = self._value_of(box.value)
        if value is absent or (value is None and not self._boxed):
            # A result of null is no result.
            return None
        return collation.key_bytes(value), value

    def _read_entry_or_note(self, box: Boxed | None, change: Change | None) -> tuple[bytes, Any] | None:
        """The same, where a failure is noted if `change` wrote the value; None for a value that was there before."""
        if box is None:
            return None
        try:
            return self._read_entry(box)
        except Exception as error:
            if change is not None:
                self._note(error, change)
            return None

    def _count(self, key: bytes, value: Any, step: int) -> None:
        spellings = self._values.get(key)
        if spellings is None:
            spellings = self._values[key] = Spellings()
        if step > 0:
            spellings.add(value, step)
        else:
            spellings.remove(value)
        if not spellings.count:
            del self._values[key]
