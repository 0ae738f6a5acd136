"""PastDatabase: the same tables as of an earlier seq, to read only. `db.at(seq)` gives one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from reactdb.database import Database, position_token
from reactdb.errors import HistoryLost, InvalidOption, ReadOnlyDatabase, TableNotFound, UsageError
from reactdb.query import Query
from reactdb.store.engine import Engine
from reactdb.store.snapshot import PastSnapshot, Snapshot, all_changes, low_water
from reactdb.store.transaction import WriteTransaction
from reactdb.store.undo import Undo
from reactdb.values import codec

if TYPE_CHECKING:
    from reactdb.feeds.feed import Feed

T = TypeVar("T")


class PastDatabase(Database):
    """`db.at(seq)`: reads of the past. What changed since is kept in memory once it was asked for."""

    def __init__(self, engine: Engine, seq: int) -> None:
        super().__init__(engine, "hard")
        self._seq = seq
        self._undo = Undo(seq, ())
        self._undo_lock = threading.Lock()
        with engine.fresh_snapshot() as snapshot:
            if seq > snapshot.seq:
                raise InvalidOption(f"seq {seq} is in the future: the newest change has {snapshot.seq}")
            oldest = low_water(snapshot.connection)
            if seq < oldest:
                raise HistoryLost(seq, oldest + 1)

    def close(self) -> None:
        """Nothing to close: the handle that this came from owns the file."""

    def _open_engine(self) -> Engine:
        self._engine.check_usable()
        return self._engine

    @contextmanager
    def _past(self) -> Iterator[Snapshot]:
        # Committed changes only: those of a transaction may never be, and another change have their seq.
        with self._engine.fresh_snapshot() as now:
            with self._undo_lock:
                for change in all_changes(now, self._undo.until):
                    self._undo.add(change)
            yield PastSnapshot(now, self._seq, self._undo)

    def _snapshot(self) -> AbstractContextManager[Snapshot]:
        return self._past()

    def _get(self, table: str, key: bytes) -> dict[str, Any] | None:
        with self._past() as snapshot:
            info = snapshot.table(table)
            if info is None:
                raise TableNotFound(table)
            body = snapshot.get(info, key)
        return None if body is None else codec.decode(body)

    def table_list(self) -> list[str]:
        with self._past() as snapshot:
            names = {info.name for info in snapshot.catalogue.by_id.values()}
            return sorted(name for name in names if snapshot.table(name) is not None)

    @property
    def token(self) -> str:
        """The position of this view, as an opaque string for `since=`."""
        with self._past() as snapshot:
            return position_token(self._engine, snapshot, self._seq)

    def _write(
        self,
        work: Callable[[WriteTransaction], T],
        durability: str | None,
        is_shareable: bool,
        operation: str = "write",
    ) -> T:
        raise ReadOnlyDatabase(f"the database as of seq {self._seq} is the past, and cannot be written")

    def transaction(self, **options: Any) -> Any:
        raise ReadOnlyDatabase(f"the database as of seq {self._seq} is the past, and cannot be written")

    def compact(self, keep: int | timedelta, *, vacuum: bool = False) -> dict[str, int]:
        raise ReadOnlyDatabase(f"the database as of seq {self._seq} is the past, and cannot be written")

    def _feed(self, query: Query, options: dict[str, Any]) -> Feed:
        raise UsageError(f"the past does not change: use changes(since={self._seq}) on the present")
