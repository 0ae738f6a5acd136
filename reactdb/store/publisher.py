"""Publisher: gives a listener (the feeds) every commit, in log order, whichever process made it.

This process's commits come from their transactions. Another process's commits, and commits from before the first
listener, are read from the log. `published` is the seq up to which the listener has everything, so that it gets
nothing twice and misses nothing.

Thread safety: `lock` is held while commits are routed and while a listener joins; both are short and run no code of the user's
but predicates. `drain`, which runs user code, is called without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence, Sized
from threading import get_ident
from typing import Any, Protocol

from reactdb.change import Change, Commit
from reactdb.clock import monotonic
from reactdb.errors import CorruptDatabase, DatabaseBusy, HistoryLost, ReactDBError
from reactdb.store.catalogue import Catalogue
from reactdb.store.file.external_writers import describe_other_history, unfiled_end_error
from reactdb.store.log import PastNames
from reactdb.store.open_file import OpenFile
from reactdb.store.snapshot import Snapshot, complete_commits, group_by_commit
from reactdb.store.transaction import WriteTransaction

# Changes of other processes that a writing thread publishes before its own. That takes a tenth of a second.
MOST_CHANGES = 10_000
# Seconds between two looks of a thread that waits for more to be published.
LOOK_S = 0.005


class Drain(Protocol):
    """The type of `CommitListener.drain`."""

    def __call__(self, *, is_outside: bool = False) -> None: ...


def drain_nothing(*, is_outside: bool = False) -> None:
    """Without a listener, nothing is queued."""


class CommitListener(Protocol):
    """The receiver of published commits: the feeds. All but `drain`, `lowest_needed` and `describe_feeds`
    is called under the publish lock."""

    @property
    def open_views(self) -> Sized:
        """The views of all feeds that are open. As long as it is empty, commits are not put together."""

    @property
    def route(self) -> Callable[[Commit], None]:
        """The function that takes in the next commit. During its call, `Publisher.routing_thread` is its thread. It must not
        raise, run user code or write."""

    def lowest_needed(self, oldest: int) -> int | None:
        """The smallest position >= `oldest` from which some feed has still to read the log, or None. Called without the publish
        lock.
        """

    def abort(self, error: ReactDBError) -> None:
        """The next commits cannot be published: end every feed that depends on them."""

    def end_all(self, end: Any) -> None:
        """End every feed, also feeds that read from the log. `end` is the error, or says that the feeds complete."""

    def describe_feeds(self, most: int, head: int) -> tuple[list[dict[str, Any]], int]:
        """For `db.activity()`: at most `most` feeds as plain JSON, and the number of all. `head`: the newest seq of the
        file. Called without the publish lock."""

    def drain(self, *, is_outside: bool = False) -> None:
        """Deliver the queued events. Called without any lock held, after every commit.

        Args:
            is_outside: This thread is in no transaction.
        """

    def tidy(self) -> None:
        """Clean up: the lock is free again, and there is nothing to deliver. A feed that was dropped during the lock
        could not get the lock."""

    def close(self) -> None:
        """The database is closing."""

    def abandon(self) -> None:
        """In a forked child: threads that did not come along may hold the locks."""


class Publisher:
    """See the head of this file.

    Attributes:
        listener: The feeds; None before the first was opened.
        published: The seq up to which the listener has every commit.
        drain: The listener's function that delivers the queued events. Called without any lock held, after every commit; also
            where no feed is open any more, because feeds that the last commit ended have yet to be notified.
        routing_thread: The thread inside of the listener's `route`, or None. The listener writes it under `lock`.
        look_soon: Called when the follower thread (see `follow`) has something to do now: another engine of this process
            has committed, or feeds are to end. It may be called with any lock held. Without a feed it does nothing.
        committing: Held by the writer from COMMIT until the commit is published, and by a thread that publishes
            commits from the log: the thread that made a commit of this process also publishes it. Taken before
            `lock`.
    """

    # The catalogue that was published last: dropped tables and indexes are the difference to it, and not to the engine's, because
    # any reader may have learned of another process's changes in between.
    _catalogue: Catalogue

    def __init__(self, engine: OpenFile, seq: int) -> None:
        self._engine = engine
        self.lock = threading.RLock()
        self.committing = threading.Lock()
        self.listener: CommitListener | None = None
        self.published = seq
        self.look_soon: Callable[[], object] = do_nothing
        self._catalogue = engine.catalogue
        self._names = PastNames()
        self.drain: Drain = drain_nothing
        self.routing_thread: int | None = None
        # Threads that publish, or deliver, commits of other processes.
        self._catching_up: set[int] = set()
        # The error that every feed is to end with.
        self._trouble: ReactDBError | None = None

    def has_feeds(self) -> bool:
        """Whether a feed is open."""
        listener = self.listener
        return listener is not None and len(listener.open_views) > 0

    def is_routing(self) -> bool:
        """Whether this thread is inside the listener's `route`: a predicate that writes must be refused."""
        return self.routing_thread is not None and self.routing_thread == get_ident()

    def set_listener(self, listener: CommitListener) -> None:
        """From now on, commits go to the listener. Called with `lock` held, once."""
        self.drain = listener.drain
        self.listener = listener

    def has_published(self, end: tuple[int, int, bool], catalogue: Catalogue) -> bool:
        """Whether the listener has every commit of a file with this end (see `Snapshot.end`) and these tables, and the end shows
        no damage: then `catch_up` would do nothing. Called with `lock` held."""
        head, _, is_filed = end
        return head == self.published and is_filed and catalogue.version <= self._catalogue.version

    def begin_listening(self, seq: int) -> None:
        """A listener that was not active becomes so, having read everything up to `seq`. Called with `lock` held."""
        self.published = max(self.published, seq)
        self._catalogue = self._engine.catalogue

    def publish(self, transactions: Sequence[WriteTransaction], head: int) -> None:
        """Publish this process's commits, in order. `head` is the seq of the last."""
        with self.lock:
            listener = self.listener
            if listener is None or not listener.open_views:
                if head > self.published:
                    self.published = head
                return
            for transaction in transactions:
                count = transaction.count
                if not count and not transaction.is_catalogue_changed:
                    continue
                changes, first = transaction.changes, transaction.first
                last = first + count - 1
                if first > self.published + 1:
                    # Another process wrote in between.
                    self._publish_log(listener, first - 1)
                if changes is None or first <= self.published:
                    # It began before there was a listener, or was published in part from the log already.
                    self._publish_log(listener, last)
                    changes = []
                if transaction.is_catalogue_changed:
                    dropped = self._find_dropped(transaction.catalogue)
                    if changes or any(dropped):
                        listener.route(Commit(changes, last, *dropped))
                elif changes:
                    listener.route(Commit(changes, last))
                if last > self.published:
                    self.published = last

    def catch_up(self) -> bool:
        """Publish the commits of other processes, and deliver them. Returns: whether there were any."""
        if self.is_routing():
            # Called by a predicate of a feed: this thread holds `committing` already.
            return False
        thread = get_ident()
        if thread in self._catching_up:
            # Called by a subscriber.
            return self._catch_up()
        self._catching_up.add(thread)
        try:
            return self._catch_up()
        finally:
            self._catching_up.discard(thread)

    def is_late(self, head: int) -> bool:
        """Whether the commits of other processes up to `head` are too many for a writing thread to publish. A thread
        that already publishes never waits."""
        return (
            head - self.published > MOST_CHANGES and self.has_feeds() and get_ident() not in self._catching_up
        )

    def wait_for_others(self, head: int, operation: str, timeout_s: float) -> float:
        """Wait until the follower thread (see `follow`) has published the commits of other processes up to `head`.
        Called without the write lock.

        Returns:
            Seconds that it has waited.

        Raises:
            DatabaseBusy: It has not come that far within `timeout_s`.
        """
        start = monotonic()
        self.look_soon()
        while self.is_late(head):
            waited_s = monotonic() - start
            if waited_s >= timeout_s:
                raise DatabaseBusy(
                    f"{operation}: another process has committed {head - self.published:,} changes, which the feeds of this "
                    f"process have to receive first, and that took longer than {timeout_s:g} s; nothing was written, try again"
                )
            time.sleep(min(LOOK_S, timeout_s - waited_s))
        return monotonic() - start

    def _catch_up(self) -> bool:
        with self.committing, self.lock:
            listener = self.listener
            if listener is None or not listener.open_views:
                return False
            # All in one snapshot: to begin another takes as long as to read one change.
            engine = self._engine
            with engine.poll() as snapshot:
                (head, oldest, is_filed), catalogue = snapshot.end(), snapshot.catalogue
                trouble = self._check_log_end(snapshot, head, is_filed)
                changes = None
                if trouble is None and head > self.published:
                    try:
                        changes = self._read_log(snapshot, head, oldest)
                    except (HistoryLost, CorruptDatabase) as error:
                        trouble = error
            if trouble is not None:
                listener.abort(trouble)
                self.published = max(self.published, head)
            has_news = trouble is not None or changes is not None
            if changes is not None:
                self._route_log(listener, changes, head)
                self._publish_log(listener, head)
            tables, indexes = self._find_dropped(catalogue)
            if tables or indexes:
                listener.route(Commit([], head, tables, indexes))
                has_news = True
        if has_news:
            self.drain()
        else:
            listener.tidy()
        return has_news

    def _check_log_end(self, snapshot: Snapshot, head: int, is_filed: bool) -> ReactDBError | None:
        """Check the end of the log for damage by another program. Returns: the error, or None."""
        trouble = describe_other_history(snapshot.connection, head, self.published)
        if trouble:
            return self._engine.report_moved(f"{self._engine.path}: {trouble}")
        return None if is_filed else unfiled_end_error(snapshot.connection)

    def note(self, error: ReactDBError) -> None:
        """Note an error of the file, after which no feed may continue. The noticing thread may hold any lock. So the
        follower thread (see `follow`) ends the feeds within moments, or the closing thread does."""
        if self._trouble is None:
            self._trouble = error
            self.look_soon()

    def end_feeds(self) -> None:
        """End every feed, if an error was noted. Called without any lock."""
        if self._trouble is None or self.is_routing():
            return
        with self.committing, self.lock:
            error, self._trouble = self._trouble, None
            if error is not None and self.listener is not None:
                self.listener.end_all(error)
        self.drain()

    def _find_dropped(self, catalogue: Catalogue) -> tuple[list[int], list[tuple[int, str]]]:
        before = self._catalogue
        if catalogue.version <= before.version:
            return [], []
        self._catalogue = catalogue
        return find_dropped(before, catalogue)

    def _publish_log(self, listener: CommitListener, until: int) -> None:
        while self.published < until:
            try:
                with self._engine.poll() as snapshot:
                    changes = self._read_log(snapshot, until)
            except (HistoryLost, CorruptDatabase) as error:
                # Silence would say that there was no commit.
                listener.abort(error)
                self.published = until
                return
            self._route_log(listener, changes, until)

    def _read_log(self, snapshot: Snapshot, until: int, oldest: int | None = None) -> list[Change]:
        """Read a page of unpublished changes, to the end of a commit."""
        changes = snapshot.changes(self.published, until, oldest=oldest)
        if changes and changes[-1].seq < until:
            changes = complete_commits(changes, snapshot)
        if snapshot.catalogue.version != self._catalogue.version:
            # A table may have another name by now.
            self._names.give(snapshot, changes, snapshot.seq)
        return changes

    def _route_log(self, listener: CommitListener, changes: list[Change], until: int) -> None:
        """Publish a page of the log. `until`: where it ends, if it has no changes."""
        for group in group_by_commit(changes):
            listener.route(Commit(group, group[-1].seq))
        self.published = changes[-1].seq if changes else until

    def abandon(self) -> None:
        """Make new locks, in a forked child: threads of the parent may hold the old ones."""
        self.lock = threading.RLock()
        self.committing = threading.Lock()
        self.routing_thread = None
        self._catching_up = set()
        if self.listener is not None:
            self.listener.abandon()


def do_nothing() -> None:
    """`Publisher.look_soon` before a feed was opened."""


def find_dropped(before: Catalogue, after: Catalogue) -> tuple[list[int], list[tuple[int, str]]]:
    """Compare two catalogues. Returns: (ids of tables, pairs of table id and index name) that the later one lacks."""
    tables = [
        table_id
        for table_id, info in before.by_id.items()
        if info.dropped is None and (table_id not in after.by_id or after.by_id[table_id].dropped is not None)
    ]
    indexes = []
    for table_id, info in before.by_id.items():
        if table_id in after.by_id:
            kept = after.by_id[table_id].indexes
            indexes += [
                (table_id, name)
                for name, index in info.indexes.items()
                if name not in kept or kept[name].id != index.id
            ]
    return tables, indexes
