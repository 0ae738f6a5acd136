"""Tables, writes and selections, one behaviour a test, on memory and on a file."""

from __future__ import annotations

from typing import Any

import pytest

import reactdb
from reactdb import asc, desc, literal, maxval, minval, r, row

COUNTERS = {"deleted": 0, "errors": 0, "inserted": 0, "replaced": 0, "skipped": 0, "unchanged": 0}


def counted(**given: Any) -> dict[str, Any]:
    return {**COUNTERS, **given}


class TestInsert:
    def test_an_inserted_document_can_be_read(self, games):
        result = games.insert({"id": 1, "score": 5})

        assert counted(inserted=1) == result
        assert {"id": 1, "score": 5} == games.get(1).run()

    def test_several_documents_are_one_commit(self, db, games):
        games.insert([{"id": key} for key in range(5)])

        assert [2] * 5 == [change.commit for change in db.log(table="games")]

    def test_a_missing_key_is_generated_and_keys_sort_by_time(self, games):
        first = games.insert({"a": 1})["generated_keys"]
        second = games.insert([{"a": 2}, {"a": 3}])["generated_keys"]

        keys = first + second
        assert sorted(keys) == keys
        assert keys == [document["id"] for document in games.run()]

    def test_the_callers_dict_is_not_touched(self, games):
        document = {"a": [1, 2]}
        games.insert(document)
        document["a"].append(3)

        assert [1, 2] == games.run()[0]["a"]

    def test_a_taken_key_is_refused_and_nothing_is_written(self, games):
        games.insert({"id": 1, "a": 1})

        with pytest.raises(
            reactdb.DuplicateKey, match=r"^Duplicate primary key `id`:\n\{\n\t\"a\":\t1,\n\t\"id\":\t1\n\}\n"
        ) as caught:
            games.insert([{"id": 0}, {"id": 1, "a": 2}, {"id": 2}])
        assert '"a":\t2' in str(caught.value)
        assert [{"id": 1, "a": 1}] == games.run()

    def test_a_key_twice_in_one_insert_is_refused(self, games):
        with pytest.raises(reactdb.DuplicateKey):
            games.insert([{"id": 1, "a": 1}, {"id": 1, "a": 2}])
        assert [] == games.run()

    def test_conflict_replace(self, games):
        games.insert({"id": 1, "a": 1})

        assert counted(replaced=1) == games.insert({"id": 1, "b": 2}, conflict="replace")
        assert {"id": 1, "b": 2} == games.get(1).run()

    def test_conflict_update(self, games):
        games.insert({"id": 1, "a": 1})

        assert counted(replaced=1) == games.insert({"id": 1, "b": 2}, conflict="update")
        assert {"id": 1, "a": 1, "b": 2} == games.get(1).run()

    def test_conflict_callable(self, games):
        games.insert({"id": 1, "n": 1})

        games.insert({"id": 1, "n": 10}, conflict=lambda key, old, new: {"id": key, "n": old["n"] + new["n"]})
        assert {"id": 1, "n": 11} == games.get(1).run()
        assert counted(deleted=1) == games.insert({"id": 1}, conflict=lambda key, old, new: None)

    def test_an_equal_document_logs_nothing(self, db, games):
        games.insert({"id": 1, "a": 1, "b": 2})
        before = db.seq

        assert counted(unchanged=1) == games.insert({"b": 2, "a": 1, "id": 1}, conflict="replace")
        assert before == db.seq

    def test_zero_and_false_are_different_documents(self, games):
        games.insert({"id": 1, "a": 0})

        assert counted(replaced=1) == games.get(1).update({"a": False})
        assert counted(replaced=1) == games.get(1).update({"a": 0.0})
        assert isinstance(games.get(1).run()["a"], float)

    @pytest.mark.parametrize("document", [5, "text", None, [1]])
    def test_what_is_not_a_document_is_refused(self, games, document):
        with pytest.raises(reactdb.UsageError):
            games.insert(document)

    @pytest.mark.parametrize(
        ("value", "shown"), [(5, "NUMBER):\n5"), (None, "NULL):\nnull"), ("a", 'STRING):\n"a"')]
    )
    def test_what_is_no_document_in_a_list_of_them_is_shown_as_reql_shows_it(self, games, value, shown):
        with pytest.raises(reactdb.InvalidDocument) as caught:
            games.insert([{"id": 1}, value])

        assert f"document: Inserted value must be an OBJECT (got {shown}" == str(caught.value)
        assert [] == games.run()

    @pytest.mark.parametrize("key", [None, {"a": 1}, float("nan"), float("inf"), [None]])
    def test_what_cannot_be_a_key_is_refused(self, games, key):
        with pytest.raises(reactdb.errors.InvalidKey):
            games.insert({"id": key})
        assert [] == games.run()

    def test_one_and_one_point_zero_are_one_key_and_true_is_another(self, games):
        games.insert([{"id": 1}, {"id": True}])

        with pytest.raises(reactdb.DuplicateKey):
            games.insert({"id": 1.0})
        assert 2 == games.count().run()

    def test_another_primary_key(self, db):
        people = db.table_create("people", primary_key="name")
        people.insert({"name": "Ada", "born": 1815})

        assert 1815 == people.get("Ada").run()["born"]
        assert "name" == people.primary_key


