"""Run: one run of the exporter, which brings a table of the lake up to date.

It pins each file at its newest change, compares that with the positions in the table, and writes what is between. Changes are
written in chunks: the documents of a chunk have a bounded number of bytes, and it ends with a commit of the log. Each chunk is
one commit of the table, with its rows and the positions after it. A run that is killed leaves whole chunks, and the next run goes
on from there.

A file is read as a whole if the table has nothing of it yet, or if changes cannot bring it up to date: because the reactdb table
was dropped, or made again, or because compaction has removed changes. A table of changes is never read as a whole.

Rule of this file: it decides which files, changes and documents are read, and what is one commit. `TableRows` makes the rows, and
a `LakeTable` keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from reactdb.arrow.casting import InexactNumber
from reactdb.errors import (
    HistoryDiverged,
    HistoryLost,
    InvalidOption,
    TableNotFound,
    UsageError,
    format_value,
)
from reactdb.lake.change_rows import ChangeRows
from reactdb.lake.current_rows import CurrentRows
from reactdb.lake.file_reader import FileReader, open_reader
from reactdb.lake.file_states import FileState, check_position, check_table, read_file_states
from reactdb.lake.fleet import FileOptions
from reactdb.lake.outcome import Outcome
from reactdb.lake.parts import DatabasePosition, Extent
from reactdb.lake.rows import KeyMisfit, MergedRows, ReadProgress, TableRows
from reactdb.lake.staging import StagedRows
from reactdb.lake.target import LakeTable, Note, TargetState
from reactdb.lake.version_rows import VersionRows

# Encoded documents of a chunk. Its arrays, the rows that it replaces and Python's copies come to some three times as much.
CHUNK_BYTES = 16 * 1024 * 1024
# Settings of a table that later runs must have too, as their messages name them.
FIXED: Final = ("mode", "table", "fleet", "at")


def describe_setting(name: str, value: Any) -> str:
    """A setting of a table in words, such as `with mode changes`."""
    if name == "fleet":
        return "from a folder or several files" if value else "from one file"
    if value is None:
        return "from all tables" if name == "table" else f"without {name}"
    return f"from table {format_value(value)}" if name == "table" else f"with {name} {value}"


def position_at(file: FileState, seq: int) -> DatabasePosition:
    """The position `seq` of a file, with the epoch that it belongs to."""
    names = [epoch.name for epoch in file.history if epoch.since <= seq] or [file.history[0].name]
    return replace(file.position, epoch=names[-1], seq=seq)


# The changes of a file with since < seq <= until.
Stretch = tuple[FileState, int, int]


class ExportRun:
    """One run.

    Args:
        is_fleet: Rows come from several files, so they have the columns `_database` and `_source`.
        table: None: the only table, and for `changes` all of them, if there are several.
        as_text: The documents of `changes` are JSON text; otherwise only those of several tables are.

    Attributes:
        rows: The rows of the table, while the run has its lock.
        known: How far the table has read each database.
    """

    rows: TableRows

    def __init__(
        self,
        options: FileOptions,
        is_fleet: bool,
        table: str | None,
        mode: str,
        contract: str,
        progress: Callable[[int, int], None] | None,
        *,
        as_text: bool = False,
    ) -> None:
        self.options = options
        self.is_fleet = is_fleet
        self.mode = mode
        self.contract = contract
        self.outcome = Outcome("")
        self.files = read_file_states(options, ignored=self.outcome.ignored)
        self.table = self._choose_table(table)
        self.known: dict[str, DatabasePosition] = {}
        # How far the first run of the table reads each database.
        self._first_until: dict[str, int] = {}
        self._is_text = self.table is None or as_text
        self._progress = ReadProgress(progress)

    def _choose_table(self, name: str | None) -> str | None:
        names = sorted({table for file in self.files for table in file.position.tables})
        if name is not None or len(names) == 1:
            return names[0] if name is None else name
        if self.mode == "changes" and names:
            return None
        raise InvalidOption(
            f"give the name of a table: choose one of the tables {', '.join(map(format_value, names))}"
            if names
            else "there is no table to export"
        )

    @contextmanager
    def _locked(self, target: LakeTable) -> Iterator[None]:
        """The lock of the table. Rows wait beside the table, also when they are only tried."""
        path = target.path
        with target.lock(), StagedRows(path) as self._stage:
            given = (self.table, self.is_fleet, self.contract, self._progress)
            if self.mode == "changes":
                self.rows = ChangeRows(*given, self._stage, is_text=self._is_text)
            else:
                self.rows = (CurrentRows if self.mode == "current" else VersionRows)(*given)
            yield

    # -----------------------------------------------------------------------------------------------------------
    # The two kinds of runs

    def update(self, target: LakeTable, overwrite: bool) -> Outcome:
        """Bring a table up to date, or make it."""
        if self.table is not None:
            check_table(self.table, self.files)
        with self._locked(target):
            state = target.state(self._epochs())
            if state is not None and self._is_behind(state):
                # Another run has brought the table further, after this one had looked at the files.
                self.files = read_file_states(self.options)
                state = target.state(self._epochs())
            if state is not None and not overwrite:
                self._take_state(target, state)
                # All files are looked at, because this also finds those whose history is another now.
                news = [file for file in self.files if self._has_news(file)]
                if not news:
                    return self._finish(target.path)
                if state.settings.get("is_empty"):
                    # It has no columns of documents yet, so these make it as at the first time.
                    self.known = {}
                    self.rows.begin(None)
            if self.rows.kept is None:
                self._first_until = {file.database: file.position.seq for file in self.files}
            if self.contract == "freeze" and (self.rows.kept is not None or self.mode == "changes"):
                # All of it fits, or nothing is written. The other first runs are one commit.
                begun, is_first = state if self.rows.kept is not None else None, self.rows.is_first
                self._until_rows_fit(lambda: self._write_news(None))
                self.rows.begin(begun, is_first=is_first)
            self._until_rows_fit(lambda: self._write_news(target, exists=state is not None))
            return self._finish(target.path)

    def write_once(self, target: Any, at: int | datetime | str, overwrite: bool) -> Outcome:
        """Write the documents as of a moment to a table that does not exist, or is to be written anew."""
        with self._locked(target):
            rows = self.rows
            assert isinstance(rows, MergedRows)
            positions, tables = {}, 0
            for file in self.files:
                with open_reader(file, self.options) as reader:
                    seq = file.position.seq if isinstance(at, str) else reader.seq_as_of(at)
                    positions[file.database] = position_at(file, seq)
                    tables += rows.table_at(reader, seq) is not None
            if not tables:
                assert self.table is not None
                check_table(self.table, self.files)
                raise TableNotFound(self.table, " It was not there at that moment.")
            state = target.state(self._epochs())
            if state is not None and not overwrite:
                raise UsageError(
                    f"{target.path} exists: choose another folder, or replace it with overwrite=True (--overwrite)"
                )
            moment = at.isoformat() if isinstance(at, datetime) else str(at)
            how = "create" if state is None else "replace"
            self._until_rows_fit(lambda: self._write_whole(target, rows, self.files, positions, how, moment))
            return self._finish(target.path)

    def _until_rows_fit(self, write: Callable[[], None]) -> None:
        """Write again, with other columns, as long as a row does not fit. What was committed stays, and is not written again."""
        while True:
            try:
                return write()
            except (InexactNumber, KeyMisfit) as misfit:
                self.rows.adapt(misfit)
            self.rows.restart()

    # -----------------------------------------------------------------------------------------------------------
    # The state of the table and of the files

    def _take_state(self, target: LakeTable, state: TargetState) -> None:
        """Go on from a table.

        Raises:
            UsageError: It was begun otherwise.
            HistoryDiverged: It was made from another database.
        """
        settings = self._settings()
        for name in FIXED:
            if state.settings.get(name) != settings[name]:
                before = describe_setting(name, state.settings.get(name))
                now = describe_setting(name, settings[name])
                raise UsageError(
                    f"{target.path} was written {before}, and cannot go on {now}: choose another folder, or write it anew with "
                    "overwrite=True (--overwrite)"
                )
        self.known = dict(state.positions)
        if not self.is_fleet and self.files and self.files[0].database not in self.known:
            raise HistoryDiverged(
                f"{self.files[0].path} is another database than the one that {target.path} was made from"
            )
        # A first run that was killed after some chunks goes on as one.
        self._first_until = state.settings.get("first_until", {})
        read = {database: position.seq for database, position in self.known.items()}
        ends = ((file.database, self._first_until.get(file.database, -1)) for file in self.files)
        self.rows.begin(state, is_first=any(read.get(database, -1) < seq for database, seq in ends))

    def _is_behind(self, state: TargetState) -> bool:
        return any(
            file.database in state.positions and state.positions[file.database].seq > file.position.seq
            for file in self.files
        )

    def _has_news(self, file: FileState) -> bool:
        """Whether a file has changes that the table lacks. Raises: as `_is_lost`."""
        before = self.known.get(file.database)
        return before is None or self._is_lost(file, before) or before.seq != file.position.seq

    def _is_lost(self, file: FileState, before: DatabasePosition) -> bool:
        """Whether compaction has removed changes after the position, and the present documents can take their place.

        Raises:
            HistoryLost: It has, and documents cannot, because the table has rows of the past.
            HistoryDiverged: The file does not have the position any more.
        """
        try:
            check_position(file, before)
        except HistoryLost:
            if self.rows.has_past:
                raise
            return True
        return False

    def _must_be_whole(self, rows: MergedRows, file: FileState) -> bool:
        """Whether changes cannot bring the rows of this file up to date."""
        before = self.known.get(file.database)
        if before is None or rows.is_rewritten or self._is_lost(file, before):
            return True
        with open_reader(file, self.options) as reader:
            then = rows.table_at(reader, before.seq)
            now = rows.table_at(reader, file.position.seq)
        if then is None:
            # The changes since are all there is of a table made since, but not of one that got its name since.
            return now is not None and now.created <= before.seq
        return now is None or now.id != then.id

    # -----------------------------------------------------------------------------------------------------------
    # Commits

    def _write_news(self, target: LakeTable | None, exists: bool = True) -> None:
        """Write what the table lacks.

        Args:
            target: None: only try whether everything fits.
            exists: There is a table. If the rows have none of its columns (`kept` is None), it is written anew.
        """
        rows = self.rows
        first_step = None if rows.kept is not None else "replace" if exists else "create"
        if isinstance(rows, MergedRows):
            self._merge_news(target, rows, first_step)
            return
        for stretches in self._chunks(self.files):
            if target is None and rows.is_first:
                # The columns widen from chunk to chunk, and all rows must fit the last ones.
                continue
            if target is not None and (first_step != "create" or self._stage.rows):
                self.outcome.rows += self._write_staged(
                    target, first_step or "append", self._chunk_note(stretches)
                )
                first_step = None
            rows.clear()
        if target is None:
            for _ in self._stage.batches(rows.schema()):
                pass

    def _merge_news(self, target: LakeTable | None, rows: MergedRows, first_step: str | None) -> None:
        """Write some files as a whole, and then the changes of the others."""
        whole = [file for file in self.files if self._must_be_whole(rows, file)]
        positions = {file.database: file.position for file in whole}
        others = [file for file in self.files if file.database not in positions]
        if whole:
            is_renewed = not positions.keys().isdisjoint(self.known)
            how = first_step or ("replace" if is_renewed else "append")
            self._write_whole(target, rows, whole, positions, how)
            self.outcome.was_rewritten = is_renewed
        for stretches in self._chunks(others):
            table = rows.chunk()
            if target is not None:
                schema, note = rows.schema(), self._chunk_note(stretches)
                if table is None:
                    target.advance(note)
                else:
                    self._widen(target, schema)
                    self.outcome.count(*rows.merge(target, table, note))
                self._commit(schema, note)
            rows.clear()

    def _write_whole(
        self,
        target: LakeTable | None,
        rows: MergedRows,
        files: Sequence[FileState],
        positions: dict[str, DatabasePosition],
        how: str,
        at: str | None = None,
    ) -> None:
        """All rows of these files, as of these positions, in one commit.

        Args:
            how: `create`, `replace` (the rows of other databases stay) or `append`.
            at: The moment, for a table that is written once, also if it has no rows.
        """
        stage = self._stage
        stage.clear()
        for file in files:
            with open_reader(file, self.options) as reader:
                seq = positions[file.database].seq
                info = rows.table_at(reader, seq)
                for batch in () if info is None else rows.whole(reader, info, seq):
                    stage.add(batch)
        if target is None or (how == "create" and not stage.rows and at is None):
            return
        note = self._note(positions, at=at)
        others: Iterable[pa.RecordBatch] = ()
        if how == "replace" and rows.kept is not None:
            note = replace(note, keeps_others=True)
            others = rows.others(target.scan(), positions, rows.schema())
        count = self._write_staged(target, how, note, others)
        if how == "replace":
            self.outcome.rows += count
        else:
            self.outcome.count(count)

    def _write_staged(
        self, target: LakeTable, how: str, note: Note, others: Iterable[pa.RecordBatch] = ()
    ) -> int:
        """Commit the rows that were staged, and return their number. `others`: rows that stay in a table that is replaced."""
        stage, schema = self._stage, self.rows.schema()
        count = stage.rows
        if how == "create":
            target.create(schema, stage.batches(schema), note)
        elif how == "replace":
            target.replace(schema, chain(others, stage.batches(schema)), note)
        elif count:
            self._widen(target, schema)
            target.append(schema, stage.batches(schema), note)
        else:
            target.advance(note)
        stage.clear()
        self._commit(schema, note)
        return count

    def _widen(self, target: LakeTable, schema: pa.Schema) -> None:
        if not schema.equals(self.rows.kept):
            target.widen(schema)
            self.rows.kept = schema

    def _commit(self, schema: pa.Schema, note: Note) -> None:
        """Note that a commit has been made."""
        self.known = dict(note.positions)
        self.rows.kept = schema
        self.outcome.add(self.rows.columns.take_evolution())

    def _settings(self, at: str | None = None) -> dict[str, Any]:
        given: dict[str, Any] = {"mode": self.mode, "table": self.table, "fleet": self.is_fleet, "at": at}
        if self.mode == "changes":
            # The first run of the other modes is one commit.
            given["first_until"] = self._first_until
        return {**given, **self.rows.settings()}

    def _note(
        self, positions: Mapping[str, DatabasePosition], extents: Sequence[Extent] = (), at: str | None = None
    ) -> Note:
        return Note(self._settings(at), {**self.known, **positions}, extents)

    def _chunk_note(self, stretches: Sequence[Stretch]) -> Note:
        positions = {file.database: position_at(file, until) for file, _, until in stretches}
        extents = [
            Extent(file.database, file.path, positions[file.database].epoch, since, until)
            for file, since, until in stretches
        ]
        return self._note(positions, extents)

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def _chunks(self, files: Sequence[FileState]) -> Iterator[list[Stretch]]:
        """Give the changes past the positions to `rows`, and stop at the end of each chunk."""
        rows = self.rows
        chunk: list[Stretch] = []
        for file in files:
            before = self.known.get(file.database)
            since = position = file.oldest if before is None else before.seq
            self._progress.expect(file.position.seq - since)
            with open_reader(file, self.options) as reader:
                ids = rows.table_ids(reader, before)
                if before is None and file.oldest:
                    self.outcome.begins_late.append(file.path)
                    for page in rows.first_documents(reader):
                        rows.add(page)
                while position < file.position.seq:
                    position = self._read(reader, position, file.position.seq, ids)
                    if rows.size_bytes >= CHUNK_BYTES:
                        # A commit is not divided, so that no reader of the table sees a part of it.
                        commit_end = reader.commit_end(position)
                        while position < commit_end:
                            position = self._read(reader, position, commit_end, ids)
                        yield [*chunk, (file, since, position)]
                        chunk, since = [], position
            if position > since or before is None:
                chunk.append((file, since, position))
        if chunk:
            yield chunk

    def _read(self, reader: FileReader, since: int, until: int, ids: tuple[int, ...] | None) -> int:
        """Give a page of changes to `rows`, and return the position that it leads to."""
        page, position = reader.changes(since, until, ids, with_old=self.rows.with_old)
        if page is not None:
            self.rows.add(page)
            self._progress.step(len(page))
        return position

    def _epochs(self) -> dict[str, list[str]]:
        return {file.database: [epoch.name for epoch in reversed(file.history)] for file in self.files}

    def _finish(self, path: str) -> Outcome:
        self.outcome.path = path
        self.outcome.positions = {
            file.path: self.known[file.database].seq for file in self.files if file.database in self.known
        }
        self.outcome.begins_late = list(dict.fromkeys(self.outcome.begins_late))
        return self.outcome
