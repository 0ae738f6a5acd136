"""FileState: the present state of each file of a fleet, compared with the position that was read before.

A run first notes the newest position of every file, and reads up to it. The positions are kept with the output. The next run
compares: the same database must still have the read position, in the same epoch of its history (see `store.epochs`), and all
changes after it. The difference is new.

Rule of this file: it reads positions and the list of tables, and no change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from reactdb.errors import HistoryDiverged, HistoryLost
from reactdb.lake.fleet import FileOptions, Fleet, open_file, refuse_copies
from reactdb.lake.parts import DatabasePosition
from reactdb.store.epochs import Epoch, read_epochs
from reactdb.store.log import read_low_water
from reactdb.store.snapshot import read_head_seq


@dataclass(frozen=True, slots=True)
class FileState:
    """The present state of one file.

    Attributes:
        database: Its id, which stays when the file moves.
        position: Its newest change.
        oldest: The beginning of the log: 0 unless history was removed.
        history: Its epochs.
    """

    database: str
    position: DatabasePosition
    oldest: int
    history: tuple[Epoch, ...]

    @property
    def path(self) -> str:
        return self.position.path


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
    names = {name for file in files for name in file.position.tables}
    if table not in names:
        from reactdb.guessed_words import missing_table

        raise missing_table(table, sorted(names))


def _read_file_state(path: str, options: FileOptions) -> FileState:
    with open_file(path, options) as engine, engine.snapshot() as snapshot:
        connection = snapshot.connection
        seq = read_head_seq(connection)
        tables = {info.name: info.created for info in snapshot.catalogue.ordinary().values()}
        return FileState(
            engine.database_id,
            DatabasePosition(engine.path, engine.epochs.at(connection, seq), seq, tables),
            read_low_water(connection),
            tuple(read_epochs(connection)),
        )


def check_position(file: FileState, before: DatabasePosition) -> None:
    """Check that a file still has the read position, and every change after it.

    Raises:
        HistoryDiverged: The file does not have the position, because it was restored or its newest changes were lost.
        HistoryLost: Some of these changes were removed.
    """
    names = [epoch.name for epoch in file.history]
    if before.epoch not in names:
        if before.seq < file.oldest:
            # Compaction removes the epoch together with the changes.
            raise HistoryLost(before.seq, file.oldest + 1)
        raise HistoryDiverged(
            f"{file.path} was read up to seq {before.seq} in a stretch of its history that it does not have any more: "
            "it was replaced or restored"
        )
    following = names.index(before.epoch) + 1
    end = file.history[following].since if following < len(names) else file.position.seq
    if before.seq > end:
        raise HistoryDiverged(
            f"{file.path} was read up to seq {before.seq}, and its history went on from seq {end} without it"
        )
    if before.seq < file.oldest:
        raise HistoryLost(before.seq, file.oldest + 1)
