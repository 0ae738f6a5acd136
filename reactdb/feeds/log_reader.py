"""Reading the log: how a late feed catches up, and how a view reads the state at one change.

A LogReader has a view of its own at a position of the log and advances it page by page. A view that needs further
documents reads them through StateAt: as of the change by which it is advancing, and not today's.

Rule of this file: a page is read within one snapshot, and this file delivers nothing.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from reactdb.errors import ReactDBError
from reactdb.feeds.compiler import Plan
from reactdb.feeds.views.base import AnyDelta, View
from reactdb.feeds.views.window import WindowView
from reactdb.store.engine import Engine
from reactdb.store.log import PastNames
from reactdb.store.snapshot import PastSnapshot, Snapshot, complete_commits, read_all_changes, view_as_of
from reactdb.store.undo import Undo

# Changes in a page: about 0.25 MB of ordinary documents.
PAGE_CHANGES = 512


class StateAt:
    """Snapshots as of any change of one commit, or of one page of the log; a view requests them in rising order.

    Nothing is read before the first call. A context manager, where it opens the snapshot itself.

    Attributes:
        is_behind: It is for a page of the log: all later changes have to be reverted for each snapshot.
        stack: Of the snapshot that it has opened itself; None where there is nothing to close.
    """

    __slots__ = ("_engine", "_now", "_undo", "is_behind", "stack")

    def __init__(self, engine: Engine, now: Snapshot | None = None) -> None:
        self._engine = engine
        self._now = now
        self.is_behind = now is not None
        self.stack: ExitStack | None = None
        self._undo: Undo | None = None

    def at(self, seq: int) -> Snapshot:
        """The documents as of `seq`. For rising arguments, the log is read once."""
        now = self._now
        if now is None:
            self.stack = ExitStack()
            now = self._now = self.stack.enter_context(self._engine.fresh_snapshot())
        if self._undo is None or self._undo.since > seq:
            self._undo = Undo(seq, read_all_changes(now, seq))
        return PastSnapshot(now, seq, self._undo) if self._undo.until > seq else now

    def translate_error(self, error: Exception) -> ReactDBError:
        """SQLite's error, from a read of a snapshot that was opened here, as one of ours."""
        return self._engine.translate_error(error, "read")

    def close(self) -> None:
        if self.stack is not None:
            self.stack.close()
            self.stack = None
            self._now = self._undo = None


def release_spare_documents(view: Any) -> None:
    """Release the documents that ordered views hold in reserve: reading was slow while they were behind, and is quick
    now."""
    if isinstance(view, WindowView):
        view.release_spare()
    for below in (getattr(view, "below", None), *getattr(view, "members", ())):
        if below is not None:
            release_spare_documents(below)


class LogReader:
    """See the head of this file.

    Attributes:
        plan: The plan of the query. Its view belongs to this reader alone.
        position: Every change up to it has been taken in.
    """

    __slots__ = ("_engine", "_error", "_is_seeded", "_is_whole", "_names", "plan", "position")

    def __init__(
        self,
        engine: Engine,
        plan: Plan,
        position: int,
        *,
        is_whole: bool = False,
        names: PastNames | None = None,
    ) -> None:
        """
        Args:
            is_whole: No page ends inside of a commit, and the position is not inside of a commit.
            names: The already known earlier names of tables.
        """
        self._engine = engine
        self.plan = plan
        self.position = position
        self._is_whole = is_whole
        self._names = names
        if names is None and getattr(plan.view, "tells_names", False):
            self._names = PastNames()
        self._is_seeded = not plan.view.is_stateful
        # A document could not be computed, and its error is to be raised; but first, the earlier changes are
        # delivered.
        self._error: Exception | None = None

    @property
    def view(self) -> View:
        return self.plan.view

    @property
    def failed(self) -> int:
        """How many documents could not be computed."""
        return self.plan.failures.count

    @property
    def is_seeded(self) -> bool:
        """Whether its view has a state to advance from."""
        return self._is_seeded

    @property
    def failure(self) -> Exception | None:
        """Why the next change cannot be taken in, where a step of the query raised for it; the next read raises it."""
        return self._error

    def seed(self, now: Snapshot) -> None:
        """Give the view its state at the position, where it has any."""
        if not self._is_seeded:
            self.plan.view.seed(view_as_of(now, self.position))
            self._is_seeded = True

    def read_page(self) -> tuple[list[AnyDelta], bool]:
        """The next page, as `read`."""
        with self._engine.fresh_snapshot() as snapshot:
            return self.read(snapshot)

    def read(self, now: Snapshot, limit: int = PAGE_CHANGES) -> tuple[list[AnyDelta], bool]:
        """The deltas of the next changes, and whether these were the last.

        Args:
            limit: Changes that are read.

        Raises:
            HistoryLost: They were compacted away. Also the error of a step of the query for the next change, where
            errors are to be raised.
        """
        if self._error is not None:
            raise self._error
        if not self._is_seeded:
            self.seed(now)
        view, includes_meta = self.plan.view, self.plan.includes_meta
        tables = view.tables()
        head = now.seq
        table = tables[0] if len(tables) == 1 else None
        changes = now.changes(self.position, head, table, limit)
        is_last = len(changes) < limit
        end = head if is_last else changes[-1].seq
        if self._is_whole and not is_last:
            rest = complete_commits(changes[-1:], now)[1:]
            changes += [
                change for change in rest if not tables or change.table_id in {one.id for one in tables}
            ]
            end = max(end, *(change.seq for change in rest)) if rest else end
        if self._names is not None:
            self._names.give(now, changes, head)
        state = StateAt(self._engine, now)
        deltas: list[AnyDelta] = []
        advance = view.advance
        try:
            for change in changes:
                if change.meta is None or includes_meta or not change.is_of_meta_alone:
                    deltas += advance(change, state)
                self.position = change.seq
        except Exception as error:
            self._error = error
            if self._is_whole:
                self.position = change.commit - 1
                deltas = [delta for delta in deltas if delta.seq < change.commit]
            return deltas, False
        if is_last:
            release_spare_documents(view)
        self.position = end
        return deltas, is_last

    def read_last(self, now: Snapshot, limit: int) -> None:
        """Take in the next changes, which are fewer than `limit`, without delivering them.

        Raises:
            As `read`.
        """
        _, is_last = self.read(now, limit)
        if not is_last:
            self.read(now, limit)
