"""Selections: a query and the session to run it. Nothing is read until a selection is run.

    games.filter(row["score"] > 10).order_by(desc("score")).limit(3).run()

    Selection         a query over a table
    PointSelection    one document, by its primary key
    Table             all documents of a table, and the operations of a table: keys, inserts, indexes

Rule of this file: it checks arguments and builds queries. Reading is in `documents.read`, writing in `documents.write`, watching
in `feeds`; the way to each of them is the session.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Never, NoReturn, overload

from reactdb.aggregates import field_or_expression, one_or_list, several
from reactdb.async_functions import refuse_async
from reactdb.change import Change
from reactdb.conditions import as_predicates
from reactdb.documents.access_path import access, find_table, with_indexed_values
from reactdb.documents.counts import count_at_end
from reactdb.documents.hints import hints
from reactdb.documents.index_values import find_index_values
from reactdb.documents.read import run as read
from reactdb.documents.write import (
    PLAIN_KEYS,
    RAISE,
    OnConflict,
    Policy,
    Write,
    check_expected,
    check_return_changes,
    delete,
    insert,
    prepare,
    replace,
    update,
)
from reactdb.errors import (
    IndexExists,
    IndexNotFound,
    InvalidDocument,
    InvalidKey,
    InvalidOption,
    MissingValue,
    NotAValue,
    NotExactlyOne,
    QueryError,
    UsageError,
    format_value,
    format_word,
    is_one_of,
)
from reactdb.expiry import check_expiry, put_expiry
from reactdb.expression import (
    Expression,
    OrderKey,
    as_function,
    as_order_key,
    as_predicate,
    check_patch,
    compile_function,
    compile_value,
    expr,
    field_path,
    is_deterministic,
    is_user_code,
    row,
    to_data,
)
from reactdb.feed_source import FeedSource
from reactdb.query import (
    Aggregate,
    Aggregation,
    Between,
    Bound,
    ConcatMap,
    Distinct,
    DistinctOfIndex,
    Filter,
    Get,
    GetAll,
    Group,
    GroupOfIndex,
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
from reactdb.representation import Represented
from reactdb.session import Session, live_table
from reactdb.store.catalogue import check_name, check_text
from reactdb.store.transaction import WriteTransaction
from reactdb.type_variables import Document, Generic, Result
from reactdb.values import codec, collation
from reactdb.values.encode_hook import EncodeHook, encode_values
from reactdb.values.refusals import explain_document
from reactdb.wrong_calls import explain_wrong_calls

if TYPE_CHECKING:
    from typing import BinaryIO

    import pyarrow as pa
    from reactivex.abc import SchedulerBase

    from reactdb.feeds.feed import Feed
    from reactdb.feeds.livelist import LiveList, Watcher
    from reactdb.feeds.livevalue import LiveValue
    from reactdb.html_view import Preview

WRITABLE_STEPS = (Get, GetAll, Between, Filter, HasFields, OrderBy, Limit, Skip, Nth, Sample)


class Selection(FeedSource[Document], Represented, Generic[Document, Result]):
    """A query over one table. Lazy: every method returns another selection; `run`, iteration and `changes` use it.

    Thread safety: a value; any thread may use it.
    """

    __slots__ = ("_query", "_session")

    # One of `guessed_words.KINDS`.
    _kind: ClassVar[str] = "selection"
    # The rules for the documents that are written.
    _policy: Policy = RAISE

    def __init__(self, session: Session, query: Query) -> None:
        self._session = session
        self._query = query

    def __repr__(self) -> str:
        # Imported here because only people need it.
        from reactdb.previews import describe_query

        return f"<{type(self).__name__} {describe_query(self._query)}>"

    def _preview(self) -> Preview:
        from reactdb.previews import describe_query, preview_of_selection

        return preview_of_selection(self._session, self._query, "Selection", describe_query(self._query))

    @property
    def _selected(self) -> Query | bytes:
        """The target of a write, in the form for `documents.write`."""
        return self._query

    def _then(self, step: Step) -> Selection[Any, Any]:
        return Selection(self._session, self._query.then(step))

    # -----------------------------------------------------------------------------------------------------------
    # A selection is not its result: Python's default for any object is surely not the intended meaning

    # Sets and dicts know it by its identity.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> NoReturn:
        raise comparison_error("==")

    def __ne__(self, other: object) -> NoReturn:
        raise comparison_error("!=")

    def __lt__(self, other: object) -> NoReturn:
        raise comparison_error("<")

    def __le__(self, other: object) -> NoReturn:
        raise comparison_error("<=")

    def __gt__(self, other: object) -> NoReturn:
        raise comparison_error(">")

    def __ge__(self, other: object) -> NoReturn:
        raise comparison_error(">=")

    def __bool__(self) -> NoReturn:
        raise NotAValue(
            "a selection is a query and no result: test the result of run(), as in `if selection.run():`"
        )

    def __len__(self) -> NoReturn:
        raise NotAValue("a selection is a query and has no length: use count().run()")

    def __contains__(self, value: object) -> NoReturn:
        raise NotAValue(
            "a selection is a query and no result: look in the result of run(), as in `... in selection.run()`"
        )

    def __setitem__(self, place: object, value: object) -> NoReturn:
        raise UsageError(
            "a selection is a query: write table.upsert(document), or table.get(key).update({...})"
        )

    def __delitem__(self, place: object) -> NoReturn:
        raise UsageError("a selection is a query: write table.get(key).delete()")

    if not TYPE_CHECKING:
        # Type checkers would take it for every attribute of any name.

        def __getattr__(self, name: str) -> Any:
            """Raises: AttributeError, with the right name."""
            from reactdb.guessed_words import missing_name

            raise missing_name(self, self._kind, name, dir(type(self)))

    # -----------------------------------------------------------------------------------------------------------
    # Selecting

    def between(
        self,
        lower: Any,
        upper: Any,
        *,
        index: str | None = None,
        left_bound: Bound = "closed",
        right_bound: Bound = "open",
    ) -> Selection[Document]:
        """Documents with lower <= key < upper, of the primary key or of an index. `minval` and `maxval` mean no bound.

        A bound may be a list, for a compound index, with `minval` and `maxval` inside it.

        Raises:
            QueryError: A bound is None, or not a value.
            InvalidOption: `left_bound` or `right_bound` is neither "open" nor "closed".
        """
        for name, bound in (("left_bound", left_bound), ("right_bound", right_bound)):
            if not is_one_of(bound, ("open", "closed")):
                raise InvalidOption(
                    f'Expected `open` or `closed` for optarg `{name}` (got `"{format_word(bound)}"`).'
                )
        check_index(index)
        if lower is None or upper is None:
            raise QueryError(
                "Cannot use `null` in BETWEEN, use `r.minval` or `r.maxval` to denote unboundedness."
            )
        check_given(lower)
        check_given(upper)
        start = collation.key_bytes(lower) + (b"\x00" if left_bound == "open" else b"")
        stop = collation.key_bytes(upper) + (b"\x00" if right_bound == "closed" else b"")
        return self._then(Between(lower, upper, index, left_bound, right_bound, start, stop))

    def filter(self, *conditions: Any, default: Any = False, **fields: Any) -> Selection[Document]:
        """Documents that pass all conditions: `filter(row["score"] > 10, team="red")`.

        Args:
            conditions: Each an expression (`row["score"] > 10`), a dict of fields that must be equal, or any callable on
                a document (which no index and no routing can help; `explain()` says so).
            default: The result of a condition for a document without a needed field: False or True, or `r.error()`
                to raise MissingValue.
            fields: Fields that must be equal, by name. For a field called `default`, use a dict.

        Raises:
            QueryError: No condition, or one that makes no sense for any document.
            InvalidOption: An async function.
        """
        selection: Selection[Document] = self  # type: ignore[assignment]
        for predicate in self._session.timed(as_predicates)(conditions, default, fields):
            selection = selection._then(Filter(predicate))
        return selection

    def has_fields(self, *fields: Any) -> Selection[Document]:
        """Documents that have every one of the fields, and not null. A dict names fields inside of fields; a list names
        several."""
        return self._then(HasFields(as_predicate(row.has_fields(*fields))))

    def order_by(self, *keys: Any, index: Any = None) -> Selection[Document]:
        """In order of an index, then of keys: field names, expressions, or these in `asc(...)` or `desc(...)`.

        An index gives the order without sorting, also after filters. Documents without the field come first (with an
        index: not at all).
        Without arguments: in order of the primary key. A list names several keys.

        Raises:
            QueryError: A key is none; or it is the word of a direction: the reverse order is `desc("score")`.
            InvalidOption: `index` is no name.
        """
        keys = flatten(keys)
        for first, key in pairwise(keys):
            check_no_direction(first, key)
        for key in keys:
            if isinstance(key, (list, tuple)) and len(key) == 2:
                check_no_direction(*key)
        descending = False
        if isinstance(index, str) and index.startswith("-"):
            raise InvalidOption(
                f"index is the name of an index: for the reverse order write index=desc({index[1:]!r})"
            )
        if isinstance(index, OrderKey):
            descending = index.descending
            path = field_path(index.expression)
            index = path[0] if path is not None and len(path) == 1 else index
        if index is not None and not isinstance(index, str):
            raise InvalidOption(
                f"index is the name of an index, or asc or desc of one, not {format_value(index)}"
            )
        step = OrderBy(tuple(as_order_key(key) for key in keys), index, descending)
        if index is None:
            return self._then(step)
        return Selection(self._session, self._query.in_index_order(step))

    def limit(self, count: int) -> Selection[Document]:
        """The first `count` documents."""
        return self._then(Limit(check_count("LIMIT", count)))

    def skip(self, count: int) -> Selection[Document]:
        """All but the first `count` documents."""
        return self._then(Skip(check_count("SKIP", count)))

    def nth(self, place: int) -> Selection[Document, Document]:
        """The one document at a place, from 0; below zero it counts from the end, and then every document is read.
        `selection[place]` is the same.

        Raises, when it is run:
            MissingValue: There are not so many documents.
        """
        return self._then(Nth(check_place(place)))

    def sample(self, count: int) -> Selection[Document]:
        """`count` documents, chosen at random at each run; none of them twice. All documents are read for that."""
        return self._then(Sample(check_count("SAMPLE", count)))

    def union(self, *others: Selection[Any, Any]) -> Selection[Any]:
        """These documents, then those of the other selections, perhaps of other tables."""
        for other in others:
            if not isinstance(other, Selection) or other._session is not self._session:
                raise UsageError("union takes selections of the same database handle")
        return self._then(Union(tuple(other._query for other in others)))

    # -----------------------------------------------------------------------------------------------------------
    # Transforming

    def map(self, function: Any) -> Selection[Any]:
        """The value of an expression (or of a callable on a document) for each document."""
        return self._then(Map(as_function(function)))

    def concat_map(self, function: Any) -> Selection[Any]:
        """The elements of the list that the function returns for each document, one after the other."""
        return self._then(ConcatMap(as_function(function)))

    def pluck(self, *fields: Any) -> Selection:
        """Only these fields. A dict picks fields inside of fields: `pluck("id", {"address": "city"})`. A list names
        several."""
        return self._then(Map(row.pluck(*fields), "pluck"))

    def without(self, *fields: Any) -> Selection:
        """All but these fields. A list names several."""
        return self._then(Map(row.without(*fields), "without"))

    def with_fields(self, *fields: Any) -> Selection:
        """`has_fields` and `pluck` combined."""
        return self.has_fields(*fields).pluck(*fields)

    def merge(self, *others: Any) -> Selection[Any]:
        """Each document with the fields of others merged in; inside of fields too, unless `literal` says otherwise."""
        return self._then(Map(row.merge(*(as_function(other) for other in others)), "merge"))

    @overload
    def __getitem__(self, place: str) -> Selection[Any]: ...

    @overload
    def __getitem__(self, place: int) -> Selection[Document, Document]: ...

    @overload
    def __getitem__(self, place: slice) -> Selection[Document]: ...

    def __getitem__(self, place: str | int | slice) -> Selection[Any, Any]:
        """`[name]` the value of one field, of the documents that have it; `[number]` the document there, as `nth`;
        `[start:stop]` a part, as `skip` and `limit`.

        Raises:
            QueryError: Something else, a step, or a part that is counted from the end.
        """
        if isinstance(place, str):
            if self._query.is_point or self._query.is_nth:
                return self._then(Map(row[place], "bracket"))
            return self._then(HasFields(as_predicate(row.has_fields(place)))).map(row[place])
        if isinstance(place, slice):
            return self._part(place)
        if isinstance(place, int) and not isinstance(place, bool):
            return self.nth(place)
        raise QueryError(
            f"a selection takes the name of a field, a number or a part in brackets, not {format_value(place)}: "
            'selection["score"], selection[0] or selection[3:5]'
        )

    def _part(self, place: slice) -> Selection[Document]:
        if place.step is not None:
            raise QueryError("a selection's part has no step: write [start:stop]")
        start = 0 if place.start is None else place.start
        for bound, side in ((start, "left"), (place.stop, "right")):
            if isinstance(bound, int) and bound < 0:
                raise QueryError(f"Cannot use a negative {side} index on a stream.")
        part: Selection[Document] = self if start == 0 else self.skip(start)  # type: ignore[assignment]
        if place.stop is None:
            # A part of a value, such as of a count, is refused also where it is the whole.
            return part if part is not self else self.skip(0)
        return part.limit(max(0, check_count("SLICE", place.stop) - check_count("SLICE", start)))

    def distinct(self, *fields: Any, index: str | None = None) -> Selection[Any]:
        """The different documents, or the different values of a field (or expression), in order.

        Args:
            fields: Of several fields, or of a list of fields: the different lists of their values, of the documents that
                have all of them.
            index: The different values of an index.

        Raises:
            UsageError: Both are given.
        """
        if index is not None:
            return self._then(DistinctOfIndex(only_index("distinct", fields, index)))
        return self._then(Distinct(one_or_list(fields, missing_is_none=False)))

    def group(self, *fields: Any, index: str | None = None) -> Selection[Any]:
        """Groups by a field (or expression); with a following aggregate, one value a group.

        The groups are a list of dicts with `group` and `reduction`, in the order of the groups. After an aggregate, other
        steps work on this list: `group("team").count().order_by(desc("reduction")).limit(3)`.

        Args:
            fields: Of several fields, or of a list of fields, the group is the list of their values, with None for a
                missing one.
            index: The values of an index are the groups; documents that are not in the index are left out.

        Raises:
            UsageError: No field is given, or also an index.
        """
        if index is not None:
            return self._then(GroupOfIndex(only_index("group", fields, index)))
        expression = one_or_list(fields, missing_is_none=True)
        if expression is None:
            raise UsageError('group takes fields or an index: group("team"), group("team", "year")')
        return self._then(Group(expression))

    def aggregate(self, **named: Any) -> Selection[Any]:
        """Several aggregates at once, in one pass over the documents: a dict of their values by their names.

            games.aggregate(games=r.count(), points=r.sum("score"))
            games.group("team").aggregate(games=r.count(), points=r.sum("score"))

        Args:
            named: `r.count()`, `r.sum(field)`, `r.avg(field)`, `r.min(field)` and `r.max(field)`, or the functions of
                `reactdb.aggregates` with the same names. A field may be an expression.

        Raises:
            UsageError: There is none, or one of them is no aggregate.
        """
        return self._then(several(named))

    def count(self) -> Selection[Any, int]:
        """How many documents: a number."""
        return self._aggregate("count", None)

    def sum(self, field: Any = None) -> Selection[Any, Any]:
        """The sum of a field over the documents that have it; 0 for none."""
        return self._aggregate("sum", field)

    def avg(self, field: Any = None) -> Selection[Any, Any]:
        """The mean of a field over the documents that have it; None for none."""
        return self._aggregate("avg", field)

    def min(self, field: Any = None, *, index: str | None = None) -> Selection[Document, Document | None]:
        """The document with the least value of a field, or the first of an index; None for none."""
        return self._aggregate("min", field, index)

    def max(self, field: Any = None, *, index: str | None = None) -> Selection[Document, Document | None]:
        """The document with the greatest value of a field, or the last of an index; None for none."""
        return self._aggregate("max", field, index)

    def _aggregate(self, kind: Aggregation, field: Any, index: str | None = None) -> Selection[Any, Any]:
        if field is not None and index is not None:
            raise UsageError(f"{kind} takes a field or an index, not both")
        check_index(index)
        return self._then(Aggregate(kind, None if field is None else field_or_expression(field), index))

    # -----------------------------------------------------------------------------------------------------------
    # Reading and watching

    def run(self, *connection: Never) -> Result:
        """Read it: a document or None for `get`, a value for an aggregate, otherwise a list. You may change the
        result.

        Raises:
            TableNotFound, IndexNotFound, QueryError: The query cannot be executed.
            UsageError: A connection was passed, as RethinkDB's drivers have it: a selection knows its database.
        """
        if connection:
            raise connection_error()
        session = self._session
        result: Result = session.run(self._query)
        session.hints.look(self._query, session.read, session.committed_seq, found_nothing=not result)
        return result

    def first(self) -> Document | None:
        """Read the first document, or the first value; None if there is none.

        Raises:
            TableNotFound, IndexNotFound, QueryError: The query cannot be executed, or its result is one value already.
        """
        if self._is_single:
            return self.run()  # type: ignore[return-value]
        found = self.limit(1).run()
        return found[0] if found else None

    def one(self) -> Document:
        """Read the only document.

        Raises:
            NotExactlyOne: There is none, or there are several; `count` says how many.
            TableNotFound, IndexNotFound, QueryError: The query cannot be executed, or its result is one value already.
        """
        query = self._query
        with self._session.read() as snapshot:
            if self._is_single:
                found: list[Document] = [one for one in (read(query, snapshot),) if one is not None]
            else:
                found = read(query.then(Limit(2)), snapshot)
            count = len(found) if len(found) < 2 else sum(1 for _ in read(query, snapshot))
        if count != 1:
            raise NotExactlyOne(count)
        return found[0]

    def exists(self) -> bool:
        """Whether there is any document, or any value. At most one document that passes is read.

        Raises:
            TableNotFound, IndexNotFound, QueryError: The query cannot be executed, or its result is one value already.
        """
        if not self._is_single:
            return bool(self.limit(1).run())
        try:
            return self.run() is not None
        except MissingValue:
            # Of `nth`: there are not so many.
            return False

    @property
    def _is_single(self) -> bool:
        """Whether the result is one document, or None."""
        return self._query.is_point or (self._query.is_nth and not self._query.is_grouped)

    def __iter__(self) -> Iterator[Document]:
        """The documents, of one state: a long loop does not see later writes."""
        result = self.run()
        if not isinstance(result, list):
            raise UsageError(
                f"this selection is one {'document' if self._is_single else 'value'}, not a sequence: use run()"
            )
        return iter(result)

    # -----------------------------------------------------------------------------------------------------------
    # Data frames

    @property
    def _checked_query(self) -> Query:
        """The query of a read that returns no objects of a type. A typed selection adds a check."""
        return self._query

    def to_arrow(
        self,
        *,
        fields: Iterable[str] | None = None,
        schema: Any = None,
        at: int | datetime | None = None,
    ) -> pa.Table:
        """Read it as a table of Arrow, with a column for each field. All rows are of one state.

        A missing field is null. A dict becomes a struct, a list a list. A UUID becomes text, a datetime a moment in UTC, an
        integer beyond 64 bits a decimal. A field with values of several types becomes text: texts as they are, other values
        as JSON; its metadata `reactdb.conflict` names the types. A dict with a key of each document's own becomes a map; fields
        of each document's own are together in a map `_other`.

        Args:
            fields: The wanted fields, in this order; None: all, in the order in which they were first seen.
            schema: The wanted fields with their types: a pyarrow.Schema, or a dict of names and types, such as
                `{"id": "int64"}`; None: the types of the values.
            at: The state as of a seq, or of a moment: a datetime with a time zone, as for `Database.at`. None: the present.

        Returns:
            A pyarrow.Table. A single document is one row; the values of a `map` are a column `value`.

        Raises:
            MissingExtra: pyarrow is not installed: the extra `arrow`.
            SchemaMismatch: A document does not fit the given schema.
            QueryError: The selection is one value, such as a count. Also the errors of `run`, and of `Database.at`.
        """
        # Imported here because most programs have no frames.
        from reactdb.data_frames import read_arrow

        return read_arrow(self._session, self._checked_query, fields, schema, at)

    def to_pandas(
        self,
        *,
        fields: Iterable[str] | None = None,
        schema: Any = None,
        at: int | datetime | None = None,
    ) -> Any:
        """Read it as a pandas.DataFrame: `to_arrow` for its rows, types and arguments. Integers and booleans with nulls have the
        types Int64 and boolean of pandas, so that no integer becomes a float.

        Raises:
            MissingExtra: pandas is not installed: the extra `pandas`. Also the errors of `to_arrow`.
        """
        from reactdb.data_frames import check_installed, to_pandas

        check_installed("to_pandas", "pandas", "pandas")
        return to_pandas(self.to_arrow(fields=fields, schema=schema, at=at))

    def to_polars(
        self,
        *,
        fields: Iterable[str] | None = None,
        schema: Any = None,
        at: int | datetime | None = None,
    ) -> Any:
        """Read it as a polars.DataFrame: `to_arrow` for its rows, types and arguments.

        Raises:
            MissingExtra: polars is not installed: the extra `polars`. Also the errors of `to_arrow`.
        """
        from reactdb.data_frames import check_installed, to_polars

        check_installed("to_polars", "polars", "polars")
        return to_polars(self.to_arrow(fields=fields, schema=schema, at=at))

    def _watch(self, options: Mapping[str, Any]) -> Feed[Any]:
        self._session.hints.look(
            self._query, self._session.read, self._session.committed_seq, found_nothing=True
        )
        return self._session.watch(self._query, options)

    @property
    def _watcher(self) -> Watcher:
        """What a live result follows this selection by."""
        return self._session

    def _point(self, key: Any) -> PointSelection[Any]:
        """The document with this key, in the table of this selection."""
        return PointSelection(self._session, self._query.table, key, key_of(key))

    @overload
    def live(  # type: ignore[overload-overlap]
        self: Selection[Document, list[Document]],
        *,
        scheduler: SchedulerBase | None = None,
        skip_origin: str | None = None,
        wait: bool = True,
    ) -> LiveList[Document]: ...

    @overload
    def live(
        self,
        *,
        scheduler: SchedulerBase | None = None,
        skip_origin: str | None = None,
        wait: bool = True,
    ) -> LiveValue[Result]: ...

    def live(
        self,
        *,
        scheduler: SchedulerBase | None = None,
        skip_origin: str | None = None,
        wait: bool = True,
    ) -> LiveList[Any] | LiveValue[Any]:
        """Follow the result as an object that is always current: for a sequence a `LiveList`, and for a document by its key,
        a count or another aggregate a `LiveValue`, with `.value`.

        A sequence without an order is in the order of its keys. With subscribers, the object lives as long as the database;
        without, it is closed when nobody refers to it.

        Args:
            scheduler: Where the object changes and its subscribers are called; None: the database's, or the committing
                thread after its write is done.
            skip_origin: Commits of this writer are taken in, and subscribers are not called for them, because the program has
                made these edits to its own model already.
            wait: False: return at once, in the state "loading", and read the result in a thread: for a loop or a window,
                whose `scheduler` then says where it is put in. True: read it before this returns.

        Raises:
            TableNotFound, IndexNotFound, QueryError, InvalidOption: At once.
        """
        from reactdb.feeds.livelist import LiveList, is_single
        from reactdb.feeds.livevalue import LiveValue

        self._session.hints.look(
            self._query, self._session.read, self._session.committed_seq, found_nothing=True
        )
        kind: Any = LiveValue if is_single(self._query) else LiveList
        return kind(self, scheduler=scheduler, skip_origin=skip_origin, wait=wait)  # type: ignore[no-any-return]

    def explain(self) -> dict[str, Any]:
        """How this selection is read: `access` in words, the `index` if used, and the parts that run in Python.

        `hints` are sentences about probable mistakes, such as a comparison of a time with a text. `write_wait_s`: how
        many seconds a write through this handle waits for others at most, before DatabaseBusy; None for a read-only
        handle.
        """
        with self._session.read() as snapshot:
            table = find_table(self._query.table, snapshot)
            query = with_indexed_values(self._query, table)
            groups, on_groups = query.without_steps_on_groups, query.steps_on_groups
            path = access(groups, table)
            count = count_at_end(path)
            # In the past the values of an index are taken from the documents.
            values = find_index_values(path) if count is None and snapshot.skips_unread else None
            path = path.with_offset()
            index = path.index
            reading = path.describe(snapshot)
            if values is not None:
                reading = f"{reading}; {values.describe()}"
            if count is not None:
                counting = count.describe(is_past=not snapshot.skips_unread)
                # A path by another index is not taken.
                reading = f"{reading}; {counting}" if count.index is index else counting
                index = count.index
            texts = [hint.text for hint in hints(self._query, snapshot)]
        return {
            "table": self._query.table,
            "access": reading,
            "index": None if index is None else index.name,
            "steps": [
                step.kind if isinstance(step, Aggregate) else type(step).__name__.lower()
                for step in (
                    *(path.rest if count is None else ()),
                    *(groups.steps[-1:] if on_groups else ()),
                    *on_groups,
                )
            ],
            "callables": self._query.callables(),
            "hints": texts,
            "write_wait_s": self._session.write_wait_s,
        }

    # -----------------------------------------------------------------------------------------------------------
    # Writing

    def update(
        self,
        patch: Any,
        *,
        expect: Any = None,
        durability: str | None = None,
        return_changes: bool | str = False,
    ) -> dict[str, Any]:
        """Merge a patch into every selected document, at once and as one commit.

        Args:
            patch: A dict (which may hold expressions: `{"score": row["score"] + 1}`), an expression, or a callable
                that takes the document and returns the dict. `literal(x)` replaces instead of merging.
            expect: A dict of fields, or a condition, that every selected document must pass: `{"version": 3}`. A missing
                document does not pass. None: no check.
            durability: "hard" or "soft" for this write; default: the database's.
            return_changes: True for the changes as `changes`, "always" for the unchanged too.

        Returns:
            ReQL's counters: `replaced`, `unchanged`, `skipped` (a `get` of nothing), ...

        Raises:
            Conflict: A document is not as `expect` says. Nothing was written then.
            InvalidDocument, InvalidKey, QueryError: Nothing was written then.
        """
        if self._session.encode_hook is not None:
            patch = encode_argument(patch, self._session.encode_hook)
        runs_user_code = is_user_code(patch)
        selected = self._selected
        given = self._session.timed(check_patch)(
            patch, is_for_one=isinstance(selected, bytes) or selected.is_point
        )
        return self._write(
            "update",
            check_before(
                lambda write: update(write, selected, given, runs_user_code), expect, selected, "update"
            ),
            durability,
            return_changes,
            runs_user_code,
        )

    def replace(
        self,
        document: Any,
        *,
        expect: Any = None,
        durability: str | None = None,
        return_changes: bool | str = False,
    ) -> dict[str, Any]:
        """Replace every selected document by another one; None deletes. `get(key).replace(doc)` may insert.

        Args and errors as for `update`; `document` may be a dict, an expression or a callable.
        """
        if self._session.encode_hook is not None:
            document = encode_argument(document, self._session.encode_hook)
        new = self._session.timed(compile_function)(document)
        return self._write(
            "replace",
            check_before(
                lambda write: replace(write, self._selected, new), expect, self._selected, "replace"
            ),
            durability,
            return_changes,
            is_user_code(document),
        )

    def delete(
        self, *, expect: Any = None, durability: str | None = None, return_changes: bool | str = False
    ) -> dict[str, Any]:
        """Delete every selected document. Options and errors as for `update`."""
        return self._write(
            "delete",
            check_before(lambda write: delete(write, self._selected), expect, self._selected, "delete"),
            durability,
            return_changes,
        )

    def _write(
        self,
        operation: str,
        work: Callable[[Write], None],
        durability: str | None,
        return_changes: bool | str,
        runs_user_code: bool = False,
    ) -> dict[str, Any]:
        query = self._query
        for step in query.steps:
            if not isinstance(step, WRITABLE_STEPS):
                raise QueryError("Expected type SELECTION but found SEQUENCE.")
            if isinstance(step, (Filter, HasFields)) and step.predicate.node is None:
                runs_user_code = True
        if not query.is_point:
            # Before the write, because after it the documents may be gone or changed. The result is not known yet.
            self._session.hints.look(
                query, self._session.read, self._session.committed_seq, found_nothing=True
            )
        if return_changes is not False:
            check_return_changes(return_changes)
        return self._session.transact(
            Write(query.table, work, self._policy, return_changes),
            durability=durability,
            is_shareable=query.is_point and not runs_user_code,
            operation=operation,
        )


class PointSelection(Selection[Document, Document | None]):
    """One document, by primary key; it may be missing."""

    __slots__ = ("_key", "_selected", "_table")

    # Its key, and so it is found without a query.
    _selected: bytes
    _kind = "document"

    def __init__(self, session: Session, table: str, key: Any, key_bytes: bytes) -> None:
        self._session = session
        self._table = table
        self._key = key
        self._selected = key_bytes

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Making a Query takes as long as this read itself: it is made when it is needed.
            if name != "_query":
                return super().__getattr__(name)
            self._query = query = Query(self._table, (Get(self._key, self._selected),))
            return query

    def run(self, *connection: Never) -> Document | None:
        """Read it: the document, or None. It is yours to change.

        Raises:
            TableNotFound.
        """
        if connection:
            raise connection_error()
        body = self._session.get(self._table, self._selected)
        return None if body is None else codec.decode(body)  # type: ignore[return-value]

    def _write(
        self,
        operation: str,
        work: Callable[[Write], None],
        durability: str | None,
        return_changes: bool | str,
        runs_user_code: bool = False,
    ) -> dict[str, Any]:
        if return_changes is not False:
            check_return_changes(return_changes)
        return self._session.transact(
            Write(self._table, work, self._policy, return_changes),
            durability=durability,
            is_shareable=not runs_user_code,
            operation=operation,
        )

    def history(self) -> list[Change[Document]]:
        """Every remaining log entry of this key, oldest first; also of a deleted key."""
        with self._session.read() as snapshot:
            table = find_table(self._table, snapshot)
            entries = list(snapshot.history(table, self._selected))
        return entries[::-1]

    def attachment(self, name: str) -> BinaryIO:
        """The attachment of the document under this name, as a binary file. The document lists its attachments: its
        field `_attachments` has for each name a `content_type`, a `length` and the `blob` of the bytes.

        Raises:
            MissingValue: There is no such document, or nothing is attached to it under this name.
            BlobNotFound: Its bytes are not in the file.
        """
        # Imported here because most programs have no large values.
        from reactdb.blobs import Blobs
        from reactdb.values.blob import Blob

        stub: Any = self.run()
        for part in ("_attachments", name, "blob"):
            stub = stub.get(part) if isinstance(stub, dict) else None
        if not isinstance(stub, Blob):
            raise MissingValue(
                f"Nothing is attached to document {format_value(self._key)} as {format_value(name)}."
            )
        return Blobs(self._session).open(stub)


class Table(Selection[Document]):
    """A table: the selection of all its documents, and the operations on a table."""

    __slots__ = ()

    _kind = "table"

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._query.table

    def __repr__(self) -> str:
        return f"<Table {self.name!r}>"

    def _preview(self) -> Preview:
        from reactdb.previews import preview_of_selection

        return preview_of_selection(self._session, self._query, "Table", self.name)

    @property
    def primary_key(self) -> str:
        """The name of the field that is the key."""
        with self._session.read() as snapshot:
            return find_table(self.name, snapshot).primary_key

    def get(self, key: Any) -> PointSelection[Document]:
        """The document with this primary key. 1 and 1.0 are one key.

        Raises:
            InvalidKey: The value cannot be a key; MissingValue for None.
        """
        data = collation.primary_key_bytes(key) if type(key) in PLAIN_KEYS else key_of(key)
        return PointSelection(self._session, self._query.table, key, data)

    def get_all(self, *keys: Any, index: str | None = None) -> Selection[Document]:
        """The documents with these keys, in the order of the arguments; of the primary key or of an index.

        A repeated key gives its documents twice, as in ReQL.
        """
        check_index(index)
        encoded = tuple(key_of(key) if index is None else index_key_of(key) for key in keys)
        return self._then(GetAll(tuple(keys), encoded, index))

    def insert(
        self,
        documents: Any,
        *,
        conflict: OnConflict = "error",
        durability: str | None = None,
        return_changes: bool | str = False,
    ) -> dict[str, Any]:
        """Add a document, or an iterable of them, at once and as one commit.

        Args:
            documents: A dict, or dicts, or a frame of pandas, polars or pyarrow: a document for each row, without the fields
                that are missing in it (null, None, NaT, and in pandas NaN); the index of pandas is ignored. A document without a
                primary key gets a UUID string that sorts by time. An expression in it, such as `r.now()`, is computed when it
                is written; `now` is one moment for all documents.
            conflict: Where the key is taken: "error" raises, "replace" puts the new document in its place, "update" merges
                it in, and a callable gets (key, old, new) and gives the document to store, or None to delete.
            durability, return_changes: As for `update`.

        Returns:
            ReQL's counters, and `generated_keys` where keys were generated.

        Raises:
            DuplicateKey, InvalidDocument, InvalidKey: Nothing was written then, not even the documents before it.
        """
        runs_user_code = False
        if type(conflict) is not str or conflict != "error":
            runs_user_code = callable(conflict)
            if runs_user_code:
                refuse_async(conflict, "conflict")
            elif not is_one_of(conflict, ("error", "replace", "update")):
                raise InvalidOption(
                    f'Conflict option `{format_word(conflict)}` unrecognized (options are "error", "replace" and "update").'
                )
        if self._session.encode_hook is not None:
            documents = encode_documents(with_rows(documents), self._session.encode_hook)
        given = [documents] if type(documents) is dict or isinstance(documents, Mapping) else documents
        if type(given) is not list:
            given = with_rows(given)
            if type(given) is not list:
                # Some of these are iterable, and their elements are no documents.
                foreign = explain_document(given)
                if foreign is not None:
                    raise InvalidDocument(foreign)
                if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
                    raise QueryError(
                        f"insert takes a dict, or an iterable of dicts, not {type(documents).__name__}"
                    )
        if return_changes is not False:
            check_return_changes(return_changes)
        name = self._query.table
        prepared = self._session.timed(prepare)(given, self._session.info(name).primary_key)
        return self._session.transact(
            Write(name, partial(insert, documents=prepared, conflict=conflict), self._policy, return_changes),
            durability=durability,
            is_shareable=not runs_user_code,
            operation="insert",
        )

    def insert_many(
        self,
        documents: Iterable[Any],
        *,
        conflict: OnConflict = "error",
        durability: str | None = None,
        return_changes: bool | str = False,
    ) -> dict[str, Any]:
        """Add several documents as one commit: `insert`, for readers who look for this name.

        Args, returns and errors as for `insert`.

        Raises:
            QueryError: It is one document, and no list.
        """
        if isinstance(documents, Mapping):
            raise QueryError("insert_many takes a list of documents: write insert(document) for one")
        return self.insert(documents, conflict=conflict, durability=durability, return_changes=return_changes)

    def upsert(
        self,
        documents: Any,
        *,
        durability: str | None = None,
        return_changes: bool | str = False,
    ) -> dict[str, Any]:
        """Insert a document, or an iterable of them, or merge each into the document of the same key, as one commit.

        It is `insert(documents, conflict="update")`: fields that the new document does not have stay.

        Returns:
            ReQL's counters: `inserted` new documents, `replaced` changed ones, `unchanged` ones that were equal already.

        Raises:
            InvalidDocument, InvalidKey: Nothing was written then.
        """
        return self.insert(documents, conflict="update", durability=durability, return_changes=return_changes)

    # -----------------------------------------------------------------------------------------------------------
    # Indexes

    def index_create(
        self, name: str, expression: Any = None, multi: bool = False, unique: bool = False
    ) -> dict[str, int]:
        """Make an index and fill it, as one commit.

        Args:
            name: Letters, digits, `_`, `.` and `-`; not the primary key's name.
            expression: The indexed value: an expression, or a function that builds one from its argument (`lambda d:
                d["a"]`); a list of them makes a compound index. Default: the field called `name`.
            multi: The value is a list, and the document is found under each of its elements.
            unique: Each value belongs to at most one document, whoever writes. A write that would break this raises
                DuplicateIndexKey and writes nothing; in a transaction, the end of the transaction raises it. Documents
                without the value, or with null there, are exempt.

        Raises:
            IndexExists, InvalidName, QueryError; DuplicateIndexKey: Documents have the same value already. It lists up
            to 10 values, and there is no index then.
        """
        check_name("Index", name)
        for option, value in (("multi", multi), ("unique", unique)):
            if not isinstance(value, bool):
                raise InvalidOption(f"{option} is True or False, not {format_value(value)}")
        tree = row[name] if expression is None else index_expression(expression)
        compile_value(tree)
        if not is_deterministic(tree):
            # The entries of a document are computed again when it is removed, and have to be the same then.
            raise QueryError(
                "Could not prove function deterministic.  Index functions must be deterministic."
            )
        data = codec.encode_value(to_data(tree))

        def one(transaction: WriteTransaction) -> None:
            table = live_table(transaction, self.name)
            if name in table.indexes or name == table.primary_key:
                raise IndexExists(name, self.name)
            transaction.create_index(table, name, data, multi, unique)

        self._session.transact(one, operation="index_create")
        return {"created": 1}

    def index_drop(self, name: str) -> dict[str, int]:
        """Remove an index. Feeds that need it end with an error that names it."""
        check_text("Index", name)

        def one(transaction: WriteTransaction) -> None:
            table = live_table(transaction, self.name)
            if name not in table.indexes:
                raise IndexNotFound(name, self.name)
            transaction.drop_index(table, name)

        self._session.transact(one, operation="index_drop")
        return {"dropped": 1}

    def index_list(self) -> list[str]:
        """The names of the indexes, sorted."""
        with self._session.read() as snapshot:
            return sorted(find_table(self.name, snapshot).indexes)

    def index_wait(self, *names: str) -> list[dict[str, Any]]:
        """The state of the named indexes (default: all). They are always ready: an index is filled when it is made.

        Returns:
            Dicts with `index`, `ready`, `multi` and `outdated`; for a unique index also `unique`, which is True.
        """
        with self._session.read() as snapshot:
            table = find_table(self.name, snapshot)
        for name in names:
            check_text("Index", name)
            if name not in table.indexes:
                raise IndexNotFound(name, self.name)
        return [
            {
                "index": name,
                "ready": True,
                "multi": info.multi,
                "outdated": False,
                **({"unique": True} if info.is_unique else {}),
            }
            for name, info in sorted(table.indexes.items())
            if not names or name in names
        ]

    # -----------------------------------------------------------------------------------------------------------
    # Expiry

    def set_expiry(self, expire_after: timedelta | None, field: str | None = None) -> None:
        """Set when documents of the table are deleted from now on, by any process. The file keeps this setting.

        A document ends `expire_after` after the time in `field`. A process that has the file open to write deletes it
        within about a second. The deletion is an ordinary change, with the origin "expiry"; until then reads, counts and
        feeds show the document. A document without an aware datetime in the field never ends. `Database.stats` shows the
        expiry.

        The ends are in an index with the name `expiry`, which is filled in one commit. Dropping the index ends the expiry.

        Args:
            expire_after: A timedelta from 0; None: documents do not expire.
            field: The name of a field with a time; None where `expire_after` is None.

        Raises:
            InvalidOption, TableNotFound; IndexExists: The table has an index `expiry` of its own; UsageError: It is kept by
            `Database.materialize`.
        """
        settings = check_expiry(expire_after, field)
        self._session.transact(
            lambda transaction: put_expiry(transaction, live_table(transaction, self.name), settings),
            operation="set_expiry",
        )


explain_wrong_calls(FeedSource, Selection, PointSelection, Table)


def query_of(selection: Selection[Any, Any]) -> Query:
    """A selection's query, as a value: for code above selections, such as durable consumers."""
    return selection._query


