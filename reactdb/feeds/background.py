"""Background: long reads of feeds in threads, so that an event loop or a window goes on meanwhile.

A feed that begins may read a whole table: the first ten of 300,000 documents in an order, or their count. `async for`,
`feed.reader()` and `subscribe` with the scheduler of a loop or a window leave such a read to a thread. A small read is made
at once (`reads_little`), because switching to a thread costs about 100 µs.

There are at most `MOST_THREADS` such threads in a process, and further reads wait for them. Each thread that computes may keep
Python's lock for 5 ms before a loop has its turn again, so with many of them a loop would stand still.

Rule of this file: work is a callable that raises nothing. This file does not know its feed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from reactdb.budget import Budget, current
from reactdb.documents.extent import concerns_few
from reactdb.feeds.request import Request
from reactdb.logs import logger
from reactdb.store.file import fork
from reactdb.threads import Threads

MOST_THREADS = 2
# A beginning reads little if its tables have at most so many documents, its log at most so many changes to read, ...
MOST_DOCUMENTS = 2_000
# ... and the database at most so many bytes: some documents are large. To read them all takes some milliseconds.
MOST_BYTES = 4 << 20


class Background:
    """Thread safety: any thread calls `run`."""

    def __init__(self) -> None:
        self.threads = Threads("reactdb-feeds", MOST_THREADS)

    def run(self, work: Callable[[], None]) -> None:
        """Call it soon, in a thread."""
        self.threads.run(partial(_call, work))


def _call(work: Callable[[], None]) -> None:
    # A budget without limits: with it, nothing large is sorted in one piece, which gives a loop no turn.
    token = current.set(Budget())
    try:
        work()
    except BaseException:
        # The thread is everybody's.
        logger.exception("a read of a feed failed")
    current.reset(token)


background = Background()

# In a child of fork() there is no thread, and the feeds are the parent's.
fork.call_in_child(background.threads.forget)


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
            and concerns_few(query, snapshot, MOST_DOCUMENTS)
        )
