"""reactdb: the embedded database that a Python process can subscribe to.

One SQLite file; documents in, changes out.

    import reactdb
    from reactdb import row

    db = reactdb.connect("arena.db")
    games = db.table_create("games", exist_ok=True)
    games.filter(row["score"] > 10).changes().subscribe(print)
    games.insert({"player": "Bob", "score": 12})

This module has the public names, with the errors that programs usually catch. `reactdb.errors` has all errors. A name is
imported at its first use, so that `import reactdb` alone is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

__version__ = "0.1.0"

if TYPE_CHECKING:
    from reactdb import errors as errors
    from reactdb.aio.database import AsyncDatabase, aconnect
    from reactdb.change import Change, Commit
    from reactdb.database import Database, OpenTransaction, PastDatabase, connect, delete_database
    from reactdb.dialects.aidbox.aidbox import aidbox
    from reactdb.dialects.couchdb.couch import couchdb
    from reactdb.dialects.mongodb.mongodb import mongodb
    from reactdb.dialects.rethinkdb.embedded import rethinkdb
    from reactdb.errors import (
        Conflict,
        CorruptDatabase,
        DatabaseBusy,
        DuplicateKey,
        FeedOverflow,
        HistoryDiverged,
        HistoryLost,
        InvalidDocument,
        InvalidOption,
        OutcomeUnknown,
        ReactDBError,
        TableNotFound,
        TransactionOwned,
        UnsupportedFeed,
        UsageError,
    )
    from reactdb.expression import Expression, asc, branch, desc, literal, r, row
    from reactdb.feeds.events import ChangeEvent
    from reactdb.feeds.feed import AsyncCursor, Cursor, Feed
    from reactdb.feeds.livelist import LiveList
    from reactdb.feeds.livevalue import LiveValue
    from reactdb.feeds.reader import FeedReader
    from reactdb.observation import Observation
    from reactdb.replication.sync import Sync, sync
    from reactdb.table import Selection, Table
    from reactdb.undo_stack import UndoStack
    from reactdb.values.blob import Blob
    from reactdb.values.codec import FrozenDict, FrozenList, thaw
    from reactdb.values.collation import maxval, minval

_HOMES = {
    "reactdb.aio.database": ("AsyncDatabase", "aconnect"),
    "reactdb.change": ("Change", "Commit"),
    "reactdb.values.blob": ("Blob",),
    "reactdb.values.codec": ("FrozenDict", "FrozenList", "thaw"),
    "reactdb.values.collation": ("maxval", "minval"),
    "reactdb.database": ("Database", "OpenTransaction", "PastDatabase", "connect", "delete_database"),
    "reactdb.dialects.aidbox.aidbox": ("aidbox",),
    "reactdb.dialects.couchdb.couch": ("couchdb",),
    "reactdb.dialects.mongodb.mongodb": ("mongodb",),
    "reactdb.dialects.rethinkdb.embedded": ("rethinkdb",),
    "reactdb.errors": (
        "Conflict",
        "CorruptDatabase",
        "DatabaseBusy",
        "DuplicateKey",
        "FeedOverflow",
        "HistoryDiverged",
        "HistoryLost",
        "InvalidDocument",
        "InvalidOption",
        "OutcomeUnknown",
        "ReactDBError",
        "TableNotFound",
        "TransactionOwned",
        "UnsupportedFeed",
        "UsageError",
    ),
    "reactdb.expression": ("Expression", "asc", "branch", "desc", "literal", "r", "row"),
    "reactdb.feeds.events": ("ChangeEvent",),
    "reactdb.feeds.feed": ("AsyncCursor", "Cursor", "Feed"),
    "reactdb.feeds.livelist": ("LiveList",),
    "reactdb.feeds.livevalue": ("LiveValue",),
    "reactdb.feeds.reader": ("FeedReader",),
    "reactdb.observation": ("Observation",),
    "reactdb.replication.sync": ("Sync", "sync"),
    "reactdb.table": ("Selection", "Table"),
    "reactdb.undo_stack": ("UndoStack",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AsyncCursor",
    "AsyncDatabase",
    "Blob",
    "Change",
    "ChangeEvent",
    "Commit",
    "Conflict",
    "CorruptDatabase",
    "Cursor",
    "Database",
    "DatabaseBusy",
    "DuplicateKey",
    "Expression",
    "Feed",
    "FeedOverflow",
    "FeedReader",
    "FrozenDict",
    "FrozenList",
    "HistoryDiverged",
    "HistoryLost",
    "InvalidDocument",
    "InvalidOption",
    "LiveList",
    "LiveValue",
    "Observation",
    "OpenTransaction",
    "OutcomeUnknown",
    "PastDatabase",
    "ReactDBError",
    "Selection",
    "Sync",
    "Table",
    "TableNotFound",
    "TransactionOwned",
    "UndoStack",
    "UnsupportedFeed",
    "UsageError",
    "aconnect",
    "aidbox",
    "asc",
    "branch",
    "connect",
    "couchdb",
    "delete_database",
    "desc",
    "literal",
    "maxval",
    "minval",
    "mongodb",
    "r",
    "rethinkdb",
    "row",
    "sync",
    "thaw",
]


# Modules of their own: `reactdb.json.dumps` after `import reactdb`.
_MODULES: Final = ("errors", "json", "notebook", "qt", "spark", "testing", "textual", "web")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"reactdb.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        instead = f"it is reactdb.errors.{name}" if name in import_module("reactdb.errors").__all__ else None
        if instead is None and not name.startswith("_"):
            words = import_module("reactdb.guessed_words")
            instead = words.MODULE.get(name) or words.nearest(name, __dir__())
        hint = "" if instead is None else f": {instead}"
        raise AttributeError(f"module 'reactdb' has no attribute {name!r}{hint}", name=name)
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    # Without what this file imports, and without inner modules: the names for a user's completion.
    return sorted({*__all__, *_MODULES})
