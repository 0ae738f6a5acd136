"""Values of other libraries: the refusal says what to write, and `connect(encode=...)` converts them."""

from __future__ import annotations

import types
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

import attrs
import msgspec
import pydantic
import pytest

import reactdb
from reactdb import InvalidDocument, InvalidOption, row


class Colour(Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    id: int


@dataclass
class Card:
    id: int


@attrs.define
class Point:
    id: int


class Struct(msgspec.Struct):
    id: int


class DataFrame:
    """As pandas has it: iterable, over the names of columns."""

    def __iter__(self):
        return iter(["id"])

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return [{"id": 1}, {"id": 2}]


class PolarsFrame(DataFrame):
    def to_dicts(self) -> list[dict[str, Any]]:
        return [{"id": 1}]


PolarsFrame.__name__ = "DataFrame"


def numpy_scalar(kind: str) -> Any:
    """What marks a scalar of numpy, which is not installed here."""
    scalar = type(
        "scalar", (), {"dtype": types.SimpleNamespace(kind=kind), "shape": (), "__module__": "numpy"}
    )
    return scalar()


@pytest.fixture
def table():
    with reactdb.connect(":memory:") as db:
        table = db.table_create("t")
        table.insert({"id": 5})
        yield table


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        (Colour.RED, "x.value"),
        (PurePosixPath("a"), "str(path)"),
        ({1}, "make it a list: write list(x) or sorted(x)"),
        (numpy_scalar("i"), "int(x)"),
        (numpy_scalar("u"), "int(x)"),
        (numpy_scalar("f"), "float(x)"),
        (numpy_scalar("b"), "bool(x)"),
        (numpy_scalar("M"), "x.item()"),
        (Model(id=1), "x.model_dump()"),
        (Card(1), "dataclasses.asdict(x)"),
        (Point(1), "attrs.asdict(x)"),
        (Struct(1), "msgspec.structs.asdict(x)"),
        (DataFrame(), "x.to_dict('records')"),
        (PolarsFrame(), "x.to_dicts()"),
        (range(3), "list(x)"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_refusal_of_a_value_says_what_to_write(table, value, spelling):
    for write in (
        lambda: table.insert({"id": 1, "a": [{"b": value}]}),
        lambda: table.get(5).replace({"id": 5, "a": [{"b": value}]}),
        lambda: table.get(5).update(lambda document: {"a": [{"b": value}]}),
        lambda: table.get(5).update({"a": [{"b": value}]}),
    ):
        with pytest.raises(InvalidDocument) as caught:
            write()
        assert str(caught.value).startswith("document['a'][0]['b']: ")
        assert spelling in str(caught.value)
        assert "or give connect(encode=...) a function" in str(caught.value)


def test_the_refusal_of_any_other_value_names_the_hook(table):
    with pytest.raises(InvalidDocument) as caught:
        table.insert({"id": 1, "a": Fraction(1, 3)})

    assert str(caught.value) == (
        "document['a']: a value of type fractions.Fraction cannot be stored: "
        "give connect(encode=...) a function that converts such values"
    )


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        (Model(id=1), "x.model_dump(), or use db.table(name, type=Model)"),
        (Card(1), "dataclasses.asdict(x), or use db.table(name, type=Card)"),
        (Point(1), "attrs.asdict(x), or use db.table(name, type=Point)"),
        (Struct(1), "msgspec.structs.asdict(x), or use db.table(name, type=Struct)"),
        (DataFrame(), "x.to_dict('records')"),
        (PolarsFrame(), "x.to_dicts()"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_refusal_of_a_document_says_what_to_write(table, value, spelling):
    """Finding 8 of the third trial: a model was refused as an array, and a DataFrame as a text."""
    for given in (value, [value], iter([value])):
        with pytest.raises(InvalidDocument, match="a document is a dict, not a value of type") as caught:
            table.insert(given)
        assert str(caught.value).endswith(f"write {spelling}")


def test_iterables_of_documents_are_inserted_as_before(table):
    table.insert({"id": i} for i in range(2))
    table.insert(map(dict, [{"id": 2}]))

    assert table.count().run() == 4


class TestTheHook:
    @pytest.fixture
    def calls(self):
        return []

    @pytest.fixture
    def table(self, calls):
        def encode(value: Any) -> Any:
            calls.append(type(value).__name__)
            if isinstance(value, Enum):
                return value.value
            if isinstance(value, (set, frozenset)):
                return sorted(value)
            if isinstance(value, pydantic.BaseModel):
                return value.model_dump()
            if isinstance(value, DataFrame):
                return value.to_dict("records")
            if isinstance(value, Fraction):
                return [Decimal(value.numerator), frozenset({value.denominator})]
            if isinstance(value, Card):
                return Card(value.id)
            raise TypeError("what is it?")

        with reactdb.connect(":memory:", encode=encode) as db:
            yield db.table_create("t")

    def test_its_results_are_stored(self, table):
        table.insert([{"id": 1, "a": {"b": [Colour.RED, {2, 1}]}}, {"id": 2, "half": Fraction(1, 2)}])

        assert table.order_by("id").run() == [
            {"id": 1, "a": {"b": ["red", [1, 2]]}},
            {"id": 2, "half": [Decimal(1), [2]]},
        ]

    def test_documents_that_are_no_dicts_are_converted(self, table):
        table.insert(Model(id=3))
        table.insert(Model(id=i) for i in range(4, 6))
        table.insert(DataFrame())

        assert [one["id"] for one in table.order_by("id")] == [1, 2, 3, 4, 5]

    def test_patches_and_replacements_are_converted(self, table):
        table.insert([{"id": 1}, {"id": 2}, {"id": 3}])

        table.get(1).update({"a": Colour.RED, "next": row["id"] + 1})
        table.get(2).update(lambda document: {"a": {document["id"]}})
        table.get(3).replace({"id": 3, "a": Colour.RED})

        assert table.order_by("id").run() == [
            {"id": 1, "a": "red", "next": 2},
            {"id": 2, "a": [2]},
            {"id": 3, "a": "red"},
        ]

    def test_it_works_inside_of_a_transaction(self, table):
        with reactdb.connect(":memory:", encode=lambda value: value.value) as db:
            db.table_create("t")
            with db.transaction() as transaction:
                transaction.table("t").insert({"id": 1, "a": Colour.RED})

            assert db.table("t").run() == [{"id": 1, "a": "red"}]

    def test_it_is_not_called_for_values_that_can_be_stored(self, table, calls):
        class Text(str):
            __slots__ = ()

        table.insert([{"id": 1, "a": [1, 1.5, None, True, "x", b"x", Decimal(1), (1, 2), Text("y")]}])
        table.get(1).update({"b": {"c": row["id"]}})

        assert calls == []

    def test_its_error_is_told_with_the_place(self, table):
        with pytest.raises(InvalidDocument) as caught:
            table.insert([{"id": 1}, {"id": 2, "a": {"b": [0, object()]}}])

        assert str(caught.value) == (
            "document['a']['b'][1]: the function encode raised TypeError for a value of type object: what is it?"
        )
        assert isinstance(caught.value.__cause__, TypeError)
        assert table.run() == []

    def test_a_result_of_the_same_type_does_not_go_on_for_ever(self, table):
        with pytest.raises(
            InvalidDocument, match=r"the function encode returned a value of type .*Card again"
        ):
            table.insert({"id": 1, "a": Card(1)})

    def test_a_value_that_it_returns_as_it_is_is_refused(self):
        with reactdb.connect(":memory:", encode=lambda value: value) as db:
            table = db.table_create("t")
            with pytest.raises(
                InvalidDocument, match=r"document\['a'\]: a value of type object cannot be stored"
            ):
                table.insert({"id": 1, "a": object()})

    def test_a_list_inside_itself_is_refused(self, table):
        endless: list[Any] = []
        endless.append(endless)

        with pytest.raises(InvalidDocument, match="inside itself"):
            table.insert({"id": 1, "a": endless})


def test_the_hook_is_a_function():
    with pytest.raises(InvalidOption, match="encode is a function of one value, or None, not 'str'"):
        reactdb.connect(":memory:", encode="str")  # type: ignore[arg-type]
