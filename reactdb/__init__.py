"""reactdb: the embedded database that a Python process can subscribe to.

One SQLite file; documents in, changes out.

    import reactdb
    from reactdb import row

    db = reactdb.connect("arena.db")
    games = db.table_create("games", exist_ok=True)
    games.filter(row["score"] > 10).changes().subscribe(print)
    games.insert({"player": "Bob", "score": 12})

Everything public is a name of this module. They are imported when they are first used, so that `import reactdb` alone is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from reactdb.change import Change, Commit
    from reactdb.database import Database, OpenTransaction, connect, remove
    from reactdb.dialects.aidbox.aidbox import aidbox
    from reactdb.dialects.mongodb.opening import mongodb
    from reactdb.errors import (
        BlobNotFound,
        CannotListen,
        CannotOpen,
        CorruptDatabase,
        DamagedAtCommit,
        DatabaseBusy,
        DatabaseClosed,
        DiskFull,
        DuplicateKey,
        FeedAborted,
        FeedError,
        FeedOverflow,
        ForkedDatabase,
        HistoryDiverged,
        HistoryLost,
        HookNotFound,
        IncompatibleFormat,
        IndexExists,
        IndexNotFound,
        InvalidDocument,
        InvalidKey,
        InvalidName,
        InvalidOption,
        LeaseLost,
        MissingExtra,
        MissingValue,
        MovedAtCommit,
        NotADatabase,
        NotAValue,
        OutcomeUnknown,
        QueryError,
        RaisedError,
        ReactDBError,
        ReadOnlyDatabase,
        ResourceLimit,
        SchemaMismatch,
        SparkUnavailable,
        StorageError,
        StorageMoved,
        SyncFailed,
        TableExists,
        TableNotFound,
        TransactionEnded,
        TransactionOwned,
        TransactionRolledBack,
        UnsupportedFeed,
        UsageError,
        WalTooLarge,
    )
    from reactdb.expression import Expression, asc, branch, desc, literal, r, row
    from reactdb.feeds.feed import Cursor, Feed
    from reactdb.feeds.livelist import LiveList
    from reactdb.feeds.reader import FeedReader
    from reactdb.replication.syncing import Sync, sync
    from reactdb.table import Selection, Table
    from reactdb.values.blob import Blob
    from reactdb.values.codec import FrozenDict, FrozenList, thaw
    from reactdb.values.collation import maxval, minval

_HOMES = {
    "reactdb.change": ("Change", "Commit"),
    "reactdb.values.blob": ("Blob",),
    "reactdb.values.codec": ("FrozenDict", "FrozenList", "thaw"),
    "reactdb.values.collation": ("maxval", "minval"),
    "reactdb.database": ("Database", "OpenTransaction", "connect", "remove"),
    "reactdb.dialects.aidbox.aidbox": ("aidbox",),
    "reactdb.dialects.mongodb.opening": ("mongodb",),
    "reactdb.errors": (
        "BlobNotFound",
        "CannotListen",
        "CannotOpen",
        "CorruptDatabase",
        "DamagedAtCommit",
        "DatabaseBusy",
        "DatabaseClosed",
        "DiskFull",
        "DuplicateKey",
        "FeedAborted",
        "FeedError",
        "FeedOverflow",
        "ForkedDatabase",
        "HistoryDiverged",
        "HistoryLost",
        "HookNotFound",
        "IncompatibleFormat",
        "IndexExists",
        "IndexNotFound",
        "InvalidDocument",
        "InvalidKey",
        "InvalidName",
        "InvalidOption",
        "LeaseLost",
        "MissingExtra",
        "MissingValue",
        "MovedAtCommit",
        "NotADatabase",
        "NotAValue",
        "OutcomeUnknown",
        "QueryError",
        "RaisedError",
        "ReactDBError",
        "ReadOnlyDatabase",
        "ResourceLimit",
        "SchemaMismatch",
        "SparkUnavailable",
        "StorageError",
        "StorageMoved",
        "SyncFailed",
        "TableExists",
        "TableNotFound",
        "TransactionEnded",
        "TransactionOwned",
        "TransactionRolledBack",
        "UnsupportedFeed",
        "UsageError",
        "WalTooLarge",
    ),
    "reactdb.expression": ("Expression", "asc", "branch", "desc", "literal", "r", "row"),
    "reactdb.feeds.feed": ("Cursor", "Feed"),
    "reactdb.feeds.livelist": ("LiveList",),
    "reactdb.feeds.reader": ("FeedReader",),
    "reactdb.replication.syncing": ("Sync", "sync"),
    "reactdb.table": ("Selection", "Table"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Blob",
    "BlobNotFound",
    "CannotListen",
    "CannotOpen",
    "Change",
    "Commit",
    "CorruptDatabase",
    "Cursor",
    "DamagedAtCommit",
    "Database",
    "DatabaseBusy",
    "DatabaseClosed",
    "DiskFull",
    "DuplicateKey",
    "Expression",
    "Feed",
    "FeedAborted",
    "FeedError",
    "FeedOverflow",
    "FeedReader",
    "ForkedDatabase",
    "FrozenDict",
    "FrozenList",
    "HistoryDiverged",
    "HistoryLost",
    "HookNotFound",
    "IncompatibleFormat",
    "IndexExists",
    "IndexNotFound",
    "InvalidDocument",
    "InvalidKey",
    "InvalidName",
    "InvalidOption",
    "LeaseLost",
    "LiveList",
    "MissingExtra",
    "MissingValue",
    "MovedAtCommit",
    "NotADatabase",
    "NotAValue",
    "OpenTransaction",
    "OutcomeUnknown",
    "QueryError",
    "RaisedError",
    "ReactDBError",
    "ReadOnlyDatabase",
    "ResourceLimit",
    "SchemaMismatch",
    "Selection",
    "SparkUnavailable",
    "StorageError",
    "StorageMoved",
    "Sync",
    "SyncFailed",
    "Table",
    "TableExists",
    "TableNotFound",
    "TransactionEnded",
    "TransactionOwned",
    "TransactionRolledBack",
    "UnsupportedFeed",
    "UsageError",
    "WalTooLarge",
    "aidbox",
    "asc",
    "branch",
    "connect",
    "desc",
    "literal",
    "maxval",
    "minval",
    "mongodb",
    "r",
    "remove",
    "row",
    "sync",
    "thaw",
]


def __getattr__(name: str) -> Any:
    if name in ("json", "spark", "testing"):
        # Modules of their own, not names of it: `reactdb.json.dumps` after `import reactdb`.
        return import_module(f"reactdb.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'reactdb' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
