"""Partitions: the log as the events of a durable consumer, each change in the partition of its key.

    Backlog            changes of one partition that were read and not acknowledged yet
    PartitionReader    reads the log once for all the partitions of a worker, and deals the changes out to their backlogs

Partitions at different places of the log meet where the furthest behind catches up. A partition with more than its
share of held changes is skipped, and reads by itself later.

A page is read, and its checksums compared, once for all; documents are decoded for a batch.

Rule of this file: it reads. Leases, batches and time are the worker's business, in `worker`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast
from zlib import crc32

from reactdb.change import CATALOGUE, GONE_WITH_TABLE, WITH_TABLE, Change
from reactdb.durable.dead_letters import DEAD_LETTERS, OF_TABLE, event_of_log
from reactdb.errors import UnsupportedFeed
from reactdb.feeds.compiler import Plan, compile_query
from reactdb.feeds.events import Event
from reactdb.feeds.failures import Failures
from reactdb.feeds.log_reader import PAGE_CHANGES, LogReader, StateAt
from reactdb.feeds.views.base import AnyDelta, StateReader, View, change_of
from reactdb.feeds.views.select import AllTablesView, PairingView, expand_table_change
from reactdb.query import ALL_TABLES, Query
from reactdb.store.catalogue import TableInfo
from reactdb.store.log import PastNames
from reactdb.store.snapshot import Snapshot

if TYPE_CHECKING:
    from reactdb.session import Session

# The fewest changes that are read at a time where only some of them are selected: a page costs some 20 µs whatever is on it.
FEWEST_READ = 32
# Changes that all parts hold together, before a partial batch of one of them is delivered.
MOST_HELD = 10_000

ROW_WISE = (
    "a consumer gets each change once, so its selection is evaluated document by document: take order_by with limit, "
    "aggregates, group, distinct and union out of its selection, and compute them from the changes"
)

SEQ = attrgetter("seq")
NOTHING: dict[str, Any] = {}


def partition_of(key_bytes: bytes, partitions: int) -> int:
    """Which partition has the changes of a key: the CRC-32 of the key's bytes, modulo their number. It is the same for ever."""
    return crc32(key_bytes) % partitions


def compile_row_wise(query: Query, snapshot: Snapshot) -> Plan:
    """The query compiled, if it can be looked at document by document.

    Raises:
        UnsupportedFeed: It cannot.
        TableNotFound, IndexNotFound, QueryError: The query cannot be executed.
    """
    plan = compile_query(query, snapshot, Failures(query.table, raises=True))
    if not isinstance(plan.view, (PairingView, AllTablesView)):
        raise UnsupportedFeed(ROW_WISE)
    return plan


class Backlog:
    """Changes of one partition that were read and not acknowledged yet.

    Attributes:
        number: The partition's.
        read_to: Every change up to this seq was looked at.
        waiting: The selected changes, in the order of the log.
        failure: The change that comes next, where the selection cannot be worked out for it, and why.
    """

    __slots__ = ("failure", "number", "read_to", "waiting")

    def __init__(self, number: int, seq: int) -> None:
        self.number = number
        self.read_to = seq
        self.waiting: list[AnyDelta] = []
        self.failure: tuple[Change, Exception] | None = None

    @property
    def passed(self) -> int:
        """Note that this partition has no change between its position and this one."""
        return self.waiting[0].seq - 1 if self.waiting else self.read_to

    def move(self, seq: int) -> None:
        """Everything up to `seq` is done with."""
        waiting = self.waiting
        if waiting and waiting[0].seq <= seq:
            del waiting[: bisect_right(waiting, seq, key=SEQ)]
        self.read_to = max(self.read_to, seq)
        if self.failure is not None and self.failure[0].seq <= seq:
            self.failure = None

    def next(self, most: int) -> tuple[Sequence[AnyDelta], int]:
        """The first that wait, at most `most`, and the position after them."""
        waiting = self.waiting
        if len(waiting) <= most:
            return waiting, self.read_to
        seq = waiting[most].seq
        if waiting[most - 1].seq == seq:
            # The documents of a dropped table go with one seq, and a position is a seq: all of them, or none.
            most = bisect_left(waiting, seq, key=SEQ) or bisect_right(waiting, seq, key=SEQ)
            if most == len(waiting):
                return waiting, self.read_to
            seq = waiting[most].seq
        return waiting[:most], seq - 1


