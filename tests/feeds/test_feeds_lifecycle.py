"""How feeds begin and end, and what is left of them: no thread, no registration, no memory. Over transactions, forks, other
processes, restored backups and the end of the program."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import subprocess
import sys
import threading
import time
import tracemalloc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import r, row
from reactdb.errors import FeedAborted, HistoryDiverged, HistoryLost, InvalidOption, TableNotFound
from reactdb.testing import Recorder
from tests.support.feeds import KINDS, NEEDS_INDEX, changed, hub, is_clean, new_ids
from tests.support.processes import ROOT, run_python
from tests.support.threads import PATIENCE_S, started, wait_until


def our_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("reactdb")]


def wait_for_threads_to_end() -> None:
    for thread in our_threads():
        thread.join(PATIENCE_S)
    assert [] == our_threads()


def other_process(path: Any, *lines: str) -> None:
    """Run lines of Python in another process, with `db` open on the path."""
    program = "import sys, reactdb\nfrom reactdb import row\nwith reactdb.connect(sys.argv[1]) as db:\n"
    run_python(program + "".join(f"    {line}\n" for line in lines), path)


@pytest.fixture
def file_db(path: Path) -> Iterator[Any]:
    with reactdb.connect(path, durability="soft") as database:
        yield database


@pytest.fixture
def rooms(db: Any) -> Any:
    table = db.table_create("rooms")
    table.index_create("score")
    return table


# ---------------------------------------------------------------------------------------------------------------
# Closing wakes whoever waits


def wait_until_it_waits(cursor: Any) -> None:
    """Until the thread that reads the cursor waits in its condition."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        # Made by who waits first.
        condition = cursor._consumer._condition
        if condition is None:
            continue
        with condition:
            if condition._waiters:
                return
    raise AssertionError("nobody waits")


def test_closing_a_cursor_wakes_the_loop_that_waits_for_it(games):
    cursor = games.changes().cursor()
    reader, results = started(lambda: list(cursor))
    wait_until_it_waits(cursor)

    cursor.close()
    reader.join(PATIENCE_S)

    assert [[]] == results
    assert is_clean(games)


def test_a_feed_that_was_closed_while_the_lock_was_held_is_let_go_of_with_it(games):
    cursor = games.changes().cursor()
    is_held, may_end = threading.Event(), threading.Event()

    def hold():
        with hub(games).held():
            is_held.set()
            may_end.wait(PATIENCE_S)

    holder, _ = started(hold)
    is_held.wait(PATIENCE_S)
    cursor.close()
    assert hub(games).open_views

    may_end.set()
    holder.join(PATIENCE_S)

    # The thread that follows the file may have the lock just then: it looks again afterwards.
    wait_until(lambda: not hub(games).open_views)


def test_who_looks_for_the_hub_does_not_take_the_lock_that_others_wait_for(games):
    cursor = games.changes().cursor()
    found: list[Any] = []

    with hub(games).held():
        finder, _ = started(lambda: found.append(hub(games)))
        finder.join(PATIENCE_S)

        assert [hub(games)] == found
    cursor.close()


def test_closing_a_cursor_wakes_all_the_threads_that_share_it(games):
    cursor = games.changes().cursor()
    readers = [started(lambda: list(cursor)) for _ in range(5)]
    wait_until_it_waits(cursor)

    cursor.close()
    for reader, _ in readers:
        reader.join(PATIENCE_S)

    assert [[[]]] * 5 == [results for _, results in readers]


def test_closing_the_database_wakes_a_loop_and_completes_it(tmp_path):
    db = reactdb.connect(tmp_path / "a.db")
    cursor = db.table_create("games").changes().cursor()
    reader, results = started(lambda: list(cursor))
    wait_until_it_waits(cursor)

    db.close()
    reader.join(PATIENCE_S)

    assert [[]] == results


def test_dropping_the_table_wakes_a_loop_with_the_reason(db, games):
    cursor = games.changes().cursor()
    reader, results = started(lambda: list(cursor))
    wait_until_it_waits(cursor)

    db.table_drop("games")
    reader.join(PATIENCE_S)

    assert ["Changefeed aborted (table unavailable)"] == [str(error) for error in results]


def test_closing_the_database_completes_every_kind_of_feed(tmp_path):
    db = reactdb.connect(tmp_path / "a.db")
    rooms = db.table_create("rooms")
    rooms.index_create("score")
    ears = {name: Recorder(select(rooms).changes()) for name, select in KINDS.items()}
    ears["database"] = Recorder(db.changes())
    cursor = rooms.changes().cursor()
    rooms.insert({"id": 1, "room": 5, "score": 1})

    db.close()

    assert dict.fromkeys(ears, 1) == {name: ear.completions for name, ear in ears.items()}
    assert not any(ear.errors for ear in ears.values())
    assert [1] == [event["new_val"]["id"] for event in cursor]
    assert is_clean(db)


