"""The repository of orders: every read and write of the program, and nothing else of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import reactdb
from reactdb import r, row

HOUR_S = 3600


class AlreadyPaid(Exception):
    """The order has been paid before."""


class Orders:
    """Orders in a database. The program passes a file, a test passes a database in memory."""

    def __init__(self, db: reactdb.Database) -> None:
        self._db = db
        self._orders = db.table_create("orders", exist_ok=True)
        self._payments = db.table_create("payments", exist_ok=True)

    def place(self, number: int, euros: int) -> None:
        self._orders.insert({"id": number, "euros": euros, "state": "open", "placed_at": r.now()})

    def pay(self, number: int) -> None:
        """Both writes or none. Raises: AlreadyPaid."""
        with self._db.transaction():
            order = self._orders.get(number).run()
            if order["state"] == "paid":
                raise AlreadyPaid(f"order {number} is paid already")
            self._orders.get(number).update({"state": "paid"})
            self._payments.insert({"order": number, "euros": order["euros"]})

    def income(self) -> int:
        return self._payments.sum("euros").run()

    def overdue(self) -> list[int]:
        """The numbers of the orders that have been open for more than an hour."""
        old = (row["state"] == "open") & (row["placed_at"] < r.now() - HOUR_S)
        return [order["id"] for order in self._orders.filter(old)]

    def when_paid(self, call: Callable[[int], object]) -> Any:
        """Calls `call(number)` after the commit in which an order was paid. Returns the subscription."""
        paid = self._orders.filter(row["state"] == "paid").changes()
        return paid.subscribe(lambda event: call(event["new_val"]["id"]) if event["new_val"] else None)
