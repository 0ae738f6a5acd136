"""python -m tests.isolation: rounds of concurrent transactions on one file, in three processes with a MongoDB server each, and a
look for anomalies in what they have seen. A line a round. Exit code 1 where a promise was broken; the file and the history are
then kept."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.isolation.checker import Anomaly, find_anomalies
from tests.isolation.history import ABORTED, COMMITTED, DOUBT, SERIALIZABLE, Transaction
from tests.isolation.workload import run_round

PROCESSES = 3
# So many of them are killed in a round, and replaced.
KILLS = 2
# Transactions of each lane in a round.
COUNT = 100


def write_skews(history: list[Transaction]) -> list[Anomaly]:
    """What would be wrong if all transactions were serializable: of MongoDB's, write skew is allowed."""
    return find_anomalies([dataclasses.replace(one, promise=SERIALIZABLE) for one in history])


def main() -> int:
    logging.getLogger("reactdb").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(prog="python -m tests.isolation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first round (default: 1); each has the next"
    )
    parser.add_argument("--rounds", type=int, default=1_000_000, metavar="N", help="end after so many")
    parser.add_argument("--threads", action="store_true", help="one process with threads alone, and no kills")
    options = parser.parse_args()

    # In memory where that can be had: what is tested is what is seen.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="reactdb-isolation-", dir=memory))
    states: Counter[str] = Counter()
    number, skewed, end = 0, 0, time.monotonic() + options.minutes * 60
    while number < options.rounds and (not number or time.monotonic() < end):
        seed = options.seed + number
        number += 1
        path = folder / f"{seed}.db"
        history = run_round(path, seed, COUNT, *((0, 0) if options.threads else (PROCESSES, KILLS)))
        now = Counter(one.state for one in history)
        states += now
        anomalies = find_anomalies(history)
        skews = write_skews(history)
        skewed += bool(skews)
        print(f"{'BROKEN' if anomalies else 'ok':7}seed {seed}: {in_words(now)}", flush=True)
        if anomalies:
            for anomaly in anomalies[:20]:
                print(f"  {anomaly.name}: {anomaly.sentence}")
            kept = path.with_suffix(".history")
            kept.write_text(
                "\n".join(map(repr, sorted(history, key=lambda one: one.began))), encoding="utf-8"
            )
            print(f"the file and its history are kept in {folder}")
            return 1
        for file in folder.iterdir():
            file.unlink()
    shutil.rmtree(folder)
    print(
        f"{number} rounds: {in_words(states)}; write skew of MongoDB's transactions, which is allowed, in {skewed}"
    )
    return 0


def in_words(states: Counter[str]) -> str:
    return f"{states[COMMITTED]:,} committed, {states[ABORTED]:,} aborted, {states[DOUBT]:,} in doubt"


if __name__ == "__main__":
    sys.exit(main())
