"""Cursors: the results of a query or a pipeline, one after the other, with PyMongo's interface.

Rule of this file: a query begins with the read of its first document, and cannot be changed from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from bson.code import Code

from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.embedded.ahead import Peekable
from reactdb.dialects.mongodb.embedded.argument_checks import check_count, collation_document
from reactdb.dialects.mongodb.embedded.codecs import PLAIN, Codec
from reactdb.dialects.mongodb.embedded.documents import hint_document, index_document
from reactdb.dialects.mongodb.embedded.errors import call, convert_errors
from reactdb.dialects.mongodb.embedded.find import AWAITS, EXHAUST, TAILABLE, check_find, find_command
from reactdb.dialects.mongodb.embedded.tailable import AWAIT_S, TailedDocuments
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.tailable import open_tail

__all__ = ["EmbeddedCommandCursor", "EmbeddedCursor"]

Document = dict[str, Any]
C = TypeVar("C", bound="_Results")


class _Results:
    """The common part of both kinds of cursors."""

    _documents: Iterator[Document] | None
    _is_closed: bool
    _retrieved: int
    _read_document: Callable[[Document], Any]

    def _begun(self) -> Iterator[Document]:
        raise NotImplementedError

    def _goes_on(self, error: BaseException) -> bool:
        """Whether more may come after an error, or an end."""
        return False

    @property
    def alive(self) -> bool:
        """More documents may come. Before the first document of a query it is true."""
        if self._is_closed or self._documents is None or isinstance(self._documents, TailedDocuments):
            return not self._is_closed
        if not isinstance(self._documents, Peekable):
            self._documents = Peekable(self._documents)
        return self._documents.has_more()

    @property
    def retrieved(self) -> int:
        """The number of documents so far."""
        return self._retrieved

    def __iter__(self: C) -> C:
        return self

    def next(self) -> Any:
        """The next document. Raises: StopIteration: There are no more."""
        if self._is_closed:
            raise StopIteration
        if self._documents is None:
            self._documents = self._begun()
        try:
            document = next(self._documents)
        except BaseException as error:
            if not self._goes_on(error):
                self.close()
            raise
        self._retrieved += 1
        return self._read_document(document)

    __next__ = next

    def try_next(self) -> Any:
        """The next document, or None."""
        return next(self, None)

    def to_list(self, length: int | None = None) -> list[Any]:
        """The next `length` documents, or all remaining ones. Raises: TypeError, ValueError: `length` is no number from 1 on."""
        if not isinstance(length, int | None):
            raise TypeError(f"length must be an integer or None, not {type(length)}")
        if length is not None and length < 1:
            raise ValueError("to_list() length must be greater than 0")
        documents: list[Any] = []
        while length is None or len(documents) < length:
            document = next(self, None)
            if document is None:
                break
            documents.append(document)
        return documents

    def close(self) -> None:
        """Read no further. A second call does nothing."""
        self._is_closed = True
        self._documents = None

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class EmbeddedCommandCursor(_Results):
    """The results of a pipeline, or a list of indexes or collections.

    Attributes:
        session: The `EmbeddedSession` of the reads, or None.
        address, cursor_id: None and 0: there is no server.
    """

    address = None
    cursor_id = 0

    def __init__(
        self, documents: Iterator[Any], read: Callable[[Any], Any] = PLAIN.read, session: Any = None
    ) -> None:
        """`read`: the conversion of a document."""
        self.session = session
        self._documents = convert_errors(documents)
        self._read_document = read
        self._is_closed = False
        self._retrieved = 0

    def batch_size(self, batch_size: int) -> EmbeddedCommandCursor:
        """Without effect: there are no batches in the process."""
        check_count("batch_size", batch_size, least=0)
        return self


class EmbeddedCursor(_Results):
    """The results of `find`.

    Attributes:
        collection: Its `EmbeddedCollection`.
        session: The `EmbeddedSession` of the reads, or None.
        address, cursor_id: None: there is no server.
    """

    address = None
    cursor_id = None

    def __init__(
        self,
        collection: Any,
        read: Callable[[Any, Mapping[str, Any]], Iterator[Document]],
        codec: Codec,
        *arguments: Any,
        session: Any = None,
        **options: Any,
    ) -> None:
        """
        Args:
            read: Returns the documents of a find command in a session.
            codec: The conversion of arguments to BSON, and of documents.
            arguments, options: As in `find`.

        Raises:
            TypeError, ValueError: As PyMongo.
        """
        self.collection = collection
        self.session = session
        self._read = read
        self._codec = codec
        self._read_document = codec.read
        self._command = find_command(codec, *arguments, **options)
        self._documents = None
        self._is_closed = False
        self._is_empty = False
        self._retrieved = 0
        self._await_s = AWAIT_S
        self._tailed: TailedDocuments | None = None

    def _begun(self) -> Iterator[Document]:
        check_find(self._command, self._codec)
        if self._is_empty:
            return iter(())
        if not self._command.get("tailable"):
            return convert_errors(call(self._read, self.session, self._command))
        client = self.collection.database.client
        namespace = MongoNamespace(self.collection.database.name, self.collection.name)
        wait_s = self._await_s if self._command.get("awaitData") else 0.0
        tail = call(open_tail, client.spaces, namespace, self._command, self._command.get("collation"))
        self._tailed = TailedDocuments(tail, client.streams.wakers, wait_s)
        return self._tailed

    def _goes_on(self, error: BaseException) -> bool:
        return isinstance(error, StopIteration) and self._tailed is not None and not self._tailed.is_over

    def close(self) -> None:
        """Read no further. A second call does nothing."""
        super().close()
        if self._tailed is not None:
            self._tailed.close()

    # -----------------------------------------------------------------------------------------------------------
    # The query's options, which can be set only before the first document

    def _set(self, name: str, value: Any) -> EmbeddedCursor:
        """Set a field of the command, or leave it out for None."""
        if self._retrieved or self._documents is not None or self._is_closed:
            raise driver.InvalidOperation("cannot set options after executing query")
        if value is None:
            self._command.pop(name, None)
        else:
            self._command[name] = value
        return self

    def add_option(self, mask: int) -> EmbeddedCursor:
        """Set flags of PyMongo's `CursorType`."""
        return self._set_flags(mask, True)

    def remove_option(self, mask: int) -> EmbeddedCursor:
        """Take flags of PyMongo's `CursorType` back."""
        return self._set_flags(mask, None)

    def _set_flags(self, mask: int, value: bool | None) -> EmbeddedCursor:
        if not isinstance(mask, int):
            raise TypeError(f"mask must be an int, not {type(mask)}")
        self._set("exhaust", None)
        if value and mask & EXHAUST and self._command.get("limit"):
            raise driver.InvalidOperation("Can't use limit and exhaust together.")
        for flag, name in ((TAILABLE, "tailable"), (AWAITS, "awaitData")):
            if mask & flag:
                self._set(name, value)
        return self

    def sort(self, key_or_list: Any, direction: int | str | None = None) -> EmbeddedCursor:
        """Order by a field, or by a list or a mapping of fields and directions."""
        return self._set("sort", index_document(key_or_list, direction))

    def skip(self, skip: int) -> EmbeddedCursor:
        """Leave out the first documents."""
        check_count("skip", skip, least=0)
        return self._set("skip", skip)

    def limit(self, limit: int) -> EmbeddedCursor:
        """Give at most `limit` documents; 0 for no limit."""
        check_count("limit", limit)
        self._set("limit", abs(limit))
        self._is_empty = False
        return self

    def hint(self, index: Any) -> EmbeddedCursor:
        """Require an index, and read its documents in its order."""
        return self._set("hint", hint_document(index) or None)

    def min(self, spec: Any) -> EmbeddedCursor:
        """Begin at these fields of the hinted index: `[("a", 3)]`."""
        return self._bound("min", spec)

    def max(self, spec: Any) -> EmbeddedCursor:
        """End before these fields of the hinted index."""
        return self._bound("max", spec)

    def _bound(self, name: str, spec: Any) -> EmbeddedCursor:
        if not isinstance(spec, (list, tuple)):
            raise TypeError(f"spec must be an instance of list or tuple, not {type(spec)}")
        return self._set(name, self._codec.given(dict(spec)) or None)

    def collation(self, collation: Any) -> EmbeddedCursor:
        """Compare text by a collation."""
        return self._set("collation", collation_document(collation))

    def where(self, code: str | Code) -> EmbeddedCursor:
        """Add a `$where` to the filter. The dialect refuses it."""
        return self._set("filter", {**self._command["filter"], "$where": Code(code)})

    def max_await_time_ms(self, max_await_time_ms: int | None) -> EmbeddedCursor:
        """The longest wait of a cursor that awaits data; a second by default."""
        _check_ms("max_await_time_ms", max_await_time_ms)
        self._set("maxAwaitTimeMS", None)
        self._await_s = AWAIT_S if max_await_time_ms is None else max_await_time_ms / 1_000
        return self

    def comment(self, comment: Any) -> EmbeddedCursor:
        """Nothing is done with it."""
        return self._set("comment", comment)

    def batch_size(self, batch_size: int) -> EmbeddedCursor:
        """The number of documents of a transaction that can be read after its end. There are no batches in the process."""
        check_count("batch_size", batch_size, least=0)
        return self._set("batchSize", batch_size or None)

    def max_time_ms(self, max_time_ms: int | None) -> EmbeddedCursor:
        """Without effect."""
        _check_ms("max_time_ms", max_time_ms)
        return self._set("maxTimeMS", max_time_ms)

    def max_scan(self, max_scan: int | None) -> EmbeddedCursor:
        """An option of older versions of MongoDB, which MongoDB refuses."""
        return self._set("maxScan", max_scan or None)

    def allow_disk_use(self, allow_disk_use: bool) -> EmbeddedCursor:
        """Without effect."""
        if not isinstance(allow_disk_use, bool):
            raise TypeError(f"allow_disk_use must be a bool, not {type(allow_disk_use)}")
        return self._set("allowDiskUse", allow_disk_use)

    # -----------------------------------------------------------------------------------------------------------

    def distinct(self, key: str) -> list[Any]:
        """The distinct values of a field in the matching documents."""
        values: list[Any] = self.collection.distinct(
            key,
            self._command.get("filter"),
            session=self.session,
            collation=self._command.get("collation"),
        )
        return values

    def explain(self) -> Document:
        """The plan of the query: the `winningPlan` of its `queryPlanner`."""
        of = self.collection
        find = {"find": of.name, **self._command}
        reply: Document = of.database.command(
            {"explain": find, "verbosity": "allPlansExecution"}, session=self.session
        )
        return reply

    def clone(self) -> EmbeddedCursor:
        """The same query, from its beginning."""
        cursor = type(self)(self.collection, self._read, self._codec, session=self.session)
        cursor._command = dict(self._command)
        cursor._await_s = self._await_s
        cursor._is_empty = self._is_empty
        return cursor

    __copy__ = clone

    def __deepcopy__(self, _memo: Any) -> EmbeddedCursor:
        return self.clone()

    def rewind(self) -> EmbeddedCursor:
        """Begin again."""
        self.close()
        self._is_closed = False
        self._retrieved = 0
        self._tailed = None
        return self

    def __getitem__(self, index: int | slice) -> Any:
        self._set("slice", None)
        if isinstance(index, slice):
            return self._apply_slice(index)
        if not isinstance(index, int):
            raise TypeError(f"index {index!r} cannot be applied to Cursor instances")
        if index < 0:
            raise IndexError("Cursor instances do not support negative indices")
        clone = (
            self.clone().skip(index + self._command.get("skip", 0)).limit(1).remove_option(TAILABLE | AWAITS)
        )
        for document in clone:
            return document
        raise IndexError("no such item for Cursor instance")

    def _apply_slice(self, index: slice) -> EmbeddedCursor:
        if index.step is not None:
            raise IndexError("Cursor instances do not support slice steps")
        start = index.start or 0
        if start < 0:
            raise IndexError("Cursor instances do not support negative indices")
        most = 0 if index.stop is None else index.stop - start
        if most < 0:
            raise IndexError(f"stop index must be greater than start index for slice {index!r}")
        self.skip(start).limit(most)
        # A limit of 0 is none.
        self._is_empty = index.stop is not None and not most
        return self


def _check_ms(name: str, value: Any) -> None:
    """
    Raises:
        TypeError: It is neither a number nor None.
    """
    if not isinstance(value, int | None):
        raise TypeError(f"{name} must be an integer or None, not {type(value)}")
