"""Initial values: they are read while they are delivered, from one snapshot, and a slow subscriber does not delay others."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import desc, row
from reactdb.session import session_of
from reactdb.store import checkpoints, walk
from tests.support.feed_kinds import BODIES, KEYS, Kind, do, little_room, one_statement, one_write, prepare
from tests.support.replica import Event, Replica
from tests.support.scaling import examples
from tests.support.threads import wait_until

COUNT = 40


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[reactdb.Database]:
    """40 documents, read two at a time."""
    monkeypatch.setattr(walk, "FIRST_PAGE", 1)
    monkeypatch.setattr(walk, "PAGE", 2)
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        games = db.table_create("games")
        games.index_create("score")
        games.insert([{"id": number, "score": COUNT - number} for number in range(COUNT)])
        yield db


def is_read(db: reactdb.Database) -> bool:
    """Whether a read is going on: for longer than the one moment of who looks for other processes' commits."""
    engine = session_of(db).engine
    end = time.monotonic() + 0.5
    while engine.readers.reading and time.monotonic() < end:
        time.sleep(0.001)
    return bool(engine.readers.reading)


def ids(events: list[Event]) -> list[Any]:
    return [event["new_val"]["id"] for event in events]


def take(cursor: reactdb.Cursor, count: int) -> list[Event]:
    return [cursor.next(timeout=5) for _ in range(count)]


def test_the_first_is_told_before_the_last_is_read(db):
    with db.table("games").changes(include_initial=True).cursor() as cursor:
        assert [0, 1, 2] == ids(take(cursor, 3))
        assert is_read(db)


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda games: games, range(COUNT)),
        (lambda games: games.between(5, 25), range(5, 25)),
        (lambda games: games.filter(row["id"] % 2 == 0), range(0, COUNT, 2)),
        (lambda games: games.order_by(index="id"), range(COUNT)),
        (lambda games: games.order_by(index=desc("id")), range(COUNT - 1, -1, -1)),
        (lambda games: games.order_by(index="score"), range(COUNT - 1, -1, -1)),
        (lambda games: games.between(1, 11, index="score"), range(COUNT - 1, COUNT - 11, -1)),
        (lambda games: games.filter(row["score"] < 11), range(COUNT - 10, COUNT)),
        (lambda games: games.get_all(7, 3), [7, 3]),
    ],
)
def test_they_come_in_the_querys_order(db, ask, expected):
    with ask(db.table("games")).changes(include_initial=True, include_states=True).cursor() as cursor:
        assert {"state": "initializing"} == cursor.next(timeout=0)
        assert list(expected) == ids(take(cursor, len(expected)))
        assert {"state": "ready"} == cursor.next(timeout=0)
    assert not is_read(db)


def test_they_are_of_one_moment_and_what_was_written_meanwhile_follows_once(db):
    games = db.table("games")
    with games.changes(include_initial=True, include_states=True, include_types=True).cursor() as cursor:
        take(cursor, 4)
        games.get(0).delete()
        games.get(30).delete()
        games.get(31).update({"score": 99})
        games.insert({"id": -1})

        initial = take(cursor, COUNT - 3)
        assert list(range(3, COUNT)) == ids(initial)
        assert 9 == initial[28]["new_val"]["score"]
        assert "ready" == cursor.next(timeout=0)["state"]
        assert ["remove", "remove", "change", "add"] == [event["type"] for event in take(cursor, 4)]


def test_a_queue_that_overflows_while_they_are_told_says_so_after_them(db):
    games = db.table("games")
    with games.changes(include_initial=True, changefeed_queue_size=2).cursor() as cursor:
        take(cursor, 3)
        for number in range(5):
            games.insert({"id": 100 + number})

        assert list(range(3, COUNT)) == ids(take(cursor, COUNT - 3))
        assert {"error": "Changefeed cache over array size limit, skipped 3 elements."} == cursor.next(
            timeout=0
        )
        assert [103, 104] == ids(take(cursor, 2))


@pytest.mark.parametrize("is_closed", [True, False])
def test_who_hears_no_more_lets_go_of_the_file(db, is_closed):
    cursor = db.table("games").changes(include_initial=True).cursor()
    take(cursor, 2)
    if is_closed:
        cursor.close()
    del cursor
    assert not is_read(db)


