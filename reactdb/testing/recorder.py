"""Recorder: what a feed tells, kept; and ways to wait for it that do not sleep.

    heard = Recorder(games.changes())
    games.insert({"id": 1})
    assert [{"old_val": None, "new_val": {"id": 1}}] == heard.take()
    heard.assert_quiet()

A feed without a scheduler tells on the committing thread, before the write returns: then nothing needs to be waited for. Where
another thread or another process writes, `wait` returns the moment that enough has come.

Thread safety: any thread.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from reactdb.feeds.feed import Feed
from reactdb.values.codec import thaw


class Recorder:
    """See the head of this file. A context manager that ends the subscription.

    Attributes:
        events: All events so far, copied, so that they compare and print as plain dicts.
        error: What ended the feed, or None.
        is_completed: It ended without an error.
    """

    def __init__(self, feed: Feed, *, scheduler: Any = None) -> None:
        self.events: list[Any] = []
        self.error: Exception | None = None
        self.is_completed = False
        self._taken = 0
        self._heard = threading.Condition()
        self._subscription = feed.subscribe(self._next, self._fail, self._complete, scheduler=scheduler)

    def _next(self, event: Any) -> None:
        with self._heard:
            self.events.append(thaw(event))
            self._heard.notify_all()

    def _fail(self, error: Exception) -> None:
        with self._heard:
            self.error = error
            self._heard.notify_all()

    def _complete(self) -> None:
        with self._heard:
            self.is_completed = True
            self._heard.notify_all()

    def take(self) -> list[Any]:
        """The events since the last `take` or `wait`."""
        with self._heard:
            found = self.events[self._taken :]
            self._taken = len(self.events)
            return found

    def wait(self, count: int = 1, timeout_s: float = 5.0) -> list[Any]:
        """The next `count` events, as soon as they are there.

        Raises:
            AssertionError: They did not come in time, or the feed ended before.
        """
        with self._heard:
            self._heard.wait_for(
                lambda: self._left >= count or self.error is not None or self.is_completed, timeout_s
            )
            if self._left < count:
                raise AssertionError(
                    f"expected {count} events, heard {self.events[self._taken :]!r}"
                    + (
                        f"; the feed ended: {self.error or 'completed'}"
                        if self.error or self.is_completed
                        else ""
                    )
                )
            found = self.events[self._taken : self._taken + count]
            self._taken += count
            return found

    @property
    def _left(self) -> int:
        return len(self.events) - self._taken

    def assert_quiet(self) -> None:
        """Assert that there was no event since the last `take` or `wait`, and that the feed goes on.

        Raises:
            AssertionError: It names the events.
        """
        with self._heard:
            left = self.events[self._taken :]
            if left:
                raise AssertionError(f"expected silence, heard {left!r}")
            if self.error is not None:
                raise AssertionError(f"expected silence, the feed ended: {self.error!r}")

    def close(self) -> None:
        """Hear nothing more."""
        self._subscription.dispose()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
