"""`db.table(name, type=...)`: objects of a type go in and come out, and a document that does not fit is told by its place."""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NotRequired, TypedDict
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reactdb
from reactdb import InvalidDocument, InvalidOption, LiveList, desc, row
from reactdb.document_types import document_type
from reactdb.errors import MissingExtra, TypeMismatch


class StructTodo(msgspec.Struct):
    title: str
    done: bool = False
    id: str | None = None


@dataclass
class DataclassTodo:
    title: str
    done: bool = False
    id: str | None = None


@attrs.define
class AttrsTodo:
    title: str
    done: bool = False
    id: str | None = None


class ModelTodo(pydantic.BaseModel):
    title: str
    done: bool = False
    id: str | None = None


class DictTodo(TypedDict):
    title: str
    done: bool
    id: str


CLASSES = [StructTodo, DataclassTodo, AttrsTodo, ModelTodo]
TYPES: list[Any] = [*CLASSES, DictTodo]


def name_of(kind: Any) -> str:
    return str(kind.__name__)


@pytest.fixture
def db():
    with reactdb.connect(":memory:") as database:
        database.table_create("todos")
        yield database


@pytest.fixture
def plain(db):
    return db.table("todos")


@pytest.mark.parametrize("kind", TYPES, ids=name_of)
class TestEveryKindOfType:
    def test_objects_go_in_and_come_out(self, db, plain, kind):
        todos = db.table("todos", type=kind)
        milk = kind(title="milk", done=True, id="a")

        assert todos.insert(milk)["inserted"] == 1

        assert plain.run() == [{"id": "a", "title": "milk", "done": True}]
        assert todos.get("a").run() == milk
        assert type(todos.get("a").run()) is type(milk)
        assert todos.run() == list(todos) == todos.filter(row["done"]).run() == [milk]
        assert todos.get("b").run() is None

    def test_an_upsert_takes_a_part_of_a_document_and_checks_what_it_makes(self, db, plain, kind):
        todos = db.table("todos", type=kind)
        todos.insert(kind(title="milk", done=False, id="a"))

        assert todos.upsert({"id": "a", "done": True})["replaced"] == 1
        assert todos.get("a").run() == kind(title="milk", done=True, id="a")
        for part in ({"id": "a", "done": "yes"}, {"id": "b", "done": True}):
            with pytest.raises(TypeMismatch):
                todos.upsert(part)
        assert plain.run() == [{"id": "a", "title": "milk", "done": True}]

    def test_many_objects_and_dicts_go_in_together(self, db, kind):
        todos = db.table("todos", type=kind)

        todos.insert(kind(title=f"t{i}", done=False, id=str(i)) for i in range(3))
        todos.insert([{"id": "3", "title": "t3", "done": False}, kind(title="t4", done=False, id="4")])

        assert todos.order_by("id").run() == [kind(title=f"t{i}", done=False, id=str(i)) for i in range(5)]

    @pytest.mark.parametrize(
        ("document", "sentence"),
        [
            ({"id": "a", "title": "milk", "done": "yes"}, "todos: $.done: expected bool, found text"),
            ({"id": "a", "title": 3, "done": True}, "todos: $.title: expected text, found int"),
            ({"id": "a", "done": True}, "todos: $: the field 'title' is missing"),
        ],
        ids=["text for bool", "int for text", "missing"],
    )
    def test_a_dict_that_does_not_fit_is_refused_with_the_place(self, db, plain, kind, document, sentence):
        todos = db.table("todos", type=kind)

        with pytest.raises(InvalidDocument) as caught:
            todos.insert([{"id": "b", "title": "bread", "done": True}, document])

        assert str(caught.value) == sentence
        assert plain.run() == []

    def test_a_patch_that_makes_a_document_unfit_is_refused(self, db, plain, kind):
        todos = db.table("todos", type=kind)
        todos.insert({"id": "a", "title": "milk", "done": False})

        for change in (
            lambda: todos.get("a").update({"done": "yes"}),
            lambda: todos.update({"done": row["title"]}),
            lambda: todos.get("a").update(lambda todo: {"done": todo["title"]}),
            lambda: todos.get("a").replace({"id": "a", "title": "milk", "done": "yes"}),
            lambda: todos.insert({"id": "a", "title": 5, "done": True}, conflict="update"),
            lambda: todos.insert(
                {"id": "a", "title": "x", "done": True}, conflict=lambda key, old, new: {**old, "done": "no"}
            ),
        ):
            with pytest.raises(TypeMismatch, match=r"^todos: \$\.(done|title): expected (bool|text), found "):
                change()

        assert plain.run() == [{"id": "a", "title": "milk", "done": False}]

    def test_a_stored_document_that_does_not_fit_is_told_by_table_key_and_place(self, db, plain, kind):
        plain.insert(
            [{"id": "a", "title": "milk", "done": True}, {"id": "b", "title": "bread", "done": "soon"}]
        )
        todos = db.table("todos", type=kind)

        for read in (todos.run, todos.get("b").run, lambda: list(todos.order_by("id")), todos.max("id").run):
            with pytest.raises(TypeMismatch) as caught:
                read()
            assert str(caught.value) == "todos/b: $.done: expected bool, found text"
            assert (caught.value.table, caught.value.key, caught.value.path) == ("todos", "b", ("done",))

    def test_documents_that_do_not_fit_can_be_left_out(self, db, plain, kind):
        plain.insert([{"id": str(i), "title": "t", "done": i % 2 == 0 or "soon"} for i in range(6)])
        todos = db.table("todos", type=kind, on_invalid="skip")

        assert [todo["id"] if kind is DictTodo else todo.id for todo in todos.order_by("id").limit(2)] == [
            "0",
            "2",
        ]
        assert todos.get("1").run() is None

    def test_events_have_objects(self, db, kind):
        todos = db.table("todos", type=kind)
        milk, done = kind(title="milk", done=False, id="a"), kind(title="milk", done=True, id="a")
        todos.insert(milk)
        events: list[Any] = []
        todos.changes(include_initial=True).subscribe(events.append)

        todos.get("a").update({"done": True})
        todos.get("a").delete()

        assert events == [
            {"new_val": milk},
            {"old_val": milk, "new_val": done},
            {"old_val": done, "new_val": None},
        ]

    def test_returned_changes_and_history_have_objects(self, db, kind):
        todos = db.table("todos", type=kind)
        milk, done = kind(title="milk", done=False, id="a"), kind(title="milk", done=True, id="a")

        inserted = todos.insert(milk, return_changes=True)["changes"]
        updated = todos.get("a").update({"done": True}, return_changes=True)["changes"]
        deleted = todos.delete(return_changes=True)["changes"]

        assert inserted == [{"old_val": None, "new_val": milk}]
        assert updated == [{"old_val": milk, "new_val": done}]
        assert deleted == [{"old_val": done, "new_val": None}]
        assert [(one.old_val, one.new_val) for one in todos.get("a").history()] == [
            (None, milk),
            (milk, done),
            (done, None),
        ]

    def test_transformed_documents_are_plain(self, db, kind):
        todos = db.table("todos", type=kind)
        todos.insert(kind(title="milk", done=False, id="a"))

        assert todos.pluck("title").run() == [{"title": "milk"}]
        assert todos.map(row["title"]).run() == todos["title"].run() == ["milk"]
        assert todos.group("done").count().run() == [{"group": False, "reduction": 1}]
        assert todos.count().run() == 1

    def test_a_list_has_objects(self, db, kind):
        todos = db.table("todos", type=kind)
        todos.insert(kind(title="milk", done=False, id="b"))

        with LiveList(todos.order_by("id")) as board:
            todos.insert(kind(title="bread", done=False, id="a"))

            assert list(board) == [
                kind(title="bread", done=False, id="a"),
                kind(title="milk", done=False, id="b"),
            ]


