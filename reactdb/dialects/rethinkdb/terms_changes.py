"""The term `changes`: the queries that can be watched, the options, and ReQL's messages for other queries.

Flags are true in ReQL's sense: everything but null and false switches them on.

Rule of this file: it describes a feed and opens none.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.errors import OperationFailed, with_path
from reactdb.dialects.rethinkdb.evaluator import TermCall, cannot_convert, handles
from reactdb.dialects.rethinkdb.streams import (
    ATOM_FEED,
    ORDER_BY_LIMIT_FEED,
    SEQUENCE_FEED,
    UNIONED_FEED,
    FeedMember,
    FeedPlan,
)
from reactdb.dialects.rethinkdb.values import EAGER, STREAM, Database, Sequence, Single, expected
from reactdb.dialects.rethinkdb.write_checks import MissingIndex
from reactdb.errors import QueryError, ReactDBError, ResourceLimit
from reactdb.expression.checks import integer, is_number, truth
from reactdb.expression.markers import Grouped
from reactdb.feeds.options import MAX_SQUASH_S
from reactdb.query import Between, GetAll, Limit, Query
from reactdb.values.collation import type_name

# RethinkDB accepts any number, even one that ends its process.
MAX_QUEUE_SIZE: Final = 1_000_000
MAX_TAKEN_SQUASH_S: Final = 1_000_000_000
FLAGS: Final = ("include_states", "include_types", "include_initial", "include_offsets")


@handles("changes", lazy=True)
def changes(call: TermCall) -> Any:
    """Describe a feed. Arguments are checked in RethinkDB's order: squash, the flags, the input, the size of the queue."""
    squash = squash_option(call)
    flags = {name: truth(call.option(name, False)) for name in FLAGS}
    try:
        source = call.evaluator.run(call.term.arguments[0], call.scope)
    except MissingIndex as error:
        raise with_path(error, call.path) from None
    path = call.term.arguments[0].path
    query, kind = query_to_watch(call, source, path)
    size = queue_size(call)
    check_limits(call, query)
    check_system(source, query)
    if flags["include_offsets"]:
        check_offsets(source, query)
    options: dict[str, Any] = {
        **flags,
        "squash": squash is not None,
        "changefeed_queue_size": size,
        # RethinkDB drops events too, also with offsets.
        "on_overflow": "drop",
    }
    member = FeedMember(query, options, squash_s=squash or 0.0)
    feed = FeedPlan((member,), kind, flags["include_states"])
    return Sequence(STREAM, call.path, feed=feed, refusal=(EAGER, call.path))


# ---------------------------------------------------------------------------------------------------------------
# Options


def squash_option(call: TermCall) -> float | None:
    """The seconds between two net differences; None to deliver every change."""
    value = call.option("squash", False)
    if value is False:
        return None
    if value is True:
        return 0.0
    path = call.option_path("squash")
    if not is_number(value):
        raise with_path(QueryError(f"Expected BOOL or NUMBER but found {type_name(value)}."), path)
    if value < 0:
        raise with_path(QueryError("Expected BOOL or a positive NUMBER but found a negative NUMBER."), path)
    if value > MAX_TAKEN_SQUASH_S:
        raise with_path(
            QueryError(f"Expected BOOL or a positive NUMBER but found a NUMBER above {MAX_TAKEN_SQUASH_S}."),
            path,
        )
    # The server counts whole milliseconds. A wait of more than a day means "when the queue is half full", as in one of
    # RethinkDB's own tests.
    return min(int(float(value) * 1_000) / 1_000, MAX_SQUASH_S)


def queue_size(call: TermCall) -> int:
    """The queue size from the option of `changes`, or of `run`."""
    name = "changefeed_queue_size"
    if call.has_option(name):
        value, path = call.option(name), call.option_path(name)
    elif call.evaluator.options.queue_size is not None:
        value, path = call.evaluator.options.queue_size, ()
    else:
        return 100_000
    try:
        size = integer(value)
    except ReactDBError as error:
        raise with_path(error, path) from None
    if size < 1:
        raise with_path(QueryError(f"Illegal changefeed queue size `{size}`.  (Must be >= 1.)"), ())
    # A feed queues events in memory for a client that does not read them.
    return min(size, MAX_QUEUE_SIZE)


# ---------------------------------------------------------------------------------------------------------------
# The watched query


def query_to_watch(call: TermCall, source: Any, path: Any) -> tuple[Query, int]:
    """The query to watch, and the kind of feed it makes.

    Raises:
        QueryError: It cannot be watched.
    """
    if isinstance(source, Single):
        if source.error is not None:
            raise with_path(source.error, call.path)
        return source.query, ORDER_BY_LIMIT_FEED if source.is_first_of_order else ATOM_FEED
    if isinstance(source, Database):
        raise with_path(expected("SELECTION", source), path)
    if isinstance(source, Grouped):
        first = source.groups[0][1] if source.groups else []
        if isinstance(first, list):
            raise with_path(QueryError(EAGER), call.path)
        raise with_path(cannot_convert(first), call.path)
    if isinstance(source, list):
        blamed = call.term.arguments[0]
        raise with_path(QueryError(EAGER), (*path, 0) if blamed.name == "coerce_to" else path)
    if not isinstance(source, Sequence):
        raise with_path(cannot_convert(call.evaluator.as_datum(source, path)), call.path)
    if source.feed is not None:
        raise with_path(
            QueryError(EAGER), source.refusal[1] if source.refusal and source.refusal[1] else path
        )
    if source.refusal is not None:
        sentence, blamed_path = source.refusal
        raise with_path(QueryError(sentence), call.path if blamed_path is None else blamed_path)
    if source.query is None:
        raise with_path(QueryError(EAGER), source.path)
    return source.query, kind_of(source)


def kind_of(source: Sequence) -> int:
    if not source.members:
        return ORDER_BY_LIMIT_FEED if source.is_limited else SEQUENCE_FEED
    kinds = {kind_of(member) for member in source.members}
    return kinds.pop() if len(kinds) == 1 else UNIONED_FEED


def check_limits(call: TermCall, query: Query) -> None:
    limit = call.evaluator.options.array_limit
    for step in query.steps:
        if isinstance(step, Limit) and step.count > limit:
            raise ResourceLimit(
                f"Array size limit `{limit}` exceeded.  (`.limit(X).changes()` is illegal if X is larger than the array "
                "size limit.)"
            )


def check_system(source: Any, query: Query) -> None:
    is_system = query.table.startswith(f"{tables.SYSTEM}.")
    if is_system and any(isinstance(step, Limit) for step in query.steps):
        raise OperationFailed("System tables don't support changefeeds on `.limit()`.")
    if is_system and query.table != f"{tables.SYSTEM}.{tables.SCRATCH}":
        raise OperationFailed(f"reactdb computes the system table `{query.table}`, and cannot watch it.")


def check_offsets(source: Any, query: Query) -> None:
    sentence = "Cannot include offsets for {} subs."
    if isinstance(source, Single):
        if not source.is_first_of_order:
            raise QueryError(sentence.format("point"))
        return
    members = source.members or (source,)
    for member in members:
        if not member.is_limited:
            raise QueryError(sentence.format("empty" if is_empty(member.query) else "range"))


def is_empty(query: Query | None) -> bool:
    """Whether no document can ever be in the result."""
    if query is None:
        return False
    return any(
        (isinstance(step, GetAll) and not step.keys)
        or (isinstance(step, Between) and step.start >= step.stop)
        for step in query.steps
    )
