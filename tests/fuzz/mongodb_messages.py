"""Target: messages of MongoDB's wire protocol, several one behind the other, as a socket would carry them.

The commands and their fields are those of the dialect's own table. A message whose frame is whole is answered: a closed
connection is a failure.

Rule of this file: a conversation is given bytes without a socket. `test_fuzz.py` gives them also over one.
"""

from __future__ import annotations

import struct
from functools import cache
from random import Random
from typing import Any

import bson
from bson import Code, Int64

import reactdb
from reactdb.dialects.mongodb.commands.deployment import Deployment
from reactdb.dialects.mongodb.commands.table import COMMANDS
from reactdb.dialects.mongodb.expressions import compile as expressions_compile
from reactdb.dialects.mongodb.operators import OPERATORS as UPDATES
from reactdb.dialects.mongodb.stages import stage
from reactdb.dialects.mongodb.values import CODEC
from reactdb.servers.connection import LastAnswer
from reactdb.servers.limits import Limits
from reactdb.servers.mongodb.conversation import MongoDBConversation
from tests.fuzz import generating
from tests.fuzz.bson_documents import fit, value
from tests.fuzz.in_place import QUERY_S, InPlaceWorkers
from tests.fuzz.target import Failure, Target
from tests.servers.mongodb.wire import message

FILTERS = (
    "$eq", "$gt", "$in", "$nin", "$not", "$and", "$or", "$nor", "$exists", "$type", "$expr", "$regex", "$options", "$mod",
        "$all", "$size",
    "$elemMatch", "$bitsAllSet", "$jsonSchema", "$where", "$text", "$geoWithin", "$comment", "$rand", "$each", "$slice",
        "$position",
)  # fmt: skip
NAMES = ("_id", "a", "b.c", "a.0", "a.$", "a.$[]", "a.$[x]", "", ".", "$", "$a", "x" * 50, "x")
TEXTS = (
    *generating.TEXTS,
    *NAMES,
    "$a",
    "$$ROOT",
    "$$x",
    "$$NOW",
    "games",
    "test",
    "asc",
    "double",
    "objectId",
    "UTC",
    "%Y-%m",
)