@pytest.mark.parametrize("kind", CLASSES, ids=name_of)
class TestEveryClass:
    def test_a_dict_gets_the_defaults(self, db, plain, kind):
        db.table("todos", type=kind).insert({"id": "a", "title": "milk"})

        assert plain.run() == [{"id": "a", "title": "milk", "done": False}]

    def test_an_object_without_a_key_gets_one(self, db, plain, kind):
        answer = db.table("todos", type=kind).insert([kind(title="milk"), {"title": "bread"}])

        assert sorted(answer["generated_keys"]) == sorted(one["id"] for one in plain.run())
        assert len(answer["generated_keys"]) == 2

    def test_a_save_keeps_fields_that_the_type_does_not_know(self, db, plain, kind):
        """As of a newer program, in a rolling deployment."""
        plain.insert({"id": "a", "title": "milk", "done": False, "colour": {"r": 1}})
        todos = db.table("todos", type=kind)
        milk = todos.get("a").run()
        assert milk is not None
        milk.done = True

        assert todos.get("a").update(milk)["replaced"] == 1

        assert plain.run() == [{"id": "a", "title": "milk", "done": True, "colour": {"r": 1}}]
        assert todos.get("a").update(milk)["unchanged"] == 1

    def test_a_replacement_drops_fields_that_the_type_does_not_know(self, db, plain, kind):
        plain.insert({"id": "a", "title": "milk", "done": False, "colour": 3})
        todos = db.table("todos", type=kind)

        todos.get("a").replace(kind(title="bread", id="a"))

        assert plain.run() == [{"id": "a", "title": "bread", "done": False}]

    def test_reading_changes_nothing_that_is_stored(self, db, plain, kind):
        plain.insert({"id": "a", "title": "milk", "more": 1})
        seq = db.seq

        assert db.table("todos", type=kind).get("a").run() == kind(title="milk", id="a")

        assert (db.seq, plain.run()) == (seq, [{"id": "a", "title": "milk", "more": 1}])

    def test_an_object_of_another_class_is_refused(self, db, kind):
        @dataclass
        class Other:
            id: str = "a"

        with pytest.raises(TypeMismatch, match=rf"^todos: \$: expected {kind.__name__}, found Other$"):
            db.table("todos", type=kind).insert([Other()])
        with pytest.raises(TypeMismatch, match=rf"^todos: \$: expected {kind.__name__}, found Other$"):
            db.table("todos", type=kind).insert(Other())

    def test_a_resolver_of_conflicts_may_return_an_object(self, db, plain, kind):
        todos = db.table("todos", type=kind)
        todos.insert(kind(title="milk", id="a"))

        todos.insert(kind(title="x", id="a"), conflict=lambda key, old, new: kind(title="both", id=key))

        assert plain.run() == [{"id": "a", "title": "both", "done": False}]

    def test_a_dict_that_is_merged_brings_no_defaults(self, db, plain, kind):
        todos = db.table("todos", type=kind)
        todos.insert(kind(title="milk", done=True, id="a"))

        todos.insert([{"id": "a", "title": "bread"}, {"id": "b", "title": "tea"}], conflict="update")

        assert todos.get("a").run() == kind(title="bread", done=True, id="a")
        assert todos.get("b").run() == kind(title="tea", id="b")

    def test_json_of_an_event_has_the_documents(self, db, kind):
        todos = db.table("todos", type=kind)
        with todos.changes().cursor() as cursor:
            todos.insert(kind(title="milk", id="a"))
            event = cursor.next(timeout=5)

        expected = {"old_val": None, "new_val": {"title": "milk", "done": False, "id": "a"}}
        assert reactdb.json.loads(reactdb.json.dumps(event)) == expected
        assert reactdb.json.loads(reactdb.json.dumps(event, plain=True)) == expected


