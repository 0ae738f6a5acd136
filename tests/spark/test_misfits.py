"""Documents that do not fit a schema cost little, however many others are on their page."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

import reactdb
from reactdb.values import codec

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql import types as t

from reactdb.arrow import documents
from reactdb.arrow.documents import Rows, value_array
from reactdb.spark.types import column_for, document_column

COUNT = 2_000
# Three times eight parts, the page itself, and a few documents one by one, with what is left of them.
MOST_CALLS = 40
SCHEMA = t.StructType(
    [
        t.StructField("id", t.LongType()),
        t.StructField("n", t.LongType()),
        t.StructField("home", t.StructType([t.StructField("city", t.StringType())])),
        t.StructField("tags", t.ArrayType(t.LongType())),
        t.StructField("any", t.VariantType()),
    ]
)


def counted(column: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many values each call for an array of this column had."""
    found: list[int] = []
    convert = column.convert

    def convert_and_count(values: Sequence[Any]) -> Any:
        found.append(len(values))
        return convert(values)

    monkeypatch.setattr(column, "convert", convert_and_count)
    return found


@pytest.fixture(params=[True, False], ids=["msgspec", "msgpack"], autouse=True)
def is_quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both with msgspec and as where it is not installed."""
    if not request.param:
        monkeypatch.setattr(documents, "column_decoder", lambda names, *, is_complete: None)
    return bool(request.param)


def describe(row: int) -> str:
    return f"row {row}"


def page(misfits: dict[int, dict[str, Any]]) -> list[bytes]:
    return [
        codec.encode(
            {"id": number, "n": number, "home": {"city": f"c{number}"}, "tags": [number], "any": number}
            | misfits.get(number, {})
        )
        for number in range(COUNT)
    ]


@pytest.mark.parametrize("place", [0, 777, COUNT - 1])
def test_one_document_in_a_page_that_does_not_fit_is_looked_at_alone(monkeypatch, place):
    """Its page is made once more in a few parts, and not document by document."""
    bodies = page({place: {"n": "many"}})
    rows = Rows(COUNT)
    column = document_column("", SCHEMA, "PERMISSIVE")
    made = counted(column.column.children[0], monkeypatch)  # type: ignore[attr-defined]

    arrays = column.arrays(bodies, rows, describe)

    assert [place] == list(rows.reasons)
    assert [None if number == place else number for number in range(COUNT)] == arrays[1].to_pylist()
    assert sum(made) <= 2.5 * COUNT
    assert len(made) <= MOST_CALLS


@pytest.mark.parametrize("misfit", [{"n": "many"}, {"n": 2**70}, {"more": 1}, {"tags": [1, "two"]}])
@pytest.mark.parametrize("is_complete", [True, False])
def test_one_document_in_twenty_that_does_not_fit_makes_the_columns_once_more(
    monkeypatch, misfit, is_complete
):
    """The columns without misfits are made twice at most, and the others without trying all documents one by one."""
    bodies = page(dict.fromkeys(range(0, COUNT, 20), misfit))
    column = document_column("", SCHEMA, "PERMISSIVE", is_complete=is_complete)
    made = [counted(child, monkeypatch) for child in column.column.children]  # type: ignore[attr-defined]
    rows = Rows(COUNT)

    column.arrays(bodies, rows, describe)

    odd = 0 if "more" in misfit and not is_complete else COUNT // 20
    assert odd == len(rows.reasons)
    assert all(sum(one) <= 3 * COUNT + odd for one in made)
    assert all(len(one) <= 4 + odd for one in made)


def test_a_page_of_documents_that_fit_is_made_at_once(monkeypatch):
    column = document_column("", SCHEMA, "PERMISSIVE")
    made = counted(column.column.children[0], monkeypatch)  # type: ignore[attr-defined]

    column.arrays(page({}), Rows(COUNT), describe)

    assert [COUNT] == made


def test_one_key_in_a_page_that_does_not_fit_is_looked_at_alone(monkeypatch):
    column = column_for(t.IntegerType())
    made = counted(column, monkeypatch)
    keys: list[Any] = [*range(COUNT)]
    keys[777] = "text"
    rows = Rows(COUNT)

    found = value_array("key", column, keys, "PERMISSIVE", rows, describe)

    assert [None if number == 777 else number for number in range(COUNT)] == found.to_pylist()
    assert [777] == list(rows.reasons)
    assert sum(made) <= 2.5 * COUNT
    assert len(made) <= MOST_CALLS


ODD: list[Callable[[int], dict[str, Any]]] = [
    lambda number: {"n": "many"},
    lambda number: {"n": 1.5, "home": 7},
    lambda number: {"home": {"city": None, "zip": 3}, "id": 2**70},
    lambda number: {"tags": [1, "two"]},
    lambda number: {"more": number},
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_complete", [True, False])
def test_parts_give_what_documents_one_by_one_give(is_complete, seed):
    """With any documents on the page that do not fit, deletions between them, and of a struct or of fields."""
    chance = Random(seed)
    misfits = {chance.randrange(200): chance.choice(ODD)(seed) for _ in range(chance.choice([5, 60]))}
    bodies: list[Any] = page(misfits)[:200]
    for _ in range(5):
        bodies[chance.randrange(200)] = None
    wanted, reasons = [], {}
    for number, body in enumerate(bodies):
        one = Rows(1)
        column = document_column("new", SCHEMA, "PERMISSIVE", is_complete=is_complete)
        wanted += column.array([body], one, describe).to_pylist()
        if one.reasons:
            reasons[number] = json.loads(one.reasons[0])
    rows = Rows(200)

    found = document_column("new", SCHEMA, "PERMISSIVE", is_complete=is_complete).array(
        bodies, rows, describe
    )

    assert wanted == found.to_pylist()
    assert reasons == {number: json.loads(reason) for number, reason in rows.reasons.items()}


def test_with_failfast_the_first_document_that_does_not_fit_is_named():
    bodies = page({1200: {"n": "many"}, 300: {"n": 1.5}})

    with pytest.raises(
        reactdb.errors.SchemaMismatch, match=r"row 300 does not fit the schema: n: 1\.5 is not bigint"
    ):
        document_column("", SCHEMA, "FAILFAST").arrays(bodies, Rows(COUNT), describe)
