"""The same program over a socket and in the process: the same answers, and the same events of the same streams.

A program is drawn by chance, from a fixed seed. It runs over the socket on one database, and in the process on another one. On
the first, streams of both kinds watch it, and agree in everything, tokens too. Between the two databases, only what names a
database, a moment or a session may differ.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from typing import Any, Final

import pytest
from bson import Binary, DBRef, Decimal128, Int64, Regex, Timestamp
from pymongo import (
    DeleteMany,
    DeleteOne,
    InsertOne,
    MongoClient,
    ReplaceOne,
    ReturnDocument,
    UpdateMany,
    UpdateOne,
)
from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError

import reactdb
from reactdb import Database
from reactdb.servers.mongodb import serve_in_thread

STEPS: Final = 40
TOKENS: Final = 6
COLLECTIONS: Final = ("orders", "paid", "stock")
OPTIONS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"full_document": "updateLookup"},
    {
        "full_document": "whenAvailable",
        "full_document_before_change": "whenAvailable",
        "show_expanded_events": True,
    },
)
PIPELINES: Final[tuple[list[dict[str, Any]], ...]] = (
    [],
    [{"$match": {"operationType": {"$in": ["insert", "update", "drop"]}}}],
    [{"$match": {"fullDocument.n": {"$gte": 3}}}, {"$project": {"fullDocument.n": 1, "documentKey": 1}}],
    [{"$match": {"$or": [{"documentKey._id": 2}, {"operationType": "insert", "fullDocument.n": None}]}}],
    [{"$set": {"of": "$ns.coll"}}, {"$unset": "updateDescription.updatedFields.n"}],
)
VALUES: Final = (
    *(0, 1, 2.5, Int64(3), Decimal128("4.10"), float("nan"), None, True, "text", b"bytes", Timestamp(1, 2)),
    *(
        [],
        [1, 2],
        [{"k": 1, "v": 2}, {"k": 2}],
        {},
        {"x": {"y": 1}},
        {"0": {"1": 2}},
        Binary(b"b", 5),
        Regex("^a", "i"),
    ),
    DBRef("stock", 1),
)


class Programs:
    """Steps of a program, as functions of a client, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def step(self) -> tuple[Any, ...]:
        draw = self.chance.choices(["write", "native", "transaction", "collection"], weights=[12, 1, 2, 3])[0]
        if draw == "transaction":
            return (
                draw,
                [self.write() for _ in range(self.chance.randint(1, 4))],
                self.chance.random() < 0.8,
            )
        if draw == "native":
            return (draw, self.name(), {"_id": self.id(), "n": self.chance.choice([1, "x", None, [2]])})
        return self.write() if draw == "write" else self.of_collection()

    def name(self) -> str:
        return self.chance.choice(COLLECTIONS)

    def id(self) -> Any:
        return self.chance.choice([1, 2, 3, 4, "a", 2.0, Int64(3)])

    def value(self) -> Any:
        return self.chance.choice(VALUES)

    def filter(self) -> dict[str, Any]:
        return self.chance.choice(
            [{"_id": self.id()}, {"_id": self.id()}, {"n": self.value()}, {"list.k": 2}, {}]
        )

    def document(self) -> dict[str, Any]:
        fields = self.chance.sample(["n", "list", "part", "other"], self.chance.randint(0, 4))
        return {name: self.value() for name in fields}

    def update(self) -> Any:
        field = self.chance.choice(["n", "list", "part.x", "list.0", "part.0.1", "list.$[].k", "new.part.x"])
        return self.chance.choice(
            [
                {"$set": {field: self.value(), "other": self.value()}},
                {"$unset": {field: 1}},
                {"$inc": {field: 1}},
                {"$push": {field: self.value()}},
                {"$push": {"list": {"$each": [self.value(), self.value()], "$slice": -3}}},
                {"$addToSet": {field: self.value()}},
                {"$pop": {field: 1}},
                {"$pull": {"list": {"k": 1}}},
                {"$rename": {"n": "m", "m": "n"}} if self.chance.random() < 0.2 else {"$rename": {"n": "m"}},
                {"$min": {field: self.value()}, "$setOnInsert": {"made": True}},
                [{"$set": {"n": {"$size": {"$ifNull": ["$list", []]}}}}],
                [{"$unset": ["part", "list"]}],
            ]
        )

    def write(self) -> tuple[Any, ...]:
        way = self.chance.choice(
            [
                "insert_one",
                "insert_one",
                "insert_many",
                "update_one",
                "update_many",
                "replace_one",
                "delete_one",
                "delete_many",
                "find_one_and_update",
                "find_one_and_replace",
                "find_one_and_delete",
                "bulk_write",
            ]
        )
        upsert = self.chance.random() < 0.3
        arguments: tuple[Any, ...]
        match way:
            case "insert_one":
                arguments = ({"_id": self.id(), **self.document()},)
            case "insert_many":
                arguments = ([{"_id": self.id(), **self.document()} for _ in range(3)],)
            case "update_one" | "update_many" | "find_one_and_update":
                arguments = (self.filter(), self.update())
            case "replace_one" | "find_one_and_replace":
                arguments = (self.filter(), self.document())
            case "bulk_write":
                arguments = ([self.operation() for _ in range(3)],)
            case _:
                arguments = (self.filter(),)
        options: dict[str, Any] = {}
        if way.startswith(("update", "replace", "find_one_and_update")):
            # What is made has an `_id` that both would name alike.
            options["upsert"] = upsert and "_id" in arguments[0]
        if way in ("find_one_and_update", "find_one_and_replace"):
            options["return_document"] = self.chance.choice([ReturnDocument.BEFORE, ReturnDocument.AFTER])
        return ("write", self.name(), way, arguments, options)

    def operation(self) -> Any:
        return self.chance.choice(
            [
                InsertOne({"_id": self.id(), **self.document()}),
                UpdateOne({"_id": self.id()}, self.update(), upsert=True),
                UpdateMany({}, self.update()),
                ReplaceOne({"_id": self.id()}, self.document(), upsert=True),
                DeleteOne(self.filter()),
                DeleteMany({"n": self.value()}),
            ]
        )

    def of_collection(self) -> tuple[Any, ...]:
        name, other = self.chance.sample(COLLECTIONS, 2)
        images = {"changeStreamPreAndPostImages": {"enabled": self.chance.random() < 0.7}}
        return self.chance.choice(
            [
                ("create", name, images),
                ("command", {"collMod": name, **images}),
                ("command", {"create": "view", "viewOn": name, "pipeline": []}),
                ("command", {"drop": "view"}),
                ("drop", name),
                ("rename", name, other, self.chance.random() < 0.5),
                ("index", name, self.chance.choice(["n", "part.x"]), {"unique": self.chance.random() < 0.3}),
                ("command", {"dropIndexes": name, "index": "*"}),
                ("aggregate", name, [{"$match": {}}, {"$merge": {"into": other}}]),
                ("aggregate", name, [{"$match": {"n": self.value()}}, {"$out": other}]),
                *([("drop_database",)] if self.chance.random() < 0.3 else []),
            ]
        )


