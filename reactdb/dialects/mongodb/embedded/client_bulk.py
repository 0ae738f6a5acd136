"""Bulk writes of a client: PyMongo's requests to any number of collections as one command, and their results.

    client.bulk_write([InsertOne({...}, namespace="shop.orders"), DeleteOne({...}, namespace="shop.stock")])

Rule of this file: all of it is one commit, or a part of the session's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pymongo.errors import ClientBulkWriteException, InvalidOperation, OperationFailure
from pymongo.results import ClientBulkWriteResult, DeleteResult, InsertOneResult, UpdateResult

from reactdb.dialects.mongodb.bulk_writing import bulk_write
from reactdb.dialects.mongodb.embedded.checking import check_replacement, check_update, identified
from reactdb.dialects.mongodb.embedded.codecs import Codec
from reactdb.dialects.mongodb.embedded.shaping import hint_document, order_document
from reactdb.dialects.mongodb.embedded.statements import (
    Session,
    carried_out,
    session_of,
    spaces_of,
    transaction_of,
)

__all__ = ["ClientBulk"]

Document = dict[str, Any]


class _Asked(NamedTuple):
    """A request: the same as the command has it, and as errors show it."""

    kind: str
    operation: Document
    id: Any


class ClientBulk:
    """The requests of one bulk write of a client. It is what PyMongo's requests add themselves to."""

    def __init__(self, models: Sequence[Any], codec: Codec) -> None:
        """`codec`: that of the client.

        Raises:
            TypeError: They are no list, or one of them is no request. InvalidOperation: There are none, or one names no
                collection. ValueError: One is no update, or no replacement.
        """
        if not isinstance(models, list):
            raise TypeError(f"models must be a list, not {type(models)}")
        self._codec = codec
        self._asked: list[_Asked] = []
        self._places: dict[str, int] = {}
        for model in models:
            add = getattr(model, "_add_to_client_bulk", None)
            if add is None:
                raise TypeError(f"{model!r} is not a valid request")
            add(self)
        if not self._asked:
            raise InvalidOperation("No operations to execute")

    def add_insert(self, namespace: str, document: Any) -> None:
        id = identified(document)
        operation = {"insert": self._place(namespace), "document": self._codec.given(document)}
        self._asked.append(_Asked("insert", operation, id))

    def add_update(
        self,
        namespace: str,
        selector: Any,
        update: Any,
        multi: bool,
        upsert: bool | None = None,
        collation: Any = None,
        array_filters: Any = None,
        hint: Any = None,
        sort: Any = None,
    ) -> None:
        check_update(update)
        mods = self._codec.given_any(update, "update")
        operation = {
            "update": self._place(namespace),
            "filter": self._codec.given(selector),
            "updateMods": mods,
        }
        operation["multi"] = multi
        if array_filters is not None:
            operation["arrayFilters"] = [self._codec.given(one) for one in array_filters]
        self._add("update", operation, upsert, collation, hint, sort)

    def add_replace(
        self,
        namespace: str,
        selector: Any,
        replacement: Any,
        upsert: bool | None = None,
        collation: Any = None,
        hint: Any = None,
        sort: Any = None,
    ) -> None:
        check_replacement(replacement)
        operation = {"update": self._place(namespace), "filter": self._codec.given(selector)}
        operation |= {"updateMods": self._codec.given(replacement), "multi": False}
        self._add("update", operation, upsert, collation, hint, sort)

    def add_delete(
        self, namespace: str, selector: Any, multi: bool, collation: Any = None, hint: Any = None
    ) -> None:
        operation = {"delete": self._place(namespace), "filter": self._codec.given(selector), "multi": multi}
        self._add("delete", operation, None, collation, hint, None)

    def _add(
        self, kind: str, operation: Document, upsert: bool | None, collation: Any, hint: Any, sort: Any
    ) -> None:
        if upsert is not None:
            operation["upsert"] = upsert
        if hint is not None:
            operation["hint"] = hint_document(hint)
        if collation is not None:
            operation["collation"] = collation
        if sort is not None:
            operation["sort"] = order_document(sort)
        self._asked.append(_Asked(kind, operation, None))

    def _place(self, namespace: str) -> int:
        return self._places.setdefault(namespace, len(self._places))

    def execute(
        self,
        client: Any,
        session: Session,
        *,
        ordered: bool,
        is_verbose: bool,
        bypasses: bool,
        variables: Mapping[str, Any] | None,
    ) -> ClientBulkWriteResult:
        """Carry them out; with `ordered`, until one fails.

        Raises:
            ClientBulkWriteException: Some failed, or nothing could be carried out.
        """
        session = session_of(session, client)
        transaction = transaction_of(session)
        full: Document = {"anySuccessful": False, "error": None, "writeErrors": [], "writeConcernErrors": []}
        full |= dict.fromkeys(("nInserted", "nUpserted", "nMatched", "nModified", "nDeleted"), 0)
        full |= {f"{kind}Results": {} for kind in _RESULTS}
        try:
            results, counts = carried_out(
                session,
                bulk_write,
                spaces_of(session, client, "bulkWrite"),
                [one.operation for one in self._asked],
                [{"ns": namespace} for namespace in self._places],
                ordered=ordered,
                variables=variables,
                transaction=transaction,
                bypasses=bypasses,
            )
        except OperationFailure as error:
            full["error"] = error
            raise ClientBulkWriteException(full, is_verbose) from error
        full |= {name: counts[name] for name in full if name in counts}
        full["anySuccessful"] = counts["nErrors"] < len(self._asked)
        for result in results:
            asked = self._asked[result["idx"]]
            if not result["ok"]:
                full["writeErrors"].append({**result, "op": asked.operation})
            elif is_verbose:
                full[f"{asked.kind}Results"][result["idx"]] = _RESULTS[asked.kind](result, asked)
        if full["writeErrors"]:
            raise ClientBulkWriteException(full, is_verbose)
        return ClientBulkWriteResult(full, True, is_verbose)


_RESULTS: dict[str, Callable[[Document, _Asked], Any]] = {
    "insert": lambda result, asked: InsertOneResult(asked.id, True),
    "update": lambda result, asked: UpdateResult(result, True, in_client_bulk=True),
    "delete": lambda result, asked: DeleteResult(result, True),
}
