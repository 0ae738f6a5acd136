"""`python -m benchmarks.start_up [OTHER]`: the CPU time of a process until its first live result, here and in another copy.

It measures a new process phase by phase: `import reactdb`, `connect`, the first `changes().subscribe`, and one insert with its
event. With `--mongodb` it is the first call of MongoDB in the process: `import reactdb`, `connect`, `import pymongo`, and the
first `insert_one` and `find_one`. OTHER is a folder with another copy of the package, such as an earlier version; the two run
alternately, so that a busy machine slows down both. The best of all runs counts, because only disturbances make a run slower.

Rule of this file: bytecode is written beforehand and elsewhere, as in an installation. The start of Python is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.harness import ROOT


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a new process does first.

    Attributes:
        phases: The names of its steps.
        steps: A statement or more for each.
    """

    phases: tuple[str, ...]
    steps: tuple[str, ...]

    @property
    def program(self) -> str:
        """It prints the seconds of each step. Its arguments are the folder of the package and the path of the database."""
        note = "times.append(time.process_time())\n"
        return (
            "import sys, time\nsys.path.insert(0, sys.argv[1])\nheard, times = [], []\n"
            f"{note}{''.join(f'{step}{chr(10)}{note}' for step in self.steps)}"
            "print(*(after - before for before, after in zip(times, times[1:], strict=False)))\n"
        )


FEED = Beginning(
    ("import", "connect", "first feed", "told insert"),
    (
        "import reactdb",
        "table = reactdb.connect(sys.argv[2]).table_create('games')",
        "table.changes().subscribe(heard.append)",
        "table.insert({'id': 1}); assert len(heard) == 1, heard",
    ),
)
# PyMongo has a phase of its own because a program that uses it imports it anyway.
MONGODB = Beginning(
    ("import", "connect", "import pymongo", "insert_one", "find_one"),
    (
        "import reactdb",
        "database = reactdb.connect(sys.argv[2])",
        "import pymongo",
        "games = reactdb.mongodb(database)['play']['games']; games.insert_one({'_id': 1})",
        "assert games.find_one({'_id': 1}) == {'_id': 1}",
    ),
)


def measured(
    copies: Sequence[Path], repeat: int, file: str = ":memory:", beginning: Beginning = FEED
) -> list[list[float]]:
    """For each copy of the package: the least milliseconds of processor time of each phase, and of all of them together.

    Raises:
        ChildProcessError: A copy cannot do this. Its text is the last line of the traceback.
    """
    best: list[list[float]] = [[float("inf")] * (len(beginning.phases) + 1) for _ in copies]
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        # The first run of each compiles to bytecode, once in the life of an installation.
        for number in range(repeat + 1):
            for place, copy in enumerate(copies):
                path = file if file == ":memory:" else str(Path(folder) / f"{file}-{number}-{place}")
                ended = subprocess.run(
                    [sys.executable, "-c", beginning.program, str(copy), path],
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                )
                if ended.returncode:
                    raise ChildProcessError(f"{copy}: {ended.stderr.strip().splitlines()[-1]}")
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
    parser.add_argument(
        "--mongodb", action="store_true", help="until the first calls of MongoDB in the process"
    )
    given = parser.parse_args(arguments)
    copies = [ROOT] if given.other is None else [given.other.resolve(), ROOT]
    beginning = MONGODB if given.mongodb else FEED
    try:
        found = measured(copies, given.repeat, "database" if given.file else ":memory:", beginning)
    except ChildProcessError as reason:
        parser.error(str(reason))
    print("ms of processor time" + "".join(f"{name:>15}" for name in (*beginning.phases, "together")))
    for copy, times in zip(("other", "here")[-len(copies) :], found, strict=True):
        print(f"{copy:<20}" + "".join(f"{milliseconds:15.1f}" for milliseconds in times))
    if len(found) == 2:
        print(f"{'here / other':<20}" + "".join(f"{a / b:15.2f}" for b, a in zip(*found, strict=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
