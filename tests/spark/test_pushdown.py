"""Filters that make a read smaller: no row is ever lost, and fewer are read."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scaling import examples

import reactdb
from reactdb import row

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql import datasource as ds
from pyspark.sql import types as t

from reactdb.spark.source import ReactdbSource

UUIDS = [
    UUID(int=0),
    UUID("0193d3a1-7c3e-7000-9d0c-4c1f7f8d1b2a"),
    UUID("ffffffff-ffff-4fff-8fff-ffffffffffff"),
]
# In an order in which UTF-8 and UTF-16 differ, with a zero inside, and with what begins another.
TEXTS = [
    "",
    "a",
    "a\0",
    "a\0b",
    "ab",
    "b",
    "Zoë",
    "z",
    "é",
    "\uffee",
    "𐀀",
    "😀",
    "😀😀",
    "1",
    "nan",
    "true",
    "0193",
    "f",
]
TEXTS += [str(UUIDS[1]), str(UUIDS[1]).upper(), "12:00:00", "12:00"]
NUMBERS: list[Any] = [
    0,
    -0.0,
    0.0,
    1,
    1.0,
    -1,
    1.5,
    2**53,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**70,
    -(2**70),
    1e300,
]
NUMBERS += [
    nan,
    inf,
    -inf,
    Decimal("0.1"),
    Decimal("1"),
    Decimal("-1E-18"),
    Decimal("12345678901234567890.5"),
]
OTHERS: list[Any] = [True, False, b"", b"a", b"\xff", date(2026, 1, 31), time(12), time(12, 0, 0, 1), *UUIDS]
OTHERS += [datetime(2026, 1, 31, tzinfo=UTC), [], ["a"], {}, {"b": "a"}, None]
VALUES = [*TEXTS, *NUMBERS, *OTHERS]
KEYS = [
    each
    for each in VALUES
    if each is not None and not isinstance(each, dict) and repr(each) not in ("nan", "inf", "-inf")
]
TYPES = [
    "string",
    "bigint",
    "int",
    "double",
    "float",
    "decimal(38,18)",
    "boolean",
    "binary",
    "date",
    "timestamp",
]
LITERALS: dict[str, list[Any]] = {
    "string": [*TEXTS, "c", "😁", "\U0010ffff", "0193d3a1-7", "0193d3a1-7C", "12"],
    "bigint": [0, 1, -1, 5, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "int": [0, 1, -1, 5, 2**31 - 1],
    "double": [0.0, -0.0, 1.0, 1.5, -1e300, 9007199254740993.0, nan, inf, -inf],
    "float": [0.0, -0.0, 1.5, inf],
    "decimal(38,18)": [Decimal(0), Decimal("0.1"), Decimal(1), Decimal("-1E-18")],
    "boolean": [True, False],
    "binary": [b"", b"a", b"b", b"\xff"],
    "date": [date(2026, 1, 31), date(1970, 1, 1)],
    "timestamp": [datetime(2026, 1, 31, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)],
}
SIMPLE: dict[str, t.DataType] = {
    "string": t.StringType(),
    "bigint": t.LongType(),
    "int": t.IntegerType(),
    "double": t.DoubleType(),
    "float": t.FloatType(),
    "decimal(38,18)": t.DecimalType(38, 18),
    "boolean": t.BooleanType(),
    "binary": t.BinaryType(),
    "date": t.DateType(),
    "timestamp": t.TimestampType(),
}
COMPARISONS: list[Any] = [ds.EqualTo, ds.GreaterThan, ds.GreaterThanOrEqual, ds.LessThan, ds.LessThanOrEqual]


def struct_of(text: str) -> t.StructType:
    """What `StructType.fromDDL` makes of it, without asking Spark: `id string, a struct<b:bigint>`."""
    found = t.StructType()
    for name, type_ in re.findall(r"(\w+)[ :](struct<.*>|decimal\(38,18\)|\w+)", text):
        found.add(name, struct_of(type_[7:-1]) if type_.startswith("struct<") else SIMPLE[type_])
    return found


def make(path: Path, documents: Sequence[tuple[Any, Any, Any]], later: Sequence[tuple[Any, Any, Any]]) -> int:
    """Documents of (key, `n`, `a.b`), of which some are replaced or deleted afterwards. Returns the seq before that."""
    with reactdb.connect(path, durability="soft") as db:
        table = db.table_create("games")
        table.index_create("n")
        table.index_create("deep", row["a"]["b"])
        for documents_, is_first in ((documents, True), (later, False)):
            for key, n, b in documents_:
                a: Any = b if b == "none" else {"b": b}
                if n == "delete":
                    table.get(key).delete()
                else:
                    table.insert({"id": key, "n": n, "a": a}, conflict="replace")
            if is_first:
                seq = db.seq
        return seq


def rows(
    path: Path, schema: str, filters: Sequence[ds.Filter], **options: str
) -> tuple[list[dict[str, Any]], int]:
    """(the rows that pass, read with the filters pushed; how many were read)."""
    source = ReactdbSource({"path": str(path), "mode": "PERMISSIVE", "pushdown": "true", **options})
    reader = source.reader(struct_of(schema))
    rest = list(reader.pushFilters(list(filters)))
    found = [
        each for split in reader.partitions() for batch in reader.read(split) for each in batch.to_pylist()
    ]
    return [each for each in found if all(passes(each, one) for one in rest)], len(found)


def passes(found: dict[str, Any], one: Any) -> bool:
    """What Spark says of a row. Nulls pass nothing; NaN is itself and above all; strings are their UTF-8."""
    value: Any = found
    for name in one.attribute:
        value = None if value is None else value[name]
    if value is None:
        return False
    if isinstance(one, ds.StringStartsWith):
        return bool(value.startswith(one.value))
    if isinstance(one, ds.In):
        return any(sortable(value) == sortable(each) for each in one.value)
    left, right = sortable(value), sortable(one.value)
    return {
        ds.EqualTo: left == right,
        ds.GreaterThan: left > right,
        ds.GreaterThanOrEqual: left >= right,
        ds.LessThan: left < right,
        ds.LessThanOrEqual: left <= right,
    }[type(one)]


def sortable(value: Any) -> Any:
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    return value.encode() if isinstance(value, str) else value


def some_filters(chance: Random, attributes: dict[tuple[str, ...], str]) -> list[Any]:
    """One to three of them, of which all must hold."""
    found: list[Any] = []
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        attribute = chance.choice(sorted(attributes))
        literals = LITERALS[attributes[attribute]]
        kind = chance.choice([*COMPARISONS, ds.In, ds.StringStartsWith])
        if kind is ds.In:
            found.append(ds.In(attribute, tuple(chance.choices(literals, k=chance.randint(1, 4)))))
        elif kind is not ds.StringStartsWith or attributes[attribute] == "string":
            found.append(kind(attribute, chance.choice(literals)))
    return found


def some_documents(chance: Random, most: int) -> list[tuple[Any, Any, Any]]:
    return [
        (chance.choice(KEYS), chance.choice(VALUES), chance.choice([*VALUES, "none"]))
        for _ in range(chance.randint(0, most))
    ]


def some_later(chance: Random) -> list[tuple[Any, Any, Any]]:
    return [
        (chance.choice(KEYS), chance.choice([*VALUES, *["delete"] * 20]), chance.choice(VALUES))
        for _ in range(chance.randint(0, 8))
    ]


def identity(found: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, found))


# One number, from which all the rest follows: a file takes longer to make than a hundred questions to it.
SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(deadline=None, max_examples=examples(30))
def test_pushing_filters_down_loses_no_document(seed):
    """Whatever is stored, and whatever the schema says of it: the same rows as when everything is read."""
    chance = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        seq = make(path, some_documents(chance, 60), some_later(chance))
        for _ in range(4):
            types = [chance.choice(["string", *SIMPLE]) for _ in range(3)]
            schema = f"id {types[0]}, n {types[1]}, a struct<b:{types[2]}>"
            options = {"table": "games", "strictFields": chance.choice(["true", "false"])}
            if chance.random() < 0.5:
                options["asOf"] = str(seq)
            everything, _ = rows(path, schema, [], **options)
            for _ in range(10):
                filters = some_filters(chance, {("id",): types[0], ("n",): types[1], ("a", "b"): types[2]})
                wanted = [each for each in everything if all(passes(each, one) for one in filters)]

                found, _ = rows(path, schema, filters, **options)

                assert identity(wanted) == identity(found), filters


@given(SEEDS)
@settings(deadline=None, max_examples=examples(30))
def test_pushing_filters_down_loses_no_change_of_a_key(seed):
    chance = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        make(path, some_documents(chance, 40), some_later(chance))
        for _ in range(4):
            type_ = chance.choice(["string", *SIMPLE])
            schema = f"seq bigint, key {type_}"
            everything, _ = rows(path, schema, [], read="changes")
            for _ in range(10):
                filters = some_filters(chance, {("key",): type_})
                wanted = [each for each in everything if all(passes(each, one) for one in filters)]

                found, _ = rows(path, schema, filters, read="changes")

                assert identity(wanted) == identity(found), filters


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 documents with keys and fields of text, each of which was changed once."""
    file = tmp_path_factory.mktemp("pushdown") / "a.db"
    with reactdb.connect(file, durability="soft") as db:
        table = db.table_create("games")
        table.index_create("city", row["address"]["city"])
        table.index_create("price")
        for turn in range(2):
            table.insert(
                [
                    {
                        "id": f"k{number:03}",
                        "price": Decimal(number).scaleb(-2),
                        "address": {"city": f"city {number % 50:02}", "turn": turn},
                    }
                    for number in range(1000)
                ],
                conflict="replace",
            )
    return file


