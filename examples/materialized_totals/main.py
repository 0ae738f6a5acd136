"""A materialized view: totals by city that are kept up to date, go on after a restart, and are exact at every moment.

The second life begins with orders that were written while nobody kept the totals. They are taken in, and not a single order is
counted twice or forgotten.

Run: python examples/materialized_totals/main.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import reactdb

random = Random(7)
CITIES = ["Bergen", "Oslo", "Rome"]


def order(number: int) -> dict[str, object]:
    return {"id": number, "city": random.choice(CITIES), "euros": random.randrange(1, 100)}


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "shop.db")
    with reactdb.connect(path) as db:
        orders = db.table_create("orders")
        orders.insert([order(number) for number in range(100)])
        with db.materialize(orders.group("city").sum("euros"), into="totals") as totals:
            print("first life: ", totals.table.run())
            orders.insert(order(100))
            print(f"one order later it is {totals.lag} changes behind")
        orders.insert([order(number) for number in range(101, 200)])
        orders.filter(reactdb.row["euros"] < 10).delete()

    with reactdb.connect(path) as db:
        orders = db.table("orders")
        by_city = orders.group("city").sum("euros")
        with db.materialize(by_city, into="totals") as totals:
            print("second life:", totals.table.run())
            counted = [{"id": one["group"], "sum": one["reduction"]} for one in by_city.run()]
            print(f"as if counted just now: {totals.table.run() == counted}")
            try:
                totals.table.get("Oslo").update({"sum": 0})
            except reactdb.UsageError as error:
                print(f"refused: {str(error).partition(',')[0]}")
