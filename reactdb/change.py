"""The values that travel: a Change is one document's step at one seq, a Commit the changes of one transaction.

The store makes both, from a transaction or from the log, and everything above it reads them. Documents stay encoded
until their first use: most changes pass most feeds without being decoded. A document is decoded once and shared.

Rule of this file: values only. Nothing here reads a file, a clock or a lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from reactdb.type_variables import Generic, Recorded
from reactdb.values import codec, collation

INSERT, UPDATE, REPLACE, DELETE = 0, 1, 2, 3
KINDS = ("insert", "update", "replace", "delete")
# The kind of a change without an entry of its own: a document is removed, or added, because its table was dropped or
# renamed.
WITH_TABLE = 4
GONE_WITH_TABLE, CAME_WITH_NAME = WITH_TABLE | DELETE, WITH_TABLE | INSERT
# The number of the table of log entries that are about tables and indexes themselves, and their kinds.
CATALOGUE = 0
TABLE_CREATE, TABLE_RENAME, TABLE_DROP, INDEX_CREATE, INDEX_RENAME, INDEX_DROP, HOOK_SET = range(16, 23)
CATALOGUE_KINDS = {
    TABLE_CREATE: "table_create",
    TABLE_RENAME: "table_rename",
    TABLE_DROP: "table_drop",
    INDEX_CREATE: "index_create",
    INDEX_RENAME: "index_rename",
    INDEX_DROP: "index_drop",
    HOOK_SET: "hook_set",
}


class HiddenTable(NamedTuple):
    """The name of a hidden table, where an ordinary one has a text: the table belongs to the engine or the dialect of
    that name."""

    owner: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} of {self.owner}"


MOST_IN_HAND = 64
"""Up to this many changes, a commit keeps the documents that the writer had decoded; a large commit would fill the
memory."""

TableReference = str | HiddenTable
"""The key under which a table is looked up."""


class DocumentsBefore(Protocol):
    """Where the documents before changes are looked up."""

    def before(self, change: Change) -> bytes | None:
        """The encoded document before this change, or None."""


class Change(Generic[Recorded]):
    """One entry of the change log.

    Not frozen, because every watched write makes one, and freezing costs four times as much. Treat it as read-only
    all the same.

    Attributes:
        seq: Position in the log, from 1.
        table: Name of the table; a `HiddenTable` for a hidden one.
        table_id: The table's number in the file; a table that is dropped and made again has another.
        key_bytes: The primary key, as `collation.key_bytes` writes it.
        commit: The seq of the first change of the same transaction.
        time: Wall-clock time of the commit, in milliseconds since 1970. Never goes back along the log.
        prev: Seq of the superseded entry, None for a key without an earlier entry (or with a removed history).
        new_bytes: The document after, encoded; None where there is none.
        old, new: The documents before and after, decoded and shared; also None before the first use of `old_val` and
            `new_val`.
        origin: The writer's own name, or None.
        meta: The result of the table's write hook for this change, or in a table without a hook the writer's metadata
            (see `reactdb.store.hooks`); None where there is none.
        places: By the number of an index: the values under which the index has the document before or after. The writer
            computes them anyway. Where it did not, there is None, or no such number: compute them from the documents.

    The writer passes on the documents that it has decoded (`old`, `new`), and drops them after the delivery of the
    commit (`Commit.release_documents`); a later use decodes them again.
    """

    __slots__ = (
        "_old_bytes",
        "commit",
        "key_bytes",
        "kind_code",
        "meta",
        "new",
        "new_bytes",
        "old",
        "origin",
        "places",
        "prev",
        "seq",
        "table",
        "table_id",
        "time",
    )

    def __init__(
        self,
        seq: int,
        table: TableReference,
        table_id: int,
        key_bytes: bytes,
        kind_code: int,
        prev: int | None,
        old_bytes: bytes | DocumentsBefore | None,
        new_bytes: bytes | None,
        commit: int,
        time: int,
        origin: str | None = None,
        meta: bytes | None = None,
        old: codec.FrozenDict | None = None,
        new: codec.FrozenDict | None = None,
    ) -> None:
        self.seq = seq
        # A text wherever users see it.
        self.table: str = table  # type: ignore[assignment]
        self.table_id = table_id
        self.key_bytes = key_bytes
        self.kind_code = kind_code
        self.prev = prev
        self._old_bytes = old_bytes
        self.new_bytes = new_bytes
        self.commit = commit
        self.time = time
        self.origin = origin
        self.meta = meta
        self.places: dict[int, Sequence[bytes]] | None = None
        self.old = old
        self.new = new

    @property
    def old_bytes(self) -> bytes | None:
        """The document before, encoded, or None.

        Raises:
            HistoryLost: The change is from `db.log()`, which reads this document at its first use, and another
                process has compacted the log since.
        """
        stored = self._old_bytes
        if stored is None or isinstance(stored, bytes):
            return stored
        self._old_bytes = old = stored.before(self)
        return old

    @property
    def catalogue(self) -> Mapping[str, Any] | None:
        """The data of a `CatalogueChange`; None for a change of a document."""
        return None

    @property
    def key(self) -> Any:
        """The primary key. 1 and 1.0 are one key; a number comes back as an int where it is whole."""
        return collation.key_value(self.key_bytes)

    @property
    def kind(self) -> str:
        """`insert`, `update`, `replace` or `delete`: the writer's operation."""
        return KINDS[self.kind_code & ~WITH_TABLE]

    @property
    def is_of_meta_alone(self) -> bool:
        """The documents before and after are the same, so only the metadata is new: feeds without metadata deliver
        nothing."""
        return self.meta is not None and self.new_bytes is not None and self.old_bytes == self.new_bytes

    @property
    def old_val(self) -> Recorded | None:
        """The document before, or None. Decoded once and shared by all readers: it refuses changes."""
        value = self.old
        if value is None and self._old_bytes is not None:
            body = self.old_bytes
            value = self.old = None if body is None else codec.decode_frozen(body)
        return value  # type: ignore[return-value]

    @property
    def new_val(self) -> Recorded | None:
        """The document after, or None. Shared, like `old_val`."""
        value = self.new
        if value is None and self.new_bytes is not None:
            value = self.new = codec.decode_frozen(self.new_bytes)
        return value  # type: ignore[return-value]

    def documents(self) -> tuple[codec.FrozenDict | None, codec.FrozenDict | None]:
        """(`old_val`, `new_val`): each event needs both."""
        old, new = self.old, self.new
        if old is None and self._old_bytes is not None:
            body = self.old_bytes
            if body is not None:
                old = self.old = codec.decode_frozen(body)
        if new is None and self.new_bytes is not None:
            new = self.new = codec.decode_frozen(self.new_bytes)
        return old, new

    def __reduce__(self) -> tuple[Any, ...]:
        where = (self.seq, self.table, self.table_id, self.key_bytes)
        documents = (self.kind_code, self.prev, self.old_bytes, self.new_bytes)
        return Change, (*where, *documents, self.commit, self.time, self.origin, self.meta)

    def __repr__(self) -> str:
        return f"Change(seq={self.seq}, table={self.table!r}, key={self.key!r}, kind={self.kind!r})"


