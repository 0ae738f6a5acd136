"""How a document of a collection is stored, and what is kept of an update."""

import pytest
from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

import reactdb
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.mongodb import MongoError, entries
from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.session import session_of
from reactdb.store.tools.doctor import examine
from reactdb.values import codec

ORDERS = MongoNamespace("shop", "orders")
UPDATE = {"$set": {"a.b": 2, "c.0": 5}, "$unset": {"d": 1}}
NESTED = {
    "updatedFields": {"a.b": 2, "c.0": 5},
    "removedFields": ["d"],
    "truncatedArrays": [],
    "disambiguatedPaths": {},
}


@pytest.fixture
def orders(db):
    return Namespaces(session_of(db)).create(ORDERS).table


def write(db, table, document, update=None):
    """Put the document in the table, or update the one with its `_id`; whether that changed anything."""
    spaces = Namespaces(session_of(db))
    work = CollectionWork(spaces, spaces.names.namespace(table.name))
    answer = work.update([{"q": {"_id": document["_id"]}, "u": update or document, "upsert": True}])
    assert "writeErrors" not in answer, answer
    return bool(answer["nModified"] or answer.get("upserted"))


def read(db, table, id):
    body = session_of(db).get(table.reference, entries.key_of(id))
    return None if body is None else entries.document_of(table, body)


@pytest.mark.parametrize(
    "id",
    [
        1,
        Int64(1),
        1.5,
        "x",
        None,
        float("nan"),
        float("inf"),
        {},
        {"a": None, "b": [1, {"c": 2}]},
        Decimal128("1.10"),
        Decimal128("NaN"),
        ObjectId("65a0b1c2d3e4f5a6b7c8d9e0"),
        MinKey(),
        MaxKey(),
        Timestamp(1, 2),
        True,
        b"x",
        Binary(b"x", 5),
        {"$ref": "a", "$id": 1},
    ],
    ids=repr,
)
def test_every_value_that_mongodb_allows_can_be_the_id(db, orders, id):
    write(db, orders, {"x": 1, "_id": id})

    found = read(db, orders, id)

    assert (["_id", "x"], type(id), repr(id)) == (list(found), type(found["_id"]), repr(found["_id"]))


@pytest.mark.parametrize(("code", "id"), [(53, [1]), (53, Regex("x")), (17280, "x" * 5_000)])
def test_what_can_be_no_id_has_its_code(code, id):
    with pytest.raises(MongoError) as caught:
        entries.key_of(id)

    assert code == caught.value.code


def test_numbers_that_are_equal_are_one_id():
    assert 1 == len({entries.key_of(one) for one in (1, 1.0, Int64(1), Decimal128("1.0"))})


@pytest.mark.parametrize(
    "alike",
    [
        (float("nan"), Decimal128("NaN"), Decimal128("-NaN"), Decimal128("sNaN")),
        (float("inf"), Decimal128("Infinity")),
        (float("-inf"), Decimal128("-Infinity")),
        ({"a": 1}, {"a": 1.0}, {"a": Int64(1)}, {"a": Decimal128("1.00")}),
        ({"a": [0, {"b": 2**62}]}, {"a": [-0.0, {"b": 2.0**62}]}),
        ({"a": float("nan")}, {"a": Decimal128("NaN")}),
    ],
    ids=repr,
)
def test_what_has_equal_numbers_is_one_id_and_keeps_its_types(db, orders, alike):
    assert 1 == len({entries.key_of(one) for one in alike})
    write(db, orders, {"_id": alike[-1]})
    assert repr(alike[-1]) == repr(read(db, orders, alike[0])["_id"])


def test_documents_that_are_not_equal_are_several_ids():
    others = [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}, {"a": True}, {"a": 1.5}, {"a": "1"}, {}, None]

    assert len(others) == len({entries.key_of(one) for one in others})


