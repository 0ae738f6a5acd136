"""Commands that write documents.

Rule of this file: the fields of the commands, and the reply for their write concern. `collection` does the writes.
"""

from __future__ import annotations

from typing import Any

from reactdb.dialects.mongodb.bson_order import type_name
from reactdb.dialects.mongodb.bulk_write import NAMESPACE, bulk_write
from reactdb.dialects.mongodb.commands.cursors import Results
from reactdb.dialects.mongodb.commands.deployment import Deployment
from reactdb.dialects.mongodb.commands.get_more import batch_size, first_batch
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.sessions import session_key
from reactdb.dialects.mongodb.commands.table import always, command
from reactdb.dialects.mongodb.errors import MongoError

MOST_STATEMENTS = 100_000


def statements(request: CommandRequest, name: str) -> list[dict[str, Any]]:
    """The statements of a command, or its documents.

    Raises:
        MongoError.
    """
    value = request.body.get(name)
    if value is None:
        raise MongoError(40414, f"BSON field '{request.name}.{name}' is missing but a required field")
    if not isinstance(value, list):
        raise MongoError(
            14,
            f"BSON field '{request.name}.{name}' is the wrong type '{type_name(value)}', expected type 'array'",
        )
    if not 0 < len(value) <= MOST_STATEMENTS:
        raise MongoError(
            16, f"Write batch sizes must be between 1 and {MOST_STATEMENTS}. Got {len(value)} operations."
        )
    for place, one in enumerate(value):
        if not isinstance(one, dict):
            raise MongoError(
                14,
                f"BSON field '{request.name}.{name}.{place}' is the wrong type '{type_name(one)}', expected type 'object'",
            )
    return value


def flag(request: CommandRequest, name: str, default: bool) -> bool:
    """A field with a boolean as its value; other fields of booleans may have numbers as well.

    Raises:
        MongoError: 14.
    """
    value = request.body.get(name)
    if value is not None and not isinstance(value, bool):
        raise MongoError(
            14,
            f"BSON field '{request.name}.{name}' is the wrong type '{type_name(value)}', expected type 'bool'",
        )
    return default if value is None else value


def is_ordered(request: CommandRequest) -> bool:
    return flag(request, "ordered", True)


def is_about_keys(body: dict[str, Any], deployment: Deployment) -> bool:
    """Whether each statement is about one `_id`, so that there is no search."""
    operations = body.get("updates") or body.get("deletes") or [{"q": body.get("query")}]
    if not isinstance(operations, list):
        return True
    return len(operations) <= 100 and all(
        isinstance(one, dict) and is_about_key(one.get("q")) for one in operations
    )


def is_about_key(query: Any) -> bool:
    """Whether a filter is only an `_id`."""
    if not isinstance(query, dict) or "_id" not in query:
        return False
    key = query["_id"]
    return not isinstance(key, dict) or not any(name.startswith("$") for name in key)


@command(
    "insert",
    fields="documents ordered bypassDocumentValidation bypassEmptyTsReplacement",
    is_write=True,
    # Only short messages come here.
    quick=always,
)
def insert(request: CommandRequest) -> dict[str, Any]:
    documents = statements(request, "documents")
    return request.collection_work().insert(documents, ordered=is_ordered(request))


@command(
    "update",
    fields="updates ordered bypassDocumentValidation bypassEmptyTsReplacement let",
    is_write=True,
    quick=is_about_keys,
)
def update(request: CommandRequest) -> dict[str, Any]:
    return request.collection_work().update(
        statements(request, "updates"), ordered=is_ordered(request), variables=request.get("let", dict)
    )


@command(
    "delete",
    fields="deletes ordered let bypassDocumentValidation",
    is_write=True,
    quick=is_about_keys,
)
def delete(request: CommandRequest) -> dict[str, Any]:
    return request.collection_work().delete(
        statements(request, "deletes"), ordered=is_ordered(request), variables=request.get("let", dict)
    )


@command(
    "findAndModify",
    fields="query update remove new upsert sort fields arrayFilters collation hint let bypassDocumentValidation "
    "bypassEmptyTsReplacement",
    is_write=True,
    quick=is_about_keys,
)
def find_and_modify(request: CommandRequest) -> dict[str, Any]:
    for name in ("query", "sort", "fields", "collation", "let"):
        request.get(name, dict)
    flags = {name: request.flag(name) for name in ("remove", "new", "upsert")}
    return request.collection_work().find_and_modify({**request.body, **flags})


@command("createIndexes", fields="indexes commitQuorum ignoreUnknownIndexOptions v", is_write=True)
def create_indexes(request: CommandRequest) -> dict[str, Any]:
    indexes = request.get("indexes", list)
    if indexes is None:
        raise MongoError(40414, "BSON field 'createIndexes.indexes' is missing but a required field")
    if any(isinstance(one, dict) and one.get("key") and "name" not in one for one in indexes):
        raise MongoError(9, "The 'name' field is a required property of an index specification")
    return request.collection_work().create_indexes(indexes)


@command("dropIndexes", "deleteIndexes", fields="index", is_write=True)
def drop_indexes(request: CommandRequest) -> dict[str, Any]:
    if "index" not in request.body:
        raise MongoError(40414, "BSON field 'dropIndexes.index' is missing but a required field")
    return request.collection_work().drop_indexes(request.body["index"])


@command(
    "bulkWrite",
    fields="ops nsInfo ordered errorsOnly bypassDocumentValidation bypassEmptyTsReplacement let cursor",
    is_write=True,
)
def bulk_write_of_all(request: CommandRequest) -> dict[str, Any]:
    if request.database != "admin":
        raise MongoError(13, "bulkWrite may only be run against the admin database.")
    if request.body.get("nsInfo") == []:
        raise MongoError(2, "bulkWrite needs the names of its collections: nsInfo is empty")
    results, counts = bulk_write(
        request.deployment.spaces,
        statements(request, "ops"),
        statements(request, "nsInfo"),
        ordered=is_ordered(request),
        errors_only=flag(request, "errorsOnly", False),
        variables=request.get("let", dict),
        transaction=request.transaction,
        bypasses=request.flag("bypassDocumentValidation"),
        keeps_empty=request.flag("bypassEmptyTsReplacement"),
        retry=request.retry,
    )
    cursor = Results(NAMESPACE, iter(results), session_key(request))
    return {**first_batch(request, cursor, batch_size(request, None)), **counts}
