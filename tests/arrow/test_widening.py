"""A table that grows: no document loses a value, whatever came before it."""

from __future__ import annotations

from datetime import UTC, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from reactdb.arrow.casting import InexactNumber, cast_array, cast_batch  # noqa: E402
from reactdb.arrow.widening import Converter, make_inference, restore, spread, widen  # noqa: E402
from reactdb.json import dumps, loads, plain_text  # noqa: E402
from reactdb.values.codec import encode  # noqa: E402

INT, DOUBLE, TEXT = pa.int64(), pa.float64(), pa.string()


def seen(*documents: dict[str, Any]) -> Any:
    inference = make_inference()
    inference.add(documents)
    return pa.schema(inference.fields())


def kept(**types: Any) -> Any:
    return pa.schema(list(types.items()))


@pytest.mark.parametrize(
    ("before", "document", "after", "new", "widened", "conflicts"),
    [
        ({"a": INT}, {"a": 1}, {"a": INT}, (), (), ()),
        ({"a": INT}, {"b": "x"}, {"a": INT, "b": TEXT}, ("b",), (), ()),
        ({"a": INT}, {"a": 1.5}, {"a": DOUBLE}, (), ("a",), ()),
        ({"a": DOUBLE}, {"a": 1}, {"a": DOUBLE}, (), (), ()),
        ({"a": INT}, {"a": "x"}, {"a": INT}, (), (), ("a",)),
        ({"a": INT}, {"a": 2**70}, {"a": INT}, (), (), ("a",)),
        ({"a": INT}, {"a": None, "b": {}, "c": [], "d": {"e": [[]]}}, {"a": INT}, (), (), ()),
        ({"a": INT}, {"A": 1, "b": 1, "B": 1}, {"a": INT, "b": INT}, ("b",), (), ("A", "B")),
        ({"a": INT, "A": TEXT}, {"A": "x"}, {"a": INT, "A": TEXT}, (), (), ()),
        ({}, {"p": {"x": 1, "X": 1}}, {"p": pa.struct([("x", INT)])}, ("p",), (), ("p.X",)),
        ({}, {"at": time(1), "for": timedelta(1)}, {"at": TEXT, "for": TEXT}, ("at", "for"), (), ()),
        (
            {"p": pa.struct([("x", INT)])},
            {"p": {"x": 0.5, "y": {"z": 1}}},
            {"p": pa.struct([("x", DOUBLE), ("y", pa.struct([("z", INT)]))])},
            ("p.y",),
            ("p.x",),
            (),
        ),
        ({"l": pa.list_(INT)}, {"l": [0.5]}, {"l": pa.list_(DOUBLE)}, (), ("l[]",), ()),
        ({"m": pa.map_(TEXT, INT)}, {"m": {"k": 0.5}}, {"m": pa.map_(TEXT, DOUBLE)}, (), ("m{}",), ()),
        ({"p": pa.struct([("x", INT)])}, {"p": [1]}, {"p": pa.struct([("x", INT)])}, (), (), ("p",)),
    ],
)
def test_a_schema_is_widened_by_what_was_seen(before, document, after, new, widened, conflicts):
    made = widen(kept(**before), seen(document))

    assert (kept(**after), new, widened, conflicts) == (
        made.schema,
        made.new_fields,
        made.widened_fields,
        made.conflicts,
    )


def test_a_field_with_values_of_several_types_gets_the_type_of_most_and_keeps_the_others():
    documents = [{"v": 1}, {"v": "five"}, {"v": 2}]
    made = widen(None, seen(*documents))
    converted = Converter(made.schema).convert([encode(document) for document in documents])

    assert (kept(v=INT), ("v",)) == (made.schema, made.conflicts)
    assert [[1, None, 2]] == [array.to_pylist() for array in converted.arrays]
    assert {1: {"v": "five"}} == converted.rests


def test_the_rest_of_a_document_is_by_paths():
    schema = kept(score=INT, place=pa.struct([("zip", INT)]), tags=pa.list_(INT), counts=pa.map_(TEXT, INT))
    document = {
        "score": "five",
        "place": {"zip": [1], "more": 1, "none": None},
        "tags": [1, "two"],
        "counts": {"a": 1, "b": 1.5},
        "new": {},
        "none": None,
    }
    converted = Converter(schema).convert([encode(document), encode({"score": 5})])

    assert {
        0: {
            "score": "five",
            "place": {"zip": [1], "more": 1},
            "tags": {"1": "two"},
            "counts": {"b": 1.5},
            "new": {},
        }
    } == converted.rests
    columns = [array.to_pylist() for array in converted.arrays]
    assert [[None, 5], [{"zip": None}, None], [[1, None], None], [[("a", 1), ("b", None)], None]] == columns


