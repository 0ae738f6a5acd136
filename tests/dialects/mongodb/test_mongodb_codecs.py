"""Codec options in the process mean what PyMongo's mean over a socket, for all that reads and writes documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import reactdb
from reactdb import Database

pytest.importorskip("pymongo")

from bson import SON, Binary, Decimal128, Int64, encode
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion, TypeCodec, TypeRegistry
from bson.datetime_ms import DatetimeMS
from bson.errors import InvalidBSON
from bson.raw_bson import RawBSONDocument
from pymongo import (
    IndexModel,
    InsertOne,
    MongoClient,
    ReadPreference,
    ReplaceOne,
    UpdateOne,
    WriteConcern,
)
from pymongo.errors import ConfigurationError
from pymongo.read_concern import ReadConcern

from reactdb.servers.mongodb import serve_in_thread

ID = UUID("12345678-1234-5678-1234-567812345678")
NOON = datetime(2026, 1, 1, 12)
TOKYO = timezone(timedelta(hours=9))


class DecimalCodec(TypeCodec):
    python_type = Decimal  # type: ignore[assignment]
    bson_type = Decimal128  # type: ignore[assignment]

    def transform_python(self, value: Any) -> Any:
        return Decimal128(value)

    def transform_bson(self, value: Any) -> Any:
        return value.to_decimal()


class Words(dict[str, Any]):
    """A document class of a program's own."""


ALL = {
    "zoned": CodecOptions(tz_aware=True),
    "of Tokyo": CodecOptions(tz_aware=True, tzinfo=TOKYO),
    "uuid": CodecOptions(uuid_representation=UuidRepresentation.STANDARD),
    "java's uuid": CodecOptions(uuid_representation=UuidRepresentation.JAVA_LEGACY),
    "own class": CodecOptions(document_class=Words),
    "ordered": CodecOptions(document_class=SON),
    "raw": CodecOptions(document_class=RawBSONDocument),
    "milliseconds": CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS),
    "own type": CodecOptions(type_registry=TypeRegistry([DecimalCodec()])),
    "all": CodecOptions(
        document_class=Words,
        tz_aware=True,
        uuid_representation=UuidRepresentation.STANDARD,
        type_registry=TypeRegistry([DecimalCodec()]),
    ),
}


@pytest.fixture
def db() -> Iterator[Database]:
    with reactdb.connect(":memory:") as opened:
        yield opened


Opener = Callable[..., Any]


@pytest.fixture(params=["in the process", "over a socket"])
def opened(request: pytest.FixtureRequest, db: Database) -> Iterator[Opener]:
    """Makes a client with options, here or of PyMongo, which says what is right."""
    if request.param == "in the process":
        yield lambda **options: reactdb.mongodb(db, **options)
        return
    with serve_in_thread(db) as server:
        made: list[Any] = []

        def open_one(**options: Any) -> Any:
            made.append(MongoClient(server.uri, **options))
            return made[-1]

        yield open_one
        for one in made:
            one.close()


@pytest.fixture
def orders(opened: Opener) -> Any:
    return opened()["shop"]["orders"]


def typed(value: Any) -> Any:
    """A value with its types, those within it too."""
    if isinstance(value, RawBSONDocument):
        return ("raw", value.raw)
    if isinstance(value, dict):
        return (type(value), [(name, typed(inner)) for name, inner in value.items()])
    if isinstance(value, list):
        return [typed(one) for one in value]
    return (type(value), value, getattr(value, "tzinfo", None))


