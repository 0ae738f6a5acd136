"""Cell edits: what the user has typed, until it is stored.

An edit is written by a thread, because a write may have to wait for another writer. The window waits for it 10 ms: nearly
all writes are done by then, and their errors are known. Until a slower one is done, the cell shows what was typed; if it
fails, the cell shows the document again.

The write expects the value that the user saw. If another writer has changed the field since, it raises Conflict.

Rule of this file: it knows no row, and nothing of Qt. The window's thread calls everything but `CellEdit.run`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from reactdb.errors import Conflict, ReactDBError
from reactdb.expression import literal, row
from reactdb.feeds.pipeline import same_value
from reactdb.logs import logger
from reactdb.qt.cells import MISSING
from reactdb.session import session_of
from reactdb.table import point_of
from reactdb.threads import Threads
from reactdb.values.collation import key_bytes

WAIT_S: Final = 0.01
"""Seconds that the window waits for a write: less than a frame."""


class CellEdit:
    """The write of one field of one document.

    Attributes:
        error: Why it was not stored; None while it is on its way, and afterwards.
        is_settled: The window knows its result already.
    """

    def __init__(self, selection: Any, key: Any, field: str, old: Any, new: Any, origin: str | None) -> None:
        """`old`: the value that the user saw."""
        self.selection = selection
        self.key = key
        self.field = field
        self.old = old
        self.new = new
        self.origin = origin
        self.error: Exception | None = None
        self.is_settled = False
        self.done = threading.Event()

    def run(self) -> None:
        """Write. In the thread of the edits."""
        try:
            self._write()
        except Conflict as conflict:
            self.error = conflict
        except ReactDBError as error:
            self.error = error
        except Exception as error:
            logger.exception("the edit of a cell could not be written")
            self.error = error
        self.done.set()

    def _write(self) -> None:
        if self.old is MISSING:
            expect = ~row.has_fields(self.field)
        elif self.old != self.old:
            # NaN is not equal to itself.
            expect = row.has_fields(self.field)
        else:
            expect = row[self.field] == self.old
        with session_of(self.selection).block(None, self.origin):
            point_of(self.selection, self.key).update({self.field: literal(self.new)}, expect=expect)

    @property
    def sentence(self) -> str:
        """The error in a sentence for the user."""
        if isinstance(self.error, Conflict):
            return f"another writer has changed {self.field} of {self.key!r} since; it was not overwritten"
        return str(self.error)


class CellEdits:
    """The edits of one model that are not stored yet."""

    def __init__(self, ring: Callable[[], None], run_next: Callable[[Callable[[], None]], None]) -> None:
        """`ring`: called when an edit is done. `run_next`: calls a function after the commits so far."""
        self._ring = ring
        self._run_next = run_next
        self._threads = Threads("reactdb: edits of a Qt model", 1)
        self._waiting: dict[bytes, list[CellEdit]] = {}
        self._done: list[CellEdit] = []
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def start(self, edit: CellEdit) -> bool:
        """Write it. False: it has failed, and its error is known. True: it is stored, or on its way."""
        self._waiting.setdefault(key_bytes(edit.key), []).append(edit)
        if not self._threads.run(partial(self._run, edit)):
            self._remove(edit)
            return False
        if edit.done.wait(WAIT_S) and edit.error is not None:
            edit.is_settled = True
            self._remove(edit)
            return False
        return True

    def _run(self, edit: CellEdit) -> None:
        edit.run()
        # Its commit comes first: otherwise the cell would show the old value for a moment.
        self._run_next(partial(self._finish, edit))

    def _finish(self, edit: CellEdit) -> None:
        with self._lock:
            self._done.append(edit)
        self._ring()

    def take_done(self) -> list[CellEdit]:
        """The edits whose result is known by now; they are no longer shown."""
        with self._lock:
            done, self._done = self._done, []
        for edit in done:
            self._remove(edit)
        return [edit for edit in done if not edit.is_settled]

    def _remove(self, edit: CellEdit) -> None:
        key = key_bytes(edit.key)
        waiting = self._waiting.get(key, [])
        if edit in waiting:
            waiting.remove(edit)
            if not waiting:
                del self._waiting[key]

    def shown(self, document: Any, key: Any) -> Any:
        """The document with what the user has typed into it."""
        waiting = self._waiting.get(key_bytes(key))
        if not waiting:
            return document
        if isinstance(document, dict):
            return {**document, **{edit.field: edit.new for edit in waiting}}
        return EditedObject(document, {edit.field: edit.new for edit in waiting})

    def stop(self) -> None:
        """The thread ends after the edits that it has. What they give is not reported any more."""
        self._threads.stop()


class EditedObject:
    """An object of a typed table, with what the user has typed into it."""

    def __init__(self, document: Any, fields: dict[str, Any]) -> None:
        self._document = document
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._document, name)


def is_same(old: Any, new: Any) -> bool:
    """Whether two values of a field are the same, so that there is nothing to write."""
    return old is new or (old is not MISSING and same_value(old, new))
