"""CurrentRows: the rows of a table of current documents, one row a document and one column a field.

A chunk has of each key its newest document, which replaces the row of that key, or removes it. Rows are found by the column of
the primary key. If a key does not fit that column, as with numbers among texts, all rows get the column `_key` with the key as
JSON, and are found by it.

Rule of this file: the newest document of a key is all that counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from reactdb.arrow.casting import InexactNumber
from reactdb.arrow.keys import STRING, key_values
from reactdb.errors import SchemaMismatch
from reactdb.json import dumps
from reactdb.lake.file_reader import FileReader, RowPage, page_of_documents
from reactdb.lake.file_states import FileState
from reactdb.lake.parts import DatabasePosition
from reactdb.lake.rows import (
    CONFLICTS,
    DATABASE,
    INSERT,
    KEY,
    SOURCE,
    TEXT,
    KeyMisfit,
    MergedRows,
    json_keys,
    make_batch,
)
from reactdb.lake.target import LakeTable, Note, TargetState
from reactdb.store.catalogue import TableInfo

# Documents that are made into arrays together.
PAGE_ROWS = 2_000


class CurrentRows(MergedRows):
    has_past = False
    database = DATABASE

    def begin(self, state: TargetState | None, *, is_first: bool = False) -> None:
        settings = {} if state is None else state.settings
        self._primary_key: str | None = settings.get("primary_key")
        self._has_key = state is not None and KEY in state.schema.names
        self._has_rows = state is not None and not settings.get("is_empty")
        super().begin(state, is_first=is_first)

    def restart(self) -> None:
        super().restart()
        self.columns.key_field = self._primary_key

    def adapt(self, misfit: InexactNumber | KeyMisfit) -> None:
        if isinstance(misfit, InexactNumber):
            super().adapt(misfit)
            return
        if self.kept is not None and self.contract != "evolve":
            raise SchemaMismatch(
                f"a key of table `{self.table}`",
                f"it is not of the type of column {self._primary_key}",
                "contract evolve writes the table anew, with a column for all keys",
            ) from None
        assert not self._has_key
        self._has_key = True

    @property
    def is_empty(self) -> bool:
        # A document may have no field that can be a column, such as one with the primary key `_key` alone.
        return super().is_empty and not self._has_rows

    @property
    def is_rewritten(self) -> bool:
        return self._has_key and self.kept is not None and KEY not in self.kept.names

    def table_ids(self, reader: FileReader, before: DatabasePosition | None) -> tuple[int, ...] | None:
        # A table that was made since the last run may have another primary key than those of the other files.
        info = self.table_at(reader, reader.file.position.seq)
        if info is None:
            return ()
        self._take_primary_key(info)
        return (info.id,)

    def _take_primary_key(self, info: TableInfo) -> None:
        """Find rows by the primary key of this table, which all files must have then.

        Raises:
            KeyMisfit.
        """
        if self._primary_key is None:
            self._primary_key = info.primary_key
        elif self._primary_key != info.primary_key and not self._has_key:
            raise KeyMisfit
        self.columns.key_field = self._primary_key

    def whole(self, reader: FileReader, info: TableInfo, seq: int) -> Iterator[pa.RecordBatch]:
        self._take_primary_key(info)
        self.progress.expect(reader.count(info))
        for page in reader.documents(info, seq):
            yield self._batch(page)
            self.progress.step(len(page))

    def _with_keys(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self._has_key or KEY in rows.schema.names:
            return rows
        keys = rows.column(self._primary_key).to_pylist()
        return rows.append_column(KEY, pa.array(list(map(dumps, keys)), TEXT))

    # -----------------------------------------------------------------------------------------------------------
    # The chunk

    def clear(self) -> None:
        super().clear()
        # Database -> key -> (whether there was a document before the chunk, the newest document or None).
        self._documents: dict[str, tuple[FileState, dict[bytes, tuple[bool, bytes | None]]]] = {}

    def add(self, page: RowPage) -> None:
        _, documents = self._documents.setdefault(page.file.database, (page.file, {}))
        for key, op, body in zip(page.keys, page.ops, page.bodies, strict=True):
            known = documents.get(key)
            was_there = op != INSERT if known is None else known[0]
            # Only the newest document of a key is kept.
            self.size_bytes += len(body or b"") - len((known and known[1]) or b"")
            documents[key] = (was_there, body)

    def chunk(self) -> pa.Table | None:
        batches = []
        self._gone: list[tuple[str, bytes]] = []
        # The numbers of inserted and of updated documents.
        self._counts = [0, 0]
        for file, documents in self._documents.values():
            present = []
            for key, (was_there, body) in documents.items():
                if body is not None:
                    present.append((key, body))
                    self._counts[was_there] += 1
                elif was_there:
                    self._gone.append((file.database, key))
            for start in range(0, len(present), PAGE_ROWS):
                keys, bodies = zip(*present[start : start + PAGE_ROWS], strict=True)
                batches.append(self._batch(page_of_documents(file, "", 0, keys, bodies)))
        return self._table(batches) if batches or self._gone else None

    def merge(self, target: LakeTable, rows: pa.Table, note: Note) -> tuple[int, int, int | None]:
        key = KEY if self._has_key else str(self._primary_key)
        keys = [key_bytes for _, key_bytes in self._gone]
        made = json_keys(keys) if self._has_key else pa.array(key_values(keys), rows.schema.field(key).type)
        deleted = {key: made}
        if self.is_fleet:
            deleted = {DATABASE: pa.array([database for database, _ in self._gone], TEXT), key: made}
        target.merge(rows, pa.table(deleted), list(deleted), note)
        inserted, updated = self._counts
        return inserted, updated, len(keys)

    # -----------------------------------------------------------------------------------------------------------
    # Columns

    def _batch(self, page: RowPage) -> pa.RecordBatch:
        documents, conflicts = self.columns.convert(page.bodies)
        self._has_rows = True
        made: dict[str, Any] = {}
        if self.is_fleet:
            made[DATABASE] = pa.repeat(page.file.database, len(page))
            made[SOURCE] = pa.repeat(page.file.path, len(page))
        if self._has_key:
            made[KEY] = json_keys(page.keys)
        made |= dict(zip([field.name for field in documents.type], documents.flatten(), strict=True))
        if not self._has_key:
            keys = made.get(str(self._primary_key))
            if keys is None or keys.null_count:
                raise KeyMisfit
            # A UUID is text as a value, and is no text as a key.
            is_text = pa.types.is_string(keys.type) and {key[0] for key in page.keys} == {STRING}
            if not is_text and not pa.types.is_int64(keys.type):
                raise KeyMisfit
        return make_batch(made, conflicts)

    def _fields(self) -> list[pa.Field]:
        names = [*((DATABASE, SOURCE) if self.is_fleet else ()), *([KEY] if self._has_key else [])]
        if self.is_empty:
            names.append(str(self._primary_key))
        return [pa.field(name, TEXT) for name in names] + list(self.columns.type)

    def _kept_fields(self, schema: pa.Schema) -> list[pa.Field]:
        return [field for field in schema if field.name not in self._reserved()]

    def _reserved(self) -> frozenset[str]:
        return frozenset({KEY, CONFLICTS, *((DATABASE, SOURCE) if self.is_fleet else ())})

    def _path_in_document(self, path: str) -> str:
        return path

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "primary_key": self._primary_key}
