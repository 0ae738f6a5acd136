"""Beginning: the initial values of a feed, read while they are told, or before.

    a table, a filter, a range    page by page, from a snapshot that stands still until the last is told (`store.walk`)
    everything else               at once: it has to be put in order, or is in memory anyway

Rule of this file: what is told is the state that the subscription has joined at, whichever way it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any

from reactdb.feeds.events import Event, render_initial
from reactdb.feeds.options import FeedOptions
from reactdb.feeds.view import Initial, View
from reactdb.store.engine import Engine
from reactdb.store.snapshot import Snapshot
from reactdb.store.walk import Walk

if TYPE_CHECKING:
    from reactdb.feeds.subscription import Subscription


class Later:
    """A snapshot that is begun inside of another context and outlives it.

    Attributes:
        is_lasting: It may outlive this one, too.

    Not an ExitStack: one that is interrupted while it exits keeps itself, and the snapshot, until the garbage collector comes.
    """

    __slots__ = ("_inner", "is_lasting")

    def __init__(self) -> None:
        self._inner: AbstractContextManager[Snapshot] | None = None
        self.is_lasting = False

    def enter(self, engine: Engine) -> Snapshot:
        # Where there is one connection, or none that others could read beside, commits wait for reads; and while this thread
        # reads beside its transaction, it has none.
        self.is_lasting = not engine.is_alone and engine.current_transaction() is None
        inner = engine.fresh_snapshot()
        snapshot = inner.__enter__()
        self._inner = inner
        return snapshot

    def keep(self) -> AbstractContextManager[Snapshot]:
        """The snapshot's context, which whoever asks exits from now on."""
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


def provide_result(subscription: Subscription, view: View, snapshot: Snapshot, held: Later) -> None:
    """The result of a view without state, of the snapshot that it has joined at and that `held` keeps."""
    seq, options = subscription.since, subscription.request.options
    walk = getattr(view, "walk", None)
    if walk is not None and held.is_lasting:
        pages = walk(snapshot)
        if pages is not None:
            read = Walk(subscription.request.hub.engine, pages, held.keep())
            values = chain.from_iterable(map(view.values, read))  # type: ignore[attr-defined]
            subscription.provide(_value_events(values, seq, options), read)
            return
    subscription.provide(initial_events(view, snapshot, seq, options))


def initial_events(view: View, snapshot: Snapshot, seq: int, options: FeedOptions) -> Iterator[Event] | None:
    """The result, read before this returns; None where it was not asked for."""
    return _events(view.result(snapshot), seq, options) if options.include_initial else None


def _events(results: Iterable[Initial], seq: int, options: FeedOptions) -> Iterator[Event]:
    for initial in results:
        # A null in a list is told where offsets say so; elsewhere it is no value.
        if initial.value is not None or initial.offset is None or options.include_offsets:
            yield render_initial(initial, seq, options)


def _value_events(values: Iterable[Any], seq: int, options: FeedOptions) -> Iterator[Event]:
    """The same for values that have no offset, group or table: these are most, and here the time goes."""
    if options.include_offsets or options.include_types or options.include_seq:
        return (render_initial(Initial(value), seq, options) for value in values)
    return ({"new_val": value} for value in values)
