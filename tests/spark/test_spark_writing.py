"""Writing through a session: batches and streams, as Spark runs them. The pieces alone are in test_write_pieces."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import reactdb
from tests.support.inspection import documents as games


def save(frame: Any, path: Path, mode: str = "append", **options: Any) -> None:
    writer = frame.write.format("reactdb").mode(mode).option("table", "games")
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save(str(path))


def left_over(path: Path) -> list[str]:
    """What is there beside the database."""
    return [file.name for file in path.parent.iterdir() if not file.name.startswith(path.name)]


def test_every_type_of_spark_arrives_as_it_is(spark: Any, path: Path):
    """The session's time zone is New York; a moment is a moment."""
    frame = spark.sql(
        """SELECT 7L id, timestamp'2020-01-01 00:00:00' moment, date'0001-01-01' day, time'10:00:00.000001' clock,
        interval 3 days 1 second span, cast(9.9 AS decimal(9, 2)) price, X'00ff' bytes, cast('NaN' AS double) nan,
        map('a', array(struct(1 AS q, null AS z), null)) map, parse_json('{"a": [1, null, "x"], "b": true}') free,
        cast(null AS string) nothing, named_struct('a', cast(null AS int), 'b', array()) struct"""
    )
    save(frame, path)

    (found,) = games(path)
    assert "nan" == str(found.pop("nan"))
    assert {
        "id": 7,
        "moment": datetime(2020, 1, 1, 5, tzinfo=UTC),
        "day": datetime(1, 1, 1).date(),
        "clock": time(10, 0, 0, 1),
        "span": timedelta(days=3, seconds=1),
        "price": Decimal("9.90"),
        "bytes": b"\x00\xff",
        "map": {"a": [{"q": 1}, None]},
        "free": {"a": [1, None, "x"], "b": True},
        "struct": {"b": []},
    } == found


def test_many_tasks_stage_and_one_commit_writes(spark: Any, path: Path):
    frame = spark.range(20_000).repartition(4).selectExpr("id", "concat('player ', id) AS player")
    save(frame, path)

    with reactdb.connect(path) as db:
        assert {1} == {change.commit for change in db.log()}
        assert 20_000 == db.table("games").count().run()
    assert [] == left_over(path)


def test_what_was_read_can_be_written_and_is_the_same(spark: Any, path: Path, tmp_path: Path):
    with reactdb.connect(path) as db:
        db.table_create("games").insert(
            [
                {
                    "id": number,
                    "at": datetime(2026, 1, 1, tzinfo=UTC),
                    "tags": ["a", "b"],
                    "pos": {"x": number / 2},
                }
                for number in range(50)
            ]
        )
    frame = spark.read.format("reactdb").option("table", "games").load(str(path))
    save(frame, tmp_path / "copy.db")

    assert games(path) == games(tmp_path / "copy.db")


def test_a_table_can_be_overwritten_with_what_was_read_from_it(spark: Any, path: Path):
    with reactdb.connect(path) as db:
        db.table_create("games").insert([{"id": number, "n": number} for number in range(10)])
    frame = spark.read.format("reactdb").option("table", "games").load(str(path))
    save(frame.where("id < 5").selectExpr("id", "n + (id % 2) AS n"), path, "overwrite")

    assert [{"id": number, "n": number + number % 2} for number in range(5)] == games(path)
    with reactdb.connect(path) as db:
        # Two are different, and five are gone.
        assert 1 + 10 + 2 + 5 == db.seq


@pytest.mark.parametrize("where", ["a task", "the commit"])
def test_a_write_that_fails_leaves_no_row_and_no_file(spark: Any, path: Path, where: str):
    save(spark.sql("SELECT 5L id"), path)
    with pytest.raises(Exception, match="is not true" if where == "a task" else "Duplicate primary key"):
        save(
            spark.range(0, 4_000, 1, 2).selectExpr(
                "id + assert_true(id < 3999) IS NULL AS flag" if where == "a task" else "true AS flag", "id"
            ),
            path,
        )

    assert [{"id": 5}] == games(path)
    assert [] == left_over(path)


def test_another_writer_is_waited_for_and_then_told_in_one_sentence(spark: Any, path: Path):
    save(spark.sql("SELECT 1L id"), path)
    with (
        reactdb.connect(path) as db,
        db.transaction(),
        pytest.raises(Exception, match=r"DatabaseBusy: .*a\.db"),
    ):
        db.table("games").insert({"id": 2})
        save(spark.sql("SELECT 3L id"), path, busyTimeout=0.1)


