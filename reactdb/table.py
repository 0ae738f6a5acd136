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
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from reactdb.change import Change
from reactdb.documents.access_path import access, find_table
from reactdb.documents.hints import hints
from reactdb.documents.write import (
    PLAIN_KEYS,
    Conflict,
    Write,
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
    QueryError,
    UsageError,
    format_value,
    format_word,
    is_one_of,
)
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
    Filter,
    Get,
    GetAll,
    Group,
    HasFields,
    Limit,
    Map,
    OrderBy,
    Query,
    Skip,
    Step,
    Union,
)
from reactdb.session import Session, live_table
from reactdb.store.catalogue import check_name, check_text
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec, collation

if TYPE_CHECKING:
    from typing import BinaryIO

    from reactivex.abc import SchedulerBase

    from reactdb.feeds.feed import Feed
    from reactdb.feeds.livelist import LiveList
    from reactdb.feeds.livevalue import LiveValue

WRITABLE_STEPS = (Get, GetAll, Between, Filter, HasFields, OrderBy, Limit, Skip)


class Selection(FeedSource):
    """A query over one table. Lazy: every method returns another selection; `run`, iteration and `changes` use it.

    Thread safety: a value; any thread may use it.
    """

    __slots__ = ("_query", "_session")

    def __init__(self, session: Session, query: Query) -> None:
        self._session = session
        self._query = query

    def __repr__(self) -> str:
        steps = "".join(f".{type(step).__name__.lower()}(...)" for step in self._query.steps)
        return f"<{type(self).__name__} {self._query.table!r}{steps}>"

    @property
    def _selected(self) -> Query | bytes:
        """The target of a write, in the form for `documents.write`."""
        return self._query

    def _then(self, step: Step) -> Selection:
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
    ) -> Selection:
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

    def filter(self, predicate: Any, default: Any = False) -> Selection:
        """Documents that pass.

        Args:
            predicate: An expression (`row["score"] > 10`), a dict of fields that must be equal, or any callable on a
                document (which no index and no routing can help; `explain()` says so).
            default: The result of the predicate for a document without a needed field: False or True, or `r.error()`
                to raise MissingValue.
        """
        return self._then(Filter(as_predicate(predicate, default)))

    def has_fields(self, *fields: Any) -> Selection:
        """Documents that have every one of the fields, and not null. A dict names fields inside of fields."""
        return self._then(HasFields(as_predicate(row.has_fields(*fields))))

    def order_by(self, *keys: Any, index: Any = None) -> Selection:
        """In order of an index, then of keys: field names, expressions, or these in `asc(...)` or `desc(...)`.

        An index gives the order without sorting. Documents without the field come first (with an index: not at all).
        Without arguments: in order of the primary key.
        """
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
        return self._then(OrderBy(tuple(as_order_key(key) for key in keys), index, descending))

    def limit(self, count: int) -> Selection:
        """The first `count` documents."""
        return self._then(Limit(check_count("LIMIT", count)))

    def skip(self, count: int) -> Selection:
        """All but the first `count` documents."""
        return self._then(Skip(check_count("SKIP", count)))

    def union(self, *others: Selection) -> Selection:
        """These documents, then those of the other selections, perhaps of other tables."""
        for other in others:
            if not isinstance(other, Selection) or other._session is not self._session:
                raise UsageError("union takes selections of the same database handle")
        return self._then(Union(tuple(other._query for other in others)))

    # -----------------------------------------------------------------------------------------------------------
    # Transforming

    def map(self, function: Any) -> Selection:
        """The value of an expression (or of a callable on a document) for each document."""
        return self._then(Map(as_function(function)))

    def concat_map(self, function: Any) -> Selection:
        """The elements of the list that the function returns for each document, one after the other."""
        return self._then(ConcatMap(as_function(function)))

    def pluck(self, *fields: Any) -> Selection:
        """Only these fields. A dict picks fields inside of fields: `pluck("id", {"address": "city"})`."""
        return self._then(Map(row.pluck(*fields), "pluck"))

    def without(self, *fields: Any) -> Selection:
        """All but these fields."""
        return self._then(Map(row.without(*fields), "without"))

    def with_fields(self, *fields: Any) -> Selection:
        """`has_fields` and `pluck` combined."""
        return self.has_fields(*fields).pluck(*fields)

    def merge(self, *others: Any) -> Selection:
        """Each document with the fields of others merged in; inside of fields too, unless `literal` says otherwise."""
        return self._then(Map(row.merge(*(as_function(other) for other in others)), "merge"))

    def __getitem__(self, field: str) -> Selection:
        """The value of one field, of the documents that have it."""
        if not isinstance(field, str):
            raise QueryError(
                "a selection takes the name of a field in brackets; use skip() and limit() for positions"
            )
        if self._query.is_point:
            return self._then(Map(row[field], "bracket"))
        return self._then(HasFields(as_predicate(row.has_fields(field)))).map(row[field])

    def distinct(self, field: Any = None) -> Selection:
        """The different documents, or the different values of a field (or expression), in order."""
        return self._then(Distinct(None if field is None else field_or_expression(field)))

    def group(self, field: Any) -> Selection:
        """Groups by a field (or expression); with a following aggregate, one value a group."""
        return self._then(Group(field_or_expression(field)))

    def count(self) -> Selection:
        """How many documents: a number."""
        return self._aggregate("count", None)

    def sum(self, field: Any = None) -> Selection:
        """The sum of a field over the documents that have it; 0 for none."""
        return self._aggregate("sum", field)

    def avg(self, field: Any = None) -> Selection:
        """The mean of a field over the documents that have it; None for none."""
        return self._aggregate("avg", field)

    def min(self, field: Any = None, *, index: str | None = None) -> Selection:
        """The document with the least value of a field, or the first of an index; None for none."""
        return self._aggregate("min", field, index)

    def max(self, field: Any = None, *, index: str | None = None) -> Selection:
        """The document with the greatest value of a field, or the last of an index; None for none."""
        return self._aggregate("max", field, index)

    def _aggregate(self, kind: Aggregation, field: Any, index: str | None = None) -> Selection:
        if field is not None and index is not None:
            raise UsageError(f"{kind} takes a field or an index, not both")
        check_index(index)
        return self._then(Aggregate(kind, None if field is None else field_or_expression(field), index))

    # -----------------------------------------------------------------------------------------------------------
    # Reading and watching

    def run(self) -> Any:
        """Read it: a document or None for `get`, a value for an aggregate, otherwise a list. You may change the
        result.

        Raises:
            TableNotFound, IndexNotFound, QueryError: The query cannot be executed.
        """
        session = self._session
        result = session.run(self._query)
        session.hints.look(self._query, session.read, found_nothing=not result)
        return result

    def __iter__(self) -> Iterator[Any]:
        """The documents, of one state: a long loop does not see later writes."""
        result = self.run()
        if not isinstance(result, list):
            raise UsageError(
                f"this selection is one {'document' if self._query.is_point else 'value'}, not a sequence: use run()"
            )
        return iter(result)

    def _watch(self, options: Mapping[str, Any]) -> Feed:
        self._session.hints.look(self._query, self._session.read, found_nothing=True)
        return self._session.watch(self._query, options)

    def live(
        self,
        *,
        scheduler: SchedulerBase | None = None,
        skip_origin: str | None = None,
        wait: bool = True,
    ) -> LiveList | LiveValue:
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

        self._session.hints.look(self._query, self._session.read, found_nothing=True)
        kind = LiveValue if is_single(self._query) else LiveList
        return kind(self, scheduler=scheduler, skip_origin=skip_origin, wait=wait)

    def explain(self) -> dict[str, Any]:
        """How this selection is read: `access` in words, the `index` if used, and the parts that run in Python.

        `hints` are sentences about probable mistakes, such as a comparison of a time with a text. `write_wait_s`: how
        many seconds a write through this handle waits for others at most, before DatabaseBusy; None for a read-only
        handle.
        """
        with self._session.read() as snapshot:
            path = access(self._query, find_table(self._query.table, snapshot))
            texts = [hint.text for hint in hints(self._query, snapshot)]
        return {
            "table": self._query.table,
            "access": path.reason,
            "index": None if path.index is None else path.index.name,
            "steps": [type(step).__name__.lower() for step in path.rest],
            "callables": self._query.callables(),
            "hints": texts,
            "write_wait_s": self._session.write_wait_s,
        }

    # -----------------------------------------------------------------------------------------------------------
    # Writing

    def update(
        self, patch: Any, *, durability: str | None = None, return_changes: bool | str = False
    ) -> dict[str, Any]:
        """Merge a patch into every selected document, at once and as one commit.

        Args:
            patch: A dict (which may hold expressions: `{"score": row["score"] + 1}`), an expression, or a callable
                that takes the document and returns the dict. `literal(x)` replaces instead of merging.
            durability: "hard" or "soft" for this write; default: the database's.
            return_changes: True for the changes as `changes`, "always" for the unchanged too.

        Returns:
            ReQL's counters: `replaced`, `unchanged`, `skipped` (a `get` of nothing), ...

        Raises:
            InvalidDocument, InvalidKey, QueryError: Nothing was written then.
        """
        runs_user_code = is_user_code(patch)
        selected = self._selected
        given = check_patch(patch, is_for_one=isinstance(selected, bytes) or selected.is_point)
        return self._write(
            "update",
            lambda write: update(write, selected, given, runs_user_code),
            durability,
            return_changes,
            runs_user_code,
        )

    def replace(
        self, document: Any, *, durability: str | None = None, return_changes: bool | str = False
    ) -> dict[str, Any]:
        """Replace every selected document by another one; None deletes. `get(key).replace(doc)` may insert.

        Args and errors as for `update`; `document` may be a dict, an expression or a callable.
        """
        new = compile_function(document)
        return self._write(
            "replace",
            lambda write: replace(write, self._selected, new),
            durability,
            return_changes,
            is_user_code(document),
        )

    def delete(self, *, durability: str | None = None, return_changes: bool | str = False) -> dict[str, Any]:
        """Delete every selected document."""
        return self._write("delete", lambda write: delete(write, self._selected), durability, return_changes)

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
            if isinstance(step, (Filter, HasFields)) and step.predicate.expression is None:
                runs_user_code = True
        if not query.is_point:
            # Before the write, because after it the documents may be gone or changed. The result is not known yet.
            self._session.hints.look(query, self._session.read, found_nothing=True)
        if return_changes is not False:
            check_return_changes(return_changes)
        return self._session.write(
            query.table,
            work,
            return_changes=return_changes,
            durability=durability,
            is_shareable=query.is_point and not runs_user_code,
            operation=operation,
        )


