"""Tables with a type: what `db.table("todos", type=Todo)` returns, and the selections of it.

    TypedTable, TypedSelection, TypedPoint    as their base classes in `reactdb/table.py`; documents are objects of the type
    ObjectReader                            makes objects of documents, for one table and one type
    TypedPolicy                               checks the documents that are stored

A selection has a type as long as its results are whole documents. After `map`, `pluck`, `group` and similar steps it is an
ordinary selection. Predicates, indexes and orders always name stored fields.

Rule of this file: nothing here is used by tables without a type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Never

from reactdb.change import UPDATE, Change
from reactdb.document_types import DocumentType, TypeMisfit, document_type, merge_known
from reactdb.documents.read import FollowedQuery, evaluate
from reactdb.documents.write import SKIPPED, OnConflict, Policy, Write, encode_checked, select_documents
from reactdb.errors import InvalidOption, TypeMismatch, format_word, is_one_of
from reactdb.expression import as_predicate
from reactdb.identifiers import new_key
from reactdb.logs import logger
from reactdb.query import (
    Aggregate,
    Between,
    Distinct,
    Filter,
    Get,
    GetAll,
    HasFields,
    Limit,
    Nth,
    OrderBy,
    Query,
    Sample,
    Skip,
    Step,
    Union,
)
from reactdb.session import Session
from reactdb.store.catalogue import TableInfo
from reactdb.table import (
    PointSelection,
    Selection,
    Table,
    check_before,
    connection_error,
    key_of,
    query_of,
    with_rows,
)
from reactdb.values import codec

if TYPE_CHECKING:
    from reactdb.feeds.feed import Feed
    from reactdb.feeds.livelist import Watcher
    from reactdb.feeds.rerun import Rerun

KEEP_DOCUMENTS: Final = (Get, GetAll, Between, Filter, HasFields, OrderBy, Limit, Skip, Nth, Sample)
"""Steps whose results are whole documents. (So are `min`, `max`, `distinct` without a field, and a union: see `_then`.)"""

ON_INVALID: Final = ("raise", "skip")

TOGETHER: Final = 100
"""Documents that are converted with one call."""


def typed_table(session: Session, query: Query, kind: Any, on_invalid: str) -> TypedTable:
    """The table of a query without steps, with a type.

    Raises:
        InvalidOption, MissingExtra: As `Database.table`.
    """
    if not is_one_of(on_invalid, ON_INVALID):
        raise InvalidOption(f'on_invalid is "raise" or "skip", not {format_word(on_invalid)}')
    if kind is None:
        raise InvalidOption("on_invalid needs a type: db.table(name, type=Todo, on_invalid=...)")
    reader = ObjectReader(session, query.table, document_type(kind), skips=on_invalid == "skip")
    table = TypedTable(session, query)
    table._reader = reader
    return table


class ObjectReader:
    """See the head of this file.

    Attributes:
        type: The type.
        skips: Documents that do not fit are left out of results. Otherwise they raise TypeMismatch.
        policy: The rules for writes through the table.
    """

    __slots__ = ("_checks", "_is_logged", "_session", "policy", "skips", "table", "type")

    def __init__(self, session: Session, table: str, kind: DocumentType, *, skips: bool) -> None:
        self._session = session
        self.table = table
        self.type = kind
        self.skips = skips
        self.policy = TypedPolicy(kind)
        self._checks: dict[str, Filter] = {}
        self._is_logged = False

    def read(self, document: Mapping[str, Any]) -> Any:
        """The object of a stored document.

        Raises:
            TypeMismatch.
        """
        try:
            return self.type.read(document)
        except TypeMisfit as misfit:
            raise self._mismatch(misfit, document) from misfit.__cause__

    def read_many(self, documents: list[dict[str, Any]]) -> list[Any]:
        try:
            return self.type.read_many(documents)
        except TypeMisfit:
            # To know which of them it is.
            return [self.read(document) for document in documents]

    def read_or_error(self, document: dict[str, Any]) -> Any:
        """The object of a stored document, or the error."""
        try:
            return self.read(document)
        except TypeMismatch as error:
            return error

    def read_or_log(self, document: dict[str, Any]) -> Any:
        """The object of a document of an event; None, with a message in the log, for one that does not fit."""
        value = self.read_or_error(document)
        if isinstance(value, TypeMismatch):
            self._log(value)
            return None
        return value

    def read_result(self, result: Any) -> Any:
        """The result of a query with objects for documents."""
        if isinstance(result, list):
            return self.read_many(result)
        if isinstance(result, Iterator):
            # In small parts, because the garbage collector walks through all dicts that are alive: in one part, it takes as long
            # as the conversion.
            objects: list[Any] = []
            while part := list(islice(result, TOGETHER)):
                objects += self.read_many(part)
            return objects
        if result is None:
            return None
        if self.skips:
            value = self.read_or_error(result)
            return None if isinstance(value, TypeMismatch) else value
        return self.read(result)

    def read_changes(self, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer of a write with objects in `changes`. A document that does not fit stays a dict: the write is done."""
        for change in answer.get("changes", ()):
            for name in ("old_val", "new_val"):
                if change[name] is not None:
                    value = self.read_or_error(change[name])
                    change[name] = change[name] if isinstance(value, TypeMismatch) else value
        return answer

    def write(self, value: Any, primary_key: str, *, is_merged: bool = False) -> dict[str, Any]:
        """The document of an object of the type, or of a dict, as it is to be stored.

        Args:
            is_merged: It may be merged into a stored one, where a default would take the place of a value.

        Raises:
            TypeMismatch: It does not fit.
        """
        kind = self.type
        try:
            if kind.is_object(value):
                document = kind.write(value)
                # Most types do not check their objects.
                kind.read(document)
                if document.get(primary_key) is None:
                    # A key is made for it.
                    document.pop(primary_key, None)
                return document
            if not isinstance(value, Mapping):
                raise TypeMisfit(f"expected {kind.name}, found {type(value).__name__}")
            try:
                document = kind.complete(value)
            except TypeMisfit as misfit:
                if is_merged and primary_key in value:
                    # A part of a document. The policy checks what is made of it.
                    return dict(value)
                if primary_key in value:
                    raise
                try:
                    # The type may demand a key, and one is made.
                    document = kind.complete({primary_key: new_key(), **value})
                except TypeMisfit:
                    raise misfit from None
                del document[primary_key]
            if primary_key not in value and document.get(primary_key) is None:
                document.pop(primary_key, None)
            if is_merged and document.keys() >= value.keys():
                return {name: document[name] for name in value}
            return document
        except TypeMisfit as misfit:
            raise TypeMismatch(self.table, misfit.reason, misfit.path) from misfit.__cause__

    def check(self, on_misfit: str) -> Filter:
        """The step of a query that leaves out documents that do not fit. The same object each time: equal feeds share a view.

        Args:
            on_misfit: "skip" says nothing, "log" logs the first document that is left out, "raise" raises TypeMismatch.
        """
        check = self._checks.get(on_misfit)
        if check is None:

            def fits(document: dict[str, Any]) -> bool:
                try:
                    self.type.read(document)
                except TypeMisfit as misfit:
                    if on_misfit == "raise":
                        raise self._mismatch(misfit, document) from misfit.__cause__
                    if on_misfit == "log":
                        self._log(self._mismatch(misfit, document))
                    return False
                return True

            # Its name in `explain()`.
            fits.__qualname__ = f"fits[{self.type.name}]"
            check = self._checks.setdefault(on_misfit, Filter(as_predicate(fits)))
        return check

    def _log(self, error: TypeMismatch) -> None:
        if not self._is_logged:
            self._is_logged = True
            # Imported here because only feeds come here.
            from reactdb.feeds.hub import hub_of

            hub_of(self._session.engine).log_when_unlocked(UnfitDocument(error))

    def _mismatch(self, misfit: TypeMisfit, document: Mapping[str, Any]) -> TypeMismatch:
        info = self._session.find_cached(self.table)
        key = None if info is None else document.get(info.primary_key)
        return TypeMismatch(self.table, misfit.reason, misfit.path, key)


