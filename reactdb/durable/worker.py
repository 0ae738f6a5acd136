"""Worker: one worker of a durable consumer, and its batches of changes.

    poll     finish the last batch; check the leases (take, renew, give up); read on, by `partitions`
    wait     for a commit, or for the time to check the leases or to try again: in a thread, or in a coroutine

The position is in the file and nowhere else: each batch begins where the file says, and an acknowledgement is refused where
the file has moved on. So there is nothing here that a crash, a rollback or another worker could make wrong.

A failed batch comes again after a while, half as long, until the failing change is alone; the file counts the
attempts at that change, and it is set aside after `max_attempts`. Trouble with the file itself is no fault of a
change, and is not counted.

Rule of this file: `poll` never waits. Time comes from the clock that the worker was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reactdb import holders
from reactdb.change import Change
from reactdb.clock import SYSTEM, Clock, PendingCall, is_frozen
from reactdb.durable.dead_letters import event_of_log, store_dead_letters
from reactdb.durable.partitions import Backlog, PartitionReader
from reactdb.errors import (
    DatabaseBusy,
    DatabaseClosed,
    FeedError,
    HistoryLost,
    LeaseLost,
    ReactDBError,
    StorageError,
    UsageError,
)
from reactdb.feeds.events import Event
from reactdb.feeds.feed import AsyncCursor, Cursor, Feed
from reactdb.logs import logger
from reactdb.query import ALL_TABLES, Query
from reactdb.store.leases import (
    LOOKS,
    Lease,
    check_still_held,
    next_leases,
    read_lease,
    read_leases,
    write_lease,
)
from reactdb.store.transaction import WriteTransaction

if TYPE_CHECKING:
    from reactdb.session import Session

# Unselected changes that a consumer passes before it notes its position in the file, where it writes for no other
# reason. Then the history before can be removed.
PASSED_CHANGES = 10_000
# Characters of an error that are kept with a change.
MOST_ERROR = 2_000

# The states of a batch, and the moves between them.
OPEN, ACKNOWLEDGED, FAILED, LEFT = "open", "acknowledged", "failed", "left"
MOVES: Final = {
    # The acknowledging transaction may be rolled back, also by an exception that leaves the batch.
    OPEN: (ACKNOWLEDGED, FAILED, LEFT),
    ACKNOWLEDGED: (FAILED,),
    FAILED: (),
    # By Ctrl-C, or because another worker has the lease: it is no fault of the batch.
    LEFT: (),
}


class ConsumerClock:
    """The time of a consumer: of its scheduler, if there is one, otherwise of its database's clock. Monotonic for this worker's
    own waits, wall time for others to read."""

    def __init__(self, scheduler: Any = None, clock: Clock = SYSTEM) -> None:
        self._scheduler = scheduler
        self._clock = clock
        # Seconds from some moment on; they never go back.
        self.now_s: Callable[[], float] = clock.monotonic if scheduler is None else self._scheduled_s

    @property
    def is_virtual(self) -> bool:
        """Whether the database's clock is not the system's."""
        return self._clock is not SYSTEM

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        if self._scheduler is None:
            return self._clock.time_ns() // 1_000_000
        return int(self._scheduled_s() * 1000)

    def call_later(self, delay_s: float, callback: Callable[[], Any]) -> PendingCall:
        """Call back once, when so many seconds of the database's clock have passed."""
        return self._clock.call_at(self._clock.monotonic() + delay_s, callback)

    def _scheduled_s(self) -> float:
        return float(self._scheduler.to_seconds(self._scheduler.now))


class Settings(NamedTuple):
    """The common settings of all workers of one consumer: see `Database.consumer`."""

    session: Session
    name: str
    query: Query
    selection: str
    lease_ms: int
    max_attempts: int | None
    backoff_s: float
    most_backoff_s: float
    clock: ConsumerClock


# ---------------------------------------------------------------------------------------------------------------
# Changes for the program