def point_of(selection: Selection[Any, Any], key: Any) -> PointSelection[Any]:
    """The document with this key in a selection's table: for code above selections, such as a cell that a user edits."""
    return selection._point(key)


def check_before(
    work: Callable[[Write], None], expect: Any, selected: Query | bytes, operation: str
) -> Callable[[Write], None]:
    """A write that first checks that the selected documents pass `expect`; without it, the write itself."""
    if expect is None:
        return work
    if not isinstance(expect, (dict, Expression)):
        raise InvalidOption(
            f'expect is a dict of fields, as {{"version": 3}}, or a condition on the document, not {format_value(expect)}'
        )
    predicate = as_predicate(expect)

    def checked(write: Write) -> None:
        check_expected(write, selected, predicate, operation)
        work(write)

    return checked


def with_rows(documents: Any) -> Any:
    """The rows of a frame as documents; other arguments of `insert` unchanged."""
    if type(documents).__module__.partition(".")[0] not in ("pandas", "polars", "pyarrow"):
        return documents
    from reactdb.data_frames import documents_of_frame

    rows = documents_of_frame(documents)
    return documents if rows is None else rows


def encode_documents(documents: Any, hook: EncodeHook) -> Any:
    """The argument of `insert` after the function of `connect(encode=...)`."""
    if isinstance(documents, Mapping):
        return encode_values(dict(documents), hook, is_kept)
    if explain_document(documents) is not None or not hasattr(documents, "__iter__"):
        return encode_values(documents, hook, is_kept)
    if isinstance(documents, (str, bytes)):
        return documents
    return [encode_values(dict(one) if isinstance(one, Mapping) else one, hook, is_kept) for one in documents]


