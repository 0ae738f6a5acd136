"""Endless queries: each is stopped by a timeout or when its client disconnects, and does not delay others.

The time is virtual: every reading of the clock takes a second. So the tests check that evaluation reads the clock.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import rethinkdb
from rethinkdb.ast import ReQLEncoder

import reactdb
from reactdb import budget
from reactdb.budget import Budget, Crowd, Stopped
from reactdb.dialects.rethinkdb import Session
from reactdb.dialects.rethinkdb.wire import encode_computed
from reactdb.errors import InvalidOption
from reactdb.servers.rethinkdb import Credentials, Limits, RethinkDBServer, serve_in_thread
from reactdb.servers.rethinkdb.conversation import RethinkDBConversation
from reactdb.servers.workers import Workers
from reactdb.session import session_of
from tests.support.rethinkdb import Raw, subscriptions
from tests.support.threads import wait_until

r = rethinkdb.RethinkDB()
ENDLESS = 10**12


class Ticking:
    """A clock that is a second on whenever somebody looks at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def wire(query: Any) -> bytes:
    return f'[1,{ReQLEncoder().encode(query)},{{"db":[14,["test"]]}}]'.encode()


def asked(session: Session, query: Any, token: int = 1) -> dict[str, Any]:
    (frame,) = session.receive(token, wire(query))
    answer: dict[str, Any] = json.loads(frame.body)
    return answer


def nested(levels: int) -> Any:
    """An array of ten times the same array of ten times ..., made of few terms."""
    value = r.expr([1] * 10)
    for _ in range(levels):
        value = value.do(lambda inner: [inner] * 10)
    return value


def products(array: Any) -> Any:
    """A function of a document that an expression can be made of: four loops inside one another."""
    return array.map(
        lambda a: array.map(
            lambda b: array.map(lambda c: array.filter(lambda d: d == a + b + c).count()).sum()
        ).sum()
    ).sum()


table = r.table("games")
NASTY: dict[str, Callable[[], Any]] = {
    "a sum of mapped numbers": lambda: r.range(ENDLESS).map(lambda x: x * 2).sum(),
    "a sum of sums": lambda: r.range(10**6).map(lambda x: r.range(10**6).map(lambda y: x * y).sum()).sum(),
    "sum": lambda: r.range(ENDLESS).sum(),
    "avg": lambda: r.range(ENDLESS).avg(),
    "count": lambda: r.range(ENDLESS).count(),
    "count of a value": lambda: r.range(ENDLESS).count(-1),
    "min": lambda: r.range(ENDLESS).min(),
    "contains": lambda: r.range(ENDLESS).contains(-1),
    "reduce": lambda: r.range(ENDLESS).reduce(lambda a, b: b),
    "fold": lambda: r.range(ENDLESS).fold(0, lambda a, b: b),
    "distinct": lambda: r.range(ENDLESS).map(lambda x: x % 7).distinct(),
    "group": lambda: r.range(ENDLESS).group(lambda x: x % 7).count(),
    "sample": lambda: r.range(ENDLESS).sample(3),
    "nth": lambda: r.range(ENDLESS).nth(10**11),
    "order_by": lambda: r.range(90_000).order_by(lambda x: r.range(90_000).sum()),
    "a filter that nothing passes": lambda: r.range(ENDLESS).filter(lambda x: x < 0),
    "a product of tables": lambda: table.concat_map(
        lambda a: table.concat_map(
            lambda b: table.concat_map(lambda c: table.map(lambda d: a["id"] + b["id"] + c["id"] + d["id"]))
        )
    ).count(),
    "a join of joins": lambda: (
        table.inner_join(table, lambda a, b: True).inner_join(table, lambda a, b: False).count()
    ),
    "get in a loop": lambda: r.range(ENDLESS).filter(lambda x: table.get(x % 10)["id"] < 0),
    "nested do of arrays": lambda: nested(9),
    "nested do, compared": lambda: nested(9).do(lambda x: x == [x]),
    "nested do, as text": lambda: nested(9).to_json_string(),
    "nested do, stored": lambda: table.insert({"id": 0, "a": nested(9).count(lambda x: x == [x])}),
    "doubled by fold": lambda: r.range(60).fold(1, lambda a, _: [a, a]),
    "merged with itself": lambda: (
        r.range(60).fold({"a": 1}, lambda a, _: {"a": a, "b": a}).do(lambda x: x.merge(x))
    ),
    "a compiled map": lambda: table.map(lambda d: products(d["a"])),
    "a compiled filter": lambda: table.filter(lambda d: products(d["a"]) < 0),
    "an update": lambda: table.update(lambda d: {"x": products(d["a"])}),
    "an update that reads": lambda: table.update(
        lambda d: {"x": r.range(ENDLESS).sum() + table.count()}, non_atomic=True
    ),
    "a replace of one": lambda: table.get(1).replace(lambda d: d.merge({"x": r.range(ENDLESS).sum()})),
    "an insert": lambda: table.insert({"id": -1, "x": r.range(ENDLESS).sum()}),
    "a regular expression": lambda: r.range(ENDLESS).filter(
        lambda x: r.expr("a" * 300 + "b").match("(a+)+$")
    ),
    "a quick regular expression": lambda: r.range(ENDLESS).filter(lambda x: r.expr("aab").match("c$")),
    "json": lambda: r.range(ENDLESS).map(lambda x: r.json("[1]")).count(),
}


