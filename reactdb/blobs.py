"""Blobs: `db.blobs`, the large values of a file, and the file objects that read them.

    blob = db.blobs.put(source)              writes its bytes into the file, piece by piece; returns a Blob, their name
    notes.insert({"id": 1, "scan": blob})    a document holds the name
    with db.blobs.open(blob) as file:        a file object over the bytes; it reads a piece at a time

A large `put` does not hold up other writers: its pieces are many small commits. The blob cannot be seen before the
last of them, and an interrupted one leaves nothing but pieces that compaction removes. `reactdb/store/blobs.py` says
when.

Thread safety: `Blobs` from any thread; a file object belongs to one thread at a time, as any other.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from reactdb.errors import (
    BlobNotFound,
    InvalidOption,
    ReactDBError,
    ResourceLimit,
    describe_type,
    format_value,
)
from reactdb.session import Session
from reactdb.store.blobs import (
    MAX_BLOB_BYTES,
    MOST_PIECES,
    PIECE_BYTES,
    RemovedBlobs,
    StoredBlob,
    add_pieces,
    begin_blob,
    blob_totals,
    check_digest,
    find_blob,
    finish_blob,
    give_up_blob,
    list_whole_blobs,
    read_piece,
    remove_pieces,
    remove_unused,
    renew_blob,
    require_blob,
)
from reactdb.store.file.sqlite import Connection
from reactdb.values.blob import Blob, digest_bytes

if TYPE_CHECKING:
    from typing import BinaryIO

    from reactdb.store.snapshot import Snapshot
    from reactdb.store.transaction import WriteTransaction

T = TypeVar("T")

# Pieces of one commit: 1 MiB, which takes some 2 ms. Other writers wait for that long.
PIECES_A_COMMIT: Final = 4
# Blobs whose names are read at once.
PAGE: Final = 256


class Blobs:
    """`db.blobs`. See the head of this file."""

    def __init__(self, session: Session) -> None:
        self._session = session

    # -----------------------------------------------------------------------------------------------------------
    # Writing

    def put(self, source: Any, *, durability: str | None = None) -> Blob:
        """Write a large value, and return its name, for use in documents. A value that the file has already is not
        stored again.

        Compaction removes it when no document, present or past, has referred to it and an hour has passed since it
        was put. Inside a transaction of this thread, it is part of that one, which then is as large as the value.

        Args:
            source: bytes, bytearray or memoryview; a binary file object, read from its position to its end; or an
                iterable of such bytes.
            durability: "hard" or "soft", of the last commit; None: the handle's. The pieces before it are written as "soft".

        Raises:
            InvalidOption: The source gives something else than bytes.
            ResourceLimit: It has more than 4 TiB.
            BlobNotFound: The source returned nothing for an hour, and compaction has removed the first pieces.
            ReadOnlyDatabase, DatabaseClosed, DatabaseBusy, DiskFull, StorageError; and all errors of the source. The
            written pieces are removed, now or by compaction.
        """
        # Imported here because most programs have no large values.
        from hashlib import sha256

        self._session.check_open()
        self._session.engine.writable()
        digest = sha256()
        size = 0
        unfinished = _Unfinished(self._session)
        try:
            batch: list[bytes] = []
            for piece in pieces_of(source):
                digest.update(piece)
                size += len(piece)
                if size > MAX_BLOB_BYTES:
                    raise ResourceLimit(f"A blob has at most {MAX_BLOB_BYTES:,} bytes.")
                batch.append(piece)
                if len(batch) > PIECES_A_COMMIT:
                    unfinished.add(batch[:PIECES_A_COMMIT])
                    del batch[:PIECES_A_COMMIT]
            unfinished.finish(batch, digest.digest(), size, durability)
        except BaseException:
            unfinished.give_up()
            raise
        return Blob(digest.hexdigest(), size)

    def remove_unused(self, older_than: timedelta = timedelta(hours=1)) -> int:
        """Remove the blobs to which no document, present or past, refers, in small steps beside other writers.
        Compaction does the same, with the default. A blob that is open in this process stays.

        Args:
            older_than: The least time since they were put. Unfinished ones have an hour since their newest piece in
                any case.

        Returns:
            The number of removed blobs. The rests of interrupted writes are removed, too, and not counted.
        """
        if not isinstance(older_than, timedelta) or older_than < timedelta():
            raise InvalidOption(f"older_than is a timedelta, not below zero, not {format_value(older_than)}")
        unused_ms = older_than // timedelta(milliseconds=1)
        engine = self._session.engine
        count, has_more = 0, True

        def one(connection: Connection, now: int) -> RemovedBlobs:
            return remove_unused(connection, now, unused_ms=unused_ms, held=engine.held_blobs())

        while has_more:
            removed = write_rows(self._session, one, None, "blobs.remove_unused")
            count += removed.blobs
            has_more = removed.has_more
        return count

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def open(self, blob: Blob | str) -> BinaryIO:
        """A file object over the bytes of a blob: it reads, seeks and tells, and is closed like any other. Each read
        is verified.

        It holds neither the file nor the bytes: it reads a piece of 256 KiB at a time, by short reads. While it is open, this
        process does not remove the blob.

        Args:
            blob: The Blob, or its digest.

        Raises:
            BlobNotFound: It is not in this database. Reads raise it, too, after another process has removed the blob.
            InvalidOption: It is neither a Blob nor a digest. Reads raise CorruptDatabase where a piece does not match
            its checksum, and DatabaseClosed.
        """
        return cast(
            "BinaryIO", io.BufferedReader(BlobFile(self._session, self._require_blob(blob)), PIECE_BYTES)
        )

    def read(self, blob: Blob | str) -> bytes:
        """All bytes of a blob, verified by its digest. Arguments and errors as for `open`."""
        from hashlib import sha256

        stored = self._require_blob(blob)
        with io.BufferedReader(BlobFile(self._session, stored), PIECE_BYTES) as file:
            content = file.read()
        check_digest(stored, sha256(content).digest())
        return content

    def get(self, digest: str) -> Blob | None:
        """The blob of this digest, with its size; None where this database has none.

        Args:
            digest: SHA-256, as 64 lower-case hexadecimal digits.
        """
        stored = self._find(digest)
        return None if stored is None else stored.blob

    def __contains__(self, blob: object) -> bool:
        """Whether the bytes of a Blob, or of a digest, are in this database."""
        if isinstance(blob, Blob):
            return self.get(blob.digest) == blob
        return self._find(blob) is not None

    def __iter__(self) -> Iterator[Blob]:
        """All blobs, by digest. Blobs that are put or removed during the iteration may be among them, or not."""
        after = b""
        while True:
            with self._open_read() as snapshot:
                page = list_whole_blobs(snapshot.connection, after, PAGE)
            yield from page
            if len(page) < PAGE:
                return
            after = bytes.fromhex(page[-1].digest)

    def totals(self) -> tuple[int, int]:
        """How many blobs there are, and how many bytes they have together."""
        with self._open_read() as snapshot:
            return blob_totals(snapshot.connection)

    def _find(self, digest: object) -> StoredBlob | None:
        name = digest_bytes(digest)
        with self._open_read() as snapshot:
            return find_blob(snapshot.connection, name)

    def _require_blob(self, blob: Blob | str) -> StoredBlob:
        if isinstance(blob, Blob):
            with self._open_read() as snapshot:
                return require_blob(snapshot.connection, blob)
        stored = self._find(blob)
        if stored is None:
            raise BlobNotFound(f"sha256:{blob}")
        return stored

    def _open_read(self) -> AbstractContextManager[Snapshot]:
        return self._session.read_rows()


# ---------------------------------------------------------------------------------------------------------------
# Writing


def pieces_of(source: object) -> Iterator[bytes]:
    """The bytes of a source in pieces of PIECE_BYTES, the last of which may be smaller.

    Raises:
        InvalidOption: It is no source.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        # A copy of each piece: the caller may change the bytes.
        with memoryview(source) as view, view.cast("B") as flat:
            for start in range(0, len(flat), PIECE_BYTES):
                yield bytes(flat[start : start + PIECE_BYTES])
        return
    waiting: list[bytes] = []
    size = 0
    for given in _parts_of(source):
        if not isinstance(given, (bytes, bytearray, memoryview)):
            raise InvalidOption(
                f"a blob is made of bytes, and its source gave a value {describe_type(given)}"
            )
        part = bytes(given)
        waiting.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            whole = b"".join(waiting)
            end = size - size % PIECE_BYTES
            for start in range(0, end, PIECE_BYTES):
                yield whole[start : start + PIECE_BYTES]
            waiting = [whole[end:]]
            size -= end
    if size:
        yield b"".join(waiting)


