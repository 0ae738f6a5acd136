"""LakeTable: a table of a lake that the exporter writes, and what it must remember about the databases it came from.

The exporter makes rows and decides about types; a target keeps them in one format. Each of its writes is one commit of that
format, which has the rows together with the `Note`: how far each database has been read. So a killed run leaves the table as of a
whole prefix of the changes, and the next run goes on from there.

    lock       first, and until the end of the run
    state      under the lock: what the table is, and how far it has read; None where there is none yet
    create     the table's first rows         replace    all rows anew
    append     rows that are added            merge      rows by their keys: added, replaced, removed
    widen      a schema with more columns, or with doubles instead of ints
    lookup     rows by their keys                    scan       all rows
    advance    positions alone, where a stretch of the log had no rows

Rule of this file: values and a protocol. It knows no format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from reactdb.lake.parts import DatabasePosition, Extent

if TYPE_CHECKING:
    import pyarrow as pa


class InexactNumber(Exception):
    """An int of a column that is to become a column of doubles is not exact in a double. Nothing was changed.

    Attributes:
        path: The column, and the fields within it, such as `place.zip`, `tags[]` or `counts{}`.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"column {path} has an int that no double holds exactly")
        self.path = path


@dataclass(frozen=True, slots=True)
class TargetState:
    """A table that exists.

    Attributes:
        schema: Its columns, as Arrow's types. The metadata of the fields may be gone.
        settings: Those of the first run, as JSON values: they say what kind of table it is.
        positions: Database id -> how far it was read; also of databases that are not there now. `path` and `tables` may be empty.
    """

    schema: pa.Schema
    settings: dict[str, Any]
    positions: dict[str, DatabasePosition]


@dataclass(frozen=True, slots=True)
class Note:
    """What a commit keeps beside its rows, in the same transaction.

    Attributes:
        settings: What the table is, as JSON values. The same in each commit of a table, but `replace` may change them.
        positions: Database id -> how far it has been read after this commit, of all databases ever read.
        extents: The changes in this commit; empty where documents were read.
        keeps_others: Of `replace`: the rows of databases without a position here are kept, so their positions are, too.
    """

    settings: Mapping[str, Any]
    positions: Mapping[str, DatabasePosition]
    extents: Sequence[Extent] = field(default=())
    keeps_others: bool = False


class LakeTable(Protocol):
    """A table of a lake.

    `path` leads to what readers open. The exporter calls `widen` before it writes rows with more columns or wider ones, so the
    schema of all other writes is the table's.
    """

    path: str

    def lock(self) -> AbstractContextManager[None]:
        """Lock the table against other runs, and remove the remains of a crash.

        Raises:
            DatabaseBusy: Another run is writing to it.
            UsageError: The folder holds something else; then nothing was created.
        """

    def state(self, databases: Mapping[str, Sequence[str]]) -> TargetState | None:
        """The table; None if there is none yet. It needs no lock, and takes milliseconds.

        Args:
            databases: Database id -> names of the epochs of its history, newest first. Delta needs them to find positions.

        Raises:
            UsageError: The folder holds something else.
            StorageError: The table cannot be read.
        """

    def create(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        """Make the table with these rows in one commit, and return their number. `batches` is consumed once."""

    def replace(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        """In one commit, these rows replace all rows of a table that exists, and `schema` replaces its schema."""

    def append(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: Note) -> int:
        """Add rows in one commit, and return their number."""

    def merge(self, rows: pa.Table, deleted: pa.Table, keys: Sequence[str], note: Note) -> None:
        """In one commit, each of `rows` replaces the row with the same keys, or is added; rows with the keys of `deleted` go.

        Args:
            rows: In the schema of the table.
            deleted: Only the columns `keys`. No row of it has the keys of a row of `rows`.
            keys: Columns without nulls, which together occur once in the table.
        """

    def lookup(self, keys: pa.Table, where_current: bool) -> pa.Table:
        """The rows with these keys, all columns. `where_current`: only rows whose column `is_current` is true."""

    def scan(self) -> Iterator[pa.RecordBatch]:
        """All rows as they are now, in the schema of the table. `replace` may be given what this gives."""

    def advance(self, note: Note) -> None:
        """Keep these positions in a commit without rows."""

    def widen(self, schema: pa.Schema) -> None:
        """Give the table this schema, which has all of its columns: new columns (and fields of structs) are null in the rows
        that are there, and int64 that becomes double is rewritten. Positions and settings stay.

        Raises:
            InexactNumber: An int is not exact in a double; nothing was changed.
        """