def test_a_subscriber_that_has_had_enough_ends_the_reading(db):
    from reactivex import operators as ops

    heard: list[Event] = []
    db.table("games").changes(include_initial=True).pipe(ops.take(3)).subscribe(heard.append)
    assert [0, 1, 2] == ids(heard)
    assert not is_read(db)


def test_a_checkpoint_is_not_kept_from_emptying_the_log(db):
    games = db.table("games")
    with games.changes(include_initial=True).cursor() as cursor:
        take(cursor, 2)
        games.update({"score": 0})
        writer = session_of(db).engine.writer
        assert writer is not None
        assert writer.checkpoints.run()

        assert not is_read(db)
        initial = take(cursor, COUNT - 2)
        assert list(range(2, COUNT)) == ids(initial)
        assert 0 not in {event["new_val"]["score"] for event in initial}
        assert COUNT == len(take(cursor, COUNT))


def test_a_reader_that_never_comes_back_does_not_let_the_log_reach_its_limit(db, monkeypatch):
    monkeypatch.setattr(checkpoints, "CHECKPOINT_BYTES", 65_536)
    session_of(db).engine.writer.checkpoints.after_commit(10**9)
    games = db.table("games")
    with games.changes(include_initial=True, on_overflow="spill", changefeed_queue_size=1).cursor() as cursor:
        take(cursor, 2)
        for number in range(30):
            games.insert({"id": 100 + number, "text": "x" * 20_000})
        assert os.path.getsize(db.path + "-wal") < 500_000
        assert db.stats()["checkpoint"]["is_healthy"]
        assert [*range(2, COUNT), *range(100, 130)] == ids(take(cursor, COUNT + 28))


def test_compaction_in_the_middle_changes_nothing(db):
    games = db.table("games")
    with games.changes(include_initial=True).cursor() as cursor:
        take(cursor, 2)
        games.update({"score": 0})
        db.compact(keep=0, vacuum=True)
        initial = take(cursor, COUNT - 2)
        assert [COUNT - number for number in range(2, COUNT)] == [
            event["new_val"]["score"] for event in initial
        ]


def test_closing_the_database_in_the_middle_keeps_none_back(db):
    cursor = db.table("games").changes(include_initial=True).cursor()
    take(cursor, 2)
    db.close()
    assert list(range(2, COUNT)) == ids(list(cursor))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_in_the_middle_finds_nobody_reading(db):
    with db.table("games").changes(include_initial=True).cursor() as cursor:
        take(cursor, 2)
        child = os.fork()
        if child == 0:
            try:
                # Had somebody been reading, the child could not open the file.
                with reactdb.connect(db.path, durability="soft") as again:
                    os._exit(0 if again.table("games").count().run() == COUNT else 1)
            finally:
                os._exit(2)
        assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert list(range(2, COUNT)) == ids(take(cursor, COUNT - 2))


def test_a_transaction_sees_what_is_committed(db):
    games = db.table("games")
    with db.transaction():
        games.insert({"id": 100})
        with games.changes(include_initial=True).cursor() as cursor:
            assert list(range(COUNT)) == ids(take(cursor, COUNT))
            assert not is_read(db)


def test_in_memory_where_commits_wait_for_reads_nobody_has_to_wait():
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.insert([{"id": number} for number in range(COUNT)])
        with games.changes(include_initial=True).cursor() as cursor:
            take(cursor, 1)
            games.insert({"id": 100})
            assert [*range(1, COUNT), 100] == ids(take(cursor, COUNT))


def test_what_comes_before_a_damaged_document_is_told(db):
    games = db.table("games")
    with sqlite3.connect(db.path) as other:
        other.execute("UPDATE log SET body = body || x'00' WHERE seq = 20")
    other.close()
    with games.changes(include_initial=True).cursor() as cursor:
        heard = []
        with pytest.raises(reactdb.CorruptDatabase):
            while True:
                heard.append(cursor.next(timeout=0))
        assert 0 < len(heard) < 20
        assert list(range(len(heard))) == ids(heard)
    assert not is_read(db)