class UnfitDocument:
    """One message for the log: the first document that the feeds of a table pass over."""

    __slots__ = ("_error",)

    def __init__(self, error: TypeMismatch) -> None:
        self._error = error

    def run(self) -> None:
        """Log the message. If a user's log handler raises, delivery continues."""
        try:
            logger.warning(
                "feeds of table %r pass over documents that do not fit its type; the first is %s; "
                "changes(on_predicate_error='raise') would end the feed",
                self._error.table,
                self._error,
            )
        except Exception:
            logger.debug("an unfit document could not be logged", exc_info=True)


class TypedPolicy(Policy):
    """A document is stored only if it fits the type."""

    checks_documents = True

    def __init__(self, kind: DocumentType) -> None:
        self._type = kind

    def encode(self, table: TableInfo, key: bytes, old_body: bytes | None, document: Any) -> bytes:
        if self._type.is_object(document):
            document = self._type.write(document)
        if isinstance(document, Mapping):
            try:
                self._type.read(document)
            except TypeMisfit as misfit:
                raise TypeMismatch(table.name, misfit.reason, misfit.path) from misfit.__cause__
        return encode_checked(table, key, old_body, document)


# ---------------------------------------------------------------------------------------------------------------
# The check of documents, as a step of a query


def with_check(query: Query, check: Filter) -> Query:
    """The query with the check after the steps that use an index, and before all others: a limit counts documents that fit."""
    if query.is_point:
        return query
    place = 0
    for step in query.steps:
        if not isinstance(step, (GetAll, Between)) and not (
            isinstance(step, OrderBy) and step.index is not None
        ):
            break
        place += 1
    others = [
        Union(tuple(with_check(other, check) for other in step.others)) if isinstance(step, Union) else step
        for step in query.steps[place:]
    ]
    return Query(query.table, (*query.steps[:place], check, *others))