SCHEMA = "id string, price decimal(38,18), address struct<city:string,turn:bigint>"


@pytest.mark.parametrize(
    ("filters", "is_read", "count"),
    [
        ([ds.StringStartsWith(("id",), "k99")], 10, 10),
        ([ds.GreaterThanOrEqual(("id",), "k990"), ds.LessThan(("id",), "k995")], 6, 5),
        ([ds.GreaterThan(("id",), "k9999")], 0, 0),
        ([ds.EqualTo(("address", "city"), "city 07")], 20, 20),
        ([ds.StringStartsWith(("address", "city"), "city 0")], 200, 200),
        (
            [
                ds.GreaterThanOrEqual(("address", "city"), "city 10"),
                ds.LessThan(("address", "city"), "city 11"),
            ],
            40,
            20,
        ),
        ([ds.GreaterThan(("price",), Decimal("9.97"))], 3, 2),
        ([ds.EqualTo(("address", "turn"), 1)], 1000, 1000),
        ([ds.StringEndsWith(("id",), "9")], 1000, None),
    ],
)
@pytest.mark.parametrize("strict", ["true", "false"])
def test_text_ranges_prefixes_and_fields_inside_of_others_read_less(path, filters, is_read, count, strict):
    if count is None:
        source = ReactdbSource({"path": str(path), "table": "games", "pushdown": "true"})
        assert filters == list(source.reader(struct_of(SCHEMA)).pushFilters(filters))
        return
    found, read = rows(path, SCHEMA, filters, table="games", strictFields=strict)

    assert (is_read, count) == (read, len(found))


