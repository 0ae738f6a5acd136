"""Savepoints: all or nothing of one write inside a transaction that goes on.

A part of a transaction that fails takes its entries out of the write buffer again. SQLite hears of a part only if the buffer is
flushed while the part is open: the flush makes a savepoint at the place where the part began (`WriteTransaction.secure`).

Rule of this file: what SQLite has taken back is taken back here too, and the other way round.
"""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from reactdb.errors import CorruptDatabase
from reactdb.logs import logger
from reactdb.store.file.sqlite import SQLiteError
from reactdb.store.transaction import WriteTransaction


class Keeper(Protocol):
    """Whose transaction it is."""

    @property
    def is_abandoned(self) -> bool:
        """It is another process's: a child of fork() must not take back what its parent does."""

    def note_failure(self, error: BaseException, operation: str) -> BaseException:
        """SQLite's error as one of ours; others as they are."""


class Part:
    """One write inside a transaction: a context manager. An exception takes back what was done inside, and only that.

    Attributes:
        start: How many changes the transaction had when the part began.
        outer: The part around this one, or None.
    """

    __slots__ = (
        "_catalogue",
        "_depth",
        "_is_saved",
        "_keeper",
        "_operation",
        "_transaction",
        "outer",
        "start",
    )

    def __init__(self, transaction: WriteTransaction, keeper: Keeper, operation: str) -> None:
        if transaction.ruin is not None:
            raise transaction.ruin
        self._transaction = transaction
        self._keeper = keeper
        self._operation = operation
        self._is_saved = False
        self._catalogue = (transaction.catalogue, transaction.is_catalogue_changed)
        self.start = transaction.count
        self.outer = transaction.part
        # One name for each depth: what is taken back must not be the savepoint around this one.
        self._depth: int = 1 if self.outer is None else self.outer.depth + 1

    @property
    def depth(self) -> int:
        """1 for a part that is in no other."""
        return self._depth

    def __enter__(self) -> None:
        self._transaction.part = self

    def save(self) -> None:
        """From here on SQLite remembers what to take back. All changes before this part are in the file."""
        if not self._is_saved:
            self._transaction.execute(f"SAVEPOINT write{self._depth}")
            self._is_saved = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._end(error)
            return
        try:
            if self._transaction.ruin is not None:
                raise self._transaction.ruin
            if self._is_saved:
                self._transaction.execute(f"RELEASE write{self._depth}")
            self._transaction.part = self.outer
        except BaseException as late:
            self._end(late)
            raise

    def _end(self, error: BaseException) -> None:
        """Take back what was done inside. Raises: what the `error` is in our words, where those are others."""
        transaction, keeper = self._transaction, self._keeper
        try:
            translated = keeper.note_failure(error, self._operation)
            if isinstance(translated, CorruptDatabase):
                # Also where the caller catches it: nothing that goes on from here is worth keeping.
                transaction.ruin = transaction.ruin or translated
            if not keeper.is_abandoned and not self._take_back(is_of_sqlite=translated is not error):
                # SQLite has taken back all of it (a full disk can do that), or refused to take all of what was buffered.
                # What follows must not become a transaction of its own, with half of what belongs together.
                transaction.ruin = transaction.ruin or translated
            if translated is not error:
                raise translated from error
        finally:
            transaction.part = self.outer

    def _take_back(self, is_of_sqlite: bool) -> bool:
        """Whether the transaction can go on.

        Args:
            is_of_sqlite: What went wrong is an error of SQLite's, and not of what was asked.
        """
        transaction = self._transaction
        execute = transaction.connection.execute
        try:
            if not transaction.connection.in_transaction:
                return False
        except SQLiteError:
            return False  # closed inside
        try:
            # Also where it is not known to be there: Ctrl-C may have struck while it was made.
            execute(f"ROLLBACK TO write{self._depth}")
            execute(f"RELEASE write{self._depth}")
        except SQLiteError:
            if self._is_saved:
                # Ctrl-C has struck when it was released already: what was done is whole, and stays.
                logger.debug("there is no savepoint to go back to", exc_info=True)
                return True
            if transaction.torn_until and is_of_sqlite:
                return False
        else:
            # What was torn came after the savepoint, and is gone with it.
            transaction.torn_until = 0
            transaction.memory.forget()
        transaction.forget_after(self.start)
        transaction.catalogue, transaction.is_catalogue_changed = self._catalogue
        transaction.documents = None
        return True


def flush(transaction: WriteTransaction, keeper: Keeper, operation: str = "transaction") -> None:
    """Give SQLite what is buffered.

    Raises:
        DiskFull, StorageError: From the file. Part of it may be written: the transaction can only be taken back as a whole.
        What has ruined the transaction before.
    """
    if transaction.ruin is not None:
        raise transaction.ruin
    if keeper.is_abandoned:
        return
    try:
        transaction.flush()
    except BaseException as error:
        translated = keeper.note_failure(error, operation)
        if translated is error:
            # Ctrl-C: it is written again, the next time.
            raise
        transaction.ruin = translated
        raise translated from error
