"""Beginnings and ends: Ctrl-C, exceptions, closing at every odd moment, the garbage collector, and the end of the program.

There is no hang, no lost acknowledged write, no leftover thread, and no warning at exit.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from reactivex.scheduler import EventLoopScheduler, NewThreadScheduler, ThreadPoolScheduler

import reactdb
from reactdb.session import session_of
from tests.support.processes import ROOT, run_python
from tests.support.strikes import struck_at
from tests.support.threads import PATIENCE_S, started, wait_until

# Seconds that a program may take to end after its last line. On a busy machine; else it is a tenth of one.
END_S = 6.0


def read(path: Path) -> list[Any]:
    """The keys that another process finds."""
    told = run_python(
        "import sys, reactdb\n"
        "with reactdb.connect(sys.argv[1]) as db: print([d['id'] for d in db.table('games')])",
        path,
    )
    return list(eval(told))  # What this file's own program printed: a list of numbers and strings.


def ends(path: Path, *lines: str, code: int = 0, timeout_s: float = 60) -> str:
    """What a program prints that opens a database, does the lines, and ends without closing anything. Without a complaint."""
    program = "\n".join(
        (
            "import asyncio, atexit, os, signal, sys, threading, time, reactdb",
            "from reactdb import row",
            "db = reactdb.connect(sys.argv[1], durability='hard')",
            "games = db.table_create('games', exist_ok=True)",
            *lines,
            "sys.stdout.flush()",
            "os.write(1, b'end %f\\n' % time.monotonic())",
        )
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program, str(path)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (code, "") == (done.returncode, done.stderr)
    told, end, moment = done.stdout.rpartition("end ")
    if not end:
        # Its last line was not reached.
        return done.stdout
    moment, _, after = moment.partition("\n")
    assert time.monotonic() - float(moment) < END_S
    return told + after


# ---------------------------------------------------------------------------------------------------------------
# Ctrl-C


class TestInterrupts:
    def test_ctrl_c_at_any_call_of_a_read_leaves_none_open(self):
        """In memory, a commit would wait for one for ever."""
        with reactdb.connect(":memory:") as db:
            games = db.table_create("games")
            games.insert([{"id": n} for n in range(3)])
            games.run()
            place = 1
            while struck_at(place, games.run):
                assert {} == session_of(db).engine.readers.reading
                place += 1

            assert place > 10
            games.insert({"id": 3})

    def test_ctrl_c_while_operations_are_imported_does_not_keep_them_from_being_imported_again(self):
        run_python(
            """
import importlib, sys
import reactdb
from reactdb.expression import registry
registry.find("append")
# What Python does where an import is broken off, after some of it was done.
del sys.modules["reactdb.expression.operations.arrays"]
importlib.import_module("reactdb.expression.operations.arrays")
with reactdb.connect(":memory:") as db:
    games = db.table_create("games")
    games.insert({"id": 1, "all": [1]})
    assert [[1, 2]] == list(games.map(reactdb.row["all"].append(2)).run())
"""
        )

    @pytest.mark.parametrize("kind", ["threads", "timers", "follower", "expirer"])
    def test_ctrl_c_while_a_thread_starts_leaves_one_thread_that_does_the_work(self, tmp_path, kind):
        """At every point. In a process of its own, because Python lists a thread that it could not start for ever."""
        run_python(
            """
import sys, threading, reactdb
from datetime import timedelta
from reactdb.clock import Timers, monotonic
from reactdb.session import session_of
from reactdb.store.expirer import Expirer
from reactdb.store.follow import Follower
from reactdb.threads import Threads
from tests.support.strikes import struck_at
from tests.support.threads import PATIENCE_S, wait_until

kind, path = sys.argv[1:]

def alive():
    return [thread for thread in threading.enumerate() if thread.name.startswith("ours") and thread.is_alive()]

class Named(threading.Thread):
    def __init__(self, *, target, name, daemon):
        super().__init__(target=target, name=f"ours: {name}", daemon=daemon)

threading.Thread, real = Named, threading.Thread
# The file's own feeds and tables are followed by others.
db = reactdb.connect(path)
db.table_create("sessions", expire_after=timedelta(hours=1), field="at")
wait_until(lambda: len(alive()) == 1)
watched = session_of(db).engine
others = set(alive())

