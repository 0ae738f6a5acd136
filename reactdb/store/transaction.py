"""WriteTransaction: the changes of one commit to the log, the heads and the indexes, inside one BEGIN IMMEDIATE.

Every write of a document takes the same step: `write` puts the new entry into the write buffer. (`put` does so where
the document differs from the stored document, `insert` where the key is free.) The entry has its finished row of the log,
and says what its key's head needs. `flush` gives the buffer to SQLite: the rows, the heads of the documents, and the index
entries that differ in the end. A deletion moves the head to `graves`, the list of tombstones, so that a key keeps its
history when it returns. A commit of one write is a buffer of one.

The list of entries is the truth about the buffer; the newest entries by key follow from it. So a failed write and a flush of
the first entries find these again.

Every other act flushes first: a read by anything but a key, a change of the catalogue, the end of the transaction. A
write inside a longer transaction has a `Savepoint`: if the write fails, its entries leave the buffer again. SQLite
learns of a savepoint only if the buffer is flushed while the savepoint is open; then SQLite rolls back its own part.

Rule of this file: the caller holds the write lock and has a transaction open. This file never begins or ends a
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import itemgetter
from types import TracebackType
from typing import Any, Protocol
from zlib import adler32

from reactdb.budget import spend_per_element
from reactdb.change import (
    CATALOGUE,
    DELETE,
    HOOK_SET,
    INDEX_CREATE,
    INDEX_DROP,
    INDEX_RENAME,
    INSERT,
    MOST_IN_HAND,
    REPLACE,
    TABLE_CREATE,
    TABLE_DROP,
    TABLE_RENAME,
    CatalogueChange,
    Change,
)
from reactdb.errors import CorruptDatabase, TransactionEnded, UsageError
from reactdb.logs import logger
from reactdb.store.blobs import add_references, check_blobs
from reactdb.store.catalogue import Catalogue, IndexInfo, TableInfo, build_catalogue, make_index
from reactdb.store.checksums import entry_checksum, insert_checksums
from reactdb.store.file.sqlite import ADVICE, Cursor, IntegrityError, SQLiteError
from reactdb.store.flows import ControlFlow
from reactdb.store.hooks import Derived, Draft, run_hook
from reactdb.store.log import (
    INSERTS,
    LABELLED,
    LABELLED_INSERTS,
    PLAIN,
    append,
    make_heads_statement,
    read_meta,
)
from reactdb.store.schema import BLOCK_BITS, set_fact, write_catalogue_checksum
from reactdb.store.snapshot import Snapshot, read_document
from reactdb.store.sums import (
    MOST_IN_PASSING,
    NEWEST_BLOCK,
    SET_SUMS,
    Figures,
    Sums,
    add_entries,
    measure_sums,
    move_entries,
    newest,
)
from reactdb.store.unique import Claims, check_new_index, duplicates_error, find_owners, show_value
from reactdb.values import codec, collation
from reactdb.values.blob import filter_blob_candidates, may_have_blobs

ADD_HEAD = "INSERT INTO heads (seq, table_id, key) VALUES (?, ?, ?)"
SET_HEAD = "INSERT OR REPLACE INTO heads (seq, table_id, key) VALUES (?, ?, ?)"
MOVE_HEAD = "UPDATE heads SET seq = ? WHERE table_id = ? AND key = ?"
DROP_HEAD = "DELETE FROM heads WHERE table_id = ? AND key = ?"
HAS_HEAD = "SELECT 1 FROM heads WHERE table_id = ? AND key = ?"
GREATEST_KEY = "SELECT key FROM heads WHERE table_id = ? ORDER BY key DESC LIMIT 1"
# Also where the key had an entry before.
SET_TOMBSTONE = "INSERT OR REPLACE INTO graves (seq, table_id, key) VALUES (?, ?, ?)"
DROP_TOMBSTONE = "DELETE FROM graves WHERE table_id = ? AND key = ?"
GET_TOMBSTONE = "SELECT seq FROM graves WHERE table_id = ? AND key = ?"
ADD_BLOCK = "INSERT OR IGNORE INTO marks (table_id, block, sums) VALUES (?, ?, ?)"
ADD_ENTRY = "INSERT INTO entries (index_id, value, key, tag) VALUES (?, ?, ?, ?)"
SET_ENTRY = "INSERT OR IGNORE INTO entries (index_id, value, key, tag) VALUES (?, ?, ?, ?)"
DROP_ENTRY = "DELETE FROM entries WHERE index_id = ? AND value = ? AND key = ? AND tag = ?"

# Flush at this many entries: beyond it, batching saves nothing. A larger document is flushed at once, so that DiskFull is raised
# by its own write.
MOST_ENTRIES = 1_024
LARGE_BYTES = 16_384

IndexEntry = tuple[int, bytes, bytes, int]

Moves = tuple[Sequence[IndexEntry], Sequence[IndexEntry]]
"""Index entries to drop and to add."""

# What a flush does with the head of a key, by the key's newest entry. NEW: the file has no head of it. MOVED: it has one.
# RETURNED: it may have one, because the key was deleted and inserted again while that waited. BURIED: the entry is a
# deletion. NO_HEAD: it is of the catalogue.
NEW, MOVED, RETURNED, BURIED, NO_HEAD = range(5)

Row = tuple[int, int, int, int, int, int, bytearray, bytearray | None, int]
"""A row of the log, in the columns of `log.PLAIN`: seq, table, kind, step, the entry before (0: none), time, key, document,
checksum."""

Buffered = tuple[Row, bytes, bytes | None, bytes | None, int, bool, Moves | None, int]
"""A log entry that SQLite does not have yet: its row; key, document and meta; what it adds to the sum of the checksums of the
table's documents; whether the key had a tombstone; the index entries that it moves; and one of NEW to NO_HEAD. A plain tuple,
because every write makes one."""

Head = tuple[int, int, bytearray]
"""A row of `heads` or `graves`: seq, table, key."""

Latest = dict[tuple[int, bytes], Buffered]
"""By table and key: the newest entry in the buffer."""

row_of = itemgetter(0)
# Of a row of the log.
table_of = itemgetter(1)
head_of = itemgetter(0, 1, 6)

Documents = tuple[codec.FrozenDict | None, codec.FrozenDict]
"""A document before and after a write, decoded."""


class Owner(Protocol):
    """The writer of the transaction."""

    @property
    def is_abandoned(self) -> bool:
        """The transaction belongs to another process: a child of fork() must not roll back the work of its parent."""

    def note_failure(self, error: BaseException, operation: str) -> BaseException:
        """Translate SQLite's errors; return others as they are."""


