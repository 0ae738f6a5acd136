"""Queries that would fill the memory: each is stopped with a sentence; those that hold nothing go on, however much they make.

Where the memory is real, it is little: the limit is 64 MiB, and each query would need gigabytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rethinkdb
from rethinkdb.ast import ReQLEncoder
from rethinkdb.errors import ReqlResourceLimitError

import reactdb
from reactdb.budget import Budget, Crowd, MemoryFull, process_bytes
from reactdb.dialects.rethinkdb import Session
from reactdb.servers.rethinkdb import Limits, serve_in_thread

r = rethinkdb.RethinkDB()
table = r.table("games")
MIB = 2**20
LIMIT = 64 * MIB
SENTENCE = "The query was stopped, because it filled more than the 64 MiB of memory that this server allows."

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much memory a process takes")

numbers = r.range(90_000).coerce_to("array")
long = r.expr("x" * 100_000)

GREEDY: dict[str, Callable[[], Any]] = {
    "an array of arrays": lambda: r.range(10_000).map(lambda x: numbers).coerce_to("array"),
    "an array of strings": lambda: (
        r.range(50_000).map(lambda x: long.add(x.coerce_to("string"))).coerce_to("array")
    ),
    "an array of documents": lambda: r.range(50_000).map(lambda x: table.get(1)).coerce_to("array"),
    "an array of tables": lambda: r.range(50_000).map(lambda x: table.coerce_to("array")).coerce_to("array"),
    "objects": lambda: r.range(50_000).map(lambda x: {"x": {"y": numbers}}).coerce_to("array"),
    "groups": lambda: (
        r.range(10**9).map(lambda x: long.add(x.coerce_to("string"))).group(lambda text: text.count().mod(3))
    ),
    "an order": lambda: (
        r.range(50_000).map(lambda x: long.add(x.coerce_to("string"))).order_by(lambda text: text)
    ),
    "an update": lambda: table.update(
        lambda d: {"x": r.range(10_000).map(lambda x: numbers).coerce_to("array").count()}, non_atomic=True
    ),
}


def wire(query: Any) -> bytes:
    return f'[1,{ReQLEncoder().encode(query)},{{"db":[14,["test"]]}}]'.encode()


def asked(session: Session, query: Any) -> dict[str, Any]:
    (frame,) = session.receive(1, wire(query))
    answer: dict[str, Any] = json.loads(frame.body)
    return answer


@pytest.fixture
def memory() -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.insert([{"id": number, "text": "x" * 100_000} for number in range(20)])
        yield db


@pytest.mark.slow
@linux
@pytest.mark.parametrize("query", GREEDY.values(), ids=GREEDY)
def test_a_query_that_fills_too_much_memory_is_stopped(memory: Any, query: Callable[[], Any]) -> None:
    before_bytes, token = process_bytes(), memory.token
    assert before_bytes is not None
    session = Session(memory, query_bytes=LIMIT, crowd=Crowd())

    answer = asked(session, query())

    assert (18, 2_000_000, [SENTENCE]) == (answer["t"], answer.get("e"), answer["r"])
    after_bytes = process_bytes()
    assert after_bytes is not None
    assert after_bytes - before_bytes < 3 * LIMIT
    assert token == memory.token
    assert {"t": 1, "r": [5]} == asked(session, r.expr(5)), "the next query has all of it again"


@linux
@pytest.mark.parametrize(
    "query",
    [
        lambda: r.range(200).map(lambda x: r.range(10_000).coerce_to("array").count()).sum(),
        lambda: r.range(2_000).map(lambda x: r.expr("x" * 100_000).add(x.coerce_to("string")).count()).sum(),
        lambda: r.range(100).map(lambda x: table.sum(lambda d: d["text"].count())).sum(),
    ],
    ids=["arrays", "strings", "documents"],
)
def test_a_query_that_lets_go_of_what_it_makes_may_make_any_amount(
    memory: Any, query: Callable[[], Any]
) -> None:
    answer = asked(Session(memory, query_bytes=LIMIT, crowd=Crowd()), query())

    assert 1 == answer["t"]


@linux
def test_a_driver_hears_that_its_query_filled_too_much_memory_and_others_go_on(memory: Any) -> None:
    with (
        serve_in_thread(memory, limits=Limits(query_bytes=LIMIT)) as server,
        r.connect(server.host, server.port) as connection,
        r.connect(server.host, server.port) as other,
    ):
        feed = table.changes().run(other)
        with pytest.raises(ReqlResourceLimitError, match="more than the 64 MiB of memory"):
            GREEDY["an array of arrays"]().run(connection)
        table.insert({"id": "new"}).run(connection)

        assert "new" == feed.next(wait=20)["new_val"]["id"]


# ---------------------------------------------------------------------------------------------------------------
# The parts


class Process:
    """Memory that grows when somebody says so."""

    def __init__(self) -> None:
        self.bytes: int | None = 1_000

    def __call__(self) -> int | None:
        return self.bytes


def look(budget: Budget) -> None:
    budget.spend(10**9)


def test_what_was_there_before_a_query_is_not_its_own() -> None:
    process = Process()
    crowd = Crowd(measure=process)
    budget = Budget(crowd=crowd, most_bytes=100)
    for _ in range(3):
        budget.begin()
        process.bytes = (process.bytes or 0) + 1_000
        look(budget)
        process.bytes += 100
        look(budget)
        process.bytes += 1
        with pytest.raises(MemoryFull):
            look(budget)


def test_what_a_query_lets_go_of_is_not_counted_any_more() -> None:
    process = Process()
    budget = Budget(crowd=Crowd(measure=process), most_bytes=100)
    look(budget)
    for process.bytes in (1_100, 1_000, 1_100, 1_050, 1_100):
        look(budget)


def test_what_another_query_lets_go_of_gives_a_query_no_more_than_the_limit() -> None:
    process = Process()
    budget = Budget(crowd=Crowd(measure=process), most_bytes=100)
    process.bytes = 10_000
    look(budget)
    process.bytes = 1_000
    look(budget)
    process.bytes = 1_101

    with pytest.raises(MemoryFull):
        look(budget)


def test_what_one_query_fills_is_not_counted_for_another() -> None:
    process = Process()
    crowd = Crowd(measure=process)
    modest, greedy = (Budget(crowd=crowd, most_bytes=100) for _ in range(2))
    look(modest)
    look(greedy)
    process.bytes = 1_090
    look(greedy)
    look(modest)
    process.bytes = 1_180

    with pytest.raises(MemoryFull):
        look(greedy)
    look(modest)


def test_where_the_system_does_not_tell_nothing_is_stopped() -> None:
    process = Process()
    budget = Budget(crowd=Crowd(measure=process), most_bytes=100)
    look(budget)
    for process.bytes in (None, 1_050, None, 1_090):
        look(budget)