def program(orders: Any, options: CodecOptions[Any]) -> list[Any]:
    """Everything that reads and writes documents, once."""
    plain = orders.with_options(CodecOptions())
    plain.insert_one({"_id": 1, "at": NOON, "in": {"at": [NOON]}, "uuid": Binary(ID.bytes, 4)})
    with orders.watch() as stream:
        orders.insert_one({"_id": 2, **own_values(options)})
        events = [stream.next()["fullDocument"]]
    upsert = orders.update_one({"_id": {"at": NOON}}, {"$set": own_values(options)}, upsert=True)
    bulk = orders.bulk_write(
        [
            InsertOne({"_id": 3, **own_values(options)}),
            UpdateOne({"_id": {"n": 1}}, {"$set": own_values(options)}, upsert=True),
            ReplaceOne({"_id": 3}, own_values(options)),
        ]
    )
    reply = orders.database.command("find", "orders", filter={"_id": 1}, codec_options=options)
    return [
        *events,
        upsert.upserted_id,
        bulk.upserted_ids,
        orders.find_one({"_id": 1}),
        list(orders.find(own_values(options)).sort("_id", -1)),
        list(orders.aggregate([{"$match": own_values(options)}, {"$sort": {"_id": -1}}])),
        list(orders.aggregate([{"$limit": 1}, {"$set": {"x": "$$x"}}], let={"x": {"a": NOON}})),
        orders.distinct("in"),
        orders.distinct("at", own_values(options)),
        orders.count_documents(own_values(options)),
        orders.find_one_and_update(own_values(options), {"$set": own_values(options)}, sort={"_id": 1}),
        orders.find_one_and_replace({"_id": 3}, own_values(options), return_document=True),
        orders.find_one_and_delete({"_id": 3}),
        orders.update_many(own_values(options), [{"$set": own_values(options)}]).matched_count,
        orders.delete_many(own_values(options)).deleted_count,
        reply["cursor"]["firstBatch"],
        [plain_types(one) for one in plain.find()],
        list(orders.list_indexes()),
    ]


def own_values(options: CodecOptions[Any]) -> dict[str, Any]:
    """Values that only these options can write."""
    found: dict[str, Any] = {"at": NOON.replace(tzinfo=TOKYO)}
    if options.uuid_representation != UuidRepresentation.UNSPECIFIED:
        found["uuid"] = ID
    if options.type_registry != TypeRegistry():
        found["price"] = Decimal("4.20")
    return found


def plain_types(document: dict[str, Any]) -> list[Any]:
    return [(name, type(value), value) for name, value in document.items()]


@pytest.mark.parametrize("name", ALL)
def test_documents_are_read_and_written_as_by_pymongo(name: str) -> None:
    """The same program, here and over a socket, gives the same values of the same types."""
    options = ALL[name]
    with reactdb.connect(":memory:") as near, reactdb.connect(":memory:") as far:
        given = program(reactdb.mongodb(near)["shop"]["orders"].with_options(options), options)
        with serve_in_thread(far) as server, MongoClient[Any](server.uri) as client:
            expected = program(client["shop"]["orders"].with_options(options), options)

    assert [typed(one) for one in expected] == [typed(one) for one in given]


def test_a_client_takes_the_options_of_pymongos(opened: Opener) -> None:
    client = opened(tz_aware=True, tzinfo=TOKYO, document_class=Words, uuidRepresentation="standard")
    orders = client["shop"]["orders"]
    orders.insert_one({"_id": ID, "at": NOON})

    found = orders.find_one()

    assert Words is type(found)
    assert {"_id": ID, "at": NOON.replace(tzinfo=UTC)} == found
    assert TOKYO == found["at"].tzinfo
    assert client.codec_options == client["shop"].codec_options == orders.codec_options


def test_a_database_and_a_collection_have_options_of_their_own(opened: Opener) -> None:
    """What is made of one has its options; what says none has those of what it is in."""
    client = opened()
    zoned, raw = CodecOptions(tz_aware=True), CodecOptions(document_class=RawBSONDocument)
    shop = client.get_database("shop", codec_options=zoned, read_concern=ReadConcern("majority"))

    assert zoned == shop["orders"].codec_options == shop.orders.sub.codec_options
    assert ReadConcern("majority") == shop["orders"].read_concern
    assert raw == shop.get_collection("orders", raw)["sub"].codec_options
    assert raw == shop.with_options(raw).orders.codec_options
    assert zoned == shop.with_options(write_concern=WriteConcern(1)).codec_options
    assert raw == shop.create_collection("made", codec_options=raw).codec_options
    assert zoned == shop["orders"].with_options(read_preference=ReadPreference.NEAREST).codec_options
    assert CodecOptions() == client["shop"].codec_options


def test_events_of_all_levels_have_the_options_of_what_is_watched(opened: Opener) -> None:
    client = opened(tz_aware=True)
    shop = client["shop"]
    levels = [client, shop, shop["orders"]]
    streams = [one.watch([{"$match": {"fullDocument.at": NOON.replace(tzinfo=UTC)}}]) for one in levels]
    shop["orders"].insert_one({"_id": 1, "at": NOON})
    events = [one.next() for one in streams]
    for one in streams:
        one.close()

    assert [NOON.replace(tzinfo=UTC)] * 3 == [event["fullDocument"]["at"] for event in events]
    assert all(event["wallTime"].tzinfo is not None for event in events)


