"""Bootstrap: views with state are prepared beside the writers, and join the live views with a few last changes.

    seed         from a snapshot at some seq: may take a second for 100,000 documents; no thread waits
    read on      the later changes, from the log, until little is left
    join         the hub reads the rest with the publish lock held

Rule of this file: no lock is held. A seeded view may be out of date when the hub checks it, and is then made again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from reactdb.errors import FeedAborted, HistoryLost
from reactdb.feeds.compiler import Plan
from reactdb.feeds.log_reader import LogReader
from reactdb.feeds.position import resolve_since
from reactdb.feeds.request import Request
from reactdb.feeds.views.base import View
from reactdb.store.engine import Engine
from reactdb.store.log import read_low_water
from reactdb.store.snapshot import PastSnapshot, Snapshot
from reactdb.store.undo import Undo

# How often, at most, the changes of the meantime are read: writers may be quicker.
ROUNDS = 8


class Bootstrapped:
    """A reader near the present, and the catalogue that its plan was made with."""

    __slots__ = ("catalogue_version", "reader")

    def __init__(self, reader: LogReader, catalogue_version: int) -> None:
        self.reader = reader
        self.catalogue_version = catalogue_version

    def can_join(self, snapshot: Snapshot, most_changes: int) -> bool:
        """Whether the rest to read is short, and the query still has the same meaning."""
        return (
            self.reader.is_seeded
            and self.catalogue_version == snapshot.catalogue.version
            and snapshot.seq - self.reader.position <= most_changes
        )


class Bootstrap:
    """See the head of this file. Thread safety: any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._local = threading.local()

    @property
    def is_on(self) -> bool:
        """Whether this thread is seeding: a predicate that subscribes must be refused."""
        return getattr(self._local, "is_on", False)

    @contextmanager
    def _snapshot(self) -> Iterator[Snapshot]:
        self._local.is_on = True
        try:
            with self._engine.fresh_snapshot() as snapshot:
                yield snapshot
        finally:
            self._local.is_on = False

    def now(
        self, request: Request, before: Bootstrapped | None, is_live: Callable[[Hashable], bool], near: int
    ) -> Bootstrapped:
        """The view of a request, seeded and read on until no more than `near` changes were left.

        Args:
            before: The result of the last call, to continue with if it is still good.
            is_live: Whether there is a live view with that key. It needs no seed then.
        """
        with self._snapshot() as snapshot:
            if before is None or before.catalogue_version != snapshot.catalogue.version:
                reader = LogReader(self._engine, request.plan(snapshot), snapshot.seq)
                before = Bootstrapped(reader, snapshot.catalogue.version)
            if not before.reader.is_seeded:
                if is_live(before.reader.plan.key):
                    return before
                before.reader.position = snapshot.seq
                before.reader.seed(snapshot)
        for _ in range(ROUNDS):
            with self._snapshot() as snapshot:
                if snapshot.seq - before.reader.position <= near:
                    return before
                try:
                    is_last = False
                    while not is_last:
                        _, is_last = before.reader.read(snapshot)
                except HistoryLost:
                    # Compacted away in between: from the beginning, next time.
                    before.catalogue_version = -1
                    return before
        return before

    def at(self, request: Request, since: int | str) -> LogReader:
        """A reader of the log at a position, with the state of then.

        Raises:
            HistoryLost, HistoryDiverged, InvalidOption: It is none of this file's.
            TableNotFound, IndexNotFound: The query meant nothing then.
        """
        with self._snapshot() as snapshot:
            position = resolve_since(since, self._engine, snapshot)
            is_whole = request.options.batches
            if is_whole:
                position = find_commit_start(position, snapshot)
            reader = LogReader(
                self._engine, plan_at(request, snapshot, position), position, is_whole=is_whole
            )
            reader.seed(snapshot)
        return reader


def find_commit_start(position: int, snapshot: Snapshot) -> int:
    """The position, or where it is inside of a commit, the position before that commit: the commit is read as a
    whole.

    Raises:
        HistoryLost: Its first changes were compacted away.
    """
    following = snapshot.changes(position, limit=1)
    if not following or following[0].commit > position:
        return position
    before, oldest = following[0].commit - 1, read_low_water(snapshot.connection)
    if before < oldest:
        raise HistoryLost(before, oldest + 1)
    return before


def plan_at(request: Request, now: Snapshot, position: int) -> Plan:
    """The query as it meant something then: its table may have been dropped since, or made again."""
    past = PastSnapshot(now, position, Undo(position, ()))
    return request.compile_for(past)


def find_abort_reason(view: View, snapshot: Snapshot) -> FeedAborted | None:
    """Returns an error where a table or an index of the view was dropped while it read the log; else None."""
    for info in view.tables():
        known = snapshot.catalogue.by_id.get(info.id)
        if known is None or known.dropped is not None:
            return table_gone_error()
    for table_id, name in view.indexes():
        if name not in snapshot.catalogue.by_id[table_id].indexes:
            return index_gone_error(name)
    return None


def table_gone_error() -> FeedAborted:
    return FeedAborted("Changefeed aborted (table unavailable)")


def index_gone_error(name: str) -> FeedAborted:
    return FeedAborted(f"Changefeed aborted (index `{name}` unavailable)")
