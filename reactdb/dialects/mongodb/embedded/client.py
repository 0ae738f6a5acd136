"""EmbeddedClient: the databases of a file in the process, with the names of PyMongo's client.

Rule of this file: it opens no connection, and does not close the database of its caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any

from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.embedded.cursor import EmbeddedCommandCursor
from reactdb.dialects.mongodb.embedded.database import EmbeddedDatabase
from reactdb.dialects.mongodb.embedded.errors import call
from reactdb.dialects.mongodb.embedded.names import check_database_spelling
from reactdb.dialects.mongodb.embedded.options import OptionHolder, client_codec
from reactdb.dialects.mongodb.embedded.session import EmbeddedSession
from reactdb.dialects.mongodb.embedded.statements import outside_transaction
from reactdb.dialects.mongodb.names import DEFAULT_DATABASE, Names
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.session import session_of

if TYPE_CHECKING:
    from reactivex import Observable

    from reactdb.database import Database
    from reactdb.dialects.mongodb.commands import Deployment
    from reactdb.dialects.mongodb.embedded.change_stream import EmbeddedChangeStream
    from reactdb.dialects.mongodb.streams import ChangeStreams
    from reactdb.dialects.mongodb.transactions import Transactions

__all__ = ["EmbeddedClient"]


class EmbeddedClient(OptionHolder):
    """See the head of this file, and `reactdb.mongodb`. Any thread.

    Attributes:
        native: The reactdb database below it.
        spaces: Its databases and collections.
        deployment: The deployment for commands. It is made when it is first used.
        transactions: Its open transactions.
        streams: Its factory of change streams.
        address, primary, nodes, secondaries, arbiters: None and empty: there are no servers.
        is_primary, is_mongos: Fixed values for programs that check them before a write.
    """

    address = None
    primary = None
    nodes: frozenset[Any] = frozenset()
    secondaries: frozenset[Any] = frozenset()
    arbiters: frozenset[Any] = frozenset()
    is_primary = True
    is_mongos = False

    def __init__(self, native: Database, default: str = DEFAULT_DATABASE, **options: Any) -> None:
        """
        Args:
            default: The database with the native tables as its collections.
            options: The options of PyMongo's client for encoding and decoding documents.

        Raises:
            ConfigurationError, TypeError, ValueError: An option is invalid.
        """
        super().__init__(None, client_codec(options))
        self.native = native
        self.spaces = Namespaces(session_of(native), call(Names, default))
        self._deployment: Deployment | None = None
        self._lock = Lock()

    @property
    def deployment(self) -> Deployment:
        if self._deployment is None:
            # Imported here because a program that writes and reads needs no commands, and these bring the rest of the dialect.
            from reactdb.dialects.mongodb.commands import Deployment

            with self._lock:
                # A second one would not know the transactions of the first.
                if self._deployment is None:
                    self._deployment = Deployment(self.native, spaces=self.spaces, is_profiled=False)
        return self._deployment

    @property
    def transactions(self) -> Transactions:
        return self.deployment.sessions.transactions

    @property
    def streams(self) -> ChangeStreams:
        return self.deployment.streams

    def __getattr__(self, name: str) -> EmbeddedDatabase:
        if name.startswith("_"):
            raise AttributeError(
                f"EmbeddedClient has no attribute {name!r}: use client[{name!r}] for a database"
            )
        return self[name]

    def __getitem__(self, name: str) -> EmbeddedDatabase:
        return EmbeddedDatabase(self, name)

    def get_database(self, name: str | None = None, *options: Any, **more_options: Any) -> EmbeddedDatabase:
        """A database, which need not have collections yet; without a name, the default one.

        Args:
            options, more_options: Options for its collections in place of the client's: see `with_options` of a database.
        """
        return EmbeddedDatabase(
            self, self.spaces.names.default if name is None else name, *options, **more_options
        )

    def get_default_database(
        self, default: str | None = None, *options: Any, **more_options: Any
    ) -> EmbeddedDatabase:
        """The same."""
        return self.get_database(default, *options, **more_options)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EmbeddedClient):
            return NotImplemented
        return self.native is other.native

    def __hash__(self) -> int:
        return hash(id(self.native))

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("'MongoClient' object is not iterable")

    def __repr__(self) -> str:
        return f"EmbeddedClient({self.native!r})"

    def list_databases(
        self, session: EmbeddedSession | None = None, comment: Any = None, **options: Any
    ) -> EmbeddedCommandCursor:
        """One document per database with collections: `name`, `sizeOnDisk` (not known), `empty`. `options`: as in MongoDB's
        `listDatabases`, such as `filter` and `nameOnly`.
        """
        reply = self["admin"].command({"listDatabases": 1, **options}, session=session)
        return EmbeddedCommandCursor(iter(reply["databases"]))

    def list_database_names(self, session: EmbeddedSession | None = None, comment: Any = None) -> list[str]:
        """The sorted names of the databases with collections."""
        with outside_transaction(session, self, "listDatabases"):
            return call(self.spaces.databases)

    def drop_database(
        self,
        name_or_database: str | EmbeddedDatabase,
        session: EmbeddedSession | None = None,
        comment: Any = None,
    ) -> None:
        """Drop all collections of a database."""
        name = name_or_database.name if isinstance(name_or_database, EmbeddedDatabase) else name_or_database
        if not isinstance(name, str):
            raise TypeError(f"name_or_database must be an instance of str or a Database, not {type(name)}")
        check_database_spelling(name)
        with outside_transaction(session, self, "dropDatabase"):
            call(self.spaces.drop_database, name)

    def server_info(self, session: EmbeddedSession | None = None) -> Any:
        """The reply of `buildInfo`: `version` is the emulated version of MongoDB."""
        return self["admin"].command("buildInfo", session=session)

    def start_session(
        self,
        causal_consistency: bool | None = None,
        default_transaction_options: Any = None,
        snapshot: bool | None = False,
    ) -> EmbeddedSession:
        """A session, for transactions; or with `snapshot`, for reads of one moment.

        Raises:
            ConfigurationError, TypeError: The options are not valid in PyMongo.
        """
        options = driver.SessionOptions(causal_consistency, default_transaction_options, snapshot)
        return EmbeddedSession(self, options)

    def watch(self, pipeline: Any = None, *arguments: Any, **options: Any) -> EmbeddedChangeStream:
        """A change stream of all databases."""
        # Imported here because most programs watch nothing.
        from reactdb.dialects.mongodb.embedded.change_stream import watch

        return watch(self, self._codec, None, pipeline, *arguments, **options)

    def changes(self, pipeline: Any = None, **options: Any) -> Observable[dict[str, Any]]:
        """The events of `watch` as an observable."""
        from reactdb.dialects.mongodb.embedded.observable import changes

        return changes(self.streams, self._codec, None, pipeline, **options)

    def close(self) -> None:
        """Does nothing: the caller of `reactdb.connect` closes the file."""

    def __enter__(self) -> EmbeddedClient:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