class TestUpdateReplaceDelete:
    def test_update_merges(self, games):
        games.insert({"id": 1, "a": {"x": 1}, "b": 1})

        games.get(1).update({"a": {"y": 2}, "c": 3})
        assert {"id": 1, "a": {"x": 1, "y": 2}, "b": 1, "c": 3} == games.get(1).run()

    def test_literal_replaces_a_field_whole(self, games):
        games.insert({"id": 1, "a": {"x": 1}})

        games.get(1).update({"a": literal({"y": 2})})
        assert {"id": 1, "a": {"y": 2}} == games.get(1).run()

    def test_update_with_an_expression(self, games):
        games.insert([{"id": 1, "n": 1}, {"id": 2, "n": 2}])

        assert counted(replaced=2) == games.update({"n": row["n"] * 10})
        assert [10, 20] == [document["n"] for document in games.run()]

    def test_update_with_a_callable(self, games):
        games.insert({"id": 1, "n": 1})

        games.get(1).update(lambda document: {"n": document["n"] + 1})
        assert 2 == games.get(1).run()["n"]

    def test_a_failing_update_writes_nothing(self, games):
        games.insert([{"id": 1, "n": 1}, {"id": 2, "n": "x"}])

        with pytest.raises(reactdb.errors.QueryError, match=r"Expected type NUMBER but found STRING\."):
            games.update({"n": row["n"] - 1})
        assert [1, "x"] == [document["n"] for document in games.run()]

    def test_the_primary_key_cannot_be_changed(self, games):
        games.insert({"id": 1})

        with pytest.raises(reactdb.errors.InvalidKey, match="Primary key `id` cannot be changed"):
            games.get(1).update({"id": 2})

    def test_update_of_nothing_is_skipped(self, games):
        assert counted(skipped=1) == games.get(1).update({"a": 1})

    def test_replace_of_nothing_inserts(self, games):
        assert counted(inserted=1) == games.get(1).replace({"id": 1, "a": 1})

    def test_replace_with_none_deletes(self, games):
        games.insert({"id": 1})

        assert counted(deleted=1) == games.get(1).replace(None)
        assert games.get(1).run() is None

    def test_delete_of_a_selection(self, games):
        games.insert([{"id": key} for key in range(10)])

        assert counted(deleted=5) == games.filter(row["id"] < 5).delete()
        assert [5, 6, 7, 8, 9] == [document["id"] for document in games.run()]

    def test_return_changes(self, games):
        games.insert({"id": 1, "a": 1})

        result = games.get(1).update({"a": 2}, return_changes=True)
        assert [{"old_val": {"id": 1, "a": 1}, "new_val": {"id": 1, "a": 2}}] == result["changes"]
        assert [] == games.get(1).update({"a": 2}, return_changes=True)["changes"]
        always = games.get(1).update({"a": 2}, return_changes="always")["changes"]
        assert [{"old_val": {"id": 1, "a": 2}, "new_val": {"id": 1, "a": 2}}] == always

    def test_a_mapped_selection_cannot_be_written(self, games):
        with pytest.raises(reactdb.errors.QueryError, match="Expected type SELECTION"):
            games.map(row["a"]).delete()


