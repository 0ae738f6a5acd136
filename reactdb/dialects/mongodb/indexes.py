"""Indexes of a collection: making, listing and dropping them, and the check of unique keys.

The specification of an index is kept with the collection (`namespaces`). Its entries are in an index of the store on
`index_keys`; the constant in that index's expression has everything for computing and checking the entries.

A unique index of the dialect is a unique index of the store (`reactdb.store.unique`): its keys belong to at most one document,
whoever writes. The dialect's own writes also look before each document, because MongoDB reports each one, with its own error.
Only the dialect checks an index with a collation, whose equal texts have different keys, and an index with `prepareUnique`.

Rule of this file: it changes no document.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from bson.int64 import Int64
from bson.regex import Regex

from reactdb.dialects.mongodb.bson_order import TextKey, equal, is_text, sort_key, type_name
from reactdb.dialects.mongodb.collation import check_collation, expand_collation, text_key
from reactdb.dialects.mongodb.entries import document_of
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.field_names import format_name, parse_name
from reactdb.dialects.mongodb.index_keys import (
    MARKS,
    OPERATION,
    FieldBound,
    IndexKey,
    bracket_range,
    index_keys,
    index_keys_of,
    range_of,
    value_bytes,
)
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import ID_INDEX, MODIFIABLE, keep_indexes, read_record
from reactdb.dialects.mongodb.numeric import INT32_MAX, as_float, is_number, truncate
from reactdb.dialects.mongodb.targets import Target
from reactdb.dialects.mongodb.values import native_value, to_bson, value_to_bson
from reactdb.errors import DuplicateIndexKey
from reactdb.expression import Expression, field_path, to_data
from reactdb.expression.build import call_node
from reactdb.expression.tree import Call, Constant, Row, constant
from reactdb.store.catalogue import NAME, IndexInfo, TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec, collation

__all__ = [
    "CollectionIndex",
    "check_native_unique",
    "check_unique",
    "create",
    "drop",
    "duplicate_key",
    "indexes_of",
    "is_there",
    "list_of_table",
    "native_unique",
]

ID: Final = "_id"

assert callable(index_keys)  # Importing it registers the operation.


class CollectionIndex:
    """An index of a collection, read from its table.

    Attributes:
        info: The store's index.
        spec: The constant of the expression: `name`, `paths`, `key`, `unique`, `sparse`, `partial`, `expires` ...
        key: The paths, in order.
    """

    __slots__ = ("info", "key", "spec")

    def __init__(self, info: IndexInfo, spec: Mapping[str, Any]) -> None:
        self.info = info
        self.spec = spec
        self.key: list[str] = list(map(format_name, spec["key"]))

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def is_unique(self) -> bool:
        """Each key belongs to at most one document."""
        return bool(self.spec["unique"])

    @property
    def refuses(self) -> bool:
        """A write fails if another document has its key. Older documents may share a key while `prepareUnique` is on."""
        return self.is_unique or bool(self.spec.get("prepares"))

    @property
    def is_partial(self) -> bool:
        """Documents may be missing from the index though a filter on its fields matches them."""
        return self.spec["partial"] is not None

    @property
    def partial(self) -> dict[str, Any] | None:
        """The filter of a partial index; None if the index has all documents."""
        filter_document: dict[str, Any] | None = value_to_bson(self.spec["partial"])
        return filter_document

    @property
    def serves(self) -> bool:
        """It has entries, and is not hidden."""
        return bool(self.spec["paths"]) and not self.spec["hidden"]

    @property
    def collation(self) -> Any:
        """The collation for comparing texts in the unique check; None compares by code points."""
        return value_to_bson(self.spec.get("collation"))

    @property
    def has_marks(self) -> bool:
        """The index marks documents with entries that do not belong to their place in the sort order."""
        return bool(self.spec.get("marks"))

    @property
    def expires_s(self) -> float | None:
        """Seconds until a document expires; None without expiry."""
        seconds: float | None = self.spec["expires"]
        return seconds


def indexes_of(table: TableInfo) -> list[CollectionIndex]:
    """The dialect's indexes of a table, in the order of their creation."""
    indexes = []
    for info in table.indexes.values():
        node = info.expression.node
        if isinstance(node, Call) and node.operation == OPERATION:
            spec = node.arguments[1]
            assert isinstance(spec, Constant)
            indexes.append(CollectionIndex(info, spec.value))
    return indexes


