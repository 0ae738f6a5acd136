"""Positions: how far a stream has read each file of its fleet, as the JSON that Spark keeps in the checkpoint.

A seq alone does not say which history it belongs to. So a position has the database's id and the epoch besides, and a file
that was replaced, restored from a backup or cut off is told apart from one that has grown. It also has where the batch began:
Spark asks for a batch again after a crash, and the first one then with a beginning that may have moved.

    {"version": 1, "files": {"/data/a.db": {"database": "...", "epoch": "...", "from": 120, "seq": 250}}}

Rule of this file: positions, and how a file is checked against one. `stream` decides on files and on the size of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reactdb.errors import HistoryDiverged, HistoryLost, InvalidOption, shown
from reactdb.store.engine import Engine
from reactdb.store.snapshot import Snapshot, head_seq, low_water

VERSION = 1


@dataclass(frozen=True, slots=True)
class Position:
    """How far one file is read.

    Attributes:
        database_id, epoch: Of which history.
        since: The batch that ended here began after this seq.
        seq: It has been read up to here.
    """

    database_id: str
    epoch: str
    since: int
    seq: int


Positions = Mapping[str, Position]
"""By the absolute path of the file."""


def to_offset(positions: Positions) -> dict[str, Any]:
    """As Spark keeps it. Equal positions give equal text: Spark compares that."""
    return {
        "version": VERSION,
        "files": {
            path: {"database": one.database_id, "epoch": one.epoch, "from": one.since, "seq": one.seq}
            for path, one in sorted(positions.items())
        },
    }


def from_offset(offset: Mapping[str, Any]) -> dict[str, Position]:
    """Raises: InvalidOption, for what is no offset of this source."""
    try:
        if offset["version"] != VERSION:
            raise InvalidOption(
                f"the checkpoint has offsets of version {shown(offset['version'])}, this reactdb reads {VERSION}: upgrade it"
            )
        found = {}
        for path, one in offset["files"].items():
            database_id, epoch, since, seq = one["database"], one["epoch"], one["from"], one["seq"]
            if not (isinstance(since, int) and isinstance(seq, int) and 0 <= since <= seq):
                raise ValueError
            found[path] = Position(str(database_id), str(epoch), since, seq)
        return found
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidOption):
            raise
        raise InvalidOption(
            f"the checkpoint has an offset that is none of reactdb's: {shown(offset)}"
        ) from None


def is_behind(start: Positions, end: Positions) -> bool:
    """Whether there is anything between the two."""
    return any(path not in start or start[path].seq < one.seq for path, one in end.items())


def check(
    engine: Engine, snapshot: Snapshot, position: Position, seq: int, *, fail_on_data_loss: bool = True
) -> int:
    """Where to go on in a file that was read, or is to be read again, from `seq`.

    Args:
        position: What the stream knows of the file's history.
        seq: Of this history, the place to go on from.

    Returns:
        `seq`; or the oldest position that is left, where it is past that and data may be lost.

    Raises:
        HistoryDiverged: The file has another history than the one that the stream has read.
        HistoryLost: Compaction has removed what comes next.
    """
    path, head = engine.path, head_seq(snapshot.connection)
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
    is_known, end = engine.epochs.end_of(snapshot.connection, position.epoch)
    oldest = low_water(snapshot.connection)
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
    """How many changes of each file a batch takes: together at most `limit`, and shared evenly among the files that have some.

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
