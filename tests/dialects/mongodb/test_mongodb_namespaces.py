"""Databases and collections over tables."""

import pytest
from pymongo.errors import OperationFailure

import reactdb
from reactdb.dialects.mongodb import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces, keep_indexes
from reactdb.session import session_of

ORDERS = MongoNamespace("shop", "orders")
PAID = MongoNamespace("shop", "paid")


@pytest.fixture
def spaces(db):
    return Namespaces(session_of(db))


def listed(spaces, db="shop"):
    return [str(found.namespace) for found in spaces.collections(db)]


def test_what_is_made_is_listed_and_found(db, spaces):
    made = spaces.create(ORDERS, {"capped": True, "size": 10})
    spaces.create(MongoNamespace("other", "x"))
    db.table_create("native")

    assert ["other", "reactdb", "shop"] == spaces.databases()
    assert ["shop.orders"] == listed(spaces)
    assert ["reactdb.native"] == listed(spaces, "reactdb")
    assert {"capped": True, "size": 10} == spaces.find(ORDERS).options
    assert made.uuid == spaces.find(ORDERS).uuid
    assert (4, 16) == (made.uuid.subtype, len(made.uuid))
    assert spaces.find(PAID) is None
    assert "_id" == session_of(db).info("shop.orders").primary_key


def test_a_collection_that_is_dropped_and_made_again_is_another_one(spaces):
    first = spaces.create(ORDERS)

    assert spaces.drop(ORDERS)
    assert not spaces.drop(ORDERS)
    assert first.uuid != spaces.create(ORDERS).uuid


def test_a_database_is_dropped_with_all_its_collections_in_one_commit(db, spaces):
    spaces.create(ORDERS)
    spaces.create(PAID)
    spaces.create(MongoNamespace("other", "x"))
    seq = db.seq

    assert spaces.drop_database("shop")
    assert not spaces.drop_database("shop")
    assert ["other"] == spaces.databases()
    assert {seq + 1} == {change.commit for change in db.log(since=seq)}


def test_renaming_keeps_the_uuid_and_the_options(spaces):
    made = spaces.create(ORDERS, {"capped": True})

    spaces.rename(ORDERS, PAID)

    found = spaces.find(PAID)
    assert (made.uuid, {"capped": True}, None) == (found.uuid, found.options, spaces.find(ORDERS))


def test_renaming_onto_another_one_needs_to_be_said(spaces):
    made = spaces.create(ORDERS)
    spaces.create(PAID)

    with pytest.raises(MongoError) as caught:
        spaces.rename(ORDERS, PAID)
    assert 48 == caught.value.code
    spaces.rename(ORDERS, PAID, drop_target=True)

    assert (made.uuid, ["shop.paid"]) == (spaces.find(PAID).uuid, listed(spaces))


@pytest.mark.parametrize(
    ("code", "act"),
    [
        (48, lambda spaces: spaces.create(ORDERS)),
        (26, lambda spaces: spaces.rename(PAID, ORDERS)),
        (20, lambda spaces: spaces.rename(ORDERS, ORDERS)),
        (26, lambda spaces: spaces.modify(PAID, {})),
        (73, lambda spaces: spaces.create(MongoNamespace("shop", ""))),
    ],
)
def test_what_cannot_be_done_has_its_code_and_changes_nothing(db, spaces, code, act):
    spaces.create(ORDERS)
    seq = db.seq

    with pytest.raises(MongoError) as caught:
        act(spaces)

    assert (code, seq) == (caught.value.code, db.seq)


def test_options_can_be_set_and_removed_later(spaces):
    spaces.create(ORDERS, {"capped": True})

    spaces.modify(ORDERS, {"validator": {"x": 1}, "capped": None})

    assert {"validator": {"x": 1}} == spaces.find(ORDERS).options


def test_images_are_there_where_the_option_says_so_and_of_native_tables(db, spaces):
    db.table_create("native")
    spaces.create(ORDERS)
    spaces.create(PAID, {"changeStreamPreAndPostImages": {"enabled": True}})
    native = MongoNamespace("reactdb", "native")

    assert [True, False, True] == [spaces.find(name).record.has_images for name in (native, ORDERS, PAID)]
    session_of(db).transact(
        lambda transaction: keep_indexes(transaction, session_of(db).info("native"), [{"name": "a_1"}])
    )
    assert ({"name": "a_1"},) == spaces.find(native).indexes
    assert spaces.find(native).record.has_images
    spaces.modify(native, {"changeStreamPreAndPostImages": {"enabled": False}})
    assert not spaces.find(native).record.has_images


def test_a_collection_is_made_by_the_transaction_that_writes_to_it(db, spaces):
    with pytest.raises(KeyError), db.transaction():
        spaces.ensure(ORDERS)
        raise KeyError

    assert spaces.find(ORDERS) is None
    assert spaces.ensure(ORDERS).id == spaces.ensure(ORDERS).id
    assert ["shop.orders"] == listed(spaces)


def test_all_is_there_after_reopening(tmp_path):
    import reactdb

    path = tmp_path / "shop.db"
    with reactdb.connect(path) as db:
        made = Namespaces(session_of(db)).create(ORDERS, {"comment": "x"})
    with reactdb.connect(path) as db:
        found = Namespaces(session_of(db)).find(ORDERS)

    assert (made.uuid, made.options) == (found.uuid, found.options)


def test_a_view_is_listed_as_one_and_a_time_series_is_refused_in_the_process_too(db):
    shop = reactdb.mongodb(db)["shop"]
    shop.create_collection("orders")
    shop.create_collection("large", viewOn="orders", pipeline=[{"$match": {"n": {"$gt": 2}}}])

    types = {one["name"]: one["type"] for one in shop.list_collections()}

    assert {"orders": "collection", "large": "view"} == types
    assert ["large"] == shop.list_collection_names(filter={"type": "view"})
    for code, options in (
        (115, {"timeseries": {"timeField": "t"}}),
        (72, {"pipeline": []}),
        (14, {"viewOn": 5}),
        (14, {"changeStreamPreAndPostImages": {"enabled": 1}}),
    ):
        with pytest.raises(OperationFailure) as caught:
            shop.create_collection("other", **options)
        assert code == caught.value.code
    assert ["large", "orders"] == shop.list_collection_names()
