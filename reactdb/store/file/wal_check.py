"""A stray write-ahead log: one that lies beside a file and belongs to another.

SQLite cannot tell: a log says which pages it changed, and not of which file. Read with it, the file shows what is in the log;
opened to write, it would become a mixture of both, for good when it is closed. But each database has an id, and it is in the file
itself, beneath what the log lays over it. So each log says whose it is, too: the first commit of a process, and the first after
the log was begun anew, write the row with the id again (`schema.name_log`), so that its page is among the first of the log.

A log that names no database (one that was begun by a version of reactdb that did not do that) is judged as far as that goes: by
the id that is read through it.

Rule of this file: it looks, at the bytes of the log, and on connections that see the file without its log, and says what it saw.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from reactdb.errors import CorruptDatabase
from reactdb.store import schema
from reactdb.store.file import sqlite
from reactdb.store.file.sqlite import Connection, file_bytes
from reactdb.store.tools.pages import FRAME_HEADER, INDEX_INTERIOR, INDEX_LEAF, WAL_HEADER, record, varint

MAGIC = (0x377F0682, 0x377F0683)
# Of a log that names no database no more is looked through: 64 MiB, four times the size at which it is emptied.
MOST_BYTES = 64 * 1024 * 1024
NAME = b"database_id"


def check_log_is_own(path: str) -> str | None:
    """Called before a connection opens the file: the first that does may write the log into it. Gives the id in the log; None
    where it names no database.

    Raises:
        CorruptDatabase: The log says that it is another database's.
    """
    named = id_named(path + "-wal") if file_bytes(path + "-wal") else None
    own = None if named is None else _id_beneath(path)
    if named is not None and own is not None and own != named:
        raise _another(path, own, named)
    return named


def check_log_belongs(connection: Connection, path: str, named: str | None) -> None:
    """Called with a connection that sees the file as its log makes it, before anything is written; `named`: by the log, where
    it is known.

    Raises:
        CorruptDatabase: The log is another database's.
    """
    if not file_bytes(path + "-wal"):
        return
    # The id in the log is the file's, or the file had none yet: it was made just now, and all of it is in the log.
    own = named or id_named(path + "-wal") or _id_beneath(path)
    laid_over = schema.fact(connection, "database_id")
    if own is not None and laid_over != own:
        raise _another(path, own, laid_over)


def _another(path: str, own: str, other: object) -> CorruptDatabase:
    return CorruptDatabase(
        f"{path} is database {own}, but the write-ahead log beside it is of database {other}: one of the two was "
        "replaced without the other. Nothing was changed; put back what belongs together, or move the -wal away to have "
        "the file as it was last emptied into"
    )


def _id_beneath(path: str) -> str | None:
    """The database id in the file without its log; None where it has none yet, or cannot be read so."""
    # Immutable: the log is not looked at. What another process is writing there meanwhile may be seen in part, so whatever
    # does not come back as an id counts as none; an id itself never changes.
    file = sqlite.connect(path, mode="ro&immutable=1", busy_timeout_s=0)
    try:
        found = schema.fact(file, "database_id")
        return found if isinstance(found, str) and found else None
    except sqlite.READ_ERRORS:
        return None
    finally:
        file.close()


def id_named(log: str) -> str | None:
    """The database id in a write-ahead log: in the first of its pages that has one. None: it names no database.

    Of a frame it is asked only whether it is of this log, by its salts: not whether its commit was complete, because those of
    one log are of one database.
    """
    for page in _pages(log):
        # Only a page of an index, as the table of facts is one, can have the row; and documents may say what they like.
        if page[0] in (INDEX_LEAF, INDEX_INTERIOR) and NAME in page:
            for row in _rows(page):
                if len(row) == 2 and row[0] == NAME.decode() and isinstance(row[1], str):
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
            size, place = varint(page, place if is_leaf else place + 4)
            yield record(page[place : place + size])
        except (IndexError, ValueError):
            continue
