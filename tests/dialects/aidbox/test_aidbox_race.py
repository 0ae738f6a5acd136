"""No change is lost between two polls: what Aidbox's own page warns of cannot happen here.

There, a version is taken before the commit, several transactions commit in another order, and a reader takes the highest version
that it sees for all that there is. The naive sequence below loses a change in this way; reactdb's versions are given in the
transaction that writes, one transaction at a time, and so a reader sees all up to a version or nothing of it.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from typing import Any

import httpx
import pytest

import reactdb
from reactdb.servers.http import serve_in_thread
from tests.support.processes import ROOT


@pytest.fixture
def db(tmp_path: Any) -> Any:
    with reactdb.connect(tmp_path / "a.db") as database:
        database.table_create("Patient")
        yield database


@pytest.fixture
def patients(db: Any) -> Any:
    return reactdb.aidbox(db)["Patient"]


class NaiveSequence:
    """Versions from a counter, rows that are seen when their transaction commits: as the manual describes the race."""

    def __init__(self) -> None:
        self.next, self.visible = 1, []

    def begin(self) -> int:
        self.next += 1
        return self.next - 1

    def commit(self, version: int) -> None:
        self.visible.append(version)

    def changes(self, since: int) -> tuple[int, list[int]]:
        found = sorted(version for version in self.visible if version > since)
        return (found[-1] if found else since), found


class TestTheRace:
    def test_a_naive_sequence_loses_a_change(self):
        sequence = NaiveSequence()
        first, second = sequence.begin(), sequence.begin()
        sequence.commit(second)
        version, seen = sequence.changes(0)
        sequence.commit(first)
        _, later = sequence.changes(version)

        assert [second] == seen
        assert [] == later

    def test_here_the_second_transaction_waits_for_the_first(self, db, patients):
        order: list[str] = []
        is_begun, may_end = threading.Event(), threading.Event()

        def first() -> None:
            with db.transaction():
                db.table("Patient").insert({"id": "first"})
                is_begun.set()
                may_end.wait(60)
            order.append("first")

        def second() -> None:
            is_begun.wait(60)
            db.table("Patient").insert({"id": "second"})
            order.append("second")

        threads = [threading.Thread(target=first), threading.Thread(target=second)]
        for thread in threads:
            thread.start()
        is_begun.wait(60)
        assert patients.changes(1) is None
        may_end.set()
        for thread in threads:
            thread.join(60)

        assert ["first", "second"] == [one["resource"]["id"] for one in patients.changes(1)["changes"]]


class TestWhatHasToHold:
    def test_a_version_is_given_in_the_transaction_that_writes(self, db, patients):
        """Two handles: neither takes a number before it has the write lock."""
        with reactdb.connect(db.path) as other:
            for n in range(20):
                (db, other)[n % 2].table("Patient").insert({"id": f"{n:02}"})

        assert [f"{n:02}" for n in range(20)] == [
            one["resource"]["id"] for one in patients.changes(1)["changes"]
        ]

    def test_a_transaction_that_is_taken_back_leaves_no_trace(self, db, patients):
        woken: list[bool] = []
        box = reactdb.aidbox(db)
        with box.watch("Patient", None, lambda: woken.append(True)) as reader:
            with pytest.raises(ZeroDivisionError), db.transaction():
                db.table("Patient").insert({"id": "a"})
                1 / 0  # noqa: B018
            assert ([], []) == (woken, reader.poll())
        assert patients.changes(1) is None
        patients.create({"id": "b"})
        assert {"version": 2, "changes": [{"event": "created", "resource": {"id": "b"}}]} == patients.changes(
            1
        )

    def test_the_version_and_the_changes_are_of_one_moment(self, db, patients):
        """While another thread writes: what an answer says to go on from is what it has told."""
        ends = threading.Event()

        def write() -> None:
            for n in range(300):
                db.table("Patient").insert({"id": f"{n:03}"})
            ends.set()

        writing = threading.Thread(target=write)
        writing.start()
        while not ends.is_set():
            answer = patients.changes(1)
            if answer is not None:
                assert answer["version"] == 1 + len(answer["changes"])
        writing.join()

    def test_who_watches_and_then_reads_misses_nothing_and_sees_nothing_twice(self, db, patients):
        box = reactdb.aidbox(db)
        patients.create({"id": "before"})
        with box.watch("Patient", None, lambda: None):
            answer = patients.changes(1)
            patients.create({"id": "after"})
        later = patients.changes(answer["version"])

        assert ["before"] == [one["resource"]["id"] for one in answer["changes"]]
        assert ["after"] == [one["resource"]["id"] for one in later["changes"]]

    def test_a_version_is_never_given_twice(self, db, patients):
        """Also where the newest change was removed from the log."""
        patients.create({"id": "a"})
        patients.delete("a")
        before = patients.version()
        db.compact(keep=0)
        patients.create({"id": "a"})

        assert before < patients.version()

    def test_what_another_process_writes_is_told(self, db, patients):
        run_writer(str(db.path), "other", 5)

        assert 5 == len(patients.changes(1)["changes"])

    def test_a_transaction_of_several_is_told_whole(self, db, patients):
        with db.transaction():
            for n in range(5):
                db.table("Patient").insert({"id": str(n)})

        answer = patients.changes(1, count=2)
        assert (5, 6) == (len(answer["changes"]), answer["version"])


WRITER = """
import random, sys, threading, reactdb
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
chance = random.Random(name)
with reactdb.connect(path) as db:
    table = db.table("Patient")
    for n in range(count):
        try:
            with db.transaction():
                table.insert({"id": f"{name}-{n}"})
                threading.Event().wait(chance.random() / 500)
                if chance.random() < 0.3:
                    table.insert({"id": f"{name}-{n}-rolled-back"})
                    raise ZeroDivisionError
        except ZeroDivisionError:
            table.insert({"id": f"{name}-{n}"})
