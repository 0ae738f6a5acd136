"""UnionView: several views told as one. A document that is in two of them is told twice.

Rule of this file: members know nothing of each other; what they report is only numbered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from reactdb.change import Change
from reactdb.feeds.view import AnyDelta, Delta, Initial, Route, StateReader, View
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
        # All of them read now; what they compute, they compute later.
        return chain.from_iterable([member.result(snapshot) for member in self.members])

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        found: list[AnyDelta] = []
        for number, member in enumerate(self.members):
            deltas = member.advance(change, reader)
            if number == 0:
                found.extend(deltas)
            else:
                found.extend(_numbered(delta, number) for delta in deltas)
        return found

    def describe(self) -> dict[str, Any]:
        return {
            "members": [{"kind": member.kind, **member.describe()} for member in self.members],
            "index": None,
        }


def _numbered(delta: AnyDelta, number: int) -> Delta:
    """The delta as one of that member. They may be shared, so it is another one."""
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
