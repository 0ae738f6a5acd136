"""Request: the common part of all subscriptions of one feed: the query, the options, and the form of its events.

Rule of this file: a request has no subscribers, and no state that could not be made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from reactdb.feeds.compiler import Plan, compile_query
from reactdb.feeds.events import Render, make_renderer
from reactdb.feeds.failures import Failures, Say
from reactdb.feeds.options import FeedOptions, check_options
from reactdb.feeds.position import (
    ANEW,
    Bookmark,
    Inside,
    not_a_token_error,
    other_order_error,
    parse_since,
    resolve_since,
)
from reactdb.feeds.query_text import query_text
from reactdb.feeds.views.base import View
from reactdb.feeds.views.select import SelectView
from reactdb.query import ALL_TABLES, Query
from reactdb.store.catalogue import Catalogue
from reactdb.store.engine import Engine
from reactdb.store.snapshot import PastSnapshot, Snapshot
from reactdb.store.undo import Undo


class Request:
    """See the head of this file.

    Attributes:
        purpose: What has opened it, for people: "feed", "live list", "mongodb".
    """

    __slots__ = ("_handle", "_plan", "_say", "engine", "is_stateful", "options", "purpose", "query")

    def __init__(
        self, engine: Engine, say: Say, query: Query, options: Mapping[str, Any], handle: object = None
    ) -> None:
        """Checks the options and the query, in ReQL's order, and raises the errors that subscribing would raise.

        Args:
            say: Lets a failure be logged where no lock is held.
            handle: The handle of the file. The reference keeps it open while there is a feed or a subscription.

        Raises:
            InvalidOption, UnsupportedFeed, TableNotFound, IndexNotFound, HistoryLost, HistoryDiverged.
        """
        self.engine = engine
        self._handle = handle
        self._say = say
        self.query = query
        self._plan: tuple[Catalogue, Plan] | None = None
        # Whether its view has to be seeded.
        self.is_stateful = False
        self.purpose = "feed"
        self.options = check_options(options, self._check)

    def plan(self, snapshot: Snapshot) -> Plan:
        """The query compiled for the snapshot. The plan that `_check` made is given once: its view then has an owner."""
        made, self._plan = self._plan, None
        if made is not None and made[0] is snapshot.catalogue:
            return made[1]
        return self.compile_for(snapshot)

    def compile_for(self, state: Snapshot | Catalogue) -> Plan:
        """The query compiled for the tables and indexes of a moment, which may be past."""
        raises = self.options.on_predicate_error == "raise"
        failures = Failures(self.query.table, raises=raises, say=self._say)
        options = self.options
        return compile_query(
            self.query,
            state,
            failures,
            include_offsets=options.include_offsets,
            include_catalogue=options.include_catalogue,
            include_meta=options.include_meta,
        )

    @property
    def text(self) -> str:
        """The selection, as a program writes it."""
        return query_text(self.query)

    @property
    def routing_text(self) -> str | None:
        """How changes find it, where the view cannot say so in a few words; None: the view can."""
        return None

    def copy_with(self, **options: Any) -> Request:
        """A copy with other options; they do not change the meaning of the query."""
        request = copy(self)
        request.options = self.options.copy_with(**options)
        # A view has one owner.
        self._plan = None
        return request

    def fresh_plan(self) -> Plan:
        """The query compiled for the present."""
        return self.compile_for(self.engine.newest_catalogue())

    def _check(self, options: FeedOptions) -> None:
        self.options = options
        since = options.since
        if since is None:
            # Nothing is read, so this needs no read transaction.
            catalogue = self.engine.newest_catalogue()
            plan = self.compile_for(catalogue)
            self._plan = (catalogue, plan)
            self.is_stateful = plan.view.is_stateful
            return
        with self.engine.snapshot() as snapshot:
            position = resolve_since(since, self.engine, snapshot)
            past = PastSnapshot(snapshot, position, Undo(position, ()))
            plan = self.compile_for(past)
            check_order(plan.view, since)

    def start(self) -> Bookmark:
        """Where a subscription would begin."""
        since = self.options.since
        if self.options.include_initial:
            return ANEW
        with self.engine.fresh_snapshot() as snapshot:
            if since is None:
                return Bookmark(snapshot.seq)
            seq = resolve_since(since, self.engine, snapshot)
            return Bookmark(seq, parse_since(since)[1])

    def find_position(self, snapshot: Snapshot) -> int:
        """The seq at which a subscription begins that begins now.

        Raises:
            HistoryLost, HistoryDiverged, InvalidOption: About `since`.
        """
        since = self.options.since
        return snapshot.seq if since is None else resolve_since(since, self.engine, snapshot)

    def render(self, is_ordered: bool) -> Render:
        """A function that makes events of deltas."""
        return make_renderer(
            self.options, is_ordered=is_ordered, is_of_all_tables=self.query.table == ALL_TABLES
        )


def check_order(view: View, since: int | str) -> Inside | None:
    """The position in the initial values of the view at which `since` continues; None if it is past them.

    Raises:
        HistoryDiverged: It is a position in another order.
        InvalidOption: It is no position at all.
    """
    _, inside = parse_since(since)
    if inside is None:
        return None
    if not isinstance(view, SelectView) or view.order != inside.order:
        raise other_order_error()
    if inside.place is not None and isinstance(inside.place, bytes) != (view.source.index is None):
        raise not_a_token_error(since)
    return inside