def test_closing_the_database_completes_a_coroutine(tmp_path):
    async def main() -> list[Any]:
        db = reactdb.connect(tmp_path / "a.db")
        games = db.table_create("games")

        async def read() -> list[Any]:
            return [event async for event in games.changes()]

        task = asyncio.ensure_future(read())
        await asyncio.sleep(0)
        games.insert({"id": 1})
        db.close()
        return await asyncio.wait_for(task, PATIENCE_S)

    assert [changed(None, {"id": 1})] == asyncio.run(main())


def test_a_feed_lives_as_long_as_any_handle_on_its_file(path):
    first, second = reactdb.connect(path), reactdb.connect(path)
    heard = Recorder(first.table_create("games").changes())

    first.close()
    second.table("games").insert({"id": 1})
    assert ([1], 0) == (new_ids(heard), heard.completions)
    second.close()

    assert 1 == heard.completions


@pytest.mark.skipif(sys.platform == "win32", reason="there an open file cannot be renamed")
def test_a_reader_hears_that_the_file_was_moved_away(path):
    """Nothing will ever come from there; waiting for it would be waiting for ever."""
    db = reactdb.connect(path)
    games = db.table_create("games")
    cursor = games.changes().cursor()
    games.insert({"id": 1})
    for suffix in ("", "-wal", "-shm"):
        os.rename(f"{path}{suffix}", f"{path}.elsewhere{suffix}")
    with pytest.raises(reactdb.errors.StorageMoved):
        games.insert({"id": 2})

    assert changed(None, {"id": 1}) == cursor.next(timeout=PATIENCE_S)
    with pytest.raises(reactdb.errors.StorageMoved):
        cursor.next(timeout=PATIENCE_S)
    db.close()


def test_no_feed_is_opened_on_a_closed_database(tmp_path):
    db = reactdb.connect(tmp_path / "a.db")
    games = db.table_create("games")
    feed = games.changes()
    db.close()

    with pytest.raises(reactdb.errors.DatabaseClosed):
        games.changes()
    with pytest.raises(reactdb.errors.DatabaseClosed):
        feed.subscribe()
    with pytest.raises(reactdb.errors.DatabaseClosed):
        iter(feed)


# ---------------------------------------------------------------------------------------------------------------
# Nothing is left


def test_no_thread_is_left_when_the_last_feed_is_gone(file_db):
    games = file_db.table_create("games")
    subscription = games.changes().subscribe()
    assert ["reactdb-tail"] == [thread.name for thread in our_threads()]

    subscription.dispose()

    wait_for_threads_to_end()


@pytest.mark.parametrize("begin", [lambda feed: feed.subscribe(), lambda feed: feed.cursor()])
def test_no_thread_is_left_after_close(path, begin):
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        open_still = [begin(games.changes(squash=60)) for _ in range(2)]
        games.insert({"id": 1})

    wait_for_threads_to_end()
    assert open_still


def test_a_process_that_only_writes_has_no_thread(path):
    with reactdb.connect(path) as db:
        db.table_create("games").insert({"id": 1})

        assert [] == our_threads()


def test_a_database_in_memory_needs_no_thread():
    with reactdb.connect(":memory:") as db:
        Recorder(db.table_create("games").changes())

        assert [] == our_threads()


@pytest.mark.parametrize("kind", KINDS)
def test_a_disposed_feed_leaves_no_registration(rooms, kind):
    feed = KINDS[kind](rooms).changes()
    subscriptions = [feed.subscribe() for _ in range(3)]
    with feed.cursor():
        assert 4 == len(hub(rooms).subscriptions())
    for subscription in subscriptions:
        assert not hub(rooms).is_clean
        subscription.dispose()
        subscription.dispose()

    assert is_clean(rooms)


