"""A fleet: the files that a path means, each pinned to one state when the plan is made.

A path is a file, a folder, a glob, or a list of those. It becomes absolute here, because a run may read its files in other
processes, which have working folders of their own. Databases in a folder are recognised by their names (`path_glob`): to open a
file and look at its first bytes would drop the locks of a connection that this process has on the file
(https://sqlite.org/howtocorrupt.html, section 2.2).

One database is read once: of several paths that lead to one file the first counts, and a copy of another file of the fleet is
refused. A bad file stops the whole fleet, unless the options ignore corrupt or missing files: then `Fleet` passes over it, and
keeps the reason.

Rule of this file: it runs in the process that plans the run, and keeps no file open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import glob, has_magic
from itertools import islice
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from reactdb.errors import (
    CannotOpen,
    CorruptDatabase,
    InvalidOption,
    NotADatabase,
    StorageError,
    UsageError,
)
from reactdb.logs import logger
from reactdb.store import exports
from reactdb.store.engine import Engine
from reactdb.store.file.identity import read_identity

SIDE_FILES = ("-wal", "-shm", "-journal")
# Files that one line of the log names.
MOST_LOGGED = 10
# Folders in which an error looks for other files than databases.
MOST_SEARCHED = 100
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The files to read, and how they are opened.

    Attributes:
        paths: Files, folders or globs, as given.
        path_glob: Which files of a folder are databases.
        is_recursive: The folders within a folder are read too.
        busy_timeout_s: How long opening waits for the lock of a writer.
        allow_network: A file on a network share is opened.
        ignore_corrupt_files: A file is left out if it is no database, is empty, or turns out to be damaged when it is opened.
            Damage that is noticed later is an error all the same.
        ignore_missing_files: A path is left out if it names no file, or if its file is gone when it is opened.
    """

    paths: tuple[str, ...] = ()
    path_glob: str = "*.db"
    is_recursive: bool = False
    busy_timeout_s: float = 5.0
    allow_network: bool = False
    ignore_corrupt_files: bool = False
    ignore_missing_files: bool = False


class Fleet:
    """The files that the options mean, and those of them that are passed over.

    Attributes:
        ignored: The path of each file that is passed over, and why.
    """

    def __init__(self, options: FileOptions) -> None:
        self.options = options
        self.ignored: dict[str, StorageError] = {}

    def paths(self) -> list[str]:
        """The absolute paths of the files, sorted as they were given. Of several paths to one file the first counts.

        Raises:
            InvalidOption: No path.
            CannotOpen: One of them means no file.
        """
        if not self.options.paths:
            raise InvalidOption("no path: give load() a file, a folder, a glob or a list of those")
        paths: dict[object, str] = {}
        for given in map(plain_path, self.options.paths):
            files = sorted(_expand(given, self.options))
            if not files:
                error = CannotOpen(os.path.abspath(given), _why_no_file(given, self.options.path_glob))
                if not self.options.ignore_missing_files:
                    raise error
                self.ignored[error.path] = error
            for path in files:
                if _is_not_utf_8(path):
                    raise CannotOpen(path, "its path is not UTF-8, as the texts of a table are: rename it")
                paths.setdefault(read_identity(path) or os.path.realpath(path), path)
        return list(paths.values())

    def look(self, path: str, look: Callable[[str], Found]) -> Found | None:
        """What `look` finds in a file; None if the file is passed over. An error names the file."""
        try:
            return look(path)
        except StorageError as error:
            if path not in str(error) and os.path.realpath(path) not in str(error):
                error.args = (f"{path}: {error}",)
            if not self._is_ignored(path, error):
                raise
            self.ignored[path] = error
            return None

    def look_at_all(self, look: Callable[[str], Found]) -> list[Found]:
        """What `look` finds in each file that is not passed over. The others are logged in one line.

        Raises:
            CannotOpen, NotADatabase, ...: What is wrong with a file that is not passed over, or with the first file if all are
                passed over.
        """
        found = [one for path in self.paths() if (one := self.look(path, look)) is not None]
        if not found and self.ignored:
            raise next(iter(self.ignored.values()))
        self.log_ignored()
        return found

    def log_ignored(self) -> None:
        """Log the files that are passed over."""
        if self.ignored:
            reasons = [str(error) for error in self.ignored.values()]
            more = f"; and {len(reasons) - MOST_LOGGED} more" if len(reasons) > MOST_LOGGED else ""
            logger.warning(
                "%d of the files are left out: %s%s", len(reasons), "; ".join(reasons[:MOST_LOGGED]), more
            )

    def _is_ignored(self, path: str, error: StorageError) -> bool:
        if isinstance(error, NotADatabase | CorruptDatabase):
            return self.options.ignore_corrupt_files
        if not isinstance(error, CannotOpen):
            return False
        if error.is_unfinished:
            return self.options.ignore_corrupt_files
        return self.options.ignore_missing_files and _is_missing(path)


def refuse_copies(databases: Iterable[tuple[str, str]]) -> None:
    """Raises: UsageError: Two files are copies of one database, so that each of its rows would be read twice.

    Args:
        databases: (id, path) of each file.
    """
    paths: dict[str, str] = {}
    for database_id, path in databases:
        other = paths.setdefault(database_id, path)
        if other != path:
            raise UsageError(f"{other} and {path} are the same database: leave the copy out")


def _is_missing(path: str) -> bool:
    """Whether there is no such file, and not only no permission to see it."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


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
        yield from (
            file
            for file in glob(path, recursive=True)
            if os.path.isfile(file) and not file.endswith(SIDE_FILES)
        )
    else:
        # If the file is missing, opening it raises an error that says why.
        yield path


def _is_not_utf_8(path: str) -> bool:
    """Whether a path has bytes that are no text; Python keeps them as surrogates."""
    return any("\udc80" <= letter <= "\udcff" for letter in path)


def _why_no_file(path: str, path_glob: str) -> str:
    """Why a folder or a glob means no file, and what to give instead."""
    if not os.path.isdir(path):
        return "no file matches it"
    if not os.access(path, os.R_OK | os.X_OK):
        return "the folder may not be read (permission denied)"
    # Only the first folders are searched, because a home folder may have very many.
    first = islice(os.walk(path), MOST_SEARCHED)
    if any(name.endswith(".parquet") for _, _, names in first for name in names):
        return (
            f"it has Parquet files, and no file that matches {path_glob}: give database files; `reactdb spark` history, rates "
            "and audit also take a folder that `reactdb export --changes --parquet` wrote"
        )
    return f"no file in it matches {path_glob}: give a glob instead of the folder, such as {os.path.join(path, '*.sqlite')}"


def open_file(path: str, options: FileOptions) -> AbstractContextManager[Engine]:
    """A file, opened for reading only, with the options' timeout."""
    return exports.open_to_read(
        path, busy_timeout_s=options.busy_timeout_s, allow_network=options.allow_network
    )


def is_one_file(paths: Sequence[str]) -> bool:
    """Whether the path names one file, so that rows need no column with their file."""
    return (
        len(paths) == 1
        and not os.path.isdir(plain_path(paths[0]))
        and not (has_magic(paths[0]) and not os.path.exists(plain_path(paths[0])))
    )
