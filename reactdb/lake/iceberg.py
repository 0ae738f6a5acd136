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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import count
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.errors import MissingExtra, SchemaMismatch, StorageError, UsageError
from reactdb.lake.data_files import DataFile, DataFileWriter, TableFile, storage_errors
from reactdb.lake.folder_lock import LOCK
from reactdb.lake.format_table import FormatTable, Step, TableCommit
from reactdb.lake.parts import DatabasePosition, flush
from reactdb.lake.schemas import needs_rewrite, plain_schema
from reactdb.lake.target import Note

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


class IcebergTarget(FormatTable["Table"]):
    """A table of Iceberg in a folder with a catalogue, as a `LakeTable`. A folder may have several tables.

    Args:
        table: The name of the table in the namespace `reactdb`. Any text.

    Raises:
        MissingExtra: The package pyiceberg is not installed, or its part for SQLite.
        UsageError: The path has a character that pyiceberg takes for the end of a path.
    """

    format = "Iceberg"

    def __init__(self, path: str, table: str) -> None:
        super().__init__(path)
        try:
            import pyiceberg.catalog.sql  # noqa: F401
        except ImportError as missing:
            raise MissingExtra("exporting to Iceberg", "pyiceberg[sql-sqlite]", "lake") from missing
        if set("?#%") & set(self.path):
            raise UsageError(f"{self.path}: a path of an Iceberg table cannot have `?`, `#` or `%` in it")
        self.table = table
        self.title = f"table {table} in {self.path}"
        self._identifier = (NAMESPACE, table)
        self._location = os.path.join(self.path, NAMESPACE, _folder_name(table))

    # -----------------------------------------------------------------------------------------------------------
    # The table

    def _refuse_foreign(self) -> None:
        strange = self._strange_names() if self._is_there() else []
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

        from reactdb.lake import flushed_files

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
                        **{"py-io-impl": flushed_files.NAME},
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
                if SETTINGS not in table.properties:
                    raise UsageError(
                        f"{self.title} was not written by reactdb, and is left alone: choose another folder"
                    )
                if table.properties.get(SCHEMA) != _schema_id(table.schema()) or table.spec().fields:
                    raise self._changed("its columns or partitions are others")
            yield table

    def _remove_remains(self) -> None:
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

    def _schema(self, table: Table) -> pa.Schema:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return plain_schema(schema_to_pyarrow(table.schema(), include_field_ids=False))

    def _check_names(self, schema: pa.Schema) -> None:
        seen: set[str] = set()
        for name in _field_names(list(schema), ""):
            if name in seen:
                raise SchemaMismatch(
                    f"column `{name}`",
                    "Iceberg takes it for a field of another column, because of the dot in its name",
                    "export to Parquet or Delta, or leave new fields out with contract=discard",
                )
            seen.add(name)

    def _notes(
        self, table: Table, databases: Mapping[str, Sequence[str]]
    ) -> tuple[dict[str, Any], dict[str, DatabasePosition]]:
        positions = json.loads(table.properties[POSITIONS])
        return json.loads(table.properties[SETTINGS]), {
            database: DatabasePosition(**position) for database, position in positions.items()
        }

    def _files(self, table: Table) -> list[TableFile]:
        with self._errors("read"):
            tasks = list(table.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise self._changed("rows were deleted from it, by delete files")
        files = [task.file for task in tasks]
        return [
            TableFile(file.file_path.removeprefix("file://"), file.file_size_in_bytes, file) for file in files
        ]

    # -----------------------------------------------------------------------------------------------------------
    # Commits

    @contextmanager
    def _commit(
        self, step: Step, table: Table | None, schema: pa.Schema, note: Note | None
    ) -> Iterator[TableCommit]:
        numbers = count(1)
        with self._noted_commit() as name, self._transaction(step, table, schema) as transaction:

            def new_path() -> str:
                return os.path.join(self._location, "data", f"{next(numbers):05}-{name}.parquet")

            with DataFileWriter(new_path, _schema_with_ids(transaction.table_metadata.schema())) as writer:
                commit = TableCommit(writer)
                yield commit
                writer.finish()
                if commit.replaced is None and table is not None:
                    commit.replaced = self._files(table)
                self._finish(transaction, commit, note, name)

    @contextmanager
    def _noted_commit(self) -> Iterator[str]:
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

    @contextmanager
    def _transaction(self, step: Step, table: Table | None, schema: pa.Schema) -> Iterator[Transaction]:
        """A transaction in which the table has this schema."""
        if table is None:
            with self._catalogue(create=True) as catalogue:
                assert catalogue is not None
                with self._errors("written"):
                    os.makedirs(os.path.join(self._location, "data"), exist_ok=True)
                    new = catalogue.create_table_transaction(
                        self._identifier, schema=schema, location=self._location, properties=dict(PROPERTIES)
                    )
                yield new
            return
        transaction = table.transaction()
        if step in ("replace", "widen"):
            have = {field.name: field.type for field in self._schema(table)}
            want = {field.name: field.type for field in schema}
            is_new = needs_rewrite if step == "widen" else pa.DataType.__ne__
            removed = [name for name, type_ in have.items() if name not in want or is_new(type_, want[name])]
            with self._errors("written"):
                _change_columns(transaction, removed, schema)
        yield transaction

    def _finish(self, transaction: Transaction, commit: TableCommit, note: Note | None, name: str) -> None:
        """Commit one version of the table. Its list of files has the new files, and lacks the files that they replace. The
        settings and positions are in the same commit."""
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        # Each look at it copies the whole metadata.
        metadata = transaction.table_metadata
        properties = {COMMIT: name, SCHEMA: _schema_id(metadata.schema())}
        if note is not None:
            properties[SETTINGS] = json.dumps(dict(note.settings), sort_keys=True)
            properties[POSITIONS] = json.dumps(
                {database: asdict(position) for database, position in note.positions.items()}, sort_keys=True
            )
        # From here on only `_remove_remains` may remove the files: after an error the commit may be there or not.
        commit.writer.keep()
        with self._errors("written", CommitFailedException, ValidationException):
            if commit.writer.files or commit.replaced:
                update = transaction.update_snapshot()
                with update.overwrite() if commit.replaced else update.fast_append() as snapshot:
                    # The names of the files of metadata have the id, by which the next run finds them after a kill.
                    snapshot.commit_uuid = uuid.UUID(name)
                    for file in commit.writer.files:
                        snapshot.append_data_file(_list_file(file, metadata))
                    for old in commit.replaced or ():
                        snapshot.delete_data_file(old.entry)
            transaction.set_properties(properties)
            self._flush_folders()
            transaction.commit_transaction()

    def _flush_folders(self) -> None:
        """Flush the names of the files to the disk. Their content is there: see `data_files` and `flushed_files`."""
        for path in (
            os.path.join(self._location, "data"),
            self._location,
            os.path.dirname(self._location),
            self.path,
        ):
            flush(path)


def _folder_name(table: str) -> str:
    """A folder's name for a table of any name."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", table)[:64]
    return name if name == table else f"{name}-{hashlib.sha256(table.encode()).hexdigest()[:12]}"


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


def _field_names(fields: Sequence[pa.Field], within: str) -> Iterator[str]:
    """The full name of each field, as Iceberg has it: `place.zip`, and for the parts of lists and maps
    `scores.element`, `scores.key` and `scores.value`.

    Args:
        within: The full name of the struct with a dot after it, or empty.
    """
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
            yield from _field_names(list(type_), inner)


def _schema_id(schema: Any) -> str:
    """What a schema says about the files: the names, types and ids of its fields."""
    return hashlib.sha256(repr(schema.fields).encode()).hexdigest()[:16]


def _schema_with_ids(schema: Any) -> pa.Schema:
    """The schema of the Parquet files of a table: Arrow's types, with the ids by which Iceberg finds columns."""
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