@pytest.mark.parametrize(
    ("filters", "is_read", "count"),
    [
        ([ds.StringStartsWith(("key",), "k99")], 20, 20),
        ([ds.GreaterThanOrEqual(("key",), "k990"), ds.LessThan(("key",), "k995")], 12, 10),
        ([ds.EqualTo(("key",), "k5")], 0, 0),
        ([ds.In(("key",), ("k005", "k006"))], 4, 4),
    ],
)
def test_text_ranges_and_prefixes_of_keys_read_fewer_changes(path, filters, is_read, count):
    found, read = rows(path, "seq bigint, key string", filters, read="changes")

    assert (is_read, count) == (read, len(found))


def test_whole_documents_are_looked_up_by_their_key_column(path):
    found, read = rows(
        path, "key string, document string", [ds.StringStartsWith(("key",), "k99")], document="json"
    )

    assert (10, 10) == (read, len(found))


def test_a_prefix_of_uuids_reads_only_those(tmp_path):
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        db.table_create("games").insert([{"id": UUID(int=number << 96)} for number in range(256)])
    begin = str(UUID(int=0x8F << 96))[:7]

    found, read = rows(
        tmp_path / "a.db", "id string", [ds.StringStartsWith(("id",), begin)], strictFields="true"
    )

    assert (16, 16) == (read, len(found))


