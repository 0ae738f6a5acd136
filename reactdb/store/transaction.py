"""WriteTransaction: the statements that append to the log, move heads and keep indexes, inside one BEGIN IMMEDIATE.

Every write is the same three steps: append the entry (its `prev` is the old head), move the head, move the index entries
that differ. A delete moves the head to `graves`, so that a key which comes back keeps its history.

Rule of this file: it is called under the write lock with a transaction open, and never begins or ends one itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol

from reactdb import codec
from reactdb.change import DELETE, INSERT, Change, InHand
from reactdb.store.bulk import append_many, heads_of_inserts
from reactdb.store.catalogue import Catalogue, TableInfo, load, make_index
from reactdb.store.damage import damaged_document
from reactdb.store.schema import BLOCK_BITS, seal_catalogue, set_fact
from reactdb.store.seals import is_whole, seal_of, seals_of_inserts
from reactdb.store.snapshot import GET, Snapshot, head_seq
from reactdb.store.sqlite import Connection, IntegrityError

if TYPE_CHECKING:
    from reactdb.store.pending import Pending

APPEND = (
    "INSERT INTO log (seq, table_id, kind, step, prev, time, key, body, origin, meta, seal)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
# Without the columns that are empty as a rule, because every value that is bound costs.
APPEND_PLAIN = "INSERT INTO log (seq, table_id, kind, step, prev, time, key, body, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
ADD_HEAD = "INSERT INTO heads (table_id, key, seq) VALUES (?, ?, ?)"
MOVE_HEAD = "UPDATE heads SET seq = ? WHERE table_id = ? AND key = ?"
DROP_HEAD = "DELETE FROM heads WHERE table_id = ? AND key = ?"
ADD_GRAVE = "INSERT INTO graves (table_id, key, seq) VALUES (?, ?, ?)"
DROP_GRAVE = "DELETE FROM graves WHERE table_id = ? AND key = ?"
GET_GRAVE = "SELECT seq FROM graves WHERE table_id = ? AND key = ?"
DROP_EMPTY_MARK = (
    "DELETE FROM marks WHERE table_id = ?1 AND block = ?2 AND NOT EXISTS (SELECT 1 FROM log"
    f" WHERE seq >= (?2 << {BLOCK_BITS}) AND seq < ((?2 + 1) << {BLOCK_BITS}) AND table_id = ?1)"
)
ADD_MARK = "INSERT OR IGNORE INTO marks (table_id, block) VALUES (?, ?)"
ADD_ENTRY = "INSERT INTO entries (index_id, value, key, tag) VALUES (?, ?, ?, ?)"
ADD_ENTRY_AGAIN = "INSERT OR IGNORE INTO entries (index_id, value, key, tag) VALUES (?, ?, ?, ?)"
DROP_ENTRY = "DELETE FROM entries WHERE index_id = ? AND value = ? AND key = ? AND tag = ?"


class Part(Protocol):
    """A part of a transaction that can fail alone. See `savepoints`."""

    def secure(self) -> None: ...

    def note(self, table: TableInfo, key: bytes, old: tuple[int, bytes] | None) -> None: ...

    def note_grave(self, key: bytes, grave: int) -> None: ...


class KeyTaken(Exception):
    """insert_many met a key that is there already. Internal: the caller looks which one and says so."""


class WriterMemory:
    """What the writer remembers between transactions, so as not to ask the file again.

    All of it is derived: `forget` after a rollback or another process's commit makes it be asked for anew.
    """

    __slots__ = ("graves", "marked")

    def __init__(self) -> None:
        # Newest marked block of each table; tables known to have (or not to have) graves.
        self.marked: dict[int, int] = {}
        self.graves: dict[int, bool] = {}

    def forget(self) -> None:
        self.marked.clear()
        self.graves.clear()


class WriteTransaction:
    """One commit in the making.

    Attributes:
        first: Seq of its first change.
        changes: The changes so far, or None where nobody asked for them; they can be read from the log afterwards.
        depth: Parts that are open, one inside the other.
        pending: Updates that SQLite has not been given yet: the last ones. See `pending`.
        part: The innermost of them, which hears of each document before it is written; None outside of them.
        ruin: Why SQLite has taken all of it back already; None while it has not.
        is_committing: COMMIT was begun.
        documents: Of a change that was its first, perhaps taken back since, and that somebody wants to hear of.
    """

    __slots__ = (
        "catalogue",
        "changes",
        "connection",
        "count",
        "depth",
        "documents",
        "execute",
        "first",
        "is_catalogue_changed",
        "is_committing",
        "memory",
        "origin",
        "part",
        "pending",
        "ruin",
        "time",
    )

    def __init__(
        self,
        connection: Connection,
        catalogue: Catalogue,
        memory: WriterMemory,
        first: int,
        time: int,
        changes: list[Change] | None,
        origin: str | None = None,
    ) -> None:
        """`changes`: a list to put them in, or None."""
        self.connection = connection
        self.execute = connection.execute
        self.catalogue = catalogue
        self.memory = memory
        self.first = first
        self.count = 0
        self.time = time
        self.origin = origin
        self.changes = changes
        self.is_catalogue_changed = False
        self.depth = 0
        self.part: Part | None = None
        self.pending: Pending | None = None
        self.ruin: BaseException | None = None
        self.is_committing = False
        self.documents: InHand | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.count or self.is_catalogue_changed)

    def snapshot(self) -> Snapshot:
        """Reads that see what this transaction has written so far."""
        return Snapshot(self.connection, self.catalogue)

    # -----------------------------------------------------------------------------------------------------------
    # Documents

    def head(self, table: TableInfo, key: bytes) -> tuple[int, bytes] | None:
        """(seq, encoded document) of a key, or None.

        Raises:
            CorruptDatabase: It is not what was written.
        """
        if self.pending is not None:
            found = self.pending.latest.get((table.id, key))
            if found is not None:
                return found
        row = self.execute(GET, (table.id, key)).fetchone()
        if row is None:
            return None
        seq, body, seal = row
        if not is_whole(table.id, key, body, seal):
            raise damaged_document(self.connection, table, key, body)
        return seq, body

    def insert(self, table: TableInfo, key: bytes, body: bytes, meta: bytes | None = None) -> None:
        """Add a document whose key is free.

        Raises:
            KeyTaken: It is not, and nothing was written.
        """
        part = self.part
        if part is not None:
            part.note(table, key, None)
        try:
            # The head first: if the key is taken, this is the statement that fails, before there is an entry.
            self.execute(ADD_HEAD, (table.id, key, self.first + self.count))
        except IntegrityError:
            raise KeyTaken from None
        self._append(table, key, INSERT, self._grave(table, key), None, body, meta)
        if table.indexes:
            self._index(table, key, None, body)

    def write(
        self,
        table: TableInfo,
        key: bytes,
        kind: int,
        old: tuple[int, bytes] | None,
        body: bytes | None,
        meta: bytes | None = None,
    ) -> None:
        """Put `body` (None: nothing) where `old`, as `head` gave it, was. One of the two is there."""
        if old is None:
            assert body is not None
            self.insert(table, key, body, meta)
            return
        if self.part is not None:
            self.part.note(table, key, old)
        prev, old_body = old
        seq = self._append(table, key, kind, prev, old_body, body, meta)
        if body is None:
            assert kind == DELETE
            self.execute(DROP_HEAD, (table.id, key))
            self.execute(ADD_GRAVE, (table.id, key, seq))
            self.memory.graves[table.id] = True
        else:
            self.execute(MOVE_HEAD, (seq, table.id, key))
        if table.indexes:
            self._index(table, key, old_body, body)

    def insert_many(self, table: TableInfo, keys: Sequence[bytes], bodies: Sequence[bytes]) -> None:
        """Add many encoded documents whose keys are free, at half the cost of one by one.

        Raises:
            KeyTaken: One of them is not, or two are the same. The caller rolls back and finds out which.
        """
        if self._may_have_graves(table):
            for key, body in zip(keys, bodies, strict=True):
                self.insert(table, key, body)
            return
        self.secure()
        table_id, time, origin, start = table.id, self.time, self.origin, self.count
        first = self.first + start
        seals = seals_of_inserts(first, table_id, start, time, keys, bodies, origin)
        columns = (repeat(table_id), keys, bodies, seals)
        append_many(self.connection, INSERT, len(keys), first, start, time, origin, columns)
        try:
            self.execute(heads_of_inserts(keys), (first,))
        except IntegrityError:
            raise KeyTaken from None
        self.count += len(keys)
        last = first + len(keys) - 1
        self.connection.executemany(
            ADD_MARK, [(table_id, block) for block in range(first >> BLOCK_BITS, (last >> BLOCK_BITS) + 1)]
        )
        self.memory.marked[table_id] = last >> BLOCK_BITS
        if table.indexes:
            documents = [(key, codec.decode(body)) for key, body in zip(keys, bodies, strict=True)]
            for index in table.indexes.values():
                self.connection.executemany(
                    ADD_ENTRY,
                    sorted(
                        (index_id, value, key, tag)
                        for key, document in documents
                        for index_id, value, tag in index.stored_entries(document)
                    ),
                )
        if self.changes is not None:
            self.changes.extend(
                Change(
                    first + place,
                    table.name,
                    table_id,
                    key,
                    INSERT,
                    None,
                    None,
                    body,
                    self.first,
                    time,
                    origin,
                )
                for place, (key, body) in enumerate(zip(keys, bodies, strict=True))
            )

    def _append(
        self,
        table: TableInfo,
        key: bytes,
        kind: int,
        prev: int | None,
        old_body: bytes | None,
        body: bytes | None,
        meta: bytes | None,
    ) -> int:
        step = self.count
        # The same object where it can be: it is kept, as seq and commit, with each change that waits.
        seq = self.first + step if step else self.first
        table_id, time, origin = table.id, self.time, self.origin
        seal = seal_of(seq, table_id, kind, step, prev, time, key, body, origin, meta)
        if origin is None and meta is None:
            self.execute(APPEND_PLAIN, (seq, table_id, kind, step, prev, time, key, body, seal))
        else:
            self.execute(APPEND, (seq, table_id, kind, step, prev, time, key, body, origin, meta, seal))
        self.count = step + 1
        block = seq >> BLOCK_BITS
        if self.memory.marked.get(table.id) != block:
            self.execute(ADD_MARK, (table.id, block))
            self.memory.marked[table.id] = block
        if self.changes is not None:
            self.changes.append(
                Change(
                    seq,
                    table.name,
                    table.id,
                    key,
                    kind,
                    prev,
                    old_body,
                    body,
                    self.first,
                    self.time,
                    self.origin,
                    meta,
                )
            )
        return seq

    def _may_have_graves(self, table: TableInfo) -> bool:
        known = self.memory.graves.get(table.id)
        if known is None:
            row = self.execute("SELECT 1 FROM graves WHERE table_id = ? LIMIT 1", (table.id,)).fetchone()
            known = self.memory.graves[table.id] = row is not None
        return known

    def _grave(self, table: TableInfo, key: bytes) -> int | None:
        """The seq of the entry that deleted this key earlier, taken out of `graves`; None where there is none."""
        if not self._may_have_graves(table):
            return None
        row = self.execute(GET_GRAVE, (table.id, key)).fetchone()
        if row is None:
            return None
        if self.part is not None:
            self.part.note_grave(key, int(row[0]))
        self.execute(DROP_GRAVE, (table.id, key))
        return int(row[0])

    def _index(self, table: TableInfo, key: bytes, old_body: bytes | None, body: bytes | None) -> None:
        """Move the entries that differ, and note in the change where the document is and was."""
        old = None if old_body is None else codec.decode(old_body)
        new = None if body is None else codec.decode(body)
        places: dict[int, Sequence[bytes]] = {}
        for index in table.indexes.values():
            before = [] if old is None else index.stored_entries(old)
            after = [] if new is None else index.stored_entries(new)
            if before == after:
                places[index.id] = [value for index_id, value, _ in before if index_id > 0]
                continue
            places[index.id] = [value for index_id, value, _ in before + after if index_id > 0]
            for entry in before:
                if entry not in after:
                    index_id, value, tag = entry
                    self.execute(DROP_ENTRY, (index_id, value, key, tag))
            for entry in after:
                if entry not in before:
                    index_id, value, tag = entry
                    self.execute(ADD_ENTRY, (index_id, value, key, tag))
        if self.changes is not None:
            self.changes[-1].places = places

    # -----------------------------------------------------------------------------------------------------------
    # Tables and indexes

    def create_table(self, name: str, primary_key: str) -> TableInfo:
        """The caller has looked that the name is free."""
        self.secure()
        seq = head_seq(self.connection)
        table_id = self.execute(
            "INSERT INTO tables (name, primary_key, created) VALUES (?, ?, ?)", (name, primary_key, seq)
        ).lastrowid
        self._catalogue_changed()
        return self.catalogue.by_id[table_id]

    def drop_table(self, table: TableInfo) -> None:
        """Take the table off the list. Its documents stay for views of the past until compaction passes this point."""
        self.secure()
        self.execute("UPDATE tables SET dropped = ? WHERE id = ?", (head_seq(self.connection), table.id))
        self._catalogue_changed()

    def rename_table(self, table: TableInfo, name: str) -> None:
        """The caller has looked that `name` is free. Feeds go on: they know the table by its number."""
        self.secure()
        self.execute("UPDATE tables SET name = ? WHERE id = ?", (name, table.id))
        self._catalogue_changed()

    def create_index(self, table: TableInfo, name: str, expression: bytes, multi: bool) -> None:
        """List the index and fill it from the documents."""
        self.secure()
        index_id = self.execute(
            "INSERT INTO indexes (table_id, name, expression, multi) VALUES (?, ?, ?, ?)",
            (table.id, name, expression, multi),
        ).lastrowid
        index = make_index(index_id, table.id, name, expression, multi)
        found = [
            (entry_index_id, value, key, tag)
            for key, body in self.snapshot().rows(table)
            for entry_index_id, value, tag in index.stored_entries(codec.decode(body))
        ]
        found.sort()
        self.connection.executemany(ADD_ENTRY, found)
        self._catalogue_changed()

    def drop_index(self, table: TableInfo, name: str) -> None:
        self.secure()
        index = table.indexes[name]
        self.execute("DELETE FROM indexes WHERE id = ?", (index.id,))
        self.execute("DELETE FROM entries WHERE index_id IN (?1, -?1)", (index.id,))
        self._catalogue_changed()

    def rename_index(self, table: TableInfo, old: str, new: str) -> None:
        """The caller has looked that `new` is free. To those who watch `old` it is gone."""
        self.secure()
        self.execute("UPDATE indexes SET name = ? WHERE id = ?", (new, table.indexes[old].id))
        self._catalogue_changed()

    def secure(self) -> None:
        """Before anything but the write of one document: only those are taken back by hand."""
        if self.part is not None:
            self.part.secure()

    def _catalogue_changed(self) -> None:
        set_fact(self.connection, "catalogue", self.catalogue.version + 1)
        seal_catalogue(self.connection)
        self.catalogue = load(self.connection)
        self.is_catalogue_changed = True


def take_back_document(
    transaction: WriteTransaction,
    table: TableInfo,
    key: bytes,
    old: tuple[int, bytes] | None,
    grave: int | None,
) -> None:
    """Undo the write of one document, of which any number of steps may have been done: the last one of the transaction, and no
    longer counted in it.

    Args:
        old: As `head` gave it before.
        grave: The seq of its grave before, where that was removed.
    """
    execute, seq = transaction.execute, transaction.first + transaction.count
    row = execute("SELECT body FROM log WHERE seq = ?", (seq,)).fetchone()
    if row is not None:
        # Otherwise there was no step after it. Where the key was taken, that is another document's.
        for index in table.indexes.values():
            if row[0] is not None:
                for index_id, value, tag in index.stored_entries(codec.decode(row[0])):
                    execute(DROP_ENTRY, (index_id, value, key, tag))
            if old is not None:
                for index_id, value, tag in index.stored_entries(codec.decode(old[1])):
                    execute(ADD_ENTRY_AGAIN, (index_id, value, key, tag))
        execute("DELETE FROM log WHERE seq = ?", (seq,))
        execute(DROP_EMPTY_MARK, (table.id, seq >> BLOCK_BITS))
    if old is None:
        execute("DELETE FROM heads WHERE table_id = ? AND key = ? AND seq = ?", (table.id, key, seq))
        if grave is not None:
            execute(
                "INSERT OR REPLACE INTO graves (table_id, key, seq) VALUES (?, ?, ?)", (table.id, key, grave)
            )
    else:
        execute("INSERT OR REPLACE INTO heads (table_id, key, seq) VALUES (?, ?, ?)", (table.id, key, old[0]))
        execute(DROP_GRAVE, (table.id, key))


def remove_dropped(connection: Connection, table_ids: Sequence[int]) -> None:
    """Remove what compaction left of tables that were dropped below the low-water mark."""
    for table_id in table_ids:
        parameters: tuple[Any, ...] = (table_id,)
        for statement in (
            "DELETE FROM entries WHERE index_id IN (SELECT id FROM indexes WHERE table_id = ?1"
            " UNION ALL SELECT -id FROM indexes WHERE table_id = ?1)",
            "DELETE FROM indexes WHERE table_id = ?",
            # Below the low-water mark only the entries of live documents are left.
            "DELETE FROM log WHERE seq IN (SELECT seq FROM heads WHERE table_id = ?)",
            "DELETE FROM heads WHERE table_id = ?",
            "DELETE FROM graves WHERE table_id = ?",
            "DELETE FROM marks WHERE table_id = ?",
            "DELETE FROM tables WHERE id = ?",
        ):
            connection.execute(statement, parameters)
