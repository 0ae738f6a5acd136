"""Writer: the write connection of an engine. This file has the whole path of a write, from top to bottom:

    write, transaction      wait in the write queue (see `write_queue`), and then, at its head:
    _begin                  BEGIN IMMEDIATE; is the writer's state of the file still true? If not, reload it
    the caller's work       puts entries into the transaction's write buffer (see `transaction`)
    check_unique            each value of a unique index belongs to one document (see `unique`)
    write_group             the small writes of threads behind it, in the same transaction (group commit)
    _commit                 COMMIT; is it still the opened file?
    publish                 the feeds take the commit in, still before the next write, so that they get commits in log order
    _end_turn               the next in the queue
    drain                   the feeds deliver: only here does user code run, without a lock, except a callable argument of a write
                            (`update(callable)`) and predicates of feeds

Ctrl-C may strike at any line. The next writer repairs the rest: it rolls back a transaction that is still open, and
reloads the state (`_known_version` is None from before COMMIT until everything is noted).

Thread safety: the public methods from any thread; the others only by the thread at the head of the write queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Literal, NamedTuple, Protocol, TypeVar

from reactdb.errors import (
    CorruptDatabase,
    DamagedAtCommit,
    DatabaseBusy,
    MovedAtCommit,
    OutcomeUnknown,
    ReactDBError,
    StorageMoved,
    TransactionEnded,
    TransactionOwned,
    UsageError,
)
from reactdb.logs import logger
from reactdb.store import schema
from reactdb.store.blocks import Block, Participant
from reactdb.store.catalogue import Catalogue, load
from reactdb.store.checkpoints import Checkpoints
from reactdb.store.clock import LogClock
from reactdb.store.epochs import Epoch, Epochs, has_epoch, start_epoch
from reactdb.store.file import external_writers, identity, sqlite
from reactdb.store.file.flush import Flushes
from reactdb.store.file.guard import describe_lost_log
from reactdb.store.file.sqlite import Connection, LockWait, SQLiteError
from reactdb.store.flows import ControlFlow
from reactdb.store.open_file import OpenFile
from reactdb.store.publisher import Publisher
from reactdb.store.retention import Compaction
from reactdb.store.snapshot import Snapshot, read_head_seq
from reactdb.store.transaction import Savepoint, WriterMemory, WriteTransaction
from reactdb.store.write_queue import Waiter, WriteQueue, write_group

Durability = Literal["hard", "soft"]
T = TypeVar("T")

Inside = tuple[int, WriteTransaction, threading.Lock, Block | ControlFlow | None]
"""The flow in a transaction: the thread, the transaction, the lock of its waiter, and the owner, a block or a single
write of a flow. The owner is None while no user code runs, because then no other flow can run. A plain tuple, because
every write makes one."""


class WritableFile(OpenFile, Protocol):
    """The engine, as far as only its writer needs it."""

    write_queue: WriteQueue
    publisher: Publisher
    epochs: Epochs

    @property
    def twin(self) -> WritableFile | None: ...


class OwnCommit(NamedTuple):
    """A commit of this process, with the fields that its `Change` values share.

    Attributes:
        seq: Of its last change.
        commit: The seq of its first change.
        time: Milliseconds since 1970.
    """

    seq: int
    commit: int
    time: int


class Writer:
    """See the head of this file.

    Attributes:
        engine: The engine of this writer.
        connection: The write connection.
        cursor: A cursor of the connection, for statements without rows.
        queue: Which thread is next.
        inside: The flow inside a transaction. None without a transaction, so that other flows need no check.
        last_seq: The newest seq in the file. This field and the following ones are the writer's state of the file
            (see `_reload`).
        last_time: The time of the newest change, in milliseconds.
        catalogue: Tables and indexes, always as of the connection's state.
        memory: The cache that transactions share.
        has_own_epoch: This process has begun an epoch.
        epoch: This process's epoch; None before the first commit, and in memory.
        log_named: The salts of the write-ahead log with the database's id in it (see `file.wal_check`); None where no
            such log is known.
        is_abandoned: It is the parent's, and this is a child of fork().
        guard: Notices that the file was moved; None in memory.
        flushes: The state of flushes of the write-ahead log to the disk.
        lock_wait: How long statements wait for another process's lock.
        clock: The time that entries get, where the machine's clock is behind the log.
        damage: Stops every write after a write has met damage.
        checkpoints: How the write-ahead log is emptied.
        compaction: How history is removed.
    """

    def __init__(self, engine: WritableFile, connection: Connection) -> None:
        self.engine = engine
        self.connection = connection
        self.queue = engine.write_queue
        self.path = engine.path
        self.busy_timeout_s = engine.busy_timeout_s
        self.guard = engine.guard
        self.inside: Inside | None = None
        # The value of `inside` outside any transaction. Not None while a flow has yet to learn that its transaction
        # has ended.
        self._outside: Inside | None = None
        self._stranded: list[Participant] = []
        self.last_seq = read_head_seq(connection)
        self.last_time = 0
        # The value of `own_commit`. A plain tuple, because every commit makes a new one.
        self._own_commit: tuple[int, int, int] | None = None
        self.catalogue = engine.catalogue
        self.memory = WriterMemory()
        # The transaction of the last single write, if it was committed: the next begins in it. (A block keeps its transaction.)
        self._idle: WriteTransaction | None = None
        self.has_own_epoch = False
        self.epoch: Epoch | None = None
        self.log_named: bytes | None = None
        # The log that the open transaction will name once it is committed.
        self._naming: bytes | None = None
        # `PRAGMA data_version` of the state that the writer knows. None: it has to be reloaded.
        self._known_version: int | None = None
        self._is_synchronous: bool | None = None
        self.is_abandoned = False
        self._is_closing = False
        self.flushes = Flushes(engine.path, self.guard)
        self.cursor = connection.keep_cursor()
        self.lock_wait = LockWait(self.cursor, is_in_pieces=not engine.is_memory, set_s=engine.busy_timeout_s)
        self.clock = LogClock(engine.path)
        self.damage = DamageLatch(self._is_whole, engine.publisher.note)
        self.checkpoints = Checkpoints(self)
        self.compaction = Compaction(self, self.checkpoints)

    @property
    def own_commit(self) -> OwnCommit | None:
        """The newest commit of this process that has changes; None before the first."""
        own = self._own_commit
        return None if own is None else OwnCommit(*own)

    # -----------------------------------------------------------------------------------------------------------
    # The way of a write

    def write(
        self,
        work: Callable[[WriteTransaction], T],
        *,
        durability: Durability,
        busy_timeout_s: float | None = None,
        origin: str | None = None,
        is_shareable: bool = False,
        collect: bool = False,
        operation: str = "write",
        block: Block | None = None,
    ) -> T:
        """Execute one write: in this flow's transaction, or as a commit of its own.

        Args:
            work: Called with the transaction; again, where a commit that it had joined was interrupted.
            busy_timeout_s: For waiting for other threads and processes together; None: the engine's.
            is_shareable: `work` runs no code of the user's, so that another thread may carry it out in its own commit.
            collect: Collect the changes in `WriteTransaction.changes`, also where there are no feeds.
            operation: The operation's name for the user; error messages begin with it.
            block: The block whose object was used; None where no block was.

        Raises:
            TransactionOwned, TransactionEnded: See `join`. Also every error of `work`, after its changes were rolled
            back.
            DatabaseBusy, DiskFull, StorageError: From the file; nothing was written.
            OutcomeUnknown: An error in COMMIT itself.
        """
        if self.inside is not None or block is not None:
            outer, flow = self.join(operation, block)
            if outer is not None:
                with Savepoint(outer, self, operation, flow):
                    return work(outer)
        publisher = self.engine.publisher
        if self.engine.unusable is not None or publisher.routing_thread is not None:
            self.check_writable()
        if busy_timeout_s is None:
            busy_timeout_s = self.busy_timeout_s
        # A shared commit has one origin.
        waiter = Waiter(work if is_shareable and origin is None else None, operation)
        with waiter.held:
            try:
                if self.queue.acquire(waiter, busy_timeout_s):
                    left_s = busy_timeout_s - waiter.waited_s
                    flow = None if is_shareable else ControlFlow()
                    result = self._write_in_turn(
                        work, waiter, left_s, durability == "hard", origin, collect, flow
                    )
                elif waiter.error is not None:
                    raise waiter.error
                else:
                    result = waiter.result
            except BaseException as error:
                self._fail_turn(waiter, error)
                raise
            finally:
                self._end_turn(waiter)
        if publisher.listener is not None:
            publisher.drain(is_outside=True)
        if self.compaction.owed:
            self.compaction.pay()
        return result

    def check_writable(self) -> None:
        """Raises: DatabaseClosed and its like; UsageError within a feed's predicate."""
        engine = self.engine
        if engine.unusable is not None:
            raise engine.unusable()
        if engine.publisher.is_routing():
            raise UsageError("a predicate or mapping of a feed must not write: it runs inside a commit")

    def _write_in_turn(
        self,
        work: Callable[[WriteTransaction], T],
        waiter: Waiter,
        left_s: float,
        is_hard: bool,
        origin: str | None,
        collect: bool,
        flow: ControlFlow | None,
    ) -> T:
        group: list[Waiter] = []
        try:
            transaction = self._begin(left_s, is_hard, origin, collect, waiter.operation)
            self.inside = (get_ident(), transaction, waiter.held, flow)
            result = work(transaction)
            self.inside = self._outside
            if transaction.ruin is not None:
                # A function of the user caught the error of a write inside this one.
                raise transaction.ruin
            if transaction.count > transaction.flushed:
                transaction.flush()
            if transaction.claims is not None:
                transaction.check_unique()
            transactions = [transaction]
            # Sharing pays where a commit waits for the disk; elsewhere a commit costs less than the savepoints.
            if is_hard and waiter.work is not None and len(self.queue) > 1:
                group = self.queue.take_group()
                transactions += write_group(group, transaction, self)
        except BaseException as error:
            self.inside = self._outside
            self.queue.give_back(group)
            self.roll_back()
            if isinstance(error, SQLiteError):
                translated = self.engine.translate_error(error, waiter.operation)
                self.checkpoints.after_failure(translated)
                raise translated from error
            raise
        try:
            self._commit(transactions, waiter.operation)
            for other in group:
                other.is_done = True
        except BaseException as error:
            if isinstance(error, ReactDBError):
                for other in group:
                    other.error = other.error or error
            elif not self._is_committed(transaction):
                # Ctrl-C before COMMIT was done. After it, it concerns this thread alone.
                self.queue.give_back(group)
                self.roll_back()
                raise
            for other in group:
                other.is_done = True
            raise
        transaction.changes = None
        self._idle = transaction
        return result

    def _begin(
        self, left_s: float, is_hard: bool, origin: str | None, collect: bool, operation: str
    ) -> WriteTransaction:
        engine = self.engine
        if engine.unusable is not None:
            raise engine.unusable()
        if self.damage.found is not None:
            self.damage.check(operation)
        connection = self.connection
        execute = connection.execute
        try:
            if connection.in_transaction:
                # Ctrl-C struck during the end of the last transaction.
                self.roll_back()
            if self.checkpoints.is_over:
                self.checkpoints.check_limit(operation)
            if is_hard is not self._is_synchronous:
                self._is_synchronous = None
                execute(f"PRAGMA synchronous={'FULL' if is_hard else 'NORMAL'}")
                self._is_synchronous = is_hard
            # IMMEDIATE: a deferred transaction that reads before it writes can be refused half-way when another process has
            # written in between, and half-way is after user code has run.
            waited_s = self.lock_wait.begin_immediate(left_s)
            # In memory there is no other process.
            if self._known_version is None or not engine.is_memory:
                (version,) = execute("PRAGMA data_version").fetchone()
                if version != self._known_version:
                    if self._known_version is not None:
                        external_writers.wal_reset.note_other_writer(self.path)
                    self._reload(operation)
                    if engine.publisher.is_late(self.last_seq):
                        # Another process wrote a long transaction, and publishing it takes as long. So publish
                        # neither in this thread, perhaps an event loop's, nor while other writers wait.
                        self.roll_back()
                        waited_s += engine.publisher.wait_for_others(
                            self.last_seq, operation, left_s - waited_s
                        )
                        return self._begin(left_s - waited_s, is_hard, origin, collect, operation)
                    self._known_version = version
            if self.guard is not None:
                log, trouble = self.guard.look_before()
                if trouble:
                    raise engine.report_moved(trouble)
                if log is None or log != self.log_named:
                    schema.name_log(connection)
                self._naming = log
            if not self.has_own_epoch and not engine.is_memory:
                self.epoch = start_epoch(connection, self.last_seq)
            now = engine.clock.time_ns() // 1_000_000
            if now < self.last_time:
                # The clock went back; times in the log never do.
                now = self.clock.time_of_entry(connection, self.last_time, now)
        except BaseException as error:
            self.roll_back()
            if isinstance(error, SQLiteError):
                raise engine.translate_error(error, operation) from error
            raise
        transaction, self._idle = self._idle, None
        if transaction is None:
            transaction = WriteTransaction(self.cursor, self.memory)
        listener = engine.publisher.listener
        is_heard = collect or (listener is not None and len(listener.open_views) > 0)
        transaction.begin(self.catalogue, self.last_seq + 1, now, [] if is_heard else None, origin)
        return transaction

    def _reload(self, operation: str) -> None:
        """Read the writer's state again, because another process has written, or may have. Called inside a
        transaction without any writes.

        Raises:
            StorageMoved: It is the log of another history.
            CorruptDatabase: Neither a head nor a tombstone points to the newest entry of the log.
            StorageError: An earlier flush has failed, and its repair fails too.
        """
        connection = self.connection
        self.memory.forget()
        if self.flushes.is_doubtful and self.guard is not None:
            trouble = self.guard.examine()
            if trouble:
                # Whatever is at the path now, it is not ours to write to.
                raise self.engine.report_moved(trouble)
        self.flushes.make_sure(operation)
        # A write past a false end would use seqs that other entries have.
        Snapshot(connection, self.catalogue).check_end()
        head = read_head_seq(connection)
        own = self.epoch if self.has_own_epoch else None
        trouble = external_writers.describe_other_history(connection, head, self.last_seq, own)
        if trouble:
            raise self.engine.report_moved(f"{self.path}: {trouble}")
        # Compaction may have removed this process's epoch; then a new epoch begins.
        self.has_own_epoch = self.has_own_epoch and (own is None or has_epoch(connection, own.name))
        damage = external_writers.unfiled_end_error(connection)
        if damage is not None:
            raise self.damage.note_recurring(damage)
        self.last_seq = head
        row = connection.execute(
            "SELECT max(time) FROM (SELECT time FROM log ORDER BY seq DESC LIMIT 1)"
        ).fetchone()
        self.last_time = max(self.last_time, row[0] or 0)
        if int(schema.read_fact(connection, "catalogue")) != self.catalogue.version:
            self.adopt(load(connection))

    def _commit(self, transactions: Sequence[WriteTransaction], operation: str) -> None:
        """COMMIT, check the file, and publish. All errors are raised before anything is published."""
        if self.is_abandoned:
            # fork() inside a transaction: it is the parent's to commit.
            self.engine.check_usable()
        connection = self.connection
        first, last = transactions[0], transactions[-1]
        if not first.count and all(transaction.is_empty() for transaction in transactions):
            # Nothing to keep: a commit would wait for the disk. (An epoch that was begun is begun again next time.)
            if not self._is_synchronous or self.flushes.is_complete or self.guard is None:
                self.roll_back()
                return
            # But "unchanged" is a result, too: the state behind it, soft commits perhaps, must survive as if written
            # now.
            try:
                schema.touch(connection)
            except SQLiteError as error:
                self.roll_back()  # At once: until then no other process could write.
                raise self.engine.translate_error(error, operation) from error
        with self.engine.publisher.committing:
            version, self._known_version = self._known_version, None
            first.is_committing = True
            try:
                self.cursor.execute("COMMIT")
                first.is_committed = True
            except SQLiteError as error:
                first.is_committing = False
                raise self._commit_failed(error, operation) from error
            self.last_seq = last.first + last.count - 1
            self.last_time = first.time
            if self.log_named != self._naming or not self.has_own_epoch:
                self.note_commit()
            self.flushes.is_complete = self._is_synchronous is True
            for transaction in transactions:
                if transaction.count:
                    self._own_commit = self.last_seq, transaction.first, transaction.time
                if transaction.is_catalogue_changed:
                    self.adopt(transaction.catalogue)
            # In memory there is no file that could be another, and no log that grows.
            wal_bytes = 0 if self.guard is None else self.check_same_file()
            self._known_version = version
            try:
                self.engine.publisher.publish(transactions, self.last_seq)
            except Exception:
                # It is written, and must not look as if it were not. The feeds read it from the log with the next commit.
                logger.exception("telling of commit %d of %s failed", self.last_seq, self.path)
        twin = self.engine.twin
        if twin is not None:
            twin.publisher.look_soon()
        try:
            if wal_bytes:
                self.checkpoints.after_commit(wal_bytes)
            if self.last_seq >= self.compaction.look_at:
                self.compaction.after_commit(self.last_seq + 1 - first.first)
        except MemoryError:
            # The write is committed, and must not look like a failure. The skipped steps come with a later commit.
            logger.warning(
                "there was no memory for the upkeep of %s after a commit", self.path, exc_info=True
            )

    def _commit_failed(self, error: Exception, operation: str) -> ReactDBError:
        """COMMIT raised this error: take the transaction back. Returns: the error for the caller."""
        self.roll_back()
        translated = self.engine.translate_error(error, f"{operation}, at commit")
        if self.flushes.notice(error):
            # A power cut may bring this commit back after all. Its seqs must not be confused with the next ones.
            self.has_own_epoch = False
            kind = MovedAtCommit if isinstance(translated, StorageMoved) else OutcomeUnknown
            translated = kind(
                f"{operation}, at commit: {self.path}: {error}: the write may or may not be there; read to know"
            )
        self.checkpoints.after_failure(translated)
        return translated

    def _is_committed(self, transaction: WriteTransaction) -> bool:
        """Whether COMMIT was done, also where Ctrl-C struck before it could be noted. Once it is noted, an open
        transaction of the connection is another transaction: a checkpoint's, for example."""
        return transaction.is_committed or (transaction.is_committing and not self.connection.in_transaction)

    def check_same_file(self) -> int:
        """The size of the write-ahead log; 0 in memory. Called after a COMMIT.

        Raises:
            MovedAtCommit: The path no longer leads to the opened file. Later writes are refused.
            DamagedAtCommit: Another program has written to the file, and its first page is damaged. Later writes are
                refused.
        """
        guard = self.guard
        if guard is None:
            return 0
        wal_bytes, trouble = guard.look()
        if trouble:
            raise MovedAtCommit(
                f"{self.engine.report_moved(trouble)}; the write that has noticed it may be there, or not"
            )
        if guard.is_written:
            # By a checkpoint, nearly always, after which this look is cheap.
            guard.is_written = False
            damage = self.engine.damage_of_first_page("write")
            if damage is not None:
                raise DamagedAtCommit(f"{damage}; the write that has noticed it may be there, or not")
        return wal_bytes

    def note_commit(self) -> None:
        """Note that the transaction's first rows are in the file now: this process's epoch, and the id in the log."""
        if not self.has_own_epoch:
            self.has_own_epoch = True
            if self.epoch is not None:
                self.engine.epochs.note_epoch(self.epoch)
        self.log_named = self._naming

    def adopt(self, catalogue: Catalogue) -> None:
        """Take over the catalogue that the file has now, as this connection sees it."""
        self.catalogue = catalogue
        self.engine.adopt(catalogue)

    def _fail_turn(self, waiter: Waiter, error: BaseException) -> None:
        """After the failure of a turn, or of the wait for it."""
        if isinstance(error, CorruptDatabase):
            self.damage.note(error)
        if self.queue.is_first(waiter):
            # Once more, because Ctrl-C may have struck before the first rollback was done.
            self.roll_back()

    def _end_turn(self, waiter: Waiter) -> None:
        inside = self.inside
        if inside is not None and inside[2] is waiter.held:
            self.inside = self._outside
        if self._is_closing and not self.is_abandoned and self.queue.is_first(waiter):
            # The thread that closed the database did not wait for this write.
            self._close_in_turn()
        self.queue.release(waiter)

    # -----------------------------------------------------------------------------------------------------------
    # Several writes as one commit, and other uses of the connection

    @contextmanager
    def transaction(
        self,
        *,
        durability: Durability,
        busy_timeout_s: float | None = None,
        origin: str | None = None,
        is_exclusive: bool = False,
        within: Block | None = None,
    ) -> Iterator[Block]:
        """Several writes as one commit; an exception rolls back all of them. Inside another transaction: a part of
        that transaction.

        Args:
            is_exclusive: Only writes through the block's own objects belong to the block.
            within: The block whose object opens this block; None where there is none.

        Raises:
            TransactionOwned, TransactionEnded: See `join`.
            TransactionRolledBack: See `Block.check_end`.
        """
        if self.inside is not None or within is not None:
            outer, _ = self.join("transaction", within)
            if outer is not None:
                with self._nest(outer, within, is_exclusive) as block:
                    yield block
                return
        self.check_writable()
        if busy_timeout_s is None:
            busy_timeout_s = self.busy_timeout_s
        waiter = Waiter(None, "transaction")
        with waiter.held:
            try:
                self.queue.acquire(waiter, busy_timeout_s)
                try:
                    left_s = busy_timeout_s - waiter.waited_s
                    transaction = self._begin(left_s, durability == "hard", origin, False, waiter.operation)
                    waiter.block = block = Block(transaction, None, is_exclusive=is_exclusive)
                    self.inside = (get_ident(), transaction, waiter.held, block)
                    yield block
                    block.check_end()
                    self._end(block)
                    self.flush(transaction, waiter.operation)
                    self._check_unique(transaction, waiter.operation)
                    self._commit([transaction], waiter.operation)
                except BaseException:
                    if waiter.block is not None:
                        self._end(waiter.block)
                    self.inside = self._outside
                    self.roll_back()
                    raise
            except BaseException as error:
                self._fail_turn(waiter, error)
                raise
            finally:
                self._end_turn(waiter)
        self.engine.publisher.drain(is_outside=True)
        if self.compaction.owed:
            self.compaction.pay()

    @contextmanager
    def _nest(
        self, transaction: WriteTransaction, within: Block | None, is_exclusive: bool
    ) -> Iterator[Block]:
        """A block inside a longer transaction."""
        inside = self.inside
        outer = within or (inside[3] if inside is not None and isinstance(inside[3], Block) else None)
        block = Block(transaction, outer, is_exclusive=is_exclusive)
        with Savepoint(transaction, self, "transaction", block.flow):
            if inside is not None:
                self.inside = (*inside[:3], block)
            try:
                yield block
                block.check_end()
            finally:
                if not block.is_over:
                    self._note_unclosed(block.end())
                    self.inside = inside
                block.is_left = True

    def _end(self, block: Block) -> None:
        """The outermost block has ended. A second call does nothing."""
        if not block.is_over:
            self._note_unclosed(block.end())
            # Savepoints that are still open inside have nothing to roll back any more.
            block.transaction.savepoint = None
            self.inside = self._outside

    def _note_unclosed(self, members: list[Participant]) -> None:
        """Keep a list of members that have not left an ended block, so that their next write raises an error; drop
        the others from the list."""
        stranded = [one for one in (*self._stranded, *members) if not one.is_left and not one.flow.is_gone]
        self._stranded = stranded
        # No flow is inside: no thread has this number, and the lock is free.
        self._outside = (0, stranded[0].transaction, threading.Lock(), None) if stranded else None

    def join(self, operation: str, block: Block | None) -> tuple[WriteTransaction | None, ControlFlow | None]:
        """The transaction that a write of the running flow is a part of; None where it is a commit of its own, and waits for its
        turn. With it the flow, where several share the transaction.

        Args:
            block: The block whose object is used; None where there is none.

        Raises:
            TransactionOwned: The open transaction belongs to another flow of the same thread: a wait for its end
                would not let it end. Or `block` belongs to another thread.
            TransactionEnded: The flow is in a block of a transaction that has ended; or `block` is.
        """
        if block is not None:
            block.check_object(operation)
            return block.transaction, block.check_savepoint(operation)
        if self._stranded:
            self._note_unclosed([])
            for member in self._stranded:
                if member.flow.is_current():
                    raise TransactionEnded(operation, member.place)
        inside = self.inside
        # A transaction whose waiter holds no lock was left behind by Ctrl-C.
        if inside is None or inside[0] != get_ident() or not inside[2].locked():
            return None, None
        owner = inside[3]
        if owner is None:
            return inside[1], None
        if not owner.is_current():
            if isinstance(owner, Block):
                raise owner.refusal_error(operation)
            raise TransactionOwned(operation, owner.in_words(), None, ControlFlow().in_words())
        if isinstance(owner, Block) and owner.root.is_shared:
            return inside[1], owner.check_savepoint(operation)
        return inside[1], None

    @property
    def current(self) -> WriteTransaction | None:
        """The transaction that the running flow is inside of, or None."""
        inside = self.inside
        if inside is None or inside[0] != get_ident():
            return None
        owner = inside[3]
        if owner is not None and not owner.is_current():
            return None
        # A transaction whose waiter holds no lock was left behind by Ctrl-C.
        return inside[1] if inside[2].locked() else None

    @property
    def of_thread(self) -> WriteTransaction | None:
        """The transaction that this thread has open, whichever of its flows is inside of it, or None."""
        inside = self.inside
        if inside is None or inside[0] != get_ident():
            return None
        return inside[1] if inside[2].locked() else None

    @contextmanager
    def suspend_transaction(self) -> Iterator[None]:
        """Inside, this thread reads as if it were in no transaction."""
        inside, self.inside = self.inside, self._outside
        try:
            yield
        finally:
            self.inside = inside

    def flush(self, transaction: WriteTransaction, operation: str = "transaction") -> None:
        """Give SQLite the buffered writes of a transaction.

        Raises:
            DiskFull, StorageError: From the file. A part may be written: the transaction can only be rolled back as a
            whole. Also the error that has ruined the transaction before.
        """
        if transaction.ruin is not None:
            raise transaction.ruin
        if self.is_abandoned:
            return
        try:
            transaction.flush()
        except BaseException as error:
            translated = self.note_failure(error, operation)
            if translated is error:
                # Ctrl-C: it is written again, the next time.
                raise
            transaction.ruin = translated
            raise translated from error

    def _check_unique(self, transaction: WriteTransaction, operation: str) -> None:
        """Raises: DuplicateIndexKey, before a transaction with duplicates in a unique index is committed."""
        if transaction.claims is None or self.is_abandoned:
            return
        try:
            transaction.check_unique()
        except SQLiteError as error:
            raise self.note_failure(error, operation) from error

    def run_in_turn(self, work: Callable[[], T], busy_timeout_s: float | None = None) -> T:
        """Use the connection for other work than a user's write: a checkpoint, for example.

        Raises:
            TransactionOwned: Another flow of this thread is in a transaction.
        """
        if self.inside is not None:
            self.join("upkeep", None)
        waiter = Waiter(None)
        with waiter.held:
            try:
                self.queue.acquire(waiter, self.busy_timeout_s if busy_timeout_s is None else busy_timeout_s)
                self.engine.check_usable()
                return work()
            except BaseException as error:
                self._fail_turn(waiter, error)
                raise
            finally:
                self._end_turn(waiter)

    def begin_upkeep(self, operation: str, waits_s: float) -> None:
        """BEGIN for a transaction that writes no documents. The state is reloaded after it."""
        self._begin(waits_s, bool(self._is_synchronous), None, False, operation)
        self._known_version = None

    # -----------------------------------------------------------------------------------------------------------
    # Failures

    def roll_back(self) -> None:
        """Roll back the open transaction, if there is one."""
        connection = self.connection
        if self.is_abandoned:
            # A rollback by the child would roll back the parent's work.
            return
        self.memory.forget()
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except SQLiteError:
            # The connection was closed inside; or the next writer tries again.
            logger.debug("rolling back %s failed", self.path, exc_info=True)
            self._known_version = None

    def note_failure(self, error: BaseException, operation: str) -> BaseException:
        """Note a failure inside a transaction. Returns SQLite's error as one of ours; others as they are."""
        if isinstance(error, SQLiteError):
            translated = self.engine.translate_error(error, operation)
            # SQLite's word for damage may be about a disk that does not answer for a moment (see `DamageLatch`).
            translated.__cause__ = error
            error = translated
        self.damage.note(error)
        return error

    def doubt(self, error: BaseException) -> None:
        """Something failed. If it was a flush, the next transaction begins with making sure of the log."""
        if self.flushes.notice(error):
            self._known_version = None

    def _is_whole(self) -> bool:
        """Whether SQLite finds no damage in the file, as it is there: this connection may have pages in memory that are not. A
        database in memory has no other place."""
        if self.guard is None:
            return sqlite.is_whole(self.connection)
        try:
            connection = self.engine.connect("ro")
        except ReactDBError:
            return False
        try:
            return sqlite.is_whole(connection)
        finally:
            connection.close()

    # -----------------------------------------------------------------------------------------------------------
    # Closing

    def close(self) -> None:
        """Wait for the running write, and close the connection. A write that takes longer than `busy_timeout` closes
        the connection itself, at its end."""
        if self.guard is not None and self.guard.has_lost_its_log:
            self.close_unused()
            return
        if self.of_thread is not None:
            # This thread is inside a transaction. Its end rolls back and raises.
            self.connection.close()
            return
        self._is_closing = True
        waiter = Waiter(None)
        with waiter.held:
            try:
                self.queue.acquire(waiter, self.busy_timeout_s)
                self._close_in_turn()
            except DatabaseBusy:
                logger.debug("%s is closed by the running write", self.path)
            finally:
                self.queue.release(waiter)

    def _close_in_turn(self) -> None:
        if self.guard is not None:
            self.guard.close()
        self.flushes.close(self.connection)

    def close_unused(self) -> None:
        """Close the unused connection. If its log was removed, the connection stays open: SQLite would write the log
        into the file."""
        if self.guard is not None and self.guard.has_lost_its_log:
            sqlite.keep_open(self.connection)
            identity.refuse(self.path, describe_lost_log)
            return
        if self.guard is not None:
            self.guard.close()
        self.connection.close()


