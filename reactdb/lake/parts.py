"""A folder of Parquet that grows, or is replaced, by whole parts: each part exists once or not at all.

A part is written beside the others under a name that readers ignore, `_staging-...`. With it goes a manifest with its content and
the read positions of each database, `_reactdb.json`. Then everything is flushed and the folder gets its name:

    changes/
      _lock                       locked by the process that writes; the system releases it when that process ends
      _staging-5f0c.../           unfinished or left behind by a crash; removed by the next writer
      increment=000001/           a part: Parquet files, and
        part-00000-....parquet
        _reactdb.json             its manifest

Only that rename counts. Before it nothing has happened; after it the part and the new positions exist, and at no moment does one
exist without the other. Numbers are given in order, and a rename never takes the name of an existing part. So if two writers run
at the same time, where no lock reaches both, only one succeeds.

Rule of this file: files and folders only, and no database. The file system must rename folders atomically: local disks and mounts
of a network do, object stores do not.
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

from reactdb.errors import CannotOpen, DatabaseBusy, StorageError, UsageError
from reactdb.lake.folder_lock import LOCK, lock_folder

MANIFEST: Final = "_reactdb.json"
STAGING: Final = "_staging-"
FORMAT: Final = 1
# Readers see the numbers of appended parts as a partition column; replaced parts are hidden from readers of the whole folder.
INCREMENT: Final = "increment="
GENERATION: Final = "_generation-"
LATEST: Final = "latest"


@dataclass(frozen=True, slots=True)
class DatabasePosition:
    """How far one database has been read.

    Attributes:
        path: The path of the file when it was read.
        epoch: The part of the file's history that `seq` belongs to; a file that no longer has this epoch is refused.
        seq: The newest change that was read.
        tables: Table -> the seq after which it was created. Older changes under its name belong to another table.
    """

    path: str
    epoch: str
    seq: int
    tables: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Extent:
    """The changes of one database in one part: since < seq <= until."""

    database: str
    path: str
    epoch: str
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a part, stored with it.

    Attributes:
        kind: The kind of its data, such as `changes`; a run of another kind refuses the folder.
        number: The part's number, from 1.
        rows: The number of rows in its Parquet files.
        settings: The settings of the run, such as the table; later parts must have the same.
        schema: The types of the columns, by their names.
        extents: The changes in this part.
        positions: The read position of each database after this part, by database id.
    """

    kind: str
    number: int
    rows: int
    settings: dict[str, Any]
    schema: dict[str, Any]
    extents: list[Extent]
    positions: dict[str, DatabasePosition]


