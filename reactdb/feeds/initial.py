"""The opening of a feed: states, and the initial values, read during their delivery or before it; and the delivered
position.

    a table, a filter, a range    page by page, from a snapshot that stays fixed until the last is delivered (`store.walk`).
                                  A feed that resumes with a token continues behind the last delivered value, as of
                                  the same moment
    everything else               at once: it has to be put in order, or is in memory anyway. There is no token before the
                                  last delivered value, and a feed that resumes begins from the start

Rule of this file: the delivered state is the one at which the subscription has joined, in whatever way it is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import chain, islice
from types import TracebackType
from typing import Any, Final

from reactdb.feeds.events import Event, render_initial, state_event, wrap_single
from reactdb.feeds.options import FeedOptions
from reactdb.feeds.position import ANEW, Bookmark, Inside
from reactdb.feeds.views.base import Initial, View
from reactdb.feeds.views.select import SelectView
from reactdb.store.engine import Engine
from reactdb.store.snapshot import Snapshot, view_as_of
from reactdb.store.walk import Page, Place, Walk

# A place in an index may be as long as the indexed value. A token should fit into usual stores of tokens, such as an
# HTTP header.
LONGEST_PLACE = 1_000
NO_MORE: Any = object()
# Initial values that a feed of whole commits gets in one list, where they are read during their delivery.
VALUES_IN_A_LIST = 1_000


class Later:
    """A context that holds a snapshot which is opened somewhere within it (`enter`), and closes it at its end, unless
    a caller takes it over (`keep`).

    Attributes:
        is_lasting: The entered snapshot may be kept past the end: it holds up no other code.

    Not an ExitStack: after an interrupt during its exit it keeps itself, and the snapshot, until the garbage
    collector comes.
    """

    __slots__ = ("_inner", "engine", "is_lasting")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._inner: AbstractContextManager[Snapshot] | None = None
        self.is_lasting = False

    def enter(self) -> Snapshot:
        engine = self.engine
        # In memory, commits wait for reads; and while this thread reads beside its transaction, it has none.
        has_none = engine.current_transaction() is None
        self.is_lasting = has_none and not engine.is_memory
        inner = engine.snapshot() if has_none else engine.fresh_snapshot()
        snapshot = inner.__enter__()
        self._inner = inner
        return snapshot

    def keep(self) -> AbstractContextManager[Snapshot]:
        """The snapshot's context, which the caller exits from now on."""
        inner, self._inner = self._inner, None
        assert inner is not None
        return inner

    def __enter__(self) -> Later:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inner is not None:
            self._inner.__exit__(kind, error, trace)


class InitialValues:
    """The opening of a feed, as an iterator of events.

    Attributes:
        walk: The walk from which they are read during their delivery; None where they were read before.
    """

    __slots__ = (
        "_before",
        "_error",
        "_events",
        "_in_hand",
        "_is_told",
        "_order",
        "_pages",
        "_place",
        "_seq",
        "_view",
        "walk",
    )

    def __init__(
        self, seq: int, walk: Walk | None = None, order: str | None = None, after: Place | None = None
    ) -> None:
        """As of `seq`. `order`: the name of the order of the places; None without an order."""
        self._seq = seq
        self._order = order
        # The place of the last delivered value, and of the value before.
        self._place = self._before = after
        self._is_told = False
        self._events: Iterator[Event] = iter(())
        # The pages that are still to be read, None after the last; the view's values of the page before, with their
        # places; the error of a filter or a map, which comes after them.
        self._pages: Iterator[Page] | None = None
        self._view: SelectView | None = None
        self._in_hand: deque[tuple[Place, Any]] = deque()
        self._error: Exception | None = None
        self.walk = walk

    def __iter__(self) -> Iterator[Event]:
        return self._events

    @property
    def bookmark(self) -> Bookmark | None:
        """The delivered position; None at the end."""
        return None if self._is_told else self._inside(self._place)

    @property
    def floor(self) -> Bookmark:
        """How far they were delivered before the last event."""
        return self._inside(self._before)

    def _inside(self, place: Place | None) -> Bookmark:
        if self._order is None:
            return ANEW
        if isinstance(place, tuple) and len(place[0]) > LONGEST_PLACE:
            return ANEW
        return Bookmark(self._seq, Inside(self._order, place))

    def read(self, view: SelectView, pages: Iterable[Page], options: FeedOptions) -> InitialValues:
        """Read documents that come in an order. Errors of a filter or a map are raised where the event is taken."""
        self._pages, self._view = iter(pages), view
        self._events = self._read(options)
        if options.batches:
            # One page after the other: all of them may need more memory than there is.
            self._events = self._in_lists(self._events, VALUES_IN_A_LIST)
        return self

    @property
    def must_read(self) -> bool:
        """Whether the next event has to be read from the file: see `read_ahead`."""
        return self.walk is not None and self._pages is not None and not self._in_hand and self._error is None

    def read_ahead(self) -> None:
        """Read pages until there is a value in hand. Any thread, while no event is taken."""
        pages, view = self._pages, self._view
        if pages is None or view is None:
            return
        try:
            for page in pages:
                self._in_hand.extend(view.values(page))
                if self._in_hand:
                    return
            self._pages = None
        except Exception as error:
            # `extend` has kept the values before it.
            self._error = error

    def _read(self, options: FeedOptions) -> Iterator[Event]:
        seq, is_plain = self._seq, not (options.include_types or options.include_seq)
        in_hand = self._in_hand
        while True:
            # These are most, and here the time goes.
            while in_hand:
                place, value = in_hand.popleft()
                self._before, self._place = self._place, place
                yield {"new_val": value} if is_plain else render_initial(Initial(value), seq, options)
            if self._error is not None:
                raise self._error
            if self._pages is None:
                break
            self.read_ahead()
        self._is_told = True

    def of(self, results: Iterable[Initial], options: FeedOptions) -> InitialValues:
        """Of anything else."""
        self._events = self._render_list(iter(results), options)
        if options.batches:
            self._events = self._in_lists(self._events, None)
        return self

    def _in_lists(self, events: Iterator[Event], most: int | None) -> Iterator[Any]:
        """The events in lists of at most `most`; None: one list of all."""
        error: Exception | None = None
        while error is None:
            before, chunk = self._place, []
            try:
                for event in islice(events, most):
                    chunk.append(event)  # noqa: PERF402 - those before an error are delivered
            except Exception as failure:
                error = failure
            self._before = before
            if chunk:
                yield chunk
            elif error is None:
                return
        raise error

    def _render_list(self, results: Iterator[Initial], options: FeedOptions) -> Iterator[Event]:
        # A null in a list is delivered where offsets say so; elsewhere it is no value.
        events = (
            render_initial(initial, self._seq, options)
            for initial in results
            if initial.value is not None or initial.offset is None or options.include_offsets
        )
        error: Exception | None = None
        following = next(events, NO_MORE)
        while following is not NO_MORE:
            event = following
            try:
                # One ahead, so that the token behind the last value comes with it.
                following = next(events, NO_MORE)
            except Exception as failure:
                error, following = failure, NO_MORE
            self._is_told = following is NO_MORE and error is None
            yield event
        if error is not None:
            raise error
        self._is_told = True


