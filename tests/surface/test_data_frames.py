"""Data frames: selections as tables of Arrow, pandas and polars, and frames that are inserted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

import reactdb
from reactdb import row
from reactdb.errors import (
    InvalidDocument,
    InvalidOption,
    MissingExtra,
    QueryError,
    SchemaMismatch,
    TypeMismatch,
)
from reactdb.values import codec

pa = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

from reactdb import data_frames  # noqa: E402
from reactdb.arrow.arrays import Misfit  # noqa: E402
from reactdb.arrow.inference import TypeInference  # noqa: E402
from reactdb.arrow.types import column_of, struct_of, values_of  # noqa: E402

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)
OTHER_ZONE = datetime(2026, 1, 2, 5, 4, 5, 600, tzinfo=timezone(timedelta(hours=2)))
TEXT_OF = UUID(int=7)


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        database.table_create("games")
        yield database


@pytest.fixture
def games(db: Any) -> Any:
    return db.table("games")


# ---------------------------------------------------------------------------------------------------------------
# To Arrow


@pytest.mark.parametrize(
    ("value", "type_", "shown"),
    [
        (1, "int64", 1),
        (2**63, "decimal128(38, 0)", Decimal(2**63)),
        (1.5, "double", 1.5),
        (True, "bool", True),
        ("a", "string", "a"),
        (b"a", "binary", b"a"),
        (TEXT_OF, "string", str(TEXT_OF)),
        (Decimal("1.50"), "decimal128(38, 18)", Decimal("1.50")),
        (OTHER_ZONE, "timestamp[us, tz=UTC]", MOMENT),
        (date(2026, 1, 2), "date32[day]", date(2026, 1, 2)),
        (time(3, 4), "time64[us]", time(3, 4)),
        (timedelta(hours=1), "duration[us]", timedelta(hours=1)),
        ([1, None], "list<item: int64>", [1, None]),
        ({"a": 1, "b": "x"}, "struct<a: int64, b: string>", {"a": 1, "b": "x"}),
        (10**40, "string", str(10**40)),
        (None, "string", None),
        ([], "list<item: string>", []),
        ({}, "string", "{}"),
    ],
)
def test_each_type_of_values_has_a_type_of_arrow(games, value, type_, shown):
    games.insert([{"id": 1, "value": value}, {"id": 2}])

    column = games.to_arrow().column("value")
    assert type_ == str(column.type)
    assert [shown, None] == column.to_pylist()


def test_a_field_with_values_of_several_types_is_text_and_names_the_types(games):
    games.insert([{"id": 1, "v": 1}, {"id": 2, "v": "a"}, {"id": 3, "v": [MOMENT]}, {"id": 4, "v": MOMENT}])

    table = games.to_arrow()
    assert ["1", "a", '["2026-01-02T03:04:05.000600Z"]', "2026-01-02T03:04:05.000600Z"] == [
        text.replace("+00:00", "Z") for text in table.column("v").to_pylist()
    ]
    assert {b"reactdb.conflict": b"datetime, int, list, str"}.items() <= table.schema.field(
        "v"
    ).metadata.items()


def test_integers_and_floats_together_are_floats_where_that_is_exact(games):
    games.insert([{"id": 1, "exact": 1, "big": 2**60 + 1}, {"id": 2, "exact": 0.5, "big": 0.5}])

    table = games.to_arrow()
    assert [1.0, 0.5] == table.column("exact").to_pylist()
    assert [str(2**60 + 1), "0.5"] == table.column("big").to_pylist()


def random_document(number: int, random: Random) -> dict[str, Any]:
    makers = [
        lambda: random.choice([1, 2**70, -5]),
        lambda: 0.5,
        lambda: "x",
        lambda: None,
        list,
        dict,
        lambda: [1],
        lambda: ["a"],
        lambda: {"a": random.choice([1, "b", None])},
        lambda: {"b": [[]]},
        lambda: Decimal("0.1"),
    ]
    document = {"id": number}
    for name in "uvwxyz":
        # Most fields of one seed have one type.
        if random.random() < 0.5:
            usual = makers[(ord(name) + number // 7) % len(makers)]
            document[name] = (usual if random.random() < 0.9 else random.choice(makers))()
    return document


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("names", [None, ["w", "id", "nowhere"]])
def test_the_result_is_as_if_all_documents_had_been_looked_at_first(monkeypatch, seed, names):
    """Whatever the first schema is, and however the parts are cut."""
    monkeypatch.setattr(data_frames, "PART", 3)
    monkeypatch.setattr(data_frames, "SAMPLE", 2)
    random = Random(seed)
    documents = [random_document(number, random) for number in range(random.choice([0, 1, 10, 60]))]
    bodies = [codec.encode(document) for document in documents]

    inference = TypeInference()
    inference.add(documents)
    fields = inference.fields()
    arrays = struct_of(fields).arrays(documents) if documents else []
    whole = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    for given, is_encoded in ((documents, False), (bodies, True)):
        made = data_frames.make_table(given, names, is_encoded=is_encoded)
        assert sorted(names or whole.column_names) == sorted(made.column_names)
        for name in made.column_names:
            if name not in whole.column_names:
                assert made.column(name).null_count == len(documents)
            else:
                assert without_order(whole.schema.field(name).type) == without_order(
                    made.schema.field(name).type
                )
                assert whole.column(name).to_pylist() == made.column(name).to_pylist()


def without_order(type_: Any) -> Any:
    """A type whose structs have their fields in order of the names."""
    if pa.types.is_struct(type_):
        return {field.name: without_order(field.type) for field in type_}
    return ["list", without_order(type_.value_type)] if pa.types.is_list(type_) else str(type_)


def test_fields_are_chosen_and_ordered(games):
    games.insert([{"id": 1, "a": 1, "b": 2}, {"id": 2, "b": 3}])

    assert {"b": [2, 3], "a": [1, None], "c": [None, None]} == games.to_arrow(
        fields=["b", "a", "c"]
    ).to_pydict()
    with pytest.raises(InvalidOption, match="fields is a list of names"):
        games.to_arrow(fields="a")
    with pytest.raises(InvalidOption, match="twice"):
        games.to_arrow(fields=["a", "a"])


def test_a_schema_is_kept_exactly(games):
    games.insert([{"id": 1, "a": 1, "b": {"x": 1, "y": 2}}, {"id": 2}])

    schema = pa.schema([("a", pa.int16()), ("b", pa.struct([("x", pa.float32())])), ("c", pa.date32())])
    assert schema == games.to_arrow(schema=schema).schema
    assert {"a": [1, None], "b": [{"x": 1.0}, None], "c": [None, None]} == games.to_arrow(
        schema=schema
    ).to_pydict()
    assert pa.schema([("a", pa.string())]) == games.to_arrow(schema={"a": "string"}).schema


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int8", 128),
        ("int64", True),
        ("int64", 1.0),
        ("float", 0.1),
        ("bool", 1),
        ("timestamp[ms, tz=UTC]", MOMENT),
        ("duration[s]", timedelta(microseconds=1)),
        ("binary", "a"),
    ],
)
def test_a_value_that_a_schema_would_change_is_refused(games, type_, value):
    games.insert([{"id": 1, "v": None}, {"id": 2, "v": value}])
    kind = {"timestamp[ms, tz=UTC]": pa.timestamp("ms", "UTC")}.get(type_, type_)

    with pytest.raises(
        SchemaMismatch, match=r"table 'games', document \{'id': 2.* does not fit the schema: v: "
    ):
        games.to_arrow(schema={"v": kind})


@pytest.mark.parametrize(
    "options",
    [
        {"schema": 5},
        {"schema": {"a": "no type"}},
        {"schema": {"a": "int8"}, "fields": ["a"]},
        {"fields": [1]},
    ],
)
def test_columns_that_are_no_columns_are_refused(games, options):
    with pytest.raises(InvalidOption, match=r"schema|fields"):
        games.to_arrow(**options)


@pytest.mark.parametrize(
    "type_", [pa.timestamp("us"), pa.large_list(pa.int8()), pa.map_(pa.int8(), pa.int8())]
)
def test_a_schema_with_a_type_without_values_is_refused(games, type_):
    with pytest.raises(InvalidOption, match=r"no value of a document|keys of a map"):
        games.to_arrow(schema={"a": type_})


def test_every_selection_has_its_rows(games):
    games.index_create("a")
    games.insert([{"id": number, "a": number % 3} for number in range(10)])

    def ids(selection: Any) -> list[int]:
        return selection.to_arrow().column("id").to_pylist()

    for selection in (
        games,
        games.filter(row["a"] == 1),
        games.between(2, 5),
        games.get_all(7, 3),
        games.get_all(1, index="a"),
        games.order_by(index="a"),
        games.order_by(reactdb.desc("id")).limit(2),
        games.order_by("id").skip(3),
        games.union(games.get_all(1)),
        games.between(0, 5).filter(row["a"] == 0),
    ):
        assert [document["id"] for document in selection.run()] == ids(selection)
    assert [3] == ids(games.get(3))
    assert [9] == ids(games.max("id"))
    assert 0 == games.get(99).to_arrow().num_rows
    assert {"value": [0, 1]} == games.order_by("id").map(row["id"]).limit(2).to_arrow().to_pydict()
    assert {"group": [0, 1, 2], "reduction": [4, 3, 3]} == games.group("a").count().to_arrow().to_pydict()
    with pytest.raises(QueryError, match="one value, 10: read it with run"):
        games.count().to_arrow()


def test_the_past_and_a_transaction_have_their_own_rows(db, games):
    games.insert({"id": 1})
    before = db.seq
    games.insert({"id": 2})

    with db.transaction() as transaction:
        transaction.table("games").insert({"id": 3})
        assert [1, 2, 3] == games.to_arrow().column("id").to_pylist()
    assert [1] == db.at(before).table("games").to_arrow().column("id").to_pylist()


def test_a_typed_table_has_the_fields_of_its_documents(db, games):
    @dataclass
    class Game:
        id: int
        score: int = 0

    games.insert([{"id": 1, "score": 5}, {"id": 2, "score": "much"}])

    with pytest.raises(TypeMismatch):
        db.table("games", Game).to_arrow()
    typed = db.table("games", Game, on_invalid="skip")
    assert [{"id": 1, "score": 5}] == typed.to_arrow().to_pylist()
    assert [{"id": 1, "score": 5}] == typed.filter(row["id"] == 1).to_arrow().to_pylist()


def test_without_the_packages_one_sentence_says_what_to_install(games, monkeypatch):
    monkeypatch.setattr(data_frames, "find_spec", lambda name: None if name == "pyarrow" else name)
    with pytest.raises(MissingExtra, match=r"to_arrow needs pyarrow: .*reactdb\[arrow\]"):
        games.to_arrow()

    monkeypatch.setattr(data_frames, "find_spec", lambda name: None if name in ("pandas", "polars") else name)
    with pytest.raises(MissingExtra, match=r"to_pandas needs pandas: .*reactdb\[pandas\]"):
        games.to_pandas()
    with pytest.raises(MissingExtra, match=r"to_polars needs polars: .*reactdb\[polars\]"):
        games.to_polars()


def test_nothing_of_spark_is_imported(games):
    games.insert({"id": 1})
    games.to_arrow()

    assert not [name for name in ("reactdb.data_frames", "reactdb.arrow.arrays") if uses_spark(name)]


def uses_spark(module: str) -> bool:
    return any(
        str(getattr(value, "__module__", "")).startswith("pyspark")
        for value in vars(sys.modules[module]).values()
    )


# ---------------------------------------------------------------------------------------------------------------
# To pandas and polars


def test_pandas_keeps_integers_and_booleans_with_nulls(games):
    games.insert([{"id": 1, "n": 2**62 + 1, "b": True, "at": MOMENT}, {"id": 2}])

    frame = games.to_pandas()
    assert ["id", "n", "b", "at"] == list(frame.columns)
    assert ["int64", "Int64", "boolean", "datetime64[us, UTC]"] == [str(one) for one in frame.dtypes]
    assert 2**62 + 1 == frame["n"][0]
    assert frame["n"].isna().tolist() == [False, True]
    assert [1, 2] == games.to_pandas(fields=["id"])["id"].tolist()


def test_pandas_keeps_integers_of_every_size_with_nulls(games):
    games.insert([{"id": 1, "n": 7}, {"id": 2}])

    for name in ("int8", "uint16", "int32", "uint64"):
        assert name == str(games.to_pandas(schema={"n": name})["n"].dtype).lower()


def test_pandas_keeps_integers_beside_nulls_inside_of_dicts_and_lists(db, games):
    """As floats, they would have 53 bits."""
    large = 2**60 + 1
    games.insert(
        [{"id": 1, "n": {"a": large, "l": [large, None]}, "m": [{"q": large}, {}]}, {"id": 2, "n": {}}]
    )

    frame = games.to_pandas()
    assert large == frame["n"][0]["a"]
    db.table_create("copies").insert(frame)
    copy = db.table("copies").get(1).run()
    assert {"a": large, "l": [large, None]} == copy["n"]
    assert large == copy["m"][0]["q"]
    assert {int} == {type(copy["n"]["a"]), type(copy["n"]["l"][0]), type(copy["m"][0]["q"])}


def test_polars_has_the_same_values(games):
    games.insert([{"id": 1, "n": {"a": [1]}, "d": Decimal("1.5"), "at": MOMENT}, {"id": 2}])

    frame = games.to_polars()
    assert games.to_arrow().to_pylist() == frame.to_dicts()


# ---------------------------------------------------------------------------------------------------------------
# The log


def test_changes_of_one_table_have_structs_of_one_type(db, games):
    games.insert({"id": 1, "a": 1})
    games.get(1).update({"b": "x"})
    games.get(1).delete()
    db.table_create("others").insert({"id": "k"})

    table = db.changes_to_arrow(table="games").read_all()
    assert ["seq", "table", "key", "op", "ts", "commit", "old", "new", "origin"] == table.column_names
    assert ["insert", "update", "delete"] == table.column("op").to_pylist()
    assert [1, 1, 1] == table.column("key").to_pylist()
    assert table.schema.field("old").type == table.schema.field("new").type
    assert [None, {"id": 1, "a": 1, "b": None}, {"id": 1, "a": 1, "b": "x"}] == table.column(
        "old"
    ).to_pylist()
    assert None is table.column("new").to_pylist()[2]


def test_changes_of_all_tables_have_documents_as_text(db, games):
    games.insert({"id": 1, "at": MOMENT})
    since = db.seq
    db.table_create("others").insert({"id": "k", "n": [1]})

    table = db.changes_to_arrow(since).read_all()
    assert ['{"id":"k","n":[1]}'] == [text for text in table.column("new").to_pylist() if text]
    assert [("table_create", None), ("insert", "k")] == list(
        zip(table.column("op").to_pylist(), table.column("key").to_pylist(), strict=True)
    )
    assert 0 == db.changes_to_arrow(db.seq).read_all().num_rows
    assert db.changes_to_arrow(until=since).read_all().num_rows == since


def test_batches_of_changes_have_one_schema(db, games, monkeypatch):
    """A type that the last change alone needs is that of the first batch, too."""
    monkeypatch.setattr(data_frames, "PAGE_ROWS", 10)
    games.insert([{"id": n, "score": n} for n in range(25)])
    games.insert({"id": "k", "score": 0.5, "more": {"a": 1}})

    batches = list(db.changes_to_arrow(table="games"))

    assert [10, 10, 6] == [batch.num_rows for batch in batches]
    assert 1 == len({str(batch.schema) for batch in batches})
    new = batches[0].schema.field("new").type
    assert ("double", "struct<a: int64>") == (str(new.field("score").type), str(new.field("more").type))
    assert "string" == str(batches[0].schema.field("key").type)


def test_changes_have_the_fields_of_a_given_schema(db, games):
    games.insert([{"id": 1, "score": 5, "name": "Ann"}, {"id": 2, "score": 0.5}])

    made = db.changes_to_arrow(table="games", until=db.seq - 1, schema={"score": "int32"}).read_all()
    assert [{"score": 5}] == [row for row in made.column("new").to_pylist() if row]
    with pytest.raises(SchemaMismatch, match=r"table 'games', seq \d+, key 2 does not fit the schema: score"):
        db.changes_to_arrow(table="games", schema={"score": "int32"}).read_all()
    with pytest.raises(InvalidOption, match="give table, too"):
        db.changes_to_arrow(schema={"score": "int32"})


def test_changes_of_an_open_set_of_fields_have_them_in_one(db, games):
    games.insert([{"id": n, f"k{n}": n} for n in range(500)])

    new = db.changes_to_arrow(table="games").read_all().column("new")
    assert ["id", "_other"] == [field.name for field in new.type]
    assert [("k7", 7)] == next(row for row in new.to_pylist() if row and row["id"] == 7)["_other"]


MEASURE = """
import sys, reactdb
with reactdb.connect(sys.argv[1], read_only=True) as db:
    size = sum(batch.num_rows for batch in db.changes_to_arrow(table="t"))
    print(size, next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="Linux tells the peak of a process's memory"
)
def test_changes_larger_than_the_memory_are_read_in_batches(tmp_path):
    """125 documents of 4 MB are 500 MB, and one batch has a few of them."""
    with reactdb.connect(tmp_path / "big.db", durability="soft") as big:
        table = big.table_create("t")
        for number in range(125):
            table.insert({"id": number, "text": chr(97 + number % 26) * 4_000_000})

    # Not in the development mode of Python, whose checks of memory take a minute.
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "big.db")]
    rows, peak_kb = map(int, subprocess.check_output(command, text=True).split())

    assert 125 == rows
    assert peak_kb < 300_000


