"""The start of a feed: what it reads, what it holds, and that it delivers what a feed delivers that was begun the long way."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import InvalidOption, row
from reactdb.documents.access_path import MOST_POINTS, MOST_RANGES, Range, cost, index_for_filters
from reactdb.errors import IndexNotFound, TableNotFound
from reactdb.expression import as_predicate, expr, find_index_ranges, may_fail
from reactdb.expression.registry import OPERATIONS
from reactdb.expression.tree import RARE
from reactdb.feeds.dispatch import Node
from reactdb.query import Filter
from reactdb.session import session_of
from reactdb.store.catalogue import Catalogue
from reactdb.store.engine import Engine
from reactdb.store.file import sqlite
from reactdb.store.publisher import Publisher
from tests.support.processes import another_process
from tests.support.scaling import examples

# Bytes of an idle feed of a filter, with its query, its view and its place in the router.
MOST_BYTES = 1_700


@contextmanager
def statements(path: Any) -> Iterator[list[str]]:
    """The SQL statements of all connections to a file while the block runs."""
    run: list[str] = []
    connections = [one for one in sqlite.tracked if one.is_open and one.path == str(path)]
    for connection in connections:
        connection.set_trace_callback(run.append)
    try:
        yield run
    finally:
        for connection in connections:
            connection.set_trace_callback(None)


def kinds(run: list[str]) -> Counter[str]:
    """How many of each kind, by their first words. A file that another process may write is looked at by a thread, with
    statements of its own, which are not counted here."""
    return Counter("SELECT" if one.startswith("SELECT") else one for one in run)


# ---------------------------------------------------------------------------------------------------------------
# What it reads


@pytest.fixture
def file_db(path: Path) -> Iterator[Any]:
    with reactdb.connect(path) as db:
        yield db


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread looks for commits of other processes."""
    monkeypatch.setattr("reactdb.store.follow.watch", lambda engine: None)
    monkeypatch.setattr("reactdb.store.follow.unwatch", lambda engine: None)


@pytest.mark.parametrize(
    "select",
    [
        lambda games: games,
        lambda games: games.filter(row["score"] == 3),
        lambda games: games.filter(row["score"] > 10, row["id"] > 5),
        lambda games: games.get(1),
        lambda games: games.between(1, 9),
    ],
)
def test_a_start_is_one_read_transaction(file_db: Any, quiet: None, select: Callable[[Any], Any]) -> None:
    games = file_db.table_create("games")
    games.insert({"id": 1, "score": 3})

    def start() -> None:
        select(games).changes().subscribe(lambda event: None)

    for _ in range(3):
        start()
    with statements(file_db.path) as run:
        start()

    assert Counter({"BEGIN": 1, "ROLLBACK": 1, "PRAGMA data_version": 2, "SELECT": 1}) == kinds(run)


def test_a_start_on_an_empty_table_looks_once_more_whether_it_is_still_empty(
    file_db: Any, quiet: None
) -> None:
    games = file_db.table_create("games")

    def start() -> None:
        games.filter(row["score"] == 3).changes().subscribe(lambda event: None)

    for _ in range(3):
        start()
    with statements(file_db.path) as run:
        start()

    assert Counter({"BEGIN": 1, "ROLLBACK": 1, "PRAGMA data_version": 2, "SELECT": 2}) == kinds(run)


def test_a_start_behind_another_process_delivers_its_commits_to_the_older_feeds_first(
    file_db: Any, quiet: None
) -> None:
    games = file_db.table_create("games")
    older: list[Any] = []
    newer: list[Any] = []
    games.changes().subscribe(older.append)
    with another_process(file_db.path) as other:
        other.table("games").insert({"id": 1})

        games.changes().subscribe(newer.append)
        assert [1] == [event["new_val"]["id"] for event in older]

        other.table("games").insert({"id": 2})
    games.insert({"id": 3})

    assert [1, 2, 3] == [event["new_val"]["id"] for event in older]
    assert [2, 3] == [event["new_val"]["id"] for event in newer]


# ---------------------------------------------------------------------------------------------------------------
# The catalogue


SELECTIONS: list[Callable[[Any], Any]] = [lambda games: games, lambda games: games.filter(row["score"] == 3)]


