"""`python -m benchmarks.start_up [OTHER]`: the CPU time of a process until its first live result, here and in another copy.

It measures a new process phase by phase: `import reactdb`, `connect`, the first `changes().subscribe`, and one insert with its
event. OTHER is a folder with another copy of the package, such as an earlier version; the two run alternately, so that a busy
machine slows down both. The best of all runs counts, because only disturbances make a run slower.

Rule of this file: bytecode is written beforehand and elsewhere, as in an installation. The start of Python is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.harness import ROOT

PHASES = ("import", "connect", "first feed", "told insert")
PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
table_name, heard, times = "games", [], [time.process_time()]
import reactdb
times.append(time.process_time())
database = reactdb.connect(sys.argv[2])
table = database.table_create(table_name)
times.append(time.process_time())
table.changes().subscribe(heard.append)
times.append(time.process_time())
table.insert({"id": 1})
times.append(time.process_time())
assert len(heard) == 1, heard
print(*(after - before for before, after in zip(times, times[1:], strict=False)))
"""


def measured(copies: Sequence[Path], repeat: int, file: str = ":memory:") -> list[list[float]]:
    """For each copy of the package: the least milliseconds of processor time of each of PHASES, and of all of them together."""
    best: list[list[float]] = [[float("inf")] * (len(PHASES) + 1) for _ in copies]
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        # The first run of each compiles to bytecode, once in the life of an installation.
        for number in range(repeat + 1):
            for place, copy in enumerate(copies):
                path = file if file == ":memory:" else str(Path(folder) / f"{file}-{number}-{place}")
                ended = subprocess.run(
                    [sys.executable, "-c", PROGRAM, str(copy), path],
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=True,
                )
                phases = [float(seconds) * 1000 for seconds in ended.stdout.split()]
                if number:
                    best[place] = list(map(min, best[place], [*phases, sum(phases)]))
    return best


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(
        prog="python -m benchmarks.start_up",
        description=__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "other", nargs="?", type=Path, metavar="OTHER", help="a folder that `reactdb` lies in"
    )
    parser.add_argument("--repeat", type=int, default=20, metavar="N", help="default: 20")
    parser.add_argument("--file", action="store_true", help="a new file each time, instead of memory")
    given = parser.parse_args(arguments)
    copies = [ROOT] if given.other is None else [given.other.resolve(), ROOT]
    found = measured(copies, given.repeat, "database" if given.file else ":memory:")
    print("ms of processor time" + "".join(f"{name:>14}" for name in (*PHASES, "together")))
    for copy, times in zip(("other", "here")[-len(copies) :], found, strict=True):
        print(f"{copy:<20}" + "".join(f"{milliseconds:14.1f}" for milliseconds in times))
    if len(found) == 2:
        print(f"{'here / other':<20}" + "".join(f"{a / b:14.2f}" for b, a in zip(*found, strict=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
