"""Transactions: a session's writes to several collections, buffered until they are one commit of the log.

    transaction = Transactions(spaces).begin()
    with transaction.statement(namespace) as target: ...    reads and writes of one statement
    transaction.commit()                                    or abort(), which leaves nothing

A transaction reads the state at its first statement, with its own writes on top. Its writes are buffered here and invisible to
others, and nothing is locked. It is a conflict to write a document after another writer has changed it since the first statement,
or another open transaction has written it: the statement fails with code 112 and the label for trying the whole transaction
again. The commit checks in the same way for changes since the statement.

Rule of this file: the commit has exactly the writes of the statements, in their order, or nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from reactdb.clock import time_ns
from reactdb.dialects.mongodb.entries import with_session
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.indexes import (
    check_index,
    check_native_unique,
    check_unique,
    create,
    indexes_of,
    is_there,
    native_unique,
)
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces, read_record
from reactdb.dialects.mongodb.natural import drop_place, is_place_table, keep_places, needs_places
from reactdb.dialects.mongodb.retries import RetryableWrite
from reactdb.dialects.mongodb.rules import RuleOptions, rules_of, write_options
from reactdb.errors import HistoryLost
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.snapshot import PastSnapshot, Snapshot, read_all_changes
from reactdb.store.transaction import WriteTransaction
from reactdb.store.undo import Undo

__all__ = ["TRANSIENT", "Transaction", "Transactions", "check_in_transaction"]

TRANSIENT: Final = "TransientTransactionError"
"""The label of an error after which drivers may try the whole transaction again."""

FIRST_BESIDE: Final = -(1 << 32)
"""Placeholders of hidden tables have this number or a lower one. Placeholders of collections have -1 and below."""

_OUTSIDE_DATABASES: Final = frozenset({"config", "local"})
_OUTSIDE_COLLECTIONS: Final = frozenset({"system.profile", "system.views"})

TableKey = tuple[int, bytes]
"""A table's number and a key."""


class _Step(NamedTuple):
    """A buffered write."""

    table_id: int
    key: bytes
    kind: int
    body: bytes | None
    meta: bytes | None
    bypasses: bool


class _NewCollection(NamedTuple):
    """A collection to be created by the commit.

    Attributes:
        table: A placeholder for its table.
        options: The options of `create`; None if a write creates it, in which case another writer may have created it meanwhile.
        indexes: Specifications of indexes.
    """

    namespace: MongoNamespace
    table: TableInfo
    options: Mapping[str, Any] | None
    indexes: list[Mapping[str, Any]]


class _OverlaidUndo(Undo):
    """The undo of the present state, and on top of it the writes of the transaction, in the same form."""

    def __init__(self, undo: Undo, written: dict[int, dict[bytes, bytes | None]]) -> None:
        super().__init__(undo.since, ())
        self._undo = undo
        self._written = written

    def old(self, table_id: int, seq: int) -> dict[bytes, bytes | None]:
        return {**self._undo.old(table_id, seq), **self._written.get(table_id, {})}

    def one(self, table_id: int, key: bytes, seq: int) -> tuple[bool, bytes | None]:
        own = self._written.get(table_id)
        if own is not None and key in own:
            return True, own[key]
        return self._undo.one(table_id, key, seq)


class Transactions:
    """The open transactions of a file. Any thread."""

    def __init__(self, spaces: Namespaces) -> None:
        self.spaces = spaces
        self._lock = threading.Lock()
        self._written: dict[TableKey, Transaction] = {}

    def begin(self, named: tuple[bytes, int] | None = None) -> Transaction:
        """Begin a transaction. `named`: the id of its session and its number in the session, for its events."""
        return Transaction(self, named)

    def claim(self, place: TableKey, transaction: Transaction) -> bool:
        """Note the transaction's write to a document. Returns: whether no other transaction had written it."""
        with self._lock:
            return self._written.setdefault(place, transaction) is transaction

    def committed(self) -> Transaction:
        """A transaction that was committed before this server began."""
        transaction = Transaction(self)
        transaction.state = "committed"
        return transaction

    def forget(self, transaction: Transaction) -> None:
        with self._lock:
            for place in [place for place, owner in self._written.items() if owner is transaction]:
                del self._written[place]


