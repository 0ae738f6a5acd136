"""ClusterClock: cluster times as values. `$$CLUSTER_TIME` is the newest commit's, and an empty timestamp becomes the current
time.

`Timestamp(0, 0)` in a field of an inserted document, or of a replacement, means the server's time. `_id` and nested fields stay
as they are.

Rule of this file: it returns times, and knows no command.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from threading import Lock
from typing import Any, Final

from bson.timestamp import Timestamp

from reactdb.clock import in_force
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.points import cluster_time
from reactdb.dialects.mongodb.times import now
from reactdb.dialects.mongodb.tokens import INCREMENTS
from reactdb.dialects.mongodb.values import is_document
from reactdb.session import Session

__all__ = ["ClusterClock", "mentions_cluster_time", "refuse_cluster_time"]

EMPTY: Final = Timestamp(0, 0)
_NAME: Final = "$$CLUSTER_TIME"


def mentions_cluster_time(spec: Any) -> bool:
    """Whether an expression, a query or a pipeline has `$$CLUSTER_TIME` somewhere."""
    if isinstance(spec, str):
        return spec.startswith(_NAME)
    if is_document(spec):
        return any(map(mentions_cluster_time, spec.values()))
    return isinstance(spec, (list, tuple)) and any(map(mentions_cluster_time, spec))


def refuse_cluster_time(query: Any) -> Any:
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
        """The cluster time of the newest commit in the file."""
        return Timestamp(*self._newest()[1])

    def next(self) -> Timestamp:
        """The time: after the newest commit, and after all times returned before."""
        seq, (second, _) = self._newest()
        with self._lock:
            place = max(self._second(), second), (seq + 1) % INCREMENTS
            if place <= self._last:
                place = self._last[0], self._last[1] + 1
            self._last = place
        return Timestamp(*place)

    def now(self) -> datetime:
        """The date of this moment: `$$NOW`."""
        with in_force(self._session.clock):
            return now()

    def _second(self) -> int:
        return self._session.clock.time_ns() // 1_000_000_000

    def ticks_of(self, update: Any) -> Callable[[], Timestamp] | None:
        """The source of timestamps for an update's `$currentDate`; None without one."""
        if not is_document(update) or "$currentDate" not in update:
            return None
        self.next()
        return self.tick

    def tick(self) -> Timestamp:
        """A time after all times returned before. It does not read the newest commit, so a write can call it during its
        execution; call `next` first for a time after the newest commit."""
        with self._lock:
            self._last = max(self._second(), self._last[0]), self._last[1] + 1
            return Timestamp(*self._last)

    def fill_timestamps(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document with the time in place of its empty timestamps. It is a copy; without such timestamps, the same object."""
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
        return seq, (self._second(), 1) if entry is None else cluster_time(entry)