# ---------------------------------------------------------------------------------------------------------------
# The unique check


def check_unique(
    target: Target,
    table: TableInfo,
    unique: Iterable[CollectionIndex],
    namespace: MongoNamespace,
    key: bytes,
    body: bytes,
) -> None:
    """
    Args:
        key, body: The document before it is written.

    Raises:
        MongoError: 11000, another document has the same key in a unique index.
    """
    document = codec.decode(body)
    snapshot = target.snapshot()
    for index in unique:
        texts = text_key(index.collation)
        for index_key in index_keys_of(document, index.spec):
            if texts is not None:
                _check_unique_text(snapshot, index, namespace, key, index_key, texts)
                continue
            data = collation.key_bytes(index_key.data)
            for entry in snapshot.entries(index.info, data, data + b"\x00"):
                if entry.key != key:
                    raise _duplicate(namespace, index.spec, index_key)


def native_unique(table: TableInfo) -> list[IndexInfo]:
    """The unique indexes of a table that another dialect or a program has made."""
    own = {index.info.id for index in indexes_of(table)} if table.has_unique else ()
    return [info for info in table.indexes.values() if info.is_unique and info.id not in own]


def check_native_unique(
    target: Target,
    unique: Iterable[IndexInfo],
    namespace: MongoNamespace,
    key: bytes,
    body: bytes,
) -> None:
    """The same as `check_unique` for the result of `native_unique`."""
    document = codec.decode(body)
    snapshot = target.snapshot()
    for info in unique:
        for index_id, data, _ in info.stored_entries(document):
            if index_id > 0 and any(one.key != key for one in snapshot.entries(info, data, data + b"\x00")):
                path = field_path(info.expression)
                name = info.name if path is None else ".".join(path)
                value = value_to_bson(collation.key_value(data))
                raise duplicate_key(namespace, info.name, {name: 1}, {name: value})


def _check_unique_text(
    snapshot: Snapshot,
    index: CollectionIndex,
    namespace: MongoNamespace,
    key: bytes,
    index_key: IndexKey,
    texts: TextKey,
) -> None:
    """Check one key under a collation: equal texts may have different bytes, so all candidates are compared.

    Raises:
        MongoError: 11000.
    """
    wanted = _sort_keys(index_key, texts)
    prefix, bound = b"", None
    for value in index_key.values:
        data = value_bytes(value)
        if isinstance(value, (str, dict, list)):
            bound = FieldBound(*bracket_range(data))
            break
        prefix += data
    for entry in snapshot.entries(index.info, *range_of(prefix, bound)):
        if entry.key != key and wanted in (
            _sort_keys(other, texts) for other in index_keys_of(codec.decode(entry.body), index.spec)
        ):
            raise _duplicate(namespace, index.spec, index_key)


def _sort_keys(index_key: IndexKey, texts: TextKey | None) -> tuple[Any, ...]:
    return tuple(sort_key(value_to_bson(value), texts) for value in index_key.values)


def _duplicate(namespace: MongoNamespace, spec: Mapping[str, Any], index_key: IndexKey) -> MongoError:
    pattern = to_bson(spec["key"])
    values = dict(zip(pattern, map(value_to_bson, index_key.values), strict=True))
    return duplicate_key(namespace, str(spec["name"]), pattern, values)


def duplicate_key(
    namespace: MongoNamespace, index: str, pattern: Mapping[str, Any], values: Mapping[str, Any]
) -> MongoError:
    """The error for a duplicate key."""
    shown = ", ".join(f"{name}: {_shell(value)}" for name, value in values.items())
    return MongoError(
        11000,
        f"E11000 duplicate key error collection: {namespace} index: {index} dup key: {{ {shown} }}",
        keyPattern=dict(pattern),
        keyValue=dict(values),
    )


