"""VersionRows: the rows of a table of versions, one row a version of a document, with when it began and ended.

Each change but a deletion begins a version, and ends the version before it of the same key. A chunk adds the versions that its
changes begin, and writes the row of each older version that they end once more, with its end.

Rule of this file: a version has one row, which is found by the database, the key and the seq of the change that began it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from reactdb.arrow.arrays import moments
from reactdb.arrow.casting import cast_batch
from reactdb.lake.file_reader import FileReader, RowPage
from reactdb.lake.rows import INSERT, LONG, TEXT, TIME, MergedRows
from reactdb.lake.target import LakeTable, Note
from reactdb.store.catalogue import TableInfo

KEYS = ("database", "key_bytes", "seq")


class VersionRows(MergedRows):
    database = "database"
    layout: ClassVar = {
        "database": TEXT,
        "table": TEXT,
        "key": TEXT,
        "key_bytes": pa.binary(),
        "valid_from": TIME,
        "valid_to": TIME,
        "is_current": pa.bool_(),
        "seq": LONG,
        "next_seq": LONG,
        "op": TEXT,
        "origin": TEXT,
        "document": None,
    }

    def whole(self, reader: FileReader, info: TableInfo, seq: int) -> Iterator[pa.RecordBatch]:
        """All versions, each with its end.

        The log is read twice: the first time for the change that follows each change. That takes 16 bytes a change.
        """
        since = reader.file.oldest
        # At the place `seq - since - 1` of each change: the seq of the next change of the same key, or 0; and the time of the
        # change itself.
        following, times = array("q", bytes(8 * (seq - since))), array("q", bytes(8 * (seq - since)))
        # Key of a document from before `since` -> its first change, which ends the version that the log begins with.
        after_base: dict[bytes, tuple[int, int]] = {}
        self.progress.expect(2 * (seq - since))
        for page in self._pages(reader, info, since, seq):
            rows = zip(page.seqs, page.prevs, page.times, page.ops, page.keys, strict=True)
            for number, prev, time, op, key in rows:
                assert time is not None
                times[number - since - 1] = time
                if prev is not None and prev > since:
                    following[prev - since - 1] = number
                elif op != INSERT:
                    after_base[key] = (number, time)
        if since and info.created <= since:
            for page in reader.documents(info, since):
                yield self._batch(page, [after_base.get(key) for key in page.keys])
        for page in self._pages(reader, info, since, seq):
            begun = page.pick([place for place, body in enumerate(page.bodies) if body is not None])
            nexts = [following[number - since - 1] for number in begun.seqs]
            if nexts:
                yield self._batch(
                    begun, [(number, times[number - since - 1]) if number else None for number in nexts]
                )

    def _pages(self, reader: FileReader, info: TableInfo, since: int, until: int) -> Iterator[RowPage]:
        while since < until:
            page, since = reader.changes(since, until, (info.id,), with_old=False)
            if page is not None:
                yield page
                self.progress.step(len(page))

    # -----------------------------------------------------------------------------------------------------------
    # The chunk

    def clear(self) -> None:
        super().clear()
        self._chunk: list[RowPage] = []

    def add(self, page: RowPage) -> None:
        self._chunk.append(page)
        self.size_bytes += page.size_bytes

    def chunk(self) -> pa.Table | None:
        # (database, key) -> the seq, the time and the kind of the change that follows. The oldest change comes last.
        following: dict[tuple[str, bytes], tuple[int, int, str]] = {}
        begun: list[tuple[RowPage, list[Any]]] = []
        for page in reversed(self._chunk):
            places, ends = [], []
            for place in reversed(range(len(page))):
                name = (page.file.database, page.keys[place])
                if page.bodies[place] is not None:
                    places.append(place)
                    ends.append(following.get(name))
                following[name] = (page.seqs[place], page.times[place] or 0, page.ops[place])
            if places:
                begun.append((page.pick(places[::-1]), ends[::-1]))
        batches = [self._batch(page, ends) for page, ends in reversed(begun)]
        # The versions from before the chunk that its changes end.
        self._ended = {name: end for name, end in following.items() if end[2] != INSERT}
        return self._table(batches) if batches or self._ended else None

    def merge(self, target: LakeTable, rows: pa.Table, note: Note) -> tuple[int, int, int | None]:
        closed = self._closed(target, rows.schema)
        nothing = pa.schema([rows.schema.field(name) for name in KEYS]).empty_table()
        target.merge(pa.concat_tables([closed, rows]), nothing, KEYS, note)
        return rows.num_rows, closed.num_rows, None

    def _closed(self, target: LakeTable, schema: pa.Schema) -> pa.Table:
        """The rows of the versions from before the chunk, with their ends."""
        if not self._ended:
            return schema.empty_table()
        databases, keys = zip(*self._ended, strict=True)
        wanted = pa.table({"database": pa.array(databases, TEXT), "key_bytes": pa.array(keys, pa.binary())})
        found = target.lookup(wanted, where_current=True)
        names = zip(found.column("database").to_pylist(), found.column("key_bytes").to_pylist(), strict=True)
        columns = dict(zip(found.schema.names, found.columns, strict=True)) | _end_columns(
            [self._ended[name] for name in names]
        )
        return cast_batch(pa.table(columns), schema)

    def _batch(self, page: RowPage, ends: Sequence[Any]) -> pa.RecordBatch:
        """The versions that the changes of a page began. `ends`: as `_end_columns` has them."""
        documents, conflicts = self.columns.convert(page.bodies)
        made = {"valid_from": moments(page.times), **_end_columns(ends), "document": documents}
        return self._log_batch(page, made, {"document": conflicts})


def _end_columns(ends: Sequence[Any]) -> dict[str, Any]:
    """The columns that tell when versions ended.

    Args:
        ends: The seq and the time (milliseconds) of the change that ended the version; None: the version still holds.
    """
    return {
        "valid_to": moments([None if end is None else end[1] for end in ends]),
        "is_current": pa.array([end is None for end in ends], pa.bool_()),
        "next_seq": pa.array([None if end is None else end[0] for end in ends], LONG),
    }
