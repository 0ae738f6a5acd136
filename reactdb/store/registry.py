"""The registry: the open engines of this process. One file has one engine, under any path, and the last handle closes
it.

Between two connections of one process SQLite's locks have no effect, so the open files of this process must be known
here. A file is known by its identity, because it may have several names.

A handle that the program has lost is released, too (`release_lost`). Python reports the loss at any moment and in any
thread, also in the middle of a line of reactdb that holds a lock. So a thread inside reactdb's code closes nothing: a
separate thread does, or the next call of `connect`.

Thread safety: any thread may call everything here. An engine is opened under the lock, so that two threads that
connect at once get the same engine.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from collections import deque
from contextlib import suppress
from types import FrameType

from reactdb.clock import SYSTEM, Clock
from reactdb.errors import CannotOpen, DatabaseBusy, InvalidOption, UsageError
from reactdb.logs import logger
from reactdb.store.engine import Engine
from reactdb.store.file import files, fork
from reactdb.store.file.identity import FileIdentity, check_fit, find_descriptors, read_identity
from reactdb.store.file.names import check_names
from reactdb.store.file.sqlite import CACHE_KIB

_lock = threading.Lock()
# (file, read_only) -> engine and the number of handles on it. The only record of this process's open files.
opened: dict[tuple[FileIdentity | None, bool], tuple[Engine, int]] = {}
# Engines with a lost handle each, which is still to be released.
_lost: deque[Engine] = deque()


def open_engine(
    path: str,
    read_only: bool,
    busy_timeout_s: float,
    allow_network: bool,
    clock: Clock | None = None,
    *,
    cache_kib: int = CACHE_KIB,
) -> Engine:
    """Open the engine of a file, or count one more handle on it. A database in memory is a new one each time, and has
    no other handles.

    Args:
        clock: None: the clock of the file's other handles in this process; without one, the system's.
        cache_kib: The most memory for pages of a connection; the first handle decides.

    Raises:
        InvalidOption: The file is open in this process with another clock.
    """
    if path == ":memory:":
        if read_only:
            raise UsageError("a read-only database in memory would be empty for ever")
        return Engine(path, read_only=False, busy_timeout_s=busy_timeout_s, clock=clock or SYSTEM)
    # Or a program that opens many files, and loses them, would run out of descriptors before they are closed.
    _release_all_lost()
    path = os.path.realpath(path)
    # Also where this process has the file open: another handle, under any name, would use a name on its way out.
    check_names(path)
    with _lock:
        known = (read_identity(path), read_only)
        clock = _find_clock(known[0], path, clock)
        if known in opened:
            engine, handles = opened[known]
            if engine.is_usable:
                opened[known] = (engine, handles + 1)
                return engine
        _check_index_is_free(path)
        engine = Engine(
            path,
            read_only=read_only,
            busy_timeout_s=busy_timeout_s,
            allow_network=allow_network,
            clock=clock,
            cache_kib=cache_kib,
        )
        # Only now: the file may have been made.
        identity = read_identity(path)
        assert identity is not None
        opened[identity, read_only] = (engine, 1)
        _join_twins(engine, opened.get((identity, not read_only)))
        return engine


def _find_clock(identity: FileIdentity | None, path: str, clock: Clock | None) -> Clock:
    """The clock for one more handle on a file: leases and ages of one file are of one clock.

    Raises:
        InvalidOption: The file is open with another clock.
    """
    for is_read_only in (False, True):
        engine, _ = opened.get((identity, is_read_only), (None, 0))
        if engine is not None and engine.is_usable:
            if clock is not None and clock is not engine.clock:
                raise InvalidOption(
                    f"clock: {path} is open in this process with another clock, and all handles on a file have one: pass that "
                    "clock, or none, or close the other handles first"
                )
            return engine.clock
    return clock or SYSTEM


def _check_index_is_free(path: str) -> None:
    """Refuse a file that has replaced another at its path while this process still has the old file open.

    Both would use the same -shm file. SQLite does not know that this process uses it already, and cuts it off. Then the next read
    of the file before ends the process with a bus error.

    Raises:
        CannotOpen: The earlier file is still open, and the -shm of that path belongs to it.
    """
    identity = read_identity(path)
    for (known, _), (engine, _) in opened.items():
        if known != identity and engine.path == path and find_descriptors(path + "-shm")[0] is not None:
            raise CannotOpen(
                path,
                "another file was put in its place while this process had it open: close the database that was opened before, "
                "and all of its handles, first",
            )


def _join_twins(engine: Engine, known: tuple[Engine, int] | None) -> None:
    """Introduce the engine that writes a file and the engine that only reads it: the reading engine has its own
    feeds."""
    if known is not None:
        engine.twin, known[0].twin = known[0], engine


def release(engine: Engine, *, is_lost: bool = False) -> None:
    """Release one handle; the last one closes the engine. `is_lost`: see `Engine.close`."""
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
    engine.close(is_lost=is_lost)


def release_lost(engine: Engine) -> None:
    """`release` an unreferenced handle, now, or as soon as it is safe. Called by finalizers."""
    _lost.append(engine)
    if not _is_inside(sys._getframe(2)):
        _release_all_lost()
        return
    # Not `threading`: its locks may be held by this very thread. At the end of the program there are no more threads.
    with suppress(RuntimeError):
        _thread.start_new_thread(_release_all_lost, ())


def _is_inside(frame: FrameType | None) -> bool:
    """Whether the thread is inside a function of reactdb."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "reactdb":
            return True
        frame = frame.f_back
    return False


def _release_all_lost() -> None:
    while True:
        try:
            engine = _lost.popleft()
        except IndexError:
            return
        try:
            release(engine, is_lost=True)
        except Exception:
            logger.exception("closing %s, which the program has lost, failed", engine.path)


def remove(path: str) -> None:
    """Remove the files of a database without open handles. See `files.remove`.

    Raises:
        DatabaseBusy: This process has it open, or another.
        CannotOpen: This process has a file open that was at the path before.
    """
    _release_all_lost()
    check_names(path)
    with _lock:
        for is_read_only in (False, True):
            if (read_identity(path), is_read_only) in opened:
                raise DatabaseBusy(f"delete_database: {path} is open in this process; close it first")
        check_fit(path)
        _check_index_is_free(os.path.realpath(path))
        files.remove(path)


@fork.call_in_child
def _forget() -> None:
    """The engines are the parent's, and a thread that did not come along may hold the lock."""
    global _lock
    _lock = threading.Lock()
    opened.clear()
    _lost.clear()
