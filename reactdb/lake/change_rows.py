"""ChangeRows: the rows of a table of changes, one row a change, with the documents before and after.

Rows are only added, in the order of the log. So no file is written as a whole: a table begins with its first chunk. If compaction
has removed the beginning of a log, the documents as they were then come first, with the `op` `read`.

Rule of this file: rows are staged as they come, because a later page may widen their columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa

from reactdb.arrow.arrays import moments
from reactdb.arrow.documents import json_texts
from reactdb.errors import HistoryDiverged
from reactdb.lake.file_reader import FileReader, RowPage
from reactdb.lake.parts import DatabasePosition
from reactdb.lake.rows import LONG, SOURCE, TEXT, TIME, ReadProgress, TableRows
from reactdb.lake.staging import StagedRows


class ChangeRows(TableRows):
    """As `TableRows`.

    Args:
        stage: Has the rows of the chunk.
        is_text: Documents are JSON text, as those of several tables must be.
    """

    layout: ClassVar = {
        "database": TEXT,
        "seq": LONG,
        "table": TEXT,
        "key": TEXT,
        "key_bytes": pa.binary(),
        "op": TEXT,
        "ts": TIME,
        "commit": LONG,
        "origin": TEXT,
        "old": None,
        "new": None,
        SOURCE: TEXT,
    }
    with_old = True

    def __init__(
        self,
        table: str | None,
        is_fleet: bool,
        contract: str,
        progress: ReadProgress,
        stage: StagedRows,
        *,
        is_text: bool,
    ) -> None:
        self.stage = stage
        self.is_text = is_text
        super().__init__(table, is_fleet, contract, progress)

    def clear(self) -> None:
        super().clear()
        self.stage.clear()

    def add(self, page: RowPage) -> None:
        self.stage.add(self._batch(page))
        self.size_bytes += page.size_bytes

    def table_ids(self, reader: FileReader, before: DatabasePosition | None) -> tuple[int, ...] | None:
        if self.table is None:
            return None
        if before is not None and reader.was_renamed(self.table, before.seq):
            # The older changes of a renamed table are missing, or are too many.
            raise HistoryDiverged(
                f"a table of {reader.file.path} was renamed to or from {self.table} since it was read up to seq "
                f"{before.seq}: write all changes of the present table anew with overwrite=True (--overwrite)"
            )
        return reader.table_ids(self.table)

    def first_documents(self, reader: FileReader) -> Iterator[RowPage]:
        file = reader.file
        for name, created in file.position.tables.items():
            if self.table in (None, name) and created <= file.oldest:
                info = reader.table_at(name, file.position.seq)
                if info is not None:
                    yield from reader.documents(info, file.oldest)

    @property
    def is_empty(self) -> bool:
        return not self.is_text and super().is_empty

    def _batch(self, page: RowPage) -> pa.RecordBatch:
        made = {
            "ts": moments(page.times),
            "commit": pa.array(page.commits, LONG),
            SOURCE: pa.repeat(page.file.path, len(page)),
        }
        if self.is_text:
            made |= {"old": json_texts(page.olds), "new": json_texts(page.bodies)}
            return self._log_batch(page, made, {})
        made["old"], old_conflicts = self.columns.convert(page.olds)
        made["new"], new_conflicts = self.columns.convert(page.bodies)
        return self._log_batch(page, made, {"old": old_conflicts, "new": new_conflicts})