@pytest.mark.parametrize("kind", [StructTodo, DataclassTodo, AttrsTodo], ids=name_of)
def test_an_object_with_a_value_of_a_wrong_type_is_refused(db, plain, kind):
    """A pydantic model refuses it itself."""
    with pytest.raises(TypeMismatch, match=r"^todos: \$\.done: expected bool, found text$"):
        db.table("todos", type=kind).insert(kind(title="milk", done="yes", id="a"))

    assert plain.run() == []


# ---------------------------------------------------------------------------------------------------------------
# Feeds and documents that do not fit


class TestFeedsPassOverUnfitDocuments:
    def test_such_a_document_is_not_in_the_result(self, db, plain, caplog):
        plain.insert({"id": "z", "title": "old", "done": "never"})
        events: list[Any] = []
        feed = db.table("todos", type=StructTodo).changes(include_initial=True)
        feed.subscribe(events.append)

        plain.insert([{"id": "a", "title": "a"}, {"id": "b", "title": "b", "done": "soon"}])
        plain.get("a").update({"done": "soon"})
        plain.get("b").update({"done": True})
        plain.get("b").delete()

        a, b = StructTodo("a", id="a"), StructTodo("b", done=True, id="b")
        assert events == [
            {"old_val": None, "new_val": a},
            {"old_val": a, "new_val": None},
            {"old_val": None, "new_val": b},
            {"old_val": b, "new_val": None},
        ]
        (record,) = caplog.records
        assert "the first is todos/z: $.done: expected bool, found text" in record.getMessage()

    def test_a_list_has_the_others_in_their_places(self, db, plain):
        plain.insert([{"id": i, "title": "t", "rank": i} for i in range(6)])
        plain.get(3).update({"rank": "third"})

        class Ranked(msgspec.Struct):
            id: int
            rank: int

        table = db.table("todos", type=Ranked)
        with LiveList(table.order_by(desc("rank")).limit(3)) as board:
            assert [one.id for one in board] == [5, 4, 2]
            plain.get(5).update({"rank": None})
            plain.get(0).update({"rank": 9})
            plain.get(3).update({"rank": 3})
            assert [one.id for one in board] == [0, 4, 3]
            assert board.state == "live"

    def test_a_feed_of_one_key_tells_it_as_missing(self, db, plain, caplog):
        plain.insert({"id": "a", "title": "a"})
        events: list[Any] = []
        db.table("todos", type=StructTodo).get("a").changes(include_initial=True).subscribe(events.append)

        plain.get("a").update({"done": "soon"})
        plain.get("a").update({"done": "later"})
        plain.get("a").update({"done": True})

        a, done = StructTodo("a", id="a"), StructTodo("a", done=True, id="a")
        assert events == [{"new_val": a}, {"old_val": a, "new_val": None}, {"old_val": None, "new_val": done}]

    def test_a_feed_may_end_with_the_error_instead(self, db, plain):
        errors: list[Exception] = []
        feed = db.table("todos", type=StructTodo).changes(on_predicate_error="raise")
        feed.subscribe(print, errors.append)

        plain.insert({"id": "a", "title": "a", "done": "soon"})

        assert [type(error) for error in errors] == [TypeMismatch]

    def test_batches_and_readers_have_objects(self, db):
        todos = db.table("todos", type=StructTodo)
        batches: list[Any] = []
        todos.changes(batches=True).subscribe(batches.append)
        with todos.changes().reader() as reader:
            todos.insert([StructTodo("a", id="a"), StructTodo("b", id="b")])

            expected = [
                {"old_val": None, "new_val": StructTodo("a", id="a")},
                {"old_val": None, "new_val": StructTodo("b", id="b")},
            ]
            assert reader.poll() == expected
            assert batches == [expected]

    def test_terms_of_a_feed_work_on_stored_fields(self, db):
        todos = db.table("todos", type=StructTodo)
        filtered, titles = [], []
        feed = todos.changes()
        feed.filter(row["new_val"]["done"]).subscribe(filtered.append)
        feed.map(row["new_val"]["title"]).subscribe(titles.append)

        todos.insert([StructTodo("a", id="a"), StructTodo("b", done=True, id="b")])

        assert filtered == [{"old_val": None, "new_val": StructTodo("b", done=True, id="b")}]
        assert titles == ["a", "b"]

    def test_a_resumed_feed_has_objects(self, db):
        todos = db.table("todos", type=StructTodo)
        token = db.token
        todos.insert(StructTodo("a", id="a"))

        with todos.changes(since=token).cursor() as cursor:
            assert cursor.next(timeout=5) == {"old_val": None, "new_val": StructTodo("a", id="a")}
            assert cursor.token == db.token