def rounds():
    seen = threading.Event()
    if kind == "threads":
        threads = Threads("workers", 1)
        return lambda: threads.run(lambda: None), lambda: threads.run(seen.set), seen.wait, threads.stop
    if kind == "timers":
        timers = Timers()
        return (
            lambda: timers.call_at(0, lambda: None), lambda: timers.call_at(monotonic(), seen.set), seen.wait, lambda: None
        )
    one = Follower() if kind == "follower" else Expirer()
    return (
        lambda: one.watch(watched),
        lambda: one.watch(watched),
        lambda timeout: wait_until(lambda: len(set(alive()) - others) == 1) or True,
        lambda: one.unwatch(watched),
    )

place, is_struck = 1, True
while is_struck:
    begin, again, wait, end = rounds()
    is_struck = struck_at(place, begin)
    again()
    assert wait(PATIENCE_S), place
    wait_until(lambda: len(set(alive()) - others) <= 1)
    end()
    wait_until(lambda: set(alive()) <= others)
    place += 1
assert place > 20
db.close()
""",
            kind,
            tmp_path / "a.db",
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("place", ["file", ":memory:"])
    def test_ctrl_c_at_random_moments_breaks_no_promise(self, tmp_path, place):
        """Writes, transactions, index builds, feeds and compaction, struck anywhere: see tests/interrupts.py."""
        sweep = Path(__file__).parent.parent / "interrupts.py"
        target = str(tmp_path / "a.db") if place == "file" else place
        done = subprocess.run(
            [sys.executable, str(sweep), "--rounds", "700", "--file", target],
            capture_output=True,
            text=True,
            timeout=200,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )

        assert 0 == done.returncode, done.stderr[-3000:]
        assert done.stdout.startswith("700 rounds, ")
        assert int(done.stdout.split()[2]) > 60

    LONG = (
        "class Struck(BaseException): pass",
        "def strike(*_): raise Struck",
        "signal.signal(signal.SIGALRM, strike)",
        "for k in range(4): games.insert([{'id': n, 'n': -n, 's': 'x' * 50} for n in range(k * 50_000, k * 50_000 + 50_000)],"
        " durability='soft')",
        "def struck(work):",
        "    signal.setitimer(signal.ITIMER_REAL, 0.02)",
        "    begun = time.monotonic()",
        "    try: work()",
        "    except Struck: print('struck', time.monotonic() - begun < 1, flush=True)",
        "    else: print('done', flush=True)",
        "    signal.setitimer(signal.ITIMER_REAL, 0)",
    )

    @pytest.mark.slow
    def test_a_long_statement_is_interrupted_within_a_second_and_leaves_nothing(self, path):
        told = ends(
            path,
            *self.LONG,
            "struck(lambda: games.index_create('n'))",
            "struck(lambda: games.update({'more': True}))",
            "struck(games.run)",
            "struck(lambda: games.order_by('n').run())",
            "struck(lambda: db.compact(0, vacuum=True))",
            "print(games.index_list(), games.count().run(), db.seq, games.has_fields('more').count().run())",
            "games.insert({'id': 'after'})",
            "print(games.filter(row['id'] == 'after').count().run())",
            timeout_s=120,
        )

        *struck, left, after = told.splitlines()
        assert ["struck True"] * 5 == struck
        assert "[] 200000 200001 0" == left
        assert "1" == after

    @pytest.mark.slow
    def test_waiting_for_another_process_is_interrupted_within_a_second(self, path):
        """Though `busy_timeout` is an hour."""
        told = ends(
            path,
            "import sqlite3",
            "db.close(); db = reactdb.connect(sys.argv[1], busy_timeout=3600); games = db.table('games')",
            "other = sqlite3.connect(sys.argv[1], isolation_level=None); other.execute('BEGIN IMMEDIATE')",
            "def strike(*_): raise KeyboardInterrupt",
            "signal.signal(signal.SIGALRM, strike); signal.setitimer(signal.ITIMER_REAL, 0.1)",
            "begun = time.monotonic()",
            "try: games.insert({'id': 1})",
            "except KeyboardInterrupt: print(time.monotonic() - begun < 1.1)",
            "other.execute('ROLLBACK'); other.close()",
            "games.insert({'id': 2})",
        )

        assert "True\n" == told
        assert [2] == read(path)

    @pytest.mark.slow
    def test_a_wait_that_is_over_in_time_succeeds(self, path):
        """It is made of pieces; together they last as long as `busy_timeout` says."""
        with reactdb.connect(path, busy_timeout=30) as db:
            games = db.table_create("games")
            holder = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "import sqlite3, sys, time\n"
                    "c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN IMMEDIATE')\n"
                    "print('ready', flush=True); time.sleep(1.2); c.execute('ROLLBACK')",
                    str(path),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            with holder:
                assert holder.stdout is not None
                holder.stdout.readline()
                begun = time.monotonic()
                games.insert({"id": 1})

            assert time.monotonic() - begun > 0.5

    def test_a_subscriber_that_was_interrupted_hears_that_its_feed_has_ended(self, games):
        """Nobody knows whether it was told: so it does not go on as if nothing were missing."""
        ended: list[Exception] = []

        def on_next(event: Any) -> None:
            raise KeyboardInterrupt

        games.changes().subscribe(on_next, ended.append)
        with pytest.raises(KeyboardInterrupt):
            games.insert({"id": 1})
        games.insert({"id": 2})

        assert [reactdb.errors.FeedAborted] == [type(error) for error in ended]
        assert "interrupted" in str(ended[0])
        assert 2 == games.count().run()


# ---------------------------------------------------------------------------------------------------------------
# Exceptions and blocks


class TestBlocks:
    @pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_whatever_leaves_a_transaction_takes_it_back(self, db, games, kind):
        with pytest.raises(kind), db.transaction():
            games.insert({"id": 1})
            raise kind

        games.insert({"id": 2})
        assert [{"id": 2}] == games.run()
        assert 2 == db.seq

    def test_whatever_leaves_the_block_of_a_database_closes_it(self, path):
        with pytest.raises(ZeroDivisionError), reactdb.connect(path) as db:
            db.table_create("games").insert({"id": 1})
            raise ZeroDivisionError

        assert db.is_closed
        assert not path.with_name("a.db-wal").exists()

    def test_a_generator_that_is_left_inside_a_transaction_takes_it_back(self, db, games):
        def work() -> Any:
            with db.transaction():
                games.insert({"id": 1})
                yield

        left = work()
        next(left)
        left.close()

        assert [] == games.run()
        games.insert({"id": 2})

    def test_a_block_may_be_entered_twice_and_closes_once(self, path):
        with reactdb.connect(path) as db:
            with db as same:
                assert same is db
            with pytest.raises(reactdb.errors.DatabaseClosed, match=r"^database .*a\.db is closed$"):
                db.table_list()
        db.close()
        with pytest.raises(reactdb.errors.DatabaseClosed), db:
            db.table_list()

        assert db.is_closed


# ---------------------------------------------------------------------------------------------------------------
# Closing


class TestClosing:
    def test_writers_that_wait_are_told(self, path):
        """They queue behind a transaction; whoever closes waits for that one only."""
        db = reactdb.connect(path, durability="soft", busy_timeout=20)
        games = db.table_create("games")
        entered, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with db.transaction():
                games.insert({"id": "held"})
                entered.set()
                leave.wait(PATIENCE_S)

        holder, held = started(hold)
        entered.wait(PATIENCE_S)
        waiting = [started(lambda n=n: games.insert({"id": n})) for n in range(5)]
        queue = session_of(db).engine.writer.queue
        wait_until(lambda: len(queue) == 6)
        closer, closed = started(db.close)
        wait_until(lambda: db.is_closed)
        leave.set()
        for thread, _ in [(holder, held), (closer, closed), *waiting]:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

        assert [None] == closed
        outcomes = [outcome[0] for _, outcome in waiting]
        assert all(isinstance(one, (dict, reactdb.errors.DatabaseClosed)) for one in outcomes), outcomes
        with reactdb.connect(path) as again:
            found = [document["id"] for document in again.table("games")]
        written = [n for n, one in enumerate(outcomes) if isinstance(one, dict)]
        assert sorted(map(str, [*written, *(["held"] if held == [None] else [])])) == sorted(map(str, found))

    @pytest.mark.parametrize("how", ["here", "scheduler", "cursor"])
    def test_a_subscriber_may_close_the_database(self, path, how):
        db = reactdb.connect(path, durability="soft")
        games = db.table_create("games")
        completed = threading.Event()

        def close(event: Any) -> None:
            db.close()

        if how == "cursor":
            cursor = games.changes().cursor()
            thread, _ = started(lambda: close(cursor.next(timeout=PATIENCE_S)))
            games.insert({"id": 1})
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        else:
            scheduler = EventLoopScheduler() if how == "scheduler" else None
            games.changes().subscribe(close, on_completed=completed.set, scheduler=scheduler)
            games.insert({"id": 1})
            assert completed.wait(PATIENCE_S)
            if scheduler is not None:
                scheduler.dispose()

        wait_until(lambda: db.is_closed)
        with pytest.raises(reactdb.errors.DatabaseClosed):
            games.insert({"id": 2})
        with reactdb.connect(path) as again:
            assert [{"id": 1}] == again.table("games").run()

    def test_many_threads_may_close_at_once(self, path):
        for _ in range(20):
            db = reactdb.connect(path, durability="soft")
            db.table_create("games", exist_ok=True).changes().subscribe(lambda event: None)
            threads = [started(db.close) for _ in range(4)]
            for thread, _ in threads:
                thread.join(PATIENCE_S)

            assert [None] * 4 == [outcome[0] for _, outcome in threads]
        assert not path.with_name("a.db-wal").exists()

    @pytest.mark.parametrize(
        "use",
        [
            lambda db, games: games.insert({"id": 1}),
            lambda db, games: games.run(),
            lambda db, games: games.get(1).run(),
            lambda db, games: games.update({"n": 1}),
            lambda db, games: games.index_create("n"),
            lambda db, games: games.index_list(),
            lambda db, games: games.count().run(),
            lambda db, games: games.changes().subscribe(print),
            lambda db, games: games.changes().cursor(),
            lambda db, games: list(games.changes()),
            lambda db, games: db.table_create("more"),
            lambda db, games: db.table_list(),
            lambda db, games: db.seq,
            lambda db, games: db.token,
            lambda db, games: db.stats(),
            lambda db, games: db.compact(keep=0),
            lambda db, games: db.at(0),
            lambda db, games: list(db.log()),
            lambda db, games: db.transaction().__enter__(),
            lambda db, games: db.changes(),
        ],
    )
    def test_every_use_after_closing_says_one_sentence(self, path, use):
        db = reactdb.connect(path)
        games = db.table_create("games")
        db.close()
        db.close()

        with pytest.raises(reactdb.errors.DatabaseClosed) as caught:
            use(db, games)
        assert f"database {db.path} is closed" == str(caught.value)

    def test_a_loop_that_is_closed_under_a_feed_hinders_nobody(self, path):
        """asyncio.run cancels and closes; what was still listening is gone, and the writer does not notice."""
        with reactdb.connect(path, durability="soft") as db:
            games = db.table_create("games")
            heard: list[Any] = []

            async def listen() -> None:
                async for change in games.changes():
                    heard.append(change["new_val"]["id"])  # noqa: PERF401

            async def main() -> None:
                task = asyncio.ensure_future(listen())
                await asyncio.sleep(0)
                games.insert({"id": 1})
                while not heard:
                    await asyncio.sleep(0.001)
                assert not task.done()

            asyncio.run(main())
            games.insert({"id": 2})
            gc.collect()

            assert [1] == heard
            assert 2 == games.count().run()

    @pytest.mark.parametrize("make", [NewThreadScheduler, EventLoopScheduler, lambda: ThreadPoolScheduler(2)])
    def test_no_thread_of_ours_is_left_whatever_the_scheduler(self, path, make):
        scheduler = make()
        with reactdb.connect(path, durability="soft", scheduler=scheduler) as db:
            games = db.table_create("games")
            heard = threading.Event()
            games.changes(squash=0.01).subscribe(lambda event: heard.set())
            games.insert({"id": 1})
            assert heard.wait(PATIENCE_S)
        if hasattr(scheduler, "dispose"):
            scheduler.dispose()
        if hasattr(scheduler, "executor"):
            scheduler.executor.shutdown()

        wait_until(lambda: not [one for one in threading.enumerate() if one.name.startswith("reactdb")])


# ---------------------------------------------------------------------------------------------------------------
# The garbage collector


class TestGarbage:
    def test_a_forgotten_database_in_memory_is_collected(self):
        db = reactdb.connect(":memory:")
        games = db.table_create("games")
        games.insert({"id": 1})
        engine = weakref.ref(session_of(db).engine)
        del db, games
        gc.collect()

        assert engine() is None

    def test_a_forgotten_database_in_memory_is_collected_with_its_feeds_and_in_a_circle(self):
        db = reactdb.connect(":memory:")
        games = db.table_create("games")
        heard: list[Any] = [db]
        games.changes().subscribe(heard.append)
        cursor = games.changes().cursor()
        db.circle = [db, games, heard, cursor]  # type: ignore[attr-defined]
        games.insert({"id": 1})
        engine = weakref.ref(session_of(db).engine)
        del db, games, heard, cursor
        gc.collect()

        assert engine() is None

    def test_a_forgotten_handle_leaves_the_file_open_and_usable(self, path):
        """Its feeds go on. Who opens the file again gets the same engine, and who ends the program closes it."""
        heard: list[Any] = []

        def begin() -> None:
            db = reactdb.connect(path, durability="soft")
            db.table_create("games").changes().subscribe(heard.append)

        begin()
        gc.collect()
        with reactdb.connect(path) as db:
            db.table("games").insert({"id": 1})
            forgotten = session_of(db).engine

        assert [1] == [event["new_val"]["id"] for event in heard]
        forgotten.close()

    def test_a_table_keeps_its_database(self):
        games = reactdb.connect(":memory:").table_create("games")
        gc.collect()
        games.insert({"id": 1})

        assert [{"id": 1}] == games.run()

    def test_a_read_that_was_left_in_the_middle_hinders_no_writer(self, db, games):
        games.insert([{"id": n} for n in range(100)])
        log = db.log()
        documents = iter(games)
        next(log)
        next(documents)
        games.insert({"id": "more"})
        del log, documents

        assert 101 == games.count().run()


# ---------------------------------------------------------------------------------------------------------------
# The end of the program


class TestExit:
    @pytest.mark.slow
    @pytest.mark.parametrize("daemon", [True, False])
    def test_a_thread_that_is_inside_a_transaction(self, path, daemon):
        """One that the program does not wait for is cut off, and its transaction is not there; another one finishes."""
        ends(
            path,
            "games.insert({'id': 1})",
            "entered = threading.Event()",
            "def work():",
            "    with db.transaction():",
            "        games.insert({'id': 2})",
            "        entered.set()",
            f"        time.sleep({60 if daemon else 0.2})",
            f"threading.Thread(target=work, daemon={daemon}).start()",
            "entered.wait()",
        )

        assert ([1] if daemon else [1, 2]) == read(path)

    @pytest.mark.slow
    def test_threads_that_write_until_the_end(self, path):
        """Everything that was acknowledged is there."""
        told = ends(
            path,
            "def work(name):",
            "    n = 0",
            "    while True:",
            "        games.insert({'id': f'{name}-{n}'})",
            "        os.write(1, f'{name}-{n}\\n'.encode())",
            "        n += 1",
            "for name in range(3): threading.Thread(target=work, args=(name,), daemon=True).start()",
            "time.sleep(0.3)",
        )

        assert set(told.split()) <= set(read(path))
        assert len(told.split()) > 3

    def test_feeds_that_write_and_pollers_and_timers(self, path):
        ends(
            path,
            "from reactivex.scheduler import EventLoopScheduler, TimeoutScheduler",
            "copies = db.table_create('copies')",
            "games.changes().subscribe(lambda event: copies.insert(event['new_val']))",
            "games.changes(squash=60).subscribe(print)",
            "games.changes().subscribe(print, scheduler=EventLoopScheduler())",
            "cursor = games.changes().cursor()",
            "threading.Thread(target=lambda: list(games.changes()), daemon=True).start()",
            "games.insert([{'id': n} for n in range(100)])",
        )

        assert 100 == len(read(path))

    @pytest.mark.slow
    @pytest.mark.parametrize("before", [True, False])
    def test_a_handler_of_atexit_may_write(self, path, before):
        """Whether it was registered before the database was opened or after it."""
        program = (
            "import atexit, sys\n"
            "def last(): games.insert({'id': 'last'}); print('written')\n"
            + ("atexit.register(last)\n" if before else "")
            + "import reactdb\n"
            "db = reactdb.connect(sys.argv[1])\n"
            "games = db.table_create('games')\n"
            "games.changes().subscribe(lambda event: print('heard'))\n"
            "games.insert({'id': 1})\n" + ("" if before else "atexit.register(last)\n")
        )

        assert ["heard", "heard", "written"] == run_python(program, path).splitlines()
        assert [1, "last"] == read(path)

    @pytest.mark.slow
    def test_sys_exit_in_a_subscriber_ends_the_program(self, path):
        told = ends(
            path,
            "games.changes().subscribe(lambda event: sys.exit(7))",
            "try: games.insert({'id': 1})",
            "finally: print('left')",
            "print('never')",
            code=7,
        )

        assert "left\n" == told
        assert [1] == read(path)

    @pytest.mark.slow
    def test_sys_exit_in_a_transaction_takes_it_back(self, path):
        ends(
            path,
            "games.insert({'id': 1})",
            "with db.transaction():",
            "    games.insert({'id': 2})",
            "    sys.exit(3)",
            code=3,
        )

        assert [1] == read(path)

    def test_an_end_without_any_ceremony(self, path):
        ends(
            path,
            "games.insert({'id': 1})",
            "games.changes().subscribe(lambda event: None)",
            "transaction = db.transaction(); transaction.__enter__()",
            "games.insert({'id': 2})",
            "os._exit(5)",
            code=5,
        )

        assert [1] == read(path)

    def test_ctrl_c_ends_a_program_that_listens(self, path):
        """Nothing but Python's own traceback."""
        program = (
            "import os, signal, sys, threading, reactdb\n"
            "games = reactdb.connect(sys.argv[1]).table_create('games')\n"
            "games.insert({'id': 1})\n"
            "try:\n"
            # The signal comes inside of `try`, however long the program takes to get to the loop.
            "    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
            "    for change in games.changes(): pass\n"
            "except KeyboardInterrupt: print('ended')\n"
        )

        assert "ended\n" == run_python(program, path)

    @pytest.mark.slow
    def test_a_coroutine_that_listens_until_the_end(self, path):
        ends(
            path,
            "async def listen():",
            "    async for change in games.changes(): pass",
            "async def main():",
            "    task = asyncio.ensure_future(listen())",
            "    await asyncio.sleep(0)",
            "    games.insert({'id': 1})",
            "    await asyncio.sleep(0)",
            "asyncio.run(main(), debug=False)",
            "games.insert({'id': 2})",
        )

        assert [1, 2] == read(path)

    def test_the_file_is_whole_and_alone_after_an_ordinary_end(self, path):
        """Nobody has closed it, and the write-ahead log is gone all the same."""
        ends(path, "games.insert([{'id': n} for n in range(10)])", "list(games)", "games.index_create('n')")

        assert ["a.db"] == sorted(one.name for one in path.parent.iterdir())
        assert list(range(10)) == read(path)

    @pytest.mark.slow
    def test_a_database_that_is_known_to_the_whole_program(self, path):
        """Held by a module, a class and a circle: taken down in whatever order."""
        ends(
            path,
            "class Holder:",
            "    shared = db",
            "    def __init__(self): self.me = self; self.cursor = games.changes().cursor()",
            "    def __del__(self): games.count().run()",
            "sys.modules['holder'] = Holder()",
            "games.insert({'id': 1})",
            "assert row['id'] is not None",
        )

        assert [1] == read(path)

    @pytest.mark.slow
    def test_a_reader_is_opened_when_python_has_taken_its_own_functions_away(self, path):
        """`open` is gone from the builtins by then. Two reads at once need a connection that was not open before."""
        ends(
            path,
            "class Holder:",
            "    def __init__(self): self.me = self",
            "    def __del__(self):",
            "        first = iter(games)",
            "        next(first), games.count().run()",
            "sys.modules['holder'] = Holder()",
            "games.insert([{'id': n} for n in range(2_000)])",
        )

        assert list(range(2_000)) == read(path)
