"""`is_in` and `startswith` are looked up in an index or by primary key, and route the changes to a feed."""

from __future__ import annotations

from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.documents.access_path import MOST_POINTS


@pytest.fixture
def people(db: reactdb.Database) -> reactdb.Table:
    people = db.table_create("people")
    people.index_create("name")
    people.index_create("age")
    people.insert({"id": f"p{number:04}", "name": f"n{number}", "age": number % 50} for number in range(400))
    people.insert([{"id": 1, "name": 12, "age": "12"}, {"id": 2, "name": ["n12"]}, {"id": 3, "age": None}])
    return people


@pytest.mark.parametrize(
    ("condition", "access"),
    [
        (row["age"].is_in([3, 4]), "2 ranges of index `age`, implied by the filter"),
        (row["age"].is_in([None]), "a range of index `age`, implied by the filter"),
        (row["age"].is_in([]), "0 ranges of index `age`, implied by the filter"),
        (row["age"].is_in(range(100)), "100 ranges of index `age`, implied by the filter"),
        (
            row["id"].is_in(["p0007", "p0003", "nobody", 1]),
            "4 ranges of the primary key, implied by the filter",
        ),
        (row["id"].is_in([2]), "a range of the primary key, implied by the filter"),
        (row["id"].is_in([]), "0 ranges of the primary key, implied by the filter"),
        (row["name"].startswith("n12"), "a range of index `name`, implied by the filter"),
        (row["name"].startswith(""), "a range of index `name`, implied by the filter"),
        (row["id"].startswith("p01"), "a range of the primary key, implied by the filter"),
        (row["name"].endswith("2"), "every document"),
        (row["age"].is_in(range(MOST_POINTS + 1)), "every document"),
    ],
)
def test_a_condition_is_looked_up_and_finds_what_a_scan_finds(
    people: reactdb.Table, condition: Any, access: str
) -> None:
    everything = people.run()

    def passes(document: dict[str, Any]) -> bool:
        try:
            return bool(condition(document))
        except reactdb.errors.MissingValue:
            return False

    selection = people.filter(condition)
    assert selection.explain()["access"] == access
    assert selection.run() == [document for document in everything if passes(document)]
    assert selection.skip(1).limit(2).run() == selection.run()[1:3]


def test_a_transaction_finds_its_own_documents_by_their_keys(
    db: reactdb.Database, people: reactdb.Table
) -> None:
    with db.transaction():
        people.insert({"id": 7})
        people.get("p0007").delete()

        assert people.filter(row["id"].is_in([7, "p0007", "p0008"]))["id"].run() == [7, "p0008"]


def test_the_past_is_found_by_its_keys(db: reactdb.Database, people: reactdb.Table) -> None:
    seq = db.seq
    people.get("p0007").delete()
    people.insert({"id": 7})

    then = db.at(seq).table("people").filter(row["id"].is_in([7, "p0007", "p0008"]))

    assert then["id"].run() == ["p0007", "p0008"]


@pytest.mark.parametrize(
    ("condition", "routing"),
    [
        (row["age"].is_in([3, 4]), "hashed by the value of age (2)"),
        (row["id"].is_in([2, 9]), "hashed by the value of id (2)"),
        (row["name"].startswith("n12"), "by a range of name"),
    ],
)
def test_a_change_finds_the_feed_by_its_values(people: reactdb.Table, condition: Any, routing: str) -> None:
    assert people.filter(condition).changes().explain()["routing"] == routing


def test_a_feed_of_keys_follows(people: reactdb.Table) -> None:
    events: list[Any] = []
    feed = people.filter(row["id"].is_in([1, 9, 3])).pluck("id").changes(include_initial=True)
    subscription = feed.subscribe(events.append)

    people.insert([{"id": 8}, {"id": 9}])
    people.get(1).delete()
    subscription.dispose()

    assert events == [
        {"new_val": {"id": 1}},
        {"new_val": {"id": 3}},
        {"old_val": None, "new_val": {"id": 9}},
        {"old_val": {"id": 1}, "new_val": None},
    ]


def test_an_index_keeps_such_a_condition_over_processes(tmp_path: Any) -> None:
    with reactdb.connect(tmp_path / "people.db") as db:
        people = db.table_create("people")
        people.index_create("is_a", row["name"].startswith("a") & row["kind"].is_in(["x", "y"]))
        people.index_create("milk", row["text"].contains("milk"))
        people.insert({"id": 1, "name": "ann", "kind": "x", "text": "buy milk"})
    with reactdb.connect(tmp_path / "people.db") as db:
        people = db.table("people")
        people.insert({"id": 2, "name": "bob", "kind": "x", "text": ["milk"]})

        assert people.get_all(True, index="is_a")["id"].run() == [1]
        assert people.get_all(True, index="milk")["id"].run() == [1, 2]
