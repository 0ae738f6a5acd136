"""Threads and processes on one database: nothing is lost or doubled, and no writer starves."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.session import session_of
from tests.support.threads import PATIENCE_S, started, wait_until

# Each commit hands the interpreter lock to and fro among all threads: few are enough to meet in every order.
WRITES = 40


def run_all(targets: list[Any]) -> None:
    """Run the callables in a thread each, and raise what any of them raised."""
    errors: list[BaseException] = []

    def guarded(target: Any) -> None:
        try:
            target()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["hard", "soft"])
def test_eight_writers_and_eight_readers_lose_nothing(db, durability):
    """Every write is there once, the log has no hole, and no reader ever sees a commit in part."""
    games = db.table_create("games")
    games.insert([{"id": f"counter-{n}", "n": 0} for n in range(2)])
    done = threading.Event()

    def writer(name: int) -> Any:
        def work() -> None:
            for n in range(WRITES):
                games.insert({"id": f"{name}-{n}"}, durability=durability)
                with db.transaction(durability=durability):
                    games.get("counter-0").update({"n": row["n"] + 1})
                    games.get("counter-1").update({"n": row["n"] + 1})

        return work

    def reader() -> None:
        while not done.is_set():
            first, second = (d["n"] for d in games.get_all("counter-0", "counter-1"))
            assert first == second

    readers = [threading.Thread(target=reader) for _ in range(8)]
    for thread in readers:
        thread.start()
    try:
        run_all([writer(name) for name in range(8)])
    finally:
        done.set()
        for thread in readers:
            thread.join(60)

    assert 8 * WRITES == games.get("counter-0").run()["n"]
    assert 8 * WRITES + 2 == games.count().run()
    assert list(range(1, db.seq + 1)) == [entry.seq for entry in db.log()]


def test_a_failing_write_in_a_shared_commit_fails_alone(tmp_path):
    """Group commit: one thread's DuplicateKey must not take back its companions' writes."""
    with reactdb.connect(tmp_path / "a.db") as db:
        games = db.table_create("games")
        games.insert({"id": "taken"})
        refused = []

        def writer(name: int) -> Any:
            def work() -> None:
                for n in range(40):
                    games.insert({"id": f"{name}-{n}"})
                    try:
                        games.insert([{"id": f"{name}-{n}-x"}, {"id": "taken"}])
                    except reactdb.DuplicateKey:
                        refused.append(name)

            return work

        run_all([writer(name) for name in range(6)])
        assert 240 == len(refused)
        assert 241 == games.count().run()
        assert list(range(1, 243)) == [entry.seq for entry in db.log()]
        assert all(entry.commit == entry.seq for entry in db.log())


def test_waiting_longer_than_busy_timeout_is_busy(tmp_path):
    with reactdb.connect(tmp_path / "a.db", busy_timeout=0.05) as db:
        games = db.table_create("games")
        entered, leave = threading.Event(), threading.Event()

        def holder() -> None:
            with db.transaction():
                entered.set()
                leave.wait(30)

        thread = threading.Thread(target=holder)
        thread.start()
        entered.wait(30)
        try:
            with pytest.raises(reactdb.DatabaseBusy):
                games.insert({"id": 1})
        finally:
            leave.set()
            thread.join(30)
        games.insert({"id": 1})


WRITER = """
import sys, reactdb
from reactdb import row
db = reactdb.connect(sys.argv[1], durability="soft", busy_timeout=60)
games = db.table("games")
name = sys.argv[2]
for n in range({writes}):
    games.insert({{"id": f"{{name}}-{{n}}"}})
    games.get("counter").update({{"n": row["n"] + 1}})