@pytest.fixture
def memory() -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.insert([{"id": number, "a": list(range(100))} for number in range(200)])
        yield db


@pytest.mark.parametrize("query", NASTY.values(), ids=NASTY)
def test_a_query_that_takes_too_long_is_stopped(memory: Any, query: Callable[[], Any]) -> None:
    before = memory.token

    answer = asked(Session(memory, clock=Ticking(), query_timeout_s=5), query())

    sentence = "The query was stopped, because it took longer than the 5 seconds that this server allows."
    assert (18, 2_000_000, [sentence]) == (answer["t"], answer.get("e"), answer["r"])
    assert before == memory.token


@pytest.mark.parametrize("query", NASTY.values(), ids=NASTY)
def test_a_query_is_stopped_when_its_session_is_cancelled(memory: Any, query: Callable[[], Any]) -> None:
    session = Session(memory)
    session.cancel()

    answer = asked(session, query())

    assert (18, 4_200_000) == (answer["t"], answer.get("e"))


def test_a_run_option_that_takes_too_long_is_stopped(memory: Any) -> None:
    session = Session(memory, clock=Ticking(), query_timeout_s=5)
    endless = ReQLEncoder().encode(r.range(ENDLESS).sum())

    (frame,) = session.receive(1, f'[1,5,{{"array_limit":{endless}}}]'.encode())

    assert 2_000_000 == json.loads(frame.body)["e"]


def test_every_batch_of_a_stream_has_the_time_of_a_query(memory: Any) -> None:
    """Long streams are read for longer than a query may take; a batch that never comes is stopped."""
    session = Session(memory, clock=Ticking(), query_timeout_s=5)
    assert 3 == asked(session, r.range(ENDLESS).filter(lambda x: x < 100_000))["t"]

    answers = [json.loads(session.receive(1, b"[2]")[0].body) for _ in range(50)]

    kinds = [answer["t"] for answer in answers]
    assert kinds == [3] * 49 + [18]
    assert "took longer than" in answers[-1]["r"][0]
    assert 0 == session.stream_count


def test_a_feed_may_wait_longer_than_a_query_may_take(memory: Any) -> None:
    session = Session(memory, clock=Ticking(), query_timeout_s=5)
    assert 3 == asked(session, table.changes())["t"]
    for _ in range(20):
        assert [] == session.poll()
    assert [] == session.receive(1, b"[2]")

    memory.table("games").insert({"id": "new"})

    assert "new" == json.loads(session.poll()[0].body)["r"][0]["new_val"]["id"]


def test_what_a_feed_computes_of_an_event_is_stopped_and_the_feed_with_it(memory: Any) -> None:
    session = Session(memory, clock=Ticking(), query_timeout_s=5)
    asked(session, table.changes().map(lambda change: r.range(ENDLESS).sum()))
    session.receive(1, b"[2]")

    memory.table("games").insert({"id": "new"})
    (frame,) = session.poll()

    assert "took longer than" in json.loads(frame.body)["r"][0]
    assert (0, 0) == (session.stream_count, subscriptions(memory))