class Opening:
    """The events that a subscription delivers before all queued ones.

    Attributes:
        events: The rest of them.
        initial: The initial values among them.
    """

    __slots__ = ("events", "initial")

    def __init__(self, events: Iterator[Event], initial: InitialValues | None = None) -> None:
        self.events = events
        self.initial = initial

    @classmethod
    def with_state(
        cls, options: FeedOptions, then: str, initial: InitialValues | None = None
    ) -> Opening | None:
        """The initial values, then the state of that name, as far as the options include them. None: nothing."""
        after = iter((wrap_single(state_event(then, options), options),)) if options.include_states else None
        if initial is None:
            return None if after is None else cls(after)
        if after is None:
            return cls(iter(initial), initial)
        return cls(
            chain((wrap_single(state_event("initializing", options), options),), initial, after), initial
        )

    @property
    def must_read(self) -> bool:
        """See `InitialValues.must_read`."""
        return self.initial is not None and self.initial.must_read

    def read_ahead(self) -> None:
        """See `InitialValues.read_ahead`."""
        if self.initial is not None:
            self.initial.read_ahead()

    def fail(self, error: Exception) -> None:
        """Raise the error where the next event is taken."""
        self.events = raise_when_read(error)

    def close(self) -> None:
        """Deliver nothing more: release the source of the initial values."""
        walk = None if self.initial is None else self.initial.walk
        if walk is not None:
            walk.close()


AWAITED: Final = Opening(iter(()))
"""The opening of a subscription is not known yet, and nothing is delivered before it."""


def raise_when_read(error: Exception) -> Iterator[Event]:
    """An iterator that raises."""
    yield from ()
    raise error


def read_result(view: View, snapshot: Snapshot, held: Later, options: FeedOptions) -> InitialValues:
    """The result of a view without state, of the snapshot that `held` keeps."""
    if isinstance(view, SelectView) and view.order is not None:
        return _walk(view, snapshot, snapshot.seq, held, options, None)
    return InitialValues(snapshot.seq).of(view.result(snapshot), options)


def read_rest(
    view: View, snapshot: Snapshot, seq: int, held: Later, options: FeedOptions, inside: Inside
) -> InitialValues:
    """Read the rest after a place in the result as of `seq`, which is long past for `snapshot`."""
    assert isinstance(view, SelectView)
    then = view_as_of(snapshot, seq) if seq < snapshot.seq else snapshot
    return _walk(view, then, seq, held, options, inside.place)


def _walk(
    view: SelectView, snapshot: Snapshot, seq: int, held: Later, options: FeedOptions, after: Place | None
) -> InitialValues:
    pages: Iterable[Page] = view.source.walk(snapshot, after)
    walk: Walk | None = None
    if held.is_lasting and view.source.is_walked:
        walk = pages = Walk(held.engine, iter(pages), held.keep())
    else:
        pages = list(pages)
    return InitialValues(seq, walk, view.order, after).read(view, pages, options)


def read_now(view: View, snapshot: Snapshot, seq: int, options: FeedOptions) -> InitialValues | None:
    """The whole result, read before this returns; None where the options do not include it."""
    return InitialValues(seq).of(view.result(snapshot), options) if options.include_initial else None
