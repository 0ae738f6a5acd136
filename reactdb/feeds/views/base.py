"""View: a query result kept up to date. It is seeded, it advances change by change, and it reports deltas.

A view of a table, of a filter or of one key has no state: both documents are in the change, and decide its effect on
the result. The view of an order with a limit, or of an aggregate, has state: it is seeded from a snapshot and
advances from there, without a gap.

Rule of this file: a view is pure. It knows documents and changes; no thread, no clock, no lock, no subscriber. It may be
given changes that do not concern it, and then reports nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol

from reactdb.change import CATALOGUE, Change
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.values.value import Value


class Delta:
    """The effect of one change on one value of a result.

    `Change` has the same `seq`, `old_val` and `new_val`: where the result is the table itself, the change is its own delta.
    Elsewhere a view makes a delta once, and all subscribers share it.

    Attributes:
        change: The change that caused it; after squashing, the last one.
        old_val, new_val: Result values, after every filter and map; None if the result has no such value.
        old_offset, new_offset: For ordered results: delete at `old_offset` first, then insert at `new_offset`.
        identity: Names the value in the result, so that later deltas about it can be squashed; None for the document's key.
        group: The value of the group, in a list, if the result is grouped; None elsewhere.
        is_move: Only offsets changed, or a null was added or removed. Only subscribers with offsets get it.
        leaving: Names the value that `old_val` was, if it is another than `identity` names; else None.
        member: In a union, the number of the member that reports it.
    """

    __slots__ = (
        "change",
        "group",
        "identity",
        "is_move",
        "leaving",
        "member",
        "new_offset",
        "new_val",
        "old_offset",
        "old_val",
    )

    def __init__(
        self,
        change: Change,
        old_val: Any,
        new_val: Any,
        old_offset: int | None = None,
        new_offset: int | None = None,
        identity: Hashable = None,
        group: list[Any] | None = None,
        is_move: bool = False,
        leaving: Hashable = None,
        member: int = 0,
    ) -> None:
        self.change = change
        self.old_val = old_val
        self.new_val = new_val
        self.old_offset = old_offset
        self.new_offset = new_offset
        self.identity = identity
        self.group = group
        self.is_move = is_move
        self.leaving = leaving
        self.member = member

    @property
    def seq(self) -> int:
        return self.change.seq

    @property
    def time(self) -> int:
        return self.change.time

    def __repr__(self) -> str:
        return f"Delta(seq={self.seq}, old_val={self.old_val!r}, new_val={self.new_val!r})"


AnyDelta = Change | Delta


def change_of(delta: AnyDelta) -> Change:
    """The change that made it."""
    return delta.change if type(delta) is Delta else delta  # type: ignore[return-value]


def identity_of(delta: AnyDelta) -> Hashable:
    """Names the value of the result that the delta is about."""
    if type(delta) is Delta:
        if delta.identity is not None:
            return delta.identity
        change = delta.change
    else:
        change = delta  # type: ignore[assignment]
        if change.table_id == CATALOGUE:
            # Each is delivered: there is no net difference of them.
            return (CATALOGUE, change.seq)
    # In a feed of all tables, a document of a renamed table is another value.
    return (change.table, change.table_id, change.key_bytes)


class Initial:
    """One value of a result as of the beginning of the subscription."""

    __slots__ = ("group", "identity", "offset", "table", "value")

    def __init__(
        self,
        value: Any,
        offset: int | None = None,
        identity: Hashable = None,
        group: list[Any] | None = None,
        table: str | None = None,
    ) -> None:
        self.value = value
        self.offset = offset
        self.identity = identity
        self.group = group
        self.table = table


class StateReader(Protocol):
    """Gives more documents to a view that has run out of them while it advances.

    Attributes:
        is_behind: It reads the far past, which is slow: a view should request more documents at once than it needs.
    """

    is_behind: bool

    def at(self, seq: int) -> Snapshot:
        """The documents exactly as of `seq`, the change that the view is advancing by."""


# ---------------------------------------------------------------------------------------------------------------
# Routes: which changes concern a view


class Axis(Protocol):
    """A property by which documents differ: a field, an index. Equal axes are equal as dict keys.

    Attributes:
        looks_inside: Its values are inside the documents, which have to be decoded for it.
    """

    @property
    def looks_inside(self) -> bool: ...

    def values(self, change: Change) -> Sequence[bytes]:
        """The key bytes of the document on this axis before or after the change; one may occur twice.

        Raises:
            Unroutable: The document that the change wrote has no value, because it cannot be computed.
        """


class Unroutable(Exception):
    """The document of a change has no value on an axis, because of an error: it meets no condition on that value.

    Attributes:
        values: The key bytes that the document had before the change.
        error: Why it has none now.
    """

    def __init__(self, values: Sequence[bytes], error: Exception) -> None:
        super().__init__(values, error)
        self.values = values
        self.error = error


class Everywhere(Value):
    """Every change of every table."""

    __slots__ = ()


class WholeTable(Value):
    __slots__ = ("table_id",)

    def __init__(self, table_id: int) -> None:
        self.table_id = table_id


class OneKey(Value):
    """Changes of one primary key."""

    __slots__ = ("key", "table_id")

    def __init__(self, table_id: int, key: bytes) -> None:
        self.table_id = table_id
        self.key = key


class OneValue(Value):
    """Changes of documents that have, or had, this value on an axis."""

    __slots__ = ("axis", "table_id", "value")

    def __init__(self, table_id: int, axis: Axis, value: bytes) -> None:
        self.table_id = table_id
        self.axis = axis
        self.value = value


class ValueRange(Value):
    """Changes of documents with start <= value < stop on an axis; None is the primary key."""

    __slots__ = ("axis", "start", "stop", "table_id")

    def __init__(self, table_id: int, axis: Axis | None, start: bytes, stop: bytes) -> None:
        self.table_id = table_id
        self.axis = axis
        self.start = start
        self.stop = stop


class MovingRange:
    """Changes of documents whose index value, or key, is in the range that a view holds. The range moves with the
    view.

    Attributes:
        axis: An index; None is the primary key.
        start, stop: start <= value < stop.
        on_move: Called after they have changed; None while no router uses it.
    """

    __slots__ = ("axis", "on_move", "start", "stop", "table_id")

    def __init__(self, table_id: int, axis: Axis | None, start: bytes, stop: bytes) -> None:
        self.table_id = table_id
        self.axis = axis
        self.start = start
        self.stop = stop
        self.on_move: Callable[[], None] | None = None

    def move(self, start: bytes, stop: bytes) -> None:
        if (start, stop) != (self.start, self.stop):
            self.start, self.stop = start, stop
            if self.on_move is not None:
                self.on_move()


Route = Everywhere | WholeTable | OneKey | OneValue | ValueRange | MovingRange


# ---------------------------------------------------------------------------------------------------------------


class View(Protocol):
    """See the head of this file.

    Attributes:
        kind: In one word, for `explain()`.
        is_stateful: It has to be seeded, and then given every change on its routes.
    """

    kind: str
    is_stateful: bool

    def tables(self) -> Sequence[TableInfo]:
        """The tables that it reads; empty for all tables."""

    def indexes(self) -> Sequence[tuple[int, str]]:
        """(table id, name) of each index that the query names. Without it, the result would have no meaning."""

    def routes(self) -> Sequence[Route]:
        """Which changes concern it; empty if none ever will."""

    def seed(self, snapshot: Snapshot) -> None:
        """Make the state from a snapshot, to advance from there. A view without state does nothing.

        Raises:
            QueryError: A filter or a map fails for a document.
        """

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        """The result, in order: that of the snapshot, or for a view with state the present one.

        Documents are read before this returns. Values may be computed while the result is iterated, so the iteration
        may raise errors of a filter or a map.
        """

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        """Take in the next change and report its effect. No document makes it raise, unless failures are to be
        raised."""

    @property
    def documents_held(self) -> int:
        """Documents in memory."""

    def describe(self) -> dict[str, Any]:
        """For `explain()`."""


# The present items of an ordered view; None for a result without offsets; for a union, one entry for each member.
Order = list[Initial] | None | tuple["Order", ...]


def present_order(view: View) -> Order:
    """The present lists that offsets of the view count in."""
    items = getattr(view, "items", None)
    if items is not None:
        return items()  # type: ignore[no-any-return]
    members = getattr(view, "members", None)
    return None if members is None else tuple(present_order(member) for member in members)
