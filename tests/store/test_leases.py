"""Leases: what a worker does next with those of its consumer, from the rows and the time alone."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.store.leases import Lease, next_leases
from tests.support.scaling import examples

LEASE_MS = 1_000


def lease(partition: int = 0, **fields: Any) -> Lease:
    held = {"until_ms": LEASE_MS} if fields.get("holder") else {}
    return Lease("uploader", partition, 4, "selection", 7, **{"lease_ms": LEASE_MS, **held, **fields})


def step(
    leases: list[Lease], worker: str = "a", now_ms: int = 0, gone: set[str] = frozenset()
) -> list[Lease]:  # type: ignore[assignment]
    """The leases after the worker has done what it is to do."""
    changed = {
        one.partition: one
        for one in next_leases(
            leases, worker, now_ms, LEASE_MS, lambda one: one.holder in gone or now_ms >= one.until_ms
        )
    }
    return [changed.get(one.partition, one) for one in leases]


def test_what_is_free_is_taken_with_the_next_fencing_number():
    (found,) = step([lease(fence=4)], now_ms=50)

    assert lease(fence=5, holder="a", until_ms=1_050) == found


def test_what_another_one_has_is_left_until_its_time_is_over_or_it_is_gone():
    held = lease(holder="b", fence=2)

    assert [held] == step([held], now_ms=999)
    assert "a" == step([held], now_ms=1_000)[0].holder
    assert (3, "a") == (step([held], gone={"b"})[0].fence, step([held], gone={"b"})[0].holder)


def test_what_is_ones_own_is_renewed_when_half_of_the_time_is_gone_and_not_before():
    held = lease(holder="a", fence=2)

    assert [held] == step([held], now_ms=499)
    assert [held.copy_with(until_ms=1_500)] == step([held], now_ms=500)
    # Nobody has taken it meanwhile.
    assert [held.copy_with(until_ms=6_000)] == step([held], now_ms=5_000)


def test_who_has_two_fewer_wishes_for_one_and_no_more():
    rich = [lease(number, holder="b") for number in range(3)]
    wished = step(rich)

    assert ["a", None, None] == [one.wished_by for one in wished]
    assert wished == step(wished)
    assert rich[:1] == step(rich[:1])


def test_a_wish_is_granted_by_giving_up_and_only_who_wished_may_take_it_for_a_while():
    (given_up,) = step([lease(holder="b", wished_by="a")], "b")

    assert (None, "a", 200) == (given_up.holder, given_up.wished_by, given_up.until_ms)
    assert [given_up] == step([given_up], "c", now_ms=199)
    assert [given_up] == step([given_up], "b", now_ms=199)
    assert ("a", None) == (step([given_up], "a")[0].holder, step([given_up], "a")[0].wished_by)


def test_a_wish_of_one_who_does_not_come_is_forgotten():
    (given_up,) = step([lease(holder="b", wished_by="a")], "b")
    (taken,) = step([given_up], "c", now_ms=200)

    assert ("c", None) == (taken.holder, taken.wished_by)


@settings(max_examples=examples(200))
@given(st.integers(1, 9), st.lists(st.sampled_from("abc"), min_size=1, max_size=30), st.integers(0, 1 << 30))
def test_workers_that_take_turns_share_evenly_and_then_change_nothing(
    partitions: int, turns: list[str], fence: int
):
    """Whatever happened before."""
    leases = [lease(number, fence=fence) for number in range(partitions)]
    for worker in turns:
        leases = step(leases, worker)
    fences = [one.fence for one in leases]
    for _ in range(4 * partitions):
        for worker in "abc":
            leases = step(leases, worker)

    counts = sorted([one.holder for one in leases].count(worker) for worker in "abc")
    assert (0, partitions) == (sum(one.holder is None for one in leases), sum(counts))
    assert counts[-1] - counts[0] <= 1
    assert all(before <= after.fence for before, after in zip(fences, leases, strict=True))
    assert leases == step(step(step(leases, "a"), "b"), "c")
