"""Open file: the interface of an engine and of its writer for their own parts, which cannot import them.

Rule of this file: names and types only.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from reactdb.clock import Clock
from reactdb.errors import CorruptDatabase, ReactDBError, StorageMoved
from reactdb.store.catalogue import Catalogue
from reactdb.store.clock import LogClock
from reactdb.store.file.flush import Flushes
from reactdb.store.file.guard import FileGuard
from reactdb.store.file.sqlite import Connection, LockWait
from reactdb.store.readers import Readers
from reactdb.store.snapshot import Snapshot

T = TypeVar("T")


class OpenFile(Protocol):
    """The engine; see `Engine` for the attributes."""

    path: str
    clock: Clock
    busy_timeout_s: float
    is_memory: bool
    guard: FileGuard | None
    catalogue: Catalogue
    readers: Readers
    unusable: Callable[[], ReactDBError] | None

    def check_usable(self) -> None: ...

    def report_moved(self, trouble: str) -> StorageMoved: ...

    def translate_error(self, error: Exception, operation: str) -> ReactDBError: ...

    def damage_of_first_page(self, operation: str) -> CorruptDatabase | None: ...

    def connect(self, mode: str) -> Connection: ...

    def adopt(self, catalogue: Catalogue) -> None: ...

    def fresh_snapshot(self) -> AbstractContextManager[Snapshot]: ...

    def poll(self) -> AbstractContextManager[Snapshot]: ...

    def oldest_read_s(self) -> float: ...

    def settle_reads(self) -> None: ...

    def hold_reads(self, end: float) -> AbstractContextManager[bool]: ...

    def catch_up(self) -> bool: ...

    def before_removal(self, until: int) -> None: ...

    def held_blobs(self) -> set[int]: ...

    def lowest_needed(self, oldest: int) -> int | None: ...


class FileWriter(Protocol):
    """The writer, for code that uses its connection between writes; see `Writer` for the attributes."""

    path: str
    busy_timeout_s: float
    connection: Connection
    guard: FileGuard | None
    flushes: Flushes
    lock_wait: LockWait
    clock: LogClock
    last_seq: int
    log_named: bytes | None

    @property
    def engine(self) -> OpenFile: ...

    @property
    def current(self) -> object | None: ...

    def check_writable(self) -> None: ...

    def run_in_turn(self, work: Callable[[], T], busy_timeout_s: float | None = None) -> T: ...

    def begin_upkeep(self, operation: str, waits_s: float) -> None: ...

    def note_commit(self) -> None: ...

    def check_same_file(self) -> int: ...

    def adopt(self, catalogue: Catalogue) -> None: ...

    def roll_back(self) -> None: ...

    def doubt(self, error: BaseException) -> None: ...
