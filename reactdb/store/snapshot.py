"""Snapshot: the documents and the log as of one seq, present or past.

The present is the heads joined to the log. The past is the present with the later changes undone: each key that changed after
the seq has the document before its first such change. A past of k changes ago costs k, not the size of the table.

Rule of this file: it reads bytes and orders them. The meaning of documents (filters, orders, limits) belongs to
`documents.read`. Ranges are half open in bytes, start <= key < stop; `collation` turns every bound of a query into one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby, repeat, starmap
from operator import itemgetter
from sys import maxsize
from typing import Any, NamedTuple

from reactdb.change import Change, TableReference
from reactdb.errors import CorruptDatabase, TableNotFound
from reactdb.store.catalogue import HIDDEN_VALUE_BYTES, Catalogue, IndexInfo, TableInfo
from reactdb.store.checksums import are_whole, is_whole
from reactdb.store.damage import (
    corruption_error,
    damaged_document_error,
    find_first_damaged,
    missing_entry_error,
)
from reactdb.store.file.sqlite import ADVICE, Connection
from reactdb.store.log import PAGE_CHANGES, check_whole_number, make_changes, read, read_low_water, read_one
from reactdb.store.schema import BLOCK_BITS
from reactdb.store.sums import Known, Tally, check, compare
from reactdb.store.undo import Reversal, Undo
from reactdb.values import codec

HEAD = "SELECT (SELECT max(seq) FROM log), (SELECT value FROM facts WHERE name = 'low_water')"
# The newest entry, where neither a head nor a tombstone of its key leads to it: reactdb never leaves it so.
UNFILED_NEWEST = (
    "FROM log l WHERE l.seq = (SELECT max(seq) FROM log)"
    " AND l.table_id != 0"
    " AND NOT EXISTS (SELECT 1 FROM heads h WHERE h.table_id = l.table_id AND h.key = l.key AND h.seq = l.seq)"
    " AND NOT EXISTS (SELECT 1 FROM graves g WHERE g.table_id = l.table_id AND g.key = l.key AND g.seq = l.seq)"
)
# The statement of `end`: one statement costs half as much as three.
END = f"{HEAD}, EXISTS (SELECT 1 {UNFILED_NEWEST})"


# The number under which the end of the log is noted among the compared indexes.
LOG_END = 0
# Rows that must not lie past the end of the log: blocks, of all tables and of the catalogue, and the entries of
# documents and tombstones. Only this many are checked, some 1 ms: in a larger file, the first tables'.
MOST_LED = 10_000
NEWEST_BLOCKS = (
    "SELECT max((SELECT block FROM marks WHERE table_id = t.id ORDER BY block DESC LIMIT 1))"
    " FROM (SELECT id FROM tables UNION ALL SELECT 0) t"
)
NEWEST_LED = (
    f"SELECT max(seq) FROM (SELECT seq FROM (SELECT seq FROM heads LIMIT {MOST_LED})"
    f" UNION ALL SELECT seq FROM (SELECT seq FROM graves LIMIT {MOST_LED}))"
)


class Row(NamedTuple):
    """One document in a table."""

    key: bytes
    body: bytes


class Entry(NamedTuple):
    """One document at one place of an index; `tag` tells the places of a multi index apart."""

    value: bytes
    key: bytes
    tag: int
    body: bytes


class ValueCount(NamedTuple):
    """One value of an index.

    Attributes:
        key: The first key among those of its entries.
        entries: How many it has.
    """

    value: bytes
    key: bytes
    entries: int


# LEFT JOIN: a head, or an index entry, without its other end is damage and no result. The join also fixes the order
# of the tables.
GET = "SELECT h.seq, l.body, l.seal FROM heads h LEFT JOIN log l ON l.seq = h.seq WHERE h.table_id = ? AND h.key = ?"
# The same, and whether the table is still there, for a read without a transaction: no row where it was dropped.
GET_LIVE = (
    "SELECT h.seq, l.body, l.seal FROM tables t LEFT JOIN heads h ON h.table_id = t.id AND h.key = ?2"
    " LEFT JOIN log l ON l.seq = h.seq WHERE t.id = ?1 AND t.dropped IS NULL"
)
ROWS = (
    "SELECT h.key, l.body, l.seal FROM heads h LEFT JOIN log l ON l.seq = h.seq"
    " WHERE h.table_id = ? AND h.key >= ? AND h.key < ? ORDER BY h.key {} LIMIT ?"
)
ENTRIES = (
    "SELECT e.value, e.key, e.tag, l.body, l.seal FROM entries e"
    " LEFT JOIN heads h ON h.table_id = ? AND h.key = e.key LEFT JOIN log l ON l.seq = h.seq"
    " WHERE e.index_id = ? AND e.value >= ? AND e.value < ? ORDER BY e.value {0}, e.key {0}, e.tag {0} LIMIT ?"
)
FOUND = ENTRIES.replace("e.value, e.key, e.tag, l.body", "e.key, l.body")
# The place at an offset. No document is read for the places before it, so it takes a two-hundredth of the time.
KEY_AT = "SELECT key FROM heads WHERE table_id = ? AND key >= ? AND key < ? ORDER BY key {} LIMIT 1 OFFSET ?"
ENTRY_AT = (
    "SELECT value, key, tag FROM entries WHERE index_id = ? AND value >= ? AND value < ?"
    " ORDER BY value {0}, key {0}, tag {0} LIMIT 1 OFFSET ?"
)
# Conditions of `ENTRIES` and `FOUND`: from a value, or from a place behind skipped entries; ascending, then descending.
FROM_VALUE, FROM_PLACE = "e.value >= ?", "(e.value, e.key, e.tag) >= (?, ?, ?)"
BELOW_VALUE, UP_TO_PLACE = "e.value < ?", "(e.value, e.key, e.tag) <= (?, ?, ?)"
CANDIDATES = "SELECT key FROM entries WHERE index_id = ? AND value >= ? AND value < ?"
# Documents that one statement picks: half the time of single reads.
PICKED = 100
PICK = (
    "SELECT h.key, l.body, l.seal FROM heads h LEFT JOIN log l ON l.seq = h.seq"
    f" WHERE h.table_id = ? AND h.key IN ({', '.join('?' * PICKED)}) ORDER BY h.key"
)
KEYS = "SELECT key FROM heads WHERE table_id = ? ORDER BY key"
COUNT = "SELECT count(*) FROM heads WHERE table_id = ?"
COUNT_KEYS = "SELECT count(*) FROM heads WHERE table_id = ? AND key >= ? AND key < ?"
COUNT_ENTRIES = "SELECT count(*) FROM entries WHERE index_id = ? AND value >= ? AND value < ?"
COUNT_SOME = "SELECT count(*) FROM (SELECT 1 FROM heads WHERE table_id = ? LIMIT ?)"
COUNT_INDEXED = COUNT_ENTRIES.replace("count(*)", "count(DISTINCT key)")
VALUE_COUNTS = "SELECT value, min(key), count(*) FROM entries WHERE index_id = ? AND value >= ? AND value < ? GROUP BY value"
# Below and above all keys, and all values of an index.
LEAST, GREATEST = b"", b"\xff"
# The newest of a table's marks, and in its block the newest entry of the table.
OF_BLOCK = f"seq >= (m.block << {BLOCK_BITS}) AND {{0}}seq < ((m.block + 1) << {BLOCK_BITS})"
NEWEST = (
    f"SELECT newest, (SELECT seq FROM log WHERE {OF_BLOCK.format('')} AND table_id = ?1 ORDER BY seq DESC LIMIT 1)"
    " FROM marks m WHERE table_id = ?1 ORDER BY block DESC LIMIT 1"
)
# The same for the marks at or before a seq, as compaction has noted them.
NOTED_UNTIL = (
    f"SELECT max(newest) FROM marks WHERE table_id = ?1 AND block <= (?2 >> {BLOCK_BITS}) AND newest <= ?2"
)
NEWEST_UNTIL = (
    f"SELECT l.seq FROM marks m CROSS JOIN log l ON l.{OF_BLOCK.format('l.')}"
    f" WHERE m.table_id = ?1 AND m.block <= (?2 >> {BLOCK_BITS}) AND l.table_id = ?1 AND +l.seq <= ?2"
    " ORDER BY m.block DESC, l.seq DESC LIMIT 1"
)


def read_head_seq(connection: Connection) -> int:
    """The seq of the newest entry that was ever written; 0 before the first.

    Compaction can remove the newest entry (a deletion), but only below the low-water mark, and the mark then stands
    at or above it. So the greater of the two is never used again. (AUTOINCREMENT promises the same, at the price of
    one more page in every commit: 5 of 24 µs, and a tenth of a bulk insert.)
    """
    return _head(*connection.execute(HEAD).fetchone())


def _head(newest: int | None, low: int | None) -> int:
    if newest is None and low is not None:
        return check_whole_number("the low-water mark", low)
    if newest is None or newest < 1 or low is None:
        # Zeros in the place of the newest entries read as a seq, too.
        raise CorruptDatabase(f"the newest log entry is number {newest}, the low-water mark {low}. {ADVICE}")
    return max(newest, check_whole_number("the low-water mark", low))


def check_end(connection: Connection) -> None:
    """Check that the log reaches as far as other trees say.

    Raises:
        CorruptDatabase: It seems to end early: its newest entries cannot be found.
    """
    head = read_head_seq(connection)
    (block,) = connection.execute(NEWEST_BLOCKS).fetchone()
    (led,) = connection.execute(NEWEST_LED).fetchone()
    end = check_whole_number("the newest entry of a document", led or 0)
    end = max(end, check_whole_number("a block of the log", block or 0) << BLOCK_BITS)
    if end > head:
        raise CorruptDatabase(
            f"the log ends at seq {head}, and had entries up to seq {end} at least: another program has changed the file, or it "
            f"is damaged. {ADVICE}",
            seq=head + 1,
        )


def read_document(
    connection: Connection, table: TableInfo, key: bytes, statement: str = GET
) -> tuple[int, bytes] | None:
    """(seq, encoded document) of a key, or None. Every read of a key uses this function.

    Args:
        statement: `GET` or `GET_LIVE`.

    Raises:
        CorruptDatabase: The stored bytes do not match their checksum.
        TableNotFound: With `GET_LIVE`, the table was dropped.
    """
    row = connection.execute(statement, (table.id, key)).fetchone()
    if row is None:
        if statement is GET_LIVE:
            raise TableNotFound(table.name)
        return None
    seq, body, checksum = row
    if seq is None:
        return None
    if not is_whole(table.id, key, body, checksum):
        raise damaged_document_error(connection, table, key, body)
    return seq, body


def newest_seq(connection: Connection, table: TableInfo) -> int:
    """The seq of the newest change of a table, by one look-up; for a table without changes, the seq of its creation.

    In a migrated file the result can be the low-water mark of the migration: no change is newer.
    """
    row = connection.execute(NEWEST, (table.id,)).fetchone()
    if row is None:
        return table.created
    noted, newest = (check_whole_number("the newest entry of a block", one or 0) for one in row)
    return max(table.created, noted, newest)


def read_lost_until(connection: Connection, table: TableInfo) -> int:
    """The seq up to which changes of a table may have been removed: a reader past this seq has lost none of them.

    The low-water mark belongs to the whole log. A rarely changed table has lost less.
    """
    low = read_low_water(connection)
    if table.created > low:
        return 0
    noted = connection.execute(NOTED_UNTIL, (table.id, low)).fetchone()[0]
    # A file that was compacted before this was noted does not say.
    return low if noted is None else check_whole_number("the newest entry of a block", noted)


class Snapshot:
    """The documents as one connection sees them now.

    Several reads see the same state only while the connection is in a transaction; `Engine.snapshot` makes one.
    Thread safety: one thread at a time, as the connection.
    """

    # How many documents to read at a time where all are wanted. Few, because decoding a document while it is in the
    # processor's cache takes three quarters of the time.
    page_rows = 256
    # Whether an offset, and the values of an index, leave documents unread; whether `get` follows the entries of its key in
    # the log.
    skips_unread = True
    follows_chains = False

    def __init__(self, connection: Connection, catalogue: Catalogue, known: Known | None = None) -> None:
        """`known`: the expected data of this state of the file; None: not looked up yet."""
        self.connection = connection
        self.catalogue = catalogue
        self._known: Known = {} if known is None else known

    @property
    def seq(self) -> int:
        return read_head_seq(self.connection)

    def check_end(self) -> None:
        """Before the log is read, followed or gone on from for the first time while the file is open: see `check_end`."""
        compared = self.connection.compared
        if compared is not None and LOG_END not in compared:
            check_end(self.connection)
            compared.add(LOG_END)

    def end(self) -> tuple[int, int, bool]:
        """The end of the log: its seq, the oldest readable position, and whether the newest entry is filed under its
        key, as all entries of reactdb are.

        Raises: CorruptDatabase: There is no such end.
        """
        self.check_end()
        newest, low, is_unfiled = self.connection.execute(END).fetchone()
        return _head(newest, low), low, not is_unfiled

    def table(self, name: TableReference) -> TableInfo | None:
        return self.catalogue.live.get(name)

    def get(self, table: TableInfo, key: bytes) -> bytes | None:
        """The encoded document, or None.

        Raises:
            CorruptDatabase: The stored bytes do not match their checksum. All reads below raise it, too.
        """
        head = read_document(self.connection, table, key)
        return None if head is None else head[1]

    def rows(
        self,
        table: TableInfo,
        start: bytes = LEAST,
        stop: bytes = GREATEST,
        *,
        reverse: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> list[Row]:
        """Documents with start <= key < stop, in key order, without the first `offset`; at most `limit` if it is not
        negative. Documents before the offset are not read, and so their damage is not noticed."""
        columns = self.page(table, start, stop, reverse, limit, offset=offset)
        return list(map(tuple.__new__, repeat(Row), zip(*columns, strict=True)))

    def page(
        self,
        table: TableInfo,
        start: bytes,
        stop: bytes,
        reverse: bool,
        limit: int,
        tally: Tally | None = None,
        offset: int = 0,
    ) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """`rows` as keys and encoded documents.

        Args:
            tally: For a read of the whole table by pages, from its first page on. After the last page the tally is
                compared with the sums.
        """
        bounds = self._bounds_after(table, start, stop, reverse, offset) if offset else (start, stop)
        if bounds is None:
            return (), ()
        text = ROWS.format("DESC" if reverse else "ASC")
        rows = self.connection.execute(text, (table.id, *bounds, limit)).fetchall()
        if tally is None and not offset and start == LEAST and stop >= GREATEST:
            tally = Tally()
        documents = self.whole(table, rows, tally)
        if tally is not None and (limit < 0 or len(rows) < limit):
            self.check(table, None, tally.count, tally.total)
        return documents

    def _bounds_after(
        self, table: TableInfo, start: bytes, stop: bytes, reverse: bool, offset: int
    ) -> tuple[bytes, bytes] | None:
        """The bounds of the documents with start <= key < stop without the first `offset`; None where there are no more.
        No document is read."""
        text = KEY_AT.format("DESC" if reverse else "ASC")
        place = self.connection.execute(text, (table.id, start, stop, min(offset, maxsize))).fetchone()
        if place is None:
            return None
        return (start, place[0] + b"\x00") if reverse else (place[0], stop)

    def entry_bodies(
        self,
        index: IndexInfo,
        table: TableInfo,
        start: bytes,
        stop: bytes,
        reverse: bool,
        limit: int,
        offset: int = 0,
    ) -> Sequence[bytes]:
        """The encoded documents of `entries` alone."""
        rows = self._read_entries(FOUND, index, start, stop, reverse, limit, offset)
        bodies = self.whole(table, rows)[1]
        self._check_index(table, index, start, stop, limit, offset, len(rows))
        return bodies

    def _read_entries(
        self, text: str, index: IndexInfo, start: bytes, stop: bytes, reverse: bool, limit: int, offset: int
    ) -> list[tuple[Any, ...]]:
        """The rows of `ENTRIES` or `FOUND`."""
        self.compare(index)
        order = "DESC" if reverse else "ASC"
        bounds: tuple[Any, ...] = (start, stop)
        if offset:
            # From an exact place on, because any number of entries have the same value.
            place = self.connection.execute(
                ENTRY_AT.format(order), (index.id, start, stop, min(offset, maxsize))
            ).fetchone()
            if place is None:
                return []
            bounds = (start, *place) if reverse else (*place, stop)
            text = text.replace(BELOW_VALUE, UP_TO_PLACE) if reverse else text.replace(FROM_VALUE, FROM_PLACE)
        values = (index.table_id, index.id, *bounds, limit)
        rows: list[tuple[Any, ...]] = self.connection.execute(text.format(order), values).fetchall()
        return rows

    def _check_index(
        self,
        table: TableInfo,
        index: IndexInfo,
        start: bytes,
        stop: bytes,
        limit: int,
        offset: int,
        count: int,
    ) -> None:
        """After a read of entries: if that was the whole index, whether there are as many as were written."""
        if not offset and start == LEAST and stop >= GREATEST and (limit < 0 or count < limit):
            self.check(table, index, count)

    def entries(
        self,
        index: IndexInfo,
        start: bytes = LEAST,
        stop: bytes = GREATEST,
        *,
        reverse: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> list[Entry]:
        """Places in the index with start <= value < stop, by value, then key, then tag; `offset` as for `rows`."""
        rows = self._read_entries(ENTRIES, index, start, stop, reverse, limit, offset)
        table = self.catalogue.by_id[index.table_id]
        values, keys, tags, bodies, checksums = zip(*rows, strict=True) if rows else ((),) * 5
        if not are_whole(index.table_id, keys, bodies, checksums):
            raise find_first_damaged(self.connection, table, keys, bodies, checksums)
        self._check_index(table, index, start, stop, limit, offset, len(rows))
        return list(map(tuple.__new__, repeat(Entry), zip(values, keys, tags, bodies, strict=True)))

    def candidates(self, index: IndexInfo, ranges: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
        """Sorted keys, among them the keys of all documents with an entry, hidden or not, in start <= value < stop of
        a range."""
        self.compare(index)
        keys: set[bytes] = set()
        for start, stop in ranges:
            # A truncated value is not above the whole value, nor below a bound with the same cut.
            for index_id, low in ((index.id, start), (-index.id, start[:HIDDEN_VALUE_BYTES])):
                keys.update(key for (key,) in self.connection.execute(CANDIDATES, (index_id, low, stop)))
        if not {*map(type, keys)} <= {bytes}:
            # No checksum covers an entry, but a key is always collation bytes.
            strange = next(key for key in keys if type(key) is not bytes)
            table = self.catalogue.by_id[index.table_id]
            raise corruption_error(
                f"an entry of index `{index.name}` leads to no key", table.name, strange, None
            )
        return sorted(keys)

    def pick(
        self, table: TableInfo, keys: Sequence[bytes], *, index: IndexInfo | None = None
    ) -> Iterator[Row]:
        """The documents of sorted keys, in this order, read as they are used. Keys without a document are skipped.

        Args:
            index: The index whose entries have given the keys; None where the query has them. A snapshot that notes its reads
                has noted the ranges of the index already.
        """
        even = len(keys) - len(keys) % PICKED
        for place in range(0, even, PICKED):
            cursor = self.connection.execute(PICK, (table.id, *keys[place : place + PICKED]))
            yield from self._verify_rows(table, cursor.fetchall())
        for key in keys[even:]:
            body = self.get(table, key)
            if body is not None:
                yield Row(key, body)

    def keys(self, table: TableInfo) -> list[bytes]:
        """The keys of all documents of a table, sorted."""
        return [key for (key,) in self.connection.execute(KEYS, (table.id,))]

    def check(self, table: TableInfo, index: IndexInfo | None, count: int, total: int | None = None) -> None:
        """After a read of all documents of a table, or of all entries of an index: whether there are as many as were written.

        Args:
            total: The sum of the documents' checksums, where the read has it.

        Raises:
            CorruptDatabase: The documents do not match the sums.
        """
        check(self.connection, self._known, table, index, count, total)

    def compare(self, index: IndexInfo) -> None:
        """Check an index before a read. The first check while the file is open compares all entries of a small index
        with its sums (see `sums.compare`). In memory nothing is compared.

        Raises:
            CorruptDatabase: The entries do not match the sums.
        """
        compared = self.connection.compared
        if compared is not None and index.id not in compared:
            compare(self.connection, self.catalogue.by_id[index.table_id], index)
            compared.add(index.id)

    def count(self, table: TableInfo) -> int:
        """How many documents a table has.

        Raises:
            CorruptDatabase: The number does not match the sums.
        """
        (total,) = self.connection.execute(COUNT, (table.id,)).fetchone()
        self.check(table, None, total)
        return int(total)

    def count_keys(self, table: TableInfo, start: bytes, stop: bytes) -> int:
        """How many documents of a table have start <= key < stop. Of all keys it is `count`."""
        if start == LEAST and stop >= GREATEST:
            return self.count(table)
        (count,) = self.connection.execute(COUNT_KEYS, (table.id, start, stop)).fetchone()
        return int(count)

    def count_entries(self, index: IndexInfo, start: bytes, stop: bytes, *, with_hidden: bool = False) -> int:
        """How many entries an index has with start <= value < stop.

        Args:
            with_hidden: Also hidden entries. Both bounds have at most HIDDEN_VALUE_BYTES then, so that the cut does not
                matter: a cut value is on the same side of such a bound as the whole value.

        No document is read, so a damaged one, or an entry without a document, is not noticed here. A missing entry is, as
        for every read by the index: the first read compares a small index with its sums, and a count of all entries is
        compared with them.
        """
        self.compare(index)
        execute = self.connection.execute
        (count,) = execute(COUNT_ENTRIES, (index.id, start, stop)).fetchone()
        self._check_index(self.catalogue.by_id[index.table_id], index, start, stop, -1, 0, count)
        if with_hidden:
            count += execute(COUNT_ENTRIES, (-index.id, start, stop)).fetchone()[0]
        return int(count)

    def count_indexed(self, index: IndexInfo, ranges: Sequence[tuple[bytes, bytes]]) -> int:
        """How many documents have an entry, not a hidden one, in any of the ranges, start <= value < stop. No document is
        read: see `count_entries`."""
        self.compare(index)
        if len(ranges) == 1:
            return int(self.connection.execute(COUNT_INDEXED, (index.id, *ranges[0])).fetchone()[0])
        found = (self.connection.execute(CANDIDATES, (index.id, *one)) for one in ranges)
        return len({key for keys in found for (key,) in keys})

    def value_counts(self, index: IndexInfo, start: bytes, stop: bytes) -> list[ValueCount]:
        """The different values with start <= value < stop of an index, in order. No document is read: see `count_entries`."""
        self.compare(index)
        rows = self.connection.execute(VALUE_COUNTS, (index.id, start, stop)).fetchall()
        counts = list(starmap(ValueCount, rows))
        table = self.catalogue.by_id[index.table_id]
        self._check_index(table, index, start, stop, -1, 0, sum(one.entries for one in counts))
        return counts

    def count_at_most(self, table: TableInfo, most: int) -> int:
        """How many documents a table has now, counted up to `most`: it reads no more entries than that."""
        (count,) = self.connection.execute(COUNT_SOME, (table.id, most)).fetchone()
        return int(count)

    def size_bytes(self) -> int:
        """The size of the whole database, with its log."""
        (pages,) = self.connection.execute("PRAGMA page_count").fetchone()
        (page_bytes,) = self.connection.execute("PRAGMA page_size").fetchone()
        return int(pages) * int(page_bytes)

    def newest_seq(self, table: TableInfo) -> int:
        """See `newest_seq`."""
        return newest_seq(self.connection, table)

    def changes(
        self,
        since: int,
        until: int | None = None,
        table: TableInfo | None = None,
        limit: int = PAGE_CHANGES,
        oldest: int | None = None,
    ) -> list[Change]:
        """Log entries with since < seq <= until, oldest first, at most `limit`.

        Args:
            oldest: See `end`; None: not read yet.

        Raises:
            HistoryLost: Some of them were compacted away.
            CorruptDatabase: Entries are missing or impossible: another program has written to the file.
        """
        self.check_end()
        top = read_head_seq(self.connection) if until is None else until
        table_ids = None if table is None else (table.id,)
        entries, _ = read(
            self.connection, self.catalogue, since, top, table_ids=table_ids, limit=limit, oldest=oldest
        )
        return list(make_changes(entries, self.catalogue))

    def entry(self, seq: int) -> Change | None:
        """The log entry at `seq`, or None where it was compacted away or never written."""
        return read_one(self.connection, self.catalogue, seq)

    def newest(self, table: TableInfo, key: bytes) -> Change | None:
        """The newest log entry of a key, with its metadata; it may be a deletion. None where there is none, or none is left."""
        return next(iter(self.history(table, key)), None)

    def history(self, table: TableInfo, key: bytes) -> Iterator[Change]:
        """Every remaining log entry of one key, newest first: the chain of `prev` from its head or its tombstone."""
        row = self.connection.execute(
            "SELECT seq FROM heads WHERE table_id = ?1 AND key = ?2 UNION ALL"
            " SELECT seq FROM graves WHERE table_id = ?1 AND key = ?2",
            (table.id, key),
        ).fetchone()
        seq = None if row is None else row[0]
        while seq is not None:
            change = self.entry(seq)
            if change is None:
                if seq > read_low_water(self.connection):
                    raise missing_entry_error(seq)
                return
            yield change
            seq = change.prev

    def _verify_rows(self, table: TableInfo, rows: list[tuple[bytes, bytes, int]]) -> list[Row]:
        return list(map(tuple.__new__, repeat(Row), zip(*self.whole(table, rows), strict=True)))

    def whole(
        self, table: TableInfo, rows: list[tuple[bytes, bytes, int]], tally: Tally | None = None
    ) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """The keys and documents of rows (key, document, checksum), after a look at their checksums. `tally` takes them in."""
        if not rows:
            return (), ()
        keys, bodies, checksums = zip(*rows, strict=True)
        if not are_whole(table.id, keys, bodies, checksums):
            raise find_first_damaged(self.connection, table, keys, bodies, checksums)
        if tally is not None:
            tally.add(checksums)
        return keys, bodies


class UnindexedSnapshot(Snapshot):
    """The same, where the entries of some indexes are not there any more. They are worked out from the documents."""

    def __init__(self, connection: Connection, catalogue: Catalogue, unindexed: frozenset[int]) -> None:
        """`unindexed`: the numbers of those indexes."""
        super().__init__(connection, catalogue)
        self._unindexed = unindexed

    def entry_bodies(
        self,
        index: IndexInfo,
        table: TableInfo,
        start: bytes,
        stop: bytes,
        reverse: bool,
        limit: int,
        offset: int = 0,
    ) -> Sequence[bytes]:
        if index.id not in self._unindexed:
            return super().entry_bodies(index, table, start, stop, reverse, limit, offset)
        entries = self.entries(index, start, stop, reverse=reverse, limit=limit, offset=offset)
        return [entry.body for entry in entries]

    def entries(
        self,
        index: IndexInfo,
        start: bytes = LEAST,
        stop: bytes = GREATEST,
        *,
        reverse: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> list[Entry]:
        if index.id not in self._unindexed:
            return super().entries(index, start, stop, reverse=reverse, limit=limit, offset=offset)
        rows = sorted(
            Entry(value, key, tag, body)
            for key, body in self.rows(self.catalogue.by_id[index.table_id])
            for value, tag in index.entries(codec.decode(body))
            if start <= value < stop
        )
        return _merge_rows((), rows, reverse, limit, offset, key=_entry_key)

    def count_entries(self, index: IndexInfo, start: bytes, stop: bytes, *, with_hidden: bool = False) -> int:
        if index.id not in self._unindexed:
            return super().count_entries(index, start, stop, with_hidden=with_hidden)
        bodies = (body for _, body in self.rows(self.catalogue.by_id[index.table_id]))
        return sum(_count_entries_of(index, body, start, stop, with_hidden) for body in bodies)

    def count_indexed(self, index: IndexInfo, ranges: Sequence[tuple[bytes, bytes]]) -> int:
        if index.id not in self._unindexed:
            return super().count_indexed(index, ranges)
        bodies = (body for _, body in self.rows(self.catalogue.by_id[index.table_id]))
        return sum(_is_indexed(index, body, ranges) for body in bodies)

    def value_counts(self, index: IndexInfo, start: bytes, stop: bytes) -> list[ValueCount]:
        if index.id not in self._unindexed:
            return super().value_counts(index, start, stop)
        return _count_values(self.entries(index, start, stop))

    def candidates(self, index: IndexInfo, ranges: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
        if index.id not in self._unindexed:
            return super().candidates(index, ranges)
        return self.keys(self.catalogue.by_id[index.table_id])


class PastSnapshot(Snapshot):
    """The documents as of an earlier seq: `now` without the changes after `seq`.

    Indexes are today's, over the documents of then.
    """

    # Every page looks through all changes after `seq`.
    page_rows = 1 << 40
    skips_unread = False

    def __init__(self, now: Snapshot, seq: int, undo: Reversal) -> None:
        super().__init__(now.connection, now.catalogue)
        self._now = now
        self._seq = seq
        self._undo = undo
        self._old: dict[int, dict[bytes, bytes | None]] = {}

    @property
    def seq(self) -> int:
        return self._seq

    def end(self) -> tuple[int, int, bool]:
        return self._seq, *self._now.end()[1:]

    def table(self, name: TableReference) -> TableInfo | None:
        # A feed may begin before its table was made.
        return (
            self.catalogue.at(name, self._seq)
            or self._now.table(name)
            or self.catalogue.after(name, self._seq)
        )

    def get(self, table: TableInfo, key: bytes) -> bytes | None:
        changed, body = self._undo.one(table.id, key, self._seq)
        return body if changed else self._now.get(table, key)

    def rows(
        self,
        table: TableInfo,
        start: bytes = LEAST,
        stop: bytes = GREATEST,
        *,
        reverse: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> list[Row]:
        old = self._read_old_documents(table.id)
        if not old:
            return self._now.rows(table, start, stop, reverse=reverse, limit=limit, offset=offset)
        ours = sorted(Row(key, body) for key, body in old.items() if body is not None and start <= key < stop)
        wanted = limit if limit < 0 else min(offset + limit + len(old), maxsize)
        now = (
            row
            for row in self._now.rows(table, start, stop, reverse=reverse, limit=wanted)
            if row.key not in old
        )
        return _merge_rows(now, ours, reverse, limit, offset, key=_row_key)

    def page(
        self,
        table: TableInfo,
        start: bytes,
        stop: bytes,
        reverse: bool,
        limit: int,
        tally: Tally | None = None,
        offset: int = 0,
    ) -> tuple[Sequence[bytes], Sequence[bytes]]:
        rows = self.rows(table, start, stop, reverse=reverse, limit=limit, offset=offset)
        return [row.key for row in rows], [row.body for row in rows]

    def entry_bodies(
        self,
        index: IndexInfo,
        table: TableInfo,
        start: bytes,
        stop: bytes,
        reverse: bool,
        limit: int,
        offset: int = 0,
    ) -> Sequence[bytes]:
        entries = self.entries(index, start, stop, reverse=reverse, limit=limit, offset=offset)
        return [entry.body for entry in entries]

    def entries(
        self,
        index: IndexInfo,
        start: bytes = LEAST,
        stop: bytes = GREATEST,
        *,
        reverse: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> list[Entry]:
        old = self._read_old_documents(index.table_id)
        if not old:
            return self._now.entries(index, start, stop, reverse=reverse, limit=limit, offset=offset)
        ours = sorted(
            Entry(value, key, tag, body)
            for key, body in old.items()
            if body is not None
            for value, tag in index.entries(codec.decode(body))
            if start <= value < stop
        )
        # A document has one entry in a simple index. In a multi index it can have any number, so no limit is right.
        wanted = -1 if limit < 0 or index.multi else min(offset + limit + len(old), maxsize)
        now = self._now.entries(index, start, stop, reverse=reverse, limit=wanted)
        return _merge_rows(
            (entry for entry in now if entry.key not in old), ours, reverse, limit, offset, key=_entry_key
        )

    def candidates(self, index: IndexInfo, ranges: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
        # Every key that changed since: to look at its old document costs as much as to compute its entries.
        old = self._read_old_documents(index.table_id)
        then = {key for key, body in old.items() if body is not None}
        then.update(key for key in self._now.candidates(index, ranges) if key not in old)
        return sorted(then)

    def pick(
        self, table: TableInfo, keys: Sequence[bytes], *, index: IndexInfo | None = None
    ) -> Iterator[Row]:
        old = self._read_old_documents(table.id)
        ours = (Row(key, body) for key in keys if (body := old.get(key)) is not None)
        yield from merge(self._now.pick(table, [key for key in keys if key not in old]), ours, key=_row_key)

    def keys(self, table: TableInfo) -> list[bytes]:
        old = self._read_old_documents(table.id)
        then = {key for key, body in old.items() if body is not None}
        then.update(key for key in self._now.keys(table) if key not in old)
        return sorted(then)

    def count(self, table: TableInfo) -> int:
        old = self._read_old_documents(table.id)
        then = sum(body is not None for body in old.values())
        now = sum(self._now.get(table, key) is not None for key in old)
        return self._now.count(table) - now + then

    def count_keys(self, table: TableInfo, start: bytes, stop: bytes) -> int:
        count = self._now.count_keys(table, start, stop)
        for key, then in self._read_old_documents(table.id).items():
            if start <= key < stop:
                count += (then is not None) - (self._now.get(table, key) is not None)
        return count

    def count_entries(self, index: IndexInfo, start: bytes, stop: bytes, *, with_hidden: bool = False) -> int:
        table = self.catalogue.by_id[index.table_id]
        count = self._now.count_entries(index, start, stop, with_hidden=with_hidden)
        for key, then in self._read_old_documents(table.id).items():
            count += _count_entries_of(index, then, start, stop, with_hidden)
            count -= _count_entries_of(index, self._now.get(table, key), start, stop, with_hidden)
        return count

    def count_indexed(self, index: IndexInfo, ranges: Sequence[tuple[bytes, bytes]]) -> int:
        table = self.catalogue.by_id[index.table_id]
        count = self._now.count_indexed(index, ranges)
        for key, then in self._read_old_documents(table.id).items():
            count += _is_indexed(index, then, ranges) - _is_indexed(index, self._now.get(table, key), ranges)
        return count

    def value_counts(self, index: IndexInfo, start: bytes, stop: bytes) -> list[ValueCount]:
        return _count_values(self.entries(index, start, stop))

    def newest_seq(self, table: TableInfo) -> int:
        """As of the seq. Where compaction has removed the record: the low-water mark, since no change is newer."""
        now = self._now.newest_seq(table)
        if now <= self._seq:
            return now
        row = self.connection.execute(NEWEST_UNTIL, (table.id, self._seq)).fetchone()
        # Below the mark only the entries of live documents are left: a later deletion may have been removed.
        return max(table.created, read_low_water(self.connection), 0 if row is None else row[0])

    def changes(
        self,
        since: int,
        until: int | None = None,
        table: TableInfo | None = None,
        limit: int = PAGE_CHANGES,
        oldest: int | None = None,
    ) -> list[Change]:
        until = self._seq if until is None else min(until, self._seq)
        return self._now.changes(since, until, table, limit, oldest)

    def history(self, table: TableInfo, key: bytes) -> Iterator[Change]:
        return (change for change in self._now.history(table, key) if change.seq <= self._seq)

    def count_changed_since(self, table: TableInfo) -> int:
        """Documents of a table that changed since."""
        return len(self._read_old_documents(table.id))

    def _read_old_documents(self, table_id: int) -> dict[bytes, bytes | None]:
        old = self._old.get(table_id)
        if old is None:
            old = self._old[table_id] = self._undo.old(table_id, self._seq)
        return old


class ViewOfPast(PastSnapshot):
    """The same, as `db.at(seq)` shows it: with the tables of then, under their names of then."""

    follows_chains = True

    def __init__(self, now: Snapshot, seq: int, undo: Reversal) -> None:
        super().__init__(now, seq, undo)
        names = undo.names(seq)
        if names:
            self.catalogue = self.catalogue.copy_renamed(names)

    def table(self, name: TableReference) -> TableInfo | None:
        return self.catalogue.at(name, self._seq)


_row_key = itemgetter(0)
_entry_key = itemgetter(0, 1, 2)


def _count_entries_of(
    index: IndexInfo, body: bytes | None, start: bytes, stop: bytes, with_hidden: bool
) -> int:
    """How many of `count_entries` a document has."""
    if body is None:
        return 0
    places = index.stored_entries(codec.decode(body))
    return sum((number > 0 or with_hidden) and start <= value < stop for number, value, _ in places)


def _is_indexed(index: IndexInfo, body: bytes | None, ranges: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether `count_indexed` counts a document."""
    entries = [] if body is None else index.entries(codec.decode(body))
    return any(start <= value < stop for value, _ in entries for start, stop in ranges)


