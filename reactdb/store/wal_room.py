"""Room for the write-ahead log: blocks that are there before a commit is written into them.

A flush of a grown file makes the file system also write down the places of new blocks. Into blocks that were written
before, a hard commit takes a fifth less CPU time and waits less for the disk. Hence a restarted log keeps its blocks
(`PRAGMA journal_size_limit`), and a log that grows for the first time gets zeros ahead of it, in steps. (Blocks that
are only reserved, `fallocate`, save a fortieth: the file system still writes down at each flush which of them hold
data.)

SQLite does not need a file that ends with its last frame: it knows the last frame, and in a log after a crash the
frames end where salts and checksums do. https://sqlite.org/fileformat2.html, section 4.

Rule of this file: it opens the log, on which SQLite has no locks, and never the database file, on which it has.
"""

from __future__ import annotations

import os

from reactdb.store.file.guard import header_of

# Up to this size a log grows by itself; then its size is doubled, and from 1 MiB on grows by 1 MiB each time.
FIRST_BYTES = 64 * 1024
MOST_BYTES = 1024 * 1024


def fill(path: str, have_bytes: int, want_bytes: int) -> None:
    """Write zeros behind the write-ahead log of the database at `path`. Called with the write lock held, so there is
    no other writer.

    Raises: OSError: There is no room, and the log is as it was.
    """
    log = os.open(path + "-wal", os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    try:
        done = os.lseek(log, have_bytes, os.SEEK_SET)
        try:
            while done < want_bytes:
                done += os.write(log, bytes(want_bytes - done))
        except OSError:
            # Other programs need the little room that was left.
            os.ftruncate(log, have_bytes)
            raise
    finally:
        os.close(log)


def read_generation(path: str) -> bytes:
    """The part of a write-ahead log's header that changes at each restart; empty where there is no log yet.

    Source: the same, section 4.1: checkpoint sequence number, salt-1, salt-2.
    """
    try:
        return header_of(path + "-wal")[12:24]
    except OSError:
        return b""