class TestSelections:
    @pytest.fixture
    def filled(self, games):
        games.index_create("score")
        games.insert(
            [
                {"id": key, "score": key * 7 % 5, "tags": ["even" if key % 2 == 0 else "odd"]}
                for key in range(10)
            ]
        )
        return games

    def test_a_table_reads_in_key_order(self, filled):
        assert list(range(10)) == [document["id"] for document in filled]

    def test_get_all_in_the_order_asked_for(self, filled):
        assert [3, 1, 3] == [document["id"] for document in filled.get_all(3, 1, 3, 99)]

    def test_get_all_by_index(self, filled):
        assert [0, 5] == [document["id"] for document in filled.get_all(0, index="score")]

    def test_between(self, filled):
        assert [3, 4] == [document["id"] for document in filled.between(3, 5)]
        assert [4, 5] == [d["id"] for d in filled.between(3, 5, left_bound="open", right_bound="closed")]
        assert [8, 9] == [document["id"] for document in filled.between(8, maxval)]
        assert [0] == [document["id"] for document in filled.between(minval, 1)]
        assert [] == filled.between(5, 3).run()

    def test_between_by_index(self, filled):
        assert {3, 4} == {document["score"] for document in filled.between(3, maxval, index="score")}

    def test_order_by_index_both_ways(self, filled):
        ascending = [(d["score"], d["id"]) for d in filled.order_by(index="score")]
        descending = [(d["score"], d["id"]) for d in filled.order_by(index=desc("score"))]

        assert sorted(ascending) == ascending
        assert ascending[::-1] == descending

    def test_order_by_field_keeps_key_order_among_equals(self, filled):
        found = [(d["score"], d["id"]) for d in filled.order_by(desc("score"))]

        assert sorted(found, key=lambda pair: (-pair[0], pair[1])) == found

    def test_order_by_several_keys(self, filled):
        found = [(d["tags"][0], d["id"]) for d in filled.order_by("tags", desc("id"))]

        assert [("even", 8), ("even", 6)] == found[:2]

    def test_limit_and_skip(self, filled):
        assert [2, 3] == [document["id"] for document in filled.skip(2).limit(2)]
        top = filled.order_by(index=desc("score")).filter(row["id"] > 4).limit(2).run()
        assert [d["id"] for d in filled.order_by(index=desc("score")) if d["id"] > 4][:2] == [
            d["id"] for d in top
        ]

    def test_filter_by_dict_expression_and_callable(self, filled):
        expected = [0, 5]

        assert expected == [d["id"] for d in filled.filter({"score": 0})]
        assert expected == [d["id"] for d in filled.filter(row["score"] == 0)]
        assert expected == [d["id"] for d in filled.filter(lambda document: document["score"] == 0)]

    def test_a_filter_uses_an_index_and_says_so(self, filled):
        selection = filled.filter((row["score"] > 1) & (row["score"] < 4) & (row["id"] > 2))

        assert "score" == selection.explain()["index"]
        assert [d for d in filled.run() if 1 < d["score"] < 4 and d["id"] > 2] == selection.run()

    def test_explain_names_callables(self, filled):
        assert "neither indexed nor routed" in filled.filter(lambda document: True).explain()["callables"][0]

    def test_a_missing_field_is_the_default(self, games):
        games.insert([{"id": 1}, {"id": 2, "a": 1}])

        assert [2] == [d["id"] for d in games.filter(row["a"] == 1)]
        assert [1, 2] == [d["id"] for d in games.filter(row["a"] == 1, default=True)]
        with pytest.raises(reactdb.errors.MissingValue, match="No attribute `a`"):
            games.filter(row["a"] == 1, default=r.error()).run()

    def test_transformations(self, filled):
        assert [{"id": 0}] == filled.limit(1).pluck("id").run()
        assert [{"id": 0, "score": 0}] == filled.limit(1).without("tags").run()
        assert [0, 10] == filled.limit(2).map(row["id"] * 10).run()
        assert ["even", "odd"] == filled.limit(2).concat_map(row["tags"]).run()
        assert [{"id": 0, "double": 0}] == filled.limit(1).pluck("id").merge({"double": row["id"] * 2}).run()
        assert [0, 1] == filled.limit(2)["id"].run()
        assert 10 == len(filled.has_fields("score").run())

    def test_aggregates(self, filled):
        assert 10 == filled.count().run()
        assert 5 == filled.filter(row["id"] >= 5).count().run()
        assert 45 == filled.sum("id").run()
        assert 4.5 == filled.avg("id").run()
        assert 0 == filled.min("score").run()["score"]
        assert 9 == filled.max("id").run()["id"]
        assert 4 == filled.max(index="score").run()["score"]

    def test_aggregates_of_nothing(self, games):
        assert 0 == games.count().run()
        assert 0 == games.sum("a").run()
        assert games.avg("a").run() is None
        assert games.min("a").run() is None

    def test_groups(self, filled):
        found = filled.group(row["tags"].nth(0)).count().run()

        assert [{"group": "even", "reduction": 5}, {"group": "odd", "reduction": 5}] == found

    def test_distinct_in_order(self, filled):
        assert [0, 1, 2, 3, 4] == filled.distinct("score").run()

    def test_union(self, filled):
        assert [1, 8, 9] == [d["id"] for d in filled.get_all(1).union(filled.between(8, maxval))]

    def test_point_queries_give_one_document_or_none(self, filled):
        assert {"id": 3} == filled.get(3).pluck("id").run()
        assert filled.get(3).filter(row["score"] > 100).run() is None
        assert filled.get(99).run() is None

    def test_what_is_read_is_the_readers_to_change(self, filled):
        filled.get(1).run()["tags"].append("mine")

        assert ["odd"] == filled.get(1).run()["tags"]


