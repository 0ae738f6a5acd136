"""Wrong arguments in the process are refused as PyMongo and MongoDB refuse them.

Each method of PyMongo's and each of its arguments, with values of all kinds, here and over a socket. What is taken gives the same
result.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

import reactdb

pytest.importorskip("pymongo")

from pymongo import DeleteOne, IndexModel, MongoClient
from pymongo.errors import BulkWriteError
from pymongo.synchronous.collection import Collection
from pymongo.synchronous.cursor import Cursor
from pymongo.synchronous.database import Database

from reactdb.servers.mongodb import serve_in_thread
from tests.support.scaling import part_of

VALUES: Final[tuple[Any, ...]] = (
    *(None, 50_000, -1, 0, 1.5, True, "", "text", b"b", [], ["a"], [("a", 1)], {}),
    *({"a": 1}, {"$set": {"a": 1}}, [{"$match": {}}]),
)
SET: Final = {"$set": {"b": 1}}
ONE: Final = {"_id": 1}

FIND: Final = (
    "projection skip limit no_cursor_timeout cursor_type sort allow_partial_results oplog_replay batch_size collation hint "
    "max_scan max_time_ms max min return_key show_record_id snapshot comment allow_disk_use let"
)
AGGREGATE: Final = "batchSize collation hint maxTimeMS allowDiskUse bypassDocumentValidation nonsense"
MODIFY: Final = "collation maxTimeMS bypassDocumentValidation nonsense"

CALLS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "insert_one": ({"document": {"_id": 9}}, ""),
    "insert_many": ({"documents": [{"_id": 9}]}, ""),
    "update_one": ({"filter": ONE, "update": SET}, ""),
    "update_many": ({"filter": ONE, "update": SET}, ""),
    "replace_one": ({"filter": ONE, "replacement": {"b": 1}}, ""),
    "delete_one": ({"filter": ONE}, ""),
    "delete_many": ({"filter": ONE}, ""),
    "bulk_write": ({"requests": [DeleteOne(ONE)]}, ""),
    "find_one_and_update": ({"filter": ONE, "update": SET}, MODIFY),
    "find_one_and_replace": ({"filter": ONE, "replacement": {"b": 1}}, MODIFY),
    "find_one_and_delete": ({"filter": ONE}, MODIFY),
    "find": ({"filter": ONE}, FIND),
    "find_one": ({"filter": ONE}, FIND),
    "count_documents": ({"filter": ONE}, "skip limit hint collation maxTimeMS nonsense"),
    "estimated_document_count": ({}, "maxTimeMS nonsense session"),
    "distinct": ({"key": "a"}, "collation maxTimeMS nonsense"),
    "aggregate": ({"pipeline": [{"$match": ONE}]}, AGGREGATE),
    "watch": ({}, ""),
    "with_options": ({}, ""),
    "list_indexes": ({}, ""),
    "drop_search_index": ({"name": "x"}, ""),
    "list_search_indexes": ({}, ""),
    "update_search_index": ({"name": "x", "definition": {}}, ""),
}
OF_CURSOR: Final[dict[str, dict[str, Any]]] = {
    "sort": {"key_or_list": "a"},
    "skip": {"skip": 1},
    "limit": {"limit": 1},
    "hint": {"index": "a_1"},
    "min": {"spec": [("a", 1)]},
    "max": {"spec": [("a", 2)]},
    "collation": {"collation": None},
    "where": {"code": "x"},
    "comment": {"comment": "c"},
    "batch_size": {"batch_size": 1},
    "max_time_ms": {"max_time_ms": 50_000},
    "max_await_time_ms": {"max_await_time_ms": 1},
    "allow_disk_use": {"allow_disk_use": True},
    "add_option": {"mask": 0},
    "remove_option": {"mask": 0},
    "max_scan": {"max_scan": 1},
    "to_list": {"length": 1},
    "distinct": {"key": "a"},
}
OF_DATABASE: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "list_collections": ({}, "nameOnly authorizedCollections nonsense"),
    "list_collection_names": ({}, "nonsense"),
    "validate_collection": ({"name_or_collection": "orders"}, ""),
    "dereference": ({"dbref": None}, ""),
    "aggregate": ({"pipeline": [{"$documents": [{"a": 1}]}]}, AGGREGATE + " let"),
    "cursor_command": ({"command": "find", "value": "orders"}, ""),
}
DIFFERENT: Final = {
    # It counts here. PyMongo does not send it.
    ("watch", "collation"),
    # There is no command in which it would be sent.
    ("batch_size", True),
    ("batchSize", True),
    # An empty name of an index is none.
    ("aggregate", "hint", ""),
    # Pairs are what PyMongo describes, and MongoDB then refuses.
    ("find", "max"),
    ("find", "min"),
    # Nothing is done with it in the process.
    ("cursor_command", "read_preference"),
    # PyMongo's error is one of its own.
    ("cursor_command", "codec_options"),
    ("cursor_command", "command"),
    ("cursor_command", "max_await_time_ms"),
}


@pytest.fixture
def clients() -> Iterator[tuple[Any, Any]]:
    """One in the process, and PyMongo's own, with the same documents."""
    with (
        reactdb.connect(":memory:") as near,
        reactdb.connect(":memory:") as far,
        serve_in_thread(far) as server,
        MongoClient[Any](server.uri) as client,
    ):
        found = reactdb.mongodb(near), client
        for one in found:
            one["shop"]["orders"].create_index("a")
        yield found