def test_the_condition_of_a_feed_does_not_spend_the_time_of_the_write_that_it_hears_of(memory: Any) -> None:
    """A commit that is told half-way would be no commit."""
    heard: list[Any] = []
    other = Session(memory)
    asked(other, table.filter(lambda d: d["a"].map(lambda x: d["a"].sum()).sum() > 0).changes())
    other.receive(1, b"[2]")
    memory.table("games").changes().subscribe(lambda event: heard.append(budget.current.get()))
    session = Session(memory, clock=Ticking(), query_timeout_s=1.5)

    answer = asked(session, table.insert({"id": "new", "a": [1] * 500}))

    assert 1 == answer["r"][0]["inserted"]
    assert "new" == json.loads(other.poll()[0].body)["r"][0]["new_val"]["id"]
    assert [None] == heard


def test_a_write_that_another_thread_carries_out_has_the_limits_of_its_own_query(tmp_path: Any) -> None:
    """The one who commits for others has another time, and another array limit."""
    with reactdb.connect(tmp_path / "shared.db") as db:
        db.table_create("games").insert({"id": 1, "a": [1] * 100})
        queue = session_of(db).engine.writer.queue
        answers: dict[str, Any] = {}

        def write(name: str, session: Session, query: Any) -> threading.Thread:
            thread = threading.Thread(target=lambda: answers.setdefault(name, asked(session, query)))
            thread.start()
            return thread

        with db.transaction():
            threads = [write("first", Session(db), table.insert({"id": 2}))]
            wait_until(lambda: len(queue) == 2)
            slow = Session(db, clock=Ticking(), query_timeout_s=5)
            heavy = table.get(1).update(lambda d: {"x": products(d["a"])})
            threads.append(write("slow", slow, heavy))
            wait_until(lambda: len(queue) == 3)
            threads.append(write("last", Session(db), table.insert({"id": 3})))
            wait_until(lambda: len(queue) == 4)
        for thread in threads:
            thread.join()

        assert (1, 1) == (answers["first"]["r"][0]["inserted"], answers["last"]["r"][0]["inserted"])
        assert "took longer than the 5 seconds" in answers["slow"]["r"][0]
        assert [1, 2, 3] == [one["id"] for one in db.table("games").run()]
        assert "x" not in db.table("games").get(1).run()


# ---------------------------------------------------------------------------------------------------------------
# Over a port


@contextmanager
def served(db: Any, **limits: Any) -> Iterator[RethinkDBServer]:
    with serve_in_thread(db, limits=Limits(**limits)) as server:
        yield server


@pytest.fixture
def games(db: Any) -> Any:
    games = db.table_create("games")
    games.insert([{"id": number, "a": list(range(100))} for number in range(200)])
    return games


FOUR = ["a sum of sums", "a product of tables", "nested do, compared", "a compiled map"]


def test_the_driver_hears_that_its_query_took_too_long(db: Any, games: Any) -> None:
    from rethinkdb.errors import ReqlResourceLimitError

    with served(db, query_s=0.05) as server, r.connect(server.host, server.port) as connection:
        with pytest.raises(ReqlResourceLimitError, match=r"longer than the 0\.05 seconds"):
            r.range(ENDLESS).sum().run(connection)
        assert 200 == table.count().run(connection)


def test_a_pattern_that_is_large_for_its_text_is_refused_while_others_are_answered(
    db: Any, games: Any
) -> None:
    """It took more than a minute, in which no other thread ran."""
    from rethinkdb.errors import ReqlResourceLimitError

    pattern, longest_s, is_over = "a{0,1000}" * 20 + "$", 0.0, threading.Event()

    with served(db, query_s=3) as server:

        def attack() -> None:
            with r.connect(server.host, server.port) as connection:
                with pytest.raises(ReqlResourceLimitError, match="The regexp"):
                    r.expr("a" * 400_000 + "b").match(pattern).run(connection)
                with pytest.raises(ReqlResourceLimitError, match="The regexp"):
                    r.expr("a" * 400_000 + "b").match("(a|b){0,400}$").run(connection)
            is_over.set()

        attacker = threading.Thread(target=attack)
        with r.connect(server.host, server.port) as connection:
            assert 200 == table.count().run(connection)
            attacker.start()
            while not is_over.is_set() and attacker.is_alive():
                began = time.monotonic()
                assert 200 == table.count().run(connection)
                longest_s = max(longest_s, time.monotonic() - began)
        attacker.join(10)

    assert is_over.is_set()
    assert longest_s < 1.5


@pytest.mark.parametrize("name", FOUR)
def test_a_query_ends_when_its_client_goes(db: Any, games: Any, name: str) -> None:
    with served(db, query_s=0) as server:
        with Raw((server.host, server.port)) as client:
            client.shake_hands()
            client.frame(1, wire(NASTY[name]()))
            wait_until(lambda: bool(server.workers.jobs))

        wait_until(lambda: not server.workers.jobs and server.connection_count == 0, timeout_s=60)


