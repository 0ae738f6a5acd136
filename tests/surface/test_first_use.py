"""The imports of a first use of MongoDB's collections, and PyMongo's classes that a program imports later.

The programs run in processes of their own, because this one has already imported everything.
"""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

pytest.importorskip("pymongo")

ORDERS = """
    import sys
    import reactdb
    orders = reactdb.mongodb(reactdb.connect(":memory:"))["shop"]["orders"]
"""
HEAVY = [
    "asyncio",
    "dataclasses",
    "inspect",
    "msgspec",
    "pymongo",
    "reactdb.dialects.mongodb.commands",
    "reactdb.dialects.mongodb.expressions",
    "reactdb.dialects.mongodb.patterns",
    "reactdb.dialects.mongodb.stages",
    "reactdb.dialects.mongodb.streams",
    "reactdb.feeds",
    "reactivex",
]


def output_of(program: str) -> list[str]:
    """The printed words of a program that has MongoDB's collection `orders`."""
    code = dedent(ORDERS) + dedent(program)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (0, "") == (result.returncode, result.stderr)
    return result.stdout.split()


def test_writing_and_reading_imports_neither_pymongo_nor_rare_parts_of_the_dialect():
    program = f"""
        orders.create_index([("n", -1), "item"], unique=False)
        assert orders.insert_one({{"_id": 1, "n": 1}}).inserted_id == 1
        assert orders.insert_many([{{"_id": 2, "n": 2}}, {{"_id": "c", "n": 3}}]).inserted_ids == [2, "c"]
        assert orders.find_one({{"_id": 1}}) == {{"_id": 1, "n": 1}}
        assert len(list(orders.find({{"n": {{"$gt": 1}}}}).sort("n", -1).limit(2))) == 2
        assert orders.update_one({{"_id": 1}}, {{"$inc": {{"n": 1}}}}).modified_count == 1
        assert orders.replace_one({{"_id": 4}}, {{"n": 4}}, upsert=True).upserted_id == 4
        assert orders.find_one_and_update({{"_id": 1}}, {{"$set": {{"n": 5}}}}) == {{"_id": 1, "n": 2}}
        assert orders.count_documents({{"n": 5}}) == 1 and orders.distinct("n") == [2, 3, 4, 5]
        assert orders.delete_many({{}}).deleted_count == 4
        print(*(name for name in {HEAVY} if name in sys.modules))
    """

    assert [] == output_of(program)


def test_a_database_without_a_feed_imports_no_feeds():
    program = """
        import sys
        import reactdb
        db = reactdb.connect(":memory:")
        games = db.table_create("games")
        games.insert({"id": 1, "score": 2})
        assert games.get(1).run() and list(games.filter(reactdb.row["score"] > 1).run())
        print(*(name for name in sys.modules if name.startswith("reactdb.feeds")))
    """
    result = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=60
    )

    assert ("", "") == (result.stdout.strip(), result.stderr)


RESULTS = """
    inserted = orders.insert_one({"_id": 1})
    many = orders.insert_many([{"_id": 2}, {"_id": 3}])
    updated = orders.update_one({"_id": 1}, {"$set": {"n": 1}})
    replaced = orders.replace_one({"_id": 4}, {}, upsert=True)
    deleted = orders.delete_one({"_id": 2})
    results = {
        inserted: "InsertOneResult", many: "InsertManyResult", updated: "UpdateResult", replaced: "UpdateResult",
        deleted: "DeleteResult",
    }
"""


@pytest.mark.parametrize("is_first", [True, False], ids=["imported first", "imported later"])
def test_the_results_of_writes_are_instances_of_pymongos_classes(is_first):
    program = """
        from pymongo import results as pymongos
        for result, name in results.items():
            assert isinstance(result, getattr(pymongos, name)), result
            assert isinstance(result, pymongos._WriteResult) and result.acknowledged is True
            assert not isinstance(result, pymongos.BulkWriteResult)
            others = {"InsertOneResult", "InsertManyResult", "UpdateResult", "DeleteResult"} - {name}
            assert not any(isinstance(result, getattr(pymongos, other)) for other in others)
    """
    before = "assert ('pymongo' in sys.modules) == " + str(is_first)
    parts = [before, dedent(RESULTS), before, dedent(program)]

    assert [] == output_of("\n".join([*(["import pymongo"] if is_first else []), *parts]))