class Batch:
    """Some changes of one partition, in the order of the log. Iterate it; leave its `with` block, or `acknowledge`
    it.

    Attributes:
        changes: Events as of a feed, `old_val`, `new_val`, `type` ("add", "change" or "remove") and `seq`; then `table`, `key`,
            the primary key, and `id`, which is the same whenever the change is given, and no other change's in any file.
        partition: The partition of the changes.
        attempt: 1 where its first change was not given alone before, and failed.
        until: The position once it is acknowledged.
        state: One of MOVES, and `error`, the reason of a failure.
        is_committed: It was acknowledged, and not in a transaction that may be rolled back.

    Thread safety: one thread at a time.
    """

    __slots__ = (
        "_lease",
        "_renew_at_s",
        "_settings",
        "attempt",
        "changes",
        "error",
        "is_committed",
        "partition",
        "state",
        "until",
    )

    def __init__(self, settings: Settings, lease: Lease, changes: list[Event], until: int) -> None:
        self._settings = settings
        self._hold(lease)
        self.changes = changes
        self.partition = lease.partition
        self.attempt = lease.attempts + 1 if lease.failing == changes[0]["seq"] else 1
        self.until = until
        self.state = OPEN
        self.error: Exception | None = None
        # For certain: an acknowledgement in a transaction may be rolled back with it.
        self.is_committed = False

    @property
    def fence(self) -> int:
        """The fencing number of the worker: an outside system can refuse numbers lower than the highest it has
        seen."""
        return self._lease.fence

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[Event]:
        """The changes. A worker that iterates is alive: the lease is renewed when half of it has passed."""
        settings, now_s = self._settings, self._settings.clock.now_s
        for change in self.changes:
            # Inside a transaction no other worker can take it.
            if (
                now_s() >= self._renew_at_s
                and self.state == OPEN
                and not settings.session.engine.has_transaction_here()
            ):
                self.renew()
            yield change

    def __repr__(self) -> str:
        name, last = self._settings.name, self.changes[-1]["seq"]
        return f"<Batch of {name!r}: {len(self)} changes up to seq {last}, {self.state}>"

    def acknowledge(self) -> None:
        """Move the consumer's position past this batch: in this thread's transaction, or as a commit of its own.

        Raises:
            LeaseLost: Another worker has taken over, or the position was moved. Nothing was moved.
            UsageError: The batch was acknowledged, or has failed, before.
        """
        settings = self._settings
        self._check_open()

        def move(transaction: WriteTransaction) -> None:
            lease = check_still_held(transaction, self._lease)
            write_lease(transaction, lease.advance(self.until).extend(settings.clock.wall_ms()))

        is_outside = settings.session.engine.current_transaction() is None
        try:
            settings.session.transact(move, operation="acknowledge")
        except LeaseLost:
            self._become(LEFT)
            raise
        self._become(ACKNOWLEDGED)
        self.is_committed = is_outside

    def renew(self) -> None:
        """Extend the lease, where one batch takes longer than the lease.

        Raises:
            LeaseLost: Another worker has taken over.
        """
        settings = self._settings
        self._check_open()

        def renew(transaction: WriteTransaction) -> Lease:
            lease = check_still_held(transaction, self._lease).extend(settings.clock.wall_ms())
            write_lease(transaction, lease)
            return lease

        try:
            self._hold(settings.session.transact(renew, durability="soft", operation="renew a lease"))
        except LeaseLost:
            self._become(LEFT)
            raise

    def _hold(self, lease: Lease) -> None:
        clock = self._settings.clock
        self._lease = lease
        # At most the whole of it: the clock may have been set back since.
        left_ms = min(lease.until_ms - clock.wall_ms(), lease.lease_ms) - lease.lease_ms // 2
        self._renew_at_s = clock.now_s() + left_ms / 1_000

    def _check_open(self) -> None:
        if self.state != OPEN:
            raise UsageError(
                f"this batch was {self.state} before: it is acknowledged once, or left by an exception"
            )

    def _become(self, state: str) -> None:
        assert state in MOVES[self.state], (self.state, state)
        self.state = state

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Without an exception: acknowledge. With one: the batch has failed, and comes again. The exception ends
        here, so that the loop around continues; but not inside a transaction, because the exception has to roll it
        back. Trouble with the file during the acknowledgement is raised, too."""
        is_outside = self._settings.session.engine.current_transaction() is None
        if error is None:
            if self.state == OPEN:
                try:
                    self.acknowledge()
                except StorageError as trouble:
                    self._fail(trouble, is_outside)
                    if not is_outside:
                        raise
            return False
        if self.state in (FAILED, LEFT):
            return False
        if self.is_committed or (self.state == ACKNOWLEDGED and is_outside and self._is_done()):
            return False
        if not isinstance(error, Exception) or isinstance(error, LeaseLost):
            if self.state == OPEN:
                self._become(LEFT)
            return False
        self._fail(error, is_outside)
        return is_outside

    def _fail(self, error: Exception, is_outside: bool) -> None:
        self._become(FAILED)
        self.error = error
        if is_outside:
            logger.warning("consumer %r: %r failed: %s", self._settings.name, self, _format_error(error))

    def _is_done(self) -> bool:
        """Whether the transaction that acknowledged it was committed."""
        with self._settings.session.read() as snapshot:
            lease = read_lease(snapshot.connection, self._settings.name, self.partition)
        return lease is not None and lease.seq >= self.until


def _format_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")[:MOST_ERROR]


class Held:
    """A worker's cache for a partition that it has. All of it can be rebuilt.

    Attributes:
        lease: As it was read last.
        part: The changes that were read of it.
        full_by: Until when a partial batch waits for more; None while it would be empty.
        size: The most changes in a batch, where it failed; None elsewhere.
        failures: How often batches have failed since the position was moved.
        retry_at_s: When the next may be given, after a failure.
    """

    __slots__ = ("failures", "full_by", "lease", "part", "retry_at_s", "size")

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.part = Backlog(lease.partition, lease.seq)
        self.full_by: float | None = None
        self.size: int | None = 1 if lease.attempts else None
        self.failures = 0
        self.retry_at_s = 0.0

    def update_lease(self, lease: Lease) -> None:
        self.lease = lease
        self.part.move(lease.seq)

    def record_success(self, most: int) -> None:
        """A batch was acknowledged: the next may be twice as long."""
        self.failures = 0
        if self.size is not None:
            self.size = self.size * 2 if self.size * 2 < most else None

    def record_failure(self, now_s: float, backoff_s: float, most_s: float) -> None:
        """The next comes after a while, which doubles each time."""
        self.retry_at_s = now_s + min(most_s, backoff_s * 2 ** min(self.failures, 60))
        self.failures += 1
        self.full_by = None


async def wait_for_bell(bell: AsyncCursor, wait_s: float, clock: ConsumerClock) -> None:
    """Wait for a commit, at most so many seconds of the clock, and not of the event loop's.

    Raises:
        TimeoutError: There was none. Also every error of the feed.
    """
    from asyncio import Event, create_task, get_running_loop, wait

    loop = get_running_loop()
    is_due = Event()
    # By the loop, because another thread may advance the clock.
    call = clock.call_later(wait_s, lambda: loop.call_soon_threadsafe(is_due.set))
    tasks = create_task(bell.__anext__()), create_task(is_due.wait())
    try:
        await wait(tasks, return_when="FIRST_COMPLETED")
        if not tasks[0].done():
            raise TimeoutError
        await tasks[0]
    finally:
        call.dispose()
        for task in tasks:
            task.cancel()
        # As in `Batches.__next__`.
        del bell, tasks


# ---------------------------------------------------------------------------------------------------------------
# The worker


class Batches:
    """The result of `consumer.batches()`: an iterator of batches, for threads and coroutines, that waits where there
    is none.

        with consumer.batches() as batches:
            for batch in batches: ...

    It is one worker: it has the lease of each partition that it works for. Closing it, by `close` or `with`, gives
    the leases up at once; an unreferenced worker gives them up to other workers of this process at once, and to other
    processes when their time is over.

    Thread safety: one thread at a time; any thread may call `close`.
    """

    def __init__(self, settings: Settings, max_changes: int, max_wait_s: float) -> None:
        self._settings = settings
        self._session = settings.session
        self._clock = settings.clock
        self._max_changes = max_changes
        self._max_wait_s = max_wait_s
        self._held: dict[int, Held] = {}
        self._out: Batch | None = None
        # When each lease was first seen as it is: its fencing number and time, and our own time then.
        self._seen: dict[int, tuple[int, int, float]] = {}
        self._turn = 0
        self._due_s = 0.0
        # The feed that wakes this worker at commits, opened by the waiting thread or coroutine.
        self._bell: Cursor | AsyncCursor | None = None
        self._reader = PartitionReader(settings.session, settings.query)
        self.is_closed = False
        self.name = holders.name_holder(self)

    @property
    def is_alive(self) -> bool:
        """Not closed, nor is the database."""
        return not self.is_closed and not self._session.is_closed

    @property
    def partitions(self) -> list[int]:
        """The partitions of this worker, as of its last check."""
        return sorted(self._held)

    def close(self) -> None:
        """Give up the leases and end the iteration, also of a thread that waits. A batch in progress cannot be
        acknowledged any more."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._bell is not None:
            self._bell.close()
        if not self._session.is_closed:
            # Where they cannot be written now, the leases end by their time. Not only the known leases: another
            # thread may just be taking some.
            with suppress(ReactDBError):
                self._session.transact(self._give_up, durability="soft", operation="give up a lease")
        self._held = {}

    def _give_up(self, transaction: WriteTransaction) -> None:
        for lease in read_leases(transaction.connection, self._settings.name):
            if lease.holder == self.name:
                write_lease(transaction, lease.release(self._clock.wall_ms()))

    def __enter__(self) -> Batches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -----------------------------------------------------------------------------------------------------------
    # Waiting

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Batch:
        """The next batch; waits for it.

        Raises:
            StopIteration: This, or the database, was closed. Also all errors of `poll`.
        """
        bell: Cursor | None = None
        try:
            while not self.is_closed:
                try:
                    # Before the log is read: a commit after that rings.
                    bell = self._bell = (
                        self._bell if isinstance(self._bell, Cursor) else self._feed().cursor()
                    )
                    if self.is_closed:
                        # Another thread has closed this object, perhaps before this bell existed.
                        bell.close()
                        break
                    batch = self.poll()
                except DatabaseClosed:
                    # Another thread has closed the database, just before the bell would have rung.
                    break
                if batch is not None:
                    return batch
                try:
                    bell.next(self.wait_s)
                except TimeoutError:
                    pass
                except FeedError:
                    # Its place in the log, which is not the consumer's, was compacted away, or its table dropped: see in the
                    # file.
                    self._bell = None
            raise StopIteration
        except BaseException:
            # As in `AsyncCursor`: a loop that was left must not keep its leases for as long as its error is kept.
            del self, bell
            raise

    def __aiter__(self) -> Batches:
        return self

    async def __anext__(self) -> Batch:
        """As `__next__`, for a coroutine."""
        from asyncio import sleep, wait_for

        bell: AsyncCursor | None = None
        try:
            # Others have their turn between two batches.
            await sleep(0)
            while not self.is_closed:
                try:
                    bell = self._bell = (
                        self._bell if isinstance(self._bell, AsyncCursor) else self._feed().__aiter__()
                    )
                    if self.is_closed:
                        bell.close()
                        break
                    batch = self.poll()
                except DatabaseClosed:
                    break
                if batch is not None:
                    return batch
                try:
                    if self._clock.is_virtual or is_frozen():
                        await wait_for_bell(bell, self.wait_s, self._clock)
                    else:
                        await wait_for(bell.__anext__(), self.wait_s)
                except TimeoutError:
                    pass
                except FeedError:
                    self._bell = None
            raise StopAsyncIteration
        except BaseException:
            del self, bell
            raise

    def _feed(self) -> Feed:
        """The feed of commits that concern the selection. It keeps one event and no more: the changes themselves are
        read from the log."""
        options: dict[str, Any] = {"changefeed_queue_size": 1}
        if self._settings.query.table == ALL_TABLES:
            # One event where a table is dropped, and not one for each document.
            options["include_catalogue"] = True
        return self._session.watch(self._settings.query, options, "durable consumer")

    @property
    def wait_s(self) -> float:
        """Seconds after which there may be something to do without any commit: a lease to look at, a batch to give again."""
        return max(0.0, self._due_s - self._clock.now_s())

    def _due_in(self, seconds: float) -> None:
        self._due_s = min(self._due_s, self._clock.now_s() + seconds)

    # -----------------------------------------------------------------------------------------------------------
    # The next batch

    def poll(self) -> Batch | None:
        """The next batch, without waiting. None: there is none now. Call again after a commit, or after `wait_s`.

        Raises:
            UsageError: The batch before was neither acknowledged nor left; this thread is in a transaction; or the
                consumer was removed, or created again with another selection.
            HistoryLost: Changes that it needs were removed.
        """
        session = self._session
        session.check_open()
        if self.is_closed:
            return None
        if session.engine.current_transaction() is not None:
            raise UsageError(
                "the next batch cannot be read inside a transaction: iterate outside, and begin a transaction for each batch"
            )
        if self._out is not None and self._out.state == OPEN:
            raise UsageError(
                "the batch before this one was neither acknowledged nor left: use `with batch:`, or call batch.acknowledge()"
            )
        self._due_s = self._clock.now_s() + self._settings.lease_ms / 2_000
        # In this order: a failure is counted before the lease may be given up.
        self._finish_batch()
        self._renew_leases()
        # One partition after the other, beginning with the one after the last turn's.
        held = self._held
        order = sorted(held)
        order = [one for one in order if one > self._turn] + [one for one in order if one <= self._turn]
        self._reader.end = None
        for partition in order:
            batch = self._next_of(held[partition])
            if batch is not None:
                self._turn = partition
                self._out = batch
                return batch
        return None

    # Leases

    def _renew_leases(self) -> None:
        """Take, renew, give up: see `next_leases`."""
        settings = self._settings
        with self._session.read() as snapshot:
            leases = read_leases(snapshot.connection, settings.name)
        changed = self._next_leases(leases)
        if changed:
            # The first commit of a process begins an epoch, which tokens name from then on: it must outlive a power cut. Renewals
            # need not, so they wait for no disk.
            is_taken = any(lease.partition not in self._held for lease in changed)
            durability = "hard" if is_taken else "soft"
            try:
                leases = self._session.transact(
                    self._change_leases, durability=durability, operation="take a lease"
                )
            except DatabaseBusy:
                # Another writer takes long. This worker keeps its leases until another one takes them.
                logger.debug("the leases of %r cannot be written now", settings.name, exc_info=True)
        if not leases or leases[0].selection != settings.selection:
            raise UsageError(
                f"consumer `{settings.name}` was {'made anew with another selection' if leases else 'removed'} meanwhile"
            )
        held = {}
        for lease in leases:
            if lease.holder == self.name:
                progress = self._held.get(lease.partition)
                if progress is None or progress.lease.fence != lease.fence:
                    progress = Held(lease)
                progress.update_lease(lease)
                held[lease.partition] = progress
        self._held = held
        if len(held) < len(leases):
            self._due_in(settings.lease_ms / 1_000 / LOOKS)

    def _change_leases(self, transaction: WriteTransaction) -> list[Lease]:
        leases = read_leases(transaction.connection, self._settings.name)
        if self.is_closed:
            # Closed by another thread. A lease taken now would have no worker.
            return leases
        changed = {lease.partition: lease for lease in self._next_leases(leases)}
        for lease in changed.values():
            write_lease(transaction, lease)
        return [changed.get(lease.partition, lease) for lease in leases]

    def _next_leases(self, leases: Sequence[Lease]) -> list[Lease]:
        settings = self._settings
        now_ms = self._clock.wall_ms()
        changed = {
            lease.partition: lease
            for lease in next_leases(leases, self.name, now_ms, settings.lease_ms, self._is_silent)
        }
        for lease in leases:
            # A position past unselected changes is noted together with another write, or when they are many.
            progress = self._held.get(lease.partition)
            if progress is None or (lease.holder, lease.fence) != (self.name, progress.lease.fence):
                continue
            after = changed.get(lease.partition)
            passed = progress.part.passed
            is_much = passed - lease.seq >= PASSED_CHANGES
            if passed > lease.seq and (after is not None or is_much):
                changed[lease.partition] = (after or lease.extend(now_ms)).copy_with(seq=passed)
        return list(changed.values())

    def _is_silent(self, lease: Lease) -> bool:
        """Whether the holder of a lease has ended, or has been silent for the time of a lease: by the lease's own
        time, or, in case the wall clock was set back, since this worker first saw the lease in this state."""
        now_s = self._clock.now_s()
        fence, until_ms, since_s = self._seen.get(lease.partition, (-1, 0, 0.0))
        if (fence, until_ms) != (lease.fence, lease.until_ms):
            since_s = now_s
            self._seen[lease.partition] = (lease.fence, lease.until_ms, now_s)
        return (
            self._clock.wall_ms() >= lease.until_ms
            or 1_000 * (now_s - since_s) >= lease.lease_ms
            or (lease.holder is not None and holders.is_gone(lease.holder))
        )

    # The result of the last batch

    def _finish_batch(self) -> None:
        batch, self._out = self._out, None
        if batch is None or batch.state == LEFT:
            return
        progress = self._held.get(batch.partition)
        if progress is None:
            # Another thread has just closed this worker.
            return
        if batch.is_committed:
            progress.update_lease(progress.lease.advance(batch.until))
            progress.record_success(self._max_changes)
            return
        with self._session.read() as snapshot:
            lease = read_lease(snapshot.connection, self._settings.name, batch.partition)
        if lease is None or (lease.fence, lease.holder) != (batch.fence, self.name):
            return
        progress.update_lease(lease)
        if batch.state == ACKNOWLEDGED:
            if progress.lease.seq >= batch.until:
                progress.record_success(self._max_changes)
                return
            batch.error = UsageError("the transaction that acknowledged it was taken back")
        settings = self._settings
        progress.record_failure(self._clock.now_s(), settings.backoff_s, settings.most_backoff_s)
        if isinstance(batch.error, StorageError):
            return
        if batch.changes[0]["seq"] != batch.changes[-1]["seq"]:
            progress.size = len(batch) // 2
            return
        assert batch.error is not None
        self._count_failure(progress, batch, _format_error(batch.error))

    def _count_failure(self, progress: Held, batch: Batch, error: str) -> None:
        """A change has failed alone: count that in the file, and set the change aside after the last attempt."""
        settings = self._settings
        # Several only for a dropped or renamed table: its documents share a seq.
        seq = batch.changes[0]["seq"]
        is_last = settings.max_attempts is not None and batch.attempt >= settings.max_attempts

        def note(transaction: WriteTransaction) -> Lease:
            lease = check_still_held(transaction, progress.lease)
            if not is_last:
                after = lease.copy_with(attempts=batch.attempt, failing=seq, error=error)
                write_lease(transaction, after)
                return after
            return store_dead_letters(
                self._session, transaction, lease, batch.changes, batch.until, error, batch.attempt
            )

        try:
            progress.update_lease(
                self._session.transact(
                    note, durability=None if is_last else "soft", operation="note a failure"
                )
            )
        except (DatabaseBusy, LeaseLost):
            # The lease's new worker counts for itself. Where another writer takes long, the change gets one attempt
            # more.
            return
        if is_last:
            progress.failures = 0
            progress.retry_at_s = 0.0

    # Reading

    def _next_of(self, progress: Held) -> Batch | None:
        """The next batch of a partition; None where there is none now."""
        now_s, part = self._clock.now_s(), progress.part
        if now_s < progress.retry_at_s:
            self._due_in(progress.retry_at_s - now_s)
            return None
        most = min(progress.size or self._max_changes, self._max_changes)
        if progress.full_by is not None and now_s < progress.full_by:
            with self._session.read() as snapshot:
                if len(part.waiting) + snapshot.seq - part.read_to < most:
                    self._due_in(progress.full_by - now_s)
                    return None
        is_all = self._fill(progress, most)
        if not part.waiting:
            progress.full_by = None
            return None
        if is_all and len(part.waiting) < most and progress.size is None and self._max_wait_s:
            if progress.full_by is None:
                progress.full_by = now_s + self._max_wait_s
            if now_s < progress.full_by:
                self._due_in(progress.full_by - now_s)
                return None
        progress.full_by = None
        deltas, until = part.next(most)
        return Batch(self._settings, progress.lease, self._reader.events(deltas), until)

    def _fill(self, progress: Held, most: int) -> bool:
        """Read on for a partition. Returns: whether it has everything committed by now."""
        parts = [held.part for held in self._held.values()]
        while True:
            try:
                is_all = self._reader.fill(progress.part, most, parts, progress.lease.partitions)
            except HistoryLost as error:
                if self._has_leases():
                    raise self._history_lost(error) from None
                # Another worker has taken over since the leases were read, and history that it no longer needs could
                # be removed.
                self._due_in(0)
                return False
            failure = progress.part.failure
            if failure is None or progress.part.waiting:
                return is_all
            if not self._skip_change(progress, *failure):
                return is_all

    def _has_leases(self) -> bool:
        """Whether the file still has every lease that this worker remembers."""
        with self._session.read() as snapshot:
            leases = read_leases(snapshot.connection, self._settings.name)
        fences = {lease.partition: lease.fence for lease in leases if lease.holder == self.name}
        return all(fences.get(partition) == held.lease.fence for partition, held in self._held.items())

    def _skip_change(self, progress: Held, change: Change, error: Exception) -> bool:
        """The selection cannot be worked out for a change, and never will be: set it aside at once, with its documents as they
        are. False: another worker has the lease."""
        if isinstance(error, (MemoryError, StorageError)):
            raise error
        event = event_of_log(change)

        def note(transaction: WriteTransaction) -> Lease:
            lease = check_still_held(transaction, progress.lease)
            return store_dead_letters(
                self._session, transaction, lease, [event], change.seq, _format_error(error), 1
            )

        try:
            progress.update_lease(self._session.transact(note, operation="set a change aside"))
        except LeaseLost:
            return False
        return True

    def _history_lost(self, error: HistoryLost) -> HistoryLost:
        name = self._settings.name
        return HistoryLost(
            error.since,
            error.oldest,
            f"consumer `{name}` was behind for too long: ",
            f"; read the present documents, then call reset() to continue from now, or reset(since={error.oldest - 1}) "
            "to continue with the rest of the log",
        )
