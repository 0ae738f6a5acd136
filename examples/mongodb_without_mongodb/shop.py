"""A shop on MongoDB, written for PyMongo. With a real replica set it runs unchanged."""

from __future__ import annotations

from typing import Any

from pymongo import MongoClient, ReturnDocument


class SoldOut(Exception):
    """There are fewer pieces left than the order wants."""


class Shop:
    def __init__(self, client: MongoClient[dict[str, Any]]) -> None:
        self._client = client
        self.stock, self.orders = client["shop"]["stock"], client["shop"]["orders"]

    def order(self, item: str, pieces: int) -> None:
        """Takes pieces from the stock and writes the order, in one transaction. Raises: SoldOut."""
        with self._client.start_session() as session, session.start_transaction():
            left = self.stock.find_one_and_update(
                {"_id": item},
                {"$inc": {"pieces": -pieces}},
                session=session,
                return_document=ReturnDocument.AFTER,
            )
            if left is None or left["pieces"] < 0:
                raise SoldOut(f"not enough {item}")
            self.orders.insert_one({"item": item, "pieces": pieces}, session=session)

    def sold(self) -> dict[str, int]:
        """The number of sold pieces of each item."""
        groups = self.orders.aggregate([{"$group": {"_id": "$item", "pieces": {"$sum": "$pieces"}}}])
        return {group["_id"]: group["pieces"] for group in groups}

    def watch_low_stock(self) -> Any:
        """A change stream of updates that leave fewer than three pieces of an item."""
        low = {"operationType": "update", "fullDocument.pieces": {"$lt": 3}}
        return self.stock.watch([{"$match": low}], full_document="updateLookup")
