"""UnionView: several views as one. A document in two of them is reported twice.

    UnionView          members of any kind; deltas carry the number of their member
    OrderedUnionView   only lists as members: the whole is a list too, one member after the other, and offsets count in it

In RethinkDB offsets count in the member, and no field names the member.

Rule of this file: members know nothing of each other, and their deltas are changed in nothing but number and offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from reactdb.change import Change
from reactdb.feeds.views.base import AnyDelta, Delta, Initial, Route, StateReader, View
from reactdb.feeds.views.window import WindowView
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot


class UnionView:
    """See the head of this file."""

    kind = "union"

    def __init__(self, members: Sequence[View]) -> None:
        self.members = list(members)
        self.is_stateful = any(member.is_stateful for member in members)

    def tables(self) -> Sequence[TableInfo]:
        return list({info.id: info for member in self.members for info in member.tables()}.values())

    def indexes(self) -> Sequence[tuple[int, str]]:
        return list(dict.fromkeys(pair for member in self.members for pair in member.indexes()))

    def routes(self) -> Sequence[Route]:
        return list(dict.fromkeys(route for member in self.members for route in member.routes()))

    @property
    def documents_held(self) -> int:
        return sum(member.documents_held for member in self.members)

    def seed(self, snapshot: Snapshot) -> None:
        for member in self.members:
            member.seed(snapshot)

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        # All members read now; their computations run later.
        return chain.from_iterable([member.result(snapshot) for member in self.members])

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        result: list[AnyDelta] = []
        for number, member in enumerate(self.members):
            deltas = member.advance(change, reader)
            if number == 0:
                result.extend(deltas)
            else:
                result.extend(_number_delta(delta, number) for delta in deltas)
        return result

    def describe(self) -> dict[str, Any]:
        return {
            "members": [{"kind": member.kind, **member.describe()} for member in self.members],
            "index": None,
        }


class OrderedUnionView(UnionView):
    """Lists, one after the other."""

    def __init__(self, members: Sequence[WindowView]) -> None:
        super().__init__(members)
        self._lists = list(members)

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        return self.items()

    def items(self) -> list[Initial]:
        result: list[Initial] = []
        for number, member in enumerate(self._lists):
            base = len(result)
            for offset, item in enumerate(member.items()):
                result.append(Initial(item.value, base + offset, (number, item.identity)))
        return result

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        result: list[AnyDelta] = []
        base = 0
        for number, member in enumerate(self._lists):
            # In the order in which deltas are applied: the lists before this one have their new length already.
            result += [_shift(delta, number, base) for delta in member.advance(change, reader)]
            base += member.size
        return result


def _shift(delta: AnyDelta, number: int, base: int) -> Delta:
    """The delta of a list that begins at `base`. A new object, because deltas may be shared."""
    assert isinstance(delta, Delta)
    return Delta(
        delta.change,
        delta.old_val,
        delta.new_val,
        None if delta.old_offset is None else base + delta.old_offset,
        None if delta.new_offset is None else base + delta.new_offset,
        (number, delta.identity),
        is_move=delta.is_move,
    )


def _number_delta(delta: AnyDelta, number: int) -> Delta:
    """The delta with the number of that member. A new object, because deltas may be shared."""
    if type(delta) is not Delta:
        return Delta(delta, delta.old_val, delta.new_val, member=number)  # type: ignore[arg-type]
    return Delta(
        delta.change,
        delta.old_val,
        delta.new_val,
        delta.old_offset,
        delta.new_offset,
        delta.identity,
        delta.group,
        delta.is_move,
        delta.leaving,
        number,
    )
