"""Events of change streams, made from entries of the log.

    an entry of a table         insert, update, replace, delete
    of the catalogue            drop, rename; expanded: create, and createIndexes and dropIndexes of native indexes
    of DATABASES                dropDatabase
    of COLLECTIONS              expanded: createIndexes, dropIndexes, modify

If a commit drops a table and gives its name to another table, that is a rename with `dropTarget`, and has one event.

Rule of this file: an event depends on its entry, the names of the tables at that position, and whether it is expanded; so it has
the same token at every read. `images` and `streams` treat a stream's other options.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final, NamedTuple

from bson.binary import UUID_SUBTYPE, Binary
from bson.int64 import Int64
from bson.timestamp import Timestamp

from reactdb.change import (
    CATALOGUE,
    DELETE,
    INDEX_CREATE,
    INDEX_DROP,
    INSERT,
    TABLE_CREATE,
    TABLE_DROP,
    TABLE_RENAME,
    UPDATE,
    Change,
)
from reactdb.dialects.mongodb.capped_collections import is_cut
from reactdb.dialects.mongodb.diff import difference
from reactdb.dialects.mongodb.entries import description_of, document_of, is_too_large, session_of
from reactdb.dialects.mongodb.names import MongoNamespace, Names
from reactdb.dialects.mongodb.namespaces import (
    ID_INDEX,
    MODIFIABLE,
    NATIVE,
    CollectionRecord,
    is_view,
    record_of,
    uuid_of,
)
from reactdb.dialects.mongodb.points import cluster_time
from reactdb.dialects.mongodb.scopes import StreamScope, TableNames
from reactdb.dialects.mongodb.tokens import ENDING, Token, TokenOrigin
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec, collation

Document = dict[str, Any]
NOBODY: Final = sha256(b"").digest()
"""The digest of the user of a session. Users are the server's, and not known here."""
_EPOCH: Final = datetime(1970, 1, 1)


class StreamEvent(NamedTuple):
    """One event, without the additions for a stream's options.

    Attributes:
        first, last: Its fields before and after the place of `fullDocument`.
        change: The entry of its document; None without a document.
        invalidates: It ends streams of its collection or database.
    """

    token: Token
    first: Document
    last: Document
    change: Change | None = None
    invalidates: bool = False

    @property
    def operation(self) -> str:
        kind: str = self.first["operationType"]
        return kind

    def document(self) -> Document:
        """The event document."""
        return {**self.first, **self.last}

    def invalidate(self) -> StreamEvent:
        """The invalidate event after it, which ends the stream."""
        token = self.token._replace(is_invalidate=True)
        first = {
            "_id": token.document(),
            "operationType": "invalidate",
            "clusterTime": self.first["clusterTime"],
            "wallTime": self.first["wallTime"],
        }
        return StreamEvent(token, first, {})


