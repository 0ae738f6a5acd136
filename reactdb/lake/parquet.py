"""Parquet: a table of the lake as a folder of Parquet files, without a table format.

    changes          FOLDER/increment=000001/part-00000.parquet, ...   parts that add up: read FOLDER
    current, scd2    FOLDER/_generation-000001/part-00000.parquet      only the newest counts: read FOLDER/latest
    as of a moment   FOLDER/part-00000.parquet                         written once: read FOLDER

`parts` has the rules by which a part appears as a whole, with its positions. A merge writes a new generation: it streams the rows
of the one before, without those that are replaced or removed. All files of a folder have one schema, because readers of Parquet
take that of the first file and leave other columns out without a word. So a new column is written into the older increments, file
by file; each of these files is replaced as a whole, the newest last, and its schema counts.

Rule of this file: rows are streamed, so memory is bounded by the rows of a call and a group of rows of a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reactdb.arrow.casting import cast_array
from reactdb.lake.data_files import (
    DataFileWriter,
    make_keys,
    open_parquet,
    scan_files,
    search_files,
    storage_errors,
    write_all,
)
from reactdb.lake.parts import (
    GENERATION,
    INCREMENT,
    LATEST,
    Manifest,
    PartFolder,
    flush,
    refuse_taken,
    whole_folder,
)
from reactdb.lake.schemas import needs_rewrite
from reactdb.lake.target import Note, TargetState

FILE = "part-00000.parquet"


class ParquetTarget:
    """A folder of parts as a `LakeTable`.

    Args:
        path: The folder.
        kind: `changes`, `current` or `scd2`.
    """

    def __init__(self, path: str, kind: str) -> None:
        self._folder = PartFolder(path, kind, INCREMENT if kind == "changes" else GENERATION)
        self._is_one_state = kind != "changes"
        self._newest: Manifest | None = None
        self._schema: pa.Schema | None = None

    @property
    def path(self) -> str:
        """What readers open."""
        if not self._is_one_state:
            return self._folder.path
        latest = os.path.join(self._folder.path, LATEST)
        numbers = self._folder.numbers()
        return latest if os.path.lexists(latest) or not numbers else self._folder.folder_of(numbers[-1])

    @contextmanager
    def lock(self) -> Iterator[None]:
        with self._folder.lock():
            if self._folder.numbers():
                # A run that was killed has not done it.
                with self._errors():
                    if self._is_one_state:
                        self._folder.point_to_newest()
                    else:
                        self._finish_widening()
            yield

    def state(self, databases: Mapping[str, Sequence[str]]) -> TargetState | None:
        self._newest = self._folder.newest()
        if self._newest is None:
            return None
        self._schema = read_schema(self._file(self._newest.number))
        return TargetState(self._schema, self._newest.settings, self._newest.positions)

    # -----------------------------------------------------------------------------------------------------------
    # Writes

    def create(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        return self._commit(schema, batches, note)

    def replace(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        if self._is_one_state:
            return self._commit(schema, batches, note)
        with self._errors(), self._folder.stage() as staged:
            count = write_file(staged, schema, batches)
            # The newest part goes first, so that what is left is whole at any moment: a beginning, with its own positions.
            for number in reversed(self._folder.numbers()):
                self._folder.remove(number)
            self._newest = None
            self._commit_staged(staged, schema, count, note)
        return count

    def append(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        if not self._is_one_state:
            return self._commit(schema, batches, note)
        assert self._newest is not None
        before = self._newest.rows
        return self._commit(schema, chain(self.scan(), batches), note) - before

    def merge(self, rows: pa.Table, deleted: pa.Table, keys: Sequence[str], note: Note) -> None:
        gone = make_keys(keys, rows.schema, rows, deleted)
        kept = (batch.filter(pc.invert(gone.mask(batch))) for batch in self.scan())
        self._commit(rows.schema, chain(kept, rows.to_batches()), note)

    def widen(self, schema: pa.Schema) -> None:
        assert self._newest is not None
        assert self._schema is not None
        self._check_exact(schema)
        if not self._is_one_state:
            with self._errors():
                for path in self._files():
                    self._rewrite(path, schema)
        # A state of its own gets the schema with its next generation, which has to be written anyway.
        self._schema = schema

    def advance(self, note: Note) -> None:
        assert self._newest is not None
        manifest = replace(self._newest, settings=dict(note.settings), positions=dict(note.positions))
        with self._errors():
            self._folder.replace_manifest(manifest)
        self._newest = manifest

    def _errors(self) -> AbstractContextManager[None]:
        return storage_errors(self._folder.path, "written")

    def _commit(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        with self._errors(), self._folder.stage() as staged:
            count = write_file(staged, schema, batches)
            self._commit_staged(staged, schema, count, note)
        return count

    def _commit_staged(self, staged: str, schema: pa.Schema, count: int, note: Note) -> None:
        numbers = self._folder.numbers()
        manifest = make_manifest(self._folder.kind, (numbers or [0])[-1] + 1, count, schema, note)
        self._folder.commit(staged, manifest)
        self._newest, self._schema = manifest, schema
        if self._is_one_state:
            self._folder.point_to_newest()

    # -----------------------------------------------------------------------------------------------------------
    # Reads

    def scan(self) -> Iterator[pa.RecordBatch]:
        assert self._schema is not None
        return scan_files(self._files(), self._schema)

    def lookup(self, keys: pa.Table, where_current: bool) -> pa.Table:
        assert self._schema is not None
        return search_files(self._files(), keys, where_current, self._schema)

    def _files(self) -> list[str]:
        """The files with the rows."""
        assert self._newest is not None
        numbers = [self._newest.number] if self._is_one_state else self._folder.numbers()
        return list(map(self._file, numbers))

    def _file(self, number: int) -> str:
        return os.path.join(self._folder.folder_of(number), FILE)

    # -----------------------------------------------------------------------------------------------------------
    # Wider schemas

    def _check_exact(self, schema: pa.Schema) -> None:
        """Raises: InexactNumber."""
        assert self._schema is not None
        names = [
            field.name for field in self._schema if needs_rewrite(field.type, schema.field(field.name).type)
        ]
        for path in self._files() if names else ():
            with open_parquet(path) as file:
                present = [name for name in names if name in file.schema_arrow.names]
                # Group by group: a batch would join the rows of many groups, of which each may be large.
                for number in range(file.metadata.num_row_groups):
                    for batch in file.iter_batches(row_groups=[number], columns=present):
                        for name, column in zip(batch.schema.names, batch.columns, strict=True):
                            cast_array(column, schema.field(name).type, name)

    def _finish_widening(self) -> None:
        """Give all increments the schema of the first one. It is wider than the others if a run ended while it widened them."""
        paths = [self._file(number) for number in self._folder.numbers()]
        schema = read_schema(paths[0])
        if not read_schema(paths[-1]).equals(schema):
            for path in paths:
                self._rewrite(path, schema)

    def _rewrite(self, path: str, schema: pa.Schema) -> None:
        """Write an increment again, with another schema, in place of its file."""
        if read_schema(path).equals(schema):
            return
        # Readers leave names out that begin so. It is always the same name, so what a killed run leaves is written over.
        part = os.path.join(os.path.dirname(path), "_wider")
        _write(part, schema, scan_files([path], schema))
        os.replace(part, path)
        flush(os.path.dirname(path))


class ParquetSnapshot:
    """A folder of Parquet that is written once: documents as of a moment.

    Args:
        overwrite: Replace a folder that was written so before.
    """

    def __init__(self, path: str, overwrite: bool) -> None:
        self.path = os.path.abspath(path)
        self._overwrite = overwrite

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Nothing to lock: of two runs, the one that ends first gives the folder its name, and the other fails."""
        with storage_errors(self.path, "read"):
            refuse_taken(self.path, self._overwrite)
        yield

    def state(self, databases: Mapping[str, Sequence[str]]) -> TargetState | None:
        return None

    def create(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        with (
            storage_errors(self.path, "written"),
            whole_folder(self.path, self._overwrite) as (staged, commit),
        ):
            count = write_file(staged, schema, batches)
            commit(make_manifest("snapshot", 1, count, schema, note))
        return count


# ---------------------------------------------------------------------------------------------------------------
# Files


def make_manifest(kind: str, number: int, count: int, schema: pa.Schema, note: Note) -> Manifest:
    types = {field.name: str(field.type) for field in schema}
    return Manifest(kind, number, count, dict(note.settings), types, list(note.extents), dict(note.positions))


def write_file(folder: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write rows to a new folder as one file, and return their number."""
    os.makedirs(folder)
    return _write(os.path.join(folder, FILE), schema, batches)


def _write(path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    with DataFileWriter(lambda: path, schema, is_one_file=True) as writer:
        write_all(writer, batches)
        writer.finish()
    if not writer.files:
        # Readers need the columns all the same.
        pq.write_table(schema.empty_table(), path)
    return writer.rows


def read_schema(path: str) -> pa.Schema:
    with open_parquet(path) as file:
        return file.schema_arrow


__all__ = ["ParquetSnapshot", "ParquetTarget"]
