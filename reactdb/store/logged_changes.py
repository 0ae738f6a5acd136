"""Logged changes: those that were read from the log a page at a time, and get from their page what they were made without.

    LoggedChange     lacks the document before
    LeanChange       lacks all but its seq
    DecodedChange    lacks nothing that is usually asked for: its page was read by somebody who looks at the documents

Rule of this file: a change knows what it lacks, and its page (see `log_pages`) where to find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactdb.change import Change
from reactdb.store.lean_pages import taken_apart
from reactdb.values.frozen import FrozenDict

if TYPE_CHECKING:
    from reactdb.store.log_pages import LogPage


class LoggedChange(Change):
    """A change whose document before is looked up when somebody asks for it."""

    __slots__ = ("_page",)

    def __init__(
        self,
        page: LogPage,
        seq: int,
        table: str,
        table_id: int,
        key_bytes: bytes,
        kind_code: int,
        prev: int | None,
        new_bytes: bytes | None,
        commit: int,
        time: int,
        origin: str | None,
        meta: bytes | None,
    ) -> None:
        # As the class above does, but for `old_bytes`, which is not set.
        self._page = page
        self.seq = seq
        self.table = table
        self.table_id = table_id
        self.key_bytes = key_bytes
        self.kind_code = kind_code
        self.prev = prev
        self.new_bytes = new_bytes
        self.commit = commit
        self.time = time
        self.origin = origin
        self.meta = meta
        self.places = None
        self.old = None
        self.new = None

    def __getattr__(self, name: str) -> Any:
        if name != "old_bytes":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.old_bytes = old = self._page.old_of(self)
        return old

    def __reduce__(self) -> tuple[Any, ...]:
        document = (self.kind_code, self.prev, self.old_bytes, self.new_bytes)
        place = (self.seq, self.table, self.table_id, self.key_bytes)
        return Change, (*place, *document, self.commit, self.time, self.origin, self.meta)


class LeanChange(LoggedChange):
    """A change of a lean page: only its seq is there before somebody looks at the rest."""

    __slots__ = ("_row",)

    def __init__(self, page: LogPage, seq: int, row: tuple[Any, ...]) -> None:
        self._page = page
        self.seq = seq
        self._row = row

    def __getattr__(self, name: str) -> Any:
        if name in ("old", "new"):
            setattr(self, name, None)
            return None
        if name == "old_bytes" or name not in Change.__slots__:
            return super().__getattr__(name)
        page, row = self._page, self._row
        page.is_looked_at = True
        self.key_bytes, self.new_bytes = row[:2]
        self.time, self.kind_code, self.prev, step = taken_apart(row)
        self.commit = self.seq - step
        self.table_id, self.table = page.table
        self.origin = self.meta = self.places = None
        return getattr(self, name)

    @property
    def old_val(self) -> FrozenDict | None:
        """As `Change.old_val`."""
        self._page.is_old_read = True
        return super().old_val

    @property
    def new_val(self) -> FrozenDict | None:
        """As `Change.new_val`."""
        self._page.is_new_read = True
        return super().new_val


class DecodedChange(LeanChange):
    """One whose documents have been decoded before somebody asks, with those of its page."""

    __slots__ = ()

    old_val = Change.old_val
    new_val = Change.new_val