def test_what_comes_before_a_document_that_a_mapping_fails_for_is_told(db):
    feed = db.table("games").map(lambda document: {"id": document["id"], "x": 1 // (10 - document["id"])})
    with feed.changes(include_initial=True).cursor() as cursor:
        assert list(range(10)) == ids(take(cursor, 10))
        with pytest.raises(ZeroDivisionError):
            cursor.next(timeout=0)
    assert not is_read(db)


@pytest.mark.slow
@pytest.mark.examples
def test_many_threads_may_settle_close_and_read_at_once(db):
    """Checkpoints, readers and those who give up, all over each other: nothing is lost, and nobody reads for ever."""
    games, engine = db.table("games"), session_of(db).engine
    stop = threading.Event()

    def settle() -> None:
        while not stop.is_set():
            engine.readers.settle()

    settler = threading.Thread(target=settle)
    settler.start()
    try:
        for number in range(examples(200)):
            with games.changes(include_initial=True).cursor() as cursor:
                some = number % COUNT
                assert list(range(some)) == ids(take(cursor, some))
            with games.changes(include_initial=True).cursor() as cursor:
                assert list(range(COUNT)) == ids(take(cursor, COUNT))
    finally:
        stop.set()
        settler.join()
    assert not is_read(db)
    assert not engine.readers.walks


# ---------------------------------------------------------------------------------------------------------------
# The law, of files

KINDS = [
    Kind("games", lambda db: db.table("games")),
    Kind("filter(a == 1)", lambda db: db.table("games").filter(row["a"] == 1)),
    Kind("between(index=a)", lambda db: db.table("games").between(1, 3, index="a")),
    Kind("between(1, 4)", lambda db: db.table("games").between(1, 4)),
    Kind("order_by(index=desc(a))", lambda db: db.table("games").order_by(index=desc("a"))),
    Kind("between(p, q, index=tags)", lambda db: db.table("games").between("p", "r", index="tags")),
    Kind("pluck(id, a)", lambda db: db.table("games").pluck("id", "a")),
    Kind("map(a)", lambda db: db.table("games").map(row["a"].default(None))),
]
ROWS = st.lists(st.tuples(KEYS, BODIES), min_size=4, max_size=11)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.one_of(one_write(), one_statement())),
        st.tuples(st.just("take"), st.integers(1, 3)),
        st.tuples(st.just("checkpoint"), st.none()),
        st.tuples(st.just("compact"), st.none()),
    ),
    max_size=12,
)


def check_initial_values(kind: Kind, rows: list[Any], steps: list[Any]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        little_room(),
        reactdb.connect(Path(folder) / "a.db", durability="soft") as db,
    ):
        patch.setattr(walk, "FIRST_PAGE", 1)
        patch.setattr(walk, "PAGE", 2)
        prepare(db)
        do(db, ("insert", rows))
        before = kind.answer(db)
        replica = Replica([], name_of=kind.name_of, value_of=kind.value_of)
        with kind.ask(db).changes(include_initial=True, include_states=True).cursor() as cursor:
            told: list[Event] = []
            for verb, given_ in [*steps, ("take", 1_000)]:
                if verb == "write":
                    do(db, given_)
                elif verb == "compact":
                    db.compact(keep=0)
                elif verb == "checkpoint":
                    engine = session_of(db).engine
                    assert engine.writer is not None
                    # The thread that looks for other processes' commits may be reading just now.
                    wait_until(engine.writer.checkpoints.run)
                else:
                    for _ in range(given_):
                        try:
                            told.append(cursor.next(timeout=0))
                        except TimeoutError:
                            break
            ready = told.index({"state": "ready"})
            for event in told[: ready + 1]:
                replica.apply(event)
            replica.assert_equals(before, kind)
            for event in told[ready + 1 :]:
                replica.apply(event)
            replica.assert_equals(kind.answer(db), kind)


@settings(max_examples=examples(40))
@given(kind=st.sampled_from(KINDS), rows=ROWS, steps=STEPS)
def test_initial_values_are_the_answer_then_and_with_the_changes_the_answer_now(
    kind: Kind, rows: list[Any], steps: list[Any]
) -> None:
    """However slowly they are taken, and whatever is written, copied and compacted meanwhile."""
    check_initial_values(kind, rows, steps)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_initial_values_for_longer() -> None:
    """The same with many more examples."""
    settings(max_examples=examples(1500))(given(st.sampled_from(KINDS), ROWS, STEPS)(check_initial_values))()