class TestIndexes:
    def test_a_compound_index(self, games):
        games.index_create("ab", [row["a"], row["b"]])
        games.insert([{"id": n, "a": n % 2, "b": n} for n in range(6)])

        assert [1, 3, 5] == [d["id"] for d in games.between([1, minval], [1, maxval], index="ab")]
        assert [3] == [d["id"] for d in games.get_all([1, 3], index="ab")]

    @pytest.mark.parametrize(
        "expression", [r.now(), row["a"] + r.random(), [row["a"], r.uuid()], lambda it: r.now()]
    )
    def test_an_index_of_what_is_never_the_same_twice_is_refused(self, games, expression):
        with pytest.raises(reactdb.errors.QueryError, match="Index functions must be deterministic"):
            games.index_create("a", expression)

    def test_a_compound_index_of_nothing_is_refused(self, games):
        with pytest.raises(reactdb.errors.QueryError, match="a compound index takes at least one expression"):
            games.index_create("ab", [])

    def test_a_multi_index_finds_a_document_under_each_element(self, games):
        games.index_create("tags", multi=True)
        games.insert([{"id": 1, "tags": ["a", "b"]}, {"id": 2, "tags": ["b"]}, {"id": 3, "tags": []}])

        assert [1, 2] == [d["id"] for d in games.get_all("b", index="tags")]
        assert [1, 1, 2] == [d["id"] for d in games.between("a", "z", index="tags")]

    def test_a_function_index(self, games):
        games.index_create("full", lambda document: document["first"] + " " + document["last"])
        games.insert({"id": 1, "first": "Ada", "last": "Lovelace"})

        assert 1 == games.get_all("Ada Lovelace", index="full").run()[0]["id"]

    def test_an_index_on_existing_documents_is_filled(self, games):
        games.insert([{"id": n, "a": -n} for n in range(100)])
        games.index_create("a")

        assert [99, 98] == [d["id"] for d in games.order_by(index="a").limit(2)]

    def test_documents_without_a_value_are_not_in_the_index(self, games):
        games.index_create("a")
        games.insert(
            [
                {"id": 1},
                {"id": 2, "a": None},
                {"id": 3, "a": {}},
                {"id": 4, "a": 1},
                {"id": 5, "a": float("nan")},
            ]
        )

        assert [4] == [d["id"] for d in games.order_by(index="a")]

    def test_updates_and_deletes_move_the_entries(self, games):
        games.index_create("a")
        games.insert([{"id": 1, "a": 1}, {"id": 2, "a": 2}])
        games.get(1).update({"a": 9})
        games.get(2).delete()

        assert [9] == [d["a"] for d in games.between(minval, maxval, index="a")]

    def test_list_wait_and_drop(self, games):
        games.index_create("b")
        games.index_create("a", multi=True)

        assert ["a", "b"] == games.index_list()
        assert [{"index": "a", "ready": True, "multi": True, "outdated": False}] == games.index_wait("a")
        games.index_drop("a")
        assert ["b"] == games.index_list()
        with pytest.raises(reactdb.errors.IndexNotFound, match="Index `a` was not found on table `games`"):
            games.get_all(1, index="a").run()

    def test_a_name_that_is_taken(self, games):
        games.index_create("a")

        with pytest.raises(reactdb.errors.IndexExists):
            games.index_create("a")
        with pytest.raises(reactdb.errors.IndexExists):
            games.index_create("id")

    def test_indexes_survive_reopening(self, tmp_path):
        path = tmp_path / "a.db"
        with reactdb.connect(path) as db:
            games = db.table_create("games")
            games.index_create("ab", [row["a"], r.branch(row["b"] > 1, "many", "few")])
            games.insert({"id": 1, "a": 1, "b": 5})
        with reactdb.connect(path) as db:
            games = db.table("games")
            games.insert({"id": 2, "a": 1, "b": 0})
            assert [2, 1] == [d["id"] for d in games.order_by(index="ab")]