class Ranked(msgspec.Struct):
    id: int
    rank: int


WRITES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3) | st.sampled_from(["high", None]) | st.just("delete")),
    max_size=12,
)


@given(WRITES, WRITES)
def test_a_list_is_always_what_reading_without_unfit_documents_returns(before, after):
    with reactdb.connect(":memory:") as db:
        plain = db.table_create("todos")
        selection = db.table("todos", type=Ranked, on_invalid="skip").order_by(desc("rank"), "id").limit(3)

        def write(key, rank):
            if rank == "delete":
                plain.get(key).delete()
            else:
                plain.get(key).replace({"id": key, "rank": rank})

        for one in before:
            write(*one)
        with LiveList(selection) as board:
            for one in after:
                write(*one)
                assert list(board) == selection.run()
            assert list(board) == selection.run()


def test_a_live_result_that_is_asked_again_goes_on_where_its_table_is_renamed():
    with reactdb.connect(":memory:") as db:
        db.table_create("todos").insert([{"id": 1, "rank": 5}, {"id": 2, "rank": 7}])
        best = db.table("todos", type=Ranked).order_by(desc("rank"))[0].live()

        db.table_rename("todos", "tasks")
        db["tasks"].insert({"id": 3, "rank": 9})

        assert ("live", Ranked(3, 9)) == (best.state, best.value)