def test_a_stream_that_never_gives_an_element_ends_when_its_client_goes(db: Any, games: Any) -> None:
    """Also in a later batch, which is asked for by a request that is quick elsewhere."""
    query = r.range(ENDLESS).filter(lambda x: x < 2_000)
    with served(db, query_s=0) as server:
        with Raw((server.host, server.port)) as client:
            client.shake_hands()
            client.frame(1, wire(query))
            assert 3 == client.response()[1]["t"]
            client.frame(1, b"[2]")
            wait_until(lambda: bool(server.workers.jobs))

        wait_until(lambda: not server.workers.jobs and server.connection_count == 0, timeout_s=60)


@pytest.mark.slow
def test_a_server_that_closes_waits_for_no_query(db: Any, games: Any) -> None:
    with served(db, query_s=0) as server:
        client = Raw((server.host, server.port))
        client.shake_hands()
        client.frame(1, wire(NASTY["a sum of sums"]()))
        wait_until(lambda: bool(server.workers.jobs))

    assert not server.workers.jobs
    client.socket.close()


@pytest.mark.parametrize("durability", ["hard", "soft"])
def test_others_go_on_while_four_queries_run_for_ever(tmp_path: Any, durability: Any) -> None:
    """Reads, writes and feeds: none of them waits for a thread, nor for the loop."""
    with reactdb.connect(tmp_path / "busy.db", durability=durability) as db:
        db.table_create("games").insert([{"id": number, "a": list(range(100))} for number in range(200)])
        with served(db, query_s=0) as server:
            address = (server.host, server.port)
            busy = [Raw(address) for _ in FOUR]
            for client, name in zip(busy, FOUR, strict=True):
                client.shake_hands()
                client.frame(1, wire(NASTY[name]()))
            wait_until(lambda: len(server.workers.jobs) == 4 and len(server.workers.crowd) == 4, timeout_s=60)

            with r.connect(*address) as connection:
                feed = table.changes().run(connection)
                for number in range(20):
                    assert number == table.get(number).run(connection)["id"]
                assert 7 == table.get(7)["id"].run(connection)
                assert 200 == table.count().run(connection)
                # Those who read the table see it, too: a document without numbers would end them with an error.
                assert 1 == table.insert({"id": 1_000, "a": [1]}).run(connection)["inserted"]
                assert 1_000 == feed.next(wait=30)["new_val"]["id"]
            assert 4 == len(server.workers.crowd)
            for client in busy:
                client.socket.close()
            wait_until(lambda: not server.workers.jobs and not len(server.workers.crowd), timeout_s=60)


@pytest.mark.slow
def test_a_write_that_computes_for_ever_keeps_nobody_from_reading(db: Any, games: Any) -> None:
    """An insert of another client waits for its turn: the loop does not wait with it. (In memory, a read of a table waits for the
    write, as it does natively.)"""
    with served(db, query_s=0) as server:
        address = (server.host, server.port)
        with Raw(address) as writer, Raw(address) as waiting:
            for client in (writer, waiting):
                client.shake_hands()
            writer.frame(1, wire(NASTY["an update"]()))
            wait_until(lambda: len(server.workers.jobs) == 1, timeout_s=60)
            waiting.frame(1, wire(table.insert({"id": "later"})))

            with r.connect(*address) as connection, r.connect(*address) as reader:
                if db.path != ":memory:":
                    assert 1 == table.get(1).run(reader)["id"]
                table.get(1).run(reader, noreply=True)
                assert 5 == r.expr(5).run(connection)
            writer.socket.close()
            assert 1 == waiting.response()[1]["r"][0]["inserted"]


def test_what_computes_is_not_carried_out_where_everybody_waits(db: Any, games: Any) -> None:
    """Requests that begin as quick ones do."""
    endless = r.range(ENDLESS).sum()
    queries = [
        table.get(endless),
        table.insert({"id": -1, "x": endless}),
        table.get(1).update({"x": endless}),
        table.get(1).replace(lambda d: d.merge({"x": products(d["a"])})),
        table.insert(r.table("games").map(lambda d: products(d["a"]))),
    ]
    with served(db, query_s=0) as server:
        address = (server.host, server.port)
        busy = [Raw(address) for _ in queries]
        for client, query in zip(busy, queries, strict=True):
            client.shake_hands()
            client.frame(1, wire(query))
        wait_until(lambda: len(server.workers.jobs) == len(queries), timeout_s=60)
        with r.connect(*address) as connection:
            assert 5 == r.expr(5).run(connection)
        for client in busy:
            client.socket.close()
        wait_until(lambda: not server.workers.jobs, timeout_s=60)


