"""Background: long reads of feeds in threads, so that an event loop or a window goes on meanwhile.

A feed that begins may read a whole table: the first ten of 300,000 documents in an order, or their count. `async for`,
`feed.reader()` and `subscribe` with the scheduler of a loop or a window leave that to a thread. A small read does not: to
change the thread costs about 100 µs, so whatever reads little is read at once (`reads_little`).

There are at most `MOST_THREADS` such threads in a process, and further reads wait for them. Each thread that computes may keep
Python's lock for 5 ms before a loop has its turn again, so with many of them a loop would stand still.

Rule of this file: the work knows its feed. Here it is a callable that raises nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator

from reactdb.budget import Budget, current
from reactdb.feeds.request import Request
from reactdb.logs import logger
from reactdb.query import ALL_TABLES, Query, Union
from reactdb.store.file import fork
from reactdb.store.snapshot import Snapshot

MOST_THREADS = 2
# Seconds after which a thread without work ends.
IDLE_S = 1.0
# A beginning reads little if its tables have at most so many documents, its log at most so many changes to read, ...
MOST_DOCUMENTS = 2_000
# ... and the database at most so many bytes: some documents are large. To read them all takes some milliseconds.
MOST_BYTES = 4 << 20


class Background:
    """Thread safety: any thread calls `run`."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._work: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._idle = 0

    def run(self, work: Callable[[], None]) -> None:
        """Call it soon, in a thread."""
        with self._condition:
            self._work.append(work)
            if self._idle >= len(self._work):
                self._condition.notify()
            elif self._threads < MOST_THREADS:
                self._threads += 1
                # A daemon: a program may end in the middle of a read.
                threading.Thread(target=self._run, name="reactdb-feeds", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._work:
                    self._idle += 1
                    self._condition.wait(IDLE_S)
                    self._idle -= 1
                if not self._work:
                    self._threads -= 1
                    return
                work = self._work.popleft()
            # A budget without limits: with it, nothing large is sorted in one piece, which gives a loop no turn.
            token = current.set(Budget())
            try:
                work()
            except BaseException:
                # The thread is everybody's.
                logger.exception("a read of a feed failed")
            current.reset(token)
            # Or the thread would keep a feed that nothing else refers to.
            del work


background = Background()

# In a child of fork() there is no thread, and the feeds are the parent's.
fork.call_in_child(background.__init__)  # type: ignore[misc]


def reads_little(request: Request) -> bool:
    """Whether a subscription reads so little when it begins that no thread is needed. It costs about 20 µs to know.

    Raises:
        DatabaseClosed and its like.
    """
    options, query = request.options, request.query
    if options.since is None and (query.is_point or not (request.is_stateful or options.include_initial)):
        return True
    with request.engine.fresh_snapshot() as snapshot:
        try:
            start = request.find_position(snapshot)
        except Exception:
            # It cannot begin, which `attach` says.
            return True
        return (
            snapshot.seq - start <= MOST_DOCUMENTS
            and snapshot.size_bytes() <= MOST_BYTES
            and _has_few_documents(query, snapshot)
        )


def _has_few_documents(query: Query, snapshot: Snapshot) -> bool:
    left = MOST_DOCUMENTS
    tables = snapshot.catalogue.live
    for name in dict.fromkeys(_find_tables(query)):
        infos = tables.values() if name == ALL_TABLES else [tables[name]] if name in tables else []
        for info in infos:
            left -= snapshot.count_at_most(info, left + 1)
            if left < 0:
                return False
    return True


def _find_tables(query: Query) -> Iterator[object]:
    yield query.table
    for step in query.steps:
        if isinstance(step, Union):
            for other in step.others:
                yield from _find_tables(other)
