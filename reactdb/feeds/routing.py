"""Routing: from a commit to the views that it concerns, and from what they report to who is subscribed.

    route        any commit, under the publish lock: advance views, append to queues
    route_one    a commit of one change, where that is quickly done

What fails ends the feeds of the view that it failed in, and no others.

Rule of this file: no user code but predicates and mappings, and nothing that they raise gets out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any

from reactdb.change import Change, Commit, InHand
from reactdb.errors import FeedAborted, FeedOverflow, ReactDBError
from reactdb.feeds.failures import Say
from reactdb.feeds.fan import Fan
from reactdb.feeds.log_reader import StateAt
from reactdb.feeds.node import Node
from reactdb.feeds.router import Router
from reactdb.feeds.seeding import index_gone, table_gone
from reactdb.feeds.subscription import Subscription
from reactdb.feeds.teller import Teller
from reactdb.logs import logger


class Routing:
    """See the head of this file; `FeedHub` is the rest of it.

    Attributes:
        teller: Tells what is ready.
        is_ready: Somebody has something to tell, at the next drain.
    """

    def __init__(self, state: StateAt, say: Say) -> None:
        self._nodes: dict[Hashable, Node] = {}
        self._router: Router[Node] = Router(say)
        # Subscriptions that read on from the log, and have no node.
        self._behind: dict[Subscription, None] = {}
        self._forgotten: deque[Subscription] = deque()
        # Whoever holds the lock is in the middle of something that must not be swept under its feet.
        self._is_busy = False
        # The node that is being advanced.
        self._current: Node | None = None
        self._state = state
        self.teller = Teller()
        self.is_ready = self.teller.is_ready

    def _leave(self, subscription: Subscription) -> None:
        """Out of its node."""
        raise NotImplementedError

    def _remove_unused(self, node: Node) -> None:
        """Forget a node that has no subscribers."""
        raise NotImplementedError

    def _sweep(self) -> None:
        """Let go of those who were forgotten meanwhile."""
        raise NotImplementedError

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

    def route_one(self, change: Change, documents: InHand | None) -> bool:
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
        if len(nodes) > 1:
            # Change by change: whoever tells what several nodes offer relies on their order.
            for change in changes:
                for node in nodes:
                    if node.seq < change.seq:
                        self._current = node
                        node.seq = change.seq
                        if not node.offer((change,), change.seq):
                            self._spill(node)
                        self._current = None
            return
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
            if not (node.failures.raises and isinstance(error, Exception)):
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
            node.remove(subscription)
        # Also where nobody was left, and Ctrl-C struck before it could go.
        self._remove_unused(node)

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
