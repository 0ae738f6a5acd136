"""Difficult cases of pipelines: odd keys, dropped tables, compacted logs, fleets, lost history."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import DatabaseBusy, HistoryDiverged, HistoryLost, InvalidOption, TableNotFound, UsageError

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

from reactdb.lake.parts import PartFolder  # noqa: E402
from reactdb.spark import pipelines, queries, rows  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "games.db"


def documents(folder: str) -> list[dict[str, Any]]:
    """The documents of a current state or a history, from their JSON text."""
    return sorted((json.loads(text) for text in pq.read_table(folder)["document"].to_pylist()), key=repr)


def seqs(folder: str | Path) -> list[int]:
    return sorted(pq.read_table(folder, columns=["seq"])["seq"].to_pylist())


class TestAppending:
    def test_a_run_takes_what_is_new_and_one_without_news_writes_nothing(self, spark, file, tmp_path):
        out = str(tmp_path / "out")
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert([{"id": 1}, {"id": 2}])
            first = pipelines.append_changes(spark, str(file), out)
            games.get(1).update({"score": 3})
            second = pipelines.append_changes(spark, str(file), out)
            third = pipelines.append_changes(spark, str(file), out)

        assert [2, 1, 0] == [first.rows, second.rows, third.rows]
        assert [2, 3, 4] == seqs(out)
        assert [1, 2] == PartFolder(out, "changes").numbers()
        assert {str(file): 4} == third.positions

    def test_a_run_that_dies_before_the_rename_has_not_happened(self, spark, file, tmp_path, monkeypatch):
        out = str(tmp_path / "out")
        with reactdb.connect(file) as db:
            db.table_create("games").insert([{"id": 1}, {"id": 2}])

        class Killed(BaseException):
            pass

        def die(*_: Any) -> str:
            raise Killed

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(PartFolder, "commit", die)
            pipelines.append_changes(spark, str(file), out)
        assert [] == PartFolder(out, "changes").numbers()
        pipelines.append_changes(spark, str(file), out)

        assert [2, 3] == seqs(out)

    def test_a_fleet_grows_by_its_new_changes_and_files_and_knows_a_file_that_moved(self, spark, tmp_path):
        fleet, out = tmp_path / "fleet", str(tmp_path / "out")
        fleet.mkdir()
        for name in ("a", "b"):
            with reactdb.connect(fleet / f"{name}.db") as db:
                db.table_create("games").insert([{"id": 1}, {"id": 2}])
        pipelines.append_changes(spark, str(fleet), out)
        with reactdb.connect(fleet / "c.db") as db:
            db.table_create("games").insert({"id": 1})
        os.rename(fleet / "a.db", fleet / "d.db")
        with reactdb.connect(fleet / "d.db") as db:
            db.table("games").insert({"id": 3})

        second = pipelines.append_changes(spark, str(fleet), out)

        assert 2 == second.rows
        table = pq.read_table(out, columns=["database", "seq"])
        pairs = list(zip(*table.to_pydict().values(), strict=True))
        assert 6 == len(pairs) == len(set(pairs))
        assert 6 == pipelines.update_current(spark, out, str(tmp_path / "current")).rows

    def test_many_files_are_looked_up_as_few_are(self, spark, tmp_path, monkeypatch):
        """Few positions stand in the plan and many are joined: to the same effect."""
        found = []
        for name in ("a", "b", "c"):
            with reactdb.connect(tmp_path / f"{name}.db") as db:
                db.table_create("games").insert([{"id": 1}, {"id": 2}])
                db.table("games").get(1).delete()
        for most in (rows.MOST_LITERALS, 0):
            monkeypatch.setattr(rows, "MOST_LITERALS", most)
            path = pipelines.update_current(spark, str(tmp_path), str(tmp_path / f"current-{most}")).path
            table = pq.read_table(path).to_pydict()
            found.append(sorted(zip(*(table[name] for name in sorted(table)), strict=True)))

        assert 3 == len(found[0])
        assert found[0] == found[1]

    def test_a_copy_of_a_database_is_not_counted_twice(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            db.table_create("games").insert({"id": 1})
        shutil.copyfile(file, tmp_path / "copy.db")

        with pytest.raises(UsageError, match="are the same database"):
            pipelines.append_changes(spark, str(tmp_path), str(tmp_path / "out"))

    def test_a_file_that_was_restored_from_an_older_backup_is_refused(self, spark, file, tmp_path):
        out = str(tmp_path / "out")
        with reactdb.connect(file) as db:
            db.table_create("games").insert({"id": 1})
        shutil.copyfile(file, tmp_path / "backup")
        with reactdb.connect(file) as db:
            db.table("games").insert([{"id": 2}, {"id": 3}])
        pipelines.append_changes(spark, str(file), out)
        reactdb.delete_database(file)
        shutil.copyfile(tmp_path / "backup", file)

        with pytest.raises(HistoryDiverged, match="was read up to seq 4"):
            pipelines.append_changes(spark, str(file), out)
        with reactdb.connect(file) as db:
            db.table("games").insert([{"id": number} for number in range(10, 20)])
        with pytest.raises(HistoryDiverged, match="was read up to seq 4"):
            pipelines.append_changes(spark, str(file), out)
        assert [2, 3, 4] == seqs(out)

    def test_changes_that_compaction_removed_before_they_were_read_are_missed_aloud(
        self, spark, file, tmp_path
    ):
        out = str(tmp_path / "out")
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert({"id": 1})
            pipelines.append_changes(spark, str(file), out)
            games.get(1).update({"score": 1})
            games.get(1).update({"score": 2})
            db.compact(keep=0)

        with pytest.raises(HistoryLost):
            pipelines.append_changes(spark, str(file), out)

    def test_a_folder_goes_on_as_it_was_begun(self, spark, file, tmp_path):
        out = str(tmp_path / "out")
        with reactdb.connect(file) as db:
            db.table_create("games").insert({"id": 1})
        pipelines.append_changes(spark, str(file), out)

        with pytest.raises(UsageError, match="begun with table None and cannot go on with 'games'"):
            pipelines.append_changes(spark, str(file), out, table="games")
        with pytest.raises(UsageError, match="holds changes, not current"):
            PartFolder(out, "current").newest()
        with PartFolder(out, "changes").lock(), pytest.raises(DatabaseBusy):
            pipelines.append_changes(spark, str(file), out)

    def test_fields_that_a_schema_was_not_inferred_with_are_an_error_and_not_left_out(
        self, spark, file, tmp_path
    ):
        out = str(tmp_path / "out")
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert({"id": 1, "score": 2})
            pipelines.append_changes(spark, str(file), out, table="games", document="struct")
            games.insert({"id": 2, "score": 3, "level": 9})

            with pytest.raises(Exception, match="level"):
                pipelines.append_changes(spark, str(file), out, table="games", document="struct")
        assert [2] == seqs(out)


class TestStateAndHistory:
    def test_a_table_that_was_dropped_and_made_again_is_another_one(self, spark, file, tmp_path):
        current, out = str(tmp_path / "current"), str(tmp_path / "out")
        with reactdb.connect(file) as db:
            db.table_create("games").insert([{"id": 1, "era": "old"}, {"id": 2, "era": "old"}])
            db.table_create("gone").insert({"id": 1})
            pipelines.update_current(spark, str(file), current)
            db.table_drop("games")
            db.table_drop("gone")
            db.table_create("games").insert({"id": 1, "era": "new"})
        pipelines.append_changes(spark, str(file), out)

        path = pipelines.update_current(spark, str(file), current).path
        history = pipelines.write_history(spark, out, str(tmp_path / "history"))

        assert [{"id": 1, "era": "new"}] == documents(path)
        assert 1 == history.rows
        assert [{"id": 1, "era": "new"}] == documents(history.path)

    def test_a_table_that_was_only_dropped_leaves_the_state(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            db.table_create("games").insert({"id": 1})
            db.table_create("gone").insert({"id": 1})
            pipelines.update_current(spark, str(file), str(tmp_path / "current"))
            db.table_drop("gone")

        assert 1 == pipelines.update_current(spark, str(file), str(tmp_path / "current")).rows

    def test_a_compacted_log_begins_with_the_documents_as_they_were(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert([{"id": 1, "score": 1}, {"id": 2, "score": 1}, {"id": 3, "score": 1}])
            games.get(3).delete()
            db.compact(keep=0)
            games.get(1).update({"score": 2})
            wanted = games.run()
        out = str(tmp_path / "out")

        exported = pipelines.append_changes(spark, str(file), out)
        from_file = pipelines.update_current(spark, str(file), str(tmp_path / "current"))
        from_export = pipelines.update_current(spark, out, str(tmp_path / "current-2"))
        history = pipelines.write_history(spark, out, str(tmp_path / "history"))
        rates = pipelines.write_rates(spark, out, str(tmp_path / "rates"))

        assert [str(file)] == exported.begins_late == from_file.begins_late
        assert sorted(wanted, key=repr) == documents(from_file.path) == documents(from_export.path)
        assert [("insert", 0), ("read", 2), ("update", 1)] == [
            (op, pq.read_table(out)["op"].to_pylist().count(op)) for op in ("insert", "read", "update")
        ]
        assert 3 == history.rows
        assert [1] == pq.read_table(rates.path)["changes"].to_pylist()

    def test_rates_are_by_names_in_a_list_or_in_one_text(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            db.table_create("games").insert([{"id": 1}, {"id": 2}])
        listed = pipelines.write_rates(spark, str(file), str(tmp_path / "listed"), by=["table", "op"])
        told = pipelines.write_rates(spark, str(file), str(tmp_path / "told"), by="table, op")

        assert pq.read_table(listed.path).equals(pq.read_table(told.path))

    def test_a_number_and_its_text_are_two_keys(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert([{"id": 1, "kind": "number"}, {"id": "1", "kind": "text"}])
            first = pipelines.update_current(spark, str(file), str(tmp_path / "current"))
            games.get("1").update({"kind": "still text"})
            second = pipelines.update_current(spark, str(file), str(tmp_path / "current"))

        assert (2, 2) == (first.rows, second.rows)
        assert ["number", "still text"] == sorted(one["kind"] for one in documents(second.path))

    def test_a_deletion_ends_a_version_and_is_none(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert({"id": 1, "life": 1})
            games.get(1).delete()
            games.insert({"id": 1, "life": 2})

        history = pipelines.write_history(spark, str(file), str(tmp_path / "history"))

        table = pq.read_table(history.path).sort_by("seq").to_pydict()
        assert [2, 4] == table["seq"]
        assert [3, None] == table["next_seq"]
        assert [False, True] == table["is_current"]

    @pytest.mark.parametrize("form", ["json", "variant", "binary"])
    def test_documents_can_stay_in_one_piece(self, form, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert([{"id": 1, "score": 1}, {"id": 2, "tags": ["a"]}])
            pipelines.update_current(spark, str(file), str(tmp_path / "current"), document=form)
            games.get(1).update({"score": 2})
            path = pipelines.update_current(spark, str(file), str(tmp_path / "current"), document=form).path

        found = spark.read.parquet(path)
        assert {"json": "string"}.get(form, form) == dict(found.dtypes)["document"]
        assert 2 == found.count()

    def test_a_reader_of_the_state_before_can_finish(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert({"id": 1})
            path = pipelines.update_current(spark, str(file), str(tmp_path / "current")).path
            reading = spark.read.parquet(os.path.realpath(path))
            games.insert({"id": 2})
            pipelines.update_current(spark, str(file), str(tmp_path / "current"))

        assert 1 == reading.count()
        assert 2 == spark.read.parquet(path).count()


class TestQueries:
    def test_a_plain_read_of_changes_can_be_asked_too(self, spark, file):
        """Without the pipelines' own columns."""
        with reactdb.connect(file, origin="me") as db:
            games = db.table_create("games")
            games.insert([{"id": 1, "score": 1}, {"id": 2, "score": 1}])
            games.get(1).update({"score": 2})
            games.get(2).delete()
        changes = spark.read.format("reactdb").option("read", "changes").load(f"{file.parent}/*.db")

        assert [("1", 4)] == [(str(row.key), row.seq) for row in queries.current(changes).collect()]
        assert 3 == queries.history(changes).count()
        (row,) = queries.rates(changes, "1 week").collect()
        assert (4, 2, 1, 0, 1, 2) == (
            row.changes, row.inserts, row.updates, row.replaces, row.deletes, row["keys"],
        )  # fmt: skip
        (row,) = queries.audit(changes).collect()
        assert ("score", "me", 1, 0, 0) == (row.field, row.origin, row.changes, row.added, row.removed)

    def test_an_audit_tells_a_field_that_is_null_from_one_that_is_not_there(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert({"id": 1, "a": 1, "b": None})
            games.get(1).replace({"id": 1, "a": None, "c": None})

        path = pipelines.write_audit(spark, str(file), str(tmp_path / "audit")).path

        table = pq.read_table(path, columns=["field", "added", "removed"]).to_pylist()
        assert [("a", 0, 0), ("b", 0, 1), ("c", 1, 0)] == sorted(tuple(row.values()) for row in table)

    @pytest.mark.parametrize("bucket", ["", "0 hours", "1 month", "1", "-1 hour", "1 hour'); --", None])
    def test_a_bucket_that_is_none_is_refused(self, bucket):
        with pytest.raises(InvalidOption, match="bucket is a length of time"):
            queries.check_rates(bucket, ["table"])

    def test_a_column_that_cannot_be_counted_by_is_refused(self):
        with pytest.raises(InvalidOption, match="by is some of"):
            queries.check_rates("1 hour", ["table; drop"])


def test_what_is_not_there_is_said_before_anything_is_written(spark, file, tmp_path):
    with reactdb.connect(file) as db:
        db.table_create("games").insert({"id": 1})

    with pytest.raises(TableNotFound):
        pipelines.append_changes(spark, str(file), str(tmp_path / "out"), table="nobody")
    with pytest.raises(InvalidOption, match="document is one of"):
        pipelines.append_changes(spark, str(file), str(tmp_path / "out"), document="xml")
    with pytest.raises(InvalidOption, match="not a schema"):
        pipelines.append_changes(
            spark, str(file), str(tmp_path / "out"), document="struct", schema="id strong", table="games"
        )
    assert not list((tmp_path / "out").glob("increment=*"))