class Transaction:
    """One transaction. One thread at a time.

    Attributes:
        state: `open`, `committed` or `aborted`.
        retry: The driver's session and the transaction's number in it, for its events and for a repeated commit; None without a
            driver.
    """

    def __init__(self, owner: Transactions, named: tuple[bytes, int] | None = None) -> None:
        self._named = named
        self.retry: RetryableWrite | None = None
        self._owner = owner
        self._spaces = owner.spaces
        self.state = "open"
        self._seq: int | None = None
        self._undo: Undo | None = None
        self._steps: list[_Step] = []
        self._written: dict[int, dict[bytes, bytes | None]] = {}
        # Tables to be created by the commit, with negative numbers.
        self._made: dict[str, _NewCollection] = {}
        # Placeholders of hidden tables to be created, by number, and the greatest key of each table that was queried for it.
        self._beside: dict[int, TableInfo] = {}
        self._greatest: dict[int, bytes] = {}

    @property
    def is_empty(self) -> bool:
        """Nothing was written."""
        return not self._steps and not self._made

    @contextmanager
    def statement(self, namespace: MongoNamespace) -> Iterator[BufferedWrites]:
        """The target of one statement on a collection. An exception in the block aborts the transaction.

        Raises:
            MongoError: 251, it is not open any more; 246, its read state is gone; and as `check_in_transaction`.
        """
        if self.state != "open":
            raise MongoError(251, f"Transaction has been {self.state}", labels=(TRANSIENT,))
        try:
            check_in_transaction(namespace)
            with self._spaces.session.read() as now:
                yield BufferedWrites(self, now, self._as_of(now))
        except BaseException:
            self.abort()
            raise

    def collation(self, namespace: MongoNamespace) -> Any:
        """The collation of a collection, as this transaction sees it; None for the simple collation."""
        made = self._made.get(self._spaces.names.table(namespace))
        return self._spaces.collation(namespace) if made is None else (made.options or {}).get("collation")

    def create(self, namespace: MongoNamespace, options: Mapping[str, Any]) -> None:
        """A statement that creates a collection. Errors as for `BufferedWrites.create`."""
        with self.statement(namespace) as target:
            target.create(namespace, options)

    def _as_of(self, now: Snapshot) -> Undo:
        if self._seq is None:
            self._seq = now.seq
        if self._undo is None:
            self._undo = Undo(self._seq, ())
        try:
            for change in read_all_changes(now, self._undo.until):
                self._undo.add(change)
        except HistoryLost:
            raise MongoError(
                246, "Unable to read from a snapshot due to compaction of the history", labels=(TRANSIENT,)
            ) from None
        return self._undo

    def abort(self) -> None:
        """Forget everything. A second call does nothing."""
        if self.state == "open":
            self.state = "aborted"
            self._end()

    def _end(self) -> None:
        self._owner.forget(self)
        self._steps = []
        self._written = {}
        self._made = {}
        self._beside = {}
        self._greatest = {}
        self._undo = None

    def commit(self) -> None:
        """Write everything as one commit. A second call does nothing.

        Raises:
            MongoError: 251, it was aborted; 112 or 11000, it conflicts with other writes and is aborted.
        """
        if self.state == "committed":
            return
        if self.state == "aborted":
            raise MongoError(251, "Transaction has been aborted", labels=(TRANSIENT,))
        if not self.is_empty:
            try:
                self._spaces.session.transact(self._carry_out, operation="transaction")
            except MongoError:
                self.abort()
                raise
        self.state = "committed"
        self._end()

    def _make(self, transaction: WriteTransaction, made: _NewCollection) -> TableInfo:
        if (
            made.options is not None
            and self._spaces.names.table(made.namespace) in transaction.catalogue.live
        ):
            raise conflict()
        table = self._spaces.within(transaction, made.namespace, made.options)
        if made.indexes:
            create(transaction, table, made.namespace, made.indexes)
        return transaction.catalogue.by_id[table.id]

    def _carry_out(self, transaction: WriteTransaction) -> None:
        snapshot = transaction.snapshot()
        assert self._seq is not None
        undo = self._as_of(snapshot)
        # Now: the snapshot also sees the writes below.
        newest = snapshot.seq
        named = self._named if self.retry is None else (self.retry.session, self.retry.number)
        numbers: dict[int, TableInfo] = {}
        for made in self._made.values():
            numbers[made.table.id] = self._make(transaction, made)
        for step in self._steps:
            table = numbers.get(step.table_id) or transaction.catalogue.by_id.get(step.table_id)
            if table is None or transaction.catalogue.live.get(table.reference) is None:
                raise conflict()
            if undo.one(table.id, step.key, self._seq)[0]:
                raise conflict()
            old = transaction.head(table, step.key)
            if old is not None and step.table_id < 0 and old[0] <= newest:
                raise conflict()
            if step.body is not None and table.indexes:
                unique = [index for index in indexes_of(table) if index.refuses]
                others = native_unique(table)
                if unique or others:
                    namespace = self._spaces.names.namespace(table.name) or MongoNamespace("", table.name)
                    try:
                        check_unique(transaction, table, unique, namespace, step.key, step.body)
                        check_native_unique(transaction, others, namespace, step.key, step.body)
                    except MongoError:
                        if step.table_id < 0:
                            raise
                        # The key was free for the statement, so another writer has inserted it since; the next try will see that.
                        raise conflict() from None
            if old is not None or step.body is not None:
                meta = step.meta if named is None else with_session(step.meta, *named)
                options = write_options(table, meta, bypasses=step.bypasses)
                has_place = old is None and needs_places(transaction, table, (step.key,))
                transaction.write(table, step.key, step.kind, old, step.body, asked=options, meta=meta)
                if has_place:
                    keep_places(transaction, table, (step.key,))
                elif step.body is None:
                    drop_place(transaction, table, step.key)
        if self.retry is not None:
            self.retry.remember(transaction, None)


