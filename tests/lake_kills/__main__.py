"""`python -m tests.lake_kills --kills 20 [--target parquet|delta|iceberg] [--seed N]`: see `kills`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.lake_kills import kills


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lake_kills", description=kills.__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--target", choices=["parquet", "delta", "iceberg"], default="parquet")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lake-kills-") as folder:
        seen = kills.run(Path(folder), given.kills, format_=given.target, seed=given.seed, say=print)
    print(
        f"{given.target}: {seen.changes:,} changes, {len(seen.moments)} kills, "
        f"{sum(commits for commits, _ in seen.moments)} commits before them: everything is there once"
    )


if __name__ == "__main__":
    main()
