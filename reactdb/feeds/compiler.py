"""The compiler: makes a view of a query, which keeps its result up to date, or raises ReQL's sentence about the
reason against it.

    get                                  PointView
    table, get_all, between, filter, ...  SelectView
    order_by, with skip and limit        WindowView   (without a limit: with the option of offsets)
    min, max                             WindowView of one
    count, sum, avg, group, distinct     AggregateView, GroupView, DistinctView, over any of the above
    filter, order_by, limit of groups    GroupListView, over a GroupView
    union                                UnionView of the members, each with the later steps

Rule of this file: a query that cannot be kept up to date is refused here, before anything subscribes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain

from reactdb.documents.access_path import Access, access, find_table, with_indexed_values
from reactdb.errors import InvalidOption, QueryError, UnsupportedFeed
from reactdb.expression import Expression, Predicate, is_deterministic
from reactdb.feeds.failures import Failures
from reactdb.feeds.pipeline import Ranked, pipeline
from reactdb.feeds.views.base import View
from reactdb.feeds.views.select import AllTablesView, PointView, SelectView
from reactdb.feeds.views.source import KeySource, Source, source_of
from reactdb.feeds.views.union import OrderedUnionView, UnionView
from reactdb.feeds.views.window import WindowView
from reactdb.query import (
    ALL_TABLES,
    Aggregate,
    Between,
    ConcatMap,
    Distinct,
    Filter,
    Get,
    GetAll,
    Group,
    HasFields,
    Limit,
    Map,
    Nth,
    OrderBy,
    Query,
    Sample,
    Skip,
    Step,
    Union,
)
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.snapshot import Snapshot

EAGER = "Cannot call `changes` on an eager stream."
UNORDERED_LIMIT = "Cannot get changes on the first elements of an unordered stream."
AFTER_LIMIT = (
    "Changefeeds are not supported on queries that have a transformation following a `limit` term.  Transformations "
    "include terms such as `filter`, `map`, `pluck`, etc.  Consider moving the transformation before the `limit` term."
)
AFTER_CONCAT_MAP = "Cannot call `changes` after `concat_map`."
SLICE_OF_UNION = "Cannot call `changes` on a slice of a union."
NOT_DETERMINISTIC = "Cannot call `changes` after a non-deterministic function."
OF_NTH = "Cannot call `changes` on the element at a place: watch order_by(...).skip(place).limit(1), whose list has it."
OF_SAMPLE = "Cannot call `changes` on a sample, because each read chooses other documents."
NOT_A_SEQUENCE = "Expected type SEQUENCE but found SINGLE_SELECTION."


class Plan:
    """A view, and the name that views of equal queries share.

    Attributes:
        key: Equal for queries that surely have equal results in one database.
        is_ordered: Its deltas have offsets.
        failures: The documents that the view could not compute.
        includes_meta: The view is also given the changes that change nothing but metadata.
    """

    __slots__ = ("failures", "includes_meta", "is_ordered", "key", "view")

    def __init__(
        self, view: View, key: Hashable, is_ordered: bool, failures: Failures, includes_meta: bool = False
    ) -> None:
        self.view = view
        self.includes_meta = includes_meta
        self.key = key
        self.is_ordered = is_ordered
        self.failures = failures


def compile_query(
    query: Query,
    state: Snapshot | Catalogue,
    failures: Failures,
    *,
    include_offsets: bool = False,
    include_catalogue: bool = False,
    include_meta: bool = False,
) -> Plan:
    """The view of a query. Not seeded yet.

    Args:
        state: The tables and indexes of a moment.
        failures: Counts the documents that cannot be computed. It belongs to the view.

    Raises:
        TableNotFound, IndexNotFound: The query names a missing table or index.
        UnsupportedFeed: The result cannot be kept up to date, or has no offsets to include.
        InvalidOption: The catalogue is asked for, and the query is not of all tables.
        QueryError: The query makes no sense.
    """
    if query.table == ALL_TABLES:
        if include_offsets:
            raise UnsupportedFeed("Cannot include offsets for range subs.")
        every = AllTablesView(has_catalogue=include_catalogue)
        return Plan(every, (ALL_TABLES, include_catalogue, include_meta), False, failures, include_meta)
    if include_catalogue:
        raise InvalidOption("include_catalogue is an option of db.changes(), the feed of all tables")
    queries = _members(query)
    members = [
        _Member(member, find_table(member.table, state), is_alone=len(queries) == 1) for member in queries
    ]
    key: Hashable = members[0].key if len(members) == 1 else tuple(member.key for member in members)
    last = members[0].last
    views = [
        member.view(failures, include_offsets, number.to_bytes(2, "big") if last else None)
        for number, member in enumerate(members)
    ]
    lists = [] if last else [one for one in views if isinstance(one, WindowView)]
    is_ordered = len(lists) == len(views)
    view = views[0]
    if len(views) > 1:
        view = OrderedUnionView(lists) if is_ordered else UnionView(views)
    if last:
        view = _compile_derived(view, last, failures)
    if include_offsets and not is_ordered:
        raise UnsupportedFeed(f"Cannot include offsets for {_subscription_kind(view, members)} subs.")
    if is_ordered:
        key = (key, "ordered")
    if failures.raises:
        key = (key, "raises")
    if include_meta:
        key = (key, "meta")
    return Plan(view, key, is_ordered, failures, include_meta)


def _members(query: Query) -> list[Query]:
    """The members of a union, each with the steps that follow the union; of any other query, the query alone."""
    if Union not in map(type, query.steps):
        return [query]
    members = [Query(query.table)]
    for step in query.steps:
        if isinstance(step, Union):
            for other in step.others:
                members.extend(_members(other))
            # distinct and group may only end the whole query, because their view is built over the view of the union.
            if any(isinstance(each, (Distinct, Group)) for member in members for each in member.steps):
                raise UnsupportedFeed(EAGER)
        else:
            if len(members) > 1:
                _check_after_union(step)
            members = [member.then(step) for member in members]
    return members


def _check_after_union(step: Step) -> None:
    if isinstance(step, (Limit, Skip)):
        raise UnsupportedFeed(SLICE_OF_UNION)
    if isinstance(step, Between):
        raise QueryError("Expected type TABLE_SLICE but found SELECTION.")
    if isinstance(step, OrderBy):
        raise UnsupportedFeed(EAGER)


def _compile_derived(view: View, last: Sequence[Step], failures: Failures) -> View:
    """The view of distinct, group and aggregates, over the view of their input."""
    # Imported here because most queries are watched as they are.
    from reactdb.feeds.views.aggregate import AggregateView, GroupView
    from reactdb.feeds.views.distinct import DistinctView

    first, following = last[0], (last[1] if len(last) > 1 else None)
    if isinstance(first, Group):
        groups = GroupView(view, first, None if following is None else _aggregate(following), failures)
        return _list_groups(groups, last[2:], failures) if len(last) > 2 else groups
    if isinstance(first, Distinct):
        view = DistinctView(view, first, failures, boxed=following is not None)
        first = following  # type: ignore[assignment]
    if first is None:
        return view
    step = _aggregate(first)
    return AggregateView(view, step, failures)


def _list_groups(groups: View, steps: Sequence[Step], failures: Failures) -> View:
    """The view of the steps after an aggregate of groups."""
    from reactdb.feeds.views.aggregate import GroupView
    from reactdb.feeds.views.group_list import GroupListView

    assert isinstance(groups, GroupView)
    _check_steps(steps)
    window: tuple[int, int | None] | None = None
    inner: list[Step] = []
    for step in steps:
        if isinstance(step, (Limit, Skip)):
            window = _cut(window, step)
        elif not isinstance(step, (Filter, HasFields, Map, OrderBy)):
            raise UnsupportedFeed(EAGER)
        elif window is not None:
            raise UnsupportedFeed(AFTER_LIMIT)
        else:
            inner.append(step)
    if window is not None and any(isinstance(step, Map) for step in inner):
        # skip and limit count values, and a map may make null of one.
        raise UnsupportedFeed(EAGER)
    return GroupListView(groups, inner, window, failures)


def _cut(window: tuple[int, int | None] | None, step: Limit | Skip) -> tuple[int, int | None]:
    """The window, (skip, limit), with one more step: a skip, a limit, or a skip and then a limit."""
    is_limit = isinstance(step, Limit)
    if window is None:
        return (0, step.count) if is_limit else (step.count, None)
    if is_limit and window[1] is None:
        return (window[0], step.count)
    raise UnsupportedFeed(EAGER)


def _aggregate(step: Step) -> Aggregate:
    if not isinstance(step, Aggregate):
        raise UnsupportedFeed(EAGER)
    return step


def _subscription_kind(view: View, members: Sequence[_Member]) -> str:
    """ReQL's name of the feed, in its sentence about offsets."""
    if view.kind == "point":
        return "point"
    return "empty" if all(member.is_empty for member in members) else "range"


