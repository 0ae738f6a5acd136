"""Eight writers in four processes write documents that expire at once and documents that stay. One process is killed in the
middle. Each expired document is deleted once, whichever process deletes it, and nothing else is lost."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import reactdb
from tests.support.inspection import problems
from tests.support.threads import wait_until

DOCUMENTS = 60

WRITER = """
import sys, threading
from datetime import UTC, datetime, timedelta
import reactdb
from reactdb.store import expirer

# The processes shall meet: each looks all the time.
expirer.LOOK_S = 0.001
path, number, documents = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
db = reactdb.connect(path, durability="soft", busy_timeout=60)
sessions = db.table("sessions")
past, future = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(hours=1)
printing = threading.Lock()

def write(thread):
    for count in range(documents):
        id = f"{number}-{thread}-{count}"
        if count % 2:
            sessions.insert({"id": id, "at": past})
        else:
            sessions.insert({"id": id, "at": future})
        with printing:
            print(id, flush=True)

threads = [threading.Thread(target=write, args=(thread,)) for thread in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
db.close()
"""


def test_each_expired_document_is_deleted_once_and_no_other(path: Path):
    with reactdb.connect(path, durability="soft", busy_timeout=60, retention=None) as db:
        sessions = db.table_create("sessions", expire_after=timedelta(0), field="at")
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", WRITER, str(path)]
        processes = [
            subprocess.Popen([*command, str(number), str(DOCUMENTS)], stdout=subprocess.PIPE, text=True)
            for number in range(4)
        ]
        acknowledged: set[str] = set()
        try:
            # The first is killed after some of its documents.
            assert processes[0].stdout is not None
            acknowledged.update(processes[0].stdout.readline().strip() for _ in range(DOCUMENTS // 2))
            processes[0].kill()
            for process in processes:
                assert process.stdout is not None
                acknowledged.update(line.strip() for line in process.stdout if line.endswith("\n"))
                process.stdout.close()
                process.wait()
        finally:
            for process in processes:
                process.kill()
        assert [-9, 0, 0, 0] == [process.returncode for process in processes]

        def expires(id: str) -> bool:
            return bool(int(id.rpartition("-")[2]) % 2)

        wait_until(lambda: not any(expires(document["id"]) for document in sessions), timeout_s=60)
        stored = {document["id"] for document in sessions}
        # What the killed process had written and not printed is there, too.
        assert {id for id in acknowledged if not expires(id)} <= stored
        deleted = Counter(change.key for change in db.log(table="sessions") if change.kind == "delete")
        assert {id for id in acknowledged if expires(id)} <= deleted.keys()
        assert {1} == set(deleted.values())
        assert all(expires(id) for id in deleted)
        assert {"expiry"} == {change.origin for change in db.log() if change.kind == "delete"}
    assert [] == problems(path)
