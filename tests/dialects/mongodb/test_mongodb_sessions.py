"""Sessions in the process have the manners of PyMongo's: what is done in one means what it means over a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import reactdb
from reactdb import Database

pytest.importorskip("pymongo")

from bson import Timestamp
from pymongo import InsertOne
from pymongo.errors import (
    CollectionInvalid,
    ConfigurationError,
    CursorNotFound,
    InvalidOperation,
    OperationFailure,
)
from pymongo.read_concern import ReadConcern

from reactdb.servers.mongodb import serve_in_thread


@pytest.fixture
def db() -> Iterator[Database]:
    with reactdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture(params=["in the process", "over a socket"])
def client(request: pytest.FixtureRequest, db: Database) -> Iterator[Any]:
    """The client in the process, and PyMongo's own, which says what is right."""
    if request.param == "in the process":
        yield reactdb.mongodb(db)
        return
    from pymongo import MongoClient

    with serve_in_thread(db) as server, MongoClient(server.uri) as made:
        yield made


@pytest.fixture
def orders(client: Any) -> Any:
    found = client["shop"]["orders"]
    found.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 2}])
    return found


@pytest.fixture
def session(client: Any) -> Iterator[Any]:
    with client.start_session() as opened:
        yield opened


def code_of(work: Callable[[], Any]) -> int | None:
    with pytest.raises(OperationFailure) as caught:
        work()
    return caught.value.code