class _Member:
    """One query over one table, in parts.

    Attributes:
        access: How its documents leave the file.
        steps: The filters, maps and orders that are applied to each of them, in order.
        window: (skip, limit) of an ordered query, limit None for all; None for a query with neither.
        last: The distinct, group and aggregate at the end.
        key: Equal for equal queries.
    """

    def __init__(self, query: Query, table: TableInfo, *, is_alone: bool) -> None:
        query = with_indexed_values(query, table)
        steps = list(query.steps)
        self.key: Hashable = (table.id, *chain.from_iterable([step.identity for step in steps]))
        self.table = table
        self.last = _split_derived_steps(steps)
        extreme = self._extreme(steps) if is_alone else None
        _check_steps(steps)
        if len(steps) != len(query.steps):
            # Steps were taken off, or an order with a limit was put in their place.
            query = Query(query.table, tuple(steps))
        self.access: Access = access(query, table)
        self.window: tuple[int, int | None] | None = None
        self.steps: list[Step] = []
        self.is_ordered = OrderBy in map(type, steps)
        for step in self.access.rest:
            self._take(step)
        if extreme is not None:
            self.steps.append(extreme)
            self.window = (0, 1)
        if self.access.is_point and (self.last or self.is_ordered or self.window is not None):
            raise QueryError(NOT_A_SEQUENCE)
        first = query.steps[0] if query.steps else None
        self._key = first.key_bytes if isinstance(first, Get) else None

    def _extreme(self, steps: list[Step]) -> Step | None:
        """min and max without groups are an ordered query with a limit of one. After a skip or limit, and for groups,
        an accumulator holds all values instead."""
        step = self.last[0] if len(self.last) == 1 else None
        if not isinstance(step, Aggregate) or step.kind not in ("min", "max"):
            return None
        if step.index is not None:
            steps += [OrderBy((), step.index, step.kind == "max"), Limit(1)]
        elif any(isinstance(other, (Limit, Skip)) for other in steps):
            return None
        self.last = []
        return None if step.index is not None else Ranked(step.expression, step.kind == "max")

    def _take(self, step: Step) -> None:
        """Take in a step, or refuse a step that cannot follow the earlier ones."""
        if isinstance(step, (Limit, Skip)):
            self._cut(step)
        elif isinstance(step, (Filter, HasFields, Map)):
            if self.window is not None:
                raise UnsupportedFeed(AFTER_LIMIT)
            self.steps.append(step)
        elif isinstance(step, OrderBy):
            # By another index than the access path's, or with keys that break ties: the whole table would have to be sorted.
            if self.window is not None or step.index is not None:
                raise UnsupportedFeed(EAGER)
            if step.keys:
                self.steps.append(step)
        elif isinstance(step, Nth):
            raise UnsupportedFeed(OF_NTH)
        elif isinstance(step, Sample):
            raise UnsupportedFeed(OF_SAMPLE)
        elif isinstance(step, (GetAll, Between, Get)):
            raise QueryError("Expected type TABLE_SLICE but found SELECTION.")
        else:
            raise UnsupportedFeed(EAGER)

    def _cut(self, step: Limit | Skip) -> None:
        is_limit = isinstance(step, Limit)
        if self.access.is_point:
            raise QueryError(NOT_A_SEQUENCE)
        if not self.is_ordered:
            raise UnsupportedFeed(UNORDERED_LIMIT if is_limit else EAGER)
        self.window = _cut(self.window, step)

    @property
    def is_empty(self) -> bool:
        return not self.access.is_point and Source(self.access).is_empty

    def view(self, failures: Failures, include_offsets: bool, prefix: bytes | None) -> View:
        """`prefix`: for values that go into an aggregate: bytes before their sort keys, different for each member of a union.
        None: the values are the result."""
        if self._key is not None:
            return PointView(KeySource(self.table, self._key), pipeline(self.steps), failures)
        source = source_of(self.access)
        # Without offsets and limits, an order needs no state: it only says in which order the initial values come.
        if self.window is None and not (self.is_ordered and include_offsets):
            is_ordered = OrderBy in map(type, self.steps)
            # Very many views of filters share the tuple with their query.
            rest = self.access.rest
            work = pipeline(rest if self.steps == [*rest] else self.steps, prefix)
            return SelectView(source, work, failures, is_ordered=is_ordered)
        skip, limit = (0, None) if self.window is None else self.window
        # skip and limit count values, and null is a value.
        steps = pipeline(self.steps, prefix, keeps_null=True)
        return WindowView(source, steps, failures, skip, None if limit is None else skip + limit)


def _split_derived_steps(steps: list[Step]) -> list[Step]:
    """Take distinct, group and aggregate off the end of the steps: they need all documents."""
    for position, step in enumerate(steps):
        if isinstance(step, (Distinct, Group, Aggregate)):
            taken = steps[position:]
            del steps[position:]
            return taken
    return []


def _check_steps(steps: Sequence[Step]) -> None:
    for step in steps:
        if isinstance(step, ConcatMap):
            raise UnsupportedFeed(AFTER_CONCAT_MAP)
        for part in _expressions_of(step):
            if not is_deterministic(part, allow_now=True):
                raise UnsupportedFeed(NOT_DETERMINISTIC)


def _expressions_of(step: Step) -> list[Expression | Predicate]:
    if isinstance(step, (Filter, HasFields)):
        return [step.predicate]
    if isinstance(step, Map):
        return [step.function] if isinstance(step.function, Expression) else []
    if isinstance(step, OrderBy):
        return [key.expression for key in step.keys]
    return []
