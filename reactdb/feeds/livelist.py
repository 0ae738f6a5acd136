"""LiveList: a list that follows an ordered selection: what a user interface binds to.

    board = LiveList(games.order_by(desc("score")).limit(10))
    board[0]                                   the leader, now
    board.subscribe(lambda event: redraw())    called after each change, which is in the list already

Rule of this file: the list changes by the feed's events and in no other way: delete at `old_offset`, insert at `new_offset`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, overload

from reactdb.errors import FeedOverflow, UsageError
from reactdb.feeds.feed import Feed
from reactdb.feeds.rx import observable
from reactdb.logs import logger

Document = Any
Event = dict[str, Any]


class Watchable(Protocol):
    """A selection, as far as it matters here."""

    def changes(self, *, include_initial: bool, include_offsets: bool, on_overflow: str) -> Feed: ...


class LiveList(Sequence[Document]):
    """A read-only sequence of documents, kept current. Documents are shared and refuse to be changed.

    Attributes:
        error: What ended it, such as FeedAborted; None while it lives, and after `close`.

    Thread safety: may be read from any thread; each read sees the list between two changes. Several reads that must see
    the same list take a copy first: `list(board)`.
    """

    def __init__(self, feed: Feed | Watchable, *, scheduler: Any = None) -> None:
        """Follow a feed opened with `include_initial` and `include_offsets`, or an ordered selection, which is opened so.

        Args:
            scheduler: Where the list changes and its subscribers are called; None: on the committing thread.

        Raises:
            UnsupportedFeed: The selection has no order.
            UsageError: The feed tells no offsets, or no initial values.
        """
        if not isinstance(feed, Feed):
            # What is dropped could never be made good again.
            feed = feed.changes(include_initial=True, include_offsets=True, on_overflow="spill")
        elif not feed.tells_a_whole_list:
            raise UsageError(
                "LiveList needs a feed with include_initial=True and include_offsets=True, and no terms after it"
            )
        self._lock = threading.Lock()
        self._documents: list[Document] = []
        self._subscribers: dict[object, Callable[[Event], None]] = {}
        self.error: Exception | None = None
        self._subscription = feed.subscribe(self._apply, self._end, scheduler=scheduler)

    # -----------------------------------------------------------------------------------------------------------
    # Following

    def _apply(self, event: Event) -> None:
        if "error" in event:
            raise FeedOverflow(int(event["error"].split()[-2]))
        if "state" in event:
            return
        old_offset, new_offset = event.get("old_offset"), event.get("new_offset")
        with self._lock:
            if old_offset is not None:
                del self._documents[old_offset]
            if new_offset is not None:
                self._documents.insert(new_offset, event["new_val"])
        for callback in list(self._subscribers.values()):
            try:
                callback(event)
            except Exception:
                logger.exception("a subscriber of a LiveList raised")

    def _end(self, error: Exception) -> None:
        self.error = error

    def subscribe(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call back after each change of the list, with its event. Returns what ends that."""
        name = object()
        self._subscribers[name] = callback

        def unsubscribe() -> None:
            self._subscribers.pop(name, None)

        return unsubscribe

    @property
    def changes(self) -> Any:
        """The list's own notifications as an Observable."""
        return observable(self.subscribe)

    def close(self) -> None:
        """Follow no longer. The documents stay as they are."""
        self._subscription.dispose()
        self._subscribers.clear()

    def __enter__(self) -> LiveList:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def __len__(self) -> int:
        return len(self._documents)

    @overload
    def __getitem__(self, place: int) -> Document: ...

    @overload
    def __getitem__(self, place: slice) -> list[Document]: ...

    def __getitem__(self, place: int | slice) -> Document | list[Document]:
        with self._lock:
            return self._documents[place]

    def __iter__(self) -> Iterator[Document]:
        """The documents as they are now; changes during the loop are not seen."""
        with self._lock:
            return iter(list(self._documents))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (LiveList, list, tuple)):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LiveList({list(self)!r})"
