"""`python -m tests.soak`: see the package."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time

from .scenarios import SCENARIOS, Options


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("--followers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenario", action="append", choices=SCENARIOS)
    parser.add_argument(
        "--other-python", help="a Python whose SQLite has another version, for mixed-versions"
    )
    given = parser.parse_args()
    chosen = given.scenario or list(SCENARIOS)
    other = given.other_python
    if other is None and "mixed-versions" in chosen and importlib.util.find_spec("pysqlite3"):
        other = sys.executable
    seconds = given.minutes * 60 / len(chosen)
    failed = skipped = 0
    for name in chosen:
        start = time.monotonic()
        result = SCENARIOS[name](
            Options(seconds, given.writers, given.followers, given.seed, other, is_long=seconds >= 60)
        )
        word = "skipped" if result.is_skipped else "FAILED" if result.problems else "ok"
        print(f"{word:<8} {name:<15} {time.monotonic() - start:5.0f} s  {result.line}", flush=True)
        for problem in result.problems:
            print(f"         {problem}", flush=True)
        failed += bool(result.problems)
        skipped += result.is_skipped
    print(f"{len(chosen)} scenarios, {failed} failed, {skipped} skipped, seed {given.seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
