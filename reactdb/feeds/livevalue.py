"""LiveValue: a value that follows a selection: one document, a count, another aggregate.

    total = orders.sum("price").live()
    total.value                                the sum, now
    total.subscribe(lambda value: show(value)) called once for each commit that changed it

Rule of this file: the value of a whole commit, and nothing in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from reactdb.errors import UnsupportedFeed, UsageError
from reactdb.feeds.feed import Feed
from reactdb.feeds.live import Ending, Event, Listener, Live, open_feed
from reactdb.feeds.livelist import Watchable, is_single, parts_of
from reactdb.feeds.pipeline import same_value
from reactdb.feeds.rerun import NewestAnswer, Rerun
from reactdb.type_variables import Generic
from reactdb.values import codec

if TYPE_CHECKING:
    from reactdb.html_view import Preview

Value = TypeVar("Value")


class LiveValue(Live, Generic[Value]):
    """One value that is kept current: a document, a count or another aggregate, at `.value`.

    See the head of this file, and `Selection.live`. A document is shared and refuses to be changed.

    With subscribers it lives as long as the database, like a subscription of a feed. Without subscribers, it is closed
    when the program no longer refers to it.

    Thread safety: any method from any thread.
    """

    _name = "a LiveValue"

    def __init__(
        self,
        selection: Watchable[Any],
        *,
        scheduler: Any = None,
        skip_origin: str | None = None,
        wait: bool = True,
    ) -> None:
        """As `LiveList`, for a selection that is one value."""
        super().__init__(scheduler=scheduler, skip_origin=skip_origin, wait=wait)
        self._value: Any = None
        self._selection = selection
        self._follow(self._source_of(selection))

    def _source_of(self, selection: Watchable[Any]) -> Feed | Rerun:
        query, watcher = parts_of(selection)
        if not is_single(query):
            raise UsageError(
                "a LiveValue follows one value, and this selection is a sequence: its live() is a list"
            )
        try:
            return open_feed(watcher.watch(query, {"include_initial": True, "on_overflow": "spill"}))
        except UnsupportedFeed:
            return watcher.rerun_query(query)

    @property
    def value(self) -> Value:
        """The present value: a document or None for a key, a number for a count. None while the first value is being
        read."""
        return self._value  # type: ignore[no-any-return]

    @property
    def selection(self) -> Any:
        """What it follows. Assign another selection of one value, and it follows that one: see `select`."""
        return self._selection

    @selection.setter
    def selection(self, selection: Watchable[Any]) -> None:
        self.select(selection)

    def select(self, selection: Watchable[Any]) -> None:
        """Follow another selection from now on. The value stays until the new one has been read, in the state "loading"; a
        subscriber is called if it is another value.

        Raises:
            UsageError: It has stopped, or the selection is a sequence. It then goes on as before.
        """
        source = self._source_of(selection)
        if self._is_over:
            raise UsageError(
                f"this LiveValue is {self.state}, and follows nothing any more: make another one"
            )
        self._selection = selection

        def switch() -> None:
            if not self._is_over:
                self._set_state("loading")
                self._restart(source)

        self._put(switch)

    # -----------------------------------------------------------------------------------------------------------
    # Taking things in: in the line, so one thread at a time

    def _take_initial(self, events: list[Event]) -> None:
        self._exchange(events[-1]["new_val"] if events else None, None)

    def _take_commit(self, events: list[Event]) -> None:
        origins = {event["origin"] for event in events}
        self._exchange(events[-1]["new_val"], origins.pop() if len(origins) == 1 else None)

    def _take_answer(self, answer: NewestAnswer) -> None:
        self._exchange(codec.freeze(answer.value), answer.origin)

    def _exchange(self, value: Any, origin: str | None) -> None:
        old, self._value = self._value, value
        if old is value or same_value(old, value) or self._is_own(origin):
            return
        for one in self._present_listeners():
            if one.callback is not None:
                self._call(one.callback, value)

    # -----------------------------------------------------------------------------------------------------------
    # Subscribers

    def subscribe(
        self,
        callback: Callable[[Any], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        on_completed: Callable[[], object] | None = None,
        on_state: Callable[[str], object] | None = None,
    ) -> Ending:
        """Call back with the new value, once after each commit that changed it. The other arguments and the result are as
        those of `LiveList.subscribe`."""
        return self._add_listener(Listener(callback, None, on_error, on_completed, on_state))

    def __repr__(self) -> str:
        state = self.state
        return f"{type(self).__name__}({self._value!r}{'' if state == 'live' else f', {state}'})"

    def _preview(self) -> Preview:
        # Imported here because only a notebook needs it.
        from reactdb.html_view import preview_of_value

        return preview_of_value("LiveValue", self._value, self.state, self.error)