def fill(client: Any) -> None:
    orders = client["shop"]["orders"]
    orders.delete_many({})
    orders.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 2}])


def plain(value: Any) -> Any:
    """A result in terms of both sides."""
    name = type(value).__name__
    if "ChangeStream" in name:
        value.close()
        return "a stream"
    if "Cursor" in name:
        return [plain(one) for one in value]
    if name.endswith("Result"):
        raw = getattr(value, "raw_result", None) or {}
        return {name: raw.get(name) for name in ("n", "nModified", "upserted")}
    if isinstance(value, dict):
        drops = ("operationTime", "$clusterTime", "info", "uuid")
        return {key: plain(inner) for key, inner in value.items() if key not in drops}
    return [plain(one) for one in value] if isinstance(value, list) else value


def outcome(work: Callable[[], Any]) -> Any:
    try:
        found = plain(work())
    except BulkWriteError as error:
        return [one["code"] for one in error.details["writeErrors"]]
    except Exception as error:
        return type(error).__name__, getattr(error, "code", None)
    return "taken" if type(found).__name__ in ("EmbeddedCollection", "Collection") else repr(found)


def cases(name: str, method: Any, given: dict[str, Any], options: str) -> Iterator[dict[str, Any]]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    known = [one.name for one in inspect.signature(method).parameters.values() if one.kind not in kinds]
    yield given
    for argument in [*(one for one in known if one not in ("self", "session")), *options.split()]:
        for value in VALUES:
            # 0, 0.0 and False are one key of a set, and so are 1 and True.
            whole = (name, argument, value) if isinstance(value, str) else None
            flagged = (argument, True) if value is True else None
            if {(name, argument), whole, flagged} & DIFFERENT:
                continue
            yield {**given, argument: value}


def compare(clients: tuple[Any, Any], name: str, target: Callable[[Any], Any], given: dict[str, Any]) -> None:
    outcomes = []
    for client in clients:
        if any(word in name for word in ("insert", "update", "replace", "delete", "bulk")):
            fill(client)
        work = getattr(target(client), name)
        outcomes.append(outcome(lambda work=work: work(**copy.deepcopy(given))))  # type: ignore[misc]
    assert outcomes[1] == outcomes[0], given


@pytest.mark.examples
@pytest.mark.parametrize("name", CALLS)
def test_a_collection_takes_what_pymongos_takes(clients: tuple[Any, Any], name: str) -> None:
    for client in clients:
        fill(client)
    given, options = CALLS[name]
    for case in part_of(cases(name, getattr(Collection, name), given, options)):
        compare(clients, name, lambda client: client["shop"]["orders"], case)


@pytest.mark.parametrize("name", OF_CURSOR)
def test_a_cursor_takes_what_pymongos_takes(clients: tuple[Any, Any], name: str) -> None:
    for client in clients:
        fill(client)
    for case in cases(name, getattr(Cursor, name), OF_CURSOR[name], ""):
        compare(clients, name, lambda client: client["shop"]["orders"].find(), case)


@pytest.mark.parametrize("name", OF_DATABASE)
def test_a_database_takes_what_pymongos_takes(clients: tuple[Any, Any], name: str) -> None:
    for client in clients:
        fill(client)
    given, options = OF_DATABASE[name]
    for case in cases(name, getattr(Database, name), given, options):
        compare(clients, name, lambda client: client["shop"], case)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *(
            ("create_index", {"keys": "b", option: value})
            for option in ("maxTimeMS", "nonsense")
            for value in (-1, "x")
        ),
        *(("create_indexes", {"indexes": value}) for value in (None, (), "", ["a"], [IndexModel("b")])),
        *(("create_indexes", {"indexes": [IndexModel("b")], "nonsense": value}) for value in (None, 1)),
        *(
            ("drop_index", {"index_or_name": value})
            for value in ("a_1", [("a", 1)], ["a"], [], {"a": 1}, 5, "x")
        ),
        *((name, {"nonsense": 1}) for name in ("drop_indexes",)),
        *(("rename", {"new_name": "new", "dropTarget": value}) for value in (True, None, 1, "x")),
        *(("drop", {"encrypted_fields": value}) for value in (None, 5, {})),
    ],
    ids=repr,
)
def test_what_changes_a_collection_takes_what_pymongos_takes(
    clients: tuple[Any, Any], name: str, given: dict[str, Any]
) -> None:
    for client in clients:
        fill(client)
    compare(clients, name, lambda client: client["shop"]["orders"], given)


@pytest.mark.parametrize("value", ["orders", "missing", "", "$a", None, 5])
def test_a_collection_that_is_dropped_is_told_of_alike(clients: tuple[Any, Any], value: Any) -> None:
    for client in clients:
        fill(client)
    compare(clients, "drop_collection", lambda client: client["shop"], {"name_or_collection": value})


def test_a_cursor_is_set_before_it_is_read(clients: tuple[Any, Any]) -> None:
    for client in clients:
        fill(client)
        cursor = client["shop"]["orders"].find()
        assert {"_id": 1, "a": 1} == cursor.next()
        names = [name for name in OF_CURSOR if name not in ("to_list", "distinct")]
        setters = [(getattr(cursor, name), OF_CURSOR[name]) for name in names]
        outcomes = {outcome(lambda one=one: one[0](**one[1])) for one in setters}  # type: ignore[misc]
        assert {("InvalidOperation", None)} == outcomes
        assert {"_id": 1, "a": 1} == cursor.rewind().limit(1)[0]