db.close()
"""


def test_two_processes_writing_one_file_lose_nothing(tmp_path):
    path = tmp_path / "a.db"
    with reactdb.connect(path, durability="soft", busy_timeout=60) as db:
        games = db.table_create("games")
        games.insert({"id": "counter", "n": 0})
        script = WRITER.format(writes=WRITES)
        processes = [subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in "xy"]
        for n in range(WRITES):
            games.insert({"id": f"z-{n}"})
            games.get("counter").update({"n": row["n"] + 1})
        assert [0, 0] == [process.wait(120) for process in processes]

        assert 3 * WRITES == games.get("counter").run()["n"]
        assert 3 * WRITES + 1 == games.count().run()
        entries = list(db.log())
        assert list(range(1, 6 * WRITES + 3)) == [entry.seq for entry in entries]
        counts = [entry.new_val["n"] for entry in entries if entry.key == "counter"]
        assert list(range(3 * WRITES + 1)) == counts


def test_another_process_sees_and_makes_tables_and_indexes(tmp_path):
    path = tmp_path / "a.db"
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        games.insert({"id": 1, "a": 1})
        script = (
            "import sys, reactdb\n"
            "with reactdb.connect(sys.argv[1]) as db:\n"
            "    db.table('games').index_create('a')\n"
            "    db.table_create('other').insert({'id': 5})\n"
        )
        subprocess.run([sys.executable, "-c", script, str(path)], check=True)
        games.insert({"id": 2, "a": 0})

        assert [2, 1] == [d["id"] for d in games.order_by(index="a")]
        assert {"id": 5} == db.table("other").get(5).run()
        script = "import sys, reactdb\nwith reactdb.connect(sys.argv[1]) as db: db.table_drop('other')\n"
        subprocess.run([sys.executable, "-c", script, str(path)], check=True)
        with pytest.raises(reactdb.TableNotFound):
            db.table("other").get(5).run()


def test_two_handles_on_one_path_are_one_engine(tmp_path):
    path = tmp_path / "a.db"
    (tmp_path / "link.db").symlink_to(path)
    with reactdb.connect(path) as one, reactdb.connect(tmp_path / "link.db") as other:
        one.table_create("games").insert({"id": 1})
        assert {"id": 1} == other.table("games").get(1).run()
        one.close()
        assert {"id": 1} == other.table("games").get(1).run()
        with pytest.raises(reactdb.errors.DatabaseClosed):
            one.table("games").run()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_fork_the_child_is_told_and_the_parent_goes_on(tmp_path):
    path = tmp_path / "a.db"
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        games.insert({"id": 1})
        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()

        def child() -> None:
            try:
                games.insert({"id": 2})
            except reactdb.errors.ForkedDatabase as error:
                queue.put(str(error))
            with reactdb.connect(path) as own:
                own.table("games").insert({"id": 3})

        process = context.Process(target=child)
        process.start()
        message = queue.get()
        process.join(60)
        games.insert({"id": 4})

        assert "open it again in the child" in message
        assert 0 == process.exitcode
        assert [1, 3, 4] == [document["id"] for document in games.run()]


def test_writes_that_share_a_commit_see_the_tables_of_those_before(path):
    with reactdb.connect(path, durability="hard") as db:
        holds, goes_on = threading.Event(), threading.Event()

        def hold(transaction):
            holds.set()
            assert goes_on.wait(PATIENCE_S)

        def make(name):
            def work(transaction):
                if name not in transaction.catalogue.live:
                    transaction.create_table(name, "id")

            return lambda: session_of(db).transact(work, is_shareable=True)

        first = started(lambda: session_of(db).transact(hold))
        assert holds.wait(PATIENCE_S)
        others = [started(make(name)) for name in ("games", "more", "games", "others", "more")]
        wait_until(lambda: len(session_of(db).engine.write_queue) == 6)
        goes_on.set()
        for thread, _ in (first, *others):
            thread.join(PATIENCE_S)

        assert [[None]] * 6 == [outcome for _, outcome in (first, *others)]
        assert ["games", "more", "others"] == db.table_list()
        for name in db.table_list():
            db.table(name).insert({"id": 1})
    with reactdb.connect(path) as db:
        assert [1, 1, 1] == [db.table(name).count().run() for name in db.table_list()]
