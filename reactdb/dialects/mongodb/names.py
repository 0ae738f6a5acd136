"""Names: databases and collections as the names of tables, and back.

    names = Names("reactdb")
    names.table(MongoNamespace("shop", "orders"))        "shop.orders"
    names.namespace("orders")                       MongoNamespace("reactdb", "orders")

Collection `orders` of database `shop` is the table `shop.orders`. A collection of the default database is a table without the
database's name, if its own name has no dot; so every native table is a collection there.

A table's name has only ASCII letters, digits and `_.-`. Each byte of any other letter is `-.` and two hexadecimal digits, and so
is a `-` before a dot. If a name would begin with `-`, or with `_` and then `-`, it gets another `_` as a prefix.

Rule of this file: the encoding is reversible. A table whose name no namespace encodes to is no collection.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.store.catalogue import NAME

DEFAULT_DATABASE: Final = "reactdb"
"""The default name of the database whose collections are tables without a dot in their names."""

INTERNAL: Final = frozenset({"admin", "local", "config"})
"""Databases without change streams."""

_MOST_DATABASE_BYTES: Final = 63
_NOT_IN_DATABASE: Final = re.compile(r'[/\\. "$\x00]')
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.\-]|-(?=\.)", re.ASCII)
_SPELLED: Final = re.compile(r"(?:-\.[0-9a-f]{2})+")
_MARKED: Final = re.compile(r"_*-")


class MongoNamespace(NamedTuple):
    """A database, or one of its collections.

    Attributes:
        coll: None for the database itself.
    """

    db: str
    coll: str | None = None

    def __str__(self) -> str:
        return self.db if self.coll is None else f"{self.db}.{self.coll}"

    @property
    def is_of_system(self) -> bool:
        """It is a collection without events in change streams."""
        return self.coll is not None and (self.coll.startswith("system.") or "$" in self.coll)


def namespace_of(text: str) -> MongoNamespace:
    """`shop.orders` taken apart at its first dot."""
    db, dot, coll = text.partition(".")
    return MongoNamespace(db, coll if dot else None)


def check_database_name(name: object) -> str:
    """
    Raises:
        MongoError: 73, no database can have this name.
    """
    if (
        type(name) is not str
        or not name
        or len(name.encode(errors="replace")) > _MOST_DATABASE_BYTES
        or _NOT_IN_DATABASE.search(name)
    ):
        raise MongoError(73, f"Invalid database name: '{name}'")
    return name


def check_collection_name(name: object) -> str:
    """
    Raises:
        MongoError: 73, no collection can have this name.
    """
    if type(name) is not str:
        raise MongoError(73, f"Collection name must be a string, not {type(name).__name__}")
    if not name or "\0" in name or name.startswith(".") or name.endswith("."):
        raise MongoError(73, f"Invalid collection name: '{name}'")
    return name


def check_new_name(namespace: MongoNamespace) -> None:
    """
    Raises:
        MongoError: 73, a new collection cannot have this name. An existing one with it is usable all the same.
    """
    name = namespace.coll or ""
    if "$" in name or (name.startswith("system.") and not _OF_SYSTEM.match(name)):
        raise MongoError(73, f"Invalid namespace specified '{namespace}'")


_OF_SYSTEM: Final = re.compile(r"system\.(?:js|profile|users|roles|version|views|buckets\..+)\Z")


class Names:
    """The encoding of one file's namespaces.

    Attributes:
        default: The default database.
    """

    def __init__(self, default: str = DEFAULT_DATABASE) -> None:
        """
        Raises:
            MongoError: 73, no database can have this name.
        """
        self.default = check_database_name(default)
        # The same few names are converted again and again.
        self.namespace = lru_cache(maxsize=4_096)(self._namespace)
        self.table = lru_cache(maxsize=4_096)(self._table)

    def _table(self, namespace: MongoNamespace) -> str:
        """The name of a collection's table.

        Raises:
            MongoError: 73, there can be no such collection, or its name is too long for a table's.
        """
        db, coll = check_database_name(namespace.db), check_collection_name(namespace.coll)
        name = _encode(coll if db == self.default and "." not in coll else f"{db}.{coll}")
        if NAME.fullmatch(name) is None:
            raise MongoError(73, f"Fully qualified namespace is too long for a table's name: {namespace}")
        return name

    def _namespace(self, table: str) -> MongoNamespace | None:
        """The namespace of a table; None if its name is not the result of `table` for any namespace."""
        text = _decode(table)
        if text is None:
            return None
        namespace = namespace_of(text) if "." in text else MongoNamespace(self.default, text)
        try:
            return namespace if self._table(namespace) == table else None
        except MongoError:
            return None


def _encode(text: str) -> str:
    table = _FOREIGN.sub(
        lambda match: "".join(f"-.{byte:02x}" for byte in match[0].encode(errors="replace")), text
    )
    return "_" + table if _MARKED.match(table) else table


def _decode(table: str) -> str | None:
    text = table[1:] if table.startswith("_") and _MARKED.match(table) else table
    try:
        return _SPELLED.sub(lambda match: bytes.fromhex(match[0].replace("-.", "")).decode(), text)
    except UnicodeDecodeError:
        return None
