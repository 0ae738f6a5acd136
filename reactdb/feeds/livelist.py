"""LiveList: a list that follows an ordered selection, for user interfaces to bind to.

    board = LiveList(games.order_by(desc("score")).limit(10))
    board[0]                                   the leader, now
    board.subscribe(lambda edits: redraw())    called once for each commit, after the list has changed
    board.state, board.error                   whether it still follows, or the error that stopped it

When the feed ends (its table is dropped, the file is moved, the database is closed), the list keeps its last
documents, and each subscriber is notified of the end once.

Rule of this file: the list changes by the feed's events and in no other way: delete at `old_offset`, insert at
`new_offset`. The edits of one commit are seen whole or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from threading import get_ident
from types import TracebackType
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from reactdb.async_functions import refuse_async
from reactdb.errors import INTERRUPTS, FeedOverflow, ForkedDatabase, UsageError
from reactdb.feeds.feed import Feed, in_batches
from reactdb.feeds.rx import make_observable
from reactdb.logs import logger
from reactdb.store.file import fork
from reactdb.type_variables import Document

Event = dict[str, Any]
Documents = TypeVar("Documents", covariant=True)

# The states of a list. Each of the last two is final: the list keeps its last documents.
LIVE, FAILED, CLOSED = "live", "failed", "closed"


class Watchable(Protocol[Documents]):
    """A selection, as far as it matters here."""

    def __iter__(self) -> Iterator[Documents]: ...

    def changes(self, *, include_initial: bool, include_offsets: bool, on_overflow: str) -> Feed[Any]: ...


class Edits(list[Event]):
    """The edits that one commit made to a list: its events, in order. Each deletes at `old_offset`, and then inserts
    at `new_offset`.

    For a commit with one edit, `edits["new_val"]` is that of the edit.
    """

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, str):
            (edit,) = self
            return edit[place]
        return super().__getitem__(place)


class Listener(NamedTuple):
    """One subscriber of a list."""

    callback: Callable[[Edits], object]
    before: Callable[[Event], object] | None
    on_error: Callable[[Exception], object] | None
    on_completed: Callable[[], object] | None


def apply(edit: Event, documents: list[Document]) -> None:
    """Carry out an edit."""
    old_offset, new_offset = edit.get("old_offset"), edit.get("new_offset")
    if old_offset is not None:
        del documents[old_offset]
    if new_offset is not None:
        documents.insert(new_offset, edit["new_val"])


def call(listener: Callable[..., object], *arguments: Any) -> None:
    """Call a listener. Its exceptions are logged and have no other effect, unless they are interrupts."""
    try:
        listener(*arguments)
    except INTERRUPTS:
        raise
    except BaseException:
        logger.exception("a subscriber of a LiveList raised")


class LiveList(Sequence[Document]):
    """A read-only sequence of documents, kept current. Documents are shared and refuse to be changed.

    Thread safety: may be read from any thread; each read sees the list between two commits. Several reads that must see
    the same list take a copy first: `list(board)`.
    """

    def __init__(self, feed: Feed | Watchable[Document], *, scheduler: Any = None) -> None:
        """Follow a feed opened with `include_initial` and `include_offsets`, or an ordered selection, which is opened so.

        Args:
            scheduler: Where the list changes and its subscribers are called; None: on the committing thread.

        Raises:
            UnsupportedFeed: The selection has no order.
            UsageError: The feed has no offsets, or no initial values.
        """
        if not isinstance(feed, Feed):
            # A dropped event could never be made up for.
            feed = feed.changes(include_initial=True, include_offsets=True, on_overflow="spill")
        elif not feed.is_list:
            raise UsageError(
                "LiveList needs a feed with include_initial=True and include_offsets=True, and no terms after it"
            )
        # Held while the list is read, or changed without calls of user code in between.
        self._lock = threading.Lock()
        self._documents: list[Document] = []
        # The thread that calls hooks, and the list as that thread sees it.
        self._stepping: tuple[int, list[Document]] | None = None
        self._listeners: dict[object, Listener] = {}
        self._state = LIVE
        self._error: Exception | None = None
        self._generation = fork.generation
        self._subscription = in_batches(feed).subscribe(
            self._apply, self._fail, self._complete, scheduler=scheduler
        )

    # -----------------------------------------------------------------------------------------------------------
    # Following

    def _apply(self, events: list[Event]) -> None:
        """Apply the edits of one commit. Called by one thread at a time."""
        if "error" in events[0]:
            raise FeedOverflow(int(events[0]["error"].split()[-2]))
        if "state" in events[0]:
            return
        edits, listeners = Edits(events), list(self._listeners.values())
        hooks = [one.before for one in listeners if one.before is not None]
        if hooks:
            self._step(edits, hooks)
        else:
            with self._lock:
                for edit in edits:
                    apply(edit, self._documents)
        for one in listeners:
            call(one.callback, edits)

    def _step(self, edits: Edits, hooks: Sequence[Callable[[Event], object]]) -> None:
        """Edit by edit, on a copy: a hook reads the list before its edit, and others see the whole commit at once."""
        documents = list(self._documents)
        self._stepping = get_ident(), documents
        try:
            for edit in edits:
                for hook in hooks:
                    call(hook, edit)
                apply(edit, documents)
            with self._lock:
                self._documents = documents
        finally:
            self._stepping = None

    def _fail(self, error: Exception) -> None:
        self._end(FAILED, error)

    def _complete(self) -> None:
        self._end(CLOSED, None)

    def _end(self, state: str, error: Exception | None) -> None:
        """Notify each subscriber of the end, once. A later end changes nothing."""
        with self._lock:
            if self._state != LIVE:
                return
            self._state, self._error = state, error
            listeners = list(self._listeners.values())
            self._listeners.clear()
        if error is not None and not any(one.on_error is not None for one in listeners):
            logger.error("a LiveList no longer follows its selection: %s: %s", type(error).__name__, error)
        for one in listeners:
            self._send_end(one)

    def _send_end(self, listener: Listener) -> None:
        if self._error is None:
            if listener.on_completed is not None:
                call(listener.on_completed)
        elif listener.on_error is not None:
            call(listener.on_error, self._error)

    @property
    def state(self) -> str:
        """`"live"`: it follows its selection. `"failed"`: it has stopped, and `error` says why. `"closed"`: it, or its database,
        was closed. A list that has stopped keeps its last documents."""
        return self._state if self.error is None else FAILED

    @property
    def error(self) -> Exception | None:
        """Why the list has stopped, such as FeedAborted where its table was dropped; None while it follows its selection, and
        after `close`. In a child of fork() it is ForkedDatabase: the list changes in the parent only."""
        if self._state == LIVE and self._generation != fork.generation:
            return ForkedDatabase(
                "this LiveList was made before fork(), and changes in the parent only; make another one in the child, from a "
                "database that reactdb.connect has opened there"
            )
        return self._error

    def subscribe(
        self,
        callback: Callable[[Edits], object],
        before: Callable[[Event], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        on_completed: Callable[[], object] | None = None,
    ) -> Callable[[], None]:
        """Call back once after each commit that changed the list, with its `Edits`. The list has all of them already.

        Args:
            before: Called before each of the edits, with its event. To this thread the list is then as the earlier
                edits have left it; to others it is as before the commit, until `callback` is called. For a model that
                must announce an insert, a removal or a move beforehand, such as Qt's.
            on_error: Called once with the error that has stopped the list, such as FeedAborted where its table was
                dropped; at once where that has happened already.
            on_completed: Called once, without arguments, when the list or its database is closed; at once where it is.

        Returns:
            A function that ends the subscription.
        """
        for one in (callback, before, on_error, on_completed):
            if one is not None:
                refuse_async(one, "subscribe", "write a plain function that starts a task")
        name, listener = object(), Listener(callback, before, on_error, on_completed)
        with self._lock:
            is_live = self._state == LIVE
            if is_live:
                self._listeners[name] = listener
        if not is_live:
            self._send_end(listener)

        def unsubscribe() -> None:
            self._listeners.pop(name, None)

        return unsubscribe

    @property
    def changes(self) -> Any:
        """The list's own notifications as an Observable of `Edits`. It fails with the error that has stopped the list, and
        completes when the list or its database is closed."""
        return make_observable(
            lambda on_next, on_error, on_completed: self.subscribe(
                on_next, on_error=on_error, on_completed=on_completed
            )
        )

    def close(self) -> None:
        """Follow no longer. The documents stay as they are. Subscribers are called with `on_completed`."""
        self._subscription.dispose()
        self._end(CLOSED, None)

    def __enter__(self) -> LiveList[Document]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def _visible_documents(self) -> list[Document]:
        """The list that this thread sees. With the lock."""
        stepping = self._stepping
        return stepping[1] if stepping is not None and stepping[0] == get_ident() else self._documents

    def __len__(self) -> int:
        with self._lock:
            return len(self._visible_documents())

    @overload
    def __getitem__(self, place: int) -> Document: ...

    @overload
    def __getitem__(self, place: slice) -> list[Document]: ...

    def __getitem__(self, place: int | slice) -> Document | list[Document]:
        with self._lock:
            return self._visible_documents()[place]

    def __iter__(self) -> Iterator[Document]:
        """The documents as they are now; changes during the loop are not seen."""
        with self._lock:
            return iter(list(self._visible_documents()))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (LiveList, list, tuple)):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        state = self.state
        return f"LiveList({list(self)!r}{'' if state == LIVE else f', {state}'})"