# ---------------------------------------------------------------------------------------------------------------
# A save


class Address(msgspec.Struct):
    city: str
    zip: int = 0


class Person(msgspec.Struct, omit_defaults=True):
    id: int
    address: Address
    labels: dict[str, int] = {}
    past: list[Address] = []
    nick: str | msgspec.UnsetType | None = msgspec.UNSET


class TestASave:
    @pytest.fixture
    def people(self, db):
        db.table_create("people")
        return db.table("people", type=Person)

    @pytest.fixture
    def stored(self, db, people):
        people = db.table("people")
        people.insert(
            {
                "id": 1,
                "address": {"city": "Ulm", "zip": 89073, "floor": 2},
                "labels": {"a": 1, "b": 2},
                "past": [{"city": "Bonn", "zip": 1, "floor": 3}],
                "score": 3.0,
            }
        )
        return people.get(1)

    def test_unknown_fields_stay_at_every_depth(self, people, stored):
        person = people.get(1).run()
        person.address.city = "Köln"

        people.get(1).update(person)

        assert stored.run()["address"] == {"city": "Köln", "zip": 89073, "floor": 2}
        assert stored.run()["score"] == 3.0
        assert stored.run()["past"] == [{"city": "Bonn", "zip": 1, "floor": 3}]

    def test_a_key_that_was_removed_from_a_mapping_goes(self, people, stored):
        person = people.get(1).run()
        del person.labels["b"]

        people.get(1).update(person)

        assert stored.run()["labels"] == {"a": 1}

    def test_a_value_that_became_the_default_is_stored_as_such(self, people, stored):
        person = people.get(1).run()
        person.labels = {}

        people.get(1).update(person)

        assert people.get(1).run() == person

    def test_an_unset_field_is_left_alone_and_a_null_is_written(self, people, stored):
        people.get(1).update({"nick": "bo"})

        people.get(1).update(Person(1, Address("Ulm", 89073)))
        assert stored.run()["nick"] == "bo"

        people.get(1).update(Person(1, Address("Ulm", 89073), nick=None))
        assert stored.run()["nick"] is None

    def test_a_document_that_did_not_fit_is_repaired_by_it(self, db, people):
        db.table("people").insert({"id": 2, "address": "Ulm", "more": 1})

        people.get(2).update(Person(2, Address("Ulm", 5)))

        assert db.table("people").get(2).run() == {"id": 2, "address": {"city": "Ulm", "zip": 5}, "more": 1}

    def test_a_missing_document_is_skipped(self, people):
        assert people.get(9).update(Person(9, Address("Ulm")))["skipped"] == 1


# ---------------------------------------------------------------------------------------------------------------
# Kinds of fields


class Colour(Enum):
    RED = "red"


class Renamed(msgspec.Struct, rename="camel"):
    id: int
    first_name: str


class RenamedModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)

    id: int
    first_name: str = pydantic.Field(alias="firstName")


@pytest.mark.parametrize("kind", [Renamed, RenamedModel], ids=name_of)
def test_other_names_of_fields_are_translated_in_documents_and_not_in_predicates(db, plain, kind):
    people = db.table("todos", type=kind)

    people.insert([kind(id=1, first_name="Bo"), {"id": 2, "firstName": "Al"}])

    assert plain.order_by("id").run() == [{"id": 1, "firstName": "Bo"}, {"id": 2, "firstName": "Al"}]
    assert people.filter(row["firstName"] == "Bo").run() == [kind(id=1, first_name="Bo")]
    assert people.get(1).update(kind(id=1, first_name="Di"))["replaced"] == 1
    assert plain.get(1).run() == {"id": 1, "firstName": "Di"}


