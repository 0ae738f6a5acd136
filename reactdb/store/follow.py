"""Follow: how a process learns of other processes' commits to its files, and of trouble with the files.

One thread a process polls every file with feeds. A poll checks for commits of other connections (`PRAGMA
data_version`), and if there are any has the publisher read them from the log. The longer nothing comes, the rarer the
polls: the pause is a twentieth of the time since the last news, between 1 and 20 ms. The thread starts with the first
feed and ends with the last.

The same thread answers other processes that ask for the feeds of this one (see `activity`).

It also ends the feeds of a file in trouble. Every quarter of a second it checks whether the path still leads
to the opened file. A write, a read or a checkpoint that meets trouble may hold any lock, so it leaves a note
(`Publisher.note`), and the next poll finds the note.

Polling and nothing else, because it works on every system and needs no state that a fork has to repair. A file
system's notifications (inotify) would report a commit some 0.5 ms sooner, on Linux alone, and only as a hint: they
come before the commit can be read, also for commits of this very process, and a poll has to back them up all the
same.

Rule of this file: it decides when to look. The publisher acts on the result.
"""

from __future__ import annotations

import threading
import weakref

from reactdb.clock import monotonic
from reactdb.errors import DatabaseBusy, ReactDBError
from reactdb.logs import logger
from reactdb.store.activity import answer_questions
from reactdb.store.engine import Engine
from reactdb.store.file import fork, sqlite

# Seconds between two polls: the least, the most, and the share of the time for which nothing has come.
QUICK_S = 0.001
SLOW_S = 0.020
SHARE = 0.05
# Seconds for which polls may fail before the feeds end; longer if another process holds a lock, because a lock is no
# error of the file.
FAILING_S = 0.5
LOCKED_S = 10.0
# Seconds between two checks of the path: 9 µs each.
LOOK_S = 0.25
# Seconds between two looks for questions of other processes: 10 µs each, while there are none.
QUESTIONS_S = 0.2


class Watched:
    """One polled file. Thread safety: only the polling thread."""

    __slots__ = ("_answered", "_failing_since", "_is_behind", "_looked", "engine")

    def __init__(self, engine: Engine) -> None:
        # Weakly: an engine that everybody forgot must not be kept alive by its poller.
        self.engine = weakref.ref(engine)
        self._looked = float("-inf")
        self._answered = float("-inf")
        # There may be news that `Engine.has_news` does not show: commits between the subscription and the first poll,
        # or commits of a failed poll.
        self._is_behind = True
        # The time of the first of consecutive failed polls (monotonic); None while polls succeed.
        self._failing_since: float | None = None

    def poll(self, engine: Engine) -> bool:
        """Whether there was any news."""
        try:
            trouble = self.trouble(engine)
            if trouble and engine.is_usable:
                # No commit will ever come from this file, so waiting would never end.
                engine.report_moved(trouble)
            engine.publisher.end_feeds()
            self._is_behind |= engine.has_news()
            has_commits = self._is_behind and engine.catch_up()
            self._is_behind, self._failing_since = False, None
            self.answer(engine)
            return has_commits
        except (ReactDBError, sqlite.SQLiteError) as error:
            # The file was closed in between, or is in trouble. The next read raises the error; the other files
            # continue.
            logger.debug("polling %s: %s", engine.path, error)
            self._failed(engine, error)
            return False
        except BaseException:
            # Also SystemExit of a subscriber: all files share the thread, and the next poll delivers the rest.
            logger.exception("following %s failed", engine.path)
            return False

    def answer(self, engine: Engine) -> None:
        """Answer other processes that ask for the feeds of this one (see `activity`), if it is time to look for them."""
        now = monotonic()
        if now - self._answered >= QUESTIONS_S:
            self._answered = now
            answer_questions(engine)

    def trouble(self, engine: Engine) -> str:
        """Check the file, if it is time. Returns: the trouble; empty where there is none."""
        now = monotonic()
        if engine.guard is None or now - self._looked < LOOK_S:
            return ""
        self._looked = now
        return engine.guard.examine()

    def _failed(self, engine: Engine, error: Exception) -> None:
        """Note a failed poll. After a while the feeds end, because a silent feed would mean that nothing happens."""
        now = monotonic()
        if self._failing_since is None:
            self._failing_since = now
        is_locked = isinstance(error, DatabaseBusy) or sqlite.is_busy(error)
        if now - self._failing_since >= (LOCKED_S if is_locked else FAILING_S) and engine.is_usable:
            self._failing_since = None
            engine.publisher.note(
                error if isinstance(error, ReactDBError) else engine.translate_error(error, "read")
            )
            engine.publisher.end_feeds()


class Follower:
    """The thread and the files that it polls. Thread safety: `_lock` guards the list; polls happen outside of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, Watched] = {}
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    def watch(self, engine: Engine) -> None:
        """Begin to follow the file of `engine`. A database in memory has no other processes to follow."""
        if engine.is_memory:
            return
        with self._lock:
            known = self._watched.get(id(engine))
            if known is None or known.engine() is not engine:
                # An older engine with this number was collected, and the number was used again.
                self._watched[id(engine)] = Watched(engine)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="reactdb-tail", daemon=True)
                self._thread.start()
            self._wake.set()

    def unwatch(self, engine: Engine) -> None:
        """Stop following. The thread ends with the last file."""
        with self._lock:
            self._watched.pop(id(engine), None)
            self._wake.set()

    def _run(self) -> None:
        # When there was news last (monotonic).
        heard = monotonic()
        while True:
            with self._lock:
                if self._wake.is_set():
                    # A new subscriber may wait for the first commit.
                    heard = monotonic()
                    self._wake.clear()
                if not self._watched:
                    self._thread = None
                    return
                files = list(self._watched.items())
            for name, watched in files:
                engine = watched.engine()
                if engine is None:
                    with self._lock:
                        if self._watched.get(name) is watched:
                            del self._watched[name]
                elif watched.poll(engine):
                    heard = monotonic()
                del engine
            self._wake.wait(min(max(QUICK_S, SHARE * (monotonic() - heard)), SLOW_S))


# One for the process: a thread for each file would cost a wake-up for each.
follower = Follower()
watch = follower.watch
unwatch = follower.unwatch

# In a child of fork() there is no thread, and the parent's files are not to be polled.
fork.call_in_child(follower.__init__)  # type: ignore[misc]
