"""The Node driver against the server."""

from __future__ import annotations

from typing import Any

import pytest

from reactdb.servers.mongodb import MongoDBServer
from tests.servers.mongodb.node import needs_node, run_node

pytestmark = needs_node


def test_reading_and_writing(server: MongoDBServer) -> None:
    program = """
    await orders.insertMany([1, 2, 3].map(i => ({_id: i, n: i})));
    print((await orders.updateMany({n: {$gt: 1}}, {$inc: {n: 10}})).modifiedCount);
    print(await orders.find().sort({_id: -1}).toArray());
    print(await orders.aggregate([{$group: {_id: null, sum: {$sum: "$n"}}}]).toArray());
    print(await orders.findOneAndUpdate({_id: 1}, {$set: {a: 1}}, {returnDocument: "after"}));
    print((await orders.deleteMany({})).deletedCount);
    print((await orders.bulkWrite([{insertOne: {document: {_id: 9}}}, {deleteOne: {filter: {_id: 9}}}])).deletedCount);
    """
    assert [
        2,
        [{"_id": 3, "n": 13}, {"_id": 2, "n": 12}, {"_id": 1, "n": 1}],
        [{"_id": None, "sum": 26}],
        {"_id": 1, "n": 1, "a": 1},
        3,
        1,
    ] == run_node(program, server.uri)


@pytest.mark.parametrize("level", ["orders", 'client.db("shop")', "client"])
def test_watching_at_three_levels(server: MongoDBServer, level: str) -> None:
    program = """
    const stream = LEVEL.watch();
    const first = stream.next();
    await isWatching();
    await orders.insertOne({_id: 1});
    await orders.updateOne({_id: 1}, {$set: {a: 1}});
    const events = [await first, await stream.next()];
    print(events.map(event => event.operationType));
    await stream.close();
    const again = LEVEL.watch([], {resumeAfter: events[0]._id});
    print((await again.next()).operationType);
    await again.close();
    """
    found = run_node(program.replace("LEVEL", level), server.uri)
    assert [["insert", "update"], "update"] == found


def test_a_dropped_collection_ends_the_stream(server: MongoDBServer) -> None:
    program = """
    await orders.insertOne({_id: 1});
    const stream = orders.watch(), types = [];
    // The driver may say that it is closed before it tells the last events, which it has by then.
    const closed = new Promise(resolve => stream.on("close", resolve));
    const told = new Promise(resolve => stream.on("change", event => {
      if (types.push(event.operationType) === 2) resolve();
    }));
    await isWatching();
    await orders.drop();
    await Promise.all([closed, told]);
    print(types);
    """
    assert [["drop", "invalidate"]] == run_node(program, server.uri)


def test_a_transaction(server: MongoDBServer, client: Any) -> None:
    program = """
    await client.withSession(session => session.withTransaction(async () => {
      await orders.insertOne({_id: 1}, {session});
      await orders.insertOne({_id: 2}, {session});
    }));
    const session = client.startSession();
    session.startTransaction();
    await orders.insertOne({_id: 3}, {session});
    await session.abortTransaction();
    await session.endSession();
    print(await orders.countDocuments());
    """
    assert [2] == run_node(program, server.uri)
    assert [1, 2] == [one["_id"] for one in client["shop"]["orders"].find()]
