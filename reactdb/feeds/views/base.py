"""View: a query result kept up to date. It is seeded, it advances change by change, and it reports deltas.

A view that needs no memory to tell what a change does to its result (a table, a filter, one key) has none: both documents
are in the change. Others (an order with a limit, an aggregate) are seeded from a snapshot and advance from there, without a
gap.

Rule of this file: a view is pure. It knows documents and changes; no thread, no clock, no lock, no subscriber. It may be
told of changes that do not concern it, and then reports nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol

from reactdb.change import Change
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.values.value import Value


class Delta:
    """What one change does to one place of a result.

    `Change` has the same `seq`, `old_val` and `new_val`: where a result is the table itself, the change is its own delta, and
    nothing is made. Elsewhere a delta is made once and shared by all who are told.

    Attributes:
        change: What caused it; of several that were squashed, the last.
        old_val, new_val: Result values, after every filter and map; None where the result has no such value.
        old_offset, new_offset: For ordered results: delete at `old_offset` first, then insert at `new_offset`.
        identity: Names the place in the result, so that what happens to it can be squashed; None for the document's key.
        group: The value of the group, in a list, where the result is grouped; None elsewhere.
        is_move: Only offsets changed, or a null came or went: nothing to tell those who did not ask for offsets.
        leaving: Names the place that `old_val` had, where that is another than `identity`; None where it is not.
        member: Of a union: the number of the member that reports it.
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


def identity_of(delta: AnyDelta) -> Hashable:
    """The place in the result that the delta is about."""
    if type(delta) is Delta:
        if delta.identity is not None:
            return delta.identity
        change = delta.change
    else:
        change = delta  # type: ignore[assignment]
    return (change.table_id, change.key_bytes)


class Initial:
    """One value of a result as it was found on subscribing."""

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
    """How a view that has run out of documents reads more of them while it advances.

    Attributes:
        is_behind: What it reads is long past, and dear: better to ask for more than to ask again.
    """

    is_behind: bool

    def at(self, seq: int) -> Snapshot:
        """The documents exactly as of `seq`, the change that the view is being told of."""


# ---------------------------------------------------------------------------------------------------------------
# Routes: which changes concern a view


class Axis(Protocol):
    """Something that documents can be told apart by: a field, an index. Equal axes are equal as dict keys.

    Attributes:
        looks_inside: Its values are in the documents, and nowhere else.
    """

    @property
    def looks_inside(self) -> bool: ...

    def values(self, change: Change) -> Sequence[bytes]:
        """The key bytes that the document has on this axis before or after the change; one may come twice.

        Raises:
            Unroutable: What the change wrote has none, because it cannot be computed.
        """


class Unroutable(Exception):
    """The document that a change wrote has no value on an axis, because of an error: it meets no condition on that value.

    Attributes:
        values: Those that it has all the same, before the change.
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


class Horizon:
    """Changes of documents with a value of an index, or with a key, up to where a view looks: a range that moves with it.

    Attributes:
        axis: An index; None is the primary key.
        start, stop: start <= value < stop.
        on_move: Called after they have changed; None while nobody routes by it.
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


Route = Everywhere | WholeTable | OneKey | OneValue | ValueRange | Horizon


# ---------------------------------------------------------------------------------------------------------------


class View(Protocol):
    """See the head of this file.

    Attributes:
        kind: In one word, for `explain()`.
        is_stateful: It has to be seeded, and then hears of every change on its routes.
    """

    kind: str
    is_stateful: bool

    def tables(self) -> Sequence[TableInfo]:
        """The tables it reads; none for all of them."""

    def indexes(self) -> Sequence[tuple[int, str]]:
        """(table id, name) of each index without which the result would mean nothing."""

    def routes(self) -> Sequence[Route]:
        """Which changes concern it. Without any, nothing ever will."""

    def seed(self, snapshot: Snapshot) -> None:
        """Take the snapshot for the state to advance from. Nothing to do for a view without state.

        Raises:
            QueryError: A filter or a map fails for one of the documents.
        """

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        """The result, in order: of the snapshot, or for a view with state as it stands.

        What is read is read before this returns; what is computed may be computed when it is asked for, and may then raise
        what a filter or a map raises.
        """

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        """Take in the next change and say what it does. Raises nothing that a document could cause."""

    @property
    def documents_held(self) -> int:
        """Documents in memory."""

    def describe(self) -> dict[str, Any]:
        """For `explain()`."""


# The items of an ordered view as it stands; None for a result without offsets; of a union, one of these for each member.
Order = list[Initial] | None | tuple["Order", ...]


def present_order(view: View) -> Order:
    """What offsets count in, as the view stands."""
    items = getattr(view, "items", None)
    if items is not None:
        return items()  # type: ignore[no-any-return]
    members = getattr(view, "members", None)
    return None if members is None else tuple(present_order(member) for member in members)
