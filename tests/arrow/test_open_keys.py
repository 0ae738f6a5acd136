"""Open sets of keys: fields are counted against documents, so a key of each document's own makes no column."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

import reactdb  # noqa: E402
from reactdb.arrow import inference as module  # noqa: E402
from reactdb.arrow.arrays import Struct  # noqa: E402
from reactdb.arrow.documents import DocumentColumn, Rows  # noqa: E402
from reactdb.arrow.inference import MOST_FIELDS, Seen, TypeInference  # noqa: E402
from reactdb.arrow.types import INFERRED, ColumnRules, struct_of  # noqa: E402
from reactdb.arrow.variant import VARIANT  # noqa: E402
from reactdb.arrow.widening import Converter, make_inference, restore, spread, widen  # noqa: E402
from reactdb.values.codec import encode  # noqa: E402

MAP = pa.map_(pa.string(), pa.int64())


def inferred(documents: list[dict[str, Any]], conflict_type: Any = VARIANT) -> TypeInference:
    inference = TypeInference(conflict_type)
    inference.add(documents)
    return inference


def types_of(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return {field.name: field.type for field in inferred(documents).fields()}


def flagged(sample: list[dict[str, Any]], documents: list[dict[str, Any]]) -> int:
    """How many documents do not fit the schema of a sample."""
    rules = ColumnRules(is_complete=True, takes_guesses=True)
    column = DocumentColumn("", struct_of(inferred(sample).fields(), rules), "PERMISSIVE")
    rows = Rows(len(documents))
    column.arrays([encode(document) for document in documents], rows, str)
    return len(rows.reasons)


def count_fields(type_: Any) -> int:
    if type_ == VARIANT:
        return 0
    if pa.types.is_struct(type_):
        return sum(1 + count_fields(field.type) for field in type_)
    if pa.types.is_list(type_):
        return count_fields(type_.value_type)
    return count_fields(type_.item_type) if pa.types.is_map(type_) else 0


@pytest.mark.parametrize("count", [2_000, 10_000])
def test_a_dict_with_a_key_of_each_documents_own_is_a_map(count):
    documents = [{"id": n, "by_user": {f"u{n}": 1}} for n in range(count)]

    assert {"id": pa.int64(), "by_user": MAP} == types_of(documents[:1_000])
    assert 0 == flagged(documents[:1_000], documents)


def test_a_dict_of_any_keys_with_values_of_several_types_is_in_conflict():
    documents = [{"by_user": {f"u{n}": n if n % 2 else "x"}} for n in range(1_000)]

    assert {"by_user": VARIANT} == types_of(documents)
    inference = inferred(documents)
    (field,) = inference.fields()
    assert (["by_user"], "by_user (dict)") == (inference.open_fields, str(inference.conflicts[0]))
    assert {b"reactdb.conflict": b"dict", b"reactdb.anything": b"True"} == field.metadata
    assert 0 == flagged(documents, documents)


def test_a_closed_set_of_many_keys_is_a_struct():
    """Every tenth document has a rare field, and all of them come again."""
    documents = [
        {"at": {**{f"f{k}": k for k in range(150)}, **({"rare": 1} if n % 10 == 0 else {})}}
        for n in range(1_000)
    ]

    assert 151 == types_of(documents)["at"].num_fields


def test_documents_of_two_shapes_are_no_open_set():
    """The second shape begins in the newer half, with 100 fields at once."""
    documents = [{f"a{k}": 1 for k in range(100)}] * 500 + [{f"b{k}": 1 for k in range(100)}] * 500

    assert 200 == len(types_of(documents))


def test_fields_of_documents_that_occur_regularly_stay_columns_and_the_others_are_in_one():
    documents = [{"id": n, "name": "x", f"k{n}": n} for n in range(2_000)]
    fields = inferred(documents[:1_000]).fields()

    assert [("id", pa.int64()), ("name", pa.string()), ("_other", MAP)] == [(f.name, f.type) for f in fields]
    assert 0 == flagged(documents[:1_000], documents)
    struct = struct_of(fields, INFERRED)
    assert isinstance(struct, Struct)
    (_, _, others) = struct.arrays([{"id": 1, "new": 5, "_other": 6}, {"id": 2}])
    assert [[("new", 5), ("_other", 6)], None] == others.to_pylist()


def test_four_hundred_nested_structs_are_few_fields():
    documents = [{"id": n, f"n{n % 400}": {"a": 1, "b": {"c": n}}} for n in range(1_000)]

    assert MOST_FIELDS >= sum(1 + count_fields(type_) for type_ in types_of(documents).values())
    assert 0 == flagged(documents, documents)


def test_twenty_thousand_fields_are_few_columns():
    documents = [{"id": n, **{f"f{n}_{k}": k for k in range(20)}} for n in range(1_000)]

    assert {"id": pa.int64(), "_other": MAP} == types_of(documents)
    assert 299 + 1 == len(types_of([{f"f{k}": 1 for k in range(20_000)}] * 10))


@pytest.mark.parametrize("shape", ["nested", "top", "deep"])
def test_inference_does_as_much_work_as_there_are_values(monkeypatch, shape):
    """And keeps no place for each key."""
    calls = [0]
    made = [0]
    add, begin = Seen.add, Seen.__init__

    def counted(self: Seen, value: Any) -> None:
        calls[0] += 1
        add(self, value)

    def begun(self: Seen, *given: Any, **options: Any) -> None:
        made[0] += 1
        begin(self, *given, **options)

    monkeypatch.setattr(module.Seen, "add", counted)
    monkeypatch.setattr(module.Seen, "__init__", begun)
    makers: dict[str, Any] = {
        "nested": lambda n: {"by_user": {f"u{n}": 1}},
        "top": lambda n: {f"k{n}": 1},
        "deep": lambda n: {f"a{n}": {f"b{n}": {f"c{n}": 1}}},
    }
    inference = TypeInference(VARIANT)
    inference.add(makers[shape](n) for n in range(10_000))
    fields = inference.fields()

    assert 1 == len(fields)
    assert calls[0] <= 4 * 10_000
    assert made[0] <= 1_500


def test_a_data_frame_has_maps_and_so_have_pandas_and_polars(caplog):
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    with reactdb.connect(":memory:") as db:
        table = db.table_create("t")
        table.insert([{"id": n, "by_user": {f"u{n}": n}, f"k{n}": 0.5} for n in range(2_000)])
        with caplog.at_level("INFO", "reactdb.arrow"):
            made = table.to_arrow()

        assert ["id", "by_user", "_other"] == made.column_names
        assert [
            "fields with open sets of keys are read as maps or as text: by_user, _other"
        ] == caplog.messages
        assert [("u7", 7)] == made.column("by_user")[7].as_py()
        assert [("k7", 0.5)] == made.column("_other")[7].as_py()
        assert [("u7", 7)] == table.to_pandas()["by_user"][7]
        # polars before version 2 has lists of structs for maps.
        assert "u7" in str(table.to_polars()["by_user"][7])
        assert {"id", "k7"} == set(table.to_arrow(fields=["id", "k7"]).column_names)
        assert 0.5 == table.to_arrow(fields=["id", "k7"]).column("k7")[7].as_py()


def test_a_lakes_table_with_an_open_set_keeps_its_columns_and_loses_nothing():
    documents = [{"id": n, f"k{n}": n} for n in range(200)]
    later = [{"id": 1, "new": 0.5, "odd": "x", "_other": {"a": 1}}]
    inference = make_inference()
    inference.add(documents)
    schema = widen(None, pa.schema(inference.fields())).schema
    inference = make_inference()
    inference.add(later)
    widened = widen(schema, pa.schema(inference.fields()))

    assert ["id", "_other"] == widened.schema.names
    assert (pa.map_(pa.string(), pa.float64()), ("_other{}",)) == (
        widened.schema.field("_other").type,
        widened.widened_fields,
    )
    converted = Converter(widened.schema).convert([encode(document) for document in later])
    row = {"id": converted.arrays[0][0].as_py(), "_other": dict(converted.arrays[1][0].as_py())}
    assert later[0] == restore(spread(row, widened.schema), converted.rests[0])


# ---------------------------------------------------------------------------------------------------------------
# The law

keys = st.sampled_from(["a", "b", "{n}", "{n}x", "c{m}"])
shapes = st.recursive(
    st.sampled_from([1, "x", None, 0.5]),
    lambda inner: st.dictionaries(keys, inner, min_size=1, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)


def filled(shape: Any, n: int) -> Any:
    """A document of a shape: its keys have the number of the document, or one of 150 numbers."""
    if isinstance(shape, dict):
        return {key.format(n=n, m=n % 150): filled(inner, n) for key, inner in shape.items()}
    return [filled(inner, n) for inner in shape] if isinstance(shape, list) else shape


@settings(max_examples=10, deadline=None)
@given(st.lists(st.dictionaries(keys, shapes, min_size=1, max_size=4), min_size=1, max_size=3))
def test_any_thousand_documents_have_few_fields_and_later_ones_of_their_shapes_fit(shapes):
    documents = [filled(shapes[n % len(shapes)], n) for n in range(2_000)]
    sample, later = documents[:1_000], documents[1_000:]

    assert MOST_FIELDS >= sum(1 + count_fields(field.type) for field in inferred(sample).fields())
    assert len(later) / 100 >= flagged(sample, later)