class TestTransactions:
    @pytest.mark.parametrize(
        ("code", "work"),
        [
            (2, lambda orders, session: orders.find_one({"$no": 1}, session=session)),
            (2, lambda orders, session: list(orders.find({"$expr": {"$divide": [1, 0]}}, session=session))),
            (2, lambda orders, session: orders.count_documents({"$no": 1}, session=session)),
            (2, lambda orders, session: orders.distinct("n", {"$no": 1}, session=session)),
            (40324, lambda orders, session: orders.aggregate([{"$no": 1}], session=session)),
            (2, lambda orders, session: orders.delete_one({"$no": 1}, session=session)),
            (9, lambda orders, session: orders.update_one({}, {"$no": {"n": 1}}, session=session)),
            (9, lambda orders, session: orders.find_one_and_update({}, {"$no": {"n": 1}}, session=session)),
            (
                59,
                lambda orders, session: orders.database.command("find", "orders", session=session, filter=1),
            ),
        ],
    )
    def test_any_error_of_a_statement_ends_its_transaction(
        self, orders: Any, session: Any, code: int, work: Any
    ) -> None:
        session.start_transaction()
        orders.insert_one({"_id": 3}, session=session)
        with pytest.raises(OperationFailure) as caught:
            work(orders, session)
        assert caught.value.code in (code, 14)
        assert session.in_transaction
        assert 251 == code_of(lambda: orders.insert_one({"_id": 4}, session=session))
        assert 251 == code_of(session.commit_transaction)
        assert [1, 2] == [one["_id"] for one in orders.find()]

    @pytest.mark.parametrize(
        "work",
        [
            lambda orders, session: orders.drop(session=session),
            lambda orders, session: orders.database.drop_collection("orders", session=session),
            lambda orders, session: orders.database.client.drop_database("shop", session=session),
            lambda orders, session: orders.rename("other", session=session),
            lambda orders, session: orders.drop_index("n_1", session=session),
            lambda orders, session: orders.drop_indexes(session=session),
            lambda orders, session: list(orders.list_indexes(session=session)),
            lambda orders, session: orders.index_information(session=session),
            lambda orders, session: orders.options(session=session),
            lambda orders, session: orders.database.list_collection_names(session=session),
            lambda orders, session: list(orders.database.list_collections(session=session)),
            lambda orders, session: orders.database.client.list_database_names(session=session),
            lambda orders, session: orders.database.command("drop", "orders", session=session),
            lambda orders, session: list(orders.database.client.list_databases(session=session)),
        ],
    )
    def test_what_is_no_statement_is_refused_and_not_done(self, orders: Any, session: Any, work: Any) -> None:
        orders.create_index("n")
        with session.start_transaction():
            orders.insert_one({"_id": 3}, session=session)
            assert 263 == code_of(lambda: work(orders, session))
        assert [1, 2, 3] == [one["_id"] for one in orders.find()]
        assert ["_id_", "n_1"] == sorted(orders.index_information())

    def test_a_commit_can_be_said_again_and_then_nothing_else(self, orders: Any, session: Any) -> None:
        session.start_transaction()
        orders.insert_one({"_id": 3}, session=session)
        session.commit_transaction()
        session.commit_transaction()
        with pytest.raises(
            InvalidOperation, match="Cannot call abortTransaction after calling commitTransaction"
        ):
            session.abort_transaction()
        assert 3 == orders.count_documents({}, session=session)
        with pytest.raises(InvalidOperation, match="No transaction started"):
            session.commit_transaction()

    def test_an_abort_cannot_be_said_again_nor_a_commit(self, orders: Any, session: Any) -> None:
        session.start_transaction()
        session.abort_transaction()
        with pytest.raises(InvalidOperation, match="Cannot call abortTransaction twice"):
            session.abort_transaction()
        with pytest.raises(
            InvalidOperation, match="Cannot call commitTransaction after calling abortTransaction"
        ):
            session.commit_transaction()
        orders.find_one(session=session)
        with pytest.raises(InvalidOperation, match="No transaction started"):
            session.abort_transaction()

    def test_a_commit_that_failed_fails_again(self, orders: Any, session: Any) -> None:
        session.start_transaction()
        orders.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
        assert 11000 == code_of(lambda: orders.insert_one({"_id": 1}, session=session))
        assert 251 == code_of(session.commit_transaction)
        assert 251 == code_of(session.commit_transaction)
        assert not session.in_transaction

    def test_wrong_options_are_refused_as_pymongo_does_it(self, client: Any, session: Any) -> None:
        with pytest.raises(TypeError):
            session.start_transaction(read_concern="majority")
        with pytest.raises(TypeError):
            client.start_session(default_transaction_options=1)
        assert not session.in_transaction
        with session.start_transaction(read_concern=ReadConcern("majority")):
            assert session.in_transaction

    @pytest.mark.parametrize("level", ["local", "majority", "snapshot"])
    def test_it_has_a_read_concern_of_its_own(self, orders: Any, session: Any, level: str) -> None:
        with session.start_transaction(read_concern=ReadConcern(level)):
            assert 2 == orders.count_documents({}, session=session)
            assert 2 == orders.count_documents({}, session=session)

    @pytest.mark.parametrize("level", ["available", "linearizable"])
    def test_a_read_concern_that_no_transaction_has_is_refused(
        self, orders: Any, session: Any, level: str
    ) -> None:
        session.start_transaction(read_concern=ReadConcern(level))
        assert 72 == code_of(lambda: orders.find_one(session=session))
        assert 251 == code_of(lambda: orders.find_one(session=session))

    def test_a_collection_that_is_there_has_the_code_in_one(
        self, client: Any, orders: Any, session: Any
    ) -> None:
        shop = client["shop"]
        with pytest.raises(CollectionInvalid):
            shop.create_collection("orders")
        shop.create_collection("orders", check_exists=False)
        assert 48 == code_of(lambda: shop.create_collection("orders", check_exists=False, validator={"n": 1}))
        session.start_transaction()
        assert 48 == code_of(lambda: shop.create_collection("orders", session=session))

    def test_a_cursor_is_read_in_it_whatever_is_asked_of_it(self, orders: Any, session: Any) -> None:
        with session.start_transaction():
            orders.insert_one({"_id": 3, "n": 3}, session=session)
            cursor = orders.find({"n": {"$gt": 1}}, session=session)
            assert [2, 3] == cursor.distinct("n") == [one["n"] for one in cursor]
            assert [2, 3] == cursor.clone().distinct("n")
            assert 263 == code_of(cursor.clone().explain)


