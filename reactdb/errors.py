"""All errors of reactdb, as one map.

    ReactDBError
    ├── UsageError                the caller's mistake; nothing was changed
    │   ├── InvalidDocument       cannot be stored and come back equal (also a ValueError)
    │   │   └── TypeMismatch      a document does not fit the type of `db.table(name, type=...)`
    │   ├── InvalidKey            cannot be a primary key or an index bound (also a ValueError)
    │   ├── InvalidName           of a table or an index (also a ValueError)
    │   ├── InvalidOption         an option's value or type (also a TypeError and a ValueError)
    │   ├── TableNotFound         (also a LookupError, like IndexNotFound)
    │   ├── TableExists
    │   ├── IndexNotFound
    │   ├── IndexExists
    │   ├── OperatorNotFound      an operator of reactivex was called as a method of a feed (also an AttributeError)
    │   ├── BlobNotFound          the bytes of a large value are not in the file (also a LookupError)
    │   ├── DuplicateKey          insert of a taken key
    │   │   └── DuplicateIndexKey a unique index would have one value for two documents
    │   ├── Conflict              a document is not as the caller expects: another writer was there first
    │   ├── HookNotFound          a write to a table with a write hook unknown in this process (also a LookupError)
    │   ├── TransactionOwned      a write was refused: another task or greenlet of its thread has a transaction open
    │   ├── TransactionEnded      the object of a transaction was used after its end
    │   ├── TransactionRolledBack another task ended a transaction, or a block inside of it had not ended
    │   ├── ReadOnlyDatabase      a write through a read-only handle or view of the past
    │   │   └── PastIsReadOnly    a member that only a database has, used on a view of the past (also an AttributeError)
    │   ├── DatabaseClosed
    │   ├── IncompatibleSchema    the file was migrated by a newer version of the program
    │   ├── SchemaMismatch        a document does not fit the schema of Spark or of a frame (also a ValueError)
    │   ├── SparkUnavailable      a package for Spark is not installed
    │   ├── MissingExtra          a package of an extra, such as msgspec, is not installed (also a ModuleNotFoundError)
    │   └── QueryError            ReQL's logic error
    │       ├── MissingValue      ReQL's non-existence error: no such field, null where a value must be
    │       ├── NotExactlyOne     `one()` found no document, or several (also a LookupError)
    │       ├── UnsupportedFeed   the result of this query cannot be kept up to date
    │       ├── NotAValue         a selection or a feed was compared, tested or measured (also a TypeError)
    │       ├── ResourceLimit     an array or a pattern beyond its bound
    │       └── RaisedError       `r.error("...")` in an expression
    ├── FeedError                 the end of a feed
    │   ├── FeedOverflow          the reader lagged, and the feed was opened with on_overflow="error"
    │   ├── FeedAborted           the table or an index went away
    │   ├── HistoryLost           retention has removed the requested changes
    │   └── HistoryDiverged       the position belongs to a lost future
    ├── SyncFailed                another database could not be reached, or refused a synchronisation
    ├── CannotListen              a server's port is in use, or its address is not this machine's (also an OSError)
    ├── LeaseLost                 another worker has the consumer now, and this acknowledgement was refused
    └── StorageError              trouble with the file
        ├── CannotOpen            missing folder, a folder instead of a file, no permission, no locks, a second name
        ├── NotADatabase          some other file
        ├── IncompatibleFormat    a reactdb file of a newer format, or a foreign schema
        ├── DatabaseBusy          another process or thread held the write lock too long
        ├── DiskFull
        ├── WalTooLarge           checkpoints fail, and the write-ahead log has reached its limit
        ├── StorageMoved          the file was unlinked, renamed or replaced while it was open
        │   └── MovedAtCommit     noticed by a write that may be stored: also an OutcomeUnknown
        ├── CorruptDatabase
        │   └── DamagedAtCommit   noticed by a write that may be stored: also an OutcomeUnknown
        ├── OutcomeUnknown        an error during COMMIT: the write may or may not be stored
        └── ForkedDatabase        a handle from before fork(), used in the child

Rule of this file: an error is named by the fault, builds its own sentence and keeps the data. Where ReQL has a
sentence for the mistake, that sentence is used, so that a user of RethinkDB recognises it.
"""

