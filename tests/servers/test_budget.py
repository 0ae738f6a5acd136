"""Budget: what a thread that holds the turn to write does not do, and orders that give way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reactdb import budget
from reactdb.budget import MOST_WRITING_S, Budget, Crowd, Stopped, WritesTooLong, in_turn, sort_paced


class Clock:
    now = 0.0

    def __call__(self) -> float:
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


@pytest.mark.parametrize("is_descending", [False, True])
def test_a_paced_order_is_that_of_sorted(is_descending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of equal elements."""
    monkeypatch.setattr(budget, "SORTED_AT_ONCE", 50)
    chance = random.Random(3)
    elements = [(chance.randrange(40), number) for number in range(1_000)]
    with in_force(Budget(None)):
        found = sort_paced(elements, key=lambda one: one[0], is_descending=is_descending)

    assert sorted(elements, key=lambda one: one[0], reverse=is_descending) == found
