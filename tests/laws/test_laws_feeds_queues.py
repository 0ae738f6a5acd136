"""A law of queues: whether a subscriber has a queue of its own or a position in a shared one, it gets the same deltas and the
same counts of dropped deltas, in the same order, as from a plain list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.change import INSERT, Change
from reactdb.feeds.broadcast import Broadcast, ReadPosition
from reactdb.feeds.queues import CommitQueue, FeedQueue
from tests.support.scaling import examples

LIMITS = st.integers(1, 6)
# Publish a commit of so many deltas, or take so often.
STEPS = st.lists(st.tuples(st.sampled_from(["publish", "next"]), st.integers(1, 9)), max_size=40)


def change(seq: int) -> Change:
    return Change(seq, "games", 1, b"k", INSERT, None, None, b"{}", seq, 0)


class PlainList:
    """The long way: all deltas in a list, of which the newest are kept."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held: list[Change] = []
        self.dropped = 0

    def publish(self, deltas: list[Change]) -> None:
        self.held += deltas
        late = max(0, len(self.held) - self.limit)
        del self.held[:late]
        self.dropped += late

    def next(self, reported: int) -> Any:
        if self.dropped != reported:
            return self.dropped - reported
        return self.held.pop(0) if self.held else None


Publish = Callable[[list[Change]], None]


def own_queue(limit: int) -> tuple[FeedQueue, Publish]:
    queue = FeedQueue(limit)
    return queue, queue.add


def shared_queue(limit: int) -> tuple[ReadPosition, Publish]:
    """A position in a shared queue that had a delta before it came."""
    broadcast = Broadcast((limit, lambda delta: {}), lambda one: None)
    broadcast.publish([change(1)])
    position = ReadPosition(broadcast)
    broadcast.members[object()] = position  # type: ignore[index]
    return position, broadcast.publish


@pytest.mark.parametrize("make", [own_queue, shared_queue])
@settings(max_examples=examples(300), deadline=None)
@given(LIMITS, STEPS, st.booleans())
def test_the_next_of_a_queue_is_the_next_of_a_plain_list(
    make: Callable[[int], tuple[Any, Publish]], limit: int, steps: list[tuple[str, int]], is_stopped: bool
) -> None:
    (queue, publish), plain = make(limit), PlainList(limit)
    seq = reported = 0

    def take() -> Any:
        nonlocal reported
        taken, expected = queue.next(reported), plain.next(reported)
        assert taken is expected if type(expected) is Change else taken == expected
        if type(taken) is int:
            reported += taken
        return taken

    for name, count in steps:
        if name == "publish":
            deltas = [change(seq + number) for number in range(1, count + 1)]
            seq += count
            publish(deltas)
            plain.publish(deltas)
        else:
            for _ in range(count):
                take()
        assert (len(queue), queue.dropped) == (len(plain.held), plain.dropped)
        assert queue.first is (plain.held[0] if plain.held else None)
    if is_stopped and make is shared_queue:
        # Later deltas are not for it.
        queue.stop()
        publish([change(seq + 1)])
    while take() is not None:
        pass


@settings(max_examples=examples(300), deadline=None)
@given(LIMITS, STEPS)
def test_a_queue_of_commits_gives_and_drops_them_whole(limit: int, steps: list[tuple[str, int]]) -> None:
    queue = CommitQueue(limit)
    held: list[list[Change]] = []
    dropped = reported = seq = 0
    for name, count in steps:
        if name == "publish":
            deltas = [change(seq + number) for number in range(1, count + 1)]
            seq += count
            queue.add(deltas)
            held.append(deltas)
            while sum(map(len, held)) > limit and len(held) > 1:
                dropped += len(held.pop(0))
            continue
        for _ in range(count):
            taken = queue.next(reported)
            if dropped != reported:
                assert taken == dropped - reported
                reported = dropped
            else:
                assert taken == (held.pop(0) if held else None)