from __future__ import annotations

from typing import Any, Final

INTERRUPTS: Final = (KeyboardInterrupt, SystemExit)
"""The exceptions that end a program, or a thread of it. They pass through reactdb to its caller. All other exceptions
of a subscriber, of any type, end only that subscriber."""


def format_value(value: object, length: int = 60) -> str:
    """A caller's value for a message: short, in one line, whatever the `repr` of its type returns."""
    try:
        # Only the part of a long text that will be shown is taken.
        text = repr(value[:length] if isinstance(value, (str, bytes)) and len(value) > length else value)
        return " ".join(text.split()) if len(text) <= length else f"{text[: length - 3]}..."
    except Exception:
        return f"<{type(value).__qualname__}>"


def format_word(value: object) -> str:
    """The same for an option with a few allowed words: a text has no quotes, as in ReQL's sentences."""
    return f"{value:.60}" if type(value) is str else format_value(value)


def is_one_of(value: object, words: tuple[str, ...]) -> bool:
    """Whether an option is one of these words. Only texts are compared: an array of numbers, for example, has no
    single truth for equality."""
    return isinstance(value, str) and value in words


def describe_type(value: object) -> str:
    """The words by which a message names the type of a value."""
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"of type {name}"


def describe_function(function: object) -> str:
    """A function by its place in the program: the same after its module was imported again. Lambdas have no names, so
    their lines tell them apart."""
    name = (
        f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', format_value(function))}"
    )
    code = getattr(function, "__code__", None)
    return f"{name} in line {code.co_firstlineno}" if code is not None and name.endswith("<lambda>") else name


Place = tuple[str, int]
"""A file and a line of a program."""


class ReactDBError(Exception):
    """Anything that reactdb raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Python would call the class with the sentence, and most classes build theirs from something else.
        return _rebuild_error, (type(self), self.args, self.__dict__)


def how_to_install(extra: str) -> str:
    """The commands that install an extra: for an installed copy, and for a checkout, whose folder is the package."""
    return (
        f"python -m pip install 'reactdb[{extra}]', or in a checkout: python -m pip install -e '.[{extra}]'"
    )


def _rebuild_error(kind: type[ReactDBError], args: tuple[Any, ...], state: dict[str, Any]) -> ReactDBError:
    """Rebuild an error that was pickled in another process, with the same sentence and the same data."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


# ---------------------------------------------------------------------------------------------------------------
# The caller's mistakes


class UsageError(ReactDBError):
    """The arguments of a call make no sense; nothing was changed."""


class InvalidDocument(UsageError, ValueError):
    """The document could not come back equal, so it was refused before it was stored.

    `path` names the place inside the document: `()` is the document itself, `("tags", 3)` its fourth tag.
    """

    def __init__(self, reason: str, path: tuple[str | int, ...] = ()) -> None:
        self.reason = reason
        self.path = path
        super().__init__(f"{render_path(path)}: {reason}")


class TypeMismatch(InvalidDocument):
    """A document does not fit the type that was given to `db.table(name, type=...)`: a document that is to be stored, or one that
    is stored already.

    Attributes:
        table: The name of the table.
        key: The primary key of a stored document; None for one that is not stored yet.
        path: The place in the document: `()` is the document itself, `("tags", 3)` its fourth tag.
        reason: Such as "expected bool, found text".
    """

    def __init__(self, table: str, reason: str, path: tuple[str | int, ...] = (), key: object = None) -> None:
        super().__init__(reason, path)
        self.table = table
        self.key = key
        stored = "" if key is None else f"/{key:.100}" if type(key) is str else f"/{format_value(key)}"
        # As JSONPath writes it.
        place = "$" + "".join(
            f"[{step}]" if isinstance(step, int) or step == "..." else f".{step}" for step in path
        )
        self.args = (f"{table}{stored}: {place}: {reason}",)


