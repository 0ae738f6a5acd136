"""Sources: what a program gives to a stream: a feed, a selection, or several by name.

A stream opens a feed once for each client, and again where a client comes back. So a feed must be one that can continue from a
position. The others are refused here.

Rule of this file: it reads nothing but the feed's description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import HTTPConnection

from reactdb.errors import InvalidOption, UsageError, format_value
from reactdb.feeds.consumers import Flow
from reactdb.feeds.feed import Feed, flow_of, with_options, with_requests
from reactdb.feeds.options import check_seconds
from reactdb.feeds.request import Request
from reactdb.query import Limit, Skip

# Changes that wait for one client in memory. A client that is later than this is read from the log.
QUEUE_SIZE: Final = 1_000
# Events that streams have of their own, or that EventSource has.
TAKEN: Final = ("message", "open", "ready", "reset", "error", "ping")

Feeds = dict[str | None, Feed[Any]]


def feeds_of(source: Any) -> Feeds:
    """The feeds of a stream by their names; a single feed has the name None.

    Raises:
        InvalidOption: It is nothing that has changes, or a name cannot be the name of an event.
        UsageError: A feed cannot continue from a position.
        Every error of `changes`.
    """
    if isinstance(source, HTTPConnection):
        raise InvalidOption(
            "the feed comes first, and then the request: sse(feed, request), websocket(feed, websocket)"
        )
    if not isinstance(source, Mapping):
        return {None: _feed_of(source)}
    if not source:
        raise InvalidOption("a stream has at least one feed")
    for name in source:
        if not isinstance(name, str) or not name or name in TAKEN or not name.isprintable():
            raise InvalidOption(
                f"{format_value(name)} cannot be the name of a feed: it is a text in one line, and none of "
                + ", ".join(TAKEN)
            )
    return {name: _feed_of(one) for name, one in source.items()}


def check_connection(name: str, connection: Any, attribute: str) -> None:
    """Without a type in its signature, a route of FastAPI gets a text of the address.

    Raises: InvalidOption.
    """
    if not hasattr(connection, attribute):
        kind = "WebSocket" if name == "websocket" else "Request"
        raise InvalidOption(
            f"{name} is the {kind} of the route, as in `async def live({name}: {kind})`, not {format_value(connection)}"
        )


def check_interval(name: str, seconds: Any) -> None:
    """Raises: InvalidOption: It is no number of seconds, or 0, with which nothing but heartbeats or timeouts would happen."""
    if check_seconds(name, seconds) == 0:
        raise InvalidOption(f"{name} is more than 0 seconds")


def _feed_of(source: Any) -> Feed[Any]:
    if not isinstance(source, Feed):
        changes = getattr(source, "changes", None)
        if not callable(changes):
            raise InvalidOption(
                f"a stream has a feed, a selection, or a dict of them by name, not {format_value(source)}"
            )
        source = changes(batches=True, include_initial=True)
    flow = flow_of(source)
    if len(flow.hubs()) > 1:
        raise UsageError(
            "a union of feeds of several databases has no position to continue from: give a dict with a feed for each database"
        )
    if _counts(flow):
        raise UsageError(
            "a feed with limit or skip would count again for each client that comes back: leave it out, and let the page count"
        )
    return with_requests(source, _bounded)


def continued(feed: Feed[Any], token: str) -> Feed[Any]:
    """The same feed from a position on. It raises nothing: whether the position is good is known when the feed is opened."""
    return with_options(feed, since=token, include_initial=False)


def _counts(flow: Flow) -> bool:
    return any(isinstance(term, (Limit, Skip)) for term in flow.terms) or any(map(_counts, flow.parts))


def _bounded(request: Request) -> Request:
    options = request.options
    if options.is_overflow_asked or options.queue_size <= QUEUE_SIZE:
        return request
    return request.copy_with(queue_size=QUEUE_SIZE)