def carried_out(client: Any, db: Database, step: tuple[Any, ...], session: Any = None) -> Any:
    """What a step answers, or the code of its error, in terms that have no kinds of either side."""
    shop = client["shop"]
    try:
        match step:
            case ("write", name, way, arguments, options):
                return plain(getattr(shop[name], way)(*arguments, **options, session=session))
            case ("native", name, document):
                if f"shop.{name}" in db.table_list():
                    db.table(f"shop.{name}").insert(document, conflict="update")
            case ("transaction", steps, is_committed):
                return in_transaction(client, db, steps, is_committed)
            case ("create", name, options):
                shop.create_collection(name, **options)
            case ("command", command):
                return {
                    key: value
                    for key, value in shop.command(command).items()
                    if key[0] != "$" and key != "operationTime"
                }
            case ("drop", name):
                shop[name].drop()
            case ("rename", name, other, drops):
                shop[name].rename(other, dropTarget=drops)
            case ("index", name, field, options):
                return shop[name].create_index(field, **options)
            case ("aggregate", name, pipeline):
                return list(shop[name].aggregate(pipeline))
            case ("drop_database",):
                client.drop_database("shop")
    except BulkWriteError as error:
        return [(one["index"], one["code"]) for one in error.details["writeErrors"]]
    except PyMongoError as error:
        labels = [name for name in ("TransientTransactionError",) if error.has_error_label(name)]
        return (type(error).__name__, getattr(error, "code", None), labels)
    return None


def in_transaction(client: Any, db: Database, steps: list[tuple[Any, ...]], is_committed: bool) -> list[Any]:
    found = []
    with client.start_session() as session:
        session.start_transaction()
        for step in steps:
            found.append(carried_out(client, db, step, session))
            if isinstance(found[-1], tuple) or (isinstance(found[-1], list) and found[-1]):
                # An error has ended it.
                break
        else:
            if is_committed:
                session.commit_transaction()
    return found


