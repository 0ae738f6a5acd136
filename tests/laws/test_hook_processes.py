"""No writer of any process goes past a table's write hook: four that write at the same time, one that does not know the hook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import reactdb
from reactdb.values import codec, collation
from tests.support.hooks import JOURNAL, JOURNALLED, make_journal, revision
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
        except reactdb.HookNotFound as error:
            assert (error.hook, error.table) == ("tests.journalled", "games")
    print(db.seq, table.count().run(), next(db.log(table="games", since=5)).meta)
    db.table_create("own").insert({"id": 1})
"""


def founded(path: Path) -> None:
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games").insert([{"id": 0, "n": 0}, {"id": 1, "n": 1}])
        make_journal(db)
        db.session.set_hook("games", JOURNALLED)


def assert_nobody_went_past(db: Any) -> None:
    """The log replays to the metadata of each version, to that of the heads, and to what was written beside."""
    newest: dict[bytes, bytes | None] = {}
    live: dict[bytes, bytes | None] = {}
    beside: dict[bytes, tuple[bytes | None, int]] = {}
    since = 5
    for change in db.log(since=since):
        if change.table == JOURNAL:
            kept = codec.decode(change.new_bytes)
            assert (newest[change.key_bytes], live[change.key_bytes] is None) == (
                kept["revision"],
                kept["is_deleted"],
            )
            beside[change.key_bytes] = kept["revision"], change.commit
            continue
        assert change.meta == revision(newest.get(change.key_bytes), change.new_bytes), change
        newest[change.key_bytes], live[change.key_bytes] = change.meta, change.new_bytes
    assert newest == {key: revision for key, (revision, _) in beside.items()}
    for key, meta in newest.items():
        head = db.session.newest("games", key)
        assert (meta, live[key]) == (head.meta, head.new_bytes)


def test_four_processes_that_write_at_the_same_time(path: Path) -> None:
    founded(path)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(number), "25"],
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
    ends = []
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
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
            key = db.session.newest("games", collation.key_bytes(document["id"]))
            assert metas[key.key_bytes] == key.meta


def test_a_process_that_does_not_know_the_hook_reads_and_writes_elsewhere(path: Path) -> None:
    founded(path)
    with reactdb.connect(path) as db:
        db.table("games").get(0).update({"n": 5})

    assert "7 2 b'1-2'\n" == run_python(STRANGER, path)

    with reactdb.connect(path) as db:
        assert ["games", JOURNAL, "own"] == db.table_list()
        assert [9, None] == [db.seq, list(db.log())[-1].meta]