def render_path(path: tuple[str | int, ...]) -> str:
    """`("a", 0, "b c")` as `document["a"][0]["b c"]`, cut where it gets long."""
    steps = path if len(path) <= 12 else (*path[:6], "...", *path[-5:])
    return "document" + "".join(
        f"[{step!r}]" if len(repr(step)) < 80 else f"[{repr(step)[:77]}...]" for step in steps
    )


class InvalidKey(UsageError, ValueError):
    """The value cannot be a primary key (or, where the sentence says so, an index bound)."""


class InvalidName(UsageError, ValueError):
    """Names of tables and indexes: a letter, digit or underscore, then those, dots and hyphens; 128 at most."""

    def __init__(self, kind: str, name: object) -> None:
        super().__init__(
            f"{kind} name {format_value(name)} is invalid: use letters, digits and _, then also . and -, at most 128 characters"
        )
        self.kind = kind
        self.name = name


class InvalidOption(UsageError, TypeError, ValueError):
    """An option has a value that it cannot have."""


class TableNotFound(UsageError, LookupError):
    """No table has this name."""

    def __init__(self, name: str, advice: str = "") -> None:
        super().__init__(f"Table `{name}` does not exist.{advice}")
        self.name = name


class TableExists(UsageError):
    """A table with this name exists already."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Table `{name}` already exists.")
        self.name = name


class IndexNotFound(UsageError, LookupError):
    """The table has no index with this name."""

    def __init__(self, index: str, table: str) -> None:
        super().__init__(f"Index `{index}` was not found on table `{table}`.")
        self.index = index
        self.table = table


class IndexExists(UsageError):
    """The table has an index with this name already."""

    def __init__(self, index: str, table: str) -> None:
        super().__init__(f"Index `{index}` already exists on table `{table}`.")
        self.index = index
        self.table = table


class OperatorNotFound(UsageError, AttributeError):
    """A feed has ReQL's methods. The operators of reactivex are reached through `feed.pipe(...)`. `name` is the operator."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"a feed has no method `{name}`: write feed.pipe(ops.{name}(...)), with `from reactivex import operators as ops`"
        )
        self.name = name


class BlobNotFound(UsageError, LookupError):
    """The bytes of a large value are not in this file: they were never put there, or nothing referred to them and they were
    removed. `blob` is its name, as text."""

    def __init__(
        self, blob: object, reason: str = "is not in this database: put its content with db.blobs.put, first"
    ) -> None:
        self.blob = str(blob)
        super().__init__(f"Blob `{self.blob:.120}` {reason}.")


class DuplicateKey(UsageError):
    """`insert` met a taken key; `conflict=` has the other ways to handle it.

    `old` and `new` are the stored document and the refused one, as ReQL prints them. A duplicate in a unique index has an
    error of its own, `DuplicateIndexKey`.
    """

    def __init__(self, primary_key: str, old: str, new: str) -> None:
        super().__init__(f"Duplicate primary key `{primary_key}`:\n{old}\n{new}")
        self.primary_key = primary_key


class DuplicateIndexKey(DuplicateKey):
    """A value of a unique index would belong to several documents. Nothing was written.

    A single write raises it at once. A transaction is checked at its end, so two documents may swap their values in it.
    `index_create(..., unique=True)` raises it if the documents have duplicates already.

    Attributes:
        table, index: The names.
        value: The value that the documents share; a list for a compound index.
        key: The primary key of one of the documents: the document that was written last.
        other: The primary key of another one.
        duplicates: (value, primary keys), of up to 10 values, with up to 10 documents each.
    """

    def __init__(self, table: str, index: str, duplicates: list[tuple[Any, list[Any]]]) -> None:
        shown = "; ".join(
            f"{format_value(value)} would belong to the documents {' and '.join(map(format_value, keys))}"
            for value, keys in duplicates
        )
        UsageError.__init__(self, f"Duplicate value in unique index `{index}` of table `{table}`: {shown}.")
        self.primary_key = ""
        self.table = table
        self.index = index
        self.duplicates = duplicates
        self.value, keys = duplicates[0]
        self.other, self.key = keys[0], keys[-1]