def plain(result: Any) -> Any:
    """A result of PyMongo's as a document."""
    names = (
        "inserted_id",
        "inserted_ids",
        "matched_count",
        "modified_count",
        "deleted_count",
        "upserted_id",
        "bulk_api_result",
    )
    told = {name: getattr(result, name) for name in names if hasattr(result, name)}
    return told or result


class Watched:
    """One stream, which is opened again where it was invalidated.

    Attributes:
        events: What it has given, and `None` where it has ended.
    """

    def __init__(self, target: Any, pipeline: list[dict[str, Any]], options: dict[str, Any]) -> None:
        self._target, self._pipeline, self._options = target, pipeline, options
        self.events: list[Any] = []
        self._stream = target.watch(pipeline, **options)

    @property
    def token(self) -> Any:
        return self._stream.resume_token

    def read(self) -> None:
        while True:
            event = self._stream.try_next()
            if event is not None:
                self.events.append(event)
            elif self._stream.alive:
                return
            else:
                self.events.append(None)
                self._stream = self._target.watch(
                    self._pipeline, start_after=self._stream.resume_token, **self._options
                )

    def close(self) -> None:
        self._stream.close()


def levels(client: Any) -> list[Any]:
    return [client, client["shop"], client["shop"]["orders"]]


def comparable(value: Any, known: dict[Any, Any]) -> Any:
    """A value without what names a database, a moment or a session. `known`: names of UUIDs in their order."""
    if isinstance(value, dict):
        drops = ("wallTime", "lsid", "txnNumber")
        return [(key, comparable(inner, known)) for key, inner in value.items() if key not in drops]
    if isinstance(value, list):
        return [comparable(inner, known) for inner in value]
    if isinstance(value, Binary) and value.subtype == 4:
        return ("uuid", known.setdefault(bytes(value), len(known)))
    if isinstance(value, str) and (
        value.startswith("tmp.agg_out.") or (value.startswith("82") and len(value) > 40)
    ):
        return "a token or a name that is made up"
    if isinstance(value, Timestamp) and value.time > 1_000_000:
        return ("moment", value.inc)
    return (type(value).__name__, repr(value))


def rest_of(target: Any, options: dict[str, Any]) -> Any:
    """What a stream of these options gives, or the code of its error."""
    try:
        with target.watch(**options) as stream:
            events = list(iter(stream.try_next, None))
            return events, stream.resume_token, stream.alive
    except OperationFailure as error:
        return error.code


@pytest.fixture
def other() -> Iterator[Database]:
    with reactdb.connect(":memory:") as opened:
        yield opened


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_a_program_has_the_same_answers_and_events_both_ways(
    db: Database, other: Database, seed: int
) -> None:
    programs = Programs(seed)
    watching = list(zip(product(range(3), OPTIONS), 3 * PIPELINES, strict=False))
    with ExitStack() as stack:
        server = stack.enter_context(serve_in_thread(db))
        client = stack.enter_context(MongoClient[dict[str, Any]](server.uri))
        near, far = reactdb.mongodb(db), reactdb.mongodb(other)
        kinds: list[list[Watched]] = []
        for reader, wait in ((client, {"max_await_time_ms": 1}), (near, {}), (far, {})):
            streams = [
                Watched(levels(reader)[level], pipeline, {**options, **wait})
                for (level, options), pipeline in watching
            ]
            kinds.append(streams)
            for stream in streams:
                stack.callback(stream.close)
        for number in range(STEPS):
            step = programs.step()
            assert repr(carried_out(client, db, step)) == repr(carried_out(far, other, step)), step
            for stream in (one for streams in kinds for one in streams):
                stream.read()
            for over, within, _ in zip(*kinds, strict=True):
                assert repr(over.events) == repr(within.events), (number, step)
                assert over.token == within.token, (number, step)
        for over, _, within in zip(*kinds, strict=True):
            assert comparable(over.events, {}) == comparable(within.events, {})
        assert sum(len(stream.events) for stream in kinds[0]) > STEPS

        tokens = [event["_id"] for stream in kinds[0] for event in stream.events if event is not None]
        for token in programs.chance.sample(tokens, TOKENS):
            start = {programs.chance.choice(["resume_after", "start_after"]): token}
            for over, within in zip(levels(client), levels(near), strict=True):
                for options in OPTIONS:
                    first = rest_of(over, {**start, **options, "max_await_time_ms": 1})
                    assert repr(first) == repr(rest_of(within, {**start, **options})), (start, options)
