"""Limit feeds over the wire: the events of a statement are the difference between the list before it and the list after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import rethinkdb
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.testing import rethinkdb_connection
from tests.dialects.rethinkdb.acceptance.client import Client, Clock
from tests.dialects.rethinkdb.acceptance.probes import text
from tests.support import feeds

r = rethinkdb.RethinkDB()
games = r.table("games")

BY_KEY = games.order_by(index="id")
BY_SCORE = games.order_by(index=r.desc("score"))


@pytest.fixture
def memory() -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        db.table_create("games").index_create("score")
        db.table("games").insert([{"id": number, "score": number} for number in range(10, 16)])
        yield db


@pytest.fixture
def connection(memory: Any) -> Iterator[Any]:
    with rethinkdb_connection(memory) as connection:
        yield connection


def told(feed: Any) -> list[Any]:
    found = []
    while True:
        try:
            found.append(feed.next(wait=False))
        except rethinkdb.errors.ReqlTimeoutError:
            return found


def ids(events: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [
        tuple(None if one is None else one["id"] for one in (event["old_val"], event["new_val"]))
        for event in events
    ]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("expected", "order", "statement"),
    [
        # The successor of one that is deleted is deleted as well: nobody hears of it.
        ([(10, 14), (11, 15)], BY_KEY, games.between(10, 14).delete()),
        ([(10, None), (11, None)], BY_KEY, games.delete()),
        ([(14, 11), (15, 10)], BY_SCORE, games.between(12, 16).delete()),
        # Of many that come, those that others push out again are not told.
        ([(11, 2), (10, 1)], BY_KEY, games.insert([{"id": number} for number in (5, 4, 3, 2, 1)])),
        ([(14, 20), (15, 21)], BY_SCORE, games.insert([{"id": number, "score": number} for number in range(17, 22)])),
        # What leaves the list and comes back as it was is not told.
        ([], BY_SCORE, games.update({"seen": True}).do(lambda answer: answer)),
    ],
)  # fmt: skip
def test_a_statement_tells_of_no_document_that_was_only_passing_through(
    connection: Any, expected: list[Any], order: Any, statement: Any
) -> None:
    """And the others come in the order in which the statement wrote."""
    feed = order.pluck("id").limit(2).changes().run(connection)

    statement.run(connection)

    assert expected == ids(told(feed))


@pytest.mark.parametrize("has_offsets", [False, True])
def test_what_one_commit_does_comes_in_one_order_natively_and_over_the_wire(
    memory: Any, connection: Any, has_offsets: bool
) -> None:
    """That in which it wrote: here that of the keys, which is not that of the list."""
    table = memory.table("games")
    table.update(lambda document: {"score": document["id"] * 7 % 10})
    wire = games.order_by(index="score").limit(3).changes(include_offsets=has_offsets).run(connection)
    query = table.order_by(index="score").limit(3)
    with (
        query.changes(include_offsets=has_offsets).cursor() as cursor,
        query.changes(squash=True, include_offsets=has_offsets).cursor() as squashed,
    ):
        before = [document["id"] for document in query]
        table.delete()
        steps, net, sent = feeds.heard(cursor), feeds.heard(squashed), told(wire)

    assert [10, 12, 13] == sorted(before) != before
    assert sent == net
    assert [10, 12, 13] == [event["old_val"]["id"] for event in sent]
    assert [10, 12, 13] == [event["old_val"]["id"] for event in steps if event["old_val"]["id"] in before]


def test_what_a_statement_does_and_undoes_is_told_as_it_was_recorded(connection: Any) -> None:
    """By key it is not told; by an index both is, as a test of RethinkDB's own has it."""
    by_key = BY_KEY.limit(1).changes().run(connection)
    by_score = games.order_by(index="score").limit(1).changes().run(connection)

    games.insert([{"id": 0, "score": 0}, {"id": 0}], conflict=lambda key, old, new: None).run(connection)

    assert [] == told(by_key)
    assert [(10, 0), (0, 10)] == ids(told(by_score))


def test_a_document_that_keeps_its_place_is_one_change(connection: Any) -> None:
    feed = BY_KEY.limit(3).changes(include_offsets=True, include_types=True).run(connection)

    games.update({"score": r.row["score"] + 1}).run(connection)

    assert [("change", number, number) for number in range(3)] == [
        (event["type"], event["old_offset"], event["new_offset"]) for event in told(feed)
    ]


def test_transactions_of_native_code_are_told_in_the_same_way(memory: Any, connection: Any) -> None:
    feed = BY_SCORE.limit(2).changes(include_initial=True, include_states=True).run(connection)
    assert 4 == len(told(feed))

    with memory.transaction():
        for number in range(20, 30):
            memory.table("games").insert({"id": number, "score": number})

    assert [(14, 28), (15, 29)] == sorted(ids(told(feed)))


