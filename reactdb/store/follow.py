"""Follow: how a process learns of other processes' commits to its files, and of trouble with the files.

One thread a process looks at every file with feeds. A look checks for commits of other connections (`PRAGMA
data_version`), and if there are any has the publisher read them from the log. The thread starts with the first feed and
ends with the last.

The longer nothing comes, the rarer the looks: the pause is a twentieth of the time since the last news, and 1 ms at
least. When it has grown to 20 ms, the thread asks the system to report writes (`file.file_events`). Where the system
does, the thread looks when there is a report, and otherwise once in 0.7 s. Elsewhere the pause continues to
grow, to 0.4 s.

A report comes before the commit can be read. But a writer holds SQLite's write lock from before its first write until
the commit can be read, and the system says who has the lock. So after a report, looks with short pauses continue while
there is a writer. Commits of this process cause the same reports. After a report without news, and while commits come
fast, the thread does not wait for reports until the next look. So a thousand own commits a second cause fifty looks.

A report is a hint only. If it is lost, the next look finds the commit.

The same thread answers other processes that ask for the feeds of this one (see `activity`).

It also ends the feeds of a file in trouble. It checks whether the path still leads to the opened file. A write, a read or
a checkpoint that meets trouble may hold any lock, so it leaves a note (`Publisher.note`), and the next look finds the
note.

Rule of this file: it decides when to look. The publisher acts on the result.
"""

from __future__ import annotations

import threading
import weakref
from functools import partial

from reactdb.clock import monotonic
from reactdb.errors import DatabaseBusy, ReactDBError
from reactdb.logs import logger
from reactdb.store.activity import answer_questions
from reactdb.store.engine import Engine
from reactdb.store.file import fork, sqlite
from reactdb.store.file.file_events import FileEvents

# Seconds between two looks: the least, and the share of the time for which nothing has come.
QUICK_S = 0.001
SHARE = 0.05
# The longest pause, in seconds, in which reports of the system are not waited for.
BUSY_S = 0.020
# The longest pause without reports of the system, in seconds.
SLOW_S = 0.4
# Seconds until the next look where the system reports writes, and does not report one.
REPORTED_S = 0.7
# Seconds for which looks may fail before the feeds end; longer if another process holds a lock, because a lock is no
# error of the file.
FAILING_S = 0.5
LOCKED_S = 10.0
# The least seconds between two checks of the path: 9 µs each.
LOOK_S = 0.25
# The least seconds between two looks for questions of other processes: 10 µs each, while there are none.
QUESTIONS_S = 0.2


