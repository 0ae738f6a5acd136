"""PyMongo's asynchronous client, and Motor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from reactdb.servers.mongodb import MongoDBServer


def pymongo_client(uri: str) -> Any:
    from pymongo import AsyncMongoClient

    return AsyncMongoClient(uri)


def motor_client(uri: str) -> Any:
    pytest.importorskip("motor")
    from motor.motor_asyncio import AsyncIOMotorClient

    return AsyncIOMotorClient(uri)


async def maybe(value: Any) -> Any:
    """Of Motor `watch`, `aggregate` and `close` give their result at once."""
    return await value if asyncio.iscoroutine(value) else value


@pytest.mark.parametrize("connect", [pymongo_client, motor_client])
class TestAsynchronousClients:
    def test_reading_writing_and_transactions(
        self, server: MongoDBServer, connect: Callable[[str], Any]
    ) -> None:
        async def program() -> None:
            client = connect(server.uri)
            orders = client["shop"]["orders"]
            await orders.insert_many([{"_id": i} for i in range(5)])
            await orders.update_one({"_id": 1}, {"$set": {"a": 1}})
            assert {"_id": 1, "a": 1} == await orders.find_one({"_id": 1})
            assert 5 == len([one async for one in orders.find(batch_size=2)])
            session = client.start_session()
            async with await maybe(session) as session, await maybe(session.start_transaction()):
                await orders.delete_one({"_id": 0}, session=session)
            assert 4 == await orders.count_documents({})
            await maybe(client.close())

        asyncio.run(program())

    @pytest.mark.parametrize("level", ["collection", "database", "client"])
    def test_watching(self, server: MongoDBServer, connect: Callable[[str], Any], level: str) -> None:
        async def program() -> None:
            client = connect(server.uri)
            orders = client["shop"]["orders"]
            await orders.insert_one({"_id": 0})
            watched = {"collection": orders, "database": client["shop"], "client": client}[level]
            async with await maybe(watched.watch(max_await_time_ms=100)) as stream:
                # Motor sends the aggregate with the first read.
                assert await stream.try_next() is None
                await orders.insert_one({"_id": 1})
                event = await stream.next()
                assert ("insert", {"_id": 1}) == (event["operationType"], event["documentKey"])
                await orders.drop()
                if level == "collection":
                    assert ["drop", "invalidate"] == [one["operationType"] async for one in stream]
            async with await maybe(watched.watch(start_after=event["_id"])) as stream:
                assert "drop" == (await stream.next())["operationType"]
            await maybe(client.close())

        asyncio.run(program())

    def test_cancelling_what_waits(self, server: MongoDBServer, connect: Callable[[str], Any]) -> None:
        async def program() -> None:
            client = connect(server.uri)
            stream = await maybe(client["shop"]["orders"].watch(max_await_time_ms=60_000))
            waits = asyncio.ensure_future(stream.next())
            await asyncio.sleep(0)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            assert 1.0 == (await client.admin.command("ping"))["ok"]
            await maybe(client.close())

        asyncio.run(program())
