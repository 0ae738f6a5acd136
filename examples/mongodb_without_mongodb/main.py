"""A program for PyMongo, without MongoDB. Its tests: python -m pytest examples/mongodb_without_mongodb

Run: python examples/mongodb_without_mongodb/main.py
"""

from __future__ import annotations

import reactdb

try:
    from pymongo import MongoClient
except ImportError:
    raise SystemExit(
        "This example needs PyMongo: pip install 'reactdb[mongodb]',"
        " or in a checkout: python -m pip install -e '.[mongodb]'"
    ) from None

from shop import Shop, SoldOut

from reactdb.servers.mongodb import serve_in_thread

# With MongoDB: `client = MongoClient("mongodb://localhost:27017/?replicaSet=rs0")`.
with (
    reactdb.connect(":memory:") as db,
    serve_in_thread(db) as server,
    MongoClient(server.uri) as client,
):
    shop = Shop(client)
    shop.stock.insert_one({"_id": "tea", "pieces": 5})
    with shop.watch_low_stock() as low:
        shop.order("tea", 2)
        shop.order("tea", 1)
        print(f"low: {next(low)['fullDocument']}")
    try:
        shop.order("tea", 9)
    except SoldOut as error:
        print(f"refused: {error}; the stock is still {shop.stock.find_one('tea')}")
    print(f"sold: {shop.sold()}")

    # The same data, without MongoDB's language: a collection is a table.
    print(f"in the table: {db['shop.stock'].get('tea').run()}")