def _shell(value: Any) -> str:
    """A value as an error message shows it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_text(value):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name}: {_shell(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[ " + ", ".join(map(_shell, value)) + " ]" if value else "[]"
    if type(value).__name__ == "ObjectId":
        return f"ObjectId('{value}')"
    if isinstance(value, datetime):
        return f"new Date({value.isoformat()})"
    return repr(value) if isinstance(value, float) else str(value)


# ---------------------------------------------------------------------------------------------------------------
# Making and dropping

_OPTIONS: Final = frozenset(
    [
        "key",
        "name",
        "unique",
        "sparse",
        "partialFilterExpression",
        "expireAfterSeconds",
        "hidden",
        "v",
        "background",
        "ns",
        "collation",
        "weights",
        "default_language",
        "language_override",
        "textIndexVersion",
        "2dsphereIndexVersion",
        "bits",
        "min",
        "max",
        "wildcardProjection",
        "prepareUnique",
        "storageEngine",
        "clustered",
        "dropDups",
        "bucketSize",
    ]
)
_SHOWN_OPTIONS: Final = (
    "unique",
    "sparse",
    "partialFilterExpression",
    "expireAfterSeconds",
    "hidden",
    "background",
    "collation",
    "prepareUnique",
    "wildcardProjection",
)
_OF_ID: Final = frozenset(("key", "name", "v", "ns", "collation"))
"""The fields allowed in a specification of the `_id` index."""
_MOST_FIELDS: Final = 32
_MOST_INDEXES: Final = 64
"""Per collection, including the `_id` index."""
_KINDS: Final = frozenset(("text", "2d", "2dsphere", "geoHaystack"))


def name_of(key: Mapping[str, Any]) -> str:
    """The default name, as drivers build it: `a_1_b_-1`."""
    return "_".join(f"{name}_{value}" for name, value in key.items())


def check_index(given: Mapping[str, Any], namespace: MongoNamespace, own: Any = None) -> dict[str, Any]:
    """The specification of an index as it is kept and listed.

    Args:
        own: The collation of the collection, for an index without its own.

    Raises:
        MongoError: 67, such an index is not supported; 9, 14, 197, the specification is invalid.
    """
    if not isinstance(given, Mapping):
        raise MongoError(14, "The elements of the 'indexes' array must be objects")
    for option in given:
        if option not in _OPTIONS:
            raise MongoError(
                197,
                f"The field '{option}' is not valid for an index specification. Specification: {dict(given)}",
            )
    key = given.get("key")
    if not isinstance(key, Mapping):
        raise MongoError(9, "The 'key' property of an index specification must be an object")
    if not key:
        raise MongoError(67, "Index keys cannot be an empty object")
    check_keys(key)
    _check_flags(given, key)
    name = _name(given, key)
    if "partialFilterExpression" in given and given.get("sparse"):
        raise MongoError(67, 'cannot mix "partialFilterExpression" and "sparse" options')
    partial = given.get("partialFilterExpression")
    if partial is not None:
        if not isinstance(partial, Mapping):
            raise MongoError(14, "'partialFilterExpression' must be an object")
        from reactdb.dialects.mongodb.filters import Filter

        Filter(partial)
        _check_partial(partial)
    made: dict[str, Any] = {"v": 2, "key": dict(key), "name": name}
    for option in _SHOWN_OPTIONS:
        value = given.get(option)
        if option in given and value is not None and (value is not False or option == "background"):
            made[option] = value
    if "expireAfterSeconds" in given:
        made["expireAfterSeconds"] = _seconds(given["expireAfterSeconds"])
        if len(key) != 1:
            raise MongoError(67, "TTL indexes are single-field indexes, compound indexes do not support TTL")
    if given.get("collation") == {}:
        raise MongoError(2, "a collation of an index cannot be empty")
    texts: Any = made.pop("collation", None) or own
    if texts and check_collation(texts)["locale"] != "simple":
        made["collation"] = texts
        if given.get("unique") or given.get("prepareUnique"):
            text_key(texts)
    return made


def check_keys(key: Mapping[str, Any]) -> None:
    """
    Raises:
        MongoError: 67, 13103, 16764 or 31303, an index cannot have these keys; 2, nor this order of `_id`.
    """
    if len(key) > _MOST_FIELDS:
        raise MongoError(13103, f"an index has at most {_MOST_FIELDS} fields")
    for field, value in key.items():
        names = field.split(".")
        if not all(names):
            raise MongoError(67, f"Index keys cannot contain an empty field: '{field}'")
        if any(name.startswith("$") and name not in ("$**", "$id", "$ref", "$db") for name in names):
            raise MongoError(67, f"Index key contains an illegal field name: '{field}' begins with '$'")
        if is_text(value):
            if value in _KINDS:
                raise MongoError(67, f"indexes of type '{value}' are not supported")
            if value == "wildcard":
                raise MongoError(7246202, "an index of all fields has the key '$**', and no type 'wildcard'")
            if value != "hashed":
                raise MongoError(67, f"Unknown index plugin '{value}'")
        elif not is_number(value) or not as_float(value) or math.isnan(as_float(value)):
            raise MongoError(67, f"Values in v:2 index key pattern cannot be of type {type_name(value)} or 0")
    if sum(is_text(value) for value in key.values()) > 1:
        raise MongoError(31303, "A maximum of one index field is allowed to be hashed")
    if len(key) == 1 and ID in key and is_number(key[ID]) and as_float(key[ID]) < 0:
        raise MongoError(2, "The field 'key' for an _id index must be {_id: 1}")


def _name(given: Mapping[str, Any], key: Mapping[str, Any]) -> str:
    """The name of an index.

    Raises:
        MongoError: 14, it is no text; 67 or 2, no index can be called so.
    """
    name: Any = given.get("name")
    if name is None:
        name = name_of(key)
    if not is_text(name):
        raise MongoError(14, f"The field 'name' of an index must be a string, not {type_name(name)}")
    if not name:
        raise MongoError(67, "The index name cannot be empty")
    if name == "*" or (name == ID_INDEX["name"] and not equal(dict(key), ID_INDEX["key"])):
        raise MongoError(2, f"The index name '{name}' is not valid.")
    return name


def _seconds(given: Any) -> int:
    """`expireAfterSeconds`, without its fraction.

    Raises:
        MongoError: 67, it is no number or out of range.
    """
    if not is_number(given):
        raise MongoError(67, f"TTL index 'expireAfterSeconds' option must be numeric, not {type_name(given)}")
    if math.isnan(as_float(given)):
        raise MongoError(67, "TTL index 'expireAfterSeconds' option must not be NaN")
    seconds = truncate(given)
    if not 0 <= seconds <= INT32_MAX or as_float(given) < 0:
        raise MongoError(67, f"TTL index 'expireAfterSeconds' option must be within 0 and {INT32_MAX}")
    return seconds


def _check_flags(given: Mapping[str, Any], key: Mapping[str, Any]) -> None:
    """
    Raises:
        MongoError: 14, an option has the wrong type; 197, the `_id` index cannot have it; 67, a wildcard index cannot have it.
    """
    for option in ("unique", "sparse", "hidden"):
        value = given.get(option, False)
        if not isinstance(value, bool) and (option == "hidden" or not is_number(value)):
            raise MongoError(
                14, f"The field '{option}' has value {value!r:.60}, which is not convertible to bool"
            )
    if list(key.items()) == [(ID, 1)]:
        _check_of_id(given)
    if given.get("unique") and "hashed" in key.values():
        raise MongoError(16764, "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.")
    if "wildcardProjection" in given and not any("$**" in field for field in key):
        raise MongoError(2, "The field 'wildcardProjection' is only allowed in an index on '$**'")
    if any("$**" in field for field in key):
        _check_fields(given, key)
        for option in ("unique", "sparse", "expireAfterSeconds"):
            if given.get(option, False) is not False:
                raise MongoError(67, f"Index type 'wildcard' does not support the {option} option")


def _check_of_id(given: Mapping[str, Any]) -> None:
    """
    Raises:
        MongoError: 197, the `_id` index takes none of these options, not even with their default value.
    """
    if given.get("clustered"):
        # `listIndexes` shows this field for a clustered collection, and tools send it back unchanged.
        return
    for option in given:
        if option not in _OF_ID and not (option == "hidden" and given[option] is False):
            raise MongoError(
                197,
                f"The field '{option}' is not valid for an _id index specification. Specification: {dict(given)}",
            )


def _check_fields(given: Mapping[str, Any], key: Mapping[str, Any]) -> None:
    """
    Raises:
        MongoError: 14, 9 and others, `wildcardProjection` is no valid projection.
    """
    if "wildcardProjection" not in given:
        return
    fields = given["wildcardProjection"]
    if not isinstance(fields, Mapping):
        raise MongoError(14, "The field 'wildcardProjection' must be an object")
    if not fields or "$**" not in key:
        raise MongoError(9, "The field 'wildcardProjection' is a projection of an index on '$**'")
    from reactdb.dialects.mongodb.expressions import Scope
    from reactdb.dialects.mongodb.shapes import projection

    projection(fields, Scope())


_IN_PARTIAL: Final = frozenset(
    {"$and", "$or", "$in", "$eq", "$gt", "$gte", "$lt", "$lte", "$exists", "$type"}
)


def _check_partial(spec: Any) -> None:
    """
    Raises:
        MongoError: 67, the filter uses an operator that partial indexes do not support.
    """
    if isinstance(spec, Regex):
        raise MongoError(67, "Expression not supported in partial index: $regex")
    if isinstance(spec, list):
        for part in spec:
            _check_partial(part)
    if not isinstance(spec, Mapping):
        return
    for name, operand in spec.items():
        if name.startswith("$") and name not in _IN_PARTIAL and name not in ("$ref", "$id", "$db"):
            raise MongoError(67, f"Expression not supported in partial index: {name}")
        if name == "$exists" and not operand:
            raise MongoError(67, "Expression not supported in partial index: $exists: false")
        if not name.startswith("$") or name in ("$and", "$or", "$in"):
            _check_partial(operand)


def _constant_of(spec: Mapping[str, Any], table: TableInfo) -> dict[str, Any]:
    """The constant for the expression of the store's index."""
    names = [] if any("$**" in name for name in spec["key"]) else spec["key"]
    paths = [parse_name(name).split(".") for name in names]
    for path in paths:
        if path[0] == ID:
            path[0] = table.primary_key
    is_compared = spec.get("unique") or spec.get("prepareUnique")
    fields = {
        "name": spec["name"],
        "key": spec["key"],
        "paths": paths,
        "unique": bool(spec.get("unique")),
        "sparse": bool(spec.get("sparse")),
        "partial": spec.get("partialFilterExpression"),
        "expires": spec.get("expireAfterSeconds"),
        "hidden": bool(spec.get("hidden")),
        "primary_key": table.primary_key,
        "marks": True,
        # Entries hold the texts themselves. The unique check looks for texts that the collation makes equal.
        **({"collation": spec["collation"]} if is_compared and "collation" in spec else {}),
        **({"prepares": True} if spec.get("prepareUnique") else {}),
    }
    made: dict[str, Any] = native_value(fields)
    return made