@pytest.mark.parametrize("select", SELECTIONS)
def test_a_table_that_was_dropped_between_two_starts_is_noticed(
    db: Any, select: Callable[[Any], Any]
) -> None:
    games = db.table_create("games")
    feed = select(games).changes()
    feed.subscribe(lambda event: None)
    db.table_drop("games")

    with pytest.raises(TableNotFound):
        feed.subscribe(lambda event: None)
    with pytest.raises(TableNotFound):
        select(games).changes()

    db.table_create("games")
    heard: list[Any] = []
    feed.subscribe(heard.append)
    select(games).changes().subscribe(heard.append)
    games.insert({"id": 1, "score": 3})
    assert 2 == len(heard)


@pytest.mark.parametrize("select", SELECTIONS)
def test_a_table_that_another_process_drops_between_two_starts_is_noticed(
    file_db: Any, quiet: None, select: Callable[[Any], Any]
) -> None:
    games = file_db.table_create("games")
    feed = select(games).changes()
    feed.subscribe(lambda event: None)
    with another_process(file_db.path) as other:
        other.table_drop("games")
        with pytest.raises(TableNotFound):
            select(games).changes()
        with pytest.raises(TableNotFound):
            feed.subscribe(lambda event: None)

        other.table_create("games")
        heard: list[Any] = []
        select(games).changes().subscribe(heard.append)
        games.insert({"id": 1, "score": 3})
    assert 1 == len(heard)


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_an_index_that_comes_and_goes_between_two_starts_is_noticed(
    file_db: Any, quiet: None, is_elsewhere: bool
) -> None:
    games = file_db.table_create("games")
    heard: list[Any] = []
    with ExitStack() as stack:
        other = stack.enter_context(another_process(file_db.path)) if is_elsewhere else file_db
        with pytest.raises(IndexNotFound):
            games.between(1, 5, index="score").changes()
        other.table("games").index_create("score")
        feed = games.between(1, 5, index="score").changes()
        feed.subscribe(heard.append)
        assert "a range of index `score`" == feed.explain()["access"]
        other.table("games").index_drop("score")
        with pytest.raises(IndexNotFound):
            games.between(1, 5, index="score").changes()
        with pytest.raises(IndexNotFound):
            feed.subscribe(heard.append)


def test_a_feed_that_is_made_in_a_transaction_sees_its_tables(db: Any) -> None:
    with db.transaction():
        games = db.table_create("games")
        feed = games.filter(row["score"] == 3).changes()
    heard: list[Any] = []
    feed.subscribe(heard.append)
    games.insert({"id": 1, "score": 3})
    assert 1 == len(heard)


# ---------------------------------------------------------------------------------------------------------------
# The long way

CONDITIONS: list[Callable[[Any], Any]] = [
    lambda games: games,
    lambda games: games.filter(row["score"] == 1),
    lambda games: games.filter(row["score"] > 1),
    lambda games: games.filter({"team": {"name": "a"}}),
    lambda games: games.filter(row["score"] + 1 > 2, row["id"] < 4),
    lambda games: games.get(2),
]
KEYS = st.integers(0, 4)
WRITES = st.one_of(
    st.tuples(st.just("put"), KEYS, st.integers(0, 3), st.sampled_from(["a", "b", None])),
    st.tuples(st.just("delete"), KEYS),
)
ACTIONS = st.one_of(
    WRITES,
    st.tuples(st.just("commit"), st.lists(WRITES, max_size=4)),
    st.tuples(st.just("start"), st.integers(0, len(CONDITIONS) - 1), st.booleans()),
    st.tuples(st.just("end"), st.integers(0, 9)),
    st.just(("clear",)),
)


@contextmanager
def the_long_way() -> Iterator[None]:
    """Each start catches up with other processes, reads the catalogue in a read transaction and makes a queue."""
    add = Node.add

    def add_and_share(node: Node, *arguments: Any) -> None:
        add(node, *arguments)
        node._share_waiting()

    def read_catalogue(engine: Engine) -> Catalogue:
        with engine.snapshot() as snapshot:
            return snapshot.catalogue

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Publisher, "has_published", lambda *arguments: False)
        patch.setattr(Engine, "newest_catalogue", read_catalogue)
        patch.setattr(Node, "add", add_and_share)
        yield


