"""Blobs: large values in pieces, and their references from log entries.

A blob is a row of `blobs` and its pieces, all of one size but the last. Many small transactions write the pieces.
Only the last transaction sets the digest, and only then the blob can be found; from then on it is whole and never
changes. So a row without a digest is being written, was left in the middle, or is being removed.

A log entry whose document holds blobs has a row in `blob_refs` for each. The rows are written and removed together
with the entry. `used` of a blob says that there is a reference. A blob without references is removed after a time,
because a document with it may be on its way:

    whole             once its newest `put` is GRACE_MS old
    being written     once nothing was added to it for GRACE_MS: its writer is dead, or asleep and will get an error

Rule of this file: it is called inside the caller's transaction. Every row that is read is compared with its checksum.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

from reactdb.errors import BlobNotFound, CorruptDatabase
from reactdb.store.checksums import values_checksum
from reactdb.store.clock import DAY_MS
from reactdb.store.file.sqlite import ADVICE, Connection
from reactdb.values.blob import Blob, blobs_in, digest_bytes

# A piece is read and verified as a whole. With 64 KiB each byte costs a tenth more; with 1 MiB a reader holds more
# memory.
PIECE_BYTES: Final = 256 * 1024
# Of a piece's number, the low bits count within its blob.
NUMBER_BITS: Final = 24
MAX_BLOB_BYTES: Final = PIECE_BYTES << NUMBER_BITS
GRACE_MS: Final = 3_600_000
# Pieces that one transaction removes: 8 MiB, some 10 ms of work.
MOST_PIECES: Final = 32
# Pieces of one blob in the page cache of a connection, which could hold 64 MiB of it: 8 MiB.
MOST_CACHED: Final = 32

COLUMNS: Final = "id, digest, size, piece_bytes, time, used, seal"
BY_DIGEST: Final = f"SELECT {COLUMNS} FROM blobs WHERE digest = ?"
BY_ID: Final = f"SELECT {COLUMNS} FROM blobs WHERE id = ?"
BEGIN: Final = "INSERT INTO blobs (size, piece_bytes, time, used, seal) VALUES (0, ?, ?, 0, 0)"
SET: Final = (
    "UPDATE blobs SET digest = ?2, size = ?3, piece_bytes = ?4, time = ?5, used = ?6, seal = ?7 WHERE id = ?1"
)
ADD_PIECE: Final = "INSERT INTO pieces (id, seal, bytes) VALUES (?, ?, ?)"
GET_PIECE: Final = "SELECT seal, bytes FROM pieces WHERE id = ?"
ADD_REFERENCE: Final = "INSERT OR IGNORE INTO blob_refs (seq, blob) VALUES (?, ?)"
IS_REFERRED: Final = "SELECT 1 FROM blob_refs WHERE blob = ? LIMIT 1"
UNUSED: Final = (
    f"SELECT {COLUMNS} FROM blobs WHERE used = 0 AND time < ?1 AND (digest IS NOT NULL OR time < ?2)"
    " AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob = blobs.id) ORDER BY time"
)
FROM_FUTURE: Final = f"SELECT {COLUMNS} FROM blobs WHERE used = 0 AND time > ?"


class StoredBlob(NamedTuple):
    """A row of `blobs`.

    Attributes:
        id: Its number in this file.
        digest: SHA-256 of the bytes; None where it is not whole.
        size: How many bytes there are; 0 where it never was whole.
        piece_bytes: How many bytes each piece has, but the last.
        time: When it was last put, or last got a piece, in milliseconds since 1970; 0 where it was given up.
        used: 1 where a log entry refers to it, else 0.
    """

    id: int
    digest: bytes | None
    size: int
    piece_bytes: int
    time: int
    used: int

    @property
    def blob(self) -> Blob:
        assert self.digest is not None
        return Blob(self.digest.hex(), self.size)

    @property
    def pieces(self) -> range:
        """The numbers of its pieces in `pieces`."""
        first = self.id << NUMBER_BITS
        return range(first, first - (-self.size // self.piece_bytes))


def _verify_row(row: Sequence[Any]) -> StoredBlob:
    *values, checksum = row
    if values_checksum(*values) != checksum:
        raise CorruptDatabase(
            f"blob {values[0]} does not match its checksum: it is not what was written. {ADVICE}"
        )
    return StoredBlob(*values)


def _keep(connection: Connection, stored: StoredBlob) -> None:
    connection.execute(SET, (*stored, values_checksum(*stored)))


def piece_checksum(number: int, data: bytes) -> int:
    """The checksum of a piece; `number`: in `pieces`."""
    return crc32(data, number & 0xFFFF_FFFF)


# -----------------------------------------------------------------------------------------------------------
# Reading


def find_blob(connection: Connection, digest: bytes) -> StoredBlob | None:
    """The blob of this digest; None where none is whole.

    Raises:
        CorruptDatabase: The row does not match its checksum.
    """
    row = connection.execute(BY_DIGEST, (digest,)).fetchone()
    return None if row is None else _verify_row(row)


def require_blob(connection: Connection, blob: Blob) -> StoredBlob:
    """
    Raises:
        BlobNotFound: The file does not have it.
        CorruptDatabase: The row does not match its checksum.
    """
    stored = find_blob(connection, digest_bytes(blob.digest))
    if stored is None:
        raise BlobNotFound(blob)
    if stored.size != blob.size:
        raise BlobNotFound(blob, f"has another size: in this database it has {stored.size} bytes")
    return stored


def read_piece(connection: Connection, stored: StoredBlob, number: int) -> bytes:
    """The bytes of a piece; `number`: from 0.

    Raises:
        BlobNotFound: The blob was removed since.
        CorruptDatabase: The piece does not match its checksum.
    """
    piece = stored.pieces[number]
    row = connection.execute(GET_PIECE, (piece,)).fetchone()
    if row is None:
        now = connection.execute(BY_ID, (stored.id,)).fetchone()
        if now is None or now[1] != stored.digest:
            raise BlobNotFound(stored.blob, "was removed while it was read: nothing referred to it any more")
        raise _damage_error(stored, number, "is missing")
    if number % MOST_CACHED == MOST_CACHED - 1:
        _release_pages(connection)
    checksum, data = row
    expected = min(stored.piece_bytes, stored.size - number * stored.piece_bytes)
    if not isinstance(data, bytes) or len(data) != expected or piece_checksum(piece, data) != checksum:
        raise _damage_error(stored, number, "does not match its checksum: it is not what was written")
    return data


def read_blob(connection: Connection, number: int) -> StoredBlob:
    """The blob of this number, whole or not, which is there.

    Raises:
        CorruptDatabase: The row does not match its checksum.
    """
    return _verify_row(connection.execute(BY_ID, (number,)).fetchone())


def check_pieces(connection: Connection, stored: StoredBlob) -> None:
    """Read all of a blob.

    Raises:
        CorruptDatabase: A piece does not match its checksum, or the whole does not match the digest.
    """
    from hashlib import sha256

    digest = sha256()
    for number in range(len(stored.pieces)):
        digest.update(read_piece(connection, stored, number))
    check_digest(stored, digest.digest())


def check_digest(stored: StoredBlob, digest: bytes) -> None:
    """
    Raises:
        CorruptDatabase: The content does not match the blob's digest.
    """
    if digest != stored.digest:
        raise CorruptDatabase(
            f"blob {stored.blob} does not match its digest: it is not what was written. {ADVICE}"
        )


def _release_pages(connection: Connection) -> None:
    """Give back the memory of read pages, and of the pages that earlier transactions have written."""
    connection.execute("PRAGMA shrink_memory")


def _damage_error(stored: StoredBlob, number: int, trouble: str) -> CorruptDatabase:
    return CorruptDatabase(f"blob {stored.blob}: piece {number} {trouble}. {ADVICE}")


def blob_totals(connection: Connection) -> tuple[int, int]:
    """How many blobs are whole, and how many bytes they have together."""
    count, size = connection.execute(
        "SELECT count(*), total(size) FROM blobs WHERE digest IS NOT NULL"
    ).fetchone()
    return int(count), int(size)


def list_whole_blobs(connection: Connection, after: bytes, most: int) -> list[Blob]:
    """The blobs in the order of their digests, after this digest."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM blobs WHERE digest > ? ORDER BY digest LIMIT ?", (after, most)
    )
    return [_verify_row(row).blob for row in rows.fetchall()]


