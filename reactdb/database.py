"""Database: a handle on an open file, and `connect`, which returns one. Several handles in one process share one
engine.

A view of the past (`db.at(seq)`) reads through a session with other snapshots, and has only what reads.

Rule of this file: arguments are checked here, in the user's words; the session does the work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast, overload

from reactdb.async_functions import refuse_async, refuse_awaitable
from reactdb.blobs import Blobs
from reactdb.call_stack import find_calling_line
from reactdb.change import Change
from reactdb.clock import Clock, check_clock
from reactdb.errors import (
    HistoryLost,
    IncompatibleSchema,
    InvalidOption,
    PastIsReadOnly,
    ReactDBError,
    TableExists,
    TableNotFound,
    UsageError,
    format_value,
)
from reactdb.expiry import check_expiry, put_expiry, show_expiry
from reactdb.feed_source import FeedSource
from reactdb.query import ALL_TABLES, Query
from reactdb.representation import Represented
from reactdb.session import PastSession, Session, SessionInside, check_durability, live_table
from reactdb.store import registry
from reactdb.store.catalogue import TableInfo, check_name, check_text
from reactdb.store.checkpoints import check_limit_bytes
from reactdb.store.expiry import native_expiry
from reactdb.store.log import log_changes, read_low_water
from reactdb.store.materialized_tables import drop_table, rename_table
from reactdb.store.retention import (
    AUTO,
    Retention,
    Setting,
    measure_history,
    name_retention,
    read_hold,
    read_retention,
    set_hold,
)
from reactdb.store.transaction import WriteTransaction
from reactdb.store.user_version import read_user_version, set_user_version
from reactdb.store.writer import Durability
from reactdb.table import Selection, Table
from reactdb.values import codec
from reactdb.wrong_calls import explain_wrong_calls, explained

if TYPE_CHECKING:
    import pyarrow as pa
    from reactivex.abc import SchedulerBase

    from reactdb.durable.consumer import DurableConsumer
    from reactdb.durable.materialized_views import Materialized
    from reactdb.feeds.feed import Feed
    from reactdb.feeds.hub import FeedHub
    from reactdb.html_view import Preview
    from reactdb.observation import Observation
    from reactdb.undo_stack import UndoStack

MOST_ORIGIN = 256

Typed = TypeVar("Typed")


@explained
def connect(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    durability: Durability = "hard",
    busy_timeout: float = 5.0,
    retention: Setting = "auto",
    scheduler: SchedulerBase | None = None,
    origin: str | None = None,
    wal_limit_bytes: int | None = None,
    allow_network: bool = False,
    clock: Clock | None = None,
    encode: Callable[[Any], Any] | None = None,
) -> Database:
    """Open a database file, made where it is missing, or ":memory:".

    Args:
        path: The path of the file. Two files beside it, `-wal` and `-shm`, belong to it while it is open.
        read_only: Write nothing, not even a new file. Feeds work: they follow other processes.
        durability: "hard": an acknowledged write survives power loss. "soft": it survives the death of the process; after
            power loss the newest commits may be missing, never damaged, never a hole.
        busy_timeout: Seconds that a write through this handle waits for other threads and processes before DatabaseBusy.
        retention: How much history the file keeps from now on, for all writers: a number of changes, a timedelta, or
            None for all; "auto", the default, keeps the file's setting (see `Database.set_retention`).
        scheduler: Where feeds deliver, unless `subscribe` says otherwise; None: on the committing thread.
        origin: A name for this writer, kept with each of its changes.
        wal_limit_bytes: Size of the write-ahead log beyond which writes are refused, with WalTooLarge, while it
            cannot be emptied; None: 4 GiB, or the limit that another handle on the file has set.
        allow_network: Open the file also on a network file system. Then make sure yourself that one machine at a time
            has it open.
        clock: A `reactdb.testing.VirtualClock` for tests; None: that of the file's other handles in this process, or the
            system's. It gives the times of changes, `r.now()`, generated keys, squash intervals, ages, expiry, leases, and
            timeouts of cursors. Waits for locks and disks stay real.
        encode: A function that is called with each value that cannot be stored, in a document or a patch that is written
            through this handle, or with a document that is no dict. Its result is stored. It is not called for other
            values, nor for writes of a dialect. None: such values are refused.

    Returns:
        A Database; use it as a context manager, or close it. Connecting twice to one path gives two handles on one
        engine. An unreferenced handle is closed, with a ResourceWarning if it is on a file.

    Raises:
        CannotOpen, NotADatabase, IncompatibleFormat, DatabaseBusy, InvalidOption.
    """
    check_flag("read_only", read_only)
    check_durability(durability)
    if (
        isinstance(busy_timeout, bool)
        or not isinstance(busy_timeout, (int, float))
        or not 0 <= busy_timeout <= 86_400
    ):
        raise InvalidOption(
            f"busy_timeout is a number of seconds from 0 to 86400, not {format_value(busy_timeout)}"
        )
    check_origin(origin)
    if scheduler is not None:
        from reactdb.feeds.schedulers import check_scheduler

        check_scheduler(scheduler)
    check_limit_bytes(wal_limit_bytes)
    kept = Retention.setting(retention)
    if kept not in (None, AUTO) and read_only:
        raise InvalidOption("retention removes history, which read_only=True does not")
    check_flag("allow_network", allow_network)
    if encode is not None and not callable(encode):
        raise InvalidOption(f"encode is a function of one value, or None, not {format_value(encode)}")
    engine = registry.open_engine(
        _name_of(path), read_only, float(busy_timeout), allow_network, check_clock(clock)
    )
    if wal_limit_bytes is not None and not read_only:
        engine.wal_limit_bytes = wal_limit_bytes
    line = find_calling_line()
    opened_at = "an unknown line" if line is None else "{}:{}".format(*line)
    session = Session(engine, durability, scheduler, origin, float(busy_timeout), opened_at)
    session.encode_hook = encode
    database = Database(session)
    if kept != AUTO and not read_only:
        try:
            database.set_retention(retention)
        except BaseException:
            database.close()
            raise
    return database


def _name_of(path: object) -> str:
    """The path as text that the file system accepts."""
    try:
        text = os.fspath(path)  # type: ignore[call-overload]
        if isinstance(text, str) and text and b"\0" not in os.fsencode(text):
            return text
    except (TypeError, UnicodeEncodeError):
        pass
    raise InvalidOption(f"path is the name of a file or ':memory:', not {format_value(path)}")


def delete_database(path: str | os.PathLike[str]) -> None:
    """Delete a database: the file and the files beside it. Deleting the file alone would leave its write-ahead log to
    the next one.

    Raises:
        CannotOpen: There is none.
        DatabaseBusy: It is open, in this process or in another. Nothing was deleted.
        NotADatabase: It is a file of another program.
    """
    name = _name_of(path)
    if name == ":memory:":
        raise InvalidOption("path is the name of a file: a database in memory ends when it is closed")
    registry.remove(os.path.realpath(name))


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidOption(f"{name} is True or False, not {format_value(value)}")


def check_origin(origin: object) -> None:
    if origin is None:
        return
    if not isinstance(origin, str) or len(origin) > MOST_ORIGIN:
        raise InvalidOption(
            f"origin is a string of at most {MOST_ORIGIN} characters, not {format_value(origin)}"
        )
    try:
        origin.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"origin is text that UTF-8 can carry, not {format_value(origin)}") from None


class ReadableDatabase(Represented):
    """The common part of a database and a view of its past: reading the tables and the log."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _preview(self) -> Preview:
        # Imported here because only a notebook needs it.
        from reactdb.previews import preview_of_database

        return preview_of_database(self._session, self.path)

    @property
    def path(self) -> str:
        """The file's absolute path, or ":memory:"."""
        return self._session.engine.path

    @overload
    def table(self, name: str) -> Table: ...

    @overload
    def table(self, name: str, type: type[Typed], *, on_invalid: str = "raise") -> Table[Typed]: ...

    @overload
    def table(self, name: str, type: Any, *, on_invalid: str = "raise") -> Table[Any]: ...

    def table(self, name: str, type: Any = None, *, on_invalid: str = "raise") -> Table[Any]:
        """The table of this name. That it exists is looked at when it is used.

        Args:
            type: The type of the documents: a TypedDict, a dataclass, an attrs class, a `msgspec.Struct` or a pydantic model.
                Inserts take its objects, and dicts, and check them; reads and feeds return objects of it. None: plain
                dicts.
            on_invalid: What a read does with a stored document that does not fit the type: "raise" raises TypeMismatch, "skip"
                leaves it out. Feeds always pass over such documents, and count and log them.

        Raises:
            InvalidOption: `type` is something else.
            MissingExtra: All but pydantic's types need msgspec, the extra `typed`.
        """
        query = Query(check_name("Table", name))
        if type is None and on_invalid == "raise":
            return Table(self._session, query)
        # Imported here because most programs have plain dicts.
        from reactdb.typed_table import typed_table

        return typed_table(self._session, query, type, on_invalid)

    def __getitem__(self, name: str) -> Table:
        """The same as `table(name)`."""
        return self.table(name)

    def __contains__(self, name: object) -> bool:
        """Whether there is a table of this name."""
        if not isinstance(name, str):
            return False
        with self._session.read() as snapshot:
            return snapshot.table(name) is not None

    def __iter__(self) -> Iterator[str]:
        """The names of the tables, sorted."""
        return iter(self.table_list())

    def __setitem__(self, name: object, value: object) -> NoReturn:
        raise UsageError('a table takes documents: write db["todos"].insert(documents)')

    def __delitem__(self, name: object) -> NoReturn:
        raise UsageError(f"write db.table_drop({format_value(name)})")

    if not TYPE_CHECKING:
        # Type checkers would take it for every attribute of any name.

        def __getattr__(self, name: str) -> Any:
            """Raises: AttributeError, with the right name."""
            raise missing_member(self, name)

    def table_list(self) -> list[str]:
        """The names of the tables, sorted."""
        return self._session.tables()

    @property
    def blobs(self) -> Blobs:
        """The large values of the file, which documents name: see `Blobs`."""
        return Blobs(self._session)

    @property
    def seq(self) -> int:
        """The seq of the newest change; 0 before the first."""
        with self._session.read() as snapshot:
            return snapshot.seq

    @property
    def token(self) -> str:
        """This moment as an opaque string for `since=`, good for another process and another day.

        Inside a transaction, the moment before it: the transaction may still be rolled back.
        """
        return self._session.token()

    def log(self, since: int = 0, until: int | None = None, table: str | None = None) -> Iterator[Change]:
        """The log entries with since < seq <= until (default: now), oldest first; of one table, or of all.

        Raises:
            HistoryLost: Entries past `since` were compacted away.
            TableNotFound: No such table.
        """
        until, info = self._log_range(since, until, table)
        return log_changes(self._session.engine, self._session.read, since, until, info)

    def _log_range(self, since: int, until: int | None, table: str | None) -> tuple[int, TableInfo | None]:
        """The last seq of a read of the log, and the table. Raises: see `log`."""
        for name, value in (("since", since), ("until", until)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise InvalidOption(f"{name} is a seq, a whole number from 0, not {format_value(value)}")
        with self._session.read() as snapshot:
            snapshot.check_end()
            head = snapshot.seq
            info = None
            if table is not None:
                info = snapshot.table(check_name("Table", table))
                if info is None:
                    raise TableNotFound(table)
            oldest = read_low_water(snapshot.connection)
            if since < oldest:
                raise HistoryLost(since, oldest + 1)
        until = head if until is None else min(until, head)
        return until, info

    def changes_to_arrow(
        self,
        since: int = 0,
        until: int | None = None,
        table: str | None = None,
        *,
        schema: Any = None,
    ) -> pa.RecordBatchReader:
        """The entries of `log(since, until, table)` as batches of Arrow. A batch has about 8 MB of documents at most, or one
        entry, so the log may be larger than the memory. `read_all()` makes one table.

        The entries are read twice, because all batches have the types that hold all of them. With `schema`, only the keys are
        looked at first.

        Args:
            since, until, table: As for `log`.
            schema: The wanted fields of the documents of one table, as for `to_arrow`.

        Returns:
            A pyarrow.RecordBatchReader with the columns `seq`, `table`, `key`, `op` (insert, update, replace or delete), `ts`,
            `commit`, `old`, `new` and `origin`. Of one table, `old` and `new` are structs with types as `to_arrow` finds
            them; of all tables, JSON as text. It is read while the database is open, by one thread at a time.

        Raises:
            MissingExtra: pyarrow is not installed: the extra `arrow`.
            SchemaMismatch: A document does not fit the given schema; raised by the reader.
            InvalidOption: A schema without a table. Also the errors of `log`.
        """
        from reactdb.data_frames import check_change_schema, check_installed, read_changes

        check_installed("changes_to_arrow", "pyarrow", "arrow")
        wanted = check_change_schema(schema, table)
        until, info = self._log_range(since, until, table)
        return read_changes(self._session, since, until, info, wanted)


class Database(ReadableDatabase, FeedSource[dict[str, Any]]):
    """An open database. See `connect`.

    Thread safety: any method from any thread. A transaction belongs to the thread, the asyncio task and the greenlet that began
    it.
    """

    def __repr__(self) -> str:
        return f"<Database {self.path!r}{' closed' if self.is_closed else ''}>"

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close this handle; the last one on the file ends its feeds and closes it. A second call does nothing."""
        self._session.close()

    @property
    def is_closed(self) -> bool:
        """Whether this handle was closed."""
        return self._session.is_closed

    # -----------------------------------------------------------------------------------------------------------
    # Tables

    def table_create(
        self,
        name: str,
        primary_key: str = "id",
        exist_ok: bool = False,
        *,
        expire_after: timedelta | None = None,
        field: str | None = None,
    ) -> Table:
        """Make a table.

        Args:
            expire_after, field: Delete each document so long after the time in this field, about a second late, while a
                process has the file open to write. See `Table.set_expiry`. None: documents do not expire.

        Raises:
            TableExists: Unless `exist_ok`, and the primary key is the same, and so is the expiry, if one is given.
            InvalidName, InvalidOption.
        """
        check_name("Table", name)
        check_flag("exist_ok", exist_ok)
        if not isinstance(primary_key, str) or not primary_key:
            raise InvalidOption(f"primary_key is the name of a field, not {format_value(primary_key)}")
        codec.encode({primary_key: 0})
        expiry = check_expiry(expire_after, field)

        def one(transaction: WriteTransaction) -> None:
            known = transaction.catalogue.live.get(name)
            if known is None:
                put_expiry(transaction, transaction.create_table(name, primary_key), expiry)
            elif not exist_ok or known.primary_key != primary_key:
                raise TableExists(name)
            elif expiry is not None and native_expiry(known) != expiry:
                # To change it silently would fill an index, and surprise the program that has set the other one.
                raise TableExists(name)

        self._session.transact(one, operation="table_create")
        return self.table(name)

    def table_drop(self, name: str) -> dict[str, int]:
        """Drop a table. Its feeds get their pending events, then end with FeedAborted."""
        check_text("Table", name)

        def one(transaction: WriteTransaction) -> None:
            drop_table(transaction, live_table(transaction, name))

        self._session.transact(one, operation="table_drop")
        return {"tables_dropped": 1}

    def table_rename(self, old: str, new: str) -> dict[str, int]:
        """Give a table another name, with its documents, indexes and history, in one commit.

        Feeds of the table continue. The new name is valid for the past too, in `log()`; `at(seq)` has the name of that
        time. The selections of durable consumers, materialized views and programs have the old name: make them again with
        the new name.

        Returns:
            `{"tables_renamed": 1}`.

        Raises:
            TableNotFound: There is no table `old`.
            TableExists: There is a table `new`.
            UsageError: `old` is kept equal to a selection by `materialize`, and its programs find it by this name.
            InvalidName.
        """
        check_text("Table", old)
        check_name("Table", new)

        def one(transaction: WriteTransaction) -> None:
            table = live_table(transaction, old)
            if new in transaction.catalogue.live:
                raise TableExists(new)
            rename_table(transaction, table, new)

        self._session.transact(one, operation="table_rename")
        return {"tables_renamed": 1}

    # -----------------------------------------------------------------------------------------------------------
    # Transactions

    @contextmanager
    def transaction(
        self, *, durability: str | None = None, origin: str | None = None, exclusive: bool = False
    ) -> Iterator[OpenTransaction]:
        """Make several writes one commit: all of them are stored, or none.

        The transaction includes all writes of the thread, the asyncio task and the greenlet that began it, through
        any handle on the file. Other threads and processes wait during it, so keep it short. Another task of the same
        thread reads the committed state, and its writes raise TransactionOwned, unless the transaction was handed to
        it. Reads inside see the transaction's writes; feeds deliver them after the commit. Inside another transaction
        it is a savepoint of that one, and can fail alone.

        Args:
            durability: "hard" or "soft"; None: the handle's.
            origin: A name for the writer, kept with each change; None: the handle's.
            exclusive: Only writes through the yielded object are a part of it. Every other write of this thread
                raises TransactionOwned, and every other read returns the committed state.

        Yields:
            An `OpenTransaction`: the same database, inside of this transaction.

        Raises:
            TransactionOwned: Another task or greenlet of this thread has a transaction open.
            TransactionRolledBack: At the end, where another task ends it, or a block or task inside has not ended.
            DatabaseBusy and all other errors of a write.
        """
        check_origin(origin)
        check_flag("exclusive", exclusive)
        with self._session.block(durability, origin, is_exclusive=exclusive) as block:
            yield OpenTransaction(self._session.inside(block))

    def observe(
        self,
        function: Callable[[ReadableDatabase], Any],
        *,
        distinct: bool = True,
        scheduler: SchedulerBase | None = None,
    ) -> Observation:
        """Run a function that reads, and run it again after each commit, of any process, that concerns what it has read.

        `db.observe(lambda db: db.table("todos").filter({"done": False}).count().run())` has the number as `.value`, and
        `subscribe(callback)` calls back with each new one.

        Args:
            function: Gets a read-only database, all of whose reads are of one state, and returns any value. A returned
                selection is run, and an iterator becomes a list. It should be quick: in memory, writers wait for it. It
                may be called more often than needed, so it must not do anything but read.
            distinct: Results that are equal to the one before are not delivered.
            scheduler: Where the function runs again and subscribers are called; None: the database's, or the
                committing thread after its write is done. The first run is in this call.

        Returns:
            An Observation. With subscribers it lives as long as the database; without, it is closed when nobody refers
            to it.

        Raises:
            UsageError: The function is async, writes, or reads through another handle. Other errors of the function go to
                `error` and to subscribers, and it runs again after the next commit that concerns it.
        """
        from reactdb.observation import Observation

        return Observation(self._session, function, ReadableDatabase, distinct=distinct, scheduler=scheduler)

    # -----------------------------------------------------------------------------------------------------------
    # Log and time

    def at(self, seq: int | datetime) -> PastDatabase:
        """The database as it was when `seq` was its newest change: tables, selections and indexes, to read only.

        Args:
            seq: A seq, or a moment: a datetime with a time zone, as for `seq_at`.

        Raises:
            HistoryLost: Retention has removed history that is needed for it.
            InvalidOption: Not a seq of this database (yet), or a datetime without a time zone.
        """
        return PastDatabase(self._session.at(seq))

    def seq_at(self, moment: datetime) -> int:
        """The seq of the newest change that was committed at this moment or before; 0 before the first change. A moment in
        the future gives the newest seq. The log is searched, not read.

        Args:
            moment: A datetime with a time zone. The log has milliseconds.

        Raises:
            HistoryLost: The moment is in the removed history.
            InvalidOption: The datetime has no time zone.
        """
        return self._session.seq_at(moment)

    # -----------------------------------------------------------------------------------------------------------
    # Migrations

    @property
    def user_version(self) -> int:
        """A number for the program's own use, 0 in a new file; `migrate` counts its steps in it. It can be set, from 0 to
        2**31 - 1; inside a transaction, the new number is a part of the commit."""
        with self._session.read_rows() as snapshot:
            return read_user_version(snapshot.connection)

    @user_version.setter
    def user_version(self, version: int) -> None:
        if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version < 2**31:
            raise InvalidOption(
                f"user_version is a whole number from 0 to {2**31 - 1}, not {format_value(version)}"
            )
        self._session.transact(
            lambda transaction: set_user_version(transaction, version), operation="user_version"
        )

    def migrate(self, steps: Iterable[Callable[[OpenTransaction], object]]) -> list[int]:
        """Run the steps that this file has not had yet, in order. Each runs once, whichever of several processes is first.

        A step and the new `user_version` are one commit. If a step raises, it is rolled back, the steps before it stay,
        and the next call begins with it.

        Args:
            steps: All steps since the first version of the program, oldest first: functions of the database, such as
                `lambda db: db.table_create("todos")`. The file's `user_version` says how many of them it has had.

        Returns:
            The versions that were reached: `[3, 4]` where the third and the fourth step ran.

        Raises:
            IncompatibleSchema: The file has had more steps than there are here. Nothing was written.
            UsageError: Inside a transaction.
            Whatever a step raises.
        """
        if not isinstance(steps, Iterable):
            raise InvalidOption(
                f"migrate takes a list of functions: write migrate([step]), not {format_value(steps)}"
            )
        listed = list(steps)
        for step in listed:
            if not callable(step):
                raise InvalidOption(f"a migration is a function of the database, not {format_value(step)}")
            refuse_async(step, "migrate", "write a plain function: its database is the synchronous one")
        self._session.check_open()
        if self._session.engine.has_transaction_here():
            raise UsageError("each migration is a commit of its own, and cannot be part of a transaction")
        reached: list[int] = []
        # Looked at without the write lock first: usually there is nothing to do.
        version = self.user_version
        while version < len(listed):
            with self.transaction() as transaction:
                # Another process may have been faster.
                version = transaction.user_version
                if version < len(listed):
                    refuse_awaitable(listed[version](transaction), "migrate")
                    version += 1
                    transaction.user_version = version
                    reached.append(version)
        if version > len(listed):
            raise IncompatibleSchema(self.path, version, len(listed))
        return reached

    def compact(self, keep: int | timedelta, *, vacuum: bool = False) -> dict[str, int]:
        """Remove history: superseded versions, deletions and dropped tables. Never a live document, nor the old value of a
        change that stays.

        Args:
            keep: How much history stays: a number of changes or a timedelta; 0 keeps none. It has no default, because positions
                that readers have kept for later are worth nothing once their history is removed.
            vacuum: Also give the room back to the file system. Rewrites the whole file; no other write can run at the
                same time.

        Returns:
            `entries` and `tables` removed, and `oldest`, the position from which the log can be read now: less than
            requested is removed where an open feed of this process still needs it.
        """
        check_flag("vacuum", vacuum)
        self._session.check_open()
        if keep is None:
            raise InvalidOption(
                "keep is a number of changes or a timedelta, not None; keep=0 removes all history"
            )
        removed = self._session.compact(Retention.of(keep), vacuum=vacuum)
        return {"entries": removed.entries, "tables": removed.tables, "oldest": removed.oldest}

    def set_retention(self, retention: Setting) -> None:
        """Say how much history the file keeps from now on, whichever process writes to it. The file keeps the answer; without one
        it is "auto".

        Live documents, and old values of kept changes, always stay; so do, up to a limit (see `hold`), the changes
        that open feeds and durable consumers have still to read.

        Args:
            retention: A number of changes; a timedelta; None: all; "auto": what takes as much room as the rest of the file (live
                documents and indexes), or 256 MB, whichever is more.

        Raises:
            InvalidOption: Something else, or a negative number or timedelta.
            ReadOnlyDatabase.
        """
        kept = Retention.setting(retention)
        with self._session.read() as snapshot:
            if read_retention(snapshot.connection) == kept:
                return
        self._session.transact(
            lambda transaction: name_retention(transaction, kept), operation="set_retention"
        )

    def hold(self, changes: int) -> None:
        """Set how many changes compaction and retention leave, beyond their own limits, to durable consumers of the
        file and open feeds of the process that have still to read them. The file keeps the number; without one it is
        1,000,000."""
        if isinstance(changes, bool) or not isinstance(changes, int) or not 0 <= changes < 1 << 63:
            raise InvalidOption(
                f"changes is a whole number from 0 and below 2**63, not {format_value(changes)}"
            )
        self._session.transact(lambda transaction: set_hold(transaction, changes), operation="hold")

    def _watch(self, options: Mapping[str, Any]) -> Feed:
        return self._session.watch(Query(ALL_TABLES), options)

    # -----------------------------------------------------------------------------------------------------------
    # Durable consumers

    def consumer(
        self,
        name: str,
        selection: Selection[Any, Any] | None = None,
        *,
        since: int | str | None = None,
        partitions: int | None = None,
        lease_s: float = 30.0,
        max_attempts: int | None = 10,
        backoff_s: float = 0.5,
        most_backoff_s: float = 60.0,
        reset: bool = False,
        scheduler: SchedulerBase | None = None,
    ) -> DurableConsumer:
        """A named position in the file, from which workers are given the changes of a selection, each until it is acknowledged.

        An existing consumer continues from its position; a new one is created here and now. Workers of any number of
        processes share it.

        Args:
            name: As of a table.
            selection: A table or a part of one; the result for a document must not depend on other documents. None:
                every table, also the documents that are deleted because their table is dropped.
            since: Where a new one begins: after this seq or token, 0 for the start of the log; None: now.
            partitions: The number of parts into which the changes are split, by key; at most one worker has each
                part, and the changes of one key are delivered in order. None: the number of an existing consumer, for
                a new one 1.
            lease_s: Seconds without a renewal after which a worker counts as hung, and another one may take over.
            max_attempts: How often a change that fails is given alone before it goes to the table `consumers.dead_letters`; None:
                for ever.
            backoff_s: Seconds that pass after the first failure; twice as many after each further one.
            most_backoff_s: The greatest number of seconds that pass between two attempts.
            reset: Begin again, at `since` and with this selection, whatever exists.
            scheduler: The scheduler whose clock is read; None: the system's.

        Raises:
            UnsupportedFeed: The selection cannot be looked at document by document.
            UsageError: A consumer of this name exists with another selection, or another number of partitions.
            HistoryLost, HistoryDiverged: About `since`.
            TableNotFound, IndexNotFound, InvalidName, InvalidOption, ReadOnlyDatabase.
        """
        # Imported here because most programs have none.
        from reactdb.durable.consumer import DurableConsumer

        self._session.check_open()
        return DurableConsumer(
            self._session,
            name,
            selection,
            since=since,
            partitions=partitions,
            lease_s=lease_s,
            max_attempts=max_attempts,
            backoff_s=backoff_s,
            most_backoff_s=most_backoff_s,
            reset=reset,
            scheduler=scheduler,
        )

    def consumers(self) -> list[dict[str, Any]]:
        """The durable consumers of the file, a dict for each partition, by name: `name`, `partition`, `partitions`;
        `seq`, its position; `lag` in changes of all tables, and `lag_s`, the age of the first of them; `is_lost`,
        whether history that it needs was removed; `holder`, its present worker (None: none), with `lease_s` left and
        its `fence`; `attempts`, `failing` and `error` of the change that fails (its seq; None: none does);
        `dead_letters`, the number of changes that were set aside.
        """
        from reactdb.durable.consumer import status

        self._session.check_open()
        return status(self._session)

    # -----------------------------------------------------------------------------------------------------------
    # Materialized views

    def materialize(
        self,
        selection: Selection[Any, Any],
        into: str,
        *,
        rebuild: bool = False,
        follow: bool = True,
        lease_s: float = 30.0,
        scheduler: SchedulerBase | None = None,
    ) -> Materialized:
        """Keep a table equal to a selection: exactly, also after a crash at any moment. Nothing else can write the table.

        A missing table is built from one snapshot, in steps, and appears when it is whole. An existing one continues
        from its position; if history that it needs was removed, it is built again.

        Args:
            selection: A table or a result from one: a part, with one document for each of the table, by its primary
                key; the first of an order; an aggregate; groups with an aggregate, each as a document {"id": group,
                "sum": 30}.
            into: Name of the table.
            rebuild: Build it again, whatever it contains.
            follow: Take in each commit to the source, as a feed would, until it is closed. Otherwise only `catch_up`
                does.
            lease_s: Seconds without a renewal after which a hung process may be replaced. A dead process is replaced
                at once.
            scheduler: Where it follows; None: the handle's, or else on the thread that commits, after its write is done.

        Raises:
            UnsupportedFeed: The selection cannot be kept up to date, or its result has no keys.
            UsageError: The table belongs to another selection, or is an ordinary table; or this is called inside a
                transaction.
            QueryError: The selection cannot be worked out for a document.
            TableNotFound, IndexNotFound, InvalidName, InvalidOption, ReadOnlyDatabase.
        """
        # Imported here because most programs have none.
        from reactdb.durable.materialized_views import Materialized

        self._session.check_open()
        return Materialized(
            self._session,
            selection,
            into,
            rebuild=rebuild,
            follow=follow,
            lease_s=lease_s,
            scheduler=scheduler,
        )

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int, int], object] | None = None,
        overwrite: bool = False,
    ) -> dict[str, Any]:
        """Write a copy of the database to a new file while others write: the state of the last commit, whole or not at all.

        Other threads and processes can write meanwhile. A transaction that is open is not in the copy. The copy has the id of
        this database and can take its place; for a token from a later moment it raises HistoryDiverged.

        Args:
            path: The new file.
            progress: Called on this thread after each 4 MB, with the copied bytes and all bytes. An exception ends the
                backup.
            overwrite: Replace an existing file.

        Returns:
            A dict: the absolute `path`, `seq` of the newest change in the copy, and its size in `bytes`.

        Raises:
            CannotOpen: The file exists, or is the database itself, or its folder is missing.
            UsageError: The database is in memory, and this is called inside a transaction.
            DiskFull, DatabaseClosed, StorageError.
        """
        # Imported here because most programs make none.
        from reactdb.store.backups import back_up

        check_flag("overwrite", overwrite)
        if progress is not None and not callable(progress):
            raise InvalidOption(f"progress is a function of two numbers, not {format_value(progress)}")
        refuse_async(progress, "backup")
        self._session.check_open()
        name = _name_of(path)
        if name == ":memory:":
            raise InvalidOption("path is the name of a file: db.copy() makes a copy in memory")
        return back_up(self._session.engine, os.path.abspath(name), progress, overwrite=overwrite)

    # -----------------------------------------------------------------------------------------------------------
    # Undo

    def undo_stack(self, origin: str | None = None, *, limit: int = 1_000) -> UndoStack:
        """Undo and redo of the commits of one origin, from now on, by any handle and any process.

        Args:
            origin: The commits with this origin are steps; None: the handle's.
            limit: The greatest number of steps. Beyond it, the oldest is forgotten.

        Raises:
            InvalidOption: There is no origin, so the commits of this program cannot be distinguished from others.
        """
        # Imported here because most programs have none.
        from reactdb.undo_stack import UndoStack

        check_origin(origin)
        origin = origin or self._session.origin
        if not origin:
            raise InvalidOption(
                'origin is a text, such as "ui": name the writer with connect(origin=) or transaction(origin=), '
                "and its stack with undo_stack(origin=)"
            )
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidOption(f"limit is a whole number from 1, not {format_value(limit)}")
        return UndoStack(self._session, origin, limit)

    def copy(self, *, clock: Clock | None = None) -> Database:
        """A new database in memory with the content of this one: documents, log, seqs, indexes, large values, settings and
        positions of consumers. A small database is copied in about a millisecond.

        The copy is of one commit, and independent of this database: it has an id of its own, so each of the two refuses the
        tokens of the other. In the copy, no worker has a lease of a consumer.

        Args:
            clock: As for `connect`; None: the clock of this database.

        Returns:
            A Database with the durability, the scheduler and the origin of this handle. Close it as any other.

        Raises:
            UsageError: This thread is in a transaction.
            DatabaseClosed, StorageError: This database cannot be read.
        """
        # Imported here because most programs copy none.
        from reactdb.store.copies import copy_to_memory

        session = self._session
        session.check_open()
        return Database(session.on(copy_to_memory(session.engine, check_clock(clock) or session.clock)))

    def stats(self) -> dict[str, Any]:
        """Figures about the file and its history.

        `seq`, `oldest` (position from which the log can be read), `hold` (see `hold`), `tables`,
        `file_bytes`, `wal_bytes`; `checkpoint` (see `Checkpoints.figures`) and `oldest_read_s`: whether the
        write-ahead log can be emptied, and what may prevent it.

        `history` is a dict: `retention`, as the argument of `connect`; `bytes`, an estimate of the size of history;
        `limit_bytes`, its limit, None unless `retention` is "auto"; `holds`, a list of the readers that hold history
        back: dicts of `by`, a durable consumer or the feeds of this process, and `from`, the seq past which it has
        still to read, the lowest first; `clock_behind_s`, by how many seconds the clock of this machine is behind the
        newest change: None up to a day; beyond, one of the two is wrong.

        `stopped_views` is a dict: why a table of `materialize` is no longer kept up to date, by its name.

        `expiry` is a dict of the tables with an expiry, by name: dicts of `field`, `expire_after` (a timedelta), `next` (the
        end of the document that is deleted next, None without one) and `never` (the number of documents without a time
        in the field, which never expire)."""
        self._session.check_open()
        # Imported here because most programs have no such table.
        from reactdb.store.materialized_tables import read_stopped_views

        engine = self._session.engine
        oldest_read_s = engine.oldest_read_s()
        with engine.snapshot() as snapshot:
            figures: dict[str, Any] = {
                "path": engine.path,
                "seq": snapshot.seq,
                "oldest": read_low_water(snapshot.connection),
                "hold": read_hold(snapshot.connection),
                "history": measure_history(
                    snapshot.connection, engine.lowest_needed, engine.clock.time_ns() // 1_000_000
                ),
                "tables": {
                    name: snapshot.count(info) for name, info in snapshot.catalogue.ordinary().items()
                },
                "stopped_views": read_stopped_views(snapshot.connection),
                "expiry": show_expiry(snapshot),
            }
        for name, suffix in (("file_bytes", ""), ("wal_bytes", "-wal")):
            try:
                figures[name] = 0 if engine.is_memory else os.stat(engine.path + suffix).st_size
            except OSError:
                figures[name] = 0
        return figures | {"checkpoint": engine.checkpoint_figures(), "oldest_read_s": oldest_read_s}

    def subscriptions(self) -> list[dict[str, Any]]:
        """The open subscriptions of this process on the file, by any handle: `table` (None: all), `kind`, `queued`,
        `dropped`, `delivered`, `is_behind` (it reads from the log) and `lag_seq`. Subscriptions without `dispose()`
        show here."""
        self._session.check_open()
        listener = self._session.engine.publisher.listener
        if listener is None:
            return []
        from reactdb.feeds.inspect import figures

        return [figures(one) for one in cast("FeedHub", listener).subscriptions()]

    def activity(self, *, wait_s: float = 0.5) -> dict[str, Any]:
        """What every process that has feeds on the file does with it, as plain JSON. Nothing is written to the file.

        Other processes of this user are asked, and answer within half a second, if they are not busy. A process
        without feeds does not answer.

        Args:
            wait_s: Seconds that this call waits for answers, from 0 to 60; 0: only this process.

        Returns:
            A dict: `path`; `seq`, the newest change; `oldest`, the position from which the log can be read; `others`, "asked", or
            a sentence why other processes could not be asked; `processes`, this one first; `consumers`, as
            `consumers()`; `holds`, the readers that hold history back, as in `stats()`.

            Each process is a dict: `process`, its number; `program`; `is_this`; `since`, when it opened the file;
            `feed_count`; `feeds`, the first 1,000 of them: dicts of `purpose` ("feed", "live list", "observation",
            "mongodb"), `selection` as text, `table` (None: all), `kind` and `routing` as in `explain()` of a feed,
            `delivery`, `state`, `delivered`, `queued`, `dropped`, `queue_size`, `on_overflow`, `squash_s`, `seq` (its
            position) and `lag` (the changes of the file after it).

        Raises:
            InvalidOption: `wait_s` is something else.
        """
        if isinstance(wait_s, bool) or not isinstance(wait_s, (int, float)) or not 0 <= wait_s <= 60:
            raise InvalidOption(f"wait_s is a number of seconds from 0 to 60, not {format_value(wait_s)}")
        # Imported here because most programs never look.
        from reactdb.store.activity import ONLY_THIS, Answers, ask_others, describe_process

        self._session.check_open()
        engine = self._session.engine
        answers = ask_others(engine, wait_s) if wait_s else Answers(ONLY_THIS, [])
        with engine.snapshot() as snapshot:
            seq, oldest = snapshot.seq, read_low_water(snapshot.connection)
            history = measure_history(
                snapshot.connection, engine.lowest_needed, engine.clock.time_ns() // 1_000_000
            )
        return {
            "path": engine.path,
            "seq": seq,
            "oldest": oldest,
            "others": answers.others,
            "processes": [describe_process(engine), *answers.processes],
            "consumers": self.consumers(),
            "holds": history["holds"],
        }


class OpenTransaction(Database):
    """The object that `db.transaction()` yields: the same database, inside of this transaction, for any task or
    greenlet of its thread that uses the object.

    When the block has ended, every use of it raises TransactionEnded; in another thread, TransactionOwned.
    """

    _session: SessionInside

    def share(self) -> AbstractContextManager[None]:
        """Inside the block, the writes of the running task or greenlet are a part of the transaction, through any
        handle.

        An error that leaves the block rolls nothing back: the transaction continues, and its owner decides.

        Raises:
            TransactionEnded: The transaction has ended; also raised at the end of the block.
            UsageError: It is exclusive.
        """
        return self._session.share()

    def __repr__(self) -> str:
        return f"<OpenTransaction on {self.path!r}{' ended' if self.is_closed else ''}>"

    def __enter__(self) -> OpenTransaction:
        raise self._not_closed()

    def close(self) -> None:
        """Raises: UsageError."""
        raise self._not_closed()

    def _not_closed(self) -> UsageError:
        return UsageError(
            "a transaction ends with the `with` block that began it; to be in it in another task, use "
            "`transaction.table(...)`, or `with transaction.share():`"
        )


class PastDatabase(ReadableDatabase):
    """What `db.at(seq)` gives: the tables and the log as of an earlier seq, to read only.

    A table of it reads as any table does. What only a database has, such as transactions and feeds, raises PastIsReadOnly.
    """

    def __repr__(self) -> str:
        return f"<PastDatabase {self.path!r} as of seq {cast('PastSession', self._session).seq}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Only for names that this class does not have.
            if not name.startswith("_") and hasattr(Database, name):
                raise PastIsReadOnly(cast("PastSession", self._session).seq, name)
            raise missing_member(self, name)


def missing_member(database: ReadableDatabase, name: str) -> AttributeError:
    """The error for a name that a database does not have. If a table has this name, the error shows how to write it."""
    from reactdb.guessed_words import missing_name

    if type(database) is ReadableDatabase and not name.startswith("_") and hasattr(Database, name):
        return AttributeError(
            f"the database that observe() gives its function has the tables of one state, and no `{name}`: "
            "call it on your own database, outside of the function",
            name=name,
        )
    # A database in the middle of its creation, or a copy of one, has no session.
    is_table = False
    if not name.startswith("_") and "_session" in vars(database):
        with suppress(ReactDBError):
            is_table = name in database
    if is_table:
        return AttributeError(
            f"a database has no `{name}`: for the table of this name write db[{name!r}]", name=name
        )
    return missing_name(database, "database", name, dir(type(database)))


explain_wrong_calls(ReadableDatabase, Database, OpenTransaction)
