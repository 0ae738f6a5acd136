"""Dispatch: from a commit to the views that it concerns, and from their reports to the subscribers' queues.

    commit -> `LiveViews.dispatch` -> View.advance -> `Node.publish` -> broadcasts, and queues of subscriptions' own
           -> Dispatcher -> consumers that are called, or poll

    Node          one view, and its subscribers: equal queries have one node, however many subscribe
    LiveViews     all nodes, and the subscriptions that read from the log instead
    Dispatcher    the line of objects with something to deliver, in the order in which they became ready

A failure ends the feeds of the failed view, and no others.

Thread safety: nodes and registrations belong to the thread that holds the publish lock. Any thread may call the dispatcher.

Rule of this file: no user code but predicates and mappings before the dispatcher, and nothing that they raise gets out.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from threading import get_ident
from typing import Any, cast

from reactdb import budget
from reactdb.change import Commit
from reactdb.errors import INTERRUPTS, FeedAborted, FeedOverflow, ReactDBError, as_end
from reactdb.feeds.bootstrap import index_gone_error, table_gone_error
from reactdb.feeds.broadcast import Broadcast, Runnable, drop_moves
from reactdb.feeds.compiler import Plan
from reactdb.feeds.failures import Failures, Say
from reactdb.feeds.log_reader import StateAt
from reactdb.feeds.router import AxisRoutes, Router
from reactdb.feeds.subscription import Subscription
from reactdb.feeds.views.base import AnyDelta, View
from reactdb.logs import logger
from reactdb.store.engine import Engine
from reactdb.store.file.sqlite import SQLiteError


class Dispatcher:
    """See the head of this file. A write by a subscriber during its call gets in line behind the present deliveries.

    Attributes:
        line: The broadcasts and consumers that have something to deliver.
    """

    __slots__ = ("_turn", "line", "ready")

    def __init__(self) -> None:
        self.line: deque[Runnable] = deque()
        self._turn = threading.RLock()
        # Puts something into the line. Any thread; a deque needs no lock.
        self.ready = self.line.append

    def run(self) -> None:
        """Deliver everything that is ready. Returns at once if a thread, this or another, is delivering already: that
        thread checks the line again after it has given the turn back."""
        line, turn = self.line, self._turn
        # The time limit of the query that has made the commit, or noticed it, is not for subscribers.
        outer = budget.current.get()
        if outer is not None:
            budget.current.set(None)
        try:
            while line:
                if turn._is_owned():  # type: ignore[attr-defined]
                    return
                try:
                    if not turn.acquire(False):
                        return
                    # Only this thread removes items, each after its run: an interrupted item is still first in line.
                    while line:
                        line[0].run()
                        if line:
                            # Not in a forked child, which has none.
                            del line[0]
                finally:
                    # The turn is acquired inside of `try`, because Ctrl-C may strike right after that call. So only the release
                    # shows whether this thread has it.
                    try:
                        turn.release()
                    except RuntimeError:
                        pass
        finally:
            if outer is not None:
                budget.current.set(outer)

    def abandon(self) -> None:
        """In a forked child: nothing is delivered."""
        self._turn = threading.RLock()
        self.line.clear()


class Node:
    """One view, and the subscriptions to its result.

    Attributes:
        key: The common key of equal queries.
        includes_meta: It is also given the changes that change nothing but metadata.
        seq: The newest change that the view has taken in, or was bootstrapped with.
        failures: The documents that the view could not compute.
        routes: The routes on values that may fail to be computed; documents without such a value never come here.
        waiting: Its only subscription, which will have a shared queue from the next commit of this node on. Most of very many
            feeds wait for ever.
        apart: Subscriptions with their own queues: they need net differences or offsets, or must not lose a change,
            or are still delivering their opening.
        broadcasts: The queues of all others. Subscriptions that get the same events share a queue.
    """

    __slots__ = (
        "_ready",
        "apart",
        "broadcasts",
        "failures",
        "includes_meta",
        "key",
        "routes",
        "seq",
        "view",
        "waiting",
    )

    def __init__(self, plan: Plan, seq: int, ready: Any) -> None:
        """`ready` puts something into the dispatcher's line."""
        self.key: Hashable = plan.key
        self.includes_meta = plan.includes_meta
        self.view: View = plan.view
        self.failures: Failures = plan.failures
        self.routes: Sequence[AxisRoutes[Node]] = ()
        self.seq = seq
        # Most nodes have one subscriber, so neither is made before it is needed.
        self.waiting: Subscription | None = None
        self.apart: dict[Subscription, None] | None = None
        self.broadcasts: Sequence[Broadcast] = ()
        self._ready = ready

    @property
    def failed(self) -> int:
        """How many documents could not be computed, here or on the way here."""
        return self.failures.count + sum(axis.failed for axis in self.routes)

    @property
    def subscriptions(self) -> list[Subscription]:
        """A copy, because a subscriber may leave during its call."""
        waiting = self.waiting
        members = list(self.apart or ())
        if waiting is not None:
            members.append(waiting)
        for broadcast in self.broadcasts:
            members += cast(Iterable[Subscription], broadcast.members)
        return members

    @property
    def is_empty(self) -> bool:
        return not len(self)

    def __len__(self) -> int:
        """For figures: any thread may call this while subscriptions come and go."""
        count = len(self.apart or ()) + sum([len(one.members) for one in list(self.broadcasts)])
        return count if self.waiting is None else count + 1

    def add(self, subscription: Subscription, seq: int) -> None:
        """`seq` is the newest that was published.

        Ctrl-C may strike in any line. The subscription is then in two queues, which the next change mends, and never in none.
        """
        if subscription.can_share(seq):
            if self.waiting is not None:
                # First the earlier subscription: callbacks are called in the order of their subscriptions.
                self._share_waiting()
            elif not self.apart and not self.broadcasts:
                subscription.wait_to_share()
                self.waiting = subscription
                return
            self._share(subscription)
            return
        if self.apart is None:
            self.apart = {}
        self.apart[subscription] = None

    def _share_waiting(self) -> None:
        waiting = self.waiting
        if waiting is not None:
            # In this order, as `add` says.
            self._share(waiting)
            self.waiting = None

    def _share(self, subscription: Subscription) -> None:
        kind = subscription.kind
        for broadcast in self.broadcasts:
            if broadcast.kind == kind:
                break
        else:
            broadcast = Broadcast(kind, self._ready)
            self.broadcasts = (*self.broadcasts, broadcast)
        broadcast.add(subscription)

    def remove(self, subscription: Subscription) -> None:
        if self.waiting is subscription:
            self.waiting = None
        if self.apart is not None:
            self.apart.pop(subscription, None)
        for broadcast in self.broadcasts:
            if subscription in broadcast.members:
                broadcast.remove(subscription)
                if broadcast.is_empty:
                    self.broadcasts = tuple([one for one in self.broadcasts if one is not broadcast])

    def publish(self, deltas: Sequence[AnyDelta], first: int, *, is_whole: bool = True) -> bool:
        """Put the deltas of a commit into all queues. False: some queue had no room.

        Args:
            first: The seq of the commit's first change.
            is_whole: False where the view failed in the middle of the commit: subscribers of whole commits then get
                nothing of it.
        """
        took = True
        if self.waiting is not None:
            self._share_waiting()
        if self.apart:
            for subscription in list(self.apart):
                if subscription.can_share(first - 1):
                    # Its opening has been delivered.
                    self._share(subscription)
                    del self.apart[subscription]
                    continue
                if not is_whole and subscription.request.options.batches:
                    continue
                try:
                    took &= subscription.offer(deltas, first)
                except Exception as error:
                    took = subscription.fail(error)
        if self.broadcasts:
            shared = drop_moves(deltas)
            for broadcast in self.broadcasts if shared else ():
                try:
                    broadcast.publish(shared)
                except Exception as error:
                    for member in list(broadcast.members):
                        took = member.fail(error)
        return took


