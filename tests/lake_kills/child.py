"""The process that is killed: it exports a file in all three modes, again and again.

    python -m tests.lake_kills.child FILE FOLDER FORMAT SEED ROUNDS

It prints a line for each commit of a table, and one at the end of each run. The chunks are small, so a run has many commits.
"""

from __future__ import annotations

import random
import sys
from itertools import count
from typing import Any

from reactdb.lake import export, run
from tests.lake.small_chunks import small_chunks

MODES = ("current", "changes", "scd2")
# The bytes of a chunk and the rows of a page. For Iceberg they are larger, because its commits get slower with the number of
# snapshots of the table: pyiceberg copies the list of all snapshots many times for each commit.
CHUNKS = {"parquet": (2_000, 20), "delta": (2_000, 20), "iceberg": (6_000, 40)}


def main(file: str, folder: str, format_: str, seed: str, rounds: str) -> None:
    real = run.ExportRun._commit

    def commit(this: Any, *arguments: Any) -> None:
        real(this, *arguments)
        print("commit", this.mode, flush=True)

    run.ExportRun._commit = commit  # type: ignore[method-assign]
    chance = random.Random(int(seed))
    with small_chunks(*CHUNKS[format_]):
        for number in count():
            if int(rounds) and number == int(rounds):
                return
            for mode in chance.sample(MODES, k=3):
                outcome = export(file, "games", mode=mode, **{format_: f"{folder}/{mode}"})
                print("run", mode, outcome.rows, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