PIPELINE: list[Any] = [
    {"$match": {"a": {"$gte": 1}}}, {"$group": {"_id": "$a", "n": {"$sum": 1}, "all": {"$push": "$$ROOT"}}},
    {"$sort": {"_id": 1}},
    {"$project": {"n": {"$add": ["$n", 1]}, "s": {"$map": {"input": "$all", "as": "x", "in": "$$x.a"}}}}, {"$limit": 5},
]  # fmt: skip
BODIES: dict[str, Any] = {
    "find": {"filter": {"a": {"$gt": 0}, "$or": [{"b": 1}, {"_id": 1}]}, "projection": {"a": 1}, "sort": {"a": 1}, "skip": 0,
        "limit": 2,
             "batchSize": 1, "hint": "_id_", "collation": {"locale": "en"}, "let": {"x": 1}},
    "aggregate": {"pipeline": PIPELINE, "cursor": {"batchSize": 1}, "let": {"x": 1}},
    "insert": {"documents": [{"_id": 9, "a": 1}, {"a": [1, {"b": None}]}], "ordered": True},
    "update": {"updates": [{"q": {"a": 1}, "u": {"$set": {"a": 2}, "$inc": {"n": 1}}, "multi": True, "upsert": True,
                            "arrayFilters": [{"x": 1}]}]},
    "delete": {"deletes": [{"q": {"a": 1}, "limit": 1}]},
    "findAndModify": {"query": {"a": 1}, "update": [{"$set": {"a": {"$add": ["$a", 1]}}}], "new": True, "fields": {"a": 1},
        "sort": {"a": -1}},
    "count": {"query": {"a": 1}, "skip": 1},
    "distinct": {"key": "a", "query": {}},
    "getMore": {"collection": "games", "batchSize": 1},
    "killCursors": {"cursors": [Int64(1)]},
    "create": {"validator": {"$jsonSchema": {"required": ["a"]}}, "capped": True, "size": 4096, "collation": {"locale": "en"}},
    "createIndexes": {"indexes": [{"key": {"a": 1, "b": -1}, "name": "x", "unique": True,
        "partialFilterExpression": {"a": {"$gt": 1}},
                                   "expireAfterSeconds": 5}]},
    "dropIndexes": {"index": "a_1"},
    "collMod": {"validator": {"a": 1}, "index": {"name": "a_1", "hidden": True}},
    "listCollections": {"filter": {"name": "games"}, "nameOnly": True, "cursor": {}},
    "listIndexes": {"cursor": {}},
    "explain": {"verbosity": "queryPlanner"},
    "bulkWrite": {"ops": [{"insert": 0, "document": {"a": 1}}, {"update": 0, "filter": {}, "updateMods": {"$set": {"a": 1}}},
                          {"delete": 0, "filter": {"a": 1}}], "nsInfo": [{"ns": "test.games"}]},
    "hello": {"client": {"application": {"name": "x"}, "driver": {"name": "y", "version": "1"}}, "saslSupportedMechs": "a.b",
              "speculativeAuthenticate": {"saslStart": 1}, "compression": ["zlib"]},
    "saslStart": {"mechanism": "SCRAM-SHA-256", "payload": b"n,,n=x,r=y"},
    "renameCollection": {"to": "test.other"},
    "setParameter": {"a": 1},
}  # fmt: skip
COMMON: dict[str, Any] = {
    "lsid": {"id": bson.Binary(b"\1" * 16, 4)}, "txnNumber": Int64(1), "autocommit": False, "startTransaction": True,
    "readConcern": {"level": "snapshot", "afterClusterTime": bson.Timestamp(1, 1)}, "writeConcern": {"w": 1, "j": True},
    "maxTimeMS": 100, "comment": "x", "$clusterTime": {"clusterTime": bson.Timestamp(1, 1), "signature": {"hash": b"",
        "keyId": Int64(0)}},
    "$readPreference": {"mode": "primary"}, "apiVersion": "1", "apiStrict": True, "hint": {"a": 1},
    "collation": {"locale": "en", "strength": 2}, "batchSize": 1, "cursor": {},
}  # fmt: skip


@cache
def _commands() -> list[str]:
    return sorted({found.name for found in COMMANDS.values()})


@cache
def _names() -> tuple[str, ...]:
    return (*NAMES, *FILTERS, *sorted({**expressions_compile.OPERATORS, **UPDATES, **stage.STAGES}))


def _value(random: Random) -> Any:
    if random.random() < 0.1:
        return random.choice((Code("x"), Int64(2**62)))
    return value(random, TEXTS, _names())


def _document(random: Random, depth: int = 3) -> Any:
    """Operators with operands of all kinds, inside of each other."""
    if depth == 0 or random.random() < 0.2:
        return _value(random)
    if random.random() < 0.3:
        return [_document(random, depth - 1) for _ in range(random.randrange(4))]
    return {random.choice(_names()): _document(random, depth - 1)}


def template(name: str) -> dict[str, Any]:
    """A command as it should be, as far as this file knows its fields."""
    is_of_database = name in ("hello", "listCollections", "bulkWrite")
    body: dict[str, Any] = {name: 1 if is_of_database else "games", **BODIES.get(name, {}), "$db": "test"}
    if name == "getMore":
        body[name] = Int64(1)
    if name == "explain":
        body[name] = {"find": "games", **BODIES["find"]}
    if name == "renameCollection":
        body[name] = "test.games"
    return body