def _parts_of(source: object) -> Iterable[Any]:
    read = getattr(source, "read", None)
    if callable(read):
        # Not `iter(source)`: it would give lines.
        return iter(lambda: _read_from(read), b"")
    if isinstance(source, str) or not isinstance(source, Iterable):
        raise InvalidOption(
            f"a blob is bytes, a binary file or an iterable of bytes, not a value {describe_type(source)}"
        )
    return source


def _read_from(read: Callable[[int], Any]) -> Any:
    data = read(PIECE_BYTES)
    if data is None:
        raise InvalidOption("the source of a blob has nothing to read at the moment: make it one that waits")
    return data or b"" if isinstance(data, (bytes, bytearray)) else data


class _Unfinished:
    """A blob while `put` writes it: in this thread's transaction, or as commits of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._blob: int | None = None
        self._count = 0

    def add(self, pieces: list[bytes]) -> None:
        """Write some pieces."""

        def one(connection: Connection, now: int) -> int:
            blob = begin_blob(connection, now) if self._blob is None else self._blob
            add_pieces(connection, blob, self._count, pieces, now)
            return blob

        # Not before it is committed: a number that was rolled back is used again by another blob.
        self._blob = write_rows(self._session, one, "soft", "blobs.put")
        self._count += len(pieces)

    def finish(self, pieces: list[bytes], digest: bytes, size: int, durability: str | None) -> None:
        """Write the last pieces, and let the blob be found."""

        def one(connection: Connection, now: int) -> bool:
            blob = self._blob
            if blob is None:
                # All of it is known here, so a known blob need not be written.
                if renew_blob(connection, digest, now):
                    return True
                blob = begin_blob(connection, now)
            add_pieces(connection, blob, self._count, pieces, now)
            return finish_blob(connection, blob, digest, size, now)

        if not write_rows(self._session, one, durability, "blobs.put"):
            self._remove()

    def give_up(self) -> None:
        """Remove the written pieces, if that is possible; else compaction does it."""
        blob = self._blob
        if blob is None:
            return
        with suppress(ReactDBError):
            if write_rows(self._session, lambda rows, _: give_up_blob(rows, blob), "soft", "blobs.put"):
                self._remove()

    def _remove(self) -> None:
        blob = self._blob
        assert blob is not None
        left = MOST_PIECES
        while left == MOST_PIECES:
            left = write_rows(self._session, lambda rows, _: remove_pieces(rows, blob), "soft", "blobs.put")


def write_rows(
    session: Session, work: Callable[[Connection, int], T], durability: str | None, operation: str
) -> T:
    """Write rows that are no documents to the file, as a commit, or as a part of this thread's transaction.

    Args:
        work: Called with the connection, and the time in milliseconds since 1970.
    """

    def one(transaction: WriteTransaction) -> T:
        transaction.secure()
        transaction.has_other_rows = True
        return work(transaction.connection, transaction.time)

    return session.transact(one, durability=durability, operation=operation)


# ---------------------------------------------------------------------------------------------------------------
# Reading


class BlobFile(io.RawIOBase):
    """The bytes of a blob as a read-only file. It keeps the last piece in memory.

    Attributes:
        blob: Its name.
    """

    def __init__(self, session: Session, stored: StoredBlob) -> None:
        super().__init__()
        self.blob = stored.blob
        self._session = session
        self._require_blob = stored
        self._position = 0
        self._number = -1
        self._piece = b""
        self._in_use = session.engine.blobs_in_use
        self._in_use.add(stored.id)

    def __repr__(self) -> str:
        return f"<BlobFile {self.blob}>"

    def close(self) -> None:
        if not self.closed:
            self._in_use.discard(self._require_blob.id)
        super().close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check_open()
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._require_blob.size}.get(
            whence
        )
        if start is None:
            raise ValueError(f"whence is 0, 1 or 2, not {format_value(whence)}")
        if start + offset < 0:
            raise ValueError(f"position {start + offset} is before the beginning")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, or less: never past the end of a piece."""
        self._check_open()
        stored = self._require_blob
        if self._position >= stored.size:
            return 0
        number, start = divmod(self._position, stored.piece_bytes)
        if number != self._number:
            self._session.check_open()
            with self._session.read_rows() as snapshot:
                self._piece = read_piece(snapshot.connection, stored, number)
            self._number = number
        with memoryview(buffer) as view, view.cast("B") as flat:
            part = self._piece[start : start + len(flat)]
            flat[: len(part)] = part
        self._position += len(part)
        return len(part)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the blob's file is closed")
