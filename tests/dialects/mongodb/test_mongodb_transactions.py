"""Transactions of MongoDB's dialect: all of their writes in one commit, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import reactdb
from reactdb import Database

pytest.importorskip("pymongo")

from pymongo.errors import DuplicateKeyError, InvalidOperation, OperationFailure

from reactdb.dialects.mongodb.names import MongoNamespace

SHOP_ORDERS = MongoNamespace("shop", "orders")
TRANSIENT = "TransientTransactionError"


@pytest.fixture
def db() -> Iterator[Database]:
    with reactdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture
def client(db: Database) -> Any:
    return reactdb.mongodb(db)


@pytest.fixture
def orders(client: Any) -> Any:
    found = client["shop"]["orders"]
    found.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 2}])
    return found


@pytest.fixture
def session(client: Any) -> Iterator[Any]:
    with client.start_session() as opened:
        yield opened


def test_a_transaction_is_one_commit(db: Database, client: Any, orders: Any, session: Any) -> None:
    before = db.seq
    with session.start_transaction():
        orders.insert_one({"_id": 3}, session=session)
        orders.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
        orders.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
        orders.delete_one({"_id": 2}, session=session)
        assert db.seq == before
    changes = list(db.log(since=before))
    assert len({change.commit for change in changes}) == 1
    assert [change.kind for change in changes] == ["insert", "update", "update", "delete"]
    assert list(orders.find()) == [{"_id": 1, "n": 3}, {"_id": 3}]


def test_reads_inside_see_its_writes_and_others_do_not(orders: Any, session: Any) -> None:
    with session.start_transaction():
        orders.insert_one({"_id": 3, "n": 3}, session=session)
        orders.delete_one({"_id": 1}, session=session)
        orders.update_one({"_id": 2}, {"$set": {"n": 20}}, session=session)
        assert list(orders.find(session=session)) == [{"_id": 2, "n": 20}, {"_id": 3, "n": 3}]
        assert orders.count_documents({}, session=session) == 2
        assert orders.distinct("n", session=session) == [3, 20]
        assert orders.find_one({"_id": 1}, session=session) is None
        assert list(orders.find()) == [{"_id": 1, "n": 1}, {"_id": 2, "n": 2}]


def test_an_index_inside_leads_to_its_writes(orders: Any, session: Any) -> None:
    orders.create_index("n")
    with session.start_transaction():
        orders.update_one({"_id": 1}, {"$set": {"n": 7}}, session=session)
        assert [one["_id"] for one in orders.find({"n": 7}, session=session)] == [1]
        assert list(orders.find({"n": 1}, session=session)) == []
        assert [one["_id"] for one in orders.find({"n": 1})] == [1]


def test_the_greatest_key_is_the_one_that_its_own_statements_left(orders: Any, session: Any) -> None:
    def greatest() -> bytes:
        with session.transaction.statement(SHOP_ORDERS) as target:
            key: bytes = target.greatest_key(target.table(SHOP_ORDERS))
            return key

    with session.start_transaction():
        two = greatest()
        orders.insert_one({"_id": 5}, session=session)
        five = greatest()
        orders.insert_one({"_id": 3}, session=session)
        assert two < five == greatest()
        orders.delete_many({"_id": {"$in": [3, 5]}}, session=session)
        assert two == greatest()


def test_it_reads_the_state_of_its_first_statement(orders: Any, session: Any) -> None:
    with session.start_transaction():
        assert orders.count_documents({}, session=session) == 2
        orders.insert_one({"_id": 3})
        orders.update_one({"_id": 2}, {"$set": {"n": 5}})
        assert list(orders.find(session=session)) == [{"_id": 1, "n": 1}, {"_id": 2, "n": 2}]


def test_an_aborted_one_leaves_nothing(db: Database, client: Any, orders: Any, session: Any) -> None:
    before = db.seq
    session.start_transaction()
    orders.delete_many({}, session=session)
    client["other"]["new"].insert_one({}, session=session)
    session.abort_transaction()
    assert db.seq == before
    assert client.list_database_names() == ["shop"]


def test_an_exception_in_the_block_aborts(orders: Any, session: Any) -> None:
    with pytest.raises(KeyError), session.start_transaction():
        orders.insert_one({"_id": 3}, session=session)
        raise KeyError
    assert orders.find_one(3) is None


def test_a_collection_is_made_by_the_commit(client: Any, orders: Any, session: Any) -> None:
    new = client["other"]["new"]
    with session.start_transaction():
        new.insert_one({"_id": 1}, session=session)
        new.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
        assert new.find_one(session=session) == {"_id": 1, "a": 1}
        assert "other" not in client.list_database_names()
    assert new.find_one() == {"_id": 1, "a": 1}


def test_a_document_that_was_changed_meanwhile_is_a_conflict(orders: Any, session: Any) -> None:
    session.start_transaction()
    orders.find_one({}, session=session)
    orders.update_one({"_id": 1}, {"$set": {"n": 5}})
    with pytest.raises(OperationFailure) as refused:
        orders.update_one({"_id": 1}, {"$set": {"n": 6}}, session=session)
    assert refused.value.code == 112
    assert refused.value.has_error_label(TRANSIENT)
    with pytest.raises(OperationFailure) as late:
        session.commit_transaction()
    assert late.value.code == 251
    assert orders.find_one(1)["n"] == 5


def test_two_transactions_on_one_document_are_a_conflict(client: Any, orders: Any, session: Any) -> None:
    with client.start_session() as other:
        session.start_transaction()
        other.start_transaction()
        orders.update_one({"_id": 1}, {"$set": {"n": 5}}, session=session)
        with pytest.raises(OperationFailure) as refused:
            orders.update_one({"_id": 1}, {"$set": {"n": 6}}, session=other)
        assert refused.value.has_error_label(TRANSIENT)
        session.commit_transaction()
    assert orders.find_one(1)["n"] == 5


def test_a_change_before_the_commit_is_found_there(orders: Any, session: Any) -> None:
    session.start_transaction()
    orders.update_one({"_id": 1}, {"$set": {"n": 5}}, session=session)
    orders.insert_one({"_id": 9}, session=session)
    orders.update_one({"_id": 1}, {"$set": {"n": 6}})
    with pytest.raises(OperationFailure) as refused:
        session.commit_transaction()
    assert (refused.value.code, refused.value.has_error_label(TRANSIENT)) == (112, True)
    assert orders.find_one(1)["n"] == 6
    assert orders.find_one(9) is None


def test_a_unique_key_that_was_taken_before_the_commit_is_found_there(orders: Any, session: Any) -> None:
    orders.create_index("n", unique=True)
    session.start_transaction()
    orders.insert_one({"_id": 8, "n": 8}, session=session)
    orders.insert_one({"_id": 9, "n": 8})
    with pytest.raises(OperationFailure) as error:
        session.commit_transaction()
    assert error.value.code == 112
    assert error.value.has_error_label(TRANSIENT)
    assert orders.find_one(8) is None


def test_with_transaction_tries_again_where_a_unique_key_was_taken(orders: Any, session: Any) -> None:
    orders.create_index("n", unique=True)
    tries: list[Any] = []

    def callback(session: Any) -> None:
        tries.append(orders.find_one({"n": 8}, session=session))
        if len(tries) == 1:
            orders.insert_one({"_id": 8, "n": 8}, session=session)
            orders.insert_one({"_id": 9, "n": 8})

    session.with_transaction(callback)

    assert tries == [None, {"_id": 9, "n": 8}]


def test_a_taken_key_inside_aborts(orders: Any, session: Any) -> None:
    session.start_transaction()
    orders.insert_one({"_id": 3}, session=session)
    with pytest.raises(DuplicateKeyError):
        orders.insert_one({"_id": 1}, session=session)
    with pytest.raises(OperationFailure) as refused:
        orders.insert_one({"_id": 4}, session=session)
    assert refused.value.code == 251


def test_a_collection_that_was_dropped_before_the_commit_is_a_conflict(orders: Any, session: Any) -> None:
    session.start_transaction()
    orders.update_one({"_id": 1}, {"$set": {"n": 5}}, session=session)
    orders.drop()
    with pytest.raises(OperationFailure) as refused:
        session.commit_transaction()
    assert refused.value.has_error_label(TRANSIENT)


def test_with_transaction_tries_again(orders: Any, session: Any) -> None:
    tries = []

    def work(own: Any) -> int:
        n: int = orders.find_one({"_id": 1}, session=own)["n"]
        tries.append(n)
        if len(tries) == 1:
            orders.update_one({"_id": 1}, {"$set": {"n": 100}})
        orders.update_one({"_id": 1}, {"$set": {"n": n + 1}}, session=own)
        return n

    assert session.with_transaction(work) == 100
    assert tries == [1, 100]
    assert orders.find_one(1)["n"] == 101


def test_states_that_cannot_be(client: Any, session: Any) -> None:
    with pytest.raises(InvalidOperation):
        session.commit_transaction()
    with pytest.raises(InvalidOperation):
        session.abort_transaction()
    session.start_transaction()
    with pytest.raises(InvalidOperation):
        session.start_transaction()
    session.end_session()
    session.end_session()
    with pytest.raises(InvalidOperation):
        session.start_transaction()


class TestMakingCollections:
    def test_it_is_made_with_its_options_and_indexes_by_the_commit(
        self, db: Database, client: Any, session: Any
    ) -> None:
        shop = client["shop"]
        images = {"changeStreamPreAndPostImages": {"enabled": True}}
        before = db.seq
        with session.start_transaction():
            made = shop.create_collection("made", session=session, **images)
            assert "n_1" == made.create_index("n", unique=True, session=session)
            made.insert_one({"_id": 1, "n": 1}, session=session)
            assert db.seq == before
            assert [] == shop.list_collection_names()
        assert images == made.options()
        assert ["_id_", "n_1"] == list(made.index_information())
        assert 1 == len({change.commit for change in db.log(since=before, table="shop.made")})
        with pytest.raises(DuplicateKeyError):
            made.insert_one({"n": 1})

    @pytest.mark.parametrize("ids", [[1, 0], range(2_000)], ids=["out of order", "many"])
    def test_what_it_inserts_may_be_changed_by_it(self, client: Any, session: Any, ids: Any) -> None:
        """The commit's own documents are not taken for somebody else's, also where they are in the file already."""
        made = client["shop"]["made"]
        with session.start_transaction():
            made.insert_many([{"_id": id} for id in ids], session=session)
            made.update_one({"_id": 0}, {"$set": {"n": 1}}, session=session)

        assert [{"_id": id} for id in ids if id] == list(made.find({"_id": {"$ne": 0}}))
        assert {"_id": 0, "n": 1} == made.find_one({"_id": 0})

    def test_an_index_makes_its_collection(self, client: Any, session: Any) -> None:
        with session.start_transaction():
            client["shop"]["made"].create_index("n", session=session)
        assert ["_id_", "n_1"] == list(client["shop"]["made"].index_information())

    def test_a_unique_key_twice_is_found_by_the_commit(self, client: Any, session: Any) -> None:
        made = client["shop"]["made"]
        session.start_transaction()
        made.create_index("n", unique=True, session=session)
        made.insert_many([{"n": 1}, {"n": 1}], session=session)
        with pytest.raises(DuplicateKeyError):
            session.commit_transaction()
        assert [] == client["shop"].list_collection_names()

    def test_an_aborted_transaction_makes_none(self, client: Any, session: Any) -> None:
        session.start_transaction()
        client["shop"].create_collection("made", session=session)
        session.abort_transaction()
        assert [] == client["shop"].list_collection_names()

    def test_one_that_somebody_else_has_made_meanwhile_is_a_conflict(self, client: Any, session: Any) -> None:
        session.start_transaction()
        client["shop"].create_collection("made", session=session)
        client["shop"].create_collection("made")
        with pytest.raises(OperationFailure) as caught:
            session.commit_transaction()
        assert 112 == caught.value.code
        assert caught.value.has_error_label(TRANSIENT)

    def test_an_index_that_is_there_is_not_made_again(self, client: Any, orders: Any, session: Any) -> None:
        orders.create_index("n", unique=True)
        index = {"key": {"n": 1}, "name": "n_1", "unique": True}
        with session.start_transaction():
            orders.insert_one({"_id": 3, "n": 3}, session=session)
            answer = client["shop"].command(
                "createIndexes",
                "orders",
                indexes=[index, {"key": {"_id": 1}, "name": "_id_"}],
                session=session,
            )
            orders.insert_one({"_id": 4, "n": 4}, session=session)

        assert (2, 2, False) == tuple(
            answer[name] for name in ("numIndexesBefore", "numIndexesAfter", "createdCollectionAutomatically")
        )
        assert "all indexes already exist" == answer["note"]
        assert [1, 2, 3, 4] == orders.distinct("_id")
        assert ["_id_", "n_1"] == list(orders.index_information())

    @pytest.mark.parametrize(
        ("code", "make"),
        [
            (48, lambda shop, session: shop.command("create", "orders", session=session)),
            (166, lambda shop, session: shop["seen"].create_index("_id", session=session)),
            (86, lambda shop, session: shop["orders"].create_index("a", name="b_1", session=session)),
            (263, lambda shop, session: shop["orders"].create_index("n", session=session)),
            (
                263,
                lambda shop, session: shop.create_collection("a", capped=True, size=100, session=session),
            ),
            (
                263,
                lambda shop, session: shop.create_collection("a", viewOn="orders", session=session),
            ),
            (67, lambda shop, session: shop["a"].create_index([("n", "2d")], session=session)),
        ],
    )
    def test_what_cannot_be_made_in_one_ends_it(
        self, client: Any, orders: Any, session: Any, code: int, make: Any
    ) -> None:
        client["shop"].create_collection("seen", viewOn="orders")
        orders.create_index("b")
        session.start_transaction()
        with pytest.raises(OperationFailure) as caught:
            make(client["shop"], session)
        assert code == caught.value.code
        with pytest.raises(OperationFailure) as after:
            orders.insert_one({}, session=session)
        assert 251 == after.value.code


_STATEMENTS = {
    "find": lambda found, session: list(found.find(session=session)),
    "find one": lambda found, session: found.find_one({"_id": 1}, session=session),
    "aggregate": lambda found, session: list(found.aggregate([{"$set": {"a": 1}}], session=session)),
    "count": lambda found, session: found.count_documents({}, session=session),
    "distinct": lambda found, session: found.distinct("a", session=session),
    "update": lambda found, session: found.update_one({}, {"$set": {"a": 1}}, session=session),
}


class TestWhatIsTheServersOwn:
    @pytest.mark.parametrize("work", _STATEMENTS.values(), ids=_STATEMENTS)
    @pytest.mark.parametrize(
        ("database", "collection", "told"),
        [
            ("config", "transactions", "Cannot run command against the 'config' database in a transaction."),
            ("local", "oplog.rs", "Cannot run command against the 'local' database in a transaction."),
            (
                "shop",
                "system.profile",
                "Cannot run command against the 'shop.system.profile' collection in a transaction.",
            ),
            (
                "shop",
                "system.views",
                "Cannot run command against the 'shop.system.views' collection in a transaction.",
            ),
        ],
    )
    def test_it_is_neither_read_nor_written_in_a_transaction(
        self, client: Any, orders: Any, session: Any, database: str, collection: str, told: str, work: Any
    ) -> None:
        session.start_transaction()
        with pytest.raises(OperationFailure) as caught:
            work(client[database][collection], session)
        assert (263, told) == (caught.value.code, caught.value.details["errmsg"])
        with pytest.raises(OperationFailure) as after:
            orders.insert_one({}, session=session)
        assert 251 == after.value.code

    def test_nor_is_its_database_as_a_whole(self, client: Any, session: Any) -> None:
        session.start_transaction()
        with pytest.raises(OperationFailure) as caught:
            client["config"].aggregate([{"$documents": []}], session=session)
        assert 263 == caught.value.code

    def test_admin_is(self, client: Any, session: Any) -> None:
        client["admin"]["kept"].insert_one({"_id": 1})
        with session.start_transaction():
            assert [{"_id": 1}] == list(client["admin"]["kept"].find(session=session))
