"""The profiler: `profile` and the collection `system.profile`, over a socket."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Decimal128, Int64
from pymongo import DeleteOne, MongoClient, UpdateOne
from pymongo.errors import OperationFailure

import reactdb
from reactdb.dialects.mongodb.commands import Deployment, execute_command
from reactdb.servers.mongodb import serve_in_thread
from reactdb.servers.users import Credentials

Client = MongoClient[dict[str, Any]]


@pytest.fixture
def shop(client: Client) -> Any:
    """A database that is profiled from here on."""
    database = client["shop"]
    database["orders"].insert_many([{"_id": number, "n": number} for number in range(5)])
    assert {"was": 0, "slowms": 100, "sampleRate": 1.0, "ok": 1.0}.items() <= database.command(
        "profile", 2
    ).items()
    return database


def noted(shop: Any, *fields: str, **wanted: Any) -> list[Any]:
    """These fields of all entries, in order, without those of such questions."""
    found = shop["system.profile"].find({"ns": {"$ne": "shop.system.profile"}, **wanted})
    return [tuple(entry.get(field) for field in fields) if fields else entry for entry in found]


def test_each_operation_has_an_entry_as_mongodb_names_it(shop: Any) -> None:
    orders = shop["orders"]
    orders.insert_one({"_id": 9})
    orders.update_one({"_id": 9}, {"$set": {"n": 9}})
    orders.delete_one({"_id": 9})
    orders.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}})
    orders.count_documents({})
    orders.distinct("n")
    orders.create_index("n")
    shop.command("ping")
    shop.aggregate([{"$documents": [{"a": 1}]}])
    assert noted(shop, "op", "ns") == [
        ("insert", "shop.orders"),
        ("update", "shop.orders"),
        ("remove", "shop.orders"),
        ("command", "shop.orders"),
        ("command", "shop.orders"),
        ("command", "shop.orders"),
        ("command", "shop.orders"),
        ("command", "shop.$cmd"),
        ("command", "shop.$cmd.aggregate"),
    ]


def test_an_entry_says_what_was_asked_and_what_came(shop: Any) -> None:
    orders = shop["orders"]
    assert len(list(orders.find({"n": {"$gte": 1}}, batch_size=3, comment="looked for"))) == 4
    orders.insert_many([{"_id": 7, "text": "x"}, {"_id": 8}])
    query, more, insert = noted(shop)
    assert ("query", 3, "looked for") == (query["op"], query["nreturned"], query["command"]["comment"])
    assert {"n": {"$gte": 1}} == query["command"]["filter"]
    assert ("getmore", "shop.orders", 1, True) == (
        more["op"],
        more["ns"],
        more["nreturned"],
        more["cursorExhausted"],
    )
    assert query["cursorid"] == more["command"]["getMore"]
    assert (2, "documents" in insert["command"]) == (insert["ninserted"], False)
    for entry in (query, more, insert):
        assert "op_msg" == entry["protocol"]
        assert 0 <= entry["millis"] < 60_000
        assert entry["responseLength"] > 50
        assert "127.0.0.1" == entry["client"]
    assert query["ts"] <= more["ts"] <= insert["ts"]


def test_each_statement_has_an_entry(shop: Any) -> None:
    shop["orders"].delete_many({"_id": "none"}, comment="why", hint="_id_")
    asked = {"q": {"_id": "none"}, "limit": 0, "comment": "why", "hint": {"$hint": "_id_"}}
    assert [(asked,)] == noted(shop, "command", op="remove")
    shop.command("profile", 0)
    shop["system.profile"].drop()
    shop.command("profile", 2)
    shop["orders"].bulk_write(
        [
            UpdateOne({"_id": 1}, {"$set": {"n": 2}}),
            UpdateOne({"_id": 2}, {"$set": {"n": 2}}),
            DeleteOne({"_id": 3}),
        ]
    )
    assert [("update", 1), ("update", 2), ("remove", 3)] == [
        (op, command["q"]["_id"]) for op, command in noted(shop, "op", "command")
    ]


def test_an_error_is_noted(shop: Any) -> None:
    with pytest.raises(OperationFailure):
        list(shop["orders"].find({"n": {"$wrong": 1}}))
    (entry,) = noted(shop)
    assert (0, 2, "BadValue") == (entry["ok"], entry["errCode"], entry["errName"])
    assert "$wrong" in entry["errMsg"]


def test_nothing_is_noted_at_level_0_and_of_other_databases(shop: Any, client: Client) -> None:
    client["other"]["orders"].insert_one({})
    assert 2 == shop.command("profile", -1)["was"]
    assert 2 == shop.command("profile", 0)["was"]
    assert 0 == shop.command("profile", -1)["was"]
    shop["orders"].find_one()
    assert [] == noted(shop)
    assert "system.profile" not in client["other"].list_collection_names()


def test_level_1_notes_what_is_slow_and_of_that_a_part(shop: Any) -> None:
    shop.command("profile", 1, slowms=10_000_000)
    shop["orders"].find_one()
    assert [] == noted(shop)
    shop.command("profile", 1, slowms=-1)
    shop["orders"].find_one()
    assert [("query",)] == noted(shop, "op")
    before = shop.command("profile", 1, sampleRate=0.0)
    assert (1, -1) == (before["was"], before["slowms"])
    shop["orders"].find_one()
    assert [("query",)] == noted(shop, "op")


def test_a_filter_decides_in_place_of_the_time(shop: Any) -> None:
    shop.command("profile", 1, slowms=10_000_000, filter={"op": "query", "nreturned": {"$gte": 2}})
    list(shop["orders"].find({"_id": 1}))
    list(shop["orders"].find({"_id": {"$lte": 1}}))
    before = shop.command("profile", 0, filter="unset")
    assert ({"op": {"$eq": "query"}, "nreturned": {"$gte": 2}}, True) == (before["filter"], "note" in before)
    assert "filter" not in shop.command("profile", -1)
    assert [("query", 2)] == noted(shop, "op", "nreturned")


def test_the_collection_is_capped_and_dropped_only_when_nothing_is_noted(shop: Any) -> None:
    assert shop["system.profile"].options() == {"capped": True, "size": 1 << 20}
    with pytest.raises(OperationFailure) as refused:
        shop["system.profile"].drop()
    assert 20 == refused.value.code
    shop.command("profile", 0)
    shop["system.profile"].drop()
    assert "system.profile" not in shop.list_collection_names()
    shop.command("profile", 2)
    shop.client.drop_database("shop")
    assert 0 == shop.command("profile", -1)["was"]
    shop["orders"].insert_one({})
    assert ["orders"] == shop.list_collection_names()


def test_a_large_command_is_noted_by_its_beginning(shop: Any) -> None:
    shop["orders"].count_documents({"n": "x" * 60_000})
    ((command,),) = noted(shop, "command")
    assert list(command) == ["$truncated"]
    assert len(command["$truncated"]) == 50_000
    assert command["$truncated"].startswith("{'aggregate': 'orders'")


def test_change_streams_and_transactions_do_not_see_it(shop: Any, client: Client) -> None:
    with shop.watch(show_expanded_events=True) as stream, client.start_session() as session:
        with session.start_transaction():
            shop["orders"].insert_one({"_id": "kept"}, session=session)
            session.abort_transaction()
        shop["orders"].insert_one({"_id": "told"})
        assert "told" == next(stream)["documentKey"]["_id"]
    assert 2 == len(noted(shop, op="insert"))


@pytest.mark.parametrize(
    ("code", "level", "options"),
    [
        (14, "all", {}),
        (14, 1, {"slowms": "x"}),
        (2, 1, {"sampleRate": 2}),
        (2, 1, {"filter": 1}),
        (2, 1, {"filter": {"a": {"$wrong": 1}}}),
        (40415, 1, {"other": 1}),
    ],
)
def test_what_it_cannot_be_is_refused_and_changes_nothing(
    client: Client, code: int, level: Any, options: dict[str, Any]
) -> None:
    shop = client["shop"]
    with pytest.raises(OperationFailure) as refused:
        shop.command("profile", level, **options)
    assert code == refused.value.code
    now = shop.command("profile", -1)
    assert (0, 100, 1.0) == (now["was"], now["slowms"], now["sampleRate"])


def test_in_the_process_it_is_refused() -> None:
    with reactdb.connect(":memory:") as db:
        shop = reactdb.mongodb(db)["shop"]
        assert 0 == shop.command("profile", -1)["was"]
        with pytest.raises(OperationFailure) as refused:
            shop.command("profile", 2)
        assert 115 == refused.value.code


def test_an_entry_that_cannot_be_written_changes_no_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with reactdb.connect(":memory:") as db:
        deployment = Deployment(db)
        client = deployment.client(("127.0.0.1", 1), lambda: None)

        def ask(**body: Any) -> Any:
            return execute_command({**body, "$db": "shop"}, client)

        ask(profile=2)

        def fails(*arguments: Any) -> None:
            raise reactdb.errors.DiskFull("full")

        monkeypatch.setattr("reactdb.dialects.mongodb.commands.profiler.CollectionWork.insert", fails)
        assert 1.0 == ask(ping=1)["ok"]
        assert "could not be noted" in caplog.text
        monkeypatch.undo()
        ask(ping=1)
        assert 1 == ask(count="system.profile")["n"]
        deployment.close()


@pytest.mark.parametrize(
    ("level", "then"),
    [(1, 1), (2.9, 2), (Int64(2), 2), (Decimal128("1"), 1), (3, 0), (-2, 0), (100, 0)],
)
def test_numbers_of_any_kind_are_levels_and_what_is_none_only_asks(
    client: Client, level: Any, then: int
) -> None:
    client["farm"].command("profile", level, slowms=Decimal128("20"), sampleRate=Decimal128("0.5"))
    said = client["farm"].command("profile", -1)
    assert (then, 20, 0.5) == (said["was"], said["slowms"], said["sampleRate"])


@pytest.mark.parametrize(
    ("asked", "code"),
    [({"profile": None}, 40414), ({"profile": 2, "filter": None}, 2), ({"profile": 2, "slowms": True}, 14)],
)
def test_null_is_no_level_and_no_filter(client: Client, asked: dict[str, Any], code: int) -> None:
    with pytest.raises(OperationFailure) as refused:
        client["farm"].command(asked)
    assert code == refused.value.code
    assert 0 == client["farm"].command("profile", -1)["was"]


def test_what_came_of_an_update_and_a_delete_is_noted(shop: Any) -> None:
    shop["orders"].update_many({"_id": {"$lt": 2}}, {"$set": {"n": 1}})
    shop["orders"].update_one({"_id": 9}, {"$set": {"n": 1}}, upsert=True)
    shop["orders"].delete_many({"n": 1})
    assert [(2, 1, 0), (0, 0, 1)] == noted(shop, "nMatched", "nModified", "nUpserted", op="update")
    assert [(3,)] == noted(shop, "ndeleted", op="remove")


def test_a_filter_that_fails_changes_no_answer(shop: Any, caplog: pytest.LogCaptureFixture) -> None:
    shop.command("profile", 2, filter={"$expr": {"$divide": ["$nreturned", 0]}})
    assert 5 == len(list(shop["orders"].find()))
    assert "could not be noted" in caplog.text
    shop.command("profile", 0)
    assert [] == noted(shop)


def test_a_command_that_cannot_be_is_noted_with_its_error(shop: Any) -> None:
    for command in ({"update": "orders", "updates": [{}]}, {"count": 1}, {"nothing": 1}):
        with pytest.raises(OperationFailure):
            shop.command(command)
    assert [40414, 73, 59] == [code for (code,) in noted(shop, "errCode")]


def test_no_proof_of_a_password_is_noted_and_nothing_of_who_has_none(db: Any) -> None:
    with (
        serve_in_thread(db, credentials=Credentials("ann", "secret")) as server,
        MongoClient(server.uri, username="ann", password="secret") as ann,
        MongoClient(server.uri) as stranger,
    ):
        ann["admin"].command("profile", 2)
        with pytest.raises(OperationFailure, match="requires authentication"):
            stranger["admin"]["orders"].find_one()
        with (
            MongoClient(server.uri, username="ann", password="wrong") as wrong,
            pytest.raises(OperationFailure),
        ):
            wrong["admin"].command("ping")
        with MongoClient(server.uri, username="ann", password="secret") as again:
            again["admin"]["orders"].find_one()
        ann["admin"].command("profile", 0)
        entries = list(ann["admin"]["system.profile"].find())
        found = [(entry["ns"], entry["user"]) for entry in entries if entry["op"] == "query"]
        assert [("admin.orders", "ann@admin")] == found
        said = {next(iter(entry["command"])) for entry in entries}
        assert said.isdisjoint({"saslStart", "saslContinue", "hello", "isMaster", "ismaster"})


def test_a_server_that_lets_everybody_in_notes_no_proof_either(client: Client) -> None:
    admin = client["admin"]
    admin.command("profile", 2)
    with pytest.raises(OperationFailure):
        admin.command("saslStart", mechanism="SCRAM-SHA-256", payload=b"n,,n=ann,r=abc")
    with pytest.raises(OperationFailure):
        admin.command("saslContinue", conversationId=1, payload=b"c=biws,r=abc,p=proof")
    admin.command("hello", speculativeAuthenticate={"saslStart": 1, "payload": b"n,,n=ann,r=abc"})
    admin.command("ping")
    said = [next(iter(entry["command"])) for entry in admin["system.profile"].find()]
    assert {"ping"} == {name for name in said if name != "find"}
