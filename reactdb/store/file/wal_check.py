"""WAL check: does the write-ahead log beside a file belong to that file?

SQLite cannot tell, because a log names the changed pages, and not the file. Read together with another database's
log, a file shows the log's pages. Opened to write, it becomes a mixture of both, for good once it is closed.

Each database has an id, and the file itself has the id, beneath the log's pages. Each log has the id too: the first
commit of a process, and the first commit after a restart of the log, write the row with the id again
(`schema.name_log`), so that its page is among the first of the log. Older versions of reactdb did not do that. A log
without an id is judged by the id that is read through it.

Rule of this file: it looks at the bytes of the log, and uses connections that see the file without its log. It changes nothing.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from reactdb.errors import CorruptDatabase
from reactdb.store import schema
from reactdb.store.file import sqlite
from reactdb.store.file.pages import FRAME_HEADER, INDEX_INTERIOR, INDEX_LEAF, WAL_HEADER, read_varint, record
from reactdb.store.file.sqlite import Connection, file_bytes

MAGIC = (0x377F0682, 0x377F0683)
# A log is searched for the id up to this size: 64 MiB, four times the size at which a log is emptied.
MOST_BYTES = 64 * 1024 * 1024
NAME = b"database_id"


def check_log_is_own(path: str) -> str | None:
    """Called before a connection opens the file, because the first connection may write the log into it.

    Returns:
        The id in the log; None where there is none.

    Raises:
        CorruptDatabase: The log has the id of another database.
    """
    named = read_id_of_log(path + "-wal") if file_bytes(path + "-wal") else None
    own = None if named is None else read_id_without_log(path)
    if named is not None and own is not None and own != named:
        raise _other_file_message(path, own, named)
    return named


def check_log_belongs(connection: Connection, path: str, named: str | None) -> None:
    """Called before anything is written.

    Args:
        connection: Sees the file as its log makes it.
        named: The id in the log, if known.

    Raises:
        CorruptDatabase: The log is another database's.
    """
    if not file_bytes(path + "-wal"):
        return
    # An id in the log has been compared with the file's already, or the file is so new that all of it is in the log.
    own = named or read_id_of_log(path + "-wal") or read_id_without_log(path)
    laid_over = schema.read_database_id(connection)
    if own is not None and laid_over != own:
        raise _other_file_message(path, own, laid_over)


def _other_file_message(path: str, own: str, other: object) -> CorruptDatabase:
    return CorruptDatabase(
        f"{path} is database {own}, but the write-ahead log beside it is of database {other}: one of the two was "
        "replaced without the other. Nothing was changed; put back the matching files, or move the -wal away to have "
        "the file as of its last checkpoint"
    )


def read_id_without_log(path: str) -> str | None:
    """The database id in the file without its log; None where it has none yet, or cannot be read so."""
    # Immutable: SQLite ignores the log. Another process may be writing to the file, so anything but an id counts as
    # none. (An id never changes.)
    file = sqlite.connect(path, mode="ro&immutable=1", busy_timeout_s=0)
    try:
        identity = schema.read_database_id(file)
        return identity if isinstance(identity, str) and identity else None
    except sqlite.READ_ERRORS:
        return None
    finally:
        file.close()


def read_id_of_log(log: str) -> str | None:
    """The database id in a write-ahead log, from the first page that has one; None where no page has.

    A frame counts if it has the salts of this log. Its commit need not be complete, because all frames of one log
    belong to one database.
    """
    for page in _pages(log):
        # The table of facts is WITHOUT ROWID, so its rows are in pages of an index: name, value, since format 3 a checksum.
        # Documents, which may say anything, are not in such pages.
        if page[0] in (INDEX_LEAF, INDEX_INTERIOR) and NAME in page:
            for row in _rows(page):
                if len(row) in (2, 3) and row[0] == NAME.decode() and isinstance(row[1], str):
                    return row[1]
    return None


def _pages(log: str) -> Iterator[bytes]:
    """The pages in a log, in the order in which they were written since it was begun."""
    try:
        file = os.open(log, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    except OSError:
        return
    try:
        header = os.read(file, WAL_HEADER)
        if len(header) < WAL_HEADER:
            return
        magic, _, page_bytes = struct.unpack(">III", header[:12])
        if magic not in MAGIC or not 512 <= page_bytes <= 65536:
            return
        read_bytes = WAL_HEADER
        while read_bytes < MOST_BYTES:
            # In one piece, because another process may be writing there.
            frame = os.read(file, FRAME_HEADER + page_bytes)
            if len(frame) < FRAME_HEADER + page_bytes or frame[8:16] != header[16:24]:
                return
            read_bytes += len(frame)
            yield frame[FRAME_HEADER:]
    except OSError:
        return
    finally:
        os.close(file)


def _rows(page: bytes) -> Iterator[list[object]]:
    """The rows of a page of an index that are complete in it."""
    is_leaf = page[0] == INDEX_LEAF
    pointers = 8 if is_leaf else 12
    for index in range(int.from_bytes(page[3:5], "big")):
        try:
            place = int.from_bytes(page[pointers + 2 * index : pointers + 2 * index + 2], "big")
            size, place = read_varint(page, place if is_leaf else place + 4)
            yield record(page[place : place + size])
        except (IndexError, ValueError):
            continue
