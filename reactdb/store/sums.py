"""Running sums: how many documents and index entries must exist, so that a lost one is noticed.

A checksum checks a row that was read. It cannot notice a row that damage to a tree has hidden. So the newest row of
each table in the table block index has, as of a seq: the number of documents and the sum of their checksums (the low
32 bits, modulo 2^32), and for each index the number of its entries and a sum of their hashes. Entries past that seq
are all in the same block: a reader of the present sums rolls forward over 31 entries at most.

    Sums         the figures; the writer moves them with each flush
    newest       the file's sums, rolled forward to now
    check        compares a read of all documents, or of a whole index, with them
    compare      compares all entries of a small index, before the first read of a part of it

Rule of this file: the sums follow from the log, never from the trees that they check. The one exception is
`measure_sums`, for a table of a file without sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any
from zlib import crc32

from msgpack import packb, unpackb

from reactdb.change import DELETE, INSERT
from reactdb.errors import CorruptDatabase
from reactdb.store.catalogue import Catalogue, IndexInfo, TableInfo
from reactdb.store.checksums import LOW, values_checksum
from reactdb.store.file.sqlite import ADVICE, Connection
from reactdb.store.log import read_low_water
from reactdb.store.schema import BLOCK_BITS
from reactdb.values import codec

NEWEST_BLOCK = "SELECT block, sums FROM marks WHERE table_id = ? ORDER BY block DESC LIMIT 1"
SET_SUMS = "UPDATE marks SET sums = ? WHERE table_id = ? AND block = ?"
STEPS = (
    "SELECT l.seq, l.kind, l.seal, p.seal{} FROM log l LEFT JOIN log p ON p.seq = l.prev"
    " WHERE l.seq > ? AND l.seq < ? AND l.table_id = ? ORDER BY l.seq"
)
ENTRIES = "SELECT index_id, value, key, tag FROM entries WHERE index_id IN (?1, -?1)"
# With the index's number: damage to the number can sort an entry before all others of its index.
ENTRIES_IN_ORDER = (
    "SELECT index_id, value, key, tag FROM entries WHERE index_id = ? ORDER BY index_id, value, key, tag"
)
LAST_ENTRY = (
    "SELECT index_id, value, key, tag FROM entries WHERE index_id = ?"
    " ORDER BY index_id DESC, value DESC, key DESC, tag DESC LIMIT 1"
)
DOCUMENTS = ", l.key, l.body, p.body"
# Documents of which stock is taken in passing, by a write: some 5 ms.
MOST_IN_PASSING = 10_000
# Entries of an index that are compared before the first read by it: some 10 ms, once while a file is open.
MOST_COMPARED = 10_000
CHECKSUM_BYTES = 4

StoredEntry = tuple[int, bytes, bytes, int]
"""An index entry: the index's number, negated for a hidden entry; value, key and tag."""

Figures = dict[int, list[int]]
"""Number of an index, negated for its hidden entries -> [how many entries, the sum of their hashes]. None of an index: nothing is
known of it."""


class Sums:
    """The sums of a table as of a seq.

    Attributes:
        seq: Every change of the table up to here is in the figures, and none after it.
        count: Documents.
        total: The sum of their checksums. It may have any size; only its low 32 bits mean anything.
        indexes: Of its indexes.
    """

    __slots__ = ("count", "indexes", "seq", "total")

    def __init__(self, seq: int = 0, count: int = 0, total: int = 0, indexes: Figures | None = None) -> None:
        self.seq = seq
        self.count = count
        self.total = total
        self.indexes = {} if indexes is None else indexes

    def add_index(self, index_id: int) -> None:
        """An index that has no entries yet."""
        self.indexes[index_id] = [0, 0]
        self.indexes[-index_id] = [0, 0]

    def pack(self, table_id: int, block: int) -> bytes:
        """As it is stored, in the row of this block."""
        indexes = [(number, count, total & LOW) for number, (count, total) in self.indexes.items()]
        body: bytes = packb((self.seq, self.count, self.total & LOW, indexes))
        return body + _checksum(table_id, block, body)


def move_entries(figures: Figures, dropped: Iterable[StoredEntry], added: Iterable[StoredEntry]) -> None:
    """Add and remove index entries. Entries of indexes without sums are skipped."""
    for index_id, value, key, tag in dropped:
        one = figures.get(index_id)
        if one is not None:
            one[0] -= 1
            one[1] -= crc32(value, crc32(key, tag))
    for index_id, value, key, tag in added:
        one = figures.get(index_id)
        if one is not None:
            one[0] += 1
            one[1] += crc32(value, crc32(key, tag))


def add_entries(figures: Figures, entries: Iterable[StoredEntry]) -> None:
    """Add many index entries, in the order of their indexes: at half the cost of single calls."""
    for index_id, some in groupby(entries, itemgetter(0)):
        one = figures.get(index_id)
        if one is not None:
            _, values, keys, tags = zip(*some, strict=True)
            one[0] += len(keys)
            one[1] += sum(map(crc32, values, map(crc32, keys, tags)))