class TestCatalogue:
    def test_an_unknown_table_is_named_at_the_first_use(self, db):
        table = db.table("nope")

        for use in (
            table.run,
            table.get(1).run,
            table.index_list,
            table.delete,
            lambda: table.insert({"id": 1}),
        ):
            with pytest.raises(reactdb.TableNotFound, match="Table `nope` does not exist"):
                use()

    def test_create_list_drop(self, db):
        db.table_create("b")
        db.table_create("a")

        assert ["a", "b"] == db.table_list()
        db.table_drop("a")
        assert ["b"] == db.table_list()
        with pytest.raises(reactdb.TableNotFound):
            db.table_drop("a")

    def test_a_table_that_exists(self, db):
        db.table_create("a")

        with pytest.raises(reactdb.errors.TableExists):
            db.table_create("a")
        assert "a" == db.table_create("a", exist_ok=True).name
        with pytest.raises(reactdb.errors.TableExists):
            db.table_create("a", primary_key="other", exist_ok=True)

    def test_a_table_made_again_is_empty(self, db):
        db.table_create("a").insert({"id": 1})
        db.table_drop("a")

        assert [] == db.table_create("a").run()

    @pytest.mark.parametrize(
        "name", ["", "a b", "a\0", "é", 'a"; DROP TABLE log; --', "x" * 129, 5, None, "-a", "*"]
    )
    def test_names_that_are_refused(self, db, name):
        with pytest.raises(reactdb.errors.InvalidName):
            db.table_create(name)


