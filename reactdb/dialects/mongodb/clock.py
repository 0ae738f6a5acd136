"""ClusterClock: cluster times as values. `$$CLUSTER_TIME` is the newest commit's, and an empty timestamp is given the time.

`Timestamp(0, 0)` in a field of a document that is inserted, or that takes the place of another one, means the server's time.
`_id` stays as it is, and so does what lies deeper.

Rule of this file: it gives times, and knows no command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from time import time
from typing import Any, Final

from bson.timestamp import Timestamp

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.points import cluster_time
from reactdb.dialects.mongodb.tokens import INCREMENTS
from reactdb.session import Session

__all__ = ["ClusterClock", "mentions_cluster_time", "timeless"]

EMPTY: Final = Timestamp(0, 0)
_NAME: Final = "$$CLUSTER_TIME"


def mentions_cluster_time(spec: Any) -> bool:
    """Whether an expression, a query or a pipeline has `$$CLUSTER_TIME` somewhere."""
    if isinstance(spec, str):
        return spec.startswith(_NAME)
    if isinstance(spec, Mapping):
        return any(map(mentions_cluster_time, spec.values()))
    return isinstance(spec, list | tuple) and any(map(mentions_cluster_time, spec))


def timeless(query: Any) -> Any:
    """
    Raises:
        MongoError: 51144, a query names the cluster time where MongoDB has none.
    """
    if mentions_cluster_time(query):
        raise MongoError(51144, "$$CLUSTER_TIME is not there in this query")
    return query


class ClusterClock:
    """The clock of a file. Any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = Lock()
        self._last = (0, 0)

    def newest(self) -> Timestamp:
        """The cluster time of the newest commit that is seen here."""
        return Timestamp(*self._newest()[1])

    def next(self) -> Timestamp:
        """The time: after the newest commit, and after whatever was given before."""
        seq, (second, _) = self._newest()
        with self._lock:
            place = max(int(time()), second), (seq + 1) % INCREMENTS
            if place <= self._last:
                place = self._last[0], self._last[1] + 1
            self._last = place
        return Timestamp(*place)

    def ticks_of(self, update: Any) -> Callable[[], Timestamp] | None:
        """What gives the timestamps of an update's `$currentDate`; None where it has none."""
        if not isinstance(update, Mapping) or "$currentDate" not in update:
            return None
        self.next()
        return self.tick

    def tick(self) -> Timestamp:
        """The time after whatever was given before. No commit is looked for, so that a write can ask for it while it is carried
        out; whoever wants it to be after the newest commit asks for `next` before."""
        with self._lock:
            self._last = max(int(time()), self._last[0]), self._last[1] + 1
            return Timestamp(*self._last)

    def stamped(self, document: dict[str, Any]) -> dict[str, Any]:
        """A document with the time in the place of its empty timestamps. It is not changed; one without any is given back."""
        for value in document.values():
            if type(value) is Timestamp and value == EMPTY:
                return {
                    name: self.next()
                    if type(value) is Timestamp and value == EMPTY and name != "_id"
                    else value
                    for name, value in document.items()
                }
        return document

    def _newest(self) -> tuple[int, tuple[int, int]]:
        """The newest seq, and the cluster time of its commit."""
        with self._session.read() as snapshot:
            seq = snapshot.end()[0]
            entry = snapshot.entry(seq) if seq else None
        return seq, (int(time()), 1) if entry is None else cluster_time(entry)
