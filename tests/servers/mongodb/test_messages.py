"""Messages of MongoDB's protocol: what is one, what is answered, and what closes the connection."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import bson
import pytest
from bson import Code
from bson.raw_bson import RawBSONDocument

import reactdb
from reactdb.servers.mongodb import Limits, serve_in_thread
from reactdb.servers.mongodb.messages import BrokenMessage, Message, crc32c, read_message
from tests.fuzz.bson_documents import deep_bson
from tests.servers.mongodb.wire import Wire, framed, message, query
from tests.support.threads import wait_until


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with (
        reactdb.connect(":memory:") as db,
        serve_in_thread(db, limits=Limits(message_s=0.3), for_testing=True) as server,
    ):
        yield server.port


class TestMessages:
    def test_a_body_and_sequences_are_one_command(self) -> None:
        data = message({"insert": "orders", "$db": "shop"}, sequences={"documents": [{"a": 1}, {"a": 2}]})
        found = read_message(data)
        assert {"insert": "orders", "$db": "shop", "documents": [{"a": 1}, {"a": 2}]} == found.body
        assert not found.is_silent

    def test_more_to_come_wants_no_answer(self) -> None:
        assert read_message(message({"ping": 1, "$db": "a"}, flags=2)).is_silent

    def test_a_checksum_is_checked(self) -> None:
        assert 0xE3069283 == crc32c(b"123456789")
        content = struct.pack("<I", 1) + b"\0" + bson.encode({"ping": 1})
        whole = framed(content + b"1234", 2013)
        right = whole[:-4] + struct.pack("<I", crc32c(whole[:-4]))
        assert {"ping": 1} == read_message(right).body
        with pytest.raises(BrokenMessage, match="checksum"):
            read_message(whole)

    def test_an_answer_is_read_by_the_same_function(self) -> None:
        answer = Message(7, {}).answer({"ok": 1.0}, 3)
        assert {"ok": 1.0} == read_message(answer).body

    @pytest.mark.parametrize(
        "data",
        [
            message({"ping": 1}, flags=4),
            message({"ping": 1}) + b"\0",
            framed(struct.pack("<I", 0), 2013) + b"\2\0\0\0\0",
            framed(
                struct.pack("<I", 0) + b"\0" + bson.encode({"a": 1}) + b"\0" + bson.encode({"b": 1}), 2013
            ),
            framed(struct.pack("<I", 0) + b"\1" + struct.pack("<i", 7) + b"a\0\0", 2013),
            framed(struct.pack("<I", 0) + b"\0" + struct.pack("<i", 99) + b"\0", 2013),
            message({"documents": 1}, sequences={"documents": []}),
            query({"find": "a"}, "shop.orders"),
        ],
    )
    def test_what_is_no_message_is_refused(self, data: bytes) -> None:
        with pytest.raises(BrokenMessage):
            read_message(data)

    def test_no_cut_message_is_taken_for_one(self) -> None:
        data = message({"insert": "a", "$db": "b"}, sequences={"documents": [{"a": "text"}]})
        for length in range(21, len(data)):
            try:
                read_message(data[:length])
            except BrokenMessage:
                continue
            # What is left of the sections is whole: the sequence was cut away.
            assert length == len(message({"insert": "a", "$db": "b"}))


class TestOverTheSocket:
    def test_a_command_is_answered(self, port: int) -> None:
        with Wire(port) as wire:
            assert 1.0 == wire.ask({"ping": 1})["ok"]

    def test_an_old_driver_begins_with_op_query(self, port: int) -> None:
        with Wire(port) as wire:
            wire.send(query({"ismaster": 1, "helloOk": True}))
            opcode, answer = wire.receive()
            assert (1, True, True) == (opcode, answer["ismaster"], answer["helloOk"])
            assert 1.0 == wire.ask({"ping": 1})["ok"]

    def test_a_silent_command_is_carried_out_without_an_answer(self, port: int) -> None:
        with Wire(port) as wire:
            wire.send(message({"nonsense": 1, "$db": "admin"}, flags=2))
            assert {"you"} <= wire.ask({"whatsmyuri": 1}).keys()

    def test_an_unknown_command_is_59(self, port: int) -> None:
        with Wire(port) as wire:
            answer = wire.ask({"whatever": 1})
            assert (0.0, 59, "CommandNotFound", "no such command: 'whatever'") == tuple(
                answer[name] for name in ("ok", "code", "codeName", "errmsg")
            )

    @pytest.mark.parametrize(
        "data",
        [
            b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
            framed(b"\0\0\0\0", 2012),
            struct.pack("<iiii", 48_000_000 + 16_385, 1, 0, 2013),
            struct.pack("<iiii", 3, 1, 0, 2013),
            struct.pack("<iiii", -1, 1, 0, 2013),
            message({"ping": 1, "$db": "admin"}, flags=4),
        ],
    )
    def test_what_is_no_message_closes_the_connection(self, port: int, data: bytes) -> None:
        with Wire(port) as wire:
            wire.send(data)
            assert wire.is_closed()

    @pytest.mark.parametrize("levels", [300, 990, 1_000, 5_000])
    def test_a_document_that_is_nested_too_deeply_is_told_and_the_connection_stays(
        self, port: int, levels: int
    ) -> None:
        with Wire(port) as wire:
            deep = RawBSONDocument(deep_bson(levels))
            answer = wire.ask({"insert": "games", "documents": [{"a": deep}], "$db": "test"})
            code = answer["writeErrors"][0]["code"] if "writeErrors" in answer else answer["code"]
            assert code in (2, 15)
            assert 1.0 == wire.ask({"ping": 1})["ok"]

    def test_bytes_that_are_no_bson_are_told_and_the_connection_stays(self, port: int) -> None:
        with Wire(port) as wire:
            data = bytearray(message({"ping": 1, "$db": "admin"}))
            # The type of the first field.
            data[25] = 0x55
            wire.send(bytes(data))
            _, answer = wire.receive()
            assert (0.0, 22) == (answer["ok"], answer["code"])
            assert 1.0 == wire.ask({"ping": 1})["ok"]

    def test_code_is_no_name_of_a_database(self, port: int) -> None:
        with Wire(port) as wire:
            assert 40414 == wire.ask({"find": "games", "$db": Code("test")})["code"]

    def test_many_commands_may_be_sent_ahead(self, port: int) -> None:
        with Wire(port) as wire:
            wire.send(message({"ping": 1, "$db": "admin"}) * 100)
            assert [1.0] * 100 == [wire.receive()[1]["ok"] for _ in range(100)]

    def test_a_request_that_does_not_end_is_given_up(self, port: int) -> None:
        with Wire(port) as wire:
            assert 1.0 == wire.ask({"ping": 1})["ok"]
            wire.send(message({"ping": 1, "$db": "admin"})[:-1])
            assert wire.is_closed()


class TestWhatAllCommandsHaveInCommon:
    def codes(self, port: int, *bodies: dict[str, Any]) -> list[int | None]:
        with Wire(port) as wire:
            return [wire.ask(body).get("code") for body in bodies]

    def test_the_names_of_commands_are_written_in_any_case(self, port: int) -> None:
        assert [None] * 3 == self.codes(port, {"PING": 1}, {"buildinfo": 1}, {"isMaster": 1})

    def test_an_unknown_field_is_refused_where_the_command_is_strict(self, port: int) -> None:
        assert [40415] == self.codes(port, {"killCursors": "a", "cursors": [], "nonsense": 1})

    def test_the_version_of_the_interface_is_1(self, port: int) -> None:
        assert [None, 322, 4886600] == self.codes(
            port,
            {"ping": 1, "apiVersion": "1", "apiStrict": True},
            {"ping": 1, "apiVersion": "2"},
            {"ping": 1, "apiStrict": True},
        )

    @pytest.mark.parametrize("kind", ["find", "aggregate"])
    def test_a_cursor_outlives_the_connection_that_has_opened_it(self, port: int, kind: str) -> None:
        """What bounds its reading is the budget of the client that reads, and not of the one that has gone."""
        opened = {"pipeline": [], "cursor": {"batchSize": 1}} if kind == "aggregate" else {"batchSize": 1}
        with Wire(port) as wire:
            wire.ask({"insert": "c", "documents": [{"_id": number} for number in range(5)], "$db": "d"})
            number = wire.ask({kind: "c", "$db": "d", **opened})["cursor"]["id"]
        with Wire(port) as wire:
            wait_until(lambda: wire.ask({"serverStatus": 1, "$db": "admin"})["connections"]["current"] == 1)
            rest = wire.ask({"getMore": number, "collection": "c", "$db": "d"})
        assert [1, 2, 3, 4] == [document["_id"] for document in rest["cursor"]["nextBatch"]]

    def test_fail_points_strike_as_often_as_was_ordered(self, port: int) -> None:
        order = {
            "configureFailPoint": "failCommand",
            "mode": {"times": 2},
            "data": {"failCommands": ["ping"], "errorCode": 91},
        }
        with Wire(port) as wire:
            wire.ask(order)
            answers = [wire.ask({"ping": 1}) for _ in range(3)]
        assert [91, 91, None] == [answer.get("code") for answer in answers]
        assert "errorLabels" not in answers[0]

    def test_a_fail_point_for_one_program_strikes_its_first_hello(self, port: int) -> None:
        order = {
            "configureFailPoint": "failCommand",
            "mode": "alwaysOn",
            "data": {"failCommands": ["hello", "ismaster"], "errorCode": 91, "appName": "one"},
        }
        with Wire(port) as wire:
            wire.ask(order)
        codes = {}
        for name in ("one", "other"):
            with Wire(port) as wire:
                client = {"application": {"name": name}}
                codes[name] = [
                    wire.ask({"hello": 1, "client": client}).get("code"),
                    wire.ask({"isMaster": 1}).get("code"),
                ]

        assert {"one": [91, 91], "other": [None, None]} == codes

    def test_fail_points_exist_only_where_the_server_was_started_for_testing(self) -> None:
        with reactdb.connect(":memory:") as db, serve_in_thread(db) as server, Wire(server.port) as wire:
            assert 59 == wire.ask({"configureFailPoint": "failCommand", "mode": "off"})["code"]


@pytest.mark.parametrize("seed", range(4))
def test_broken_requests_harm_nobody_else(port: int, seed: int) -> None:
    chance = Random(seed)
    sound = [
        message({"insert": "a", "$db": "b"}, sequences={"documents": [{"x": [1, {"y": "text"}]}]}),
        message({"find": "a", "filter": {"x": {"$gt": 1}}, "$db": "b"}),
        message({"aggregate": "a", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "b"}),
        message({"getMore": 5, "collection": "a", "$db": "b"}),
        query({"ismaster": 1}),
    ]
    for _ in range(25):
        data = bytearray(chance.choice(sound))
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(4, len(data))] = chance.randrange(256)
        with Wire(port) as wire:
            wire.send(bytes(data))
            wire.socket.shutdown(socket.SHUT_WR)
            while wire.socket.recv(65_536):
                pass
    with Wire(port) as wire:
        assert 1.0 == wire.ask({"ping": 1})["ok"]
