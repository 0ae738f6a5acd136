"""Positions: how far a stream has read each file of its fleet, as JSON for Spark's checkpoint.

A seq alone does not name its history. So a position also has the database's id and the epoch, which distinguish a replaced,
restored or cut file from a file that has grown. It also contains the begin of the batch: after a crash Spark requests a batch
again, and if it was the first batch, Spark's begin for it may have moved.

    {"version": 1, "files": {"/data/a.db": {"database": "...", "epoch": "...", "from": 120, "seq": 250}}}

Rule of this file: it holds positions and checks files against them. `stream` chooses the files and the size of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reactdb.errors import HistoryDiverged, HistoryLost, InvalidOption, format_value
from reactdb.store.engine import Engine
from reactdb.store.epochs import end_of
from reactdb.store.log import read_low_water
from reactdb.store.snapshot import Snapshot, read_head_seq

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
    try:
        if offset["version"] != VERSION:
            raise InvalidOption(
                f"the checkpoint has offsets of version {format_value(offset['version'])}, "
                f"this reactdb reads {VERSION}: upgrade it"
            )
        positions = {}
        for path, one in offset["files"].items():
            database_id, epoch, since, seq = one["database"], one["epoch"], one["from"], one["seq"]
            if not (isinstance(since, int) and isinstance(seq, int) and 0 <= since <= seq):
                raise ValueError
            positions[path] = Position(str(database_id), str(epoch), since, seq)
        return positions
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidOption):
            raise
        raise InvalidOption(
            f"the checkpoint has an offset that is not from reactdb: {format_value(offset)}"
        ) from None


def is_behind(start: Positions, end: Positions) -> bool:
    """Whether `end` is past `start` in any file."""
    return any(path not in start or start[path].seq < one.seq for path, one in end.items())


def check(
    engine: Engine, snapshot: Snapshot, position: Position, seq: int, *, fail_on_data_loss: bool = True
) -> int:
    """The seq from which a stream continues in a file, or reads it again.

    Args:
        position: The stream's position in the file.
        seq: Where it should go on in the same history.

    Returns:
        `seq`; or the oldest position that is left, if that is later and data may be lost.

    Raises:
        HistoryDiverged: The file has another history than the stream's.
        HistoryLost: Compaction has removed the next changes.
    """
    path, head = engine.path, read_head_seq(snapshot.connection)
    if engine.database_id != position.database_id:
        raise HistoryDiverged(
            f"{path} is database {engine.database_id} now; the stream has read database {position.database_id} up to seq "
            f"{position.seq}: put that file back, or begin again with a new checkpoint"
        )
    if head < position.seq:
        raise HistoryDiverged(
            f"{path} ends at seq {head}; the stream has read it up to seq {position.seq}: an older copy was put in its place, "
            "or its newest changes were lost; begin again with a new checkpoint"
        )
    is_known, end = end_of(snapshot.connection, position.epoch)
    oldest = read_low_water(snapshot.connection)
    # Compaction removes an epoch together with its changes.
    is_known = is_known or position.seq < oldest
    if not is_known or (end is not None and position.seq > end):
        went_on = "" if end is None else f", which went on from seq {end} without it"
        raise HistoryDiverged(
            f"{path} has another history than the one that the stream has read up to seq {position.seq} (epoch "
            f"{position.epoch}){went_on}: it ends at seq {head}; begin again with a new checkpoint"
        )
    if seq < oldest:
        if fail_on_data_loss:
            raise HistoryLost(
                seq, oldest + 1, f"{path}: ", " (option failOnDataLoss=false goes on from there)"
            )
        return oldest
    return seq


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
