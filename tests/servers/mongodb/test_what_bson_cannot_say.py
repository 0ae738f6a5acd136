"""What other writers store and BSON cannot say: shown otherwise, and never the end of a connection, a stream or a document."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from bson import Binary
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from reactdb import row
from reactdb.dialects.mongodb import entries
from reactdb.dialects.mongodb.commands import cursors
from reactdb.servers.mongodb import conversation
from reactdb.values.codec import UnknownValue
from tests.servers.mongodb.wire import Wire

Client = MongoClient[dict[str, Any]]

# A small number has several bytes in BSON, and one here.
TOO_LARGE = [0] * 8_000


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document may have 64 kB in BSON, so that what is too large is quickly made."""
    for module in (entries, cursors):
        monkeypatch.setattr(module, "MAX_BSON_BYTES", 64 * 1024)


@pytest.fixture
def table(db: Any) -> Any:
    return db.table_create("things", primary_key="_id")


@pytest.fixture
def things(client: Client, table: Any) -> Any:
    return client["reactdb"]["things"]


def test_a_field_whose_name_has_a_nul_is_read_and_streamed(table: Any, things: Any) -> None:
    with things.watch() as stream:
        table.insert([{"_id": 1, "a\0b": {"\0": 1}}, {"_id": 2}])
        assert [next(stream)["fullDocument"] for _ in range(2)] == [
            {"_id": 1, "a␀0b": {"␀0": 1}},
            {"_id": 2},
        ]
    assert list(things.find()) == [{"_id": 1, "a␀0b": {"␀0": 1}}, {"_id": 2}]


def test_such_a_field_is_found_projected_and_changed_by_its_shown_name(table: Any, things: Any) -> None:
    table.insert([{"_id": 1, "a\0b": 1}, {"_id": 2, "a\0b": 2}])
    assert list(things.find({"a␀0b": 2}, {"_id": 0, "a␀0b": 1})) == [{"a␀0b": 2}]
    things.update_one({"_id": 1}, {"$set": {"a␀0b": 5, "c␀0.d␀0": 6}})
    assert table.get(1).run() == {"_id": 1, "a\0b": 5, "c\0": {"d\0": 6}}


@pytest.mark.parametrize("is_native", [False, True])
def test_an_index_on_such_a_field_leads_to_its_documents(table: Any, things: Any, is_native: bool) -> None:
    if is_native:
        table.index_create("on_a", row["a\0b"])
    else:
        things.create_index("a␀0b")
    table.insert([{"_id": number, "a\0b": number} for number in range(5)])
    things.insert_one({"_id": 5, "a␀0b": 3})
    assert [one["_id"] for one in things.find({"a␀0b": 3})] == [3, 5]
    assert things.find({"a␀0b": 3}).explain()["queryPlanner"]["winningPlan"]["stage"] == "FETCH"
    assert all("\0" not in name for index in things.list_indexes() for name in index["key"])


def test_a_stream_of_such_a_field_finds_its_events(table: Any, things: Any) -> None:
    with things.watch([{"$match": {"fullDocument.a␀0b": 3}}]) as stream:
        table.insert([{"_id": number, "a\0b": number} for number in range(5)])
        assert next(stream)["documentKey"] == {"_id": 3}


UNSAYABLE = {
    "day": date(2020, 1, 1),
    "moment": datetime(2020, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC),
    "wait": timedelta(seconds=1),
    "exact": Decimal("1." + "3" * 50),
    "large": 2**70,
    "foreign": UnknownValue(100, b"x"),
    "many": [{"day": date(2020, 1, 1), "n": 1}, {"day": date(2020, 1, 2), "n": 2}, date.max],
}


def test_an_update_of_one_field_leaves_what_bson_cannot_say_as_it_was(table: Any, things: Any) -> None:
    table.insert({"_id": 1, **UNSAYABLE})
    things.update_one({"_id": 1}, {"$set": {"n": 1}})
    things.update_one({"_id": 1}, [{"$set": {"m": {"$add": ["$n", 1]}}}])
    assert table.get(1).run() == {"_id": 1, **UNSAYABLE, "n": 1, "m": 2}


def test_elements_of_an_array_stay_as_they_were_where_others_are_taken_away(table: Any, things: Any) -> None:
    table.insert({"_id": 1, **UNSAYABLE})
    things.update_one({"_id": 1}, {"$pop": {"many": -1}})
    things.update_one({"_id": 1}, {"$push": {"many": {"$each": ["new"], "$position": 0}}})
    things.update_one({"_id": 1}, {"$set": {"many.1.n": 5}})
    assert table.get(1)["many"].run() == ["new", {"day": date(2020, 1, 2), "n": 5}, date.max]


def test_what_is_given_another_value_has_it(table: Any, things: Any) -> None:
    table.insert({"_id": 1, **UNSAYABLE})
    things.update_one({"_id": 1}, {"$set": {"day": "2020-01-02", "foreign": Binary(b"y", 128), "large": 1}})
    found = table.get(1).run()
    assert (found["day"], found["large"], found["moment"]) == ("2020-01-02", 1, UNSAYABLE["moment"])


def test_a_document_of_any_key_is_updated_by_another_field(table: Any, things: Any) -> None:
    keys = [
        date.max,
        [1, 2],
        datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        2**70,
        10**40 + 1,
        timedelta(1),
        b"",
        True,
    ]
    table.insert([{"_id": key, "n": 1} for key in keys])
    assert things.update_many({}, {"$inc": {"n": 1}}).modified_count == len(keys)
    assert [one["n"] for one in table.get_all(*keys)] == [2] * len(keys)


def test_a_document_that_is_too_large_for_bson_is_one_refusal_that_names_it(
    small_limit: None, table: Any, things: Any
) -> None:
    table.insert([{"_id": 1}, {"_id": "large one", "v": TOO_LARGE}, {"_id": 3}])
    with pytest.raises(OperationFailure, match=r"reactdb\.things with _id: 'large one'") as refused:
        list(things.find())
    assert refused.value.code == 10334
    assert [one["_id"] for one in things.find({}, {"_id": 1})] == [1, 3, "large one"]


def test_a_stream_goes_past_a_document_that_is_too_large_for_bson(
    small_limit: None, table: Any, things: Any
) -> None:
    with things.watch(full_document="updateLookup", full_document_before_change="whenAvailable") as stream:
        table.insert({"_id": 1, "v": TOO_LARGE})
        table.get(1).update({"n": 1})
        table.get(1).replace({"_id": 1})
        told = [next(stream) for _ in range(3)]
    assert [one["operationType"] for one in told] == ["insert", "replace", "replace"]
    assert [one["fullDocument"] for one in told] == [None, None, {"_id": 1}]


def test_a_reply_that_cannot_be_written_is_a_refusal_and_not_the_end(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = conversation.execute_command
    with Wire(server.port) as wire:
        monkeypatch.setattr(conversation, "execute_command", lambda *given: {**told(*given), "a\0": 1})
        assert wire.ask({"ping": 1, "$db": "admin"})["code"] == 2
        monkeypatch.undo()
        assert wire.ask({"ping": 1, "$db": "admin"})["ok"] == 1
