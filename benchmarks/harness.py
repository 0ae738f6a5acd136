"""Harness: runs workloads with all their peers several times, and summarises the figures.

The peers take turns within every repeat, and each repeat begins with another one, so that a machine that is slower for a
while is slower for all of them. A ratio is formed within a repeat, between neighbours in time, and the median is taken
after that. CPU is user and system time of the whole process, with its threads; wall is elapsed time.

Rule of this file: it knows neither databases nor workloads nor what a good figure is.
"""

from __future__ import annotations

import gc
import hashlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import ClassVar, Final

from benchmarks.documents import Document
from benchmarks.peers import PLAIN, Durability, Layout, NotOffered, Peer, Store

BASE: Final = "raw"
"""The peer that ratios are to."""

LOGGED: Final = "raw+log"
"""The same with a log in the same transaction: what ratios are to where a log is part of the work."""

PLAIN_LOG: Final = "raw+log-plain"
"""The same without the tricks of who has measured."""

BASES: Final = (BASE, LOGGED, PLAIN_LOG)
OURS: Final = "reactdb"
BESIDE: Final = f"{OURS} in "
"""What the name of another copy of the package begins with; its folder follows. Ratios are to it as well."""

ROOT: Final = Path(__file__).resolve().parent.parent

Figures = dict[str, float]
"""What one run of a workload gives, in the workload's unit: "cpu" and "wall" per operation, or "size". With feeds also "added",
the CPU that a feed adds to an operation; and in microseconds "p50" and "p99" of wall, "subscribe", the CPU of opening one
feed, "first", wall until its first document, and "bare", what the least that could do it takes."""

KEPT_S: Final = 4 * 3_600

Fill = Callable[[Store], object]


class Stopwatch:
    """Adds up CPU and wall seconds over the `with` blocks that it is entered for.

    Attributes:
        on_start, on_stop: Called before and after everything that is timed, for who wants to look closer.
    """

    on_start: ClassVar[Callable[[], None] | None] = None
    on_stop: ClassVar[Callable[[], None] | None] = None

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.wall_s = 0.0

    def __enter__(self) -> Stopwatch:
        if Stopwatch.on_start is not None:
            Stopwatch.on_start()
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        self.cpu_s += cpu_s - self._cpu_s
        self.wall_s += wall_s - self._wall_s
        if Stopwatch.on_stop is not None:
            Stopwatch.on_stop()

    def per(self, operations: int) -> Figures:
        """Microseconds for each of so many operations."""
        return {"cpu": self.cpu_s * 1e6 / operations, "wall": self.wall_s * 1e6 / operations}


