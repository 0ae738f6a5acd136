"""Resources: read, made, replaced, patched and deleted, each with its version.

    Resource(body, version, time)      an existing resource
    Writing(transaction)               writes in one transaction; several writes are one commit

A version is the seq of the last change. `If-Match` makes a write depend on it: a writer with an older version is refused.

Rule of this file: one snapshot or one transaction, which `aidbox` opens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from reactdb.budget import spend_bytes
from reactdb.change import DELETE, INSERT, REPLACE
from reactdb.dialects.aidbox.errors import AidboxError
from reactdb.dialects.aidbox.fhir import meta_of
from reactdb.dialects.aidbox.names import check_id, check_type, document_of, keys_of, resource_of
from reactdb.dialects.aidbox.patch import apply_patch
from reactdb.documents.write import Stored, Write
from reactdb.errors import InvalidDocument, ResourceLimit, UsageError
from reactdb.identifiers import new_key
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot, read_document
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec, collation


class Resource(NamedTuple):
    """An existing resource.

    Attributes:
        type: Its resource type.
        fields: Its content, with `id`, without its type.
        version: The seq of its last change.
        time: The time of that change, in milliseconds since 1970; None if the log no longer has it.
    """

    type: str
    fields: dict[str, Any]
    version: int
    time: int | None

    @property
    def body(self) -> dict[str, Any]:
        """As Aidbox shows it."""
        meta = meta_of(self.fields, self.version, self.time)
        rest = {name: value for name, value in self.fields.items() if name not in ("id", "meta")}
        return {"resourceType": self.type, "id": self.fields["id"], "meta": meta, **rest}

    @property
    def etag(self) -> str:
        return etag_of(self.version)


class Written(NamedTuple):
    """The result of a write.

    Attributes:
        event: created, updated, deleted; or unchanged, if the resource was equal.
        type, key: The resource's.
        fields: Its content, or its last content before it was deleted.
        version: The seq of its last change; after a deletion the seq of that.
    """

    event: str
    type: str
    key: bytes
    fields: dict[str, Any]
    version: int


_VERSION: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


def etag_of(version: int) -> str:
    return f'W/"{version}"'


def version_of(etag: str) -> int | None:
    """The version of an ETag; None if it has none. The quotation marks may be left out."""
    text = etag.strip().removeprefix("W/").strip('"')
    return int(text) if _VERSION.fullmatch(text) else None


def read_resource(snapshot: Snapshot, table: TableInfo, id: str) -> Resource:
    """
    Raises:
        AidboxError: 404, it does not exist; 410, it was deleted.
    """
    is_deleted = False
    for key in keys_of(id):
        head = read_document(snapshot.connection, table, key)
        if head is not None:
            return resource_at(snapshot, table, *head)
        is_deleted = is_deleted or snapshot.newest(table, key) is not None
    if is_deleted:
        raise AidboxError(410, "deleted", f"{table.name}/{id} was deleted")
    raise no_resource(table.name, id)


def resource_at(snapshot: Snapshot, table: TableInfo, seq: int, body: bytes) -> Resource:
    spend_bytes(len(body))
    entry = snapshot.entry(seq)
    fields = resource_of(codec.decode(body), table.primary_key)
    return Resource(table.name, fields, seq, None if entry is None else entry.time)


def no_resource(type: str, id: str) -> AidboxError:
    return AidboxError(404, "not-found", f"there is no {type}/{id}")


def no_type(type: str) -> AidboxError:
    return AidboxError(404, "not-found", f"there is no resource type {type}")


class Writing:
    """See the head of this file."""

    def __init__(self, transaction: WriteTransaction) -> None:
        self._transaction = transaction

    def create(self, type: str, resource: Mapping[str, Any]) -> Written:
        """A new resource, under its `id` or a new one.

        Raises:
            AidboxError: 409, the id exists; 400, 422: it cannot be stored.
        """
        id = resource.get("id")
        id = new_key() if id is None else check_id(id)
        write = self._write(type, makes=True)
        key, old = self._find(write, id)
        if old is not None:
            raise AidboxError(409, "duplicate", f"there is a {type}/{id} already")
        return self._put(write, key, None, resource, id)

    def put(
        self,
        type: str,
        id: str,
        resource: Mapping[str, Any],
        if_match: str | None = None,
        *,
        is_new: bool = False,
    ) -> Written:
        """Replace the resource, or make it.

        Args:
            if_match: The required ETag; `is_new`: the resource must not exist.

        Raises:
            AidboxError: 412, it has another version; 400, 422: it cannot be stored.
        """
        own_id = resource.get("id", id)
        if own_id != id:
            raise AidboxError(422, "invalid", f"the resource has the id {own_id!r}, but the URL has {id!r}")
        write = self._write(type, makes=True)
        key, old = self._find(write, id)
        check_match(type, id, old, if_match)
        if is_new and old is not None:
            raise AidboxError(412, "conflict", f"there is a {type}/{id} already")
        if old is None:
            check_id(id)
        return self._put(write, key, old, resource, id)

    def patch(self, type: str, id: str, patch: object, if_match: str | None = None) -> Written:
        """
        Raises:
            AidboxError: 404, it does not exist; 412, it has another version; 400, 422: see `apply_patch`.
        """
        write, key, old = self._require(type, id, if_match)
        before = resource_of(codec.decode(old[1]), write.table.primary_key)
        after = apply_patch({"resourceType": type, **before}, patch)
        if after.get("id") != before["id"]:
            raise AidboxError(422, "invalid", "a patch cannot change the id")
        return self._put(write, key, old, after, id)

    def delete(self, type: str, id: str, if_match: str | None = None) -> Written:
        """
        Raises:
            AidboxError: 404, it does not exist; 412, it has another version.
        """
        write, key, old = self._require(type, id, if_match)
        write.put(key, old, None, DELETE)
        before = resource_of(codec.decode(old[1]), write.table.primary_key)
        newest = self._transaction.snapshot().newest(write.table, key)
        return Written("deleted", type, key, before, old[0] if newest is None else newest.seq)

    def _write(self, type: str, *, makes: bool = False) -> Write:
        table = self._transaction.catalogue.live.get(type)
        if table is None:
            if not makes:
                raise no_type(type)
            table = self._transaction.create_table(check_type(type), "id")
        return Write.begun(self._transaction, table)

    def _require(self, type: str, id: str, if_match: str | None) -> tuple[Write, bytes, Stored]:
        write = self._write(type)
        key, old = self._find(write, id)
        check_match(type, id, old, if_match)
        if old is None:
            raise no_resource(type, id)
        return write, key, old

    def _find(self, write: Write, id: str) -> tuple[bytes, Stored | None]:
        keys = keys_of(id)
        if not keys:
            raise AidboxError(422, "invalid", f"the id {id[:40]!r}... is too long for a primary key")
        there = [(key, old) for key in keys if (old := write.head(key)) is not None]
        if len(there) > 1:
            text, other = (collation.key_value(key) for key, _ in there)
            raise AidboxError(
                409,
                "conflict",
                f"two resources are shown as {write.table.name}/{id}, so neither is written: the primary key of one is the text "
                f"{codec.pretty(text)}, that of the other {codec.pretty(other)}; write them natively, or by another dialect",
            )
        return there[0] if there else (keys[0], None)

    def _put(
        self, write: Write, key: bytes, old: Stored | None, resource: Mapping[str, Any], id: str
    ) -> Written:
        table = write.table
        name = table.primary_key
        before: Mapping[str, Any] = {name: collation.key_value(key)} if old is None else codec.decode(old[1])
        # Equal keys, such as 1 and 1.0, are one key: the document keeps its own form. It also keeps its own type.
        document = document_of(resource, table.name, name, before[name])
        if before.get("resourceType") == table.name and name != "resourceType":
            document["resourceType"] = table.name
        try:
            write.put_document(key, old, document, INSERT if old is None else REPLACE)
        except ResourceLimit as error:
            raise AidboxError(413, "too-long", str(error)) from None
        except (InvalidDocument, UsageError) as error:
            raise AidboxError(422, "invalid", str(error)) from None
        head = self._transaction.head(table, key)
        assert head is not None
        spend_bytes(len(head[1]))
        event = "created" if old is None else "unchanged" if old[0] == head[0] else "updated"
        return Written(event, table.name, key, resource_of(document, table.primary_key), head[0])


def check_match(type: str, id: str, old: Stored | None, if_match: str | None) -> None:
    """
    Raises:
        AidboxError: 412, the resource has another version than `If-Match` says.
    """
    if if_match is None or (if_match.strip() == "*" and old is not None):
        return
    if old is None or version_of(if_match) != old[0]:
        has = "is not there" if old is None else f"has version {old[0]}"
        raise AidboxError(412, "conflict", f"{type}/{id} {has}, but If-Match is {if_match}")
