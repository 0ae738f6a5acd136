"""Positions: how far a stream has read each file of its fleet, as JSON for Spark's checkpoint.

A seq alone does not name its history. So a position also has the database's id and the epoch, which distinguish a replaced,
restored or cut file from a file that has grown. It also contains the begin of the batch: after a crash Spark requests a batch
again, and if it was the first batch, Spark's begin for it may have moved.

    {"version": 1, "files": {"/data/a.db": {"database": "...", "epoch": "...", "from": 120, "seq": 250}}}

Rule of this file: it holds positions, and compares files with them by the rule that the lake has (`lake.file_states`). `stream`
chooses the files and the size of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reactdb.errors import HistoryDiverged, HistoryLost, InvalidOption, format_value
from reactdb.lake.file_states import check_history
from reactdb.store.epochs import end_of
from reactdb.store.exports import Pin
from reactdb.store.snapshot import Snapshot

VERSION = 1


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream has read one file.

    Attributes:
        database_id, epoch: The history of `seq`.
        since: The batch with this end began after this seq.
        seq: The file has been read up to here.
    """

    database_id: str
    epoch: str
    since: int
    seq: int


Positions = Mapping[str, Position]
"""By the absolute path of the file."""


def to_offset(positions: Positions) -> dict[str, Any]:
    """The offset for Spark. Equal positions give equal text, because Spark compares the text."""
    return {
        "version": VERSION,
        "files": {
            path: {"database": one.database_id, "epoch": one.epoch, "from": one.since, "seq": one.seq}
            for path, one in sorted(positions.items())
        },
    }


def from_offset(offset: Mapping[str, Any]) -> dict[str, Position]:
    """The positions of an offset. Raises: InvalidOption, if it is not an offset of this source."""
    version = offset.get("version", VERSION)
    if version != VERSION:
        raise InvalidOption(
            f"the checkpoint has offsets of version {format_value(version)}, this reactdb reads {VERSION}: upgrade it"
        )
    positions = {}
    try:
        for path, one in offset["files"].items():
            database_id, epoch, since, seq = one["database"], one["epoch"], one["from"], one["seq"]
            if not (isinstance(since, int) and isinstance(seq, int) and 0 <= since <= seq):
                raise ValueError
            positions[path] = Position(str(database_id), str(epoch), since, seq)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidOption(
            f"the checkpoint has an offset that is not from reactdb: {format_value(offset)}"
        ) from None
    return positions


def is_behind(start: Positions, end: Positions) -> bool:
    """Whether `end` is past `start` in any file."""
    return any(path not in start or start[path].seq < one.seq for path, one in end.items())


def check(
    pin: Pin, snapshot: Snapshot, position: Position, since: int, *, fail_on_data_loss: bool = True
) -> int:
    """The seq from which a stream continues in a file, or reads it again.

    Args:
        pin: The present state of the file, as of the snapshot.
        position: The stream's position in the file.
        since: Where it should go on in the same history.

    Returns:
        `since`; or the oldest position that is left, if that is later and data may be lost.

    Raises:
        HistoryDiverged: The file has another history than the stream's.
        HistoryLost: Compaction has removed the next changes.
    """
    try:
        if pin.database != position.database_id:
            raise HistoryDiverged(
                f"{pin.path} is database {pin.database} now; the stream has read database {position.database_id} up to seq "
                f"{position.seq}"
            )
        epoch = position.epoch
        check_history(pin, epoch, position.seq, *end_of(snapshot.connection, epoch), since)
    except HistoryDiverged as error:
        raise HistoryDiverged(f"{error}; put that file back, or begin again with a new checkpoint") from None
    except HistoryLost as lost:
        if not fail_on_data_loss:
            return pin.oldest
        advice = " (option failOnDataLoss=false goes on from there)"
        raise HistoryLost(lost.since, lost.oldest, f"{pin.path}: ", advice) from None
    return since


def shares(available: Mapping[str, int], limit: int) -> dict[str, int]:
    """How many changes of each file a batch takes: at most `limit` together, divided evenly among the files with changes.

    Files are served in the given order; the caller rotates it, so that no file starves.
    """
    taken = dict.fromkeys(available, 0)
    waiting = [path for path, count in available.items() if count > 0]
    while waiting and limit > 0:
        share = max(1, limit // len(waiting))
        for path in waiting:
            count = min(share, available[path] - taken[path], limit)
            taken[path] += count
            limit -= count
        waiting = [path for path in waiting if taken[path] < available[path]]
    return taken