class KeyTaken(Exception):
    """insert_many met a key that exists already. Internal: the caller finds the key and raises the error."""


class WriterMemory:
    """The writer's cache between transactions. It saves reads of the file.

    Everything here is derived. `forget` empties the cache after a rollback or another process's commit; the next use
    reads again.
    """

    __slots__ = ("blocks", "figures", "greatest", "sums", "tombstones")

    def __init__(self) -> None:
        # The newest block of each table in the table block index; whether a table has tombstones.
        self.blocks: dict[int, int] = {}
        self.tombstones: dict[int, bool] = {}
        # The greatest key of a table, where a caller has needed it.
        self.greatest: dict[int, bytes] = {}
        # The running sums of a table as of the last flush, None where the file has none. Only of tables that have begun a block.
        self.sums: dict[int, Sums | None] = {}
        # Of the indexes of all of these.
        self.figures: Figures = {}

    def move_greatest(self, table_id: int, key: bytes, is_there: bool) -> None:
        """Update the greatest known key of a table after a document with this key is added or removed."""
        if is_there:
            self.greatest[table_id] = max(self.greatest[table_id], key)
        elif key == self.greatest[table_id]:
            del self.greatest[table_id]

    def forget(self) -> None:
        self.tombstones.clear()
        self.greatest.clear()
        self.forget_sums()

    def forget_sums(self) -> None:
        """And the newest blocks: a block is noted before the row that has its sums."""
        self.blocks.clear()
        self.sums.clear()
        self.figures.clear()