def test_duckdb_polars_and_pandas_take_the_reader(db, games):
    games.insert([{"id": n, "score": n} for n in range(5)])
    since = db.seq - 5

    assert 5 == len(db.changes_to_arrow(since).read_pandas())
    assert 5 == polars.from_arrow(db.changes_to_arrow(since).read_all()).height
    duckdb = pytest.importorskip("duckdb")
    reader = db.changes_to_arrow(since, table="games")
    assert [(10,)] == duckdb.connect().from_arrow(reader).aggregate("sum(new.score)").fetchall()


def test_a_frame_is_of_a_seq_or_a_moment(db, games):
    games.insert({"id": 1})
    before = db.seq
    games.insert({"id": 2})

    assert [1] == games.to_arrow(at=before).column("id").to_pylist()
    assert [1, 2] == games.to_arrow(at=datetime.now(UTC) + timedelta(days=1)).column("id").to_pylist()
    assert [1] == games.to_pandas(at=before)["id"].tolist() == games.to_polars(at=before)["id"].to_list()
    assert [] == games.filter(row["id"] == 2).to_arrow(at=before).to_pylist()
    with pytest.raises(InvalidOption, match="in the future"):
        games.to_arrow(at=db.seq + 1)
    with pytest.raises(InvalidOption, match="in the future of the state as of seq"):
        db.at(before).table("games").to_arrow(at=before + 1)
    with pytest.raises(InvalidOption, match="whole number from 0, or a datetime"):
        games.to_arrow(at="yesterday")


