"""A table of Delta Lake, written without a JVM.

The rows go to Parquet files (see `data_files`), and delta-rs commits the list of files that come and go. The read positions are
in the same commit, as Delta's own application transactions, which a table keeps for ever, also when its log is cleaned up:

    reactdb                                    the number of the table's contents: 1 after `create`, one more after each `replace`
    reactdb:NUMBER:DATABASE                    the newest seq of a database in these contents
    reactdb:NUMBER:DATABASE:EPOCH              the same, for the part of the database's history that the seq belongs to

Application transactions are found by their names only. So the position of a database is found by the names of its epochs: the
newest epoch with the database's own seq is the position's. The number is a part of the names because `replace` may leave out
databases, whose rows are gone and whose positions must not be found any more. Where it keeps the rows of databases that are not
there now, whose names nobody knows, the settings name the older contents that still have their positions.

The settings are in the table's configuration, `reactdb.settings`, one for each number: configuration and rows cannot change in
one commit, so the settings of a new number are written first, and count when the rows with this number are there.

A killed run leaves files that no commit lists. Each file's name has the version that its commit would have made, so a file with a
version beyond the table's is such a remain, and the next run removes it.

Rule of this file: delta-rs lists files and commits. It never sees a row, and a folder that reactdb did not write is left alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.clock import time_ns
from reactdb.errors import DatabaseBusy, MissingExtra, SchemaMismatch, StorageError, UsageError
from reactdb.lake.data_files import (
    DataFileWriter,
    make_keys,
    rewrite,
    scan_files,
    search_files,
    storage_errors,
    write_all,
)
from reactdb.lake.folder_lock import LOCK, lock_folder
from reactdb.lake.parts import DatabasePosition, flush
from reactdb.lake.schemas import check_types, check_widening, plain_schema
from reactdb.lake.target import Note, TargetState

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG: Final = "_delta_log"
SETTINGS: Final = "reactdb.settings"
TRANSACTION: Final = "reactdb"
# Among the settings: the numbers of the contents before, newest first, from which rows were kept.
OLDER: Final = "older"
FILE_NAME: Final = re.compile(r"reactdb-(\d{20})-[0-9a-f]{32}\.parquet")
# Features of readers that change nothing about the files: any other, such as deletion vectors, changes which rows a file has.
KNOWN_FEATURES: Final = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})


class DeltaTarget:
    """A table of Delta Lake in a folder, as a `LakeTable`.

    Args:
        path: The folder, which is created by the first run that writes.

    Thread safety: none; `lock` keeps other runs out.

    Raises:
        MissingExtra: The package deltalake is not installed.
        UsageError: The path has `%` in it.
    """

    def __init__(self, path: str) -> None:
        try:
            import deltalake

            # The first version that commits files which take the place of others has this class.
            from deltalake.transaction import RemoveAction  # noqa: F401
        except ImportError as missing:
            raise MissingExtra("exporting to Delta", "deltalake 1.6.6 or later", "lake") from missing
        self._library = deltalake
        self.path = os.path.abspath(path)
        if "%" in self.path:
            # delta-rs writes such a table, and does not find the files then.
            raise UsageError(f"{self.path}: a path of a Delta table cannot have `%` in it")

    # -----------------------------------------------------------------------------------------------------------
    # The table

    @contextmanager
    def lock(self) -> Iterator[None]:
        self._open()
        with lock_folder(self.path) as alone:
            if alone:
                self._remove_remains()
            yield

    def _open(self) -> DeltaTable | None:
        """The table as it is now; None if there is none, or one without its first rows.

        Raises:
            UsageError: The folder holds something else.
            StorageError: The table cannot be read.
        """
        if not os.path.isdir(self.path):
            if os.path.lexists(self.path):
                raise UsageError(f"{self.path} is no folder")
            return None
        with storage_errors(self.path, "read"):
            names = sorted(os.listdir(self.path))
            log = os.listdir(os.path.join(self.path, LOG)) if LOG in names else []
        if not any(name.endswith((".json", ".parquet")) and not name.startswith("_") for name in log):
            for name in names:
                if name not in (LOCK, LOG) and not FILE_NAME.fullmatch(name):
                    raise UsageError(
                        f"{self.path} has {name!r} in it, which is no table of Delta: choose another folder"
                    )
            return None
        with self._errors("read"):
            table = self._library.DeltaTable(self.path)
        if SETTINGS not in table.metadata().configuration:
            raise UsageError(
                f"{self.path} is a table that reactdb did not write, and is left alone: choose another folder"
            )
        features = set(table.protocol().reader_features or ()) - KNOWN_FEATURES
        if (
            features
            or table.protocol().min_reader_version not in (1, 3)
            or table.metadata().partition_columns
        ):
            raise UsageError(
                f"{self.path} was changed by another program, and cannot be written by reactdb any more: "
                + (f"its readers need {', '.join(sorted(features))}" if features else "its layout is another")
            )
        return None if table.transaction_version(TRANSACTION) is None else table

    def _existing(self) -> DeltaTable:
        table = self._open()
        if table is None:
            raise StorageError(f"{self.path} has no table any more")
        return table

    def _remove_remains(self) -> None:
        """Remove what a killed run left behind. Under the lock: no other run can be writing now."""
        table = self._open()
        newest = -1 if table is None else table.version()
        for name in os.listdir(self.path):
            match = FILE_NAME.fullmatch(name)
            if match and int(match[1]) > newest:
                os.remove(os.path.join(self.path, name))
        if table is None and os.path.isdir(os.path.join(self.path, LOG)):
            # `_open` has checked that it is ours, and it never had rows.
            shutil.rmtree(os.path.join(self.path, LOG))

    def state(self, databases: Mapping[str, Sequence[str]]) -> TargetState | None:
        table = self._open()
        if table is None:
            return None
        settings = _settings(table)
        numbers = [_number(table), *settings.pop(OLDER, ())]
        positions = {}
        for database, epochs in databases.items():
            for number in numbers:
                name = f"{TRANSACTION}:{number}:{database}"
                seq = table.transaction_version(name)
                if seq is not None:
                    names = (epoch for epoch in epochs if table.transaction_version(f"{name}:{epoch}") == seq)
                    # Without one, the epoch is none of the database's: its history has changed, and the exporter says so.
                    positions[database] = DatabasePosition("", next(names, ""), seq)
                    break
        return TargetState(_schema(table), settings, positions)

    # -----------------------------------------------------------------------------------------------------------
    # Writing

    def create(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        schema = _checked(schema)
        with self._writer(1, schema) as writer:
            write_all(writer, batches)
            writer.finish()
            with self._errors("written"):
                table = self._library.DeltaTable.create(
                    self.path,
                    self._delta_schema(schema),
                    configuration={SETTINGS: json.dumps({"1": dict(note.settings)}, sort_keys=True)},
                    raise_if_key_not_exists=False,
                )
            self._commit(table, "append", schema, writer, [], note, 1)
        return writer.rows

    def replace(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        schema = _checked(schema)
        table = self._existing()
        number = _number(table)
        with self._writer(table.version() + 2, schema) as writer:
            write_all(writer, batches)
            writer.finish()
            before = _settings(table)
            after = dict(note.settings)
            if note.keeps_others:
                after[OLDER] = [number, *before.get(OLDER, ())]
            settings = {str(number): before, str(number + 1): after}
            with self._errors("written"):
                table.alter.set_table_properties(
                    {SETTINGS: json.dumps(settings, sort_keys=True)}, raise_if_not_exists=False
                )
                table = self._library.DeltaTable(self.path)
            self._commit(table, "overwrite", schema, writer, [], note, number + 1)
        return writer.rows

    def append(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        table = self._existing()
        kept = _schema(table)
        with self._writer(table.version() + 1, kept) as writer:
            write_all(writer, batches)
            writer.finish()
            self._commit(table, "append", kept, writer, [], note, _number(table))
        return writer.rows

    def merge(self, rows: pa.Table, deleted: pa.Table, keys: Sequence[str], note: Note) -> None:
        table = self._existing()
        schema = _schema(table)
        changed = make_keys(keys, schema, rows, deleted)
        with self._writer(table.version() + 1, schema) as writer:
            replaced = rewrite(writer, self._files(table), changed, rows, schema)
            writer.finish()
            self._commit(table, "append", schema, writer, replaced, note, _number(table))

    def widen(self, schema: pa.Schema) -> None:
        table = self._existing()
        have = _schema(table)
        want = _checked(schema)
        anew = check_widening(have, want)
        if have.equals(want):
            return
        if not anew:
            # No row, so the commit is the new schema alone.
            with self._errors("written"):
                self._library.write_deltalake(table, want.empty_table(), mode="append", schema_mode="merge")
            self._flush_log(table.version() + 1)
            return
        with self._writer(table.version() + 1, want) as writer:
            write_all(writer, scan_files((path for path, _ in self._files(table)), have))
            writer.finish()
            self._commit(table, "overwrite", want, writer, [], None, _number(table))

    def advance(self, note: Note) -> None:
        self.append(pa.schema([]), (), note)

    def scan(self) -> Iterator[pa.RecordBatch]:
        table = self._existing()
        yield from scan_files((path for path, _ in self._files(table)), _schema(table))

    def lookup(self, keys: pa.Table, where_current: bool) -> pa.Table:
        table = self._existing()
        return search_files((path for path, _ in self._files(table)), keys, where_current, _schema(table))

    # -----------------------------------------------------------------------------------------------------------
    # Files and commits

    def _delta_schema(self, schema: pa.Schema) -> Any:
        return self._library.Schema.from_arrow(schema)

    def _writer(self, version: int, schema: pa.Schema) -> DataFileWriter:
        """A writer of files for the commit that makes `version`."""
        return DataFileWriter(
            lambda: os.path.join(self.path, f"reactdb-{version:020}-{uuid.uuid4().hex}.parquet"), schema
        )

    def _files(self, table: DeltaTable) -> list[tuple[str, int]]:
        with self._errors("read"):
            actions = pa.table(table.get_add_actions(flatten=True))
        return [
            (os.path.join(self.path, path), size)
            for path, size in zip(
                actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist(), strict=True
            )
        ]

    def _commit(
        self,
        table: DeltaTable,
        mode: str,
        schema: pa.Schema,
        writer: DataFileWriter,
        replaced: Sequence[str],
        note: Note | None,
        number: int,
    ) -> None:
        """Make one version of the table: it lists the files of `writer` instead of those in `replaced`, with the positions."""
        from deltalake.transaction import AddAction, RemoveAction

        now = time_ns() // 1_000_000
        # No bounds and no counts of nulls: where a column has none, as one with NaN, one of booleans or one that came later,
        # deltalake's dataset of Arrow takes them for null, and a filter on the column passes over the whole file.
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                os.path.basename(file.path),
                file.bytes,
                {},
                now,
                True,
                json.dumps({"numRecords": file.metadata.num_rows}),
            )
            for file in writer.files
        ]
        actions += [RemoveAction(os.path.relpath(path, self.path), True, now) for path in replaced]
        transactions = []
        if note is not None:
            seqs = {TRANSACTION: number}
            for database, position in note.positions.items():
                name = f"{TRANSACTION}:{number}:{database}"
                seqs |= {name: position.seq, f"{name}:{position.epoch}": position.seq}
            transactions = [self._library.Transaction(name, seq) for name, seq in seqs.items()]
        properties = self._library.CommitProperties(app_transactions=transactions)
        # From here on only `_remove_remains` may remove the files: after an error the commit may be there or not.
        writer.keep()
        with self._errors("written"):
            try:
                table.create_write_transaction(
                    actions, mode, self._delta_schema(schema), commit_properties=properties
                )
            except self._library.exceptions.CommitFailedError as error:
                raise DatabaseBusy(
                    f"another program has changed {self.path} meanwhile; run it again to go on from there"
                ) from error
        self._flush_log(table.version() + 1)

    def _flush_log(self, version: int) -> None:
        """Flush a commit to the disk: delta-rs leaves that to the system."""
        log = os.path.join(self.path, LOG)
        name = os.path.join(log, f"{version:020}.json")
        if os.path.exists(name):
            flush(name)
        flush(log)
        flush(self.path)

    @contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        # delta-rs raises plain Exceptions for some errors of its parts, and a BaseException after a fork.
        try:
            with storage_errors(self.path, verb, Exception):
                yield
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise StorageError(f"{self.path} cannot be {verb}: {error}") from error


def _number(table: DeltaTable) -> int:
    number = table.transaction_version(TRANSACTION)
    assert number is not None
    return number


def _settings(table: DeltaTable) -> dict[str, Any]:
    settings = json.loads(table.metadata().configuration[SETTINGS] or "{}")
    return dict(settings[str(_number(table))])


def _schema(table: DeltaTable) -> pa.Schema:
    return plain_schema(pa.schema(table.schema().to_arrow()))


# ---------------------------------------------------------------------------------------------------------------
# What Delta can hold


def _checked(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata, if Delta can hold it.

    Raises:
        UsageError: It has a type that Delta lacks.
        SchemaMismatch: Two names differ in case only, which Delta takes for one.
    """
    check_types(schema, "Delta")
    _check_names(list(schema), "")
    return plain_schema(schema)


def _check_names(fields: Sequence[pa.Field], within: str) -> None:
    seen: dict[str, str] = {}
    for field in fields:
        name = f"{within}{field.name}"
        other = seen.setdefault(field.name.lower(), name)
        if other != name:
            raise SchemaMismatch(
                f"column `{name}`",
                f"Delta takes it for column `{other}`, because it ignores case",
                "export to Parquet or Iceberg, or leave new fields out with contract=discard",
            )
        _check_nested(field.type, f"{name}.")


def _check_nested(type_: pa.DataType, within: str) -> None:
    if kinds.is_struct(type_):
        _check_names(list(type_), within)
    elif kinds.is_list(type_):
        _check_nested(type_.value_type, within)
    elif kinds.is_map(type_):
        _check_nested(type_.item_type, within)
