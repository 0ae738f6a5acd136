"""Staging: rows that wait until their final schema is known.

A field that comes late gives all rows before it a new column. So rows are kept as they were made, in memory while they are few
and otherwise in temporary files of Arrow, and are cast to the final schema when they are written to the table.

Rule of this file: rows come out in the order in which they came in, and the files go at the end.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pyarrow as pa

from reactdb.arrow.casting import cast_batch
from reactdb.lake.data_files import storage_errors

MOST_BYTES_IN_MEMORY = 16 * 1024 * 1024


class StagedRows:
    """Batches of rows, whose schemas only widen.

    Args:
        target: The table's folder. The temporary folder lies beside it, on the same disk.

    Attributes:
        rows: Their number.
    """

    def __init__(self, target: str) -> None:
        self._target = os.path.abspath(target)
        self._folder: str | None = None
        self._files: list[str] = []
        self._held: list[pa.RecordBatch] = []
        self.rows = 0
        self._held_bytes = 0

    def __enter__(self) -> StagedRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self._held.clear()
        self._files.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None
        self.rows = self._held_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self.rows += len(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= MOST_BYTES_IN_MEMORY:
            self._spill()

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """All rows, in a schema at least as wide as each of theirs.

        Raises:
            InexactNumber.
        """
        for path in self._files:
            with pa.memory_map(path) as source:
                for batch in pa.ipc.open_stream(source):
                    yield cast_batch(batch, schema)
        for batch in self._held:
            yield cast_batch(batch, schema)

    def _make_folder(self) -> str:
        remove_remains(self._target)
        parent, name = os.path.split(self._target)
        os.makedirs(parent, exist_ok=True)
        return tempfile.mkdtemp(prefix=_prefix(name), dir=parent)

    def _spill(self) -> None:
        """Write the batches in memory to files, each with batches of one schema."""
        with storage_errors(self._target, "written"):
            self._write_held()
        self._held.clear()
        self._held_bytes = 0

    def _write_held(self) -> None:
        if self._folder is None:
            self._folder = self._make_folder()
        start = 0
        while start < len(self._held):
            schema = self._held[start].schema
            path = os.path.join(self._folder, f"{len(self._files):06}.arrow")
            with (
                pa.OSFile(path, "wb") as sink,
                pa.ipc.new_stream(sink, schema, options=_compressed()) as writer,
            ):
                while start < len(self._held) and self._held[start].schema.equals(schema):
                    writer.write_batch(self._held[start])
                    start += 1
            self._files.append(path)


def remove_remains(target: str) -> None:
    """Remove the temporary folders of runs that were killed. The caller has the table's lock."""
    parent, name = os.path.split(os.path.abspath(target))
    if os.path.isdir(parent):
        for other in os.listdir(parent):
            if other.startswith(_prefix(name)):
                shutil.rmtree(os.path.join(parent, other), ignore_errors=True)


def _prefix(name: str) -> str:
    return f".{name}-rows-"


def _compressed() -> pa.ipc.IpcWriteOptions:
    return pa.ipc.IpcWriteOptions(compression="lz4")