class Bench:
    """What a workload gets for one run with one peer: a folder of its own, and how large to be.

    Attributes:
        peer: Who runs it.
        scale: 1.0 in earnest; less for a quick look.
        latest: The folder of the database that was made or copied last.
    """

    latest: Path

    def __init__(self, peer: Peer, scale: float, folder: Path) -> None:
        self.peer = peer
        self.scale = scale
        self._folder = folder
        self._runs = 0

    def count(self, in_earnest: int, least: int = 16) -> int:
        """How many operations at this scale."""
        return max(least, round(in_earnest * self.scale))

    @contextmanager
    def empty(self, durability: Durability = "soft", layout: Layout = PLAIN) -> Iterator[Store]:
        """A new database, closed and removed afterwards."""
        folder = self._new_folder()
        yield from self._opened(folder, layout, durability)

    @contextmanager
    def filled(
        self,
        name: str,
        fill: Fill,
        durability: Durability = "soft",
        layout: Layout = PLAIN,
    ) -> Iterator[Store]:
        """A database as `fill` leaves it; made once under this name, and copied for each run."""
        folder = self.copy(name, fill, layout)
        yield from self._opened(folder, layout, durability)

    def copy(self, name: str, fill: Fill, layout: Layout = PLAIN) -> Path:
        """The folder of such a copy, closed. It goes with the whole run."""
        template = self._folder / f"template-{name}"
        if not template.exists():
            making = self._new_folder()
            store = self.peer.open(making, layout, "soft")
            try:
                fill(store)
            finally:
                store.close()
            making.rename(template)
        folder = self._new_folder(make=False)
        shutil.copytree(template, folder)
        return folder

    def kept(self, name: str, fill: Fill, layout: Layout = PLAIN) -> Path:
        """The folder of a database as `fill` leaves it, closed; made once and kept beyond the run, for databases that take a
        minute to make. To be read from, never written to.

        It lies in the folder for temporary files, under a name with a digest of the code that makes it: who changes the
        code gets a new one, and the old ones are removed when they have not been used for hours.
        """
        folder = kept_folder() / f"{self.peer.name}-{name}-{self.scale:g}"
        if not folder.exists():
            making = self._new_folder()
            store = self.peer.open(making, layout, "soft")
            try:
                fill(store)
            finally:
                store.close()
            shutil.move(making, folder)
        return folder

    def folder_of(self, kept: Path) -> Path:
        """A copy of such a folder, to be written to. It goes with the whole run."""
        folder = self._new_folder(make=False)
        shutil.copytree(kept, folder)
        return folder

    @contextmanager
    def opened(
        self, folder: Path, layout: Layout = PLAIN, durability: Durability = "soft"
    ) -> Iterator[Store]:
        """The database in this folder, closed and removed afterwards."""
        yield from self._opened(folder, layout, durability)

    @contextmanager
    def opened_kept(self, folder: Path, layout: Layout = PLAIN) -> Iterator[Store]:
        """A kept database, to be read from. It stays."""
        store = self.peer.open(folder, layout, "soft")
        try:
            yield store
        finally:
            store.close()

    def _opened(self, folder: Path, layout: Layout, durability: Durability) -> Iterator[Store]:
        store = self.peer.open(folder, layout, durability)
        try:
            yield store
        finally:
            store.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _new_folder(self, *, make: bool = True) -> Path:
        self._runs += 1
        folder = self.latest = self._folder / f"run-{self._runs}"
        if make:
            folder.mkdir(parents=True)
        return folder


def package_folder() -> Path:
    """The folder of the package that this process measures."""
    [folder] = import_module(OURS).__path__
    return Path(folder)


def kept_folder() -> Path:
    """Where databases are kept that were made by the code as it is."""
    digest = hashlib.sha1()
    # The package may be another copy than the one beside the benchmarks.
    for place in (package_folder(), ROOT / "benchmarks/peers"):
        for file in sorted(place.rglob("*.py")):
            digest.update(file.read_bytes())
    digest.update((ROOT / "benchmarks/documents.py").read_bytes())
    above = Path(tempfile.gettempdir()) / "reactdb-benchmarks-kept"
    folder = above / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    folder.touch()
    for other in above.iterdir():
        # Not at once: somebody may run another version meanwhile.
        if time.time() - other.stat().st_mtime > KEPT_S:
            shutil.rmtree(other, ignore_errors=True)
    return folder


@dataclass(frozen=True, slots=True)
class Workload:
    """One question, and the function that answers it. See `workloads`.

    Attributes:
        name: W1, W1-shuffled, ...
        unit: Of its figures.
        run: One run with one peer.
    """

    name: str
    unit: str
    run: Callable[[Bench], Figures]

    @property
    def title(self) -> str:
        return (self.run.__doc__ or self.name).strip().partition("\n")[0].rstrip(".")


