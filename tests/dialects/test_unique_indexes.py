"""A native unique index holds for every way into a table, and each way reports a duplicate in its own form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import reactdb
from reactdb.cli import main
from reactdb.dialects.aidbox.errors import AidboxError
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.errors import DuplicateIndexKey

SENTENCE = "Duplicate value in unique index `email` of table"


def emails(table: Any) -> dict[Any, Any]:
    return {one[table.primary_key]: one.get("email") for one in table}


class TestRethinkDB:
    @pytest.fixture
    def users(self, db: Any) -> Any:
        users = db.table_create("users")
        users.index_create("email", unique=True)
        users.insert([{"id": 1, "email": "a"}, {"id": 2, "email": "b"}])
        return users

    @pytest.fixture
    def q(self, db: Any, users: Any) -> Any:
        """Runs a query of the driver."""
        pytest.importorskip("rethinkdb")
        with reactdb.rethinkdb(db) as connection:
            yield lambda query: query.run(connection)

    @pytest.fixture
    def r(self) -> Any:
        return pytest.importorskip("rethinkdb").RethinkDB()

    def test_each_duplicate_of_an_insert_is_counted(self, q: Any, r: Any, users: Any):
        given = [{"id": 3, "email": "c"}, {"id": 4, "email": "a"}, {"id": 5, "email": "c"}, {"id": 6}]

        done = q(r.table("users").insert(given))

        assert (2, 2) == (done["inserted"], done["errors"])
        assert done["first_error"].startswith(SENTENCE)
        assert {1: "a", 2: "b", 3: "c", 6: None} == emails(users)

    @pytest.mark.parametrize("conflict", ["update", "replace"])
    def test_conflict_is_about_the_primary_key_alone(self, q: Any, r: Any, users: Any, conflict: str):
        done = q(r.table("users").insert({"id": 2, "email": "a"}, conflict=conflict))

        assert (1, {1: "a", 2: "b"}) == (done["errors"], emails(users))

    def test_an_update_counts_the_documents_that_would_be_duplicates(self, q: Any, r: Any, users: Any):
        done = q(r.table("users").update({"email": "same"}))

        assert (1, 1) == (done["replaced"], done["errors"])
        assert ["same"] == [email for email in emails(users).values() if email == "same"]

    def test_a_replace_is_counted(self, q: Any, r: Any, users: Any):
        done = q(r.table("users").get(2).replace({"id": 2, "email": "a"}))

        assert (1, {1: "a", 2: "b"}) == (done["errors"], emails(users))

    def test_the_function_of_its_status_makes_a_unique_index_again(self, q: Any, r: Any, db: Any):
        (status,) = q(r.table("users").index_status("email"))
        q(r.table_create("others"))
        q(r.table("others").index_create("email", status["function"]))

        done = q(r.table("others").insert([{"id": 1, "email": "a"}, {"id": 2, "email": "a"}]))

        assert 1 == done["errors"]
        assert db.table("others").index_wait("email")[0]["unique"]


class TestCouchDB:
    @pytest.fixture
    def table(self, db: Any) -> Any:
        Couch(db).create("users")
        table = db.table("users")
        table.index_create("email", unique=True)
        return table

    def test_a_bulk_refuses_the_duplicates_alone(self, db: Any, table: Any):
        users = Couch(db)["users"]

        rows = users.bulk_docs(
            [{"_id": "a", "email": 1}, {"_id": "b", "email": 1}, {"_id": "c", "email": 2}, {"_id": "d"}]
        )

        assert [True, False, True, True] == ["ok" in one for one in rows]
        assert ("b", "forbidden") == (rows[1]["id"], rows[1]["error"])
        assert rows[1]["reason"].startswith(SENTENCE)
        assert {"a": 1, "c": 2, "d": None} == emails(table)

    def test_a_single_write_is_forbidden(self, db: Any, table: Any):
        users = Couch(db)["users"]
        users.put({"_id": "a", "email": 1})

        with pytest.raises(CouchError, match=SENTENCE) as caught:
            users.put({"_id": "b", "email": 1})

        assert (403, "forbidden") == (caught.value.status, caught.value.error)

    def test_a_losing_revision_may_have_the_value_until_it_wins(self, db: Any, table: Any):
        users = Couch(db)["users"]
        users.put({"_id": "a", "email": 1})
        users.bulk_docs([{"_id": "b", "_rev": "1-z", "email": 2}], False)

        assert [] == users.bulk_docs([{"_id": "b", "_rev": "1-a", "email": 1}], False)
        with pytest.raises(CouchError, match=SENTENCE):
            users.delete("b", "1-z")

        assert {"a": 1, "b": 2} == emails(table)


class TestAidbox:
    @pytest.fixture
    def box(self, db: Any) -> Any:
        db.table_create("Patient").index_create("email", unique=True)
        return reactdb.aidbox(db)

    def test_a_duplicate_is_a_conflict(self, db: Any, box: Any):
        box["Patient"].create({"id": "a", "email": 1})
        box["Patient"].create({"id": "b", "email": 2})

        for write in (
            lambda: box["Patient"].create({"email": 1}),
            lambda: box["Patient"].put("b", {"email": 1}),
            lambda: box["Patient"].patch("b", {"email": 1}),
        ):
            with pytest.raises(AidboxError, match=SENTENCE) as caught:
                write()
            assert (409, "duplicate") == (caught.value.status, caught.value.code)
        assert {"a": 1, "b": 2} == emails(db.table("Patient"))

    def bundle(self, kind: str, emails: dict[str, Any]) -> dict[str, Any]:
        return {
            "resourceType": "Bundle",
            "type": kind,
            "entry": [
                {
                    "resource": {"resourceType": "Patient", "email": email},
                    "request": {"method": "PUT", "url": f"/Patient/{id}"},
                }
                for id, email in emails.items()
            ],
        }

    def test_a_transaction_is_checked_at_its_end(self, db: Any, box: Any):
        box.bundle(self.bundle("transaction", {"a": 1, "b": 2}))

        box.bundle(self.bundle("transaction", {"a": 2, "b": 1}))
        with pytest.raises(AidboxError, match=SENTENCE):
            box.bundle(self.bundle("transaction", {"c": 3, "d": 3}))

        assert {"a": 2, "b": 1} == emails(db.table("Patient"))

    def test_in_a_batch_the_duplicate_fails_alone(self, db: Any, box: Any):
        answer = box.bundle(self.bundle("batch", {"a": 1, "b": 1, "c": 2}))

        assert ["201", "409", "201"] == [entry["response"]["status"] for entry in answer["entry"]]
        assert {"a": 1, "c": 2} == emails(db.table("Patient"))


class TestMongoDB:
    @pytest.fixture
    def users(self, db: Any) -> Any:
        """A collection; its table has a native unique index."""
        pytest.importorskip("pymongo")
        users = reactdb.mongodb(db)["shop"]["users"]
        users.insert_one({"_id": 1, "email": "a"})
        db.table("shop.users").index_create("email", unique=True)
        return users

    def test_a_write_gets_mongodbs_error(self, users: Any):
        from pymongo.errors import DuplicateKeyError

        for write in (
            lambda: users.insert_one({"_id": 2, "email": "a"}),
            lambda: users.update_one({"_id": 2}, {"$set": {"email": "a"}}, upsert=True),
            lambda: users.replace_one({"_id": 2}, {"email": "a"}, upsert=True),
            lambda: users.find_one_and_update({"_id": 2}, {"$set": {"email": "a"}}, upsert=True),
        ):
            with pytest.raises(DuplicateKeyError) as caught:
                write()
            details = caught.value.details
            assert (11000, {"email": 1}, {"email": "a"}) == (
                details["code"],
                details["keyPattern"],
                details["keyValue"],
            )
        assert [{"_id": 1, "email": "a"}] == list(users.find())

    def test_an_unordered_bulk_writes_the_others(self, users: Any):
        from pymongo.errors import BulkWriteError

        with pytest.raises(BulkWriteError) as caught:
            users.insert_many([{"_id": 2, "email": "a"}, {"_id": 3, "email": "c"}, {"_id": 4}], ordered=False)

        assert [0] == [error["index"] for error in caught.value.details["writeErrors"]]
        assert [1, 3, 4] == users.distinct("_id")

    def test_a_transaction_raises_at_the_statement(self, db: Any, users: Any):
        from pymongo.errors import PyMongoError

        client = reactdb.mongodb(db)
        with client.start_session() as session:
            session.start_transaction()
            users.insert_one({"_id": 2, "email": "b"}, session=session)
            with pytest.raises(PyMongoError) as caught:
                users.insert_one({"_id": 3, "email": "b"}, session=session)

        assert 11000 == caught.value.code
        assert [1] == users.distinct("_id")

    def test_a_transaction_that_another_writer_overtakes_is_tried_again(self, db: Any, users: Any):
        from pymongo.errors import PyMongoError

        client = reactdb.mongodb(db)
        with client.start_session() as session:
            session.start_transaction()
            users.insert_one({"_id": 2, "email": "b"}, session=session)
            db.table("shop.users").insert({"_id": 3, "email": "b"})
            with pytest.raises(PyMongoError) as caught:
                session.commit_transaction()

        assert caught.value.has_error_label("TransientTransactionError")
        assert [1, 3] == users.distinct("_id")


class TestMongoDBsOwnIndexes:
    """Native writes keep MongoDB's rule, too."""

    @pytest.fixture
    def collection(self, db: Any) -> Any:
        pytest.importorskip("pymongo")
        return reactdb.mongodb(db)["shop"]["users"]

    def refuses(self, db: Any, document: dict[str, Any]) -> bool:
        """Whether a native insert is refused."""
        seq = db.seq
        try:
            db.table("shop.users").insert(document)
        except DuplicateIndexKey:
            assert seq == db.seq
            return True
        return False

    def test_a_native_write_keeps_the_index(self, db: Any, collection: Any):
        collection.create_index("email", unique=True)
        collection.insert_one({"_id": 1, "email": "a"})

        assert self.refuses(db, {"_id": 2, "email": "a"})
        with pytest.raises(
            DuplicateIndexKey, match=r"index `email_1` .* 'a' would belong to the documents 1 and 2"
        ):
            db.table("shop.users").insert({"_id": 2, "email": "a"})
        assert not self.refuses(db, {"_id": 2, "email": "b"})

    def test_a_missing_field_is_null(self, db: Any, collection: Any):
        collection.create_index("email", unique=True)
        collection.insert_one({"_id": 1})

        assert self.refuses(db, {"_id": 2})
        assert self.refuses(db, {"_id": 2, "email": None})

    def test_a_sparse_index_leaves_out_missing_fields_and_not_null(self, db: Any, collection: Any):
        collection.create_index("email", unique=True, sparse=True)
        collection.insert_many([{"_id": 1}, {"_id": 2, "email": None}])

        assert not self.refuses(db, {"_id": 3})
        assert self.refuses(db, {"_id": 4, "email": None})

    def test_a_partial_index_concerns_the_documents_of_its_filter(self, db: Any, collection: Any):
        collection.create_index("email", unique=True, partialFilterExpression={"active": True})
        collection.insert_one({"_id": 1, "email": "a", "active": True})

        assert not self.refuses(db, {"_id": 2, "email": "a"})
        assert self.refuses(db, {"_id": 3, "email": "a", "active": True})
        with pytest.raises(DuplicateIndexKey):
            db.table("shop.users").get(2).update({"active": True})

    def test_arrays_share_no_element_and_may_repeat_their_own(self, db: Any, collection: Any):
        collection.create_index("tags", unique=True)
        collection.insert_one({"_id": 1, "tags": ["a", "a", "b"]})

        assert not self.refuses(db, {"_id": 2, "tags": ["c", "c", "d"]})
        assert self.refuses(db, {"_id": 3, "tags": ["e", "d"]})
        assert not self.refuses(db, {"_id": 4, "tags": []})
        assert self.refuses(db, {"_id": 5, "tags": []})

    def test_a_compound_key_is_compared_as_a_whole(self, db: Any, collection: Any):
        collection.create_index([("a", 1), ("b", -1)], unique=True)
        collection.insert_one({"_id": 1, "a": 1, "b": 2})

        assert not self.refuses(db, {"_id": 2, "a": 1, "b": 3})
        assert not self.refuses(db, {"_id": 3, "a": 1})
        assert self.refuses(db, {"_id": 4, "a": 1})
        assert self.refuses(db, {"_id": 5, "a": 1.0, "b": 2})

    def test_an_index_that_becomes_unique_later_is_kept_from_then_on(self, db: Any, collection: Any):
        collection.create_index("email", name="email")
        collection.insert_one({"_id": 1, "email": "a"})
        command = reactdb.mongodb(db)["shop"].command
        for change in ({"prepareUnique": True}, {"unique": True}):
            command({"collMod": "users", "index": {"name": "email", **change}})

        assert self.refuses(db, {"_id": 2, "email": "a"})

    def test_two_documents_can_swap_natively(self, db: Any, collection: Any):
        collection.create_index("email", unique=True)
        collection.insert_many([{"_id": 1, "email": "a"}, {"_id": 2, "email": "b"}])
        users = db.table("shop.users")

        with db.transaction():
            users.get(1).update({"email": "b"})
            users.get(2).update({"email": "a"})

        assert {1: "b", 2: "a"} == emails(users)


