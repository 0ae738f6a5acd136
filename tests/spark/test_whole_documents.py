"""Writing whole documents: JSON text, VARIANT and stored bytes, each refused if it is not a document."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any
from uuid import UUID

import msgpack
import pytest

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from pyspark.sql import types as t  # noqa: E402

import reactdb  # noqa: E402
from reactdb.arrow.variant import variant_of  # noqa: E402
from reactdb.errors import DuplicateKey, InvalidDocument, InvalidKey, InvalidOption  # noqa: E402
from reactdb.spark.row_documents import WholeDocuments, json_value  # noqa: E402
from reactdb.spark.source import ReactdbSource  # noqa: E402
from reactdb.spark.write import BatchWriter  # noqa: E402
from reactdb.values import codec  # noqa: E402
from tests.support.inspection import documents as games  # noqa: E402

TYPES: dict[str, t.DataType] = {"json": t.StringType(), "variant": t.VariantType(), "binary": t.BinaryType()}
ID = UUID("0193d3a1-7c3e-7000-9d0c-4c1f7f8d1b2a")
EVERYTHING: dict[str, Any] = {
    "id": ID,
    "none": None,
    "float": [0.0, -0.0, 1.0, nan, inf],
    "int": [0, -1, 2**63, -(2**200)],
    "decimal": [Decimal("1.10"), Decimal("-0"), Decimal("1E+20")],
    "when": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "day": date(2026, 1, 31),
    "clock": time(12, 0, 0, 1),
    "span": timedelta(days=-1, microseconds=1),
    "bytes": b"\0\xff",
    "text": "zürich \0 😀",
    "nested": {"b": [{}, [], None], "a": {"": 1}},
}


def batch_of(form: str, values: list[Any], **more: list[Any]) -> Any:
    if form == "variant":
        pairs = [None if value is None else variant_of(value) for value in values]
        column = pa.array(
            [None if pair is None else {"value": pair[0], "metadata": pair[1]} for pair in pairs],
            pa.struct([("value", pa.binary()), ("metadata", pa.binary())]),
        )
    else:
        column = pa.array(values, pa.string() if form == "json" else pa.binary())
    return pa.RecordBatch.from_arrays(
        [column, *(pa.array(each) for each in more.values())], names=["document", *more]
    )


def schema_of(form: str, **more: t.DataType) -> t.StructType:
    fields = [t.StructField("document", TYPES[form])]
    return t.StructType([*fields, *(t.StructField(name, type_) for name, type_ in more.items())])


def made(form: str, values: list[Any]) -> list[dict[str, Any]]:
    return WholeDocuments(schema_of(form), form).documents(batch_of(form, values))


def write(path: Path, form: str, values: list[Any], *, overwrite: bool = False, **options: Any) -> None:
    given = {"path": str(path), "table": "games", "document": form} | options
    more: dict[str, list[Any]] = {}
    types: dict[str, t.DataType] = {}
    if "deleteField" in options:
        more = {"gone": [value is None for value in values]}
        types = {"gone": t.BooleanType()}
        values = ['{"id": 1}' if value is None else value for value in values]
    job = BatchWriter(given, schema_of(form, **types), overwrite)
    job.commit([job.write(iter([batch_of(form, values, **more)]))])


# ---------------------------------------------------------------------------------------------------------------


def test_json_text_is_the_document_with_its_nulls():
    text = '{"id": 1, "none": null, "list": [1, 1.5, true, "x", {"b": 1, "a": 2}], "big": 123456789012345678901234567890}'

    (found,) = made("json", [text])

    assert json.loads(text) == found
    assert ["b", "a"] == list(found["list"][-1])


def test_a_variant_is_the_document_with_its_types():
    document = {"id": 1, "none": None, "day": date(2026, 1, 31), "price": Decimal("1.10"), "bytes": b"\0"}

    assert [document] == made("variant", [document])


def test_bytes_come_out_as_they_were():
    data = codec.encode(EVERYTHING)

    assert [data] == [codec.encode(document) for document in made("binary", [data])]


@given(
    st.lists(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=8,
        )
    )
)
def test_json_that_python_writes_is_read_as_it_was(value):
    assert repr(value) == repr(json_value(json.dumps(value)))


@pytest.mark.parametrize(
    ("form", "value", "words"),
    [
        ("json", "{'id': 1}", "column document: \"{'id': 1}\" is not JSON: Expecting property name"),
        ("json", '{"id": 1} x', "is not JSON: Extra data"),
        ("json", "", "is not JSON"),
        ("json", "[1]", "column document: a document is an object, not '[1]'"),
        ("json", "null", "a document is an object, not 'null'"),
        ("json", '{"id": 1, "id": 2}', "is not JSON: the name 'id' occurs twice"),
        ("json", '{"id": 1, "a": [{"b": 1, "b": 1}]}', "is not JSON: the name 'b' occurs twice"),
        ("json", '{"id": NaN}', "is not JSON: NaN is not JSON"),
        ("json", '{"id": 1e999}', "is not JSON: 1e999 is beyond the range of a float"),
        ("json", '{"id": ' + "[" * 100_000, "is not JSON: nested too deep"),
        ("json", None, "column document: a row has null where a document should be"),
        ("variant", [1], "a document is an object, not [1]"),
        ("variant", 7, "a document is an object, not 7"),
        ("variant", None, "a row has null where a document should be"),
        ("binary", b"\xff\xff", "is not the bytes of a document"),
        ("binary", b"", "is not the bytes of a document"),
        ("binary", b"{}", "is not the bytes of a document"),
        ("binary", msgpack.packb([1]), "is not the bytes of a document"),
        ("binary", msgpack.packb({1: 2}), "is not the bytes of a document"),
        ("binary", codec.encode({"id": 1}) + b"\0", "is not the bytes of a document"),
        ("binary", None, "a row has null where a document should be"),
    ],
)
def test_what_is_no_document_is_refused_in_one_sentence(form, value, words):
    with pytest.raises(InvalidDocument) as caught:
        made(form, [value])

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_variant_of_broken_bytes_is_refused():
    broken = {"value": b"\x02\x01", "metadata": b"\x01"}
    batch = pa.RecordBatch.from_arrays(
        [pa.array([broken], pa.struct([("value", pa.binary()), ("metadata", pa.binary())]))],
        names=["document"],
    )

    with pytest.raises(InvalidDocument, match="is not a VARIANT that can be read"):
        WholeDocuments(schema_of("variant"), "variant").documents(batch)


def test_bytes_of_another_writer_are_stored_in_our_spelling():
    """A length in more bytes than it needs is the same document, and is stored as everybody stores it."""
    foreign = b"\x81\xd9\x02id\xcd\x00\x01"

    assert [codec.encode({"id": 1})] == [codec.encode(document) for document in made("binary", [foreign])]


def test_a_document_that_could_not_be_stored_is_refused(tmp_path):
    with pytest.raises(InvalidDocument, match="lone surrogate"):
        write(tmp_path / "a.db", "json", ['{"id": 1, "text": "\\ud800"}'])


@pytest.mark.parametrize(
    ("form", "value"), [("json", '{"n": 1}'), ("json", '{"id": null}'), ("binary", codec.encode({"n": 1}))]
)
def test_a_document_without_its_key_is_refused(tmp_path, form, value):
    with pytest.raises(InvalidKey, match="a document has nothing in 'id', the primary key of table 'games'"):
        write(tmp_path / "a.db", form, [value])


def test_documents_are_appended_put_in_place_and_overwritten(tmp_path):
    path = tmp_path / "a.db"
    write(path, "json", ['{"id": 1, "n": 1}', '{"id": 2, "n": 2}'])
    with pytest.raises(DuplicateKey):
        write(path, "json", ['{"id": 3}', '{"id": 1}'])

    write(path, "json", ['{"id": 2, "m": null}', '{"id": 3}'], conflict="replace")
    assert [{"id": 1, "n": 1}, {"id": 2, "m": None}, {"id": 3}] == games(path)
    write(path, "json", ['{"id": 3, "n": 3}'], conflict="update")
    assert [{"id": 1, "n": 1}, {"id": 2, "m": None}, {"id": 3, "n": 3}] == games(path)
    write(path, "json", [None, '{"id": 3, "n": 4}'], conflict="replace", deleteField="gone")
    assert [{"id": 2, "m": None}, {"id": 3, "n": 4}] == games(path)
    write(path, "binary", [codec.encode({"id": 9})], overwrite=True)
    assert [{"id": 9}] == games(path)


def test_the_primary_key_of_the_table_is_looked_for_in_the_document(tmp_path):
    with reactdb.connect(tmp_path / "a.db") as db:
        db.table_create("games", primary_key="name")

    write(tmp_path / "a.db", "json", ['{"name": "x", "id": null}'])

    assert [{"name": "x", "id": None}] == games(tmp_path / "a.db")


def test_a_column_that_deletes_must_not_have_the_name_of_a_field(tmp_path):
    with pytest.raises(InvalidDocument, match="a document has a field 'gone' of its own"):
        write(tmp_path / "a.db", "json", ['{"id": 1, "gone": 1}'], conflict="replace", deleteField="gone")


LONG, TEXT, BYTES = t.LongType(), t.StringType(), t.BinaryType()


@pytest.mark.parametrize(
    ("options", "columns", "words"),
    [
        (
            {"document": "xml"},
            {"document": TEXT},
            "document is one of struct, json, variant, binary, not xml",
        ),
        ({"document": "json"}, {"document": BYTES}, "column document is string, not binary"),
        ({"document": "binary"}, {"value": TEXT}, "column value is binary, not string"),
        ({"document": "variant"}, {"document": TEXT}, "column document is variant, not string"),
        (
            {"document": "json"},
            {"a": TEXT, "b": TEXT},
            "the rows have one column of whole documents, called 'document'",
        ),
        ({"document": "json"}, {"document": TEXT, "b": TEXT}, "these have document, b"),
        ({"document": "struct"}, {"document": TEXT}, "the rows have no column 'id'"),
    ],
)
def test_columns_and_options_that_cannot_be_are_refused_when_the_plan_is_made(
    tmp_path, options, columns, words
):
    schema = t.StructType([t.StructField(name, type_) for name, type_ in columns.items()])

    with pytest.raises(InvalidOption) as caught:
        BatchWriter({"path": str(tmp_path / "a.db"), "table": "games"} | options, schema, False)

    assert words in str(caught.value)
    assert [] == list(tmp_path.iterdir())


def test_reading_bytes_and_writing_them_keeps_them(tmp_path):
    """What `read document=binary` gives, with the key beside it, is what `write document=binary` takes."""
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    with reactdb.connect(one) as db:
        db.table_create("games").insert([EVERYTHING, *({"id": n, "n": [n / 3]} for n in range(100))])

    def batches(path: Path) -> tuple[t.StructType, list[Any]]:
        source = ReactdbSource({"path": str(path), "document": "binary"})
        schema = source.schema()
        reader = source.reader(schema)
        return schema, [each for split in reader.partitions() for each in reader.read(split)]

    schema, found = batches(one)
    job = BatchWriter({"path": str(two), "table": "games", "document": "binary"}, schema, False)
    job.commit([job.write(iter(found))])

    assert [batch.to_pylist() for batch in found] == [batch.to_pylist() for batch in batches(two)[1]]


# ---------------------------------------------------------------------------------------------------------------
# With Spark


@pytest.mark.parametrize("form", ["json", "variant", "binary"])
def test_spark_reads_and_writes_whole_documents(spark, tmp_path, form):
    documents = [{"id": n, "tags": ["a", None], "home": {"city": f"city {n}"}} for n in range(20)]
    with reactdb.connect(tmp_path / "one.db", durability="soft") as db:
        db.table_create("games").insert(documents)
    reader = spark.read.format("reactdb").options(table="games", document=form)

    frame = reader.load(str(tmp_path / "one.db"))
    writer = frame.write.format("reactdb").options(table="games", document=form)
    writer.mode("append").save(str(tmp_path / "two.db"))
    writer.mode("overwrite").save(str(tmp_path / "two.db"))

    assert documents == games(tmp_path / "two.db")
    with reactdb.connect(tmp_path / "two.db", read_only=True) as db:
        # Overwriting with the same changes nothing.
        assert 21 == db.seq


@pytest.mark.slow
def test_spark_streams_whole_documents_and_deletes(spark, tmp_path):
    with reactdb.connect(tmp_path / "one.db", durability="soft") as source:
        table = source.table_create("games")
        table.insert([EVERYTHING, {"id": 1}, {"id": 2}])

        def copy() -> None:
            rows = spark.readStream.format("reactdb").options(read="changes", table="games")
            rows = rows.schema("op string, old binary, new binary").load(str(tmp_path / "one.db"))
            (
                rows.selectExpr("coalesce(new, old) AS document", "op = 'delete' AS gone")
                .writeStream.format("reactdb")
                .options(table="games", document="binary", conflict="replace", deleteField="gone")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(tmp_path / "two.db"))
                .awaitTermination()
            )

        copy()
        table.get(1).delete()
        table.get(2).update({"n": Decimal("1.50")})
        copy()

        with reactdb.connect(tmp_path / "two.db", read_only=True) as db:
            assert [codec.encode(each) for each in table.order_by("id").run()] == [
                codec.encode(each) for each in db.table("games").order_by("id").run()
            ]


def test_spark_tells_what_is_no_document_in_one_sentence(spark, tmp_path):
    frame = spark.sql("SELECT '{\"id\": 1,}' AS value")

    with pytest.raises(
        Exception, match=r"InvalidDocument: document: column value: '\{\"id\": 1,\}' is not JSON"
    ):
        frame.write.format("reactdb").options(table="games", document="json").mode("append").save(
            str(tmp_path / "a.db")
        )
    assert [] == [file.name for file in tmp_path.iterdir() if "staging" in file.name]
