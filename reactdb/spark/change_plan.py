"""Change plan: turns the options and the pinned files of a read into slices of the log.

Rule of this file: it runs on the driver, and reads positions, never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reactdb.errors import HistoryLost, TableNotFound
from reactdb.lake.fleet import open_snapshot
from reactdb.spark.options import Instant, Options, Version
from reactdb.spark.partitions import ChangeSlice, Split, pack_slices, piece_bytes, split_slice
from reactdb.store import exports
from reactdb.store.exports import Pin
from reactdb.store.snapshot import Snapshot


def change_slices(options: Options, pins: Iterable[Pin]) -> list[ChangeSlice]:
    """For each file a slice with the requested changes; no slice for a file without such changes.

    Raises:
        HistoryLost: Compaction has removed some of them, and `failOnDataLoss` is not false.
        TableNotFound: No file has, or had, the table.
    """
    slices = []
    is_known = options.table is None
    for pin in pins:
        with open_snapshot(pin.path, options.files) as snapshot:
            is_known = is_known or bool(exports.find_table_ids(snapshot, str(options.table)))
            since, until = since_of(options, pin, snapshot), until_of(options, pin, snapshot)
        part = slice_of(pin, since, until)
        if part is not None:
            slices.append(part)
    if not is_known:
        raise TableNotFound(str(options.table))
    return slices


def slice_of(pin: Pin, since: int, until: int) -> ChangeSlice | None:
    """A range of a file's changes with an estimate of its size; None if the range is empty."""
    until = min(until, pin.seq)
    if since >= until:
        return None
    return ChangeSlice(pin.path, pin.database_id, since, until, int((until - since) * pin.bytes_a_change) + 1)


def since_of(options: Options, pin: Pin, snapshot: Snapshot) -> int:
    """The exclusive lower seq of a read: by default, before the first change that is left."""
    if options.ranges is not None:
        since = options.range_of(pin.path)[0]
        if since < pin.oldest and options.fail_on_data_loss:
            raise HistoryLost(since, pin.oldest + 1)
        return max(since, pin.oldest)
    start = options.start
    if start is None:
        return pin.oldest
    if isinstance(start, Instant):
        # This rounds up to the first millisecond that is not before the instant.
        time_ms = -(-start.microseconds // 1000)
        since = exports.find_newest_seq(snapshot, time_ms - 1)
        first = exports.time_of(snapshot, pin.oldest + 1)
        is_lost = since <= pin.oldest > 0 and (first is None or time_ms < first)
        since, wanted = max(since, pin.oldest), pin.oldest - 1
    else:
        since = (
            exports.find_commit_start(snapshot, start.commit) if isinstance(start, Version) else max(start, 1)
        ) - 1
        is_lost, wanted = since < pin.oldest, since
        if isinstance(start, Version) and start.commit <= pin.oldest:
            is_lost, wanted = pin.oldest > 0, max(0, start.commit - 1)
    if is_lost:
        if options.fail_on_data_loss:
            raise HistoryLost(wanted, pin.oldest + 1)
        return pin.oldest
    return since


def until_of(options: Options, pin: Pin, snapshot: Snapshot) -> int:
    """The seq of the last change to read: by default, of the newest."""
    if options.ranges is not None:
        return min(pin.seq, options.range_of(pin.path)[1])
    end = options.end
    if end is None:
        return pin.seq
    if isinstance(end, Instant):
        return min(pin.seq, exports.find_newest_seq(snapshot, end.microseconds // 1000))
    if isinstance(end, Version):
        # The read goes to the end of this commit.
        return min(pin.seq, exports.find_commit_start(snapshot, end.commit + 1) - 1)
    return min(pin.seq, end)


def splits_of(options: Options, slices: Sequence[ChangeSlice]) -> list[Split]:
    """Slices as partitions of about `partitionBytes`."""
    most = piece_bytes(options, sum(part.weight_bytes for part in slices))
    return pack_slices((piece for part in slices for piece in split_slice(part, most)), most)
