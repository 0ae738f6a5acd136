"""A folder of Parquet that grows, or is replaced, by whole parts: each is there once or not at all.

A part is written beside the others under a name that no reader looks at, `_staging-...`. With it goes a manifest that says what
is in it and up to where each database has been read, `_reactdb.json`. Then everything is flushed and the folder gets its name:

    changes/
      _lock                       locked by the process that writes; the system releases it when that process ends
      _staging-5f0c.../           unfinished or left behind by a crash; removed by the next writer
      increment=000001/           a part: Parquet files, and
        part-00000-....parquet
        _reactdb.json             its manifest

That rename is the only step that counts. Before it nothing has happened, after it the part and the new positions are there
together: there is no moment at which one of the two is. Numbers are given in order, and a rename never takes a name that a
part has already, so of two writers at the same time (where no lock reaches both) only one succeeds.

Rule of this file: files and folders only. No Spark, no database; the file system must rename folders atomically, as local disks
and network mounts do and object stores do not.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from reactdb.errors import DatabaseBusy, StorageError, UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

MANIFEST: Final = "_reactdb.json"
STAGING: Final = "_staging-"
LOCK: Final = "_lock"
FORMAT: Final = 1
# Appended parts are a partition column to readers; replaced ones are hidden from readers of the whole folder.
INCREMENT: Final = "increment="
GENERATION: Final = "_generation-"
LATEST: Final = "latest"


@dataclass(frozen=True, slots=True)
class Position:
    """How far one database has been read.

    Attributes:
        path: The file, when it was read.
        epoch: The stretch of its history in which `seq` is; what the file no longer has is refused.
        seq: Of the newest change that was read.
        tables: Of each table that was there: the seq after which it was made. Older changes under its name are of another.
    """

    path: str
    epoch: str
    seq: int
    tables: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Extent:
    """What of one database is in one part: the changes with since < seq <= until."""

    database: str
    path: str
    epoch: str
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a part says of itself.

    Attributes:
        kind: What the folder is for, as `changes`; another pipeline refuses it.
        number: From 1.
        rows: In its Parquet files.
        settings: With what it was made, such as the table; a later part must have the same.
        schema: Of the rows, as Spark writes schemas in JSON.
        extents: What this part has read.
        positions: Where every database is now, by database id, those of earlier parts too.
    """

    kind: str
    number: int
    rows: int
    settings: dict[str, Any]
    schema: dict[str, Any]
    extents: list[Extent]
    positions: dict[str, Position]