# ---------------------------------------------------------------------------------------------------------------
# Frames that are inserted

ROWS = [
    {"id": 1, "n": 5, "f": 0.5, "s": "a", "at": MOMENT, "d": Decimal("1.5"), "l": [1, 2], "o": {"a": 1}},
    {"id": 2, "day": date(2026, 1, 2), "clock": time(3, 4), "span": timedelta(1), "b": b"x", "t": True},
]


@pytest.mark.parametrize("make", [lambda games: games.to_arrow(), lambda games: games.to_polars()])
def test_a_frame_of_a_table_makes_the_same_documents(db, games, make):
    games.insert(ROWS)

    made = db.table_create("copies").insert(make(games))
    assert 2 == made["inserted"]
    assert games.order_by("id").run() == db.table("copies").order_by("id").run()


def test_a_frame_of_pandas_makes_the_same_documents(db, games):
    games.insert(ROWS)

    db.table_create("copies").insert_many(games.to_pandas())
    assert ROWS == db.table("copies").order_by("id").run()


def test_missing_values_of_pandas_leave_the_field_out(games):
    frame = pandas.DataFrame(
        {
            "id": [1, 2, 3],
            "f": [0.5, float("nan"), 1.5],
            "n": pandas.array([1, None, 3], dtype="Int64"),
            "at": pandas.to_datetime(["2026-01-02T03:04:05.0006Z", None, None], utc=True),
            "o": [{"a": float("nan"), "b": [None]}, None, pandas.NA],
            "c": pandas.Categorical(["x", None, "y"]),
        },
        index=["p", "q", "r"],
    )

    games.insert(frame)

    assert [
        {"id": 1, "f": 0.5, "n": 1, "at": MOMENT, "o": {"a": None, "b": [None]}, "c": "x"},
        {"id": 2},
        {"id": 3, "f": 1.5, "n": 3, "c": "y"},
    ] == games.order_by("id").run()