class EventBuilder:
    """A stream's knowledge at its position in the log, for making events.

    Attributes:
        tables: The names of the tables as of the last read change.
        times_changed: The number of changes of these names.
    """

    def __init__(
        self, scope: StreamScope, names: Names, tables: TableNames, database_id: str, *, is_expanded: bool
    ) -> None:
        self.scope = scope
        self.tables = tables
        self.times_changed = 0
        self.is_expanded = is_expanded
        self._names = names
        self._database_id = database_id
        # For the commit being read: dropped tables that make room for a renamed one, by name; tables with a changed row in
        # COLLECTIONS; the first rows of new tables.
        self._making_room: dict[tuple[int, str], int] = {}
        self._rows: dict[tuple[int, int], CollectionRecord] = {}
        # The tables of views that are created and dropped in this commit.
        self._views: set[int] = set()

    def look_ahead(self, changes: Iterable[Change], snapshot: Snapshot) -> None:
        """Note changes of the catalogue, and of rows, before they are read: in whole commits."""
        dropped: dict[tuple[int, str], int] = {}
        self._rows.clear()
        self._views.clear()
        for change in changes:
            fields = change.catalogue
            if fields is None:
                if change.new_bytes is not None and "options" in (row := codec.decode(change.new_bytes)):
                    self._rows.setdefault((change.commit, row["id"]), record_of(change.new_bytes))
                continue
            table = snapshot.catalogue.by_id.get(fields["table_id"])
            if table is not None and is_view(snapshot, table):
                self._views.add(table.id)
            if change.kind_code == TABLE_DROP:
                dropped[change.commit, fields["table"]] = fields["table_id"]
            elif change.kind_code == TABLE_RENAME and (change.commit, fields["new_name"]) in dropped:
                name = (change.commit, fields["new_name"])
                self._making_room[name] = dropped[name]

    def events(self, change: Change, table: TableInfo | None, origin: TokenOrigin) -> list[StreamEvent]:
        """The events of an entry in this scope, in order. Where it is about a table, `tables` is up to date afterwards."""
        if change.table_id == CATALOGUE:
            return self._of_catalogue(change, origin)
        if table is None:
            return []
        if table.owner is not None:
            return self._of_hidden(change, table, origin)
        namespace = self.namespace(change.table_id)
        if namespace is None or change.is_of_meta_alone:
            return []
        if change.kind_code == DELETE and is_cut(change.meta):
            # A capped collection has made room. MongoDB's streams have no event for that.
            return []
        return [self._of_document(change, table, namespace, origin)]

    def namespace(self, table_id: int) -> MongoNamespace | None:
        name = self.tables.get(table_id)
        return None if name is None else self._names.namespace(name)

    # -----------------------------------------------------------------------------------------------------------
    # Documents

    def _of_document(
        self, change: Change, table: TableInfo, namespace: MongoNamespace, origin: TokenOrigin
    ) -> StreamEvent:
        new = None if change.new_bytes is None else document_of(table, change.new_bytes)
        kind = change.kind_code
        last: Document = {"ns": _ns(namespace)}
        more: Document = {}
        if kind == DELETE:
            assert change.old_bytes is not None
            last["documentKey"] = {"_id": document_of(table, change.old_bytes)["_id"]}
            operation = "delete"
        else:
            assert new is not None
            last["documentKey"] = {"_id": new["_id"]}
            operation = "insert" if kind == INSERT else "replace"
            is_shown = change.new_bytes is None or not is_too_large(new, change.new_bytes)
            if kind == UPDATE and is_shown:
                assert change.old_bytes is not None
                description = description_of(change.meta, new) or difference(
                    document_of(table, change.old_bytes), new, is_always=True
                )
                if description is not None:
                    operation = "update"
                    last["updateDescription"] = self._format_description(description)
            if operation != "update":
                # A document that is too large becomes null, so that the stream can go on.
                more = {"fullDocument": new if is_shown else None}
        return self._event(change, origin, operation, change.table_id, last, document=more)

    def _format_description(self, description: Document) -> Document:
        return (
            description
            if self.is_expanded
            else {name: value for name, value in description.items() if name != "disambiguatedPaths"}
        )

    # -----------------------------------------------------------------------------------------------------------
    # The catalogue

    def _of_catalogue(self, change: Change, origin: TokenOrigin) -> list[StreamEvent]:
        fields = change.catalogue
        assert fields is not None
        if "owner" in fields:
            return []
        self.times_changed += 1
        table_id, kind = fields["table_id"], change.kind_code
        before = self._names.namespace(fields["table"])
        if kind == TABLE_CREATE:
            self.tables[table_id] = fields["table"]
            return self._read_create(change, table_id, before, origin)
        if kind == TABLE_DROP:
            self.tables.pop(table_id, None)
            makes_room = (change.commit, fields["table"]) in self._making_room
            is_told = self._reports(before, is_view=table_id in self._views) and not makes_room
            return (
                [self._event(change, origin, "drop", table_id, {"ns": _ns(before)}, part=ENDING)]
                if is_told
                else []
            )
        if kind == TABLE_RENAME:
            self.tables[table_id] = fields["new_name"]
            return self._read_rename(change, before, origin)
        # Indexes of MongoDB's commands have a row.
        has_row = (change.commit, table_id) in self._rows
        if kind in (INDEX_CREATE, INDEX_DROP) and self.is_expanded and self.scope.has(before) and not has_row:
            specification = {"v": 2, "key": {fields["index"]: 1}, "name": fields["index"]}
            operation = "createIndexes" if kind == INDEX_CREATE else "dropIndexes"
            last = {"ns": _ns(before), "operationDescription": {"indexes": [specification]}}
            return [self._event(change, origin, operation, table_id, last)]
        return []

    def _read_create(
        self, change: Change, table_id: int, namespace: MongoNamespace | None, origin: TokenOrigin
    ) -> list[StreamEvent]:
        kept = self._rows.get((change.commit, table_id), NATIVE)
        if not self.is_expanded or not self._reports(namespace, is_view=kept.is_view):
            return []
        last = {
            "ns": _ns(namespace),
            "operationDescription": kept.options
            if kept.is_view
            else {**kept.options, "idIndex": dict(ID_INDEX)},
            "nsType": "view" if kept.is_view else "collection",
        }
        return [self._event(change, origin, "create", table_id, last)]

    def _read_rename(
        self, change: Change, before: MongoNamespace | None, origin: TokenOrigin
    ) -> list[StreamEvent]:
        fields = change.catalogue
        assert fields is not None
        after = self._names.namespace(fields["new_name"])
        target = self._making_room.pop((change.commit, fields["new_name"]), None)
        if before is None or after is None or not (self.scope.has(before) or self.scope.has(after)):
            return []
        last: Document = {"ns": _ns(before)}
        if self.is_expanded:
            last["operationDescription"] = {"to": _ns(after)}
            if target is not None:
                last["operationDescription"]["dropTarget"] = uuid_of(self._database_id, target)
        event = self._event(change, origin, "rename", fields["table_id"], last, part=ENDING)
        return [event._replace(first={"to": _ns(after), **event.first})]

    def _reports(self, namespace: MongoNamespace | None, *, is_view: bool) -> bool:
        """Whether the stream has events about a collection itself. For a view only expanded streams of a database have them."""
        return self.scope.has(namespace) and (
            not is_view or (self.is_expanded and not self.scope.is_collection)
        )

    # -----------------------------------------------------------------------------------------------------------
    # Hidden tables

    def _of_hidden(self, change: Change, table: TableInfo, origin: TokenOrigin) -> list[StreamEvent]:
        body = change.new_bytes
        if body is None:
            return []
        if table.name == "databases":
            db = collation.key_value(change.key_bytes)
            if self.scope.is_collection or not self.scope.has(MongoNamespace(db)):
                return []
            return [self._event(change, origin, "dropDatabase", None, {"ns": {"db": db}}, part=ENDING)]
        table_id = collation.key_value(change.key_bytes)
        namespace = self.namespace(table_id)
        new = record_of(body)
        if not self.is_expanded or not self._reports(namespace, is_view=new.is_view):
            return []
        return self._read_modification(change, table_id, namespace, new, origin)

    def _read_modification(
        self,
        change: Change,
        table_id: int,
        namespace: MongoNamespace | None,
        new: CollectionRecord,
        origin: TokenOrigin,
    ) -> list[StreamEvent]:
        old = NATIVE if change.old_bytes is None else record_of(change.old_bytes)
        parts: list[tuple[str, Document]] = []
        for operation, there, missing in (("createIndexes", new, old), ("dropIndexes", old, new)):
            indexes = [
                one for one in there.indexes if one["name"] not in {two["name"] for two in missing.indexes}
            ]
            if indexes:
                parts.append((operation, {"operationDescription": {"indexes": indexes}}))
        changed = [
            one for one in new.indexes for two in old.indexes if one["name"] == two["name"] and one != two
        ]
        if change.kind_code != INSERT and (old.times_modified != new.times_modified or changed):
            before: Document = {
                "collectionOptions": {"uuid": uuid_of(self._database_id, table_id), **old.options}
            }
            now = dict(new.modified) if old.times_modified != new.times_modified else {}
            if changed:
                (one,) = changed
                other = next(two for two in old.indexes if two["name"] == one["name"])
                options = [name for name in MODIFIABLE if one.get(name) != other.get(name)]
                # An index without the field is not hidden.
                was, became = {"hidden": False, **other}, {"hidden": False, **one}
                before["indexOptions"] = {name: was[name] for name in options if name in was}
                shown = {name: became[name] for name in options if name in became}
                now["index"] = {"name": one["name"], **shown}
            parts.append(("modify", {"operationDescription": now, "stateBeforeChange": before}))
        return [
            self._event(change, origin, operation, table_id, {"ns": _ns(namespace), **last}, part=part)
            for part, (operation, last) in enumerate(parts)
        ]

    # -----------------------------------------------------------------------------------------------------------

    def _event(
        self,
        change: Change,
        origin: TokenOrigin,
        operation: str,
        table_id: int | None,
        last: Document,
        part: int = 0,
        document: Document | None = None,
    ) -> StreamEvent:
        """
        Args:
            last: The last fields.
            part: Its place among the events of the entry.
            document: For an entry of a document, the fields with the whole document; else None.
        """
        seconds, increment = cluster_time(change)
        uuid = None if table_id is None else uuid_of(self._database_id, table_id)
        step = change.seq - change.commit
        token = Token(
            seconds, increment, True, step, part, False, 0, None if uuid is None else bytes(uuid), origin
        )
        first: Document = {
            "_id": token.document(),
            "operationType": operation,
            "clusterTime": Timestamp(seconds, increment),
        }
        session = session_of(change.meta)
        if session is not None:
            first["lsid"] = {"id": Binary(session[0], UUID_SUBTYPE), "uid": NOBODY}
            first["txnNumber"] = Int64(session[1])
        if self.is_expanded and uuid is not None:
            first["collectionUUID"] = uuid
        first["wallTime"] = _EPOCH + timedelta(milliseconds=change.time)
        if document is not None:
            first.update(document)
        document_change = None if document is None else change
        return StreamEvent(token, first, last, document_change, token.may_end and self.scope.ends(token.uuid))


def _ns(namespace: MongoNamespace | None) -> Document:
    assert namespace is not None
    return {"db": namespace.db, "coll": namespace.coll}
