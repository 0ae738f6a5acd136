"""A DataFrame is one state, whichever queries run on it, in any order and with any setting, while a writer continues.

Spark creates the source once for each `load()`, keeps it pickled, and makes readers from copies of it: one for the DataFrame, or
one for each filter if it pushes filters down. So the pickle must contain the state.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any

import pytest

import reactdb

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql import types as t

from reactdb.spark.source import ReactdbSource

SEED = 20260131
Pair = tuple[int, int]


class Writer:
    """Two files in a folder, or more as time goes on, with documents {id, v}.

    Attributes:
        as_of: A position that every file has once `begin` has returned.
    """

    def __init__(self, folder: Path, chance: Random) -> None:
        self.folder = folder
        self._chance = chance
        self._databases: list[reactdb.Database] = []
        self.as_of = 0

    def begin(self) -> None:
        for _ in range(2):
            self._add_file()
        self.as_of = min(db.seq for db in self._databases)
        self.go_on()

    def _add_file(self) -> None:
        db = reactdb.connect(self.folder / f"{len(self._databases)}.db", durability="soft")
        self._databases.append(db)
        db.table_create("games").insert([{"id": number, "v": number % 5} for number in range(20)])

    def go_on(self) -> None:
        """Insert, update and delete in each file, and now and then begin another one."""
        for db in self._databases:
            games, chance = db.table("games"), self._chance
            with db.transaction():
                for _ in range(chance.randint(1, 3)):
                    document = {"id": chance.randrange(30), "v": chance.randrange(5)}
                    games.insert(document, conflict="replace")
            games.get(chance.randrange(30)).delete()
        if self._chance.random() < 0.2:
            self._add_file()

    def documents(self, *, is_folder: bool, seq: int | None = None) -> list[Pair]:
        found = []
        for db in self._databases if is_folder else self._databases[:1]:
            source = db if seq is None else db.at(seq)
            found += [(each["id"], each["v"]) for each in source.table("games").run()]
        return sorted(found)

    def changes(self, *, is_folder: bool, since: int = 0) -> list[Pair]:
        found = []
        for db in self._databases if is_folder else self._databases[:1]:
            log = (each for each in db.log(since=since) if each.catalogue is None)
            found += [(each.seq, each.commit) for each in log]
        return sorted(found)

    def close(self) -> None:
        for db in self._databases:
            db.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(tmp_path, Random(SEED))
    made.begin()
    yield made
    made.close()


class Route:
    """One way to a DataFrame: its options, its schema where it is the user's own, and what it is to hold.

    Attributes:
        columns: The two that are asked for; whole numbers.
    """

    def __init__(self, options: dict[str, str], *, is_folder: bool = False, is_given: bool = False) -> None:
        self.is_changes = options.get("read") == "changes"
        self.is_folder = is_folder
        self.is_given = is_given
        self.columns = ("seq", "commit") if self.is_changes else ("id", "v")
        self._options = options

    def options(self, writer: Writer) -> dict[str, str]:
        path = writer.folder if self.is_folder else writer.folder / "0.db"
        texts = {name: value.format(writer.as_of) for name, value in self._options.items()}
        return {"table": "games", "partitionBytes": "40k", "path": str(path), **texts}

    def holds(self, writer: Writer) -> list[Pair]:
        """What a read of now gives."""
        if self.is_changes:
            since = writer.as_of if "start" in self._options else 1
            return writer.changes(is_folder=self.is_folder, since=since - 1)
        seq = writer.as_of if self._options.get("asOf") == "{}" else None
        return writer.documents(is_folder=self.is_folder, seq=seq)


CHANGES = {"read": "changes"}
ROUTES = {
    "documents": Route({}),
    "documents, own schema": Route({}, is_given=True),
    "documents of a folder, own schema": Route({}, is_folder=True, is_given=True),
    "documents in many partitions, own schema": Route({"partitionBytes": "4k"}, is_given=True),
    "documents as of a seq, own schema": Route({"asOf": "{}"}, is_given=True),
    "documents as of a time to come, own schema": Route({"asOf": "2999-01-01"}, is_given=True),
    "changes": Route(CHANGES),
    "changes of a folder": Route(CHANGES, is_folder=True),
    "changes, own schema": Route(CHANGES, is_given=True),
    "changes since a seq, own schema": Route({**CHANGES, "start": "{}"}, is_folder=True, is_given=True),
}


@pytest.mark.parametrize("name", ROUTES)
def test_every_reader_of_one_pickled_source_reads_the_state_in_which_it_was_pickled(writer, name):
    """What Spark does with a source, without Spark: readers are made of copies, whenever it likes."""
    route = ROUTES[name]
    source = ReactdbSource(route.options(writer))
    schema = t.StructType([t.StructField(column, t.LongType()) for column in route.columns])
    if not route.is_given:
        schema = source.schema()
    kept = pickle.dumps(source)
    expected = route.holds(writer)

    for turn in range(6):
        writer.go_on()
        reader = pickle.loads(kept).reader(schema)
        if turn % 2:
            # A reader travels to executors.
            reader, parts = pickle.loads(pickle.dumps((reader, reader.partitions())))
            writer.go_on()
        else:
            parts = reader.partitions()
        rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]

        assert expected == sorted(tuple(row[column] for column in route.columns) for row in rows)


def test_a_source_that_found_no_file_does_not_find_one_later(tmp_path):
    """Its DataFrame has told one query that there is none."""
    path = tmp_path / "late.db"
    kept = pickle.dumps(ReactdbSource({"path": str(path), "table": "games"}))
    with reactdb.connect(path) as db:
        db.table_create("games").insert({"id": 1})
    source = pickle.loads(pickle.dumps(pickle.loads(kept)))

    with pytest.raises(reactdb.errors.CannotOpen, match=r"late\.db"):
        source.reader(t.StructType([t.StructField("id", t.LongType())]))


# ---------------------------------------------------------------------------------------------------------------
# With Spark


class Question:
    """A filter, in Spark's words and as a test of a row's two values."""

    def __init__(self, columns: tuple[str, str], chance: Random) -> None:
        place, limit = chance.randrange(2), chance.randrange(12)
        word, test = chance.choice([("=", int.__eq__), ("<", int.__lt__), (">=", int.__ge__)])
        self.text = f"{columns[place]} {word} {limit}"
        self._passes: Callable[[Pair], bool] = lambda row: test(row[place], limit)

    def of(self, rows: list[Pair]) -> list[Pair]:
        return [row for row in rows if self._passes(row)]


def collected(frame: Any, columns: tuple[str, str]) -> list[Pair]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


WHOLE = ("rows", "count", "union")
FILTERED = ("filter", "filters", "union", "join", "view", "cache")


def act(what: str, frame: Any, columns: tuple[str, str], rows: list[Pair], chance: Random) -> tuple[Any, Any]:
    """Ask something of a DataFrame that should hold these rows. Gives (the right answer, Spark's)."""
    one, other = Question(columns, chance), Question(columns, chance)
    if what == "rows":
        return rows, collected(frame, columns)
    if what == "count":
        return len(rows), frame.count()
    if what == "filter":
        return one.of(rows), collected(frame.where(one.text), columns)
    if what == "filters":
        return len(other.of(one.of(rows))), frame.where(one.text).where(other.text).count()
    if what == "union":
        both = frame.where(one.text).unionAll(frame).unionAll(frame.where(other.text))
        return sorted(one.of(rows) + rows + other.of(rows)), collected(both, columns)
    if what == "join":
        left, right = frame.where(one.text).alias("l"), frame.where(other.text).alias("r")
        found = left.join(right, [columns[0]]).count()
        keys = [key for key, _ in other.of(rows)]
        return sum(keys.count(key) for key, _ in one.of(rows)), found
    if what == "view":
        frame.createOrReplaceTempView("one_state")
        query = f"SELECT count(*), sum({columns[1]}) FROM one_state WHERE {one.text}"
        wanted = one.of(rows)
        return (len(wanted), sum(v for _, v in wanted) if wanted else None), tuple(
            frame.sparkSession.sql(query).first()
        )
    kept = frame.where(one.text).cache()
    try:
        return one.of(rows), collected(kept, columns)
    finally:
        kept.unpersist()


# Those in which Spark does something else. A query costs what a hundred of the readers above cost.
WITH_SPARK = (
    "documents",
    "documents, own schema",
    "documents of a folder, own schema",
    "changes since a seq, own schema",
    "a view",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_SPARK)
def test_whatever_is_asked_of_a_data_frame_the_answers_are_of_one_state(
    spark, configured: Callable[..., AbstractContextManager[None]], writer, name
):
    """An inferred schema pins the state of `load()`, one of the user's that of the first query."""
    chance = Random(f"{SEED} {name}")
    route = ROUTES.get(name, ROUTES["documents"])
    options = route.options(writer)
    if name == "a view":
        words = ", ".join(f"{key} '{value}'" for key, value in options.items())
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW a_view USING reactdb OPTIONS ({words})")
        frame = spark.table("a_view")
    else:
        reader = spark.read.format("reactdb").options(**options)
        if route.is_given:
            reader = reader.schema(", ".join(f"{column} bigint" for column in route.columns))
        frame = reader.load()
    rows = None if route.is_given else route.holds(writer)

    # A filter in between is what Spark may make another reader for, and may keep for the next query.
    for kinds, pushes in (
        ((*WHOLE, *FILTERED), ("true", "false")),
        (FILTERED, ("true",)),
        (WHOLE, ("true", "false")),
    ):
        writer.go_on()
        rows = route.holds(writer) if rows is None else rows
        with configured(spark__sql__python__filterPushdown__enabled=chance.choice(pushes)):
            wanted, found = act(chance.choice(kinds), frame, route.columns, rows, chance)

        assert wanted == found
