"""The log: entries in and out. A sound file's log is read here and nowhere else, and appended to here and nowhere else.

    read           a page of entries, column by column, each compared with its checksum
    read_document_then   a document of the past, by the chain of its key's entries
    changes_of     the same entries as `Change` values
    PastNames      the names of their tables at that time
    log_changes    the result of `db.log()`: all pages between two seqs
    append         entries of one commit, many to a statement

A change points with `prev` at the entry of the document before it. Reading that document together with its change
costs half as much again. So `log_changes` begins without the old documents. It reads those of a whole page when a
caller uses the first of them (`OldDocuments`), and reads the later pages with them.

Rule of this file: every entry is verified before it is given to anybody, and a gap is an error.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import accumulate, chain, count, islice, pairwise, repeat
from operator import itemgetter, le, sub
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakSet

from reactdb.change import (
    CATALOGUE,
    CATALOGUE_KINDS,
    INSERT,
    TABLE_RENAME,
    CatalogueChange,
    Change,
    TableReference,
)
from reactdb.errors import CorruptDatabase, HistoryLost, ReactDBError
from reactdb.logs import logger
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.checksums import are_entries_whole, are_steps_whole, is_entry_whole, is_whole
from reactdb.store.damage import corruption_error, damaged_entry_error, missing_entry_error
from reactdb.store.file.sqlite import ADVICE, Connection, Cursor
from reactdb.store.schema import BLOCK_BITS

# Entries of a page: about 0.3 MB of ordinary documents. The garbage collector looks at each of them, so more cost more.
PAGE_CHANGES = 500

# In the order of `checksums.entry_checksum`, and the checksum.
ENTRY = "l.seq, l.table_id, l.kind, l.step, l.prev, l.time, l.key, l.body, l.origin, l.meta, l.seal"
ENTRY_COLUMNS = 11
KEY, BODY, META = 6, 7, 9
# In the order of `checksums.are_steps_whole`, and the two columns that it does not verify.
STEP = "l.seq, l.kind, l.step, l.prev, l.time, l.origin, l.meta, l.seal, l.table_id, l.key"
STEP_COLUMNS = 8
OLD = ", p.body, p.seal"
JOIN_OLD = " LEFT JOIN log p ON p.seq = l.prev"
# SQLite finds out a document's length without reading the document.
SIZE, OLD_SIZE = "ifnull(length(l.body), 0)", " + ifnull(length(p.body), 0)"
CHANGES = "SELECT {columns} FROM log l{join} WHERE l.seq > ? AND l.seq <= ?{where} ORDER BY l.seq LIMIT ?"
# For one range of blocks that have entries of the table. If a statement joined the blocks and the log, SQLite would sort the
# entries of each block, documents and all, because it does not know that they already have this order.
OF_TABLE = " AND l.table_id = ?"
BLOCKS = "SELECT block FROM marks WHERE table_id = ? AND block >= ? AND block <= ? ORDER BY block LIMIT ?"
# Blocks that one statement finds: as many as 2,000 entries fill.
BLOCKS_AT_ONCE = 64
ONE_ENTRY = f"SELECT {ENTRY} FROM log l WHERE l.seq = ?"
ONE_CHANGE = f"SELECT {ENTRY}{OLD} FROM log l{JOIN_OLD} WHERE l.seq = ?"
# The entries of one key past a seq, newest first: its head or its tombstone has the newest, and each names the one before.
# Only the oldest comes with the document before it. LEFT JOIN: a number without its entry is damage and no end.
CHAIN = (
    "WITH RECURSIVE chain (seq) AS ("
    "SELECT seq FROM heads WHERE table_id = ?1 AND key = ?2 AND seq > ?3"
    " UNION ALL SELECT seq FROM graves WHERE table_id = ?1 AND key = ?2 AND seq > ?3"
    " UNION ALL SELECT l.prev FROM chain c JOIN log l ON l.seq = c.seq WHERE l.prev > ?3)"
    f" SELECT {ENTRY}{OLD}, c.seq FROM chain c LEFT JOIN log l ON l.seq = c.seq"
    " LEFT JOIN log p ON p.seq = l.prev AND l.prev <= ?3"
)
TIME_AT = "SELECT time FROM log WHERE seq <= ? ORDER BY seq DESC LIMIT 1"
LOW_WATER = "SELECT value FROM facts WHERE name = 'low_water'"
# Documents that one statement reads.
PICKED = 100
PICK_OLD = f"SELECT seq, body, seal FROM log WHERE seq IN ({', '.join('?' * PICKED)})"


def read_low_water(connection: Connection) -> int:
    """The oldest position that the log can still be read from: every change past it is there.

    Raises:
        CorruptDatabase: The file has no number there.
    """
    (value,) = connection.execute(LOW_WATER).fetchone() or (None,)
    return check_whole_number("the low-water mark", value)


def check_whole_number(name: str, value: object) -> int:
    """A number that SQLite has read from a file, where damage can leave a value of any type.

    Raises:
        CorruptDatabase: It is no whole number.
    """
    if type(value) is not int:
        raise CorruptDatabase(f"{name} is no whole number, but {type(value).__name__}. {ADVICE}")
    return value


# ---------------------------------------------------------------------------------------------------------------
# Entries out


class Entries(NamedTuple):
    """Log entries, column by column; at least one. `bodies` are the documents, and `olds` the documents before; each is empty
    where the caller does not need it."""

    seqs: Sequence[int]
    table_ids: Sequence[int]
    kinds: Sequence[int]
    steps: Sequence[int]
    prevs: Sequence[int | None]
    times: Sequence[int]
    keys: Sequence[bytes]
    bodies: Sequence[bytes | None]
    origins: Sequence[str | None]
    metas: Sequence[bytes | None]
    olds: Sequence[bytes | None]


# For a page of rows that come from no log.
NO_ENTRIES: Final = Entries((), (), (), (), (), (), (), (), (), (), ())


def read(
    connection: Connection,
    catalogue: Catalogue,
    since: int,
    until: int,
    *,
    table_ids: Sequence[int] | None = None,
    has_new: bool = True,
    has_old: bool = True,
    limit: int = PAGE_CHANGES,
    most_bytes: int | None = None,
    oldest: int | None = None,
) -> tuple[Entries | None, int]:
    """A page of the log with since < seq <= until, oldest first.

    Args:
        table_ids: Of these tables alone; None: of all.
        has_new: Read the documents. If not, the tables and keys are not verified either, because a checksum covers them together
            with the document.
        has_old: Read the documents before, too. They are read only together with the documents.
        limit: The most entries of a page.
        most_bytes: The documents of a page have at most this number of bytes, unless the first entry alone has more; None:
            however many they have.
        oldest: The oldest position that the log can be read from, where the caller knows it.

    Returns:
        (the entries, or None; the position for the next page: `until` after the last page).

    Raises:
        HistoryLost: Some of them were compacted away.
        CorruptDatabase: Entries are missing or do not match their checksums: another program has written to the file,
            or it is damaged.
    """
    if oldest is None:
        oldest = read_low_water(connection)
    if since < oldest:
        raise HistoryLost(since, oldest + 1)
    if since >= until:
        return None, since
    join, size = (JOIN_OLD, SIZE + OLD_SIZE) if has_old else ("", SIZE)
    columns = STEP if not has_new else ENTRY + OLD if has_old else ENTRY
    if table_ids is None:
        where = ""
    elif len(table_ids) == 1:
        where = OF_TABLE
    else:
        # Numbers of our own list of tables.
        where = f" AND l.table_id IN ({', '.join(map(str, table_ids))})"
    arguments = (connection, table_ids, since, until)
    if most_bytes is not None and has_new:
        rows = _fetch(CHANGES.format(columns=size, join=join, where=where), *arguments, limit)
        fitting = bisect_right(list(accumulate(map(itemgetter(0), rows))), most_bytes)
        if fitting < len(rows):
            limit = max(1, fitting)
    rows = _fetch(CHANGES.format(columns=columns, join=join, where=where), *arguments, limit)
    is_last = len(rows) < limit
    last = int(rows[-1][0]) if rows else since
    position = until if is_last else last
    # Past the low-water mark there is every seq.
    if table_ids is None and position - since != len(rows):
        present = {row[0] for row in rows}
        raise missing_entry_error(next(seq for seq in count(since + 1) if seq not in present))
    if not rows:
        return None, position
    return (verify_rows(rows, catalogue) if has_new else verify_steps(rows, catalogue)), position


def _fetch(
    text: str, connection: Connection, table_ids: Sequence[int] | None, since: int, until: int, limit: int
) -> list[tuple[Any, ...]]:
    """The rows of `CHANGES`, at most `limit`."""
    if table_ids is None or len(table_ids) != 1:
        return connection.execute(text, (since, until, limit)).fetchall()  # type: ignore[no-any-return]
    rows: list[tuple[Any, ...]] = []
    (table_id,) = table_ids
    for first, last in find_ranges(connection, table_id, since, until):
        rows += connection.execute(text, (first, last, table_id, limit - len(rows))).fetchall()
        if len(rows) == limit:
            break
    return rows


def find_ranges(connection: Connection, table_id: int, since: int, until: int) -> Iterator[tuple[int, int]]:
    """Parts of since < seq <= until, in their order, that together have all entries of a table: runs of neighbouring blocks that
    have entries of it. Each as (since, until).

    Raises:
        CorruptDatabase: The list of blocks has a value of a wrong type.
    """
    block, end = (since + 1) >> BLOCK_BITS, until >> BLOCK_BITS
    while block <= end:
        rows = connection.execute(BLOCKS, (table_id, block, end, BLOCKS_AT_ONCE)).fetchall()
        blocks = [check_whole_number("a block of the block index", found) for (found,) in rows]
        breaks = [place for place, (one, next_) in enumerate(pairwise(blocks), 1) if next_ != one + 1]
        for first, after in pairwise([0, *breaks, len(blocks)] if blocks else ()):
            yield (
                max(since, (blocks[first] << BLOCK_BITS) - 1),
                min(until, ((blocks[after - 1] + 1) << BLOCK_BITS) - 1),
            )
        if len(blocks) < BLOCKS_AT_ONCE:
            return
        block = blocks[-1] + 1


def read_one(connection: Connection, catalogue: Catalogue, seq: int) -> Change | None:
    """The log entry at `seq`, or None where it was compacted away or never written. Its document before may be gone, too.

    Raises:
        CorruptDatabase: The entry does not match its checksum.
    """
    rows = connection.execute(ONE_CHANGE, (seq,)).fetchall()
    if not rows:
        return None
    return next(make_changes(verify_rows(rows, catalogue, is_complete=False), catalogue))


def read_document_then(
    connection: Connection, catalogue: Catalogue, table_id: int, key: bytes, seq: int
) -> tuple[bool, bytes | None]:
    """Follow the chain of one key's entries back to a seq, however many entries other keys have had since.

    Args:
        seq: At or past the low-water mark.

    Returns:
        (whether the key has changed after `seq`; if so, its encoded document at `seq`, None where it had none).

    Raises:
        CorruptDatabase: An entry of the chain is missing, is another document's, or does not match its checksum.
    """
    cursor = connection.execute(CHAIN, (table_id, key, seq))
    entries: Entries | None = None
    while rows := cursor.fetchmany(PAGE_CHANGES):
        found = [row[:-1] for row in rows if row[0] is not None]
        if found:
            entries = verify_rows(found, catalogue, is_complete=False)
            for number, *place in zip(entries.seqs, entries.table_ids, entries.keys, strict=True):
                if place != [table_id, key]:
                    trouble = f"its log entry {number} is another document's"
                    raise corruption_error(trouble, name_of(table_id, catalogue), key, number)
        if len(found) < len(rows):
            raise missing_entry_error(next(row[-1] for row in rows if row[0] is None))
    if entries is None:
        return False, None
    last = (entries.seqs[-1], entries.kinds[-1], entries.prevs[-1], entries.olds[-1])
    _check_old(name_of(table_id, catalogue), key, *last)
    return True, entries.olds[-1]


def read_meta(connection: Connection, catalogue: Catalogue, seq: int) -> bytes | None:
    """The metadata of the log entry at `seq`, to which a head or a tombstone leads.

    Raises:
        CorruptDatabase: The entry is missing, or does not match its checksum.
    """
    row = connection.execute(ONE_ENTRY, (seq,)).fetchone()
    if row is None:
        raise missing_entry_error(seq)
    if not is_entry_whole(row):
        raise damaged_entry_error(name_of(row[1], catalogue), row[KEY], seq)
    meta: bytes | None = row[META]
    return meta


def read_time_at(connection: Connection, seq: int) -> int:
    """The time of the newest remaining entry up to `seq`, in milliseconds since 1970; 0 without one."""
    row = connection.execute(TIME_AT, (seq,)).fetchone()
    return 0 if row is None else int(row[0])


def fetch(
    cursor: Any, limit: int, most_bytes: int, body: int, old: int | None = None
) -> tuple[list[tuple[Any, ...]], bool]:
    """Rows of a cursor: at most `limit`, which its statement has too, and no row after `most_bytes` of documents are
    reached.

    Row by row, because the size of a row is unknown before it is read: any of the next hundred may have a document of
    16 MB. This costs as much as calls for hundreds of rows.

    Args:
        body, old: The numbers of the columns that have documents.

    Returns:
        (the rows, whether there are surely no more).
    """
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in cursor:
        rows.append(row)
        try:
            size += len(row[body] or b"")
            if old is not None:
                size += len(row[old] or b"")
        except TypeError:
            # Damage, which is found when the row is verified.
            pass
        if size >= most_bytes:
            cursor.close()
            return rows, False
    return rows, len(rows) < limit


def make_changes(
    entries: Entries | None, catalogue: Catalogue, old_documents: OldDocuments | None = None
) -> Iterator[Change]:
    """Make `Change` values from log entries, one by one as they are used.

    Args:
        old_documents: Where the documents before are looked up, if the entries were read without.
    """
    if entries is None:
        return iter(())
    seqs, table_ids, kinds, steps, prevs, times, keys, bodies, origins, metas, olds = entries
    names = {number: name_of(number, catalogue) for number in set(table_ids)}
    tables, commits = map(names.__getitem__, table_ids), map(sub, seqs, steps)
    before: Iterable[Any] = olds if old_documents is None else repeat(old_documents)
    return map(
        _change_of if CATALOGUE in names else Change,
        seqs,
        tables,
        table_ids,
        keys,
        kinds,
        prevs,
        before,
        bodies,
        commits,
        times,
        origins,
        metas,
    )


def _change_of(seq: int, table: Any, table_id: int, *columns: Any) -> Change:
    kind = CatalogueChange if table_id == CATALOGUE else Change
    return kind(seq, table, table_id, *columns)


def is_shown(change: Change) -> bool:
    """Whether the change belongs to a table that users see."""
    return type(change.table) is str


def name_of(table_id: int, catalogue: Catalogue) -> TableReference:
    """The name by which a table is looked up, also a dropped table; its number where compaction has removed the
    name."""
    known = catalogue.by_id.get(table_id)
    return f"#{table_id}" if known is None else known.reference


def verify_rows(
    rows: Sequence[tuple[Any, ...]], catalogue: Catalogue, *, is_complete: bool = True
) -> Entries:
    """Rows of the log by their columns.

    Args:
        is_complete: They are past the low-water mark: so all but inserts have a document before.
    """
    columns: list[Any] = list(zip(*rows, strict=True))
    if not are_entries_whole(columns):
        for row in rows:
            old = row[ENTRY_COLUMNS:]
            if not is_entry_whole(row[:ENTRY_COLUMNS]) or (
                old and old[0] is not None and not is_whole(row[1], row[KEY], *old)
            ):
                raise damaged_entry_error(name_of(row[1], catalogue), row[KEY], row[0])
    if len(columns) == ENTRY_COLUMNS:
        return Entries(*(*columns[:-1], ()))
    kinds, olds = columns[2], columns[ENTRY_COLUMNS]
    if is_complete and kinds.count(INSERT) != olds.count(None):
        for row in rows:
            _check_old(name_of(row[1], catalogue), row[KEY], row[0], row[2], row[4], row[ENTRY_COLUMNS])
    return Entries(*(*columns[: ENTRY_COLUMNS - 1], olds))


def verify_steps(rows: Sequence[tuple[Any, ...]], catalogue: Catalogue) -> Entries:
    """Rows of `STEP` by their columns. Their tables and keys may have any value of the right type."""
    columns: list[Any] = list(zip(*rows, strict=True))
    steps, (table_ids, keys) = columns[:STEP_COLUMNS], columns[STEP_COLUMNS:]
    if not are_steps_whole(steps) or {*map(type, table_ids)} != {int} or {*map(type, keys)} != {bytes}:
        for row in rows:
            *step, table_id, key = row
            if not are_steps_whole([[value] for value in step]) or (type(table_id), type(key)) != (
                int,
                bytes,
            ):
                raise damaged_entry_error(name_of(table_id, catalogue), key, row[0])
    seqs, kinds, numbers, prevs, times, origins, metas, _ = steps
    return Entries(seqs, table_ids, kinds, numbers, prevs, times, keys, (), origins, metas, ())


def _check_old(table: TableReference, key: bytes, seq: int, kind: int, prev: int | None, old: Any) -> None:
    if (kind == INSERT or kind in CATALOGUE_KINDS) is not (old is None):
        trouble = f"log entry {seq} supersedes entry {prev}, which is missing or has no document"
        raise corruption_error(trouble, table, key, seq)


# ---------------------------------------------------------------------------------------------------------------
# All pages between two seqs


class LogView(Protocol):
    """A connection in a read transaction, and the catalogue that it sees."""

    @property
    def connection(self) -> Connection: ...

    @property
    def catalogue(self) -> Catalogue: ...


class LogFile(Protocol):
    """The engine, as far as the log needs it."""

    @property
    def pages(self) -> PagesInUse:
        """The pages that may have to read in the file again."""

    def has_transaction_here(self) -> bool:
        """Whether this thread has a transaction open."""

    def fresh_snapshot(self) -> AbstractContextManager[LogView]:
        """A snapshot of the committed state."""


def log_changes(
    file: LogFile,
    snapshot: Callable[[], AbstractContextManager[LogView]],
    since: int,
    until: int,
    table: TableInfo | None,
) -> Iterator[Change]:
    """The log entries with since < seq <= until, oldest first. Each page is read in a snapshot of its own: a caller that takes
    its time must not keep the write-ahead log from being emptied.

    Raises:
        HistoryLost, CorruptDatabase: While changes are read.
    """
    # A chain iterates in C, and there are many changes.
    return chain.from_iterable(_pages(file, snapshot, since, until, table))


def _pages(
    file: LogFile,
    snapshot: Callable[[], AbstractContextManager[LogView]],
    since: int,
    until: int,
    table: TableInfo | None,
) -> Iterator[Iterator[Change]]:
    table_ids = None if table is None else (table.id,)
    # A caller that reads one old document will read others, too, also of later pages.
    is_used = False
    while since < until:
        old_documents = None
        with snapshot() as now:
            where = (now.connection, now.catalogue, since, until)
            page = partial(read, *where, table_ids=table_ids, limit=PAGE_CHANGES)
            # Old versions that a transaction has superseded may be removed tomorrow.
            if is_used or file.has_transaction_here():
                entries, since = page()
            else:
                old_documents = OldDocuments(file, since)
                entries, since = old_documents.read_without(page)
        if entries is not None:
            changes = make_changes(entries, now.catalogue, old_documents)
            yield filter(is_shown, changes) if now.catalogue.has_hidden else changes
        is_used = is_used or (old_documents is not None and old_documents.is_used)


class PastNames:
    """The names of tables as of earlier changes. A change from the log has the present name of its table; a feed of
    all tables delivers the earlier name, because its subscribers know the documents by that name.

    Thread safety: one thread at a time.
    """

    __slots__ = ("_renames", "_since", "_until")

    def __init__(self) -> None:
        # Of each table that was renamed: (seq, its name before), in the order of the log.
        self._renames: dict[int, list[tuple[int, str]]] = {}
        # Which part of the log is known.
        self._since = self._until = 0

    def give(self, view: LogView, changes: Sequence[Change], head: int) -> None:
        """Give these changes, which are in the order of the log, the names of then. `head`: the end of the log."""
        if not changes:
            return
        self._read(view, changes[0].seq - 1, head)
        for change in changes if self._renames else ():
            steps = self._renames.get(change.table_id)
            if steps is not None and is_shown(change):
                name = _name_at(steps, change.seq)
                if name is not None:
                    change.table = name

    def at(self, view: LogView, seq: int, head: int) -> dict[int, str]:
        """For each table that was renamed after `seq`, its name at `seq`, by its number. `head`: the end of the log.

        Raises:
            HistoryLost: Renames that it needs may have been compacted away.
        """
        self._read(view, seq, head)
        names = {number: _name_at(steps, seq) for number, steps in self._renames.items()}
        return {number: name for number, name in names.items() if name is not None}

    def _read(self, view: LogView, since: int, head: int) -> None:
        if since < self._since or not self._until:
            self._renames = {}
            self._since = self._until = since
        # Renames before the position do not matter, and may have been compacted away.
        position = max(self._until, since)
        while position < head:
            where = (view.connection, view.catalogue, position, head)
            entries, position = read(*where, table_ids=(CATALOGUE,))
            for change in make_changes(entries, view.catalogue):
                details = change.catalogue
                if details is not None and change.kind_code == TABLE_RENAME:
                    self._renames.setdefault(details["table_id"], []).append((change.seq, details["table"]))
        self._until = max(self._until, head)


def _name_at(steps: list[tuple[int, str]], seq: int) -> str | None:
    """The name of a table at a seq; None for its present one."""
    place = bisect_right(steps, seq, key=itemgetter(0))
    return steps[place][1] if place < len(steps) else None


class OldDocuments:
    """The old documents of one page of changes, all read when a caller uses the first of them.

    Compaction may remove them before that. So this process's own compaction, and closing the file, have them looked up first
    (`PagesInUse`). Where another process has removed them, it is HistoryLost.

    Thread safety: any thread.

    Attributes:
        since: The page begins after this seq. The page needs nothing that compaction removes up to here.
        is_used: A caller has used an old document.
    """

    __slots__ = ("__weakref__", "_file", "_found", "_lock", "_prevs", "is_used", "since")

    def __init__(self, file: LogFile, since: int) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._prevs: Sequence[int | None] = ()
        self._found: dict[int, tuple[bytes | None, int]] | None = None
        self.since = since
        self.is_used = False

    def read_without(self, page: Callable[..., tuple[Entries | None, int]]) -> tuple[Entries | None, int]:
        """The rows that `page` reads, without the old documents."""
        # It counts as in use before it is read, and compaction waits for the lock: it cannot come in between.
        with self._lock:
            self._file.pages.add(self)
            entries, position = page(has_old=False)
            if entries is not None:
                self._prevs = entries.prevs
        return entries, position

    def before(self, change: Change) -> bytes | None:
        """The encoded document before a change of the page; None where there was none.

        Raises:
            HistoryLost: Another process has compacted the document away before this read.
            CorruptDatabase: The stored bytes do not match their checksum.
            ForkedDatabase, StorageMoved: It cannot be looked up any more.
        """
        self.is_used = True
        if change.prev is None and change.kind_code == INSERT:
            return None
        documents = self._look_up()
        old, checksum = (None, 0) if change.prev is None else documents.get(change.prev, (None, 0))
        if old is None and change.kind_code != INSERT:
            with self._file.fresh_snapshot() as snapshot:
                oldest = read_low_water(snapshot.connection)
            if oldest >= change.seq:
                raise HistoryLost(change.seq - 1, oldest + 1)
        elif old is not None and not is_whole(change.table_id, change.key_bytes, old, checksum):
            raise damaged_entry_error(change.table, change.key_bytes, change.seq)
        _check_old(change.table, change.key_bytes, change.seq, change.kind_code, change.prev, old)
        return old

    def complete(self) -> None:
        """Read the missing old documents. Raises nothing: a failed read is tried again at the next use."""
        try:
            self._look_up()
        except ReactDBError:
            logger.debug("documents before changes could not be read", exc_info=True)

    def _look_up(self) -> dict[int, tuple[bytes | None, int]]:
        if self._found is None:
            # The snapshot before the lock, as where the page is read.
            with self._file.fresh_snapshot() as snapshot, self._lock:
                if self._found is None:
                    self._found = self._read(snapshot.connection)
                    self._prevs = ()
            self._file.pages.discard(self)
        return self._found

    def _read(self, connection: Connection) -> dict[int, tuple[bytes | None, int]]:
        documents: dict[int, tuple[bytes | None, int]] = {}
        wanted = [prev for prev in self._prevs if prev is not None]
        for start in range(0, len(wanted), PICKED):
            some = wanted[start : start + PICKED]
            seqs = chain(some, repeat(None, PICKED - len(some)))
            for seq, body, checksum in connection.execute(PICK_OLD, tuple(seqs)):
                documents[seq] = body, checksum
        return documents


class PagesInUse:
    """The pages with unread old documents, while a caller has a change of theirs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: WeakSet[OldDocuments] = WeakSet()

    def add(self, page: OldDocuments) -> None:
        with self._lock:
            self._pages.add(page)

    def discard(self, page: OldDocuments) -> None:
        with self._lock:
            self._pages.discard(page)

    def complete(self, until: int | None = None) -> None:
        """Read the old documents of the pages; with `until`, of the pages that need entries which compaction up to
        there removes."""
        with self._lock:
            pages = [page for page in self._pages if until is None or page.since < until]
        for page in pages:
            page.complete()


