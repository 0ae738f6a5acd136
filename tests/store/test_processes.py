"""Several processes on one file: forks, locks, followers, and the errors for what is not possible."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.session import Session, session_of

PATIENCE_S = 30
PYTHON = [sys.executable, "-W", "ignore::DeprecationWarning"]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def run(program: str, *arguments: object) -> str:
    """What a program prints; it must end well."""
    done = subprocess.run(
        [*PYTHON, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    assert 0 == done.returncode, done.stderr[-3000:]
    assert "" == done.stderr
    return done.stdout


@contextmanager
def running(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A program that goes on, after its first line. It is killed at the end."""
    process = subprocess.Popen(
        [*PYTHON, "-u", "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "ready" == process.stdout.readline().strip()
        yield process
    finally:
        process.kill()
        process.communicate()


def said(call: Callable[[], Any]) -> str:
    with pytest.raises(reactdb.ReactDBError) as caught:
        call()
    return str(caught.value)


# ---------------------------------------------------------------------------------------------------------------
# fork


FORK = """
import os, subprocess, sys, threading
import reactdb

path = sys.argv[1]
db = reactdb.connect(path, durability="soft")
games = db.table_create("games")
games.insert({"id": "parent-0"})

def child_of(work):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    return pid

def wait(pid):
    killer = threading.Timer(60, os.kill, (pid, 9))
    killer.start()
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    killer.cancel()

def refused(call):
    try:
        call()
    except reactdb.errors.ForkedDatabase as error:
        return str(error)
    raise AssertionError("not refused")

def other_process(statement):
    program = f"import reactdb, sys\\nwith reactdb.connect(sys.argv[1]) as db: {statement}"
    subprocess.run([sys.executable, "-c", program, path], check=True)

def is_sound():
    from reactdb.store.tools import doctor
    return not [one for _, found in doctor.examine(path) for one in found if one.level == "problem"]
"""


@needs_fork
class TestFork:
    def test_a_child_that_opens_the_file_again_outlives_its_parents_handle(self, path):
        """The parent closes, others come and go; the child's writes are all there."""
        run(
            FORK
            + """
go, gone = os.pipe()
def work():
    assert "open it again in the child" in refused(lambda: games.insert({"id": 1}))
    assert "open it again in the child" in refused(games.run)
    with reactdb.connect(path, durability="soft") as own:
        own.table("games").insert({"id": "child-0"})
        os.write(ready, b"x")
        os.read(go, 1)
        for n in range(1, 20):
            own.table("games").insert({"id": f"child-{n}"})
see, ready = os.pipe()
pid = child_of(work)
os.read(see, 1)
games.insert({"id": "parent-1"})
db.close()
assert os.path.exists(path + "-wal")
other_process("db.table('games').insert({'id': 'other'})")
os.write(gone, b"x")
wait(pid)
with reactdb.connect(path) as db:
    assert 23 == db.table("games").count().run()
assert is_sound()
""",
            path,
        )

    def test_a_child_that_does_nothing_harms_nobody(self, path):
        run(
            FORK
            + """
wait(child_of(lambda: None))
wait(child_of(lambda: db.close()))
def collect():
    global db, games
    db = games = None
    import gc
    gc.collect()
wait(child_of(collect))
games.insert({"id": "parent-1"})
other_process("pass")
games.insert({"id": "parent-2"})
db.close()
assert is_sound()
""",
            path,
        )

    def test_a_fork_with_live_feeds_leaves_them_to_the_parent(self, path):
        """The child hears nothing, and is told so when it asks; it can have feeds of its own."""
        run(
            FORK
            + """
heard, cursor = [], games.changes().cursor()
games.changes().subscribe(lambda event: heard.append(event["new_val"]["id"]))
def work():
    assert "open it again" in refused(lambda: cursor.next(timeout=10))
    with reactdb.connect(path) as own, own.table("games").changes().cursor() as mine:
        own.table("games").insert({"id": "child"})
        assert "child" == mine.next(timeout=20)["new_val"]["id"]
    assert [] == heard
wait(child_of(work))
games.insert({"id": "parent-1"})
assert "child" == cursor.next(timeout=20)["new_val"]["id"]
assert "parent-1" == cursor.next(timeout=20)["new_val"]["id"]
assert ["child", "parent-1"] == heard
db.close()
""",
            path,
        )

    def test_a_child_cannot_open_a_file_that_was_in_a_transaction_at_the_fork(self, path):
        """Its locks are the parent's, and SQLite believes that they are the child's."""
        told = run(
            FORK
            + """
def work():
    print(refused(lambda: reactdb.connect(path)))
    with reactdb.connect(path + ".other") as other:
        other.table_create("games").insert({"id": 1})
with db.transaction():
    games.insert({"id": "parent-1"})
    wait(child_of(work))
    games.insert({"id": "parent-2"})
assert 3 == games.count().run()
db.close()
assert is_sound()
""",
            path,
        )

        assert "was being used, in a transaction or by another thread, while this process was forked" in told

    def test_a_fork_waits_for_what_other_threads_are_doing(self, path):
        """Threads read and write without end; every child can open the file, and nothing is lost."""
        run(
            FORK
            + """
done, counts = threading.Event(), [0, 0]
def write(number):
    while not done.is_set():
        games.insert({"id": f"{number}-{counts[number]}"})
        counts[number] += 1
def read():
    while not done.is_set():
        games.limit(1000).run()
heard = []
games.changes().subscribe(lambda event: heard.append(event["new_val"]["id"]))
acts = [lambda: write(0), lambda: write(1), read]
threads = [threading.Thread(target=act, daemon=True) for act in acts]
for thread in threads: thread.start()
def work(number):
    with reactdb.connect(path, durability="soft", busy_timeout=60) as own:
        for n in range(5):
            own.table("games").insert({"id": f"child-{number}-{n}"})
children = [child_of(lambda: work(number)) for number in range(4)]
for child in children: wait(child)
done.set()
for thread in threads: thread.join()
assert 1 + sum(counts) + 20 == games.count().run(), (counts, games.count().run())
db.close()
assert is_sound()
""",
            path,
        )

    def test_a_child_does_not_wait_for_what_a_thread_was_importing(self, path):
        run(
            FORK
            + """
entered, leave = threading.Event(), threading.Event()
class Slow:
    def find_spec(self, name, path, target=None):
        if name == "ctypes":
            entered.set()
            assert leave.wait(60)
sys.meta_path.insert(0, Slow())
threading.Thread(target=__import__, args=("ctypes",), daemon=True).start()
assert entered.wait(60)
threading.Timer(0.1, leave.set).start()
wait(child_of(lambda: refused(games.count().run)))
db.close()
""",
            path,
        )

    def test_a_thread_that_is_in_a_transaction_for_long_does_not_hold_up_a_fork(self, path):
        told = run(
            FORK
            + """
import time
from reactdb.store.file import fork
fork.WAIT_S = 0.2
entered, leave = threading.Event(), threading.Event()
def hold():
    with db.transaction():
        games.insert({"id": "held"})
        entered.set()
        leave.wait(30)
thread = threading.Thread(target=hold)
thread.start()
entered.wait(30)
start = time.monotonic()
wait(child_of(lambda: print(refused(lambda: reactdb.connect(path)))))
assert time.monotonic() - start < 10
leave.set()
thread.join()
games.insert({"id": "after"})
assert 3 == games.count().run()
""",
            path,
        )

        assert "cannot be opened here" in told

    def test_a_thread_that_reads_for_long_does_not_hold_up_a_fork_nor_is_it_held_up(self, path):
        told = run(
            FORK
            + """
from reactdb.store.file import fork
fork.WAIT_S = 0.2
entered, leave = threading.Event(), threading.Event()
def hold():
    with db._session.engine.snapshot() as snapshot:
        entered.set()
        leave.wait(30)
        assert 2 == snapshot.seq
thread = threading.Thread(target=hold)
thread.start()
entered.wait(30)
wait(child_of(lambda: print(refused(lambda: reactdb.connect(path)))))
games.insert({"id": "after"})
assert 2 == games.count().run()
leave.set()
thread.join()
wait(child_of(lambda: reactdb.connect(path).close()))
assert 2 == games.count().run()
""",
            path,
        )

        assert "cannot be opened here" in told

    def test_two_threads_that_fork_at_once(self, path):
        run(
            FORK
            + """
from reactdb.store.file import fork as forks
forks.WAIT_S = 60
def work(number):
    with reactdb.connect(path, busy_timeout=60) as own:
        own.table("games").insert({"id": f"child-{number}"})
def fork(number):
    start.wait()
    pids.append(child_of(lambda: work(number)))
pids, start = [], threading.Barrier(3)
threads = [threading.Thread(target=fork, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for pid in pids: wait(pid)
games.insert({"id": "parent-1"})
assert 5 == games.count().run()
assert is_sound()
""",
            path,
        )

    def test_a_fork_from_a_thread(self, path):
        run(
            FORK
            + """
def work():
    with reactdb.connect(path) as own:
        own.table("games").insert({"id": "child"})
def fork():
    pids.append(child_of(work))
pids = []
thread = threading.Thread(target=fork)
thread.start()
thread.join()
wait(pids[0])
games.insert({"id": "parent-1"})
assert 3 == games.count().run()
""",
            path,
        )

    def test_a_child_of_a_child(self, path):
        run(
            FORK
            + """
def grandchild():
    with reactdb.connect(path) as own:
        own.table("games").insert({"id": "grandchild"})
def child():
    with reactdb.connect(path) as own:
        own.table("games").insert({"id": "child"})
        pid = os.fork()
        if pid == 0:
            assert "open it again" in refused(own.table("games").run)
            grandchild()
            os._exit(0)
        wait(pid)
        own.table("games").insert({"id": "child again"})
wait(child_of(child))
assert 4 == games.count().run()
""",
            path,
        )

    def test_a_fork_of_a_database_in_memory(self, path):
        run(
            FORK
            + """
memory = reactdb.connect(":memory:")
memory.table_create("games").insert({"id": 1})
def work():
    refused(memory.table("games").run)
    with reactdb.connect(":memory:") as own:
        own.table_create("games").insert({"id": 2})
wait(child_of(work))
assert [{"id": 1}] == memory.table("games").run()
""",
            path,
        )


class TestReaders:
    """What a fork asks of the connections that read."""

    def test_nobody_takes_a_reader_while_all_of_them_rest(self, path):
        with reactdb.connect(path) as db:
            games = db.table_create("games")
            games.insert({"id": 1})
            readers = session_of(db).engine.readers
            assert {"id": 1} == games.get(1).run()
            assert 1 == len(readers.idle)
            assert readers.pause(time.monotonic() + PATIENCE_S)
            found: list[Any] = []
            reading = threading.Thread(target=lambda: found.append(games.get(1).run()))
            reading.start()
            # Where it is let through, it is done in a moment; the gate holds it for as long as it stays shut.
            reading.join(0.2)
            before = list(found)
            readers.resume()
            reading.join(PATIENCE_S)

            assert ([], [{"id": 1}]) == (before, found)

    def test_where_somebody_reads_on_all_the_others_may_read_again(self, path):
        with reactdb.connect(path) as db:
            games = db.table_create("games")
            games.insert({"id": 1})
            engine = session_of(db).engine
            with engine.snapshot():
                assert not engine.readers.pause(time.monotonic())
                assert {"id": 1} == games.get(1).run()
            assert engine.readers.pause(time.monotonic())
            engine.readers.resume()


MULTIPROCESSING = """
import multiprocessing, sys
import reactdb

def work(path, number):
    with reactdb.connect(path, durability="soft", busy_timeout=60) as db:
        db.table("games").insert({"id": number})
    return number

if __name__ == "__main__":
    method, path = sys.argv[1:]
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        with games.changes().cursor() as cursor:
            with multiprocessing.get_context(method).Pool(3) as pool:
                done = pool.starmap(work, [(path, number) for number in range(12)])
            told = {cursor.next(timeout=20)["new_val"]["id"] for _ in range(12)}
        assert set(range(12)) == told == {one["id"] for one in games}, told
        try:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                pool.apply(work, (db, 1))
        except reactdb.UsageError as error:
            print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_pool_of_processes_writes_what_this_one_is_told(tmp_path, path, method):
    import multiprocessing

    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    program = tmp_path / "program.py"
    program.write_text(MULTIPROCESSING)
    done = subprocess.run([*PYTHON, program, method, str(path)], capture_output=True, text=True, timeout=120)

    assert 0 == done.returncode, done.stderr[-3000:]
    assert "pass the path, and connect where it arrives" in done.stdout


# ---------------------------------------------------------------------------------------------------------------
# What belongs to a process


@pytest.mark.parametrize("act", [pickle.dumps, copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_handle_that_is_pickled_says_what_to_pass_instead(db, games, act):
    for handle in (db, games, games.get(1), games.filter({"n": 1}), db.at(0)):
        assert "pass the path, and connect where it arrives" in said(lambda handle=handle: act(handle))
    feed = games.changes()
    with feed.cursor() as cursor:
        for handle in (feed, feed.filter(row["new_val"]["n"] > 1), cursor):
            assert "pass the database's path and the feed's token" in said(lambda handle=handle: act(handle))


@pytest.mark.parametrize(
    "error",
    [
        reactdb.HistoryLost(3, 7),
        reactdb.errors.CannotOpen("/a.db", "it is gone"),
        reactdb.InvalidDocument("too deep", ("a", 3)),
        reactdb.TableNotFound("games"),
        reactdb.errors.SchemaMismatch("key 1", "n is text"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize(
    "act", [lambda error: pickle.loads(pickle.dumps(error)), copy.deepcopy], ids=["pickle", "copy"]
)
def test_an_error_says_the_same_in_another_process(error, act):
    """Its class builds the sentence from something else than the sentence."""
    found = act(error)

    assert (type(error), str(error), vars(error)) == (type(found), str(found), vars(found))


# ---------------------------------------------------------------------------------------------------------------
# Opening


TOGETHER = """
import sys, time
import reactdb
from reactdb.store import writer
print("ready", flush=True)
path = sys.stdin.readline().strip()
while path:
    with reactdb.connect(path, durability="soft", busy_timeout=60) as db:
        db.table_create("games", exist_ok=True).insert({"from": sys.argv[1]})
    print("done", flush=True)
    path = sys.stdin.readline().strip()
"""


@pytest.mark.slow
def test_processes_that_make_one_file_at_the_same_time_all_succeed(tmp_path):
    from contextlib import ExitStack

    with ExitStack() as stack:
        processes = [stack.enter_context(running(TOGETHER, n)) for n in range(5)]
        for n in range(25):
            path = tmp_path / f"{n}.db"
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(f"{path}\n")
                process.stdin.flush()
            for process in processes:
                assert process.stdout is not None
                assert "done" == process.stdout.readline().strip()
            with reactdb.connect(path) as db:
                assert 5 == db.table("games").count().run()
                assert list(range(1, 7)) == [entry.seq for entry in db.log()]


# ---------------------------------------------------------------------------------------------------------------
# The write lock


HOLDER = """
import sys, time, reactdb
db = reactdb.connect(sys.argv[1])
with db.transaction():
    db.table("games").insert({"id": "never"})
    print("ready")
    sys.stdin.readline()
"""


@pytest.fixture
def held(path: Path) -> Iterator[tuple[Any, Any]]:
    """A database whose write lock another process holds, and that process."""
    with reactdb.connect(path, busy_timeout=0.3) as db:
        games = db.table_create("games")
        games.insert({"id": "gone"})
        games.get("gone").delete()
        with running(HOLDER, path) as process:
            yield db, process


def took(call: Callable[[], Any]) -> float:
    start = time.monotonic()
    with pytest.raises(reactdb.DatabaseBusy):
        call()
    return time.monotonic() - start


@pytest.mark.slow
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_lock_that_another_process_holds_is_busy_in_time(held, is_stopped):
    db, process = held
    if is_stopped:
        process.send_signal(signal.SIGSTOP)
    games = db.table("games")

    def in_transaction() -> None:
        with db.transaction():
            games.insert({"id": 2})

    for write in (lambda: games.insert({"id": 1}), in_transaction, lambda: db.table_create("more")):
        assert 0.25 <= took(write) < 5
    assert [] == games.run()


def test_the_lock_of_a_process_that_was_killed_is_free(held):
    db, process = held
    games = db.table("games")
    took(lambda: games.insert({"id": 1}))
    process.kill()
    process.wait()

    games.insert({"id": 1})
    assert [{"id": 1}] == games.run()
    assert [2, 3, 4] == [entry.seq for entry in db.log(table="games")]


def test_threads_and_processes_are_waited_for_together_no_longer_than_busy_timeout(held):
    """A thread that waits for another one, which waits for a process, has waited already when its turn comes."""
    db, _ = held
    waits: list[float] = []
    threads = [
        threading.Thread(target=lambda: waits.append(took(lambda: db.table("games").insert([{"a": 1}]))))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert 5 == len(waits)
    assert max(waits) < 0.3 + 1.0


@pytest.mark.slow
def test_each_handle_waits_as_long_as_it_was_told_to(held):
    db, _ = held
    with (
        reactdb.connect(db.path, busy_timeout=0) as hasty,
        reactdb.connect(db.path, busy_timeout=1.2) as patient,
    ):
        assert 1.1 <= took(lambda: patient.table("games").insert({"id": 1})) < 6
        assert took(lambda: hasty.table("games").insert({"id": 1})) < 0.3
        assert 0.25 <= took(lambda: db.table("games").insert({"id": 1})) < 5
        with pytest.raises(reactdb.DatabaseBusy), hasty.transaction():
            pass
        assert took(lambda: hasty.compact(keep=0)) < 0.3
        assert 1.1 <= took(lambda: patient.compact(keep=0, vacuum=True)) < 6


def test_each_handle_waits_for_threads_as_long_as_it_was_told_to(db):
    """Also in memory, and where the first handle would wait for ever."""
    games = db.table_create("games")
    hasty = type(db)(Session(session_of(db).engine, "soft", busy_timeout_s=0.05))
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with db.transaction():
            entered.set()
            leave.wait(PATIENCE_S)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(PATIENCE_S)
    try:
        assert took(lambda: hasty.table("games").insert({"id": 1})) < 3
    finally:
        leave.set()
        thread.join(PATIENCE_S)
    games.insert({"id": 1})


# ---------------------------------------------------------------------------------------------------------------
# Followers


FOLLOWER = """
import sys, reactdb
db = reactdb.connect(sys.argv[1], read_only=True)
with db.changes(include_seq=True, on_overflow="spill", changefeed_queue_size=50).cursor() as cursor:
    print("ready")
    for event in cursor:
        print(event["seq"])
"""


def numbers(process: subprocess.Popen[str], until: int) -> list[int]:
    assert process.stdout is not None
    found: list[int] = []
    while not found or found[-1] < until:
        found.append(int(process.stdout.readline()))
    return found


def test_a_follower_that_was_stopped_catches_up(path):
    """Stopped in the middle, for more changes than its queue holds: every change once, in order."""
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        with running(FOLLOWER, path) as process:
            games.insert({"id": "first"})
            assert [2] == numbers(process, 2)
            process.send_signal(signal.SIGSTOP)
            for n in range(300):
                games.insert({"id": n})
            process.send_signal(signal.SIGCONT)
            start = time.monotonic()

            assert list(range(3, 303)) == numbers(process, 302)
            assert time.monotonic() - start < PATIENCE_S


def test_tail_follow_prints_what_another_process_commits(path):
    import json

    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        process = subprocess.Popen(
            [
                *PYTHON,
                "-u",
                "-m",
                "reactdb.cli",
                "tail",
                str(path),
                "games",
                "--follow",
                "--json",
                "--since",
                "0",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            for n in range(20):
                games.insert({"id": n})
                assert n == json.loads(process.stdout.readline())["new_val"]["id"]
        finally:
            process.kill()
            process.communicate()


WRITER = """
import sys, reactdb
db = reactdb.connect(sys.argv[1], durability=sys.argv[2], busy_timeout=60)
print("ready")
n = 0
while True:
    n += 1
    db.table("games").insert({"id": f"{sys.argv[3]}-{n}", "n": n})
    print(n)
"""


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["hard", "soft"])
def test_after_writers_are_killed_the_feeds_have_everything_and_the_log_shrinks(path, durability):
    """Every write that a killed process has told of is there; what is there is told, once, in order."""
    with reactdb.connect(path, durability=durability, busy_timeout=60) as db:
        games = db.table_create("games")
        acknowledged = {}
        with games.changes(include_seq=True).cursor() as cursor:
            for life in range(6):
                with running(WRITER, path, durability, life) as process:
                    assert process.stdout is not None
                    for _ in range(20):
                        process.stdout.readline()
                    process.kill()
                    # The pipe still has what it told.
                    last = [int(line) for line in process.stdout.read().split("\n")[:-1]]
                    acknowledged[life] = last[-1] if last else 20
            games.insert({"id": "end"})
            told = []
            while not told or told[-1]["new_val"]["id"] != "end":
                told.append(cursor.next(timeout=PATIENCE_S))

        assert list(range(2, db.seq + 1)) == [event["seq"] for event in told]
        found = {document["id"] for document in games}
        assert found == {event["new_val"]["id"] for event in told}
        for life, last in acknowledged.items():
            assert {f"{life}-{n}" for n in range(1, last + 1)} <= found
            assert f"{life}-{last + 2}" not in found
        writer = session_of(db).engine.writer
        assert writer.run_in_turn(writer.checkpoints.run)
        assert os.stat(f"{path}-wal").st_size < 64 * 1024
