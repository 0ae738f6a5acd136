"""TableRows: the rows of a table of a lake, made of pages of files. Each kind of table has a class of its own:

    current_rows    the fields of a document, one column each
    change_rows     one row a change, with the documents before and after
    version_rows    one row a version of a document, with when it began and ended

A run gives the rows of a file as a whole to the table, or collects the pages of a chunk with `add` and then makes their rows.
Documents widen the columns meanwhile. So a row may turn out not to fit after others were made (`InexactNumber`, `KeyMisfit`).
Then `adapt` changes the columns, and the run makes the rows again.

Further columns are there only if they are needed: `_database` and `_source` if rows come from several files, `_key` if no field
identifies a document, `_conflicts` if a value did not fit its column.

Rule of this file: it makes rows out of pages. The run reads the files, and decides what is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from reactdb import change
from reactdb.arrow.casting import InexactNumber, cast_batch
from reactdb.arrow.keys import key_values, texts
from reactdb.json import dumps, plain_text
from reactdb.lake.columns import DocumentColumns

if TYPE_CHECKING:
    from reactdb.lake.file_reader import FileReader, RowPage
    from reactdb.lake.parts import DatabasePosition
    from reactdb.lake.target import LakeTable, Note, TargetState
    from reactdb.store.catalogue import TableInfo

DATABASE, SOURCE, KEY, CONFLICTS = "_database", "_source", "_key", "_conflicts"
TEXT, LONG, TIME = pa.string(), pa.int64(), pa.timestamp("us", "UTC")
# The kind of a change as pages have it: a word.
INSERT: Final = change.KINDS[change.INSERT]


class KeyMisfit(Exception):
    """A key does not fit the column of the primary key, so rows need the column `_key`."""


class ReadProgress:
    """How many rows were read, and how many there are to read, for a function that shows them."""

    def __init__(self, report: Callable[[int, int], None] | None) -> None:
        self._report = report
        self._done = self._total = 0

    def expect(self, rows: int) -> None:
        """Add rows that are to be read."""
        self._total += rows

    def step(self, rows: int) -> None:
        """Add rows that were read."""
        self._done += rows
        if self._report is not None:
            self._report(self._done, max(self._done, self._total))


class TableRows:
    """The rows of a table, and the columns of documents in it.

    Args:
        table: The reactdb table; None: all of them.
        is_fleet: Rows come from several files.
        contract: What becomes of fields and values that do not fit. See `columns`.

    Attributes:
        kept: The schema of the table as it is now; None: there is no table yet.
        is_first: The rows are of the first run, which gives the table its columns, whatever the contract.
        size_bytes: The size of the documents in the chunk.
    """

    # The columns of a table that has whole documents in columns, in their order. A column of documents has no fixed type, so its
    # type is None here.
    layout: ClassVar[dict[str, pa.DataType | None]]
    # Rows of the past stay in the table, so documents cannot replace changes that compaction has removed.
    has_past: ClassVar[bool] = True
    # Rows have the documents before the changes, too.
    with_old: ClassVar[bool] = False

    def __init__(self, table: str | None, is_fleet: bool, contract: str, progress: ReadProgress) -> None:
        self.table = table
        self.is_fleet = is_fleet
        self.contract = contract
        self.progress = progress
        self._fixed: set[str] = set()
        self.begin(None)

    def begin(self, state: TargetState | None, *, is_first: bool = False) -> None:
        """Begin with the columns of a table, or with none. `is_first`: its first run has not written all of its rows."""
        self.kept = None if state is None else state.schema
        self.is_first = state is None or is_first
        self.restart()

    def restart(self) -> None:
        """Begin again with the columns that the table has now, and without rows."""
        self.clear()
        self.columns = DocumentColumns(
            [] if self.kept is None else self._kept_fields(self.kept),
            self.contract,
            is_first=self.is_first,
            reserved=self._reserved(),
            fixed=frozenset(self._fixed),
        )

    def adapt(self, misfit: InexactNumber | KeyMisfit) -> None:
        """Change the columns so that the row that raised this error fits. Then call `restart`, which makes the columns.

        Raises:
            SchemaMismatch: The contract does not allow it.
        """
        assert isinstance(misfit, InexactNumber)
        path = self._path_in_document(misfit.path)
        assert path not in self._fixed
        # This column of ints stays one, and its doubles become conflicts.
        self._fixed.add(path)

    def clear(self) -> None:
        """Begin a new chunk."""
        self.size_bytes = 0

    def add(self, page: RowPage) -> None:
        """Take a page of changes into the chunk."""
        raise NotImplementedError

    def table_at(self, reader: FileReader, seq: int) -> TableInfo | None:
        """The reactdb table as of this seq; None: there was none."""
        assert self.table is not None
        return reader.table_at(self.table, seq)

    def table_ids(self, reader: FileReader, before: DatabasePosition | None) -> tuple[int, ...] | None:
        """The numbers of the reactdb tables whose changes are read; None: of all.

        Raises:
            HistoryDiverged: Changes up to the position `before` were those of another table.
        """
        info = self.table_at(reader, reader.file.position.seq)
        return () if info is None else (info.id,)

    def first_documents(self, reader: FileReader) -> Iterable[RowPage]:
        """The documents with which a compacted log begins, if no file is written as a whole."""
        return ()

    # -----------------------------------------------------------------------------------------------------------
    # The schema and the settings of the table

    def schema(self) -> pa.Schema:
        """The schema of the table with the columns so far: first the columns that the table has, then new ones."""
        kept = [] if self.kept is None else self.kept.names
        fields = {field.name: field for field in self._fields()}
        if self.columns.has_conflicts or CONFLICTS in kept:
            fields[CONFLICTS] = pa.field(CONFLICTS, TEXT)
        return pa.schema([fields[name] for name in dict.fromkeys([*kept, *fields]) if name in fields])

    def settings(self) -> dict[str, Any]:
        """What a later run must know of the table, as JSON values."""
        return {"is_empty": self.is_empty}

    @property
    def is_empty(self) -> bool:
        """Whether no document was seen yet. Then text takes the place of the unknown types."""
        return not self.columns.type.num_fields

    def _fields(self) -> list[pa.Field]:
        documents = self.columns.type if self.columns.type.num_fields else TEXT
        return [pa.field(name, type_ or documents) for name, type_ in self.layout.items()]

    def _kept_fields(self, schema: pa.Schema) -> list[pa.Field]:
        """The fields of documents in a table."""
        type_ = next(schema.field(name).type for name, type_ in self.layout.items() if type_ is None)
        return list(type_) if pa.types.is_struct(type_) else []

    def _reserved(self) -> frozenset[str]:
        """Names that the fields of documents cannot have as columns."""
        return frozenset()

    def _path_in_document(self, path: str) -> str:
        """The path of a field, without the column of its document."""
        return path.partition(".")[2]

    def _log_batch(
        self, page: RowPage, made: dict[str, Any], conflicts: Mapping[str, Sequence[str | None] | None]
    ) -> pa.RecordBatch:
        """The rows of a page of the log.

        Args:
            made: The columns that not all tables of the log have.
            conflicts: The conflicts of each column of documents.
        """
        made = {
            **made,
            "database": pa.repeat(page.file.database, len(page)),
            "seq": pa.array(page.seqs, LONG),
            "table": pa.array(page.tables, TEXT),
            "key": key_texts(page.keys),
            "key_bytes": pa.array(page.keys, pa.binary()),
            "op": pa.array(page.ops, TEXT),
            "origin": pa.array(page.origins, TEXT),
        }
        return make_batch({name: made[name] for name in self.layout}, conflict_texts(conflicts, len(page)))


class MergedRows(TableRows):
    """Rows that replace others of the same keys."""

    # The column with the id of the database that a row comes from.
    database: ClassVar[str]

    @property
    def is_rewritten(self) -> bool:
        """Whether each row of the table changes, so that all files must be written as a whole."""
        return False

    def whole(self, reader: FileReader, info: TableInfo, seq: int) -> Iterator[pa.RecordBatch]:
        """All rows of a file as of this seq.

        Raises:
            KeyMisfit.
        """
        raise NotImplementedError

    def others(
        self, batches: Iterable[pa.RecordBatch], databases: Iterable[str], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the table that are of none of these databases, in the new schema."""
        gone = pa.array(sorted(databases))
        for batch in batches if self.is_fleet else ():
            rows = batch.filter(pc.invert(pc.is_in(batch.column(self.database), value_set=gone)))
            yield cast_batch(self._with_keys(rows), schema)

    def _with_keys(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, with the column for keys if they need it now."""
        return rows

    def chunk(self) -> pa.Table | None:
        """The rows of the chunk in the final schema of the table; None: the chunk changes no row.

        Raises:
            InexactNumber, KeyMisfit.
        """
        raise NotImplementedError

    def merge(self, target: LakeTable, rows: pa.Table, note: Note) -> tuple[int, int, int | None]:
        """Write what `chunk` has returned, and remove the rows that go. The table has their schema already.

        Returns:
            The number of rows inserted, updated and deleted; None: not compared.
        """
        raise NotImplementedError

    def _table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        schema = self.schema()
        return pa.Table.from_batches([cast_batch(batch, schema) for batch in batches], schema)


def make_batch(made: dict[str, Any], conflicts: Sequence[str | None] | None) -> pa.RecordBatch:
    """The batch of these columns, and of one for conflicts if there are any."""
    if conflicts is not None:
        made[CONFLICTS] = pa.array(conflicts, TEXT)
    return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))


def conflict_texts(parts: Mapping[str, Sequence[str | None] | None], count: int) -> list[str | None] | None:
    """The conflicts of several documents of a row as one JSON object, by the names of their columns."""
    present = {name: texts_ for name, texts_ in parts.items() if texts_ is not None}
    if not present:
        return None
    rows = []
    for number in range(count):
        inner = [
            f'"{name}":{text}' for name, texts_ in present.items() if (text := texts_[number]) is not None
        ]
        rows.append("{" + ",".join(inner) + "}" if inner else None)
    return rows


def key_texts(keys: Sequence[bytes]) -> Any:
    """The keys as text for people; `key_bytes` tells the number 1 from the text "1"."""
    made = texts(keys)
    return pa.array(list(map(plain_text, key_values(keys))), TEXT) if made is None else made


def json_keys(keys: Sequence[bytes]) -> Any:
    """The keys as JSON text that loses nothing."""
    return pa.array(list(map(dumps, key_values(keys))), TEXT)
