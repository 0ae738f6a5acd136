"""Tests of code for PyMongo. `reactdb_mongodb` is a real MongoClient on an empty database, and comes with reactdb."""

from __future__ import annotations

import pytest
from shop import Shop, SoldOut


@pytest.fixture
def shop(reactdb_mongodb):
    shop = Shop(reactdb_mongodb)
    shop.stock.insert_one({"_id": "tea", "pieces": 5})
    return shop


def test_an_order_takes_pieces_from_the_stock(shop):
    shop.order("tea", 2)

    assert shop.stock.find_one("tea") == {"_id": "tea", "pieces": 3}
    assert shop.sold() == {"tea": 2}


def test_a_refused_order_leaves_the_stock_as_it_was(shop):
    """The transaction is rolled back, as by a replica set."""
    with pytest.raises(SoldOut, match="not enough tea"):
        shop.order("tea", 9)

    assert shop.stock.find_one("tea") == {"_id": "tea", "pieces": 5}
    assert shop.orders.count_documents({}) == 0


def test_low_stock_is_announced(shop):
    with shop.watch_low_stock() as low:
        shop.order("tea", 1)
        assert low.try_next() is None

        shop.order("tea", 2)
        assert next(low)["fullDocument"]["pieces"] == 2
