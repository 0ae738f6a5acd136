"""DocumentWriter: the statements of write commands, applied to one collection in a target.

    DocumentWriter(target, table, namespace)
        .insert(stored, document)           a prepared document (its key and its bytes)
        .update(UpdateStatement(...))       drivers' statements of `q`, `u`, `multi`, `upsert` ..., compiled
        .delete(Delete(...))
        .find_and_modify(Modify(...))

An error in one document ends its statement: earlier writes of the statement stay, as in MongoDB. A document that would not
change, including the order of its fields, counts as matched and is not written.

Rule of this file: it is called under the write lock, or for a target with buffered writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import nsmallest
from itertools import islice, starmap
from typing import Any, Final, NamedTuple

from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from reactdb.change import DELETE, INSERT, REPLACE, UPDATE
from reactdb.dialects.mongodb.collation import text_key
from reactdb.dialects.mongodb.entries import body_of, document_of, meta_of
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.find import FilterSelection, projection_of, select
from reactdb.dialects.mongodb.hint import HintedIndex, IndexWalk
from reactdb.dialects.mongodb.indexes import (
    check_native_unique,
    check_unique,
    duplicate_key,
    indexes_of,
    native_unique,
)
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.natural import drop_place, keep_places, needs_places
from reactdb.dialects.mongodb.rules import write_options
from reactdb.dialects.mongodb.sort import Order
from reactdb.dialects.mongodb.targets import Target
from reactdb.dialects.mongodb.updates import Applied, Update
from reactdb.dialects.mongodb.values import is_document
from reactdb.store.catalogue import TableInfo

__all__ = ["Delete", "DocumentWriter", "Modify", "UpdateOutcome", "UpdateStatement", "with_id"]

Document = dict[str, Any]
ID: Final = "_id"


def with_id(document: Document) -> Document:
    """The document with its `_id` first; a missing `_id` is made. If nothing has to change, it is the same object."""
    if ID not in document:
        return {ID: ObjectId(), **document}
    return document if next(iter(document)) == ID else {ID: document[ID], **document}


class UpdateStatement:
    """One checked statement of `update`.

    Attributes:
        selection: The filter.
        change: The update.
        is_multi: It updates all matching documents, and not only the first.
        is_upsert: It inserts a document if none matches.
        hint: The index to search, in its order; None for the collection's own order.
    """

    def __init__(
        self,
        q: Mapping[str, Any],
        u: Any,
        *,
        multi: bool = False,
        upsert: bool = False,
        array_filters: Any = None,
        collation: Any = None,
        sort: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        hint: HintedIndex | None = None,
        tick: Callable[[], Timestamp] | None = None,
    ) -> None:
        """`tick`: a function for the timestamps of `$currentDate`.

        Raises:
            MongoError: It is invalid for any document.
        """
        self.hint = hint
        self.selection = FilterSelection(q, variables=variables, collation=collation)
        self.change = Update(u, array_filters, collation, variables=variables, tick=tick)
        # Only a `$` in a path needs the array element that the filter matched.
        self._is_positional = is_document(u) and any(
            "$" in path for fields in u.values() if is_document(fields) for path in fields
        )
        self.is_multi = bool(multi)
        self.is_upsert = bool(upsert)
        self.sort = Order(sort, text_key(collation)) if sort else None
        if self.is_multi and self.change.is_replacement:
            raise MongoError(9, "multi update is not supported for replacement-style update")
        if self.is_multi and sort:
            raise MongoError(9, "Cannot specify sort with multi=true")

    def apply(self, document: Document) -> Applied:
        """The result of the update for a matching document."""
        matched = self.selection.filter if self._is_positional else None
        return self.change.apply(document, matched_filter=matched)


class Delete:
    """One checked statement of `delete`."""

    def __init__(
        self,
        q: Mapping[str, Any],
        *,
        is_multi: bool = True,
        collation: Any = None,
        variables: Mapping[str, Any] | None = None,
        hint: HintedIndex | None = None,
    ) -> None:
        """Errors as for `UpdateStatement`."""
        self.hint = hint
        self.selection = FilterSelection(q, variables=variables, collation=collation)
        self.is_multi = is_multi


class Modify:
    """A findAndModify, checked.

    Attributes:
        change: None if the document is removed.
    """

    def __init__(
        self,
        query: Mapping[str, Any] | None,
        *,
        update: Any = None,
        remove: bool = False,
        new: bool = False,
        upsert: bool = False,
        sort: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        array_filters: Any = None,
        collation: Any = None,
        variables: Mapping[str, Any] | None = None,
        hint: HintedIndex | None = None,
        tick: Callable[[], Timestamp] | None = None,
    ) -> None:
        """Errors as for `UpdateStatement`; 9, it has both an update and a removal, or neither."""
        query = query or {}
        if remove and update is not None:
            raise MongoError(9, "Cannot specify both an update and remove=true")
        if remove and upsert:
            raise MongoError(9, "Cannot specify both upsert=true and remove=true")
        if remove and new:
            raise MongoError(
                9,
                "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document",
            )
        if not remove and update is None:
            raise MongoError(9, "Either an update or remove=true must be specified")
        self.hint = hint
        self.statement: UpdateStatement | None = None
        if remove:
            self.selection = FilterSelection(query, variables=variables, collation=collation)
        else:
            self.statement = UpdateStatement(
                query,
                update,
                upsert=upsert,
                array_filters=array_filters,
                collation=collation,
                variables=variables,
                tick=tick,
            )
            self.selection = self.statement.selection
        self.is_new = new
        self.sort = Order(sort, text_key(collation)) if sort else None
        text = text_key(collation)
        self.projection = projection_of(fields, variables, text) if fields else None


class UpdateOutcome(NamedTuple):
    """The result of an update.

    Attributes:
        matched, modified: The numbers of documents.
        upserted: A list with the `_id` of the inserted document; None without one.
        before, after: The last processed document.
    """

    matched: int
    modified: int
    upserted: list[Any] | None = None
    before: Document | None = None
    after: Document | None = None


class Found(NamedTuple):
    """A document of a statement.

    Attributes:
        head: Its seq and bytes, if it was read by its key; None: they must be looked up.
    """

    key: bytes
    document: Document
    head: tuple[int, bytes] | None = None


class DocumentWriter:
    """See the head of this file."""

    def __init__(
        self, target: Target, table: TableInfo, namespace: MongoNamespace, *, bypasses: bool = False
    ) -> None:
        """`bypasses`: the collection's validator is skipped."""
        self._bypasses = bypasses
        self.target = target
        self.table = table
        self.namespace = namespace
        self._indexes = indexes_of(table) if table.indexes else []
        self._unique = [index for index in self._indexes if index.refuses]
        self._native_unique = native_unique(table) if table.indexes else []

    # -----------------------------------------------------------------------------------------------------------
    # insert

    def insert(self, stored: tuple[bytes, bytes], document: Mapping[str, Any]) -> None:
        """Insert a document.

        Args:
            stored: The key, and the encoded document.
            document: The same document, decoded, for an error about its `_id`.

        Raises:
            MongoError: 11000, its key is taken; 121, the validator refuses it.
        """
        key, body = stored
        if self.target.head(self.table, key) is not None:
            raise self.duplicate_id_error(document[ID])
        has_place = needs_places(self.target, self.table, (key,))
        self._put(key, INSERT, None, body, None)
        if has_place:
            keep_places(self.target, self.table, (key,))

    def duplicate_id_error(self, id: Any) -> MongoError:
        """The error for a duplicate `_id`."""
        return duplicate_key(self.namespace, "_id_", {ID: 1}, {ID: id})

    def _put(
        self, key: bytes, kind: int, old: tuple[int, bytes] | None, body: bytes | None, description: Any
    ) -> None:
        if body is not None and self._unique:
            check_unique(self.target, self.table, self._unique, self.namespace, key, body)
        if body is not None and self._native_unique:
            check_native_unique(self.target, self._native_unique, self.namespace, key, body)
        meta = None if description is None else meta_of(description)
        self._write(key, kind, old, body, meta)

    def _write(
        self, key: bytes, kind: int, old: tuple[int, bytes] | None, body: bytes | None, meta: bytes | None
    ) -> None:
        options = write_options(self.table, meta, bypasses=self._bypasses)
        self.target.write(self.table, key, kind, old, body, asked=options, meta=meta)

    # -----------------------------------------------------------------------------------------------------------
    # update

    def update(self, statement: UpdateStatement) -> UpdateOutcome:
        """
        Raises:
            MongoError: The statement is invalid, or a document fails; documents before it stay written.
        """
        rows = self._rows(statement.selection, statement.hint, statement.sort, is_multi=statement.is_multi)
        if not rows and statement.is_upsert:
            return self._upsert(statement)
        modified = 0
        before = after = None
        for row in rows:
            before, after = row.document, self._change(statement, row)
            modified += after is not before
        return UpdateOutcome(len(rows), modified, None, before, after)

    def _rows(
        self, selection: FilterSelection, hint: HintedIndex | None, sort: Order | None, *, is_multi: bool
    ) -> list[Found]:
        """The documents of a statement. All reads come before the first write."""
        key = selection.point
        if key is not None:
            head = self.target.head(self.table, key)
            if head is None:
                return []
            document = document_of(self.table, head[1])
            is_there = selection.key is not None or selection.filter.matches(document)
            is_there = is_there and (hint is None or hint.holds(document))
            return [Found(key, document, head)] if is_there else []
        rows: Iterator[Found] = starmap(
            Found, select(self.target.snapshot(), self.table, self._indexes, selection)
        )
        if hint is not None:
            held = (row for row in rows if hint.holds(row.document))
            rows = IndexWalk(hint, {}).rows(held, lambda row: row.document)
        if is_multi:
            return list(rows)
        if sort is not None:
            return nsmallest(1, rows, key=lambda row: sort.key(row.document))
        return list(islice(rows, 1))

    def _change(self, statement: UpdateStatement, row: Found) -> Document:
        """Replace a document with its changed version; the same object is returned if nothing has changed."""
        key, before, head = row
        old = head or self.target.head(self.table, key)
        assert old is not None
        applied = statement.apply(before)
        new_key, body = body_of(self.table, applied.document, old[1])
        if new_key != key:
            raise MongoError(
                66, "After applying the update, the (immutable) field '_id' was found to have been altered."
            )
        if body == old[1]:
            return before
        kind = REPLACE if applied.is_replacement else UPDATE
        self._put(key, kind, old, body, applied.description)
        after: Document = applied.document
        return after

    def _upsert(self, statement: UpdateStatement) -> UpdateOutcome:
        document = with_id(statement.change.upserted(statement.selection.filter))
        self.insert(body_of(self.table, document), document)
        return UpdateOutcome(0, 0, [document[ID]], None, document)

    # -----------------------------------------------------------------------------------------------------------
    # delete, findAndModify

    def delete(self, statement: Delete) -> int:
        """The number of deleted documents."""
        rows = self._rows(statement.selection, statement.hint, None, is_multi=statement.is_multi)
        for row in rows:
            self.remove(row.key, row.head)
        return len(rows)

    def remove(self, key: bytes, head: tuple[int, bytes] | None = None) -> None:
        """Delete an existing document. `head`: see `Found`."""
        self._write(key, DELETE, head or self.target.head(self.table, key), None, None)
        drop_place(self.target, self.table, key)

    def find_and_modify(self, command: Modify) -> dict[str, Any]:
        """The command's reply: `value` and `lastErrorObject`. Errors as for `update`."""
        rows = self._rows(command.selection, command.hint, command.sort, is_multi=False)
        statement = command.statement
        if statement is None:
            if rows:
                self.remove(rows[0].key, rows[0].head)
            return {
                "lastErrorObject": {"n": len(rows)},
                "value": self._to_document(command, rows[0].document) if rows else None,
            }
        if not rows:
            if not statement.is_upsert:
                return {"lastErrorObject": {"n": 0, "updatedExisting": False}, "value": None}
            made = self._upsert(statement)
            assert made.upserted is not None
            assert made.after is not None
            value = self._to_document(command, made.after) if command.is_new else None
            last_error = {"n": 1, "updatedExisting": False, "upserted": made.upserted[0]}
            return {"lastErrorObject": last_error, "value": value}
        before, after = rows[0].document, self._change(statement, rows[0])
        value = self._to_document(command, after if command.is_new else before)
        return {"lastErrorObject": {"n": 1, "updatedExisting": True}, "value": value}

    def _to_document(self, command: Modify, document: Document) -> Document:
        if command.projection is None:
            return document
        shown: Document = command.projection.apply(document, matched_filter=command.selection.filter)
        return shown