def test_only_what_concerns_one_document_is_carried_out_on_the_loop(memory: Any) -> None:
    """A write that names a second table may read all of it."""
    workers = Workers(1)
    conversation = RethinkDBConversation(
        memory, Credentials(), Limits(), workers, lambda: None, ("127.0.0.1", 1)
    )
    conversation.is_admitted = True
    quick = [table.get(1), table.insert({"id": "new"}), table.get(1).update({"n": 1}), table.get(1).delete()]
    slow = [table, table.insert(r.table("others")), table.get(1).replace(r.table("others").get(2)), r.expr(1)]

    answers = [conversation.is_quick((1, wire(query))) for query in (*quick, *slow)]

    assert [True] * len(quick) + [False] * len(slow) == answers
    conversation.close()
    workers.close()


# ---------------------------------------------------------------------------------------------------------------
# The parts


def test_slow_queries_sleep_as_long_as_the_others_compute() -> None:
    slept: list[float] = []
    crowd = Crowd(slept.append)
    now = [0.0]
    first, second, third = (Budget(None, lambda: now[0], crowd) for _ in range(3))

    def compute(budget: Budget, seconds: float) -> list[float]:
        slept.clear()
        now[0] += seconds
        budget.spend(10**9)
        return [round(one, 6) for one in slept]

    assert [] == compute(first, 0.01), "nobody is slow yet"
    assert [] == compute(first, 0.09), "it is the only one"
    assert [0.1] == compute(second, 0.0)
    second.end()
    assert [] == compute(first, 0.01)
    second.begin()
    assert [] == compute(second, 0.01), "a new query is quick again"
    assert [0.12] == compute(third, 0.0)
    assert 2 == len(crowd)


def test_a_budget_gives_elements_one_by_one_and_counts_them() -> None:
    """Nothing is read ahead: what is computed for an element may fail, or never be asked for."""
    read: list[int] = []
    seen = Budget(2.5, Ticking())

    def numbers() -> Iterator[int]:
        for number in range(10**9):
            read.append(number)
            yield number

    outer = budget.current.set(seen)
    try:
        elements = iter(budget.spend_per_element(numbers()))
        assert [0, 1, 2] == [next(elements) for _ in range(3)]
        assert [0, 1, 2] == read
        with pytest.raises(Stopped):
            for _ in elements:
                pass
    finally:
        budget.current.reset(outer)
    assert len(read) < 10 * budget.STEPS


def test_elements_that_end_are_all_given() -> None:
    for count in (0, 1, budget.STEPS - 1, budget.STEPS, budget.STEPS + 1, 3 * budget.STEPS):
        outer = budget.current.set(Budget())
        try:
            assert list(range(count)) == list(budget.spend_per_element(range(count)))
        finally:
            budget.current.reset(outer)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        5,
        "a",
        [[1, 2], {"b": [], "a": {}}],
        {"x": [{"y": 1.5}, None, True]},
        list(range(10_000)),
        [[number] for number in range(10_000)],
        {f"n{number}": [number] for number in range(5_000)},
        {f"n{number}": number for number in range(5_000)},
        [*range(5_000), [1], *range(5_000)],
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_large_answer_is_the_same_json_as_a_small_one(value: Any) -> None:
    found = encode_computed(value)

    assert value == json.loads(found)
    assert json.dumps(value, separators=(",", ":"), sort_keys=True).encode() == found


def test_an_answer_that_holds_too_much_is_refused(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactdb.dialects.rethinkdb.wire.MAX_ANSWER_VALUES", 1_000)

    assert "Answer over size limit" in asked(Session(memory), nested(3))["r"][0]
    assert 1 == asked(Session(memory), nested(1))["t"]


def test_the_limits_of_a_query_are_checked() -> None:
    assert 0 == Limits(query_s=0).query_s
    with pytest.raises(InvalidOption, match="query_s is a number 0 or more"):
        Limits(query_s=-1)
    with pytest.raises(InvalidOption, match="queries is a number above 0"):
        Limits(queries=0)