def create(
    transaction: WriteTransaction,
    table: TableInfo,
    namespace: MongoNamespace,
    given: Sequence[Mapping[str, Any]],
) -> tuple[int, int]:
    """Make indexes, except those that exist already.

    Returns:
        The number of indexes before and after, including the `_id` index.

    Raises:
        MongoError: 85, 86, a similar index exists with other options or another name; 11000, documents share a unique key.
    """
    record = read_record(transaction, table)
    kept, own = list(record.indexes), record.options.get("collation")
    before = len(kept)
    # Change streams report each row of `keep_indexes`: the indexes of an empty collection one by one, as MongoDB's streams do.
    is_empty = not transaction.snapshot().rows(table, limit=1)
    for one in given:
        spec = check_index(one, namespace, own)
        if list(spec["key"].items()) == [(ID, 1)]:
            continue
        if is_there(spec, kept):
            continue
        if len(kept) + 1 >= _MOST_INDEXES:
            raise MongoError(67, f"Cannot create index: a collection has at most {_MOST_INDEXES}")
        kept.append(spec)
        table = transaction.catalogue.by_id[table.id]
        _add(transaction, table, namespace, spec)
        if is_empty:
            keep_indexes(transaction, table, kept)
    if len(kept) > before and not is_empty:
        keep_indexes(transaction, table, kept)
    return before + 1, len(kept) + 1


