"""Routing: by which values a change of a document finds the streams whose `$match` its event may pass.

    documentKey._id     the key of the document
    fullDocument.a.b    what the document has at that path after the change; of arrays there, each element
    operationType       what was done to it
    ns.db, ns.coll      where: by the tables that a stream reads at all

A `$match` that wants one of these to be one of some values, or in a range, is looked up by them and not tested on each event. The
values are index keys of MongoDB's (`index_keys`), so what is found is what an index would lead to.

Events of collections as such, as `drop`, go to everybody. So do all events where an image is required, because that it is missing
is an error of any event; and where events are expanded.

Rule of this file: a route may lead to an event in vain, and never past one that the `$match` passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from reactdb.change import DELETE, INSERT, REPLACE, UPDATE, Change
from reactdb.dialects.mongodb.ids import IdValue
from reactdb.dialects.mongodb.index_keys import FieldBound, found_keys, value_bytes
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.planning import MOST_POINTS, bound_of, conditions_of, points_of
from reactdb.dialects.mongodb.stream_options import StreamOptions
from reactdb.dialects.mongodb.values import native_value
from reactdb.feeds.views.base import OneValue, Route, ValueRange
from reactdb.values.value import Value

__all__ = ["EVERYTHING", "EventAxis", "StreamInterest", "interest_of"]

KEY: Final = "documentKey"
DOCUMENT: Final = "fullDocument"
OPERATION: Final = "operationType"
_ID: Final = "_id"

# What a change of a kind may be told as: an update that no description is found for is a replacement.
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
    """One of the first three of the head of this file: an axis of a router.

    Attributes:
        field: KEY, DOCUMENT or OPERATION.
        path: Where in it, below `_id` of the key.
    """

    __slots__ = ("field", "path")

    looks_inside = False

    def __init__(self, field: str, path: tuple[str, ...] = ()) -> None:
        self.field = field
        self.path = path

    def within(self, primary_key: str) -> EventAxis:
        """The same in a table with this primary key, whose name changes places with `_id`."""
        if self.field == DOCUMENT and self.path[0] == primary_key:
            return EventAxis(DOCUMENT, (_ID, *self.path[1:]))
        return self

    def values(self, change: Change) -> Sequence[bytes]:
        if self.field == OPERATION:
            return _OPERATIONS[change.kind_code]
        if self.field == KEY:
            key = change.key
            document: Mapping[str, Any] | None = {"": key.value if type(key) is IdValue else key}
            path = ("", *self.path)
        else:
            document, path = change.new or change.new_val, self.path
        if document is None:
            return ()
        return [one.data for one in found_keys(document, {"paths": (path,)})]


class StreamInterest(NamedTuple):
    """Which changes of documents a stream evaluates: all in its scope, unless it says less.

    Attributes:
        axis: By which they are found; None where all are.
        points: The values on it, or
        bound: their range.
        dbs, colls: The names of databases and collections; None for all.
    """

    axis: EventAxis | None = None
    points: tuple[bytes, ...] = ()
    bound: FieldBound | None = None
    dbs: frozenset[Any] | None = None
    colls: frozenset[Any] | None = None

    @property
    def has_names(self) -> bool:
        return self.dbs is not None or self.colls is not None

    def is_in(self, namespace: MongoNamespace | None) -> bool:
        """Whether it is about this collection."""
        return (
            namespace is not None
            and (self.dbs is None or namespace.db in self.dbs)
            and (self.colls is None or namespace.coll in self.colls)
        )

    def routes(self, table_id: int, primary_key: str) -> list[Route]:
        """For a router of changes."""
        if self.axis is None:
            return []
        axis = self.axis.within(primary_key)
        if self.bound is not None:
            return [ValueRange(table_id, axis, *self.bound)]
        return [OneValue(table_id, axis, point) for point in self.points]

    def found(self, by_value: Mapping[bytes, Sequence[Change]]) -> list[Change]:
        """The changes that it is about, of some that are sorted by their values; some perhaps twice."""
        if self.bound is None:
            return [change for point in self.points for change in by_value.get(point, ())]
        start, stop = self.bound
        return [change for value, changes in by_value.items() if start <= value < stop for change in changes]


EVERYTHING: Final = StreamInterest()


def interest_of(
    matches: Sequence[Mapping[str, Any]], options: StreamOptions, *, has_collation: bool
) -> StreamInterest:
    """What a stream is about.

    Args:
        matches: The filters of the `$match` stages with which its pipeline begins.
        has_collation: Text is not compared by its bytes.
    """
    if options.is_expanded or "required" in (options.full_document, options.before_change):
        return EVERYTHING
    conditions = conditions_of(*matches)
    best: tuple[tuple[bool, bool, int], StreamInterest] | None = None
    names: dict[str, frozenset[Any]] = {}
    for path, own in conditions.items():
        points = points_of(own, has_collation)
        if path in ("ns.db", "ns.coll"):
            if points is not None and None not in points:
                names[path] = frozenset(one for one in points if type(one) is str)
            continue
        axis = _axis(path)
        # Of what may be missing, null says nothing: then it would be equal.
        if axis is None or (points is not None and None in points and path != f"{KEY}.{_ID}"):
            continue
        found = StreamInterest(axis)
        if points is not None and len(points) <= MOST_POINTS:
            found = found._replace(points=tuple({value_bytes(native_value(one)) for one in points}))
        else:
            found = found._replace(bound=bound_of(own, has_collation))
            if found.bound is None:
                continue
        cost = (axis.field == OPERATION, found.bound is not None, len(found.points))
        if best is None or cost < best[0]:
            best = cost, found
    interest = EVERYTHING if best is None else best[1]
    return interest._replace(dbs=names.get("ns.db"), colls=names.get("ns.coll"))


def _axis(path: str) -> EventAxis | None:
    field, *parts = path.split(".")
    if field == OPERATION and not parts:
        return EventAxis(OPERATION)
    if field in (KEY, DOCUMENT) and parts[:1] == [_ID]:
        # Each whole document has the `_id` of its key.
        return EventAxis(KEY, tuple(parts[1:]))
    return EventAxis(DOCUMENT, tuple(parts)) if field == DOCUMENT and parts else None
