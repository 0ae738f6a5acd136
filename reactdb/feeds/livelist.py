"""LiveList: a list that follows a selection, for user interfaces to bind to.

    board = games.order_by(desc("score")).limit(10).live()
    board[0]                                   the leader, now
    board.subscribe(lambda edits: redraw())    called once for each commit, after the list has changed
    board.selection = games.order_by("name")   from now on the list follows another selection
    board.state, board.error                   whether it follows, or the error that stopped it

When the feed ends (its table is dropped, the file is moved, the database is closed), the list keeps its last
documents, and each subscriber is notified of the end once.

Where the answer is read anew (another selection, or history that was lost), subscribers get the difference as one set of
edits. A selection that no feed can follow by offsets, such as a distinct, is asked again at each commit that concerns it.

Rule of this file: the list changes by edits and in no other way: delete at `old_offset`, insert at `new_offset`. The
edits of one commit are seen whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from reactdb.errors import UnsupportedFeed, UsageError, format_value
from reactdb.feeds.difference import compute_difference, identify
from reactdb.feeds.feed import Feed, request_of
from reactdb.feeds.live import Ending, Event, Listener, Live, open_feed
from reactdb.feeds.rerun import NewestAnswer, Rerun
from reactdb.query import (
    Aggregate,
    Between,
    Distinct,
    Filter,
    GetAll,
    Group,
    HasFields,
    OrderBy,
    Query,
    Step,
    Union,
)
from reactdb.type_variables import Document
from reactdb.values import codec

if TYPE_CHECKING:
    from reactdb.html_view import Preview

# Steps that leave documents as they are, and in any order.
OF_DOCUMENTS = (GetAll, Between, Filter, HasFields)


Documents = TypeVar("Documents", covariant=True)


class Watcher(Protocol):
    """Makes the feed of a query, or computes the query again and again: a session, or the watcher of a typed table, which
    makes objects of the documents."""

    def watch(self, query: Query, options: Mapping[str, Any]) -> Feed: ...

    def rerun_query(self, query: Query) -> Rerun: ...


class Watchable(Protocol[Documents]):
    """The parts of a selection that a live list uses."""

    @property
    def _query(self) -> Query: ...

    @property
    def _watcher(self) -> Watcher: ...

    def __iter__(self) -> Iterator[Documents]: ...


def parts_of(selection: Watchable[Any]) -> tuple[Query, Watcher]:
    """The query of a selection, and what watches it.

    Raises: UsageError: It is no selection.
    """
    try:
        return selection._query, selection._watcher
    except AttributeError:
        raise UsageError(
            f"a live result follows a selection, such as db['todos'].filter(done=True), not {format_value(selection)}"
        ) from None


class Edits(list[Event]):
    """The edits that one commit made to a list: its events, in order. Each deletes at `old_offset`, and then inserts
    at `new_offset`.

    For a commit with one edit, `edits["new_val"]` is that of the edit.
    """

    @property
    def origin(self) -> str | None:
        """The name of the commit's writer. None: the writer gave no name, or the edits are the difference between two results
        (another selection, a feed with `squash`), with several writers or none."""
        origins = {event.get("origin") for event in self}
        return origins.pop() if len(origins) == 1 else None

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, str):
            (edit,) = self
            return edit[place]
        return super().__getitem__(place)


def apply(edit: Event, documents: list[Document]) -> None:
    """Carry out an edit."""
    old_offset, new_offset = edit.get("old_offset"), edit.get("new_offset")
    if old_offset is not None:
        del documents[old_offset]
    if new_offset is not None:
        documents.insert(new_offset, edit["new_val"])


def is_single(query: Query) -> bool:
    """Whether the result is one value: a document by its key, a count, another aggregate without groups."""
    if query.is_point or (query.is_nth and not query.is_grouped):
        return True
    return isinstance(query.steps[-1] if query.steps else None, Aggregate) and not any(
        isinstance(step, Group) for step in query.steps
    )


def in_some_order(query: Query) -> Query:
    """The query; where it has no order, in the order of its keys, and so has every member of a union."""
    steps: list[Step] = list(query.steps)
    if any(isinstance(step, OrderBy) for step in steps):
        return query
    # Before a map, whose values have no keys.
    place = next((at for at, step in enumerate(steps) if not isinstance(step, OF_DOCUMENTS)), len(steps))
    steps.insert(place, OrderBy((), None))
    for at, step in enumerate(steps):
        if isinstance(step, Union):
            steps[at] = Union(tuple(in_some_order(other) for other in step.others))
        elif isinstance(step, (Distinct, Group)):
            return query
    return Query(query.table, tuple(steps))


class LiveList(Live, Sequence[Document]):
    """A read-only sequence of documents, kept current. Documents are shared and refuse to be changed.

    With subscribers it lives as long as the database, like a subscription of a feed. Without subscribers, it is closed
    when the program no longer refers to it.

    Thread safety: may be read from any thread; each read sees the list between two commits. Several reads that must see
    the same list take a copy first: `list(board)`.
    """

    _name = "a LiveList"
    _kind = "live list"

    def __init__(
        self,
        selection: Feed | Watchable[Document],
        *,
        scheduler: Any = None,
        skip_origin: str | None = None,
        wait: bool = True,
    ) -> None:
        """Follow a selection, or a feed opened with `include_initial` and `include_offsets`.

        Args:
            selection: In the order of keys where it has none.
            scheduler: Where the list changes and its subscribers are called; None: the database's, or the committing thread.
            skip_origin: The list shows the commits of the writer with this origin, but subscribers are not called for them,
                because the program has made these edits to its own model already.
            wait: False: return at once in the state "loading". A thread reads the result, and it appears in the list where
                `scheduler` says. True: read the result before this returns (with a scheduler: begin to).

        Raises:
            TableNotFound, IndexNotFound: At once, also without `wait`.
            UsageError: The selection is one value: use its `live()`. Or the feed has no offsets or no initial values, or
                it squashes, which `skip_origin` excludes.
        """
        super().__init__(scheduler=scheduler, skip_origin=skip_origin, wait=wait)
        self._documents: list[Document] = []
        # The thread that calls hooks, and the list as that thread sees it.
        self._stepping: tuple[int, list[Document]] | None = None
        self._selection = selection
        # The field that identifies an element, for the difference between two results.
        self._primary_key, source = self._source_of(selection)
        self._following_key = self._primary_key
        self._follow(source)

    def _source_of(self, selection: Feed | Watchable[Any]) -> tuple[str, Feed | Rerun]:
        """The name of the primary key, and what is to be followed."""
        if isinstance(selection, Feed):
            request = request_of(selection)
            if not selection.is_list or request is None:
                raise UsageError(
                    "LiveList needs a feed with include_initial=True and include_offsets=True, and no terms after it; or pass "
                    "the selection itself"
                )
            if self._skip_origin is not None and request.options.squash_s is not None:
                raise UsageError(
                    "skip_origin and squash exclude each other for a list: an edit of a net difference may have several writers"
                )
            return _primary_key_of(
                request.engine.current_catalogue().live.get(request.query.table)
            ), open_feed(selection)
        query, watcher = parts_of(selection)
        if is_single(query):
            raise UsageError(
                "a LiveList follows a sequence, and this selection is one value: its live() has the value as .value"
            )
        try:
            options = {"include_initial": True, "include_offsets": True, "on_overflow": "spill"}
            feed = watcher.watch(in_some_order(query), options)
        except UnsupportedFeed:
            # A distinct, groups, a limit without an order, a step after a limit.
            rerun = watcher.rerun_query(query)
            return _primary_key_of(rerun.engine.current_catalogue().live.get(query.table)), rerun
        return self._source_of(feed)

    @property
    def primary_key(self) -> str:
        """The name of the primary key of the table that it follows."""
        return self._following_key

    @property
    def selection(self) -> Any:
        """What it follows. Assign another selection, and it follows that one: see `select`."""
        return self._selection

    @selection.setter
    def selection(self, selection: Feed | Watchable[Any]) -> None:
        self.select(selection)

    def select(self, selection: Feed | Watchable[Any]) -> None:
        """Follow another selection (or feed) from now on. The list keeps its documents until the new answer has been read, in
        the state "loading". Then it changes at once, and subscribers get the difference as one set of edits: elements with
        the same primary key stay or move.

        Inside a callback of this list, it happens when the callback has returned.

        Raises:
            UsageError: The list has stopped. Also every error of `LiveList`; it then goes on as before.
        """
        primary_key, source = self._source_of(selection)
        if self._is_over:
            raise UsageError(f"this LiveList is {self.state}, and follows nothing any more: make another one")
        self._selection = selection

        def switch() -> None:
            if not self._is_over:
                self._following_key = primary_key
                self._set_state("loading")
                self._restart(source)

        self._put(switch)

    # -----------------------------------------------------------------------------------------------------------
    # Taking things in: in the line, so one thread at a time

    def _take_initial(self, events: list[Event]) -> None:
        self._exchange([event["new_val"] for event in events], None)

    def _take_answer(self, answer: NewestAnswer) -> None:
        documents = answer.value
        if not isinstance(documents, list):
            raise UsageError("a LiveList follows a sequence, and this selection is one value")
        self._exchange([codec.freeze(document) for document in documents], answer.origin)

    def _exchange(self, documents: list[Document], origin: str | None) -> None:
        """Another whole answer: subscribers get the difference."""
        old_key, self._primary_key = self._primary_key, self._following_key
        is_heard = any(one.callback or one.before for one in list(self._listeners.values()))
        if not is_heard or self._is_own(origin):
            with self._lock:
                self._documents = documents
            return
        old = self._documents
        # The first answer is a list of arrivals, whatever their keys.
        identities = identify(documents, self._primary_key) if old else range(len(documents))
        edits = compute_difference(old, documents, identify(old, old_key), identities, origin)
        if edits:
            self._tell(Edits(edits), documents)

    def _take_commit(self, events: list[Event]) -> None:
        edits = Edits(events)
        if self._is_own(edits.origin):
            with self._lock:
                for edit in edits:
                    apply(edit, self._documents)
        else:
            self._tell(edits, None)

    def _tell(self, edits: Edits, result: list[Document] | None) -> None:
        """Carry out the edits, of which `result` is the result if it is known, and call subscribers."""
        hooks = [one.before for one in list(self._listeners.values()) if one.before is not None]
        if hooks:
            self._step(edits, hooks)
        elif result is not None:
            with self._lock:
                self._documents = result
        else:
            with self._lock:
                for edit in edits:
                    apply(edit, self._documents)
        for one in self._present_listeners():
            if one.callback is not None:
                self._call(one.callback, edits)

    def _step(self, edits: Edits, hooks: Sequence[Callable[[Event], object]]) -> None:
        """Edit by edit, on a copy: a hook reads the list before its edit, and others see the whole commit at once."""
        documents = list(self._documents)
        self._stepping = get_ident(), documents
        try:
            for edit in edits:
                for hook in hooks:
                    self._call(hook, edit)
                apply(edit, documents)
            with self._lock:
                self._documents = documents
        finally:
            self._stepping = None

    # -----------------------------------------------------------------------------------------------------------
    # Subscribers

    def subscribe(
        self,
        callback: Callable[[Edits], object] | None = None,
        before: Callable[[Event], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        on_completed: Callable[[], object] | None = None,
        on_state: Callable[[str], object] | None = None,
    ) -> Ending:
        """Call back once after each commit that changed the list, with its `Edits`. The list has all of them already.

        Args:
            before: Called before each of the edits, with its event. To this thread the list is then as the earlier
                edits have left it; to others it is as before the commit, until `callback` is called. For a model that
                must announce an insert, a removal or a move beforehand, such as Qt's.
            on_error: Called once with the error that has stopped the list, such as FeedAborted where its table was
                dropped; at once where that has happened already.
            on_completed: Called once, without arguments, when the list or its database is closed; at once where it is.
            on_state: Called with each new state; at once where the list has stopped.

        Returns:
            An object that ends the subscription, by a call or by its `dispose()`.

        Raises:
            InvalidOption: An argument cannot be called.
        """
        return self._add_listener(Listener(callback, before, on_error, on_completed, on_state))

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
        return f"LiveList({list(self)!r}{'' if state == 'live' else f', {state}'})"

    def _preview(self) -> Preview:
        # Imported here because only a notebook needs it.
        from reactdb.html_view import MOST_ROWS, preview_of_documents

        documents = list(self)
        count = len(documents)
        words = f"{MOST_ROWS} of {count:,}" if count > MOST_ROWS else f"{count:,}"
        facts = [self.state, f"{words} {'document' if count == 1 else 'documents'}"]
        note = "" if self.error is None else str(self.error)
        return preview_of_documents("LiveList", "", documents, self._primary_key, facts, note)


def primary_key_of(live: LiveList[Any]) -> str:
    """The name of the field that identifies the documents of a live list, as it is now."""
    return live._primary_key


def _primary_key_of(table: Any) -> str:
    return "id" if table is None else str(table.primary_key)