def _signature(spec: Mapping[str, Any]) -> tuple[Any, ...]:
    """The identity of an index within its collection, apart from its name."""
    flags = (bool(spec.get("unique")), bool(spec.get("sparse")))
    return list(spec["key"].items()), *flags, spec.get("partialFilterExpression"), spec.get("collation")


def is_there(spec: Mapping[str, Any], kept: Iterable[Mapping[str, Any]]) -> bool:
    for known in kept:
        is_alike = _signature(known) == _signature(spec)
        same_options = {k: v for k, v in known.items() if k != "name"} == {
            k: v for k, v in spec.items() if k != "name"
        }
        if known["name"] == spec["name"]:
            if not is_alike:
                raise MongoError(
                    86,
                    f"An existing index has the same name as the requested index. Requested index: {dict(spec)}, "
                    f"existing index: {dict(known)}",
                )
            if not same_options:
                raise MongoError(
                    85,
                    "An equivalent index already exists with the same name but different options. "
                    f"Requested index: {dict(spec)}, existing index: {dict(known)}",
                )
            return True
        if is_alike:
            raise MongoError(85, f"Index already exists with a different name: {known['name']}")
    return False


def _add(
    transaction: WriteTransaction, table: TableInfo, namespace: MongoNamespace, spec: Mapping[str, Any]
) -> None:
    fields = _constant_of(spec, table)
    tree = Expression(call_node(OPERATION, (Row(), constant(fields))))
    name = _name_in_store(spec["name"], table)
    is_unique = bool(spec.get("unique"))
    try:
        transaction.create_index(
            table, name, codec.encode_value(to_data(tree)), True, is_unique and "collation" not in fields
        )
    except DuplicateIndexKey as error:
        raise _duplicate_in_store(transaction, table, namespace, fields, error) from None
    if not is_unique or "collation" not in fields:
        return
    table = transaction.catalogue.by_id[table.id]
    index = next(one for one in indexes_of(table) if one.info.name == name)
    texts = text_key(index.collation)
    seen: dict[tuple[Any, ...], bytes] = {}
    for entry in transaction.snapshot().entries(index.info, MARKS[1]):
        for index_key in index_keys_of(codec.decode(entry.body), index.spec):
            if seen.setdefault(_sort_keys(index_key, texts), entry.key) != entry.key:
                raise _duplicate(namespace, index.spec, index_key)


