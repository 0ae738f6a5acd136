"""EmbeddedDatabase: one database in the process, with PyMongo's names.

Rule of this file: which collections there are; what is in one is `collection`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bson.dbref import DBRef
from pymongo.errors import CollectionInvalid

from reactdb.dialects.mongodb.aggregating import aggregate
from reactdb.dialects.mongodb.embedded.ahead import read_ahead
from reactdb.dialects.mongodb.embedded.checking import (
    AGGREGATING,
    batch_size_of,
    check_options,
    collation_document,
)
from reactdb.dialects.mongodb.embedded.codecs import PLAIN, Codec
from reactdb.dialects.mongodb.embedded.collection import EmbeddedCollection
from reactdb.dialects.mongodb.embedded.commanding import command_document, run_command
from reactdb.dialects.mongodb.embedded.cursor import EmbeddedCommandCursor
from reactdb.dialects.mongodb.embedded.observing import changes
from reactdb.dialects.mongodb.embedded.optioned import Optioned
from reactdb.dialects.mongodb.embedded.raising import call
from reactdb.dialects.mongodb.embedded.spelling import check_database_spelling
from reactdb.dialects.mongodb.embedded.statements import (
    Session,
    alone,
    carried_out,
    results,
    session_of,
    spaces_of,
    transaction_of,
)
from reactdb.dialects.mongodb.embedded.watching import EmbeddedChangeStream, watch
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.names import MongoNamespace, check_database_name
from reactdb.dialects.mongodb.options import description

if TYPE_CHECKING:
    from reactivex import Observable

__all__ = ["EmbeddedDatabase"]


class EmbeddedDatabase(Optioned):
    """See the head of this file. Any thread.

    Attributes:
        client: The `EmbeddedClient` whose it is.
        name: Its name.
    """

    def __init__(self, client: Any, name: str, *options: Any, **more_options: Any) -> None:
        """
        Args:
            options, more_options: Those of `with_options`.

        Raises:
            InvalidName: No database of MongoDB can have this name.
            OperationFailure: None can have it here (73).
            TypeError: The name is none, or an option is none of PyMongo's.
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
        """A collection, which may not be there yet. `options`: those of `with_options`."""
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
        """The same database with other options, which its collections have; those that are None stay.

        Raises:
            TypeError: One is none of PyMongo's.
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
            codec_options, read_preference, write_concern, read_concern: What it has instead of this database's.
            check_exists: Whether to look first whether it is there.
            options: Those of MongoDB's `create`, such as `changeStreamPreAndPostImages`.

        Raises:
            CollectionInvalid: It is there already.
        """
        found = EmbeddedCollection(self, name, codec_options, read_preference, write_concern, read_concern)
        said = {key: value for key, value in options.items() if key not in _OF_DRIVER}
        if "collation" in said:
            said["collation"] = collation_document(said["collation"])
        session = session_of(session, self.client)
        # PyMongo does not look in a transaction.
        if check_exists and (session is None or not session.in_transaction):
            with alone(session, self.client, "listCollections"):
                is_there = call(self.client.spaces.find, MongoNamespace(self.name, name)) is not None
            if is_there:
                raise CollectionInvalid(f"collection {name} already exists")
        self.command({"create": name, **said}, codec_options=found.codec_options, session=session)
        return found

    def list_collections(
        self,
        session: Session = None,
        filter: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Any,
    ) -> EmbeddedCommandCursor:
        """A document a collection: `name`, `type`, `options`, `info`, `idIndex`; with `nameOnly` the first two."""
        check_options("listCollections", options, _LISTING)
        found = self._listed(filter, session)
        if options.get("nameOnly"):
            found = [{"name": one["name"], "type": one["type"]} for one in found]
        return EmbeddedCommandCursor(iter(found))

    def list_collection_names(
        self,
        session: Session = None,
        filter: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Any,
    ) -> list[str]:
        """The names of the collections, sorted."""
        check_options("listCollections", options, _LISTING)
        return [one["name"] for one in self._listed(filter, session)]

    def _listed(self, filter: Mapping[str, Any] | None, session: Session) -> list[dict[str, Any]]:
        wanted = call(Filter, PLAIN.given(filter)) if filter else None
        with alone(session, self.client, "listCollections"):
            found = map(description, call(self.client.spaces.collections, self.name))
        return [one for one in found if wanted is None or wanted.matches(one)]

    def drop_collection(
        self,
        name_or_collection: str | EmbeddedCollection,
        session: Session = None,
        comment: Any = None,
        encrypted_fields: Any = None,
    ) -> dict[str, Any]:
        """Drop the collection of this name. Returns: MongoDB's answer.

        Raises:
            TypeError: It is no name.
        """
        found = name_or_collection
        name = found.name if isinstance(found, EmbeddedCollection) else found
        if not isinstance(name, str):
            raise TypeError(f"name_or_collection must be an instance of str, not {type(name)}")
        with alone(session, self.client, "drop"):
            answer: dict[str, Any] = self.command("drop", name)
        return answer

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
        """The answer to a command: `command("ping")`, `command("collStats", "orders")`, `command({"ping": 1})`.

        Args:
            check: Whether an answer that is an error is raised.
            allowable_errors: Codes and messages that are not raised.
            codec_options: How it is written and read. Those of the database are not, as with PyMongo.

        Raises:
            OperationFailure: The answer is an error; 59, there is no such command.
        """
        session = session_of(session, self.client)
        transaction = transaction_of(session)
        body = command_document(command, value, options)
        if session is not None and session.options.snapshot:
            body["readConcern"] = session.read_concern()
        try:
            # An error ends the transaction there, unless the command is no statement of one.
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

    def validate_collection(
        self, name_or_collection: str | EmbeddedCollection, *_arguments: Any, **options: Any
    ) -> Any:
        """What `validate` says of a collection: `valid`, `nrecords`, `nIndexes`."""
        found = name_or_collection
        name = found.name if isinstance(found, EmbeddedCollection) else found
        if not isinstance(name, str):
            raise TypeError(f"name_or_collection must be an instance of str or Collection, not {type(name)}")
        return self.command("validate", name, session=options.get("session"))

    def dereference(self, dbref: DBRef, session: Session = None, **_options: Any) -> Any:
        """The document that a reference names, or None.

        Raises:
            TypeError: It is no reference. ValueError: It names another database.
        """
        if not isinstance(dbref, DBRef):
            raise TypeError(f"cannot dereference a {type(dbref)}")
        if dbref.database is not None and dbref.database != self.name:
            raise ValueError(
                "trying to dereference a DBRef that points to another database "
                f"({dbref.database!r} not {self.name!r})"
            )
        return self[dbref.collection].find_one({"_id": dbref.id}, session=session)

    def aggregate(
        self, pipeline: Sequence[Mapping[str, Any]], session: Session = None, **options: Any
    ) -> EmbeddedCommandCursor:
        """The results of a pipeline that begins with its own documents (`$documents`)."""
        most = batch_size_of(options)
        check_options("aggregate", options, AGGREGATING | {"let", "comment"})
        session = session_of(session, self.client)
        documents = carried_out(
            session,
            aggregate,
            spaces_of(session, self.client, "aggregate"),
            MongoNamespace(self.name),
            [self._codec.given_any(one, "stage") for one in pipeline],
            variables=None if options.get("let") is None else self._codec.given(options["let"]),
            transaction=transaction_of(session),
        )
        found = call(read_ahead, results(session, documents), most)
        return EmbeddedCommandCursor(found, self._codec, session)

    def watch(self, pipeline: Any = None, *arguments: Any, **options: Any) -> EmbeddedChangeStream:
        """A change stream of all collections."""
        return watch(self.client, self._codec, MongoNamespace(self.name), pipeline, *arguments, **options)

    def changes(self, pipeline: Any = None, **options: Any) -> Observable[dict[str, Any]]:
        """The events of `watch` as an observable."""
        return changes(self.client.streams, self._codec, MongoNamespace(self.name), pipeline, **options)


_LISTING = frozenset({"authorizedCollections", "cursor", "maxTimeMS", "nameOnly"})
_OF_DRIVER = frozenset(
    [
        "encryptedFields",
        "comment",
    ]
)