def _count_values(entries: list[Entry]) -> list[ValueCount]:
    """The values of entries in order."""
    groups = (list(group) for _, group in groupby(entries, key=itemgetter(0)))
    return [ValueCount(group[0].value, group[0].key, len(group)) for group in groups]


def _merge_rows(
    now: Iterable[Any], ours: list[Any], reverse: bool, limit: int, offset: int, key: Callable[[Any], Any]
) -> list[Any]:
    if reverse:
        ours.reverse()
    merged = list(merge(now, ours, key=key, reverse=reverse))
    return merged[offset:] if limit < 0 else merged[offset : offset + limit]


def group_by_commit(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Group changes in log order into one list a transaction."""
    for _, group in groupby(changes, key=lambda change: (change.commit, change.time)):
        yield list(group)


def view_as_of(now: Snapshot, seq: int) -> Snapshot:
    """A view of `now` without the changes after `seq`."""
    if seq == now.seq:
        return now
    changes = read_all_changes(now, seq)
    return PastSnapshot(now, seq, Undo(seq, changes))


def read_all_changes(snapshot: Snapshot, since: int, table: TableInfo | None = None) -> Iterator[Change]:
    """Every change past `since`, page by page, within one snapshot."""
    until = snapshot.seq
    while True:
        page = snapshot.changes(since, until, table)
        yield from page
        if not page or page[-1].seq >= until:
            return
        since = page[-1].seq


def complete_commits(changes: list[Change], snapshot: Snapshot) -> list[Change]:
    """Complete a page of changes that may end inside a commit: the result ends with that commit."""
    commit, last = changes[-1].commit, changes[-1].seq
    completed = list(changes)
    while True:
        more = snapshot.changes(last, None, limit=200)
        same = [change for change in more if change.commit == commit]
        completed += same
        if len(same) < 200:
            return completed
        last = same[-1].seq
