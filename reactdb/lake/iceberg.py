"""A table of Iceberg, written without a JVM.

The rows go to Parquet files (see `data_files`), and pyiceberg commits the list of files that come and go. Settings and read
positions are properties of the table, set in the same commit. The catalogue is an SQLite file in the folder:

    FOLDER/
      catalog.db                       the catalogue `reactdb`: which metadata file is each table's newest
      reactdb/TABLE/data/              Parquet files
      reactdb/TABLE/metadata/          the table's versions
      _lock                            locked by the run that writes
      _writing                         the table and the id of the commit that is being written

A killed run leaves files that no version lists. Their names, or their content, have the id of the commit, so the next run finds
them by `_writing` and removes them. Files of other programs are never touched.

Iceberg cannot make doubles of a column of ints. So the column is replaced, in one commit, by a new one with the same name.

Rule of this file: pyiceberg lists files and commits. It never sees a row, and a folder that reactdb did not write is left alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.errors import DatabaseBusy, MissingExtra, SchemaMismatch, StorageError, UsageError
from reactdb.lake.data_files import (
    DataFile,
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
from reactdb.lake.schemas import check_types, check_widening, needs_rewrite, plain_schema
from reactdb.lake.target import Note, TargetState

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.manifest import DataFile as ListedFile
    from pyiceberg.table import Table, Transaction

CATALOGUE: Final = "catalog.db"
NAMESPACE: Final = "reactdb"
WRITING: Final = "_writing"
SETTINGS: Final = "reactdb.settings"
POSITIONS: Final = "reactdb.positions"
COMMIT: Final = "reactdb.commit"
# The number of the schema that reactdb gave the table: files are read by the names of their columns, which only it may change.
SCHEMA: Final = "reactdb.schema"
# Each commit writes a whole new metadata file; otherwise all of them would stay for ever.
PROPERTIES: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
FIELD_ID: Final = b"PARQUET:field_id"


class IcebergTarget:
    """A table of Iceberg in a folder with a catalogue, as a `LakeTable`. A folder may have several tables.

    Args:
        path: The folder, which is created by the first run that writes.
        table: The name of the table in the namespace `reactdb`. Any text.

    Thread safety: none; `lock` keeps other runs out.

    Raises:
        MissingExtra: The package pyiceberg is not installed, or its part for SQLite.
        UsageError: The path has a character that pyiceberg takes for the end of a path.
    """

    def __init__(self, path: str, table: str) -> None:
        try:
            import pyiceberg.catalog.sql  # noqa: F401
        except ImportError as missing:
            raise MissingExtra("exporting to Iceberg", "pyiceberg[sql-sqlite]", "lake") from missing
        self.path = os.path.abspath(path)
        if set("?#%") & set(self.path):
            raise UsageError(f"{self.path}: a path of an Iceberg table cannot have `?`, `#` or `%` in it")
        self.table = table
        self._identifier = (NAMESPACE, table)
        self._location = os.path.join(self.path, NAMESPACE, _folder_name(table))

    # -----------------------------------------------------------------------------------------------------------
    # The table

    @contextmanager
    def lock(self) -> Iterator[None]:
        self._refuse_foreign()
        with lock_folder(self.path) as alone:
            if alone:
                self._remove_remains()
            yield

    def _refuse_foreign(self) -> None:
        """Raise UsageError if the folder holds something else."""
        if not os.path.isdir(self.path):
            if os.path.lexists(self.path):
                raise UsageError(f"{self.path} is no folder")
            return
        strange = self._strange_names()
        if strange and not os.path.exists(os.path.join(self.path, CATALOGUE)):
            raise UsageError(
                f"{self.path} has {strange[0]!r} in it, which is no catalogue of Iceberg: choose another folder"
            )

    def _strange_names(self) -> list[str]:
        ours = {LOCK, WRITING, CATALOGUE, f"{CATALOGUE}-journal", NAMESPACE}
        with storage_errors(self.path, "read"):
            return sorted(set(os.listdir(self.path)) - ours)

    @contextmanager
    def _catalogue(self, create: bool = False) -> Iterator[SqlCatalog | None]:
        """The catalogue, open; None if there is none and `create` is false.

        Raises:
            UsageError: The file is the catalogue of something else.
        """
        from pyiceberg.catalog.sql import SqlCatalog
        from sqlalchemy.exc import SQLAlchemyError

        name = os.path.join(self.path, CATALOGUE)
        exists = os.path.exists(name) and os.path.getsize(name) > 0
        if not exists and not create:
            yield None
            return
        foreign = UsageError(f"{name} is no catalogue of reactdb: choose another folder")
        catalogue = None
        try:
            with storage_errors(self.path, "read", SQLAlchemyError):
                try:
                    catalogue = SqlCatalog(
                        "reactdb",
                        uri=f"sqlite:///{name}",
                        warehouse=self.path,
                        init_catalog_tables="false" if exists else "true",
                    )
                    namespaces = catalogue.list_namespaces()
                except SQLAlchemyError as error:
                    if "no such table" in str(error) or "not a database" in str(error):
                        raise foreign from error
                    raise
                # A run that was killed at the very beginning leaves a catalogue without a namespace, and nothing beside it.
                if namespaces != [(NAMESPACE,)] and (namespaces or self._strange_names()):
                    raise foreign
                if create:
                    catalogue.create_namespace_if_not_exists(NAMESPACE)
            yield catalogue
        finally:
            if catalogue is not None:
                catalogue.close()

    @contextmanager
    def _opened(self) -> Iterator[Table | None]:
        """The table as it is now, with its catalogue open; None if there is none.

        Raises:
            UsageError: Another program made the table, or has changed its columns or partitions, and reactdb would undo that.
            StorageError: It cannot be read.
        """
        from pyiceberg.exceptions import NoSuchTableError

        self._refuse_foreign()
        with self._catalogue() as catalogue:
            if catalogue is None:
                yield None
                return
            with self._errors("read"):
                try:
                    table = catalogue.load_table(self._identifier)
                except NoSuchTableError:
                    table = None
                except FileNotFoundError as error:
                    raise StorageError(
                        f"{self.path} cannot be read: {error}; files of Iceberg name each other by full paths, so a "
                        "table cannot be moved: move it back, or export to a new folder"
                    ) from error
            if table is not None:
                self._check(table)
            yield table

    def _check(self, table: Table) -> None:
        properties = table.properties
        if SETTINGS not in properties:
            raise UsageError(
                f"table {self.table} in {self.path} was not written by reactdb, and is left alone: choose another folder"
            )
        if properties.get(SCHEMA) != _schema_id(table.schema()) or table.spec().fields:
            raise UsageError(
                f"table {self.table} in {self.path} was changed by another program, and cannot be written by reactdb any "
                "more: its columns or partitions are others"
            )

    @contextmanager
    def _existing(self) -> Iterator[Table]:
        with self._opened() as table:
            if table is None:
                raise StorageError(f"{self.path} has no table {self.table} any more")
            yield table

    def _remove_remains(self) -> None:
        """Remove what a killed run left behind. Under the lock: no other run can be writing now."""
        name = os.path.join(self.path, WRITING)
        try:
            with open(name, encoding="utf-8") as file:
                written = json.load(file)
        except FileNotFoundError:
            return
        except ValueError:
            # Killed while the file was written: nothing else was.
            os.remove(name)
            return
        other = IcebergTarget(self.path, written["table"])
        with other._opened() as table:
            if table is None:
                rmtree(other._location, ignore_errors=True)
            elif table.properties.get(COMMIT) != written["commit"]:
                other._remove_files(written["commit"])
        os.remove(name)

    def _remove_files(self, commit: str) -> None:
        """Remove the files of a commit that did not happen."""
        for folder in ("data", "metadata"):
            path = os.path.join(self._location, folder)
            for name in os.listdir(path) if os.path.isdir(path) else ():
                file = os.path.join(path, name)
                if commit in name or (name.endswith(".metadata.json") and self._is_of(file, commit)):
                    os.remove(file)

    @staticmethod
    def _is_of(file: str, commit: str) -> bool:
        with suppress(OSError, ValueError), open(file, encoding="utf-8") as text:
            return bool(json.load(text)["properties"].get(COMMIT) == commit)
        return False

    def state(self, databases: Mapping[str, Sequence[str]]) -> TargetState | None:
        with self._opened() as table:
            if table is None:
                return None
            positions = json.loads(table.properties[POSITIONS])
            return TargetState(
                _schema(table),
                json.loads(table.properties[SETTINGS]),
                {database: DatabasePosition(**position) for database, position in positions.items()},
            )

    # -----------------------------------------------------------------------------------------------------------
    # Writing

    def create(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        schema = _checked(schema)
        with self._catalogue(create=True) as catalogue, self._commit() as commit:
            assert catalogue is not None
            with self._errors("written"):
                os.makedirs(os.path.join(self._location, "data"), exist_ok=True)
                transaction = catalogue.create_table_transaction(
                    self._identifier,
                    schema=schema,
                    location=self._location,
                    properties=dict(PROPERTIES),
                )
            with self._writer(transaction, commit) as writer:
                write_all(writer, batches)
                writer.finish()
                self._finish(transaction, writer, [], note, commit, append=True)
        return writer.rows

    def replace(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        schema = _checked(schema)
        with self._existing() as table, self._commit() as commit:
            transaction = table.transaction()
            have = _schema(table)
            with self._errors("written"):
                kept = [
                    field.name
                    for field in schema
                    if have.get_field_index(field.name) >= 0
                    and have.field(field.name).type.equals(field.type)
                ]
                _change_columns(transaction, [name for name in have.names if name not in kept], schema)
            with self._writer(transaction, commit) as writer:
                write_all(writer, batches)
                writer.finish()
                self._finish(transaction, writer, self._listed(table), note, commit)
        return writer.rows

    def append(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        with self._existing() as table, self._commit() as commit:
            transaction = table.transaction()
            with self._writer(transaction, commit) as writer:
                write_all(writer, batches)
                writer.finish()
                self._finish(transaction, writer, [], note, commit, append=True)
        return writer.rows

    def merge(self, rows: pa.Table, deleted: pa.Table, keys: Sequence[str], note: Note) -> None:
        with self._existing() as table, self._commit() as commit:
            schema = _schema(table)
            changed = make_keys(keys, schema, rows, deleted)
            listed = {_path(file): file for file in self._listed(table)}
            sizes = [(path, file.file_size_in_bytes) for path, file in listed.items()]
            transaction = table.transaction()
            with self._writer(transaction, commit) as writer:
                replaced = rewrite(writer, sizes, changed, rows, schema)
                writer.finish()
                self._finish(transaction, writer, [listed[path] for path in replaced], note, commit)

    def widen(self, schema: pa.Schema) -> None:
        want = _checked(schema)
        with self._existing() as table, self._commit() as commit:
            have = _schema(table)
            anew = check_widening(have, want)
            if have.equals(want):
                return
            transaction = table.transaction()
            with self._errors("written"):
                _change_columns(
                    transaction,
                    [field.name for field in have if needs_rewrite(field.type, want.field(field.name).type)],
                    want,
                )
            listed = self._listed(table) if anew else []
            with self._writer(transaction, commit) as writer:
                write_all(writer, scan_files(map(_path, listed), have))
                writer.finish()
                self._finish(transaction, writer, listed, None, commit)

    def advance(self, note: Note) -> None:
        self.append(pa.schema([]), (), note)

    def scan(self) -> Iterator[pa.RecordBatch]:
        with self._existing() as table:
            schema, paths = _schema(table), list(map(_path, self._listed(table)))
        yield from scan_files(paths, schema)

    def lookup(self, keys: pa.Table, where_current: bool) -> pa.Table:
        with self._existing() as table:
            paths = list(map(_path, self._listed(table)))
            return search_files(paths, keys, where_current, _schema(table))

    # -----------------------------------------------------------------------------------------------------------
    # Files and commits

    @contextmanager
    def _commit(self) -> Iterator[str]:
        """The id of a new commit, which is noted in the folder until the commit is there or its files are removed."""
        name = os.path.join(self.path, WRITING)
        commit = str(uuid.uuid4())
        with storage_errors(self.path, "written"), open(name, "w", encoding="utf-8") as file:
            json.dump({"table": self.table, "commit": commit}, file)
        try:
            yield commit
        except Exception:
            # The commit may be there in spite of the error. If it cannot be found out now, the next run does it.
            with suppress(Exception):
                self._remove_remains()
            raise
        with storage_errors(self.path, "written"):
            os.remove(name)

    def _writer(self, transaction: Transaction, commit: str) -> DataFileWriter:
        """A writer of files with the table's ids of fields."""
        number = 0

        def new_path() -> str:
            nonlocal number
            number += 1
            return os.path.join(self._location, "data", f"{number:05}-{commit}.parquet")

        return DataFileWriter(new_path, _schema_with_ids(transaction.table_metadata.schema()))

    def _listed(self, table: Table) -> list[ListedFile]:
        """The files of the table.

        Raises:
            UsageError: Another program has deleted rows by files of their own.
        """
        with self._errors("read"):
            tasks = list(table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise UsageError(
                f"table {self.table} in {self.path} was changed by another program, and cannot be written by reactdb any "
                "more: rows were deleted from it, by delete files"
            )
        return [task.file for task in tasks]

    def _finish(
        self,
        transaction: Transaction,
        writer: DataFileWriter,
        replaced: Sequence[ListedFile],
        note: Note | None,
        commit: str,
        append: bool = False,
    ) -> None:
        """Make one version of the table: it lists the files of `writer` instead of those in `replaced`, with settings and
        positions."""
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        # Each look at it copies the whole metadata.
        metadata = transaction.table_metadata
        properties = {COMMIT: commit, SCHEMA: _schema_id(metadata.schema())}
        if note is not None:
            properties[SETTINGS] = json.dumps(dict(note.settings), sort_keys=True)
            properties[POSITIONS] = json.dumps(
                {database: asdict(position) for database, position in note.positions.items()}, sort_keys=True
            )
        # From here on only `_remove_remains` may remove the files: after an error the commit may be there or not.
        writer.keep()
        with self._errors("written"):
            try:
                if writer.files or replaced:
                    update = transaction.update_snapshot()
                    with update.fast_append() if append else update.overwrite() as snapshot:
                        # The names of the files of metadata have the id, by which the next run finds them after a kill.
                        snapshot.commit_uuid = uuid.UUID(commit)
                        for file in writer.files:
                            snapshot.append_data_file(_list_file(file, metadata))
                        for old in replaced:
                            snapshot.delete_data_file(old)
                transaction.set_properties(properties)
                transaction.commit_transaction()
            except (CommitFailedException, ValidationException) as error:
                raise DatabaseBusy(
                    f"another program has changed {self.path} meanwhile; run it again to go on from there"
                ) from error
        self._flush(commit)

    def _flush(self, commit: str) -> None:
        """Flush the files of a commit to the disk: pyiceberg leaves that to the system."""
        folder = os.path.join(self._location, "metadata")
        for name in os.listdir(folder):
            if commit in name or name.endswith(".metadata.json"):
                flush(os.path.join(folder, name))
        for path in (folder, os.path.join(self._location, "data"), self._location, self.path):
            flush(path)

    @contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        # pyiceberg raises errors of SQLAlchemy, of pydantic and of its own, which have no common class.
        with storage_errors(self.path, verb, Exception):
            yield


def _folder_name(table: str) -> str:
    """A folder's name for a table of any name."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", table)[:64]
    return name if name == table else f"{name}-{hashlib.sha256(table.encode()).hexdigest()[:12]}"


def _path(file: ListedFile) -> str:
    return file.file_path.removeprefix("file://")


def _list_file(file: DataFile, metadata: Any) -> ListedFile:
    """A file that was written, as Iceberg lists it, with the bounds of its columns."""
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile as Listed
    from pyiceberg.manifest import DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=file.metadata,
        stats_columns=compute_statistics_plan(metadata.schema(), metadata.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(metadata.schema()),
    )
    return Listed.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        file_size_in_bytes=file.bytes,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


# ---------------------------------------------------------------------------------------------------------------
# Schemas


def _checked(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata, if Iceberg can hold it.

    Raises:
        UsageError: It has a type that Iceberg lacks.
        SchemaMismatch: A column's name looks like the path of a field.
    """
    check_types(schema, "Iceberg")
    seen: set[str] = set()
    for name in _paths(list(schema), ""):
        if name in seen:
            raise SchemaMismatch(
                f"column `{name}`",
                "Iceberg takes it for a field of another column, because of the dot in its name",
                "export to Parquet or Delta, or leave new fields out with contract=discard",
            )
        seen.add(name)
    return plain_schema(schema)


def _paths(fields: Sequence[pa.Field], within: str) -> Iterator[str]:
    for field in fields:
        yield f"{within}{field.name}"
        type_ = field.type
        inner = f"{within}{field.name}."
        while kinds.is_list(type_) or kinds.is_map(type_):
            part = "element" if kinds.is_list(type_) else "value"
            if part == "value":
                yield f"{inner}key"
            yield f"{inner}{part}"
            inner = f"{inner}{part}."
            type_ = type_.value_type if kinds.is_list(type_) else type_.item_type
        if kinds.is_struct(type_):
            yield from _paths(list(type_), inner)


def _schema(table: Table) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return plain_schema(schema_to_pyarrow(table.schema(), include_field_ids=False))


def _schema_id(schema: Any) -> str:
    """What a schema says about the files: the names, types and ids of its fields."""
    return hashlib.sha256(repr(schema.fields).encode()).hexdigest()[:16]


def _schema_with_ids(schema: Any) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return pa.schema([_field_with_id(field) for field in schema_to_pyarrow(schema, include_field_ids=True)])


def _field_with_id(field: pa.Field) -> pa.Field:
    """A field with its id, which readers find it by, and with types of the usual size: pyiceberg has the large ones."""
    type_ = field.type
    if kinds.is_struct(type_):
        type_ = pa.struct([_field_with_id(inner) for inner in type_])
    elif kinds.is_list(type_) or kinds.is_large_list(type_):
        type_ = pa.list_(_field_with_id(type_.value_field))
    elif kinds.is_map(type_):
        type_ = pa.map_(_field_with_id(type_.key_field), _field_with_id(type_.item_field))
    elif kinds.is_large_string(type_):
        type_ = pa.string()
    elif kinds.is_large_binary(type_):
        type_ = pa.binary()
    metadata = {key: value for key, value in (field.metadata or {}).items() if key == FIELD_ID}
    return pa.field(field.name, type_, field.nullable, metadata)


def _change_columns(transaction: Transaction, removed: Sequence[str], want: pa.Schema) -> None:
    """Remove columns, and then add all that the table lacks of `want`: also under the names of the removed ones."""
    if removed:
        with transaction.update_schema(allow_incompatible_changes=True) as update:
            for name in removed:
                update.delete_column((name,))
    with transaction.update_schema() as update:
        update.union_by_name(want)
