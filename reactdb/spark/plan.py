"""Plan: the ranges of files that a read needs, for which each file is looked at once. They are the state of a DataFrame.

A slice is a range of one file: of seqs for changes, of keys for documents. A large file is cut into slices of about
`partitionBytes`; small files share a partition, because a task costs more than a small file.

Rule of this file: it runs on the driver. It reads positions and keys; a sample for the schema is taken on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Protocol

from pyspark.sql.datasource import InputPartition

from reactdb.errors import HistoryLost, InvalidOption, format_value
from reactdb.lake.fleet import Fleet, open_file, refuse_copies
from reactdb.spark.options import NOW, Instant, Options
from reactdb.store import exports
from reactdb.store.catalogue import TableInfo
from reactdb.store.exports import END, FIRST, Pin
from reactdb.store.snapshot import Snapshot

# The cost of opening a file, in bytes that could be read in the same time.
OPENING_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A range of one file: changes with since < seq <= until, or the documents of a table as of `until`.

    Attributes:
        path: Absolute.
        database_id: The planned database; another database under this path is refused.
        weight_bytes: The approximate amount to read.
        table_id: The table with the documents; None: changes are read.
        start, stop: Documents with start <= key < stop.
    """

    path: str
    database_id: str
    since: int
    until: int
    weight_bytes: int = 0
    table_id: int | None = None
    start: bytes = FIRST
    stop: bytes = END


class Split(InputPartition):
    """The slices of one task, in their order. `value` is the tuple of them."""

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        return self.value  # type: ignore[no-any-return]


class FileSample(Protocol):
    """What `schema` takes from each file while it is open."""

    def take_changes(self, snapshot: Snapshot, pin: Pin, files: int) -> None: ...

    def take_documents(self, snapshot: Snapshot, table: TableInfo, seq: int, files: int) -> None: ...


def plan_slices(options: Options, sample: FileSample | None = None) -> list[FileSlice]:
    """The slices of a read. A file without such rows has none.

    Raises:
        TableNotFound: No file has (for changes: or had) the table.
        InvalidOption: Documents are read, no table is named, and there are none or several.
        UsageError: Two files are copies of one database.
        HistoryLost: Compaction has removed some of it, and `failOnDataLoss` is not false.
        CannotOpen, NotADatabase, ...: What is wrong with a file.
    """
    files = len(Fleet(options.files).paths()) if sample is not None else 0
    found = Fleet(options.files).look_at_all(
        partial(look_at_file, options=options, sample=sample, files=files)
    )
    refuse_copies((pin.database, pin.path) for pin, _, _ in found)
    names = {name for _, present, _ in found for name in present}
    if options.table is not None:
        if options.table not in names:
            from reactdb.guessed_words import missing_table

            advice = "" if options.as_of == NOW else "No file had it at the moment of asOf."
            raise missing_table(options.table, sorted(names), advice)
    elif not options.is_changes and len(names) != 1:
        raise InvalidOption(
            f"option table is missing: choose one of the tables {', '.join(map(format_value, sorted(names)))}"
            if names
            else "there is no table to read"
        )
    return [part for _, _, slices in found for part in slices]


def look_at_file(
    path: str, options: Options, sample: FileSample | None, files: int
) -> tuple[Pin, set[str], list[FileSlice]]:
    """The state of a file, the names of its tables, and its slices.

    Args:
        files: The number of all files.
    """
    with open_file(path, options.files) as engine, engine.snapshot() as snapshot:
        pin = exports.pin_snapshot(engine, snapshot)
        if options.is_changes:
            names = {info.name for info in snapshot.catalogue.by_id.values() if info.owner is None}
            part = slice_of(pin, since_of(options, pin, snapshot), until_of(options, pin, snapshot))
            if sample is not None:
                sample.take_changes(snapshot, pin, files)
            return pin, names, [] if part is None else split_changes(part, options.partition_bytes)
        seq = seq_as_of(options, pin, snapshot)
        tables = tables_at(snapshot, seq)
        # If there are several tables and no name, the caller refuses them.
        table = tables.get(options.table or next(iter(tables), ""))
        if table is None:
            return pin, set(tables), []
        if sample is not None:
            sample.take_documents(snapshot, table, seq, files)
        return pin, set(tables), list(split_documents(pin, snapshot, table, seq, options.partition_bytes))


def tables_at(snapshot: Snapshot, seq: int) -> dict[str, TableInfo]:
    """The users' tables as of a seq, by name."""
    present = {info.name for info in snapshot.catalogue.by_id.values() if info.owner is None}
    found = ((name, snapshot.catalogue.at(name, seq)) for name in sorted(present))
    return {name: info for name, info in found if info is not None}


