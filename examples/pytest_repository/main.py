"""A program over a repository. Its tests are beside it: python -m pytest examples/pytest_repository

Run: python examples/pytest_repository/main.py
"""

from __future__ import annotations

from repository import AlreadyPaid, Orders

import reactdb

with reactdb.connect(":memory:") as db:
    orders = Orders(db)
    orders.when_paid(lambda number: print(f"order {number} is paid: print its invoice"))

    orders.place(1, euros=50)
    orders.place(2, euros=20)
    orders.pay(1)
    try:
        orders.pay(1)
    except AlreadyPaid as error:
        print(f"refused: {error}")
    print(f"income: {orders.income()} euros")
