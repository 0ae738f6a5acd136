"""python -m tests.laws [--times N] [PYTEST ARGUMENTS ...]

Runs what is tested by example, and what is marked `long`, with N times the examples that each law names (1 unless it is
given). The ordinary run of the tests tries a part of them.
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
    asked, rest = parser.parse_known_args(arguments)
    # Also for the processes that share the work.
    os.environ["REACTDB_EXAMPLES"] = str(asked.times)
    limit_s = max(300, 600 * asked.times)
    return int(pytest.main(["-m", "(hypothesis or long) and not soak", f"--timeout={limit_s:.0f}", *rest]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
