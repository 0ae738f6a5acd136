"""The command `bulkWrite`: operations on several collections, each with a result of its own."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pymongo")

from reactdb.dialects.mongodb import MongoError
from reactdb.dialects.mongodb.bulk_write import bulk_write
from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.names import namespace_of
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.session import session_of

SPACES = [{"ns": "shop.orders"}, {"ns": "shop.items"}]


@pytest.fixture
def spaces(db: Any) -> Namespaces:
    return Namespaces(session_of(db))


def found(spaces: Namespaces, name: str) -> list[dict[str, Any]]:
    return list(CollectionWork(spaces, namespace_of(name)).find({}))


def test_each_operation_has_a_result(db: Any, spaces: Namespaces) -> None:
    results, counts = bulk_write(
        spaces,
        [
            {"insert": 0, "document": {"_id": 1, "n": 1}},
            {"insert": 0, "document": {"_id": 2, "n": 1}},
            {"insert": 1, "document": {"_id": "a"}},
            {"update": 0, "filter": {"n": 1}, "updateMods": {"$inc": {"n": 1}}, "multi": True},
            {"update": 1, "filter": {"_id": "b"}, "updateMods": {"$set": {"n": 1}}, "upsert": True},
            {"delete": 0, "filter": {"_id": 1}},
        ],
        SPACES,
    )
    assert results == [
        {"ok": 1.0, "idx": 0, "n": 1},
        {"ok": 1.0, "idx": 1, "n": 1},
        {"ok": 1.0, "idx": 2, "n": 1},
        {"ok": 1.0, "idx": 3, "n": 2, "nModified": 2},
        {"ok": 1.0, "idx": 4, "n": 1, "nModified": 0, "upserted": {"_id": "b"}},
        {"ok": 1.0, "idx": 5, "n": 1},
    ]
    assert counts == {
        "nErrors": 0,
        "nInserted": 3,
        "nMatched": 2,
        "nModified": 2,
        "nUpserted": 1,
        "nDeleted": 1,
    }
    assert found(spaces, "shop.orders") == [{"_id": 2, "n": 2}]
    assert found(spaces, "shop.items") == [{"_id": "a"}, {"_id": "b", "n": 1}]
    assert len({change.commit for change in db.log() if change.table.startswith("shop.")}) == 1


@pytest.mark.parametrize(("ordered", "expected"), [(True, [1]), (False, [1, 3])])
def test_an_ordered_one_ends_at_the_first_error(
    spaces: Namespaces, ordered: bool, expected: list[int]
) -> None:
    operations = [{"insert": 0, "document": {"_id": id}} for id in (1, 1, 3)]
    results, counts = bulk_write(spaces, operations, SPACES, ordered=ordered, errors_only=True)
    assert [(one["ok"], one["idx"], one["code"]) for one in results] == [(0.0, 1, 11000)]
    assert (counts["nErrors"], counts["nInserted"]) == (1, len(expected))
    assert [one["_id"] for one in found(spaces, "shop.orders")] == expected


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ({}, 14),
        ({"remove": 0}, 40415),
        ({"insert": 2, "document": {}}, 2),
        ({"insert": 0}, 40414),
        ({"update": 0, "filter": {}, "updateMods": {"$set": {"a": 1}}, "wrong": 1}, 40415),
        ({"update": 0, "filter": {}}, 40414),
    ],
)
def test_what_is_no_operation_is_refused(spaces: Namespaces, operation: dict[str, Any], code: int) -> None:
    with pytest.raises(MongoError) as refused:
        bulk_write(spaces, [operation], SPACES)
    assert refused.value.code == code


def test_an_insert_after_another_operation_on_the_same_collection_is_an_insert(spaces: Namespaces) -> None:
    operations: list[dict[str, Any]] = [
        {"insert": 0, "document": {"_id": 1}},
        {"delete": 0, "filter": {"_id": 1}},
        {"insert": 0, "document": {"_id": 2}},
    ]

    _, counts = bulk_write(spaces, operations, SPACES)

    assert (counts["nInserted"], counts["nDeleted"]) == (2, 1)
    assert found(spaces, "shop.orders") == [{"_id": 2}]


@pytest.mark.parametrize("space", [{"ns": "shop.orders", "collectionUUID": b""}, {}, {"ns": 5}])
def test_a_collection_is_named_by_its_namespace_alone(spaces: Namespaces, space: dict[str, Any]) -> None:
    with pytest.raises(MongoError) as refused:
        bulk_write(spaces, [{"insert": 0, "document": {"_id": 1}}], [space])

    assert refused.value.code in (40415, 40414, 14)
    assert found(spaces, "shop.orders") == []


def test_a_filter_that_is_no_document_is_refused_and_deletes_nothing(spaces: Namespaces) -> None:
    work = CollectionWork(spaces, namespace_of("shop.orders"))
    work.insert([{"_id": 1}])
    for filter in (None, [], "a", 5):
        answer = work.delete([{"q": filter, "limit": 0}])
        assert (answer["n"], answer["writeErrors"][0]["code"]) == (0, 14)
        assert work.update([{"q": filter, "u": {"$set": {"a": 1}}}])["writeErrors"][0]["code"] == 14
    assert found(spaces, "shop.orders") == [{"_id": 1}]
