"""Natural order: what the law of it (`tests/laws`) does not do."""

import pytest

import reactdb
from reactdb.dialects.mongodb import natural
from reactdb.dialects.mongodb.namespaces import place_table
from reactdb.dialects.mongodb.natural import FEW, places_of
from reactdb.session import session_of
from reactdb.values import collation


@pytest.fixture
def db():
    with reactdb.connect(":memory:") as db:
        yield db


@pytest.fixture
def orders(db):
    return reactdb.mongodb(db)["shop"]["orders"]


def ids(documents):
    return [document["_id"] for document in documents]


def has_places(db, name="shop.orders"):
    with session_of(db).read() as now:
        return now.catalogue.live.get(place_table(now.catalogue.live[name].id)) is not None


class TestWhatIsKept:
    def test_nothing_while_each_id_is_the_greatest(self, db, orders):
        orders.insert_one({"n": 1})
        orders.insert_many([{"n": n} for n in range(5)])
        orders.update_one({"n": 9}, {"$set": {"m": 1}}, upsert=True)
        orders.delete_one({"n": 9})
        orders.insert_one({"n": 9})

        assert not has_places(db)

    def test_nothing_where_the_greatest_was_deleted_and_comes_back(self, db, orders):
        orders.insert_many([{"_id": n} for n in range(3)])
        orders.delete_one({"_id": 2})
        orders.insert_one({"_id": 2})

        assert not has_places(db)

    def test_nothing_where_an_insert_is_refused(self, db, orders):
        orders.insert_many([{"_id": n} for n in range(3)])
        with pytest.raises(Exception, match="E11000"):
            orders.insert_one({"_id": 1})

        assert not has_places(db)

    def test_nothing_for_a_capped_collection(self, db):
        capped = reactdb.mongodb(db)["shop"].create_collection("capped", capped=True, size=4096)
        capped.insert_many([{"_id": name} for name in "cab"])

        assert ["c", "a", "b"] == ids(capped.find())
        assert not has_places(db, "shop.capped")

    def test_the_hidden_table_is_no_collection(self, db, orders):
        orders.insert_many([{"_id": name} for name in "cab"])

        assert has_places(db)
        assert ["orders"] == orders.database.list_collection_names()
        assert ["shop.orders"] == db.table_list()


