"""A fleet: the files that a path means, each pinned to one state when the plan is made.

A path is a file, a folder, a glob, or a list of those. It becomes absolute here, on the driver, because executors have folders
of their own. The files of a folder that are databases are recognised by their names (`pathGlobFilter`): opening one with `open`
would drop the locks of a connection that this process has on it (https://sqlite.org/howtocorrupt.html, section 2.2).

Rule of this file: it runs on the driver and keeps nothing open.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import glob, has_magic
from urllib.parse import unquote, urlsplit

from reactdb.errors import CannotOpen, InvalidOption
from reactdb.store import exports
from reactdb.store.engine import Engine
from reactdb.store.exports import Pin
from reactdb.store.snapshot import Snapshot

SIDE_FILES = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The files to read, and how they are opened.

    Attributes:
        paths: Files, folders or globs, as given.
        path_glob: Which files of a folder are databases.
        is_recursive: The folders within a folder are read too.
        busy_timeout_s: How long opening waits for the lock of a writer.
        allow_network: A file on a network share is opened.
        ignore_corrupt_files: A file that cannot be read is left out.
        ignore_missing_files: A file that is gone when it is read is left out.
    """

    paths: tuple[str, ...] = ()
    path_glob: str = "*.db"
    is_recursive: bool = False
    busy_timeout_s: float = 5.0
    allow_network: bool = False
    ignore_corrupt_files: bool = False
    ignore_missing_files: bool = False


def files_of(options: FileOptions) -> list[str]:
    """The absolute paths of the files that the options mean, sorted, each once.

    Raises:
        InvalidOption: No path.
        CannotOpen: One of them means no file.
    """
    if not options.paths:
        raise InvalidOption("no path: give load() a file, a folder, a glob or a list of those")
    paths: dict[str, None] = {}
    for given in options.paths:
        files = sorted(_expand(plain_path(given), options))
        if not files:
            raise CannotOpen(
                os.path.abspath(plain_path(given)),
                f"no file in it matches {options.path_glob} (option pathGlobFilter)"
                if os.path.isdir(plain_path(given))
                else "no file matches it",
            )
        paths.update(dict.fromkeys(files))
    return list(paths)


def plain_path(path: str) -> str:
    """A path of the local file system; `file:` URIs are accepted too.

    Raises:
        InvalidOption: It is the address of another kind of storage.
    """
    if path.startswith("file:"):
        return unquote(urlsplit(path).path)
    if "://" in path:
        raise InvalidOption(
            f"{path} is no path of the local file system, which SQLite needs: copy the files to a disk first"
        )
    return path


def _expand(path: str, options: FileOptions) -> Iterator[str]:
    path = os.path.abspath(path)
    if os.path.isdir(path):
        for folder, folders, names in os.walk(path):
            if not options.is_recursive:
                folders.clear()
            yield from (os.path.join(folder, name) for name in names if fnmatchcase(name, options.path_glob))
    elif has_magic(path) and not os.path.exists(path):
        yield from (file for file in glob(path) if os.path.isfile(file) and not file.endswith(SIDE_FILES))
    else:
        # If the file is missing, opening it raises an error that says why.
        yield path


def pin_files(options: FileOptions) -> list[Pin]:
    """Each file of the fleet as it is now.

    Raises:
        CannotOpen, NotADatabase, ...: What is wrong with a file.
    """
    return [pin_of(path, options) for path in files_of(options)]


def pin_of(path: str, options: FileOptions) -> Pin:
    """The present state of one file."""
    with open_file(path, options) as engine:
        return exports.pin(engine)


def open_file(path: str, options: FileOptions) -> AbstractContextManager[Engine]:
    """A file, opened for reading only, with the options' timeout."""
    return exports.open_to_read(
        path, busy_timeout_s=options.busy_timeout_s, allow_network=options.allow_network
    )


@contextmanager
def open_snapshot(path: str, options: FileOptions) -> Iterator[Snapshot]:
    """A snapshot of a file."""
    with open_file(path, options) as engine, engine.snapshot() as snapshot:
        yield snapshot


def is_one_file(paths: Sequence[str]) -> bool:
    """Whether the path names one file, so that rows need no column with their file."""
    return (
        len(paths) == 1
        and not os.path.isdir(plain_path(paths[0]))
        and not (has_magic(paths[0]) and not os.path.exists(plain_path(paths[0])))
    )