# ---------------------------------------------------------------------------------------------------------------
# Files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("fleet")
    for name in ("a", "b", "é"):
        with reactdb.connect(found / f"{name}.db", durability="soft") as db:
            db.table_create("games").insert([{"id": number} for number in range(10)])
    return found


@pytest.mark.parametrize("read", ["documents", "changes"])
@pytest.mark.parametrize(
    ("make_filter", "files"),
    [
        (lambda f: ds.EqualTo(("_source",), f"{f}/a.db"), ["a"]),
        (lambda f: ds.In(("_source",), (f"{f}/a.db", f"{f}/é.db", "x")), ["a", "é"]),
        (lambda f: ds.Not(ds.EqualTo(("_source",), f"{f}/a.db")), ["b", "é"]),
        (lambda f: ds.GreaterThan(("_source",), f"{f}/a.db"), ["b", "é"]),
        (lambda f: ds.LessThanOrEqual(("_source",), f"{f}/a.db"), ["a"]),
        (lambda f: ds.StringEndsWith(("_source",), "/b.db"), ["b"]),
        (lambda f: ds.StringContains(("_source",), "é"), ["é"]),
        (lambda f: ds.StringStartsWith(("_source",), "/nowhere"), []),
        (lambda f: ds.IsNull(("_source",)), []),
        (lambda f: ds.IsNotNull(("_source",)), ["a", "b", "é"]),
    ],
)
def test_a_filter_on_the_file_takes_whole_files_out_of_the_plan(folder, read, make_filter, files):
    options = {"path": str(folder), "read": read, "partitionBytes": "1k", "pushdown": "true"}
    reader = ReactdbSource(options).reader(struct_of("_source string"))

    assert [] == list(reader.pushFilters([make_filter(folder)]))

    slices = [part for split in reader.partitions() for part in split.slices]  # type: ignore[attr-defined]
    assert {str(folder / f"{name}.db") for name in files} == {part.path for part in slices}


@pytest.mark.parametrize(
    "given",
    [ds.EqualTo(("_source",), None), ds.Not(ds.In(("_source",), ("a", None))), ds.EqualTo(("other",), "a")],
)
def test_a_filter_on_the_file_that_is_not_understood_is_left_to_spark(folder, given):
    reader = ReactdbSource({"path": str(folder), "pushdown": "true"}).reader(
        struct_of("_source string, other string")
    )

    assert [given] == list(reader.pushFilters([given]))
    assert 3 == len([part for split in reader.partitions() for part in split.slices])  # type: ignore[attr-defined]


def test_a_column_of_files_with_a_collation_is_left_to_spark(folder):
    schema = t.StructType([t.StructField("_source", t.StringType("UTF8_LCASE"))])
    reader = ReactdbSource({"path": str(folder), "pushdown": "true"}).reader(schema)
    given = ds.EqualTo(("_source",), f"{folder}/A.DB")

    assert [given] == list(reader.pushFilters([given]))


# ---------------------------------------------------------------------------------------------------------------
# With Spark


def sql(one: Any) -> str:
    """The filter as Spark's SQL says it."""
    name = ".".join(f"`{part}`" for part in one.attribute)
    if isinstance(one, ds.StringStartsWith):
        return f"startswith({name}, {literal(one.value)})"
    if isinstance(one, ds.In):
        return f"{name} IN ({', '.join(map(literal, one.value))})"
    word = {
        ds.EqualTo: "=",
        ds.GreaterThan: ">",
        ds.GreaterThanOrEqual: ">=",
        ds.LessThan: "<",
        ds.LessThanOrEqual: "<=",
    }[type(one)]
    return f"{name} {word} {literal(one.value)}"