def test_half_of_a_commit_is_never_told(memory: Any, connection: Any) -> None:
    """Nor where a poll comes while another thread's commit is being told."""
    is_halfway, is_asked = threading.Event(), threading.Event()

    def held_up(document: Any) -> bool:
        """A predicate of another feed, which is asked within the commit."""
        if document["id"] == 1:
            is_halfway.set()
            is_asked.wait(10)
        return False

    def write() -> None:
        with memory.transaction():
            for number in range(9, 0, -1):
                memory.table("games").insert({"id": number})

    feed = BY_KEY.limit(1).changes().run(connection)
    memory.table("games").filter(held_up).changes().subscribe(print)
    writer = threading.Thread(target=write)
    writer.start()
    assert is_halfway.wait(10)

    assert [] == told(feed)
    is_asked.set()
    event = feed.next(wait=10)
    writer.join()

    assert [(10, 1)] == ids([event])
    assert [] == told(feed)


# ---------------------------------------------------------------------------------------------------------------
# The law

KEYS = st.integers(0, 7)
SCORES = st.integers(0, 4)
DOCUMENTS = st.lists(st.tuples(KEYS, SCORES), min_size=1, max_size=6, unique_by=lambda pair: pair[0])
STATEMENTS = st.one_of(
    DOCUMENTS.map(
        lambda pairs: games.insert([{"id": key, "score": score} for key, score in pairs], conflict="replace")
    ),
    st.tuples(KEYS, KEYS).map(lambda pair: games.between(min(pair), max(pair)).delete()),
    st.tuples(KEYS, SCORES).map(lambda pair: games.filter(r.row["id"] > pair[0]).update({"score": pair[1]})),
    SCORES.map(lambda score: games.update({"score": (r.row["score"] + score) % 5})),
)
ORDERS = {
    "key": BY_KEY,
    "key, descending": games.order_by(index=r.desc("id")),
    "index": games.order_by(index="score"),
    "index, descending": BY_SCORE,
    "filtered": BY_SCORE.filter(r.row["score"] > 1),
    "plucked": BY_KEY.pluck("score"),
}


@pytest.mark.slow
@given(st.lists(STATEMENTS, min_size=1, max_size=5), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("name", list(ORDERS))
def test_every_event_is_of_the_list_before_or_after_the_statement(
    name: str, statements: list[Any], limit: int
) -> None:
    """Applied by their offsets the events give what asking again gives; without offsets they give the same values. And no value
    in them is of neither list."""
    query = ORDERS[name].limit(limit)
    with reactdb.connect(":memory:", durability="soft") as db:
        db.table_create("games").index_create("score")
        db.table("games").insert([{"id": number, "score": number % 5} for number in range(0, 8, 2)])
        clock = Clock()
        client, placed, unplaced = (Client(db, clock) for _ in range(3))
        for feed, options in ((placed, {"include_offsets": True}), (unplaced, {"include_types": True})):
            feed._take(feed.run(query.changes(**options)))

        def asked() -> list[str]:
            return list(map(text, client.run(query)["r"]))

        before = asked()
        for statement in statements:
            client.run(statement)
            after, listed = asked(), list(before)
            for event in heard(placed):
                check_known(event, before, after)
                if event["old_offset"] is not None:
                    assert text(event["old_val"]) == listed.pop(event["old_offset"])
                if event["new_offset"] is not None:
                    listed.insert(event["new_offset"], text(event["new_val"]))
                assert len(listed) <= limit
            assert after == listed

            values = list(before)
            for event in heard(unplaced):
                check_known(event, before, after)
                assert event["old_val"] != event["new_val"]
                if event["old_val"] is not None:
                    values.remove(text(event["old_val"]))
                if event["new_val"] is not None:
                    values.append(text(event["new_val"]))
                kind = (
                    "add" if event["old_val"] is None else "remove" if event["new_val"] is None else "change"
                )
                assert kind == event["type"]
            assert sorted(after) == sorted(values)
            before = after


def heard(client: Client) -> list[Any]:
    client.pump()
    found = [item for batch in client.batches for item in batch["r"]]
    client.batches = client.batches[-1:]
    client.batches = [{**batch, "r": []} for batch in client.batches]
    return found


def check_known(event: Any, before: list[str], after: list[str]) -> None:
    assert event["old_val"] is None or text(event["old_val"]) in before
    assert event["new_val"] is None or text(event["new_val"]) in after