class PartFolder:
    """A folder of parts.

    Args:
        path: The path of the folder, which is created by the first run that writes.
        kind: The kind of its parts.
        prefix: `INCREMENT` for parts that add up, `GENERATION` for parts of which only the newest counts.

    Thread safety: none; `lock` keeps other processes and threads out.
    """

    def __init__(self, path: str, kind: str, prefix: str = INCREMENT) -> None:
        self.path = os.path.abspath(path)
        self.kind = kind
        self._prefix = prefix
        self._name = re.compile(re.escape(prefix) + r"(\d{6,})")

    def numbers(self) -> list[int]:
        """The numbers of the existing parts, in order."""
        try:
            names = os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise CannotOpen(self.path, error.strerror or str(error)) from error
        return sorted(int(match[1]) for name in names if (match := self._name.fullmatch(name)))

    def folder_of(self, number: int) -> str:
        return os.path.join(self.path, f"{self._prefix}{number:06}")

    def manifest(self, number: int) -> Manifest:
        """The manifest of part `number`.

        Raises:
            StorageError: It cannot be read, or a newer reactdb has written it.
        """
        name = os.path.join(self.folder_of(number), MANIFEST)
        try:
            with open(name, encoding="utf-8") as file:
                return _read(json.load(file))
        except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
            raise StorageError(f"{name} is no manifest of this reactdb: {error}") from error

    def newest(self) -> Manifest | None:
        """The manifest of the newest part, with all positions; None if there is no part yet.

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
            raise UsageError(
                f"{self.path} was written with mode {manifest.kind}, not {self.kind}: choose another folder"
            )
        return manifest

    def _refuse_foreign(self) -> None:
        """Raise UsageError if the folder contains anything that this class did not create."""
        if os.path.isdir(self.path):
            for name in sorted(os.listdir(self.path)):
                if name.startswith((INCREMENT, GENERATION)):
                    raise UsageError(
                        f"{self.path} was written with another mode than {self.kind}: choose another folder"
                    )
                if name != LOCK and not name.startswith(STAGING):
                    raise UsageError(
                        f"{self.path} has {name!r} in it, and is no table of mode {self.kind} that reactdb wrote: "
                        "choose another folder"
                    )
        elif os.path.lexists(self.path):
            raise UsageError(f"{self.path} is no folder")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder against other writers, and remove the remains of a crash.

        Raises:
            DatabaseBusy: Another process is writing to it.
            UsageError: As `newest`; then nothing was created.
            CannotOpen: The folder cannot be created, or written to.
        """
        self.newest()
        with lock_folder(self.path) as alone:
            # This is safe only under the lock: no other run can be staging now.
            for name in os.listdir(self.path) if alone else ():
                if name.startswith(STAGING):
                    shutil.rmtree(os.path.join(self.path, name), ignore_errors=True)
            yield

    @contextmanager
    def stage(self) -> Iterator[str]:
        """The path of a new folder to write and commit. If it was not committed, it is removed at the end of the block."""
        path = os.path.join(self.path, STAGING + uuid.uuid4().hex)
        try:
            yield path
        finally:
            with suppress(FileNotFoundError):
                shutil.rmtree(path)

    def commit(self, staged: str, manifest: Manifest) -> str:
        """Turn a staged folder into the part with its manifest's number, and return its path.

        Raises:
            DatabaseBusy: Another run has committed a part of that number meanwhile; this one was not committed.
        """
        _write_manifest(staged, manifest)
        # Otherwise a power cut could keep the folder's name and lose its files.
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

    def remove(self, number: int) -> None:
        """Remove a part at once: if the process is killed meanwhile, the part is there as a whole, or not at all."""
        removed = os.path.join(self.path, STAGING + uuid.uuid4().hex)
        os.rename(self.folder_of(number), removed)
        flush(self.path)
        shutil.rmtree(removed)

    def replace_manifest(self, manifest: Manifest) -> None:
        """Give the part with this number another manifest: the same rows, with later positions."""
        folder = self.folder_of(manifest.number)
        part = STAGING + MANIFEST
        _write_manifest(folder, manifest, part)
        flush(os.path.join(folder, part))
        os.replace(os.path.join(folder, part), os.path.join(folder, MANIFEST))
        flush(folder)

    # -----------------------------------------------------------------------------------------------------------
    # Folders in which only the newest part counts

    def point_to_newest(self) -> str:
        """Make the link `latest` point to the newest part, remove all but the last two, and return the path to read.

        The part before stays for its readers. Without symbolic links, the path is the part's own.
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
    """A folder that is written once: the path to write to, and a function that gives the folder its name when it is complete.

    A replaced folder is missing for the moment between two renames. If a run is killed just then, it leaves the new folder beside
    it, under a name that begins with a dot, and the next run writes it again.

    Raises:
        UsageError: The folder exists and is not to be overwritten, or was not written by this function.
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
        try:
            if os.path.lexists(path):
                os.rename(path, old)
            os.rename(staged, path)
        except BaseException:
            if os.path.lexists(old) and not os.path.lexists(path):
                os.rename(old, path)
            raise
        flush(parent)
        shutil.rmtree(old, ignore_errors=True)

    try:
        yield staged, commit
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def refuse_taken(path: str, overwrite: bool) -> None:
    """Refuse an existing path, unless `whole_folder` wrote it and it is to be overwritten.

    Raises:
        UsageError.
    """
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise UsageError(
            f"{path} exists: choose another folder, or replace it with overwrite=True (--overwrite)"
        )
    if not os.path.isdir(path) or (os.listdir(path) and not os.path.isfile(os.path.join(path, MANIFEST))):
        raise UsageError(f"{path} was not written by reactdb and is left alone: choose another folder")


def parquet_rows(folder: str) -> int:
    """The number of rows in the Parquet files of a folder, from their footers: this shows that each file can be read.

    Raises:
        StorageError: A file cannot be read, or there is none, because other processes have written to another disk than this one.
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
        raise StorageError(f"the files written to {folder} cannot be read: {error}") from error
    if not names:
        raise StorageError(
            f"no Parquet file has come to {folder}: each process that writes must see this folder under this path"
        )
    return count


def _write_manifest(folder: str, manifest: Manifest, name: str = MANIFEST) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump({"format": FORMAT, **asdict(manifest)}, file, indent=1)


def _read(manifest: Mapping[str, Any]) -> Manifest:
    if manifest["format"] != FORMAT:
        raise ValueError(f"it has format {manifest['format']}, but this version reads {FORMAT}")
    return Manifest(
        kind=manifest["kind"],
        number=int(manifest["number"]),
        rows=int(manifest["rows"]),
        settings=dict(manifest["settings"]),
        schema=dict(manifest["schema"]),
        extents=[Extent(**extent) for extent in manifest["extents"]],
        positions={
            database: DatabasePosition(**position) for database, position in manifest["positions"].items()
        },
    )


def flush(path: str) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        # Windows cannot open folders, and writes their names without being asked.
        if os.path.isdir(path):
            return
        raise
    try:
        os.fsync(file)
    finally:
        os.close(file)


def flush_tree(path: str) -> None:
    """Flush a folder with everything in it to the disk."""
    for folder, _, names in os.walk(path):
        for name in names:
            flush(os.path.join(folder, name))
        flush(folder)