def body_of(random: Random) -> dict[str, Any]:
    """A command, mostly with one thing wrong."""
    name = random.choice(sorted(BODIES)) if random.random() < 0.7 else random.choice(_commands())
    body = template(name)
    if name == "getMore":
        body[name] = Int64(random.choice((1, 0, 5)))
    if name == "explain":
        inner = random.choice(("find", "aggregate", "count", "update"))
        body[name] = {inner: "games", **BODIES[inner]}
    for one in random.sample(sorted(COMMON), random.choice((0, 0, 0, 1, 2))):
        body[one] = COMMON[one]
    fields = COMMANDS[name].fields
    if fields is not None and random.random() < 0.4:
        body[random.choice(sorted(fields))] = _value(random)
    make = _document if random.random() < 0.6 else _value
    if name == "aggregate" and random.random() < 0.5:
        body["pipeline"] = [{random.choice(sorted(stage.STAGES)): _document(random)}, *PIPELINE[:1]]
    if name == "aggregate" and random.random() < 0.5:
        operator = random.choice(sorted(expressions_compile.OPERATORS))
        operand = (
            _document(random)
            if random.random() < 0.5
            else [_value(random) for _ in range(random.randrange(4))]
        )
        body["pipeline"] = [{"$project": {"x": {operator: operand}}}]
    body["$db"] = "test" if random.random() < 0.95 else "admin"
    return fit(generating.much_changed(body, random, make))  # type: ignore[no-any-return]


def _make(random: Random) -> bytes:
    found = b""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        try:
            found += message(body_of(random), request_id=7)
        except (bson.errors.BSONError, OverflowError, TypeError):
            continue
    if not found:
        return _make(random)
    return found if random.random() < 0.9 else generating.mutated(found, random, MONGODB.words)


def games(path: str = ":memory:") -> reactdb.Database:
    return reactdb.connect(path, durability="soft")


_FILL = (
    message(
        {
            "insert": "games",
            "documents": [{"_id": n, "a": n, "b": {"c": [n, "x"]}} for n in range(4)],
            "$db": "test",
        }
    ),
    message({"createIndexes": "games", "indexes": [{"key": {"a": 1}, "name": "a_1"}], "$db": "test"}),
)


def _ask(data: bytes) -> None:
    limits = Limits(query_s=QUERY_S)
    with games() as db:
        deployment = Deployment(db, None)
        talk = MongoDBConversation(deployment, limits, InPlaceWorkers(), lambda: None, ("127.0.0.1", 1))  # type: ignore[arg-type]
        try:
            for filling in _FILL:
                talk.receive(filling)
                talk.answer(talk.next_request())
            talk.receive(data)
            _talk(talk)
        finally:
            talk.close()
            deployment.close()


def _talk(talk: MongoDBConversation) -> None:
    for _ in range(8):
        try:
            request = talk.next_request()
            if request is None:
                return
            talk.is_quick(request)
            answer = talk.answer(request)
        except LastAnswer as end:
            if not is_frame_broken(str(end)):
                raise Failure(f"a message whose frame is whole closed the connection: {end}") from end
            return
        if talk.is_answering:
            talk.poll()
            # The client goes while it waits.
            return
        if answer:
            check(answer)


def is_frame_broken(reason: str) -> bool:
    """Whether a connection was closed because nothing can be answered: the bytes are no message."""
    return "BSON" not in reason and "nested" not in reason


def check(answer: bytes) -> None:
    """
    Raises:
        Failure: The answer is none, or says that nobody foresaw it.
    """
    length, _, _, opcode = struct.unpack_from("<iiii", answer)
    reply = bson.decode(answer[21 if opcode == 2013 else 36 : length], CODEC)
    if reply.get("code") == 1:
        raise Failure(f"an error that nobody foresaw: {reply.get('errmsg')}")


MONGODB = Target(
    "mongodb",
    _ask,
    _make,
    (
        *(bytes((kind,)) + b"a\0" for kind in range(1, 0x14)),
        b"\0",
        b"$db\0",
        b"\x02$db\0",
        b"\x0d$db\0",
        b"\xff\xff\xff\x7f",
        b"_id\0",
    ),
)
