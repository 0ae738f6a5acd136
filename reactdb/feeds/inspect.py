"""Descriptions and figures of a feed for people: `feed.explain()` and `feed.stats()`.

Rule of this file: it looks, and changes nothing.
"""

from __future__ import annotations

from typing import Any

from reactdb.documents.hints import hints
from reactdb.errors import ReactDBError
from reactdb.feeds.activity import describe_routing
from reactdb.feeds.consumers import BaseConsumer
from reactdb.feeds.dispatch import Node
from reactdb.feeds.request import Request
from reactdb.feeds.subscription import Subscription
from reactdb.query import ALL_TABLES


def explain(request: Request) -> dict[str, Any]:
    """The kind of feed, its table, how its documents are found, how changes find it."""
    plan = request.fresh_plan()
    with request.engine.snapshot() as snapshot:
        is_of_one = request.query.table != ALL_TABLES and snapshot.table(request.query.table) is not None
        texts = [hint.text for hint in hints(request.query, snapshot)] if is_of_one else []
    view, options = plan.view, request.options
    return {
        "kind": view.kind,
        "table": request.query.table,
        **view.describe(),
        "routing": describe_routing(view.routes()),
        "is_stateful": view.is_stateful,
        "documents_held": view.documents_held,
        "squash": options.squash_s if options.squash_s else options.squash_s is not None,
        "queue_size": options.queue_size,
        "on_overflow": options.on_overflow,
        "on_predicate_error": options.on_predicate_error,
        "callables": request.query.callables(),
        "hints": texts,
    }


def describe_request(request: Request) -> str:
    """The kind of feed and its table; only the table where the file cannot be read any more."""
    table = request.query.table
    if table == ALL_TABLES:
        return "all tables"
    words = f"table {table!r}"
    try:
        return f"{request.fresh_plan().view.kind} of {words}"
    except ReactDBError:
        return words


def figures(subscription: Subscription) -> dict[str, Any]:
    """One open subscription in a list of all: its query, and whether it keeps up."""
    request, source = subscription.request, subscription.origin
    table = request.query.table
    return {
        "table": None if table == ALL_TABLES else table,
        "kind": None if source is None else source.view.kind,
        "queued": subscription.queued,
        "dropped": subscription.dropped,
        "delivered": subscription.delivered,
        "is_behind": subscription.is_behind,
        "lag_seq": max(0, request.engine.publisher.published - subscription.position),
    }


def stats(consumer: BaseConsumer | None, now_s: float) -> dict[str, Any]:
    """Figures of one subscription; zeros where there is none."""
    members = () if consumer is None else consumer.members
    oldest = min((time for member in members if (time := member.oldest_time) is not None), default=None)
    # Read once each: another thread may remove them.
    sources = [source for member in members if (source := member.origin) is not None]
    held = {id(source): source.view.documents_held for source in sources}
    return {
        "is_open": bool(members) and consumer is not None and not consumer.is_closed,
        "is_behind": any(member.is_behind for member in members),
        "subscribers": max((len(one) for one in sources if isinstance(one, Node)), default=0),
        "queued": sum(member.queued for member in members),
        "dropped": sum(member.dropped for member in members),
        "delivered": sum(member.delivered for member in members),
        "failed": sum(member.failed for member in members),
        "documents_held": sum(held.values()),
        "lag_seq": max(
            (member.request.engine.publisher.published - member.position for member in members), default=0
        ),
        "lag_s": 0.0 if oldest is None else max(0.0, now_s - oldest / 1000),
    }