def _checksum(table_id: int, block: int, body: bytes) -> bytes:
    return values_checksum(table_id, block, body).to_bytes(CHECKSUM_BYTES, "big")


def unpack(table: TableInfo, block: int, packed: Any) -> Sums:
    """
    Raises:
        CorruptDatabase: The row does not match its checksum.
    """
    if isinstance(packed, bytes):
        body = packed[:-CHECKSUM_BYTES]
        if packed[-CHECKSUM_BYTES:] == _checksum(table.id, block, body):
            seq, count, total, indexes = unpackb(body)
            return Sums(seq, count, total, {number: figures for number, *figures in indexes})
    raise CorruptDatabase(
        f"the stored checksum of table `{table.name}` is damaged: it has changed since it was written. {ADVICE}",
        table=table.name,
    )


def newest(
    connection: Connection,
    table: TableInfo,
    indexes: Sequence[IndexInfo] = (),
    unlisted: tuple[int, int] | None = None,
) -> tuple[int | None, Sums | None]:
    """The sums of a table as the connection sees it now.

    Args:
        indexes: The indexes whose sums are needed; the sums of others may be older.
        unlisted: There are entries past one seq and before another in blocks that are not in the table block index
            yet.

    Returns:
        (the newest block in which the table has entries, None where none is known; the sums, None where the file has none).

    Raises:
        CorruptDatabase: The rows do not match their checksums.
    """
    block, packed = connection.execute(NEWEST_BLOCK, (table.id,)).fetchone() or (None, None)
    if block is None:
        # In older formats compaction left no block of tables that were idle.
        if table.created < read_low_water(connection):
            return None, None
        sums = Sums(table.created)
        for index in indexes:
            sums.add_index(index.id)
    elif packed is None:
        return block, None
    else:
        sums = unpack(table, block, packed)
        _roll_forward(connection, table, sums, (block + 1) << BLOCK_BITS, indexes)
    if unlisted is not None:
        sums.seq = max(sums.seq, unlisted[0])
        _roll_forward(connection, table, sums, unlisted[1], indexes)
    return block, sums


def _roll_forward(
    connection: Connection, table: TableInfo, sums: Sums, end: int, indexes: Sequence[IndexInfo]
) -> None:
    """Take in the changes of a table past `sums.seq` and before `end`."""
    text = STEPS.format(DOCUMENTS if indexes else "")
    for seq, kind, checksum, before, *documents in connection.execute(text, (sums.seq, end, table.id)):
        # Damaged rows count as nothing: then the sums differ from the read, and the check reports it.
        if kind != DELETE:
            sums.total += (checksum or 0) & LOW
        if kind != INSERT:
            sums.total -= (before or 0) & LOW
        sums.count += (kind == INSERT) - (kind == DELETE)
        if indexes:
            key, new, old = documents
            move_entries(sums.indexes, _entries(indexes, key, old), _entries(indexes, key, new))
        sums.seq = seq


def _entries(indexes: Sequence[IndexInfo], key: bytes, body: bytes | None) -> list[StoredEntry]:
    if body is None:
        return []
    document = codec.decode(body)
    return [
        (number, value, key, tag)
        for index in indexes
        for number, value, tag in index.stored_entries(document)
    ]


def measure_sums(connection: Connection, table: TableInfo, seq: int, most: int | None = None) -> Sums | None:
    """The sums of the stored documents and index entries as of `seq`, which is now.

    Args:
        most: The result is None where there are more documents than this.
    """
    if most is not None:
        bounded = "SELECT count(*) FROM (SELECT 1 FROM heads WHERE table_id = ? LIMIT ?)"
        if connection.execute(bounded, (table.id, most + 1)).fetchone()[0] > most:
            return None
    count, total = connection.execute(
        f"SELECT count(*), ifnull(sum(l.seal & {LOW}), 0) FROM heads h LEFT JOIN log l ON l.seq = h.seq"
        " WHERE h.table_id = ?",
        (table.id,),
    ).fetchone()
    sums = Sums(seq, count, total)
    for index in table.indexes.values():
        sums.add_index(index.id)
        add_entries(sums.indexes, connection.execute(ENTRIES, (index.id,)))
    return sums


def has_unsummed_tables(connection: Connection) -> bool:
    """Whether there is a table with entries of which the file has no sums."""
    newest_blocks = (
        "SELECT table_id, max(block) FROM marks WHERE table_id IN (SELECT id FROM tables) GROUP BY table_id"
    )
    text = f"SELECT 1 FROM marks WHERE (table_id, block) IN ({newest_blocks}) AND sums IS NULL LIMIT 1"
    return connection.execute(text).fetchone() is not None


def complete(connection: Connection, catalogue: Catalogue, seq: int) -> None:
    """Compute the sums of the tables without sums, of any size: the tables that were large before the file had this
    format. `seq` is the newest. Called inside a transaction."""
    for table in catalogue.by_id.values():
        block, sums = newest(connection, table)
        if block is not None and sums is None:
            taken = measure_sums(connection, table, seq)
            assert taken is not None
            connection.execute(SET_SUMS, (taken.pack(table.id, block), table.id, block))