@pytest.mark.soak
def test_ten_thousand_feeds_come_and_go_and_leave_nothing():
    """Of every kind, all open at once; then no registration is left, no object and hardly a byte."""
    with reactdb.connect(":memory:") as db:
        rooms = db.table_create("rooms")
        rooms.index_create("score")
        rooms.insert([{"id": n, "room": n % 7, "score": n % 5} for n in range(20)])
        kinds = [select(rooms).changes() for select in KINDS.values()]

        def round_trip(count: int) -> None:
            opened = [
                (rooms.get(number).changes() if number % 2 else kinds[number // 2 % len(kinds)]).subscribe()
                for number in range(count)
            ]
            rooms.get(1).update({"score": row["score"] + 1})
            assert count == len(hub(db).subscriptions())
            for subscription in opened:
                subscription.dispose()

        round_trip(500)
        gc.collect()
        objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
        round_trip(10_000)
        gc.collect()

        assert is_clean(db)
        assert len(gc.get_objects()) - objects < 200
        assert sys.getallocatedblocks() - blocks < 2_000


@pytest.mark.soak
def test_many_feeds_leave_no_memory_behind():
    """Not even the room that the tables of registrations once had."""
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")

        def round_trip() -> None:
            opened = [games.get(number).changes().subscribe() for number in range(4_000)]
            opened += [games.between(number, 5_000).changes().subscribe() for number in range(200)]
            opened += [games.filter({"n": number}).changes().subscribe() for number in range(100)]
            for subscription in opened:
                subscription.dispose()

        # Twice, for what is made once: compiled conditions, prepared statements.
        round_trip()
        round_trip()
        gc.collect()
        tracemalloc.start()
        try:
            round_trip()
            gc.collect()
            left, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        # An SQLite connection keeps track of its last 200 cursors; nothing else is left.
        assert left < 60_000
        assert peak > 500_000, "they were there, and were measured"


def test_cursors_come_and_go_one_after_the_other(games):
    for number in range(1_000):
        games.get(number).changes().cursor().close()

    assert is_clean(games)


def test_feeds_that_come_and_go_quickly_on_a_file_do_not_trip_over_the_thread_that_follows_it(file_db):
    """Each time the last feed goes, the follower's connection is closed, perhaps in the middle of its question."""
    games = file_db.table_create("games")
    for number in range(300):
        with games.changes().cursor() as cursor:
            games.insert({"id": number})
            assert number == cursor.next(timeout=PATIENCE_S)["new_val"]["id"]

    wait_for_threads_to_end()


def test_many_cancelled_coroutines_leave_nothing(games):
    """As a web server does it: a client goes, its task is cancelled, and nobody closes anything."""

    async def read() -> None:
        async for _ in games.changes():
            pass

    async def main() -> None:
        for _ in range(5):
            tasks = [asyncio.ensure_future(read()) for _ in range(50)]
            await asyncio.sleep(0)
            assert 50 == len(hub(games).subscriptions())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            del tasks, task
            # The loop holds what it has just handed over, and with it where the tasks were cancelled.
            await asyncio.sleep(0)
            gc.collect()
            # On a file, the thread that follows other processes may have the lock just then, and sweeps when it gives it back.
            wait_until(lambda: len(hub(games).subscriptions()) == 0)

    asyncio.run(main())

    assert is_clean(games)


def test_feeds_come_and_go_while_others_write(games):
    """From several threads at once; at the end nothing is left."""
    is_over = threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            with games.filter({"n": 1}).changes().cursor(), games.changes(squash=True).cursor():
                games.changes(include_initial=True).limit(1).subscribe().dispose()

    threads = [started(come_and_go) for _ in range(3)]
    for number in range(200):
        games.insert({"id": number, "n": number % 2})
    is_over.set()
    for thread, _ in threads:
        thread.join(PATIENCE_S)

    assert [[None]] * 3 == [results for _, results in threads]
    assert is_clean(games)


# ---------------------------------------------------------------------------------------------------------------
# Forgotten feeds


@pytest.mark.parametrize("begin", [iter, lambda feed: feed.cursor(), aiter], ids=["iter", "cursor", "aiter"])
def test_a_forgotten_cursor_is_collected(games, begin):
    """And its registration with it, without anybody closing it."""
    cursor = begin(games.changes())
    memory = weakref.ref(cursor), weakref.ref(cursor._consumer)
    games.insert({"id": 1})
    assert 1 == len(hub(games).subscriptions())

    del cursor
    gc.collect()

    assert (None, None) == (memory[0](), memory[1]())
    assert 0 == len(hub(games).subscriptions())


def test_a_loop_that_was_left_lets_go_at_once(games):
    for number in range(3):
        games.insert({"id": number})
    for _ in games.changes(include_initial=True):
        break
    gc.collect()

    assert is_clean(games)


def test_a_feed_that_nobody_listens_to_costs_nothing(games):
    feed = games.changes()
    memory = weakref.ref(feed)
    assert 0 == len(hub(games).subscriptions())

    del feed
    gc.collect()

    assert memory() is None


def test_a_subscription_lives_though_its_handle_is_forgotten(games):
    heard = Recorder(games.changes())
    gc.collect()

    games.insert({"id": 1})

    assert [1] == new_ids(heard)


def test_a_disposed_subscriber_is_collected(games):
    heard = Recorder()
    memory = weakref.ref(heard)
    subscription = games.changes().subscribe(heard)
    games.insert({"id": 1})

    subscription.dispose()
    del heard, subscription
    gc.collect()

    assert memory() is None


# ---------------------------------------------------------------------------------------------------------------
# Tables and indexes that go


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_feed_gets_what_is_pending_and_then_the_error(rooms, kind):
    """The real server lets the error replace what is pending."""
    db = reactdb.Database(rooms._session)
    cursor = KINDS[kind](rooms).changes().cursor()
    heard = Recorder(KINDS[kind](rooms).changes())

    rooms.insert({"id": 1, "room": 5, "score": 1})
    rooms.get(1).update({"score": 2})
    db.table_drop("rooms")

    pending = []
    with pytest.raises(FeedAborted) as caught:
        while True:
            pending.append(cursor.next(timeout=PATIENCE_S))
    assert "Changefeed aborted (table unavailable)" == str(caught.value)
    assert pending == heard.events
    assert ["Changefeed aborted (table unavailable)"] == [str(error) for error in heard.errors]
    assert is_clean(db)


def test_a_union_of_two_tables_ends_with_either(db):
    first, second = db.table_create("first"), db.table_create("second")
    heard = Recorder(first.union(second).changes())
    second.insert({"id": 1})

    db.table_drop("first")

    assert ([1], 1) == (new_ids(heard), len(heard.errors))


def test_a_dropped_table_ends_no_other_tables_feed(db, games):
    moves = db.table_create("moves")
    heard, of_all = Recorder(games.changes()), Recorder(db.changes())

    db.table_drop("moves")
    games.insert({"id": 1})

    assert ([1], [1], [], []) == (new_ids(heard), new_ids(of_all), heard.errors, of_all.errors)
    with pytest.raises(TableNotFound):
        moves.changes()


def test_a_table_made_again_is_another_table(db, games):
    feed = games.changes()
    before = Recorder(feed)
    db.table_drop("games")
    db.table_create("games")
    after = Recorder(feed)

    games.insert({"id": 1})

    assert ([], 1) == (before.events, len(before.errors))
    assert [1] == new_ids(after)


def test_a_drop_that_is_taken_back_ends_nothing(db, games):
    heard = Recorder(games.changes())

    with pytest.raises(ZeroDivisionError), db.transaction():
        db.table_drop("games")
        raise ZeroDivisionError
    games.insert({"id": 1})

    assert ([1], []) == (new_ids(heard), heard.errors)


def test_a_table_that_is_filled_and_dropped_in_one_transaction_tells_what_it_did(db, games):
    heard = Recorder(games.changes())

    with db.transaction():
        games.insert({"id": 1})
        db.table_drop("games")

    assert ([1], 1) == (new_ids(heard), len(heard.errors))


@pytest.mark.parametrize("kind", NEEDS_INDEX)
def test_a_dropped_index_ends_the_feeds_that_need_it_and_is_named(rooms, kind):
    """The real server falls silent, and may wake up when an index of that name is made."""
    heard = Recorder(KINDS[kind](rooms).changes())
    rooms.insert({"id": 1, "room": 5, "score": 1})

    rooms.index_drop("score")

    assert 1 == len(heard.events)
    assert [FeedAborted] == [type(error) for error in heard.errors]
    assert "Changefeed aborted (index `score` unavailable)" == str(heard.errors[0])
    assert is_clean(rooms)


def test_a_dropped_index_ends_no_feed_that_does_without_it(rooms):
    """A filter on the indexed field is not of the index: its documents are still there."""
    ears = {
        name: Recorder(select(rooms).changes()) for name, select in KINDS.items() if name not in NEEDS_INDEX
    }

    rooms.index_drop("score")
    rooms.insert({"id": 1, "room": 5, "score": 2})

    assert dict.fromkeys(ears, (1, 0)) == {
        name: (len(ear.events), len(ear.errors)) for name, ear in ears.items()
    }


# ---------------------------------------------------------------------------------------------------------------
# Feeds opened inside a transaction


def test_a_feed_opened_in_a_transaction_begins_with_what_is_committed(db, games):
    """What the transaction has done and will do is told when it is committed, as to everybody else."""
    games.insert({"id": 0})
    with db.transaction():
        games.insert({"id": 1})
        heard = Recorder(games.changes(include_initial=True, include_states=True))
        games.insert({"id": 2})
        assert 1 not in [event["new_val"]["id"] for event in heard.events if "new_val" in event]

    assert [
        {"state": "initializing"},
        {"new_val": {"id": 0}},
        {"state": "ready"},
        changed(None, {"id": 1}),
        changed(None, {"id": 2}),
    ] == heard.events


def test_a_feed_opened_in_a_transaction_that_fails_lives_on(db, games):
    with pytest.raises(ZeroDivisionError), db.transaction():
        games.insert({"id": 1})
        heard = Recorder(games.changes(include_initial=True))
        cursor = games.order_by("id").limit(2).changes(include_initial=True).cursor()
        raise ZeroDivisionError
    games.insert({"id": 2})

    assert [changed(None, {"id": 2})] == heard.events == [cursor.next(timeout=PATIENCE_S)]


def test_a_feed_of_a_table_made_in_the_same_transaction_is_refused_until_it_is_there(db):
    """A feed begins with what is committed, and the table is not."""
    with db.transaction():
        games = db.table_create("games")
        with pytest.raises(TableNotFound):
            games.changes().subscribe()
    heard = Recorder(games.changes())

    games.insert({"id": 1})

    assert [1] == new_ids(heard)


def test_a_feed_disposed_in_a_transaction_hears_nothing_of_it(db, games):
    heard = Recorder()
    subscription = games.changes().subscribe(heard)

    with db.transaction():
        games.insert({"id": 1})
        subscription.dispose()

    assert [] == heard.events
    assert is_clean(db)


# ---------------------------------------------------------------------------------------------------------------
# The end of the program

OPENINGS = {
    "push": "games.changes().subscribe(print)",
    "loop in a thread": "threading.Thread(target=lambda: list(games.changes()), daemon=True).start()",
    "cursor": "cursor = games.changes().cursor()",
    "squash": "games.changes(squash=30).subscribe(print); games.insert({'id': 1}); games.get(1).update({'n': 1})",
    "scheduler": "games.changes().subscribe(print, scheduler=EventLoopScheduler())",
    "coroutine": "asyncio.run(read(games))",
    "aggregate": "games.count().changes(include_initial=True).subscribe(lambda event: None)",
    "list": "board = reactdb.LiveList(games.order_by('n').limit(3))",
}


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("where", [pytest.param(":memory:", marks=pytest.mark.slow), "file"])
def test_the_interpreter_ends_with_feeds_open(tmp_path, opening, where):
    """At once, without complaint, and without anybody closing anything."""
    target = tmp_path / "a.db" if where == "file" else where
    program = (
        "import asyncio, sys, threading, reactdb\n"
        "from reactivex.scheduler import EventLoopScheduler\n"
        "async def read(games):\n"
        "    cursor = aiter(games.changes())\n"
        "    waiting = asyncio.ensure_future(anext(cursor))\n"
        "    await asyncio.sleep(0)\n"
        "db = reactdb.connect(sys.argv[1], durability='soft')\n"
        "games = db.table_create('games')\n"
        f"{OPENINGS[opening]}\n"
        "games.insert({'id': 99})\n"
        "sys.stdout.flush()\n"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program, str(target)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    # Most of it is the interpreter's start; waiting for the squash interval would be 30 seconds.
    assert time.monotonic() - began < 10


KEPT_TO_THE_END = """
import asyncio, sys, threading, reactdb
db = reactdb.connect(sys.argv[1], durability="soft")
games = db.table_create("games")
games.insert({"id": 1})

async def read():
    cursor = aiter(games.changes(include_initial=True))
    await anext(cursor)
    worker = db.consumer("asynchronous", games).batches()
    games.insert({"id": 2})
    with await anext(worker):
        pass
    return cursor, worker

worker = db.consumer("worker", games).batches()
games.insert({"id": 3})
with next(worker):
    pass
reader = games.changes(include_initial=True).reader()
reader.poll()
log, stream = iter(db.log()), reactdb.mongodb(db)["test"]["games"].watch()
next(log)
# `threading` was imported before reactdb, and all modules are kept. So Python takes away the names in reactdb's modules first.
threading.kept = [
    games.changes().subscribe(print),
    games.changes().cursor(),
    iter(games.changes(include_initial=True)),
    games.changes(squash=30).union(db.changes()).cursor(),
    reactdb.LiveList(games.order_by("n").limit(3)),
    db.materialize(games.filter({"n": 1}), into="kept"),
    *asyncio.run(read()), worker, reader, log, stream, db, *sys.modules.values(),
]
"""


@pytest.mark.parametrize("where", [pytest.param(":memory:", marks=pytest.mark.slow), "file"])
def test_the_interpreter_ends_after_its_modules_with_every_kind_of_follower_open(tmp_path, where):
    """Finalizers that run so late find no names in their modules any more."""
    target = tmp_path / "a.db" if where == "file" else where
    done = subprocess.run(
        [sys.executable, "-c", KEPT_TO_THE_END, str(target)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)


# ---------------------------------------------------------------------------------------------------------------
# fork

FORK = """
import os, sys, warnings
import reactdb
warnings.simplefilter("ignore", DeprecationWarning)
db = reactdb.connect(sys.argv[1])
games = db.table_create("games")
heard = []
subscription = games.changes().subscribe(heard.append)
cursor, squashed = games.changes().cursor(), games.changes(squash=True).cursor()
games.insert({"id": 1})
sys.stdout.flush()
child = os.fork()
if child == 0:
    print("child:", [event["new_val"]["id"] for event in heard])
    for attempt in (cursor.next, squashed.next, cursor.next, lambda: games.insert({"id": 2}), games.changes, games.run):
        try:
            attempt()
        except reactdb.errors.ForkedDatabase as error:
            print("child:", "opened before fork" in str(error))
    subscription.dispose()
    squashed.close()
    db.close()
    with reactdb.connect(sys.argv[1]) as own:
        own.table("games").insert({"id": "of the child"})
    print("child: done")
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("parent:", cursor.next(timeout=10)["new_val"]["id"], cursor.next(timeout=10)["new_val"]["id"])
games.insert({"id": 3})
print("parent:", cursor.next(timeout=10)["new_val"]["id"])
db.close()
print("parent:", [event["new_val"]["id"] for event in heard])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_feed_in_a_forked_child_ends_with_the_error_and_the_parents_goes_on(path):
    """What was queued for it before the fork is for the parent alone: told twice, it would be done twice."""
    assert [
        "child: [1]",
        *["child: True"] * 6,
        "child: done",
        "parent: 1 of the child",
        "parent: 3",
        "parent: [1, 'of the child', 3]",
    ] == run_python(FORK, path).splitlines()


INHERITED = """
import asyncio, os, sys, threading, warnings
import reactdb
from reactivex.scheduler import VirtualTimeScheduler
warnings.simplefilter("ignore", DeprecationWarning)
db = reactdb.connect(sys.argv[1])
games = db.table_create("games")
games.insert([{"id": 1}, {"id": 2}])
clock = VirtualTimeScheduler()
heard, squashed = [], []
initial = games.changes(include_initial=True).cursor()
initial.next(timeout=10)
items = games.changes(include_initial=True).concat_map(lambda event: [event["new_val"]["id"]] * 3).cursor()
items.next(timeout=10)
spilled = games.changes(changefeed_queue_size=1, on_overflow="spill").cursor()
united = games.changes().union(db.changes()).cursor()
looped = aiter(games.changes())
asleep = games.changes().filter(lambda event: False).cursor()
sleeper = threading.Thread(target=lambda: list(asleep), daemon=True)
sleeper.start()
games.changes().subscribe(heard.append, scheduler=clock)
games.changes(squash=1).subscribe(squashed.append, scheduler=clock)
games.insert([{"id": 3}, {"id": 4}])
other = reactdb.connect(":memory:")
closed = other.table_create("games").changes().cursor()
other.table("games").insert({"id": 1})
other.close()
sys.stdout.flush()
child = os.fork()
if child == 0:
    for cursor in (initial, items, spilled, united, closed, asleep):
        try:
            print("told", cursor.next(timeout=10))
        except reactdb.errors.ForkedDatabase as error:
            print("child:", "opened before fork" in str(error))
    try:
        print("told", asyncio.run(looped.__anext__()))
    except reactdb.errors.ForkedDatabase as error:
        print("child:", "opened before fork" in str(error))
    clock.advance_by(5)
    print("child:", heard, squashed)
    for cursor in (initial, items, spilled, united, closed, asleep):
        cursor.close()
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("parent:", initial.next(timeout=10)["new_val"]["id"], items.next(timeout=10), spilled.next(timeout=10)["new_val"]["id"])
print("parent:", united.next(timeout=10)["new_val"]["id"], closed.next(timeout=10)["new_val"]["id"])
clock.advance_by(5)
print("parent:", [event["new_val"]["id"] for event in heard], [event["new_val"]["id"] for event in squashed])
asleep.close()
db.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_is_told_nothing_that_was_for_the_parent_whatever_kind_of_feed_it_inherits(path):
    """Initial values, items of a term, a log that is read on, a union, a database that is closed, a loop, schedulers."""
    assert [
        *["child: True"] * 7,
        "child: [] []",
        "parent: 2 1 3",
        "parent: 3 1",
        "parent: [3, 4] [3, 4]",
    ] == run_python(INHERITED, path).splitlines()


# ---------------------------------------------------------------------------------------------------------------
# Other processes


def test_writes_of_another_process_arrive_in_log_order(file_db, path):
    games = file_db.table_create("games")
    heard = Recorder(games.changes(include_seq=True))
    games.insert({"id": "here"})

    other_process(
        path,
        "games = db.table('games')",
        "for n in range(50): games.insert({'id': n})",
        "with db.transaction(): games.delete(); games.insert({'id': 'last'})",
    )

    heard.wait(1 + 50 + 51 + 1, PATIENCE_S)
    assert [entry.seq for entry in file_db.log(table="games")] == [event["seq"] for event in heard.events]
    assert "last" == new_ids(heard)[-1]


def test_writes_here_and_there_at_once_are_all_heard_in_log_order(file_db, path):
    games = file_db.table_create("games")
    heard = Recorder(games.changes(include_seq=True))
    writer, results = started(
        lambda: other_process(path, "for n in range(40): db.table('games').insert({'id': f'there-{n}'})")
    )
    number = 0
    while writer.is_alive():
        games.insert({"id": number})
        number += 1
    assert [None] == results

    heard.wait(40 + number, PATIENCE_S)
    assert [entry.seq for entry in file_db.log(table="games")] == [event["seq"] for event in heard.events]


def test_every_way_of_listening_hears_another_process(file_db, path):
    games = file_db.table_create("games")
    squashed, cursor = Recorder(games.changes(squash=True)), games.changes().cursor()

    async def read() -> Any:
        cursor = aiter(games.changes())
        await asyncio.to_thread(other_process, path, "db.table('games').insert({'id': 1})")
        return await asyncio.wait_for(anext(cursor), PATIENCE_S)

    expected = changed(None, {"id": 1})
    assert expected == asyncio.run(read())
    assert expected == cursor.next(timeout=PATIENCE_S)
    assert [expected] == squashed.wait(1, PATIENCE_S)


def test_a_read_only_handle_follows_another_process(path):
    with reactdb.connect(path) as db:
        db.table_create("games").insert({"id": 0})
    with reactdb.connect(path, read_only=True) as db:
        heard = Recorder(db.table("games").changes(include_initial=True))

        other_process(path, "db.table('games').insert({'id': 1})")

        heard.wait(2, PATIENCE_S)
    assert [0, 1] == new_ids(heard)


def test_a_table_dropped_by_another_process_ends_its_feeds(file_db, path):
    games = file_db.table_create("games")
    heard = Recorder(games.changes())

    other_process(path, "db.table('games').insert({'id': 1})", "db.table_drop('games')")

    heard.wait_for_end(PATIENCE_S)
    assert [1] == new_ids(heard)
    assert ["Changefeed aborted (table unavailable)"] == [str(error) for error in heard.errors]


def test_a_table_that_another_process_has_emptied_and_made_again_is_another_table(file_db, path):
    games = file_db.table_create("games")
    heard = Recorder(games.changes())

    other_process(path, "db.table_drop('games')", "db.table_create('games').insert({'id': 1})")

    heard.wait_for_end(PATIENCE_S)
    assert ([], 1) == (heard.events, len(heard.errors))


def test_an_index_dropped_by_another_process_ends_the_feeds_that_need_it(file_db, path):
    games = file_db.table_create("games")
    games.index_create("score")
    heard = Recorder(games.order_by(index="score").limit(2).changes())

    other_process(path, "db.table('games').index_drop('score')")

    heard.wait_for_end(PATIENCE_S)
    assert ["Changefeed aborted (index `score` unavailable)"] == [str(error) for error in heard.errors]


def test_a_table_made_by_another_process_is_watched(file_db, path):
    file_db.table_create("games")
    of_all = Recorder(file_db.changes())

    other_process(path, "db.table_create('moves').insert({'id': 1})")

    of_all.wait(1, PATIENCE_S)
    assert [{"table": "moves", "old_val": None, "new_val": {"id": 1}}] == of_all.events
    heard = Recorder(file_db.table("moves").changes())
    file_db.table("moves").insert({"id": 2})
    assert [2] == new_ids(heard)


# ---------------------------------------------------------------------------------------------------------------
# Positions: seq and token

RESUME = """
import sys, reactdb
with reactdb.connect(sys.argv[1]) as db:
    feed = db.table("games").changes(since=sys.argv[2])
    with feed.cursor() as cursor:
        for _ in range(int(sys.argv[3])):
            print(cursor.next(timeout=10)["new_val"]["id"])
        print(feed.token)
"""


@pytest.mark.slow
@pytest.mark.parametrize("whose", ["database", "feed"])
def test_a_token_resumes_in_another_process(path, whose):
    """Exactly where it was taken: nothing twice and nothing left out."""
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        feed = games.changes()
        with feed.cursor() as cursor:
            games.insert([{"id": 1}, {"id": 2}])
            cursor.next(timeout=PATIENCE_S)
            cursor.next(timeout=PATIENCE_S)
            token = db.token if whose == "database" else feed.token
        games.insert([{"id": 3}, {"id": 4}])

    *ids, token = run_python(RESUME, path, token, 2).split()
    assert ["3", "4"] == ids

    with reactdb.connect(path) as db:
        db.table("games").insert({"id": 5})
    assert ["5"] == run_python(RESUME, path, token, 1).split()[:-1]


def test_a_feeds_token_is_behind_what_it_has_not_told(games):
    feed = games.changes()
    with feed.cursor() as cursor:
        games.insert([{"id": 1}, {"id": 2}, {"id": 3}])
        cursor.next(timeout=PATIENCE_S)
        token = feed.token
    with games.changes(since=token).cursor() as cursor:
        assert [2, 3] == [cursor.next(timeout=PATIENCE_S)["new_val"]["id"] for _ in range(2)]


def test_a_feeds_token_moves_on_where_nothing_matches(db, games):
    """Else a feed that rarely matches would lose its place to retention."""
    feed = games.filter({"room": 5}).changes()
    with feed.cursor() as cursor:
        games.insert([{"id": n, "room": 6} for n in range(10)])
        with pytest.raises(TimeoutError):
            cursor.next(timeout=0)

        assert db.token == feed.token


def test_the_token_of_a_feed_outlives_its_subscription(games):
    feed = games.changes()
    with feed.cursor() as cursor:
        games.insert({"id": 1})
        cursor.next(timeout=PATIENCE_S)
    games.insert({"id": 2})

    with games.changes(since=feed.token).cursor() as cursor:
        assert 2 == cursor.next(timeout=PATIENCE_S)["new_val"]["id"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_resumes_from_every_position(rooms, kind):
    """What is told from there on is what an uninterrupted feed would have told."""
    db, start = reactdb.Database(rooms._session), reactdb.Database(rooms._session).seq
    heard = Recorder(KINDS[kind](rooms).changes(include_seq=True))
    for number in range(4):
        rooms.insert({"id": number, "room": 5 + number % 2, "score": number})
    rooms.update({"score": row["score"] * 2})
    with db.transaction():
        rooms.get(1).update({"room": 7})
        rooms.get(2).delete()
    rooms.get(3).update({"score": -1, "room": 5})

    for since in range(start, db.seq + 1):
        resumed = Recorder(KINDS[kind](rooms).changes(include_seq=True, since=since))
        assert [event for event in heard.events if event["seq"] > since] == resumed.events


def test_a_resumed_feed_says_that_it_catches_up_and_goes_live(games):
    games.insert([{"id": 1}, {"id": 2}])
    heard = Recorder(games.changes(since=2, include_states=True))

    games.insert({"id": 3})

    assert [
        {"state": "catching_up"},
        changed(None, {"id": 2}),
        {"state": "ready"},
        changed(None, {"id": 3}),
    ] == heard.events


def test_a_token_of_another_database_is_refused(tmp_path):
    with reactdb.connect(tmp_path / "a.db") as first, reactdb.connect(tmp_path / "b.db") as second:
        games = first.table_create("games")
        second.table_create("games").insert({"id": 1})

        with pytest.raises(HistoryDiverged, match="another database"):
            games.changes(since=second.token)


@pytest.mark.parametrize("since", ["", "nonsense", "a.b", "a.b.c", "..", "a.b.-1", "a.b.1.0", "x" * 500])
def test_what_is_no_token_is_refused(games, since):
    with pytest.raises(InvalidOption, match=r"^since is a seq or a token"):
        games.changes(since=since)


@pytest.mark.parametrize("since", [-1, 1.0, True, b"", [1]])
def test_what_is_no_position_is_refused(games, since):
    with pytest.raises(InvalidOption, match=r"^since is a seq"):
        games.changes(since=since)


def test_a_position_that_is_not_there_yet_is_refused(games):
    games.insert({"id": 1})

    with pytest.raises(HistoryDiverged, match="no position 3"):
        games.changes(since=3)
    assert [] == Recorder(games.changes(since=2)).events


def test_since_and_initial_values_exclude_each_other(games):
    with pytest.raises(InvalidOption, match="exclude each other"):
        games.changes(since=0, include_initial=True)


def copy_database(source: Path, target: Path) -> None:
    for suffix in ("", "-wal"):
        if os.path.exists(f"{source}{suffix}"):
            shutil.copy(f"{source}{suffix}", f"{target}{suffix}")
        elif os.path.exists(f"{target}{suffix}"):
            os.remove(f"{target}{suffix}")


@pytest.mark.parametrize("is_open", [False, True], ids=["a copy of a closed file", "a copy of an open one"])
def test_a_token_of_the_lost_future_of_a_restored_backup_is_refused(tmp_path, path, is_open):
    """Its seq is taken again by then, by something else: to go on from there would be to skip that."""
    backup = tmp_path / "backup.db"
    db = reactdb.connect(path)
    games = db.table_create("games")
    games.insert([{"id": 1}, {"id": 2}])
    kept = db.token
    if not is_open:
        db.close()
    copy_database(path, backup)
    if not is_open:
        db = reactdb.connect(path)
    db.table("games").insert([{"id": 3}, {"id": 4}])
    lost = db.token
    db.close()

    copy_database(backup, path)
    with reactdb.connect(path) as db:
        games = db.table("games")
        with pytest.raises(HistoryDiverged):
            games.changes(since=lost)
        games.insert([{"id": "other 3"}, {"id": "other 4"}, {"id": "other 5"}])
        with pytest.raises(HistoryDiverged):
            games.changes(since=lost)
        with pytest.raises(HistoryDiverged):
            games.order_by("id").limit(2).changes(since=lost, include_offsets=True)

        resumed = Recorder(games.changes(since=kept))
        assert ["other 3", "other 4", "other 5"] == new_ids(resumed)
        new = db.token
    with reactdb.connect(path) as db:
        db.table("games").insert({"id": "later"})
        assert ["later"] == new_ids(Recorder(db.table("games").changes(since=new)))


def test_what_was_compacted_away_cannot_be_resumed_and_the_error_says_from_where(db, games):
    for number in range(10):
        games.insert({"id": number})
    db.compact(keep=4)

    for since in (0, 5):
        with pytest.raises(HistoryLost) as caught:
            games.changes(since=since)
        assert (since, 8) == (caught.value.since, caught.value.oldest)
        assert f"changes since seq {since} are gone; the log starts at seq 8" == str(caught.value)
    assert [6, 7, 8, 9] == new_ids(Recorder(games.changes(since=7)))


def test_a_token_from_before_a_compaction_is_refused(db, games):
    token = db.token
    games.insert([{"id": 1}, {"id": 2}])
    kept = db.token
    games.insert({"id": 3})
    db.compact(keep=1)

    with pytest.raises(HistoryLost):
        games.changes(since=token)
    assert [3] == new_ids(Recorder(games.changes(since=kept)))


def test_a_feed_made_before_a_compaction_finds_out_on_subscribing(db, games):
    feed = games.changes(since=0)
    games.insert([{"id": 1}, {"id": 2}])
    db.compact(keep=0)

    with pytest.raises(HistoryLost):
        feed.subscribe()
    with pytest.raises(HistoryLost):
        feed.cursor()
    assert is_clean(db)


def test_resuming_a_table_that_has_gone_tells_what_it_did_and_then_that_it_has_gone(db, games):
    games.insert({"id": 1})
    feed = games.changes(since=0)
    games.insert({"id": 2})
    db.table_drop("games")

    heard = Recorder(feed)

    assert ([1, 2], [FeedAborted]) == (new_ids(heard), [type(error) for error in heard.errors])


def test_a_seq_from_an_event_is_a_position(games):
    heard = Recorder(games.changes(include_seq=True))
    games.insert([{"id": 1}, {"id": 2}, {"id": 3}])

    for place, event in enumerate(heard.events):
        resumed = Recorder(games.changes(include_seq=True, since=event["seq"]))
        assert heard.events[place + 1 :] == resumed.events


def test_an_error_in_a_filter_tells_nothing_of_where_it_stands(games):
    """A resumed feed treats a failing filter as a live one does: the document is not in."""
    games.insert([{"id": 1, "n": 0}, {"id": 2, "n": 1}])
    heard = Recorder(games.filter(1 / row["n"] > r.expr(0)).changes(since=0))

    assert [2] == new_ids(heard)
