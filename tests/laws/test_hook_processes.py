"""No writer of any process goes past a table's write hook: four that write at the same time, one that does not know the hook."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

import reactdb
from reactdb.session import session_of
from reactdb.values import codec, collation
from tests.support.hooks import JOURNAL, JOURNALLED, journal_of, make_journal, revision, whole_log
from tests.support.inspection import problems
from tests.support.processes import ROOT, run_python

WRITER = """
import random, sys
import reactdb
from reactdb import row
import tests.support.hooks

path, number, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random = random.Random(number)
print("ready", flush=True)
sys.stdin.readline()
with reactdb.connect(path, durability="soft", busy_timeout=60, origin=f"writer {number}") as db:
    table = db.table("games")
    for step in range(count):
        key = random.randrange(12)
        way = random.randrange(8)
        if way == 0:
            table.insert([{"id": one, "n": step} for one in {key, key + 1, key + 2}], conflict="update")
        elif way == 1:
            table.get(key).delete()
        elif way == 2:
            table.filter(row["n"] % 2 == 0).update({"n": row["n"] + 1})
        elif way == 3:
            with db.transaction():
                table.get(key).replace({"id": key, "n": step, "by": number})
                table.get(key).update({"n": row["n"] + 1})
                table.get(key + 1).delete()
                table.insert({"id": key + 1, "n": 0})
        elif way == 4:
            table.insert([{"id": f"{number}/{step}/{one}", "n": one} for one in range(20)])
        elif way == 5:
            table.get(key).update(lambda document: {"m": step})
        elif way == 6:
            try:
                with db.transaction():
                    table.delete()
                    raise ZeroDivisionError
            except ZeroDivisionError:
                pass
        else:
            table.insert({"id": key, "n": step}, conflict="replace")
"""

STRANGER = """
import sys
import reactdb
with reactdb.connect(sys.argv[1]) as db:
    table = db.table("games")
    tries = [
        lambda: table.insert({"id": "x"}),
        lambda: table.insert([{"id": "x"}, {"id": "y"}]),
        lambda: table.update({"n": 1}),
        lambda: table.delete(),
    ]
    for attempt in tries:
        try:
            attempt()
        except reactdb.errors.HookNotFound as error:
            assert (error.hook, error.table) == ("tests.journalled", "games")
    print(db.seq, table.count().run(), next(db.log(table="games", since=5)).meta)
    db.table_create("own").insert({"id": 1})
"""


def founded(path: Path) -> None:
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games").insert([{"id": 0, "n": 0}, {"id": 1, "n": 1}])
        make_journal(db)
        session_of(db).set_hook("games", JOURNALLED)


def assert_nobody_went_past(db: Any) -> None:
    """The log replays to the metadata of each version and, in the same commit, to what was written beside. So do the heads."""
    newest: dict[bytes, tuple[bytes | None, bytes | None, int]] = {}
    beside: dict[bytes, tuple[bytes, bool, int]] = {}
    for change in whole_log(db, since=5):
        if change.table == JOURNAL:
            kept = codec.decode(change.new_bytes)
            meta, body, commit = newest[change.key_bytes]
            beside[change.key_bytes] = kept["revision"], kept["is_deleted"], change.commit
            assert (meta, body is None, commit) == beside[change.key_bytes]
            continue
        before = newest.get(change.key_bytes)
        assert change.meta == revision(before and before[0], change.new_bytes), change
        newest[change.key_bytes] = change.meta, change.new_bytes, change.commit
    assert beside == {key: (meta, body is None, commit) for key, (meta, body, commit) in newest.items()}
    for key, (meta, body, _) in newest.items():
        head = session_of(db).newest("games", key)
        assert (meta, body) == (head.meta, head.new_bytes)
    heads = {
        collation.key_bytes(kept["id"]): (kept["revision"], kept["is_deleted"])
        for kept in journal_of(db).run()
    }
    assert heads == {key: found[:2] for key, found in beside.items()}


def begun_writers(path: Path, count: int, seed: int = 0) -> list[subprocess.Popen[str]]:
    """Four that are told to go at the same time, for so many steps each."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(seed + number), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert "ready\n" == writer.stdout.readline()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    return writers


def test_four_processes_that_write_at_the_same_time(path: Path) -> None:
    founded(path)
    ends = []
    for writer in begun_writers(path, 25):
        _, errors = writer.communicate(timeout=300)
        ends.append((writer.returncode, errors))

    assert [(0, "")] * 4 == ends
    with reactdb.connect(path) as db:
        assert {f"writer {number}" for number in range(4)} == {change.origin for change in db.log(since=5)}
        assert_nobody_went_past(db)
        # And with what compaction leaves.
        metas = {change.key_bytes: change.meta for change in db.log(since=5, table="games")}
        db.compact(keep=0)
        for document in db.table("games").run():
            key = session_of(db).newest("games", collation.key_bytes(document["id"]))
            assert metas[key.key_bytes] == key.meta


@pytest.mark.slow
def test_four_processes_that_are_killed(path: Path) -> None:
    founded(path)
    random = Random(1)
    for seed in range(0, 16, 4):
        with reactdb.connect(path) as db:
            begun = db.seq
            writers = begun_writers(path, 1_000_000, seed)
            for number, writer in enumerate(writers, 1):
                # Each at another moment, in which the others write.
                while writer.poll() is None and db.seq < begun + number * random.randrange(50, 300):
                    pass
                writer.kill()
                _, errors = writer.communicate(timeout=60)
                assert (-signal.SIGKILL, "") == (writer.returncode, errors)
            assert_nobody_went_past(db)
        assert [] == problems(path)


def test_a_process_that_does_not_know_the_hook_reads_and_writes_elsewhere(path: Path) -> None:
    founded(path)
    with reactdb.connect(path) as db:
        db.table("games").get(0).update({"n": 5})

    assert "7 2 b'1-2'\n" == run_python(STRANGER, path)

    with reactdb.connect(path) as db:
        assert ["games", "own"] == db.table_list()
        assert [9, None] == [db.seq, list(db.log())[-1].meta]