def literal(value: Any) -> str:
    if isinstance(value, str):
        return f"decode(unhex('{value.encode().hex()}'), 'UTF-8')"
    if isinstance(value, float):
        return f"double('{value}')"
    if isinstance(value, Decimal):
        return f"cast('{value:f}' AS decimal(38,18))"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return f"timestamp'{value:%Y-%m-%d %H:%M:%S}Z'"
    if isinstance(value, date):
        return f"date'{value}'"
    return f"{value}" if value != -(2**63) else "(-9223372036854775807 - 1)"


def counted(frame: Any) -> tuple[list[Any], int]:
    """(the rows, how many of them the scan has read): Spark's own metric of the scan."""
    found = frame.collect()

    def leaves(plan: Any) -> Iterator[Any]:
        if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
            plan = plan.executedPlan()
        children = plan.children()
        if not children.size():
            yield plan
        for place in range(children.size()):
            yield from leaves(children.apply(place))

    return found, sum(
        leaf.metrics().apply("numOutputRows").value()
        for leaf in leaves(frame._jdf.queryExecution().executedPlan())
    )


FIELDS = {("id",): "string", ("n",): "double", ("a", "b"): "string"}


@given(SEEDS, st.sampled_from(["true", "false"]))
@settings(
    max_examples=examples(3), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
def test_spark_answers_the_same_with_and_without_pushing_down(spark, seed, strict):
    chance = Random(seed)
    documents = some_documents(chance, 100)
    texts = [" AND ".join(map(sql, some_filters(chance, FIELDS))) or "true" for _ in range(5)]
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "a.db")
        make(Path(file), documents, [])
        reader = spark.read.format("reactdb").schema("id string, n double, a struct<b:string>")
        reader = reader.options(table="games", mode="PERMISSIVE", strictFields=strict)
        row_text = "to_json(struct(*)) AS text"

        asked = reader.load(file).selectExpr(row_text, *(f"{text} AS f{n}" for n, text in enumerate(texts)))
        wanted = [(n, each.text) for each in asked.collect() for n in range(len(texts)) if each[f"f{n}"]]
        pushed: Any = None
        for n, text in enumerate(texts):
            # Of each its own, because Spark keeps what came of a filter.
            part = reader.option("pushdown", "true").load(file).where(text).selectExpr(f"{n} AS n", row_text)
            pushed = part if pushed is None else pushed.unionAll(part)

        assert sorted(wanted) == sorted((each.n, each.text) for each in pushed.collect())


def test_spark_reads_fewer_rows(spark, path):
    documents = spark.read.format("reactdb").schema(SCHEMA).options(table="games", pushdown="true")
    changes = spark.read.format("reactdb").schema("seq bigint, key string")
    changes = changes.options(read="changes", pushdown="true")

    read = {}
    for reader, text in (
        (documents, "address.turn = 1"),
        (documents, "id LIKE 'k99%'"),
        (documents, "address.city = 'city 07'"),
        (documents, "address.city >= 'city 48' AND address.turn = 1"),
        (changes, "key LIKE 'k99%' AND seq > 1000"),
    ):
        found, count = counted(reader.load(str(path)).where(text))
        read[text] = (len(found), count)

    assert {
        "address.turn = 1": (1000, 1000),
        "id LIKE 'k99%'": (10, 10),
        "address.city = 'city 07'": (20, 20),
        "address.city >= 'city 48' AND address.turn = 1": (40, 40),
        "key LIKE 'k99%' AND seq > 1000": (10, 10),
    } == read


def test_a_filter_takes_no_rows_from_what_else_is_read_of_the_same_data_frame(spark, path):
    """Spark keeps what came of a filter with the DataFrame, so unless it is asked for none is taken."""
    frame = spark.read.format("reactdb").schema(SCHEMA).option("table", "games").load(str(path))

    assert 10 == frame.where("id LIKE 'k99%'").count()
    assert 1000 == frame.count()
    assert 11 == frame.where("id LIKE 'k99%'").union(frame.where("id = 'k000'")).count()
