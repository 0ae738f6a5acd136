"""DurableConsumer: a named position in the file, from which workers are given the changes of a selection, each until it is done
with.

    consumer = db.consumer("uploader", db.table("orders"))
    for batch in consumer.batches():
        with batch:
            for change in batch:
                upload(change)

This file makes, describes, resets, skips and removes consumers. `batches` gets batches for a worker, and
`store/leases` has the file's data.

Rule of this file: arguments are checked here, in the user's words. Each operation on a consumer is one transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactdb import holders
from reactdb.durable.dead_letters import store_dead_letters
from reactdb.durable.partitions import compile_row_wise, events_at
from reactdb.durable.worker import Batches, ConsumerClock, Settings
from reactdb.errors import InvalidOption, UsageError, format_value
from reactdb.expression import Expression, OrderKey, Predicate
from reactdb.feeds.options import check_seconds
from reactdb.feeds.position import resolve_since
from reactdb.query import ALL_TABLES, Query, Step
from reactdb.session import Session, session_of
from reactdb.store.catalogue import check_name
from reactdb.store.leases import CONSUMER, Lease, read_all_leases, read_leases, write_lease
from reactdb.store.log import read_low_water
from reactdb.store.positions import remove_position
from reactdb.store.snapshot import Snapshot
from reactdb.store.transaction import WriteTransaction
from reactdb.table import Selection, query_of
from reactdb.values import codec

# Limits of a lease: below, writing the renewals would be most of a worker's work; above, a takeover would come too
# late.
LEAST_LEASE_S, MOST_LEASE_S = 0.05, 86_400.0
MOST_PARTITIONS = 1_024


class DurableConsumer:
    """See the head of this file, and `Database.consumer`.

    Thread safety: any method from any thread; each `batches()` is a worker of its own.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        selection: Selection[Any, Any] | None,
        *,
        since: int | str | None,
        partitions: int | None,
        lease_s: float,
        max_attempts: int | None,
        backoff_s: float,
        most_backoff_s: float,
        reset: bool,
        scheduler: Any,
    ) -> None:
        """Made by `Database.consumer`, which has the arguments, with their defaults, and the errors."""
        check_name("Consumer", name)
        query = _query_of(session, selection)
        lease_ms = check_lease_s(lease_s)
        _check_number("backoff_s", backoff_s, 0, MOST_LEASE_S)
        _check_number("most_backoff_s", most_backoff_s, 0, MOST_LEASE_S)
        if max_attempts is not None:
            _check_count("max_attempts", max_attempts, 1_000_000, " or None")
        if partitions is not None:
            _check_count("partitions", partitions, MOST_PARTITIONS)
        if not isinstance(reset, bool):
            raise InvalidOption(f"reset is True or False, not {format_value(reset)}")
        self.name = name
        self._settings = Settings(
            session,
            name,
            query,
            digest(query),
            lease_ms,
            max_attempts,
            float(backoff_s),
            float(most_backoff_s),
            ConsumerClock(scheduler, session.clock),
        )
        self._session = session
        self._create_leases(since, partitions, reset)

    def _create_leases(self, since: int | str | None, partitions: int | None, is_reset: bool) -> None:
        """Make the leases, if there are none of this name; else see that they are of this selection."""
        settings = self._settings
        with self._session.read() as snapshot:
            leases = read_leases(snapshot.connection, self.name)
            if leases and not is_reset:
                _check_same(leases, settings.selection, partitions)
                return

        def make(transaction: WriteTransaction) -> None:
            known = read_leases(transaction.connection, self.name)
            if known and not is_reset:
                # Another process was quicker.
                _check_same(known, settings.selection, partitions)
                return
            seq = position_of(self._session, transaction.snapshot(), since)
            count = partitions or len(known) or 1
            fence = max((lease.fence for lease in known), default=0)
            remove_position(transaction, CONSUMER, self.name)
            for number in range(count):
                # Fencing numbers continue: an earlier holder's batch must not fit.
                lease = Lease(self.name, number, count, settings.selection, seq, fence=fence)
                write_lease(transaction, lease.reset(seq, settings.selection) if known else lease)

        self._session.transact(make, operation="consumer")

    def __repr__(self) -> str:
        return f"<DurableConsumer {self.name!r}>"

    def batches(self, max_changes: int = 500, max_wait_s: float = 1.0) -> Batches:
        """The changes, batch by batch: an iterator for `for` and `async for`, which waits where there is nothing to do, for ever.

        Args:
            max_changes: The most changes in a batch. A batch may end inside of a commit.
            max_wait_s: Seconds that a partial batch waits for more; 0: it is returned at once.

        Returns:
            A worker; close it, or use it as a context manager, so that another one can continue at once.
        """
        _check_count("max_changes", max_changes, 100_000)
        wait_s = float(check_seconds("max_wait_s", max_wait_s))
        self._session.check_open()
        return Batches(self._settings, max_changes, wait_s)

    def status(self) -> list[dict[str, Any]]:
        """How it fares, a dict for each partition: see `Database.consumers`."""
        return [figures for figures in status(self._session) if figures["name"] == self.name]

    def reset(self, since: int | str | None = None) -> None:
        """Continue from `since`: a seq, a token, 0 for the start of the log, None for now. Present workers lose their
        leases."""
        reset(self._session, self.name, since)

    def skip(self) -> int:
        """Set the failing change aside, without further attempts. Returns: the number of such changes, one a
        partition."""
        return skip(self._session, self.name)

    def remove(self) -> None:
        """Remove its position. Changes that were set aside stay."""
        remove(self._session, self.name)


