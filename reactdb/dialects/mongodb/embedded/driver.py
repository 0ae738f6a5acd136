"""PyMongo's classes and checks, each imported when it is first used.

    raise driver.InvalidOperation("No operations to execute")

`import pymongo` imports two clients and asyncio, whichever of its modules is wanted. This takes longer than all else before
the first result, and a program that inserts and reads without an error needs none of it. A program that catches
`pymongo.errors.DuplicateKeyError` has imported PyMongo.

Rule of this file: the other files of this package import PyMongo through it only.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

_HOMES: Final = {
    "pymongo.client_session": ("SessionOptions", "TransactionOptions"),
    "pymongo.collation": ("validate_collation_or_none",),
    "pymongo.common": (
        "BaseObject",
        "validate",
        "validate_list",
        "validate_non_negative_integer_or_none",
        "validate_string_or_none",
    ),
    "pymongo.errors": (
        "BulkWriteError",
        "CollectionInvalid",
        "ConfigurationError",
        "ConnectionFailure",
        "CursorNotFound",
        "DuplicateKeyError",
        "ExecutionTimeout",
        "InvalidName",
        "InvalidOperation",
        "OperationFailure",
        "PyMongoError",
        "WriteError",
    ),
    "pymongo.operations": ("IndexModel", "SearchIndexModel"),
    "pymongo.read_concern": ("DEFAULT_READ_CONCERN",),
    "pymongo.read_preferences": ("ReadPreference",),
    "pymongo.results": ("BulkWriteResult",),
    "pymongo.write_concern": ("DEFAULT_WRITE_CONCERN",),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = getattr(import_module(home), name)
    # The next use finds it without this function.
    globals()[name] = value
    return value