class BufferedWrites:
    """The target of one statement of a transaction: see `targets`."""

    def __init__(self, transaction: Transaction, now: Snapshot, undo: Undo) -> None:
        self._transaction = transaction
        self._now = now
        self._undo = undo
        self.catalogue: Catalogue = now.catalogue
        if transaction._beside:
            self._add_planned_tables()

    def _add_planned_tables(self) -> None:
        now = self._now.catalogue
        self.catalogue = Catalogue(now.version, {**now.by_id, **self._transaction._beside})

    @property
    def first(self) -> int:
        assert self._transaction._seq is not None
        return self._transaction._seq + 1

    @property
    def count(self) -> int:
        return len(self._transaction._steps)

    def table(self, namespace: MongoNamespace) -> TableInfo | None:
        """The table of a collection, as this transaction sees it."""
        name = self._transaction._spaces.names.table(namespace)
        made = self._transaction._made.get(name)
        return made.table if made is not None else self.catalogue.live.get(name)

    def within(self, namespace: MongoNamespace) -> TableInfo:
        """The same; if the collection is missing, a placeholder for one to be created by the commit."""
        return self.table(namespace) or self._make(namespace, None).table

    def create_table(self, name: str, primary_key: str, owner: str | None = None) -> TableInfo:
        """A placeholder of a hidden table for the statements of this transaction."""
        beside = self._transaction._beside
        number = FIRST_BESIDE - len(beside)
        beside[number] = table = TableInfo(number, name, primary_key, 0, None, {}, owner)
        self._add_planned_tables()
        return table

    def greatest_key(self, table: TableInfo) -> bytes:
        known = self._transaction._greatest.get(table.id)
        if known is None:
            rows = self.snapshot().rows(table, reverse=True, limit=1)
            known = self._transaction._greatest[table.id] = rows[0].key if rows else b""
        return known

    def create(self, namespace: MongoNamespace, options: Mapping[str, Any]) -> None:
        """Have the commit make a collection.

        Raises:
            MongoError: 48, it is there; 263, it is to be capped, or a view.
        """
        if self.table(namespace) is not None:
            raise MongoError(48, f"Collection {namespace} already exists. NS: {namespace}")
        if "capped" in options or "viewOn" in options:
            raise MongoError(
                263, "Neither views nor capped collections are made in a multi-document transaction."
            )
        self._make(namespace, dict(options))

    def create_indexes(
        self, namespace: MongoNamespace, indexes: Sequence[Mapping[str, Any]]
    ) -> tuple[int, int]:
        """Let the commit create indexes of a collection that it creates. Existing indexes are skipped.

        Returns:
            The number of indexes before and after, including the `_id` index.

        Raises:
            MongoError: 263, the collection exists already and lacks one of them; and as for `create` of indexes.
        """
        name = self._transaction._spaces.names.table(namespace)
        there, made = self.catalogue.live.get(name), self._transaction._made.get(name)
        specs = [check_index(one, namespace, self._transaction.collation(namespace)) for one in indexes]
        kept: list[Mapping[str, Any]] = [] if made is None else [*made.indexes]
        if there is not None:
            kept = [*read_record(self, there).indexes]
        before = len(kept)
        for spec in specs:
            if list(spec["key"].items()) != [("_id", 1)] and not is_there(spec, kept):
                kept.append(spec)
        if there is None:
            self.within(namespace)
            self._transaction._made[name].indexes[:] = kept
        elif len(kept) > before:
            raise MongoError(
                263,
                f"Cannot create new indexes on existing collection {namespace} in a multi-document transaction.",
            )
        return before + 1, len(kept) + 1

    def _make(self, namespace: MongoNamespace, options: Mapping[str, Any] | None) -> _NewCollection:
        made = self._transaction._made
        name = self._transaction._spaces.names.table(namespace)
        table = TableInfo(-1 - len(made), name, "_id", 0, None, {})
        made[name] = new_table = _NewCollection(namespace, table, options, [])
        return new_table

    def snapshot(self) -> Snapshot:
        transaction = self._transaction
        assert transaction._seq is not None
        snapshot = PastSnapshot(self._now, transaction._seq, _OverlaidUndo(self._undo, transaction._written))
        snapshot.catalogue = self.catalogue
        return snapshot

    def head(self, table: TableInfo, key: bytes) -> tuple[int, bytes] | None:
        body = self.snapshot().get(table, key)
        return None if body is None else (0, body)

    def write(
        self,
        table: TableInfo,
        key: bytes,
        kind: int,
        old: tuple[int, bytes] | None,
        body: bytes | None,
        *,
        asked: RuleOptions | None = None,
        meta: bytes | None = None,
    ) -> bool:
        """
        Raises:
            MongoError: 112, another transaction, or a commit since the start of this one, has written the document; 121, the
                validator refuses it; 263, the collection is capped.
        """
        transaction = self._transaction
        if is_place_table(table):
            # The statements of this transaction read it. The commit assigns the places.
            transaction._written.setdefault(table.id, {})[key] = body
            return True
        bypasses = asked is not None and asked.bypasses
        rules = rules_of(self.catalogue, table, lambda rows, own: self._now.get(rows, own))
        if rules is not None and rules.cap is not None:
            raise MongoError(
                263,
                f"Collection {table.name} is capped: writes in transactions are not allowed on capped collections.",
            )
        if rules is not None and body is not None and not bypasses:
            rules.check(table, body, None if old is None else old[1], time_ns() // 1_000_000)
        assert transaction._seq is not None
        if self._undo.one(table.id, key, transaction._seq)[0]:
            raise conflict()
        if table.id >= 0 and not transaction._owner.claim((table.id, key), transaction):
            raise conflict()
        greatest = transaction._greatest
        if table.id in greatest:
            if body is not None:
                greatest[table.id] = max(greatest[table.id], key)
            elif key == greatest[table.id]:
                del greatest[table.id]
        transaction._steps.append(_Step(table.id, key, kind, body, meta, bypasses))
        transaction._written.setdefault(table.id, {})[key] = body
        return True


def check_in_transaction(namespace: MongoNamespace) -> None:
    """
    Raises:
        MongoError: 263, the database, or the collection, is read and written outside of transactions alone.
    """
    if namespace.db in _OUTSIDE_DATABASES:
        raise MongoError(263, f"Cannot run command against the '{namespace.db}' database in a transaction.")
    if namespace.coll in _OUTSIDE_COLLECTIONS:
        raise MongoError(263, f"Cannot run command against the '{namespace}' collection in a transaction.")


def conflict() -> MongoError:
    """The error of a write conflict: another write was faster."""
    return MongoError(
        112,
        "Caused by :: Write conflict during plan execution and yielding is disabled. :: Please retry your operation or "
        "multi-document transaction.",
        labels=(TRANSIENT,),
    )
