"""Log pages: the entries of the log as changes, a page at a time, each entry verified before it is told of.

    with the documents before      one statement finds them where they were written: a half of what reading a page costs
    without                        a `LoggedChange` looks up its own when somebody asks for it, with those of all its page

What is looked up later might be compacted away meanwhile. So pages are known (`KnownPages`), and whoever is about to compact, to
close the file or to fork has them look it up before. Only another process can be quicker; then it is HistoryLost.

Thread safety: any thread may ask a change of any page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain, count, repeat
from operator import sub
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from reactdb.change import INSERT, Change
from reactdb.errors import CorruptDatabase, HistoryLost, ReactDBError
from reactdb.logs import logger
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.checksums import are_entries_whole, is_entry_whole, is_whole
from reactdb.store.damage import corrupt, damaged_entry, missing_entry
from reactdb.store.file.sqlite import Connection
from reactdb.store.lean_pages import Rows, lean_rows, prevs_of, table_at
from reactdb.store.logged_changes import DecodedChange, LeanChange, LoggedChange
from reactdb.store.schema import BLOCK_BITS
from reactdb.values.decoding import decode_many_frozen
from reactdb.values.frozen import FrozenDict

if TYPE_CHECKING:
    from reactdb.store.engine import Engine
    from reactdb.store.snapshot import Snapshot


# Rows that one read of the log fetches: about 0.3 MB of ordinary documents. Of more, the garbage collector looks at each.
PAGE_CHANGES = 500

# Changes whose documents are decoded at a time.
DECODED = 64
# Where a page could not be lean, the next are likely not to be: as many changes are read in all their columns.
FULL_CHANGES = 16 * PAGE_CHANGES

ENTRY = "l.seq, l.table_id, l.kind, l.step, l.prev, l.time, l.key, l.body, l.origin, l.meta, l.seal"
ENTRY_COLUMNS = 11
OLD = ", p.body, p.seal"
JOIN_OLD = " LEFT JOIN log p ON p.seq = l.prev"
CHANGES = "SELECT {} FROM log l{} WHERE l.seq > ? AND l.seq <= ? ORDER BY l.seq LIMIT ?"
# The plus signs keep SQLite from walking by these two bounds instead of by the block, which would make it quadratic.
TABLE_CHANGES = (
    f"SELECT {{}} FROM marks m CROSS JOIN log l ON l.seq >= (m.block << {BLOCK_BITS})"
    f" AND l.seq < ((m.block + 1) << {BLOCK_BITS}){{}}"
    " WHERE m.table_id = ?1 AND m.block >= ?2 AND m.block <= ?3 AND l.table_id = ?1 AND +l.seq > ?4 AND +l.seq <= ?5"
    " ORDER BY m.block, l.seq LIMIT ?6"
)
ONE_CHANGE = f"SELECT {ENTRY}{OLD} FROM log l{JOIN_OLD} WHERE l.seq = ?"
LOW_WATER = "SELECT value FROM facts WHERE name = 'low_water'"
# Documents that are looked up with one statement.
PICKED = 100
PICK_OLD = f"SELECT seq, body, seal FROM log WHERE seq IN ({', '.join('?' * PICKED)})"

Columns = list[tuple[Any, ...]]


def check_kept(connection: Connection, since: int) -> None:
    """Raise HistoryLost where something past `since` was compacted away."""
    (oldest,) = connection.execute(LOW_WATER).fetchone()
    if since < oldest:
        raise HistoryLost(since, oldest + 1)


def read_columns(
    connection: Connection,
    since: int,
    top: int,
    table: TableInfo | None,
    limit: int,
    *,
    has_old: bool = True,
    oldest: int | None = None,
) -> Columns:
    """Log entries with since < seq <= top, oldest first, at most `limit`, by their columns; none for none.

    Args:
        oldest: The position that the log can be read from, if that was asked already.

    Raises:
        HistoryLost: Some of them were compacted away.
        CorruptDatabase: Some are missing: another program has been at the file.
    """
    if oldest is None:
        check_kept(connection, since)
    elif since < oldest:
        raise HistoryLost(since, oldest + 1)
    wanted = (ENTRY + OLD, JOIN_OLD) if has_old else (ENTRY, "")
    if table is None:
        rows = connection.execute(CHANGES.format(*wanted), (since, top, limit)).fetchall()
        # Past the low-water mark there is every seq.
        last = rows[-1][0] if rows else since
        if last - since != len(rows) or (last < top and len(rows) < limit):
            present = {row[0] for row in rows}
            raise missing_entry(next(seq for seq in count(since + 1) if seq not in present))
    else:
        blocks = (table.id, since >> BLOCK_BITS, top >> BLOCK_BITS)
        rows = connection.execute(TABLE_CHANGES.format(*wanted), (*blocks, since, top, limit)).fetchall()
    return list(zip(*rows, strict=True))


def changes_of(
    columns: Columns, catalogue: Catalogue, page: LogPage | None = None, *, is_complete: bool = True
) -> Iterator[Change]:
    """Log entries as changes, made as they are asked for.

    Args:
        page: Where documents before are looked up, if the columns have none.
        is_complete: They are past the low-water mark: so all but inserts have a document before.

    Raises:
        CorruptDatabase: One of them is not what was written, or says what cannot be. All are looked at before this returns.
    """
    if not columns:
        return iter(())
    seqs, table_ids, kinds, steps, prevs, times, keys, bodies, origins, metas = columns[:10]
    names = {number: name_of(number, catalogue) for number in set(table_ids)}
    if not are_entries_whole(columns):
        for row in zip(*columns, strict=True):
            old = row[ENTRY_COLUMNS:]
            if not is_entry_whole(row[:ENTRY_COLUMNS]) or (
                old and old[0] is not None and not is_whole(row[1], row[6], *old)
            ):
                raise damaged_entry(names[row[1]], row[6], row[0])
    tables, commits = map(names.__getitem__, table_ids), map(sub, seqs, steps)
    if page is not None:
        return map(
            LoggedChange,
            repeat(page),
            seqs,
            tables,
            table_ids,
            keys,
            kinds,
            prevs,
            bodies,
            commits,
            times,
            origins,
            metas,
        )
    olds = columns[ENTRY_COLUMNS]
    if is_complete and kinds.count(INSERT) != olds.count(None):
        for row in zip(*columns, strict=True):
            _check_old(names[row[1]], row[6], row[0], row[2], row[4], row[ENTRY_COLUMNS])
    return map(
        Change, seqs, tables, table_ids, keys, kinds, prevs, olds, bodies, commits, times, origins, metas
    )


def name_of(table_id: int, catalogue: Catalogue) -> str:
    known = catalogue.by_id.get(table_id)
    return f"#{table_id}" if known is None else known.name


def documents_of(bodies: Sequence[bytes | None]) -> list[FrozenDict | None]:
    """Decoded; those that cannot be are left to whoever asks for them."""
    present = [body for body in bodies if body is not None]
    try:
        found: list[Any] = decode_many_frozen(present)
    except CorruptDatabase:
        return [None] * len(bodies)
    if len(found) == len(bodies):
        return found
    rest = iter(found)
    return [None if body is None else next(rest) for body in bodies]


def _check_old(table: str, key: bytes, seq: int, kind: int, prev: int | None, old: Any) -> None:
    if (kind == INSERT) is not (old is None):
        trouble = f"log entry {seq} supersedes entry {prev}, which is missing or has no document"
        raise corrupt(trouble, table, key, seq)


class LogPage:
    """One page of the log, and the documents that its changes superseded.

    Attributes:
        since: It is what comes after. Of what is removed to compact the log up to here, nothing is needed.
        is_asked: Somebody has asked for one.
        is_lean: It was read as `lean_pages` does it.
        is_looked_at: Of a lean page: somebody has looked at more of a change than its seq.
        is_old_read, is_new_read: Of a lean page: somebody has asked for the document before, or after, decoded.
        table: Of a lean page: number and name.
    """

    __slots__ = (
        "__weakref__",
        "_engine",
        "_found",
        "_has_old",
        "_lock",
        "_prevs",
        "is_asked",
        "is_lean",
        "is_looked_at",
        "is_new_read",
        "is_old_read",
        "since",
        "table",
    )

    def __init__(self, engine: Engine, since: int, *, has_old: bool) -> None:
        """`has_old`: they are read with the page; else when somebody asks for one."""
        self._engine = engine
        self._has_old = has_old
        self._lock = threading.Lock()
        # Made when they are asked for.
        self._prevs: Callable[[], Sequence[int | None]] = tuple
        self._found: dict[int, tuple[bytes | None, int]] | None = None
        self.since = since
        self.is_asked = self.is_lean = self.is_looked_at = self.is_old_read = self.is_new_read = False
        self.table = (0, "")

    def read(
        self,
        connection: Connection,
        catalogue: Catalogue,
        top: int,
        table: TableInfo | None,
        *,
        may_be_lean: bool = False,
    ) -> tuple[Iterator[Change], int | None]:
        """The changes, and the seq of the last; None where there is none. Raises what `read_columns` and `changes_of` do."""
        with self._lock:
            if not self._has_old:
                # Known before it is read: so who compacts waits for it.
                self._engine.readers.pages.add(self)
            if may_be_lean:
                until = min(top, self.since + PAGE_CHANGES)
                rows = self._read_lean(connection, catalogue, until)
                if rows is not None:
                    if self._has_old:
                        return self._decoded(rows), until
                    self._prevs = partial(prevs_of, rows)
                    return map(LeanChange, repeat(self), count(self.since + 1), rows), until
            columns = read_columns(connection, self.since, top, table, PAGE_CHANGES, has_old=self._has_old)
            if not columns:
                return iter(()), None
            if not self._has_old:
                self._prevs = partial(tuple, columns[4])
        return changes_of(columns, catalogue, None if self._has_old else self), columns[0][-1]

    def _decoded(self, rows: Rows) -> Iterator[Change]:
        """Some at a time, so that they are in the processor's cache still when somebody looks at them."""
        seq, new = self.since, object.__new__
        for place in range(0, len(rows), DECODED):
            part = rows[place : place + DECODED]
            _, bodies, _, _, _, olds = zip(*part, strict=True)
            for row, old_bytes, old_val, new_val in zip(
                part, olds, documents_of(olds), documents_of(bodies), strict=True
            ):
                seq += 1
                change = new(DecodedChange)
                change._page = self
                change.seq = seq
                change._row = row
                change.old_bytes = old_bytes
                change.old = old_val
                change.new = new_val
                yield change

    def _read_lean(self, connection: Connection, catalogue: Catalogue, until: int) -> Rows | None:
        check_kept(connection, self.since)
        table_id = table_at(connection, until)
        rows = (
            None
            if table_id is None
            else lean_rows(connection, self.since, until, table_id, has_old=self._has_old)
        )
        if rows is not None:
            assert table_id is not None
            self.is_lean = True
            self.table = table_id, name_of(table_id, catalogue)
        return rows

    def old_of(self, change: Change) -> bytes | None:
        """
        Raises:
            HistoryLost: Another process compacted it away before it was asked for.
            CorruptDatabase: It is not what was written.
            DatabaseClosed, ForkedDatabase, StorageMoved: It cannot be looked up any more.
        """
        self.is_asked = True
        if change.prev is None and change.kind_code == INSERT:
            return None
        found = self._look_up()
        old, seal = (None, 0) if change.prev is None else found.get(change.prev, (None, 0))
        if old is None and change.kind_code != INSERT:
            with self._engine.fresh_snapshot() as snapshot:
                (oldest,) = snapshot.connection.execute(LOW_WATER).fetchone()
            if oldest >= change.seq:
                raise HistoryLost(change.seq - 1, oldest + 1)
        elif old is not None and not is_whole(change.table_id, change.key_bytes, old, seal):
            raise damaged_entry(change.table, change.key_bytes, change.seq)
        _check_old(change.table, change.key_bytes, change.seq, change.kind_code, change.prev, old)
        return old

    def complete(self) -> None:
        """Look up what is not yet. Raises nothing: what cannot be read is tried again when it is asked for."""
        try:
            self._look_up()
        except ReactDBError:
            logger.debug("documents before changes could not be read", exc_info=True)

    def _look_up(self) -> dict[int, tuple[bytes | None, int]]:
        found = self._found
        if found is None:
            # The lock after the snapshot, as where the page is read: some reads wait for their turn.
            with self._engine.fresh_snapshot() as snapshot, self._lock:
                found = self._found
                if found is None:
                    found = self._found = self._read_before(snapshot.connection)
                    self._prevs = tuple
            self._engine.readers.pages.discard(self)
        return found

    def _read_before(self, connection: Connection) -> dict[int, tuple[bytes | None, int]]:
        found: dict[int, tuple[bytes | None, int]] = {}
        wanted = [prev for prev in self._prevs() if prev]
        for place in range(0, len(wanted), PICKED):
            some = wanted[place : place + PICKED]
            seqs = chain(some, repeat(None, PICKED - len(some)))
            for seq, body, seal in connection.execute(PICK_OLD, tuple(seqs)):
                found[seq] = body, seal
        return found


