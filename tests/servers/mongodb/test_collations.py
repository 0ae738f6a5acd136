"""PyMongo against the server: collections with a collation of their own."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collation import Collation
from pymongo.errors import DuplicateKeyError, OperationFailure

from tests.support.collators import CASELESS, let_collations_be

Client = MongoClient[dict[str, Any]]
SIMPLE = Collation(locale="simple")


@pytest.fixture
def users(client: Client, monkeypatch: pytest.MonkeyPatch) -> Any:
    let_collations_be(monkeypatch)
    found = client["shop"].create_collection("users", collation=Collation(**CASELESS))
    found.insert_many([{"_id": 1, "n": "x"}, {"_id": 2, "n": "X"}, {"_id": 3, "n": "Y"}])
    return found


def test_commands_compare_by_it_unless_they_say_otherwise(client: Client, users: Any) -> None:
    assert users.options()["collation"]["locale"] == "tst"
    assert [1, 2] == [one["_id"] for one in users.find({"n": "X"})]
    assert [2] == [one["_id"] for one in users.find({"n": "X"}).collation(SIMPLE)]
    assert 2 == users.count_documents({"n": "x"})
    assert 1 == users.count_documents({"n": "x"}, collation=SIMPLE)
    assert ["x", "Y"] == users.distinct("n")
    assert [{"_id": "x"}, {"_id": "Y"}] == list(
        users.aggregate([{"$group": {"_id": "$n"}}, {"$sort": {"_id": 1}}])
    )
    assert 2 == users.update_many({"n": "X"}, {"$set": {"seen": 1}}).matched_count
    assert 3 == users.find_one_and_delete({"n": "y"})["_id"]
    assert 2 == client["shop"].command("count", "users", query={"n": "X"})["n"]
    assert 1 == users.delete_many({"n": "X"}, collation=SIMPLE).deleted_count
    assert 1 == users.delete_many({"n": "X"}).deleted_count


def test_indexes_have_it(client: Client, users: Any) -> None:
    users.create_index("n")
    assert "tst" == users.index_information()["n_1"]["collation"]["locale"]
    users.delete_one({"_id": 1})
    users.create_index([("n", 1), ("a", 1)], unique=True)
    with pytest.raises(DuplicateKeyError):
        users.insert_one({"n": "x"})
    with pytest.raises(OperationFailure) as refused:
        client["shop"].create_collection("other", collation=Collation(locale="nowhere"))
    assert 2 == refused.value.code
