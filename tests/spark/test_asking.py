"""What a read or a write is asked for without its proper word: by the columns that are named, by an option that only streams
have, by another word for the same; and what is refused with a sentence that helps."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.types import StructType

import reactdb
from reactdb.errors import InvalidOption
from reactdb.spark.options import parse
from reactdb.spark.source import ReactdbSource


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of one document that was written twice."""
    path = tmp_path_factory.mktemp("asking") / "a.db"
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        games.insert({"id": 1, "score": 5})
        games.get(1).update({"score": 9})
    return str(path)


BEYOND = str(10**30)


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"read": "changes", "end": BEYOND}, 2),
        ({"read": "changes", "start": BEYOND}, 0),
        ({"partitionBytes": BEYOND[:18]}, 1),
    ],
    ids=str,
)
def test_a_number_beyond_those_of_sqlite_means_the_greatest(options: dict[str, str], rows: int, path: str):
    source = ReactdbSource({"path": path, "table": "games", **options})
    reader = source.reader(source.schema())

    assert rows == sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


def schema(columns: str) -> StructType:
    """Of `seq long, op string`, as DDL has it; without a session, which reading DDL would need."""
    found = StructType()
    for column in columns.split(", "):
        found.add(*column.split())
    return found


def rows(columns: str, **options: str) -> list[dict[str, Any]]:
    """What a read with this schema gives."""
    reader = ReactdbSource(dict(options)).reader(schema(columns))
    return [row for split in reader.partitions() for batch in reader.read(split) for row in batch.to_pylist()]


def test_a_schema_with_deltas_own_columns_asks_for_deltas_shape(path: str):
    found = rows("_change_type string, score long", path=path, read="changes", table="games")

    assert [("insert", 5), ("update_preimage", 5), ("update_postimage", 9)] == [
        (row["_change_type"], row["score"]) for row in found
    ]


def test_a_schema_with_debeziums_own_columns_asks_for_its_shape(path: str):
    found = rows("op string, after string", path=path, read="changes", table="games")

    assert [("c", '{"id":1,"score":5}'), ("u", '{"id":1,"score":9}')] == [
        (row["op"], row["after"]) for row in found
    ]


def test_a_shape_that_was_said_is_not_overruled_by_columns(path: str):
    with pytest.raises(InvalidOption, match="changes have no column _change_type"):
        rows("_change_type string", path=path, read="changes", shape="reactdb")


def test_columns_make_no_changes_of_documents(path: str):
    assert [{"id": 1, "before": None}] == rows("id long, before long", path=path)


@pytest.mark.parametrize("columns", ["seq long, op string", "_change_type string, id long", "ts_ms long"])
def test_a_stream_whose_columns_are_those_of_changes_reads_changes(path: str, columns: str):
    reader = ReactdbSource({"path": path, "table": "games"}).streamReader(schema(columns))

    assert reader.options.is_changes


@pytest.mark.parametrize("options", [{"read": "documents"}, {"asOf": "1"}])
def test_a_stream_that_was_told_to_read_documents_is_refused_whatever_its_columns(
    path: str, options: dict[str, str]
):
    with pytest.raises(InvalidOption, match="a stream reads changes"):
        ReactdbSource({"path": path, **options}).streamReader(schema("seq long"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("maxChangesPerTrigger", "5"), ("START", "now"), ("end", "2026-01-31"), ("shape", "delta")],
)
def test_an_option_that_only_changes_have_means_changes(name: str, value: str):
    assert parse({name: value}).is_changes
    with pytest.raises(InvalidOption, match="choose changes: leave out read=documents"):
        parse({name: value, "read": "documents"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": ""}, "path is empty: give load() a file"),
        ({"paths": '["a.db", ""]'}, "a JSON list of strings that are not empty"),
        ({"option.table": "games"}, "CREATE TEMPORARY VIEW ... USING reactdb OPTIONS (...) keeps them"),
    ],
)
def test_what_would_have_been_taken_for_something_else_is_refused(options: dict[str, str], words: str):
    with pytest.raises(InvalidOption) as caught:
        parse(options)

    assert words in str(caught.value)


def test_the_package_is_there_after_importing_reactdb():
    assert callable(reactdb.spark.register)