class CatalogueChange(Change):
    """A log entry about a table or an index: it was made, renamed or dropped. It has no document before or after.

    `kind` is one of CATALOGUE_KINDS, `key` the name of the table, or [table, index], before the change, and
    `catalogue` has the data to repeat it: `table` and `table_id`, for an index `index` and `index_id`, and

        table_create    primary_key
        index_create    expression (the tree as lists), multi; unique, if it is
        ..._rename      new_name
        hook_set        hook (None: the table has none any more)

    and for a hidden table its `owner`.
    """

    __slots__ = ("_said",)

    def __init__(self, seq: int, table: object, table_id: int, key_bytes: bytes, *columns: Any) -> None:
        """As for `Change`; the name of the table comes from the entry's data."""
        super().__init__(seq, "", table_id, key_bytes, *columns)
        assert self.new_bytes is not None
        self._said = codec.decode_frozen(self.new_bytes)
        self._old_bytes = self.new_bytes = self.old = self.new = None
        owner, name = self._said.get("owner"), self._said["table"]
        self.table = name if owner is None else HiddenTable(owner, name)  # type: ignore[assignment]

    @property
    def catalogue(self) -> Mapping[str, Any]:
        return self._said

    @property
    def kind(self) -> str:
        return CATALOGUE_KINDS[self.kind_code]

    def __reduce__(self) -> tuple[Any, ...]:
        where = (self.seq, None, self.table_id, self.key_bytes, self.kind_code, None, None)
        return type(self), (
            *where,
            codec.encode({**self._said}),
            self.commit,
            self.time,
            self.origin,
            self.meta,
        )


class Commit:
    """The changes of one transaction, in log order; empty only where the transaction changed nothing but the
    catalogue.

    Attributes:
        changes: With consecutive seqs.
        seq: Of the last change (for a commit without changes: the log's head at that time).
        dropped_tables: Ids of tables that this commit dropped.
        dropped_indexes: Pairs of (table id, index name) that this commit dropped.
    """

    __slots__ = ("changes", "dropped_indexes", "dropped_tables", "seq")

    def __init__(
        self,
        changes: Sequence[Change],
        seq: int,
        dropped_tables: Sequence[int] = (),
        dropped_indexes: Sequence[tuple[int, str]] = (),
    ) -> None:
        self.changes = changes
        self.seq = seq
        self.dropped_tables = dropped_tables
        self.dropped_indexes = dropped_indexes

    def release_documents(self) -> None:
        """Drop the decoded documents after the delivery. For queued deltas the bytes are enough: decoded, a document
        takes four times the room."""
        for change in self.changes:
            change.old = change.new = None

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def __repr__(self) -> str:
        return f"Commit(seq={self.seq}, changes={len(self.changes)})"