@dataclass
class DataclassValues:
    id: int
    at: datetime
    price: Decimal
    uid: UUID
    raw: bytes
    colour: Colour
    path: Path
    tags: set[str]
    pair: tuple[int, int]
    any: Any = None


class ModelValues(pydantic.BaseModel):
    id: int
    at: datetime
    price: Decimal
    uid: UUID
    raw: bytes
    colour: Colour
    path: Path
    tags: set[str]
    pair: tuple[int, int]
    any: Any = None


VALUES: dict[str, Any] = {
    "id": 1,
    "at": datetime(2026, 1, 2, tzinfo=UTC),
    "price": Decimal("1.10"),
    "uid": UUID(int=5),
    "raw": b"\x00\xff",
    "colour": Colour.RED,
    "path": Path("a/b"),
    "tags": {"x"},
    "pair": (1, 2),
}


@pytest.mark.parametrize("kind", [DataclassValues, ModelValues], ids=name_of)
class TestKindsOfFields:
    def test_all_values_come_back_equal(self, db, plain, kind):
        values = db.table("todos", type=kind)
        value = kind(**VALUES)

        values.insert(value)

        assert values.get(1).run() == value
        as_stored = {"colour": "red", "path": "a/b", "tags": ["x"], "pair": [1, 2], "any": None}
        assert plain.get(1).run() == VALUES | as_stored

    @pytest.mark.parametrize(
        ("name", "value", "sentence"),
        [
            ("id", 3.5, "expected int, found float"),
            ("id", "3", "expected int, found text"),
            ("at", "2026-01-02T00:00:00Z", "expected datetime, found text"),
            ("uid", str(UUID(int=5)), "expected (uuid|UUID), found text"),
            ("tags", [3], "expected text, found int"),
        ],
    )
    def test_a_text_is_no_number_and_no_time(self, db, plain, kind, name, value, sentence):
        document = (
            VALUES
            | {"colour": "red", "path": "a/b", "tags": ["x"], "pair": [1, 2], "key": "k"}
            | {name: value}
        )

        with pytest.raises(TypeMismatch, match=sentence):
            db.table("todos", type=kind).insert(document)

    def test_a_value_that_cannot_be_stored_is_refused_by_its_place(self, db, kind):
        value = kind(**VALUES | {"any": [object()]})

        with pytest.raises(
            InvalidDocument, match=r"document\['any'\]\[0\]: a value of type object cannot be stored"
        ):
            db.table("todos", type=kind).insert(value)
        with pytest.raises(InvalidDocument, match=r"document\['at'\]"):
            db.table("todos", type=kind).insert(kind(**VALUES | {"at": datetime(2026, 1, 2)}))

    def test_the_hook_converts_other_values(self, kind):
        with reactdb.connect(":memory:", encode=lambda value: type(value).__name__) as db:
            db.table_create("todos")
            db.table("todos", type=kind).insert(kind(**VALUES | {"any": [object(), {"x": 1j}]}))

            assert db.table("todos").get(1).run()["any"] == ["object", {"x": "complex"}]


def test_an_integer_field_does_not_take_a_float(db):
    class Counted(msgspec.Struct):
        id: int

    with pytest.raises(TypeMismatch, match=r"\$\.id: expected int, found float"):
        db.table("todos", type=Counted).insert({"id": 3.0})


def test_the_place_inside_a_list_is_told(db):
    class Tagged(msgspec.Struct):
        id: int
        tags: list[Address]

    with pytest.raises(TypeMismatch) as caught:
        db.table("todos", type=Tagged).insert({"id": 1, "tags": [{"city": "Ulm"}, {"city": 3}]})

    assert str(caught.value) == "todos: $.tags[1].city: expected text, found int"
    assert caught.value.path == ("tags", 1, "city")


def test_a_tagged_union_has_documents_of_several_classes(db, plain):
    class Circle(msgspec.Struct, tag="circle"):
        id: int
        radius: int

    class Square(msgspec.Struct, tag="square"):
        id: int
        side: int

    shapes = db.table("todos", type=Circle | Square)
    shapes.insert([Circle(1, 5), Square(2, 3), {"id": 3, "type": "circle", "radius": 1}])

    assert shapes.order_by("id").run() == [Circle(1, 5), Square(2, 3), Circle(3, 1)]
    shapes.get(1).update({"type": "square", "side": 2})
    assert shapes.get(1).run() == Square(1, 2)
    with pytest.raises(TypeMismatch, match=r"^todos: \$\.type: invalid value 'cone'$"):
        shapes.insert({"id": 4, "type": "cone"})


