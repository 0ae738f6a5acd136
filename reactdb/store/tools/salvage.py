"""Salvage: the documents that can still be read from a damaged file.

It reads the log by SQL first, and after an unreadable entry searches for the next readable one. Entries that are
missing then are read from the pages themselves. An entry from either way counts if it matches its checksum (in format
1: if its document can be decoded and has the key under which it is filed). The newest such entry of each key is
taken. The readable heads and tombstones say whether there was a newer one.

Rule of this file: it only reads. Any byte that it reads may be wrong, and no wrong byte may end it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from reactdb.change import CATALOGUE
from reactdb.errors import CannotOpen, NotADatabase, ReactDBError
from reactdb.store import schema
from reactdb.store.blobs import StoredBlob, read_blob, read_piece
from reactdb.store.checksums import is_entry_whole
from reactdb.store.file import sqlite
from reactdb.store.file.immutable import IMMUTABLE, connect_to_read
from reactdb.store.file.names import check_names
from reactdb.store.file.pages import Pages
from reactdb.store.file.sqlite import Connection
from reactdb.store.file.wal_check import check_log_belongs, check_log_is_own
from reactdb.values import codec, collation
from reactdb.values.blob import Blob

# Entries that are read at a time.
CHUNK_ENTRIES = 1_000
# What each tree lists, in the words of the report.
LISTS = {"heads": "documents", "graves": "deleted documents"}
ENTRIES = f"SELECT {schema.LOG_1}, seal FROM log WHERE seq > ? ORDER BY seq LIMIT ?"
GREATEST_SEQ = 2**62

FAILURES: tuple[type[Exception], ...] = (*sqlite.READ_ERRORS, ReactDBError)
UNREADABLE: tuple[type[Exception], ...] = (*FAILURES, TypeError, ValueError)

# A table and a key in it, as the log has them.
TableKey = tuple[int, bytes]


@dataclass(slots=True)
class SavedTable:
    """The readable rest of one table.

    Attributes:
        name: For example `table-3`, if number 3 is missing in the list of tables.
        saved: How many documents can be read.
        older: The keys of documents of which only an earlier version can be read. They are among the saved documents.
        lost: The keys of documents that cannot be read.
    """

    id: int
    name: str
    primary_key: str | None
    saved: int = 0
    older: list[bytes] = field(default_factory=list)
    lost: list[bytes] = field(default_factory=list)


class Salvage:
    """The readable content of a file, which is examined at the creation of this object. See the head of this file.

    Raises:
        CannotOpen: There is no such file.
        NotADatabase: Nothing in it looks like a database of reactdb.

    Attributes:
        tables: The tables that are not dropped, by number.
        troubles: The faults of the file, in sentences.
        unread: How many log entries should exist and cannot be read. Their changes are unknown.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        if not os.path.isfile(self.path):
            raise CannotOpen(self.path, sqlite.explain_unreadable_path(self.path))
        check_names(self.path)
        self.tables: dict[int, SavedTable] = {}
        self.troubles: list[str] = []
        self.unread = 0
        # Tables that were dropped, and tables with an owner: the owner can make them again.
        self._left_out: set[int] = set()
        self._format = schema.FORMAT_VERSION
        self._low: int | None = None
        self._is_without_log = False
        # The newest entry of each key that was found: its seq, and whether it is a document.
        self._newest: dict[TableKey, tuple[int, bool]] = {}
        # The seq of the newest entry of each key, as its head or tombstone has it.
        self._expected: dict[TableKey, int] = {}
        self._is_expected_complete = False
        self._seqs: set[int] = set()
        # Documents by seq that SQL cannot read, taken from pages.
        self._bodies: dict[int, bytes] = {}
        self._examine()

    @property
    def is_complete(self) -> bool:
        """Everything was there."""
        return not (
            self.troubles or self.unread or any(table.older or table.lost for table in self.tables.values())
        )

    def documents(self, table: SavedTable) -> Iterator[dict[str, Any]]:
        """The documents of a table that can be read, in order of their keys."""
        chosen = sorted(
            (key, seq)
            for (table_id, key), (seq, is_document) in self._newest.items()
            if is_document and table_id == table.id
        )
        connection = self._connect()
        try:
            for key, seq in chosen:
                body = self._bodies.get(seq)
                if body is None and connection is not None:
                    try:
                        (body,) = connection.execute("SELECT body FROM log WHERE seq = ?", (seq,)).fetchone()
                    except UNREADABLE as error:
                        # The log could be read in order up to here, but a search by seq meets damage on its way.
                        self._note(f"not all of the log can be searched: {error}")
                        connection.close()
                        connection = None
                if body is None:
                    if seq not in self._bodies:
                        self._read_bodies({seq for _, seq in chosen})
                    body = self._bodies.get(seq)
                if body is None:
                    table.saved -= 1
                    table.lost.append(key)
                else:
                    yield codec.decode(body)
        finally:
            if connection is not None:
                connection.close()

    def blobs(self) -> Iterator[tuple[Blob, Iterator[bytes]]]:
        """The listed blobs, and the pieces of each, in order. The pieces raise one of `UNREADABLE` where they cannot
        be read or are damaged."""
        connection = self._connect()
        if connection is None:
            return
        try:
            for stored in self._listed_blobs(connection):
                numbers = range(len(stored.pieces))
                yield stored.blob, (read_piece(connection, stored, number) for number in numbers)
        finally:
            connection.close()

    def _listed_blobs(self, connection: Connection) -> list[StoredBlob]:
        """Read from both ends of the list, as `_read_pointers` does."""
        blobs: dict[int, StoredBlob] = {}
        for order in ("", " DESC"):
            try:
                for (number,) in connection.execute(
                    f"SELECT id FROM blobs WHERE digest IS NOT NULL ORDER BY id{order}"
                ):
                    blobs[number] = read_blob(connection, number)
                break
            except UNREADABLE as error:
                self._note(f"not all of the list of blobs can be read: {sqlite.message_of(error)}")
        return list(blobs.values())

    # -----------------------------------------------------------------------------------------------------------
    # By SQL

    def _connect(self) -> Connection | None:
        """A connection that reads; None if SQLite cannot read the file."""
        connection = None
        try:
            if self._is_without_log:
                connection = self._connect_as(IMMUTABLE)
            else:
                connection, _ = connect_to_read(self._connect_as, self.path)
            sqlite.configure(connection, reader=True)
            self._format = schema.identify(connection, self.path)
            if not self._format:
                raise NotADatabase(self.path, "it is empty")
            schema.show_as_today(connection)
            return connection
        except FAILURES as error:
            self._format = schema.FORMAT_VERSION
            reason = error.reason if isinstance(error, NotADatabase) else sqlite.message_of(error)
            self._note(f"SQLite cannot read the file: {reason}")
            if connection is not None:
                connection.close()
            return None

    def _connect_as(self, mode: str) -> Connection:
        return sqlite.connect(self.path, mode=mode, busy_timeout_s=5.0)

    def _note(self, trouble: str) -> None:
        if trouble not in self.troubles:
            self.troubles.append(trouble)

    def _examine(self) -> None:
        with suppress(OSError), Pages(self.path) as pages:
            # Before SQLite opens the file: see the head of `pages`.
            if pages.is_log_damaged:
                self._note("the write-ahead log is damaged: SQLite sees only the commits before that")
        named = None
        try:
            named = check_log_is_own(self.path)
        except FAILURES as error:
            self._note(sqlite.message_of(error))
            self._is_without_log = True
        connection = self._connect()
        is_database = connection is not None
        if connection is not None and not self._is_without_log:
            try:
                check_log_belongs(connection, self.path, named)
            except FAILURES as error:
                self._note(sqlite.message_of(error))
                connection.close()
                self._is_without_log = True
                connection = self._connect()
        if connection is not None:
            try:
                self._read_lists(connection)
                self._is_expected_complete = all(
                    [self._read_pointers(connection, "heads"), self._read_pointers(connection, "graves")]
                )
                self._read_log(connection)
            finally:
                connection.close()
        if connection is None or self.troubles or self._missing():
            self._read_pages()
        if not (is_database or self._seqs or self._expected or self.tables):
            raise NotADatabase(self.path, "; ".join(self.troubles) or "there is nothing of one in it")
        self._judge()
        self.unread = self._missing()

    def _read_lists(self, connection: Connection) -> None:
        try:
            schema.check_catalogue(connection)
        except FAILURES:
            self._note(
                "the lists of tables and settings have changed since they were written: names may be wrong"
            )
        try:
            self._low = int(schema.read_fact(connection, "low_water"))
        except UNREADABLE:
            self._note(
                "the beginning of the log cannot be read: documents deleted long ago may be among the saved ones"
            )
        try:
            for row in connection.execute(
                "SELECT id, name, primary_key, created, dropped, owner FROM tables"
            ).fetchall():
                self._list_table(row)
        except sqlite.READ_ERRORS as error:
            self._note(f"the list of tables cannot be read: {sqlite.message_of(error)}")

    def _list_table(self, row: Sequence[Any]) -> None:
        number, name, primary_key, _, dropped, *added = row
        if dropped is not None or (added and added[0] is not None):
            self._left_out.add(number)
        elif isinstance(name, str) and isinstance(primary_key, str):
            self.tables.setdefault(number, SavedTable(number, name, primary_key))

    def _read_pointers(self, connection: Connection, tree: str) -> bool:
        """Read the seq of the newest entry of each key from heads or graves. Whether all of the tree was read.

        Read the tree from both ends, until a page cannot be read. That covers most of a tree with one bad page.
        """
        for order in ("", " DESC"):
            try:
                for table_id, key, seq in connection.execute(
                    f"SELECT table_id, key, seq FROM {tree} ORDER BY table_id{order}, key{order}"
                ):
                    self._expect(table_id, key, seq)
            except sqlite.READ_ERRORS as error:
                self._note(f"not all of the list of {LISTS[tree]} can be read: {sqlite.message_of(error)}")
            else:
                return True
        return False

    def _expect(self, table_id: Any, key: Any, seq: Any) -> None:
        if isinstance(table_id, int) and isinstance(seq, int) and is_key(key):
            self._expected[table_id, key] = max(seq, self._expected.get((table_id, key), 0))

    def _read_log(self, connection: Connection) -> None:
        since, limit = 0, CHUNK_ENTRIES
        while True:
            try:
                rows = connection.execute(ENTRIES, (since, limit)).fetchall()
            except sqlite.READ_ERRORS as error:
                self._note(f"not all of the log can be read: {sqlite.message_of(error)}")
                if limit > 1:
                    limit //= 10
                    continue
                next_since = next_readable(connection, since)
                if next_since is None:
                    return
                since, limit = next_since, CHUNK_ENTRIES
                continue
            for row in rows:
                self._take(row, is_sealed=self._format >= 2)
            if len(rows) < limit or rows[-1][0] <= since:
                return
            since, limit = rows[-1][0], min(limit * 10, CHUNK_ENTRIES)

    def _take(self, row: Sequence[Any], *, is_sealed: bool) -> bool:
        """Take an entry if it matches its checksum. Returns: whether it does."""
        seq, table_id, key, body = row[0], row[1], row[6], row[7]
        if is_sealed and not is_entry_whole(row):
            return False
        if not (isinstance(seq, int) and isinstance(table_id, int) and is_key(key)):
            return False
        if body is not None and not self._is_document(table_id, key, body, is_sealed):
            return False
        self._seqs.add(seq)
        if table_id == CATALOGUE:
            return True
        if seq > self._newest.get((table_id, key), (0, False))[0]:
            self._newest[table_id, key] = seq, body is not None
        return True

    def _is_document(self, table_id: int, key: bytes, body: Any, is_sealed: bool) -> bool:
        try:
            document = codec.decode(body)
            table = self.tables.get(table_id)
            primary_key = None if table is None else table.primary_key
            # A document that matches its checksum is right, even if the list of tables is wrong.
            return is_sealed or primary_key is None or collation.key_bytes(document[primary_key]) == key
        except (ReactDBError, KeyError, TypeError):
            return False

    # -----------------------------------------------------------------------------------------------------------
    # From pages

    def _missing(self) -> int:
        """How many entries should exist and were not read: all past the low-water mark, and the entries of heads."""
        low, highest = self._low or 0, max(self._seqs, default=0)
        missing = highest - low - sum(1 for seq in self._seqs if seq > low) if highest > low else 0
        return missing + len(
            {seq for seq in self._expected.values() if seq > highest or seq <= low} - self._seqs
        )

    def _read_pages(self) -> None:
        columns = len(schema.LOG_1.split(","))
        pointers: list[tuple[Any, Any, Any]] = []
        listed: list[list[Any]] = []
        try:
            with Pages(self.path, with_log=not self._is_without_log) as pages:
                for is_table, row in pages.rows():
                    if is_table and len(row) in (columns + 1, columns + 2) and row[1] is None:
                        # SQLite stores NULL for the rowid column.
                        is_sealed = len(row) == columns + 2
                        self._take_from_page([row[0], *row[2:], *[None] * (not is_sealed)], is_sealed)
                    elif is_table and 6 <= len(row) <= 8 and row[1] is None:
                        listed.append([row[0], *row[2:]])
                    elif not is_table and len(row) == 3:
                        pointers.append((row[0], row[1], row[2]))
        except OSError as error:
            self._note(f"the file cannot be read: {error}")
        if not self.tables:
            for row in listed:
                if isinstance(row[1], str) and isinstance(row[2], str) and isinstance(row[3], int):
                    self._list_table(row)
        if not self._is_expected_complete:
            for pointer in pointers:
                self._expect(*pointer)

    def _read_bodies(self, wanted: set[int]) -> None:
        """Read from pages the documents of entries that were taken already."""
        taken, self._seqs = self._seqs, self._seqs - wanted
        self._read_pages()
        self._seqs |= taken

    def _take_from_page(self, row: Sequence[Any], is_sealed: bool) -> None:
        seq = row[0]
        if seq in self._seqs:
            return
        is_wanted = self._low is None or seq > self._low or not self._is_expected_complete
        # Compaction has removed the entries up to the low-water mark to which no head leads; their bytes may still be there.
        if not is_wanted and self._expected.get((row[1], row[6])) != seq:
            return
        if self._take(row, is_sealed=is_sealed) and row[7] is not None:
            self._bodies[seq] = row[7]

    # -----------------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Count the saved and the lost documents of each table."""
        low = self._low or 0
        for place in sorted(self._newest.keys() | self._expected.keys()):
            table_id, key = place
            if table_id in self._left_out:
                self._newest.pop(place, None)
                continue
            table = self.tables.get(table_id)
            if table is None:
                self._note(f"table {table_id} is missing in the list of tables")
                table = self.tables[table_id] = SavedTable(table_id, f"table-{table_id}", None)
            seq, is_document = self._newest.get(place, (0, False))
            is_outdated = seq < self._expected.get(place, 0)
            if is_document and seq <= low and self._is_expected_complete and place not in self._expected:
                # It was deleted, and then the deletion was compacted away.
                del self._newest[place]
            elif is_document:
                table.saved += 1
                if is_outdated:
                    table.older.append(key)
            elif is_outdated:
                table.lost.append(key)


def next_readable(connection: Connection, since: int) -> int | None:
    """A seq after which the log can be read again, as near to `since` as it can be found; None where there is none."""

    def can_read(step: int) -> bool:
        try:
            connection.execute(ENTRIES, (since + step, 1)).fetchall()
        except sqlite.READ_ERRORS:
            return False
        return True

    good = 1
    while not can_read(good):
        good *= 2
        if since + good > GREATEST_SEQ:
            return None
    bad = good // 2
    while good - bad > 1:
        middle = (good + bad) // 2
        if can_read(middle):
            good = middle
        else:
            bad = middle
    return since + good


def is_key(key: Any) -> bool:
    try:
        collation.key_value(key)
    except Exception:
        # Bytes that cannot be decoded are no key, whatever the error says.
        return False
    return isinstance(key, bytes)