class PartitionedView:
    """A view of a row-wise view's reports for some partitions, once a change; for a dropped or renamed table, once a
    document.

    Attributes:
        read_to: By the number of each of these partitions, the position that it has read to already; None: every
            change is needed.
        tells_names: As of the view of all tables.
    """

    is_stateful = False

    def __init__(self, view: PairingView | AllTablesView, partitions: int) -> None:
        self.view = view
        self.read_to: dict[int, int] | None = None
        self._partitions = partitions
        self._is_of_all = self.tells_names = isinstance(view, AllTablesView)

    def tables(self) -> Sequence[TableInfo]:
        return self.view.tables()

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        if self._is_of_all and change.table == DEAD_LETTERS:
            # Otherwise the dead letters of a consumer of all tables would come back to it.
            return ()
        if change.table_id == CATALOGUE:
            return [one for one in self.view.advance(change, reader) if self._is_wanted(change_of(one))]
        return self.view.advance(change, reader)[:1] if self._is_wanted(change) else ()

    def _is_wanted(self, change: Change) -> bool:
        if self.read_to is None:
            return True
        read_to = self.read_to.get(partition_of(change.key_bytes, self._partitions))
        return read_to is not None and change.seq > read_to


class PartitionReader:
    """See the head of this file.

    Attributes:
        end: The end of the log at the last read: a partition that has read to there is not behind. None: look again.

    Thread safety: one thread at a time.
    """

    def __init__(self, session: Session, query: Query) -> None:
        self.end: int | None = None
        self._session = session
        self._query = query
        self._plan: tuple[object, Plan] | None = None
        self._names = PastNames()

    def fill(self, part: Backlog, most: int, parts: Collection[Backlog], partitions: int) -> bool:
        """Read on until `part` has `most` changes, or all parts together have too many, or the next change fails.

        Args:
            parts: The parts of all partitions of this worker.
            partitions: How many there are.

        Returns:
            Whether it has all that was committed when the log was read last.

        Raises:
            HistoryLost: Changes that one of them needs were removed.
            TableNotFound, IndexNotFound: A table or an index of the selection was dropped.
        """
        while len(part.waiting) < most and part.failure is None:
            if self.end is not None and part.read_to >= self.end:
                return True
            # A part keeps early changes, because they would have to be read once more; up to its share, because its
            # turn may not come for long.
            enough = max(most, MOST_HELD // len(parts))
            takers = [one for one in parts if one.failure is None and len(one.waiting) < enough]
            if len(parts) > 1 and sum(len(one.waiting) for one in parts) >= MOST_HELD:
                if part.waiting:
                    return False
                # Others have too much, and may not be able to get rid of it now.
                takers = [part]
            with self._session.read() as snapshot:
                self._read_page(snapshot, most * len(takers), takers, partitions)
        return False

    def _read_page(self, snapshot: Snapshot, most: int, takers: Sequence[Backlog], partitions: int) -> None:
        """Read a page from the position of the furthest behind, about as long as these parts need it."""
        by_number = {part.number: part for part in takers}
        start = min(part.read_to for part in takers)
        read_to = None
        if len(takers) < partitions or any(part.read_to != start for part in takers):
            read_to = {part.number: part.read_to for part in takers}
        plan = self._plan_of(snapshot, read_to, partitions)
        names = self._names if getattr(plan.view, "tells_names", False) else None
        reader = LogReader(self._session.engine, plan, start, names=names)
        deltas, is_last = reader.read(snapshot, min(PAGE_CHANGES, max(FEWEST_READ, most)))
        if partitions == 1:
            takers[0].waiting += deltas
        else:
            takes = {part.number: part.waiting.append for part in takers}
            for delta in deltas:
                takes[partition_of(change_of(delta).key_bytes, partitions)](delta)
        for part in takers:
            part.read_to = max(part.read_to, reader.position)
        if is_last:
            self.end = reader.position
        elif reader.failure is not None:
            change = _read_next_change(snapshot, reader)
            by_number[partition_of(change.key_bytes, partitions)].failure = change, reader.failure

    def _plan_of(self, snapshot: Snapshot, read_to: dict[int, int] | None, partitions: int) -> Plan:
        made = self._plan
        if made is None or made[0] is not snapshot.catalogue:
            made = self._plan = snapshot.catalogue, compile_row_wise(self._query, snapshot)
        plan = made[1]
        view = plan.view
        assert isinstance(view, (PairingView, AllTablesView))
        if read_to is None and isinstance(view, PairingView) and view.is_verbatim:
            # Its changes are given as they are, each once.
            return plan
        wanted = PartitionedView(view, partitions)
        wanted.read_to = read_to
        # The part of a view's interface that a reader of the log needs.
        return Plan(cast("View", wanted), plan.key, False, plan.failures)

    def events(self, deltas: Sequence[AnyDelta]) -> list[Event]:
        """Some of the waiting changes, as events."""
        engine, events = self._session.engine, []
        with self._session.read() as snapshot:
            by_id = snapshot.catalogue.by_id
            # A change belongs to the last epoch that began before it: no later epoch can begin there any more.
            names = [engine.epochs.at(snapshot.connection, deltas[place].seq - 1) for place in (0, -1)]
            prefix = f"{engine.database_id}.{names[0]}."
            is_one_epoch = names[0] == names[1]
            info: TableInfo | None = None
            for delta in deltas:
                if type(delta) is Change:
                    change, (old, new) = delta, delta.documents()
                else:
                    change, old, new = delta.change, delta.old_val, delta.new_val  # type: ignore[union-attr]
                seq = change.seq
                if not is_one_epoch:
                    prefix = f"{engine.database_id}.{engine.epochs.at(snapshot.connection, seq - 1)}."
                if info is None or info.id != change.table_id:
                    info = by_id.get(change.table_id)
                key = None if info is None else (change.new or change.old or NOTHING).get(info.primary_key)
                events.append(
                    {
                        "table": change.table,
                        # Most keys are in the document in their plainest form, and need not be read from bytes.
                        "key": key if type(key) is str or type(key) is int else change.key,
                        "type": "add" if old is None else "remove" if new is None else "change",
                        "old_val": old,
                        "new_val": new,
                        "seq": seq,
                        "id": f"{prefix}{seq}" if change.kind_code < WITH_TABLE else _id_of(prefix, change),
                    }
                )
        return events


def _id_of(prefix: str, change: Change) -> str:
    """The id of a document that is removed or added with its table: other documents share its seq."""
    what = "gone" if change.kind_code == GONE_WITH_TABLE else "came"
    return f"{prefix}{change.seq}{OF_TABLE}{what}{OF_TABLE}{change.key_bytes.hex()}"


def events_at(session: Session, snapshot: Snapshot, seq: int, partition: int, partitions: int) -> list[Event]:
    """The change at `seq` as events of a partition, from the log; without its documents, where they were removed."""
    change = snapshot.entry(seq)
    if change is None:
        return [{"table": None, "key": None, "seq": seq, "type": None, "old_val": None, "new_val": None}]
    if change.table_id != CATALOGUE:
        return [event_of_log(change)]
    documents = expand_table_change(change, StateAt(session.engine, snapshot))
    mine = [one for one in documents if partition_of(one.key_bytes, partitions) == partition]
    return PartitionReader(session, Query(ALL_TABLES)).events(mine)


def _read_next_change(snapshot: Snapshot, reader: LogReader) -> Change:
    """The change that the reader could not take in."""
    tables = reader.plan.view.tables()
    (change,) = snapshot.changes(reader.position, None, tables[0] if tables else None, 1)
    # The old document is read now: the snapshot ends.
    change.old_val  # noqa: B018
    return change
