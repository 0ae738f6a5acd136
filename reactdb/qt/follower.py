"""RowFollower: follows a selection in a thread of its own, and keeps the steps until the window takes them.

    a commit      the feed calls this thread, which works out the steps       (see `row_steps`)
    the window    takes one commit after another, as many as it has time for
    a backlog     the window asks for one large step from its own rows to the newest ones

So no commit, no computation and no large result ever waits for the window, nor the window for them.

Rule of this file: it knows nothing of Qt. The window's thread calls `follow`, `take`, `catch_up` and `close`.
"""

from __future__ import annotations

import atexit
import gc
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakSet

from reactdb.clock import monotonic
from reactdb.feeds.live import Ending
from reactdb.feeds.livelist import Edits, LiveList, primary_key_of
from reactdb.qt.row_steps import RowStep, steps_between, steps_of
from reactdb.store.file import fork
from reactdb.threads import Threads

MOST_LAG_S: Final = 0.3
MOST_WAITING: Final = 20
"""A window that is behind by so many seconds and so many commits gets one difference instead."""


PAUSE_S: Final = 0.008
"""Seconds between two times that the thread takes commits. While the window draws, a thread that wakes at each commit would
make it wait again and again for the interpreter's lock."""


class StepBatch(NamedTuple):
    """The steps of one commit, or of another selection.

    Attributes:
        primary_key: The field that names the documents afterwards.
        made_at: The reading of `monotonic`.
    """

    steps: list[RowStep]
    primary_key: str
    made_at: float


class NewState(NamedTuple):
    """The state of a selection that is followed, and the error that has stopped it."""

    followed: Followed
    state: str
    error: Exception | None


Message = StepBatch | NewState


class Followed:
    """One selection, while it is followed."""

    def __init__(self, selection: Any, scheduler: Any) -> None:
        self.live: LiveList[Any] = LiveList(selection, scheduler=scheduler, wait=False)
        # Whether its documents are in the window, or on their way.
        self.is_shown = False
        self.subscription: Ending | None = None
        self._is_reading = True
        collector_pause.begin()

    def end_reading(self) -> None:
        """The result was read, or will not be. A second call does nothing."""
        if self._is_reading:
            self._is_reading = False
            collector_pause.end()


