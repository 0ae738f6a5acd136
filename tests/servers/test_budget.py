"""Budget: what a thread that holds the turn to write does not do, and orders that give way."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import reactdb
from reactdb import budget
from reactdb.budget import MOST_WRITING_S, Budget, Crowd, Stopped, WritesTooLong, in_turn, sort_with_budget
from reactdb.dialects.rethinkdb import Session
from reactdb.store.write_queue import WriteQueue


class Clock:
    """A clock that stands still, or is on by a step whenever somebody looks at it."""

    now = 0.0
    step = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@contextmanager
def in_force(one: Budget) -> Iterator[None]:
    outer = budget.current.set(one)
    try:
        yield
    finally:
        budget.current.reset(outer)


def test_a_slow_query_does_not_sleep_while_it_holds_the_turn_to_write() -> None:
    clock, naps = Clock(), list[float]()
    crowd = Crowd(naps.append)
    slow, other = Budget(None, clock, crowd), Budget(None, clock, crowd)
    crowd.join(other)
    clock.now = 1.0
    with in_force(slow), in_turn():
        budget.check()
    assert [] == naps

    with in_force(slow):
        budget.check()

    assert 1 == len(naps)


def test_a_query_holds_the_turn_to_write_for_a_bounded_time() -> None:
    clock = Clock()
    with in_force(Budget(None, clock)):
        with in_turn():
            clock.now += MOST_WRITING_S + 0.1
            with pytest.raises(WritesTooLong):
                budget.check()

        budget.check()


def test_one_that_is_cancelled_ends_also_there() -> None:
    one = Budget(None)
    one.cancel()

    with in_force(one), in_turn(), pytest.raises(Stopped):
        budget.check()


class SlowBudget(Budget):
    """The budget of a query that has been slow for long: it would make way with each step that it spends."""

    looks = 0

    def spend(self, steps: int) -> None:
        self.looks += 1
        self.check()


def by_rethinkdb(db: Any) -> None:
    """`r.table("t").update(lambda one: {"a": one["a"] + 1})`."""
    added: Any = [69, [[2, [1]], {"a": [24, [[170, [[10, [1]], "a"]], 1]]}]]
    session = Session(db)
    session._budget = budget.current.get()  # type: ignore[assignment]
    try:
        (frame,) = session.receive(1, json.dumps([1, [53, [[15, ["t"]], added]], {}]).encode())
    finally:
        session.close()
    assert 3 == json.loads(frame.body)["r"][0]["replaced"]


def by_mongodb(db: Any) -> None:
    pytest.importorskip("bson", reason="PyMongo is not installed")
    with reactdb.mongodb(db) as client:
        client.test.m.insert_many([{"_id": number, "a": [1, 2]} for number in range(3)])
        assert 3 == client.test.m.update_many({}, {"$inc": {"a.$[]": 1}}).modified_count


def merged_by_mongodb(db: Any) -> None:
    pytest.importorskip("bson", reason="PyMongo is not installed")
    with reactdb.mongodb(db) as client:
        client.test.m.insert_many([{"_id": number, "a": [1, 2]} for number in range(3)])
        for _ in range(2):
            client.test.m.aggregate(
                [{"$merge": {"into": "n", "whenMatched": [{"$set": {"b": {"$sum": "$a"}}}]}}]
            )


WRITES = {"RethinkDB": by_rethinkdb, "MongoDB": by_mongodb, "MongoDB's $merge": merged_by_mongodb}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_slow_write_of_any_dialect_does_not_sleep_while_it_holds_the_turn(
    write: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other writers would wait for it."""
    clock, holders, slept = Clock(), list[object](), list[bool]()
    crowd = Crowd(lambda _: slept.append(bool(holders)))
    crowd.join(Budget(None, clock, crowd))
    slow = SlowBudget(None, clock, crowd)
    acquire, release = WriteQueue.acquire, WriteQueue.release

    def acquired(self: WriteQueue, waiter: Any, timeout_s: float) -> bool:
        is_first = acquire(self, waiter, timeout_s)
        if is_first:
            holders.append(waiter)
        return is_first

    def released(self: WriteQueue, waiter: Any) -> None:
        if waiter in holders:
            holders.remove(waiter)
        release(self, waiter)

    with reactdb.connect(":memory:") as db:
        db.table_create("t").insert([{"id": number, "a": 1} for number in range(3)])
        monkeypatch.setattr(WriteQueue, "acquire", acquired)
        monkeypatch.setattr(WriteQueue, "release", released)
        clock.step = 1.0
        with in_force(slow):
            write(db)
            budget.check()

    assert slow.looks > 0
    assert [] == holders
    assert slept
    assert True not in slept


@pytest.mark.parametrize("is_descending", [False, True])
def test_a_paced_order_is_that_of_sorted(is_descending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of equal elements."""
    monkeypatch.setattr(budget, "SORTED_AT_ONCE", 50)
    chance = random.Random(3)
    elements = [(chance.randrange(40), number) for number in range(1_000)]
    with in_force(Budget(None)):
        found = sort_with_budget(elements, key=lambda one: one[0], is_descending=is_descending)

    assert sorted(elements, key=lambda one: one[0], reverse=is_descending) == found
