"""Eight writers in four processes write the same values under a unique index: each value has exactly one winner."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import reactdb
from tests.support.inspection import problems

VALUES = 60

WRITER = """
import json, random, sys, threading
import reactdb
from reactdb.errors import DuplicateIndexKey

path, number, values = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
db = reactdb.connect(path, durability="soft", busy_timeout=60)
users = db.table("users")
won, failed = [], []

def write(thread):
    order = random.Random(thread).sample(range(values), values)
    for value in order:
        id = f"{number}-{thread}-{value}"
        try:
            if value % 3:
                users.insert({"id": id, "email": value})
            else:
                with db.transaction() as transaction:
                    users.insert({"id": id, "email": value})
        except DuplicateIndexKey as error:
            failed.append([error.value, error.other])
        else:
            won.append([value, id])

print("ready", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=write, args=(thread,)) for thread in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
db.close()
print(json.dumps([won, failed]))
"""


def test_each_value_has_exactly_one_winner(path: Path):
    with reactdb.connect(path) as db:
        db.table_create("users").index_create("email", unique=True)
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore::DeprecationWarning",
                "-c",
                WRITER,
                str(path),
                str(number),
                str(VALUES),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert "ready" == process.stdout.readline().strip()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        said = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()

    winners = dict(pair for won, _ in said for pair in won)
    assert [*range(VALUES)] == sorted(value for won, _ in said for value, _ in won)
    assert 7 * VALUES == sum(len(failed) for _, failed in said)
    # Each loser has been told who the winner is.
    assert all(winners[value] == other for _, failed in said for value, other in failed)
    with reactdb.connect(path) as db:
        assert winners == {one["email"]: one["id"] for one in db.table("users")}
    assert [] == problems(path)
