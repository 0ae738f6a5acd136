"""Staging: the output of a write's tasks, kept in files until the commit stores it.

Tasks run in parallel, perhaps on several machines, and may be retried, so none of them may write to the database. Each puts its
encoded documents into a file of a folder that all machines see. The commit reads the files in their order, and removes the
folder. A file that was cut off or exchanged is refused as a whole.

    file  = page*                          page = msgpack of [[key, ...], [document, ...]]

Rule of this file: bytes in, bytes out. It knows nothing of documents and tables.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import msgpack
from pyspark.sql.datasource import WriterCommitMessage

from reactdb.errors import StorageError

logger = logging.getLogger("reactdb")

Page = tuple[list[bytes], list[bytes]]

READ_BYTES = 1 << 20
# No job stages for a week, so a folder without changes for so long belongs to a driver that was killed.
FORGOTTEN_S = 7 * 86_400


@dataclass(frozen=True)
class Part(WriterCommitMessage):
    """The staged documents of one task.

    Attributes:
        path: The file; there is none if `size_bytes` is 0.
        size_bytes, checksum: The size and the CRC-32 of the file.
        query: Id of the task's streaming query; empty outside of one.
    """

    path: str
    size_bytes: int
    checksum: int
    query: str = ""

    @property
    def folder(self) -> Path:
        """The folder of the job."""
        return Path(self.path).parent


class PartWriter:
    """Takes a task's pages. Use it as a context manager: a task that fails leaves no file.

    Args:
        folder: The job's folder. It is not created here: if it is missing, the job is over, and a task that still runs leaves
            nothing behind.
    """

    def __init__(self, folder: Path) -> None:
        # Each attempt of a task has a file of its own.
        self._path = folder / f"{secrets.token_hex(8)}.part"
        self._file: int | None = None
        self._size_bytes = 0
        self._checksum = 0

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._file is not None:
            os.close(self._file)
            if kind is not None:
                with suppress(FileNotFoundError):
                    self._path.unlink()

    def add(self, keys: Sequence[bytes], bodies: Sequence[bytes]) -> None:
        """Stage documents, given as their keys and their bytes.

        Raises:
            StorageError: They could not be written.
        """
        if not keys:
            return
        page: bytes = msgpack.packb((list(keys), list(bodies)))
        self._size_bytes += len(page)
        self._checksum = crc32(page, self._checksum)
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            data = memoryview(page)
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise StorageError(
                f"cannot stage documents in {self._path.parent}: {error.strerror}; it has to be a folder that every executor can "
                "write to (option stagingPath)"
            ) from error

    def part(self, query: str = "") -> Part:
        """The staged documents as a message to the commit."""
        return Part(str(self._path), self._size_bytes, self._checksum, query)


def pages(part: Part) -> Iterator[Page]:
    """The pages of a part, in staging order.

    Raises:
        StorageError: The file is missing, or differs from the task's output. That is found before the first page.
    """
    if not part.size_bytes:
        return
    try:
        with open(part.path, "rb") as file:
            size_bytes = checksum = 0
            while data := file.read(READ_BYTES):
                size_bytes += len(data)
                checksum = crc32(data, checksum)
            if (size_bytes, checksum) != (part.size_bytes, part.checksum):
                raise StorageError(
                    f"the staged documents {part.path} differ from the task's output; nothing was written"
                )
            file.seek(0)
            yield from msgpack.Unpacker(file, max_buffer_size=size_bytes)
    except OSError as error:
        raise StorageError(
            f"cannot read the staged documents {part.path}: {error.strerror}; the folder has to be one that the executors and "
            "the driver share (option stagingPath)"
        ) from error


# ---------------------------------------------------------------------------------------------------------------
# Folders


def make_folder(path: str, parent: str | None = None, job: str = "") -> Path:
    """Create the folder of one job that writes to the database `path`: beside the file, or in the folder `parent`.

    Its name begins with a dot, so that a search for databases skips it.

    Args:
        job: Jobs with the same text have the same folder; without one, a job has a folder of its own.

    Raises:
        StorageError: It cannot be created.
    """
    name = f"{crc32(job.encode()):08x}" if job else secrets.token_hex(8)
    folder = Path(parent or Path(path).parent) / f".{Path(path).name}-staging-{name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot make the folder {folder} to stage documents in: {error.strerror}; option stagingPath names another place"
        ) from error
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a job's folder, and the forgotten folders of other jobs with the same database.

    Never raises, because a commit stays valid even if a file cannot be removed.
    """
    begin, _, _ = folder.name.rpartition("-")
    gone = folder.with_name(f"{begin}-{secrets.token_hex(8)}")
    try:
        # The rename removes the folder in one step, so that a task that still runs cannot put a file into it.
        folder.rename(gone)
    except FileNotFoundError:
        pass
    except OSError as error:
        logger.warning("the staged files in %s cannot be removed: %s", folder, error.strerror)
    shutil.rmtree(gone, ignore_errors=True)
    with suppress(OSError):
        for other in folder.parent.iterdir():
            if other.name.startswith(f"{begin}-") and time.time() - other.stat().st_mtime > FORGOTTEN_S:
                shutil.rmtree(other, ignore_errors=True)
