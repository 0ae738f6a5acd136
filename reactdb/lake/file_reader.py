"""FileReader: documents as of a seq, and changes of the log, of one file: page by page, each in a short transaction.

Both come as `RowPage`s, columns of a few thousand rows at most. A document of a snapshot is a row with the `op` `read`.

Rule of this file: bytes out of the file, verified; nothing is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from operator import sub

from reactdb.change import KINDS
from reactdb.errors import HistoryDiverged
from reactdb.lake.file_states import FileState
from reactdb.lake.fleet import FileOptions, open_file
from reactdb.store import exports
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.engine import Engine
from reactdb.store.log import PastNames, name_of
from reactdb.store.snapshot import Snapshot, read_head_seq
from reactdb.values.scalars import EPOCH, microseconds_of

READ = "read"


@dataclass(slots=True)
class RowPage:
    """Rows of one file, column by column.

    Attributes:
        tables, ops: The name of the table, and the kind of change or `read`.
        times: Milliseconds since 1970; None for `read`.
        prevs: The seq of the entry before of the same key; None if there is none, and for `read`.
        olds, bodies: The documents before and after, encoded; `olds` is empty where they were not asked for.
    """

    file: FileState
    seqs: Sequence[int]
    tables: Sequence[str]
    keys: Sequence[bytes]
    ops: Sequence[str]
    times: Sequence[int | None]
    commits: Sequence[int]
    origins: Sequence[str | None]
    prevs: Sequence[int | None]
    olds: Sequence[bytes | None]
    bodies: Sequence[bytes | None]

    def __len__(self) -> int:
        return len(self.keys)

    def pick(self, places: Sequence[int]) -> RowPage:
        """Some of the rows, by their places."""
        columns = [getattr(self, name) for name in COLUMNS]
        return RowPage(self.file, *[[column[place] for place in places] for column in columns])

    @property
    def size_bytes(self) -> int:
        """Of the documents."""
        return sum(len(body) for bodies in (self.olds, self.bodies) for body in bodies if body is not None)


COLUMNS = ("seqs", "tables", "keys", "ops", "times", "commits", "origins", "prevs", "olds", "bodies")


def page_of_documents(
    file: FileState, table: str, seq: int, keys: Sequence[bytes], bodies: Sequence[bytes]
) -> RowPage:
    """Documents as rows with the `op` `read`."""
    count = len(keys)
    nothing = [None] * count
    return RowPage(
        file, [seq] * count, [table] * count, keys, [READ] * count, nothing, [seq] * count, nothing, nothing, nothing,
        bodies,
    )  # fmt: skip


class FileReader:
    """One file, open to read. Its state is that of `file`, also when others write to it meanwhile."""

    def __init__(self, engine: Engine, file: FileState) -> None:
        self.file = file
        self._engine = engine

    @contextmanager
    def _snapshot(self) -> Iterator[Snapshot]:
        with self._engine.snapshot() as snapshot:
            exports.check_same(self._engine, snapshot, self.file.database, self.file.position.seq)
            yield snapshot

    def table_at(self, name: str, seq: int) -> TableInfo | None:
        """The table that had this name at `seq`; None where there is none."""
        with self._snapshot() as snapshot:
            info = _catalogue_of(snapshot, seq).at(name, seq)
            return info if info is not None and info.owner is None else None

    def table_ids(self, name: str) -> tuple[int, ...]:
        """The numbers of all tables of this name, also of those that were dropped."""
        with self._snapshot() as snapshot:
            return exports.find_table_ids(snapshot, name)

    def was_renamed(self, name: str, since: int) -> bool:
        """Whether a table that was there at `since` has got this name later, or lost it by another."""
        with self._snapshot() as snapshot:
            then, now = _catalogue_of(snapshot, since), snapshot.catalogue
            return any(
                (then.by_id[number].reference == name) != (info.reference == name)
                for number, info in now.by_id.items()
                if info.created <= since
            )

    def count(self, table: TableInfo) -> int:
        """How many documents the table has now."""
        with self._snapshot() as snapshot:
            return snapshot.count(table)

    def seq_as_of(self, moment: int | datetime) -> int:
        """The seq of the state at this moment.

        Raises:
            InvalidOption: It is in the future.
            HistoryLost: Compaction has removed it.
        """
        with self._snapshot() as snapshot:
            return exports.find_seq_as_of(
                snapshot,
                self.file.path,
                self.file.position.seq,
                seq=None if isinstance(moment, datetime) else moment,
                time_ms=microseconds_of(moment - EPOCH) // 1000 if isinstance(moment, datetime) else None,
            )

    def commit_end(self, seq: int) -> int:
        """The last seq of the commit that `seq` belongs to."""
        with self._snapshot() as snapshot:
            return min(exports.find_commit_start(snapshot, seq + 1) - 1, self.file.position.seq)

    def documents(self, table: TableInfo, seq: int) -> Iterator[RowPage]:
        """The documents of a table as of `seq`, in order of their keys.

        Raises:
            HistoryLost, CorruptDatabase.
        """
        start: bytes | None = exports.FIRST
        while start is not None:
            with self._snapshot() as snapshot:
                found = exports.documents(snapshot, table, seq, start, exports.END)
            start = found.next_start
            if found.keys:
                yield page_of_documents(self.file, table.name, seq, found.keys, found.bodies)

    def changes(
        self, since: int, until: int, table_ids: Sequence[int] | None, *, with_old: bool
    ) -> tuple[RowPage | None, int]:
        """A page of the changes with since < seq <= until, oldest first, and the position that it leads to.

        Args:
            table_ids: Of these tables; None: of all that users see.

        Raises:
            HistoryLost, CorruptDatabase.
        """
        if table_ids == ():
            return None, until
        with self._snapshot() as snapshot:
            entries, position = exports.changes(
                snapshot, since, until, table_ids=table_ids, with_old=with_old
            )
            if entries is None:
                return None, position
            names = {number: str(name_of(number, snapshot.catalogue)) for number in set(entries.table_ids)}
        nothing = [None] * len(entries.keys)
        page = RowPage(
            self.file,
            entries.seqs,
            [names[number] for number in entries.table_ids],
            entries.keys,
            [KINDS[kind] for kind in entries.kinds],
            entries.times,
            list(map(sub, entries.seqs, entries.steps)),
            entries.origins,
            entries.prevs,
            entries.olds if with_old else nothing,
            entries.bodies,
        )
        return page, position


def _catalogue_of(snapshot: Snapshot, seq: int) -> Catalogue:
    """The catalogue with the names that tables had at `seq`."""
    names = PastNames().at(snapshot, seq, read_head_seq(snapshot.connection))
    return snapshot.catalogue.copy_renamed(names)


@contextmanager
def open_reader(file: FileState, options: FileOptions) -> Iterator[FileReader]:
    """Open a file whose state is known.

    Raises:
        HistoryDiverged: It was replaced meanwhile.
    """
    with open_file(file.path, options) as engine:
        if engine.database_id != file.database:
            raise HistoryDiverged(f"{file.path} was replaced by another database while it was read")
        yield FileReader(engine, file)