def play(db: Any, actions: list[Any]) -> list[Any]:
    """The events of each feed, in the order in which the program gets them, and the figures of each at its end."""
    games = db.table_create("games")
    told: list[Any] = []
    started: list[tuple[Any, Any]] = []

    def write(action: Any) -> None:
        if action[0] == "delete":
            games.get(action[1]).delete()
        else:
            _, key, score, team = action
            games.insert({"id": key, "score": score, "team": {"name": team}}, conflict="replace")

    for action in actions:
        if action[0] == "commit":
            with db.transaction():
                for one in action[1]:
                    write(one)
        elif action[0] == "start":
            feed = CONDITIONS[action[1]](games).changes(include_seq=True, include_initial=action[2])
            number = len(started)
            handle = feed.subscribe(lambda event, number=number: told.append((number, event)))  # type: ignore[misc]
            started.append((feed, handle))
        elif action[0] == "end":
            if action[1] < len(started):
                feed, handle = started[action[1]]
                told.append(feed.stats())
                handle.dispose()
        elif action[0] == "clear":
            games.delete()
        else:
            write(action)
    for feed, handle in started:
        told.append(feed.stats())
        handle.dispose()
    return told


def test_feeds_of_one_query_are_called_in_the_order_in_which_they_began(db: Any) -> None:
    games = db.table_create("games")
    heard: list[int] = []
    for number in range(4):
        if number == 3:
            games.insert({"id": 1})
        games.changes().subscribe(lambda event, number=number: heard.append(number))  # type: ignore[misc]
    games.insert({"id": 2})

    assert [0, 1, 2, 0, 1, 2, 3] == heard


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(ACTIONS, max_size=25))
def test_a_feed_delivers_the_same_however_it_is_begun(actions: list[Any]) -> None:
    with reactdb.connect(":memory:") as db:
        told = play(db, actions)
    with the_long_way(), reactdb.connect(":memory:") as db:
        assert play(db, actions) == told


# ---------------------------------------------------------------------------------------------------------------
# The index of a condition

FILTERS = [
    row["a"] == 1,
    row["a"] > 1,
    row["b"].is_in([1, 2]),
    row["id"] == 3,
    row["c"]["d"] == 4,
    row["a"] / row["b"] > 1,
    (row["a"] == 1) & (row["b"] < 5),
    row["tags"].contains("x"),
    {"a": 1, "c": {"d": 2}},
    lambda document: True,
]


def choose_one_by_one(steps: tuple[Any, ...], table: Any) -> Any:
    """`index_for_filters` as it reads in words: filter by filter and index by index, up to the first filter that may fail."""
    best: Any = None
    for step in steps:
        if may_fail(step.predicate):
            break
        found = find_index_ranges(step.predicate, row[table.primary_key])
        candidates = (
            []
            if found is None or not (len(found) == 1 or all(one.is_point for one in found))
            else [(None, found)]
        )
        for index in table.indexes.values():
            found = find_index_ranges(step.predicate, index.expression, multi=index.multi)
            if found is not None:
                candidates.append((index, found))
        for index, ranges in candidates:
            most = MOST_RANGES if len(ranges) <= MOST_RANGES or cost(ranges)[0] else MOST_POINTS
            if len(ranges) <= most and (best is None or cost(ranges) < cost(best[1])):
                best = index, ranges
    return None if best is None else (best[0], tuple(Range(one.start, one.stop) for one in best[1]))


INDEXES: dict[str, Callable[[Any], None]] = {
    "a": lambda games: games.index_create("a"),
    "b": lambda games: games.index_create("b"),
    "a, b": lambda games: games.index_create("a_b", [row["a"], row["b"]]),
    "c.d": lambda games: games.index_create("c_d", row["c"]["d"]),
    "tags": lambda games: games.index_create("tags", multi=True),
}


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from(FILTERS), max_size=3), st.sets(st.sampled_from(sorted(INDEXES))))
def test_the_index_of_a_condition_is_that_of_a_look_at_each_filter_and_each_index(
    filters: list[Any], indexes: set[str]
) -> None:
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        for name in sorted(indexes):
            INDEXES[name](games)
        table = session_of(db).info("games")
        steps = tuple(Filter(as_predicate(one)) for one in filters)

        assert choose_one_by_one(steps, table) == index_for_filters(steps, table)