class Conflict(UsageError):
    """A document is not as the caller expects: another writer has changed it. Nothing was written. Read it again, and decide
    again.

    Attributes:
        documents: A dict for each of these documents: `table`, `key`, and `document`, its present content (None: it does
            not exist).
    """

    def __init__(
        self, operation: str, reason: str, documents: list[dict[str, Any]], advice: str = ""
    ) -> None:
        names = ", ".join(f"{one['table']}/{format_value(one['key'], 40)}" for one in documents[:5])
        more = f" and {len(documents) - 5} more" if len(documents) > 5 else ""
        super().__init__(f"{operation}: {reason}: {names}{more}; nothing was written{advice}")
        self.operation = operation
        self.documents = documents


class HookNotFound(UsageError, LookupError):
    """The table can be read and watched here, but not written: the metadata of each new version would be missing."""

    def __init__(self, hook: str, table: str) -> None:
        super().__init__(
            f"Table `{table}` has the write hook `{hook}`, which is unknown in this process: before a write, "
            f"import the module that registers the hook (for reactdb's own dialects, "
            f"`reactdb.dialects.{hook.partition('.')[0]}`)."
        )
        self.hook = hook
        self.table = table


class TransactionOwned(UsageError):
    """A write was refused, because the open transaction belongs to another flow, for which the write cannot wait.

    A transaction belongs to the thread, the asyncio task and the greenlet that began it. Another task or greenlet of
    its thread must not wait for its end: the end could not come.

    Attributes:
        operation: The refused operation.
        owner: The owner of the transaction: "task 'pay'", for example.
        place: (file, line) of its `with`; None for a running single write.
        caller: The flow of the refused write.
    """

    def __init__(
        self,
        operation: str,
        owner: str,
        place: Place | None,
        caller: str,
        *,
        is_exclusive: bool = False,
        is_inner: bool = False,
        is_other_thread: bool = False,
    ) -> None:
        where = describe_place(place)
        if is_other_thread:
            message = (
                f"{operation}: the transaction of {owner}{where} cannot be used in {caller}: only tasks and greenlets of its own "
                "thread can be in it"
            )
        elif is_inner:
            message = (
                f"{operation}: {owner} is inside of a part of this transaction{where} that can fail alone, and would then "
                f"roll back other writes: {caller} may write after the end of that part"
            )
        elif is_exclusive:
            message = (
                f"{operation}: the transaction that {owner} has open in this thread{where} is exclusive: only reads "
                "and writes through the yielded object are a part of it (`with db.transaction(exclusive=True) as transaction:`, "
                "then `transaction.table(...)`)"
            )
        else:
            what = "is writing in this thread" if place is None else "has a transaction open in this thread"
            message = (
                f"{operation}: {owner} {what}{where}, and {caller} is not in it: hand the transaction object over "
                "(`with db.transaction() as transaction:`, then `transaction.table(...)`, or `with transaction.share():`), or "
                "write in another thread (`await asyncio.to_thread(...)`), which waits for its end"
            )
        super().__init__(f"{message}; nothing was written")
        self.operation = operation
        self.owner = owner
        self.place = place
        self.caller = caller


class TransactionEnded(UsageError):
    """The object of a transaction, or a block inside of it, was used after the transaction had ended. The write was
    not made.

    Attributes:
        operation: The refused operation.
        place: (file, line) of its `with`; None where it is not known.
    """

    def __init__(self, operation: str, place: Place | None) -> None:
        super().__init__(
            f"{operation}: the transaction{describe_place(place)} has ended, and nothing can be a part of it any more; "
            "nothing was written"
        )
        self.operation = operation
        self.place = place


