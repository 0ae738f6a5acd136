"""TypedFeed: the feed of a table with a type. Its events have objects of the type in `old_val` and `new_val`.

The view of the feed passes over documents that do not fit the type (`reactdb/typed_table.py` adds a step that checks them), so
that the offsets of a list are right. Only the feed of one key can still meet such a document: there it counts as missing.

ReQL's terms after `changes()` work on plain documents: events become objects on their way out, as the last term.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from reactdb.feeds.consumers import Flow
from reactdb.feeds.feed import Feed, copy_feed
from reactdb.query import ConcatMap, Filter, HasFields, Limit, Skip, Step

KEEP_EVENTS = (Filter, HasFields, Limit, Skip)
"""Terms whose results are events."""


class EventReader(Protocol):
    """Makes objects of the documents in events."""

    def read_or_log(self, document: dict[str, Any]) -> Any: ...


class TypedFeed(Feed):
    """See the head of this file."""

    _reader: EventReader

    @classmethod
    def of_feed(cls, feed: Feed, reader: EventReader) -> TypedFeed:
        """The feed with objects in its events."""
        typed = copy_feed(feed, cls)
        typed._reader = reader
        return typed

    def _of(self, flow: Flow, scheduler: Any) -> Feed:
        feed = super()._of(flow, scheduler)
        assert isinstance(feed, TypedFeed)
        feed._reader = self._reader
        return feed

    def _then(self, term: Step) -> Feed:
        feed = super()._then(term)
        return feed if isinstance(term, KEEP_EVENTS) else copy_feed(feed, Feed)

    def union(self, *others: Feed) -> Feed:
        united = super().union(*others)
        is_typed = all(isinstance(other, TypedFeed) and other._reader is self._reader for other in others)
        return united if is_typed else copy_feed(united, Feed)

    @property
    def _delivered(self) -> Flow:
        return self._flow.then(ConcatMap(Conversion(self._reader)))


class Conversion:
    """The last term for one subscriber: the items to deliver for each item."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader

    def __call__(self, item: Any) -> Iterable[Any]:
        if type(item) is list:
            events = [event for one in item for event in self._convert(one)]
            return (events,) if events else ()
        return self._convert(item)

    def _convert(self, event: Any) -> Iterable[Any]:
        if type(event) is not dict:
            return (event,)
        converted, misfits, values = dict(event), 0, 0
        for name in ("old_val", "new_val"):
            document = event.get(name)
            if isinstance(document, dict):
                value = self._reader.read_or_log(document)
                misfits += value is None
                values += value is not None
                converted[name] = value
        # Nothing was there, and nothing is.
        is_empty = misfits and not values and "old_val" in event
        return () if is_empty else (converted,)
