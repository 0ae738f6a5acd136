"""The registry: which engines this process has open. One file has one engine, whatever the path says, and it is closed with the
last handle.

A file is known by its device and inode: it may have several names. (To two connections of one process SQLite's locks mean
nothing, so what this process has open must be known here.)

Thread safety: everything here may be called from any thread. An engine is opened under the lock, so that two threads that
connect at once get one.
"""

from __future__ import annotations

import os
import threading

from reactdb.errors import DatabaseBusy, UsageError
from reactdb.store.engine import Engine
from reactdb.store.file import files, guards

_lock = threading.Lock()
# (device, inode, read_only) -> engine and the number of handles on it.
opened: dict[tuple[int, int, bool], tuple[Engine, int]] = {}


def engine_for(path: str, read_only: bool, busy_timeout_s: float, allow_network: bool) -> Engine:
    """The engine of a file, with one handle more on it. A database in memory is another one each time, and nobody else's."""
    if path == ":memory:":
        if read_only:
            raise UsageError("a database in memory that nobody can write to would be empty for ever")
        return Engine(path, read_only=False, busy_timeout_s=busy_timeout_s)
    path = os.path.realpath(path)
    with _lock:
        identity = _identity(path, read_only)
        if identity is not None and identity in opened:
            engine, handles = opened[identity]
            if engine.is_usable:
                opened[identity] = (engine, handles + 1)
                return engine
        engine = Engine(path, read_only=read_only, busy_timeout_s=busy_timeout_s, allow_network=allow_network)
        identity = _identity(path, read_only)
        assert identity is not None
        opened[identity] = (engine, 1)
        _join_twins(identity)
        return engine


def _join_twins(identity: tuple[int, int, bool]) -> None:
    """Let the engine that writes to a file know the one that only reads it, which has feeds of its own."""
    device, inode, is_read_only = identity
    engine, _ = opened[identity]
    known = opened.get((device, inode, not is_read_only))
    engine.twin = None if known is None else known[0]
    if engine.twin is not None:
        engine.twin.twin = engine


def release(engine: Engine) -> None:
    """One handle less; the last one closes the engine."""
    with _lock:
        for identity, (known, handles) in list(opened.items()):
            if known is engine:
                if handles > 1:
                    opened[identity] = (engine, handles - 1)
                    return
                del opened[identity]
                break
        twin, engine.twin = engine.twin, None
        if twin is not None and twin.twin is engine:
            twin.twin = None
    engine.close()


def remove(path: str) -> None:
    """Remove the files of a database that nobody has open. See `files.remove`.

    Raises:
        DatabaseBusy: This process has it open, or another.
    """
    with _lock:
        for is_read_only in (False, True):
            if _identity(path, is_read_only) in opened:
                raise DatabaseBusy(f"remove: {path} is open in this process; close it first")
        guards.refuse_unfit(path)
        files.remove(path)


def _identity(path: str, read_only: bool) -> tuple[int, int, bool] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, read_only)


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    opened.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