def test_observables_have_the_options_too(db: Database) -> None:
    told: list[Any] = []
    orders = reactdb.mongodb(db, tz_aware=True)["shop"]["orders"]
    with orders.changes().subscribe(told.append):
        orders.insert_one({"_id": 1, "at": NOON})

    assert NOON.replace(tzinfo=UTC) == told[0]["fullDocument"]["at"]


def test_a_resume_token_of_any_class_is_taken(opened: Opener) -> None:
    orders = opened(document_class=RawBSONDocument)["shop"]["orders"]
    with orders.watch() as stream:
        orders.insert_many([{"_id": 1}, {"_id": 2}])
        token = stream.next()["_id"]
    with orders.watch(resume_after=token) as stream:
        assert 2 == stream.next()["documentKey"]["_id"]


@pytest.mark.parametrize("options", [{}, {"uuid_representation": UuidRepresentation.UNSPECIFIED}])
def test_a_uuid_is_refused_where_nobody_says_how_it_is_written(orders: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="UuidRepresentation"):
        orders.with_options(CodecOptions(**options)).insert_one({"_id": ID})


def test_a_date_beyond_pythons_is_an_error_unless_the_options_have_it(orders: Any) -> None:
    far = DatetimeMS(-(10**15))
    orders.insert_one({"_id": 1, "in": [{"at": far}]})
    auto = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_AUTO)

    with pytest.raises(InvalidBSON):
        orders.find_one()
    assert far == orders.with_options(auto).find_one()["in"][0]["at"]


def test_a_command_has_its_own_options_and_not_those_of_the_database(opened: Opener) -> None:
    shop = opened(tz_aware=True)["shop"]
    shop["orders"].insert_one({"_id": 1, "at": NOON})

    plain = shop.command("find", "orders")["cursor"]["firstBatch"][0]
    zoned = shop.command("find", "orders", codec_options=CodecOptions(tz_aware=True))["cursor"]["firstBatch"][
        0
    ]

    assert NOON == plain["at"]
    assert NOON.replace(tzinfo=UTC) == zoned["at"]


def test_a_validator_is_written_with_the_options_of_its_collection(opened: Opener) -> None:
    uuids = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)
    shop = opened()["shop"]
    orders = shop.create_collection("orders", codec_options=uuids, validator={"of": {"$ne": ID}})

    assert {"of": {"$ne": Binary(ID.bytes, 4)}} == orders.options()["validator"]


def test_specifications_of_indexes_are_ordered_documents(orders: Any) -> None:
    orders.create_indexes([IndexModel([("a", 1), ("b", -1)])])

    assert [SON, SON] == [type(one) for one in orders.list_indexes()]
    assert [("a", 1), ("b", -1)] == orders.index_information()["a_1_b_-1"]["key"]


def test_a_reference_in_a_zoned_document_is_a_reference(opened: Opener) -> None:
    from bson import DBRef

    orders = opened(tz_aware=True)["shop"]["orders"]
    orders.insert_one({"_id": 1, "of": DBRef("stock", Int64(5))})

    assert DBRef("stock", 5) == orders.find_one()["of"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tz_aware": "maybe"}, ValueError),
        ({"uuidRepresentation": "mine"}, ValueError),
        ({"tzinfo": "UTC"}, TypeError),
        ({"document_class": 5}, TypeError),
        ({"type_registry": {}}, TypeError),
        ({"datetime_conversion": "never"}, KeyError),
        ({"nonsense": 1}, ConfigurationError),
    ],
)
def test_options_of_a_client_are_checked_as_by_pymongo(
    opened: Opener, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        opened(**options)


@pytest.mark.parametrize("name", ["codec_options", "read_preference", "write_concern", "read_concern"])
def test_what_is_no_option_is_refused(orders: Any, name: str) -> None:
    makers: list[Callable[..., Any]] = [
        orders.with_options,
        orders.database.with_options,
        lambda **options: orders.database.get_collection("a", **options),
        lambda **options: orders.database.client.get_database("a", **options),
        lambda **options: orders.database.create_collection("a", **options),
    ]
    for make in makers:
        with pytest.raises(TypeError, match=name):
            make(**{name: 5})


def test_bytes_of_raw_documents_are_those_that_were_written(opened: Opener) -> None:
    orders = opened(document_class=RawBSONDocument)["shop"]["orders"]
    data = encode({"_id": 1, "b": {"x": [1, Int64(2)]}, "a": NOON})
    orders.insert_one(RawBSONDocument(data))

    assert data == orders.find_one().raw