def test_a_null_key_is_told(spark: Any, path: Path):
    with pytest.raises(Exception, match="a row has null in 'id', the primary key of table 'games'"):
        save(spark.sql("SELECT cast(null AS long) id"), path)

    assert not path.exists()


def test_a_batch_of_a_foreach_is_carried_out_once(spark: Any, path: Path):
    """Delta's names for it: txnAppId and txnVersion."""
    for _ in range(2):
        save(spark.sql("SELECT 1L id"), path, txnAppId="counts", txnVersion=4)

    assert [{"id": 1}] == games(path)


@pytest.mark.slow
class TestStreams:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Iterator[Any]:
        with reactdb.connect(tmp_path / "source" / ".." / "source.db") as db:
            db.table_create("games").insert([{"id": number, "n": number} for number in range(10)])
            yield db

    def start(self, spark: Any, source: Any, path: Path, checkpoint: str, **options: Any) -> Any:
        rows = (
            spark.readStream.format("reactdb")
            .option("read", "changes")
            .option("maxChangesPerTrigger", 4)
            .schema("seq long, key long, op string, new struct<id:long,n:long>")
            .load(source.path)
        )
        writer = (
            rows.selectExpr("key AS id", "new.n AS n", "op = 'delete' AS gone")
            .writeStream.format("reactdb")
            .option("table", "games")
            .option("conflict", "replace")
            .option("deleteField", "gone")
            .option("checkpointLocation", str(path.parent / checkpoint))
            .trigger(availableNow=True)
        )
        for name, value in options.items():
            writer = writer.option(name, value)
        return writer.start(str(path))

    def test_a_stream_from_reactdb_to_reactdb_is_a_replica(self, spark: Any, source: Any, path: Path):
        self.start(spark, source, path, "checkpoint").awaitTermination()
        source.table("games").get(3).delete()
        source.table("games").get(4).update({"n": -4})
        self.start(spark, source, path, "checkpoint").awaitTermination()

        assert list(source.table("games").run()) == games(path)
        with reactdb.connect(path) as db:
            # The table, three batches of 4, 4 and 2, then one of 2, each one commit.
            assert [1, 2, 6, 10, 12] == sorted({change.commit for change in db.log()})
        assert (
            {"checkpoint", "source.db"}
            <= set(left_over(path))
            <= {
                "checkpoint",
                "source.db",
                "source.db-wal",
                "source.db-shm",
            }
        )

    def test_a_batch_that_spark_did_not_hear_of_is_not_written_twice(
        self, spark: Any, source: Any, path: Path
    ):
        """As after a kill between our commit and Spark's: its note of the last batch is not there."""
        self.start(spark, source, path, "checkpoint").awaitTermination()
        with reactdb.connect(path) as db:
            db.table("games").get(9).update({"n": "since"})
            before = db.seq
        (path.parent / "checkpoint" / "commits" / "2").unlink()
        (path.parent / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
        self.start(spark, source, path, "checkpoint").awaitTermination()

        with reactdb.connect(path) as db:
            assert before == db.seq

    def test_another_checkpoint_is_another_sender(self, spark: Any, source: Any, path: Path):
        self.start(spark, source, path, "one").awaitTermination()
        with reactdb.connect(path) as db:
            db.table("games").delete()
        self.start(spark, source, path, "two").awaitTermination()

        assert 10 == len(games(path))

    def test_a_complete_result_takes_the_place_of_the_last(self, spark: Any, source: Any, path: Path):
        def counted() -> None:
            rows = (
                spark.readStream.format("reactdb")
                .option("read", "changes")
                .schema("seq long, op string")
                .load(source.path)
            )
            (
                rows.groupBy("op")
                .count()
                .writeStream.format("reactdb")
                .outputMode("complete")
                .option("table", "games")
                .option("primaryKey", "op")
                .option("checkpointLocation", str(path.parent / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(path))
                .awaitTermination()
            )

        counted()
        source.table("games").delete()
        counted()

        assert [{"op": "delete", "count": 10}, {"op": "insert", "count": 10}] == games(path)
        with reactdb.connect(path) as db:
            assert 3 == db.seq

    def test_a_failing_batch_ends_the_query_and_leaves_nothing(self, spark: Any, source: Any, path: Path):
        query = self.start(spark, source, path, "checkpoint", conflict="error", deleteField="")
        query.awaitTermination()
        source.table("games").get(1).update({"n": 100})
        with pytest.raises(Exception, match="Duplicate primary key"):
            self.start(spark, source, path, "checkpoint", conflict="error", deleteField="").awaitTermination()

        with reactdb.connect(path) as db:
            assert 11 == db.seq
        assert not [name for name in left_over(path) if "staging" in name]