class TestImport:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "a.db"
        with reactdb.connect(path) as db:
            db.table_create("users").index_create("email", unique=True)
        return path

    def test_it_stops_at_the_line_of_the_duplicate_and_stores_nothing_of_its_batch(
        self, path: Path, tmp_path: Path
    ):
        source = tmp_path / "users.jsonl"
        lines = [{"id": 1, "email": "a"}, {"id": 2, "email": "b"}, {"id": 3, "email": "a"}, {"id": 4}]
        source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

        result = CliRunner().invoke(main, ["import", str(path), "users", str(source)])

        assert 0 != result.exit_code
        assert "line 3" in result.output
        assert "Duplicate value in unique index `email`" in " ".join(result.output.split())
        with reactdb.connect(path) as db:
            assert [] == db.table("users").run()


class TestMaterializedViews:
    def test_the_view_stops_with_a_clear_error_and_goes_on_when_it_can(self, db: Any):
        orders = db.table_create("orders")
        orders.insert([{"id": 1, "email": "a"}, {"id": 2, "email": "b"}])
        kept = db.materialize(orders.pluck("id", "email"), into="mails")
        db.table("mails").index_create("email", unique=True)

        orders.insert({"id": 3, "email": "a"})

        assert isinstance(kept.error, DuplicateIndexKey)
        assert {1: "a", 2: "b"} == emails(db.table("mails"))
        assert {1: "a", 2: "b", 3: "a"} == emails(orders)

        orders.get(3).update({"email": "c"})

        assert (None, {1: "a", 2: "b", 3: "c"}) == (kept.error, emails(db.table("mails")))
        assert db.table("mails").index_wait("email")[0]["unique"]
