"""Room for the write-ahead log: blocks that are there before a commit is written into them.

A flush of a file that has grown makes the file system write down, too, where the new blocks are. Into blocks that were written
before, a hard commit takes a fifth less CPU time and waits less for the disk. Hence a log that begins anew keeps its blocks
(`PRAGMA journal_size_limit`), and one that grows for the first time gets zeros ahead of it, in steps. (Blocks that are only set
aside, `fallocate`, save a fortieth: which of them hold data is written down at each flush all the same.)

SQLite needs no file that ends with its last frame: it knows which that is, and in a log that a crash has left behind frames end
where salts and checksums do. https://sqlite.org/fileformat2.html, section 4.

Rule of this file: it opens the log, on which SQLite has no locks, and never the database file, on which it has.
"""

from __future__ import annotations

import os

from reactdb.store.file.guard import header_of

# A log of up to this size is let grow by itself; then it is doubled, and from 1 MiB on gets one more each time.
FIRST_BYTES = 64 * 1024
MOST_BYTES = 1024 * 1024


def fill(path: str, have_bytes: int, want_bytes: int) -> None:
    """Write zeros behind the write-ahead log of the database at `path`. Called with the write lock held: nobody else writes.

    Raises: OSError: There is no room, and the log is as it was.
    """
    log = os.open(path + "-wal", os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    try:
        done = os.lseek(log, have_bytes, os.SEEK_SET)
        try:
            while done < want_bytes:
                done += os.write(log, bytes(want_bytes - done))
        except OSError:
            # Others need what little there was.
            os.ftruncate(log, have_bytes)
            raise
    finally:
        os.close(log)


def generation(path: str) -> bytes:
    """What a write-ahead log changes in its header whenever it begins anew; empty where there is none yet.

    Source: the same, section 4.1: checkpoint sequence number, salt-1, salt-2.
    """
    try:
        return header_of(path + "-wal")[12:24]
    except OSError:
        return b""
