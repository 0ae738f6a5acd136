"""Rerun: a computation over one snapshot. It is repeated after each commit that can change its result.

    1. open a snapshot at position p; compute, and note the reads
    2. close the snapshot, and deliver the result
    3. watch for changes past p that concern the reads; the log is read from p on, so no commit is missed
    4. the first such change leads back to 1

Several commits lead to one computation, of the newest state. An older result never follows a newer one: one thread at a
time computes and delivers, and holds no lock meanwhile. If the reads are the same as before, the watch goes on, and
reports changes up to p in vain.

Rule of this file: it knows no query and no user. It computes where its watch calls it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from reactdb.errors import INTERRUPTS, DatabaseClosed, HistoryLost, ReactDBError
from reactdb.expression.predicate import describe_function
from reactdb.feeds.consumers import Flow
from reactdb.feeds.feed import drop, make_feed
from reactdb.feeds.hub import FeedHub
from reactdb.feeds.query_text import cut, query_text
from reactdb.feeds.read_set import ReadSet, ReadSetRequest, ReadSetView, TrackedSnapshot
from reactdb.feeds.views.base import Route
from reactdb.query import Query
from reactdb.store.engine import Engine
from reactdb.store.snapshot import Snapshot

Take = Callable[[str, Any], None]
Compute = Callable[[Snapshot], Any]
# The most changes between two results whose writers are looked up.
MOST_LOOKED_THROUGH: Final = 1_000


class NewestAnswer(NamedTuple):
    """A result.

    Attributes:
        seq: As of which change.
        origin: The writer of all changes that led to it; None for the first answer, and for several writers.
    """

    value: Any
    seq: int
    origin: str | None


class Rerun:
    """A computation, ready to start. `scheduler`: as for `Feed`. `handle`: the reference keeps the file open.

    Attributes:
        about: What is computed: a query, or a function; None: unknown.
        purpose: As for `Request`.
    """

    def __init__(
        self,
        hub: FeedHub,
        compute: Compute,
        scheduler: Any,
        handle: object,
        about: Query | Callable[..., Any] | None = None,
    ) -> None:
        self.about = about
        self.purpose = "observation"
        self.hub = hub
        self.compute = compute
        self.scheduler = scheduler
        self.handle = handle

    @property
    def engine(self) -> Engine:
        return self.hub.engine

    @property
    def text(self) -> str:
        """What is computed, in words."""
        about = self.about
        if isinstance(about, Query):
            return query_text(about)
        return "a selection" if about is None else cut(describe_function(about))

    def start(self, take: Take, scheduler: Any) -> Running:
        """Compute now, in this thread, and again where `scheduler` says, or else on the committing thread.

        `take` is called with "answer" and a NewestAnswer, "trouble" and an error of the computation, which is tried again at
        the next change, "error" and the error of the file, or "completed".
        """
        running = Running(self, take, scheduler or self.scheduler)
        running.run()
        return running


class Running:
    """See the head of this file.

    Attributes:
        runs: How often it was computed.
        read_set: What the last computation has read.
        seq: As of which change it was computed; -1 before the first time.
    """

    def __init__(self, rerun: Rerun, take: Take, scheduler: Any) -> None:
        self._rerun = rerun
        self._take = take
        self._scheduler = scheduler
        self.runs = 0
        self.read_set = ReadSet()
        self.seq = -1
        self._watch: Any = None
        self._routes: Sequence[Route] | None = None
        self._is_due = False
        self._is_over = False
        self._running = threading.Lock()

    def run(self) -> None:
        """Compute, unless another thread or an earlier call of this thread does so: that one computes once more."""
        self._is_due = True
        while self._is_due and not self._is_over:
            if not self._running.acquire(blocking=False):
                return
            try:
                while self._is_due and not self._is_over:
                    self._is_due = False
                    self._run_once()
            finally:
                self._running.release()

    def _run_once(self) -> None:
        rerun = self._rerun
        read_set, value, origin = ReadSet(), None, None
        failure: Exception | None = None
        self.runs += 1
        try:
            with rerun.engine.fresh_snapshot() as snapshot:
                seq = snapshot.seq
                try:
                    origin = self._find_origin(snapshot, seq)
                    value = rerun.compute(TrackedSnapshot(snapshot, read_set))
                except INTERRUPTS:
                    raise
                except Exception as error:
                    failure = error
        except ReactDBError as error:
            self._end(error)
            return
        if failure is not None:
            # The error may have prevented some of the reads.
            read_set.add(self.read_set)
        self.read_set, self.seq = read_set, seq
        # The watch first: a subscriber may write.
        self._watch_for(read_set.routes())
        if not self._is_over:
            if failure is None:
                self._take("answer", NewestAnswer(value, seq, origin))
            else:
                self._take("trouble", failure)

    def _find_origin(self, snapshot: Snapshot, seq: int) -> str | None:
        """The writer of the relevant changes since the last result; None for several writers."""
        if self._routes is None or not 0 <= self.seq < seq <= self.seq + MOST_LOOKED_THROUGH:
            return None
        try:
            changes = snapshot.changes(self.seq, seq, limit=MOST_LOOKED_THROUGH)
        except HistoryLost:
            return None
        view = ReadSetView(self._routes)
        origins = {change.origin for change in changes if view.concerns(change)}
        return origins.pop() if len(origins) == 1 else None

    # -----------------------------------------------------------------------------------------------------------
    # Watching

    def _watch_for(self, routes: Sequence[Route]) -> None:
        if self._watch is not None and routes == self._routes:
            return
        before, self._watch, self._routes = self._watch, None, routes
        rerun, reference = self._rerun, weakref.ref(self)
        hub = rerun.hub
        try:
            request = ReadSetRequest(
                hub.engine,
                hub.say,
                routes,
                self.seq,
                rerun.handle,
                self.read_set.describe(),
                rerun.text,
            )
            request.purpose = rerun.purpose
            feed = make_feed(Flow(hub, request))
            watch = self._watch = feed.subscribe(
                partial(_call, reference, "_on_change"),
                partial(_call, reference, "_on_error"),
                partial(_call, reference, "_on_completed", None),
                scheduler=self._scheduler,
            )
            if self._is_over:
                watch.dispose()
        except HistoryLost:
            # History was removed meanwhile: compute once more.
            self._is_due = True
        except DatabaseClosed:
            self._on_completed(None)
        except ReactDBError as error:
            self._end(error)
        if before is not None:
            before.dispose()

    def _on_change(self, event: dict[str, Any]) -> None:
        # An event without a seq reports dropped events.
        if not self._is_over and event.get("seq", self.seq + 1) > self.seq:
            self.run()

    def _on_error(self, error: Exception) -> None:
        if isinstance(error, HistoryLost):
            self._watch = None
            self.run()
        else:
            self._end(error)

    def _on_completed(self, _: object) -> None:
        if not self._is_over:
            self.dispose()
            self._take("completed", None)

    def _end(self, error: Exception) -> None:
        if not self._is_over:
            self.dispose()
            self._take("error", error)

    def dispose(self) -> None:
        self._is_over = True
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.dispose()

    def drop(self) -> None:
        """The same, from a finalizer: it waits for nothing."""
        self._is_over = True
        if self._watch is not None:
            drop(self._watch)


def _call(reference: weakref.ref[Running], method: str, value: Any) -> None:
    running = reference()
    if running is not None:
        getattr(running, method)(value)
