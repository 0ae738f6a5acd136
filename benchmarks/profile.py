"""`python -m benchmarks.profile`: the shares of a workload's CPU that SQLite, the system, msgpack, our Python, and Rx take.

python -m benchmarks.profile --workload W3-each W10-get     shares, one line each
python -m benchmarks.profile --workload W3-each --functions 20      and the Python functions that cost most
python -m benchmarks.profile --workload W1 --peer raw+log           the same of somebody else

Only the timed part of a workload is sampled; `sampling` explains how, and how far to trust it. Every sample has two owners: the
library whose machine code was running, and the Python function that was being executed or had called it. The shares are those of
libraries, and the interpreter's share is divided by the package of the function:

    SQLite      libsqlite3, and Python's binding to it
    system      the kernel: nearly all of it SQLite's locks, reads, writes and flushes
    msgpack     packing and unpacking
    reactdb     the interpreter, in functions of the package
    Rx          the interpreter, in functions of reactivex
    other       the interpreter elsewhere: the workload's own loop and listeners, the standard library, and threads
    C library   memory and strings, for all of the others

Rule of this file: it knows workloads and owners; `sampling` counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from benchmarks import feed_workloads, machine, peers, workloads
from benchmarks.harness import ROOT, Bench, Stopwatch, Workload
from benchmarks.report import aligned
from benchmarks.sampling import SYSTEM, CannotSample, Sampled, Sampler

OWNERS = ("SQLite", "system", "msgpack", "reactdb", "Rx", "other", "C library")
LEAST_SAMPLES = 3_000
"""A second and a half: fewer, and the workload is run again."""

MOST_RUNS = 20


def library(name: str) -> str:
    """SQLite, system, msgpack, C library, or Python, for the file of some machine code."""
    if name == SYSTEM or name in ("[vdso]", "[vsyscall]"):
        return "system"
    if "sqlite" in name or name.startswith("apsw"):
        return "SQLite"
    if "msgpack" in name:
        return "msgpack"
    if name.startswith(("libc.", "libc-", "ld-", "libm.", "libm-", "libpthread")):
        return "C library"
    return "Python"


def house(code: CodeType | None) -> str:
    """reactdb, Rx or other: whose function it is."""
    if code is None:
        return "other"
    if code.co_filename.startswith(f"{ROOT}/reactdb/"):
        return "reactdb"
    return "Rx" if "/reactivex/" in code.co_filename else "other"


def owner(name: str, code: CodeType | None) -> str:
    found = library(name)
    return house(code) if found == "Python" else found


@dataclass(frozen=True, slots=True)
class Profile:
    """Where one workload's CPU went.

    Attributes:
        cpu_us: Of one operation, as the workload gave it while it was sampled; None where it gives none.
        sampled: The samples of all runs.
    """

    workload: Workload
    cpu_us: float | None
    sampled: Sampled

    @property
    def samples(self) -> int:
        return self.sampled.counts.total()

    def shares(self) -> dict[str, float]:
        """Owner to its share of all."""
        found: Counter[str] = Counter()
        for (name, code), count in self.sampled.counts.items():
            found[owner(name, code)] += count
        return {name: found[name] / max(1, self.samples) for name in OWNERS}

    def by_place(self, place_of: Any) -> list[tuple[str, float, Mapping[str, float]]]:
        """(place, its share, and by library) for what `place_of` says of a function; the dearest first."""
        totals: Counter[str] = Counter()
        parts: dict[str, Counter[str]] = {}
        for (name, code), count in self.sampled.counts.items():
            place = place_of(code)
            totals[place] += count
            parts.setdefault(place, Counter())[library(name)] += count
        everything = max(1, self.samples)
        return [
            (place, count / everything, {name: part / everything for name, part in parts[place].items()})
            for place, count in totals.most_common()
        ]


def function(code: CodeType | None) -> str:
    """The name of a function as a reader finds it."""
    if code is None:
        return "(other threads)"
    return f"{short(code.co_filename)}:{code.co_firstlineno} {code.co_qualname}"


def module(code: CodeType | None) -> str:
    return "(other threads)" if code is None else short(code.co_filename)


def short(file: str) -> str:
    """A file's name from its package on."""
    for mark in ("/site-packages/", f"{ROOT}/"):
        if mark in file:
            return file.partition(mark)[2]
    return "/".join(file.split("/")[-2:])