class TestTransactions:
    def test_one_commit(self, db, games):
        with db.transaction():
            games.insert({"id": 1})
            games.insert({"id": 2})

        assert 1 == len({change.commit for change in db.log(table="games")})

    def test_an_exception_takes_everything_back(self, db, games):
        with pytest.raises(ZeroDivisionError), db.transaction():
            games.insert({"id": 1})
            db.table_create("other")
            games.index_create("a")
            raise ZeroDivisionError

        assert [] == games.run()
        assert ["games"] == db.table_list()
        assert [] == games.index_list()
        games.insert({"id": 1})
        assert [2] == [change.seq for change in db.log(table="games")]

    def test_reads_inside_see_the_writes(self, db, games):
        with db.transaction():
            games.insert({"id": 1})
            assert {"id": 1} == games.get(1).run()
            assert 1 == games.count().run()

    def test_a_failed_write_inside_is_taken_back_alone(self, db, games):
        with db.transaction():
            games.insert({"id": 1})
            with pytest.raises(reactdb.DuplicateKey):
                games.insert([{"id": 2}, {"id": 1}])
            games.insert({"id": 3})

        assert [1, 3] == [document["id"] for document in games.run()]
        assert [2, 3] == [change.seq for change in db.log(table="games")]

    def test_an_inner_transaction_can_fail_alone(self, db, games):
        with db.transaction():
            games.insert({"id": 1})
            with pytest.raises(ZeroDivisionError), db.transaction():
                games.insert({"id": 2})
                raise ZeroDivisionError

        assert [{"id": 1}] == games.run()

    def test_what_is_taken_back_leaves_nothing_in_the_writers_memory(self, db, games):
        """It knows which parts of the log have a table's changes: this one has them no more, and then again."""
        with pytest.raises(ZeroDivisionError), db.transaction():
            games.insert({"id": 1})
            assert games.count().run() == 1  # SQLite is given what waits.
            raise ZeroDivisionError
        games.insert({"id": 2})

        assert [2] == [change.key for change in db.log(table="games")]

    def test_origin_is_kept_with_the_changes(self, db, games):
        with db.transaction(origin="importer"):
            games.insert({"id": 1})

        assert ["importer"] == [change.origin for change in db.log(table="games")]