class WriteTransaction:
    """One commit in progress.

    Attributes:
        first: Seq of its first change.
        changes: The changes so far; None where no caller needs them now. They can be read from the log afterwards.
        count: How many changes there are, flushed or not.
        flushed: How many of them SQLite has been given.
        savepoint: The innermost open savepoint; None outside of all.
        ruin: The reason for which the transaction can only be rolled back as a whole; None while it can continue.
        torn_until: How many changes the file would have if the flush that was begun had ended; 0 where none was begun.
        has_blobs: Documents of it hold blobs.
        claims: The values that it has added to unique indexes; None where it has added none.
        has_other_rows: The transaction has written rows besides documents and the catalogue, a position for example.
        is_committing: COMMIT was begun.
        is_committed: COMMIT was done.
    """

    __slots__ = (
        "_buffer",
        "_is_labelled",
        "_is_torn",
        "_latest",
        "catalogue",
        "changes",
        "claims",
        "connection",
        "count",
        "cursor",
        "execute",
        "first",
        "flushed",
        "has_blobs",
        "has_other_rows",
        "is_catalogue_changed",
        "is_committed",
        "is_committing",
        "memory",
        "origin",
        "ruin",
        "savepoint",
        "time",
        "torn_until",
    )

    def __init__(self, cursor: Cursor, memory: WriterMemory) -> None:
        """`cursor`: of the writer's connection, for statements that give no rows. `begin` follows."""
        self.cursor = cursor
        self.connection = cursor.connection
        self.execute = self.connection.execute
        self.memory = memory
        # The entries that SQLite does not have yet, in their order; and the newest of each key.
        self._buffer: list[Buffered] = []
        self._latest: Latest = {}
        self.torn_until = 0
        # A torn flush is being written again.
        self._is_torn = False

    def begin(
        self, catalogue: Catalogue, first: int, time: int, changes: list[Change] | None, origin: str | None
    ) -> None:
        """Begin a commit: the first of this object, or the next after a successful one. (The object of a transaction that has
        failed is dropped: its buffer may have entries.)

        Args:
            changes: A list to put them in, or None.
        """
        self.catalogue = catalogue
        self.first = first
        self.time = time
        self.changes = changes
        self.origin = origin
        # Entries have an origin or metadata.
        self._is_labelled = origin is not None
        self.count = self.flushed = 0
        self.is_catalogue_changed = self.has_blobs = self.has_other_rows = False
        self.is_committing = self.is_committed = False
        self.claims: Claims | None = None
        self.savepoint: Savepoint | None = None
        self.ruin: BaseException | None = None

    def is_empty(self) -> bool:
        """There is nothing to commit."""
        return not (self.count or self.is_catalogue_changed or self.has_other_rows)

    def snapshot(self) -> Snapshot:
        """A snapshot with the writes of this transaction so far."""
        self.flush()
        return Snapshot(self.connection, self.catalogue)

    # -----------------------------------------------------------------------------------------------------------
    # Documents

    def head(self, table: TableInfo, key: bytes) -> tuple[int, bytes] | None:
        """(seq, encoded document) of a key, or None.

        Raises:
            CorruptDatabase: The stored bytes do not match their checksum.
        """
        latest = self._latest.get((table.id, key))
        if latest is not None:
            body = latest[2]
            return None if body is None else (latest[0][0], body)
        return read_document(self.connection, table, key)

    def greatest_key(self, table: TableInfo) -> bytes:
        """The greatest key of a table; b"" where it has none."""
        known = self.memory.greatest.get(table.id)
        if known is None:
            self.flush()
            row = self.execute(GREATEST_KEY, (table.id,)).fetchone()
            known = self.memory.greatest[table.id] = b"" if row is None else row[0]
        return known

    def insert(self, table: TableInfo, key: bytes, body: bytes) -> None:
        """Add a document under a free key.

        Raises:
            KeyTaken: It is not, and nothing was written.
        """
        # The hook runs only after the key is known to be free.
        if self.savepoint is None and table.hook is None:
            # No single write can need a rollback here, so SQLite may check whether the key is free: a step less.
            count = self.count
            if count > self.flushed:
                self.flush()
            try:
                self.write(table, key, INSERT, None, body)
                self._flush_until(self.count)
            except IntegrityError:
                self.memory.forget()
                self.torn_until = 0
                self.drop_changes_after(count)
                raise KeyTaken from None
            return
        latest = self._latest.get((table.id, key))
        if latest is None:
            if self.execute(HAS_HEAD, (table.id, key)).fetchone() is not None:
                raise KeyTaken
        elif latest[2] is not None:
            raise KeyTaken
        self.write(table, key, INSERT, None, body)

    def put(
        self, table: TableInfo, key: bytes, body: bytes | None, kind: int = REPLACE, asked: Any = None
    ) -> bool:
        """Make `body` (None: no document) the content of a key, whatever its content was. Returns: whether the
        content changed. `asked`: as for `write`."""
        old = self.head(table, key)
        if body == (None if old is None else old[1]):
            return False
        return self.write(table, key, DELETE if body is None else kind, old, body, asked)

    def write(
        self,
        table: TableInfo,
        key: bytes,
        kind: int,
        old: tuple[int, bytes] | None,
        body: bytes | None,
        asked: Any = None,
        meta: bytes | None = None,
        documents: Documents | None = None,
    ) -> bool:
        """Replace `old`, as `head` returned it, by `body`. At most one of the two is None (no document).

        Args:
            asked: A dialect's argument for the table's write hook. With it, `body` may be the same as before.
            meta: The entry's metadata, in a table without a hook. A hook decides the metadata itself.
            documents: The decoded `old` and `body`, if the caller has them: feeds then need not decode the bytes.

        Returns:
            Whether there is a new entry. An unchanged document gets an entry only if the hook derived something new.

        Raises:
            HookNotFound: The table has a write hook that this process does not know.
            UsageError: The hook refuses the write, or the table has no hook for `asked`. Nothing was written.
        """
        if body is not None and may_have_blobs(body):
            self._check_blobs(body)
        table_id, memory = table.id, self.memory
        had_tombstone = False
        gain = 0
        if old is None:
            assert body is not None
            kind = INSERT
            prev = old_body = None
            if memory.tombstones.get(table_id) is not False and self._may_have_tombstones(table):
                prev, had_tombstone = self._find_tombstone(table, key)
        else:
            prev, old_body = old
            gain = -adler32(old_body, adler32(key, table_id))
            if body is None:
                assert kind == DELETE
                memory.tombstones[table_id] = True
        if (old is None or body is None) and table_id in memory.greatest:
            memory.move_greatest(table_id, key, body is not None)
        beside: Sequence[tuple[TableInfo, bytes, bytes | None]] = ()
        if table.hook is not None or asked is not None:
            derived = self._derive(table, key, kind, prev, old_body, body, asked)
            if derived is None:
                return False
            meta, beside = derived
        moves = places = None
        if table.indexes:
            moves, places = index_moves(table, key, old_body, body, has_places=self.changes is not None)
            if moves is not None and self.catalogue.unique:
                self._claim(moves[1])
        # Only now: a hook, and a look at unique values, may have flushed the buffer.
        name = table_id, key
        latest = self._latest.get(name)
        if body is None:
            place = BURIED
        elif latest is None:
            place = NEW if old is None else MOVED
        else:
            place = RETURNED if old is None else latest[7]
        # The same object where it can be: it is kept, as seq and commit, with each change that waits.
        step, first, time, origin = self.count, self.first, self.time, self.origin
        seq = first + step if step else first
        checksum = entry_checksum(seq, table_id, kind, step, prev, time, key, body, origin, meta)
        # Bytearrays are bound as they are. For bytes, sqlite3 looks for an adapter, which takes longer than all else of it.
        bound, content, size = bytearray(key), None, 0
        if body is not None:
            content, size = bytearray(body), len(body)
            gain += checksum
        if meta is not None:
            self._is_labelled = True
            size += len(meta)
        row = seq, table_id, kind, step, prev or 0, time, bound, content, checksum
        entry = row, key, body, meta, gain, had_tombstone, moves, place
        buffer = self._buffer
        buffer.append(entry)
        self._latest[name] = entry
        if self.changes is not None:
            change = Change(
                seq, table.reference, table_id, key, kind, prev, old_body, body, first, time, origin, meta
            )
            change.places = places
            if documents is not None and step < MOST_IN_HAND:
                change.old, change.new = documents
            self.changes.append(change)
        self.count = step + 1
        if size > LARGE_BYTES or len(buffer) >= MOST_ENTRIES:
            self.flush()
        for other in beside:
            self.put(*other)
        return True

    def _derive(
        self,
        table: TableInfo,
        key: bytes,
        kind: int,
        prev: int | None,
        old_body: bytes | None,
        body: bytes | None,
        asked: Any,
    ) -> Derived | None:
        """Run the table's write hook on a write. Returns None where the hook makes no new version; its rows for other
        tables are written."""
        if table.hook is None:
            raise UsageError(f"table `{table.name}` has no write hook for the given argument")
        old_meta = None if prev is None else self.meta_of(prev)
        before = self.count, self.catalogue
        derived = run_hook(
            Draft(self, table, key, kind, old_body, old_meta, body, asked, self.time, self.origin)
        )
        if before != (self.count, self.catalogue):
            raise UsageError(
                f"the write hook `{table.hook}` has written itself: it must return its data, and the transaction writes them"
            )
        is_new = derived.meta is not None and (derived.meta != old_meta or derived.beside)
        if is_new or old_body != body:
            return derived
        for other in derived.beside:
            self.put(*other)
        return None

    def meta_of(self, seq: int) -> bytes | None:
        """The metadata of an entry to which a head or a tombstone leads."""
        place = seq - self.first - self.flushed
        return self._buffer[place][3] if place >= 0 else read_meta(self.connection, self.catalogue, seq)

    def _check_blobs(self, body: bytes) -> None:
        """Raises: BlobNotFound."""
        check_blobs(self.connection, body)
        self.has_blobs = True

    def _may_have_tombstones(self, table: TableInfo) -> bool:
        known = self.memory.tombstones.get(table.id)
        if known is None:
            row = self.execute("SELECT 1 FROM graves WHERE table_id = ? LIMIT 1", (table.id,)).fetchone()
            known = self.memory.tombstones[table.id] = row is not None
        return known

    def _find_tombstone(self, table: TableInfo, key: bytes) -> tuple[int | None, bool]:
        """The seq of the entry that deleted this key earlier, or None; and whether the key then has a tombstone."""
        latest = self._latest.get((table.id, key))
        if latest is not None:
            # True although the deletion is still buffered: a savepoint that begins between the two may cause two
            # flushes. In one flush the key's first entry has the state of the file.
            return latest[0][0], True
        row = self.execute(GET_TOMBSTONE, (table.id, key)).fetchone()
        return (None, False) if row is None else (int(row[0]), True)

    # -----------------------------------------------------------------------------------------------------------
    # Unique indexes

    def _claim(self, added: Iterable[IndexEntry]) -> None:
        """Note index entries that the next change adds, for `check_unique`."""
        if self.claims is None:
            self.claims = Claims()
        elif self.claims.is_long():
            self.flush()
            savepoint = self.savepoint
            while savepoint is not None and savepoint.start == self.count:
                # To roll it back would change nothing.
                savepoint = savepoint.outer
            self.claims.shorten(self.connection, 0 if savepoint is None else savepoint.start)
        self.claims.add(added, self.catalogue.unique, self.count)

    def check_unique(self) -> None:
        """Look at the documents as this transaction leaves them. The writer calls this before it commits.

        Raises:
            DuplicateIndexKey: A value of a unique index belongs to two documents.
        """
        if self.claims is not None:
            self.flush()
            self.claims.check(self.connection, self.catalogue)

    def check_free(self, table: TableInfo, key: bytes, old_body: bytes | None, body: bytes | None) -> None:
        """Look before a step of one document, for writers that report each document's error.

        Args:
            old_body, body: The document before and after.

        Raises:
            DuplicateIndexKey: Another document has a value that the step adds to a unique index. Nothing was written.
        """
        if not (table.indexes and self.catalogue.unique) or body is None:
            return
        moves, _ = index_moves(table, key, old_body, body, has_places=False)
        claims = Claims()
        claims.add(() if moves is None else moves[1], self.catalogue.unique, 0)
        if claims:
            self.flush()
        for index_id, value in claims:
            for owner in find_owners(self.connection, index_id, value):
                if owner != key:
                    keys = [collation.key_value(owner), collation.key_value(key)]
                    index = self.catalogue.unique[index_id]
                    shown = show_value(self.connection, self.catalogue, (index_id, value), owner)
                    raise duplicates_error(self.catalogue, index, [(shown, keys)])

    # -----------------------------------------------------------------------------------------------------------
    # The buffer

    def flush(self) -> None:
        """Give SQLite all buffered changes.

        Raises:
            SQLiteError: From the file. A part may be written: the transaction can only be rolled back as a whole.
        """
        if self.count > self.flushed:
            if self.savepoint is not None:
                self.secure()
            self._flush_until(self.count)

    def secure(self) -> None:
        """Make the savepoints that are open in SQLite, too. Called before SQLite is given anything."""
        savepoint = self.savepoint
        if savepoint is None:
            return
        opened = []
        while savepoint is not None:
            opened.append(savepoint)
            savepoint = savepoint.outer
        for savepoint in reversed(opened):
            self._flush_until(savepoint.start)
            savepoint.save()

    def drop_changes_after(self, count: int) -> None:
        """Drop all but the first `count` changes. SQLite never had them, or has rolled them back already."""
        self.count = count
        if self.changes is not None:
            del self.changes[count:]
        if count < self.flushed:
            self.flushed = count
        kept = count - self.flushed
        if len(self._buffer) > kept:
            entries = self._buffer[:kept]
            self._buffer, self._latest = entries, find_latest(entries)

    def _flush_until(self, count: int) -> None:
        """Give SQLite the buffered part of the first `count` changes."""
        if self.torn_until:
            # Ctrl-C struck the last flush. Exactly its rows are written again, after the rows that did arrive are
            # removed from the log. Written together with later rows, index entries could cancel out and be skipped
            # although SQLite has them.
            self.execute("DELETE FROM log WHERE seq >= ?", (self.first + self.flushed,))
            self.memory.forget_sums()
            self._is_torn = True
            try:
                self._write_out(self.torn_until)
            finally:
                self._is_torn = False
        if count > self.flushed:
            self.torn_until = count
            self._write_out(count)

    def _write_out(self, count: int) -> None:
        """Give SQLite the buffered part of the first `count` changes, and remove it from the buffer.

        Each key's head is moved once, however many entries it has; and an index entry that goes and comes back stays.
        """
        entries, latest = self._buffer, self._latest
        rest: list[Buffered] = []
        later: Latest = {}
        if count != self.count:
            # The entries that stay have another file below them: it may have a head of their keys by then.
            place = count - self.flushed
            rest = [one if one[7] >= BURIED else (*one[:7], RETURNED) for one in entries[place:]]
            entries = entries[:place]
            latest, later = find_latest(entries), find_latest(rest)
        memory = self.memory
        newest_blocks, known_sums = memory.blocks, memory.sums
        if len(entries) > 1 and not self._is_torn:
            # A table may have entries before the entry with which it begins a block.
            last_start = (self.first + count - 1) >> BLOCK_BITS << BLOCK_BITS
            earlier = entries[: max(0, last_start - self.first - self.flushed)]
            for table_id in set(map(table_of, map(row_of, earlier))):
                self._read_sums(table_id, self.first + self.flushed - 1)
        blocks: list[tuple[int, int]] = []
        moves: list[Moves] = []
        revived: list[tuple[int, bytearray]] = []
        for row, _, body, _, gain, had_tombstone, moved, _ in entries:
            table_id = row[1]
            block = row[0] >> BLOCK_BITS
            if newest_blocks.get(table_id) != block and self._begins(table_id, block):
                blocks.append((table_id, block))
            sums = known_sums.get(table_id)
            if sums is not None:
                sums.total += gain
                if body is None:
                    sums.count -= 1
                elif row[2] == INSERT:
                    sums.count += 1
            if had_tombstone:
                revived.append((table_id, row[6]))
            if moved is not None:
                moves.append(moved)
        self._move_heads(latest, revived)
        if self._is_labelled:
            labelled = [(*row, self.origin, meta) for row, _, _, meta, *_ in entries]
            append(self.cursor, LABELLED, labelled, len(entries))
        else:
            append(self.cursor, PLAIN, map(row_of, entries), len(entries))
        if self.has_blobs:
            add_references(self.connection, [(row[0], body) for row, _, body, *_ in entries])
        if moves:
            self._move_index_entries(moves)
        if blocks:
            self._add_blocks(blocks, self.first + count - 1)
        # Nothing is called from here on, so Ctrl-C does not strike in between.
        self._buffer = rest
        self._latest = later
        self.flushed = count
        self.torn_until = 0

    def _move_heads(self, latest: Latest, revived: list[tuple[int, bytearray]]) -> None:
        new: list[Head] = []
        moved: list[Head] = []
        returned: list[Head] = []
        buried: list[Head] = []
        by_place = new, moved, returned, buried
        for entry in latest.values():
            by_place[entry[7]].append(head_of(entry[0]))
        executemany = self.cursor.executemany
        # These first: where a key is taken, this is the statement that fails, and nothing has been written.
        if new:
            executemany(SET_HEAD if self._is_torn else ADD_HEAD, new)
        if moved:
            executemany(MOVE_HEAD, moved)
        if returned:
            executemany(SET_HEAD, returned)
        if revived:
            executemany(DROP_TOMBSTONE, revived)
        if buried:
            executemany(DROP_HEAD, [head[1:] for head in buried])
            # After the dropped ones: a key may have returned, and be deleted again.
            executemany(SET_TOMBSTONE, buried)

    def _move_index_entries(self, moves: Sequence[Moves]) -> None:
        added: dict[IndexEntry, None] = {}
        dropped: dict[IndexEntry, None] = {}
        for gone, come in moves:
            for here, there, moved in ((added, dropped, gone), (dropped, added, come)):
                for entry in moved:
                    if entry in here:
                        del here[entry]
                    else:
                        there[entry] = None
        if dropped:
            dropped_count = self.cursor.executemany(DROP_ENTRY, sorted(dropped)).rowcount
            if dropped_count != len(dropped) and not self._is_torn:
                raise self._lost_entries_error(dropped)
        if added:
            self.cursor.executemany(SET_ENTRY, sorted(added))
        if self.memory.figures:
            move_entries(self.memory.figures, dropped, added)

    def _lost_entries_error(self, dropped: Iterable[IndexEntry]) -> CorruptDatabase:
        """The error of a write that moves index entries which are missing from their places. Writing the new entries
        all the same would hide the damage from the doctor."""
        numbers = {abs(entry[0]) for entry in dropped}
        names = sorted(
            f"`{index.name}` of table `{table.name}`"
            for table in self.catalogue.by_id.values()
            for index in table.indexes.values()
            if index.id in numbers
        )
        return CorruptDatabase(
            f"index {' or '.join(names)} lacks entries of a document that is written: another program has changed the file, or it"
            f" is damaged. {ADVICE}"
        )

    def _begins(self, table_id: int, block: int) -> bool:
        """Whether the table block index does not have this block of the table yet, into which a flush is about to write for the
        first time. The sums of the table are known from then on, as of before the flush."""
        newest_blocks = self.memory.blocks
        if table_id not in newest_blocks:
            newest = self.execute(NEWEST_BLOCK, (table_id,)).fetchone()
            newest_blocks[table_id] = -1 if newest is None else newest[0]
        if block <= newest_blocks[table_id]:
            return False
        newest_blocks[table_id] = block
        if not self._is_torn:
            # Before there are more entries to be rolled forward through.
            self._read_sums(table_id, self.first + self.flushed - 1)
        return True

    def _add_blocks(self, blocks: Sequence[tuple[int, int]], until: int) -> None:
        """Note in the table block index which tables have begun which blocks, in order. The newest block of each
        table gets the sums as of `until`, the newest entry in the file."""
        newest_blocks = self.memory.blocks
        rows: list[tuple[int, int, bytes | None]] = []
        # The newest first: if Ctrl-C strikes, no block may be the newest without its sums.
        for table_id, block in reversed(blocks):
            packed = None
            if block == newest_blocks[table_id]:
                sums = self._read_sums(table_id, until)
                if sums is not None:
                    sums.seq = until
                    packed = sums.pack(table_id, block)
            rows.append((table_id, block, packed))
        self.cursor.executemany(ADD_BLOCK, rows)

    def _read_sums(self, table_id: int, until: int) -> Sums | None:
        """The running sums of a table as of `until`, the newest entry in the file; None where the file has none."""
        memory = self.memory
        if table_id not in memory.sums:
            table = self.catalogue.by_id.get(table_id)
            sums = None
            if table is not None:
                unlisted = (self.first + self.flushed - 1, until + 1) if self._is_torn else None
                _, sums = newest(self.connection, table, tuple(table.indexes.values()), unlisted)
                sums = sums or measure_sums(self.connection, table, until, MOST_IN_PASSING)
            if sums is not None:
                memory.figures.update(sums.indexes)
            memory.sums[table_id] = sums
        return memory.sums[table_id]

    # -----------------------------------------------------------------------------------------------------------
    # Many at once

    def insert_many(self, table: TableInfo, keys: Sequence[bytes], bodies: Sequence[bytes]) -> None:
        """Add many encoded documents with free keys, at half the cost of single inserts.

        Raises:
            KeyTaken: A key is not free, or occurs twice. The caller rolls back and finds the key.
        """
        if table.hook is not None or self._may_have_tombstones(table):
            for key, body in zip(keys, bodies, strict=True):
                self.insert(table, key, body)
            return
        blobs = filter_blob_candidates(bodies)
        for number in blobs:
            self._check_blobs(bodies[number])
        self.memory.greatest.pop(table.id, None)
        self.secure()
        self.flush()
        count = len(keys)
        self.torn_until = self.count + count
        table_id, time, origin, step = table.id, self.time, self.origin, self.count
        seqs = range(self.first + step, self.first + step + count)
        blocks = [
            (table_id, block)
            for block in range(seqs[0] >> BLOCK_BITS, (seqs[-1] >> BLOCK_BITS) + 1)
            if self._begins(table_id, block)
        ]
        total, checksums = insert_checksums(seqs[0], table_id, step, time, keys, bodies, origin)
        steps = range(step, step + count)
        common = (seqs, repeat(table_id), repeat(INSERT), steps, repeat(time), keys, bodies, checksums)
        if origin is None:
            append(self.cursor, INSERTS, zip(*common, strict=False), count)
        else:
            append(self.cursor, LABELLED_INSERTS, zip(*common, repeat(origin), strict=False), count)
        try:
            self.execute(make_heads_statement(keys), (seqs[0],))
        except IntegrityError:
            raise KeyTaken from None
        sums = self.memory.sums.get(table_id)
        if sums is not None:
            sums.count += count
            sums.total += total
        add_references(self.connection, [(seqs[number], bodies[number]) for number in blobs])
        if table.indexes:
            documents = [(key, codec.decode(body)) for key, body in zip(keys, bodies, strict=True)]
            for index in table.indexes.values():
                added = sorted(
                    (index_id, value, key, tag)
                    for key, document in documents
                    for index_id, value, tag in index.stored_entries(document)
                )
                if index.is_unique:
                    self._claim(added)
                self.cursor.executemany(ADD_ENTRY, added)
                add_entries(self.memory.figures, added)
        if blocks:
            self._add_blocks(blocks, seqs[-1])
        self.count += count
        self.flushed = self.count
        self.torn_until = 0
        if self.changes is not None:
            name, first = table.reference, self.first
            self.changes += [
                Change(seq, name, table_id, key, INSERT, None, None, body, first, time, origin)
                for seq, key, body in zip(seqs, keys, bodies, strict=True)
            ]

    # -----------------------------------------------------------------------------------------------------------
    # Tables and indexes

    def create_table(self, name: str, primary_key: str, owner: str | None = None) -> TableInfo:
        """Create a table. The caller has checked that the name is free. `owner`: the owner of a hidden table; None
        for an ordinary table."""
        seq = self._next_seq()
        table_id = self.execute(
            "INSERT INTO tables (name, primary_key, created, owner) VALUES (?, ?, ?, ?)",
            (name, primary_key, seq, owner),
        ).lastrowid
        table = TableInfo(table_id, name, primary_key, seq, None, {}, owner)
        self._log_catalogue(TABLE_CREATE, table, primary_key=primary_key)
        return self.catalogue.by_id[table_id]

    def drop_table(self, table: TableInfo) -> None:
        """Take the table off the list. Its documents stay for views of the past until compaction passes this point."""
        seq = self._next_seq()
        self.execute("UPDATE tables SET dropped = ? WHERE id = ?", (seq, table.id))
        self._log_catalogue(TABLE_DROP, table)

    def rename_table(self, table: TableInfo, name: str) -> None:
        """Rename a table. The caller has checked that `name` is free. Feeds continue: they know the table by its
        number."""
        self._next_seq()
        self.execute("UPDATE tables SET name = ? WHERE id = ?", (name, table.id))
        self._log_catalogue(TABLE_RENAME, table, new_name=name)

    def set_hook(self, table: TableInfo, hook: str | None) -> None:
        """Set the write hook of a table by name; None removes the hook. Stored documents stay as they are."""
        self._next_seq()
        self.execute("UPDATE tables SET hook = ? WHERE id = ?", (hook, table.id))
        self._log_catalogue(HOOK_SET, table, hook=hook)

    def create_index(
        self, table: TableInfo, name: str, expression: bytes, multi: bool, is_unique: bool = False
    ) -> None:
        """List the index and fill it from the documents.

        Raises:
            DuplicateIndexKey: It is to be unique, and documents have the same value. The caller rolls back.
        """
        self._next_seq()
        index_id = self.execute(
            "INSERT INTO indexes (table_id, name, expression, multi, is_unique) VALUES (?, ?, ?, ?, ?)",
            (table.id, name, expression, multi, is_unique),
        ).lastrowid
        index = make_index(index_id, table.id, name, expression, multi, is_unique)
        entries = [
            (entry_index_id, value, key, tag)
            for key, body in spend_per_element(self.snapshot().rows(table))
            for entry_index_id, value, tag in index.stored_entries(codec.decode(body))
        ]
        entries.sort()
        if is_unique:
            check_new_index(self.connection, self.catalogue, index, entries)
        self.cursor.executemany(ADD_ENTRY, entries)
        self._sum_index(table, index, entries)
        unique = {"unique": True} if is_unique else {}
        self._log_catalogue(
            INDEX_CREATE, table, index, expression=codec.decode_value(expression), multi=multi, **unique
        )

    def _sum_index(self, table: TableInfo, index: IndexInfo, entries: Sequence[IndexEntry]) -> None:
        """Add the sums of a new index to those of its table, if the file has sums. A table without any entry has
        none: all of them are 0."""
        newest = self.execute(NEWEST_BLOCK, (table.id,)).fetchone()
        sums = None if newest is None else self._read_sums(table.id, self.first + self.count - 1)
        if sums is not None:
            sums.add_index(index.id)
            add_entries(sums.indexes, entries)
            sums.seq = self.first + self.count - 1
            self.execute(SET_SUMS, (sums.pack(table.id, newest[0]), table.id, newest[0]))
        self.memory.forget_sums()

    def drop_index(self, table: TableInfo, name: str) -> None:
        self._next_seq()
        index = table.indexes[name]
        self.execute("DELETE FROM indexes WHERE id = ?", (index.id,))
        self.execute("DELETE FROM entries WHERE index_id IN (?1, -?1)", (index.id,))
        # The cache has the sums of this index.
        self.memory.forget_sums()
        self._log_catalogue(INDEX_DROP, table, index)

    def rename_index(self, table: TableInfo, old: str, new: str) -> None:
        """Rename an index. The caller has checked that `new` is free. Feeds of the index `old` end, because that name
        is gone."""
        self._next_seq()
        index = table.indexes[old]
        self.execute("UPDATE indexes SET name = ? WHERE id = ?", (new, index.id))
        self._log_catalogue(INDEX_RENAME, table, index, new_name=new)

    def _next_seq(self) -> int:
        """The seq of the catalogue change that follows. All documents before it are flushed, and open savepoints can
        be rolled back."""
        self.secure()
        self.flush()
        return self.first + self.count

    def _log_catalogue(
        self, kind: int, table: TableInfo, index: IndexInfo | None = None, **details: Any
    ) -> None:
        """Append the entry of a change to the catalogue, which the file has already. It has no head: nothing is looked up by
        it."""
        record: dict[str, Any] = {"table": table.name, "table_id": table.id}
        if table.owner is not None:
            record["owner"] = table.owner
        if index is not None:
            record |= {"index": index.name, "index_id": index.id}
        key = collation.key_bytes(table.name if index is None else [table.name, index.name])
        body = codec.encode(record | details)
        step, time, origin = self.count, self.time, self.origin
        seq = self.first + step
        checksum = entry_checksum(seq, CATALOGUE, kind, step, None, time, key, body, origin, None)
        row = seq, CATALOGUE, kind, step, 0, time, bytearray(key), bytearray(body), checksum
        self._buffer.append((row, key, body, None, 0, False, None, NO_HEAD))
        if self.changes is not None:
            self.changes.append(
                CatalogueChange(seq, None, CATALOGUE, key, kind, None, None, body, self.first, time, origin)
            )
        self.count += 1
        self.flush()
        version = self.catalogue.version + 1
        set_fact(self.connection, "catalogue", version)
        self.catalogue = build_catalogue(version, write_catalogue_checksum(self.connection))
        self.is_catalogue_changed = True


