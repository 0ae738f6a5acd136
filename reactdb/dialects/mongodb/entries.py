"""Entries: stored documents of a collection, and the description of an update in the log.

    key, body = body_of(table, document)                        BSON document -> key and bytes of a table
    found = plain_body_of(table, document)                      the same, if no value needs a conversion
    document = document_of(table, body)                         and back
    meta = meta_of(description)                                 description of an update -> an entry's metadata
    description = description_of(meta, document)                and back

A primary key that BSON cannot say is shown as a text, which stands for that key as an `_id`: see `reactdb.key_spelling`. So each
document has an `_id` of its own.

If the primary key of a table has another name than `_id`, documents show it as `_id`. If such a document also has a field `_id`,
that field appears under the name of the primary key: the two names change places, in both directions.

The paths of an update's operators cannot be worked out later. So they are the entry's metadata; the values at these paths are in
the new document anyway. A table with a write hook, such as a table of CouchDB's dialect, has the hook's metadata instead; for
it, and for other writers, the description is the difference of both documents.

Rule of this file: documents and bytes. They are written in `write_statements`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from bson.objectid import ObjectId
from bson.regex import Regex

from reactdb.dialects.mongodb import natives
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.field_names import NUL, SIGN, parse_name
from reactdb.dialects.mongodb.ids import IdValue
from reactdb.dialects.mongodb.values import (
    MAX_BSON_BYTES,
    PLAIN_WRITERS,
    RESPELLING,
    encode,
    is_exact,
    native_value,
    to_bson,
    to_native,
    value_to_bson,
)
from reactdb.errors import InvalidDocument, InvalidKey
from reactdb.key_spelling import SIGN as SPELLED
from reactdb.key_spelling import KeySpelling
from reactdb.store.catalogue import TableInfo
from reactdb.values import codec, collation
from reactdb.values.shown_values import restore

Description = dict[str, Any]
"""`updatedFields`, `removedFields`, `truncatedArrays` and `disambiguatedPaths`."""

# The first byte of a msgpack map: the metadata of CouchDB's hook is a list.
_MAP_BYTES: Final = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))

TOGETHER: Final = 32
"""Documents per decoding call. More documents make so many objects that the garbage collector scans them."""


# ---------------------------------------------------------------------------------------------------------------
# Documents


def id_of(value: Any, native: Any) -> Any:
    """The primary key for an `_id`.

    Args:
        native: The stored form of this value in other fields.

    Raises:
        MongoError: 53 or 52, the value is no valid `_id`.
    """
    kind = type(value)
    if kind is str:
        return native if native[:1] != SPELLED else KEYS.stored(native)
    if kind is int or kind is ObjectId:
        return native
    if isinstance(value, (list, tuple)):
        raise MongoError(53, "The '_id' value cannot be of type array")
    if isinstance(value, Regex):
        raise MongoError(53, "The '_id' value cannot be of type regex")
    if isinstance(native, dict):
        for name in native:
            if name.startswith("$") and name not in ("$ref", "$id", "$db"):
                raise MongoError(
                    52, f"_id fields may not contain '$'-prefixed fields: {name} is not valid for storage."
                )
    if native is None or isinstance(native, dict):
        return IdValue(native)
    try:
        collation.primary_key_bytes(native)
    except InvalidKey:
        return IdValue(native)
    return native


def key_of(value: Any) -> bytes:
    """The key bytes of an `_id`. Equal numbers have the same key, whatever their types.

    Raises:
        MongoError: As `id_of`; 2, BSON has no such value; 17280, it is too long.
    """
    return key_bytes(id_of(value, native_value(value)))


def key_bytes(native: Any) -> bytes:
    """The same for a stored primary key."""
    try:
        return collation.primary_key_bytes(native)
    except InvalidKey as error:
        raise MongoError(17280, str(error)) from None


def id_shown(key: Any) -> Any:
    """The BSON value that a primary key is shown as, whichever it is."""
    if (
        type(key) is IdValue
        and isinstance(key.value, dict)
        and "$" not in "".join(key.value)
        and is_exact(key.value)
    ):
        return value_to_bson(key.value)
    shown = KEYS.shown(key)
    return value_to_bson(shown.value if type(shown) is IdValue else shown)


def is_spelled(key: Any) -> bool:
    """Whether a value may have another form as a primary key than in other fields. False for the usual keys."""
    kind = type(key)
    if kind is str:
        return bool(key[:1] == SPELLED)
    return kind is not natives.ObjectId and (kind in _FOUND_OTHERWISE or not is_exact(key))


_FOUND_OTHERWISE: Final = frozenset({list, natives.Regex})


def _read_back(key: Any) -> Any:
    kind = type(key)
    if kind is natives.Regex or (kind is list and any(isinstance(inner, list) for inner in key)):
        # A query for it finds other documents, too: those whose text it fits, and for `[1]` the document of `[[1]]`.
        return None
    if kind is not IdValue:
        return native_value(value_to_bson(key))
    value = value_to_bson(key.value)
    return id_of(value, native_value(value))


KEYS: Final = KeySpelling(_read_back)
"""How a primary key is shown as an `_id` that BSON cannot say."""


def body_of(
    table: TableInfo, document: Mapping[str, Any], old_body: bytes | None = None
) -> tuple[bytes, bytes]:
    """The key and the encoded native document of a BSON document with an `_id`.

    Args:
        old_body: The version before. Its values without a BSON form stay as they are if the new document repeats their shown
            form.

    Raises:
        MongoError: As `key_of`; 2, the document cannot be stored; 10334, it is too large.
    """
    native = to_native(document)
    given = native["_id"]
    old = None if old_body is None else codec.decode(old_body)
    own = None if old is None else old[table.primary_key]
    # Other writers may use keys that are no valid `_id`, such as arrays. Such a document may be written if it keeps its key.
    id = own if _is_shown_as(own, given) else id_of(document["_id"], given)
    if table.primary_key != "_id":
        native = {**exchange_names(native, table.primary_key), table.primary_key: id}
    elif id is not given:
        native = {**native, "_id": id}
    if old is not None:
        native = restore(native, old, RESPELLING)
    try:
        body = codec.encode(native)
    except InvalidDocument as error:
        _check_size(document)
        raise MongoError(2, str(error)) from None
    if len(body) > MAX_BSON_BYTES // _MOST_GROWTH:
        _check_size(document)
    return key_bytes(id), body


def _is_shown_as(key: Any, given: Any) -> bool:
    """Whether a primary key of another writer is the shown form of the given `_id`."""
    kind = type(key)
    if key is None or kind in _USUAL_KEYS or (kind is int and -(2**63) <= key < 2**63):
        return False
    return codec.encode_value(native_value(id_shown(key))) == codec.encode_value(given)


_USUAL_KEYS: Final = frozenset({str, natives.ObjectId})

_MOST_GROWTH: Final = 16
"""BSON may take a multiple of the stored bytes: 13 bytes for a small number in an array. Smaller documents fit in any case."""


def is_too_large(document: Mapping[str, Any], body: bytes) -> bool:
    """Whether a stored document is too large for drivers: its BSON may take more than 16 MB though its stored form takes less.

    Args:
        body: The stored bytes.
    """
    return len(body) > MAX_BSON_BYTES // _MOST_GROWTH and len(encode(document)) > MAX_BSON_BYTES


def _check_size(document: Mapping[str, Any]) -> None:
    """Raises: MongoError: 10334, no driver could be sent the document."""
    size = len(encode(document))
    if size > MAX_BSON_BYTES:
        raise MongoError(
            10334, f"BSONObj size: {size} is invalid. Size must be between 0 and {MAX_BSON_BYTES} bytes"
        )


def plain_body_of(table: TableInfo, document: Any) -> tuple[bytes, bytes] | None:
    """The same for a caller's document, if a quick look shows that BSON would change only its dates, to the millisecond.
    Otherwise None; most documents of programs pass.

    Raises:
        MongoError: 17280, the key is too long.
    """
    if type(document) is not dict or table.primary_key != "_id":
        return None
    id = document.get("_id")
    make = _PLAIN_IDS.get(type(id))
    if make is None or (type(id) is str and id[:1] == SPELLED):
        return None
    if next(iter(document)) != "_id":
        document = {"_id": id, **document}
    # BSON's keys end with a NUL, and names with the sign may have another stored form.
    body = codec.encode_foreign(document, PLAIN_WRITERS, no=NUL + SIGN)
    # Integers from 2**32 on begin with this byte, and BSON has no integers from 2**63 on. If the byte belongs to another value,
    # such as an ObjectId, the document takes the slow path for nothing.
    if body is None or b"\xcf" in body:
        return None
    return key_bytes(make(id)), body


_PLAIN_IDS: Final[dict[type, Callable[[Any], Any]]] = {int: int, str: str, ObjectId: native_value}


def document_of(table: TableInfo, body: bytes) -> dict[str, Any]:
    """The BSON document of an encoded native one, `_id` first."""
    return to_document(table, codec.decode(body))


def fields_of(table: TableInfo, bodies: Sequence[bytes], name: str) -> Iterator[dict[str, Any]]:
    """BSON documents of encoded native documents, for reading one field of the first level. Other fields may be missing, and
    documents without this field.
    """
    is_plain = name != "_id" and table.primary_key == "_id"
    stored = parse_name(name)
    for start in range(0, len(bodies), TOGETHER):
        for native in codec.decode_many(bodies[start : start + TOGETHER]):
            if not is_plain:
                yield to_document(table, native)
            elif stored in native:
                yield to_bson({stored: native[stored]})


def to_document(table: TableInfo, native: Mapping[str, Any]) -> dict[str, Any]:
    """The BSON document of a native document. It may share inner values."""
    native = exchange_names(native, table.primary_key)
    id = native["_id"]
    document = to_bson(native)
    # Most are texts and ObjectIds, and a look at them is quicker than a call.
    if id[:1] == SPELLED if type(id) is str else type(id) is not natives.ObjectId and is_spelled(id):
        document = {**document, "_id": id_shown(id)}
    return document if next(iter(document)) == "_id" else {"_id": document["_id"], **document}


def exchange_names(document: Mapping[str, Any], primary_key: str) -> Mapping[str, Any]:
    """The document with `_id` and the name of the primary key swapped."""
    if primary_key == "_id":
        return document
    return {exchange_name(name, primary_key): value for name, value in document.items()}


def exchange_name(name: str, primary_key: str) -> str:
    """The name of a field of the first level on the other side."""
    if name == "_id":
        return primary_key
    return "_id" if name == primary_key else name


# ---------------------------------------------------------------------------------------------------------------
# The description of an update


def meta_of(description: Description) -> bytes:
    """A description as the metadata of an entry."""
    fields = {
        "updated": list(description["updatedFields"]),
        "removed": list(description["removedFields"]),
        "truncated": [[cut["field"], cut["newSize"]] for cut in description["truncatedArrays"]],
        "paths": {path: list(parts) for path, parts in description.get("disambiguatedPaths", {}).items()},
    }
    return codec.encode({name: value for name, value in fields.items() if value})


def with_session(meta: bytes | None, session: bytes, number: int) -> bytes:
    """The metadata of an entry with the session and number of its transaction added."""
    fields = {} if meta is None else codec.decode(meta)
    return codec.encode({**fields, "session": [session, number]})


def is_map(meta: bytes | None) -> bool:
    """Whether an entry's metadata is this dialect's."""
    return bool(meta) and meta[0] in _MAP_BYTES  # type: ignore[index]


def session_of(meta: bytes | None) -> tuple[bytes, int] | None:
    """The session and transaction number in an entry's metadata; None without them."""
    if not is_map(meta):
        return None
    assert meta is not None
    session, number = codec.decode(meta).get("session", (None, 0))
    return None if session is None else (session, number)


def description_of(meta: bytes | None, document: Mapping[str, Any]) -> Description | None:
    """The description in an entry's metadata, with values from the new BSON document; None without a description."""
    if not is_map(meta):
        return None
    assert meta is not None
    fields = codec.decode(meta)
    if "plain" in fields:
        # A native update of a capped collection: its metadata has its place, but no paths.
        return None
    paths: dict[str, Sequence[str | int]] = fields.get("paths", {})
    return {
        "updatedFields": {
            path: _value_at(document, paths.get(path) or path.split("."))
            for path in fields.get("updated", ())
        },
        "removedFields": list(fields.get("removed", ())),
        "truncatedArrays": [{"field": field, "newSize": size} for field, size in fields.get("truncated", ())],
        "disambiguatedPaths": {path: list(parts) for path, parts in paths.items()},
    }


def _value_at(document: Mapping[str, Any], parts: Iterable[str | int]) -> Any:
    value: Any = document
    for part in parts:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value
