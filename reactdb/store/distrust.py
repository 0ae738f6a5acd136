"""Distrust: after a write has met damage, nothing is written any more. What else is wrong nobody knows, and what is written on
top of it would have to be taken apart again.

Every feed ends with it: from this handle nothing will come any more, and to be silent would be to say that nothing happens.
(Where it is SQLite that says so, it may be a disk which does not answer for a moment. Then the next write decides.)

Thread safety: only the thread whose turn it is.
"""

from __future__ import annotations

from collections.abc import Callable

from reactdb.errors import CorruptDatabase, ReactDBError
from reactdb.store.file.sqlite import Connection, SQLiteError


class Distrust:
    """See the head of this file.

    Attributes:
        damage: What a write has met; None while none has.
    """

    __slots__ = ("_connection", "_excused", "_tell", "damage")

    def __init__(self, connection: Connection, tell: Callable[[ReactDBError], None]) -> None:
        """`tell`: whoever ends the feeds."""
        self._connection = connection
        self._tell = tell
        self.damage: CorruptDatabase | None = None
        self._excused: CorruptDatabase | None = None

    def excused(self, error: CorruptDatabase) -> CorruptDatabase:
        """Damage that is looked for before each write, so that it need not be remembered: whoever did it may take it back."""
        self._excused = error
        return error

    def note(self, error: BaseException) -> None:
        """A write has failed. The first damage that it stumbles over is what is told from then on."""
        if isinstance(error, CorruptDatabase) and self.damage is None:
            if not isinstance(error.__cause__, SQLiteError):
                self._tell(error)
            if error is not self._excused:
                self.damage = error

    def check(self, operation: str) -> None:
        """Raises: CorruptDatabase, after a write has met damage. It begins with the `operation` that is refused."""
        if self.damage is not None and not self._has_passed():
            self._tell(self.damage)
            raise CorruptDatabase(
                f"{operation}: nothing is written any more since damage was found: {self.damage}"
            )

    def _has_passed(self) -> bool:
        """Of a disk that could not be read for a moment, SQLite says that the file is malformed. That passes; damage does not."""
        if self.damage is None or not isinstance(self.damage.__cause__, SQLiteError):
            return False
        try:
            is_whole = bool(self._connection.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)])
        except SQLiteError:
            return False
        if is_whole:
            self.damage = None
        return is_whole