def _duplicate_in_store(
    transaction: WriteTransaction,
    table: TableInfo,
    namespace: MongoNamespace,
    spec: Mapping[str, Any],
    error: DuplicateIndexKey,
) -> MongoError:
    """The store's error in MongoDB's words."""
    others, keys = (
        index_keys_of(codec.decode(head[1]), spec)
        for key in (error.other, error.key)
        if (head := transaction.head(table, collation.key_bytes(key))) is not None
    )
    shared = {one.data for one in others}
    return _duplicate(namespace, spec, next(one for one in keys if one.data in shared))


def _name_in_store(name: str, table: TableInfo) -> str:
    """MongoDB's name if the store can use it and it is free; else another name."""
    if NAME.fullmatch(name) and name not in table.indexes and name != table.primary_key:
        return name
    number = 1
    while f"mongodb.{number}" in table.indexes:
        number += 1
    return f"mongodb.{number}"


def drop(
    transaction: WriteTransaction, table: TableInfo, namespace: MongoNamespace, wanted: Any
) -> tuple[int, list[str]]:
    """Drop indexes.

    Args:
        wanted: A name, `*`, a key pattern, or a list of names.

    Returns:
        The number of indexes before, including the `_id` index, and the names of the dropped indexes.

    Raises:
        MongoError: 27, no such index; 72, it is the `_id` index; 181, several indexes have the key pattern.
    """
    kept = list(read_record(transaction, table).indexes)
    before = len(kept) + 1
    if wanted == "*" or wanted == ["*"]:
        gone = [spec["name"] for spec in kept]
    elif isinstance(wanted, Mapping):
        if list(wanted.items()) == [(ID, 1)]:
            raise MongoError(72, "cannot drop _id index")
        gone = [spec["name"] for spec in kept if _has_key(spec, wanted)]
        if not gone:
            raise MongoError(27, f"can't find index with key: {dict(wanted)}")
        if len(gone) > 1:
            raise MongoError(181, f"{len(gone)} indexes have the key {dict(wanted)}: name one of {gone}")
    else:
        gone = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
        for name in gone:
            if not is_text(name):
                raise MongoError(14, f"an index is named by a text, not by {type_name(name)}")
        known = {spec["name"] for spec in kept}
        for name in gone:
            if name == ID_INDEX["name"]:
                raise MongoError(72, "cannot drop _id index")
            if name not in known:
                raise MongoError(27, f"index not found with name [{name}]")
            known.remove(name)
    if not gone:
        return before, []
    for index in indexes_of(table):
        if index.name in gone:
            transaction.drop_index(transaction.catalogue.by_id[table.id], index.info.name)
    # Reported one by one if the collection is empty, as in `create`.
    is_empty = not transaction.snapshot().rows(table, limit=1)
    for names in [[name] for name in gone] if is_empty else [gone]:
        kept = [spec for spec in kept if spec["name"] not in names]
        keep_indexes(transaction, table, kept)
    return before, gone