# -----------------------------------------------------------------------------------------------------------
# Writing


def begin_blob(connection: Connection, time: int) -> int:
    """Make a blob without pieces, which no search finds yet. Returns: its number.

    Args:
        time: Now, in milliseconds since 1970. So below.
    """
    number = int(connection.execute(BEGIN, (PIECE_BYTES, time)).lastrowid or 0)
    _keep(connection, StoredBlob(number, None, 0, PIECE_BYTES, time, 0))
    return number


def add_pieces(connection: Connection, blob: int, first: int, pieces: Iterable[bytes], time: int) -> None:
    """Add pieces, from the number `first` on, to an unfinished blob.

    Raises:
        BlobNotFound: Nothing was added to it for so long that it was removed.
    """
    unfinished = _require_unfinished(connection, blob)
    start = (blob << NUMBER_BITS) + first
    rows = [(number, piece_checksum(number, data), data) for number, data in enumerate(pieces, start)]
    connection.executemany(ADD_PIECE, rows)
    _keep(connection, unfinished._replace(time=time))
    if first // MOST_CACHED != (first + len(rows)) // MOST_CACHED:
        _release_pages(connection)


def finish_blob(connection: Connection, blob: int, digest: bytes, size: int, time: int) -> bool:
    """Set the digest of a blob after its last piece.

    Returns:
        False where the file has a blob of this digest already. Then the new one is left for `remove_pieces`.
    """
    unfinished = _require_unfinished(connection, blob)
    if renew_blob(connection, digest, time):
        _keep(connection, unfinished._replace(time=0))
        return False
    _keep(connection, unfinished._replace(digest=digest, size=size, time=time))
    return True