def test_a_nan_of_arrow_and_polars_is_a_value(games):
    games.insert(polars.DataFrame({"id": [1, 2], "f": [float("nan"), None]}))

    first, second = games.order_by("id").run()
    assert first["f"] != first["f"]
    assert {"id": 2} == second


def test_a_frame_without_keys_gets_generated_ones(games):
    made = games.insert(pa.table({"a": [1, 2]}))

    assert 2 == len(made["generated_keys"])
    assert {1, 2} == {document["a"] for document in games.run()}


def test_a_frame_takes_the_options_of_insert(games):
    games.insert({"id": 1, "a": 1, "b": 1})

    games.insert(pa.table({"id": [1], "a": [2]}), conflict="update")
    assert [{"id": 1, "a": 2, "b": 1}] == games.run()
    games.upsert(pa.RecordBatch.from_pydict({"id": [1], "b": [3]}))
    assert [{"id": 1, "a": 2, "b": 3}] == games.run()
    games.insert(polars.LazyFrame({"id": [2]}))
    assert 2 == games.count().run()


def test_a_frame_passes_through_the_encode_function():
    with reactdb.connect(":memory:", encode=str) as db:
        db.table_create("games").insert(pandas.DataFrame({"id": [1], "path": [Path("a.db")]}))

        assert [{"id": 1, "path": "a.db"}] == db.table("games").run()