# ---------------------------------------------------------------------------------------------------------------
# Entries in
#
# Most of an entry's cost is its statement's begin and end, and less its bytes. So one statement appends many entries.

# Entries to a statement: with 32 each costs a fifth less than alone; more gain nothing.
APPENDED = 32
ADD_HEADS = (
    "INSERT INTO heads (table_id, key, seq) SELECT table_id, key, seq FROM log WHERE seq >= ? ORDER BY "
)


# An entry without an old one has 0, because no entry has seq 0: for None, sqlite3 looks for an adapter, and that
# takes as long as all other columns.
_PLACES = {"prev": "nullif(?, 0)"}


class Appending(NamedTuple):
    """The statements that append one entry, and `APPENDED` entries, with the columns of one kind of entry."""

    one: str
    many: str
    columns: int


def make_append_statements(*names: str) -> Appending:
    """For rows of these columns."""
    row = f"({', '.join([_PLACES.get(name, '?') for name in names])})"
    start = f"INSERT INTO log ({', '.join(names)}) VALUES "
    return Appending(start + row, start + ", ".join([row] * APPENDED), len(names))


# Only columns with a value in some row, because each bound value costs.
INSERTS = make_append_statements("seq", "table_id", "kind", "step", "time", "key", "body", "seal")
LABELLED_INSERTS = make_append_statements(
    "seq", "table_id", "kind", "step", "time", "key", "body", "seal", "origin"
)
PLAIN = make_append_statements("seq", "table_id", "kind", "step", "prev", "time", "key", "body", "seal")
LABELLED = make_append_statements(
    "seq", "table_id", "kind", "step", "prev", "time", "key", "body", "seal", "origin", "meta"
)


def append(cursor: Cursor, how: Appending, rows: Iterable[tuple[Any, ...]], count: int) -> None:
    """Append `count` entries, given as rows of the columns of `how`."""
    if count >= APPENDED:
        rows = iter(rows)
        # The same iterator is in each place of a statement: the places take their values from it in turn.
        values = chain.from_iterable(islice(rows, count - count % APPENDED))
        places = repeat(values, how.columns * APPENDED)
        cursor.executemany(how.many, zip(*places, strict=False))
    if count % APPENDED:
        cursor.executemany(how.one, rows)


def make_heads_statement(keys: Sequence[bytes]) -> str:
    """The statement that makes heads of all entries from a seq on, given their keys.

    The statement that makes heads of all entries from a seq on, given their keys, in key order: a head at the end of
    its tree costs half as much as a head in the middle.
    """
    is_sorted = all(map(le, keys, islice(keys, 1, None)))
    # Where they are in the log in this order already, nothing needs to be sorted.
    return ADD_HEADS + ("seq" if is_sorted else "key")