def _require_unfinished(connection: Connection, blob: int) -> StoredBlob:
    row = connection.execute(BY_ID, (blob,)).fetchone()
    unfinished = None if row is None else _verify_row(row)
    if unfinished is None or unfinished.digest is not None or not unfinished.time:
        raise BlobNotFound(
            f"number {blob}",
            "got no bytes for so long that compaction removed its first pieces: put it again",
        )
    return unfinished


def renew_blob(connection: Connection, digest: bytes, time: int) -> bool:
    """Whether the file has this blob. If so, it was put again now."""
    stored = find_blob(connection, digest)
    if stored is None:
        return False
    _keep(connection, stored._replace(time=max(time, stored.time)))
    return True


# -----------------------------------------------------------------------------------------------------------
# References


def check_blobs(connection: Connection, body: bytes) -> None:
    """
    Raises:
        BlobNotFound: A document to be written holds a blob that the file does not have.
    """
    for blob in blobs_in(body):
        require_blob(connection, blob)


def add_references(connection: Connection, entries: Iterable[tuple[int, bytes | None]]) -> None:
    """Write the references of log entries, given their seqs and documents."""
    for seq, body in entries:
        for blob in () if body is None else blobs_in(body):
            stored = require_blob(connection, blob)
            connection.execute(ADD_REFERENCE, (seq, stored.id))
            if not stored.used:
                _keep(connection, stored._replace(used=1))


def drop_references(connection: Connection, seqs: str, parameters: Sequence[Any]) -> None:
    """Remove the references of log entries that are about to be removed. `seqs`: a statement that selects the
    entries."""
    if connection.execute("SELECT 1 FROM blob_refs LIMIT 1").fetchone() is None:
        return
    where = f"FROM blob_refs WHERE seq IN ({seqs})"
    dropped = connection.execute(f"SELECT DISTINCT blob {where}", parameters).fetchall()
    connection.execute(f"DELETE {where}", parameters)
    for (blob,) in dropped:
        if connection.execute(IS_REFERRED, (blob,)).fetchone() is None:
            row = connection.execute(BY_ID, (blob,)).fetchone()
            if row is not None:
                _keep(connection, _verify_row(row)._replace(used=0))


