"""`python -m tests.spark_kills --kills 10 [--seed N] [--folder DIR]`: prints what was seen, and fails where a sink differs."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.spark_kills.kills import Outcome, run


def problems(outcome: Outcome) -> list[str]:
    """What is wrong with it."""
    hashes = outcome.hashes
    found = [
        f"{name} has {hashes[name]}, the source {hashes['source']}"
        for name in ("parquet", "log")
        if hashes[name] != hashes["source"]
    ]
    if hashes["replica"] != hashes["source, documents"]:
        found.append(f"the replica has {hashes['replica']}, the source {hashes['source, documents']}")
    if outcome.stage:
        found.append(f"staged files were left: {outcome.stage}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="of each of the two processes")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--changes", type=int, default=25, help="a batch at most")
    parser.add_argument("--folder", type=Path, help="is kept; one that was interrupted is gone on with")
    given = parser.parse_args()
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        outcome = run(
            folder,
            2 * given.kills,
            seed=given.seed,
            changes=given.changes,
            say=lambda text: print(text, flush=True),
        )
    print(f"{time.monotonic() - began:.0f} s; {outcome}")
    found = problems(outcome)
    print("\n".join(found) or "each change exactly once")
    return bool(found)


if __name__ == "__main__":
    raise SystemExit(main())
