"""Tests of the repository. All fixtures named `reactdb_...` come with reactdb; they need no import and no configuration."""

from __future__ import annotations

from datetime import timedelta

import pytest
from repository import AlreadyPaid, Orders


@pytest.fixture
def orders(reactdb_memory):
    """An empty repository, new for each test: a database in memory takes a few milliseconds."""
    return Orders(reactdb_memory)


def test_an_order_is_paid_once(orders):
    orders.place(1, euros=50)
    orders.pay(1)

    with pytest.raises(AlreadyPaid, match="order 1 is paid already"):
        orders.pay(1)
    assert orders.income() == 50


def test_the_program_is_called_when_an_order_is_paid(orders):
    """Without a scheduler a callback has run when the write returns. So the test does not wait."""
    paid = []
    orders.when_paid(paid.append)

    orders.place(1, euros=50)
    assert paid == []

    orders.pay(1)
    assert paid == [1]


def test_an_order_is_overdue_after_an_hour(reactdb_memory, reactdb_clock):
    """The clock stands still until the test moves it; `r.now()` in a condition follows it."""
    orders = Orders(reactdb_memory)
    orders.place(1, euros=50)
    assert orders.overdue() == []

    reactdb_clock.advance_by(timedelta(hours=1, seconds=1))
    assert orders.overdue() == [1]


@pytest.fixture(scope="session")
def reactdb_seed():
    """Fills a database once. `reactdb_seeded` gives each test a copy of it."""

    def fill(db):
        orders = Orders(db)
        for number in range(200):
            orders.place(number, euros=10)

    return fill


def test_copies_do_not_share_what_a_test_writes(reactdb_seeded):
    """`copy()` branches a database: here, to try something out and to throw it away."""
    orders = Orders(reactdb_seeded)
    with reactdb_seeded.copy() as branch:
        Orders(branch).pay(7)
        assert Orders(branch).income() == 10

    assert orders.income() == 0


def test_a_payment_is_written_as_a_whole(orders, reactdb_memory, monkeypatch):
    """A failure between two writes of one transaction leaves neither of them."""
    orders.place(1, euros=50)

    class BrokenTable:
        def insert(self, document):
            raise OSError("no more paper")

    monkeypatch.setattr(orders, "_payments", BrokenTable())
    with pytest.raises(OSError, match="no more paper"):
        orders.pay(1)

    assert reactdb_memory["orders"].get(1).run()["state"] == "open"
