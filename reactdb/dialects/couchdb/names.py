"""Names: documents, keys and table names as CouchDB has them, and back.

    native                                CouchDB
    ------------------------------------  ---------------------------------------------------------------------------
    the primary key                       `_id`
    a key that is a string                itself
    any other key                         `=` and its JSON: `=5`, `=["a", 1]`; so are the empty string, and a string that begins
                                          with `_` but not with `_design/`, and one that would be read as such a spelling
    a field that begins with `_`          `=` and its name, because CouchDB has a meaning for each; so has one that begins with
                                          `=_`, `==_` and so on
    values that JSON lacks                typed objects, as `reactdb.json` writes them
    a table's name                        the same, where `$ ( ) + /` are `.24 .28 .29 .2b .2f`

Each comes back as it was.

Rule of this file: values in, values out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from reactdb import json
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.errors import InvalidDocument, InvalidKey
from reactdb.values import collation

DESIGN: Final = "_design/"
AFTER_DESIGNS: Final = "_design0"
"""The least text above all ids of design documents."""
LOCAL: Final = "_local/"
_NAME: Final = re.compile(r"[a-z][a-z0-9_$()+/-]*", re.ASCII)
_PATHS: Final = (
    "_active_tasks _all_dbs _db_updates _dbs_info _membership _node"
    " _reactdb _replicate _scheduler _session _up _utils _uuids"
)
SYSTEM: Final = {
    "_users": "This server keeps no users in a database: give the users when you start the server.",
    "_replicator": "This server runs no replications by itself: `reactdb sync FILE/TABLE URL` does, or the other side.",
    "_global_changes": "This server keeps no database of its changes: use `GET /_db_updates`.",
}
"""Databases with a special meaning in CouchDB, and the error sentence for each."""
RESERVED: Final = frozenset(SYSTEM) | frozenset(_PATHS.split())
"""Names that no database can have, because they have another meaning as the first part of a path."""
_SIGNS: Final = {"$": ".24", "(": ".28", ")": ".29", "+": ".2b", "/": ".2f"}
_SPELLED_SIGN: Final = re.compile(r"\.(24|28|29|2b|2f)")
# CouchDB's replicator writes these into the documents of its jobs. They are ordinary fields.
REPLICATION_FIELDS: Final = frozenset(
    f"_replication_{name}" for name in ("id", "state", "state_time", "state_reason", "start_time", "stats")
)
_PLAIN: Final = "(?!(?:" + "|".join(sorted(name[1:] for name in REPLICATION_FIELDS)) + r")\Z)"
_OURS_INSIDE: Final = re.compile(rf"=*_{_PLAIN}")
_MARKS: Final = frozenset("_=")
_JSON: Final = frozenset({str, int, bool, type(None)})
_SPELLED_OURS: Final = re.compile(rf"=+_{_PLAIN}")
MOST_NAME: Final = 128
MOST_ID_BYTES: Final = 4_096
"""The length of an id, which may be greater than for native keys: some clients make ids of descriptions."""


# ---------------------------------------------------------------------------------------------------------------
# Names of databases


def check_name(name: str) -> None:
    """
    Raises:
        CouchError: 400, CouchDB has no databases of this name.
    """
    if not _NAME.fullmatch(name) or len(table_name(name)) > MOST_NAME:
        raise CouchError(
            400,
            "illegal_database_name",
            f"Name: '{name}'. Only lowercase characters (a-z), digits (0-9), and any of the characters _, $, (, ), +, -, and / "
            "are allowed. Must begin with a letter.",
        )


def check_name_is_served(name: str) -> None:
    """
    Raises:
        CouchError: 501, CouchDB gives the database of this name a special meaning, and it does not have this meaning here.
    """
    if name in SYSTEM:
        raise CouchError(501, "not_implemented", SYSTEM[name])


def table_name(name: str) -> str:
    """The name of a database's table."""
    return "".join(_SIGNS.get(letter, letter) for letter in name)


def database_name(table: str) -> str:
    """The name of a table's database."""
    return _SPELLED_SIGN.sub(lambda match: chr(int(match[1], 16)), table)


# ---------------------------------------------------------------------------------------------------------------
# Keys


def id_of(key: Any) -> str:
    """How a primary key is shown as `_id`."""
    if type(key) is str and not key.startswith("="):
        return key if key and (key[0] != "_" or key.startswith(DESIGN)) else "=" + json.dumps(key)
    text = "=" + json.dumps(key)
    return key if type(key) is str and key_of(key) == key else text


def key_of(id: str) -> Any:
    """The primary key of an `_id`."""
    if not id.startswith("="):
        return id
    try:
        # An equal key, as 1 is to 1.0, is the same key.
        key = collation.key_value(collation.primary_key_bytes(json.loads(id[1:]), MOST_ID_BYTES))
        is_spelling = "=" + json.dumps(key) == id
    except (InvalidDocument, InvalidKey, ValueError):
        return id
    if not is_spelling:
        return id
    if type(key) is str and not (key == "" or (key.startswith(("_", "=")) and not key.startswith(DESIGN))):
        return id
    # A string is spelled only where it could not be shown as it is.
    return id if type(key) is str and key.startswith("=") and key_of(key) == key else key


def check_id(id: object) -> str:
    """
    Raises:
        CouchError: 400, it is no document's id.
    """
    if not isinstance(id, str):
        raise CouchError(400, "illegal_docid", "Document id must be a string")
    if not id:
        raise CouchError(400, "illegal_docid", "Document id must not be empty")
    if id.startswith("_") and not id.startswith((DESIGN, LOCAL)):
        raise CouchError(400, "illegal_docid", "Only reserved document ids may start with underscore.")
    if id in (DESIGN, LOCAL):
        raise CouchError(400, "illegal_docid", f"Illegal document id `{id}`")
    return id


def key_bytes_of(id: str) -> bytes:
    """The bytes of the primary key of an `_id`.

    Raises:
        CouchError: 400, it is too long for a key.
    """
    try:
        return collation.primary_key_bytes(key_of(id), MOST_ID_BYTES)
    except InvalidKey:
        raise CouchError(400, "illegal_docid", "Document id is too long") from None


def key_or_none(id: str) -> bytes | None:
    """The same; None where no document can have this id."""
    try:
        return key_bytes_of(id) if id else None
    except CouchError:
        return None


# ---------------------------------------------------------------------------------------------------------------
# Fields


def to_couchdb_fields(document: Mapping[str, Any], but: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a native document, but for these, as CouchDB shows them."""
    return {
        "=" + name if name[:1] in _MARKS and _OURS_INSIDE.match(name) else name: (
            value if type(value) in _JSON else json.to_json(value)
        )
        for name, value in document.items()
        if name not in but
    }


def to_stored_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The stored fields of a CouchDB document, without CouchDB's special fields."""
    return {
        name[1:] if name[:1] == "=" and _SPELLED_OURS.match(name) else name: _to_stored(value, name)
        for name, value in fields.items()
    }


def _to_stored(value: Any, name: str) -> Any:
    try:
        return json.from_json(value, [name])
    except InvalidDocument:
        # A typed object with a wrong form is meant as a plain object.
        return value