@dataclass(slots=True)
class Summary:
    """One peer's figures for one workload, one sample a repeat.

    Attributes:
        samples: Metric to the figures, in the workload's unit.
        ratios: (base, metric) to base divided by this peer, in the same repeats: 2.0 is twice as fast (or half as large).
    """

    samples: dict[str, list[float]] = field(default_factory=dict)
    ratios: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def middle(self, metric: str) -> float:
        return median(self.samples[metric])

    def spread(self, metric: str) -> float:
        """How far the samples lie apart, as a share of their median."""
        samples = self.samples[metric]
        middle = median(samples)
        return (max(samples) - min(samples)) / middle if middle else 0.0

    def ratio(self, metric: str, base: str = BASE) -> float | None:
        found = self.ratios.get((base, metric))
        return median(found) if found else None


@dataclass(slots=True)
class Outcome:
    """A workload with the summaries of the peers that have it, in the order of the peers.

    Attributes:
        left_out: Peers that do not have it, with the reason where they gave one.
    """

    workload: Workload
    peers: dict[str, Summary]
    left_out: dict[str, str] = field(default_factory=dict)

    def winner(self, metric: str) -> str | None:
        """The peer with the least median. None among fewer than two."""
        found = {
            name: summary.middle(metric) for name, summary in self.peers.items() if metric in summary.samples
        }
        return min(found, key=lambda name: found[name]) if len(found) > 1 else None


def measure(
    workloads: Sequence[Workload],
    peers: Sequence[Peer],
    *,
    repeat: int,
    scale: float,
    others: int | None = None,
) -> Iterator[Outcome]:
    """Run every workload `repeat` times with every peer, but only `others` times with those that no mark looks at. Progress goes
    to standard error."""
    for workload in workloads:
        began = time.perf_counter()
        print(f"{workload.name}: {workload.title}", end=" ", file=sys.stderr, flush=True)
        # In the folder for temporary files: TMPDIR chooses the disk.
        with tempfile.TemporaryDirectory(prefix="reactdb-benchmarks-") as folder:
            benches = [Bench(peer, scale, Path(folder) / peer.name) for peer in peers]
            outcome = run_in_turns(workload, benches, repeat, repeat if others is None else others)
        print(f" {time.perf_counter() - began:.0f} s", file=sys.stderr)
        yield outcome


def run_in_turns(
    workload: Workload, benches: Sequence[Bench], repeat: int, others: int | None = None
) -> Outcome:
    summaries: dict[str, Summary] = {bench.peer.name: Summary() for bench in benches}
    left_out: dict[str, str] = {}
    for turn in range(repeat):
        first = turn % len(benches)
        figures: dict[str, Figures] = {}
        for bench in [*benches[first:], *benches[:first]]:
            if others is not None and turn >= others and bench.peer.name not in (*BASES, OURS):
                continue
            gc.collect()
            try:
                measure_itself = bench.peer.figures(workload.name, bench.scale)
                figures[bench.peer.name] = workload.run(bench) if measure_itself is None else measure_itself
            except NotOffered as reason:
                summaries.pop(bench.peer.name, None)
                if str(reason):
                    left_out[bench.peer.name] = str(reason)
        take_in(figures, summaries)
        print(".", end="", file=sys.stderr, flush=True)
    taking_part = {name: summary for name, summary in summaries.items() if summary.samples}
    return Outcome(workload, taking_part, left_out)


def take_in(figures: dict[str, Figures], summaries: dict[str, Summary]) -> None:
    """Add one repeat's figures, and their ratios to the bases of the same repeat."""
    for name, found in figures.items():
        for metric, figure in found.items():
            summaries[name].samples.setdefault(metric, []).append(figure)
            for base in (*BASES, *(other for other in figures if other.startswith(BESIDE))):
                of_base = figures.get(base, {})
                if metric in of_base and figure > 0:
                    summaries[name].ratios.setdefault((base, metric), []).append(of_base[metric] / figure)


def expect(expected: object, actual: object) -> None:
    """A workload's look at its own result: who does nothing is always fastest."""
    if expected != actual:
        raise AssertionError(f"the workload gave {actual!r} instead of {expected!r}")


def scores(documents: Sequence[Document]) -> int:
    return sum(document["score"] for document in documents)