class Savepoint:
    """A context manager: one write inside a longer transaction is applied whole or not at all. An exception rolls
    back the work inside the block, and no more.

    The buffer and SQLite are always rolled back together.

    Attributes:
        start: How many changes the transaction had when it was opened.
        outer: The enclosing savepoint, or None.
        depth: 1 for the outermost savepoint.
        flow: The owner, where several flows share the transaction or the savepoint belongs to a block; else None.
    """

    __slots__ = (
        "_before",
        "_is_saved",
        "_operation",
        "_owner",
        "_transaction",
        "depth",
        "flow",
        "outer",
        "start",
    )

    def __init__(
        self, transaction: WriteTransaction, owner: Owner, operation: str, flow: ControlFlow | None = None
    ) -> None:
        if transaction.ruin is not None:
            raise transaction.ruin
        self._transaction = transaction
        self._owner = owner
        self._operation = operation
        self.flow = flow
        self._is_saved = False
        self._before = (transaction.catalogue, transaction.is_catalogue_changed, transaction.has_other_rows)
        self.start = transaction.count
        self.outer = transaction.savepoint
        # One name for each depth: a rollback must not reach the enclosing savepoint.
        self.depth: int = 1 if self.outer is None else self.outer.depth + 1

    def __enter__(self) -> None:
        self._transaction.savepoint = self

    def save(self) -> None:
        """Begin the savepoint in SQLite. All earlier changes are in the file."""
        if not self._is_saved:
            self._transaction.execute(f"SAVEPOINT write{self.depth}")
            self._is_saved = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._transaction.savepoint is not self and not self._is_open():
            # The enclosing transaction has ended. There is nothing to roll back, and the connection's next
            # transaction may have a savepoint of the same name.
            if error is None:
                raise TransactionEnded(self._operation, None)
            return
        if error is not None:
            self._end(error)
            return
        try:
            if self._transaction.ruin is not None:
                raise self._transaction.ruin
            if self._is_saved:
                self._transaction.execute(f"RELEASE write{self.depth}")
            self._transaction.savepoint = self.outer
        except BaseException as late:
            self._end(late)
            raise

    def _is_open(self) -> bool:
        """Whether this savepoint is still open."""
        open_one = self._transaction.savepoint
        while open_one is not None and open_one is not self:
            open_one = open_one.outer
        return open_one is not None

    def _end(self, error: BaseException) -> None:
        """Roll back the work inside. Raises: SQLite's error as one of ours."""
        transaction, owner = self._transaction, self._owner
        try:
            translated = owner.note_failure(error, self._operation)
            if isinstance(translated, CorruptDatabase):
                # Also where the caller catches the error: work after damage is not worth keeping.
                transaction.ruin = transaction.ruin or translated
            if not owner.is_abandoned and not self._take_back(is_of_sqlite=translated is not error):
                # SQLite has rolled back the whole transaction (a full disk can cause this), or refused to roll back
                # all buffered rows. Later writes must not become a transaction of their own, with half of the work.
                transaction.ruin = transaction.ruin or translated
            if translated is not error:
                raise translated from error
        finally:
            transaction.savepoint = self.outer

    def _take_back(self, is_of_sqlite: bool) -> bool:
        """Roll back. Returns: whether the transaction can continue.

        Args:
            is_of_sqlite: The error comes from SQLite, and not from a mistake in the arguments.
        """
        transaction = self._transaction
        execute = transaction.connection.execute
        try:
            if not transaction.connection.in_transaction:
                return False
        except SQLiteError:
            return False  # closed inside
        try:
            # Also where it is not known to be there: Ctrl-C may have struck while it was made.
            execute(f"ROLLBACK TO write{self.depth}")
            execute(f"RELEASE write{self.depth}")
        except SQLiteError:
            if self._is_saved:
                # Ctrl-C struck after the release: the work is whole, and stays.
                logger.debug("there is no savepoint to go back to", exc_info=True)
                return True
            if transaction.torn_until and is_of_sqlite:
                return False
        else:
            # The torn flush came after the savepoint, and was rolled back with it.
            transaction.torn_until = 0
            transaction.memory.forget()
        transaction.drop_changes_after(self.start)
        transaction.catalogue, transaction.is_catalogue_changed, transaction.has_other_rows = self._before
        return True


