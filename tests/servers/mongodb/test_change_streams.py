"""PyMongo's `watch()` over the socket: three levels, resuming, invalidation, and streams that wait."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure

import reactdb
from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.commands.deployment import Deployment
from reactdb.dialects.mongodb.points import cluster_time
from reactdb.dialects.mongodb.stream_waiters import StreamWakers
from reactdb.servers.mongodb import MongoDBServer, serve_in_thread
from reactdb.session import session_of
from tests.servers.mongodb.wire import Wire, message
from tests.support.processes import another_process
from tests.support.threads import PATIENCE_S, started, wait_until

Client = MongoClient[dict[str, Any]]


@pytest.fixture
def orders(client: Client) -> Any:
    return client["shop"]["orders"]


def told(stream: Any, count: int) -> list[dict[str, Any]]:
    """The next events; as many as there must be."""
    return [stream.next() for _ in range(count)]


class TestEvents:
    def test_inserts_updates_replacements_and_deletions_are_told(self, orders: Any) -> None:
        with orders.watch(max_await_time_ms=50) as stream:
            orders.insert_one({"_id": 1, "a": 1, "b": 1})
            orders.update_one({"_id": 1}, {"$set": {"a": 2}, "$unset": {"b": 1}})
            orders.replace_one({"_id": 1}, {"c": 3})
            orders.delete_one({"_id": 1})
            inserted, updated, replaced, deleted = told(stream, 4)
        assert ["insert", "update", "replace", "delete"] == [
            event["operationType"] for event in (inserted, updated, replaced, deleted)
        ]
        assert {"_id": 1, "a": 1, "b": 1} == inserted["fullDocument"]
        assert {"db": "shop", "coll": "orders"} == inserted["ns"]
        assert {"updatedFields": {"a": 2}, "removedFields": ["b"], "truncatedArrays": []} == updated[
            "updateDescription"
        ]
        assert "fullDocument" not in updated
        assert {"_id": 1, "c": 3} == replaced["fullDocument"]
        assert {"_id": 1} == deleted["documentKey"]

    def test_choices_and_what_is_missing_are_told(self, orders: Any) -> None:
        choice = {"$or": [{"fullDocument.user": 5}, {"operationType": "insert", "fullDocument.user": None}]}
        with orders.watch([{"$match": choice}], max_await_time_ms=50) as stream:
            orders.insert_many([{"_id": 1, "user": 6}, {"_id": 2}, {"_id": 3, "user": [4, 5]}])
            orders.delete_one({"_id": 2})
            orders.replace_one({"_id": 1}, {"user": 5})
            assert [2, 3, 1] == [event["documentKey"]["_id"] for event in told(stream, 3)]
            assert stream.try_next() is None

    def test_three_levels(self, client: Client) -> None:
        with (
            client["shop"]["orders"].watch(max_await_time_ms=50) as collection,
            client["shop"].watch(max_await_time_ms=50) as database,
            client.watch(max_await_time_ms=50) as everything,
        ):
            client["shop"]["orders"].insert_one({"_id": 1})
            client["shop"]["others"].insert_one({"_id": 2})
            client["stock"]["orders"].insert_one({"_id": 3})
            assert [1] == [event["documentKey"]["_id"] for event in told(collection, 1)]
            assert collection.try_next() is None
            assert [1, 2] == [event["documentKey"]["_id"] for event in told(database, 2)]
            assert database.try_next() is None
            assert [1, 2, 3] == [event["documentKey"]["_id"] for event in told(everything, 3)]

    def test_what_was_written_before_is_not_told(self, orders: Any) -> None:
        orders.insert_one({"_id": 1})
        with orders.watch(max_await_time_ms=20) as stream:
            assert stream.try_next() is None
            orders.insert_one({"_id": 2})
            assert 2 == stream.next()["documentKey"]["_id"]

    def test_a_pipeline_chooses_events(self, orders: Any) -> None:
        with orders.watch([{"$match": {"fullDocument.n": {"$gt": 5}}}], max_await_time_ms=50) as stream:
            orders.insert_many([{"_id": i, "n": i} for i in range(10)])
            assert [6, 7, 8, 9] == [event["fullDocument"]["n"] for event in told(stream, 4)]

    def test_a_transaction_is_told_when_it_is_committed(self, client: Client, orders: Any) -> None:
        with orders.watch(max_await_time_ms=20) as stream, client.start_session() as session:
            with session.start_transaction():
                orders.insert_one({"_id": 1}, session=session)
                orders.insert_one({"_id": 2}, session=session)
                assert stream.try_next() is None
            one, other = told(stream, 2)
            assert one["clusterTime"] == other["clusterTime"]

    def test_a_table_that_is_written_natively_is_watched(self, client: Client, db: Any) -> None:
        games = db.table_create("games")
        with client["reactdb"]["games"].watch(max_await_time_ms=50) as stream:
            games.insert({"id": "a", "score": 1})
            games.get("a").update({"score": 2})
            inserted, updated = told(stream, 2)
        assert {"_id": "a", "score": 1} == inserted["fullDocument"]
        assert {"score": 2} == updated["updateDescription"]["updatedFields"]


class TestResuming:
    def test_after_any_event(self, orders: Any) -> None:
        with orders.watch(max_await_time_ms=50) as stream:
            orders.insert_many([{"_id": i} for i in range(5)])
            events = told(stream, 5)
        for place, event in enumerate(events):
            with orders.watch(resume_after=event["_id"], max_await_time_ms=20) as stream:
                assert events[place + 1 :] == told(stream, 4 - place)
                assert stream.try_next() is None

    def test_from_a_moment(self, orders: Any) -> None:
        with orders.watch(max_await_time_ms=50) as stream:
            for i in range(3):
                orders.insert_one({"_id": i})
            events = told(stream, 3)
        with orders.watch(start_at_operation_time=events[1]["clusterTime"]) as stream:
            assert events[1:] == told(stream, 2)

    def test_a_quiet_stream_s_token_advances(self, client: Client, orders: Any) -> None:
        with orders.watch(max_await_time_ms=20) as stream:
            before = stream.resume_token
            client["shop"]["others"].insert_one({"_id": 1})
            assert stream.try_next() is None
            after = stream.resume_token
        assert before["_data"] < after["_data"]
        with orders.watch(resume_after=after, max_await_time_ms=20) as stream:
            assert stream.try_next() is None

    @pytest.mark.parametrize("code", [6, 358, 462, 10107])
    def test_the_driver_goes_on_after_a_failure(self, client: Client, orders: Any, code: int) -> None:
        with orders.watch(max_await_time_ms=50) as stream:
            orders.insert_one({"_id": 1})
            assert 1 == stream.next()["documentKey"]["_id"]
            client.admin.command(
                "configureFailPoint",
                "failGetMoreAfterCursorCheckout",
                mode={"times": 1},
                data={"errorCode": code, "closeConnection": False},
            )
            orders.insert_one({"_id": 2})
            assert 2 == stream.next()["documentKey"]["_id"]

    def test_the_driver_goes_on_after_its_cursor_was_killed(self, client: Client, orders: Any) -> None:
        with orders.watch(max_await_time_ms=50) as stream:
            orders.insert_one({"_id": 1})
            stream.next()
            client["shop"].command("killCursors", "orders", cursors=[stream._cursor.cursor_id])
            orders.insert_one({"_id": 2})
            assert 2 == stream.next()["documentKey"]["_id"]

    @pytest.mark.slow
    @pytest.mark.parametrize("is_open", [True, False])
    def test_after_the_server_was_stopped_and_started_again(self, path: Path, is_open: bool) -> None:
        with reactdb.connect(path) as db, serve_in_thread(db) as server:
            port = server.port
            client: Client = MongoClient(server.uri, serverSelectionTimeoutMS=int(PATIENCE_S * 1000))
            orders = client["shop"]["orders"]
            stream = orders.watch(max_await_time_ms=50)
            orders.insert_many([{"_id": i} for i in range(3)])
            first = stream.next()
        with reactdb.connect(path) as db, serve_in_thread(db, port=port):
            if not is_open:
                stream.close()
                stream = orders.watch(resume_after=first["_id"])
            orders.insert_one({"_id": 3})
            assert [1, 2, 3] == [event["documentKey"]["_id"] for event in told(stream, 3)]
            stream.close()
            client.close()


class TestTheEndOfAStream:
    def test_a_dropped_collection_invalidates(self, client: Client, orders: Any) -> None:
        orders.insert_one({"_id": 1})
        with orders.watch(max_await_time_ms=50) as stream:
            orders.drop()
            assert ["drop", "invalidate"] == [event["operationType"] for event in told(stream, 2)]
            assert stream.try_next() is None
            assert not stream.alive
            last = stream.resume_token
        with pytest.raises(OperationFailure) as caught:
            orders.watch(resume_after=last)
        assert 260 == caught.value.code
        orders.insert_one({"_id": 2})
        with orders.watch(start_after=last) as stream:
            assert 2 == stream.next()["documentKey"]["_id"]

    def test_a_token_that_the_pipeline_removes_is_an_error(self, orders: Any, server: MongoDBServer) -> None:
        stream = orders.watch([{"$project": {"_id": 0}}], max_await_time_ms=50)
        orders.insert_one({"_id": 1})
        with pytest.raises(OperationFailure) as caught:
            stream.next()
        assert 280 == caught.value.code
        assert caught.value.has_error_label("NonResumableChangeStreamError")
        assert 0 == len(server.deployment.cursors)

    def test_unknown_options_have_their_codes(self, client: Client) -> None:
        for code, options in (
            (40415, {"nonsense": 1}),
            (2, {"fullDocument": "whatever"}),
            (14, {"fullDocument": 1}),
        ):
            with pytest.raises(OperationFailure) as caught:
                client["shop"].command(
                    "aggregate", "orders", pipeline=[{"$changeStream": options}], cursor={}
                )
            assert code == caught.value.code

    def test_to_explain_one_opens_none(self, client: Client, orders: Any) -> None:
        told = client["shop"].command("aggregate", "orders", pipeline=[{"$changeStream": {}}], explain=True)
        assert "cursor" not in told

    def test_stages_have_the_variables_of_the_command(self, client: Client, orders: Any) -> None:
        condition = {"$expr": {"$eq": ["$documentKey._id", "$$wanted"]}}
        pipeline = [{"$changeStream": {}}, {"$match": condition}, {"$set": {"now": "$$NOW", "x": "$$wanted"}}]
        asked = {
            "aggregate": "orders",
            "pipeline": pipeline,
            "cursor": {},
            "let": {"wanted": {"$add": [1, 1]}},
        }
        cursor = client["shop"].command(asked)["cursor"]
        orders.insert_many([{"_id": number} for number in range(4)])
        batch = client["shop"].command({"getMore": cursor["id"], "collection": "orders"})["cursor"][
            "nextBatch"
        ]
        assert [2] == [event["x"] for event in batch]

    def test_expanded_events_are_not_of_the_stable_api(self, client: Client, orders: Any) -> None:
        command = {
            "aggregate": orders.name,
            "pipeline": [{"$changeStream": {"showExpandedEvents": False}}],
            "cursor": {},
            "apiVersion": "1",
            "apiStrict": True,
        }

        with pytest.raises(OperationFailure) as caught:
            orders.database.command(command)

        assert caught.value.code == 323

    def test_in_a_transaction_it_is_refused(self, client: Client, orders: Any) -> None:
        with client.start_session() as session:
            session.start_transaction()
            with pytest.raises(OperationFailure) as caught:
                orders.watch(session=session)
            assert 263 == caught.value.code


class TestWaiting:
    def test_a_write_ends_the_wait_at_once(self, orders: Any) -> None:
        with orders.watch(max_await_time_ms=int(PATIENCE_S * 1000)) as stream:
            thread, found = started(stream.next)
            orders.insert_one({"_id": 1})
            thread.join(PATIENCE_S / 2)
            assert [1] == [event["documentKey"]["_id"] for event in found]

    @pytest.mark.slow
    def test_a_thousand_streams_that_wait_take_no_thread(self, server: MongoDBServer, client: Client) -> None:
        wires = [Wire(server.port) for _ in range(200)]
        try:
            before = threading.active_count()
            for wire in wires:
                answer = wire.ask(
                    {"aggregate": "orders", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "shop"}
                )
                wire.send(
                    message(
                        {
                            "getMore": answer["cursor"]["id"],
                            "collection": "orders",
                            "maxTimeMS": int(PATIENCE_S * 1000),
                            "$db": "shop",
                        }
                    )
                )
            assert 1.0 == client.admin.command("ping")["ok"]
            assert threading.active_count() <= before + 8
            client["shop"]["orders"].insert_one({"_id": 1})
            for wire in wires:
                (event,) = wire.receive()[1]["cursor"]["nextBatch"]
                assert {"_id": 1} == event["documentKey"]
        finally:
            for wire in wires:
                wire.socket.close()

    def test_an_answer_does_not_wait_for_those_who_are_told(
        self, server: MongoDBServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The event follows it, without another request."""
        answered = threading.Event()
        took: list[bool] = []
        take_in = StreamWakers._handle_changes

        def take_in_late(*arguments: Any) -> None:
            took.append(answered.wait(PATIENCE_S))
            take_in(*arguments)

        with Wire(server.port) as writer, Wire(server.port) as reader:
            writer.ask({"insert": "orders", "documents": [{"_id": 0}], "$db": "shop"})
            opened = reader.ask(
                {"aggregate": "orders", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "shop"}
            )
            more = {"getMore": Int64(opened["cursor"]["id"]), "collection": "orders", "maxTimeMS": 60_000}
            reader.send(message({**more, "$db": "shop"}))
            # Its waiting is begun by the command's own socket, and seen here.
            (cursor,) = server.deployment.cursors._open.values()
            wait_until(lambda: cursor._waiter is not None)  # type: ignore[attr-defined]
            monkeypatch.setattr(StreamWakers, "_handle_changes", take_in_late)
            assert 1 == writer.ask({"insert": "orders", "documents": [{"_id": 1}], "$db": "shop"})["n"]
            answered.set()
            (event,) = reader.receive()[1]["cursor"]["nextBatch"]
        assert ([True], {"_id": 1}) == (took, event["documentKey"])

    def test_what_is_sent_goes_at_once(self, server: MongoDBServer) -> None:
        """The system does not wait for more, or for the client to confirm what was sent before."""
        with Wire(server.port) as wire:
            wire.ask({"ping": 1})
            (connection,) = server._connections
            own = connection._transport.get_extra_info("socket")
            assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    def test_a_getmore_that_waits_is_ended_by_killing_its_cursor(
        self, server: MongoDBServer, client: Client
    ) -> None:
        with Wire(server.port) as wire:
            opened = wire.ask(
                {"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "shop"}
            )
            number = opened["cursor"]["id"]
            assert isinstance(number, Int64)
            wire.send(
                message(
                    {
                        "getMore": number,
                        "collection": "$cmd.aggregate",
                        "maxTimeMS": int(PATIENCE_S * 1000),
                        "$db": "shop",
                    }
                )
            )
            cursor = server.deployment.cursors.find(number)
            assert cursor is not None
            wait_until(lambda: cursor.is_busy)
            told = client["shop"].command("killCursors", "$cmd.aggregate", cursors=[number])
            assert [number] == told["cursorsKilled"]
            assert 237 == wire.receive()[1]["code"]

    def test_a_client_that_goes_leaves_the_cursor_to_others(
        self, server: MongoDBServer, client: Client
    ) -> None:
        with Wire(server.port) as wire:
            opened = wire.ask(
                {"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "shop"}
            )
            more = {"getMore": opened["cursor"]["id"], "collection": "$cmd.aggregate", "$db": "shop"}
            wire.send(message({**more, "maxTimeMS": int(PATIENCE_S * 1000)}))
            cursor = server.deployment.cursors.find(opened["cursor"]["id"])
            assert cursor is not None
            wait_until(lambda: cursor.is_busy)
        wait_until(lambda: not cursor.is_busy)
        client["shop"]["orders"].insert_one({"_id": 1})
        with Wire(server.port) as wire:
            (event,) = wire.ask(more)["cursor"]["nextBatch"]
            assert {"_id": 1} == event["documentKey"]

    def test_a_quiet_getmore_takes_as_long_as_it_was_told(self, server: MongoDBServer) -> None:
        with Wire(server.port) as wire:
            opened = wire.ask(
                {"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "shop"}
            )
            more = {"getMore": opened["cursor"]["id"], "collection": "$cmd.aggregate", "$db": "shop"}
            answer = wire.ask({**more, "maxTimeMS": 1})["cursor"]
        assert [] == answer["nextBatch"]
        assert opened["cursor"]["id"] == answer["id"]
        assert "postBatchResumeToken" in answer


def test_an_answer_tells_the_newest_commit_whoever_made_it(tmp_path: Path) -> None:
    """A client may begin a stream at this moment, and misses nothing that is written after the answer."""
    path = tmp_path / "shop.db"
    with reactdb.connect(path) as db, another_process(path) as other:
        deployment = Deployment(db)
        mine, others = reactdb.mongodb(db)["shop"]["orders"], reactdb.mongodb(other)["shop"]["orders"]

        def newest() -> Timestamp:
            with session_of(db).engine.fresh_snapshot() as snapshot:
                entry = snapshot.entry(snapshot.seq)
                assert entry is not None
                return Timestamp(*cluster_time(entry))

        told = []
        for write in (mine, mine, others, others, mine, others, mine):
            write.insert_many([{}, {}])
            told.append(deployment.operation_time())

            assert newest() == told[-1] == deployment.operation_time()
        assert told == sorted(set(told))


class TestStateThenChanges:
    def read(self, client: Client) -> tuple[list[int], Timestamp]:
        found = client["shop"].command("find", "orders", readConcern={"level": "snapshot"})["cursor"]
        moment = found["atClusterTime"]
        return [one["_id"] for one in found["firstBatch"]], Timestamp(moment.time, moment.inc + 1)

    def test_a_stream_goes_on_exactly_where_a_snapshot_was_read(
        self, db: reactdb.Database, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        orders = client["shop"]["orders"]
        orders.insert_many([{"_id": 1}, {"_id": 2}])
        original = CollectionWork.find

        def find(self: CollectionWork, command: Any) -> Any:
            found = list(original(self, command))
            # Somebody writes after the documents were read, and before the answer is made.
            db.table("shop.orders").insert({"_id": 3})
            return iter(found)

        monkeypatch.setattr(CollectionWork, "find", find)
        state, then = self.read(client)
        monkeypatch.undo()
        assert [1, 2] == state
        with orders.watch(start_at_operation_time=then, max_await_time_ms=1) as stream:
            assert {"_id": 3} == stream.next()["documentKey"]
            assert stream.try_next() is None

    def test_a_snapshot_of_a_file_without_commits_is_empty(self, client: Client) -> None:
        state, then = self.read(client)
        assert [] == state
        client["shop"]["orders"].insert_one({"_id": 1})
        with client["shop"]["orders"].watch(start_at_operation_time=then) as stream:
            assert {"_id": 1} == stream.next()["documentKey"]