class PartFolder:
    """One such folder.

    Args:
        path: Of the folder; made when the first part is committed.
        kind: Of its parts.
        prefix: `INCREMENT` for parts that add up, `GENERATION` for parts of which only the newest counts.

    Thread safety: none; `writing` keeps other processes and threads out.
    """

    def __init__(self, path: str, kind: str, prefix: str = INCREMENT) -> None:
        self.path = os.path.abspath(path)
        self.kind = kind
        self._prefix = prefix
        self._name = re.compile(re.escape(prefix) + r"(\d{6,})")

    def numbers(self) -> list[int]:
        """The numbers of the parts that are there, in order."""
        try:
            names = os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(found[1]) for name in names if (found := self._name.fullmatch(name)))

    def folder_of(self, number: int) -> str:
        return os.path.join(self.path, f"{self._prefix}{number:06}")

    def manifest(self, number: int) -> Manifest:
        """What part `number` says of itself.

        Raises:
            StorageError: It is not readable, or of a newer reactdb.
        """
        name = os.path.join(self.folder_of(number), MANIFEST)
        try:
            with open(name, encoding="utf-8") as file:
                return _read(json.load(file))
        except (ValueError, TypeError, KeyError, AttributeError, FileNotFoundError) as error:
            raise StorageError(f"{name} is no manifest of this reactdb: {error}") from error

    def newest(self) -> Manifest | None:
        """The manifest of the last part, which has all positions; None where there is none yet.

        Raises:
            UsageError: The folder holds something else.
            StorageError: As `manifest`.
        """
        numbers = self.numbers()
        if not numbers:
            self._refuse_foreign()
            return None
        manifest = self.manifest(numbers[-1])
        if manifest.kind != self.kind:
            raise UsageError(f"{self.path} holds {manifest.kind}, not {self.kind}")
        return manifest

    def _refuse_foreign(self) -> None:
        """What this class did not make stays as it is."""
        if os.path.isdir(self.path):
            for name in sorted(os.listdir(self.path)):
                if name != LOCK and not name.startswith(STAGING):
                    raise UsageError(
                        f"{self.path} has {name!r} in it, which is no {self.kind} of reactdb's: choose another folder"
                    )
        elif os.path.lexists(self.path):
            raise UsageError(f"{self.path} is no folder")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only writer of the folder, and remove what a crash has left.

        Raises:
            DatabaseBusy: Another process is writing to it.
            UsageError: As `newest`; nothing was made then.
        """
        self.newest()
        os.makedirs(self.path, exist_ok=True)
        lock = os.open(os.path.join(self.path, LOCK), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if fcntl is not None:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise DatabaseBusy(f"another run is writing to {self.path}") from None
                # Safe under the lock only: no other run can be staging now.
                for name in os.listdir(self.path):
                    if name.startswith(STAGING):
                        shutil.rmtree(os.path.join(self.path, name))
            yield
        finally:
            os.close(lock)

    @contextmanager
    def staged(self) -> Iterator[str]:
        """The path of a folder that does not exist yet, to be written and committed; what is left of it at the end goes."""
        path = os.path.join(self.path, STAGING + uuid.uuid4().hex)
        try:
            yield path
        finally:
            with suppress(FileNotFoundError):
                shutil.rmtree(path)

    def commit(self, staged: str, manifest: Manifest) -> str:
        """Make a staged folder the part of its manifest's number, and give its path.

        Raises:
            DatabaseBusy: Another has made a part of that number meanwhile; this one has not happened.
        """
        _write_manifest(staged, manifest)
        # Without it a power cut could leave the name and lose what is in it.
        flush_tree(staged)
        target = self.folder_of(manifest.number)
        try:
            os.rename(staged, target)
        except OSError as error:
            if os.path.lexists(target):
                raise DatabaseBusy(
                    f"another run has written {target} meanwhile; run it again to go on from there"
                ) from error
            raise
        flush(self.path)
        return target

    # -----------------------------------------------------------------------------------------------------------
    # Of folders whose newest part is all that counts

    def point_to_newest(self) -> str:
        """Let `latest` lead to the newest part and remove those before the last two; gives what to read.

        A reader that is still at the part before finishes in peace. Where the system has no symbolic links, the part's own path.
        """
        numbers = self.numbers()
        newest = self.folder_of(numbers[-1])
        latest = os.path.join(self.path, LATEST)
        name = os.path.basename(newest)
        try:
            if not (os.path.islink(latest) and os.readlink(latest) == name):
                link = os.path.join(self.path, STAGING + uuid.uuid4().hex[:8])
                os.mkdir(link)
                os.symlink(name, os.path.join(link, LATEST))
                os.replace(os.path.join(link, LATEST), latest)
                os.rmdir(link)
                flush(self.path)
        except (OSError, NotImplementedError):
            if os.path.lexists(latest):
                raise
            latest = newest
        for number in numbers[:-2]:
            shutil.rmtree(self.folder_of(number))
        return latest


@contextmanager
def whole_folder(target: str, overwrite: bool) -> Iterator[tuple[str, Callable[[Manifest], None]]]:
    """A folder that is written once: where to write, and what gives it its name when it is complete.

    One that is replaced is away for the moment between two renames; a run that is killed just then leaves the new one beside it,
    under a name that begins with a dot, and the next run writes it again.

    Raises:
        UsageError: It exists, and is not to be overwritten, or holds what was not written by this.
    """
    path = os.path.abspath(target)
    refuse_taken(path, overwrite)
    parent, name = os.path.split(path)
    os.makedirs(parent, exist_ok=True)
    staged = os.path.join(parent, f".{name}{STAGING}{uuid.uuid4().hex}")

    def commit(manifest: Manifest) -> None:
        _write_manifest(staged, manifest)
        flush_tree(staged)
        refuse_taken(path, overwrite)
        old = f"{staged}-old"
        if os.path.lexists(path):
            os.rename(path, old)
        os.rename(staged, path)
        flush(parent)
        shutil.rmtree(old, ignore_errors=True)

    try:
        yield staged, commit
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def refuse_taken(path: str, overwrite: bool) -> None:
    """What is there stays, unless it was written by `whole_folder` and is to be overwritten.

    Raises:
        UsageError.
    """
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise UsageError(f"{path} exists: choose another folder, or say that it is to be overwritten")
    if not os.path.isdir(path) or (os.listdir(path) and not os.path.isfile(os.path.join(path, MANIFEST))):
        raise UsageError(f"{path} was not written by reactdb and is left alone: choose another folder")


def parquet_rows(folder: str) -> int:
    """The rows of the Parquet files in a folder, by their own account: so all of them can be read.

    Raises:
        StorageError: There is none, which is so where executors write to another disk than this one.
    """
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    count = 0
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".parquet")]
        for name in names:
            with ParquetFile(os.path.join(folder, name)) as file:
                count += file.metadata.num_rows
    except (OSError, ArrowException) as error:
        raise StorageError(f"what was written to {folder} cannot be read: {error}") from error
    if not names:
        raise StorageError(
            f"no Parquet file has come to {folder}: the executors must see the target under the path that the driver does"
        )
    return count


def _write_manifest(folder: str, manifest: Manifest) -> None:
    with open(os.path.join(folder, MANIFEST), "w", encoding="utf-8") as file:
        json.dump({"format": FORMAT, **asdict(manifest)}, file, indent=1)


def _read(found: Mapping[str, Any]) -> Manifest:
    if found["format"] != FORMAT:
        raise ValueError(f"it has format {found['format']}, and this one reads {FORMAT}")
    return Manifest(
        kind=found["kind"],
        number=int(found["number"]),
        rows=int(found["rows"]),
        settings=dict(found["settings"]),
        schema=dict(found["schema"]),
        extents=[Extent(**extent) for extent in found["extents"]],
        positions={database: Position(**position) for database, position in found["positions"].items()},
    )


def flush(path: str) -> None:
    """Have a file, or the names in a folder, on the disk."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        # Windows opens no folders, and keeps its names without being asked.
        if os.path.isdir(path):
            return
        raise
    try:
        os.fsync(file)
    finally:
        os.close(file)


def flush_tree(path: str) -> None:
    """Have a folder on the disk, with everything in it."""
    for folder, _, names in os.walk(path):
        for name in names:
            flush(os.path.join(folder, name))
        flush(folder)