# ---------------------------------------------------------------------------------------------------------------
# Positions


def seq_as_of(options: Options, pin: Pin, snapshot: Snapshot) -> int:
    """The seq of the state that a read of documents takes from one file. Raises: as `exports.find_seq_as_of`."""
    given = options.as_of
    if given == NOW:
        return pin.seq
    seq, time_ms = (None, given.microseconds // 1000) if isinstance(given, Instant) else (given, None)
    return exports.find_seq_as_of(snapshot, pin.path, pin.seq, seq=seq, time_ms=time_ms)


def since_of(options: Options, pin: Pin, snapshot: Snapshot) -> int:
    """The exclusive lower seq of a read: by default, before the first change that is left.

    Raises:
        HistoryLost: Compaction has removed it, and `failOnDataLoss` is not false.
    """
    start = options.start
    if start is None:
        return pin.oldest
    if start == NOW:
        return pin.seq
    if isinstance(start, Instant):
        # This rounds up to the first millisecond that is not before the instant.
        time_ms = -(-start.microseconds // 1000)
        since = exports.find_newest_seq(snapshot, time_ms - 1)
        first = exports.time_of(snapshot, pin.oldest + 1)
        is_lost = since <= pin.oldest > 0 and (first is None or time_ms < first)
        since, wanted = max(since, pin.oldest), pin.oldest - 1
    else:
        since = wanted = max(start, 1) - 1
        is_lost = since < pin.oldest
    if is_lost:
        if options.fail_on_data_loss:
            raise HistoryLost(wanted, pin.oldest + 1)
        return pin.oldest
    return since


def until_of(options: Options, pin: Pin, snapshot: Snapshot) -> int:
    """The seq of the last change to read: by default, of the newest."""
    end = options.end
    if end == NOW:
        return pin.seq
    if isinstance(end, Instant):
        end = exports.find_newest_seq(snapshot, end.microseconds // 1000)
    return min(pin.seq, end)


# ---------------------------------------------------------------------------------------------------------------
# Slices


def slice_of(pin: Pin, since: int, until: int) -> FileSlice | None:
    """A range of a file's changes with an estimate of its size; None if the range is empty."""
    until = min(until, pin.seq)
    if since >= until:
        return None
    return FileSlice(pin.path, pin.database, since, until, int((until - since) * pin.bytes_a_change) + 1)


def split_changes(part: FileSlice, most_bytes: int) -> list[FileSlice]:
    """A range of changes, cut into ranges of similar size of at most about `most_bytes` each."""
    changes = part.until - part.since
    pieces = max(1, min(changes, -(-part.weight_bytes // most_bytes)))
    bounds = [part.since + changes * number // pieces for number in range(pieces + 1)]
    return [
        replace(part, since=since, until=until, weight_bytes=part.weight_bytes // pieces)
        for since, until in pairwise(bounds)
    ]


def split_documents(
    pin: Pin, snapshot: Snapshot, table: TableInfo, seq: int, most_bytes: int
) -> Iterator[FileSlice]:
    """The documents of a table of one file, cut if they are more than `most_bytes`."""
    # No executor sees the whole table, so damage that hides documents is noticed here.
    count = snapshot.count(table)
    cuts: list[bytes] = []
    weight = pin.size_bytes
    if pin.size_bytes > most_bytes:
        weight = min(weight, int(count * pin.bytes_a_change) or weight)
        pieces = -(-count // max(1, int(most_bytes / max(1.0, pin.bytes_a_change))))
        if pieces > 1:
            cuts = exports.split_keys(snapshot, table, -(-count // pieces))
    weight = weight // (len(cuts) + 1) + 1
    for start, stop in pairwise([FIRST, *cuts, END]):
        yield FileSlice(pin.path, pin.database, 0, seq, weight, table.id, start, stop)


def pack_slices(slices: Iterable[FileSlice], most_bytes: int) -> list[Split]:
    """Slices in their order, packed into partitions of at most about `most_bytes`."""
    splits: list[Split] = []
    held: list[FileSlice] = []
    size = 0
    for part in slices:
        weight = part.weight_bytes + OPENING_BYTES
        # A partition that is a quarter too large is better than a further, nearly empty partition.
        if held and size + weight > most_bytes * 5 // 4:
            splits.append(Split(tuple(held)))
            held, size = [], 0
        held.append(part)
        size += weight
    return [*splits, Split(tuple(held))] if held else splits
