"""The registry: which engines this process has open. One file has one engine, whatever the path says, and it is closed with the
last handle.

To two connections of one process SQLite's locks mean nothing, so what this process has open must be known here. A file is known
by its identity, because it may have several names.

Thread safety: everything here may be called from any thread. An engine is opened under the lock, so that two threads that
connect at once get one.
"""

from __future__ import annotations

import os
import threading

from reactdb.errors import DatabaseBusy, UsageError
from reactdb.store.engine import Engine
from reactdb.store.file import files, fork
from reactdb.store.file.identity import FileIdentity, check_fit, identity_of
from reactdb.store.file.names import check_names

_lock = threading.Lock()
# (file, read_only) -> engine and the number of handles on it. The only record of what this process has open.
opened: dict[tuple[FileIdentity | None, bool], tuple[Engine, int]] = {}


def engine_for(path: str, read_only: bool, busy_timeout_s: float, allow_network: bool) -> Engine:
    """The engine of a file, with one handle more on it. A database in memory is another one each time, and nobody else's."""
    if path == ":memory:":
        if read_only:
            raise UsageError("a database in memory that nobody can write to would be empty for ever")
        return Engine(path, read_only=False, busy_timeout_s=busy_timeout_s)
    path = os.path.realpath(path)
    # Also where this process has the file open: one more handle, by any name, would be a use of the name that is to go.
    check_names(path)
    with _lock:
        known = (identity_of(path), read_only)
        if known in opened:
            engine, handles = opened[known]
            if engine.is_usable:
                opened[known] = (engine, handles + 1)
                return engine
        engine = Engine(path, read_only=read_only, busy_timeout_s=busy_timeout_s, allow_network=allow_network)
        # Only now: the file may have been made.
        identity = identity_of(path)
        assert identity is not None
        opened[identity, read_only] = (engine, 1)
        _join_twins(engine, opened.get((identity, not read_only)))
        return engine


def _join_twins(engine: Engine, known: tuple[Engine, int] | None) -> None:
    """Let the engine that writes to a file know the one that only reads it, which has feeds of its own."""
    if known is not None:
        engine.twin, known[0].twin = known[0], engine


def release(engine: Engine) -> None:
    """One handle less; the last one closes the engine."""
    with _lock:
        for key, (known, handles) in list(opened.items()):
            if known is engine:
                if handles > 1:
                    opened[key] = (engine, handles - 1)
                    return
                del opened[key]
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
    check_names(path)
    with _lock:
        for is_read_only in (False, True):
            if (identity_of(path), is_read_only) in opened:
                raise DatabaseBusy(f"remove: {path} is open in this process; close it first")
        check_fit(path)
        files.remove(path)


@fork.in_child
def _forget() -> None:
    """The engines are the parent's, and a thread that did not come along may hold the lock."""
    global _lock
    _lock = threading.Lock()
    opened.clear()