class TestLogAndTime:
    def test_log_entries_say_what_happened(self, db, games):
        games.insert({"id": 1, "a": 1})
        games.get(1).update({"a": 2})
        games.get(1).replace({"id": 1})
        games.get(1).delete()

        entries = list(db.log(table="games"))
        assert ["insert", "update", "replace", "delete"] == [entry.kind for entry in entries]
        assert [2, 3, 4, 5] == [entry.seq for entry in entries]
        assert [None, {"id": 1, "a": 1}, {"id": 1, "a": 2}, {"id": 1}] == [entry.old_val for entry in entries]
        assert [{"id": 1, "a": 1}, {"id": 1, "a": 2}, {"id": 1}, None] == [entry.new_val for entry in entries]
        assert {1} == {entry.key for entry in entries}

    def test_times_in_the_log_never_go_back_though_the_clock_does(self, db, games, monkeypatch):
        for seconds in (5_000_000_000, 4_000_000_000, 6_000_000_000):
            monkeypatch.setattr("time.time_ns", lambda now=seconds: now * 10**9)
            games.insert({"id": seconds})

        times = [change.time for change in db.log(table="games")]
        assert times[0] == times[1] < times[2]

    def test_a_range_of_one_tables_log(self, db, games):
        other = db.table_create("other")
        for key in range(100):
            games.insert({"id": key})
            other.insert({"id": key})

        assert list(range(12, 51, 2)) == [entry.seq for entry in db.log(10, 50, "other")]
        assert list(range(11, 51)) == [entry.seq for entry in db.log(10, 50)]

    def test_history_goes_through_a_deletion(self, games):
        games.insert({"id": 1, "a": 1})
        games.get(1).delete()
        games.insert([{"id": 0}, {"id": 1, "a": 2}])
        games.get(1).delete()

        assert ["insert", "delete", "insert", "delete"] == [entry.kind for entry in games.get(1).history()]

    def test_the_past_can_be_read_in_every_way(self, db, games):
        games.index_create("a")
        games.insert([{"id": n, "a": n} for n in range(5)])
        then = db.at(db.seq).table("games")
        games.filter(row["a"] >= 2).update({"a": row["a"] * 10})
        games.get(0).delete()
        games.insert({"id": 9, "a": 3})

        assert [0, 1, 2, 3, 4] == [d["a"] for d in then.run()]
        assert {"id": 0, "a": 0} == then.get(0).run()
        assert then.get(9).run() is None
        assert [3] == [d["id"] for d in then.get_all(3, index="a")]
        assert [4, 3] == [d["id"] for d in then.order_by(index=desc("a")).limit(2)]
        assert 5 == then.count().run()

    def test_the_past_cannot_be_written_or_watched(self, db, games):
        games.insert({"id": 1})
        then = db.at(db.seq).table("games")

        with pytest.raises(reactdb.errors.ReadOnlyDatabase):
            then.insert({"id": 2})
        with pytest.raises(reactdb.UsageError):
            then.changes()

    def test_a_view_of_the_past_has_what_reads(self, db, games):
        games.insert([{"id": 1}, {"id": 2}])
        then = db.at(2)
        games.insert({"id": 3})

        assert {"table", "table_list", "changes_to_arrow", "blobs", "log", "seq", "token", "path"} == {
            name for name in dir(then) if not name.startswith("_")
        }
        assert (2, ["games"], db.path) == (then.seq, then.table_list(), then.path)
        assert [1] == [
            change.key for change in then.log() if change.table == "games" and change.catalogue is None
        ]
        assert then.token.endswith(".2")
        assert not isinstance(then, reactdb.Database)

    @pytest.mark.parametrize(
        "act",
        [
            lambda then: then.table_create("other"),
            lambda then: then.table_drop("games"),
            lambda then: then.transaction(),
            lambda then: then.compact(keep=0),
            lambda then: then.set_retention(5),
            lambda then: then.materialize(None, into="x"),
            lambda then: then.close(),
        ],
    )
    def test_what_only_a_database_has_is_refused_by_a_view_of_the_past(self, db, games, act):
        with pytest.raises(
            reactdb.errors.ReadOnlyDatabase, match="the database as of seq 1 is the past, and has no `"
        ):
            act(db.at(1))

    def test_a_view_of_the_past_says_how_to_watch_what_came_after(self, db, games):
        with pytest.raises(reactdb.UsageError, match=r"use changes\(since=1\) of the database"):
            db.at(1).changes()

    def test_a_name_that_no_database_has_is_an_ordinary_mistake_of_a_view_of_the_past(self, db, games):
        assert not hasattr(db.at(1), "tabel")
        assert not hasattr(db.at(1), "transaction")

    def test_a_dropped_table_is_there_in_the_past(self, db, games):
        games.insert({"id": 1})
        db.table_create("other").insert({"id": 1})
        db.table_drop("games")
        db.table("other").insert({"id": 2})

        assert [[], ["games"], ["games"], ["games", "other"], ["games", "other"], ["other"], ["other"]] == [
            db.at(seq).table_list() for seq in range(7)
        ]
        assert [[], [{"id": 1}]] == [db.at(seq).table("games").run() for seq in (1, 4)]
        for seq in (0, 5, 6):
            with pytest.raises(reactdb.TableNotFound):
                db.at(seq).table("games").run()

    def test_the_future_is_refused(self, db, games):
        with pytest.raises(reactdb.InvalidOption):
            db.at(2)


