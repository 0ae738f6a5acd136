"""`python -m benchmarks.large_values`: blobs against plain files: what it costs to write and to read a large value as a stream.

    plain           a file, written in parts of 256 KiB and flushed, then read in such parts
    plain+digest    the same with a SHA-256 over all, as whoever stores files by digest computes one
    blobs           `db.blobs.put` of a binary file, with the last commit hard; then `db.blobs.open`

Each runs in a process of its own, by turns, as often as --repeat says; a ratio is formed within a turn, and the median is
printed. Memory is what the process's greatest size grew by, from after the imports to the end.

Rule of this file: everybody reads the same source and flushes once.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import reactdb
from benchmarks.harness import ROOT

PEERS = ("plain", "plain+digest", "blobs")
PART_BYTES = 256 * 1024
# Of a run, in the order in which it prints them.
FIGURES = ("write CPU", "write wall", "read CPU", "read wall", "memory")


def run_plain(source: Path, folder: Path, with_digest: bool) -> list[float]:
    target, digest = folder / "plain", sha256()
    began = moment()
    with open(source, "rb") as given, open(target, "wb") as taken:
        while part := given.read(PART_BYTES):
            if with_digest:
                digest.update(part)
            taken.write(part)
        taken.flush()
        os.fsync(taken.fileno())
    written = moment()
    with open(target, "rb") as stored:
        while stored.read(PART_BYTES):
            pass
    return figures(began, written, moment())


def run_blobs(source: Path, folder: Path) -> list[float]:
    with reactdb.connect(folder / "blobs.db") as db:
        db.blobs.put(b"what is imported and opened only once")
        began = moment()
        with open(source, "rb") as given:
            blob = db.blobs.put(given)
        written = moment()
        with db.blobs.open(blob) as stored:
            while stored.read(PART_BYTES):
                pass
        return figures(began, written, moment())


Moment = tuple[float, float, int]


def moment() -> Moment:
    """CPU and wall seconds, and the greatest size of the process so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return (
        time.process_time(),
        time.perf_counter(),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
    )


def figures(began: Moment, written: Moment, read: Moment) -> list[float]:
    """As FIGURES has them."""
    return [
        written[0] - began[0],
        written[1] - began[1],
        read[0] - written[0],
        read[1] - written[1],
        read[2] - began[2],
    ]


def run_one(peer: str, source: Path, folder: Path) -> list[float]:
    return run_blobs(source, folder) if peer == "blobs" else run_plain(source, folder, peer == "plain+digest")


def measured(size: int, repeat: int) -> dict[str, list[list[float]]]:
    """Of each peer, the figures of each run."""
    found: dict[str, list[list[float]]] = {peer: [] for peer in PEERS}
    with TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        with open(source, "wb") as out:
            for _ in range(0, size, PART_BYTES):
                out.write(os.urandom(PART_BYTES))
        for turn in range(repeat):
            for peer in (*PEERS[turn % 3 :], *PEERS[: turn % 3]):
                with TemporaryDirectory(dir=folder) as place:
                    done = subprocess.run(
                        [sys.executable, "-m", "benchmarks.large_values", "--one", peer, str(source), place],
                        cwd=ROOT,
                        capture_output=True,
                        text=True,
                        check=True,
                    )
                    found[peer].append([float(figure) for figure in done.stdout.split()])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(
        prog="python -m benchmarks.large_values",
        description=__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--size", type=int, default=100, help="megabytes (default: 100)")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each (default: 5)")
    parser.add_argument(
        "--one", nargs=3, metavar=("PEER", "SOURCE", "FOLDER"), help="one run, in this process"
    )
    options = parser.parse_args(arguments)
    if options.one:
        print(*run_one(options.one[0], Path(options.one[1]), Path(options.one[2])))
        return 0
    found = measured(options.size * 1_000_000, options.repeat)
    print(f"{'':14}" + "".join(f"{name:>14}" for name in FIGURES) + "   (seconds, MB)")
    for peer in PEERS:
        best = [median(run[place] for run in found[peer]) for place in range(len(FIGURES))]
        print(f"{peer:14}" + "".join(f"{one:14.3f}" for one in best[:4]) + f"{best[4] / 1e6:14.1f}")
    for other in PEERS[:2]:
        ratios = [
            median(
                blobs[place] / plain[place] for blobs, plain in zip(found["blobs"], found[other], strict=True)
            )
            for place in range(4)
        ]
        print(f"{'blobs / ' + other:>20}" + "".join(f"{ratio:11.2f}   " for ratio in ratios))
    return 0


if __name__ == "__main__":
    sys.exit(main())