class DamageLatch:
    """Stops every write after a write has met damage: the rest of the damage is unknown, and later writes would have
    to be undone by hand.

    Every feed ends with the damage: this handle can deliver nothing more, and silence would mean that nothing
    happens.

    Attributes:
        found: The damage that a write has met; None before.
    """

    __slots__ = ("_end_feeds", "_found_each_time", "_is_whole", "found")

    def __init__(self, is_whole: Callable[[], bool], end_feeds: Callable[[ReactDBError], None]) -> None:
        """`is_whole`: whether SQLite finds no damage in the file by now."""
        self._is_whole = is_whole
        self._end_feeds = end_feeds
        self.found: CorruptDatabase | None = None
        self._found_each_time: CorruptDatabase | None = None

    def note_recurring(self, error: CorruptDatabase) -> CorruptDatabase:
        """Note damage that every write checks for. It is not remembered, because it may be repaired before the next
        write."""
        self._found_each_time = error
        return error

    def note(self, error: BaseException) -> None:
        """A write has failed, or a read has found the first page damaged. The first damage is the error of all later writes."""
        if isinstance(error, CorruptDatabase) and self.found is None:
            if not isinstance(error.__cause__, SQLiteError):
                self._end_feeds(error)
            if error is not self._found_each_time:
                self.found = error

    def check(self, operation: str) -> None:
        """Raises: CorruptDatabase, after a write has met damage. Its message begins with the refused `operation`."""
        if self.found is not None and not self._has_passed(self.found):
            self._end_feeds(self.found)
            raise CorruptDatabase(
                f"{operation}: nothing is written any more since damage was found: {self.found}"
            )

    def _has_passed(self, damage: CorruptDatabase) -> bool:
        """If a disk could not be read for a moment, SQLite reports a malformed file. Such an error passes; damage
        does not."""
        if not isinstance(damage.__cause__, SQLiteError):
            return False
        is_whole = self._is_whole()
        if is_whole:
            self.found = None
        return is_whole
