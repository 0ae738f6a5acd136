"""Names: PyMongo's own checks for the name of a database or a collection.

Rule of this file: PyMongo's rules and errors. `names` has this dialect's own rules.
"""

from __future__ import annotations

from typing import Any

from reactdb.dialects.mongodb.embedded import driver

__all__ = ["check_collection_spelling", "check_database_spelling"]


def check_database_spelling(name: Any) -> None:
    """
    Raises:
        TypeError, InvalidName.
    """
    _check_text(name)
    if not name:
        raise driver.InvalidName("database name cannot be the empty string")
    for letter in ' .$/\\\0"':
        if letter in name:
            raise driver.InvalidName(f"database names cannot contain the character {letter!r}")


def check_collection_spelling(name: Any) -> None:
    """
    Raises:
        TypeError, InvalidName.
    """
    _check_text(name)
    if not name or ".." in name:
        raise driver.InvalidName("collection names cannot be empty")
    if "$" in name and not name.startswith(("oplog.$main", "$cmd")):
        raise driver.InvalidName(f"collection names must not contain '$': {name!r}")
    if name[0] == "." or name[-1] == ".":
        raise driver.InvalidName(f"collection names must not start or end with '.': {name!r}")
    if "\0" in name:
        raise driver.InvalidName("collection names must not contain the null character")


def _check_text(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name must be an instance of str, not {type(name)}")
