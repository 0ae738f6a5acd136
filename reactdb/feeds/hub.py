"""FeedHub: the feeds of one database: subscriptions join, leave and catch up, and the store publishes commits.

    attach, rejoin    join a node: from this moment's state on, or back from the log
    forget            leave. It never waits for the lock: without the lock it leaves a note for the lock's holder
    drain             deliver what a commit has made ready (the store gives commits to `dispatch.LiveViews` itself)

Thread safety: nodes and registrations belong to the thread that holds the publish lock.

Rule of this file: no user code under the lock but predicates and mappings, and nothing that they raise gets out.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

from reactdb.clock import SYSTEM, with_clock
from reactdb.errors import ReactDBError, UsageError
from reactdb.feeds.activity import describe_subscription
from reactdb.feeds.bootstrap import Bootstrap, Bootstrapped, find_abort_reason
from reactdb.feeds.broadcast import Runnable
from reactdb.feeds.compiler import Plan
from reactdb.feeds.dispatch import LiveViews, Node
from reactdb.feeds.initial import Later, read_now, read_rest, read_result
from reactdb.feeds.log_reader import LogReader
from reactdb.feeds.position import Inside
from reactdb.feeds.request import check_order
from reactdb.feeds.subscription import COMPLETED, Subscription
from reactdb.feeds.views.base import View, present_order
from reactdb.logs import logger
from reactdb.store.catalogue import Catalogue
from reactdb.store.engine import Engine
from reactdb.store.snapshot import Snapshot, view_as_of

NOT_HERE = "a predicate or mapping of a feed must not subscribe: it runs inside a commit"
# The most changes of the log that are read under the publish lock, when a feed that has caught up goes live.
LAST_CHANGES = 64
# Times that a view with state is made ready without the lock, before writers are made to wait for it.
BOOTSTRAPS = 8


def hub_of(engine: Engine) -> FeedHub:
    """The hub of an engine, made at its first use."""
    hub = engine.publisher.listener
    if isinstance(hub, FeedHub):
        # Without the lock: the lock's holder has to check for forgotten subscriptions.
        return hub
    with engine.publisher.lock:
        hub = engine.publisher.listener
        if hub is None:
            hub = FeedHub(engine)
            engine.publisher.set_listener(hub)
        assert isinstance(hub, FeedHub)
        return hub


class FeedHub:
    """See the head of this file. It is the engine's CommitListener.

    Attributes:
        live: The nodes, and the subscriptions that read on from the log.
        open_views: The nodes by the common key of equal queries.
        ready: Puts something into the dispatcher's line.
        route: Takes in the next commit: `LiveViews.dispatch`.
        say: `log_when_unlocked`.
        beginning: For each consumer that begins in a thread: the position from which it has still to read the log.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._publisher = engine.publisher
        self._lock = engine.publisher.lock
        # One object for all feeds.
        self.say = self.log_when_unlocked
        self.live = LiveViews(engine, self.say)
        self.open_views = self.live.nodes
        self.ready = self.live.dispatcher.ready
        # `r.now()` in a mapping is of the database's clock.
        dispatch, clock = self.live.dispatch, engine.clock
        self.route = dispatch if clock is SYSTEM else with_clock(clock, dispatch)
        # The lock's holder is in the middle of joining a subscription, and subscriptions must not be removed now.
        self._is_busy = False
        self._following_lock = threading.Lock()
        self._is_following: bool | None = False
        self._bootstrap = Bootstrap(engine)
        self.beginning: dict[object, int] = {}
        # Where the feed begins that began earliest; None before the first.
        self._earliest: int | None = None

    # -----------------------------------------------------------------------------------------------------------
    # Called by the store

    def drain(self, *, is_outside: bool = False) -> None:
        """Deliver everything that is ready. Inside a transaction nothing is delivered: the writes of subscribers
        would become a part of it.

        Args:
            is_outside: The caller knows that this thread is in no transaction, so there is no check.
        """
        live = self.live
        dispatcher = live.dispatcher
        if dispatcher.line:
            if not is_outside and self.engine.has_transaction_here():
                return
            dispatcher.run()
        if live.in_hand and not dispatcher.line:
            live.release_delivered()
        if live.forgotten:
            self._sweep_if_free()
            self._update_following()

    def abort(self, error: ReactDBError) -> None:
        """The next commits cannot be delivered: end every feed that depends on them. Under the publish lock."""
        self.live.abort(error)

    def end_all(self, end: Any) -> None:
        """End every feed, also feeds that read from the log. Under the publish lock."""
        self.live.end_all(end)

    def close(self) -> None:
        """Complete every feed, after the delivery of its queued events."""
        with self._lock_exclusively():
            if self._earliest is not None:
                try:
                    # Tokens are read afterwards, too.
                    self.token(self._earliest)
                except Exception:
                    logger.debug("reading the epochs of %s failed", self.engine.path, exc_info=True)
            self.live.end_all(COMPLETED)
        self._update_following()
        self.drain()

    def abandon(self) -> None:
        """In a forked child: feeds end with the engine's error when they are polled, and nothing is delivered."""
        self._lock = self._publisher.lock
        self._following_lock = threading.Lock()
        self._is_busy = False
        self._is_following = False
        self.live.dispatcher.abandon()

    def lowest_needed(self, oldest: int) -> int | None:
        """The smallest position >= `oldest` from which some feed has still to read the log, or None."""
        with self.held():
            # Later commits may not fit into a queue. Another process's changes are read before they are delivered.
            needed = [self._publisher.published] if self.live.nodes else []
            for subscription in self.live.behind:
                position = subscription.reads_from
                if position is not None:
                    needed.append(position)
            needed += self.beginning.values()
        return min((position for position in needed if position >= oldest), default=None)

    def log_when_unlocked(self, message: Runnable) -> None:
        """Let something be logged: now, or after the publish lock was given back, because a handler may do anything."""
        if self._lock._is_owned():  # type: ignore[attr-defined]
            self.ready(message)
        else:
            message.run()

    # -----------------------------------------------------------------------------------------------------------
    # Joining and leaving

    def attach(self, subscription: Subscription) -> None:
        """Subscribe: from this moment's state on, or from a position in the log.

        Raises:
            TableNotFound, IndexNotFound, UnsupportedFeed: As `changes` does, had it been called now.
            HistoryLost, HistoryDiverged, InvalidOption: About `since`.
            CorruptDatabase: The log seems to end early.
            QueryError: An aggregate cannot be worked out.
        """
        self.check_place()
        request = subscription.request
        since = request.options.since
        if since is not None:
            self._catch_up()
            reader = self._bootstrap.at(request, since)
            inside = check_order(reader.plan.view, since)
            if inside is None:
                self._attach_at(subscription, reader)
            else:
                self._attach_inside(subscription, reader, inside)
        elif request.is_stateful:
            self._catch_up()
            bootstrapped: Bootstrapped | None = None
            for left in range(BOOTSTRAPS, -1, -1):
                if left:
                    bootstrapped = self._bootstrap.now(request, bootstrapped, self._has_node, LAST_CHANGES)
                # Not found in time to join without keeping writers waiting: then they do wait, once.
                if self._attach_now(subscription, bootstrapped, is_last=not left):
                    break
        elif not self._attach_now(subscription, None, is_last=False):
            self._catch_up()
            self._attach_now(subscription, None, is_last=True)
        if self._earliest is None or subscription.since < self._earliest:
            self._earliest = subscription.since
        if subscription.has_work:
            subscription.wake()
        self._update_following()
        if not self._is_following:
            # The file is not followed, so nothing else would end the feed if the file was found moved just now.
            self._publisher.end_feeds()

    def _catch_up(self) -> None:
        """Publish the commits of other processes: shared views are at the publisher's position, and should not begin behind the
        result of a read.

        Raises:
            CorruptDatabase: The log seems to end early.
        """
        if self.open_views and not self.engine.is_memory:
            self.engine.catch_up()
        self.engine.check_end()

    def _is_published(self, end: tuple[int, int, bool], catalogue: Catalogue) -> bool:
        """Whether there is nothing to catch up with: see `Snapshot.end`."""
        return not self.open_views or self.engine.publisher.has_published(end, catalogue)

    def check_place(self) -> None:
        """Raises: UsageError, where this thread is inside of a commit, or of another feed's beginning."""
        if self._publisher.is_routing() or self._bootstrap.is_on:
            raise UsageError(NOT_HERE)

    def _has_node(self, key: Hashable) -> bool:
        return key in self.live.nodes

    def _attach_at(self, subscription: Subscription, reader: LogReader) -> None:
        """From the reader's position on."""
        with self._lock_exclusively(), self.engine.fresh_snapshot() as snapshot:
            if reader.position < snapshot.seq or find_abort_reason(reader.plan.view, snapshot) is not None:
                self.live.behind[subscription] = None
                subscription.begin_behind(reader, is_prepared=True)
            else:
                self._join_now(subscription, reader.plan, snapshot, snapshot.seq, reader.plan.view)

    def _attach_inside(self, subscription: Subscription, reader: LogReader, inside: Inside) -> None:
        """Inside of the initial values as of the reader's position; then on from there."""
        with Later(self.engine) as later:
            with self._lock_exclusively():
                snapshot = later.enter()
                self.live.behind[subscription] = None
                subscription.begin_behind(reader, is_prepared=False)
            options = subscription.request.options
            subscription.provide(
                read_rest(reader.plan.view, snapshot, subscription.since, later, options, inside)
            )

    def _attach_now(
        self, subscription: Subscription, bootstrapped: Bootstrapped | None, *, is_last: bool
    ) -> bool:
        """Join at the present. Returns False, without joining, if the bootstrapped view is too far behind; or, without such a
        view, if there are commits to catch up with.

        Args:
            is_last: Join in both cases. Writers wait while a bootstrapped view reads the changes since then, or, if that is not
                possible, while the view is seeded.
        """
        with Later(self.engine) as later:
            with self._lock_exclusively():
                snapshot = later.enter()
                end = snapshot.end()
                seq = end[0]
                # The same snapshot serves for the join, so that a start is one read transaction.
                if not (is_last or bootstrapped is not None or self._is_published(end, snapshot.catalogue)):
                    return False
                most = LAST_CHANGES
                if is_last and bootstrapped is not None:
                    most = max(most, seq - bootstrapped.reader.position)
                    if bootstrapped.reader.plan.key not in self.live.nodes and not bootstrapped.can_join(
                        snapshot, most
                    ):
                        bootstrapped = None
                if bootstrapped is None:
                    view = self._join_now(subscription, subscription.request.plan(snapshot), snapshot, seq)
                else:
                    reader = bootstrapped.reader
                    if reader.plan.key not in self.live.nodes:
                        if not bootstrapped.can_join(snapshot, most):
                            return False
                        reader.read_last(snapshot, most + 1)
                    view = self._join_now(subscription, reader.plan, snapshot, seq, reader.plan.view)
            if view is not None:
                # The snapshot is fixed, so writers need not wait until it has been read.
                subscription.provide(read_result(view, snapshot, later, subscription.request.options))
        return True

    def _join_now(
        self,
        subscription: Subscription,
        plan: Plan,
        snapshot: Snapshot,
        present: int,
        bootstrapped: View | None = None,
    ) -> View | None:
        """Join, with a view that is as of the snapshot, whose seq is `present`, or needs a seed. Returns the view whose result is
        still to be read from the snapshot, and provided."""
        request = subscription.request
        node = self._node(plan, snapshot, present, bootstrapped)
        view = node.view
        ordered = None if request.options.squash_s is None else present_order(view)
        if not view.is_stateful:
            subscription.begin(plan, present, ordered, is_prepared=not request.options.include_initial)
        else:
            # The node is at the publisher's position; the snapshot may be ahead by a commit on its way to
            # publication.
            seq = max(self._publisher.published, node.seq)
            subscription.begin(plan, seq, ordered, is_prepared=False)
            # Of a union, members without state read the snapshot: the same moment, or a commit would be delivered twice.
            then = view_as_of(snapshot, seq) if seq < present else snapshot
            subscription.provide(read_now(view, then, seq, request.options))
        # Documents that the view skipped during the bootstrap are missing in its first result.
        self._join(subscription, node, node.failed - node.failures.seeded)
        return view if request.options.include_initial and not view.is_stateful else None

    def _node(self, plan: Plan, snapshot: Snapshot, seq: int, view: View | None = None) -> Node:
        """The node of a plan. A new node has `view`, which is as of the snapshot, whose seq is `seq`, or is bootstrapped."""
        node = self.live.nodes.get(plan.key)
        if node is not None:
            return node
        if view is None:
            view = plan.view
            view.seed(snapshot)
        plan.failures.seeded = plan.failures.count
        if not self.live.nodes:
            self._publisher.begin_listening(seq)
        return self.live.add(plan, seq if view.is_stateful else 0)

    def _join(self, subscription: Subscription, node: Node, failed: int | None = None) -> None:
        """`failed`: how many of the documents that the node could not compute it knows of already; None: all of them."""
        subscription.count_failures_of(node, failed)
        # In this order: if Ctrl-C strikes, it knows where it has to leave.
        subscription.node = node
        node.add(subscription, self._publisher.published)

    @property
    def _is_engaged(self) -> bool:
        """Whether this thread, which holds the publish lock, is in the middle of joining a subscription or of a commit."""
        return self._is_busy or self._publisher.routing_thread is not None

    @contextmanager
    def _lock_exclusively(self) -> Iterator[None]:
        """With the publish lock, and with nothing swept in between: a finalizer may run anywhere, in this thread too."""
        with self._lock:
            if self._is_engaged:
                raise UsageError(NOT_HERE)
            self._is_busy = True
            try:
                yield
            finally:
                self._is_busy = False
                self.live.sweep()
        self._sweep_if_free()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the publish lock, to read something. Subscriptions that were forgotten before are removed first, and
        those forgotten during the block afterwards: forgetting never waits for the lock."""
        was_late = bool(self.live.forgotten)
        try:
            with self._lock:
                if not self._is_engaged:
                    self.live.sweep()
                yield
        finally:
            if was_late:
                self._update_following()
            self.tidy()

    def forget(self, subscription: Subscription) -> None:
        """Unsubscribe. Any thread, at any time, also from a finalizer: it never waits."""
        self.live.forgotten.append(subscription)
        self._sweep_if_free()

    def settle(self) -> None:
        """After the last unsubscription: stop following other processes. Not from a finalizer."""
        self._update_following()

    def tidy(self) -> None:
        """Remove the subscriptions that were forgotten while the lock was held. Not under the publish lock."""
        if self.live.forgotten:
            self._sweep_if_free()
            self._update_following()

    def _sweep_if_free(self) -> None:
        lock = self._lock
        while self.live.forgotten:
            if lock._is_owned():  # type: ignore[attr-defined]
                # A finalizer, in the thread that has the lock.
                if self._is_engaged:
                    return
                self.live.sweep()
                continue
            try:
                # Not free: the lock's holder sweeps before it gives the lock back, or looks again afterwards.
                if not lock.acquire(blocking=False):
                    return
                # Ctrl-C may strike after every call, but `with` gives back everything that it has taken.
                with lock:
                    lock.release()
                    self.live.sweep()
            except BaseException:
                if lock._is_owned():  # type: ignore[attr-defined]
                    lock.release()
                raise

    def _update_following(self) -> None:
        """Follow other processes while a feed is open. Not under the publish lock, which `follow` takes."""
        if self.engine.is_memory:
            return
        with self._following_lock:
            wanted = bool(self.live.nodes or self.live.behind)
            if not self._is_following and not self.engine.is_usable:
                # In a forked child, every open subscription belongs to the parent. (But for a moved file, `follow`
                # ends the feeds.)
                wanted = False
            if wanted is self._is_following:
                return
            # Imported here because a file that is not followed needs none of it.
            from reactdb.store import follow

            # Neither, until it is done: Ctrl-C may strike, and both can be done twice.
            self._is_following = None
            if wanted:
                follow.watch(self.engine)
            else:
                follow.unwatch(self.engine)
            self._is_following = wanted

    # -----------------------------------------------------------------------------------------------------------
    # Catching up

    def reader_at(self, subscription: Subscription, position: int) -> LogReader:
        """A reader of the log for a subscription whose queue was full at `position`."""
        return self._bootstrap.at(subscription.request, position)

    def rejoin(self, subscription: Subscription, reader: LogReader) -> bool:
        """Move a subscription back into a node, without a gap: the rest of the log is read with the publish lock
        held. False: the rest is too long."""
        with self._lock_exclusively():
            if subscription.is_closed or subscription.end is not None:
                return False
            with self.engine.fresh_snapshot() as snapshot:
                if snapshot.seq - reader.position > LAST_CHANGES:
                    return False
                deltas, is_last = reader.read(snapshot)
                if not is_last:
                    # A document failed. The earlier ones are delivered, and then the error.
                    subscription.read_on(deltas, reader.position)
                    return False
                gone = find_abort_reason(reader.plan.view, snapshot)
                self.live.behind.pop(subscription, None)
                if gone is None:
                    self._join(
                        subscription, self._node(reader.plan, snapshot, snapshot.seq, reader.plan.view)
                    )
                subscription.join_node(deltas, snapshot.seq)
                if gone is not None:
                    subscription.finish(gone)
        self._update_following()
        return True

    # -----------------------------------------------------------------------------------------------------------
    # Figures

    def token(self, seq: int) -> str:
        """The position `seq`, to be kept beyond the process; where the database is closed, as the file was last seen."""
        engine = self.engine
        try:
            with engine.fresh_snapshot() as snapshot:
                epoch = engine.epochs.at(snapshot.connection, seq)
        except Exception:
            known = engine.epochs.last_known(seq)
            if known is None:
                raise
            epoch = known
        return f"{engine.database_id}.{epoch}.{seq}"

    def subscriptions(self) -> list[Subscription]:
        """The open subscriptions."""
        with self.held():
            return [one for node in self.live.nodes.values() for one in node.subscriptions] + list(
                self.live.behind
            )

    def describe_feeds(self, most: int, head: int) -> tuple[list[dict[str, Any]], int]:
        """See `CommitListener.describe_feeds`."""
        with self.held():
            number = sum(map(len, self.live.nodes.values())) + len(self.live.behind)
            every = chain(
                (one for node in self.live.nodes.values() for one in node.subscriptions), self.live.behind
            )
            some = list(islice(every, most))
        return [describe_subscription(one, head) for one in some], number

    @property
    def is_clean(self) -> bool:
        """Whether nothing is registered, and nothing is left behind."""
        with self.held():
            return self.live.is_clean
