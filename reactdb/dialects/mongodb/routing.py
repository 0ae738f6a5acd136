"""Routing: from the values of a change to the streams whose `$match` may select its event.

    documentKey._id     the key of the document
    fullDocument.a.b    the value at that path after the change; of arrays there, each element
    operationType       the kind of the change
    ns.db, ns.coll      the namespace: by the tables of a stream

If a `$match` requires one of these to be in a list of values or in a range, its stream is found through these values and not
tested on each event. The values are index keys of MongoDB's (`index_keys`), so a route finds the same documents as an index. An
`$or` has routes if each of its parts has. Null also stands for documents without the field, and for events without a document.

Events of collections as such, like `drop`, go to all streams. So do all events if an image is required, because a missing image
is an error of any event; and if events are expanded.

Rule of this file: a route may lead to an event in vain, and never misses an event that the `$match` selects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from reactdb.change import DELETE, INSERT, REPLACE, UPDATE, Change
from reactdb.dialects.mongodb.entries import id_shown, is_spelled
from reactdb.dialects.mongodb.field_names import parse_name
from reactdb.dialects.mongodb.index_keys import FieldBound, index_keys_of, value_bytes
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.query_plan import MOST_POINTS, Demand, bounds_of, points_of
from reactdb.dialects.mongodb.stream_options import StreamOptions
from reactdb.dialects.mongodb.values import native_value
from reactdb.feeds.views.base import OneValue, Route, ValueRange
from reactdb.values.value import Value

__all__ = ["EVERYTHING", "EventAxis", "EventLookup", "StreamInterest", "interest_of"]

KEY: Final = "documentKey"
DOCUMENT: Final = "fullDocument"
OPERATION: Final = "operationType"
_ID: Final = "_id"
# Operations with events that may lack the document.
UPDATED: Final = "update"
DELETED: Final = "delete"

# The possible operations of an event, by the kind of its change: an update without a description is a replacement.
_OPERATIONS: Final = {
    kind: [value_bytes(name) for name in names]
    for kind, names in {
        INSERT: ["insert"],
        UPDATE: ["update", "replace"],
        REPLACE: ["replace"],
        DELETE: ["delete"],
    }.items()
}


class EventAxis(Value):
    """One of the first three lines in the head of this file: an axis of a router.

    Attributes:
        field: KEY, DOCUMENT or OPERATION.
        path: The path in it; for KEY, below `_id`.
    """

    __slots__ = ("field", "path")

    looks_inside = False

    def __init__(self, field: str, path: tuple[str, ...] = ()) -> None:
        self.field = field
        self.path = path

    def within(self, primary_key: str) -> EventAxis:
        """The same axis in a table with this primary key, whose name changes places with `_id`."""
        if self.field == DOCUMENT and self.path[0] == primary_key:
            return EventAxis(DOCUMENT, (_ID, *self.path[1:]))
        return self

    def values(self, change: Change) -> Sequence[bytes]:
        if self.field == OPERATION:
            return _OPERATIONS[change.kind_code]
        if self.field == KEY:
            key = change.key
            # A key that is shown as a text is looked up by that.
            shown = native_value(id_shown(key)) if is_spelled(key) else key
            document: Mapping[str, Any] | None = {"": shown}
            path = ("", *self.path)
        else:
            document, path = change.new or change.new_val, self.path
        if document is None:
            return ()
        return [one.data for one in index_keys_of(document, {"paths": (path,)})]


class EventLookup(NamedTuple):
    """Values on an axis, for finding events.

    Attributes:
        axis: The axis.
        points: The values, or
        bound: their range.
    """

    axis: EventAxis
    points: tuple[bytes, ...] = ()
    bound: FieldBound | None = None

    def routes(self, table_id: int, primary_key: str) -> list[Route]:
        """For a router of changes."""
        axis = self.axis.within(primary_key)
        if self.bound is not None:
            return [ValueRange(table_id, axis, *self.bound)]
        return [OneValue(table_id, axis, point) for point in self.points]

    def find_changes(self, by_value: Mapping[bytes, Sequence[Change]]) -> list[Change]:
        """The changes with these values, out of changes by value; some perhaps twice."""
        if self.bound is None:
            return [change for point in self.points for change in by_value.get(point, ())]
        start, stop = self.bound
        return [change for value, changes in by_value.items() if start <= value < stop for change in changes]


class StreamInterest(NamedTuple):
    """The changes of documents to evaluate for a stream: all in its scope, or fewer.

    Attributes:
        lookups: The lookups that together find all of them; None if all changes are evaluated.
        dbs, colls: The names of databases and collections; None for all.
    """

    lookups: tuple[EventLookup, ...] | None = None
    dbs: frozenset[Any] | None = None
    colls: frozenset[Any] | None = None

    @property
    def has_names(self) -> bool:
        return self.dbs is not None or self.colls is not None

    @property
    def is_of_documents(self) -> bool:
        """A lookup depends on the document after the change."""
        return any(one.axis.field == DOCUMENT for one in self.lookups or ())

    def is_in(self, namespace: MongoNamespace | None) -> bool:
        """Whether it is about this collection."""
        return (
            namespace is not None
            and (self.dbs is None or namespace.db in self.dbs)
            and (self.colls is None or namespace.coll in self.colls)
        )

    def routes(self, table_id: int, primary_key: str) -> list[Route]:
        """For a router of changes."""
        return [
            route for one in dict.fromkeys(self.lookups or ()) for route in one.routes(table_id, primary_key)
        ]


EVERYTHING: Final = StreamInterest()


def interest_of(
    matches: Sequence[Mapping[str, Any]], options: StreamOptions, *, has_collation: bool
) -> StreamInterest:
    """The changes of interest to a stream.

    Args:
        matches: The filters of the leading `$match` stages.
        has_collation: Text is not compared by its bytes.
    """
    if options.is_expanded or "required" in (options.full_document, options.before_change):
        return EVERYTHING
    demand = Demand.of(*matches)
    names: dict[str, frozenset[Any]] = {}
    for path in ("ns.db", "ns.coll"):
        points = points_of(demand.conditions.get(path, ()), has_collation)
        if points is not None and None not in points:
            names[path] = frozenset(one for one in points if type(one) is str)
    best = _lookups(demand, has_collation)
    return StreamInterest(None if best is None else best[1], names.get("ns.db"), names.get("ns.coll"))


Cost = tuple[bool, bool, int]
"""Whether it leads to all of an operation's; whether it is a range; the number of values."""