# ---------------------------------------------------------------------------------------------------------------
# Options and conditions


@pytest.mark.parametrize(
    "options",
    [
        {"include_initial": 1},
        {"include_initial": 1.0},
        {"squash": None},
        {"squash": []},
        {"since": True},
        {"since": []},
        {"skip_origin": {}},
        {"changefeed_queue_size": True},
        {"changefeed_queue_size": []},
    ],
)
def test_options_that_equal_good_ones_are_still_refused(db: Any, options: dict[str, Any]) -> None:
    games = db.table_create("games")
    games.changes(include_initial=True)
    games.changes(squash=True)
    games.changes(since=1)
    games.changes(changefeed_queue_size=1)

    with pytest.raises(InvalidOption):
        games.changes(**options)


def test_feeds_with_the_same_options_share_them(db: Any) -> None:
    games = db.table_create("games")
    one, other, larger = (
        games.changes(include_seq=True, changefeed_queue_size=size)._flow.request.options
        for size in (100_000, 100_000, 100_001)
    )
    assert one is other
    assert (100_000, 100_001) == (one.queue_size, larger.queue_size)


def test_every_operation_that_is_not_deterministic_is_one_of_the_rare_ones() -> None:
    OPERATIONS.load()
    names = [name for name, operation in OPERATIONS.items() if not operation.is_deterministic]
    assert names
    assert RARE.issuperset(names)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (row["a"], expr({"a": 1})["a"]),
        (row["a"], row["b"]),
        (row["a"], row[0]),
        (row["a"]["b"], row["a"]),
        (row["a"] == "a", row["a"] == row["a"]),
        (row["a"] == 1, row["a"] == 1.0),
        (row["a"] == 1, row["a"] == True),  # noqa: E712
    ],
)
def test_other_conditions_have_other_keys(one: Any, other: Any) -> None:
    assert one.key != other.key
    assert one.key in (one == 1).key


# ---------------------------------------------------------------------------------------------------------------
# Memory


def test_an_idle_feed_of_a_filter_takes_little_memory(db: Any) -> None:
    games = db.table_create("games")

    def heard(event: Any) -> None:
        pass

    def start(first: int, count: int) -> None:
        for number in range(first, first + count):
            games.filter(row["score"] == number).changes().subscribe(heard)

    start(0, 50)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        start(1_000, 2_000)
        gc.collect()
        taken = (tracemalloc.get_traced_memory()[0] - before) / 2_000
    finally:
        tracemalloc.stop()

    print(f"{taken:.0f} bytes a feed")
    assert taken < MOST_BYTES


def test_a_feed_has_a_shared_queue_from_its_first_commit_on(db: Any) -> None:
    games = db.table_create("games")
    heard: list[Any] = []
    games.filter(row["score"] == 1).changes().subscribe(heard.append)
    (node,) = session_of(db).engine.publisher.listener.open_views.values()  # type: ignore[union-attr]
    assert (1, ()) == (len(node), node.broadcasts)

    games.insert({"id": 1, "score": 1})
    assert node.waiting is None
    assert (1, 1) == (len(node), len(node.broadcasts))
    games.filter(row["score"] == 1).changes().subscribe(heard.append)
    games.insert({"id": 2, "score": 1})
    assert [1, 2, 2] == [event["new_val"]["id"] for event in heard]


# ---------------------------------------------------------------------------------------------------------------
# Hints


def test_a_line_gets_its_hint_at_the_first_start_that_meets_documents(
    file_db: Any, quiet: None, caplog: pytest.LogCaptureFixture
) -> None:
    games = file_db.table_create("games")

    def start() -> int:
        games.filter(row["score"] > "10").changes().subscribe(lambda event: None)
        return len([record for record in caplog.records if "games" in record.getMessage()])

    with caplog.at_level("WARNING", "reactdb"), another_process(file_db.path) as other:
        assert (0, 0) == (start(), start())
        file_db.table_create("others").insert({"id": 1})
        assert (0, 0) == (start(), start())
        other.table("games").insert({"id": 1, "score": 12})
        assert (1, 1) == (start(), start())