class TestCompaction:
    def test_old_versions_go_and_documents_stay(self, db, games):
        games.insert([{"id": n, "a": 0} for n in range(5)])
        for value in range(1, 4):
            games.update({"a": value})
        games.get(0).delete()

        result = db.compact(keep=0)
        assert 22 == result["oldest"]
        assert [{"id": n, "a": 3} for n in range(1, 5)] == games.run()
        with pytest.raises(
            reactdb.HistoryLost, match=r"changes since seq 0 are gone; the log starts at seq 23"
        ):
            db.log()
        games.insert({"id": 0})
        assert [23] == [entry.seq for entry in db.log(22)]

    def test_kept_changes_keep_their_old_values(self, db, games):
        games.insert({"id": 1, "a": 0})
        for value in range(1, 10):
            games.get(1).update({"a": value})

        db.compact(keep=3)
        entries = list(db.log(8))
        assert [6, 7, 8] == [entry.old_val["a"] for entry in entries]
        assert [{"id": 1, "a": 6}] == db.at(8).table("games").run()
        with pytest.raises(reactdb.HistoryLost):
            db.at(7)

    def test_compaction_has_to_be_told_what_to_keep(self, db, games):
        """Whoever takes it for maintenance would lose every position that readers have kept."""
        games.insert([{"id": n} for n in range(5)])
        games.update({"a": 1})
        token = db.token

        with pytest.raises(TypeError, match="keep"):
            db.compact()
        with pytest.raises(TypeError, match="keep"):
            db.compact(vacuum=True)
        with pytest.raises(
            reactdb.InvalidOption, match="keep is a number of changes or a timedelta, not None"
        ):
            db.compact(None)

        assert 0 == db.stats()["oldest"]
        assert 11 == len(list(db.log()))
        with games.changes(since=token).cursor():
            pass

    def test_compaction_removes_dropped_tables(self, db, games):
        games.index_create("a")
        games.insert([{"id": n, "a": n} for n in range(10)])
        db.table_drop("games")
        db.table_create("other").insert({"id": 1})

        assert 1 == db.compact(keep=0, vacuum=True)["tables"]
        assert [{"id": 1}] == db.table("other").run()

    def test_retention_by_count_happens_by_itself(self, tmp_path):
        with reactdb.connect(tmp_path / "a.db", durability="soft", retention=100) as db:
            games = db.table_create("games")
            for value in range(2_000):
                games.insert({"id": 1, "value": value}, conflict="replace")
            oldest = db.stats()["oldest"]
            assert 1_000 < oldest <= 1_901
            assert 2_001 - oldest == len(list(db.log(oldest)))

    @pytest.mark.parametrize("retention", [-1, "7d", True, 1.5])
    def test_a_retention_that_makes_no_sense(self, retention):
        with pytest.raises(reactdb.InvalidOption):
            reactdb.connect(":memory:", retention=retention)


def test_asc_is_the_default_order(games):
    games.insert([{"id": n, "a": -n} for n in range(3)])

    assert games.order_by("a").run() == games.order_by(asc("a")).run()


def test_constants_in_an_answer_are_the_readers_to_change(games):
    games.insert({"id": 1})
    found = games.merge({"tags": ["new"]}).run()[0]
    found["tags"].append("mine")

    assert ["new"] == games.merge({"tags": ["new"]}).run()[0]["tags"]


def test_a_filter_that_may_fail_is_not_hidden_by_an_index(games):
    """Law 6: with or without an index, the same answer or the same error."""
    games.index_create("b", row["a"]["b"])
    games.insert([{"id": 1, "a": {"b": 1}}, {"id": 2, "a": 5}])

    with pytest.raises(reactdb.errors.QueryError):
        games.filter(row["a"]["b"] == 1).run()


def test_an_or_of_equalities_uses_the_index(games):
    games.index_create("a")
    games.insert([{"id": n, "a": n % 7} for n in range(30)])
    selection = games.filter((row["a"] == 2) | (row["a"] == 5))

    assert "2 ranges of index `a`, implied by the filter" == selection.explain()["access"]
    assert [d for d in games.run() if d["a"] in (2, 5)] == selection.run()


def test_a_filter_on_the_primary_key_reads_a_range(games):
    games.insert([{"id": n} for n in range(10)])
    selection = games.filter((row["id"] > 3) & (row["id"] <= 5))

    assert "a range of the primary key, implied by the filter" == selection.explain()["access"]
    assert [{"id": 4}, {"id": 5}] == selection.run()
