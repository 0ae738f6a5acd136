"""Histories, rates and audits: difficult cases, and the queries over a plain read of changes. `tests/lake` has the exporter's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import InvalidOption, TableNotFound, UsageError
from reactdb.lake import export

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

from reactdb.spark import pipelines, queries  # noqa: E402


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "games.db"


def documents(folder: str) -> list[dict[str, Any]]:
    """The documents of a history, without nulls: from structs, or from JSON text."""
    found = pq.read_table(folder)["document"].to_pylist()
    decoded = [json.loads(one) if isinstance(one, str) else one for one in found]
    return sorted(
        ({name: value for name, value in one.items() if value is not None} for one in decoded), key=repr
    )


@pytest.mark.slow
class TestHistory:
    def test_a_table_that_was_dropped_and_made_again_is_another_one(self, spark, file, tmp_path):
        out = str(tmp_path / "out")
        with reactdb.connect(file) as db:
            db.table_create("games").insert([{"id": 1, "era": "old"}, {"id": 2, "era": "old"}])
            db.table_create("gone").insert({"id": 1})
            db.table_drop("games")
            db.table_drop("gone")
            db.table_create("games").insert({"id": 1, "era": "new"})
        export(file, "games", parquet=out, mode="changes")

        history = pipelines.write_history(spark, out, str(tmp_path / "history"))
        of_file = pipelines.write_history(spark, str(file), str(tmp_path / "history-2"))

        assert [1, 1] == [history.rows, of_file.rows]
        assert [{"id": 1, "era": "new"}] == documents(history.path) == documents(of_file.path)

    def test_a_compacted_log_begins_with_the_documents_as_they_were(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert([{"id": 1, "score": 1}, {"id": 2, "score": 1}, {"id": 3, "score": 1}])
            games.get(3).delete()
            db.compact(keep=0)
            games.get(1).update({"score": 2})
        out = str(tmp_path / "out")
        exported = export(file, parquet=out, mode="changes")

        history = pipelines.write_history(spark, out, str(tmp_path / "history"))
        of_file = pipelines.write_history(spark, str(file), str(tmp_path / "history-2"))
        rates = pipelines.write_rates(spark, out, str(tmp_path / "rates"))

        assert [str(file)] == exported.begins_late == of_file.begins_late
        assert [3, 3] == [history.rows, of_file.rows]
        assert [1] == pq.read_table(rates.path)["changes"].to_pylist()

    def test_a_deletion_ends_a_version_and_is_none(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert({"id": 1, "life": 1})
            games.get(1).delete()
            games.insert([{"id": 1, "life": 2}, {"id": "1", "life": 1}])

        history = pipelines.write_history(spark, str(file), str(tmp_path / "history"))

        table = pq.read_table(history.path).sort_by("seq").to_pydict()
        assert [2, 4, 5] == table["seq"]
        assert [3, None, None] == table["next_seq"]
        assert [False, True, True] == table["is_current"]

    def test_the_history_is_that_of_the_exporter(self, spark, file, tmp_path):
        """Spark's SQL and the exporter's own Python agree."""
        with reactdb.connect(file, origin="me") as db:
            games = db.table_create("games")
            games.insert([{"id": n, "score": n} for n in range(5)])
            games.get(1).update({"score": 7})
            games.get(2).delete()
            games.insert({"id": 2, "score": 0})
        path = export(file, "games", parquet=str(tmp_path / "scd2"), mode="scd2").path

        history = pipelines.write_history(spark, str(file), str(tmp_path / "history"), table="games")

        exported, queried = pq.read_table(path), pq.read_table(history.path, coerce_int96_timestamp_unit="us")
        assert set(exported.column_names) == set(queried.column_names)
        # Spark writes times without their zone, which is UTC.
        naive = exported.schema
        for name in ("valid_from", "valid_to"):
            place = naive.get_field_index(name)
            naive = naive.set(place, naive.field(place).with_type(queried.schema.field(name).type))
        rows = [
            sorted(table.to_pylist(), key=lambda row: row["seq"])
            for table in (exported.cast(naive), queried.select(exported.column_names))
        ]
        assert rows[0] == rows[1]

    def test_rates_are_by_names_in_a_list_or_in_one_text(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            db.table_create("games").insert([{"id": 1}, {"id": 2}])
        listed = pipelines.write_rates(spark, str(file), str(tmp_path / "listed"), by=["table", "op"])
        told = pipelines.write_rates(spark, str(file), str(tmp_path / "told"), by="table, op")

        assert pq.read_table(listed.path).equals(pq.read_table(told.path))

    def test_an_audit_tells_a_field_that_is_null_from_one_that_is_not_there(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert({"id": 1, "a": 1, "b": None})
            games.get(1).replace({"id": 1, "a": None, "c": None})

        path = pipelines.write_audit(spark, str(file), str(tmp_path / "audit")).path

        table = pq.read_table(path, columns=["field", "added", "removed"]).to_pylist()
        assert [("a", 0, 0), ("b", 0, 1), ("c", 1, 0)] == sorted(tuple(row.values()) for row in table)

    def test_a_plain_read_of_changes_can_be_asked_too(self, spark, file):
        """Without the exporter's own columns."""
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

    def test_what_is_not_there_is_said_before_anything_is_written(self, spark, file, tmp_path):
        with reactdb.connect(file) as db:
            db.table_create("games").insert({"id": 1})
        out = str(tmp_path / "out")
        export(file, "games", parquet=out, mode="changes")

        with pytest.raises(TableNotFound):
            pipelines.write_history(spark, str(file), str(tmp_path / "history"), table="nobody")
        with pytest.raises(UsageError, match="holds the changes of table `games` alone"):
            pipelines.write_history(spark, out, str(tmp_path / "history"), table="nobody")
        with reactdb.connect(file) as db:
            db.table_create("notes").insert({"id": 1})
        export(file, parquet=str(tmp_path / "out" / "all"), mode="changes")
        with pytest.raises(TableNotFound, match="The nearest is `games`"):
            pipelines.write_history(
                spark, str(tmp_path / "out" / "all"), str(tmp_path / "history"), table="gmaes"
            )
        assert {"games.db", "games.db-shm", "games.db-wal", "out"} >= {
            path.name for path in tmp_path.iterdir()
        }


@pytest.mark.parametrize("bucket", ["", "0 hours", "1 month", "1", "-1 hour", "1 hour'); --", None])
def test_a_bucket_that_is_none_is_refused(bucket):
    with pytest.raises(InvalidOption, match="bucket is a length of time"):
        queries.check_rates(bucket, ["table"])


def test_a_column_that_cannot_be_counted_by_is_refused():
    with pytest.raises(InvalidOption, match="by is some of"):
        queries.check_rates("1 hour", ["table; drop"])
