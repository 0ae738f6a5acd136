"""Staging: the output of a write's tasks, kept until the commit stores it.

Tasks run in parallel, perhaps on several machines, and may be retried, so none of them may write to the database. Each puts its
encoded documents into a part: inside the message that Spark carries to the commit if they are few, otherwise into a file in a
folder that all machines see. The commit reads the parts in their order, and removes the folder. A part that was cut off or
exchanged is refused as a whole.

    part  = page*                          page = length (4 bytes) crc (4 bytes) msgpack of [[key, ...], [document, ...]]

Rule of this file: bytes in, bytes out. It knows nothing of documents and tables.
"""

from __future__ import annotations

import io
import logging
import os
import re
import secrets
import shutil
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import msgpack
from pyspark.sql.datasource import WriterCommitMessage

from reactdb.errors import StorageError

logger = logging.getLogger("reactdb")

Page = tuple[list[bytes], list[bytes]]

HEAD = struct.Struct(">II")
MAKE_ATTEMPTS = 20

# Messages go through the driver's memory, where a thousand tasks with messages of this size need 256 MB.
INLINE_BYTES = 256 * 1024

# No job stages for a week, so a folder without changes for so long belongs to a driver that was killed.
FORGOTTEN_S = 7 * 86_400


@dataclass(frozen=True)
class Part(WriterCommitMessage):
    """The staged documents of one task.

    Attributes:
        documents, size_bytes: Their number and size.
        checksum: CRC-32 of the checksums of its pages.
        inline: The pages, or None if they are in the file `path`.
        folder: The folder of the job.
        query: Id of the task's streaming query; empty outside of one.
    """

    documents: int
    size_bytes: int
    checksum: int
    inline: bytes | None
    path: str
    folder: str
    query: str = ""


class PartWriter:
    """Takes a task's pages. Use it as a context manager: a task that fails leaves no file.

    Args:
        folder: The job's folder, for the file if one is needed. It is not created here: if it is missing, the job is over,
            and a task that still runs leaves nothing behind.
        name: The beginning of the file's name; each attempt of a task has a file of its own.
    """

    def __init__(self, folder: Path, name: str, *, inline_bytes: int = INLINE_BYTES) -> None:
        self._folder = folder
        self._path = folder / f"{name}-{secrets.token_hex(4)}.part"
        self._inline_bytes = inline_bytes
        self._pages: list[bytes] = []
        self._file: int | None = None
        self._documents = 0
        self._size_bytes = 0
        self._checksum = 0

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._close()
        if kind is not None:
            with suppress(FileNotFoundError):
                self._path.unlink()

    def add(self, keys: Sequence[bytes], bodies: Sequence[bytes]) -> None:
        """Stage documents, given as their keys and their bytes."""
        if not keys:
            return
        packed: bytes = msgpack.packb((list(keys), list(bodies)))
        checksum = crc32(packed)
        page = HEAD.pack(len(packed), checksum) + packed
        self._documents += len(keys)
        self._size_bytes += len(page)
        self._checksum = crc32(checksum.to_bytes(4, "big"), self._checksum)
        self._pages.append(page)
        if self._file is not None or self._size_bytes > self._inline_bytes:
            self._flush()

    def part(self, query: str = "") -> Part:
        """The staged documents as a message to the commit.

        Raises:
            StorageError: The last page could not be written.
        """
        inline = None if self._file is not None else b"".join(self._pages)
        self._close()
        path = "" if inline is not None else str(self._path)
        return Part(self._documents, self._size_bytes, self._checksum, inline, path, str(self._folder), query)

    def _flush(self) -> None:
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            data = memoryview(b"".join(self._pages))
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise StorageError(
                f"cannot stage documents in {self._folder}: {error.strerror}; it has to be a folder that every executor can "
                "write to (option stagingPath)"
            ) from error
        self._pages.clear()

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)


def pages(part: Part) -> Iterator[Page]:
    """The pages of a part, in staging order.

    Raises:
        StorageError: The file is missing, or differs from the task's output. The difference may be found only at the end, so the
            caller must use all of a part or nothing.
    """
    documents = size_bytes = checksum = 0
    with _open_part(part) as source:
        while head := source.read(HEAD.size):
            if len(head) < HEAD.size:
                size_bytes += len(head)
                break
            length, crc = HEAD.unpack(head)
            packed = source.read(length)
            if crc32(packed) != crc:
                break
            keys, bodies = msgpack.unpackb(packed)
            documents += len(keys)
            size_bytes += HEAD.size + length
            checksum = crc32(crc.to_bytes(4, "big"), checksum)
            yield keys, bodies
    if (documents, size_bytes, checksum) != (part.documents, part.size_bytes, part.checksum):
        where = part.path or "of a message"
        raise StorageError(f"the staged documents {where} differ from the task's output; nothing was written")


def _open_part(part: Part) -> BinaryIO:
    if part.inline is not None:
        return io.BytesIO(part.inline)
    try:
        return open(part.path, "rb")
    except OSError as error:
        raise StorageError(
            f"cannot read the staged documents {part.path}: {error.strerror}; the folder has to be one that the executors and "
            "the driver share (option stagingPath)"
        ) from error


# ---------------------------------------------------------------------------------------------------------------
# Folders


def staging_folder(path: str, parent: str | None = None) -> Path:
    """Where writes to the database `path` stage: a folder of their own beside the file, or in the folder `parent`.

    Its name begins with a dot, so that a search for databases skips it.
    """
    return Path(parent or Path(path).parent) / f".{Path(path).name}-staging"


def folder_name(text: str) -> str:
    """A readable folder name that no other text has."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[-40:]
    return f"{plain}-{crc32(text.encode()):08x}"


def make(folder: Path) -> None:
    """Create a job's folder, before its tasks begin.

    Raises:
        StorageError: It cannot be created.
    """
    try:
        for attempt in range(MAKE_ATTEMPTS):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                return
            except (FileNotFoundError, FileExistsError):
                # The last other job in that folder has removed it: either between our two steps, or after `mkdir` had found it
                # and before it checked that it is a folder.
                if attempt + 1 == MAKE_ATTEMPTS:
                    raise
    except OSError as error:
        raise StorageError(
            f"cannot make the folder {folder} to stage documents in: {error.strerror}; option stagingPath names another place"
        ) from error


def remove(folder: Path) -> None:
    """Remove a job's folder, forgotten folders beside it, and the staging folder if it is then empty.

    Never raises, because a commit stays valid even if a file cannot be removed.
    """
    above = folder.parent
    gone = above / f"gone-{secrets.token_hex(4)}"
    try:
        # The rename removes the folder in one step, so that a task that still runs cannot put a file into it.
        folder.rename(gone)
    except FileNotFoundError:
        pass
    except OSError as error:
        logger.warning("the staged files in %s cannot be removed: %s", folder, error.strerror)
    shutil.rmtree(gone, ignore_errors=True)
    with suppress(OSError):
        for other in above.iterdir():
            if time.time() - other.stat().st_mtime > FORGOTTEN_S:
                shutil.rmtree(other, ignore_errors=True)
        # It is not empty while another job is staging.
        above.rmdir()