class TransactionRolledBack(UsageError):
    """A transaction, or a part of one, was rolled back instead of committed: its block ended in the wrong place.

    Either another flow ended it: an async generator that begins in one task and ends in another does so. Or an inner
    block, or a task that shares it, had not ended yet.

    Attributes:
        place: (file, line) of the `with`.
        owner: The flow that began it.
        ended_by: The flow that ended it; None for the same flow.
        inner: The flow that is still inside of it; None without such a flow.
        inner_place: (file, line) from where.
    """

    def __init__(
        self,
        place: Place | None,
        owner: str,
        ended_by: str | None,
        *,
        inner: str | None = None,
        inner_place: Place | None = None,
    ) -> None:
        if ended_by is not None:
            why = f"{owner} began it, and {ended_by} ended it: begin and end it in one"
        else:
            why = f"{inner} was still inside{describe_place(inner_place)}: the inner one has to end first"
        super().__init__(f"the transaction{describe_place(place)} was rolled back: {why}")
        self.place = place
        self.owner = owner
        self.ended_by = ended_by
        self.inner = inner
        self.inner_place = inner_place


def describe_place(place: Place | None) -> str:
    """`(file, line)` of a `with`, as a part of a sentence."""
    return "" if place is None else f" (`with` in {place[0]}, line {place[1]})"


class ReadOnlyDatabase(UsageError):
    """A write through a handle or a view that only reads."""


class PastIsReadOnly(ReadOnlyDatabase, AttributeError):
    """The use of a member that only a database has, on a view of the past. `name` is the name of this member."""

    def __init__(self, seq: int, name: str) -> None:
        hint = f"use changes(since={seq}) of the database" if name == "changes" else "use the database itself"
        super().__init__(f"the database as of seq {seq} is the past, and has no `{name}`: {hint}")
        self.seq = seq
        self.name = name


class DatabaseClosed(UsageError):
    """The handle was used after it was closed."""

    def __init__(self, path: str) -> None:
        super().__init__(f"database {path} is closed")
        self.path = path


class IncompatibleSchema(UsageError):
    """A newer version of the program has migrated the file, and this one does not know its newest steps. Nothing was written.

    Attributes:
        user_version: The version of the file.
        known: The number of steps that this program knows.
    """

    def __init__(self, path: str, user_version: int, known: int) -> None:
        super().__init__(
            f"{path} has user_version {user_version}, and this program knows {known} migrations: a newer version of the program "
            "has migrated the file, and only such a version may write it"
        )
        self.user_version = user_version
        self.known = known


class SchemaMismatch(UsageError, ValueError):
    """A document does not fit the schema of a read by Spark that was set to fail fast, or of `to_arrow`. `document` is that
    document, `reason` says where it fails and why."""

    def __init__(
        self,
        document: str,
        reason: str,
        advice: str = "give another schema, or option mode=PERMISSIVE and a column _corrupt STRING for the original document",
    ) -> None:
        super().__init__(f"{document} does not fit the schema: {reason}; {advice}")
        self.document = document
        self.reason = reason


class SparkUnavailable(UsageError):
    """Java, pyspark or pyarrow is missing, or its version does not fit. The sentence says what to install."""


class MissingExtra(UsageError, ModuleNotFoundError):
    """A package for an optional part of the library is not installed. The sentence names the extra with it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}: {how_to_install(extra)}")
        self.name = package
        self.extra = extra


class QueryError(UsageError):
    """ReQL's logic error: the query, or one value in it, makes no sense."""


class MissingValue(QueryError):
    """ReQL's non-existence error: no such field, or null where a value must be. `filter` turns it into its default."""


