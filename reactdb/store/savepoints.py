"""Savepoints: all or nothing of one write inside a transaction that goes on.

Most such writes are of one document, and succeed; SQLite's savepoint around each of them would cost as much as what it does. So
a part of a transaction begins without one: it remembers what its first document was before, and takes that one back by hand,
should it fail. Before it does anything else it makes a savepoint (`secure`).

Rule of this file: what SQLite has taken back is taken back here too, and the other way round.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Protocol

from reactdb.errors import CorruptDatabase
from reactdb.store.catalogue import TableInfo
from reactdb.store.pending import settle
from reactdb.store.sqlite import SQLiteError
from reactdb.store.transaction import WriteTransaction, take_back_document

logger = logging.getLogger("reactdb")


class Keeper(Protocol):
    """Whose transaction it is."""

    @property
    def is_abandoned(self) -> bool:
        """It is another process's: a child of fork() must not take back what its parent does."""

    def note_failure(self, error: BaseException, operation: str) -> BaseException:
        """SQLite's error as one of ours; others as they are."""


class Part:
    """One write inside a transaction: a context manager. An exception takes back what was done inside, and only that."""

    __slots__ = ("_depth", "_first", "_is_secure", "_keeper", "_kept", "_operation", "_outer", "_transaction")

    def __init__(
        self, transaction: WriteTransaction, keeper: Keeper, operation: str, *, is_secure: bool = False
    ) -> None:
        """`is_secure`: a savepoint from the beginning, because others begin parts inside of this one."""
        if transaction.ruin is not None:
            raise transaction.ruin
        self._transaction = transaction
        self._keeper = keeper
        self._operation = operation
        self._is_secure = is_secure
        self._first: tuple[TableInfo, bytes, tuple[int, bytes] | None, int | None] | None = None

    def __enter__(self) -> None:
        transaction = self._transaction
        if transaction.pending is not None:
            settle(transaction, self._keeper)
        self._outer = transaction.part
        if self._outer is not None:
            # What is done by this one could not be taken back by hand with that one.
            self._outer.secure()
        self._kept = (transaction.count, transaction.catalogue, transaction.is_catalogue_changed)
        # One name for each depth: what is taken back must not be the savepoint around this one.
        self._depth = transaction.depth = transaction.depth + 1
        transaction.part = self
        if self._is_secure:
            self._is_secure = False
            try:
                self.secure()
            except BaseException as error:
                self._end(error)
                raise

    def secure(self) -> None:
        """From here on SQLite remembers what to take back."""
        if not self._is_secure:
            self._transaction.execute(f"SAVEPOINT write{self._depth}")
            self._is_secure = True

    def note(self, table: TableInfo, key: bytes, old: tuple[int, bytes] | None) -> None:
        """A document is about to be written: what it was before."""
        if self._first is None:
            self._first = (table, key, old, None)
        else:
            self.secure()

    def note_grave(self, key: bytes, grave: int) -> None:
        """The document that is being written has a grave, which is about to be removed."""
        if self._first is not None and self._first[1] is key:
            self._first = (*self._first[:3], grave)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                if self._transaction.ruin is not None:
                    raise self._transaction.ruin
                if self._is_secure:
                    self._transaction.execute(f"RELEASE write{self._depth}")
                self._transaction.part = self._outer
                self._transaction.depth = self._depth - 1
            except BaseException as late:
                self._end(late)
                raise
        else:
            self._end(error)

    def _end(self, error: BaseException) -> None:
        """Take back what was done inside. Raises: what the `error` is in our words, where those are others."""
        transaction, keeper = self._transaction, self._keeper
        try:
            translated = keeper.note_failure(error, self._operation)
            if isinstance(translated, CorruptDatabase):
                # Also where the caller catches it: nothing that goes on from here is worth keeping.
                transaction.ruin = transaction.ruin or translated
            if not keeper.is_abandoned and not self._take_back():
                # SQLite has taken back all of it (a full disk can do that). What follows must not become a transaction of
                # its own, with half of what belongs together.
                transaction.ruin = transaction.ruin or translated
            if translated is not error:
                raise translated from error
        finally:
            transaction.part = self._outer
            transaction.depth = self._depth - 1

    def _take_back(self) -> bool:
        """Whether the transaction can go on."""
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
            if self._is_secure:
                # Ctrl-C has struck when it was released already: what was done is whole, and stays.
                logger.debug("there is no savepoint to go back to", exc_info=True)
                return True
        transaction.memory.forget()
        transaction.count, transaction.catalogue, transaction.is_catalogue_changed = self._kept
        transaction.documents = None
        if transaction.changes is not None:
            del transaction.changes[transaction.count :]
        if self._first is not None:
            try:
                take_back_document(transaction, *self._first)
            except SQLiteError:
                logger.debug("what a failed write has done cannot be taken back alone", exc_info=True)
                return False
        return True
