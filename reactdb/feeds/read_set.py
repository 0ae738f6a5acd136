"""ReadSet: the keys, ranges and tables that a computation has read, and so the changes that can change its result.

    one key               also one that was absent
    a range of keys       also an empty one
    a range of an index
    a whole table         a scan, a count, or too many small parts
    everything            the newest seq, the log
    always                changes of tables and indexes: a missing table may be made, an index dropped

A TrackedSnapshot notes each read in the set. The hub gives changes to a ReadSetView, and it reports those of the set.

Rule of this file: a set may be too wide, never too narrow. If a limit ended a read, the set has the range up to its last row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reactdb.change import CATALOGUE, Change, TableReference
from reactdb.feeds.compiler import Plan
from reactdb.feeds.failures import Failures, Say
from reactdb.feeds.query_text import MOST_SHOWN, cut
from reactdb.feeds.request import Request
from reactdb.feeds.router import Router
from reactdb.feeds.views.axes import IndexAxis
from reactdb.feeds.views.base import (
    AnyDelta,
    Everywhere,
    Initial,
    OneKey,
    Route,
    StateReader,
    ValueRange,
    WholeTable,
)
from reactdb.query import ALL_TABLES, Query
from reactdb.store.catalogue import HIDDEN_VALUE_BYTES, Catalogue, IndexInfo, TableInfo
from reactdb.store.engine import Engine
from reactdb.store.snapshot import GREATEST, LEAST, Entry, Row, Snapshot, ValueCount
from reactdb.store.sums import Tally

# Keys and ranges of one table that are kept apart. Beyond that, the whole table counts as read.
MOST_PARTS = 1_000

AFTER = b"\x00"


class HiddenAxis:
    """The overlong values of a document, cut to the stored length."""

    __slots__ = ("_id", "index")

    looks_inside = False

    def __init__(self, index: IndexInfo) -> None:
        self.index = index
        self._id = index.id

    def values(self, change: Change) -> Sequence[bytes]:
        documents = (change.old_val, change.new_val)
        rows = [self.index.stored_entries(document) for document in documents if document is not None]
        return [value for some in rows for index_id, value, _ in some if index_id < 0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HiddenAxis) and other.index.id == self.index.id

    def __hash__(self) -> int:
        return hash((HiddenAxis, self.index.id))


Range = tuple[bytes, bytes]
ReadAxis = IndexAxis | HiddenAxis | None


class ReadSet:
    """See the head of this file. Not thread safe."""

    def __init__(self) -> None:
        self._tables: dict[int, TableInfo] = {}
        self._whole: set[int] = set()
        self._keys: dict[int, set[bytes]] = {}
        self._ranges: dict[tuple[int, ReadAxis], list[Range]] = {}
        self._is_everything = False

    def add_everything(self) -> None:
        self._is_everything = True

    def add_table(self, table: TableInfo) -> None:
        self._tables[table.id] = table
        self._whole.add(table.id)

    def add_key(self, table: TableInfo, key: bytes) -> None:
        self._tables[table.id] = table
        keys = self._keys.setdefault(table.id, set())
        keys.add(key)
        if len(keys) > MOST_PARTS:
            self._whole.add(table.id)

    def add_range(self, table: TableInfo, index: IndexInfo | None, start: bytes, stop: bytes) -> None:
        """start <= value < stop, of an index or of the primary key."""
        if start <= LEAST and stop >= GREATEST and index is None:
            self.add_table(table)
            return
        self._add_range(table, None if index is None else IndexAxis(index), start, stop)

    def add_hidden_range(self, table: TableInfo, index: IndexInfo, start: bytes, stop: bytes) -> None:
        """The same for values beyond the length limit of the index."""
        self._add_range(table, HiddenAxis(index), start, stop)

    def _add_range(self, table: TableInfo, axis: ReadAxis, start: bytes, stop: bytes) -> None:
        self._tables[table.id] = table
        ranges = self._ranges.setdefault((table.id, axis), [])
        if ranges and start <= ranges[-1][1] and ranges[-1][0] <= stop:
            # The next page of a read.
            start, stop = min(start, ranges[-1][0]), max(stop, ranges[-1][1])
            del ranges[-1]
        ranges.append((start, stop))
        if len(ranges) > MOST_PARTS:
            self._whole.add(table.id)

    def add(self, other: ReadSet) -> None:
        """Everything of another set."""
        self._is_everything |= other._is_everything
        self._tables |= other._tables
        self._whole |= other._whole
        for table_id, keys in other._keys.items():
            self._keys.setdefault(table_id, set()).update(keys)
        for place, ranges in other._ranges.items():
            mine = self._ranges.setdefault(place, [])
            mine += [one for one in ranges if one not in mine]

    def routes(self) -> list[Route]:
        """The changes that concern it."""
        if self._is_everything:
            return [Everywhere()]
        routes: list[Route] = [WholeTable(CATALOGUE)]
        routes += [WholeTable(table_id) for table_id in sorted(self._whole)]
        for table_id, keys in self._keys.items():
            if table_id not in self._whole:
                routes += [OneKey(table_id, key) for key in sorted(keys)]
        for (table_id, axis), ranges in self._ranges.items():
            if table_id not in self._whole:
                routes += [ValueRange(table_id, axis, *one) for one in ranges if one[0] < one[1]]
        return routes

    def describe(self) -> list[str]:
        """In words, for `stats()`."""
        if self._is_everything:
            return ["every change of the database"]
        texts = [f"{self._tables[table_id].name}: the whole table" for table_id in sorted(self._whole)]
        for table_id, keys in self._keys.items():
            if table_id not in self._whole:
                texts.append(f"{self._tables[table_id].name}: {_count(len(keys), 'key')}")
        for (table_id, axis), ranges in self._ranges.items():
            if table_id not in self._whole and not isinstance(axis, HiddenAxis):
                where = "the primary key" if axis is None else f"index {axis.index.name}"
                texts.append(f"{self._tables[table_id].name}: {_count(len(ranges), 'range')} of {where}")
        return texts

    def whole_tables(self) -> list[str]:
        """The names of the tables that count as read as a whole."""
        return [self._tables[table_id].name for table_id in sorted(self._whole)]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


class TrackedSnapshot(Snapshot):
    """A snapshot that notes its reads in `read_set`."""

    def __init__(self, now: Snapshot, read_set: ReadSet) -> None:
        super().__init__(now.connection, now.catalogue)
        self._now = now
        self._read_set = read_set

    @property
    def seq(self) -> int:
        self._read_set.add_everything()
        return self._now.seq

    def end(self) -> tuple[int, int, bool]:
        self._read_set.add_everything()
        return self._now.end()

    def table(self, name: TableReference) -> TableInfo | None:
        return self._now.table(name)

    def get(self, table: TableInfo, key: bytes) -> bytes | None:
        self._read_set.add_key(table, key)
        return self._now.get(table, key)

    def rows(
        self,
        table: TableInfo,
        start: bytes = LEAST,
        stop: bytes = GREATEST,
        *,
        reverse: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> list[Row]:
        rows = self._now.rows(table, start, stop, reverse=reverse, limit=limit, offset=offset)
        last = rows[-1].key if 0 <= limit <= len(rows) and rows else None
        self._note(table, None, start, stop, reverse, last)
        return rows

    def page(
        self,
        table: TableInfo,
        start: bytes,
        stop: bytes,
        reverse: bool,
        limit: int,
        tally: Tally | None = None,
        offset: int = 0,
    ) -> tuple[Sequence[bytes], Sequence[bytes]]:
        keys, bodies = self._now.page(table, start, stop, reverse, limit, tally, offset)
        self._note(table, None, start, stop, reverse, keys[-1] if 0 <= limit <= len(keys) and keys else None)
        return keys, bodies

    def entry_bodies(
        self,
        index: IndexInfo,
        table: TableInfo,
        start: bytes,
        stop: bytes,
        reverse: bool,
        limit: int,
        offset: int = 0,
    ) -> Sequence[bytes]:
        if limit >= 0:
            # With their values: these show how far the read went before its limit.
            entries = self.entries(index, start, stop, reverse=reverse, limit=limit, offset=offset)
            return [entry.body for entry in entries]
        self._note(table, index, start, stop, reverse, None)
        return self._now.entry_bodies(index, table, start, stop, reverse, limit, offset)

    def entries(
        self,
        index: IndexInfo,
        start: bytes = LEAST,
        stop: bytes = GREATEST,
        *,
        reverse: bool = False,
        limit: int = -1,
        offset: int = 0,
    ) -> list[Entry]:
        entries = self._now.entries(index, start, stop, reverse=reverse, limit=limit, offset=offset)
        last = entries[-1].value if 0 <= limit <= len(entries) and entries else None
        self._note(self.catalogue.by_id[index.table_id], index, start, stop, reverse, last)
        return entries

    def _note(
        self,
        table: TableInfo,
        index: IndexInfo | None,
        start: bytes,
        stop: bytes,
        reverse: bool,
        last: bytes | None,
    ) -> None:
        """`last`: the value at which a limit has ended the read; None: the read went to the end. Places before an offset count as
        read: a change among them moves the places after it."""
        if last is not None and reverse:
            start = last
        elif last is not None:
            stop = min(stop, last + AFTER)
        self._read_set.add_range(table, index, start, stop)

    def candidates(self, index: IndexInfo, ranges: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
        table, ranges = self.catalogue.by_id[index.table_id], list(ranges)
        for start, stop in ranges:
            self._read_set.add_range(table, index, start, stop)
            self._read_set.add_hidden_range(table, index, start[:HIDDEN_VALUE_BYTES], stop)
        return self._now.candidates(index, ranges)

    def pick(
        self, table: TableInfo, keys: Sequence[bytes], *, index: IndexInfo | None = None
    ) -> Iterator[Row]:
        # The entries of an index are noted. A change of their document is a change in their ranges.
        if index is None:
            for key in keys:
                self._read_set.add_key(table, key)
        return self._now.pick(table, keys, index=index)

    def keys(self, table: TableInfo) -> list[bytes]:
        self._read_set.add_table(table)
        return self._now.keys(table)

    def count(self, table: TableInfo) -> int:
        self._read_set.add_table(table)
        return self._now.count(table)

    def count_keys(self, table: TableInfo, start: bytes, stop: bytes) -> int:
        self._read_set.add_range(table, None, start, stop)
        return self._now.count_keys(table, start, stop)

    def count_entries(self, index: IndexInfo, start: bytes, stop: bytes, *, with_hidden: bool = False) -> int:
        table = self.catalogue.by_id[index.table_id]
        self._read_set.add_range(table, index, start, stop)
        if with_hidden:
            self._read_set.add_hidden_range(table, index, start, stop)
        return self._now.count_entries(index, start, stop, with_hidden=with_hidden)

    def count_indexed(self, index: IndexInfo, ranges: Sequence[tuple[bytes, bytes]]) -> int:
        for start, stop in ranges:
            self._read_set.add_range(self.catalogue.by_id[index.table_id], index, start, stop)
        return self._now.count_indexed(index, ranges)

    def value_counts(self, index: IndexInfo, start: bytes, stop: bytes) -> list[ValueCount]:
        self._read_set.add_range(self.catalogue.by_id[index.table_id], index, start, stop)
        return self._now.value_counts(index, start, stop)

    def newest_seq(self, table: TableInfo) -> int:
        self._read_set.add_table(table)
        return self._now.newest_seq(table)

    def changes(
        self,
        since: int,
        until: int | None = None,
        table: TableInfo | None = None,
        limit: int = 512,
        oldest: int | None = None,
    ) -> list[Change]:
        if table is None:
            self._read_set.add_everything()
        else:
            self._read_set.add_table(table)
        return self._now.changes(since, until, table, limit, oldest)

    def entry(self, seq: int) -> Change | None:
        self._read_set.add_everything()
        return self._now.entry(seq)

    def history(self, table: TableInfo, key: bytes) -> Iterator[Change]:
        self._read_set.add_key(table, key)
        return self._now.history(table, key)


class ReadSetView:
    """A view without a result: it reports each change that concerns a read set, as it is."""

    kind = "read set"
    is_stateful = False
    documents_held = 0

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        # The log is read change by change, without the hub's router.
        self._router: Router[str] = Router()
        self._router.add("here", routes)

    def tables(self) -> Sequence[TableInfo]:
        return ()

    def indexes(self) -> Sequence[tuple[int, str]]:
        return ()

    def routes(self) -> Sequence[Route]:
        return self._routes

    def seed(self, snapshot: Snapshot) -> None:
        pass

    def result(self, snapshot: Snapshot) -> Iterable[Initial]:
        return ()

    def advance(self, change: Change, reader: StateReader) -> Sequence[AnyDelta]:
        return (change,) if self.concerns(change) else ()

    def concerns(self, change: Change) -> bool:
        return bool(self._router.find(change))

    def describe(self) -> dict[str, Any]:
        return {"access": "what a function has read", "index": None}


class ReadSetRequest(Request):
    """A feed of the changes past `since` that concern a read set. Its events are their seqs and origins.

    It may drop changes, because one is enough to compute again.
    """

    __slots__ = ("_reads", "_routes", "_text")

    def __init__(
        self,
        engine: Engine,
        say: Say,
        routes: Sequence[Route],
        since: int,
        handle: object,
        reads: Sequence[str] = (),
        text: str = "",
    ) -> None:
        """`reads`, `text`: the read set and the computation, in words."""
        self._routes = routes
        self._reads = reads
        self._text = text
        options = {"since": since, "on_overflow": "drop", "changefeed_queue_size": 100}
        super().__init__(engine, say, Query(ALL_TABLES), options, handle)

    def compile_for(self, state: Snapshot | Catalogue) -> Plan:
        view = ReadSetView(self._routes)
        # Each read set is another one: equal sets would have to be compared.
        return Plan(view, object(), False, Failures("", raises=False, say=self._say))

    @property
    def text(self) -> str:
        return self._text

    @property
    def routing_text(self) -> str:
        return cut("; ".join(self._reads[:MOST_SHOWN]))

    def render(self, is_ordered: bool) -> Any:
        return render_seq


def render_seq(delta: AnyDelta) -> dict[str, Any]:
    return {"seq": delta.seq}