def modify(
    transaction: WriteTransaction,
    table: TableInfo,
    namespace: MongoNamespace,
    wanted: Mapping[str, Any],
    *,
    is_dry: bool = False,
) -> dict[str, Any]:
    """Change options of one index, as `collMod` does.

    Args:
        wanted: `name` or `keyPattern`, and `expireAfterSeconds`, `hidden`, `prepareUnique` or `unique`.
        is_dry: Check only whether the index can become unique.

    Returns:
        The changed options, each with `_old` and `_new`.

    Raises:
        MongoError: 27, no such index; 72 and 40415, the index or the change is not specified; 359, documents share a key, with
            `violations`: the `ids` of these documents; others as in `check_index`.
    """
    for name in wanted:
        if name not in ("name", "keyPattern", *MODIFIABLE):
            raise MongoError(40415, f"BSON field 'collMod.index.{name}' is an unknown field.")
    wanted = {name: _modification(name, value) for name, value in wanted.items() if value is not None}
    if ("name" in wanted) == ("keyPattern" in wanted):
        raise MongoError(72, "collMod.index has to name one index, by 'name' or by 'keyPattern'")
    given: dict[str, Any] = {name: wanted[name] for name in MODIFIABLE if name in wanted}
    if not given:
        raise MongoError(72, f"collMod.index has none of {', '.join(MODIFIABLE)}")
    kept = read_record(transaction, table).indexes
    pattern = wanted.get("keyPattern")
    old = next((one for one in kept if one["name"] == wanted.get("name") or _has_key(one, pattern)), None)
    if old is None and (
        wanted.get("name") == ID_INDEX["name"] or equal(dict(pattern or {}), ID_INDEX["key"])
    ):
        raise MongoError(2, "collMod changes nothing of the index of _id")
    if old is None:
        raise MongoError(27, f"cannot find index {wanted.get('name', pattern)} for ns {namespace}")
    index = next(one for one in indexes_of(table) if one.name == old["name"])
    if len(given) > 1 and "prepareUnique" in given:
        raise MongoError(72, "collMod changes prepareUnique of an index alone")
    if given.get("unique") is False:
        raise MongoError(2, "collMod does not support 'unique: false': an index that is unique stays so")
    if given.get("unique"):
        _check_convertible(transaction, table, index, old)
        given["prepareUnique"] = False
    if is_dry:
        return {}
    new = check_index({**old, **given}, namespace)
    changed = [name for name in MODIFIABLE if old.get(name) != new.get(name)]
    if changed:
        transaction.drop_index(table, index.info.name)
        _add(transaction, transaction.catalogue.by_id[table.id], namespace, new)
        keep_indexes(transaction, table, [new if one is old else one for one in kept])
    no = {"hidden": False, "prepareUnique": False}
    # If the index became unique, the reply has only this option.
    reported = [name for name in changed if name == "unique"] or changed
    return {
        f"{name}_{which}": Int64(options[name]) if name == "expireAfterSeconds" else options[name]
        for name in reported
        for which, options in (("old", no | old), ("new", no | new))
        if name in options
    }


