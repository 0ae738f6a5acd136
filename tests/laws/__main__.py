"""python -m tests.laws [--times N] [--long] [PYTEST ARGUMENTS ...]

Runs what is tested by example, with N times the examples that each law names (1 unless it is given), and with `--long` what
is marked so, too. The ordinary run of the tests tries a part of them.
"""

from __future__ import annotations

import argparse
import os
import sys

import pytest


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.laws", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument(
        "--times", type=float, default=1.0, help="how many times the examples that each law names"
    )
    parser.add_argument("--long", action="store_true", help="also those that are marked `long`: an hour")
    asked, rest = parser.parse_known_args(arguments)
    # Also for the processes that share the work.
    os.environ["REACTDB_EXAMPLES"] = str(asked.times)
    chosen = (
        "(hypothesis or examples or long) and not soak"
        if asked.long
        else "(hypothesis or examples) and not long and not soak"
    )
    limit_s = max(300, 600 * asked.times)
    return int(pytest.main(["-m", chosen, f"--timeout={limit_s:.0f}", *rest]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