def find_latest(entries: Iterable[Buffered]) -> Latest:
    """The newest of these entries of each key."""
    return {(entry[0][1], entry[1]): entry for entry in entries if entry[7] != NO_HEAD}


def index_moves(
    table: TableInfo, key: bytes, old_body: bytes | None, body: bytes | None, *, has_places: bool = True
) -> tuple[Moves | None, dict[int, Sequence[bytes]]]:
    """Compute the index entries that one step of a document adds and removes, and the values of the document in each
    index.

    Args:
        has_places: The latter is wanted.
    """
    old = None if old_body is None else codec.decode(old_body)
    new = None if body is None else codec.decode(body)
    dropped: list[IndexEntry] = []
    added: list[IndexEntry] = []
    places: dict[int, Sequence[bytes]] = {}
    for index in table.indexes.values():
        is_untouched = old is not None and new is not None and index.is_untouched(old, new)
        if is_untouched and not has_places:
            continue
        before = [] if old is None else index.stored_entries(old)
        after = before if is_untouched else [] if new is None else index.stored_entries(new)
        if before == after:
            places[index.id] = [value for index_id, value, _ in before if index_id > 0]
            continue
        places[index.id] = [value for index_id, value, _ in before + after if index_id > 0]
        dropped += [(one[0], one[1], key, one[2]) for one in before if one not in after]
        added += [(one[0], one[1], key, one[2]) for one in after if one not in before]
    return ((dropped, added) if dropped or added else None), places