class TestOrder:
    def test_what_a_filter_finds_in_a_large_collection(self, db, orders):
        """The places of few documents are looked up, and of many all are read."""
        count = 3 * FEW
        names = [f"{n * 7919 % count:05d}" for n in range(count)]
        orders.insert_many([{"_id": name, "n": place % 3} for place, name in enumerate(names)])
        orders.create_index("n")

        assert names == ids(orders.find())
        assert names[1::3] == ids(orders.find({"n": 1}))
        assert names[1::3][:5] == ids(orders.find({"n": 1}).limit(5))
        assert names[-1:] == ids(orders.find().sort("$natural", -1).limit(1))

    def test_a_range_of_ids_comes_in_their_order(self, orders):
        orders.insert_many([{"_id": name} for name in "cab"])

        assert ["b", "c"] == ids(orders.find({"_id": {"$gt": "a"}}))
        assert ["a", "c"] == ids(orders.find({"_id": {"$in": ["c", "a"]}}))

    def test_documents_that_were_there_before_come_first(self, orders):
        orders.insert_many([{"_id": n} for n in range(3)])
        orders.insert_many([{"_id": n} for n in (-1, 5, -2)])

        assert [0, 1, 2, -1, 5, -2] == ids(orders.find())

    def test_many_documents_that_were_there_before_have_no_places(self, db, orders, monkeypatch):
        monkeypatch.setattr(natural, "FEW", 2)
        orders.insert_many([{"_id": n} for n in range(10)])
        orders.insert_many([{"_id": n} for n in (-1, 12, -2)])
        orders.delete_one({"_id": 5})
        orders.insert_one({"_id": 5})

        assert [0, 1, 2, 3, 4, 6, 7, 8, 9, -1, 12, -2, 5] == ids(orders.find())
        assert [0, 1, 2, 3, 4, 6, 7, 8, 9, -1, 12] == ids(orders.find().limit(11))
        with session_of(db).read() as now:
            assert 5 == now.count(places_of(now.catalogue, now.table("shop.orders")))

    def test_documents_that_were_inserted_natively_come_last_in_the_order_of_keys(self, db, orders):
        orders.insert_many([{"_id": n} for n in (3, 1)])
        db.table("shop.orders").insert([{"_id": 4}, {"_id": 2}])
        orders.insert_one({"_id": 0})

        assert [3, 1, 0, 2, 4] == ids(orders.find())
        assert [3, 1, 0, 2, 4] == ids(orders.find().limit(9))

    def test_those_below_the_greatest_that_was_there_before_come_first(self, db, orders, monkeypatch):
        """They cannot be told from those that have no place because they were there before."""
        monkeypatch.setattr(natural, "FEW", 1)
        orders.insert_many([{"_id": n} for n in (1, 3)])
        orders.insert_one({"_id": 0})
        db.table("shop.orders").insert([{"_id": 4}, {"_id": 2}])

        assert [1, 2, 3, 0, 4] == ids(orders.find())
        assert [1, 2, 3, 0, 4] == ids(orders.find().limit(9))

    def test_a_file_that_does_not_say_up_to_where_there_are_no_places(self, db, orders):
        """It was written before that was kept."""
        orders.insert_many([{"_id": n} for n in (3, 1)])
        db.table("shop.orders").insert([{"_id": 4}, {"_id": 2}])
        with session_of(db).transaction() as transaction:
            rows = places_of(transaction.catalogue, transaction.catalogue.live["shop.orders"])
            transaction.put(rows, collation.key_bytes(natural.UNTIL), None)
        orders.insert_one({"_id": 0})

        assert [2, 4, 3, 1, 0] == ids(orders.find())
        assert [2, 4, 3, 1, 0] == ids(orders.find().limit(9))

    def test_the_first_documents_are_read_without_the_others(self, orders, monkeypatch):
        orders.insert_many([{"_id": f"{n * 7919 % 1000:03d}", "n": n} for n in range(1000)])
        asked = []
        whole = natural.read_keys_by_seq
        monkeypatch.setattr(
            natural, "read_keys_by_seq", lambda *arguments: asked.append(arguments[-1]) or whole(*arguments)
        )

        assert 0 == orders.find_one()["n"]
        assert 3 == orders.find_one({"n": {"$gt": 2}})["n"]
        orders.update_one({"n": 4}, {"$set": {"m": 1}})
        orders.delete_one({"n": 5})
        assert [natural.FIRST_ROWS] * 4 == asked

    def test_a_document_that_was_deleted_natively_and_comes_back(self, db, orders):
        orders.insert_many([{"_id": n} for n in (3, 1, 2)])
        db.table("shop.orders").get(1).delete()
        orders.insert_many([{"_id": 0}, {"_id": 1}])

        assert [3, 2, 0, 1] == ids(orders.find())

    def test_statements_of_a_transaction_see_its_documents_last(self, db, orders):
        orders.insert_many([{"_id": n} for n in (3, 1)])
        with orders.database.client.start_session() as session, session.start_transaction():
            orders.insert_many([{"_id": 2}, {"_id": 0}], session=session)
            orders.delete_one({"_id": 3}, session=session)
            orders.insert_one({"_id": 3}, session=session)

            assert [1, 2, 0, 3] == ids(orders.find(session=session))
            assert [3, 1] == ids(orders.find())

        assert [1, 2, 0, 3] == ids(orders.find())

    def test_statements_of_a_transaction_that_itself_inserts_the_first_out_of_order(self, db, orders):
        orders.insert_many([{"_id": n} for n in (1, 5)])
        made = orders.database["made"]
        with orders.database.client.start_session() as session, session.start_transaction():
            orders.insert_one({"_id": 3}, session=session)
            orders.insert_many([{"_id": 9}, {"_id": 2}], session=session)
            orders.delete_one({"_id": 5}, session=session)
            made.insert_many([{"_id": name} for name in "ba"], session=session)

            assert [1, 3, 9, 2] == ids(orders.find(session=session))
            assert ["b", "a"] == ids(made.find(session=session))
            assert [1, 5] == ids(orders.find())
            assert not has_places(db)

        assert [1, 3, 9, 2] == ids(orders.find())
        assert ["b", "a"] == ids(made.find())

    def test_a_cursor_that_was_opened_before(self, orders):
        orders.insert_many([{"_id": n} for n in range(200)])
        cursor = orders.find()
        first = next(cursor)
        orders.insert_one({"_id": -1})
        orders.delete_one({"_id": 150})

        assert list(range(200)) == [first["_id"], *ids(cursor)]

    def test_update_and_delete_one_take_the_oldest(self, orders):
        orders.insert_many([{"_id": name, "n": 1} for name in "cab"])
        orders.update_one({"n": 1}, {"$set": {"n": 2}})
        orders.delete_one({"n": 1})

        assert [{"_id": "c", "n": 2}, {"_id": "b", "n": 1}] == list(orders.find())

    def test_events_of_an_update_of_many_come_in_this_order(self, orders):
        orders.insert_many([{"_id": name} for name in "cab"])
        with orders.watch() as stream:
            orders.update_many({}, {"$set": {"n": 1}})
            seen = [stream.next()["documentKey"]["_id"] for _ in range(3)]

        assert ["c", "a", "b"] == seen

    def test_a_rename_keeps_it(self, orders):
        orders.insert_many([{"_id": name} for name in "cab"])
        orders.rename("kept")

        assert ["c", "a", "b"] == ids(orders.database["kept"].find())

    def test_a_copy_by_out_and_merge_has_it(self, orders):
        orders.insert_many([{"_id": name} for name in "cab"])
        orders.aggregate([{"$out": "out"}])
        orders.aggregate([{"$merge": "merged"}])

        assert ["c", "a", "b"] == ids(orders.database["out"].find())
        assert ["c", "a", "b"] == ids(orders.database["merged"].find())
