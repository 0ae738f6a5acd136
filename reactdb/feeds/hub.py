"""FeedHub: the feeds of one database. It hears of every commit, advances the views that a change concerns, and passes what they
report to whoever is subscribed.

    Node         one view, and its subscribers: equal queries have one node, however many subscribe
    route        under the publish lock, within a commit: advance, append to queues
    drain        after it, without any lock: tell, by one thread at a time

Thread safety: nodes, router and registrations belong to whoever holds the publish lock.
Letting go never waits for the lock: who cannot have it leaves a note, and whoever has it reads the notes.

Rule of this file: no user code under the lock but predicates and mappings, and nothing that they raise gets out.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from reactdb.change import Change, Commit
from reactdb.errors import FeedAborted, FeedOverflow, ReactDBError, UsageError
from reactdb.feeds.beginning import Later, initial_events, provide_result
from reactdb.feeds.compiler import Plan
from reactdb.feeds.fan import Fan
from reactdb.feeds.hearing import COMPLETED
from reactdb.feeds.log_reader import LogReader, StateAt
from reactdb.feeds.node import Node
from reactdb.feeds.position import KnownEpochs
from reactdb.feeds.router import Router
from reactdb.feeds.seeding import Seeded, Seeding, index_gone, table_gone, why_gone
from reactdb.feeds.subscription import Subscription
from reactdb.feeds.teller import Teller
from reactdb.feeds.view import AnyDelta, View, present_order
from reactdb.store.engine import Engine
from reactdb.store.epochs import Epoch
from reactdb.store.snapshot import Snapshot, as_of

logger = logging.getLogger("reactdb")

NOT_HERE = "a predicate or mapping of a feed must not subscribe: it runs inside somebody's commit"
# Changes that a feed which caught up may have left when it goes live: read with the publish lock held.
LAST_CHANGES = 64
# Times that a view with state is made ready without the lock, before writers are made to wait for it.
SEEDINGS = 8


def hub_of(engine: Engine) -> FeedHub:
    """The hub of an engine, made when it is first asked for."""
    with engine.publish_lock:
        hub = engine.listener
        if hub is None:
            hub = engine.listener = FeedHub(engine)
        assert isinstance(hub, FeedHub)
        return hub


class FeedHub:
    """See the head of this file. It is the engine's CommitListener."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lock = engine.publish_lock
        self._nodes: dict[Hashable, Node] = {}
        self._router: Router[Node] = Router()
        # Subscriptions that read on from the log, and have no node.
        self._behind: dict[Subscription, None] = {}
        self._forgotten: deque[Subscription] = deque()
        # Whoever holds the lock is in the middle of something that must not be swept under its feet.
        self._is_busy = False
        # The node that is being advanced.
        self._current: Node | None = None
        # Anybody listens: commits are not put together for nobody.
        self.is_active = False
        self.teller = Teller()
        # Somebody has something to tell, at the next drain.
        self.is_ready = self.teller.is_ready
        self._tail_lock = threading.Lock()
        self._is_tailing: bool | None = False
        self._state = StateAt(engine)
        self._seeding = Seeding(engine)
        self._epochs = KnownEpochs(engine)

    # -----------------------------------------------------------------------------------------------------------
    # The engine's listener

    def route(self, commit: Commit) -> None:
        """Advance the views that the commit concerns, change by change.

        Whatever fails ends the feeds of the view that it failed in, and every other view is advanced. An interrupt of this
        thread (KeyboardInterrupt) is raised after that.
        """
        self._is_busy = True
        state = self._state
        interrupt: BaseException | None = None
        try:
            while True:
                self._current = None
                try:
                    self._advance(commit, state)
                    break
                except Exception as error:
                    if not self._broke_off(commit, error):
                        break
                except BaseException as error:
                    interrupt = error
                    self._broke_off(commit, error)
        finally:
            if state.stack is not None:
                state.close()
            self._is_busy = False
            if self._forgotten:
                self._sweep()
        if interrupt is not None:
            raise interrupt

    def route_one(
        self, change: Change, documents: tuple[dict[str, Any] | None, dict[str, Any]] | None
    ) -> bool:
        """Pass on a commit of one change, if that is quickly done: where it concerns nobody, or one feed that tells it as it is
        to a function. False: it is for `route`.

        Written out: a call that finds its code cold costs 0.3 µs, and the way through router, view, node and queue has ten.
        """
        router = self._router
        table = router.tables.get(change.table_id)
        if table is None:
            return not router.everything
        node: Node | dict[Node, None] | None = None
        lanes = table.lanes
        if router.everything:
            return False
        if not lanes:
            nodes = table.listed
            if nodes is None or len(nodes) != 1:
                return False
            node = nodes[0]
        else:
            if table.looks_inside and documents is not None:
                change.show(*documents)
            lane = lanes.get(None)
            if lane is None or table.all or len(lanes) > 1:
                return False
            if lane.ranges.lowest <= change.key_bytes < lane.ranges.highest:
                return False
            node = lane.values.held.get(change.key_bytes)
            if node is None:
                return True
            if type(node) is dict:
                return False
        assert type(node) is Node
        seq = change.seq
        if seq <= node.seq or not node.is_verbatim:
            return False
        member, shared = node.direct, node.sole
        if member is not None:
            queue: Any = member.queue
            held = queue.held
            if seq <= member.since or member.end is not None or held is None or len(held) >= queue.limit:
                return False
        elif shared is None:
            return False
        self._current = node
        try:
            node.seq = seq
            if member is None:
                if documents is not None and type(shared) is Fan and not shared.is_awake:
                    change.show(*documents)
                shared.publish((change,))  # type: ignore[union-attr]
            elif member.is_woken:
                held.append(change)
            elif node.is_called:
                if documents is not None:
                    # It will be told in a moment. What has to wait, waits as bytes.
                    change.show(*documents)
                held.append(change)
                member.is_woken = True
                self.is_ready(member)
            else:
                held.append(change)
                member.is_woken = True
                member.consumer.wake(member)
        except Exception as error:
            if shared is not None:
                node.fail_shared(shared, error)
                self._spill(node)
            else:
                self._broke_off(Commit([change], seq), error)
        except BaseException as error:
            self._broke_off(Commit([change], seq), error)
            raise
        self._current = None
        if self._forgotten:
            self._sweep()
        return True

    def _advance(self, commit: Commit, state: StateAt) -> None:
        """May be called again after it broke off: a view that has taken a change in does not hear of it again."""
        changes = commit.changes
        if len(changes) > 1:
            nodes = self._router.find_whole(changes)
            if nodes is not None and all(node.is_verbatim for node in nodes):
                self._pass_on(changes, nodes)
                changes = ()
        find = self._router.find
        for change in changes:
            seq = change.seq
            for node in find(change):
                # Found twice, or seeded with this change.
                if node.seq >= seq:
                    continue
                self._current = node
                node.seq = seq
                deltas = node.view.advance(change, state)
                if deltas and not node.offer(deltas, seq):
                    self._spill(node)
                self._current = None
        if commit.dropped_tables or commit.dropped_indexes:
            self._abort_dropped(commit)

    def _pass_on(self, changes: Sequence[Change], nodes: Sequence[Node]) -> None:
        """A whole commit to those to whom each change of it is told as it is."""
        last = changes[-1].seq
        for node in nodes:
            if node.seq >= last:
                continue
            told = changes if node.seq < changes[0].seq else [one for one in changes if one.seq > node.seq]
            self._current = node
            node.seq = last
            if not node.offer_all(told):
                self._spill(node)
            self._current = None

    def _broke_off(self, commit: Commit, error: BaseException) -> bool:
        """End the feeds of the view that was being advanced: it is in an unknown state, and must not go on as if it were not.
        Whether there is somebody left to go on with."""
        node, self._current = self._current, None
        end = error if isinstance(error, Exception) else None
        if node is not None:
            logger.error("a feed ends, because its view failed", exc_info=error)
            self._end(node, end or FeedAborted(f"Changefeed aborted (interrupted at commit {commit.seq})"))
        elif end is not None:
            # Not in a view: which ones it would have concerned, nobody knows.
            logger.error(
                "passing commit %d to the feeds broke off: all of them end", commit.seq, exc_info=error
            )
            self.abort(FeedAborted(f"Changefeed aborted (commit {commit.seq} could not be passed on)"))
            return False
        return True

    def _spill(self, node: Node) -> None:
        """Let those go that had no room: they read on from the log. And those that could not take it."""
        for subscription in node.subscriptions:
            if subscription.is_behind:
                self._leave(subscription)
                self._behind[subscription] = None
            elif subscription.end is not None and not isinstance(subscription.end, FeedOverflow):
                logger.error("a feed ends, because its queue failed", exc_info=subscription.error)
                self._leave(subscription)

    def _end(self, node: Node, end: Any) -> None:
        for subscription in node.subscriptions:
            self._finish(subscription, end)
            self._leave(subscription)

    @staticmethod
    def _finish(subscription: Subscription, end: Any) -> None:
        try:
            subscription.finish(end)
        except Exception:
            # Its consumer could not be woken: it will look when somebody asks it.
            logger.exception("a feed that ends could not be told so")

    def _abort_dropped(self, commit: Commit) -> None:
        tables, indexes = set(commit.dropped_tables), set(commit.dropped_indexes)
        for node in list(self._nodes.values()):
            if any(info.id in tables for info in node.view.tables()):
                self._end(node, table_gone())
                continue
            for table_id, name in node.view.indexes():
                if (table_id, name) in indexes:
                    self._end(node, index_gone(name))
                    break

    def abort(self, error: ReactDBError) -> None:
        """Commits were compacted away before they were told, or the file is in trouble: no feed can go on."""
        for node in list(self._nodes.values()):
            self._end(node, error)

    def close(self) -> None:
        """Every feed completes, when it has told what it has."""
        with self._alone():
            try:
                self._epochs.read()
            except Exception:
                logger.debug("reading the epochs of %s failed", self.engine.path, exc_info=True)
            for node in list(self._nodes.values()):
                self._end(node, COMPLETED)
            for subscription in list(self._behind):
                subscription.finish(COMPLETED)
            self._behind.clear()
        self._mind_the_tail()
        self.drain()

    def abandon(self) -> None:
        """In a forked child: feeds end with the engine's error when somebody asks them for more; nobody is told."""
        self._lock = self.engine.publish_lock
        self._tail_lock = threading.Lock()
        self._is_busy = False
        self._is_tailing = False
        self.teller.abandon()

    # -----------------------------------------------------------------------------------------------------------
    # Joining and leaving

    def attach(self, subscription: Subscription) -> None:
        """Subscribe: from this moment's state on, or from a position in the log.

        Raises:
            TableNotFound, IndexNotFound, UnsupportedFeed: As `changes` does, had it been called now.
            HistoryLost, HistoryDiverged, InvalidOption: About `since`.
            QueryError: An aggregate cannot be worked out.
        """
        if self.engine.publisher.is_routing or self._seeding.is_on:
            raise UsageError(NOT_HERE)
        if self.is_active and not self.engine.is_alone:
            # Shared views stand where the publisher does: they should not begin behind what a read would show.
            self.engine.catch_up()
        request = subscription.request
        since = request.options.since
        if since is not None:
            self._attach_at(subscription, self._seeding.at(request, since))
        else:
            seeded: Seeded | None = None
            for left in range(SEEDINGS if request.is_stateful else 0, -1, -1):
                # Not found in time to join without keeping writers waiting: then they do wait, once.
                seeded = self._seeding.now(request, seeded, self._has_node, LAST_CHANGES) if left else None
                if self._attach_now(subscription, seeded):
                    break
        if subscription.has_work:
            subscription.wake()
        self._mind_the_tail()

    def _has_node(self, key: Hashable) -> bool:
        return key in self._nodes

    def _attach_at(self, subscription: Subscription, reader: LogReader) -> None:
        """From the reader's position on."""
        with self._alone(), self.engine.fresh_snapshot() as snapshot:
            if reader.position < snapshot.seq or why_gone(reader.plan.view, snapshot) is not None:
                self._behind[subscription] = None
                subscription.begin_behind(reader)
            else:
                self._join_now(subscription, reader.plan, snapshot, reader.plan.view)

    def _attach_now(self, subscription: Subscription, seeded: Seeded | None) -> bool:
        """From now on. False: the seeded view is too far from that."""
        with self.engine.reserve(), Later() as later:
            with self._alone():
                snapshot = later.enter(self.engine)
                if seeded is None:
                    view = self._join_now(subscription, subscription.request.plan(snapshot), snapshot)
                else:
                    reader = seeded.reader
                    if reader.plan.key not in self._nodes:
                        if not seeded.can_join(snapshot, LAST_CHANGES):
                            return False
                        reader.read(snapshot, LAST_CHANGES + 1)
                    view = self._join_now(subscription, reader.plan, snapshot, reader.plan.view)
            if view is not None:
                # The snapshot stands still, so writers need not wait for it to be read.
                provide_result(subscription, view, snapshot, later)
        return True

    def _join_now(
        self, subscription: Subscription, plan: Plan, snapshot: Snapshot, seeded: View | None = None
    ) -> View | None:
        """Join, with a view that is as of the snapshot or is to be seeded. Returns the view whose result is still to be read,
        from the snapshot, and provided."""
        request = subscription.request
        node = self._node(plan, snapshot, seeded)
        view = node.view
        ordered = None if request.options.squash_s is None else present_order(view)
        if not view.is_stateful:
            subscription.begin(plan, snapshot.seq, ordered, is_prepared=not request.options.include_initial)
        else:
            # The node is where the publisher is; the snapshot may be ahead by a commit that is about to be published.
            seq = max(self.engine.published, node.seq)
            subscription.begin(plan, seq, ordered, is_prepared=False)
            # Of a union, members without state read the snapshot: the same moment, or a commit would be told twice.
            then = as_of(snapshot, seq) if seq < snapshot.seq else snapshot
            subscription.provide(initial_events(view, then, seq, request.options))
        self._join(subscription, node)
        return view if request.options.include_initial and not view.is_stateful else None

    def _node(self, plan: Plan, snapshot: Snapshot, view: View | None = None) -> Node:
        """The node of a plan. A new one has `view`, which is as of the snapshot, or is seeded."""
        node = self._nodes.get(plan.key)
        if node is not None:
            return node
        if view is None:
            view = plan.view
            view.seed(snapshot)
        node = Node(plan.key, view, snapshot.seq if view.is_stateful else 0)
        if not self._nodes:
            self.engine.begin_listening(snapshot.seq)
        # First: Ctrl-C may strike, and to be told for nobody does no harm.
        self.is_active = True
        self._nodes[plan.key] = node
        self._router.add(node, view.routes())
        return node

    def _join(self, subscription: Subscription, node: Node) -> None:
        node.add(subscription, self.engine.published)
        subscription.node = node

    def _leave(self, subscription: Subscription) -> None:
        """Out of the node; a node without subscribers goes. Called with the lock held."""
        node = subscription.node
        subscription.node = None
        self._behind.pop(subscription, None)
        if node is None:
            return
        node.remove(subscription)
        self._remove_unused(node)

    def _remove_unused(self, node: Node) -> None:
        if node.is_empty and self._nodes.get(node.key) is node:
            del self._nodes[node.key]
            if not self._nodes:
                # A dict keeps the room that it once had.
                self._nodes.clear()
                self.is_active = False
            self._router.remove(node, node.view.routes())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """With the publish lock, and with nothing swept in between: a finalizer may run anywhere, in this thread too."""
        with self.engine.reserve(), self._lock:
            if self._is_busy:
                raise UsageError(NOT_HERE)
            self._is_busy = True
            try:
                yield
            finally:
                self._is_busy = False
                self._sweep()
        self._sweep_if_free()

    def forget(self, subscription: Subscription) -> None:
        """Unsubscribe. Any thread, at any time, also from a finalizer: it never waits."""
        self._forgotten.append(subscription)
        self._sweep_if_free()

    def settle(self) -> None:
        """After the last unsubscription: stop following other processes. Not from a finalizer."""
        self._mind_the_tail()

    def tidy(self) -> None:
        """Let those go that were forgotten while the lock was held."""
        self._sweep_if_free()

    def _sweep_if_free(self) -> None:
        lock = self._lock
        while self._forgotten:
            if lock._is_owned():  # type: ignore[attr-defined]
                # A finalizer, in the thread that has the lock.
                if self._is_busy:
                    return
                self._sweep()
                continue
            try:
                # Not free: who has the lock sweeps before, or looks again after, giving it back.
                if not lock.acquire(blocking=False):
                    return
                # Ctrl-C may strike after every call, but what `with` has taken it gives back.
                with lock:
                    lock.release()
                    if self._is_busy:
                        return
                    self._sweep()
            except BaseException:
                if lock._is_owned():  # type: ignore[attr-defined]
                    lock.release()
                raise

    def _sweep(self) -> None:
        while True:
            try:
                subscription = self._forgotten.popleft()
            except IndexError:
                return
            self._leave(subscription)
            subscription.release()

    def _mind_the_tail(self) -> None:
        """Follow other processes while somebody listens. Not under the publish lock: the tail takes it."""
        if self.engine.is_alone:
            return
        from reactdb.store import tailing

        with self._tail_lock:
            wanted = self.is_active
            if wanted is self._is_tailing:
                return
            # Neither, until it is done: Ctrl-C may strike, and both can be done twice.
            self._is_tailing = None
            if wanted:
                tailing.watch(self.engine)
            else:
                tailing.unwatch(self.engine)
            self._is_tailing = wanted

    # -----------------------------------------------------------------------------------------------------------
    # Catching up

    def reader_at(self, subscription: Subscription, position: int) -> LogReader:
        """A reader of the log for a subscription whose queue was full at `position`."""
        return self._seeding.at(subscription.request, position)

    def read_page(self, reader: LogReader) -> tuple[list[AnyDelta], bool]:
        """The next page of the log."""
        with self.engine.fresh_snapshot() as snapshot:
            return reader.read(snapshot)

    def rejoin(self, subscription: Subscription, reader: LogReader) -> bool:
        """Back to being told, without a gap: what is left of the log is read with the publish lock held. False: too much is."""
        with self._alone():
            if subscription.is_closed or subscription.end is not None:
                return False
            with self.engine.fresh_snapshot() as snapshot:
                if snapshot.seq - reader.position > LAST_CHANGES:
                    return False
                deltas, is_last = reader.read(snapshot)
                assert is_last
                gone = why_gone(reader.plan.view, snapshot)
                self._behind.pop(subscription, None)
                if gone is None:
                    self._join(subscription, self._node(reader.plan, snapshot, reader.plan.view))
                subscription.joined(deltas, snapshot.seq)
                if gone is not None:
                    subscription.finish(gone)
        self._mind_the_tail()
        return True

    # -----------------------------------------------------------------------------------------------------------
    # Telling

    def drain(self, *, is_outside: bool = False) -> None:
        """Tell all that is ready. Inside a transaction nothing is told: what subscribers write would become a part of it.

        Args:
            is_outside: Of any transaction of this thread: it need not be asked.
        """
        teller = self.teller
        if teller.ready:
            if not is_outside and self.engine.current_transaction() is not None:
                return
            teller.drain()
        if self._forgotten:
            self._sweep_if_free()
            self._mind_the_tail()

    # -----------------------------------------------------------------------------------------------------------
    # Figures

    def history(self) -> list[Epoch]:
        """The file's epochs, as last seen where the database is closed."""
        return self._epochs.known()

    def subscriptions(self) -> list[Subscription]:
        """Those that are open."""
        with self._lock:
            return [one for node in self._nodes.values() for one in node.subscriptions] + list(self._behind)

    @property
    def node_count(self) -> int:
        """Different views that are kept up to date."""
        return len(self._nodes)

    @property
    def is_clean(self) -> bool:
        """Nothing is registered, and nothing is left of what was."""
        return not self._nodes and not self._behind and not self._forgotten and self._router.is_empty