def profile(workload: Workload, peer: peers.Peer, scale: float) -> Profile:
    """Run it until there are samples enough."""
    sampler = Sampler(lambda code: code.co_name == "watch_signals")
    figures: list[float] = []
    try:
        with tempfile.TemporaryDirectory(prefix="reactdb-benchmarks-") as folder:
            bench = Bench(peer, scale, Path(folder))
            # Once without a look: what the first run imports and compiles is not the workload's.
            workload.run(bench)
            Stopwatch.on_start, Stopwatch.on_stop = sampler.start, sampler.stop
            for _ in range(MOST_RUNS):
                found = workload.run(bench)
                if "cpu" in found:
                    figures.append(found["cpu"])
                if sampler.counts.total() >= LEAST_SAMPLES:
                    break
                if not sampler.counts:
                    # It times nothing by a stopwatch: memory, latency, other processes.
                    break
    finally:
        Stopwatch.on_start = Stopwatch.on_stop = None
        sampled = sampler.close()
    return Profile(workload, sum(figures) / len(figures) if figures else None, sampled)


def text(found: Profile, functions: int) -> str:
    cpu = "" if found.cpu_us is None else f", {found.cpu_us:,.1f} µs CPU"
    lines = [f"{found.workload.name}  {found.workload.title} ({found.samples:,} samples{cpu})"]
    lines.append("    " + "  ".join(f"{name} {share:.0%}" for name, share in found.shares().items()))
    for place_of, most in ((module, 12), (function, functions)):
        if not functions:
            continue
        rows = [["", "share", "Python", "SQLite", "system", "msgpack", "C library"]]
        for place, share, parts in found.by_place(place_of)[:most]:
            cells = [f"{parts.get(name, 0.0):.1%}" for name in rows[0][2:]]
            rows.append([place, f"{share:.1%}", *cells])
        lines += ["", *(f"    {row}" for row in aligned(rows))]
    return "\n".join(lines)


def markdown(found: Sequence[Profile]) -> str:
    lines = [f"| workload | {' | '.join(OWNERS)} |", f"| --- |{' ---: |' * len(OWNERS)}"]
    for one in found:
        cells = [f"{share:.0%}" for share in one.shares().values()]
        lines.append(f"| {one.workload.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def data(found: Sequence[Profile]) -> dict[str, Any]:
    return {
        "machine": machine.describe(),
        "profiles": [
            {
                "workload": one.workload.name,
                "samples": one.samples,
                "cpu": one.cpu_us,
                "with_system": one.sampled.with_system,
                "shares": one.shares(),
                "functions": [
                    {"function": place, "share": share, "libraries": dict(parts)}
                    for place, share, parts in one.by_place(function)[:40]
                ],
            }
            for one in found
        ],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.profile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workload", nargs="+", default=[], metavar="NAME", help="default: all")
    parser.add_argument("--peer", default="reactdb", metavar="NAME", help="whose; default: %(default)s")
    parser.add_argument(
        "--functions", type=int, default=0, metavar="N", help="name the N dearest Python functions too"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as the README has it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything here")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size")
    given = parser.parse_args(arguments)

    feed_workloads.register()
    by_name = {peer.name: peer for peer in peers.load()[0]}
    if given.peer not in by_name:
        parser.error(f"there is no peer {given.peer!r}, or it is not installed")
    try:
        chosen = workloads.chosen(given.workload)
    except KeyError as error:
        parser.error(f"there is no workload {error}; python -m benchmarks --list names them")
    found = []
    for workload in chosen:
        try:
            one = profile(workload, by_name[given.peer], 0.01 if given.quick else 1.0)
        except peers.NotOffered:
            continue
        except CannotSample as error:
            print(f"no samples: {error}", file=sys.stderr)
            return 1
        if one.samples:
            found.append(one)
            if given.json is not None:
                given.json.write_text(json.dumps(data(found), indent=1) + "\n")
            if not given.markdown:
                print(text(one, given.functions), end="\n\n", flush=True)
    if found and not found[0].sampled.with_system:
        print("without the kernel: the system lets only root see that")
    if given.markdown:
        print(markdown(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
