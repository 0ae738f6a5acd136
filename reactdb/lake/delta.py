"""A table of Delta Lake, written without a JVM.

The rows go to Parquet files (see `data_files`), and delta-rs commits the list of files that come and go. The read positions are
in the same commit, as Delta's own application transactions, which a table keeps for ever, also when its log is cleaned up:

    reactdb                                    the number of the table's contents: 1 after `create`, one more after each `replace`
    reactdb:NUMBER:DATABASE                    the newest seq of a database in these contents
    reactdb:NUMBER:DATABASE:EPOCH              the same, for the part of the database's history that the seq belongs to

Application transactions are found by their names only. So the position of a database is found by the names of its epochs: the
newest epoch with the database's own seq is the position's. The number is a part of the names because `replace` may leave out
databases, whose rows are gone and whose positions must not be found any more. `replace` may also keep the rows of databases whose
files are absent now. The run does not know these databases, so it cannot write their positions again under the new number. The
settings list the older numbers under which their positions are found.

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.clock import time_ns
from reactdb.errors import MissingExtra, SchemaMismatch, StorageError, UsageError, format_value
from reactdb.lake.data_files import DataFileWriter, TableFile, storage_errors
from reactdb.lake.folder_lock import LOCK
from reactdb.lake.format_table import FormatTable, Step, TableCommit
from reactdb.lake.parts import DatabasePosition, flush
from reactdb.lake.schemas import plain_schema
from reactdb.lake.target import Note

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG: Final = "_delta_log"
SETTINGS: Final = "reactdb.settings"
TRANSACTION: Final = "reactdb"
# Among the settings: the numbers of the contents before, newest first, from which rows were kept.
OLDER: Final = "older"
FILE_NAME: Final = re.compile(r"reactdb-(\d{20})-[0-9a-f]{32}\.parquet")
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
# Features of readers that change nothing about the files: any other, such as deletion vectors, changes which rows a file has.
KNOWN_FEATURES: Final = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})


class DeltaTarget(FormatTable["DeltaTable"]):
    """A table of Delta Lake in a folder, as a `LakeTable`.

    Raises:
        MissingExtra: The package deltalake is not installed.
        UsageError: The path has `%`, `\\` or a control character in it.
    """

    format = "Delta"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        try:
            import deltalake

            # The first version that commits files which take the place of others has this class.
            from deltalake.transaction import RemoveAction  # noqa: F401
        except ImportError as missing:
            raise MissingExtra("exporting to Delta", "deltalake 1.6.6 or later", "lake") from missing
        self._library = deltalake
        if set("%\\" if os.sep == "/" else "%") & set(self.path) or CONTROL.search(self.path):
            # delta-rs does not find the files of such a table.
            raise UsageError(
                f"{format_value(self.path)}: a path of a Delta table cannot have `%`, `\\` or a control character in it"
            )

    # -----------------------------------------------------------------------------------------------------------
    # The table

    def _refuse_foreign(self) -> None:
        with self._opened():
            pass

    @contextmanager
    def _opened(self) -> Iterator[DeltaTable | None]:
        if not self._is_there():
            yield None
            return
        with storage_errors(self.path, "read"):
            names = sorted(os.listdir(self.path))
            log = os.listdir(os.path.join(self.path, LOG)) if LOG in names else []
        if not any(name.endswith((".json", ".parquet")) and not name.startswith("_") for name in log):
            for name in names:
                if name not in (LOCK, LOG) and not FILE_NAME.fullmatch(name):
                    raise UsageError(
                        f"{self.path} has {name!r} in it, which is no table of Delta: choose another folder"
                    )
            yield None
            return
        with self._errors("read"):
            table = self._library.DeltaTable(self.path)
        if SETTINGS not in table.metadata().configuration:
            raise UsageError(
                f"{self.path} is a table that reactdb did not write, and is left alone: choose another folder"
            )
        features = set(table.protocol().reader_features or ()) - KNOWN_FEATURES
        if features:
            raise self._changed(f"its readers need {', '.join(sorted(features))}")
        if table.protocol().min_reader_version not in (1, 3) or table.metadata().partition_columns:
            raise self._changed("its layout is another")
        yield None if table.transaction_version(TRANSACTION) is None else table

    def _remove_remains(self) -> None:
        with self._opened() as table:
            newest = -1 if table is None else table.version()
        for name in os.listdir(self.path):
            match = FILE_NAME.fullmatch(name)
            if match and int(match[1]) > newest:
                os.remove(os.path.join(self.path, name))
        if newest < 0 and os.path.isdir(os.path.join(self.path, LOG)):
            # `_opened` has checked that it is ours, and it never had rows.
            shutil.rmtree(os.path.join(self.path, LOG))

    def _schema(self, table: DeltaTable) -> pa.Schema:
        return plain_schema(pa.schema(table.schema().to_arrow()))

    def _check_names(self, schema: pa.Schema) -> None:
        # The exporter never gives such names (see `arrow.widening`). Delta takes both for one column.
        _refuse_same_names(list(schema), "")

    def _notes(
        self, table: DeltaTable, databases: Mapping[str, Sequence[str]]
    ) -> tuple[dict[str, Any], dict[str, DatabasePosition]]:
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
        return settings, positions

    def _files(self, table: DeltaTable) -> list[TableFile]:
        with self._errors("read"):
            actions = pa.table(table.get_add_actions(flatten=True))
        paths, sizes = (actions.column(name).to_pylist() for name in ("path", "size_bytes"))
        return [
            TableFile(os.path.join(self.path, path), size) for path, size in zip(paths, sizes, strict=True)
        ]

    # -----------------------------------------------------------------------------------------------------------
    # Commits

    @contextmanager
    def _commit(
        self, step: Step, table: DeltaTable | None, schema: pa.Schema, note: Note | None
    ) -> Iterator[TableCommit]:
        version = 1 if table is None else table.version() + (2 if step == "replace" else 1)

        def new_path() -> str:
            return os.path.join(self.path, f"reactdb-{version:020}-{uuid.uuid4().hex}.parquet")

        with DataFileWriter(new_path, schema) as writer:
            commit = TableCommit(writer)
            yield commit
            writer.finish()
            number = 1 if table is None else _number(table)
            if step == "replace":
                number += 1
            if note is not None and step in ("create", "replace"):
                table = self._note_settings(table, schema, note, number)
            assert table is not None
            if step == "widen" and commit.replaced is not None:
                self._add_columns(table, schema)
            else:
                self._finish(table, schema, commit, note, number)

    def _note_settings(
        self, table: DeltaTable | None, schema: pa.Schema, note: Note, number: int
    ) -> DeltaTable:
        """Write the settings for the number that the commit is going to have, and create the table if there is none.

        Returns:
            The table with these settings.
        """
        settings = {str(number): dict(note.settings)}
        if table is not None:
            before = settings[str(number - 1)] = _settings(table)
            if note.keeps_others:
                settings[str(number)][OLDER] = [number - 1, *before.get(OLDER, ())]
        properties = {SETTINGS: json.dumps(settings, sort_keys=True)}
        with self._errors("written"):
            if table is None:
                return self._library.DeltaTable.create(
                    self.path,
                    self._library.Schema.from_arrow(schema),
                    configuration=properties,
                    raise_if_key_not_exists=False,
                )
            table.alter.set_table_properties(properties, raise_if_not_exists=False)
            return self._library.DeltaTable(self.path)

    def _add_columns(self, table: DeltaTable, schema: pa.Schema) -> None:
        # No row, so the commit is the new schema alone.
        with self._errors("written"):
            self._library.write_deltalake(table, schema.empty_table(), mode="append", schema_mode="merge")
        self._flush_log(table.version() + 1)

    def _finish(
        self, table: DeltaTable, schema: pa.Schema, commit: TableCommit, note: Note | None, number: int
    ) -> None:
        """Commit one version of the table. Its list of files has the new files, and lacks the files that they replace. The
        positions are in the same commit."""
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
            for file in commit.writer.files
        ]
        # `overwrite` removes all files of the table.
        mode = "overwrite" if commit.replaced is None else "append"
        actions += [
            RemoveAction(os.path.relpath(file.path, self.path), True, now) for file in commit.replaced or ()
        ]
        seqs = {} if note is None else {TRANSACTION: number}
        for database, position in ({} if note is None else note.positions).items():
            name = f"{TRANSACTION}:{number}:{database}"
            seqs |= {name: position.seq, f"{name}:{position.epoch}": position.seq}
        transactions = [self._library.Transaction(name, seq) for name, seq in seqs.items()]
        properties = self._library.CommitProperties(app_transactions=transactions)
        # From here on only `_remove_remains` may remove the files: after an error the commit may be there or not.
        commit.writer.keep()
        with self._errors("written", self._library.exceptions.CommitFailedError):
            table.create_write_transaction(
                actions, mode, self._library.Schema.from_arrow(schema), commit_properties=properties
            )
        self._flush_log(table.version() + 1)

    def _flush_log(self, version: int) -> None:
        """Flush a commit to the disk: delta-rs leaves that to the system."""
        log = os.path.join(self.path, LOG)
        name = os.path.join(log, f"{version:020}.json")
        with storage_errors(self.path, "written"):
            if os.path.exists(name):
                flush(name)
            flush(log)
            flush(self.path)

    @contextmanager
    def _errors(self, verb: str, *conflicts: type[Exception]) -> Iterator[None]:
        # delta-rs raises a BaseException after a fork.
        try:
            with super()._errors(verb, *conflicts):
                yield
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise StorageError(f"{self.path} cannot be {verb}: {error}") from error


def _number(table: DeltaTable) -> int:
    """The number of the table's contents."""
    number = table.transaction_version(TRANSACTION)
    assert number is not None
    return number


def _settings(table: DeltaTable) -> dict[str, Any]:
    """The settings of the present contents."""
    settings = json.loads(table.metadata().configuration[SETTINGS] or "{}")
    return dict(settings[str(_number(table))])


# ---------------------------------------------------------------------------------------------------------------
# What Delta can hold


def _refuse_same_names(fields: Sequence[pa.Field], within: str) -> None:
    """Raise SchemaMismatch if two fields, also of one struct, have names that differ in case only.

    Args:
        within: The path of the struct with a dot after it, or empty.
    """
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
        _refuse_same_names(list(type_), within)
    elif kinds.is_list(type_):
        _check_nested(type_.value_type, within)
    elif kinds.is_map(type_):
        _check_nested(type_.item_type, within)