# -----------------------------------------------------------------------------------------------------------
# Removal


class BlobsInUse:
    """The numbers of the blobs that this process has open to read: they are not removed by it."""

    def __init__(self) -> None:
        # Re-entrant: the garbage collector closes an unreferenced file, in any line.
        self._lock = threading.RLock()
        self._count: dict[int, int] = {}

    def add(self, blob: int) -> None:
        with self._lock:
            self._count[blob] = self._count.get(blob, 0) + 1

    def discard(self, blob: int) -> None:
        with self._lock:
            left = self._count.pop(blob) - 1
            if left:
                self._count[blob] = left

    def numbers(self) -> set[int]:
        with self._lock:
            return set(self._count)


class RemovedBlobs(NamedTuple):
    """How many whole blobs a step has removed, and whether there is more to remove."""

    blobs: int
    has_more: bool


def remove_unused(
    connection: Connection,
    now: int,
    *,
    unused_ms: int = GRACE_MS,
    held: Collection[int] = (),
) -> RemovedBlobs:
    """Remove blobs without references, and unfinished ones, by at most `MOST_PIECES` pieces.

    Args:
        now: In milliseconds since 1970.
        unused_ms: The least time since whole blobs were put. For unfinished ones it is GRACE_MS, or this if it is
            more.
        held: Numbers of the blobs that are being read.
    """
    count, most = 0, MOST_PIECES
    # The machine's clock was ahead when they were put. From now on they grow old.
    for row in connection.execute(FROM_FUTURE, (now + DAY_MS,)).fetchall():
        _keep(connection, _verify_row(row)._replace(time=now))
    bounds = (now - unused_ms + 1, now - max(unused_ms, GRACE_MS) + 1)
    for row in connection.execute(f"{UNUSED} LIMIT ?3", (*bounds, len(held) + most)).fetchall():
        stored = _verify_row(row)
        if stored.id in held:
            continue
        if most <= 0:
            return RemovedBlobs(count, True)
        if stored.digest is not None:
            # Before the first piece is removed: from here on no search finds the blob.
            count += 1
            _keep(connection, stored._replace(digest=None, time=0))
        most -= remove_pieces(connection, stored.id, most)
    return RemovedBlobs(count, most <= 0)


def has_unused(connection: Connection, now: int) -> bool:
    """Whether `remove_unused` may find something to remove."""
    unused = (
        "SELECT 1 FROM blobs WHERE used = 0 AND time <= ?1"
        " UNION ALL SELECT 1 FROM blobs WHERE used = 0 AND time > ?2 LIMIT 1"
    )
    return connection.execute(unused, (now - GRACE_MS, now + DAY_MS)).fetchone() is not None


def remove_pieces(connection: Connection, blob: int, most: int = MOST_PIECES) -> int:
    """Remove at most `most` pieces of an abandoned blob; with the last piece, the blob.

    Returns:
        The number of removed pieces, and one for the blob.
    """
    first, end = blob << NUMBER_BITS, (blob + 1) << NUMBER_BITS
    rows = connection.execute(
        "SELECT id FROM pieces WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", (first, end, most)
    ).fetchall()
    if rows:
        connection.execute("DELETE FROM pieces WHERE id >= ? AND id <= ?", (first, rows[-1][0]))
    if len(rows) == most:
        _release_pages(connection)
        return most
    connection.execute("DELETE FROM blobs WHERE id = ?", (blob,))
    return len(rows) + 1


def give_up_blob(connection: Connection, blob: int) -> bool:
    """Abandon an unfinished blob: its writer has stopped. Returns: whether the blob exists and is not whole, so that
    its pieces can be removed."""
    row = connection.execute(BY_ID, (blob,)).fetchone()
    if row is None or row[1] is not None:
        return False
    _keep(connection, _verify_row(row)._replace(time=0))
    return True
