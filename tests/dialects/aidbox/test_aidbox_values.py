"""Fields and keys of native documents that mean something else in a resource."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import reactdb
from reactdb.dialects.aidbox import AidboxError


@pytest.fixture
def table(db: Any) -> Any:
    return db.table_create("Patient", primary_key="key")


@pytest.fixture
def patients(db: Any, table: Any) -> Any:
    return reactdb.aidbox(db)["Patient"]


def test_a_field_that_would_mean_something_else_is_shown_and_written_with_a_sign(
    table: Any, patients: Any
) -> None:
    document = {"key": "a", "id": 5, "meta": {"versionId": "x"}, "resourceType": 1, "=id": 2, "==meta": 3}
    table.insert(document)
    shown = patients.read("a")
    assert {name: shown[name] for name in ("id", "=id", "=meta", "=resourceType", "==id", "===meta")} == {
        "id": "a",
        "=id": 5,
        "=meta": {"versionId": "x"},
        "=resourceType": 1,
        "==id": 2,
        "===meta": 3,
    }
    patients.put("a", {**shown, "n": 1})
    assert table.get("a").run() == {**document, "n": 1}


def test_a_resource_that_says_a_field_in_both_ways_is_refused(patients: Any) -> None:
    with pytest.raises(AidboxError, match="has `meta` twice") as refused:
        patients.create({"id": "a", "meta": {"tag": []}, "=meta": 1})
    assert refused.value.status == 422


def test_a_document_that_says_its_type_keeps_it(table: Any, patients: Any) -> None:
    table.insert({"key": "a", "resourceType": "Patient", "meta": {"tag": []}})
    patients.put("a", {**patients.read("a"), "n": 1})
    assert table.get("a").run() == {"key": "a", "resourceType": "Patient", "meta": {"tag": []}, "n": 1}


def only_id(patients: Any) -> str:
    (entry,) = patients.search()["entry"]
    id: str = entry["resource"]["id"]
    return id


@pytest.mark.parametrize("key", [2.0, datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1)))])
def test_a_document_has_one_id_and_keeps_its_key(table: Any, patients: Any, key: Any) -> None:
    table.insert({"key": key, "n": 1})
    id = only_id(patients)
    patients.put(id, {"n": 2})
    assert repr(table.get(key)["key"].run()) == repr(key)
    patients.delete(id)
    assert {one["resource"]["id"] for one in patients.changes(1)["changes"]} == {id}


def test_a_key_that_json_lacks_is_found_by_its_id(table: Any, patients: Any) -> None:
    table.insert({"key": datetime.max.replace(tzinfo=UTC)})
    id = only_id(patients)
    assert patients.read(id)["id"] == id


@pytest.fixture
def alike(table: Any) -> Any:
    """Two resources that are shown under one id, and one beside them."""
    table.insert([{"key": 5, "n": "number"}, {"key": "5", "n": "text"}, {"key": 6, "n": "other"}])
    return table


@pytest.mark.parametrize(
    "write",
    [
        lambda patients: patients.put("5", {"n": "new"}),
        lambda patients: patients.patch("5", {"n": "new"}),
        lambda patients: patients.delete("5"),
        lambda patients: patients.create({"id": "5", "n": "new"}),
    ],
)
def test_of_two_resources_that_are_shown_alike_neither_is_written(
    alike: Any, patients: Any, write: Any
) -> None:
    with pytest.raises(AidboxError, match='is the text "5", that of the other 5;') as refused:
        write(patients)
    assert refused.value.status == 409
    assert [one["n"] for one in alike.order_by(index="key").run()] == ["number", "other", "text"]


def test_a_resource_whose_key_is_a_number_is_written_where_no_text_is_shown_alike(
    alike: Any, patients: Any
) -> None:
    patients.put("6", {"n": "new"})
    assert alike.get(6).run() == {"key": 6, "n": "new"}