def _lookups(demand: Demand, has_collation: bool) -> tuple[Cost, tuple[EventLookup, ...]] | None:
    """The cheapest lookups that find all events of a demand."""
    choices = []
    for path, own in demand.conditions.items():
        lookups = _lookups_on(path, own, demand, has_collation)
        if lookups:
            choices.append((_cost(lookups), lookups))
    for choice in demand.choices:
        parts = [_lookups(one, has_collation) for one in demand.branches(choice)]
        together = tuple({lookup: None for part in parts if part is not None for lookup in part[1]})
        if None not in parts and sum(len(one.points) for one in together) <= MOST_POINTS:
            choices.append((_cost(together), together))
    return min(choices, key=itemgetter(0), default=None)


def _cost(lookups: Sequence[EventLookup]) -> Cost:
    return (
        any(one.axis.field == OPERATION for one in lookups),
        any(one.bound is not None for one in lookups),
        sum(len(one.points) for one in lookups),
    )


def _lookups_on(
    path: str, conditions: Sequence[tuple[str, Any]], demand: Demand, has_collation: bool
) -> tuple[EventLookup, ...]:
    """Lookups that find all events under the conditions on a path; empty if there are none."""
    axis = _axis(path)
    if axis is None:
        return ()
    points = points_of(conditions, has_collation)
    if points is None or len(points) > MOST_POINTS:
        own = path.partition(".")[2]
        return tuple(EventLookup(axis, bound=bound) for bound in bounds_of(own, conditions, has_collation))
    lookup = EventLookup(axis, tuple({value_bytes(native_value(one)) for one in points}))
    if None in points and path.startswith(f"{DOCUMENT}."):
        # An event without its document has no such field.
        operations = points_of(demand.conditions.get(OPERATION, ()), has_collation)
        without = [
            value_bytes(name) for name in (UPDATED, DELETED) if operations is None or name in operations
        ]
        return (lookup, EventLookup(EventAxis(OPERATION), tuple(without))) if without else (lookup,)
    return (lookup,)


def _axis(path: str) -> EventAxis | None:
    field, *parts = parse_name(path).split(".")
    if field == OPERATION and not parts:
        return EventAxis(OPERATION)
    if field in (KEY, DOCUMENT) and parts[:1] == [_ID]:
        # Each whole document has the `_id` of its key.
        return EventAxis(KEY, tuple(parts[1:]))
    return EventAxis(DOCUMENT, tuple(parts)) if field == DOCUMENT and parts else None
