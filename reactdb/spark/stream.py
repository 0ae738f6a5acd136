"""Streaming: `spark.readStream.format("reactdb").option("read", "changes")`.

On the driver, `latestOffset` decides the end of the next batch: in each file of the fleet its newest change, or an earlier one if
the trigger has a limit. `partitions` turns the two ends into slices of the log, and the executors read them as in a batch read.
The offsets contain everything for a restart. So a repeated batch has the same changes again, and a sink that recognises the
batch, or stores it atomically, has each change exactly once.

Rule of this file: all state between two calls can be read again. Nothing depends on `commit`, because Spark calls it one batch
late, and never for the last batch of AvailableNow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from reactdb.clock import time_ns
from reactdb.errors import CannotOpen, HistoryLost, InvalidOption
from reactdb.lake.fleet import Fleet, open_file, refuse_copies
from reactdb.spark.batches import BatchMaker
from reactdb.spark.options import NOW, Instant, Options
from reactdb.spark.plan import FileSlice, Split, pack_slices, since_of, slice_of, split_changes
from reactdb.spark.positions import Position, check, from_offset, is_behind, shares, to_offset
from reactdb.store import exports
from reactdb.store.engine import Engine
from reactdb.store.exports import Pin
from reactdb.store.file.identity import read_identity
from reactdb.store.snapshot import Snapshot


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query's reader. Spark keeps it on the driver, and sends copies to the executors for `read`.

    Args:
        schema: The schema of the rows, as for a batch read of changes.
        options: Those of a batch read, with `maxChangesPerTrigger`.
        is_inferred: The schema was inferred from the files.

    Raises:
        InvalidOption: The options are not those of a stream.
    """

    def __init__(self, schema: spark.StructType, options: Options, *, is_inferred: bool = False) -> None:
        if options.as_of != NOW:
            raise InvalidOption(
                "a stream reads changes: leave out asOf, and choose the first change with start"
            )
        if not options.is_changes:
            raise InvalidOption('a stream reads changes: add .option("read", "changes")')
        if options.end != NOW:
            raise InvalidOption("a stream has no end: leave out option end, and stop it by its trigger")
        self.options = options
        self._rows = partial(BatchMaker, schema, options, is_inferred=is_inferred)
        self._target: dict[str, int] | None = None
        self._newest: dict[str, Any] | None = None
        # The files that were passed over last, and are in the log.
        self._ignored: set[str] = set()
        # A wrong schema raises now, and not later on an executor.
        self._rows()

    # -----------------------------------------------------------------------------------------------------------
    # On the driver

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins in each existing file: before its first change, after its newest, or
        where the options say."""
        fleet = Fleet(self.options.files)
        positions = {path: found for path in fleet.paths() if (found := fleet.look(path, self._begin))}
        refuse_copies((position.database_id, path) for path, position in positions.items())
        self._log_ignored(fleet)
        return to_offset(positions)

    def _begin(self, path: str) -> Position:
        """Where a query without a checkpoint begins in a file.

        Raises:
            InvalidOption: `start` is in the future. From there, the stream would send changes of before.
        """
        start = self.options.start
        if isinstance(start, Instant) and start.microseconds > time_ns() // 1_000:
            raise InvalidOption(
                "start is a time in the future: give a time in the past, or start=now for later writes only"
            )
        with self._open(path) as (engine, snapshot, pin):
            seq = since_of(self.options, pin, snapshot)
            if seq > pin.seq:
                raise InvalidOption(
                    f"start {seq + 1} is in the future of {path}: its newest change has seq {pin.seq}"
                )
            return Position(pin.database, engine.epochs.at(snapshot.connection, seq), seq, seq)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch goes; `start` itself if there is nothing new. A file that is passed over keeps its position, and
        is looked at again the next time.

        Raises:
            UsageError: A new file is a copy of another.
            HistoryDiverged, HistoryLost, CannotOpen: A file does not continue the stream's earlier history.
        """
        positions = from_offset(start)
        fleet = Fleet(self.options.files)
        look_at_file = partial(self._look_at_file, positions=positions)
        looks = {
            path: look for path in self._paths(fleet, positions) if (look := fleet.look(path, look_at_file))
        }
        refuse_copies(
            [
                *((position.database_id, path) for path, position in positions.items()),
                *((look.pin.database, path) for path, look in looks.items()),
            ]
        )
        self._log_ignored(fleet)
        self._newest = to_offset({path: look.to_end() for path, look in looks.items()})
        targets = {path: look.pin.seq for path, look in looks.items()}
        if self._target is not None:
            targets = {path: min(seq, self._target.get(path, 0)) for path, seq in targets.items()}
        available = {path: max(0, targets[path] - look.begin) for path, look in looks.items()}
        ends = dict(positions)
        for path, count in self._admit(looks, available, limit).items():
            if count:
                ends[path] = self._end(looks[path], count, available[path])
        return to_offset(ends) if is_behind(positions, ends) else start

    def _paths(self, fleet: Fleet, positions: Mapping[str, Position]) -> list[str]:
        """The present files, and the files that the stream has read before."""
        try:
            files = fleet.paths()
        except CannotOpen:
            if not positions:
                raise
            files = []
        # A file that was read by the name of a link keeps that name.
        known: dict[object, str] = {read_identity(path) or path: path for path in positions}
        return sorted({*(known.get(read_identity(path) or path, path) for path in files), *positions})

    def _log_ignored(self, fleet: Fleet) -> None:
        """Log the files that are passed over, unless they were passed over at the trigger before, too."""
        if not self._ignored >= fleet.ignored.keys():
            fleet.log_ignored()
        self._ignored = set(fleet.ignored)

    def _look_at_file(self, path: str, positions: Mapping[str, Position]) -> Look | None:
        """A file as it is now; None if it is gone and data may be lost."""
        position = positions.get(path)
        if position is not None and not os.path.exists(path):
            if not self.options.fail_on_data_loss:
                return None
            raise CannotOpen(
                path,
                f"it is gone, and the stream has read it up to seq {position.seq} (option failOnDataLoss=false goes on with the "
                "other files)",
            )
        with self._open(path) as (_, snapshot, pin):
            # If the file is new to the stream, all of its changes are new.
            begin = pin.oldest if position is None else self._check(pin, snapshot, position, position.seq)
            return Look(pin, begin)

    def _admit(
        self, looks: Mapping[str, Look], available: Mapping[str, int], limit: ReadLimit
    ) -> Mapping[str, int]:
        """How many changes of each file the batch takes."""
        if isinstance(limit, ReadAllAvailable):
            return available
        if not isinstance(limit, ReadMaxRows):
            raise InvalidOption(f"a stream of changes knows no limit of the kind {type(limit).__name__}")
        # The order rotates, so that each batch begins with another file.
        paths = list(available)
        turn = sum(look.begin for look in looks.values()) % max(1, len(paths))
        return shares({path: available[path] for path in paths[turn:] + paths[:turn]}, limit.max_rows)

    def _end(self, look: Look, count: int, available: int) -> Position:
        """The end of a batch with `count` changes of a file: at the end of a commit, unless one commit is larger."""
        seq = look.begin + count
        if seq == look.pin.seq:
            return look.to_end()
        with self._open(look.pin.path) as (engine, snapshot, _):
            if count < available:
                seq = exports.find_commit_end(snapshot, look.begin, seq) or seq
            epoch = engine.epochs.at(snapshot.connection, seq)
            return Position(look.pin.database, epoch, look.begin, seq)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note how far each file goes now, because the query reads no further."""
        fleet = Fleet(self.options.files)
        found = {path: fleet.look(path, self._find_newest) for path in self._paths(fleet, {})}
        self._target = {path: seq for path, seq in found.items() if seq is not None}

    def _find_newest(self, path: str) -> int:
        with self._open(path) as (_, _, pin):
            return pin.seq

    def getDefaultReadLimit(self) -> ReadLimit:
        return (
            ReadAllAvailable() if self.options.max_changes is None else ReadMaxRows(self.options.max_changes)
        )

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The newest positions that `latestOffset` has seen, for Spark's progress report."""
        return self._newest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Split]:
        """The batch between two offsets as slices of the log.

        Raises:
            HistoryDiverged, HistoryLost, CannotOpen: As for `latestOffset`, which Spark does not call first if the batch
                was begun before a restart.
        """
        before = from_offset(start)
        slices: list[FileSlice] = []
        for path, position in from_offset(end).items():
            if before.get(path) == position:
                # This file has nothing new.
                continue
            # The end of a batch also contains its begin. `start` cannot be used for that: after a crash, Spark requests the start
            # of the first batch again, and "latest" may then be past this batch.
            with self._open(path) as (_, snapshot, pin):
                since = self._check(pin, snapshot, position, position.since)
            part = slice_of(pin, since, position.seq)
            if part is not None:
                slices += split_changes(part, self.options.partition_bytes)
        return pack_slices(slices, self.options.partition_bytes)

    def _check(self, pin: Pin, snapshot: Snapshot, position: Position, since: int) -> int:
        return check(pin, snapshot, position, since, fail_on_data_loss=self.options.fail_on_data_loss)

    @contextmanager
    def _open(self, path: str) -> Iterator[tuple[Engine, Snapshot, Pin]]:
        # The file is opened again each time, so that its replacement is noticed and nothing stays open while a query idles.
        with open_file(path, self.options.files) as engine, engine.snapshot() as snapshot:
            yield engine, snapshot, exports.pin_snapshot(engine, snapshot)

    # -----------------------------------------------------------------------------------------------------------
    # On the executors

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one partition, as Arrow batches."""
        assert isinstance(partition, Split)
        rows = self._rows()
        for part in partition.slices:
            yield from self._slice(rows, part)

    def _slice(self, rows: BatchMaker, part: FileSlice) -> Iterator[Any]:
        while part.since < part.until:
            try:
                yield from rows.batches([part])
                return
            except HistoryLost as lost:
                # Compaction ran after the batch was planned. It can have removed only changes that were not read yet.
                if self.options.fail_on_data_loss:
                    raise
                part = replace(part, since=min(lost.oldest - 1, part.until))


@dataclass(frozen=True, slots=True)
class Look:
    """A file at the time of a trigger: its pin, and where the next batch begins in it."""

    pin: Pin
    begin: int

    def to_end(self) -> Position:
        """The position after a batch of everything up to the pin."""
        pin = self.pin
        return Position(pin.database, pin.epoch, min(self.begin, pin.seq), pin.seq)