# ---------------------------------------------------------------------------------------------------------------
# Selections


class Typed(Selection):
    """The common part of the selections below. A subclass has the slot for `_reader`."""

    __slots__ = ()

    _reader: ObjectReader

    @property
    def _policy(self) -> Policy:  # type: ignore[override]
        return self._reader.policy

    def _then(self, step: Step) -> Selection:
        query = self._query.then(step)
        keeps = isinstance(step, KEEP_DOCUMENTS) or (
            (isinstance(step, Aggregate) and step.kind in ("min", "max"))
            or (isinstance(step, Distinct) and step.expression is None)
        )
        return (
            typed_selection(self._session, query, self._reader) if keeps else Selection(self._session, query)
        )

    def union(self, *others: Selection) -> Selection:
        united = Selection.union(self, *others)
        is_typed = all(
            isinstance(other, Typed) and other._reader.type is self._reader.type for other in others
        )
        return typed_selection(self._session, query_of(united), self._reader) if is_typed else united

    def run(self, *connection: Never) -> Any:
        if connection:
            raise connection_error()
        reader = self._reader
        if reader.skips:
            return reader.read_result(
                Selection(self._session, with_check(self._query, reader.check("skip"))).run()
            )
        if reader.type.runs_user_code:
            return reader.read_result(super().run())
        session, query = self._session, self._query
        with session.read() as snapshot:
            result = reader.read_result(evaluate(query, snapshot))
        session.hints.look(query, session.read, session.committed_seq, found_nothing=not result)
        return result

    @property
    def _checked_query(self) -> Query:
        reader = self._reader
        return with_check(self._query, reader.check("skip" if reader.skips else "raise"))

    def one(self) -> Any:
        reader = self._reader
        query = with_check(self._query, reader.check("skip")) if reader.skips else self._query
        return reader.read_result(Selection(self._session, query).one())

    def _watch(self, options: Mapping[str, Any]) -> Feed:
        from reactdb.feeds.typed_feed import TypedFeed

        on_misfit = "raise" if options.get("on_predicate_error") == "raise" else "log"
        query = with_check(self._query, self._reader.check(on_misfit))
        return TypedFeed.of_feed(Selection(self._session, query)._watch(options), self._reader)

    @property
    def _watcher(self) -> Watcher:
        return TypedWatcher(self._session, self._reader)

    def _point(self, key: Any) -> PointSelection:
        point = TypedPoint(self._session, self._query.table, key, key_of(key))
        point._reader = self._reader
        return point

    def update(
        self,
        patch: Any,
        *,
        expect: Any = None,
        durability: str | None = None,
        return_changes: bool | str = False,
    ) -> dict[str, Any]:
        """As `Selection.update`. An object of the type is merged: the fields that the type knows get the values of the object, at
        every depth, and other fields stay."""
        kind = self._reader.type
        if not kind.is_object(patch):
            return super().update(patch, expect=expect, durability=durability, return_changes=return_changes)
        new, unset = kind.write(patch), kind.unset(patch)
        selected = self._selected
        primary_key = self._session.info(self._query.table).primary_key
        if new.get(primary_key) is None:
            new.pop(primary_key, None)

        def save(document: Any) -> Any:
            if document is None:
                return SKIPPED
            try:
                known = kind.write(kind.read(document))
            except TypeMisfit:
                known = {}
            return merge_known(document, {name: known[name] for name in known if name not in unset}, new)

        def work(write: Write) -> None:
            for key, _ in select_documents(write, selected):
                write.change(key, save, UPDATE)

        checked = check_before(work, expect, selected, "update")
        return self._write("update", checked, durability, return_changes)

    def replace(
        self,
        document: Any,
        *,
        expect: Any = None,
        durability: str | None = None,
        return_changes: bool | str = False,
    ) -> dict[str, Any]:
        """As `Selection.replace`. An object of the type may be given: fields that the type does not know are dropped."""
        if self._reader.type.is_object(document):
            document = self._reader.type.write(document)
        return super().replace(document, expect=expect, durability=durability, return_changes=return_changes)

    def _write(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        return self._reader.read_changes(super()._write(*arguments, **options))


class TypedWatcher:
    """Follows queries of a typed table, for live results: documents are objects. Documents that do not fit are left out and
    logged."""

    def __init__(self, session: Session, reader: ObjectReader) -> None:
        self._session = session
        self._reader = reader

    def watch(self, query: Query, options: Mapping[str, Any]) -> Feed:
        from reactdb.feeds.typed_feed import TypedFeed

        checked = with_check(query, self._reader.check("log"))
        return TypedFeed.of_feed(self._session.watch(checked, options), self._reader)

    def rerun_query(self, query: Query) -> Rerun:
        reader = self._reader
        followed = FollowedQuery(with_check(query, reader.check("log")))
        return self._session.rerun(lambda snapshot: reader.read_result(followed.evaluate(snapshot)), query)


class TypedSelection(Typed):
    """A selection whose documents are objects of a type."""

    __slots__ = ("_reader",)


def typed_selection(session: Session, query: Query, reader: ObjectReader) -> TypedSelection:
    selection = TypedSelection(session, query)
    selection._reader = reader
    return selection


class TypedPoint(Typed, PointSelection):
    """One document, as an object of a type."""

    __slots__ = ("_reader",)

    def run(self, *connection: Never) -> Any:
        if connection:
            raise connection_error()
        body = self._session.get(self._table, self._selected)
        if body is None:
            return None
        reader = self._reader
        try:
            return reader.type.read_bytes(body)
        except TypeMisfit:
            return reader.read_result(codec.decode(body))

    def history(self) -> list[Change]:
        return [TypedChange(change, self._reader) for change in PointSelection.history(self)]


class TypedTable(Typed, Table):
    """A table whose documents are objects of a type."""

    __slots__ = ("_reader",)

    def __repr__(self) -> str:
        return f"<Table {self.name!r} of {self._reader.type.name}>"

    def get(self, key: Any) -> PointSelection:
        return self._point(key)

    def insert(
        self,
        documents: Any,
        *,
        conflict: OnConflict = "error",
        durability: str | None = None,
        return_changes: bool | str = False,
    ) -> dict[str, Any]:
        """As `Table.insert`: objects of the type, and dicts, which get the defaults of missing fields. Each is checked."""
        reader = self._reader
        primary_key = self._session.info(self.name).primary_key
        given: Iterable[Any]
        documents = with_rows(documents)
        if reader.type.is_object(documents) or isinstance(documents, Mapping):
            given = (documents,)
        elif isinstance(documents, (str, bytes)) or not hasattr(documents, "__iter__"):
            raise TypeMismatch(self.name, f"expected {reader.type.name}, found {type(documents).__name__}")
        else:
            given = documents
        answer = super().insert(
            [reader.write(one, primary_key, is_merged=conflict == "update") for one in given],
            conflict=conflict,
            durability=durability,
            return_changes=return_changes,
        )
        return reader.read_changes(answer)


class TypedChange(Change):
    """An entry of the log with objects of a type in `old_val` and `new_val`. Both raise TypeMismatch for a document that does
    not fit."""

    __slots__ = ("_reader",)

    def __init__(self, change: Change, reader: ObjectReader) -> None:
        for name in Change.__slots__:
            setattr(self, name, getattr(change, name))
        self._reader = reader

    @property
    def old_val(self) -> Any:
        document = super().old_val
        return None if document is None else self._reader.read(document)

    @property
    def new_val(self) -> Any:
        document = super().new_val
        return None if document is None else self._reader.read(document)