class NotExactlyOne(QueryError, LookupError):
    """`one()` found no document, or several. `count` is their number."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"one() needs exactly one document and found {count or 'none'}: first() takes the first, or None"
        )
        self.count = count


class UnsupportedFeed(QueryError):
    """The result of this query cannot be kept up to date; the sentence says why."""


class NotAValue(QueryError, TypeError):
    """A selection, or a feed, was compared, tested or measured as if it were its own result.

    It is a TypeError too, because `list` tries `len` by itself, and takes a TypeError for "no length".
    """


class ResourceLimit(QueryError):
    """Something grew beyond its stated bound."""


class RaisedError(QueryError):
    """`r.error("...")` was evaluated."""


# ---------------------------------------------------------------------------------------------------------------
# The end of a feed


class FeedError(ReactDBError):
    """A feed ended before its reader did."""


class FeedOverflow(FeedError):
    """The reader lagged behind by more than its queue holds. Reopen with `since=` the last seq that was seen."""

    def __init__(self, skipped: int) -> None:
        super().__init__(f"Changefeed cache over array size limit, skipped {skipped} elements.")
        self.skipped = skipped


class FeedAborted(FeedError):
    """The table, or an index that the feed needs, is gone; or the feed was interrupted during a delivery, or its
    subscriber has raised an exception that is no Exception (then that is the cause)."""


def as_end(error: BaseException) -> Exception:
    """The error with which a feed ends after its user's code has raised `error`: that error, or a FeedAborted with it
    as its cause, where it is no Exception. Raised again where the feed is read, a CancelledError would cancel the
    reader's task."""
    if isinstance(error, Exception):
        return error
    end = FeedAborted(f"Changefeed aborted (code of its subscriber raised {type(error).__name__})")
    end.__cause__ = error
    return end


class HistoryLost(FeedError):
    """Retention has already removed changes that the reader needs.

    Recover by reading a snapshot and continuing from its seq.
    """

    def __init__(self, since: int, oldest: int, where: str = "", advice: str = "") -> None:
        super().__init__(f"{where}changes since seq {since} are gone; the log starts at seq {oldest}{advice}")
        self.since = since
        self.oldest = oldest


class HistoryDiverged(FeedError):
    """The position was handed out for a history that this file no longer has, or never had.

    After a power cut under `durability="soft"`, after a restored backup, or with another file's token.
    Recover by reading a snapshot and continuing from its seq.
    """


# ---------------------------------------------------------------------------------------------------------------
# The end of a synchronisation


class SyncFailed(ReactDBError):
    """A synchronisation with another database cannot continue. Changes copied before are on both sides, and in the
    checkpoints.

    `url` is the other database's, without a password.
    """

    def __init__(self, url: str, reason: str, sentence: str | None = None) -> None:
        super().__init__(sentence or f"no synchronisation with {url}: {reason}")
        self.url = url
        self.reason = reason


# ---------------------------------------------------------------------------------------------------------------
# Errors of servers


class CannotListen(ReactDBError, OSError):
    """A server cannot listen on its address. The underlying error is `__cause__`, and `errno` its number.

    `option` is the option to change, "port" or "host", or None where neither is at fault.
    """

    def __init__(self, host: str, port: int, reason: str, option: str | None, errno: int | None) -> None:
        super().__init__(reason if option is None else f"{reason}; choose another with `{option}=`")
        self.host = host
        self.port = port
        self.reason = reason
        self.option = option
        self.errno = errno


# ---------------------------------------------------------------------------------------------------------------
# Errors of durable consumers


class LeaseLost(ReactDBError):
    """An acknowledgement came too late: another worker has taken the consumer over, or its position was moved.

    Nothing was moved, and a transaction around it is rolled back. The new worker handles the changes again. `fence`
    is the fencing number of the batch, `newest` the present one; None where the consumer was removed.
    """

    def __init__(self, name: str, partition: int, fence: int, newest: int | None) -> None:
        if newest is None:
            why = "it was removed"
        elif newest == fence:
            why = "its position was moved"
        else:
            why = f"it was taken over: its fencing number is {newest} now, and the batch has {fence}"
        super().__init__(
            f"consumer `{name}`, partition {partition}: this batch cannot be acknowledged any more, because {why}; the "
            "work that was done with it outside of the file will be repeated, so deduplicate there by the changes' ids"
        )
        self.name = name
        self.partition = partition
        self.fence = fence
        self.newest = newest


# ---------------------------------------------------------------------------------------------------------------
# Trouble with the file


