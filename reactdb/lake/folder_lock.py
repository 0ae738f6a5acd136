"""The lock of a folder that one run at a time writes to.

The lock is on a file in the folder, `_lock`; readers of all formats pass over names with an underscore. The system releases it
when the process ends, also when it is killed, so no lock is left behind.

Rule of this file: it creates a folder and one file, and touches nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from reactdb.errors import CannotOpen, DatabaseBusy, UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK: Final = "_lock"


@contextmanager
def lock_folder(path: str) -> Iterator[bool]:
    """Create the folder and lock it against other runs.

    A folder that was created for the lock is removed again at the end if nothing was written to it.

    Yields:
        Whether other runs are kept out: not on Windows.

    Raises:
        DatabaseBusy: Another run has the lock.
        UsageError: The path is a file.
        CannotOpen: The folder cannot be created or written to.
    """
    created = not os.path.isdir(path)
    lock = _open(path)
    try:
        yield fcntl is not None
    finally:
        # Still under the lock: so nothing can have come into the folder meanwhile.
        with suppress(OSError):
            if created and os.listdir(path) == [LOCK]:
                os.remove(os.path.join(path, LOCK))
                os.rmdir(path)
        os.close(lock)


def _open(path: str) -> int:
    """The lock's file, open and locked."""
    name = os.path.join(path, LOCK)
    while True:
        try:
            os.makedirs(path, exist_ok=True)
            lock = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        except (FileExistsError, NotADirectoryError) as error:
            raise UsageError(f"{path} is no folder") from error
        except OSError as error:
            raise CannotOpen(path, error.strerror or str(error)) from error
        if fcntl is None:
            return lock
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A run that wrote nothing removes its lock's file, perhaps after this one has opened it.
            if os.path.exists(name) and os.path.samestat(os.fstat(lock), os.stat(name)):
                return lock
        except BlockingIOError:
            os.close(lock)
            raise DatabaseBusy(f"another run is writing to {path}") from None
        except FileNotFoundError:
            pass
        os.close(lock)
