"""Unique indexes: at the end of each commit, a value belongs to at most one document, whoever has written."""

from __future__ import annotations

import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.errors import DuplicateIndexKey
from reactdb.session import session_of
from reactdb.store import schema, unique
from reactdb.store.file import sqlite
from tests.support.inspection import problems
from tests.support.threads import PATIENCE_S, from_threads, started, wait_until


@pytest.fixture
def users(db: Any) -> Any:
    users = db.table_create("users")
    users.index_create("email", unique=True)
    users.insert([{"id": 1, "email": "a"}, {"id": 2, "email": "b"}])
    return users


def emails(users: Any) -> dict[Any, Any]:
    return {one["id"]: one.get("email") for one in users}


def test_a_look_at_unique_values_in_the_middle_of_a_write_leaves_one_head_a_key(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The look gives SQLite the earlier writes of the same transaction, also those of the same document."""
    monkeypatch.setattr(unique.Claims, "is_long", lambda claims: True)
    with reactdb.connect(path) as db:
        users = db.table_create("users")
        users.index_create("email", unique=True)
        users.insert({"id": 1, "email": "a"})
        with db.transaction():
            users.insert({"id": 3, "email": "c"})
            users.get(3).update({"email": "d"})
            users.get(1).delete()
            users.insert({"id": 1, "email": "e"})
            users.get(1).update({"email": "f"})

        assert {1: "f", 3: "d"} == emails(users)

    assert [] == problems(path)


class TestSingleWrites:
    @pytest.mark.parametrize(
        "write",
        [
            lambda users: users.insert({"id": 3, "email": "a"}),
            lambda users: users.insert([{"id": 3, "email": "c"}, {"id": 4, "email": "c"}]),
            lambda users: users.insert({"id": 2, "email": "a"}, conflict="replace"),
            lambda users: users.insert({"id": 2, "email": "a"}, conflict="update"),
            lambda users: users.insert({"id": 2}, conflict=lambda key, old, new: {"id": 2, "email": "a"}),
            lambda users: users.get(2).update({"email": "a"}),
            lambda users: users.get(2).update(lambda user: {"email": "a"}),
            lambda users: users.update({"email": "same"}),
            lambda users: users.get(2).replace({"id": 2, "email": "a"}),
            lambda users: users.get(3).replace({"id": 3, "email": "a"}),
        ],
    )
    def test_a_write_of_a_duplicate_raises_and_writes_nothing(self, db: Any, users: Any, write: Any):
        seq = db.seq

        with pytest.raises(reactdb.DuplicateKey):
            write(users)

        assert (seq, {1: "a", 2: "b"}) == (db.seq, emails(users))

    def test_the_error_names_the_index_the_value_and_both_documents(self, users: Any):
        with pytest.raises(DuplicateIndexKey) as caught:
            users.insert({"id": 3, "email": "a"})

        error = caught.value
        assert ("users", "email", "a", 3, 1) == (
            error.table,
            error.index,
            error.value,
            error.key,
            error.other,
        )
        assert (
            "Duplicate value in unique index `email` of table `users`: 'a' would belong to the documents 1 and 3."
            == str(error)
        )

    def test_no_feed_hears_of_a_refused_write(self, users: Any):
        heard: list[Any] = []
        users.changes().subscribe(heard.append)

        with pytest.raises(DuplicateIndexKey):
            users.insert([{"id": 3, "email": "c"}, {"id": 4, "email": "a"}])
        users.insert({"id": 5, "email": "e"})

        assert [{"id": 5, "email": "e"}] == [event["new_val"] for event in heard]

    def test_a_statement_is_checked_at_its_end(self, db: Any):
        """Each step of a shift meets the next document's value."""
        numbers = db.table_create("numbers")
        numbers.index_create("n", unique=True)
        numbers.insert([{"id": id, "n": id} for id in range(5)])

        numbers.update({"n": row["n"] + 1})

        assert [1, 2, 3, 4, 5] == [one["n"] for one in numbers.order_by("id")]

    def test_a_document_may_be_written_again_with_its_own_value(self, users: Any):
        users.get(1).update({"email": "a", "name": "Ann"})
        users.get(1).replace({"id": 1, "email": "a"})

        assert {1: "a", 2: "b"} == emails(users)

    def test_a_deletion_frees_the_value(self, users: Any):
        users.get(1).delete()

        users.insert({"id": 3, "email": "a"})

        assert {2: "b", 3: "a"} == emails(users)


class TestValues:
    @pytest.mark.parametrize("value", [None, {"a": 1}, [1, None], float("inf")])
    def test_a_value_that_an_index_leaves_out_is_exempt(self, users: Any, value: Any):
        users.insert([{"id": 3, "email": value}, {"id": 4, "email": value}, {"id": 5}, {"id": 6}])

        assert 6 == users.count().run()

    def test_equality_is_that_of_keys(self, users: Any):
        users.insert([{"id": 3, "email": 1}, {"id": 4, "email": True}, {"id": 5, "email": "1"}])

        for equal in (1, 1.0, Decimal("1.0")):
            with pytest.raises(DuplicateIndexKey):
                users.insert({"id": 6, "email": equal})

    def test_long_values_that_differ_at_their_end_are_two(self, users: Any):
        users.insert([{"id": 3, "email": "x" * 5_000 + "1"}, {"id": 4, "email": "x" * 5_000 + "2"}])

        with pytest.raises(DuplicateIndexKey):
            users.insert({"id": 5, "email": "x" * 5_000 + "1"})

    def test_a_compound_value_is_compared_as_a_whole(self, db: Any):
        seats = db.table_create("seats")
        seats.index_create("seat", [row["row"], row["number"]], unique=True)
        seats.insert(
            [{"id": 1, "row": 1, "number": 1}, {"id": 2, "row": 1, "number": 2}, {"id": 3, "row": 1}]
        )

        with pytest.raises(DuplicateIndexKey) as caught:
            seats.get(3).update({"number": 2})

        assert ([1, 2], 3, 2) == (caught.value.value, caught.value.key, caught.value.other)

    def test_a_multi_index_is_unique_between_documents_and_not_within_one(self, db: Any):
        parts = db.table_create("parts")
        parts.index_create("codes", multi=True, unique=True)
        parts.insert([{"id": 1, "codes": ["a", "a", "b"]}, {"id": 2, "codes": ["c"]}, {"id": 3, "codes": []}])

        with pytest.raises(DuplicateIndexKey) as caught:
            parts.get(2).update({"codes": ["c", "d", "b"]})

        assert ("b", 2, 1) == (caught.value.value, caught.value.key, caught.value.other)

    def test_a_computed_value_decides(self, db: Any):
        users = db.table_create("people")
        users.index_create("lower", row["email"].downcase(), unique=True)
        users.insert({"id": 1, "email": "Ann"})

        with pytest.raises(DuplicateIndexKey):
            users.insert({"id": 2, "email": "ANN"})


class TestTransactions:
    def test_two_documents_can_swap_their_values(self, db: Any, users: Any):
        with db.transaction():
            users.get(1).update({"email": "b"})
            users.get(2).update({"email": "a"})

        assert {1: "b", 2: "a"} == emails(users)

    def test_a_value_can_move_to_another_document(self, db: Any, users: Any):
        with db.transaction():
            users.insert({"id": 3, "email": "a"})
            users.get(1).delete()

        assert {2: "b", 3: "a"} == emails(users)

    def test_its_end_raises_and_everything_is_rolled_back(self, db: Any, users: Any):
        seq = db.seq

        with pytest.raises(DuplicateIndexKey), db.transaction():
            users.insert({"id": 3, "email": "c"})
            assert 1 == users.insert({"id": 4, "email": "a"})["inserted"]

        assert (seq, {1: "a", 2: "b"}) == (db.seq, emails(users))

    def test_a_duplicate_that_was_rolled_back_inside_does_not_count(self, db: Any, users: Any):
        with db.transaction():
            with pytest.raises(KeyError), db.transaction():
                users.insert({"id": 3, "email": "a"})
                raise KeyError
            users.insert({"id": 4, "email": "d"})

        assert {1: "a", 2: "b", 4: "d"} == emails(users)

    def test_a_duplicate_whose_solution_was_rolled_back_counts(self, db: Any, users: Any):
        with pytest.raises(DuplicateIndexKey), db.transaction():
            users.insert({"id": 3, "email": "a"})
            with pytest.raises(KeyError), db.transaction():
                users.get(1).delete()
                raise KeyError

        assert {1: "a", 2: "b"} == emails(users)

    @pytest.mark.parametrize("limit", ["MOST_CLAIMS", "MOST_BYTES"])
    @pytest.mark.parametrize("is_solution_kept", [True, False])
    def test_claims_that_are_forgotten_early_change_nothing(
        self, db: Any, users: Any, monkeypatch: pytest.MonkeyPatch, is_solution_kept: bool, limit: str
    ):
        """A long transaction forgets values that are no duplicates at the moment, but none that a rollback can bring back."""
        monkeypatch.setattr(unique, limit, 3)

        def write() -> None:
            with db.transaction():
                users.insert({"id": 3, "email": "a"})
                try:
                    with db.transaction():
                        users.get(1).update({"email": "free"})
                        for id in range(10, 40):
                            users.insert({"id": id, "email": id})
                        if not is_solution_kept:
                            raise KeyError
                except KeyError:
                    pass

        if is_solution_kept:
            write()
        else:
            with pytest.raises(DuplicateIndexKey):
                write()

        assert ("free" if is_solution_kept else "a") == users.get(1).run()["email"]

    def test_a_long_transaction_keeps_few_claims(self, db: Any, users: Any, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(unique, "MOST_CLAIMS", 10)

        with db.transaction():
            for id in range(100, 200):
                users.insert({"id": id, "email": id})
            transaction = session_of(db).engine.current_transaction()

            assert len(transaction.claims) <= 11

    def test_duplicates_of_a_table_that_is_gone_at_the_end_do_not_count(self, db: Any, users: Any):
        with db.transaction():
            users.insert({"id": 3, "email": "a"})
            db.table_drop("users")

        assert [] == db.table_list()

    def test_nor_do_those_of_an_index_that_is_gone(self, db: Any, users: Any):
        with db.transaction():
            users.insert({"id": 3, "email": "a"})
            users.index_drop("email")

        assert {1: "a", 2: "b", 3: "a"} == emails(users)

    def test_an_index_that_is_made_inside_is_kept_from_then_on(self, db: Any):
        users = db.table_create("people")
        users.insert([{"id": 1, "email": "a"}])

        with pytest.raises(DuplicateIndexKey), db.transaction():
            users.index_create("email", unique=True)
            users.insert({"id": 2, "email": "a"})

        assert ([], [{"id": 1, "email": "a"}]) == (users.index_list(), users.run())


class TestMaking:
    def test_documents_with_duplicates_are_listed_and_there_is_no_index(self, db: Any):
        users = db.table_create("people")
        users.insert([{"id": id, "email": id // 2} for id in range(40)])
        seq = db.seq

        with pytest.raises(DuplicateIndexKey) as caught:
            users.index_create("email", unique=True)

        assert [(value, [2 * value, 2 * value + 1]) for value in range(10)] == caught.value.duplicates
        assert ([], seq) == (users.index_list(), db.seq)

    def test_a_failed_index_leaves_a_transaction_usable(self, db: Any):
        users = db.table_create("people")
        users.insert([{"id": 1, "email": "a"}, {"id": 2, "email": "a"}])

        with db.transaction():
            with pytest.raises(DuplicateIndexKey):
                users.index_create("email", unique=True)
            users.get(2).update({"email": "b"})
            users.index_create("email", unique=True)

        assert [{"index": "email", "ready": True, "multi": False, "outdated": False, "unique": True}] == (
            users.index_wait()
        )

    def test_unique_is_true_or_false(self, games: Any):
        with pytest.raises(reactdb.InvalidOption, match="unique is True or False, not 1"):
            games.index_create("email", unique=1)

    def test_the_log_says_that_an_index_is_unique(self, db: Any, users: Any):
        users.index_create("name")
        users.index_drop("email")

        made = [change.catalogue for change in db.log() if change.kind == "index_create"]
        assert [True, None] == [catalogue.get("unique") for catalogue in made]

        users.insert({"id": 3, "email": "a"})
        assert 3 == users.count().run()


class TestProcessesAndThreads:
    def test_another_handle_keeps_an_index_that_was_made_since(self, path: Path):
        """Two engines, as in two processes, on one file."""
        with reactdb.connect(path) as db, reactdb.connect(path) as other:
            users = db.table_create("users")
            users.insert({"id": 1, "email": "a"})
            assert 1 == other.table("users").count().run()
            users.index_create("email", unique=True)

            with pytest.raises(DuplicateIndexKey):
                other.table("users").insert({"id": 2, "email": "a"})

    def test_of_threads_that_write_one_value_one_wins(self, db: Any, users: Any):
        won: list[int] = []

        def write(number: int) -> None:
            for value in range(20):
                try:
                    users.insert({"id": f"{number}/{value}", "email": value})
                    won.append(value)
                except DuplicateIndexKey:
                    pass

        from_threads(4, write)

        assert list(range(20)) == sorted(won)

    def test_in_a_group_commit_a_duplicate_fails_alone(self, path: Path):
        with reactdb.connect(path, durability="hard") as db:
            users = db.table_create("users")
            users.index_create("email", unique=True)
            users.insert({"id": 0, "email": "taken"})
            queue = session_of(db).engine.write_queue
            gate = threading.Event()

            def first(transaction: Any) -> None:
                assert gate.wait(PATIENCE_S)

            work = lambda: session_of(db).transact(first, is_shareable=True)  # noqa: E731
            threads = [started(work)]
            wait_until(lambda: len(queue) == 1)
            for place, email in enumerate(["a", "taken", "b", "a", "c"], 1):
                threads.append(
                    started(lambda place=place, email=email: users.insert({"id": place, "email": email}))
                )
                wait_until(lambda place=place: len(queue) == place + 1)
            commits = len({change.commit for change in db.log()})
            gate.set()
            for thread, _ in threads:
                thread.join(PATIENCE_S)

            failed = [isinstance(outcome[0], DuplicateIndexKey) for _, outcome in threads]
            assert [False, False, True, False, True, False] == failed
            assert {0: "taken", 1: "a", 3: "b", 5: "c"} == emails(users)
            assert commits + 3 == len({change.commit for change in db.log()})
        assert [] == problems(path)


# ---------------------------------------------------------------------------------------------------------------
# The file


def turn_into_format_3(path: Path) -> None:
    """Take back the step to format 4."""
    connection = sqlite.connect(str(path), mode="rw", busy_timeout_s=1)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ALTER TABLE indexes DROP COLUMN is_unique")
        connection.execute("DELETE FROM _sqlite_migrations WHERE name = 'm004_unique_indexes'")
        schema.set_fact(connection, "seal", schema._sum_format_3(connection))
        connection.execute("PRAGMA user_version=3")
        connection.execute("COMMIT")
    finally:
        connection.close()


class TestFile:
    @pytest.fixture
    def spoilt(self, path: Path) -> Path:
        """A file into which a program without reactdb has written that an index with duplicates is unique."""
        with reactdb.connect(path) as db:
            users = db.table_create("users")
            users.index_create("email")
            users.insert([{"id": 1, "email": "a"}, {"id": 2, "email": "a"}, {"id": 3, "email": "b"}])
        connection = sqlite.connect(str(path), mode="rw", busy_timeout_s=1)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE indexes SET is_unique = 1")
            schema.write_catalogue_checksum(connection)
            connection.execute("COMMIT")
        finally:
            connection.close()
        return path

    def test_the_doctor_reports_duplicates(self, spoilt: Path):
        assert [
            "Duplicate value in unique index `email` of table `users`: 'a' would belong to the documents 1 and 2."
        ] == problems(spoilt)

    def test_other_writes_of_such_a_table_go_on(self, spoilt: Path):
        """Only the values that a commit adds are looked up."""
        with reactdb.connect(spoilt) as db:
            users = db.table("users")
            users.get(1).update({"name": "Ann"})
            with pytest.raises(DuplicateIndexKey):
                users.insert({"id": 4, "email": "b"})
            users.get(2).update({"email": "c"})
        assert [] == problems(spoilt)

    def test_an_older_program_does_not_open_the_file(self, path: Path, monkeypatch: pytest.MonkeyPatch):
        reactdb.connect(path).close()
        monkeypatch.setattr(schema, "FORMAT_VERSION", 3)

        with pytest.raises(reactdb.errors.IncompatibleFormat, match="has format 4"):
            reactdb.connect(path)

    def test_a_migrated_file_has_what_a_new_one_has(self, path: Path):
        with reactdb.connect(path) as db:
            db.table_create("users").index_create("email")
        turn_into_format_3(path)

        with reactdb.connect(path) as db:
            db.table("users").index_create("badge", unique=True)

        assert [] == problems(path)

    def test_a_process_that_has_the_file_open_notices_the_migration(self, path: Path):
        """By the version of the catalogue: a process of an older version then finds a checksum that it does not expect."""
        with reactdb.connect(path) as db:
            db.table_create("users")
            before = session_of(db).engine.catalogue.version
        turn_into_format_3(path)

        with reactdb.connect(path) as db:
            assert before < session_of(db).engine.catalogue.version

    def test_the_migration_makes_a_clean_unique_index_of_mongodb_unique(self, path: Path):
        pytest.importorskip("pymongo")
        with reactdb.connect(path) as db:
            users = reactdb.mongodb(db)["shop"]["users"]
            users.create_index("email", unique=True)
            users.create_index("name")
            # Two documents with marks, which their indexes share.
            users.insert_many([{"_id": 1, "email": ["a", "b"]}, {"_id": 2, "email": ["c", "d"]}, {"_id": 3}])
        turn_into_format_3(path)

        with reactdb.connect(path) as db:
            table = db.table("shop.users")
            assert [None, True] == sorted((one.get("unique") for one in table.index_wait()), key=str)
            with pytest.raises(DuplicateIndexKey):
                table.insert({"_id": 4, "email": ["e", "d"]})
        assert [] == problems(path)

    def test_an_older_index_of_mongodb_with_duplicates_stays_as_it_was(
        self, path: Path, caplog: pytest.LogCaptureFixture
    ):
        pymongo = pytest.importorskip("pymongo")
        with reactdb.connect(path) as db:
            users = reactdb.mongodb(db)["shop"]["users"]
            users.create_index("email", unique=True)
            users.insert_many([{"_id": 1, "email": "a"}, {"_id": 2, "email": "b"}])
        turn_into_format_3(path)
        add_as_format_3_did(path)

        with reactdb.connect(path) as db:
            table = db.table("shop.users")
            table.insert({"_id": 4, "email": "b"})
            with pytest.raises(pymongo.errors.DuplicateKeyError):
                reactdb.mongodb(db)["shop"]["users"].insert_one({"_id": 5, "email": "b"})
            assert "has duplicates" in caplog.text
        assert [] == problems(path)


def add_as_format_3_did(path: Path) -> None:
    """A native write of an older version: nothing keeps the index. It is carried out with an index that is not unique, and the
    file gets its older format again."""
    with reactdb.connect(path) as db:
        pass
    connection = sqlite.connect(str(path), mode="rw", busy_timeout_s=1)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE indexes SET is_unique = 0")
        schema.write_catalogue_checksum(connection)
        connection.execute("COMMIT")
    finally:
        connection.close()
    with reactdb.connect(path) as db:
        db.table("shop.users").insert({"_id": 3, "email": "a"})
    turn_into_format_3(path)