# ---------------------------------------------------------------------------------------------------------------
# Operations on a consumer by its name


def status(session: Session) -> list[dict[str, Any]]:
    """How the consumers of the file fare: see `Database.consumers`."""
    now_ms = session.clock.time_ns() // 1_000_000
    figures = []
    with session.read() as snapshot:
        head, oldest = snapshot.seq, read_low_water(snapshot.connection)
        for lease in read_all_leases(snapshot.connection):
            since = max(lease.seq, oldest)
            first = snapshot.changes(since, None, None, 1) if since < head else []
            is_held = lease.holder is not None and not holders.is_gone(lease.holder)
            figures.append(
                {
                    "name": lease.name,
                    "partition": lease.partition,
                    "partitions": lease.partitions,
                    "seq": lease.seq,
                    "lag": head - lease.seq,
                    "lag_s": max(0.0, (now_ms - first[0].time) / 1_000) if first else 0.0,
                    "is_lost": lease.seq < oldest,
                    "holder": lease.holder if is_held else None,
                    "lease_s": max(0.0, (lease.until_ms - now_ms) / 1_000) if is_held else 0.0,
                    "fence": lease.fence,
                    "attempts": lease.attempts,
                    "failing": lease.failing,
                    "error": lease.error,
                    "dead_letters": lease.set_aside,
                }
            )
    return figures


def reset(session: Session, name: str, since: int | str | None = None) -> None:
    """See `DurableConsumer.reset`.

    Raises:
        UsageError: There is no such consumer.
        HistoryLost, HistoryDiverged, InvalidOption: About `since`.
    """

    def change(transaction: WriteTransaction, leases: list[Lease]) -> None:
        seq = position_of(session, transaction.snapshot(), since)
        for lease in leases:
            write_lease(transaction, lease.reset(seq, lease.selection))

    _change_leases(session, name, change)


def skip(session: Session, name: str) -> int:
    """See `DurableConsumer.skip`.

    Raises:
        UsageError: There is no such consumer, or nothing of it is failing.
    """

    def change(transaction: WriteTransaction, leases: list[Lease]) -> int:
        failing = [lease for lease in leases if lease.failing is not None]
        if not failing:
            raise UsageError(
                f"nothing of consumer `{name}` is failing, so there is nothing to skip; reset it with a seq to pass changes over"
            )
        for lease in failing:
            assert lease.failing is not None
            where = (lease.failing, lease.partition, lease.partitions)
            events = events_at(session, transaction.snapshot(), *where)
            store_dead_letters(
                session, transaction, lease, events, lease.failing, lease.error or "skipped", lease.attempts
            )
        return len(failing)

    return int(_change_leases(session, name, change))