def log_changes(
    engine: Engine,
    snapshot: Callable[[], AbstractContextManager[Snapshot]],
    since: int,
    until: int,
    table: TableInfo | None,
) -> Iterator[Change]:
    """The log entries with since < seq <= until, oldest first. A page at a time: a reader that dawdles must not keep the
    write-ahead log from being emptied.

    Raises:
        HistoryLost, CorruptDatabase: While it is asked for them.
    """
    # A chain asks in C, and these are many.
    return chain.from_iterable(_pages(engine, snapshot, since, until, table))


def _pages(
    engine: Engine,
    snapshot: Callable[[], AbstractContextManager[Snapshot]],
    since: int,
    until: int,
    table: TableInfo | None,
) -> Iterator[Iterator[Change]]:
    # Who asked for a document before, or decoded, asks for others, too; and who looked at one change looks at the next.
    is_asked = is_decoded = is_looked_at = False
    lean_from = since
    while since < until:
        with snapshot() as now:
            # What a transaction superseded may be gone tomorrow.
            has_old = is_asked or engine.current_transaction() is not None
            page = LogPage(engine, since, has_old=has_old)
            may_be_lean = (
                table is None and since >= lean_from and (is_decoded if has_old else not is_looked_at)
            )
            changes, last = page.read(now.connection, now.catalogue, until, table, may_be_lean=may_be_lean)
        if last is None:
            return
        yield changes
        if may_be_lean and not page.is_lean:
            lean_from = since + FULL_CHANGES
        since = last
        is_asked = is_asked or page.is_asked
        is_looked_at = is_looked_at or page.is_looked_at
        is_decoded = is_decoded or (page.is_old_read and page.is_new_read)


class KnownPages:
    """The pages that may still have something to look up, for as long as somebody has a change of theirs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: WeakSet[LogPage] = WeakSet()

    def add(self, page: LogPage) -> None:
        with self._lock:
            self._pages.add(page)

    def discard(self, page: LogPage) -> None:
        with self._lock:
            self._pages.discard(page)

    def complete(self, until: int | None = None) -> None:
        """Have them look it up; with `until`, those that need what is removed where everything up to there is compacted."""
        with self._lock:
            found = [page for page in self._pages if until is None or page.since < until]
        for page in found:
            page.complete()
