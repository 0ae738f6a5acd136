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
from fnmatch import fnmatchcase
from glob import glob, has_magic
from urllib.parse import unquote, urlsplit

from reactdb.errors import CannotOpen, InvalidOption
from reactdb.spark.options import Options
from reactdb.store import exports
from reactdb.store.engine import Engine
from reactdb.store.exports import Pin
from reactdb.store.snapshot import Snapshot

SIDE_FILES = ("-wal", "-shm", "-journal")


def files_of(options: Options) -> list[str]:
    """The absolute paths of the files that the options mean, sorted, each once.

    Raises:
        InvalidOption: No path.
        CannotOpen: One of them means no file.
    """
    if options.ranges is not None:
        return [os.path.abspath(plain_path(path)) for path, _, _ in options.ranges]
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


def _expand(path: str, options: Options) -> Iterator[str]:
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


def range_of(options: Options, pin: Pin) -> tuple[int, int]:
    """The range that option `ranges` gives for a file: since and until."""
    assert options.ranges is not None
    # A pin has the resolved path, and the option may name a link.
    return next((since, until) for path, since, until in options.ranges if os.path.realpath(path) == pin.path)


def pin_files(options: Options) -> list[Pin]:
    """Each file of the fleet as it is now.

    Raises:
        CannotOpen, NotADatabase, ...: What is wrong with a file.
    """
    return [pin_of(path, options) for path in files_of(options)]


def pin_of(path: str, options: Options) -> Pin:
    """The present state of one file."""
    with open_file(path, options) as engine:
        return exports.pin(engine)


def open_file(path: str, options: Options) -> AbstractContextManager[Engine]:
    """A file, opened for reading only, with the options' timeout."""
    return exports.open_to_read(
        path, busy_timeout_s=options.busy_timeout_s, allow_network=options.allow_network
    )


@contextmanager
def open_snapshot(path: str, options: Options) -> Iterator[Snapshot]:
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
