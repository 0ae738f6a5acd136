"""FileState: the present state of each file of a fleet, compared with the position that was read before.

A run first notes the newest position of every file, and reads up to it. The positions are kept with the output. The next run
compares: the same database must still have the read position, in the same epoch of its history (see `store.epochs`), and all
changes after it. The difference is new.

Rule of this file: it reads positions and the list of tables, and no change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial

from reactdb.errors import HistoryDiverged, HistoryLost
from reactdb.lake.fleet import FileOptions, Fleet, open_file, refuse_copies
from reactdb.lake.parts import DatabasePosition
from reactdb.store import exports
from reactdb.store.epochs import Epoch, read_epochs
from reactdb.store.exports import Pin


@dataclass(frozen=True, slots=True)
class FileState(Pin):
    """The present state of one file, with what a table needs to know of it.

    Attributes:
        tables: Table -> the seq after which it was created.
        history: Its epochs.
    """

    tables: dict[str, int]
    history: tuple[Epoch, ...]

    @property
    def position(self) -> DatabasePosition:
        """Its newest change."""
        return DatabasePosition(self.path, self.epoch, self.seq, self.tables)


def read_file_states(
    options: FileOptions, table: str | None = None, *, ignored: dict[str, str] | None = None
) -> list[FileState]:
    """The state of every file in the options, in the order of the paths.

    Args:
        ignored: The files that are passed over are added to it: path -> the error.

    Raises:
        UsageError: Two files are copies of one database, so their changes would be counted twice.
        TableNotFound: No file has the table.
        CannotOpen, NotADatabase, ...: What is wrong with a file.
    """
    fleet = Fleet(options)
    files = fleet.look_at_all(partial(_read_file_state, options=options))
    if ignored is not None:
        ignored.update((path, str(error)) for path, error in fleet.ignored.items())
    refuse_copies((file.database, file.path) for file in files)
    if table is not None:
        check_table(table, files)
    return files


def check_table(table: str, files: Iterable[FileState]) -> None:
    """Raise TableNotFound, with the nearest name, if no file has the table."""
    names = {name for file in files for name in file.tables}
    if table not in names:
        from reactdb.guessed_words import missing_table

        raise missing_table(table, sorted(names))


def _read_file_state(path: str, options: FileOptions) -> FileState:
    with open_file(path, options) as engine, engine.snapshot() as snapshot:
        tables = {info.name: info.created for info in snapshot.catalogue.ordinary().values()}
        epochs = tuple(read_epochs(snapshot.connection))
        return FileState(**asdict(exports.pin_snapshot(engine, snapshot)), tables=tables, history=epochs)


def check_position(file: FileState, before: DatabasePosition) -> None:
    """Check that a file still has the position that a table was read up to. Raises: as `check_history`."""
    names = [epoch.name for epoch in file.history]
    is_known = before.epoch in names
    later = file.history[names.index(before.epoch) + 1 :] if is_known else ()
    check_history(file, before.epoch, before.seq, is_known, later[0].since if later else None)


def check_history(
    file: Pin, epoch: str, seq: int, is_known: bool, end: int | None, since: int | None = None
) -> None:
    """Check that a file still has the read position, in the same epoch, and every change after it. This is the one rule for
    tables of the lake and for streams.

    Args:
        epoch, seq: The position.
        is_known, end: Whether the file has the epoch, and the seq after which its next epoch begins: see `epochs.end_of`.
        since: The changes after this seq are needed; None: those after the position.

    Raises:
        HistoryDiverged: The file does not have the position, because it was restored or its newest changes were lost.
        HistoryLost: Compaction has removed some of the needed changes.
    """
    # Compaction removes an epoch together with its changes.
    if is_known or seq >= file.oldest:
        was_read = f"{file.path} was read up to seq {seq}"
        if seq > file.seq:
            raise HistoryDiverged(
                f"{was_read}, and ends at seq {file.seq} now: an older copy was put in its place, or its newest changes were lost"
            )
        if not is_known:
            raise HistoryDiverged(
                f"{was_read} in a part of its history (epoch {epoch}) that it does not have any more: it was replaced or restored"
            )
        if end is not None and seq > end:
            raise HistoryDiverged(f"{was_read}, and its history went on from seq {end} without it")
    since = seq if since is None else since
    if since < file.oldest:
        raise HistoryLost(since, file.oldest + 1, f"{file.path}: ")