def remove(session: Session, name: str) -> None:
    """See `DurableConsumer.remove`.

    Raises:
        UsageError: There is no such consumer.
    """
    _change_leases(session, name, lambda transaction, _: remove_position(transaction, CONSUMER, name))


def _change_leases(
    session: Session, name: str, change: Callable[[WriteTransaction, list[Lease]], Any]
) -> Any:
    def one(transaction: WriteTransaction) -> Any:
        leases = read_leases(transaction.connection, name)
        if not leases:
            known = sorted({lease.name for lease in read_all_leases(transaction.connection)})
            raise UsageError(
                f"there is no consumer {format_value(name)}: the file has {', '.join(known) or 'none'}"
            )
        return change(transaction, leases)

    return session.transact(one, operation="consumer")


# ---------------------------------------------------------------------------------------------------------------
# Arguments


def position_of(session: Session, snapshot: Snapshot, since: int | str | None) -> int:
    """The seq of a seq or a token; the newest for None.

    Raises:
        HistoryLost, HistoryDiverged, InvalidOption.
    """
    if since is None:
        return snapshot.seq
    if isinstance(since, bool) or not isinstance(since, (int, str)) or (isinstance(since, int) and since < 0):
        raise InvalidOption(f"since is a seq from 0 on, or a token, not {format_value(since)}")
    return resolve_since(since, session.engine, snapshot)


def _check_same(leases: list[Lease], selection: str, partitions: int | None) -> None:
    name = leases[0].name
    if leases[0].selection != selection:
        raise UsageError(
            f"consumer `{name}` was created with another selection, to which its position belongs: pass that selection, or "
            "another name, or reset=True to begin again with this one"
        )
    if partitions is not None and partitions != leases[0].partitions:
        raise UsageError(
            f"consumer `{name}` has {leases[0].partitions} partitions, not {partitions}: another number needs reset=True, "
            "and since= if it is not to begin with now"
        )


def _query_of(session: Session, selection: object) -> Query:
    if selection is None:
        return Query(ALL_TABLES)
    if not isinstance(selection, Selection):
        raise InvalidOption(
            "selection is a table or a part of one, such as db.table('orders').filter(...), or None for every table, "
            f"not {format_value(selection)}"
        )
    if session_of(selection).engine is not session.engine:
        raise InvalidOption("selection is of another database than the consumer")
    with session.read() as snapshot:
        compile_row_wise(query_of(selection), snapshot)
    return query_of(selection)


def check_lease_s(lease_s: object) -> int:
    """The milliseconds of a lease. Raises: InvalidOption."""
    _check_number("lease_s", lease_s, LEAST_LEASE_S, MOST_LEASE_S)
    return int(lease_s * 1000)  # type: ignore[operator]


def _check_number(name: str, value: object, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise InvalidOption(
            f"{name} is a number of seconds from {least:g} to {most:g}, not {format_value(value)}"
        )


def _check_count(name: str, value: object, most: int, other: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidOption(f"{name} is a whole number from 1 to {most:,}{other}, not {format_value(value)}")


def digest(query: Query) -> str:
    """A digest of a selection: equal for selections that are written alike. A Python function counts by its name."""
    from hashlib import blake2s

    return blake2s(codec.encode_value(_to_plain(query)), digest_size=16).hexdigest()


def _to_plain(value: Any) -> Any:
    """A query, or a field of a step of it, as data."""
    if isinstance(value, Query):
        steps = [
            [type(step).__name__, *(_to_plain(getattr(step, name)) for name in step.meaning)]
            for step in value.steps
        ]
        return [value.table, steps]
    if isinstance(value, Step):
        return _to_plain(Query("", (value,)))
    if isinstance(value, (Expression, OrderKey)):
        return value.key
    if isinstance(value, Predicate) and value.expression is not None:
        return [value.expression.key, value.default if isinstance(value.default, bool) else value.default.key]
    if isinstance(value, Predicate):
        value = value.function
    if isinstance(value, (tuple, list)):
        return [_to_plain(one) for one in value]
    if callable(value):
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return f"{getattr(value, '__module__', '')}.{name}"
    return value
