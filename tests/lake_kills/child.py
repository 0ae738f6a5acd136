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

MODES = ("current", "changes", "scd2")
CHUNK_BYTES = 2_000


def main(file: str, folder: str, format_: str, seed: str, rounds: str) -> None:
    run.CHUNK_BYTES = CHUNK_BYTES
    real = run.ExportRun._commit

    def commit(this: Any, *arguments: Any) -> None:
        real(this, *arguments)
        print("commit", this.mode, flush=True)

    run.ExportRun._commit = commit  # type: ignore[method-assign]
    chance = random.Random(int(seed))
    for number in count():
        if int(rounds) and number == int(rounds):
            return
        for mode in chance.sample(MODES, k=3):
            outcome = export(file, "games", mode=mode, **{format_: f"{folder}/{mode}"})
            print("run", mode, outcome.rows, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
