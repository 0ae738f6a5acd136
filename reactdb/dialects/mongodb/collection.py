"""Documents of one collection, read and written: the work of the commands, without the wire.

    work = CollectionWork(spaces, MongoNamespace("shop", "orders"))
    work.insert([{...}])                    {"n": 1}
    work.update([{"q": {}, "u": {"$set": {"a": 1}}, "multi": True}])
    work.find({"filter": {"a": 1}})         an iterator of documents

Arguments have the form of drivers' commands, and results the form of replies without `ok`. Documents are BSON documents, and are
not changed.

Rule of this file: a command is one commit, or a part of the given transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from reactdb.budget import WorkStopped, bind_budget
from reactdb.dialects.mongodb.bson_order import MISSING, is_text, sort_key, type_name
from reactdb.dialects.mongodb.clock import refuse_cluster_time
from reactdb.dialects.mongodb.collation import text_key
from reactdb.dialects.mongodb.counts import count_matches
from reactdb.dialects.mongodb.entries import body_of, document_of, plain_body_of
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.find import FilterSelection, Scan, cut, projection_of, select
from reactdb.dialects.mongodb.hint import HintedIndex, IndexWalk, check_bounds, goes_backwards, hinted
from reactdb.dialects.mongodb.index_walk import MOST_WALKED, walk_of
from reactdb.dialects.mongodb.indexes import create, drop, indexes_of, list_of_table, modify
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import RULES, VIEW_KEY, Namespaces
from reactdb.dialects.mongodb.natural import keep_places, needs_places, places_of
from reactdb.dialects.mongodb.numeric import INT64_MAX, INT64_MIN, is_number, truncate, whole
from reactdb.dialects.mongodb.paths import ends, split
from reactdb.dialects.mongodb.retries import RetryableWrite
from reactdb.dialects.mongodb.sort import Order
from reactdb.dialects.mongodb.transactions import BufferedWrites, Transaction
from reactdb.dialects.mongodb.values import MAX_BSON_BYTES, encode, is_document
from reactdb.dialects.mongodb.variables import values_of
from reactdb.dialects.mongodb.write_statements import Delete, DocumentWriter, Modify, UpdateStatement, with_id
from reactdb.errors import ReadOnlyDatabase, TableNotFound
from reactdb.store.catalogue import TableInfo
from reactdb.store.transaction import KeyTaken, WriteTransaction

__all__ = ["CollectionWork", "count_of"]

T = TypeVar("T")
Document = dict[str, Any]

_UPDATE_FIELDS: Final = frozenset(
    [
        "q",
        "u",
        "c",
        "multi",
        "upsert",
        "upsertSupplied",
        "collation",
        "arrayFilters",
        "hint",
        "sort",
        "sampleId",
        "allowShardKeyUpdatesWithoutFullShardKeyInQuery",
    ]
)
_DELETE_FIELDS: Final = frozenset(["q", "limit", "collation", "hint", "sampleId"])


class CollectionWork:
    """See the head of this file. Any thread, except with a transaction.

    Attributes:
        transaction: The transaction of the commands; None: each command is its own commit.
    """

    def __init__(
        self,
        spaces: Namespaces,
        namespace: MongoNamespace,
        transaction: Transaction | None = None,
        *,
        bypasses: bool = False,
        keeps_empty: bool = False,
        retry: RetryableWrite | None = None,
    ) -> None:
        """
        Args:
            bypasses: Writes are not validated.
            keeps_empty: An empty timestamp in a field is stored as it is, without the current time.
            retry: A retryable write of a driver, whose result is kept for a repeat.

        Raises:
            MongoError: 73, the name is invalid.
        """
        self.spaces = spaces
        self.namespace = namespace
        self.transaction = transaction
        self._bypasses = bypasses
        self._keeps_empty = keeps_empty
        self._retry = retry
        self._name = spaces.names.table(namespace)

    def collation(self, given: Any) -> Any:
        """The collation of a command, or else of the collection; None: text is compared by code points.

        Raises:
            MongoError: As `text_key`, also if no text is compared.
        """
        if given:
            text_key(given)
        if given or self.transaction is None:
            return self.spaces.collation(self.namespace, given)
        return self.transaction.collation(self.namespace)

    # -----------------------------------------------------------------------------------------------------------
    # Execution

    def _write(self, work: Callable[[WriteTransaction | BufferedWrites], Document]) -> Document:
        """Run a command in the transaction, or as its own commit. `work`: returns its reply."""
        if self.transaction is not None:
            with self.transaction.statement(self.namespace) as target:
                return work(target)
        if self._retry is not None:
            work = remember_reply(self._retry, work)
        try:
            return self.spaces.session.transact(bind_budget(work), is_shareable=True)
        except WorkStopped as failed:
            raise failed.stopped from None
        except ReadOnlyDatabase as error:
            raise MongoError(13, str(error)) from None

    def _table(self, target: WriteTransaction | BufferedWrites) -> TableInfo | None:
        table = (
            target.catalogue.live.get(self._name)
            if isinstance(target, WriteTransaction)
            else target.table(self.namespace)
        )
        return None if table is None else self._no_view(table)

    def _ensure_table(self, target: WriteTransaction | BufferedWrites) -> TableInfo:
        """The table. It is created if it is missing."""
        if isinstance(target, WriteTransaction):
            return self._no_view(self.spaces.within(target, self.namespace))
        return self._no_view(target.within(self.namespace))

    def _writer(self, target: WriteTransaction | BufferedWrites, table: TableInfo) -> DocumentWriter:
        return DocumentWriter(target, table, self.namespace, bypasses=self._bypasses)

    def _no_view(self, table: TableInfo) -> TableInfo:
        if table.primary_key == VIEW_KEY and self.spaces.view(self.namespace) is not None:
            raise MongoError(166, f"Namespace {self.namespace} is a view, not a collection")
        return table

    def _finish(self, answer: Document, errors: list[Document]) -> Document:
        """A reply with its errors. Errors end a transaction."""
        if errors:
            answer["writeErrors"] = errors
            if self.transaction is not None:
                self.transaction.abort()
        return answer

    # -----------------------------------------------------------------------------------------------------------
    # insert

    def insert(
        self,
        documents: Sequence[Any],
        *,
        ordered: bool = True,
        shape: Callable[[Any], Document] | None = None,
    ) -> Document:
        """Insert documents; a document without `_id` gets an ObjectId.

        Args:
            shape: Converts a caller's document to BSON. None: the documents are BSON already.

        Returns:
            `n`, and `writeErrors` if there are errors.
        """
        table = self.spaces.session.find(self._name) or _UNMADE
        prepared = [self._prepare(table, document, shape) for document in documents]
        if self.transaction is None and not _has_conditions(table):
            for _, stored in prepared:
                if type(stored) is not tuple:
                    break
            else:
                try:
                    return self._write(partial(self._insert_free, table, prepared))
                except KeyTaken:
                    # Everything was rolled back, so insert them one by one.
                    pass

        def one_by_one(target: WriteTransaction | BufferedWrites) -> Document:
            errors: list[Document] = []
            writer = self._writer(target, self._ensure_table(target))
            inserted = 0
            for place, (document, stored) in enumerate(prepared):
                try:
                    if isinstance(stored, MongoError):
                        raise stored
                    writer.insert(stored, document)
                    inserted += 1
                except MongoError as error:
                    self._check_fatal(error)
                    errors.append(_write_error(place, error))
                    if ordered or self.transaction is not None:
                        break
            return self._finish({"n": inserted}, errors)

        return self._write(one_by_one)

    def _prepare(self, table: TableInfo, document: Any, shape: Callable[[Any], Document] | None) -> _Prepared:
        try:
            stored = plain_body_of(table, document)
            if stored is None:
                document = with_id(document if shape is None else shape(document))
                if not self._keeps_empty:
                    document = self.spaces.clock.fill_timestamps(document)
                stored = body_of(table, document)
        except MongoError as error:
            return document, error
        return document, stored

    def _insert_free(
        self, table: TableInfo, prepared: list[_Prepared], target: WriteTransaction | BufferedWrites
    ) -> Document:
        """Insert documents on the fastest path.

        Args:
            table: The table for which they were prepared.

        Raises:
            KeyTaken: One of their keys exists already.
        """
        assert isinstance(target, WriteTransaction)
        if target.catalogue.live.get(self._name) is not table or table.primary_key == VIEW_KEY:
            # It was made, or has changed, meanwhile.
            before, table = table.primary_key, self._ensure_table(target)
            if table.primary_key != before:
                prepared = [self._prepare(table, document, None) for document, _ in prepared]
            if _has_conditions(table):
                raise KeyTaken
        if len(prepared) == 1:
            document, (key, body) = prepared[0]
            has_place = needs_places(target, table, (key,))
            try:
                target.insert(table, key, body)
            except KeyTaken:
                taken = self._writer(target, table).duplicate_id_error(document["_id"])
                return {"n": 0, "writeErrors": [_write_error(0, taken)]}
            if has_place:
                keep_places(target, table, (key,))
        elif prepared:
            keys, bodies = zip(*[stored for _, stored in prepared], strict=True)
            has_places = needs_places(target, table, keys)
            target.insert_many(table, keys, bodies)
            if has_places:
                keep_places(target, table, keys)
        return {"n": len(prepared)}

    # -----------------------------------------------------------------------------------------------------------
    # update, delete, findAndModify

    def update(
        self,
        updates: Sequence[Mapping[str, Any]],
        *,
        ordered: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> Document:
        """Carry out statements of `update`.

        Returns:
            `n`, `nModified`, and if there are any, `upserted` and `writeErrors`.
        """
        values = values_of(variables, self.spaces.clock, *map(_expressions_of_update, updates))
        checked = [self._parse(one, _UPDATE_FIELDS, "update", self._update_of, values) for one in updates]

        def work(target: WriteTransaction | BufferedWrites) -> Document:
            answer: Document = {"n": 0, "nModified": 0}
            errors: list[Document] = []
            upserted: list[Document] = []
            for place, statement in enumerate(checked):
                try:
                    if isinstance(statement, MongoError):
                        raise statement
                    table = self._table(target)
                    if table is None and not statement.is_upsert:
                        continue
                    done = self._writer(target, table or self._ensure_table(target)).update(statement)
                except MongoError as error:
                    self._check_fatal(error)
                    errors.append(_write_error(place, error))
                    if ordered or self.transaction is not None:
                        break
                    continue
                answer["n"] += done.matched
                answer["nModified"] += done.modified
                if done.upserted is not None:
                    answer["n"] += 1
                    upserted.append({"index": place, "_id": done.upserted[0]})
            if upserted:
                answer["upserted"] = upserted
            return self._finish(answer, errors)

        return self._write(work)

    def _parse(
        self,
        given: Any,
        fields: frozenset[str],
        command: str,
        make: Callable[[Mapping[str, Any], Mapping[str, Any] | None, HintedIndex | None], T],
        variables: Mapping[str, Any] | None,
    ) -> T | MongoError:
        """A parsed statement, or its error, for the statement's entry in `writeErrors`.

        Raises:
            MongoError: It is no statement at all.
        """
        if not is_document(given):
            raise MongoError(
                14, f"BSON field '{command}.{command}s' is the wrong type, expected type 'object'"
            )
        for name in given:
            if name not in fields:
                raise MongoError(40415, f"BSON field '{command}.{command}s.{name}' is an unknown field.")
        for name in ("q", "u") if command == "update" else ("q", "limit"):
            if name not in given:
                raise MongoError(
                    40414, f"BSON field '{command}.{command}s.{name}' is missing but a required field"
                )
        try:
            return make(given, variables, self._resolve_hint(given.get("hint")))
        except MongoError as error:
            return error

    def _update_of(
        self, given: Mapping[str, Any], variables: Mapping[str, Any] | None, hint: HintedIndex | None
    ) -> UpdateStatement:
        constants = given.get("c") or {}
        if not is_document(constants):
            raise MongoError(14, "constants of an update have to be a document")
        if constants and not isinstance(given["u"], list):
            raise MongoError(51198, "Constant values may only be specified for pipeline updates")
        return UpdateStatement(
            given["q"],
            self._fill_timestamps(given["u"]),
            multi=bool(given.get("multi")),
            upsert=bool(given.get("upsert")),
            array_filters=given.get("arrayFilters"),
            collation=self.collation(given.get("collation")),
            sort=given.get("sort"),
            variables={**(variables or {}), **constants} or None,
            hint=hint,
            tick=self.spaces.clock.ticks_of(given["u"]),
        )

    def _fill_timestamps(self, update: Any) -> Any:
        """An update. In a replacement the current time takes the place of empty timestamps."""
        is_replacement = is_document(update) and not next(iter(update), "").startswith("$")
        return (
            self.spaces.clock.fill_timestamps(update) if is_replacement and not self._keeps_empty else update
        )

    @staticmethod
    def _check_fatal(error: MongoError) -> None:
        """Raise an error that concerns the whole transaction, because it is not a statement's own error."""
        if error.labels:
            raise error

    def delete(
        self,
        deletes: Sequence[Mapping[str, Any]],
        *,
        ordered: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> Document:
        """Carry out statements of `delete`.

        Returns:
            `n`, and `writeErrors` if there are any.
        """
        values = values_of(variables, self.spaces.clock, deletes)
        checked = [self._parse(one, _DELETE_FIELDS, "delete", self._delete_of, values) for one in deletes]

        def work(target: WriteTransaction | BufferedWrites) -> Document:
            errors: list[Document] = []
            deleted = 0
            for place, statement in enumerate(checked):
                try:
                    if isinstance(statement, MongoError):
                        raise statement
                    table = self._table(target)
                    if table is not None:
                        deleted += self._writer(target, table).delete(statement)
                except MongoError as error:
                    self._check_fatal(error)
                    errors.append(_write_error(place, error))
                    if ordered or self.transaction is not None:
                        break
            return self._finish({"n": deleted}, errors)

        return self._write(work)

    def _delete_of(
        self, given: Mapping[str, Any], variables: Mapping[str, Any] | None, hint: HintedIndex | None
    ) -> Delete:
        limit = given["limit"]
        if isinstance(limit, bool) or limit not in (0, 1):
            raise MongoError(9, f"The limit field in delete objects must be 0 or 1. Got {limit}")
        return Delete(
            given["q"],
            is_multi=limit == 0,
            collation=self.collation(given.get("collation")),
            variables=variables,
            hint=hint,
        )

    def find_and_modify(self, command: Mapping[str, Any]) -> Document:
        """Carry out a findAndModify.

        Args:
            command: `query`, `update`, `remove`, `new`, `upsert`, `sort`, `fields`, `arrayFilters`, `collation`, `let`, `hint`.

        Returns:
            `value`, `lastErrorObject`.

        Raises:
            MongoError: The command is invalid, or fails.
        """
        modify = Modify(
            command.get("query"),
            update=self._fill_timestamps(command.get("update")),
            remove=bool(command.get("remove")),
            new=bool(command.get("new")),
            upsert=bool(command.get("upsert")),
            sort=command.get("sort"),
            fields=command.get("fields"),
            array_filters=command.get("arrayFilters"),
            collation=self.collation(command.get("collation")),
            variables=values_of(command.get("let"), self.spaces.clock, _expressions_of_update(command)),
            hint=self._resolve_hint(command.get("hint")),
            tick=self.spaces.clock.ticks_of(command.get("update")),
        )

        def work(target: WriteTransaction | BufferedWrites) -> Document:
            table = self._table(target)
            if table is None:
                if modify.statement is None:
                    return {"lastErrorObject": {"n": 0}, "value": None}
                if not modify.statement.is_upsert:
                    return {"lastErrorObject": {"n": 0, "updatedExisting": False}, "value": None}
                table = self._ensure_table(target)
            return self._writer(target, table).find_and_modify(modify)

        return self._write(work)

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def find(self, command: Mapping[str, Any]) -> Iterator[Document]:
        """The results of a find, one after the other.

        Args:
            command: `filter`, `sort`, `skip`, `limit`, `projection`, `collation`, `let`, `hint`, `min`, `max`, `returnKey`.

        Raises:
            MongoError: The command is invalid. It is raised before the first document.
        """
        if command.get("showRecordId"):
            raise MongoError(
                238, "find with showRecordId is not supported: documents have no numbers but their _id"
            )
        expressions = command.get("filter"), command.get("projection")
        variables = values_of(command.get("let"), self.spaces.clock, expressions)
        collation = self.collation(command.get("collation"))
        skip, limit = count_of("skip", command.get("skip")) or 0, count_of("limit", command.get("limit")) or 0
        given = command.get("filter") or {}
        selection = FilterSelection(given, variables=variables, collation=collation)
        order = command.get("sort") or {}
        natural = goes_backwards(order, command.get("hint"))
        sort = Order(order, text_key(collation)) if order and natural is None else None
        fields = command.get("projection")
        shape = projection_of(fields, variables, text_key(collation)) if fields else None
        walk = self._walk(command)
        first = None
        if limit and natural is None and walk is None:
            first = self._first(selection, sort, skip, limit)
        is_in_order = first is not None or (walk is None and sort is None and not natural)
        if first is not None:
            documents = iter(first)
        else:
            documents = self.matching(selection, command.get("hint"), skip=skip if is_in_order else 0)
        if walk is not None:
            documents = walk.documents(documents)
        if is_in_order:
            skip = 0
        elif sort is not None:
            documents = iter(sort.first(documents, skip + limit) if limit else sort.sorted(documents))
        elif natural and not command.get("hint"):
            documents = reversed(list(documents))
        if skip or limit:
            documents = cut(documents, skip, limit)
        if command.get("returnKey"):
            return ({} if walk is None else walk.key_of(document) for document in documents)
        if shape is not None:
            matched = selection.filter if shape.is_positional else None
            return (shape.apply(document, matched_filter=matched) for document in documents)
        return documents

    def _first(
        self, selection: FilterSelection, order: Order | None, skip: int, limit: int
    ) -> list[Document] | None:
        """The first matching documents after some, in a sort order or any order, along an index or in natural order; None if
        neither finds them without reading the others."""
        if self.transaction is not None or selection.key is not None or limit > MOST_WALKED:
            return None
        count = skip + limit
        with self.spaces.session.read() as now:
            table = now.table(self._name)
            if table is None:
                return None
            way = walk_of(now.catalogue, table, selection, order)
            if way is not None:
                found = way.after(now, table, skip, limit)
                if found is None and count <= MOST_WALKED:
                    found = way.first(now, table, selection.filter.matches, count)
                    return None if found is None else found[skip:]
                return found
            if order is not None or count > MOST_WALKED or places_of(now.catalogue, table) is None:
                return None
            rows = select(now, table, indexes_of(table), selection)
            return [document for _, document in islice(rows, skip, count)]

    def _walk(self, command: Mapping[str, Any]) -> IndexWalk | None:
        """The walk along the index of a find's `hint`."""
        hint = command.get("hint")
        if not hint and hint != "" and "min" not in command and "max" not in command:
            return None
        check_bounds(command)
        index = self._resolve_hint(hint)
        return None if index is None else IndexWalk(index, command)

    def matching(
        self, selection: FilterSelection, hint: Any = None, *, field: str | None = None, skip: int = 0
    ) -> Iterator[Document]:
        """The matching documents, in the order of `select`; with a hint, only the documents in that index.

        Args:
            field, skip: See `Scan.documents`.
        """
        index = self._resolve_hint(hint)
        if index is None or index.stored is None:
            return self._matching(selection, field, hint, skip)
        # Whether it has a document may be a matter of other fields.
        return cut(filter(index.holds, self._matching(selection, None, hint, 0)), skip, 0)

    def along(self, selection: FilterSelection, hint: Any, skip: int = 0) -> Iterator[Document]:
        """The same in the order of the hinted index, if there is a hint."""
        walk = self._walk({"hint": hint})
        if walk is None:
            return self.matching(selection, hint, skip=skip)
        return cut(walk.documents(self.matching(selection, hint)), skip, 0)

    def _matching(
        self, selection: FilterSelection, field: str | None, hint: Any, skip: int
    ) -> Iterator[Document]:
        if self.transaction is not None:
            with self.transaction.statement(self.namespace) as target:
                own = target.table(self.namespace)
                if own is None:
                    return iter(())
                if own.primary_key == VIEW_KEY and (viewed := self.of_view(selection, hint)) is not None:
                    return cut(viewed, skip, 0)
                rows = select(target.snapshot(), own, indexes_of(own), selection)
                return cut([document for _, document in rows], skip, 0)
        table = self.spaces.table(self.namespace)
        if table is None:
            return iter(())
        if table.primary_key == VIEW_KEY and (viewed := self.of_view(selection, hint)) is not None:
            return cut(viewed, skip, 0)
        if selection.key is not None:
            return cut(self._by_key(table, selection.key), skip, 0)
        indexes = indexes_of(table) if table.indexes else ()
        return Scan(self.spaces.session, table).documents(selection, indexes, field=field, skip=skip)

    def of_view(self, selection: FilterSelection, hint: Any) -> Iterator[Document] | None:
        """The matching documents of a view; None if the namespace is no view. This class reads no views: `views` does.

        Args:
            hint: A hint for the collection below the view.
        """
        return None

    def _by_key(self, table: TableInfo, key: bytes) -> Iterator[Document]:
        """The document of a key, by the shortest way."""
        try:
            body = self.spaces.session.get(table.reference, key)
        except TableNotFound:
            return iter(())
        return iter(() if body is None else (document_of(table, body),))

    def _resolve_hint(self, hint: Any) -> HintedIndex | None:
        """The same; None without a hint, for a view, and without a collection."""
        if not hint and hint != "":
            return None
        table = self.spaces.table(self.namespace)
        return None if table is None or table.primary_key == VIEW_KEY else self.resolve_hint(hint)

    def resolve_hint(self, hint: Any) -> HintedIndex:
        """The index of a hint. Raises: MongoError: 2, there is no such index."""
        table = self.spaces.table(self.namespace)
        return hinted(list_of_table(()) if table is None else self._indexes(table), table, hint)

    def count(self, command: Mapping[str, Any]) -> int:
        """The number of matching documents. `command`: `query`, `skip`, `limit`, `collation`, `hint`."""
        given = command.get("query") or {}
        skip, limit = count_of("skip", command.get("skip")) or 0, _limit_of_count(command.get("limit"))
        collation = self.collation(command.get("collation"))
        variables = values_of(None, self.spaces.clock, given)
        selection = FilterSelection(given, variables=variables, collation=collation)
        count = self.count_matches(selection, command.get("hint"))
        if count is None:
            count = sum(1 for _ in self.matching(selection, command.get("hint")))
        count = max(0, count - skip)
        return min(count, limit) if limit else count

    def count_matches(self, selection: FilterSelection, hint: Any = None) -> int | None:
        """How many documents match, where that is known without reading them; else None."""
        if hint or hint == "" or selection.key is not None:
            return None
        if self.transaction is not None:
            with self.transaction.statement(self.namespace) as target:
                own = target.table(self.namespace)
                if own is None or own.primary_key == VIEW_KEY:
                    return None
                return count_matches(target.snapshot(), own, selection)
        with self.spaces.session.read() as now:
            table = now.table(self._name)
            if table is None or table.primary_key == VIEW_KEY:
                return None
            return count_matches(now, table, selection)

    def distinct(self, command: Mapping[str, Any]) -> list[Any]:
        """The different values of a field, in BSON's order. `command`: `key`, `query`, `collation`, `hint`."""
        given, key = refuse_cluster_time(command.get("query")), command.get("key")
        if key is None:
            raise MongoError(40414, "BSON field 'distinct.key' is missing but a required field")
        if not is_text(key):
            raise MongoError(
                14,
                f"BSON field 'distinct.key' is the wrong type '{type_name(key)}', expected type 'string'",
            )
        if "\0" in key:
            raise MongoError(31032, "Distinct key cannot have a null character")
        collation = self.collation(command.get("collation"))
        selection = FilterSelection({} if given is None else given, collation=collation)
        parts, text = split(key), text_key(collation)
        values: dict[Any, Any] = {}
        for document in self.matching(selection, command.get("hint"), field=parts[0]):
            for end in ends(document, parts):
                for value in end if type(end) is list else (end,):
                    values.setdefault(sort_key(value, text), value)
        values.pop(sort_key(MISSING), None)
        results = [values[one] for one in sorted(values)]
        if len(encode({"values": results})) > MAX_BSON_BYTES:
            raise MongoError(17217, "distinct too big, 16mb cap")
        return results

    # -----------------------------------------------------------------------------------------------------------
    # Indexes

    def create_indexes(self, indexes: Sequence[Mapping[str, Any]]) -> Document:
        """Make indexes, and the collection if it is missing.

        Returns:
            `numIndexesBefore`, `numIndexesAfter`, `createdCollectionAutomatically`.
        """
        if not indexes:
            raise MongoError(2, "Must specify at least one index to create")

        def work(transaction: WriteTransaction) -> Document:
            is_new = self._name not in transaction.catalogue.live
            table = self._no_view(self.spaces.within(transaction, self.namespace))
            before, after = create(transaction, table, self.namespace, indexes)
            return _index_reply(before, after, is_new=is_new)

        if self.transaction is not None:
            with self.transaction.statement(self.namespace) as target:
                is_new = self._table(target) is None
                before, after = target.create_indexes(self.namespace, indexes)
            return _index_reply(before, after, is_new=is_new)
        return self.spaces.session.transact(work, operation="index_create")

    def drop_indexes(self, wanted: Any) -> Document:
        """Drop indexes by name, key pattern, list of names, or all with `*`.

        Returns:
            `nIndexesWas`.
        """

        def work(transaction: WriteTransaction) -> Document:
            table = transaction.catalogue.live.get(self._name)
            if table is None:
                raise MongoError(26, f"ns not found {self.namespace}")
            return {"nIndexesWas": drop(transaction, self._no_view(table), self.namespace, wanted)[0]}

        self._check_outside("dropIndexes")
        return self.spaces.session.transact(work, operation="index_drop")

    def modify_index(self, wanted: Mapping[str, Any], *, is_dry: bool = False) -> Document:
        """Change options of an index, given by `name` or `keyPattern`; see `indexes.modify`.

        Returns:
            The changed options, each with `_old` and `_new`.
        """

        def work(transaction: WriteTransaction) -> Document:
            table = transaction.catalogue.live.get(self._name)
            if table is None:
                raise MongoError(26, f"ns does not exist: {self.namespace}")
            return modify(transaction, table, self.namespace, wanted, is_dry=is_dry)

        return self.spaces.session.transact(work, operation="index_modify")

    def _check_outside(self, command: str) -> None:
        if self.transaction is not None:
            self.transaction.abort()
            raise MongoError(263, f"Cannot run '{command}' in a multi-document transaction.")

    def list_indexes(self) -> list[Document]:
        """The specifications of the indexes, the `_id` index first.

        Raises:
            MongoError: 26, there is no such collection; 166, it is a view.
        """
        table = self.spaces.table(self.namespace)
        if table is None:
            raise MongoError(26, f"ns does not exist: {self.namespace}")
        return self._indexes(self._no_view(table))

    def _indexes(self, table: TableInfo) -> list[Document]:
        record = self.spaces.record(table)
        return list_of_table(record.indexes, record.options.get("clusteredIndex"))


def _expressions_of_update(given: Any) -> list[Any]:
    """The parts of a statement that may be expressions. Operands of update operators are not, and may be long."""
    if not is_document(given):
        return []
    parts = [given[name] for name in ("q", "query", "fields") if name in given]
    change = given.get("u", given.get("update"))
    return [*parts, change] if isinstance(change, list) else parts


def remember_reply(
    retry: RetryableWrite, work: Callable[[WriteTransaction | BufferedWrites], Document]
) -> Callable[[WriteTransaction | BufferedWrites], Document]:
    """The same work; its result is stored together with its writes. Work without a write may be repeated."""

    def remembered(target: WriteTransaction | BufferedWrites) -> Document:
        assert isinstance(target, WriteTransaction)
        before = target.count
        answer = work(target)
        if target.count > before:
            retry.remember(target, answer)
        return answer

    return remembered


def _index_reply(before: int, after: int, *, is_new: bool) -> Document:
    """The reply to `createIndexes`."""
    return {
        "numIndexesBefore": before,
        "numIndexesAfter": after,
        "createdCollectionAutomatically": is_new,
        **({"note": "all indexes already exist"} if before == after and not is_new else {}),
    }


class _MissingCollection:
    """A missing collection: all that is needed for preparing its documents."""

    primary_key: Final = "_id"
    hook: Final = None
    indexes: Final[Mapping[str, Any]] = {}


_UNMADE: Any = _MissingCollection()


_Prepared = tuple[Document, Any]
"""A BSON document before its insert, and its key and bytes, or the MongoError of an invalid document."""


def _has_conditions(table: TableInfo) -> bool:
    """The table has unique indexes beside `_id`, or rules, so documents are inserted one by one."""
    if table.hook == RULES:
        return True
    return bool(table.indexes) and (table.has_unique or any(index.refuses for index in indexes_of(table)))


def _write_error(place: int, error: MongoError) -> Document:
    return {"index": place, "code": error.code, "errmsg": error.message, **error.details}


def count_of(name: str, value: Any, default: int | None = None) -> int | None:
    """A number of documents, or of something else, as `numeric.truncate` makes it whole. `default` of null.

    Raises:
        MongoError: 14, it is no number; 2, it is negative.
    """
    if value is None or (type(value) is int and value >= 0):
        return default if value is None else value
    if not is_number(value):
        raise MongoError(
            14,
            f"BSON field '{name}' is the wrong type '{type_name(value)}', expected types '[long, int, decimal, double]'",
        )
    number = truncate(value)
    if number < 0:
        raise MongoError(2, f"BSON field '{name}' value must be >= 0, actual value '{value}'")
    return number


def _limit_of_count(value: Any) -> int:
    """`limit` of `count`, without its sign."""
    if value is None:
        return 0
    if not is_number(value):
        raise MongoError(2, "limit value is not a valid number")
    number = whole(value)
    if number is None or not INT64_MIN <= number <= INT64_MAX:
        raise MongoError(9, f"Expected an integer: limit: {value}")
    if number == INT64_MIN:
        raise MongoError(2, f"limit is out of range: {value}")
    return abs(number)
