"""Expirer: the thread that deletes the documents that have reached their end.

Each process has one thread that looks once a second at every file with expiring tables that the process has open to
write. A look is one search in an index for each such table. The thread starts with the first such file and ends with the
last. If several processes have a file open, the first thread to find a document deletes it, and the others find nothing.

It looks once a second, and does not compute the next end: another process may write a document with an earlier end at
any time, and the clock may be set.

Rule of this file: it decides when to look. `expiry` deletes.
"""

from __future__ import annotations

import threading
import time
import weakref
from datetime import timedelta
from typing import Final

from reactdb.clock import SYSTEM, PendingCall, call_later, monotonic
from reactdb.errors import DatabaseBusy, DatabaseClosed, ReactDBError, UsageError
from reactdb.logs import logger
from reactdb.store import expiry
from reactdb.store.expiry import ExpiringFile
from reactdb.store.file import fork

# Seconds between two looks.
LOOK_S: Final = 1.0
# The least seconds between two steps, so that other processes can write in between.
REST_S: Final = 0.001


class Expirer:
    """The thread and its files. Thread safety: `_lock` guards the list; deletions happen outside of it."""

    def __init__(self) -> None:
        # Its own methods, unlike those of a condition or an event, leave it in no half state if Ctrl-C strikes.
        self._lock = threading.RLock()
        self._condition = threading.Condition(self._lock)
        self._engines: dict[int, weakref.ref[ExpiringFile]] = {}
        self._thread: threading.Thread | None = None
        self._is_woken = False
        # Files with a virtual clock.
        self._following: dict[int, PendingCall] = {}
        # Tables of which the log has said that documents never expire.
        self._named: set[tuple[int, int]] = set()

    def watch(self, engine: ExpiringFile) -> None:
        """The file of `engine` has expiring tables. A second call does nothing."""
        if engine.clock is not SYSTEM:
            self._follow(engine)
            return
        with self._lock:
            known = self._engines.get(id(engine))
            is_running = self._thread is not None and self._thread.is_alive()
            if known is not None and known() is engine and is_running:
                return
            self._engines[id(engine)] = weakref.ref(engine)
            if not is_running:
                self._thread = threading.Thread(target=self._run, name="reactdb-expiry", daemon=True)
                self._thread.start()
            self._wake()

    def _follow(self, engine: ExpiringFile) -> None:
        """A file with a virtual clock needs no thread: it is looked at when a test advances the clock, and at its next end."""
        if id(engine) in self._following:
            return
        known = weakref.ref(engine)
        pending: list[PendingCall] = []

        def look() -> None:
            while pending:
                pending.pop().dispose()
            file = known()
            if file is None or not file.is_usable:
                following.dispose()
                return
            if file.has_transaction_here():
                # The deletions would be a part of it. The next advance makes them.
                return
            try:
                for _ in expiry.steps(file):
                    pass
            except ReactDBError as error:
                # As in the thread: it is tried again.
                logger.debug("expiry of %s: %s", file.path, error)
                return
            end = expiry.find_next_end(file)
            if end is not None:
                wait_s = (end - expiry.read_time(file)) / timedelta(seconds=1)
                pending.append(call_later(file.clock, max(0.0, wait_s), look))

        following = self._following[id(engine)] = engine.clock.on_advance(look)

    def unwatch(self, engine: ExpiringFile) -> None:
        """The file is closed. The thread ends with the last file."""
        following = self._following.pop(id(engine), None)
        if following is not None:
            following.dispose()
        with self._lock:
            if self._engines.pop(id(engine), None) is not None:
                self._named = {named for named in self._named if named[0] != id(engine)}
                self._wake()

    def _wake(self) -> None:
        """Let the thread look now. Under the lock."""
        self._is_woken = True
        self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._thread is not threading.current_thread():
                    # Ctrl-C struck while this thread began, and another one was started in its place.
                    return
                self._is_woken = False
                for number, known in list(self._engines.items()):
                    engine = known()
                    if engine is None or not expiry.has_expiry(engine.catalogue):
                        del self._engines[number]
                if not self._engines:
                    self._thread = None
                    return
                engines = list(self._engines.values())
            engine = None
            for known in engines:
                engine = known()
                if engine is not None and engine.is_usable:
                    self._look(engine)
                engine = None
            with self._lock:
                if not self._is_woken:
                    self._condition.wait(LOOK_S)

    def _look(self, engine: ExpiringFile) -> None:
        began = monotonic()
        try:
            for _ in expiry.steps(engine):
                if engine.is_closed:
                    return
                # As long as the step took: other processes get a turn, because SQLite's lock has no queue.
                time.sleep(max(REST_S, monotonic() - began))
                began = monotonic()
            self._name_tables_without_ends(engine)
        except DatabaseClosed:
            pass
        except (DatabaseBusy, UsageError) as error:
            # Another process writes; or a write hook refuses the deletion. It is tried again.
            logger.debug("expiry of %s: %s", engine.path, error)
        except ReactDBError as error:
            logger.debug("expiry of %s: %s", engine.path, error)
        except BaseException:
            # Also SystemExit of a subscriber: the thread is every file's.
            logger.exception("deleting expired documents of %s failed", engine.path)

    def _name_tables_without_ends(self, engine: ExpiringFile) -> None:
        """Log once for each table that it has documents, and no end of any: the field is probably a mistake."""
        with engine.fresh_snapshot() as snapshot:
            for table in snapshot.catalogue.live.values():
                settings = expiry.native_expiry(table)
                if settings is None or (id(engine), table.id) in self._named:
                    continue
                if expiry.has_only_documents_without_end(snapshot, table):
                    self._named.add((id(engine), table.id))
                    logger.warning(
                        "no document of table `%s` has a time in `%s`: none of them expires",
                        table.name,
                        settings.field,
                    )


# One for the process: a thread for each file would cost a wake-up for each.
expirer: Final = Expirer()

# In a child of fork() there is no thread, and the parent's files are not to be looked at.
fork.call_in_child(expirer.__init__)  # type: ignore[misc]
