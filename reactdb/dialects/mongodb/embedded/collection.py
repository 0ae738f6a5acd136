"""EmbeddedCollection: one collection in the process, with PyMongo's names, arguments and results.

Arguments without a meaning in the process (comments, batch sizes) are checked and ignored.

Rule of this file: `ViewingWork` does the reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from bson.codec_options import CodecOptions, DatetimeConversion
from bson.son import SON

from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.embedded.argument_checks import (
    check_bypass,
    check_flag,
    check_list,
    check_mapping,
    check_options,
    check_ordered,
    check_replacement,
    check_update,
    collation_document,
    ensure_id,
)
from reactdb.dialects.mongodb.embedded.bulk import Bulk, merge_inserts
from reactdb.dialects.mongodb.embedded.codecs import PLAIN, Codec
from reactdb.dialects.mongodb.embedded.cursor import EmbeddedCommandCursor, EmbeddedCursor
from reactdb.dialects.mongodb.embedded.documents import (
    fields_document,
    hint_document,
    order_document,
)
from reactdb.dialects.mongodb.embedded.errors import call, first_error
from reactdb.dialects.mongodb.embedded.index_specification import index_name, index_specification
from reactdb.dialects.mongodb.embedded.names import check_collection_spelling
from reactdb.dialects.mongodb.embedded.options import OptionHolder
from reactdb.dialects.mongodb.embedded.results import (
    DeleteResult,
    InsertManyResult,
    InsertOneResult,
    UpdateResult,
)
from reactdb.dialects.mongodb.embedded.statements import (
    Session,
    outside_transaction,
    results,
    run_statement,
    session_of,
    spaces_of,
    transaction_of,
)
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.ttl_sweep import sweep
from reactdb.dialects.mongodb.views import ViewingWork

if TYPE_CHECKING:
    from pymongo.results import BulkWriteResult
    from reactivex import Observable

    from reactdb.dialects.mongodb.embedded.change_stream import EmbeddedChangeStream

__all__ = ["EmbeddedCollection"]

Document = dict[str, Any]


class EmbeddedCollection(OptionHolder):
    """See the head of this file. Any thread.

    Attributes:
        database: Its `EmbeddedDatabase`.
        name: Its name without the database.
    """

    def __init__(self, database: Any, name: str, *options: Any, **more_options: Any) -> None:
        """
        Args:
            options, more_options: As in `with_options`.

        Raises:
            InvalidName: The name is invalid in MongoDB.
            OperationFailure: The name is not possible here (73).
            TypeError: The name or an option has the wrong type for PyMongo.
        """
        super().__init__(database, *options, **more_options)
        check_collection_spelling(name)
        self.database = database
        self.name = name
        self._namespace = MongoNamespace(database.name, name)
        self._work = call(ViewingWork, database.client.spaces, self._namespace)

    @property
    def full_name(self) -> str:
        """`database.collection`."""
        return str(self._namespace)

    def __getattr__(self, name: str) -> EmbeddedCollection:
        if name.startswith("_"):
            raise AttributeError(
                f"EmbeddedCollection has no attribute {name!r}: use collection[{name!r}] for a collection"
            )
        return self[name]

    def __getitem__(self, name: str) -> EmbeddedCollection:
        return EmbeddedCollection(self.database, f"{self.name}.{name}", *self._options())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EmbeddedCollection):
            return NotImplemented
        return self.database == other.database and self.name == other.name

    def __hash__(self) -> int:
        return hash((self.database, self.name))

    def __bool__(self) -> bool:
        raise NotImplementedError(
            "Collection objects do not implement truth value testing or bool(): compare with None"
        )

    def __call__(self, *_arguments: Any, **_options: Any) -> None:
        *parents, method = self.name.split(".")
        owner = "Collection" if parents else "Database"
        raise TypeError(
            f"'Collection' object is not callable. If you meant to call the '{method}' method on a '{owner}' "
            "object it is failing because no such method exists."
        )

    def __repr__(self) -> str:
        return f"EmbeddedCollection({self.full_name!r})"

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("'Collection' object is not iterable")

    def with_options(
        self,
        codec_options: Any = None,
        read_preference: Any = None,
        write_concern: Any = None,
        read_concern: Any = None,
    ) -> EmbeddedCollection:
        """The same collection with other options; options with None stay.

        Raises:
            TypeError: An option is not valid in PyMongo.
        """
        options = self._options(codec_options, read_preference, write_concern, read_concern)
        return EmbeddedCollection(self.database, self.name, *options)

    def _variables(self, let: Any) -> Document | None:
        return None if let is None else self._codec.given(let)

    def _begin(
        self, session: Session, command: str, bypasses: bool | None = None
    ) -> tuple[Session, ViewingWork]:
        """The session of an operation, from its argument, and the operation's work; over a socket it would be `command`."""
        client = self.database.client
        session = session_of(session, client)
        if bypasses is not None:
            bypasses = check_bypass(command, bypasses, self._codec)
        if session is None and not bypasses:
            return None, self._work
        transaction = transaction_of(session)
        spaces = spaces_of(session, client, command)
        return session, ViewingWork(spaces, self._namespace, transaction, bypasses=bool(bypasses))

    # -----------------------------------------------------------------------------------------------------------
    # insert

    def insert_one(
        self,
        document: Any,
        bypass_document_validation: bool | None = None,
        session: Session = None,
        comment: Any = None,
    ) -> InsertOneResult:
        """Insert a document; it gets an `_id` if it has none.

        Raises:
            DuplicateKeyError: The `_id`, or a key of a unique index, is taken.
        """
        id = ensure_id(document)
        session, work = self._begin(session, "insert", bypass_document_validation)
        answer = run_statement(session, work.insert, [document], shape=self._codec.given)
        if "writeErrors" in answer:
            raise first_error(answer)
        return InsertOneResult(id, True)

    def insert_many(
        self,
        documents: Iterable[Any],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: Session = None,
        comment: Any = None,
    ) -> InsertManyResult:
        """Insert documents.

        Raises:
            BulkWriteError: Some could not be inserted; with `ordered`, none after the first of them was.
        """
        if not isinstance(documents, Iterable) or isinstance(documents, Mapping):
            raise TypeError("documents must be a non-empty list")
        given = list(documents)
        if not given:
            raise TypeError("documents must be a non-empty list")
        ids = list(map(ensure_id, given))
        check_ordered("insert", ordered)
        session, work = self._begin(session, "insert", bypass_document_validation)
        answer = run_statement(session, work.insert, given, ordered=ordered, shape=self._codec.given)
        if "writeErrors" in answer:
            raise driver.BulkWriteError(merge_inserts(answer, given))
        return InsertManyResult(ids, True)

    # -----------------------------------------------------------------------------------------------------------
    # update, replace, delete

    def update_one(
        self,
        filter: Mapping[str, Any],
        update: Any,
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: Any = None,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        hint: Any = None,
        session: Session = None,
        let: Mapping[str, Any] | None = None,
        sort: Any = None,
        comment: Any = None,
    ) -> UpdateResult:
        """Update the first matching document."""
        check_update(update)
        session, work = self._begin(session, "update", bypass_document_validation)
        return self._update(
            session, work, filter, update, False, upsert, collation, array_filters, let, sort, hint
        )

    def update_many(
        self,
        filter: Mapping[str, Any],
        update: Any,
        upsert: bool = False,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        bypass_document_validation: bool | None = None,
        collation: Any = None,
        hint: Any = None,
        session: Session = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> UpdateResult:
        """Update all matching documents, as one commit."""
        check_update(update)
        session, work = self._begin(session, "update", bypass_document_validation)
        return self._update(
            session, work, filter, update, True, upsert, collation, array_filters, let, None, hint
        )

    def replace_one(
        self,
        filter: Mapping[str, Any],
        replacement: Mapping[str, Any],
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: Any = None,
        hint: Any = None,
        session: Session = None,
        let: Mapping[str, Any] | None = None,
        sort: Any = None,
        comment: Any = None,
    ) -> UpdateResult:
        """Replace the first matching document."""
        check_replacement(replacement)
        session, work = self._begin(session, "update", bypass_document_validation)
        return self._update(
            session, work, filter, replacement, False, upsert, collation, None, let, sort, hint
        )

    def _update(
        self,
        session: Session,
        work: ViewingWork,
        filter: Mapping[str, Any],
        update: Any,
        multi: bool,
        upsert: bool,
        collation: Any,
        array_filters: Any,
        let: Mapping[str, Any] | None,
        sort: Any,
        hint: Any,
    ) -> UpdateResult:
        statement = update_statement(
            self._codec, filter, update, multi, upsert, collation, array_filters, sort, hint
        )
        answer = run_statement(session, work.update, [statement], variables=self._variables(let))
        if "writeErrors" in answer:
            raise first_error(answer)
        upserted = answer.pop("upserted", None)
        if upserted is not None:
            answer["upserted"] = self._codec.read_upserted(upserted[0]["_id"])
        return UpdateResult(
            {**answer, "ok": 1.0, "updatedExisting": upserted is None and answer["n"] > 0}, True
        )

    def delete_one(
        self,
        filter: Mapping[str, Any],
        collation: Any = None,
        hint: Any = None,
        session: Session = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> DeleteResult:
        """Delete the first matching document."""
        return self._delete(filter, 1, collation, session, let, hint)

    def delete_many(
        self,
        filter: Mapping[str, Any],
        collation: Any = None,
        hint: Any = None,
        session: Session = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
    ) -> DeleteResult:
        """Delete all matching documents, as one commit."""
        return self._delete(filter, 0, collation, session, let, hint)

    def _delete(
        self,
        filter: Mapping[str, Any],
        limit: int,
        collation: Any,
        session: Session,
        let: Mapping[str, Any] | None,
        hint: Any,
    ) -> DeleteResult:
        statement = delete_statement(self._codec, filter, limit, collation, hint)
        session, work = self._begin(session, "delete")
        answer = run_statement(session, work.delete, [statement], variables=self._variables(let))
        if "writeErrors" in answer:
            raise first_error(answer)
        return DeleteResult({**answer, "ok": 1.0}, True)

    def bulk_write(
        self,
        requests: Sequence[Any],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: Session = None,
        comment: Any = None,
        let: Mapping[str, Any] | None = None,
    ) -> BulkWriteResult:
        """Execute PyMongo's `InsertOne`, `UpdateOne`, `UpdateMany`, `ReplaceOne`, `DeleteOne` and `DeleteMany` requests.

        Raises:
            BulkWriteError: A request failed; with `ordered`, the later requests were not executed.
        """
        if not isinstance(requests, list):
            raise TypeError(f"requests must be a list, not {type(requests)}")
        if not requests:
            raise driver.InvalidOperation("No operations to execute")
        bulk = Bulk(requests, self._codec)
        check_ordered(bulk.command, ordered)
        session, work = self._begin(session, bulk.command, bypass_document_validation)
        result = run_statement(session, bulk.execute, work, ordered=ordered, variables=self._variables(let))
        if result["writeErrors"]:
            raise driver.BulkWriteError(result)
        written: BulkWriteResult = driver.BulkWriteResult(result, True)
        return written

    # -----------------------------------------------------------------------------------------------------------
    # findAndModify

    def find_one_and_update(
        self,
        filter: Mapping[str, Any],
        update: Any,
        projection: Any = None,
        sort: Any = None,
        upsert: bool = False,
        return_document: bool = False,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        hint: Any = None,
        session: Session = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Any,
    ) -> Document | None:
        """Update the first matching document, and return it as it was before, or with `ReturnDocument.AFTER` as it is after."""
        check_update(update)
        _check_changed(upsert, return_document)
        command = {
            "update": self._codec.given_value(update),
            "upsert": upsert,
            "new": return_document,
            "arrayFilters": _array_filters(self._codec, array_filters),
        }
        return self._modify(filter, command, projection, sort, hint, session, let, options)

    def find_one_and_replace(
        self,
        filter: Mapping[str, Any],
        replacement: Mapping[str, Any],
        projection: Any = None,
        sort: Any = None,
        upsert: bool = False,
        return_document: bool = False,
        hint: Any = None,
        session: Session = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Any,
    ) -> Document | None:
        """Replace the first matching document, likewise."""
        check_replacement(replacement)
        _check_changed(upsert, return_document)
        command = {"update": self._codec.given(replacement), "upsert": upsert, "new": return_document}
        return self._modify(filter, command, projection, sort, hint, session, let, options)

    def find_one_and_delete(
        self,
        filter: Mapping[str, Any],
        projection: Any = None,
        sort: Any = None,
        hint: Any = None,
        session: Session = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Any,
    ) -> Document | None:
        """Delete the first matching document, and return it."""
        return self._modify(filter, {"remove": True}, projection, sort, hint, session, let, options)

    def _modify(
        self,
        filter: Mapping[str, Any],
        command: Document,
        projection: Any,
        sort: Any,
        hint: Any,
        session: Session,
        let: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> Document | None:
        command["query"] = self._codec.given_filter(filter)
        check_options("findAndModify", options, _MODIFYING, self._codec)
        if projection is not None:
            command["fields"] = self._codec.given(fields_document(projection))
        if sort is not None:
            command["sort"] = order_document(sort)
        command["let"] = self._variables(let)
        command["hint"] = hint_document(hint)
        command["collation"] = collation_document(options.get("collation"))
        session, work = self._begin(session, "findAndModify", options.get("bypassDocumentValidation"))
        value = run_statement(session, work.find_and_modify, command)["value"]
        return None if value is None else self._codec.read(value)

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def find(self, *arguments: Any, **options: Any) -> EmbeddedCursor:
        """The matching documents, as a cursor: `find(filter, projection, skip, limit, ...)`, with PyMongo's arguments."""
        return EmbeddedCursor(self, self._run_find, self._codec, *arguments, **options)

    def _run_find(self, session: Session, command: Mapping[str, Any]) -> Iterator[Document]:
        session, work = self._begin(session, "find")
        if session is None:
            return work.find(command)
        documents = run_statement(session, work.find, command)
        return results(session, documents, command.get("batchSize"))

    def find_one(self, filter: Any = None, *arguments: Any, **options: Any) -> Any:
        """The first matching document, or None. A filter that is no mapping is an `_id`."""
        if filter is not None and not isinstance(filter, Mapping):
            filter = {"_id": filter}
        for document in self.find(filter, *arguments, **options).limit(1):
            return document
        return None

    def count_documents(
        self, filter: Mapping[str, Any], session: Session = None, comment: Any = None, **options: Any
    ) -> int:
        """The number of matching documents."""
        check_options("aggregate", options, _COUNTING, self._codec, comment)
        if "limit" in options or "skip" in options or not isinstance(filter, Mapping):
            # As in PyMongo: the stages report an invalid limit.
            limits = [{f"${name}": options.pop(name)} for name in ("skip", "limit") if name in options]
            grouped: Document = {"$group": {"_id": 1, "n": {"$sum": 1}}}
            counted = self.aggregate([{"$match": filter}, *limits, grouped], session, **options)
            return sum(one["n"] for one in counted)
        command: Document = {"query": self._codec.given_filter(filter)}
        command["collation"] = collation_document(options.get("collation"))
        if "hint" in options:
            hint = options["hint"]
            command["hint"] = hint if isinstance(hint, str) else order_document(hint)
        # It is an aggregation, as PyMongo counts.
        session, work = self._begin(session, "aggregate")
        return run_statement(session, work.count, command)

    def estimated_document_count(self, comment: Any = None, **options: Any) -> int:
        """The exact number of documents. `options`: as in MongoDB's `count`, such as `skip` and `limit`.

        Raises:
            ConfigurationError: It has a session, and this operation takes none.
        """
        if "session" in options:
            raise driver.ConfigurationError("estimated_document_count does not support sessions")
        if not options and comment is None:
            return call(self._work.count, {})
        count: int = self.database.command("count", self.name, comment=comment, **options)["n"]
        return count

    def distinct(
        self,
        key: str,
        filter: Mapping[str, Any] | None = None,
        session: Session = None,
        comment: Any = None,
        hint: Any = None,
        **options: Any,
    ) -> list[Any]:
        """The different values of a field, and of the elements of arrays there."""
        if not isinstance(key, str):
            raise TypeError(f"key must be an instance of str, not {type(key)}")
        check_options("distinct", options, _DISTINCT, self._codec, comment)
        query = None if filter is None else self._codec.given_value(filter)
        if not isinstance(query, dict | None):
            raise driver.OperationFailure(
                "BSON field 'distinct.query' is the wrong type, expected type 'object'", 14
            )
        command = {
            "key": key,
            "query": query,
            "hint": hint_document(hint),
            "collation": collation_document(options.get("collation")),
        }
        session, work = self._begin(session, "distinct")
        values = run_statement(session, work.distinct, command)
        decoded: list[Any] = self._codec.read({"values": values})["values"]
        return decoded

    def aggregate(
        self,
        pipeline: Sequence[Mapping[str, Any]],
        session: Session = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Any,
    ) -> EmbeddedCommandCursor:
        """The results of a pipeline."""
        session = session_of(session, self.database.client)
        if let is not None:
            options["let"] = let
        documents = self._run_aggregate(pipeline, session, options, comment)
        return EmbeddedCommandCursor(documents, self._codec.read, session)

    def _run_aggregate(
        self, pipeline: Any, session: Session, options: Mapping[str, Any], comment: Any
    ) -> Iterator[Document]:
        # Imported here because a program that writes needs no pipelines.
        from reactdb.dialects.mongodb.embedded.aggregate import run_pipeline

        client = self.database.client
        if options.get("let") is not None:
            check_mapping("let", options["let"])
        return run_pipeline(client, self._namespace, self._codec, pipeline, session, options, comment)

    def watch(self, pipeline: Any = None, *arguments: Any, **options: Any) -> EmbeddedChangeStream:
        """A change stream of this collection: see the page about change streams."""
        # Imported here because most programs watch nothing.
        from reactdb.dialects.mongodb.embedded.change_stream import watch

        return watch(self.database.client, self._codec, self._namespace, pipeline, *arguments, **options)

    def changes(self, pipeline: Any = None, **options: Any) -> Observable[dict[str, Any]]:
        """The events of `watch` as an observable."""
        from reactdb.dialects.mongodb.embedded.observable import changes

        return changes(self.database.client.streams, self._codec, self._namespace, pipeline, **options)

    # -----------------------------------------------------------------------------------------------------------
    # Indexes and the collection itself

    def create_search_index(
        self, model: Any, session: Session = None, comment: Any = None, **options: Any
    ) -> str:
        """Raises: OperationFailure: 59, there is no search, as in a MongoDB without Atlas."""
        return self.create_search_indexes([model], session, comment, **options)[0]

    def create_search_indexes(
        self, models: list[Any], session: Session = None, comment: Any = None, **options: Any
    ) -> list[str]:
        """Likewise."""
        indexes = [one.document if isinstance(one, driver.SearchIndexModel) else one for one in models]
        reply = self.database.command(
            "createSearchIndexes", self.name, session=session, indexes=indexes, **options
        )
        return [one["name"] for one in reply["indexesCreated"]]

    def drop_search_index(
        self, name: str, session: Session = None, comment: Any = None, **options: Any
    ) -> None:
        """Likewise."""
        self.database.command("dropSearchIndex", self.name, session=session, name=name, **options)

    def update_search_index(
        self,
        name: str,
        definition: Mapping[str, Any],
        session: Session = None,
        comment: Any = None,
        **options: Any,
    ) -> None:
        """Likewise."""
        self.database.command(
            "updateSearchIndex", self.name, session=session, name=name, definition=definition, **options
        )

    def list_search_indexes(
        self, name: str | None = None, session: Session = None, comment: Any = None, **options: Any
    ) -> EmbeddedCommandCursor:
        """Raises: OperationFailure: 31082, likewise."""
        stage = {"$listSearchIndexes": {} if name is None else {"name": name}}
        return self.aggregate([stage], session, comment=comment, **options)

    def create_index(self, keys: Any, session: Session = None, comment: Any = None, **options: Any) -> str:
        """Make an index. Returns: its name.

        Args:
            keys: `"a"`, `[("a", 1), ("b", -1)]` or `{"a": 1}`.
            options: `name`, `unique`, `sparse`, `partialFilterExpression`, `expireAfterSeconds`, `hidden`.
        """
        sent = {name: options.pop(name) for name in ("maxTimeMS",) if name in options}
        return self._create_indexes([index_specification(keys, options)], session, comment, sent)[0]

    def create_indexes(
        self, indexes: Sequence[Any], session: Session = None, comment: Any = None, **options: Any
    ) -> list[str]:
        """Make the indexes of some `IndexModel`s. Returns: their names."""
        check_list("indexes", indexes)
        for one in indexes:
            if not isinstance(one, driver.IndexModel):
                raise TypeError(f"{one!r} is not an instance of pymongo.operations.IndexModel")
        return self._create_indexes([one.document for one in indexes], session, comment, options)

    def _create_indexes(
        self, given: list[Document], session: Session, comment: Any, options: Mapping[str, Any]
    ) -> list[str]:
        check_options("createIndexes", options, _INDEXING, self._codec, comment)
        specs = list(map(PLAIN.given, given))
        session, work = self._begin(session, "createIndexes")
        run_statement(session, work.create_indexes, specs)
        return [str(spec["name"]) for spec in specs]

    def drop_index(
        self, index_or_name: Any, session: Session = None, comment: Any = None, **options: Any
    ) -> None:
        """Drop an index by its name or its keys. Where there is no collection, nothing is done."""
        name = index_name(index_or_name)
        check_options("dropIndexes", options, _DROPPING, self._codec, comment)
        with outside_transaction(session, self.database.client, "dropIndexes"):
            if self.database.client.spaces.table(self._namespace) is not None:
                call(self._work.drop_indexes, name)

    def drop_indexes(self, session: Session = None, comment: Any = None, **options: Any) -> None:
        """Drop all indexes except the `_id` index."""
        check_options("dropIndexes", options, _DROPPING, self._codec, comment)
        with outside_transaction(session, self.database.client, "dropIndexes"):
            if self.database.client.spaces.table(self._namespace) is not None:
                call(self._work.drop_indexes, "*")

    def list_indexes(self, session: Session = None, comment: Any = None) -> EmbeddedCommandCursor:
        """The specifications of the indexes; none without a collection."""
        with outside_transaction(session, self.database.client, "listIndexes"):
            if self.database.client.spaces.table(self._namespace) is None:
                return EmbeddedCommandCursor(iter(()))
            return EmbeddedCommandCursor(iter(call(self._work.list_indexes)), _OF_INDEXES.read)

    def index_information(self, session: Session = None, comment: Any = None) -> dict[str, Any]:
        """The indexes by name, in PyMongo's form: `{"a_1": {"v": 2, "key": [("a", 1)]}}`."""
        indexes: dict[str, Any] = {}
        for spec in map(dict, self.list_indexes(session)):
            spec["key"] = list(spec["key"].items())
            indexes[spec.pop("name")] = spec
        return indexes

    def sweep(self) -> int:
        """Delete the expired documents of the TTL indexes now. Returns: the number of documents that this call has deleted.

        Without a call they are deleted within about a second, by a thread of any process that has the file open to write.
        """
        return call(sweep, self.database.client.spaces, self._namespace)

    def drop(self, session: Session = None, comment: Any = None, encrypted_fields: Any = None) -> None:
        """Drop the collection."""
        if encrypted_fields:
            check_mapping("encrypted_fields", encrypted_fields)
        with outside_transaction(session, self.database.client, "drop"):
            call(self.database.client.spaces.drop, self._namespace)

    def rename(
        self, new_name: str, session: Session = None, comment: Any = None, **options: Any
    ) -> dict[str, Any]:
        """Rename the collection; `dropTarget=True` drops another collection of the new name.

        Raises:
            TypeError, InvalidName: The new name is invalid.
        """
        check_collection_spelling(new_name)
        check_options("renameCollection", options, _RENAMING, self._codec, comment)
        target = str(MongoNamespace(self.database.name, new_name))
        client = self.database.client
        with outside_transaction(session, client, "renameCollection"):
            answer: Document = client["admin"].command(
                "renameCollection", self.full_name, to=target, **options
            )
        return answer

    def options(self, session: Session = None, comment: Any = None) -> dict[str, Any]:
        """The collection's options from its creation."""
        with outside_transaction(session, self.database.client, "listCollections"):
            info = call(self.database.client.spaces.find, self._namespace)
        return {} if info is None else dict(info.options)


_OF_INDEXES: Final = Codec(CodecOptions(SON, datetime_conversion=DatetimeConversion.DATETIME_AUTO))
"""PyMongo's type for specifications of indexes; and dates beyond Python's years, on which PyMongo fails."""
_COUNTING: Final = frozenset({"collation", "hint", "limit", "maxTimeMS", "skip"})
_DISTINCT: Final = frozenset({"collation", "hint", "maxTimeMS"})
_MODIFYING: Final = frozenset({"bypassDocumentValidation", "collation", "maxTimeMS", "writeConcern"})
_INDEXING: Final = frozenset({"commitQuorum", "maxTimeMS"})
_DROPPING: Final = frozenset({"maxTimeMS"})
_RENAMING: Final = frozenset({"dropTarget", "maxTimeMS"})
"""Options of the command beside the named arguments of PyMongo's method."""


def update_statement(
    codec: Codec,
    filter: Any,
    update: Any,
    multi: bool,
    upsert: bool,
    collation: Any,
    array_filters: Any,
    sort: Any,
    hint: Any = None,
) -> Document:
    """A statement of the command `update`."""
    check_flag("upsert", upsert)
    statement: Document = {"q": codec.given_filter(filter), "u": codec.given_value(update)}
    statement |= {"multi": multi, "upsert": upsert}
    if collation is not None:
        statement["collation"] = collation_document(collation)
    if array_filters is not None:
        statement["arrayFilters"] = _array_filters(codec, array_filters)
    if sort is not None:
        check_mapping("sort", sort)
        statement["sort"] = codec.given(sort)
    if hint is not None:
        statement["hint"] = hint_document(hint)
    return statement


def _array_filters(codec: Codec, given: Any) -> list[Any] | None:
    """
    Raises:
        TypeError: They are no list.
    """
    if given is None:
        return None
    check_list("array_filters", given)
    filters: list[Any] = codec.given_value(given)
    return filters


def _check_changed(upsert: Any, return_document: Any) -> None:
    """
    Raises:
        TypeError: A flag of a find-and-modify has the wrong type.
    """
    if upsert is not None:
        check_flag("upsert", upsert)
    if not isinstance(return_document, bool):
        raise TypeError(
            f"return_document must be ReturnDocument.BEFORE or ReturnDocument.AFTER, not {type(return_document)}"
        )


def delete_statement(codec: Codec, filter: Any, limit: int, collation: Any, hint: Any = None) -> Document:
    """A statement of the command `delete`; a limit of 0 is none."""
    statement: Document = {"q": codec.given_filter(filter), "limit": limit}
    if hint is not None:
        statement["hint"] = hint_document(hint)
    if collation is not None:
        statement["collation"] = collation_document(collation)
    return statement