def test_such_files_are_sound(tmp_path):
    with reactdb.connect(tmp_path / "a.db") as db:
        table = Namespaces(session_of(db)).create(ORDERS).table
        write(db, table, {"_id": None, "a": {"b": 1}, "c": [1]})
        write(db, table, {"_id": None, "a": {"b": 2}, "c": [5]}, UPDATE)

    assert [] == [
        finding
        for _, found in examine(str(tmp_path / "a.db"))
        for finding in found
        if finding.level == "problem"
    ]


def test_another_primary_key_is_shown_as_the_id(db):
    table = db.table_create("games", primary_key="name")
    info = session_of(db).info("games")
    table.insert({"score": 1, "name": "go", "_id": 7})

    assert {"_id": "go", "score": 1, "name": 7} == read(db, info, "go")
    write(db, info, {"_id": "chess", "name": 8})
    assert {"name": "chess", "_id": 8} == db.table("games").get("chess").run()


def test_what_an_update_has_touched_is_kept_with_its_entry(db, orders):
    write(db, orders, {"_id": 1, "a": {"b": 1}, "c": [1, 2], "d": 0})
    new = {"_id": 1, "a": {"b": 2}, "c": [5, 2]}

    assert write(db, orders, new, UPDATE)

    change = session_of(db).newest("shop.orders", entries.key_of(1))
    assert ("update", NESTED) == (change.kind, entries.description_of(change.meta, new))


def test_ambiguous_paths_are_kept_as_they_were(db, orders):
    new = {"_id": 1, "a": {"0": {"x.y": 1}}, "l": [1, 2]}
    said = {
        "updatedFields": {"a.0.x.y": 1},
        "removedFields": [],
        "truncatedArrays": [{"field": "l", "newSize": 2}],
        "disambiguatedPaths": {"a.0.x.y": ["a", "0", "x.y"]},
    }

    assert said == entries.description_of(entries.meta_of(said), new)


def test_a_change_of_the_order_of_fields_is_a_change_and_an_equal_document_is_none(db, orders):
    write(db, orders, {"_id": 1, "a": 1, "b": 2})
    seq = db.seq

    assert not write(db, orders, {"_id": 1, "a": 1, "b": 2})
    assert seq == db.seq
    assert write(db, orders, {"_id": 1, "b": 2, "a": 1})
    assert ["_id", "b", "a"] == list(read(db, orders, 1))


@pytest.mark.slow
def test_what_would_take_more_than_16_mb_as_bson_is_refused_however_small_it_is_stored():
    # Twelve bytes a number as BSON, and five or fewer as they are stored.
    many = [{"$set": {"a": {"$range": [0, 1_500_000]}}}]
    with reactdb.connect(":memory:") as db:
        spaces = Namespaces(session_of(db))
        orders = spaces.create(ORDERS).table
        assert write(db, orders, {"_id": 1, "a": [1]})

        answer = CollectionWork(spaces, ORDERS).update([{"q": {"_id": 1}, "u": many}])

        assert [10334] == [error["code"] for error in answer["writeErrors"]]
        assert {"_id": 1, "a": [1]} == read(db, orders, 1)


def test_the_id_cannot_be_changed(db, orders):
    write(db, orders, {"_id": 1})
    statement = {"q": {"_id": 1}, "u": {"_id": 2}}

    (error,) = CollectionWork(Namespaces(session_of(db)), ORDERS).update([statement])["writeErrors"]
    assert 66 == error["code"]


def test_a_table_that_couchdb_serves_keeps_its_revisions(db):
    couch = Couch(db)
    notes = couch.create("notes")
    table = session_of(db).info("notes")
    write(db, table, {"_id": "a", "x": 1})

    write(db, table, {"_id": "a"}, {"$set": {"x": 2}})

    change = session_of(db).newest("notes", entries.key_of("a"))
    assert ("update", None) == (change.kind, entries.description_of(change.meta, {"x": 2}))
    assert notes.get("a")["_rev"].startswith("2-")


def test_native_writes_say_nothing_of_themselves(db):
    db.table_create("t").insert({"id": 1})
    db.table("t").get(1).update({"x": 1})

    change = session_of(db).newest("t", entries.key_of(1))
    assert entries.description_of(change.meta, {}) is None
    assert {"id": 1, "x": 1} == codec.decode(change.new_bytes)