class Watched:
    """One followed file. Thread safety: only the following thread; any thread may set `is_hinted`.

    Attributes:
        engine: The file.
        due: When to look at the latest (monotonic).
        is_busy: The next look comes soon, and reports of the system can wait for it.
        is_hinted: Something may have happened since the last look began.
    """

    __slots__ = (
        "_answered",
        "_failing_since",
        "_found",
        "_heard",
        "_is_behind",
        "_is_long",
        "_looked",
        "due",
        "engine",
        "is_busy",
        "is_hinted",
    )

    def __init__(self, engine: Engine) -> None:
        # Weakly: an engine that everybody forgot must not be kept alive by its follower.
        self.engine = weakref.ref(engine)
        self.due = float("-inf")
        self.is_busy = True
        self.is_hinted = False
        # The time of the last news, or of a report after silence. A new subscriber may wait for the first commit.
        self._heard = monotonic()
        # The first pauses have grown: before that, the system is not asked for reports.
        self._is_long = False
        # The time of the last news.
        self._found = float("-inf")
        self._looked = float("-inf")
        self._answered = float("-inf")
        # There may be news that `Engine.has_news` does not show: commits between the subscription and the first poll,
        # or commits of a failed poll.
        self._is_behind = True
        # The time of the first of consecutive failed polls (monotonic); None while polls succeed.
        self._failing_since: float | None = None

    def hint(self, *, is_touched: bool) -> None:
        """The system has reported a write. `is_touched`: the file may also have been moved, or another process asks."""
        self.is_hinted = True
        if is_touched:
            self._looked = self._answered = float("-inf")

    def look(self, engine: Engine, name: int, events: FileEvents) -> None:
        """Look at the file, and plan the next look. `name`: of the file in `events`."""
        now, is_hinted = monotonic(), self.is_hinted
        if is_hinted:
            # Before the look: a hint that comes during the look is for the next one.
            self.is_hinted = False
            if not self.is_busy:
                self._heard = now
        self._is_long |= now - self._heard >= BUSY_S / SHARE
        # A write after this line is reported. A commit that a writer has finished before is found by the poll.
        is_reported = events.is_watched(name) or (self._is_long and events.watch(name, engine.path))
        is_written = None if engine.guard is None else engine.guard.has_foreign_writer()
        has_news = self.poll(engine)
        now = monotonic()
        is_rare = False
        if has_news:
            is_rare, self._heard, self._found = now - self._found >= BUSY_S, now, now
        pause_s = max(QUICK_S, SHARE * (now - self._heard))
        if self._failing_since is not None:
            pause_s = min(pause_s, BUSY_S)
        elif not is_reported or is_written is None:
            pause_s = min(pause_s, SLOW_S)
        elif is_written or (has_news and not is_rare):
            pause_s = min(pause_s, BUSY_S)
        elif is_hinted and not has_news:
            # A commit of this process: there may be many.
            pause_s = BUSY_S
        else:
            pause_s = REPORTED_S
        self.is_busy = pause_s <= BUSY_S
        self.due = now + pause_s

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
    """The thread and the files that it follows. Thread safety: `_lock` guards the list; looks happen outside of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, Watched] = {}
        self._thread: threading.Thread | None = None
        self._events = FileEvents()
        # The thread has no look to make soon.
        self._is_listening = False

    def watch(self, engine: Engine) -> None:
        """Begin to follow the file of `engine`. A database in memory has no other processes to follow."""
        if engine.is_memory:
            return
        engine.publisher.look_soon = partial(self.look_soon, id(engine))
        with self._lock:
            known = self._watched.get(id(engine))
            if known is None or known.engine() is not engine:
                # An older engine with this number was collected, and the number was used again.
                self._watched[id(engine)] = Watched(engine)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="reactdb-tail", daemon=True)
                self._thread.start()
        self._events.wake()

    def unwatch(self, engine: Engine) -> None:
        """Stop following. The thread ends with the last file."""
        with self._lock:
            self._watched.pop(id(engine), None)
        self._events.wake()

    def look_soon(self, name: int) -> None:
        """There is something to do for the file of the engine with this number. Any thread may call it, with any lock held:
        it takes none that is held for long."""
        watched = self._watched.get(name)
        if watched is not None:
            watched.is_hinted = True
            if self._is_listening:
                self._events.wake()

    def abandon(self) -> None:
        """In a child of fork() there is no thread, and the parent's files are not to be followed."""
        self._events.abandon()
        self.__init__()  # type: ignore[misc]

    def _run(self) -> None:
        files: dict[int, Watched] = {}
        while True:
            with self._lock:
                if self._thread is not threading.current_thread():
                    # Ctrl-C struck while this thread began, and another one was started in its place.
                    return
                if not self._watched:
                    self._thread = None
                    self._events.close()
                    return
                before, files = files, dict(self._watched)
            for name, watched in before.items():
                if files.get(name) is not watched:
                    self._events.unwatch(name)
            self._look_at(files)
            self._is_listening = not any(watched.is_busy for watched in files.values())
            due = min(watched.due for watched in files.values())
            if self._is_listening and any(watched.is_hinted for watched in files.values()):
                # By `look_soon`, just before the thread was listening.
                continue
            reports = self._events.wait(max(0.0, due - monotonic()), listens=self._is_listening)
            self._is_listening = False
            for name, is_touched in reports.items():
                if name in files:
                    files[name].hint(is_touched=is_touched)

    def _look_at(self, files: dict[int, Watched]) -> None:
        now = ahead = monotonic()
        if any(watched.due <= now and not watched.is_busy for watched in files.values()):
            # One wake-up serves all files whose rare looks are due soon.
            ahead += REPORTED_S / 2
        for name, watched in files.items():
            if not watched.is_hinted and watched.due > (now if watched.is_busy else ahead):
                continue
            engine = watched.engine()
            if engine is not None:
                watched.look(engine, name, self._events)
                del engine
            else:
                with self._lock:
                    if self._watched.get(name) is watched:
                        del self._watched[name]


# One for the process: a thread for each file would cost a wake-up for each.
follower = Follower()
watch = follower.watch
unwatch = follower.unwatch

fork.call_in_child(follower.abandon)