class TestSnapshots:
    def test_all_reads_are_of_the_moment_of_the_first(self, client: Any, orders: Any) -> None:
        with client.start_session(snapshot=True) as session:
            cursor = orders.find({}, session=session)
            orders.insert_one({"_id": 3, "n": 3})
            assert [1, 2, 3] == [one["_id"] for one in cursor]
            orders.insert_one({"_id": 4, "n": 4})
            orders.update_one({"_id": 1}, {"$set": {"n": 0}})
            assert {"_id": 1, "n": 1} == orders.find_one(1, session=session)
            assert 3 == orders.count_documents({}, session=session)
            assert [1, 2, 3] == orders.distinct("n", session=session)
            assert [{"n": 6}] == list(
                orders.aggregate(
                    [{"$group": {"_id": None, "n": {"$sum": "$n"}}}, {"$unset": "_id"}], session=session
                )
            )
            found = client["shop"].command("distinct", "orders", key="n", session=session)
            assert [1, 2, 3] == found["values"]
        assert 4 == orders.count_documents({})

    @pytest.mark.parametrize(
        "work",
        [
            lambda orders, session: orders.insert_one({}, session=session),
            lambda orders, session: orders.insert_many([{}], session=session),
            lambda orders, session: orders.update_one({}, {"$set": {"n": 0}}, session=session),
            lambda orders, session: orders.update_many({}, {"$set": {"n": 0}}, session=session),
            lambda orders, session: orders.replace_one({}, {"n": 0}, session=session),
            lambda orders, session: orders.delete_one({}, session=session),
            lambda orders, session: orders.delete_many({}, session=session),
            lambda orders, session: orders.find_one_and_delete({}, session=session),
            lambda orders, session: orders.bulk_write([InsertOne({})], session=session),
            lambda orders, session: orders.create_index("n", session=session),
            lambda orders, session: orders.drop(session=session),
            lambda orders, session: orders.database.create_collection(
                "other", session=session, check_exists=False
            ),
            lambda orders, session: orders.database.list_collection_names(session=session),
            lambda orders, session: orders.database.command("count", "orders", session=session),
            lambda orders, session: orders.watch(session=session),
        ],
    )
    def test_nothing_else_is_done_in_one(self, client: Any, orders: Any, work: Any) -> None:
        with client.start_session(snapshot=True) as session:
            assert 72 == code_of(lambda: work(orders, session))
        assert [{"_id": 1, "n": 1}, {"_id": 2, "n": 2}] == list(orders.find())
        assert ["orders"] == client["shop"].list_collection_names()

    def test_it_has_no_transactions_and_is_not_causal(self, client: Any) -> None:
        with client.start_session(snapshot=True) as session:
            assert session.options.snapshot
            with pytest.raises(InvalidOperation, match="Transactions are not supported in snapshot sessions"):
                session.start_transaction()
        with pytest.raises(ConfigurationError):
            client.start_session(snapshot=True, causal_consistency=True)


class TestMoments:
    def test_an_operation_tells_the_session_its_moment(self, client: Any, orders: Any, session: Any) -> None:
        assert session.operation_time is None
        orders.insert_one({"_id": 3}, session=session)
        moment = session.operation_time
        orders.insert_one({"_id": 4})
        assert moment == session.operation_time
        assert moment <= session.cluster_time["clusterTime"]
        after = Timestamp(moment.time, moment.inc + 1)
        with orders.watch(start_at_operation_time=after) as stream:
            assert {"_id": 4} == stream.next()["documentKey"]
        assert orders.find_one(1, session=session) is not None
        assert moment < session.operation_time

    @pytest.mark.parametrize(
        ("kind", "work"),
        [
            ("drop", lambda orders, session: orders.drop(session)),
            ("rename", lambda orders, session: orders.rename("others", session)),
            ("dropIndexes", lambda orders, session: orders.drop_index("n_1", session)),
            ("createIndexes", lambda orders, session: orders.create_index("m", session)),
            ("create", lambda orders, session: orders.database.create_collection("new", session=session)),
            ("drop", lambda orders, session: orders.database.drop_collection("orders", session)),
            ("drop", lambda orders, session: orders.database.client.drop_database("shop", session)),
        ],
    )
    def test_so_does_a_command_about_collections(
        self, client: Any, orders: Any, session: Any, kind: str, work: Any
    ) -> None:
        orders.create_index("n")
        orders.insert_one({"_id": 3})
        work(orders, session)
        with client.watch(
            start_at_operation_time=session.operation_time, show_expanded_events=True
        ) as stream:
            assert kind == stream.next()["operationType"]

    def test_another_session_can_be_told_of_it(self, client: Any, orders: Any, session: Any) -> None:
        orders.insert_one({"_id": 3}, session=session)
        with client.start_session() as other:
            other.advance_operation_time(session.operation_time)
            other.advance_cluster_time(session.cluster_time)
            assert session.operation_time == other.operation_time
            assert session.cluster_time["clusterTime"] == other.cluster_time["clusterTime"]
            other.advance_operation_time(Timestamp(1, 1))
            assert session.operation_time == other.operation_time
            assert 3 == orders.count_documents({}, session=other)
            for wrong in (1, {}, None):
                with pytest.raises(TypeError):
                    other.advance_operation_time(wrong)
                with pytest.raises(TypeError):
                    other.advance_cluster_time(wrong)


