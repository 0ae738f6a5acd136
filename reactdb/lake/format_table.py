"""FormatTable: the steps of a table of Delta or Iceberg, as a `LakeTable`.

The rows go to Parquet files (see `data_files`). A commit lists new files instead of others, and has the settings and the read
positions. Each step opens the table as it is now, begins a commit, writes files, and ends the commit. Only the end changes the
table, so an error before it leaves unlisted files, which are removed.

Rule of this file: it moves rows between files. How a format lists files and commits is in `delta` and `iceberg`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import pyarrow as pa

from reactdb.errors import DatabaseBusy, StorageError, UsageError
from reactdb.lake.data_files import (
    DataFileWriter,
    TableFile,
    make_keys,
    rewrite,
    scan_files,
    search_files,
    storage_errors,
    write_all,
)
from reactdb.lake.folder_lock import lock_folder
from reactdb.lake.parts import DatabasePosition
from reactdb.lake.schemas import check_types, check_widening, plain_schema
from reactdb.lake.target import Note, TargetState

Native = TypeVar("Native")
# The step that a commit belongs to.
Step = Literal["create", "replace", "append", "merge", "widen"]


@dataclass(slots=True)
class TableCommit:
    """A commit that has begun.

    Attributes:
        writer: Writes the new files.
        replaced: The files that they replace; None: all files of the table.
    """

    writer: DataFileWriter
    replaced: Sequence[TableFile] | None = ()


class FormatTable(Generic[Native]):
    """A table in a folder. `Native` is the library's own table.

    Args:
        path: The folder, which is created by the first run that writes.

    Thread safety: none; `lock` keeps other runs out.
    """

    format: ClassVar[str]

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        # The table's name in messages.
        self.title = self.path

    # -----------------------------------------------------------------------------------------------------------
    # What a format does

    def _refuse_foreign(self) -> None:
        """Raise UsageError if the folder holds something else."""
        raise NotImplementedError

    def _opened(self) -> AbstractContextManager[Native | None]:
        """The table as it is now. None if the folder has no table, or if a run was killed before the table got its first rows.

        Raises:
            UsageError: Another program made the table, or has changed it so that reactdb would undo the change.
            StorageError: The table cannot be read.
        """
        raise NotImplementedError

    def _remove_remains(self) -> None:
        """Remove what a killed run left behind. Under the lock: no other run can be writing now."""
        raise NotImplementedError

    def _schema(self, table: Native) -> pa.Schema:
        """The schema of the table, in the types that documents have."""
        raise NotImplementedError

    def _check_names(self, schema: pa.Schema) -> None:
        """Raise SchemaMismatch if the format takes two columns for one."""
        raise NotImplementedError

    def _notes(
        self, table: Native, databases: Mapping[str, Sequence[str]]
    ) -> tuple[dict[str, Any], dict[str, DatabasePosition]]:
        """The settings and the positions. `databases`: as `LakeTable.state` has them."""
        raise NotImplementedError

    def _files(self, table: Native) -> list[TableFile]:
        """The files with the rows of the table."""
        raise NotImplementedError

    def _commit(
        self, step: Step, table: Native | None, schema: pa.Schema, note: Note | None
    ) -> AbstractContextManager[TableCommit]:
        """A commit, which happens at the end of the block if there was no error.

        Args:
            table: None: of `create`.
            schema: The schema of the table after the commit.
            note: None: settings and positions stay as they are.
        """
        raise NotImplementedError

    # -----------------------------------------------------------------------------------------------------------
    # Steps

    @contextmanager
    def lock(self) -> Iterator[None]:
        self._refuse_foreign()
        with lock_folder(self.path) as alone:
            if alone:
                self._remove_remains()
            yield

    def state(self, databases: Mapping[str, Sequence[str]]) -> TargetState | None:
        with self._opened() as table:
            return None if table is None else TargetState(self._schema(table), *self._notes(table, databases))

    def create(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        with self._commit("create", None, self._checked(schema), note) as commit:
            write_all(commit.writer, batches)
        return commit.writer.rows

    def replace(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        schema = self._checked(schema)
        with self._existing() as table, self._commit("replace", table, schema, note) as commit:
            commit.replaced = None
            write_all(commit.writer, batches)
        return commit.writer.rows

    def append(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        with (
            self._existing() as table,
            self._commit("append", table, self._schema(table), note) as commit,
        ):
            write_all(commit.writer, batches)
        return commit.writer.rows

    def advance(self, note: Note) -> None:
        self.append(pa.schema([]), (), note)

    def merge(self, rows: pa.Table, deleted: pa.Table, keys: Sequence[str], note: Note) -> None:
        with self._existing() as table:
            schema = self._schema(table)
            changed = make_keys(keys, schema, rows, deleted)
            with self._commit("merge", table, schema, note) as commit:
                commit.replaced = rewrite(commit.writer, self._files(table), changed, rows, schema)

    def widen(self, schema: pa.Schema) -> None:
        want = self._checked(schema)
        with self._existing() as table:
            have = self._schema(table)
            is_rewritten = check_widening(have, want)
            if have.equals(want):
                return
            with self._commit("widen", table, want, None) as commit:
                if is_rewritten:
                    commit.replaced = None
                    write_all(commit.writer, scan_files(self._paths(table), have))

    def scan(self) -> Iterator[pa.RecordBatch]:
        with self._existing() as table:
            schema, paths = self._schema(table), self._paths(table)
        yield from scan_files(paths, schema)

    def lookup(self, keys: pa.Table, where_current: bool) -> pa.Table:
        with self._existing() as table:
            return search_files(self._paths(table), keys, where_current, self._schema(table))

    # -----------------------------------------------------------------------------------------------------------
    # Checks and errors

    def _paths(self, table: Native) -> list[str]:
        return [file.path for file in self._files(table)]

    @contextmanager
    def _existing(self) -> Iterator[Native]:
        with self._opened() as table:
            if table is None:
                raise StorageError(f"{self.title} does not exist any more")
            yield table

    def _checked(self, schema: pa.Schema) -> pa.Schema:
        """The schema without metadata, if the format can hold it.

        Raises:
            UsageError: It has a type that the format lacks.
            SchemaMismatch: As `_check_names`.
        """
        check_types(schema, self.format)
        self._check_names(schema)
        return plain_schema(schema)

    def _is_there(self) -> bool:
        """Whether the folder exists. Raises: UsageError: The path is a file."""
        if not os.path.isdir(self.path) and os.path.lexists(self.path):
            raise UsageError(f"{self.path} is no folder")
        return os.path.isdir(self.path)

    def _changed(self, reason: str) -> UsageError:
        """The error for a table that another program has changed."""
        return UsageError(
            f"{self.title} was changed by another program, and cannot be written by reactdb any more: {reason}"
        )

    @contextmanager
    def _errors(self, verb: str, *conflicts: type[Exception]) -> Iterator[None]:
        """Errors of the library, which have no common class, as errors of reactdb. `conflicts`: another program was faster."""
        with storage_errors(self.path, verb, Exception):
            try:
                yield
            except conflicts as error:
                raise DatabaseBusy(
                    f"another program has changed {self.path} meanwhile; run it again to go on from there"
                ) from error