class CollectorPause:
    """Python's collector of reference cycles, switched off while large results are read.

    It would look through all documents again and again, each time for up to some 100 ms in which no other thread can run,
    also not the window's. Documents have no cycles.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_on = False

    def forget(self) -> None:
        """In a child of fork(): the threads that read are the parent's."""
        if self._count and self._was_on:
            gc.enable()
        self._lock = threading.Lock()
        self._count = 0

    def begin(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._was_on = gc.isenabled()
                gc.disable()

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._was_on:
                if gc.get_freeze_count() == 0:
                    # Together they put the new objects among the old ones. Otherwise the next allocation, often one of the
                    # window's thread, would look through all of them at once.
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()


collector_pause: Final = CollectorPause()
fork.call_in_child(collector_pause.forget)


class OwnThread:
    """The thread of a follower, as a scheduler of reactivex: for the one method that a feed without `squash` calls."""

    def __init__(self, threads: Threads, pause_s: float = 0.0) -> None:
        """`pause_s`: the least time between two calls, so that many commits are taken together."""
        self._threads = threads
        self._pause_s = pause_s
        self._ending = threading.Event()

    def schedule(self, action: Callable[..., object]) -> None:
        """Call it soon; never, once the follower is closed."""
        self._threads.run(partial(self._call, action))

    def _call(self, action: Callable[..., object]) -> None:
        action(self, None)
        if self._pause_s:
            self._ending.wait(self._pause_s)

    def end(self) -> None:
        """No pauses any more."""
        self._ending.set()


class RowFollower:
    """See the head of this file."""

    def __init__(self, ring: Callable[[], None]) -> None:
        """`ring`: called in the follower's thread when there is something to take."""
        self._ring = ring
        self._threads = Threads("reactdb: rows of a Qt model", 1)
        self._scheduler = OwnThread(self._threads, PAUSE_S)
        self._lock = threading.Lock()
        self._messages: deque[Message] = deque()
        self._is_catching_up = False
        self._is_closed = False
        self._followed: Followed | None = None
        # The list after all steps so far, and the field that names its documents. For this thread only.
        self._rows: list[Any] = []
        self._primary_key = "id"
        _open.add(self)

    # -----------------------------------------------------------------------------------------------------------
    # The window's thread

    def follow(self, selection: Any) -> None:
        """Follow this selection from now on. Its result is read by a thread.

        Raises:
            TableNotFound, UsageError and all other errors of a LiveList, at once. It then goes on as before.
        """
        followed = Followed(selection, self._scheduler)
        before, self._followed = self._followed, followed
        self._threads.run(partial(self._begin, followed, before))

    def take(self) -> Message | None:
        """The next message, if there is one."""
        with self._lock:
            if not self._messages or self._is_catching_up:
                return None
            message = self._messages.popleft()
        # The state of a selection that was left since is of no interest.
        is_old = isinstance(message, NewState) and message.followed is not self._followed
        return self.take() if is_old else message

    @property
    def is_behind(self) -> bool:
        """Whether so much waits that `catch_up` is better."""
        with self._lock:
            if len(self._messages) <= MOST_WAITING or self._is_catching_up:
                return False
            first = self._messages[0]
            return isinstance(first, StepBatch) and monotonic() - first.made_at > MOST_LAG_S

    def catch_up(self, rows: list[Any], primary_key: str) -> None:
        """Replace the waiting steps by those that lead from these rows, the window's, to the newest. Until they come,
        there is nothing to take."""
        self._is_catching_up = True
        self._threads.run(partial(self._catch_up, rows, primary_key))

    def release(self, rows: list[Any]) -> None:
        """Free documents that the window does not need any more. Freeing 100,000 takes longer than a frame."""
        self._threads.run(partial(_release, rows))

    def run_next(self, work: Callable[[], None]) -> None:
        """Call it in the follower's thread, after the commits that have reached it. Any thread; once closed, at once."""
        if not self._threads.run(work):
            work()

    def close(self) -> None:
        """Follow nothing any more; the thread ends. Any thread; a second call does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._messages.clear()
        followed, self._followed = self._followed, None
        if followed is not None:
            self._threads.run(partial(self._end, followed))
        self._scheduler.end()
        self._threads.stop()

    # -----------------------------------------------------------------------------------------------------------
    # The follower's thread

    def _begin(self, followed: Followed, before: Followed | None) -> None:
        if before is not None:
            self._end(before)
        live = followed.live
        followed.subscription = live.subscribe(
            partial(self._on_edits, followed),
            on_error=partial(self._on_error, followed),
            on_completed=partial(self._on_completed, followed),
            on_state=partial(self._on_state, followed),
        )
        if live.state == "live":
            self._show(followed)

    @staticmethod
    def _end(followed: Followed) -> None:
        if followed.subscription is not None:
            followed.subscription.dispose()
        followed.live.close()
        followed.end_reading()

    def _on_state(self, followed: Followed, state: str) -> None:
        if state == "live":
            self._show(followed)
        elif state == "loading":
            self._post_state(followed, state)

    def _on_error(self, followed: Followed, error: Exception) -> None:
        followed.end_reading()
        self._post_state(followed, "failed", error)

    def _on_completed(self, followed: Followed) -> None:
        followed.end_reading()
        self._post_state(followed, "closed")

    def _on_edits(self, followed: Followed, edits: Edits) -> None:
        if not followed.is_shown:
            self._show(followed)
            return
        self._primary_key = primary_key_of(followed.live)
        # The steps must reach the window, whatever has been chosen meanwhile: the next ones begin where these end.
        self._post(StepBatch(steps_of(edits, self._rows, self._primary_key), self._primary_key, monotonic()))

    def _show(self, followed: Followed) -> None:
        """The whole result, once it has been read."""
        if followed is not self._followed:
            return
        if not followed.is_shown:
            followed.is_shown = True
            rows, primary_key = list(followed.live), primary_key_of(followed.live)
            steps = steps_between(self._rows, rows, self._primary_key, primary_key)
            self._rows, self._primary_key = list(rows), primary_key
            self._post(StepBatch(steps, primary_key, monotonic()))
        followed.end_reading()
        self._post_state(followed, "live")

    def _catch_up(self, rows: list[Any], primary_key: str) -> None:
        steps = steps_between(rows, list(self._rows), primary_key, self._primary_key)
        with self._lock:
            states = [one for one in self._messages if isinstance(one, NewState)]
            self._messages = deque([StepBatch(steps, self._primary_key, monotonic()), *states])
            self._is_catching_up = False
        self._ring()

    def _post_state(self, followed: Followed, state: str, error: Exception | None = None) -> None:
        if followed is self._followed:
            self._post(NewState(followed, state, error))

    def _post(self, message: Message) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._messages.append(message)
        self._ring()


def _release(rows: list[Any]) -> None:
    """In parts, so that other threads have their turn in between."""
    while rows:
        del rows[-500:]


# The followers whose models were neither closed nor destroyed when the program ends.
_open: WeakSet[RowFollower] = WeakSet()


@atexit.register
def _close_all() -> None:
    for follower in list(_open):
        with suppress(Exception):
            follower.close()