# ---------------------------------------------------------------------------------------------------------------
# The result of a read


class Tally:
    """The sums of a read through all documents of a table, so far."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0

    def add(self, checksums: Sequence[int]) -> None:
        """Of documents that are whole."""
        self.count += len(checksums)
        self.total += sum(checksums)


Known = dict[tuple[int, int], tuple[int, int] | None]
"""The expected documents and entries of one state of a file, as far as looked up: by number of the table and of the
index (0: documents), their number and their sum; None where it is not known."""


def check(
    connection: Connection,
    known: Known,
    table: TableInfo,
    index: IndexInfo | None,
    count: int,
    total: int | None = None,
) -> None:
    """Compare a read with the sums: all documents of a table, or all entries of an index without hidden ones.

    Args:
        total: The sum of the documents' checksums, where the read has it.

    Raises:
        CorruptDatabase: The read does not match the sums.
    """
    place = table.id, 0 if index is None else index.id
    if place not in known:
        known[place] = _read_expected(connection, table, index)
    written = known[place]
    if written is None or (count == written[0] and (total is None or (total - written[1]) & LOW == 0)):
        return
    raise _mismatch_error(table, index, count, written[0])


def compare(connection: Connection, table: TableInfo, index: IndexInfo) -> None:
    """Compare all entries of an index with the sums, if there are at most MOST_COMPARED of a kind.

    After that, a read of a part of the index is complete: to look for an entry, SQLite passes entries that were
    compared here, and they are in order.

    Raises:
        CorruptDatabase: The entries do not match the sums, or are not in order.
    """
    _, sums = newest(connection, table, (index,))
    for number in (index.id, -index.id):
        written = None if sums is None else sums.indexes.get(number)
        if written is None or written[0] > MOST_COMPARED:
            continue
        entries = connection.execute(ENTRIES_IN_ORDER, (number,)).fetchall()
        # A search also passes entries of other indexes. They are in order, too, if both ends of this index are found:
        # every search takes one of these paths until it reaches an entry of this index.
        last = connection.execute(LAST_ENTRY, (number,)).fetchone()
        is_found = last == (entries[-1] if entries else None)
        if not is_found or not _match_sums(number, entries, *written):
            raise _mismatch_error(table, index, len(entries), written[0])


def _match_sums(number: int, entries: Sequence[StoredEntry], count: int, total: int) -> bool:
    """Whether entries are in order, and as many and with the same sum as were written."""
    if len(entries) != count:
        return False
    try:
        numbers, values, keys, tags = zip(*entries, strict=True) if entries else ((),) * 4
        actual = sum(map(crc32, values, map(crc32, keys, tags)))
        return (
            (actual - total) & LOW == 0 and {number}.issuperset(numbers) and list(entries) == sorted(entries)
        )
    except (TypeError, OverflowError):
        # In damaged rows values can have any type.
        return False


def _mismatch_error(table: TableInfo, index: IndexInfo | None, count: int, written: int) -> CorruptDatabase:
    """The error of a table, or of an index, whose `count` documents or entries do not match the sums."""
    if index is None:
        what, others = f"table `{table.name}`: {_number(count, 'document')}", "the newest"
    else:
        what = f"index `{index.name}` of table `{table.name}`: {_number(count, 'entry', 'entries')}"
        others = "the written ones, or they are not in order"
    trouble = f"can be found, and {written:,} were written"
    if count == written:
        trouble = f"can be found, as many as were written, but not all are {others}"
    return CorruptDatabase(
        f"{what} {trouble}: another program has changed the file, or it is damaged. {ADVICE}",
        table=table.name,
    )


def _read_expected(
    connection: Connection, table: TableInfo, index: IndexInfo | None
) -> tuple[int, int] | None:
    _, sums = newest(connection, table, () if index is None else (index,))
    if sums is None:
        return None
    if index is None:
        return sums.count, sums.total & LOW
    count, total = sums.indexes.get(index.id, (None, 0))
    return None if count is None else (count, total & LOW)


def differences(connection: Connection, table: TableInfo) -> Iterable[str]:
    """Findings of the doctor: a sentence for each checksum that does not match the documents or index entries."""
    indexes = tuple(table.indexes.values())
    _, written = newest(connection, table, indexes)
    if written is None:
        return
    actual = measure_sums(connection, table, written.seq)
    assert actual is not None
    if (actual.count, actual.total & LOW) != (written.count, written.total & LOW):
        yield (
            f"table {table.name!r} has {_number(actual.count, 'document')}, but its checksum is of {written.count:,}"
            + (" others" if actual.count == written.count else "")
        )
    for index in indexes:
        for number, what in ((index.id, "entry"), (-index.id, "hidden entry")):
            known, there = written.indexes.get(number), actual.indexes[number]
            if known is not None and (there[0], there[1] & LOW) != (known[0], known[1] & LOW):
                plural = what.replace("entry", "entries")
                yield (
                    f"index {index.name!r} of table {table.name!r} has {_number(there[0], what, plural)},"
                    f" but its checksum is of {known[0]:,}" + (" others" if there[0] == known[0] else "")
                )


def _number(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
