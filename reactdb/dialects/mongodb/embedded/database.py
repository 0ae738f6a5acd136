"""EmbeddedDatabase: one database in the process, with PyMongo's names.

Rule of this file: it manages the collections; `collection` has their documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bson.dbref import DBRef

from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.embedded.argument_checks import check_mapping, collation_document
from reactdb.dialects.mongodb.embedded.codecs import PLAIN, Codec
from reactdb.dialects.mongodb.embedded.collection import EmbeddedCollection
from reactdb.dialects.mongodb.embedded.cursor import EmbeddedCommandCursor
from reactdb.dialects.mongodb.embedded.errors import call
from reactdb.dialects.mongodb.embedded.names import check_database_spelling
from reactdb.dialects.mongodb.embedded.options import OptionHolder
from reactdb.dialects.mongodb.embedded.statements import (
    Session,
    outside_transaction,
    session_of,
    transaction_of,
)
from reactdb.dialects.mongodb.names import MongoNamespace, check_database_name

if TYPE_CHECKING:
    from reactivex import Observable

    from reactdb.dialects.mongodb.embedded.change_stream import EmbeddedChangeStream

__all__ = ["EmbeddedDatabase"]


class EmbeddedDatabase(OptionHolder):
    """See the head of this file. Any thread.

    Attributes:
        client: Its `EmbeddedClient`.
        name: Its name.
    """

    def __init__(self, client: Any, name: str, *options: Any, **more_options: Any) -> None:
        """
        Args:
            options, more_options: As in `with_options`.

        Raises:
            InvalidName: The name is invalid in MongoDB.
            OperationFailure: The name is not possible here (73).
            TypeError: The name or an option has the wrong type for PyMongo.
        """
        super().__init__(client, *options, **more_options)
        check_database_spelling(name)
        self.client = client
        self.name: str = call(check_database_name, name)

    def __getattr__(self, name: str) -> EmbeddedCollection:
        if name.startswith("_"):
            raise AttributeError(
                f"EmbeddedDatabase has no attribute {name!r}: use database[{name!r}] for a collection"
            )
        return self[name]

    def __getitem__(self, name: str) -> EmbeddedCollection:
        return EmbeddedCollection(self, name)

    def get_collection(self, name: str, *options: Any, **more_options: Any) -> EmbeddedCollection:
        """A collection, which need not exist yet. `options`: as in `with_options`."""
        return EmbeddedCollection(self, name, *options, **more_options)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EmbeddedDatabase):
            return NotImplemented
        return self.client == other.client and self.name == other.name

    def __hash__(self) -> int:
        return hash((self.client, self.name))

    def __bool__(self) -> bool:
        raise NotImplementedError(
            "Database objects do not implement truth value testing or bool(): compare with None"
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("'Database' object is not iterable")

    def __call__(self, *_arguments: Any, **_options: Any) -> None:
        raise TypeError(
            "'Database' object is not callable. If you meant to call the "
            f"'{self.name}' method on a 'MongoClient' object it is failing because no such method exists."
        )

    def __repr__(self) -> str:
        return f"EmbeddedDatabase({self.name!r})"

    def with_options(
        self,
        codec_options: Any = None,
        read_preference: Any = None,
        write_concern: Any = None,
        read_concern: Any = None,
    ) -> EmbeddedDatabase:
        """The same database with other options for its collections; options with None stay.

        Raises:
            TypeError: An option is not valid in PyMongo.
        """
        options = self._options(codec_options, read_preference, write_concern, read_concern)
        return EmbeddedDatabase(self.client, self.name, *options)

    # -----------------------------------------------------------------------------------------------------------
    # Collections

    def create_collection(
        self,
        name: str,
        codec_options: Any = None,
        read_preference: Any = None,
        write_concern: Any = None,
        read_concern: Any = None,
        session: Session = None,
        check_exists: bool | None = True,
        **options: Any,
    ) -> EmbeddedCollection:
        """Make a collection.

        Args:
            codec_options, read_preference, write_concern, read_concern: Its options in place of this database's.
            check_exists: Whether to check first that it does not exist.
            options: As in MongoDB's `create`, such as `changeStreamPreAndPostImages`.

        Raises:
            CollectionInvalid: It exists already.
        """
        collection = EmbeddedCollection(
            self, name, codec_options, read_preference, write_concern, read_concern
        )
        fields = {key: value for key, value in options.items() if key not in _OF_DRIVER}
        if "size" in fields:
            fields["size"] = float(fields["size"])
        if "collation" in fields:
            fields["collation"] = collation_document(fields["collation"])
        session = session_of(session, self.client)
        # PyMongo does not look in a transaction.
        if check_exists and (session is None or not session.in_transaction):
            with outside_transaction(session, self.client, "listCollections"):
                is_there = call(self.client.spaces.find, MongoNamespace(self.name, name)) is not None
            if is_there:
                raise driver.CollectionInvalid(f"collection {name} already exists")
        self.command({"create": name, **fields}, codec_options=collection.codec_options, session=session)
        return collection

    def list_collections(
        self,
        session: Session = None,
        filter: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Any,
    ) -> EmbeddedCommandCursor:
        """A document a collection: `name`, `type`, `options`, `info`, `idIndex`; with `nameOnly` the first two."""
        if filter is not None:
            options["filter"] = filter
        reply = self.command(
            {"listCollections": 1, "cursor": {}, **options}, session=session, comment=comment
        )
        return EmbeddedCommandCursor(iter(reply["cursor"]["firstBatch"]), dict)

    def list_collection_names(
        self,
        session: Session = None,
        filter: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Any,
    ) -> list[str]:
        """The names of the collections, sorted."""
        if filter is not None:
            check_mapping("filter", filter)
        return [one["name"] for one in self.list_collections(session, filter, comment, **options)]

    def drop_collection(
        self,
        name_or_collection: str | EmbeddedCollection,
        session: Session = None,
        comment: Any = None,
        encrypted_fields: Any = None,
    ) -> dict[str, Any]:
        """Drop a collection. Returns: the reply of MongoDB's `drop`."""
        if encrypted_fields:
            check_mapping("encrypted_fields", encrypted_fields)
        name = _name_of(name_or_collection)
        reply: dict[str, Any] = self.command(
            "drop", name, allowable_errors=["ns not found", 26], session=session, comment=comment
        )
        return reply

    # -----------------------------------------------------------------------------------------------------------
    # The whole database

    def command(
        self,
        command: str | Mapping[str, Any],
        value: Any = 1,
        check: bool = True,
        allowable_errors: Sequence[str | int] | None = None,
        read_preference: Any = None,
        codec_options: Any = None,
        session: Session = None,
        comment: Any = None,
        **options: Any,
    ) -> Any:
        """The reply to a command: `command("ping")`, `command("collStats", "orders")`, `command({"ping": 1})`.

        Args:
            check: Whether an error in the reply is raised.
            allowable_errors: Codes and messages that are not raised.
            codec_options: The conversion of the command and the reply. The database's options are not used, as in PyMongo.

        Raises:
            OperationFailure: The reply is an error; 59, there is no such command.
        """
        # Imported here because the commands bring the rest of the dialect.
        from reactdb.dialects.mongodb.embedded.command import command_document, run_command

        session = session_of(session, self.client)
        transaction = transaction_of(session)
        if comment is not None:
            options["comment"] = comment
        body = command_document(command, value, options)
        if session is not None and session.options.snapshot:
            body["readConcern"] = session.read_concern()
        try:
            # An error ends the transaction, unless the command is no statement of a transaction.
            return run_command(
                self.client.deployment,
                self.name,
                body,
                transaction,
                codec=Codec(codec_options) if codec_options else PLAIN,
                check=check,
                allowable_errors=allowable_errors,
            )
        finally:
            if session is not None:
                session.advance()

    def cursor_command(
        self,
        command: str | Mapping[str, Any],
        value: Any = 1,
        read_preference: Any = None,
        codec_options: Any = None,
        session: Session = None,
        comment: Any = None,
        max_await_time_ms: int | None = None,
        **options: Any,
    ) -> EmbeddedCommandCursor:
        """The documents of a command with a cursor: `cursor_command("find", "orders")`. `max_await_time_ms`: the longest wait of
        each `getMore` of a waiting cursor.

        Raises:
            InvalidOperation: Its reply has no cursor. OperationFailure: As `command`.
        """
        common = {"codec_options": codec_options, "session": session_of(session, self.client)}
        answer = self.command(command, value, comment=comment, **common, **options)
        if not answer.get("cursor"):
            raise driver.InvalidOperation("Command does not return a cursor.")
        more = {} if max_await_time_ms is None else {"maxTimeMS": max_await_time_ms}
        return EmbeddedCommandCursor(
            self._read_batches(answer["cursor"], {**common, **more}), _itself, session
        )

    def _read_batches(self, cursor: Any, options: Mapping[str, Any]) -> Iterator[Any]:
        """The documents of a server's cursor, batch by batch."""
        yield from cursor["firstBatch"]
        while cursor["id"]:
            collection = cursor["ns"].partition(".")[2]
            cursor = self.command("getMore", cursor["id"], collection=collection, **options)["cursor"]
            yield from cursor["nextBatch"]

    def validate_collection(
        self,
        name_or_collection: str | EmbeddedCollection,
        scandata: bool = False,
        full: bool = False,
        session: Session = None,
        background: bool | None = None,
        comment: Any = None,
    ) -> Any:
        """The reply of `validate` for a collection: `valid`, `nrecords`, `nIndexes`."""
        name = _name_of(name_or_collection)
        return self.command("validate", name, session=session, comment=comment)

    def dereference(self, dbref: DBRef, session: Session = None, comment: Any = None, **options: Any) -> Any:
        """The document of a reference, or None. `options`: as in `find`.

        Raises:
            TypeError: It is no reference. ValueError: It belongs to another database.
        """
        if not isinstance(dbref, DBRef):
            raise TypeError(f"cannot dereference a {type(dbref)}")
        if dbref.database is not None and dbref.database != self.name:
            raise ValueError(
                "trying to dereference a DBRef that points to another database "
                f"({dbref.database!r} not {self.name!r})"
            )
        return self[dbref.collection].find_one({"_id": dbref.id}, session=session, comment=comment, **options)

    def aggregate(
        self, pipeline: Sequence[Mapping[str, Any]], session: Session = None, **options: Any
    ) -> EmbeddedCommandCursor:
        """The results of a pipeline with its own documents (`$documents`) as the first stage."""
        # Imported here because a program that writes needs no pipelines.
        from reactdb.dialects.mongodb.embedded.aggregate import run_pipeline

        session = session_of(session, self.client)
        comment = options.pop("comment", None)
        namespace = MongoNamespace(self.name)
        documents = run_pipeline(self.client, namespace, self._codec, pipeline, session, options, comment)
        return EmbeddedCommandCursor(documents, self._codec.read, session)

    def watch(self, pipeline: Any = None, *arguments: Any, **options: Any) -> EmbeddedChangeStream:
        """A change stream of all collections."""
        # Imported here because most programs watch nothing.
        from reactdb.dialects.mongodb.embedded.change_stream import watch

        return watch(self.client, self._codec, MongoNamespace(self.name), pipeline, *arguments, **options)

    def changes(self, pipeline: Any = None, **options: Any) -> Observable[dict[str, Any]]:
        """The events of `watch` as an observable."""
        from reactdb.dialects.mongodb.embedded.observable import changes

        return changes(self.client.streams, self._codec, MongoNamespace(self.name), pipeline, **options)


def _name_of(name_or_collection: Any) -> str:
    """
    Raises:
        TypeError: It is neither a name nor a collection.
    """
    is_collection = isinstance(name_or_collection, EmbeddedCollection)
    name = name_or_collection.name if is_collection else name_or_collection
    if not isinstance(name, str):
        raise TypeError(f"name_or_collection must be an instance of str or Collection, not {type(name)}")
    return name


def _itself(document: Any) -> Any:
    return document


_OF_DRIVER = frozenset(
    [
        "encryptedFields",
        "comment",
    ]
)
