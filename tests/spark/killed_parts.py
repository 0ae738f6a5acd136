"""Runs of a pipeline's last part, each killed before its n-th step: `python -m tests.spark.killed_parts append FOLDER`. No Spark.

A run appends the next numbers after the position, as rows of one Parquet file. Every call that changes a file or a folder
is a step. For each number that is read, the program forks a run that is killed before that step, and prints its exit status: 0 if
it got to its end, -9 if it was killed. The runs share only the imports, which take longest.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from reactdb.lake import parts
from reactdb.lake.parts import GENERATION, DatabasePosition, Manifest, PartFolder

DATABASE = "d0"
EACH = 10
STEPS = ("rename", "replace", "mkdir", "rmdir", "symlink", "fsync", "unlink", "makedirs", "open")


def append(path: str) -> None:
    """A part with the next EACH numbers."""
    folder = PartFolder(path, "numbers")
    with folder.lock():
        before = folder.newest()
        position = 0 if before is None else before.positions[DATABASE].seq
        with folder.stage() as staged:
            os.mkdir(staged)
            table = pa.table({"seq": list(range(position + 1, position + EACH + 1))})
            pq.write_table(table, os.path.join(staged, "part-0.parquet"))
            positions = {DATABASE: DatabasePosition("/d.db", "e", position + EACH, {})}
            number = 1 if before is None else before.number + 1
            folder.commit(staged, Manifest("numbers", number, EACH, {}, {}, [], positions))


def replace(path: str) -> None:
    """The state of the part before, and the next EACH numbers."""
    folder = PartFolder(path, "state", GENERATION)
    with folder.lock():
        before = folder.newest()
        position = 0 if before is None else before.positions[DATABASE].seq
        with folder.stage() as staged:
            os.mkdir(staged)
            table = pa.table({"seq": list(range(1, position + EACH + 1))})
            pq.write_table(table, os.path.join(staged, "part-0.parquet"))
            positions = {DATABASE: DatabasePosition("/d.db", "e", position + EACH, {})}
            number = 1 if before is None else before.number + 1
            folder.commit(staged, Manifest("state", number, position + EACH, {}, {}, [], positions))
        folder.point_to_newest()


def killed_at(number: int) -> None:
    """Let this process die before its n-th step."""
    steps = [0]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            steps[0] += 1
            if steps[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return step

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    shutil.rmtree = counted(shutil.rmtree)  # type: ignore[assignment]
    parts.json.dump = counted(parts.json.dump)
    pq.write_table = counted(pq.write_table)


def main(mode: str, folder: str) -> None:
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            killed_at(int(line))
            {"append": append, "replace": replace}[mode](folder)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
