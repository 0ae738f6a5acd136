"""Expiry: documents that are deleted at their end.

A table expires if it has an index of the ends of its documents:

    a native table    the index `expiry`. Its value is the time in a field plus a duration, computed by the operation below
    MongoDB           a TTL index of a collection (see `reactdb.dialects.mongodb.ttl_sweep`)

So the next documents to delete are the first entries of an index, and nothing is searched. The rule is a part of the
index: it is in the file, binds every process, and moves with a table that is renamed or copied.

A deletion is an ordinary change with the origin "expiry". Until then every read, count and feed shows the document, so
all of them agree. `expirer` has the thread that deletes.

Rule of this file: one step deletes few documents in one commit, so that no writer waits for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from reactdb.change import DELETE, TableReference
from reactdb.clock import EPOCH, MICROSECOND, Clock, monotonic
from reactdb.errors import IncompatibleFormat, QueryError, UsageError
from reactdb.expression import Expression, to_data
from reactdb.expression.build import call_node
from reactdb.expression.registry import operation
from reactdb.expression.tree import Call, Constant, Row, constant
from reactdb.store.catalogue import Catalogue, IndexInfo, TableInfo
from reactdb.values import codec, collation

if TYPE_CHECKING:
    from reactdb.store.snapshot import Snapshot
    from reactdb.store.transaction import WriteTransaction
    from reactdb.store.writer import Writer

# The origin of the deletions.
ORIGIN: Final = "expiry"
# The name of the index of a native table.
INDEX: Final = "expiry"
END_OF: Final = "expiry.end"
OF_MONGODB: Final = "mongodb.index_keys"
# Where the index has the ends of other operations than END_OF.
_HOMES: Final = {OF_MONGODB: "reactdb.dialects.mongodb.ttl_sweep"}

# A step ends after this time or number of documents. Its commit takes about as long again.
STEP_S: Final = 0.004
MOST_DELETIONS: Final = 100

EXPIRED = (
    "SELECT key FROM entries WHERE index_id = ?1 AND value >= ?2 AND value < ?3 ORDER BY value, key LIMIT ?4"
)
FIRST_END = (
    "SELECT value FROM entries WHERE index_id = ?1 AND value >= ?2 AND value < ?3 ORDER BY value LIMIT 1"
)
WITH_END = "SELECT count(*) FROM entries WHERE index_id = ?1 AND value >= ?2 AND value < ?3"
HAS_DOCUMENT = "SELECT 1 FROM heads WHERE table_id = ? LIMIT 1"
MIN_TIME: Final = collation.key_bytes(datetime.min.replace(tzinfo=UTC))
MAX_TIME: Final = collation.key_bytes(datetime.max.replace(tzinfo=UTC)) + b"\0"


@operation(END_OF, 3, fields=lambda field, seconds: (field,))
def find_end(document: Any, field: str, seconds: float) -> datetime:
    """The end of a document: the time in a field plus so many seconds.

    Raises:
        QueryError: There is no time in the field. Then the document has no end, and no entry.
    """
    value = document.get(field) if isinstance(document, dict) else None
    if not isinstance(value, datetime):
        raise QueryError(f"there is no time in `{field}`")
    try:
        return value + timedelta(seconds=seconds)
    except OverflowError:
        raise QueryError(f"the time in `{field}` has no end before the year 10000") from None


class ExpiringFile(Protocol):
    """The engine, as far as expiry needs it."""

    path: str
    clock: Clock
    catalogue: Catalogue

    @property
    def is_closed(self) -> bool: ...

    @property
    def is_usable(self) -> bool: ...

    def has_transaction_here(self) -> bool: ...

    def writable(self) -> Writer:
        """The writer. Raises: ReadOnlyDatabase, DatabaseClosed."""

    def fresh_snapshot(self) -> AbstractContextManager[Snapshot]:
        """A snapshot of the committed state."""


class ExpiryRule(NamedTuple):
    """One index by which documents of a table expire.

    Attributes:
        table: The table.
        info: The index with the ends, or with the times to which the duration is still to be added.
        bounds: Given a moment, the least value of an index entry and the value after the last for documents that have
            ended then.
        delete: Deletes a document by its key. The document exists.
    """

    table: TableInfo
    info: IndexInfo
    bounds: Callable[[datetime], tuple[bytes, bytes]]
    delete: Callable[[WriteTransaction, TableInfo, bytes], None]


MakeRule = Callable[[TableInfo, IndexInfo], ExpiryRule | None]
_MAKERS: Final[dict[str, MakeRule]] = {}


def register_expiry(operation_name: str, make_rule: MakeRule) -> None:
    """Say how documents expire by an index with this operation. The module that registers is one of `_HOMES`."""
    _MAKERS[operation_name] = make_rule


def _delete(transaction: WriteTransaction, table: TableInfo, key: bytes) -> None:
    transaction.write(table, key, DELETE, transaction.head(table, key), None)


def _native_bounds(now: datetime) -> tuple[bytes, bytes]:
    return MIN_TIME, collation.key_bytes(now) + b"\0"


def _native_rule(table: TableInfo, index: IndexInfo) -> ExpiryRule | None:
    return ExpiryRule(table, index, _native_bounds, _delete)


register_expiry(END_OF, _native_rule)


def _spec(index: IndexInfo, number: int) -> Any:
    node = index.expression.node
    part = node.arguments[number] if isinstance(node, Call) and len(node.arguments) > number else None
    return part.value if isinstance(part, Constant) else None


def _expires(index: IndexInfo) -> str | None:
    """The operation of an index by which documents expire; None for other indexes."""
    node = index.expression.node
    if not isinstance(node, Call):
        return None
    if node.operation == OF_MONGODB:
        spec = _spec(index, 1)
        return OF_MONGODB if isinstance(spec, dict) and spec.get("expires") is not None else None
    return END_OF if node.operation == END_OF else None


def has_expiry(catalogue: Catalogue) -> bool:
    """Whether documents of any table expire."""
    return any(
        _expires(index) is not None for table in catalogue.live.values() for index in table.indexes.values()
    )


def rules_of(catalogue: Catalogue) -> Iterator[ExpiryRule]:
    """All rules. A rule of a dialect that is not installed is left out: then another process has to delete."""
    for table in catalogue.live.values():
        for index in table.indexes.values():
            name = _expires(index)
            if name is None:
                continue
            if name not in _MAKERS:
                try:
                    import_module(_HOMES[name])
                except ImportError:
                    continue
            rule = _MAKERS[name](table, index)
            if rule is not None:
                yield rule


class ExpirySettings(NamedTuple):
    """The expiry of a native table: a document ends `duration` after the time in `field`."""

    field: str
    duration: timedelta


def native_expiry(table: TableInfo) -> ExpirySettings | None:
    """The expiry of a native table; None where its documents do not expire."""
    index = find_index(table)
    return None if index is None else ExpirySettings(str(_spec(index, 1)), timedelta(seconds=_spec(index, 2)))


def expiry_expression(settings: ExpirySettings) -> bytes:
    """The expression of the index of the ends, as the file has it."""
    tree = Expression(
        call_node(
            END_OF, (Row(), constant(settings.field), constant(settings.duration / timedelta(seconds=1)))
        )
    )
    return codec.encode_value(to_data(tree))


def find_index(table: TableInfo) -> IndexInfo | None:
    """The index of the ends of a native table, under whatever name."""
    return next((index for index in table.indexes.values() if _expires(index) == END_OF), None)


# ---------------------------------------------------------------------------------------------------------------
# ExpiryFigures


class ExpiryFigures(NamedTuple):
    """Of the expiry of one table.

    Attributes:
        settings: See `ExpirySettings`.
        next_end: The end of the document that is deleted next; None without one.
        without_end: How many documents have no time in the field, and never expire.
    """

    settings: ExpirySettings
    next_end: datetime | None
    without_end: int


def find_next_end(file: ExpiringFile) -> datetime | None:
    """The earliest end of a document of a native table; None without one."""
    with file.fresh_snapshot() as snapshot:
        indexes = [
            index for table in snapshot.catalogue.live.values() if (index := find_index(table)) is not None
        ]
        rows = [
            snapshot.connection.execute(FIRST_END, (one.id, MIN_TIME, MAX_TIME)).fetchone() for one in indexes
        ]
    return min((collation.key_value(row[0]) for row in rows if row is not None), default=None)


def has_only_documents_without_end(snapshot: Snapshot, table: TableInfo) -> bool:
    """Whether a table has documents, and none of them has an end. Two look-ups."""
    index = find_index(table)
    if index is None:
        return False
    execute = snapshot.connection.execute
    has_end = execute(FIRST_END, (index.id, MIN_TIME, MAX_TIME)).fetchone() is not None
    return not has_end and execute(HAS_DOCUMENT, (table.id,)).fetchone() is not None


def measure_expiry(snapshot: Snapshot, table: TableInfo) -> ExpiryFigures | None:
    """Reads as many entries as the table has documents. None where the documents do not expire."""
    settings, index = native_expiry(table), find_index(table)
    if settings is None or index is None:
        return None
    bounds = (index.id, MIN_TIME, MAX_TIME)
    first = snapshot.connection.execute(FIRST_END, bounds).fetchone()
    (count,) = snapshot.connection.execute(WITH_END, bounds).fetchone()
    return ExpiryFigures(
        settings, None if first is None else collation.key_value(first[0]), snapshot.count(table) - count
    )


# ---------------------------------------------------------------------------------------------------------------
# Deleting


def read_time(file: ExpiringFile) -> datetime:
    """The present moment by which the documents of a file expire: the wall time of the file's clock. It is the system's
    clock, or a virtual one in a test."""
    return EPOCH + MICROSECOND * (file.clock.time_ns() // 1_000)


def has_expired(snapshot: Snapshot, rule: ExpiryRule, now: datetime) -> bool:
    """Whether a document of a rule has ended, by one look-up."""
    low, high = rule.bounds(now)
    row = snapshot.connection.execute(EXPIRED, (rule.info.id, low, high, 1)).fetchone()
    return row is not None


def delete_some(transaction: WriteTransaction, rule: ExpiryRule, now: datetime) -> int:
    """One step: delete some of the documents that have ended. Returns: their number; 0 after the last."""
    table = transaction.catalogue.live.get(rule.table.reference)
    if table is None or table.id != rule.table.id or rule.info.name not in table.indexes:
        return 0
    if table.indexes[rule.info.name].id != rule.info.id:
        # The rule was changed in between.
        return 0
    low, high = rule.bounds(now)
    stop = monotonic() + STEP_S
    transaction.flush()
    rows = transaction.execute(EXPIRED, (rule.info.id, low, high, MOST_DELETIONS)).fetchall()
    count = 0
    # A document may have several entries, of an array.
    for key in dict.fromkeys(key for (key,) in rows):
        if transaction.head(table, key) is not None:
            rule.delete(transaction, table, key)
            count += 1
        if monotonic() >= stop:
            break
    return count


def steps(
    file: ExpiringFile, now: datetime | None = None, table: TableReference | None = None
) -> Iterator[int]:
    """Delete what has ended in a file, in small commits. Yields the number of deletions of each.

    Args:
        now: None: the present moment.
        table: None: all tables.

    Raises:
        ReadOnlyDatabase; DatabaseBusy and all other errors of a write; UsageError: A write hook refuses to delete. The other
        tables were finished.
    """
    writer = file.writable()
    moment = read_time(file) if now is None else now
    refused: UsageError | None = None
    with file.fresh_snapshot() as snapshot:
        due = [
            rule
            for rule in rules_of(snapshot.catalogue)
            if table in (None, rule.table.reference) and has_expired(snapshot, rule, moment)
        ]
    for rule in due:
        while True:
            try:
                # Soft: after a power cut the documents are deleted again, because their ends have passed.
                count = writer.write(
                    lambda transaction, rule=rule: delete_some(transaction, rule, moment),  # type: ignore[misc]
                    durability="soft",
                    origin=ORIGIN,
                    operation="expiry",
                )
            except IncompatibleFormat:
                # This process cannot write the table, because it does not know a type or an index of it.
                break
            except UsageError as error:
                refused = refused or error
                break
            if not count:
                break
            yield count
    if refused is not None:
        raise refused


def delete_expired(file: ExpiringFile, now: datetime | None = None) -> int:
    """All of `steps` at once. Returns: the number of deleted documents."""
    return sum(steps(file, now))
