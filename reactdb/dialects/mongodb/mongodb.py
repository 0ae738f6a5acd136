"""`reactdb.mongodb(db)`: MongoDB's dialect in the process.

Rule of this file: it can be imported without PyMongo, and reports the missing extra.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from reactdb.database import Database
from reactdb.errors import InvalidOption, MissingExtra, format_value

if TYPE_CHECKING:
    from reactdb.dialects.mongodb.embedded.client import EmbeddedClient

__all__ = ["mongodb"]


def mongodb(db: Database, default: str = "reactdb", **options: Any) -> EmbeddedClient:
    """The databases and collections of a file, with the names, arguments and results of PyMongo's `MongoClient`, in the process.

        orders = reactdb.mongodb(db)["shop"]["orders"]
        orders.insert_one({"item": "tea"})
        with orders.watch() as stream: ...

    Args:
        db: The database, which stays open as long as it is used here.
        default: The database whose collections are the tables with plain names, such as native tables.
        options: The options of `MongoClient` for encoding and decoding documents: `document_class`, `type_registry`,
            `tz_aware`, `tzinfo`, `datetime_conversion`, `uuidRepresentation`, `unicode_decode_error_handler`.

    Raises:
        MissingExtra: PyMongo is not installed.
        InvalidOption: It is no open Database.
        pymongo.errors.OperationFailure: `default` is no valid name of a database.
        pymongo.errors.ConfigurationError, TypeError, ValueError: An option is unknown, or has an invalid value.
    """
    if find_spec("pymongo") is None:
        raise MissingExtra("reactdb.mongodb", "pymongo", "mongodb")
    if not isinstance(db, Database):
        raise InvalidOption(
            f"mongodb takes an open Database, as `connect` returns it, not {format_value(db)}"
        )
    from reactdb.dialects.mongodb.embedded.client import EmbeddedClient

    return EmbeddedClient(db, default, **options)
