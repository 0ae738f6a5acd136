"""Conversations of real drivers, recorded beside the project, said again to this server. The requests are the drivers' own.

What differs between two runs is not compared: times, tokens, numbers of cursors, addresses. Of an error, the code, its name and
the labels are compared.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from bson import Binary, Int64, ObjectId, Timestamp, json_util

from reactdb.servers.mongodb import MongoDBServer
from tests.conftest import ACCEPTANCE
from tests.servers.mongodb.wire import OP_QUERY, Wire, message, query

FILES = sorted((ACCEPTANCE / "mongodb").glob("*.jsonl"))
pytestmark = pytest.mark.skipif(not FILES, reason="no recorded conversations lie beside the project")

OF_THE_SERVER = frozenset(
    (
        "$clusterTime",
        "hosts",
        "primary",
        "me",
        "setVersion",
        "lastWrite",
        "connectionId",
        "electionId",
        "gitVersion",
        "modules",
        "uuid",
    )
)
"""Fields that say which server it is, and when."""
MAY_BE_MORE = frozenset(
    ("count", "idIndex", "javascriptEngine", "debug", "storageEngines", "totalSizeMb", "sizeOnDisk", "empty")
)


class Replay:
    """What was recorded, in terms of this run: numbers of cursors and tokens."""

    def __init__(self) -> None:
        self.cursors: dict[int, int] = {}
        self.tokens: dict[str, str] = {}

    def asked(self, value: Any, name: str = "") -> Any:
        """A recorded request as it is sent now."""
        if isinstance(value, dict):
            return {key: self.asked(inner, key) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.asked(inner, name) for inner in value]
        if name in ("getMore", "cursors"):
            return Int64(self.cursors[value])
        if name == "_data":
            return self.tokens[value]
        return value

    def learn(self, recorded: Any, told: Any, name: str = "") -> None:
        """What the recorded numbers and tokens are in this run."""
        if isinstance(recorded, dict) and isinstance(told, dict):
            for key in recorded.keys() & told.keys():
                self.learn(recorded[key], told[key], key)
        elif isinstance(recorded, list) and isinstance(told, list):
            for one, other in zip(recorded, told, strict=False):
                self.learn(one, other, name)
        elif name == "_data":
            self.tokens[recorded] = told
        elif name == "id" and isinstance(recorded, int):
            self.cursors[recorded] = told


def comparable(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        if "code" in value:
            return {key: value[key] for key in ("ok", "code", "codeName", "errorLabels") if key in value}
        return {
            key: comparable(inner, key)
            for key, inner in sorted(value.items())
            if key not in OF_THE_SERVER and key not in MAY_BE_MORE
        }
    if isinstance(value, list):
        if name == "cursorsKilled" or name == "cursorsNotFound":
            return len(value)
        return [comparable(inner, name) for inner in value]
    if name == "id" and isinstance(value, int):
        return "none" if value == 0 else "a cursor"
    if name in ("_data", "localTime", "wallTime", "lastWriteDate"):
        return name
    if isinstance(value, Timestamp | ObjectId | Binary):
        return type(value).__name__
    return value


def expected_of(exchange: dict[str, Any]) -> dict[str, Any]:
    reply: dict[str, Any] = json_util.loads(json.dumps(exchange["reply"]))
    if exchange["cmd"].get("nameOnly"):
        # The server that was recorded told more than was asked for.
        reply.pop("totalSize", None)
        for one in reply.get("cursor", {}).get("firstBatch", ()):
            del one["options"], one["info"]
    return reply


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recorded_conversation_is_had_again(server: MongoDBServer, path: Path) -> None:
    replay = Replay()
    is_ordered_to_end = False
    with ExitStack() as sockets:
        wire = sockets.enter_context(Wire(server.port))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            exchange = json.loads(line)
            body = replay.asked(json_util.loads(json.dumps(exchange["cmd"])))
            if "txnNumber" in body:
                # Sessions were not recorded.
                body["lsid"] = {"id": Binary(number.to_bytes(16), 4)}
            if "ismaster" in body and is_ordered_to_end:
                # A fail point has closed the connection in the middle of this request, so it was not recorded.
                wire.send(message({"getMore": Int64(1), "collection": "orders", "$db": "shop"}))
                assert wire.is_closed()
                wire = sockets.enter_context(Wire(server.port))
                is_ordered_to_end = False
            wire.send(query(body) if exchange["opcode"] == OP_QUERY else message(body))
            reply = wire.receive()[1]
            expected = expected_of(exchange)
            replay.learn(expected, reply)
            assert comparable(expected) == comparable(reply), body
            is_ordered_to_end |= bool(body.get("data", {}).get("closeConnection"))