class PointSelection(Selection):
    """One document, by primary key; it may be missing."""

    __slots__ = ("_key", "_selected", "_table")

    # Its key, and so it is found without a query.
    _selected: bytes

    def __init__(self, session: Session, table: str, key: Any, key_bytes: bytes) -> None:
        self._session = session
        self._table = table
        self._key = key
        self._selected = key_bytes

    def __getattr__(self, name: str) -> Any:
        # Making a Query takes as long as this read itself: it is made when it is needed.
        if name != "_query":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._query = query = Query(self._table, (Get(self._key, self._selected),))
        return query

    def run(self) -> Any:
        """Read it: the document, or None. It is yours to change.

        Raises:
            TableNotFound.
        """
        body = self._session.get(self._table, self._selected)
        return None if body is None else codec.decode(body)

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
        return self._session.write(
            self._table,
            work,
            return_changes=return_changes,
            durability=durability,
            is_shareable=not runs_user_code,
            operation=operation,
        )

    def history(self) -> list[Change]:
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


class Table(Selection):
    """A table: the selection of all its documents, and the operations on a table."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return self._query.table

    def __repr__(self) -> str:
        return f"<Table {self.name!r}>"

    @property
    def primary_key(self) -> str:
        """The name of the field that is the key."""
        with self._session.read() as snapshot:
            return find_table(self.name, snapshot).primary_key

    def get(self, key: Any) -> PointSelection:
        """The document with this primary key. 1 and 1.0 are one key.

        Raises:
            InvalidKey: The value cannot be a key; MissingValue for None.
        """
        data = collation.primary_key_bytes(key) if type(key) in PLAIN_KEYS else key_of(key)
        return PointSelection(self._session, self._query.table, key, data)

    def get_all(self, *keys: Any, index: str | None = None) -> Selection:
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
        conflict: Conflict = "error",
        durability: str | None = None,
        return_changes: bool | str = False,
    ) -> dict[str, Any]:
        """Add a document, or an iterable of them, at once and as one commit.

        Args:
            documents: A dict, or dicts. A document without a primary key gets a UUID string that sorts by time.
            conflict: Where the key is taken: "error" raises, "replace" puts the new document in its place, "update" merges
                it in, and a callable gets (key, old, new) and gives the document to store, or None to delete.
            durability, return_changes: As for `update`.

        Returns:
            ReQL's counters, and `generated_keys` where keys were generated.

        Raises:
            DuplicateKey, InvalidDocument, InvalidKey: Nothing was written then, not even the documents before it.
        """
        if (
            (type(conflict) is not str or conflict != "error")
            and not callable(conflict)
            and not is_one_of(conflict, ("error", "replace", "update"))
        ):
            raise InvalidOption(
                f'Conflict option `{format_word(conflict)}` unrecognized (options are "error", "replace" and "update").'
            )
        given = [documents] if type(documents) is dict or isinstance(documents, Mapping) else documents
        if type(given) is not list and (isinstance(given, (str, bytes)) or not hasattr(given, "__iter__")):
            raise QueryError(f"insert takes a dict, or an iterable of dicts, not {type(documents).__name__}")
        if return_changes is not False:
            check_return_changes(return_changes)
        name = self._query.table
        prepared = prepare(given, self._session.info(name).primary_key)
        return self._session.write(
            name,
            partial(insert, documents=prepared, conflict=conflict),
            return_changes=return_changes,
            durability=durability,
            is_shareable=not callable(conflict),
            operation="insert",
        )

    # -----------------------------------------------------------------------------------------------------------
    # Indexes

    def index_create(self, name: str, expression: Any = None, multi: bool = False) -> dict[str, int]:
        """Make an index and fill it, as one commit.

        Args:
            name: Letters, digits, `_`, `.` and `-`; not the primary key's name.
            expression: The indexed value: an expression, or a function that builds one from its argument (`lambda d:
                d["a"]`); a list of them makes a compound index. Default: the field called `name`.
            multi: The value is a list, and the document is found under each of its elements.

        Raises:
            IndexExists, InvalidName, QueryError.
        """
        check_name("Index", name)
        if not isinstance(multi, bool):
            raise InvalidOption(f"multi is True or False, not {format_value(multi)}")
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
            transaction.create_index(table, name, data, multi)

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
            Dicts with `index`, `ready`, `multi` and `outdated`.
        """
        with self._session.read() as snapshot:
            table = find_table(self.name, snapshot)
        for name in names:
            check_text("Index", name)
            if name not in table.indexes:
                raise IndexNotFound(name, self.name)
        return [
            {"index": name, "ready": True, "multi": table.indexes[name].multi, "outdated": False}
            for name in sorted(names or table.indexes)
        ]


def query_of(selection: Selection) -> Query:
    """A selection's query, as a value: for code above selections, such as durable consumers."""
    return selection._query


def comparison_error(sign: str) -> NotAValue:
    return NotAValue(
        f"a selection is a query and no result: compare the result of run(), as in `selection.run() {sign} ...`"
    )


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


def field_or_expression(field: Any) -> Expression:
    if isinstance(field, str):
        return row[field]
    return field if isinstance(field, Expression) else expr(field(row) if callable(field) else field)


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