def test_a_copy_of_a_result_is_pymongos():
    program = """
        import copy, pickle
        for result, name in results.items():
            for twin in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
                assert type(twin).__module__ == "pymongo.results" and type(twin).__name__ == name
                for attribute in dir(type(twin)):
                    if not attribute.startswith("_"):
                        assert getattr(twin, attribute) == getattr(result, attribute), attribute
                assert repr(twin) == repr(result)
    """

    assert [] == output_of(dedent(RESULTS) + dedent(program))


ERRORS = """
    orders.insert_one({"_id": 1})
    client = orders.database.client
    errors = [
        ("DuplicateKeyError", lambda: orders.insert_one({"_id": 1})),
        ("BulkWriteError", lambda: orders.insert_many([{"_id": 2}, {"_id": 1}])),
        ("WriteError", lambda: orders.update_one({}, {"$inc": {"_id": 1}})),
        ("OperationFailure", lambda: orders.find({"$no": 1}).next()),
        ("InvalidName", lambda: orders.database["a$b"]),
        ("InvalidOperation", lambda: orders.bulk_write([])),
        ("InvalidOperation", lambda: client.start_session().commit_transaction()),
        ("ConfigurationError", lambda: reactdb.mongodb(client.native, socketTimeoutMS=1)),
        ("CollectionInvalid", lambda: orders.database.create_collection("orders")),
    ]
"""


@pytest.mark.parametrize("is_first", [True, False], ids=["imported first", "imported later"])
def test_errors_are_pymongos(is_first):
    program = f"""
        assert ("pymongo" in sys.modules) == {is_first}
        for name, call in errors:
            try:
                call()
            except Exception as error:
                raised = error
            else:
                raise AssertionError("nothing was raised")
            import pymongo.errors
            assert type(raised) is getattr(pymongo.errors, name), repr(raised)
        orders.insert_one({{"_id": 3}})
        assert orders.find_one(3) == {{"_id": 3}}
    """
    parts = [dedent(ERRORS), dedent(program)]

    assert [] == output_of("\n".join([*(["import pymongo"] if is_first else []), *parts]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "is_there"),
    [
        ("assert list(orders.aggregate([{'$group': {'_id': '$n'}}]))", "stages"),
        ("assert orders.find_one({'$expr': {'$eq': ['$n', 1]}})", "expressions"),
        ("assert orders.find_one({'item': {'$regex': '^t'}})", "patterns"),
        ("assert orders.find_one({'$jsonSchema': {'required': ['n']}})", "schemas"),
        ("assert orders.find_one({}, {'n': 1, '_id': 0}) == {'n': 1}", "projection"),
        ("assert orders.update_one({}, [{'$set': {'n': 2}}]).modified_count", "stages"),
        ("assert orders.find_one_and_update({}, {'$set': {'n': 2}}, {'n': 1}, let={'a': 1})", "projection"),
        ("orders.create_index('$**', wildcardProjection={'n': 1})", "shapes"),
        ("assert orders.database.command('ping')['ok']", "commands"),
        ("orders.watch().close()", "streams"),
        ("orders.changes().subscribe().dispose()", "streams"),
        ("orders.database.client.start_session().end_session()", "embedded.session"),
        (
            "with orders.database.client.start_session() as s, s.start_transaction(): orders.insert_one({}, session=s)",
            "commands",
        ),
        (
            "orders.database.command('create', 'v', viewOn='orders', pipeline=[]); assert orders.database['v'].find_one()",
            "view_graph",
        ),
    ],
)
def test_each_part_is_imported_by_its_first_use(statement, is_there):
    program = f"""
        orders.insert_one({{"_id": 1, "n": 1, "item": "tea"}})
        {statement}
        print("reactdb.dialects.mongodb.{is_there}" in sys.modules)
    """

    assert ["True"] == output_of(program)


def test_a_default_option_is_pymongos():
    program = """
        assert "pymongo" not in sys.modules
        from pymongo import ReadPreference, WriteConcern, read_concern
        for holder in (orders, orders.database, orders.database.client, orders["more"]):
            assert holder.read_preference is ReadPreference.PRIMARY
            assert holder.write_concern == WriteConcern() and holder.read_concern == read_concern.ReadConcern()
        majority = orders.with_options(write_concern=WriteConcern("majority"))
        assert majority["more"].write_concern == WriteConcern("majority")
    """

    assert [] == output_of(program)
