"""Run: one run of the exporter, which brings a table of the lake up to date.

It pins each file at its newest change, compares that with the positions in the table, and writes what is between. Changes are
written in chunks: the documents of a chunk have a bounded number of bytes, and it ends with a commit of the log. Each chunk is
one commit of the table, with its rows and the positions after it. A run that is killed leaves whole chunks, and the next run goes
on from there.

A file is read as a whole if the table has nothing of it yet, or if changes cannot bring it up to date: because the reactdb table
was dropped, or made again, or because compaction has removed changes.

Rule of this file: it decides which rows there are. `file_reader`, `rows` and `columns` make them, a `LakeTable` keeps them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from reactdb.arrow.arrays import moments
from reactdb.arrow.casting import InexactNumber, cast_batch
from reactdb.arrow.keys import STRING
from reactdb.errors import (
    HistoryDiverged,
    HistoryLost,
    InvalidOption,
    SchemaMismatch,
    TableNotFound,
    UsageError,
    format_value,
)
from reactdb.json import dumps
from reactdb.lake.chunks import INSERT, ChunkDocuments, ChunkEnd, ChunkVersions, position_at
from reactdb.lake.columns import DocumentColumns
from reactdb.lake.exporter import Outcome
from reactdb.lake.file_reader import FileReader, RowPage, open_reader, page_of_documents
from reactdb.lake.file_states import FileState, check_position, check_table, read_file_states
from reactdb.lake.fleet import FileOptions
from reactdb.lake.parts import DatabasePosition, Extent
from reactdb.lake.rows import (
    CHANGE_COLUMNS,
    CONFLICTS,
    DATABASE,
    KEY,
    SOURCE,
    TEXT,
    VERSION_COLUMNS,
    VERSION_KEYS,
    change_batch,
    current_batch,
    json_keys,
    version_batch,
)
from reactdb.lake.staging import StagedRows
from reactdb.lake.target import LakeTable, Note, TargetState
from reactdb.store.catalogue import TableInfo
from reactdb.values.collation import key_value

# Encoded documents of a chunk. Its arrays, the rows that it replaces and Python's copies come to some three times as much.
CHUNK_BYTES = 16 * 1024 * 1024
# Rows that are made into arrays together.
PAGE_ROWS = 2_000
# Settings of a table that later runs must have too, as their messages name them.
FIXED: Final = ("mode", "table", "fleet", "at")


def describe_setting(name: str, value: Any) -> str:
    """A setting of a table in words, such as `with mode changes`."""
    if name == "fleet":
        return "from a folder or several files" if value else "from one file"
    if value is None:
        return "from all tables" if name == "table" else f"without {name}"
    return f"from table {format_value(value)}" if name == "table" else f"with {name} {value}"


class KeyMisfit(Exception):
    """A key does not fit the column of the primary key, so rows need the column `_key`."""


class ExportRun:
    """One run.

    Args:
        is_fleet: Rows come from several files, so they have the columns `_database` and `_source`.
        table: None: the only table, and for `changes` all of them, if there are several.
        as_text: The documents of `changes` are JSON text; otherwise only those of several tables are.
    """

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
        self.is_text = self.table is None or as_text
        # What is known of the table: its schema, the positions in it, the column that rows are merged by.
        self.schema: pa.Schema | None = None
        self.known: dict[str, DatabasePosition] = {}
        self.primary_key: str | None = None
        self.has_key = False
        self.is_first = True
        self._fixed: set[str] = set()
        # Rows wait beside it, also when they are only tried.
        self._path = ""
        self.columns = self._make_columns()
        self._progress = progress
        self._done = self._total = 0

    def _choose_table(self, name: str | None) -> str | None:
        names = sorted({table for file in self.files for table in file.position.tables})
        if name is not None or len(names) == 1:
            return names[0] if name is None else name
        if self.mode == "changes" and names:
            return None
        raise InvalidOption(
            f"name a table: there are {', '.join(map(format_value, names))}"
            if names
            else "there is no table to export"
        )

    # -----------------------------------------------------------------------------------------------------------
    # The two kinds of runs

    def update(self, target: LakeTable, overwrite: bool) -> Outcome:
        """Bring a table up to date, or make it."""
        if self.table is not None:
            check_table(self.table, self.files)
        self._path = target.path
        with target.lock():
            state = target.state(self._epochs())
            if state is not None and self._is_behind(state):
                # Another run has brought the table further, after this one had looked at the files.
                self.files = read_file_states(self.options)
                state = target.state(self._epochs())
            if state is not None and not overwrite:
                self._take_state(target, state)
                if not self._has_news():
                    return self._finish(target.path)
                if self.contract == "freeze":
                    # All of it fits, or nothing is written.
                    self._bring_up_to_date(None, state, overwrite)
                    self._take_state(target, state)
                if state.settings.get("is_empty"):
                    # It has no columns of documents yet, so these make it as at the first time.
                    overwrite = True
                    self.schema, self.known, self.is_first = None, {}, True
                    self.columns = self._make_columns()
            self._bring_up_to_date(target, state, overwrite)
            return self._finish(target.path)

    def write_once(self, target: Any, at: int | datetime | str, overwrite: bool) -> Outcome:
        """Write the documents as of a moment to a table that does not exist, or is to be written anew."""
        positions, tables = {}, 0
        for file in self.files:
            with open_reader(file, self.options) as reader:
                seq = file.position.seq if isinstance(at, str) else reader.seq_as_of(at)
                positions[file.database] = position_at(file, seq)
                tables += self._table_at(reader, positions[file.database].seq) is not None
        if not tables:
            assert self.table is not None
            check_table(self.table, self.files)
            raise TableNotFound(self.table, " (as of then)")
        self._path = target.path
        with target.lock():
            state = target.state(self._epochs())
            if state is not None and not overwrite:
                raise UsageError(f"{target.path} exists: choose another folder, or give overwrite")
            self._write_whole(
                target, self.files, positions, "create" if state is None else "replace",
                at.isoformat() if isinstance(at, datetime) else str(at), is_empty_written=True,
            )  # fmt: skip
            self.known = positions
            return self._finish(target.path)

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
                    f"{target.path} was written {before}, and cannot go on {now}: choose another folder, or give overwrite"
                )
        self.known = dict(state.positions)
        if not self.is_fleet and self.files and self.files[0].database not in self.known:
            raise HistoryDiverged(
                f"{self.files[0].path} is another database than the one that {target.path} was made from"
            )
        self.schema = state.schema
        self.primary_key = state.settings.get("primary_key")
        self.has_key = bool(state.settings.get("has_key"))
        self.is_first = False
        self.columns = self._make_columns()

    def _is_behind(self, state: TargetState) -> bool:
        return any(
            file.database in state.positions and state.positions[file.database].seq > file.position.seq
            for file in self.files
        )

    def _has_news(self) -> bool:
        """Whether a file has changes that the table lacks. Raises: as `file_states.check_position`."""
        for file in self.files:
            before = self.known.get(file.database)
            if before is None:
                return True
            if not self._is_lost(file, before) and before.seq == file.position.seq:
                continue
            return True
        return False

    def _is_lost(self, file: FileState, before: DatabasePosition) -> bool:
        """Whether changes are gone that documents can replace.

        Raises:
            HistoryLost: They cannot.
            HistoryDiverged.
        """
        try:
            check_position(file, before)
        except HistoryLost:
            if self.mode != "current":
                raise
            return True
        return False

    def _bring_up_to_date(self, target: LakeTable | None, state: TargetState | None, overwrite: bool) -> None:
        """Write what is new. `target`: None to try whether everything fits."""
        while True:
            try:
                if self.mode == "changes":
                    self._append_changes(target, state is not None and self.is_first)
                else:
                    self._update_rows(target, state, overwrite)
                return
            except InexactNumber as error:
                self._fix(error)
            except KeyMisfit:
                self._need_key()
            self.columns = self._make_columns()

    def _fix(self, error: InexactNumber) -> None:
        """A column of ints stays one, and its doubles become conflicts."""
        path = error.path if self.mode == "current" else error.path.partition(".")[2]
        assert path not in self._fixed
        self._fixed.add(path)

    def _need_key(self) -> None:
        """Rows need the column `_key`, which changes each of them."""
        if not self.is_first and self.contract != "evolve":
            raise SchemaMismatch(
                f"a key of table `{self.table}`",
                f"it is not of the type of column {self.primary_key}",
                "contract evolve writes the table anew, with a column for all keys",
            ) from None
        assert not self.has_key
        self.has_key = True

    # -----------------------------------------------------------------------------------------------------------
    # Documents and versions: rows that are merged

    def _update_rows(self, target: LakeTable | None, state: TargetState | None, overwrite: bool) -> None:
        is_anew = state is None or (overwrite and self.is_first)
        needs_key = state is not None and not is_anew and self.has_key != bool(state.settings.get("has_key"))
        whole: list[FileState] = []
        rest: list[FileState] = []
        for file in self.files:
            before = self.known.get(file.database)
            is_whole = is_anew or needs_key or before is None or self._cannot_follow(file, before)
            (whole if is_whole else rest).append(file)
        if whole:
            renewed = [file for file in whole if file.database in self.known]
            how = (
                "create" if state is None and self.is_first else "replace" if is_anew or renewed else "append"
            )
            positions = {file.database: file.position for file in whole}
            self._write_whole(target, whole, positions, how)
            self.outcome.was_rewritten = bool(renewed)
        if self.mode == "current":
            newest = ChunkDocuments()
            for end in self._chunks(rest, newest.add, lambda: newest.size_bytes, with_old=False):
                self._merge_documents(target, newest, end)
                newest.clear()
        else:
            versions = ChunkVersions()
            for end in self._chunks(rest, versions.add, lambda: versions.size_bytes, with_old=False):
                self._merge_versions(target, versions, end)
                versions.clear()

    def _cannot_follow(self, file: FileState, before: DatabasePosition) -> bool:
        """Whether rows of this file cannot be brought up to date by the changes of its table."""
        if self._is_lost(file, before):
            return True
        with open_reader(file, self.options) as reader:
            then = self._table_at(reader, before.seq)
            now = self._table_at(reader, file.position.seq)
        if then is None:
            # The changes since are all there is of a table made since, but not of one that got its name since.
            return now is not None and now.created <= before.seq
        return now is None or now.id != then.id

    def _write_whole(
        self,
        target: Any,
        files: Sequence[FileState],
        positions: dict[str, DatabasePosition],
        how: str,
        at: str | None = None,
        is_empty_written: bool = False,
    ) -> None:
        """All rows of these files in one commit.

        Args:
            how: `create`, `replace` (the rows of other databases stay) or `append`.
        """
        while True:
            try:
                with StagedRows(self._path) as stage:
                    self._stage_whole(stage, files, positions)
                    if target is None or (how == "create" and not stage.rows and not is_empty_written):
                        return
                    note = self._note(positions, at=at)
                    schema = self._schema()
                    if how == "append" and not stage.rows:
                        target.advance(note)
                    elif how == "append":
                        self._widen(target, schema)
                        target.append(schema, stage.batches(schema), note)
                    elif how == "create":
                        target.create(schema, stage.batches(schema), note)
                    else:
                        gone = None if self.is_first else {file.database for file in files}
                        kept = () if gone is None else self._rows_but(target, gone, schema)
                        note = replace(note, keeps_others=gone is not None)
                        target.replace(schema, chain(kept, stage.batches(schema)), note)
                    self._commit(schema, note)
                    self.outcome.rows += stage.rows
                    if how != "replace":
                        self.outcome.inserted = (self.outcome.inserted or 0) + stage.rows
                return
            except InexactNumber as error:
                self._fix(error)
            except KeyMisfit:
                if how != "create" and not self.is_first:
                    # All files are written anew then, and not only these.
                    raise
                self._need_key()
            self.columns = self._make_columns()

    def _stage_whole(
        self, stage: StagedRows, files: Sequence[FileState], positions: Mapping[str, DatabasePosition]
    ) -> None:
        """All rows of these files as of these positions."""
        for file in files:
            with open_reader(file, self.options) as reader:
                seq = positions[file.database].seq
                info = self._table_at(reader, seq)
                if info is None:
                    continue
                self._note_primary_key(info)
                if self.mode == "scd2":
                    self._stage_versions(stage, reader, info)
                    continue
                self._total += reader.count(info)
                for page in reader.documents(info, seq):
                    stage.add(self._current_batch(page))
        self._check_key_column()

    def _rows_but(self, target: LakeTable, gone: set[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of the table without those of these databases."""
        name = DATABASE if self.mode == "current" else "database"
        if not self.is_fleet:
            return
        for batch in target.scan():
            rows = batch.filter(pc.invert(pc.is_in(batch.column(name), value_set=pa.array(sorted(gone)))))
            if self.mode == "current" and self.has_key and KEY not in rows.schema.names:
                keys = rows.column(self.primary_key).to_pylist()
                rows = rows.append_column(KEY, pa.array(list(map(dumps, keys)), TEXT))
            yield cast_batch(rows, schema)

    # Documents

    def _current_batch(self, page: RowPage) -> pa.RecordBatch:
        batch = current_batch(self.columns, page, is_fleet=self.is_fleet, has_key=self.has_key)
        if not self.has_key:
            place = batch.schema.get_field_index(self.primary_key)
            if (
                place < 0
                or batch.column(place).null_count
                or not self._is_key_type(batch.schema.types[place])
            ):
                raise KeyMisfit
            # A UUID is text as a value, and is no text as a key.
            is_text = pa.types.is_string(batch.schema.types[place])
            if is_text and {key[0] for key in page.keys} != {STRING}:
                raise KeyMisfit
        self._step(len(page))
        return batch

    @staticmethod
    def _is_key_type(type_: pa.DataType) -> bool:
        return bool(pa.types.is_int64(type_) or pa.types.is_string(type_))

    def _check_key_column(self) -> None:
        """The column of the primary key may have been widened meanwhile."""
        if self.mode == "current" and not self.has_key and self.primary_key is not None:
            place = self.columns.type.get_field_index(self.primary_key)
            if place >= 0 and not self._is_key_type(self.columns.type.field(place).type):
                raise KeyMisfit

    def _note_primary_key(self, info: TableInfo) -> None:
        if self.mode != "current":
            return
        if self.primary_key is None:
            self.primary_key = info.primary_key
        elif self.primary_key != info.primary_key and not self.has_key:
            raise KeyMisfit

    def _merge_documents(self, target: LakeTable | None, chunk: ChunkDocuments, end: ChunkEnd) -> None:
        """Bring the documents of a chunk to the table."""
        batches = []
        gone: list[tuple[FileState, bytes]] = []
        counts = [0, 0, 0]
        for file, documents in chunk.by_file():
            present: list[tuple[bytes, bytes]] = []
            for key, (was_there, body) in documents.items():
                if body is not None:
                    present.append((key, body))
                    counts[was_there] += 1
                elif was_there:
                    gone.append((file, key))
                    counts[2] += 1
            for start in range(0, len(present), PAGE_ROWS):
                some = present[start : start + PAGE_ROWS]
                page = page_of_documents(file, "", 0, [key for key, _ in some], [body for _, body in some])
                batches.append(self._current_batch(page))
        self._check_key_column()
        if target is None:
            return
        note = self._note(end.positions, end.extents)
        if not batches and not gone:
            target.advance(note)
            self._commit(self.schema, note)
            return
        schema = self._schema()
        rows = pa.Table.from_batches([cast_batch(batch, schema) for batch in batches], schema)
        keys = ([DATABASE] if self.is_fleet else []) + [KEY if self.has_key else str(self.primary_key)]
        self._widen(target, schema)
        target.merge(rows, self._deleted(gone, schema, keys), keys, note)
        self._commit(schema, note)
        self._count(*counts)

    def _deleted(
        self, gone: Sequence[tuple[FileState, bytes]], schema: pa.Schema, keys: Sequence[str]
    ) -> pa.Table:
        """The key columns of deleted documents."""
        key_bytes = [key for _, key in gone]
        type_ = schema.field(keys[-1]).type
        made = (
            json_keys(key_bytes) if self.has_key else pa.array([key_value(key) for key in key_bytes], type_)
        )
        columns: dict[str, Any] = {keys[-1]: made}
        if self.is_fleet:
            columns = {DATABASE: pa.array([file.database for file, _ in gone], TEXT), **columns}
        return pa.table(columns)

    # Versions

    def _stage_versions(self, stage: StagedRows, reader: FileReader, info: TableInfo) -> None:
        """All versions of the documents of a table, each with its end.

        The log is read twice: the first time for the change that follows each change. That takes 16 bytes a change.
        """
        since, until = reader.file.oldest, reader.file.position.seq
        has_base = bool(since) and info.created <= since
        following, times = array("q", bytes(8 * (until - since))), array("q", bytes(8 * (until - since)))
        after_base: dict[bytes, tuple[int, int]] = {}
        self._total += 2 * (until - since)
        for page in self._pages(reader, since, until, (info.id,)):
            for seq, prev, time, op, key in zip(
                page.seqs, page.prevs, page.times, page.ops, page.keys, strict=True
            ):
                assert time is not None
                times[seq - since - 1] = time
                if prev is not None and prev > since:
                    following[prev - since - 1] = seq
                elif op != INSERT:
                    after_base[key] = (seq, time)
            self._step(len(page))
        if has_base:
            for page in reader.documents(info, since):
                stage.add(version_batch(self.columns, page, [after_base.get(key) for key in page.keys]))
        for page in self._pages(reader, since, until, (info.id,)):
            self._step(len(page))
            begun = page.pick([place for place, body in enumerate(page.bodies) if body is not None])
            nexts = [following[seq - since - 1] for seq in begun.seqs]
            ends = [(seq, times[seq - since - 1]) if seq else None for seq in nexts]
            if begun.keys:
                stage.add(version_batch(self.columns, begun, ends))

    def _merge_versions(self, target: LakeTable | None, chunk: ChunkVersions, end: ChunkEnd) -> None:
        """Add the versions of a chunk, and close those that its changes ended."""
        batches, ended = [], chunk.ended
        for page, ends in chunk.begun():
            batches.append(version_batch(self.columns, page, ends))
            self._step(len(page))
        if target is None:
            return
        note = self._note(end.positions, end.extents)
        if not batches and not ended:
            target.advance(note)
            self._commit(self.schema, note)
            return
        schema = self._schema()
        self._widen(target, schema)
        rows = [cast_batch(batch, schema) for batch in batches]
        closed = self._closed(target, ended, schema) if ended else []
        table = pa.Table.from_batches([*closed, *rows], schema)
        target.merge(table, schema_keys(schema, VERSION_KEYS), VERSION_KEYS, note)
        self._commit(schema, note)
        self._count(sum(map(len, rows)), sum(map(len, closed)))

    def _closed(
        self, target: LakeTable, ended: Mapping[tuple[str, bytes], tuple[int, int]], schema: pa.Schema
    ) -> list[pa.RecordBatch]:
        """The rows of the versions that ended, with their ends."""
        keys = pa.table(
            {
                "database": pa.array([database for database, _ in ended], TEXT),
                "key_bytes": pa.array([key for _, key in ended], pa.binary()),
            }
        )
        closed = []
        for batch in target.lookup(keys, where_current=True).to_batches():
            names = zip(
                batch.column("database").to_pylist(), batch.column("key_bytes").to_pylist(), strict=True
            )
            ends = [ended[name] for name in names]
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            columns["next_seq"] = pa.array([seq for seq, _ in ends], pa.int64())
            columns["valid_to"] = moments([time for _, time in ends])
            columns["is_current"] = pa.array([False] * len(ends), pa.bool_())
            closed.append(cast_batch(pa.RecordBatch.from_pydict(columns), schema))
        return closed

    # -----------------------------------------------------------------------------------------------------------
    # Changes: rows that are appended

    def _append_changes(self, target: LakeTable | None, is_replaced: bool) -> None:
        """Append the changes since the positions.

        Args:
            is_replaced: There is a table, and it is to be written anew.
        """
        first = [file for file in self.files if file.database not in self.known]
        with StagedRows(self._path) as stage:

            def add(page: RowPage) -> None:
                rows = change_batch(None if self.is_text else self.columns, page)
                stage.add(rows, page.size_bytes)
                self._step(len(page))

            ends = self._chunks(self.files, add, lambda: stage.document_bytes, with_old=True, bases=first)
            for end in ends:
                if target is not None:
                    self._append_chunk(target, stage, self._note(end.positions, end.extents), is_replaced)
                stage.clear()

    def _append_chunk(self, target: LakeTable, stage: StagedRows, note: Note, is_replaced: bool) -> None:
        schema = self._schema()
        if not stage.rows:
            if not self.is_first:
                target.advance(note)
                self._commit(self.schema, note)
            if not is_replaced or not self.is_first:
                return
        if self.is_first:
            write = target.replace if is_replaced else target.create
        else:
            self._widen(target, schema)
            write = target.append
        write(schema, stage.batches(schema), note)
        self.outcome.rows += stage.rows
        self._commit(schema, note)

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    def _chunks(
        self,
        files: Sequence[FileState],
        add: Callable[[RowPage], None],
        size_bytes: Callable[[], int],
        *,
        with_old: bool,
        bases: Sequence[FileState] = (),
    ) -> Iterator[ChunkEnd]:
        """Read the changes past the positions, and stop at the end of each chunk.

        Args:
            add: Takes each page.
            size_bytes: The size of the chunk so far.
            bases: Files for which the documents with which a compacted log begins come first.
        """
        end = ChunkEnd()
        for file in files:
            before = self.known.get(file.database)
            since = position = file.oldest if before is None else before.seq
            self._total += file.position.seq - since
            with open_reader(file, self.options) as reader:
                ids = self._table_ids(reader)
                self._refuse_renamed(reader, before)
                if file in bases and file.oldest:
                    self.outcome.begins_late.append(file.path)
                    for info in self._tables_before(reader):
                        for base in reader.documents(info, file.oldest):
                            add(base)
                while position < file.position.seq:
                    page, position = reader.changes(position, file.position.seq, ids, with_old=with_old)
                    if page is not None:
                        add(page)
                    if size_bytes() >= CHUNK_BYTES:
                        # A commit is not divided, so that no reader of the table sees a part of it.
                        commit_end = reader.commit_end(position)
                        while position < commit_end:
                            page, position = reader.changes(position, commit_end, ids, with_old=with_old)
                            if page is not None:
                                add(page)
                        end.add(file, since, position)
                        yield end
                        end, since = ChunkEnd(), position
            if position > since or before is None:
                end.add(file, since, position)
        if end.positions:
            yield end

    def _pages(self, reader: FileReader, since: int, until: int, ids: Sequence[int]) -> Iterator[RowPage]:
        while since < until:
            page, since = reader.changes(since, until, ids, with_old=False)
            if page is not None:
                yield page

    def _table_at(self, reader: FileReader, seq: int) -> TableInfo | None:
        assert self.table is not None
        return reader.table_at(self.table, seq)

    def _table_ids(self, reader: FileReader) -> tuple[int, ...] | None:
        if self.table is None:
            return None
        if self.mode == "changes":
            return reader.table_ids(self.table)
        info = self._table_at(reader, reader.file.position.seq)
        return () if info is None else (info.id,)

    def _refuse_renamed(self, reader: FileReader, before: DatabasePosition | None) -> None:
        """Raises: HistoryDiverged: Of `changes`, the older changes of a renamed table are missing, or are too many."""
        if self.mode != "changes" or self.table is None or before is None:
            return
        if reader.was_renamed(self.table, before.seq):
            raise HistoryDiverged(
                f"a table of {reader.file.path} was renamed to or from {self.table} since it was read up to seq "
                f"{before.seq}: set overwrite to write all changes of the present table"
            )

    def _tables_before(self, reader: FileReader) -> Iterable[TableInfo]:
        """The tables that are older than the log."""
        for name, created in reader.file.position.tables.items():
            if self.table in (None, name) and created <= reader.file.oldest:
                info = reader.table_at(name, reader.file.position.seq)
                if info is not None:
                    yield info

    # -----------------------------------------------------------------------------------------------------------
    # The table's schema, settings and positions

    def _make_columns(self) -> DocumentColumns:
        """The columns of documents as the table has them."""
        kept = None
        reserved: frozenset[str] = frozenset()
        if self.mode == "current":
            reserved = frozenset({KEY, CONFLICTS, *((DATABASE, SOURCE) if self.is_fleet else ())})
            if self.schema is not None:
                kept = pa.struct([one for one in self.schema if one.name not in reserved])
        elif self.schema is not None:
            type_ = self.schema.field("new" if self.mode == "changes" else "document").type
            kept = type_ if pa.types.is_struct(type_) else None
        return DocumentColumns(
            kept, self.contract, is_first=self.is_first, reserved=reserved, fixed=frozenset(self._fixed)
        )

    def _schema(self) -> pa.Schema:
        """The schema of the table with these columns of documents: those of the table, then new ones."""
        columns, type_ = self.columns, self.columns.type
        if self.mode == "current":
            fields = [pa.field(name, TEXT) for name in ((DATABASE, SOURCE) if self.is_fleet else ())]
            fields += [pa.field(KEY, TEXT)] if self.has_key else []
            fields += list(type_) or [pa.field(str(self.primary_key), TEXT)]
        elif self.mode == "changes":
            document = TEXT if self.is_text or self._is_empty() else type_
            fields = [
                pa.field(name, document if one is None else one) for name, one in CHANGE_COLUMNS.items()
            ]
        else:
            document = TEXT if self._is_empty() else type_
            fields = [
                pa.field(name, document if one is None else one) for name, one in VERSION_COLUMNS.items()
            ]
        if columns.has_conflicts or (self.schema is not None and CONFLICTS in self.schema.names):
            fields.append(pa.field(CONFLICTS, TEXT))
        if self.schema is not None:
            kept = [name for name in self.schema.names if name in {one.name for one in fields}]
            by_name = {one.name: one for one in fields}
            fields = [by_name[name] for name in dict.fromkeys([*kept, *by_name])]
        return pa.schema(fields)

    def _widen(self, target: LakeTable, schema: pa.Schema) -> None:
        if self.schema is not None and not schema.equals(self.schema):
            target.widen(schema)
            self.schema = schema

    def _settings(self, at: str | None = None) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "table": self.table,
            "fleet": self.is_fleet,
            "at": at,
            "primary_key": self.primary_key,
            "has_key": self.has_key,
            "is_empty": self._is_empty(),
        }

    def _is_empty(self) -> bool:
        """Whether no document was seen yet. Then text takes the place of the unknown types."""
        return not self.is_text and not self.columns.type.num_fields

    def _note(
        self, positions: Mapping[str, DatabasePosition], extents: Sequence[Extent] = (), at: str | None = None
    ) -> Note:
        return Note(self._settings(at), {**self.known, **positions}, extents)

    def _commit(self, schema: pa.Schema | None, note: Note) -> None:
        """Note that a commit has been made."""
        self.schema, self.known, self.is_first = schema, dict(note.positions), False
        evolution = self.columns.take_evolution()
        outcome = self.outcome
        outcome.new_fields += [name for name in evolution.new_fields if name not in outcome.new_fields]
        outcome.widened_fields += [
            name for name in evolution.widened_fields if name not in outcome.widened_fields
        ]
        for counts, more in (
            (outcome.conflicts, evolution.conflicts),
            (outcome.discarded, evolution.discarded),
        ):
            for path, count in more.items():
                counts[path] = counts.get(path, 0) + count

    def _count(self, inserted: int, updated: int, deleted: int | None = None) -> None:
        """Add rows that were merged to the outcome. `deleted`: None where documents are not compared."""
        outcome = self.outcome
        outcome.inserted = (outcome.inserted or 0) + inserted
        outcome.updated = (outcome.updated or 0) + updated
        if deleted is not None:
            outcome.deleted = (outcome.deleted or 0) + deleted
        outcome.rows += inserted + updated + (deleted or 0)

    def _epochs(self) -> dict[str, list[str]]:
        return {file.database: [epoch.name for epoch in reversed(file.history)] for file in self.files}

    def _step(self, rows: int) -> None:
        self._done += rows
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._total))

    def _finish(self, path: str) -> Outcome:
        self.outcome.path = path
        self.outcome.positions = {
            file.path: self.known[file.database].seq for file in self.files if file.database in self.known
        }
        self.outcome.begins_late = list(dict.fromkeys(self.outcome.begins_late))
        return self.outcome


def schema_keys(schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    """A table of these columns without rows."""
    return pa.schema([schema.field(name) for name in names]).empty_table()