class LiveViews:
    """See the head of this file.

    Attributes:
        nodes: By the common key of equal queries.
        behind: Subscriptions that read on from the log, and have no node.
        router: Which nodes a change concerns.
        dispatcher: Delivers the ready events.
        in_hand: Commits with decoded documents, until their delivery.
        forgotten: Subscriptions that have yet to leave. Any thread adds to them.
    """

    def __init__(self, engine: Engine, say: Say) -> None:
        """`say` lets something be logged."""
        self.nodes: dict[Hashable, Node] = {}
        self.behind: dict[Subscription, None] = {}
        self.router: Router[Node] = Router(say)
        self.dispatcher = Dispatcher()
        self.in_hand: deque[Commit] = deque()
        self.forgotten: deque[Subscription] = deque()
        self._publisher = engine.publisher
        # Reads documents for views that have run out of them.
        self._state = StateAt(engine)
        # The node in advance, or in publication.
        self._current: Node | None = None
        # The deltas of each view for the commit in dispatch, as far as they are computed.
        self._pending: dict[Node, Sequence[AnyDelta]] = {}

    def dispatch(self, commit: Commit) -> None:
        """Advance the views that the commit concerns, change by change, and then queue their reports.

        Any failure ends the feeds of the failed view, and every other view is advanced. An interrupt of this thread
        is raised after that: KeyboardInterrupt, SystemExit, and any other BaseException from outside a view, such as
        from a signal handler.
        """
        router, state, pending, changes = self.router, self._state, self._pending, commit.changes
        if changes and changes[0].new is not None:
            self.in_hand.append(commit)
        interrupt: BaseException | None = None
        # The time limit of the query that has made the commit, or noticed it, is not for the predicates of other feeds.
        outer = budget.current.get()
        if outer is not None:
            budget.current.set(None)
        self._publisher.routing_thread = get_ident()
        try:
            is_done = False
            while not is_done:
                try:
                    # After an error, again from the first change: a view that has taken a change in does not get it again.
                    for change in changes:
                        seq = change.seq
                        is_silent = change.meta is not None and change.is_of_meta_alone
                        for node in router.find(change):
                            # Found twice, or bootstrapped with this change.
                            if node.seq >= seq or (is_silent and not node.includes_meta):
                                continue
                            self._current = node
                            node.seq = seq
                            deltas = node.view.advance(change, state)
                            if deltas:
                                queued = pending.get(node)
                                if queued is None:
                                    # Most commits change a view in one way: kept as the view reports it, this takes half
                                    # the room.
                                    pending[node] = deltas
                                elif type(queued) is list:
                                    queued += deltas
                                else:
                                    pending[node] = [*queued, *deltas]
                            self._current = None
                    # In the order in which the commit came to them.
                    for node in list(pending):
                        self._current = node
                        if not node.publish(pending.pop(node), changes[0].seq):
                            self._spill(node)
                        self._current = None
                    if commit.dropped_tables or commit.dropped_indexes:
                        self._abort_dropped(commit)
                    is_done = True
                except Exception as error:
                    is_done = not self._end_failed_view(commit, error)
                except BaseException as error:
                    if self._current is None or isinstance(error, INTERRUPTS):
                        interrupt = error
                    is_done = not self._end_failed_view(commit, error)
                finally:
                    if state.stack is not None:
                        state.close()
        finally:
            self._publisher.routing_thread = None
            if outer is not None:
                budget.current.set(outer)
            if self.forgotten:
                self.sweep()
        if interrupt is not None:
            raise interrupt

    def release_delivered(self) -> None:
        """Release the decoded documents of delivered commits. (Commits that another thread publishes now are decoded
        again.)"""
        in_hand = self.in_hand
        try:
            while in_hand:
                in_hand.popleft().release_documents()
        except IndexError:
            # Another thread was quicker.
            pass

    def _end_failed_view(self, commit: Commit, error: BaseException) -> bool:
        """End the feeds of the view that was being advanced, because its state is unknown. Returns: whether there are
        feeds left."""
        node, self._current = self._current, None
        is_interrupt = isinstance(error, INTERRUPTS)
        if isinstance(error, SQLiteError):
            # A view has read documents as of a change, in a snapshot that stays open for the views after it.
            error = self._state.translate_error(error)
        if node is not None:
            if not (node.failures.raises and isinstance(error, Exception)):
                logger.error("a feed ends, because its view failed", exc_info=error)
            self._publish_part(node, commit)
            interrupted = FeedAborted(f"Changefeed aborted (interrupted at commit {commit.seq})")
            self.end(node, interrupted if is_interrupt else as_end(error))
        elif not is_interrupt:
            # Not in a view, so it is unknown which views it would have concerned.
            logger.error(
                "passing commit %d to the feeds broke off: all of them end", commit.seq, exc_info=error
            )
            for one in list(self._pending):
                self._publish_part(one, commit)
            self.abort(FeedAborted(f"Changefeed aborted (commit {commit.seq} could not be passed on)"))
            return False
        return True

    def _publish_part(self, node: Node, commit: Commit) -> None:
        """Give the node the computed part of the commit, and no more."""
        deltas = self._pending.pop(node, None)
        if deltas:
            node.publish(deltas, commit.changes[0].seq, is_whole=False)

    def _spill(self, node: Node) -> None:
        """Move the subscriptions without room to the log. End the subscriptions that cannot read it."""
        for subscription in node.subscriptions:
            if subscription.is_behind:
                self.leave(subscription)
                self.behind[subscription] = None
            elif subscription.end is not None and not isinstance(subscription.end, FeedOverflow):
                logger.error("a feed ends, because its queue failed", exc_info=subscription.error)
                self.leave(subscription)

    def _abort_dropped(self, commit: Commit) -> None:
        tables, indexes = set(commit.dropped_tables), set(commit.dropped_indexes)
        for node in list(self.nodes.values()):
            if any(info.id in tables for info in node.view.tables()):
                self.end(node, table_gone_error())
                continue
            for table_id, name in node.view.indexes():
                if (table_id, name) in indexes:
                    self.end(node, index_gone_error(name))
                    break

    # -----------------------------------------------------------------------------------------------------------
    # Joining, leaving, ending

    def add(self, plan: Plan, seq: int) -> Node:
        """Add a node for the plan. Its view has taken in everything up to `seq`."""
        node = Node(plan, seq, self.dispatcher.ready)
        routes = plan.view.routes()
        self.router.add(node, routes)
        node.routes = self.router.inside(routes)
        # Last: Ctrl-C may strike, and no subscription may join a node that changes do not find.
        self.nodes[plan.key] = node
        return node

    def leave(self, subscription: Subscription) -> None:
        """Out of its node; a node without subscribers goes."""
        node = subscription.node
        self.behind.pop(subscription, None)
        subscription.count_failures_of(None)
        if isinstance(node, Node):
            try:
                node.remove(subscription)
            finally:
                self._remove_unused(node)
        subscription.node = None

    def sweep(self) -> None:
        """Let the forgotten subscriptions leave."""
        while True:
            try:
                subscription = self.forgotten.popleft()
            except IndexError:
                return
            self.leave(subscription)
            subscription.release()

    def _remove_unused(self, node: Node) -> None:
        if node.is_empty and self.nodes.get(node.key) is node:
            del self.nodes[node.key]
            if not self.nodes:
                # A dict keeps the room that it once had.
                self.nodes.clear()
            self.router.remove(node, node.view.routes())

    def end(self, node: Node, end: Any) -> None:
        """End all feeds of a node. `end` is the error, or COMPLETED."""
        for subscription in node.subscriptions:
            self._finish(subscription, end)
            self.leave(subscription)
            node.remove(subscription)
        # Also a node without subscriptions that Ctrl-C kept from being removed.
        self._remove_unused(node)

    @staticmethod
    def _finish(subscription: Subscription, end: Any) -> None:
        try:
            subscription.finish(end)
        except Exception:
            # Its consumer could not be woken: it finds the end when it polls next.
            logger.exception("a feed could not be notified of its end")

    def abort(self, error: ReactDBError) -> None:
        """End all nodes: commits were compacted away before their delivery, or the file is in trouble."""
        for node in list(self.nodes.values()):
            self.end(node, error)

    def end_all(self, end: Any) -> None:
        """End every feed, also feeds that read from the log."""
        for node in list(self.nodes.values()):
            self.end(node, end)
        for subscription in list(self.behind):
            self._finish(subscription, end)
        self.behind.clear()

    @property
    def is_clean(self) -> bool:
        """Whether nothing is registered, and nothing is left behind."""
        return not self.nodes and not self.behind and self.router.is_empty
