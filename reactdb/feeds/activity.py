"""Activity: each open subscription of this process in words and figures, for `db.activity()`.

The thread of another process's question comes here, too (`reactdb.store.activity`). So everything is plain JSON.

Rule of this file: it looks, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reactdb.feeds.subscription import Subscription
from reactdb.feeds.views.base import Everywhere, MovingRange, OneKey, OneValue, Route, ValueRange
from reactdb.query import ALL_TABLES


def describe_subscription(subscription: Subscription, head: int) -> dict[str, Any]:
    """One subscription, as an element of `feeds` of `Database.activity`. `head`: the newest seq of the file."""
    request, origin = subscription.request, subscription.origin
    options, table = request.options, request.query.table
    view = None if origin is None else origin.view
    routing = request.routing_text
    if routing is None and view is not None:
        routing = describe_routing(view.routes())
    position = subscription.position
    return {
        "purpose": request.purpose,
        "selection": request.text,
        "table": None if table == ALL_TABLES else str(table),
        "kind": None if view is None else view.kind,
        "routing": routing,
        "delivery": subscription.consumer.delivery,
        "state": subscription.state,
        "delivered": subscription.delivered,
        "queued": subscription.queued,
        "dropped": subscription.dropped,
        "queue_size": options.queue_size,
        "on_overflow": options.on_overflow,
        "squash_s": options.squash_s,
        "seq": position,
        "lag": max(0, head - position),
    }


def describe_routing(routes: Sequence[Route]) -> str:
    """How a change finds the feed."""
    if not routes:
        return "nothing can concern it"
    first = routes[0]
    if isinstance(first, OneKey):
        return f"hashed by primary key ({len(routes)})"
    if isinstance(first, OneValue):
        return f"hashed by the value of {first.axis} ({len(routes)})"
    if isinstance(first, ValueRange):
        return f"by a range of {'the primary key' if first.axis is None else first.axis}"
    if isinstance(first, MovingRange):
        return (
            f"by the part of {'the primary key' if first.axis is None else first.axis} up to the window's end"
        )
    return "every change of the database" if isinstance(first, Everywhere) else "every change of the table"
