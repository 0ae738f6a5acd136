"""UndoStack: undo and redo of the commits of one origin.

    stack = db.undo_stack(origin="ui")
    with db.transaction(origin="ui"):
        todos.get(1).update({"done": True})
    stack.undo()                                   the document is as before
    stack.redo()
    with stack.group("Sort the list"):             several commits, one step
        ...

A step is a commit of the origin, or the commits inside of one `group`. For each document that it changed, a step knows two
versions by their seqs: the one before and the one after. An undo writes the versions before in one ordinary commit. It is
allowed for a document only while its newest version is the version after the step, so the write of another origin is
never taken back. The commit of an undo makes a new version with the content of an earlier one; `_restored` knows which.

The stack trusts only the log. Each call on the stack first reads the new commits from the log, and so learns whether the
commit of an undo is stored. A stack is not stored in the file, so a new process begins with an empty stack.

Rule of this file: `_lock` is never held while the write lock is awaited. A thread may take it inside the write lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reactdb.async_functions import refuse_async
from reactdb.change import CATALOGUE, REPLACE, Change, HiddenTable
from reactdb.documents.write import Policy, Write
from reactdb.errors import (
    INTERRUPTS,
    Conflict,
    DatabaseClosed,
    DuplicateIndexKey,
    HistoryLost,
    InvalidOption,
    UsageError,
    format_value,
)
from reactdb.logs import logger
from reactdb.query import ALL_TABLES, Query
from reactdb.session import Session, SessionInside
from reactdb.store.catalogue import TableInfo
from reactdb.store.log import read_low_water
from reactdb.store.materialized_tables import KEPT
from reactdb.store.snapshot import Snapshot, read_all_changes
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec, collation

if TYPE_CHECKING:
    from reactivex.abc import SchedulerBase

MOST_STEPS: Final = 1_000
"""The default of `limit`."""

Place = tuple[int, bytes]
"""A document: the number of its table, and its primary key."""

UNDO, REDO = "undo", "redo"


class Versions(NamedTuple):
    """The versions of one document around a step: the seqs of their log entries; None where no entry was before."""

    before: int | None
    after: int | None


class UndoStep:
    """The changes that one undo takes back.

    Attributes:
        label: The label of the group; None for a commit outside of groups.
        first: The oldest seq whose history is needed to move the step: of its first change, or of the first change of its
            undo or redo.
        last: Of its newest change.
        versions: The changed documents.
    """

    __slots__ = ("first", "label", "last", "versions")

    def __init__(self, label: str | None, first: int) -> None:
        self.label = label
        self.first = self.last = first
        self.versions: dict[Place, Versions] = {}


class Moved(NamedTuple):
    """An undo or redo whose commit may not be stored yet.

    Attributes:
        seq: Of its first change.
        mark: The first change, as it is in the log once the commit is stored.
        source, target: The lists of steps that the step was moved between.
        step: The step before, `result`: the step after it was moved (None where nothing is left of it).
        restored: `_restored` for the changed documents, before.
    """

    seq: int
    mark: tuple[str, int, bytes]
    source: list[UndoStep]
    target: list[UndoStep]
    step: UndoStep
    result: UndoStep | None
    restored: dict[Place, tuple[int, int | None] | None]


class ExactBytes(Policy):
    """A restored document is the same only if its bytes are, because an older version may differ in the order of fields."""

    is_same = staticmethod(bytes.__eq__)


EXACT: Final = ExactBytes()


class StackListener:
    """A subscriber of a stack. It is called when the state differs from the state of its last call."""

    def __init__(self, stack: UndoStack, callback: Callable[[UndoStack], object]) -> None:
        self._stack = stack
        self._callback = callback
        self._shown = stack.state()
        self._is_ended = False

    def look(self, _: object = None) -> None:
        """Call the subscriber, if the state has changed."""
        try:
            state = self._stack.state()
        except DatabaseClosed:
            # Closed while this call was on its way to a scheduler: then there is no state to tell.
            return
        if self._is_ended or state == self._shown:
            return
        self._shown = state
        try:
            self._callback(self._stack)
        except INTERRUPTS:
            raise
        except BaseException:
            logger.exception("a subscriber of an UndoStack raised")

    def end(self) -> None:
        self._is_ended = True


class UndoStack:
    """Undo and redo of the commits of one origin.

    See the head of this file. `Database.undo_stack` makes one.

    Thread safety: any thread. Of two threads that undo at once, each undoes one step.
    """

    def __init__(self, session: Session, origin: str, limit: int) -> None:
        """
        Args:
            origin: The commits with this origin are steps.
            limit: The greatest number of steps; beyond it, the oldest is forgotten.
        """
        self._session = session
        self._origin = origin
        self._limit = limit
        self._lock = threading.RLock()
        self._undo: list[UndoStep] = []
        self._redo: list[UndoStep] = []
        # The content of a document's newest version is that of an earlier one: (its seq, the seq of the earlier one).
        self._restored: dict[Place, tuple[int, int | None]] = {}
        self._moved: Moved | None = None
        # The newest move whose commit is decided. The commit of another `_moved` may still be under way.
        self._decided: Moved | None = None
        self._lost: HistoryLost | None = None
        # The labels of the open groups, and the step of the outermost one once it has a commit.
        self._groups: list[str | None] = []
        self._group_step: UndoStep | None = None
        self._listeners: list[StackListener] = []
        session.check_open()
        if isinstance(session, SessionInside):
            raise UsageError("a stack stays longer than a transaction: make it of the database")
        with session.engine.fresh_snapshot() as snapshot:
            self._seq = snapshot.seq

    def __repr__(self) -> str:
        return f"<UndoStack of {self._origin!r}: {len(self._undo)} to undo, {len(self._redo)} to redo>"

    # -----------------------------------------------------------------------------------------------------------
    # Looking

    @property
    def origin(self) -> str:
        """The origin whose commits are steps. An undo has the origin `<origin>:undo`, a redo `<origin>:redo`."""
        return self._origin

    @property
    def can_undo(self) -> bool:
        """Whether there is a step to undo, and its history is still in the log."""
        return self.state()[0]

    @property
    def can_redo(self) -> bool:
        """Whether there is an undone step, and no newer step."""
        return self.state()[1]

    @property
    def undo_label(self) -> str | None:
        """The label of the step that `undo` would take back; None without a step or a label."""
        return self.state()[2]

    @property
    def redo_label(self) -> str | None:
        """The label of the step that `redo` would make again; None without a step or a label."""
        return self.state()[3]

    @property
    def error(self) -> HistoryLost | None:
        """The HistoryLost error, if steps were forgotten because their history was removed. None again after the next step."""
        self.state()
        return self._lost

    def __len__(self) -> int:
        """The number of steps to undo."""
        self.state()
        return len(self._undo)

    def __bool__(self) -> bool:
        return True

    def subscribe(
        self, callback: Callable[[UndoStack], object], *, scheduler: SchedulerBase | None = None
    ) -> Callable[[], None]:
        """Call `callback(stack)` after `can_undo`, `can_redo` or a label has changed, such as for a button.

        Args:
            scheduler: Where it is called for a commit; None: the handle's, or else the thread that commits.

        Returns:
            A function that ends the subscription.
        """
        if not callable(callback):
            raise InvalidOption(f"callback is a function of the stack, not {format_value(callback)}")
        refuse_async(callback, "subscribe", "write a plain function that starts a task")
        listener = StackListener(self, callback)
        with self._lock:
            self._listeners.append(listener)
        feed = self._session.watch(Query(ALL_TABLES), {"batches": True}, "undo stack")
        # The feed ends with an error where the database is closed or fails: then there is no state to tell.
        subscription = feed.subscribe(listener.look, lambda error: None, scheduler=scheduler)

        def end() -> None:
            listener.end()
            subscription.dispose()
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return end

    def _notify(self) -> None:
        """Let the subscribers look at the state after a change without a commit."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.look()

    def state(self) -> tuple[bool, bool, str | None, str | None]:
        """`can_undo`, `can_redo`, `undo_label` and `redo_label`, of one moment."""
        self._session.check_open()
        decided = self._decided
        with self._session.engine.fresh_snapshot() as snapshot, self._lock:
            low = self._follow(snapshot, decided)
            undo = self._undo[-1] if self._undo and self._undo[-1].first > low else None
            redo = self._redo[-1] if self._redo and self._redo[-1].first > low else None
        return (
            undo is not None,
            redo is not None,
            None if undo is None else undo.label,
            None if redo is None else redo.label,
        )

    # -----------------------------------------------------------------------------------------------------------
    # Undo and redo

    def undo(self, *, skip_conflicts: bool = False) -> dict[str, Any] | None:
        """Take back the newest step, as one commit with the origin `<origin>:undo`.

        Args:
            skip_conflicts: Leave out these documents, instead of raising Conflict.

        Returns:
            None where there is no step. Otherwise a dict: the `label` of the step, `restored`, the number of documents, and
            `skipped`, a list of dicts with the `table` and the `key` of each document that was left out.

        Raises:
            Conflict: Another writer has changed a document since, or another document has its value of a unique index. It
                names the documents. Nothing was written.
            HistoryLost: Retention has removed the older versions. The steps are forgotten.
            UsageError: Inside a transaction.
            All other errors of a write.
        """
        return self._move(UNDO, skip_conflicts)

    def redo(self, *, skip_conflicts: bool = False) -> dict[str, Any] | None:
        """Make the step that was undone last again, as one commit with the origin `<origin>:redo`.

        Options, result and errors as for `undo`.
        """
        return self._move(REDO, skip_conflicts)

    def clear(self) -> None:
        """Forget all steps."""
        self.state()
        with self._lock:
            self._forget()
        self._notify()

    @contextmanager
    def group(self, label: str | None = None) -> Iterator[None]:
        """Inside the block, the commits of the origin become one step, by whichever thread.

        Where another origin's commit to the same document lies between two of them, the group becomes two steps, so that
        the other commit is never taken back. A group inside of a group belongs to the outer one.

        Args:
            label: A text for a menu, such as "Move the card".
        """
        if label is not None and not isinstance(label, str):
            raise InvalidOption(f"label is a text, not {format_value(label)}")
        self.state()
        with self._lock:
            self._groups.append(label)
        try:
            yield
        finally:
            self.state()
            with self._lock:
                self._groups.pop()
                if not self._groups:
                    self._group_step = None
            self._notify()

    def _move(self, direction: str, skip_conflicts: bool) -> dict[str, Any] | None:
        if not isinstance(skip_conflicts, bool):
            raise InvalidOption(f"skip_conflicts is True or False, not {format_value(skip_conflicts)}")
        session = self._session
        session.check_open()
        if session.engine.has_transaction_here():
            raise UsageError(f"{direction}() is a commit of its own, and cannot be part of a transaction")
        if not self._has_step(direction):
            return None
        moved: list[Moved] = []
        # The documents whose values another document has by now, under a unique index, and why.
        taken: dict[tuple[str, bytes], DuplicateIndexKey] = {}

        def work(transaction: WriteTransaction) -> dict[str, Any] | None:
            with self._lock:
                return self._restore(transaction, direction, skip_conflicts, moved, taken)

        try:
            while True:
                try:
                    return session.transact(work, operation=direction, origin=f"{self._origin}:{direction}")
                except DuplicateIndexKey as error:
                    places = {
                        (error.table, collation.key_bytes(key))
                        for _, keys in error.duplicates
                        for key in keys
                    }
                    if places <= taken.keys():
                        raise
                    taken.update(dict.fromkeys(places, error))
        except HistoryLost as lost:
            with self._lock:
                self._forget()
                self._lost = lost
            raise
        finally:
            with self._lock:
                if moved and self._moved is moved[-1]:
                    # A look that begins from now on finds the commit in the log, or it is not stored.
                    self._decided = self._moved
            self._notify()

    def _has_step(self, direction: str) -> bool:
        """Whether there is one. Raises HistoryLost where steps were forgotten, or their history is gone."""
        decided = self._decided
        with self._session.engine.fresh_snapshot() as snapshot, self._lock:
            low = self._follow(snapshot, decided)
            steps = self._undo if direction == UNDO else self._redo
            if steps and steps[-1].first <= low:
                self._lost = HistoryLost(steps[-1].first - 1, low + 1, f"{direction}: ")
                self._forget()
            if not steps and self._lost is not None:
                raise self._lost
            return bool(steps)

    def _restore(
        self,
        transaction: WriteTransaction,
        direction: str,
        skip_conflicts: bool,
        moved: list[Moved],
        taken: Mapping[tuple[str, bytes], DuplicateIndexKey],
    ) -> dict[str, Any] | None:
        """Write the other versions of the newest step's documents. Under the write lock and under `_lock`."""
        snapshot = transaction.snapshot()
        # This thread has the write lock, so every earlier commit is decided.
        self._follow(snapshot, self._moved)
        source, target = (self._undo, self._redo) if direction == UNDO else (self._redo, self._undo)
        if not source:
            return None
        step = source[-1]
        tables = {table.id: table for table in transaction.catalogue.live.values()}
        allowed: list[tuple[TableInfo, bytes, bytes | None, int | None]] = []
        conflicts: list[dict[str, Any]] = []
        for (table_id, key), (before, after) in step.versions.items():
            present, wanted = (after, before) if direction == UNDO else (before, after)
            table = tables.get(table_id)
            newest = None if table is None else snapshot.newest(table, key)
            is_taken = table is not None and (table.name, key) in taken
            if table is None or is_taken or self._version(table_id, key, newest) != present:
                conflicts.append(self._describe(snapshot, table_id, key, table, newest))
                continue
            allowed.append((table, key, self._read(snapshot, wanted, direction), wanted))
        if conflicts and not skip_conflicts:
            advice = (
                f"; {direction}(skip_conflicts=True) leaves {'it' if len(conflicts) == 1 else 'them'} out"
            )
            why = (
                "another document has its value of a unique index"
                if taken
                else "changed by another writer since"
            )
            raise Conflict(direction, why, conflicts, advice) from next(iter(taken.values()), None)
        result = UndoStep(step.label, transaction.first)
        restored: dict[Place, tuple[int, int | None]] = {}
        mark = None
        writes: dict[int, Write] = {}
        for table, key, body, wanted in allowed:
            write = writes.setdefault(table.id, Write.begun(transaction, table, EXACT))
            old = write.head(key)
            count = transaction.count
            if (None if old is None else old[1]) != body:
                write.put(key, old, body, REPLACE)
            place = table.id, key
            result.versions[place] = step.versions[place]
            if transaction.count > count:
                seq = transaction.first + count
                restored[place] = seq, wanted
                mark = mark or (f"{self._origin}:{direction}", table.id, key)
                result.last = seq
            else:
                newest = snapshot.newest(table, key)
                if newest is not None:
                    restored[place] = newest.seq, wanted
        # From here on nothing can fail but the commit itself.
        known = {place: self._restored.get(place) for place in restored}
        self._restored.update(restored)
        if mark is None:
            # Its changes had cancelled each other, so nothing was written.
            result.first, result.last = step.first, step.last
        source.pop()
        kept = result if allowed else None
        if kept is not None:
            target.append(kept)
        if mark is not None:
            self._moved = Moved(transaction.first, mark, source, target, step, kept, known)
            moved.append(self._moved)
        skipped = [{"table": one["table"], "key": one["key"]} for one in conflicts]
        return {"label": step.label, "restored": len(allowed), "skipped": skipped}

    def _version(self, table_id: int, key: bytes, newest: Change | None) -> int | None:
        """The seq of the version that a document shows: for a restored one, of the version that was restored."""
        if newest is None:
            return None
        seq, version = self._restored.get((table_id, key), (None, None))
        return version if seq == newest.seq else newest.seq

    def _read(self, snapshot: Snapshot, seq: int | None, direction: str) -> bytes | None:
        """The document of a version; None where there was none."""
        if seq is None:
            return None
        entry = snapshot.entry(seq)
        if entry is None:
            raise HistoryLost(seq - 1, read_low_water(snapshot.connection) + 1, f"{direction}: ")
        return entry.new_bytes

    def _describe(
        self, snapshot: Snapshot, table_id: int, key: bytes, table: TableInfo | None, newest: Change | None
    ) -> dict[str, Any]:
        known = snapshot.catalogue.by_id.get(table_id) if table is None else table
        name = f"table {table_id}" if known is None else str(known.reference)
        body = None if newest is None or table is None else newest.new_bytes
        document = None if body is None else codec.decode(body)
        return {"table": name, "key": collation.key_value(key), "document": document}

    # -----------------------------------------------------------------------------------------------------------
    # Following the log. Everything below is called under `_lock`

    def _follow(self, snapshot: Snapshot, decided: Moved | None) -> int:
        """Take in the commits up to the snapshot. Returns the seq up to which history was removed.

        Args:
            decided: The newest move whose commit was decided before the snapshot began. An older snapshot lacks the commit, also
                where it is stored.
        """
        low = read_low_water(snapshot.connection)
        head = snapshot.seq
        moved = self._moved
        if moved is not None and (head >= moved.seq or moved is decided):
            self._settle(snapshot)
        if head <= self._seq:
            return low
        if self._seq < low:
            # Commits of the origin may be among the removed ones.
            lost = HistoryLost(self._seq, low + 1, "undo: ")
            self._forget()
            self._lost, self._seq = lost, head
            return low
        is_of_kept: dict[int, bool] = {}
        for change in read_all_changes(snapshot, self._seq):
            if change.origin != self._origin or change.table_id == CATALOGUE:
                continue
            table_id = change.table_id
            is_kept = is_of_kept.get(table_id)
            if is_kept is None:
                table = snapshot.catalogue.by_id.get(table_id)
                # Tables that follow others change with them.
                is_kept = is_of_kept[table_id] = table is not None and (
                    table.hook == KEPT or isinstance(table.reference, HiddenTable)
                )
            if not is_kept:
                self._add(change)
        self._seq = head
        return low

    def _add(self, change: Change) -> None:
        """Take in a change of the origin."""
        place = change.table_id, change.key_bytes
        version = self._restored_version(place, change.prev)
        step = self._undo[-1] if self._undo and not self._redo else None
        if step is None or (step.last < change.commit and step is not self._group_step):
            step = self._begin(change)
        known = step.versions.get(place)
        if known is not None and known.after != version:
            # Another origin's commit lies between.
            step = self._begin(change)
            known = None
        step.versions[place] = Versions(version if known is None else known.before, change.seq)
        step.last = change.seq

    def _restored_version(self, place: Place, seq: int | None) -> int | None:
        restored = self._restored.get(place)
        return restored[1] if restored is not None and restored[0] == seq else seq

    def _begin(self, change: Change) -> UndoStep:
        step = UndoStep(self._groups[0] if self._groups else None, change.seq)
        self._lost = None
        self._redo.clear()
        self._undo.append(step)
        if self._groups:
            self._group_step = step
        if len(self._undo) > self._limit:
            del self._undo[0]
        if len(self._restored) > 1_000 and len(self._restored) > 2 * sum(
            len(one.versions) for one in self._undo
        ):
            needed = {one for step in self._undo for one in step.versions}
            self._restored = {one: what for one, what in self._restored.items() if one in needed}
        return step

    def _settle(self, snapshot: Snapshot) -> None:
        """See in the log whether the commit of the last undo or redo is stored. If not, the step is where it was."""
        moved, self._moved = self._moved, None
        if moved is None:
            return
        entry = snapshot.entry(moved.seq) if moved.seq <= snapshot.seq else None
        if entry is not None and (entry.origin, entry.table_id, entry.key_bytes) == moved.mark:
            return
        if moved.result is not None and moved.target and moved.target[-1] is moved.result:
            moved.target.pop()
        moved.source.append(moved.step)
        for place, restored in moved.restored.items():
            if restored is None:
                self._restored.pop(place, None)
            else:
                self._restored[place] = restored

    def _forget(self) -> None:
        self._undo.clear()
        self._redo.clear()
        self._restored.clear()
        self._group_step = None