def test_ints_that_are_not_exact_as_doubles_stay_ints():
    """The batch shows it, and the path of the field keeps its type the next time."""
    schema, batch = kept(n=pa.struct([("a", INT)])), {"n": [{"a": 2**60 + 1}]}
    late = seen({"n": {"a": 0.5}})
    made = widen(schema, late)

    with pytest.raises(InexactNumber) as caught:
        cast_batch(pa.table(batch, schema), made.schema)
    fixed = widen(schema, late, fixed=made.widened_fields)

    assert "n.a" == caught.value.path
    assert (schema, ("n.a",)) == (fixed.schema, fixed.conflicts)


def test_rows_of_an_older_schema_have_nulls_in_new_fields():
    old = pa.table(
        {
            "a": [1, None, 3],
            "p": [{"x": 1}, None, {"x": 2}],
            "l": [[{"x": 1}], None, []],
            "m": [[("k", 1)], [], None],
        },
        kept(a=INT, p=pa.struct([("x", INT)]), l=pa.list_(pa.struct([("x", INT)])), m=pa.map_(TEXT, INT)),
    ).slice(1)
    inner = pa.struct([("x", DOUBLE), ("y", TEXT)])
    wider = kept(a=DOUBLE, p=inner, l=pa.list_(inner), m=pa.map_(TEXT, DOUBLE), new=TEXT)

    rows = cast_batch(old, wider)

    rows.validate(full=True)
    assert wider == rows.schema
    assert [
        {"a": None, "p": None, "l": None, "m": [], "new": None},
        {"a": 3.0, "p": {"x": 2.0, "y": None}, "l": [], "m": None, "new": None},
    ] == rows.to_pylist()
    assert [{"x": 1.0, "y": None}] == cast_batch(
        pa.table({"l": [[{"x": 1}]]}), kept(l=pa.list_(inner))
    ).column("l")[0].as_py()


# ---------------------------------------------------------------------------------------------------------------
# The law

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from([2**53 + 1, 2**70, 10**50])
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=3)
    | st.binary(max_size=3)
    | st.sampled_from([Decimal("0.5"), Decimal("1E-30"), UUID(int=7), time(3, 4), timedelta(1, 2)])
    | st.dates()
    | st.datetimes(timezones=st.just(UTC))
)
names = st.sampled_from(["a", "b", "c", "0", "_other", "é x"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
pages = st.lists(
    st.lists(st.dictionaries(names, values, max_size=4), min_size=1, max_size=4), min_size=1, max_size=4
)


def plain(value: Any) -> Any:
    """A value as columns have it: without null fields, with texts for types that become texts, and kinds that `==` confuses."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, (UUID, time, timedelta)):
        return plain_text(value)
    return ("bool", value) if isinstance(value, bool) else value


def as_dicts(value: Any, type_: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {field.name: as_dicts(value[field.name], field.type) for field in type_}
    if pa.types.is_list(type_):
        return [as_dicts(inner, type_.value_type) for inner in value]
    if pa.types.is_map(type_):
        return {key: as_dicts(inner, type_.item_type) for key, inner in value}
    return value


@given(pages)
def test_every_document_is_restored_from_the_columns_and_the_rest(pages):
    """Over any earlier documents, with the columns cast to each wider schema, and the rest written as JSON."""
    schema, column, rests = None, None, []
    for page in pages:
        widened = widen(schema, seen(*page))
        if column is not None:
            try:
                column = cast_array(column, pa.struct(list(widened.schema)))
            except InexactNumber:
                widened = widen(schema, seen(*page), fixed=widened.widened_fields)
                column = cast_array(column, pa.struct(list(widened.schema)))
        schema = widened.schema
        structs, found = Converter(schema).structs([encode(document) for document in page])
        structs.validate(full=True)
        column = structs if column is None else pa.concat_arrays([column, structs])
        rests += [loads(dumps(found[row])) if row in found else None for row in range(len(page))]

    rows = [spread(as_dicts(row, column.type), schema) for row in column.to_pylist()]
    restored = [restore(row, rest) for row, rest in zip(rows, rests, strict=True)]
    assert [plain(document) for page in pages for document in page] == [
        plain(document) for document in restored
    ]