def test_a_session_of_another_file_is_refused(client: Any, orders: Any) -> None:
    with reactdb.connect(":memory:") as elsewhere:
        other = reactdb.mongodb(elsewhere)
        with other.start_session() as session, session.start_transaction():
            for work in (
                lambda: orders.insert_one({}, session=session),
                lambda: orders.drop(session=session),
            ):
                with pytest.raises((InvalidOperation, ValueError)):
                    work()
        assert [] == other.list_database_names()


def test_a_session_is_used_by_every_client_of_its_file(db: Database) -> None:
    one, other = reactdb.mongodb(db), reactdb.mongodb(db)
    with one.start_session() as session, session.start_transaction():
        other["shop"]["orders"].insert_one({"_id": 1}, session=session)
    assert {"_id": 1} == one["shop"]["orders"].find_one()


def test_a_cursor_tells_different_values_by_its_collation(orders: Any) -> None:
    orders.insert_many([{"_id": 3, "n": "a"}, {"_id": 4, "n": "A"}])

    def values() -> int | None:
        try:
            cursor = orders.find({"_id": {"$gt": 2}}).collation({"locale": "en", "strength": 1})
            return len(cursor.distinct("n"))
        except OperationFailure as error:
            return error.code

    # What MongoDB compares by ICU is refused where there is none.
    assert values() in (1, 238)


def test_a_cursor_that_is_not_there_has_pymongo_s_error(client: Any, orders: Any) -> None:
    with pytest.raises(CursorNotFound) as caught:
        client["shop"].command("getMore", 5, collection="orders")
    assert 43 == caught.value.code


def test_operations_in_the_block_of_a_bound_session_are_its_own(client: Any, orders: Any) -> None:
    with client.start_session() as session, session.bind(end_session=False):
        with session.start_transaction():
            orders.insert_one({"_id": 3})
            orders.update_one({"_id": 1}, {"$inc": {"n": 10}})
            orders.bulk_write([InsertOne({"_id": 4})])
            assert {"_id": 2, "n": 2} == orders.find_one_and_delete({"_id": 2})
            inside = [one["_id"] for one in orders.find()], orders.count_documents({}), orders.distinct("n")
            grouped = [
                one["_id"] for one in orders.aggregate([{"$group": {"_id": "$n"}}, {"$match": {"_id": 11}}])
            ]
            assert 263 == code_of(lambda: client["shop"].list_collection_names())
            session.abort_transaction()
        assert not session.has_ended

    assert ([1, 3, 4], 3, [11]) == inside
    assert [11] == grouped
    assert [{"_id": 1, "n": 1}, {"_id": 2, "n": 2}] == list(orders.find())


def test_a_bound_session_ends_with_its_block(client: Any, orders: Any) -> None:
    with client.start_session().bind() as session:
        orders.find_one()
    assert session.has_ended
    assert orders.find_one() is not None


def test_a_session_that_is_named_comes_before_one_that_is_bound(client: Any, orders: Any) -> None:
    with client.start_session() as other, client.start_session().bind() as bound, bound.start_transaction():
        orders.insert_one({"_id": 3})
        assert orders.find_one(3, session=other) is None
        with client.start_session().bind():
            assert orders.find_one(3) is None
        assert {"_id": 3} == orders.find_one(3)


def test_a_bound_session_of_another_client_is_refused(client: Any, orders: Any) -> None:
    with reactdb.connect(":memory:") as other, serve_in_thread(other) as server:
        from pymongo import MongoClient

        is_near = type(client).__name__ == "EmbeddedClient"
        stranger: Any = reactdb.mongodb(other) if is_near else MongoClient(server.uri)
        with stranger, stranger.start_session().bind(), pytest.raises(InvalidOperation):
            orders.insert_one({"_id": 3})
    assert orders.find_one(3) is None


@pytest.mark.parametrize("session", [5, "session", object()])
def test_what_is_no_session_is_refused(orders: Any, session: Any) -> None:
    """PyMongo does not always look before it uses it."""
    works: list[Callable[[], Any]] = [
        lambda: orders.insert_one({}, session=session),
        lambda: orders.update_one({}, {"$set": {"a": 1}}, session=session),
        lambda: orders.aggregate([], session=session),
        lambda: orders.count_documents({}, session=session),
        lambda: orders.list_indexes(session=session),
    ]
    for work in works:
        with pytest.raises((ValueError, AttributeError)):
            work()
