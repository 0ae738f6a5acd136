"""Recorder: keeps the events of a feed, and waits for them without sleeping.

    heard = Recorder(games.changes())
    games.insert({"id": 1})
    assert [{"old_val": None, "new_val": {"id": 1}}] == heard.take()
    heard.assert_quiet()

It is also an observer: `games.changes().pipe(...).subscribe(Recorder())`.

A feed without a scheduler delivers on the committing thread, before the write returns, so the test need not wait. If
another thread or another process writes, `wait` returns as soon as enough events have come.

Thread safety: any thread.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from reactivex import Observable
from reactivex.abc import ObserverBase

from reactdb.values.codec import thaw


class Recorder(ObserverBase[Any]):
    """An observer that keeps the events of a feed, for tests.

    See the head of this file. A context manager that ends the subscription.

    Attributes:
        events: All events so far, copied, so that they compare and print as plain dicts.
        threads: The name of the thread that delivered each event.
        errors: The errors that ended the feed: one or none.
        completions: How often the feed completed: once or never.
    """

    def __init__(self, feed: Observable[Any] | None = None, *, scheduler: Any = None) -> None:
        """
        Args:
            feed: The feed to subscribe to at once, on the given scheduler. Without it, pass the recorder to `subscribe` yourself.
        """
        self.events: list[Any] = []
        self.threads: list[str] = []
        self.errors: list[Exception] = []
        self.completions = 0
        self._taken = 0
        self._heard = threading.Condition()
        self._subscription = None if feed is None else feed.subscribe(self, scheduler=scheduler)

    @property
    def error(self) -> Exception | None:
        """The error that ended the feed, or None."""
        return self.errors[0] if self.errors else None

    @property
    def is_completed(self) -> bool:
        """Whether the feed ended without an error."""
        return bool(self.completions)

    def on_next(self, event: Any) -> None:
        """Keep an event. The feed calls it."""
        with self._heard:
            self.events.append(thaw(event))
            self.threads.append(threading.current_thread().name)
            self._heard.notify_all()

    def on_error(self, error: Exception) -> None:
        """Keep the error that ended the feed. The feed calls it."""
        with self._heard:
            self.errors.append(error)
            self._heard.notify_all()

    def on_completed(self) -> None:
        """Note that the feed ended. The feed calls it."""
        with self._heard:
            self.completions += 1
            self._heard.notify_all()

    def take(self) -> list[Any]:
        """The events since the last `take` or `wait`."""
        with self._heard:
            events = self.events[self._taken :]
            self._taken = len(self.events)
            return events

    def wait(self, count: int = 1, timeout_s: float = 5.0) -> list[Any]:
        """The next `count` events, as soon as they have come.

        Raises:
            AssertionError: They did not come in time, or the feed ended before.
        """
        with self._heard:
            self._heard.wait_for(lambda: self._left >= count or self._has_ended, timeout_s)
            if self._left < count:
                ending = f"; the feed ended: {self.error or 'completed'}" if self._has_ended else ""
                raise AssertionError(f"expected {count} events, heard {self.events[self._taken :]!r}{ending}")
            events = self.events[self._taken : self._taken + count]
            self._taken += count
            return events

    def wait_for_end(self, timeout_s: float = 5.0) -> Exception | None:
        """The error that ended the feed, or None if it completed, as soon as it has ended.

        Raises:
            AssertionError: It did not end in time.
        """
        with self._heard:
            self._heard.wait_for(lambda: self._has_ended, timeout_s)
            if not self._has_ended:
                raise AssertionError(f"expected the end, heard {self.events[self._taken :]!r}")
            return self.error

    @property
    def _left(self) -> int:
        return len(self.events) - self._taken

    @property
    def _has_ended(self) -> bool:
        return bool(self.errors or self.completions)

    def assert_quiet(self) -> None:
        """Assert that there was no event since the last `take` or `wait`, and that the feed has not ended.

        Raises:
            AssertionError: There was; the message shows the events.
        """
        with self._heard:
            left = self.events[self._taken :]
            if left:
                raise AssertionError(f"expected silence, heard {left!r}")
            if self.error is not None:
                raise AssertionError(f"expected silence, the feed ended: {self.error!r}")

    def close(self) -> None:
        """End the subscription to the given feed."""
        if self._subscription is not None:
            self._subscription.dispose()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