def test_an_optional_key_of_a_typed_dict_may_be_missing(db, plain):
    class Note(TypedDict):
        id: int
        text: NotRequired[str]

    notes = db.table("todos", type=Note)
    notes.insert({"id": 1})

    assert plain.run() == notes.run() == [{"id": 1}]


def test_unknown_fields_of_an_inserted_dict_are_stored(db, plain):
    db.table("todos", type=StructTodo).insert({"id": "a", "title": "milk", "colour": 3})

    assert plain.run() == [{"id": "a", "title": "milk", "done": False, "colour": 3}]


def test_an_object_of_a_subclass_is_stored_with_its_own_fields(db, plain):
    @dataclass
    class Urgent(DataclassTodo):
        by: list[str] = field(default_factory=list)

    todos = db.table("todos", type=DataclassTodo)
    todos.insert(Urgent("milk", id="a", by=["noon"]))

    assert plain.run() == [{"id": "a", "title": "milk", "done": False, "by": ["noon"]}]
    assert todos.run() == [DataclassTodo("milk", id="a")]


def test_a_check_of_the_class_itself_is_told(db):
    @dataclass
    class Even:
        id: int

        def __post_init__(self) -> None:
            if self.id % 2:
                raise ValueError("an odd number")

    with pytest.raises(TypeMismatch, match=r"^todos: \$: an odd number$"):
        db.table("todos", type=Even).insert({"id": 1})


# ---------------------------------------------------------------------------------------------------------------
# The handle


def test_a_type_that_documents_cannot_have_is_refused(db):
    for kind in (int, dict, list[int], "Todo", StructTodo("x")):
        with pytest.raises(InvalidOption, match="type is a TypedDict, a dataclass, an attrs class"):
            db.table("todos", type=kind)
    with pytest.raises(InvalidOption, match='on_invalid is "raise" or "skip"'):
        db.table("todos", type=StructTodo, on_invalid="drop")
    with pytest.raises(InvalidOption, match="on_invalid needs a type"):
        db.table("todos", on_invalid="skip")


def test_a_class_with_annotations_that_cannot_be_read_is_refused_at_once(db):
    @dataclass
    class Broken:
        id: Missing  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidOption, match="type Broken cannot be a type of documents"):
        db.table("todos", type=Broken)


def test_without_msgspec_the_extra_is_named(db, monkeypatch):
    @dataclass
    class Unseen:
        id: int

    monkeypatch.setitem(sys.modules, "msgspec", None)

    with pytest.raises(MissingExtra, match=r"pip install 'reactdb\[typed\]'"):
        db.table("todos", type=Unseen)


def test_the_converter_of_a_type_is_made_once():
    assert document_type(StructTodo) is document_type(StructTodo)


def test_a_transaction_and_the_past_have_typed_tables(db):
    todos = db.table("todos", type=StructTodo)
    todos.insert(StructTodo("milk", id="a"))
    seq = db.seq
    with db.transaction() as transaction:
        transaction.table("todos", type=StructTodo).insert(StructTodo("bread", id="b"))

    assert db.at(seq).table("todos", type=StructTodo).run() == [StructTodo("milk", id="a")]
    assert todos.count().run() == 2


def test_a_union_of_typed_selections_has_objects(db, plain):
    todos = db.table("todos", type=StructTodo)
    todos.insert(StructTodo("milk", id="a"))

    assert todos.union(todos).run() == [StructTodo("milk", id="a")] * 2
    assert todos.union(plain).run() == plain.run() * 2


def test_the_error_can_be_pickled():
    error = TypeMismatch("todos", "expected bool, found text", ("done",), "a")
    again = pickle.loads(pickle.dumps(error))

    assert (str(again), again.key, again.path) == (str(error), "a", ("done",))


def test_plain_tables_are_no_typed_tables(db, plain):
    assert type(plain) is reactdb.Table
    assert type(plain.filter(row["a"])) is reactdb.Selection
    assert repr(plain) == "<Table 'todos'>"
    assert repr(db.table("todos", type=StructTodo)) == "<Table 'todos' of StructTodo>"