def _modification(name: str, value: Any) -> Any:
    """A changed option: flags may be numbers.

    Raises:
        MongoError: 14, it has the wrong type.
    """
    if name in ("hidden", "prepareUnique", "unique"):
        is_right, value = (
            is_number(value) or isinstance(value, bool),
            bool(as_float(value)) if is_number(value) else value,
        )
    elif name == "expireAfterSeconds":
        is_right = is_number(value)
        if is_right and truncate(value) < 0:
            raise MongoError(72, "TTL index 'expireAfterSeconds' option cannot be less than 0")
        value = min(truncate(value), INT32_MAX) if is_right else value
    else:
        is_right = is_text(value) if name == "name" else isinstance(value, Mapping)
    if not is_right:
        raise MongoError(14, f"BSON field 'collMod.index.{name}' is the wrong type '{type_name(value)}'")
    return value


def _check_convertible(
    transaction: WriteTransaction, table: TableInfo, index: CollectionIndex, spec: Mapping[str, Any]
) -> None:
    """Raises: MongoError: 72, nothing keeps others from having keys twice meanwhile; 359."""
    if not index.refuses:
        raise MongoError(
            72,
            "Cannot make index unique with 'prepareUnique=false'. Run collMod with 'prepareUnique: true' first.",
        )
    texts = text_key(index.collation or spec.get("collation"))
    sharing: dict[tuple[Any, ...], dict[bytes, Any]] = {}
    for entry in transaction.snapshot().entries(index.info, MARKS[1]):
        shown = document_of(table, entry.body)["_id"]
        for index_key in index_keys_of(codec.decode(entry.body), index.spec):
            sharing.setdefault(_sort_keys(index_key, texts), {})[entry.key] = shown
    violations = [{"ids": list(ids.values())} for ids in sharing.values() if len(ids) > 1]
    if violations:
        raise MongoError(
            359,
            "Cannot convert the index to unique. Please resolve conflicting documents before running collMod again.",
            violations=violations,
        )


def _has_key(spec: Mapping[str, Any], pattern: Any) -> bool:
    return isinstance(pattern, Mapping) and list(spec["key"].items()) == list(pattern.items())


def list_of_table(
    kept: Iterable[Mapping[str, Any]], clustered: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The reply of `listIndexes`: the `_id` index first, the others in the order of their creation.

    Args:
        clustered: The collection's option `clusteredIndex`, if it has one.
    """
    return [
        dict(ID_INDEX) if clustered is None else {**clustered, "clustered": True},
        *(
            {**one, "collation": expand_collation(one["collation"])} if "collation" in one else dict(one)
            for one in kept
        ),
    ]