def encode_argument(argument: Any, hook: EncodeHook) -> Any:
    """The same for the argument of `update` and `replace`. Of a function, the results are converted."""
    if callable(argument) and not isinstance(argument, Expression):
        return lambda document: encode_values(argument(document), hook, is_kept)
    return encode_values(argument, hook, is_kept)


def is_kept(value: object) -> bool:
    """Whether a value stays as it is: what computes values, and what has a sentence of its own."""
    return isinstance(value, Expression) or hasattr(type(value), "refused_as_value")


def comparison_error(sign: str) -> NotAValue:
    return NotAValue(
        f"a selection is a query and no result: compare the result of run(), as in `selection.run() {sign} ...`"
    )


def connection_error() -> UsageError:
    return UsageError(
        "a selection knows its database, and run() takes no connection: write selection.run(); code that passes one "
        "runs as it is with reactdb.rethinkdb(db)"
    )


def flatten(names: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, with those of each list among them in its place."""
    return tuple(name for one in names for name in (one if isinstance(one, (list, tuple)) else (one,)))


def check_no_direction(first: Any, key: object) -> None:
    """Raises: QueryError, for `order_by("score", "desc")`: it would sort by a field of that name."""
    is_word = isinstance(key, str) and key.lower() in ("asc", "desc", "ascending", "descending")
    if is_word or (isinstance(key, int) and key in (1, -1)):
        is_down = key == -1 or (isinstance(key, str) and key.lower().startswith("desc"))
        word = "desc" if is_down else "asc"
        named = format_value(first) if isinstance(first, str) else "..."
        other = f"; for a field of that name, row[{key!r}]" if is_word else ""
        raise QueryError(
            f"{format_value(key)} is no field to sort by: write order_by({word}({named})){other}"
        )


def check_place(place: object) -> int:
    if isinstance(place, bool) or not isinstance(place, (int, float)):
        raise QueryError(f"Expected type NUMBER but found {collation.type_name(place)}.")
    if isinstance(place, float) and not place.is_integer():
        raise QueryError(f"Number not an integer: {place}")
    return max(-sys.maxsize, min(int(place), sys.maxsize - 1))


def check_given(key: Any) -> None:
    """Raise InvalidKey for an array that contains itself or has too many values, before anything walks through it."""
    try:
        codec.check_extent(key)
    except InvalidDocument as error:
        raise InvalidKey(error.reason) from None


def check_index(index: object) -> None:
    if index is not None and not isinstance(index, str):
        raise InvalidOption(f"index is the name of an index, not {format_value(index)}")


def check_count(word: str, count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, (int, float)):
        raise QueryError(f"Expected type NUMBER but found {collation.type_name(count)}.")
    if isinstance(count, float) and not count.is_integer():
        raise QueryError(f"Number not an integer: {count}")
    if count < 0:
        raise QueryError(f"{word} takes a non-negative argument (got {int(count)})")
    # No sequence is longer than sys.maxsize.
    return min(int(count), sys.maxsize)


def only_index(word: str, fields: tuple[Any, ...], index: object) -> str:
    if fields:
        raise UsageError(f"{word} takes fields or an index, not both")
    check_index(index)
    return str(index)


def key_of(key: Any) -> bytes:
    if key is None:
        raise MissingValue("Keys cannot be NULL.")
    check_given(key)
    return collation.primary_key_bytes(key)


def index_key_of(key: Any) -> bytes:
    if key is None:
        raise MissingValue("Keys cannot be NULL.")
    check_given(key)
    key_bytes = collation.index_key_bytes(key)
    if key_bytes is None:
        raise InvalidKey(
            f"Secondary keys must be a number, string, bool, pseudotype, or array (got type {collation.type_name(key)})."
        )
    return key_bytes


def index_expression(expression: Any) -> Expression:
    """The expression of an index. A callable is called once, with `row`: an index is stored in the file, code is not."""
    if isinstance(expression, (list, tuple)):
        if not expression:
            raise QueryError("a compound index takes at least one expression")
        return expr([index_expression(part) for part in expression])
    if isinstance(expression, Expression):
        return expression
    if isinstance(expression, str):
        return row[expression]
    if callable(expression):
        return expr(expression(row))
    raise QueryError(f"an index takes an expression or a list of them, not {type(expression).__name__}")