"""


def start_writer(path: str, name: str, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, path, name, str(count)], cwd=ROOT)


def run_writer(path: str, name: str, count: int) -> None:
    assert 0 == start_writer(path, name, count).wait(120)


def read_all(port: int, wanted: int, found: list[Any]) -> None:
    """Poll over HTTP until so many changes were seen."""
    version = 1
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, verify=False) as client:
        while len(found) < wanted:
            answer = client.get("/Patient/$changes", params={"version": version, "wait": 30, "_count": 3})
            if answer.status_code == 200:
                body = answer.json()
                found += [change["resource"]["id"] for change in body["changes"]]
                version = body["version"]


def check_each_once(db: Any, readers: list[list[str]], wanted: int) -> None:
    in_order = [change["resource"]["id"] for change in reactdb.aidbox(db)["Patient"].changes(1)["changes"]]
    assert wanted == len(set(in_order)) == len(in_order)
    assert not [id for id in in_order if "rolled-back" in id]
    for found in readers:
        assert in_order == found


class TestManyWriters:
    def read(self, db: Any, wanted: int, begin: Any) -> None:
        found: list[list[str]] = [[] for _ in range(3)]
        with serve_in_thread(db, dialects=["aidbox"]) as server:
            readers = [threading.Thread(target=read_all, args=(server.port, wanted, one)) for one in found]
            for reader in readers:
                reader.start()
            begin()
            for reader in readers:
                reader.join(120)
        check_each_once(db, found, wanted)

    def test_every_change_of_threads_is_seen_once_in_order_by_every_reader(self, db):
        def write(name: str) -> None:
            chance = random.Random(name)
            for n in range(25):
                try:
                    with db.transaction():
                        db.table("Patient").insert({"id": f"{name}-{n}"})
                        # Before it is committed, others have time to begin.
                        threading.Event().wait(chance.random() / 500)
                        if chance.random() < 0.3:
                            db.table("Patient").insert({"id": f"{name}-{n}-rolled-back"})
                            raise ZeroDivisionError
                except ZeroDivisionError:
                    db.table("Patient").insert({"id": f"{name}-{n}"})

        def begin() -> None:
            writers = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(4)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join(120)

        self.read(db, 100, begin)

    @pytest.mark.slow
    def test_every_change_of_processes_is_seen_once_in_order_by_every_reader(self, db):
        def begin() -> None:
            writers = [start_writer(str(db.path), f"w{n}", 25) for n in range(4)]
            assert [0] * 4 == [writer.wait(120) for writer in writers]

        self.read(db, 100, begin)