class StorageError(ReactDBError):
    """Trouble from outside: the file, the disk, the lock. The underlying error is `__cause__`."""


class CannotOpen(StorageError):
    """The file cannot be opened; `reason` says why: no such folder, no permission, no locks. `is_unfinished`: it is empty, or
    was left half-made by a crash."""

    def __init__(self, path: str, reason: str, *, is_unfinished: bool = False) -> None:
        super().__init__(f"cannot open {path}: {reason}")
        self.path = path
        self.reason = reason
        self.is_unfinished = is_unfinished


class NotADatabase(StorageError):
    """The file exists and is not a file of reactdb."""

    def __init__(self, path: str, reason: str = "it is not an SQLite file", advice: str = "") -> None:
        super().__init__(f"{path} is not a reactdb database: {reason}{advice}")
        self.path = path
        self.reason = reason


class IncompatibleFormat(StorageError):
    """The file is newer than this version of reactdb, needs a newer SQLite, or has a type or an operation that this process
    has not registered. Nothing was touched."""


class DatabaseBusy(StorageError):
    """Another connection held the write lock for the whole `busy_timeout`, or a file to be removed is open. Nothing was
    written; try again.

    For a transaction of this process, `operation` is the waiting operation, `owner` the owner of the transaction, and
    `place` is (file, line) of its `with`. Otherwise they are None.
    """

    def __init__(
        self,
        message: str,
        *,
        operation: str | None = None,
        owner: str | None = None,
        place: Place | None = None,
    ) -> None:
        super().__init__(message)
        self.operation = operation
        self.owner = owner
        self.place = place


class DiskFull(StorageError):
    """There was no room for the write; it was rolled back whole."""


class WalTooLarge(StorageError):
    """Checkpoints fail, and the write-ahead log has grown beyond `wal_limit_bytes`. Nothing was written.

    `reason` says why it cannot be emptied; without that reason, the next write succeeds.
    """

    def __init__(self, operation: str, path: str, wal_bytes: int, limit_bytes: int, reason: str) -> None:
        super().__init__(
            f"{operation}: the write-ahead log of {path} has {wal_bytes} bytes, more than its limit of {limit_bytes}, "
            f"and cannot be emptied; nothing was written ({reason})"
        )
        self.path = path
        self.wal_bytes = wal_bytes
        self.limit_bytes = limit_bytes
        self.reason = reason


class StorageMoved(StorageError):
    """The file (or its write-ahead log) was unlinked, renamed or replaced while it was open.

    A write that raises this was not stored, unless the error is `MovedAtCommit`, and the handle refuses further use.
    Also raised where another program writes a file that was opened as immutable (to read, in a folder where no file
    can be made).
    """


class CorruptDatabase(StorageError):
    """The file contradicts itself, or a part of it does not match its checksum. `reactdb doctor FILE` says where, and
    `reactdb export --salvage FILE` exports the readable documents.

    `table`, `key` and `seq` name the document or log entry, as far as they are known. A handle that met damage in a
    write refuses further writes; it still reads.
    """

    def __init__(
        self, message: str, *, table: str | None = None, key: object = None, seq: int | None = None
    ) -> None:
        super().__init__(message)
        self.table = table
        self.key = key
        self.seq = seq


class OutcomeUnknown(StorageError):
    """An error reached COMMIT itself: the write is stored whole or not at all, and only a read can tell."""


class MovedAtCommit(StorageMoved, OutcomeUnknown):
    """The same, noticed by a write after its COMMIT: that write may be stored, in the opened file and perhaps in the
    file at its path now. Only a read can tell.
    """


class DamagedAtCommit(CorruptDatabase, OutcomeUnknown):
    """The first page of the file is damaged, noticed by a write after its COMMIT: that write may be stored, in the
    write-ahead log. `reactdb export --salvage FILE` reads the log, too.
    """


class ForkedDatabase(StorageError):
    """A handle opened before fork() was used in the child. Open the path again there."""


__all__ = sorted(
    name
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, ReactDBError)
)