def test_a_typed_table_takes_a_frame_and_checks_its_rows(db, games):
    @dataclass
    class Game:
        id: int
        score: int

    typed = db.table("games", Game)
    typed.insert(pa.table({"id": [1], "score": [5]}))
    assert [Game(1, 5)] == typed.run()
    with pytest.raises(TypeMismatch):
        typed.insert(pa.table({"id": [2], "score": ["much"]}))


@pytest.mark.parametrize(
    ("frame", "error", "words"),
    [
        (pandas.DataFrame({1: [1]}), InvalidOption, "a column of the frame is named 1"),
        (
            pandas.DataFrame({"at": pandas.to_datetime(["2026-01-02"])}),
            InvalidOption,
            "column at has times without a time zone",
        ),
        (
            pa.table({"at": pa.array([1], pa.timestamp("ns", "UTC"))}),
            InvalidDocument,
            "column at has times with nanoseconds",
        ),
        (pa.table({"s": pa.array([1], pa.duration("ns"))}), InvalidDocument, "nanoseconds"),
        (pa.table([[1], [2]], names=["a", "a"]), InvalidOption, "two fields called 'a'"),
        (
            pa.table({"m": pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8()))}),
            InvalidOption,
            "a map with keys of type int8",
        ),
        (
            pa.table({"m": pa.array([None], pa.month_day_nano_interval())}),
            InvalidOption,
            "documents have no such values",
        ),
    ],
)
def test_a_frame_that_makes_no_documents_is_refused(games, frame, error, words):
    with pytest.raises(error, match=words):
        games.insert(frame)

    assert [] == games.run()


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array(["a", None]).dictionary_encode(), ["a", None]),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None]),
        (pa.array([[1], None, [2, 3]], pa.large_list(pa.int8())), [[1], None, [2, 3]]),
        (pa.array([{"a": 1}, {"b": 2}, None]), [{"a": 1}, {"b": 2}, None]),
        (pa.array([1.5, None], pa.float32()).cast(pa.float16()), [1.5, None]),
        (pa.array([10**9], pa.time64("ns")), [time(0, 0, 1)]),
        (pa.array([1], pa.duration("s")), [timedelta(seconds=1)]),
        (pa.array([1], pa.timestamp("s", "Europe/Berlin")), [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]),
    ],
)
def test_arrays_become_values_of_documents(array, values):
    assert values == values_of(array.type, "a")(array)


def test_a_map_becomes_a_dict():
    array = pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int8()))

    assert [{"a": 1, "b": None}, None, {}] == values_of(array.type, "m")(array)
    assert [[("b", 2)]] == column_of(array.type).convert([{"b": 2}]).to_pylist()


def test_moments_in_a_schema_of_seconds_are_taken_where_they_are_whole(games):
    column = column_of(pa.timestamp("s", "UTC"))

    assert [MOMENT.replace(microsecond=0), None] == column.convert(
        [MOMENT.replace(microsecond=0), None]
    ).to_pylist()
    with pytest.raises(Misfit):
        column.convert([MOMENT])


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash", "a\nb", ""])
def test_fields_may_have_any_name(db, name):
    table = db.table_create("names")
    table.insert({"id": 1, name: 2})

    assert [{"id": 1, name: 2}] == table.to_arrow().to_pylist()
    assert [{name: 2}] == table.to_arrow(fields=[name]).to_pylist()
