"""Cursors: the results of a query or a pipeline, one after the other, with PyMongo's manners.

Rule of this file: nothing of a query is read before its first document is asked for, and nothing may be changed from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from bson.code import Code
from pymongo.errors import InvalidOperation

from reactdb.dialects.mongodb.embedded.ahead import Peekable
from reactdb.dialects.mongodb.embedded.raising import call, raising
from reactdb.dialects.mongodb.embedded.shaping import driver_document, fields_document, order_document
from reactdb.dialects.mongodb.embedded.tailing import AWAIT_S, AWAITS, TAILABLE, TailedDocuments
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.tailing import open_tail

__all__ = ["EmbeddedCommandCursor", "EmbeddedCursor"]

Document = dict[str, Any]
C = TypeVar("C", bound="_Results")


class _Results:
    """What both kinds of cursors have."""

    _documents: Iterator[Document] | None
    _is_closed: bool
    _retrieved: int

    def _begun(self) -> Iterator[Document]:
        raise NotImplementedError

    def _goes_on(self, error: BaseException) -> bool:
        """Whether more may come after an error, or an end."""
        return False

    @property
    def alive(self) -> bool:
        """More documents may come. Before the first one of a query is asked for, nobody knows."""
        if self._is_closed or self._documents is None or isinstance(self._documents, TailedDocuments):
            return not self._is_closed
        if not isinstance(self._documents, Peekable):
            self._documents = Peekable(self._documents)
        return self._documents.has_more()

    @property
    def retrieved(self) -> int:
        """How many documents were given."""
        return self._retrieved

    def __iter__(self: C) -> C:
        return self

    def next(self) -> Document:
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
        return driver_document(document)

    __next__ = next

    def try_next(self) -> Document | None:
        """The next document, or None."""
        return next(self, None)

    def to_list(self, length: int | None = None) -> list[Document]:
        """The next `length` documents, or all that are left. Raises: ValueError: `length` is below 1."""
        if length is not None and length < 1:
            raise ValueError("to_list() length must be greater than 0")
        found: list[Document] = []
        while length is None or len(found) < length:
            document = next(self, None)
            if document is None:
                break
            found.append(document)
        return found

    def close(self) -> None:
        """Read no further. A second call does nothing."""
        self._is_closed = True
        self._documents = None

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class EmbeddedCommandCursor(_Results):
    """The results of a pipeline, or a list of indexes or collections."""

    def __init__(self, documents: Iterator[Document]) -> None:
        self._documents = raising(documents)
        self._is_closed = False
        self._retrieved = 0


class EmbeddedCursor(_Results):
    """The results of `find`.

    Attributes:
        collection: The `EmbeddedCollection` where they are from.
        session: The `EmbeddedSession` in which they are read, or None.
    """

    def __init__(
        self,
        collection: Any,
        read: Callable[[Mapping[str, Any]], Iterator[Document]],
        command: Document,
        session: Any = None,
    ) -> None:
        """`read`: gives the documents of a find command."""
        self.collection = collection
        self.session = session
        self._read = read
        self._command = command
        self._documents = None
        self._is_closed = False
        self._retrieved = 0
        self._await_s = AWAIT_S
        self._tailed: TailedDocuments | None = None

    def _begun(self) -> Iterator[Document]:
        if ("min" in self._command or "max" in self._command) and not self._command.get("hint"):
            raise InvalidOperation(
                'Passing a "hint" is required when using the min/max query option to ensure the query utilizes the correct index'
            )
        if not self._command.get("tailable"):
            return raising(call(self._read, self._command))
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

    def max_await_time_ms(self, max_await_time_ms: int | None) -> EmbeddedCursor:
        """How long a cursor that awaits data waits for it; a second, unless it is said."""
        if max_await_time_ms is not None and not isinstance(max_await_time_ms, int):
            raise TypeError(f"max_await_time_ms must be an integer, not {type(max_await_time_ms)}")
        self._await_s = AWAIT_S if max_await_time_ms is None else max_await_time_ms / 1_000
        return self._set("max_await_time_ms", None)

    def _set(self, name: str, value: Any) -> EmbeddedCursor:
        if self._documents is not None or self._is_closed:
            raise InvalidOperation("cannot set options after executing query")
        if value is None:
            self._command.pop(name, None)
        else:
            self._command[name] = value
        return self

    def sort(self, key_or_list: Any, direction: int | None = None) -> EmbeddedCursor:
        """Order by a field, or by a list or a mapping of fields and directions."""
        order = order_document(key_or_list, direction)
        if not order:
            raise ValueError("key_or_list must not be empty")
        return self._set("sort", order)

    def skip(self, skip: int) -> EmbeddedCursor:
        """Leave out the first documents."""
        if not isinstance(skip, int):
            raise TypeError(f"skip must be an instance of int, not {type(skip)}")
        if skip < 0:
            raise ValueError("skip must be >= 0")
        return self._set("skip", skip)

    def limit(self, limit: int) -> EmbeddedCursor:
        """Give at most `limit` documents; 0 for no limit."""
        if not isinstance(limit, int):
            raise TypeError(f"limit must be an instance of int, not {type(limit)}")
        return self._set("limit", abs(limit))

    def hint(self, index: Any) -> EmbeddedCursor:
        """Demand that an index is there."""
        wanted = index if index is None or isinstance(index, str) else order_document(index, None)
        return self._set("hint", wanted)

    def min(self, spec: Any) -> EmbeddedCursor:
        """Begin at these fields of the index that `hint` names: `[("a", 3)]`."""
        return self._bound("min", spec)

    def max(self, spec: Any) -> EmbeddedCursor:
        """End before these fields of the index that `hint` names."""
        return self._bound("max", spec)

    def _bound(self, name: str, spec: Any) -> EmbeddedCursor:
        if not isinstance(spec, (list, tuple)):
            raise TypeError(f"spec must be an instance of list or tuple, not {type(spec)}")
        return self._set(name, dict(spec))

    def collation(self, collation: Any) -> EmbeddedCursor:
        """Compare text by a collation."""
        return self._set("collation", getattr(collation, "document", collation))

    def where(self, code: str | Code) -> EmbeddedCursor:
        """Add a `$where` to the filter, which the dialect refuses."""
        return self._set("filter", {**self._command.get("filter", {}), "$where": code})

    def comment(self, comment: Any) -> EmbeddedCursor:
        """Nothing is done with it."""
        return self._set("comment", comment)

    def batch_size(self, batch_size: int) -> EmbeddedCursor:
        """Without effect: there are no batches in the process."""
        return self._set("batchSize", batch_size)

    def max_time_ms(self, max_time_ms: int | None) -> EmbeddedCursor:
        """Without effect."""
        return self._set("maxTimeMS", max_time_ms)

    def allow_disk_use(self, allow_disk_use: bool) -> EmbeddedCursor:
        """Without effect."""
        return self._set("allowDiskUse", allow_disk_use)

    def distinct(self, key: str) -> list[Any]:
        """The different values of a field in the documents that the filter selects."""
        found: list[Any] = self.collection.distinct(
            key,
            self._command.get("filter"),
            session=self.session,
            collation=self._command.get("collation"),
        )
        return found

    def explain(self) -> Document:
        """How the query would be carried out: the `winningPlan` of its `queryPlanner`."""
        of = self.collection
        find = {"find": of.name, **self._command}
        found: Document = of.database.command(
            {"explain": find, "verbosity": "allPlansExecution"}, session=self.session
        )
        return found

    def clone(self) -> EmbeddedCursor:
        """The same query, from its beginning."""
        return EmbeddedCursor(self.collection, self._read, dict(self._command), self.session)

    __copy__ = clone

    def __deepcopy__(self, _memo: Any) -> EmbeddedCursor:
        return self.clone()

    def rewind(self) -> EmbeddedCursor:
        """Begin again."""
        self.close()
        self._is_closed = False
        self._retrieved = 0
        return self

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            if index.step is not None:
                raise IndexError("Cursor instances do not support slice steps")
            start = index.start or 0
            if start < 0 or (index.stop is not None and index.stop < start):
                raise IndexError(f"stop index must be greater than start index for slice {index!r}")
            self._set("skip", start)
            self._set("limit", 0 if index.stop is None else index.stop - start)
            if index.stop is not None and index.stop == start:
                self.close()
            return self
        if index < 0:
            raise IndexError("Cursor instances do not support negative indices")
        clone = self.clone()
        clone.skip(index + clone._command.get("skip", 0))
        clone.limit(1)
        for document in clone:
            return document
        raise IndexError("no such item for Cursor instance")


_FIND_OPTIONS: Final = frozenset(
    {
        "allow_disk_use",
        "allow_partial_results",
        "batch_size",
        "collation",
        "comment",
        "cursor_type",
        "hint",
        "let",
        "limit",
    }
    | {
        "max",
        "max_await_time_ms",
        "max_scan",
        "max_time_ms",
        "min",
        "oplog_replay",
        "return_key",
        "show_record_id",
        "skip",
    }
    | {"snapshot", "sort"}
)


def find_command(
    filter: Mapping[str, Any] | None,
    projection: Mapping[str, Any] | Sequence[str] | None,
    options: Mapping[str, Any],
) -> Document:
    """The find command of the arguments of `find`."""
    if filter is not None and not isinstance(filter, Mapping):
        raise TypeError(
            f"filter must be an instance of dict, bson.son.SON, or another mapping, not {type(filter)}"
        )
    command: Document = {"filter": {} if filter is None else filter}
    if projection is not None:
        command["projection"] = fields_document(projection)
    for name, value in options.items():
        if name not in _FIND_OPTIONS:
            raise TypeError(f"find() got an unexpected keyword argument '{name}'")
        if value is None:
            continue
        command[_NAMES.get(name, name)] = value
    kind = command.pop("cursor_type", 0)
    if kind & TAILABLE:
        command["tailable"] = True
        if kind & AWAITS:
            command["awaitData"] = True
    if "sort" in command:
        command["sort"] = order_document(command["sort"], None)
    if "limit" in command:
        command["limit"] = abs(command["limit"])
    if "collation" in command:
        command["collation"] = getattr(command["collation"], "document", command["collation"])
    for name in {"min", "max"} & command.keys():
        command[name] = dict(command[name])
    if "hint" in command and not isinstance(command["hint"], str):
        command["hint"] = order_document(command["hint"], None)
    return command


_NAMES = {
    "batch_size": "batchSize",
    "max_time_ms": "maxTimeMS",
    "allow_disk_use": "allowDiskUse",
    "return_key": "returnKey",
    "show_record_id": "showRecordId",
}
