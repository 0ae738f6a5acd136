"""What type checkers say of tables, selections, feeds and lists. CI checks this folder with mypy and with pyright; run by
pytest, the same lines show that values have the types that were promised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import msgspec
import pytest
from pydantic import BaseModel

import reactdb
from reactdb import Change, ChangeEvent, Database, Feed, LiveList, Selection, Table, row


class Todo(msgspec.Struct):
    id: int
    title: str
    done: bool = False


@dataclass
class Card:
    id: int
    title: str


class Note(TypedDict):
    id: int
    text: str


class Person(BaseModel):
    id: int
    name: str


@pytest.fixture
def db() -> Any:
    with reactdb.connect(":memory:") as database:
        for name in ("todos", "cards", "notes", "people"):
            database.table_create(name)
        yield database


def test_a_table_has_the_type_that_it_was_opened_with(db: Database) -> None:
    assert_type(db.table("todos", type=Todo), Table[Todo])
    assert_type(db.table("todos", Todo), Table[Todo])
    assert_type(db.table("cards", type=Card), Table[Card])
    assert_type(db.table("notes", type=Note), Table[Note])
    assert_type(db.table("people", type=Person), Table[Person])
    assert_type(db.table("todos"), Table[dict[str, Any]])
    plain: Table = db.table("todos")
    assert_type(plain, Table[dict[str, Any]])


def test_reads_return_the_type(db: Database) -> None:
    todos = db.table("todos", type=Todo)
    todos.insert([Todo(1, "milk"), Todo(2, "bread", done=True)])
    assert_type(todos.run(), list[Todo])
    assert_type(todos.get(1).run(), Todo | None)
    assert_type(todos.filter(row["done"]).order_by("title").limit(1).run(), list[Todo])
    assert_type(todos.min("title").run(), Todo | None)
    assert_type(todos.count().run(), int)
    assert_type([one.title for one in todos.get_all(1, 2)], list[str])
    assert isinstance(todos.min("title").run(), Todo)
    assert type(todos.count().run()) is int


def test_transformed_documents_are_no_objects_of_the_type(db: Database) -> None:
    todos = db.table("todos", type=Todo)
    todos.insert(Todo(1, "milk"))
    assert_type(todos.pluck("id").run(), list[dict[str, Any]])
    assert_type(todos.map(row["title"]).run(), list[Any])
    assert todos.pluck("id").run() == [{"id": 1}]
    assert todos.map(row["title"]).run() == ["milk"]


def test_a_plain_table_returns_dicts(db: Database) -> None:
    notes = db.table("notes")
    assert_type(notes.run(), list[dict[str, Any]])
    assert_type(notes.get(1).run(), dict[str, Any] | None)
    assert_type(notes.filter({"id": 1}), Selection[dict[str, Any]])
    assert_type(notes.changes(), Feed[dict[str, Any]])
    assert_type(notes.changes(batches=True), Feed[list[dict[str, Any]]])


def test_events_have_the_type(db: Database) -> None:
    todos = db.table("todos", type=Todo)
    assert_type(todos.changes(include_initial=True), Feed[ChangeEvent[Todo]])
    assert_type(todos.changes(batches=True), Feed[list[ChangeEvent[Todo]]])
    assert_type(todos.filter(row["done"]).changes(squash=True).limit(3), Feed[ChangeEvent[Todo]])
    with todos.changes(include_seq=True).cursor() as cursor:
        todos.insert(Todo(1, "milk"))
        event = cursor.next(timeout=5)
        assert_type(event, ChangeEvent[Todo])
        assert_type(event["new_val"], Todo | None)
        assert_type(event["seq"], int)
        assert event["new_val"] is not None
        assert event["new_val"].title == "milk"


def test_a_callback_is_called_with_events_of_the_type(db: Database) -> None:
    titles: list[str] = []

    def note(event: ChangeEvent[Todo]) -> None:
        if event["new_val"] is not None:
            titles.append(event["new_val"].title)

    todos = db.table("todos", type=Todo)
    todos.changes().subscribe(note)
    todos.insert({"id": 1, "title": "milk"})
    assert titles == ["milk"]


def test_a_list_has_the_type(db: Database) -> None:
    todos = db.table("todos", type=Todo)
    todos.insert(Todo(1, "milk"))
    with LiveList(todos.order_by("title")) as board:
        assert_type(board, LiveList[Todo])
        assert_type(board[0], Todo)
        assert board[0] == Todo(1, "milk")


def test_the_log_of_a_key_has_the_type(db: Database) -> None:
    todos = db.table("todos", type=Todo)
    todos.insert(Todo(1, "milk"))
    (change,) = todos.get(1).history()
    assert_type(change, Change[Todo])
    assert_type(change.new_val, Todo | None)
    assert change.new_val == Todo(1, "milk")


def test_figures_have_types(db: Database) -> None:
    assert_type(db.stats(), dict[str, Any])
    assert_type(db.table("todos", type=Todo).index_list(), list[str])


def test_names_can_be_subscripted_in_annotations() -> None:
    for name in (
        Table[Todo],
        Selection[Todo, list[Todo]],
        Feed[ChangeEvent[Todo]],
        ChangeEvent[Todo],
        LiveList[Todo],
    ):
        assert name is not None


def test_reads_at_once_and_live_results_have_the_type(db: Database) -> None:
    todos = db.table("todos", type=Todo)
    todos.insert([Todo(1, "milk"), Todo(2, "bread", done=True)])
    assert_type(todos.first(), Todo | None)
    assert_type(todos.filter(done=True).one(), Todo)
    assert_type(todos.exists(), bool)
    assert_type(todos[0].run(), Todo)
    assert_type(todos[0:1].run(), list[Todo])
    with todos.live() as live:
        assert_type(live[0], Todo)
        assert live[0] == Todo(1, "milk")
    with todos.count().live() as count:
        assert_type(count.value, int)
        assert count.value == 2
    assert_type(db.stats(), dict[str, Any])
